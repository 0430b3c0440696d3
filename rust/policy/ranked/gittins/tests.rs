//! Tests the index against its definition, and whole runs against a reference model that ranks all jobs at every
//! pass.

use super::{Gittins, Keys, Ranking, Samples, descending, key};
use crate::cluster::{FewestServers, Network};
use crate::ids::Job;
use crate::machine::{ClusterState, Machine, Stay, Unwatched};
use crate::options::{ClockKind, Options, Placement};
use crate::policy::ranked::Ranked;
use crate::policy::ranked::tiresias::Tiresias;
use crate::record::Ends;
use crate::setting::Setting;
use crate::speed::{FixedSpeed, RingSpeed, Speed};
use crate::trace::OwnedJobs;
use proptest::prelude::*;
use std::cell::Cell;

/// Computes the index straight from the definition.
fn by_definition(samples: &[f64], attained: f64) -> f64 {
    let beyond: Vec<f64> = samples.iter().filter(|&&s| s > attained).map(|s| s - attained).collect();
    let ratio = |delta: f64| {
        let done = beyond.iter().filter(|&&s| s <= delta).count() as f64;
        done / beyond.iter().map(|s| s.min(delta)).sum::<f64>()
    };
    beyond.iter().map(|&delta| ratio(delta)).fold(0.0, f64::max)
}

/// Recomputes everything at every renewal, with the additions in the order of `Samples`: the same bits.
#[derive(Clone, Debug, Default)]
struct SlowSamples {
    value: Vec<f64>,
    sum: Vec<f64>,
    total_time: Vec<f64>,
    corner: Vec<usize>,
}

impl SlowSamples {
    fn add(&mut self, fresh: &mut Vec<f64>) {
        self.value.append(fresh);
        self.value.sort_by(f64::total_cmp);
        let n = self.value.len();
        (self.sum, self.total_time, self.corner) = (vec![0.0], Vec::new(), vec![0; n]);
        let mut sum = 0.0;
        for (k, &s) in self.value.iter().enumerate() {
            sum += s;
            self.sum.push(sum);
            self.total_time.push(sum + (n - 1 - k) as f64 * s);
        }
        for k in (0..n).rev() {
            let mut next = if k + 1 < n { k + 1 } else { k };
            while self.corner[next] != next && next != k {
                let after = self.corner[next];
                let point = |i: usize| (self.total_time[i], i as f64);
                let (a, b, c) = (point(k), point(next), point(after));
                if (b.1 - a.1) * (c.0 - a.0) > (c.1 - a.1) * (b.0 - a.0) {
                    break;
                }
                next = after;
            }
            self.corner[k] = next;
        }
    }

    fn index(&self, attained: f64) -> f64 {
        let n = self.value.len();
        let passed = self.value.partition_point(|&s| s <= attained);
        if passed == n {
            return 0.0;
        }
        let spent = self.sum[passed] + (n - passed) as f64 * attained;
        let slope = |j: usize| (j + 1 - passed) as f64 / (self.total_time[j] - spent);
        let mut at = passed;
        let mut steepest = slope(at);
        loop {
            let next = self.corner[at];
            let to_next = slope(next);
            if next == at || to_next <= steepest {
                return steepest;
            }
            (at, steepest) = (next, to_next);
        }
    }
}

/// Gittins with every job ranked anew at every pass.
#[derive(Clone, Debug)]
struct SlowGittins {
    queues: Tiresias,
    interval: f64,
    samples: SlowSamples,
    fresh: Vec<f64>,
    renew_share: usize,
}

impl Ranking for SlowGittins {
    type Tie = ();

    const KEYS: Keys = Keys::Move;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn before_pass<S: Speed>(&mut self, _state: &ClusterState<'_, S>) -> bool {
        if self.fresh.len() > self.samples.value.len() / self.renew_share {
            self.samples.add(&mut self.fresh);
        }
        false
    }

    fn rank<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64 {
        let attained = stay.map_or_else(|| state.attained(job), |stay| state.attained_of(stay));
        key(self.queues.queue(attained), descending(self.samples.index(attained)))
    }

    fn completed<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.fresh.push(state.attained(job));
    }
}

/// Returns everything that a run reports, and its preemptions.
fn run<S: Speed, R: Ranking>(setting: &Setting<'_>, speed: S, ranking: R) -> (String, u64) {
    let mut machine = Machine::new(setting, speed, Ranked::new(setting, ranking));
    let ended = machine.run(f64::INFINITY, &mut Unwatched).map_err(|error| error.to_string());
    let out = machine.into_outcome();
    let preemptions = out.stay_log.sums.iter().map(|own| u64::from(own.count(Ends::of(&["preempted"])))).sum();
    (format!("{ended:?} {out:?}"), preemptions)
}

/// Compares a run with the reference model's. Returns the preemptions.
fn compare<S: Speed>(setting: &Setting<'_>, speed: S, renew_share: usize) -> u64 {
    let options = setting.options;
    let quick = Gittins { renew_share, ..Gittins::new(options) };
    let (queues, interval) = (Tiresias::new(options), options.interval());
    let slow = SlowGittins { queues, interval, samples: SlowSamples::default(), fresh: Vec::new(), renew_share };
    let ((outcome, preemptions), (expected, _)) = (run(setting, speed.clone(), quick), run(setting, speed, slow));
    assert_eq!(outcome, expected);
    preemptions
}

