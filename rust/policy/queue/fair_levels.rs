//! Counts what owners have used, for [`FairQueue`](super::FairQueue), and says by what their jobs rank: by the usage of
//! their owners, or by that of accounts and then of the users in them (Slurm's Fair Tree,
//! <https://slurm.schedmd.com/fair_tree.html>).
//!
//! Invariant: holding GPUs changes no key of the pass in which it begins. For example, an owner with a share of 2 that
//! used 100 GPU-seconds ranks as one with a share of 1 that used 50.

use crate::ds::{ordered, packed, unpacked};
use crate::ids::Job;
use crate::trace::FairShares;
use std::f64::consts::LN_2;

/// What an owner has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    share: f64,
    /// Unit-seconds, as of the last change of what it holds.
    used: f64,
    /// When that was, s.
    since: f64,
    /// Units held since then: GPUs, or thousandths of one.
    held: u64,
}

impl Account {
    /// Creates one account per share.
    pub(super) fn all(shares: &[f64]) -> Vec<Self> {
        shares.iter().map(|&share| Self { share, used: 0.0, since: 0.0, held: 0 }).collect()
    }

    /// Returns the unit-seconds, as of an instant.
    fn used_at(&self, now: f64, half_life: f64) -> f64 {
        let halvings = f64::max(0.0, now - self.since) / half_life;
        let grown =
            if self.held == 0 { 0.0 } else { self.held as f64 * half_life * (-(-halvings * LN_2).exp_m1() / LN_2) };
        self.used * (-halvings).exp2() + grown
    }

    /// Records that units are held, or no longer.
    pub(super) fn hold(&mut self, units: u32, begins: bool, now: f64, half_life: f64) {
        self.used = self.used_at(now, half_life);
        self.since = now;
        let units = u64::from(units);
        self.held = if begins { self.held + units } else { self.held - units };
    }
}

/// By what usage is counted in a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decay {
    pub(super) half_life: f64,
    /// Units per GPU.
    pub(super) per_gpu: f64,
    /// When the latest pass was, s.
    pub(super) now: f64,
}

impl Decay {
    /// Returns usage / share as of the last change of what an account holds, NaN for a share of 0; and when that was.
    pub(super) fn at_last_change(&self, account: &Account) -> (f64, f64) {
        let ratio = if account.share == 0.0 { f64::NAN } else { account.used / self.per_gpu / account.share };
        (ratio, account.since)
    }

    /// Returns where the jobs of an account rank: by usage / share; a share of 0 is last.
    pub(super) fn key_of(&self, account: &Account) -> u64 {
        if account.share == 0.0 {
            return u64::MAX;
        }
        let used = account.used_at(self.now, self.half_life) / self.per_gpu;
        ordered(rounded((used / account.share).min(f64::MAX)))
    }
}

/// What jobs rank by after the usage of their owners.
pub(crate) trait Levels: Clone + Send {
    /// (tier, usage / share of the owner, ..., job) in the order in which jobs rank.
    type Spot: Copy + Ord + Send + std::fmt::Debug;

    fn new(fair: FairShares<'_>) -> Self;

    /// Returns the spot of a job of a tier, given where its owner ranks.
    fn spot(&self, tier: u32, key: u64, job: Job, decay: &Decay) -> Self::Spot;

    /// Returns the spot of a promoted job, which has no usage.
    fn promoted(job: Job) -> Self::Spot;

    /// Returns where the owner of a spot's job ranks, and the job.
    fn read(spot: Self::Spot) -> (u64, Job);

    /// Records that a stay of a job of so many units begins, or ends.
    fn hold(&mut self, _job: Job, _units: u32, _begins: bool, _now: f64, _half_life: f64) {}
}

/// Nothing but the usage of owners.
#[derive(Clone, Debug)]
pub(crate) struct OneLevel;

impl Levels for OneLevel {
    /// Packed.
    type Spot = u128;

    fn new(_fair: FairShares<'_>) -> Self {
        Self
    }

    #[inline]
    fn spot(&self, tier: u32, key: u64, job: Job, _decay: &Decay) -> u128 {
        packed(tier, key, job.number())
    }

    #[inline]
    fn promoted(job: Job) -> u128 {
        packed(0, 0, job.number())
    }

    #[inline]
    fn read(spot: u128) -> (u64, Job) {
        let (_, key, job) = unpacked(spot);
        (key, Job::new(job))
    }
}

/// Rounds a number to 31 binary digits, so that rounding errors alone order no two numbers.
fn rounded(number: f64) -> f64 {
    const DROPPED: u32 = 22;
    f64::from_bits((number.to_bits() + (1 << (DROPPED - 1))) >> DROPPED << DROPPED)
}

/// Users inside accounts, which are the owners.
#[derive(Clone, Debug)]
pub(crate) struct TwoLevels {
    /// The user of each job.
    user: Vec<u32>,
    accounts: Vec<Account>,
}

impl Levels for TwoLevels {
    /// (tier and owner packed, usage / share of the user, job).
    type Spot = (u128, u64, Job);

    fn new(fair: FairShares<'_>) -> Self {
        let users = fair.users.unwrap_or_default();
        Self { user: users.user.to_vec(), accounts: Account::all(users.share) }
    }

    fn spot(&self, tier: u32, key: u64, job: Job, decay: &Decay) -> Self::Spot {
        let user = self.user[job.index()] as usize;
        (packed(tier, key, 0), decay.key_of(&self.accounts[user]), job)
    }

    fn promoted(job: Job) -> Self::Spot {
        (0, 0, job)
    }

    fn read((owner, _, job): Self::Spot) -> (u64, Job) {
        (unpacked(owner).1, job)
    }

    fn hold(&mut self, job: Job, units: u32, begins: bool, now: f64, half_life: f64) {
        self.accounts[self.user[job.index()] as usize].hold(units, begins, now, half_life);
    }
}

#[cfg(test)]
mod tests {
    use super::Account;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_account_is_the_integral_over_its_stays(
            stays in prop::collection::vec((0u32..50, 1u32..50, 1u64..9), 0..12),
            half_life in prop::sample::select(vec![1e-3, 1.0, 7.5, 100.0, 1e16]),
        ) {
            let stays: Vec<(f64, f64, u64)> =
                stays.iter().map(|&(start, length, held)| (start.into(), (start + length).into(), held)).collect();
            let mut changes: Vec<(f64, u64, bool)> =
                stays.iter().flat_map(|&(start, end, held)| [(start, held, true), (end, held, false)]).collect();
            changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.2.cmp(&a.2)));
            let mut account = Account { share: 1.0, used: 0.0, since: 0.0, held: 0 };
            for now in 0..120 {
                let now = f64::from(now);
                while let Some(&(time, held, begins)) = changes.first() && time <= now {
                    account.used = account.used_at(time, half_life);
                    account.since = time;
                    account.held = if begins { account.held + held } else { account.held - held };
                    changes.remove(0);
                }
                let age = |time: f64| (-f64::max(0.0, now - time) / half_life).exp2();
                let in_all: f64 = stays.iter().filter(|stay| stay.0 <= now).map(|&(start, end, held)| {
                    let end = end.min(now);
                    // With the longest half-life nothing ages, and the difference would be all rounding.
                    let seconds = if half_life == 1e16 { end - start } else {
                        half_life / std::f64::consts::LN_2 * (age(end) - age(start))
                    };
                    held as f64 * seconds
                }).sum();
                let found = account.used_at(now, half_life);
                prop_assert!((found - in_all).abs() <= 1e-12 * in_all.max(1e-300), "{found} {in_all} at {now}");
            }
        }
    }
}
