//! Borrows the columns of a job table from Python.
//!
//! Invariant: a key that is no column is refused, so that a misspelt one is not treated as absent.

use super::rates::SpeedTable;
use crate::decisions::{Cause, DecisionLog, Row, Verb};
use crate::error::Error;
use crate::ids::GpuType;
use crate::trace::{
    Chains, FairShares, FairUsers, Form, Forms, Jobs, Kind, Noise, OwnedQuotas, PairFacts, PairRow, Pairing, Quota,
    Range, RateTable, Rates, Recorded, Trials, Types, job_columns,
};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyKeyError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// Returns the column of an array that may be missing.
pub(super) fn slice<'a, T: numpy::Element>(column: &'a Option<PyReadonlyArray1<'_, T>>) -> PyResult<Option<&'a [T]>> {
    Ok(column.as_ref().map(|column| column.as_slice()).transpose()?)
}

/// A few columns that belong together.
trait Group<'a>: Sized {
    /// What Python passes for them.
    type Given<'py>;
    /// Its type, as in the stub.
    const TYPE: &'static str;

    fn read(given: &'a Self::Given<'_>) -> PyResult<Self>;
}

impl<'a> Group<'a> for Range<'a> {
    type Given<'py> = (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>);
    const TYPE: &'static str = "tuple[NDArray[np.uint32], NDArray[np.uint32]]";

    fn read((min, max): &'a Self::Given<'_>) -> PyResult<Self> {
        Ok(Self { min: min.as_slice()?, max: max.as_slice()? })
    }
}

impl<'a> Group<'a> for Noise<'a> {
    type Given<'py> = (PyReadonlyArray1<'py, f64>, PyReadonlyArray1<'py, u32>);
    const TYPE: &'static str = "tuple[NDArray[np.float64], NDArray[np.uint32]]";

    fn read((scale, batch): &'a Self::Given<'_>) -> PyResult<Self> {
        Ok(Self { scale: scale.as_slice()?, batch: batch.as_slice()? })
    }
}

/// The form of every job, and the forms that occur.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FormColumns<'py> {
    of: PyReadonlyArray1<'py, u32>,
    #[pyo3(from_py_with = forms)]
    list: Vec<Form>,
}

/// Reads forms: GPUs of each pod; 0, or the tier that is to hold the gang; whether it must; GPUs of each segment, and
/// their tier.
fn forms(given: &Bound<'_, PyAny>) -> PyResult<Vec<Form>> {
    let form = |(pod, within, strict, segment, segment_tier)| Form { pod, segment, within, strict, segment_tier };
    Ok(given.extract::<Vec<(u32, u8, bool, u32, u8)>>()?.into_iter().map(form).collect())
}

impl<'a> Group<'a> for Forms<'a> {
    type Given<'py> = FormColumns<'py>;
    const TYPE: &'static str = "_Forms";

    fn read(given: &'a FormColumns<'_>) -> PyResult<Self> {
        Ok(Self { of: given.of.as_slice()?, list: &given.list })
    }
}

impl<'a> Group<'a> for Trials<'a> {
    type Given<'py> = (PyReadonlyArray1<'py, u32>, [PyReadonlyArray1<'py, f64>; 3]);
    const TYPE: &'static str = "tuple[NDArray[np.uint32], list[NDArray[np.float64]]]";

    fn read((search, [end, start, fall]): &'a Self::Given<'_>) -> PyResult<Self> {
        let (end, start, fall) = (end.as_slice()?, start.as_slice()?, fall.as_slice()?);
        Ok(Self { search: search.as_slice()?, end, start, fall })
    }
}

impl<'a> Group<'a> for Chains<'a> {
    type Given<'py> = (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>);
    const TYPE: &'static str = "tuple[NDArray[np.uint32], NDArray[np.float64]]";

    fn read((after, think_time): &'a Self::Given<'_>) -> PyResult<Self> {
        Ok(Self { after: after.as_slice()?, think_time: think_time.as_slice()? })
    }
}

/// GPU types for the jobs: each job's kind, and the kinds.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TypeColumns<'py> {
    of: PyReadonlyArray1<'py, u32>,
    #[pyo3(from_py_with = kinds)]
    kinds: Vec<Kind>,
}

