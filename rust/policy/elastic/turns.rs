//! The turns of all GPUs that might change hands, kept from one decision to the next.
//!
//! A decision gives its GPUs to the greatest turns (`gain`). A turn falls as its job gets on with its work, and none
//! rises before its job is given another number. So it is enough to know a number that a turn is not above, and one that it
//! is not below until some time. A turn is worked out when it may be the greatest that is not given, or the least that
//! is. A decision costs the jobs that came and went, and the GPUs that change hands, each times a logarithm.
//!
//! Invariant: the bounds of a job hold that have its stamp. For example, a job that had 100 s to gain an hour ago has at most 100 s to
//! gain now.

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
/// More than rounding adds to a turn, as a share of the run time from which it is taken.
const ROUNDING: f64 = 1e-12;

/// A bound of a turn, in order of its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bound {
    turn: u64,
    job: Reverse<Job>,
    stamp: u32,
}

impl Bound {
    fn new(turn: f64, job: Job, stamp: u32) -> Self {
        Self { turn: ordered(turn), job: Reverse(job), stamp }
    }

    fn is_good(&self, numbers: &Numbers) -> bool {
        numbers.holds(self.job.0, self.stamp)
    }
}

/// All who take part.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Turns {
    /// What they have beyond min_gpus.
    given: u64,
    /// Upper bounds of the next GPU of each, lower bounds of the last one, and until when these hold (bits of machine time).
    up: BinaryHeap<Bound>,
    down: BinaryHeap<Reverse<Bound>>,
    until: BinaryHeap<Reverse<(u64, Job, u32)>>,
    looked_at: Vec<Bound>,
}

/// Work left of a job, and a number that the work done a second is not above until its stay ends.
fn left<S: Speed, R: Rule>(view: &View<'_, '_, S, R>, job: Job) -> (f64, f64) {
    match view.roster.slot_of(job) {
        None => (view.floor.left_at_rest(job), 0.0),
        Some(slot) => {
            let stay = &view.floor.stays[slot.index()];
            (view.floor.left_of(stay), view.floor.fastest_of(stay))
        }
    }
}

/// What a turn is not above, whatever its rounding. `time`: the run time from which it is taken.
fn above(turn: f64, time: f64) -> f64 {
    // Not a number where both are infinite.
    f64::min(turn + ROUNDING * time, f64::INFINITY)
}

impl Turns {
    /// Writes down a job's bounds for the number that it has.
    fn bound<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        let (stamp, number) = (numbers.stamp(job), numbers.of(job));
        let Some(curve) = view.curves.of(job, 0) else { return };
        let (left, fastest) = left(view, job);
        if number < curve.cap {
            let turn = above(curve.turn(left, number), left / curve.rate(number));
            self.up.push(Bound::new(turn, job, stamp));
        }
        if number > curve.least {
            let ahead = left * STRIDE / fastest;
            let later = if fastest > 0.0 { left * (1.0 - STRIDE) } else { left };
            let turn = f64::max(curve.turn(later, number - 1) - ROUNDING * left / curve.rate(number - 1), 0.0);
            self.down.push(Reverse(Bound::new(turn, job, stamp)));
            if fastest > 0.0 {
                let clock = view.floor.clock;
                let until = view.floor.now + ahead * (1.0 - 1e-6) / clock.slot.unwrap_or(1.0);
                self.until.push(Reverse((until.to_bits(), job, stamp)));
            }
        }
    }

    /// The job whose next GPU has the greatest turn, and that turn.
    fn best_up<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers) -> Option<Bound> {
        let mut best: Option<Bound> = None;
        let mut looked_at = std::mem::take(&mut self.looked_at);
        while let Some(&bound) = self.up.peek() {
            if best.is_some_and(|best| best.turn > bound.turn) {
                break;
            }
            self.up.pop();
            if !bound.is_good(numbers) {
                continue;
            }
            let job = bound.job.0;
            let Some(curve) = view.curves.of(job, 0) else { continue };
            let (number, left) = (numbers.of(job), left(view, job).0);
            let turn = curve.turn(left, number);
            best = best.max(Some(Bound::new(turn, job, bound.stamp)));
            looked_at.push(Bound::new(above(turn, left / curve.rate(number)), job, bound.stamp));
        }
        self.up.extend(looked_at.drain(..));
        self.looked_at = looked_at;
        best
    }

    /// The job whose last GPU has the least turn, and that turn.
    fn worst_down<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers) -> Option<Bound> {
        let mut worst: Option<Bound> = None;
        let mut looked_at = std::mem::take(&mut self.looked_at);
        while let Some(&Reverse(bound)) = self.down.peek() {
            if worst.is_some_and(|worst| worst.turn < bound.turn) {
                break;
            }
            self.down.pop();
            if !bound.is_good(numbers) {
                continue;
            }
            let job = bound.job.0;
            let Some(curve) = view.curves.of(job, 0) else { continue };
            let turn = curve.turn(left(view, job).0, numbers.of(job) - 1);
            let exact = Bound::new(turn, job, bound.stamp);
            worst = Some(worst.map_or(exact, |worst| worst.min(exact)));
            looked_at.push(bound);
        }
        self.down.extend(looked_at.drain(..).map(Reverse));
        self.looked_at = looked_at;
        worst
    }

    /// The job of a bound gets a GPU more or fewer.
    fn change<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &mut Numbers, of: Bound, by: i32) {
        let job = of.job.0;
        numbers.set(job, numbers.of(job).saturating_add_signed(by));
        self.given = self.given.saturating_add_signed(by.into());
        self.bound(view, numbers, job);
    }

    /// Throws bounds away that hold no longer, once they are most.
    fn tidy(&mut self, numbers: &Numbers) {
        let most = 4 * numbers.taking + 64;
        if self.up.len() > most {
            self.up.retain(|bound| bound.is_good(numbers));
        }
        if self.down.len() > most {
            self.down.retain(|Reverse(bound)| bound.is_good(numbers));
        }
        if self.until.len() > most {
            self.until.retain(|&Reverse((_, job, stamp))| numbers.holds(job, stamp));
        }
    }
}

impl Rest for Turns {
    fn new(_jobs: usize) -> Self {
        Self {
            given: 0,
            up: BinaryHeap::new(),
            down: BinaryHeap::new(),
            until: BinaryHeap::new(),
            looked_at: Vec::new(),
        }
    }

    fn enter<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        let (least, _) = view.floor.jobs.range_of(job.index());
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
        let now = view.floor.now;
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
            && let Some(best) = self.best_up(view, numbers)
        {
            self.change(view, numbers, best, 1);
        }
        while self.given > free
            && let Some(worst) = self.worst_down(view, numbers)
        {
            self.change(view, numbers, worst, -1);
        }
        while let (Some(best), Some(worst)) = (self.best_up(view, numbers), self.worst_down(view, numbers))
            && best.job != worst.job
            && (best.turn, best.job) > (worst.turn, worst.job)
        {
            self.change(view, numbers, worst, -1);
            self.change(view, numbers, best, 1);
        }
        self.tidy(numbers);
    }
}
