//! Emptiest: takes the idle GPUs of the server with most of them, then of the next, until the gang has enough.
//!
//! The caller has checked that enough pods are idle. Servers that hold as many pods are equal. Unlike `worst-fit` it never waits for one server that holds the
//! gang. For example, with 3, 8 and 5 idle GPUs on three servers, a gang of 10 takes eight GPUs of the second server
//! and two of the third.
//!
//! Cost: O(servers used * log servers).

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    let Some(index) = cluster.by_idle() else { return false };
    let mut need = claim.num_gpus;
    let mut bound = cluster.largest + 1;
    while need > 0 {
        let Some(most) = index.most_below(bound) else { return false };
        let pods = claim.whole_pods(most);
        if pods == 0 {
            return false;
        }
        for server in index.between(pods, most) {
            let count = need.min(pods);
            scratch.chosen.push((server, count));
            need -= count;
            if need == 0 {
                break;
            }
        }
        bound = pods;
    }
    scratch.take(cluster, claim, grant)
}
