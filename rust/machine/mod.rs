//! Runs the only event loop: the machine of one cluster under one policy.
//!
//! An instant has these steps (docs/model.md): completions and time limits, outages, loads of services, arrivals,
//! replicas, one pass where the policy asks for one, new paces of the stays whose contention changed, and the stay log.
//! Then the machine advances to the next instant: the earliest of the next end, the next outage, the next load, the
//! next arrival, the policy's next pass and its next wake. Nothing happens in between.
//!
//! A run can be paused anywhere: `run(until)` may be called again, and a clone continues to the same end. For example,
//! a machine that ran to 100 s, was cloned, and was then run to the end in both copies gives the same results as one
//! that was never stopped.

mod clock;
mod cluster_state;
mod crossing;
mod delays;
mod evict;
mod eviction_delay;
mod explain;
mod fall_back;
mod followers;
mod limits;
mod livelock;
mod loads;
mod maintenance;
mod outages;
mod policy;
mod preemptible;
mod progress;
mod protect;
mod queries;
mod quota_usage;
mod requested_gpus;
mod requests;
mod rollback;
mod saves;
mod searches;
mod seating;
mod seats;
mod services;
mod sharing;
mod sleep;
mod standstill;
mod stays;
#[cfg(test)]
mod tests;
mod verbs;

use crate::error::{Error, Result};
use crate::ids::{Job, Slot};
use crate::outcome::ClusterOutcome;
use crate::record::{Scale, Why};
use crate::setting::Setting;
use crate::speed::Speed;
pub(crate) use clock::{Clock, MOST_SLOTS, Rest};
pub(crate) use cluster_state::ClusterState;
pub use explain::WaitExplanation;
pub(crate) use explain::until;
use livelock::Livelock;
pub(crate) use loads::Breaks;
pub(crate) use maintenance::Masked;
pub(crate) use policy::{Chooses, Claim, EndReason, Policy, WaitReason};
pub(crate) use quota_usage::Claimant;
pub(crate) use saves::checkpoint_length;
pub(crate) use sharing::wants;
pub(crate) use stays::Stay;

/// Watches a run: receives its progress now and then, and may end it.
pub trait Watch {
    /// Reports that `finished` jobs are done.
    ///
    /// # Errors
    /// Any error that should end the run, usually `Interrupted`.
    fn tick(&mut self, finished: usize) -> Result<()>;
}

/// Lets the run continue to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn tick(&mut self, _finished: usize) -> Result<()> {
        Ok(())
    }
}

/// Instants between two calls of the watch.
const WATCH_EVERY: u64 = 1024;

/// Why a run stopped for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// Every instant up to the given time is over, and more follow.
    Until,
    /// A decision from outside is due at this instant. The next run continues from there.
    Asks,
    /// The policy asked to stop before the next instant.
    Halted,
    /// Nothing is left to do.
    Done,
}

/// One cluster under one policy.
#[derive(Clone, Debug)]
pub(crate) struct Machine<'a, P, S: Speed> {
    pub(crate) policy: P,
    pub(crate) state: ClusterState<'a, S>,
    /// Each job's row in the caller's table, for errors.
    rows: &'a [u32],
    /// Number of jobs that have arrived, and when the next one arrives.
    pub(crate) arrived: usize,
    next_arrival: f64,
    /// Jobs that arrive at this instant, where arrivals depend on ends.
    due: Vec<Job>,
    /// When the policy's next pass is due, and when it must be woken.
    next_pass: f64,
    next_wake: f64,
    /// When the next server goes down or comes back, or a service changes its load.
    next_change: f64,
    instants: u64,
    idle_passes: u64,
    livelock: Livelock,
    /// Whether a decision is due at this instant.
    asked: bool,
    /// Whether a trial paused, ended or woke at this instant.
    trials_changed: bool,
    /// Decisions since the last event from outside, and the time of that event.
    fruitless_decisions: u64,
    quiet_since: f64,
    /// Number of jobs that had arrived, and of stays that had ended, at the last decision from outside.
    last_decision: (usize, usize),
    /// When the latest pass was, and whether the run pauses after each instant so that the caller can ask questions.
    decided: f64,
    pub(crate) halts: bool,
}

