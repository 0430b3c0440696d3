//! Policies that may stop jobs for others: a ranking of all jobs, and a quota of all GPUs. One file per ranking.
//!
//! A pass ranks the running and the waiting jobs and walks the ranking: a job that fits in what is left of the quota
//! is selected. Running jobs that are not selected are stopped; then selected waiting jobs are placed in rank order
//! (docs/policies.md). `select` is the walk. For example, under SRTF on 8 GPUs a new job of 8 GPUs and 60 s stops a
//! job of 8 GPUs that has 100 s left.

mod edf;
mod ftf;
mod gittins;
mod list;
mod lowest_ranked;
mod select;
mod srtf;
mod time_slice;
mod tiresias;
mod waiting;

use crate::ids::{Job, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, Stay, WaitReason};
use crate::options::{Feature, Within};
use crate::policy::Visitor;
use crate::setting::Setting;
use crate::speed::Speed;
use edf::Edf;
use ftf::Ftf;
use gittins::Gittins;
use list::Listed;
use lowest_ranked::LowestRanked;
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

/// Does the same for the policies whose queues are lists.
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

/// The features that rankings support.
const KNOWS: &[Feature] = Feature::ALL;

/// How the keys of a ranking change over time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keys {
    /// A waiting job's key is constant. A running job's key rises only where `rises_at` says so.
    Stand,
    /// A waiting job's key is computed from a number that is constant. The keys computed from it, and those of
    /// running jobs, change from pass to pass.
    ByNumber,
    /// All change with time, so that every pass ranks all jobs anew by `rank`.
    Move,
}

/// A ranking and the instants at which it is used. Keys: least first, ties by job, that is fifo. Priorities take
/// precedence over all that.
pub(super) trait Ranking: Clone + Send {
    const KEYS: Keys = Keys::Stand;

    /// What decides before fifo among jobs of one key.
    type Tie: Copy + Default + Ord + Send + Debug;

    /// Keys that exceed the least of them by no more than this share of it are ties (`Keys::Move` only).
    const NEAR: f64 = 0.0;

    /// Whether a running job's key rises where a rung sets its progress back (`Keys::Stand` only).
    const COUNTS_WORK: bool = false;

    /// Whether jobs take turns: then a tick has only one pass, whatever its effects.
    const TAKES_TURNS: bool = false;

    /// Whether it keeps lists, which a pass may change even if no job waits.
    const LISTS: bool = false;

    /// Returns the seconds between passes; `None` for a pass at every arrival and completion.
    fn interval(&self) -> Option<f64> {
        None
    }

    /// Returns whether the ranking changes by itself, so that every tick with more demand than GPUs needs a pass.
    fn is_restless(&self) -> bool {
        Self::KEYS != Keys::Stand
    }

    /// Returns whether a job that arrives now may wait. If not, it is refused.
    fn admits<S: Speed>(&self, _state: &ClusterState<'_, S>, _job: Job) -> bool {
        true
    }

    /// Called before each pass. Returns whether the keys computed from numbers have changed.
    fn before_pass<S: Speed>(&mut self, _state: &ClusterState<'_, S>) -> bool {
        false
    }

