//! Keeps the waiting jobs that are due, and walks through them by strain, the greatest first.
//!
//! Jobs that fail together are a class. A walk leaves a class aside once it has failed, until it is called back. So
//! it costs the jobs that it returns, however many are due.
//!
//! Invariant: a node of a class's tree holds the earliest origin and the least reference time below it. So no strain
//! below it is greater than that of these two, whatever the time. For example, of jobs submitted at one instant the
//! shortest is found by descending.

use super::evicting::is_barren;
use super::relocation::Relocation;
use super::run_times::RunTimes;
use super::strain::strain;
use super::{Repack, has_failed};
use crate::ids::Job;
use crate::machine::ClusterState;
use crate::setting::Setting;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// (from when on the time of a job counts, s; its reference time, s).
type Node = (f64, f64);

/// A node where no job is due.
const NOBODY: Node = (f64::INFINITY, f64::INFINITY);

/// (bits of a strain, job, class, node): the greatest has a turn. Of an inner node these are bounds: no job below has
/// a greater strain, or comes before that job. Of one job, the upper node has its turn first.
type Ahead = (u64, Reverse<Job>, Reverse<(usize, usize)>);

#[derive(Clone, Debug, Default)]
struct Class {
    /// Ascending, due or not.
    members: Vec<Job>,
    /// Nodes i and their children 2 i and 2 i + 1, from 1 on; the last half are members. Empty until a job is due.
    nodes: Vec<Node>,
}

/// The jobs that are due.
#[derive(Clone, Debug)]
pub(super) struct Overdue {
    /// By job: its class, and its place there.
    places: Vec<(u32, u32)>,
    classes: Vec<Class>,
    /// The walk: what is ahead, what was left aside, and the last job that it returned.
    ahead: BinaryHeap<Ahead>,
    aside: Vec<Ahead>,
    given: Option<(u64, Reverse<Job>)>,
}

impl Overdue {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let class_of = |job: usize| (setting.jobs.tier(job), setting.jobs.demand(Job::at(job)));
        let mut all: Vec<_> = (0..setting.jobs.len()).map(class_of).collect();
        all.sort_unstable();
        all.dedup();
        let mut classes = vec![Class::default(); all.len()];
        let place = |job: usize| {
            let class = all.partition_point(|class| *class < class_of(job));
            classes[class].members.push(Job::at(job));
            (class as u32, classes[class].members.len() as u32 - 1)
        };
        Self {
            places: (0..setting.jobs.len()).map(place).collect(),
            classes,
            ahead: BinaryHeap::new(),
            aside: Vec::new(),
            given: None,
        }
    }

    /// Makes the job due from now on. Not during a walk.
    pub(super) fn enter(&mut self, job: Job, origin: f64, reference_time: f64) {
        self.set(job, (origin, reference_time));
    }

    /// Records that the job no longer waits.
    pub(super) fn leave(&mut self, job: Job) {
        self.set(job, NOBODY);
    }

    fn set(&mut self, job: Job, node: Node) {
        let (class, place) = self.places[job.index()];
        let Class { members, nodes } = &mut self.classes[class as usize];
        nodes.resize(2 * members.len().next_power_of_two(), NOBODY);
        let mut at = nodes.len() / 2 + place as usize;
        nodes[at] = node;
        while at > 1 {
            at /= 2;
            let (left, right) = (nodes[2 * at], nodes[2 * at + 1]);
            let least = (f64::min(left.0, right.0), f64::min(left.1, right.1));
            if std::mem::replace(&mut nodes[at], least) == least {
                break;
            }
        }
    }

    /// Begins a walk through the jobs of at least that strain.
    pub(super) fn begin_walk(&mut self, now: f64, limit: f64) {
        self.ahead.clear();
        self.aside.clear();
        self.given = None;
        (0..self.classes.len()).for_each(|class| self.see(class, 1, now, limit));
    }

    fn see(&mut self, class: usize, at: usize, now: f64, limit: f64) {
        let Class { members, nodes } = &self.classes[class];
        let Some(&(origin, reference_time)) = nodes.get(at).filter(|node| node.0 < f64::INFINITY) else { return };
        let strain = strain(now - origin, reference_time);
        if strain >= limit {
            let leaves = nodes.len() / 2;
            let first = (at << (leaves.ilog2() - at.ilog2())) - leaves;
            self.ahead.push((strain.to_bits(), Reverse(members[first]), Reverse((class, at))));
        }
    }

    /// Returns the next job of the walk and its strain, ties fifo, except of classes of which a member is to be left
    /// `aside`.
    pub(super) fn next(&mut self, now: f64, limit: f64, aside: impl Fn(Job) -> bool) -> Option<(f64, Job)> {
        while let Some(first) = self.ahead.pop() {
            let (strain, job, Reverse((class, at))) = first;
            if aside(job.0) {
                self.aside.push(first);
            } else if 2 * at < self.classes[class].nodes.len() {
                self.see(class, 2 * at, now, limit);
                self.see(class, 2 * at + 1, now, limit);
            } else if self.given.is_none_or(|given| (strain, job) < given) {
                self.given = Some((strain, job));
                return Some((f64::from_bits(strain), job.0));
            }
        }
        None
    }

    /// Puts back into the walk the classes left aside of which a member is to be called `back`: those of their jobs
    /// that the walk has not passed.
    pub(super) fn call_back(&mut self, back: impl Fn(Job) -> bool) {
        self.ahead.extend(self.aside.extract_if(.., |aside| back(aside.1.0)));
    }
}

