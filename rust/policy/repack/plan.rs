//! Who must move, and who must go, so that a gang gets its GPUs: worked out on a copy of the servers.
//!
//! Invariant: a plan that is found can be carried out: its parts and homes are idle once its victims have left. For
//! example, a gang of 8 on servers of 8 takes the server whose jobs are cheapest to send away.

use super::bench::{Bench, Bill, Victim};
use super::foresight::Foresight;
use super::line::Lines;
use super::residents::Residents;
use crate::ids::{Job, Server};
use crate::machine::Floor;
use crate::speed::Speed;
use std::cmp::Ordering;

/// Costs are rounded: a bound tells two apart that differ by more than this share.
const ROUNDING: f64 = 1e-9;

/// Servers that are tried for one part of a gang, cheapest first.
const SERVERS_TRIED: usize = 3;

/// Who asks for room.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Asker {
    /// GPUs; a share asks for one.
    pub(super) num_gpus: u32,
    /// The same in units.
    pub(super) units: u32,
    /// The pool of the servers of which it may have some.
    pub(super) pool: usize,
    /// Nobody of a lower grade is evicted, and whoever is of a higher one whatever the next two say.
    pub(super) grade: u32,
    /// Whether jobs differ in grade.
    pub(super) graded: bool,
    /// From which grade on the protected give way to it all the same.
    pub(super) guests_from: u32,
    /// Run time left, s, with the pause of a job that runs again.
    pub(super) run: f64,
    /// GPUs that count x that time. Whoever is evicted has more left, without a pause; whoever is urgent does not ask.
    pub(super) work: f64,
    /// The greatest strain of anybody who is evicted.
    pub(super) strain: f64,
    /// The pause, s.
    pub(super) cost: f64,
}

impl Asker {
    /// How the grade of a job is beside its own.
    #[inline]
    fn against(&self, lines: &Lines, job: Job) -> Ordering {
        if self.graded { lines.grade_of(job).cmp(&self.grade) } else { Ordering::Equal }
    }
}

/// What happens to whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
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
    /// Servers that gave GPUs to the gang, or took in somebody who moved.
    taken: Vec<Server>,
    plan: Plan,
}

impl Scratch {
    /// The servers as they are.
    fn begin(&mut self, idle: &[u32], largest: u32) {
        self.copy(&Self::default());
        self.idle.extend_from_slice(idle);
        self.with_idle.resize(largest as usize + 1, 0);
        idle.iter().for_each(|&idle| self.with_idle[idle as usize] += 1);
    }

    /// All that another has. It allocates nothing where there was room for it.
    fn copy(&mut self, other: &Self) {
        self.idle.clone_from(&other.idle);
        self.with_idle.clone_from(&other.with_idle);
        self.taken.clone_from(&other.taken);
        self.plan.parts.clone_from(&other.plan.parts);
        self.plan.evicted.clone_from(&other.plan.evicted);
        self.plan.moved.clone_from(&other.plan.moved);
    }

    fn set_idle(&mut self, server: Server, idle: u32) {
        let was = std::mem::replace(&mut self.idle[server.index()], idle);
        self.with_idle[was as usize] -= 1;
        self.with_idle[idle as usize] += 1;
    }

    /// The server with the fewest idle GPUs that holds so many, the lowest of several.
    fn best_fit(&self, num_gpus: u32) -> Option<Server> {
        let from = num_gpus as usize;
        let idle = from + self.with_idle.get(from..)?.iter().position(|&servers| servers > 0)?;
        self.idle.iter().position(|&other| other as usize == idle).map(Server::at)
    }

    fn leaves(&self, job: Job) -> bool {
        self.plan.evicted.contains(&job) || self.plan.moved.iter().any(|moved| moved.0 == job)
    }
}

