//! The event loop of one cluster under a policy that preempts, or whose queue changes its order with time
//! (SPEC sections 5 and 7). One instant: completions, arrivals, one pass where one is due, new rates.

mod queue_pass;

use super::book::{Book, Running};
use super::select::{FromTheEnd, Selection};
use super::waiting::Waiting;
use super::{Policy, Setting};
use crate::cluster::{Claim, Cluster, Grant};
use crate::contention::Contention;
use crate::delay::Delays;
use crate::engine::Watch;
use crate::error::{Error, Result};
use crate::heap::EventHeap;
use crate::outcome::{ClusterOutcome, Stretch};
use crate::placement::{Placer, Probe};

/// Instants between two looks at the watch.
const WATCH_EVERY: u64 = 1024;
/// With no completion in sight, this many passes and two for each job are enough to see that nothing comes of them.
const IDLE_PASSES: u64 = 1000;

/// The state of a run. Jobs are numbered in order of (submit_time, row).
pub(super) struct Engine<'a, P> {
    policy: P,
    setting: &'a Setting<'a>,
    book: Book<'a>,
    cluster: Cluster,
    gpus: u64,
    placer: Placer,
    waiting: Waiting,
    running: Vec<Running>,
    free_slots: Vec<u32>,
    /// Running jobs by finishing time, from the end of the ranking, and by when their key may rise.
    finishes: EventHeap,
    ends: FromTheEnd,
    rises: EventHeap,
    contention: Contention,
    contention_sum: u64,
    contention_since: f64,
    dirty: Vec<u32>,
    selection: Selection,
    grant: Grant,
    /// Clock time that a resumed job holds its GPUs without progress.
    pause: f64,
    /// Whether a job came or went since the last pass, and whether that pass would do more if repeated.
    changed: bool,
    again: bool,
    last_tick: f64,
    /// The first job, in order of arrival, that may yet wait for too long.
    aging: usize,
    probe: Probe,
    delays: Delays,
    out: ClusterOutcome,
}

impl<'a, P: Policy> Engine<'a, P> {
    pub(super) fn new(setting: &'a Setting<'a>, policy: P) -> Self {
        let options = setting.options;
        let book = Book::new(setting);
        let placer = Placer::new(options);
        let cluster = Cluster::new(setting.server_gpus, placer.needs());
        Self {
            policy,
            gpus: cluster.total_idle,
            cluster,
            placer,
            waiting: Waiting::new(setting.jobs.num_gpus),
            running: Vec::new(),
            free_slots: Vec::new(),
            finishes: EventHeap::default(),
            ends: FromTheEnd::default(),
            rises: EventHeap::default(),
            contention: Contention::new(setting.server_gpus.len()),
            contention_sum: 0,
            contention_since: 0.0,
            dirty: Vec::new(),
            selection: Selection::default(),
            grant: Grant::default(),
            pause: book.timing.slot.map_or(options.preempt_cost, |slot| (options.preempt_cost / slot).ceil()),
            changed: false,
            again: false,
            last_tick: f64::NEG_INFINITY,
            aging: 0,
            probe: Probe::default(),
            delays: Delays::new(setting.jobs.num_gpus),
            out: ClusterOutcome::preemptive(setting.jobs.len(), options.record_allocations),
            book,
            setting,
        }
    }