/// Returns whether a job must lie in a tier, or in segments: another job of its size may find place where it does not.
pub(super) fn is_bound<S: Speed>(state: &ClusterState<'_, S>, job: Job) -> bool {
    state.placer.binds(state.jobs.form(job.index()))
}

/// Returns whether a plan puts a job where it may lie.
pub(super) fn in_tier<S: Speed>(state: &ClusterState<'_, S>, job: Job, relocation: &Relocation) -> bool {
    !is_bound(state, job) || state.check_tiers(job, &relocation.parts).is_ok()
}

impl<F: RunTimes> Repack<F> {
    /// Starts the urgent jobs of a priority class at any cost, but spares jobs with more than half of their strain.
    pub(super) fn relieve<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, priority_class: u32, limit: f64) {
        let (mut failed, jobs): (Vec<(u32, usize)>, _) = (Vec::new(), state.jobs);
        let quotas = state.has_quotas(); // which change a job's priority class, but not within a pass
        self.server_index.strains.begin_walk(state, limit);
        self.barren.clear();
        'urgent: while let Some((strain, job)) = {
            let comes_back = self.review_barren(state);
            let Self { server_index, barren, evicts, .. } = self;
            let queues = server_index.run_times.queues();
            // Without quotas members of a class are of one priority class, and fail together.
            let is_lost = |member: Job| {
                has_failed(state, member, &failed) && (!*evicts || !quotas && is_barren(state, member, barren))
            };
            let is_other = |member: Job| !quotas && queues.priority_class_of(member) != priority_class;
            if comes_back {
                server_index.strains.call_back(|member| !is_other(member) && !is_lost(member));
            }
            server_index.strains.next(state, limit, |member| is_other(member) || is_lost(member))
        } {
            if self.server_index.run_times.queues().priority_class_of(job) != priority_class {
                continue;
            }
            let (strain, work) = (strain / 2.0, f64::NEG_INFINITY);
            let units = state.units(job);
            if has_failed(state, job, &failed) {
                self.tries_to_evict(state, job);
                continue;
            }
            if state.place(job) {
                self.start(state, job);
                continue;
            }
            for &(gpu_type, _) in jobs.tried(job) {
                let pool = state.cluster.pool_of(gpu_type);
                if failed.contains(&(units, pool)) {
                    continue;
                }
                let run = self.run(state, job);
                let requester = self.requester(state, job, pool, priority_class, (run, work, strain));
                match Relocation::find(state, &mut self.server_index, &requester, &mut self.candidates) {
                    Some(relocation) if in_tier(state, job, &relocation) => {
                        self.carry_out(state, job, &relocation);
                        continue 'urgent;
                    }
                    _ if is_bound(state, job) => {}
                    _ => failed.push((units, pool)),
                }
            }
            self.tries_to_evict(state, job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Class, Overdue};
    use crate::ids::Job;
    use crate::policy::repack::strain::strain;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    fn overdue(class_of: &[usize]) -> Overdue {
        let mut classes = vec![Class::default(); 4];
        let mut places = Vec::new();
        for (job, &class) in class_of.iter().enumerate() {
            places.push((class as u32, classes[class].members.len() as u32));
            classes[class].members.push(Job::at(job));
        }
        Overdue { places, classes, ahead: BinaryHeap::new(), aside: Vec::new(), given: None }
    }

    proptest! {
        #[test]
        fn a_walk_agrees_with_a_sort(
            // By job: its class, origin and reference time, and whether it leaves, and comes again.
            jobs in prop::collection::vec((0usize..4, 0u32..6, 0u32..4, any::<bool>(), any::<bool>()), 0..70),
            now in 0u32..400, limit in 1u32..40, aside in 0usize..5, back in 0usize..80,
        ) {
            let mut overdue = overdue(&jobs.iter().map(|job| job.0).collect::<Vec<_>>());
            let (now, limit) = (f64::from(now), f64::from(limit));
            for (job, &(_, origin, reference_time, leaves, returns)) in jobs.iter().enumerate() {
                let job = Job::at(job);
                overdue.enter(job, f64::from(origin), f64::from(reference_time));
                if leaves {
                    overdue.leave(job);
                    if returns {
                        overdue.enter(job, f64::from(origin), f64::from(reference_time) / 2.0);
                    }
                }
            }
            let there = jobs.iter().enumerate().filter(|(_, job)| !job.3 || job.4);
            let strains = there.map(|(job, &(_, origin, reference_time, leaves, _))| {
                let reference_time = f64::from(reference_time) / if leaves { 2.0 } else { 1.0 };
                (strain(now - f64::from(origin), reference_time), Job::at(job))
            });
            let mut want: Vec<(f64, Job)> = strains.filter(|(strain, _)| *strain >= limit).collect();
            want.sort_unstable_by_key(|&(strain, job)| (Reverse(strain.to_bits()), job));
            // Members of the class that is aside have turns after so many others.
            let is_aside = |job: Job| jobs[job.index()].0 == aside;
            let others = want.iter().enumerate().filter(|(_, (_, job))| !is_aside(*job)).map(|(at, _)| at);
            let passed = match back {
                0 => 0,
                _ => others.take(back).enumerate().last().filter(|last| last.0 + 1 == back).map_or(want.len(), |last| last.1 + 1),
            };
            let mut at = 0;
            want.retain(|&(_, job)| {
                at += 1;
                at > passed || !is_aside(job)
            });
            overdue.begin_walk(now, limit);
            let mut found = Vec::new();
            while let Some(next) = overdue.next(now, limit, |job| found.len() < back && is_aside(job)) {
                found.push(next);
                if found.len() == back {
                    overdue.call_back(is_aside);
                }
            }
            prop_assert_eq!(found, want);
        }
    }
}
