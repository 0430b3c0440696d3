//! Fragmentation gradient descent: places jobs where fragmentation rises least (Weng et al., "Beware of
//! Fragmentation", ATC 2023).
//!
//! A share goes to the GPU, and whole GPUs go to the server, where the choice costs the demands of the job table
//! least; ties by (server, GPU). Gangs larger than a server are placed as under `consolidate`. For example, where
//! half of the jobs ask for 4 GPUs, a job of 1 GPU prefers a server with 3 idle GPUs to one with 4.
//!
//! Cost: O(O_max) for whole GPUs, O(rooms that occur + O_max) for a share.

use super::{Scratch, consolidate};
use crate::cluster::{Claim, Cluster, Grant};
use crate::ids::Server;

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    if claim.num_gpus > cluster.largest {
        return consolidate::place(cluster, claim, scratch, grant);
    }
    let Some(loss) = cluster.loss() else { return false };
    let best = servers(cluster, claim.num_gpus).map(|(empty, s)| (loss.of_gpus(empty, claim.num_gpus), s)).min();
    let Some((_, server)) = best else { return false };
    cluster.take(server, claim.num_gpus, claim, grant);
    true
}

/// Returns the GPU for a share.
pub(super) fn gpu(cluster: &Cluster, share: u32) -> Option<usize> {
    let (shares, loss) = (cluster.shares()?, cluster.loss()?);
    let opened = shares.opened(share).map(|(room, gpu)| (loss.of_share(room, share), gpu));
    let opening =
        servers(cluster, 1).filter_map(|(empty, s)| Some((loss.of_opening(empty, share), shares.empty_on(s)?)));
    opened.chain(opening).min().map(|(_, gpu)| gpu)
}

/// Returns (idle GPUs, the first server with so many), from a number on.
fn servers(cluster: &Cluster, from: u32) -> impl Iterator<Item = (u32, Server)> + '_ {
    let index = cluster.by_idle();
    (from..=cluster.largest).filter_map(move |idle| Some((idle, index?.with(idle).next()?)))
}
