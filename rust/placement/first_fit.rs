//! First-fit: takes the first idle GPUs by (server, GPU).
//!
//! The caller has checked that enough pods are idle. For example, with 1, 0 and 4 idle GPUs on three servers, a gang
//! of 3 takes one GPU of the first server and two of the third.
//!
//! Cost: O(servers used).

use crate::cluster::{Claim, Cluster, Grant};
use crate::ids::Server;

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
    let mut need = claim.num_gpus;
    let mut from = 0;
    while need > 0 {
        let Some(server) = cluster.with_idle().and_then(|servers| servers.next(from)).map(Server::at) else {
            return false;
        };
        from = server.index() + 1;
        let count = need.min(claim.whole_pods(cluster.idle[server.index()]));
        if count > 0 {
            cluster.take(server, count, claim, grant);
            need -= count;
        }
    }
    true
}
