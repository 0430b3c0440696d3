//! Tracks each job while it does not run: work left, and service received.
//!
//! The columns are kept only where a policy may stop jobs; elsewhere a job has a single stay, which has all of it.
//! Invariant: `left[j]` and `served[j]` are right while job j holds no GPUs. For example, a job of 100 s that was
//! stopped after 40 s, 30 of them a pause, has 90 s left and 40 s served.

use crate::ids::Job;
use crate::speed::Speed;
use crate::trace::Jobs;

/// Per job: work left, and time on GPUs in earlier stays (machine time).
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress {
    pub(super) left: Vec<f64>,
    pub(super) served: Vec<f64>,
    /// When a stay of the job last ended early, except by a failing server (machine time).
    pub(super) ended: Vec<f64>,
}

impl Progress {
    pub(super) fn new<S: Speed>(jobs: &Jobs<'_>, speed: &S, slot: Option<f64>) -> Self {
        let count = jobs.len();
        let left = (0..count).map(|j| speed.work(jobs, Job::at(j), slot)).collect();
        Self { left, served: vec![0.0; count], ended: vec![f64::NAN; count] }
    }
}
