//! Handles jobs that hold shares of GPUs, and placements that weigh fragmentation.
//!
//! For example, when the second of two jobs on a GPU ends, the first runs at its full rate from then on.

use super::cluster_state::ClusterState;
use crate::cluster::Want;
use crate::ids::{GpuType, Job, Slot};
use crate::speed::Speed;
use crate::trace::{Demand, Jobs};
use std::collections::BTreeMap;

/// Returns the demands of the jobs as the servers of a type see them.
pub(crate) fn wants(jobs: &Jobs<'_>, gpu_type: GpuType) -> Vec<Want> {
    let mut demands: BTreeMap<Demand, (usize, u64)> = BTreeMap::new();
    for row in 0..jobs.len() {
        demands.entry(jobs.demand(Job::at(row))).or_insert((row, 0)).1 += 1;
    }
    let want = |(demand, (row, count)): (Demand, (usize, u64))| Want {
        num_gpus: jobs.num_gpus[row],
        share: jobs.share_of(row),
        usable: jobs.tried_by(demand).iter().any(|&(of, _)| of == gpu_type || of == GpuType::NONE),
        jobs: count,
    };
    demands.into_iter().map(want).collect()
}

impl<S: Speed> ClusterState<'_, S> {
    /// Tracks from now on which idle GPUs are lost to the demands of the jobs.
    pub(crate) fn weigh(&mut self) {
        if self.cluster.is_weighed() {
            return;
        }
        let jobs = self.jobs;
        self.cluster.weigh(|gpu_type| wants(&jobs, gpu_type));
    }

    /// Returns whether every stay runs at the pace that its servers and its GPU give it.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.link_contention.is_settled()
            && self.co_location.as_ref().is_none_or(|co_location| co_location.is_settled())
            && self.seats.as_ref().is_none_or(|seats| seats.is_settled())
    }

    /// Returns the smallest share of a GPU that a running job holds; 1 if none holds a share.
    pub(super) fn smallest_share(&self) -> f64 {
        let live = self.stays.iter().filter(|stay| stay.is_live());
        live.map(|stay| self.jobs.gpus(stay.job.index())).fold(1.0, f64::min)
    }

    /// Returns the jobs that make no progress, each with the only other job on its GPU.
    pub(super) fn starved(&self) -> impl Iterator<Item = (Job, Job)> + '_ {
        let stalled = self.stays.iter().zip(0..).filter(|(stay, _)| stay.is_live() && stay.unit == f64::INFINITY);
        stalled.filter_map(|(stay, slot)| {
            let slot = Slot::new(slot);
            let shares = self.co_location.as_ref().and_then(|co_location| co_location.other(slot));
            let other = shares.or_else(|| self.beside(slot).next())?;
            Some((stay.job, self.stays[other.index()].job))
        })
    }

    /// Updates the slowdown of a stay that holds a share by the other shares on its GPU.
    pub(super) fn meet(&mut self, slot: Slot) {
        let Some(co_location) = &self.co_location else { return };
        let other = co_location.other(slot).map(|other| self.stays[other.index()].pace);
        let stay = &mut self.stays[slot.index()];
        let measured = self.speed.meet(&mut stay.pace, other.as_ref());
        stay.slowed = if measured { 1.0 } else { co_location.slowdown(slot) };
    }

    /// Updates pace and end of the shares whose GPU changed.
    pub(super) fn settle_shares(&mut self) {
        let Some(co_location) = &mut self.co_location else { return };
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        co_location.drain_changed(&mut dirty);
        for &slot in &dirty {
            self.meet(slot);
            let stay = &mut self.stays[slot.index()];
            if stay.set_pace(&self.speed, self.now, self.clock) {
                self.set_end(slot);
            }
        }
        self.dirty = dirty;
    }
}
