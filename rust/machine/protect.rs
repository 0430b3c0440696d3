//! Protects running jobs from being stopped for others (docs/operators-reference.md#protection-from-preemption).
//!
//! Invariant: `ends` has every live stay whose protection by age has yet to end. For example, with 600 s a job that
//! started at 100 s is protected before 700 s, and at 700 s waiting jobs are considered again.

use super::cluster_state::ClusterState;
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// The protections of a run.
#[derive(Clone, Debug)]
pub(super) struct Protection {
    /// Age of a stay at which its protection ends, s; `None` for what its job's costs say.
    after: Option<f64>,
    /// What is added to those where a preempted job loses work, s, besides the checkpoint interval.
    until_saved: Option<f64>,
    /// A job is protected after this many of its stays have ended for others.
    most: u32,
    /// Whether a job with preemptible = false is protected.
    keeps: bool,
    /// Whether the end of a protection is a pass. A turn of `time-slice` is no shorter than such a protection.
    looks: bool,
    /// By job: the number of those stays.
    stopped: Vec<u32>,
    /// Stays by when their protection ends (machine time).
    ends: EventHeap,
    /// Whether a protection ended at this instant and no pass has seen it yet.
    has_ended: bool,
}

/// Returns whether a stay with this end reason ended for others.
fn counts(why: Why) -> bool {
    matches!(why, Why::Preempted | Why::EvictedBy(_) | Why::EvictedFor(_))
}

impl Protection {
    /// Returns the protection of the setting, if it has one and jobs may be stopped. The decisions of a log are already
    /// made.
    pub(super) fn new(setting: &Setting<'_>, stops: bool) -> Option<Box<Self>> {
        let options = setting.options;
        let after = options.preempt_after();
        (setting.protects() && setting.log.is_none() && (stops || options.evict)).then(|| {
            Box::new(Self {
                after,
                until_saved: options.preempt_loses.then_some(options.start_cost + options.checkpoint_cost),
                most: options.max_preemptions.unwrap_or(u32::MAX),
                keeps: options.keep_unpreemptible,
                looks: !options.reads("quantum") || after.is_none_or(|after| after > options.quantum),
                stopped: vec![0; setting.jobs.len()],
                ends: EventHeap::default(),
                has_ended: false,
            })
        })
    }

    /// Notes that a stay of a job ended, or that its end reason changed.
    #[cold]
    pub(super) fn count(&mut self, job: Job, before: Option<Why>, after: Why) {
        let stopped = &mut self.stopped[job.index()];
        *stopped += u32::from(counts(after));
        *stopped -= u32::from(before.is_some_and(counts));
    }

