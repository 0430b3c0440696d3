//! The Python module `ringbco._core`: the only folder that knows `PyO3`.
//!
//! `run`: a replay and a plan. `simulation`: a run that pauses for decisions. `options`: their options, from Python and for Python. `results`: their columns.

mod jobs;
mod options;
mod rates;
mod results;
mod run;
mod simulation;

use crate::decisions::Verb;
use crate::error::Error;
use crate::files;
use crate::policies::{PRESETS, Preset};
use numpy::PyArray1;
use pyo3::prelude::*;

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

/// A policy as the registry describes it.
type PolicyRow = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// The registry of policies: (name, order, placement, queue, preemption).
#[pyfunction]
fn presets() -> Vec<PolicyRow> {
    let row = |p: &Preset| (p.name, p.order.name(), p.placement.name(), p.queue.name(), p.preemption.name());
    PRESETS.iter().map(row).collect()
}

/// What the registry says of each policy: (name, paper, clairvoyant, names of its own options).
#[pyfunction]
fn policies() -> Vec<(&'static str, &'static str, bool, Vec<&'static str>)> {
    let own = |p: &Preset| p.options().iter().map(|option| option.name).collect();
    PRESETS.iter().map(|p| (p.name, p.paper, p.clairvoyant, own(p))).collect()
}

/// What a policy may do to a job: the verbs of a decision log.
#[pyfunction]
fn verbs() -> Vec<&'static str> {
    Verb::ALL.iter().map(|verb| verb.name()).collect()
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

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Loads numpy's table of functions now: an interrupt during its first use would be a panic there.
    PyArray1::<f64>::zeros(module.py(), 0, false);
    module.add("CoreError", module.py().get_type::<CoreError>())?;
    module.add_class::<results::RunResult>()?;
    module.add_class::<results::PlanResult>()?;
    module.add_class::<rates::SpeedTable>()?;
    module.add_class::<simulation::Prepared>()?;
    module.add_class::<simulation::Course>()?;
    module.add_function(wrap_pyfunction!(run::replay, module)?)?;
    module.add_function(wrap_pyfunction!(run::plan, module)?)?;
    module.add_function(wrap_pyfunction!(run::pack, module)?)?;
    module.add_function(wrap_pyfunction!(run::bound, module)?)?;
    module.add_function(wrap_pyfunction!(jobs::columns, module)?)?;
    module.add_function(wrap_pyfunction!(jobs::job_columns, module)?)?;
    module.add_function(wrap_pyfunction!(options::options, module)?)?;
    module.add_function(wrap_pyfunction!(build, module)?)?;
    module.add_function(wrap_pyfunction!(rename_new, module)?)?;
    module.add_function(wrap_pyfunction!(exchange, module)?)?;
    module.add_function(wrap_pyfunction!(presets, module)?)?;
    module.add_function(wrap_pyfunction!(policies, module)?)?;
    module.add_function(wrap_pyfunction!(verbs, module)?)?;
    module.add_function(wrap_pyfunction!(results::words, module)?)?;
    Ok(())
}