/// A kind: the recorded speed, the recorded type's number where the model needs it, and the types allowed, each with
/// its speed.
type KindColumns = (f64, Option<u32>, Vec<(u32, f64)>);

fn kinds(given: &Bound<'_, PyAny>) -> PyResult<Vec<Kind>> {
    let of = |&(gpu_type, speed): &(u32, f64)| (GpuType::new(gpu_type), speed);
    let kind = |(speed, recorded, allowed): &KindColumns| Kind {
        recorded_speed: *speed,
        recorded_on: recorded.map_or(GpuType::NONE, GpuType::new),
        allowed: allowed.iter().map(of).collect(),
        order: 0,
    };
    Ok(given.extract::<Vec<KindColumns>>()?.iter().map(kind).collect())
}

impl<'a> Group<'a> for Types<'a> {
    type Given<'py> = TypeColumns<'py>;
    const TYPE: &'static str = "_Types";

    fn read(given: &'a TypeColumns<'_>) -> PyResult<Self> {
        Ok(Self { of: given.of.as_slice()?, kinds: &given.kinds })
    }
}

/// Measured speeds: each job's model, and what was measured.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SpeedColumns<'py> {
    model_of: PyReadonlyArray1<'py, u32>,
    table: Py<SpeedTable>,
}

impl<'a> Group<'a> for Rates<'a> {
    type Given<'py> = SpeedColumns<'py>;
    const TYPE: &'static str = "_Rates";

    fn read(given: &'a SpeedColumns<'_>) -> PyResult<Self> {
        let table: &'a Arc<RateTable> = &given.table.get().0;
        Ok(Self { model_of: given.model_of.as_slice()?, table })
    }
}

/// What seats read of jobs: memory, estimates, scores and models; the memory of GPU types, and what was measured of
/// pairs.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PairingColumns<'py> {
    memory: PyReadonlyArray1<'py, f64>,
    estimate: PyReadonlyArray1<'py, f64>,
    score: PyReadonlyArray1<'py, u32>,
    model: PyReadonlyArray1<'py, u32>,
    #[pyo3(from_py_with = pair_facts)]
    facts: PairFacts,
}

fn pair_facts(given: &Bound<'_, PyAny>) -> PyResult<PairFacts> {
    let (room, rows): (Vec<f64>, Vec<PairRow>) = given.extract()?;
    Ok(PairFacts::new(room, &rows))
}

impl<'a> Group<'a> for Pairing<'a> {
    type Given<'py> = PairingColumns<'py>;
    const TYPE: &'static str = "_Pairing";

    fn read(given: &'a PairingColumns<'_>) -> PyResult<Self> {
        Ok(Self {
            memory: given.memory.as_slice()?,
            estimate: given.estimate.as_slice()?,
            score: given.score.as_slice()?,
            model: given.model.as_slice()?,
            facts: &given.facts,
        })
    }
}

/// The columns of a decision log; verbs are positions in `verbs()`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct LogColumns<'py> {
    time: PyReadonlyArray1<'py, f64>,
    verb: PyReadonlyArray1<'py, u8>,
    job: PyReadonlyArray1<'py, u32>,
    server: PyReadonlyArray1<'py, u32>,
    num_gpus: PyReadonlyArray1<'py, u32>,
    gpu: PyReadonlyArray1<'py, u32>,
    by: PyReadonlyArray1<'py, u32>,
    beside: PyReadonlyArray1<'py, u32>,
    service: PyReadonlyArray1<'py, u32>,
    replica: PyReadonlyArray1<'py, u32>,
    cause: PyReadonlyArray1<'py, u8>,
    of_pass: PyReadonlyArray1<'py, u32>,
    runs_through: bool,
}

/// Quotas, book by book: the index of each job's owner, then GPUs and whether to borrow, per owner.
type QuotaColumns<'py> = Vec<(PyReadonlyArray1<'py, u32>, Vec<u64>, Vec<bool>)>;

/// Fair shares, level by level: the index of each job's owner, then a share per owner.
type FairColumns<'py> = Vec<(PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, f64>)>;

