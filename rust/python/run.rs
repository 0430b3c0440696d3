//! Runs a replay, a plan and a lower bound: columns in, columns out. Every column is borrowed, and the GIL is
//! released for the whole run.

use super::jobs::{JobColumns, slice};
use super::options::read;
use super::raise;
use super::requests::RequestColumns;
use super::results::{PlanResult, RunResult};
use super::simulation::answer_dict;
use crate::bound as bounds;
use crate::cluster::{Network, Tier};
use crate::concavity;
use crate::decisions::DecisionLog;
use crate::error::{Error, Result};
use crate::ids::{GpuType, Server};
use crate::machine::Watch;
use crate::options::{Options, PlanOptions};
use crate::pack as packing;
use crate::planner;
use crate::replay::{ClusterSpec, Extras, Told, Wait, probe as probing, replay_with};
use crate::trace::{Jobs, Load, Outage, OwnedSideTables, Recorded};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often a run polls signals and reports its progress.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Polls Python's signals and calls its progress function, rarely enough to cost nothing.
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

    /// Raises what was raised during the run.
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

/// Outages: servers, when they go down and when they come back, and whether they drain.
type OutageColumns<'py> =
    (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, bool>);

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
    maintenance: Option<OutageColumns<'py>>,
    #[pyo3(default)]
    services: Option<ServiceColumns<'py>>,
    #[pyo3(default)]
    requests: Option<RequestColumns<'py>>,
    network: (f64, f64, f64, f64, f64, f64),
    #[pyo3(default)]
    gpu_nics: bool,
    #[pyo3(default)]
    tiers: Vec<TierColumns<'py>>,
}

/// A tier: the group of each server, the bandwidth of an uplink, its xi1 and alpha, and the bandwidth inside a group.
type TierColumns<'py> = (PyReadonlyArray1<'py, u32>, f64, f64, f64, Option<f64>);

impl ClusterColumns<'_> {
    /// Returns the GPU type of each server.
    pub(super) fn server_types(&self) -> Option<Vec<GpuType>> {
        self.server_types.as_ref().map(|types| types.iter().map(|&of| GpuType::new(of)).collect())
    }

    /// Returns the tiers above the servers.
    pub(super) fn tiers(&self) -> PyResult<Vec<Tier>> {
        let tier = |(group, bandwidth, contention_share, degradation, inside): &TierColumns<'_>| {
            let (group, bandwidth, inside) = (group.as_slice()?.to_vec(), *bandwidth, *inside);
            Ok(Tier { group, bandwidth, contention_share: *contention_share, degradation: *degradation, inside })
        };
        self.tiers.iter().map(tier).collect()
    }

    /// Returns the columns; `server_types` and `tiers` as returned by the functions of that name.
    pub(super) fn spec<'a>(
        &'a self,
        server_types: Option<&'a [GpuType]>,
        tiers: &'a [Tier],
    ) -> PyResult<ClusterSpec<'a>> {
        Ok(ClusterSpec {
            server_gpus: self.server_gpus.as_slice()?,
            server_vc: slice(&self.server_vc)?,
            server_types,
            type_prices: self.type_prices.as_deref(),
            network: self.network(),
            tiers,
        })
    }

    /// Returns what is known beside the jobs, about the job table and the cluster.
    pub(super) fn side_tables(&self, jobs: &JobColumns<'_>) -> PyResult<OwnedSideTables> {
        Ok(OwnedSideTables {
            outages: self.outages.as_ref().map(outages).transpose()?,
            maintenance: self.maintenance.as_ref().map(outages).transpose()?,
            quotas: jobs.quotas()?,
            services: self.services.as_ref().map(services).transpose()?,
            requests: self.requests.as_ref().map(|given| given.read().map(Arc::new)).transpose()?,
        })
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
            gpu_nics: self.gpu_nics,
            domains: None,
        }
    }
}

fn outages((server, down, up, drains): &OutageColumns<'_>) -> PyResult<Vec<Outage>> {
    let (server, down, up, drains) = (server.as_slice()?, down.as_slice()?, up.as_slice()?, drains.as_slice()?);
    let rows = (0..).zip(server).zip(down).zip(up.iter().zip(drains));
    let outage = |(((row, &server), &down), (&up, &drains))| {
        let server = Server::new(server);
        Outage { server, down, up, drains, row }
    };
    Ok(rows.map(outage).collect())
}

fn services((gpus, service, time, replicas): &ServiceColumns<'_>) -> PyResult<(Vec<u32>, Vec<Load>)> {
    let (service, time, replicas) = (service.as_slice()?, time.as_slice()?, replicas.as_slice()?);
    let rows = service.iter().zip(time.iter().zip(replicas));
    let loads = rows.map(|(&service, (&time, &replicas))| Load { service, time, replicas }).collect();
    Ok((gpus.as_slice()?.to_vec(), loads))
}

