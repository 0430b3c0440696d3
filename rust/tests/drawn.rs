//! Tests random cases written in Python (`tests/cases/files.py`), for which the reference model in Python
//! (`tests/reference`) recorded the result: the engine must agree, and again when it follows the log of its own run.
//!
//! `RINGBCO_DRAWN` names another file than that of the project, which `python tests/cases/files.py` writes.

use super::cases::Case;
use ringbco::decisions::{Cause, DecisionLog, NONE, Row, Verb};
use ringbco::error::Error;
use ringbco::ids::{GpuType, Server};
use ringbco::options::{ClockKind, Kind as OptionKind, Options, Table as _, Value};
use ringbco::outcome::Outcome;
use ringbco::policies::named;
use ringbco::record::Ends;
use ringbco::replay::{Extras, replay_with};
use ringbco::trace::{
    FairShares, FairUsers, Form, Kind, Load, Outage, OwnedChains, OwnedForms, OwnedJobs, OwnedNoise, OwnedQuotas,
    OwnedRange, OwnedSideTables, OwnedTrials, OwnedTypes, Quota,
};
use ringbco::{Network, Unwatched};
use std::collections::HashMap;
use std::fmt::Debug;
use std::str::FromStr;

const OURS: &str = include_str!("drawn.txt");

/// The lines of a case: values by name.
struct Drawn<'a>(HashMap<&'a str, Vec<&'a str>>);

impl<'a> Drawn<'a> {
    /// Reads a case. usual: the options of a case that does not name its own.
    fn read(usual: &'a str, text: &'a str) -> Self {
        let line = |line: &'a str| {
            let mut words = line.split(' ');
            (words.next().unwrap(), words.collect())
        };
        Self(usual.lines().chain(text.lines()).map(line).collect())
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
        let submit: Vec<f64> = self.column("submit");
        let zeros = |name: &str| self.find(name).unwrap_or_else(|| vec![0.0; submit.len()]);
        OwnedJobs {
            num_gpus: self.column("num_gpus"),
            duration: self.column("duration"),
            iterations: self.find("iterations").unwrap_or_else(|| vec![0; submit.len()]),
            gradient_bytes: zeros("gradient_bytes"),
            compute_time: zeros("compute_time"),
            forms: self.pair("pods").map(|(of, sizes): (_, Vec<u32>)| OwnedForms {
                of,
                list: sizes.into_iter().map(Form::of_pods).collect(),
            }),
            range: self.pair("range").map(|(min, max)| OwnedRange { min, max }),
            noise: self.pair("noise").map(|(scale, batch)| OwnedNoise { scale, batch }),
            types: self.types(),
            shares: self.find("shares"),
            priority: self.find("priority"),
            preemptible: self.find("preemptible"),
            time_limit: self.find("time_limit"),
            checkpoint_interval: self.find("checkpoint_interval"),
            preempt_cost: self.find("preempt_cost"),
            chains: self.pair("chains").map(|(after, think_time)| OwnedChains { after, think_time }),
            trials: self.trials(),
            submit,
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
            ..Network::default()
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
        let drains = self.find(&format!("{name}.3")).unwrap_or_else(|| vec![false; up.len()]);
        let rows = (0..).zip(server).zip(down).zip(up.into_iter().zip(drains));
        let outage =
            |(((row, server), down), (up, drains))| Outage { server: Server::new(server), down, up, drains, row };
        Some(rows.map(outage).collect())
    }

    fn loads(&self) -> Option<(Vec<u32>, Vec<Load>)> {
        let (gpus, service) = self.pair::<u32, u32>("services")?;
        let (time, replicas) = (self.column::<f64>("services.2"), self.column::<u32>("services.3"));
        let rows = service.iter().zip(time).zip(replicas);
        Some((gpus, rows.map(|((&service, time), replicas)| Load { service, time, replicas }).collect()))
    }

    fn quotas(&self) -> Option<OwnedQuotas> {
        let book = |number: usize| {
            let (owner, gpus) = self.pair::<u32, u64>(&format!("quotas.{number}"))?;
            let borrow: Vec<bool> = self.column(&format!("quotas.{number}.2"));
            Some((owner, gpus.iter().zip(borrow).map(|(&gpus, borrow)| Quota { gpus, borrow }).collect()))
        };
        let books: Vec<_> = (0..).map_while(book).collect();
        (!books.is_empty()).then(|| OwnedQuotas::new(books))
    }

