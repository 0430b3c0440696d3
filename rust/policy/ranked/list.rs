//! A stable list inside a queue, in place of fifo (`--within list`): as the schedulers of real clusters keep it.
//!
//! At a pass, first, in each queue, those that run move ahead of those that do not. Then newcomers and those whose queue
//! has changed join the end of theirs, in fifo order among themselves. For example, a and b run and c waits, all in one
//! queue. As a falls to the next queue, where d waits, it stands behind d, though it runs and d does not.
//!
//! A tick at which nothing happens is not simulated. What it would do to the list is done before somebody leaves who ran
//! at it, so that the list is the one of a scheduler that decides at every tick. A pass ranks all jobs that run or wait.

use super::gittins::Gittins;
use super::tiresias::{Tiresias, attains_before};
use super::{Keys, Ranking};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;

/// A policy with queues by attained service.
pub(in crate::policy) trait Queues: Ranking {
    /// The queues.
    fn queues(&self) -> &Tiresias;

    /// The key of a job with that service: by queue, then as the policy ranks inside one.
    fn key_at(&mut self, attained: f64) -> f64;
}

impl Queues for Tiresias {
    fn queues(&self) -> &Tiresias {
        self
    }

    fn key_at(&mut self, attained: f64) -> f64 {
        self.queue(attained) as f64
    }
}

impl Queues for Gittins {
    fn queues(&self) -> &Tiresias {
        self.tiresias()
    }

    fn key_at(&mut self, attained: f64) -> f64 {
        self.key_now(attained)
    }
}

/// Where a job stands that is in no list.
const NOWHERE: i64 = i64::MAX;

/// A policy with queues, of which each is a list.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Listed<Q> {
    policy: Q,
    /// The place of each job in the list of its queue, the least first, and the queue.
    place: Vec<i64>,
    queue: Vec<usize>,
    /// The least place that is taken, and the first that is free behind all.
    front: i64,
    back: i64,
    /// Jobs that may have to join the end of a list at the next pass, besides those that run then.
    joining: Vec<Job>,
    /// Those that run since the last pass, and before when none of them falls to the next queue (machine time).
    running: Vec<Job>,
    falls_at: f64,
    is_known: bool,
    /// The last tick that has moved them (machine time).
    moved: f64,
}

impl<Q: Queues> Listed<Q> {
    pub(in crate::policy) fn new(setting: &Setting<'_>, policy: Q) -> Self {
        let jobs = setting.jobs.len();
        Self {
            policy,
            place: vec![NOWHERE; jobs],
            queue: vec![0; jobs],
            front: 0,
            back: 0,
            joining: Vec::new(),
            running: Vec::new(),
            falls_at: f64::INFINITY,
            is_known: true,
            moved: f64::NEG_INFINITY,
        }
    }

    /// Those that run move ahead of all others.
    fn move_ahead(&mut self, running: &mut [Job]) {
        running.sort_unstable_by_key(|job| self.place[job.index()]);
        self.front -= running.len() as i64;
        for (place, job) in (self.front..).zip(running) {
            self.place[job.index()] = place;
        }
    }

    /// Looks who runs since the last pass.
    fn know<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        if std::mem::replace(&mut self.is_known, true) {
            return;
        }
        self.running.clear();
        self.falls_at = f64::INFINITY;
        let queues = self.policy.queues();
        for stay in floor.stays.iter().filter(|stay| stay.is_live()) {
            self.running.push(stay.job);
            let end = queues.end_of(queues.queue(floor.attained_of(stay)));
            self.falls_at = self.falls_at.min(attains_before(floor, stay, end));
        }
    }

    /// The key by which a job ranks that has that service: among equals those go first that stand ahead.
    fn ranked(&mut self, job: Job, attained: f64) -> (f64, f64) {
        (self.policy.key_at(attained), self.place[job.index()] as f64)
    }
}

impl<Q: Queues> Ranking for Listed<Q> {
    const KEYS: Keys = Keys::Move;
    const LISTS: bool = true;

    fn interval(&self) -> Option<f64> {
        self.policy.interval()
    }

    fn is_restless(&self) -> bool {
        self.policy.is_restless()
    }

    fn falls_at<S: Speed>(&mut self, floor: &Floor<'_, S>) -> f64 {
        self.know(floor);
        self.falls_at
    }

    fn leaves<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        let mut running = std::mem::take(&mut self.running);
        let tick = self.policy.interval().and_then(|interval| floor.clock.tick_before(interval, floor.now));
        if let Some(tick) = tick.filter(|&tick| tick > self.moved) {
            self.move_ahead(&mut running);
            self.moved = tick;
        }
        running.retain(|&other| other != job);
        self.running = running;
    }

    fn before_pass<S: Speed>(&mut self, floor: &Floor<'_, S>) -> bool {
        let mut running: Vec<_> = floor.stays.iter().filter(|stay| stay.is_live()).map(|stay| stay.job).collect();
        self.move_ahead(&mut running);
        let queues = self.policy.queues();
        let running = floor.stays.iter().filter(|stay| stay.is_live());
        let running = running.map(|stay| (stay.job, queues.queue(floor.attained_of(stay))));
        let waiting = self.joining.drain(..).map(|job| (job, queues.queue(floor.attained(job))));
        let mut joining: Vec<_> = running.chain(waiting).collect();
        joining.retain(|&(job, queue)| self.place[job.index()] == NOWHERE || self.queue[job.index()] != queue);
        joining.sort_unstable();
        for (job, queue) in joining {
            self.queue[job.index()] = queue;
            self.place[job.index()] = self.back;
            self.back += 1;
        }
        self.moved = floor.now;
        self.is_known = false;
        self.policy.before_pass(floor)
    }

    fn waiting_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, job: Job) -> f64 {
        // Whoever is stopped keeps its place.
        if self.place[job.index()] == NOWHERE {
            self.joining.push(job);
        }
        0.0
    }

    fn failed_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, job: Job, _stay: &Stay<S::Pace>) -> f64 {
        // It may have reached a threshold since the last pass.
        self.joining.push(job);
        0.0
    }

    fn resumed_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        self.place[job.index()] = NOWHERE;
        self.waiting_key(floor, job)
    }

    fn rank<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> (f64, f64) {
        let attained = stay.map_or_else(|| floor.attained(job), |stay| floor.attained_of(stay));
        self.ranked(job, attained)
    }

    fn completed<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.policy.completed(floor, job);
    }
}
