//! Lets services answer requests (docs/serving.md): the machine meets the engine of requests here.
//!
//! The machine goes to the engine at ticks, when a replica is placed, drains or is lost, and at the end. Between them
//! the engine runs by itself, and requests are no events of the machine.
//!
//! Invariant: what the engine is told of an instant comes in the order of docs/serving.md: completions, replicas that
//! end, those that begin to drain, those that are placed. For example, a replica whose last request is answered at 20 s
//! ends then, and a job that arrives at 20 s finds its GPUs idle.

use super::Machine;
use super::cluster_state::ClusterState;
use super::policy::Policy;
use super::services::{Running, Services};
use crate::decisions::{Cause, Row};
use crate::outcome::{Answered, Replica, ReplicaEnded, Serving as Served};
use crate::serving::{self, Answers, Autoscaler, Placed, ServiceKeys, Serving};
use crate::speed::Speed;
use crate::trace::Load;

/// The requests of a run, and what answers them. Machine time is in seconds: there is no slot clock.
#[derive(Clone, Debug)]
pub(super) struct Answering<'a> {
    engine: Serving<'a>,
    services: &'a [ServiceKeys],
    speeds: &'a [f64],
    /// Of each service that wants as many replicas as its requests need.
    scalers: Vec<Option<Autoscaler>>,
    /// Every change of what a service wants.
    changes: Vec<Load>,
    /// Whether a tick has moved no replica, and since then no job has come or gone.
    is_quiet: bool,
    /// When the run ended, once it has.
    over: Option<f64>,
}

impl<'a> Answering<'a> {
    /// most: the most replicas of each service by its loads, to which those of autoscalers are added.
    pub(super) fn new(given: &'a serving::Answering, most: &mut [u64]) -> Self {
        for (most, keys) in most.iter_mut().zip(&given.services) {
            *most = u64::max(*most, keys.target.map_or(0, |target| target.max.into()));
        }
        Self {
            engine: given.engine(),
            services: &given.services,
            speeds: &given.speeds,
            scalers: given.services.iter().map(|keys| keys.target.map(Autoscaler::new)).collect(),
            changes: Vec::new(),
            is_quiet: false,
            over: None,
        }
    }

    /// Returns when the run ended, if it has.
    pub(super) fn over(&self) -> Option<f64> {
        self.over
    }

    pub(super) fn startup(&self, service: usize) -> f64 {
        self.services[service].startup
    }

    fn next_tick(&self) -> f64 {
        self.scalers.iter().flatten().map(Autoscaler::next_tick).fold(f64::INFINITY, f64::min)
    }

    /// Returns whether more ticks change nothing, if nothing else happens.
    fn is_settled(&self) -> bool {
        let mut scalers = self.scalers.iter().enumerate();
        scalers.all(|(service, scaler)| {
            scaler.as_ref().is_none_or(|scaler| scaler.is_settled(self.engine.unanswered(service)))
        })
    }

    /// A replica is placed now.
    pub(super) fn place(&mut self, replica: &Replica) {
        let Replica { start, serves_from, server, .. } = *replica;
        self.engine.run_until(start);
        let placed = Placed { start, serves_from, server: server.number(), speed: self.speeds[server.index()] };
        self.engine.place(replica.service as usize, placed);
    }

    /// A replica ends now: its `end`.
    pub(super) fn end(&mut self, replica: &mut Replica) {
        self.engine.run_until(replica.end);
        replica.busy = self.engine.end(replica.service as usize, replica.number);
        if replica.serves_from >= replica.end {
            replica.serves_from = f64::NAN;
        }
    }

    /// Returns what a service wants from this tick on, if now is one.
    fn tick(&mut self, service: usize, now: f64) -> Option<u32> {
        let scaler = self.scalers[service].as_mut().filter(|scaler| scaler.next_tick() <= now)?;
        self.engine.run_until(now);
        Some(scaler.tick(self.engine.unanswered(service)))
    }

    /// Notes what a service wants from now on.
    fn note(&mut self, load: Load) {
        let last = self.changes.iter().rev().find(|change| change.service == load.service);
        if last.is_none_or(|last| last.replicas != load.replicas) {
            self.changes.push(load);
        }
    }

    /// Returns when the last request was answered, if all are by an instant.
    fn answered_by(&mut self, now: f64) -> Option<f64> {
        self.engine.run_until(now);
        self.engine.last_answer()
    }

