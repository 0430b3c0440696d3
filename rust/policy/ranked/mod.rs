//! Policies that may stop jobs for others: a ranking of all jobs, and a quota of all GPUs. A ranking is a file.
//!
//! A pass ranks the running and the waiting jobs and walks the ranking: a job that fits in what is left of the quota is
//! selected. Running jobs that are not selected are stopped; then selected waiting jobs are placed in rank order
//! (docs/policies.md). `select` is the walk. For example, under SRTF on 8 GPUs a new job of 8 GPUs and 60 s stops a job
//! of 8 GPUs that has 100 s left.

mod edf;
mod from_the_end;
mod ftf;
mod gittins;
mod list;
mod select;
mod srtf;
mod time_slice;
mod tiresias;
mod waiting;

use crate::ids::{Job, Slot};
use crate::machine::{Came, Chooses, Floor, Left, Policy, Stay};
use crate::options::{Feature, Within};
use crate::policy::Visitor;
use crate::setting::Setting;
use crate::speed::Speed;
use edf::Edf;
use from_the_end::FromTheEnd;
use ftf::Ftf;
use gittins::Gittins;
use list::Listed;
use select::Selection;
use srtf::{Srsf, Srtf};
use std::collections::BTreeSet;
use std::fmt::Debug;
use time_slice::TimeSlice;
use tiresias::Tiresias;
use waiting::Waiting;

policies! { |setting, speed|
    Srtf => Ranked::new(setting, Srtf::new(setting.options)),
    Srsf => Ranked::new(setting, Srsf::new(setting.options)),
    Tiresias => Ranked::new(setting, Tiresias::new(setting.options)),
    Gittins => Ranked::new(setting, Gittins::new(setting.options)),
    Ftf => Ranked::new(setting, Ftf::new(setting, speed)),
    Edf<'_> => Ranked::new(setting, Edf::new(setting)),
    TimeSlice => Ranked::new(setting, TimeSlice::new(setting)),
}

/// The same of those whose queues are lists.
pub(super) fn visit_lists<'a, S: Speed, V: Visitor<'a, S>>(
    setting: &Setting<'a>,
    speed: &S,
    visitor: V,
) -> Result<V::Output, V> {
    let options = setting.options;
    if options.within == Within::List && options.has::<Tiresias>() {
        let policy = Ranked::new(setting, Listed::new(setting, Tiresias::new(options)));
        return Ok(visitor.visit(setting, speed.clone(), policy));
    }
    if options.within == Within::List && options.has::<Gittins>() {
        let policy = Ranked::new(setting, Listed::new(setting, Gittins::new(options)));
        return Ok(visitor.visit(setting, speed.clone(), policy));
    }
    Err(visitor)
}

/// What rankings know.
const KNOWS: &[Feature] = Feature::ALL;

/// How the keys of a ranking move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// A waiting job's key stands. A running job's key does not rise but where `rises_at` says.
    Stand,
    /// A waiting job's key is made of a number that stands. What the number makes, and the keys of running jobs, are
    /// others at every pass.
    ByNumber,
    /// All move with time, so that every pass ranks all jobs anew by `rank`.
    Move,
}

/// A ranking and the instants at which it is used. Keys: least first, ties by job, that is fifo. Higher priorities go
/// before all that.
pub(super) trait Ranking: Clone + Send {
    const KEYS: Keys = Keys::Stand;

    /// What goes before fifo among jobs of one key.
    type Tie: Copy + Default + Ord + Send + Debug;

    /// Keys that are no further above the least of them than this share of it are ties (`Keys::Move` only).
    const NEAR: f64 = 0.0;

    /// Whether a running job's key rises where a rung sets its progress back (`Keys::Stand` only).
    const COUNTS_WORK: bool = false;

    /// Whether jobs take turns: then a tick has one pass, whatever comes of it.
    const TAKES_TURNS: bool = false;

    /// Whether it keeps lists, which a pass may change though nobody waits.
    const LISTS: bool = false;

    /// Seconds between passes; `None` for a pass at every arrival and completion.
    fn interval(&self) -> Option<f64> {
        None
    }

    /// Whether the ranking changes by itself, so that every tick with more demand than GPUs needs a pass.
    fn is_restless(&self) -> bool {
        Self::KEYS != Keys::Stand
    }

    /// Whether a job that arrives now may wait. If not, it is refused.
    fn admits<S: Speed>(&self, _floor: &Floor<'_, S>, _job: Job) -> bool {
        true
    }

