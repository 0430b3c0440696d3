//! Least-loaded, the paper's LS: takes the idle GPUs with least accumulated time, ties by (server, GPU).
//!
//! FA-FFP with `--variant literal` (Algorithm 2 as printed, line 4) uses this placement, too. The choice and its ties
//! are in `cluster/times.rs`. The caller has checked that enough pods are idle. For example, of idle GPUs with
//! U of 5 s, 1 s and 3 s a gang of 2 gets the second and the third. Pod by pod, a larger pod goes to the server where
//! its idle GPUs with least U have the least sum.
//!
//! Cost: O(G_j (O_s + log servers)), with O_s GPUs on a server, and O(O_s log O_s) for each server that changed since a
//! pod of that size was placed.

use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
    for _ in 0..claim.num_gpus / claim.form.pod {
        cluster.take_least_used_pod(claim, grant);
    }
    true
}
