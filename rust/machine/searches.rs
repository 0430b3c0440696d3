//! Runs searches: trials pause at rungs, the best of those that reached a rung continue, the others end
//! (docs/searches.md).
//!
//! Invariant: between two instants every trial of a search runs, waits, has yet to arrive, pauses at a rung, or is
//! gone; and of the n trials that have reached a rung, the floor(n / eta) of least loss have continued from it. For
//! example, with eta 3 and five trials at a rung one of them has continued, and with the sixth another one does.
//!
//! A trial that reaches a rung costs O(log n) in the size of its search.

use super::Machine;
use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::policy::{EndReason, Policy, WaitReason};
use super::stays::Stay;
use crate::decisions::{Cause, Row, Verb};
use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::outcome::Climb;
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{NO_SEARCH, Trials};
use std::collections::BTreeSet;

/// Progress of the trials of all searches.
#[derive(Clone, Debug)]
pub(crate) struct Searches {
    eta: usize,
    /// Divisor of a trial's whole work at each rung.
    divisors: Vec<f64>,
    /// The search of each job as a place in `searches`; `NO_SEARCH` for a job without one.
    of: Vec<u32>,
    searches: Vec<Search>,
    /// By job: the whole work, rungs reached, rungs passed, whether it was refused or ended, and its latest climb.
    work: Vec<f64>,
    reached: Vec<u32>,
    passed: Vec<u32>,
    gone: Vec<bool>,
    climb: Vec<u32>,
    /// Trials that reached a rung at this instant, and searches that changed.
    arrived: Vec<(Job, Slot)>,
    changed: BTreeSet<u32>,
    /// Every rung that a trial reached, in order of time.
    climbs: Vec<Climb>,
}

#[derive(Clone, Debug)]
struct Search {
    trials: u32,
    rungs: Vec<Rung>,
}

/// The trials that reached a rung, by (loss, job).
#[derive(Clone, Debug, Default)]
struct Rung {
    /// The floor(n / eta) best, and the others.
    best: BTreeSet<(u64, Job)>,
    others: BTreeSet<(u64, Job)>,
    /// Trials that will never reach it.
    lost: u32,
    /// Whether any trial has continued from it, and whether none can reach it any more.
    passed: bool,
    closed: bool,
}

impl Rung {
    fn reached(&self) -> usize {
        self.best.len() + self.others.len()
    }

    /// Moves the best trials into `best`. Returns those that were moved.
    fn choose(&mut self, eta: usize) -> Vec<Job> {
        let best = self.reached() / eta;
        let mut came = Vec::new();
        while self.best.len() < best || self.others.first() < self.best.last() {
            let Some(first) = self.others.pop_first() else { break };
            self.best.insert(first);
            came.push(first);
            if self.best.len() > best
                && let Some(last) = self.best.pop_last()
            {
                self.others.insert(last);
            }
        }
        came.retain(|trial| self.best.contains(trial));
        came.into_iter().map(|(_, job)| job).collect()
    }

    fn all(&self) -> impl Iterator<Item = Job> + '_ {
        self.best.iter().chain(&self.others).map(|&(_, job)| job)
    }

    fn first(&self) -> Option<Job> {
        self.best.first().or(self.others.first()).map(|&(_, job)| job)
    }
}

/// What happens to a trial at a rung. It has a slot if it has just arrived there.
#[derive(Clone, Copy, Debug)]
enum RungOutcome {
    /// It continues: on its GPUs if it has just arrived, else it waits for some.
    GoesOn(Job, Option<Slot>),
    Pauses(Job, Slot),
    Ends(Job, Option<Slot>),
}

impl RungOutcome {
    /// Returns the log row of an outcome.
    fn row(self, now: f64) -> Row {
        let (job, cause) = match self {
            Self::GoesOn(job, _) => (job, Cause::WentOn),
            Self::Pauses(job, _) => (job, Cause::Paused),
            Self::Ends(job, _) => (job, Cause::Ended),
        };
        Row { job: job.number(), cause, ..Row::of(now, Verb::Rung) }
    }
}

