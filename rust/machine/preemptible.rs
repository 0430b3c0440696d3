//! Indexes the running jobs that may be evicted, by server (docs/priorities-reference.md#eviction).
//!
//! Invariant: for each server, `here` has the stays with GPUs there that a job or a replica may evict, and `held` how
//! many GPUs they hold there, by tier. For example, a server whose jobs may not be evicted is never searched for
//! victims.
//!
//! `reclaimable` has the GPUs that are idle or held by stays that jobs may evict, none of servers that drain. An attempt
//! that finds too few there ends at once.

use super::cluster_state::ClusterState;
use super::evict::Cost;
use crate::ids::{GpuType, Server, Slot};
use crate::placement::{Gang, Pools, Probes};
use crate::speed::Speed;
use crate::trace::Demand;

/// A stay that may be evicted, with all that decides whether and in which order it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evictable {
    pub(super) slot: Slot,
    /// Its first server.
    pub(super) home: Server,
    /// Its GPUs, on all servers.
    pub(super) gpus: u32,
    pub(super) tier: u32,
    pub(super) row: u32,
    pub(super) start: f64,
    pub(super) is_over_quota: bool,
    pub(super) is_preemptible: bool,
    /// No job of higher priority may evict it after the first of these times and before the second (machine time).
    pub(super) protected: (f64, f64),
}

/// GPUs of a server that evictable stays hold.
#[derive(Clone, Debug, Default)]
struct Held {
    all: u32,
    over_quota: u32,
    /// GPUs within quota, by tier. Most servers have few tiers: these are summed without a branch, unused places (0
    /// GPUs) included.
    few: [OfTier; 4],
    more: Vec<OfTier>,
}

#[derive(Clone, Copy, Debug, Default)]
struct OfTier {
    tier: u32,
    gpus: u32,
}

impl OfTier {
    #[inline]
    fn after(self, tier: u32) -> u32 {
        if self.tier > tier { self.gpus } else { 0 }
    }
}

impl Held {
    fn add(&mut self, evictable: &Evictable, count: u32) {
        self.all += count;
        if evictable.is_over_quota {
            self.over_quota += count;
        } else if let Some(gpus) = self.gpus_of(evictable.tier) {
            *gpus += count;
        } else {
            let new = OfTier { tier: evictable.tier, gpus: count };
            match self.few.iter_mut().find(|of| of.gpus == 0) {
                Some(free) => *free = new,
                None => self.more.push(new),
            }
        }
    }

    fn remove(&mut self, evictable: &Evictable, count: u32) {
        self.all -= count;
        if evictable.is_over_quota {
            self.over_quota -= count;
        } else if let Some(gpus) = self.gpus_of(evictable.tier) {
            *gpus -= count;
            self.more.retain(|of| of.gpus > 0);
        }
    }

    fn gpus_of(&mut self, tier: u32) -> Option<&mut u32> {
        let mut all = self.few.iter_mut().chain(&mut self.more);
        all.find(|of| of.tier == tier && of.gpus > 0).map(|of| &mut of.gpus)
    }

    #[inline]
    fn after(&self, tier: u32) -> u32 {
        let few: u32 = self.few.iter().map(|of| of.after(tier)).sum();
        if self.more.is_empty() { few } else { few + self.more.iter().map(|of| of.after(tier)).sum::<u32>() }
    }

    /// Returns the greatest tier such that the stays from it on hold enough GPUs. Those over quota count as of the last
    /// tier, since theirs is unknown.
    fn highest(&self, enough: u32) -> u32 {
        let (mut gpus, mut last) = (self.over_quota, u32::MAX);
        while gpus < enough {
            let all = || self.few.iter().chain(&self.more).filter(|of| of.gpus > 0 && of.tier < last);
            let Some(next) = all().map(|of| of.tier).max() else { break };
            gpus += all().filter(|of| of.tier == next).map(|of| of.gpus).sum::<u32>();
            last = next;
        }
        last
    }
}

/// The stays that may be evicted, by server.
#[derive(Clone, Debug)]
pub(super) struct Preemptible {
    here: Vec<Vec<(Evictable, u32)>>,
    held: Vec<Held>,
    /// GPUs that evictable stays hold by tier, only tiers that hold some, in ascending order.
    by_tier: Vec<(u32, u64)>,
    /// Idle and reclaimable GPUs, where jobs may evict.
    reclaimable: Option<Probes>,
    /// Attempts for which no server had enough, since GPUs last changed hands.
    livelock: Vec<Attempt>,
    /// Buffer for what victims cost at least, on each server with enough of them.
    pub(super) bounds: Vec<Cost>,
}

/// GPU type, number of GPUs, and the tier as in [`Preemptible::gpus_for`].
pub(super) type Attempt = (GpuType, u32, Option<u32>);

