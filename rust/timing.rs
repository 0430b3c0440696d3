//! Clocks and progress: when a running job finishes (SPEC section 4).

use crate::cluster::Network;
use crate::contention::Ring;
use crate::job::Jobs;
use crate::options::{ClockKind, Model, Options};

/// Relative tolerance with which iterations per slot are rounded down.
const FLOOR_TOLERANCE: f64 = 1e-12;

/// 2^53: from here on float64 tells a slot no longer from the next.
pub(crate) const MOST_SLOTS: f64 = 9_007_199_254_740_992.0;

/// Model and clock of a run. Time is in seconds under the continuous clock, in whole slots under the slot clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) network: Network,
    pub(crate) rar: bool,
    /// Slot length, s, under the slot clock.
    pub(crate) slot: Option<f64>,
    /// By how much EASY's estimates are multiplied.
    estimate_factor: f64,
}

/// How far a running job is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    ring: Ring,
    /// Iterations left at `since` under the continuous clock.
    remaining: f64,
    /// Iterations left at `since` under the slot clock.
    whole: u64,
    since: f64,
    tau: f64,
    per_slot: u64,
}

impl Timing {
    pub(crate) fn new(network: Network, options: &Options) -> Self {
        Self {
            network,
            rar: options.model == Model::Rar,
            slot: (options.clock == ClockKind::Slot).then_some(options.slot),
            estimate_factor: options.estimate_factor,
        }
    }

    /// Seconds of a time.
    #[inline]
    pub(crate) fn seconds(&self, time: f64) -> f64 {
        self.slot.map_or(time, |slot| time * slot)
    }

    /// The first instant at which a submission can be seen: the first boundary not before it under the slot clock.
    #[inline]
    pub(crate) fn arrival(&self, submit: f64) -> f64 {
        let Some(slot) = self.slot else { return submit };
        let mut n = (submit / slot).ceil();
        if n >= MOST_SLOTS {
            return n;
        }
        while n * slot < submit {
            n += 1.0;
        }
        while n >= 1.0 && (n - 1.0) * slot >= submit {
            n -= 1.0;
        }
        n
    }

    /// The boundary after this one; never under the continuous clock.
    pub(crate) fn next_boundary(&self, now: f64) -> f64 {
        self.slot.map_or(f64::INFINITY, |_| f64::max(now + 1.0, now.next_up()))
    }

    /// What one iteration of a job costs.
    #[inline]
    pub(crate) fn ring(jobs: &Jobs<'_>, job: usize) -> Ring {
        Ring::new(jobs.gradient_bytes[job], jobs.num_gpus[job], jobs.compute_time[job])
    }

    /// rho_j, s: run time on one server without contention; the recorded duration under `fixed`.
    #[inline]
    pub(crate) fn estimate(&self, jobs: &Jobs<'_>, job: usize) -> f64 {
        if self.rar {
            jobs.iterations[job] as f64 * Self::ring(jobs, job).iteration_time(&self.network, 1, 0)
        } else {
            jobs.duration[job]
        }
    }

    /// The run time that EASY backfilling reckons with, s.
    #[inline]
    pub(crate) fn backfill_estimate(&self, jobs: &Jobs<'_>, job: usize) -> f64 {
        self.estimate_factor * self.estimate(jobs, job)
    }

    /// Whole iterations in a slot (eq. 9).
    pub(crate) fn per_slot(slot: f64, tau: f64) -> u64 {
        ((slot / tau) * (1.0 + FLOOR_TOLERANCE)).floor() as u64
    }

    /// Starts a job at `now`; its finishing time.
    #[inline]
    pub(crate) fn start(
        &self,
        jobs: &Jobs<'_>,
        job: usize,
        now: f64,
        num_servers: u32,
        contention: u32,
    ) -> (Progress, f64) {
        let mut progress = Progress { since: now, ..Progress::default() };
        if !self.rar {
            let length = match self.slot {
                None => jobs.duration[job],
                Some(slot) => (jobs.duration[job] / slot).ceil(),
            };
            return (progress, now + length);
        }
        progress.ring = Self::ring(jobs, job);
        progress.tau = progress.ring.iteration_time(&self.network, num_servers, contention);
        match self.slot {
            None => progress.remaining = jobs.iterations[job] as f64,
            Some(slot) => {
                progress.whole = jobs.iterations[job];
                progress.per_slot = Self::per_slot(slot, progress.tau);
            }
        }
        (progress, self.finish(&progress))
    }

    /// Re-times a job whose contention changed at `now`; its new finishing time, or `None` where that stands.
    #[inline]
    pub(crate) fn retime(&self, progress: &mut Progress, now: f64, num_servers: u32, contention: u32) -> Option<f64> {
        if !self.rar {
            return None;
        }
        let tau = progress.ring.iteration_time(&self.network, num_servers, contention);
        if tau == progress.tau {
            return None;
        }
        let passed = now - progress.since;
        match self.slot {
            None => progress.remaining = f64::max(0.0, progress.remaining - passed / progress.tau),
            Some(slot) => {
                progress.whole = progress.whole.saturating_sub(progress.per_slot.saturating_mul(passed as u64));
                progress.per_slot = Self::per_slot(slot, tau);
            }
        }
        progress.since = now;
        progress.tau = tau;
        Some(self.finish(progress))
    }

    #[inline]
    fn finish(&self, progress: &Progress) -> f64 {
        match (self.slot, progress.per_slot) {
            (None, _) => progress.since + progress.remaining * progress.tau,
            (Some(_), 0) => f64::INFINITY,
            (Some(_), n) => progress.since + progress.whole.div_ceil(n) as f64,
        }
    }
}