/// Recorded starts, s; then the recorded places: rows, servers, GPUs.
type RecordedColumns<'py> = (PyReadonlyArray1<'py, f64>, [PyReadonlyArray1<'py, u32>; 3]);

/// For a column or a group: what Python passes, its type in the stub, how it is found, and how it is read.
macro_rules! given {
    (@held $py:lifetime all $kind:ty) => { PyReadonlyArray1<$py, $kind> };
    (@held $py:lifetime maybe $kind:ty) => { Option<PyReadonlyArray1<$py, $kind>> };
    (@held $py:lifetime group $kind:ident) => { Option<<$kind<'static> as Group<'static>>::Given<$py>> };
    (@type group $kind:ident) => { <$kind<'static> as Group<'static>>::TYPE };
    (@type $form:ident $kind:ident) => { stringify!($kind) };
    (@find all $given:ident $field:ident) => {
        match $given.get_item(stringify!($field))? {
            Some(column) => column.extract()?,
            None => return Err(PyKeyError::new_err(stringify!($field))),
        }
    };
    (@find $form:ident $given:ident $field:ident) => {
        match $given.get_item(stringify!($field))? {
            Some(column) => column.extract()?,
            None => None,
        }
    };
    (@read all $column:expr) => { $column.as_slice()? };
    (@read maybe $column:expr) => { slice(&$column)? };
    (@read group $column:expr) => { $column.as_ref().map(Group::read).transpose()? };
}

macro_rules! from_python {
    ($($(#[$doc:meta])* $field:ident: $form:ident $kind:ident = $column:literal;)*) => {
        /// The columns of a job table, and what a run knows about every job beside it.
        pub(super) struct JobColumns<'py> {
            $($field: given!(@held 'py $form $kind),)*
            pub(super) vc: Option<PyReadonlyArray1<'py, u32>>,
            pub(super) deadline: Option<PyReadonlyArray1<'py, f64>>,
            pub(super) user: Option<PyReadonlyArray1<'py, u32>>,
            pub(super) predicted: Option<PyReadonlyArray1<'py, f64>>,
            pub(super) estimated: Option<PyReadonlyArray1<'py, f64>>,
            pub(super) key: Option<PyReadonlyArray1<'py, f64>>,
            fair: Option<FairColumns<'py>>,
            log: Option<LogColumns<'py>>,
            quotas: Option<QuotaColumns<'py>>,
            recorded: Option<RecordedColumns<'py>>,
        }

        /// Returns the columns of `JobColumns` that belong to the job table: names, forms, types, and names in the
        /// table.
        #[pyfunction]
        pub(super) fn job_columns() -> Vec<[&'static str; 4]> {
            vec![$([stringify!($field), stringify!($form), given!(@type $form $kind), $column],)*]
        }

        impl<'py> JobColumns<'py> {
            /// Reads the columns of a dictionary.
            pub(super) fn read(given: &Bound<'py, PyDict>) -> PyResult<Self> {
                let known = [$(stringify!($field),)* "vc", "deadline", "user", "predicted", "estimated", "key", "fair", "log", "quotas", "recorded"];
                for name in given.keys() {
                    let name: String = name.extract()?;
                    if !known.contains(&name.as_str()) {
                        return Err(PyKeyError::new_err(name));
                    }
                }
                Ok(Self {
                    $($field: given!(@find $form given $field),)*
                    vc: given!(@find maybe given vc),
                    deadline: given!(@find maybe given deadline),
                    user: given!(@find maybe given user),
                    predicted: given!(@find maybe given predicted),
                    estimated: given!(@find maybe given estimated),
                    key: given!(@find maybe given key),
                    fair: given!(@find maybe given fair),
                    log: given!(@find maybe given log),
                    quotas: given!(@find maybe given quotas),
                    recorded: given!(@find maybe given recorded),
                })
            }

            /// Returns the columns of the job table.
            pub(super) fn jobs(&self) -> PyResult<Jobs<'_>> {
                Ok(Jobs { $($field: given!(@read $form self.$field),)* })
            }
        }
    };
}
job_columns!(from_python);

impl JobColumns<'_> {
    /// Returns the quotas of all books; `None` for a run without quotas.
    pub(super) fn quotas(&self) -> PyResult<Option<OwnedQuotas>> {
        let Some(books) = &self.quotas else { return Ok(None) };
        let book = |(owner, gpus, borrow): &(PyReadonlyArray1<'_, u32>, Vec<u64>, Vec<bool>)| {
            let list = gpus.iter().zip(borrow).map(|(&gpus, &borrow)| Quota { gpus, borrow });
            Ok((owner.as_slice()?.to_vec(), list.collect()))
        };
        Ok(Some(OwnedQuotas::new(books.iter().map(book).collect::<PyResult<_>>()?)))
    }

    /// Returns the index of each job's owner, and one share per owner, on one or two levels.
    pub(super) fn fair(&self) -> PyResult<Option<FairShares<'_>>> {
        let Some([(owner, share), below @ ..]) = self.fair.as_deref() else { return Ok(None) };
        let users = match below.first() {
            Some((user, share)) => Some(FairUsers { user: user.as_slice()?, share: share.as_slice()? }),
            None => None,
        };
        Ok(Some(FairShares { owner: owner.as_slice()?, share: share.as_slice()?, users }))
    }

    /// Returns when and where jobs started in a log.
    pub(super) fn recorded(&self) -> PyResult<Option<Result<Recorded, Error>>> {
        let Some((start, [row, server, gpus])) = &self.recorded else { return Ok(None) };
        let (row, server, gpus) = (row.as_slice()?, server.as_slice()?, gpus.as_slice()?);
        let places = row.iter().zip(server).zip(gpus).map(|((&row, &server), &gpus)| (row, server, gpus));
        Ok(Some(Recorded::new(start.as_slice()?.to_vec(), places)))
    }

    /// Returns the decision log to follow.
    pub(super) fn log(&self) -> PyResult<Option<DecisionLog>> {
        let Some(log) = &self.log else { return Ok(None) };
        let missing = || PyValueError::new_err("no such verb, or no such cause");
        let (server, num_gpus, gpu) = (log.server.as_slice()?, log.num_gpus.as_slice()?, log.gpu.as_slice()?);
        let (by, service, replica) = (log.by.as_slice()?, log.service.as_slice()?, log.replica.as_slice()?);
        let beside = log.beside.as_slice()?;
        let (job, passes) = (log.job.as_slice()?, log.of_pass.as_slice()?);
        let (verbs, causes) = (log.verb.as_slice()?, log.cause.as_slice()?);
        let row = |(at, &time): (usize, &f64)| {
            Ok(Row {
                time,
                verb: *Verb::ALL.get(usize::from(verbs[at])).ok_or_else(missing)?,
                job: job[at],
                server: server[at],
                num_gpus: num_gpus[at],
                gpu: gpu[at],
                by: by[at],
                beside: beside[at],
                service: service[at],
                replica: replica[at],
                cause: *Cause::ALL.get(usize::from(causes[at])).ok_or_else(missing)?,
                pass: passes[at],
            })
        };
        let rows = log.time.as_slice()?.iter().enumerate().map(row).collect::<PyResult<Vec<Row>>>()?;
        // A stopped job waits again, and a refused one never runs: both take more than one row per job.
        let runs_through = log.runs_through && rows.iter().all(|row| row.verb == Verb::Start);
        Ok(Some(DecisionLog { rows, runs_through }))
    }
}

/// Returns the columns of a job table's file, one dictionary each.
#[pyfunction]
pub(super) fn columns(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row = |column: &crate::trace::Column| {
        let row = PyDict::new(py);
        row.set_item("name", column.name)?;
        row.set_item("dtype", column.dtype)?;
        row.set_item("required", column.required)?;
        row.set_item("rule", column.rule)?;
        row.set_item("hint", column.mend.replace("{name}", column.name))?;
        row.set_item("unit", column.unit)?;
        row.set_item("about", column.about)?;
        row.set_item("low", column.low)?;
        row.set_item("low_included", !column.above)?;
        row.set_item("high", column.high)?;
        row.set_item("endless", column.endless)?;
        row.set_item("absent", column.absent)?;
        Ok(row)
    };
    crate::trace::TABLE.iter().map(row).collect()
}
