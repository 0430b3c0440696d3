//! Keeps seats: sets of GPUs, and the jobs of whole GPUs that hold exactly them (docs/lucid.md).
//!
//! Invariant: the members of a seat stand in the order in which their stays began, and the GPUs are held in the cluster
//! by the first, the host; the others, guests, hold nothing there. For example, if the host of a seat of two is done,
//! the other is the host from then on, and the GPUs are idle only when it leaves too.
//!
//! Kept only in runs with `--jobs-per-gpu` above 1. A stay that holds a share has no seat.

use crate::ids::{NO_SEAT, Slot};
use std::collections::BTreeMap;

/// Those who sit on the same GPUs.
#[derive(Clone, Debug, Default)]
struct Seat {
    /// The slots of their stays, in the order in which they began.
    members: Vec<Slot>,
    /// How many of them no job may evict.
    firm: u32,
}

/// All seats. They are numbered from 0, as they come to be.
#[derive(Clone, Debug)]
pub(crate) struct Seats {
    /// The most members of a seat.
    pub(super) most: usize,
    pub(super) interference: f64,
    taken: Vec<Seat>,
    free: Vec<u32>,
    /// By number, the place of a seat in `taken`; `NO_SEAT` of one that nobody holds.
    place: Vec<u32>,
    /// Seats with other members since their rates were last computed.
    changed: Vec<u32>,
    /// The seat that the next stay joins.
    pub(super) joining: Option<u32>,
}

impl Seats {
    pub(super) fn new(most: u32, interference: f64) -> Self {
        Self {
            most: most as usize,
            interference,
            taken: Vec::new(),
            free: Vec::new(),
            place: Vec::new(),
            changed: Vec::new(),
            joining: None,
        }
    }

    /// Returns the members of a seat; none of one that nobody holds.
    #[inline]
    pub(crate) fn members(&self, seat: u32) -> &[Slot] {
        self.place_of(seat).map_or(&[], |at| &self.taken[at].members)
    }

    /// Returns the stays that are alone on their seats.
    pub(super) fn alone(&self) -> impl Iterator<Item = Slot> + '_ {
        self.taken.iter().filter(|seat| seat.members.len() == 1).map(|seat| seat.members[0])
    }

    #[inline]
    fn place_of(&self, seat: u32) -> Option<usize> {
        let at = *self.place.get(seat as usize)?;
        (at != NO_SEAT).then_some(at as usize)
    }

    /// Returns the number of the next seat that comes to be.
    pub(super) fn new_number(&mut self) -> u32 {
        self.place.push(NO_SEAT);
        self.place.len() as u32 - 1
    }

    /// Adds a stay at a place among the members.
    pub(super) fn insert(&mut self, seat: u32, at: usize, slot: Slot) {
        if self.place[seat as usize] == NO_SEAT {
            let free = self.free.pop().unwrap_or(self.taken.len() as u32);
            if free as usize == self.taken.len() {
                self.taken.push(Seat::default());
            }
            self.place[seat as usize] = free;
        }
        self.taken[self.place[seat as usize] as usize].members.insert(at, slot);
        self.changed.push(seat);
    }

    /// Removes a stay.
    pub(super) fn remove(&mut self, seat: u32, slot: Slot) {
        let Some(at) = self.place_of(seat) else { return };
        self.taken[at].members.retain(|&member| member != slot);
        if self.taken[at].members.is_empty() {
            self.place[seat as usize] = NO_SEAT;
            self.free.push(at as u32);
        } else {
            self.changed.push(seat);
        }
    }

    /// Counts a member that no job may evict. Returns whether it is the first.
    pub(super) fn hold_firm(&mut self, seat: u32) -> bool {
        let Some(at) = self.place_of(seat) else { return true };
        self.taken[at].firm += 1;
        self.taken[at].firm == 1
    }

    /// Counts one less. Returns whether it was the last.
    pub(super) fn let_loose(&mut self, seat: u32) -> bool {
        let Some(at) = self.place_of(seat) else { return true };
        self.taken[at].firm -= 1;
        self.taken[at].firm == 0
    }

    /// Moves the members of the seats that changed since the last call to `members`.
    pub(super) fn drain_changed(&mut self, members: &mut Vec<Slot>) {
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed.drain(..).for_each(|seat| members.extend_from_slice(self.members(seat)));
        self.changed = changed;
    }

    pub(super) fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }
}

/// Counts the GPUs that come free when stays leave one by one: those of a seat with the last of its members.
#[derive(Debug, Default)]
pub(super) struct Leaving(BTreeMap<u32, usize>);

impl Leaving {
    /// Notes that a stay leaves. Returns whether its GPUs come free.
    pub(super) fn leave(&mut self, seats: Option<&Seats>, seat: u32) -> bool {
        let Some(members) = seats.map(|seats| seats.members(seat).len()).filter(|&members| members > 1) else {
            return true;
        };
        let gone = self.0.entry(seat).or_default();
        *gone += 1;
        *gone == members
    }

    /// Takes that back. Returns whether its GPUs had come free.
    pub(super) fn stay(&mut self, seats: Option<&Seats>, seat: u32) -> bool {
        let Some(gone) = self.0.get_mut(&seat) else { return true };
        *gone -= 1;
        seats.is_none_or(|seats| seats.members(seat).len() == *gone + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_come_free_with_the_last() {
        let mut seats = Seats::new(2, 0.0);
        let seat = seats.new_number();
        seats.insert(seat, 0, Slot::new(4));
        seats.insert(seat, 1, Slot::new(2));
        assert_eq!(seats.members(seat), [4, 2].map(Slot::new));
        let mut leaving = Leaving::default();
        assert!([false, true] == [(); 2].map(|()| leaving.leave(Some(&seats), seat)));
        assert!([true, false] == [(); 2].map(|()| leaving.stay(Some(&seats), seat)));
        assert!(leaving.leave(Some(&seats), NO_SEAT) && leaving.stay(Some(&seats), NO_SEAT));
        assert!(seats.hold_firm(seat) && !seats.hold_firm(seat) && !seats.let_loose(seat) && seats.let_loose(seat));
        let mut members = Vec::new();
        seats.remove(seat, Slot::new(4));
        seats.drain_changed(&mut members);
        assert_eq!(members, [Slot::new(2)]);
        seats.remove(seat, Slot::new(2));
        assert!(seats.is_settled() && seats.members(seat).is_empty() && seats.new_number() == 1);
    }
}
