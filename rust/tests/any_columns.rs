//! Tests columns, clusters and numbers of any kind: an outcome or an error, never a panic, an overflow or an endless
//! run.

use super::cases::Case;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};
use ringbco::error::{Error, Result};
use ringbco::options::{ClockKind, Discipline, Is, Model, Options, Order, Oversize, Placement};
use ringbco::planner::{Dispatch, PlanOptions, Planner, plan};
use ringbco::policies::{PRESETS, named};
use ringbco::replay::{ClusterSpec, Extras, replay_with};
use ringbco::trace::{FairShares, NO_ROW, OwnedChains, OwnedNoise, OwnedRange, Recorded};
use ringbco::{Network, Watch};

/// Replays, and plans, of each test; `RINGBCO_CASES` sets another number.
const CASES: u32 = 2_000;

fn config() -> Config {
    Config {
        cases: std::env::var("RINGBCO_CASES").map_or(CASES, |text| text.parse().expect("RINGBCO_CASES")),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("rust/tests/regressions/any_columns.txt"))),
        ..Config::default()
    }
}

/// Stops a run that takes too long: a minute's turns over a billion years are many, not endless.
struct Patience(u32);

impl Watch for Patience {
    fn tick(&mut self, _finished: usize) -> Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(Error::Interrupted)?;
        Ok(())
    }
}

/// A number that some rule should refuse, or only just allows.
fn odd() -> impl Strategy<Value = f64> {
    prop_oneof![
        prop::sample::select(vec![
            0.0,
            -0.0,
            -1.0,
            1e-300,
            f64::MIN_POSITIVE,
            1e16,
            9_007_199_254_740_993.0,
            1.8e19,
            1e300,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ]),
        any::<f64>(),
    ]
}

/// Mostly `usual`, sometimes odd.
fn number(usual: std::ops::Range<f64>) -> impl Strategy<Value = f64> {
    prop_oneof![30 => usual, 1 => odd()]
}

fn size() -> impl Strategy<Value = u32> {
    prop_oneof![30 => 1..=6u32, 1 => prop::sample::select(vec![0, 7, 1 << 31, u32::MAX - 1, u32::MAX])]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![30 => 1..=50u64, 1 => prop::sample::select(vec![0, 1 << 53, (1 << 53) + 1, u64::MAX])]
}

/// A column of `rows` values or, sometimes, of another length.
fn column<T: std::fmt::Debug + 'static>(
    rows: usize,
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Vec<T>> {
    let value = value.boxed();
    prop_oneof![
        40 => prop::collection::vec(value.clone(), rows),
        1 => prop::collection::vec(value, 0..=rows + 1),
    ]
}

#[derive(Clone, Debug)]
struct Any {
    case: Case,
    deadline: Option<Vec<f64>>,
    user: Option<Vec<u32>>,
}

prop_compose! {
    fn network()(
        intra_bandwidth in number(1e9..2e11),
        inter_bandwidth in number(1e8..2e10),
        reduce_speed in number(1e9..1e12),
        contention_share in number(0.1..1.0),
        server_overhead in number(0.0..0.1),
        degradation in number(0.0..2.0),
    ) -> Network {
        Network {
            intra_bandwidth,
            inter_bandwidth,
            reduce_speed,
            contention_share,
            server_overhead,
            degradation,
            ..Network::default()
        }
    }
}

prop_compose! {
    fn options()(
        preset in prop::sample::select(PRESETS.clone()),
        order in prop::sample::select(Order::ALL),
        queue in prop::sample::select(Discipline::ALL),
        placement in prop::sample::select(Placement::ALL),
        model in prop::sample::select(Model::ALL),
        clock in prop::sample::select(ClockKind::ALL),
        oversize in prop::sample::select(Oversize::ALL),
        slot in number(0.1..100.0),
        lambda in number(1.0..4.0),
        preempt_cost in number(0.0..60.0),
        interval in number(1.0..100.0),
        quantum in number(1.0..100.0),
        estimate_factor in number(0.5..2.0),
        aging in prop::option::of(number(0.0..1e3)),
        sample in prop::option::weighted(0.1, number(1.0..1e3)),
        thresholds in prop::collection::vec(number(1.0..1e5), 0..=2),
        admission in any::<bool>(),
        kappa in size(),
    ) -> Options {
        Options {
            preemption: preset.preemption, order, queue, placement, model, clock, oversize, slot, lambda,
            preempt_cost, checkpoint_cost: (interval - 50.0).max(0.0), checkpoint_interval: 1e12 * quantum, interval: Some(interval), quantum, estimate_factor, aging, sample, thresholds, kappa,
            admission: admission && preset.name == "edf",
            ..Options::default()
        }
    }
}

