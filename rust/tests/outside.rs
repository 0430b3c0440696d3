//! Decisions from outside, drawn at random: the machine, its log replayed, and the reference give the same.

use super::cases::{Case, any_case, cases_each};
use super::logs::{compare, run};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ringbco::Unwatched;
use ringbco::decisions::Verb;
use ringbco::options::{Discipline, Model, Options, Order, Oversize, Placement};
use ringbco::outcome::Outcome;
use ringbco::policies::named;
use ringbco::simulation::{Course, Prepared, Reached, When};
use ringbco::trace::{OwnedNoise, OwnedRange, OwnedSideTables};
use std::cell::Cell;

/// A small stream of draws; the machine's own is not shared with what it checks.
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// Stops, moves, resizes, ends, refuses and starts at random. `kindly`: whether it does so seldom enough to come to an
/// end.
fn decide(course: &mut Course, draws: &mut Draws, kindly: bool, case: &Case) {
    let often = if kindly { 40 } else { 3 };
    let size = |draws: &mut Draws, row: u32| {
        let (min, max) = case.table().range_of(row as usize);
        min + draws.below((max - min + 1) as usize) as u32
    };
    let running = course.running();
    if !running.is_empty() && draws.one_in(often) {
        course.stop(&[running[draws.below(running.len())]]).unwrap();
    }
    for _ in 0..2 {
        let running = course.running();
        if running.len() > 1 && draws.one_in(often) {
            let (one, other) = (running[draws.below(running.len())], running[draws.below(running.len())]);
            let (of_one, of_other) = (course.parts(one), course.parts(other));
            let gpus = |parts: &[(u32, u32)]| parts.iter().map(|part| part.1).sum::<u32>();
            if one != other && gpus(&of_one) == gpus(&of_other) {
                course.shift(&[(one, of_other), (other, of_one)]).unwrap();
            }
        }
    }
    let running = course.running();
    if !running.is_empty() && draws.one_in(often) {
        let row = running[draws.below(running.len())];
        let (gpus, before) = (size(draws, row), course.parts(row));
        // Too few idle GPUs leave it as it was.
        if course.resize(row, gpus).is_err() {
            assert_eq!(course.parts(row), before);
        }
    }
    if !running.is_empty() && draws.one_in(often) {
        // On fewer GPUs of the same servers, or back on the same: a move that may be a resize.
        let row = running[draws.below(running.len())];
        let (mut parts, least) = (course.parts(row), case.table().range_of(row as usize).0);
        if parts[0].1 > 1 && parts.iter().map(|part| part.1).sum::<u32>() > least {
            parts[0].1 -= 1;
        }
        course.shift(&[(row, parts)]).unwrap();
    }
    if !running.is_empty() && draws.one_in(30) {
        let row = running[draws.below(running.len())];
        if draws.one_in(3) {
            course.stop(&[row]).unwrap();
        }
        // One that was started and stopped at this instant has not run.
        let _ = course.end(&[row]);
    }
    if draws.one_in(20) {
        let [never_ran, ..] = course.news();
        course.refuse(&never_ran[..never_ran.len().min(1)]).unwrap();
    }
    let mut waiting = course.waiting();
    for at in (1..waiting.len()).rev() {
        waiting.swap(at, draws.below(at + 1));
    }
    let placement = [None, Some(Placement::FirstFit), Some(Placement::FaFfp)][draws.below(3)];
    let strict = draws.one_in(2);
    if draws.one_in(2) && !waiting.is_empty() {
        let gpus = size(draws, waiting[0]);
        course.start(&waiting[..1], Some(gpus), None, placement, strict).unwrap();
    } else {
        course.start(&waiting, None, None, placement, strict).unwrap();
    }
    // What was stopped at this instant may start again where it was.
    if draws.one_in(often) && !running.is_empty() {
        let again = running[0];
        let parts = course.parts(again);
        if !parts.is_empty() {
            course.stop(&[again]).unwrap();
            course.start_on(again, &parts).unwrap();
        }
    }
    if draws.one_in(4) {
        assert!(course.wake(course.now() + 1.0 + draws.below(20) as f64));
    }
}

