//! Runs one scheduling pass under each queue discipline (docs/model.md#queue-disciplines).
//!
//! If one job of a size cannot be placed, none can, so such a size costs one trial, and one more after a start that
//! may change the answer. For example, if no server has 8 idle GPUs for `consolidate`, a thousand waiting jobs of 8
//! GPUs cost a `skip` pass one trial.
//!
//! With quotas, a class of this file is a group of `owners`.

use super::{Queued, Reservation, WaitingQueue};
use crate::ids::Job;
use crate::machine::ClusterState;
use crate::options::Discipline;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Estimated ends, s: later than the first, and no later than the second.
type Span = (f64, f64);

/// Buffers that a pass keeps for the next, so that it allocates nothing.
#[derive(Clone, Debug)]
pub(super) struct Scratch<T> {
    /// Candidate classes: (spot of the job to try, class, version).
    candidates: BinaryHeap<Reverse<(T, u32, u32)>>,
    /// Candidates of an older version of their class are void.
    version: Vec<u32>,
    /// Classes passed over that become candidates again when the state changes.
    set_aside: Vec<u32>,
}

impl<T: Copy + Ord> Scratch<T> {
    pub(super) fn new(classes: usize) -> Self {
        Self { candidates: BinaryHeap::new(), version: vec![0; classes], set_aside: Vec::new() }
    }

    /// Returns the number of classes.
    pub(super) fn classes(&self) -> usize {
        self.version.len()
    }

    /// Drops all candidates.
    fn clear(&mut self) {
        self.candidates.clear();
        self.set_aside.clear();
    }

    /// Returns the spots of the candidates, in any order.
    pub(super) fn spots(&self) -> impl Iterator<Item = T> + '_ {
        self.candidates.iter().map(|Reverse((spot, ..))| *spot)
    }

    #[inline(always)]
    fn add(&mut self, class: usize, spot: Option<T>) {
        if let Some(spot) = spot {
            self.candidates.push(Reverse((spot, class as u32, self.version[class])));
        }
    }

    /// Returns the spot of the next candidate.
    fn peek(&mut self) -> Option<T> {
        while let Some(&Reverse((spot, class, version))) = self.candidates.peek() {
            if self.version[class as usize] == version {
                return Some(spot);
            }
            self.candidates.pop();
        }
        None
    }

    /// Takes the next candidate in queue order: (spot, class).
    #[inline(always)]
    pub(super) fn next(&mut self) -> Option<(T, usize)> {
        while let Some(Reverse((spot, class, version))) = self.candidates.pop() {
            if self.version[class as usize] == version {
                return Some((spot, class as usize));
            }
        }
        None
    }
}

