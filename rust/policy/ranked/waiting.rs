//! Keeps waiting jobs by priority and key. Each demand of a priority is separate, so that one that does not fit is
//! passed over as a whole.
//!
//! Invariant: `by_class` has (key, tie, job) of every waiting job among those of its class. For example, with 2 GPUs
//! of the quota left, a walk leaves out all larger sizes without examining their jobs.

use super::{Place, Ranking};
use crate::ds::{ordered, packed, unordered, unpacked};
use crate::ids::Job;
use crate::trace::{Demand, Jobs};
use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::btree_set::Range;
use std::collections::{BTreeSet, BinaryHeap};

/// A tier, and what a job asks for, packed.
type Class = u128;

/// (key in order of its bits, tie, job) of waiting jobs of one class.
type Keyed<T> = BTreeSet<(u64, T, Job)>;

/// Waiting jobs in order of (tier, key, tie, job); insert and remove cost the logarithm of their number.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting<T> {
    /// Classes that occur, ascending, and what their jobs ask for.
    classes: Vec<Class>,
    demands: Vec<Demand>,
    by_class: Vec<Keyed<T>>,
    key: Vec<u64>,
    tie: Vec<T>,
    len: usize,
    units: u64,
}

#[inline(always)]
fn class_of(jobs: &Jobs<'_>, job: Job) -> Class {
    packed(jobs.tier(job.index()), jobs.demand(job).bits(), 0)
}

impl<T: Copy + Default + Ord> Waiting<T> {
    pub(super) fn new(jobs: &Jobs<'_>) -> Self {
        let mut classes: Vec<(Class, Demand)> = match jobs.priority {
            None => jobs.demands().into_iter().map(|demand| (packed(0, demand.bits(), 0), demand)).collect(),
            Some(_) => (0..jobs.len()).map(Job::at).map(|job| (class_of(jobs, job), jobs.demand(job))).collect(),
        };
        classes.sort_unstable();
        classes.dedup();
        let by_class = vec![BTreeSet::new(); classes.len()];
        let (classes, demands) = classes.into_iter().unzip();
        Self {
            classes,
            demands,
            by_class,
            key: vec![0; jobs.len()],
            tie: vec![T::default(); jobs.len()],
            len: 0,
            units: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns what the waiting jobs ask for: GPUs, or thousandths of one where the table has shares.
    pub(super) fn units(&self) -> u64 {
        self.units
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, jobs: &Jobs<'_>, job: Job, key: f64, tie: T) {
        let class = class_of(jobs, job);
        self.key[job.index()] = ordered(key);
        self.tie[job.index()] = tie;
        self.by_class[self.classes.partition_point(|&other| other < class)].insert((self.key[job.index()], tie, job));
        self.len += 1;
        self.units += u64::from(jobs.units(job.index()));
    }

    pub(super) fn remove(&mut self, jobs: &Jobs<'_>, job: Job) {
        let class = class_of(jobs, job);
        let at = self.classes.partition_point(|&other| other < class);
        if self.by_class[at].remove(&(self.key[job.index()], self.tie[job.index()], job)) {
            self.len -= 1;
            self.units -= u64::from(jobs.units(job.index()));
        }
    }

    /// Returns the key of a waiting job, or the number from which it is computed.
    pub(super) fn key_of(&self, job: Job) -> f64 {
        unordered(self.key[job.index()])
    }

    /// Returns every waiting job, by class.
    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.by_class.iter().flatten().map(|&(.., job)| job)
    }

    /// Returns tier and demand of every class, and its jobs.
    fn queues(&self) -> impl Iterator<Item = ((u32, Demand), &Keyed<T>)> {
        let classes = self.classes.iter().zip(&self.demands).map(|(&class, &demand)| (unpacked(class).0, demand));
        classes.zip(&self.by_class)
    }

    /// Returns the waiting jobs in order.
    pub(super) fn walk(&self) -> Walk<'_, T> {
        // Every pass makes one: it is given room for all classes, and never grows.
        let mut queues = Vec::with_capacity(self.classes.len());
        queues.extend(self.queues().filter_map(|(class, jobs)| ClassQueue::new(class, None, jobs.range(..))));
        Walk(queues.into())
    }

