//! Plans which jobs must move, and which must be evicted, so that a gang gets its GPUs, on a copy of the servers.
//!
//! Invariant: a plan that is found can be carried out: its parts and new servers are idle once its victims have left.
//! For example, a gang of 8 on servers of 8 takes the server whose jobs are cheapest to remove.

use super::class_queues::ClassQueues;
use super::run_times::RunTimes;
use super::server_index::ServerIndex;
use super::victims::{Candidates, Cost, Victim};
use crate::ids::{Job, Server};
use crate::machine::ClusterState;
use crate::speed::Speed;
use std::cmp::Ordering;

/// Costs are rounded: a bound distinguishes two that differ by more than this share.
const ROUNDING: f64 = 1e-9;

/// Servers that are tried for one part of a gang, cheapest first.
const SERVERS_TRIED: usize = 3;

/// The job that asks for room.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Requester {
    /// GPUs; a share asks for one.
    pub(super) num_gpus: u32,
    /// The same in units.
    pub(super) units: u32,
    /// The pool of the servers of which it may have some.
    pub(super) pool: usize,
    /// No job of a better priority class is evicted; any of a worse one may be, whatever the next two say.
    pub(super) priority_class: u32,
    /// Whether jobs differ in priority class.
    pub(super) has_classes: bool,
    /// The priority class from which on even protected jobs make room for it.
    pub(super) over_quota_from: u32,
    /// Run time left, s, with the pause of a job that runs again.
    pub(super) run: f64,
    /// GPUs that count x that time. An evicted job has more left, without a pause; not asked for urgent jobs.
    pub(super) work: f64,
    /// The greatest strain of any job that is evicted.
    pub(super) strain: f64,
    /// The pause, s.
    pub(super) cost: f64,
}

impl Requester {
    /// Compares the priority class of a job to its own.
    #[inline]
    fn against(&self, queues: &ClassQueues, job: Job) -> Ordering {
        if self.has_classes { queues.priority_class_of(job).cmp(&self.priority_class) } else { Ordering::Equal }
    }
}

/// Which jobs move where, and which are evicted.
#[derive(Clone, Debug, Default)]
pub(super) struct Relocation {
    /// (server, GPUs) of the gang.
    pub(super) parts: Vec<(Server, u32)>,
    pub(super) evicted: Vec<Job>,
    /// Jobs that move, and where to.
    pub(super) moved: Vec<(Job, Server)>,
}

/// A server, and what its victims cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    server: Server,
    cost: f64,
    count: u32,
    /// The greatest key among them.
    key: f64,
}

/// The servers as a plan would leave them.
#[derive(Clone, Debug, Default)]
pub(super) struct Scratch {
    idle: Vec<u32>,
    /// Servers by idle GPUs.
    with_idle: Vec<u32>,
    /// Servers that gave GPUs to the gang, or received a job that moved.
    taken: Vec<Server>,
    relocation: Relocation,
}

impl Scratch {
    /// Resets to the present state of the servers.
    fn begin(&mut self, idle: &[u32], largest: u32) {
        self.copy(&Self::default());
        self.idle.extend_from_slice(idle);
        self.with_idle.resize(largest as usize + 1, 0);
        idle.iter().for_each(|&idle| self.with_idle[idle as usize] += 1);
    }

    /// Copies all fields of another. It allocates nothing if there was room for it.
    fn copy(&mut self, other: &Self) {
        self.idle.clone_from(&other.idle);
        self.with_idle.clone_from(&other.with_idle);
        self.taken.clone_from(&other.taken);
        self.relocation.parts.clone_from(&other.relocation.parts);
        self.relocation.evicted.clone_from(&other.relocation.evicted);
        self.relocation.moved.clone_from(&other.relocation.moved);
    }

    fn set_idle(&mut self, server: Server, idle: u32) {
        let was = std::mem::replace(&mut self.idle[server.index()], idle);
        self.with_idle[was as usize] -= 1;
        self.with_idle[idle as usize] += 1;
    }

    /// Returns the server with the fewest idle GPUs that holds so many, the lowest of several.
    fn best_fit(&self, num_gpus: u32) -> Option<Server> {
        let from = num_gpus as usize;
        let idle = from + self.with_idle.get(from..)?.iter().position(|&servers| servers > 0)?;
        self.idle.iter().position(|&other| other as usize == idle).map(Server::at)
    }

    fn leaves(&self, job: Job) -> bool {
        self.relocation.evicted.contains(&job) || self.relocation.moved.iter().any(|moved| moved.0 == job)
    }
}

