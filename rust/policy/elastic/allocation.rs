//! The allocation in which a decision records how many GPUs each job gets.
//!
//! Invariant: no pool gives more than is up, and no owner that may not borrow gets more than its quota. For example,
//! of 8 GPUs of which a young job keeps 3 the others get 5 at most.

use super::Rates;
use super::curve::Curves;
use super::queue::{Place, Queue};
use crate::ds::{ordered, unordered};
use crate::ids::Job;
use crate::machine::{Claimant, ClusterState};
use crate::speed::Speed;

/// A job that takes part.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Entry {
    pub(super) job: Job,
    /// Its tier, and its key in the base.
    pub(super) tier: u32,
    pub(super) key: f64,
    /// Work left: iterations, or recorded seconds.
    pub(super) left: f64,
    pub(super) min: u32,
    pub(super) max: u32,
    /// Units per GPU of the job: 1, or thousandths where the table has shares.
    pub(super) unit: u64,
    /// GPUs that it holds, and those that it is to have.
    pub(super) held: u32,
    pub(super) number: u32,
    /// The pool on which it draws, if it does, and whether it may draw on no other.
    pub(super) pool: usize,
    pub(super) tied: bool,
    /// Its standing in its owners' quotas.
    pub(super) standing: Claimant,
    /// Whether it runs and is protected: then it gets min_gpus before all others.
    pub(super) is_protected: bool,
}

/// A position in the order of a decision: jobs over quota come last.
pub(super) type Rank = (Claimant, Place);

impl Entry {
    /// Creates an entry. `held`: pool and GPUs of a job that runs.
    pub(super) fn new<S: Speed>(
        state: &ClusterState<'_, S>,
        job: Job,
        key: f64,
        left: f64,
        held: Option<(usize, u32)>,
    ) -> Self {
        let (min, max) = state.jobs.range_of(job.index());
        let (pool, held) = held.unwrap_or_default();
        let tier = state.jobs.tier(job.index());
        let unit = u64::from(state.units(job) / state.asks(job));
        let (tied, standing) = (held > 0, Claimant::Within);
        let is_protected = false;
        Self { job, tier, key, left, min, max, unit, held, number: 0, pool, tied, standing, is_protected }
    }

    /// Returns its position in the order of the base.
    pub(super) fn place(&self) -> Place {
        (self.tier, ordered(self.key), self.job)
    }

    /// Returns whether it keeps at least min_gpus, wherever the others go.
    pub(super) fn stays(&self) -> bool {
        self.is_protected && self.number > 0
    }

    pub(super) fn rank(&self) -> Rank {
        (self.standing, self.place())
    }
}

/// All jobs that take part, and what is free.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Allocation {
    pub(super) entries: Vec<Entry>,
    /// Jobs that do not take part because their stays are young.
    pub(super) young: Vec<Entry>,
    /// GPUs by pool that are up and unassigned, in units until the base is assigned.
    pub(super) free: Vec<u64>,
    /// Where owners have quotas: what may still be given of each, and all running and waiting jobs in order, without
    /// those left out.
    pub(super) left: Vec<u64>,
    pub(super) ranked: Vec<Rank>,
}

impl Allocation {
    /// Resets: no job takes part yet, and all these GPUs are free.
    pub(super) fn clear(&mut self, free: Vec<u64>, left: Vec<u64>) {
        self.entries.clear();
        self.young.clear();
        self.ranked.clear();
        (self.free, self.left) = (free, left);
    }

    /// Lets a job that does not take part keep its GPUs.
    pub(super) fn keep<S: Speed>(&mut self, entry: Entry, state: &ClusterState<'_, S>) {
        self.free[entry.pool] -= u64::from(entry.held) * entry.unit;
        self.spend(state, entry.job, entry.held);
        self.young.push(entry);
    }

    /// Returns the entries that draw on a pool if there are too few GPUs for all that they could use; otherwise gives
    /// them these.
    pub(super) fn contested<S: Speed>(
        &mut self,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) -> Option<Vec<usize>> {
        let entries: Vec<usize> = (0..self.entries.len())
            .filter(|&at| self.entries[at].number > 0 && self.entries[at].pool == pool)
            .collect();
        let mut useful = 0;
        for entry in entries.iter().map(|&at| &self.entries[at]) {
            useful += u64::from(curves.get_or_compute(rates, entry.job, pool, entry.number).cap - entry.number);
        }
        if useful > self.free[pool] {
            return Some(entries);
        }
        for at in entries {
            let entry = &mut self.entries[at];
            entry.number = curves.get(entry.job, pool).map_or(entry.number, |curve| curve.cap);
        }
        self.free[pool] -= useful;
        None
    }

