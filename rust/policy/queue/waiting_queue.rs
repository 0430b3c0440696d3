//! Keeps waiting jobs in queue order. Where a discipline tries more than the head, jobs that ask for different sizes,
//! or GPU types, are in separate classes, so that a demand that cannot be placed is passed over as a whole.
//!
//! This file has queues whose order is known from the start, so that every job has its place and the queue is a set
//! of occupied places. Invariant: inside a class, places ascend as jobs rank. For example, three jobs of 4, 1 and 4
//! GPUs under fifo have the classes (1) and (0, 2); under a strict queue there is one class, (0, 1, 2).
//!
//! Jobs that have waited too long (aging) go before all others, by fifo. They have their own places and classes, in
//! front of the others.

use crate::ds::{Minima, OrderedBits, ordered};
use crate::ids::Job;
use crate::options::{Discipline, Order};
use crate::setting::Setting;
use std::ops::Range;

/// A queue of waiting jobs.
pub(crate) trait WaitingQueue: Clone + Send {
    /// A job's position. Spots compare as jobs rank, also across classes.
    type Spot: Copy + Ord + Send + std::fmt::Debug;

    /// Whether the keys of arriving jobs come from outside.
    const ASKED: bool = false;

    /// Whether the order differs from pass to pass: then spots are valid for one pass, and there are several classes
    /// even under a strict queue.
    const RENEWS: bool = false;

    /// Creates an empty queue. `estimate`: rho_j of a job, s.
    fn new(setting: &Setting<'_>, estimate: &dyn Fn(Job) -> f64) -> Self;

    /// Adds a job. `key`: its key, least first, where the queue goes by keys. `estimate`, s, is called only where the
    /// discipline reads it.
    fn push(&mut self, job: Job, key: f64, estimate: impl FnOnce() -> f64);

    /// Lets a job wait again at its old place.
    fn push_back(&mut self, job: Job, estimate: impl FnOnce() -> f64);

    fn remove(&mut self, job: Job);

    /// Puts a waiting job ahead of all that are not promoted; promoted jobs go by fifo.
    fn promote(&mut self, job: Job);

    /// Begins a pass, at so many seconds (`RENEWS` only).
    fn renew(&mut self, _now: f64) {}

    /// Announces that a pass asks for spots of all classes and needs no more firsts reported (`RENEWS` only).
    fn look_at_all(&mut self) {}

    /// Records that a stay of a job of so many units begins, or ends, at so many seconds (`RENEWS` only).
    fn hold(&mut self, _job: Job, _units: u32, _begins: bool, _now: f64) {}

    /// Returns whether a waiting job is promoted.
    fn is_promoted(&self, job: Job) -> bool;

    /// Returns whether a job that has arrived waits.
    fn has(&self, job: Job) -> bool;

    /// Returns the head of the queue (strict queues only: there is one class).
    fn first_of_all(&self) -> Option<Self::Spot> {
        self.first(0)
    }

    fn is_empty(&self) -> bool;

    /// Returns the number of classes; one under a strict queue, unless the queue `RENEWS`.
    fn classes(&self) -> usize;

    fn job_at(&self, spot: Self::Spot) -> Job;

    /// Returns the first of a class.
    fn first(&self, class: usize) -> Option<Self::Spot>;

    /// Reports the firsts of some classes not reported since `renew`: in the end of all, but of none that has no job
    /// before `spot`. Returns whether there were any (`RENEWS` only).
    fn firsts_before(&mut self, _spot: Option<Self::Spot>, _tell: impl FnMut(usize, Option<Self::Spot>)) -> bool {
        false
    }

    /// Returns the next of a class behind a spot of that class.
    fn next(&self, class: usize, spot: Self::Spot) -> Option<Self::Spot>;

    /// Returns the first of a class that ranks behind a spot of any class.
    fn next_behind(&self, class: usize, spot: Self::Spot) -> Option<Self::Spot>;

    /// Returns the first of a class that ranks behind a spot of any class and whose estimate passes `short` (where
    /// estimates are read).
    fn next_short(&self, class: usize, spot: Self::Spot, short: impl Fn(f64) -> bool) -> Option<Self::Spot>;

    /// Returns the first of some classes that has a job whose estimate passes `short` (where estimates are read).
    fn short_class(&self, classes: Range<usize>, short: impl Fn(f64) -> bool) -> Option<usize>;

    /// Returns the class of a job that has arrived.
    fn class_of(&self, job: Job) -> usize;

    /// Returns every waiting job.
    fn jobs(&self) -> impl Iterator<Item = Job> + '_;

    /// Returns every waiting job, in order.
    fn in_order(&self) -> Vec<Job> {
        let of = |class| std::iter::successors(self.first(class), move |&spot| self.next(class, spot));
        let mut spots: Vec<_> = (0..self.classes()).flat_map(of).collect();
        spots.sort_unstable();
        spots.into_iter().map(|spot| self.job_at(spot)).collect()
    }
}

/// A queue with a place for every job: insert, remove and "first" cost log64(jobs).
#[derive(Clone, Debug)]
pub(crate) struct FixedQueue {
    /// Each job's place among those that are not promoted; empty when it is the job's own number.
    place: Vec<u32>,
    /// The job of each such place; empty when it is the place's own number.
    job: Vec<Job>,
    /// Whether places are in queue order: all jobs are of one class.
    places_are_ranks: bool,
    /// The queue rank of the job of each such place; empty when it is the job's number, or when places are ranks.
    rank: Vec<u32>,
    /// The class of each job among the classes of jobs that are not promoted; empty when there is one.
    class: Vec<u32>,
    /// First place of each class, and the end. Classes of promoted jobs come first.
    pub(super) first: Vec<u32>,
    pub(super) occupied: OrderedBits,
    waiting: usize,
    /// Estimates of the waiting jobs by place (where estimates are read).
    pub(super) short: Option<Minima>,
    promoted: Option<Promoted>,
}

/// Places of the jobs that have waited too long; they are the first places of the queue.
#[derive(Clone, Debug)]
struct Promoted {
    /// As in [`FixedQueue`].
    place: Vec<u32>,
    job: Vec<Job>,
    /// The promoted jobs.
    members: OrderedBits,
}

impl FixedQueue {
    /// Returns the number of places before those of the jobs that are not promoted.
    #[inline]
    pub(super) fn base(&self) -> usize {
        self.first[self.first.len() - 1] as usize - self.jobs_in_all()
    }

