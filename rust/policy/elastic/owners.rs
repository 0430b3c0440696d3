//! Determines numbers where owners have quotas (docs/elastic-policies.md#quotas).
//!
//! Invariant: of the jobs in their order, those are within a quota whose min_gpus fit it together with those of the
//! owner's earlier jobs within it. For example, with a quota of 4 GPUs a job of 2 to 8 GPUs that holds 8 is within,
//! and so is a second of 2.

use super::allocation::{Allocation, Entry};
use super::curve::Curves;
use super::queue::Queue;
use super::{Rates, Rule};
use crate::ids::Job;
use crate::machine::{Claimant, ClusterState};
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A job's next GPU: what it is worth, the job, and its entry.
pub(in crate::policy) type Turn = (u64, Reverse<Job>, usize);

impl Allocation {
    /// Adds the waiting jobs, and determines the standing of all in their owners' quotas.
    pub(super) fn rank_by_owner<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        let state = rates.state;
        self.entries.extend(queue.all().map(|(job, key)| rates.waiting(job, key)));
        let mut all: Vec<&mut Entry> = self.entries.iter_mut().chain(&mut self.young).collect();
        all.sort_unstable_by_key(|entry| (!entry.is_protected, entry.place()));
        let mut tally = state.tally();
        for entry in all {
            entry.standing = state.count_on(&mut tally, entry.job, entry.min);
            if entry.standing != Claimant::HeldBack {
                self.ranked.push(entry.rank());
            }
        }
        self.ranked.sort_unstable();
    }

    /// Returns what a job's owners may still get.
    pub(super) fn left_of<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> u64 {
        state.quotas_of(job).map(|place| self.left[place]).min().unwrap_or(u64::MAX)
    }

    /// Deducts what they get.
    pub(super) fn spend<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, gpus: u32) {
        for place in state.quotas_of(job) {
            // u64::MAX stays, as for an owner that may borrow.
            let left = &mut self.left[place];
            *left -= if *left < u64::MAX { u64::from(gpus) } else { 0 };
        }
    }

    /// Distributes what is left of a pool by the rule. If an owner got too much, does it again, one GPU at a time.
    pub(super) fn give_rest_by_owner<S: Speed, R: Rule>(
        &mut self,
        rule: &R,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) {
        let (numbers, free): (Vec<u32>, _) = (self.entries.iter().map(|entry| entry.number).collect(), self.free[pool]);
        rule.give_rest(self, pool, rates, curves);
        let more = |(entry, before): (&Entry, &u32)| (entry.job, entry.number - before);
        let got: Vec<(Job, u32)> = self.entries.iter().zip(&numbers).map(more).collect();
        let mut left: Vec<i128> = self.left.iter().map(|&left| i128::from(left)).collect();
        for &(job, gpus) in &got {
            rates.state.quotas_of(job).for_each(|place| left[place] -= i128::from(gpus));
        }
        if left.iter().any(|&left| left < 0) {
            self.entries.iter_mut().zip(numbers).for_each(|(entry, number)| entry.number = number);
            self.free[pool] = free;
            self.give_one_by_one(rule, pool, rates.state, curves);
        } else {
            got.into_iter().for_each(|(job, gpus)| self.spend(rates.state, job, gpus));
        }
    }

    fn give_one_by_one<S: Speed, R: Rule>(
        &mut self,
        rule: &R,
        pool: usize,
        state: &ClusterState<'_, S>,
        curves: &Curves,
    ) {
        // (worth, job, entry), without jobs that can use no more.
        let turn = |allocation: &Self, at: usize| {
            let entry = &allocation.entries[at];
            let curve = curves.get(entry.job, pool).filter(|curve| entry.number < curve.cap)?;
            Some((rule.worth(curve, entry.left, entry.number), Reverse(entry.job), at))
        };
        let of_pool = |entry: &Entry| entry.number > 0 && entry.pool == pool;
        let entries = (0..self.entries.len()).filter(|&at| of_pool(&self.entries[at]));
        let mut able: Vec<Turn> = entries.filter_map(|at| turn(self, at)).collect();
        if R::BY_WORTH {
            let mut able = BinaryHeap::from(able);
            while self.free[pool] > 0
                && let Some((.., at)) = able.pop()
            {
                if self.give_one(at, pool, state) {
                    able.extend(turn(self, at));
                }
            }
            return;
        }
        while self.free[pool] > 0 {
            able.retain(|&(.., at)| self.left_of(state, self.entries[at].job) > 0);
            let Some(first) = rule.first(&able) else { break };
            let at = able[first].2;
            self.give_one(at, pool, state);
            match turn(self, at) {
                Some(turn) => able[first] = turn,
                None => drop(able.remove(first)),
            }
        }
    }

    /// Gives an entry a GPU, if its owners may still have one.
    fn give_one<S: Speed>(&mut self, at: usize, pool: usize, state: &ClusterState<'_, S>) -> bool {
        let job = self.entries[at].job;
        let may = self.left_of(state, job) > 0;
        if may {
            self.entries[at].number += 1;
            self.spend(state, job, 1);
            self.free[pool] -= 1;
        }
        may
    }
}
