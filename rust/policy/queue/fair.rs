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
//! A stay that begins or ends costs O(1). A pass costs the owners that it examines, log(owners) each, and their
//! classes; where jobs have priorities or are promoted by aging, it examines every owner with waiting jobs.

use super::waiting_queue::{FixedQueue, WaitingQueue};
use crate::ds::{EventHeap, OrderedBits, ordered, packed, unordered, unpacked};
use crate::ids::Job;
use crate::setting::Setting;
use std::f64::consts::LN_2;
use std::ops::Range;

/// What an owner has used.
#[derive(Clone, Copy, Debug)]
struct Account {
    share: f64,
    /// Unit-seconds, as of the last change of what it holds.
    used: f64,
    /// When that was, s.
    since: f64,
    /// Units held since then: GPUs, or thousandths of one.
    held: u64,
}

impl Account {
    /// Returns the unit-seconds, as of an instant.
    fn used_at(&self, now: f64, half_life: f64) -> f64 {
        let halvings = f64::max(0.0, now - self.since) / half_life;
        let grown =
            if self.held == 0 { 0.0 } else { self.held as f64 * half_life * (-(-halvings * LN_2).exp_m1() / LN_2) };
        self.used * (-halvings).exp2() + grown
    }
}

/// Rounds a number to 31 binary digits, so that rounding errors alone order no two numbers.
fn rounded(number: f64) -> f64 {
    const DROPPED: u32 = 22;
    f64::from_bits((number.to_bits() + (1 << (DROPPED - 1))) >> DROPPED << DROPPED)
}

/// The queue. Promoted jobs have classes of their own, as in a [`FixedQueue`].
#[derive(Clone, Debug)]
pub(crate) struct FairQueue {
    queue: FixedQueue,
    /// The number of places, and the first one of a job that is not promoted.
    places: usize,
    base: usize,
    half_life: f64,
    /// Units per GPU.
    per_gpu: f64,
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
    /// When the latest pass was, s.
    now: f64,
}

/// More than rounding takes from a log2 of usage / share, in all and for each halving up to then.
const SLACK: (f64, f64) = (1e-8, 1e-14);
/// Between these neither usage nor usage / share is cut off or subnormal, if shares are such numbers.
const LOGS: (f64, f64) = (-800.0, 800.0);
const SHARES: (f64, f64) = (1e-30, 1e30);

/// (tier, usage / share of the owner, job), packed in the order in which jobs rank. A promoted job has no usage.
type Spot = u128;

impl FairQueue {
    fn owner_of(&self, job: Job) -> usize {
        self.owner[job.index()] as usize
    }

    /// Returns where an owner's jobs rank among those of their tier; a share of 0 is last.
    fn key_of(&self, owner: usize) -> u64 {
        if let Some(key) = self.key[owner] {
            return key;
        }
        let account = &self.accounts[owner];
        if account.share == 0.0 {
            return u64::MAX;
        }
        let used = account.used_at(self.now, self.half_life) / self.per_gpu;
        ordered(rounded((used / account.share).min(f64::MAX)))
    }

    fn spot_at(&self, place: usize) -> Spot {
        let job = self.queue.job_of(place);
        if place < self.base {
            return packed(0, 0, job.number());
        }
        let tier = self.tier.get(job.index()).copied().unwrap_or(0);
        packed(tier, self.key_of(self.owner_of(job)), job.number())
    }

    /// Bounds an owner whose usage / share was `ratio` at that time; a share of 0 makes that NaN.
    fn bound(&mut self, owner: usize, ratio: f64, time: f64) {
        let halvings = time / self.half_life;
        let log = if ratio.is_nan() { f64::INFINITY } else { ratio.log2().min(LOGS.1) };
        self.bounds.set(owner as u32, log + halvings - SLACK.0 - SLACK.1 * halvings, owner as u32);
    }

    fn look_at(&mut self, owner: u32) {
        self.bounds.remove(owner);
        self.looked_at.push(owner);
        self.key[owner as usize] = Some(self.key_of(owner as usize));
    }

    /// Reports the first job of each class among some places, if there is one.
    fn tell_firsts(&self, places: Range<usize>, mut tell: impl FnMut(usize, Option<Spot>)) {
        let mut at = places.start;
        while let Some(place) = self.queue.occupied.next(at).filter(|&place| place < places.end) {
            let class = self.queue.class_of(self.queue.job_of(place));
            tell(class, Some(self.spot_at(place)));
            at = self.queue.places_of(class).end;
        }
    }

    /// Returns the greatest bound of an owner whose jobs may come before a spot of this pass.
    fn reach(&self, spot: Spot) -> f64 {
        let log = unordered(unpacked(spot).1).log2();
        if log.is_nan() || log >= LOGS.1 {
            return f64::INFINITY;
        }
        let halvings = self.now / self.half_life;
        log.max(LOGS.0) + halvings + SLACK.0 + SLACK.1 * halvings
    }

    fn spot(&self, class: usize, place: Option<usize>) -> Option<Spot> {
        place.filter(|&place| place < self.queue.places_of(class).end).map(|place| self.spot_at(place))
    }

