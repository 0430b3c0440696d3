//! Estimates how long a job will hold its GPUs, for EASY, conservative backfilling and maintenance known ahead.
//!
//! Invariant: an estimate is never negative. For example, a job with a limit of 3,600 s that has held GPUs for 600 s
//! is estimated at 3,000 s under `--estimate limit`.

use crate::ids::Job;
use crate::machine::ClusterState;
use crate::options::Estimate;
use crate::setting::Setting;
use crate::speed::Speed;

/// What estimates are based on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Estimates<'a> {
    /// The factor by which run times are multiplied.
    factor: f64,
    /// Whether limits are the estimates: a job without one is estimated to run forever.
    by_limit: bool,
    /// The column that has the estimates, s: a job without one is estimated to run forever.
    column: Option<&'a [f64]>,
}

impl<'a> Estimates<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        let options = setting.options;
        Self {
            factor: options.estimate_factor,
            by_limit: options.estimate == Estimate::Limit,
            column: setting.estimated.filter(|_| options.estimate == Estimate::Column),
        }
    }

    /// Returns the estimate of a job that does not run, or starts now, s: what is left of its limit, which may be
    /// infinite, or its run time, or after an interruption what remains of that. Of an estimate in a column the progress
    /// is subtracted.
    pub(super) fn reckoned<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        if self.by_limit {
            return state.limit_left(job);
        }
        if let Some(column) = self.column {
            let whole = column[job.index()];
            let done = if state.was_interrupted(job) { state.estimate(job) - state.remaining(job) } else { 0.0 };
            return if whole > 0.0 { f64::max(0.0, whole - done) } else { f64::INFINITY };
        }
        self.factor * if state.was_interrupted(job) { state.remaining(job) } else { state.estimate(job) }
    }
}
