//! Tracks from one decision to the next which jobs have min_gpus, where all GPUs are alike.
//!
//! The base goes through the jobs in order and passes over those for which too little is free. So all jobs before the
//! first that was passed over have min_gpus, and those behind it have fewer GPUs together than it asked for. A
//! decision re-examines these, and the jobs that came or left since the last one. Each examination costs a logarithm.
//!
//! Invariant: after a decision the jobs that take part have min_gpus and what `Rest` gave them, young stays hold
//! theirs, and all others have nothing. For example, a job of 4 GPUs waits while one of 3 behind it runs, as long as
//! no other job frees a GPU.

use super::allocation::Entry;
use super::curve::Curves;
use super::queue::{Place, Queue, Walk};
use super::{Rule, is_young};
use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::machine::ClusterState;
use crate::policy::job_states::JobStates;
use crate::speed::Speed;
use std::collections::{BinaryHeap, VecDeque};

/// Distributes the GPUs beyond min_gpus, and keeps what it needs for that.
pub(in crate::policy) trait Rest: Clone + Send {
    /// Whether it keeps anything.
    const KEEPS: bool = true;

    fn new(jobs: usize) -> Self;

    /// Records that a job takes part from now on, with the number that it holds or the nearest possible one. Its
    /// curve is known.
    fn enter<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job);

    /// Records that its stay has changed.
    fn renew<S: Speed, R: Rule>(&mut self, _view: &View<'_, '_, S, R>, _numbers: &Numbers, _job: Job) {}

    /// Records that it no longer takes part. It had so many GPUs beyond min_gpus.
    fn leave(&mut self, curves: &Curves, beyond: u32, job: Job);

    /// Updates the numbers of the jobs that take part: so many GPUs are available beyond their min_gpus.
    fn give<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &mut Numbers, free: u64);
}

/// Keeps nothing.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Anew;

impl Rest for Anew {
    const KEEPS: bool = false;

    fn new(_jobs: usize) -> Self {
        Self
    }

    fn enter<S: Speed, R: Rule>(&mut self, _view: &View<'_, '_, S, R>, _numbers: &Numbers, _job: Job) {}

    fn leave(&mut self, _curves: &Curves, _beyond: u32, _job: Job) {}

    fn give<S: Speed, R: Rule>(&mut self, _view: &View<'_, '_, S, R>, _numbers: &mut Numbers, _free: u64) {}
}

/// The input of decisions.
pub(in crate::policy) struct View<'f, 'a, S: Speed, R> {
    pub(super) state: &'f ClusterState<'a, S>,
    pub(super) job_states: &'f JobStates,
    pub(super) curves: &'f Curves,
    pub(super) rule: &'f R,
    pub(super) resize_every: f64,
}

impl<S: Speed, R: Rule> View<'_, '_, S, R> {
    /// Returns the GPUs that a job holds.
    pub(super) fn held(&self, job: Job) -> u32 {
        self.job_states.slot_of(job).map_or(0, |slot| self.state.stays[slot.index()].gpus())
    }

    /// Returns whether a stay that began at that machine time is too young for its job to be resized.
    fn is_young(&self, start: f64) -> bool {
        is_young(self.state, start, self.resize_every)
    }

    /// Returns a job's position in the order of the base.
    pub(super) fn place(&self, job: Job) -> Place {
        let stay = self.job_states.slot_of(job).map(|slot| &self.state.stays[slot.index()]);
        (self.state.jobs.tier(job.index()), ordered(self.rule.key(self.state, job, stay)), job)
    }
}

/// What is known about a job.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    part: Part,
    /// Whether it is in `unsettled`.
    listed: bool,
    /// min_gpus, once it takes part.
    least: u32,
    /// GPUs that it is to have while it takes part; those that it holds while it is young.
    number: u32,
    /// How often the number was set, and how often a place was written into `last`.
    stamp: u32,
    moved: u32,
}

/// Whether a job takes part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// It has nothing.
    #[default]
    Out,
    /// It keeps its GPUs.
    Young,
    /// It takes part in the next decision.
    Joins,
    /// It is to have min_gpus as far as is known.
    Enters,
    /// It has min_gpus.
    Takes,
}

/// How many GPUs each job is to have.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Numbers {
    known: Vec<Known>,
    /// Jobs whose number may differ from what they hold.
    unsettled: Vec<Job>,
    /// How many take part.
    taking: usize,
}

impl Numbers {
    #[inline]
    pub(super) fn of(&self, job: Job) -> u32 {
        self.known[job.index()].number
    }

    /// Returns a stamp that becomes invalid when the number is set again.
    #[inline]
    pub(super) fn stamp(&self, job: Job) -> u32 {
        self.known[job.index()].stamp
    }

