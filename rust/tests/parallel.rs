//! Tests virtual clusters side by side: the result must not depend on the number of threads.

use super::cases::Case;
use ringbco::Unwatched;
use ringbco::options::{Discipline, Model, Options, Order, Placement};
use ringbco::outcome::Outcome;

/// Five virtual clusters of mixed servers, and a few thousand jobs that keep them busy; no row is dropped.
pub(crate) fn busy(jobs: u32, options: Options) -> Case {
    let server_gpus: Vec<u32> = (0..20).map(|s| [8, 4, 8, 2][s % 4]).collect();
    let server_vc: Vec<u32> = (0..20).map(|s| s % 5).collect();
    let mut case = Case { server_gpus, server_vc: Some(server_vc), options, ..Case::default() };
    let mut vc = Vec::new();
    let mut draw = 7u64;
    let mut below = |bound: u64| {
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (draw >> 33) % bound
    };
    for i in 0..jobs {
        // Some rows come before the one above them.
        let submit = f64::from(i + 40) - below(40) as f64;
        let num_gpus = [1, 1, 2, 3, 4, 8, 12][below(7) as usize];
        case = case.job(submit, num_gpus, 1.0 + below(30) as f64).ring(1 + below(100), below(4) as f64 * 2e8, 0.125);
        vc.push(below(5) as u32);
    }
    case.vc = Some(vc);
    case
}

fn with_threads(case: &Case, threads: usize) -> Outcome {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let mut outcome = pool.install(|| case.engine()).unwrap();
    outcome.engine_seconds = 0.0;
    outcome
}

#[test]
fn thread_counts_do_not_matter() {
    let choices = [
        (Order::Smallest, Discipline::Strict, Placement::SjfBco, Model::Rar),
        (Order::Sjf, Discipline::Skip, Placement::Random, Model::Fixed),
        (Order::Fifo, Discipline::Easy, Placement::LeastLoaded, Model::Rar),
    ];
    for (order, queue, placement, model) in choices {
        let case = busy(2000, Options { order, queue, placement, model, ..Options::default() });
        let mut once = case.engine().unwrap();
        once.engine_seconds = 0.0;
        assert!(
            once.num_servers.iter().any(|&s| s > 1) && once.start.iter().zip(&case.jobs.submit).any(|(a, b)| a > b)
        );
        for threads in [1, 2, 3, 8] {
            assert_eq!(with_threads(&case, threads), once, "{threads} threads");
        }
    }
}

#[test]
fn a_virtual_cluster_runs_as_if_alone() {
    let case = busy(600, Options { placement: Placement::FirstFit, ..Options::default() });
    let whole = case.engine().unwrap();
    let (server_vc, vc) = (case.server_vc.clone().unwrap(), case.vc.clone().unwrap());
    for v in 0..5 {
        let rows: Vec<usize> = (0..vc.len()).filter(|&row| vc[row] == v).collect();
        let servers = (0..server_vc.len()).filter(|&s| server_vc[s] == v).map(|s| case.server_gpus[s]);
        let mut alone = Case { server_gpus: servers.collect(), options: case.options.clone(), ..Case::default() };
        for &row in &rows {
            let jobs = &case.jobs;
            alone = alone.job(jobs.submit[row], jobs.num_gpus[row], jobs.duration[row]).ring(
                jobs.iterations[row],
                jobs.gradient_bytes[row],
                jobs.compute_time[row],
            );
        }
        let outcome = alone.engine().unwrap();
        let starts: Vec<f64> = rows.iter().map(|&row| whole.start[row]).collect();
        let finishes: Vec<f64> = rows.iter().map(|&row| whole.finish[row]).collect();
        assert_eq!((outcome.start, outcome.finish), (starts, finishes), "virtual cluster {v}");
    }
}

#[test]
fn one_thread_is_enough() {
    let case = busy(50, Options::default());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut watch = Unwatched;
    let outcome = pool.install(|| {
        ringbco::replay::replay(&case.table(), case.vc.as_deref(), &case.spec(), &case.options, &mut watch)
    });
    assert_eq!(outcome.unwrap().start, case.engine().unwrap().start);
}
