//! Places a share of a GPU among the GPUs with room for it (docs/shares.md). Ties: (server, GPU).
//!
//! For example, with rooms of 300, 500 and 1,000 thousandths a share of 200 goes to the first GPU under `best-fit`,
//! and to the third under `worst-fit`.
//!
//! Cost: O(log GPUs); `random` examines every GPU, `fgd` every room that occurs.

use super::fgd;
use crate::cluster::{Claim, Cluster, Grant};
use crate::options::Placement;
use crate::rng::SplitMix64;

/// The placements that support shares.
pub(crate) const WITH_SHARES: &[Placement] = &[
    Placement::FirstFit,
    Placement::Consolidate,
    Placement::BestFit,
    Placement::WorstFit,
    Placement::Binpack,
    Placement::Compact,
    Placement::Fgd,
    Placement::Random,
];

pub(super) fn place(
    cluster: &mut Cluster,
    placement: Placement,
    claim: &Claim,
    rng: &mut SplitMix64,
    grant: &mut Grant,
) -> bool {
    let Some(shares) = cluster.shares() else { return false };
    let share = claim.share;
    let gpu = match placement {
        Placement::FirstFit => shares.first(share),
        Placement::WorstFit => shares.roomiest(share),
        Placement::Fgd => fgd::gpu(cluster, share),
        Placement::Random if shares.has_room(share) => shares.of_rank(share, rng.below(shares.count(share))),
        Placement::Random => None,
        _ => shares.tightest(share),
    };
    let Some(gpu) = gpu else { return false };
    cluster.take_share(gpu, claim, grant);
    true
}
