//! Any policy's run once more, from its decision log alone: slot by slot, or instant by instant.
//!
//! The log says who starts, stops and is refused, and when. The mechanism says the rest: who arrives, how fast jobs are,
//! when they end. Everything is worked out afresh at every instant. So the log of any policy checks the machine, and a
//! decision that the mechanism does not allow is an error. One cluster only.
//!
//! Verbs of one instant are netted: what counts is who held which GPUs before it and who does after it. For example, a
//! job that is stopped and started again on the same GPUs at one instant goes on as if nothing had been said.

use super::{Job, model, unknown};
use ringbco::decisions::{Decision, DecisionLog, Verb};
use ringbco::error::{Error, Result};
use ringbco::options::{ClockKind, Options};
use ringbco::replay::ClusterSpec;
use ringbco::trace::Jobs;

/// What became of every job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Logged {
    /// First start, s; NaN where it never ran.
    pub(crate) start: Vec<f64>,
    /// Finish, s; where it was ended, when it last held GPUs. NaN where it never ran.
    pub(crate) finish: Vec<f64>,
    /// The most servers used at a time.
    pub(crate) num_servers: Vec<u32>,
    /// Largest p_j met (equation 6).
    pub(crate) max_contention: Vec<u32>,
    /// Times stopped.
    pub(crate) preemptions: Vec<u32>,
    /// Time on GPUs, s.
    pub(crate) held: Vec<f64>,
    /// Time on GPUs without progress after a start that was not the first, s.
    pub(crate) lost: Vec<f64>,
    /// Whether it was refused.
    pub(crate) refused: Vec<bool>,
    /// Whether it was ended before it was done.
    pub(crate) ended: Vec<bool>,
    /// (row, server, GPUs, from, to): in order of (row, from, to, server); s.
    pub(crate) stays: Vec<(usize, usize, u32, f64, f64)>,
}

/// Where a job is in its life.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Phase {
    Ahead,
    Waiting,
    Running(Stay),
    Over,
}

/// How things stood before the verbs of an instant.
#[derive(Clone, Debug)]
struct Before {
    now: f64,
    phases: Vec<Phase>,
    left: Vec<f64>,
    out: Logged,
}

/// A job on GPUs, since `start`; times in slots under the slot clock.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Stay {
    pub(super) parts: Vec<(usize, u32)>,
    pub(super) start: f64,
    /// When its pause ends.
    pub(super) from: f64,
    /// Its checkpoints that took time: from, to.
    pub(super) saves: Vec<(f64, f64)>,
    /// Work left at `since`, and what a unit takes from then on.
    pub(super) since: f64,
    pub(super) tau: Option<f64>,
}

pub(super) struct Mechanism<'a> {
    pub(super) jobs: Vec<Job>,
    /// The least and the most GPUs of each job.
    range: Vec<(u32, u32)>,
    spec: &'a ClusterSpec<'a>,
    pub(super) options: &'a Options,
    pub(super) phases: Vec<Phase>,
    pub(super) left: Vec<f64>,
    out: Logged,
    /// What the verbs of an instant leave each job with: (server, GPUs); empty for none.
    wanted: Vec<Vec<(usize, u32)>>,
    before: Option<Before>,
}

/// Replays a log on one cluster.
///
/// # Errors
/// `Decision` where the log asks for what cannot be; `Stuck` where it ends before the jobs do; what is unknown
/// (`super::is_unknown`) for a cluster with virtual clusters, and what the message names.
pub(crate) fn replay_log(
    jobs: &Jobs<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    log: &DecisionLog,
) -> Result<Logged> {
    if spec.server_vc.is_some() {
        return Err(unknown("cluster", "virtual clusters".to_owned()));
    }
    if jobs.types.is_some() || options.start_cost != 0.0 || options.sleep_after != f64::INFINITY {
        let value = "GPUs that differ, a pause at the start, or servers that sleep".to_owned();
        return Err(unknown("gpu_type", value));
    }
    log.validate(jobs.len(), spec.server_gpus.len())?;
    let n = jobs.len();
    let all: Vec<Job> = (0..n).map(|row| Job::read(jobs, row, &spec.network, options)).collect();
    let work = |job: &Job| match (options.rar(), options.clock) {
        (true, _) => job.iterations as f64,
        (false, ClockKind::Continuous) => job.duration,
        (false, ClockKind::Slot) => job.duration / options.slot,
    };
    let mut mechanism = Mechanism {
        range: all.iter().map(|job| jobs.range_of(job.row)).collect(),
        left: all.iter().map(work).collect(),
        jobs: all,
        spec,
        options,
        phases: vec![Phase::Ahead; n],
        out: Logged {
            start: vec![f64::NAN; n],
            finish: vec![f64::NAN; n],
            num_servers: vec![0; n],
            max_contention: vec![0; n],
            preemptions: vec![0; n],
            held: vec![0.0; n],
            lost: vec![0.0; n],
            refused: vec![false; n],
            ended: vec![false; n],
            stays: Vec::new(),
        },
        wanted: vec![Vec::new(); n],
        before: None,
    };
    mechanism.run(log)?;
    let mut out = mechanism.out;
    out.stays.sort_by_key(|stay| (stay.0, stay.3.to_bits(), stay.4.to_bits(), stay.1));
    for stay in out.stays.iter().filter(|stay| out.ended[stay.0]) {
        out.finish[stay.0] = stay.4;
    }
    Ok(out)
}

