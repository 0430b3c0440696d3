//! Tests that a run that is paused and cloned ends like one that was never stopped.

use super::{Chooses, Machine, Pause, Policy, Unwatched};
use crate::cluster::{FewestServers, Network};
use crate::ids::Job;
use crate::options::{ClockKind, Discipline, Model, Options, Placement};
use crate::outcome::ClusterOutcome;
use crate::policies::PRESETS;
use crate::policy::{Visitor, with_policy};
use crate::setting::Setting;
use crate::speed::{FixedSpeed, RingSpeed, Speed};
use crate::trace::{OwnedJobs, Recorded};
use proptest::prelude::*;

/// Runs to the end, with a clone at each of the given times; all must have the same result.
struct Forked<'t>(&'t [f64]);

impl<'a, S: Speed> Visitor<'a, S> for Forked<'_> {
    type Output = ();

    fn visit<P: Policy<S> + 'a>(self, setting: &Setting<'a>, speed: S, policy: P) {
        let end = |mut machine: Machine<'a, P, S>| -> Result<ClusterOutcome, String> {
            let paused = machine.run(f64::INFINITY, &mut Unwatched).map_err(|error| error.to_string())?;
            assert_eq!(paused, Pause::Done);
            Ok(machine.into_outcome())
        };
        let whole = Machine::new(setting, speed, policy);
        let expected = format!("{:?}", end(whole.clone()));
        let mut cut = whole;
        let servers: Vec<u32> = (0..setting.server_gpus.len() as u32).collect();
        for &time in self.0 {
            match cut.run(time, &mut Unwatched) {
                Ok(Pause::Until) => {
                    assert_eq!(format!("{:?}", end(cut.clone())), expected);
                    // Asking about waiting jobs changes nothing; each has its own place in the queue.
                    let mut waiting: Vec<Job> = cut.waiting().collect();
                    let ahead = |job: &Job| cut.ask(*job, &servers, None);
                    let mut places: Vec<usize> =
                        waiting.iter().map(ahead).filter(|a| a.by == "line").map(|a| a.ahead).collect();
                    places.sort_unstable();
                    assert!(places.is_empty() || places.iter().copied().eq(0..waiting.len()), "{places:?}");
                    if let Chooses::FromQueue(mut line) = cut.policy.chooses(&cut.state) {
                        line.sort_unstable();
                        waiting.sort_unstable();
                        assert_eq!(line, waiting);
                    }
                }
                Ok(Pause::Done | Pause::Asks | Pause::Halted) | Err(_) => return,
            }
        }
        assert_eq!(format!("{:?}", end(cut)), expected);
    }
}

proptest! {
    #[test]
    fn a_fork_goes_on_to_the_same_end(
        rows in prop::collection::vec((0u32..400, 1u32..9, 1u32..200), 1..25),
        times in prop::collection::vec(0u32..900, 0..6),
        preset in 0..PRESETS.len(), queue in 0..Discipline::ALL.len(), random in any::<bool>(),
        rar in any::<bool>(), slotted in any::<bool>(), ages in any::<bool>(),
    ) {
        let mut rows = rows;
        rows.sort_unstable();
        let column = |f: &dyn Fn(&(u32, u32, u32)) -> f64| rows.iter().map(f).collect::<Vec<f64>>();
        let jobs = OwnedJobs {
            submit: column(&|row| f64::from(row.0)),
            num_gpus: rows.iter().map(|row| row.1).collect(),
            duration: column(&|row| f64::from(row.2)),
            iterations: rows.iter().map(|row| u64::from(row.2) * 10).collect(),
            gradient_bytes: column(&|row| f64::from(row.2) * 1e7),
            compute_time: column(&|_| 0.05),
            ..OwnedJobs::default()
        };
        let preset = &PRESETS[preset];
        let options = Options {
            preemption: preset.preemption,
            order: preset.order,
            placement: if random { Placement::Random } else { preset.placement },
            queue: Discipline::ALL[queue],
            model: if rar { Model::Rar } else { Model::Fixed },
            clock: if slotted { ClockKind::Slot } else { ClockKind::Continuous },
            slot: 7.0,
            aging: ages.then_some(60.0),
            thresholds: vec![300.0],
            sleep_after: if ages { 25.0 } else { f64::INFINITY },
            wake_time: 11.0,
            ..Options::default()
        };
        let server_gpus = [4, 4];
        let few = FewestServers::new(&server_gpus);
        let numbers: Vec<u32> = (0..rows.len() as u32).collect();
        let deadline: Vec<f64> = column(&|row| f64::from(row.0 + 3 * row.2));
        let network = Network { inter_bandwidth: 1e9, ..Network::default() };
        let places = (0..rows.len() as u32).step_by(2).map(|row| (row, row % 2, rows[row as usize].1));
        let recorded = Recorded::new(column(&|row| f64::from(row.0 + row.2)), places).unwrap();
        let setting = Setting {
            deadline: Some(&deadline),
            recorded: Some(&recorded),
            ..Setting::new(jobs.view(), &numbers, &server_gpus, &few, network.clone(), &options)
        };
        let mut times: Vec<f64> = times.into_iter().map(f64::from).collect();
        times.sort_unstable_by(f64::total_cmp);
        match options.model {
            Model::Rar => with_policy(&setting, RingSpeed { network }, Forked(&times)),
            Model::Fixed => with_policy(&setting, FixedSpeed, Forked(&times)),
            Model::Table => unreachable!("no case has tables"),
        }
    }
}

