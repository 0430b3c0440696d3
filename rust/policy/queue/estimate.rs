//! How long a job is reckoned to hold its GPUs: by EASY, and where maintenance is known ahead.
//!
//! Invariant: an estimate is never negative. For example, a job with a limit of 3,600 s that has held GPUs for 600 s is
//! reckoned at 3,000 s under `--estimate limit`.

use crate::ids::Job;
use crate::machine::ClusterState;
use crate::options::{Estimate, Options};
use crate::speed::Speed;

/// What estimates rest on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimates {
    /// By how much run times are multiplied.
    factor: f64,
    /// Whether limits say it: a job without one is reckoned to run for ever.
    by_limit: bool,
}

impl Estimates {
    pub(super) fn new(options: &Options) -> Self {
        Self { factor: options.estimate_factor, by_limit: options.estimate == Estimate::Limit }
    }

    /// What a job that does not run, or starts now, is reckoned to take, s: what its limit leaves it, which may be infinite, or
    /// its run time, of which after an interruption what remains.
    pub(super) fn reckoned<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        if self.by_limit {
            return state.limit_left(job);
        }
        self.factor * if state.was_interrupted(job) { state.remaining(job) } else { state.estimate(job) }
    }
}
