//! What a run gives back, as columns that numpy owns.

use crate::outcome::{Asleep, Climb, Elastic, Failure, Outcome, Replica};
use crate::planner::Plan;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

/// Stays that outages ended: the job, the server, GPUs, when and the progress lost, s.
type FailedColumns = (Py<PyArray1<u32>>, Py<PyArray1<u32>>, Py<PyArray1<u32>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>);

/// When servers were asleep: the server, since when and until when, s.
type AsleepColumns = (Py<PyArray1<u32>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>);
/// Replicas: the service, the server, since when it was wanted, start and end, s.
type ReplicaColumns = (Py<PyArray1<u32>>, Py<PyArray1<u32>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>);

/// Loads as the run saw them: the service, when, s, and how many replicas.
type LoadColumns = (Py<PyArray1<u32>>, Py<PyArray1<f64>>, Py<PyArray1<u32>>);

/// Rungs that trials reached: the job, which rung, when, the loss there and when it went on, s.
type ClimbColumns = (Py<PyArray1<u32>>, Py<PyArray1<u32>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>, Py<PyArray1<f64>>);

/// A run's columns.
#[pyclass(frozen, get_all, module = "ringbco._core")]
pub(super) struct RunResult {
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
    ended: Option<Py<PyArray1<bool>>>,
    failures: Option<Py<PyArray1<u32>>>,
    evictions: Option<Py<PyArray1<u32>>>,
    lost_work: Option<Py<PyArray1<f64>>>,
    failed: Option<FailedColumns>,
    asleep: Option<AsleepColumns>,
    pauses: Option<Py<PyArray1<u32>>>,
    rested: Option<Py<PyArray1<f64>>>,
    climbs: Option<ClimbColumns>,
    replicas: Option<ReplicaColumns>,
    loads: Option<LoadColumns>,
    lent: f64,
    longer: Option<Py<PyArray1<f64>>>,
    on_types: Option<Py<PyArray1<f64>>>,
    held_gpus: Option<Py<PyArray1<f64>>>,
    lost_gpus: Option<Py<PyArray1<f64>>>,
    alloc_job: Py<PyArray1<u32>>,
    alloc_server: Py<PyArray1<u32>>,
    alloc_gpus: Py<PyArray1<u32>>,
    alloc_start: Py<PyArray1<f64>>,
    alloc_end: Py<PyArray1<f64>>,
    alloc_gpu: Py<PyArray1<u32>>,
    alloc_share: Py<PyArray1<u32>>,
    timeline_time: Py<PyArray1<f64>>,
    running: Py<PyArray1<u32>>,
    queued: Py<PyArray1<u32>>,
    busy_gpus: Py<PyArray1<u64>>,
    queued_gpus: Py<PyArray1<u64>>,
    spanning: Py<PyArray1<u32>>,
    mean_contention: Py<PyArray1<f64>>,
    log_time: Py<PyArray1<f64>>,
    log_verb: Py<PyArray1<u8>>,
    log_job: Py<PyArray1<u32>>,
    log_server: Py<PyArray1<u32>>,
    log_gpus: Py<PyArray1<u32>>,
    events: u64,
    decisions: u64,
    engine_seconds: f64,
    contention_seconds: f64,
    spanning_seconds: f64,
    held_while_submitting: f64,
    held_while_submitting_by_vc: Py<PyArray1<f64>>,
}

