//! A replica that answers token by token, in steps.
//!
//! Invariant: between two instants at which a replica takes or answers requests all its steps are alike, but for the
//! first, which takes what was new. So the steps up to any one of them are a sum of whole picoseconds, and no step
//! between is looked at. For example, 50 steps of 11 ms with one request of 51 tokens and 10 us a token held end
//! 50 x 11 ms + 10 us x (51 + ... + 100) = 587.75 ms later.

use super::columns::Arrivals;
use super::keys::{Rates, Tokens};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Takes note of what happens to requests.
pub(super) trait Log {
    fn taken(&mut self, request: u32, now: f64);
    fn first_token(&mut self, request: u32, time: f64);
    fn answered(&mut self, request: u32, now: f64);
}

/// Takes no note.
struct NoLog;

impl Log for NoLog {
    fn taken(&mut self, _: u32, _: f64) {}
    fn first_token(&mut self, _: u32, _: f64) {}
    fn answered(&mut self, _: u32, _: f64) {}
}

/// Input and output tokens of a request, and the number of the step at whose end it is answered.
type Running = Reverse<(u64, u64, u32)>;

#[derive(Clone, Debug)]
pub(super) struct TokenReplica {
    rates: Rates,
    pub(super) queue: VecDeque<u32>,
    /// The requests whose prompt is complete.
    running: BinaryHeap<Running>,
    /// The request whose prompt was taken in part, and the tokens left.
    part: Option<(u32, u64)>,
    /// Tokens reserved by the two.
    reserved: u64,
    /// Tokens that `running` holds.
    held: u64,
    /// When the spell began; none between two spells.
    spell: Option<f64>,
    /// The steps of the spell so far, ps; and the number of steps ever.
    sum: u128,
    steps: u64,
    jump: Jump,
}

/// Steps that are under way.
#[derive(Clone, Copy, Debug)]
struct Jump {
    /// The first step, ps.
    first: u128,
    /// Each of the others without the tokens held, ps.
    each: u128,
    /// Tokens held in the second.
    held: u64,
    /// Input tokens that each of the others takes.
    chunk: u64,
    /// How many end before something changes, and when the last of them ends; infinity if no step is under way.
    steps: u64,
    until: f64,
}

