//! Who decides, as the machine sees it: which jobs start and stop, and when a decision is due.
//!
//! Invariant: a job that came waits until the policy starts or refuses it, and one that left as `Lost` waits again. For
//! example, a job that pauses at a rung leaves as `Paused`, and comes as `Again` once its search lets it go on.

use super::ClusterState;
use crate::ids::{Job, Server, Slot};
use crate::speed::Speed;

/// Why a job waits from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitReason {
    /// It has arrived.
    Arrived,
    /// It paused at a rung, and its search lets it go on, at its old place.
    Again,
}

/// Why a stay ended though nobody stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndReason {
    /// Its job is done.
    Done,
    /// It has held GPUs for as long as its limit lets it: it is over, and not done.
    Limit,
    /// A server failed, or a service wants its GPUs. Its job waits from now on, at its old place.
    Lost,
    /// Its trial came to a rung: it neither waits nor runs from now on.
    Paused,
}

/// By what a policy says which of those that wait is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Chooses {
    /// By a line: these are tried one after the other, the first first.
    FromQueue(Vec<Job>),
    /// By dividing the GPUs among all jobs: nobody has a place.
    ByAllocation,
    /// As somebody had decided before the run.
    ByRecord,
}

/// What backfilling keeps for a waiting job, or for the one that nobody may delay.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Claim {
    /// That of the head of the queue, which can start at `shadow`, s.
    OfHead { head: Job, shadow: f64 },
    /// The job's own reservation: from `begin`, s, on so many GPUs of each server.
    Own { begin: f64, parts: Vec<(Server, u32)> },
    /// None: as many as get one go before it.
    Beyond,
}

/// Decides on behalf of one cluster.
pub(crate) trait Policy<S: Speed>: Clone + Send {
    /// Whether it may take GPUs back. If not, the columns that this needs are not kept.
    const STOPS: bool = false;

    /// Whether decisions come from outside. Then the machine pauses where one is due.
    const OUTSIDE: bool = false;

    /// A job waits from now on. One that has arrived may be refused at once.
    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason);

    /// The stay at `slot` has ended, and its GPUs are free.
    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason);

    /// The stay at `slot` goes on from a rung, which may have set its progress back to it.
    fn climbed(&mut self, _state: &ClusterState<'_, S>, _slot: Slot) {}

    /// A server went down or came back, a service wants other replicas or got one, or a trial ended that had paused.
    fn capacity_changed(&mut self);

    /// Whether a decision from outside is due now. Called once an instant, after its completions and arrivals.
    fn asks(&mut self, _state: &ClusterState<'_, S>) -> bool {
        false
    }

    /// Called once an instant, before `due`, with the number of jobs that have arrived. Returns when an instant is due
    /// even if nothing happens (machine time).
    fn wake(&mut self, _state: &ClusterState<'_, S>, _arrived: usize) -> f64 {
        f64::INFINITY
    }

    /// When the next pass is due as things stand (machine time): now, later or never.
    fn due(&mut self, state: &ClusterState<'_, S>) -> f64;

    /// Starts and stops jobs now.
    fn pass(&mut self, state: &mut ClusterState<'_, S>);

    /// Whether the run pauses after this instant, for whoever runs the machine to change the policy or to clone both.
    /// The instant goes on with the next pass that is due.
    fn is_halted(&self) -> bool {
        false
    }

    /// Whether somebody waits.
    fn is_waiting(&self) -> bool;

    /// Every waiting job.
    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_;

    // For whoever asks between two instants why a job waits. No answer changes the run.

    /// By what it says who is next, as things stand.
    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses;

    /// The head of its queue, where it has one and nobody may overtake it or delay it.
    fn head(&self) -> Option<Job> {
        None
    }

    /// How long a waiting job is reckoned to run, s, where anything hangs on that.
    fn reckons(&self, _state: &ClusterState<'_, S>, _job: Job) -> Option<f64> {
        None
    }

    /// What backfilling keeps for a waiting job, or from it.
    fn claim(&self, _state: &mut ClusterState<'_, S>, _job: Job) -> Option<Claim> {
        None
    }
}
