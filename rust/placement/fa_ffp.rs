//! Fragment-aware first-fit packing (FA-FFP, Algorithm 2) as described by the paper's prose.
//!
//! A gang goes where it leaves the fewest GPUs idle. A server on which a job runs is opened, and opened servers come
//! first. For example, with 3 idle GPUs on an opened server and 4 on an empty one, a gang of 2 goes to the first and
//! a gang of 4 to the second. A gang of 5 takes 3 GPUs of the first and 2 of the second.
//!
//! Cost: O(servers used).

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant, IdleIndex};

/// Chooses the opened server with the fewest idle GPUs that holds the gang, or else such an unopened server. If there
/// is neither, spreads the gang over opened, then unopened servers, most idle GPUs first.
#[inline(always)]
pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    let tightest = |index: Option<&IdleIndex>| index.and_then(|i| i.tightest(claim.num_gpus));
    if let Some(server) = tightest(cluster.opened()).or_else(|| tightest(cluster.unopened())) {
        cluster.take(server, claim.num_gpus, claim, grant);
        return true;
    }
    let mut need = claim.num_gpus;
    for index in [cluster.opened(), cluster.unopened()].into_iter().flatten() {
        let mut bound = cluster.largest + 1;
        while need > 0 {
            let Some(idle) = index.most_below(bound).filter(|&idle| idle >= claim.form.pod) else { break };
            let pods = claim.whole_pods(idle);
            for server in index.with(idle) {
                let count = need.min(pods);
                scratch.chosen.push((server, count));
                need -= count;
                if need == 0 {
                    break;
                }
            }
            bound = idle;
        }
    }
    scratch.take(cluster, claim, grant)
}
