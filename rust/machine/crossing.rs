//! Feeds what a network of tiers leaves each spanning stay into its pace (docs/tiers.md).
//!
//! For example, when the second of three jobs on an uplink ends, the other two run faster from that instant on.

use super::cluster_state::ClusterState;
use crate::cluster::Network;
use crate::ids::{Job, Server, Slot};
use crate::outcome::{Crossings, Spanned};
use crate::speed::{Speed, thousandths};

impl<S: Speed> ClusterState<'_, S> {
    /// Adds a spanning stay to the links that it crosses.
    pub(super) fn cross(&mut self, slot: Slot) {
        let Some(fabric) = &mut self.fabric else { return };
        let stay = &self.stays[slot.index()];
        let intensity = self.jobs.intensity.map_or(1.0, |intensity| intensity[stay.job.index()]);
        fabric.join(slot, &stay.parts, thousandths(intensity));
        if let Some(loads) = &mut self.loads {
            let every = if self.saving.is_some() { stay.every } else { f64::INFINITY };
            loads.join(fabric, slot, [stay.start, stay.from, every], self.now);
        }
        let progress = self.progress_time(slot);
        if let Some(fabric) = &mut self.fabric {
            fabric.crossing(slot).counted = progress;
        }
    }

    /// Removes a spanning stay from the links that it crosses.
    pub(super) fn uncross(&mut self, slot: Slot) {
        self.count_uplinks(slot);
        let Some(fabric) = &mut self.fabric else { return };
        if let Some(loads) = &mut self.loads {
            loads.leave(fabric, slot, self.now);
        }
        let (job, own) = (self.stays[slot.index()].job.index(), fabric.crossing(slot));
        self.out.crossings.slowed[job] |= own.slowed;
        self.out.crossings.uplinks[job] += own.cost;
        fabric.leave(slot);
    }

    /// Updates bandwidth, pace and end of the stays whose links changed.
    pub(super) fn settle_crossings(&mut self) {
        let Some(fabric) = &mut self.fabric else { return };
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        fabric.drain_changed(&mut dirty);
        for &slot in &dirty {
            self.count_uplinks(slot);
            let Some(fabric) = &mut self.fabric else { break };
            let (own, changed) = fabric.update(slot);
            if !S::COUPLED || !changed {
                continue;
            }
            let stay = &mut self.stays[slot.index()];
            let servers = stay.parts.len() as u32;
            own.slowed |= own.bandwidth < own.own;
            own.share = 0.0;
            self.speed.feel(&mut stay.pace, own.bandwidth);
            let (unit, traffic) = self.speed.unit_and_traffic(&stay.pace, servers, stay.contention);
            if own.without > own.bandwidth {
                if own.apart == 0.0 {
                    let mut apart = stay.pace;
                    self.speed.feel(&mut apart, own.without);
                    own.apart = self.speed.unit(&apart, servers, stay.contention);
                }
                own.share = (unit - own.apart) / unit;
            }
            if let Some(loads) = &mut self.loads {
                loads.update(fabric, slot, traffic);
            }
            if stay.set_unit(unit * stay.slowed, &self.speed, self.now, self.clock) {
                self.set_end(slot);
            }
        }
        self.dirty = dirty;
        if let (Some(loads), Some(fabric)) = (&mut self.loads, &self.fabric) {
            loads.settle(fabric, self.now);
        }
    }

    /// Writes what a stay met, which ends.
    pub(super) fn tell_crossing(&mut self, slot: Slot) {
        let Some(fabric) = &mut self.fabric else { return };
        if self.out.links.is_kept {
            let stay = &self.stays[slot.index()];
            let every = if self.saving.is_some() { stay.every } else { f64::INFINITY };
            let (from, ring) = (stay.from, self.speed.ring(&stay.pace));
            self.out.links.push(stay.job, &stay.parts, Spanned { start: stay.start, from, end: self.now, every, ring });
        }
        let job = self.stays[slot.index()].job.index();
        let Crossings { most, own: bandwidth, .. } = &mut self.out.crossings;
        most[job] = most[job].max(fabric.most(slot));
        bandwidth[job] = fabric.own(slot);
    }

    /// Returns the bandwidth that a job would get there now, bytes/s, had it given back what it holds.
    pub(crate) fn bandwidth_on(&self, job: Job, parts: &[(Server, u32)], network: &Network) -> f64 {
        if parts.len() < 2 {
            return network.intra_bandwidth;
        }
        let own = self.stays.iter().position(|stay| stay.is_live() && stay.job == job);
        let own = own.filter(|&slot| self.stays[slot].parts.len() > 1).map(Slot::at);
        if let Some(fabric) = &self.fabric {
            let intensity = self.jobs.intensity.map_or(1.0, |intensity| intensity[job.index()]);
            return fabric.would_leave(own, parts, thousandths(intensity));
        }
        if !network.is_flat() {
            return network.at_best(parts.iter().map(|part| part.1).sum(), parts.len() as u32);
        }
        let others = |server: Server| {
            let members = self.link_contention.members(server.index());
            members.iter().filter(|&&other| Some(other) != own).count()
        };
        let contention = 1 + parts.iter().map(|part| others(part.0)).max().unwrap_or(0);
        network.left_to(contention as u32)
    }

    /// Adds the time that its uplinks cost a stay since this was last called.
    #[inline]
    fn count_uplinks(&mut self, slot: Slot) {
        let progress = self.progress_time(slot);
        let Some(fabric) = &mut self.fabric else { return };
        let own = fabric.crossing(slot);
        let passed = self.clock.seconds(progress) - self.clock.seconds(own.counted);
        own.counted = progress;
        if own.share > 0.0 && passed > 0.0 {
            let cost = passed * own.share;
            own.cost += cost;
            self.out.links.lost[own.tier] += cost * f64::from(own.gpus);
        }
    }

    /// Returns the time in which a stay made progress so far (machine time).
    fn progress_time(&self, slot: Slot) -> f64 {
        let stay = &self.stays[slot.index()];
        let saving = self.saving.map_or(0.0, |cost| stay.saves.taken(self.now, cost));
        f64::max(0.0, self.now - stay.from - saving)
    }
}
