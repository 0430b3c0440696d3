//! Waiting jobs by key. Each size is kept apart, so that a size that does not fit is passed over whole.

use crate::ds::ordered;
use std::collections::BTreeSet;
use std::collections::btree_set::Iter;
use std::iter::Peekable;

/// Waiting jobs in order of (key, job); insert and remove cost the logarithm of their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Waiting {
    /// Sizes that occur, GPUs, ascending.
    sizes: Vec<u32>,
    by_size: Vec<BTreeSet<(u64, u32)>>,
    key: Vec<u64>,
    len: usize,
    gpus: u64,
}

/// The number of which [`ordered`] makes these bits.
fn unordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}

impl Waiting {
    pub(crate) fn new(num_gpus: &[u32]) -> Self {
        let mut sizes = num_gpus.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let by_size = vec![BTreeSet::new(); sizes.len()];
        Self { sizes, by_size, key: vec![0; num_gpus.len()], len: 0, gpus: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// GPUs that the waiting jobs ask for.
    pub(crate) fn gpus(&self) -> u64 {
        self.gpus
    }

    fn class(&self, num_gpus: u32) -> usize {
        self.sizes.partition_point(|&s| s < num_gpus)
    }

    pub(crate) fn insert(&mut self, job: u32, num_gpus: u32, key: f64) {
        let class = self.class(num_gpus);
        self.key[job as usize] = ordered(key);
        self.by_size[class].insert((self.key[job as usize], job));
        self.len += 1;
        self.gpus += u64::from(num_gpus);
    }

    pub(crate) fn remove(&mut self, job: u32, num_gpus: u32) {
        let class = self.class(num_gpus);
        if self.by_size[class].remove(&(self.key[job as usize], job)) {
            self.len -= 1;
            self.gpus -= u64::from(num_gpus);
        }
    }

    /// Every waiting job, by size.
    pub(crate) fn jobs(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_size.iter().flatten().map(|&(_, job)| job)
    }

    /// The waiting jobs in order.
    pub(crate) fn walk(&self) -> Walk<'_> {
        let classes = self.sizes.iter().zip(&self.by_size).filter(|(_, jobs)| !jobs.is_empty());
        let mut walk =
            Walk { classes: classes.map(|(&size, jobs)| (size, jobs.iter().peekable())).collect(), next: None };
        walk.look();
        walk
    }
}

/// A waiting job in its place of the ranking.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ranked {
    pub(crate) key: f64,
    pub(crate) job: u32,
    pub(crate) num_gpus: u32,
    class: usize,
}

/// The jobs of one size: (key, job).
type InOrder<'a> = Peekable<Iter<'a, (u64, u32)>>;

/// The waiting jobs in order of (key, job), with sizes left out on the way.
pub(crate) struct Walk<'a> {
    classes: Vec<(u32, InOrder<'a>)>,
    next: Option<Ranked>,
}

impl Walk<'_> {
    fn look(&mut self) {
        let mut least: Option<((u64, u32), usize)> = None;
        for (class, (_, jobs)) in self.classes.iter_mut().enumerate() {
            if let Some(&&head) = jobs.peek()
                && least.is_none_or(|(other, _)| head < other)
            {
                least = Some((head, class));
            }
        }
        self.next = least.map(|((key, job), class)| Ranked {
            key: unordered(key),
            job,
            num_gpus: self.classes[class].0,
            class,
        });
    }

    /// The job that comes next.
    pub(crate) fn peek(&self) -> Option<Ranked> {
        self.next
    }

    /// Goes on behind the job that comes next.
    pub(crate) fn pass(&mut self) {
        if let Some(at) = self.next {
            self.classes[at.class].1.next();
            self.look();
        }
    }

    /// Leaves out the jobs still to come that ask for more than `num_gpus`.
    pub(crate) fn leave_out_above(&mut self, num_gpus: u64) {
        let before = self.classes.len();
        self.classes.retain(|&(size, _)| u64::from(size) <= num_gpus);
        if self.classes.len() < before {
            self.look();
        }
    }
}
