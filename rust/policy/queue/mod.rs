//! Policies that let a job run to its end: an order, and a queue discipline that decides which jobs may overtake
//! others.
//!
//! `waiting_queue`, `keyed` and `fair` keep the waiting jobs in order, `pass` is the one pass of all disciplines but
//! conservative backfilling, `conservative` is that one, `qssf` predicts.

mod conservative;
mod estimate;
mod fair;
mod fair_levels;
mod keyed;
mod owners;
mod pass;
mod qssf;
#[cfg(test)]
mod tests;
mod waiting_queue;

use crate::ids::{Job, Slot};
use crate::machine::{Chooses, Claim, ClusterState, EndReason, Masked, Policy, WaitReason};
use crate::options::{Discipline, Options, Order};
use crate::placement::Probes;
use crate::setting::Setting;
use crate::speed::Speed;
use conservative::Reservations;
use estimate::Estimates;
pub(crate) use fair::FairQueue;
pub(crate) use fair_levels::{OneLevel, TwoLevels};
pub(crate) use keyed::KeyedQueue;
use owners::Owners;
use pass::Scratch;
pub(super) use qssf::Qssf;
use std::collections::BTreeSet;
pub(crate) use waiting_queue::{FixedQueue, WaitingQueue};

/// A queue under a discipline.
///
/// Invariant: `queue` holds the jobs that have arrived, were not refused and did not start. For example, under
/// `strict` a pass starts jobs from the head until one cannot be placed.
#[derive(Clone, Debug)]
pub(crate) struct Queued<'a, L: WaitingQueue> {
    queue: L,
    discipline: Discipline,
    /// Whether a job came, left or was promoted since the last pass; whether that pass would do more if repeated.
    changed: bool,
    again: bool,
    last_pass: f64,
    estimates: Estimates<'a>,
    easy: Option<Easy>,
    reservations: Option<Box<Reservations>>,
    aging: Option<Aging>,
    qssf: Option<Qssf<'a>>,
    /// Jobs that have arrived and whose key is not yet known, where keys come from outside.
    unkeyed: Option<Vec<Job>>,
    /// Stays that the latest job placed by eviction ended.
    evicted: Vec<(Slot, Job)>,
    scratch: Scratch<L::Spot>,
    /// Which jobs may be tried next, where owners have quotas.
    owners: Option<Box<Owners<L::Spot>>>,
}

/// What backfilling keeps: the estimated ends of the running jobs, and the reservation of the blocked head while it
/// is valid.
#[derive(Clone, Debug)]
struct Easy {
    /// (estimated end's bits, job, slot), and the end at each slot, s.
    by_end: BTreeSet<(u64, Job, Slot)>,
    end: Vec<f64>,
    held: Option<Reservation>,
    probe: Probes,
    /// Servers that the head cannot count on at its shadow time because of maintenance.
    masked: Masked,
}

/// The reservation of a blocked head.
#[derive(Clone, Copy, Debug)]
struct Reservation {
    /// The head.
    job: Job,
    /// Earliest estimated end at which the head could be placed, s.
    shadow: f64,
}

/// Jobs that wait too long are promoted to the front.
#[derive(Clone, Copy, Debug)]
struct Aging {
    /// How long is too long, s.
    after: f64,
    /// The first job, in order of arrival, that may still come to wait too long.
    next: usize,
}

impl<'a, L: WaitingQueue> Queued<'a, L> {
    pub(crate) fn new<S: Speed>(setting: &Setting<'a>, speed: &S) -> Self {
        let options: &Options = setting.options;
        let queue = L::new(setting, &|job| speed.estimate(&setting.jobs, job));
        let owners = Owners::new(setting, &queue).map(Box::new);
        Self {
            scratch: Scratch::new(queue.classes()),
            owners,
            queue,
            discipline: options.queue,
            changed: false,
            again: false,
            last_pass: f64::NEG_INFINITY,
            estimates: Estimates::new(setting),
            easy: Discipline::CLAIRVOYANT.contains(&options.queue).then(|| Easy {
                by_end: BTreeSet::new(),
                end: Vec::new(),
                held: None,
                probe: Probes::default(),
                masked: Masked::default(),
            }),
            reservations: (options.queue == Discipline::Conservative)
                .then(|| Box::new(Reservations::new(options.reservations))),
            aging: options.aging.map(|after| Aging { after, next: 0 }),
            qssf: (options.order == Order::Qssf).then(|| Qssf::new(setting)),
            unkeyed: L::ASKED.then(Vec::new),
            evicted: Vec::new(),
        }
    }