impl<L: WaitingQueue> Queued<'_, L> {
    /// `strict`: starts jobs from the head on until one cannot be placed.
    ///
    /// Returns whether a job was evicted; its place in the queue may be one that the pass had left behind.
    pub(super) fn head_by_head<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) -> bool {
        let mut evicts = false;
        let mut next = self.queue.first_of_all();
        while let Some(spot) = next {
            let job = self.queue.job_at(spot);
            self.keep_clear(state, job);
            let placed = state.place(job);
            let started = placed || self.place_by_evicting(state, job);
            state.show();
            if !started {
                break;
            }
            evicts |= !placed;
            self.start(state, job);
            next = if evicts { self.queue.next_behind(0, spot) } else { self.queue.first_of_all() };
        }
        evicts
    }

    /// `skip` and `easy`, and `strict` with quotas. Tries the waiting jobs in queue order, once each, but a size that
    /// cannot be placed only once: jobs of one size differ only, under EASY, in whether they end before the shadow
    /// time.
    ///
    /// Returns whether a second pass might take a job that was passed over: one started after it, and that can change
    /// where it would go. Under the slot clock the next boundary is such a pass, even if nothing happens there.
    pub(super) fn past_the_head<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) -> bool {
        let monotone = state.placer.is_monotone();
        let (easy, strict) = (self.discipline == Discipline::Easy, self.discipline == Discipline::Strict);
        let now = state.seconds();
        let mut reservation: Option<Reservation> = None;
        let mut head: Option<Job> = None;
        let (mut passed_over, mut again) = (false, false);
        // Around maintenance, jobs of one size are alike only if the same servers are hidden from them. These are the
        // classes of which a job was passed over since the last start, and the spans of estimates for which that
        // holds.
        let mut tried: Vec<(usize, Span)> = Vec::new();
        let goes_along = L::RENEWS && self.owners.is_none();
        if goes_along {
            self.scratch.clear();
        } else {
            self.begin(state);
        }
        loop {
            if goes_along {
                self.look_ahead();
            }
            let Some((spot, class)) = self.scratch.next() else { break };
            if state.cluster.idle_units() == 0 && !state.makes_room() {
                break;
            }
            let job = self.queue.job_at(spot);
            if state.is_held_back(job) {
                self.go_on_behind(state, class, spot);
                continue;
            }
            if let (Some(blocked), None) = (head, reservation) {
                if u64::from(state.asks(job)) > state.cluster.idle_units() {
                    continue;
                }
                reservation = self.reserve(state, blocked);
            }
            let short = |estimate: f64| reservation.is_none_or(|r| now + estimate <= r.shadow);
            let in_time = self.easy.is_none() || short(self.estimates.reckoned(state, job));
            let rng = (!in_time).then(|| state.placer.rng());
            let below = self.keep_clear(state, job);
            let placed = state.place(job);
            let evicts = !placed && head.is_none() && self.place_by_evicting(state, job);
            state.show();
            if !placed && !evicts {
                if strict {
                    break;
                }
                if easy && head.is_none() {
                    head = Some(job);
                }
                if !monotone {
                    self.scratch.set_aside.push(class as u32);
                    passed_over = true;
                }
                if head.is_none() && !state.may_make_room(job) {
                    self.go_on_pending(state, class, spot);
                } else if below.is_some() && self.owners.is_some() {
                    self.go_on_behind(state, class, spot);
                } else if !monotone && state.knows_windows() {
                    // Fewer servers may work where more do not.
                    tried.push((class, self.span(state, job)));
                    self.go_on_unlike(state, (class, spot), &tried, |_| false);
                } else if let Some(below) = below {
                    // Jobs that end before the next maintenance may find room where this one does not.
                    let next = self.queue.next_short(class, spot, |estimate| now + estimate <= below);
                    self.scratch.add(class, next);
                } else if head.is_none() {
                    self.go_on_within(state, class, spot);
                }
                continue;
            }
            if let (Some(held), Some(rng), Some(easy)) = (reservation, rng, &mut self.easy) {
                let granted = std::mem::take(&mut state.grant.parts);
                let parts = easy.masked.without(&granted);
                easy.probe.take(&state.cluster, &parts);
                let harmless = state.fits(&easy.probe, held.job);
                if !harmless {
                    easy.probe.give(&state.cluster, &parts);
                }
                drop(parts);
                state.grant.parts = granted;
                if !harmless {
                    state.undo(job, rng);
                    passed_over = true;
                    if monotone && state.knows_windows() {
                        self.scratch.set_aside.push(class as u32);
                        tried.push((class, self.span(state, job)));
                        self.go_on_unlike(state, (class, spot), &tried, short);
                    } else if monotone {
                        // Similar jobs get the same GPUs, so only those that end in time are worth trying.
                        self.scratch.set_aside.push(class as u32);
                        let next = match &self.owners {
                            None => self.queue.next_short(class, spot, short),
                            Some(owners) => owners.next_short(&self.queue, class, spot, short),
                        };
                        self.scratch.add(class, next);
                    } else {
                        self.go_on_behind(state, class, spot);
                    }
                    continue;
                }
            }
            if let (None, Some(easy)) = (head, &mut self.easy) {
                // Started without regard to an older reservation.
                easy.held = None;
            }
            self.start(state, job);
            tried.clear();
            // The evicted jobs may leave more room than the job takes, and return to their places in the queue.
            again |= passed_over || evicts;
            if evicts {
                self.begin_behind(state, spot);
            } else {
                self.go_on_behind(state, class, spot);
                self.reopen(state, spot);
            }
        }
        if let Some(owners) = &mut self.owners {
            owners.rest();
        }
        again
    }

    /// Hides the servers on which a job would run into maintenance, until they are shown. Returns when the last of
    /// them goes down, s.
    #[inline]
    pub(super) fn keep_clear<S: Speed>(&self, state: &mut ClusterState<'_, S>, job: Job) -> Option<f64> {
        if !state.knows_windows() {
            return None;
        }
        self.keep_away(state, job)
    }

    #[cold]
    fn keep_away<S: Speed>(&self, state: &mut ClusterState<'_, S>, job: Job) -> Option<f64> {
        let estimate = self.estimates.reckoned(state, job);
        state.hide(estimate)
    }

    /// Makes the first job of every class a candidate.
    pub(super) fn begin<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        self.scratch.clear();
        if let Some(owners) = &mut self.owners {
            if L::RENEWS {
                self.queue.look_at_all();
                owners.renew();
            }
            owners.refresh(state, &self.queue);
            for group in 0..owners.groups() {
                self.scratch.add(group, owners.first(group));
            }
            return;
        }
        if L::RENEWS {
            while self.queue.firsts_before(None, |class, spot| self.scratch.add(class, spot)) {}
        } else {
            (0..self.queue.classes()).for_each(|class| self.scratch.add(class, self.queue.first(class)));
        }
    }

    /// Adds the classes whose first job may come before all candidates.
    fn look_ahead(&mut self) {
        loop {
            let next = self.scratch.peek();
            if !self.queue.firsts_before(next, |class, spot| self.scratch.add(class, spot)) {
                break;
            }
        }
    }

    /// Continues with the next job of a class.
    #[inline(always)]
    pub(super) fn go_on_behind<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, class: usize, spot: L::Spot) {
        let next = match &mut self.owners {
            None => self.queue.next(class, spot),
            Some(owners) => {
                owners.refresh(state, &self.queue);
                owners.next_behind(&self.queue, class, spot)
            }
        };
        self.scratch.add(class, next);
    }

    /// Returns the span of estimates, s, for which the same servers are hidden as for a job's.
    fn span<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> Span {
        state.hidden_alike(self.estimates.reckoned(state, job))
    }

    /// Continues with the next job of a class that ends in time, or from which other servers are hidden than from
    /// those tried.
    ///
    /// Cost: the jobs of the class that it skips, at most once per pass and span of estimates.
    #[cold]
    fn go_on_unlike<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        (class, spot): (usize, L::Spot),
        tried: &[(usize, Span)],
        short: impl Fn(f64) -> bool,
    ) {
        let now = state.seconds();
        let mut spot = spot;
        loop {
            let next = match &mut self.owners {
                None => self.queue.next(class, spot),
                Some(owners) => {
                    owners.refresh(state, &self.queue);
                    owners.next_behind(&self.queue, class, spot)
                }
            };
            let Some(next) = next else { return };
            let estimate = self.estimates.reckoned(state, self.queue.job_at(next));
            let is_like =
                |&(of, (after, to)): &(usize, Span)| of == class && after < now + estimate && now + estimate <= to;
            if short(estimate) || !tried.iter().any(is_like) {
                return self.scratch.add(class, Some(next));
            }
            spot = next;
        }
    }

    /// After a job over quota, which evicts no job, could not be placed: continues with the jobs of its class within
    /// quota.
    fn go_on_within<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, class: usize, spot: L::Spot) {
        if let Some(owners) = &mut self.owners
            && owners.passes_over(self.queue.class_of(self.queue.job_at(spot)))
        {
            self.go_on_behind(state, class, spot);
        }
    }

    /// After a job that may not make room yet could not be placed: continues with the next job of its class that may.
    #[cold]
    fn go_on_pending<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, class: usize, mut spot: L::Spot) {
        let Some(owners) = &mut self.owners else {
            while let Some(next) = self.queue.next(class, spot) {
                if state.knows_windows() || state.may_make_room(self.queue.job_at(next)) {
                    return self.scratch.add(class, Some(next));
                }
                spot = next;
            }
            return;
        };
        if state.placer.is_monotone() && !state.knows_windows() {
            owners.passes_over(self.queue.class_of(self.queue.job_at(spot)));
        }
        // A job that is passed over in a group is not found again after a start.
        self.go_on_behind(state, class, spot);
    }

    /// Continues in every class with the first job that now ranks after `spot`.
    pub(super) fn begin_behind<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, spot: L::Spot) {
        self.scratch.clear();
        self.queue.look_at_all();
        // Other disciplines depend on which job was tried in vain: EASY makes it the head, and a strict queue stops
        // there.
        let is_skip = self.discipline == Discipline::Skip && state.placer.is_monotone();
        let classes = self.owners.as_ref().map_or(self.queue.classes(), |owners| owners.groups());
        for class in 0..classes {
            if let Some(owners) = &mut self.owners {
                owners.reopen(class);
                if is_skip && owners.is_hopeless(state, class) {
                    continue;
                }
            }
            self.put_back(state, class, spot);
        }
    }

    /// Makes the classes set aside candidates again, from the first job that ranks after `spot`.
    fn reopen<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, spot: L::Spot) {
        while let Some(class) = self.scratch.set_aside.pop() {
            let class = class as usize;
            self.scratch.version[class] = self.scratch.version[class].wrapping_add(1);
            if let Some(owners) = &mut self.owners {
                owners.reopen(class);
            }
            self.put_back(state, class, spot);
        }
    }

    /// Makes a class a candidate again, from the first job that ranks after `spot`.
    fn put_back<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, class: usize, spot: L::Spot) {
        let next = match &mut self.owners {
            None => self.queue.next_behind(class, spot),
            Some(owners) => {
                owners.refresh(state, &self.queue);
                owners.next_behind(&self.queue, class, spot)
            }
        };
        self.scratch.add(class, next);
    }

    /// Returns the reservation of a blocked head (EASY only); the probe then holds the idle GPUs of its shadow time.
    ///
    /// The reservation of the previous pass stays valid if the head is the same and nothing happened since but
    /// completions it counted on and starts it allowed: neither moves the shadow time. Where feasibility depends on
    /// U, or on when servers will be down, it is always made anew.
    fn reserve<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> Option<Reservation> {
        let easy = self.easy.as_mut()?;
        let stands = state.placer.is_monotone() && !state.knows_windows();
        if stands && easy.held.is_some_and(|held| held.job == job) {
            return easy.held;
        }
        let ends = easy.by_end.iter().map(|&(end, _, slot)| (end, slot));
        let shadow = if state.knows_windows() {
            let estimate = self.estimates.reckoned(state, job);
            state.shadow_around(&mut easy.probe, &mut easy.masked, ends, job, estimate)
        } else {
            state.shadow_time(&mut easy.probe, ends, job)
        };
        easy.held = Some(Reservation { job, shadow });
        easy.held
    }
}
