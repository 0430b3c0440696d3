//! Last-fit: the idle GPUs of the last servers, from the highest index down.
//!
//! The caller has seen that enough GPUs are idle. For example, with 1, 0 and 4 idle GPUs on three servers, a gang of 5
//! takes four GPUs of the third server and one of the first.
//!
//! Cost: O(servers used).

use crate::cluster::{Claim, Cluster, Grant};
use crate::ids::Server;

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
    let mut need = claim.num_gpus;
    let mut below = cluster.idle.len();
    while need > 0 {
        let Some(server) = cluster.with_idle().and_then(|servers| servers.prev(below)).map(Server::at) else {
            return false;
        };
        let count = need.min(cluster.idle[server.index()]);
        cluster.take(server, count, claim, grant);
        need -= count;
        below = server.index();
    }
    true
}