    /// Sorts the entries in the order of the base.
    pub(super) fn sort(&mut self) {
        self.entries.sort_unstable_by_key(Entry::rank);
    }

    /// Adds the waiting jobs, unless they are there.
    pub(super) fn add_waiting<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        if !rates.state.has_quotas() {
            self.entries.extend(queue.all().map(|(job, key)| rates.waiting(job, key)));
        }
    }

    /// Gives jobs min_gpus in order, those in the allocation and those waiting, if so many are free. Waiting jobs
    /// that get none are left out.
    pub(super) fn give_least_in_order<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        self.sort();
        if rates.state.has_quotas() {
            self.give_least(rates);
            return self.entries.retain(|entry| entry.number > 0 || entry.held > 0);
        }
        if rates.state.protects() {
            self.give_least_to_protected(rates);
        }
        let mut running = std::mem::take(&mut self.entries).into_iter().peekable();
        let mut waiting = queue.walk();
        loop {
            let next = waiting.place();
            if let Some(mut entry) = running.next_if(|entry| next.is_none_or(|next| entry.place() < next)) {
                if entry.number == 0 {
                    self.give_least_to(&mut entry, rates);
                }
                self.entries.push(entry);
            } else if let Some((_, key, job)) = next {
                let mut entry = rates.waiting(job, unordered(key));
                self.give_least_to(&mut entry, rates);
                if entry.number > 0 {
                    self.entries.push(entry);
                    waiting.pass();
                } else {
                    // From here on the free GPUs only decrease.
                    waiting.leave_out();
                }
            } else {
                break;
            }
        }
    }

    /// Gives each job of number 0 min_gpus if so many are free, entry by entry: jobs over quota last, protected ones
    /// first.
    pub(super) fn give_least<S: Speed>(&mut self, rates: &Rates<'_, '_, S>) {
        let protects = rates.state.protects();
        if protects {
            self.entries.sort_by_key(|entry| (entry.standing, !entry.is_protected));
        }
        let mut entries = std::mem::take(&mut self.entries);
        entries.iter_mut().filter(|entry| entry.number == 0).for_each(|entry| self.give_least_to(entry, rates));
        self.entries = entries;
        if protects {
            self.sort();
        }
    }

    /// Gives min_gpus to the protected jobs that are not over quota.
    pub(super) fn give_least_to_protected<S: Speed>(&mut self, rates: &Rates<'_, '_, S>) {
        let mut entries = std::mem::take(&mut self.entries);
        let first = |entry: &&mut Entry| entry.is_protected && entry.standing == Claimant::Within;
        entries.iter_mut().filter(first).for_each(|entry| self.give_least_to(entry, rates));
        self.entries = entries;
    }

    fn give_least_to<S: Speed>(&mut self, entry: &mut Entry, rates: &Rates<'_, '_, S>) {
        if entry.standing == Claimant::HeldBack || self.left_of(rates.state, entry.job) < u64::from(entry.min) {
            return;
        }
        let least = u64::from(entry.min) * entry.unit;
        let pool = if entry.tied {
            Some(entry.pool).filter(|&pool| self.free[pool] >= least)
        } else {
            rates.tried(entry.job).find(|&pool| self.free[pool] >= least)
        };
        if let Some(pool) = pool {
            (entry.pool, entry.number) = (pool, entry.min);
            self.free[pool] -= least;
            self.spend(rates.state, entry.job, entry.min);
        }
    }

    /// Returns the jobs whose number has changed, in order of fifo.
    pub(super) fn changed(&mut self) -> &mut [Entry] {
        self.entries.retain(|entry| entry.number != entry.held);
        self.entries.sort_unstable_by_key(|entry| entry.job);
        &mut self.entries
    }
}

/// Sorts jobs so that those that give GPUs up come first, then the largest.
pub(super) fn put_shrinking_first(changed: &mut [Entry]) {
    changed.sort_by_key(|entry| (entry.number > entry.held, std::cmp::Reverse(entry.number)));
}

/// Sorts jobs by the GPUs that they get, most first.
pub(super) fn put_largest_first(changed: &mut [Entry]) {
    changed.sort_by_key(|entry| (std::cmp::Reverse(entry.number), entry.job));
}