impl Relocation {
    /// Returns a plan for a gang that consolidate cannot place; none if no job that may be removed is in the way.
    pub(super) fn find<S: Speed, F: RunTimes>(
        state: &ClusterState<'_, S>,
        server_index: &mut ServerIndex<F>,
        requester: &Requester,
        candidates: &mut Candidates,
    ) -> Option<Self> {
        server_index.refresh(state);
        let cluster = state.cluster.pool(requester.pool);
        candidates.scratch.begin(&cluster.idle, cluster.largest);
        let (whole, rest) = (requester.num_gpus / cluster.largest, requester.num_gpus % cluster.largest);
        if requester.num_gpus <= cluster.largest {
            make_room(state, server_index, requester, candidates, requester.num_gpus)?;
        } else {
            for _ in 0..whole {
                make_room(state, server_index, requester, candidates, cluster.largest)?;
            }
            if rest > 0 {
                make_room(state, server_index, requester, candidates, rest)?;
            }
        }
        let mut relocation = std::mem::take(&mut candidates.scratch.relocation);
        let servers = relocation
            .parts
            .iter_mut()
            .map(|part| &mut part.0)
            .chain(relocation.moved.iter_mut().map(|moved| &mut moved.1));
        servers.for_each(|server| *server = state.cluster.member(requester.pool, *server));
        Some(relocation)
    }
}

/// Takes so many GPUs of the cheapest server for the gang, and removes its victims.
fn make_room<S: Speed, F: RunTimes>(
    state: &ClusterState<'_, S>,
    server_index: &mut ServerIndex<F>,
    requester: &Requester,
    candidates: &mut Candidates,
    num_gpus: u32,
) -> Option<()> {
    candidates.with_at_least.clone_from(&candidates.scratch.with_idle);
    for idle in (0..candidates.with_at_least.len() - 1).rev() {
        candidates.with_at_least[idle] += candidates.with_at_least[idle + 1];
    }
    let movable = candidates.with_at_least.iter().rposition(|&servers| servers > 0).unwrap_or(0) as u32;
    let (pool, cluster) = (requester.pool, state.cluster.pool(requester.pool));
    let mut least = server_index.take_least(pool, num_gpus, movable);
    candidates.offers.clear();
    for server in (0..cluster.sizes.len()).map(Server::at) {
        let idle = candidates.scratch.idle[server.index()];
        if cluster.sizes[server.index()] < num_gpus {
            continue;
        }
        // What is stored about the server does not reflect what the plan has already changed.
        if idle < num_gpus && idle == cluster.idle[server.index()] {
            let known = &mut least[server.index()];
            if known.version != server_index.version(pool, server) {
                *known = least_of(state, server_index, (pool, server), num_gpus - idle, movable, &mut candidates.sums);
            }
            let last = if candidates.offers.len() == SERVERS_TRIED { candidates.offers.last() } else { None };
            if !known.may_precede(last, *server_index.key(pool, server), requester) {
                continue;
            }
        }
        if candidates.scratch.taken.contains(&server) {
            continue;
        }
        let Some(offer) = offer(state, server_index, requester, candidates, server, num_gpus) else { continue };
        let worse = |other: &Offer| {
            let order = offer.cost.total_cmp(&other.cost).then(offer.count.cmp(&other.count));
            order.then(other.key.total_cmp(&offer.key)).is_lt()
        };
        let at = candidates.offers.iter().position(worse).unwrap_or(candidates.offers.len());
        if at < SERVERS_TRIED {
            candidates.offers.insert(at, offer);
            candidates.offers.truncate(SERVERS_TRIED);
        }
    }
    server_index.give_least(pool, num_gpus, movable, least);
    for at in 0..candidates.offers.len() {
        let server = candidates.offers[at].server;
        offer(state, server_index, requester, candidates, server, num_gpus)?;
        candidates.before.copy(&candidates.scratch);
        if send_away(state, server_index, candidates, (pool, server), num_gpus) {
            return Some(());
        }
        std::mem::swap(&mut candidates.before, &mut candidates.scratch);
    }
    None
}

/// The least it takes to free some GPUs of a server, if every job on it may be evicted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    /// The server's version for which this is true.
    version: u32,
    /// Least number of jobs that move if none is evicted; the greatest number if that is not enough.
    moves: u32,
    /// Least sums in thousandths, as in `Cost::thousandths`; the greatest numbers if all jobs are not enough.
    all: u32,
    evicted: u32,
    /// Whether one cost has both.
    is_one: bool,
}

impl Least {
    /// Returns whether an offer may rank before `last`. key: at least the greatest key of the server's jobs.
    #[inline]
    fn may_precede(&self, last: Option<&Offer>, key: f64, requester: &Requester) -> bool {
        let evicts = requester.has_classes || key > requester.work;
        if (if evicts { self.all } else { self.moves }) == u32::MAX {
            return false;
        }
        let Some(last) = last else { return true };
        let (all, evicted) = if evicts { (self.all, self.evicted) } else { (1000 * self.moves, 0) };
        let cost = (requester.cost * f64::from(all) + requester.run * f64::from(evicted)) / 1000.0;
        if cost * (1.0 - ROUNDING) > last.cost {
            return false;
        }
        if evicts && (!self.is_one || requester.cost == 0.0) {
            return true;
        }
        let total = Cost { moved: (all - evicted) / 1000, evicted: evicted / 1000, gpus: evicted % 1000 };
        let order = total.cost(requester).total_cmp(&last.cost).then(total.count().cmp(&last.count));
        order.then(last.key.total_cmp(&key)).is_lt()
    }
}

