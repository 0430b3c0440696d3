//! How near the engine is to the least that a replay costs: `make bench-bare`.
//!
//! A bare loop knows one policy alone: fifo in a strict queue, model fixed, placement consolidate, whole GPUs on equal
//! servers, one virtual cluster, the continuous clock. It writes down start, finish and who held which GPUs, and nothing
//! else: neither a timeline nor contention nor why jobs waited. What it says must be what the engine says, bit for bit.
//!
//! Bare loop, engine and a sort take turns. The table has the least wall time of each over the rounds. The sort is a
//! stable argsort of two random float64 a job, as in docs/performance.md, but by Rust's library, not by numpy.

use ringbco::error::Result;
use ringbco::options::{Model, Options, Order, Placement};
use ringbco::outcome::Outcome;
use ringbco::replay::{ClusterSpec, replay};
use ringbco::trace::OwnedJobs;
use ringbco::{Network, Unwatched};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::time::Instant;

const JOBS: [usize; 2] = [100_000, 1_000_000];
const SERVERS: usize = 256;
/// GPUs of each server.
const SIZE: u32 = 8;
const LOAD: f64 = 0.9;
const ROUNDS: usize = 5;
const RATIOS: [&str; 3] = ["engine / bare", "engine / argsort", "bare / argsort"];

fn main() -> Result<()> {
    println!(
        "{:>9}{:>8}{:>8}{:>9}{:>15}{:>18}{:>16}",
        "jobs", "bare", "engine", "argsort", RATIOS[0], RATIOS[1], RATIOS[2]
    );
    for number in JOBS {
        let jobs = philly_like(number);
        let events = Random(2).floats(2 * number);
        let mut least = [f64::INFINITY; 3];
        for _ in 0..ROUNDS {
            let (bare, bare_time) = timed(|| bare(black_box(&jobs)));
            let (outcome, engine_time) = timed(|| engine(black_box(&jobs)));
            compare(&bare, &outcome?);
            let (_, sort_time) = timed(|| argsort(black_box(&events)));
            for (least, time) in least.iter_mut().zip([bare_time, engine_time, sort_time]) {
                *least = least.min(time);
            }
        }
        let [bare, engine, sort] = least.map(|seconds| seconds * 1e9 / number as f64);
        let (over, in_sorts, bare_in_sorts) = (engine / bare, engine / sort, bare / sort);
        println!("{number:9}{bare:8.1}{engine:8.1}{sort:9.1}{over:15.2}{in_sorts:18.2}{bare_in_sorts:16.2}   ns a job");
    }
    Ok(())
}

/// What a function gives, and how long it takes, s.
fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let result = black_box(work());
    (result, began.elapsed().as_secs_f64())
}

/// What the bare loop knows in the end.
#[derive(Default)]
struct Bare {
    start: Vec<f64>,
    finish: Vec<f64>,
    /// Servers of each job.
    num_servers: Vec<u32>,
    /// (server, GPUs) of each job in turn, in the order in which it took them.
    grants: Vec<(u32, u32)>,
}

/// Jobs start in the order of their submissions, so an arrival is no event: the next job starts when it is there, all
/// before it have started, and its gang finds room. Only ends make room.
fn bare(jobs: &OwnedJobs) -> Bare {
    let number = jobs.submit.len();
    let mut done = Bare {
        start: Vec::with_capacity(number),
        finish: Vec::with_capacity(number),
        num_servers: Vec::with_capacity(number),
        grants: Vec::with_capacity(number + number / 8),
    };
    let mut servers = Servers::new();
    // (end, server, GPUs) as one number. The bits of times that are not negative have the order of the times.
    let mut ends: BinaryHeap<Reverse<u128>> = BinaryHeap::new();
    let mut now = 0.0;
    for job in 0..number {
        if jobs.submit[job] > now {
            now = jobs.submit[job];
            servers.release(&mut ends, now);
        }
        let first = done.grants.len();
        while !servers.place(jobs.num_gpus[job], &mut done.grants) {
            let Some(&Reverse(next)) = ends.peek() else { unreachable!("no gang is larger than the cluster") };
            now = f64::from_bits((next >> 64) as u64);
            servers.release(&mut ends, now);
        }
        let finish = now + jobs.duration[job];
        for &(server, gpus) in &done.grants[first..] {
            ends.push(Reverse(u128::from(finish.to_bits()) << 64 | u128::from(server) << 32 | u128::from(gpus)));
        }
        done.start.push(now);
        done.finish.push(finish);
        done.num_servers.push((done.grants.len() - first) as u32);
    }
    done
}

const WORDS: usize = SERVERS.div_ceil(64);

/// Servers by the number of their idle GPUs.
struct Servers {
    idle: [u32; SERVERS],
    /// The servers with each idle count: a bit each, and how many they are.
    with: [[u64; WORDS]; SIZE as usize + 1],
    count: [u32; SIZE as usize + 1],
    /// A bit for each idle count that some server has.
    counts: u32,
}

impl Servers {
    fn new() -> Self {
        let mut servers =
            Self { idle: [SIZE; SERVERS], with: Default::default(), count: Default::default(), counts: 1 << SIZE };
        (0..SERVERS).for_each(|server| servers.with[SIZE as usize][server / 64] |= 1 << (server % 64));
        servers.count[SIZE as usize] = SERVERS as u32;
        servers
    }

    fn set_idle(&mut self, server: u32, idle: u32) {
        let (word, bit) = (server as usize / 64, 1 << (server % 64));
        let before = std::mem::replace(&mut self.idle[server as usize], idle) as usize;
        self.with[before][word] &= !bit;
        self.count[before] -= 1;
        self.counts &= !(u32::from(self.count[before] == 0) << before);
        self.with[idle as usize][word] |= bit;
        self.count[idle as usize] += 1;
        self.counts |= 1 << idle;
    }

