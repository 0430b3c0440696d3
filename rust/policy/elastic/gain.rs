//! GPUs one at a time to the job whose remaining run time falls most.
//!
//! A decision costs the jobs that take part and the GPUs given out, each times a logarithm.

use super::Rates;
use super::sheet::Sheet;
use crate::speed::Speed;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// What a job would gain by one more GPU, s.
struct Gain {
    gain: f64,
    /// Its line, and its rate on one more GPU.
    line: usize,
    job: u32,
    next: f64,
}

/// Whether a rate is greater than another by more than rounding.
pub(super) fn speeds_up(rate: f64, next: f64) -> bool {
    next > rate * (1.0 + 1e-12)
}

impl Gain {
    /// `rate`: that on the GPUs that the job has on the sheet; `None` where one more does not speed it up.
    fn of<S: Speed>(sheet: &Sheet, at: usize, rate: f64, rates: &Rates<'_, '_, S>) -> Option<Self> {
        let line = &sheet.lines[at];
        if line.number == line.max {
            return None;
        }
        let next = rates.of(line.job, line.pool, line.number + 1);
        let gain = if rate == 0.0 { f64::INFINITY } else { line.left / rate - line.left / next };
        speeds_up(rate, next).then_some(Self { gain, line: at, job: line.job.number(), next })
    }
}

impl Ord for Gain {
    /// The greatest gain is the greatest, of equal ones that of the first job.
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.job.cmp(&self.job))
    }
}

impl PartialOrd for Gain {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Gain {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Gain {}

/// Gives out what is left of a pool.
pub(super) fn give_by_gain<S: Speed>(sheet: &mut Sheet, pool: usize, rates: &Rates<'_, '_, S>) {
    if sheet.free[pool] == 0 {
        return;
    }
    let of_pool = (0..sheet.lines.len()).filter(|&at| sheet.lines[at].number > 0 && sheet.lines[at].pool == pool);
    let mut gains: BinaryHeap<Gain> = of_pool
        .filter(|&at| sheet.lines[at].number < sheet.lines[at].max)
        .filter_map(|at| Gain::of(sheet, at, sheet.lines[at].rate(rates), rates))
        .collect();
    while sheet.free[pool] > 0
        && let Some(best) = gains.pop()
    {
        sheet.free[pool] -= 1;
        sheet.lines[best.line].number += 1;
        gains.extend(Gain::of(sheet, best.line, best.next, rates));
    }
}
