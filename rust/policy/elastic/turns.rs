//! The turns of all GPUs that might change hands, kept from one decision to the next.
//!
//! A decision gives its GPUs to the greatest turns (`gain`). A turn falls as its job gets on with its work, and none
//! rises before its job is given another number. So it is enough to know a number that a turn is not above, and one that it
//! is not below until some time. A turn is worked out when it may be the greatest that is not given, or the least that
//! is. A decision costs the jobs that came and went, and the GPUs that change hands, each times a logarithm.
//!
//! Invariant: the bounds of a job hold that have its stamp. For example, a job that had 100 s to gain an hour ago has at most 100 s to
//! gain now.

use super::curve::{Curve, Curves};
use super::sheet::Line;
use crate::ids::{Job, Slot};
use crate::machine::Floor;
use crate::policy::roster::Roster;
use crate::speed::Speed;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

/// The share of its work that a job may do before its lower bound is renewed.
const STRIDE: f64 = 0.25;
/// More than rounding adds to a turn, as a share of the run time from which it is taken.
const ROUNDING: f64 = 1e-12;

/// A bound of a turn.
#[derive(Clone, Copy, Debug)]
struct Bound {
    turn: f64,
    job: Job,
    stamp: u32,
}

impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Ordering {
        self.turn.total_cmp(&other.turn).then(other.job.cmp(&self.job)).then(self.stamp.cmp(&other.stamp))
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Bound {}

/// What is known of a job.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    part: Part,
    stamp: u32,
    /// GPUs that it is to have while it takes part; those that it holds while it is young.
    number: u32,
    /// Whether it is in `unsettled`.
    listed: bool,
}

/// Whether a job takes part in decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// It is not here.
    #[default]
    Gone,
    /// It keeps its GPUs.
    Young,
    /// It takes part.
    Takes,
}

/// All jobs, where all GPUs are alike.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    known: Vec<Known>,
    /// Stays that were young when they began, in order of their beginning.
    young: VecDeque<(Job, Slot, f64)>,
    /// GPUs that young stays hold; the sum of min_gpus of those who take part, and what they have beyond that.
    kept: u64,
    least: u64,
    given: u64,
    /// How many take part.
    taking: usize,
    /// Who takes part: upper bounds of the next GPU of each, lower bounds of the last one, and until when these hold (bits of machine
    /// time).
    up: BinaryHeap<Bound>,
    down: BinaryHeap<Reverse<Bound>>,
    until: BinaryHeap<Reverse<(u64, Job, u32)>>,
    /// Those whose number may not be what they hold.
    unsettled: Vec<Job>,
    looked_at: Vec<Bound>,
}

/// What turns are worked out from.
pub(super) struct View<'f, 'a, S: Speed> {
    pub(super) floor: &'f Floor<'a, S>,
    pub(super) roster: &'f Roster,
    pub(super) curves: &'f Curves,
}

impl<S: Speed> View<'_, '_, S> {
    /// Work left of a job, and a number that the work done a second is not above until its stay ends.
    fn left(&self, job: Job) -> (f64, f64) {
        match self.roster.slot_of(job) {
            None => (self.floor.left_at_rest(job), 0.0),
            Some(slot) => {
                let stay = &self.floor.stays[slot.index()];
                (self.floor.left_of(stay), self.floor.fastest_of(stay))
            }
        }
    }

    fn held(&self, job: Job) -> u32 {
        self.roster.slot_of(job).map_or(0, |slot| self.floor.stays[slot.index()].gpus())
    }

    fn curve(&self, job: Job) -> Option<&Curve> {
        self.curves.of(job, 0)
    }
}

