//! A slow and obvious replay: what the engine must give, written straight from the equations.
//!
//! Nothing is indexed, carried over or skipped. With the slot clock there is a literal loop over every slot, with a
//! scheduling pass at every boundary. With the continuous clock every instant works out contention, iteration times
//! and the next instant afresh, from who holds which GPU. Its cost is (slots or instants) x jobs x GPUs.
//!
//! Invariant: it shares inputs, options and errors with [`replay`](mod@ringbco::replay), and no code that decides
//! anything (`rust/tests/rooms.rs`). So the two can be compared: bit for bit with the slot clock, to rounding with the
//! other.

mod mechanism;
mod model;
mod place;
mod progress;
mod run;

pub(crate) use mechanism::replay_log;
use place::Cluster;
use ringbco::Network;
use ringbco::error::{Error, Result};
use ringbco::options::{ClockKind, Estimate, Model, Options, Order, Oversize, Ties};
use ringbco::replay::ClusterSpec;
use ringbco::trace::Jobs;
use run::Run;

/// What the error expects of an option or a column that the reference does not know.
const UNKNOWN: &str = "what the reference knows";

fn unknown(name: &'static str, value: String) -> Error {
    Error::Option { name, value, expected: UNKNOWN.to_owned() }
}

/// Whether the reference refuses a case since it does not know what it asks for.
pub(crate) fn is_unknown(error: &Error) -> bool {
    matches!(error, Error::Option { expected, .. } if expected == UNKNOWN)
}

/// What happened to every job, in the caller's row order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Replay {
    /// Whether the job was replayed; `false` where it was dropped as oversize.
    pub(crate) kept: Vec<bool>,
    /// Start, s; NaN where dropped.
    pub(crate) start: Vec<f64>,
    /// Finish, s; NaN where dropped.
    pub(crate) finish: Vec<f64>,
    /// Servers used; 0 where dropped.
    pub(crate) num_servers: Vec<u32>,
    /// Largest p_j met (equation 6); 0 where dropped.
    pub(crate) max_contention: Vec<u32>,
    /// Time, s, that the job waited while fewer GPUs were idle than it asks for.
    pub(crate) wait_gpus: Vec<f64>,
    /// Time, s, that it waited while enough were idle, but its placement could not use them.
    pub(crate) wait_fragmented: Vec<f64>,
    /// Who held what, in order of (row, server).
    pub(crate) stretches: Vec<Stretch>,
    /// Sum over jobs of the integral of p_j over time, s.
    pub(crate) contention_seconds: f64,
    /// Time that spanning jobs ran, s, summed over them.
    pub(crate) spanning_seconds: f64,
    /// Per virtual cluster, its state after every instant that changed it, in order of time.
    pub(crate) history: Vec<Vec<State>>,
}

/// One job's stay on one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// The job's row.
    pub(crate) row: usize,
    /// The server's index in the whole cluster.
    pub(crate) server: usize,
    /// GPUs held there.
    pub(crate) num_gpus: u32,
    /// From, s.
    pub(crate) start: f64,
    /// To, s.
    pub(crate) end: f64,
}

/// What a cluster looks like after an instant.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct State {
    /// The instant, s.
    pub(crate) time: f64,
    /// Jobs on GPUs.
    pub(crate) running_jobs: u32,
    /// Jobs that the scheduler has seen and not started.
    pub(crate) queued_jobs: u32,
    /// GPUs held.
    pub(crate) busy_gpus: u64,
    /// GPUs asked for by waiting jobs.
    pub(crate) queued_gpus: u64,
    /// Jobs on two or more servers.
    pub(crate) spanning_jobs: u32,
    /// Sum of p_j over them.
    pub(crate) contention: u64,
}

impl Replay {
    /// The state of all virtual clusters together after everything that happens up to `time`, s.
    #[must_use]
    pub(crate) fn at(&self, time: f64) -> State {
        let mut sum = State { time, ..State::default() };
        for history in &self.history {
            if let Some(state) = history.iter().rev().find(|s| s.time <= time) {
                sum.running_jobs += state.running_jobs;
                sum.queued_jobs += state.queued_jobs;
                sum.busy_gpus += state.busy_gpus;
                sum.queued_gpus += state.queued_gpus;
                sum.spanning_jobs += state.spanning_jobs;
                sum.contention += state.contention;
            }
        }
        sum
    }
}

