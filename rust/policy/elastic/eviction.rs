//! Makes room for the jobs that a decision leaves waiting, with `--evict` or quotas
//! (docs/elastic-policies.md#places).
//!
//! Invariant: each of them has one turn, in the order of the base. For example, on 4 GPUs that a young job holds, a
//! job of 2 GPUs and of higher priority evicts it; its own turn comes after that, and it continues with the 2 GPUs
//! that are left.

use super::allocation::Rank;
use super::base::View;
use super::queue::Walk;
use super::{Resizing, Rule};
use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::machine::{Claimant, ClusterState};
use crate::policy::job_states::JobStates;
use crate::speed::Speed;
use std::collections::BTreeSet;

/// The jobs that have a turn.
enum StartOrder<'a> {
    /// The waiting jobs, whether the first of them has its turn now, and jobs evicted on the way, which are of lower
    /// priority than the job that evicted them.
    Queue(Walk<'a>, bool, BTreeSet<Rank>),
    /// All jobs; those that wait have a turn.
    Ranked(std::slice::Iter<'a, Rank>),
}

impl StartOrder<'_> {
    fn next(&mut self) -> Option<Rank> {
        match self {
            StartOrder::Ranked(all) => all.next().copied(),
            StartOrder::Queue(waiting, is_on, evicted) => {
                if std::mem::take(is_on) {
                    waiting.pass();
                }
                let next = waiting.place().map(|place| (Claimant::Within, place));
                if evicted.first().is_some_and(|&first| next.is_none_or(|next| first < next)) {
                    return evicted.pop_first();
                }
                *is_on = true;
                next
            }
        }
    }

    /// Leaves out the jobs of the present job's class.
    fn leave_out(&mut self) {
        if let StartOrder::Queue(waiting, is_on, _) = self
            && std::mem::take(is_on)
        {
            waiting.leave_out();
        }
    }
}

/// Tries to place a job on so many GPUs, or on as many fewer as necessary.
fn place_down<S: Speed>(state: &mut ClusterState<'_, S>, job: Job, most: u32) -> bool {
    let (least, _) = state.jobs.range_of(job.index());
    let may = |state: &ClusterState<'_, S>, gpus| state.claimant(job, gpus) != Claimant::HeldBack;
    (least..=most).rev().any(|gpus| may(state, gpus) && state.place_on(job, gpus))
}

impl<R: Rule> Resizing<R> {
    /// Lets waiting jobs make room for themselves. Costs the waiting jobs, and one check of the servers for each
    /// class of them.
    pub(super) fn make_room<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        if !self.makes_room {
            return;
        }
        let Self { rule, job_states, queue, held, allocation, .. } = self;
        let has_quotas = state.has_quotas();
        let monotone = state.placer.is_monotone();
        let mut start_order = if has_quotas {
            StartOrder::Ranked(allocation.ranked.iter())
        } else {
            StartOrder::Queue(queue.walk(), false, BTreeSet::new())
        };
        // Jobs whose GPUs differ from the decision; evicted jobs; what was tried in vain, and what since the last
        // eviction.
        let (mut changed, mut evicted) = (Vec::new(), Vec::<Rank>::new());
        let (mut in_vain, mut unplaced) = (Vec::<(u32, usize, u32)>::new(), Vec::<(u32, usize)>::new());
        let mut victims: Vec<(Slot, Job)> = Vec::new();
        let begin = |state: &mut ClusterState<'_, S>, job_states: &mut JobStates, held: &mut [u32], job: Job| {
            let slot = state.start(job);
            held[job.index()] = state.stays[slot.index()].gpus();
            job_states.set_running(job, slot);
        };
        while let Some((standing, (tier, _, job))) = start_order.next() {
            if !job_states.is_waiting(job) {
                continue;
            }
            let (least, _) = state.jobs.range_of(job.index());
            let class = (least, state.jobs.demand(job).kind());
            let was_evicted = evicted.iter().any(|rank| rank.1.2 == job);
            let most = if was_evicted { held[job.index()] } else { least };
            let is_hopeless = monotone && unplaced.contains(&class);
            if is_hopeless || !place_down(state, job, most) {
                if !is_hopeless && state.claimant(job, least) != Claimant::HeldBack {
                    unplaced.push(class);
                }
                // A later job finds no more GPUs, and no victims that this one did not find.
                let was_in_vain =
                    |&(gpus, kind, before): &(u32, usize, u32)| monotone && (gpus, kind) == class && before <= tier;
                if standing != Claimant::Within
                    || state.claimant(job, least) != Claimant::Within
                    || !state.may_make_room(job)
                    || in_vain.iter().any(was_in_vain)
                {
                    continue;
                }
                if !state.place_on_by_evicting(job, least, None, &mut victims) {
                    in_vain.push((class.0, class.1, tier));
                    if monotone {
                        start_order.leave_out();
                    }
                    continue;
                }
                unplaced.clear();
                for &(_, victim) in &victims {
                    job_states.set_waiting(victim);
                    changed.push(victim);
                    match &mut start_order {
                        StartOrder::Ranked(_) => {
                            evicted.extend(allocation.ranked.iter().find(|rank| rank.1.2 == victim))
                        }
                        StartOrder::Queue(_, _, coming) => {
                            let key = ordered(rule.key(state, victim, None));
                            let rank = (Claimant::Within, (state.jobs.tier(victim.index()), key, victim));
                            coming.insert(rank);
                            evicted.push(rank);
                        }
                    }
                }
            }
            begin(state, job_states, held, job);
            changed.push(job);
        }
        // Later evictions may have left GPUs for jobs evicted earlier, or for those whose turn was over.
        evicted.sort_unstable();
        evicted.dedup();
        for (_, (_, _, job)) in evicted {
            if job_states.is_waiting(job) && place_down(state, job, held[job.index()]) {
                begin(state, job_states, held, job);
            }
        }
        for job in changed {
            self.settle_anew(state, job);
        }
    }

    /// Records that a job has other GPUs than was decided, or none.
    fn settle_anew<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.queue.remove(&state.jobs, job);
        if self.job_states.is_waiting(job) {
            self.queue.insert(&state.jobs, job, self.rule.key(state, job, None));
        }
        let Some(base) = &mut self.base else { return };
        let (job_states, curves, rule, resize_every) = (&self.job_states, &self.curves, &self.rule, self.resize_every);
        base.join(curves, job);
        if !job_states.is_waiting(job) {
            base.settle(&View { state, job_states, curves, rule, resize_every }, job);
        }
    }
}
