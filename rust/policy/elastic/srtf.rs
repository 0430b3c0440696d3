//! Elastic SRTF: gives min_gpus in SRTF's order, then one GPU at a time to the job whose remaining run time falls
//! most. Clairvoyant.

use super::capped_gains::CappedGains;
use super::{KNOWS, OPTIONS, Rule};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct ElasticSrtf;

/// Returns the remaining run time by which SRTF ranks, s.
pub(super) fn remaining<S: Speed>(state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
    stay.map_or_else(|| state.remaining(job), |stay| state.remaining_of(stay))
}

impl Named for ElasticSrtf {
    const FACTS: Facts = Facts {
        name: "elastic-srtf",
        about: "as afs at min_gpus; resizes jobs by marginal gain",
        paper: "ringbco",
        knows: KNOWS,
        is: &[Is::Resizes, Is::Clairvoyant],
        options: OPTIONS,
    };
}

impl Rule for ElasticSrtf {
    type Rest = CappedGains;

    fn key<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        remaining(state, job, stay)
    }
}
