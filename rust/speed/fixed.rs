//! Model `fixed`: every job runs its recorded duration, wherever it is placed.
//!
//! Under the slot clock work counts whole slots. For example, 21 s in slots of 0.7 s are 31 slots: the quotient is
//! rounded up as float64 gives it (docs/model.md#clocks).

use super::Speed;
use crate::ids::Job;
use crate::trace::Jobs;

/// Work counts seconds, or whole slots under the slot clock; a unit takes a second, or a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedSpeed;

impl Speed for FixedSpeed {
    const COUPLED: bool = false;
    type Pace = ();

    #[inline]
    fn work(&self, jobs: &Jobs<'_>, job: Job, slot: Option<f64>) -> f64 {
        slot.map_or(jobs.duration[job.index()], |slot| (jobs.duration[job.index()] / slot).ceil())
    }

    #[inline]
    fn pace(&self, _jobs: &Jobs<'_>, _job: Job) {}

    #[inline]
    fn unit(&self, _pace: &(), _servers: u32, _crowd: u32) -> f64 {
        1.0
    }

    #[inline]
    fn per_slot(&self, _slot: f64, _unit: f64) -> u64 {
        1
    }

    #[inline]
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, _servers: u32, _crowd: u32) -> f64 {
        jobs.duration[job.index()]
    }

    #[inline]
    fn remaining(&self, jobs: &Jobs<'_>, job: Job, left: f64, alone: f64, slot: Option<f64>) -> f64 {
        match slot {
            None => left * alone,
            Some(length) => f64::max(0.0, jobs.duration[job.index()] - (self.work(jobs, job, slot) - left) * length),
        }
    }
}
