//! The offline planner: Algorithm 1 of the paper and its baselines (docs/paper.md#the-planner).
//!
//! All jobs are there at time 0. The clock is `slot`. The search bisects theta over 1..T and tries every kappa. For
//! each pair the jobs get GPUs in order under the limit U_g + rho_j / u <= theta, and the simulator says when the last
//! one ends. T and theta count slots. U and rho are seconds. So the limit is theta times the slot.
//!
//! - `instance`: what neither theta nor kappa changes.
//! - `gpus`, `place`: accumulated time and candidates; Algorithms 2 and 3.
//! - `dispatch`, `schedule`: one schedule, a run of the machine, under either dispatch.
//! - `search`: theta, kappa and the horizon.

mod dispatch;
mod gpus;
mod instance;
mod place;
mod schedule;
mod search;

use crate::cluster::Network;
use crate::decisions::DecisionLog;
use crate::error::{Error, Result};
use crate::machine::Watch;
pub use crate::options::PlanOptions;
use crate::options::{Model, Options, registry};
use crate::outcome::{ClusterOutcome, HeldWhileSubmitting, Knows, Outcome, Span, course};
use crate::speed::{FixedSpeed, RingSpeed, Speed};
use crate::trace::Jobs;
use instance::Instance;
use schedule::{End, Schedule, Shared};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

registry!(
    /// Planners (docs/paper.md#the-planner).
    Planner, "policy" {
        /// Smallest job first with balanced contention and overhead: Algorithms 1 to 3.
        SjfBco => "sjf-bco",
        /// First-fit under theta.
        Ff => "ff",
        /// Least-loaded under theta.
        Ls => "ls",
        /// Uniform among the candidates, theta = T.
        Rand => "rand",
    }
);

registry!(
    /// Which GPUs are candidates, and when a job starts.
    Dispatch, "dispatch" {
        /// Idle ones; a job that finds too few waits for the next completion, and all behind it.
        Idle => "idle",
        /// Any; a job starts when it heads the queue of every GPU it was given.
        Reserve => "reserve",
    }
);

/// A plan: the schedule, as a replay's columns with every submission at 0, and how it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The schedule.
    pub schedule: Outcome,
    /// theta, slots.
    pub theta: u64,
    /// kappa, GPUs; `None` for the baselines, which have none.
    pub kappa: Option<u32>,
    /// T, slots.
    pub horizon: u64,
    /// max U_g, s (Lemma 2).
    pub w_max: f64,
    /// max(max rho_j, sum G_j rho_j / N), s.
    pub work_bound: f64,
    /// Thetas tried.
    pub thetas: u64,
    /// Pairs of theta and kappa tried.
    pub schedules: u64,
    /// Of these, how many needed no simulation: known from a theta that makes no difference.
    pub schedules_known: u64,
}

/// What the watch's ticks count up to.
pub const PROGRESS_STEPS: usize = search::PROGRESS_STEPS;

/// Plans a job table on a cluster without virtual clusters. The watch is told of [`PROGRESS_STEPS`] steps.
///
/// # Errors
/// Any variant of [`Error`]; `NoSchedule` where the given horizon is too short.
pub fn plan(
    jobs: &Jobs<'_>,
    server_gpus: &[u32],
    network: Network,
    options: &PlanOptions,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    run(None, &Task { jobs, server_gpus, network, options }, watch)
}

/// [`plan`] on the threads of a pool; the plan is the same on any.
///
/// # Errors
/// Those of [`plan`].
pub fn plan_in(
    pool: &rayon::ThreadPool,
    jobs: &Jobs<'_>,
    server_gpus: &[u32],
    network: Network,
    options: &PlanOptions,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    run(Some(pool), &Task { jobs, server_gpus, network, options }, watch)
}

/// What is to be planned.
struct Task<'a> {
    jobs: &'a Jobs<'a>,
    server_gpus: &'a [u32],
    network: Network,
    options: &'a PlanOptions,
}

fn run(pool: Option<&rayon::ThreadPool>, task: &Task<'_>, watch: &mut dyn Watch) -> Result<Plan> {
    match task.options.model {
        Model::Rar => run_at(&RingSpeed { network: task.network }, pool, task, watch),
        Model::Fixed => run_at(&FixedSpeed, pool, task, watch),
        Model::Table => Err(Error::Option {
            name: "model",
            value: Model::Table.name().to_owned(),
            expected: "rar or fixed: a plan knows no measured speeds".to_owned(),
        }),
    }
}

