//! SRTF and SRSF: rank the job with the least remaining run time first, or the least times GPUs; ties fifo.
//! Clairvoyant. (Schrage, "A proof of the optimality of the shortest remaining processing time discipline", 1968;
//! shortest remaining service first as in Gu et al., "Tiresias", NSDI 2019.)
//!
//! A pass costs O(sizes + jobs chosen + jobs behind the first that does not fit), each times a logarithm.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named, Options};
use crate::speed::Speed;

/// The ranking. `BY_GPUS`: whether a job's time counts once for each of its GPUs.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Remaining<const BY_GPUS: bool> {
    interval: Option<f64>,
}

pub(in crate::policy) type Srtf = Remaining<false>;
pub(in crate::policy) type Srsf = Remaining<true>;

impl<const BY_GPUS: bool> Remaining<BY_GPUS> {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self { interval: options.interval }
    }

    fn key<S: Speed>(state: &ClusterState<'_, S>, job: Job, remaining: f64) -> f64 {
        if BY_GPUS { remaining * state.jobs.gpus(job.index()) } else { remaining }
    }
}

impl<const BY_GPUS: bool> Named for Remaining<BY_GPUS> {
    const FACTS: Facts = Facts {
        name: if BY_GPUS { "srsf" } else { "srtf" },
        about: if BY_GPUS { "least remaining run time x num_gpus" } else { "least remaining run time" },
        paper: if BY_GPUS { "Gu et al., NSDI 2019" } else { "Schrage, Operations Research 1968" },
        knows: KNOWS,
        is: &[Is::Ranks, Is::Clairvoyant],
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

impl<const BY_GPUS: bool> Ranking for Remaining<BY_GPUS> {
    type Tie = ();

    const COUNTS_WORK: bool = true;

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn waiting_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        Self::key(state, job, state.remaining(job))
    }

    fn estimate<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> Option<f64> {
        Some(state.remaining(job))
    }

    fn running_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        Self::key(state, stay.job, state.remaining_of(stay))
    }
}
