//! What is known of each job: how much is left to do, how much service it has had.

use super::Setting;
use crate::contention::Ring;
use crate::job::Jobs;
use crate::timing::Timing;

/// A job on GPUs. Times are in the clock's unit: seconds, or slots under the slot clock.
#[derive(Clone, Debug, Default)]
pub(super) struct Running {
    pub(super) job: u32,
    /// (server, GPUs), servers ascending.
    pub(super) parts: Vec<(u32, u32)>,
    /// Since when it holds them.
    pub(super) start: f64,
    /// When its progress begins: after the resume cost.
    pub(super) from: f64,
    /// Work left at `since`: iterations, or seconds or slots under `fixed`.
    left: f64,
    since: f64,
    /// Iteration time, s, and whole iterations a slot.
    tau: f64,
    per_slot: u64,
    ring: Ring,
    /// Seconds that one unit of work takes on one server without contention.
    unit: f64,
    /// First of its rows in the allocations.
    pub(super) first_row: usize,
    /// p_j.
    pub(super) contention: u32,
    /// Whether it started at this instant and has no finishing time yet.
    pub(super) fresh: bool,
}

/// The jobs of a run. Work is counted in iterations under `rar`; under `fixed` in seconds, or slots.
pub(super) struct Book<'a> {
    pub(super) jobs: Jobs<'a>,
    pub(super) timing: Timing,
    pub(super) now: f64,
    /// Work left when the job last stopped, or at its submission.
    left: Vec<f64>,
    /// Time on GPUs in earlier stretches.
    served: Vec<f64>,
}

impl<'a> Book<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        let timing = Timing::new(setting.network, setting.options);
        let jobs = setting.jobs;
        let mut book = Self { jobs, timing, now: 0.0, left: Vec::new(), served: vec![0.0; jobs.len()] };
        book.left = (0..jobs.len()).map(|j| book.work(j)).collect();
        book
    }

    /// The whole work of a job.
    fn work(&self, job: usize) -> f64 {
        match (self.timing.rar, self.timing.slot) {
            (true, _) => self.jobs.iterations[job] as f64,
            (false, None) => self.jobs.duration[job],
            (false, Some(slot)) => (self.jobs.duration[job] / slot).ceil(),
        }
    }

    /// Seconds at this instant.
    pub(super) fn seconds(&self) -> f64 {
        self.timing.seconds(self.now)
    }

    /// Remaining run time of a job with `left` work, s: on one server without contention.
    fn run_time(&self, job: usize, left: f64, unit: f64) -> f64 {
        match self.timing.slot {
            Some(slot) if !self.timing.rar => f64::max(0.0, self.jobs.duration[job] - (self.work(job) - left) * slot),
            _ => left * unit,
        }
    }

    fn unit(&self, job: usize) -> f64 {
        if self.timing.rar { Timing::ring(&self.jobs, job).iteration_time(&self.timing.network, 1, 0) } else { 1.0 }
    }

    /// Remaining run time of a job that does not run, s.
    pub(super) fn remaining(&self, job: u32) -> f64 {
        let j = job as usize;
        self.run_time(j, self.left[j], self.unit(j))
    }

    /// Remaining run time of a running job now, s; never rises as time passes.
    pub(super) fn remaining_of(&self, running: &Running) -> f64 {
        self.run_time(running.job as usize, self.left_of(running), running.unit)
    }

    /// Attained service of a job that does not run, GPU-seconds.
    pub(super) fn attained(&self, job: u32) -> f64 {
        let j = job as usize;
        f64::from(self.jobs.num_gpus[j]) * self.timing.seconds(self.served[j])
    }

    /// Attained service of a running job now, GPU-seconds. Holding GPUs is service, progress or not.
    pub(super) fn attained_of(&self, running: &Running) -> f64 {
        let j = running.job as usize;
        f64::from(self.jobs.num_gpus[j]) * self.timing.seconds(self.served[j] + (self.now - running.start))
    }

    /// When a running job's attained service reaches `service` GPU-seconds, give or take rounding.
    pub(super) fn attains_at(&self, running: &Running, service: f64) -> f64 {
        let j = running.job as usize;
        let held = service / f64::from(self.jobs.num_gpus[j]) / self.timing.slot.unwrap_or(1.0);
        running.start + (held - self.served[j])
    }

    /// Run time on the fewest servers without contention, s.
    pub(super) fn ideal(setting: &Setting<'_>, job: usize) -> f64 {
        let (jobs, timing) = (&setting.jobs, Timing::new(setting.network, setting.options));
        if !timing.rar {
            return jobs.duration[job];
        }
        let servers = setting.few.of(jobs.num_gpus[job]).unwrap_or(1);
        jobs.iterations[job] as f64 * Timing::ring(jobs, job).iteration_time(&setting.network, servers, 1)
    }

    /// Work left of a running job now.
    fn left_of(&self, running: &Running) -> f64 {
        if self.now <= running.since {
            return running.left;
        }
        let passed = self.now - running.since;
        let done = match self.timing.slot {
            None => passed / running.tau,
            Some(_) => running.per_slot.saturating_mul(passed as u64) as f64,
        };
        f64::max(0.0, running.left - done)
    }

    /// Gives a job its GPUs' time from now on, with progress after `pause`; the finishing time.
    pub(super) fn begin(&self, running: &mut Running, pause: f64) -> f64 {
        let j = running.job as usize;
        running.start = self.now;
        running.from = self.now + pause;
        running.since = running.from;
        running.left = self.left[j];
        running.unit = self.unit(j);
        running.ring = if self.timing.rar { Timing::ring(&self.jobs, j) } else { Ring::default() };
        running.tau = f64::NAN;
        self.set_rate(running);
        self.finish(running)
    }

    /// The iteration time at a running job's contention; whether it is another one than before.
    fn set_rate(&self, running: &mut Running) -> bool {
        let tau = if self.timing.rar {
            running.ring.iteration_time(&self.timing.network, running.parts.len() as u32, running.contention)
        } else {
            1.0
        };
        if tau == running.tau {
            return false;
        }
        running.tau = tau;
        running.per_slot = match self.timing.slot {
            Some(slot) if self.timing.rar => Timing::per_slot(slot, tau),
            _ => 1,
        };
        true
    }

    /// Re-times a job whose contention changed now; its new finishing time, or `None` where that stands.
    pub(super) fn retime(&self, running: &mut Running) -> Option<f64> {
        let left = self.left_of(running);
        if !self.set_rate(running) {
            return None;
        }
        running.left = left;
        running.since = f64::max(running.since, self.now);
        Some(self.finish(running))
    }

    pub(super) fn finish(&self, running: &Running) -> f64 {
        match (self.timing.slot, running.per_slot) {
            (None, _) => running.since + running.left * running.tau,
            (Some(_), 0) => f64::INFINITY,
            (Some(_), n) => running.since + (running.left as u64).div_ceil(n) as f64,
        }
    }

    /// Takes a job off its GPUs now, done or not. The time that it held them, and how much of that without progress.
    pub(super) fn end(&mut self, running: &Running) -> (f64, f64) {
        let j = running.job as usize;
        self.left[j] = self.left_of(running);
        let held = self.now - running.start;
        self.served[j] += held;
        (held, self.now.min(running.from) - running.start)
    }
}
