//! Applies outages: servers go down and come back, and the jobs on them lose progress (docs/outages.md).
//!
//! Invariant: `is_down` is the state of every server after the events before `next`. All GPUs of a server that is down
//! are taken, but by no job. For example, if a gang holds GPUs of servers 0 and 1 and server 1 goes down, its stay ends
//! on both, and server 0 has idle GPUs then.

use super::Machine;
use super::clock::Clock;
use super::cluster_state::ClusterState;
use super::policy::{EndReason, Policy};
use super::sleep::Sleep;
use super::stays::Stay;
use crate::decisions::{Row, Verb};
use crate::ids::{Job, Server, Slot};
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{Outage, merged};

/// A change in the state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Up,
    Down,
    /// Down, and up again at the same boundary.
    Blink,
}

/// The outages to come.
#[derive(Clone, Debug)]
pub(crate) struct Outages {
    /// In order of time (machine time), with rows of the caller's table. At one instant servers come back first, then
    /// others go down or blink.
    events: Vec<(f64, Change, Server, u32)>,
    next: usize,
    pub(super) is_down: Vec<bool>,
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
        for Outage { server, down, up, row } in outages {
            if down == up {
                events.push((down, Change::Blink, server, row));
                continue;
            }
            events.push((down, Change::Down, server, row));
            if up < f64::INFINITY {
                events.push((up, Change::Up, server, row));
            }
        }
        let falls = |change: Change| change != Change::Up;
        events.sort_by(|a, b| a.0.total_cmp(&b.0).then(falls(a.1).cmp(&falls(b.1))).then(a.2.cmp(&b.2)));
        Some(Box::new(Self { events, next: 0, is_down: vec![false; setting.server_gpus.len()] }))
    }

    /// Returns when the next server goes down or comes back, or infinity.
    #[inline]
    pub(super) fn next_at(&self) -> f64 {
        self.events.get(self.next).map_or(f64::INFINITY, |event| event.0)
    }

    /// Applies later outages to sleeping servers after the last job: other virtual clusters may still be running.
    pub(super) fn outlive(&self, sleep: &mut Sleep, clock: Clock) {
        for &(time, change, server, _) in &self.events[self.next..] {
            if change != Change::Up {
                sleep.take_down(server, time, clock);
            }
            if change != Change::Down {
                sleep.bring_up(server, time);
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
            if change == Change::Up {
                self.state.bring_up(server);
            } else {
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
        self.close_room(server, self.cluster.idle(server));
        self.cluster.close(server);
        if let Some(outages) = &mut self.outages {
            outages.is_down[server.index()] = true;
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.take_down(server, self.now, self.clock);
        }
    }

    fn bring_up(&mut self, server: Server) {
        self.note(Row { server: server.number(), ..Row::of(self.now, Verb::Up) });
        self.cluster.open(server);
        self.open_room(server, self.cluster.idle(server));
        if let Some(outages) = &mut self.outages {
            outages.is_down[server.index()] = false;
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.bring_up(server, self.now);
        }
    }

    /// Ends a stay because one of its servers fails: the job falls back to its last checkpoint and waits. `outage`: its
    /// row. Returns the job.
    fn lose(&mut self, slot: Slot, server: Server, outage: u32) -> Job {
        let job = self.stays[slot.index()].job;
        let row = Row::of(self.now, Verb::Failed);
        self.note(Row { job: job.number(), server: server.number(), by: outage, ..row });
        self.fall_back(slot, Why::Failed(outage));
        self.turn_wait(job);
        job
    }

    /// Ends a stay whose job falls back to its last checkpoint.
    pub(super) fn fall_back(&mut self, slot: Slot, why: Why) {
        let stay = &self.stays[slot.index()];
        let (left, passed) = self.at_checkpoint(stay);
        let fallen = left - stay.left_at(self.now, self.clock);
        self.vacate(slot, why, Some(left));
        if let Some(records) = self.out.stay_log.records.last_mut() {
            (records.lost, records.lost_time) = (fallen, self.clock.seconds(passed));
        }
    }

    /// Returns the seconds of progress of the stay at a slot since its latest checkpoint.
    pub(super) fn unsaved(&self, slot: Slot) -> f64 {
        self.clock.seconds(self.at_checkpoint(&self.stays[slot.index()]).1)
    }

    /// Returns the work left at the latest checkpoint of a stay, and the time of progress since then.
    fn at_checkpoint(&self, stay: &Stay<S::Pace>) -> (f64, f64) {
        match self.saving {
            None => stay.at_checkpoint(self.now, self.clock),
            Some(_) => stay.saves.at_latest(self.now),
        }
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
