//! Returns the results of a run: tables by name, each of columns by name that numpy owns.
//!
//! A column is listed here once, beside its name. A column that does not apply to a run is missing: `failures` if
//! there were no outages.

use crate::outcome::{Allocations, Asleep, Climb, Links, Outcome, ReplicaEnded, Serving, Timeline, Woken};
use crate::planner::{Found, Plan};
use crate::record::{BEGAN, BY, ENDED, Ends, Stays, Sums};
use numpy::{Element, IntoPyArray};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Columns by name.
pub(super) struct Table<'py>(pub(super) Bound<'py, PyDict>);

impl<'py> Table<'py> {
    pub(super) fn new(py: Python<'py>) -> Self {
        Self(PyDict::new(py))
    }

    pub(super) fn column<T: Element>(&self, name: &str, values: Vec<T>) -> PyResult<()> {
        self.0.set_item(name, values.into_pyarray(self.0.py()))
    }

    /// Adds a column of the value of `of` for each row.
    pub(super) fn of<R, T: Element>(&self, name: &str, rows: &[R], of: impl Fn(&R) -> T) -> PyResult<()> {
        self.column(name, rows.iter().map(of).collect())
    }
}

/// A run's tables.
#[pyclass(frozen, get_all, module = "ringbco._core")]
pub(super) struct RunResult {
    tables: Py<PyDict>,
    lent: f64,
    events: u64,
    decisions: u64,
    displaced: u64,
    engine_seconds: f64,
    contention_seconds: f64,
    spanning_seconds: f64,
    held_while_submitting: f64,
}

impl RunResult {
    pub(super) fn new(py: Python<'_>, mut outcome: Outcome) -> PyResult<Self> {
        let tables = PyDict::new(py);
        tables.set_item("jobs", jobs(py, &mut outcome)?)?;
        tables.set_item("allocations", allocations(py, outcome.allocations)?)?;
        tables.set_item("timeline", timeline(py, outcome.timeline)?)?;
        if let Some(found) = outcome.links {
            links(py, &tables, &found)?;
        }
        let log = Table::new(py);
        let rows = &outcome.log.rows;
        log.of("time", rows, |row| row.time)?;
        log.of("verb", rows, |row| row.verb as u8)?;
        log.of("job", rows, |row| row.job)?;
        log.of("server", rows, |row| row.server)?;
        log.of("gpus", rows, |row| row.num_gpus)?;
        log.of("gpu", rows, |row| row.gpu)?;
        log.of("by", rows, |row| row.by)?;
        log.of("beside", rows, |row| row.beside)?;
        log.of("service", rows, |row| row.service)?;
        log.of("replica", rows, |row| row.replica)?;
        log.of("cause", rows, |row| row.cause as u8)?;
        log.of("of_pass", rows, |row| row.pass)?;
        tables.set_item("log", log.0)?;
        let clusters = Table::new(py);
        clusters.column("held_while_submitting", outcome.held_while_submitting.by_cluster)?;
        tables.set_item("vcs", clusters.0)?;
        if let Some(given) = outcome.stays {
            tables.set_item("stays", stays(py, given)?)?;
        }
        if let Some(spells) = outcome.asleep {
            tables.set_item("asleep", asleep(py, &spells)?)?;
        }
        if !outcome.drained.is_empty() {
            let (table, rows) = (Table::new(py), &outcome.drained);
            table.of("server", rows, |row| row.server.number())?;
            table.of("time", rows, |row| row.time)?;
            table.of("gpus", rows, |row| row.gpus)?;
            tables.set_item("drained", table.0)?;
        }
        if let Some(rows) = outcome.climbs {
            tables.set_item("climbs", climbs(py, &rows)?)?;
        }
        let lent = outcome.serving.as_ref().map_or(0.0, |serving| serving.lent);
        if let Some(mut serving) = outcome.serving {
            if let Some(answered) = serving.answered.take() {
                super::requests::answers(py, &tables, answered)?;
            }
            tables.set_item("replicas", replicas(py, &serving)?)?;
            tables.set_item("loads", loads(py, &serving)?)?;
        }
        Ok(Self {
            tables: tables.unbind(),
            lent,
            events: outcome.events,
            decisions: outcome.decisions,
            displaced: outcome.displaced,
            engine_seconds: outcome.engine_seconds,
            contention_seconds: outcome.contention_seconds,
            spanning_seconds: outcome.spanning_seconds,
            held_while_submitting: outcome.held_while_submitting.all,
        })
    }
}

