//! Walks a ranking with a quota of all GPUs, or of each GPU type, to select which jobs run.
//!
//! Invariant: the jobs selected ask for no more GPUs than the cluster has, of each type. For example, of jobs of 4, 6
//! and 3 GPUs in this order a cluster of 8 runs the first and the third: the second does not fit in the 4 GPUs that
//! are left.

use super::lowest_ranked::LowestRanked;
use super::waiting::{Waiting, Walk};
use super::{Keys, Place, Ranking, Turn, before};
use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::machine::{Claimant, ClusterState};
use crate::policy::quotas::Quotas;
use crate::speed::Speed;
use crate::trace::Jobs;
use std::collections::BTreeSet;

/// What a walk decides, and its buffers.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection<T> {
    /// Waiting jobs to place, in rank order.
    pub(super) chosen: Vec<Job>,
    /// Slots of running jobs to preempt.
    pub(super) evicted: Vec<Slot>,
    pools: Vec<Pool<T>>,
    /// All jobs, where they are ranked anew.
    all: Vec<Entry<T>>,
}

/// (key and tie, job, slot or none).
type Entry<T> = ((f64, T), Job, Option<Slot>);

/// The GPUs of one type on a walk, in units: GPUs, or thousandths of one where the table has shares.
#[derive(Clone, Debug, Default)]
struct Pool<T> {
    /// What is left of the quota if, of the running jobs, only those taken from the end give their GPUs back.
    left: u64,
    /// Those that the walk has not passed: (place, slot, units), first of the ranking last.
    tail: Vec<(Place<T>, Slot, u32)>,
}