    /// Called before each pass. Returns whether the keys that numbers make are others now.
    fn before_pass<S: Speed>(&mut self, _floor: &Floor<'_, S>) -> bool {
        false
    }

    /// The key of a job that joins the waiting ones now, or the number that it is made of.
    fn waiting_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) -> f64 {
        0.0
    }

    /// Where the key that a number makes lies: not below one number and below another. Two numbers have the same span, or
    /// spans apart (`Keys::ByNumber` only).
    fn span_of(&self, _number: f64) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }

    /// The key that a number makes now (`Keys::ByNumber` only).
    fn key_of(&mut self, number: f64) -> f64 {
        number
    }

    /// The key of a job that waits again because the stay that it had failed, or the number that it is made of.
    fn failed_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job, _stay: &Stay<S::Pace>) -> f64 {
        self.waiting_key(floor, job)
    }

    /// The key of a job that waits again after it paused at a rung, or the number that it is made of.
    fn resumed_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        self.waiting_key(floor, job)
    }

    /// The key of a running job now.
    fn running_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        0.0
    }

    /// An instant, early rather than late, before which the key of a running job does not rise (machine time).
    fn rises_at<S: Speed>(&self, _floor: &Floor<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        f64::INFINITY
    }

    /// A number that the key of a running job is not above until an instant, early rather than late (machine time).
    /// With `Keys::ByNumber` that is also if no pass renews the keys; then `closely` asks for one near the key.
    fn ceiling<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>, _closely: bool) -> (f64, f64) {
        (self.running_key(floor, stay), self.rises_at(floor, stay))
    }

    /// The key of any job now, by its stay if it runs (`Keys::Move` only).
    fn rank<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job, _stay: Option<&Stay<S::Pace>>) -> f64 {
        0.0
    }

    /// An instant, early rather than late, before which no list changes by itself (`LISTS` only; machine time).
    fn falls_at(&self) -> f64 {
        f64::INFINITY
    }

    /// A running job whose tie is another than it was, or that has begun to run and moved ahead, until there is none (`LISTS`
    /// only).
    fn next_moved(&mut self) -> Option<Slot> {
        None
    }

    /// A job runs from now on. Nobody asks for its place before it has `next_moved`.
    fn started<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job, _slot: Slot) {}

    /// A job that ran runs no longer, and no pass has stopped it.
    fn leaves<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) {}

    /// The tie of a job that waits or runs.
    fn tie(&self, _job: Job) -> Self::Tie {
        Self::Tie::default()
    }

    /// A number with the order of (tie, job) among running jobs.
    fn row(&self, job: Job) -> u32 {
        job.number()
    }

    /// How long a job is reckoned to run from now on, s, where the ranking reads it: then it keeps clear of maintenance.
    fn estimate<S: Speed>(&self, _floor: &Floor<'_, S>, _job: Job) -> Option<f64> {
        None
    }

    /// A job is done.
    fn completed<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) {}
}

/// (tier, key, tie, job): as jobs rank.
type Place<T> = (u32, f64, T, Job);

/// Whether `a` ranks before `b`.
fn before<T: Copy + Ord>(a: Place<T>, b: Place<T>) -> bool {
    a.0 < b.0 || (a.0 == b.0 && (a.1 < b.1 || (a.1 == b.1 && (a.2, a.3) < (b.2, b.3))))
}

/// The policy of a ranking.
#[derive(Clone, Debug)]
pub(super) struct Ranked<R: Ranking> {
    ranking: R,
    waiting: Waiting<R::Tie>,
    from_the_end: FromTheEnd,
    selection: Selection<R::Tie>,
    /// Stays that the latest job placed by eviction ended.
    evicted: Vec<(Slot, Job)>,
    /// Whether a job came or went since the last pass, and whether that pass would do more if repeated.
    changed: bool,
    again: bool,
    last_pass: f64,
    /// When one of those that ran at the end of that pass may first fall to the next queue (`LISTS` only; machine time).
    falls_at: f64,
    /// Whether there is a pass where a protection ends: whoever takes turns has a quantum, at which those that end no later are
    /// over.
    looks: bool,
}

impl<R: Ranking> Ranked<R> {
    pub(super) fn new(setting: &Setting<'_>, ranking: R) -> Self {
        Self {
            ranking,
            waiting: Waiting::new(&setting.jobs),
            from_the_end: FromTheEnd::new(setting),
            selection: Selection::default(),
            evicted: Vec::new(),
            changed: false,
            again: false,
            last_pass: f64::NEG_INFINITY,
            falls_at: f64::INFINITY,
            looks: !R::TAKES_TURNS || setting.options.preempt_after > setting.options.quantum,
        }
    }
}

