//! The sheet on which a decision writes how many GPUs each job gets.
//!
//! Invariant: no pool gives more than is up, and no owner who may not borrow gets more than its quota. For example, of 8 GPUs of
//! which a young job keeps 3 the others get 5 at most.

use super::Rates;
use super::curve::Curves;
use super::queue::{Place, Queue};
use crate::ds::{ordered, unordered};
use crate::ids::Job;
use crate::machine::{Claimant, Floor};
use crate::speed::Speed;

/// A job that takes part.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Line {
    pub(super) job: Job,
    /// Its tier, and its key in the base.
    pub(super) tier: u32,
    pub(super) key: f64,
    /// Work left: iterations, or recorded seconds.
    pub(super) left: f64,
    pub(super) min: u32,
    pub(super) max: u32,
    /// What it takes of each of its GPUs, in units: 1, or thousandths where the table has shares.
    pub(super) unit: u64,
    /// GPUs that it holds, and those that it is to have.
    pub(super) held: u32,
    pub(super) number: u32,
    /// The pool on which it draws, where it does, and whether it may draw on no other.
    pub(super) pool: usize,
    pub(super) tied: bool,
    /// Its owner, and how it stands to the quota of that.
    pub(super) owner: usize,
    pub(super) standing: Claimant,
    /// Whether it runs and is protected: then it has min_gpus before all others.
    pub(super) is_protected: bool,
}

/// A place in the order of a decision: guests behind all others.
pub(super) type Rank = (Claimant, Place);

impl Line {
    /// `held`: pool and GPUs of a job that runs.
    pub(super) fn new<S: Speed>(
        floor: &Floor<'_, S>,
        job: Job,
        key: f64,
        left: f64,
        held: Option<(usize, u32)>,
    ) -> Self {
        let (min, max) = floor.jobs.range_of(job.index());
        let (pool, held) = held.unwrap_or_default();
        let (tier, owner) = (floor.jobs.tier(job.index()), floor.owner_of(job));
        let unit = u64::from(floor.units(job) / floor.asks(job));
        let (tied, standing) = (held > 0, Claimant::Within);
        let is_protected = false;
        Self { job, tier, key, left, min, max, unit, held, number: 0, pool, tied, owner, standing, is_protected }
    }

    /// Where it stands in the order of the base.
    pub(super) fn place(&self) -> Place {
        (self.tier, ordered(self.key), self.job)
    }

    /// Whether it keeps at least min_gpus, wherever the others go.
    pub(super) fn stays(&self) -> bool {
        self.is_protected && self.number > 0
    }

    pub(super) fn rank(&self) -> Rank {
        (self.standing, self.place())
    }
}

/// All who take part, and what is free.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Sheet {
    pub(super) lines: Vec<Line>,
    /// Those who do not, because their stays are young.
    pub(super) young: Vec<Line>,
    /// GPUs by pool that are up and that nobody has, in units until the base has its own.
    pub(super) free: Vec<u64>,
    /// Where owners have quotas: what each may still get, and all jobs that run or wait in order, without those left out.
    pub(super) left: Vec<u64>,
    pub(super) ranked: Vec<Rank>,
}

impl Sheet {
    /// Nobody takes part yet, and all these GPUs are free.
    pub(super) fn clear(&mut self, free: Vec<u64>, left: Vec<u64>) {
        self.lines.clear();
        self.young.clear();
        self.ranked.clear();
        (self.free, self.left) = (free, left);
    }

    /// A job that does not take part keeps its GPUs.
    pub(super) fn keep(&mut self, line: Line) {
        self.free[line.pool] -= u64::from(line.held) * line.unit;
        self.spend(line.owner, line.held);
        self.young.push(line);
    }

