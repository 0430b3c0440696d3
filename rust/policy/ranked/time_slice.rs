//! Time slicing (Gandiva: Xiao et al., "Gandiva: Introspective cluster scheduling for deep learning", OSDI 2018):
//! round robin. There is one list. A job joins its end on arrival. At every quantum the jobs that ran go to the end, in
//! fifo order among themselves. The policy knows no run time.
//!
//! A pass costs as much as SRTF's. With more demand than GPUs there is one every quantum.

use super::Ranking;
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::options::Options;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct TimeSlice {
    quantum: f64,
    /// The place in the list of the next job that joins it.
    end: f64,
}

impl TimeSlice {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self { quantum: options.quantum, end: 0.0 }
    }
}

impl Ranking for TimeSlice {
    fn interval(&self) -> Option<f64> {
        Some(self.quantum)
    }

    fn is_restless(&self) -> bool {
        true
    }

    fn waiting_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) -> f64 {
        self.end += 1.0;
        self.end
    }

    fn running_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        f64::INFINITY
    }
}
