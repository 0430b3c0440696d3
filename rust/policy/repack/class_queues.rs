//! Keeps the waiting jobs in the order of their keys, by class, and walks through them.
//!
//! All jobs of a class ask for the same number of GPUs. Either the class has a key, or each of its jobs has its own.
//! A walk merges the classes. It leaves aside those whose size has failed, and counts their GPUs only on request.
//! Consecutive jobs of a class may be passed over at once. So a pass costs the jobs that it examines, however many
//! wait.
//!
//! Invariant: a walk returns each waiting job once, the least key first, ties by job, that is fifo. A job that joins
//! during a walk is returned in its place, if that is still ahead. For example, a job that is evicted waits behind
//! the one that it makes room for, because it has more work left.

use crate::ids::Job;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Bound;

/// Identifies a class.
pub(super) type Class = (u32, u32);

/// (bits of a key that is not negative, job): by key, ties fifo.
pub(super) type Rank = (u64, Job);

#[derive(Clone, Debug)]
struct Members {
    units: u32,
    /// Bits of the key of all jobs; 0 where each has its own, or where it is 0.
    key: u64,
    /// (bits of its own key, job); 0 where the class has one.
    jobs: BTreeSet<Rank>,
}

impl Members {
    fn rank(&self, (own, job): Rank) -> Rank {
        (self.key.max(own), job)
    }

    fn first(&self) -> Option<Rank> {
        self.jobs.first().map(|&first| self.rank(first))
    }

    fn behind(&self, (key, job): Rank) -> impl Iterator<Item = Rank> + '_ {
        let own = if self.key == 0 { key } else { 0 };
        let after = (Bound::Excluded((own, job)), Bound::Unbounded);
        self.jobs.range(after).map(|&next| self.rank(next))
    }

    fn after(&self, rank: Rank) -> Option<Rank> {
        self.behind(rank).next()
    }
}

/// The waiting jobs: a queue for each priority class, the first first. Where all jobs are of one priority class there
/// is one queue.
#[derive(Clone, Debug)]
pub(in crate::policy) struct ClassQueues {
    /// By job; empty where there is one queue.
    priority_class: Vec<u32>,
    queues: Vec<ClassQueue>,
    len: usize,
}

impl ClassQueues {
    /// priority_class: by job, less than `count`.
    pub(super) fn new(priority_class: Vec<u32>, count: usize) -> Self {
        Self { priority_class, queues: vec![ClassQueue::default(); count], len: 0 }
    }

    /// Returns the priority class of a job: the least goes first.
    #[inline]
    pub(super) fn priority_class_of(&self, job: Job) -> u32 {
        self.priority_class.get(job.index()).copied().unwrap_or(0)
    }

    /// Sets the priority class of a job that does not wait.
    pub(super) fn set_priority_class(&mut self, job: Job, priority_class: u32) {
        self.priority_class[job.index()] = priority_class;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.queues.iter().flat_map(ClassQueue::jobs)
    }

    /// Returns every waiting job, in order.
    pub(super) fn in_order(&self) -> Vec<Job> {
        let ranks = |queue: &ClassQueue| {
            let of = |members: &Members| members.jobs.iter().map(|&own| members.rank(own)).collect::<Vec<_>>();
            let mut ranks: Vec<Rank> = queue.classes.values().flat_map(of).collect();
            ranks.sort_unstable();
            ranks
        };
        self.queues.iter().flat_map(ranks).map(|rank| rank.1).collect()
    }

    /// Adds a job to a class, with its own key unless the class has one.
    pub(super) fn insert(&mut self, class: Class, units: u32, key: u64, own: Rank) {
        let at = self.priority_class_of(own.1);
        self.queues[at as usize].insert(class, units, key, own);
        self.len += 1;
    }

    pub(super) fn remove(&mut self, class: Class, own: Rank) {
        let at = self.priority_class_of(own.1);
        self.len -= usize::from(self.queues[at as usize].remove(class, own));
    }

    /// Gives the classes of a range new keys. Not during a walk.
    pub(super) fn renew(
        &mut self,
        range: impl std::ops::RangeBounds<Class> + Clone,
        mut key: impl FnMut(Class, u32) -> u64,
    ) {
        self.queues.iter_mut().for_each(|queue| queue.renew(range.clone(), &mut key));
    }

    pub(super) fn begin_walk(&mut self, priority_class: u32) {
        self.queues[priority_class as usize].begin_walk();
    }

    /// Returns the next job of the walk, except those of sizes that have failed.
    pub(super) fn next(&mut self, priority_class: u32, has_failed: impl Fn(u32) -> bool) -> Option<Rank> {
        self.queues[priority_class as usize].next(has_failed)
    }

