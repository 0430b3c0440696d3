//! The Python module `ringbco._core`: the only file that knows `PyO3`.

use crate::cluster::Network;
use crate::error::{Error, Result};
use crate::files;
use crate::machine::Watch;
use crate::options::{
    ClockKind, Discipline, Model, Options, Order, Oversize, Placement, Predict, Preemption, Ties, Variant,
};
use crate::outcome::Outcome;
use crate::planner::{self, Dispatch, Plan, PlanOptions, Planner};
use crate::policies::{PRESETS, Preset};
use crate::replay::{ClusterSpec, Extras, replay_with};
use crate::trace::Jobs;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::time::{Duration, Instant};

pyo3::create_exception!(_core, CoreError, pyo3::exceptions::PyException);

/// How often a run looks at signals and tells its progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at Python's signals and calls its progress function, seldom enough to cost nothing.
struct PythonWatch {
    progress: Option<Py<PyAny>>,
    total: usize,
    looked: Instant,
    raised: Option<PyErr>,
}

impl Watch for PythonWatch {
    fn tick(&mut self, finished: usize) -> Result<()> {
        if self.looked.elapsed() < LOOK_EVERY {
            return Ok(());
        }
        self.looked = Instant::now();
        let looked = Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (finished, self.total))?;
            }
            Ok(())
        });
        looked.map_err(|raised| {
            self.raised = Some(raised);
            Error::Interrupted
        })
    }
}

fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let raised = CoreError::new_err(error.to_string());
    let value = raised.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", error.kind())?;
        value.setattr("row", error.row())?;
        value.setattr("message", error.to_string())
    };
    match set() {
        Ok(()) => raised,
        Err(other) => other,
    }
}

/// A run's columns.
#[pyclass(frozen, get_all, module = "ringbco._core")]
struct RunResult {
    kept: Py<PyArray1<bool>>,
    start: Py<PyArray1<f64>>,
    finish: Py<PyArray1<f64>>,
    num_servers: Py<PyArray1<u32>>,
    max_contention: Py<PyArray1<u32>>,
    wait_gpus: Py<PyArray1<f32>>,
    wait_fragmented: Py<PyArray1<f32>>,
    preemptions: Py<PyArray1<u32>>,
    held: Option<Py<PyArray1<f64>>>,
    lost: Option<Py<PyArray1<f64>>>,
    spread: Option<Py<PyArray1<f64>>>,
    refused: Option<Py<PyArray1<bool>>>,
    alloc_job: Py<PyArray1<u32>>,
    alloc_server: Py<PyArray1<u32>>,
    alloc_gpus: Py<PyArray1<u32>>,
    alloc_start: Py<PyArray1<f64>>,
    alloc_end: Py<PyArray1<f64>>,
    timeline_time: Py<PyArray1<f64>>,
    running: Py<PyArray1<u32>>,
    queued: Py<PyArray1<u32>>,
    busy_gpus: Py<PyArray1<u64>>,
    queued_gpus: Py<PyArray1<u64>>,
    spanning: Py<PyArray1<u32>>,
    mean_contention: Py<PyArray1<f64>>,
    events: u64,
    decisions: u64,
    engine_seconds: f64,
    contention_seconds: f64,
    spanning_seconds: f64,
    held_while_submitting: f64,
    held_while_submitting_by_vc: Py<PyArray1<f64>>,
}

impl RunResult {
    fn new(py: Python<'_>, outcome: Outcome) -> Self {
        fn column<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyArray1<T>> {
            values.into_pyarray(py).unbind()
        }
        let (allocations, timeline) = (outcome.allocations, outcome.timeline);
        let (held, lost, spread, refused) = match outcome.preempted {
            Some(own) => {
                let [held, lost, spread] = [own.held, own.lost, own.spread].map(|values| Some(column(py, values)));
                (held, lost, spread, Some(column(py, own.refused)))
            }
            None => (None, None, None, None),
        };
        Self {
            kept: column(py, outcome.kept),
            start: column(py, outcome.start),
            finish: column(py, outcome.finish),
            num_servers: column(py, outcome.num_servers),
            max_contention: column(py, outcome.max_contention),
            wait_gpus: column(py, outcome.wait_gpus),
            wait_fragmented: column(py, outcome.wait_fragmented),
            preemptions: column(py, outcome.preemptions),
            held,
            lost,
            spread,
            refused,
            alloc_job: column(py, allocations.job),
            alloc_server: column(py, allocations.server),
            alloc_gpus: column(py, allocations.num_gpus),
            alloc_start: column(py, allocations.start),
            alloc_end: column(py, allocations.end),
            timeline_time: column(py, timeline.time),
            running: column(py, timeline.running_jobs),
            queued: column(py, timeline.queued_jobs),
            busy_gpus: column(py, timeline.busy_gpus),
            queued_gpus: column(py, timeline.queued_gpus),
            spanning: column(py, timeline.spanning_jobs),
            mean_contention: column(py, timeline.mean_contention),
            events: outcome.events,
            decisions: outcome.decisions,
            engine_seconds: outcome.engine_seconds,
            contention_seconds: outcome.contention_seconds,
            spanning_seconds: outcome.spanning_seconds,
            held_while_submitting: outcome.held_while_submitting.all,
            held_while_submitting_by_vc: column(py, outcome.held_while_submitting.by_cluster),
        }
    }
}

