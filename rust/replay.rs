//! A whole replay: checks, virtual clusters, and the results put together.

use crate::cluster::{FewestServers, Network, validate_servers};
use crate::error::{Error, Result};
use crate::machine::{Clock, MOST_SLOTS, Watch};
use crate::options::{ClockKind, Options, Oversize, Preemption, Ties};
use crate::outcome::{Allocations, ClusterOutcome, Outcome, Preempted, Span, Stretch, held_while_submitting, timeline};
use crate::placement::{Placer, Shape};
use crate::policy;
use crate::rng::{GOLDEN, SplitMix64};
use crate::setting::Setting;
use crate::speed::Ring;
use crate::trace::Jobs;
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Servers, and the virtual clusters they are parted into.
#[derive(Clone, Copy, Debug)]
pub struct ClusterSpec<'a> {
    /// O_s of every server.
    pub server_gpus: &'a [u32],
    /// The virtual cluster of every server, numbered from 0 without gaps; `None` for one cluster.
    pub server_vc: Option<&'a [u32]>,
    /// Network constants.
    pub network: Network,
}

/// Columns that some policies read, one value a job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// Absolute deadlines, s; NaN where a job has none (`edf`).
    pub deadline: Option<&'a [f64]>,
    /// Users, numbered (`qssf`).
    pub user: Option<&'a [u32]>,
}

/// One virtual cluster's servers and jobs.
struct Part {
    servers: Vec<u32>,
    server_gpus: Vec<u32>,
    few: FewestServers,
    shape: Shape,
    total: u64,
    /// Rows in order of (submit_time, row), ties as the options say.
    rows: Vec<u32>,
    /// Whether that is the whole table in its own order.
    whole: bool,
}

/// Replays a trace on a cluster.
///
/// `vc` is each job's virtual cluster where the cluster has some, and is ignored where it has none.
///
/// # Errors
/// Any variant of [`Error`]; the row is the lowest at fault.
pub fn replay(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    replay_with(jobs, &Extras::default(), vc, spec, options, watch)
}

/// As [`replay`], with the columns that some policies need.
///
/// # Errors
/// Any variant of [`Error`]; the row is the lowest at fault.
pub fn replay_with(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    let began = Instant::now();
    options.validate()?;
    check_extras(jobs, extras, options)?;
    spec.network.validate()?;
    validate_servers(spec.server_gpus)?;
    jobs.validate(options.rar())?;
    check_slots(jobs, options)?;
    let mut parts = split(spec)?;
    let job_vc = job_vcs(jobs, vc, spec, parts.len())?;
    let kept = keep(jobs, job_vc, &mut parts, spec, options)?;
    order_by_submission(jobs, &mut parts, options.ties);
    let outcomes = run_parts(jobs, extras, &parts, spec.network, options, watch)?;
    let engine_seconds = began.elapsed().as_secs_f64();
    assemble(jobs, kept, &parts, outcomes, options, engine_seconds)
}

/// Refuses times that slots cannot count.
fn check_slots(jobs: &Jobs<'_>, options: &Options) -> Result<()> {
    if options.clock == ClockKind::Continuous {
        return Ok(());
    }
    let beyond = |times: &[f64]| times.iter().position(|&time| time / options.slot >= MOST_SLOTS);
    let fault = |row: usize, column, time: f64| {
        let expected = "a time of fewer than 2^53 slots";
        Err(Error::Value { row, column, value: format!("{time:?}"), expected })
    };
    match (beyond(jobs.submit), beyond(jobs.duration)) {
        (Some(row), _) => fault(row, "submit_time", jobs.submit[row]),
        (None, Some(row)) if !options.rar() => fault(row, "duration", jobs.duration[row]),
        _ => Ok(()),
    }
}

