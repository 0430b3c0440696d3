//! Least-busy server-GPU first (LBSGF, Algorithm 3): takes the servers with the least accumulated work.
//!
//! Under `literal`, busy GPUs count among those that a prefix of the servers offers. So a gang may wait although
//! enough GPUs are idle elsewhere. For example, with lambda = 1 a gang of 8 waits if the least busy server has 8 GPUs
//! and one of them is busy. Under `practical` the next server is tried too.
//!
//! Cost: O(servers examined + their idle GPUs).

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant};
use crate::options::Variant;

/// Ranks servers by mean accumulated time, least first (Alg. 3, line 2). Takes the shortest prefix that offers
/// lambda G_j GPUs (line 3): `literal` counts all GPUs of a server, `practical` its idle ones. If no prefix offers so
/// many, the prefix is all servers. Chooses the G_j idle GPUs in it with least accumulated time (line 4); pod by pod
/// where pods have several GPUs.
pub(super) fn place(
    cluster: &mut Cluster,
    claim: &Claim,
    variant: Variant,
    lambda: f64,
    scratch: &mut Scratch,
    grant: &mut Grant,
) -> bool {
    let enough = lambda * f64::from(claim.num_gpus);
    let (mut offered, mut candidates) = (0u64, 0u64);
    scratch.servers.clear();
    let Cluster { sizes, idle, gpu_times: Some(times), .. } = &mut *cluster else { return false };
    times.by_mean(|server| {
        let here = idle[server.index()];
        let here = claim.whole_pods(here);
        let counted = if variant == Variant::Literal { sizes[server.index()] } else { here };
        offered += u64::from(counted);
        candidates += u64::from(here);
        if here > 0 {
            scratch.servers.push(server);
        }
        (offered as f64) < enough
    });
    if candidates < u64::from(claim.num_gpus) {
        return false;
    }
    scratch.pool.clear();
    if claim.form.pod > 1 {
        times.least_pods_of(&scratch.servers, claim, &mut scratch.pool, &mut scratch.chosen);
        return scratch.take(cluster, claim, grant);
    }
    for &server in &scratch.servers {
        times.idle_gpus(server, &mut scratch.pool);
    }
    times.least_of(&mut scratch.pool, claim.num_gpus, &mut scratch.chosen);
    scratch.take(cluster, claim, grant)
}

/// Returns whether the literal prefix has enough idle GPUs; `other`: idle GPUs to assume instead of the present ones.
pub(super) fn fits(cluster: &mut Cluster, other: Option<&[u32]>, num_gpus: u32, lambda: f64) -> bool {
    let enough = lambda * f64::from(num_gpus);
    let (mut offered, mut candidates) = (0u64, 0u64);
    let Cluster { sizes, idle, gpu_times: Some(times), .. } = &mut *cluster else { return false };
    let idle = other.unwrap_or(idle);
    times.by_mean(|server| {
        offered += u64::from(sizes[server.index()]);
        candidates += u64::from(idle[server.index()]);
        (offered as f64) < enough
    });
    candidates >= u64::from(num_gpus)
}
