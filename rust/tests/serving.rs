//! Tests random services written in Python (`tests/cases/serving.py`), for which the reference model
//! (`tests/reference/serving.py`) recorded every answer, replica and tick: the engine must agree to the bit.
//!
//! The test does what the machine does beside the engine: it gives replicas their GPUs and takes them away.
//!
//! `RINGBCO_SERVING` names another file than that of the project, which `python tests/cases/serving.py` writes.

use ringbco::serving::{Autoscaler, Batch, Kind, NO_REPLICA, Placed, Requests, Serving, Target, Tokens};
use std::collections::HashMap;
use std::str::FromStr;

const OURS: &str = include_str!("serving.txt");

/// The lines of a case, by name.
struct Drawn<'a>(HashMap<&'a str, Vec<Vec<&'a str>>>);

impl<'a> Drawn<'a> {
    fn read(text: &'a str) -> Self {
        let mut lines: HashMap<_, Vec<Vec<_>>> = HashMap::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            lines.entry(words.next().unwrap()).or_default().push(words.collect());
        }
        Self(lines)
    }

    fn rows(&self, name: &str) -> Vec<Vec<f64>> {
        let lines = self.0.get(name).map_or(&[][..], Vec::as_slice);
        lines.iter().map(|words| words.iter().map(|word| word.parse().unwrap()).collect()).collect()
    }

    fn column<T: FromStr<Err: std::fmt::Debug>>(&self, name: &str) -> Vec<T> {
        self.0[name][0].iter().map(|word| word.parse().unwrap()).collect()
    }

    fn services(&self) -> Vec<Given> {
        self.0["service"].iter().map(|words| Given::read(words)).collect()
    }
}

/// A service, and what it wants.
struct Given {
    startup: f64,
    drain: f64,
    kind: Kind,
    scale: Scale,
}

enum Scale {
    Scheduled,
    Loads(Vec<(f64, u32)>),
    Target(Box<Autoscaler>),
}

fn number<T: FromStr<Err: std::fmt::Debug>>(word: &str) -> T {
    word.parse().unwrap()
}

impl Given {
    fn read(words: &[&str]) -> Self {
        let at = words.iter().position(|&word| ["none", "loads", "target"].contains(&word)).unwrap();
        let (kind, scale) = (&words[3..at], &words[at + 1..]);
        let kind = match words[2] {
            "batch" => Kind::Batch(Batch {
                max_wait: number(kind[0]),
                seconds: kind[1..].chunks(2).map(|pair| (number(pair[0]), number(pair[1]))).collect(),
            }),
            _ => Kind::Tokens(Tokens {
                step: number(kind[0]),
                prefill: number(kind[1]),
                decode: number(kind[2]),
                context: number(kind[3]),
                max_running: number(kind[4]),
                kv_tokens: number(kind[5]),
                max_step_tokens: Some(number(kind[6])).filter(|&limit| limit > 0),
            }),
        };
        let scale = match words[at] {
            "none" => Scale::Scheduled,
            "loads" => Scale::Loads(scale.chunks(2).map(|pair| (number(pair[0]), number(pair[1]))).collect()),
            _ => Scale::Target(Box::new(Autoscaler::new(Target {
                target: number(scale[0]),
                min: number(scale[1]),
                max: number(scale[2]),
                every: number(scale[3]),
                tolerance: number(scale[4]),
                down_after: number(scale[5]),
            }))),
        };
        Self { startup: number(words[0]), drain: number(words[1]), kind, scale }
    }

    fn next(&self, now: f64) -> f64 {
        match &self.scale {
            Scale::Scheduled => f64::INFINITY,
            Scale::Loads(loads) => least(loads.iter().map(|&(time, _)| time), now),
            Scale::Target(scaler) => scaler.next_tick(),
        }
    }
}

/// Returns the least time after `now`, or infinity.
fn least(times: impl IntoIterator<Item = f64>, now: f64) -> f64 {
    times.into_iter().filter(|&time| time > now).fold(f64::INFINITY, f64::min)
}

