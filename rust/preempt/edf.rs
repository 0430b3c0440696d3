//! EDF: the earliest deadline first, jobs without one last, ties fifo. A pass is due at every arrival and completion.
//! (Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment", 1973.)
//!
//! A pass costs as much as SRTF's. Admission needs the run time, so the engine settles it on arrival, not this policy.
//! On the slot clock the arrival is the first boundary at or after the submission.

use super::{Book, Policy, Running, Setting};

pub(super) struct Edf<'a> {
    deadline: Option<&'a [f64]>,
}

impl<'a> Edf<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        Self { deadline: setting.deadline }
    }

    fn key(&self, job: u32) -> f64 {
        let deadline = self.deadline.map_or(f64::NAN, |d| d[job as usize]);
        if deadline.is_nan() { f64::INFINITY } else { deadline }
    }
}

impl Policy for Edf<'_> {
    fn waiting_key(&mut self, _book: &Book<'_>, job: u32) -> f64 {
        self.key(job)
    }

    fn running_key(&self, _book: &Book<'_>, running: &Running) -> f64 {
        self.key(running.job)
    }
}