    #[inline]
    fn jobs_in_all(&self) -> usize {
        let places = self.first[self.first.len() - 1] as usize;
        if self.promoted.is_some() { places / 2 } else { places }
    }

    #[inline(always)]
    pub(super) fn place_of(&self, job: Job) -> usize {
        if let Some(promoted) = &self.promoted {
            if promoted.members.contains(job.index()) {
                return promoted.place.get(job.index()).map_or(job.index(), |&place| place as usize);
            }
            return self.base() + self.place.get(job.index()).map_or(job.index(), |&place| place as usize);
        }
        self.place.get(job.index()).map_or(job.index(), |&place| place as usize)
    }

    #[inline(always)]
    pub(super) fn job_of(&self, place: usize) -> Job {
        let mut place = place;
        if let Some(promoted) = &self.promoted {
            let base = self.base();
            if place < base {
                return promoted.job.get(place).copied().unwrap_or(Job::at(place));
            }
            place -= base;
        }
        self.job.get(place).copied().unwrap_or(Job::at(place))
    }

    /// Returns the rank of the job of a place.
    #[inline(always)]
    fn rank_of(&self, place: usize) -> u32 {
        if self.places_are_ranks {
            return place as u32;
        }
        let base = if self.promoted.is_some() { self.base() } else { 0 };
        if place < base {
            return self.job_of(place).number();
        }
        let rank = self.rank.get(place - base).copied();
        base as u32 + rank.unwrap_or_else(|| self.job_of(place).number())
    }

    pub(super) fn places_of(&self, class: usize) -> Range<usize> {
        self.first[class] as usize..self.first[class + 1] as usize
    }

    /// Returns the class of a place.
    fn class_at(&self, place: usize) -> usize {
        self.first.partition_point(|&first| first as usize <= place) - 1
    }

    #[inline(always)]
    fn spot(&self, class: usize, place: Option<usize>) -> Option<(u32, u32)> {
        let place = place.filter(|&place| place < self.first[class + 1] as usize)?;
        Some((self.rank_of(place), place as u32))
    }

    #[inline(always)]
    fn from(&self, class: usize, place: usize) -> Option<(u32, u32)> {
        self.spot(class, self.occupied.next(place.max(self.first[class] as usize)))
    }
}

impl WaitingQueue for FixedQueue {
    /// (rank, place).
    type Spot = (u32, u32);