/// Mostly jobs after the row above or after none, sometimes circles, other rows and odd times.
fn chains(rows: usize) -> impl Strategy<Value = OwnedChains> {
    let link = (0..6u32, 0..=rows as u32 + 1, prop_oneof![Just(f64::NAN), number(0.0..50.0)]);
    let lengths = prop_oneof![30 => Just(rows), 1 => 0..=rows + 1];
    (prop::collection::vec(link, rows), lengths).prop_map(move |(links, length)| {
        let after = (0..).zip(&links).map(|(row, &(kind, other, _))| match kind {
            0 => other,
            1..=3 if row > 0 => row - 1,
            _ => NO_ROW,
        });
        let after: Vec<u32> = after.collect();
        let alone = |(after, &(kind, _, think)): (&u32, &(u32, u32, f64))| {
            if *after == NO_ROW && kind != 0 { f64::NAN } else { think }
        };
        let mut think_time: Vec<f64> = after.iter().zip(&links).map(alone).collect();
        think_time.resize(length, f64::NAN);
        OwnedChains { after, think_time }
    })
}

fn anything() -> impl Strategy<Value = Any> {
    let jobs = (0..=6usize).prop_flat_map(|n| {
        (
            column(n, number(0.0..100.0)),
            column(n, size()),
            column(n, number(0.1..100.0)),
            column(n, count()),
            column(n, number(0.0..1e9)),
            column(n, number(0.0..0.5)),
            prop::option::weighted(0.8, column(n, 0..=2u32)),
            prop::option::weighted(0.8, column(n, prop_oneof![Just(f64::NAN), number(0.0..1e3)])),
            prop::option::weighted(0.8, column(n, any::<u32>())),
            prop::option::weighted(0.2, (column(n, prop_oneof![9 => Just(1), 1 => size()]), column(n, 6..=9u32))),
            prop::option::weighted(0.2, (column(n, number(0.0..1e4)), column(n, size()))),
            prop::option::weighted(0.3, chains(n)),
        )
    });
    let servers = (1..=4usize).prop_flat_map(|n| {
        // Readers of cluster files refuse servers of two thousand million GPUs.
        let sizes = column(n, prop_oneof![60 => 1..=8u32, 1 => Just(0u32)]);
        (sizes, prop::option::weighted(0.2, column(n, 0..=2u32)))
    });
    (jobs, servers, network(), options()).prop_map(|(jobs, (server_gpus, server_vc), network, options)| {
        let (
            submit,
            num_gpus,
            duration,
            iterations,
            gradient_bytes,
            compute_time,
            vc,
            deadline,
            user,
            range,
            noise,
            chains,
        ) = jobs;
        let mut case = Case { server_gpus, server_vc, vc, network, options, ..Case::default() };
        case.jobs.submit = submit;
        case.jobs.num_gpus = num_gpus;
        case.jobs.duration = duration;
        case.jobs.iterations = iterations;
        case.jobs.gradient_bytes = gradient_bytes;
        case.jobs.compute_time = compute_time;
        case.jobs.range = range.map(|(min, max)| OwnedRange { min, max });
        case.jobs.noise = noise.map(|(scale, batch)| OwnedNoise { scale, batch });
        case.jobs.chains = chains;
        Any { case, deadline, user }
    })
}

#[test]
fn slots_that_cannot_be_counted() {
    let options = Options { clock: ClockKind::Slot, slot: 0.1, ..Options::default() };
    let case = Case { server_gpus: vec![4], options, ..Case::default() };
    let late = case.clone().job(0.0, 1, 5.0).job(7_596_046_784_449_590.0, 1, 5.0);
    match late.engine() {
        Err(Error::Value { row: 1, column: "submit_time", expected, .. }) => assert!(expected.contains("2^53")),
        other => panic!("{other:?}"),
    }
    let mut long = case.job(0.0, 1, 1e16);
    long.options.model = Model::Fixed;
    assert!(matches!(long.engine(), Err(Error::Value { row: 0, column: "duration", .. })));
    long.options.clock = ClockKind::Continuous;
    assert_eq!(long.engine().unwrap().finish, [1e16]);
}

