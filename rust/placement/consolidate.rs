//! Consolidate, the rule of the Helios simulator: best fit on one server, whole servers for larger gangs.
//! O(1) up to a server's size, O(servers used) above.

use super::{Probe, Shape};
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
    let largest = cluster.largest;
    let Some(index) = cluster.by_idle() else { return false };
    if claim.num_gpus <= largest {
        let Some(server) = index.tightest(claim.num_gpus) else { return false };
        cluster.take(server, claim.num_gpus, claim, grant);
        return true;
    }
    let (whole, rest) = ((claim.num_gpus / largest) as usize, claim.num_gpus % largest);
    let mut empty = index.with(largest);
    let mut chosen: Vec<(u32, u32)> = empty.by_ref().take(whole).map(|s| (s, largest)).collect();
    if chosen.len() < whole {
        return false;
    }
    if rest > 0 {
        // The server left with the most idle GPUs: another empty one, or the first of the fullest idle count below.
        let left = empty.next().map(|s| (s, largest)).or_else(|| {
            let most = index.most_below(largest)?;
            index.with(most).next().map(|s| (s, most))
        });
        match left {
            Some((server, idle)) if idle >= rest => chosen.push((server, rest)),
            _ => return false,
        }
    }
    drop(empty);
    for (server, count) in chosen {
        cluster.take(server, count, claim, grant);
    }
    true
}

/// Whether the rule finds servers among those idle GPUs: O(O_max).
pub(super) fn fits(cluster: &Cluster, probe: &Probe, num_gpus: u32) -> bool {
    let largest = cluster.largest;
    let any_from = |least: u32, below: u32| probe.with_idle[least as usize..below as usize].iter().any(|&n| n > 0);
    if num_gpus <= largest {
        return any_from(num_gpus, largest + 1);
    }
    let (whole, rest) = (num_gpus / largest, num_gpus % largest);
    let empty = probe.with_idle[largest as usize];
    empty > whole || (empty == whole && (rest == 0 || any_from(rest, largest)))
}

pub(super) fn fits_empty(num_gpus: u32, shape: &Shape) -> bool {
    let Some(&(largest, empty)) = shape.0.first() else { return false };
    let (whole, rest) = (num_gpus / largest, num_gpus % largest);
    let most_other = shape.0.get(1).map_or(0, |&(size, _)| size);
    num_gpus <= largest || empty > whole || (empty == whole && most_other >= rest)
}
