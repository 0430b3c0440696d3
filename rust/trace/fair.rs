//! Defines fair shares: how much of the cluster each owner should get (docs/operators.md#fair-share).

/// The shares of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairShares<'a> {
    /// The place in `share` of each job's owner.
    pub owner: &'a [u32],
    /// One share per owner, >= 0. Jobs of an owner whose share is 0 come last.
    pub share: &'a [f64],
    /// With a second level, the users inside the owners.
    pub users: Option<FairUsers<'a>>,
}

/// Users, each of one owner: how its jobs share what the owner gets.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairUsers<'a> {
    /// The place in `share` of each job's user. Two owners have no user in common.
    pub user: &'a [u32],
    /// One share per user, >= 0. Jobs of a user whose share is 0 come last among those of its owner.
    pub share: &'a [f64],
}