/// Replays a trace.
///
/// options: those of the table that are not at their default. progress: called with (finished, total) from time to
/// time.
#[pyfunction]
pub(super) fn replay(
    py: Python<'_>,
    jobs: &Bound<'_, PyDict>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
) -> PyResult<RunResult> {
    let given = Given::read(jobs, &cluster, options)?;
    let (table, server_types) = (given.jobs.jobs()?, cluster.server_types());
    let tiers = cluster.tiers()?;
    let spec = cluster.spec(server_types.as_deref(), &tiers)?;
    let (extras, vc) = (given.extras()?, slice(&given.jobs.vc)?);
    let mut watch = PythonWatch::new(progress, table.len());
    let outcome = py.detach(|| replay_with(&table, &extras, vc, &spec, &given.options, &mut watch));
    watch.check()?;
    outcome.map_err(|e| raise(py, &e)).and_then(|o| RunResult::new(py, o))
}

/// Repeats a run to the waits of the job of a row, (since, start, whether to report the heads of the queue) each, and
/// no further.
///
/// Returns for each the state of the job as the wait began and just before it was over, and for how long, s, which
/// row was at the head of the queue; None if nothing could ever hold the job. The rest is as `replay` takes it.
#[pyfunction]
pub(super) fn probe<'py>(
    py: Python<'py>,
    jobs: &Bound<'_, PyDict>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    row: u32,
    waits: Vec<Wait>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Option<Vec<Probed<'py>>>> {
    let given = Given::read(jobs, &cluster, options)?;
    let (table, server_types) = (given.jobs.jobs()?, cluster.server_types());
    let tiers = cluster.tiers()?;
    let spec = cluster.spec(server_types.as_deref(), &tiers)?;
    let (extras, vc) = (given.extras()?, slice(&given.jobs.vc)?);
    let mut watch = PythonWatch::new(progress, table.len());
    let found = py.detach(|| probing(&table, &extras, vc, &spec, &given.options, (row, &waits), &mut watch));
    watch.check()?;
    let tell = |(begun, over, heads): Told| Ok((answer_dict(py, begun)?, answer_dict(py, over)?, heads));
    let found = found.map_err(|error| raise(py, &error))?;
    found.map(|waits| waits.into_iter().map(tell).collect()).transpose()
}

/// What is known about a wait.
type Probed<'py> = (Bound<'py, PyDict>, Bound<'py, PyDict>, Vec<(u32, f64)>);

/// The input of a run.
struct Given<'py> {
    options: Options,
    jobs: JobColumns<'py>,
    log: Option<DecisionLog>,
    recorded: Option<Recorded>,
    side: OwnedSideTables,
}

impl<'py> Given<'py> {
    fn read(jobs: &Bound<'py, PyDict>, cluster: &ClusterColumns<'_>, options: &Bound<'_, PyDict>) -> PyResult<Self> {
        let py = jobs.py();
        let (options, jobs) = (read(options)?, JobColumns::read(jobs)?);
        let (log, side) = (jobs.log()?, cluster.side_tables(&jobs)?);
        let recorded = jobs.recorded()?.transpose().map_err(|error| raise(py, &error))?;
        Ok(Self { options, jobs, log, recorded, side })
    }

    fn extras(&self) -> PyResult<Extras<'_>> {
        Ok(Extras {
            side: self.side.view(),
            deadline: slice(&self.jobs.deadline)?,
            user: slice(&self.jobs.user)?,
            predicted: slice(&self.jobs.predicted)?,
            estimated: slice(&self.jobs.estimated)?,
            key: slice(&self.jobs.key)?,
            fair: self.jobs.fair()?,
            log: self.log.as_ref(),
            recorded: self.recorded.as_ref(),
        })
    }
}

/// Plans a job table on a cluster, each virtual cluster by itself, whatever the times of submission.
///
/// options: those of the table that are not at their default. progress: called with (steps done, steps in all) from
/// time to time. threads: None for as many as the machine has; the plan is the same on any number.
#[pyfunction]
#[pyo3(signature = (jobs, cluster, options, progress, *, threads = None))]
pub(super) fn plan(
    py: Python<'_>,
    jobs: &Bound<'_, PyDict>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    progress: Option<Py<PyAny>>,
    threads: Option<usize>,
) -> PyResult<PlanResult> {
    let options: PlanOptions = read(options)?;
    let jobs = JobColumns::read(jobs)?;
    let table = jobs.jobs()?;
    let submit = vec![0.0; table.len()];
    let table = Jobs { submit: &submit, ..table };
    let (vc, spec) = (slice(&jobs.vc)?, cluster.spec(None, &[])?);
    let mut watch = PythonWatch::new(progress, planner::PROGRESS_STEPS);
    let planned = py.detach(|| match threads {
        None => planner::plan(&table, vc, &spec, &options, &mut watch),
        Some(count) => {
            let refused = |_| Error::Option {
                name: "threads",
                value: count.to_string(),
                expected: "a number of threads that the system can start".to_owned(),
            };
            let pool = rayon::ThreadPoolBuilder::new().num_threads(count).build().map_err(refused)?;
            planner::plan_in(&pool, &table, vc, &spec, &options, &mut watch)
        }
    });
    watch.check()?;
    PlanResult::new(py, planned.map_err(|e| raise(py, &e))?)
}

