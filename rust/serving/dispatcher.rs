//! The replicas of a service that take new requests.
//!
//! Invariant: members are in the order (serves_from, row of replicas.parquet), and `assigned` has the requests of each
//! at its place, so the first of the least is the one that a request goes to. It is made again after members come and
//! go. For example, with 2, 1 and 1 requests the next one goes to the second.

use crate::ds::{Minima, ordered};

/// What orders the replicas of a service: serves_from, start, server, number.
pub(super) type Rank = (u64, u64, u32, u32);

/// Returns the rank of a replica.
pub(super) fn rank(serves_from: f64, start: f64, server: u32, number: u32) -> Rank {
    (ordered(serves_from), ordered(start), server, number)
}

#[derive(Clone, Debug)]
pub(super) struct Dispatcher {
    members: Vec<(Rank, u32)>,
    assigned: Minima,
    /// The place of each replica in `members`.
    places: Vec<usize>,
    is_stale: bool,
}

const NOWHERE: usize = usize::MAX;

impl Dispatcher {
    pub(super) fn new() -> Self {
        Self { members: Vec::new(), assigned: Minima::new(1), places: Vec::new(), is_stale: false }
    }

    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn add(&mut self, rank: Rank, slot: u32) {
        let place = self.members.partition_point(|&(other, _)| other < rank);
        self.members.insert(place, (rank, slot));
        self.is_stale = true;
    }

    pub(super) fn remove(&mut self, rank: Rank) {
        let place = self.members.partition_point(|&(other, _)| other < rank);
        if self.members.get(place).is_some_and(|&(other, _)| other == rank) {
            let (_, slot) = self.members.remove(place);
            if let Some(place) = self.places.get_mut(slot as usize) {
                *place = NOWHERE;
            }
            self.is_stale = true;
        }
    }

    /// Takes note of who came and went. assigned: the requests of a replica.
    #[inline]
    pub(super) fn refresh(&mut self, assigned: impl Fn(u32) -> usize) {
        if !self.is_stale {
            return;
        }
        self.is_stale = false;
        self.assigned = Minima::new(self.members.len().max(1));
        for (place, &(_, slot)) in self.members.iter().enumerate() {
            if self.places.len() <= slot as usize {
                self.places.resize(slot as usize + 1, NOWHERE);
            }
            self.places[slot as usize] = place;
            self.assigned.set(place, assigned(slot) as f64);
        }
    }

    /// Notes the requests of a replica, if it is a member.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, assigned: usize) {
        if let Some(&place) = self.places.get(slot as usize)
            && place != NOWHERE
            && !self.is_stale
        {
            self.assigned.set(place, assigned as f64);
        }
    }

    /// Returns the replica with the fewest requests, and how many they are.
    #[inline]
    pub(super) fn fewest(&self) -> Option<(u32, usize)> {
        let place = self.assigned.least();
        self.members.get(place).map(|&(_, slot)| (slot, self.assigned.get(place) as usize))
    }
}
