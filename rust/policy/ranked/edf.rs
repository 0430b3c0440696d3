//! EDF: ranks the job with the earliest deadline first, jobs without one last, ties fifo. A pass is due at every
//! arrival and completion. (Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time
//! environment", 1973.)
//!
//! A pass costs as much as SRTF's. Only admission needs the run time. It is decided on arrival; on the slot clock the
//! arrival is the first boundary at or after the submission.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Edf<'a> {
    /// Whether a job that would miss its deadline even alone from now on is refused.
    admission: bool,
    deadline: Option<&'a [f64]>,
}

impl<'a> Edf<'a> {
    pub(in crate::policy) fn new(setting: &Setting<'a>) -> Self {
        Self { admission: setting.options.admission, deadline: setting.deadline }
    }

    fn key(&self, job: Job) -> f64 {
        let deadline = self.deadline.map_or(f64::NAN, |d| d[job.index()]);
        if deadline.is_nan() { f64::INFINITY } else { deadline }
    }
}

impl Named for Edf<'_> {
    const FACTS: Facts = Facts {
        name: "edf",
        about: "earliest deadline",
        paper: "Liu and Layland, JACM 1973",
        knows: KNOWS,
        is: &[Is::Ranks, Is::ByDeadlines],
        options: &[
            "preempt-cost",
            "admission",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl Ranking for Edf<'_> {
    type Tie = ();

    fn admits<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> bool {
        !(self.admission && self.deadline.is_some_and(|d| state.seconds() + state.ideal(job) > d[job.index()]))
    }

    fn waiting_key<S: Speed>(&mut self, _state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.key(job)
    }

    fn running_key<S: Speed>(&mut self, _state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.key(stay.job)
    }
}