    /// Adds what happened to a result. end: of the run.
    pub(super) fn tell(self, served: &mut Served, end: f64) {
        served.loads = self.changes;
        let begun_anew = (0..self.services.len()).map(|service| self.engine.begun_anew(service)).collect();
        served.answered = Some(Answered { answers: self.engine.into_answers(), begun_anew, end, samples: Vec::new() });
    }
}

impl Services<'_> {
    /// Returns when the next load, tick or end of a drain is, or infinity.
    #[inline]
    pub(super) fn next_at(&self) -> f64 {
        let load = self.next_load();
        self.answering.as_ref().map_or(load, |answering| load.min(answering.next_tick()).min(self.next_drained()))
    }

    fn next_drained(&self) -> f64 {
        self.running.iter().map(|running| running.drained).fold(f64::INFINITY, f64::min)
    }

    /// Returns when something next happens that is no mere tick; now, while ticks may change something. Nothing else is
    /// to happen at this instant.
    fn comes_at(&mut self, now: f64) -> f64 {
        let others = self.next_load().min(self.next_drained());
        let Some(answering) = &mut self.answering else { return others };
        answering.engine.run_until(now);
        answering.engine.settle_by(now);
        if answering.next_tick() < f64::INFINITY && !(answering.is_quiet && answering.is_settled()) {
            return now;
        }
        others.min(answering.engine.next_at())
    }
}

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Returns the number of times that replicas have moved, if nothing but a tick comes at an instant. end: the first
    /// end of a stay.
    #[cold]
    pub(super) fn mere_tick(&self, now: f64, end: f64) -> Option<u64> {
        (self.state.answers() && self.others_come_at(end) > now).then(|| self.state.replica_moves())
    }

    fn others_come_at(&self, end: f64) -> f64 {
        self.next_arrival.min(self.next_pass).min(self.next_wake).min(self.state.next_outage()).min(end)
    }

    /// Returns whether nothing but ticks comes any more, and these change nothing.
    #[cold]
    pub(super) fn has_ticks_alone(&mut self, now: f64, end: f64) -> bool {
        if !self.state.answers() || self.others_come_at(end) < f64::INFINITY || now <= self.state.now {
            return false;
        }
        self.state.coming() == f64::INFINITY
    }

    /// Does what comes between the completions of jobs and arrivals: replicas that have drained end, and so does the run
    /// with its last answer; servers change; services want more or fewer replicas. changes: whether any of that may be
    /// due. Returns whether replicas that wait are tried.
    #[cold]
    pub(super) fn tick(&mut self, changes: bool) -> bool {
        if self.state.end_drained(changes) {
            self.policy.capacity_changed();
        }
        if !changes || self.state.is_over() {
            return false;
        }
        let outage = self.state.next_outage() <= self.state.now;
        if outage {
            self.change_servers();
        }
        let moves = self.state.replica_moves();
        let ticks = self.state.tick_services();
        if self.state.replica_moves() != moves {
            self.policy.capacity_changed();
        }
        self.next_change = self.state.next_change();
        outage || ticks
    }

    /// Notes whether ticks change anything. is_still: whether no replica has moved at this instant, and no job has come
    /// or gone.
    pub(super) fn note_quiet(&mut self, is_still: bool, ticks: bool) {
        if let Some(answering) = self.state.answering() {
            answering.is_quiet = is_still && (ticks || answering.is_quiet);
        }
    }
}

