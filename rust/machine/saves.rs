//! Times checkpoints that take time: a stay makes no progress while it writes one
//! (docs/outages.md#checkpoints-that-take-time).
//!
//! Invariant: between two of its events a stay either progresses or saves, and it saves from `begun` to `until`. The
//! event of a stay in `ends` is the end of its work, or the next checkpoint if that comes first. For example, with an
//! interval of 100 s and a cost of 5 s a job of 250 s saves in [100, 105) and [205, 210), and ends at 260 s.

use super::clock::{Clock, Rest};
use super::cluster_state::ClusterState;
use super::stays::Stay;
use crate::ids::Slot;
use crate::options::Options;
use crate::speed::Speed;

/// Relative tolerance for rounding.
const NEAR: f64 = 1e-12;

/// Checkpoints that may begin between two calls of the watch.
const MANY: u32 = 65_536;

/// Returns the length of a checkpoint; `None` if it takes no time.
pub(crate) fn checkpoint_length(options: &Options, clock: Clock, to_the_second: bool) -> Option<Rest> {
    (options.checkpoint_cost > 0.0).then(|| clock.pause(options.checkpoint_cost, to_the_second))
}

/// The checkpoints of a stay, where they take time. Machine times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saves {
    /// When the progress of the stay starts.
    from: f64,
    /// Number of intervals of progress when the latest one began (slot clock).
    multiple: f64,
    /// Number of checkpoints begun, and when the next one begins; infinite if there is none.
    pub(super) count: u32,
    pub(super) due: f64,
    /// When the latest one began and ends, and when the one before it ended. The start of progress counts as one of no
    /// length.
    begun: f64,
    until: f64,
    before: f64,
    /// The work left at the latest one, and at the one before it.
    left: f64,
    left_before: f64,
}

impl Default for Saves {
    fn default() -> Self {
        Self::from(0.0, f64::INFINITY, 0.0, Clock { slot: None })
    }
}

impl Saves {
    /// Returns the checkpoints of a stay whose progress starts at `from`, with `left` work left.
    pub(crate) fn from(from: f64, every: f64, left: f64, clock: Clock) -> Self {
        let mut first = Self {
            from,
            multiple: 0.0,
            count: 0,
            due: 0.0,
            begun: from,
            until: from,
            before: from,
            left,
            left_before: left,
        };
        first.due = first.next(every, Rest::NONE, clock);
        first
    }

    /// Returns when the next one begins: when progress reaches the next multiple of the interval, or at the boundary
    /// after it.
    fn next(&mut self, every: f64, cost: Rest, clock: Clock) -> f64 {
        if every == f64::INFINITY {
            return every;
        }
        let spent = f64::from(self.count) * cost.length();
        let Some(slot) = clock.slot else {
            // A checkpoint takes time, even if float64 cannot represent so little.
            return f64::max(self.from + spent + f64::from(self.count + 1) * every, self.until.next_up());
        };
        let (base, part) = (self.from.floor(), self.from.fract());
        if self.count > 0 {
            // Several multiples in one slot share one checkpoint.
            let progress = (self.begun - base) - part - (spent - cost.length());
            self.multiple = f64::max(self.multiple + 1.0, (progress * slot / every * (1.0 + NEAR)).floor());
        }
        let at = part + spent + (self.multiple + 1.0) * every / slot;
        f64::max(base + (at * (1.0 - NEAR)).ceil(), self.until.floor() + 1.0)
    }

    /// Begins the checkpoint that is due.
    fn begin(&mut self, every: f64, cost: Rest, clock: Clock) {
        (self.before, self.begun) = (self.until, self.due);
        self.until = self.due + cost.length();
        self.count += 1;
        self.due = self.next(every, cost, clock);
    }

    /// Begins the checkpoint that is due, if progress goes on so far. Returns when it begins and ends; infinity if there
    /// is none.
    pub(crate) fn step(&mut self, every: f64, cost: Rest, clock: Clock) -> (f64, f64) {
        if self.due == f64::INFINITY {
            return (self.due, self.due);
        }
        self.begin(every, cost, clock);
        (self.begun, self.until)
    }

    /// Returns the rounding of an instant. An end that close to a checkpoint comes first, and a checkpoint that close
    /// to its end is over.
    #[inline]
    fn rounding(&self, time: f64) -> f64 {
        NEAR * f64::max(0.0, time - self.from) + f64::from(64 + self.count) * (time.next_up() - time)
    }

    /// Returns the time spent on checkpoints up to an instant.
    pub(super) fn taken(&self, now: f64, cost: Rest) -> f64 {
        f64::max(0.0, f64::from(self.count) * cost.length() - f64::max(0.0, self.until - now))
    }

    /// Returns whether the latest one is complete.
    fn is_over(&self, now: f64) -> bool {
        now >= self.until - self.rounding(self.until)
    }

    /// Returns the work left at the latest complete one, and the time of progress since then.
    pub(super) fn at_latest(&self, now: f64) -> (f64, f64) {
        (if self.is_over(now) { self.left } else { self.left_before }, self.unsaved(now))
    }

    /// Returns the time of progress since the latest complete one.
    fn unsaved(&self, now: f64) -> f64 {
        f64::max(0.0, if self.is_over(now) { now - self.until } else { self.begun - self.before })
    }
}

