//! AFS-L: gives min_gpus to the shortest jobs, then one GPU at a time by a rule for pairs. Clairvoyant. (Hwang et
//! al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.)

use super::allocation::Allocation;
use super::curve::{Curve, Curves};
use super::owners::Turn;
use super::pairs::{Giving, Member, ONE, Pairs};
use super::srtf::remaining;
use super::{KNOWS, OPTIONS, Rates, Rule};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Afs;

impl Named for Afs {
    const FACTS: Facts = Facts {
        name: "afs",
        about: "least remaining run time at min_gpus; resizes jobs by a rule for pairs",
        paper: "Hwang et al., NSDI 2021",
        knows: KNOWS,
        is: &[Is::Resizes, Is::Clairvoyant],
        options: OPTIONS,
    };
}

impl Rule for Afs {
    type Rest = Pairs;

    const BY_WORTH: bool = false;

    fn key<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        remaining(state, job, stay)
    }

    fn give_rest<S: Speed>(
        &self,
        allocation: &mut Allocation,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) {
        allocation.sort();
        let Some(entries) = allocation.contested(pool, rates, curves) else { return };
        let mut members: Vec<Member> = entries.iter().map(|&at| Member::new(allocation.entries[at].job)).collect();
        Giving::new(&mut members, |job| curves.c_plus_one(job, pool)).give(allocation.free[pool], &mut 0);
        for (at, member) in entries.into_iter().zip(members) {
            allocation.entries[at].number += member.more;
        }
        allocation.free[pool] = 0;
    }

    fn worth(&self, curve: &Curve, _left: f64, gpus: u32) -> u64 {
        curve.c_on(gpus)
    }

    /// Returns the first that no later one beats.
    fn first(&self, able: &[Turn]) -> Option<usize> {
        let (mut found, mut least) = (None, u64::MAX - ONE);
        for (at, &(times, ..)) in able.iter().enumerate().rev() {
            if least + ONE >= times {
                found = Some(at);
            }
            least = least.min(times);
        }
        found
    }
}
