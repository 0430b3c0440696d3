//! Applies outages: servers go down and come back, and the jobs on them lose progress; servers drain, and the jobs on
//! them run on (docs/outages.md).
//!
//! Invariant: `is_down` and `is_draining` are the state of every server after the events before `next`. All GPUs of a
//! server that is down are taken, but by no job, and so are those of a server that drains, but for those that stays
//! hold. For example, if a gang holds GPUs of servers 0 and 1 and server 1 goes down, its stay ends on both, and
//! server 0 has idle GPUs then.

use super::Machine;
use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::policy::{EndReason, Policy};
use super::sleep::Sleep;
use super::stays::Stay;
use crate::decisions::{Row, Verb};
use crate::ids::{Job, Server, Slot};
use crate::outcome::Drained;
use crate::placement::Pools;
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{Outage, merged};
use std::borrow::Cow;

/// A change in the state of a server.
///
/// At one instant they come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// A drain ends.
    Undrain,
    Up,
    Down,
    /// Down, and up again at the same boundary.
    Blink,
    Drain,
}

impl Change {
    /// Returns its place at an instant: ends, then servers that go down, then drains.
    fn turn(self) -> u8 {
        match self {
            Self::Undrain | Self::Up => 0,
            Self::Down | Self::Blink => 1,
            Self::Drain => 2,
        }
    }
}

/// The outages to come.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    /// In order of time (machine time), with rows of the caller's table.
    events: Vec<(f64, Change, Server, u32)>,
    next: usize,
    pub(super) is_down: Vec<bool>,
    is_draining: Vec<bool>,
    /// Number of servers that drain.
    draining: usize,
    /// Whether any ever does.
    drains: bool,
}