/// Runs to the end; nothing where the run is refused. Forks, which must come to the same end.
fn drive(case: &Case, options: &Options, seed: u64) -> Option<Outcome> {
    let prepared =
        Prepared::new(case.jobs.clone(), OwnedSideTables::default(), None, &case.spec(), options.clone()).ok()?;
    let end = |mut course: Course, mut draws: Draws, mut step: usize| {
        while course.run(f64::INFINITY, Unwatched).0.ok()? == Reached::Decision {
            step += 1;
            decide(&mut course, &mut draws, step > 150, case);
        }
        Some(prepared.outcome(vec![course]).unwrap())
    };
    let mut course = prepared.course(0, When::default());
    let mut draws = Draws(seed);
    let whole = end(course.clone(), Draws(seed), 0)?;
    // The same again, forked after a few decisions.
    for step in 1..=10 {
        if course.run(f64::INFINITY, Unwatched).0.ok()? != Reached::Decision {
            return Some(whole);
        }
        decide(&mut course, &mut draws, false, case);
        if step == 10 {
            let fork = end(course.clone(), Draws(draws.0), step)?;
            let bits = |of: &Outcome| of.finish.iter().map(|time| time.to_bits()).collect::<Vec<_>>();
            assert!(bits(&fork) == bits(&whole) && fork.allocations == whole.allocations && fork.log == whole.log);
        }
    }
    Some(whole)
}

/// The machine's own run, the reference over its log, and the log replayed. Nothing where the run is refused.
fn check(mut case: Case, seed: u64, costs: (u32, u32, u32), elastic: bool) -> Result<Option<Outcome>, TestCaseError> {
    (case.vc, case.server_vc) = (None, None);
    if elastic {
        let mut draws = Draws(seed);
        let range = |&gpus: &u32| (1 + draws.below(gpus as usize) as u32, gpus + draws.below(4) as u32);
        let (min, max) = case.jobs.num_gpus.iter().map(range).unzip();
        case.jobs.range = Some(OwnedRange { min, max });
        let scale = |draws: &mut Draws| [f64::INFINITY, 0.0, 1.0, 0.37, 1e9, 12_345.678][draws.below(6)];
        let noise = (0..case.jobs.num_gpus.len()).map(|_| (scale(&mut draws), 1 + draws.below(300) as u32));
        let (scale, batch) = noise.unzip();
        case.jobs.noise = (!seed.is_multiple_of(4)).then_some(OwnedNoise { scale, batch });
    }
    let (cost, move_cost, resize_cost) = costs;
    let options = Options {
        preemption: named("outside"),
        order: Order::Fifo,
        queue: Discipline::Strict,
        preempt_cost: f64::from(cost) / 2.0,
        checkpoint_cost: [0.0, 0.5, 2.25][seed as usize % 3],
        checkpoint_interval: [1.0, 2.5, 4.0, f64::INFINITY][cost as usize % 4],
        move_cost: (move_cost > 0).then(|| f64::from(move_cost)),
        resize_cost: (resize_cost > 0).then(|| f64::from(resize_cost) * 0.75),
        oversize: Oversize::Error, // the reference takes the whole table
        record_allocations: true,
        record_decisions: true,
        ..case.options.clone()
    };
    let Some(outcome) = drive(&case, &options, seed) else { return Ok(None) };
    compare(&case, &options, &outcome)?;
    let logged = Options { preemption: named("log"), ..options.clone() };
    let deadline = vec![f64::NAN; outcome.start.len()];
    let again = run(&case, &deadline, &logged, Some(&outcome.log))
        .map_err(|error| TestCaseError::fail(format!("{error:?} in {:?}", outcome.log)))?;
    prop_assert_eq!(&again.log, &outcome.log);
    prop_assert_eq!(&again.allocations, &outcome.allocations);
    if let (Some(mine), Some(theirs)) = (&outcome.stays, &again.stays) {
        prop_assert_eq!(mine, theirs);
    }
    Ok(Some(outcome))
}

