//! A replay, a plan and a lower bound: columns in, columns out. Every column is borrowed, and the GIL is released for the whole run.

use super::options::read;
use super::raise;
use super::rates::SpeedTable;
use super::results::{PlanResult, RunResult};
use crate::bound as bounds;
use crate::cluster::Network;
use crate::decisions::{DecisionLog, Verb};
use crate::error::{Error, Result};
use crate::ids::{GpuType, Server};
use crate::machine::Watch;
use crate::options::{Options, PlanOptions};
use crate::pack as packing;
use crate::planner;
use crate::replay::{ClusterSpec, Extras, replay_with};
use crate::simulation::OwnedServices;
use crate::trace::{Jobs, Kind, Load, Noise, Outage, Quota, Quotas, Range, RateTable, Rates, Services, Trials, Types};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a run looks at signals and tells its progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Looks at Python's signals and calls its progress function, seldom enough to cost nothing.
pub(super) struct PythonWatch {
    progress: Option<Py<PyAny>>,
    total: usize,
    looked: Instant,
    raised: Option<PyErr>,
}

impl PythonWatch {
    pub(super) fn new(progress: Option<Py<PyAny>>, total: usize) -> Self {
        Self { progress, total, looked: Instant::now(), raised: None }
    }

    /// Raises what was raised while the run went on.
    pub(super) fn check(self) -> PyResult<()> {
        self.raised.map_or(Ok(()), Err)
    }
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

/// Quotas: the place of each job's owner among them, then GPUs and whether to borrow, an owner each.
type QuotaColumns<'py> = (PyReadonlyArray1<'py, u32>, Vec<u64>, Vec<bool>);

/// Trials: the number of each job's search, 2^32 - 1 for none; then what says how its loss falls.
type TrialColumns<'py> = (PyReadonlyArray1<'py, u32>, [PyReadonlyArray1<'py, f64>; 3]);

/// The columns of a job table.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct JobColumns<'py> {
    submit: PyReadonlyArray1<'py, f64>,
    num_gpus: PyReadonlyArray1<'py, u32>,
    duration: PyReadonlyArray1<'py, f64>,
    iterations: PyReadonlyArray1<'py, u64>,
    gradient_bytes: PyReadonlyArray1<'py, f64>,
    compute_time: PyReadonlyArray1<'py, f64>,
    #[pyo3(default)]
    range: Option<(PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>)>,
    #[pyo3(default)]
    noise: Option<(PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, u32>)>,
    #[pyo3(default)]
    types: Option<TypeColumns<'py>>,
    #[pyo3(default)]
    speeds: Option<SpeedColumns<'py>>,
    #[pyo3(default)]
    shares: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    priority: Option<PyReadonlyArray1<'py, i32>>,
    #[pyo3(default)]
    preemptible: Option<PyReadonlyArray1<'py, bool>>,
    #[pyo3(default)]
    trials: Option<TrialColumns<'py>>,
    #[pyo3(default)]
    quotas: Option<QuotaColumns<'py>>,
    #[pyo3(default)]
    checkpoint_interval: Option<PyReadonlyArray1<'py, f64>>,
    #[pyo3(default)]
    vc: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    deadline: Option<PyReadonlyArray1<'py, f64>>,
    #[pyo3(default)]
    user: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    key: Option<PyReadonlyArray1<'py, f64>>,
    #[pyo3(default)]
    log: Option<LogColumns<'py>>,
}

/// A kind: the recorded speed, the recorded type's number where the model asks for it, and the types allowed, each with
/// its speed.
type KindColumns = (f64, Option<u32>, Vec<(u32, f64)>);

/// Measured speeds: each job's model, and what was measured.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct SpeedColumns<'py> {
    model_of: PyReadonlyArray1<'py, u32>,
    table: Py<SpeedTable>,
}

impl SpeedColumns<'_> {
    fn rates<'a>(&'a self) -> PyResult<Rates<'a>> {
        let table: &'a Arc<RateTable> = &self.table.get().0;
        Ok(Rates { model_of: self.model_of.as_slice()?, table })
    }
}