/// Replays a trace; every column is borrowed, and the GIL is released for the whole run.
///
/// network: (intra_bandwidth, inter_bandwidth, reduce_speed, xi1, xi2, alpha).
/// progress: called with (finished, total) now and then.
#[pyfunction]
#[pyo3(signature = (
    submit, num_gpus, duration, iterations, gradient_bytes, compute_time, vc, server_gpus, server_vc, network, order,
    placement, queue, model, clock, slot, kappa, lambda_, variant, seed, ties, oversize, sample, record_allocations, progress,
    *, preemption = "none", preempt_cost = 30.0, thresholds = vec![18_000.0], interval = 60.0, quantum = 60.0,
    predict = "history", admission = false, aging = None, estimate_factor = 1.0, deadline = None, user = None,
))]
#[allow(clippy::too_many_arguments)]
fn replay(
    py: Python<'_>,
    submit: PyReadonlyArray1<'_, f64>,
    num_gpus: PyReadonlyArray1<'_, u32>,
    duration: PyReadonlyArray1<'_, f64>,
    iterations: PyReadonlyArray1<'_, u64>,
    gradient_bytes: PyReadonlyArray1<'_, f64>,
    compute_time: PyReadonlyArray1<'_, f64>,
    vc: Option<PyReadonlyArray1<'_, u32>>,
    server_gpus: PyReadonlyArray1<'_, u32>,
    server_vc: Option<PyReadonlyArray1<'_, u32>>,
    network: (f64, f64, f64, f64, f64, f64),
    order: &str,
    placement: &str,
    queue: &str,
    model: &str,
    clock: &str,
    slot: f64,
    kappa: u32,
    lambda_: f64,
    variant: &str,
    seed: u64,
    ties: &str,
    oversize: &str,
    sample: Option<f64>,
    record_allocations: bool,
    progress: Option<Py<PyAny>>,
    preemption: &str,
    preempt_cost: f64,
    thresholds: Vec<f64>,
    interval: f64,
    quantum: f64,
    predict: &str,
    admission: bool,
    aging: Option<f64>,
    estimate_factor: f64,
    deadline: Option<PyReadonlyArray1<'_, f64>>,
    user: Option<PyReadonlyArray1<'_, u32>>,
) -> PyResult<RunResult> {
    let ties = Ties::parse(ties).map_err(|e| raise(py, &e))?;
    let named = || {
        Ok(Options {
            preemption: Preemption::parse(preemption)?,
            predict: Predict::parse(predict)?,
            ..parse_options(order, placement, queue, model, clock, variant, oversize)?
        })
    };
    let options = Options {
        ties,
        slot,
        kappa,
        lambda: lambda_,
        seed,
        sample,
        record_allocations,
        preempt_cost,
        thresholds,
        interval,
        quantum,
        admission,
        aging,
        estimate_factor,
        ..named().map_err(|e| raise(py, &e))?
    };
    let network = network_of(network);
    let jobs = Jobs {
        submit: submit.as_slice()?,
        num_gpus: num_gpus.as_slice()?,
        duration: duration.as_slice()?,
        iterations: iterations.as_slice()?,
        gradient_bytes: gradient_bytes.as_slice()?,
        compute_time: compute_time.as_slice()?,
    };
    let vc = vc.as_ref().map(|v| v.as_slice()).transpose()?;
    let server_vc = server_vc.as_ref().map(|v| v.as_slice()).transpose()?;
    let spec = ClusterSpec { server_gpus: server_gpus.as_slice()?, server_vc, network };
    let deadline = deadline.as_ref().map(|d| d.as_slice()).transpose()?;
    let extras = Extras { deadline, user: user.as_ref().map(|u| u.as_slice()).transpose()? };
    let mut watch = PythonWatch { progress, total: jobs.len(), looked: Instant::now(), raised: None };
    let outcome = py.detach(|| replay_with(&jobs, &extras, vc, &spec, &options, &mut watch));
    if let Some(raised) = watch.raised {
        return Err(raised);
    }
    outcome.map(|o| RunResult::new(py, o)).map_err(|e| raise(py, &e))
}

