//! A line whose keys are known only when a job arrives, and may change.
//!
//! Every class is a treap: a search tree by (key, job) that is balanced by random priorities. Invariant: `least` of a
//! job is the least estimate in its subtree, so that the first job with a short enough estimate is found by going down.
//! For example, with the keys 3, 1, 2 of jobs 0, 1, 2 the line is 1, 2, 0.

use super::line::Line;
use crate::ds::{OrderedBits, ordered};
use crate::options::Discipline;
use crate::rng::SplitMix64;
use crate::setting::Setting;

const NONE: u32 = u32::MAX;

/// Insert, remove and every search cost the logarithm of the class's size. `ASKED`: whether keys come from outside.
#[derive(Clone, Debug)]
pub(crate) struct KeyedLine<const ASKED: bool> {
    /// The treap of each size, sizes ascending; of all jobs under a strict queue.
    root: Vec<u32>,
    waiting: OrderedBits,
    len: usize,
    // By job.
    key: Vec<u64>,
    class: Vec<u32>,
    left: Vec<u32>,
    right: Vec<u32>,
    /// Estimates of the jobs, and the least in each subtree (EASY only).
    estimate: Vec<f64>,
    least: Vec<f64>,
}

impl<const ASKED: bool> KeyedLine<ASKED> {
    fn spot(&self, job: u32) -> (u64, u32) {
        (self.key[job as usize], job)
    }

    fn priority(job: u32) -> u64 {
        SplitMix64::new(u64::from(job)).next_u64()
    }

    /// Puts the least estimate of a subtree right, given those of its children.
    fn renew(&mut self, node: u32) {
        if self.estimate.is_empty() {
            return;
        }
        let j = node as usize;
        let of = |child: u32| self.least.get(child as usize).copied().unwrap_or(f64::INFINITY);
        self.least[j] = self.estimate[j].min(of(self.left[j])).min(of(self.right[j]));
    }

    /// Splits a subtree into what ranks before `spot` and the rest.
    fn split(&mut self, node: u32, spot: (u64, u32)) -> (u32, u32) {
        if node == NONE {
            return (NONE, NONE);
        }
        if self.spot(node) < spot {
            let (before, rest) = self.split(self.right[node as usize], spot);
            self.right[node as usize] = before;
            self.renew(node);
            (node, rest)
        } else {
            let (before, rest) = self.split(self.left[node as usize], spot);
            self.left[node as usize] = rest;
            self.renew(node);
            (before, node)
        }
    }

    /// Joins two subtrees, all of the first ranking before all of the second.
    fn join(&mut self, a: u32, b: u32) -> u32 {
        if a == NONE || b == NONE {
            return if a == NONE { b } else { a };
        }
        if Self::priority(a) > Self::priority(b) {
            self.right[a as usize] = self.join(self.right[a as usize], b);
            self.renew(a);
            a
        } else {
            self.left[b as usize] = self.join(a, self.left[b as usize]);
            self.renew(b);
            b
        }
    }

    fn insert(&mut self, job: u32, key: f64) {
        let j = job as usize;
        self.key[j] = ordered(key);
        (self.left[j], self.right[j]) = (NONE, NONE);
        self.renew(job);
        let class = self.class[j] as usize;
        let (before, after) = self.split(self.root[class], self.spot(job));
        let with_it = self.join(before, job);
        self.root[class] = self.join(with_it, after);
        self.waiting.insert(j);
        self.len += 1;
    }

    /// The first job of a subtree that ranks after `spot` and whose estimate passes `short`.
    fn search(&self, node: u32, spot: (u64, u32), short: &dyn Fn(f64) -> bool) -> Option<u32> {
        if node == NONE || !short(self.least[node as usize]) {
            return None;
        }
        let j = node as usize;
        if self.spot(node) > spot {
            let before = self.search(self.left[j], spot, short);
            if before.is_some() {
                return before;
            }
            if short(self.estimate[j]) {
                return Some(node);
            }
        }
        self.search(self.right[j], spot, short)
    }
}

impl<const ASKED: bool> Line for KeyedLine<ASKED> {
    const ASKED: bool = ASKED;
    type Spot = (u64, u32);

    fn new(setting: &Setting<'_>, _estimate: impl Fn(usize) -> f64) -> Self {
        let (jobs, queue) = (&setting.jobs, setting.options.queue);
        let n = jobs.len();
        let mut sizes = Vec::new();
        if queue != Discipline::Strict {
            sizes = jobs.num_gpus.to_vec();
            sizes.sort_unstable();
            sizes.dedup();
        }
        let class = |&size: &u32| sizes.partition_point(|&s| s < size) as u32;
        let easy = if queue == Discipline::Easy { n } else { 0 };
        Self {
            class: jobs.num_gpus.iter().map(class).collect(),
            root: vec![NONE; sizes.len().max(1)],
            waiting: OrderedBits::new(n),
            len: 0,
            key: vec![0; n],
            left: vec![NONE; n],
            right: vec![NONE; n],
            estimate: vec![f64::INFINITY; easy],
            least: vec![f64::INFINITY; easy],
        }
    }

    fn push(&mut self, job: u32, key: f64, estimate: impl FnOnce() -> f64) {
        if let Some(own) = self.estimate.get_mut(job as usize) {
            *own = estimate();
        }
        self.insert(job, key);
    }

    fn remove(&mut self, job: u32) {
        let class = self.class[job as usize] as usize;
        let (key, _) = self.spot(job);
        let (before, rest) = self.split(self.root[class], (key, job));
        // (key, job + 1) is the first spot after it: job numbers stay below NONE.
        let (_, after) = self.split(rest, (key, job + 1));
        self.root[class] = self.join(before, after);
        self.waiting.remove(job as usize);
        self.len -= 1;
    }

    fn promote(&mut self, job: u32) {
        self.remove(job);
        self.insert(job, f64::NEG_INFINITY);
    }

    fn has(&self, job: u32) -> bool {
        self.waiting.next(job as usize) == Some(job as usize)
    }

    fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn classes(&self) -> usize {
        self.root.len()
    }

    fn job_at(&self, spot: (u64, u32)) -> u32 {
        spot.1
    }

    fn first(&self, class: usize) -> Option<(u64, u32)> {
        let mut at = self.root[class];
        if at == NONE {
            return None;
        }
        while self.left[at as usize] != NONE {
            at = self.left[at as usize];
        }
        Some(self.spot(at))
    }

    fn next(&self, class: usize, spot: (u64, u32)) -> Option<(u64, u32)> {
        self.next_behind(class, spot)
    }

    fn next_behind(&self, class: usize, spot: (u64, u32)) -> Option<(u64, u32)> {
        let (mut at, mut found) = (self.root[class], None);
        while at != NONE {
            let own = self.spot(at);
            if own > spot {
                found = Some(own);
                at = self.left[at as usize];
            } else {
                at = self.right[at as usize];
            }
        }
        found
    }

    fn next_short(&self, class: usize, spot: (u64, u32), short: impl Fn(f64) -> bool) -> Option<(u64, u32)> {
        // An empty place has an infinite estimate, which a test without a bound would pass.
        let short = |estimate: f64| estimate < f64::INFINITY && short(estimate);
        self.search(self.root[class], spot, &short).map(|job| self.spot(job))
    }

    fn jobs(&self) -> impl Iterator<Item = u32> + '_ {
        self.waiting.range(0, usize::MAX).map(|job| job as u32)
    }
}
