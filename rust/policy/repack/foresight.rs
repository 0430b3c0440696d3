//! How long jobs still take, known or predicted, and the waiting jobs in the order of that.
//!
//! Invariant: a walk gives each waiting job once, least GPUs x run time left first, ties fifo. A job that joins during a
//! walk is given in its place, if that is still ahead. For example, a job that is evicted waits behind the one that it
//! makes room for, because more is left of it.

use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;
use std::collections::BTreeSet;

/// What the policy knows of run times, and who waits.
pub(in crate::policy) trait Foresight: Clone + Send {
    fn arrived<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job);

    fn completed(&mut self, _job: Job) {}

    /// Run time left of a running job now, s, without the rest of its pause.
    fn left_of<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64;

    /// The job waits from now on.
    fn join<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job);

    /// The job that the walk gave last waits no longer.
    fn leave(&mut self, job: Job);

    /// Whether jobs may be evicted.
    fn evicts(&self) -> bool {
        true
    }

    /// A pass begins.
    fn begin_walk<S: Speed>(&mut self, floor: &Floor<'_, S>);

    /// The next waiting job, and its run time left, s.
    fn next(&mut self) -> Option<(Job, f64)>;

    fn waiting(&self) -> impl Iterator<Item = Job> + '_;

    fn num_waiting(&self) -> usize;
}

/// Run times are those recorded.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Exact {
    /// (key's bits, job) of every waiting job; keys are not negative.
    line: BTreeSet<(u64, Job)>,
    next: (u64, Job),
    /// What a unit of a job's work takes on the fewest servers without contention, s.
    unit: Vec<f64>,
    /// Run time left of a waiting job, s.
    left: Vec<f64>,
    key: Vec<u64>,
}

impl Exact {
    pub(in crate::policy) fn new(setting: &Setting<'_>) -> Self {
        let jobs = setting.jobs.len();
        let (line, next) = (BTreeSet::new(), (0, Job::at(0)));
        Self { line, next, unit: vec![0.0; jobs], left: vec![0.0; jobs], key: vec![0; jobs] }
    }
}

impl Foresight for Exact {
    fn arrived<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.unit[job.index()] = floor.unit_at_best(job);
    }

    fn left_of<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        floor.left_at_best_of(stay, self.unit[stay.job.index()])
    }

    fn join<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        let j = job.index();
        self.left[j] = floor.left_at_best(job, self.unit[j]);
        self.key[j] = (f64::from(floor.asks(job)) * self.left[j]).to_bits();
        self.line.insert((self.key[j], job));
    }

    fn leave(&mut self, job: Job) {
        self.line.remove(&(self.key[job.index()], job));
    }

    fn begin_walk<S: Speed>(&mut self, _floor: &Floor<'_, S>) {
        self.next = (0, Job::at(0));
    }

    fn next(&mut self) -> Option<(Job, f64)> {
        let &(key, job) = self.line.range(self.next..).next()?;
        self.next = (key, Job::at(job.index() + 1));
        Some((job, self.left[job.index()]))
    }

    fn waiting(&self) -> impl Iterator<Item = Job> + '_ {
        self.line.iter().map(|&(_, job)| job)
    }

    fn num_waiting(&self) -> usize {
        self.line.len()
    }
}
