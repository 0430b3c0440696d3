//! Chooses which jobs a job of higher priority evicts (docs/priorities-reference.md#eviction).
//!
//! Invariant: either victims were evicted and the job's GPUs are taken, or nothing has changed. For example, if a
//! server of 8 GPUs runs a (4 GPUs, 1,000 s since its last checkpoint), b (2 GPUs, 500 s) and c (2 GPUs, 100 s), a job
//! of 3 GPUs evicts b and c: c is taken first, then b, and neither is enough alone.
//!
//! An attempt costs a scan of the servers, and of the running jobs on those where enough may be evicted; for a gang
//! larger than a server, of all evictable jobs. There is one attempt for each demand that a pass cannot place.

use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::maintenance::MaintenanceWindows;
use super::preemptible::{Evictable, Preemptible};
use super::quota_usage::Claimant;
use crate::decisions::{Row, Verb};
use crate::ids::{GpuType, Job, Server, Slot};
use crate::placement::{Gang, Probes};
use crate::record::Why;
use crate::speed::Speed;
use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A running job that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    slot: Slot,
    /// GPUs x seconds of progress since its last checkpoint.
    key: f64,
    tier: u32,
    start: f64,
    row: u32,
}

impl Victim {
    #[inline]
    fn new(evictable: &Evictable, now: f64, clock: Clock) -> Self {
        let key = f64::from(evictable.gpus) * evictable.unsaved(now, clock);
        Self { slot: evictable.slot, key, tier: evictable.tier, start: evictable.start, row: evictable.row }
    }

    /// Returns its place in the order of eviction: the least first.
    fn turn(&self) -> (Reverse<u32>, u64, Reverse<u64>, u32) {
        // No number is NaN or negative, so bits sort as the numbers do.
        (Reverse(self.tier), self.key.to_bits(), Reverse(self.start.to_bits()), self.row)
    }
}

impl Ord for Victim {
    fn cmp(&self, other: &Self) -> Ordering {
        other.turn().cmp(&self.turn())
    }
}

impl PartialOrd for Victim {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Victim {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Victim {}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether owners have quotas.
    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        self.quota_usage.is_some()
    }

    /// Returns what decides which jobs a job may evict if it started now on that many GPUs.
    pub(crate) fn evictor(&self, job: Job, num_gpus: u32) -> (u32, Claimant) {
        let tier = if self.evicts { self.jobs.tier(job.index()) } else { 0 };
        (tier, self.claimant(job, num_gpus))
    }

    /// Evicts jobs so that another can be placed, and takes its GPUs: `start` must follow. Returns whether that
    /// succeeded; `evicted` then has the stays that ended.
    pub(crate) fn place_by_evicting(&mut self, job: Job, evicted: &mut Vec<(Slot, Job)>) -> bool {
        self.place_on_by_evicting(job, self.asks(job), None, evicted)
    }

    /// Returns whether `place_by_evicting` would succeed for a waiting job, without doing it.
    pub(crate) fn can_evict_for(&mut self, job: Job) -> bool {
        self.room_by_evicting(job, self.asks(job), None).is_some()
    }

    /// Evicts and places like `place_by_evicting`, on a number of GPUs that the job may hold: of one type, or of the
    /// first available type that it may use.
    pub(crate) fn place_on_by_evicting(
        &mut self,
        job: Job,
        num_gpus: u32,
        on: Option<GpuType>,
        evicted: &mut Vec<(Slot, Job)>,
    ) -> bool {
        evicted.clear();
        let Some((gpu_type, server, chosen)) = self.room_by_evicting(job, num_gpus, on) else { return false };
        self.evict_all(&chosen, Why::EvictedBy(job), evicted);
        if let Some(server) = server {
            self.out.decisions += 1;
            self.take(job, &[(server, num_gpus)]);
            return true;
        }
        self.hide_again();
        self.place_on_type(job, num_gpus, gpu_type)
    }