fn run_at<S: Speed + Sync>(
    speed: &S,
    pool: Option<&rayon::ThreadPool>,
    task: &Task<'_>,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    let began = Instant::now();
    let &Task { jobs, server_gpus, network, options } = task;
    if jobs.shares.is_some() {
        let expected = "whole GPUs: a plan gives no shares of one".to_owned();
        return Err(Error::Option { name: "gpu_share", value: "shares of a GPU".to_owned(), expected });
    }
    if jobs.priority.is_some() {
        let expected = "one priority for all jobs: a plan knows no others".to_owned();
        return Err(Error::Option { name: "priority", value: "priorities that differ".to_owned(), expected });
    }
    let instance = Instance::new(jobs, server_gpus, network, options, speed)?;
    if instance.rows.is_empty() {
        return Err(Error::NoJobs);
    }
    let (best, effort) = search::search(&instance, speed, pool, watch)?;
    let (out, w_max) = record(&instance, speed, &best)?;
    let engine_seconds = began.elapsed().as_secs_f64();
    let spans = instance.rows.iter().map(|&row| row as usize).map(|row| Span {
        submit: 0.0,
        seen: 0.0,
        start: out.start[row],
        finish: out.finish[row],
        asks: jobs.num_gpus[row],
        num_gpus: jobs.num_gpus[row],
        spanning: out.num_servers[row] > 1,
        cluster: 0,
    });
    let mut turn = vec![0.0; jobs.len()];
    if options.dispatch == Dispatch::Idle {
        // A job's turn comes when the one before it starts.
        for pair in instance.rows.windows(2) {
            turn[pair[1] as usize] = out.start[pair[0] as usize];
        }
    }
    let waits = waits(jobs.num_gpus, &turn, instance.layout.server_of.len() as u64, &out);
    let course = course(spans, 1, 1.0, std::slice::from_ref(&out.contention), options.sample)?;
    Ok(Plan {
        theta: best.theta,
        kappa: (options.policy == Planner::SjfBco).then_some(best.kappa),
        horizon: best.horizon,
        w_max,
        work_bound: instance.work_bound,
        thetas: effort.thetas,
        schedules: effort.schedules,
        schedules_known: effort.known,
        schedule: Outcome {
            climbs: None,
            on_types: Vec::new(),
            asleep: None,
            serving: None, // a plan knows no services
            timeline: course.timeline,
            allocations: out.allocations.by_job(jobs.len(), std::iter::empty()),
            kept: instance.kept.clone(),
            knows: Knows::default(),
            sums: None,
            stays: None,
            refused: Vec::new(),
            ended: Vec::new(),
            start: out.start,
            finish: out.finish,
            num_servers: out.num_servers,
            max_contention: out.max_contention,
            wait_gpus: waits.iter().map(|w| w.0 as f32).collect(),
            wait_fragmented: waits.iter().map(|w| w.1 as f32).collect(),
            events: 2 * instance.rows.len() as u64,
            decisions: out.decisions,
            contention_seconds: out.contention_seconds,
            spanning_seconds: course.spanning_seconds,
            held_while_submitting: HeldWhileSubmitting::default(), // all are submitted at once
            log: DecisionLog::default(),
            engine_seconds,
        },
    })
}

/// The best schedule once more, with everything written down, by row; and max U_g.
fn record<S: Speed>(instance: &Instance<'_>, speed: &S, best: &search::Best) -> Result<(ClusterOutcome, f64)> {
    let stop = AtomicBool::new(false);
    let shared = Shared::new(&stop);
    let options = Options { record_allocations: true, ..instance.run.clone() };
    let empty = Schedule::new(instance, &options, &shared, speed.clone())?;
    let mut schedule = empty.with(vec![best.kappa], best.theta as f64 * instance.options.slot);
    let end = schedule.finish(|_| ())?; // one kappa does not part
    debug_assert_eq!(end, End::Done(best.makespan));
    let (mut out, w_max) = schedule.into_outcome();
    out.contention_seconds = contention_seconds(&out, instance.options.slot);
    let mut by_row = ClusterOutcome::new(instance.kept.len(), false);
    for (position, &row) in instance.rows.iter().enumerate() {
        let row = row as usize;
        (by_row.start[row], by_row.finish[row]) = (out.start[position], out.finish[position]);
        by_row.num_servers[row] = out.num_servers[position];
        by_row.max_contention[row] = out.max_contention[position];
    }
    out.allocations.job.iter_mut().for_each(|job| *job = instance.rows[*job as usize]);
    let ClusterOutcome { start, finish, num_servers, max_contention, .. } = by_row;
    Ok((ClusterOutcome { start, finish, num_servers, max_contention, ..out }, w_max))
}

