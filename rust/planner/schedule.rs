//! Runs one schedule for given theta and kappa: a run of the machine under the planner's policy.
//!
//! A run carries all kappas that have made no difference so far. At the first job that some of them pack and others
//! do not, the machine pauses, and the run splits in two. So no prefix is simulated twice. Every run also learns for
//! which other thetas it would have been the same.

use super::dispatch::{Dispatcher, Halt};
use super::gpus::{Limit, SameFor};
use super::instance::Instance;
use crate::error::{Error, Result};
use crate::machine::{Machine, Pause, Unwatched};
use crate::options::Options;
use crate::outcome::ClusterOutcome;
use crate::setting::Setting;
use crate::speed::Speed;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// How a schedule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In so many slots.
    Done(u64),
    /// Given up: it could not have been the best.
    Worse,
    /// Some job has too few candidates forever.
    Infeasible,
    /// The job of this row could make no progress forever.
    Stalled(u32),
}

/// How the schedules of some kappas ended, and for which thetas.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) kappas: Vec<u32>,
    pub(super) end: End,
    pub(super) same: SameFor,
}

/// What schedules that run side by side share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    /// A schedule that needs more slots than this is useless.
    pub(super) useful: AtomicU64,
    stop: &'a AtomicBool,
    verdicts: Mutex<Result<Vec<Verdict>>>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(stop: &'a AtomicBool) -> Self {
        Self { useful: AtomicU64::new(u64::MAX), stop, verdicts: Mutex::new(Ok(Vec::new())) }
    }

    pub(super) fn is_useless(&self, slots: u64) -> bool {
        slots > self.useful.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }

    /// Takes the verdicts added since the last call.
    pub(super) fn take_verdicts(&self) -> Result<Vec<Verdict>> {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *verdicts, Ok(Vec::new()))
    }
}

/// A schedule in progress.
#[derive(Clone, Debug)]
pub(super) struct Schedule<'a, S: Speed> {
    shared: &'a Shared<'a>,
    machine: Machine<'a, Dispatcher<'a>, S>,
}

impl<'a, S: Speed + 'a> Schedule<'a, S> {
    /// Creates a schedule up to its first pass: all jobs have arrived, and theta and the kappas are still open.
    pub(super) fn new(
        instance: &'a Instance<'a>,
        options: &'a Options,
        shared: &'a Shared<'a>,
        speed: S,
    ) -> Result<Self> {
        let setting = Setting::new(
            instance.jobs.view(),
            &instance.rows,
            &instance.layout.sizes,
            &instance.few,
            instance.network.clone(),
            options,
        );
        let mut machine = Machine::new(&setting, speed, Dispatcher::new(instance, shared));
        machine.run(0.0, &mut Unwatched)?;
        Ok(Self { shared, machine })
    }

    /// Returns a separate schedule for these kappas, ascending, under theta, s.
    pub(super) fn with(&self, kappas: Vec<u32>, theta: f64) -> Self {
        let mut schedule = self.clone();
        let policy = &mut schedule.machine.policy;
        (policy.kappas, policy.limit) = (kappas, Limit::new(theta));
        schedule
    }

    /// Runs to the end, and stores the verdict, and those of the runs that split off from this one.
    pub(super) fn run(mut self, scope: &rayon::Scope<'a>) {
        let end = self.finish(|other| scope.spawn(move |scope| other.run(scope)));
        if let Ok(End::Done(slots)) = end {
            self.shared.useful.fetch_min(slots, Ordering::Relaxed);
        }
        let policy = self.machine.policy;
        let verdict = end.map(|end| Verdict { kappas: policy.kappas, end, same: policy.limit.same });
        let mut verdicts = self.shared.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        match (verdict, &mut *verdicts) {
            (Ok(verdict), Ok(verdicts)) => verdicts.push(verdict),
            (Err(error), verdicts) => *verdicts = Err(error),
            (Ok(_), Err(_)) => {}
        }
    }

    /// Runs to the end; `part` takes the runs that split off from this one.
    pub(super) fn finish(&mut self, part: impl Fn(Self)) -> Result<End> {
        loop {
            match self.machine.run(f64::INFINITY, &mut Unwatched) {
                Ok(Pause::Halted) => match self.machine.policy.halt.take() {
                    Some(Halt::Parted(smaller)) => {
                        let mut other = self.clone();
                        other.machine.policy.kappas.truncate(smaller);
                        part(other);
                        self.machine.policy.kappas.drain(..smaller);
                    }
                    Some(Halt::Over(end)) => return Ok(end),
                    Some(Halt::Ready) | None => {}
                },
                Ok(Pause::Done | Pause::Until | Pause::Asks) => return Ok(End::Done(self.machine.state.now as u64)),
                Err(Error::Stuck { row, running: true, .. }) => return Ok(End::Stalled(row as u32)),
                Err(Error::Stuck { .. }) => return Ok(End::Infeasible),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the results of a finished schedule, by position, in seconds; and max U_g, s.
    pub(super) fn into_outcome(self) -> (ClusterOutcome, f64) {
        let (refused, largest) = (self.machine.policy.refused, self.machine.policy.gpus.largest);
        let mut out = self.machine.into_outcome();
        out.decisions += refused;
        (out, largest)
    }
}