    /// Returns how many jobs of its class directly follow the job that the walk returned last, with none between, of
    /// the walk or left aside.
    pub(super) fn alike(&mut self, priority_class: u32) -> usize {
        self.queues[priority_class as usize].alike()
    }

    /// Passes over so many of those.
    pub(super) fn pass_over(&mut self, priority_class: u32, jobs: usize) {
        self.queues[priority_class as usize].pass_over(jobs);
    }

    /// Puts the jobs left aside back into the walk, as far as it has not passed them.
    pub(super) fn call_back(&mut self, priority_class: u32) {
        self.queues[priority_class as usize].call_back();
    }

    /// Adds the GPUs of the jobs left aside that rank before one, until there are `enough`.
    pub(super) fn count_aside(&mut self, before: Rank, enough: u64, gpus: &mut u64) {
        let at = self.priority_class_of(before.1) as usize;
        for queue in &mut self.queues[..at] {
            queue.count_aside((u64::MAX, before.1), enough, gpus);
        }
        self.queues[at].count_aside(before, enough, gpus);
    }
}

/// The waiting jobs of one priority class.
#[derive(Clone, Debug, Default)]
struct ClassQueue {
    classes: BTreeMap<Class, Members>,
    /// The first of each class.
    firsts: BTreeSet<(Rank, Class)>,
    /// The walk: the latest of `firsts` that it saw, jobs that come after one of their class, and the last job that
    /// it returned, with its class.
    seen: Option<(Rank, Class)>,
    heads: BinaryHeap<Reverse<(Rank, Class)>>,
    given: Option<Rank>,
    of: Class,
    /// The next job of each class that was left aside, and the last that was counted.
    aside: BinaryHeap<Reverse<(Rank, Class)>>,
    counted: Option<Rank>,
}

