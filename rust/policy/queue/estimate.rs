//! Estimates how long a job will hold its GPUs, for EASY, conservative backfilling and maintenance known ahead.
//!
//! Invariant: an estimate is never negative. For example, a job with a limit of 3,600 s that has held GPUs for 600 s
//! is estimated at 3,000 s under `--estimate limit`.

use crate::ids::Job;
use crate::machine::ClusterState;
use crate::options::{Estimate, Options};
use crate::speed::Speed;

/// What estimates are based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimates {
    /// The factor by which run times are multiplied.
    factor: f64,
    /// Whether limits are the estimates: a job without one is estimated to run forever.
    by_limit: bool,
}

impl Estimates {
    pub(super) fn new(options: &Options) -> Self {
        Self { factor: options.estimate_factor, by_limit: options.estimate == Estimate::Limit }
    }

    /// Returns the estimate of a job that does not run, or starts now, s: what is left of its limit, which may be
    /// infinite, or its run time, or after an interruption what remains of that.
    pub(super) fn reckoned<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        if self.by_limit {
            return state.limit_left(job);
        }
        self.factor * if state.was_interrupted(job) { state.remaining(job) } else { state.estimate(job) }
    }
}
