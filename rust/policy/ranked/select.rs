//! The walk of a ranking with a quota of all GPUs: who should run.
//!
//! Invariant: the jobs selected ask for no more GPUs than the cluster has. For example, of jobs of 4, 6 and 3 GPUs in
//! this order a cluster of 8 runs the first and the third: the second does not fit in the 4 GPUs that are left.

use super::from_the_end::FromTheEnd;
use super::waiting::{Waiting, Walk};
use super::{Ranking, before};
use crate::ids::{Job, Slot};
use crate::machine::Floor;
use crate::speed::Speed;

/// What a walk decides, and what it needs on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    /// Waiting jobs to place, in rank order.
    pub(super) chosen: Vec<Job>,
    /// Slots of running jobs to preempt.
    pub(super) evicted: Vec<Slot>,
    /// Running jobs taken from the end of the ranking: (key, job, slot, GPUs), last first.
    tail: Vec<(f64, Job, Slot, u32)>,
    /// All jobs, where they are ranked anew: (key, job, slot or none).
    all: Vec<((f64, f64), Job, Option<Slot>)>,
}

impl Selection {
    /// Walks the ranking. It costs the waiting jobs chosen, and the running jobs that rank behind the first job that
    /// does not fit. Those are few, because they fit in what is left of the quota there.
    ///
    /// Let W be the GPUs of the waiting jobs up to some place of the ranking, B those of all running jobs and T those
    /// of the running jobs behind that place. The walk reaches the place with W + B - T GPUs given away if all before
    /// fit; so the first that does not fit is found from the end, by the excess W + B - N over the N GPUs.
    pub(super) fn walk<R: Ranking, S: Speed>(
        &mut self,
        ranking: &mut R,
        floor: &Floor<'_, S>,
        mut walk: Walk<'_>,
        ends: &mut FromTheEnd,
    ) {
        let spare = floor.cluster.total_idle;
        self.chosen.clear();
        self.evicted.clear();
        self.tail.clear();
        let mut excess = -(spare as i64);
        let mut behind = 0i64;
        'walk: loop {
            let next = walk.peek();
            // A waiting job's key is needed where a running job's may lie in the same span.
            let is_above = |key: Option<f64>| next.is_some_and(|n| key.is_some_and(|key| key < n.below));
            if is_above(self.tail.last().map(|last| last.0)) {
                walk.settle(ranking);
                continue;
            }
            let first_too_many = self.tail.last().filter(|_| excess > 0);
            if let Some(&(key, job, ..)) = first_too_many
                && next.is_none_or(|n| before((key, job), (n.key, n.job)))
            {
                break;
            }
            let Some(next) = next else { return };
            let with_it = excess + i64::from(next.num_gpus);
            while behind < with_it {
                if is_above(ends.ceiling()) {
                    walk.settle(ranking);
                    continue 'walk;
                }
                let Some((key, job, slot)) = ends.last_behind((next.key, next.job), ranking, floor) else { break };
                let own = floor.asks(job);
                self.tail.push((key, job, slot, own));
                ends.remove(slot);
                behind += i64::from(own);
            }
            if with_it > 0 && behind < with_it {
                break;
            }
            self.chosen.push(next.job);
            excess = with_it;
            walk.pass();
        }
        // Everything before is selected; what is left of the quota goes to those behind that fit.
        let mut quota = (behind - excess) as u64;
        let mut kept = self.tail.len();
        loop {
            walk.leave_out_above(quota);
            let next = walk.peek();
            let own = kept.checked_sub(1).map(|i| self.tail[i]);
            if next.is_some_and(|n| own.is_some_and(|own| own.0 < n.below)) {
                walk.settle(ranking);
                continue;
            }
            let (waits, num_gpus) = match (next, own) {
                (None, None) => break,
                (Some(n), Some(own)) => {
                    let waits = before((n.key, n.job), (own.0, own.1));
                    (waits, if waits { n.num_gpus } else { own.3 })
                }
                (Some(n), None) => (true, n.num_gpus),
                (None, Some(own)) => (false, own.3),
            };
            let fits = u64::from(num_gpus) <= quota;
            if fits {
                quota -= u64::from(num_gpus);
            }
            if waits {
                if let (Some(n), true) = (next, fits) {
                    self.chosen.push(n.job);
                }
                walk.pass();
            } else if let Some((key, job, slot, _)) = own {
                kept -= 1;
                if fits {
                    ends.set(slot, key, job);
                } else {
                    self.evicted.push(slot);
                }
            }
        }
    }

    /// Ranks every job anew and walks. Cost: all jobs that run or wait.
    pub(super) fn walk_all<R: Ranking, S: Speed>(
        &mut self,
        ranking: &R,
        floor: &Floor<'_, S>,
        waiting: &Waiting,
        gpus: u64,
    ) {
        self.chosen.clear();
        self.evicted.clear();
        let mut all = std::mem::take(&mut self.all);
        all.clear();
        all.extend(waiting.jobs().map(|job| (ranking.rank(floor, job, None), job, None)));
        let live = floor.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
        all.extend(
            live.map(|(slot, stay)| (ranking.rank(floor, stay.job, Some(stay)), stay.job, Some(Slot::at(slot)))),
        );
        all.sort_unstable_by(|a, b| a.0.0.total_cmp(&b.0.0).then(a.0.1.total_cmp(&b.0.1)).then(a.1.cmp(&b.1)));
        let mut quota = gpus;
        for &(_, job, slot) in &all {
            let num_gpus = u64::from(floor.asks(job));
            let fits = num_gpus <= quota;
            if fits {
                quota -= num_gpus;
            }
            match (slot, fits) {
                (None, true) => self.chosen.push(job),
                (Some(slot), false) => self.evicted.push(slot),
                _ => {}
            }
        }
        self.all = all;
    }
}
