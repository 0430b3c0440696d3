//! One service: its requests, its replicas, and what they do at each instant.
//!
//! Invariant: between two instants no replica is looked at that neither takes nor answers a request. A request is in
//! `waiting` or with a replica from its arrival to its answer. For example, if the only replica of tokens drains, a new
//! request waits, and those in the replica's queue stay there.

use super::Placed;
use super::batch::BatchReplica;
use super::columns::{Answers, Arrivals};
use super::dispatcher::{Dispatcher, Rank, rank};
use super::keys::Kind;
use super::tokens::{Log, TokenReplica};
use crate::ds::EventHeap;
use std::cmp::Reverse;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Service<'a> {
    kind: Kind,
    arrivals: Arrivals<'a>,
    /// The next request to arrive.
    next: u32,
    /// Requests that no replica has, in order.
    waiting: VecDeque<u32>,
    replicas: Vec<Replica>,
    free: Vec<u32>,
    /// The place of each in `replicas`, by number; `GONE` of one that ended.
    numbers: Vec<u32>,
    /// Replicas that do not serve yet, and when the first of them will.
    starting: Vec<(f64, u32)>,
    starts_at: f64,
    dispatcher: Dispatcher,
    /// When a replica next takes or answers a request.
    events: EventHeap,
    /// Replicas that begin a step at this instant.
    ready: Vec<u32>,
    tally: Tally,
}

/// What became of the requests that arrived.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    answered: u64,
    running: u64,
    begun_anew: u64,
    last_answer: f64,
}

#[derive(Clone, Debug)]
struct Replica {
    number: u32,
    rank: Rank,
    is_serving: bool,
    is_draining: bool,
    is_ready: bool,
    /// Seconds in which a step or a batch ran, without the spell under way.
    busy: f64,
    work: Work,
}

#[derive(Clone, Debug)]
enum Work {
    Batch(BatchReplica),
    Tokens(Box<TokenReplica>),
}

/// Stands for a replica that ended.
const GONE: u32 = u32::MAX;

/// Records what a replica does.
struct Recorder<'c, 'a> {
    arrivals: &'c Arrivals<'a>,
    answers: &'c mut Answers,
    tally: &'c mut Tally,
    number: u32,
}

impl Log for Recorder<'_, '_> {
    #[inline]
    fn taken(&mut self, request: u32, now: f64) {
        self.tally.running += 1;
        let row = self.arrivals.row(request);
        if let Some(start) = self.answers.start.get_mut(row) {
            *start = now;
            self.answers.replica[row] = self.number;
        }
    }

    #[inline]
    fn first_token(&mut self, request: u32, time: f64) {
        if let Some(first_token) = self.answers.first_token.get_mut(self.arrivals.row(request)) {
            *first_token = time;
        }
    }

    #[inline]
    fn answered(&mut self, request: u32, now: f64) {
        self.tally.running -= 1;
        self.tally.answered += 1;
        self.tally.last_answer = now;
        if let Some(finish) = self.answers.finish.get_mut(self.arrivals.row(request)) {
            *finish = now;
        }
    }
}

impl Replica {
    #[inline]
    fn assigned(&self) -> usize {
        match &self.work {
            Work::Batch(work) => work.taken.len(),
            Work::Tokens(work) => work.assigned(),
        }
    }
}

impl<'a> Service<'a> {
    pub(super) fn new(kind: Kind, arrivals: Arrivals<'a>) -> Self {
        Self {
            kind,
            arrivals,
            next: 0,
            waiting: VecDeque::new(),
            replicas: Vec::new(),
            free: Vec::new(),
            numbers: Vec::new(),
            starting: Vec::new(),
            starts_at: f64::INFINITY,
            dispatcher: Dispatcher::new(),
            events: EventHeap::default(),
            ready: Vec::new(),
            tally: Tally::default(),
        }
    }

    pub(super) fn unanswered(&self) -> u64 {
        u64::from(self.next) - self.tally.answered
    }

    pub(super) fn running(&self) -> u64 {
        self.tally.running
    }

    pub(super) fn serving(&self) -> usize {
        self.dispatcher.len()
    }

    pub(super) fn begun_anew(&self) -> u64 {
        self.tally.begun_anew
    }

    /// Returns when the last request was answered, if all are.
    pub(super) fn last_answer(&self) -> Option<f64> {
        (self.tally.answered == self.arrivals.len() as u64).then_some(self.tally.last_answer)
    }

    fn replica(&self, number: u32) -> Option<&Replica> {
        let slot = *self.numbers.get(number as usize)?;
        self.replicas.get(slot as usize)
    }

    pub(super) fn assigned(&self, number: u32) -> usize {
        self.replica(number).map_or(0, Replica::assigned)
    }

