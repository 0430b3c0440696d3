//! The offline planner: Algorithm 1 of the paper and its baselines (docs/paper.md#the-planner).
//!
//! All jobs are present at time 0. The clock is `slot`. The search bisects theta over 1..T and tries every kappa. For
//! each pair the jobs get GPUs in order under the limit U_g + rho_j / u <= theta, and the simulator tells when the
//! last one ends. T and theta count slots. U and rho are seconds. So the limit is theta times the slot.
//!
//! Each virtual cluster is planned by itself, and the results are merged into one.
//!
//! - `instance`: what does not depend on theta and kappa.
//! - `gpus`, `place`: accumulated time and candidates; Algorithms 2 and 3.
//! - `dispatch`, `schedule`: one schedule, a run of the machine, under either dispatch.
//! - `search`: theta, kappa and the horizon.

mod dispatch;
mod gpus;
mod instance;
mod place;
mod schedule;
mod search;

use crate::error::{Error, Result};
use crate::machine::Watch;
pub use crate::options::PlanOptions;
use crate::options::{Model, Options, registry};
use crate::outcome::{ClusterOutcome, Outcome};
use crate::replay::{ClusterSpec, Extras, assemble, job_vcs, split};
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
        /// Idle ones; a job with too few candidates waits for the next completion, and so do all behind it.
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
    /// How the schedule of each virtual cluster, or of the one cluster, was found; `None` where there is nothing to
    /// plan.
    pub found: Vec<Option<Found>>,
}

/// How the schedule of one cluster was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Found {
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
    /// How many of these needed no simulation: known from a theta that makes no difference.
    pub schedules_known: u64,
}

/// The number of progress steps that a watch counts.
pub const PROGRESS_STEPS: usize = search::PROGRESS_STEPS;

/// Plans a job table on a cluster, each virtual cluster by itself. `vc` is each job's, and is ignored where the
/// cluster has none. The watch counts [`PROGRESS_STEPS`] steps. All GPUs are assumed to be equal.
///
/// # Errors
/// Any variant of [`Error`]; `NoSchedule` if the given horizon is too short.
pub fn plan(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &PlanOptions,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    run(None, &Task { jobs, vc, spec, options }, watch)
}

/// Does the same as [`plan`] on the threads of a pool; the plan is the same on any.
///
/// # Errors
/// Those of [`plan`].
pub fn plan_in(
    pool: &rayon::ThreadPool,
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &PlanOptions,
    watch: &mut dyn Watch,
) -> Result<Plan> {
    run(Some(pool), &Task { jobs, vc, spec, options }, watch)
}

/// What is to be planned.
struct Task<'a> {
    jobs: &'a Jobs<'a>,
    vc: Option<&'a [u32]>,
    spec: &'a ClusterSpec<'a>,
    options: &'a PlanOptions,
}

/// A watch on the plan of one of several virtual clusters.
struct Share<'w> {
    watch: &'w mut dyn Watch,
    done: usize,
    all: usize,
}

impl Watch for Share<'_> {
    fn tick(&mut self, steps: usize) -> Result<()> {
        self.watch.tick((self.done * PROGRESS_STEPS + steps) / self.all)
    }
}