    /// The lines that draw on a pool, where there are too few GPUs for all that they could use; otherwise gives them these.
    pub(super) fn contested<S: Speed>(
        &mut self,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) -> Option<Vec<usize>> {
        let lines: Vec<usize> =
            (0..self.lines.len()).filter(|&at| self.lines[at].number > 0 && self.lines[at].pool == pool).collect();
        let mut useful = 0;
        for line in lines.iter().map(|&at| &self.lines[at]) {
            useful += u64::from(curves.from(rates, line.job, pool, line.number).cap - line.number);
        }
        if useful > self.free[pool] {
            return Some(lines);
        }
        for at in lines {
            let line = &mut self.lines[at];
            line.number = curves.of(line.job, pool).map_or(line.number, |curve| curve.cap);
        }
        self.free[pool] -= useful;
        None
    }

    /// Puts the lines in the order of the base.
    pub(super) fn sort(&mut self) {
        self.lines.sort_unstable_by_key(Line::rank);
    }

    /// Adds those who wait, unless they are there.
    pub(super) fn add_waiting<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        if !rates.floor.has_quotas() {
            self.lines.extend(queue.all().map(|(job, key)| rates.waiting(job, key)));
        }
    }

    /// Gives jobs min_gpus in order, those on the sheet and those who wait, where so many are free. Who waits and gets none is
    /// left out.
    pub(super) fn give_least_in_order<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        self.sort();
        if rates.floor.has_quotas() {
            self.give_least(rates);
            return self.lines.retain(|line| line.number > 0 || line.held > 0);
        }
        if rates.floor.protects() {
            self.give_least_to_protected(rates);
        }
        let mut running = std::mem::take(&mut self.lines).into_iter().peekable();
        let mut waiting = queue.walk();
        loop {
            let next = waiting.place();
            if let Some(mut line) = running.next_if(|line| next.is_none_or(|next| line.place() < next)) {
                if line.number == 0 {
                    self.give_least_to(&mut line, rates);
                }
                self.lines.push(line);
            } else if let Some((_, key, job)) = next {
                let mut line = rates.waiting(job, unordered(key));
                self.give_least_to(&mut line, rates);
                if line.number > 0 {
                    self.lines.push(line);
                    waiting.pass();
                } else {
                    // What is free only falls from here on.
                    waiting.leave_out();
                }
            } else {
                break;
            }
        }
    }

    /// Gives each job of number 0 min_gpus where so many are free, line by line: guests last, the protected first.
    pub(super) fn give_least<S: Speed>(&mut self, rates: &Rates<'_, '_, S>) {
        let protects = rates.floor.protects();
        if protects {
            self.lines.sort_by_key(|line| (line.standing, !line.is_protected));
        }
        let mut lines = std::mem::take(&mut self.lines);
        lines.iter_mut().filter(|line| line.number == 0).for_each(|line| self.give_least_to(line, rates));
        self.lines = lines;
        if protects {
            self.sort();
        }
    }

    /// Gives those who are protected, guests aside, min_gpus.
    pub(super) fn give_least_to_protected<S: Speed>(&mut self, rates: &Rates<'_, '_, S>) {
        let mut lines = std::mem::take(&mut self.lines);
        let first = |line: &&mut Line| line.is_protected && line.standing == Claimant::Within;
        lines.iter_mut().filter(first).for_each(|line| self.give_least_to(line, rates));
        self.lines = lines;
    }

    fn give_least_to<S: Speed>(&mut self, line: &mut Line, rates: &Rates<'_, '_, S>) {
        if line.standing == Claimant::HeldBack || self.left_of(line.owner) < u64::from(line.min) {
            return;
        }
        let least = u64::from(line.min) * line.unit;
        let pool = if line.tied {
            Some(line.pool).filter(|&pool| self.free[pool] >= least)
        } else {
            rates.tried(line.job).find(|&pool| self.free[pool] >= least)
        };
        if let Some(pool) = pool {
            (line.pool, line.number) = (pool, line.min);
            self.free[pool] -= least;
            self.spend(line.owner, line.min);
        }
    }

    /// Those whose number is another now, in order of fifo.
    pub(super) fn changed(&mut self) -> &mut [Line] {
        self.lines.retain(|line| line.number != line.held);
        self.lines.sort_unstable_by_key(|line| line.job);
        &mut self.lines
    }
}