impl Preemptible {
    /// Returns an empty index of an idle cluster. `by_jobs`: whether jobs may evict, not only replicas.
    pub(super) fn new(pools: &Pools, by_jobs: bool) -> Self {
        let servers = pools.num_servers();
        let reclaimable = by_jobs.then(|| {
            let mut reclaimable = Probes::default();
            reclaimable.copy(pools);
            reclaimable
        });
        Self {
            here: vec![Vec::new(); servers],
            held: vec![Held::default(); servers],
            by_tier: Vec::new(),
            reclaimable,
            livelock: Vec::new(),
            bounds: Vec::new(),
        }
    }

    /// Returns the stays on a server, with the GPUs that each holds there.
    pub(super) fn on(&self, server: Server) -> &[(Evictable, u32)] {
        &self.here[server.index()]
    }

    /// Returns the least tier among the first stays of a server to go that hold enough GPUs there, or a greater one;
    /// `None` if all evictable stays do not.
    #[inline]
    pub(super) fn highest_of_all(&self, server: Server, enough: u32) -> Option<u32> {
        let held = &self.held[server.index()];
        (held.all >= enough).then(|| held.highest(enough))
    }

    /// Returns the same for a job of a tier, as in [`Self::gpus_for`].
    #[inline]
    pub(super) fn highest(&self, server: Server, tier: Option<u32>, enough: u32) -> Option<u32> {
        (self.gpus_for(server, tier) >= enough).then(|| self.held[server.index()].highest(enough))
    }

    /// Returns the GPUs there that a job of a tier may evict; `None`: a job that evicts only stays over quota.
    #[inline]
    pub(super) fn gpus_for(&self, server: Server, tier: Option<u32>) -> u32 {
        let held = &self.held[server.index()];
        held.over_quota + tier.map_or(0, |tier| held.after(tier))
    }

    /// Returns the GPUs that stays of later tiers hold, over quota or not.
    pub(super) fn gpus_after(&self, tier: u32) -> u64 {
        self.by_tier.iter().rev().take_while(|(of, _)| *of > tier).map(|(_, gpus)| gpus).sum()
    }

    /// Returns whether an attempt has failed before and nothing has changed since.
    pub(super) fn is_futile(&self, attempt: &Attempt) -> bool {
        self.livelock.contains(attempt)
    }

    pub(super) fn remember(&mut self, attempt: Attempt) {
        self.livelock.push(attempt);
    }

    fn add(&mut self, evictable: Evictable, parts: &[(Server, u32)]) {
        for &(server, count) in parts {
            self.here[server.index()].push((evictable, count));
            self.held[server.index()].add(&evictable, count);
            match self.by_tier.binary_search_by_key(&evictable.tier, |(tier, _)| *tier) {
                Ok(at) => self.by_tier[at].1 += u64::from(count),
                Err(at) => self.by_tier.insert(at, (evictable.tier, u64::from(count))),
            }
        }
    }

