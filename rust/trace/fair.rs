//! Defines fair shares: how much of the cluster each owner should get (docs/operators.md#fair-share).

/// The shares of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairShares<'a> {
    /// The place in `share` of each job's owner.
    pub owner: &'a [u32],
    /// One share per owner, >= 0. Jobs of an owner whose share is 0 come last.
    pub share: &'a [f64],
}
