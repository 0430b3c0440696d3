//! Orders future events: an indexed 4-ary heap.
//!
//! Invariant: no entry ranks before its parent by (time, row), and `position` has the place of each slot's entry. So an
//! entry moves in place when its time changes, and no stale entry stays behind. For example, with slot 0 at 5 s and
//! slot 1 at 7 s, setting slot 1 to 3 s makes it the first.

use super::{ordered, unordered};

/// (time, row, slot) as one number that sorts the same way; no two have the same row. One number is compared without a
/// branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    #[inline]
    fn new(time: f64, row: u32, slot: u32) -> Self {
        Self(u128::from(ordered(time)) << 64 | u128::from(row) << 32 | u128::from(slot))
    }

    #[inline]
    fn time(self) -> f64 {
        unordered((self.0 >> 64) as u64)
    }

    #[inline]
    fn slot(self) -> u32 {
        self.0 as u32
    }
}

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

/// Min-heap of running slots by (time, row). Push, pop, re-time and remove cost log4 of its size.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventHeap {
    entries: Vec<Entry>,
    /// Where each slot's entry is.
    position: Vec<u32>,
}

impl EventHeap {
    /// Returns the least (time, slot).
    #[inline]
    pub(crate) fn peek(&self) -> Option<(f64, u32)> {
        self.entries.first().map(|entry| (entry.time(), entry.slot()))
    }

    /// Adds a slot, or moves it to another time.
    #[inline]
    pub(crate) fn set(&mut self, slot: u32, time: f64, row: u32) {
        let entry = Entry::new(time, row, slot);
        if self.position.len() <= slot as usize {
            self.position.resize(slot as usize + 1, ABSENT);
        }
        let at = self.position[slot as usize];
        if at == ABSENT {
            self.entries.push(entry);
            self.rise(self.entries.len() - 1, entry);
        } else {
            let at = at as usize;
            if entry < self.entries[at] {
                self.rise(at, entry);
            } else {
                self.sink(at, entry);
            }
        }
    }

    /// Removes a slot, if present.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let Some(&at) = self.position.get(slot as usize) else { return };
        if at == ABSENT {
            return;
        }
        self.position[slot as usize] = ABSENT;
        let Some(last) = self.entries.pop() else { return };
        let at = at as usize;
        if at == self.entries.len() {
            return;
        }
        if at > 0 && last < self.entries[(at - 1) / ARITY] {
            self.rise(at, last);
        } else {
            self.sink(at, last);
        }
    }

    /// Replaces a slot that is present by another one.
    pub(crate) fn replace(&mut self, slot: u32, other: u32, time: f64, row: u32) {
        let at = self.position[slot as usize];
        self.position[slot as usize] = ABSENT;
        if self.position.len() <= other as usize {
            self.position.resize(other as usize + 1, ABSENT);
        }
        self.position[other as usize] = at;
        self.set(other, time, row);
    }

    #[inline]
    fn put(&mut self, at: usize, entry: Entry) {
        self.entries[at] = entry;
        self.position[entry.slot() as usize] = at as u32;
    }

    #[inline]
    fn rise(&mut self, mut at: usize, entry: Entry) {
        while at > 0 {
            let parent = (at - 1) / ARITY;
            if entry > self.entries[parent] {
                break;
            }
            self.put(at, self.entries[parent]);
            at = parent;
        }
        self.put(at, entry);
    }

    /// Returns the least child of an entry.
    #[inline]
    fn least_child(&self, at: usize) -> Option<usize> {
        let first = at * ARITY + 1;
        let Some([a, b, c, d]) = self.entries.get(first..first + ARITY) else {
            return (first..self.entries.len()).min_by_key(|&child| self.entries[child]);
        };
        let (left, right) = (usize::from(b < a), 2 + usize::from(d < c));
        let least = if self.entries[first + right] < self.entries[first + left] { right } else { left };
        Some(first + least)
    }

    #[inline]
    fn sink(&mut self, mut at: usize, entry: Entry) {
        while let Some(least) = self.least_child(at).filter(|&least| self.entries[least] < entry) {
            self.put(at, self.entries[least]);
            at = least;
        }
        self.put(at, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::EventHeap;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn yields_the_least_pair(steps in prop::collection::vec((0u8..4, 0u32..40, 0u32..30), 1..300)) {
            let mut heap = EventHeap::default();
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (kind, slot, time) in steps {
                match kind {
                    0 => {
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                    _ => {
                        heap.set(slot, f64::from(time), 1000 - slot);
                        model.insert(slot, time);
                    }
                }
                let least = model.iter().map(|(&s, &t)| (t, 1000 - s, s)).min();
                prop_assert_eq!(heap.peek(), least.map(|(t, _, s)| (f64::from(t), s)));
            }
        }
    }
}
