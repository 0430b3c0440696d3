//! Replays decisions that were made elsewhere: by an earlier run, a real cluster, or a search.
//!
//! The policy wakes at the time of every decision and carries it out; if it cannot, the run ends with an error that
//! names the decision. The log also holds what the machine did by itself, and the machine does it again: servers
//! fail, services take GPUs, trials pause at rungs. For example, the log of a FIFO run gives the same start and
//! finish times as the run itself.

use super::job_states::JobStates;
use crate::decisions::{Cause, Decision, DecisionLog, NONE, Row, Verb};
use crate::ids::{Job, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
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
    job_states: JobStates,
}

impl<'a> Logged<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        static NOTHING: DecisionLog = DecisionLog::new();
        Self { log: setting.log.unwrap_or(&NOTHING), next: 0, job_states: JobStates::new(setting.jobs.len()) }
    }

    /// Returns the slot of a job's stay, or an error that says that it has none.
    fn slot(&self, job: Job) -> Result<Slot, String> {
        self.job_states.slot_of(job).ok_or_else(|| "it holds no GPUs at that time".to_owned())
    }

    /// Carries out a decision, or returns why it cannot be carried out.
    fn carry_out<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, decision: &Decision) -> Result<(), String> {
        let job = decision.job;
        match decision.row.verb {
            Verb::Start | Verb::Refuse if !self.job_states.is_waiting(job) => {
                let holds = self.job_states.slot_of(job).is_some();
                Err(if holds { "it holds GPUs already" } else { "it does not wait at that time" }.to_owned())
            }
            Verb::Start if decision.row.beside != NONE => {
                let slot = self.job_states.slot_of(Job::new(decision.row.beside));
                let slot =
                    slot.ok_or_else(|| "the job beside which it starts holds no GPUs at that time".to_owned())?;
                state.may_not_sit(job, slot).map_or(Ok(()), Err)?;
                self.job_states.set_running(job, state.start_beside(job, slot));
                Ok(())
            }
            Verb::Start => {
                if decision.gpus.is_empty() {
                    state.place_at(job, &decision.parts)?;
                } else {
                    state.place_on_gpus(job, &decision.gpus)?;
                }
                self.job_states.set_running(job, state.start(job));
                Ok(())
            }
            Verb::Stop => {
                state.stop(self.slot(job)?);
                self.job_states.set_waiting(job);
                Ok(())
            }
            // The machine makes room for services itself, where it knows how many replicas they want.
            Verb::Evicted if decision.row.service != NONE && !state.follows_replicas() => Ok(()),
            Verb::Evicted => {
                let Row { service, by, .. } = decision.row;
                let why = if service == NONE { Why::EvictedBy(Job::new(by)) } else { Why::EvictedFor(service) };
                state.evict(self.slot(job)?, why);
                self.job_states.set_waiting(job);
                Ok(())
            }
            Verb::Replica if state.follows_replicas() => state.follow_replica(&decision.row),
            Verb::Move => Err("moves are carried out together".to_owned()),
            Verb::Resize => {
                self.job_states.set_running(job, state.resize_to(self.slot(job)?, &decision.parts)?);
                Ok(())
            }
            Verb::End => {
                let slot = self.job_states.slot_of(job);
                if slot.is_none() && !(self.job_states.is_waiting(job) && state.has_run(job)) {
                    return Err("it has not run, or is over at that time".to_owned());
                }
                self.job_states.set_gone(job);
                state.end(job, slot);
                Ok(())
            }
            Verb::Refuse => {
                state.refuse(job)?;
                self.job_states.set_gone(job);
                Ok(())
            }
            // The machine does these itself, from the same inputs.
            Verb::Failed | Verb::Rung | Verb::Replica | Verb::Up | Verb::Down | Verb::Drain => Ok(()),
        }
    }

    /// Returns the next decision that is due at this instant and in this pass, and where the one after it begins.
    fn next_due<S: Speed>(&self, state: &ClusterState<'_, S>) -> Option<(Decision, usize)> {
        let (decision, next) = self.log.decision(self.next)?;
        let at = state.clock.arrival(decision.row.time);
        let is_due = at < state.now || (at == state.now && decision.row.pass <= state.pass);
        is_due.then_some((decision, next))
    }

    /// Refuses a job that has just arrived, if that is the next decision: it was refused before replicas took GPUs.
    fn refuse_at_once<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) {
        while let Some((decision, next)) = self.next_due(state) {
            let refuses = decision.row.cause == Cause::OnArrival && decision.job == job;
            let came_before = match decision.row.verb {
                Verb::Failed | Verb::Rung | Verb::Up | Verb::Down | Verb::Drain => true,
                Verb::Replica => decision.row.num_gpus == 0,
                _ => refuses,
            };
            // What cannot be carried out now is tried again, and reported, in the pass.
            if !came_before || self.carry_out(state, &decision).is_err() {
                return;
            }
            self.next = next;
            if refuses {
                return;
            }
        }
    }

    /// Carries out all consecutive moves of one time, up to the first other decision: every job gives its GPUs back
    /// before any gets new ones. Otherwise returns which job cannot move, why, and in which row of the log.
    fn move_all<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) -> Result<(), (Job, String, usize)> {
        let mut moves = Vec::new();
        while let Some((decision, next)) = self.next_due(state)
            && decision.row.verb == Verb::Move
            && (moves.is_empty() || decision.row.cause != Cause::After)
        {
            moves.push((self.next, decision));
            self.next = next;
        }
        // If a job moves several times, only its last move counts.
        let last: BTreeMap<Job, usize> = moves.iter().map(|(at, decision)| (decision.job, *at)).collect();
        for (number, (at, Decision { job, parts, .. })) in moves.iter().enumerate() {
            let slot = self.slot(*job).map_err(|why| (*job, why, *at))?;
            state.note_shift(Verb::Move, *job, parts, number == 0);
            if last[job] == *at {
                state.detach(slot);
            }
        }
        for (at, Decision { job, parts, .. }) in moves.iter().filter(|(at, decision)| last[&decision.job] == *at) {
            state.place_at(*job, parts).map_err(|why| (*job, why, *at))?;
            self.job_states.set_running(*job, state.attach(*job));
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
        options: &["preempt-cost", "move-cost", "resize-cost", "preempt-loses"],
    };
}

