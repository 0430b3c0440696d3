//! Random: draws uniformly without replacement from the idle GPUs.
//!
//! Invariant: a gang of n GPUs draws n numbers if enough GPUs are idle, and none otherwise. A drawn number is a rank
//! among the idle GPUs by (server, GPU). For example, with 1, 0 and 4 idle GPUs on three servers, rank 0 is on the
//! first server and rank 1 on the third.
//!
//! Cost: O(G_j log servers), and a set of G_j ranks.

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant};
use crate::rng::SplitMix64;
use std::collections::BTreeSet;

/// Runs Floyd's algorithm over the ranks of the idle GPUs in (server, GPU) order.
pub(super) fn place(
    cluster: &mut Cluster,
    claim: &Claim,
    rng: &mut SplitMix64,
    scratch: &mut Scratch,
    grant: &mut Grant,
) -> bool {
    let idle = cluster.total_idle;
    let mut ranks = BTreeSet::new();
    for i in idle - u64::from(claim.num_gpus)..idle {
        let drawn = rng.below(i + 1);
        if !ranks.insert(drawn) {
            ranks.insert(i);
        }
    }
    for rank in ranks {
        let Some(server) = cluster.server_of_rank(rank) else { return false };
        match scratch.chosen.last_mut() {
            Some(last) if last.0 == server => last.1 += 1,
            _ => scratch.chosen.push((server, 1)),
        }
    }
    scratch.take(cluster, claim, grant)
}
