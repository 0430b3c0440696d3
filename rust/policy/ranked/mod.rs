//! Policies that may stop jobs for others: a ranking of all jobs, and a quota of all GPUs. A ranking is a file.
//!
//! A pass ranks the running and the waiting jobs and walks the ranking: a job that fits in what is left of the quota is
//! selected. Running jobs that are not selected are stopped; then selected waiting jobs are placed in rank order
//! (docs/policies.md). `select` is the walk. For example, under SRTF on 8 GPUs a new job of 8 GPUs and 60 s stops a job
//! of 8 GPUs that has 100 s left.

mod edf;
mod ftf;
mod gittins;
mod select;
mod srtf;
mod time_slice;
mod tiresias;
mod waiting;

use super::Policy;
use crate::ds::EventHeap;
use crate::ids::{Job, Slot};
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;
pub(super) use edf::Edf;
pub(super) use ftf::Ftf;
pub(super) use gittins::Gittins;
use select::{FromTheEnd, Selection};
pub(super) use srtf::Srtf;
pub(super) use time_slice::TimeSlice;
pub(super) use tiresias::Tiresias;
use waiting::Waiting;

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

/// A ranking and the instants at which it is used. Keys: least first, ties by job, that is fifo.
pub(super) trait Ranking: Clone + Send {
    const KEYS: Keys = Keys::Stand;

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

    /// Called before each pass.
    fn before_pass(&mut self) {}

    /// The key of a job that joins the waiting ones now, or the number that it is made of.
    fn waiting_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) -> f64 {
        0.0
    }

    /// The key that a number makes now (`Keys::ByNumber` only).
    fn key_of(&mut self, number: f64) -> f64 {
        number
    }

    /// The key of a running job now.
    fn running_key<S: Speed>(&mut self, _floor: &Floor<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        0.0
    }

    /// An instant, early rather than late, before which the key of a running job does not rise (machine time).
    fn rises_at<S: Speed>(&self, _floor: &Floor<'_, S>, _stay: &Stay<S::Pace>) -> f64 {
        f64::INFINITY
    }

    /// The key of any job now, by its stay if it runs (`Keys::Move` only).
    fn rank<S: Speed>(&self, _floor: &Floor<'_, S>, _job: Job, _stay: Option<&Stay<S::Pace>>) -> (f64, f64) {
        (0.0, 0.0)
    }

    /// A job is done.
    fn completed<S: Speed>(&mut self, _floor: &Floor<'_, S>, _job: Job) {}
}

/// The policy of a ranking.
#[derive(Clone, Debug)]
pub(super) struct Ranked<R> {
    ranking: R,
    waiting: Waiting,
    /// GPUs of the cluster.
    gpus: u64,
    /// Running jobs from the end of the ranking, and by when their key may rise.
    from_the_end: FromTheEnd,
    rises: EventHeap,
    risen: Vec<Slot>,
    selection: Selection,
    /// Whether a job came or went since the last pass, and whether that pass would do more if repeated.
    changed: bool,
    again: bool,
    last_pass: f64,
}

impl<R: Ranking> Ranked<R> {
    pub(super) fn new(setting: &Setting<'_>, ranking: R) -> Self {
        Self {
            ranking,
            waiting: Waiting::new(setting.jobs.num_gpus),
            gpus: setting.server_gpus.iter().map(|&gpus| u64::from(gpus)).sum(),
            from_the_end: FromTheEnd::default(),
            rises: EventHeap::default(),
            risen: Vec::new(),
            selection: Selection::default(),
            changed: false,
            again: false,
            last_pass: f64::NEG_INFINITY,
        }
    }

    /// New keys for running jobs whose key may have risen.
    fn renew_risen<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        let mut risen = std::mem::take(&mut self.risen);
        risen.clear();
        while let Some((time, slot)) = self.rises.peek()
            && time <= floor.now
        {
            self.rises.remove(slot);
            risen.push(Slot::new(slot));
        }
        for &slot in &risen {
            self.rank(floor, slot);
        }
        self.risen = risen;
    }

    /// Puts a running job in its place of the ranking.
    fn rank<S: Speed>(&mut self, floor: &Floor<'_, S>, slot: Slot) {
        if R::KEYS != Keys::Stand {
            return;
        }
        let stay = &floor.stays[slot.index()];
        self.from_the_end.set(slot, self.ranking.running_key(floor, stay), stay.job);
        let rise = self.ranking.rises_at(floor, stay);
        if rise < f64::INFINITY {
            self.rises.set(slot.number(), rise, stay.job.number());
        }
    }

    /// Forgets a stay that has ended.
    fn forget(&mut self, slot: Slot) {
        self.from_the_end.remove(slot);
        self.rises.remove(slot.number());
    }
}

impl<S: Speed, R: Ranking> Policy<S> for Ranked<R> {
    const STOPS: bool = true;
    const NETS: bool = true;

    fn arrived(&mut self, floor: &mut Floor<'_, S>, job: Job) {
        if !self.ranking.admits(floor, job) && floor.refuse(job).is_ok() {
            return;
        }
        let key = self.ranking.waiting_key(floor, job);
        self.waiting.insert(job, floor.asks(job), key);
        self.changed = true;
    }

    fn completed(&mut self, floor: &Floor<'_, S>, slot: Slot, job: Job) {
        self.forget(slot);
        self.ranking.completed(floor, job);
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        let now = floor.now;
        if self.waiting.is_empty() {
            return f64::INFINITY;
        }
        let Some(interval) = self.ranking.interval() else {
            return if self.changed { now } else { f64::INFINITY };
        };
        let busy = self.gpus - floor.cluster.total_idle;
        let crowded = self.waiting.gpus() + busy > self.gpus;
        let wanted = if self.changed || self.again || (crowded && self.ranking.is_restless()) {
            now
        } else {
            self.rises.peek().map_or(f64::INFINITY, |(time, _)| f64::max(time, now))
        };
        if wanted == f64::INFINITY { wanted } else { floor.clock.tick(interval, wanted, self.last_pass) }
    }

    /// Ranks, stops, places.
    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.last_pass = floor.now;
        self.changed = false;
        self.again = false;
        self.ranking.before_pass();
        self.renew_risen(floor);
        let mut selection = std::mem::take(&mut self.selection);
        let Self { ranking, waiting, from_the_end, .. } = self;
        match R::KEYS {
            Keys::Stand => selection.walk(ranking, floor, waiting.walk(), from_the_end),
            Keys::ByNumber => {
                let fits = waiting.gpus() <= floor.cluster.total_idle;
                if !fits {
                    from_the_end.renew(ranking, floor);
                }
                let walk = waiting.walk_by(fits, |number| ranking.key_of(number));
                selection.walk(ranking, floor, walk, from_the_end);
            }
            Keys::Move => selection.walk_all(ranking, floor, waiting, self.gpus),
        }
        selection.evicted.sort_unstable_by_key(|&slot| floor.stays[slot.index()].job);
        for &slot in &selection.evicted {
            self.forget(slot);
            let job = floor.stop(slot);
            let key = self.ranking.waiting_key(floor, job);
            self.waiting.insert(job, floor.asks(job), key);
        }
        let monotone = floor.placer.is_monotone();
        let mut passed_over = false;
        for &job in &selection.chosen {
            if floor.place(job) {
                self.waiting.remove(job, floor.asks(job));
                let slot = floor.start(job);
                self.rank(floor, slot);
                self.again |= passed_over;
            } else {
                passed_over = !monotone;
            }
        }
        self.selection = selection;
    }

    fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.waiting.jobs()
    }
}