    pub(super) fn run(mut self, watch: &mut dyn Watch) -> Result<ClusterOutcome> {
        let n = self.book.jobs.len();
        let mut arrived = 0;
        let mut next_arrival = self.arrival_of(0);
        let (mut next_pass, mut next_aging) = (f64::INFINITY, f64::INFINITY);
        let mut finished = 0;
        let (mut instants, mut idle_passes) = (0u64, 0u64);
        loop {
            let (next_finish, _) = self.finishes.peek().unwrap_or((f64::INFINITY, 0));
            let now = next_finish.min(next_arrival).min(next_pass).min(next_aging);
            if now == f64::INFINITY {
                break;
            }
            self.book.now = now;
            instants += 1;
            if instants.is_multiple_of(WATCH_EVERY) {
                watch.tick(finished)?;
            }
            self.delays.pass_time(self.book.seconds());
            while let Some((time, slot)) = self.finishes.peek()
                && time <= now
            {
                self.complete(slot);
                finished += 1;
            }
            while next_arrival <= now {
                finished += usize::from(!self.arrive(arrived as u32));
                arrived += 1;
                next_arrival = self.arrival_of(arrived);
            }
            next_aging = self.age(arrived);
            next_pass = self.next_pass();
            if next_pass == now {
                self.pass();
                next_pass = self.next_pass();
            }
            self.delays.look(&mut self.cluster, &self.placer, !self.waiting.is_empty());
            if !self.contention.is_settled() {
                self.settle_contention();
            }
            let stalled = self.finishes.peek().is_none_or(|(time, _)| time == f64::INFINITY);
            idle_passes = if stalled && next_arrival == f64::INFINITY { idle_passes + 1 } else { 0 };
            if idle_passes > IDLE_PASSES + 2 * (n - finished) as u64 {
                break;
            }
        }
        watch.tick(finished)?;
        self.out.events = (arrived + finished) as u64;
        if finished < n {
            return Err(self.stuck());
        }
        let timing = self.book.timing;
        self.out.convert_times(|time| timing.seconds(time));
        Ok(self.out)
    }

    /// Names the job of the lowest row that runs without progress or waits.
    fn stuck(&self) -> Error {
        let row = |job: u32| self.setting.rows[job as usize] as usize;
        let stalled = self.running.iter().filter(|r| !r.parts.is_empty()).map(|r| (row(r.job), true));
        let waiting = self.waiting.jobs().map(|job| (row(job), false));
        let (row, running) = stalled.chain(waiting).min().unwrap_or_default();
        Error::Stuck { row, running, time: self.book.seconds() }
    }

    fn arrival_of(&self, job: usize) -> f64 {
        self.book.jobs.submit.get(job).map_or(f64::INFINITY, |&s| self.book.timing.arrival(s))
    }

    /// Takes a job in; false if admission refuses it, because it would miss its deadline even alone from now on.
    fn arrive(&mut self, job: u32) -> bool {
        let j = job as usize;
        if self.setting.options.admission
            && let Some(deadline) = self.setting.deadline
            && self.book.seconds() + Book::ideal(self.setting, j) > deadline[j]
        {
            self.out.refused[j] = true;
            return false;
        }
        self.out.obstacles[j] = self.delays.spent(self.book.jobs.num_gpus[j]);
        let key = self.policy.waiting_key(&self.book, job);
        self.waiting.insert(job, self.book.jobs.num_gpus[j], key);
        self.changed = true;
        true
    }

    /// Puts the jobs that have waited for too long ahead of the others. Returns when the next of the arrived jobs will
    /// have waited for too long.
    fn age(&mut self, arrived: usize) -> f64 {
        let Some(aging) = self.setting.options.aging.filter(|_| !P::PREEMPTIVE) else { return f64::INFINITY };
        while self.aging < arrived {
            let (job, num_gpus) = (self.aging as u32, self.book.jobs.num_gpus[self.aging]);
            if self.waiting.has(job, num_gpus) {
                let due = self.book.timing.arrival(self.book.jobs.submit[self.aging] + aging);
                if due > self.book.now {
                    return due;
                }
                self.waiting.remove(job, num_gpus);
                self.waiting.insert(job, num_gpus, f64::NEG_INFINITY);
                self.changed = true;
            }
            self.aging += 1;
        }
        f64::INFINITY
    }

    fn busy(&self) -> u64 {
        self.gpus - self.cluster.total_idle
    }