    /// Returns the jobs that have arrived and whose key is not yet known.
    pub(crate) fn unkeyed(&self) -> &[Job] {
        self.unkeyed.as_deref().unwrap_or_default()
    }

    /// Queues those jobs by their keys.
    pub(crate) fn give_keys<S: Speed>(&mut self, state: &ClusterState<'_, S>, keys: &[f64]) {
        for (job, &key) in self.unkeyed.as_mut().map(std::mem::take).unwrap_or_default().into_iter().zip(keys) {
            self.push(state, job, key);
        }
    }

    #[inline(always)]
    fn push<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, key: f64) {
        self.queue.push(job, key, || self.estimates.reckoned(state, job));
        self.stir(job);
        self.changed = true;
    }

    /// Records that a job took its place in the queue, or is about to leave it.
    #[inline]
    fn stir(&mut self, job: Job) {
        if let Some(owners) = &mut self.owners {
            owners.stir(self.queue.class_of(job));
        }
    }

    /// Puts a waiting job ahead of all others.
    fn promote(&mut self, job: Job) {
        self.stir(job);
        self.queue.promote(job);
        self.stir(job);
    }

    /// Places a job by evicting others, which wait again, if that is possible.
    fn place_by_evicting<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        if !state.makes_room() {
            return false;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = state.place_by_evicting(job, &mut evicted);
        for &(slot, job) in &evicted {
            self.forget(state, slot, job);
            self.wait_again(state, job);
            if let Some(aging) = &self.aging
                && state.clock.arrival(state.arrived_at(job) + aging.after) <= state.now
                && !self.queue.is_promoted(job)
            {
                // It reached the age of promotion while it ran.
                self.promote(job);
            }
        }
        if let Some(easy) = self.easy.as_mut().filter(|_| placed) {
            easy.held = None;
        }
        self.evicted = evicted;
        placed
    }

    /// Removes the stay of a job at a slot.
    fn forget<S: Speed>(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job) {
        if L::RENEWS {
            self.queue.hold(job, state.units(job), false, state.seconds());
        }
        if let Some(easy) = &mut self.easy {
            easy.by_end.remove(&(easy.end[slot.index()].to_bits(), job, slot));
        }
    }

    /// Lets a job wait again at its old place.
    fn wait_again<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.queue.push_back(job, || self.estimates.reckoned(state, job));
        self.stir(job);
        if let Some(aging) = &mut self.aging {
            // It may have reached the age of promotion while it ran, or may do so now.
            aging.next = aging.next.min(state.arrives_after(job));
        }
    }

    /// Starts the job that was placed last. Returns the slot of its stay.
    fn start<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> Slot {
        self.stir(job);
        self.queue.remove(job);
        let slot = state.start(job);
        if L::RENEWS {
            self.queue.hold(job, state.units(job), true, state.seconds());
        }
        if let Some(easy) = &mut self.easy {
            // A job that was evicted at this instant and gets its GPUs back has never left them.
            let began = state.clock.seconds(state.stays[slot.index()].start);
            let end = began + self.estimates.reckoned(state, job);
            easy.end.resize(state.stays.len(), f64::NAN);
            easy.end[slot.index()] = end;
            easy.by_end.insert((end.to_bits(), job, slot));
        }
        slot
    }
}