impl Outages {
    /// Returns the outages of the setting, if it has any.
    pub(super) fn new(setting: &Setting<'_>, clock: Clock) -> Option<Box<Self>> {
        let given = setting.side.outages?;
        let at = |outage: &Outage| Outage {
            down: clock.arrival(outage.down),
            up: if outage.up == f64::INFINITY { outage.up } else { clock.arrival(outage.up) },
            ..*outage
        };
        // Merged in seconds first, since outages that do not touch may share a slot. Then by boundaries.
        let outages = merged(merged(given.to_vec()).iter().map(at).collect());
        let mut events = Vec::with_capacity(2 * outages.len());
        for Outage { server, down, up, drains, row } in outages {
            if down == up {
                if !drains {
                    events.push((down, Change::Blink, server, row));
                }
                continue;
            }
            let (begin, end) = if drains { (Change::Drain, Change::Undrain) } else { (Change::Down, Change::Up) };
            events.push((down, begin, server, row));
            if up < f64::INFINITY {
                events.push((up, end, server, row));
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1.turn(), a.2).cmp(&(b.1.turn(), b.2))).then(a.1.cmp(&b.1)));
        let drains = given.iter().any(|outage| outage.drains);
        let none = vec![false; setting.server_gpus.len()];
        Some(Box::new(Self { events, next: 0, is_down: none.clone(), is_draining: none, draining: 0, drains }))
    }

    /// Returns when the next server goes down or comes back, or infinity.
    #[inline]
    pub(super) fn next_at(&self) -> f64 {
        self.events.get(self.next).map_or(f64::INFINITY, |event| event.0)
    }

    /// Applies the outages after the last job to sleep, and to what nobody holds of servers that drain: other virtual
    /// clusters may still be running.
    pub(super) fn outlive(
        &self,
        mut sleep: Option<&mut Sleep>,
        clock: Clock,
        cluster: &Pools,
        drained: &mut Vec<Drained>,
    ) {
        let mut is_draining = self.is_draining.clone();
        let mut is_down = self.is_down.clone();
        for &(time, change, server, _) in &self.events[self.next..] {
            let (drains, down) = (&mut is_draining[server.index()], &mut is_down[server.index()]);
            let drained_before = *drains && !*down;
            match change {
                Change::Drain => *drains = true,
                Change::Undrain => *drains = false,
                Change::Down => *down = true,
                Change::Up => *down = false,
                Change::Blink => {}
            }
            let (drains, falls) = (*drains && !*down, matches!(change, Change::Down | Change::Blink));
            if drains != drained_before {
                drained.push(Drained { server, time, gpus: if drains { cluster.size(server) } else { 0 } });
            }
            let Some(sleep) = &mut sleep else { continue };
            if drained_before && (falls || !drains) {
                sleep.let_sleep(server, time, clock);
            }
            if falls {
                sleep.take_down(server, time, clock);
            }
            if matches!(change, Change::Up | Change::Blink) {
                sleep.bring_up(server, time);
            }
            if drains && (falls || !drained_before) {
                sleep.keep_awake(server, time, clock);
            }
        }
    }
}

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Takes down and brings up the servers that change at this instant.
    pub(super) fn change_servers(&mut self) {
        let now = self.state.now;
        while let Some(outages) = &mut self.state.outages
            && let Some(&(time, change, server, row)) = outages.events.get(outages.next)
            && time <= now
        {
            outages.next += 1;
            match change {
                Change::Up => self.state.bring_up(server),
                Change::Drain => self.state.drain(server, row),
                Change::Undrain => self.state.undrain(server),
                Change::Down | Change::Blink => {
                    for slot in self.state.stays_on(server) {
                        let job = self.state.lose(slot, server, row);
                        self.policy.on_end(&self.state, slot, job, EndReason::Lost);
                    }
                    self.state.fail_replicas(server);
                    self.state.take_down(server, row);
                    if change == Change::Blink {
                        self.state.bring_up(server);
                    }
                }
            }
            self.policy.capacity_changed();
        }
        self.fruitless_decisions = 0;
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether a server is down.
    pub(crate) fn is_down(&self, server: Server) -> bool {
        self.outages.as_ref().is_some_and(|outages| outages.is_down[server.index()])
    }

    /// Returns whether a server drains; one that is down may.
    #[inline]
    pub(crate) fn is_draining(&self, server: Server) -> bool {
        self.outages.as_ref().is_some_and(|outages| outages.draining > 0 && outages.is_draining[server.index()])
    }

    /// Returns whether servers drain in this run.
    #[inline]
    pub(crate) fn drains(&self) -> bool {
        self.outages.as_ref().is_some_and(|outages| outages.drains)
    }

    /// Returns whether any stay may be one that nobody takes GPUs from: protected, or on a server that drains.
    #[inline]
    pub(crate) fn may_keep(&self) -> bool {
        self.protects() || self.drains()
    }

    /// Returns whether nobody but an own policy's verb takes GPUs from the stay at a slot now.
    pub(crate) fn is_kept(&self, slot: Slot) -> bool {
        self.is_on_draining(slot) || self.is_protected(slot)
    }

    /// Returns whether a stay holds GPUs of a server that drains.
    #[inline]
    pub(crate) fn is_on_draining(&self, slot: Slot) -> bool {
        self.outages.as_ref().is_some_and(|outages| {
            outages.draining > 0
                && self.stays[slot.index()].parts.iter().any(|part| outages.is_draining[part.0.index()])
        })
    }

    /// Returns the GPUs that a running job holds of servers that drain.
    pub(crate) fn stuck_gpus(&self, job: Job) -> u32 {
        if self.outages.as_ref().is_none_or(|outages| outages.draining == 0) {
            return 0;
        }
        let own = self.stays.iter().filter(|stay| stay.is_live() && stay.job == job);
        own.flat_map(|stay| &stay.parts).filter(|part| self.is_draining(part.0)).map(|part| part.1).sum()
    }

    /// Returns those parts that come free when their holder ends: not those on servers that drain.
    #[inline]
    pub(crate) fn coming_free<'p>(&self, parts: &'p [(Server, u32)]) -> Cow<'p, [(Server, u32)]> {
        match &self.outages {
            Some(outages) if outages.draining > 0 => {
                parts.iter().filter(|part| !outages.is_draining[part.0.index()]).copied().collect()
            }
            _ => Cow::Borrowed(parts),
        }
    }

    /// Returns the slots of the stays with GPUs of a server, in order of their jobs.
    fn stays_on(&self, server: Server) -> Vec<Slot> {
        let here = |stay: &Stay<S::Pace>| stay.parts.iter().any(|part| part.0 == server);
        let mut slots: Vec<Slot> =
            (0..self.stays.len()).filter(|&slot| here(&self.stays[slot])).map(Slot::at).collect();
        slots.sort_unstable_by_key(|slot| self.stays[slot.index()].job);
        slots
    }

    fn take_down(&mut self, server: Server, outage: u32) {
        self.note(Row { server: server.number(), by: outage, ..Row::of(self.now, Verb::Down) });
        if self.is_draining(server) {
            self.cluster.undrain(server);
            self.note_drained(server);
        } else {
            self.close_room(server, self.cluster.idle(server));
        }
        self.cluster.close(server);
        if let Some(outages) = &mut self.outages {
            outages.is_down[server.index()] = true;
        }
        let drains = self.is_draining(server);
        if let Some(sleep) = &mut self.sleep {
            if drains {
                sleep.let_sleep(server, self.now, self.clock);
            }
            sleep.take_down(server, self.now, self.clock);
        }
    }

    fn bring_up(&mut self, server: Server) {
        if let Some(outages) = &mut self.outages {
            outages.is_down[server.index()] = false;
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.bring_up(server, self.now);
        }
        self.cluster.open(server);
        let verb = if self.is_draining(server) {
            self.cluster.drain(server);
            self.note_drained(server);
            if let Some(sleep) = &mut self.sleep {
                sleep.keep_awake(server, self.now, self.clock);
            }
            Verb::Drain
        } else {
            self.open_room(server, self.cluster.idle(server));
            Verb::Up
        };
        self.note(Row { server: server.number(), ..Row::of(self.now, verb) });
    }

    /// From now on nobody else gets GPUs of a server, and its stays run on.
    fn drain(&mut self, server: Server, outage: u32) {
        if self.is_down(server) {
            return self.set_draining(server, true);
        }
        self.note(Row { server: server.number(), by: outage, ..Row::of(self.now, Verb::Drain) });
        let slots = self.stays_on(server);
        slots.iter().for_each(|&slot| self.on_end(slot));
        self.set_draining(server, true);
        slots.iter().for_each(|&slot| self.on_start(slot));
        self.cluster.drain(server);
        self.note_drained(server);
        self.close_room(server, self.cluster.size(server) - self.replicas_on(server));
        if let Some(sleep) = &mut self.sleep {
            sleep.keep_awake(server, self.now, self.clock);
        }
    }

    /// Ends a drain.
    fn undrain(&mut self, server: Server) {
        if self.is_down(server) {
            return self.set_draining(server, false);
        }
        self.note(Row { server: server.number(), ..Row::of(self.now, Verb::Up) });
        let slots = self.stays_on(server);
        slots.iter().for_each(|&slot| self.on_end(slot));
        self.cluster.undrain(server);
        self.note_drained(server);
        self.set_draining(server, false);
        self.open_room(server, self.cluster.size(server) - self.replicas_on(server));
        slots.iter().for_each(|&slot| self.on_start(slot));
        if let Some(sleep) = &mut self.sleep {
            sleep.let_sleep(server, self.now, self.clock);
        }
    }

    /// Records what nobody holds of a server that drains, or drained up to now.
    pub(super) fn note_drained(&mut self, server: Server) {
        let gpus = self.cluster.sealed(server);
        self.out.drained.push(Drained { server, time: self.now, gpus });
    }

    /// Records it of the servers of a stay that has ended.
    #[cold]
    pub(super) fn note_given_back(&mut self, slot: Slot) {
        for at in 0..self.stays[slot.index()].parts.len() {
            let server = self.stays[slot.index()].parts[at].0;
            if self.is_draining(server) {
                self.note_drained(server);
            }
        }
    }

    fn set_draining(&mut self, server: Server, drains: bool) {
        if let Some(outages) = &mut self.outages {
            outages.is_draining[server.index()] = drains;
            outages.draining = if drains { outages.draining + 1 } else { outages.draining - 1 };
        }
    }

    /// Ends a stay because one of its servers fails: the job falls back to its last checkpoint and waits. `outage`: its
    /// row. Returns the job.
    fn lose(&mut self, slot: Slot, server: Server, outage: u32) -> Job {
        let job = self.stays[slot.index()].job;
        let row = Row::of(self.now, Verb::Failed);
        self.note(Row { job: job.number(), server: server.number(), by: outage, ..row });
        self.end_early(slot, Why::Failed(outage));
        self.turn_wait(job);
        job
    }
}