    /// Returns the key of a job that begins to wait now, or the number from which it is computed.
    fn waiting_key<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _job: Job) -> f64 {
        0.0
    }

    /// Returns a span that contains the key computed from a number: not below the first and below the second. Two
    /// numbers have the same span, or disjoint ones (`Keys::ByNumber` only).
    fn span_of(&self, _number: f64) -> (f64, f64) {
        (f64::NEG_INFINITY, f64::INFINITY)
    }

    /// Returns the key computed from a number now (`Keys::ByNumber` only).
    fn key_of(&mut self, number: f64) -> f64 {
        number
    }

    /// Returns the key of a job that waits again because its stay failed, or the number from which it is computed.
    fn failed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, _stay: &Stay<S::Pace>) -> f64 {
        self.waiting_key(state, job)
    }

    /// Returns the key of a job that waits again after it paused at a rung, or the number from which it is computed.
    fn resumed_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.waiting_key(state, job)
    }

    /// Returns the key of a running job now.
    fn running_key<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        0.0
    }

    /// Returns an instant, early rather than late, before which the key of a running job does not rise (machine
    /// time).
    fn rises_at<S: Speed>(&self, _state: &ClusterState<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        f64::INFINITY
    }

    /// Returns an upper bound of the key of a running job and an instant, early rather than late, until which it is
    /// valid (machine time). With `Keys::ByNumber` it is valid only while no pass renews the keys; then `closely`
    /// asks for one near the key.
    fn ceiling<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>, _closely: bool) -> (f64, f64) {
        (self.running_key(state, stay), self.rises_at(state, stay))
    }

    /// Returns the key of any job now, by its stay if it runs (`Keys::Move` only).
    fn rank<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _job: Job, _stay: Option<&Stay<S::Pace>>) -> f64 {
        0.0
    }

    /// Returns an instant, early rather than late, before which no list changes by itself (`LISTS` only; machine
    /// time).
    fn falls_at(&self) -> f64 {
        f64::INFINITY
    }

    /// Returns, one by one until there is none, a running job whose tie has changed, or that has started and moved
    /// ahead (`LISTS` only).
    fn next_moved(&mut self) -> Option<Slot> {
        None
    }

    /// Records that a job runs from now on. Its place is not asked for before it has `next_moved`.
    fn started<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _job: Job, _slot: Slot) {}

    /// Records that a job no longer runs, although no pass has stopped it.
    fn leaves<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _job: Job) {}

    /// Returns the tie of a job that waits or runs.
    fn tie(&self, _job: Job) -> Self::Tie {
        Self::Tie::default()
    }

    /// Returns a number with the order of (tie, job) among running jobs.
    fn row(&self, job: Job) -> u32 {
        job.number()
    }

    /// Returns the estimated run time of a job from now on, s, if the ranking reads it: then it avoids maintenance.
    fn estimate<S: Speed>(&self, _state: &ClusterState<'_, S>, _job: Job) -> Option<f64> {
        None
    }

    /// Records that a job is done.
    fn completed<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _job: Job) {}
}

/// (tier, key, tie, job), in the order in which jobs rank.
type Place<T> = (u32, f64, T, Job);

/// Returns whether `a` ranks before `b`.
fn before<T: Copy + Ord>(a: Place<T>, b: Place<T>) -> bool {
    a.0 < b.0 || (a.0 == b.0 && (a.1 < b.1 || (a.1 == b.1 && (a.2, a.3) < (b.2, b.3))))
}

/// The policy of a ranking.
#[derive(Clone, Debug)]
pub(super) struct Ranked<R: Ranking> {
    ranking: R,
    waiting: Waiting<R::Tie>,
    lowest_ranked: LowestRanked,
    selection: Selection<R::Tie>,
    /// Stays that the latest job placed by eviction ended.
    evicted: Vec<(Slot, Job)>,
    /// Whether a job came or left since the last pass, and whether that pass would do more if repeated.
    changed: bool,
    again: bool,
    last_pass: f64,
    /// When a job that ran at the end of that pass may first fall to the next queue (`LISTS` only; machine time).
    falls_at: f64,
}

impl<R: Ranking> Ranked<R> {
    pub(super) fn new(setting: &Setting<'_>, ranking: R) -> Self {
        Self {
            ranking,
            waiting: Waiting::new(&setting.jobs),
            lowest_ranked: LowestRanked::new(setting),
            selection: Selection::default(),
            evicted: Vec::new(),
            changed: false,
            again: false,
            last_pass: f64::NEG_INFINITY,
            falls_at: f64::INFINITY,
        }
    }
}

/// Returns the pool of the GPUs that the latest stay at a slot holds, or held.
fn pool_of<S: Speed>(state: &ClusterState<'_, S>, slot: Slot) -> usize {
    state.cluster.pool_of(state.stays[slot.index()].gpu_type)
}

/// Selected waiting jobs in rank order; jobs that were evicted on the way are inserted by rank.
struct StartOrder<'a, T> {
    chosen: std::slice::Iter<'a, Job>,
    /// All remaining jobs, once a job was evicted.
    ranked: Option<BTreeSet<Turn<T>>>,
}

