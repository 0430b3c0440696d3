//! Fair share over the past (`--order fairshare`, docs/operators.md#fair-share): first the jobs of whoever has used
//! least of late for its share. As Slurm's classic fair share 2^(-usage / share) orders them
//! (<https://slurm.schedmd.com/classic_fair_share.html>).
//!
//! The order is another at each pass, but inside a class it never changes: all jobs of a class are of one owner. So the
//! classes are those of a [`FixedLine`], and a spot is worked out from what the owner had used at the beginning of the pass.
//! Invariant: what an owner has used is the integral over its stays of the GPUs held, where a second that was `half_life`
//! seconds ago counts half. For example, with a half-life of 100 s a GPU held from 0 to 100 s counts
//! 100 / ln 2 x (1 - 1/2) = 72.1 GPU-seconds at 100 s, and half of that at 200 s.
//!
//! A stay that begins or ends costs O(1), a pass the owners with waiting jobs and their classes.

use super::line::{FixedLine, Line};
use crate::ds::{OrderedBits, ordered, packed, unpacked};
use crate::ids::Job;
use crate::setting::Setting;
use std::f64::consts::LN_2;
use std::ops::Range;

/// What an owner has used.
#[derive(Clone, Copy, Debug)]
struct Account {
    share: f64,
    /// Unit-seconds, as they counted when its holdings last changed.
    used: f64,
    /// When that was, s.
    since: f64,
    /// Units held since then: GPUs, or thousandths of one.
    held: u64,
}

impl Account {
    /// Unit-seconds, as they count at an instant.
    fn used_at(&self, now: f64, half_life: f64) -> f64 {
        let halvings = f64::max(0.0, now - self.since) / half_life;
        let grown =
            if self.held == 0 { 0.0 } else { self.held as f64 * half_life * (-(-halvings * LN_2).exp_m1() / LN_2) };
        self.used * (-halvings).exp2() + grown
    }
}

/// A number to 31 binary digits, so that of two numbers rounding alone makes none the lesser.
fn rounded(number: f64) -> f64 {
    const DROPPED: u32 = 22;
    f64::from_bits((number.to_bits() + (1 << (DROPPED - 1))) >> DROPPED << DROPPED)
}

/// The line. What is promoted stands in classes of its own, as in a [`FixedLine`].
#[derive(Clone, Debug)]
pub(crate) struct FairLine {
    line: FixedLine,
    /// Places from here on are of jobs that are not promoted.
    base: usize,
    half_life: f64,
    /// Units that a GPU counts.
    per_gpu: f64,
    // By job.
    owner: Vec<u32>,
    tier: Vec<u32>,
    // By owner.
    accounts: Vec<Account>,
    /// Usage / share at the latest pass, of those with waiting jobs.
    key: Vec<u64>,
    waiting: Vec<u32>,
    /// Whose jobs wait.
    waits: OrderedBits,
    /// When the latest pass was, s.
    now: f64,
}

/// (tier, usage / share of the owner, job), packed: as jobs rank. A promoted job has no usage.
type Spot = u128;

impl FairLine {
    fn owner_of(&self, job: Job) -> usize {
        self.owner[job.index()] as usize
    }

    /// Where an owner's jobs stand among those of their tier; a share of 0 is last.
    fn key_of(&self, owner: usize) -> u64 {
        let account = &self.accounts[owner];
        if account.share == 0.0 {
            return u64::MAX;
        }
        let used = account.used_at(self.now, self.half_life) / self.per_gpu;
        ordered(rounded((used / account.share).min(f64::MAX)))
    }

    fn spot_at(&self, place: usize) -> Spot {
        let job = self.line.job_of(place);
        if place < self.base {
            return packed(0, 0, job.number());
        }
        let tier = self.tier.get(job.index()).copied().unwrap_or(0);
        packed(tier, self.key[self.owner_of(job)], job.number())
    }

    fn spot(&self, class: usize, place: Option<usize>) -> Option<Spot> {
        place.filter(|&place| place < self.line.places_of(class).end).map(|place| self.spot_at(place))
    }