    fn remove(&mut self, slot: Slot, tier: u32, parts: &[(Server, u32)]) {
        for &(server, _) in parts {
            let here = &mut self.here[server.index()];
            let Some(at) = here.iter().position(|(evictable, _)| evictable.slot == slot) else { continue };
            let (evictable, count) = here.swap_remove(at);
            self.held[server.index()].remove(&evictable, count);
            if let Ok(at) = self.by_tier.binary_search_by_key(&tier, |(tier, _)| *tier) {
                self.by_tier[at].1 -= u64::from(count);
                if self.by_tier[at].1 == 0 {
                    self.by_tier.remove(at);
                }
            }
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Adds a stay that begins or continues.
    pub(super) fn on_start(&mut self, slot: Slot) {
        let evictable = self.evictable(slot);
        let (lodges, yields) = (self.lodges(&evictable), self.yields_to_jobs(&evictable));
        // Of a seat the first that stays keeps the GPUs, and the last that may go gives them.
        let seat = self.stays[slot.index()].seat;
        let seats = self.seats.as_mut().filter(|_| self.preemptible.is_some());
        let keeps = !yields && seats.is_none_or(|seats| seats.hold_firm(seat));
        let stay = &self.stays[slot.index()];
        let parts = self.coming_free(&stay.parts);
        let Some(preemptible) = &mut self.preemptible else { return };
        preemptible.livelock.clear();
        if lodges {
            preemptible.add(evictable, &stay.parts);
        }
        if let Some(reclaimable) = preemptible.reclaimable.as_mut().filter(|_| keeps) {
            reclaimable.take(&self.cluster, &parts);
        }
    }

    /// Removes a stay that ends.
    pub(super) fn on_end(&mut self, slot: Slot) {
        let evictable = self.evictable(slot);
        let (lodges, yields) = (self.lodges(&evictable), self.yields_to_jobs(&evictable));
        let seat = self.stays[slot.index()].seat;
        let seats = self.seats.as_mut().filter(|_| self.preemptible.is_some());
        let gives = !yields && seats.is_none_or(|seats| seats.let_loose(seat));
        let stay = &self.stays[slot.index()];
        let parts = self.coming_free(&stay.parts);
        let Some(preemptible) = &mut self.preemptible else { return };
        preemptible.livelock.clear();
        if lodges {
            preemptible.remove(slot, evictable.tier, &stay.parts);
        }
        if let Some(reclaimable) = preemptible.reclaimable.as_mut().filter(|_| gives) {
            reclaimable.give(&self.cluster, &parts);
        }
    }

    /// Describes the stay at a slot, whether it may be evicted or not.
    pub(super) fn evictable(&self, slot: Slot) -> Evictable {
        let stay = &self.stays[slot.index()];
        let job = stay.job.index();
        Evictable {
            slot,
            home: stay.parts.first().map_or(Server::at(0), |part| part.0),
            gpus: stay.gpus(),
            tier: self.jobs.tier(job),
            row: self.rows[job],
            start: stay.start,
            is_over_quota: self.is_over_quota(slot),
            is_preemptible: self.jobs.may_be_evicted(job),
            protected: self.protected(slot),
        }
    }

    /// Returns whether a job or a replica may evict a stay.
    fn lodges(&self, evictable: &Evictable) -> bool {
        let yields_to_replicas = self.services.is_some() && evictable.is_preemptible;
        self.yields_to_jobs(evictable) || yields_to_replicas && !self.is_on_draining(evictable.slot)
    }

    /// Returns whether a job may evict a stay.
    fn yields_to_jobs(&self, evictable: &Evictable) -> bool {
        (evictable.is_over_quota || self.evicts && evictable.is_preemptible) && !self.is_on_draining(evictable.slot)
    }

    /// Returns whether there is any stay that jobs may evict.
    #[inline]
    pub(crate) fn makes_room(&self) -> bool {
        let reclaimable = self.preemptible.as_ref().and_then(|preemptible| preemptible.reclaimable.as_ref());
        reclaimable.is_some_and(|reclaimable| reclaimable.total() > self.cluster.idle_units())
    }

    /// Returns whether stays may ever make room for jobs.
    pub(crate) fn makes_room_at_all(&self) -> bool {
        self.evicts || self.quota_usage.is_some()
    }

    /// Forgets failed attempts: a protection ended, so they may succeed now.
    pub(super) fn find_more(&mut self) {
        if let Some(preemptible) = &mut self.preemptible {
            preemptible.livelock.clear();
        }
    }

    /// Removes idle GPUs of a server that a replica took or an outage closed.
    pub(super) fn close_room(&mut self, server: Server, count: u32) {
        if let Some(preemptible) = self.preemptible.as_mut()
            && let Some(reclaimable) = preemptible.reclaimable.as_mut()
        {
            preemptible.livelock.clear();
            reclaimable.take(&self.cluster, &[(server, count)]);
        }
    }

    /// Adds them again.
    pub(super) fn open_room(&mut self, server: Server, count: u32) {
        if let Some(preemptible) = self.preemptible.as_mut()
            && let Some(reclaimable) = preemptible.reclaimable.as_mut()
        {
            preemptible.livelock.clear();
            reclaimable.give(&self.cluster, &[(server, count)]);
        }
    }

    /// Returns false if no job of a demand could be placed by evicting others.
    pub(crate) fn may_evict(&mut self, demand: Demand) -> bool {
        let jobs = self.jobs;
        let gang = Gang { num_gpus: demand.units(), form: jobs.form_of(demand) };
        jobs.tried_by(demand).iter().any(|&(gpu_type, _)| self.has_room(gpu_type, gang))
    }

    /// Returns false if a gang that could not be placed would not fit on a type even if all evictable stays left.
    pub(super) fn has_room(&mut self, gpu_type: GpuType, gang: Gang) -> bool {
        match self.preemptible.as_ref().and_then(|preemptible| preemptible.reclaimable.as_ref()) {
            // A gang that is not placed may still find idle GPUs on a server that has enough of them.
            Some(reclaimable) if self.placer.is_monotone() => {
                if gang.num_gpus <= self.cluster.of_mut(gpu_type).largest && !self.placer.binds(gang.form) {
                    reclaimable.most_of(gpu_type) >= gang.num_gpus
                } else {
                    self.placer.fits(&mut self.cluster, reclaimable, gpu_type, gang)
                }
            }
            _ => true,
        }
    }
}