/// Returns whether each of the jobs that ask one after the other, by row, finds room, and the rows that no server can
/// ever hold; no job ever leaves.
///
/// options: those of the table that are not at their default. beside: CPU and memory that the rows ask for, then what
/// the servers have.
#[pyfunction]
#[pyo3(signature = (jobs, cluster, options, order, beside=None))]
pub(super) fn pack<'py>(
    py: Python<'py>,
    jobs: &Bound<'_, PyDict>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
    order: PyReadonlyArray1<'_, u32>,
    beside: Option<[PyReadonlyArray1<'_, u64>; 4]>,
) -> PyResult<(Bound<'py, PyArray1<bool>>, Vec<u32>)> {
    let options: Options = read(options)?;
    let jobs = JobColumns::read(jobs)?;
    let table = jobs.jobs()?;
    let server_types = cluster.server_types();
    let tiers = cluster.tiers()?;
    let spec = cluster.spec(server_types.as_deref(), &tiers)?;
    let order = order.as_slice()?;
    let beside = match &beside {
        None => None,
        Some([cpu, memory, has_cpu, has_memory]) => Some(packing::CpuMemory {
            asked: [cpu.as_slice()?, memory.as_slice()?],
            has: [has_cpu.as_slice()?, has_memory.as_slice()?],
        }),
    };
    let packed = || packing::pack(&table, &spec, &options, order, beside.as_ref());
    let found = py.detach(packed).map_err(|error| raise(py, &error))?;
    Ok((found.placed.into_pyarray(py), found.too_large))
}

/// Returns the lower bound of jobs on so many GPUs: its sum, s, then sets and jobs by term (run times, shortest,
/// busy).
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

/// Numbers handed to numpy.
type Column<'py> = Bound<'py, PyArray1<f64>>;

/// Returns a bound by prices: its sum, s, the ends of the intervals, and the prices of GPUs, of gangs above a half of
/// them and of gangs above a third.
#[pyfunction]
pub(super) fn prices<'py>(
    py: Python<'py>,
    submit: PyReadonlyArray1<'_, f64>,
    shortest: PyReadonlyArray1<'_, f64>,
    work: PyReadonlyArray1<'_, f64>,
    least: PyReadonlyArray1<'_, f64>,
    gpus: u32,
) -> PyResult<(f64, Column<'py>, [Column<'py>; 3])> {
    let (submit, shortest) = (submit.as_slice()?, shortest.as_slice()?);
    let (work, least) = (work.as_slice()?, least.as_slice()?);
    let found = py.detach(|| bounds::prices(submit, shortest, work, least, gpus)).map_err(|error| raise(py, &error))?;
    Ok((found.sum, found.ends.into_pyarray(py), found.prices.map(|row| row.into_pyarray(py))))
}

/// Returns the elastic jobs for which one more GPU gains less than the one before, and a later one more again: rows,
/// GPU types (`2^32 - 1` where all are alike), and on how many GPUs the gain falls and rises.
///
/// options: those of the table that are not at their default.
#[pyfunction]
pub(super) fn dips<'py>(
    py: Python<'py>,
    jobs: &Bound<'_, PyDict>,
    cluster: ClusterColumns<'_>,
    options: &Bound<'_, PyDict>,
) -> PyResult<[Bound<'py, PyArray1<u32>>; 4]> {
    let options: Options = read(options)?;
    let jobs = JobColumns::read(jobs)?;
    let (table, vc, server_types) = (jobs.jobs()?, slice(&jobs.vc)?, cluster.server_types());
    let tiers = cluster.tiers()?;
    let spec = cluster.spec(server_types.as_deref(), &tiers)?;
    let found = py.detach(|| concavity::dips(&table, vc, &spec, options.model)).map_err(|error| raise(py, &error))?;
    let column = |of: fn(&concavity::Dip) -> u32| found.iter().map(of).collect::<Vec<_>>().into_pyarray(py);
    Ok([column(|dip| dip.row), column(|dip| dip.gpu_type.number()), column(|dip| dip.falls), column(|dip| dip.rises)])
}
