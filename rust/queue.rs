//! Waiting jobs in queue order. Where a discipline tries more than the head, they are also kept by size.

use crate::index::OrderedBits;
use crate::job::Jobs;
use crate::options::{Discipline, Order};

/// The queue of one cluster.
///
/// Orders are static, so every job has its place from the start and the queue is a set of occupied places:
/// insert, remove and "first" cost log64(jobs). For `strict` the places are in queue order. For `skip` and `easy`
/// they are grouped by size, in queue order inside a size, so that a size that cannot be placed is passed over whole.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// Each job's place; empty when it is the job's own number.
    place: Vec<u32>,
    /// The job of each place; empty when it is the place's own number.
    job: Vec<u32>,
    /// Each job's rank in queue order; empty when it is the job's own number, or when places are ranks.
    rank: Vec<u32>,
    /// First place of each size class, and the end.
    first: Vec<u32>,
    occupied: OrderedBits,
    waiting: usize,
    /// Estimates of the waiting jobs (`easy` only).
    short: Option<ShortJobs>,
}

impl Queue {
    pub(crate) fn new(jobs: &Jobs<'_>, order: Order, discipline: Discipline, estimate: impl Fn(usize) -> f64) -> Self {
        let n = jobs.len();
        let mut queue = Self {
            place: Vec::new(),
            job: Vec::new(),
            rank: Vec::new(),
            first: vec![0, n as u32],
            occupied: OrderedBits::new(n),
            waiting: 0,
            short: (discipline == Discipline::Easy).then(|| ShortJobs::new(n)),
        };
        // Jobs are numbered in order of (submit_time, row), which is fifo.
        let ordered: Option<Vec<u32>> = match order {
            // QSSF's order is not known from the start: its engine is another.
            Order::Fifo | Order::Qssf => None,
            Order::Sjf => {
                let mut keyed: Vec<(u64, u32)> = (0..n).map(|j| (estimate(j).to_bits(), j as u32)).collect();
                // Estimates are not negative, so their bits sort as they do.
                keyed.sort_unstable();
                Some(keyed.into_iter().map(|(_, j)| j).collect())
            }
            Order::Smallest => Some(by_size(jobs.num_gpus, None).0),
        };
        if discipline == Discipline::Strict {
            if let Some(job) = ordered {
                queue.place = inverse(&job);
                queue.job = job;
            }
            return queue;
        }
        let (job, first) = by_size(jobs.num_gpus, ordered.as_deref());
        queue.rank = ordered.map(|o| inverse(&o)).unwrap_or_default();
        queue.place = inverse(&job);
        queue.job = job;
        queue.first = first;
        queue
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Adds a job; `estimate`, s, is asked for where the discipline reads it.
    pub(crate) fn push(&mut self, job: u32, estimate: impl FnOnce() -> f64) {
        let place = self.place_of(job);
        self.occupied.insert(place);
        self.waiting += 1;
        if let Some(short) = &mut self.short {
            short.set(place, estimate());
        }
    }

    pub(crate) fn remove(&mut self, job: u32) {
        let place = self.place_of(job);
        self.occupied.remove(place);
        self.waiting -= 1;
        if let Some(short) = &mut self.short {
            short.set(place, f64::INFINITY);
        }
    }

    /// The first job in queue order (`strict` only).
    pub(crate) fn head(&self) -> Option<u32> {
        self.occupied.next(0).map(|p| self.job_at(p))
    }

    /// Number of size classes.
    pub(crate) fn classes(&self) -> usize {
        self.first.len() - 1
    }

    /// The first waiting place of a class at or after `from`.
    pub(crate) fn next_in_class(&self, class: usize, from: usize) -> Option<usize> {
        let from = from.max(self.first[class] as usize);
        self.occupied.next(from).filter(|&p| p < self.first[class + 1] as usize)
    }

    /// The first place of a class whose job ranks after `rank`, waiting or not.
    pub(crate) fn place_after_rank(&self, class: usize, rank: u32) -> usize {
        let (from, to) = (self.first[class] as usize, self.first[class + 1] as usize);
        from + self.job[from..to].partition_point(|&j| self.rank_of(j) <= rank)
    }

    /// The first waiting place of a class at or after `from` whose estimate passes `short` (`easy` only).
    pub(crate) fn next_short(&self, class: usize, from: usize, short: impl Fn(f64) -> bool) -> Option<usize> {
        self.short.as_ref()?.next(from, self.first[class + 1] as usize, short)
    }

    #[inline]
    pub(crate) fn rank_of(&self, job: u32) -> u32 {
        self.rank.get(job as usize).copied().unwrap_or(job)
    }

    #[inline]
    fn place_of(&self, job: u32) -> usize {
        self.place.get(job as usize).copied().unwrap_or(job) as usize
    }

    #[inline]
    pub(crate) fn job_at(&self, place: usize) -> u32 {
        self.job.get(place).copied().unwrap_or(place as u32)
    }

    /// Every waiting job.
    pub(crate) fn waiting_jobs(&self) -> impl Iterator<Item = u32> + '_ {
        self.occupied.range(0, usize::MAX).map(|p| self.job_at(p))
    }
}

