//! Tracks quotas: the GPUs that each owner's jobs hold and may hold together (docs/priorities-reference.md#quotas).
//!
//! Invariant: `held` of an owner is the sum of the GPUs of its live stays. For example, with a quota of 8 GPUs and a
//! job of 6 running, a second job of 4 is over quota, and a second job of 2 is within it.

use super::cluster_state::ClusterState;
use crate::ids::{Job, Slot};
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::Quota;
use std::collections::BTreeMap;

/// GPUs held by every owner.
#[derive(Clone, Debug)]
pub(super) struct QuotaUsage {
    /// The owner of each job; a number beyond `quotas` for a job without a quota.
    owner: Vec<u32>,
    quotas: Vec<Quota>,
    held: Vec<u64>,
    /// Whether the stay at each slot is over quota.
    over: Vec<bool>,
    /// Owners whose holdings changed since `next_stirred` last returned them.
    changed: Vec<u32>,
}

/// How a job that would start now stands to its owner's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claimant {
    /// Within quota.
    Within,
    /// Over quota, on borrowed GPUs.
    Over,
    /// Over quota, and its owner may not borrow: it may not start.
    HeldBack,
}

impl QuotaUsage {
    /// Returns the quotas of the setting, if it has any.
    pub(super) fn new(setting: &Setting<'_>) -> Option<Box<Self>> {
        let quotas = setting.side.quotas?;
        Some(Box::new(Self {
            owner: quotas.owner.to_vec(),
            quotas: quotas.list.to_vec(),
            held: vec![0; quotas.list.len()],
            over: Vec::new(),
            changed: Vec::new(),
        }))
    }

    fn claimant(&self, job: Job, num_gpus: u32) -> Claimant {
        self.standing(self.owner[job.index()], num_gpus)
    }

    /// Returns how a job of an owner that requests `num_gpus` GPUs stands to the quota.
    fn standing(&self, owner: u32, num_gpus: u32) -> Claimant {
        let owner = owner as usize;
        match (self.quotas.get(owner), self.held.get(owner)) {
            (Some(quota), Some(held)) if held + u64::from(num_gpus) > quota.gpus => {
                if quota.borrow {
                    Claimant::Over
                } else {
                    Claimant::HeldBack
                }
            }
            _ => Claimant::Within,
        }
    }
}

/// GPUs of the jobs counted so far that are within quota, by owner.
#[derive(Clone, Debug)]
pub(crate) struct Tally(Vec<u64>);

