//! Implements model `fixed`: every job runs its recorded duration on any placement.
//!
//! A job on fewer or more GPUs than it requests runs in proportion, times E(w): 60 s on half of them take 120 s if
//! every sample counts in full (docs/model.md#statistical-efficiency). On GPUs of another type than the recorded one it
//! runs faster or slower by the ratio of their speeds. Under the slot clock work counts slots, and a job ends with its
//! last whole one. For example, 21 s in slots of 0.7 s are 31 slots: the quotient is rounded up as float64 gives it
//! (docs/model.md#clocks).

use super::Speed;
use crate::ids::{GpuType, Job};
use crate::trace::Jobs;

/// Work counts seconds, or slots under the slot clock. On all its GPUs a job takes one second, or slot, per unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FixedSpeed;

impl Speed for FixedSpeed {
    const COUPLED: bool = false;
    const COUNTS_ITERATIONS: bool = false;
    /// Recorded seconds per second.
    type Pace = f64;

    #[inline]
    fn work(&self, jobs: &Jobs<'_>, job: Job, slot: Option<f64>) -> f64 {
        slot.map_or(jobs.duration[job.index()], |slot| jobs.duration[job.index()] / slot)
    }

    #[inline]
    fn pace(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> f64 {
        let share = jobs.relative_rate(job.index(), gpus);
        if jobs.types.is_none() || gpu_type == GpuType::NONE {
            return share;
        }
        let (speed, recorded) = jobs.speeds_on(job, gpu_type);
        share * speed / recorded
    }

    #[inline]
    fn rate(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType, _servers: u32) -> f64 {
        self.pace(jobs, job, gpus, gpu_type)
    }

    #[inline]
    fn unit(&self, rate: &f64, _servers: u32, _contention: u32) -> f64 {
        1.0 / rate
    }

    #[inline]
    fn per_slot(&self, rate: &f64, _slot: f64, _unit: f64) -> f64 {
        *rate
    }

    #[inline]
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, _servers: u32, _contention: u32) -> f64 {
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
