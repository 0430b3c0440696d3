//! How fast a job runs where it runs. A model is a file.
//!
//! The machine asks once when a stay begins, and copies what the rate hangs on into the stay. It asks again whenever
//! the crowd around the stay changes. A model decides nothing. For example, under `fixed` a job of 60 s has 60 units of
//! work, and each takes a second, whatever runs beside it.

mod co_location;
mod fixed;
mod link_contention;
mod ring;
mod table;

use crate::ids::{GpuType, Job};
use crate::trace::Jobs;
pub(crate) use co_location::CoLocation;
pub(crate) use fixed::FixedSpeed;
pub(crate) use link_contention::LinkContention;
pub(crate) use ring::{Ring, RingSpeed};
pub(crate) use table::TableSpeed;

/// An execution model.
pub(crate) trait Speed: Clone + Send {
    /// Whether jobs that run slow each other down. If they do not, no stay is ever timed anew.
    const COUPLED: bool;

    /// Whether work counts iterations, also under the slot clock, and not recorded seconds or slots.
    const COUNTS_ITERATIONS: bool;

    /// Whether the slot in which a pause ends yields what fits in its rest. If not, pauses take whole slots.
    const USES_REST_OF_SLOT: bool = false;

    /// What a stay's rate hangs on beside its servers and its crowd.
    type Pace: Copy + Default + Send + std::fmt::Debug;

    /// The whole work of a job. `slot`: the slot's length, s, under the slot clock.
    fn work(&self, jobs: &Jobs<'_>, job: Job, slot: Option<f64>) -> f64;

    /// The pace of a job on that many GPUs of a type; `NONE`: of the type on which it was recorded.
    fn pace(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> Self::Pace;

    /// Work a second of a job alone on that many GPUs of a type, on so many servers: iterations, or recorded seconds
    /// where work does not count these; 0 where it cannot run.
    fn rate(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType, servers: u32) -> f64;

    /// What a unit of work takes on that many servers in that crowd, s.
    fn unit(&self, pace: &Self::Pace, servers: u32, contention: u32) -> f64;

    /// Whether it knows how fast some jobs run beside one other on their GPU.
    fn knows_partners(&self) -> bool {
        false
    }

    /// Takes note in the pace of a share of that of the only other share on its GPU, if there is just one. Returns
    /// whether the model knows how fast it runs beside that one.
    fn meet(&self, _pace: &mut Self::Pace, _other: Option<&Self::Pace>) -> bool {
        false
    }

    /// Units of work in a slot of that length where one takes `unit` seconds.
    fn per_slot(&self, pace: &Self::Pace, slot: f64, unit: f64) -> f64;

    /// The run time of a whole job on that many servers in that crowd, s.
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, servers: u32, contention: u32) -> f64;

    /// The run time of `left` work, s, where a unit takes `alone`.
    fn remaining(&self, jobs: &Jobs<'_>, job: Job, left: f64, alone: f64, slot: Option<f64>) -> f64;

    /// rho_j, s: the run time on one server without contention.
    #[inline]
    fn estimate(&self, jobs: &Jobs<'_>, job: Job) -> f64 {
        self.run_time(jobs, job, 1, 0)
    }
}

/// Slots until the rest of a job of that much `work` is done, of which `left` is left; `wanted` of that is asked for. A
/// slot's work that is no whole number is known to a rounding only, and so is what is left after it: what falls short of a
/// slot's end by that much of `work` counts. For example, 49 slots of 1/49 each are 1. And if 2 of 3 are done by 3 slots of
/// 2/3, one slot of 1 does the rest.
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
        // Of so much work a rounding is more than one iteration.
        let per_slot = 3e12;
        assert_eq!(whole_slots(per_slot + 1.0, per_slot, per_slot + 1.0, per_slot + 1.0), 2.0);
        // Where what is left is no whole number, so little over is none.
        let (left, per_slot) = (1.0 + 1e-13, 0.1);
        assert_eq!(whole_slots(left, per_slot, left, 1.0), 10.0);
    }
}
