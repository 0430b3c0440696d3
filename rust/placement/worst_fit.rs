//! Worst-fit: takes the server with the most idle GPUs, so that load spreads over the servers.
//!
//! Gangs larger than the largest server are placed as under `consolidate`. For example, with 3, 8 and 5 idle GPUs on
//! three servers, a gang of 2 goes to the second.
//!
//! Cost: O(log servers).

use super::{Scratch, consolidate};
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    if claim.num_gpus > cluster.largest {
        return consolidate::place(cluster, claim, scratch, grant);
    }
    let roomiest = cluster.by_idle().and_then(|index| {
        let most = index.most_below(cluster.largest + 1).filter(|&most| most >= claim.num_gpus)?;
        index.with(most).next()
    });
    let Some(server) = roomiest else { return false };
    cluster.take(server, claim.num_gpus, claim, grant);
    true
}
