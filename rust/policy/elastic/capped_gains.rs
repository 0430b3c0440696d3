//! Keeps the capped gains of all GPUs that might change hands, from one decision to the next.
//!
//! A decision gives its GPUs to the greatest capped gains (`gain`). A capped gain falls as its job progresses, and
//! none rises before its job is given another number. So a capped gain has an upper bound that is valid until then,
//! and a lower one that is valid until a known time. It is computed only when it may be the greatest that is not
//! given, or the least that is. A decision costs the jobs that came and left, and the GPUs that change hands, each
//! times a logarithm.
//!
//! Invariant: the bounds of a job that have its stamp are valid. For example, a job that had 100 s to gain an hour
//! ago has at most 100 s to gain now, whatever it has done since.

use super::Rule;
use super::base::{Numbers, Rest, View};
use super::curve::Curves;
use crate::ds::ordered;
use crate::ids::Job;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The share of its work that a job may do before its lower bound is renewed.
const STRIDE: f64 = 0.25;
/// More than rounding adds to a capped gain, as a share of the run time from which it is computed.
const ROUNDING: f64 = 1e-12;

/// A capped gain, or a bound of one, ordered so that the heap's greatest is examined first. On the way up that is the
/// greatest capped gain, and of equal ones the lowest job. On the way down it is the least capped gain, and of equal
/// ones the highest job: all bits are inverted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    capped: u64,
    job: u32,
    stamp: u32,
}

/// The next GPU of each job, or the last one.
#[derive(Clone, Debug, Default)]
struct Side<const UP: bool> {
    /// Bounds that the capped gains do not exceed.
    bounds: BinaryHeap<Bound>,
    /// Capped gains that were computed for this decision, and bounds for the next one.
    exact: BinaryHeap<(Bound, Bound)>,
}

impl<const UP: bool> Side<UP> {
    fn bound(capped: f64, job: Job, stamp: u32) -> Bound {
        let (capped, job) = (ordered(capped), job.number());
        if UP { Bound { capped, job: !job, stamp } } else { Bound { capped: !capped, job, stamp } }
    }

    fn job(of: Bound) -> Job {
        Job::new(if UP { !of.job } else { of.job })
    }

    fn is_good(of: Bound, numbers: &Numbers) -> bool {
        numbers.holds(Self::job(of), of.stamp)
    }

    /// Returns the GPU to be given or taken next.
    fn best<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers) -> Option<Bound> {
        loop {
            while self.exact.peek().is_some_and(|&(capped, _)| !Self::is_good(capped, numbers)) {
                self.exact.pop();
            }
            let best = self.exact.peek().map(|&(capped, _)| capped);
            let Some(bound) = self.bounds.peek().copied().filter(|&bound| best.is_none_or(|best| best < bound)) else {
                return best;
            };
            self.bounds.pop();
            let job = Self::job(bound);
            if Self::is_good(bound, numbers)
                && let Some(curve) = view.curves.get(job, 0)
            {
                let (number, left) = (numbers.of(job) - u32::from(!UP), left(view, job).0);
                let capped = curve.capped_gain(left, number);
                let next =
                    if UP { Self::bound(above(capped, left / curve.rate(number)), job, bound.stamp) } else { bound };
                self.exact.push((Self::bound(capped, job, bound.stamp), next));
            }
        }
    }

    /// Ends a decision. Drops invalid bounds, once most are.
    fn end(&mut self, numbers: &Numbers) {
        for (_, bound) in self.exact.drain() {
            self.bounds.push(bound);
        }
        if self.bounds.len() > numbers.most_kept() {
            self.bounds.retain(|&bound| Self::is_good(bound, numbers));
        }
    }
}

/// Returns the work left of a job, and an upper bound of the work done per second until its stay ends.
fn left<S: Speed, R: Rule>(view: &View<'_, '_, S, R>, job: Job) -> (f64, f64) {
    match view.job_states.slot_of(job) {
        None => (view.state.left_at_rest(job), 0.0),
        Some(slot) => {
            let stay = &view.state.stays[slot.index()];
            (view.state.left_of(stay), view.state.fastest_of(stay))
        }
    }
}