impl<'a, P: Policy<S>, S: Speed> Machine<'a, P, S> {
    pub(crate) fn new(setting: &Setting<'a>, speed: S, policy: P) -> Self {
        let runs_through = setting.log.is_some_and(|log| log.runs_through) && setting.options.jobs_per_gpu() == 1;
        let state = ClusterState::new(setting, speed, P::STOPS && !runs_through, P::OUTSIDE);
        let mut machine = Self {
            policy,
            state,
            rows: setting.rows,
            arrived: 0,
            next_arrival: 0.0,
            due: Vec::new(),
            next_pass: f64::INFINITY,
            next_wake: f64::INFINITY,
            next_change: f64::INFINITY,
            instants: 0,
            idle_passes: 0,
            livelock: Livelock::default(),
            asked: false,
            trials_changed: false,
            fruitless_decisions: 0,
            quiet_since: 0.0,
            last_decision: (0, 0),
            decided: f64::NAN,
            halts: false,
        };
        machine.next_arrival = machine.arrival_of(0);
        machine.next_change = machine.state.next_change();
        if setting.log.is_some() {
            // Replicas of services may come before the first job.
            machine.next_pass = machine.policy.due(&machine.state);
        }
        machine
    }

    /// Returns when the job at place `after` in order of arrival arrives, or, where arrivals depend on ends, when the
    /// next one does.
    #[inline(always)]
    fn arrival_of(&self, after: usize) -> f64 {
        if let Some(followers) = &self.state.followers {
            return followers.next_at(self.state.clock);
        }
        let submit = self.state.jobs.submit;
        let time = match self.state.arrivals {
            None => submit.get(after),
            Some(arrivals) => arrivals.get(after).map(|job| &submit[job.index()]),
        };
        time.map_or(f64::INFINITY, |&time| self.state.clock.arrival(time))
    }

    /// Runs every instant up to `until` (machine time).
    ///
    /// # Errors
    /// `Stuck` or `Starved` when nothing can change any more and a job is not done; `Livelock` where the policy ends
    /// stay after stay without progress; any error of the watch.
    pub(crate) fn run(&mut self, until: f64, watch: &mut dyn Watch) -> Result<Pause> {
        // The policy, or an eviction, may end stays.
        let counting = P::STOPS || P::OUTSIDE || self.state.preemptible.is_some();
        let serves = self.state.services.is_some();
        if std::mem::take(&mut self.asked) {
            self.last_decision = (self.arrived, self.state.out.stay_log.records.len());
            self.decide()?;
        }
        loop {
            let next = self.next_arrival.min(self.next_pass).min(self.next_wake);
            // Once the run is over, no such change matters.
            let next = if self.state.is_over() { next } else { next.min(self.next_change) };
            let Some(end) = self.state.next_end(next.min(until)) else {
                watch.tick(self.state.gone)?;
                continue;
            };
            let now = end.min(next);
            if serves {
                if self.has_ticks_alone(now, end) {
                    break;
                }
                if self.state.ends_with_requests(now.min(until)) {
                    continue;
                }
            }
            if now > until {
                if P::OUTSIDE && until > self.state.now {
                    self.state.now = until;
                    self.state.pass = 0;
                    self.state.rollback.clear();
                }
                return Ok(Pause::Until);
            }
            if now == f64::INFINITY || self.is_idling(now) {
                break;
            }
            if counting && self.is_time_to_count(now) {
                self.livelock.count_stays(&self.state)?;
            }
            self.instants += 1;
            if self.instants.is_multiple_of(WATCH_EVERY) {
                watch.tick(self.state.gone)?;
            }
            let mere_tick = if serves { self.mere_tick(now, end) } else { None };
            self.events(now, counting);
            if mere_tick.is_some_and(|moves| self.state.replica_moves() == moves) {
                // No event to a policy.
                continue;
            }
            if P::OUTSIDE && self.policy.asks(&self.state) {
                self.check_patience()?;
                self.asked = true;
                return Ok(Pause::Asks);
            }
            self.decide()?;
            if self.policy.is_halted() || self.halts {
                return Ok(Pause::Halted);
            }
        }
        watch.tick(self.state.gone)?;
        if self.state.is_over() { Ok(Pause::Done) } else { Err(self.stuck()) }
    }

