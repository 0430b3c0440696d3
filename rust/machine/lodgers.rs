//! Running jobs that others may evict, server by server (docs/priorities.md#eviction).
//!
//! Invariant: `here` of a server has the stays with GPUs there that are preemptible or over quota, and `gpus` how many
//! they hold there. For example, a server on which only jobs run that may not be evicted is never looked at for victims.

use super::floor::Floor;
use crate::ids::{Server, Slot};
use crate::speed::Speed;
use std::collections::BTreeMap;

/// Who may go, and from where.
#[derive(Clone, Debug)]
pub(super) struct Lodgers {
    here: Vec<Vec<(Slot, u32)>>,
    gpus: Vec<u32>,
    /// GPUs that they hold by tier.
    by_tier: BTreeMap<u32, u64>,
}

impl Lodgers {
    pub(super) fn new(servers: usize) -> Self {
        Self { here: vec![Vec::new(); servers], gpus: vec![0; servers], by_tier: BTreeMap::new() }
    }

    /// Stays on a server, with the GPUs that each holds there.
    pub(super) fn on(&self, server: Server) -> &[(Slot, u32)] {
        &self.here[server.index()]
    }

    /// GPUs that they hold there.
    #[inline]
    pub(super) fn gpus_on(&self, server: Server) -> u32 {
        self.gpus[server.index()]
    }

    /// GPUs that those of later tiers hold, over quota or not.
    pub(super) fn gpus_after(&self, tier: u32) -> u64 {
        self.by_tier.range(tier.saturating_add(1)..).map(|(_, gpus)| gpus).sum()
    }

    fn add(&mut self, slot: Slot, tier: u32, parts: &[(Server, u32)]) {
        for &(server, count) in parts {
            self.here[server.index()].push((slot, count));
            self.gpus[server.index()] += count;
            *self.by_tier.entry(tier).or_default() += u64::from(count);
        }
    }

    fn remove(&mut self, slot: Slot, tier: u32, parts: &[(Server, u32)]) {
        for &(server, _) in parts {
            let here = &mut self.here[server.index()];
            let Some(at) = here.iter().position(|lodger| lodger.0 == slot) else { continue };
            let (_, count) = here.swap_remove(at);
            self.gpus[server.index()] -= count;
            if let Some(gpus) = self.by_tier.get_mut(&tier) {
                *gpus -= u64::from(count);
            }
        }
    }
}

impl<S: Speed> Floor<'_, S> {
    /// A stay begins, or goes on.
    pub(super) fn take_in(&mut self, slot: Slot) {
        let Some(mut lodgers) = self.lodgers.take() else { return };
        let stay = &self.stays[slot.index()];
        let job = stay.job.index();
        if self.jobs.may_be_evicted(job) || self.is_over_quota(slot) {
            lodgers.add(slot, self.jobs.tier(job), &stay.parts);
        }
        self.lodgers = Some(lodgers);
    }

    /// A stay ends.
    pub(super) fn send_off(&mut self, slot: Slot) {
        let Some(lodgers) = &mut self.lodgers else { return };
        let stay = &self.stays[slot.index()];
        lodgers.remove(slot, self.jobs.tier(stay.job.index()), &stay.parts);
    }
}
