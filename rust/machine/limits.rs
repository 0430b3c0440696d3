//! Time limits: a job that has held GPUs for as long as it may is over (docs/operators.md#time-limits).
//!
//! Invariant: `held` is right while a job holds no GPUs, and `ends` has no stay beyond its job's limit. For example, a job
//! with a limit of 100 s that was stopped after 40 s ends 60 s after it starts again, pauses included.

use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::stays::Stay;
use crate::ids::{Job, Slot};
use crate::options::Estimate;
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// A part that is a rounding.
const NEAR: f64 = 1e-12;

/// For how long jobs have held GPUs, and may.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// By job, for how long it may (machine time, whole slots under the slot clock); infinite where nothing ends it.
    most: Vec<f64>,
    /// By job, for how long it did in the stays that are over (machine time).
    pub(super) held: Vec<f64>,
}

impl Limits {
    /// Those of the setting, if somebody asks for them.
    pub(super) fn new(setting: &Setting<'_>, clock: Clock) -> Option<Box<Self>> {
        let (options, own) = (setting.options, setting.jobs.time_limit?);
        let most = |&limit: &f64| if options.enforce_limits { clock.arrival(limit) } else { f64::INFINITY };
        let asked = options.enforce_limits || options.estimate == Estimate::Limit;
        asked.then(|| Box::new(Self { most: own.iter().map(most).collect(), held: vec![0.0; own.len()] }))
    }

    /// When a stay's job has held GPUs for as long as it may.
    fn end<P>(&self, stay: &Stay<P>) -> f64 {
        let j = stay.job.index();
        stay.start + f64::max(0.0, self.most[j] - self.held[j])
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// When a stay's limit is up, if that is before `end`, its end or its next rung. At one instant an end comes first, and
    /// a limit before a rung.
    #[inline(always)]
    pub(super) fn limit_before(&self, stay: &Stay<S::Pace>, end: f64) -> Option<f64> {
        self.limits.as_ref().and_then(|limits| self.limit_of(stay, limits.end(stay), end))
    }

    #[cold]
    fn limit_of(&self, stay: &Stay<S::Pace>, limit: f64, end: f64) -> Option<f64> {
        // Slots are counted; seconds are added up, which rounds.
        let ulps = NEAR * (limit - stay.start) + 64.0 * (limit.next_up() - limit);
        let rounding = if self.clock.slot.is_some() { 0.0 } else { ulps };
        let is_first = if self.mark(stay.job) > 0.0 { end >= limit - rounding } else { end > limit + rounding };
        (limit < f64::INFINITY && is_first).then_some(limit)
    }

    /// Whether a stay that has come to the end of its time in `ends` is at its job's limit.
    #[inline]
    pub(super) fn comes_to_limit(&self, slot: Slot) -> bool {
        self.limits.is_some() && self.is_at_limit(slot)
    }

    #[cold]
    fn is_at_limit(&self, slot: Slot) -> bool {
        let stay = &self.stays[slot.index()];
        self.limit_before(stay, stay.end(self.clock, self.mark(stay.job))).is_some()
    }

    /// Ends the stay of a job that is at its limit. Returns the job, which is over.
    #[cold]
    pub(super) fn cut(&mut self, slot: Slot) -> Job {
        let stay = &self.stays[slot.index()];
        // What the last slot did beyond its next rung is not done.
        let (job, left) = (stay.job, f64::max(stay.left_at(self.now, self.clock), self.mark(stay.job)));
        self.vacate(slot, Why::Limit, Some(left));
        self.out.finish[job.index()] = self.now;
        self.gone += 1;
        self.lose_trial(job);
        job
    }

    /// Seconds for which a job may still hold GPUs, as its limit says; infinite where it has none. Those of its present stay
    /// are not taken off.
    pub(crate) fn limit_left(&self, job: Job) -> f64 {
        let (Some(limits), Some(own)) = (&self.limits, self.jobs.time_limit) else { return f64::INFINITY };
        f64::max(0.0, own[job.index()] - self.clock.seconds(limits.held[job.index()]))
    }

    /// Whether a job was over before it was done, at its limit.
    pub(crate) fn is_cut(&self, job: Job) -> bool {
        self.limits.is_some()
            && self.out.stay_log.records.iter().any(|records| records.job == job && records.why == Why::Limit)
    }
}
