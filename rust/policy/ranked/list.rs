//! Orders each queue as a stable list instead of fifo (`--within list`), as the schedulers of real clusters do.
//!
//! At a pass, in each queue, running jobs first move ahead of the others. Then newcomers and jobs whose queue has
//! changed join the end of theirs, in fifo order among themselves. For example, a and b run and c waits, all in one
//! queue. When a falls to the next queue, where d waits, it is behind d, although it runs and d does not.
//!
//! A tick at which nothing happens is not simulated. Its effect on the list is applied before a job leaves that ran
//! at that tick, so that the list is that of a scheduler that decides at every tick.
//!
//! Invariant: a place is constant until its job starts, stops or falls to the next queue, and ties are fifo. Places
//! are of three kinds, each before the next: those of jobs that have moved ahead, earliest first; of jobs that have
//! stopped since, latest first, and those of one move in their previous order; of jobs that have joined the end,
//! earliest first. For example, a and b have moved ahead and c waits. If both stop, a is before b and b before c, and
//! only their places have changed. A pass costs as much as without lists, plus one step for every job that starts,
//! stops or falls.

use super::gittins::Gittins;
use super::tiresias::Tiresias;
use super::{Keys, Ranking};
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::machine::{ClusterState, Stay};
use crate::setting::Setting;
use crate::speed::Speed;

/// A policy with queues by attained service.
pub(in crate::policy) trait Queues: Ranking {
    /// Returns the queues.
    fn queues(&self) -> &Tiresias;
}

impl Queues for Tiresias {
    fn queues(&self) -> &Tiresias {
        self
    }
}

impl Queues for Gittins {
    fn queues(&self) -> &Tiresias {
        self.tiresias()
    }
}

/// The place of a job that is in no list.
const NOWHERE: u64 = u64::MAX;

/// The first bit of the rows of running jobs that have not moved ahead: there are fewer turns, and fewer jobs.
const NOT_MOVED: u32 = 1 << 31;

/// A policy with queues, each of which is a list.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Listed<Q> {
    policy: Q,
    /// The place of each job in the list of its queue, the queue, and the slot of its stay.
    ///
    /// A place is two numbers, the lower one of `low` bits: 0 and the turn in which it moved ahead; `joined` minus
    /// the number of moves when it stopped, and its turn; `joined` and the pass at which it joined, and 0.
    place: Vec<u64>,
    queue: Vec<usize>,
    slot: Vec<Slot>,
    low: u32,
    joined: u64,
    /// The number of turns taken, and how many there may be.
    turns: u64,
    most_turns: u64,
    /// Moves and passes so far.
    moves: u64,
    passes: u64,
    /// Running jobs that have not moved ahead; some are here twice, and some have left.
    moving: Vec<Job>,
    /// Jobs whose place changed while they ran, and others.
    moved: Vec<Job>,
    /// The last tick that has moved them (machine time).
    moved_at: f64,
    /// Running jobs by an instant before which they do not fall to the next queue.
    falls: EventHeap,
}

impl<Q: Queues> Listed<Q> {
    pub(in crate::policy) fn new(setting: &Setting<'_>, policy: Q) -> Self {
        let jobs = setting.jobs.len();
        let gpus: u64 = setting.server_gpus.iter().copied().map(u64::from).sum();
        let running = (jobs as u64).min(gpus * setting.jobs.units_per_gpu());
        // Turns are renumbered before they run out, which is rare.
        let low = u64::BITS - running.leading_zeros() + 2;
        Self {
            policy,
            place: vec![NOWHERE; jobs],
            queue: vec![0; jobs],
            slot: vec![Slot::NONE; jobs],
            low,
            joined: 1 << (u64::BITS - 1 - low),
            turns: 0,
            most_turns: (1 << low) - 2 * running,
            moves: 0,
            passes: 0,
            moving: Vec::new(),
            moved: Vec::new(),
            moved_at: f64::NEG_INFINITY,
            falls: EventHeap::default(),
        }
    }

    fn has_moved(&self, job: Job) -> bool {
        self.place[job.index()] >> self.low == 0
    }

    /// Moves running jobs ahead of all others.
    fn move_ahead(&mut self) {
        self.moves += 1;
        let mut moving = std::mem::take(&mut self.moving);
        moving.retain(|&job| self.slot[job.index()] != Slot::NONE);
        moving.sort_unstable_by_key(|&job| (self.place[job.index()], job));
        for job in moving.drain(..) {
            if !self.has_moved(job) {
                self.place[job.index()] = self.turns;
                self.turns += 1;
                self.moved.push(job);
            }
        }
        self.moving = moving;
    }

