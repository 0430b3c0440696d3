//! Orders jobs by fair share over the past (`--order fairshare`, docs/operators-reference.md): the jobs of the owner
//! with the least recent use for its share go first. Slurm's classic fair share, 2^(-usage / share), orders them the
//! same way (<https://slurm.schedmd.com/classic_fair_share.html>).
//!
//! The order differs from pass to pass, but inside a class it never changes: all jobs of a class have one owner. So
//! the classes are those of a [`FixedQueue`], and a spot is computed from what the owner had used at the beginning of
//! the pass. Invariant: an owner's usage is the integral over its stays of the GPUs held, where a second that was
//! `half_life` seconds ago counts half. For example, with a half-life of 100 s a GPU held from 0 to 100 s counts 100
//! / ln 2 x (1 - 1/2) = 72.1 GPU-seconds at 100 s, and half of that at 200 s.
//!
//! Usage that only decays keeps its order, and holding GPUs never lowers it. So an owner that a pass examined gets a
//! bound, by which later passes know whether they must examine it again. A pass takes the owners one by one, least
//! bound first, until the next one cannot come before the current job. For example, while the owner with the least
//! usage cannot be served, a thousand others cost a strict pass nothing.
//!
//! With two levels (Slurm's Fair Tree) these owners are accounts. Among the jobs of accounts that rank equally the
//! usage of their users decides.
//!
//! A stay that begins or ends costs O(1). A pass costs the owners that it examines, log(owners) each, and their
//! classes; where jobs have priorities or are promoted by aging, it examines every owner with waiting jobs.

use super::fair_levels::{Account, Decay, Levels};
use super::waiting_queue::{FixedQueue, WaitingQueue};
use crate::ds::{EventHeap, OrderedBits, unordered};
use crate::ids::Job;
use crate::setting::Setting;
use std::ops::Range;

/// The queue. Promoted jobs have classes of their own, as in a [`FixedQueue`].
#[derive(Clone, Debug)]
pub(crate) struct FairQueue<L> {
    levels: L,
    queue: FixedQueue,
    /// The number of places, and the first one of a job that is not promoted.
    places: usize,
    base: usize,
    decay: Decay,
    // By job.
    owner: Vec<u32>,
    tier: Vec<u32>,
    // By owner.
    accounts: Vec<Account>,
    places_of: Vec<Vec<Range<usize>>>,
    waiting: Vec<u32>,
    /// Owners whose jobs wait.
    waits: OrderedBits,
    /// Usage / share at the latest pass, of the owners that it examined.
    key: Vec<Option<u64>>,
    looked_at: Vec<u32>,
    /// The other owners with waiting jobs, if the queue `is_plain`, by a bound: log2 of usage / share is at least the
    /// bound minus the halvings up to then.
    bounds: EventHeap,
    /// Whether bounds are meaningful: usage alone decides whose job is first.
    is_plain: bool,
}

/// More than rounding takes from a log2 of usage / share, in all and for each halving up to then.
const SLACK: (f64, f64) = (1e-8, 1e-14);
/// Between these neither usage nor usage / share is cut off or subnormal, if shares are such numbers.
const LOGS: (f64, f64) = (-800.0, 800.0);
const SHARES: (f64, f64) = (1e-30, 1e30);

impl<L: Levels> FairQueue<L> {
    fn owner_of(&self, job: Job) -> usize {
        self.owner[job.index()] as usize
    }

    /// Returns where an owner's jobs rank among those of their tier; a share of 0 is last.
    fn key_of(&self, owner: usize) -> u64 {
        if let Some(key) = self.key[owner] {
            return key;
        }
        self.decay.key_of(&self.accounts[owner])
    }

    fn spot_at(&self, place: usize) -> L::Spot {
        let job = self.queue.job_of(place);
        if place < self.base {
            return L::promoted(job);
        }
        let tier = self.tier.get(job.index()).copied().unwrap_or(0);
        self.levels.spot(tier, self.key_of(self.owner_of(job)), job, &self.decay)
    }

    /// Bounds an owner whose usage / share was `ratio` at that time; a share of 0 makes that NaN.
    fn bound(&mut self, owner: usize, ratio: f64, time: f64) {
        let halvings = time / self.decay.half_life;
        let log = if ratio.is_nan() { f64::INFINITY } else { ratio.log2().min(LOGS.1) };
        self.bounds.set(owner as u32, log + halvings - SLACK.0 - SLACK.1 * halvings, owner as u32);
    }

    fn look_at(&mut self, owner: u32) {
        self.bounds.remove(owner);
        self.looked_at.push(owner);
        self.key[owner as usize] = Some(self.key_of(owner as usize));
    }

    /// Reports the first job of each class among some places, if there is one.
    fn tell_firsts(&self, places: Range<usize>, mut tell: impl FnMut(usize, Option<L::Spot>)) {
        let mut at = places.start;
        while let Some(place) = self.queue.occupied.next(at).filter(|&place| place < places.end) {
            let class = self.queue.class_of(self.queue.job_of(place));
            tell(class, Some(self.spot_at(place)));
            at = self.queue.places_of(class).end;
        }
    }