    pub(super) fn surplus(&self) -> Option<u32> {
        let held = self
            .replicas
            .iter()
            .enumerate()
            .filter(|&(at, replica)| self.numbers[replica.number as usize] == at as u32);
        let staying = held.map(|(_, replica)| replica).filter(|replica| !replica.is_draining);
        staying.min_by_key(|replica| (replica.assigned(), Reverse(replica.rank))).map(|replica| replica.number)
    }

    // Time.

    /// Returns when something next happens.
    #[inline]
    pub(super) fn next_at(&self) -> f64 {
        let arrival =
            if (self.next as usize) < self.arrivals.len() { self.arrivals.arrival(self.next) } else { f64::INFINITY };
        let event = self.events.peek().map_or(f64::INFINITY, |(time, _)| time);
        arrival.min(event).min(self.starts_at).min(self.batch_at())
    }

    /// Returns when the head of the queue has waited, if a replica is idle.
    #[inline]
    fn batch_at(&self) -> f64 {
        match (&self.kind, self.waiting.front()) {
            (Kind::Batch(keys), Some(&head)) if self.dispatcher.fewest().is_some_and(|(_, assigned)| assigned == 0) => {
                self.arrivals.arrival(head) + keys.max_wait
            }
            _ => f64::INFINITY,
        }
    }

    /// Does all there is before an instant, and the completions at it.
    pub(super) fn run_until(&mut self, now: f64, answers: &mut Answers) {
        loop {
            let next = self.next_at();
            if next >= now {
                break;
            }
            self.complete(next, answers);
            self.settle(next, answers);
        }
        self.complete(now, answers);
    }

    fn complete(&mut self, now: f64, answers: &mut Answers) {
        while let Some((time, slot)) = self.events.peek()
            && time <= now
        {
            self.complete_one(slot, time, answers);
        }
    }

    /// Ends the steps or the batch of a replica.
    fn complete_one(&mut self, at: u32, now: f64, answers: &mut Answers) {
        self.events.remove(at);
        let replica = &mut self.replicas[at as usize];
        let mut recorder =
            Recorder { arrivals: &self.arrivals, answers, tally: &mut self.tally, number: replica.number };
        match &mut replica.work {
            Work::Batch(work) => {
                for request in work.taken.drain(..) {
                    recorder.answered(request, now);
                }
                replica.busy += now - work.began;
                work.until = f64::INFINITY;
                self.dispatcher.set(at, 0);
            }
            Work::Tokens(work) => {
                let spell = work.spell().unwrap_or(now);
                if work.complete(&mut recorder) > 0 {
                    self.dispatcher.set(at, work.assigned());
                }
                if work.spell().is_none() {
                    replica.busy += now - spell;
                } else {
                    replica.is_ready = true;
                    self.ready.push(at);
                }
            }
        }
    }

    /// Does the rest of an instant: replicas begin to serve, requests are dealt out and arrive, work begins.
    pub(super) fn settle(&mut self, now: f64, answers: &mut Answers) {
        if self.starts_at <= now {
            self.begin_to_serve(now);
        }
        let replicas = &self.replicas;
        self.dispatcher.refresh(|slot| replicas[slot as usize].assigned());
        let is_batch = matches!(self.kind, Kind::Batch(_));
        if !is_batch && !self.waiting.is_empty() && self.dispatcher.len() > 0 {
            for request in std::mem::take(&mut self.waiting) {
                self.deal(request, now, answers);
            }
        }
        while (self.next as usize) < self.arrivals.len() && self.arrivals.arrival(self.next) <= now {
            let request = self.next;
            self.next += 1;
            if is_batch || self.dispatcher.len() == 0 {
                self.waiting.push_back(request);
            } else {
                self.deal(request, now, answers);
            }
        }
        if is_batch {
            self.begin_batches(now, answers);
        } else {
            self.begin_steps(now, answers);
        }
    }

    fn begin_to_serve(&mut self, now: f64) {
        for (time, slot) in std::mem::take(&mut self.starting) {
            if time <= now {
                self.replicas[slot as usize].is_serving = true;
                self.dispatcher.add(self.replicas[slot as usize].rank, slot);
            } else {
                self.starting.push((time, slot));
            }
        }
        self.find_start();
    }

    fn find_start(&mut self) {
        self.starts_at = self.starting.iter().fold(f64::INFINITY, |least, &(time, _)| least.min(time));
    }

    /// Gives a request to the replica with the fewest.
    fn deal(&mut self, request: u32, now: f64, answers: &mut Answers) {
        let Some((at, assigned)) = self.dispatcher.fewest() else { return };
        self.dispatcher.set(at, assigned + 1);
        let replica = &mut self.replicas[at as usize];
        let (Work::Tokens(work), Kind::Tokens(keys)) = (&mut replica.work, &self.kind) else { return };
        if work.queue(request, now, &self.arrivals, keys) {
            if work.until() > now {
                self.events.set(at, work.until(), at);
            } else {
                self.complete_one(at, now, answers);
            }
        } else if work.until() == f64::INFINITY && !replica.is_ready {
            replica.is_ready = true;
            self.ready.push(at);
        }
    }

