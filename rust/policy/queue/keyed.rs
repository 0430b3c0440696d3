//! Queues jobs whose keys are known only when they arrive, and may change.
//!
//! Every class is a treap: a search tree by (tier, key, job) that is balanced by random priorities. Invariant:
//! `least` of a job is the least estimate in its subtree, so that the first job with a short enough estimate is found
//! by descending. For example, with the keys 3, 1, 2 of jobs 0, 1, 2 the queue is 1, 2, 0.

use super::waiting_queue::WaitingQueue;
use crate::ds::{OrderedBits, ordered, packed, unpacked};
use crate::ids::Job;
use crate::options::Discipline;
use crate::rng::SplitMix64;
use crate::setting::Setting;
use std::ops::Range;

/// The queue. Insert, remove and every search cost the logarithm of the class's size. `ASKED`: whether keys come from
/// outside.
#[derive(Clone, Debug)]
pub(crate) struct KeyedQueue<const ASKED: bool> {
    /// The treap of each demand, ascending; of all jobs under a strict queue.
    root: Vec<Job>,
    waiting: OrderedBits,
    promoted: OrderedBits,
    // By job.
    key: Vec<u64>,
    /// Present where priorities differ.
    tier: Vec<u32>,
    class: Vec<u32>,
    left: Vec<Job>,
    right: Vec<Job>,
    /// Estimates of the jobs, and the least in each subtree (EASY only).
    estimate: Vec<f64>,
    least: Vec<f64>,
}

/// Returns the number of classes of jobs that can be placed, or not, together, and each job's class.
fn classes(setting: &Setting<'_>) -> (usize, Vec<u32>) {
    fn numbered<K: Copy + Ord>(n: usize, of: impl Fn(Job) -> K, mut all: Vec<K>) -> (usize, Vec<u32>) {
        all.sort_unstable();
        all.dedup();
        let class = |job| all.partition_point(|&other| other < of(Job::at(job))) as u32;
        (all.len().max(1), (0..n).map(class).collect())
    }
    let n = setting.jobs.len();
    if setting.has_standing() {
        let all = (0..n).map(|job| setting.class_of(Job::at(job))).collect();
        numbered(n, |job| setting.class_of(job), all)
    } else {
        numbered(n, |job| setting.jobs.demand(job), setting.jobs.demands())
    }
}

/// (tier, key, job), packed in the order in which jobs rank.
type Spot = u128;

impl<const ASKED: bool> KeyedQueue<ASKED> {
    fn spot(&self, job: Job) -> Spot {
        let tier = self.tier.get(job.index()).copied().unwrap_or(0);
        packed(tier, self.key[job.index()], job.number())
    }

    fn priority(job: Job) -> u64 {
        SplitMix64::new(u64::from(job.number())).next_u64()
    }

    /// Recomputes the least estimate of a subtree from those of its children.
    fn renew(&mut self, node: Job) {
        if self.estimate.is_empty() {
            return;
        }
        let j = node.index();
        let of = |child: Job| self.least.get(child.index()).copied().unwrap_or(f64::INFINITY);
        self.least[j] = self.estimate[j].min(of(self.left[j])).min(of(self.right[j]));
    }

    /// Splits a subtree into what ranks before `spot` and the rest.
    fn split(&mut self, node: Job, spot: Spot) -> (Job, Job) {
        if node == Job::NONE {
            return (Job::NONE, Job::NONE);
        }
        if self.spot(node) < spot {
            let (before, rest) = self.split(self.right[node.index()], spot);
            self.right[node.index()] = before;
            self.renew(node);
            (node, rest)
        } else {
            let (before, rest) = self.split(self.left[node.index()], spot);
            self.left[node.index()] = rest;
            self.renew(node);
            (before, node)
        }
    }

    /// Joins two subtrees, where all of the first rank before all of the second.
    fn join(&mut self, a: Job, b: Job) -> Job {
        if a == Job::NONE || b == Job::NONE {
            return if a == Job::NONE { b } else { a };
        }
        if Self::priority(a) > Self::priority(b) {
            self.right[a.index()] = self.join(self.right[a.index()], b);
            self.renew(a);
            a
        } else {
            self.left[b.index()] = self.join(a, self.left[b.index()]);
            self.renew(b);
            b
        }
    }

    fn insert(&mut self, job: Job, key: f64) {
        self.key[job.index()] = ordered(key);
        self.put(job);
    }

    /// Inserts a job by its key.
    fn put(&mut self, job: Job) {
        let j = job.index();
        (self.left[j], self.right[j]) = (Job::NONE, Job::NONE);
        self.renew(job);
        let class = self.class[j] as usize;
        let (before, after) = self.split(self.root[class], self.spot(job));
        let with_it = self.join(before, job);
        self.root[class] = self.join(with_it, after);
        self.waiting.insert(j);
    }

