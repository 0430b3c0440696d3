//! Keeps count of the GPUs that a ranking may still hand out: one quota for each GPU type, or one of all GPUs where
//! they are alike.
//!
//! Amounts are thousandths of a GPU where the table has shares. Invariant: no quota gives more than it has. A running
//! job draws on the type that it holds, a waiting one on the first of its types with enough left. For example, with 4
//! GPUs left of each of two types, a gang of 6 draws on neither.

use crate::ids::{Job, Slot};
use crate::machine::ClusterState;
use crate::speed::Speed;

/// What is left, by pool: GPUs, or thousandths of one where the table has shares.
#[derive(Clone, Debug)]
pub(super) struct Quotas(Vec<u64>);

impl Quotas {
    /// Creates quotas of all GPUs.
    pub(super) fn new<S: Speed>(state: &ClusterState<'_, S>) -> Self {
        Self(state.cluster.units())
    }

    /// Draws a job's GPUs, if there are enough. `slot`: that of its stay, if it runs.
    #[inline(always)]
    pub(super) fn draw<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, slot: Option<Slot>) -> bool {
        let units = u64::from(state.units(job));
        if let [left] = self.0.as_mut_slice() {
            return draw_from(left, units);
        }
        let mut draw = |gpu_type| draw_from(&mut self.0[state.cluster.pool_of(gpu_type)], units);
        match slot {
            Some(slot) => draw(state.stays[slot.index()].gpu_type),
            None => state.jobs.tried(job).iter().any(|&(gpu_type, _)| draw(gpu_type)),
        }
    }
}

#[inline]
fn draw_from(left: &mut u64, units: u64) -> bool {
    let enough = units <= *left;
    *left -= if enough { units } else { 0 };
    enough
}