    /// Gives back what ends at `now` or before.
    fn release(&mut self, ends: &mut BinaryHeap<Reverse<u128>>, now: f64) {
        while let Some(&Reverse(end)) = ends.peek()
            && (end >> 64) as u64 <= now.to_bits()
        {
            ends.pop();
            let server = (end >> 32) as u32;
            self.set_idle(server, self.idle[server as usize] + end as u32);
        }
    }

    /// Takes GPUs of the first server with that idle count.
    fn take(&mut self, idle: u32, gpus: u32, grants: &mut Vec<(u32, u32)>) {
        let words = &self.with[idle as usize];
        let word = words.iter().position(|&word| word != 0).unwrap_or(0);
        let server = word as u32 * 64 + words[word].trailing_zeros();
        self.set_idle(server, idle - gpus);
        grants.push((server, gpus));
    }

    /// Consolidate: the tightest server, or wholly idle ones and for the rest the one that has most idle GPUs then.
    fn place(&mut self, gpus: u32, grants: &mut Vec<(u32, u32)>) -> bool {
        if gpus <= SIZE {
            let enough = self.counts >> gpus;
            if enough == 0 {
                return false;
            }
            self.take(gpus + enough.trailing_zeros(), gpus, grants);
            return true;
        }
        let (whole, rest) = (gpus / SIZE, gpus % SIZE);
        let empty = self.count[SIZE as usize];
        let most = if empty > whole { SIZE } else { (self.counts & ((1 << SIZE) - 1)).checked_ilog2().unwrap_or(0) };
        if empty < whole || most < rest {
            return false;
        }
        (0..whole).for_each(|_| self.take(SIZE, SIZE, grants));
        if rest > 0 {
            self.take(most, rest, grants);
        }
        true
    }
}

fn engine(jobs: &OwnedJobs) -> Result<Outcome> {
    let spec = ClusterSpec {
        server_gpus: &[SIZE; SERVERS],
        server_vc: None,
        server_types: None,
        type_prices: None,
        network: Network::default(),
        tiers: &[],
    };
    let (order, placement, model) = (Order::Fifo, Placement::Consolidate, Model::Fixed);
    let options = Options { order, placement, model, ..Options::default() };
    replay(&jobs.view(), None, &spec, &options, &mut Unwatched)
}

/// Stops where the two differ in a bit.
fn compare(bare: &Bare, outcome: &Outcome) {
    let bits = |times: &[f64]| times.iter().map(|time| time.to_bits()).collect::<Vec<_>>();
    assert!(bits(&bare.start) == bits(&outcome.start), "starts differ");
    assert!(bits(&bare.finish) == bits(&outcome.finish), "finishes differ");
    assert!(bare.num_servers == outcome.num_servers, "numbers of servers differ");
    let allocations = &outcome.allocations;
    let mut rows = bare.grants.clone();
    let mut left = rows.as_mut_slice();
    for &servers in &bare.num_servers {
        let (own, others) = left.split_at_mut(servers as usize);
        own.sort_unstable();
        left = others;
    }
    assert!(rows.iter().map(|row| row.0).eq(allocations.server.iter().copied()), "servers differ");
    assert!(rows.iter().map(|row| row.1).eq(allocations.num_gpus.iter().copied()), "GPUs differ");
}

fn argsort(keys: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|&a, &b| keys[a].total_cmp(&keys[b]));
    order
}

/// Sizes of gangs and how many of a thousand jobs have them. As Philly's, and with some that leave a rest.
const GANGS: [(u32, u32); 7] = [(1, 865), (2, 25), (3, 5), (4, 45), (8, 50), (12, 3), (16, 7)];

/// Jobs with Philly's median, mean and longest run time, log-normal, that come as a Poisson process: in whole seconds.
fn philly_like(number: usize) -> OwnedJobs {
    let mut random = Random(1);
    let (median, mean, longest): (f64, f64, f64) = (874.0, 18_006.0, 5_196_151.0);
    let spread = (2.0 * (mean / median).ln()).sqrt();
    let mut jobs = OwnedJobs::default();
    for _ in 0..number {
        let mut draw = (random.next() % 1000) as u32;
        let gang = GANGS.iter().find(|gang| draw.checked_sub(gang.1).map(|rest| draw = rest).is_none());
        jobs.num_gpus.push(gang.map_or(1, |gang| gang.0));
        let normal = (-2.0 * random.float().ln()).sqrt() * (std::f64::consts::TAU * random.float()).cos();
        jobs.duration.push((median * (spread * normal).exp()).round().clamp(1.0, longest));
    }
    let work: f64 = jobs.num_gpus.iter().zip(&jobs.duration).map(|(&gpus, time)| f64::from(gpus) * time).sum();
    let gap = work / number as f64 / (LOAD * f64::from(SIZE) * SERVERS as f64);
    let mut time = 0.0;
    for _ in 0..number {
        jobs.submit.push(f64::floor(time));
        time -= gap * random.float().ln();
    }
    // What models other than fixed read.
    jobs.iterations = vec![1; number];
    (jobs.gradient_bytes, jobs.compute_time) = (vec![0.0; number], vec![0.0; number]);
    jobs
}

/// SplitMix64: the same numbers every time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// In (0, 1].
    fn float(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    fn floats(mut self, number: usize) -> Vec<f64> {
        (0..number).map(|_| self.float()).collect()
    }
}
