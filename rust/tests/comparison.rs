//! Whether the engine and the reference tell the same story.

use super::cases::Case;
use super::reference::{Replay, State, Stretch};
use proptest::test_runner::TestCaseError;
use proptest::{prop_assert, prop_assert_eq};
use ringbco::error::Error;
use ringbco::options::ClockKind;
use ringbco::outcome::Outcome;

type Checked = Result<(), TestCaseError>;

/// How far two times may differ.
#[derive(Clone, Copy)]
enum Closeness {
    Bits,
    Rounding,
}

impl Closeness {
    fn of(case: &Case) -> Self {
        match case.options.clock {
            ClockKind::Slot => Self::Bits,
            ClockKind::Continuous => Self::Rounding,
        }
    }

    fn same(self, a: f64, b: f64) -> bool {
        match self {
            Self::Bits => a.to_bits() == b.to_bits(),
            Self::Rounding => a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()),
        }
    }
}

/// Replays twice and compares; whether the replays came to their end rather than to an error.
pub(crate) fn compare(case: &Case) -> Result<bool, TestCaseError> {
    match (case.engine(), case.reference()) {
        (Ok(engine), Ok(reference)) => {
            compare_jobs(case, &engine, &reference)?;
            compare_allocations(case, &engine, &reference)?;
            compare_timeline(case, &engine, &reference)?;
            Ok(true)
        }
        (Err(engine), Err(reference)) => {
            compare_errors(case, &engine, &reference)?;
            Ok(false)
        }
        (engine, reference) => Err(TestCaseError::fail(format!("engine {engine:?}\nreference {reference:?}"))),
    }
}

fn compare_jobs(case: &Case, engine: &Outcome, reference: &Replay) -> Checked {
    prop_assert_eq!(&engine.kept, &reference.kept, "kept");
    let close = Closeness::of(case);
    for row in 0..engine.kept.len() {
        let (a, b) = ((engine.start[row], engine.finish[row]), (reference.start[row], reference.finish[row]));
        prop_assert!(close.same(a.0, b.0) && close.same(a.1, b.1), "row {row}: engine {a:?}, reference {b:?}");
    }
    prop_assert_eq!(&engine.num_servers, &reference.num_servers, "num_servers");
    prop_assert_eq!(&engine.max_contention, &reference.max_contention, "max_contention");
    prop_assert!(engine.preemptions().iter().all(|&p| p == 0));
    let kept = engine.kept.iter().filter(|&&k| k).count() as u64;
    prop_assert_eq!(engine.events, 2 * kept, "events: an arrival and a completion for every job");
    prop_assert!(engine.decisions >= kept, "decisions");
    // Sums of many terms, each in its own order.
    let sums = [
        (engine.contention_seconds, reference.contention_seconds),
        (engine.spanning_seconds, reference.spanning_seconds),
    ];
    let span = reference.finish.iter().copied().fold(0.0, f64::max);
    for (a, b) in sums {
        prop_assert!((a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(span), "sums {sums:?}");
    }
    let within =
        |a: &[f32], b: &[f64]| a.iter().zip(b).all(|(&a, &b)| (f64::from(a) - b).abs() <= 1e-6 * b + 1e-15 * span);
    for (a, b) in [(&engine.wait_gpus, &reference.wait_gpus), (&engine.wait_fragmented, &reference.wait_fragmented)] {
        prop_assert!(a.len() == b.len() && within(a, b), "obstacles: engine {:?}, reference {:?}", a, b);
    }
    Ok(())
}

fn compare_allocations(case: &Case, engine: &Outcome, reference: &Replay) -> Checked {
    let rows = &engine.allocations;
    if !case.options.record_allocations {
        prop_assert!(rows.job.is_empty());
        return Ok(());
    }
    let of = |i: usize| Stretch {
        row: rows.job[i] as usize,
        server: rows.server[i] as usize,
        num_gpus: rows.num_gpus[i],
        start: rows.start[i],
        end: rows.end[i],
    };
    let got: Vec<Stretch> = (0..rows.job.len()).map(of).collect();
    let close = Closeness::of(case);
    let same = |a: &Stretch, b: &Stretch| {
        (a.row, a.server, a.num_gpus) == (b.row, b.server, b.num_gpus)
            && close.same(a.start, b.start)
            && close.same(a.end, b.end)
    };
    let all = got.len() == reference.stretches.len() && got.iter().zip(&reference.stretches).all(|(a, b)| same(a, b));
    prop_assert!(all, "allocations: engine {got:?}\nreference {:?}", reference.stretches);
    Ok(())
}

/// Sample times from their definition, states from the reference's history.
fn compare_timeline(case: &Case, engine: &Outcome, reference: &Replay) -> Checked {
    let line = &engine.timeline;
    let kept = || (0..engine.kept.len()).filter(|&row| engine.kept[row]);
    let from = kept().map(|row| case.jobs.submit[row]).fold(f64::INFINITY, f64::min);
    let to = kept().map(|row| engine.finish[row]).fold(f64::NEG_INFINITY, f64::max);
    if from > to {
        prop_assert!(line.time.is_empty());
        return Ok(());
    }
    let expected: Vec<f64> = match case.options.sample {
        Some(step) => (0..).map(|i| from + f64::from(i) * step).take_while(|&t| t <= to).collect(),
        None => (0..2000).map(|i| from + (to - from) * f64::from(i) / 1999.0).collect(),
    };
    prop_assert_eq!(line.time.len(), expected.len(), "samples");
    prop_assert!(line.time.iter().zip(&expected).all(|(&a, &b)| Closeness::Rounding.same(a, b)), "sample times");
    if case.options.sample.is_none() {
        prop_assert_eq!((line.time[0], line.time[1999]), (from, to), "both ends");
    }
    for (i, &time) in line.time.iter().enumerate() {
        let state = reference.at(time);
        let mean =
            if state.spanning_jobs == 0 { 0.0 } else { state.contention as f64 / f64::from(state.spanning_jobs) };
        let got = State {
            time,
            running_jobs: line.running_jobs[i],
            queued_jobs: line.queued_jobs[i],
            busy_gpus: line.busy_gpus[i],
            queued_gpus: line.queued_gpus[i],
            spanning_jobs: line.spanning_jobs[i],
            contention: state.contention,
        };
        prop_assert_eq!(got, state, "timeline");
        prop_assert_eq!(line.mean_contention[i], mean, "mean contention at {} s", time);
    }
    Ok(())
}

fn compare_errors(case: &Case, engine: &Error, reference: &Error) -> Checked {
    match (engine, reference) {
        // When it was noticed is the engine's affair, as long as it is not before the last change.
        (Error::Stuck { row, running, time }, Error::Stuck { row: r, running: w, time: last }) => {
            prop_assert_eq!((row, running), (r, w), "engine {}, reference {}", engine, reference);
            prop_assert!(time >= last && *time <= last + 2.0 * case.options.slot, "stuck at {time} s, not {last} s");
        }
        _ => prop_assert_eq!(engine, reference),
    }
    Ok(())
}