/// What GPU types mean to the jobs: each job's kind, and the kinds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct TypeColumns<'py> {
    of: PyReadonlyArray1<'py, u32>,
    kinds: Vec<KindColumns>,
}

impl TypeColumns<'_> {
    fn kinds(&self) -> Vec<Kind> {
        let of = |&(gpu_type, speed): &(u32, f64)| (GpuType::new(gpu_type), speed);
        let kind = |(speed, recorded, allowed): &KindColumns| Kind {
            recorded_speed: *speed,
            recorded_on: recorded.map_or(GpuType::NONE, GpuType::new),
            allowed: allowed.iter().map(of).collect(),
            order: 0,
        };
        self.kinds.iter().map(kind).collect()
    }
}

/// The columns of a decision log; verbs are positions in `verbs()`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct LogColumns<'py> {
    time: PyReadonlyArray1<'py, f64>,
    verb: PyReadonlyArray1<'py, u8>,
    job: PyReadonlyArray1<'py, u32>,
    server: PyReadonlyArray1<'py, u32>,
    num_gpus: PyReadonlyArray1<'py, u32>,
}

impl LogColumns<'_> {
    fn log(&self) -> PyResult<DecisionLog> {
        let verb = |&number: &u8| {
            Verb::ALL.get(usize::from(number)).copied().ok_or_else(|| PyValueError::new_err("no such verb"))
        };
        Ok(DecisionLog {
            time: self.time.as_slice()?.to_vec(),
            verb: self.verb.as_slice()?.iter().map(verb).collect::<PyResult<_>>()?,
            job: self.job.as_slice()?.to_vec(),
            server: self.server.as_slice()?.to_vec(),
            num_gpus: self.num_gpus.as_slice()?.to_vec(),
        })
    }
}

impl JobColumns<'_> {
    pub(super) fn vc(&self) -> PyResult<Option<&[u32]>> {
        slice(self.vc.as_ref())
    }

    /// The place of each job's owner, and a quota an owner; `None` for a run without quotas.
    pub(super) fn quotas(&self) -> PyResult<Option<(&[u32], Vec<Quota>)>> {
        let Some((owner, gpus, borrow)) = &self.quotas else { return Ok(None) };
        let list = gpus.iter().zip(borrow).map(|(&gpus, &borrow)| Quota { gpus, borrow });
        Ok(Some((owner.as_slice()?, list.collect())))
    }

    /// What the kinds of jobs are.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        self.types.as_ref().map_or_else(Vec::new, TypeColumns::kinds)
    }

    /// The columns; `kinds` as the function of that name gives them.
    pub(super) fn jobs<'a>(&'a self, kinds: &'a [Kind]) -> PyResult<Jobs<'a>> {
        let range = match &self.range {
            Some((min, max)) => Some(Range { min: min.as_slice()?, max: max.as_slice()? }),
            None => None,
        };
        let noise = match &self.noise {
            Some((scale, batch)) => Some(Noise { scale: scale.as_slice()?, batch: batch.as_slice()? }),
            None => None,
        };
        let types = match &self.types {
            Some(types) => Some(Types { of: types.of.as_slice()?, kinds }),
            None => None,
        };
        let trials = match &self.trials {
            Some((search, [end, start, fall])) => {
                let curve = [end.as_slice()?, start.as_slice()?, fall.as_slice()?];
                Some(Trials { search: search.as_slice()?, curve })
            }
            None => None,
        };
        Ok(Jobs {
            trials,
            range,
            noise,
            types,
            rates: self.speeds.as_ref().map(SpeedColumns::rates).transpose()?,
            shares: slice(self.shares.as_ref())?,
            priority: slice(self.priority.as_ref())?,
            preemptible: slice(self.preemptible.as_ref())?,
            checkpoint_interval: slice(self.checkpoint_interval.as_ref())?,
            submit: self.submit.as_slice()?,
            num_gpus: self.num_gpus.as_slice()?,
            duration: self.duration.as_slice()?,
            iterations: self.iterations.as_slice()?,
            gradient_bytes: self.gradient_bytes.as_slice()?,
            compute_time: self.compute_time.as_slice()?,
        })
    }
}

/// Outages: servers, when they go down and when they come back.
type OutageColumns<'py> = (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>);

