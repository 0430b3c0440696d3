//! Converts between times and slots (docs/model.md). Machine time is in seconds under the continuous clock, in whole
//! slots under the slot clock.
//!
//! Invariant: under the slot clock every instant is a whole number of slots, below 2^53. For example, with slots of
//! 60 s a job submitted at 61 s is seen at instant 2, which is at 120 s.

use crate::options::{ClockKind, Options};

/// 2^53: from here on float64 cannot tell one slot from the next.
pub(crate) const MOST_SLOTS: f64 = 9_007_199_254_740_992.0;

/// A pause, in machine time: whole slots and a part of one, or seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rest {
    pub(crate) whole: f64,
    /// A part of a slot, in [0, 1); 0 under the continuous clock.
    pub(crate) part: f64,
}

impl Rest {
    /// No pause.
    pub(crate) const NONE: Self = Self { whole: 0.0, part: 0.0 };

    /// Returns its length.
    pub(crate) fn length(self) -> f64 {
        self.whole + self.part
    }
}

/// The clock of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// Slot length, s, under the slot clock.
    pub(crate) slot: Option<f64>,
}

impl Clock {
    pub(crate) fn new(options: &Options) -> Self {
        Self { slot: (options.clock == ClockKind::Slot).then_some(options.slot) }
    }

    /// Returns a time in seconds.
    #[inline]
    pub(crate) fn seconds(self, time: f64) -> f64 {
        self.slot.map_or(time, |slot| time * slot)
    }

    /// Returns a pause of that many seconds: under the slot clock in whole slots, rounded up, unless `to_the_second`.
    pub(crate) fn pause(self, seconds: f64, to_the_second: bool) -> Rest {
        match self.slot {
            None => Rest { whole: seconds, part: 0.0 },
            Some(slot) if to_the_second => {
                let whole = (seconds / slot).floor();
                Rest { whole, part: f64::max(0.0, seconds - whole * slot) / slot }
            }
            Some(slot) => Rest { whole: (seconds / slot).ceil(), part: 0.0 },
        }
    }

    /// Returns the first instant at which a submission can be seen: the first boundary not before it under the slot
    /// clock.
    #[inline]
    pub(crate) fn arrival(self, submit: f64) -> f64 {
        let Some(slot) = self.slot else { return submit };
        let mut n = (submit / slot).ceil();
        if n >= MOST_SLOTS {
            return n;
        }
        while n * slot < submit {
            n += 1.0;
        }
        while n >= 1.0 && (n - 1.0) * slot >= submit {
            n -= 1.0;
        }
        n
    }

    /// Returns the last multiple of `interval` seconds before `time`, or under the slot clock the last boundary at
    /// which one is seen; `None` if there is none.
    pub(crate) fn tick_before(self, interval: f64, time: f64) -> Option<f64> {
        // A multiple after `before` is seen at `time` or later.
        let before = self.slot.map_or(time.next_down(), |_| time.ceil() - 1.0);
        let mut k = (self.seconds(before) / interval).floor() + 1.0;
        if k.is_infinite() {
            return Some(before);
        }
        while k >= 0.0 {
            let tick = self.arrival(k * interval);
            if tick < time {
                return Some(tick);
            }
            k = f64::min(k - 1.0, k.next_down());
        }
        None
    }

    /// Returns the boundary after this one; infinity under the continuous clock.
    pub(crate) fn next_boundary(self, now: f64) -> f64 {
        self.slot.map_or(f64::INFINITY, |_| f64::max(now + 1.0, now.next_up()))
    }

    /// Returns the first multiple of `interval` seconds not before `time` and after `last`; under the slot clock the
    /// first boundary not before one.
    pub(crate) fn tick(self, interval: f64, time: f64, last: f64) -> f64 {
        // The first multiple seen not before `time` lies after the boundary before it, and after the last tick.
        let from = f64::max(self.slot.map_or(time, |_| time.ceil() - 1.0), last);
        let mut k = f64::max(0.0, (self.seconds(from) / interval).floor() - 1.0);
        loop {
            let tick = self.arrival(k * interval);
            if tick >= time && tick > last {
                return tick;
            }
            k = f64::max(k + 1.0, k.next_up());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_found_at_once_whatever_the_interval() {
        let clock = Clock { slot: Some(60.0) };
        for interval in [1e-244, 1e-9, 7.0, 60.0] {
            assert_eq!(clock.tick(interval, 66.4, 3.0), 67.0, "{interval}");
            assert_eq!(clock.tick(interval, 66.0, 66.0), 67.0, "{interval}");
        }
        assert_eq!(clock.tick(150.0, 66.4, 3.0), 68.0);
    }

    #[test]
    fn the_tick_before_is_the_last_one_seen() {
        let clock = Clock { slot: Some(60.0) };
        for interval in [1e-300, 1e-244, 1e-9, 7.0, 60.0] {
            assert_eq!(clock.tick_before(interval, 66.0), Some(65.0), "{interval}");
        }
        assert_eq!(
            [3.0, 2.0, 1.0, 0.0].map(|time| clock.tick_before(90.0, time)),
            [Some(2.0), Some(0.0), Some(0.0), None]
        );
        let clock = Clock { slot: None };
        assert_eq!(
            [180.0, 180.5, 60.0, 0.0].map(|time| clock.tick_before(60.0, time)),
            [Some(120.0), Some(180.0), Some(0.0), None]
        );
    }
}