impl Plan {
    /// A plan for a gang that consolidate cannot place; none if nobody who may be sent away is in the way.
    pub(super) fn find<S: Speed, F: Foresight>(
        floor: &Floor<'_, S>,
        residents: &mut Residents<F>,
        asker: &Asker,
        bench: &mut Bench,
    ) -> Option<Self> {
        residents.refresh(floor);
        let cluster = floor.cluster.pool(asker.pool);
        bench.scratch.begin(&cluster.idle, cluster.largest);
        let (whole, rest) = (asker.num_gpus / cluster.largest, asker.num_gpus % cluster.largest);
        if asker.num_gpus <= cluster.largest {
            make_room(floor, residents, asker, bench, asker.num_gpus)?;
        } else {
            for _ in 0..whole {
                make_room(floor, residents, asker, bench, cluster.largest)?;
            }
            if rest > 0 {
                make_room(floor, residents, asker, bench, rest)?;
            }
        }
        let mut plan = std::mem::take(&mut bench.scratch.plan);
        let servers =
            plan.parts.iter_mut().map(|part| &mut part.0).chain(plan.moved.iter_mut().map(|moved| &mut moved.1));
        servers.for_each(|server| *server = floor.cluster.member(asker.pool, *server));
        Some(plan)
    }
}

/// Takes so many GPUs of the cheapest server for the gang, and sends its victims away.
fn make_room<S: Speed, F: Foresight>(
    floor: &Floor<'_, S>,
    residents: &mut Residents<F>,
    asker: &Asker,
    bench: &mut Bench,
    num_gpus: u32,
) -> Option<()> {
    bench.with_at_least.clone_from(&bench.scratch.with_idle);
    for idle in (0..bench.with_at_least.len() - 1).rev() {
        bench.with_at_least[idle] += bench.with_at_least[idle + 1];
    }
    let movable = bench.with_at_least.iter().rposition(|&servers| servers > 0).unwrap_or(0) as u32;
    let (pool, cluster) = (asker.pool, floor.cluster.pool(asker.pool));
    let mut least = residents.take_least(pool, num_gpus, movable);
    bench.offers.clear();
    for server in (0..cluster.sizes.len()).map(Server::at) {
        let idle = bench.scratch.idle[server.index()];
        if cluster.sizes[server.index()] < num_gpus {
            continue;
        }
        // What the plan has changed already is not what is known of the server.
        if idle < num_gpus && idle == cluster.idle[server.index()] {
            let known = &mut least[server.index()];
            if known.version != residents.version(pool, server) {
                *known = least_of(floor, residents, (pool, server), num_gpus - idle, movable, &mut bench.sums);
            }
            let last = if bench.offers.len() == SERVERS_TRIED { bench.offers.last() } else { None };
            if !known.may_precede(last, *residents.key(pool, server), asker) {
                continue;
            }
        }
        if bench.scratch.taken.contains(&server) {
            continue;
        }
        let Some(offer) = offer(floor, residents, asker, bench, server, num_gpus) else { continue };
        let worse = |other: &Offer| {
            let order = offer.cost.total_cmp(&other.cost).then(offer.count.cmp(&other.count));
            order.then(other.key.total_cmp(&offer.key)).is_lt()
        };
        let at = bench.offers.iter().position(worse).unwrap_or(bench.offers.len());
        if at < SERVERS_TRIED {
            bench.offers.insert(at, offer);
            bench.offers.truncate(SERVERS_TRIED);
        }
    }
    residents.give_least(pool, num_gpus, movable, least);
    for at in 0..bench.offers.len() {
        let server = bench.offers[at].server;
        offer(floor, residents, asker, bench, server, num_gpus)?;
        bench.before.copy(&bench.scratch);
        if send_away(floor, residents, bench, (pool, server), num_gpus) {
            return Some(());
        }
        std::mem::swap(&mut bench.before, &mut bench.scratch);
    }
    None
}

/// What it takes at least to free some GPUs of a server, if every resident may be evicted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Least {
    /// The server's version that this is true of.
    version: u32,
    /// Least number of jobs that move where none is evicted; the greatest number where that is not enough.
    moves: u32,
    /// Least sums in thousandths, as `Bill::thousandths` has them; the greatest numbers where all jobs are not enough.
    all: u32,
    evicted: u32,
    /// Whether one bill has both.
    is_one: bool,
}