    /// Returns the waiting jobs in order of (tier, key, tie, job), where numbers stand for keys. While all jobs of a
    /// span have one number, the span alone puts them in the right order, and no key is computed.
    pub(super) fn walk_by<R: Ranking>(&self, ranking: &mut R) -> Walk<'_, T> {
        let mut groups = Vec::new();
        for (class, jobs) in self.queues() {
            let begin = |number: u64| (number, T::default(), Job::new(0));
            let mut from = begin(0);
            while let Some(&(number, ..)) = jobs.range(from..).next() {
                let span = ranking.span_of(unordered(number));
                from = begin(number + 1);
                groups.push((span, number, class, jobs.range(begin(number)..from)));
            }
        }
        groups.sort_unstable_by_key(|group| group.1);
        let mut queues = Vec::with_capacity(groups.len());
        for of_a_span in groups.chunk_by(|a, b| a.0 == b.0) {
            let alike = of_a_span.iter().all(|group| group.1 == of_a_span[0].1);
            for &(span, number, class, ref jobs) in of_a_span {
                let number = unordered(number);
                let (key, below) = if alike { span } else { (ranking.key_of(number), f64::NEG_INFINITY) };
                queues.extend(ClassQueue::new(class, Some(key), jobs.clone()).map(|queue| ClassQueue {
                    number,
                    below,
                    ..queue
                }));
            }
        }
        Walk(queues.into())
    }
}

/// A waiting job at its place in the ranking.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked<T> {
    pub(super) tier: u32,
    pub(super) key: f64,
    tie: T,
    pub(super) job: Job,
    pub(super) demand: Demand,
    /// The end of the span, where `key` is only the start of it.
    pub(super) below: f64,
}

impl<T: Copy> Ranked<T> {
    pub(super) fn place(&self) -> Place<T> {
        (self.tier, self.key, self.tie, self.job)
    }
}

/// Jobs of one class in order, from `head` on: its (tier, key, number), packed, and its tie.
struct ClassQueue<'a, T> {
    head: u128,
    tie: T,
    demand: Demand,
    /// Whether all have the key of the head, whatever `jobs` says.
    alike: bool,
    /// The number from which their key is computed, and the end of its span while the key is not computed.
    number: f64,
    below: f64,
    jobs: Range<'a, (u64, T, Job)>,
}

impl<'a, T: Copy> ClassQueue<'a, T> {
    fn new((tier, demand): (u32, Demand), key: Option<f64>, mut jobs: Range<'a, (u64, T, Job)>) -> Option<Self> {
        let &(own, tie, job) = jobs.next()?;
        let head = packed(tier, key.map_or(own, ordered), job.number());
        Some(Self { head, tie, demand, alike: key.is_some(), number: 0.0, below: f64::NEG_INFINITY, jobs })
    }
}

impl<T: Ord> Ord for ClassQueue<'_, T> {
    /// The greatest is the first of the ranking.
    fn cmp(&self, other: &Self) -> Ordering {
        if size_of::<T>() == 0 {
            return other.head.cmp(&self.head);
        }
        let key = (other.head >> u32::BITS).cmp(&(self.head >> u32::BITS));
        key.then_with(|| other.tie.cmp(&self.tie)).then_with(|| other.head.cmp(&self.head))
    }
}

impl<T: Ord> PartialOrd for ClassQueue<'_, T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> PartialEq for ClassQueue<'_, T> {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
    }
}

impl<T: Ord> Eq for ClassQueue<'_, T> {}

/// The waiting jobs in order of (tier, key, tie, job), with classes left out on the way.
pub(super) struct Walk<'a, T>(BinaryHeap<ClassQueue<'a, T>>);

impl<T: Copy + Ord> Walk<'_, T> {
    /// Returns the next job.
    pub(super) fn peek(&self) -> Option<Ranked<T>> {
        let queue = self.0.peek()?;
        let (tier, key, job) = unpacked(queue.head);
        let (key, job) = (unordered(key), Job::new(job));
        Some(Ranked { tier, key, tie: queue.tie, job, demand: queue.demand, below: queue.below })
    }

    /// Computes all keys.
    pub(super) fn settle<R: Ranking>(&mut self, ranking: &mut R) {
        let mut queues = std::mem::take(&mut self.0).into_vec();
        for queue in queues.iter_mut().filter(|queue| queue.below > f64::NEG_INFINITY) {
            let (tier, _, job) = unpacked(queue.head);
            queue.head = packed(tier, ordered(ranking.key_of(queue.number)), job);
            queue.below = f64::NEG_INFINITY;
        }
        self.0 = queues.into();
    }

    /// Continues behind the next job.
    pub(super) fn pass(&mut self) {
        let Some(mut queue) = self.0.peek_mut() else { return };
        match queue.jobs.next() {
            Some(&(key, tie, job)) => {
                let (tier, own, _) = unpacked(queue.head);
                queue.head = packed(tier, if queue.alike { own } else { key }, job.number());
                queue.tie = tie;
            }
            None => {
                PeekMut::pop(queue);
            }
        }
    }

    /// Leaves out the next job, and all of its class behind it.
    pub(super) fn leave_out(&mut self) {
        self.0.pop();
    }
}
