//! Decisions that were made elsewhere: by an earlier run, a real cluster, or a search.
//!
//! The policy wakes at the time of every decision and carries it out, or the run ends with an error that names it.
//! For example, the log of a FIFO run gives the same start and finish times as the run itself.

use super::roster::Roster;
use crate::decisions::{Decision, DecisionLog, Verb};
use crate::ids::{Job, Slot};
use crate::machine::{Came, Floor, Left, Policy};
use crate::options::{Facts, Feature, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;
use std::collections::BTreeMap;

/// A cursor over a log.
#[derive(Clone, Debug)]
pub(super) struct Logged<'a> {
    log: &'a DecisionLog,
    /// The row of the next decision.
    next: usize,
    roster: Roster,
}

impl<'a> Logged<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        static NOTHING: DecisionLog = DecisionLog::new();
        Self { log: setting.log.unwrap_or(&NOTHING), next: 0, roster: Roster::new(setting.jobs.len()) }
    }

    /// The slot of a job's stay. Otherwise says that it has none.
    fn slot(&self, job: Job) -> Result<Slot, String> {
        self.roster.slot_of(job).ok_or_else(|| "it holds no GPUs at that time".to_owned())
    }

    /// Carries a decision out. Otherwise says why it cannot be.
    fn carry_out<S: Speed>(&mut self, floor: &mut Floor<'_, S>, decision: &Decision) -> Result<(), String> {
        let job = decision.job;
        match decision.verb {
            Verb::Start | Verb::Refuse if !self.roster.is_waiting(job) => {
                let holds = self.roster.slot_of(job).is_some();
                Err(if holds { "it holds GPUs already" } else { "it does not wait at that time" }.to_owned())
            }
            Verb::Start => {
                floor.place_at(job, &decision.parts)?;
                self.roster.set_running(job, floor.start(job));
                Ok(())
            }
            Verb::Stop => {
                floor.stop(self.slot(job)?);
                self.roster.set_waiting(job);
                Ok(())
            }
            Verb::Move => Err("moves are carried out together".to_owned()),
            Verb::Resize => {
                self.roster.set_running(job, floor.resize_to(self.slot(job)?, &decision.parts)?);
                Ok(())
            }
            Verb::End => {
                let slot = self.roster.slot_of(job);
                if slot.is_none() && !(self.roster.is_waiting(job) && floor.has_run(job)) {
                    return Err("it has not run, or is over at that time".to_owned());
                }
                self.roster.set_gone(job);
                floor.end(job, slot);
                Ok(())
            }
            Verb::Refuse => {
                floor.refuse(job)?;
                self.roster.set_gone(job);
                Ok(())
            }
        }
    }
}

impl Logged<'_> {
    /// Carries out all moves that follow on each other at one time: every job gives its GPUs back first.
    /// Otherwise says which job cannot, why, and in which row of the log.
    fn move_all<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> Result<(), (Job, String, usize)> {
        let mut moves = Vec::new();
        while let Some((decision, next)) = self.log.decision(self.next)
            && decision.verb == Verb::Move
            && floor.clock.arrival(decision.time) <= floor.now
        {
            moves.push((self.next, decision));
            self.next = next;
        }
        // What counts of several moves of a job is the last one.
        let mut targets = BTreeMap::new();
        for (at, Decision { job, parts, .. }) in &moves {
            let slot = self.slot(*job).map_err(|why| (*job, why, *at))?;
            floor.note_shift(Verb::Move, *job, parts);
            targets.insert(*job, (slot, parts, *at));
        }
        for &(slot, ..) in targets.values() {
            floor.lift(slot);
        }
        for (job, (_, parts, at)) in targets {
            floor.place_at(job, parts).map_err(|why| (job, why, at))?;
            self.roster.set_running(job, floor.land(job));
        }
        Ok(())
    }
}

impl Named for Logged<'_> {
    const FACTS: Facts = Facts {
        name: "log",
        about: "as a decision log says",
        paper: "",
        knows: &[Feature::Types, Feature::Priorities],
        is: &[Is::Resizes],
        options: &["preempt-cost", "move-cost", "resize-cost"],
    };
}

impl<S: Speed> Policy<S> for Logged<'_> {
    const STOPS: bool = true;

    fn came(&mut self, _floor: &mut Floor<'_, S>, job: Job, _why: Came) {
        self.roster.set_waiting(job);
    }

    fn left(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job, why: Left) {
        if why == Left::Lost { self.roster.set_waiting(job) } else { self.roster.set_gone(job) }
    }

    fn capacity_changed(&mut self) {}

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        let time = self.log.time.get(self.next);
        time.map_or(f64::INFINITY, |&time| f64::max(floor.clock.arrival(time), floor.now))
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        let mut carried_out = 0;
        while let Some((decision, next)) = self.log.decision(self.next)
            && floor.clock.arrival(decision.time) <= floor.now
        {
            if decision.verb == Verb::Move {
                if let Err((job, why, at)) = self.move_all(floor) {
                    return floor.fail(job, Verb::Move, why, Some(at));
                }
                carried_out += 1;
                continue;
            }
            if let Err(why) = self.carry_out(floor, &decision) {
                // A job that started now may be done now: the rest is tried again after that.
                if carried_out == 0 {
                    floor.fail(decision.job, decision.verb, why, Some(self.next));
                }
                return;
            }
            carried_out += 1;
            self.next = next;
        }
    }

    fn is_waiting(&self) -> bool {
        self.roster.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.roster.waiting()
    }
}
