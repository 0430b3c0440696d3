//! The jobs of most GPUs first, ties fifo: a ranking of a few lines.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::options::{Facts, Is, Named};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Widest;

impl Named for Widest {
    const FACTS: Facts = Facts {
        name: "widest",
        about: "most num_gpus",
        paper: "nobody",
        knows: KNOWS,
        is: &[Is::Ranks],
        options: &["preempt-cost"],
    };
}

impl Ranking for Widest {
    fn waiting_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        -f64::from(floor.asks(job))
    }

    fn running_key<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        -f64::from(floor.asks(stay.job))
    }
}
