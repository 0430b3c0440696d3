//! Least-loaded, the paper's LS: the idle GPUs with least accumulated time, ties by (server, GPU). Algorithm 2 prints
//! FA-FFP like this too (line 4). O(G_j (O_s + log servers)).

use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
    for _ in 0..claim.num_gpus {
        cluster.take_least_of_all(claim, grant);
    }
    true
}