impl<S: Speed, L: WaitingQueue> Policy<S> for Queued<'_, L> {
    const OUTSIDE: bool = L::ASKED;

    fn asks(&mut self, _state: &ClusterState<'_, S>) -> bool {
        !self.unkeyed().is_empty()
    }

    #[inline(always)]
    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        if why == WaitReason::Again {
            self.wait_again(state, job);
            return Policy::<S>::capacity_changed(self);
        }
        if let Some(unkeyed) = &mut self.unkeyed {
            unkeyed.push(job);
            return;
        }
        let key = self.qssf.as_ref().map_or(0.0, |qssf| qssf.key(&state.jobs, job));
        self.push(state, job, key);
    }

    #[inline(always)]
    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason) {
        self.forget(state, slot, job);
        match why {
            EndReason::Lost => self.wait_again(state, job),
            EndReason::Paused => Policy::<S>::capacity_changed(self),
            EndReason::Done | EndReason::Limit => {
                if let Some(easy) = &mut self.easy {
                    // An end before the shadow time was counted on.
                    let end = easy.end[slot.index()];
                    easy.held = easy.held.filter(|held| end < held.shadow);
                }
                if let Some(qssf) = self.qssf.as_mut().filter(|_| why == EndReason::Done) {
                    qssf.completed(&state.jobs, job);
                }
                self.changed = true;
            }
        }
    }

    /// EASY's reservation must be made anew.
    fn capacity_changed(&mut self) {
        if let Some(easy) = &mut self.easy {
            easy.held = None;
        }
        self.changed = true;
    }

    /// Promotes the jobs that have waited too long. Returns when the next of those that have arrived will have.
    fn wake(&mut self, state: &ClusterState<'_, S>, arrived: usize) -> f64 {
        while let Some(Aging { after, next }) = self.aging
            && next < arrived
        {
            let job = state.arrival(next);
            // A job that was promoted before it was interrupted still is.
            if self.queue.has(job) && !self.queue.is_promoted(job) {
                let due = state.clock.arrival(state.arrived_at(job) + after);
                if due > state.now {
                    return due;
                }
                self.promote(job);
                self.changed = true;
            }
            self.aging = Some(Aging { after, next: next + 1 });
        }
        f64::INFINITY
    }

    #[inline(always)]
    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        if self.queue.is_empty() {
            f64::INFINITY
        } else if self.changed {
            state.now
        } else if self.again {
            state.clock.next_boundary(self.last_pass).min(state.opens_at())
        } else {
            state.opens_at()
        }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        self.last_pass = state.now;
        self.changed = false;
        state.see_openings();
        if L::RENEWS {
            self.queue.renew(state.seconds());
        }
        let again = match self.discipline {
            Discipline::Strict if !L::RENEWS && !state.has_quotas() => self.head_by_head(state),
            Discipline::Conservative => self.with_reservations(state),
            _ => self.past_the_head(state),
        };
        // Where the order depends on the time, only an event causes a pass.
        self.again = again && !L::RENEWS;
    }

    #[inline]
    fn is_waiting(&self) -> bool {
        !self.queue.is_empty() || !self.unkeyed().is_empty()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.queue.jobs().chain(self.unkeyed().iter().copied())
    }

    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses {
        if !L::RENEWS {
            return Chooses::FromQueue(self.queue.in_order());
        }
        let mut queue = self.queue.clone();
        queue.renew(state.seconds());
        queue.look_at_all();
        Chooses::FromQueue(queue.in_order())
    }

    fn head(&self) -> Option<Job> {
        let first = (0..self.queue.classes()).filter_map(|class| self.queue.first(class)).min();
        first.map(|spot| self.queue.job_at(spot))
    }

    fn reckons(&self, state: &ClusterState<'_, S>, job: Job) -> Option<f64> {
        Some(self.estimates.reckoned(state, job))
    }

    fn claim(&self, state: &mut ClusterState<'_, S>, job: Job) -> Option<Claim> {
        if self.reservations.is_some() {
            return self.reservation_of(state, job);
        }
        let held = self.easy.as_ref()?.held.filter(|held| held.job != job)?;
        Some(Claim::OfHead { head: held.job, shadow: held.shadow })
    }
}