/// Services: GPUs of a replica of each; then loads: services, times, replicas.
type ServiceColumns<'py> =
    (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, u32>);

/// The columns of a cluster's servers, and its network: (`intra_bandwidth`, `inter_bandwidth`, `reduce_speed`, xi1,
/// xi2, alpha).
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct ClusterColumns<'py> {
    server_gpus: PyReadonlyArray1<'py, u32>,
    #[pyo3(default)]
    server_vc: Option<PyReadonlyArray1<'py, u32>>,
    #[pyo3(default)]
    server_types: Option<Vec<u32>>,
    #[pyo3(default)]
    type_prices: Option<Vec<f64>>,
    #[pyo3(default)]
    outages: Option<OutageColumns<'py>>,
    #[pyo3(default)]
    services: Option<ServiceColumns<'py>>,
    network: (f64, f64, f64, f64, f64, f64),
}

impl ClusterColumns<'_> {
    /// The GPU type of each server.
    pub(super) fn server_types(&self) -> Option<Vec<GpuType>> {
        self.server_types.as_ref().map(|types| types.iter().map(|&of| GpuType::new(of)).collect())
    }

    /// The columns; `server_types` as the function of that name gives them.
    pub(super) fn spec<'a>(&'a self, server_types: Option<&'a [GpuType]>) -> PyResult<ClusterSpec<'a>> {
        Ok(ClusterSpec {
            server_gpus: self.server_gpus.as_slice()?,
            server_vc: slice(self.server_vc.as_ref())?,
            server_types,
            type_prices: self.type_prices.as_deref(),
            network: self.network(),
        })
    }

    /// When servers are down; `None` for a run that knows no outages.
    pub(super) fn outages(&self) -> PyResult<Option<Vec<Outage>>> {
        let Some((server, down, up)) = &self.outages else { return Ok(None) };
        let (server, down, up) = (server.as_slice()?, down.as_slice()?, up.as_slice()?);
        let rows = (0..).zip(server).zip(down).zip(up);
        let outage = |(((row, &server), &down), &up)| Outage { server: Server::new(server), down, up, row };
        Ok(Some(rows.map(outage).collect()))
    }

    /// What services want; `None` for a run that knows none.
    pub(super) fn services(&self) -> PyResult<Option<OwnedServices>> {
        let Some((gpus, service, time, replicas)) = &self.services else { return Ok(None) };
        let (service, time, replicas) = (service.as_slice()?, time.as_slice()?, replicas.as_slice()?);
        let rows = service.iter().zip(time.iter().zip(replicas));
        let loads = rows.map(|(&service, (&time, &replicas))| Load { service, time, replicas }).collect();
        Ok(Some((gpus.as_slice()?.to_vec(), loads)))
    }

    fn network(&self) -> Network {
        let (intra_bandwidth, inter_bandwidth, reduce_speed, xi1, xi2, alpha) = self.network;
        Network {
            intra_bandwidth,
            inter_bandwidth,
            reduce_speed,
            contention_share: xi1,
            server_overhead: xi2,
            degradation: alpha,
        }
    }
}

fn slice<'a, T: numpy::Element>(column: Option<&'a PyReadonlyArray1<'_, T>>) -> PyResult<Option<&'a [T]>> {
    Ok(column.map(|column| column.as_slice()).transpose()?)
}

/// Replays a trace.
///
/// options: those of the table that are not at their default. progress: called with (finished, total) now and then.
#[pyfunction]
pub(super) fn replay(
    py: Python<'_>,
    jobs: JobColumns<'_>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<RunResult> {
    let options: Options = read(options)?;
    let kinds = jobs.kinds();
    let table = jobs.jobs(&kinds)?;
    let vc = jobs.vc()?;
    let log = jobs.log.as_ref().map(LogColumns::log).transpose()?;
    let (outages, quotas, services) = (cluster.outages()?, jobs.quotas()?, cluster.services()?);
    let extras = Extras {
        outages: outages.as_deref(),
        quotas: quotas.as_ref().map(|(owner, list)| Quotas { owner, list }),
        services: services.as_ref().map(|(gpus, loads)| Services { gpus, loads }),
        deadline: slice(jobs.deadline.as_ref())?,
        user: slice(jobs.user.as_ref())?,
        key: slice(jobs.key.as_ref())?,
        log: log.as_ref(),
    };
    let server_types = cluster.server_types();
    let spec = cluster.spec(server_types.as_deref())?;
    let mut watch = PythonWatch::new(progress, table.len());
    let outcome = py.detach(|| replay_with(&table, &extras, vc, &spec, &options, &mut watch));
    watch.check()?;
    outcome.map_err(|e| raise(py, &e)).and_then(|o| RunResult::new(py, o))
}