fn parse_options(
    order: &str,
    placement: &str,
    queue: &str,
    model: &str,
    clock: &str,
    variant: &str,
    oversize: &str,
) -> Result<Options> {
    Ok(Options {
        order: Order::parse(order)?,
        placement: Placement::parse(placement)?,
        queue: Discipline::parse(queue)?,
        model: Model::parse(model)?,
        clock: ClockKind::parse(clock)?,
        variant: Variant::parse(variant)?,
        oversize: Oversize::parse(oversize)?,
        ..Options::default()
    })
}

/// A plan: its schedule, and how it was found.
#[pyclass(frozen, get_all, module = "ringbco._core")]
struct PlanResult {
    schedule: Py<RunResult>,
    theta: u64,
    kappa: Option<u32>,
    horizon: u64,
    w_max: f64,
    work_bound: f64,
    thetas: u64,
    schedules: u64,
    schedules_known: u64,
}

impl PlanResult {
    fn new(py: Python<'_>, plan: Plan) -> PyResult<Self> {
        Ok(Self {
            schedule: Py::new(py, RunResult::new(py, plan.schedule))?,
            theta: plan.theta,
            kappa: plan.kappa,
            horizon: plan.horizon,
            w_max: plan.w_max,
            work_bound: plan.work_bound,
            thetas: plan.thetas,
            schedules: plan.schedules,
            schedules_known: plan.schedules_known,
        })
    }
}

