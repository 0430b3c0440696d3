//! Ranks by finish-time fairness (Themis: Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI
//! 2020). The job with the largest (time since submission + remaining run time) / ideal run time goes first.
//! Clairvoyant.
//!
//! Themis calls this number rho. Elsewhere in this crate rho_j is the estimated run time. The number changes with
//! time for every job, so a pass ranks all running and waiting jobs.

use super::{KNOWS, Keys, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Ftf {
    interval: f64,
    /// Run times alone on the fewest servers, s.
    ideal: Vec<f64>,
}

impl Ftf {
    pub(in crate::policy) fn new<S: Speed>(setting: &Setting<'_>, speed: &S) -> Self {
        let jobs = &setting.jobs;
        let ideal = |j: usize| speed.run_time(jobs, Job::at(j), setting.few.of(jobs.num_gpus[j]).unwrap_or(1), 1);
        let ideal = (0..jobs.len()).map(ideal).collect();
        Self { interval: setting.options.interval(), ideal }
    }
}

impl Named for Ftf {
    const FACTS: Facts = Facts {
        name: "ftf",
        about: "largest finish-time fairness",
        paper: "Mahajan et al., NSDI 2020 (Themis)",
        knows: KNOWS,
        is: &[Is::Ranks, Is::Clairvoyant, Is::AtIntervals],
        options: &[
            "preempt-cost",
            "interval",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl Ranking for Ftf {
    type Tie = ();

    const KEYS: Keys = Keys::Move;

    /// The numbers of equal jobs may differ by a few units in the last place.
    const NEAR: f64 = 1e-12;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn rank<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        let j = job.index();
        let elapsed = state.seconds() - state.arrived_at(job);
        let remaining = stay.map_or_else(|| state.remaining(job), |stay| state.remaining_of(stay));
        -((elapsed + remaining) / self.ideal[j])
    }
}
