//! Who must move, and who must go, so that a gang gets its GPUs: worked out on a copy of the servers.
//!
//! Invariant: a plan that is found can be carried out: its parts and homes are idle once its victims have left. For
//! example, a gang of 8 on servers of 8 takes the server whose jobs are cheapest to send away.

use crate::ids::{Job, Server, Slot};
use crate::machine::Floor;
use crate::speed::Speed;

/// Servers that are tried for one part of a gang, cheapest first.
const SERVERS_TRIED: usize = 3;

/// The jobs on the servers, and how long they have left.
pub(super) struct Residents<'a> {
    pub(super) on: &'a [Vec<Job>],
    pub(super) slot: &'a [Slot],
    /// s.
    pub(super) left: &'a [f64],
}

impl Residents<'_> {
    /// (server, GPUs) of a running job.
    fn parts<'f, S: Speed>(&self, floor: &'f Floor<'_, S>, job: Job) -> &'f [(Server, u32)] {
        &floor.stays[self.slot[job.index()].index()].parts
    }

    /// Seconds until completions alone leave a gang its GPUs: on one server, or so many empty servers.
    pub(super) fn until_free<S: Speed>(&self, floor: &Floor<'_, S>, num_gpus: u32) -> f64 {
        let cluster = &floor.cluster;
        if num_gpus > cluster.largest {
            let wanted = num_gpus.div_ceil(cluster.largest) as usize;
            let empty = |on: &Vec<Job>| on.iter().map(|job| self.left[job.index()]).fold(0.0, f64::max);
            let largest = self.on.iter().zip(&cluster.sizes).filter(|(_, size)| **size == cluster.largest);
            let mut times: Vec<f64> = largest.map(|(on, _)| empty(on)).collect();
            times.sort_unstable_by(f64::total_cmp);
            return times.get(wanted - 1).copied().unwrap_or(f64::INFINITY);
        }
        let mut least = f64::INFINITY;
        let mut ends: Vec<(f64, u32)> = Vec::new();
        for (server, on) in self.on.iter().enumerate().filter(|(server, _)| cluster.sizes[*server] >= num_gpus) {
            let server = Server::at(server);
            let part = |job: Job| self.parts(floor, job).iter().find(|part| part.0 == server).map_or(0, |part| part.1);
            ends.clear();
            ends.extend(on.iter().map(|&job| (self.left[job.index()], part(job))));
            least = f64::min(least, reached(&mut ends, u64::from(num_gpus), cluster.idle[server.index()].into()));
        }
        least
    }

    /// Seconds until the jobs that complete have released so many GPUs.
    pub(super) fn until_released<S: Speed>(&self, floor: &Floor<'_, S>, gpus: u64) -> f64 {
        let live = floor.stays.iter().filter(|stay| stay.is_live());
        let mut ends: Vec<(f64, u32)> = live.map(|stay| (self.left[stay.job.index()], floor.asks(stay.job))).collect();
        reached(&mut ends, gpus, 0)
    }
}

/// When GPUs that come free at those times add up to so many, beginning with `idle`.
fn reached(ends: &mut [(f64, u32)], wanted: u64, idle: u64) -> f64 {
    ends.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut free = idle;
    if free >= wanted {
        return 0.0;
    }
    for &(time, gpus) in ends.iter() {
        free += u64::from(gpus);
        if free >= wanted {
            return time;
        }
    }
    f64::INFINITY
}

/// Who asks for room.
pub(super) struct Asker {
    pub(super) num_gpus: u32,
    /// Run time left, s, with the pause of a job that runs again.
    pub(super) run: f64,
    /// The pause, s.
    pub(super) cost: f64,
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

/// A job that may leave a server.
#[derive(Clone, Copy)]
struct Victim {
    job: Job,
    /// GPUs that it gives back there, and in all.
    part: u32,
    num_gpus: u32,
    key: f64,
    movable: bool,
    evictable: bool,
}

/// Some victims: how many move, how many are evicted, and the GPUs of those.
#[derive(Clone, Copy, Debug, Default)]
struct Bill {
    moved: u32,
    evicted: u32,
    gpus: u32,
}

impl Bill {
    fn with(self, victim: &Victim) -> Self {
        if victim.movable {
            Self { moved: self.moved + 1, ..self }
        } else {
            Self { evicted: self.evicted + 1, gpus: self.gpus + victim.num_gpus, ..self }
        }
    }