/// (tier, key in order of its bits, tie, job).
type Turn<T> = (u32, u64, T, Job);

impl<'a, T: Copy + Ord> StartOrder<'a, T> {
    fn new(chosen: &'a [Job]) -> Self {
        Self { chosen: chosen.iter(), ranked: None }
    }

    fn next(&mut self) -> Option<Job> {
        match &mut self.ranked {
            None => self.chosen.next().copied(),
            Some(ranked) => ranked.pop_first().map(|turn| turn.3),
        }
    }

    /// Inserts evicted jobs. `now`: the turn of the job that evicted them, where their own may be over.
    fn add(&mut self, evicted: &[(Slot, Job)], now: Option<Turn<T>>, mut turn_of: impl FnMut(Job) -> Turn<T>) {
        if self.ranked.is_none() {
            self.ranked = Some(self.chosen.by_ref().map(|&job| turn_of(job)).collect());
        }
        if let Some(ranked) = &mut self.ranked {
            // Without quotas they are of lower priority than the job that evicted them, so their turns are to come.
            let start_order = evicted.iter().map(|&(_, job)| turn_of(job));
            ranked.extend(start_order.filter(|&turn| now.is_none_or(|now| turn > now)));
        }
    }
}

impl<R: Ranking> Ranked<R> {
    /// Places a job by evicting others, which wait again, if that is possible.
    fn place_by_evicting<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = state.place_by_evicting(job, &mut evicted);
        for &(slot, job) in &evicted {
            self.lowest_ranked.forget(state, slot);
            let key = self.ranking.waiting_key(state, job);
            self.waiting.insert(&state.jobs, job, key, self.ranking.tie(job));
        }
        self.evicted = evicted;
        placed
    }

    /// Returns when the ranking itself needs the next pass.
    fn own_due<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> f64 {
        let now = state.now;
        // Whoever is within all quotas again counts in one that holds back a job which runs.
        let waits = !self.waiting.is_empty() || state.quotas_shift();
        if !waits && !R::LISTS {
            return f64::INFINITY;
        }
        let Some(interval) = self.ranking.interval() else {
            return if self.changed { now } else { f64::INFINITY };
        };
        let units = state.cluster.up_units();
        let busy = units - state.cluster.idle_units();
        // With several GPU types a job may wait even if there are GPUs for all.
        let crowded = self.waiting.units() + busy > units || state.cluster.is_parted();
        // Which jobs are within a quota may change as jobs make progress.
        let restless = state.has_quotas() || (crowded && self.ranking.is_restless());
        let wanted = if waits && (self.changed || self.again || restless) {
            now
        } else if R::LISTS {
            f64::max(self.falls_at, now)
        } else if R::KEYS == Keys::Stand {
            f64::max(self.lowest_ranked.expiry(), now)
        } else {
            f64::INFINITY
        };
        // If a job that the pass of this tick started is done at the same tick, the steps of the instant run once
        // more.
        let once_more = !R::TAKES_TURNS && self.changed && self.last_pass == now;
        let last = if once_more { f64::NEG_INFINITY } else { self.last_pass };
        if wanted == f64::INFINITY { wanted } else { state.clock.tick(interval, wanted, last) }
    }
}