    /// Returns whether a job takes part, and its number was not set since then.
    #[inline]
    pub(super) fn holds(&self, job: Job, stamp: u32) -> bool {
        let known = &self.known[job.index()];
        known.stamp == stamp && known.part == Part::Takes
    }

    /// Returns the number of entries beyond which most of what is kept, an entry or two per job, is invalid.
    pub(super) fn most_kept(&self) -> usize {
        4 * self.taking + 64
    }

    pub(super) fn set(&mut self, job: Job, number: u32) {
        self.known[job.index()].number = number;
        self.outdate(job);
        self.list(job);
    }

    /// Invalidates what was known about its number.
    pub(super) fn outdate(&mut self, job: Job) {
        let known = &mut self.known[job.index()];
        known.stamp = known.stamp.wrapping_add(1);
    }

    /// Returns whether a job is to have min_gpus as far as is known.
    fn has(&self, job: Job) -> bool {
        matches!(self.known[job.index()].part, Part::Enters | Part::Takes)
    }

    /// Returns whether it is, and has that place.
    fn is_at(&self, place: Place, moved: u32) -> bool {
        self.has(place.2) && self.known[place.2.index()].moved == moved
    }

    /// Skips waiting jobs that are already to have GPUs.
    fn pass_over(&self, waiting: &mut Walk<'_>) {
        while waiting.place().is_some_and(|(_, _, job)| self.has(job)) {
            waiting.pass();
        }
    }

    fn list(&mut self, job: Job) {
        if !std::mem::replace(&mut self.known[job.index()].listed, true) {
            self.unsettled.push(job);
        }
    }
}

/// All jobs.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Base<K> {
    numbers: Numbers,
    rest: K,
    /// Stays that were young when they began, in order of their beginning.
    young: VecDeque<(Job, Slot, f64)>,
    /// GPUs that young stays hold; the sum of min_gpus of the jobs that enter or take part.
    kept: u64,
    least: u64,
    /// For each of these a place that it is not behind: places only move ahead as time passes.
    last: BinaryHeap<(Place, u32)>,
    joins: Vec<Job>,
    /// The jobs at the end, whose place is to be determined anew.
    open: Vec<Place>,
}

impl<K: Rest> Base<K> {
    pub(super) fn new(jobs: usize) -> Self {
        Self {
            numbers: Numbers { known: vec![Known::default(); jobs], unsettled: Vec::new(), taking: 0 },
            rest: K::new(jobs),
            young: VecDeque::new(),
            kept: 0,
            least: 0,
            last: BinaryHeap::new(),
            joins: Vec::new(),
            open: Vec::new(),
        }
    }

    // Jobs that come and leave.

    /// Records that a job waits, or is no longer young.
    pub(super) fn join(&mut self, curves: &Curves, job: Job) {
        self.leave(curves, job);
        self.numbers.known[job.index()].part = Part::Joins;
        self.joins.push(job);
    }

    /// Records that a job is gone, or holds other GPUs than it did.
    pub(super) fn leave(&mut self, curves: &Curves, job: Job) {
        let known = &mut self.numbers.known[job.index()];
        let number = std::mem::take(&mut known.number);
        known.moved = known.moved.wrapping_add(1);
        match std::mem::take(&mut known.part) {
            Part::Out | Part::Joins => {}
            Part::Young => self.kept -= u64::from(number),
            Part::Enters => self.least -= u64::from(known.least),
            Part::Takes => {
                self.least -= u64::from(known.least);
                self.numbers.taking -= 1;
                self.rest.leave(curves, number - known.least, job);
            }
        }
    }

