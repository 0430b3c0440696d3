//! Ends a run that cannot come to its end: passes or decisions repeat without effect, and a job is not done.
//!
//! Invariant: a run in which something else is still to happen is not ended. For example, a policy that stops and
//! starts the same job at every pass has 1,000 passes for that, and two more per job that is not done.

use super::Machine;
use super::policy::Policy;
use crate::error::{Error, Result};
use crate::ids::Job;
use crate::speed::Speed;

/// While no stay reaches an end, this many passes plus two per job show that the run makes no progress. Twice as many
/// where jobs hold half a GPU, since their service grows half as fast.
const IDLE_PASSES: u64 = 1000;
/// The number of fruitless decisions from outside allowed in a row. A thousand times as many where another event comes
/// by then.
const MOST_IN_VAIN: u64 = 10_000;
const MORE_IN_VAIN: f64 = 1000.0;

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Ends a run whose decisions from outside repeat without effect.
    pub(super) fn check_patience(&mut self) -> Result<()> {
        if self.fruitless_decisions == 0 {
            self.quiet_since = self.state.now;
        }
        self.fruitless_decisions += 1;
        if self.fruitless_decisions <= MOST_IN_VAIN || self.state.is_over() {
            return Ok(());
        }
        let passed = self.state.now - self.quiet_since;
        let comes = self.next_arrival.min(self.state.coming()) - self.state.now;
        if self.state.has_progressed(self.quiet_since) || comes <= MORE_IN_VAIN * passed {
            self.fruitless_decisions = 0;
            return Ok(());
        }
        Err(self.stuck())
    }

    /// Returns whether passes repeat without any possible effect. next: the next instant.
    pub(super) fn is_idling(&mut self, next: f64) -> bool {
        if !P::STOPS || P::OUTSIDE {
            return false;
        }
        let answers = self.state.answers();
        if answers && next == self.state.now {
            return false; // requests have not seen all of this instant
        }
        let comes = if answers { self.next_arrival } else { self.next_arrival.min(self.next_change) };
        let idles = comes == f64::INFINITY && self.state.is_stalled();
        let idles = idles && (!answers || self.state.coming() == f64::INFINITY);
        self.idle_passes = if idles { self.idle_passes + 1 } else { 0 };
        let enough = IDLE_PASSES + 2 * (self.state.jobs.len() - self.state.gone) as u64;
        self.idle_passes > enough && self.idle_passes as f64 * self.state.smallest_share() > enough as f64
    }

    /// Names the job of the lowest row that runs without progress or waits. A job with a rate of 0 beside another comes
    /// first; where none runs, a service with requests that nobody answers.
    pub(super) fn stuck(&mut self) -> Error {
        if !self.state.is_busy()
            && let Some(service) = self.state.unanswered()
        {
            return Error::Unanswered { service, time: self.state.seconds() };
        }
        let row = |job: Job| self.rows[job.index()] as usize;
        if let Some((row, partner)) = self.state.starved().map(|(job, other)| (row(job), row(other))).min() {
            return Error::Starved { row, partner, time: self.state.seconds() };
        }
        let stalled = self.state.stays.iter().filter(|stay| stay.is_live()).map(|stay| (row(stay.job), true));
        let waiting = self.policy.waiting_jobs().map(|job| (row(job), false));
        let (row, running) = stalled.chain(waiting).min().unwrap_or_default();
        if P::OUTSIDE && running && !self.state.is_stalled() {
            return Error::Paused { row, time: self.state.seconds() };
        }
        Error::Stuck { row, running, time: self.state.seconds() }
    }
}
