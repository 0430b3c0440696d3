//! Making room: whom a job of higher priority evicts (docs/priorities.md#eviction).
//!
//! Invariant: either victims were evicted and the job's GPUs are taken, or nothing has changed. For example, if a
//! server of 8 GPUs runs a (4 GPUs, 1,000 s since its last checkpoint), b (2 GPUs, 500 s) and c (2 GPUs, 100 s), a job
//! of 3 GPUs evicts b and c: c is taken first, then b, and neither is enough alone.
//!
//! An attempt costs the running jobs, sorted. There is one for each demand that a pass cannot place.

use super::floor::Floor;
use super::holdings::Claimant;
use crate::decisions::Verb;
use crate::ids::{GpuType, Job, Server, Slot};
use crate::placement::Probes;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A running job that may be evicted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Victim {
    slot: Slot,
    /// GPUs x seconds of progress since its last checkpoint.
    key: f64,
}

impl<S: Speed> Floor<'_, S> {
    /// Whether jobs may evict others.
    #[inline]
    pub(crate) fn makes_room(&self) -> bool {
        self.evicts || self.holdings.is_some()
    }

    /// Whether owners have quotas.
    #[inline]
    pub(crate) fn has_quotas(&self) -> bool {
        self.holdings.is_some()
    }

    /// Evicts jobs so that another can be placed, and takes its GPUs: `start` must follow. Returns whether that could be
    /// done; `evicted` then has the stays that ended.
    pub(crate) fn place_by_evicting(&mut self, job: Job, evicted: &mut Vec<(Slot, Job)>) -> bool {
        evicted.clear();
        let (jobs, num_gpus) = (self.jobs, self.asks(job));
        if self.holdings.is_none() {
            // Most attempts end here: all lower priorities together do not hold enough.
            let lower = self.evictable.range(jobs.tier(job.index()).saturating_add(1)..).map(|(_, gpus)| gpus);
            let lower: u64 = lower.sum();
            if lower == 0 || lower + self.cluster.idle_units() < u64::from(num_gpus) {
                return false;
            }
        }
        if self.claimant(job) != Claimant::Within {
            return false;
        }
        for &(gpu_type, _) in jobs.tried(job) {
            let victims = self.victims(Some(gpu_type), |floor, slot| floor.yields(slot, job));
            if victims.is_empty() {
                continue;
            }
            if num_gpus <= self.cluster.of_mut(gpu_type).largest {
                if let Some((server, chosen)) = self.server_of_least(&victims, num_gpus) {
                    self.evict_all(&chosen, evicted);
                    self.out.decisions += 1;
                    self.take(job, &[(server, num_gpus)]);
                    return true;
                }
            } else if let Some(chosen) = self.fewest_of_all(&victims, gpu_type, num_gpus) {
                self.evict_all(&chosen, evicted);
                return self.place_on_type(job, num_gpus, gpu_type);
            }
        }
        false
    }

    /// Whether the stay at a slot makes room for a job within its quota.
    fn yields(&self, slot: Slot, job: Job) -> bool {
        let (own, other) = (job.index(), self.stays[slot.index()].job.index());
        let lower = self.evicts && self.jobs.tier(other) > self.jobs.tier(own) && self.jobs.may_be_evicted(other);
        lower || self.is_over_quota(slot)
    }

    /// The stays, of a GPU type or of all, that `may` go, in the order in which they do.
    pub(super) fn victims(&self, gpu_type: Option<GpuType>, may: impl Fn(&Self, Slot) -> bool) -> Vec<Victim> {
        let goes = |&slot: &Slot| {
            let stay = &self.stays[slot.index()];
            stay.is_live() && gpu_type.is_none_or(|of| stay.gpu_type == of) && may(self, slot)
        };
        let mut victims: Vec<Victim> = (0..self.stays.len())
            .map(Slot::at)
            .filter(goes)
            .map(|slot| {
                let stay = &self.stays[slot.index()];
                let (_, since) = stay.at_checkpoint(self.now, self.clock);
                let unsaved = self.clock.seconds(f64::max(0.0, self.now - since));
                Victim { slot, key: f64::from(stay.gpus()) * unsaved }
            })
            .collect();
        let place = |victim: &Victim| {
            let stay = &self.stays[victim.slot.index()];
            let job = stay.job.index();
            // No number is NaN or less than 0, so bits sort as they do.
            let (key, start) = (victim.key.to_bits(), stay.start.to_bits());
            (Reverse(self.jobs.tier(job)), key, Reverse(start), self.rows[job])
        };
        victims.sort_unstable_by_key(place);
        victims
    }

    /// The server on which a gang costs the least sum of keys, and who must go there.
    pub(super) fn server_of_least(&self, victims: &[Victim], num_gpus: u32) -> Option<(Server, Vec<Victim>)> {
        let mut by_server: BTreeMap<Server, Vec<(Victim, u32)>> = BTreeMap::new();
        for victim in victims {
            for &(server, count) in &self.stays[victim.slot.index()].parts {
                by_server.entry(server).or_default().push((*victim, count));
            }
        }
        let mut least: Option<(f64, Server, Vec<Victim>)> = None;
        for (server, here) in by_server {
            let mut idle = self.cluster.idle(server);
            if idle >= num_gpus {
                continue;
            }
            let enough = here.iter().position(|&(_, count)| {
                idle += count;
                idle >= num_gpus
            });
            let Some(last) = enough else { continue };
            let mut chosen = here[..=last].to_vec();
            for at in (0..chosen.len()).rev() {
                if idle - chosen[at].1 >= num_gpus {
                    idle -= chosen.remove(at).1;
                }
            }
            let sum: f64 = chosen.iter().map(|(victim, _)| victim.key).sum();
            if least.as_ref().is_none_or(|least| sum < least.0) {
                least = Some((sum, server, chosen.into_iter().map(|(victim, _)| victim).collect()));
            }
        }
        least.map(|(_, server, chosen)| (server, chosen))
    }

    /// Who must go, of a whole pool, so that the run's placement finds GPUs for a gang larger than a server.
    fn fewest_of_all(&mut self, victims: &[Victim], gpu_type: GpuType, num_gpus: u32) -> Option<Vec<Victim>> {
        let mut probes = Probes::default();
        probes.copy(&self.cluster);
        let mut last = None;
        for (at, victim) in victims.iter().enumerate() {
            probes.give(&self.cluster, &self.stays[victim.slot.index()].parts);
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, num_gpus) {
                last = Some(at);
                break;
            }
        }
        let mut chosen = victims[..=last?].to_vec();
        for at in (0..chosen.len()).rev() {
            let parts = &self.stays[chosen[at].slot.index()].parts;
            probes.take(&self.cluster, parts);
            if self.placer.fits(&mut self.cluster, &probes, gpu_type, num_gpus) {
                chosen.remove(at);
            } else {
                probes.give(&self.cluster, parts);
            }
        }
        Some(chosen)
    }

    /// Ends the stays of victims. Their jobs keep their progress and wait; `evicted` has them.
    pub(super) fn evict_all(&mut self, victims: &[Victim], evicted: &mut Vec<(Slot, Job)>) {
        for &Victim { slot, .. } in victims {
            let stay = &self.stays[slot.index()];
            let (job, started) = (stay.job, stay.start);
            if self.record_log {
                self.out.log.push(self.now, Verb::Stop, job, &[]);
            }
            if started < self.now {
                self.out.evictions[job.index()] += 1;
                self.vacate(slot, None);
            } else {
                // A stay of no length was none.
                if !self.out.has_stayed(job.index()) {
                    self.out.start[job.index()] = f64::NAN;
                }
                self.leave(slot);
            }
            self.turn_wait(job);
            evicted.push((slot, job));
        }
        if self.outside {
            self.evicted.extend(evicted.iter().map(|&(_, job)| job));
        }
    }
}
