//! Runs the replicas of services, which take GPUs before any job (docs/services.md).
//!
//! `requests` has what follows where services answer requests: ticks of the autoscaler, and replicas that drain.
//!
//! Invariant: the running and the waiting replicas of a service, without those that drain, add up to as many as it
//! wants. A replica's GPUs are taken but belong to no job, and U ignores them. For example, a service that wants 4
//! replicas of 8 GPUs on three idle servers of 8 runs three, and waits for one.

use super::Machine;
use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::policy::{EndReason, Policy};
use super::preemptible::Preemptible;
use super::requests::Answering;
use crate::decisions::{Cause, Row, Verb};
use crate::ids::{Job, Server, Slot};
use crate::outcome::{Replica, ReplicaEnded, Serving, Woken};
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::Load;
use std::collections::VecDeque;

/// What services want and hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Services<'a> {
    /// In order of time (machine time), at most one per service and instant.
    pub(super) loads: Vec<Load>,
    pub(super) next: usize,
    pub(super) services: Vec<Service>,
    /// Replicas with GPUs, in the order in which they were placed.
    pub(super) running: Vec<Running>,
    /// The requests that they answer, if there are any.
    pub(super) answering: Option<Box<Answering<'a>>>,
    /// Number of times that replicas got or gave back GPUs.
    pub(super) moves: u64,
    /// Holders that are free again, and the next unused one, counting down.
    free: Vec<Job>,
    holder: u32,
    /// GPUs of all services at their largest load.
    largest: u64,
    /// GPUs of the running replicas.
    held: u64,
    /// Whether replicas begin and end as a log says, not as services want.
    follows: bool,
    /// GPU-time that jobs held of what services would hold at their largest load (machine time).
    lent: f64,
}

/// A replica with GPUs, their holder, and when it gives them back if it drains; else infinity.
#[derive(Clone, Copy, Debug)]
pub(super) struct Running {
    pub(super) replica: Replica,
    holder: Job,
    pub(super) drained: f64,
}

impl Running {
    pub(super) fn is_draining(&self) -> bool {
        self.drained < f64::INFINITY
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    gpus: u32,
    /// Without those that drain.
    pub(super) running: u64,
    /// Number of replicas it has started.
    started: u32,
    /// Waiting replicas: since when, and how many; the longest wait first.
    pub(super) waiting: VecDeque<(f64, u64)>,
}

impl Service {
    pub(super) fn wanted(&self) -> u64 {
        self.running + self.waiting.iter().map(|&(_, count)| count).sum::<u64>()
    }
}

impl Replica {
    /// Returns the log row of a replica: its server and its number.
    pub(super) fn row(&self, now: f64) -> Row {
        let Self { service, number, server, .. } = *self;
        Row { service, replica: number, server: server.number(), ..Row::of(now, Verb::Replica) }
    }
}

impl<'a> Services<'a> {
    /// Returns the services of the setting, if it has any; those of its log if it has no other.
    pub(super) fn new(setting: &Setting<'a>, clock: Clock) -> Option<Box<Self>> {
        let holder = Job::NONE.number() - 1 - setting.server_gpus.len() as u32;
        let Some(given) = setting.side.services else {
            let follows = setting.log.is_some_and(|log| log.has(Verb::Replica));
            return follows.then(|| Box::new(Self { follows, holder, ..Self::default() }));
        };
        let mut loads = given.loads.to_vec();
        loads.sort_by(|a, b| a.time.total_cmp(&b.time));
        let mut seen: Vec<Load> = Vec::with_capacity(loads.len());
        for load in &loads {
            let load = Load { time: clock.arrival(load.time), ..*load };
            // Under the slot clock several loads may fall on one boundary: the last one counts.
            let together = seen.iter().rev().take_while(|other| other.time == load.time);
            let places = together.enumerate().find(|(_, other)| other.service == load.service);
            match places.map(|(back, _)| seen.len() - 1 - back) {
                Some(at) => seen[at] = load,
                None => seen.push(load),
            }
        }
        let mut most = vec![0; given.gpus.len()];
        for load in given.loads {
            let most = &mut most[load.service as usize];
            *most = u64::max(*most, u64::from(load.replicas));
        }
        let answering = setting.side.requests.map(|given| Box::new(Answering::new(given, &mut most)));
        let service = |&gpus: &u32| Service { gpus, running: 0, started: 0, waiting: VecDeque::new() };
        Some(Box::new(Self {
            loads: seen,
            next: 0,
            services: given.gpus.iter().map(service).collect(),
            running: Vec::new(),
            answering,
            moves: 0,
            free: Vec::new(),
            // Below the holders of servers that are down.
            holder,
            follows: false,
            largest: most.iter().zip(given.gpus).map(|(most, &gpus)| most * u64::from(gpus)).sum(),
            held: 0,
            lent: 0.0,
        }))
    }

    /// Returns when the next load changes, or infinity.
    #[inline]
    pub(super) fn next_load(&self) -> f64 {
        self.loads.get(self.next).map_or(f64::INFINITY, |load| load.time)
    }