#[test]
fn what_is_decided_at_random_is_what_the_reference_makes_of_it() {
    let (ended, moved, refused) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (resized, cut) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: 50 * cases_each(), ..Config::default() };
    let draws = (any_case(), any::<u64>(), (0u32..3, 0u32..3, 0u32..3), any::<bool>());
    let ran = TestRunner::new(config).run(&draws, |(case, seed, costs, elastic)| {
        let Some(outcome) = check(case, seed, costs, elastic)? else {
            refused.set(refused.get() + 1);
            return Ok(());
        };
        ended.set(ended.get() + 1);
        moved.set(moved.get() + outcome.preemptions().iter().sum::<u32>());
        resized.set(resized.get() + outcome.log.rows.iter().filter(|row| row.verb == Verb::Resize).count());
        cut.set(cut.get() + outcome.log.rows.iter().filter(|row| row.verb == Verb::End).count());
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
    let counts = (ended.get(), moved.get(), refused.get());
    assert!(counts.0 > counts.2 && counts.1 > counts.0, "(ended, stops and moves, refused): {counts:?}");
    let verbs = (resized.get(), cut.get());
    assert!(verbs.0 > 50 && verbs.1 > 50, "(resizes, jobs ended): {verbs:?}");
}

#[test]
fn an_outside_policy_may_wait_longer_than_a_ranking() {
    let case = Case { server_gpus: vec![1], ..Case::default() }.job(0.0, 1, 10.0);
    let options = Options { preemption: named("outside"), model: Model::Fixed, ..Options::default() };
    let prepared = Prepared::new(case.jobs.clone(), OwnedSideTables::default(), None, &case.spec(), options).unwrap();
    let mut course = prepared.course(0, When { interval: Some(1.0), ..When::default() });
    while course.run(f64::INFINITY, Unwatched).0.unwrap() == Reached::Decision {
        if course.now() == 5000.0 {
            course.start(&course.waiting(), None, None, None, true).unwrap();
        }
    }
    assert_eq!(prepared.outcome(vec![course]).unwrap().finish, [5010.0]);
}

/// Two jobs are done within a step of float64, and the later one is moved at the earlier one's end: to the reference
/// both are done there.
#[test]
fn a_job_that_is_moved_a_step_before_its_end_goes_on() {
    let case = Case {
        jobs: ringbco::trace::OwnedJobs {
            submit: vec![10.0, 0.15253690184108631, 2.0, 1.75, 1.0, 2.0, 3.5, 7.0, 3.0, 9.577271327523027, 3.0, 10.0],
            num_gpus: vec![6, 4, 3, 8, 5, 4, 10, 2, 2, 13, 2, 2],
            duration: vec![
                1e-9,
                1.25,
                1.0,
                2.25,
                3.25,
                8.000588473957272,
                6.5,
                4.25,
                1.9140288639307197,
                1.25,
                3.5,
                0.75,
            ],
            iterations: vec![18, 4, 1, 1, 7, 6, 2, 1, 1, 21, 3, 1],
            gradient_bytes: vec![
                0.0,
                0.0,
                0.0,
                0.0,
                0.0,
                781250000.0,
                1562500000.0,
                0.0,
                1953125000.0,
                2762538455.616411,
                1171875000.0,
                390625000.0,
            ],
            compute_time: vec![
                0.5,
                0.5286074648118803,
                0.25,
                0.5,
                0.25,
                0.3430924244489634,
                0.25,
                0.5466522453705426,
                0.3125,
                0.4297946669318291,
                0.25,
                0.25,
            ],
            ..Default::default()
        },
        server_gpus: vec![2, 8, 3, 1, 4, 4],
        network: ringbco::Network {
            intra_bandwidth: 150000000000.0,
            inter_bandwidth: 12500000000.0,
            reduce_speed: 500000000000.0,
            contention_share: 0.7558261240430482,
            server_overhead: 0.0005,
            degradation: 0.0,
        },
        options: Options {
            placement: Placement::FaFfp,
            model: Model::Rar,
            kappa: 3,
            seed: 196226928164684783,
            sample: Some(3.7737644450121044),
            ..Options::default()
        },
        ..Case::default()
    };
    check(case, 15516190221638164270, (2, 0, 2), true).unwrap();
}
