//! One scheduling pass: the queue disciplines (docs/model.md#queue-disciplines).
//!
//! Jobs of one size stand or fall together, so a size that cannot be placed costs one trial, and one more after a
//! start that may change the answer. For example, if no server has 8 idle GPUs for `consolidate`, a thousand waiting
//! jobs of 8 GPUs cost a `skip` pass one trial.

use super::{Line, Queued, Reservation};
use crate::ids::Job;
use crate::machine::Floor;
use crate::options::Discipline;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a pass keeps for the next, so that it allocates nothing.
#[derive(Clone, Debug)]
pub(super) struct Scratch<T> {
    /// Classes still in the running: (spot of the job looked at, class, version).
    candidates: BinaryHeap<Reverse<(T, u32, u32)>>,
    /// Candidates of an older version of their class are void.
    version: Vec<u32>,
    /// Classes passed over that a change of state puts back in the running.
    set_aside: Vec<u32>,
}

impl<T: Copy + Ord> Scratch<T> {
    pub(super) fn new(classes: usize) -> Self {
        Self { candidates: BinaryHeap::new(), version: vec![0; classes], set_aside: Vec::new() }
    }

    #[inline(always)]
    fn add(&mut self, class: usize, spot: Option<T>) {
        if let Some(spot) = spot {
            self.candidates.push(Reverse((spot, class as u32, self.version[class])));
        }
    }

    /// The next candidate in queue order: (spot, class).
    #[inline(always)]
    fn next(&mut self) -> Option<(T, usize)> {
        while let Some(Reverse((spot, class, version))) = self.candidates.pop() {
            if self.version[class as usize] == version {
                return Some((spot, class as usize));
            }
        }
        None
    }
}

impl<L: Line> Queued<'_, L> {
    /// `strict`: starts jobs from the head on until one cannot be placed.
    ///
    /// Returns whether a job was evicted, which may be of a place in the line that the pass had left behind.
    pub(super) fn head_by_head<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> bool {
        let mut evicts = false;
        let mut next = self.line.first_of_all();
        while let Some(spot) = next {
            let job = self.line.job_at(spot);
            let placed = floor.place(job);
            if !placed && !self.place_by_evicting(floor, job) {
                break;
            }
            evicts |= !placed;
            self.start(floor, job);
            next = if evicts { self.line.next_behind(0, spot) } else { self.line.first_of_all() };
        }
        evicts
    }

    /// `skip` and `easy`, and `strict` with quotas. Looks at the waiting jobs in queue order, once each, but at a size that cannot be placed only
    /// once: the jobs of a size stand or fall together, save for EASY's question whether they end before the shadow
    /// time.
    ///
    /// Returns whether a job that was passed over might be taken in a second pass: one started after it, and that can
    /// change where it would go. Under the slot clock the next boundary is such a pass, even if nothing happens there.
    pub(super) fn past_the_head<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> bool {
        let monotone = floor.placer.is_monotone();
        let (easy, strict) = (self.discipline == Discipline::Easy, self.discipline == Discipline::Strict);
        let makes_room = floor.makes_room();
        let now = floor.seconds();
        let mut reservation: Option<Reservation> = None;
        let mut head: Option<Job> = None;
        let (mut passed_over, mut again) = (false, false);
        self.scratch.candidates.clear();
        self.scratch.set_aside.clear();
        for class in 0..self.line.classes() {
            self.scratch.add(class, self.line.first(class));
        }
        while let Some((spot, class)) = self.scratch.next() {
            if floor.cluster.idle_units() == 0 && !makes_room {
                break;
            }
            let job = self.line.job_at(spot);
            if floor.is_held_back(job) {
                continue;
            }
            if let (Some(blocked), None) = (head, reservation) {
                if u64::from(floor.asks(job)) > floor.cluster.idle_units() {
                    continue;
                }
                reservation = self.reserve(floor, blocked);
            }
            let short = |estimate: f64| reservation.is_none_or(|r| now + estimate <= r.shadow);
            let in_time = self.easy.as_ref().is_none_or(|easy| short(easy.reckoned(floor, job)));
            let rng = (!in_time).then(|| floor.placer.rng());
            let placed = floor.place(job);
            let evicts = !placed && head.is_none() && self.place_by_evicting(floor, job);
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
                continue;
            }
            if let (Some(held), Some(rng), Some(easy)) = (reservation, rng, &mut self.easy) {
                easy.probe.take(&floor.cluster, &floor.grant.parts);
                if !floor.fits(&easy.probe, held.job) {
                    easy.probe.give(&floor.cluster, &floor.grant.parts);
                    floor.undo(job, rng);
                    passed_over = true;
                    let next = if monotone {
                        // Its like get the same GPUs, so only those that end in time are worth a look.
                        self.scratch.set_aside.push(class as u32);
                        self.line.next_short(class, spot, short)
                    } else {
                        self.line.next(class, spot)
                    };
                    self.scratch.add(class, next);
                    continue;
                }
            }
            if let (None, Some(easy)) = (head, &mut self.easy) {
                // Started without regard to an older claim.
                easy.held = None;
            }
            self.start(floor, job);
            // Those that went may leave more room than the job takes, and go back to their places in the line.
            again |= passed_over || evicts;
            if evicts {
                self.begin_behind(spot);
            } else {
                self.scratch.add(class, self.line.next(class, spot));
                self.reopen(spot);
            }
        }
        again
    }

    /// Goes on with whoever ranks after `spot` now, in every class.
    fn begin_behind(&mut self, spot: L::Spot) {
        self.scratch.candidates.clear();
        self.scratch.set_aside.clear();
        for class in 0..self.line.classes() {
            self.scratch.add(class, self.line.next_behind(class, spot));
        }
    }

    /// Puts the classes set aside back in the running, from the first job that ranks after `spot`.
    fn reopen(&mut self, spot: L::Spot) {
        while let Some(class) = self.scratch.set_aside.pop() {
            let class = class as usize;
            self.scratch.version[class] = self.scratch.version[class].wrapping_add(1);
            self.scratch.add(class, self.line.next_behind(class, spot));
        }
    }

    /// The claim of a blocked head (EASY only); the probe then holds the idle GPUs of its shadow time.
    ///
    /// The claim of the pass before stands if the head is the same and nothing happened since but completions it
    /// counted on and starts it allowed: neither moves the shadow time. Where feasibility hangs on U it is always made
    /// anew.
    fn reserve<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) -> Option<Reservation> {
        let easy = self.easy.as_mut()?;
        if easy.held.is_some_and(|held| held.job == job) && floor.placer.is_monotone() {
            return easy.held;
        }
        let ends = easy.by_end.iter().map(|&(end, _, slot)| (end, slot));
        let shadow = floor.shadow_time(&mut easy.probe, ends, job);
        easy.held = Some(Reservation { job, shadow });
        easy.held
    }
}
