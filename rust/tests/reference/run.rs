//! One cluster's run: both clocks, what happens at one instant, and one scheduling pass.
//!
//! Invariant: a job is in one phase at a time: ahead, waiting, running or done. Contention, rates and the next instant
//! follow from the phases, at every instant anew. For example, with slots of 60 s a day has 1,440 passes, whatever
//! happens.

use super::place::{Cluster, Site};
use super::{Job, Replay, State, Stretch, model};
use ringbco::Network;
use ringbco::error::{Error, Result};
use ringbco::options::{ClockKind, Discipline, Options, Order, Placement};

/// Where a job is in its life.
#[derive(Clone, Debug)]
enum Phase {
    /// The scheduler has not seen it.
    Ahead,
    Waiting,
    Running(Stay),
    Done(Stay),
}

/// A job's stay on its GPUs.
#[derive(Clone, Debug)]
struct Stay {
    sites: Vec<Site>,
    start: f64,
    finish: f64,
    progress: Progress,
    contention: u32,
    max_contention: u32,
}

#[derive(Clone, Debug)]
enum Progress {
    /// Slot clock: units of work done, needed, and done in one slot; a unit is an iteration, or a slot under `fixed`.
    Slots { done: u64, needed: u64, per_slot: u64 },
    /// Continuous clock: `remaining` iterations at `since`, each of which takes `tau` from then on.
    Iterations { remaining: f64, since: f64, tau: Option<f64> },
    /// Continuous clock under `fixed`.
    Fixed,
}

impl Stay {
    /// The servers held, ascending.
    fn servers(&self) -> Vec<usize> {
        let mut servers: Vec<usize> = self.sites.iter().map(|site| site.0).collect();
        servers.sort_unstable();
        servers.dedup();
        servers
    }

    /// Step (5) for one job: tau from now on.
    fn set_rate(&mut self, now: f64, new: f64, slot: f64) {
        match &mut self.progress {
            Progress::Slots { per_slot, .. } => *per_slot = model::iterations_per_slot(slot, new),
            Progress::Iterations { remaining, since, tau } => {
                if let Some(old) = *tau {
                    if old == new {
                        return;
                    }
                    *remaining = f64::max(*remaining - (now - *since) / old, 0.0);
                }
                (*since, *tau) = (now, Some(new));
                self.finish = now + *remaining * new;
            }
            Progress::Fixed => {}
        }
    }
}

/// Jobs, each in its phase, on a cluster.
pub(super) struct Run<'a> {
    jobs: &'a [Job],
    phases: Vec<Phase>,
    cluster: Cluster,
    network: Network,
    options: &'a Options,
    history: Vec<State>,
    /// The last instant at which a job arrived, started or completed, s.
    changed: f64,
    contention_seconds: f64,
    /// Per job, time waited for want of idle GPUs, and because they lay apart.
    obstacles: Vec<(f64, f64)>,
}

impl<'a> Run<'a> {
    pub(super) fn new(jobs: &'a [Job], cluster: Cluster, network: Network, options: &'a Options) -> Self {
        let (phases, obstacles) = (vec![Phase::Ahead; jobs.len()], vec![(0.0, 0.0); jobs.len()]);
        let (history, changed, contention_seconds) = (Vec::new(), 0.0, 0.0);
        Self { jobs, phases, cluster, network, options, history, changed, contention_seconds, obstacles }
    }

    /// Runs until every job is done.
    pub(super) fn simulate(&mut self) -> Result<()> {
        match self.options.clock {
            ClockKind::Slot => self.every_slot(),
            ClockKind::Continuous => self.every_instant(),
        }
    }

