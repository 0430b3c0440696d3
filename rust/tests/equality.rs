//! The engine against the reference, over every combination of order, discipline, placement, variant, model and clock.
//!
//! `RINGBCO_CASES` sets the cases per combination; the default makes more than 5,000 in all.

use super::cases::{cases, cases_each, combinations};
use super::comparison::compare;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};
use ringbco::options::{ClockKind, Model};
use std::cell::Cell;

fn engine_equals_reference(model: Model, clock: ClockKind) {
    let config = Config {
        cases: cases_each(),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("rust/tests/regressions/equality.txt"))),
        ..Config::default()
    };
    let (ended, refused) = (Cell::new(0u32), Cell::new(0u32));
    for combination in combinations(model, clock) {
        let ran = TestRunner::new(config.clone()).run(&cases(combination), |case| {
            let count = if compare(&case)? { &ended } else { &refused };
            count.set(count.get() + 1);
            Ok(())
        });
        if let Err(failure) = ran {
            panic!("{combination:?}\n{failure}");
        }
    }
    // Errors are compared too, but must not crowd out the replays.
    assert!(ended.get() > 4 * refused.get(), "{} replays ended, {} were refused", ended.get(), refused.get());
}

#[test]
fn continuous_rar() {
    engine_equals_reference(Model::Rar, ClockKind::Continuous);
}

#[test]
fn continuous_fixed() {
    engine_equals_reference(Model::Fixed, ClockKind::Continuous);
}

#[test]
fn slot_rar() {
    engine_equals_reference(Model::Rar, ClockKind::Slot);
}

#[test]
fn slot_fixed() {
    engine_equals_reference(Model::Fixed, ClockKind::Slot);
}
