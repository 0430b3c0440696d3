//! One schedule for given theta and kappa: the jobs are placed in order (Algorithm 1, lines 6 to 13) and simulated.
//!
//! A run carries all kappas that have made no difference so far. At the first job that some of them pack and others do
//! not, it parts in two. So no prefix is simulated twice. For example, a run of the kappas 1, 2 and 4 parts at the
//! first job of 2 GPUs: kappa 1 goes its own way.
//!
//! Every run also learns for which other thetas it would have gone the same way.

use super::Dispatch;
use super::gpus::{Gpus, Limit, SameFor};
use super::instance::Instance;
use super::machine::Machine;
use super::place::{Gang, Placer};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How a schedule ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// In so many slots.
    Done(u64),
    /// Given up: it could not have been the best.
    Worse,
    /// Some job found too few candidates for ever.
    Infeasible,
    /// The job of this row could make no progress for ever.
    Stalled(u32),
}

/// How the schedules of some kappas, numbered as in [`Shared::kappas`], ended.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) kappas: std::ops::Range<usize>,
    pub(super) end: End,
    pub(super) same: SameFor,
}

/// What the schedules of one theta share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) instance: &'a Instance<'a>,
    /// Ascending.
    pub(super) kappas: &'a [u32],
    /// A schedule that needs more slots than this is of no use.
    pub(super) useful: AtomicU64,
    pub(super) stop: &'a AtomicBool,
    pub(super) verdicts: Mutex<Vec<Verdict>>,
}

impl Shared<'_> {
    fn is_useless(&self, slots: u64) -> bool {
        slots > self.useful.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
    }
}

/// A schedule under way.
#[derive(Clone, Debug)]
pub(super) struct Schedule<'a> {
    instance: &'a Instance<'a>,
    /// The kappas that have come this way.
    kappas: std::ops::Range<usize>,
    limit: Limit,
    placer: Placer,
    pub(super) gpus: Gpus<'a>,
    pub(super) machine: Machine<'a>,
    /// The first job that has no GPUs yet.
    next: usize,
    /// GPUs given to the jobs so far, job after job (`reserve`).
    given: Vec<u32>,
    /// Slots that each GPU is taken for at the very least (`reserve`).
    booked: Vec<u64>,
    chosen: Vec<u32>,
}

impl<'a> Schedule<'a> {
    pub(super) fn new(instance: &'a Instance<'a>, kappas: usize, theta: f64, record: bool) -> Self {
        let options = instance.options;
        let reserve = options.dispatch == Dispatch::Reserve;
        Self {
            instance,
            kappas: 0..kappas,
            limit: Limit::new(theta),
            placer: Placer::new(options),
            gpus: Gpus::new(&instance.layout, reserve, Placer::orders(options)),
            machine: Machine::new(instance, record),
            next: 0,
            given: Vec::new(),
            booked: if reserve { vec![0; instance.layout.server_of.len()] } else { Vec::new() },
            chosen: Vec::new(),
        }
    }

    /// Runs to the end, and leaves the verdict, and those of the runs that part from this one, in `shared`.
    pub(super) fn run(mut self, shared: &'a Shared<'a>, scope: &rayon::Scope<'a>) {
        let end = self.finish(shared, Some(scope));
        if let End::Done(slots) = end {
            shared.useful.fetch_min(slots, Ordering::Relaxed);
        }
        let verdict = Verdict { kappas: self.kappas, end, same: self.limit.same };
        if let Ok(mut verdicts) = shared.verdicts.lock() {
            verdicts.push(verdict);
        }
    }

    /// Runs to the end; `scope`: where runs that part from this one go on.
    pub(super) fn finish(&mut self, shared: &'a Shared<'a>, scope: Option<&rayon::Scope<'a>>) -> End {
        let ended = match self.instance.options.dispatch {
            Dispatch::Idle => self.dispatch_idle(shared, scope),
            Dispatch::Reserve => self.assign_all(shared, scope).and_then(|()| self.dispatch_reserved(shared)),
        };
        ended.err().unwrap_or(End::Done(self.machine.now))
    }

    /// Whether the next job is packed (G_j <= kappa), once the kappas that see it otherwise went their own way.
    fn packs(&mut self, shared: &'a Shared<'a>, scope: Option<&rayon::Scope<'a>>) -> bool {
        let num_gpus = self.instance.num_gpus[self.next];
        let own = &shared.kappas[self.kappas.clone()];
        let smaller = own.partition_point(|&kappa| kappa < num_gpus);
        if smaller > 0
            && smaller < own.len()
            && let Some(scope) = scope
        {
            let from = self.kappas.start;
            let mut other = self.clone();
            other.kappas = from..from + smaller;
            self.kappas.start += smaller;
            scope.spawn(move |scope| other.run(shared, scope));
            return true;
        }
        smaller == 0
    }

    fn gang(&self) -> Gang {
        Gang { num_gpus: self.instance.num_gpus[self.next], charge: self.instance.charge[self.next] }
    }

