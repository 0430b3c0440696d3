//! The Python module `ringbco._core`: the only folder that depends on `PyO3`.
//!
//! `run`: a replay and a plan. `simulation`: a run that pauses for decisions. `options`: their options, from and for
//! Python. `results`: their columns.

mod jobs;
mod options;
mod rates;
mod requests;
mod results;
mod run;
mod simulation;

use crate::decisions::{Cause, Verb};
use crate::error::Error;
use crate::files;
use crate::options::{Discipline, Is, Order, Placement};
use crate::policies::{PRESETS, Preset, preemptive};
use numpy::{IntoPyArray, PyArrayMethods, get_array_module};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

pyo3::create_exception!(_core, CoreError, pyo3::exceptions::PyException);

fn raise(py: Python<'_>, error: &Error) -> PyErr {
    let raised = CoreError::new_err(error.to_string());
    let value = raised.value(py);
    let set = || -> PyResult<()> {
        value.setattr("kind", error.kind())?;
        value.setattr("row", error.row())?;
        value.setattr("log_row", error.log_row())?;
        value.setattr("message", error.to_string())
    };
    match set() {
        Ok(()) => raised,
        Err(other) => other,
    }
}

/// Returns names that cannot be changed.
fn tuple<'py>(py: Python<'py>, names: impl Iterator<Item = &'static str>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, names.collect::<Vec<_>>())
}

/// Returns the policies by name, then those that have no preset: the parts and facts of each.
#[pyfunction]
fn policies(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let deciders = preemptive().filter(|facts| PRESETS.iter().all(|p| p.name != facts.name)).map(Preset::preemptive);
    let tell = |policy: Preset| {
        let row = PyDict::new(py);
        row.set_item("name", policy.name)?;
        row.set_item("order", policy.order.name())?;
        row.set_item("placement", policy.placement.name())?;
        row.set_item("queue", policy.queue.name())?;
        row.set_item("preemption", policy.preemption.map_or("none", |facts| facts.name))?;
        row.set_item("paper", policy.paper)?;
        row.set_item("about", policy.about)?;
        row.set_item("knows", tuple(py, policy.knows().iter().map(|feature| feature.name()))?)?;
        row.set_item("is_", tuple(py, policy.is().iter().map(|is| is.name()))?)?;
        row.set_item("options", tuple(py, policy.options().iter().map(|option| option.name))?)?;
        Ok(row)
    };
    PRESETS.iter().copied().chain(deciders).map(tell).collect()
}

/// Returns the parts that read how long a job will run: (part, names).
#[pyfunction]
fn clairvoyant() -> [(&'static str, Vec<&'static str>); 4] {
    let policies = preemptive().filter(|facts| facts.is(Is::Clairvoyant));
    [
        ("policy", policies.map(|facts| facts.name).collect()),
        ("order", Order::CLAIRVOYANT.iter().map(|order| order.name()).collect()),
        ("placement", Placement::CLAIRVOYANT.iter().map(|placement| placement.name()).collect()),
        ("queue", Discipline::CLAIRVOYANT.iter().map(|queue| queue.name()).collect()),
    ]
}

/// Returns what a policy may do to a job: the verbs of a decision log.
#[pyfunction]
fn verbs() -> [Vec<&'static str>; 2] {
    [Verb::ALL.iter().map(|verb| verb.name()).collect(), Cause::ALL.iter().map(|cause| cause.name()).collect()]
}

/// Returns the build of this module: (rustc, target, profile).
#[pyfunction]
fn build() -> (&'static str, &'static str, &'static str) {
    (env!("RINGBCO_RUSTC"), env!("RINGBCO_TARGET"), env!("RINGBCO_PROFILE"))
}

/// Converts a system error to Python's `OSError` of the right kind, errno included.
fn os_error(error: &std::io::Error) -> PyErr {
    if let Some(number) = error.raw_os_error() {
        return pyo3::exceptions::PyOSError::new_err((number, error.to_string()));
    }
    // Each system has its own number.
    let name = if error.kind() == std::io::ErrorKind::Unsupported { "ENOTSUP" } else { "EIO" };
    let number = Python::attach(|py| py.import("errno")?.getattr(name)?.extract::<i32>());
    number.map_or_else(|error| error, |number| pyo3::exceptions::PyOSError::new_err((number, error.to_string())))
}

/// Renames a file or folder; raises `FileExistsError` if the new name is taken, ENOTSUP if that takes two steps.
#[pyfunction]
fn rename_new(from_: std::path::PathBuf, to: std::path::PathBuf) -> PyResult<()> {
    files::rename_new(&from_, &to).map_err(|error| os_error(&error))
}

/// Exchanges two names in one step; raises ENOTSUP if that takes more.
#[pyfunction]
fn exchange(one: std::path::PathBuf, other: std::path::PathBuf) -> PyResult<()> {
    files::exchange(&one, &other).map_err(|error| os_error(&error))
}

/// Loads what the crate numpy looks up when the first array crosses over, which panics there if it fails.
///
/// Importing numpy and asking for its version run Python, where a signal raises. So they come first; the rest, its
/// tables of functions and of borrowed arrays, and the type that owns a column, runs none.
#[pyfunction]
fn load_arrays(py: Python<'_>) -> PyResult<()> {
    get_array_module(py)?.getattr("_ARRAY_API")?;
    drop(Vec::<f64>::new().into_pyarray(py).try_readonly()?);
    Ok(())
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    module.add_class::<results::RunResult>()?;
    module.add_class::<results::PlanResult>()?;
    module.add_class::<results::PlanFound>()?;
    module.add_class::<rates::SpeedTable>()?;
    module.add_class::<simulation::Prepared>()?;
    module.add_class::<simulation::Course>()?;
    module.add_function(wrap_pyfunction!(run::replay, module)?)?;
    module.add_function(wrap_pyfunction!(run::probe, module)?)?;
    module.add_function(wrap_pyfunction!(run::plan, module)?)?;
    module.add_function(wrap_pyfunction!(run::pack, module)?)?;
    module.add_function(wrap_pyfunction!(run::bound, module)?)?;
    module.add_function(wrap_pyfunction!(run::prices, module)?)?;
    module.add_function(wrap_pyfunction!(run::dips, module)?)?;
    module.add_function(wrap_pyfunction!(jobs::columns, module)?)?;
    module.add_function(wrap_pyfunction!(jobs::job_columns, module)?)?;
    module.add_function(wrap_pyfunction!(options::options, module)?)?;
    module.add_function(wrap_pyfunction!(build, module)?)?;
    module.add_function(wrap_pyfunction!(load_arrays, module)?)?;
    module.add_function(wrap_pyfunction!(rename_new, module)?)?;
    module.add_function(wrap_pyfunction!(exchange, module)?)?;
    module.add_function(wrap_pyfunction!(clairvoyant, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(verbs, module)?)?;
    module.add_function(wrap_pyfunction!(results::words, module)?)?;
    Ok(())
}