/// The least it takes to get some GPUs from the jobs examined so far; the greatest numbers if they are not enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sums {
    /// The least number that move.
    moves: u32,
    /// The least sums in thousandths, (of all, of the evicted ones): the first one first, and the second one first.
    stops: (u64, u64),
    evictions: (u64, u64),
}

impl Sums {
    const NOTHING: Self = Self { moves: 0, stops: (0, 0), evictions: (0, 0) };
    const NEVER: Self = Self { moves: u32::MAX, stops: (u64::MAX, u64::MAX), evictions: (u64::MAX, u64::MAX) };

    /// Adds another job, of so many thousandths, if that is less.
    fn lower(&mut self, rest: Self, moves_on: bool, (all, evicted): (u64, u64)) {
        if moves_on {
            self.moves = self.moves.min(rest.moves.saturating_add(1));
        }
        let plus =
            |(all, evicted): (u64, u64), by: (u64, u64)| (all.saturating_add(by.0), evicted.saturating_add(by.1));
        self.stops = self.stops.min(plus(rest.stops, (all, evicted)));
        self.evictions = self.evictions.min(plus(rest.evictions, (evicted, all)));
    }
}

/// Computes [`Least`]. movable: GPUs of the largest job for which there is room elsewhere.
fn least_of<S: Speed, F: RunTimes>(
    state: &ClusterState<'_, S>,
    server_index: &ServerIndex<F>,
    (pool, server): (usize, Server),
    need: u32,
    movable: u32,
    sums: &mut Vec<Sums>,
) -> Least {
    // By GPUs given back.
    sums.clear();
    sums.push(Sums::NOTHING);
    sums.resize(need as usize + 1, Sums::NEVER);
    let (mut gpus, mut others) = (0, server_index.on(pool, server).iter().map(|on| on.1).sum::<u32>());
    for &(job, part) in server_index.on(pool, server) {
        let asks = state.asks(job);
        let moves_on = asks <= movable && part == asks && server_index.gpu_of(job).is_none();
        let thousandths = Cost::of_one(asks, moves_on).thousandths();
        gpus += asks;
        others -= part;
        // What the remaining jobs give back need not come from those examined so far.
        for free in (need.saturating_sub(others).max(1)..=need).rev() {
            let rest = sums[free.saturating_sub(part) as usize];
            sums[free as usize].lower(rest, moves_on, thousandths);
        }
    }
    let Sums { moves, stops, evictions } = sums[need as usize];
    let number = |sum: u64| if sum == u64::MAX { u32::MAX } else { u32::try_from(sum).unwrap_or(u32::MAX - 1) };
    Least {
        version: server_index.version(pool, server),
        moves,
        all: number(stops.0),
        evicted: number(evictions.0),
        // With fewer GPUs in all, thousandths determine how many jobs there are, and of how many GPUs.
        is_one: gpus < 1000 && stops.0 < u64::MAX && evictions == (stops.1, stops.0),
    }
}

