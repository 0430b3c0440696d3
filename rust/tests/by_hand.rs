//! Tests small schedules computed by hand from the equations.

use super::cases::Case;
use ringbco::Network;
use ringbco::options::{ClockKind, Discipline, Model, Options, Order, Placement};
use ringbco::policies::named;

/// Returns (start, finish) of every row.
fn times(case: &Case) -> Vec<(f64, f64)> {
    let outcome = case.engine().unwrap();
    outcome.start.into_iter().zip(outcome.finish).collect()
}

/// Returns (row, server, GPUs) of every stay.
fn allocations(case: &Case) -> Vec<(u32, u32, u32)> {
    let rows = case.engine().unwrap().allocations;
    (0..rows.job.len()).map(|at| (rows.job[at], rows.server[at], rows.num_gpus[at])).collect()
}

/// Row 0 holds one GPU for 4 s. Row 1, on the two GPUs after it, spans; row 2 then spans beside it.
///
/// An iteration takes 1 s of compute and 2 x / b_e = 1 s between servers, twice that with two jobs on a link:
/// tau is 1 s for row 0, and 2 s alone or 3 s together for the others.
fn two_rings(clock: ClockKind) -> Case {
    let network = Network {
        inter_bandwidth: 1e9,
        reduce_speed: 1e300,
        contention_share: 1.0,
        server_overhead: 0.0,
        degradation: 0.0,
        ..Network::default()
    };
    let options =
        Options { order: Order::Fifo, placement: Placement::FirstFit, clock, slot: 4.0, ..Options::default() };
    Case { server_gpus: vec![2, 2], network, options, ..Case::default() }
        .job(0.0, 1, 1.0)
        .ring(4, 1e9, 1.0)
        .job(0.0, 2, 1.0)
        .ring(10, 1e9, 1.0)
        .job(0.0, 2, 1.0)
        .ring(4, 1e9, 1.0)
}

#[test]
fn contention_slows_both_rings() {
    let case = two_rings(ClockKind::Continuous);
    // Row 1: 2 iterations alone, 4 in the 12 s together, 4 alone.
    assert_eq!(times(&case), [(0.0, 4.0), (0.0, 24.0), (4.0, 16.0)]);
    let outcome = case.engine().unwrap();
    assert_eq!(outcome.max_contention, [0, 2, 2]);
    assert_eq!(outcome.num_servers, [1, 2, 2]);
    assert_eq!((outcome.contention_seconds, outcome.spanning_seconds), (4.0 + 24.0 + 8.0 + 24.0, 24.0 + 12.0));
    assert_eq!(allocations(&case), [(0, 0, 1), (1, 0, 1), (1, 1, 1), (2, 0, 1), (2, 1, 1)]);
}

#[test]
fn contention_in_whole_iterations_a_slot() {
    // In a slot of 4 s: 2 iterations alone, 1 together (and a third of one lost).
    assert_eq!(times(&two_rings(ClockKind::Slot)), [(0.0, 4.0), (0.0, 28.0), (4.0, 20.0)]);
}

fn fixed(server_gpus: &[u32], order: Order, queue: Discipline, placement: Placement) -> Case {
    let options = Options { order, queue, placement, model: Model::Fixed, kappa: 2, ..Options::default() };
    Case { server_gpus: server_gpus.to_vec(), options, ..Case::default() }
}

fn starts(case: &Case) -> Vec<f64> {
    times(case).iter().map(|t| t.0).collect()
}

#[test]
fn easy_does_not_delay_the_head() {
    let queue = |discipline| fixed(&[4], Order::Fifo, discipline, Placement::FirstFit);
    // Row 1 is the head, its shadow time 10 s: row 2 would end at 11 s, row 3 ends at 10 s.
    let add = |case: Case, head: u32| case.job(0.0, 3, 10.0).job(1.0, head, 5.0).job(2.0, 1, 9.0).job(2.0, 1, 8.0);
    assert_eq!(starts(&add(queue(Discipline::Easy), 4)), [0.0, 10.0, 15.0, 2.0]);
    // A head of three GPUs leaves the fourth to row 2, whenever it ends.
    assert_eq!(starts(&add(queue(Discipline::Easy), 3)), [0.0, 10.0, 2.0, 11.0]);
    assert_eq!(starts(&add(queue(Discipline::Skip), 4)), [0.0, 18.0, 2.0, 10.0]);
    assert_eq!(starts(&add(queue(Discipline::Strict), 4)), [0.0, 10.0, 15.0, 15.0]);
}