/// The pool of the GPUs that the latest stay at a slot holds, or held.
fn pool_of<S: Speed>(floor: &Floor<'_, S>, slot: Slot) -> usize {
    floor.cluster.pool_of(floor.stays[slot.index()].gpu_type)
}

/// Jobs that are selected and wait, in rank order; those that were evicted on the way are put in their places.
struct Turns<'a, T> {
    chosen: std::slice::Iter<'a, Job>,
    /// All that are left, once somebody was evicted.
    ranked: Option<BTreeSet<Turn<T>>>,
}

/// (tier, key in order of its bits, tie, job).
type Turn<T> = (u32, u64, T, Job);

impl<'a, T: Copy + Ord> Turns<'a, T> {
    fn new(chosen: &'a [Job]) -> Self {
        Self { chosen: chosen.iter(), ranked: None }
    }

    fn next(&mut self) -> Option<Job> {
        match &mut self.ranked {
            None => self.chosen.next().copied(),
            Some(ranked) => ranked.pop_first().map(|turn| turn.3),
        }
    }

    /// `now`: the turn of the job that evicted them, where those may have had theirs.
    fn add(&mut self, evicted: &[(Slot, Job)], now: Option<Turn<T>>, mut turn_of: impl FnMut(Job) -> Turn<T>) {
        if self.ranked.is_none() {
            self.ranked = Some(self.chosen.by_ref().map(|&job| turn_of(job)).collect());
        }
        if let Some(ranked) = &mut self.ranked {
            // Without quotas they are of lower priority than the job that evicted them, so their turns are to come.
            let turns = evicted.iter().map(|&(_, job)| turn_of(job));
            ranked.extend(turns.filter(|&turn| now.is_none_or(|now| turn > now)));
        }
    }
}

impl<R: Ranking> Ranked<R> {
    /// Places a job by evicting others, who wait again, if that can be done.
    fn place_by_evicting<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) -> bool {
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = floor.place_by_evicting(job, &mut evicted);
        for &(slot, job) in &evicted {
            self.from_the_end.forget(floor, slot);
            let key = self.ranking.waiting_key(floor, job);
            self.waiting.insert(&floor.jobs, job, key, self.ranking.tie(job));
        }
        self.evicted = evicted;
        placed
    }

    /// When the next pass is due by the ranking itself.
    fn own_due<S: Speed>(&mut self, floor: &Floor<'_, S>) -> f64 {
        let now = floor.now;
        if self.waiting.is_empty() && !R::LISTS {
            return f64::INFINITY;
        }
        let Some(interval) = self.ranking.interval() else {
            return if self.changed { now } else { f64::INFINITY };
        };
        let units = floor.cluster.up_units();
        let busy = units - floor.cluster.idle_units();
        // With several GPU types a job may wait though there are GPUs for all.
        let crowded = self.waiting.units() + busy > units || floor.cluster.is_parted();
        let waits = !self.waiting.is_empty();
        // Who is within a quota may change as jobs make progress.
        let restless = floor.has_quotas() || (crowded && self.ranking.is_restless());
        let wanted = if waits && (self.changed || self.again || restless) {
            now
        } else if R::LISTS {
            f64::max(self.falls_at, now)
        } else if R::KEYS == Keys::Stand {
            f64::max(self.from_the_end.expiry(), now)
        } else {
            f64::INFINITY
        };
        // If somebody whom the pass of this tick started is gone at it, the steps of the instant run once more.
        let once_more = !R::TAKES_TURNS && self.changed && self.last_pass == now;
        let last = if once_more { f64::NEG_INFINITY } else { self.last_pass };
        if wanted == f64::INFINITY { wanted } else { floor.clock.tick(interval, wanted, last) }
    }
}

impl<S: Speed, R: Ranking> Policy<S> for Ranked<R> {
    const STOPS: bool = true;

    fn came(&mut self, floor: &mut Floor<'_, S>, job: Job, why: Came) {
        if why == Came::Arrived && !self.ranking.admits(floor, job) && floor.refuse(job).is_ok() {
            return;
        }
        let key = match why {
            Came::Arrived => self.ranking.waiting_key(floor, job),
            Came::Again => self.ranking.resumed_key(floor, job),
        };
        self.waiting.insert(&floor.jobs, job, key, self.ranking.tie(job));
        self.changed = true;
    }