    /// Records that what was decided about a job has been tried. If it has a young stay now, it keeps that.
    pub(super) fn settle<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, job: Job) {
        let stay = view.job_states.slot_of(job).map(|slot| (slot, view.state.stays[slot.index()].start));
        if let Some((slot, start)) = stay.filter(|&(_, start)| view.is_young(start)) {
            self.leave(view.curves, job);
            let held = view.held(job);
            let known = &mut self.numbers.known[job.index()];
            (known.part, known.number) = (Part::Young, held);
            self.kept += u64::from(held);
            // A stay that was resumed in place began earlier.
            let at = self.young.iter().rposition(|&(_, _, other)| other <= start).map_or(0, |at| at + 1);
            self.young.insert(at, (job, slot, start));
        } else {
            self.numbers.list(job);
            if self.numbers.known[job.index()].part == Part::Takes {
                self.write(view, job);
                self.numbers.outdate(job);
                self.rest.renew(view, &self.numbers, job);
            }
        }
    }

    /// Adds the jobs whose stays are no longer young.
    pub(super) fn come_of_age<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>) {
        while let Some(&(job, slot, start)) = self.young.front() {
            let is_same = self.numbers.known[job.index()].part == Part::Young
                && view.job_states.slot_of(job) == Some(slot)
                && view.state.stays[slot.index()].start == start;
            if is_same && view.is_young(start) {
                return;
            }
            self.young.pop_front();
            if is_same {
                self.join(view.curves, job);
            }
        }
    }

    // The base.

    /// Records a job's present place.
    fn write<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, job: Job) {
        let known = &mut self.numbers.known[job.index()];
        known.moved = known.moved.wrapping_add(1);
        self.last.push((view.place(job), known.moved));
    }

    /// Marks it to have min_gpus.
    fn enter<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, job: Job) {
        let known = &mut self.numbers.known[job.index()];
        (known.part, known.least) = (Part::Enters, view.state.jobs.range_of(job.index()).0);
        self.least += u64::from(known.least);
        self.write(view, job);
    }

    /// Takes out of `last` the last of the jobs that have min_gpus as far as is known.
    fn pop_last<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>) -> Option<Place> {
        while let Some((place, moved)) = self.last.pop() {
            if !self.numbers.is_at(place, moved) {
                continue;
            }
            let now = view.place(place.2);
            if now == place || self.last.peek().is_none_or(|&(next, _)| next < now) {
                return Some(now);
            }
            self.last.push((now, moved));
        }
        None
    }

    fn put_last(&mut self, place: Place) {
        self.last.push((place, self.numbers.known[place.2.index()].moved));
    }

    /// Determines which jobs have min_gpus. Returns how many GPUs are left, and which jobs are newly to have them.
    pub(super) fn give_least<S: Speed, R: Rule>(
        &mut self,
        view: &View<'_, '_, S, R>,
        queue: &Queue,
    ) -> (u64, Vec<Job>) {
        let mut entering = Vec::new();
        for job in std::mem::take(&mut self.joins) {
            if self.numbers.known[job.index()].part == Part::Joins {
                self.enter(view, job);
                entering.push(job);
            }
        }
        let room = view.state.cluster.up_units().saturating_sub(self.kept);
        let mut waiting = queue.walk();
        self.numbers.pass_over(&mut waiting);
        // The jobs behind the first that waits in vain, and those for which there is no room.
        let first = waiting.place();
        while let Some(last) = self.pop_last(view) {
            if self.least <= room && first.is_none_or(|first| last < first) {
                self.put_last(last);
                break;
            }
            self.least -= u64::from(self.numbers.known[last.2.index()].least);
            self.open.push(last);
        }
        // They are next in turn, merged with the waiting jobs.
        loop {
            self.numbers.pass_over(&mut waiting);
            let next = waiting.place();
            if let Some(place) = self.open.pop_if(|place| next.is_none_or(|next| *place < next)) {
                let job = place.2;
                self.least += u64::from(self.numbers.known[job.index()].least);
                if self.least <= room {
                    self.put_last(place);
                } else {
                    self.leave(view.curves, job);
                    self.numbers.list(job);
                }
            } else if let Some((_, _, job)) = next {
                if self.least + u64::from(view.state.jobs.range_of(job.index()).0) <= room {
                    self.enter(view, job);
                    entering.push(job);
                } else {
                    // From here on the free GPUs only decrease.
                    waiting.leave_out();
                }
            } else {
                break;
            }
        }
        self.tidy();
        entering.retain(|&job| self.numbers.known[job.index()].part == Part::Enters);
        (room - self.least, entering)
    }

    /// Distributes what is left. The curves of jobs that newly take part are known.
    pub(super) fn give_rest<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, entering: &[Job], free: u64) {
        for &job in entering {
            let Some(curve) = view.curves.get(job, 0) else { continue };
            self.numbers.known[job.index()].part = Part::Takes;
            self.numbers.taking += 1;
            self.numbers.set(job, view.held(job).clamp(curve.least, curve.cap));
            self.rest.enter(view, &self.numbers, job);
        }
        self.rest.give(view, &mut self.numbers, free);
    }

    /// Drops invalid entries, once most are.
    fn tidy(&mut self) {
        if self.last.len() > self.numbers.most_kept() {
            let numbers = &self.numbers;
            self.last.retain(|&(place, moved)| numbers.is_at(place, moved));
        }
    }

    /// Returns the jobs whose number is not what they hold, in order of fifo.
    pub(super) fn changed<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, entries: &mut Vec<Entry>) {
        entries.clear();
        let known = &mut self.numbers.known;
        self.numbers.unsettled.retain(|&job| {
            let own = &mut known[job.index()];
            let held = view.held(job);
            own.listed = own.part != Part::Young && own.number != held;
            if own.listed {
                let mut entry = Entry::new(view.state, job, 0.0, 0.0, (held > 0).then_some((0, held)));
                entry.number = own.number;
                entries.push(entry);
            }
            own.listed
        });
        entries.sort_unstable_by_key(|entry| entry.job);
    }
}