/// Finds the cheapest jobs that a server must lose to have so many idle GPUs, left in `candidates.victims`; none if
/// that is impossible.
fn offer<S: Speed, F: RunTimes>(
    state: &ClusterState<'_, S>,
    server_index: &mut ServerIndex<F>,
    requester: &Requester,
    candidates: &mut Candidates,
    server: Server,
    num_gpus: u32,
) -> Option<Offer> {
    let idle = candidates.scratch.idle[server.index()];
    let need = num_gpus.saturating_sub(idle);
    candidates.victims.clear();
    candidates.shares.clear();
    if need == 0 {
        return Some(Offer { server, cost: 0.0, count: 0, key: f64::NEG_INFINITY });
    }
    let (mut most, mut greatest) = (0, 0.0);
    for at in 0..server_index.on(requester.pool, server).len() {
        let (job, part) = server_index.on(requester.pool, server)[at];
        if candidates.scratch.leaves(job) {
            greatest = f64::INFINITY;
            continue;
        }
        let (num_gpus, left) = (state.asks(job), server_index.left(state, job));
        let (units, gpu) = (state.units(job), server_index.gpu_of(job));
        let weight = server_index.run_times.counted_gpus(units);
        let key = weight * left;
        greatest = f64::max(greatest, key);
        let stays = server_index.is_on_draining(state, job)
            || server_index.is_protected(state, job)
                && server_index.run_times.queues().priority_class_of(job) < requester.over_quota_from;
        let run = f64::max(0.0, left - requester.cost);
        let wanted =
            |server_index: &ServerIndex<F>| server_index.strains.wanted(requester.pool, requester.units, units);
        let behind = |server_index: &ServerIndex<F>| {
            weight * run > requester.work
                && server_index.strain(state, job) <= requester.strain
                && f64::min(weight, wanted(server_index)) * run > requester.work
        };
        let evictable = match requester.against(server_index.run_times.queues(), job) {
            _ if stays => false,
            Ordering::Less => false,
            Ordering::Equal => behind(server_index),
            Ordering::Greater => true,
        };
        let elsewhere = || {
            let servers = candidates.with_at_least.get(num_gpus as usize).copied().unwrap_or(0);
            servers > u32::from(idle >= num_gpus)
        };
        if gpu.is_some() {
            candidates.shares.push(Victim { job, jobs: 1, gpu, part: 1, num_gpus, key, movable: false, evictable });
            continue;
        }
        let movable = !stays && left > requester.cost && part == num_gpus && elsewhere();
        if movable || evictable {
            most += part;
            candidates.victims.push(Victim { job, jobs: 1, gpu, part, num_gpus, key, movable, evictable });
        }
    }
    if !candidates.shares.is_empty() {
        most += candidates.gather_shares();
    }
    let key = server_index.key(requester.pool, server);
    *key = f64::min(*key, greatest);
    if most < need {
        return None;
    }
    // Greatest keys first, so that of equal costs the one with the greater keys is found.
    candidates.victims.sort_unstable_by(|a, b| b.key.total_cmp(&a.key).then(b.job.cmp(&a.job)));
    let total = candidates.keep_cheapest(need as usize, requester)?;
    let key = candidates.victims.first().map_or(f64::NEG_INFINITY, |victim| victim.key);
    Some(Offer { server, cost: total.cost(requester), count: total.count(), key })
}

/// Puts the gang on the server, and its victims elsewhere: largest first, best fit. A victim that fits nowhere is
/// evicted, if that is allowed; otherwise the server is unsuitable.
fn send_away<S: Speed, F: RunTimes>(
    state: &ClusterState<'_, S>,
    server_index: &ServerIndex<F>,
    Candidates { scratch, victims, .. }: &mut Candidates,
    (pool, to): (usize, Server),
    num_gpus: u32,
) -> bool {
    for victim in victims.iter() {
        for &(server, count) in server_index.parts(state, victim.job) {
            let (_, server) = state.cluster.place(server);
            scratch.set_idle(server, scratch.idle[server.index()] + count);
        }
    }
    scratch.set_idle(to, scratch.idle[to.index()] - num_gpus);
    scratch.taken.push(to);
    scratch.relocation.parts.push((to, num_gpus));
    victims.sort_by_key(|victim| std::cmp::Reverse(victim.num_gpus));
    for victim in victims {
        let home = if victim.movable { scratch.best_fit(victim.num_gpus) } else { None };
        match home {
            Some(server) => {
                scratch.set_idle(server, scratch.idle[server.index()] - victim.num_gpus);
                scratch.taken.push(server);
                scratch.relocation.moved.push((victim.job, server));
            }
            None if victim.gpu.is_some() => {
                let own = server_index.on(pool, to).iter().filter(|on| server_index.gpu_of(on.0) == victim.gpu);
                scratch.relocation.evicted.extend(own.map(|on| on.0));
            }
            None if victim.evictable => scratch.relocation.evicted.push(victim.job),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Least, Offer, Requester};
    use crate::ids::Server;

    #[test]
    fn sums_of_several_costs_are_no_cost() {
        let requester = |cost: f64| Requester {
            num_gpus: 1,
            units: 1,
            pool: 0,
            priority_class: 0,
            has_classes: false,
            over_quota_from: u32::MAX,
            run: 100.0,
            work: 5.0,
            cost,
            strain: 8.0,
        };
        let least = |is_one: bool| Least { version: 0, moves: u32::MAX, all: 1001, evicted: 1001, is_one };
        // The least it takes is what the last offer takes: one job of one GPU, of the same key.
        let may = |is_one: bool, cost: f64, more: f64| {
            let last = Offer { server: Server::at(0), cost: (cost + 100.0) * 1.001 + more, count: 1, key: 6.0 };
            least(is_one).may_precede(Some(&last), 6.0, &requester(cost))
        };
        assert!(!may(true, 10.0, 0.0) && may(true, 10.0, 1.0) && !may(true, 10.0, -1.0));
        assert!(may(false, 10.0, 0.0) && !may(false, 10.0, -1.0));
        assert!(may(true, 0.0, 0.0));
    }
}
