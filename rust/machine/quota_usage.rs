//! Tracks quotas: the GPUs that each owner's jobs hold and may hold together (docs/priorities-reference.md#quotas).
//!
//! A job has one owner of each book of quotas; what holds for all of them holds for the job. Invariant: `held` of a
//! quota is the sum of the GPUs of its owner's live stays. For example, with a quota of 8 GPUs and a job of 6 running,
//! a second job of 4 is over quota, and a second job of 2 is within it.

use super::cluster_state::ClusterState;
use crate::ids::{Job, Slot};
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{OwnedQuotas, Quota};
use std::collections::BTreeMap;

/// GPUs held by every owner.
#[derive(Clone, Debug)]
pub(super) struct QuotaUsage {
    quotas: OwnedQuotas,
    /// Whether some quotas may be exceeded and others may not.
    pub(super) lends_and_caps: bool,
    /// GPUs, by quota.
    held: Vec<u64>,
    /// Whether the stay at each slot is over quota.
    over: Vec<bool>,
    /// Quotas of which more or less is held since `next_stirred` last returned them.
    changed: Vec<u32>,
}

/// How a job that would start now stands to its owners' quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Claimant {
    /// Within all quotas.
    Within,
    /// Over a quota, on borrowed GPUs.
    Over,
    /// Over a quota whose owner may not borrow: it may not start.
    HeldBack,
}

impl Claimant {
    /// Returns how `num_gpus` GPUs more than the `held` ones stand to a quota.
    #[inline]
    fn of(quota: Quota, held: u64, num_gpus: u32) -> Self {
        match held + u64::from(num_gpus) > quota.gpus {
            true if quota.borrow => Self::Over,
            true => Self::HeldBack,
            false => Self::Within,
        }
    }
}

impl QuotaUsage {
    /// Returns the quotas of the setting, if it has any.
    pub(super) fn new(setting: &Setting<'_>) -> Option<Box<Self>> {
        let quotas = setting.side.quotas?.to_owned();
        let lend = quotas.list.iter().filter(|quota| quota.borrow).count();
        let lends_and_caps = 0 < lend && lend < quotas.list.len();
        Some(Box::new(Self {
            lends_and_caps,
            held: vec![0; quotas.list.len()],
            over: Vec::new(),
            changed: Vec::new(),
            quotas,
        }))
    }

    /// Returns the places of a job's quotas.
    #[inline]
    fn of(&self, job: Job) -> impl Iterator<Item = usize> + '_ {
        self.quotas.view().of(self.quotas.owner[job.index()])
    }

    /// Changes what is held of a job's quotas.
    #[inline]
    fn change(&mut self, job: Job, to: impl Fn(u64) -> u64) {
        let Self { quotas, held, changed, .. } = self;
        for place in quotas.view().of(quotas.owner[job.index()]) {
            held[place] = to(held[place]);
            changed.push(place as u32);
        }
    }

    fn claimant(&self, job: Job, num_gpus: u32) -> Claimant {
        self.standing(self.quotas.owner[job.index()], num_gpus)
    }

    /// Returns how a job of such owners that requests `num_gpus` GPUs stands to their quotas.
    #[inline]
    fn standing(&self, owner: u32, num_gpus: u32) -> Claimant {
        self.standing_with(&self.held, owner, num_gpus)
    }

    /// Returns the same where so many GPUs are held of each quota.
    #[inline]
    fn standing_with(&self, held: &[u64], owner: u32, num_gpus: u32) -> Claimant {
        let quotas = self.quotas.view();
        let each = quotas.of(owner).map(|place| Claimant::of(quotas.list[place], held[place], num_gpus));
        each.max().unwrap_or(Claimant::Within)
    }
}

/// GPUs of the jobs counted so far that are within all their quotas, by quota.
#[derive(Clone, Debug)]
pub(crate) struct Tally(Vec<u64>);