    fn engine(&self, case: &Case, log: Option<&DecisionLog>) -> Result<Outcome, Error> {
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
        let [predicted, estimated] = ["predicted", "estimated"].map(|name| self.find::<f64>(name));
        let fair = self.pair::<u32, f64>("fair.0");
        let users = self.pair::<u32, f64>("fair.1");
        let side = OwnedSideTables {
            outages: self.outages("outages"),
            maintenance: self.outages("maintenance"),
            quotas: self.quotas(),
            services: self.loads(),
            requests: None,
        };
        let extras = Extras {
            deadline: deadline.as_deref(),
            user: user.as_deref(),
            predicted: predicted.as_deref(),
            estimated: estimated.as_deref(),
            key: key.as_deref(),
            fair: fair.as_ref().map(|(owner, share)| FairShares {
                owner,
                share,
                users: users.as_ref().map(|(user, share)| FairUsers { user, share }),
            }),
            log,
            recorded: None,
            side: side.view(),
        };
        replay_with(&case.table(), &extras, case.vc.as_deref(), &spec, &case.options, &mut Unwatched)
    }

    /// Returns the log that the case follows.
    fn log(&self) -> Option<DecisionLog> {
        let time: Vec<f64> = self.find("log.time")?;
        let column = |name: &str, usual: u32| -> Vec<u32> {
            let number = |word: &&str| if *word == "-" { NONE } else { word.parse().unwrap() };
            let words = self.0.get(format!("log.{name}").as_str());
            words.map_or_else(|| vec![usual; time.len()], |words| words.iter().map(number).collect())
        };
        let (verb, cause) = (column("verb", 0), column("cause", 0));
        let [job, server, gpu, by, beside] = ["job", "server", "gpu", "by", "beside"].map(|name| column(name, NONE));
        let [service, replica] = ["service", "replica"].map(|name| column(name, NONE));
        let [num_gpus, pass] = ["num_gpus", "of_pass"].map(|name| column(name, 0));
        let row = |at: usize| Row {
            time: time[at],
            verb: Verb::ALL[verb[at] as usize],
            job: job[at],
            server: server[at],
            num_gpus: num_gpus[at],
            gpu: gpu[at],
            by: by[at],
            beside: beside[at],
            service: service[at],
            replica: replica[at],
            cause: Cause::ALL[cause[at] as usize],
            pass: pass[at],
        };
        let rows: Vec<Row> = (0..time.len()).map(row).collect();
        let through = self.column::<bool>("log.runs_through")[0] && rows.iter().all(|row| row.verb == Verb::Start);
        Some(DecisionLog { rows, runs_through: through })
    }
}

fn bits(times: &[f64]) -> Vec<u64> {
    times.iter().map(|time| time.to_bits()).collect()
}

/// By how much times may differ: not at all under the slot clock. Also for their sums, in single precision.
struct Near {
    times: f64,
    sums: f64,
}

impl Near {
    fn of(case: &Case, outcome: &Outcome) -> Self {
        let first = case.jobs.submit.iter().copied().fold(f64::INFINITY, f64::min);
        let last = outcome.finish.iter().copied().filter(|time| !time.is_nan()).fold(first, f64::max);
        let within = |part: f64| part * (last - first) + 256.0 * (last.next_up() - last);
        let times = if case.options.clock == ClockKind::Slot { 0.0 } else { within(1e-9) };
        Self { times, sums: within(1e-6) }
    }

    /// Returns the first row in which two columns differ, among rows that ran to their end.
    fn compare(name: &str, near: f64, kept: &[bool], mine: &[f64], truth: &[f64]) -> Result<(), String> {
        let same = |a: f64, b: f64| a == b || (a - b).abs() <= near || (a.is_nan() && b.is_nan());
        let differs = |&row: &usize| kept[row] && !same(mine[row], truth[row]);
        match (0..truth.len()).find(differs) {
            Some(row) => Err(format!("{name} of row {row}: {}, and {} of the reference", mine[row], truth[row])),
            None => Ok(()),
        }
    }
}