/// A replica that the test gave GPUs.
#[derive(Clone, Debug)]
struct Held {
    service: usize,
    number: u32,
    start: f64,
    server: u32,
    drains_from: f64,
    /// When it has drained.
    drained: f64,
    end: f64,
    busy: f64,
    /// Its place in the schedule.
    told: usize,
}

/// What the machine does, and a copy of the engine that is told the same from some instant on.
struct World<'a> {
    given: Vec<Given>,
    wanted: Vec<u32>,
    changes: Vec<f64>,
    engine: Serving<'a>,
    copy: Option<Serving<'a>>,
    held: Vec<Held>,
    now: f64,
}

impl World<'_> {
    /// Returns the replicas that hold GPUs.
    fn up(&self) -> Vec<usize> {
        (0..self.held.len()).filter(|&at| self.held[at].end.is_nan()).collect()
    }

    fn end(&mut self, at: usize) {
        let (service, number) = (self.held[at].service, self.held[at].number);
        self.held[at].busy = self.engine.end(service, number);
        if let Some(copy) = &mut self.copy {
            assert_eq!(copy.end(service, number), self.held[at].busy);
        }
        self.held[at].end = self.now;
    }

    fn drain(&mut self, at: usize) {
        let (service, number) = (self.held[at].service, self.held[at].number);
        self.held[at].drains_from = self.now;
        let assigned = self.engine.assigned(service, number);
        let done = self.engine.drain(service, number);
        if let Some(copy) = &mut self.copy {
            assert_eq!((copy.assigned(service, number), copy.drain(service, number)), (assigned, done));
        }
        let drain = self.given[service].drain;
        if drain == 0.0 || assigned == 0 {
            self.end(at);
        } else {
            self.held[at].drained = done.min(self.now + drain);
        }
    }

    fn place(&mut self, service: usize, server: u32, speed: f64, told: usize) {
        let placed = Placed { start: self.now, serves_from: self.now + self.given[service].startup, server, speed };
        let number = self.engine.place(service, placed);
        if let Some(copy) = &mut self.copy {
            copy.place(service, placed);
        }
        let (start, nan) = (self.now, f64::NAN);
        let times = (nan, f64::INFINITY, nan, 0.0);
        let (drains_from, drained, end, busy) = times;
        self.held.push(Held { service, number, start, server, drains_from, drained, end, busy, told });
    }

    fn run_until(&mut self, now: f64) {
        self.now = now;
        self.engine.run_until(now);
        if let Some(copy) = &mut self.copy {
            copy.run_until(now);
        }
    }

    /// Ends the instant. The copy is made in the midst of the first one after an answer.
    fn settle(&mut self) {
        let answered = (0..self.given.len()).any(|at| self.engine.running(at) > 0);
        if self.copy.is_none() && answered {
            self.copy = Some(self.engine.clone());
        }
        self.engine.settle();
        if let Some(copy) = &mut self.copy {
            copy.settle();
            assert_eq!(copy.next_at().to_bits(), self.engine.next_at().to_bits());
            for at in 0..self.given.len() {
                let state = |engine: &Serving<'_>| (engine.unanswered(at), engine.running(at), engine.serving(at));
                assert_eq!(state(copy), state(&self.engine));
            }
        }
    }

    fn tick(&mut self, service: usize) {
        let before = self.wanted[service];
        let wanted = match &mut self.given[service].scale {
            Scale::Scheduled => return,
            Scale::Loads(loads) => loads.iter().find(|&&(time, _)| time == self.now).map(|&(_, wanted)| wanted),
            Scale::Target(scaler) => {
                (scaler.next_tick() == self.now).then(|| scaler.tick(self.engine.unanswered(service)))
            }
        };
        let Some(wanted) = wanted else { return };
        let is_first = !self.changes.chunks(3).any(|change| change[1] == service as f64);
        if wanted != before || is_first {
            self.changes.extend([self.now, service as f64, f64::from(wanted)]);
        }
        self.wanted[service] = wanted;
        while self.staying(service) > wanted as usize {
            let number = self.engine.surplus(service).unwrap();
            let at = self.held.iter().position(|held| held.service == service && held.number == number);
            self.drain(at.unwrap());
        }
    }

    fn staying(&self, service: usize) -> usize {
        self.up().iter().filter(|&&at| self.held[at].service == service && self.held[at].drains_from.is_nan()).count()
    }
}