fn run(pool: Option<&rayon::ThreadPool>, task: &Task<'_>, watch: &mut dyn Watch) -> Result<Plan> {
    match task.options.model {
        Model::Rar => run_at(&RingSpeed { network: task.spec.network.clone() }, pool, task, watch),
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
    let &Task { jobs, vc, spec, options } = task;
    if jobs.shares.is_some() {
        let expected = "whole GPUs: a plan gives no shares of one".to_owned();
        return Err(Error::Option { name: "gpu_share", value: "shares of a GPU".to_owned(), expected });
    }
    if jobs.chains.is_some() {
        let expected = "jobs that arrive at once: a plan knows no job after another".to_owned();
        return Err(Error::Option { name: "after", value: "jobs after others".to_owned(), expected });
    }
    if jobs.priority.is_some() {
        let expected = "one priority for all jobs: a plan knows no others".to_owned();
        return Err(Error::Option { name: "priority", value: "priorities that differ".to_owned(), expected });
    }
    jobs.validate(options.model)?;
    let mut parts = split(spec)?;
    let vc = job_vcs(jobs, vc, spec, parts.len())?;
    for row in 0..jobs.len() {
        parts[vc.map_or(0, |vc| vc[row] as usize)].rows.push(row as u32);
    }
    let mut kept = vec![false; jobs.len()];
    let (mut outcomes, mut found) = (Vec::new(), Vec::new());
    let mut no_schedule = None;
    let all = parts.len();
    for (done, part) in parts.iter_mut().enumerate() {
        let instance = Instance::new(jobs, &part.rows, &part.server_gpus, spec.network.clone(), options, speed)?;
        part.rows.clone_from(&instance.rows);
        part.rows.iter().for_each(|&row| kept[row as usize] = true);
        match of_part(&instance, speed, pool, &mut Share { watch: &mut *watch, done, all }) {
            Ok((out, how)) => {
                outcomes.push(out);
                found.push(how);
            }
            // A horizon that is sufficient must be so for all of them.
            Err(error @ Error::NoSchedule { enough, .. }) => {
                if no_schedule.as_ref().is_none_or(|&(most, _)| enough > most) {
                    no_schedule = Some((enough, error));
                }
            }
            Err(error) => return Err(error),
        }
    }
    if let Some((_, error)) = no_schedule {
        return Err(error);
    }
    if found.iter().all(Option::is_none) {
        return Err(Error::NoJobs);
    }
    let submit = vec![0.0; jobs.len()];
    let jobs = Jobs { submit: &submit, ..*jobs };
    let run = Options { sample: options.sample, ..instance::run_options(options) };
    let engine_seconds = began.elapsed().as_secs_f64();
    // Summed in the order of the plan, whereas `assemble` goes by rows.
    let spans = outcomes.iter().flat_map(|out| out.num_servers.iter().zip(out.finish.iter().zip(&out.start)));
    let spanning_seconds =
        spans.filter(|span| *span.0 > 1).fold(0.0, |sum, (_, (finish, start))| sum + (finish - start));
    let schedule = assemble(&jobs, kept, &parts, outcomes, &run, &Extras::default(), engine_seconds)?;
    Ok(Plan { schedule: Outcome { spanning_seconds, ..schedule }, found })
}

/// Finds the best schedule of one cluster, by position, and how it was found.
fn of_part<S: Speed + Sync>(
    instance: &Instance<'_>,
    speed: &S,
    pool: Option<&rayon::ThreadPool>,
    watch: &mut dyn Watch,
) -> Result<(ClusterOutcome, Option<Found>)> {
    if instance.rows.is_empty() {
        return Ok((ClusterOutcome::new(0, true), None));
    }
    let (best, effort) = search::search(instance, speed, pool, watch)?;
    let (mut out, w_max) = record(instance, speed, &best)?;
    let options = instance.options;
    let mut turn = vec![0.0; instance.rows.len()];
    if options.dispatch == Dispatch::Idle {
        // A job's turn comes when the one before it starts.
        turn.iter_mut().skip(1).zip(&out.start).for_each(|(turn, &start)| *turn = start);
    }
    out.wait_causes = waits(&instance.jobs.num_gpus, &turn, instance.layout.server_of.len() as u64, &out);
    out.events = 2 * instance.rows.len() as u64;
    let found = Found {
        theta: best.theta,
        kappa: (options.policy == Planner::SjfBco).then_some(best.kappa),
        horizon: best.horizon,
        w_max,
        work_bound: instance.work_bound,
        thetas: effort.thetas,
        schedules: effort.schedules,
        schedules_known: effort.known,
    };
    Ok((out, Some(found)))
}

/// Runs the best schedule once more and records everything, by position; also returns max U_g.
fn record<S: Speed>(instance: &Instance<'_>, speed: &S, best: &search::Best) -> Result<(ClusterOutcome, f64)> {
    let stop = AtomicBool::new(false);
    let shared = Shared::new(&stop);
    let options = Options { record_allocations: true, ..instance.run.clone() };
    let empty = Schedule::new(instance, &options, &shared, speed.clone())?;
    let mut schedule = empty.with(vec![best.kappa], best.theta as f64 * instance.options.slot);
    let end = schedule.finish(|_| ())?; // one kappa never parts
    debug_assert_eq!(end, End::Done(best.makespan));
    let (mut out, w_max) = schedule.into_outcome();
    out.contention_seconds = contention_seconds(&out, instance.options.slot);
    Ok((out, w_max))
}

/// Returns the sum over jobs of the integral of p_j over time, s: completion by completion, between which it is
/// constant.
///
/// The machine sums it too, but in seconds since time 0 and where p_j changes, which rounds differently.
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

/// Splits each job's wait, s: how long fewer GPUs were idle than it asks for; and how long, from `turn` on, enough
/// were idle, but theta or the reservations of others kept them from it.
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

/// Returns for how long, up to each row's time, fewer than `wanted` GPUs were idle: one sweep over the changes of
/// that number.
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
