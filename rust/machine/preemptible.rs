//! Indexes the running jobs that may be evicted, by server (docs/priorities-reference.md#eviction).
//!
//! Invariant: for each server, `here` has the stays with GPUs there that a job or a replica may evict, and `held` how
//! many GPUs they hold there, by tier. For example, a server whose jobs may not be evicted is never searched for
//! victims.
//!
//! `reclaimable` has the GPUs that are idle or held by stays that jobs may evict, none of servers that drain. An attempt
//! that finds too few there ends at once.

use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::outages::Checkpoints;
use super::saves::Progress;
use crate::ids::{GpuType, Server, Slot};
use crate::placement::{Pools, Probes};
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
    work: Work,
    pub(super) is_over_quota: bool,
    pub(super) is_preemptible: bool,
    /// No job of higher priority may evict it after the first of these times and before the second (machine time).
    pub(super) protected: (f64, f64),
}

/// What determines how much of a stay's progress is saved.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The schedule of its checkpoints; the time of one, and until when that is the latest.
    Saved(Checkpoints, (f64, f64)),
    /// Checkpoints take time.
    Saving(Progress),
}

impl Evictable {
    /// Returns the seconds of progress since the latest checkpoint that [`Preemptible::look_at`] found.
    #[inline]
    pub(super) fn unsaved(&self, now: f64, clock: Clock) -> f64 {
        match self.work {
            Work::Saved(_, (last, _)) => clock.seconds(f64::max(0.0, now - last)),
            Work::Saving(progress) => clock.seconds(progress.unsaved(now)),
        }
    }

    /// Returns the time of a checkpoint, and until when it is the latest.
    #[inline]
    fn saved(&self) -> (f64, f64) {
        match self.work {
            Work::Saved(_, saved) => saved,
            Work::Saving(_) => (f64::NEG_INFINITY, f64::NEG_INFINITY), // unknown
        }
    }
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
}

/// The stays that may be evicted, by server.
#[derive(Clone, Debug)]
pub(super) struct Preemptible {
    here: Vec<Vec<(Evictable, u32)>>,
    held: Vec<Held>,
    /// For each server, a time no earlier than the latest checkpoint of any stay, and until when it holds. After that
    /// it is unknown until `look_at`.
    newest: Vec<(f64, f64)>,
    /// GPUs that evictable stays hold by tier, only tiers that hold some, in ascending order.
    by_tier: Vec<(u32, u64)>,
    /// Idle and reclaimable GPUs, where jobs may evict.
    reclaimable: Option<Probes>,
    /// Attempts for which no server had enough, since GPUs last changed hands.
    livelock: Vec<Attempt>,
    /// Buffer for the least cost of an attempt on each server.
    pub(super) bounds: Vec<f64>,
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
            newest: vec![(f64::NEG_INFINITY, f64::INFINITY); servers],
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

    /// Returns the same, with their checkpoints up to now.
    pub(super) fn look_at(&mut self, server: Server, now: f64, clock: Clock) -> &[(Evictable, u32)] {
        let here = &mut self.here[server.index()];
        let newest = &mut self.newest[server.index()];
        let is_known = now < newest.1;
        if !is_known {
            *newest = (f64::NEG_INFINITY, f64::INFINITY);
            for (evictable, _) in here.iter_mut() {
                if let Work::Saved(checkpoints, saved) = &mut evictable.work
                    && now >= saved.1
                {
                    *saved = checkpoints.before_and_until(now, clock);
                }
                let saved = evictable.saved();
                *newest = (f64::max(newest.0, saved.0), f64::min(newest.1, saved.1));
            }
        }
        here
    }

    /// Returns a lower bound on the seconds of progress since the latest checkpoint of every stay on a server.
    #[inline]
    pub(super) fn least_unsaved(&self, server: Server, now: f64, clock: Clock) -> f64 {
        let (newest, until) = self.newest[server.index()];
        if now < until { clock.seconds(f64::max(0.0, now - newest)) } else { 0.0 }
    }

    /// Returns the GPUs that evictable stays hold on a server.
    #[inline]
    pub(super) fn gpus_on(&self, server: Server) -> u32 {
        self.held[server.index()].all
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
            let newest = &mut self.newest[server.index()];
            let saved = evictable.saved();
            *newest = (f64::max(newest.0, saved.0), f64::min(newest.1, saved.1));
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
        let stay = &self.stays[slot.index()];
        let parts = self.coming_free(&stay.parts);
        let Some(preemptible) = &mut self.preemptible else { return };
        preemptible.livelock.clear();
        if lodges {
            preemptible.add(evictable, &stay.parts);
        }
        if let Some(reclaimable) = preemptible.reclaimable.as_mut().filter(|_| !yields) {
            reclaimable.take(&self.cluster, &parts);
        }
    }

    /// Removes a stay that ends.
    pub(super) fn on_end(&mut self, slot: Slot) {
        let evictable = self.evictable(slot);
        let (lodges, yields) = (self.lodges(&evictable), self.yields_to_jobs(&evictable));
        let stay = &self.stays[slot.index()];
        let parts = self.coming_free(&stay.parts);
        let Some(preemptible) = &mut self.preemptible else { return };
        preemptible.livelock.clear();
        if lodges {
            preemptible.remove(slot, evictable.tier, &stay.parts);
        }
        if let Some(reclaimable) = preemptible.reclaimable.as_mut().filter(|_| !yields) {
            reclaimable.give(&self.cluster, &parts);
        }
    }

    /// Describes the stay at a slot, whether it may be evicted or not.
    pub(super) fn evictable(&self, slot: Slot) -> Evictable {
        let stay = &self.stays[slot.index()];
        let job = stay.job.index();
        let checkpoints = stay.checkpoints();
        let work = match self.saving {
            None => Work::Saved(checkpoints, checkpoints.first_and_until(self.clock)),
            Some(_) => Work::Saving(stay.saves.progress()),
        };
        Evictable {
            slot,
            home: stay.parts.first().map_or(Server::at(0), |part| part.0),
            gpus: stay.gpus(),
            tier: self.jobs.tier(job),
            row: self.rows[job],
            start: stay.start,
            work,
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
        jobs.tried_by(demand).iter().any(|&(gpu_type, _)| self.has_room(gpu_type, demand.units()))
    }

    /// Returns false if a gang that could not be placed would not fit on a type even if all evictable stays left.
    pub(super) fn has_room(&mut self, gpu_type: GpuType, num_gpus: u32) -> bool {
        match self.preemptible.as_ref().and_then(|preemptible| preemptible.reclaimable.as_ref()) {
            // A gang that is not placed may still find idle GPUs on a server that has enough of them.
            Some(reclaimable) if self.placer.is_monotone() => {
                if num_gpus <= self.cluster.of_mut(gpu_type).largest {
                    reclaimable.most_of(gpu_type) >= num_gpus
                } else {
                    self.placer.fits(&mut self.cluster, reclaimable, gpu_type, num_gpus)
                }
            }
            _ => true,
        }
    }
}
