//! Running jobs from the end of the ranking.
//!
//! Invariant: a job's true key is not above its stored one until the job's instant in `by_expiry`. A key is put right
//! when it comes to the front. For example, SRTF stores the time that was left when a job started, and a job at the
//! front is moved back if others have more left by now.
//!
//! Where keys move with every pass (`Keys::ByNumber`), a job is first held loosely, by a ceiling that costs nothing.
//! When it comes to the front it gets a close ceiling, and its true key for that pass alone if it is in front again. So a
//! pass costs the running jobs near the end of the ranking, not all.

use super::{Keys, Ranking, before, pool_of};
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::machine::Floor;
use crate::speed::Speed;

/// Running jobs by key, the last of the ranking first, pool by pool: GPUs of one type.
#[derive(Clone, Debug)]
pub(super) struct FromTheEnd {
    by_key: Vec<EventHeap>,
    /// By the instant at which a key must be stored anew.
    by_expiry: EventHeap,
    expired: Vec<Slot>,
    /// What each slot's stored key is (`Keys::ByNumber` only, as all below).
    held: Vec<Held>,
    /// Slots held truly at the last pass.
    truly: Vec<Slot>,
    /// Whether no close ceiling holds any longer.
    is_void: bool,
}

#[derive(Clone, Copy, Debug)]
enum Held {
    /// By a loose ceiling.
    Loosely,
    /// By this close ceiling.
    Closely(f64),
    /// By the true key of one pass; later by this close ceiling again.
    Truly(f64),
}

impl FromTheEnd {
    pub(super) fn new(pools: usize) -> Self {
        Self {
            by_key: vec![EventHeap::default(); pools],
            by_expiry: EventHeap::default(),
            expired: Vec::new(),
            held: Vec::new(),
            truly: Vec::new(),
            is_void: false,
        }
    }

    pub(super) fn set(&mut self, pool: usize, slot: Slot, key: f64, job: Job) {
        self.by_key[pool].set(slot.number(), -key, !job.number());
    }

    pub(super) fn remove(&mut self, pool: usize, slot: Slot) {
        self.by_key[pool].remove(slot.number());
    }

    /// Forgets a stay that has ended.
    pub(super) fn forget(&mut self, slot: Slot, pool: usize) {
        self.by_key[pool].remove(slot.number());
        self.by_expiry.remove(slot.number());
        if let Some(held) = self.held.get_mut(slot.index()) {
            *held = Held::Loosely;
        }
    }

    /// The first instant at which a key must be stored anew.
    pub(super) fn expiry(&self) -> f64 {
        self.by_expiry.peek().map_or(f64::INFINITY, |(time, _)| time)
    }

    /// A number that no running job's key is above.
    pub(super) fn ceiling(&self, pool: usize) -> Option<f64> {
        self.by_key[pool].peek().map(|(stored, _)| -stored)
    }

    /// Gives up all close ceilings.
    pub(super) fn void(&mut self) {
        self.is_void = true;
    }

    /// Stores a ceiling of a running job's key.
    pub(super) fn hold<R: Ranking, S: Speed>(
        &mut self,
        ranking: &mut R,
        floor: &Floor<'_, S>,
        slot: Slot,
        closely: bool,
    ) {
        if R::KEYS == Keys::Move {
            return;
        }
        let stay = &floor.stays[slot.index()];
        let (ceiling, until) = ranking.ceiling(floor, stay, closely);
        self.set(pool_of(floor, slot), slot, ceiling, stay.job);
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

    /// Makes ready for a pass: every stored key is a ceiling now.
    pub(super) fn renew<R: Ranking, S: Speed>(&mut self, ranking: &mut R, floor: &Floor<'_, S>) {
        let mut expired = std::mem::take(&mut self.expired);
        expired.clear();
        if std::mem::take(&mut self.is_void) {
            self.truly.clear();
            let live = floor.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
            expired.extend(live.map(|(slot, _)| Slot::at(slot)));
        }
        while let Some((time, slot)) = self.by_expiry.peek()
            && time <= floor.now
        {
            self.by_expiry.remove(slot);
            expired.push(Slot::new(slot));
        }
        while let Some(slot) = self.truly.pop() {
            if let Held::Truly(ceiling) = self.held[slot.index()] {
                self.held[slot.index()] = Held::Closely(ceiling);
                self.set(pool_of(floor, slot), slot, ceiling, floor.stays[slot.index()].job);
            }
        }
        for &slot in &expired {
            self.hold(ranking, floor, slot, false);
        }
        self.expired = expired;
    }

    /// The running job of a pool that ranks last, if it ranks behind that (key, job): (key, job, slot).
    pub(super) fn last_behind<R: Ranking, S: Speed>(
        &mut self,
        pool: usize,
        place: (f64, Job),
        ranking: &mut R,
        floor: &Floor<'_, S>,
    ) -> Option<(f64, Job, Slot)> {
        loop {
            let (stored, slot) = self.by_key[pool].peek()?;
            let slot = Slot::new(slot);
            let stay = &floor.stays[slot.index()];
            let (ceiling, job) = (-stored, stay.job);
            if !before(place, (ceiling, job)) {
                return None;
            }
            let is_true = match self.held.get(slot.index()) {
                None => {
                    let key = ranking.running_key(floor, stay);
                    if key != ceiling {
                        self.set(pool, slot, key, job);
                    }
                    key == ceiling
                }
                Some(Held::Truly(_)) => true,
                Some(&Held::Closely(close)) => {
                    self.held[slot.index()] = Held::Truly(close);
                    self.truly.push(slot);
                    self.set(pool, slot, ranking.running_key(floor, stay), job);
                    false
                }
                Some(Held::Loosely) => {
                    self.hold(ranking, floor, slot, true);
                    false
                }
            };
            if is_true {
                return Some((ceiling, job, slot));
            }
        }
    }
}