    fn new(setting: &Setting<'_>, estimate: &dyn Fn(Job) -> f64) -> Self {
        let (jobs, options) = (&setting.jobs, setting.options);
        let n = jobs.len();
        let strict = options.queue == Discipline::Strict && setting.side.quotas.is_none() && setting.fair.is_none();
        // Jobs are numbered in order of (priority down, submit_time, row), which is fifo.
        let ordered: Option<Vec<Job>> = match options.order {
            // QSSF's order and that of fair shares are not known from the start: they have other queues.
            Order::Fifo | Order::Qssf | Order::Fairshare => None,
            Order::Column => {
                let key = |j: Job| ordered(setting.key.map_or(0.0, |key| key[j.index()]));
                let mut keyed: Vec<(u64, Job)> = (0..n).map(Job::at).map(|j| (key(j), j)).collect();
                keyed.sort_unstable();
                Some(keyed.into_iter().map(|(_, j)| j).collect())
            }
            Order::Sjf => {
                let key = |j: Job| setting.prediction(j).unwrap_or_else(|| estimate(j));
                let mut keyed: Vec<(u64, Job)> = (0..n).map(Job::at).map(|j| (key(j).to_bits(), j)).collect();
                // Estimates are not negative, so their bits sort as they do.
                keyed.sort_unstable();
                Some(keyed.into_iter().map(|(_, j)| j).collect())
            }
            Order::Smallest => Some(Grouped::new(n, |j| jobs.num_gpus[j.index()], None).job),
        };
        let ordered = ordered.map(|mut order| {
            if jobs.priority.is_some() {
                order.sort_by_key(|job| jobs.tier(job.index()));
            }
            order
        });
        let Grouped { job, rank, mut first, class } = if strict {
            let (rank, class) = Default::default();
            Grouped { job: ordered.unwrap_or_default(), rank, first: vec![0, n as u32], class }
        } else {
            classes(setting, ordered.as_deref())
        };
        let promoted = options.aging.is_some().then(|| {
            let Grouped { job, first: fifo, .. } = if strict { Grouped::default() } else { classes(setting, None) };
            let behind: Vec<u32> = first.iter().skip(1).map(|&place| place + n as u32).collect();
            first = if strict { vec![0, 2 * n as u32] } else { fifo.into_iter().chain(behind).collect() };
            Promoted { place: inverse(&job), job, members: OrderedBits::new(n) }
        });
        let places = if promoted.is_some() { 2 * n } else { n };
        Self {
            place: inverse(&job),
            job,
            places_are_ranks: strict,
            rank,
            class,
            first,
            occupied: OrderedBits::new(places),
            waiting: 0,
            short: setting.reads_estimates().then(|| Minima::new(places)),
            promoted,
        }
    }

    #[inline]
    fn push(&mut self, job: Job, _key: f64, estimate: impl FnOnce() -> f64) {
        self.push_back(job, estimate);
    }

    #[inline]
    fn push_back(&mut self, job: Job, estimate: impl FnOnce() -> f64) {
        let place = self.place_of(job);
        self.occupied.insert(place);
        self.waiting += 1;
        if let Some(short) = &mut self.short {
            short.set(place, estimate());
        }
    }

    #[inline]
    fn remove(&mut self, job: Job) {
        let place = self.place_of(job);
        self.occupied.remove(place);
        self.waiting -= 1;
        if let Some(short) = &mut self.short {
            short.set(place, f64::INFINITY);
        }
    }

    fn promote(&mut self, job: Job) {
        let estimate = self.short.as_ref().map_or(0.0, |short| short.get(self.place_of(job)));
        self.remove(job);
        if let Some(promoted) = &mut self.promoted {
            promoted.members.insert(job.index());
        }
        self.push(job, 0.0, || estimate);
    }

    fn is_promoted(&self, job: Job) -> bool {
        self.promoted.as_ref().is_some_and(|promoted| promoted.members.contains(job.index()))
    }

    fn has(&self, job: Job) -> bool {
        let place = self.place_of(job);
        self.occupied.contains(place)
    }

