//! Packed: best fit on one server, or else the emptiest servers first.
//!
//! The caller has checked that enough GPUs are idle, so it always finds a place. For example, with 3, 8 and 5 idle GPUs
//! on three servers, a gang of 4 goes to the third server, and one of 10 takes eight GPUs of the second and two of the
//! third.
//!
//! Cost: O(1) on one server, as `emptiest` otherwise.

use super::{Scratch, consolidate, emptiest};
use crate::cluster::{Claim, Cluster, Grant};

pub(super) fn place(cluster: &mut Cluster, claim: &Claim, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    if claim.num_gpus <= cluster.largest && consolidate::place(cluster, claim, scratch, grant) {
        return true;
    }
    emptiest::place(cluster, claim, scratch, grant)
}
