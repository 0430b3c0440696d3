//! Decision logs: of every policy, replayed by the machine and by the reference that knows no policy.

use super::cases::{Case, any_case, cases_each};
use super::reference::replay_log;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringbco::Unwatched;
use ringbco::decisions::{DecisionLog, Verb};
use ringbco::error::{Error, Result};
use ringbco::ids::{Job, Server};
use ringbco::options::{ClockKind, Discipline, Options, Oversize};
use ringbco::outcome::Outcome;
use ringbco::policies::{PRESETS, named};
use ringbco::replay::{Extras, replay_with};
use std::cell::Cell;

pub(crate) fn run(case: &Case, deadline: &[f64], options: &Options, log: Option<&DecisionLog>) -> Result<Outcome> {
    let extras = Extras { deadline: Some(deadline), user: None, key: None, log, ..Extras::default() };
    replay_with(&case.table(), &extras, case.vc.as_deref(), &case.spec(), options, &mut Unwatched)
}

fn same(a: f64, b: f64, bits: bool) -> bool {
    a.to_bits() == b.to_bits()
        || (a.is_nan() && b.is_nan())
        || (!bits && (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0))
}

/// Whether a stay has no length, or two begin or end within a few steps of float64 of each other. The machine then
/// decides several times where the reference sees one instant, so neither's largest contention is the only right one.
fn nearly_at_once(outcome: &Outcome) -> bool {
    let rows = &outcome.allocations;
    if rows.start.iter().zip(&rows.end).any(|(start, end)| start == end) {
        return true;
    }
    let mut times: Vec<f64> = rows.start.iter().chain(&rows.end).copied().collect();
    times.sort_by(f64::total_cmp);
    times.windows(2).any(|pair| pair[0] < pair[1] && pair[1] - pair[0] <= 32.0 * (pair[1].next_up() - pair[1]))
}

pub(crate) fn compare(case: &Case, options: &Options, outcome: &Outcome) -> std::result::Result<(), TestCaseError> {
    let slow = replay_log(&case.table(), &case.spec(), options, &outcome.log)
        .map_err(|error| TestCaseError::fail(format!("{error:?} in {:?}", outcome.log)))?;
    let bits = options.clock == ClockKind::Slot;
    for row in 0..outcome.start.len() {
        let pair = (outcome.start[row], outcome.finish[row], slow.start[row], slow.finish[row]);
        prop_assert!(same(pair.0, pair.2, bits) && same(pair.1, pair.3, bits), "row {row}: {pair:?}");
    }
    prop_assert_eq!(&outcome.num_servers, &slow.num_servers);
    if bits || !nearly_at_once(outcome) {
        prop_assert_eq!(&outcome.max_contention, &slow.max_contention);
    }
    prop_assert_eq!(&outcome.preemptions(), &slow.preemptions);
    let rows = &outcome.allocations;
    prop_assert_eq!(rows.job.len(), slow.stays.len());
    for (at, stay) in slow.stays.iter().enumerate() {
        prop_assert_eq!((rows.job[at] as usize, rows.server[at] as usize, rows.num_gpus[at]), (stay.0, stay.1, stay.2));
        prop_assert!(same(rows.start[at], stay.3, bits) && same(rows.end[at], stay.4, bits));
    }
    if let Some(sums) = &outcome.sums {
        prop_assert_eq!(&outcome.refused, &slow.refused);
        prop_assert_eq!(&outcome.ended, &slow.ended);
        let slot = if bits { options.slot } else { 1.0 };
        // A difference of two times is known as well as the times are.
        let late = if bits { 0.0 } else { rows.end.iter().copied().fold(0.0, f64::max) };
        for (row, own) in sums.iter().enumerate() {
            let (held, lost) = (slow.held[row] * slot, slow.lost[row] * slot);
            prop_assert!(outcome.refused[row] || same(late + own.held, late + held, bits), "held of {row}");
            prop_assert!(outcome.refused[row] || same(late + own.paused, late + lost, bits), "lost of {row}");
        }
    }
    Ok(())
}

/// What is drawn beside the case.
#[derive(Clone, Debug)]
struct Draw {
    preset: usize,
    queue: usize,
    cost: u32,
    slack: u32,
    ages: bool,
    admission: bool,
}

fn draws() -> impl Strategy<Value = (Case, Draw)> {
    let rest = (0..PRESETS.len(), 0usize..3, 0u32..3, 1u32..5, any::<bool>(), any::<bool>());
    (any_case(), rest).prop_map(|(mut case, (preset, queue, cost, slack, ages, admission))| {
        (case.vc, case.server_vc) = (None, None);
        (case, Draw { preset, queue, cost, slack, ages, admission })
    })
}

