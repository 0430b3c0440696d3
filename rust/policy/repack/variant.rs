//! Other rules than that of docs/repack.md, for `benches/ablation.py` alone. Only a build with the feature `ablation` has
//! them. It reads from the environment variable `RINGBCO_VARIANT` which one to follow.

#[cfg(feature = "ablation")]
use super::{Repack, Waits, foresight::Foresight};
#[cfg(feature = "ablation")]
use crate::{ids::Server, machine::Floor, speed::Speed};

/// Whether the run follows the variant of that name.
#[cfg(not(feature = "ablation"))]
#[inline(always)]
pub(super) const fn is(_name: &str) -> bool {
    false
}

/// Whether the run follows the variant of that name.
#[cfg(feature = "ablation")]
pub(super) fn is(name: &str) -> bool {
    static VARIANT: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| std::env::var("RINGBCO_VARIANT").unwrap_or_default());
    *VARIANT == name
}

#[cfg(feature = "ablation")]
impl<F: Foresight> Repack<F> {
    /// Starts a job on the servers with the most idle GPUs, if running there costs less than waiting.
    pub(super) fn spread<S: Speed>(&mut self, floor: &mut Floor<'_, S>, waits: Waits) -> bool {
        let mut servers: Vec<(u32, usize)> =
            (0..floor.cluster.pool(0).idle.len()).map(|s| (floor.cluster.pool(0).idle[s], s)).collect();
        servers.sort_by_key(|&(idle, server)| (std::cmp::Reverse(idle), server));
        let (mut wanted, mut parts) = (waits.num_gpus, Vec::new());
        for (idle, server) in servers.into_iter().filter(|server| server.0 > 0) {
            let taken = idle.min(wanted);
            parts.push((Server::at(server), taken));
            wanted -= taken;
            if wanted == 0 {
                break;
            }
        }
        let job = waits.rank.1;
        let slower = floor.unit_on(job, parts.len() as u32) / floor.unit_at_best(job) - 1.0;
        parts.sort_unstable();
        if wanted > 0 || !self.waits_for(floor, waits, waits.run * slower) || floor.place_at(job, &parts).is_err() {
            return false;
        }
        self.start(floor, job);
        true
    }
}
