//! Computes what the uplinks of a network of tiers carry at each sample (docs/tiers.md#results).
//!
//! The stays that spanned are run through once more, from sample to sample: those that begin and end between two of
//! them are never looked at. Invariant: at each sample the rate of every stay is what its links leave it then. For
//! example, a job that sends 1e9 bytes in iterations of 2 s has 0.5e9 bytes/s on each uplink that it crosses, and none
//! while it pauses.

use super::parts::Part;
use crate::cluster::Network;
use crate::ds::EventHeap;
use crate::ids::Slot;
use crate::machine::{Breaks, Clock, Rest, checkpoint_length};
use crate::options::{Model, Options, Sharing};
use crate::outcome::{Busiest, LinkLog, LinkRow, Links, Spanned};
use crate::speed::{Fabric, thousandths};
use crate::trace::Jobs;

/// Mean loads that differ by no more than this part of the greatest are equal: they are sums.
const EVEN: f64 = 1e-9;

/// A stay that runs.
#[derive(Clone, Copy, Debug)]
struct Running {
    /// Its place in the log.
    at: u32,
    servers: u32,
    breaks: Breaks,
}

/// An uplink's latest sample.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    /// Jobs, flows and bytes/s.
    carried: (u32, u64, f64),
    /// Whether it may differ now.
    is_new: bool,
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
    /// When breaks next begin or end.
    turns: EventHeap,
    told: Vec<Told>,
    /// Uplinks that may differ from the latest sample.
    new: Vec<u32>,
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
        let first = sweep.tiers.first().map_or(0, |range| range.start);
        for (tier, range) in sweep.tiers.iter().enumerate() {
            links.tiers[tier].gpu_hours_lost += log.lost[tier] / 3600.0;
            let bandwidth = part.tiers[tier].bandwidth;
            let share = |bytes: f64| if length > 0.0 { bytes / (bandwidth * length) } else { 0.0 };
            best[tier].extend(range.clone().map(|link| {
                let carried = log.carried.get(link - first).copied().unwrap_or_default();
                let group = (link - range.start) as u32;
                let (mean_share, largest_share) = (share(carried.bytes), carried.most / bandwidth);
                Busiest { vc: number as u32, group, mean_share, largest_share, gpu_hours_lost: 0.0 }
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
        Some(Self {
            log,
            jobs,
            rows: &part.rows,
            number,
            saving: checkpoint_length(options, clock, log.rests_to_the_second),
            clock,
            network,
            fabric,
            told: vec![Told::default(); tiers.last()?.end],
            tiers,
            running: Vec::new(),
            rates: Vec::new(),
            free: Vec::new(),
            turns: EventHeap::default(),
            new: Vec::new(),
            dirty: Vec::new(),
            found: Vec::new(),
            crossing: Vec::new(),
        })
    }

    fn run(&mut self, times: &[f64]) {
        let log = self.log;
        let stay = |at: u32| &log.stays[at as usize].1;
        let mut starts: Vec<u32> = (0..log.stays.len() as u32).collect();
        starts.sort_by(|&a, &b| stay(a).start.total_cmp(&stay(b).start));
        let mut slots = vec![None; log.stays.len()];
        let (mut starts, mut ends) = (starts.into_iter().peekable(), (0..log.stays.len() as u32).peekable());
        let clock = self.clock;
        for &time in times {
            while let Some(at) = ends.next_if(|&at| clock.seconds(stay(at).end) <= time) {
                if let Some(slot) = slots[at as usize] {
                    self.leave(slot);
                }
            }
            while let Some(at) = starts.next_if(|&at| clock.seconds(stay(at).start) <= time) {
                if clock.seconds(stay(at).end) > time {
                    slots[at as usize] = Some(self.join(at));
                }
            }
            while let Some((_, slot)) = self.turns.peek().filter(|next| clock.seconds(next.0) <= time) {
                self.turn(Slot::new(slot));
            }
            self.settle();
            self.tell(time);
        }
    }

    fn join(&mut self, at: u32) -> Slot {
        let (job, Spanned { start, from, every, .. }) = self.log.stays[at as usize];
        let slot = self.free.pop().unwrap_or(Slot::at(self.running.len()));
        let row = self.rows[job.index()] as usize;
        let intensity = self.jobs.intensity.map_or(1.0, |intensity| intensity[row]);
        let parts = self.log.parts(at as usize);
        self.fabric.join(slot, parts, thousandths(intensity));
        let breaks = Breaks::at(start, [start, from, every], self.saving, self.clock);
        let own = Running { at, servers: parts.len() as u32, breaks };
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

    /// Enters when a break of a stay next begins or ends.
    fn watch(&mut self, slot: Slot) {
        let next = self.running[slot.index()].breaks.turn_at();
        if next < f64::INFINITY {
            self.turns.set(slot.number(), next, slot.number());
        } else {
            self.turns.remove(slot.number());
        }
    }

    /// Begins or ends a break of a stay.
    fn turn(&mut self, slot: Slot) {
        self.running[slot.index()].breaks.turn(self.saving, self.clock);
        self.watch(slot);
        self.dirty.push(slot);
    }

    fn leave(&mut self, slot: Slot) {
        self.touch(slot, 0.0);
        self.fabric.leave(slot);
        self.turns.remove(slot.number());
        self.free.push(slot);
    }

    /// Notes what a stay sends, bytes/s, on the uplinks that it crosses, which have changed.
    fn touch(&mut self, slot: Slot, rate: f64) {
        self.rates[slot.index()] = rate;
        for link in self.fabric.uplinks_of(slot) {
            if !std::mem::replace(&mut self.told[link as usize].is_new, true) {
                self.new.push(link);
            }
        }
    }

    /// Works out anew what the stays send whose links or breaks changed.
    fn settle(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        self.fabric.drain_changed(&mut dirty);
        for slot in dirty.drain(..) {
            let bandwidth = self.fabric.update(slot).0.bandwidth;
            let own = &self.running[slot.index()];
            let rate = match self.log.stays[own.at as usize].1.ring {
                Some(ring) if !own.breaks.are_on => {
                    let (tau, bytes) = ring.at(&self.network, own.servers, bandwidth);
                    bytes / tau
                }
                _ => 0.0,
            };
            if rate != self.rates[slot.index()] {
                self.touch(slot, rate);
            }
        }
        self.dirty = dirty;
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
            let told = &mut self.told[link as usize];
            told.is_new = false;
            if std::mem::replace(&mut told.carried, carried) != carried {
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
