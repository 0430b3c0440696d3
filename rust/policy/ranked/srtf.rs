//! SRTF: the least remaining run time first, ties fifo. Clairvoyant.
//! (Schrage, "A proof of the optimality of the shortest remaining processing time discipline", 1968.)
//!
//! A pass costs O(sizes + jobs chosen + jobs behind the first that does not fit), each times a logarithm.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::options::{Facts, Is, Named, Options};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Srtf {
    interval: Option<f64>,
}

impl Srtf {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self { interval: options.interval }
    }
}

impl Named for Srtf {
    const FACTS: Facts = Facts {
        name: "srtf",
        about: "least remaining run time",
        paper: "Schrage, Operations Research 1968",
        knows: KNOWS,
        is: &[Is::Ranks, Is::Clairvoyant],
        options: &["preempt-cost", "interval"],
    };
}

impl Ranking for Srtf {
    const COUNTS_WORK: bool = true;

    fn interval(&self) -> Option<f64> {
        self.interval
    }

    fn waiting_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        floor.remaining(job)
    }

    fn running_key<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        floor.remaining_of(stay)
    }
}
