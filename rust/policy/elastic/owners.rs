//! Numbers where owners have quotas (docs/elastic-policies.md#quotas).
//!
//! Invariant: of the jobs in their order, those are within a quota whose min_gpus fit it with those of the owner's jobs that were
//! within before. For example, with a quota of 4 GPUs a job of 2 to 8 GPUs that holds 8 is within, and so is a second of 2.

use super::curve::Curves;
use super::queue::Queue;
use super::sheet::{Line, Sheet};
use super::{Rates, Rule};
use crate::ids::Job;
use crate::machine::Claimant;
use crate::speed::Speed;

impl Sheet {
    /// Adds those who wait, and says of all how they stand to their owners' quotas.
    pub(super) fn rank_by_owner<S: Speed>(&mut self, queue: &Queue, rates: &Rates<'_, '_, S>) {
        let floor = rates.floor;
        self.lines.extend(queue.all().map(|(job, key)| rates.waiting(job, key)));
        let mut all: Vec<&mut Line> = self.lines.iter_mut().chain(&mut self.young).collect();
        all.sort_unstable_by_key(|line| line.place());
        let mut tally = floor.tally();
        for line in all {
            line.standing = floor.count_on(&mut tally, line.job, line.min);
            if line.standing != Claimant::HeldBack {
                self.ranked.push(line.rank());
            }
        }
        self.ranked.sort_unstable();
    }

    /// What an owner may still get.
    pub(super) fn left_of(&self, owner: usize) -> u64 {
        self.left.get(owner).copied().unwrap_or(u64::MAX)
    }

    /// It gets so many.
    pub(super) fn spend(&mut self, owner: usize, gpus: u32) {
        if let Some(left) = self.left.get_mut(owner).filter(|left| **left < u64::MAX) {
            *left -= u64::from(gpus);
        }
    }

    /// Gives out what is left of a pool as the rule says. If an owner got too much, that is done once more, a GPU at a time.
    pub(super) fn give_rest_by_owner<S: Speed, R: Rule>(
        &mut self,
        rule: &R,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) {
        let (numbers, free): (Vec<u32>, _) = (self.lines.iter().map(|line| line.number).collect(), self.free[pool]);
        rule.give_rest(self, pool, rates, curves);
        let more = |(line, before): (&Line, &u32)| (line.owner, line.number - before);
        let got: Vec<(usize, u32)> = self.lines.iter().zip(&numbers).map(more).collect();
        let mut left: Vec<i128> = self.left.iter().map(|&left| i128::from(left)).collect();
        for &(owner, gpus) in &got {
            if let Some(left) = left.get_mut(owner) {
                *left -= i128::from(gpus);
            }
        }
        if left.iter().any(|&left| left < 0) {
            self.lines.iter_mut().zip(numbers).for_each(|(line, number)| line.number = number);
            self.free[pool] = free;
            self.give_one_by_one(rule, pool, curves);
        } else {
            got.into_iter().for_each(|(owner, gpus)| self.spend(owner, gpus));
        }
    }

    fn give_one_by_one<R: Rule>(&mut self, rule: &R, pool: usize, curves: &Curves) {
        // (line, job, what decides whether its next GPU comes first).
        let worth = |line: &Line| {
            let curve = curves.of(line.job, pool).filter(|curve| line.number < curve.cap)?;
            Some(rule.worth(curve, line.left, line.number))
        };
        let of_pool = |line: &Line| line.number > 0 && line.pool == pool;
        let mut able: Vec<(usize, Job, u64)> = (0..self.lines.len())
            .filter(|&at| of_pool(&self.lines[at]))
            .filter_map(|at| Some((at, self.lines[at].job, worth(&self.lines[at])?)))
            .collect();
        while self.free[pool] > 0 {
            able.retain(|&(at, ..)| self.left_of(self.lines[at].owner) > 0);
            let Some(best) = rule.first(&able) else { break };
            let at = able[best].0;
            self.lines[at].number += 1;
            self.spend(self.lines[at].owner, 1);
            self.free[pool] -= 1;
            match worth(&self.lines[at]) {
                Some(worth) => able[best].2 = worth,
                None => drop(able.remove(best)),
            }
        }
    }
}