impl RunResult {
    pub(super) fn new(py: Python<'_>, mut outcome: Outcome) -> Self {
        fn column<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyArray1<T>> {
            values.into_pyarray(py).unbind()
        }
        let asleep = outcome.asleep.map(|spells| {
            let times = |value: fn(&Asleep) -> f64| column(py, spells.iter().map(value).collect());
            let servers = spells.iter().map(|spell| spell.server.number()).collect();
            (column(py, servers), times(|spell| spell.from), times(|spell| spell.until))
        });
        let (allocations, timeline) = (outcome.allocations, outcome.timeline);
        let evictions = outcome.preempted.as_mut().map(|own| std::mem::take(&mut own.evictions));
        let evictions = evictions.filter(|counts| !counts.is_empty()).map(|counts| column(py, counts));
        let mut failures = None;
        if let Some(own) = &mut outcome.preempted
            && !own.failures.is_empty()
        {
            let take = std::mem::take::<Vec<f64>>;
            let failed = &own.failed;
            let of = |value: fn(&Failure) -> u32| column(py, failed.iter().map(value).collect());
            let times = |value: fn(&Failure) -> f64| column(py, failed.iter().map(value).collect());
            let rows = (
                of(|failure| failure.job.number()),
                of(|failure| failure.server.number()),
                of(|failure| failure.num_gpus),
                times(|failure| failure.time),
                times(|failure| failure.lost),
            );
            let counts = std::mem::take(&mut own.failures);
            failures = Some((column(py, counts), column(py, take(&mut own.lost_work)), rows));
        }
        let (failures, lost_work, failed) =
            failures.map_or((None, None, None), |(a, b, c)| (Some(a), Some(b), Some(c)));
        let (pauses, rested, climbs) = outcome.searched.map_or((None, None, None), |searched| {
            let rows = &searched.climbs;
            let of = |value: fn(&Climb) -> u32| column(py, rows.iter().map(value).collect());
            let numbers = |value: fn(&Climb) -> f64| column(py, rows.iter().map(value).collect());
            let climbs = (
                of(|climb| climb.job.number()),
                of(|climb| climb.rung),
                numbers(|climb| climb.time),
                numbers(|climb| climb.loss),
                numbers(|climb| climb.went_on),
            );
            (Some(column(py, searched.pauses)), Some(column(py, searched.rested)), Some(climbs))
        });
        let has_services = outcome.serving.is_some();
        let serving = outcome.serving.unwrap_or_default();
        let lent = serving.lent;
        let (mut replicas, mut loads) = (None, None);
        if has_services {
            let rows = &serving.replicas;
            let of = |value: fn(&Replica) -> u32| column(py, rows.iter().map(value).collect());
            let times = |value: fn(&Replica) -> f64| column(py, rows.iter().map(value).collect());
            replicas = Some((
                of(|replica| replica.service),
                of(|replica| replica.server.number()),
                times(|replica| replica.wanted),
                times(|replica| replica.start),
                times(|replica| replica.end),
            ));
            let rows = &serving.loads;
            loads = Some((
                column(py, rows.iter().map(|load| load.service).collect()),
                column(py, rows.iter().map(|load| load.time).collect()),
                column(py, rows.iter().map(|load| load.replicas).collect()),
            ));
        }
        let (times, fates, elastic) = match outcome.preempted {
            Some(own) => (
                [own.held, own.lost, own.spread].map(|values| Some(column(py, values))),
                [own.refused, own.ended].map(|values| Some(column(py, values))),
                own.elastic,
            ),
            None => ([const { None }; 3], [const { None }; 2], Vec::new()),
        };
        let ([held, lost, spread], [refused, ended]) = (times, fates);
        let of =
            |value: fn(&Elastic) -> f64| (!elastic.is_empty()).then(|| column(py, elastic.iter().map(value).collect()));
        let (longer, held_gpus, lost_gpus) = (of(|job| job.longer), of(|job| job.held), of(|job| job.lost));
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
            ended,
            failures,
            evictions,
            lost_work,
            failed,
            asleep,
            pauses,
            rested,
            climbs,
            replicas,
            loads,
            lent,
            longer,
            on_types: (!outcome.on_types.is_empty()).then(|| column(py, outcome.on_types)),
            held_gpus,
            lost_gpus,
            alloc_job: column(py, allocations.job),
            alloc_server: column(py, allocations.server),
            alloc_gpus: column(py, allocations.num_gpus),
            alloc_start: column(py, allocations.start),
            alloc_end: column(py, allocations.end),
            alloc_gpu: column(py, allocations.gpu),
            alloc_share: column(py, allocations.share),
            timeline_time: column(py, timeline.time),
            running: column(py, timeline.running_jobs),
            queued: column(py, timeline.queued_jobs),
            busy_gpus: column(py, timeline.busy_gpus),
            queued_gpus: column(py, timeline.queued_gpus),
            spanning: column(py, timeline.spanning_jobs),
            mean_contention: column(py, timeline.mean_contention),
            log_time: column(py, outcome.log.time),
            log_verb: column(py, outcome.log.verb.iter().map(|&verb| verb as u8).collect()),
            log_job: column(py, outcome.log.job),
            log_server: column(py, outcome.log.server),
            log_gpus: column(py, outcome.log.num_gpus),
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

/// A plan: its schedule, and how it was found.
#[pyclass(frozen, get_all, module = "ringbco._core")]
pub(super) struct PlanResult {
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
    pub(super) fn new(py: Python<'_>, plan: Plan) -> PyResult<Self> {
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
