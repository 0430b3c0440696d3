//! How many replicas a service wants by the number of its requests: Kubernetes' horizontal autoscaler.
//!
//! Invariant: `recent` has what was desired at the ticks of the last `down_after` seconds, without those that a later
//! tick reached or passed, so its first is the largest. For example, after 3, 1 and 2 it has 3 and 2.

use std::collections::VecDeque;

/// The keys of `scale = "target"`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// Requests without an answer for each replica.
    pub target: f64,
    /// The fewest replicas.
    pub min: u32,
    /// The most replicas.
    pub max: u32,
    /// Seconds between two ticks.
    pub every: f64,
    /// A ratio so near to 1 changes nothing.
    pub tolerance: f64,
    /// Fewer replicas are wanted only after all ticks of so many seconds desired fewer.
    pub down_after: f64,
}

/// Says at each tick how many replicas a service wants.
#[derive(Clone, Debug)]
pub struct Autoscaler {
    keys: Target,
    wanted: u32,
    ticks: u64,
    /// The requests of the latest tick, and what they desired.
    latest: (u64, u32),
    recent: VecDeque<(f64, u32)>,
}

impl Autoscaler {
    /// Returns the autoscaler before its first tick.
    #[must_use]
    pub fn new(keys: Target) -> Self {
        Self { keys, wanted: keys.min, ticks: 0, latest: (0, keys.min), recent: VecDeque::new() }
    }

    /// Returns how many replicas are wanted.
    #[must_use]
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// Returns whether as many replicas are wanted at every tick to come, if the requests stay as many.
    #[must_use]
    pub fn is_settled(&self, unanswered: u64) -> bool {
        self.latest == (unanswered, self.wanted)
    }

    /// Returns when the next tick is, s.
    #[must_use]
    pub fn next_tick(&self) -> f64 {
        self.ticks as f64 * self.keys.every
    }

    /// Returns how many replicas are wanted from this tick on. unanswered: requests that arrived before it.
    pub fn tick(&mut self, unanswered: u64) -> u32 {
        let Target { target, min, max, tolerance, down_after, .. } = self.keys;
        let (now, n, w) = (self.next_tick(), unanswered as f64, self.wanted);
        self.ticks += 1;
        let is_near = w > 0 && (n / (f64::from(w) * target) - 1.0).abs() <= tolerance;
        // A number beyond a `u32` becomes its greatest.
        let desired = if is_near { w } else { (n / target).ceil() as u32 }.clamp(min, max);
        self.latest = (unanswered, desired);
        while self.recent.back().is_some_and(|&(_, before)| before <= desired) {
            self.recent.pop_back();
        }
        self.recent.push_back((now, desired));
        while self.recent.front().is_some_and(|&(time, _)| time < now - down_after) {
            self.recent.pop_front();
        }
        let largest = self.recent.front().map_or(desired, |&(_, largest)| largest);
        self.wanted = if desired >= w { desired } else { w.min(largest) };
        self.wanted
    }
}

#[cfg(test)]
mod tests {
    use super::{Autoscaler, Target};

    #[test]
    fn replicas_grow_at_once_and_shrink_after_a_while() {
        let keys = Target { target: 2.0, min: 1, max: 3, every: 10.0, tolerance: 0.1, down_after: 15.0 };
        let mut scaler = Autoscaler::new(keys);
        // Of 5 requests 3 replicas have 5 / 6 of the target each. At 30 s 3 were desired 10 s ago; at 40 s no more.
        let wanted: Vec<u32> = [0, 5, 5, 4, 2, 2].into_iter().map(|unanswered| scaler.tick(unanswered)).collect();
        assert_eq!(wanted, [1, 3, 3, 3, 2, 1]);
        assert_eq!(scaler.next_tick(), 60.0);
    }
}
