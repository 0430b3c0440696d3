//! Protection from preemption: which running jobs nobody stops for others (docs/operators.md#protection-from-preemption).
//!
//! Invariant: `ends` has every live stay whose protection by age is still to end. For example, with 600 s a job that
//! started at 100 s is protected before 700 s, and 700 s is an instant at which somebody who waits is looked at.

use super::cluster_state::ClusterState;
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// What protects jobs, where anything does.
#[derive(Clone, Debug)]
pub(super) struct Protection {
    /// Age of a stay, s, from which on it is not protected.
    after: f64,
    /// With so many stays that ended for others a job is protected.
    most: u32,
    /// By job: those stays.
    stopped: Vec<u32>,
    /// Stays by when their protection ends (machine time).
    ends: EventHeap,
    /// Whether one ended at this instant, and no pass has seen it.
    has_ended: bool,
}

/// Whether a stay that ended so was ended for others.
fn counts(why: Why) -> bool {
    matches!(why, Why::Preempted | Why::EvictedBy(_) | Why::EvictedFor(_))
}

impl Protection {
    /// That of the setting, if it has one and somebody may be stopped. What a log says was decided before.
    pub(super) fn new(setting: &Setting<'_>, stops: bool) -> Option<Box<Self>> {
        let options = setting.options;
        let is_on = options.preempt_after > 0.0 || options.max_preemptions.is_some();
        (is_on && setting.log.is_none() && (stops || options.evict)).then(|| {
            Box::new(Self {
                after: options.preempt_after,
                most: options.max_preemptions.unwrap_or(u32::MAX),
                stopped: vec![0; setting.jobs.len()],
                ends: EventHeap::default(),
                has_ended: false,
            })
        })
    }

    /// A stay of a job ended, or it is told otherwise how one did.
    #[cold]
    pub(super) fn count(&mut self, job: Job, before: Option<Why>, after: Why) {
        let stopped = &mut self.stopped[job.index()];
        *stopped += u32::from(counts(after));
        *stopped -= u32::from(before.is_some_and(counts));
    }

    /// The stay at a slot is over.
    #[cold]
    pub(super) fn forget(&mut self, slot: Slot) {
        self.ends.remove(slot.number());
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Whether anybody is protected.
    #[inline]
    pub(crate) fn protects(&self) -> bool {
        self.protection.is_some()
    }

    /// Until when the stay at a slot is protected (machine time).
    fn protected_until(&self, slot: Slot) -> f64 {
        let Some(protection) = &self.protection else { return f64::NEG_INFINITY };
        let stay = &self.stays[slot.index()];
        if protection.stopped[stay.job.index()] >= protection.most {
            f64::INFINITY
        } else if protection.after > 0.0 {
            self.clock.arrival(self.clock.seconds(stay.start) + protection.after)
        } else {
            f64::NEG_INFINITY
        }
    }

    /// Whether the job at a slot is protected now.
    pub(crate) fn is_protected(&self, slot: Slot) -> bool {
        self.protected_until(slot) > self.now && !self.is_new(slot)
    }

    /// After when, and until when, the stay at a slot is protected (machine time).
    pub(super) fn protected(&self, slot: Slot) -> (f64, f64) {
        if self.protection.is_none() {
            return (f64::NEG_INFINITY, f64::NEG_INFINITY);
        }
        let after = if self.is_new(slot) { self.now } else { f64::NEG_INFINITY };
        (after, self.protected_until(slot))
    }

    /// Whether the job at a slot began at this instant, and not because a protected one was put there: it has no stay to protect.
    fn is_new(&self, slot: Slot) -> bool {
        let stay = &self.stays[slot.index()];
        stay.start == self.now && !self.has_undone_protected(stay.job)
    }

    /// Why a verb may not stop the job at a slot: nobody knows for whom it does, so that guests are not protected from it.
    pub(crate) fn may_not_stop(&self, slot: Slot) -> Option<String> {
        let protection = self.protection.as_ref().filter(|_| self.is_protected(slot) && !self.is_over_quota(slot))?;
        let stopped = protection.stopped[self.stays[slot.index()].job.index()];
        Some(if stopped >= protection.most {
            let most = protection.most;
            format!("it is protected: {stopped} of its stays were ended for others, and max-preemptions is {most}")
        } else {
            let until = self.clock.seconds(self.protected_until(slot));
            format!("it is protected until {until} s: its stay is younger than preempt-after, {} s", protection.after)
        })
    }

    /// A stay begins, or goes on.
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

    /// All that happens at this instant has happened: protections end. `is_new`: whether it is the first time here.
    #[cold]
    pub(super) fn end_protections(&mut self, is_new: bool) {
        let now = self.now;
        let Some(protection) = &mut self.protection else { return };
        protection.has_ended &= !is_new;
        let mut ends = false;
        while let Some((time, slot)) = protection.ends.peek().filter(|&(time, _)| time <= now) {
            protection.ends.remove(slot);
            // Those that ended while nobody waited are no matter.
            protection.has_ended |= time == now;
            ends = true;
        }
        if ends {
            self.find_more();
        }
    }

    /// The next instant at which a protection ends: this one, as long as no pass has seen it.
    #[inline]
    pub(crate) fn protection_ends(&self) -> f64 {
        match &self.protection {
            None => f64::INFINITY,
            Some(protection) if protection.has_ended => self.now,
            Some(_) => self.next_protection_ends(),
        }
    }

    /// The next one after this instant.
    #[cold]
    pub(crate) fn next_protection_ends(&self) -> f64 {
        let end = self.protection.as_ref().and_then(|protection| protection.ends.peek());
        end.map_or(f64::INFINITY, |(time, _)| time)
    }

    /// A pass sees who is protected now.
    #[inline]
    pub(crate) fn see_protections(&mut self) {
        if let Some(protection) = &mut self.protection {
            protection.has_ended = false;
        }
    }
}