impl<S: Speed, R: Ranking> Policy<S> for Ranked<R> {
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        if why == WaitReason::Arrived && !self.ranking.admits(state, job) && state.refuse(job).is_ok() {
            return;
        }
        let key = match why {
            WaitReason::Arrived => self.ranking.waiting_key(state, job),
            WaitReason::Again => self.ranking.resumed_key(state, job),
        };
        self.waiting.insert(&state.jobs, job, key, self.ranking.tie(job));
        self.changed = true;
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason) {
        self.lowest_ranked.forget(state, slot);
        self.ranking.leaves(state, job);
        match why {
            EndReason::Done => self.ranking.completed(state, job),
            EndReason::Limit | EndReason::Paused => {}
            EndReason::Lost => {
                self.changed |= R::LISTS;
                let key = self.ranking.failed_key(state, job, &state.stays[slot.index()]);
                return self.waiting.insert(&state.jobs, job, key, self.ranking.tie(job));
            }
        }
        self.changed = true;
    }

    fn climbed(&mut self, state: &ClusterState<'_, S>, slot: Slot) {
        if R::COUNTS_WORK {
            // At a tick its key has risen; at an event there is a pass anyway, or none at all.
            self.changed |= self.ranking.interval().is_some();
            self.lowest_ranked.hold(&mut self.ranking, state, slot, false);
        }
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        let due = self.own_due(state);
        if !(state.protects() || state.delays_evictions()) || self.waiting.is_empty() {
            return due;
        }
        // If a job that the pass of this instant started is done at the same instant, there is another pass, also at
        // a tick.
        let once_more = !R::TAKES_TURNS && self.changed && self.last_pass == state.now;
        if once_more { state.now } else { due.min(state.opens_at()) }
    }

    /// Ranks, stops, places.
    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        self.last_pass = state.now;
        self.changed = false;
        self.again = false;
        state.see_openings();
        if self.ranking.before_pass(state) {
            self.lowest_ranked.void();
        }
        let mut selection = std::mem::take(&mut self.selection);
        let Self { ranking, waiting, lowest_ranked, .. } = self;
        match R::KEYS {
            _ if state.may_keep() => {
                if R::KEYS == Keys::Stand {
                    lowest_ranked.renew(ranking, state);
                }
                selection.walk_all(ranking, state, waiting);
            }
            _ if state.has_quotas() => selection.walk_all(ranking, state, waiting),
            Keys::Stand => {
                lowest_ranked.renew(ranking, state);
                selection.walk(ranking, state, waiting.walk(), lowest_ranked);
            }
            Keys::ByNumber => {
                let fits = waiting.units() <= state.cluster.idle_units() && !state.cluster.is_parted();
                if !fits {
                    lowest_ranked.renew(ranking, state);
                }
                let walk = waiting.walk_by(ranking);
                selection.walk(ranking, state, walk, lowest_ranked);
            }
            Keys::Move => selection.walk_all(ranking, state, waiting),
        }
        selection.evicted.sort_unstable_by_key(|&slot| state.stays[slot.index()].job);
        for &slot in &selection.evicted {
            self.lowest_ranked.forget(state, slot);
            let job = state.stop(slot);
            let key = self.ranking.waiting_key(state, job);
            self.waiting.insert(&state.jobs, job, key, self.ranking.tie(job));
        }
        let monotone = state.placer.is_monotone();
        // A job may be placed on another type than it drew on: then the next pass finds other quotas.
        let parted = state.cluster.is_parted();
        self.again = parted && !selection.evicted.is_empty();
        let mut passed_over = parted;
        let mut start_order = StartOrder::new(&selection.chosen);
        while let Some(job) = start_order.next() {
            let now = state.has_quotas().then(|| selection.turn_of(&mut self.ranking, state, &self.waiting, job));
            let estimate = if state.knows_windows() { self.ranking.estimate(state, job) } else { None };
            if let Some(estimate) = estimate {
                state.hide(estimate);
            }
            let placed = state.place(job);
            let evicts = !placed && state.makes_room() && self.place_by_evicting(state, job);
            state.show();
            if placed || evicts {
                if !placed {
                    self.again = true;
                    let Self { ranking, waiting, evicted, .. } = self;
                    start_order.add(evicted, now, |job| selection.turn_of(ranking, state, waiting, job));
                }
                self.waiting.remove(&state.jobs, job);
                let slot = state.start(job);
                self.ranking.started(state, job, slot);
                if !R::LISTS {
                    self.lowest_ranked.hold(&mut self.ranking, state, slot, false);
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

    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses {
        let mut ranking = self.ranking.clone();
        ranking.before_pass(state);
        Chooses::FromQueue(Selection::default().start_order(&mut ranking, state, &self.waiting))
    }

    fn reckons(&self, state: &ClusterState<'_, S>, job: Job) -> Option<f64> {
        self.ranking.estimate(state, job)
    }
}