    /// The first place of a class whose job ranks behind a spot, or the end of the class.
    fn place_behind(&self, class: usize, spot: Spot) -> usize {
        let Range { mut start, mut end } = self.line.places_of(class);
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

impl Line for FairLine {
    type Spot = Spot;

    const RENEWS: bool = true;

    fn new(setting: &Setting<'_>, estimate: impl Fn(Job) -> f64) -> Self {
        let (jobs, line) = (&setting.jobs, FixedLine::new(setting, estimate));
        let n = jobs.len();
        let fair = setting.fair.unwrap_or_default();
        let owners = fair.share.len();
        let account = |&share: &f64| Account { share, used: 0.0, since: 0.0, held: 0 };
        Self {
            base: line.base(),
            line,
            half_life: setting.options.half_life,
            per_gpu: jobs.units_a_gpu() as f64,
            owner: fair.owner.to_vec(),
            tier: jobs.priority.map_or_else(Vec::new, |_| (0..n).map(|job| jobs.tier(job)).collect()),
            accounts: fair.share.iter().map(account).collect(),
            key: vec![0; owners],
            waiting: vec![0; owners],
            waits: OrderedBits::new(owners),
            now: 0.0,
        }
    }

    fn push(&mut self, job: Job, _key: f64, estimate: impl FnOnce() -> f64) {
        self.push_back(job, estimate);
    }

    fn push_back(&mut self, job: Job, estimate: impl FnOnce() -> f64) {
        self.line.push_back(job, estimate);
        let owner = self.owner_of(job);
        self.waiting[owner] += 1;
        if self.waiting[owner] == 1 {
            self.waits.insert(owner);
            // It may have been evicted, and have its turn at this pass.
            self.key[owner] = self.key_of(owner);
        }
    }

    fn remove(&mut self, job: Job) {
        self.line.remove(job);
        let owner = self.owner_of(job);
        self.waiting[owner] -= 1;
        if self.waiting[owner] == 0 {
            self.waits.remove(owner);
        }
    }

    fn promote(&mut self, job: Job) {
        self.line.promote(job);
    }

    fn renew(&mut self, now: f64) {
        self.now = now;
        let mut at = 0;
        while let Some(owner) = self.waits.next(at) {
            self.key[owner] = self.key_of(owner);
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
        self.line.is_promoted(job)
    }

    fn has(&self, job: Job) -> bool {
        self.line.has(job)
    }

    fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    fn classes(&self) -> usize {
        self.line.classes()
    }

    fn job_at(&self, spot: Spot) -> Job {
        Job::new(unpacked(spot).2)
    }

    fn first(&self, class: usize) -> Option<Spot> {
        self.spot(class, self.line.occupied.next(self.line.places_of(class).start))
    }

    fn firsts(&self, mut tell: impl FnMut(usize, Option<Spot>)) {
        let mut at = 0;
        while let Some(place) = self.line.occupied.next(at) {
            let class = self.line.class_of(self.line.job_of(place));
            tell(class, Some(self.spot_at(place)));
            at = self.line.places_of(class).end;
        }
    }

    fn next(&self, class: usize, spot: Spot) -> Option<Spot> {
        self.spot(class, self.line.occupied.next(self.line.place_of(self.job_at(spot)) + 1))
    }

    fn next_behind(&self, class: usize, spot: Spot) -> Option<Spot> {
        // Most classes have nobody left.
        self.first(class)?;
        self.spot(class, self.line.occupied.next(self.place_behind(class, spot)))
    }

    fn next_short(&self, class: usize, spot: Spot, short: impl Fn(f64) -> bool) -> Option<Spot> {
        let end = self.line.places_of(class).end;
        let estimates = self.line.short.as_ref()?;
        self.spot(class, estimates.next(self.place_behind(class, spot), end, short))
    }

    fn short_class(&self, classes: Range<usize>, short: impl Fn(f64) -> bool) -> Option<usize> {
        self.line.short_class(classes, short)
    }

    fn class_of(&self, job: Job) -> usize {
        self.line.class_of(job)
    }

    fn jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.line.jobs()
    }
}

#[cfg(test)]
mod tests {
    use super::Account;
    use proptest::prelude::*;

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
    }
}
