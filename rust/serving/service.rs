//! One service: its requests, its replicas, and what they do at each instant.
//!
//! Invariant: between two instants no replica is looked at that neither takes nor answers a request. A request is in
//! `waiting` or with a replica from its arrival to its answer. For example, if the only replica of tokens drains, a new
//! request waits, and those in the replica's queue stay there.

use super::Placed;
use super::batch::BatchReplica;
use super::columns::{Answers, Line};
use super::crew::{Crew, Rank, rank};
use super::keys::Kind;
use super::tokens::{TokenReplica, Told};
use crate::ds::EventHeap;
use std::cmp::Reverse;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Service<'a> {
    kind: Kind,
    line: Line<'a>,
    /// The next request to arrive.
    next: u32,
    /// Requests that no replica has, in order.
    waiting: VecDeque<u32>,
    seats: Vec<Seat>,
    free: Vec<u32>,
    /// The seat of each replica, by number; `GONE` of one that ended.
    numbers: Vec<u32>,
    /// Replicas that do not serve yet, and when the first of them will.
    starting: Vec<(f64, u32)>,
    starts_at: f64,
    crew: Crew,
    /// When a seat next takes or answers a request.
    events: EventHeap,
    /// Seats that begin a step at this instant.
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
struct Seat {
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

/// Writes down what a replica tells.
struct Clerk<'c, 'a> {
    line: &'c Line<'a>,
    answers: &'c mut Answers,
    tally: &'c mut Tally,
    number: u32,
}

impl Told for Clerk<'_, '_> {
    #[inline]
    fn taken(&mut self, request: u32, now: f64) {
        self.tally.running += 1;
        let row = self.line.row(request);
        if let Some(start) = self.answers.start.get_mut(row) {
            *start = now;
            self.answers.replica[row] = self.number;
        }
    }

    #[inline]
    fn first_token(&mut self, request: u32, time: f64) {
        if let Some(first_token) = self.answers.first_token.get_mut(self.line.row(request)) {
            *first_token = time;
        }
    }

