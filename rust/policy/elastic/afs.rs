//! AFS-L: min_gpus to the shortest jobs, then one GPU at a time by a rule for pairs. Clairvoyant.
//! (Hwang et al., "Elastic Resource Sharing for Distributed Deep Learning", NSDI 2021.)
//!
//! A job is beaten by a later one whose gain, as a share of its next rate, is greater than its own gain as a share of its
//! rate now. The greatest of the former is of a job that nobody later beats. So the first job that nobody later beats is
//! the first whose own gain is not less than that. A decision costs the jobs that take part and the GPUs given
//! out, each times a logarithm.

use super::curve::{Curve, Curves};
use super::sheet::Sheet;
use super::srtf::remaining;
use super::{Rates, Rule};
use crate::ds::ordered;
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Afs;

/// What one more GPU adds to the rate, as a share of the rate now, in order of its bits.
fn of_now(curve: &Curve, gpus: u32) -> Option<u64> {
    let rate = curve.rate(gpus);
    (gpus < curve.cap).then(|| ordered((curve.rate(gpus + 1) - rate) / rate))
}

/// The same as a share of the rate with it.
fn of_next(curve: &Curve, gpus: u32) -> Option<u64> {
    let rate = curve.rate(gpus);
    (gpus < curve.cap).then(|| ordered((curve.rate(gpus + 1) - rate) / curve.rate(gpus + 1)))
}

impl Rule for Afs {
    fn key<S: Speed>(&self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        remaining(floor, job, stay)
    }

    fn give_rest<S: Speed>(&mut self, sheet: &mut Sheet, pool: usize, rates: &Rates<'_, '_, S>, curves: &mut Curves) {
        if sheet.contested(pool, rates, curves).is_none() {
            return;
        }
        sheet.sort();
        let lines: Vec<usize> =
            (0..sheet.lines.len()).filter(|&at| sheet.lines[at].number > 0 && sheet.lines[at].pool == pool).collect();
        let gain = |sheet: &Sheet, at: usize, of: fn(&Curve, u32) -> Option<u64>| {
            let line = &sheet.lines[at];
            curves.of(line.job, pool).and_then(|curve| of(curve, line.number))
        };
        // (share of the next rate, line, number), the greatest first.
        let next = |sheet: &Sheet, at: usize| gain(sheet, at, of_next).map(|gain| (gain, at, sheet.lines[at].number));
        let mut beating: BinaryHeap<_> = lines.iter().filter_map(|&at| next(sheet, at)).collect();
        // (share of the rate now, line) of those that somebody beats, and the lines of the others, the first first.
        let mut beaten: BinaryHeap<_> =
            lines.iter().filter_map(|&at| gain(sheet, at, of_now).map(|gain| (gain, at))).collect();
        let mut unbeaten: BinaryHeap<Reverse<usize>> = BinaryHeap::new();
        while sheet.free[pool] > 0 {
            while beating.peek().is_some_and(|&(_, at, number)| sheet.lines[at].number != number) {
                beating.pop();
            }
            let Some(&(most, of, _)) = beating.peek() else { break };
            while beaten.peek().is_some_and(|&(gain, _)| gain >= most) {
                unbeaten.extend(beaten.pop().map(|(_, at)| Reverse(at)));
            }
            let Some(Reverse(at)) = unbeaten.pop() else { break };
            // It gets GPUs until somebody beats it, or until another gain is the greatest.
            let mut own = gain(sheet, at, of_now);
            while sheet.free[pool] > 0 && own.is_some_and(|own| own >= most) {
                sheet.free[pool] -= 1;
                sheet.lines[at].number += 1;
                own = gain(sheet, at, of_now);
                if at == of || gain(sheet, at, of_next).is_some_and(|next| next > most) {
                    break;
                }
            }
            beating.extend(next(sheet, at));
            beaten.extend(own.map(|own| (own, at)));
        }
    }
}
