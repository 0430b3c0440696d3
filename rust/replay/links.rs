//! Computes what the uplinks of a network of tiers carried, from the stays that spanned (docs/tiers.md#results).
//!
//! The stays are run through once more, without a queue: each joins and leaves the links that it crosses, and pauses in
//! between. Invariant: after each instant the rate of every stay is what its links leave it then. For example, a job
//! that sends 1e9 bytes in iterations of 2 s has 0.5e9 bytes/s on each uplink that it crosses, and none while it pauses.

use super::parts::Part;
use crate::cluster::Network;
use crate::ds::EventHeap;
use crate::ids::Slot;
use crate::machine::{Clock, Rest, Saves, checkpoint_length};
use crate::options::{Model, Options, Sharing};
use crate::outcome::{Busiest, LinkLog, LinkRow, Links, Spanned};
use crate::speed::{Fabric, Ring, thousandths};
use crate::trace::Jobs;

/// Mean loads that differ by no more than this part of the greatest are equal: they are sums.
const EVEN: f64 = 1e-9;

/// Parts of a byte/s in which rates are summed up, so that what comes and goes leaves nothing behind.
const GRAINS: f64 = (1_u64 << 50) as f64;

/// A stay that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Its place in the log.
    at: u32,
    ring: Option<Ring>,
    servers: u32,
    pauses: bool,
    /// Its next pause or its end: from when, until when.
    saves: Saves,
    next: (f64, f64),
    /// The GPUs that its uplinks idle, since an instant.
    idles: f64,
    /// The tier of the uplink that leaves it the least.
    tier: usize,
    since: f64,
}

/// What an uplink carries.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Bytes up to an instant (s), the bytes/s from then on, and the most.
    bytes: f64,
    since: f64,
    rate: f64,
    most: f64,
    /// The sum of its members' rates now, exact: in `GRAINS`.
    sum: i128,
    /// Jobs, flows and bytes/s at the latest sample.
    told: (u32, u64, f64),
    /// Whether it may differ from the latest sample, and whether it does so at this instant.
    is_new: bool,
    is_newest: bool,
}

/// The uplinks of one virtual cluster, or of the cluster.
struct Sweep<'a> {
    log: &'a LinkLog,
    jobs: &'a Jobs<'a>,
    rows: &'a [u32],
    number: u32,
    clock: Clock,
    /// The length of a checkpoint; `None` where they take no time.
    saving: Option<Rest>,
    network: Network,
    fabric: Box<Fabric>,
    /// The uplinks of each tier.
    tiers: Vec<std::ops::Range<usize>>,
    running: Vec<Running>,
    /// What each of them sends, bytes/s.
    rates: Vec<f64>,
    free: Vec<Slot>,
    /// When stays that run begin or end a pause.
    pauses: EventHeap,
    loads: Vec<Load>,
    /// Uplinks that may differ from the latest sample, and those that do so at this instant.
    new: Vec<u32>,
    newest: Vec<u32>,
    lost: Vec<f64>,
    dirty: Vec<Slot>,
    found: Vec<LinkRow>,
    crossing: Vec<(u32, f64)>,
}

/// Sums up the uplinks of all parts. `times`: the samples. `first`, `last`: the first start and the last finish.
pub(super) fn links(
    jobs: &Jobs<'_>,
    parts: &[Part],
    logs: &[LinkLog],
    options: &Options,
    times: &[f64],
    (first, last): (f64, f64),
) -> Option<Links> {
    if !logs.iter().any(|log| log.is_kept) {
        return None;
    }
    let mut links = Links::default();
    let length = last - first;
    let mut best = Vec::new();
    for (number, (part, log)) in parts.iter().zip(logs).enumerate() {
        let Some(mut sweep) = Sweep::new(jobs, part, log, options, number as u32) else { continue };
        sweep.run(times);
        links.rows.append(&mut sweep.found);
        links.tiers.resize(sweep.tiers.len(), Busiest::default());
        best.resize(sweep.tiers.len(), Vec::new());
        for (tier, range) in sweep.tiers.iter().enumerate() {
            links.tiers[tier].gpu_hours_lost += sweep.lost[tier] / 3600.0;
            let bandwidth = part.tiers[tier].bandwidth;
            let share = |bytes: f64| if length > 0.0 { bytes / (bandwidth * length) } else { 0.0 };
            let loads = sweep.loads[range.clone()].iter().enumerate();
            best[tier].extend(loads.map(|(group, load)| Busiest {
                vc: number as u32,
                group: group as u32,
                mean_share: share(load.bytes),
                largest_share: load.most / bandwidth,
                gpu_hours_lost: 0.0,
            }));
        }
    }
    for (tier, all) in links.tiers.iter_mut().zip(&best) {
        let most = all.iter().map(|own| own.mean_share).fold(0.0, f64::max);
        if let Some(busiest) = all.iter().find(|own| own.mean_share >= most * (1.0 - EVEN)) {
            *tier = Busiest { gpu_hours_lost: tier.gpu_hours_lost, ..*busiest };
        }
    }
    // Parts are in order, and so are the rows of each.
    links.rows.sort_by(|a, b| a.time.total_cmp(&b.time));
    Some(links)
}

