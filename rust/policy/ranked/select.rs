//! The walk of a ranking with a quota of all GPUs: who should run.
//!
//! Invariant: the jobs selected ask for no more GPUs than the cluster has. For example, of jobs of 4, 6 and 3 GPUs in
//! this order a cluster of 8 runs the first and the third: the second does not fit in the 4 GPUs that are left.

use super::Ranking;
use super::waiting::{Waiting, Walk};
use crate::ds::EventHeap;
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

/// Running jobs by key, the last of the ranking first. A stored key may be above the true one, for running jobs only
/// move up; it is put right when it comes to the front.
#[derive(Clone, Debug, Default)]
pub(super) struct FromTheEnd(EventHeap);

impl FromTheEnd {
    pub(super) fn set(&mut self, slot: Slot, key: f64, job: Job) {
        self.0.set(slot.number(), -key, !job.number());
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        self.0.remove(slot.number());
    }

    /// Has all running jobs, by their keys now.
    pub(super) fn renew<R: Ranking, S: Speed>(&mut self, ranking: &mut R, floor: &Floor<'_, S>) {
        let live = floor.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
        self.0.refill(live.map(|(slot, stay)| (slot as u32, -ranking.running_key(floor, stay), !stay.job.number())));
    }

    /// The running job that ranks last: (key, job, slot).
    fn last<R: Ranking, S: Speed>(&mut self, ranking: &mut R, floor: &Floor<'_, S>) -> Option<(f64, Job, Slot)> {
        loop {
            let (stored, slot) = self.0.peek()?;
            let slot = Slot::new(slot);
            let stay = &floor.stays[slot.index()];
            let key = ranking.running_key(floor, stay);
            if key == -stored {
                return Some((key, stay.job, slot));
            }
            self.set(slot, key, stay.job);
        }
    }
}

/// Whether (key, job) `a` ranks before `b`.
fn before(a: (f64, Job), b: (f64, Job)) -> bool {
    a.0 < b.0 || (a.0 == b.0 && a.1 < b.1)
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
        loop {
            let next = walk.peek();
            let first_too_many = self.tail.last().filter(|_| excess > 0);
            if let Some(&(key, job, ..)) = first_too_many
                && next.is_none_or(|n| before((key, job), (n.key, n.job)))
            {
                break;
            }
            let Some(next) = next else { return };
            let with_it = excess + i64::from(next.num_gpus);
            while behind < with_it {
                match ends.last(ranking, floor) {
                    Some((key, job, slot)) if before((next.key, next.job), (key, job)) => {
                        let own = floor.asks(job);
                        self.tail.push((key, job, slot, own));
                        ends.remove(slot);
                        behind += i64::from(own);
                    }
                    _ => break,
                }
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
