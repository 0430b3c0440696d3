//! The event loop of one cluster: completions, arrivals, one pass, new rates (SPEC section 5).

use crate::cluster::{Claim, Cluster, Grant, Network};
use crate::contention::Contention;
use crate::delay::Delays;
use crate::error::{Error, Result};
use crate::heap::EventHeap;
use crate::job::Jobs;
use crate::options::{Discipline, Options};
use crate::outcome::ClusterOutcome;
use crate::pass::{self, Reservation, Scratch};
use crate::placement::Placer;
use crate::queue::Queue;
use crate::timing::{Progress, Timing};
use std::collections::BTreeSet;

/// Told now and then how far the run is; may end it.
pub trait Watch {
    /// `finished` jobs are done.
    ///
    /// # Errors
    /// Whatever should end the run, as a rule `Interrupted`.
    fn tick(&mut self, finished: usize) -> Result<()>;
}

/// Lets the run go on to its end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn tick(&mut self, _finished: usize) -> Result<()> {
        Ok(())
    }
}

/// Instants between two looks at the watch.
const WATCH_EVERY: u64 = 1024;

/// A job on GPUs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running {
    pub(crate) job: u32,
    /// (server, GPUs), servers ascending.
    pub(crate) parts: Vec<(u32, u32)>,
    /// Start plus estimate, s (EASY only).
    estimated_end: f64,
    progress: Progress,
    /// First of its rows in the allocations.
    first_row: usize,
    /// p_j.
    contention: u32,
    /// Largest p_j met.
    max_contention: u32,
    /// Whether it started at this instant and has no finishing time yet.
    fresh: bool,
}

/// The state of a run. Jobs are numbered in order of (submit_time, row).
pub(crate) struct Engine<'a> {
    pub(crate) jobs: Jobs<'a>,
    /// Each job's row in the caller's table, for errors.
    rows: &'a [u32],
    pub(crate) discipline: Discipline,
    pub(crate) timing: Timing,
    pub(crate) cluster: Cluster,
    pub(crate) placer: Placer,
    pub(crate) queue: Queue,
    pub(crate) running: Vec<Running>,
    /// Running jobs by (estimated end, job), with their slot (EASY only).
    pub(crate) by_end: Option<BTreeSet<(u64, u32, u32)>>,
    /// The blocked head's claim on the future, while it stands (EASY only).
    pub(crate) held: Option<Reservation>,
    free_slots: Vec<u32>,
    heap: EventHeap,
    contention: Contention,
    /// Sum of p_j over the spanning jobs, how many they are, and since when.
    contention_sum: u64,
    spanning: u64,
    contention_since: f64,
    dirty: Vec<u32>,
    delays: Delays,
    record: bool,
    now: f64,
    out: ClusterOutcome,
}

impl<'a> Engine<'a> {
    pub(crate) fn new(
        jobs: Jobs<'a>,
        rows: &'a [u32],
        server_gpus: &[u32],
        network: Network,
        options: &Options,
    ) -> Self {
        let timing = Timing::new(network, options);
        let placer = Placer::new(options);
        let cluster = Cluster::new(server_gpus, placer.needs());
        let queue = Queue::new(&jobs, options.order, options.queue, |j| timing.estimate(&jobs, j));
        let easy = options.queue == Discipline::Easy;
        Self {
            by_end: easy.then(BTreeSet::new),
            queue,
            contention: Contention::new(server_gpus.len()),
            out: ClusterOutcome::new(jobs.len(), options.record_allocations),
            delays: Delays::new(jobs.num_gpus),
            jobs,
            rows,
            discipline: options.queue,
            timing,
            cluster,
            placer,
            running: Vec::new(),
            held: None,
            free_slots: Vec::new(),
            heap: EventHeap::default(),
            contention_sum: 0,
            spanning: 0,
            contention_since: 0.0,
            dirty: Vec::new(),
            record: options.record_allocations,
            now: 0.0,
        }
    }

    /// Replays every job.
    ///
    /// # Errors
    /// `Stuck` when nothing can change any more and a job is not done; what the watch says.
    pub(crate) fn run(mut self, watch: &mut dyn Watch) -> Result<ClusterOutcome> {
        let n = self.jobs.len();
        let mut arrived = 0;
        let mut next_arrival = self.arrival_of(0);
        let mut finished = 0;
        let mut instants = 0u64;
        let mut scratch = Scratch::new(&self.queue);
        let mut next_look = f64::INFINITY;
        loop {
            let (next_finish, _) = self.heap.peek().unwrap_or((f64::INFINITY, 0));
            let now = next_finish.min(next_arrival).min(next_look);
            if now == f64::INFINITY {
                break;
            }
            self.now = now;
            self.delays.pass_time(self.seconds());
            instants += 1;
            if instants.is_multiple_of(WATCH_EVERY) {
                watch.tick(finished)?;
            }
            while let Some((time, slot)) = self.heap.peek()
                && time <= now
            {
                self.complete(slot);
                finished += 1;
            }
            while next_arrival <= now {
                self.enqueue(arrived as u32);
                arrived += 1;
                next_arrival = self.arrival_of(arrived);
            }
            next_look = f64::INFINITY;
            if !self.queue.is_empty() && pass::run(&mut self, &mut scratch) && !self.queue.is_empty() {
                next_look = self.timing.next_boundary(now);
            }
            self.delays.look(&mut self.cluster, &self.placer, !self.queue.is_empty());
            if !self.contention.is_settled() {
                self.settle_contention();
            }
        }
        watch.tick(finished)?;
        self.out.events = (arrived + finished) as u64;
        if finished < n {
            return Err(self.stuck());
        }
        self.out.convert_times(|time| self.timing.seconds(time));
        Ok(self.out)
    }

