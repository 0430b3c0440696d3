//! Lets jobs that no plan helps evict others by the machine's rule.
//!
//! Invariant: a demand is barren while no waiting job with it can evict anybody, so that others with the same demand are
//! not tried. For example, after one job of 8 GPUs has failed no other of 8 GPUs asks until a job starts or ends.

use super::Repack;
use super::run_times::RunTimes;
use crate::ids::Job;
use crate::machine::ClusterState;
use crate::speed::Speed;

/// Returns whether one of those jobs asks for the same.
pub(super) fn is_barren<S: Speed>(state: &ClusterState<'_, S>, job: Job, barren: &[Job]) -> bool {
    barren.iter().any(|&other| state.jobs.demand(other) == state.jobs.demand(job))
}

impl<F: RunTimes> Repack<F> {
    /// Starts a waiting job that is not over quota by evicting others by the machine's rule, if that is possible.
    fn start_by_evicting<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        let priority_class = self.server_index.run_times.queues().priority_class_of(job);
        if !self.evicts || self.classes_of_priority.is_over_quota(priority_class) || !state.makes_room() {
            return false;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = state.place_by_evicting(job, &mut evicted);
        evicted.iter().for_each(|&(_, victim)| _ = self.server_index.unsettle(state, victim));
        if placed {
            self.start(state, job);
        }
        self.is_other |= !evicted.is_empty();
        evicted.iter().for_each(|&(_, victim)| self.rejoin(state, victim));
        self.evicted = evicted;
        placed
    }

    /// Does the same for a job whose demand is barren from then on if it is not possible.
    pub(super) fn tries_to_evict<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        let placed = self.start_by_evicting(state, job);
        if !placed && state.may_make_room(job) && !is_barren(state, job, &self.barren) {
            self.barren.push(job);
        }
        placed
    }

    /// Drops demands that are no longer barren. Returns whether there are any.
    pub(super) fn review_barren<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) -> bool {
        let before = self.barren.len();
        if std::mem::take(&mut self.is_other) && self.evicts && before > 0 && state.makes_room() {
            self.barren.retain(|&job| !state.can_evict_for(job));
        }
        self.barren.len() < before
    }
}