    /// Advances to an instant: completions, servers that come back and go down, loads, arrivals, replicas.
    #[inline(always)]
    fn events(&mut self, now: f64, counting: bool) {
        if !self.state.rollback.is_empty() && now > self.state.now {
            self.state.rollback.clear();
        }
        if now > self.state.now {
            self.state.pass = 0;
        }
        let serves = self.state.services.is_some();
        if serves {
            self.state.lend(now);
        }
        let is_new = now > self.state.now;
        self.state.now = now;
        self.state.delays.pass_time(self.state.clock.seconds(now));
        let moves = if serves { self.state.replica_moves() } else { 0 };
        let before = (self.state.gone, self.arrived);
        let mut changes = self.next_change <= now;
        self.trials_changed = false;
        loop {
            while let Some((time, slot)) = self.state.ends.peek()
                && time <= now
            {
                let slot = Slot::new(slot);
                if self.state.comes_to_save(slot) {
                    continue;
                }
                let (job, why) = if self.state.comes_to_limit(slot) {
                    (self.state.cut(slot), EndReason::Limit)
                } else if self.comes_to_rung(slot) {
                    continue;
                } else {
                    (self.state.complete(slot), EndReason::Done)
                };
                self.policy.on_end(&self.state, slot, job, why);
                if P::OUTSIDE {
                    self.fruitless_decisions = 0;
                }
            }
            // A trial that continues from a rung may reach the next one, or its end, at once.
            if !self.judge_trials() {
                break;
            }
        }
        let answers = serves && self.state.answers();
        let ticks = answers && self.tick(changes);
        if answers {
            changes = false;
        } else if changes && !self.state.is_over() {
            self.change_servers();
            self.take_loads();
            self.next_change = self.state.next_change();
        }
        let in_order = self.state.followers.is_none();
        if !in_order {
            self.take_due();
        }
        // One place for both, so that the compiler merges what the policy does there.
        loop {
            let job = if in_order {
                if self.next_arrival > now {
                    break;
                }
                self.state.arrival(self.arrived)
            } else {
                let Some(job) = self.due.pop() else { break };
                job
            };
            self.state.turn_wait(job);
            if self.state.delays_evictions() {
                self.state.pend_from_arrival(job);
            }
            self.state.is_arriving = true;
            self.policy.on_wait(&mut self.state, job, WaitReason::Arrived);
            self.state.is_arriving = false;
            if P::OUTSIDE {
                self.fruitless_decisions = 0;
            }
            self.arrived += 1;
            self.next_arrival = self.arrival_of(self.arrived);
        }
        // A refused trial no longer holds up its search.
        self.judge_trials();
        let mut comes = (serves || counting) && (changes || before != (self.state.gone, self.arrived));
        if answers {
            comes |= self.state.replica_moves() != moves;
        }
        if counting && comes {
            self.begin_count();
        }
        // A pass alone gives a replica no reason to try again: it is up to the policy which passes change nothing.
        if serves && (comes || ticks || self.trials_changed) {
            self.place_replicas();
        }
        if answers {
            let is_still = before == (self.state.gone, self.arrived) && self.state.replica_moves() == moves;
            self.note_quiet(is_still, ticks);
        }
        if self.state.protects() {
            self.state.end_protections(is_new);
        }
        if self.state.delays_evictions() {
            self.state.end_delays(is_new);
        }
    }