fn jobs<'py>(py: Python<'py>, outcome: &mut Outcome) -> PyResult<Bound<'py, PyDict>> {
    let table = Table::new(py);
    table.column("kept", std::mem::take(&mut outcome.kept))?;
    if let Some(arrival) = outcome.arrival.take() {
        table.column("arrival", arrival)?;
    }
    table.column("start", std::mem::take(&mut outcome.start))?;
    table.column("finish", std::mem::take(&mut outcome.finish))?;
    table.column("num_servers", std::mem::take(&mut outcome.num_servers))?;
    table.column("max_contention", std::mem::take(&mut outcome.max_contention))?;
    if let Some(crossings) = outcome.crossings.take() {
        if crossings.tiers {
            table.column("max_crossing", crossings.most)?;
            table.column("uplinks", crossings.uplinks)?;
        }
        table.column("own_bandwidth", crossings.own)?;
        table.column("slowed", crossings.slowed)?;
    }
    table.column("wait_gpus", std::mem::take(&mut outcome.wait_gpus))?;
    table.column("wait_fragmented", std::mem::take(&mut outcome.wait_fragmented))?;
    if !outcome.on_types.is_empty() {
        table.column("on_types", std::mem::take(&mut outcome.on_types))?;
    }
    let Some(sums) = outcome.sums.take() else { return Ok(table.0) };
    table.column("refused", std::mem::take(&mut outcome.refused))?;
    table.column("ended", std::mem::take(&mut outcome.ended))?;
    if outcome.knows.seats {
        table.column("seated", std::mem::take(&mut outcome.seated))?;
    }
    let n = sums.len();
    let count = |name, of: &[&str]| OfSums { name, values: Values::Counts(Ends::of(of), Vec::with_capacity(n)) };
    let sum = |name, of| OfSums { name, values: Values::Sums(of, Vec::with_capacity(n)) };
    let mut columns = vec![
        count("stays", &ENDED),
        count("preemptions", &["preempted", "moved", "resized"]),
        count("moves", &["moved"]),
        count("resizes", &["resized"]),
        count("pauses", &["rung"]),
        sum("held", |own| own.held),
        sum("lost", |own| own.paused),
        sum("spread", |own| own.spread),
        sum("wait_behind", |own| own.behind),
        sum("waited", |own| own.waiting),
        sum("rested", |own| own.rested),
    ];
    if outcome.knows.outages {
        columns.push(count("failures", &["failed"]));
    }
    if outcome.knows.seats {
        columns.push(sum("guest_gpus", |own| own.guest_gpus));
    }
    if outcome.knows.losses {
        columns.push(sum("lost_work", |own| own.lost_time));
    }
    if outcome.knows.room {
        columns.push(count("evictions", &["evicted"]));
    }
    if outcome.knows.limits {
        let limit = Ends::of(&["limit"]);
        table.column("reached_limit", sums.iter().map(|own| own.count(limit) > 0).collect())?;
        columns.push(sum("cut", |own| own.cut));
    }
    if outcome.knows.elastic {
        columns.push(sum("longer", |own| own.resized));
        columns.push(sum("held_gpus", |own| own.held_gpus));
        columns.push(sum("lost_gpus", |own| own.paused_gpus));
    }
    let mut block = Vec::with_capacity(BLOCK);
    for from in (0..n).step_by(BLOCK) {
        block.clear();
        block.extend((from..n.min(from + BLOCK)).map(|row| sums.of(row)));
        columns.iter_mut().for_each(|column| column.add(&block));
    }
    for column in columns {
        match column.values {
            Values::Counts(_, values) => table.column(column.name, values)?,
            Values::Sums(_, values) => table.column(column.name, values)?,
        }
    }
    Ok(table.0)
}

/// Rows that are read for one column after the other: few enough for the cache.
const BLOCK: usize = 256;

