//! Explains why a job waits, for a machine that has stopped between two instants.
//!
//! Invariant: an answer does not change the run. For example, under `strict` with a job of 8 GPUs at the head of the
//! queue and 4 idle, a job of 2 GPUs behind it would fit, but must wait for the head.

use super::delays::WaitCause;
use super::policy::{Chooses, Claim, Policy};
use super::{Clock, ClusterState, Machine};
use crate::ids::{GpuType, Job};
use crate::speed::Speed;

/// How many of the jobs ahead are named.
const MOST: usize = 3;

/// Why a job waits. Jobs are rows of the caller's table, servers are the caller's, times are in seconds.
#[derive(Clone, Debug, Default)]
pub struct WaitExplanation {
    /// How the policy chooses the next job: `line`, `allocation` or `record`.
    pub by: &'static str,
    /// Whether it waits at all.
    pub waits: bool,
    /// How many other jobs wait.
    pub others: usize,
    /// How many jobs are ahead of it in the queue.
    pub ahead: usize,
    /// The rows of the first of them.
    pub first: Vec<u32>,
    /// The first of them that no quota holds back.
    pub head: Option<u32>,
    /// Whether the placement could place it: `fits`, `few` idle GPUs, or enough that lie `apart`.
    pub room: &'static str,
    /// When the next server goes down, if it fits only on servers that go down before it would end.
    pub down: Option<f64>,
    /// The book of the quota that holds it back, GPUs of that quota, and those that its owner's jobs hold.
    pub quota: Option<(usize, u64, u64)>,
    /// Its estimated run time, if it matters.
    pub estimate: Option<f64>,
    /// The head under EASY, and when that can start.
    pub shadow: Option<(u32, f64)>,
    /// Its own reservation: when it begins, and how many GPUs of which servers.
    pub reserved: Option<(f64, Vec<(u32, u32)>)>,
    /// Whether all reservations belong to jobs ahead of it.
    pub beyond: bool,
    /// When it may make room for itself, s, if it may not yet.
    pub evicts_from: Option<f64>,
    /// Under a policy that looks for partners: how many jobs are `alone` on their GPUs, and of these how many are ruled
    /// out by what, the first that holds; or the `largest` number of GPUs with which it would look for one.
    pub partners: Option<Vec<(&'static str, u32)>>,
    /// When the policy decided last; NaN if it has not.
    pub decided: f64,
    /// The GPU types that it may use; empty where all GPUs are alike.
    pub types: Vec<u32>,
}

/// Returns how far to run in order to stop just before an instant, s, or once all of it has happened (machine time).
pub(crate) fn until(clock: Clock, time: f64, before: bool) -> f64 {
    match clock.slot {
        None if before => time.next_down(),
        None => time,
        Some(slot) => (time / slot).round() - if before { 0.5 } else { 0.0 },
    }
}

impl<P: Policy<S>, S: Speed> Machine<'_, P, S> {
    /// Explains why a waiting job waits. servers: the caller's. line: the queue of a policy whose keys come from
    /// outside.
    pub(crate) fn ask(&mut self, job: Job, servers: &[u32], line: Option<Vec<Job>>) -> WaitExplanation {
        let (mut waits, mut others) = (false, 0);
        self.policy.waiting_jobs().for_each(|other| if other == job { waits = true } else { others += 1 });
        let decided = self.state.clock.seconds(self.decided);
        let mut answer = WaitExplanation { waits, others, decided, ..self.state.explanation(job) };
        if waits {
            let chooses = line.map_or_else(|| self.policy.chooses(&self.state), Chooses::FromQueue);
            let estimate = self.policy.reckons(&self.state, job);
            self.state.explain(&mut answer, self.rows, job, chooses, estimate);
            answer.partners = self.policy.lacks(&self.state, job);
            let claim = self.policy.claim(&mut self.state, job);
            answer.set_claim(claim, self.rows, servers);
        }
        answer
    }

    /// Returns the row of the head of the queue, if it is another job.
    pub(crate) fn head_beside(&self, job: Job) -> Option<u32> {
        self.policy.head().filter(|&head| head != job).map(|head| self.rows[head.index()])
    }
}

// What follows does not depend on the policy, and is compiled once for all.
impl<S: Speed> ClusterState<'_, S> {
    /// Returns what is said of any job.
    #[inline(never)]
    fn explanation(&self, job: Job) -> WaitExplanation {
        let types = self.jobs.tried(job).iter().filter(|tried| tried.0 != GpuType::NONE);
        let types = types.map(|tried| tried.0.number()).collect();
        WaitExplanation { by: "record", types, ..WaitExplanation::default() }
    }

    /// Adds the queue ahead of a waiting job, and what the cluster has for it. rows: each job's in the caller's table.
    #[inline(never)]
    fn explain(
        &mut self,
        answer: &mut WaitExplanation,
        rows: &[u32],
        job: Job,
        chooses: Chooses,
        estimate: Option<f64>,
    ) {
        let row = |job: Job| rows[job.index()];
        let demand = self.jobs.demand(job);
        match chooses {
            Chooses::FromQueue(line) => {
                answer.by = "line";
                answer.ahead = line.iter().position(|&other| other == job).unwrap_or(0);
                let ahead = &line[..answer.ahead];
                answer.first = ahead.iter().take(MOST).copied().map(row).collect();
                answer.head = ahead.iter().find(|&&other| !self.is_held_back(other)).copied().map(row);
            }
            Chooses::ByAllocation => answer.by = "allocation",
            Chooses::ByRecord => {}
        }
        answer.room = match self.delays.wait_cause(demand) {
            WaitCause::None => "fits",
            WaitCause::Fragmented => "apart",
            WaitCause::TooFew => "few",
        };
        answer.quota = self.held_back_by(job).map(|(book, quota, held)| (book, quota.gpus, held));
        answer.evicts_from = self.evicts_from(job);
        answer.estimate = estimate;
        if let Some(estimate) = estimate.filter(|_| answer.room == "fits") {
            let hides = self.hide(estimate).is_some();
            if hides && !self.can_place(demand) {
                let now = self.seconds();
                answer.down = self.windows().map(|window| window.0).find(|&down| down > now);
            }
            self.show();
        }
    }
}

impl WaitExplanation {
    fn set_claim(&mut self, claim: Option<Claim>, rows: &[u32], servers: &[u32]) {
        match claim {
            Some(Claim::OfHead { head, shadow }) => self.shadow = Some((rows[head.index()], shadow)),
            Some(Claim::Own { begin, parts }) => {
                let parts = parts.iter().map(|&(server, gpus)| (servers[server.index()], gpus)).collect();
                self.reserved = Some((begin, parts));
            }
            Some(Claim::Beyond) => self.beyond = true,
            None => {}
        }
    }
}