    /// Returns the GPU type on which to evict for a job, the victims, and the server that the job is to get; no server
    /// where the placement chooses.
    fn room_by_evicting(
        &mut self,
        job: Job,
        num_gpus: u32,
        on: Option<GpuType>,
    ) -> Option<(GpuType, Option<Server>, Vec<Victim>)> {
        let jobs = self.jobs;
        let lower = self.preemptible.as_ref().map_or(0, |preemptible| preemptible.gpus_after(jobs.tier(job.index())));
        if self.quota_usage.is_none() && (lower == 0 || lower + self.cluster.idle_units() < u64::from(num_gpus)) {
            // Most attempts end here: all lower priorities together do not hold enough.
            return None;
        }
        if self.claimant(job, num_gpus) != Claimant::Within {
            return None;
        }
        for &(gpu_type, _) in jobs.tried(job) {
            if on.is_some_and(|on| on != gpu_type) || !self.has_room(gpu_type, self.gang(job, num_gpus)) {
                continue;
            }
            let (evicts, tier, now) = (self.evicts, jobs.tier(job.index()), self.now);
            let yields = |other: &Evictable| {
                let may_go = other.protected.1 <= now || other.protected.0 == now;
                other.is_over_quota || evicts && other.tier > tier && other.is_preemptible && may_go
            };
            let after = evicts.then_some(tier);
            if num_gpus <= self.cluster.of_mut(gpu_type).largest {
                let attempt = (gpu_type, num_gpus, after);
                if self.preemptible.as_ref().is_none_or(|preemptible| preemptible.is_futile(&attempt)) {
                    continue;
                }
                let there = |preemptible: &Preemptible, server| preemptible.gpus_for(server, after);
                if let Some((server, chosen)) = self.server_of_least(Some(gpu_type), num_gpus, there, yields) {
                    return Some((gpu_type, Some(server), chosen));
                }
                if !self.hides()
                    && let Some(preemptible) = &mut self.preemptible
                {
                    preemptible.remember(attempt);
                }
                continue;
            }
            let victims = self.victims(gpu_type, after, yields);
            if let Some(chosen) = self.fewest_of_all(victims, gpu_type, self.gang(job, num_gpus)) {
                return Some((gpu_type, None, chosen));
            }
        }
        None
    }

    /// Returns the stays of a GPU type that `may` be evicted, all of them `after` a tier or over quota; the first to go
    /// is the greatest.
    fn victims(
        &mut self,
        gpu_type: GpuType,
        after: Option<u32>,
        may: impl Fn(&Evictable) -> bool,
    ) -> BinaryHeap<Victim> {
        let (now, clock, cluster) = (self.now, self.clock, &self.cluster);
        let Some(preemptible) = &mut self.preemptible else { return BinaryHeap::new() };
        let mut victims = Vec::new();
        for server in (0..cluster.num_servers()).map(Server::at) {
            if cluster.type_of(server) == gpu_type && preemptible.gpus_for(server, after) > 0 {
                let here = preemptible.look_at(server, now, clock).iter();
                let going = here.filter(|(evictable, _)| evictable.home == server && may(evictable));
                victims.extend(going.map(|(evictable, _)| Victim::new(evictable, now, clock)));
            }
        }
        victims.into()
    }

    /// Returns the server, of one GPU type or of all, where a gang costs the least sum of keys, and the victims there:
    /// stays that `may` be evicted, which hold at most `there` GPUs of a server.
    pub(super) fn server_of_least(
        &mut self,
        gpu_type: Option<GpuType>,
        num_gpus: u32,
        there: impl Fn(&Preemptible, Server) -> u32,
        may: impl Fn(&Evictable) -> bool,
    ) -> Option<(Server, Vec<Victim>)> {
        let (now, clock, cluster, windows) = (self.now, self.clock, &self.cluster, &self.windows);
        let preemptible = self.preemptible.as_mut()?;
        let has_room = |preemptible: &Preemptible, server: Server, idle: u32| {
            idle + there(preemptible, server) >= num_gpus
                && gpu_type.is_none_or(|of| cluster.type_of(server) == of)
                && windows.as_ref().is_none_or(|windows| !windows.hides(server))
        };
        // Start with a server of low known cost: then most others can be skipped.
        let mut first: Option<(f64, Server)> = None;
        let mut bounds = std::mem::take(&mut preemptible.bounds);
        bounds.clear();
        bounds.extend((0..cluster.num_servers()).map(Server::at).map(|server| {
            let idle = cluster.idle(server);
            if idle >= num_gpus {
                return f64::INFINITY;
            }
            let at_least = lacks(num_gpus, idle) * preemptible.least_unsaved(server, now, clock);
            if at_least > 0.0 && first.is_none_or(|first| at_least < first.0) && has_room(preemptible, server, idle) {
                first = Some((at_least, server));
            }
            at_least
        }));
        let mut least: Option<(f64, Server)> = None;
        let (mut here, mut chosen): (Vec<(Victim, u32)>, Vec<Victim>) = (Vec::new(), Vec::new());
        let first = first.map(|(_, server)| server);
        let others = (0..bounds.len()).map(Server::at).filter(|&server| Some(server) != first);
        for server in first.into_iter().chain(others) {
            let at_least = bounds[server.index()];
            // On ties the lowest server.
            let is_cheaper =
                |cost: f64| least.is_none_or(|least| cost < least.0 || cost == least.0 && server < least.1);
            if at_least == f64::INFINITY
                || !is_cheaper(at_least)
                || !has_room(preemptible, server, cluster.idle(server))
            {
                continue;
            }
            preemptible.look_at(server, now, clock);
            let mut idle = cluster.idle(server);
            if !is_cheaper(lacks(num_gpus, idle) * preemptible.least_unsaved(server, now, clock)) {
                continue;
            }
            let (mut going, mut cheapest, mut latest) = (0, f64::INFINITY, f64::INFINITY);
            for (evictable, count) in preemptible.on(server).iter().filter(|(evictable, _)| may(evictable)) {
                let unsaved = evictable.unsaved(now, clock);
                going += *count;
                cheapest = f64::min(cheapest, f64::from(evictable.gpus) * unsaved);
                latest = f64::min(latest, unsaved);
            }
            if idle + going < num_gpus || !is_cheaper(f64::max(cheapest, lacks(num_gpus, idle) * latest)) {
                continue;
            }
            here.clear();
            let going = preemptible.on(server).iter().filter(|(evictable, _)| may(evictable));
            here.extend(going.map(|(evictable, count)| (Victim::new(evictable, now, clock), *count)));
            here.sort_unstable_by_key(|(victim, _)| victim.turn());
            let enough = here.iter().position(|&(_, count)| {
                idle += count;
                idle >= num_gpus
            });
            let Some(last) = enough else { continue };
            here.truncate(last + 1);
            for at in (0..here.len()).rev() {
                if idle - here[at].1 >= num_gpus {
                    idle -= here.remove(at).1;
                }
            }
            let sum: f64 = here.iter().map(|(victim, _)| victim.key).sum();
            if is_cheaper(sum) {
                least = Some((sum, server));
                chosen.clear();
                chosen.extend(here.iter().map(|&(victim, _)| victim));
            }
        }
        preemptible.bounds = bounds;
        least.map(|(_, server)| (server, chosen))
    }