    /// Returns the greatest bound of an owner whose jobs may come before a spot of this pass.
    fn reach(&self, spot: L::Spot) -> f64 {
        let log = unordered(L::read(spot).0).log2();
        if log.is_nan() || log >= LOGS.1 {
            return f64::INFINITY;
        }
        let halvings = self.decay.now / self.decay.half_life;
        log.max(LOGS.0) + halvings + SLACK.0 + SLACK.1 * halvings
    }

    fn spot(&self, class: usize, place: Option<usize>) -> Option<L::Spot> {
        place.filter(|&place| place < self.queue.places_of(class).end).map(|place| self.spot_at(place))
    }

    /// Returns the first place of a class whose job ranks behind a spot, or the end of the class.
    fn place_behind(&self, class: usize, spot: L::Spot) -> usize {
        let Range { mut start, mut end } = self.queue.places_of(class);
        while start < end {
            let middle = start.midpoint(end);
            if self.spot_at(middle) <= spot {
                start = middle + 1;
            } else {
                end = middle;
            }
        }
        start
    }
}

impl<L: Levels> WaitingQueue for FairQueue<L> {
    type Spot = L::Spot;

    const RENEWS: bool = true;

    fn new(setting: &Setting<'_>, estimate: &dyn Fn(Job) -> f64) -> Self {
        let (jobs, queue) = (&setting.jobs, FixedQueue::new(setting, estimate));
        let n = jobs.len();
        let fair = setting.fair.unwrap_or_default();
        let owners = fair.share.len();
        let is_common = |&share: &f64| share == 0.0 || (SHARES.0..=SHARES.1).contains(&share);
        let mut places_of: Vec<Vec<Range<usize>>> = vec![Vec::new(); owners];
        for class in (0..queue.classes()).map(|class| queue.places_of(class)) {
            if !class.is_empty() {
                let own = &mut places_of[fair.owner[queue.job_of(class.start).index()] as usize];
                match own.last_mut().filter(|last| last.end == class.start) {
                    Some(last) => last.end = class.end,
                    None => own.push(class),
                }
            }
        }
        let places = queue.base() + n;
        Self {
            base: queue.base(),
            is_plain: jobs.priority.is_none() && queue.base() == 0 && fair.share.iter().all(is_common),
            queue,
            levels: L::new(fair),
            decay: Decay { half_life: setting.options.half_life, per_gpu: jobs.units_per_gpu() as f64, now: 0.0 },
            owner: fair.owner.to_vec(),
            tier: jobs.priority.map_or_else(Vec::new, |_| (0..n).map(|job| jobs.tier(job)).collect()),
            accounts: Account::all(fair.share),
            places,
            places_of,
            waits: OrderedBits::new(owners),
            waiting: vec![0; owners],
            key: vec![None; owners],
            looked_at: Vec::new(),
            bounds: EventHeap::default(),
        }
    }

    fn push(&mut self, job: Job, _key: f64, estimate: impl FnOnce() -> f64) {
        self.push_back(job, estimate);
    }

    fn push_back(&mut self, job: Job, estimate: impl FnOnce() -> f64) {
        self.queue.push_back(job, estimate);
        let owner = self.owner_of(job);
        self.waiting[owner] += 1;
        if self.waiting[owner] == 1 {
            self.waits.insert(owner);
            if self.is_plain && self.key[owner].is_none() {
                let (ratio, since) = self.decay.at_last_change(&self.accounts[owner]);
                self.bound(owner, ratio, since);
            }
        }
    }

    fn remove(&mut self, job: Job) {
        self.queue.remove(job);
        let owner = self.owner_of(job);
        self.waiting[owner] -= 1;
        if self.waiting[owner] == 0 {
            self.waits.remove(owner);
            self.bounds.remove(owner as u32);
        }
    }

    fn promote(&mut self, job: Job) {
        self.queue.promote(job);
    }

    fn renew(&mut self, now: f64) {
        let mut looked_at = std::mem::take(&mut self.looked_at);
        for owner in looked_at.drain(..) {
            let owner = owner as usize;
            if let Some(key) = self.key[owner].take()
                && self.is_plain
                && self.waiting[owner] > 0
            {
                self.bound(owner, unordered(key), self.decay.now);
            }
        }
        self.looked_at = looked_at;
        self.decay.now = now;
    }

    fn look_at_all(&mut self) {
        let mut at = 0;
        while let Some(owner) = self.waits.next(at) {
            if self.key[owner].is_none() {
                self.look_at(owner as u32);
            }
            at = owner + 1;
        }
    }

    fn hold(&mut self, job: Job, units: u32, begins: bool, now: f64) {
        let owner = self.owner_of(job);
        self.accounts[owner].hold(units, begins, now, self.decay.half_life);
        self.levels.hold(job, units, begins, now, self.decay.half_life);
    }