impl Searches {
    /// Returns the searches of the setting, if it has any.
    pub(super) fn new<S: Speed>(setting: &Setting<'_>, speed: &S, clock: Clock) -> Option<Box<Self>> {
        let search = setting.options.search?;
        let (jobs, trials) = (&setting.jobs, setting.jobs.trials?);
        let mut numbers: Vec<u32> = trials.search.iter().copied().filter(|&number| number != NO_SEARCH).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let own = |number: &u32| numbers.binary_search(number).map_or(NO_SEARCH, |at| at as u32);
        let of: Vec<u32> = trials.search.iter().map(own).collect();
        let rungs = vec![Rung::default(); search.rungs as usize];
        let mut searches = vec![Search { trials: 0, rungs }; numbers.len()];
        for &number in of.iter().filter(|&&number| number != NO_SEARCH) {
            searches[number as usize].trials += 1;
        }
        let count = jobs.len();
        Some(Box::new(Self {
            eta: search.eta as usize,
            divisors: (0..search.rungs).map(|rung| search.divisor(rung)).collect(),
            of,
            searches,
            work: (0..count).map(|job| speed.work(jobs, Job::at(job), clock.slot)).collect(),
            reached: vec![0; count],
            passed: vec![0; count],
            gone: vec![false; count],
            climb: vec![0; count],
            arrived: Vec::new(),
            changed: BTreeSet::new(),
            climbs: Vec::new(),
        }))
    }

    /// Returns the work left of a job when its stay ends: at its next rung, or at its end.
    pub(super) fn mark(&self, job: Job) -> f64 {
        if self.has_rung_ahead(job) { self.left_at(job, self.reached[job.index()]) } else { 0.0 }
    }

    /// Returns the work left of a trial at a rung.
    fn left_at(&self, job: Job, rung: u32) -> f64 {
        let work = self.work[job.index()];
        work - work / self.divisors[rung as usize]
    }

    /// Returns whether a job's stay ends at a rung, not with its work.
    fn has_rung_ahead(&self, job: Job) -> bool {
        self.of[job.index()] != NO_SEARCH && (self.reached[job.index()] as usize) < self.divisors.len()
    }

    /// Returns whether there is anything to judge.
    fn is_due(&self) -> bool {
        !self.arrived.is_empty() || !self.changed.is_empty()
    }

    /// Notes that a job was refused or ended.
    fn lose(&mut self, job: Job) {
        let j = job.index();
        let number = self.of[j];
        if number == NO_SEARCH || std::mem::replace(&mut self.gone[j], true) {
            return;
        }
        let reached = self.reached[j] as usize;
        self.searches[number as usize].rungs[reached..].iter_mut().for_each(|rung| rung.lost += 1);
        self.changed.insert(number);
    }

    /// Returns the outcomes of the trials at rungs that are due, by search and rung.
    fn judge(&mut self, now: f64, trials: Trials<'_>) -> Vec<RungOutcome> {
        let mut came = std::mem::take(&mut self.arrived);
        came.sort_unstable();
        for &(job, _) in &came {
            let (j, number) = (job.index(), self.of[job.index()]);
            let at = self.reached[j];
            let loss = trials.loss(j, 1.0 / self.divisors[at as usize]);
            self.searches[number as usize].rungs[at as usize].others.insert((ordered(loss), job));
            self.reached[j] += 1;
            self.changed.insert(number);
            self.climb[j] = self.climbs.len() as u32;
            self.climbs.push(Climb { job, rung: at, time: now, loss, went_on: f64::NAN });
        }
        let slot_of = |job: Job| came.binary_search_by_key(&job, |&(job, _)| job).ok().map(|at| came[at].1);
        let mut outcomes = Vec::new();
        while let Some(&number) = self.changed.first() {
            for at in 0..self.divisors.len() {
                let Search { trials, rungs } = &mut self.searches[number as usize];
                let rung = &mut rungs[at];
                let mut go = rung.choose(self.eta);
                go.retain(|job| self.passed[job.index()] as usize <= at);
                let closes = !rung.closed && rung.reached() + rung.lost as usize == *trials as usize;
                rung.closed |= closes;
                rung.passed |= !go.is_empty();
                if closes && !rung.passed {
                    // No further trial can arrive: the search still needs a winner.
                    go.extend(rung.first());
                }
                let mut end: Vec<Job> = if closes { rung.all().collect() } else { Vec::new() };
                for job in go {
                    self.passed[job.index()] = at as u32 + 1;
                    self.climbs[self.climb[job.index()] as usize].went_on = now;
                    outcomes.push(RungOutcome::GoesOn(job, slot_of(job)));
                }
                end.retain(|job| self.passed[job.index()] as usize <= at && !self.gone[job.index()]);
                end.sort_unstable();
                for job in end {
                    // This changes the rungs above, which are judged next.
                    self.lose(job);
                    outcomes.push(RungOutcome::Ends(job, slot_of(job)));
                }
            }
            self.changed.remove(&number);
        }
        for &(job, slot) in &came {
            if self.passed[job.index()] < self.reached[job.index()] && !self.gone[job.index()] {
                outcomes.push(RungOutcome::Pauses(job, slot));
            }
        }
        outcomes
    }

