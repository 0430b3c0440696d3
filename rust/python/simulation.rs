//! A run whose decisions come from Python: it pauses, Python reads columns and calls verbs, and it continues.
//!
//! The machine makes no calls into Python, and holds no lock while Python decides. The GIL is released while it runs.

use super::jobs::{JobColumns, slice};
use super::options::read;
use super::raise;
use super::results::RunResult;
use super::run::{ClusterColumns, PythonWatch};
use crate::machine::WaitExplanation;
use crate::options::{Options, Placement};
use crate::simulation::{Course as Run, Figure, Prepared as Table, Reached, Refused, StartAt, When};
use crate::trace::Columns;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadwriteArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};

fn rows(py: Python<'_>, rows: Vec<u32>) -> Bound<'_, PyArray1<u32>> {
    rows.into_pyarray(py)
}

fn refused(py: Python<'_>, refused: &Refused) -> PyErr {
    let raised = super::CoreError::new_err(refused.why.clone());
    let value = raised.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", "verb")?;
        value.setattr("row", refused.row)?;
        value.setattr("verb", refused.verb)?;
        value.setattr("message", refused.why.as_str())
    };
    match set() {
        Ok(()) => raised,
        Err(other) => other,
    }
}

/// A checked table and cluster.
#[pyclass(frozen, module = "ringbco._core")]
pub(super) struct Prepared(Table);

#[pymethods]
impl Prepared {
    #[new]
    fn new(
        py: Python<'_>,
        jobs: &Bound<'_, PyDict>,
        cluster: ClusterColumns<'_>,
        options: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let options: Options = read(options)?;
        let (jobs, server_types) = (JobColumns::read(jobs)?, cluster.server_types());
        let tiers = cluster.tiers()?;
        let (vc, spec) = (slice(&jobs.vc)?, cluster.spec(server_types.as_deref(), &tiers)?);
        let side = cluster.side_tables(&jobs)?;
        let table = Columns::to_owned(jobs.jobs()?);
        Table::new(table, side, vc, &spec, options).map(Self).map_err(|error| raise(py, &error))
    }

    /// The number of virtual clusters; 1 for a cluster without.
    #[getter]
    fn parts(&self) -> usize {
        self.0.parts()
    }

    /// Returns the run of a virtual cluster, before its first event. `interval`: seconds between decisions, None for
    /// one at every change; `waiting_only`: whether only while some job waits; `stops`: whether jobs may be stopped,
    /// so that one is due where a protection ends.
    fn course(&self, part: usize, interval: Option<f64>, waiting_only: bool, stops: bool) -> PyResult<Course> {
        if part >= self.0.parts() {
            return Err(PyValueError::new_err("no such virtual cluster"));
        }
        Ok(Course(self.0.course(part, When { interval, waiting_only, stops })))
    }

    /// Returns the results of every job. Every course must be over.
    fn outcome(&self, py: Python<'_>, courses: Vec<PyRef<'_, Course>>) -> PyResult<RunResult> {
        let runs: Vec<Run> = courses.iter().map(|course| course.0.clone()).collect();
        py.detach(|| self.0.outcome(runs)).map_err(|error| raise(py, &error)).and_then(|o| RunResult::new(py, o))
    }
}

/// Rows, their keys and whether jobs are stopped by these.
type RowKeys<'py> = (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>, bool);

/// Returns the state of a waiting job, by name.
pub(super) fn answer_dict(py: Python<'_>, answer: WaitExplanation) -> PyResult<Bound<'_, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("by", answer.by)?;
    row.set_item("waits", answer.waits)?;
    row.set_item("others", answer.others)?;
    row.set_item("ahead", answer.ahead)?;
    row.set_item("first", answer.first)?;
    row.set_item("head", answer.head)?;
    row.set_item("room", answer.room)?;
    row.set_item("down", answer.down)?;
    row.set_item("quota", answer.quota)?;
    row.set_item("estimate", answer.estimate)?;
    row.set_item("shadow", answer.shadow)?;
    row.set_item("reserved", answer.reserved)?;
    row.set_item("beyond", answer.beyond)?;
    row.set_item("evicts_from", answer.evicts_from)?;
    row.set_item("partners", answer.partners.map(|partners| partners.into_py_dict(py)).transpose()?)?;
    row.set_item("decided", answer.decided)?;
    row.set_item("types", answer.types)?;
    Ok(row)
}

/// The run of one virtual cluster.
#[pyclass(module = "ringbco._core")]
pub(super) struct Course(Run);

#[pymethods]
impl Course {
    /// Runs until a decision is due (2), or until every instant up to `until`, s, is over (1), or to the end (0).
    fn run(&mut self, py: Python<'_>, until: f64, progress: Option<Py<PyAny>>) -> PyResult<u8> {
        let watch = PythonWatch::new(progress, self.0.jobs());
        let (reached, watch) = py.detach(|| self.0.run(until, watch));
        watch.check()?;
        match reached {
            Ok(Reached::End) => Ok(0),
            Ok(Reached::Time) => Ok(1),
            Ok(Reached::Decision) => Ok(2),
            Err(error) => Err(raise(py, &error)),
        }
    }