    fn begin_steps(&mut self, now: f64, answers: &mut Answers) {
        let Kind::Tokens(keys) = &self.kind else { return };
        for at in self.ready.drain(..) {
            let replica = &mut self.replicas[at as usize];
            replica.is_ready = false;
            let Work::Tokens(work) = &mut replica.work else { continue };
            let mut recorder =
                Recorder { arrivals: &self.arrivals, answers, tally: &mut self.tally, number: replica.number };
            work.begin(now, &self.arrivals, keys, &mut recorder);
            self.events.set(at, work.until(), at);
        }
    }

    fn begin_batches(&mut self, now: f64, answers: &mut Answers) {
        let Kind::Batch(keys) = &self.kind else { return };
        let largest = keys.largest();
        while let Some(&head) = self.waiting.front()
            && (self.waiting.len() >= largest || now >= self.arrivals.arrival(head) + keys.max_wait)
            && let Some((at, 0)) = self.dispatcher.fewest()
        {
            let replica = &mut self.replicas[at as usize];
            let Work::Batch(work) = &mut replica.work else { return };
            let size = self.waiting.len().min(largest);
            work.taken.extend(self.waiting.drain(..size));
            work.began = now;
            work.until = now + keys.time(size) / work.speed;
            let mut recorder =
                Recorder { arrivals: &self.arrivals, answers, tally: &mut self.tally, number: replica.number };
            for &request in &work.taken {
                recorder.taken(request, now);
            }
            self.dispatcher.set(at, size);
            self.events.set(at, work.until, at);
        }
    }

    // Replicas come and go.

    pub(super) fn place(&mut self, placed: Placed) -> u32 {
        let number = self.numbers.len() as u32;
        let work = match &self.kind {
            Kind::Batch(_) => Work::Batch(BatchReplica::new(placed.speed)),
            Kind::Tokens(keys) => Work::Tokens(Box::new(TokenReplica::new(keys.rates(placed.speed)))),
        };
        let replica = Replica {
            number,
            rank: rank(placed.serves_from, placed.start, placed.server, number),
            is_serving: false,
            is_draining: false,
            is_ready: false,
            busy: 0.0,
            work,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.replicas[at as usize] = replica;
                at
            }
            None => {
                self.replicas.push(replica);
                self.replicas.len() as u32 - 1
            }
        };
        self.numbers.push(at);
        self.starting.push((placed.serves_from, at));
        self.starts_at = self.starts_at.min(placed.serves_from);
        number
    }

    pub(super) fn drain(&mut self, number: u32, now: f64) -> f64 {
        let Some(&at) = self.numbers.get(number as usize).filter(|&&at| at != GONE) else { return now };
        self.leave(at);
        let replica = &mut self.replicas[at as usize];
        replica.is_draining = true;
        match (&replica.work, &self.kind) {
            (Work::Tokens(work), Kind::Tokens(keys)) => work.done_at(now, &self.arrivals, keys),
            (Work::Batch(work), _) if work.until < f64::INFINITY => work.until,
            _ => now,
        }
    }

    /// A replica takes no new requests.
    fn leave(&mut self, at: u32) {
        let replica = &self.replicas[at as usize];
        if replica.is_serving {
            self.dispatcher.remove(replica.rank);
        } else {
            self.starting.retain(|&(_, other)| other != at);
            self.find_start();
        }
    }

    pub(super) fn end(&mut self, number: u32, now: f64, answers: &mut Answers) -> f64 {
        let Some(at) = self.numbers.get_mut(number as usize).filter(|at| **at != GONE) else { return 0.0 };
        let at = std::mem::replace(at, GONE);
        if !self.replicas[at as usize].is_draining {
            self.leave(at);
        }
        self.events.remove(at);
        self.ready.retain(|&other| other != at);
        self.free.push(at);
        let replica = &mut self.replicas[at as usize];
        let given = self.waiting.len();
        let mut taken: Vec<u32> = Vec::new();
        match &mut replica.work {
            Work::Batch(work) => {
                if work.until < f64::INFINITY {
                    replica.busy += now - work.began;
                }
                taken.append(&mut work.taken);
            }
            Work::Tokens(work) => {
                replica.busy += work.spell().map_or(0.0, |spell| now - spell);
                taken.extend(work.requests_taken());
                self.waiting.extend(work.queue.drain(..));
            }
        }
        for &request in &taken {
            answers.give_back(self.arrivals.row(request), now);
        }
        self.tally.running -= taken.len() as u64;
        self.tally.begun_anew += taken.len() as u64;
        self.waiting.extend(taken);
        if self.waiting.len() > given {
            self.waiting.make_contiguous().sort_unstable();
        }
        replica.busy
    }
}
