//! Checks options that depend on each other, and resolves values that default to others.
//!
//! Invariant: options that pass `validate` describe a run that is possible. For example, a turn of `time-slice` is
//! longer than the pause with which it begins.

use super::{ClockKind, Is, Model, Options, PlanOptions, Table as _};
use crate::error::{Error, Result};

impl Options {
    /// Returns whether a job may have to wait for a server that wakes.
    pub(crate) fn wakes(&self) -> bool {
        self.sleep_after < f64::INFINITY && self.wake_time > 0.0
    }

    /// Returns the time between the passes of a ranking that has its own, s.
    #[must_use]
    pub fn interval(&self) -> f64 {
        self.interval.unwrap_or(60.0)
    }

    /// Returns for how long a stay is safe from being stopped for others, s; `None` for what its job's costs say.
    pub(crate) fn preempt_after(&self) -> Option<f64> {
        self.preempt_after.or((!self.is(Is::Protects)).then_some(0.0))
    }

    /// Returns the most jobs on the same GPUs.
    #[must_use]
    pub fn jobs_per_gpu(&self) -> u32 {
        self.jobs_per_gpu.unwrap_or(if self.is(Is::Pairs) { 2 } else { 1 })
    }

    /// Checks the options, each by itself and then together.
    ///
    /// # Errors
    /// `Option`, naming the first one at fault.
    pub fn validate(&self) -> Result<()> {
        self.check_each()?;
        if self.admission && !self.reads("admission") {
            let (value, expected) = ("true".to_owned(), "a policy that refuses jobs with it".to_owned());
            return Err(Error::Option { name: "admission", value, expected });
        }
        if self.reads("quantum") { self.check_turns() } else { Ok(()) }
    }

    /// Checks that a turn leaves time for progress after the resume cost, or jobs would take turns forever.
    fn check_turns(&self) -> Result<()> {
        let waking = if self.wakes() { self.wake_time } else { 0.0 };
        let pause = self.preempt_cost + waking;
        let enough = match self.clock {
            ClockKind::Continuous => pause < self.quantum,
            ClockKind::Slot => (pause / self.slot).ceil() < f64::max(1.0, (self.quantum / self.slot).floor()),
        };
        if enough {
            return Ok(());
        }
        let waking = if waking > 0.0 { format!(" and a wake-time of {waking} s") } else { String::new() };
        let value = format!("{} s against a preempt-cost of {} s{waking}", self.quantum, self.preempt_cost);
        let expected = match self.clock {
            ClockKind::Continuous => {
                "a quantum longer than the preempt-cost: no job would ever get anywhere".to_owned()
            }
            ClockKind::Slot => format!("a quantum of more whole slots of {} s than the preempt-cost takes", self.slot),
        };
        Err(Error::Option { name: "quantum", value, expected })
    }

    /// Returns whether the model is `rar`.
    #[must_use]
    pub fn rar(&self) -> bool {
        self.model == Model::Rar
    }
}

impl PlanOptions {
    /// Checks the options.
    ///
    /// # Errors
    /// `Option`, naming the first one out of range.
    pub fn validate(&self) -> Result<()> {
        self.check_each()
    }

    /// Returns whether the model is `rar`.
    #[must_use]
    pub fn rar(&self) -> bool {
        self.model == Model::Rar
    }
}
