//! Tests every error: that it is raised, and that it names what is at fault.

use super::cases::Case;
use ringbco::Network;
use ringbco::error::Error;
use ringbco::options::{ClockKind, Discipline, Model, Options, Order, Oversize, Placement, Variant};
use ringbco::policies::PRESETS;
use ringbco::trace::{OwnedNoise, OwnedRange};

/// Three jobs on two servers of four GPUs.
fn sound() -> Case {
    let options = Options { model: Model::Rar, ..Options::default() };
    Case { server_gpus: vec![4, 4], options, ..Case::default() }
        .job(0.0, 1, 5.0)
        .ring(10, 1e8, 0.25)
        .job(1.0, 2, 5.0)
        .ring(10, 1e8, 0.25)
        .job(1.0, 6, 5.0)
        .ring(10, 1e8, 0.25)
}

fn in_two_clusters() -> Case {
    let mut case = sound();
    case.jobs.num_gpus[2] = 3;
    Case { server_vc: Some(vec![0, 1]), vc: Some(vec![0, 1, 1]), ..case }
}

fn broken(change: impl FnOnce(&mut Case)) -> Error {
    broken_from(sound(), change)
}

fn broken_from(mut case: Case, change: impl FnOnce(&mut Case)) -> Error {
    assert!(case.engine().is_ok(), "sound before the change");
    change(&mut case);
    case.engine().expect_err("refused after the change")
}

#[test]
fn columns_of_another_length() {
    let length = |error: Error| match error {
        Error::ColumnLength { column, length, expected } => (column, length, expected),
        other => panic!("{other:?}"),
    };
    assert_eq!(length(broken(|c| c.jobs.num_gpus.truncate(2))), ("num_gpus", 2, 3));
    assert_eq!(length(broken(|c| c.jobs.duration.push(1.0))), ("duration", 4, 3));
    assert_eq!(length(broken(|c| c.jobs.iterations.clear())), ("iterations", 0, 3));
    assert_eq!(length(broken(|c| c.jobs.gradient_bytes.clear())), ("gradient_bytes", 0, 3));
    assert_eq!(length(broken(|c| c.jobs.compute_time.clear())), ("compute_time", 0, 3));
    assert_eq!(
        length(broken(|c| c.jobs.range = Some(OwnedRange { min: vec![1; 2], max: vec![9; 3] }))),
        ("min_gpus", 2, 3)
    );
    assert_eq!(
        length(broken(|c| c.jobs.noise = Some(OwnedNoise { scale: vec![1.0; 2], batch: vec![1; 3] }))),
        ("noise_scale", 2, 3)
    );
    assert_eq!(
        length(broken(|c| c.jobs.noise = Some(OwnedNoise { scale: vec![1.0; 3], batch: vec![1; 4] }))),
        ("batch_size", 4, 3)
    );
    assert_eq!(length(broken_from(in_two_clusters(), |c| c.server_vc = Some(vec![0]))), ("server_vc", 1, 2));
    assert_eq!(length(broken_from(in_two_clusters(), |c| c.vc = Some(vec![0, 1]))), ("vc", 2, 3));
    assert_eq!(length(broken_from(in_two_clusters(), |c| c.vc = None)), ("vc", 0, 3));
}