fn split(spec: &ClusterSpec<'_>) -> Result<Vec<Part>> {
    let servers = spec.server_gpus.len();
    let count = match spec.server_vc {
        None => 1,
        Some(vcs) => {
            if vcs.len() != servers {
                return Err(Error::ColumnLength { column: "server_vc", length: vcs.len(), expected: servers });
            }
            vcs.iter().max().map_or(0, |&v| v as usize + 1)
        }
    };
    let mut members = vec![Vec::new(); count];
    for s in 0..servers {
        members[spec.server_vc.map_or(0, |v| v[s] as usize)].push(s as u32);
    }
    if members.iter().any(Vec::is_empty) {
        return Err(Error::Option {
            name: "cluster",
            value: "a virtual cluster without servers".to_owned(),
            expected: "virtual clusters numbered without gaps".to_owned(),
        });
    }
    Ok(members
        .into_iter()
        .map(|servers| {
            let server_gpus: Vec<u32> = servers.iter().map(|&s| spec.server_gpus[s as usize]).collect();
            Part {
                few: FewestServers::new(&server_gpus),
                shape: Shape::new(&server_gpus),
                total: server_gpus.iter().map(|&g| u64::from(g)).sum(),
                servers,
                server_gpus,
                rows: Vec::new(),
                whole: false,
            }
        })
        .collect())
}

/// Each job's virtual cluster, checked; `None` where all are in the one cluster.
fn job_vcs<'a>(
    jobs: &Jobs<'_>,
    vc: Option<&'a [u32]>,
    spec: &ClusterSpec<'_>,
    parts: usize,
) -> Result<Option<&'a [u32]>> {
    if spec.server_vc.is_none() {
        return Ok(None);
    }
    let Some(vc) = vc else {
        return Err(Error::ColumnLength { column: "vc", length: 0, expected: jobs.len() });
    };
    if vc.len() != jobs.len() {
        return Err(Error::ColumnLength { column: "vc", length: vc.len(), expected: jobs.len() });
    }
    match vc.iter().position(|&v| v as usize >= parts) {
        None => Ok(Some(vc)),
        Some(row) => Err(Error::Value {
            row,
            column: "vc",
            value: vc[row].to_string(),
            expected: "a virtual cluster of the cluster",
        }),
    }
}

/// Deals the rows out to their clusters; refuses, or leaves out, what could never run.
fn keep(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    parts: &mut [Part],
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<Vec<bool>> {
    let placer = Placer::new(options);
    let network = &spec.network;
    let mut kept = vec![true; jobs.len()];
    for row in 0..jobs.len() {
        let part = &mut parts[vc.map_or(0, |v| v[row] as usize)];
        let num_gpus = jobs.num_gpus[row];
        let refusal = if u64::from(num_gpus) > part.total {
            Some(Error::Oversize { row, num_gpus, available: part.total })
        } else if !placer.fits_empty(num_gpus, &part.shape) {
            Some(Error::Unplaceable { row, num_gpus, placement: options.placement.name() })
        } else {
            None
        };
        match refusal {
            Some(error) if options.oversize == Oversize::Error => return Err(error),
            Some(_) => kept[row] = false,
            None => {
                if options.rar() {
                    check_iteration(&Ring::of(jobs, row), row, part.few.of(num_gpus), network, options)?;
                }
                part.rows.push(row as u32);
            }
        }
    }
    Ok(kept)
}

/// Refuses a job whose iteration takes no time, or more than a slot even uncontended.
pub(crate) fn check_iteration(
    ring: &Ring,
    row: usize,
    servers: Option<u32>,
    network: &Network,
    options: &Options,
) -> Result<()> {
    if network.server_overhead == 0.0 && ring.iteration_time(network, 1, 0) == 0.0 {
        return Err(Error::ZeroIterationTime { row });
    }
    if options.clock == ClockKind::Slot {
        let tau = ring.iteration_time(network, servers.unwrap_or(1), 1);
        if Ring::per_slot(options.slot, tau) == 0 {
            return Err(Error::SlotTooShort { row, tau, slot: options.slot });
        }
    }
    Ok(())
}

fn order_by_submission(jobs: &Jobs<'_>, parts: &mut [Part], ties: Ties) {
    let sorted = jobs.is_sorted();
    for part in parts {
        let submit = |&row: &u32| jobs.submit[row as usize];
        if !sorted {
            // Stable: rows of one submission time keep their order.
            part.rows.sort_by(|a, b| submit(a).total_cmp(&submit(b)));
        }
        for tied in part.rows.chunk_by_mut(|a, b| submit(a) == submit(b)) {
            match ties {
                Ties::Rows => break,
                Ties::Reverse => tied.reverse(),
                // A row's draw hangs on the seed and the row alone, not on who shares its time.
                Ties::Shuffle(seed) => {
                    tied.sort_by_key(|&row| SplitMix64::new(seed ^ u64::from(row).wrapping_mul(GOLDEN)).next_u64());
                }
            }
        }
        part.whole = sorted && ties == Ties::Rows && part.rows.len() == jobs.len();
    }
}

/// Adds up the progress of clusters that run side by side.
struct Shared<'a> {
    stop: &'a AtomicBool,
    finished: &'a AtomicUsize,
    told: usize,
}