impl<'a> Sweep<'a> {
    fn new(jobs: &'a Jobs<'a>, part: &'a Part, log: &'a LinkLog, options: &Options, number: u32) -> Option<Self> {
        let off = options.sharing == Sharing::Off;
        let network = if off { part.network.clone().without_contention() } else { part.network.clone() };
        let coupled = options.model == Model::Rar;
        let fabric = Fabric::new(&network, &part.tiers, part.servers.len(), coupled, jobs.intensity.is_some())?;
        let tiers = fabric.uplink_ranges();
        let clock = Clock::new(options);
        let (before, links) = (tiers.first()?.start, tiers.last()?.end);
        Some(Self {
            log,
            jobs,
            rows: &part.rows,
            number,
            saving: checkpoint_length(options, clock, log.rests_to_the_second),
            clock,
            network,
            fabric,
            lost: vec![0.0; tiers.len()],
            loads: vec![Load::default(); links],
            tiers,
            running: Vec::new(),
            rates: Vec::new(),
            free: Vec::new(),
            pauses: EventHeap::default(),
            new: Vec::new(),
            newest: Vec::new(),
            dirty: Vec::new(),
            found: Vec::new(),
            crossing: Vec::with_capacity(before.min(64)),
        })
    }

    fn run(&mut self, times: &[f64]) {
        let log = self.log;
        let lasts = |&at: &u32| log.stays[at as usize].1.end > log.stays[at as usize].1.start;
        let ends: Vec<u32> = (0..log.stays.len() as u32).filter(lasts).collect();
        let mut starts = ends.clone();
        starts.sort_by(|&a, &b| log.stays[a as usize].1.start.total_cmp(&log.stays[b as usize].1.start));
        let mut slots = vec![Slot::new(u32::MAX); log.stays.len()];
        let (mut starts, mut ends) = (starts.into_iter().peekable(), ends.into_iter().peekable());
        let mut sample = 0;
        loop {
            let start = starts.peek().map_or(f64::INFINITY, |&at| log.stays[at as usize].1.start);
            let end = ends.peek().map_or(f64::INFINITY, |&at| log.stays[at as usize].1.end);
            let now = start.min(end).min(self.pauses.peek().map_or(f64::INFINITY, |next| next.0));
            let until = times[sample..].partition_point(|&time| time < self.clock.seconds(now)) + sample;
            if until > sample {
                self.tell(times[sample]);
                sample = until;
            }
            if now == f64::INFINITY {
                return;
            }
            while let Some(at) = ends.next_if(|&at| log.stays[at as usize].1.end == now) {
                self.leave(slots[at as usize], now);
            }
            while let Some(at) = starts.next_if(|&at| log.stays[at as usize].1.start == now) {
                slots[at as usize] = self.join(at, now);
            }
            while let Some((_, slot)) = self.pauses.peek().filter(|next| next.0 <= now) {
                self.turn(Slot::new(slot));
            }
            self.settle(now);
        }
    }

    fn join(&mut self, at: u32, now: f64) -> Slot {
        let (job, stay) = self.log.stays[at as usize];
        let slot = self.free.pop().unwrap_or(Slot::at(self.running.len()));
        let row = self.rows[job.index()] as usize;
        let intensity = self.jobs.intensity.map_or(1.0, |intensity| intensity[row]);
        self.fabric.join(slot, self.log.parts(at as usize), thousandths(intensity));
        let pauses = stay.from > stay.start;
        let mut own = Running {
            at,
            ring: stay.ring,
            servers: self.log.parts(at as usize).len() as u32,
            pauses,
            saves: Saves::from(stay.from, stay.every, 0.0, self.clock),
            next: (f64::INFINITY, f64::INFINITY),
            idles: 0.0,
            tier: 0,
            since: now,
        };
        if pauses {
            own.next.1 = stay.from;
        } else {
            self.plan(&mut own, &stay);
        }
        if slot.index() == self.running.len() {
            self.running.push(own);
            self.rates.push(0.0);
        } else {
            self.running[slot.index()] = own;
        }
        self.watch(slot);
        self.touch(slot, 0.0);
        slot
    }

    /// Finds the next checkpoint of a stay.
    fn plan(&self, own: &mut Running, stay: &Spanned) {
        if let Some(cost) = self.saving {
            own.next = own.saves.step(stay.every, cost, self.clock);
        }
    }