fn check(text: &str) {
    let drawn = Drawn::read(text);
    let given = drawn.services();
    let [of, input, output, cached] = ["of", "input", "output", "cached"].map(|name| drawn.column::<u32>(name));
    let arrival: Vec<f64> = drawn.column("arrival");
    let kinds: Vec<Kind> = given.iter().map(|given| given.kind.clone()).collect();
    let requests = Requests {
        service: &of,
        arrival: &arrival,
        input_tokens: &input,
        output_tokens: &output,
        cached_tokens: &cached,
    };
    let is_scheduled = given.iter().all(|given| matches!(given.scale, Scale::Scheduled));
    let first = |given: &Given| if let Scale::Target(scaler) = &given.scale { scaler.wanted() } else { 0 };
    let mut world = World {
        wanted: given.iter().map(first).collect(),
        engine: Serving::new(kinds, requests).unwrap(),
        given,
        changes: Vec::new(),
        copy: None,
        held: Vec::new(),
        now: f64::NEG_INFINITY,
    };
    let (schedule, samples) = (drawn.rows("schedule"), drawn.rows("sample"));
    let (speeds, outages): (Vec<f64>, Vec<f64>) = (drawn.column("speeds"), drawn.column("outages"));
    let (jobs_end, end): (f64, f64) = (drawn.column("jobs_end")[0], drawn.column("end")[0]);
    let mut seen = Vec::new();
    loop {
        let now = world.now;
        let mut times = vec![jobs_end];
        times.extend(schedule.iter().flat_map(|told| [told[1], told[4], told[5]]));
        times.extend(outages.chunks(3).flat_map(|outage| [outage[1], outage[2]]));
        times.extend(samples.iter().map(|sample| sample[1]));
        times.extend(world.up().iter().map(|&at| world.held[at].drained));
        times.extend(world.given.iter().map(|given| given.next(now)));
        let next = least(times, now);
        world.run_until(next);
        for at in world.up() {
            if world.held[at].drained == next && next < f64::INFINITY {
                world.end(at);
            }
        }
        if let Some(last) = world.engine.last_answer().filter(|_| !is_scheduled || next == f64::INFINITY)
            && (last.max(jobs_end) <= next || is_scheduled)
        {
            world.now = if is_scheduled { end } else { last.max(jobs_end) };
            break;
        }
        if next == f64::INFINITY {
            world.now = end;
            break;
        }
        for at in world.up() {
            let held = &world.held[at];
            let fails = schedule.get(held.told).is_some_and(|told| told[5] == next);
            let is_down = |o: &[f64]| o[0] == f64::from(held.server) && o[1] <= next && next < o[2];
            if fails || (!is_scheduled && outages.chunks(3).any(is_down)) {
                world.end(at);
            }
        }
        for (place, told) in schedule.iter().enumerate() {
            let drains = |&at: &usize| world.held[at].told == place && told[4] == next;
            if let Some(at) = world.up().into_iter().find(drains) {
                world.drain(at);
            }
        }
        (0..world.given.len()).for_each(|service| world.tick(service));
        for (place, told) in schedule.iter().enumerate() {
            if told[1] == next {
                world.place(told[0] as usize, told[2] as u32, told[3], place);
            }
        }
        for service in 0..world.given.len() {
            while world.staying(service) < world.wanted[service] as usize {
                let is_down = |s: f64| outages.chunks(3).any(|o| o[0] == s && o[1] <= next && next < o[2]);
                let is_held = |s: u32| world.up().iter().any(|&at| world.held[at].server == s);
                let Some(server) = (0..speeds.len() as u32).find(|&s| !is_held(s) && !is_down(f64::from(s))) else {
                    break;
                };
                world.place(service, server, speeds[server as usize], usize::MAX);
            }
        }
        world.settle();
        for sample in samples.iter().filter(|sample| sample[1] == next) {
            let service = sample[0] as usize;
            let (unanswered, running) = (world.engine.unanswered(service), world.engine.running(service));
            let (serving, wanted) = (world.engine.serving(service), world.wanted[service]);
            let counts = [(unanswered - running) as f64, running as f64, serving as f64, f64::from(wanted)];
            seen.push([&sample[..2], &counts].concat());
        }
    }
    for at in world.up() {
        world.end(at);
        // The replicas of a schedule stay.
        world.held[at].end = if is_scheduled { f64::NAN } else { end };
    }
    assert_eq!(world.now, end, "the end of the run");
    // At the end of the run nothing serves and nothing is wanted.
    let during: Vec<_> = samples.iter().filter(|sample| sample[1] < end).cloned().collect();
    seen.retain(|sample| sample[1] <= during.last().map_or(-1.0, |last| last[1]));
    assert_eq!(seen, during, "samples");
    assert_eq!(world.changes, drawn.column::<f64>("wanted"), "wanted");
    let anew: Vec<u64> = (0..world.given.len()).map(|service| world.engine.begun_anew(service)).collect();
    assert_eq!(anew, drawn.column::<u64>("begun_anew"));
    compare_replicas(&world, &drawn.rows("held"));
    compare_answers(world.engine, &drawn, &of, &arrival, &samples);
}