    /// Collects the jobs that are due, the last first. Followers of those that are refused here arrive in the next
    /// round of this instant.
    #[cold]
    fn take_due(&mut self) {
        self.state.take_due(&mut self.due);
        self.next_arrival = self.arrival_of(self.arrived);
    }

    /// Lets verbs act now, even where no decision is due. The rest of this instant follows when the run continues.
    pub(crate) fn hold(&mut self) {
        if !self.asked {
            self.state.delays.pass_time(self.state.seconds());
            self.asked = true;
        }
    }

    /// Finishes an instant: a pass, new paces, the stay log.
    fn decide(&mut self) -> Result<()> {
        let now = self.state.now;
        self.next_wake = self.policy.wake(&self.state, self.arrived);
        self.next_pass = self.policy.due(&self.state);
        if self.next_pass == now {
            self.decided = now;
            self.policy.pass(&mut self.state);
            if let Some((job, verb, why, at)) = self.state.fault.take() {
                let row = self.rows[job.index()] as usize;
                return Err(Error::Decision { row, verb: verb.name(), time: self.state.seconds(), why, at });
            }
            if self.state.preemptible.is_some() {
                // An evicted job may later reach the aging limit.
                self.next_wake = self.policy.wake(&self.state, self.arrived);
            }
            self.next_pass = self.policy.due(&self.state);
        }
        if self.judge_trials() {
            // A verb ended or refused a trial: others may start to wait now.
            self.next_wake = now;
        }
        let waiting = self.policy.is_waiting();
        let ClusterState { jobs, delays, cluster, placer, .. } = &mut self.state;
        delays.look(jobs, cluster, placer, waiting);
        if !self.state.is_settled() {
            self.state.settle();
        }
        self.state.pass += 1;
        if self.state.followers.is_some() {
            // A pass may refuse or end jobs.
            self.next_arrival = self.arrival_of(self.arrived);
        }
        Ok(())
    }

    /// Returns every waiting job.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Job> + '_ {
        self.policy.waiting_jobs()
    }

    /// Returns what changed since the last decision from outside: the jobs that arrived, those that are done or reached
    /// their limits, and those that lost their GPUs to an outage, a service or another job.
    pub(crate) fn news(&self) -> [Vec<Job>; 3] {
        let (arrived, records) = self.last_decision;
        let records = &self.state.out.stay_log.records[records..];
        let ended =
            |is: fn(Why) -> bool| records.iter().filter(|records| is(records.why)).map(|records| records.job).collect();
        [
            (arrived..self.arrived).map(|after| self.state.arrival(after)).collect(),
            ended(|why| matches!(why, Why::Done | Why::Limit)),
            ended(|why| matches!(why, Why::Failed(_) | Why::EvictedBy(_) | Why::EvictedFor(_))),
        ]
    }

    /// Returns the results of a finished run, in seconds.
    pub(crate) fn into_outcome(mut self) -> ClusterOutcome {
        self.state.out.serving = self.state.serving();
        let ClusterState {
            mut out,
            jobs,
            few,
            speed,
            clock,
            gone,
            mut sleep,
            outages,
            searches,
            progress,
            followers,
            cluster,
            loads,
            ..
        } = self.state;
        if let Some(outages) = outages {
            outages.outlive(sleep.as_deref_mut(), clock, &cluster, &mut out.drained);
        }
        let scale = Scale { jobs: &jobs, few, speed: &speed, slot: clock.slot };
        out.stay_log.fold(&scale, &out.start, &out.finish, progress.as_ref().map(|progress| &progress.left[..]));
        out.links.carried = loads.map_or_else(Vec::new, |loads| loads.into_carried());
        out.climbing.climbs = searches.map_or_else(Vec::new, |searches| searches.into_climbs());
        out.arrival = followers.map_or_else(Vec::new, |followers| followers.into_arrivals());
        out.events = (self.arrived + gone) as u64;
        out.convert_times(|time| clock.seconds(time));
        if let Some(sleep) = sleep {
            out.asleep = sleep.into_spells(clock);
        }
        out
    }
}