#[test]
fn orders() {
    let starts_by = |order| {
        let case = fixed(&[4], order, Discipline::Strict, Placement::FirstFit);
        starts(&case.job(0.0, 4, 10.0).job(1.0, 4, 3.0).job(2.0, 3, 5.0).job(3.0, 4, 2.0))
    };
    assert_eq!(starts_by(Order::Fifo), [0.0, 10.0, 13.0, 18.0]);
    assert_eq!(starts_by(Order::Sjf), [0.0, 12.0, 15.0, 10.0]);
    assert_eq!(starts_by(Order::Smallest), [0.0, 15.0, 10.0, 18.0]);
}

#[test]
fn sjf_bco_packs_small_gangs_and_levels_large_ones() {
    let case = fixed(&[4, 4], Order::Smallest, Discipline::Strict, Placement::SjfBco)
        .job(0.0, 2, 10.0) // no server is opened: the first
        .job(1.0, 1, 10.0) // the opened one
        .job(2.0, 2, 4.0) // too large for what is left there: the second
        .job(3.0, 3, 5.0); // above kappa: two GPUs of the second, whose mean U is 2 s, then one of the first, at 7.5 s
    assert_eq!(starts(&case), [0.0, 1.0, 2.0, 3.0]);
    assert_eq!(allocations(&case), [(0, 0, 2), (1, 0, 1), (2, 1, 2), (3, 0, 1), (3, 1, 2)]);
}

#[test]
fn consolidate_fits_best_and_takes_whole_servers() {
    let case = fixed(&[4, 2, 4, 4], Order::Fifo, Discipline::Strict, Placement::Consolidate)
        .job(0.0, 2, 9.0) // the server of two holds it most tightly
        .job(0.0, 1, 9.0) // all others alike: the first
        .job(0.0, 3, 9.0) // what that left
        .job(0.0, 6, 9.0) // a whole server, and two of the one with most left
        .job(0.0, 3, 1.0); // would need four free GPUs on one server
    assert_eq!(starts(&case), [0.0, 0.0, 0.0, 0.0, 9.0]);
    assert_eq!(allocations(&case)[..5], [(0, 1, 2), (1, 0, 1), (2, 0, 3), (3, 2, 4), (3, 3, 2)]);
}

#[test]
fn a_preempted_job_has_two_rows_of_stays() {
    let mut case = fixed(&[1], Order::Fifo, Discipline::Strict, Placement::FirstFit).job(0.0, 1, 10.0).job(2.0, 1, 3.0);
    (case.options.preemption, case.options.preempt_cost) = (named("srtf"), 0.0);
    let stays = case.engine().unwrap().stays.unwrap();
    assert_eq!((stays.job, stays.stay), (vec![0, 0, 1], vec![0, 1, 0]));
    assert_eq!((stays.start, stays.end), (vec![0.0, 5.0, 2.0], vec![2.0, 13.0, 5.0]));
    // Places among BEGAN and ENDED: preempted, then resumed and done.
    assert_eq!((stays.began, stays.ended), (vec![0, 1, 0], vec![1, 0, 0]));
    assert_eq!((stays.work, stays.wait_gpus), (vec![2.0, 8.0, 3.0], vec![0.0, 3.0, 0.0]));
}

#[test]
fn many_turns_after_the_last_arrival_are_no_standstill() {
    let mut case = fixed(&[1], Order::Fifo, Discipline::Strict, Placement::FirstFit).job(0.0, 1, 3e3).job(0.0, 1, 3e3);
    (case.options.preemption, case.options.quantum, case.options.preempt_cost) = (named("time-slice"), 1.0, 0.0);
    assert_eq!(case.engine().unwrap().finish, [5999.0, 6000.0]);
}