    #[inline]
    fn answered(&mut self, request: u32, now: f64) {
        self.tally.running -= 1;
        self.tally.answered += 1;
        self.tally.last_answer = now;
        if let Some(finish) = self.answers.finish.get_mut(self.line.row(request)) {
            *finish = now;
        }
    }
}

impl Seat {
    #[inline]
    fn assigned(&self) -> usize {
        match &self.work {
            Work::Batch(replica) => replica.taken.len(),
            Work::Tokens(replica) => replica.assigned(),
        }
    }
}

impl<'a> Service<'a> {
    pub(super) fn new(kind: Kind, line: Line<'a>) -> Self {
        Self {
            kind,
            line,
            next: 0,
            waiting: VecDeque::new(),
            seats: Vec::new(),
            free: Vec::new(),
            numbers: Vec::new(),
            starting: Vec::new(),
            starts_at: f64::INFINITY,
            crew: Crew::new(),
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
        self.crew.len()
    }

    pub(super) fn begun_anew(&self) -> u64 {
        self.tally.begun_anew
    }

    /// Returns when the last request was answered, if all are.
    pub(super) fn last_answer(&self) -> Option<f64> {
        (self.tally.answered == self.line.len() as u64).then_some(self.tally.last_answer)
    }

    fn seat(&self, number: u32) -> Option<&Seat> {
        let seat = *self.numbers.get(number as usize)?;
        self.seats.get(seat as usize)
    }

    pub(super) fn assigned(&self, number: u32) -> usize {
        self.seat(number).map_or(0, Seat::assigned)
    }

    pub(super) fn surplus(&self) -> Option<u32> {
        let held = self.seats.iter().enumerate().filter(|&(at, seat)| self.numbers[seat.number as usize] == at as u32);
        let staying = held.map(|(_, seat)| seat).filter(|seat| !seat.is_draining);
        staying.min_by_key(|seat| (seat.assigned(), Reverse(seat.rank))).map(|seat| seat.number)
    }

    // Time.

    /// Returns when something next happens.
    #[inline]
    pub(super) fn next_at(&self) -> f64 {
        let arrival = if (self.next as usize) < self.line.len() { self.line.arrival(self.next) } else { f64::INFINITY };
        let event = self.events.peek().map_or(f64::INFINITY, |(time, _)| time);
        arrival.min(event).min(self.starts_at).min(self.batch_at())
    }

    /// Returns when the head of the queue has waited, if a replica is idle.
    #[inline]
    fn batch_at(&self) -> f64 {
        match (&self.kind, self.waiting.front()) {
            (Kind::Batch(keys), Some(&head)) if self.crew.fewest().is_some_and(|(_, assigned)| assigned == 0) => {
                self.line.arrival(head) + keys.max_wait
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
        while let Some((time, seat)) = self.events.peek()
            && time <= now
        {
            self.complete_one(seat, time, answers);
        }
    }

    /// Ends the steps or the batch of a seat.
    fn complete_one(&mut self, at: u32, now: f64, answers: &mut Answers) {
        self.events.remove(at);
        let seat = &mut self.seats[at as usize];
        let mut clerk = Clerk { line: &self.line, answers, tally: &mut self.tally, number: seat.number };
        match &mut seat.work {
            Work::Batch(replica) => {
                for request in replica.taken.drain(..) {
                    clerk.answered(request, now);
                }
                seat.busy += now - replica.began;
                replica.until = f64::INFINITY;
                self.crew.set(at, 0);
            }
            Work::Tokens(replica) => {
                let spell = replica.spell().unwrap_or(now);
                if replica.complete(&mut clerk) > 0 {
                    self.crew.set(at, replica.assigned());
                }
                if replica.spell().is_none() {
                    seat.busy += now - spell;
                } else {
                    seat.is_ready = true;
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
        let seats = &self.seats;
        self.crew.refresh(|seat| seats[seat as usize].assigned());
        let is_batch = matches!(self.kind, Kind::Batch(_));
        if !is_batch && !self.waiting.is_empty() && self.crew.len() > 0 {
            for request in std::mem::take(&mut self.waiting) {
                self.deal(request, now, answers);
            }
        }
        while (self.next as usize) < self.line.len() && self.line.arrival(self.next) <= now {
            let request = self.next;
            self.next += 1;
            if is_batch || self.crew.len() == 0 {
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
        for (time, seat) in std::mem::take(&mut self.starting) {
            if time <= now {
                self.seats[seat as usize].is_serving = true;
                self.crew.add(self.seats[seat as usize].rank, seat);
            } else {
                self.starting.push((time, seat));
            }
        }
        self.find_start();
    }

    fn find_start(&mut self) {
        self.starts_at = self.starting.iter().fold(f64::INFINITY, |least, &(time, _)| least.min(time));
    }

    /// Gives a request to the replica with the fewest.
    fn deal(&mut self, request: u32, now: f64, answers: &mut Answers) {
        let Some((at, assigned)) = self.crew.fewest() else { return };
        self.crew.set(at, assigned + 1);
        let seat = &mut self.seats[at as usize];
        let (Work::Tokens(replica), Kind::Tokens(keys)) = (&mut seat.work, &self.kind) else { return };
        if replica.queue(request, now, &self.line, keys) {
            if replica.until() > now {
                self.events.set(at, replica.until(), at);
            } else {
                self.complete_one(at, now, answers);
            }
        } else if replica.until() == f64::INFINITY && !seat.is_ready {
            seat.is_ready = true;
            self.ready.push(at);
        }
    }

    fn begin_steps(&mut self, now: f64, answers: &mut Answers) {
        let Kind::Tokens(keys) = &self.kind else { return };
        for at in self.ready.drain(..) {
            let seat = &mut self.seats[at as usize];
            seat.is_ready = false;
            let Work::Tokens(replica) = &mut seat.work else { continue };
            let mut clerk = Clerk { line: &self.line, answers, tally: &mut self.tally, number: seat.number };
            replica.begin(now, &self.line, keys, &mut clerk);
            self.events.set(at, replica.until(), at);
        }
    }

    fn begin_batches(&mut self, now: f64, answers: &mut Answers) {
        let Kind::Batch(keys) = &self.kind else { return };
        let largest = keys.largest();
        while let Some(&head) = self.waiting.front()
            && (self.waiting.len() >= largest || now >= self.line.arrival(head) + keys.max_wait)
            && let Some((at, 0)) = self.crew.fewest()
        {
            let seat = &mut self.seats[at as usize];
            let Work::Batch(replica) = &mut seat.work else { return };
            let size = self.waiting.len().min(largest);
            replica.taken.extend(self.waiting.drain(..size));
            replica.began = now;
            replica.until = now + keys.time(size) / replica.speed;
            let mut clerk = Clerk { line: &self.line, answers, tally: &mut self.tally, number: seat.number };
            for &request in &replica.taken {
                clerk.taken(request, now);
            }
            self.crew.set(at, size);
            self.events.set(at, replica.until, at);
        }
    }

    // What it is told.

    pub(super) fn place(&mut self, placed: Placed) -> u32 {
        let number = self.numbers.len() as u32;
        let work = match &self.kind {
            Kind::Batch(_) => Work::Batch(BatchReplica::new(placed.speed)),
            Kind::Tokens(keys) => Work::Tokens(Box::new(TokenReplica::new(keys.rates(placed.speed)))),
        };
        let seat = Seat {
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
                self.seats[at as usize] = seat;
                at
            }
            None => {
                self.seats.push(seat);
                self.seats.len() as u32 - 1
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
        let seat = &mut self.seats[at as usize];
        seat.is_draining = true;
        match (&seat.work, &self.kind) {
            (Work::Tokens(replica), Kind::Tokens(keys)) => replica.done_at(now, &self.line, keys),
            (Work::Batch(replica), _) if replica.until < f64::INFINITY => replica.until,
            _ => now,
        }
    }

    /// A seat takes no new requests.
    fn leave(&mut self, at: u32) {
        let seat = &self.seats[at as usize];
        if seat.is_serving {
            self.crew.remove(seat.rank);
        } else {
            self.starting.retain(|&(_, other)| other != at);
            self.find_start();
        }
    }

    pub(super) fn end(&mut self, number: u32, now: f64, answers: &mut Answers) -> f64 {
        let Some(at) = self.numbers.get_mut(number as usize).filter(|at| **at != GONE) else { return 0.0 };
        let at = std::mem::replace(at, GONE);
        if !self.seats[at as usize].is_draining {
            self.leave(at);
        }
        self.events.remove(at);
        self.ready.retain(|&other| other != at);
        self.free.push(at);
        let seat = &mut self.seats[at as usize];
        let given = self.waiting.len();
        let mut taken: Vec<u32> = Vec::new();
        match &mut seat.work {
            Work::Batch(replica) => {
                if replica.until < f64::INFINITY {
                    seat.busy += now - replica.began;
                }
                taken.append(&mut replica.taken);
            }
            Work::Tokens(replica) => {
                seat.busy += replica.spell().map_or(0.0, |spell| now - spell);
                taken.extend(replica.requests_taken());
                self.waiting.extend(replica.queue.drain(..));
            }
        }
        for &request in &taken {
            answers.give_back(self.line.row(request), now);
        }
        self.tally.running -= taken.len() as u64;
        self.tally.begun_anew += taken.len() as u64;
        self.waiting.extend(taken);
        if self.waiting.len() > given {
            self.waiting.make_contiguous().sort_unstable();
        }
        seat.busy
    }
}
