//! Answers requests of services: an engine of its own beside the machine.
//!
//! It knows requests and replicas, and neither jobs nor servers. It is told when a replica gets its GPUs, drains and
//! ends, and tells how many requests are not answered, when a draining replica has nothing left and, at the end, who
//! answered what. Between two calls it runs by itself. An instant goes so:
//!
//! 1. [`Serving::run_until`]: batches and steps that end at it are completed.
//! 2. The caller ends, drains and places replicas: [`Serving::end`], [`Serving::drain`], [`Serving::place`].
//! 3. [`Serving::settle`]: replicas begin to serve; requests given back and those that wait are dealt out by (arrival,
//!    row); requests arrive; batches and steps begin.
//!
//! Invariant: what a run gives does not depend on the instants at which the caller looks. For example, a caller that
//! runs up to each tick sees the same answers as one that runs to the end at once.

mod batch;
mod columns;
mod dispatcher;
mod given;
mod keys;
mod scale;
mod service;
mod tokens;

pub use columns::{Answers, NO_REPLICA, Requests};
pub use given::{Answering, ServiceKeys};
pub use keys::{Batch, Kind, Tokens};
pub use scale::{Autoscaler, Target};

use crate::error::Result;
use service::Service;

/// A replica that gets its GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    /// When it gets them, s: now.
    pub start: f64,
    /// When it begins to serve, s.
    pub serves_from: f64,
    /// The server, which orders replicas of one start.
    pub server: u32,
    /// The speed of its GPU type, divided by that of the first type.
    pub speed: f64,
}

/// The services of a run. A clone goes on alike, and keeps no columns of answers: it costs little.
#[derive(Debug)]
pub struct Serving<'a> {
    services: Vec<Service<'a>>,
    answers: Answers,
    now: f64,
    /// Whether the rest of `now` is still to be done.
    is_open: bool,
}

impl<'a> Serving<'a> {
    /// Returns services at the beginning, in the order of `kinds`.
    pub fn new(kinds: Vec<Kind>, requests: Requests<'a>) -> Result<Self> {
        check(&kinds, requests)?;
        Ok(Self::of(kinds, requests))
    }

    /// Returns the same of checked ones.
    fn of(kinds: Vec<Kind>, requests: Requests<'a>) -> Self {
        let arrivals = requests.arrivals(kinds.len());
        Self {
            services: kinds.into_iter().zip(arrivals).map(|(kind, arrivals)| Service::new(kind, arrivals)).collect(),
            answers: Answers::new(requests.arrival.len()),
            now: f64::NEG_INFINITY,
            is_open: false,
        }
    }

    /// Returns who answered what so far.
    #[must_use]
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Gives a clone the answers of what it is a clone of.
    pub fn keep(&mut self, answers: Answers) {
        self.answers = answers;
    }

    /// Returns the next instant at which a request arrives, is taken or is answered, or a replica begins to serve;
    /// infinity if there is none.
    #[must_use]
    pub fn next_at(&self) -> f64 {
        if self.is_open {
            return self.now;
        }
        self.services.iter().map(Service::next_at).fold(f64::INFINITY, f64::min)
    }

    /// Does all there is before an instant, and the completions at it. Instants do not go back.
    pub fn run_until(&mut self, now: f64) {
        if self.is_open {
            if now <= self.now {
                return;
            }
            self.settle();
        }
        for service in &mut self.services {
            service.run_until(now, &mut self.answers);
        }
        (self.now, self.is_open) = (now, true);
    }

    /// Does the rest of the instant of [`run_until`](Self::run_until), if it is still to be done.
    pub fn settle(&mut self) {
        if !self.is_open {
            return;
        }
        for service in &mut self.services {
            service.settle(self.now, &mut self.answers);
        }
        self.is_open = false;
    }

    /// Does the same if that instant is not after `now`.
    pub fn settle_by(&mut self, now: f64) {
        if self.now <= now {
            self.settle();
        }
    }

    /// A replica gets its GPUs. Returns its number among those of its service.
    pub fn place(&mut self, service: usize, placed: Placed) -> u32 {
        self.services[service].place(placed)
    }

    /// A replica takes no new request from now on. Returns when it has nothing left, s: now if it has nothing.
    pub fn drain(&mut self, service: usize, replica: u32) -> f64 {
        self.services[service].drain(replica, self.now)
    }

    /// A replica has no GPUs any more. What it has is given back. Returns how long a step or a batch ran on it, s.
    pub fn end(&mut self, service: usize, replica: u32) -> f64 {
        self.services[service].end(replica, self.now, &mut self.answers)
    }

    /// Returns how many requests arrived and have no answer; those that arrive now are not among them before
    /// [`settle`](Self::settle).
    #[must_use]
    pub fn unanswered(&self, service: usize) -> u64 {
        self.services[service].unanswered()
    }

    /// Returns how many requests replicas have taken and not answered.
    #[must_use]
    pub fn running(&self, service: usize) -> u64 {
        self.services[service].running()
    }

    /// Returns how many replicas take new requests.
    #[must_use]
    pub fn serving(&self, service: usize) -> usize {
        self.services[service].serving()
    }

    /// Returns how many requests a replica has.
    #[must_use]
    pub fn assigned(&self, service: usize, replica: u32) -> usize {
        self.services[service].assigned(replica)
    }

    /// Returns the replica that goes first where a service has too many: of those that do not drain the one with the
    /// fewest requests, then the latest start, then the higher row of replicas.parquet.
    #[must_use]
    pub fn surplus(&self, service: usize) -> Option<u32> {
        self.services[service].surplus()
    }

    /// Returns how often a request that had been taken was given back.
    #[must_use]
    pub fn begun_anew(&self, service: usize) -> u64 {
        self.services[service].begun_anew()
    }

    /// Returns when the last request was answered, s, if all are; 0 if there are none.
    #[must_use]
    pub fn last_answer(&self) -> Option<f64> {
        self.services.iter().try_fold(0.0, |last: f64, service| Some(last.max(service.last_answer()?)))
    }

    /// Returns who answered what.
    #[must_use]
    pub fn into_answers(self) -> Answers {
        self.answers
    }
}

impl Clone for Serving<'_> {
    fn clone(&self) -> Self {
        Self { services: self.services.clone(), answers: Answers::default(), ..*self }
    }
}

fn check(kinds: &[Kind], requests: Requests<'_>) -> Result<()> {
    kinds.iter().try_for_each(Kind::check)?;
    requests.check(kinds)
}