impl<P> Stay<P> {
    /// Returns whether its next event is a checkpoint, not its end at `end`.
    fn saves_before(&self, end: f64) -> bool {
        let due = self.saves.due;
        due < f64::INFINITY && end > due + self.saves.rounding(due)
    }

    /// Begins a checkpoint.
    fn begin_to_save(&mut self, cost: Rest, clock: Clock) {
        let now = self.saves.due;
        let left = self.left_at(now, clock);
        let saves = &mut self.saves;
        (saves.left_before, saves.left) = (saves.left, left);
        saves.begin(self.every, cost, clock);
        (self.left, self.since) = (left, saves.until);
        (self.part, self.head) = (cost.part, 0.0);
        if cost.part > 0.0 {
            self.since = now + cost.whole + 1.0;
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns when a stay reaches its rung, its limit or its end.
    #[inline(always)]
    fn goal(&self, stay: &Stay<S::Pace>) -> f64 {
        let end = stay.end(self.clock, self.mark(stay.job));
        self.limit_before(stay, end).unwrap_or(end)
    }

    /// Sets when a stay reaches its next checkpoint, rung, limit, or end.
    #[inline(always)]
    pub(super) fn set_end(&mut self, slot: Slot) {
        let stay = &self.stays[slot.index()];
        let next = self.goal(stay);
        if self.saving.is_some() {
            return self.set_end_of_saver(slot, next);
        }
        self.ends.set(slot.number(), next, stay.job.number());
    }

    #[cold]
    fn set_end_of_saver(&mut self, slot: Slot, next: f64) {
        let stay = &self.stays[slot.index()];
        let (number, row) = (slot.number(), stay.job.number());
        if !stay.saves_before(next) {
            self.savers.set_alone(&mut self.ends, number, next, row);
        } else if stay.saves.count == 0 {
            // It comes before the last of the deque, which is later by the cost of a checkpoint.
            self.savers.set_alone(&mut self.ends, number, stay.saves.due, row);
        } else {
            self.savers.set(&mut self.ends, number, stay.saves.due, row);
        }
    }

    /// Removes the event of a stay.
    #[inline(always)]
    pub(super) fn forget_end(&mut self, slot: Slot) {
        if self.saving.is_some() {
            self.savers.forget(&mut self.ends, slot.number());
        }
        self.ends.remove(slot.number());
    }

    /// Begins a checkpoint if the stay has reached one. Returns whether it has.
    #[inline(always)]
    pub(super) fn comes_to_save(&mut self, slot: Slot) -> bool {
        self.saving.is_some_and(|cost| self.saves(slot, cost))
    }

    #[cold]
    fn saves(&mut self, slot: Slot, cost: Rest) -> bool {
        let stay = &self.stays[slot.index()];
        let comes = stay.saves_before(self.goal(stay));
        if comes {
            self.save_now(slot, cost);
        }
        comes
    }

    fn save_now(&mut self, slot: Slot, cost: Rest) {
        let (clock, speed) = (self.clock, &self.speed);
        let stay = &mut self.stays[slot.index()];
        stay.begin_to_save(cost, clock);
        stay.use_rest_of_slot(speed, clock);
        self.set_end(slot);
    }

    /// Returns when the next stay reaches its end, its limit or a rung, if not after `until`. Checkpoints before that
    /// begin here, since no decision depends on them. `None` after many of them, so that the caller can call the watch.
    #[inline(always)]
    pub(super) fn next_end(&mut self, until: f64) -> Option<f64> {
        if self.saving.is_some() {
            return self.next_end_of_savers(until);
        }
        Some(self.ends.peek().map_or(f64::INFINITY, |(time, _)| time))
    }

    #[cold]
    fn next_end_of_savers(&mut self, until: f64) -> Option<f64> {
        for _ in 0..MANY {
            let Some((time, slot)) = self.ends.peek() else { return Some(f64::INFINITY) };
            if time > until {
                return Some(time);
            }
            if until == f64::INFINITY && self.is_stalled() {
                return Some(until); // no stay reaches its end, with or without checkpoints
            }
            if !self.comes_to_save(Slot::new(slot)) {
                return Some(time);
            }
        }
        None
    }

    /// Returns whether no stay reaches an end at its present pace.
    pub(super) fn is_stalled(&self) -> bool {
        if self.saving.is_none() {
            return self.ends.peek().is_none_or(|(time, _)| time == f64::INFINITY);
        }
        let mut live = self.stays.iter().filter(|stay| stay.is_live());
        live.all(|stay| self.stalls(stay))
    }

    /// Returns whether a stay reaches no end at its present pace.
    pub(super) fn stalls(&self, stay: &Stay<S::Pace>) -> bool {
        let end = stay.end(self.clock, 0.0);
        self.limit_before(stay, end).is_none() && (end == f64::INFINITY || self.only_saves(stay))
    }

    /// Returns whether a stay saves in every slot from now on, and the rest of a slot yields no work.
    fn only_saves(&self, stay: &Stay<S::Pace>) -> bool {
        let (Some(cost), Some(slot)) = (self.saving, self.clock.slot) else { return false };
        let rest = slot * (1.0 - cost.part);
        let always = cost.part > 0.0 && stay.saves.count > 0 && stay.every <= rest;
        always && self.speed.per_slot(&stay.pace, rest, stay.unit) == 0.0
    }
}