impl Watch for Shared<'_> {
    fn tick(&mut self, finished: usize) -> Result<()> {
        self.finished.fetch_add(finished - self.told, Ordering::Relaxed);
        self.told = finished;
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

fn check_extras(jobs: &Jobs<'_>, extras: &Extras<'_>, options: &Options) -> Result<()> {
    let lengths = [("deadline", extras.deadline.map(<[f64]>::len)), ("user", extras.user.map(<[u32]>::len))];
    for (column, length) in lengths {
        if let Some(length) = length
            && length != jobs.len()
        {
            return Err(Error::ColumnLength { column, length, expected: jobs.len() });
        }
    }
    if options.preemption == Preemption::Edf && extras.deadline.is_none() {
        return Err(Error::ColumnLength { column: "deadline", length: 0, expected: jobs.len() });
    }
    Ok(())
}

fn run_parts(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    parts: &[Part],
    network: Network,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Vec<ClusterOutcome>> {
    let run = |index: usize, watch: &mut dyn Watch| {
        let part = &parts[index];
        let own = Options { seed: options.seed.wrapping_add((index as u64).wrapping_mul(GOLDEN)), ..options.clone() };
        // Columns already in order need no copy.
        let gathered = (!part.whole).then(|| jobs.gather(&part.rows, options.rar()));
        let view = gathered.as_ref().map_or(*jobs, |g| g.view());
        let gather = gathered.is_some();
        let deadline = extras.deadline.map(|d| pick(d, &part.rows, gather));
        let user = extras.user.map(|u| pick(u, &part.rows, gather));
        let setting = Setting {
            jobs: view,
            rows: &part.rows,
            deadline: deadline.as_deref(),
            user: user.as_deref(),
            server_gpus: &part.server_gpus,
            few: &part.few,
            network,
            options: &own,
        };
        policy::run(&setting, watch)
    };
    if parts.len() == 1 {
        return Ok(vec![run(0, watch)?]);
    }
    let (stop, finished, done) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Result<ClusterOutcome>> = Vec::new();
    let mut interrupted = Ok(());
    rayon::in_place_scope(|scope| {
        scope.spawn(|_| {
            results = (0..parts.len())
                .into_par_iter()
                .map(|index| run(index, &mut Shared { stop: &stop, finished: &finished, told: 0 }))
                .collect();
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            if interrupted.is_ok() {
                interrupted = watch.tick(finished.load(Ordering::Relaxed));
                stop.store(interrupted.is_err(), Ordering::Relaxed);
            }
            // On a thread of the pool itself there may be no other to do the work.
            if rayon::yield_now() != Some(rayon::Yield::Executed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    interrupted?;
    // Of several errors the one with the lowest row is reported, not the first one met.
    let worst = results.iter().filter_map(|r| r.as_ref().err()).min_by_key(|e| e.row());
    if let Some(error) = worst {
        return Err(error.clone());
    }
    results.into_iter().collect()
}

/// The chosen rows of a column, copied only where they are not the whole column as it is.
fn pick<'a, T: Copy>(column: &'a [T], rows: &[u32], gather: bool) -> Cow<'a, [T]> {
    if gather { rows.iter().map(|&row| column[row as usize]).collect() } else { Cow::Borrowed(column) }
}

fn assemble(
    jobs: &Jobs<'_>,
    mut kept: Vec<bool>,
    parts: &[Part],
    outcomes: Vec<ClusterOutcome>,
    options: &Options,
    engine_seconds: f64,
) -> Result<Outcome> {
    let n = jobs.len();
    let (mut events, mut decisions, mut contention_seconds) = (0, 0, 0.0);
    let mut contention = Vec::with_capacity(outcomes.len());
    let (mut start, mut finish) = (vec![f64::NAN; n], vec![f64::NAN; n]);
    let (mut num_servers, mut max_contention) = (vec![0; n], vec![0; n]);
    let mut preemptions = vec![0; n];
    let mut preempted = (options.preemption != Preemption::None).then(|| Preempted {
        held: vec![f64::NAN; n],
        lost: vec![0.0; n],
        spread: vec![0.0; n],
        refused: vec![false; n],
    });
    let mut stretches = Vec::new();
    let (mut wait_gpus, mut wait_fragmented) = (vec![0.0; n], vec![0.0; n]);
    let mut allocations = Allocations::default();
    let mut cluster = vec![0; if parts.len() > 1 { n } else { 0 }];
    for (number, (part, outcome)) in parts.iter().zip(outcomes).enumerate() {
        events += outcome.events;
        decisions += outcome.decisions;
        contention_seconds += outcome.contention_seconds;
        contention.push(outcome.contention);
        stretches.extend(outcome.stretches.iter().map(|s| Stretch { job: part.rows[s.job as usize], ..*s }));
        if let Some(preempted) = &mut preempted {
            for (j, &row) in part.rows.iter().enumerate() {
                let row = row as usize;
                preemptions[row] = outcome.preemptions[j];
                (preempted.held[row], preempted.lost[row]) = (outcome.held[j], outcome.lost[j]);
                preempted.spread[row] = outcome.spread[j];
                preempted.refused[row] = outcome.refused[j];
                kept[row] = !outcome.refused[j];
            }
        }
        for (&row, &(too_few, fragmented)) in part.rows.iter().zip(&outcome.obstacles) {
            wait_gpus[row as usize] = too_few as f32;
            wait_fragmented[row as usize] = fragmented as f32;
        }
        drop(outcome.obstacles);
        if parts.len() == 1 && part.whole {
            (start, finish) = (outcome.start, outcome.finish);
            (num_servers, max_contention) = (outcome.num_servers, outcome.max_contention);
            allocations = outcome.allocations;
            continue;
        }
        for (j, &row) in part.rows.iter().enumerate() {
            let row = row as usize;
            if parts.len() > 1 {
                cluster[row] = number as u32;
            }
            (start[row], finish[row]) = (outcome.start[j], outcome.finish[j]);
            (num_servers[row], max_contention[row]) = (outcome.num_servers[j], outcome.max_contention[j]);
        }
        let mut own = outcome.allocations;
        own.job.iter_mut().for_each(|j| *j = part.rows[*j as usize]);
        allocations.job.append(&mut own.job);
        allocations.num_gpus.append(&mut own.num_gpus);
        allocations.start.append(&mut own.start);
        allocations.end.append(&mut own.end);
        allocations.server.extend(own.server.iter().map(|&s| part.servers[s as usize]));
    }
    let clock = Clock::new(options);
    let cluster_of = |row: usize| cluster.get(row).copied().unwrap_or(0);
    // Stretch by stretch; between two of them a job waits.
    stretches.sort_by_key(|s| s.job);
    let seen = |job: usize| clock.seconds(clock.arrival(jobs.submit[job]));
    let in_stretches = stretches.iter().enumerate().map(|(i, s)| {
        let row = s.job as usize;
        let before = i.checked_sub(1).map(|i| &stretches[i]).filter(|before| before.job == s.job);
        Span {
            submit: jobs.submit[row],
            seen: before.map_or_else(|| seen(row), |before| before.end),
            start: s.start,
            finish: s.end,
            num_gpus: jobs.num_gpus[row],
            spanning: s.spanning,
            cluster: cluster_of(row),
        }
    });
    let spans = (0..n).filter(|&j| kept[j] && preemptions[j] == 0).map(|j| Span {
        submit: jobs.submit[j],
        seen: seen(j),
        start: start[j],
        finish: finish[j],
        num_gpus: jobs.num_gpus[j],
        spanning: num_servers[j] > 1,
        cluster: cluster_of(j),
    });
    let spans = spans.chain(in_stretches);
    let spanning_seconds = spans.clone().filter(|s| s.spanning).map(|s| s.finish - s.start).sum();
    Ok(Outcome {
        held_while_submitting: held_while_submitting(spans.clone(), parts.len()),
        timeline: timeline(spans, &contention, options.sample)?,
        allocations: allocations.by_job(n),
        kept,
        start,
        finish,
        num_servers,
        max_contention,
        wait_gpus,
        wait_fragmented,
        preemptions,
        preempted,
        events,
        decisions,
        contention_seconds,
        spanning_seconds,
        engine_seconds,
    })
}