/// Model `table`: measured speeds.
mod measured {
    use crate::Unwatched;
    use crate::cluster::{FewestServers, Network};
    use crate::ids::GpuType;
    use crate::options::{ClockKind, Model, Options, Order, Placement};
    use crate::policy;
    use crate::setting::Setting;
    use crate::trace::{Kind, OwnedJobs, OwnedRates, OwnedTypes, RateTable};
    use std::sync::Arc;

    /// Returns (start, finish) of jobs of 300 iterations on 1 GPU of type 0, 2.5 per second, or of type 1, 4 per
    /// second.
    fn times(options: Options, jobs: usize) -> Vec<(f64, f64)> {
        let rows = [(0, 0, 1, 1, 2.5), (0, 1, 1, 1, 4.0)];
        let table = RateTable::new(1, 2, &rows).unwrap();
        let types = [1, 0].map(GpuType::new);
        let kind = Kind {
            recorded_speed: 1.0,
            recorded_on: types[1],
            allowed: types.iter().map(|&of| (of, 1.0)).collect(),
            order: 0,
        };
        let table = OwnedJobs {
            submit: vec![0.0; jobs],
            num_gpus: vec![1; jobs],
            duration: vec![1.0; jobs],
            iterations: vec![300; jobs],
            types: Some(OwnedTypes { of: vec![0; jobs], kinds: vec![kind] }),
            rates: Some(OwnedRates { model_of: vec![0; jobs], table: Arc::new(table) }),
            ..OwnedJobs::default()
        };
        let (servers, of) = ([1, 1], [0, 1].map(GpuType::new));
        let options =
            Options { model: Model::Table, order: Order::Fifo, placement: Placement::FirstFit, slot: 60.0, ..options };
        let (rows, few): (Vec<u32>, _) = ((0..jobs as u32).collect(), FewestServers::new(&servers));
        let setting = Setting {
            server_types: Some(&of),
            ..Setting::new(table.view(), &rows, &servers, &few, Network::default(), &options)
        };
        let out = policy::run(&setting, &mut Unwatched).unwrap();
        out.start.into_iter().zip(out.finish).collect()
    }

    #[test]
    fn the_measured_rate_of_the_type_counts() {
        // The first job tries type 1 first: 300 / 4 s. The second gets type 0: 300 / 2.5 s. The third waits for type 1.
        assert_eq!(times(Options::default(), 3), [(0.0, 75.0), (0.0, 120.0), (75.0, 150.0)]);
    }

    #[test]
    fn the_slot_in_which_a_pause_ends_yields_what_fits_in_its_rest() {
        let slots = Options { clock: ClockKind::Slot, ..Options::default() };
        // 240 iterations per slot on type 1, 150 on type 0.
        assert_eq!(times(slots.clone(), 2), [(0.0, 120.0), (0.0, 120.0)]);
        // After 30 s without progress, 120 and 75 in the first slot.
        let late = Options { start_cost: 30.0, ..slots };
        assert_eq!(times(late.clone(), 2), [(0.0, 120.0), (0.0, 180.0)]);
        // A pause of 90 s takes the first slot and half of the second.
        assert_eq!(times(Options { start_cost: 90.0, ..late }, 2), [(0.0, 180.0), (0.0, 240.0)]);
    }
}