/// A column of jobs under construction.
struct OfSums {
    name: &'static str,
    values: Values,
}

/// Its values for each job.
enum Values {
    /// How many of its stays ended so.
    Counts(Ends, Vec<u32>),
    Sums(fn(&Sums) -> f64, Vec<f64>),
}

impl OfSums {
    fn add(&mut self, rows: &[Sums]) {
        match &mut self.values {
            Values::Counts(ends, values) => values.extend(rows.iter().map(|own| own.count(*ends))),
            Values::Sums(of, values) => values.extend(rows.iter().map(of)),
        }
    }
}

fn stays(py: Python<'_>, stays: Stays) -> PyResult<Bound<'_, PyDict>> {
    let table = Table::new(py);
    table.column("job", stays.job)?;
    table.column("stay", stays.stay)?;
    table.column("start_time", stays.start)?;
    table.column("end_time", stays.end)?;
    table.column("num_gpus", stays.num_gpus)?;
    table.column("num_servers", stays.num_servers)?;
    table.column("gpu_type", stays.gpu_type)?;
    table.column("pause", stays.pause)?;
    table.column("saving", stays.saving)?;
    if !stays.busy_from.is_empty() {
        table.column("busy_from", stays.busy_from)?;
    }
    table.column("work", stays.work)?;
    table.column("lost", stays.lost)?;
    table.column("lost_time", stays.lost_time)?;
    table.column("began", stays.began)?;
    table.column("ended", stays.ended)?;
    table.column("by", stays.by)?;
    table.column("by_what", stays.by_what)?;
    table.column("wait_behind", stays.wait_behind)?;
    table.column("wait_gpus", stays.wait_gpus)?;
    table.column("wait_fragmented", stays.wait_fragmented)?;
    table.column("paused_at_rung", stays.paused_at_rung)?;
    Ok(table.0)
}

/// Returns names by number: how stays begin, why they end, what ends them, and why replicas end.
#[pyfunction]
pub(super) fn words() -> [Vec<&'static str>; 4] {
    [BEGAN.to_vec(), ENDED.to_vec(), BY.to_vec(), ReplicaEnded::NAMES.to_vec()]
}

fn allocations(py: Python<'_>, rows: Allocations) -> PyResult<Bound<'_, PyDict>> {
    let table = Table::new(py);
    table.column("job", rows.job)?;
    table.column("server", rows.server)?;
    table.column("gpus", rows.num_gpus)?;
    table.column("start", rows.start)?;
    table.column("end", rows.end)?;
    table.column("gpu", rows.gpu)?;
    table.column("share", rows.share)?;
    table.column("stay", rows.stay)?;
    if !rows.seat.is_empty() {
        table.column("seat", rows.seat)?;
        table.column("busy_from", rows.busy_from)?;
    }
    Ok(table.0)
}

fn timeline(py: Python<'_>, samples: Timeline) -> PyResult<Bound<'_, PyDict>> {
    let table = Table::new(py);
    table.column("time", samples.time)?;
    table.column("running_jobs", samples.running_jobs)?;
    table.column("queued_jobs", samples.queued_jobs)?;
    table.column("busy_gpus", samples.busy_gpus)?;
    table.column("queued_gpus", samples.queued_gpus)?;
    table.column("spanning_jobs", samples.spanning_jobs)?;
    table.column("mean_contention", samples.mean_contention)?;
    Ok(table.0)
}

/// Adds what the uplinks carried, and the busiest of each tier.
fn links(py: Python<'_>, tables: &Bound<'_, PyDict>, found: &Links) -> PyResult<()> {
    let (table, rows) = (Table::new(py), &found.rows);
    table.of("vc", rows, |row| row.vc)?;
    table.of("tier", rows, |row| row.tier)?;
    table.of("group", rows, |row| row.group)?;
    table.of("time", rows, |row| row.time)?;
    table.of("jobs", rows, |row| row.jobs)?;
    table.of("flows", rows, |row| row.flows)?;
    table.of("bytes_per_second", rows, |row| row.rate)?;
    tables.set_item("links", table.0)?;
    let (table, rows) = (Table::new(py), &found.tiers);
    table.of("vc", rows, |own| own.vc)?;
    table.of("group", rows, |own| own.group)?;
    table.of("mean_share", rows, |own| own.mean_share)?;
    table.of("largest_share", rows, |own| own.largest_share)?;
    table.of("gpu_hours_lost", rows, |own| own.gpu_hours_lost)?;
    tables.set_item("busiest_links", table.0)
}

fn asleep<'py>(py: Python<'py>, spells: &[Asleep]) -> PyResult<Bound<'py, PyDict>> {
    let table = Table::new(py);
    table.of("server", spells, |spell| spell.server.number())?;
    table.of("from", spells, |spell| spell.from)?;
    table.of("until", spells, |spell| spell.until)?;
    table.of("by", spells, |spell| match spell.woken {
        Woken::ByNobody => u32::MAX,
        Woken::ByJob(job) => job.number(),
        Woken::ByService(service) => service,
    })?;
    table.of("by_what", spells, |spell| match spell.woken {
        Woken::ByNobody => 0u8,
        Woken::ByJob(_) => 1,
        Woken::ByService(_) => 2,
    })?;
    Ok(table.0)
}

fn climbs<'py>(py: Python<'py>, rows: &[Climb]) -> PyResult<Bound<'py, PyDict>> {
    let table = Table::new(py);
    table.of("job", rows, |climb| climb.job.number())?;
    table.of("rung", rows, |climb| climb.rung)?;
    table.of("time", rows, |climb| climb.time)?;
    table.of("loss", rows, |climb| climb.loss)?;
    table.of("went_on", rows, |climb| climb.went_on)?;
    Ok(table.0)
}