/// One job's row of the table, with rho_j.
#[derive(Clone, Copy, Debug)]
struct Job {
    row: usize,
    submit: f64,
    num_gpus: u32,
    duration: f64,
    iterations: u64,
    gradient_bytes: f64,
    compute_time: f64,
    /// Seconds of progress between two checkpoints.
    checkpoint_interval: f64,
    /// phi and M; phi is infinite where every sample counts in full.
    noise: (f64, u32),
    /// rho_j: F_j tau_j on one server with k = 1, or the duration under `fixed`, s.
    estimate: f64,
}

impl Job {
    fn read(jobs: &Jobs<'_>, row: usize, network: &Network, options: &Options) -> Self {
        let mut job = Self {
            row,
            submit: jobs.submit[row],
            num_gpus: jobs.num_gpus[row],
            duration: jobs.duration[row],
            iterations: 0,
            gradient_bytes: 0.0,
            compute_time: 0.0,
            checkpoint_interval: match jobs.checkpoint_interval.map(|own| own[row]) {
                Some(own) if !own.is_nan() => own,
                _ => options.checkpoint_interval,
            },
            noise: jobs.noise.map_or((f64::INFINITY, 1), |noise| (noise.scale[row], noise.batch[row])),
            estimate: jobs.duration[row],
        };
        if options.rar() {
            job.iterations = jobs.iterations[row];
            job.gradient_bytes = jobs.gradient_bytes[row];
            job.compute_time = jobs.compute_time[row];
            job.estimate = job.iterations as f64 * model::iteration_time(&job, network, 1, 0.0);
        }
        job
    }
}

/// Replays a trace on a cluster, slowly; arguments as for [`replay`](ringbco::replay::replay).
///
/// # Errors
/// As `replay`; the time of `Stuck` is that of the last instant at which anything changed.
pub(crate) fn replay(jobs: &Jobs<'_>, vc: Option<&[u32]>, spec: &ClusterSpec<'_>, options: &Options) -> Result<Replay> {
    options.validate()?;
    refuse_unknown(jobs, options)?;
    spec.network.validate()?;
    jobs.validate(options.model)?;
    let vcs = virtual_clusters(spec)?;
    let home = |row: usize| -> Result<usize> {
        if spec.server_vc.is_none() {
            return Ok(0);
        }
        let v = vc.and_then(|vc| vc.get(row)).map_or(usize::MAX, |&v| v as usize);
        if v < vcs.len() {
            return Ok(v);
        }
        let expected = "a virtual cluster of the cluster";
        Err(Error::Value { row, column: "vc", value: v.to_string(), expected })
    };
    let homes = (0..jobs.len()).map(home).collect::<Result<Vec<usize>>>()?;

    let n = jobs.len();
    let mut result = Replay {
        kept: vec![false; n],
        start: vec![f64::NAN; n],
        finish: vec![f64::NAN; n],
        num_servers: vec![0; n],
        max_contention: vec![0; n],
        wait_gpus: vec![0.0; n],
        wait_fragmented: vec![0.0; n],
        ..Replay::default()
    };
    let mut members = vec![Vec::new(); vcs.len()];
    for (row, &v) in homes.iter().enumerate() {
        let job = Job::read(jobs, row, &spec.network, options);
        let sizes: Vec<u32> = vcs[v].iter().map(|&s| spec.server_gpus[s]).collect();
        match refusal(&job, &sizes, options) {
            Some(error) if options.oversize == Oversize::Error => return Err(error),
            Some(_) => {}
            None => {
                check_iteration(&job, &sizes, &spec.network, options)?;
                result.kept[row] = true;
                members[v].push(job);
            }
        }
    }

    let mut failed: Option<Error> = None;
    for (v, (servers, jobs)) in vcs.iter().zip(&members).enumerate() {
        let sizes: Vec<u32> = servers.iter().map(|&s| spec.server_gpus[s]).collect();
        let cluster = Cluster::new(&sizes, place::Draws::of_cluster(options.seed, v as u64), jobs);
        let mut run = Run::new(jobs, cluster, spec.network, options);
        match run.simulate() {
            Ok(()) => run.report(servers, &mut result),
            Err(error) if failed.as_ref().is_none_or(|f| error.row() < f.row()) => failed = Some(error),
            Err(_) => {}
        }
    }
    result.stretches.sort_by_key(|s| (s.row, s.server));
    failed.map_or(Ok(result), Err)
}