    /// Names the job of the lowest row that runs without progress or waits.
    fn stuck(&self) -> Error {
        let row = |job: u32| self.rows[job as usize] as usize;
        let stalled = self.running.iter().filter(|r| !r.parts.is_empty()).map(|r| (row(r.job), true));
        let waiting = self.queue.waiting_jobs().map(|job| (row(job), false));
        let (row, running) = stalled.chain(waiting).min().unwrap_or_default();
        Error::Stuck { row, running, time: self.timing.seconds(self.now) }
    }

    fn arrival_of(&self, job: usize) -> f64 {
        self.jobs.submit.get(job).map_or(f64::INFINITY, |&s| self.timing.arrival(s))
    }

    fn enqueue(&mut self, job: u32) {
        self.out.obstacles[job as usize] = self.delays.spent(self.jobs.num_gpus[job as usize]);
        self.queue.push(job, || self.timing.backfill_estimate(&self.jobs, job as usize));
    }

    /// Seconds at this instant.
    pub(crate) fn seconds(&self) -> f64 {
        self.timing.seconds(self.now)
    }

    /// What a job asks of the cluster.
    pub(crate) fn claim(&self, job: u32) -> Claim {
        let time = if self.cluster.gpu_times.is_some() { self.timing.estimate(&self.jobs, job as usize) } else { 0.0 };
        Claim { job, num_gpus: self.jobs.num_gpus[job as usize], time }
    }

    /// Tries to place a job; the GPUs are taken if it can be.
    pub(crate) fn place(&mut self, job: u32, grant: &mut Grant) -> bool {
        self.out.decisions += 1;
        let claim = self.claim(job);
        self.placer.place(&mut self.cluster, &claim, grant)
    }

    /// Starts a placed job now.
    pub(crate) fn start(&mut self, job: u32, grant: &mut Grant) {
        self.queue.remove(job);
        let slot = self.free_slots.pop().unwrap_or(self.running.len() as u32);
        if slot as usize == self.running.len() {
            self.running.push(Running::default());
        }
        grant.parts.sort_unstable();
        let now = self.now;
        let j = job as usize;
        let running = &mut self.running[slot as usize];
        running.job = job;
        running.parts.clone_from(&grant.parts);
        (running.contention, running.max_contention) = (0, 0);
        running.fresh = running.parts.len() > 1;
        if running.fresh {
            self.contention.join(slot, &grant.parts);
            self.spanning += 1;
        } else {
            let (progress, finish) = self.timing.start(&self.jobs, j, now, 1, 0);
            running.progress = progress;
            self.heap.set(slot, finish, job);
        }
        self.out.start[j] = now;
        let (too_few, fragmented) = self.delays.spent(self.jobs.num_gpus[j]);
        let before = &mut self.out.obstacles[j];
        *before = (too_few - before.0, fragmented - before.1);
        self.out.num_servers[j] = grant.parts.len() as u32;
        if self.record {
            running.first_row = self.out.allocations.open(job, &grant.parts, now);
        }
        if let Some(by_end) = &mut self.by_end {
            running.estimated_end = self.timing.seconds(now) + self.timing.backfill_estimate(&self.jobs, j);
            by_end.insert((running.estimated_end.to_bits(), job, slot));
        }
    }

    fn complete(&mut self, slot: u32) {
        self.heap.remove(slot);
        let running = &mut self.running[slot as usize];
        let job = running.job;
        self.cluster.release(job, &running.parts);
        if running.parts.len() > 1 {
            self.contention.leave(slot, &running.parts);
            self.spanning -= 1;
            self.account_contention();
            self.contention_sum -= u64::from(self.running[slot as usize].contention);
        }
        let running = &mut self.running[slot as usize];
        self.out.finish[job as usize] = self.now;
        self.out.max_contention[job as usize] = running.max_contention;
        if self.record {
            self.out.allocations.close(running.first_row, running.parts.len(), self.now);
        }
        if let Some(by_end) = &mut self.by_end {
            by_end.remove(&(running.estimated_end.to_bits(), job, slot));
            // A completion before the shadow time was counted on.
            self.held = self.held.filter(|held| running.estimated_end < held.shadow);
        }
        running.parts.clear();
        self.free_slots.push(slot);
    }

    /// New p, k, tau and finishing times of the jobs whose servers changed.
    fn settle_contention(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        self.contention.drain_changed(&mut dirty);
        for &slot in &dirty {
            let running = &mut self.running[slot as usize];
            let contention = self.contention.of(&running.parts);
            if contention == running.contention {
                continue;
            }
            let before = std::mem::replace(&mut running.contention, contention);
            running.max_contention = running.max_contention.max(contention);
            let servers = running.parts.len() as u32;
            let finish = if std::mem::take(&mut running.fresh) {
                let (progress, finish) =
                    self.timing.start(&self.jobs, running.job as usize, self.now, servers, contention);
                running.progress = progress;
                Some(finish)
            } else {
                self.timing.retime(&mut running.progress, self.now, servers, contention)
            };
            if let Some(finish) = finish {
                self.heap.set(slot, finish, running.job);
            }
            self.account_contention();
            self.contention_sum = self.contention_sum + u64::from(contention) - u64::from(before);
        }
        self.dirty = dirty;
        self.account_contention();
        self.out.note_contention(self.now, self.contention_sum);
    }

    /// Adds up the contention of the time that ends now, in which it was constant.
    fn account_contention(&mut self) {
        let passed = self.timing.seconds(self.now) - self.timing.seconds(self.contention_since);
        if passed > 0.0 {
            self.out.contention_seconds += self.contention_sum as f64 * passed;
            self.contention_since = self.now;
        }
    }
}
