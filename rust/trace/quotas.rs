//! Defines quotas: how many GPUs each owner's jobs may hold together (docs/priorities.md#quotas).

/// The quota of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// GPUs.
    pub gpus: u64,
    /// Whether jobs may borrow GPUs beyond that.
    pub borrow: bool,
}

/// The quotas of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quotas<'a> {
    /// The place in `list` of each job's owner; any other number for a job without a quota.
    pub owner: &'a [u32],
    /// One quota per owner.
    pub list: &'a [Quota],
}
