//! Finds partners: of the jobs that run alone on their GPUs the first, in the order in which they started, that suits.
//!
//! Invariant: a group holds stays of one GPU type, number of GPUs, score and memory, at places that ascend with the
//! order in which they began; those that are not alone have no value there. For example, a job of value 10 finds the
//! first place whose value is 5 or more.
//!
//! A search costs the logarithm of the stays of a group, for every group of as many GPUs in which somebody runs.

use crate::ds::Minima;
use crate::ids::Slot;
use std::collections::BTreeMap;

/// What a job asks of a partner, or what a running job is to one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suits {
    pub(super) gpus: u32,
    pub(super) score: u32,
    /// MiB; NaN where it is unknown.
    pub(super) memory: f64,
    pub(super) value: f64,
}

/// The most to which the scores of two may sum.
pub(super) const MOST_OF_SCORES: u32 = 2;

/// Returns whether the value of one who runs is enough for one who looks for a partner.
pub(super) fn is_enough(running: f64, looking: f64) -> bool {
    looking <= 2.0 * running
}

/// Pool, GPUs, score and memory, as bits.
type Key = (u32, u32, u32, u64);

/// Stays that are alike but for their values.
#[derive(Clone, Debug)]
struct Group {
    key: Key,
    /// By place: the order of its stay, and its slot.
    stays: Vec<(u32, Slot)>,
    /// By place: its value, negated; infinity where it is not alone, or over.
    alone: Minima,
    /// How many of the stays are not over.
    live: usize,
}

impl Group {
    fn new(key: Key) -> Self {
        Self { key, stays: Vec::new(), alone: Minima::new(ROOM), live: 0 }
    }
}

/// Places of a new group.
const ROOM: usize = 8;

/// The groups, and where the stay at each slot is.
#[derive(Clone, Debug, Default)]
pub(super) struct Partners {
    groups: Vec<Group>,
    /// Groups in which somebody runs, by what they have in common.
    by_key: BTreeMap<Key, u32>,
    /// Places of `groups` in which nobody does.
    free: Vec<u32>,
    /// By slot: its group, the order of its stay and its value; no group for one that nobody joins.
    held: Vec<Option<(u32, u32, f64)>>,
    /// By slot: the only other job on its GPUs.
    beside: Vec<Option<Slot>>,
}

impl Partners {
    /// Adds a stay that begins, beside another or alone. `pool`: `None` if nobody may join it.
    pub(super) fn begin(&mut self, slot: Slot, order: u32, pool: Option<u32>, own: Suits, beside: Option<Slot>) {
        if self.held.len() <= slot.index() {
            self.held.resize(slot.index() + 1, None);
            self.beside.resize(slot.index() + 1, None);
        }
        self.held[slot.index()] = pool.map(|pool| {
            let memory = if own.memory.is_nan() { f64::NAN } else { own.memory };
            let key = (pool, own.gpus, own.score, memory.to_bits());
            let group = self.group(key);
            self.groups[group as usize].live += 1;
            self.insert(group, order, slot);
            (group, order, own.value)
        });
        self.beside[slot.index()] = beside;
        self.show(slot, beside.is_none());
        if let Some(other) = beside {
            self.beside[other.index()] = Some(slot);
            self.show(other, false);
        }
    }

    /// Removes a stay that ended. Returns the one that is alone now.
    pub(super) fn end(&mut self, slot: Slot) -> Option<Slot> {
        self.show(slot, false);
        let found = self.held.get_mut(slot.index()).and_then(Option::take);
        if let Some((group, order, _)) = found {
            let own = &mut self.groups[group as usize];
            let at = own.stays.partition_point(|stay| stay.0 < order);
            own.stays[at].1 = Slot::NONE;
            own.live -= 1;
            if own.live == 0 {
                own.stays.clear();
                self.by_key.remove(&own.key);
                self.free.push(group);
            }
        }
        let other = self.beside.get_mut(slot.index()).and_then(Option::take)?;
        self.beside[other.index()] = None;
        self.show(other, true);
        Some(other)
    }

    /// Returns the GPUs and the value of a stay that others may join.
    pub(super) fn of(&self, slot: Slot) -> Option<(u32, f64)> {
        let (group, _, value) = (*self.held.get(slot.index())?)?;
        Some((self.groups[group as usize].key.1, value))
    }

    /// Returns the first partner whose stay began after `after`, and the order of its stay. `pools`: the types that the
    /// job may use, each with the memory of a GPU, MiB.
    pub(super) fn first(
        &self,
        job: Suits,
        pools: impl Iterator<Item = (u32, f64)>,
        after: Option<u32>,
    ) -> Option<(u32, Slot)> {
        let mut best: Option<(u32, Slot)> = None;
        for (pool, room) in pools {
            let least = (pool, job.gpus, 0, 0);
            for (_, &group) in self.by_key.range(least..=(pool, job.gpus, MOST_OF_SCORES - job.score, u64::MAX)) {
                let group = &self.groups[group as usize];
                if f64::from_bits(group.key.3) + job.memory >= room {
                    continue;
                }
                let from = after.map_or(0, |after| group.stays.partition_point(|stay| stay.0 <= after));
                // Values are negated.
                let place = group.alone.next(from, group.stays.len(), |value| is_enough(-value, job.value));
                let found = place.map(|place| group.stays[place]);
                best = best.into_iter().chain(found).min();
            }
        }
        best
    }

