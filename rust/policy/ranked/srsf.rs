//! SRSF: the least remaining run time times GPUs first, ties fifo. Clairvoyant. (As in Tiresias: Gu et al., NSDI 2019,
//! shortest remaining service first.)
//!
//! A pass costs as much as SRTF's.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::options::{Facts, Is, Named, Options};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Srsf {
    interval: Option<f64>,
}

impl Srsf {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self { interval: options.interval }
    }
}

impl Named for Srsf {
    const FACTS: Facts = Facts {
        name: "srsf",
        about: "least remaining run time x num_gpus",
        paper: "Gu et al., NSDI 2019",
        knows: KNOWS,
        is: &[Is::Ranks, Is::Clairvoyant],
        options: &["preempt-cost", "interval"],
    };
}

impl Ranking for Srsf {
    const COUNTS_WORK: bool = true;

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn waiting_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        floor.remaining(job) * floor.jobs.gpus(job.index())
    }

    fn running_key<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        floor.remaining_of(stay) * floor.jobs.gpus(stay.job.index())
    }
}
