//! Slows down co-located shares: on a GPU with n jobs each runs at 1 / (1 + interference (n - 1)) of its rate. For two
//! jobs the model may know a measured rate (`Speed::meet`).
//!
//! Kept only where shares slow each other down. Invariant: `place` has the GPU of every stay that holds a share. For
//! example, with an interference of 0.5 a job that shares its GPU with two others takes twice as long.

use super::LinkContention;
use crate::ids::{Server, Slot};

/// Stands for no GPU.
const NOWHERE: u32 = u32::MAX;

/// Which shares are on which GPU.
#[derive(Clone, Debug)]
pub(crate) struct CoLocation {
    interference: f64,
    /// The first GPU of each server.
    first: Vec<u32>,
    sharers: LinkContention,
    /// The GPU of the stay at each slot.
    place: Vec<u32>,
}

impl CoLocation {
    pub(crate) fn new(server_gpus: &[u32], interference: f64) -> Self {
        let mut gpus = 0;
        let mut first = Vec::with_capacity(server_gpus.len());
        for &size in server_gpus {
            first.push(gpus);
            gpus += size;
        }
        Self { interference, first, sharers: LinkContention::new(gpus as usize), place: Vec::new() }
    }

    /// Adds a stay that begins on a GPU, given by its index on a server.
    pub(crate) fn join(&mut self, slot: Slot, server: Server, gpu: u32) {
        if self.place.len() <= slot.index() {
            self.place.resize(slot.index() + 1, NOWHERE);
        }
        let place = self.first[server.index()] + gpu;
        self.place[slot.index()] = place;
        self.sharers.join(slot, std::iter::once(place as usize));
    }

    /// Removes a stay that ends, if it holds a share.
    pub(crate) fn leave(&mut self, slot: Slot) {
        let Some(place) = self.place.get_mut(slot.index()) else { return };
        let place = std::mem::replace(place, NOWHERE);
        if place != NOWHERE {
            self.sharers.leave(slot, std::iter::once(place as usize));
        }
    }

    /// Returns the other stay on its GPU, if there is exactly one.
    pub(crate) fn other(&self, slot: Slot) -> Option<Slot> {
        let place = self.place.get(slot.index()).filter(|&&place| place != NOWHERE)?;
        match *self.sharers.members(*place as usize) {
            [one, other] => Some(if one == slot { other } else { one }),
            _ => None,
        }
    }

    /// Returns how many times as long a stay takes as alone on its GPU.
    pub(crate) fn slowdown(&self, slot: Slot) -> f64 {
        let jobs = self.sharers.of(std::iter::once(self.place[slot.index()] as usize));
        1.0 + self.interference * f64::from(jobs - 1)
    }

    /// Moves the stays on GPUs that changed since the last call to `members`.
    pub(crate) fn drain_changed(&mut self, members: &mut Vec<Slot>) {
        self.sharers.drain_changed(members);
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.sharers.is_settled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_gpu_is_slowed_down() {
        let mut co_location = CoLocation::new(&[2, 2], 0.5);
        co_location.join(Slot::new(0), Server::new(1), 0);
        co_location.join(Slot::new(2), Server::new(1), 0);
        co_location.join(Slot::new(1), Server::new(0), 1);
        assert_eq!([0, 1, 2].map(|slot| co_location.slowdown(Slot::new(slot))), [1.5, 1.0, 1.5]);
        let others =
            |co_location: &CoLocation| [0, 1, 2].map(|slot| co_location.other(Slot::new(slot)).map(Slot::number));
        assert_eq!(others(&co_location), [Some(2), None, Some(0)]);
        assert_eq!(co_location.other(Slot::new(7)), None);
        co_location.join(Slot::new(3), Server::new(1), 0);
        assert_eq!(others(&co_location), [None; 3]);
        co_location.leave(Slot::new(3));
        co_location.drain_changed(&mut Vec::new());
        co_location.leave(Slot::new(2));
        co_location.leave(Slot::new(7));
        let mut members = Vec::new();
        co_location.drain_changed(&mut members);
        assert_eq!((members, co_location.slowdown(Slot::new(0))), (vec![Slot::new(0)], 1.0));
    }
}