    /// When the next pass is due, as things stand; `now` for at once.
    fn next_pass(&mut self) -> f64 {
        let now = self.book.now;
        if self.waiting.is_empty() {
            return f64::INFINITY;
        }
        let Some(interval) = self.policy.interval() else {
            let again = || self.book.timing.next_boundary(self.last_tick);
            return if self.changed {
                now
            } else if self.again && !P::PREEMPTIVE {
                again()
            } else {
                f64::INFINITY
            };
        };
        let crowded = self.waiting.gpus() + self.busy() > self.gpus;
        let wanted = if self.changed || self.again || (crowded && self.policy.is_restless()) {
            now
        } else {
            self.rises.peek().map_or(f64::INFINITY, |(time, _)| f64::max(time, now))
        };
        if wanted == f64::INFINITY { wanted } else { self.tick_from(wanted, interval) }
    }

    /// The first tick not before `time` and after the last one: a multiple of the interval, or the first boundary not
    /// before one.
    fn tick_from(&self, time: f64, interval: f64) -> f64 {
        let timing = &self.book.timing;
        let back = timing.slot.map_or(0.0, |_| 1.0);
        // A multiple of the interval that a boundary after the last tick sees first lies beyond that tick.
        let from = f64::max(time - back, self.last_tick);
        let mut k = f64::max(0.0, (timing.seconds(from) / interval).floor() - 1.0);
        loop {
            let tick = timing.arrival(k * interval);
            if tick >= time && tick > self.last_tick {
                return tick;
            }
            k = f64::max(k + 1.0, k.next_up());
        }
    }

    /// Ranks, preempts, places.
    fn pass(&mut self) {
        let now = self.book.now;
        self.last_tick = now;
        self.changed = false;
        self.again = false;
        if !P::PREEMPTIVE {
            self.queue_pass();
            return;
        }
        self.policy.before_pass();
        let mut selection = std::mem::take(&mut self.selection);
        if P::RANKED_ANEW {
            selection.walk_all(&self.policy, &self.book, &self.waiting, &self.running, self.gpus);
        } else {
            self.renew_risen();
            let spare = self.cluster.total_idle;
            selection.walk(&self.policy, &self.book, &self.waiting, &self.running, &mut self.ends, spare);
        }
        let running = &self.running;
        selection.evicted.sort_unstable_by_key(|&slot| running[slot as usize].job);
        for &slot in &selection.evicted {
            self.preempt(slot);
        }
        let monotone = self.placer.is_monotone();
        let mut passed_over = false;
        for &job in &selection.chosen {
            if self.place(job) {
                self.waiting.remove(job, self.book.jobs.num_gpus[job as usize]);
                self.start(job);
                self.again |= passed_over;
            } else {
                passed_over = !monotone;
            }
        }
        self.selection = selection;
    }

    /// New keys for running jobs whose key may have risen.
    fn renew_risen(&mut self) {
        let now = self.book.now;
        let mut risen = std::mem::take(&mut self.dirty);
        risen.clear();
        while let Some((time, slot)) = self.rises.peek()
            && time <= now
        {
            self.rises.remove(slot);
            risen.push(slot);
        }
        for &slot in &risen {
            self.rank(slot);
        }
        self.dirty = risen;
    }

    /// Puts a running job in its place of the ranking.
    fn rank(&mut self, slot: u32) {
        if P::RANKED_ANEW || !P::PREEMPTIVE {
            return;
        }
        let own = &self.running[slot as usize];
        self.ends.set(slot, self.policy.running_key(&self.book, own), own.job);
        let rise = self.policy.rises_at(&self.book, own);
        if rise < f64::INFINITY {
            self.rises.set(slot, rise, own.job);
        }
    }

    fn place(&mut self, job: u32) -> bool {
        self.out.decisions += 1;
        let jobs = &self.book.jobs;
        let time = if self.cluster.gpu_times.is_some() { self.book.timing.estimate(jobs, job as usize) } else { 0.0 };
        let claim = Claim { job, num_gpus: jobs.num_gpus[job as usize], time };
        self.placer.place(&mut self.cluster, &claim, &mut self.grant)
    }