#[test]
fn a_wait_that_slots_cannot_count_never_ends() {
    let options = Options {
        clock: ClockKind::Slot,
        slot: 0.1,
        model: Model::Fixed,
        order: Order::Sjf,
        aging: Some(7_596_046_784_449_590.0),
        ..Options::default()
    };
    let case = Case { server_gpus: vec![1], options, ..Case::default() }.job(0.0, 1, 5.0).job(0.0, 1, 4.0);
    assert_eq!(case.engine().unwrap().finish, [9.0, 4.0]);
}

#[test]
fn a_timeline_of_too_many_points() {
    let options = Options { model: Model::Fixed, sample: Some(1e-300), ..Options::default() };
    let mut case = Case { server_gpus: vec![1], options, ..Case::default() }.job(0.0, 1, 1e7);
    for (step, enough) in [(1e-300, false), (0.5, false), (1e5, true)] {
        case.options.sample = Some(step);
        match case.engine() {
            Ok(outcome) => assert!(enough && outcome.timeline.time.len() == 101),
            Err(error) => assert!(!enough && error.to_string().contains("fewer than 10000000"), "{error}"),
        }
    }
}

#[test]
fn an_interval_far_below_the_slot() {
    let mut case = Case { server_gpus: vec![1], ..Case::default() }.job(0.0, 1, 5.0).job(1.0, 1, 4.0);
    for preemption in ["tiresias", "gittins", "ftf"].map(named) {
        let clock = ClockKind::Slot;
        case.options = Options { clock, model: Model::Fixed, preemption, interval: Some(1e-300), ..Options::default() };
        let finest = case.engine().unwrap();
        case.options.interval = Some(1.0);
        let every = case.engine().unwrap();
        assert_eq!((finest.start, finest.finish), (every.start, every.finish));
    }
}

/// Checks that a refusal is one line.
fn check_error(error: &Error) -> std::result::Result<(), TestCaseError> {
    let text = error.to_string();
    prop_assert!(!text.is_empty() && !text.contains('\n'), "{text}");
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn replays(any in anything()) {
        let owner: Option<Vec<u32>> = any.user.as_ref().map(|users| users.iter().map(|user| user % 3).collect());
        let most = any.case.jobs.submit.len();
        let places = (0..).zip(&any.case.jobs.num_gpus).take(most).map(|(row, &gpus)| (row, row % 3, gpus));
        let recorded = Recorded::new(any.case.jobs.submit.clone(), places).unwrap();
        let extras = Extras {
            recorded: Some(&recorded).filter(|_| any.case.options.is(Is::AsRecorded)),
            deadline: any.deadline.as_deref(),
            user: any.user.as_deref(),
            fair: owner.as_deref().map(|owner| FairShares { owner, share: &[1.0, 0.0, 2.5], users: None }),
            ..Extras::default()
        };
        let Any { case, .. } = &any;
        let (table, vc) = (case.table(), case.vc.as_deref());
        match replay_with(&table, &extras, vc, &case.spec(), &case.options, &mut Patience(2_000)) {
            Err(error) => check_error(&error)?,
            Ok(outcome) => {
                prop_assert_eq!(outcome.start.len(), case.jobs.submit.len());
                for row in (0..outcome.start.len()).filter(|&row| outcome.kept[row]) {
                    let came = outcome.arrival.as_ref().map_or(case.jobs.submit[row], |arrival| arrival[row]);
                    prop_assert!(outcome.start[row] >= came);
                    prop_assert!(outcome.finish[row] >= outcome.start[row]);
                }
            }
        }
    }

    #[test]
    fn plans(
        any in anything(),
        policy in prop::sample::select(Planner::ALL),
        dispatch in prop::sample::select(Dispatch::ALL),
        horizon in prop::option::weighted(0.3, count()),
        u in number(1.0..4.0),
    ) {
        let Case { options, network, .. } = &any.case;
        let wanted = PlanOptions {
            policy, dispatch, horizon, u, model: options.model, oversize: options.oversize, slot: options.slot,
            lambda: options.lambda, sample: options.sample, order: options.order, ..PlanOptions::default()
        };
        let spec = ClusterSpec {
            server_gpus: &any.case.server_gpus, server_vc: any.case.server_vc.as_deref(), server_types: None,
            type_prices: None, network: network.clone(), tiers: &[],
        };
        match plan(&any.case.table(), any.case.vc.as_deref(), &spec, &wanted, &mut Patience(2_000)) {
            Err(error) => check_error(&error)?,
            Ok(plan) => {
                let kept = &plan.schedule.kept;
                prop_assert!((0..kept.len()).all(|row| !kept[row] || plan.schedule.finish[row] >= 0.0));
            }
        }
    }
}
