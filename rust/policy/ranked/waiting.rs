//! Waiting jobs by key. Each demand is kept apart, so that one that does not fit is passed over whole.
//!
//! Invariant: `by_demand` has (key, job) of every waiting job among those of its demand. For example, with 2 GPUs of the
//! quota left, a walk leaves out all larger sizes without a look at their jobs.

use super::Ranking;
use crate::ds::ordered;
use crate::ids::Job;
use crate::trace::{Demand, Jobs};
use std::cmp::Ordering;
use std::collections::binary_heap::PeekMut;
use std::collections::btree_set::Range;
use std::collections::{BTreeSet, BinaryHeap};

/// Waiting jobs in order of (key, job); insert and remove cost the logarithm of their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// Demands that occur, ascending.
    demands: Vec<Demand>,
    by_demand: Vec<BTreeSet<(u64, Job)>>,
    key: Vec<u64>,
    len: usize,
    units: u64,
}

/// The number of which [`ordered`] makes these bits.
fn unordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

impl Waiting {
    pub(crate) fn new(jobs: &Jobs<'_>) -> Self {
        let demands = jobs.demands();
        let by_demand = vec![BTreeSet::new(); demands.len()];
        Self { demands, by_demand, key: vec![0; jobs.len()], len: 0, units: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What the waiting jobs ask for: GPUs, or thousandths of one where the table has shares.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    fn class(&self, demand: Demand) -> usize {
        self.demands.partition_point(|&other| other < demand)
    }

    pub(crate) fn insert(&mut self, job: Job, demand: Demand, key: f64) {
        let class = self.class(demand);
        self.key[job.index()] = ordered(key);
        self.by_demand[class].insert((self.key[job.index()], job));
        self.len += 1;
        self.units += u64::from(demand.units());
    }

    pub(crate) fn remove(&mut self, job: Job, demand: Demand) {
        let class = self.class(demand);
        if self.by_demand[class].remove(&(self.key[job.index()], job)) {
            self.len -= 1;
            self.units -= u64::from(demand.units());
        }
    }

    /// Every waiting job, by demand.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.by_demand.iter().flatten().map(|&(_, job)| job)
    }

    /// The waiting jobs in order.
    pub(crate) fn walk(&self) -> Walk<'_> {
        let lines = self.demands.iter().zip(&self.by_demand);
        Walk(lines.filter_map(|(&demand, jobs)| Line::new(demand, None, jobs.range(..))).collect())
    }

    /// The waiting jobs in order of (key, job), where numbers stand for keys. While all jobs of a span have one number,
    /// they wait in the right order by the span, and no key is asked for.
    pub(super) fn walk_by<R: Ranking>(&self, ranking: &mut R) -> Walk<'_> {
        let mut groups = Vec::new();
        for (&demand, jobs) in self.demands.iter().zip(&self.by_demand) {
            let mut from = (0, Job::new(0));
            while let Some(&(number, _)) = jobs.range(from..).next() {
                let span = ranking.span_of(unordered(number));
                groups.push((span, number, demand, jobs.range((number, Job::new(0))..=(number, Job::NONE))));
                from = (number + 1, Job::new(0));
            }
        }
        groups.sort_unstable_by_key(|group| group.1);
        let mut lines = Vec::with_capacity(groups.len());
        for of_a_span in groups.chunk_by(|a, b| a.0 == b.0) {
            let alike = of_a_span.iter().all(|group| group.1 == of_a_span[0].1);
            for &(span, number, demand, ref jobs) in of_a_span {
                let number = unordered(number);
                let (key, below) = if alike { span } else { (ranking.key_of(number), f64::NEG_INFINITY) };
                lines.extend(Line::new(demand, Some(key), jobs.clone()).map(|line| Line { number, below, ..line }));
            }
        }
        Walk(lines.into())
    }
}

/// A waiting job in its place of the ranking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    pub(crate) key: f64,
    pub(crate) job: Job,
    pub(crate) demand: Demand,
    /// The end of the span, where `key` is only the start of it.
    pub(crate) below: f64,
}

/// Jobs of one demand in order, from `head` on: its key and number.
struct Line<'a> {
    head: (u64, Job),
    demand: Demand,
    /// Whether all have the key of the head, whatever `jobs` says.
    alike: bool,
    /// What their key is made of, and the end of its span while it is not asked for.
    number: f64,
    below: f64,
    jobs: Range<'a, (u64, Job)>,
}

impl<'a> Line<'a> {
    fn new(demand: Demand, key: Option<f64>, mut jobs: Range<'a, (u64, Job)>) -> Option<Self> {
        let &(own, job) = jobs.next()?;
        let head = (key.map_or(own, ordered), job);
        Some(Self { head, demand, alike: key.is_some(), number: 0.0, below: f64::NEG_INFINITY, jobs })
    }
}

impl Ord for Line<'_> {
    /// The greatest is the first of the ranking.
    fn cmp(&self, other: &Self) -> Ordering {
        other.head.cmp(&self.head)
    }
}

impl PartialOrd for Line<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Line<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head
    }
}

impl Eq for Line<'_> {}

/// The waiting jobs in order of (key, job), with demands left out on the way.
pub(crate) struct Walk<'a>(BinaryHeap<Line<'a>>);

impl Walk<'_> {
    /// The job that comes next.
    pub(crate) fn peek(&self) -> Option<Ranked> {
        let line = self.0.peek()?;
        let (key, job) = line.head;
        Some(Ranked { key: unordered(key), job, demand: line.demand, below: line.below })
    }

    /// Asks for all keys.
    pub(super) fn settle<R: Ranking>(&mut self, ranking: &mut R) {
        let mut lines = std::mem::take(&mut self.0).into_vec();
        for line in lines.iter_mut().filter(|line| line.below > f64::NEG_INFINITY) {
            line.head.0 = ordered(ranking.key_of(line.number));
            line.below = f64::NEG_INFINITY;
        }
        self.0 = lines.into();
    }

    /// Goes on behind the job that comes next.
    pub(crate) fn pass(&mut self) {
        let Some(mut line) = self.0.peek_mut() else { return };
        match line.jobs.next() {
            Some(&(key, job)) => line.head = (if line.alike { line.head.0 } else { key }, job),
            None => {
                PeekMut::pop(line);
            }
        }
    }

    /// Leaves out the job that comes next, and all of its demand behind it.
    pub(crate) fn leave_out(&mut self) {
        self.0.pop();
    }
}