    /// docs/model.md#clocks, clock `slot`: decisions at every multiple of the slot.
    fn every_slot(&mut self) -> Result<()> {
        let mut boundary: u64 = 0;
        let mut now = 0.0;
        loop {
            let started = self.instant(now);
            if self.all_done() {
                return Ok(());
            }
            // Boundaries to come differ from this one only if something started now, is still to come, or progresses.
            let moves = |phase: &Phase| match phase {
                Phase::Ahead => true,
                Phase::Running(Stay { progress: Progress::Slots { per_slot, .. }, .. }) => *per_slot > 0,
                _ => false,
            };
            if !started && !self.phases.iter().any(moves) {
                return Err(self.stuck());
            }
            boundary += 1;
            let next = boundary as f64 * self.options.slot;
            self.pass_time(now, next);
            now = next;
            for stay in self.running_mut() {
                if let Progress::Slots { done, per_slot, .. } = &mut stay.progress {
                    *done = done.saturating_add(*per_slot);
                }
            }
        }
    }

    /// docs/model.md#clocks, clock `continuous`: from one arrival or completion to the next.
    fn every_instant(&mut self) -> Result<()> {
        let mut before = 0.0;
        while !self.all_done() {
            let mut now = f64::INFINITY;
            for (job, phase) in self.jobs.iter().zip(&self.phases) {
                match phase {
                    Phase::Ahead => now = now.min(job.submit),
                    Phase::Running(stay) => now = now.min(stay.finish),
                    Phase::Waiting | Phase::Done(_) => {}
                }
            }
            if now == f64::INFINITY {
                return Err(self.stuck());
            }
            self.pass_time(before, now);
            self.instant(now);
            before = now;
        }
        Ok(())
    }

    /// One instant (docs/model.md#one-instant); whether a job started.
    fn instant(&mut self, now: f64) -> bool {
        let mut changed = false;
        for (job, phase) in self.jobs.iter().zip(&mut self.phases) {
            if let Phase::Running(stay) = phase {
                let over = match stay.progress {
                    Progress::Slots { done, needed, .. } => done >= needed,
                    Progress::Iterations { .. } | Progress::Fixed => stay.finish <= now,
                };
                if over {
                    let mut stay = stay.clone();
                    stay.finish = now;
                    *phase = Phase::Done(stay);
                    self.cluster.free(job);
                    changed = true;
                }
            }
        }
        for (job, phase) in self.jobs.iter().zip(&mut self.phases) {
            if matches!(phase, Phase::Ahead) && job.submit <= now {
                *phase = Phase::Waiting;
                changed = true;
            }
        }
        // Reservations hang on the instant, and are made where something happened.
        let started = (changed || self.options.queue != Discipline::Conservative) && self.pass(now);
        if changed || started {
            self.changed = now;
        }
        self.rates(now);
        self.note(now);
        started
    }

    /// One scheduling pass over the queue, in its order; whether a job started (docs/model.md#queue-disciplines).
    fn pass(&mut self, now: f64) -> bool {
        let mut queue: Vec<usize> =
            (0..self.jobs.len()).filter(|&j| matches!(self.phases[j], Phase::Waiting)).collect();
        let key = |j: usize| match self.options.order {
            // QSSF, fair shares and columns are not this reference's.
            Order::Fifo | Order::Qssf | Order::Fairshare | Order::Column => 0.0,
            Order::Sjf => self.jobs[j].estimate,
            Order::Smallest => f64::from(self.jobs[j].num_gpus),
        };
        queue.sort_by(|&a, &b| {
            let submits = (self.jobs[a].submit, self.jobs[b].submit);
            key(a).total_cmp(&key(b)).then(submits.0.total_cmp(&submits.1)).then(a.cmp(&b))
        });
        if self.options.queue == Discipline::Conservative {
            return self.reservations(&queue, now);
        }
        let mut started = false;
        // EASY: the first job that could not be placed, and its shadow time.
        let mut blocked: Option<(usize, f64)> = None;
        for j in queue {
            let mut with_it = self.cluster.clone();
            let Some(sites) = with_it.place(&self.jobs[j], self.options) else {
                match self.options.queue {
                    Discipline::Strict => break,
                    Discipline::Skip | Discipline::Conservative => {}
                    Discipline::Easy => blocked = blocked.or_else(|| Some((j, self.shadow(j)))),
                }
                continue;
            };
            if let Some((head, shadow)) = blocked {
                let in_time = now + self.jobs[j].estimate <= shadow;
                if !in_time && !self.fits_at(head, shadow, &with_it) {
                    continue;
                }
            }
            self.cluster = with_it;
            self.phases[j] = Phase::Running(self.stay(j, sites, now));
            started = true;
        }
        started
    }

