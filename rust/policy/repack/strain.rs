//! Tracks which jobs have waited too long by a reference time, which is their run time or what of it is done; when
//! the next pass must check; and how much waits.
//!
//! Invariant: `dues` and `waiting` have exactly the waiting jobs, and during a pass `overdue` those of them that were
//! due when it began. For example, a job without known run time or progress is checked 80 s after it was submitted,
//! and from then on every minute until it runs.

use super::overdue::Overdue;
use crate::ids::Job;
use crate::machine::{Clock, ClusterState};
use crate::setting::Setting;
use crate::speed::Speed;
use std::collections::BTreeSet;

/// Seconds that are added to the reference time of every job.
const GRACE: f64 = 5.0;

/// The strain from which on a waiting job is checked, and the least limit.
const LEAST: f64 = 16.0;

/// The limit is so many times the GPUs asked for, over those that there are.
const BY_DEMAND: f64 = 4.0;

/// Seconds between two checks, or this share of the time since the first of the waiting jobs was due.
const PERIOD: f64 = 60.0;
const SHARE: f64 = 1e-4;

/// Times are rounded: two count as one if they differ by at most this share.
const ROUNDING: f64 = 1e-9;

/// The time at a rung, s: when it began, where it continues, and how long all completed ones were.
#[derive(Clone, Copy, Debug, Default)]
struct AtRungs {
    since: f64,
    over: f64,
}

/// Returns the strain of a job that was submitted so many seconds ago.
pub(super) fn strain(since: f64, reference_time: f64) -> f64 {
    since / (reference_time + GRACE)
}

/// Which jobs wait, since when and for how many GPUs.
#[derive(Clone, Debug)]
pub(super) struct Strains {
    /// Units of the cluster (GPUs, or thousandths of one where jobs may hold shares), and those that waiting and
    /// running jobs ask for.
    cluster_units: u64,
    asked: u64,
    units_per_gpu: u64,
    /// The reference time of a waiting job, s.
    reference_time: Vec<f64>,
    /// (bits of the time from which on it is to be checked, s; job).
    dues: BTreeSet<(u64, Job)>,
    /// The due jobs, as far as passes have seen, and until when these have checked, s.
    overdue: Overdue,
    seen: f64,
    /// Jobs that joined since, due earlier than that.
    late: Vec<Job>,
    /// Units that jobs ask for, ascending; by pool: those of the waiting jobs of each size that may have some there.
    sizes: Vec<u32>,
    waiting: Vec<Vec<u64>>,
    /// By job, where there are trials.
    at_rungs: Vec<AtRungs>,
    /// When the last pass was, machine time.
    last: f64,
}

