//! Takes measured speeds from Python: checks them once, answers queries about single jobs, and passes them to runs.

use super::raise;
use crate::error::Error;
use crate::trace::{Pair, RateTable};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use std::sync::Arc;

/// A table of measured speeds. Columns: models and types by number, GPUs, servers, iterations per second; for two
/// jobs on one GPU a model, a type, the model of its partner, its rate and that of the partner.
#[pyclass(frozen, module = "ringbco._core")]
pub(super) struct SpeedTable(pub(super) Arc<RateTable>);

type Numbers<'py> = PyReadonlyArray1<'py, u32>;
type Floats<'py> = PyReadonlyArray1<'py, f64>;
/// The columns of pairs.
type Partners<'py> = (Numbers<'py>, Numbers<'py>, Numbers<'py>, Floats<'py>, Floats<'py>);

#[pymethods]
impl SpeedTable {
    #[new]
    #[pyo3(signature = (size, entries, rate, partners=None))]
    fn new(
        py: Python<'_>,
        size: (usize, usize),
        entries: (Numbers<'_>, Numbers<'_>, Numbers<'_>, Numbers<'_>),
        rate: Floats<'_>,
        partners: Option<Partners<'_>>,
    ) -> PyResult<Self> {
        let rate = rate.as_slice()?;
        let entries = columns(&entries)?;
        if entries.iter().any(|column| column.len() != rate.len()) {
            let (length, expected) = (rate.len(), entries[0].len());
            return Err(raise(py, &Error::ColumnLength { column: "rate", length, expected }));
        }
        let [model, gpu_type, gpus, servers] = entries;
        let rows: Vec<_> =
            (0..rate.len()).map(|row| (model[row], gpu_type[row], gpus[row], servers[row], rate[row])).collect();
        let (models, types) = size;
        let pairs = partners.map_or_else(|| Ok(Vec::new()), |columns| pairs(py, &columns))?;
        RateTable::new(models, types, &rows)
            .and_then(|table| table.with_partners(&pairs))
            .map(|table| Self(Arc::new(table)))
            .map_err(|error| raise(py, &error))
    }

    /// Returns the iterations per second of every query; NaN if no measurement determines it.
    fn rates<'py>(
        &self,
        py: Python<'py>,
        model: Numbers<'py>,
        gpu_type: Numbers<'py>,
        gpus: Numbers<'py>,
        servers: Numbers<'py>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let asked = (model, gpu_type, gpus, servers);
        let [model, gpu_type, gpus, servers] = columns(&asked)?;
        let asked = model.iter().zip(gpu_type).zip(gpus.iter().zip(servers));
        let found: Vec<f64> = asked
            .map(|((&model, &of), (&gpus, &servers))| self.0.rate(model, of, gpus, servers).unwrap_or(f64::NAN))
            .collect();
        Ok(found.into_pyarray(py))
    }
}

fn columns<'a>(of: &'a (Numbers<'_>, Numbers<'_>, Numbers<'_>, Numbers<'_>)) -> PyResult<[&'a [u32]; 4]> {
    Ok([of.0.as_slice()?, of.1.as_slice()?, of.2.as_slice()?, of.3.as_slice()?])
}

fn pairs(py: Python<'_>, of: &Partners<'_>) -> PyResult<Vec<Pair>> {
    let (own, theirs) = (of.3.as_slice()?, of.4.as_slice()?);
    let [model, gpu_type, partner] = [of.0.as_slice()?, of.1.as_slice()?, of.2.as_slice()?];
    for length in [model.len(), gpu_type.len(), partner.len(), theirs.len()] {
        if length != own.len() {
            return Err(raise(py, &Error::ColumnLength { column: "partner", length, expected: own.len() }));
        }
    }
    Ok((0..own.len()).map(|row| (model[row], gpu_type[row], partner[row], own[row], theirs[row])).collect())
}