/// Compares an outcome with the reference model's.
fn compare(drawn: &Drawn<'_>, case: &Case, outcome: &Outcome) -> Result<(), String> {
    let kept: Vec<bool> = drawn.column("kept");
    if kept != outcome.kept {
        return Err(format!("{:?} ran to their end, and {kept:?} of the reference", outcome.kept));
    }
    let near = Near::of(case, outcome);
    let whole = |counts: &[u32]| counts.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let single = |sums: &[f32]| sums.iter().copied().map(f64::from).collect::<Vec<f64>>();
    let failures: Vec<u32> = outcome
        .sums
        .as_ref()
        .map_or_else(|| vec![0; kept.len()], |sums| sums.iter().map(|own| own.count(Ends::of(&["failed"]))).collect());
    let columns = [
        ("start", near.times, outcome.start.clone()),
        ("finish", near.times, outcome.finish.clone()),
        ("max_contention", 0.0, whole(&outcome.max_contention)),
        ("preemptions", 0.0, whole(&outcome.preemptions())),
        ("failures", 0.0, whole(&failures)),
        ("wait_gpus", near.sums, single(&outcome.wait_gpus)),
        ("wait_fragmented", near.sums, single(&outcome.wait_fragmented)),
    ];
    for (name, near, mine) in columns {
        if let Some(truth) = drawn.find::<f64>(name) {
            Near::compare(name, near, &kept, &mine, &truth)?;
        }
    }
    let Some(jobs) = drawn.find::<f64>("stays.0") else { return Ok(()) };
    let rows = &outcome.allocations;
    let all = vec![true; rows.job.len()];
    if rows.job.len() != jobs.len() {
        return Err(format!("{} allocations, and {} of the reference", rows.job.len(), jobs.len()));
    }
    Near::compare("job of allocations", 0.0, &all, &whole(&rows.job), &jobs)?;
    Near::compare("server of allocations", 0.0, &all, &whole(&rows.server), &drawn.column::<f64>("stays.1"))?;
    Near::compare("GPUs of allocations", 0.0, &all, &whole(&rows.num_gpus), &drawn.column::<f64>("stays.2"))?;
    Near::compare("start of allocations", near.times, &all, &rows.start, &drawn.column::<f64>("stays.3"))?;
    Near::compare("end of allocations", near.times, &all, &rows.end, &drawn.column::<f64>("stays.4"))
}

/// Checks that a run that writes its log, and one that follows it, have the same bits.
fn follow(drawn: &Drawn<'_>, case: &Case) -> Result<(), String> {
    let mut logged = case.clone();
    logged.options.record_decisions = true;
    let first = drawn.engine(&logged, None).unwrap();
    logged.options = Options { preemption: named("log"), aging: None, admission: false, ..logged.options };
    let again = drawn.engine(&logged, Some(&first.log)).map_err(|error| format!("{error:?} of {:?}", first.log))?;
    let same = again.log == first.log
        && again.allocations == first.allocations
        && bits(&again.finish) == bits(&first.finish)
        && again.max_contention == first.max_contention
        && (again.stays == first.stays || first.stays.is_none());
    if same { Ok(()) } else { Err(format!("its log leads elsewhere: {:?}", first.log)) }
}

#[test]
fn cases_of_python_come_to_what_their_reference_says() {
    let given = std::env::var("RINGBCO_DRAWN").map(|file| std::fs::read_to_string(file).unwrap());
    let (usual, cases) = given.as_deref().unwrap_or(OURS).split_once("\n\n").unwrap();
    let mut count = 0;
    for text in cases.split("\n\n") {
        let drawn = Drawn::read(usual, text);
        let case = drawn.case();
        let log = drawn.log();
        let outcome = drawn.engine(&case, log.as_ref()).unwrap_or_else(|error| panic!("{error:?} of\n{text}"));
        compare(&drawn, &case, &outcome).unwrap_or_else(|said| panic!("{said} of\n{text}"));
        if log.is_none() {
            follow(&drawn, &case).unwrap_or_else(|said| panic!("{said} of\n{text}"));
        }
        count += 1;
    }
    assert!(count >= 600 || given.is_ok(), "{count} cases");
}