/// Plans a job table on a cluster without virtual clusters, whatever the times of submission.
///
/// options: those of the table that are not at their default. progress: called with (steps done, steps in all) now and
/// then. threads: None for as many as the machine has; the plan is the same on any number.
#[pyfunction]
#[pyo3(signature = (jobs, cluster, options, progress, *, threads = None))]
pub(super) fn plan(
    py: Python<'_>,
    jobs: JobColumns<'_>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<PlanResult> {
    let options: PlanOptions = read(options)?;
    let kinds = jobs.kinds();
    let table = jobs.jobs(&kinds)?;
    let submit = vec![0.0; table.len()];
    let table = Jobs { submit: &submit, ..table };
    let (server_gpus, network) = (cluster.server_gpus.as_slice()?, cluster.network());
    let mut watch = PythonWatch::new(progress, planner::PROGRESS_STEPS);
    let planned = py.detach(|| match threads {
        None => planner::plan(&table, server_gpus, network, &options, &mut watch),
        Some(count) => {
            let refused = |_| Error::Option {
                name: "threads",
                value: count.to_string(),
                expected: "a number of threads that the system can start".to_owned(),
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().map_err(refused)?;
            planner::plan_in(&pool, &table, server_gpus, network, &options, &mut watch)
        }
    });
    watch.check()?;
    PlanResult::new(py, planned.map_err(|e| raise(py, &e))?)
}

/// Whether each of the jobs that ask one after the other, by row, finds room; nobody ever leaves.
///
/// options: those of the table that are not at their default. beside: CPU and memory that the rows ask for, then what
/// the servers have.
#[pyfunction]
#[pyo3(signature = (jobs, cluster, options, order, beside=None))]
pub(super) fn pack<'py>(
    py: Python<'py>,
    jobs: JobColumns<'_>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    order: PyReadonlyArray1<'_, u32>,
    beside: Option<[PyReadonlyArray1<'_, u64>; 4]>,
) -> PyResult<Bound<'py, PyArray1<bool>>> {
    let options: Options = read(options)?;
    let kinds = jobs.kinds();
    let table = jobs.jobs(&kinds)?;
    let server_types = cluster.server_types();
    let spec = cluster.spec(server_types.as_deref())?;
    let order = order.as_slice()?;
    let beside = match &beside {
        None => None,
        Some([cpu, memory, has_cpu, has_memory]) => Some(packing::Beside {
            asked: [cpu.as_slice()?, memory.as_slice()?],
            has: [has_cpu.as_slice()?, has_memory.as_slice()?],
        }),
    };
    let packed = || packing::pack(&table, &spec, &options, order, beside.as_ref());
    let found = py.detach(packed).map_err(|error| raise(py, &error))?;
    Ok(found.into_pyarray(py))
}

/// The lower bound of jobs on so many GPUs: its sum, s, then sets and jobs by term (run times, shortest, busy).
#[pyfunction]
pub(super) fn bound(
    py: Python<'_>,
    submit: PyReadonlyArray1<'_, f64>,
    shortest: PyReadonlyArray1<'_, f64>,
    work: PyReadonlyArray1<'_, f64>,
    gpus: u32,
) -> PyResult<(f64, [u64; 3], [u64; 3])> {
    let (submit, shortest, work) = (submit.as_slice()?, shortest.as_slice()?, work.as_slice()?);
    let found = py.detach(|| bounds::bound(submit, shortest, work, gpus));
    found.map(|bound| (bound.sum, bound.sets, bound.jobs)).map_err(|error| raise(py, &error))
}