fn replicas<'py>(py: Python<'py>, serving: &Serving) -> PyResult<Bound<'py, PyDict>> {
    let (table, rows) = (Table::new(py), &serving.replicas);
    table.of("service", rows, |replica| replica.service)?;
    table.of("number", rows, |replica| replica.number)?;
    table.of("server", rows, |replica| replica.server.number())?;
    table.of("wanted", rows, |replica| replica.wanted)?;
    table.of("start", rows, |replica| replica.start)?;
    table.of("serves_from", rows, |replica| replica.serves_from)?;
    table.of("drains_from", rows, |replica| replica.drains_from)?;
    table.of("end", rows, |replica| replica.end)?;
    table.of("ended", rows, |replica| replica.ended as u8)?;
    table.of("busy", rows, |replica| replica.busy)?;
    Ok(table.0)
}

fn loads<'py>(py: Python<'py>, serving: &Serving) -> PyResult<Bound<'py, PyDict>> {
    let (table, rows) = (Table::new(py), &serving.loads);
    table.of("service", rows, |load| load.service)?;
    table.of("time", rows, |load| load.time)?;
    table.of("replicas", rows, |load| load.replicas)?;
    Ok(table.0)
}

/// A plan: its schedule, and how that of each virtual cluster, or of the one cluster, was found.
#[pyclass(frozen, get_all, module = "ringbco._core")]
pub(super) struct PlanResult {
    schedule: Py<RunResult>,
    found: Vec<Option<PlanFound>>,
}

/// How the schedule of one cluster was found.
#[pyclass(frozen, get_all, module = "ringbco._core")]
#[derive(Clone, Copy)]
pub(super) struct PlanFound {
    theta: u64,
    kappa: Option<u32>,
    horizon: u64,
    w_max: f64,
    work_bound: f64,
    thetas: u64,
    schedules: u64,
    schedules_known: u64,
}

impl From<Found> for PlanFound {
    fn from(found: Found) -> Self {
        let Found { theta, kappa, horizon, w_max, work_bound, thetas, schedules, schedules_known } = found;
        Self { theta, kappa, horizon, w_max, work_bound, thetas, schedules, schedules_known }
    }
}

impl PlanResult {
    pub(super) fn new(py: Python<'_>, plan: Plan) -> PyResult<Self> {
        let found = plan.found.into_iter().map(|found| found.map(PlanFound::from)).collect();
        Ok(Self { schedule: Py::new(py, RunResult::new(py, plan.schedule)?)?, found })
    }
}
