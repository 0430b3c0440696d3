//! Records the results of the trials of searches (docs/searches.md).

use crate::ids::Job;

/// A trial that reached a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Climb {
    /// Which trial.
    pub job: Job,
    /// Which rung, from 0.
    pub rung: u32,
    /// When, s.
    pub time: f64,
    /// Its loss there.
    pub loss: f64,
    /// When it continued, s; NaN if it never did.
    pub went_on: f64,
}

/// What one cluster's run records about its trials. Times are machine times until they are converted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Climbing {
    /// By job, when it was allowed to continue from its latest rung, while it has had no stay since; otherwise NaN.
    /// Empty if no search is judged.
    pub(crate) woke: Vec<f64>,
    /// Every rung that a trial reached, in order of time.
    pub(crate) climbs: Vec<Climb>,
}

impl Climbing {
    pub(crate) fn new(jobs: usize) -> Self {
        Self { woke: vec![f64::NAN; jobs], climbs: Vec::new() }
    }

    /// Returns when a job whose stay is over had begun to wait for it, if it paused at a rung before.
    pub(crate) fn take_woke(&mut self, job: Job) -> f64 {
        self.woke.get_mut(job.index()).map_or(f64::NAN, |woke| std::mem::replace(woke, f64::NAN))
    }

    /// Records when a job that paused at a rung was allowed to continue.
    pub(crate) fn set_woke(&mut self, job: Job, time: f64) {
        if let Some(woke) = self.woke.get_mut(job.index()) {
            *woke = time;
        }
    }

    pub(super) fn convert_times(&mut self, seconds: impl Fn(f64) -> f64) {
        for climb in &mut self.climbs {
            (climb.time, climb.went_on) = (seconds(climb.time), seconds(climb.went_on));
        }
    }
}