/// Plans a job table on a cluster without virtual clusters; the GIL is released for the whole search.
///
/// kappa, horizon: None to search. threads: None for as many as the machine has; the plan is the same on any number.
/// progress: called with (steps done, steps in all) now and then.
#[pyfunction]
#[allow(clippy::too_many_arguments)]
fn plan(
    py: Python<'_>,
    num_gpus: PyReadonlyArray1<'_, u32>,
    duration: PyReadonlyArray1<'_, f64>,
    iterations: PyReadonlyArray1<'_, u64>,
    gradient_bytes: PyReadonlyArray1<'_, f64>,
    compute_time: PyReadonlyArray1<'_, f64>,
    server_gpus: PyReadonlyArray1<'_, u32>,
    network: (f64, f64, f64, f64, f64, f64),
    policy: &str,
    order: &str,
    dispatch: &str,
    variant: &str,
    model: &str,
    kappa: Option<u32>,
    lambda_: f64,
    u: f64,
    horizon: Option<u64>,
    slot: f64,
    seed: u64,
    oversize: &str,
    sample: Option<f64>,
    threads: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<PlanResult> {
    let parse = || {
        Ok(PlanOptions {
            policy: Planner::parse(policy)?,
            order: Order::parse(order)?,
            dispatch: Dispatch::parse(dispatch)?,
            variant: Variant::parse(variant)?,
            model: Model::parse(model)?,
            oversize: Oversize::parse(oversize)?,
            ..PlanOptions::default()
        })
    };
    let options = parse()
        .map(|options| PlanOptions { kappa, lambda: lambda_, u, horizon, slot, seed, sample, ..options })
        .map_err(|e| raise(py, &e))?;
    let submit = vec![0.0; num_gpus.as_slice()?.len()];
    let jobs = Jobs {
        submit: &submit,
        num_gpus: num_gpus.as_slice()?,
        duration: duration.as_slice()?,
        iterations: iterations.as_slice()?,
        gradient_bytes: gradient_bytes.as_slice()?,
        compute_time: compute_time.as_slice()?,
    };
    let (server_gpus, network) = (server_gpus.as_slice()?, network_of(network));
    let mut watch = PythonWatch { progress, total: planner::PROGRESS_STEPS, looked: Instant::now(), raised: None };
    let planned = py.detach(|| match threads {
        None => planner::plan(&jobs, server_gpus, network, &options, &mut watch),
        Some(count) => {
            let refused = |_| Error::Option {
                name: "threads",
                value: count.to_string(),
                expected: "a number of threads that the system can start".to_owned(),
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().map_err(refused)?;
            planner::plan_in(&pool, &jobs, server_gpus, network, &options, &mut watch)
        }
    });
    if let Some(raised) = watch.raised {
        return Err(raised);
    }
    PlanResult::new(py, planned.map_err(|e| raise(py, &e))?)
}

fn network_of(
    (intra_bandwidth, inter_bandwidth, reduce_speed, xi1, xi2, alpha): (f64, f64, f64, f64, f64, f64),
) -> Network {
    Network {
        intra_bandwidth,
        inter_bandwidth,
        reduce_speed,
        contention_share: xi1,
        server_overhead: xi2,
        degradation: alpha,
    }
}

/// A policy as the registry describes it.
type PolicyRow = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// The registry of policies: (name, order, placement, queue, preemption).
#[pyfunction]
fn presets() -> Vec<PolicyRow> {
    let row = |p: &Preset| (p.name, p.order.name(), p.placement.name(), p.queue.name(), p.preemption.name());
    PRESETS.iter().map(row).collect()
}

/// What the registry says of each policy: (name, paper, clairvoyant, options).
#[pyfunction]
fn policies() -> Vec<(&'static str, &'static str, bool, Vec<&'static str>)> {
    PRESETS.iter().map(|p| (p.name, p.paper, p.clairvoyant, p.options.to_vec())).collect()
}

/// What this module was built by and for: (rustc, target, profile).
#[pyfunction]
fn build() -> (&'static str, &'static str, &'static str) {
    (env!("RINGBCO_RUSTC"), env!("RINGBCO_TARGET"), env!("RINGBCO_PROFILE"))
}

/// An error of the system as Python's `OSError` of the right kind, errno included.
fn os_error(error: &std::io::Error) -> PyErr {
    let number = error.raw_os_error().unwrap_or(match error.kind() {
        std::io::ErrorKind::Unsupported => ENOTSUP,
        _ => EIO,
    });
    pyo3::exceptions::PyOSError::new_err((number, error.to_string()))
}

const EIO: i32 = 5;
const ENOTSUP: i32 = 95;

/// Renames a file or folder; `FileExistsError` where the new name is taken, ENOTSUP where that takes two steps.
#[pyfunction]
fn rename_new(from_: std::path::PathBuf, to: std::path::PathBuf) -> PyResult<()> {
    files::rename_new(&from_, &to).map_err(|error| os_error(&error))
}

/// Exchanges two names in one step; ENOTSUP where that takes more.
#[pyfunction]
fn exchange(one: std::path::PathBuf, other: std::path::PathBuf) -> PyResult<()> {
    files::exchange(&one, &other).map_err(|error| os_error(&error))
}

/// The registry of planners.
#[pyfunction]
fn planners() -> Vec<&'static str> {
    Planner::ALL.iter().map(|p| p.name()).collect()
}

/// The registry of queue orders.
#[pyfunction]
fn orders() -> Vec<&'static str> {
    Order::ALL.iter().map(|o| o.name()).collect()
}

/// The registry of placements.
#[pyfunction]
fn placements() -> Vec<&'static str> {
    Placement::ALL.iter().map(|p| p.name()).collect()
}

/// The registry of queue disciplines.
#[pyfunction]
fn queues() -> Vec<&'static str> {
    Discipline::ALL.iter().map(|d| d.name()).collect()
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Loads numpy's table of functions now: an interrupt during its first use would be a panic there.
    PyArray1::<f64>::zeros(module.py(), 0, false);
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    module.add_class::<RunResult>()?;
    module.add_class::<PlanResult>()?;
    module.add_function(wrap_pyfunction!(replay, module)?)?;
    module.add_function(wrap_pyfunction!(plan, module)?)?;
    module.add_function(wrap_pyfunction!(build, module)?)?;
    module.add_function(wrap_pyfunction!(rename_new, module)?)?;
    module.add_function(wrap_pyfunction!(exchange, module)?)?;
    module.add_function(wrap_pyfunction!(planners, module)?)?;
    module.add_function(wrap_pyfunction!(presets, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(orders, module)?)?;
    module.add_function(wrap_pyfunction!(placements, module)?)?;
    module.add_function(wrap_pyfunction!(queues, module)?)?;
    Ok(())
}