impl Strains {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let mut sizes: Vec<u32> = (0..setting.jobs.len()).map(|job| setting.jobs.units(job)).collect();
        sizes.sort_unstable();
        sizes.dedup();
        Self {
            cluster_units: setting.server_gpus.iter().map(|&gpus| u64::from(gpus)).sum::<u64>()
                * setting.jobs.units_per_gpu(),
            asked: 0,
            units_per_gpu: setting.jobs.units_per_gpu(),
            reference_time: vec![0.0; setting.jobs.len()],
            dues: BTreeSet::new(),
            overdue: Overdue::new(setting),
            seen: 0.0,
            late: Vec::new(),
            waiting: vec![vec![0; sizes.len()]; setting.num_pools()],
            sizes,
            at_rungs: vec![AtRungs::default(); setting.options.search.map_or(0, |_| setting.jobs.len())],
            last: f64::NEG_INFINITY,
        }
    }

    pub(super) fn cluster_units(&self) -> u64 {
        self.cluster_units
    }

    pub(super) fn arrived(&mut self, units: u32) {
        self.asked += u64::from(units);
    }

    pub(super) fn completed(&mut self, units: u32) {
        self.asked -= u64::from(units);
    }

    /// Records that a trial comes to a rung, where it neither waits nor runs.
    pub(super) fn pause<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.completed(state.units(job));
        self.at_rungs[job.index()].since = state.seconds();
    }

    /// Records that a trial waits that came to a rung earlier.
    pub(super) fn resume<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.arrived(state.units(job));
        let at_rungs = &mut self.at_rungs[job.index()];
        at_rungs.over += state.seconds() - at_rungs.since;
    }

    /// Returns from when on the time of a job counts, s: its submission, later by the time that it was at rungs.
    pub(super) fn origin<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        state.arrived_at(job) + self.at_rungs.get(job.index()).map_or(0.0, |at_rungs| at_rungs.over)
    }

    fn due<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> (u64, Job) {
        let due = self.origin(state, job) + LEAST * (self.reference_time[job.index()] + GRACE);
        (due.to_bits(), job)
    }

    /// Records that the job waits from now on.
    pub(super) fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, reference_time: f64) {
        self.reference_time[job.index()] = reference_time;
        let due = self.due(state, job);
        self.dues.insert(due);
        if f64::from_bits(due.0) <= self.seen {
            self.late.push(job);
        }
        self.count(state, job, |gpus, more| *gpus += more);
    }

    /// Records that the job no longer waits.
    pub(super) fn leave<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let due = self.due(state, job);
        self.dues.remove(&due);
        if f64::from_bits(due.0) <= self.seen {
            self.overdue.leave(job);
        }
        self.count(state, job, |gpus, less| *gpus -= less);
    }

    fn count<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, by: impl Fn(&mut u64, u64)) {
        let units = state.units(job);
        let size = self.sizes.partition_point(|&size| size < units);
        for &(gpu_type, _) in state.jobs.tried(job) {
            by(&mut self.waiting[state.cluster.pool_of(gpu_type)][size], u64::from(units));
        }
    }

    /// Returns the GPUs of jobs that wait for the place of a running one, in a pool: of the `first`, and of others
    /// that fit beside it. Both parameters are in units.
    pub(super) fn wanted(&self, pool: usize, first: u32, place: u32) -> f64 {
        let beside = place.saturating_sub(first);
        let fits = self.sizes.iter().zip(&self.waiting[pool]).take_while(|(size, _)| **size <= beside);
        let others: u64 = fits.map(|(_, units)| units).sum();
        // The first waits, too, and may be among the others.
        let units = others + if first <= beside { 0 } else { u64::from(first) };
        units as f64 / self.units_per_gpu as f64
    }

    /// Begins a pass. Returns the limit: the strain from which on waiting jobs are urgent.
    pub(super) fn begin<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> f64 {
        self.last = state.now;
        // No job is urgent before it is due, except for rounding.
        let now = state.seconds();
        let seen = now + ROUNDING * f64::max(1.0, now);
        let mut due = std::mem::take(&mut self.late);
        // A second pass of an instant sees no further.
        if seen > self.seen {
            let from = (self.seen.next_up().to_bits(), Job::at(0));
            due.extend(self.dues.range(from..=(seen.to_bits(), Job::NONE)).map(|entry| entry.1));
            self.seen = seen;
        }
        for job in due.drain(..) {
            let due = self.due(state, job);
            // Since it was late it may have left and joined again, with another reference time.
            if f64::from_bits(due.0) <= self.seen && self.dues.contains(&due) {
                self.overdue.enter(job, self.origin(state, job), self.reference_time[job.index()]);
            }
        }
        self.late = due;
        f64::max(LEAST, BY_DEMAND * self.asked as f64 / self.cluster_units as f64)
    }

    /// Begins a walk through the urgent jobs. Jobs that have joined since the pass began have no turn.
    pub(super) fn begin_walk<S: Speed>(&mut self, state: &ClusterState<'_, S>, limit: f64) {
        self.overdue.begin_walk(state.seconds(), limit);
    }

    /// Returns the next urgent job and its strain: the greatest first, ties fifo.
    pub(super) fn next<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        limit: f64,
        aside: impl Fn(Job) -> bool,
    ) -> Option<(f64, Job)> {
        self.overdue.next(state.seconds(), limit, aside)
    }

    /// Puts back into the walk the classes left aside of which a member is to be called `back`.
    pub(super) fn call_back(&mut self, back: impl Fn(Job) -> bool) {
        self.overdue.call_back(back);
    }

    /// Returns when the next pass is due if nothing happens, machine time.
    pub(super) fn next_pass(&self, clock: Clock) -> f64 {
        let last = clock.seconds(self.last);
        let ahead = self.dues.range((f64::max(0.0, last.next_up()).to_bits(), Job::at(0))..).next();
        let ahead = ahead.map_or(f64::INFINITY, |&(due, _)| f64::from_bits(due));
        let first = self.dues.first().map_or(f64::INFINITY, |&(due, _)| f64::from_bits(due));
        let again = if first <= last { last + f64::max(PERIOD, SHARE * (last - first)) } else { f64::INFINITY };
        let soonest = clock.slot.map_or_else(|| self.last.next_up(), |_| clock.next_boundary(self.last));
        clock.arrival(f64::min(ahead, again)).max(soonest)
    }
}