/// Jobs grouped by size, sizes ascending, in the given order inside a size; where each size begins.
fn by_size(num_gpus: &[u32], ordered: Option<&[u32]>) -> (Vec<u32>, Vec<u32>) {
    let n = num_gpus.len();
    let mut size: Vec<u32> = num_gpus.to_vec();
    size.sort_unstable();
    size.dedup();
    let class = |j: u32| size.partition_point(|&s| s < num_gpus[j as usize]);
    let mut first = vec![0u32; size.len() + 1];
    for j in 0..n as u32 {
        first[class(j) + 1] += 1;
    }
    for c in 1..first.len() {
        first[c] += first[c - 1];
    }
    let mut next = first.clone();
    let mut jobs = vec![0u32; n];
    for i in 0..n {
        let j = ordered.map_or(i as u32, |o| o[i]);
        let at = &mut next[class(j)];
        jobs[*at as usize] = j;
        *at += 1;
    }
    (jobs, first)
}

fn inverse(order: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (i, &j) in order.iter().enumerate() {
        inverse[j as usize] = i as u32;
    }
    inverse
}

/// Estimates of waiting jobs by place, to find the next one short enough: a complete binary tree of minima.
#[derive(Clone, Debug)]
struct ShortJobs {
    leaves: usize,
    minima: Vec<f64>,
}

impl ShortJobs {
    fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { leaves, minima: vec![f64::INFINITY; 2 * leaves] }
    }

    fn set(&mut self, place: usize, estimate: f64) {
        let mut at = self.leaves + place;
        self.minima[at] = estimate;
        while at > 1 {
            at /= 2;
            self.minima[at] = self.minima[2 * at].min(self.minima[2 * at + 1]);
        }
    }

    /// The first place in `from..to` whose estimate passes `short`, a test that every smaller estimate passes too.
    fn next(&self, from: usize, to: usize, short: impl Fn(f64) -> bool) -> Option<usize> {
        if from >= to {
            return None;
        }
        let good = |at: usize| self.minima[at] < f64::INFINITY && short(self.minima[at]);
        let mut at = self.leaves + from;
        // To the right, subtree by subtree, until one holds such an estimate; then down to its first.
        while !good(at) {
            while at & 1 == 1 {
                at >>= 1;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
        while at < self.leaves {
            at *= 2;
            if !good(at) {
                at += 1;
            }
        }
        Some(at - self.leaves).filter(|&p| p < to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn short_jobs_finds_the_first_in_range(
            values in prop::collection::vec(prop::option::of(0u32..20), 1..70),
            from in 0usize..70, to in 0usize..70, bound in 0u32..22,
        ) {
            let mut tree = ShortJobs::new(values.len());
            for (p, v) in values.iter().enumerate() {
                tree.set(p, v.map_or(f64::INFINITY, f64::from));
            }
            let to = to.min(values.len());
            let from = from.min(values.len() - 1);
            let want = (from..to).find(|&p| values[p].is_some_and(|v| v < bound));
            prop_assert_eq!(tree.next(from, to, |e| e < f64::from(bound)), want);
        }

        #[test]
        fn the_head_is_the_least_in_queue_order(
            sizes in prop::collection::vec(1u32..6, 1..40), order in 0usize..3, strict in any::<bool>(),
        ) {
            let n = sizes.len();
            let zeros = vec![0.0; n];
            let duration: Vec<f64> = sizes.iter().enumerate().map(|(i, &s)| f64::from((i as u32 * 7 + s) % 5)).collect();
            let jobs = Jobs { submit: &zeros, num_gpus: &sizes, duration: &duration, iterations: &[],
                gradient_bytes: &[], compute_time: &[] };
            let order = Order::ALL[order];
            let discipline = if strict { Discipline::Strict } else { Discipline::Skip };
            let mut queue = Queue::new(&jobs, order, discipline, |j| duration[j]);
            for j in 0..n as u32 {
                queue.push(j, || 0.0);
            }
            let mut want: Vec<u32> = (0..n as u32).collect();
            want.sort_by(|&a, &b| {
                let key = |j: u32| match order {
                    Order::Fifo | Order::Qssf => 0.0,
                    Order::Sjf => duration[j as usize],
                    Order::Smallest => f64::from(sizes[j as usize]),
                };
                key(a).total_cmp(&key(b)).then(a.cmp(&b))
            });
            for job in want {
                let got = if strict {
                    queue.head()
                } else {
                    (0..queue.classes())
                        .filter_map(|c| queue.next_in_class(c, 0))
                        .map(|p| queue.job_at(p))
                        .min_by_key(|&j| queue.rank_of(j))
                };
                prop_assert_eq!(got, Some(job));
                queue.remove(job);
            }
            prop_assert!(queue.is_empty());
        }
    }
}
