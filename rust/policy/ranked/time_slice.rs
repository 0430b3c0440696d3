//! Time slicing (Gandiva: Xiao et al., "Gandiva: Introspective cluster scheduling for deep learning", OSDI 2018):
//! round robin. There is one list. A job joins its end on arrival. At every quantum the jobs that ran go to the end,
//! in fifo order among themselves. The policy does not know run times.
//!
//! A key is the time at which its job last went to the end of the list. Jobs that arrive at a quantum are ahead of
//! those that ran up to it. For example, with a quantum of 60 s a job that arrived at 60 s is ahead of one that was
//! stopped then, and behind one that arrived at 59 s.
//!
//! A pass costs as much as SRTF's. With more demand than GPUs there is one every quantum.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct TimeSlice {
    quantum: f64,
    /// The key with which each job last waited, where a stay may fail or make room for a replica.
    key: Vec<f64>,
    /// When the latest pass was, which need not be at a quantum (machine time).
    passed: f64,
}

impl TimeSlice {
    pub(in crate::policy) fn new(setting: &Setting<'_>) -> Self {
        let fails = setting.side.outages.is_some() || setting.side.services.is_some();
        let jobs = if fails { setting.jobs.len() } else { 0 };
        Self { quantum: setting.options.quantum, key: vec![f64::NAN; jobs], passed: f64::NEG_INFINITY }
    }

    fn wait_with<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, since: f64) -> f64 {
        // Keys are machine times: the smallest step tells jobs that ran from new ones.
        let key = if state.has_run(job) { since.next_up() } else { since };
        self.note(job, key)
    }

    /// Stores the key with which a job waits from now on.
    fn note(&mut self, job: Job, key: f64) -> f64 {
        if let Some(own) = self.key.get_mut(job.index()) {
            *own = key;
        }
        key
    }
}

impl Named for TimeSlice {
    const FACTS: Facts = Facts {
        name: "time-slice",
        about: "round robin",
        paper: "Xiao et al., OSDI 2018 (Gandiva)",
        knows: KNOWS,
        is: &[Is::Ranks, Is::AtIntervals],
        options: &[
            "preempt-cost",
            "quantum",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl Ranking for TimeSlice {
    type Tie = ();

    const TAKES_TURNS: bool = true;

    fn interval(&self) -> Option<f64> {
        Some(self.quantum)
    }

    fn is_restless(&self) -> bool {
        true
    }

    fn before_pass<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> bool {
        self.passed = state.now;
        false
    }

    fn waiting_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.wait_with(state, job, state.now)
    }

    /// It has gone to the end at the last quantum, or other pass, at which it ran, if there was one.
    fn failed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, stay: &Stay<S::Pace>) -> f64 {
        let tick = state.clock.tick_before(self.quantum, state.now).unwrap_or(f64::NEG_INFINITY);
        let last = if self.passed < state.now { tick.max(self.passed) } else { tick };
        if last > stay.start {
            self.wait_with(state, job, last)
        } else {
            self.key.get(job.index()).copied().unwrap_or_default()
        }
    }

    /// It ranks with the jobs that arrive now: it did not run up to this quantum.
    fn resumed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.note(job, state.now)
    }

    fn running_key<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        f64::INFINITY
    }
}