impl<S: Speed> ClusterState<'_, S> {
    /// Returns an empty tally.
    pub(crate) fn tally(&self) -> Tally {
        Tally(self.quota_usage.as_ref().map_or_else(Vec::new, |quota_usage| vec![0; quota_usage.quotas.len()]))
    }

    /// Counts the next job of an order. Returns how it stands to its owner's quota.
    pub(crate) fn count(&self, tally: &mut Tally, job: Job) -> Claimant {
        self.count_on(tally, job, self.asks(job))
    }

    /// Counts the next job of an order like `count`, with that many GPUs.
    pub(crate) fn count_on(&self, tally: &mut Tally, job: Job, num_gpus: u32) -> Claimant {
        let Some(quota_usage) = &self.quota_usage else { return Claimant::Within };
        let (owner, num_gpus) = (quota_usage.owner[job.index()] as usize, u64::from(num_gpus));
        match (quota_usage.quotas.get(owner), tally.0.get_mut(owner)) {
            (Some(quota), Some(held)) if *held + num_gpus > quota.gpus => {
                if quota.borrow {
                    Claimant::Over
                } else {
                    Claimant::HeldBack
                }
            }
            (_, Some(held)) => {
                *held += num_gpus;
                Claimant::Within
            }
            _ => Claimant::Within,
        }
    }

    /// Returns how a job that would start now on that many GPUs stands to its owner's quota.
    pub(crate) fn claimant(&self, job: Job, num_gpus: u32) -> Claimant {
        self.quota_usage.as_ref().map_or(Claimant::Within, |quota_usage| quota_usage.claimant(job, num_gpus))
    }

    /// Returns the same for any job of an owner that requests `num_gpus` GPUs.
    pub(crate) fn standing(&self, owner: u32, num_gpus: u32) -> Claimant {
        self.quota_usage.as_ref().map_or(Claimant::Within, |quota_usage| quota_usage.standing(owner, num_gpus))
    }

    /// Returns the number of a job's owner; a number beyond `most_by_owner` if the job has no quota.
    pub(crate) fn owner_of(&self, job: Job) -> usize {
        self.quota_usage.as_ref().map_or(usize::MAX, |quota_usage| quota_usage.owner[job.index()] as usize)
    }

    /// Returns the GPUs that the jobs of each owner may hold; `u64::MAX` for an owner that may borrow.
    pub(crate) fn most_by_owner(&self) -> Vec<u64> {
        let most = |quota: &Quota| if quota.borrow { u64::MAX } else { quota.gpus };
        self.quota_usage.as_ref().map_or_else(Vec::new, |quota_usage| quota_usage.quotas.iter().map(most).collect())
    }

    /// Returns an owner whose holdings changed since the last call; each change once.
    pub(crate) fn next_stirred(&mut self) -> Option<u32> {
        self.quota_usage.as_mut()?.changed.pop()
    }

    /// Returns whether a job may not start now because its owner holds too much.
    #[inline]
    pub(crate) fn is_held_back(&self, job: Job) -> bool {
        self.quota_usage.is_some() && self.claimant(job, self.asks(job)) == Claimant::HeldBack
    }

    /// Returns the quota of a job's owner, if it has one, and the GPUs that the owner's jobs hold.
    pub(crate) fn quota_of(&self, job: Job) -> Option<(Quota, u64)> {
        let quota_usage = self.quota_usage.as_ref()?;
        let owner = quota_usage.owner[job.index()] as usize;
        Some((*quota_usage.quotas.get(owner)?, quota_usage.held[owner]))
    }

    /// Checks jobs that would change their numbers of GPUs, all at once. Returns the first whose owner may not borrow
    /// enough, and why. changes: jobs, GPUs that they hold and would hold.
    pub(crate) fn beyond_quota(&self, changes: &[(Job, u32, u32)]) -> Option<(Job, String)> {
        let quota_usage = self.quota_usage.as_ref()?;
        let mut sums: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for &(job, own, wanted) in changes {
            let sum = sums.entry(quota_usage.owner[job.index()]).or_default();
            *sum = (sum.0 + u64::from(own), sum.1 + u64::from(wanted));
        }
        changes.iter().filter(|&&(_, own, wanted)| wanted > own).find_map(|&(job, ..)| {
            let (quota, held) = self.quota_of(job)?;
            let (given_back, wanted) = sums[&quota_usage.owner[job.index()]];
            let others = held - given_back;
            let why = format!(
                "its owner has a quota of {} GPUs, holds {others} beside these {wanted}, and may not borrow",
                quota.gpus
            );
            (!quota.borrow && others + wanted > quota.gpus).then_some((job, why))
        })
    }

    /// Returns whether the stay at a slot is over quota.
    pub(crate) fn is_over_quota(&self, slot: Slot) -> bool {
        self.quota_usage.as_ref().is_some_and(|quota_usage| quota_usage.over[slot.index()])
    }

    /// Notes that a stay begins.
    pub(super) fn hold(&mut self, slot: Slot, job: Job, num_gpus: u32) {
        let Some(quota_usage) = &self.quota_usage else { return };
        let over = quota_usage.claimant(job, num_gpus) != Claimant::Within;
        self.hold_again(slot, job, num_gpus, over);
    }

    /// Notes that a stay begins or continues, given whether it is over quota.
    pub(super) fn hold_again(&mut self, slot: Slot, job: Job, num_gpus: u32, over: bool) {
        let Some(quota_usage) = &mut self.quota_usage else { return };
        let slots = quota_usage.over.len().max(slot.index() + 1);
        quota_usage.over.resize(slots, false);
        quota_usage.over[slot.index()] = over;
        let owner = quota_usage.owner[job.index()];
        if let Some(held) = quota_usage.held.get_mut(owner as usize) {
            *held += u64::from(num_gpus);
            quota_usage.changed.push(owner);
        }
    }

    /// Notes that a stay ends.
    pub(super) fn let_go(&mut self, job: Job, num_gpus: u32) {
        let Some(quota_usage) = &mut self.quota_usage else { return };
        let owner = quota_usage.owner[job.index()];
        if let Some(held) = quota_usage.held.get_mut(owner as usize) {
            *held -= u64::from(num_gpus);
            quota_usage.changed.push(owner);
        }
    }
}