    fn group(&mut self, key: Key) -> u32 {
        let Self { groups, free, .. } = self;
        *self.by_key.entry(key).or_insert_with(|| match free.pop() {
            Some(group) => {
                groups[group as usize].key = key;
                group
            }
            None => {
                groups.push(Group::new(key));
                groups.len() as u32 - 1
            }
        })
    }

    /// Adds a place for a stay; mostly the last.
    fn insert(&mut self, group: u32, order: u32, slot: Slot) {
        let Self { groups, held, beside, .. } = self;
        let own = &mut groups[group as usize];
        let at = own.stays.partition_point(|stay| stay.0 < order);
        let places = own.alone.places();
        if at == own.stays.len() && at < places {
            own.stays.push((order, slot));
            return;
        }
        own.stays.insert(at, (order, slot));
        own.stays.retain(|stay| stay.1 != Slot::NONE);
        own.alone = Minima::new(usize::max(ROOM, 2 * own.stays.len()));
        for (place, &(order, slot)) in own.stays.iter().enumerate() {
            if let Some((_, _, value)) = held[slot.index()].filter(|held| held.0 == group && held.1 == order)
                && beside[slot.index()].is_none()
            {
                own.alone.set(place, -value);
            }
        }
    }

    /// Shows a stay to those who look for a partner, or hides it.
    fn show(&mut self, slot: Slot, shown: bool) {
        let Some(Some((group, order, value))) = self.held.get(slot.index()).copied() else { return };
        let group = &mut self.groups[group as usize];
        let place = group.stays.partition_point(|stay| stay.0 < order);
        group.alone.set(place, if shown { -value } else { f64::INFINITY });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_to_start_that_suits_is_found() {
        let mut partners = Partners::default();
        let own = |gpus, score, value| Suits { gpus, score, memory: f64::NAN, value };
        let slot = Slot::new;
        // Twenty of value 1 or 9 on 2 GPUs, and one of 4.
        for at in 0..20 {
            partners.begin(slot(at), at, Some(0), own(2, at % 3, if at < 10 { 1.0 } else { 9.0 }), None);
        }
        partners.begin(slot(30), 20, Some(0), own(4, 0, 9.0), None);
        let first = |partners: &Partners, gpus, score, value, after| {
            partners.first(own(gpus, score, value), [(0, f64::NAN)].into_iter(), after).map(|(_, slot)| slot.number())
        };
        assert_eq!(first(&partners, 2, 0, 2.0, None), Some(0));
        assert_eq!(first(&partners, 2, 0, 2.5, None), Some(10));
        assert_eq!([first(&partners, 2, 2, 18.0, None), first(&partners, 2, 0, 18.5, None)], [Some(12), None]);
        assert_eq!([first(&partners, 4, 0, 1.0, None), first(&partners, 2, 0, 1.0, Some(0))], [Some(30), Some(1)]);
        // 40 joins 10, then 10 leaves: 40 is alone, at its own place.
        partners.begin(slot(40), 21, Some(0), own(2, 0, 12.0), Some(slot(10)));
        assert_eq!([first(&partners, 2, 0, 18.0, None), first(&partners, 2, 0, 20.0, None)], [Some(11), None]);
        assert_eq!(partners.end(slot(10)), Some(slot(40)));
        assert_eq!(first(&partners, 2, 0, 20.0, None), Some(40));
        // A stay that goes on after all has its old place.
        partners.begin(slot(10), 10, Some(0), own(2, 1, 9.0), None);
        assert_eq!([first(&partners, 2, 0, 18.0, None), first(&partners, 2, 0, 18.0, Some(10))], [Some(10), Some(11)]);
        assert_eq!(
            (partners.of(slot(40)), partners.end(slot(40)), partners.of(slot(40))),
            (Some((2, 12.0)), None, None)
        );
    }

    #[test]
    fn memory_must_leave_some_room() {
        let mut partners = Partners::default();
        let own = |memory| Suits { gpus: 1, score: 0, memory, value: 1.0 };
        partners.begin(Slot::new(0), 0, Some(0), own(600.0), None);
        partners.begin(Slot::new(1), 1, Some(0), own(f64::NAN), None);
        let first = |memory, room| partners.first(own(memory), [(0, room)].into_iter(), None).map(|found| found.0);
        assert_eq!([first(399.0, 1000.0), first(400.0, 1000.0), first(f64::NAN, 1000.0)], [Some(0), Some(1), Some(0)]);
        assert_eq!(first(900.0, f64::NAN), Some(0));
    }
}