impl ClassQueue {
    fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.classes.values().flat_map(|members| members.jobs.iter().map(|&(_, job)| job))
    }

    /// Adds a job to a class, with its own key unless the class has one.
    fn insert(&mut self, class: Class, units: u32, key: u64, (own, job): Rank) {
        let new = || Members { units, key, jobs: BTreeSet::new() };
        let members = self.classes.entry(class).or_insert_with(new);
        let first = members.first();
        members.jobs.insert((own, job));
        let rank = members.rank((own, job));
        if first.is_none_or(|first| rank < first) {
            if let Some(first) = first {
                self.firsts.remove(&(first, class));
                if self.given.is_some_and(|given| rank < given && given < first) {
                    self.heads.push(Reverse((first, class))); // the walk has passed the present entry
                }
            }
            self.firsts.insert((rank, class));
        }
        if self.given.is_none_or(|given| given < rank) {
            self.heads.push(Reverse((rank, class)));
        }
    }

    /// Returns whether the job was there.
    fn remove(&mut self, class: Class, (own, job): Rank) -> bool {
        let Some(members) = self.classes.get_mut(&class) else { return false };
        let rank = members.rank((own, job));
        let was = members.jobs.remove(&(own, job));
        if self.firsts.remove(&(rank, class)) {
            match members.first() {
                Some(first) => _ = self.firsts.insert((first, class)),
                None => _ = self.classes.remove(&class),
            }
        }
        was
    }

    /// Gives the classes of a range new keys. Not during a walk.
    fn renew(&mut self, range: impl std::ops::RangeBounds<Class>, key: &mut impl FnMut(Class, u32) -> u64) {
        for (&class, members) in self.classes.range_mut(range) {
            let before = members.first();
            members.key = key(class, members.units);
            if let (Some(before), Some(first)) = (before, members.first())
                && before != first
            {
                self.firsts.remove(&(before, class));
                self.firsts.insert((first, class));
            }
        }
    }

    fn begin_walk(&mut self) {
        self.seen = None;
        self.heads.clear();
        self.given = None;
        self.aside.clear();
        self.counted = None;
    }

    /// Returns the next job of the walk, except those of sizes that have failed.
    fn next(&mut self, has_failed: impl Fn(u32) -> bool) -> Option<Rank> {
        loop {
            let after = self.seen.map_or(Bound::Unbounded, Bound::Excluded);
            let first = self.firsts.range((after, Bound::Unbounded)).next().copied();
            let head = self.heads.peek().map(|head| head.0);
            let (rank, class) = match (first, head) {
                (Some(first), head) if head.is_none_or(|head| first <= head) => *self.seen.insert(first),
                _ => self.heads.pop()?.0,
            };
            if self.given.is_some_and(|given| rank <= given) {
                continue; // as a first and after another, or because it joined during the walk
            }
            let Some(members) = self.classes.get(&class) else { continue };
            if has_failed(members.units) {
                self.aside.push(Reverse((rank, class)));
                continue;
            }
            self.given = Some(rank);
            self.of = class;
            if let Some(next) = members.after(rank) {
                self.heads.push(Reverse((next, class)));
            }
            return Some(rank);
        }
    }

    fn alike(&mut self) -> usize {
        let (Some(given), Some(members)) = (self.given, self.classes.get(&self.of)) else { return 0 };
        let Some(next) = self.heads.pop() else { return 0 };
        let after = self.seen.map_or(Bound::Unbounded, Bound::Excluded);
        let first = self.firsts.range((after, Bound::Unbounded)).next().map(|first| first.0);
        let others = [first, self.heads.peek().map(|head| head.0.0), self.aside.peek().map(|aside| aside.0.0)];
        let until = others.into_iter().flatten().min().unwrap_or((u64::MAX, Job::NONE));
        self.heads.push(next);
        let is_next = next.0.1 == self.of;
        members.behind(given).take_while(|&rank| is_next && rank < until).count()
    }

    fn pass_over(&mut self, jobs: usize) {
        let (Some(given), Some(members)) = (self.given, self.classes.get(&self.of)) else { return };
        self.heads.pop();
        let mut behind = members.behind(given).skip(jobs - 1);
        self.given = behind.next();
        self.heads.extend(behind.next().map(|next| Reverse((next, self.of))));
    }

    /// Puts the jobs left aside back into the walk, as far as it has not passed them.
    fn call_back(&mut self) {
        for Reverse((first, class)) in self.aside.drain() {
            let next = match self.given {
                Some(given) if first <= given => self.classes.get(&class).and_then(|members| members.after(given)),
                _ => Some(first),
            };
            self.heads.extend(next.map(|next| Reverse((next, class))));
        }
    }

    /// Adds the GPUs of the jobs left aside that rank before one, until there are `enough`.
    fn count_aside(&mut self, before: Rank, enough: u64, gpus: &mut u64) {
        while let Some(&Reverse((rank, class))) = self.aside.peek()
            && rank < before
            && *gpus < enough
        {
            self.aside.pop();
            if self.counted.replace(rank) == Some(rank) {
                continue;
            }
            let Some(members) = self.classes.get(&class) else { continue };
            *gpus += u64::from(members.units);
            if let Some(next) = members.after(rank) {
                self.aside.push(Reverse((next, class)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ClassQueue;
    use crate::ids::Job;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn passing_over_gives_the_walk_that_looks_at_each(
            // By class: GPUs and the key of all, 0 where each job has its own; by job: its class, and its own key.
            classes in prop::collection::vec((1u32..4, 0u64..3), 1..5),
            jobs in prop::collection::vec((0usize..4, 1u64..4), 0..40),
            failed in 0u32..4, passed in prop::collection::vec(0usize..6, 40),
        ) {
            let mut queue = ClassQueue::default();
            for (job, &(class, own)) in jobs.iter().enumerate() {
                let class = class % classes.len();
                let (units, key) = classes[class];
                queue.insert((class as u32, 0), units, key, (if key == 0 { own } else { 0 }, Job::at(job)));
            }
            let has_failed = |units: u32| units == failed;
            // Counts on the way what is ahead of each job of the walk, as far as it was left aside.
            let count = |queue: &mut ClassQueue, before, gpus: &mut u64| {
                queue.count_aside(before, u64::MAX, gpus);
                *gpus
            };
            let (mut one_by_one, mut at_once) = (queue.clone(), queue);
            let (mut gpus, mut counts) = (0, Vec::new());
            one_by_one.begin_walk();
            while let Some(rank) = one_by_one.next(has_failed) {
                counts.push((rank, count(&mut one_by_one, rank, &mut gpus)));
            }
            let (mut gpus, mut at) = (0, 0);
            at_once.begin_walk();
            while let Some(rank) = at_once.next(has_failed) {
                prop_assert_eq!((rank, count(&mut at_once, rank, &mut gpus)), counts[at]);
                at += 1;
                let alike = at_once.alike();
                // No job was left aside among those that are alike.
                for &(_, ahead) in &counts[at..at + alike] {
                    prop_assert_eq!(ahead, gpus);
                }
                let over = passed[at - 1].min(alike);
                if over > 0 {
                    at_once.pass_over(over);
                    at += over;
                }
            }
            prop_assert_eq!(at, counts.len());
        }
    }
}
