//! Saves the state of a stay that ends before its job is done, so that the verbs of one instant can be netted
//! (docs/model.md).
//!
//! Invariant: restoring it leaves the stay log as if the stay had never ended. For example, a policy that stops every
//! job and starts each again on the same GPUs at the same instant has no effect: no pause, no preemption.

use super::cluster_state::ClusterState;
use super::limits::Limits;
use super::progress::Progress;
use super::stays::Stay;
use crate::cluster::Claim;
use crate::ids::{Job, NO_SEAT, Server, Slot};
use crate::outcome::Woken;
use crate::record::Why;
use crate::speed::Speed;
use crate::trace::Form;

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

    /// Removes the end of a job's latest stay from the record; the allocations have `rows` rows of it. Returns whether
    /// the stay ended at a rung.
    fn forget(&mut self, job: Job, rows: usize) -> bool {
        if !self.out.allocations.job.is_empty() {
            self.out.allocations.forget(job, rows);
        }
        // The job did not lose the GPUs it was given in between either.
        let given_up = self.out.stay_log.records.iter_mut().rev().take_while(|records| records.end == self.now);
        given_up
            .filter(|records| records.job == job && records.num_gpus == 0)
            .for_each(|records| records.why = Why::Void);
        let Some(records) = self.out.stay_log.latest(job) else { return false };
        let before = std::mem::replace(&mut records.why, Why::Void);
        let rested = before == Why::Rung;
        if let Some(protection) = self.protection.as_mut().filter(|_| records.end > records.start) {
            protection.count(job, Some(before), Why::Void);
        }
        self.out.wait_causes[job.index()] = records.waited;
        self.out.climbing.set_woke(job, records.woke);
        rested
    }

    /// Continues the stay that ended at this instant if the job was placed on the same GPUs. Returns its slot.
    #[cold]
    pub(super) fn resume_in_place(&mut self, job: Job) -> Option<Slot> {
        let shares = self.jobs.shares.is_some();
        let gpus = if shares { self.cluster.held(job, self.grant.gpu_type).0 } else { Vec::new() };
        let at = self.rollback.iter().position(|rollback| {
            let is_free = self.seats.as_ref().is_none_or(|seats| seats.members(rollback.stay.seat).is_empty());
            rollback.stay.job == job && rollback.stay.parts == self.grant.parts && rollback.gpus == gpus && is_free
        })?;
        if !shares {
            // The GPUs were never released: their U stays the same.
            let stay = &self.rollback[at].stay;
            self.cluster.undo(job, &self.grant.parts);
            let claim = Claim { job, num_gpus: stay.gpus(), time: 0.0, share: 0, form: Form::default() };
            self.cluster.take(&stay.parts, &claim, &mut self.grant);
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.take(&self.rollback[at].stay.parts, Woken::ByJob(job), self.now, self.clock);
        }
        Some(self.resume(at))
    }

    /// Continues the stay that ended at this instant if the job had that seat, which others still hold. Returns its
    /// slot.
    #[cold]
    pub(super) fn resume_beside(&mut self, job: Job, seat: u32) -> Option<Slot> {
        let is_it = |rollback: &Rollback<S::Pace>| rollback.stay.job == job && rollback.stay.seat == seat;
        let at = self.rollback.iter().position(is_it)?;
        Some(self.resume(at))
    }

    /// Continues a stay that ended at this instant, whose GPUs its job has again. Returns its slot.
    #[cold]
    fn resume(&mut self, at: usize) -> Slot {
        let rollback = self.rollback.swap_remove(at);
        let (job, shares) = (rollback.stay.job, self.jobs.shares.is_some());
        rollback.put_back(self.progress.as_mut(), self.limits.as_deref_mut());
        let rested = self.forget(job, if shares { rollback.gpus.len() } else { rollback.stay.parts.len() });
        let slot = self.free.pop().unwrap_or(Slot::at(self.stays.len()));
        if slot.index() == self.stays.len() {
            self.stays.push(Stay::default());
        }
        if rollback.stay.parts.len() > 1 {
            self.out.links.forget(job);
            self.link_contention.join(slot, rollback.stay.servers());
            self.contention_sum += u64::from(rollback.stay.contention);
        }
        let num_gpus = rollback.stay.gpus();
        self.stays[slot.index()] = rollback.stay;
        if self.stays[slot.index()].parts.len() > 1 {
            self.cross(slot);
        }
        if !rested {
            self.set_end(slot);
        }
        if let Some(co_location) = &mut self.co_location
            && self.jobs.share_of(job.index()) > 0
        {
            rollback.gpus.iter().for_each(|&(server, gpu)| co_location.join(slot, server, gpu));
        }
        let seat = self.stays[slot.index()].seat;
        if self.seats.is_some() && seat != NO_SEAT {
            self.grant.parts.clone_from(&self.stays[slot.index()].parts);
            self.sit_on(slot, seat);
        }
        self.hold_again(slot, job, num_gpus, rollback.was_over);
        self.pend_no_longer(job);
        self.out.stay_log.note_start(job, self.now);
        if self.protection.is_some() {
            self.protect(slot);
        }
        self.on_start(slot);
        if rested {
            self.go_on(slot);
        }
        slot
    }
}
