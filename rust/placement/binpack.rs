//! Binpack: takes the idle GPUs of the server with fewest of them, then of the next, until the gang has enough.
//!
//! So do Kubernetes and KAI pack pods. The caller has checked that enough pods are idle. Unlike `best-fit` it never
//! waits for one server that holds the gang. For example, with 3, 8 and 5 idle GPUs on three servers, a gang of 6 takes
//! three GPUs of the first server and three of the third; in pods of 2 GPUs it takes two of the first and four of the
//! third.
//!
//! Cost: O(servers used).

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    let Some(index) = cluster.by_idle() else { return false };
    let mut need = claim.num_gpus;
    for (server, idle) in index.tightest_first(claim.form.pod) {
        let count = need.min(claim.whole_pods(idle));
        scratch.chosen.push((server, count));
        need -= count;
        if need == 0 {
            break;
        }
    }
    scratch.take(cluster, claim, grant)
}
