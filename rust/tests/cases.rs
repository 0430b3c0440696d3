//! Small random replays: clusters, job tables and options in which ties, queues and contention abound.

use super::reference::Replay;
use proptest::prelude::*;
use ringbco::error::Result;
use ringbco::options::{ClockKind, Discipline, Model, Options, Order, Oversize, Placement, Sharing, Ties, Variant};
use ringbco::outcome::Outcome;
use ringbco::replay::ClusterSpec;
use ringbco::trace::{Jobs, OwnedJobs};
use ringbco::{Network, Unwatched};

/// Everything a replay is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) jobs: OwnedJobs,
    pub(crate) vc: Option<Vec<u32>>,
    pub(crate) server_gpus: Vec<u32>,
    pub(crate) server_vc: Option<Vec<u32>>,
    pub(crate) network: Network,
    pub(crate) options: Options,
}

impl Case {
    pub(crate) fn table(&self) -> Jobs<'_> {
        self.jobs.view()
    }

    pub(crate) fn spec(&self) -> ClusterSpec<'_> {
        let server_vc = self.server_vc.as_deref();
        ClusterSpec {
            server_gpus: &self.server_gpus,
            server_vc,
            server_types: None,
            type_prices: None,
            network: self.network,
        }
    }

    pub(crate) fn engine(&self) -> Result<Outcome> {
        ringbco::replay::replay(&self.table(), self.vc.as_deref(), &self.spec(), &self.options, &mut Unwatched)
    }

    pub(crate) fn reference(&self) -> Result<Replay> {
        super::reference::replay(&self.table(), self.vc.as_deref(), &self.spec(), &self.options)
    }

    /// Adds a job of the model `fixed`.
    pub(crate) fn job(mut self, submit: f64, num_gpus: u32, duration: f64) -> Self {
        self.jobs.submit.push(submit);
        self.jobs.num_gpus.push(num_gpus);
        self.jobs.duration.push(duration);
        self.jobs.iterations.push(1);
        self.jobs.gradient_bytes.push(0.0);
        self.jobs.compute_time.push(duration);
        self
    }

    /// Gives the last job what the model `rar` reads.
    pub(crate) fn ring(mut self, iterations: u64, gradient_bytes: f64, compute_time: f64) -> Self {
        let jobs = &mut self.jobs;
        *jobs.iterations.last_mut().unwrap() = iterations;
        *jobs.gradient_bytes.last_mut().unwrap() = gradient_bytes;
        *jobs.compute_time.last_mut().unwrap() = compute_time;
        self
    }
}

/// The options that are walked through rather than drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Combination {
    pub(crate) order: Order,
    pub(crate) queue: Discipline,
    pub(crate) placement: Placement,
    pub(crate) variant: Variant,
    pub(crate) model: Model,
    pub(crate) clock: ClockKind,
}

/// Every combination of one model and one clock.
pub(crate) fn combinations(model: Model, clock: ClockKind) -> Vec<Combination> {
    let mut all = Vec::new();
    // QSSF is compared with the Python oracle; a column, with the orders that it can stand for.
    for order in [Order::Fifo, Order::Sjf, Order::Smallest] {
        for &queue in Discipline::ALL {
            for &placement in Placement::ALL {
                for &variant in Variant::ALL {
                    all.push(Combination { order, queue, placement, variant, model, clock });
                }
            }
        }
    }
    all
}

/// One job, with times in units that the case chooses.
#[derive(Clone, Debug)]
struct Draft {
    submit: f64,
    num_gpus: u32,
    duration: f64,
    iterations: u64,
    /// Time that the gradient takes between servers, once.
    gradient: f64,
    compute: f64,
    vc: u32,
}

/// Multiples of a quarter, so that instants coincide, or anything.
fn time(most: u32) -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (0..=most).prop_map(f64::from),
        2 => (0..=4 * most).prop_map(|quarters| f64::from(quarters) / 4.0),
        1 => 0.0..f64::from(most),
    ]
}

prop_compose! {
    fn draft()(
        submit in time(10),
        num_gpus in prop_oneof![5 => 1..=4u32, 3 => 5..=10u32, 1 => 11..=30u32],
        duration in prop_oneof![9 => time(9).prop_map(|t| t + 0.25), 1 => prop::sample::select(vec![1e-9, 1e-18])],
        iterations in prop_oneof![Just(1u64), 1..=8u64, 1..=40u64],
        gradient in prop_oneof![2 => Just(0.0), 3 => (1..=5u32).prop_map(|g| f64::from(g) / 32.0), 1 => 0.0..0.3],
        compute in prop_oneof![
            1 => Just(0.0),
            60 => (1..=8u32).prop_map(|c| f64::from(c) / 16.0),
            20 => 0.01..0.6,
            // A whole number of iterations to a slot, but for rounding.
            20 => (2..=20u32).prop_map(|k| 1.0 / f64::from(k)),
        ],
        vc in any::<u32>(),
    ) -> Draft {
        Draft { submit, num_gpus, duration, iterations, gradient, compute, vc }
    }
}

prop_compose! {
    fn network()(
        slow in prop_oneof![3 => Just(1.0), 1 => Just(0.1)],
        contention_share in prop_oneof![2 => Just(0.5), 1 => Just(1.0), 1 => 0.05..1.0],
        server_overhead in prop_oneof![3 => Just(5e-4), 2 => Just(0.0), 1 => 0.0..0.05],
        degradation in prop_oneof![2 => Just(0.3), 1 => Just(0.0), 1 => 0.0..2.0],
    ) -> Network {
        let inter_bandwidth = 12.5e9 * slow;
        Network { inter_bandwidth, contention_share, server_overhead, degradation, ..Network::default() }
    }
}

