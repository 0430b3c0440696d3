//! Saves the state of a stay that ends before its job is done, so that the verbs of one instant can be netted
//! (docs/model.md).
//!
//! Invariant: restoring it leaves the stay log as if the stay had never ended. For example, a policy that stops every
//! job and starts each again on the same GPUs at the same instant has no effect: no pause, no preemption.

use super::cluster_state::ClusterState;
use super::limits::Limits;
use super::progress::Progress;
use super::stays::Stay;
use crate::ids::{Job, Server};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(super) struct Rollback<P> {
    pub(super) stay: Stay<P>,
    /// (server, index of the GPU there), where jobs may hold shares.
    pub(super) gpus: Vec<(Server, u32)>,
    /// Whether a verb ended it, and whether it was over quota.
    pub(super) by_verb: bool,
    pub(super) was_over: bool,
    /// Whether it was protected.
    pub(super) was_protected: bool,
    pub(super) left: f64,
    served: f64,
    held: f64,
}

impl<P: Clone> Rollback<P> {
    /// Saves what the end of this stay will change.
    pub(super) fn of(stay: &Stay<P>, progress: Option<&Progress>, limits: Option<&Limits>) -> Self {
        let j = stay.job.index();
        let (left, served) = progress.map_or((0.0, 0.0), |progress| (progress.left[j], progress.served[j]));
        let held = limits.map_or(0.0, |limits| limits.held[j]);
        Self {
            stay: stay.clone(),
            gpus: Vec::new(),
            by_verb: false,
            was_over: false,
            was_protected: false,
            left,
            served,
            held,
        }
    }

    /// Restores the progress table. The caller restores the record, the GPUs and the stay itself.
    pub(super) fn put_back(&self, progress: Option<&mut Progress>, limits: Option<&mut Limits>) {
        let j = self.stay.job.index();
        if let Some(progress) = progress {
            (progress.left[j], progress.served[j]) = (self.left, self.served);
        }
        if let Some(limits) = limits {
            limits.held[j] = self.held;
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether a stay of a job ended early at this instant.
    #[inline]
    pub(super) fn has_rollback(&self, job: Job) -> bool {
        !self.rollback.is_empty()
            && self.progress.as_ref().is_some_and(|progress| progress.ended[job.index()] == self.now)
    }

    /// Returns whether a protected stay of a job ended at this instant.
    pub(super) fn has_rollback_protected(&self, job: Job) -> bool {
        self.rollback.iter().any(|rollback| rollback.stay.job == job && rollback.was_protected)
    }

    /// Returns whether a verb ended a stay of a job at this instant.
    pub(super) fn was_stopped(&self, job: Job) -> bool {
        self.rollback.iter().any(|rollback| rollback.stay.job == job && rollback.by_verb)
    }
}
