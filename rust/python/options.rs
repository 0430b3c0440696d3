//! Converts options from Python, and their table to Python.

use super::{raise, tuple};
use crate::options::{Entry, Kind, Table, Value, commands};
use crate::policies::{self, PRESETS};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// Reads the options that Python passes by name; the others have their defaults.
pub(super) fn read<T: Table>(given: &Bound<'_, PyDict>) -> PyResult<T> {
    let mut options = T::default();
    for (name, value) in given {
        let name: String = name.extract()?;
        let Some(row) = T::row(&name) else {
            return Err(PyTypeError::new_err(format!("unknown option '{name}'")));
        };
        let value = value_of(&T::TABLE[row], &value).map_err(|error| about(given.py(), &name, error))?;
        options.set(row, &value).map_err(|error| raise(given.py(), &error))?;
    }
    Ok(options)
}

/// Returns a value as an option of its kind has it.
fn value_of(entry: &Entry, given: &Bound<'_, PyAny>) -> PyResult<Value> {
    if given.is_none() && entry.absent.is_some() {
        return Ok(Value::Absent);
    }
    Ok(match entry.kind {
        Kind::Flag => Value::Flag(given.extract()?),
        Kind::Integer { .. } => Value::Integer(given.extract()?),
        Kind::Number(_) => Value::Number(given.extract()?),
        Kind::Numbers(_) => Value::Numbers(given.extract()?),
        Kind::Name(_) | Kind::Ties(_) | Kind::Search | Kind::File | Kind::Files | Kind::Moment => {
            Value::Text(given.extract()?)
        }
        Kind::Policy => policies::value(given.extract()?),
    })
}

/// Turns a type error into one of that option; returns others unchanged.
fn about(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!("argument '{name}': {}", error.value(py)))
    } else {
        error
    }
}

/// Returns the table of options by command: all that is known about each, as in `Option` of ringbco/run/option.py.
#[pyfunction]
pub(super) fn options(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let table = PyDict::new(py);
    for (command, rows) in commands() {
        let declared = rows.iter().map(|(entry, default)| tell(py, entry, default)).collect::<PyResult<Vec<_>>>()?;
        table.set_item(command, declared)?;
    }
    Ok(table)
}

fn tell<'py>(py: Python<'py>, entry: &Entry, default: &Value) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", entry.name.replace('-', "_"))?;
    row.set_item("expected", entry.wanted())?;
    row.set_item("optional", entry.absent.is_some())?;
    row.set_item("absent", entry.absent.unwrap_or_default())?;
    row.set_item("word", entry.word)?;
    row.set_item("unit", entry.unit)?;
    let users = policies::parts_of(entry).into_iter();
    let users = users.map(|(part, names)| Ok((part, PyTuple::new(py, names)?))).collect::<PyResult<Vec<_>>>()?;
    row.set_item("users", PyTuple::new(py, users)?)?;
    row.set_item("policies", tuple(py, policies::users_of(entry).map(|policy| policy.name))?)?;
    row.set_item("exclusive", entry.exclusive)?;
    row.set_item("demand", entry.demand)?;
    row.set_item("form", entry.form)?;
    row.set_item("panel", entry.panel)?;
    row.set_item("help", entry.help)?;
    match default {
        Value::Absent => row.set_item("default", py.None())?,
        Value::Flag(flag) => row.set_item("default", flag)?,
        Value::Integer(count) => row.set_item("default", count)?,
        Value::Number(number) => row.set_item("default", number)?,
        Value::Numbers(numbers) => row.set_item("default", PyTuple::new(py, numbers)?)?,
        Value::Text(text) => row.set_item("default", text)?,
        Value::Policy(facts) => row.set_item("default", facts.name)?,
    }
    let kind = match entry.kind {
        Kind::Flag => "flag",
        Kind::Integer { least, most } => {
            row.set_item("least", least)?;
            row.set_item("most", most)?;
            "integer"
        }
        Kind::Number(range) | Kind::Numbers(range) => {
            row.set_item("least", range.least)?;
            row.set_item("above", range.above)?;
            row.set_item("most", range.most)?;
            row.set_item("endless", range.endless)?;
            if matches!(entry.kind, Kind::Number(_)) { "number" } else { "numbers" }
        }
        Kind::Name(names) => {
            row.set_item("names", PyTuple::new(py, names)?)?;
            "name"
        }
        Kind::Ties(texts) => {
            row.set_item("names", PyTuple::new(py, texts)?)?;
            "ties"
        }
        Kind::Policy => {
            row.set_item("names", tuple(py, PRESETS.iter().map(|policy| policy.name))?)?;
            "name"
        }
        Kind::Search => "search",
        Kind::File => "file",
        Kind::Files => "files",
        Kind::Moment => "moment",
    };
    row.set_item("kind", kind)?;
    Ok(row)
}
