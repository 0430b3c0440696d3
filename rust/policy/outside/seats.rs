//! Starts jobs beside others, on the same GPUs (docs/lucid.md).
//!
//! For example, of two jobs of 4 GPUs the second can start beside the first, and then holds no other GPUs.

use super::{Outside, Refusal, beyond_quota};
use crate::decisions::Verb;
use crate::ids::{Job, Slot};
use crate::machine::ClusterState;
use crate::speed::Speed;

/// Returns those of some stays whose GPUs come free if all of them give theirs back: of a seat on which nobody stays the
/// first.
pub(super) fn come_free<S: Speed>(state: &ClusterState<'_, S>, slots: &[Slot]) -> Vec<Slot> {
    let is_first = |at: usize| !slots[..at].iter().any(|&before| state.beside(slots[at]).any(|other| other == before));
    let all_go = |slot: Slot| state.beside(slot).all(|other| slots.contains(&other));
    (0..slots.len()).filter(|&at| all_go(slots[at]) && is_first(at)).map(|at| slots[at]).collect()
}

impl Outside {
    /// Starts a waiting job on the GPUs of a running one, beside it.
    pub(crate) fn start_beside<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        other: Job,
    ) -> Result<(), Refusal> {
        self.check_waiting(state, &[job], Verb::Start)?;
        let slot = self.job_states.slot_of(other).ok_or_else(|| (job, Verb::Start, "the other does not run".into()))?;
        beyond_quota(state, &[(job, 0, state.asks(job))], Verb::Start)?;
        state.may_not_sit(job, slot).map_or(Ok(()), |why| Err((job, Verb::Start, why)))?;
        self.job_states.set_running(job, state.start_beside(job, slot));
        Ok(())
    }

    /// Returns the jobs on the GPUs of a running one, in the order in which they started.
    pub(crate) fn beside<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> Vec<Job> {
        let slot = self.job_states.slot_of(job);
        slot.map_or_else(Vec::new, |slot| state.beside(slot).map(|other| state.stays[other.index()].job).collect())
    }

    /// Returns both jobs' rates on the same GPUs, as fractions of those alone, should the first start beside the other:
    /// on the other's GPUs if it runs, else on those that the first asks for, on the fewest servers.
    pub(crate) fn pair<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job, other: Job) -> [f64; 2] {
        let stay = self.job_states.slot_of(other).map(|slot| &state.stays[slot.index()]);
        state.fractions(job, other, stay.map(|stay| (stay.gpu_type, stay.gpus(), stay.parts.len() as u32)))
    }
}