    /// Removes the stay at a slot, which is over.
    #[cold]
    pub(super) fn forget(&mut self, slot: Slot) {
        self.ends.remove(slot.number());
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether any job may be protected.
    #[inline]
    pub(crate) fn protects(&self) -> bool {
        self.protection.is_some()
    }

    /// Returns until when the stay at a slot is protected (machine time).
    fn protected_until(&self, slot: Slot) -> f64 {
        let Some(protection) = &self.protection else { return f64::NEG_INFINITY };
        let stay = &self.stays[slot.index()];
        let job = stay.job.index();
        if protection.stopped[job] >= protection.most || protection.keeps && !self.jobs.may_be_evicted(job) {
            f64::INFINITY
        } else {
            let after = self.protected_for(protection, stay.job);
            if after > 0.0 { self.clock.arrival(self.clock.seconds(stay.start) + after) } else { f64::NEG_INFINITY }
        }
    }

    /// Returns for how long the stays of a job are protected, s.
    fn protected_for(&self, protection: &Protection, job: Job) -> f64 {
        let saved = |more: f64| 2.0 * self.preempt_cost_of(job) + (self.interval_of(job) + more);
        let own = || protection.until_saved.map_or_else(|| 2.0 * self.preempt_cost_of(job), saved);
        protection.after.unwrap_or_else(own)
    }

    /// Returns whether the job at a slot is protected now.
    pub(crate) fn is_protected(&self, slot: Slot) -> bool {
        self.protected_until(slot) > self.now && !self.is_new(slot)
    }

    /// Returns after when, and until when, the stay at a slot is protected (machine time).
    pub(super) fn protected(&self, slot: Slot) -> (f64, f64) {
        if self.protection.is_none() {
            return (f64::NEG_INFINITY, f64::NEG_INFINITY);
        }
        let after = if self.is_new(slot) { self.now } else { f64::NEG_INFINITY };
        (after, self.protected_until(slot))
    }

    /// Returns whether the job at a slot began at this instant and has no protected stay that it continues.
    fn is_new(&self, slot: Slot) -> bool {
        let stay = &self.stays[slot.index()];
        stay.start == self.now && !self.has_rollback_protected(stay.job)
    }

    /// Returns why a verb may not stop the job at a slot. The verb's beneficiary is unknown, so jobs over quota are not
    /// protected from it.
    pub(crate) fn may_not_stop(&self, slot: Slot) -> Option<String> {
        let protection = self.protection.as_ref().filter(|_| self.is_protected(slot) && !self.is_over_quota(slot))?;
        let job = self.stays[slot.index()].job;
        let stopped = protection.stopped[job.index()];
        Some(if protection.keeps && !self.jobs.may_be_evicted(job.index()) {
            "it is protected: its preemptible is false, and the run has keep-unpreemptible".to_owned()
        } else if stopped >= protection.most {
            let most = protection.most;
            format!("it is protected: {stopped} of its stays were ended for others, and max-preemptions is {most}")
        } else {
            let (until, after) = (self.clock.seconds(self.protected_until(slot)), self.protected_for(protection, job));
            format!("it is protected until {until} s: its stay is younger than preempt-after, {after} s")
        })
    }

    /// Notes that a stay begins or continues.
    #[cold]
    pub(super) fn protect(&mut self, slot: Slot) {
        let (until, now, job) = (self.protected_until(slot), self.now, self.stays[slot.index()].job);
        if let Some(protection) = &mut self.protection
            && until > now
            && until < f64::INFINITY
        {
            protection.ends.set(slot.number(), until, job.number());
        }
    }

    /// Ends protections after all events of this instant. `is_new`: whether this is the first call at this instant.
    #[cold]
    pub(super) fn end_protections(&mut self, is_new: bool) {
        let now = self.now;
        let Some(protection) = &mut self.protection else { return };
        protection.has_ended &= !is_new;
        let mut ends = false;
        while let Some((time, slot)) = protection.ends.peek().filter(|&(time, _)| time <= now) {
            protection.ends.remove(slot);
            // Protections that ended while no job waited do not matter.
            protection.has_ended |= time == now && protection.looks;
            ends = true;
        }
        if ends {
            self.find_more();
        }
    }

    /// Returns the next instant at which a protection ends, or a job may make room: this one, as long as no pass has
    /// seen it.
    #[inline]
    pub(crate) fn opens_at(&self) -> f64 {
        let protection = match &self.protection {
            None => f64::INFINITY,
            Some(protection) if protection.has_ended => self.now,
            Some(_) => self.next_protection_ends(),
        };
        protection.min(self.delay_ends())
    }

    /// Returns the next such instant after this one.
    pub(crate) fn opens_next_at(&self) -> f64 {
        self.next_protection_ends().min(self.next_delay_ends())
    }

    /// Returns the next instant after this one at which a protection ends.
    #[cold]
    fn next_protection_ends(&self) -> f64 {
        let protection = self.protection.as_ref().filter(|protection| protection.looks);
        protection.and_then(|protection| protection.ends.peek()).map_or(f64::INFINITY, |(time, _)| time)
    }

    /// Notes that a pass sees the present protections, and which jobs may make room.
    #[inline]
    pub(crate) fn see_openings(&mut self) {
        if let Some(protection) = &mut self.protection {
            protection.has_ended = false;
        }
        self.see_delays();
    }
}
