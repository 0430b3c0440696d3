//! Tests logs written by hand and followed by the engine.

use super::cases::Case;
use ringbco::Unwatched;
use ringbco::decisions::{DecisionLog, Verb};
use ringbco::error::Result;
use ringbco::ids::{Job, Server};
use ringbco::options::{Model, Options};
use ringbco::outcome::Outcome;
use ringbco::policies::named;
use ringbco::replay::{Extras, replay_with};
use ringbco::simulation::{Prepared, Reached, When};
use ringbco::trace::OwnedSideTables;

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
        model: Model::Fixed,
        preempt_cost: 1.0,
        record_decisions: true,
        ..Options::default()
    };
    let extras = Extras { deadline: Some(&[f64::NAN; 2]), log: Some(&log), ..Extras::default() };
    replay_with(&case.table(), &extras, None, &case.spec(), &options, &mut Unwatched)
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
    fails(&[(0.0, Verb::Start, 0, &[(0, 1)])], "GPUs given: 1, requested: 2");
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
