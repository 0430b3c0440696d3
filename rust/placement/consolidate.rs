//! Consolidate, the rule of the Helios simulator: best fit on one server, whole servers for larger gangs.
//!
//! A gang no larger than the largest server goes to the server with the fewest idle GPUs that holds it. A larger gang
//! takes empty servers of the largest size. Its rest goes to the server that then has the most idle GPUs. For
//! example, on servers of 8 GPUs a gang of 20 takes two empty servers and 4 GPUs of a third. Pods stay whole: with 3
//! GPUs per pod a gang of 21 takes 6 GPUs each of the first three servers that have them, and 3 of the emptiest one
//! left.
//!
//! Cost: O(1) up to a server's size, O(servers used) above.

use super::{Gang, Probe, Scratch, Shape};
use crate::cluster::{Claim, Cluster, Grant};
use crate::ids::Server;

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    if claim.num_gpus <= cluster.largest {
        let Some(server) = tightest(cluster, claim.num_gpus) else { return false };
        cluster.take(server, claim.num_gpus, claim, grant);
        return true;
    }
    let gang = Gang { num_gpus: claim.num_gpus, form: claim.form };
    whole_servers(cluster, gang, &mut scratch.chosen).is_some() && scratch.take(cluster, claim, grant)
}

/// A gang larger than a server, as it is divided.
struct Divided {
    /// The pods of a whole server, GPUs.
    most: u32,
    /// Servers that give so many.
    whole: u32,
    /// GPUs of the pods left.
    rest: u32,
}

/// Divides a gang; `None` if no server holds a pod.
fn divided(gang: Gang, largest: u32) -> Option<Divided> {
    let most = largest - largest % gang.form.pod;
    let whole = gang.num_gpus.checked_div(most)?;
    Some(Divided { most, whole, rest: gang.num_gpus - whole * most })
}

/// Returns whether the rule finds servers now.
#[inline(always)]
pub(super) fn can_place(cluster: &Cluster, gang: Gang) -> bool {
    let largest = cluster.largest;
    if gang.num_gpus <= largest {
        return tightest(cluster, gang.num_gpus).is_some();
    }
    let (Some(index), Some(gang)) = (cluster.by_idle(), divided(gang, largest)) else { return false };
    let whole = gang.whole as usize;
    let enough = match gang.most == largest {
        true => index.with(largest).take(whole + 1).count(),
        false => index.between(gang.most, largest).take(whole + 1).count(),
    };
    match enough {
        enough if enough > whole => true,
        enough => {
            enough == whole && (gang.rest == 0 || index.most_below(gang.most).is_some_and(|most| most >= gang.rest))
        }
    }
}

fn tightest(cluster: &Cluster, num_gpus: u32) -> Option<Server> {
    cluster.by_idle()?.tightest(num_gpus)
}

/// Chooses the first servers with enough idle GPUs for as many pods as the largest size holds, and for the rest of the
/// gang the server left with the most idle GPUs, the first on ties.
fn whole_servers(cluster: &Cluster, gang: Gang, chosen: &mut Vec<(Server, u32)>) -> Option<()> {
    let largest = cluster.largest;
    let index = cluster.by_idle()?;
    let Divided { most, whole, rest } = divided(gang, largest)?;
    match most == largest {
        true => chosen.extend(index.with(largest).take(whole as usize).map(|server| (server, most))),
        false => chosen.extend(index.between(most, largest).take(whole as usize).map(|server| (server, most))),
    }
    if chosen.len() < whole as usize {
        return None;
    }
    if rest > 0 {
        // Those with enough for a whole server that come behind the chosen ones, or else those with less.
        let behind = chosen.last().map_or(0, |last| last.0.index() + 1);
        let left = (most..=largest).rev().find_map(|idle| index.from(idle, behind)).or_else(|| {
            let idle = index.most_below(most).filter(|&idle| idle >= rest)?;
            index.with(idle).next()
        });
        chosen.push((left?, rest));
    }
    Some(())
}

/// Returns whether the rule finds servers among those idle GPUs: O(O_max).
pub(super) fn fits(cluster: &Cluster, probe: &Probe, gang: Gang) -> bool {
    let largest = cluster.largest;
    let any_from = |least: u32, below: u32| probe.with_idle[least as usize..below as usize].iter().any(|&n| n > 0);
    if gang.num_gpus <= largest {
        return any_from(gang.num_gpus, largest + 1);
    }
    let Some(Divided { most, whole, rest }) = divided(gang, largest) else { return false };
    let enough: u32 = probe.with_idle[most as usize..].iter().sum();
    enough > whole || (enough == whole && (rest == 0 || any_from(rest, most)))
}

pub(super) fn fits_empty(gang: Gang, shape: &Shape) -> bool {
    let largest = shape.largest();
    if gang.num_gpus <= largest {
        return true;
    }
    let Some(Divided { most, whole, rest }) = divided(gang, largest) else { return false };
    let (large, small) = shape.sizes.split_at(shape.sizes.partition_point(|&(size, _)| size >= most));
    let enough: u32 = large.iter().map(|&(_, servers)| servers).sum();
    enough > whole || (enough == whole && small.first().map_or(0, |&(size, _)| size) >= rest)
}
