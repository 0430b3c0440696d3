//! Time slicing (Gandiva: Xiao et al., "Gandiva: Introspective cluster scheduling for deep learning", OSDI 2018):
//! round robin. There is one list. A job joins its end on arrival. At every quantum the jobs that ran go to the end, in
//! fifo order among themselves. The policy knows no run time.
//!
//! A pass costs as much as SRTF's. With more demand than GPUs there is one every quantum.

use super::{Book, Policy, Running};
use crate::options::Options;

pub(super) struct TimeSlice {
    quantum: f64,
    /// The place in the list of the next job that joins it.
    end: f64,
}

impl TimeSlice {
    pub(super) fn new(options: &Options) -> Self {
        Self { quantum: options.quantum, end: 0.0 }
    }
}

impl Policy for TimeSlice {
    fn interval(&self) -> Option<f64> {
        Some(self.quantum)
    }

    fn is_restless(&self) -> bool {
        true
    }

    fn waiting_key(&mut self, _book: &Book<'_>, _job: u32) -> f64 {
        self.end += 1.0;
        self.end
    }

    fn running_key(&self, _book: &Book<'_>, _running: &Running) -> f64 {
        f64::INFINITY
    }
}
