//! Tracks which jobs wait and where the others run, for policies whose decisions are made elsewhere.
//!
//! Invariant: a job waits, or has the slot of its stay, or has neither: before it arrives and once it is done, ended
//! or refused. For example, a job that is stopped loses its slot and waits again.

use crate::ds::OrderedBits;
use crate::ids::{Job, Slot};

/// The waiting jobs, and the slot of each running job's stay.
#[derive(Clone, Debug)]
pub(super) struct JobStates {
    waiting: OrderedBits,
    slot: Vec<Slot>,
}

impl JobStates {
    pub(super) fn new(jobs: usize) -> Self {
        Self { waiting: OrderedBits::new(jobs), slot: vec![Slot::NONE; jobs] }
    }

    /// Marks the job as waiting.
    #[inline]
    pub(super) fn set_waiting(&mut self, job: Job) {
        self.slot[job.index()] = Slot::NONE;
        self.waiting.insert(job.index());
    }

    /// Records that the job's stay is at that slot.
    #[inline]
    pub(super) fn set_running(&mut self, job: Job, slot: Slot) {
        self.slot[job.index()] = slot;
        self.waiting.remove(job.index());
    }

    /// Records that the job neither waits nor runs any more.
    #[inline]
    pub(super) fn set_gone(&mut self, job: Job) {
        self.set_running(job, Slot::NONE);
    }

    /// Returns whether the job waits.
    #[inline]
    pub(super) fn is_waiting(&self, job: Job) -> bool {
        self.waiting.contains(job.index())
    }

    /// Returns whether any job waits.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns every waiting job.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Job> + '_ {
        self.waiting.all().map(Job::at)
    }

    /// Returns the slot of a running job's stay.
    #[inline]
    pub(super) fn slot_of(&self, job: Job) -> Option<Slot> {
        self.slot.get(job.index()).copied().filter(|&slot| slot != Slot::NONE)
    }
}