/// The reference follows the log slot by slot or instant by instant, and the machine replays it: both give what the
/// policy's own run gave. Returns how many jobs were stopped, or nothing where the run ended in an error.
fn check(case: &Case, draw: &Draw) -> std::result::Result<Option<u32>, TestCaseError> {
    let preset = &PRESETS[draw.preset];
    let table = case.table();
    let deadline: Vec<f64> =
        (0..table.len()).map(|j| table.submit[j] + f64::from(draw.slack) * table.duration[j]).collect();
    let preempts = preset.preemption.is_some();
    let options = Options {
        preemption: preset.preemption,
        order: preset.order,
        queue: Discipline::ALL[draw.queue],
        preempt_cost: f64::from(draw.cost) / 2.0,
        checkpoint_cost: f64::from(draw.slack % 3) * 0.75,
        checkpoint_interval: [1.0, 2.5, 4.0, f64::INFINITY][draw.cost as usize % 4],
        thresholds: vec![3.0, 20.0],
        interval: Some(1.5),
        quantum: 4.0,
        aging: (draw.ages && !preempts).then_some(2.0),
        admission: draw.admission && preset.name == "edf",
        oversize: Oversize::Error, // the reference takes the whole table
        record_allocations: true,
        record_decisions: true,
        ..case.options.clone()
    };
    let Ok(outcome) = run(case, &deadline, &options, None) else { return Ok(None) };
    compare(case, &options, &outcome)?;
    let logged = Options { preemption: named("log"), aging: None, admission: false, ..options.clone() };
    let again = run(case, &deadline, &logged, Some(&outcome.log))
        .map_err(|error| TestCaseError::fail(format!("{error:?} in {:?}", outcome.log)))?;
    let bits = |times: &[f64]| times.iter().map(|time| time.to_bits()).collect::<Vec<_>>();
    let bits32 = |times: &[f32]| times.iter().map(|time| time.to_bits()).collect::<Vec<_>>();
    prop_assert_eq!(&again.log, &outcome.log);
    prop_assert_eq!(&again.allocations, &outcome.allocations);
    prop_assert_eq!(bits(&again.finish), bits(&outcome.finish));
    if outcome.stays.is_some() {
        prop_assert_eq!(&again.stays, &outcome.stays); // a queue's run tells none: each job has one
    }
    prop_assert_eq!(&again.max_contention, &outcome.max_contention);
    prop_assert_eq!(bits32(&again.wait_gpus), bits32(&outcome.wait_gpus));
    Ok(Some(outcome.preemptions().iter().sum()))
}

#[test]
fn a_log_tells_all_that_a_policy_did() {
    let (ended, stopped, refused) = (Cell::new(0u32), Cell::new(0u32), Cell::new(0u32));
    let config = Config { cases: 100 * cases_each(), ..Config::default() };
    let ran = TestRunner::new(config).run(&draws(), |(case, draw)| {
        match check(&case, &draw)? {
            Some(stops) => {
                ended.set(ended.get() + 1);
                stopped.set(stopped.get() + stops);
            }
            None => refused.set(refused.get() + 1),
        }
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
    let counts = (ended.get(), stopped.get(), refused.get());
    assert!(counts.0 > counts.2 && 2 * counts.1 > counts.0, "(ended, stops, refused): {counts:?}");
}

fn two_jobs() -> Case {
    Case { server_gpus: vec![2, 2], ..Case::default() }.job(0.0, 2, 4.0).job(1.0, 3, 4.0)
}

/// (time, verb, job, parts).
type Step<'a> = (f64, Verb, u32, &'a [(u32, u32)]);

fn follow(steps: &[Step<'_>]) -> Result<Outcome> {
    let case = two_jobs();
    let mut log = DecisionLog::default();
    for &(time, verb, job, parts) in steps {
        let parts: Vec<_> = parts.iter().map(|&(server, gpus)| (Server::new(server), gpus)).collect();
        log.push(time, verb, Job::new(job), &parts);
    }
    let options = Options {
        preemption: named("log"),
        model: ringbco::options::Model::Fixed,
        preempt_cost: 1.0,
        record_decisions: true,
        ..Options::default()
    };
    let machine = run(&case, &[f64::NAN; 2], &options, Some(&log));
    let slow = replay_log(&case.table(), &case.spec(), &options, &log);
    assert_eq!(machine.as_ref().err().map(Error::kind), slow.as_ref().err().map(Error::kind), "{machine:?} {slow:?}");
    machine
}

#[test]
fn a_log_by_hand() {
    // The first job is stopped at 2 s and resumes at 5 s, with 1 s of pause and 2 s of work left.
    let outcome = follow(&[
        (0.0, Verb::Start, 0, &[(0, 2)]),
        (2.0, Verb::Stop, 0, &[]),
        (2.0, Verb::Start, 1, &[(0, 1), (1, 2)]),
        (6.0, Verb::Start, 0, &[(0, 2)]),
    ])
    .unwrap();
    assert_eq!((outcome.finish.clone(), outcome.preemptions()), (vec![9.0, 6.0], vec![1, 0]));
}

#[test]
fn what_a_log_cannot_ask_for() {
    let fails = |steps: &[Step<'_>], said: &str| {
        let error = follow(steps).unwrap_err();
        assert!(error.to_string().contains(said), "{error}");
    };
    let start: Step<'_> = (0.0, Verb::Start, 0, &[(0, 2)]);
    fails(&[(0.0, Verb::Start, 0, &[(0, 1)])], "1 GPUs are given and it asks for 2");
    fails(&[(0.0, Verb::Start, 1, &[(0, 1), (1, 2)])], "it does not wait at that time");
    fails(&[start, (1.0, Verb::Start, 1, &[(0, 1), (1, 2)])], "server 0 has 0 idle GPUs");
    fails(&[start, (1.0, Verb::Start, 0, &[(1, 2)])], "it holds GPUs already");
    fails(&[(0.0, Verb::Stop, 0, &[])], "it holds no GPUs");
    fails(&[start, (5.0, Verb::Stop, 0, &[])], "it holds no GPUs");
    fails(&[start, (1.0, Verb::Stop, 1, &[])], "it holds no GPUs");
    fails(&[(3.0, Verb::Start, 0, &[(0, 2)]), (1.0, Verb::Stop, 0, &[])], "before the decision above");
    fails(&[(0.0, Verb::Start, 0, &[(7, 2)])], "servers of the cluster");
    fails(&[(0.0, Verb::Start, 9, &[(0, 2)])], "no such job");
    fails(&[start], "still waits");
}