/// Refuses the options that this reference would otherwise read as if they were not there.
fn refuse_unknown(jobs: &Jobs<'_>, options: &Options) -> Result<()> {
    let unsupported = |name, value: &dyn std::fmt::Debug| Err(unknown(name, format!("{value:?}")));
    if let Some(policy) = options.preemption {
        return unsupported("policy", &policy.name);
    }
    if matches!(options.order, Order::Qssf | Order::Fairshare | Order::Column) {
        return unsupported("order", &options.order.name());
    }
    if let Some(aging) = options.aging {
        return unsupported("aging", &aging);
    }
    if options.estimate_factor != 1.0 {
        return unsupported("estimate-factor", &options.estimate_factor);
    }
    if options.estimate != Estimate::RunTime {
        return unsupported("estimate", &options.estimate.name());
    }
    if options.enforce_limits {
        return unsupported("enforce-limits", &options.enforce_limits);
    }
    if jobs.types.is_some() {
        return unsupported("gpu_type", &"GPUs that differ");
    }
    if jobs.shares.is_some() {
        return unsupported("gpu_share", &"shares of a GPU");
    }
    if options.model == Model::Table {
        return unsupported("model", &options.model.name());
    }
    if options.checkpoint_cost != 0.0 {
        return unsupported("checkpoint-cost", &options.checkpoint_cost);
    }
    if options.start_cost != 0.0 {
        return unsupported("start-cost", &options.start_cost);
    }
    if options.sleep_after != f64::INFINITY {
        return unsupported("sleep-after", &options.sleep_after);
    }
    if options.ties != Ties::Rows {
        return unsupported("ties", &options.ties);
    }
    Ok(())
}

/// The servers of every virtual cluster. Without virtual clusters, all servers are one cluster.
fn virtual_clusters(spec: &ClusterSpec<'_>) -> Result<Vec<Vec<usize>>> {
    let all = 0..spec.server_gpus.len();
    let vcs: Vec<Vec<usize>> = match spec.server_vc {
        None => vec![all.collect()],
        Some(of) => {
            let count = of.iter().max().map_or(0, |&v| v as usize + 1);
            (0..count)
                .map(|v| all.clone().filter(|&s| of.get(s).is_some_and(|&own| own as usize == v)).collect())
                .collect()
        }
    };
    if vcs.is_empty() || vcs.iter().any(Vec::is_empty) || spec.server_gpus.contains(&0) {
        let expected = "servers with GPUs in every virtual cluster".to_owned();
        return Err(Error::Option { name: "cluster", value: format!("{:?}", spec.server_gpus), expected });
    }
    Ok(vcs)
}

/// Why the job could never run on servers of these sizes, if so (docs/model.md#one-instant).
fn refusal(job: &Job, sizes: &[u32], options: &Options) -> Option<Error> {
    let (row, num_gpus) = (job.row, job.num_gpus);
    let available = sizes.iter().map(|&g| u64::from(g)).sum();
    if u64::from(num_gpus) > available {
        return Some(Error::Oversize { row, num_gpus, available });
    }
    let mut empty = Cluster::new(sizes, place::Draws::of_cluster(0, 0), &[]);
    match empty.place(job, options) {
        Some(_) => None,
        None => Some(Error::Unplaceable { row, num_gpus, placement: options.placement.name() }),
    }
}

/// Refuses iterations that take no time, or that do not fit in a slot even without contention (docs/model.md#clocks).
fn check_iteration(job: &Job, sizes: &[u32], network: &Network, options: &Options) -> Result<()> {
    if !options.rar() {
        return Ok(());
    }
    let tau = model::iteration_time(job, network, model::fewest_servers(job.num_gpus, sizes), 0.0);
    if tau == 0.0 {
        return Err(Error::ZeroIterationTime { row: job.row });
    }
    if options.clock == ClockKind::Slot && model::iterations_per_slot(options.slot, tau) == 0 {
        return Err(Error::SlotTooShort { row: job.row, tau, slot: options.slot });
    }
    Ok(())
}