impl TokenReplica {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            queue: VecDeque::new(),
            running: BinaryHeap::new(),
            part: None,
            reserved: 0,
            held: 0,
            spell: None,
            sum: 0,
            steps: 0,
            jump: Jump { first: 0, each: 0, held: 0, chunk: 0, steps: 0, until: f64::INFINITY },
        }
    }

    /// Returns when it next takes or answers a request; infinity if no step is under way.
    pub(super) fn until(&self) -> f64 {
        self.jump.until
    }

    /// Returns how many requests it has taken.
    pub(super) fn taken(&self) -> usize {
        self.running.len() + usize::from(self.part.is_some())
    }

    pub(super) fn assigned(&self) -> usize {
        self.taken() + self.queue.len()
    }

    /// Returns when its spell began, if it is in one.
    pub(super) fn spell(&self) -> Option<f64> {
        self.spell
    }

    /// Returns the picoseconds of the first `steps` steps under way.
    fn through(&self, steps: u64) -> u128 {
        let Some(others) = steps.checked_sub(1) else { return 0 };
        let (jump, others) = (&self.jump, u128::from(others));
        let plain = jump.first.saturating_add(jump.each.saturating_mul(others));
        if self.rates.context == 0 {
            return plain;
        }
        let grown = (self.running.len() as u128).saturating_mul(others.saturating_mul(others.saturating_sub(1)) / 2);
        let held = u128::from(jump.held).saturating_mul(others).saturating_add(grown);
        plain.saturating_add(self.rates.context.saturating_mul(held))
    }

    /// Returns when as many steps under way end.
    fn end_of(&self, steps: u64) -> f64 {
        self.spell.unwrap_or_default() + self.sum.saturating_add(self.through(steps)) as f64 / 1e12
    }

    /// Returns whether the head of the queue is taken at the next end of a step, if no request is answered there.
    fn takes_head(&self, arrivals: &Arrivals<'_>, keys: &Tokens) -> bool {
        let free = keys.max_step_tokens.is_none_or(|limit| limit > self.running.len() as u64);
        free && self.part.is_none() && self.queue.front().is_some_and(|&head| self.fits(head, arrivals, keys))
    }

    fn fits(&self, request: u32, arrivals: &Arrivals<'_>, keys: &Tokens) -> bool {
        (self.taken() as u64) < keys.max_running && arrivals.total(request) <= keys.kv_tokens - self.reserved
    }

    /// Queues a request. Returns whether the instant of `until` is another one now.
    pub(super) fn queue(&mut self, request: u32, now: f64, arrivals: &Arrivals<'_>, keys: &Tokens) -> bool {
        self.queue.push_back(request);
        // Otherwise the head waits for something that `until` knows.
        let is_head = self.queue.len() == 1 && self.jump.until < f64::INFINITY;
        if !is_head || self.jump.steps == 1 || !self.takes_head(arrivals, keys) {
            return false;
        }
        let before = self.jump.steps;
        self.jump.steps = self.first_step_that_ends(now);
        self.jump.until = self.end_of(self.jump.steps);
        self.jump.steps != before
    }

    /// Returns the number of the first step under way that ends at an instant or later.
    fn first_step_that_ends(&self, now: f64) -> u64 {
        let jump = &self.jump;
        if self.end_of(1) >= now {
            return 1;
        }
        // k steps take k x each + context x (k x held + running x k (k - 1) / 2).
        let context = self.rates.context as f64;
        let square = context * self.running.len() as f64 / 2.0;
        let each = jump.each as f64 + context * jump.held as f64 - square;
        let left = (now - self.spell.unwrap_or_default()) * 1e12 - self.sum as f64 - jump.first as f64;
        let guess = 2.0 * left / (each + (each * each + 4.0 * square * left).sqrt());
        let mut steps = (guess as u64 + 1).clamp(1, jump.steps);
        while steps < jump.steps && self.end_of(steps) < now {
            steps += 1;
        }
        while steps > 1 && self.end_of(steps - 1) >= now {
            steps -= 1;
        }
        steps
    }

    /// Begins a step, between two steps or two spells. There is something to do.
    pub(super) fn begin(&mut self, now: f64, arrivals: &Arrivals<'_>, keys: &Tokens, log: &mut impl Log) {
        if self.spell.is_none() {
            (self.spell, self.sum) = (Some(now), 0);
        }
        let free = keys.max_step_tokens.map_or(u64::MAX, |limit| limit.saturating_sub(self.running.len() as u64));
        // The requests that complete their prompt, in the order in which they were taken.
        let mut left = free;
        let mut joined = Vec::new();
        if let Some((request, tokens)) = self.part {
            let taken = tokens.min(left);
            left -= taken;
            self.part = Some((request, tokens - taken)).filter(|&(_, tokens)| tokens > 0);
            if self.part.is_none() {
                joined.push(request);
                self.join(request, arrivals);
            }
        }
        while self.part.is_none()
            && left > 0
            && let Some(&request) = self.queue.front()
            && self.fits(request, arrivals, keys)
        {
            self.queue.pop_front();
            log.taken(request, now);
            self.reserved += arrivals.total(request);
            let tokens = arrivals.prompt(request);
            let taken = tokens.min(left);
            left -= taken;
            if taken == tokens {
                joined.push(request);
                self.join(request, arrivals);
            } else {
                self.part = Some((request, tokens - taken));
            }
        }
        self.plan(free - left, arrivals, keys);
        if !joined.is_empty() {
            let time = self.end_of(1);
            joined.into_iter().for_each(|request| log.first_token(request, time));
        }
    }

    /// A prompt is complete.
    fn join(&mut self, request: u32, arrivals: &Arrivals<'_>) {
        let (input, total) = (arrivals.input(request), arrivals.total(request));
        self.held += input;
        self.running.push(Reverse((self.steps + (total - input), total, request)));
    }

    /// Plans the steps up to the next one at which something changes. taken: input tokens of the first.
    fn plan(&mut self, taken: u64, arrivals: &Arrivals<'_>, keys: &Tokens) {
        let running = self.running.len() as u64;
        let Rates { step, prefill, decode, context } = self.rates;
        let each = step.saturating_add(decode.saturating_mul(running.into()));
        let with = |chunk: u64| each.saturating_add(prefill.saturating_mul(chunk.into()));
        let chunk = match (self.part, keys.max_step_tokens) {
            (Some(_), Some(limit)) => limit.saturating_sub(running),
            _ => 0,
        };
        let first = with(taken).saturating_add(context.saturating_mul(self.held.into()));
        let mut steps = self.running.peek().map_or(u64::MAX, |Reverse((end, ..))| end - self.steps);
        if let Some((_, left)) = self.part {
            // The step that takes the last part stands alone.
            steps = steps.min((left - 1).checked_div(chunk).map_or(u64::MAX, |whole| whole + 1));
        } else if self.takes_head(arrivals, keys) {
            steps = 1;
        }
        self.jump = Jump { first, each: with(chunk), held: self.held + running, chunk, steps, until: 0.0 };
        self.jump.until = self.end_of(steps);
    }

    /// Ends the steps under way, at `until`. Returns how many requests are answered.
    pub(super) fn complete(&mut self, log: &mut impl Log) -> usize {
        let Jump { steps, until, chunk, .. } = self.jump;
        self.sum = self.sum.saturating_add(self.through(steps));
        self.steps += steps;
        self.held += steps * self.running.len() as u64;
        if let Some((_, left)) = &mut self.part {
            *left -= chunk * (steps - 1);
        }
        let before = self.running.len();
        while let Some(&Reverse((end, total, request))) = self.running.peek()
            && end == self.steps
        {
            self.running.pop();
            self.held -= total;
            self.reserved -= total;
            log.answered(request, until);
        }
        self.jump.until = f64::INFINITY;
        if self.assigned() == 0 {
            self.spell = None;
        }
        before - self.running.len()
    }

    /// Returns when it has answered all it has, if it gets nothing more; `now` if it has nothing.
    pub(super) fn done_at(&self, now: f64, arrivals: &Arrivals<'_>, keys: &Tokens) -> f64 {
        let (mut copy, mut now) = (self.clone(), now);
        while copy.assigned() > 0 {
            if copy.until() == f64::INFINITY {
                copy.begin(now, arrivals, keys, &mut NoLog);
            }
            now = copy.until();
            copy.complete(&mut NoLog);
        }
        now
    }

    /// Returns the requests that it has taken.
    pub(super) fn requests_taken(&self) -> impl Iterator<Item = u32> {
        let running = self.running.iter().map(|Reverse((.., request))| *request);
        running.chain(self.part.map(|(request, _)| request))
    }
}