    /// docs/operators.md#conservative-backfilling, GPU by GPU; whether a job started.
    fn reservations(&mut self, queue: &[usize], now: f64) -> bool {
        let mut started = false;
        // Who has what from when to when; and what a running job holds is free from its estimated end on, but not yet.
        let mut reserved: Vec<(f64, f64, Vec<Site>)> = Vec::new();
        for &j in queue.iter().take(self.options.reservations as usize) {
            let estimate = self.jobs[j].estimate;
            let ends: Vec<(usize, f64)> =
                self.estimated_ends().map(|(job, end)| (job.row, end.max(now.next_up()))).collect();
            let mut instants = vec![now];
            instants.extend(ends.iter().map(|end| end.1).chain(reserved.iter().map(|own| own.1)));
            instants.sort_by(f64::total_cmp);
            for instant in instants.into_iter().filter(|instant| *instant < f64::INFINITY) {
                let mut then = self.cluster.seen(|site, holder| {
                    let is_left = holder.is_none_or(|row| ends.iter().any(|end| end.0 == row && end.1 <= instant));
                    let in_the_way = |own: &&(f64, f64, Vec<Site>)| {
                        own.1 > own.0.max(instant) && (own.0 < instant + estimate || own.0 <= instant)
                    };
                    is_left && !reserved.iter().filter(in_the_way).any(|own| own.2.contains(&site))
                });
                let Some(mut sites) = then.place(&self.jobs[j], self.options) else { continue };
                if self.options.placement == Placement::Random {
                    sites = then.lowest(&sites);
                }
                if instant > now {
                    reserved.push((instant, instant + estimate, sites));
                } else {
                    self.cluster.take(&self.jobs[j], &sites, then);
                    self.phases[j] = Phase::Running(self.stay(j, sites, now));
                    started = true;
                }
                break;
            }
        }
        started
    }

    /// The earliest estimated completion of a running job at which the head could be placed.
    fn shadow(&self, head: usize) -> f64 {
        let mut ends: Vec<f64> = self.estimated_ends().map(|(_, end)| end).collect();
        ends.sort_by(f64::total_cmp);
        ends.into_iter().find(|&end| self.fits_at(head, end, &self.cluster)).unwrap_or(f64::INFINITY)
    }

    /// Whether the head could be placed on this cluster once every job estimated to end by `time` is gone.
    fn fits_at(&self, head: usize, time: f64, cluster: &Cluster) -> bool {
        let mut cluster = cluster.clone();
        for (job, end) in self.estimated_ends() {
            if end <= time {
                cluster.free(job);
            }
        }
        cluster.place(&self.jobs[head], self.options).is_some()
    }

    /// Running jobs, each with its start plus its estimate, s.
    fn estimated_ends(&self) -> impl Iterator<Item = (&Job, f64)> {
        self.jobs.iter().zip(&self.phases).filter_map(|(job, phase)| match phase {
            Phase::Running(stay) => Some((job, stay.start + job.estimate)),
            _ => None,
        })
    }

    fn stay(&self, j: usize, sites: Vec<Site>, now: f64) -> Stay {
        let job = &self.jobs[j];
        let progress = match (self.options.clock, self.options.rar()) {
            (ClockKind::Slot, true) => Progress::Slots { done: 0, needed: job.iterations, per_slot: 0 },
            (ClockKind::Slot, false) => {
                let slots = (job.duration / self.options.slot).ceil() as u64;
                Progress::Slots { done: 0, needed: slots, per_slot: 1 }
            }
            (ClockKind::Continuous, true) => {
                Progress::Iterations { remaining: job.iterations as f64, since: now, tau: None }
            }
            (ClockKind::Continuous, false) => Progress::Fixed,
        };
        Stay { sites, start: now, finish: now + job.duration, progress, contention: 0, max_contention: 0 }
    }