impl Mechanism<'_> {
    pub(super) fn slotted(&self) -> bool {
        self.options.clock == ClockKind::Slot
    }

    /// Seconds of a time of the clock.
    fn seconds(&self, time: f64) -> f64 {
        if self.slotted() { time * self.options.slot } else { time }
    }

    fn run(&mut self, log: &DecisionLog) -> Result<()> {
        let mut decisions = Vec::new();
        let mut row = 0;
        while let Some((decision, next)) = log.decision(row) {
            decisions.push(decision);
            row = next;
        }
        decisions.reverse();
        let mut now = 0.0;
        loop {
            self.end_stays(now, &decisions);
            self.write_checkpoints(now);
            for (job, phase) in self.jobs.iter().zip(&mut self.phases) {
                let time = if self.options.clock == ClockKind::Slot { now * self.options.slot } else { now };
                if *phase == Phase::Ahead && job.submit <= time {
                    *phase = Phase::Waiting;
                }
            }
            if self.before.as_ref().is_none_or(|before| before.now < now) {
                let (phases, left, out) = (self.phases.clone(), self.left.clone(), self.out.clone());
                self.before = Some(Before { now, phases, left, out });
            }
            let mut carried_out = 0;
            while decisions.last().is_some_and(|decision| decision.row.time <= self.seconds(now)) {
                let wanted = self.wanted.clone();
                match self.carry_out(&decisions) {
                    Ok(count) => {
                        carried_out += 1;
                        decisions.truncate(decisions.len() - count);
                        continue;
                    }
                    Err(error) if carried_out == 0 => return Err(error),
                    // A job that started now may be done now: the rest is tried again after that.
                    Err(_) => {
                        self.wanted = wanted;
                        break;
                    }
                }
            }
            self.net(now);
            self.set_rates(now);
            if self.phases.iter().all(|phase| *phase == Phase::Over) {
                return Ok(());
            }
            now = match self.next(now, decisions.last().map(|decision| decision.row.time)) {
                Some(next) => next,
                None => return Err(self.stuck(now)),
            };
        }
    }

    /// The next instant; `None` if nothing can change any more. Under the slot clock every boundary is one.
    fn next(&self, now: f64, decision: Option<f64>) -> Option<f64> {
        if decision.is_some_and(|time| time <= self.seconds(now)) {
            return Some(now);
        }
        let ahead = || self.jobs.iter().zip(&self.phases).filter(|(_, phase)| **phase == Phase::Ahead);
        let ends = self.phases.iter().enumerate().filter_map(|(j, phase)| match phase {
            Phase::Running(stay) => Some(self.due(j, stay).unwrap_or_else(|| self.end(j, stay))),
            _ => None,
        });
        if self.slotted() {
            let more = decision.is_some() || ahead().next().is_some() || ends.into_iter().any(f64::is_finite);
            return more.then_some(now + 1.0);
        }
        let arrivals = ahead().map(|(job, _)| job.submit);
        let next = arrivals.chain(ends).chain(decision).fold(f64::INFINITY, f64::min);
        next.is_finite().then_some(next)
    }

    /// Ends the stays that are over. On the continuous clock ends are right to rounding, so one that lies a few steps
    /// of float64 ahead counts, unless the log does something now that only a job on GPUs allows. `decisions`: those to
    /// come, the next one last.
    fn end_stays(&mut self, now: f64, decisions: &[Decision]) {
        let goes_on = |job: usize| {
            let mut at_once = decisions.iter().rev().take_while(|decision| decision.row.time <= now);
            at_once
                .any(|decision| decision.job.index() == job && !matches!(decision.row.verb, Verb::Start | Verb::Refuse))
        };
        let steps = if self.slotted() { 0.0 } else { 16.0 * (now.next_up() - now) };
        for job in 0..self.jobs.len() {
            let Phase::Running(stay) = &self.phases[job] else { continue };
            let end = self.end(job, stay);
            if end <= now || (end <= now + steps && !goes_on(job)) {
                self.leave(job, now);
                self.out.finish[self.jobs[job].row] = self.seconds(now);
                self.phases[job] = Phase::Over;
                self.wanted[job].clear();
            }
        }
    }

    /// Ends a stay's books.
    fn leave(&mut self, job: usize, now: f64) {
        let Phase::Running(stay) = self.phases[job].clone() else { return };
        let row = self.jobs[job].row;
        self.out.held[row] += now - stay.start;
        let saving: f64 = stay.saves.iter().map(|(begun, over)| over.min(now) - begun).sum();
        self.out.lost[row] += now.min(stay.from) - stay.start + saving;
        for &(server, count) in &stay.parts {
            self.out.stays.push((row, server, count, self.seconds(stay.start), self.seconds(now)));
        }
    }

    /// Carries out the next decision, or all moves that come next. Returns how many.
    fn carry_out(&mut self, decisions: &[Decision]) -> Result<usize> {
        let Some(first) = decisions.last() else { return Ok(0) };
        let group: Vec<&Decision> = match first.row.verb {
            Verb::Move => {
                let next = decisions.iter().rev();
                next.take_while(|other| other.row.verb == Verb::Move && other.row.time == first.row.time).collect()
            }
            _ => vec![first],
        };
        let fail = |decision: &Decision, why: &str| Error::Decision {
            row: decision.job.index(),
            verb: decision.row.verb.name(),
            time: decision.row.time,
            why: why.to_owned(),
            at: None,
        };
        for decision in &group {
            let job = decision.job.index();
            let holds = !self.wanted[job].is_empty();
            let over = self.out.ended[job] || matches!(self.phases[job], Phase::Ahead | Phase::Over);
            let waits = !holds && !over;
            let fits = match decision.row.verb {
                Verb::Start => waits,
                Verb::Stop | Verb::Evicted | Verb::Move | Verb::Resize => holds,
                Verb::Refuse => waits && self.before_of(job).1.is_nan(),
                Verb::End => holds || (waits && !self.before_of(job).1.is_nan()),
                _ => false,
            };
            if !fits {
                return Err(fail(decision, "the job is not in the state for it"));
            }
        }
        for decision in &group {
            self.wanted[decision.job.index()].clear();
        }
        for (at, decision) in group.iter().enumerate() {
            let job = decision.job.index();
            // What counts of several moves of a job is the last one.
            if group[at + 1..].iter().any(|later| later.job == decision.job) {
                continue;
            }
            match decision.row.verb {
                Verb::Start | Verb::Move | Verb::Resize => {
                    let parts: Vec<(usize, u32)> = decision.parts.iter().map(|&(s, g)| (s.index(), g)).collect();
                    let (min, max) = self.range[job];
                    if !(min..=max).contains(&parts.iter().map(|part| part.1).sum::<u32>()) {
                        return Err(fail(decision, "as many GPUs as it may hold"));
                    }
                    if parts.iter().any(|&(server, count)| self.busy(server) + count > self.spec.server_gpus[server]) {
                        return Err(fail(decision, "the server has fewer idle GPUs"));
                    }
                    self.wanted[job] = parts;
                }
                Verb::End => self.out.ended[job] = true,
                Verb::Refuse => {
                    self.out.refused[job] = true;
                    self.phases[job] = Phase::Over;
                }
                _ => {}
            }
        }
        Ok(group.len())
    }

    /// The phase and the first start of a job before the verbs of this instant.
    fn before_of(&self, job: usize) -> (&Phase, f64) {
        match &self.before {
            Some(before) => (&before.phases[job], before.out.start[job]),
            None => (&self.phases[job], self.out.start[job]),
        }
    }

    /// Makes of every job what the verbs of this instant leave it with, compared with how things stood before them.
    fn net(&mut self, now: f64) {
        let Some(before) = self.before.take() else { return };
        for job in 0..self.jobs.len() {
            if matches!(self.phases[job], Phase::Ahead | Phase::Over) {
                continue;
            }
            let held: &[(usize, u32)] = match &before.phases[job] {
                Phase::Running(stay) => &stay.parts,
                _ => &[],
            };
            // What an earlier look at this instant made of the job is undone first.
            let at = self.jobs[job].row;
            self.left[job] = before.left[job];
            self.out.start[at] = before.out.start[at];
            self.out.num_servers[at] = before.out.num_servers[at];
            self.out.preemptions[at] = before.out.preemptions[at];
            (self.out.held[at], self.out.lost[at]) = (before.out.held[at], before.out.lost[at]);
            let known = before.out.stays.len();
            let mut row = 0;
            self.out.stays.retain(|stay| {
                row += 1;
                row <= known || stay.0 != at
            });
            self.phases[job] = match &before.phases[job] {
                Phase::Ahead => Phase::Waiting,
                phase => phase.clone(),
            };
            let parts = self.wanted[job].clone();
            if self.out.ended[job] {
                self.leave(job, now);
                self.phases[job] = Phase::Over;
                continue;
            }
            if sorted(&parts) == sorted(held) {
                continue;
            }
            if !held.is_empty() {
                self.progress(job, now);
                self.leave(job, now);
                self.out.preemptions[at] += 1;
                self.phases[job] = Phase::Waiting;
            }
            if !parts.is_empty() {
                self.begin(job, parts, held, now);
            }
        }
        self.before = Some(before);
    }

    /// Begins a stay. `held`: what the job held up to this instant.
    fn begin(&mut self, job: usize, parts: Vec<(usize, u32)>, held: &[(usize, u32)], now: f64) {
        let row = self.jobs[job].row;
        let again = !self.out.start[row].is_nan();
        let total = |parts: &[(usize, u32)]| parts.iter().map(|part| part.1).sum::<u32>();
        let cost = match total(held) {
            0 => self.options.preempt_cost,
            gpus if gpus == total(&parts) => self.options.move_cost(),
            _ => self.options.resize_cost(),
        };
        let mut pause = if again { cost } else { 0.0 };
        if self.slotted() {
            pause = (pause / self.options.slot).ceil();
        }
        if !again {
            self.out.start[row] = self.seconds(now);
        }
        self.out.num_servers[row] = self.out.num_servers[row].max(parts.len() as u32);
        let from = now + pause;
        self.phases[job] = Phase::Running(Stay { parts, start: now, from, saves: Vec::new(), since: from, tau: None });
    }

    /// GPUs of a server that are given away as the verbs of this instant stand.
    fn busy(&self, server: usize) -> u32 {
        let parts = self.wanted.iter().flatten();
        parts.filter(|part| part.0 == server).map(|part| part.1).sum()
    }

    /// p_j and tau_j of every running job.
    fn set_rates(&mut self, now: f64) {
        let running: Vec<usize> =
            (0..self.jobs.len()).filter(|&j| matches!(self.phases[j], Phase::Running(_))).collect();
        let gangs: Vec<Vec<usize>> = running
            .iter()
            .map(|&job| match &self.phases[job] {
                Phase::Running(stay) => stay.parts.iter().map(|part| part.0).collect(),
                _ => Vec::new(),
            })
            .collect();
        for ((&job, gang), p) in running.iter().zip(&gangs).zip(model::contention(&gangs)) {
            self.out.max_contention[job] = self.out.max_contention[job].max(p);
            let (gpus, rate) = match &self.phases[job] {
                Phase::Running(stay) => (stay.parts.iter().map(|part| part.1).sum(), self.rate(job, &stay.parts)),
                _ => (0, f64::NAN),
            };
            let on_those = Job { num_gpus: gpus, ..self.jobs[job] };
            let tau = if self.options.rar() {
                model::iteration_time(&on_those, &self.spec.network, gang.len(), model::felt(p, self.options)) / rate
            } else {
                1.0 / rate
            };
            let changed = matches!(&self.phases[job], Phase::Running(stay) if stay.tau != Some(tau));
            if changed {
                self.progress(job, now);
            }
            if let Phase::Running(stay) = &mut self.phases[job] {
                stay.tau = Some(tau);
            }
        }
    }

    fn stuck(&self, now: f64) -> Error {
        let row = self.phases.iter().position(|phase| *phase != Phase::Over).unwrap_or(0);
        Error::Stuck { row, running: matches!(self.phases[row], Phase::Running(_)), time: self.seconds(now) }
    }
}

fn sorted(parts: &[(usize, u32)]) -> Vec<(usize, u32)> {
    let mut parts = parts.to_vec();
    parts.sort_unstable();
    parts
}