    #[inline]
    fn first_of_all(&self) -> Option<(u32, u32)> {
        // Places are ranks: there is one class.
        self.occupied.next(0).map(|place| (place as u32, place as u32))
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    #[inline]
    fn classes(&self) -> usize {
        self.first.len() - 1
    }

    #[inline]
    fn job_at(&self, spot: (u32, u32)) -> Job {
        self.job_of(spot.1 as usize)
    }

    #[inline]
    fn first(&self, class: usize) -> Option<(u32, u32)> {
        self.from(class, 0)
    }

    #[inline]
    fn next(&self, class: usize, spot: (u32, u32)) -> Option<(u32, u32)> {
        self.from(class, spot.1 as usize + 1)
    }

    fn next_behind(&self, class: usize, spot: (u32, u32)) -> Option<(u32, u32)> {
        let (mut low, mut high) = (self.first[class] as usize, self.first[class + 1] as usize);
        while low < high {
            let middle = low.midpoint(high);
            if self.rank_of(middle) <= spot.0 {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.from(class, low)
    }

    fn next_short(&self, class: usize, spot: (u32, u32), short: impl Fn(f64) -> bool) -> Option<(u32, u32)> {
        let Range { start, end } = self.places_of(class);
        let estimates = self.short.as_ref()?;
        let place = spot.1 as usize;
        if (start..end).contains(&place) {
            return self.spot(class, estimates.next(place + 1, end, short));
        }
        let first = self.spot(class, estimates.next(start, end, &short))?;
        if first.0 > spot.0 {
            return Some(first);
        }
        let (_, behind) = self.next_behind(class, spot)?;
        self.spot(class, estimates.next(behind as usize, end, short))
    }

    fn short_class(&self, classes: Range<usize>, short: impl Fn(f64) -> bool) -> Option<usize> {
        let (from, to) = (self.first[classes.start] as usize, self.first[classes.end] as usize);
        self.short.as_ref()?.next(from, to, short).map(|place| self.class_at(place))
    }

    fn class_of(&self, job: Job) -> usize {
        let class = self.class.get(job.index()).map_or(0, |&class| class as usize);
        // The classes of promoted jobs come first and are as many.
        let is_behind = self.promoted.as_ref().is_some_and(|promoted| !promoted.members.contains(job.index()));
        if is_behind { class + self.classes() / 2 } else { class }
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.occupied.all().map(|place| self.job_of(place))
    }
}

/// Returns the jobs grouped by what decides which of them can be placed, or not, together.
fn classes(setting: &Setting<'_>, ordered: Option<&[Job]>) -> Grouped {
    let n = setting.jobs.len();
    if let Some(fair) = setting.fair {
        let owners = fair.users.map_or(fair.owner, |users| users.user);
        let owner = |job: Job| owners[job.index()];
        if setting.side.quotas.is_some() {
            Grouped::new(n, |job| (setting.class_of(job), owner(job)), ordered)
        } else if setting.has_standing() {
            Grouped::new(n, |job| (owner(job), setting.class_of(job)), ordered)
        } else if setting.options.queue == Discipline::Strict {
            Grouped::new(n, owner, ordered)
        } else {
            Grouped::new(n, |job| (owner(job), setting.jobs.demand(job)), ordered)
        }
    } else if setting.has_standing() {
        Grouped::new(n, |job| setting.class_of(job), ordered)
    } else {
        Grouped::new(n, |job| setting.jobs.demand(job), ordered)
    }
}

/// Jobs by group.
#[derive(Default)]
struct Grouped {
    job: Vec<Job>,
    /// Each job's position in the given order; empty when it is the job's own number.
    rank: Vec<u32>,
    /// Where each group begins, and the end.
    first: Vec<u32>,
    /// The group of each job.
    class: Vec<u32>,
}

impl Grouped {
    /// Groups jobs by what `of` returns, ascending, in the given order inside a group.
    fn new<K: Copy + Ord>(n: usize, of: impl Fn(Job) -> K, ordered: Option<&[Job]>) -> Self {
        let mut groups: Vec<K> = (0..n).map(Job::at).map(&of).collect();
        groups.sort_unstable();
        groups.dedup();
        let class_of = |job: Job| groups.partition_point(|&other| other < of(job)) as u32;
        let class: Vec<u32> = (0..n).map(Job::at).map(class_of).collect();
        let mut first = vec![0u32; groups.len() + 1];
        for &class in &class {
            first[class as usize + 1] += 1;
        }
        for c in 1..first.len() {
            first[c] += first[c - 1];
        }
        let mut next = first.clone();
        let mut job = vec![Job::NONE; n];
        let mut rank = vec![0; ordered.map_or(0, <[Job]>::len)];
        for i in 0..n {
            let j = ordered.map_or(Job::at(i), |o| o[i]);
            let at = &mut next[class[j.index()] as usize];
            job[*at as usize] = j;
            if let Some(rank) = rank.get_mut(*at as usize) {
                *rank = i as u32;
            }
            *at += 1;
        }
        Self { job, rank, first, class }
    }
}

/// Returns the place of each job.
fn inverse(order: &[Job]) -> Vec<u32> {
    let mut inverse = vec![0; order.len()];
    for (i, &j) in order.iter().enumerate() {
        inverse[j.index()] = i as u32;
    }
    inverse
}
