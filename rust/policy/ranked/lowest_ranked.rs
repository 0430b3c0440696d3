//! Keeps the running jobs ordered from the end of the ranking.
//!
//! Invariant: a job's true key is not above its stored one until the job's instant in `by_expiry`. A key is corrected
//! when it comes to the front. For example, SRTF stores the time that was left when a job started, and a job at the
//! front is moved back if others now have more left.
//!
//! Where keys change with every pass (`Keys::ByNumber`), a job is first stored with a loose ceiling, which costs
//! nothing. When it comes to the front it gets a close ceiling, and, if it comes to the front again, its true key for
//! that pass alone. So a pass costs the running jobs near the end of the ranking, not all.

use super::{Keys, Place, Ranking, before, pool_of};
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::machine::ClusterState;
use crate::setting::Setting;
use crate::speed::Speed;

/// Running jobs by key, the last of the ranking first, pool by pool: GPUs of one type.
#[derive(Clone, Debug)]
pub(super) struct LowestRanked {
    /// By pool, then by tier.
    by_key: Vec<EventHeap>,
    /// Tiers that occur, ascending.
    tiers: Vec<u32>,
    /// By the instant at which a key must be stored anew.
    by_expiry: EventHeap,
    expired: Vec<Slot>,
    /// What each slot's stored key is (`Keys::ByNumber` only, like all fields below).
    held: Vec<Held>,
    /// Slots stored with the true key at the last pass.
    truly: Vec<Slot>,
    /// Whether no close ceiling is valid any longer.
    is_void: bool,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    /// A loose ceiling.
    Loosely,
    /// This close ceiling.
    Closely(f64),
    /// The true key of one pass; later this close ceiling again.
    Truly(f64),
}

