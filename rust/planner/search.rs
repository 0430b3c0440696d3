//! Algorithm 1's search: theta by bisection, kappa by trial, the horizon by doubling.
//!
//! Invariant: under one horizon no schedule is simulated again for a theta that makes no difference. For example,
//! once all GPUs are candidates for all jobs, every larger theta gives the same schedule.
//!
//! A horizon is doubled until a schedule ends before it. A horizon given by the caller is only tried, and the error
//! names one that is sufficient.

use super::Planner;
use super::gpus::SameFor;
use super::instance::{Instance, MOST_SLOTS};
use super::schedule::{End, Schedule, Shared, Verdict};
use crate::error::{Error, Result};
use crate::machine::Watch;
use crate::speed::Speed;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The schedule that Algorithm 1 ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Best {
    /// Slots.
    pub(super) makespan: u64,
    /// Slots.
    pub(super) theta: u64,
    pub(super) kappa: u32,
    /// T, slots.
    pub(super) horizon: u64,
}

/// The effort of the search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Effort {
    /// Thetas tried.
    pub(super) thetas: u64,
    /// Pairs of theta and kappa tried.
    pub(super) schedules: u64,
    /// Those whose outcome was known from a theta that makes no difference.
    pub(super) known: u64,
}

/// How often the caller's watch is polled while the search runs, and how finely progress is reported.
const LOOK_EVERY: Duration = Duration::from_millis(20);
pub(super) const PROGRESS_STEPS: usize = 100;

struct Search<'a, S: Speed> {
    instance: &'a Instance<'a>,
    kappas: Vec<u32>,
    /// Per kappa: how its schedules ended so far, and for which thetas that holds.
    known: Vec<Vec<(End, SameFor)>>,
    /// The start of every schedule.
    empty: Schedule<'a, S>,
    shared: &'a Shared<'a>,
    stop: &'a AtomicBool,
    progress: &'a AtomicUsize,
    effort: Effort,
}

