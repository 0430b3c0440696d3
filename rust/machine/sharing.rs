//! What the floor does where jobs hold shares of GPUs, and where a placement looks at fragmentation.
//!
//! For example, when the second of two jobs on a GPU ends, the first runs at its full rate from then on.

use super::floor::Floor;
use crate::cluster::Want;
use crate::ids::{GpuType, Job};
use crate::speed::Speed;
use crate::trace::{Demand, Jobs};
use std::collections::BTreeMap;

/// What the jobs ask for, as the servers of a type see it.
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

impl<S: Speed> Floor<'_, S> {
    /// Keeps what idle GPUs are lost to the demands of the jobs, from now on.
    pub(crate) fn weigh(&mut self) {
        if self.cluster.is_weighed() {
            return;
        }
        let jobs = self.jobs;
        self.cluster.weigh(|gpu_type| wants(&jobs, gpu_type));
    }

    /// Whether every stay runs at the pace that its servers and its GPU give it.
    #[inline]
    pub(super) fn is_settled(&self) -> bool {
        self.crowd.is_settled() && self.beside.as_ref().is_none_or(|beside| beside.is_settled())
    }

    /// New paces and ends of the shares whose GPU changed.
    pub(super) fn settle_shares(&mut self) {
        let Some(beside) = &mut self.beside else { return };
        self.dirty.clear();
        beside.drain_changed(&mut self.dirty);
        for &slot in &self.dirty {
            let stay = &mut self.stays[slot.index()];
            stay.slowed = beside.slowdown(slot);
            if stay.set_pace(&self.speed, self.now, self.clock) {
                self.ends.set(slot.number(), stay.end(self.clock), stay.job.number());
            }
        }
    }
}
