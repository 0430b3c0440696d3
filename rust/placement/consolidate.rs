//! Consolidate, the rule of the Helios simulator: best fit on one server, whole servers for larger gangs.
//!
//! A gang no larger than the largest server goes to the server with the fewest idle GPUs that holds it. A larger gang
//! takes empty servers of the largest size. Its rest goes to the server that then has the most idle GPUs. For
//! example, on servers of 8 GPUs a gang of 20 takes two empty servers and 4 GPUs of a third.
//!
//! Cost: O(1) up to a server's size, O(servers used) above.

use super::{Probe, Scratch, Shape};
use crate::cluster::{Claim, Cluster, Grant};
use crate::ids::Server;

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    if claim.num_gpus <= cluster.largest {
        let Some(server) = tightest(cluster, claim.num_gpus) else { return false };
        cluster.take(server, claim.num_gpus, claim, grant);
        return true;
    }
    whole_servers(cluster, claim.num_gpus, &mut scratch.chosen).is_some() && scratch.take(cluster, claim, grant)
}

/// Returns whether the rule finds servers now.
#[inline(always)]
pub(super) fn can_place(cluster: &Cluster, num_gpus: u32) -> bool {
    let largest = cluster.largest;
    if num_gpus <= largest {
        return tightest(cluster, num_gpus).is_some();
    }
    let Some(index) = cluster.by_idle() else { return false };
    let (whole, rest) = ((num_gpus / largest) as usize, num_gpus % largest);
    match index.with(largest).take(whole + 1).count() {
        empty if empty > whole => true,
        empty => empty == whole && (rest == 0 || index.most_below(largest).is_some_and(|most| most >= rest)),
    }
}

fn tightest(cluster: &Cluster, num_gpus: u32) -> Option<Server> {
    cluster.by_idle()?.tightest(num_gpus)
}

/// Chooses empty servers of the largest size, and for the rest of the gang the server left with the most idle GPUs:
/// another empty one, or the first with the highest idle count below that.
fn whole_servers(cluster: &Cluster, num_gpus: u32, chosen: &mut Vec<(Server, u32)>) -> Option<()> {
    let largest = cluster.largest;
    let index = cluster.by_idle()?;
    let (whole, rest) = ((num_gpus / largest) as usize, num_gpus % largest);
    let mut empty = index.with(largest);
    chosen.extend(empty.by_ref().take(whole).map(|s| (s, largest)));
    if chosen.len() < whole {
        return None;
    }
    if rest > 0 {
        let left = empty.next().map(|s| (s, largest)).or_else(|| {
            let most = index.most_below(largest)?;
            index.with(most).next().map(|s| (s, most))
        });
        let (server, _) = left.filter(|&(_, idle)| idle >= rest)?;
        chosen.push((server, rest));
    }
    Some(())
}

/// Returns whether the rule finds servers among those idle GPUs: O(O_max).
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