impl Least {
    /// Whether an offer may rank before `last`. key: at least the greatest key of the server's jobs.
    #[inline]
    fn may_precede(&self, last: Option<&Offer>, key: f64, asker: &Asker) -> bool {
        let evicts = asker.graded || key > asker.work;
        if (if evicts { self.all } else { self.moves }) == u32::MAX {
            return false;
        }
        let Some(last) = last else { return true };
        let (all, evicted) = if evicts { (self.all, self.evicted) } else { (1000 * self.moves, 0) };
        let cost = (asker.cost * f64::from(all) + asker.run * f64::from(evicted)) / 1000.0;
        if cost * (1.0 - ROUNDING) > last.cost {
            return false;
        }
        if evicts && (!self.is_one || asker.cost == 0.0) {
            return true;
        }
        let bill = Bill { moved: (all - evicted) / 1000, evicted: evicted / 1000, gpus: evicted % 1000 };
        let order = bill.cost(asker).total_cmp(&last.cost).then(bill.count().cmp(&last.count));
        order.then(last.key.total_cmp(&key)).is_lt()
    }
}

/// What it takes at least to have some GPUs of the jobs looked at; the greatest numbers where they are not enough.
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

    /// With another job, of so many thousandths, if that is less.
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

/// movable: GPUs of the largest job for which there is room elsewhere.
fn least_of<S: Speed, F: Foresight>(
    floor: &Floor<'_, S>,
    residents: &Residents<F>,
    (pool, server): (usize, Server),
    need: u32,
    movable: u32,
    sums: &mut Vec<Sums>,
) -> Least {
    // By GPUs given back.
    sums.clear();
    sums.push(Sums::NOTHING);
    sums.resize(need as usize + 1, Sums::NEVER);
    let (mut gpus, mut others) = (0, residents.on(pool, server).iter().map(|on| on.1).sum::<u32>());
    for &(job, part) in residents.on(pool, server) {
        let asks = floor.asks(job);
        let moves_on = asks <= movable && part == asks && residents.gpu_of(job).is_none();
        let thousandths = Bill::of_one(asks, moves_on).thousandths();
        gpus += asks;
        others -= part;
        // What all jobs that are still to come give back need not be had of those that are looked at.
        for free in (need.saturating_sub(others).max(1)..=need).rev() {
            let rest = sums[free.saturating_sub(part) as usize];
            sums[free as usize].lower(rest, moves_on, thousandths);
        }
    }
    let Sums { moves, stops, evictions } = sums[need as usize];
    let number = |sum: u64| if sum == u64::MAX { u32::MAX } else { u32::try_from(sum).unwrap_or(u32::MAX - 1) };
    Least {
        version: residents.version(pool, server),
        moves,
        all: number(stops.0),
        evicted: number(evictions.0),
        // With fewer GPUs in all, thousandths tell how many jobs there are, and of how many GPUs.
        is_one: gpus < 1000 && stops.0 < u64::MAX && evictions == (stops.1, stops.0),
    }
}

/// The cheapest jobs that a server must lose to have so many idle GPUs, left in `bench.victims`; none if they are not to
/// be had.
fn offer<S: Speed, F: Foresight>(
    floor: &Floor<'_, S>,
    residents: &mut Residents<F>,
    asker: &Asker,
    bench: &mut Bench,
    server: Server,
    num_gpus: u32,
) -> Option<Offer> {
    let idle = bench.scratch.idle[server.index()];
    let need = num_gpus.saturating_sub(idle);
    bench.victims.clear();
    bench.shares.clear();
    if need == 0 {
        return Some(Offer { server, cost: 0.0, count: 0, key: f64::NEG_INFINITY });
    }
    let (mut most, mut greatest) = (0, 0.0);
    for at in 0..residents.on(asker.pool, server).len() {
        let (job, part) = residents.on(asker.pool, server)[at];
        if bench.scratch.leaves(job) {
            greatest = f64::INFINITY;
            continue;
        }
        let (num_gpus, left) = (floor.asks(job), residents.left(floor, job));
        let (units, gpu) = (floor.units(job), residents.gpu_of(job));
        let weight = residents.foresight.weight(units);
        let key = weight * left;
        greatest = f64::max(greatest, key);
        let stays = residents.is_protected(floor, job) && residents.foresight.lines().grade_of(job) < asker.guests_from;
        let run = f64::max(0.0, left - asker.cost);
        let wanted = |residents: &Residents<F>| residents.strains.wanted(asker.pool, asker.units, units);
        let behind = |residents: &Residents<F>| {
            weight * run > asker.work
                && residents.strain(floor, job) <= asker.strain
                && f64::min(weight, wanted(residents)) * run > asker.work
        };
        let evictable = match asker.against(residents.foresight.lines(), job) {
            _ if stays => false,
            Ordering::Less => false,
            Ordering::Equal => behind(residents),
            Ordering::Greater => true,
        };
        let elsewhere = || {
            let servers = bench.with_at_least.get(num_gpus as usize).copied().unwrap_or(0);
            servers > u32::from(idle >= num_gpus)
        };
        if gpu.is_some() {
            bench.shares.push(Victim { job, jobs: 1, gpu, part: 1, num_gpus, key, movable: false, evictable });
            continue;
        }
        let movable = !stays && left > asker.cost && part == num_gpus && elsewhere();
        if movable || evictable {
            most += part;
            bench.victims.push(Victim { job, jobs: 1, gpu, part, num_gpus, key, movable, evictable });
        }
    }
    if !bench.shares.is_empty() {
        most += bench.gather_shares();
    }
    let key = residents.key(asker.pool, server);
    *key = f64::min(*key, greatest);
    if most < need {
        return None;
    }
    // Greatest keys first, so that of equal bills the one with the greater keys is found.
    bench.victims.sort_unstable_by(|a, b| b.key.total_cmp(&a.key).then(b.job.cmp(&a.job)));
    let bill = bench.keep_cheapest(need as usize, asker)?;
    let key = bench.victims.first().map_or(f64::NEG_INFINITY, |victim| victim.key);
    Some(Offer { server, cost: bill.cost(asker), count: bill.count(), key })
}

