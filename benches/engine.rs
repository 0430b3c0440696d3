//! The engine's parts under load: the queue, every placement, the contention update. `cargo bench`.

use ringbco::Network;
use ringbco::Unwatched;
use ringbco::options::{Discipline, Model, Options, Order, Placement, Variant};
use ringbco::outcome::Outcome;
use ringbco::replay::{ClusterSpec, replay};
use ringbco::trace::OwnedJobs;

const JOBS: u32 = 20_000;
const SERVERS: usize = 256;

fn main() {
    divan::main();
}

/// A fixed sequence of numbers that look random.
fn mix(i: u32) -> u32 {
    let mut x = i.wrapping_mul(0x9E37_79B9) ^ 0x85EB_CA6B;
    x = (x ^ (x >> 15)).wrapping_mul(0x2C1B_3C6D);
    x ^ (x >> 13)
}

/// Jobs that arrive `gap` seconds apart and run some 1,000 s, of sizes drawn from `sizes`.
fn jobs(gap: f64, sizes: &[u32]) -> OwnedJobs {
    let mut jobs = OwnedJobs::default();
    for i in 0..JOBS {
        jobs.submit.push((f64::from(i) * gap).floor());
        jobs.num_gpus.push(sizes[mix(i) as usize % sizes.len()]);
        jobs.duration.push(f64::from(1 + mix(i ^ 0x5555) % 2000));
        jobs.iterations.push(u64::from(1 + mix(i ^ 0xAAAA) % 5000));
        jobs.gradient_bytes.push(4e8);
        jobs.compute_time.push(0.3);
    }
    jobs
}

fn run(jobs: &OwnedJobs, options: &Options) -> ringbco::error::Result<Outcome> {
    let server_gpus = [8; SERVERS];
    let spec = ClusterSpec { server_gpus: &server_gpus, server_vc: None, network: Network::default() };
    replay(&jobs.view(), None, &spec, options, &mut Unwatched)
}

/// Everything is submitted at once, so that the queue holds all jobs: insert, order, remove.
#[divan::bench(args = [Discipline::Strict, Discipline::Skip, Discipline::Easy])]
fn queue_of_all_jobs(bencher: divan::Bencher<'_, '_>, queue: Discipline) {
    let jobs = jobs(0.0, &[1, 1, 1, 1, 2, 4, 8, 16]);
    let options = Options {
        order: Order::Sjf,
        placement: Placement::Consolidate,
        queue,
        model: Model::Fixed,
        ..Options::default()
    };
    bencher.counter(divan::counter::ItemsCount::new(JOBS)).bench(|| run(&jobs, &options));
}

/// A busy cluster without a queue to speak of: take and release by each placement.
#[divan::bench(args = Placement::ALL)]
fn placement(bencher: divan::Bencher<'_, '_>, placement: Placement) {
    let jobs = jobs(1.6, &[1, 1, 1, 1, 2, 4, 8]);
    let options = Options { order: Order::Fifo, placement, model: Model::Fixed, ..Options::default() };
    bencher.counter(divan::counter::ItemsCount::new(JOBS)).bench(|| run(&jobs, &options));
}

/// Every ring spans servers, so that every start and every completion re-times its neighbours.
#[divan::bench(args = [2, 4, 8, 16])]
fn contention_of_spanning_rings(bencher: divan::Bencher<'_, '_>, num_gpus: u32) {
    let jobs = jobs(f64::from(num_gpus) * 0.9, &[num_gpus]);
    let options = Options {
        order: Order::Fifo,
        placement: Placement::LeastLoaded,
        variant: Variant::Literal,
        ..Options::default()
    };
    bencher.counter(divan::counter::ItemsCount::new(JOBS)).bench(|| run(&jobs, &options));
}