impl<S: Speed> Policy<S> for Logged<'_> {
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, _why: WaitReason) {
        self.job_states.set_waiting(job);
        self.refuse_at_once(state, job);
    }

    fn on_end(&mut self, _state: &ClusterState<'_, S>, _slot: Slot, job: Job, why: EndReason) {
        if why == EndReason::Lost { self.job_states.set_waiting(job) } else { self.job_states.set_gone(job) }
    }

    fn capacity_changed(&mut self) {}

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        let row = self.log.rows.get(self.next);
        row.map_or(f64::INFINITY, |row| f64::max(state.clock.arrival(row.time), state.now))
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        let mut carried_out = 0;
        while let Some((decision, next)) = self.next_due(state) {
            if decision.row.verb == Verb::Move {
                if let Err((job, why, at)) = self.move_all(state) {
                    return state.fail(job, Verb::Move, why, Some(at));
                }
                carried_out += 1;
                continue;
            }
            if let Err(why) = self.carry_out(state, &decision) {
                // A job that started now may be done now: the rest is tried again after that.
                if carried_out == 0 {
                    state.fail(decision.job, decision.row.verb, why, Some(self.next));
                }
                return;
            }
            carried_out += 1;
            self.next = next;
        }
    }

    fn is_waiting(&self) -> bool {
        self.job_states.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.job_states.waiting()
    }

    fn chooses(&self, _state: &ClusterState<'_, S>) -> Chooses {
        Chooses::ByRecord
    }
}
