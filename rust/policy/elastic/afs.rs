//! AFS-L: min_gpus to the shortest jobs, then one GPU at a time by a rule for pairs. Clairvoyant.
//! (Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.)

use super::curve::{Curve, Curves};
use super::owners::Turn;
use super::pairs::{Giving, Member, ONE, Pairs};
use super::sheet::Sheet;
use super::srtf::remaining;
use super::{KNOWS, OPTIONS, Rates, Rule};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
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

    fn key<S: Speed>(&self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        remaining(floor, job, stay)
    }

    fn give_rest<S: Speed>(&self, sheet: &mut Sheet, pool: usize, rates: &Rates<'_, '_, S>, curves: &mut Curves) {
        sheet.sort();
        let Some(lines) = sheet.contested(pool, rates, curves) else { return };
        let mut members: Vec<Member> = lines.iter().map(|&at| Member::new(sheet.lines[at].job)).collect();
        Giving::new(&mut members, |job| curves.times(job, pool)).give(sheet.free[pool], &mut 0);
        for (at, member) in lines.into_iter().zip(members) {
            sheet.lines[at].number += member.more;
        }
        sheet.free[pool] = 0;
    }

    fn worth(&self, curve: &Curve, _left: f64, gpus: u32) -> u64 {
        curve.times_on(gpus)
    }

    /// The first that no later one beats.
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
