//! Least-busy server-GPU first (Algorithm 3). O(servers looked at + their idle GPUs).

use crate::cluster::{Claim, Cluster, Grant};
use crate::options::Variant;

/// Servers by mean accumulated time, least first (Alg. 3, line 2); the shortest prefix that offers lambda G_j GPUs
/// (line 3: all of a server's for `literal`, its idle ones for `practical`), or all servers where none does; then
/// the G_j idle GPUs in it with least accumulated time (line 4).
pub(super) fn place(
    cluster: &mut Cluster,
    claim: &Claim,
    variant: Variant,
    lambda: f64,
    pool: &mut Vec<(f64, u32)>,
    grant: &mut Grant,
) -> bool {
    let enough = lambda * f64::from(claim.num_gpus);
    let mut prefix = Vec::new();
    let (mut offered, mut candidates) = (0u64, 0u64);
    let mut chosen = Vec::new();
    let Cluster { sizes, idle, gpu_times: Some(times), .. } = &mut *cluster else { return false };
    for server in times.by_mean() {
        let here = idle[server as usize];
        let counted = if variant == Variant::Literal { sizes[server as usize] } else { here };
        offered += u64::from(counted);
        candidates += u64::from(here);
        if here > 0 {
            prefix.push(server);
        }
        if offered as f64 >= enough {
            break;
        }
    }
    if candidates < u64::from(claim.num_gpus) {
        return false;
    }
    pool.clear();
    for server in prefix {
        times.idle_gpus(server, pool);
    }
    times.least_of(pool, claim.num_gpus, &mut chosen);
    for &(server, count) in &chosen {
        cluster.take(server, count, claim, grant);
    }
    true
}

/// Whether the literal prefix has enough idle GPUs; `other`: idle GPUs to reckon with in place of those of now.
pub(super) fn fits(cluster: &mut Cluster, other: Option<&[u32]>, num_gpus: u32, lambda: f64) -> bool {
    let enough = lambda * f64::from(num_gpus);
    let (mut offered, mut candidates) = (0u64, 0u64);
    let Cluster { sizes, idle, gpu_times: Some(times), .. } = &mut *cluster else { return false };
    let idle = other.unwrap_or(idle);
    for server in times.by_mean() {
        offered += u64::from(sizes[server as usize]);
        candidates += u64::from(idle[server as usize]);
        if offered as f64 >= enough {
            break;
        }
    }
    candidates >= u64::from(num_gpus)
}