    /// Returns the victims in a whole pool whose GPUs let the run's placement place a gang larger than a server.
    fn fewest_of_all(&mut self, mut victims: BinaryHeap<Victim>, gpu_type: GpuType, gang: Gang) -> Option<Vec<Victim>> {
        let mut probes = Probes::default();
        probes.copy(&self.cluster);
        let mut chosen = Vec::new();
        loop {
            let victim = victims.pop()?;
            let parts = seen(&self.stays[victim.slot.index()].parts, self.windows.as_deref());
            probes.give(&self.cluster, &parts);
            chosen.push(victim);
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, gang) {
                break;
            }
        }
        for at in (0..chosen.len()).rev() {
            let parts = seen(&self.stays[chosen[at].slot.index()].parts, self.windows.as_deref());
            probes.take(&self.cluster, &parts);
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, gang) {
                chosen.remove(at);
            } else {
                probes.give(&self.cluster, &parts);
            }
        }
        Some(chosen)
    }

    /// Ends the stays of victims and adds them to `evicted`. Their jobs keep their progress and wait.
    pub(super) fn evict_all(&mut self, victims: &[Victim], why: Why, evicted: &mut Vec<(Slot, Job)>) {
        evicted.extend(victims.iter().map(|victim| (victim.slot, self.evict(victim.slot, why))));
    }

    /// Ends a stay so that its GPUs go to another job, or to a service. Returns its job, which waits.
    pub(crate) fn evict(&mut self, slot: Slot, why: Why) -> Job {
        let stay = &self.stays[slot.index()];
        let (job, started) = (stay.job, stay.start);
        let row = self.row(Verb::Evicted, job);
        self.note(match why {
            Why::EvictedFor(service) => Row { service, pass: 0, ..row },
            why => Row { by: why.by().0, ..row },
        });
        // Stays that were evicted for this job at this instant are now evicted for the new evictor.
        self.out.stay_log.readdress(job, why, self.now);
        self.out.stay_log.evicted_at = self.now;
        if started < self.now {
            self.keep(slot, false);
            self.vacate(slot, why, None);
        } else {
            self.never_began(slot);
            if self.was_stopped(job) {
                // It was to continue elsewhere: without that, it was stopped.
                self.tell(job, Why::Preempted);
            }
            self.note_given_up(job, why);
        }
        self.turn_wait(job);
        job
    }
}

/// Returns the GPUs that a gang lacks, which its victims must hold at least. The factor allows for rounding in sums.
fn lacks(num_gpus: u32, idle: u32) -> f64 {
    f64::from(num_gpus - idle) * (1.0 - 1e-9)
}

/// Returns what a victim holds on servers that are not hidden.
fn seen<'p>(parts: &'p [(Server, u32)], windows: Option<&MaintenanceWindows>) -> Cow<'p, [(Server, u32)]> {
    match windows {
        None => Cow::Borrowed(parts),
        Some(windows) => parts.iter().filter(|part| !windows.hides(part.0)).copied().collect(),
    }
}