#[test]
fn values_against_the_rules() {
    let value = |change: &dyn Fn(&mut Case)| match broken(change) {
        Error::Value { row, column, value, .. } => (row, column, value),
        other => panic!("{other:?}"),
    };
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let text = format!("{bad:?}");
        let named = |column: &'static str| (1, column, text.clone());
        assert_eq!(value(&|c| c.jobs.submit[1..].fill(bad)), named("submit_time"), "the lowest row");
        assert_eq!(value(&|c| c.jobs.duration[1] = bad), named("duration"));
        assert_eq!(value(&|c| c.jobs.gradient_bytes[1] = bad), named("gradient_bytes"));
        assert_eq!(value(&|c| c.jobs.compute_time[1] = bad), named("compute_time"));
    }
    assert_eq!(value(&|c| c.jobs.duration[2] = 0.0), (2, "duration", "0.0".to_owned()));
    assert_eq!(value(&|c| c.jobs.num_gpus[2] = 0), (2, "num_gpus", "0".to_owned()));
    assert_eq!(value(&|c| c.jobs.iterations[0] = 0), (0, "iterations", "0".to_owned()));
    for bad in [-1.0, f64::NAN, f64::NEG_INFINITY] {
        let of =
            value(&|c| c.jobs.noise = Some(OwnedNoise { scale: vec![f64::INFINITY, 0.0, bad], batch: vec![1; 3] }));
        assert_eq!(of, (2, "noise_scale", format!("{bad:?}")));
    }
    let none = value(&|c| c.jobs.noise = Some(OwnedNoise { scale: vec![0.0; 3], batch: vec![1, 0, 1] }));
    assert_eq!(none, (1, "batch_size", "0".to_owned()));
    let many = (1u64 << 53) + 1;
    assert_eq!(value(&|c| c.jobs.iterations[0] = many), (0, "iterations", many.to_string()));
    match broken_from(in_two_clusters(), |c| c.vc = Some(vec![0, 7, 2])) {
        Error::Value { row: 1, column: "vc", value, .. } => assert_eq!(value, "7"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn fixed_does_not_read_what_rar_needs() {
    let mut case = sound();
    case.options.model = Model::Fixed;
    case.jobs.iterations.clear();
    case.jobs.gradient_bytes.fill(f64::NAN);
    assert_eq!(case.engine().unwrap().finish.len(), 3);
}

#[test]
fn options_out_of_range() {
    let name = |change: &dyn Fn(&mut Case)| match broken(change) {
        Error::Option { name, .. } => name,
        other => panic!("{other:?}"),
    };
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert_eq!(name(&|c| c.options.slot = bad), "slot");
        assert_eq!(name(&|c| c.options.sample = Some(bad)), "sample");
        assert_eq!(name(&|c| c.options.lambda = bad), "lambda");
        assert_eq!(name(&|c| c.network.intra_bandwidth = bad), "intra_bandwidth");
        assert_eq!(name(&|c| c.network.inter_bandwidth = bad), "inter_bandwidth");
        assert_eq!(name(&|c| c.network.reduce_speed = bad), "reduce_speed");
        assert_eq!(name(&|c| c.network.contention_share = bad), "xi1");
    }
    assert_eq!(name(&|c| c.options.lambda = 0.99), "lambda");
    assert_eq!(name(&|c| c.network.contention_share = 1.01), "xi1");
    assert_eq!(name(&|c| c.network.server_overhead = -1e-9), "xi2");
    assert_eq!(name(&|c| c.network.degradation = -1e-9), "alpha");
    assert_eq!(name(&|c| c.server_gpus.clear()), "cluster");
    assert_eq!(name(&|c| c.server_gpus[1] = 0), "cluster");
    assert_eq!(name(&|c| c.server_vc = Some(vec![0, 2])), "cluster", "a gap in the numbers");
}

#[test]
fn names_that_no_registry_knows() {
    let wrong = [
        (Order::parse("lifo").err(), "order", "lifo"),
        (Discipline::parse("Strict").err(), "queue", "Strict"),
        (Placement::parse("").err(), "placement", ""),
        (Variant::parse("x").err(), "variant", "x"),
        (Model::parse("x").err(), "model", "x"),
        (ClockKind::parse("x").err(), "clock", "x"),
        (Oversize::parse("x").err(), "oversize", "x"),
    ];
    for (error, name, value) in wrong {
        match error {
            Some(Error::Option { name: n, value: v, expected }) => {
                assert_eq!((n, v.as_str()), (name, value));
                assert!(expected.starts_with("one of "), "{expected}");
            }
            other => panic!("{other:?}"),
        }
    }
    for &placement in Placement::ALL {
        assert_eq!(Placement::parse(placement.name()), Ok(placement));
    }
    assert!(PRESETS.iter().all(|p| Order::parse(p.order.name()) == Ok(p.order)));
}

#[test]
fn jobs_larger_than_their_cluster() {
    let larger = |c: &mut Case| c.jobs.num_gpus[1..].copy_from_slice(&[9, 10]);
    assert_eq!(broken(larger), Error::Oversize { row: 1, num_gpus: 9, available: 8 });
    // Five would fit in the whole, but not in virtual cluster 1.
    let error = broken_from(in_two_clusters(), |c| c.jobs.num_gpus[2] = 5);
    assert_eq!(error, Error::Oversize { row: 2, num_gpus: 5, available: 4 });
}

#[test]
fn jobs_that_their_placement_could_never_place() {
    // There are seven GPUs, but consolidate wants six on whole servers of three.
    let mut case = sound();
    case.server_gpus = vec![3, 2, 2];
    case.options.placement = Placement::Consolidate;
    let refused = Error::Unplaceable { row: 2, num_gpus: 6, placement: "consolidate" };
    assert_eq!(case.engine().unwrap_err(), refused);
    case.options.oversize = Oversize::Drop;
    let outcome = case.engine().unwrap();
    assert_eq!(outcome.kept, [true, true, false]);
    assert!(outcome.start[2].is_nan() && outcome.finish[2].is_nan() && outcome.num_servers[2] == 0);
    assert!(outcome.allocations.job.iter().all(|&row| row != 2));
}

#[test]
fn iterations_longer_than_the_slot() {
    let mut case = sound();
    case.options.clock = ClockKind::Slot;
    case.options.slot = 0.3;
    assert!(case.engine().is_ok());
    case.jobs.compute_time[1] = 0.31;
    match case.engine() {
        Err(Error::SlotTooShort { row: 1, tau, slot }) => assert!(tau > 0.31 && tau < 0.32 && slot == 0.3),
        other => panic!("{other:?}"),
    }
    case.options.clock = ClockKind::Continuous;
    assert!(case.engine().is_ok());
}

#[test]
fn iterations_that_take_no_time() {
    let still = |c: &mut Case| {
        c.network = Network { server_overhead: 0.0, ..c.network.clone() };
        c.jobs.compute_time[..2].fill(0.0);
        // A ring of one sends nothing.
        c.jobs.num_gpus[1] = 1;
        c.jobs.gradient_bytes[0] = 0.0;
        c.jobs.num_gpus[0] = 2;
    };
    assert_eq!(broken(still), Error::ZeroIterationTime { row: 0 });
    assert_eq!(
        broken(|c| {
            still(c);
            c.jobs.gradient_bytes[0] = 1.0;
        }),
        Error::ZeroIterationTime { row: 1 }
    );
}

/// Two gangs that share both links once a filler has left, at 4 s, after which neither completes an iteration in a
/// slot. The table's rows are, in the order given: 0 the filler, 1 and 2 the gangs, 3 a job that then waits.
fn stalled(rows: [usize; 4]) -> Case {
    let options =
        Options { placement: Placement::FirstFit, order: Order::Fifo, clock: ClockKind::Slot, ..Options::default() };
    let network = Network { contention_share: 1.0, ..Network::default() };
    let mut case = Case { server_gpus: vec![2, 2], network, options, ..Case::default() };
    let jobs = [(0.0, 1, 4, 0.0), (0.25, 2, 50, 5e9), (1.5, 2, 50, 5e9), (3.5, 1, 1, 0.0)];
    for kind in rows {
        let (submit, num_gpus, iterations, gradient_bytes) = jobs[kind];
        case = case.job(submit, num_gpus, 1.0).ring(iterations, gradient_bytes, 0.5);
    }
    case
}

#[test]
fn runs_that_can_never_end() {
    let error = |rows| stalled(rows).engine().unwrap_err();
    assert_eq!(error([0, 1, 2, 3]), Error::Stuck { row: 1, running: true, time: 4.0 });
    // The table's order decides which row is lowest, not the order of submission.
    assert_eq!(error([3, 2, 1, 0]), Error::Stuck { row: 0, running: false, time: 4.0 });
    assert_eq!(error([2, 1, 3, 0]), Error::Stuck { row: 0, running: true, time: 4.0 });
    // Without contention from the second gang, all end.
    let mut case = stalled([0, 1, 2, 3]);
    case.jobs.num_gpus[2] = 1;
    assert!(case.engine().is_ok());
}

#[test]
fn of_several_clusters_the_lowest_row_is_named() {
    // The same stall in two virtual clusters, the rows of the second one first.
    let (one, rows) = (stalled([0, 1, 2, 3]), [1, 0, 1, 0, 1, 0, 1, 0]);
    let mut case = Case {
        server_gpus: vec![2; 4],
        server_vc: Some(vec![0, 0, 1, 1]),
        vc: Some(rows.to_vec()),
        network: one.network,
        options: one.options.clone(),
        ..Case::default()
    };
    for row in [0, 0, 1, 1, 2, 2, 3, 3] {
        let jobs = &one.jobs;
        case = case.job(jobs.submit[row], jobs.num_gpus[row], 1.0).ring(
            jobs.iterations[row],
            jobs.gradient_bytes[row],
            jobs.compute_time[row],
        );
    }
    assert_eq!(case.engine().unwrap_err(), Error::Stuck { row: 2, running: true, time: 4.0 });
}

#[test]
fn every_error_is_one_line_with_its_kind_and_row() {
    let errors = [
        (broken(|c| c.jobs.duration.clear()), "column-length", None),
        (broken(|c| c.jobs.duration[1] = 0.0), "value", Some(1)),
        (broken(|c| c.options.slot = 0.0), "option", None),
        (broken(|c| c.jobs.num_gpus[0] = 9), "oversize", Some(0)),
        (stalled([3, 2, 1, 0]).engine().unwrap_err(), "stuck", Some(0)),
        (Error::Interrupted, "interrupted", None),
    ];
    for (error, kind, row) in errors {
        assert_eq!((error.kind(), error.row()), (kind, row));
        let text = error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    }
}
