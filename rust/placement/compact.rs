//! Compact: the lowest tier of which one group holds the gang, there the group with the fewest idle GPUs.
//!
//! Inside a group it goes on with the tightest child that holds all that is missing; if none does, it takes the child
//! with the most idle GPUs wholly. Segments go one after another to the tightest group that holds one. The caller has
//! checked that enough pods are idle. For example, with idle GPUs 1 0 | 2 4 on two racks of two servers, a gang of 5
//! takes the fourth server and one GPU of the third.
//!
//! Cost: O(tiers x children), and O(groups log groups) of the tier of segments.

use super::Scratch;
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    let (num_gpus, form) = (claim.num_gpus, claim.form);
    let Some(groups) = cluster.groups() else { return false };
    let Some(region) = groups.group_for(num_gpus, form) else { return false };
    if form.segment == 0 {
        groups.fill(region, num_gpus, form.pod, &mut scratch.chosen);
        return scratch.take(cluster, claim, grant);
    }
    for (part, count) in groups.segments(region, num_gpus, form) {
        for _ in 0..count {
            scratch.chosen.clear();
            if let Some(groups) = cluster.groups() {
                groups.fill(part, form.segment, form.pod, &mut scratch.chosen);
            }
            scratch.take(cluster, claim, grant);
        }
    }
    // Segments may share servers.
    grant.parts.sort_unstable();
    grant.parts.dedup_by(|part, kept| {
        let same = part.0 == kept.0;
        kept.1 += if same { part.1 } else { 0 };
        same
    });
    true
}