    /// Renumbers the turns. All running jobs have moved ahead.
    fn renumber<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        let mut running: Vec<_> = state.stays.iter().filter(|stay| stay.is_live()).map(|stay| stay.job).collect();
        running.sort_unstable_by_key(|job| self.place[job.index()]);
        self.turns = running.len() as u64;
        for (turn, job) in (0..).zip(running) {
            self.place[job.index()] = turn;
        }
    }

    /// Moves the jobs that have reached a threshold since the last pass to the end of their queue's list, even if
    /// they run.
    fn fall<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        let mut early = Vec::new();
        while let Some((time, job)) = self.falls.peek()
            && time <= state.now
        {
            self.falls.remove(job);
            let job = Job::new(job);
            let stay = &state.stays[self.slot[job.index()].index()];
            let queue = self.policy.queues().queue(state.attained_of(stay));
            if queue == self.queue[job.index()] {
                early.push((job, time));
            } else {
                self.join(job, queue, self.passes);
                self.moving.push(job);
                self.moved.push(job);
                self.await_fall(job, self.policy.queues().rises_at(state, stay));
            }
        }
        for (job, time) in early {
            self.await_fall(job, time);
        }
    }

    fn await_fall(&mut self, job: Job, time: f64) {
        if time < f64::INFINITY {
            self.falls.set(job.number(), time, job.number());
        }
    }

    /// Records that a job no longer runs, and keeps its place.
    fn stand_back(&mut self, job: Job) {
        self.slot[job.index()] = Slot::NONE;
        self.falls.remove(job.number());
        if self.has_moved(job) {
            self.place[job.index()] |= (self.joined - self.moves) << self.low;
        }
    }

    /// Appends a job to its queue's list at that pass.
    fn join(&mut self, job: Job, queue: usize, pass: u64) {
        self.queue[job.index()] = queue;
        self.place[job.index()] = (self.joined + pass) << self.low;
    }
}

impl<Q: Queues> Ranking for Listed<Q> {
    type Tie = u64;

    const KEYS: Keys = Q::KEYS;
    const LISTS: bool = true;

    fn interval(&self) -> Option<f64> {
        self.policy.interval()
    }

    fn is_restless(&self) -> bool {
        self.policy.is_restless()
    }

    fn falls_at(&self) -> f64 {
        self.falls.peek().map_or(f64::INFINITY, |(time, _)| time)
    }

    fn next_moved(&mut self) -> Option<Slot> {
        loop {
            let slot = self.slot[self.moved.pop()?.index()];
            if slot != Slot::NONE {
                return Some(slot);
            }
        }
    }

    fn started<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, slot: Slot) {
        self.slot[job.index()] = slot;
        self.await_fall(job, self.policy.queues().rises_at(state, &state.stays[slot.index()]));
        let place = &mut self.place[job.index()];
        if *place >> self.low == self.joined - self.moves {
            // It stopped at this pass: no job has moved ahead of it.
            *place &= (1 << self.low) - 1;
            self.moved.push(job);
        } else {
            self.moving.push(job);
        }
    }

    fn leaves<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let tick = self.policy.interval().and_then(|interval| state.clock.tick_before(interval, state.now));
        if let Some(tick) = tick.filter(|&tick| tick > self.moved_at) {
            self.move_ahead();
            self.moved_at = tick;
        }
        self.stand_back(job);
    }

    fn before_pass<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> bool {
        self.passes += 1;
        self.move_ahead();
        self.moved_at = state.now;
        let renumbers = self.turns > self.most_turns;
        if renumbers {
            self.renumber(state);
        }
        self.fall(state);
        self.policy.before_pass(state) || renumbers
    }

    fn waiting_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        if self.place[job.index()] == NOWHERE {
            self.join(job, self.policy.queues().queue(state.attained(job)), self.passes + 1);
        } else {
            self.stand_back(job);
        }
        self.policy.waiting_key(state, job)
    }

    fn failed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, _stay: &Stay<S::Pace>) -> f64 {
        // It may have reached a threshold since the last pass.
        let queue = self.policy.queues().queue(state.attained(job));
        if queue != self.queue[job.index()] {
            self.join(job, queue, self.passes + 1);
        }
        self.policy.waiting_key(state, job)
    }

    fn resumed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.place[job.index()] = NOWHERE;
        self.waiting_key(state, job)
    }

    fn span_of(&self, number: f64) -> (f64, f64) {
        self.policy.span_of(number)
    }

    fn key_of(&mut self, number: f64) -> f64 {
        self.policy.key_of(number)
    }

    fn running_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.policy.running_key(state, stay)
    }

    fn ceiling<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>, closely: bool) -> (f64, f64) {
        self.policy.ceiling(state, stay, closely)
    }

    fn tie(&self, job: Job) -> u64 {
        self.place[job.index()]
    }

    /// Jobs that have not moved ahead have fallen at this pass, and are in fifo order.
    fn row(&self, job: Job) -> u32 {
        if self.has_moved(job) { self.place[job.index()] as u32 } else { NOT_MOVED | job.number() }
    }

    fn completed<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.policy.completed(state, job);
    }
}
