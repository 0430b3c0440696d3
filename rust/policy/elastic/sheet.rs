//! The sheet on which a decision writes how many GPUs each job gets.
//!
//! Invariant: no pool gives more than is up. For example, of 8 GPUs of which a young job keeps 3 the others get 5 at most.

use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::machine::Floor;
use crate::speed::Speed;

/// A job that takes part.
#[derive(Clone, Copy, Debug)]
pub(in crate::policy) struct Line {
    pub(super) job: Job,
    /// Its key in the base: (tier, key's bits).
    key: (u32, u64),
    /// Work left: iterations, or recorded seconds.
    pub(super) left: f64,
    pub(super) min: u32,
    pub(super) max: u32,
    /// GPUs that it holds, and those that it is to have.
    pub(super) held: u32,
    pub(super) number: u32,
    /// The pool on which it draws, where it does.
    pub(super) pool: usize,
}

impl Line {
    /// `held`: slot, pool and GPUs of a job that runs.
    pub(super) fn new<S: Speed>(
        floor: &Floor<'_, S>,
        job: Job,
        key: f64,
        left: f64,
        held: Option<(Slot, usize, u32)>,
    ) -> Self {
        let (min, max) = floor.jobs.range_of(job.index());
        let (_, pool, held) = held.unwrap_or((Slot::NONE, 0, 0));
        Self { job, key: (floor.jobs.tier(job.index()), ordered(key)), left, min, max, held, number: 0, pool }
    }
}

/// All who take part, and what is free.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct Sheet {
    /// In order of the base once everybody there has min_gpus.
    pub(super) lines: Vec<Line>,
    /// GPUs by pool that are up and that nobody has.
    pub(super) free: Vec<u64>,
}

impl Sheet {
    /// Nobody takes part yet, and all these GPUs are free.
    pub(super) fn clear(&mut self, free: Vec<u64>) {
        self.lines.clear();
        self.free = free;
    }

    /// A job that does not take part keeps its GPUs.
    pub(super) fn keep(&mut self, pool: usize, gpus: u32) {
        self.free[pool] -= u64::from(gpus);
    }

    pub(super) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    /// Puts the lines in order, and gives each job min_gpus where so many are free. `tried`: the pools that a job may use.
    pub(super) fn give_least<I: Iterator<Item = usize>>(&mut self, tried: impl Fn(Job) -> I) {
        self.lines.sort_unstable_by_key(|line| (line.key, line.job));
        for line in &mut self.lines {
            let least = u64::from(line.min);
            let pool = if line.held > 0 {
                Some(line.pool).filter(|&pool| self.free[pool] >= least)
            } else {
                tried(line.job).find(|&pool| self.free[pool] >= least)
            };
            if let Some(pool) = pool {
                (line.pool, line.number) = (pool, line.min);
                self.free[pool] -= least;
            }
        }
    }

    /// Those whose number is another now, in order of fifo.
    pub(super) fn changed(&mut self) -> &mut [Line] {
        self.lines.retain(|line| line.number != line.held);
        self.lines.sort_unstable_by_key(|line| line.job);
        &mut self.lines
    }
}
