//! Adds up what the uplinks of a network of tiers carry (docs/tiers.md#results).
//!
//! Invariant: after each instant `sum` of an uplink adds up what the stays that cross it send. For example, a job that
//! sends 1e9 bytes in iterations of 2 s adds 0.5e9 bytes/s to each uplink that it crosses, and nothing while it pauses.

use super::clock::{Clock, Rest};
use super::saves::Saves;
use crate::ds::EventHeap;
use crate::ids::Slot;
use crate::outcome::Carried;
use crate::speed::Fabric;

/// Parts of a byte/s in which rates are summed up, so that what comes and goes leaves nothing behind.
const GRAINS: f64 = (1_u64 << 50) as f64;

/// Returns the whole `GRAINS` of a rate, bytes/s, which is neither negative nor infinite.
#[inline]
fn in_grains(rate: f64) -> i128 {
    // As `(rate * GRAINS) as i128`, for which there is no instruction.
    let (mantissa, exponent) = ((rate.to_bits() & ((1 << 52) - 1)) | (1 << 52), (rate.to_bits() >> 52) as i32 - 1025);
    if exponent >= 0 { i128::from(mantissa) << exponent.min(74) } else { i128::from(mantissa) >> (-exponent).min(63) }
}

/// When a stay moves no bytes: before its progress begins, and while it writes checkpoints. Machine times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Breaks {
    every: f64,
    saves: Saves,
    /// Whether it is so now.
    pub(crate) are_on: bool,
    /// From when until when it is so: now, or the next time.
    next: (f64, f64),
}

impl Breaks {
    /// Returns those of a stay that starts at `start`, whose progress begins at `from`, as they are at `now`.
    ///
    /// `every`: between two checkpoints, s; infinity where they take no time, and `saving` is `None`.
    pub(crate) fn at(now: f64, [start, from, every]: [f64; 3], saving: Option<Rest>, clock: Clock) -> Self {
        let (saves, next) = (Saves::from(from, every, 0.0, clock), (f64::INFINITY, from));
        let mut own = Self { every, saves, are_on: from > start, next };
        if !own.are_on {
            own.plan(saving, clock);
        }
        while own.turn_at() <= now {
            own.turn(saving, clock);
        }
        own
    }

    /// Returns when one next begins or ends.
    pub(crate) fn turn_at(&self) -> f64 {
        if self.are_on { self.next.1 } else { self.next.0 }
    }

    /// Begins or ends one.
    pub(crate) fn turn(&mut self, saving: Option<Rest>, clock: Clock) {
        self.are_on = !self.are_on;
        if !self.are_on {
            self.next.0 = f64::INFINITY;
            self.plan(saving, clock);
        }
    }

    /// Finds the next checkpoint.
    fn plan(&mut self, saving: Option<Rest>, clock: Clock) {
        if let Some(cost) = saving {
            self.next = self.saves.step(self.every, cost, clock);
        }
    }
}

/// A stay that spans.
#[derive(Clone, Copy, Debug)]
struct Sender {
    /// Whether it moves no bytes now.
    pauses: bool,
    /// What it sends while it moves bytes, bytes/s.
    traffic: f64,
    /// What it sends now, in `GRAINS`.
    sends: i128,
}

/// What an uplink carries.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    own: Carried,
    /// Bytes/s, and since when (s) they count in `own`.
    rate: f64,
    since: f64,
    /// The sum of the rates now, in `GRAINS`.
    sum: i128,
    is_touched: bool,
}

/// What all uplinks carry.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    clock: Clock,
    saving: Option<Rest>,
    /// The number of the first uplink.
    first: usize,
    loads: Vec<Load>,
    /// By slot; `None` for those that do not span.
    senders: Vec<Option<Sender>>,
    breaks: Vec<Option<Breaks>>,
    /// When breaks next begin or end.
    turns: EventHeap,
    /// Uplinks whose sum changed at this instant.
    touched: Vec<u32>,
}

impl Loads {
    pub(super) fn new(fabric: &Fabric, saving: Option<Rest>, clock: Clock) -> Self {
        let tiers = fabric.uplink_ranges();
        let first = tiers.first().map_or(0, |range| range.start);
        let links = tiers.last().map_or(0, |range| range.end) - first;
        Self {
            clock,
            saving,
            first,
            loads: vec![Load::default(); links],
            senders: Vec::new(),
            breaks: Vec::new(),
            turns: EventHeap::default(),
            touched: Vec::new(),
        }
    }