impl LowestRanked {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        // Jobs are numbered by tier.
        let mut tiers: Vec<u32> = match setting.jobs.priority {
            None => vec![0],
            Some(_) => (0..setting.jobs.len()).map(|job| setting.jobs.tier(job)).collect(),
        };
        tiers.dedup();
        Self {
            by_key: vec![EventHeap::default(); setting.num_pools() * tiers.len()],
            tiers,
            by_expiry: EventHeap::default(),
            expired: Vec::new(),
            held: Vec::new(),
            truly: Vec::new(),
            is_void: false,
        }
    }

    /// Returns the index of the running jobs of a pool and a tier.
    #[inline]
    fn group(&self, pool: usize, tier: u32) -> usize {
        if self.tiers.len() == 1 {
            return pool;
        }
        pool * self.tiers.len() + self.tiers.partition_point(|&other| other < tier)
    }

    pub(super) fn set(&mut self, ranking: &impl Ranking, pool: usize, slot: Slot, (tier, key, job): (u32, f64, Job)) {
        let group = self.group(pool, tier);
        self.by_key[group].set(slot.number(), -key, !ranking.row(job));
    }

    pub(super) fn remove(&mut self, pool: usize, tier: u32, slot: Slot) {
        let group = self.group(pool, tier);
        self.by_key[group].remove(slot.number());
    }

    /// Removes a stay that has ended.
    pub(super) fn forget<S: Speed>(&mut self, state: &ClusterState<'_, S>, slot: Slot) {
        let tier = state.jobs.tier(state.stays[slot.index()].job.index());
        self.remove(pool_of(state, slot), tier, slot);
        self.by_expiry.remove(slot.number());
        if let Some(held) = self.held.get_mut(slot.index()) {
            *held = Held::Loosely;
        }
    }

    /// Returns the first instant at which a key must be stored anew.
    pub(super) fn expiry(&self) -> f64 {
        self.by_expiry.peek().map_or(f64::INFINITY, |(time, _)| time)
    }

    /// Returns an upper bound of the keys of a tier's running jobs; `None` if there are none, or some of a later
    /// tier.
    pub(super) fn ceiling(&self, pool: usize, tier: u32) -> Option<f64> {
        if self.tiers.len() == 1 {
            return self.by_key[pool].peek().map(|(stored, _)| -stored);
        }
        let (first, last) = (self.group(pool, tier), (pool + 1) * self.tiers.len() - 1);
        let (group, later) = self.by_key[first..=last].split_first()?;
        let is_last = later.iter().all(|group| group.peek().is_none());
        group.peek().filter(|_| is_last).map(|(stored, _)| -stored)
    }

    /// Invalidates all close ceilings.
    pub(super) fn void(&mut self) {
        self.is_void = true;
    }

    /// Stores a ceiling of a running job's key.
    pub(super) fn hold<R: Ranking, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        slot: Slot,
        closely: bool,
    ) {
        if R::KEYS == Keys::Move {
            return;
        }
        let stay = &state.stays[slot.index()];
        let (ceiling, until) = ranking.ceiling(state, stay, closely);
        self.set(ranking, pool_of(state, slot), slot, (state.jobs.tier(stay.job.index()), ceiling, stay.job));
        if until < f64::INFINITY {
            self.by_expiry.set(slot.number(), until, stay.job.number());
        } else {
            self.by_expiry.remove(slot.number());
        }
        if R::KEYS == Keys::ByNumber {
            let len = self.held.len().max(slot.index() + 1);
            self.held.resize(len, Held::Loosely);
            self.held[slot.index()] = if closely { Held::Closely(ceiling) } else { Held::Loosely };
        }
    }

    /// Prepares a pass: every stored key is then a ceiling, and every row is right.
    pub(super) fn renew<R: Ranking, S: Speed>(&mut self, ranking: &mut R, state: &ClusterState<'_, S>) {
        let mut expired = std::mem::take(&mut self.expired);
        expired.clear();
        if std::mem::take(&mut self.is_void) {
            self.truly.clear();
            let live = state.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
            expired.extend(live.map(|(slot, _)| Slot::at(slot)));
        }
        while let Some((time, slot)) = self.by_expiry.peek()
            && time <= state.now
        {
            self.by_expiry.remove(slot);
            expired.push(Slot::new(slot));
        }
        while let Some(slot) = ranking.next_moved() {
            expired.push(slot);
        }
        while let Some(slot) = self.truly.pop() {
            if let Held::Truly(ceiling) = self.held[slot.index()] {
                self.held[slot.index()] = Held::Closely(ceiling);
                let job = state.stays[slot.index()].job;
                self.set(ranking, pool_of(state, slot), slot, (state.jobs.tier(job.index()), ceiling, job));
            }
        }
        for &slot in &expired {
            self.hold(ranking, state, slot, false);
        }
        self.expired = expired;
    }

    /// Returns the running job of a pool that ranks last, if it ranks behind that place: its place and slot.
    pub(super) fn last_behind<R: Ranking, S: Speed>(
        &mut self,
        pool: usize,
        place: Place<R::Tie>,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
    ) -> Option<(Place<R::Tie>, Slot)> {
        if self.tiers.len() == 1 {
            return self.last_of(pool, pool, place, ranking, state);
        }
        let (first, last) = (self.group(pool, place.0), (pool + 1) * self.tiers.len() - 1);
        (first..=last).rev().find_map(|group| self.last_of(group, pool, place, ranking, state))
    }

    /// Returns the same among the jobs of one tier.
    #[inline]
    fn last_of<R: Ranking, S: Speed>(
        &mut self,
        group: usize,
        pool: usize,
        place: Place<R::Tie>,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
    ) -> Option<(Place<R::Tie>, Slot)> {
        let tier = self.tiers[group - pool * self.tiers.len()];
        loop {
            let (stored, slot) = self.by_key[group].peek()?;
            let slot = Slot::new(slot);
            let stay = &state.stays[slot.index()];
            let (ceiling, job) = (-stored, stay.job);
            let tie = ranking.tie(job);
            if !before(place, (tier, ceiling, tie, job)) {
                return None;
            }
            let is_true = match self.held.get(slot.index()) {
                None => {
                    let key = ranking.running_key(state, stay);
                    if key != ceiling {
                        self.set(ranking, pool, slot, (tier, key, job));
                    }
                    key == ceiling
                }
                Some(Held::Truly(_)) => true,
                Some(&Held::Closely(close)) => {
                    self.held[slot.index()] = Held::Truly(close);
                    self.truly.push(slot);
                    let key = ranking.running_key(state, stay);
                    self.set(ranking, pool, slot, (tier, key, job));
                    false
                }
                Some(Held::Loosely) => {
                    self.hold(ranking, state, slot, true);
                    false
                }
            };
            if is_true {
                return Some(((tier, ceiling, tie, job), slot));
            }
        }
    }
}