    /// Returns the first place of a class whose job ranks behind a spot, or the end of the class.
    fn place_behind(&self, class: usize, spot: Spot) -> usize {
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

impl WaitingQueue for FairQueue {
    type Spot = Spot;

    const RENEWS: bool = true;

    fn new(setting: &Setting<'_>, estimate: impl Fn(Job) -> f64) -> Self {
        let (jobs, queue) = (&setting.jobs, FixedQueue::new(setting, estimate));
        let n = jobs.len();
        let fair = setting.fair.unwrap_or_default();
        let owners = fair.share.len();
        let account = |&share: &f64| Account { share, used: 0.0, since: 0.0, held: 0 };
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
            half_life: setting.options.half_life,
            per_gpu: jobs.units_per_gpu() as f64,
            owner: fair.owner.to_vec(),
            tier: jobs.priority.map_or_else(Vec::new, |_| (0..n).map(|job| jobs.tier(job)).collect()),
            accounts: fair.share.iter().map(account).collect(),
            places,
            places_of,
            waits: OrderedBits::new(owners),
            waiting: vec![0; owners],
            key: vec![None; owners],
            looked_at: Vec::new(),
            bounds: EventHeap::default(),
            now: 0.0,
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
                let Account { share, used, since, .. } = self.accounts[owner];
                self.bound(owner, if share == 0.0 { f64::NAN } else { used / self.per_gpu / share }, since);
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
                self.bound(owner, unordered(key), self.now);
            }
        }
        self.looked_at = looked_at;
        self.now = now;
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
        let account = &mut self.accounts[owner];
        account.used = account.used_at(now, self.half_life);
        account.since = now;
        let units = u64::from(units);
        account.held = if begins { account.held + units } else { account.held - units };
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

    fn job_at(&self, spot: Spot) -> Job {
        Job::new(unpacked(spot).2)
    }

    fn first(&self, class: usize) -> Option<Spot> {
        self.spot(class, self.queue.occupied.next(self.queue.places_of(class).start))
    }

    fn firsts_before(&mut self, spot: Option<Spot>, mut tell: impl FnMut(usize, Option<Spot>)) -> bool {
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

    fn next(&self, class: usize, spot: Spot) -> Option<Spot> {
        self.spot(class, self.queue.occupied.next(self.queue.place_of(self.job_at(spot)) + 1))
    }

    fn next_behind(&self, class: usize, spot: Spot) -> Option<Spot> {
        // Most classes have no jobs left.
        self.first(class)?;
        self.spot(class, self.queue.occupied.next(self.place_behind(class, spot)))
    }

    fn next_short(&self, class: usize, spot: Spot, short: impl Fn(f64) -> bool) -> Option<Spot> {
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
    use super::{Account, FairQueue, WaitingQueue};
    use crate::cluster::{FewestServers, Network};
    use crate::ids::Job;
    use crate::options::{Options, Order};
    use crate::setting::Setting;
    use crate::trace::{FairShares, Jobs};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_account_is_the_integral_over_its_stays(
            stays in prop::collection::vec((0u32..50, 1u32..50, 1u64..9), 0..12),
            half_life in prop::sample::select(vec![1e-3, 1.0, 7.5, 100.0, 1e16]),
        ) {
            let stays: Vec<(f64, f64, u64)> =
                stays.iter().map(|&(start, length, held)| (start.into(), (start + length).into(), held)).collect();
            let mut changes: Vec<(f64, u64, bool)> =
                stays.iter().flat_map(|&(start, end, held)| [(start, held, true), (end, held, false)]).collect();
            changes.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.2.cmp(&a.2)));
            let mut account = Account { share: 1.0, used: 0.0, since: 0.0, held: 0 };
            for now in 0..120 {
                let now = f64::from(now);
                while let Some(&(time, held, begins)) = changes.first() && time <= now {
                    account.used = account.used_at(time, half_life);
                    account.since = time;
                    account.held = if begins { account.held + held } else { account.held - held };
                    changes.remove(0);
                }
                let age = |time: f64| (-f64::max(0.0, now - time) / half_life).exp2();
                let in_all: f64 = stays.iter().filter(|stay| stay.0 <= now).map(|&(start, end, held)| {
                    let end = end.min(now);
                    // With the longest half-life nothing ages, and the difference would be all rounding.
                    let seconds = if half_life == 1e16 { end - start } else {
                        half_life / std::f64::consts::LN_2 * (age(end) - age(start))
                    };
                    held as f64 * seconds
                }).sum();
                let found = account.used_at(now, half_life);
                prop_assert!((found - in_all).abs() <= 1e-12 * in_all.max(1e-300), "{found} {in_all} at {now}");
            }
        }

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
            let fair = Some(FairShares { owner: &owner, share: &shares });
            let setting = Setting { fair, ..Setting::new(jobs, &rows, &[8], &few, Network::default(), &options) };
            let mut queue = FairQueue::new(&setting, |_| 0.0);
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
