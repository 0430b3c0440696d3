//! Chooses which jobs a job of higher priority evicts (docs/priorities-reference.md#eviction).
//!
//! Invariant: either victims were evicted and the job's GPUs are taken, or nothing has changed. For example, if a
//! server of 8 GPUs runs a (4 GPUs), b (2 GPUs, started at 50 s) and c (2 GPUs, started at 100 s), a job of 3 GPUs
//! evicts b and c: c is taken first, then b, and neither is enough alone.
//!
//! An attempt costs a scan of the servers, and of the running jobs on those where enough may be evicted; for a gang
//! larger than a server, of all evictable jobs. There is one attempt for each demand that a pass cannot place.

use super::cluster_state::ClusterState;
use super::maintenance::MaintenanceWindows;
use super::preemptible::{Evictable, Preemptible};
use super::quota_usage::Claimant;
use super::seats::Leaving;
use crate::decisions::{Row, Verb};
use crate::ids::{GpuType, Job, Server, Slot};
use crate::options::Victims;
use crate::placement::{Gang, Probes};
use crate::record::Why;
use crate::speed::Speed;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The place of a victim in the order of eviction: its priority, up to three numbers, its row. The least goes first.
type Turn = (Reverse<u32>, [u64; 3], u32);

/// What the victims on a server cost: their highest priority, then the work that they lose or the earliest start among
/// them, their GPUs on all servers, their number; ties to the lower server.
pub(super) type Cost = (Reverse<u32>, u64, u64, usize, Server);

/// A running job that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Victim {
    turn: Turn,
    slot: Slot,
    tier: u32,
    gpus: u32,
    /// The seat of its GPUs, which come free with the last who sits there.
    seat: u32,
    /// GPU-seconds of work that it loses.
    lost: f64,
    start: f64,
}

/// Sorts times, and GPU-seconds, as they do. None is NaN or negative.
fn ascending(number: f64) -> u64 {
    number.to_bits()
}

/// Sorts times the latest first.
fn descending(time: f64) -> u64 {
    !time.to_bits()
}

impl Victim {
    fn new(evictable: &Evictable, seat: u32, lost: f64, rule: Victims) -> Self {
        let Evictable { slot, tier, gpus, start, row, .. } = *evictable;
        let turn = match rule {
            Victims::Least => [ascending(lost), u64::from(gpus), descending(start)],
            Victims::Youngest => [descending(start), u64::from(gpus), 0],
        };
        Self { turn: (Reverse(tier), turn, row), slot, tier, gpus, seat, lost, start }
    }

    /// Returns what victims on a server cost, in their order.
    fn cost(victims: &[(Self, u32)], rule: Victims, server: Server, has_seats: bool) -> Cost {
        let all = || victims.iter().map(|(victim, _)| victim);
        let first = match rule {
            Victims::Least => ascending(all().map(|victim| victim.lost).sum::<f64>()),
            Victims::Youngest => descending(all().map(|victim| victim.start).fold(f64::INFINITY, f64::min)),
        };
        let highest = all().map(|victim| victim.tier).min().unwrap_or(u32::MAX);
        let gpus = |(at, victim): (usize, &Self)| {
            // Those of a seat count once.
            let again = has_seats && victims[..at].iter().any(|(before, _)| before.seat == victim.seat);
            if again { 0 } else { u64::from(victim.gpus) }
        };
        (Reverse(highest), first, all().enumerate().map(gpus).sum(), victims.len(), server)
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether a pass may find that a quota no longer lets a job run, though nobody waits.
    pub(crate) fn quotas_shift(&self) -> bool {
        self.stays.len() > self.free.len() && self.quota_usage.as_ref().is_some_and(|usage| usage.lends_and_caps)
    }

    /// Returns whether owners have quotas.
    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        self.quota_usage.is_some()
    }