impl<S: Speed> ClusterState<'_, S> {
    /// Returns an empty tally.
    pub(crate) fn tally(&self) -> Tally {
        Tally(self.quota_usage.as_ref().map_or_else(Vec::new, |quota_usage| vec![0; quota_usage.held.len()]))
    }

    /// Counts the next job of an order. Returns how it stands to its owners' quotas.
    pub(crate) fn count(&self, tally: &mut Tally, job: Job) -> Claimant {
        self.count_on(tally, job, self.asks(job))
    }

    /// Counts the next job of an order like `count`, with that many GPUs.
    pub(crate) fn count_on(&self, tally: &mut Tally, job: Job, num_gpus: u32) -> Claimant {
        let Some(quota_usage) = &self.quota_usage else { return Claimant::Within };
        let claimant = quota_usage.standing_with(&tally.0, quota_usage.quotas.owner[job.index()], num_gpus);
        if claimant == Claimant::Within {
            quota_usage.of(job).for_each(|place| tally.0[place] += u64::from(num_gpus));
        }
        claimant
    }

    /// Returns how a job that would start now on that many GPUs stands to its owners' quotas.
    pub(crate) fn claimant(&self, job: Job, num_gpus: u32) -> Claimant {
        self.quota_usage.as_ref().map_or(Claimant::Within, |quota_usage| quota_usage.claimant(job, num_gpus))
    }

    /// Returns the same for any job of a set of owners that requests `num_gpus` GPUs.
    pub(crate) fn standing(&self, owner: u32, num_gpus: u32) -> Claimant {
        self.quota_usage.as_ref().map_or(Claimant::Within, |quota_usage| quota_usage.standing(owner, num_gpus))
    }

    /// Returns whether `num_gpus` GPUs more would be within a quota, given by its place.
    pub(crate) fn is_within(&self, place: u32, num_gpus: u32) -> bool {
        self.quota_usage.as_ref().is_none_or(|quota_usage| {
            let place = place as usize;
            Claimant::of(quota_usage.quotas.list[place], quota_usage.held[place], num_gpus) == Claimant::Within
        })
    }

    /// Returns the places of a job's quotas.
    pub(crate) fn quotas_of(&self, job: Job) -> impl Iterator<Item = usize> + '_ {
        self.quota_usage.iter().flat_map(move |quota_usage| quota_usage.of(job))
    }

    /// Returns the GPUs that may be held of each quota; `u64::MAX` where more may be borrowed.
    pub(crate) fn most_by_quota(&self) -> Vec<u64> {
        let most = |quota: &Quota| if quota.borrow { u64::MAX } else { quota.gpus };
        self.quota_usage
            .as_ref()
            .map_or_else(Vec::new, |quota_usage| quota_usage.quotas.list.iter().map(most).collect())
    }

    /// Returns the place of a quota of which more or less is held since the last call; each change once.
    pub(crate) fn next_stirred(&mut self) -> Option<u32> {
        self.quota_usage.as_mut()?.changed.pop()
    }

    /// Returns whether a job may not start now because an owner of it holds too much.
    #[inline]
    pub(crate) fn is_held_back(&self, job: Job) -> bool {
        self.quota_usage.is_some() && self.claimant(job, self.asks(job)) == Claimant::HeldBack
    }

    /// Returns a job's quota in every book that has one: the book, the quota, and the GPUs held of it.
    pub(crate) fn quotas_by_book(&self, job: Job) -> impl Iterator<Item = (usize, Quota, u64)> + '_ {
        self.quota_usage.iter().flat_map(move |quota_usage| {
            let owner = quota_usage.quotas.owner[job.index()];
            (0..quota_usage.quotas.books).filter_map(move |book| {
                let place = quota_usage.quotas.view().in_book(owner, book)?;
                Some((book, quota_usage.quotas.list[place], quota_usage.held[place]))
            })
        })
    }

    /// Returns the book and the quota that hold a job back now, and the GPUs held of it: those of the first such book.
    pub(crate) fn held_back_by(&self, job: Job) -> Option<(usize, Quota, u64)> {
        let num_gpus = self.asks(job);
        self.quotas_by_book(job).find(|&(_, quota, held)| Claimant::of(quota, held, num_gpus) == Claimant::HeldBack)
    }

    /// Checks jobs that would change their numbers of GPUs, all at once. Returns the first of which an owner may not
    /// borrow enough, and why. changes: jobs, GPUs that they hold and would hold.
    pub(crate) fn beyond_quota(&self, changes: &[(Job, u32, u32)]) -> Option<(Job, String)> {
        let quota_usage = self.quota_usage.as_ref()?;
        let mut sums: BTreeMap<usize, (u64, u64)> = BTreeMap::new();
        for &(job, own, wanted) in changes {
            for place in quota_usage.of(job) {
                let sum = sums.entry(place).or_default();
                *sum = (sum.0 + u64::from(own), sum.1 + u64::from(wanted));
            }
        }
        let more = changes.iter().filter(|&&(_, own, wanted)| wanted > own);
        more.flat_map(|&(job, ..)| quota_usage.of(job).map(move |place| (job, place))).find_map(|(job, place)| {
            let (quota, (given_back, wanted)) = (quota_usage.quotas.list[place], sums[&place]);
            let others = quota_usage.held[place] - given_back;
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
        quota_usage.change(job, |held| held + u64::from(num_gpus));
    }

    /// Notes that a stay ends.
    pub(super) fn let_go(&mut self, job: Job, num_gpus: u32) {
        let Some(quota_usage) = &mut self.quota_usage else { return };
        quota_usage.change(job, |held| held - u64::from(num_gpus));
    }
}
