//! Implements model `rar`: ring-all-reduce with contention (docs/model.md#contention; equations 6 to 8).
//!
//! Work counts iterations. For example, a job of 1,000 iterations of 0.5 s each runs 500 s. If contention makes tau 1 s
//! when half of them are done, it runs 750 s.

use super::Speed;
use crate::cluster::Network;
use crate::ids::{GpuType, Job};
use crate::trace::{Jobs, MAX_ITERATIONS};

/// Relative tolerance with which iterations per slot are rounded down.
const FLOOR_TOLERANCE: f64 = 1e-12;

/// The cost of one iteration of a job, before its servers are known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    /// x = m_j (w - 1) / w: bytes each GPU sends, and reduces, per half of the all-reduce.
    exchanged: f64,
    /// Delta^f_j M_j + Delta^b_j, s.
    compute: f64,
    /// (w / G) E(w): the share of an iteration recorded on all G GPUs that one iteration here does.
    share: f64,
    /// Its bandwidth in a network of tiers where it spans, bytes/s; 0 where equation 7 gives it.
    bandwidth: f64,
    gpus: u32,
}

impl Ring {
    pub(crate) fn new(gradient_bytes: f64, num_gpus: u32, compute_time: f64) -> Self {
        let workers = f64::from(num_gpus);
        Self {
            exchanged: gradient_bytes * (workers - 1.0) / workers,
            compute: compute_time,
            share: 1.0,
            bandwidth: 0.0,
            gpus: num_gpus,
        }
    }

    /// Returns the ring of a row's job on all the GPUs that it requests.
    #[inline]
    pub(crate) fn of(jobs: &Jobs<'_>, row: usize) -> Self {
        Self::new(jobs.gradient_bytes[row], jobs.num_gpus[row], jobs.compute_time[row])
    }

    /// Returns the ring of a job on other GPUs than it requests, or of another type than the recorded one (`NONE`: the
    /// recorded one).
    ///
    /// Each GPU does its own part of the recorded batch, so fewer of them do less of it. A faster type computes faster.
    #[inline(always)]
    pub(crate) fn on(jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> Self {
        let row = job.index();
        let share = jobs.relative_rate(row, gpus);
        let mut compute = jobs.compute_time[row];
        if jobs.types.is_some() && gpu_type != GpuType::NONE {
            let (speed, recorded) = jobs.speeds_on(job, gpu_type);
            compute /= speed / recorded;
        }
        Self { share, ..Self::new(jobs.gradient_bytes[row], gpus, compute) }
    }

    /// Returns tau_j (eq. 8), s: iteration time on `num_servers` servers with `contention` = p_j spanning jobs (eq. 6).
    #[inline]
    pub(crate) fn iteration_time(&self, network: &Network, num_servers: u32, contention: u32) -> f64 {
        let bandwidth = if num_servers <= 1 {
            network.intra_bandwidth
        } else if self.bandwidth > 0.0 {
            self.bandwidth
        } else if network.is_flat() {
            network.left_to(contention)
        } else {
            network.at_best(self.gpus, num_servers)
        };
        2.0 * self.exchanged / bandwidth
            + self.exchanged / network.reduce_speed
            + network.server_overhead * f64::from(num_servers)
            + self.compute
    }

    /// Returns tau_j, s, on that many servers, which give it that bandwidth, and the bytes that each GPU sends then.
    #[inline]
    pub(crate) fn at(mut self, network: &Network, num_servers: u32, bandwidth: f64) -> (f64, f64) {
        self.bandwidth = bandwidth;
        (self.iteration_time(network, num_servers, 0), 2.0 * self.exchanged)
    }

    /// Returns the iterations per second on that many servers, without contention.
    pub(crate) fn rate(&self, network: &Network, num_servers: u32) -> f64 {
        self.share / self.iteration_time(network, num_servers, 1)
    }

    /// Returns phi_j: whole iterations in a slot (eq. 9), at most as many as any job has.
    pub(crate) fn per_slot(slot: f64, tau: f64) -> f64 {
        ((slot / tau) * (1.0 + FLOOR_TOLERANCE)).floor().min(MAX_ITERATIONS as f64)
    }
}

/// Work counts iterations; a unit takes tau_j.
#[derive(Clone, Debug)]
pub(crate) struct RingSpeed {
    pub(crate) network: Network,
}

impl Speed for RingSpeed {
    const COUPLED: bool = true;
    const COUNTS_ITERATIONS: bool = true;
    type Pace = Ring;

    #[inline]
    fn work(&self, jobs: &Jobs<'_>, job: Job, _slot: Option<f64>) -> f64 {
        jobs.iterations[job.index()] as f64
    }

    #[inline(always)]
    fn pace(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> Ring {
        Ring::on(jobs, job, gpus, gpu_type)
    }

    #[inline]
    fn rate(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType, servers: u32) -> f64 {
        Ring::on(jobs, job, gpus, gpu_type).rate(&self.network, servers)
    }

    #[inline]
    fn unit(&self, ring: &Ring, servers: u32, contention: u32) -> f64 {
        ring.iteration_time(&self.network, servers, contention) / ring.share
    }

    #[inline]
    fn unit_and_traffic(&self, ring: &Ring, servers: u32, contention: u32) -> (f64, f64) {
        let tau = ring.iteration_time(&self.network, servers, contention);
        // Most jobs run on the GPUs that they request.
        (if ring.share == 1.0 { tau } else { tau / ring.share }, 2.0 * ring.exchanged / tau)
    }

    #[inline]
    fn feel(&self, ring: &mut Ring, bandwidth: f64) {
        ring.bandwidth = bandwidth;
    }

    fn ring(&self, ring: &Ring) -> Option<Ring> {
        Some(*ring)
    }

    #[inline]
    fn per_slot(&self, _ring: &Ring, slot: f64, unit: f64) -> f64 {
        Ring::per_slot(slot, unit)
    }

    #[inline]
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, servers: u32, contention: u32) -> f64 {
        jobs.iterations[job.index()] as f64
            * Ring::of(jobs, job.index()).iteration_time(&self.network, servers, contention)
    }

    #[inline]
    fn remaining(&self, _jobs: &Jobs<'_>, _job: Job, left: f64, alone: f64, _slot: Option<f64>) -> f64 {
        left * alone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_time_follows_equation_8() {
        let network = Network {
            intra_bandwidth: 100.0,
            inter_bandwidth: 10.0,
            reduce_speed: 50.0,
            contention_share: 0.5,
            server_overhead: 0.25,
            degradation: 0.5,
            ..Network::default()
        };
        // w = 4, m = 40 bytes: x = 30.
        let ring = Ring::new(40.0, 4, 1.0);
        // One server: 60/100 + 30/50 + 0.25 + 1.
        assert_eq!(ring.iteration_time(&network, 1, 0), 0.6 + 0.6 + 0.25 + 1.0);
        // Two servers, p = 2: k = 1, B = 10: 60/10 + 0.6 + 0.5 + 1.
        assert_eq!(ring.iteration_time(&network, 2, 2), 6.0 + 0.6 + 0.5 + 1.0);
        // p = 4: k = 2, f = 2.5, B = 4: 60/4 + 0.6 + 0.5 + 1.
        assert_eq!(ring.iteration_time(&network, 2, 4), 15.0 + 0.6 + 0.5 + 1.0);
    }
}