    fn left(&mut self, floor: &Floor<'_, S>, slot: Slot, job: Job, why: Left) {
        self.from_the_end.forget(floor, slot);
        self.ranking.leaves(floor, job);
        match why {
            Left::Done => self.ranking.completed(floor, job),
            Left::Limit | Left::Paused => {}
            Left::Lost => {
                self.changed |= R::LISTS;
                let key = self.ranking.failed_key(floor, job, &floor.stays[slot.index()]);
                return self.waiting.insert(&floor.jobs, job, key, self.ranking.tie(job));
            }
        }
        self.changed = true;
    }

    fn climbed(&mut self, floor: &Floor<'_, S>, slot: Slot) {
        if R::COUNTS_WORK {
            // At a tick its key has risen; at an event there is a pass anyhow, or none at all.
            self.changed |= self.ranking.interval().is_some();
            self.from_the_end.hold(&mut self.ranking, floor, slot, false);
        }
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        let due = self.own_due(floor);
        if !floor.protects() || !self.looks || self.waiting.is_empty() {
            return due;
        }
        // If somebody whom the pass of this instant started is gone at it, there is another one: at a tick, too.
        let once_more = !R::TAKES_TURNS && self.changed && self.last_pass == floor.now;
        if once_more { floor.now } else { due.min(floor.protection_ends()) }
    }

    /// Ranks, stops, places.
    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.last_pass = floor.now;
        self.changed = false;
        self.again = false;
        floor.see_protections();
        if self.ranking.before_pass(floor) {
            self.from_the_end.void();
        }
        let mut selection = std::mem::take(&mut self.selection);
        let Self { ranking, waiting, from_the_end, .. } = self;
        match R::KEYS {
            _ if floor.protects() => {
                if R::KEYS == Keys::Stand {
                    from_the_end.renew(ranking, floor);
                }
                selection.walk_all(ranking, floor, waiting);
            }
            _ if floor.has_quotas() => selection.walk_all(ranking, floor, waiting),
            Keys::Stand => {
                from_the_end.renew(ranking, floor);
                selection.walk(ranking, floor, waiting.walk(), from_the_end);
            }
            Keys::ByNumber => {
                let fits = waiting.units() <= floor.cluster.idle_units() && !floor.cluster.is_parted();
                if !fits {
                    from_the_end.renew(ranking, floor);
                }
                let walk = waiting.walk_by(ranking);
                selection.walk(ranking, floor, walk, from_the_end);
            }
            Keys::Move => selection.walk_all(ranking, floor, waiting),
        }
        selection.evicted.sort_unstable_by_key(|&slot| floor.stays[slot.index()].job);
        for &slot in &selection.evicted {
            self.from_the_end.forget(floor, slot);
            let job = floor.stop(slot);
            let key = self.ranking.waiting_key(floor, job);
            self.waiting.insert(&floor.jobs, job, key, self.ranking.tie(job));
        }
        let monotone = floor.placer.is_monotone();
        // A job may be placed on another type than it drew on: then the next pass finds other quotas.
        let parted = floor.cluster.is_parted();
        self.again = parted && !selection.evicted.is_empty();
        let mut passed_over = parted;
        let mut turns = Turns::new(&selection.chosen);
        while let Some(job) = turns.next() {
            let now = floor.has_quotas().then(|| selection.turn_of(&mut self.ranking, floor, &self.waiting, job));
            let estimate = if floor.knows_windows() { self.ranking.estimate(floor, job) } else { None };
            if let Some(estimate) = estimate {
                floor.hide(estimate);
            }
            let placed = floor.place(job);
            let evicts = !placed && floor.makes_room() && self.place_by_evicting(floor, job);
            floor.show();
            if placed || evicts {
                if !placed {
                    self.again = true;
                    let Self { ranking, waiting, evicted, .. } = self;
                    turns.add(evicted, now, |job| selection.turn_of(ranking, floor, waiting, job));
                }
                self.waiting.remove(&floor.jobs, job);
                let slot = floor.start(job);
                self.ranking.started(floor, job, slot);
                if !R::LISTS {
                    self.from_the_end.hold(&mut self.ranking, floor, slot, false);
                }
                self.again |= passed_over;
            } else {
                passed_over |= !monotone;
            }
        }
        self.selection = selection;
        self.falls_at = self.ranking.falls_at();
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.waiting.jobs()
    }

    fn chooses(&self, floor: &Floor<'_, S>) -> Chooses {
        let mut ranking = self.ranking.clone();
        ranking.before_pass(floor);
        Chooses::FromLine(Selection::default().line(&mut ranking, floor, &self.waiting))
    }

    fn reckons(&self, floor: &Floor<'_, S>, job: Job) -> Option<f64> {
        self.ranking.estimate(floor, job)
    }
}