/// When the checkpoints of a stay are: one where its progress starts, and one every `every` seconds of progress
/// (machine time).
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoints {
    from: f64,
    every: f64,
}

impl Checkpoints {
    /// Returns whether all work up to now is saved.
    fn are_always(self, now: f64) -> bool {
        now <= self.from || self.every == 0.0
    }

    /// Returns when the latest one was, apart from the one at the start of progress.
    fn latest(self, now: f64, clock: Clock) -> Option<f64> {
        let slot = clock.slot.unwrap_or(1.0);
        let count = ((now - self.from) * slot / self.every * (1.0 + 1e-12)).floor();
        let passed = count * self.every / slot;
        let time = if clock.slot.is_some() { (self.from + passed * (1.0 - 1e-12)).ceil() } else { self.from + passed };
        (count >= 1.0).then(|| time.min(now))
    }
}

impl<P> Stay<P> {
    /// Returns the work left at the latest checkpoint, and the time since then, where checkpoints take no time.
    ///
    /// A checkpoint is made where the progress of the stay starts, and at every multiple of the interval of progress
    /// from there on. A checkpoint within a slot counts at the next boundary.
    pub(super) fn at_checkpoint(&self, now: f64, clock: Clock) -> (f64, f64) {
        let checkpoints = self.checkpoints();
        if checkpoints.are_always(now) {
            return (self.left_at(now, clock), 0.0);
        }
        let (left, time) = match checkpoints.latest(now, clock) {
            Some(time) if time >= self.since => (self.left_at(time, clock), time),
            Some(time) => (self.saved, time),
            None => (self.saved, self.from),
        };
        (left, f64::max(0.0, now - time))
    }

    /// Returns the schedule of its checkpoints.
    #[inline]
    pub(super) fn checkpoints(&self) -> Checkpoints {
        Checkpoints { from: self.from, every: self.every }
    }

    /// Keeps what the latest checkpoint up to now has saved, before the pace changes.
    #[inline]
    pub(super) fn save(&mut self, now: f64, clock: Clock) {
        if self.every > 0.0
            && now > self.since
            && let Some(time) = self.checkpoints().latest(now, clock)
            && time >= self.since
        {
            self.saved = self.left_at(time, clock);
        }
    }
}
