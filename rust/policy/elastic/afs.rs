//! AFS-L: min_gpus to the shortest jobs, then one GPU at a time by a rule for pairs. Clairvoyant.
//! (Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.)

use super::gain::speeds_up;
use super::srtf::remaining;
use super::{Rates, Rule, Sheet};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Afs;

/// A job that one more GPU would speed up.
struct Pair {
    line: usize,
    /// Its rate on one more GPU, and the speed-up as a share of its rate now, and of that one.
    next: f64,
    of_now: f64,
    of_next: f64,
}

impl Pair {
    fn of<S: Speed>(sheet: &Sheet, at: usize, rate: f64, rates: &Rates<'_, '_, S>) -> Option<Self> {
        let line = &sheet.lines[at];
        if line.number == line.max {
            return None;
        }
        let next = rates.of(line.job, line.pool, line.number + 1);
        speeds_up(rate, next).then(|| Self {
            line: at,
            next,
            of_now: (next - rate) / rate,
            of_next: (next - rate) / next,
        })
    }
}

impl Rule for Afs {
    fn key<S: Speed>(&self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        remaining(floor, job, stay)
    }

    fn give_rest<S: Speed>(&mut self, sheet: &mut Sheet, pool: usize, rates: &Rates<'_, '_, S>) {
        let of_pool = (0..sheet.lines.len()).filter(|&at| sheet.lines[at].number > 0 && sheet.lines[at].pool == pool);
        let mut pairs: Vec<Pair> = of_pool
            .filter(|&at| sheet.lines[at].number < sheet.lines[at].max)
            .filter_map(|at| Pair::of(sheet, at, sheet.lines[at].rate(rates), rates))
            .collect();
        while sheet.free[pool] > 0 && !pairs.is_empty() {
            let mut best = 0;
            for at in 1..pairs.len() {
                if pairs[at].of_next > pairs[best].of_now {
                    best = at;
                }
            }
            let Pair { line, next, .. } = pairs[best];
            sheet.free[pool] -= 1;
            sheet.lines[line].number += 1;
            match Pair::of(sheet, line, next, rates) {
                Some(pair) => pairs[best] = pair,
                None => {
                    pairs.remove(best);
                }
            }
        }
    }
}