impl Turns {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            known: vec![Known::default(); jobs],
            young: VecDeque::new(),
            kept: 0,
            least: 0,
            given: 0,
            taking: 0,
            up: BinaryHeap::new(),
            down: BinaryHeap::new(),
            until: BinaryHeap::new(),
            unsettled: Vec::new(),
            looked_at: Vec::new(),
        }
    }

    // Who is here.

    /// A job takes part from now on. Its curve is known.
    pub(super) fn join<S: Speed>(&mut self, view: &View<'_, '_, S>, job: Job) {
        self.leave(view.curves, job);
        let Some(curve) = view.curve(job) else { return };
        let number = view.held(job).clamp(curve.least, curve.cap);
        self.known[job.index()].part = Part::Takes;
        self.known[job.index()].number = number;
        self.taking += 1;
        self.least += u64::from(curve.least);
        self.given += u64::from(number - curve.least);
        self.renew(view, job);
        self.list(job);
    }

    /// A stay has begun, or goes on where a job gave its GPUs back and got the same again.
    pub(super) fn began<S: Speed>(&mut self, view: &View<'_, '_, S>, job: Job, slot: Slot, is_young: bool) {
        if !is_young {
            self.renew(view, job);
            self.list(job);
            return;
        }
        self.leave(view.curves, job);
        let held = view.held(job);
        self.known[job.index()].part = Part::Young;
        self.known[job.index()].number = held;
        self.kept += u64::from(held);
        self.young.push_back((job, slot, view.floor.stays[slot.index()].start));
    }

    /// A job is gone, or holds other GPUs than it did.
    pub(super) fn leave(&mut self, curves: &Curves, job: Job) {
        let known = &mut self.known[job.index()];
        known.stamp = known.stamp.wrapping_add(1);
        match std::mem::take(&mut known.part) {
            Part::Gone => {}
            Part::Young => self.kept -= u64::from(known.number),
            Part::Takes => {
                let least = curves.of(job, 0).map_or(0, |curve| curve.least);
                self.taking -= 1;
                self.least -= u64::from(least);
                self.given -= u64::from(known.number - least);
            }
        }
    }

    /// The next stay that is no longer young.
    pub(super) fn come_of_age<S: Speed>(
        &mut self,
        floor: &Floor<'_, S>,
        roster: &Roster,
        is_young: impl Fn(f64) -> bool,
    ) -> Option<Job> {
        while let Some(&(job, slot, start)) = self.young.front() {
            let is_same = self.known[job.index()].part == Part::Young
                && roster.slot_of(job) == Some(slot)
                && floor.stays[slot.index()].start == start;
            if is_same && is_young(start) {
                return None;
            }
            self.young.pop_front();
            if is_same {
                return Some(job);
            }
        }
        None
    }

    // Turns.

    /// Puts a job's bounds right for the number that it has.
    fn renew<S: Speed>(&mut self, view: &View<'_, '_, S>, job: Job) {
        let known = &mut self.known[job.index()];
        known.stamp = known.stamp.wrapping_add(1);
        if known.part != Part::Takes {
            return;
        }
        let (stamp, number) = (known.stamp, known.number);
        let Some(curve) = view.curve(job) else { return };
        let (left, fastest) = view.left(job);
        if number < curve.cap {
            let turn = curve.turn(left, number) + ROUNDING * left / curve.rate(number);
            self.up.push(Bound { turn, job, stamp });
        }
        if number > curve.least {
            let ahead = left * STRIDE / fastest;
            let later = if fastest > 0.0 { left * (1.0 - STRIDE) } else { left };
            let turn = curve.turn(later, number - 1) - ROUNDING * left / curve.rate(number - 1);
            self.down.push(Reverse(Bound { turn, job, stamp }));
            if fastest > 0.0 {
                let clock = view.floor.clock;
                let until = view.floor.now + ahead * (1.0 - 1e-6) / clock.slot.unwrap_or(1.0);
                self.until.push(Reverse((until.to_bits(), job, stamp)));
            }
        }
    }

    fn is_good(known: &[Known], bound: &Bound) -> bool {
        known[bound.job.index()].stamp == bound.stamp && known[bound.job.index()].part == Part::Takes
    }

    /// The job whose next GPU has the greatest turn, and that turn.
    fn best_up<S: Speed>(&mut self, view: &View<'_, '_, S>) -> Option<Bound> {
        let mut best: Option<Bound> = None;
        let mut looked_at = std::mem::take(&mut self.looked_at);
        while let Some(&bound) = self.up.peek() {
            if best.is_some_and(|best| best.turn > bound.turn) {
                break;
            }
            self.up.pop();
            if !Self::is_good(&self.known, &bound) {
                continue;
            }
            let Some(curve) = view.curve(bound.job) else { continue };
            let (number, left) = (self.known[bound.job.index()].number, view.left(bound.job).0);
            let turn = curve.turn(left, number);
            best = best.max(Some(Bound { turn, ..bound }));
            looked_at.push(Bound { turn: turn + ROUNDING * left / curve.rate(number), ..bound });
        }
        self.up.extend(looked_at.drain(..));
        self.looked_at = looked_at;
        best
    }

    /// The job whose last GPU has the least turn, and that turn.
    fn worst_down<S: Speed>(&mut self, view: &View<'_, '_, S>) -> Option<Bound> {
        let mut worst: Option<Bound> = None;
        let mut looked_at = std::mem::take(&mut self.looked_at);
        while let Some(&Reverse(bound)) = self.down.peek() {
            if worst.is_some_and(|worst| worst.turn < bound.turn) {
                break;
            }
            self.down.pop();
            if !Self::is_good(&self.known, &bound) {
                continue;
            }
            let Some(curve) = view.curve(bound.job) else { continue };
            let number = self.known[bound.job.index()].number;
            let turn = curve.turn(view.left(bound.job).0, number - 1);
            let exact = Bound { turn, ..bound };
            worst = Some(worst.map_or(exact, |worst| worst.min(exact)));
            looked_at.push(bound);
        }
        self.down.extend(looked_at.drain(..).map(Reverse));
        self.looked_at = looked_at;
        worst
    }

    fn give<S: Speed>(&mut self, view: &View<'_, '_, S>, job: Job) {
        self.known[job.index()].number += 1;
        self.given += 1;
        self.renew(view, job);
        self.list(job);
    }

    fn take<S: Speed>(&mut self, view: &View<'_, '_, S>, job: Job) {
        self.known[job.index()].number -= 1;
        self.given -= 1;
        self.renew(view, job);
        self.list(job);
    }

    /// A job's number may not be what it holds.
    pub(super) fn list(&mut self, job: Job) {
        if !std::mem::replace(&mut self.known[job.index()].listed, true) {
            self.unsettled.push(job);
        }
    }

    /// Gives the GPUs that are up to the greatest turns. Returns whether there are min_gpus for all: if not, nothing is decided.
    pub(super) fn decide<S: Speed>(&mut self, view: &View<'_, '_, S>, up: u64) -> bool {
        let Some(wanted) = up.checked_sub(self.kept + self.least) else { return false };
        let now = view.floor.now;
        while let Some(&Reverse((until, job, stamp))) = self.until.peek()
            && f64::from_bits(until) < now
        {
            self.until.pop();
            if Self::is_good(&self.known, &Bound { turn: 0.0, job, stamp }) {
                self.renew(view, job);
            }
        }
        while self.given < wanted
            && let Some(best) = self.best_up(view)
        {
            self.give(view, best.job);
        }
        while self.given > wanted
            && let Some(worst) = self.worst_down(view)
        {
            self.take(view, worst.job);
        }
        while let (Some(best), Some(worst)) = (self.best_up(view), self.worst_down(view))
            && best.job != worst.job
            && (best.turn > worst.turn || (best.turn == worst.turn && best.job < worst.job))
        {
            self.take(view, worst.job);
            self.give(view, best.job);
        }
        self.tidy();
        true
    }

    /// Throws bounds away that hold no longer, once they are most.
    fn tidy(&mut self) {
        let known = &self.known;
        let most = 4 * self.taking + 64;
        if self.up.len() > most {
            self.up.retain(|bound| Self::is_good(known, bound));
        }
        if self.down.len() > most {
            self.down.retain(|Reverse(bound)| Self::is_good(known, bound));
        }
        if self.until.len() > most {
            self.until.retain(|&Reverse((_, job, stamp))| Self::is_good(known, &Bound { turn: 0.0, job, stamp }));
        }
    }

    /// Those whose number is not what they hold, in order of fifo.
    pub(super) fn changed<S: Speed>(&mut self, view: &View<'_, '_, S>, lines: &mut Vec<Line>) {
        lines.clear();
        let known = &mut self.known;
        self.unsettled.retain(|&job| {
            let own = &mut known[job.index()];
            let held = view.held(job);
            own.listed = own.part == Part::Takes && own.number != held;
            if own.listed {
                let mut line = Line::new(view.floor, job, 0.0, 0.0, (held > 0).then_some((0, held)));
                line.number = own.number;
                lines.push(line);
            }
            own.listed
        });
        lines.sort_unstable_by_key(|line| line.job);
    }
}
