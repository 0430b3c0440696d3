//! Defines the interface of a policy to the machine: which jobs start and stop, and when a decision is due.
//!
//! Invariant: an arrived job waits until the policy starts or refuses it, and one whose stay ended as `Lost` waits
//! again. For example, a stay that pauses at a rung ends as `Paused`, and its job waits as `Again` once its search lets
//! it continue.

use super::ClusterState;
use crate::ids::{Job, Server, Slot};
use crate::speed::Speed;

/// Why a job starts to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// It has arrived.
    Arrived,
    /// It paused at a rung, and its search lets it continue. It keeps its old place.
    Again,
}

/// Why a stay ended that no verb stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// Its job is done.
    Done,
    /// Its job has reached its time limit: it is over, but not done.
    Limit,
    /// A server failed, or a service takes its GPUs. Its job waits again, at its old place.
    Lost,
    /// Its trial reached a rung: it neither waits nor runs for now.
    Paused,
}

/// How a policy chooses the next waiting job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chooses {
    /// From a queue: the policy tries these jobs in order.
    FromQueue(Vec<Job>),
    /// By dividing the GPUs among all jobs, without a queue.
    ByAllocation,
    /// As recorded before the run.
    ByRecord,
}

/// What backfilling reserves for a waiting job, or for the head that no job may delay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Claim {
    /// For the head of the queue, which can start at `shadow`, s.
    OfHead { head: Job, shadow: f64 },
    /// The job's own reservation: from `begin`, s, on this many GPUs of each server.
    Own { begin: f64, parts: Vec<(Server, u32)> },
    /// None: all reservations belong to jobs ahead of it.
    Beyond,
}

/// Decides on behalf of one cluster.
pub(crate) trait Policy<S: Speed>: Clone + Send {
    /// Whether it may take GPUs back. If not, the columns for stopped jobs are not kept.
    const STOPS: bool = false;

    /// Whether decisions come from outside. Then the machine pauses where one is due.
    const OUTSIDE: bool = false;

    /// Called when a job starts to wait. A job that has just arrived may be refused at once.
    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason);

    /// Called when the stay at `slot` has ended and its GPUs are free.
    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason);

    /// Called when the stay at `slot` continues from a rung, which may have reset its progress to that rung.
    fn climbed(&mut self, _state: &ClusterState<'_, S>, _slot: Slot) {}

    /// Called when a server went down or came back, when a service wants other replicas or got one, or when a paused
    /// trial ended.
    fn capacity_changed(&mut self);

    /// Returns whether a decision from outside is due now. Called once per instant, after its completions and arrivals.
    fn asks(&mut self, _state: &ClusterState<'_, S>) -> bool {
        false
    }

    /// Returns when an instant is due even if nothing happens (machine time). Called once per instant, before `due`,
    /// with the number of jobs that have arrived.
    fn wake(&mut self, _state: &ClusterState<'_, S>, _arrived: usize) -> f64 {
        f64::INFINITY
    }

    /// Returns when the next pass is due in the present state (machine time): now, later or never.
    fn due(&mut self, state: &ClusterState<'_, S>) -> f64;

    /// Starts and stops jobs now.
    fn pass(&mut self, state: &mut ClusterState<'_, S>);

    /// Returns whether the run pauses after this instant, so that the caller can change the policy or clone both. The
    /// instant continues with the next pass that is due.
    fn is_halted(&self) -> bool {
        false
    }

    /// Returns whether any job waits.
    fn is_waiting(&self) -> bool;

    /// Returns every waiting job.
    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_;

    // The functions below explain, between two instants, why a job waits. None of them changes the run.

    /// Returns how it chooses the next job at present.
    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses;

    /// Returns the head of its queue, if it has one that no job may overtake or delay.
    fn head(&self) -> Option<Job> {
        None
    }

    /// Returns the estimated run time of a waiting job, s, if it matters.
    fn reckons(&self, _state: &ClusterState<'_, S>, _job: Job) -> Option<f64> {
        None
    }

    /// Returns what keeps those who run from being partners of a waiting job: the field of a `WaitExplanation`.
    fn lacks(&self, _state: &ClusterState<'_, S>, _job: Job) -> Option<Vec<(&'static str, u32)>> {
        None
    }

    /// Returns what backfilling reserves for a waiting job, or for another that it must not delay.
    fn claim(&self, _state: &mut ClusterState<'_, S>, _job: Job) -> Option<Claim> {
        None
    }
}
