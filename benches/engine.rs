//! The engine's parts under load: the queue, every placement, the contention update. `cargo bench`.

use ringbco::Network;
use ringbco::Unwatched;
use ringbco::error::Result;
use ringbco::options::{Discipline, Model, Options, Order, Placement, Variant};
use ringbco::replay::{ClusterSpec, replay};
use ringbco::trace::OwnedJobs;
use std::hint::black_box;
use std::time::Instant;

const JOBS: u32 = 20_000;
const SERVERS: usize = 256;
const RUNS: usize = 21;

fn main() -> Result<()> {
    queue_of_all_jobs()?;
    placement()?;
    contention_of_spanning_rings()
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

/// Replays the jobs some times and prints the median time and the least.
fn measure(what: &str, jobs: &OwnedJobs, options: &Options) -> Result<()> {
    let server_gpus = [8; SERVERS];
    let spec = ClusterSpec {
        server_gpus: &server_gpus,
        server_vc: None,
        server_types: None,
        type_prices: None,
        network: Network::default(),
        tiers: &[],
    };
    let mut seconds = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        black_box(replay(&black_box(jobs).view(), None, &spec, options, &mut Unwatched)?);
        seconds.push(start.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    let (least, median) = (seconds[0], seconds[RUNS / 2]);
    let rate = f64::from(JOBS) / median / 1e6;
    println!("{what:32} median {:8.2} ms, least {:8.2} ms, {rate:6.2} million jobs/s", median * 1e3, least * 1e3);
    Ok(())
}

/// Everything is submitted at once, so that the queue holds all jobs: insert, order, remove.
fn queue_of_all_jobs() -> Result<()> {
    let jobs = jobs(0.0, &[1, 1, 1, 1, 2, 4, 8, 16]);
    let (order, placement, model) = (Order::Sjf, Placement::Consolidate, Model::Fixed);
    for &queue in Discipline::ALL {
        let options = Options { order, placement, queue, model, ..Options::default() };
        measure(&format!("queue of all jobs, {queue:?}"), &jobs, &options)?;
    }
    Ok(())
}

/// A busy cluster without a queue to speak of: take and release by each placement.
fn placement() -> Result<()> {
    let jobs = jobs(1.6, &[1, 1, 1, 1, 2, 4, 8]);
    for &placement in Placement::ALL {
        let options = Options { order: Order::Fifo, placement, model: Model::Fixed, ..Options::default() };
        measure(&format!("placement, {placement:?}"), &jobs, &options)?;
    }
    Ok(())
}

/// Every ring spans servers, so that every start and every completion re-times its neighbours.
fn contention_of_spanning_rings() -> Result<()> {
    let (order, placement, variant) = (Order::Fifo, Placement::LeastLoaded, Variant::Literal);
    for num_gpus in [2, 4, 8, 16] {
        let jobs = jobs(f64::from(num_gpus) * 0.9, &[num_gpus]);
        let options = Options { order, placement, variant, ..Options::default() };
        measure(&format!("spanning rings of {num_gpus} GPUs"), &jobs, &options)?;
    }
    Ok(())
}