fn compare_replicas(world: &World<'_>, expected: &[Vec<f64>]) {
    assert_eq!(world.held.len(), expected.len(), "replicas");
    for (held, expected) in world.held.iter().zip(expected) {
        let serves = held.start + world.given[held.service].startup;
        let serves = if serves >= held.end { f64::NAN } else { serves };
        let found = [f64::from(held.number), held.start, f64::from(held.server), serves, held.drains_from, held.end];
        let bits = |numbers: &[f64]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
        assert_eq!(held.service as f64, expected[0]);
        assert_eq!(bits(&found), bits(&expected[1..7]), "{found:?}, expected {expected:?}");
        assert!((held.busy - expected[7]).abs() <= 1e-9 * world.now.max(1.0), "busy {}, {}", held.busy, expected[7]);
    }
}

fn compare_answers(engine: Serving<'_>, drawn: &Drawn<'_>, of: &[u32], arrival: &[f64], samples: &[Vec<f64>]) {
    let answers = engine.into_answers();
    let replica: Vec<f64> = drawn.column("replica");
    let columns = ["start", "first_token", "finish"].map(|name| drawn.column::<f64>(name));
    for row in 0..of.len() {
        // Of a request without an answer the reference model says nothing.
        if columns[2][row].is_nan() {
            assert!(answers.finish[row].is_nan(), "row {row}");
            continue;
        }
        assert_eq!(f64::from(answers.replica[row]), replica[row], "replica of row {row}");
        let found = [answers.start[row], answers.first_token[row], answers.finish[row]];
        let expected = [columns[0][row], columns[1][row], columns[2][row]];
        assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits), "row {row}: {found:?}, expected {expected:?}");
    }
    // The counts of a sample follow from the columns.
    for sample in samples {
        let (service, time) = (sample[0] as u32, sample[1]);
        let count = |is: &dyn Fn(usize) -> bool| (0..of.len()).filter(|&row| of[row] == service && is(row)).count();
        let is_done = |row: usize| answers.finish[row] <= time;
        let unanswered = count(&|row| arrival[row] <= time && !is_done(row));
        let cut = answers.cut_short.iter();
        let cut = cut.filter(|&&(row, from, to)| of[row as usize] == service && from <= time && time < to).count();
        let running = count(&|row| answers.start[row] <= time && !is_done(row)) + cut;
        assert_eq!([(unanswered - running) as f64, running as f64], sample[2..4], "sample {sample:?}");
    }
    let waits = |row: &usize| answers.start[*row].is_nan();
    assert!((0..of.len()).filter(waits).all(|row| answers.replica[row] == NO_REPLICA));
}

#[test]
fn serving_agrees_with_the_reference_model() {
    let file = std::env::var_os("RINGBCO_SERVING").map(|path| std::fs::read_to_string(path).unwrap());
    for case in file.as_deref().unwrap_or(OURS).trim_end().split("\n\n") {
        let name = case.lines().next().unwrap();
        if std::panic::catch_unwind(|| check(case)).is_err() {
            panic!("{name}");
        }
    }
}