    /// Dispatch `idle`: the next job starts on idle candidates, or waits for the next completion.
    fn dispatch_idle(&mut self, shared: &'a Shared<'a>, scope: Option<&rayon::Scope<'a>>) -> Result<(), End> {
        let jobs = self.instance.rows.len();
        let mut chosen = std::mem::take(&mut self.chosen);
        let mut checked = usize::MAX;
        loop {
            while self.next < jobs {
                let packs = self.packs(shared, scope);
                let rule = self.placer.rule(packs);
                let gang = self.gang();
                self.machine.count_decision();
                if !self.placer.choose(rule, &mut self.gpus, gang, &mut self.limit, &mut chosen) {
                    // U stays as it is until this job is placed: what all GPUs would not do will never do.
                    if checked != self.next && !self.placer.could_ever(rule, &mut self.gpus, gang, &mut self.limit) {
                        return Err(End::Infeasible);
                    }
                    checked = self.next;
                    break;
                }
                self.gpus.take(&chosen, gang.charge);
                self.machine.start(self.next, &chosen);
                self.next += 1;
            }
            self.machine.settle();
            if self.next == jobs && self.machine.is_idle() {
                self.chosen = chosen;
                return Ok(());
            }
            if !self.machine.advance() {
                return Err(self.stalled());
            }
            // Nobody starts before the completion at `now`.
            let lower = self.machine.lower.max(self.machine.now + self.instance.rest[self.next]);
            if shared.is_useless(lower) {
                return Err(End::Worse);
            }
            while self.machine.complete(&mut chosen).is_some() {
                self.gpus.release(&chosen);
            }
        }
    }

    fn stalled(&self) -> End {
        match self.machine.lowest_running() {
            Some(row) => End::Stalled(row),
            None => End::Infeasible,
        }
    }

    /// Dispatch `reserve`, first half: GPUs for every job, by U alone.
    fn assign_all(&mut self, shared: &'a Shared<'a>, scope: Option<&rayon::Scope<'a>>) -> Result<(), End> {
        let mut chosen = std::mem::take(&mut self.chosen);
        while self.next < self.instance.rows.len() {
            let packs = self.packs(shared, scope);
            let rule = self.placer.rule(packs);
            let gang = self.gang();
            self.machine.count_decision();
            if !self.placer.choose(rule, &mut self.gpus, gang, &mut self.limit, &mut chosen) {
                return Err(End::Infeasible);
            }
            self.gpus.take(&chosen, gang.charge);
            // It ends after the work booked before it on every one of its GPUs, and its own.
            let before = chosen.iter().map(|&g| self.booked[g as usize]).max().unwrap_or(0);
            let until = before + self.instance.least_slots[self.next];
            chosen.iter().for_each(|&g| self.booked[g as usize] = until);
            self.machine.lower = self.machine.lower.max(until);
            if shared.is_useless(self.machine.lower) {
                return Err(End::Worse);
            }
            self.given.extend_from_slice(&chosen);
            self.next += 1;
        }
        Ok(())
    }

    /// Dispatch `reserve`, second half: a job starts when it heads the queue of every GPU it was given.
    fn dispatch_reserved(&mut self, shared: &Shared<'_>) -> Result<(), End> {
        const NONE: u32 = u32::MAX;
        let instance = self.instance;
        let jobs = instance.rows.len();
        let own = |position: usize| instance.offset[position]..instance.offset[position + 1];
        // After each job on each of its GPUs: the next job there. And how many of a job's GPUs are not yet its.
        let mut after = vec![NONE; self.given.len()];
        let mut pending: Vec<u32> = instance.num_gpus.clone();
        let mut first = vec![NONE; instance.layout.server_of.len()];
        for position in (0..jobs).rev() {
            for at in own(position) {
                let gpu = self.given[at] as usize;
                after[at] = std::mem::replace(&mut first[gpu], position as u32);
            }
        }
        let mut ready = Vec::new();
        let head = |pending: &mut Vec<u32>, position: u32, ready: &mut Vec<u32>| {
            if position != NONE {
                pending[position as usize] -= 1;
                if pending[position as usize] == 0 {
                    ready.push(position);
                }
            }
        };
        for &position in &first {
            head(&mut pending, position, &mut ready);
        }
        let mut started = 0;
        let mut freed = Vec::new();
        loop {
            ready.sort_unstable();
            for position in ready.drain(..) {
                let position = position as usize;
                self.machine.start(position, &self.given[own(position)]);
                started += 1;
            }
            self.machine.settle();
            if started == jobs && self.machine.is_idle() {
                return Ok(());
            }
            if !self.machine.advance() {
                return Err(self.stalled());
            }
            if shared.is_useless(self.machine.lower.max(self.machine.now)) {
                return Err(End::Worse);
            }
            while let Some(position) = self.machine.complete(&mut freed) {
                for at in own(position) {
                    head(&mut pending, after[at], &mut ready);
                }
            }
        }
    }
}