    /// Enters when a stay next begins or ends a pause.
    fn watch(&mut self, slot: Slot) {
        let own = &self.running[slot.index()];
        let next = if own.pauses { own.next.1 } else { own.next.0 };
        if next < f64::INFINITY {
            self.pauses.set(slot.number(), next, own.at);
        } else {
            self.pauses.remove(slot.number());
        }
    }

    /// Begins or ends a pause of a stay.
    fn turn(&mut self, slot: Slot) {
        let mut own = self.running[slot.index()];
        own.pauses = !own.pauses;
        if !own.pauses {
            let stay = self.log.stays[own.at as usize].1;
            self.plan(&mut own, &stay);
        }
        self.running[slot.index()] = own;
        self.watch(slot);
        self.dirty.push(slot);
    }

    fn leave(&mut self, slot: Slot, now: f64) {
        self.count(slot, now);
        self.touch(slot, 0.0);
        self.fabric.leave(slot);
        self.pauses.remove(slot.number());
        self.dirty.retain(|&other| other != slot);
        self.free.push(slot);
    }

    /// Notes what a stay sends from now on, bytes/s, on the uplinks that it crosses, which have changed.
    fn touch(&mut self, slot: Slot, rate: f64) {
        let before = std::mem::replace(&mut self.rates[slot.index()], rate);
        let more = (rate * GRAINS) as i128 - (before * GRAINS) as i128;
        for link in self.fabric.uplinks_of(slot) {
            let load = &mut self.loads[link as usize];
            load.sum += more;
            if !std::mem::replace(&mut load.is_new, true) {
                self.new.push(link);
            }
            if !std::mem::replace(&mut load.is_newest, true) {
                self.newest.push(link);
            }
        }
    }

    /// Adds up what its uplinks cost a stay since it was last asked.
    fn count(&mut self, slot: Slot, now: f64) {
        let own = &mut self.running[slot.index()];
        let passed = self.clock.seconds(now) - self.clock.seconds(std::mem::replace(&mut own.since, now));
        if passed > 0.0 && own.idles > 0.0 {
            self.lost[own.tier] += passed * own.idles;
        }
    }

    /// Works out anew what the stays get whose links changed, and what those links carry.
    fn settle(&mut self, now: f64) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.fabric.drain_changed(&mut dirty);
        for slot in dirty.drain(..) {
            let crossing = self.fabric.update(slot);
            let (bandwidth, without, held_by) = (crossing.bandwidth, crossing.without, crossing.tier);
            let (mut rate, mut idles, mut tier) = (0.0, 0.0, 0);
            let own = &self.running[slot.index()];
            if let Some(ring) = own.ring.filter(|_| !own.pauses) {
                let (tau, bytes) = ring.at(&self.network, own.servers, bandwidth);
                rate = bytes / tau;
                if without > bandwidth {
                    idles = f64::from(ring.gpus()) * ((tau - ring.at(&self.network, own.servers, without).0) / tau);
                    tier = held_by;
                }
            }
            if (idles, tier) != (own.idles, own.tier) {
                self.count(slot, now);
                let own = &mut self.running[slot.index()];
                (own.idles, own.tier) = (idles, tier);
            }
            if rate != self.rates[slot.index()] {
                self.touch(slot, rate);
            }
        }
        self.dirty = dirty;
        let now = self.clock.seconds(now);
        for link in self.newest.drain(..) {
            let load = &mut self.loads[link as usize];
            load.is_newest = false;
            load.bytes += (now - std::mem::replace(&mut load.since, now)) * load.rate;
            load.rate = load.sum as f64 / GRAINS;
            load.most = load.most.max(load.rate);
        }
    }

    /// Adds a row for each uplink that differs from the latest sample.
    fn tell(&mut self, time: f64) {
        let mut new = std::mem::take(&mut self.new);
        new.sort_unstable();
        for link in new.drain(..) {
            let mut crossing = std::mem::take(&mut self.crossing);
            let mut flows = 0;
            for (slot, own) in self.fabric.members(link) {
                flows += u64::from(own);
                let at = self.running[slot.index()].at as usize;
                crossing.push((self.rows[self.log.stays[at].0.index()], self.rates[slot.index()]));
            }
            // In the order of the job table, so that the bits do not depend on who came first.
            crossing.sort_unstable_by_key(|own| own.0);
            let carried = (crossing.len() as u32, flows, crossing.iter().fold(0.0, |sum, own| sum + own.1));
            crossing.clear();
            self.crossing = crossing;
            let load = &mut self.loads[link as usize];
            load.is_new = false;
            if std::mem::replace(&mut load.told, carried) != carried {
                let tier = self.tiers.partition_point(|range| range.end <= link as usize);
                self.found.push(LinkRow {
                    vc: self.number,
                    tier: tier as u32,
                    group: link - self.tiers[tier].start as u32,
                    time,
                    jobs: carried.0,
                    flows: carried.1,
                    rate: carried.2,
                });
            }
        }
        self.new = new;
    }
}
