//! Chooses the cheapest jobs to remove from a server.
//!
//! Invariant: of victims that free enough GPUs, `keep_cheapest` leaves those with the least cost. For example, of
//! jobs of 4 and 2 GPUs, a requester that needs 3 takes only the first.

use super::relocation::{Offer, Requester, Scratch, Sums};
use crate::ids::Job;

/// A job that may leave a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    pub(super) job: Job,
    /// The number of jobs: all that hold shares of a GPU go together.
    pub(super) jobs: u32,
    /// Which GPU that is.
    pub(super) gpu: Option<u32>,
    /// GPUs that it gives back there, and in all.
    pub(super) part: u32,
    pub(super) num_gpus: u32,
    pub(super) key: f64,
    pub(super) movable: bool,
    pub(super) evictable: bool,
}

/// The cost of some victims: how many move, how many are evicted, and the GPUs of the latter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    pub(super) moved: u32,
    pub(super) evicted: u32,
    pub(super) gpus: u32,
}

impl Cost {
    pub(super) fn of(victim: &Victim) -> Self {
        let Self { moved, evicted, gpus } = Self::of_one(victim.num_gpus, victim.movable);
        let more = victim.jobs - 1; // of one GPU each
        Self { moved, evicted: evicted + more, gpus: gpus + more }
    }

    pub(super) fn of_one(num_gpus: u32, moves: bool) -> Self {
        if moves { Self { moved: 1, evicted: 0, gpus: 0 } } else { Self { moved: 0, evicted: 1, gpus: num_gpus } }
    }

    fn plus(self, other: Self) -> Self {
        Self { moved: self.moved + other.moved, evicted: self.evicted + other.evicted, gpus: self.gpus + other.gpus }
    }

    /// Returns thousandths: of all jobs, an evicted one counting 1 + its GPUs / 1,000; of the evicted ones alone.
    pub(super) fn thousandths(self) -> (u64, u64) {
        let evicted = 1000 * u64::from(self.evicted) + u64::from(self.gpus);
        (1000 * u64::from(self.moved) + evicted, evicted)
    }

    /// Returns the cost in seconds: a pause each, and the run of the requester for each that is evicted, a little
    /// more for larger ones.
    pub(super) fn cost(self, requester: &Requester) -> f64 {
        let evictions = f64::from(self.evicted) + f64::from(self.gpus) / 1000.0;
        requester.cost * f64::from(self.moved) + (requester.cost + requester.run) * evictions
    }

    pub(super) fn count(self) -> u32 {
        self.moved + self.evicted
    }
}

/// Buffers for offers. They are kept, so that a plan allocates little.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    /// How many servers have that many idle GPUs, or more.
    pub(super) with_at_least: Vec<u32>,
    pub(super) victims: Vec<Victim>,
    /// Those that hold shares, one by one.
    pub(super) shares: Vec<Victim>,
    best: Vec<Option<(Cost, f64)>>,
    takes: Vec<bool>,
    /// Servers to choose from, the cheapest first.
    pub(super) offers: Vec<Offer>,
    /// By GPUs given back: the least it takes.
    pub(super) sums: Vec<Sums>,
    /// The servers as the plan leaves them, and as they were before its latest part.
    pub(super) scratch: Scratch,
    pub(super) before: Scratch,
}

impl Candidates {
    /// Makes a victim of all jobs that hold shares of a GPU, if all of them may go, with the greatest key among them.
    /// Returns how many GPUs these are.
    pub(super) fn gather_shares(&mut self) -> u32 {
        self.shares.sort_unstable_by(|a, b| a.gpu.cmp(&b.gpu).then(b.key.total_cmp(&a.key)).then(b.job.cmp(&a.job)));
        let mut gpus = 0;
        for own in self.shares.chunk_by(|a, b| a.gpu == b.gpu) {
            if own.iter().all(|victim| victim.evictable) {
                self.victims.push(Victim { jobs: own.len() as u32, ..own[0] });
                gpus += 1;
            }
        }
        gpus
    }

    /// Keeps the victims with the least cost that free `need` GPUs: the fewest of several, then those with the
    /// greater keys.
    pub(super) fn keep_cheapest(&mut self, need: usize, requester: &Requester) -> Option<Cost> {
        // best[d]: the least cost for d GPUs from the victims examined so far, the last one first, and what it costs.
        let size = need + 1;
        self.best.clear();
        self.best.resize(size, None);
        self.best[0] = Some((Cost::default(), 0.0));
        self.takes.clear();
        self.takes.resize(self.victims.len() * size, false);
        // What all other victims give back need not come from those examined so far.
        let mut others: usize = self.victims.iter().map(|victim| victim.part as usize).sum();
        for (victim, takes) in self.victims.iter().zip(self.takes.chunks_exact_mut(size)).rev() {
            let (part, own) = (victim.part as usize, Cost::of(victim));
            others -= part;
            for free in (need.saturating_sub(others).max(1)..size).rev() {
                let Some((rest, _)) = self.best[free.saturating_sub(part)] else { continue };
                let with = rest.plus(own);
                let cost = with.cost(requester);
                let better = self.best[free].is_none_or(|(without, least)| {
                    cost.total_cmp(&least).then(with.count().cmp(&without.count())).is_le()
                });
                if better {
                    self.best[free] = Some((with, cost));
                    takes[free] = true;
                }
            }
        }
        let (total, _) = self.best[need]?;
        let (mut free, mut kept) = (need, 0);
        for at in 0..self.victims.len() {
            if self.takes[at * size + free] {
                self.victims.swap(kept, at);
                kept += 1;
                free = free.saturating_sub(self.victims[kept - 1].part as usize);
            }
        }
        self.victims.truncate(kept);
        Some(total)
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    #[test]
    fn what_victims_cost() {
        assert_eq!(Cost { moved: 2, evicted: 1, gpus: 3 }.thousandths(), (3003, 1003));
    }
}