/// Returns an upper bound of a capped gain, whatever its rounding. `time`: the run time from which it is computed.
fn above(capped: f64, time: f64) -> f64 {
    // Not a number if both are infinite.
    f64::min(capped + ROUNDING * time, f64::INFINITY)
}

/// All jobs that take part.
#[derive(Clone, Debug, Default)]
pub(in crate::policy) struct CappedGains {
    /// GPUs that they have beyond min_gpus.
    given: u64,
    up: Side<true>,
    down: Side<false>,
    /// Until when bounds on the way down are valid (bits of machine time).
    until: BinaryHeap<Reverse<(u64, Job, u32)>>,
}

impl CappedGains {
    /// Records a job's bounds for the number that it has.
    fn bound<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        let (stamp, number) = (numbers.stamp(job), numbers.of(job));
        let Some(curve) = view.curves.get(job, 0) else { return };
        let (left, fastest) = left(view, job);
        if number < curve.cap {
            let capped = above(curve.capped_gain(left, number), left / curve.rate(number));
            self.up.bounds.push(Side::<true>::bound(capped, job, stamp));
        }
        if number > curve.least {
            let later = if fastest > 0.0 { left * (1.0 - STRIDE) } else { left };
            let capped = f64::max(curve.capped_gain(later, number - 1) - ROUNDING * left / curve.rate(number - 1), 0.0);
            self.down.bounds.push(Side::<false>::bound(capped, job, stamp));
            if fastest > 0.0 {
                // A little earlier, because of rounding.
                let ahead = left * STRIDE / fastest * (1.0 - 1e-6);
                let until = view.state.now + ahead / view.state.clock.slot.unwrap_or(1.0);
                self.until.push(Reverse((until.to_bits(), job, stamp)));
            }
        }
    }

    /// Gives a job a GPU more or fewer.
    fn change<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &mut Numbers, job: Job, by: i32) {
        numbers.set(job, numbers.of(job).saturating_add_signed(by));
        self.given = self.given.saturating_add_signed(by.into());
        self.bound(view, numbers, job);
    }
}

impl Rest for CappedGains {
    fn new(_jobs: usize) -> Self {
        Self::default()
    }

    fn enter<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        let (least, _) = view.state.jobs.range_of(job.index());
        self.given += u64::from(numbers.of(job) - least);
        self.bound(view, numbers, job);
    }

    fn renew<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        self.bound(view, numbers, job);
    }

    fn leave(&mut self, _curves: &Curves, beyond: u32, _job: Job) {
        self.given -= u64::from(beyond);
    }

    fn give<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &mut Numbers, free: u64) {
        let now = view.state.now;
        while let Some(&Reverse((until, job, stamp))) = self.until.peek()
            && f64::from_bits(until) < now
        {
            self.until.pop();
            if numbers.holds(job, stamp) {
                numbers.outdate(job);
                self.bound(view, numbers, job);
            }
        }
        while self.given < free
            && let Some(best) = self.up.best(view, numbers)
        {
            self.change(view, numbers, Side::<true>::job(best), 1);
        }
        while self.given > free
            && let Some(worst) = self.down.best(view, numbers)
        {
            self.change(view, numbers, Side::<false>::job(worst), -1);
        }
        while let (Some(best), Some(worst)) = (self.up.best(view, numbers), self.down.best(view, numbers))
            && best.job != !worst.job
            && (best.capped, best.job) > (!worst.capped, !worst.job)
        {
            self.change(view, numbers, Side::<false>::job(worst), -1);
            self.change(view, numbers, Side::<true>::job(best), 1);
        }
        self.up.end(numbers);
        self.down.end(numbers);
        if self.until.len() > numbers.most_kept() {
            self.until.retain(|&Reverse((_, job, stamp))| numbers.holds(job, stamp));
        }
    }
}