    /// Seconds that it costs: a pause each, and the run of the asker for each that is evicted, a little more for larger
    /// ones.
    fn cost(self, asker: &Asker) -> f64 {
        let evictions = f64::from(self.evicted) + f64::from(self.gpus) / 1000.0;
        asker.cost * f64::from(self.moved) + (asker.cost + asker.run) * evictions
    }

    fn count(self) -> u32 {
        self.moved + self.evicted
    }
}

/// A server, its victims, and what they cost.
struct Offer {
    server: Server,
    victims: Vec<Victim>,
    cost: f64,
    count: u32,
    /// The greatest key among them.
    key: f64,
}

/// The servers as a plan would leave them.
#[derive(Clone)]
struct Scratch {
    idle: Vec<u32>,
    /// Servers by idle GPUs.
    with_idle: Vec<u32>,
    /// Servers that gave GPUs to the gang, or took in somebody who moved.
    taken: Vec<Server>,
    plan: Plan,
}

impl Scratch {
    fn set_idle(&mut self, server: Server, idle: u32) {
        let was = std::mem::replace(&mut self.idle[server.index()], idle);
        self.with_idle[was as usize] -= 1;
        self.with_idle[idle as usize] += 1;
    }

    /// Whether another server has that many idle GPUs.
    fn has_elsewhere(&self, server: Server, num_gpus: u32) -> bool {
        let servers: u32 = self.with_idle.get(num_gpus as usize..).map_or(0, |with| with.iter().sum());
        servers > u32::from(self.idle[server.index()] >= num_gpus)
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
    pub(super) fn find<S: Speed>(floor: &Floor<'_, S>, residents: &Residents<'_>, asker: &Asker) -> Option<Self> {
        let cluster = &floor.cluster;
        let mut with_idle = vec![0; cluster.largest as usize + 1];
        cluster.idle.iter().for_each(|&idle| with_idle[idle as usize] += 1);
        let mut scratch = Scratch { idle: cluster.idle.clone(), with_idle, taken: Vec::new(), plan: Self::default() };
        let (whole, rest) = (asker.num_gpus / cluster.largest, asker.num_gpus % cluster.largest);
        if asker.num_gpus <= cluster.largest {
            make_room(floor, residents, asker, &mut scratch, asker.num_gpus)?;
        } else {
            for _ in 0..whole {
                make_room(floor, residents, asker, &mut scratch, cluster.largest)?;
            }
            if rest > 0 {
                make_room(floor, residents, asker, &mut scratch, rest)?;
            }
        }
        Some(scratch.plan)
    }
}

/// Takes so many GPUs of the cheapest server for the gang, and sends its victims away.
fn make_room<S: Speed>(
    floor: &Floor<'_, S>,
    residents: &Residents<'_>,
    asker: &Asker,
    scratch: &mut Scratch,
    num_gpus: u32,
) -> Option<()> {
    let mut best: Vec<Offer> = Vec::new();
    for server in (0..floor.cluster.sizes.len()).map(Server::at) {
        if floor.cluster.sizes[server.index()] < num_gpus || scratch.taken.contains(&server) {
            continue;
        }
        let Some(offer) = offer(floor, residents, asker, scratch, server, num_gpus) else { continue };
        let worse = |other: &Offer| {
            let order = offer.cost.total_cmp(&other.cost).then(offer.count.cmp(&other.count));
            order.then(other.key.total_cmp(&offer.key)).is_lt()
        };
        let at = best.iter().position(worse).unwrap_or(best.len());
        if at < SERVERS_TRIED {
            best.insert(at, offer);
            best.truncate(SERVERS_TRIED);
        }
    }
    for offer in best {
        let mut tried = scratch.clone();
        if send_away(floor, residents, &mut tried, &offer, num_gpus) {
            *scratch = tried;
            return Some(());
        }
    }
    None
}

/// The cheapest jobs that a server must lose to have so many idle GPUs; none if they are not to be had.
fn offer<S: Speed>(
    floor: &Floor<'_, S>,
    residents: &Residents<'_>,
    asker: &Asker,
    scratch: &Scratch,
    server: Server,
    num_gpus: u32,
) -> Option<Offer> {
    let need = num_gpus.saturating_sub(scratch.idle[server.index()]);
    if need == 0 {
        return Some(Offer { server, victims: Vec::new(), cost: 0.0, count: 0, key: f64::NEG_INFINITY });
    }
    let limit = f64::from(asker.num_gpus) * asker.run;
    let mut victims = Vec::new();
    let mut most = 0;
    for &job in residents.on[server.index()].iter().filter(|&&job| !scratch.leaves(job)) {
        let parts = residents.parts(floor, job);
        let (num_gpus, left) = (floor.asks(job), residents.left[job.index()]);
        let movable = parts.len() == 1 && left > asker.cost && scratch.has_elsewhere(server, num_gpus);
        let evictable = f64::from(num_gpus) * f64::max(0.0, left - asker.cost) > limit;
        if movable || evictable {
            let part = parts.iter().find(|part| part.0 == server).map_or(0, |part| part.1);
            most += part;
            victims.push(Victim { job, part, num_gpus, key: f64::from(num_gpus) * left, movable, evictable });
        }
    }
    if most < need {
        return None;
    }
    // Greatest keys first, so that of equal bills the one with the greater keys is found.
    victims.sort_unstable_by(|a, b| b.key.total_cmp(&a.key).then(b.job.cmp(&a.job)));
    let chosen = cheapest(&victims, need as usize, asker)?;
    let bill = chosen.iter().fold(Bill::default(), |bill, &at| bill.with(&victims[at]));
    let victims: Vec<Victim> = chosen.into_iter().map(|at| victims[at]).collect();
    let key = victims.first().map_or(f64::NEG_INFINITY, |victim| victim.key);
    Some(Offer { server, cost: bill.cost(asker), count: bill.count(), key, victims })
}

/// The victims with the least bill that free `need` GPUs: the fewest of several, then those with the greater keys.
fn cheapest(victims: &[Victim], need: usize, asker: &Asker) -> Option<Vec<usize>> {
    // best[d]: the bill of the cheapest of the victims from here on that free d GPUs, and whether the first is one.
    let mut best: Vec<Option<Bill>> = vec![None; need + 1];
    best[0] = Some(Bill::default());
    let mut takes = vec![false; victims.len() * (need + 1)];
    for (at, victim) in victims.iter().enumerate().rev() {
        let mut next = best.clone();
        for free in 1..=need {
            let rest = free.saturating_sub(victim.part as usize);
            let Some(with) = best[rest].map(|bill| bill.with(victim)) else { continue };
            let better = best[free].is_none_or(|without| {
                let order = with.cost(asker).total_cmp(&without.cost(asker));
                order.then(with.count().cmp(&without.count())).is_le()
            });
            if better {
                next[free] = Some(with);
                takes[at * (need + 1) + free] = true;
            }
        }
        best = next;
    }
    best[need]?;
    let mut chosen = Vec::new();
    let mut free = need;
    for (at, victim) in victims.iter().enumerate() {
        if takes[at * (need + 1) + free] {
            chosen.push(at);
            free = free.saturating_sub(victim.part as usize);
        }
    }
    Some(chosen)
}

/// Puts the gang on the server, and its victims elsewhere: largest first, best fit. Whoever finds no home is evicted,
/// if that is allowed; otherwise the server will not do.
fn send_away<S: Speed>(
    floor: &Floor<'_, S>,
    residents: &Residents<'_>,
    scratch: &mut Scratch,
    offer: &Offer,
    num_gpus: u32,
) -> bool {
    for victim in &offer.victims {
        for &(server, count) in residents.parts(floor, victim.job) {
            scratch.set_idle(server, scratch.idle[server.index()] + count);
        }
    }
    scratch.set_idle(offer.server, scratch.idle[offer.server.index()] - num_gpus);
    scratch.taken.push(offer.server);
    scratch.plan.parts.push((offer.server, num_gpus));
    let mut victims: Vec<&Victim> = offer.victims.iter().collect();
    victims.sort_by_key(|victim| std::cmp::Reverse(victim.num_gpus));
    for victim in victims {
        let home = if victim.movable { scratch.best_fit(victim.num_gpus) } else { None };
        match home {
            Some(server) => {
                scratch.set_idle(server, scratch.idle[server.index()] - victim.num_gpus);
                scratch.taken.push(server);
                scratch.plan.moved.push((victim.job, server));
            }
            None if victim.evictable => scratch.plan.evicted.push(victim.job),
            None => return false,
        }
    }
    true
}
