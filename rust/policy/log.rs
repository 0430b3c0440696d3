//! Decisions that were made elsewhere: by an earlier run, a real cluster, or a search.
//!
//! The policy wakes at the time of every decision and carries it out, or the run ends with an error that names it.
//! Invariant: `waiting` holds the jobs that have arrived, hold no GPUs, are not done and were not refused. For example,
//! the log of a FIFO run gives the same start and finish times as the run itself.

use super::Policy;
use crate::decisions::{Decision, DecisionLog, Verb};
use crate::ds::OrderedBits;
use crate::ids::{Job, Slot};
use crate::machine::Floor;
use crate::setting::Setting;
use crate::speed::Speed;
use std::collections::BTreeMap;

/// A cursor over a log.
#[derive(Clone, Debug)]
pub(super) struct Logged<'a> {
    log: &'a DecisionLog,
    /// The row of the next decision.
    next: usize,
    waiting: OrderedBits,
    num_waiting: usize,
    /// The slot of each running job's stay.
    slot: Vec<Slot>,
}

impl<'a> Logged<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        static NOTHING: DecisionLog = DecisionLog::new();
        let jobs = setting.jobs.len();
        Self {
            log: setting.log.unwrap_or(&NOTHING),
            next: 0,
            waiting: OrderedBits::new(jobs),
            num_waiting: 0,
            slot: vec![Slot::NONE; jobs],
        }
    }

    fn waits(&self, job: Job) -> bool {
        self.waiting.next(job.index()) == Some(job.index())
    }

    fn set_waiting(&mut self, job: Job, waits: bool) {
        if waits {
            self.waiting.insert(job.index());
            self.num_waiting += 1;
        } else {
            self.waiting.remove(job.index());
            self.num_waiting -= 1;
        }
    }

    /// Carries a decision out. Otherwise says why it cannot be.
    fn carry_out<S: Speed>(&mut self, floor: &mut Floor<'_, S>, decision: &Decision) -> Result<(), String> {
        let job = decision.job;
        match decision.verb {
            Verb::Start | Verb::Refuse if !self.waits(job) => {
                let holds = self.slot[job.index()] != Slot::NONE;
                Err(if holds { "it holds GPUs already" } else { "it does not wait at that time" }.to_owned())
            }
            Verb::Start => {
                floor.place_at(job, &decision.parts)?;
                self.slot[job.index()] = floor.start(job);
                self.set_waiting(job, false);
                Ok(())
            }
            Verb::Stop => {
                let slot = std::mem::replace(&mut self.slot[job.index()], Slot::NONE);
                if slot == Slot::NONE {
                    return Err("it holds no GPUs at that time".to_owned());
                }
                floor.stop(slot);
                self.set_waiting(job, true);
                Ok(())
            }
            Verb::Move => Err("moves are carried out together".to_owned()),
            Verb::Resize => {
                let slot = self.slot[job.index()];
                if slot == Slot::NONE {
                    return Err("it holds no GPUs at that time".to_owned());
                }
                self.slot[job.index()] = floor.resize_to(slot, &decision.parts)?;
                Ok(())
            }
            Verb::End => {
                let slot = std::mem::replace(&mut self.slot[job.index()], Slot::NONE);
                if slot == Slot::NONE {
                    if !(self.waits(job) && floor.has_run(job)) {
                        return Err("it has not run, or is over at that time".to_owned());
                    }
                    self.set_waiting(job, false);
                }
                floor.end(job, (slot != Slot::NONE).then_some(slot));
                Ok(())
            }
            Verb::Refuse => {
                floor.refuse(job)?;
                self.set_waiting(job, false);
                Ok(())
            }
        }
    }
}

impl Logged<'_> {
    /// Carries out all moves that follow on each other at one time: every job gives its GPUs back first.
    fn move_all<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> Result<(), (Job, String)> {
        let mut moves = Vec::new();
        while let Some((decision, next)) = self.log.decision(self.next)
            && decision.verb == Verb::Move
            && floor.clock.arrival(decision.time) <= floor.now
        {
            self.next = next;
            moves.push(decision);
        }
        // What counts of several moves of a job is the last one.
        let mut targets = BTreeMap::new();
        for Decision { job, parts, .. } in &moves {
            if self.slot[job.index()] == Slot::NONE {
                return Err((*job, "it holds no GPUs at that time".to_owned()));
            }
            floor.note_shift(Verb::Move, *job, parts);
            targets.insert(*job, parts);
        }
        for job in targets.keys() {
            floor.lift(self.slot[job.index()]);
        }
        for (job, parts) in targets {
            floor.place_at(job, parts).map_err(|why| (job, why))?;
            self.slot[job.index()] = floor.land(job);
        }
        Ok(())
    }
}

impl<S: Speed> Policy<S> for Logged<'_> {
    const STOPS: bool = true;
    const NETS: bool = true;

    fn arrived(&mut self, _floor: &mut Floor<'_, S>, job: Job) {
        self.set_waiting(job, true);
    }

    fn completed(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job) {
        self.slot[job.index()] = Slot::NONE;
    }

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
                if let Err((job, why)) = self.move_all(floor) {
                    return floor.fail(job, Verb::Move, why);
                }
                carried_out += 1;
                continue;
            }
            if let Err(why) = self.carry_out(floor, &decision) {
                // A job that started now may be done now: the rest is tried again after that.
                if carried_out == 0 {
                    floor.fail(decision.job, decision.verb, why);
                }
                return;
            }
            carried_out += 1;
            self.next = next;
        }
    }

    fn is_waiting(&self) -> bool {
        self.num_waiting > 0
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.waiting.range(0, usize::MAX).map(Job::at)
    }
}
