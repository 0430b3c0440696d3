//! Carries out a ranking by the caller's own numbers: which jobs run, and in which order they start.
//!
//! Invariant: no job starts before one that ranks ahead, waits, and could be placed then. For example, of jobs of 4,
//! 6 and 3 GPUs in this order an idle cluster of 8 starts the first and the third.

use super::super::quotas::Quotas;
use super::Outside;
use crate::ids::Job;
use crate::machine::{Claimant, ClusterState};
use crate::speed::Speed;
use std::collections::{BTreeMap, BTreeSet};

/// What makes jobs equivalent in one state: (GPUs, thousandths of a share, kind, and what decides which jobs they
/// evict).
pub(super) type Like = (u32, u32, usize, (u32, Claimant, bool));

pub(super) fn like<S: Speed>(state: &ClusterState<'_, S>, job: Job, num_gpus: u32) -> Like {
    let (share, kind) = (state.jobs.share_of(job.index()), state.jobs.demand(job).kind());
    (num_gpus, share, kind, state.evictor(job, num_gpus))
}

impl Outside {
    /// Carries out a ranking: `keys` are those of `jobs`, least first, ties fifo; higher priorities go before all
    /// that.
    ///
    /// Without preemption the waiting jobs start in that order as far as they can be placed; `jobs` has the running
    /// ones too where jobs may be evicted. With it, jobs within their owners' quotas go before all others, those that
    /// fit in a quota of all GPUs are selected, the running ones that are not selected are stopped, and the others
    /// start.
    pub(crate) fn rank<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        jobs: &[Job],
        keys: &[f64],
        preemptive: bool,
    ) {
        let (ranked, mut stopped) = self.in_turn(state, jobs, keys, preemptive);
        let mut chosen: Vec<usize> = Vec::with_capacity(ranked.len());
        if preemptive {
            let mut quotas = Quotas::new(state);
            for (place, &job) in ranked.iter().enumerate() {
                let slot = self.job_states.slot_of(job);
                let fits = quotas.draw(state, job, slot);
                match (slot, fits) {
                    (None, true) => chosen.push(place),
                    (Some(_), false) => stopped.push(job),
                    _ => {}
                }
            }
            stopped.sort_unstable();
            for job in stopped {
                if let Some(slot) = self.job_states.slot_of(job) {
                    state.stop(slot);
                    self.job_states.set_waiting(job);
                }
            }
        } else {
            chosen.extend((0..ranked.len()).filter(|&place| self.job_states.is_waiting(ranked[place])));
        }
        self.take_turns(state, &ranked, &chosen, preemptive);
    }

    /// Returns the jobs in turn, and with preemption those that may not borrow what they would need.
    fn in_turn<S: Speed>(
        &self,
        state: &ClusterState<'_, S>,
        jobs: &[Job],
        keys: &[f64],
        preemptive: bool,
    ) -> (Vec<Job>, Vec<Job>) {
        let mut order: Vec<(f64, Job)> = keys.iter().copied().zip(jobs.iter().copied()).collect();
        let tier = |job: Job| state.jobs.tier(job.index());
        order.sort_unstable_by(|a, b| tier(a.1).cmp(&tier(b.1)).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
        let mut ranked: Vec<Job> = order.into_iter().map(|(_, job)| job).collect();
        if !preemptive {
            return (ranked, Vec::new());
        }
        if state.may_keep() {
            let is_kept = |job: &Job| self.job_states.slot_of(*job).is_some_and(|slot| state.is_kept(slot));
            ranked.sort_by_key(|job| !is_kept(job));
        }
        let out = self.by_owner(state, &mut ranked);
        (ranked, out)
    }

    /// Returns the waiting jobs in turn by such keys; jobs that a quota holds back come after them.
    pub(crate) fn line<S: Speed>(
        &self,
        state: &ClusterState<'_, S>,
        jobs: &[Job],
        keys: &[f64],
        preemptive: bool,
    ) -> Vec<Job> {
        let (ranked, out) = self.in_turn(state, jobs, keys, preemptive);
        ranked.into_iter().chain(out).filter(|&job| self.job_states.is_waiting(job)).collect()
    }

    /// Puts the jobs within their owners' quotas, counted along the order, before all others. Takes out, and returns,
    /// the jobs that may not borrow.
    fn by_owner<S: Speed>(&self, state: &ClusterState<'_, S>, ranked: &mut Vec<Job>) -> Vec<Job> {
        let (mut over_quota, mut out) = (Vec::new(), Vec::new());
        if state.has_quotas() {
            let mut tally = state.tally();
            ranked.retain(|&job| {
                let standing = state.count(&mut tally, job);
                if self.job_states.slot_of(job).is_some_and(|slot| state.is_on_draining(slot)) {
                    return true;
                }
                match standing {
                    Claimant::Within => {}
                    Claimant::Over => over_quota.push(job),
                    Claimant::HeldBack => out.push(job),
                }
                standing == Claimant::Within
            });
            ranked.append(&mut over_quota);
        }
        out
    }

    /// Starts waiting jobs in turn, by their places in the ranking, as far as they can be placed. Jobs that are
    /// evicted on the way have a turn too, if it is to come.
    fn take_turns<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        ranked: &[Job],
        chosen: &[usize],
        preemptive: bool,
    ) {
        let monotone = state.placer.is_monotone();
        let (mut failed, mut passed_over, mut again) = (BTreeSet::new(), false, false);
        let mut place_of: BTreeMap<Job, usize> = BTreeMap::new();
        let (mut chosen, mut later) = (chosen.iter().copied().peekable(), BTreeSet::new());
        while let Some(place) = chosen.peek().copied().into_iter().chain(later.first().copied()).min() {
            if !later.remove(&place) {
                chosen.next();
            }
            let job = ranked[place];
            let size = state.asks(job);
            let demand = like(state, job, size);
            if failed.contains(&demand) || (!preemptive && demand.3.1 == Claimant::HeldBack) {
                continue;
            }
            let placed = state.place(job);
            if !placed && self.place_by_evicting(state, job, size, None) {
                if place_of.is_empty() {
                    place_of.extend(ranked.iter().enumerate().map(|(place, &job)| (job, place)));
                }
                let places = self.evicted.iter().filter_map(|(_, job)| place_of.get(job).copied());
                later.extend(places.filter(|&other| other > place));
                failed.clear();
                again = true;
            } else if !placed {
                if monotone {
                    failed.insert(demand);
                }
                passed_over |= !monotone;
                continue;
            }
            again |= passed_over;
            self.begin(state, job);
        }
        if again && !preemptive {
            self.look_again(state);
        }
    }
}