proptest! {
    #[test]
    fn the_index_is_the_best_quantum(
        batches in prop::collection::vec(prop::collection::vec(0.5f64..1000.0, 0..20), 1..4),
        attained in 0.0f64..1100.0,
    ) {
        let mut samples = Samples::default();
        for batch in &batches {
            samples.add(&mut batch.clone());
        }
        let all: Vec<f64> = batches.concat();
        let truth = by_definition(&all, attained);
        prop_assert!((samples.index(attained) - truth).abs() <= 1e-9 * truth);
    }

    #[test]
    fn the_index_has_the_bits_of_the_slow_one(
        batches in prop::collection::vec(
            (prop::collection::vec(prop_oneof![0.0f64..1000.0, (0u32..9).prop_map(f64::from)], 0..30), any::<bool>()),
            1..9,
        ),
        attained in prop::collection::vec(prop_oneof![0.0f64..1100.0, (0u32..9).prop_map(f64::from)], 1..20),
    ) {
        let (mut samples, mut slow) = (Samples::default(), SlowSamples::default());
        for (batch, asked) in &batches {
            samples.add(&mut batch.clone());
            slow.add(&mut batch.clone());
            for &a in attained.iter().filter(|_| *asked) {
                prop_assert_eq!(samples.index(a).to_bits(), slow.index(a).to_bits());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    /// Also tries services a rounding or two from a sample: there the times to the next samples are hardly more than
    /// rounding.
    #[test]
    fn no_index_of_a_range_is_below_its_least(
        samples in prop::collection::vec((prop_oneof![0.0f64..1e5, (0u32..9).prop_map(f64::from)], 0u64..3), 1..60),
        from in prop_oneof![0.0f64..1.1e5, (0u32..9).prop_map(f64::from)],
        width in prop_oneof![0.5f64..10.0, 10.0f64..1e5],
        within in prop::collection::vec(0.0f64..1.0, 1..20),
    ) {
        let values: Vec<f64> = samples.iter().map(|&(s, ulps)| f64::from_bits(s.to_bits() + ulps)).collect();
        let (mut samples, end) = (Samples::default(), from + width);
        samples.add(&mut values.clone());
        let least = samples.least(from, end);
        let beside = values.iter().flat_map(|s| [-2i64, -1, 0, 1].map(|ulps| f64::from_bits(s.to_bits().saturating_add_signed(ulps))));
        let places = within.iter().map(|share| from + share * width).chain(beside);
        for attained in places.filter(|&a| from <= a && a < end) {
            prop_assert!(least <= samples.index(attained), "{attained}: {} below {least}", samples.index(attained));
        }
    }
}

#[test]
fn runs_are_those_of_the_slow_twin() {
    let (cases, preemptions) = (Cell::new(0u64), Cell::new(0u64));
    let strategy = (
        prop::collection::vec((0u32..3_000, 1u32..13, 1u32..600), 1..90),
        prop::collection::vec(1u32..6_000, 0..4),
        (any::<bool>(), any::<bool>(), any::<bool>()),
        (0..Placement::ALL.len(), prop::sample::select(vec![7.0, 30.0, 60.0, 200.0])),
        (prop::sample::select(vec![0.0, 5.0, 45.0]), prop::sample::select(vec![2usize, 8, 1024])),
    );
    let runs = std::env::var("RINGBCO_CASES").map_or(50, |text| 10 * text.parse::<u32>().unwrap());
    let config = ProptestConfig { cases: runs, ..ProptestConfig::default() };
    let ran = prop::test_runner::TestRunner::new(config).run(&strategy, |(mut rows, mut thresholds, kinds, a, b)| {
        let ((rar, slotted, whole), (placement, interval), (preempt_cost, renew_share)) = (kinds, a, b);
        rows.sort_unstable();
        thresholds.sort_unstable();
        thresholds.dedup();
        let column = |f: &dyn Fn(&(u32, u32, u32)) -> f64| rows.iter().map(f).collect::<Vec<f64>>();
        // Whole run times give equal services, others give all different ones.
        let length =
            |row: &(u32, u32, u32)| if whole { f64::from(row.2 / 60 * 60 + 60) } else { f64::from(row.2) / 7.0 };
        let jobs = OwnedJobs {
            submit: column(&|row| f64::from(row.0)),
            num_gpus: rows.iter().map(|row| row.1).collect(),
            duration: column(&length),
            iterations: rows.iter().map(|row| u64::from(row.2) * 10).collect(),
            gradient_bytes: column(&|row| f64::from(row.2) * 1e6),
            compute_time: column(&|_| 0.05),
            ..OwnedJobs::default()
        };
        let options = Options {
            placement: Placement::ALL[placement],
            clock: if slotted { ClockKind::Slot } else { ClockKind::Continuous },
            slot: 7.0,
            thresholds: thresholds.iter().map(|&t| f64::from(t)).collect(),
            interval: Some(interval),
            preempt_cost,
            record_allocations: true,
            ..Options::default()
        };
        let server_gpus = [4, 4, 8];
        let few = FewestServers::new(&server_gpus);
        let numbers: Vec<u32> = (0..rows.len() as u32).collect();
        let network = Network { inter_bandwidth: 1e9, ..Network::default() };
        let setting = Setting::new(jobs.view(), &numbers, &server_gpus, &few, network.clone(), &options);
        let stopped = if rar {
            compare(&setting, RingSpeed { network }, renew_share)
        } else {
            compare(&setting, FixedSpeed, renew_share)
        };
        cases.set(cases.get() + 1);
        preemptions.set(preemptions.get() + stopped);
        Ok(())
    });
    if let Err(failure) = ran {
        panic!("{failure}");
    }
    // The comparison means something only where jobs are stopped.
    assert!(preemptions.get() > 20 * cases.get(), "{} preemptions in {} runs", preemptions.get(), cases.get());
}
