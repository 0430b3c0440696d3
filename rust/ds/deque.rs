//! Keeps events that are mostly set in order of time: a deque beside an [`EventHeap`].
//!
//! Invariant: `order` is in order of (time, row), and the heap has the first of its slots and no other. So the heap
//! alone gives the next event, and a slot added at the end of the deque moves no other. For example, jobs that save for
//! ten seconds every half hour are in the deque in the order in which they last saved.

use super::EventHeap;
use std::collections::VecDeque;

/// A place in the deque.
#[derive(Clone, Copy, Debug)]
struct Place {
    time: f64,
    row: u32,
    slot: u32,
    /// Number of places given before it.
    number: u64,
}

const NOBODY: u32 = u32::MAX;

/// Unused places that are kept beyond the number of used ones.
const KEPT: usize = 64;

/// The deque. A slot is in it, or in the heap alone, or in neither.
#[derive(Clone, Debug)]
pub(crate) struct Deque {
    /// The places after the first, including those that their slots have left.
    order: VecDeque<Place>,
    /// The slot of the first place, which the heap also has.
    first: u32,
    /// The time and the number of each slot's place; NaN if it has none.
    places: Vec<(f64, u64)>,
    given: u64,
    /// Number of unused places in `order`.
    left: usize,
    /// The last place given.
    last: (f64, u32),
}

impl Default for Deque {
    fn default() -> Self {
        let (order, places) = (VecDeque::new(), Vec::new());
        Self { order, first: NOBODY, places, given: 0, left: 0, last: (f64::NEG_INFINITY, 0) }
    }
}

impl Deque {
    /// Sets a slot's event: in the deque if it is later than all others, as the slot's next event most likely will be.
    pub(crate) fn set(&mut self, heap: &mut EventHeap, slot: u32, time: f64, row: u32) {
        if self.places.len() <= slot as usize {
            self.places.resize(slot as usize + 1, (f64::NAN, 0));
        }
        if self.places[slot as usize].0 == time {
            return;
        }
        if self.first != NOBODY && (time < self.last.0 || (time == self.last.0 && row <= self.last.1)) {
            return self.set_alone(heap, slot, time, row);
        }
        let number = self.given;
        self.given += 1;
        self.last = (time, row);
        if self.first == NOBODY {
            self.first = slot;
            self.places[slot as usize] = (time, number);
            return heap.set(slot, time, row);
        }
        let was = std::mem::replace(&mut self.places[slot as usize], (time, number));
        self.order.push_back(Place { time, row, slot, number });
        if self.first == slot {
            match self.take_first() {
                Some(next) if next.slot != slot => heap.replace(slot, next.slot, next.time, next.row),
                _ => heap.set(slot, time, row),
            }
        } else if was.0.is_nan() {
            heap.remove(slot);
        } else {
            self.leave();
        }
    }

    /// Sets a slot's event in the heap alone.
    pub(crate) fn set_alone(&mut self, heap: &mut EventHeap, slot: u32, time: f64, row: u32) {
        self.forget(heap, slot);
        heap.set(slot, time, row);
    }

    /// Removes a slot from the deque. If it is the first, the next one goes into the heap, and the slot itself stays
    /// there.
    pub(crate) fn forget(&mut self, heap: &mut EventHeap, slot: u32) {
        let Some(place) = self.places.get_mut(slot as usize).filter(|place| !place.0.is_nan()) else { return };
        place.0 = f64::NAN;
        if self.first != slot {
            return self.leave();
        }
        if let Some(next) = self.take_first() {
            heap.set(next.slot, next.time, next.row);
        }
    }

    /// Makes the next one in the deque the first, and removes it.
    fn take_first(&mut self) -> Option<Place> {
        while let Some(place) = self.order.pop_front() {
            if self.counts(&place) {
                self.first = place.slot;
                return Some(place);
            }
            self.left -= 1;
        }
        self.first = NOBODY;
        None
    }

    fn counts(&self, place: &Place) -> bool {
        let (time, number) = self.places[place.slot as usize];
        number == place.number && !time.is_nan()
    }

    /// Counts one more unused place in the deque.
    fn leave(&mut self) {
        self.left += 1;
        if self.left > self.order.len() / 2 + KEPT {
            let mut order = std::mem::take(&mut self.order);
            order.retain(|place| self.counts(place));
            (self.order, self.left) = (order, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Deque, EventHeap};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_heap_yields_the_least_of_all(
            steps in prop::collection::vec((0u8..8, 0u32..20, 0u32..30, 1u32..60), 1..600),
        ) {
            let (mut heap, mut deque) = (EventHeap::default(), Deque::default());
            let mut model: BTreeMap<u32, u32> = BTreeMap::new();
            for (kind, slot, time, on) in steps {
                let mut time = time;
                match kind {
                    0 => {
                        deque.forget(&mut heap, slot);
                        heap.remove(slot);
                        model.remove(&slot);
                    }
                    1 => {
                        deque.set_alone(&mut heap, slot, f64::from(time), 100 - slot);
                        model.insert(slot, time);
                    }
                    // Like a stay that saves: the first goes behind all the others, or nearly.
                    2..6 if !model.is_empty() => {
                        let (now, first) = heap.peek().unwrap();
                        time = now as u32 + on;
                        deque.set(&mut heap, first, f64::from(time), 100 - first);
                        model.insert(first, time);
                    }
                    _ => {
                        deque.set(&mut heap, slot, f64::from(time), 100 - slot);
                        model.insert(slot, time);
                    }
                }
                let least = model.iter().map(|(&slot, &time)| (time, 100 - slot, slot)).min();
                prop_assert_eq!(heap.peek(), least.map(|(time, _, slot)| (f64::from(time), slot)));
                prop_assert!(deque.order.len() <= 2 * model.len() + 2 * super::KEPT);
            }
        }
    }
}
