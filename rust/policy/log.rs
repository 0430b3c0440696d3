//! Decisions that were made elsewhere: by an earlier run, a real cluster, or a search.
//!
//! The policy wakes at the time of every decision and carries it out, or the run ends with an error that names it. What the
//! machine did of itself stands in the log too, and the machine does it again: servers fail, services take GPUs, trials
//! pause at rungs. For example, the log of a FIFO run gives the same start and finish times as the run itself.

use super::roster::Roster;
use crate::decisions::{Cause, Decision, DecisionLog, NONE, Row, Verb};
use crate::ids::{Job, Slot};
use crate::machine::{Came, Chooses, Floor, Left, Policy};
use crate::options::{Facts, Feature, Is, Named};
use crate::record::Why;
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
        match decision.row.verb {
            Verb::Start | Verb::Refuse if !self.roster.is_waiting(job) => {
                let holds = self.roster.slot_of(job).is_some();
                Err(if holds { "it holds GPUs already" } else { "it does not wait at that time" }.to_owned())
            }
            Verb::Start => {
                if decision.gpus.is_empty() {
                    floor.place_at(job, &decision.parts)?;
                } else {
                    floor.place_on_gpus(job, &decision.gpus)?;
                }
                self.roster.set_running(job, floor.start(job));
                Ok(())
            }
            Verb::Stop => {
                floor.stop(self.slot(job)?);
                self.roster.set_waiting(job);
                Ok(())
            }
            // The machine makes room for services itself, where it knows what they want.
            Verb::Evicted if decision.row.service != NONE && !floor.follows_replicas() => Ok(()),
            Verb::Evicted => {
                let Row { service, by, .. } = decision.row;
                let why = if service == NONE { Why::EvictedBy(Job::new(by)) } else { Why::EvictedFor(service) };
                floor.evict(self.slot(job)?, why);
                self.roster.set_waiting(job);
                Ok(())
            }
            Verb::Replica if floor.follows_replicas() => floor.follow_replica(&decision.row),
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
            // The machine does these itself, from the same inputs.
            Verb::Failed | Verb::Rung | Verb::Replica | Verb::Up | Verb::Down => Ok(()),
        }
    }

    /// The next decision that is due at this instant and in this pass, and where the one after it begins.
    fn next_due<S: Speed>(&self, floor: &Floor<'_, S>) -> Option<(Decision, usize)> {
        let (decision, next) = self.log.decision(self.next)?;
        let at = floor.clock.arrival(decision.row.time);
        let is_due = at < floor.now || (at == floor.now && decision.row.pass <= floor.pass);
        is_due.then_some((decision, next))
    }

    /// Refuses a job that has just come, if that is what comes next: it was refused before replicas took GPUs.
    fn refuse_at_once<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) {
        while let Some((decision, next)) = self.next_due(floor) {
            let refuses = decision.row.cause == Cause::OnArrival && decision.job == job;
            let came_before = match decision.row.verb {
                Verb::Failed | Verb::Rung | Verb::Up | Verb::Down => true,
                Verb::Replica => decision.row.num_gpus == 0,
                _ => refuses,
            };
            // What cannot be carried out now is tried again, and told, in the pass.
            if !came_before || self.carry_out(floor, &decision).is_err() {
                return;
            }
            self.next = next;
            if refuses {
                return;
            }
        }
    }

    /// Carries out all moves that follow on each other at one time, up to one that comes after these: every job gives its
    /// GPUs back first.
    /// Otherwise says which job cannot, why, and in which row of the log.
    fn move_all<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> Result<(), (Job, String, usize)> {
        let mut moves = Vec::new();
        while let Some((decision, next)) = self.next_due(floor)
            && decision.row.verb == Verb::Move
            && (moves.is_empty() || decision.row.cause != Cause::After)
        {
            moves.push((self.next, decision));
            self.next = next;
        }
        // What counts of several moves of a job is the last one.
        let last: BTreeMap<Job, usize> = moves.iter().map(|(at, decision)| (decision.job, *at)).collect();
        for (number, (at, Decision { job, parts, .. })) in moves.iter().enumerate() {
            let slot = self.slot(*job).map_err(|why| (*job, why, *at))?;
            floor.note_shift(Verb::Move, *job, parts, number == 0);
            if last[job] == *at {
                floor.lift(slot);
            }
        }
        for (at, Decision { job, parts, .. }) in moves.iter().filter(|(at, decision)| last[&decision.job] == *at) {
            floor.place_at(*job, parts).map_err(|why| (*job, why, *at))?;
            self.roster.set_running(*job, floor.land(*job));
        }
        Ok(())
    }
}

impl Named for Logged<'_> {
    const FACTS: Facts = Facts {
        name: "log",
        about: "as a decision log says",
        paper: "",
        knows: Feature::ALL,
        is: &[Is::Resizes],
        options: &["preempt-cost", "move-cost", "resize-cost"],
    };
}

impl<S: Speed> Policy<S> for Logged<'_> {
    const STOPS: bool = true;

    fn came(&mut self, floor: &mut Floor<'_, S>, job: Job, _why: Came) {
        self.roster.set_waiting(job);
        self.refuse_at_once(floor, job);
    }

    fn left(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job, why: Left) {
        if why == Left::Lost { self.roster.set_waiting(job) } else { self.roster.set_gone(job) }
    }

    fn capacity_changed(&mut self) {}

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        let row = self.log.rows.get(self.next);
        row.map_or(f64::INFINITY, |row| f64::max(floor.clock.arrival(row.time), floor.now))
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        let mut carried_out = 0;
        while let Some((decision, next)) = self.next_due(floor) {
            if decision.row.verb == Verb::Move {
                if let Err((job, why, at)) = self.move_all(floor) {
                    return floor.fail(job, Verb::Move, why, Some(at));
                }
                carried_out += 1;
                continue;
            }
            if let Err(why) = self.carry_out(floor, &decision) {
                // A job that started now may be done now: the rest is tried again after that.
                if carried_out == 0 {
                    floor.fail(decision.job, decision.row.verb, why, Some(self.next));
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

    fn chooses(&self, _floor: &Floor<'_, S>) -> Chooses {
        Chooses::ByRecord
    }
}