    /// Returns what decides which jobs a job may evict if it started now on that many GPUs.
    pub(crate) fn evictor(&self, job: Job, num_gpus: u32) -> (u32, Claimant, bool) {
        let tier = if self.evicts { self.jobs.tier(job.index()) } else { 0 };
        (tier, self.claimant(job, num_gpus), self.may_make_room(job))
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
    ) -> Option<(GpuType, Option<Server>, Vec<Slot>)> {
        let jobs = self.jobs;
        let lower = self.preemptible.as_ref().map_or(0, |preemptible| preemptible.gpus_after(jobs.tier(job.index())));
        if self.quota_usage.is_none() && (lower == 0 || lower + self.cluster.idle_units() < u64::from(num_gpus)) {
            // Most attempts end here: all lower priorities together do not hold enough.
            return None;
        }
        if self.claimant(job, num_gpus) != Claimant::Within || !self.may_make_room(job) {
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
                if self.preemptible.as_ref().is_some_and(|preemptible| !preemptible.is_futile(&attempt)) {
                    let there = |preemptible: &Preemptible, server, enough| preemptible.highest(server, after, enough);
                    if let Some((server, chosen)) = self.server_of_least(Some(gpu_type), num_gpus, there, yields) {
                        return Some((gpu_type, Some(server), chosen));
                    }
                    if !self.hides()
                        && let Some(preemptible) = &mut self.preemptible
                    {
                        preemptible.remember(attempt);
                    }
                }
                if !self.placer.binds(jobs.form(job.index())) {
                    continue;
                }
            }
            let victims = self.victims(gpu_type, after, yields);
            if let Some(chosen) = self.fewest_of_all(victims, gpu_type, self.gang(job, num_gpus)) {
                return Some((gpu_type, None, chosen));
            }
        }
        None
    }

    /// Returns the stays of a GPU type that `may` be evicted, all of them `after` a tier or over quota; the first to go
    /// first.
    fn victims(
        &self,
        gpu_type: GpuType,
        after: Option<u32>,
        may: impl Fn(&Evictable) -> bool,
    ) -> BinaryHeap<Reverse<(Turn, Slot)>> {
        let Some(preemptible) = &self.preemptible else { return BinaryHeap::new() };
        let mut victims = Vec::new();
        for server in (0..self.cluster.num_servers()).map(Server::at) {
            if self.cluster.type_of(server) == gpu_type && preemptible.gpus_for(server, after) > 0 {
                let here = preemptible.on(server).iter();
                let going = here.filter(|(evictable, _)| evictable.home == server && may(evictable));
                victims.extend(going.map(|(evictable, _)| {
                    let victim = self.victim(evictable);
                    Reverse((victim.turn, victim.slot))
                }));
            }
        }
        victims.into()
    }

    fn victim(&self, evictable: &Evictable) -> Victim {
        let lost = if self.losses.evictions { f64::from(evictable.gpus) * self.unsaved(evictable.slot) } else { 0.0 };
        Victim::new(evictable, self.stays[evictable.slot.index()].seat, lost, self.victims)
    }

    /// Returns the server, of one GPU type or of all, where the victims of a gang cost least, and the victims there:
    /// stays that `may` be evicted. `there`: the least tier among them, and whether there are enough, for the first
    /// that hold so many GPUs of a server.
    pub(super) fn server_of_least(
        &mut self,
        gpu_type: Option<GpuType>,
        num_gpus: u32,
        there: impl Fn(&Preemptible, Server, u32) -> Option<u32>,
        may: impl Fn(&Evictable) -> bool,
    ) -> Option<(Server, Vec<Slot>)> {
        let mut bounds = std::mem::take(&mut self.preemptible.as_mut()?.bounds);
        bounds.clear();
        let (cluster, windows, preemptible) = (&self.cluster, &self.windows, self.preemptible.as_ref()?);
        for server in (0..cluster.num_servers()).map(Server::at) {
            let idle = cluster.idle(server);
            let is_wanted = idle < num_gpus
                && gpu_type.is_none_or(|of| cluster.type_of(server) == of)
                && windows.as_ref().is_none_or(|windows| !windows.hides(server));
            if is_wanted && let Some(tier) = there(preemptible, server, num_gpus - idle) {
                // No victims cost less.
                bounds.push((Reverse(tier), 0, u64::from(num_gpus - idle), 1, server));
            }
        }
        let first = bounds.iter().min().map(|bound| bound.4);
        let (mut least, mut chosen): (Option<Cost>, Vec<Slot>) = (None, Vec::new());
        let mut here: Vec<(Victim, u32)> = Vec::new();
        let others = bounds.iter().filter(|bound| Some(bound.4) != first);
        for &bound in bounds.iter().filter(|bound| Some(bound.4) == first).chain(others) {
            if least.is_some_and(|least| least < bound) {
                continue;
            }
            let server = bound.4;
            let mut idle = cluster.idle(server);
            here.clear();
            let going = preemptible.on(server).iter().filter(|(evictable, _)| may(evictable));
            here.extend(going.map(|(evictable, count)| (self.victim(evictable), *count)));
            here.sort_unstable_by_key(|(victim, _)| victim.turn);
            let (seats, mut leaving) = (self.seats.as_deref(), Leaving::default());
            let enough = here.iter().position(|&(victim, count)| {
                idle += if leaving.leave(seats, victim.seat) { count } else { 0 };
                idle >= num_gpus
            });
            let Some(last) = enough else { continue };
            here.truncate(last + 1);
            for at in (0..here.len()).rev() {
                let (victim, count) = here[at];
                let lacks = if leaving.stay(seats, victim.seat) { count } else { 0 };
                if idle - lacks >= num_gpus {
                    idle -= lacks;
                    here.remove(at);
                } else {
                    leaving.leave(seats, victim.seat);
                }
            }
            let cost = Victim::cost(&here, self.victims, server, seats.is_some());
            if least.is_none_or(|least| cost < least) {
                least = Some(cost);
                chosen.clear();
                chosen.extend(here.iter().map(|(victim, _)| victim.slot));
            }
        }
        if let Some(preemptible) = &mut self.preemptible {
            preemptible.bounds = bounds;
        }
        least.map(|cost| (cost.4, chosen))
    }

    /// Returns the victims in a whole pool whose GPUs let the run's placement place a gang larger than a server, or bound to a
    /// tier.
    fn fewest_of_all(
        &mut self,
        mut victims: BinaryHeap<Reverse<(Turn, Slot)>>,
        gpu_type: GpuType,
        gang: Gang,
    ) -> Option<Vec<Slot>> {
        let mut probes = Probes::default();
        probes.copy(&self.cluster);
        let (mut chosen, mut leaving) = (Vec::new(), Leaving::default());
        loop {
            let Reverse((_, slot)) = victims.pop()?;
            let stay = &self.stays[slot.index()];
            chosen.push(slot);
            if !leaving.leave(self.seats.as_deref(), stay.seat) {
                continue;
            }
            probes.give(&self.cluster, &seen(&stay.parts, self.windows.as_deref()));
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, gang) {
                break;
            }
        }
        for at in (0..chosen.len()).rev() {
            let stay = &self.stays[chosen[at].index()];
            let parts = seen(&stay.parts, self.windows.as_deref());
            if !leaving.stay(self.seats.as_deref(), stay.seat) {
                chosen.remove(at);
                continue;
            }
            probes.take(&self.cluster, &parts);
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, gang) {
                chosen.remove(at);
            } else {
                probes.give(&self.cluster, &parts);
                leaving.leave(self.seats.as_deref(), stay.seat);
            }
        }
        Some(chosen)
    }

    /// Ends the stays of victims and adds them to `evicted`. Their jobs wait.
    pub(super) fn evict_all(&mut self, victims: &[Slot], why: Why, evicted: &mut Vec<(Slot, Job)>) {
        evicted.extend(victims.iter().map(|&slot| (slot, self.evict(slot, why))));
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
            self.end_early(slot, why);
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

/// Returns what a victim holds on servers that are not hidden.
fn seen<'p>(parts: &'p [(Server, u32)], windows: Option<&MaintenanceWindows>) -> Cow<'p, [(Server, u32)]> {
    match windows {
        None => Cow::Borrowed(parts),
        Some(windows) => parts.iter().filter(|part| !windows.hides(part.0)).copied().collect(),
    }
}
