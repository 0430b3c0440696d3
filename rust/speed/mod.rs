//! Computes how fast a job runs on its GPUs. Each execution model is a file.
//!
//! The machine calls the model once when a stay begins and copies the inputs of the rate into the stay. It calls it
//! again whenever the contention of the stay changes. A model makes no decisions. For example, under `fixed` a job of
//! 60 s has 60 units of work, and each takes a second, regardless of other jobs.

mod co_location;
mod fabric;
mod fixed;
mod link_contention;
mod ring;
mod table;

use crate::ids::{GpuType, Job};
use crate::trace::Jobs;
pub(crate) use co_location::CoLocation;
pub(crate) use fabric::{Fabric, thousandths};
pub(crate) use fixed::FixedSpeed;
pub(crate) use link_contention::LinkContention;
pub(crate) use ring::{Ring, RingSpeed};
pub(crate) use table::TableSpeed;

/// An execution model.
pub(crate) trait Speed: Clone + Send {
    /// Whether running jobs slow each other down. If not, the end of a stay never changes.
    const COUPLED: bool;

    /// Whether work counts iterations, under the slot clock too, not recorded seconds or slots.
    const COUNTS_ITERATIONS: bool;

    /// Whether the slot in which a pause ends yields work in its rest. If not, pauses take whole slots.
    const USES_REST_OF_SLOT: bool = false;

    /// Whether rates are measured in iterations per second, so that those of pairs are, too.
    const IS_MEASURED: bool = false;

    /// The inputs of a stay's rate besides its servers and its contention.
    type Pace: Copy + Default + Send + std::fmt::Debug;

    /// Returns the whole work of a job. `slot`: the slot length, s, under the slot clock.
    fn work(&self, jobs: &Jobs<'_>, job: Job, slot: Option<f64>) -> f64;

    /// Returns the pace of a job on that many GPUs of a type; `NONE`: of the type on which it was recorded.
    fn pace(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> Self::Pace;

    /// Returns the work per second of a job alone on that many GPUs of a type, on that many servers: iterations, or
    /// recorded seconds under models that do not count iterations; 0 if it cannot run.
    fn rate(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType, servers: u32) -> f64;

    /// Returns the time of a unit of work on that many servers with that contention, s.
    fn unit(&self, pace: &Self::Pace, servers: u32, contention: u32) -> f64;

    /// Returns the same of a spanning job, and what it sends meanwhile on each link, bytes/s: 0 where bandwidth does not
    /// matter.
    fn unit_and_traffic(&self, pace: &Self::Pace, servers: u32, contention: u32) -> (f64, f64) {
        (self.unit(pace, servers, contention), 0.0)
    }

    /// Returns whether the rates of some pairs of jobs on one GPU are known.
    fn knows_partners(&self) -> bool {
        false
    }

    /// Stores in the pace of a share the pace of the only other share on its GPU, if there is exactly one. Returns
    /// whether the model knows the rate of the pair.
    fn meet(&self, _pace: &mut Self::Pace, _other: Option<&Self::Pace>) -> bool {
        false
    }

    /// Stores in a pace the measured rate of a job beside others on its GPUs; `None`: as alone.
    fn run_at(&self, _pace: &mut Self::Pace, _rate: Option<f64>) {}

    /// Stores in the pace of a spanning job the bandwidth that a network of tiers gives it, bytes/s; 0: equation 7 does.
    fn feel(&self, _pace: &mut Self::Pace, _bandwidth: f64) {}

    /// Returns the ring of a pace, if the time of its iterations depends on bandwidth.
    fn ring(&self, _pace: &Self::Pace) -> Option<Ring> {
        None
    }

    /// Returns the units of work in a slot of that length if one takes `unit` seconds.
    fn per_slot(&self, pace: &Self::Pace, slot: f64, unit: f64) -> f64;

    /// Returns the run time of a whole job on that many servers with that contention, s.
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, servers: u32, contention: u32) -> f64;

    /// Returns the run time of `left` work, s, if a unit takes `alone`.
    fn remaining(&self, jobs: &Jobs<'_>, job: Job, left: f64, alone: f64, slot: Option<f64>) -> f64;

    /// Returns rho_j, s: the run time on one server without contention.
    #[inline]
    fn estimate(&self, jobs: &Jobs<'_>, job: Job) -> f64 {
        self.run_time(jobs, job, 1, 0)
    }
}

/// Returns the slots until `wanted` of the work left is done, for a job of `work` in all, of which `left` is left. A
/// slot's work that is not a whole number is known only up to rounding, and so is the work left after it: a shortfall
/// of that much of `work` at the end of a slot counts as done. For example, 49 slots of 1/49 each are 1. And if 2 of 3
/// are done by 3 slots of 2/3, one slot of 1 does the rest.
#[inline]
pub(crate) fn whole_slots(wanted: f64, per_slot: f64, left: f64, work: f64) -> f64 {
    if per_slot.fract() == 0.0 && work - (work - left).round() == left {
        return (wanted / per_slot).ceil();
    }
    f64::max(0.0, ((wanted - 1e-12 * work) / per_slot).ceil())
}

#[cfg(test)]
mod tests {
    use super::whole_slots;

    #[test]
    fn slots_of_whole_numbers_are_exact() {
        // At this size a rounding is more than one iteration.
        let per_slot = 3e12;
        assert_eq!(whole_slots(per_slot + 1.0, per_slot, per_slot + 1.0, per_slot + 1.0), 2.0);
        // If the work left is not a whole number, so small a surplus is rounding.
        let (left, per_slot) = (1.0 + 1e-13, 0.1);
        assert_eq!(whole_slots(left, per_slot, left, 1.0), 10.0);
    }
}
