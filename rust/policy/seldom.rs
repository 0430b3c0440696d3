//! Lets policies that few runs have share one machine, so that its loop is compiled once for all of them.
//!
//! For example, following a log and `lucid` are the same code but for what they decide.

use super::log::Logged;
use super::lucid::Lucid;
use crate::ids::{Job, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
use crate::speed::Speed;

/// One of these policies.
#[derive(Clone, Debug)]
pub(super) enum Seldom<'a> {
    Log(Box<Logged<'a>>),
    Lucid(Box<Lucid<'a>>),
}

/// Does the same with either.
macro_rules! either {
    ($policy:expr, $own:ident => $value:expr) => {
        match $policy {
            Seldom::Log($own) => $value,
            Seldom::Lucid($own) => $value,
        }
    };
}

impl<S: Speed> Policy<S> for Seldom<'_> {
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        either!(self, own => own.on_wait(state, job, why));
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason) {
        either!(self, own => own.on_end(state, slot, job, why));
    }

    fn capacity_changed(&mut self) {
        either!(self, own => Policy::<S>::capacity_changed(&mut **own));
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        either!(self, own => own.due(state))
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        either!(self, own => own.pass(state));
    }

    fn is_waiting(&self) -> bool {
        either!(self, own => Policy::<S>::is_waiting(&**own))
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        let jobs: Vec<Job> = either!(self, own => Policy::<S>::waiting_jobs(&**own).collect());
        jobs.into_iter()
    }

    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses {
        either!(self, own => own.chooses(state))
    }

    fn lacks(&self, state: &ClusterState<'_, S>, job: Job) -> Option<Vec<(&'static str, u32)>> {
        either!(self, own => own.lacks(state, job))
    }
}
