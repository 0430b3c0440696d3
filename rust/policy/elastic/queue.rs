//! Keeps the waiting jobs in the order of the base, by what they ask for at least.
//!
//! Invariant: every waiting job is in the class of its min_gpus, or of its share of a GPU, and of the GPU types that
//! it tries. For example, once 3 GPUs are left, all jobs that ask for 4 or more are passed over without being
//! examined.

use crate::ds::{ordered, unordered};
use crate::ids::Job;
use crate::trace::Jobs;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// A position in the order of the base: higher priorities first, then the least key, then fifo. (tier, key's bits,
/// job)
pub(super) type Place = (u32, u64, Job);

/// The queue. Inserting and removing a job costs the logarithm of their number.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Queue {
    /// Classes that occur, ascending: (min_gpus in units, kind).
    classes: Vec<(u32, u32)>,
    waiting: Vec<BTreeSet<Place>>,
    /// The place with which each job last waited.
    place: Vec<Place>,
}

fn class_of(jobs: &Jobs<'_>, job: Job) -> (u32, u32) {
    let unit = jobs.units(job.index()) / jobs.num_gpus[job.index()];
    (jobs.range_of(job.index()).0.saturating_mul(unit), jobs.demand(job).kind() as u32)
}

impl Queue {
    pub(super) fn new(jobs: &Jobs<'_>) -> Self {
        let mut classes: Vec<_> = (0..jobs.len()).map(|job| class_of(jobs, Job::at(job))).collect();
        classes.sort_unstable();
        classes.dedup();
        let waiting = vec![BTreeSet::new(); classes.len()];
        Self { classes, waiting, place: vec![(0, 0, Job::NONE); jobs.len()] }
    }

    fn of(&mut self, jobs: &Jobs<'_>, job: Job) -> &mut BTreeSet<Place> {
        let class = class_of(jobs, job);
        let at = self.classes.partition_point(|&other| other < class);
        &mut self.waiting[at]
    }

    pub(super) fn insert(&mut self, jobs: &Jobs<'_>, job: Job, key: f64) {
        let place = (jobs.tier(job.index()), ordered(key), job);
        self.place[job.index()] = place;
        self.of(jobs, job).insert(place);
    }

    pub(super) fn remove(&mut self, jobs: &Jobs<'_>, job: Job) {
        let place = self.place[job.index()];
        self.of(jobs, job).remove(&place);
    }

    /// Returns every waiting job and its key.
    pub(super) fn all(&self) -> impl Iterator<Item = (Job, f64)> + '_ {
        self.waiting.iter().flatten().map(|&(_, key, job)| (job, unordered(key)))
    }

    /// Returns the waiting jobs in order.
    pub(super) fn walk(&self) -> Walk<'_> {
        let mut walk = Walk { waiting: &self.waiting, heads: BinaryHeap::new() };
        (0..self.waiting.len()).for_each(|class| walk.push(class, (0, 0, Job::new(0))));
        walk
    }
}

/// The waiting jobs in order, with classes left out on the way.
pub(in crate::policy) struct Walk<'a> {
    waiting: &'a [BTreeSet<Place>],
    /// The first of each class that is left.
    heads: BinaryHeap<Reverse<(Place, usize)>>,
}

impl Walk<'_> {
    fn push(&mut self, class: usize, from: Place) {
        let head = self.waiting[class].range(from..).next();
        self.heads.extend(head.map(|&place| Reverse((place, class))));
    }

    /// Returns the place of the next job.
    pub(super) fn place(&self) -> Option<Place> {
        self.heads.peek().map(|&Reverse((place, _))| place)
    }

    /// Continues behind that job.
    pub(super) fn pass(&mut self) {
        if let Some(Reverse(((tier, key, job), class))) = self.heads.pop() {
            self.push(class, (tier, key, Job::new(job.number() + 1)));
        }
    }

    /// Leaves it out, and all of its class.
    pub(super) fn leave_out(&mut self) {
        self.heads.pop();
    }
}