    /// Returns every rung that a trial reached.
    pub(super) fn into_climbs(self) -> Vec<Climb> {
        self.climbs
    }
}

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Returns whether the stay that ends now ends at a rung. Its trial is then judged before this instant's other
    /// events.
    #[inline(always)]
    pub(super) fn comes_to_rung(&mut self, slot: Slot) -> bool {
        let Some(searches) = &mut self.state.searches else { return false };
        let job = self.state.stays[slot.index()].job;
        let is_at_rung = searches.has_rung_ahead(job);
        if is_at_rung {
            searches.arrived.push((job, slot));
            self.state.forget_end(slot);
        }
        is_at_rung
    }

    /// Judges the trials of searches that changed. Returns whether any had.
    #[inline]
    pub(super) fn judge_trials(&mut self) -> bool {
        let is_due = self.state.searches.as_ref().is_some_and(|searches| searches.is_due());
        if is_due {
            self.judge();
        }
        is_due
    }

    /// Judges the trials and sets `trials_changed` if an outcome is an event. A trial that continues at once is none.
    #[cold]
    fn judge(&mut self) {
        for outcome in self.state.judged_trials() {
            self.state.apply(outcome);
            self.trials_changed |= !matches!(outcome, RungOutcome::GoesOn(_, Some(_)));
            match outcome {
                RungOutcome::GoesOn(_, Some(slot)) => self.policy.climbed(&self.state, slot),
                RungOutcome::GoesOn(job, None) => self.policy.on_wait(&mut self.state, job, WaitReason::Again),
                RungOutcome::Pauses(job, slot) | RungOutcome::Ends(job, Some(slot)) => {
                    self.policy.on_end(&self.state, slot, job, EndReason::Paused);
                }
                RungOutcome::Ends(_, None) => self.policy.capacity_changed(),
            }
        }
        self.fruitless_decisions = 0;
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns the work left of a job when its stay ends: at its next rung, or at its end.
    #[inline(always)]
    pub(super) fn mark(&self, job: Job) -> f64 {
        self.searches.as_ref().map_or(0.0, |searches| searches.mark(job))
    }

    /// Notes that a job was refused or ended.
    #[inline]
    pub(super) fn lose_trial(&mut self, job: Job) {
        if let Some(searches) = &mut self.searches {
            searches.lose(job);
        }
    }

    /// Returns the work left of a stay's job at the rung that it has just reached.
    pub(super) fn left_at_rung(&self, job: Job) -> f64 {
        self.searches.as_ref().map_or(0.0, |searches| searches.left_at(job, searches.reached[job.index()] - 1))
    }

    /// Returns the outcomes of the trials at rungs that are due.
    #[inline(never)]
    fn judged_trials(&mut self) -> Vec<RungOutcome> {
        let (Some(searches), Some(trials)) = (&mut self.searches, self.jobs.trials) else { return Vec::new() };
        searches.judge(self.now, trials)
    }

    /// Does what a trial's outcome says, and logs it.
    #[inline(never)]
    fn apply(&mut self, outcome: RungOutcome) {
        self.note(outcome.row(self.now));
        match outcome {
            RungOutcome::GoesOn(_, Some(slot)) => self.go_on(slot),
            RungOutcome::GoesOn(job, None) => {
                self.turn_wait(job);
                self.pend(job, true);
                self.out.climbing.set_woke(job, self.now);
            }
            RungOutcome::Pauses(_, slot) => self.pause(slot),
            RungOutcome::Ends(job, slot) => self.give_up(job, slot, Why::Rung),
        }
    }

    /// Continues the stay of a trial at a rung, on the same GPUs and without a pause.
    pub(super) fn go_on(&mut self, slot: Slot) {
        let job = self.stays[slot.index()].job;
        let left = self.left_at_rung(job);
        self.stays[slot.index()].climb(left, self.now, self.clock);
        self.set_end(slot);
    }

    /// Ends the stay of a trial that pauses at a rung.
    fn pause(&mut self, slot: Slot) {
        let job = self.stays[slot.index()].job;
        self.keep(slot, false);
        self.vacate(slot, Why::Rung, Some(self.left_at_rung(job)));
    }
}

impl<P> Stay<P> {
    /// Continues from a rung with `left` work left.
    fn climb(&mut self, left: f64, now: f64, clock: Clock) {
        self.save(now, clock);
        // A slot may have yielded more work than the rung requires. The surplus does not count.
        self.saved = self.saved.max(left);
        (self.left, self.since) = (left, now);
    }
}
