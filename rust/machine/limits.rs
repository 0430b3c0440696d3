//! Enforces time limits: a job that has held GPUs for its whole limit is over (docs/operators-reference.md).
//!
//! Invariant: `held` is right while a job holds no GPUs, and `ends` has no stay beyond its job's limit. For example, a
//! job with a limit of 100 s that was stopped after 40 s ends 60 s after it starts again, pauses included.

use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::stays::Stay;
use crate::ids::{Job, Slot};
use crate::options::Estimate;
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// Relative tolerance for rounding.
const NEAR: f64 = 1e-12;

/// How long jobs have held GPUs, and may hold them.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// By job, how long it may (machine time, whole slots under the slot clock); infinite without a limit.
    most: Vec<f64>,
    /// By job, how long it did in the stays that are over (machine time).
    pub(super) held: Vec<f64>,
}

impl Limits {
    /// Returns the limits of the setting, if it has any.
    pub(super) fn new(setting: &Setting<'_>, clock: Clock) -> Option<Box<Self>> {
        let (options, own) = (setting.options, setting.jobs.time_limit?);
        let most = |&limit: &f64| if options.enforce_limits { clock.arrival(limit) } else { f64::INFINITY };
        let asked = options.enforce_limits || options.estimate == Estimate::Limit;
        asked.then(|| Box::new(Self { most: own.iter().map(most).collect(), held: vec![0.0; own.len()] }))
    }

    /// Returns when a stay's job reaches its limit.
    fn end<P>(&self, stay: &Stay<P>) -> f64 {
        let j = stay.job.index();
        stay.start + f64::max(0.0, self.most[j] - self.held[j])
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns when a stay reaches its limit, if that is before `end`, its end or its next rung. At one instant an end
    /// comes first, and a limit before a rung.
    #[inline(always)]
    pub(super) fn limit_before(&self, stay: &Stay<S::Pace>, end: f64) -> Option<f64> {
        self.limits.as_ref().and_then(|limits| self.limit_of(stay, limits.end(stay), end))
    }

    #[cold]
    fn limit_of(&self, stay: &Stay<S::Pace>, limit: f64, end: f64) -> Option<f64> {
        // Slots are counted exactly; sums of seconds are rounded.
        let ulps = NEAR * (limit - stay.start) + 64.0 * (limit.next_up() - limit);
        let rounding = if self.clock.slot.is_some() { 0.0 } else { ulps };
        let is_first = if self.mark(stay.job) > 0.0 { end >= limit - rounding } else { end > limit + rounding };
        (limit < f64::INFINITY && is_first).then_some(limit)
    }

    /// Returns whether a stay that is due in `ends` has reached its job's limit.
    #[inline]
    pub(super) fn comes_to_limit(&self, slot: Slot) -> bool {
        self.limits.is_some() && self.is_at_limit(slot)
    }

    #[cold]
    fn is_at_limit(&self, slot: Slot) -> bool {
        let stay = &self.stays[slot.index()];
        self.limit_before(stay, stay.end(self.clock, self.mark(stay.job))).is_some()
    }

    /// Ends the stay of a job that has reached its limit. Returns the job, which is over.
    #[cold]
    pub(super) fn cut(&mut self, slot: Slot) -> Job {
        let stay = &self.stays[slot.index()];
        // Work of the last slot beyond its next rung does not count.
        let (job, left) = (stay.job, f64::max(stay.left_at(self.now, self.clock), self.mark(stay.job)));
        self.vacate(slot, Why::Limit, Some(left));
        self.out.finish[job.index()] = self.now;
        self.count_gone(job);
        self.lose_trial(job);
        job
    }

    /// Returns the seconds for which a job may still hold GPUs by its limit; infinite without one. The present stay is
    /// not subtracted.
    pub(crate) fn limit_left(&self, job: Job) -> f64 {
        let (Some(limits), Some(own)) = (&self.limits, self.jobs.time_limit) else { return f64::INFINITY };
        f64::max(0.0, own[job.index()] - self.clock.seconds(limits.held[job.index()]))
    }

    /// Returns whether a job ended at its limit before it was done.
    pub(crate) fn is_cut(&self, job: Job) -> bool {
        self.limits.is_some()
            && self.out.stay_log.records.iter().any(|records| records.job == job && records.why == Why::Limit)
    }
}
