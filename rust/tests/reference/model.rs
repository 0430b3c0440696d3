//! Equations 6 to 9 (docs/model.md#contention).
//!
//! Every number is worked out from the arguments alone. For example, two gangs that both hold GPUs of servers 0 and 1
//! have p = 2 each.

use super::Job;
use ringbco::Network;
use ringbco::options::{Options, Sharing};

/// p_j as jobs feel it: nobody slows anybody where sharing is off.
pub(super) fn felt(contention: u32, options: &Options) -> f64 {
    if options.sharing == Sharing::Off { 0.0 } else { f64::from(contention) }
}

/// tau_j, s (equation 8), for a gang on `servers` servers with p_j = `contention`, evaluated left to right.
pub(super) fn iteration_time(job: &Job, network: &Network, servers: usize, contention: f64) -> f64 {
    let w = f64::from(job.num_gpus);
    let x = job.gradient_bytes * (w - 1.0) / w;
    // k_j, equation 7.
    let k = f64::max(1.0, network.contention_share * contention);
    // B_j: f(alpha, k) slows the links between servers only.
    let bandwidth = match servers {
        1 => network.intra_bandwidth,
        _ => network.inter_bandwidth / (k + network.degradation * (k - 1.0)),
    };
    2.0 * x / bandwidth + x / network.reduce_speed + network.server_overhead * servers as f64 + job.compute_time
}

/// What a second on `gpus` GPUs does of the work of a second on all that the job asks for: (w / G) E(w).
pub(super) fn relative_rate(job: &Job, gpus: u32) -> f64 {
    let (w, g, (phi, m)) = (f64::from(gpus), f64::from(job.num_gpus), job.noise);
    let m = f64::from(m);
    let efficiency = if phi == f64::INFINITY { 1.0 } else { (phi + g * m) / (phi + w * m) };
    w / g * efficiency
}

/// p_j of every gang, given the servers it is on (equation 6).
pub(super) fn contention(gangs: &[Vec<usize>]) -> Vec<u32> {
    let spanning_on = |s: usize| gangs.iter().filter(|g| g.len() > 1 && g.contains(&s)).count() as u32;
    gangs
        .iter()
        .map(|gang| if gang.len() > 1 { gang.iter().map(|&s| spanning_on(s)).max().unwrap_or(0) } else { 0 })
        .collect()
}

/// phi_j: whole iterations in a slot, up to a relative rounding error of 1e-12.
pub(super) fn iterations_per_slot(slot: f64, tau: f64) -> u64 {
    (slot / tau * (1.0 + 1e-12)).floor() as u64
}

/// The least number of servers that hold the gang: the largest ones first.
pub(super) fn fewest_servers(num_gpus: u32, sizes: &[u32]) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_by(|a, b| b.cmp(a));
    (1..sizes.len())
        .find(|&k| sizes[..k].iter().map(|&g| u64::from(g)).sum::<u64>() >= u64::from(num_gpus))
        .unwrap_or(sizes.len())
}