    fn is_promoted(&self, job: Job) -> bool {
        self.queue.is_promoted(job)
    }

    fn has(&self, job: Job) -> bool {
        self.queue.has(job)
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn classes(&self) -> usize {
        self.queue.classes()
    }

    fn job_at(&self, spot: L::Spot) -> Job {
        L::read(spot).1
    }

    fn first(&self, class: usize) -> Option<L::Spot> {
        self.spot(class, self.queue.occupied.next(self.queue.places_of(class).start))
    }

    fn firsts_before(&mut self, spot: Option<L::Spot>, mut tell: impl FnMut(usize, Option<L::Spot>)) -> bool {
        if !self.is_plain {
            if !self.looked_at.is_empty() {
                return false;
            }
            self.look_at_all();
            self.tell_firsts(0..self.places, tell);
            return !self.looked_at.is_empty();
        }
        let next = self.bounds.peek().filter(|&(bound, _)| spot.is_none_or(|spot| bound <= self.reach(spot)));
        let Some((_, owner)) = next else { return false };
        self.look_at(owner);
        for places in &self.places_of[owner as usize] {
            self.tell_firsts(places.clone(), &mut tell);
        }
        true
    }

    fn next(&self, class: usize, spot: L::Spot) -> Option<L::Spot> {
        self.spot(class, self.queue.occupied.next(self.queue.place_of(self.job_at(spot)) + 1))
    }

    fn next_behind(&self, class: usize, spot: L::Spot) -> Option<L::Spot> {
        // Most classes have no jobs left.
        self.first(class)?;
        self.spot(class, self.queue.occupied.next(self.place_behind(class, spot)))
    }

    fn next_short(&self, class: usize, spot: L::Spot, short: impl Fn(f64) -> bool) -> Option<L::Spot> {
        let end = self.queue.places_of(class).end;
        let estimates = self.queue.short.as_ref()?;
        self.spot(class, estimates.next(self.place_behind(class, spot), end, short))
    }

    fn short_class(&self, classes: Range<usize>, short: impl Fn(f64) -> bool) -> Option<usize> {
        self.queue.short_class(classes, short)
    }

    fn class_of(&self, job: Job) -> usize {
        self.queue.class_of(job)
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.queue.jobs()
    }
}

#[cfg(test)]
mod tests {
    use super::super::fair_levels::OneLevel;
    use super::{FairQueue, WaitingQueue};
    use crate::cluster::{FewestServers, Network};
    use crate::ids::Job;
    use crate::options::{Options, Order};
    use crate::setting::Setting;
    use crate::trace::{FairShares, Jobs};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_pass_looks_at_owners_in_the_order_of_their_usage(
            shares in prop::collection::vec(prop::sample::select(vec![0.0, 1.0, 1.0, 2.5, 1e-20, 1e-40]), 1..7),
            half_life in prop::sample::select(vec![1e-3, 0.1, 7.5, 100.0, 1e16]),
            // Which job starts or ends, how much time has passed, and how many jobs the pass tries.
            steps in prop::collection::vec((0usize..20, 0u32..40, 0usize..20), 1..80),
        ) {
            let (sizes, zeros) = ([1; 20], [0.0; 20]);
            let jobs = Jobs { submit: &zeros, num_gpus: &sizes, duration: &zeros, ..Jobs::default() };
            let (rows, few): (Vec<u32>, _) = ((0..20).collect(), FewestServers::new(&[8]));
            let owner: Vec<u32> = (0..20).map(|job| job % shares.len() as u32).collect();
            let options = Options { order: Order::Fairshare, half_life, ..Options::default() };
            let fair = Some(FairShares { owner: &owner, share: &shares, users: None });
            let setting = Setting { fair, ..Setting::new(jobs, &rows, &[8], &few, Network::default(), &options) };
            let mut queue = FairQueue::<OneLevel>::new(&setting, &|_| 0.0);
            let (mut runs, mut now) = ([false; 20], 0.0);
            for (job, passed, most) in steps {
                let (at, job) = (job, Job::at(job));
                now += f64::from(passed);
                if runs[at] {
                    queue.hold(job, 1 + at as u32 % 3, false, now);
                } else if queue.has(job) {
                    queue.remove(job);
                    queue.hold(job, 1 + at as u32 % 3, true, now);
                } else {
                    queue.push_back(job, || 0.0);
                }
                runs[at] = !runs[at] && !queue.has(job);
                queue.renew(now);
                let order = queue.clone().in_order();
                let mut found = Vec::new();
                let mut spots = BTreeSet::new();
                while found.len() < most {
                    while queue.firsts_before(spots.first().map(|&(spot, _)| spot), |class, spot| {
                        spots.extend(spot.map(|spot| (spot, class)));
                    }) {}
                    let Some((spot, class)) = spots.pop_first() else { break };
                    found.push(queue.job_at(spot));
                    spots.extend(queue.next(class, spot).map(|next| (next, class)));
                }
                prop_assert_eq!(&found[..], &order[..most.min(order.len())]);
            }
        }
    }
}
