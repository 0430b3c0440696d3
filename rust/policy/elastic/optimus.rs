//! Optimus: gives min_gpus to all in order of fifo, then one GPU at a time to the job whose remaining run time falls
//! most. Clairvoyant. (Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters",
//! EuroSys 2018.)

use super::capped_gains::CappedGains;
use super::{KNOWS, OPTIONS, Rule};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Optimus;

impl Named for Optimus {
    const FACTS: Facts = Facts {
        name: "optimus",
        about: "fifo at min_gpus; resizes jobs by marginal gain",
        paper: "Peng et al., EuroSys 2018",
        knows: KNOWS,
        is: &[Is::Resizes, Is::Clairvoyant],
        options: OPTIONS,
    };
}

impl Rule for Optimus {
    type Rest = CappedGains;

    fn key<S: Speed>(&self, _state: &ClusterState<'_, S>, _job: Job, _stay: Option<&Stay<S::Pace>>) -> f64 {
        0.0
    }
}
