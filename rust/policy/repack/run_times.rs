//! The remaining run times of jobs, known or predicted, and the waiting jobs in the order of their keys.

use super::class_queues::{Class, ClassQueues, Rank};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::setting::Setting;
use crate::speed::Speed;

/// What the policy knows about run times, and the waiting jobs.
pub(in crate::policy) trait RunTimes: Clone + Send {
    /// Whether the run time left of a running job falls by at most a second each second. If not, it is constant until
    /// the job is among the `changed` ones.
    const FALLS: bool;

    fn arrived<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job);

    fn completed(&mut self, _job: Job) {}

    /// Records that the job runs from now on.
    fn started<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _stay: &Stay<S::Pace>) {}

    /// Records that the job no longer runs.
    fn stopped(&mut self, _job: Job) {}

    /// Begins a pass. Adds the running jobs whose remaining run time changed for another reason than elapsed time.
    /// Returns true if that of any running job may have changed.
    fn begin<S: Speed>(&mut self, state: &ClusterState<'_, S>, changed: &mut Vec<Job>) -> bool;

    /// Records, at the beginning of a pass, that it is the first one for which the job waits.
    fn queued(&mut self, _job: Job) {}

    /// Returns the reference time of a waiting job, s: its whole run time on the fewest servers without contention or,
    /// if that is unknown, its progress and a part of what was predicted to be left when it joined the queue.
    fn reference_time_waiting<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64;

    /// Returns the same of a running job now.
    fn reference_time_running<S: Speed>(&self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64;

    /// Returns the run time left of a running job now, s, without the rest of its pause.
    fn remaining_running<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64;

    /// Returns the GPUs that count in the key of a job that asks for so many units.
    fn counted_gpus(&self, units: u32) -> f64;

    /// Returns the run time left of a waiting job, s.
    fn remaining_waiting(&mut self, job: Job) -> f64;

    /// Returns the bits of the key of a job that asks for so many units and has so much run time left, s.
    fn key(&self, units: u32, left: f64) -> u64 {
        key(self.counted_gpus(units), left)
    }

    /// Records that the job waits from now on.
    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job);

    /// Records that the job no longer waits.
    fn leave(&mut self, job: Job);

    fn queues(&self) -> &ClassQueues;

    fn queues_mut(&mut self) -> &mut ClassQueues;
}

/// Returns counted GPUs x remaining run time, as bits in that order: the least goes first.
pub(super) fn key(weight: f64, left: f64) -> u64 {
    (weight * left).to_bits()
}

/// Run times as recorded.
#[derive(Clone, Debug)]
pub(in crate::policy) struct KnownRunTimes {
    queues: ClassQueues,
    /// By job, in units: GPUs, or thousandths of one where jobs may hold shares.
    size: Vec<u32>,
    /// Units of the largest server, of the cluster, and of a GPU.
    largest_server_units: u32,
    cluster_units: u64,
    units_per_gpu: f64,
    /// What a unit of a job's work takes on the fewest servers without contention, s.
    seconds_per_work: Vec<f64>,
    /// Run time of a whole job there, s.
    whole_run_time: Vec<f64>,
    /// Run time left of a waiting job, s.
    left: Vec<f64>,
}

impl KnownRunTimes {
    pub(in crate::policy) fn new(setting: &Setting<'_>, queues: ClassQueues) -> Self {
        let (jobs, units_per_gpu) = (setting.jobs.len(), setting.jobs.units_per_gpu());
        Self {
            queues,
            size: (0..jobs).map(|job| setting.jobs.units(job)).collect(),
            largest_server_units: setting
                .server_gpus
                .iter()
                .copied()
                .max()
                .unwrap_or(0)
                .saturating_mul(units_per_gpu as u32),
            cluster_units: setting.server_gpus.iter().map(|&cluster_units| u64::from(cluster_units)).sum::<u64>()
                * units_per_gpu,
            units_per_gpu: units_per_gpu as f64,
            seconds_per_work: vec![0.0; jobs],
            whole_run_time: vec![0.0; jobs],
            left: vec![0.0; jobs],
        }
    }

    fn place(&self, job: Job) -> (Class, Rank) {
        let size = self.size[job.index()];
        ((size, 0), (key(self.counted_gpus(size), self.left[job.index()]), job))
    }
}

impl RunTimes for KnownRunTimes {
    const FALLS: bool = true;

    fn arrived<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.seconds_per_work[job.index()] = state.seconds_per_work_at_best(job);
        self.whole_run_time[job.index()] = state.left_at_best(job, self.seconds_per_work[job.index()]);
    }

    fn reference_time_waiting<S: Speed>(&self, _state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.whole_run_time[job.index()]
    }

    fn reference_time_running<S: Speed>(&self, _state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.whole_run_time[stay.job.index()]
    }

    fn begin<S: Speed>(&mut self, _state: &ClusterState<'_, S>, _changed: &mut Vec<Job>) -> bool {
        false
    }

    fn remaining_running<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        state.left_at_best_of(stay, self.seconds_per_work[stay.job.index()])
    }

    fn counted_gpus(&self, units: u32) -> f64 {
        // Few gangs of a third of the GPUs or more run side by side: among them only time counts.
        let is_huge = 3 * u64::from(units) >= self.cluster_units;
        f64::from(if is_huge { units.min(self.largest_server_units) } else { units }) / self.units_per_gpu
    }

    fn remaining_waiting(&mut self, job: Job) -> f64 {
        self.left[job.index()]
    }

    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.left[job.index()] = state.left_at_best(job, self.seconds_per_work[job.index()]);
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
