//! Ranks jobs into priority classes, which precede keys: jobs within their owners' quotas before those over quota,
//! then by priority.
//!
//! Invariant: a job that waits is in the queue of its priority class. For example, with priorities 0 and 5 jobs of 5
//! are of class 0 and those of 0 of class 1; with quotas, jobs over quota are of classes 2 and 3, and jobs of class 4
//! may not run.

use super::Repack;
use super::class_queues::ClassQueues;
use super::run_times::RunTimes;
use crate::ids::{Job, Slot};
use crate::machine::{Claimant, ClusterState};
use crate::setting::Setting;
use crate::speed::Speed;

/// The priority classes of a run.
#[derive(Clone, Debug)]
pub(super) struct PriorityClasses {
    /// By job: how many priorities are higher. Empty where all jobs are of one priority class.
    above: Vec<u32>,
    priorities: u32,
    quotas: bool,
}

impl PriorityClasses {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let (jobs, quotas) = (&setting.jobs, setting.side.quotas.is_some());
        let mut tiers: Vec<u32> = (0..jobs.len()).map(|job| jobs.tier(job)).collect();
        tiers.dedup(); // jobs are in order of priority
        let above = |job| tiers.partition_point(|&tier| tier < jobs.tier(job)) as u32;
        let differ = quotas || tiers.len() > 1;
        Self {
            above: if differ { (0..jobs.len()).map(above).collect() } else { Vec::new() },
            priorities: tiers.len().max(1) as u32,
            quotas,
        }
    }

    /// Returns a queue for each priority class.
    pub(super) fn queues(&self) -> ClassQueues {
        ClassQueues::new(self.above.clone(), self.walked() as usize + usize::from(self.quotas))
    }

    /// Returns whether jobs may be of several.
    pub(super) fn differ(&self) -> bool {
        !self.above.is_empty()
    }

    /// Returns the number of priority classes without that of jobs that may not run, which is the next.
    pub(super) fn walked(&self) -> u32 {
        if self.quotas { 2 * self.priorities } else { self.priorities }
    }

    pub(super) fn is_over_quota(&self, priority_class: u32) -> bool {
        self.quotas && priority_class >= self.priorities
    }

    /// Returns the first over-quota priority class that makes room for a priority class even if protected; the
    /// greatest number if none does.
    pub(super) fn over_quota_before(&self, priority_class: u32) -> u32 {
        if self.quotas && !self.is_over_quota(priority_class) { self.priorities } else { u32::MAX }
    }

    fn of(&self, job: Job, claimant: Claimant) -> u32 {
        let above = self.above[job.index()];
        match claimant {
            Claimant::Within => above,
            Claimant::Over => self.priorities + above,
            Claimant::HeldBack => 2 * self.priorities,
        }
    }
}

impl<F: RunTimes> Repack<F> {
    /// Counts which jobs are within a quota, protected jobs first, then along (priority, key), and stops jobs that
    /// may not run.
    pub(super) fn reclassify<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        let Self { server_index, classes_of_priority, .. } = self;
        let waiting: Vec<Job> = server_index.run_times.queues().jobs().collect();
        let mut all: Vec<(bool, u32, u64, Job, Option<Slot>)> = Vec::new();
        for job in waiting {
            let left = server_index.run_times.remaining_waiting(job);
            all.push((
                true,
                classes_of_priority.above[job.index()],
                server_index.run_times.key(state.units(job), left),
                job,
                None,
            ));
        }
        for (slot, stay) in state.stays.iter().enumerate().filter(|(_, stay)| stay.is_live()) {
            // Without the rest of its pause: otherwise a job that has just begun would go behind the one that it
            // replaced.
            let left = server_index.run_times.remaining_running(state, stay);
            let key = server_index.run_times.key(state.units(stay.job), left);
            let slot = Slot::at(slot);
            all.push((!state.is_kept(slot), classes_of_priority.above[stay.job.index()], key, stay.job, Some(slot)));
        }
        all.sort_unstable_by_key(|&(is_open, above, key, job, _)| (is_open, above, key, job));
        let (mut tally, mut stopped) = (state.tally(), Vec::new());
        for (.., job, slot) in all {
            let claimant = state.count(&mut tally, job);
            let priority_class = classes_of_priority.of(job, claimant);
            if slot.is_some() {
                server_index.run_times.queues_mut().set_priority_class(job, priority_class);
                if claimant == Claimant::HeldBack && slot.is_none_or(|slot| !state.is_on_draining(slot)) {
                    stopped.push(job);
                }
            } else if priority_class != server_index.run_times.queues().priority_class_of(job) {
                server_index.run_times.leave(job);
                server_index.run_times.queues_mut().set_priority_class(job, priority_class);
                server_index.run_times.join(state, job);
            }
        }
        stopped.sort_unstable();
        for job in stopped {
            let slot = self.server_index.unsettle(state, job);
            state.stop(slot);
            self.rejoin(state, job);
        }
        self.server_index.run_times.queues_mut().begin_walk(self.classes_of_priority.walked());
    }
}
