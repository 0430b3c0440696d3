//! Decides which stays lose work as they end: their jobs fall back to their last checkpoint
//! (docs/outages.md#what-an-outage-does).
//!
//! Invariant: a job that does not run has the work left of its last checkpoint if the end of its latest stay loses work,
//! otherwise that of all its progress. For example, a job that is stopped under `--preempt-loses` falls back at once. If
//! it is placed elsewhere at the same instant, it has moved and has its progress again.

use super::cluster_state::ClusterState;
use super::stays::Stay;
use crate::ids::{Job, Slot};
use crate::options::Options;
use crate::record::Why;
use crate::speed::Speed;

/// Which ends of stays lose work, besides failures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    pub(super) evictions: bool,
    preemptions: bool,
}

impl Losses {
    pub(super) fn new(options: &Options) -> Self {
        Self { evictions: options.evict_loses, preemptions: options.preempt_loses }
    }

    /// Returns whether any do.
    pub(super) fn are_any(self) -> bool {
        self.evictions || self.preemptions
    }

    fn has(self, why: Why) -> bool {
        match why {
            Why::Failed(_) => true,
            Why::EvictedBy(_) | Why::EvictedFor(_) => self.evictions,
            Why::Preempted => self.preemptions,
            _ => false,
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Ends a stay before its job is done. The job falls back to its last checkpoint if such an end loses work.
    pub(super) fn end_early(&mut self, slot: Slot, why: Why) {
        if !self.losses.has(why) {
            return self.vacate(slot, why, None);
        }
        let stay = &self.stays[slot.index()];
        let (left, passed) = self.at_checkpoint(stay);
        let fallen = left - stay.left_at(self.now, self.clock);
        self.vacate(slot, why, Some(left));
        if let Some(records) = self.out.stay_log.records.last_mut() {
            (records.lost, records.lost_time) = (fallen, self.clock.seconds(passed));
        }
    }

    /// Corrects why the latest stay of a job ended, once a later verb of the same instant shows it.
    pub(super) fn tell(&mut self, job: Job, why: Why) {
        if let Some(records) = self.out.stay_log.latest(job) {
            let before = std::mem::replace(&mut records.why, why);
            if let Some(protection) = self.protection.as_mut().filter(|_| records.end > records.start) {
                protection.count(job, Some(before), why);
            }
            if self.losses.has(before) != self.losses.has(why) {
                self.lose_or_regain(job, why);
            }
        }
    }

    /// Lets a job whose stay ended at this instant fall back, or have its progress again, as the corrected end reason
    /// demands.
    #[cold]
    fn lose_or_regain(&mut self, job: Job, why: Why) {
        let Some(rollback) = self.rollback.iter().find(|rollback| rollback.stay.job == job) else { return };
        let full = rollback.stay.left_at(self.now, self.clock);
        let (left, passed) = if self.losses.has(why) { self.at_checkpoint(&rollback.stay) } else { (full, 0.0) };
        let kept = rollback.left - left;
        if let Some(progress) = &mut self.progress {
            progress.left[job.index()] = left;
        }
        if kept > 0.0 {
            self.advanced_to = self.now;
        }
        let lost_time = self.clock.seconds(passed);
        if let Some(records) = self.out.stay_log.latest(job) {
            (records.kept, records.lost, records.lost_time) = (kept, left - full, lost_time);
        }
    }

    /// Returns the seconds of progress of the stay at a slot since its latest checkpoint.
    pub(super) fn unsaved(&self, slot: Slot) -> f64 {
        self.clock.seconds(self.at_checkpoint(&self.stays[slot.index()]).1)
    }

    /// Returns the work left at the latest checkpoint of a stay, and the time of progress since then.
    fn at_checkpoint(&self, stay: &Stay<S::Pace>) -> (f64, f64) {
        match self.saving {
            None => stay.at_checkpoint(self.now, self.clock),
            Some(_) => stay.saves.at_latest(self.now),
        }
    }
}