/// Puts the gang on the server, and its victims elsewhere: largest first, best fit. Whoever finds no home is evicted,
/// if that is allowed; otherwise the server will not do.
fn send_away<S: Speed, F: Foresight>(
    floor: &Floor<'_, S>,
    residents: &Residents<F>,
    Bench { scratch, victims, .. }: &mut Bench,
    (pool, to): (usize, Server),
    num_gpus: u32,
) -> bool {
    for victim in victims.iter() {
        for &(server, count) in residents.parts(floor, victim.job) {
            let (_, server) = floor.cluster.place(server);
            scratch.set_idle(server, scratch.idle[server.index()] + count);
        }
    }
    scratch.set_idle(to, scratch.idle[to.index()] - num_gpus);
    scratch.taken.push(to);
    scratch.plan.parts.push((to, num_gpus));
    victims.sort_by_key(|victim| std::cmp::Reverse(victim.num_gpus));
    for victim in victims {
        let home = if victim.movable { scratch.best_fit(victim.num_gpus) } else { None };
        match home {
            Some(server) => {
                scratch.set_idle(server, scratch.idle[server.index()] - victim.num_gpus);
                scratch.taken.push(server);
                scratch.plan.moved.push((victim.job, server));
            }
            None if victim.gpu.is_some() => {
                let own = residents.on(pool, to).iter().filter(|on| residents.gpu_of(on.0) == victim.gpu);
                scratch.plan.evicted.extend(own.map(|on| on.0));
            }
            None if victim.evictable => scratch.plan.evicted.push(victim.job),
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::{Asker, Least, Offer};
    use crate::ids::Server;

    #[test]
    fn sums_of_several_bills_are_no_bill() {
        let asker = |cost: f64| Asker {
            num_gpus: 1,
            units: 1,
            pool: 0,
            grade: 0,
            graded: false,
            guests_from: u32::MAX,
            run: 100.0,
            work: 5.0,
            cost,
            strain: 8.0,
        };
        let least = |is_one: bool| Least { version: 0, moves: u32::MAX, all: 1001, evicted: 1001, is_one };
        // What it takes at least is what the last offer takes: one job of one GPU, of the same key.
        let may = |is_one: bool, cost: f64, more: f64| {
            let last = Offer { server: Server::at(0), cost: (cost + 100.0) * 1.001 + more, count: 1, key: 6.0 };
            least(is_one).may_precede(Some(&last), 6.0, &asker(cost))
        };
        assert!(!may(true, 10.0, 0.0) && may(true, 10.0, 1.0) && !may(true, 10.0, -1.0));
        assert!(may(false, 10.0, 0.0) && !may(false, 10.0, -1.0));
        assert!(may(true, 0.0, 0.0));
    }
}