/// Servers, and their virtual clusters if there are some.
fn servers() -> impl Strategy<Value = (Vec<u32>, Option<Vec<u32>>)> {
    let sizes = prop_oneof![
        3 => prop::collection::vec(prop::sample::select(vec![1u32, 2, 3, 4, 4, 8]), 1..=6),
        1 => (1..=5usize, 1..=4u32).prop_map(|(count, gpus)| vec![gpus; count]),
    ];
    let vcs = prop_oneof![3 => Just(0u32), 1 => 1..=3u32];
    (sizes, vcs).prop_flat_map(|(sizes, vcs)| {
        let vcs = vcs.min(sizes.len() as u32);
        let of: Vec<u32> = (0..sizes.len() as u32).map(|s| s % vcs.max(1)).collect();
        (Just(sizes), Just(of).prop_shuffle()).prop_map(move |(sizes, of)| (sizes, (vcs > 0).then_some(of)))
    })
}

prop_compose! {
    fn numbers(combination: Combination)(
        slot in prop_oneof![3 => Just(1.0), 1 => Just(0.1), 1 => Just(0.7), 1 => 0.01..3.0],
        kappa in 0..=6u32,
        lambda in prop_oneof![2 => Just(1.0), 1 => Just(2.0), 1 => 1.0..5.0],
        seed in any::<u64>(),
        oversize in prop::sample::select(Oversize::ALL),
        sample in prop_oneof![1 => Just(None), 20 => (0.2..4.0).prop_map(Some)],
        record_allocations in prop::bool::weighted(0.95),
    ) -> Options {
        let Combination { order, queue, placement, variant, model, clock } = combination;
        Options {
            ties: Ties::Rows,
            order, placement, queue, model, clock, slot, kappa, lambda, variant, seed, oversize, sample,
            record_allocations,
            // Every now and then nobody slows anybody; a draw of its own would move all others.
            sharing: if seed % 7 == 0 { Sharing::Off } else { Sharing::Count },
            ..Options::default()
        }
    }
}

/// Replays under one combination of options.
pub(crate) fn cases(combination: Combination) -> impl Strategy<Value = Case> {
    let drafts = prop_oneof![
        2 => prop::collection::vec(draft(), 0..=3),
        18 => prop::collection::vec(draft(), 4..=14),
        1 => prop::collection::vec(draft(), 15..=60),
    ];
    // A submission far from zero: durations then vanish beside it.
    let epoch = match combination.clock {
        ClockKind::Continuous => prop_oneof![9 => Just(0.0), 1 => Just(1e9)].boxed(),
        ClockKind::Slot => prop_oneof![3 => Just(0.0), 1 => 0.0..30.0].boxed(),
    };
    let in_slots = any::<bool>();
    (servers(), drafts, network(), numbers(combination), epoch, in_slots).prop_map(
        |((server_gpus, server_vc), drafts, network, options, epoch, in_slots)| {
            build(server_gpus, server_vc, &drafts, network, options, epoch, in_slots)
        },
    )
}

fn build(
    server_gpus: Vec<u32>,
    server_vc: Option<Vec<u32>>,
    drafts: &[Draft],
    network: Network,
    options: Options,
    epoch: f64,
    in_slots: bool,
) -> Case {
    let vcs = server_vc.as_ref().map_or(1, |of| of.iter().max().unwrap() + 1);
    let slotted = options.clock == ClockKind::Slot;
    // Submissions at boundaries, or nearly.
    let unit = if slotted && in_slots { options.slot } else { 1.0 };
    // An iteration fits in a slot, as a rule.
    let pace = if slotted { options.slot } else { 1.0 };
    let mut case = Case { server_gpus, server_vc, network, options, ..Case::default() };
    let inter_bandwidth = network.inter_bandwidth;
    let mut vc = Vec::new();
    for draft in drafts {
        let own = draft.vc % vcs;
        vc.push(own);
        let inside = |s: usize| case.server_vc.as_ref().is_none_or(|of| of[s] == own);
        let gpus: u32 = (0..case.server_gpus.len()).filter(|&s| inside(s)).map(|s| case.server_gpus[s]).sum();
        let num_gpus = match case.options.oversize {
            Oversize::Error => (draft.num_gpus - 1) % gpus + 1,
            Oversize::Drop => draft.num_gpus,
        };
        case = case.job(epoch + draft.submit * unit, num_gpus, draft.duration).ring(
            draft.iterations,
            draft.gradient * inter_bandwidth * pace,
            draft.compute * pace,
        );
    }
    case.vc = case.server_vc.is_some().then_some(vc);
    case
}

/// Cases of each combination; 504 combinations, 10 each, make 5,040.
pub(crate) fn cases_each() -> u32 {
    std::env::var("RINGBCO_CASES").map_or(10, |text| text.parse().expect("RINGBCO_CASES"))
}

/// A case of any combination.
pub(crate) fn any_case() -> impl Strategy<Value = Case> {
    let all: Vec<Combination> = [Model::Rar, Model::Fixed]
        .iter()
        .flat_map(|&model| ClockKind::ALL.iter().flat_map(move |&clock| combinations(model, clock)))
        .collect();
    prop::sample::select(all).prop_flat_map(cases)
}
