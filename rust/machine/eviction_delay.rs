//! Delays evictions: a job makes room for itself once it has been pending long enough
//! (docs/priorities-reference.md#eviction).
//!
//! Invariant: `ends` has every waiting job that may not make room yet. For example, with 600 s a job submitted at 100 s
//! evicts none before 700 s, and at 700 s waiting jobs are considered again.

use super::cluster_state::ClusterState;
use crate::ds::EventHeap;
use crate::ids::Job;
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// When waiting jobs may make room for themselves.
#[derive(Clone, Debug)]
pub(super) struct EvictionDelay {
    /// How long a job is pending before, s.
    after: f64,
    /// By job: when it arrived, or its latest stay ended, s.
    since: Vec<f64>,
    /// Waiting jobs by when they may make room (machine time).
    ends: EventHeap,
    /// Whether a job may make room from this instant on and no pass has seen it yet.
    has_ended: bool,
}

impl EvictionDelay {
    /// Returns the delay of the setting, if it has one and jobs evict others. The decisions of a log are already made.
    pub(super) fn new(setting: &Setting<'_>, by_jobs: bool) -> Option<Box<Self>> {
        let after = setting.options.evict_after;
        (after > 0.0 && by_jobs && setting.log.is_none()).then(|| {
            Box::new(Self { after, since: setting.jobs.submit.to_vec(), ends: EventHeap::default(), has_ended: false })
        })
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether a job may have to wait before it makes room for itself.
    #[inline]
    pub(crate) fn delays_evictions(&self) -> bool {
        self.eviction_delay.is_some()
    }

    /// Returns when a waiting job may make room for itself (machine time).
    fn makes_room_from(&self, delay: &EvictionDelay, job: Job) -> f64 {
        self.clock.arrival(delay.since[job.index()] + delay.after)
    }

    /// Returns whether a waiting job has been pending long enough to make room for itself.
    #[inline]
    pub(crate) fn may_make_room(&self, job: Job) -> bool {
        self.eviction_delay.as_ref().is_none_or(|delay| self.makes_room_from(delay, job) <= self.now)
    }

    /// Returns when a waiting job may make room for itself, s, if it may not yet.
    pub(super) fn evicts_from(&self, job: Job) -> Option<f64> {
        let delay = self.eviction_delay.as_ref().filter(|_| !self.may_make_room(job))?;
        Some(self.clock.seconds(self.makes_room_from(delay, job)))
    }

    /// Notes that a job arrives.
    #[cold]
    pub(super) fn pend_from_arrival(&mut self, job: Job) {
        let arrival = self.arrived_at(job);
        if let Some(delay) = &mut self.eviction_delay {
            delay.since[job.index()] = arrival;
        }
        self.pend(job, true);
    }

    /// Notes that a job waits from now on. `is_event`: whether no pass of this instant has been yet.
    #[cold]
    pub(super) fn pend(&mut self, job: Job, is_event: bool) {
        let Some(delay) = &self.eviction_delay else { return };
        let (from, now) = (self.makes_room_from(delay, job), self.now);
        if let Some(delay) = &mut self.eviction_delay
            && (from > now || is_event && from == now)
        {
            delay.ends.set(job.number(), from, job.number());
        }
    }

    /// Notes that a stay of a job ends now.
    #[cold]
    pub(super) fn pend_from_now(&mut self, job: Job, why: Why) {
        let now = self.seconds();
        if let Some(delay) = &mut self.eviction_delay {
            delay.since[job.index()] = now;
        }
        if !matches!(why, Why::Done | Why::Limit | Why::Dropped | Why::Rung) {
            self.pend(job, false);
        }
    }

    /// Notes that a job waits no longer.
    #[inline]
    pub(super) fn pend_no_longer(&mut self, job: Job) {
        if let Some(delay) = &mut self.eviction_delay {
            delay.ends.remove(job.number());
        }
    }

    /// Lets jobs make room that have been pending long enough, after all events of this instant. `is_new`: whether this
    /// is the first call at this instant.
    #[cold]
    pub(super) fn end_delays(&mut self, is_new: bool) {
        let now = self.now;
        let Some(delay) = &mut self.eviction_delay else { return };
        delay.has_ended &= !is_new;
        while let Some((time, job)) = delay.ends.peek().filter(|&(time, _)| time <= now) {
            delay.ends.remove(job);
            delay.has_ended |= time == now;
        }
    }

    /// Returns the next instant at which a job may make room: this one, as long as no pass has seen it.
    #[inline]
    pub(super) fn delay_ends(&self) -> f64 {
        match &self.eviction_delay {
            None => f64::INFINITY,
            Some(delay) if delay.has_ended => self.now,
            Some(_) => self.next_delay_ends(),
        }
    }

    /// Returns the next such instant after this one.
    #[cold]
    pub(super) fn next_delay_ends(&self) -> f64 {
        let end = self.eviction_delay.as_ref().and_then(|delay| delay.ends.peek());
        end.map_or(f64::INFINITY, |(time, _)| time)
    }

    /// Notes that a pass sees which jobs may make room.
    #[inline]
    pub(super) fn see_delays(&mut self) {
        if let Some(delay) = &mut self.eviction_delay {
            delay.has_ended = false;
        }
    }
}