/// Returns what is wrong with one request: its service, arrival, and input, output and cached tokens.
fn refused(kind: Kind, service: u32, arrival: f64, [input, output, cached]: [u32; 3]) -> String {
    let requests = Requests {
        service: &[service],
        arrival: &[arrival],
        input_tokens: &[input],
        output_tokens: &[output],
        cached_tokens: &[cached],
    };
    Serving::new(vec![kind], requests).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn requests_and_keys_that_could_never_end_are_refused() {
    let keys = Tokens {
        step: 1.0,
        prefill: 0.0,
        decode: 0.0,
        context: 0.0,
        max_running: 1,
        kv_tokens: 10,
        max_step_tokens: None,
    };
    let tokens = Kind::Tokens(keys);
    let fine = [5, 5, 5];
    assert_eq!(refused(tokens.clone(), 1, 0.0, fine), "column service: 1: expected a service");
    assert_eq!(refused(tokens.clone(), 0, f64::NAN, fine), "column arrival: NaN: expected 0 to 2^32 s");
    assert_eq!(refused(tokens.clone(), 0, 0.0, [5, 0, 0]), "column output_tokens: 0: expected at least 1");
    assert_eq!(refused(tokens.clone(), 0, 0.0, [1, 1, 2]), "column cached_tokens: 2: expected at most input_tokens");
    assert!(refused(tokens, 0, 0.0, [6, 5, 0]).starts_with("column input_tokens: 6: expected with output_tokens"));
    let nothing = Kind::Tokens(Tokens { max_running: 0, ..keys });
    assert_eq!(refused(nothing, 0, 0.0, fine), "option max_running: 0: expected at least 1");
    let falling = Kind::Batch(Batch { seconds: vec![(1, 2.0), (4, 1.0)], max_wait: 0.0 });
    assert!(refused(falling, 0, 0.0, fine).starts_with("option seconds: [(1, 2.0), (4, 1.0)]: expected sizes"));
    let (service, arrival) = (&[0, 0][..], &[0.0][..]);
    let batch = Kind::Batch(Batch { seconds: vec![(1, 1.0)], max_wait: 0.0 });
    let short = Serving::new(vec![batch], Requests { service, arrival, ..Requests::default() });
    assert_eq!(short.map(|_| ()).unwrap_err().kind(), "column-length");
}

/// Pollaczek and Khinchine: at load rho a request of a single server waits rho / (2 (1 - rho)) of its time on average.
#[test]
fn one_replica_that_takes_one_request_at_a_time_waits_as_a_queue_of_fixed_times() {
    let (count, rho) = (200_000, 0.7);
    let (mut state, mut now) = (1_u64, 0.0);
    let mut arrival = Vec::new();
    for _ in 0..count {
        // Knuth's MMIX generator: its upper bits are a number in (0, 1).
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        now -= (((state >> 12) as f64 + 0.5) / (1_u64 << 52) as f64).ln() / rho;
        arrival.push(now);
    }
    let (service, one) = (vec![0; count], vec![1; count]);
    let requests =
        Requests { service: &service, arrival: &arrival, input_tokens: &one, output_tokens: &one, cached_tokens: &[] };
    let tokens = Tokens {
        step: 0.75,
        prefill: 0.25,
        decode: 0.0,
        context: 0.0,
        max_running: 1,
        kv_tokens: 2,
        max_step_tokens: None,
    };
    for kind in [Kind::Tokens(tokens), Kind::Batch(Batch { seconds: vec![(1, 1.0)], max_wait: 0.0 })] {
        let mut engine = Serving::new(vec![kind], requests).unwrap();
        engine.run_until(0.0);
        engine.place(0, Placed { start: 0.0, serves_from: 0.0, server: 0, speed: 1.0 });
        engine.run_until(f64::INFINITY);
        assert!(engine.last_answer().unwrap() >= now + 1.0);
        let answers = engine.into_answers();
        let wait =
            answers.start.iter().zip(&arrival).map(|(start, arrival)| start - arrival).sum::<f64>() / count as f64;
        let expected = rho / (2.0 * (1.0 - rho));
        assert!((wait / expected - 1.0).abs() < 0.03, "{wait}, expected {expected}");
    }
}
