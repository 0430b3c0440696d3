//! Tests empty runs, and runs that are called off.

use super::cases::Case;
use super::parallel::busy;
use ringbco::error::{Error, Result};
use ringbco::options::{ClockKind, Discipline, Model, Options, Order, Oversize, Placement};
use ringbco::outcome::{Outcome, Timeline};
use ringbco::{Watch, replay::replay};

#[test]
fn an_empty_table_gives_an_empty_outcome() {
    for &(model, clock) in &[
        (Model::Rar, ClockKind::Continuous),
        (Model::Rar, ClockKind::Slot),
        (Model::Fixed, ClockKind::Continuous),
        (Model::Fixed, ClockKind::Slot),
    ] {
        for (&queue, &placement) in
            Discipline::ALL.iter().flat_map(|queue| Placement::ALL.iter().map(move |at| (queue, at)))
        {
            for server_vc in [None, Some(vec![1, 0, 1])] {
                let options = Options { queue, placement, model, clock, ..Options::default() };
                let vc = server_vc.is_some().then(Vec::new);
                let case = Case { server_gpus: vec![4, 2, 4], server_vc, vc, options, ..Case::default() };
                empty(&case.engine().unwrap());
            }
        }
    }
}

fn empty(outcome: &Outcome) {
    assert!(outcome.start.is_empty() && outcome.finish.is_empty() && outcome.kept.is_empty());
    assert!(outcome.allocations.job.is_empty());
    assert_eq!(outcome.timeline, Timeline::default());
    assert_eq!((outcome.events, outcome.contention_seconds, outcome.spanning_seconds), (0, 0.0, 0.0));
}

#[test]
fn a_table_of_dropped_rows_gives_rows_without_times() {
    let options = Options { oversize: Oversize::Drop, ..Options::default() };
    let case = Case { server_gpus: vec![2, 2], options, ..Case::default() }.job(3.0, 5, 1.0).job(1.0, 9, 1.0);
    let outcome = case.engine().unwrap();
    assert_eq!(outcome.kept, [false, false]);
    assert!(outcome.start.iter().chain(&outcome.finish).all(|t| t.is_nan()));
    assert_eq!((outcome.events, outcome.timeline), (0, Timeline::default()));
}

#[test]
fn a_virtual_cluster_without_jobs_is_no_obstacle() {
    let mut case = Case { server_gpus: vec![2, 2, 2], server_vc: Some(vec![0, 1, 2]), ..Case::default() };
    case = case.job(0.0, 2, 1.0).job(0.0, 1, 1.0);
    case.vc = Some(vec![2, 2]);
    let outcome = case.engine().unwrap();
    assert_eq!((outcome.allocations.job, outcome.allocations.server), (vec![0, 1], vec![2, 2]));
    assert_eq!(outcome.start, [outcome.finish[1], 0.0], "sjf-bco: the smaller job first");
}

/// Ends the run with `error` once `after` jobs are done.
struct Impatient {
    after: usize,
    error: Error,
    seen: Vec<usize>,
}

impl Impatient {
    fn new(after: usize, error: Error) -> Self {
        Self { after, error, seen: Vec::new() }
    }
}

impl Watch for Impatient {
    fn tick(&mut self, finished: usize) -> Result<()> {
        self.seen.push(finished);
        if finished >= self.after { Err(self.error.clone()) } else { Ok(()) }
    }
}

fn watched(case: &Case, watch: &mut dyn Watch) -> Result<Outcome> {
    replay(&case.table(), case.vc.as_deref(), &case.spec(), &case.options, watch)
}

fn one_cluster(jobs: u32, options: Options) -> Case {
    Case { server_vc: None, vc: None, ..busy(jobs, options) }
}

#[test]
fn a_watch_sees_jobs_finish_and_can_end_the_run() {
    for queue in [Discipline::Strict, Discipline::Easy] {
        for clock in [ClockKind::Continuous, ClockKind::Slot] {
            let options = Options { queue, clock, placement: Placement::FirstFit, ..Options::default() };
            let case = one_cluster(20_000, options);
            let mut patient = Impatient::new(usize::MAX, Error::Interrupted);
            assert!(watched(&case, &mut patient).is_ok());
            assert!(patient.seen.len() > 5 && patient.seen.is_sorted(), "{:?}", patient.seen);

            let mut watch = Impatient::new(4000, Error::Interrupted);
            assert_eq!(watched(&case, &mut watch).unwrap_err(), Error::Interrupted);
            // It was asked in time, and not again after it had said no.
            let last = *watch.seen.last().unwrap();
            assert!((4000..8000).contains(&last), "{last}");
            assert_eq!(watch.seen.iter().filter(|&&f| f >= 4000).count(), 1);
        }
    }
}

/// Virtual clusters that run so long that the watch is asked before they are done.
fn long() -> Case {
    busy(400_000, Options { order: Order::Fifo, placement: Placement::FirstFit, ..Options::default() })
}

#[test]
fn virtual_clusters_are_interrupted_together() {
    let mut watch = Impatient::new(0, Error::Interrupted);
    assert_eq!(watched(&long(), &mut watch).unwrap_err(), Error::Interrupted);
    assert_eq!(watch.seen.len(), 1, "not asked again after it had said no");
}

#[test]
fn the_error_of_the_watch_is_passed_on() {
    let error = Error::ZeroIterationTime { row: 17 };
    for case in [one_cluster(20_000, Options::default()), long()] {
        assert_eq!(watched(&case, &mut Impatient::new(0, error.clone())).unwrap_err(), error);
    }
}