    /// Starts a placed job now, or resumes it.
    fn start(&mut self, job: u32) {
        let j = job as usize;
        let slot = self.free_slots.pop().unwrap_or(self.running.len() as u32);
        if slot as usize == self.running.len() {
            self.running.push(Running::default());
        }
        self.grant.parts.sort_unstable();
        let resumed = self.out.preemptions[j] > 0;
        let own = &mut self.running[slot as usize];
        own.job = job;
        own.parts.clone_from(&self.grant.parts);
        own.contention = 0;
        own.fresh = own.parts.len() > 1;
        let finish = self.book.begin(own, if resumed { self.pause } else { 0.0 });
        if own.fresh {
            self.contention.join(slot, &own.parts);
        } else {
            self.finishes.set(slot, finish, job);
        }
        if !resumed {
            self.out.start[j] = self.book.now;
            let (too_few, fragmented) = self.delays.spent(self.book.jobs.num_gpus[j]);
            let before = &mut self.out.obstacles[j];
            *before = (too_few - before.0, fragmented - before.1);
        }
        self.out.num_servers[j] = self.out.num_servers[j].max(own.parts.len() as u32);
        if self.setting.options.record_allocations {
            own.first_row = self.out.allocations.open(job, &own.parts, self.book.now);
        }
        self.rank(slot);
    }

    fn complete(&mut self, slot: u32) {
        self.vacate(slot);
        let job = self.running[slot as usize].job;
        self.out.finish[job as usize] = self.book.now;
        self.policy.completed(&self.book, job);
        self.changed = true;
    }

    fn preempt(&mut self, slot: u32) {
        let job = self.running[slot as usize].job;
        self.out.preemptions[job as usize] += 1;
        self.vacate(slot);
        let key = self.policy.waiting_key(&self.book, job);
        self.waiting.insert(job, self.book.jobs.num_gpus[job as usize], key);
    }

    /// Ends a stretch: gives the GPUs back and keeps the progress.
    fn vacate(&mut self, slot: u32) {
        self.finishes.remove(slot);
        self.ends.remove(slot);
        self.rises.remove(slot);
        let now = self.book.now;
        let own = &mut self.running[slot as usize];
        let (job, j) = (own.job, own.job as usize);
        let (held, lost) = self.book.end(own);
        self.out.held[j] += held;
        self.out.lost[j] += lost;
        if self.out.preemptions[j] > 0 {
            let spanning = own.parts.len() > 1;
            self.out.stretches.push(Stretch { job, start: own.start, end: now, spanning });
        }
        if self.setting.options.record_allocations {
            self.out.allocations.close(own.first_row, own.parts.len(), now);
        }
        self.cluster.release(job, &own.parts);
        if own.parts.len() > 1 {
            self.contention.leave(slot, &own.parts);
            let contention = own.contention;
            self.account_contention();
            self.contention_sum -= u64::from(contention);
        }
        self.running[slot as usize].parts.clear();
        self.free_slots.push(slot);
    }

    /// New p, k, tau and finishing times of the jobs whose servers changed.
    fn settle_contention(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        self.contention.drain_changed(&mut dirty);
        for &slot in &dirty {
            let own = &mut self.running[slot as usize];
            let contention = self.contention.of(&own.parts);
            if contention == own.contention {
                continue;
            }
            let before = std::mem::replace(&mut own.contention, contention);
            let most = &mut self.out.max_contention[own.job as usize];
            *most = contention.max(*most);
            if let Some(finish) = self.book.retime(own) {
                self.finishes.set(slot, finish, own.job);
            } else if own.fresh {
                self.finishes.set(slot, self.book.finish(own), own.job);
            }
            own.fresh = false;
            self.account_contention();
            self.contention_sum = self.contention_sum + u64::from(contention) - u64::from(before);
        }
        self.dirty = dirty;
        self.account_contention();
        self.out.note_contention(self.book.now, self.contention_sum);
    }

    /// Adds up the contention of the time that ends now, in which it was constant.
    fn account_contention(&mut self) {
        let timing = &self.book.timing;
        let passed = timing.seconds(self.book.now) - timing.seconds(self.contention_since);
        if passed > 0.0 {
            self.out.contention_seconds += self.contention_sum as f64 * passed;
            self.contention_since = self.book.now;
        }
    }
}