/// Sum over jobs of the integral of p_j over time, s: completion by completion, between which it is constant.
///
/// The machine adds it up too, but in seconds since time 0 and where p_j changes, which rounds otherwise.
fn contention_seconds(out: &ClusterOutcome, slot: f64) -> f64 {
    let mut ends = out.finish.clone();
    ends.sort_unstable_by(f64::total_cmp);
    let mut changes = out.contention.iter().peekable();
    let (mut total, mut since, mut sum) = (0.0, 0.0, 0);
    for end in ends {
        while let Some(change) = changes.next_if(|change| change.0 < end) {
            sum = change.1;
        }
        let slots = (end / slot).round();
        total += sum as f64 * ((slots - since) * slot);
        since = slots;
    }
    total
}

/// Of each job's wait, s: how long fewer GPUs were idle than it asks for; and how long, from `turn` on, enough were
/// idle, but theta or the reservations of others kept them from it.
fn waits(num_gpus: &[u32], turn: &[f64], total: u64, out: &ClusterOutcome) -> Vec<(f64, f64)> {
    let mut changes: Vec<(f64, i64)> = (0..num_gpus.len())
        .filter(|&row| !out.start[row].is_nan())
        .flat_map(|row| [(out.start[row], -i64::from(num_gpus[row])), (out.finish[row], i64::from(num_gpus[row]))])
        .collect();
    changes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut by_size: Vec<usize> = (0..num_gpus.len()).filter(|&row| out.start[row] > 0.0).collect();
    by_size.sort_unstable_by_key(|&row| num_gpus[row]);
    let mut waits = vec![(0.0, 0.0); num_gpus.len()];
    for same in by_size.chunk_by(|&a, &b| num_gpus[a] == num_gpus[b]) {
        let at = |times: &[f64]| too_few_until(same, times, i64::from(num_gpus[same[0]]), total, &changes);
        for ((&row, by_turn), by_start) in same.iter().zip(at(turn)).zip(at(&out.start)) {
            waits[row] = (by_start, (out.start[row] - turn[row]) - (by_start - by_turn));
        }
    }
    waits
}

/// For how long, up to each row's time, fewer than `wanted` GPUs were idle: one sweep over the changes of that number.
fn too_few_until(rows: &[usize], times: &[f64], wanted: i64, total: u64, changes: &[(f64, i64)]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_unstable_by(|&a, &b| times[rows[a]].total_cmp(&times[rows[b]]));
    let mut next = changes.iter().peekable();
    let (mut idle, mut now, mut short) = (total as i64, 0.0, 0.0);
    let mut until = vec![0.0; rows.len()];
    for k in order {
        let time = times[rows[k]];
        while let Some(&(change, by)) = next.next_if(|change| change.0 < time) {
            short += if idle < wanted { change - now } else { 0.0 };
            (idle, now) = (idle + by, change);
        }
        until[k] = if idle < wanted { short + time - now } else { short };
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_split_by_idle_gpus() {
        // Four GPUs; three of them busy until 5, then all idle until 8, when the gang of two starts.
        let mut out = ClusterOutcome::new(2, false);
        (out.start, out.finish) = (vec![0.0, 8.0], vec![5.0, 9.0]);
        assert_eq!(waits(&[3, 2], &[0.0, 0.0], 4, &out), [(0.0, 0.0), (5.0, 3.0)]);
        // Its turn came at 6: before that it waited behind others.
        assert_eq!(waits(&[3, 2], &[0.0, 6.0], 4, &out), [(0.0, 0.0), (5.0, 2.0)]);
    }
}
