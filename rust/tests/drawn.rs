//! Cases in which everything meets, drawn and worked out in Python (`tests/cases`): the engine comes to the times of
//! their slow twins, and to the same results once more. The reference agrees where it knows what a case asks for.
//!
//! `RINGBCO_DRAWN` names another file than that of the project, which `python tests/cases/files.py` writes.

use super::cases::Case;
use super::comparison;
use super::logs;
use super::reference;
use proptest::test_runner::TestCaseError;
use ringbco::error::Result;
use ringbco::ids::{GpuType, Server};
use ringbco::options::{ClockKind, Kind as OptionKind, Options, Table as _, Value};
use ringbco::outcome::Outcome;
use ringbco::replay::{Extras, replay_with};
use ringbco::trace::{
    FairShares, Kind, Load, Outage, OwnedJobs, OwnedNoise, OwnedRange, OwnedSideTables, OwnedTrials, OwnedTypes, Quota,
};
use ringbco::{Network, Unwatched};
use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

const OURS: &str = include_str!("drawn.txt");

/// The lines of a case: values by name.
struct Drawn<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Drawn<'a> {
    fn read(text: &'a str) -> Self {
        let line = |line: &'a str| {
            let mut words = line.split(' ');
            (words.next().unwrap(), words.collect())
        };
        Self(text.lines().map(line).collect())
    }

    fn find<T: FromStr<Err: Debug>>(&self, name: &str) -> Option<Vec<T>> {
        Some(self.0.get(name)?.iter().map(|word| word.parse().unwrap()).collect())
    }

    fn column<T: FromStr<Err: Debug>>(&self, name: &str) -> Vec<T> {
        self.find(name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn pair<T: FromStr<Err: Debug>, U: FromStr<Err: Debug>>(&self, name: &str) -> Option<(Vec<T>, Vec<U>)> {
        Some((self.find(&format!("{name}.0"))?, self.column(&format!("{name}.1"))))
    }

    fn types(&self) -> Option<OwnedTypes> {
        let of: Vec<u32> = self.find("types.of")?;
        let kind = |number: usize| {
            let words: Vec<f64> = self.find(&format!("types.{number}"))?;
            let allowed = words[1..].chunks(2).map(|pair| (GpuType::new(pair[0] as u32), pair[1])).collect();
            Some(Kind { recorded_speed: words[0], recorded_on: GpuType::NONE, allowed, order: 0 })
        };
        Some(OwnedTypes { of, kinds: (0..).map_while(kind).collect() })
    }

    fn trials(&self) -> Option<OwnedTrials> {
        let search = self.find("trials.0")?;
        let [end, start, fall] = [1, 2, 3].map(|number| self.column(&format!("trials.{number}")));
        Some(OwnedTrials { search, end, start, fall })
    }

    fn jobs(&self) -> OwnedJobs {
        OwnedJobs {
            submit: self.column("submit"),
            num_gpus: self.column("num_gpus"),
            duration: self.column("duration"),
            iterations: self.column("iterations"),
            gradient_bytes: self.column("gradient_bytes"),
            compute_time: self.column("compute_time"),
            range: self.pair("range").map(|(min, max)| OwnedRange { min, max }),
            noise: self.pair("noise").map(|(scale, batch)| OwnedNoise { scale, batch }),
            types: self.types(),
            shares: self.find("shares"),
            priority: self.find("priority"),
            preemptible: self.find("preemptible"),
            time_limit: self.find("time_limit"),
            checkpoint_interval: self.find("checkpoint_interval"),
            trials: self.trials(),
            ..OwnedJobs::default()
        }
    }

    fn network(&self) -> Network {
        let numbers: Vec<f64> = self.column("network");
        Network {
            intra_bandwidth: numbers[0],
            inter_bandwidth: numbers[1],
            reduce_speed: numbers[2],
            contention_share: numbers[3],
            server_overhead: numbers[4],
            degradation: numbers[5],
        }
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        for (name, words) in &self.0 {
            let Some(name) = name.strip_prefix("option.") else { continue };
            let Some(row) = Options::row(name) else { continue };
            let value = match Options::TABLE[row].kind {
                OptionKind::Flag => Value::Flag(words[0].parse().unwrap()),
                OptionKind::Integer { .. } => Value::Integer(words[0].parse().unwrap()),
                OptionKind::Number(_) => Value::Number(words[0].parse().unwrap()),
                OptionKind::Numbers(_) => Value::Numbers(words.iter().map(|word| word.parse().unwrap()).collect()),
                OptionKind::Policy => ringbco::policies::value(words[0]),
                _ => Value::Text(words[0].to_owned()),
            };
            options.set(row, &value).unwrap();
        }
        options
    }

    fn case(&self) -> Case {
        Case {
            jobs: self.jobs(),
            vc: self.find("vc"),
            server_gpus: self.column("server_gpus"),
            server_vc: self.find("server_vc"),
            network: self.network(),
            options: self.options(),
        }
    }

    fn outages(&self, name: &str) -> Option<Vec<Outage>> {
        let (server, down) = self.pair::<u32, f64>(name)?;
        let up: Vec<f64> = self.column(&format!("{name}.2"));
        let rows = (0..).zip(server).zip(down).zip(up);
        Some(rows.map(|(((row, server), down), up)| Outage { server: Server::new(server), down, up, row }).collect())
    }

    fn loads(&self) -> Option<(Vec<u32>, Vec<Load>)> {
        let (gpus, service) = self.pair::<u32, u32>("services")?;
        let (time, replicas) = (self.column::<f64>("services.2"), self.column::<u32>("services.3"));
        let rows = service.iter().zip(time).zip(replicas);
        Some((gpus, rows.map(|((&service, time), replicas)| Load { service, time, replicas }).collect()))
    }

    fn quotas(&self) -> Option<(Vec<u32>, Vec<Quota>)> {
        let (owner, gpus) = self.pair::<u32, u64>("quotas")?;
        let borrow: Vec<bool> = self.column("quotas.2");
        Some((owner, gpus.iter().zip(borrow).map(|(&gpus, borrow)| Quota { gpus, borrow }).collect()))
    }

    fn engine(&self, case: &Case) -> Result<Outcome> {
        let server_types: Option<Vec<GpuType>> =
            self.find::<u32>("server_types").map(|types| types.into_iter().map(GpuType::new).collect());
        let prices: Option<Vec<f64>> = self.find("type_prices");
        let spec = ringbco::replay::ClusterSpec {
            server_types: server_types.as_deref(),
            type_prices: prices.as_deref(),
            ..case.spec()
        };
        let deadline: Option<Vec<f64>> = self.find("deadline");
        let (user, key): (Option<Vec<u32>>, Option<Vec<f64>>) = (self.find("user"), self.find("key"));
        let fair = self.pair::<u32, f64>("fair");
        let side = OwnedSideTables {
            outages: self.outages("outages"),
            maintenance: self.outages("maintenance"),
            quotas: self.quotas(),
            services: self.loads(),
        };
        let extras = Extras {
            deadline: deadline.as_deref(),
            user: user.as_deref(),
            key: key.as_deref(),
            fair: fair.as_ref().map(|(owner, share)| FairShares { owner, share }),
            log: None,
            side: side.view(),
        };
        replay_with(&case.table(), &extras, case.vc.as_deref(), &spec, &case.options, &mut Unwatched)
    }

    /// Whether something happens that neither a log nor the reference knows of.
    fn goes_by_more(&self) -> bool {
        let beside = ["outages.0", "services.0", "quotas.0", "trials.0", "server_types", "shares", "priority"];
        beside.iter().any(|name| self.0.contains_key(name))
    }
}

fn bits(times: &[f64]) -> Vec<u64> {
    times.iter().map(|time| time.to_bits()).collect()
}

/// The times of the twin; the same bits under the slot clock.
fn compare_times(drawn: &Drawn<'_>, case: &Case, outcome: &Outcome) -> std::result::Result<(), String> {
    let (start, finish): (Vec<f64>, Vec<f64>) = (drawn.column("start"), drawn.column("finish"));
    let first = case.jobs.submit.iter().copied().fold(f64::INFINITY, f64::min);
    let last = outcome.finish.iter().copied().filter(|time| !time.is_nan()).fold(first, f64::max);
    let near = match case.options.clock {
        ClockKind::Slot => 0.0,
        ClockKind::Continuous => 1e-9 * (last - first) + 64.0 * (last.next_up() - last),
    };
    for row in (0..start.len()).filter(|&row| outcome.kept[row]) {
        let pairs = [(outcome.start[row], start[row]), (outcome.finish[row], finish[row])];
        if let Some((mine, twin)) = pairs.iter().find(|(mine, twin)| mine != twin && (mine - twin).abs() > near) {
            return Err(format!("row {row}: {mine} s, and {twin} s of the twin"));
        }
    }
    Ok(())
}

/// The reference's answers; whether there were any.
fn compare_references(drawn: &Drawn<'_>, case: &Case) -> std::result::Result<bool, TestCaseError> {
    let options = &case.options;
    if drawn.goes_by_more() || options.evict || options.search.is_some() || options.enforce_limits {
        return Ok(false);
    }
    match case.reference() {
        Err(error) if reference::is_unknown(&error) => {}
        _ => return comparison::compare(case),
    }
    let mut logged = Case { vc: None, ..case.clone() };
    logged.options.record_decisions = true;
    let simple = case.options.start_cost == 0.0 && case.options.sleep_after == f64::INFINITY;
    let Ok(outcome) = drawn.engine(&logged) else { return Ok(false) };
    if !simple || case.server_vc.is_some() || !outcome.kept.iter().all(|&kept| kept) {
        return Ok(false);
    }
    logs::compare(&logged, &logged.options, &outcome)?;
    Ok(true)
}

#[test]
fn cases_of_python_come_to_the_times_of_their_twins() {
    let given = std::env::var("RINGBCO_DRAWN").map(|file| std::fs::read_to_string(file).unwrap());
    let (mut count, mut known) = (0, 0);
    for text in given.as_deref().unwrap_or(OURS).split("\n\n") {
        let drawn = Drawn::read(text);
        let case = drawn.case();
        let outcome = drawn.engine(&case).unwrap_or_else(|error| panic!("{error:?} of\n{text}"));
        let again = drawn.engine(&case).unwrap();
        assert!(bits(&again.finish) == bits(&outcome.finish) && again.allocations == outcome.allocations, "{text}");
        compare_times(&drawn, &case, &outcome).unwrap_or_else(|said| panic!("{said} of\n{text}"));
        known += usize::from(compare_references(&drawn, &case).unwrap_or_else(|said| panic!("{said} of\n{text}")));
        count += 1;
    }
    assert!(count >= 100 && known >= 3, "{count} cases, of which the reference knows {known}");
}