    /// Adds a stay, which has joined its links. `[start, from, every]` are those of its breaks.
    pub(super) fn join(&mut self, fabric: &Fabric, slot: Slot, times: [f64; 3], now: f64) {
        self.advance(fabric, now);
        if self.senders.len() <= slot.index() {
            self.senders.resize(slot.index() + 1, None);
            self.breaks.resize(slot.index() + 1, None);
        }
        let breaks = Breaks::at(now, times, self.saving, self.clock);
        self.breaks[slot.index()] = Some(breaks);
        self.senders[slot.index()] = Some(Sender { pauses: breaks.are_on, traffic: 0.0, sends: 0 });
        self.watch(slot);
    }

    /// Removes a stay, which has not left its links yet.
    pub(super) fn leave(&mut self, fabric: &Fabric, slot: Slot, now: f64) {
        self.advance(fabric, now);
        self.send(fabric, slot, true);
        (self.senders[slot.index()], self.breaks[slot.index()]) = (None, None);
        self.turns.remove(slot.number());
    }

    /// Notes what a stay sends from now on while it moves bytes, bytes/s.
    #[inline]
    pub(super) fn update(&mut self, fabric: &Fabric, slot: Slot, traffic: f64) {
        let Some(own) = &mut self.senders[slot.index()] else { return };
        own.traffic = traffic;
        let pauses = own.pauses;
        self.send(fabric, slot, pauses);
    }

    /// Ends an instant whose changes were told.
    pub(super) fn settle(&mut self, fabric: &Fabric, now: f64) {
        while let Some((_, slot)) = self.turns.peek().filter(|next| next.0 <= now) {
            self.turn(fabric, Slot::new(slot));
        }
        let now = self.clock.seconds(now);
        for link in self.touched.drain(..) {
            let load = &mut self.loads[link as usize];
            load.is_touched = false;
            load.own.bytes += (now - std::mem::replace(&mut load.since, now)) * load.rate;
            load.rate = load.sum as f64 / GRAINS;
            load.own.most = load.own.most.max(load.rate);
        }
    }

    /// Returns what each uplink carried in a run that is over.
    pub(super) fn into_carried(self) -> Vec<Carried> {
        self.loads.into_iter().map(|load| load.own).collect()
    }

    /// Passes the instants before `now` at which nothing but breaks begins or ends.
    fn advance(&mut self, fabric: &Fabric, now: f64) {
        while let Some((next, _)) = self.turns.peek().filter(|next| next.0 < now) {
            self.settle(fabric, next);
        }
    }

    /// Begins or ends a break of a stay.
    fn turn(&mut self, fabric: &Fabric, slot: Slot) {
        if let (Some(own), Some(breaks)) = (&mut self.senders[slot.index()], &mut self.breaks[slot.index()]) {
            breaks.turn(self.saving, self.clock);
            own.pauses = breaks.are_on;
            let pauses = own.pauses;
            self.send(fabric, slot, pauses);
        }
        self.watch(slot);
    }

    fn watch(&mut self, slot: Slot) {
        let next = self.breaks[slot.index()].as_ref().map_or(f64::INFINITY, |breaks| breaks.turn_at());
        if next < f64::INFINITY {
            self.turns.set(slot.number(), next, slot.number());
        } else {
            self.turns.remove(slot.number());
        }
    }

    /// Notes what a stay sends from now on, or that it does not, on the uplinks that it crosses.
    #[inline]
    fn send(&mut self, fabric: &Fabric, slot: Slot, pauses: bool) {
        let Some(own) = &mut self.senders[slot.index()] else { return };
        let sends = if pauses || own.traffic.is_nan() { 0 } else { in_grains(own.traffic) };
        let more = sends - std::mem::replace(&mut own.sends, sends);
        if more == 0 {
            return;
        }
        for link in fabric.uplinks_of(slot) {
            let link = link as usize - self.first;
            let load = &mut self.loads[link];
            load.sum += more;
            if !std::mem::replace(&mut load.is_touched, true) {
                self.touched.push(link as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn grains_are_those_of_a_cast(rate in prop_oneof![0.0..1e23, 0.0..1e-9, 1.0..1e4, Just(0.0)]) {
            prop_assert_eq!(in_grains(rate), (rate * GRAINS) as i128);
        }
    }
}