impl<T: Copy + Default + Ord> Selection<T> {
    /// Walks the ranking. It costs the waiting jobs chosen, and the running jobs that rank behind the first job that
    /// does not fit. The latter are few, because they fit in what is left of the quota there.
    ///
    /// At a waiting job's place, what is left of the quota is at least the idle GPUs minus those of the waiting jobs
    /// chosen so far: all running jobs before that place were selected. The running jobs behind it have not drawn
    /// theirs yet. So they are taken from the end of the ranking, one by one, until the job fits or none is left.
    pub(super) fn walk<R: Ranking<Tie = T>, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        mut walk: Walk<'_, T>,
        ends: &mut LowestRanked,
    ) {
        self.chosen.clear();
        self.evicted.clear();
        self.pools.resize_with(state.cluster.len(), Pool::default);
        for (pool, idle) in self.pools.iter_mut().zip(state.cluster.idle_by_pool()) {
            pool.left = idle;
        }
        'walk: while let Some(next) = walk.peek() {
            let units = u64::from(next.demand.units());
            // A waiting job's key is needed where a running job's may be in the same span.
            let in_span = |key: f64| key < next.below;
            let mut fits = false;
            for &(gpu_type, _) in state.jobs.tried_by(next.demand) {
                let at = state.cluster.pool_of(gpu_type);
                let pool = &mut self.pools[at];
                while let Some(&(place, ..)) = pool.tail.last() {
                    if place.0 == next.tier && in_span(place.1) {
                        walk.settle(ranking);
                        continue 'walk;
                    }
                    if !before(place, next.place()) {
                        break;
                    }
                    pool.pass(at, ends, &mut self.evicted, ranking);
                }
                while pool.left < units {
                    if ends.ceiling(at, next.tier).is_some_and(in_span) {
                        walk.settle(ranking);
                        continue 'walk;
                    }
                    let Some((place, slot)) = ends.last_behind(at, next.place(), ranking, state) else { break };
                    let own = state.units(place.3);
                    pool.tail.push((place, slot, own));
                    ends.remove(at, place.0, slot);
                    pool.left += u64::from(own);
                }
                if pool.left >= units {
                    pool.left -= units;
                    fits = true;
                    break;
                }
            }
            if fits {
                self.chosen.push(next.job);
                walk.pass();
            } else {
                // Further on there is no more left for jobs of this class.
                walk.leave_out();
            }
        }
        for (at, pool) in self.pools.iter_mut().enumerate() {
            while !pool.tail.is_empty() {
                pool.pass(at, ends, &mut self.evicted, ranking);
            }
        }
    }

    /// Returns where a waiting job ranks in this pass.
    pub(super) fn turn_of<R: Ranking<Tie = T>, S: Speed>(
        &self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        waiting: &Waiting<T>,
        job: Job,
    ) -> Turn<T> {
        let place = || self.all.iter().position(|entry| entry.1 == job).unwrap_or(self.all.len()) as f64;
        if state.has_quotas() {
            return (0, ordered(place()), T::default(), job);
        }
        let key = match R::KEYS {
            Keys::Stand => waiting.key_of(job),
            Keys::ByNumber => ranking.key_of(waiting.key_of(job)),
            Keys::Move => place(),
        };
        (state.jobs.tier(job.index()), ordered(key), ranking.tie(job), job)
    }

    /// Ranks every job anew and walks. Cost: all running and waiting jobs.
    pub(super) fn walk_all<R: Ranking<Tie = T>, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        waiting: &Waiting<T>,
    ) {
        let all = self.in_turn(ranking, state, waiting);
        self.draw(state, all);
    }

    /// Returns the waiting jobs in their order; jobs that a quota holds back come after them.
    pub(super) fn start_order<R: Ranking<Tie = T>, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        waiting: &Waiting<T>,
    ) -> Vec<Job> {
        let all = self.in_turn(ranking, state, waiting);
        let mut start_order: Vec<Job> = all.iter().filter(|entry| entry.2.is_none()).map(|entry| entry.1).collect();
        if start_order.len() < waiting.jobs().count() {
            let tried: BTreeSet<Job> = start_order.iter().copied().collect();
            let all = self.rank_all(ranking, state, waiting);
            start_order
                .extend(all.iter().filter(|entry| entry.2.is_none() && !tried.contains(&entry.1)).map(|entry| entry.1));
        }
        start_order
    }

    /// Returns all jobs in turn. Protected jobs and those on servers that drain go before all others, but jobs over
    /// quota after those within it, whatever their priorities, unless they are on servers that drain.
    fn in_turn<R: Ranking<Tie = T>, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        waiting: &Waiting<T>,
    ) -> Vec<Entry<T>> {
        let mut all = self.rank_all(ranking, state, waiting);
        if state.may_keep() {
            put_kept_first(&mut all, state);
        }
        if state.has_quotas() { self.by_owner(state, all) } else { all }
    }

    /// Returns the jobs within their owners' quotas, then those over quota. Jobs that may not borrow are left out.
    fn by_owner<S: Speed>(&mut self, state: &ClusterState<'_, S>, mut all: Vec<Entry<T>>) -> Vec<Entry<T>> {
        let (mut tally, mut over_quota) = (state.tally(), Vec::new());
        all.retain(|&entry| match (state.count(&mut tally, entry.1), entry.2) {
            (Claimant::Within, _) => true,
            (_, Some(slot)) if state.is_on_draining(slot) => true,
            (Claimant::Over, _) => {
                over_quota.push(entry);
                false
            }
            (Claimant::HeldBack, slot) => {
                self.evicted.extend(slot);
                false
            }
        });
        all.append(&mut over_quota);
        all
    }

    /// Returns all running and waiting jobs, by their present rank.
    fn rank_all<R: Ranking<Tie = T>, S: Speed>(
        &mut self,
        ranking: &mut R,
        state: &ClusterState<'_, S>,
        waiting: &Waiting<T>,
    ) -> Vec<Entry<T>> {
        self.chosen.clear();
        self.evicted.clear();
        let mut all = std::mem::take(&mut self.all);
        all.clear();
        all.extend(waiting.jobs().map(|job| {
            let key = match R::KEYS {
                Keys::Stand => waiting.key_of(job),
                Keys::ByNumber => ranking.key_of(waiting.key_of(job)),
                Keys::Move => ranking.rank(state, job, None),
            };
            ((key, ranking.tie(job)), job, None)
        }));
        let live = state.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
        all.extend(live.map(|(slot, stay)| {
            let key = match R::KEYS {
                Keys::Move => ranking.rank(state, stay.job, Some(stay)),
                _ => ranking.running_key(state, stay),
            };
            ((key, ranking.tie(stay.job)), stay.job, Some(Slot::at(slot)))
        }));
        sort(&mut all, &state.jobs);
        if R::NEAR > 0.0 {
            let mut rest = &mut all[..];
            let apart = |pair: &[Entry<T>]| pair[1].0.0 - pair[0].0.0 > R::NEAR * pair[0].0.0.abs();
            while let Some(from) = rest.windows(2).position(|pair| !apart(pair)) {
                rest = rest.split_at_mut(from).1;
                let ((least, _), first, _) = rest[0];
                let tier = state.jobs.tier(first.index());
                let is_near = |&((key, _), job, _): &Entry<T>| {
                    key - least <= R::NEAR * least.abs() && state.jobs.tier(job.index()) == tier
                };
                let ties = rest.iter().take_while(|entry| is_near(entry)).count().max(1);
                let (tied, others) = rest.split_at_mut(ties);
                sort_by_job(tied);
                rest = others;
            }
        }
        all
    }

    /// Lets all jobs draw on the GPUs, in their order.
    fn draw<S: Speed>(&mut self, state: &ClusterState<'_, S>, all: Vec<Entry<T>>) {
        let mut quotas = Quotas::new(state);
        for &(_, job, slot) in &all {
            match (slot, quotas.draw(state, job, slot)) {
                (None, true) => self.chosen.push(job),
                (Some(slot), false) => self.evicted.push(slot),
                _ => {}
            }
        }
        self.all = all;
    }
}

// What follows is compiled once for all rankings.

/// Sorts jobs by priority, key and tie.
fn sort<T: Copy + Ord>(all: &mut [Entry<T>], jobs: &Jobs<'_>) {
    all.sort_unstable_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.cmp(&b.0.1)).then(a.1.cmp(&b.1)));
    if jobs.priority.is_some() {
        all.sort_by_key(|&(_, job, _)| jobs.tier(job.index()));
    }
}

fn sort_by_job<T>(all: &mut [Entry<T>]) {
    all.sort_unstable_by_key(|entry| entry.1);
}

/// Moves the jobs ahead whose stays nobody may end.
fn put_kept_first<T, S: Speed>(all: &mut [Entry<T>], state: &ClusterState<'_, S>) {
    all.sort_by_key(|&(.., slot)| !slot.is_some_and(|slot| state.is_kept(slot)));
}

impl<T: Copy> Pool<T> {
    /// Passes the next running job of the tail: it draws its GPUs, or there are too few.
    fn pass<R: Ranking<Tie = T>>(&mut self, at: usize, ends: &mut LowestRanked, evicted: &mut Vec<Slot>, ranking: &R) {
        let Some((place, slot, units)) = self.tail.pop() else { return };
        if u64::from(units) <= self.left {
            self.left -= u64::from(units);
            ends.set(ranking, at, slot, (place.0, place.1, place.3));
        } else {
            evicted.push(slot);
        }
    }
}