    /// Returns a copy as of now; what happens to one does not touch the other.
    fn fork(&self, py: Python<'_>) -> Self {
        Self(py.detach(|| self.0.clone()))
    }

    /// Makes decisions due at the multiples of `interval`, s, from now on, or at every change if it is None.
    fn set_interval(&mut self, interval: Option<f64>) {
        self.0.set_interval(interval);
    }

    #[getter]
    fn now(&self) -> f64 {
        self.0.now()
    }

    /// The number of jobs that have arrived.
    #[getter]
    fn arrived(&self) -> usize {
        self.0.arrived()
    }

    /// The number of jobs that are done, refused or ended.
    #[getter]
    fn gone(&self) -> usize {
        self.0.gone()
    }

    /// The number of jobs of this cluster.
    #[getter]
    fn jobs(&self) -> usize {
        self.0.jobs()
    }

    fn waiting<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.waiting())
    }

    fn running<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.running())
    }

    /// Returns when each row arrives, s; NaN while that is open, and in other virtual clusters.
    fn arrival_times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.arrival_times().into_pyarray(py)
    }

    /// Returns the rows that have arrived, completed, or lost their server since the last decision.
    fn news<'py>(&self, py: Python<'py>) -> [Bound<'py, PyArray1<u32>>; 3] {
        self.0.news().map(|news| rows(py, news))
    }

    /// Returns whether each server of the whole cluster is up; those of other virtual clusters are assumed to be.
    fn up<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<bool>> {
        self.0.up().into_pyarray(py)
    }

    /// Returns the servers that drain and are not down.
    fn draining<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.draining())
    }

    /// Returns the idle GPUs of every server of the whole cluster; 0 in other virtual clusters.
    fn idle<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.idle())
    }

    /// Returns U of every GPU of this virtual cluster, s.
    fn gpu_times<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.0.gpu_times().into_pyarray(py)
    }

    /// Returns (server, GPUs) of a running job.
    fn parts(&self, row: u32) -> Vec<(u32, u32)> {
        self.0.parts(row)
    }

    /// Returns (row, parts) of all running jobs.
    fn places(&self) -> Vec<(u32, Vec<(u32, u32)>)> {
        self.0.places()
    }

    /// Returns (server, GPU there) of a running job, where jobs may hold shares.
    fn gpus_of(&self, row: u32) -> Vec<(u32, u32)> {
        self.0.gpus_of(row)
    }

    /// Returns the idle thousandths of every GPU of every server, where jobs may hold shares; none in other virtual
    /// clusters.
    fn room(&self) -> Vec<Vec<u32>> {
        self.0.room()
    }

    /// Returns the quotas of a row's owners: the book, GPUs, GPUs that the owner's jobs hold, and whether they may
    /// borrow.
    fn quotas(&self, row: u32) -> Vec<(usize, u64, u64, bool)> {
        self.0.quotas(row)
    }

    /// Returns the rows of the running jobs whose stays are over quota.
    fn over_quota<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.over_quota())
    }

    /// Returns the rows of the running jobs that are protected from preemption.
    fn protected<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.protected())
    }

    /// Returns the iterations (recorded seconds under `fixed`) per second of each row on `gpus` GPUs of a type, of
    /// `servers` servers, alone; None: of the type on which the row was recorded.
    fn rate<'py>(
        &self,
        py: Python<'py>,
        rows: PyReadonlyArray1<'py, u32>,
        gpus: PyReadonlyArray1<'py, u32>,
        gpu_type: Option<u32>,
        servers: u32,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let pairs = rows.as_slice()?.iter().zip(gpus.as_slice()?);
        let rates: Vec<f64> = pairs.map(|(&row, &gpus)| self.0.rate(row, gpus, gpu_type, servers)).collect();
        Ok(rates.into_pyarray(py))
    }

    /// Returns the bandwidth that a row would get on (server, GPUs) now, bytes/s, had it given back what it holds.
    fn bandwidth(&self, py: Python<'_>, row: u32, parts: Vec<(u32, u32)>) -> PyResult<f64> {
        self.0.bandwidth(row, &parts).map_err(|error| refused(py, &error))
    }

    /// Updates a column of a figure. figure: 0 GPUs held, 1 attained, 2 left, 3 remaining, 4 rho.
    fn fill(&mut self, figure: usize, mut column: PyReadwriteArray1<'_, f64>) -> PyResult<()> {
        let figure = *Figure::ALL.get(figure).ok_or_else(|| PyValueError::new_err("no such figure"))?;
        self.0.fill(figure, column.as_slice_mut()?);
        Ok(())
    }

    /// Starts waiting rows in the order given, on `gpus` GPUs each or on what they ask for, of a type or of the
    /// first that can place them. Returns how many started.
    fn start(
        &mut self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, u32>,
        gpus: Option<u32>,
        gpu_type: Option<u32>,
        placement: Option<&str>,
        strict: bool,
    ) -> PyResult<usize> {
        let placement = placement.map(Placement::parse).transpose().map_err(|error| raise(py, &error))?;
        self.0.start(rows.as_slice()?, gpus, gpu_type, placement, strict).map_err(|error| refused(py, &error))
    }

    /// Starts a waiting row on (server, GPUs).
    fn start_on(&mut self, py: Python<'_>, row: u32, parts: Vec<(u32, u32)>) -> PyResult<()> {
        self.0.start_on(row, &parts).map_err(|error| refused(py, &error))
    }

    /// Starts a waiting row on the GPUs of a running one, beside it.
    fn start_beside(&mut self, py: Python<'_>, row: u32, other: u32) -> PyResult<()> {
        self.0.start_beside(row, other).map_err(|error| refused(py, &error))
    }

    /// Returns the rows on the GPUs of a running one, in the order in which they started.
    fn beside<'py>(&self, py: Python<'py>, row: u32) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.beside(row))
    }

    /// Returns the rates of two rows on the same GPUs, as fractions of those alone, should the first start beside the
    /// other; None for rows of different virtual clusters.
    fn pair(&self, row: u32, other: u32) -> Option<[f64; 2]> {
        self.0.pair(row, other)
    }

    /// Returns the running rows in the order in which they started.
    fn started<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.started())
    }

    /// Starts waiting rows in turn, (row, [(server, GPUs)], type, GPUs): each there if that is idle, else where the placement
    /// puts it. Returns which of them ran then; `strict`: the first that finds no GPUs is the last that is tried.
    fn start_each(&mut self, py: Python<'_>, starts: Vec<StartAt>, strict: bool) -> PyResult<Vec<bool>> {
        self.0.start_each(&starts, strict).map_err(|error| refused(py, &error))
    }

    /// Starts a waiting row on (server, GPU there), or on a share of one.
    fn start_on_gpus(&mut self, py: Python<'_>, row: u32, gpus: Vec<(u32, u32)>) -> PyResult<()> {
        self.0.start_on_gpus(row, &gpus).map_err(|error| refused(py, &error))
    }

    /// Starts a waiting row that cannot be placed by evicting others. Returns whether that was possible.
    fn evict_for(&mut self, py: Python<'_>, row: u32) -> PyResult<bool> {
        self.0.evict_for(row).map_err(|error| refused(py, &error))
    }

    /// Stops running rows.
    fn stop(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u32>) -> PyResult<()> {
        self.0.stop(rows.as_slice()?).map_err(|error| refused(py, &error))
    }

    /// Moves running rows to other GPUs: (row, [(server, GPUs)]).
    fn shift(&mut self, py: Python<'_>, moves: Vec<(u32, Vec<(u32, u32)>)>) -> PyResult<()> {
        self.0.shift(&moves).map_err(|error| refused(py, &error))
    }

    /// Gives a running row another number of GPUs, where the run's placement puts them.
    fn resize(&mut self, py: Python<'_>, row: u32, gpus: u32) -> PyResult<()> {
        self.0.resize(row, gpus).map_err(|error| refused(py, &error))
    }

    /// Ends rows that run, or have run, before they are done.
    fn end(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u32>) -> PyResult<()> {
        self.0.end(rows.as_slice()?).map_err(|error| refused(py, &error))
    }

    /// Refuses waiting rows that never ran.
    fn refuse(&mut self, py: Python<'_>, rows: PyReadonlyArray1<'_, u32>) -> PyResult<()> {
        self.0.refuse(rows.as_slice()?).map_err(|error| refused(py, &error))
    }

    /// Requests a decision at a time, s. Returns whether it is in the future.
    fn wake(&mut self, time: f64) -> bool {
        self.0.wake(time)
    }

    /// Returns the state of a row's waiting job; None for a row of another virtual cluster. keys: rows, their keys
    /// and whether jobs are stopped by these, of a policy that ranks.
    fn ask<'py>(
        &mut self,
        py: Python<'py>,
        row: u32,
        keys: Option<RowKeys<'_>>,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let keys = match &keys {
            Some((rows, keys, stops)) => Some((rows.as_slice()?, keys.as_slice()?, *stops)),
            None => None,
        };
        self.0.ask(row, keys).map(|answer| answer_dict(py, answer)).transpose()
    }

    /// Returns the rows that have arrived and whose key is not yet known.
    fn unkeyed<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<u32>> {
        rows(py, self.0.unkeyed())
    }

    /// Gives those rows their keys.
    fn give_keys(&mut self, keys: PyReadonlyArray1<'_, f64>) -> PyResult<()> {
        let keys = keys.as_slice()?;
        if keys.len() != self.0.unkeyed().len() {
            return Err(PyValueError::new_err("one key a job"));
        }
        self.0.give_keys(keys);
        Ok(())
    }

    /// Carries out a ranking of rows by keys, the least first.
    fn rank(
        &mut self,
        py: Python<'_>,
        rows: PyReadonlyArray1<'_, u32>,
        keys: PyReadonlyArray1<'_, f64>,
        preemptive: bool,
    ) -> PyResult<()> {
        let (rows, keys) = (rows.as_slice()?, keys.as_slice()?);
        if rows.len() != keys.len() {
            return Err(PyValueError::new_err("one key a job"));
        }
        self.0.rank(rows, keys, preemptive).map_err(|error| refused(py, &error))
    }
}