impl<'a, S: Speed> ClusterState<'a, S> {
    /// Ends the run before an instant, if all jobs are gone and all requests are answered before it. Returns whether it
    /// has ended so.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_with_requests(&mut self, now: f64) -> bool {
        let (gone, since) = (self.gone == self.jobs.len(), self.now);
        let Some(answering) = self.answering() else { return false };
        if !gone || answering.over.is_some() {
            return false;
        }
        let Some(last) = answering.answered_by(now).filter(|&last| last < now) else { return false };
        let end = last.max(since);
        answering.over = Some(end);
        self.now = end;
        true
    }

    /// Returns when something next comes from outside that is no mere tick: an outage, or what services do.
    #[cold]
    #[inline(never)]
    pub(super) fn coming(&mut self) -> f64 {
        let now = self.now;
        if !self.answers() {
            return self.next_change();
        }
        let services = self.services.as_mut().map_or(f64::INFINITY, |services| services.comes_at(now));
        services.min(self.next_outage())
    }

    /// Does the ticks and loads of this instant, service by service. Returns whether there were any.
    #[cold]
    #[inline(never)]
    fn tick_services(&mut self) -> bool {
        let now = self.now;
        let Some(services) = &mut self.services else { return false };
        let due = services.loads[services.next..].iter().take_while(|load| load.time <= now);
        let loads: Vec<Load> = due.copied().collect();
        services.next += loads.len();
        let mut ticks = false;
        for service in 0..services.services.len() as u32 {
            let load = loads.iter().find(|load| load.service == service).copied();
            let wanted = self.answering().and_then(|answering| answering.tick(service as usize, now));
            let tick = wanted.map(|replicas| Load { service, time: now, replicas });
            let Some(load) = load.or(tick) else { continue };
            ticks = true;
            if let Some(answering) = self.answering() {
                answering.note(load);
            }
            self.want(load);
        }
        ticks
    }

    /// Returns whether services answer requests.
    #[inline]
    pub(super) fn answers(&self) -> bool {
        self.services.as_ref().is_some_and(|services| services.answering.is_some())
    }

    fn answering(&mut self) -> Option<&mut Answering<'a>> {
        self.services.as_mut()?.answering.as_deref_mut()
    }

    /// Returns whether requests are left to be answered.
    #[cold]
    pub(super) fn has_requests(&self) -> bool {
        let answering = self.services.as_ref().and_then(|services| services.answering.as_ref());
        answering.is_some_and(|answering| answering.over.is_none())
    }

    /// Returns the number of times that replicas got or gave back GPUs.
    #[cold]
    pub(super) fn replica_moves(&self) -> u64 {
        self.services.as_ref().map_or(0, |services| services.moves)
    }

    /// Returns the first service with requests that nobody will ever answer, where nothing else happens any more.
    pub(super) fn unanswered(&mut self) -> Option<usize> {
        let answering = self.answering()?;
        answering.engine.run_until(f64::INFINITY);
        answering.engine.settle();
        (0..answering.services.len()).find(|&service| answering.engine.unanswered(service) > 0)
    }

    /// Returns who answered what so far; `None` without requests.
    pub(crate) fn answers_so_far(&self) -> Option<Answers> {
        let answering = self.services.as_ref()?.answering.as_ref()?;
        Some(answering.engine.answers().clone())
    }

    /// Gives a clone the answers of what it is a clone of: its own are empty.
    pub(crate) fn keep_answers(&mut self, answers: Answers) {
        if let Some(answering) = self.answering() {
            answering.engine.keep(answers);
        }
    }

    /// Ends the replicas that have drained by now, and the run with its last answer. drains: whether any may have.
    /// Returns whether any had.
    #[cold]
    #[inline(never)]
    fn end_drained(&mut self, drains: bool) -> bool {
        let now = self.now;
        let mut any = false;
        while drains
            && let Some(services) = &self.services
            && let Some(at) = services.running.iter().position(|running| running.drained <= now)
        {
            self.end_replica(at, ReplicaEnded::Surplus);
            any = true;
        }
        let gone = self.gone == self.jobs.len();
        if let Some(answering) = self.answering()
            && gone
        {
            answering.over = answering.over.or(answering.answered_by(now).map(|_| now));
        }
        any
    }

    /// Lets so many replicas of a service drain: they take no new requests, and end with their last one.
    pub(super) fn drain_surplus(&mut self, service: u32, surplus: u64) {
        let now = self.now;
        for _ in 0..surplus {
            let Some(services) = &mut self.services else { return };
            let Some(answering) = &mut services.answering else { return };
            answering.engine.run_until(now);
            let Some(number) = answering.engine.surplus(service as usize) else { return };
            let drained = answering.engine.drain(service as usize, number);
            let drained = drained.min(now + answering.services[service as usize].drain);
            let is_it = |running: &Running| (running.replica.service, running.replica.number) == (service, number);
            let Some(at) = services.running.iter().position(is_it) else { return };
            if drained <= now {
                self.end_replica(at, ReplicaEnded::Surplus);
                continue;
            }
            let running = &mut services.running[at];
            (running.drained, running.replica.drains_from) = (drained, now);
            services.services[service as usize].running -= 1;
            let row = Row { cause: Cause::Drains, ..running.replica.row(now) };
            self.note(row);
        }
    }
}