    fn new_holder(&mut self) -> Job {
        self.free.pop().unwrap_or_else(|| {
            self.holder -= 1;
            Job::new(self.holder)
        })
    }
}

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Applies the loads of this instant. Services that want fewer replicas end some.
    pub(super) fn take_loads(&mut self) {
        while let Some(services) = &mut self.state.services
            && let Some(&load) = services.loads.get(services.next)
            && load.time <= self.state.now
        {
            services.next += 1;
            self.state.want(load);
            self.policy.capacity_changed();
        }
        self.fruitless_decisions = 0;
    }

    /// Starts waiting replicas as far as GPUs allow.
    pub(super) fn place_replicas(&mut self) {
        let mut at = 0;
        let mut evicted = Vec::new();
        while let Some(server) = self.state.room_for_replica(&mut at, &mut evicted) {
            for (slot, job) in evicted.drain(..) {
                self.policy.on_end(&self.state, slot, job, EndReason::Lost);
            }
            self.state.start_replica(at, server);
            self.policy.capacity_changed();
            self.fruitless_decisions = 0;
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Finds room for a replica of the first service from `at` on that waits for one and for which there is room,
    /// evicting jobs if needed. Returns its server. None once the run is over.
    #[inline(never)]
    fn room_for_replica(&mut self, at: &mut usize, evicted: &mut Vec<(Slot, Job)>) -> Option<Server> {
        if self.is_over() {
            return None;
        }
        loop {
            let services = &self.services.as_ref()?.services;
            *at += services.iter().skip(*at).position(|service| !service.waiting.is_empty())?;
            let gpus = services[*at].gpus;
            if let Some(server) = self.cluster.tightest(gpus) {
                return Some(server);
            }
            let chosen =
                self.server_of_least(None, gpus, Preemptible::highest_of_all, |evictable| evictable.is_preemptible);
            if let Some((server, chosen)) = chosen {
                self.evict_all(&chosen, Why::EvictedFor(*at as u32), evicted);
                return Some(server);
            }
            *at += 1;
        }
    }

    /// Adds up what jobs held up to an instant, before anything changes.
    #[inline]
    pub(super) fn lend(&mut self, now: f64) {
        let Some(services) = &mut self.services else { return };
        let up = self.cluster.up_units();
        let held = up - self.cluster.idle_units();
        let left = (up + services.held).saturating_sub(services.largest);
        services.lent += held.saturating_sub(left) as f64 * (now - self.now);
    }

    /// Returns whether replicas begin and end as a log says.
    pub(crate) fn follows_replicas(&self) -> bool {
        self.services.as_ref().is_some_and(|services| services.follows)
    }

    /// Begins or ends the replica of a log row; a row with GPUs begins one. Otherwise returns why that is impossible.
    ///
    /// A replica whose server failed has ended already.
    pub(crate) fn follow_replica(&mut self, row: &Row) -> Result<(), String> {
        let (server, gpus, now) = (Server::new(row.server), row.num_gpus, self.now);
        let idle = self.cluster.idle(server);
        if gpus > idle {
            return Err(self.lacks(server, u64::from(idle), gpus));
        }
        let Some(services) = &mut self.services else { return Ok(()) };
        if row.cause == Cause::Drains {
            return Ok(());
        }
        let is_it = |other: &Running| (other.replica.service, other.replica.number) == (row.service, row.replica);
        match services.running.iter().position(is_it) {
            Some(at) if gpus == 0 => self.end_replica(at, ReplicaEnded::Surplus),
            None if gpus > 0 => {
                let at = row.service as usize;
                let known = services.services.len().max(at + 1);
                services.services.resize_with(known, Service::default);
                let service = &mut services.services[at];
                (service.gpus, service.started) = (gpus, row.replica);
                service.waiting.push_back((now, 1));
                self.start_replica(at, server);
            }
            Some(_) => return Err("that replica runs already".to_owned()),
            None => {}
        }
        Ok(())
    }

    /// A service wants so many replicas from now on.
    pub(super) fn want(&mut self, load: Load) {
        let Some(services) = &mut self.services else { return };
        let service = &mut services.services[load.service as usize];
        let (wanted, now) = (service.wanted(), self.now);
        if u64::from(load.replicas) >= wanted {
            if u64::from(load.replicas) > wanted {
                service.waiting.push_back((now, u64::from(load.replicas) - wanted));
            }
            return;
        }
        let mut surplus = wanted - u64::from(load.replicas);
        // Waiting replicas go first, those with the shortest wait before others: they would be the last to start.
        while surplus > 0
            && let Some((_, count)) = service.waiting.back_mut()
        {
            let fewer = u64::min(*count, surplus);
            *count -= fewer;
            surplus -= fewer;
            if *count == 0 {
                service.waiting.pop_back();
            }
        }
        if services.answering.is_some() {
            return self.drain_surplus(load.service, surplus);
        }
        for at in (0..services.running.len()).rev() {
            if surplus == 0 {
                break;
            }
            if self.services.as_ref().is_some_and(|services| services.running[at].replica.service == load.service) {
                self.end_replica(at, ReplicaEnded::Surplus);
                surplus -= 1;
            }
        }
    }

    /// Starts the waiting replica of a service with the longest wait.
    fn start_replica(&mut self, at: usize, server: Server) {
        let Some(services) = &mut self.services else { return };
        let holder = services.new_holder();
        let service = &mut services.services[at];
        let Some((wanted, count)) = service.waiting.front_mut() else { return };
        let (wanted, gpus) = (*wanted, service.gpus);
        *count -= 1;
        if *count == 0 {
            service.waiting.pop_front();
        }
        let number = service.started;
        service.running += 1;
        service.started = number.wrapping_add(1);
        services.held += u64::from(gpus);
        services.moves += 1;
        let startup = services.answering.as_ref().map_or(0.0, |answering| answering.startup(at));
        let replica = Replica {
            service: at as u32,
            number,
            server,
            wanted,
            start: self.now,
            serves_from: self.now + startup,
            drains_from: f64::NAN,
            end: f64::NAN,
            busy: 0.0,
            ended: ReplicaEnded::EndOfRun,
        };
        services.running.push(Running { replica, holder, drained: f64::INFINITY });
        if let Some(answering) = &mut services.answering {
            answering.place(&replica);
        }
        self.note(Row { num_gpus: gpus, ..replica.row(self.now) });
        self.cluster.hold(server, gpus, holder);
        self.close_room(server, gpus);
        if let Some(sleep) = &mut self.sleep {
            // A replica is there at once: it does not wait for the server that it wakes.
            sleep.take(&[(server, gpus)], Woken::ByService(at as u32), self.now, self.clock);
        }
    }

    /// Ends a running replica.
    pub(super) fn end_replica(&mut self, at: usize, ended: ReplicaEnded) {
        let Some(services) = &mut self.services else { return };
        let running = services.running.remove(at);
        let (mut replica, holder) = (running.replica, running.holder);
        let service = &mut services.services[replica.service as usize];
        service.running -= u64::from(!running.is_draining());
        services.moves += 1;
        services.held -= u64::from(service.gpus);
        services.free.push(holder);
        let gpus = service.gpus;
        let cause = if ended == ReplicaEnded::Failed { Cause::Failed } else { Cause::Surplus };
        (replica.end, replica.ended) = (self.now, ended);
        if let Some(answering) = &mut services.answering {
            answering.end(&mut replica);
        }
        if ended == ReplicaEnded::Surplus && !running.is_draining() {
            // It gives its GPUs back as it begins to drain.
            replica.drains_from = self.now;
        }
        self.note(Row { cause, ..replica.row(self.now) });
        self.cluster.let_go(replica.server, gpus, holder);
        if self.is_draining(replica.server) {
            self.note_drained(replica.server);
        } else {
            self.open_room(replica.server, gpus);
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.give_back(&[(replica.server, gpus)], self.now, self.clock);
        }
        self.out.serving.replicas.push(replica);
    }

    /// Ends the replicas on a server that goes down. Their services want others from now on.
    pub(super) fn fail_replicas(&mut self, server: Server) {
        let mut at = 0;
        while let Some(services) = &mut self.services
            && let Some(&Running { replica, drained, .. }) = services.running.get(at)
        {
            if replica.server != server {
                at += 1;
                continue;
            }
            if !services.follows && drained == f64::INFINITY {
                services.services[replica.service as usize].waiting.push_back((self.now, 1));
            }
            self.end_replica(at, ReplicaEnded::Failed);
        }
    }

    /// Returns the GPUs of a server that replicas hold.
    pub(super) fn replicas_on(&self, server: Server) -> u32 {
        let Some(services) = &self.services else { return 0 };
        let here = services.running.iter().map(|running| running.replica).filter(|replica| replica.server == server);
        here.map(|replica| services.services[replica.service as usize].gpus).sum()
    }

    /// Returns the results of the services of a finished run. Replicas still running end now.
    pub(super) fn serving(&mut self) -> Serving {
        let Some(mut services) = self.services.take() else { return Serving::default() };
        let mut serving = std::mem::take(&mut self.out.serving);
        let over = services.answering.as_ref().and_then(|answering| answering.over());
        let end = over.unwrap_or(self.now);
        for Running { mut replica, .. } in services.running {
            replica.end = end;
            if let Some(answering) = &mut services.answering {
                answering.end(&mut replica);
            }
            serving.replicas.push(replica);
            if let Some(sleep) = &mut self.sleep {
                sleep.give_back(&[(replica.server, 1)], end, self.clock);
            }
        }
        match services.answering {
            Some(answering) => answering.tell(&mut serving, end),
            None => serving.loads = services.loads,
        }
        serving.lent = services.lent;
        serving
    }
}