    /// Returns the first job of a subtree that ranks after `spot` and whose estimate passes `short`.
    fn search(&self, node: Job, spot: Spot, short: &dyn Fn(f64) -> bool) -> Option<Job> {
        if node == Job::NONE || !short(self.least[node.index()]) {
            return None;
        }
        let j = node.index();
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

impl<const ASKED: bool> WaitingQueue for KeyedQueue<ASKED> {
    const ASKED: bool = ASKED;
    type Spot = Spot;

    fn new(setting: &Setting<'_>, _estimate: &dyn Fn(Job) -> f64) -> Self {
        let (jobs, queue) = (&setting.jobs, setting.options.queue);
        let n = jobs.len();
        let strict = queue == Discipline::Strict && setting.side.quotas.is_none();
        let (count, class) = if strict { (1, vec![0; n]) } else { classes(setting) };
        let read = if setting.reads_estimates() { n } else { 0 };
        Self {
            class,
            root: vec![Job::NONE; count],
            waiting: OrderedBits::new(n),
            promoted: OrderedBits::new(if setting.options.aging.is_some() { n } else { 0 }),
            key: vec![0; n],
            tier: jobs.priority.map_or_else(Vec::new, |_| (0..n).map(|job| jobs.tier(job)).collect()),
            left: vec![Job::NONE; n],
            right: vec![Job::NONE; n],
            estimate: vec![f64::INFINITY; read],
            least: vec![f64::INFINITY; read],
        }
    }

    fn push(&mut self, job: Job, key: f64, estimate: impl FnOnce() -> f64) {
        if let Some(own) = self.estimate.get_mut(job.index()) {
            *own = estimate();
        }
        self.insert(job, key);
    }

    fn push_back(&mut self, job: Job, estimate: impl FnOnce() -> f64) {
        if let Some(own) = self.estimate.get_mut(job.index()) {
            *own = estimate();
        }
        self.put(job);
    }

    fn remove(&mut self, job: Job) {
        let class = self.class[job.index()] as usize;
        let spot = self.spot(job);
        let (before, rest) = self.split(self.root[class], spot);
        // The next job number gives the first spot after it, since numbers stay below that of `NONE`.
        let (_, after) = self.split(rest, spot + 1);
        self.root[class] = self.join(before, after);
        self.waiting.remove(job.index());
    }

    fn promote(&mut self, job: Job) {
        self.remove(job);
        if let Some(tier) = self.tier.get_mut(job.index()) {
            *tier = 0;
        }
        self.promoted.insert(job.index());
        self.insert(job, f64::NEG_INFINITY);
    }

    fn is_promoted(&self, job: Job) -> bool {
        self.promoted.contains(job.index())
    }

    fn has(&self, job: Job) -> bool {
        self.waiting.contains(job.index())
    }

    fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn classes(&self) -> usize {
        self.root.len()
    }

    fn job_at(&self, spot: Spot) -> Job {
        Job::new(unpacked(spot).2)
    }

    fn first(&self, class: usize) -> Option<Spot> {
        let mut at = self.root[class];
        if at == Job::NONE {
            return None;
        }
        while self.left[at.index()] != Job::NONE {
            at = self.left[at.index()];
        }
        Some(self.spot(at))
    }

    fn next(&self, class: usize, spot: Spot) -> Option<Spot> {
        self.next_behind(class, spot)
    }

    fn next_behind(&self, class: usize, spot: Spot) -> Option<Spot> {
        let (mut at, mut found) = (self.root[class], None);
        while at != Job::NONE {
            let own = self.spot(at);
            if own > spot {
                found = Some(own);
                at = self.left[at.index()];
            } else {
                at = self.right[at.index()];
            }
        }
        found
    }

    fn next_short(&self, class: usize, spot: Spot, short: impl Fn(f64) -> bool) -> Option<Spot> {
        // An empty place has an infinite estimate, which a test without a bound would pass.
        let short = |estimate: f64| estimate < f64::INFINITY && short(estimate);
        self.search(self.root[class], spot, &short).map(|job| self.spot(job))
    }

    fn short_class(&self, mut classes: Range<usize>, short: impl Fn(f64) -> bool) -> Option<usize> {
        classes.find(|&class| self.least.get(self.root[class].index()).is_some_and(|&least| short(least)))
    }

    fn class_of(&self, job: Job) -> usize {
        self.class[job.index()] as usize
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.waiting.all().map(Job::at)
    }
}