/// Runs the search beside the watch, which may end it; on the threads of `pool`, or of rayon's own.
pub(super) fn search<S: Speed + Sync>(
    instance: &Instance<'_>,
    speed: &S,
    pool: Option<&rayon::ThreadPool>,
    watch: &mut dyn Watch,
) -> Result<(Best, Effort)> {
    let (stop, progress) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (sender, receiver) = channel();
    let mut interrupted = Ok(());
    let mut found = Err(Error::Interrupted);
    let shared = Shared::new(&stop);
    let work = || {
        let best = Schedule::new(instance, &instance.run, &shared, speed.clone()).and_then(|empty| {
            let mut search = Search::new(instance, empty, &shared, &stop, &progress);
            search.best().map(|best| (best, search.effort))
        });
        // The receiver outlives the scope.
        let _ = sender.send(best);
    };
    let mut look = || {
        loop {
            match receiver.recv_timeout(LOOK_EVERY) {
                Ok(best) => {
                    found = best;
                    break;
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) if interrupted.is_ok() => {
                    interrupted = watch.tick(progress.load(Ordering::Relaxed));
                    stop.store(interrupted.is_err(), Ordering::Relaxed);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    };
    match pool {
        None => rayon::in_place_scope(|scope| {
            scope.spawn(|_| work());
            look();
        }),
        Some(pool) => pool.in_place_scope(|scope| {
            scope.spawn(|_| work());
            look();
        }),
    }
    interrupted?;
    found
}

impl<'a, S: Speed> Search<'a, S> {
    fn new(
        instance: &'a Instance<'a>,
        empty: Schedule<'a, S>,
        shared: &'a Shared<'a>,
        stop: &'a AtomicBool,
        progress: &'a AtomicUsize,
    ) -> Self {
        let kappas = match (instance.options.policy, instance.options.kappa) {
            (Planner::SjfBco, None) => {
                let mut sizes = vec![1];
                sizes.extend_from_slice(&instance.jobs.num_gpus);
                sizes.sort_unstable();
                sizes.dedup();
                sizes
            }
            (Planner::SjfBco, Some(kappa)) => vec![kappa],
            _ => vec![0],
        };
        let known = vec![Vec::new(); kappas.len()];
        Self { instance, kappas, known, empty, shared, stop, progress, effort: Effort::default() }
    }

    /// Returns the best schedule that ends before the horizon, given or found.
    fn best(&mut self) -> Result<Best> {
        let slot = self.instance.options.slot;
        let given = self.instance.options.horizon;
        if let Some(horizon) = given
            && let Some(best) = self.within(horizon)?
        {
            return Ok(best);
        }
        // Twice the work bound, then twice that, until a schedule exists.
        let mut horizon = ((2.0 * self.instance.work_bound / slot).ceil() as u64).max(1);
        loop {
            if let Some(best) = self.within(horizon)? {
                return match given {
                    None => Ok(best),
                    Some(horizon) => Err(Error::NoSchedule {
                        horizon,
                        work_bound: (self.instance.work_bound / slot).ceil() as u64,
                        enough: best.horizon,
                    }),
                };
            }
            if let Some(row) = self.stuck() {
                return Err(Error::NeverEnds { row: row as usize });
            }
            horizon *= 2;
            if horizon > MOST_SLOTS {
                return Err(Error::Option {
                    name: "slot",
                    value: slot.to_string(),
                    expected: format!("a slot of which a schedule needs fewer than {MOST_SLOTS}"),
                });
            }
        }
    }

    /// Returns the row of a job that stalls, if every kappa's schedule ends with a stall and a larger theta changes
    /// nothing.
    fn stuck(&self) -> Option<u32> {
        let rows = self.known.iter().map(|own| {
            own.iter().find_map(|&(end, same)| match end {
                End::Stalled(row) if same.to == f64::INFINITY => Some(row),
                _ => None,
            })
        });
        rows.collect::<Option<Vec<u32>>>()?.into_iter().min()
    }

    /// Runs Algorithm 1 for one horizon T: only schedules that end before T count.
    fn within(&mut self, horizon: u64) -> Result<Option<Best>> {
        // What was useless before may be useful under this horizon.
        self.known.iter_mut().for_each(|own| own.retain(|verdict| verdict.0 != End::Worse));
        let mut best: Option<Best> = None;
        let (mut left, mut right) = (1, horizon);
        if self.instance.options.policy == Planner::Rand {
            left = horizon; // theta = T
        }
        while left <= right {
            let theta = left + (right - left) / 2;
            let least = best.map_or(horizon, |b| b.makespan);
            match self.try_theta(theta, least)? {
                Some((makespan, kappa)) => {
                    best = Some(Best { makespan, theta, kappa, horizon });
                    right = theta - 1;
                }
                None => left = theta + 1,
            }
            let open = 64 - (right + 1).saturating_sub(left).leading_zeros() as usize;
            let all = 65 - horizon.leading_zeros() as usize;
            self.progress.store(PROGRESS_STEPS - PROGRESS_STEPS * open / all, Ordering::Relaxed);
        }
        Ok(best)
    }

    /// Returns the best schedule of one theta, if it takes fewer than `least` slots; ties go to the lowest kappa.
    fn try_theta(&mut self, theta: u64, least: u64) -> Result<Option<(u64, u32)>> {
        let seconds = theta as f64 * self.instance.options.slot;
        let mut found: Option<(u64, usize)> = None;
        let mut open = Vec::new();
        for (index, own) in self.known.iter().enumerate() {
            match own.iter().find(|(_, same)| same.holds(seconds)).map(|verdict| verdict.0) {
                Some(End::Done(slots)) => found = Some(found.map_or((slots, index), |f| f.min((slots, index)))),
                Some(_) => {}
                None => open.push(index),
            }
        }
        self.effort.thetas += 1;
        self.effort.schedules += self.kappas.len() as u64;
        self.effort.known += (self.kappas.len() - open.len()) as u64;
        let kappas: Vec<u32> = open.iter().map(|&index| self.kappas[index]).collect();
        if !open.is_empty() {
            let useful = found.map_or(u64::MAX, |f| f.0).min(least - 1);
            for Verdict { kappas, end, same } in self.simulate(kappas, seconds, useful)? {
                for index in kappas.iter().map(|&kappa| self.kappas.partition_point(|&other| other < kappa)) {
                    if let End::Done(slots) = end {
                        found = Some(found.map_or((slots, index), |f| f.min((slots, index))));
                    }
                    self.known[index].push((end, same));
                }
            }
        }
        if self.stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        Ok(found.filter(|f| f.0 < least).map(|(slots, index)| (slots, self.kappas[index])))
    }

    fn simulate(&self, kappas: Vec<u32>, theta: f64, useful: u64) -> Result<Vec<Verdict>> {
        self.shared.useful.store(useful, Ordering::Relaxed);
        let schedule = self.empty.with(kappas, theta);
        rayon::scope(|scope| schedule.run(scope));
        self.shared.take_verdicts()
    }
}
