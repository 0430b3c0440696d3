//! Estimates how long jobs still take, known or predicted, and keeps the waiting jobs in that order.

use super::class_queues::{Class, ClassQueues, Rank};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::setting::Setting;
use crate::speed::Speed;

/// What the policy knows about run times, and the waiting jobs.
pub(in crate::policy) trait Foresight: Clone + Send {
    /// Whether the run time left of a running job falls by at most a second each second. If not, it is constant until
    /// the job is among the `changed` ones.
    const FALLS: bool;

    fn arrived<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job);

    fn completed(&mut self, _job: Job) {}

    /// Records that the job runs from now on.
    fn started<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _stay: &Stay<S::Pace>) {}

    /// Records that the job no longer runs.
    fn stopped(&mut self, _job: Job) {}

    /// Begins a pass. Adds the running jobs whose run time left has changed since the last pass by other than elapsed
    /// time, or returns that it may be all.
    fn begin<S: Speed>(&mut self, state: &ClusterState<'_, S>, changed: &mut Vec<Job>) -> bool;

    /// Returns the time to which a waiting job's wait is compared, s: its run time on the fewest servers without
    /// contention, or, if that is not known, as much of it as is done.
    fn reference_time<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64;

    /// Returns the same of a running job now.
    fn reference_time_of<S: Speed>(&self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64;

    /// Returns the run time left of a running job now, s, without the rest of its pause.
    fn left_of<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64;

    /// Returns the GPUs that count in the key of a job that asks for so many units.
    fn weight(&self, units: u32) -> f64;

    /// Returns the run time left of a waiting job, s.
    fn left_waiting(&mut self, job: Job) -> f64;

    /// Returns the bits of the key of a job that asks for so many units and has so much run time left, s.
    fn key(&self, units: u32, left: f64) -> u64 {
        key(self.weight(units), left)
    }

    /// Records that the job waits from now on.
    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job);

    /// Records that the job no longer waits.
    fn leave(&mut self, job: Job);

    fn queues(&self) -> &ClassQueues;

    fn queues_mut(&mut self) -> &mut ClassQueues;
}

/// Returns the bits of GPUs that count x run time left: the least goes first.
pub(super) fn key(weight: f64, left: f64) -> u64 {
    (weight * left).to_bits()
}

/// Run times are those recorded.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Exact {
    queues: ClassQueues,
    /// By job, in units: GPUs, or thousandths of one where jobs may hold shares.
    size: Vec<u32>,
    /// Units of the largest server, of the cluster, and of a GPU.
    largest: u32,
    gpus: u64,
    units_a_gpu: f64,
    /// What a unit of a job's work takes on the fewest servers without contention, s.
    unit: Vec<f64>,
    /// Run time of a whole job there, s.
    whole: Vec<f64>,
    /// Run time left of a waiting job, s.
    left: Vec<f64>,
}

impl Exact {
    pub(in crate::policy) fn new(setting: &Setting<'_>, queues: ClassQueues) -> Self {
        let (jobs, units_a_gpu) = (setting.jobs.len(), setting.jobs.units_a_gpu());
        Self {
            queues,
            size: (0..jobs).map(|job| setting.jobs.units(job)).collect(),
            largest: setting.server_gpus.iter().copied().max().unwrap_or(0).saturating_mul(units_a_gpu as u32),
            gpus: setting.server_gpus.iter().map(|&gpus| u64::from(gpus)).sum::<u64>() * units_a_gpu,
            units_a_gpu: units_a_gpu as f64,
            unit: vec![0.0; jobs],
            whole: vec![0.0; jobs],
            left: vec![0.0; jobs],
        }
    }

    fn place(&self, job: Job) -> (Class, Rank) {
        let size = self.size[job.index()];
        ((size, 0), (key(self.weight(size), self.left[job.index()]), job))
    }
}

impl Foresight for Exact {
    const FALLS: bool = true;

    fn arrived<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.unit[job.index()] = state.unit_at_best(job);
        self.whole[job.index()] = state.left_at_best(job, self.unit[job.index()]);
    }

    fn reference_time<S: Speed>(&self, _state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.whole[job.index()]
    }

    fn reference_time_of<S: Speed>(&self, _state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.whole[stay.job.index()]
    }

    fn begin<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _changed: &mut Vec<Job>) -> bool {
        false
    }

    fn left_of<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        state.left_at_best_of(stay, self.unit[stay.job.index()])
    }

    fn weight(&self, units: u32) -> f64 {
        // No two gangs of more than half of the GPUs run side by side: among them only time counts.
        let runs_alone = 2 * u64::from(units) > self.gpus;
        f64::from(if runs_alone { units.min(self.largest) } else { units }) / self.units_a_gpu
    }

    fn left_waiting(&mut self, job: Job) -> f64 {
        self.left[job.index()]
    }

    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.left[job.index()] = state.left_at_best(job, self.unit[job.index()]);
        let (class, rank) = self.place(job);
        self.queues.insert(class, class.0, 0, rank);
    }

    fn leave(&mut self, job: Job) {
        let (class, rank) = self.place(job);
        self.queues.remove(class, rank);
    }

    fn queues(&self) -> &ClassQueues {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut ClassQueues {
        &mut self.queues
    }
}