    /// Step (5): p_j and tau_j of every running job.
    fn rates(&mut self, now: f64) {
        let gangs: Vec<Vec<usize>> = self.running_mut().map(|stay| stay.servers()).collect();
        let contention = model::contention(&gangs);
        let (network, options) = (self.network, self.options);
        let running = self.jobs.iter().zip(&mut self.phases).filter_map(|(job, phase)| match phase {
            Phase::Running(stay) => Some((job, stay)),
            _ => None,
        });
        for ((job, stay), (gang, p)) in running.zip(gangs.iter().zip(contention)) {
            stay.contention = p;
            stay.max_contention = stay.max_contention.max(p);
            if options.rar() {
                stay.set_rate(
                    now,
                    model::iteration_time(job, &network, gang.len(), model::felt(p, options)),
                    options.slot,
                );
            }
        }
    }

    fn running_mut(&mut self) -> impl Iterator<Item = &mut Stay> {
        self.phases.iter_mut().filter_map(|phase| match phase {
            Phase::Running(stay) => Some(stay),
            _ => None,
        })
    }

    fn all_done(&self) -> bool {
        self.phases.iter().all(|phase| matches!(phase, Phase::Done(_)))
    }

    /// Adds up what lasts from one instant to the next.
    fn pass_time(&mut self, from: f64, to: f64) {
        let sum = self.history.last().map_or(0, |state| state.contention);
        self.contention_seconds += sum as f64 * (to - from);
        for (j, job) in self.jobs.iter().enumerate() {
            if !matches!(self.phases[j], Phase::Waiting) {
                continue;
            }
            if self.cluster.num_idle() < job.num_gpus as usize {
                self.obstacles[j].0 += to - from;
            } else if self.cluster.clone().place(job, self.options).is_none() {
                self.obstacles[j].1 += to - from;
            }
        }
    }

    /// Notes the state after an instant, unless it is that of the instant before.
    fn note(&mut self, time: f64) {
        let mut state = State { time, ..State::default() };
        for (job, phase) in self.jobs.iter().zip(&self.phases) {
            match phase {
                Phase::Waiting => {
                    state.queued_jobs += 1;
                    state.queued_gpus += u64::from(job.num_gpus);
                }
                Phase::Running(stay) => {
                    state.running_jobs += 1;
                    state.busy_gpus += stay.sites.len() as u64;
                    state.spanning_jobs += u32::from(stay.servers().len() > 1);
                    state.contention += u64::from(stay.contention);
                }
                Phase::Ahead | Phase::Done(_) => {}
            }
        }
        if self.history.last().is_none_or(|last| State { time, ..*last } != state) {
            self.history.push(state);
        }
    }

    /// The error of a run in which nothing can change any more: the lowest row that is not done.
    fn stuck(&self) -> Error {
        let left = |phase: &Phase| !matches!(phase, Phase::Done(_));
        let j = self.phases.iter().position(left).unwrap_or(0);
        Error::Stuck { row: self.jobs[j].row, running: matches!(self.phases[j], Phase::Running(_)), time: self.changed }
    }

    /// Writes what happened into the result; `servers` are the cluster's, by their index in the whole.
    pub(super) fn report(self, servers: &[usize], result: &mut Replay) {
        for ((job, phase), obstacles) in self.jobs.iter().zip(&self.phases).zip(&self.obstacles) {
            let Phase::Done(stay) = phase else { continue };
            (result.wait_gpus[job.row], result.wait_fragmented[job.row]) = *obstacles;
            let (row, start, end) = (job.row, stay.start, stay.finish);
            let used = stay.servers();
            (result.start[row], result.finish[row]) = (start, end);
            result.num_servers[row] = used.len() as u32;
            result.max_contention[row] = stay.max_contention;
            if used.len() > 1 {
                result.spanning_seconds += end - start;
            }
            result.stretches.extend(used.iter().map(|&s| {
                let num_gpus = stay.sites.iter().filter(|site| site.0 == s).count() as u32;
                Stretch { row, server: servers[s], num_gpus, start, end }
            }));
        }
        result.contention_seconds += self.contention_seconds;
        result.history.push(self.history);
    }
}
