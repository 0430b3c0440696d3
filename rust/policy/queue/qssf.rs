//! QSSF (Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU datacenters", SC
//! 2021, the Helios paper): the job with the least predicted GPU time goes first, ties fifo. The prediction is made
//! at the submission, from the jobs completed by then. It is a mean recorded duration times the job's GPUs. The mean
//! is over the same user's jobs of the same size; if there are none, over the user's; if there are none, over all.
//! Before any completion it is 0.
//!
//! The policy does not know run times, except under `--predict exact`, which gives it the recorded duration itself.
//! `--predict column:NAME` gives it a prediction of the duration for the jobs that have one. A pass costs the jobs started and the sizes tried.

use crate::ids::Job;
use crate::options::Predict;
use crate::setting::Setting;
use crate::trace::Jobs;
use std::collections::BTreeMap;

/// The number of values, and their sum.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    count: u64,
}

impl Mean {
    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
    }

    fn of(self) -> f64 {
        self.sum / self.count as f64
    }
}

/// The predictions.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Qssf<'a> {
    predict: Predict,
    predicted: Option<&'a [f64]>,
    user: Option<&'a [u32]>,
    /// Durations of completed jobs: of a user and a size, of a user, of all.
    by_size: BTreeMap<(u32, u32), Mean>,
    by_user: BTreeMap<u32, Mean>,
    all: Mean,
}

impl<'a> Qssf<'a> {
    pub(in crate::policy) fn new(setting: &Setting<'a>) -> Self {
        Self {
            predict: setting.options.predict,
            predicted: setting.predicted,
            user: setting.user,
            by_size: BTreeMap::new(),
            by_user: BTreeMap::new(),
            all: Mean::default(),
        }
    }

    /// Returns the user of a job; jobs without a user belong to one common user.
    fn user_of(&self, job: Job) -> u32 {
        self.user.map_or(u32::MAX, |u| u[job.index()])
    }

    /// Returns the predicted GPU time of a job that is submitted now, GPU-seconds.
    pub(super) fn key(&self, jobs: &Jobs<'_>, job: Job) -> f64 {
        if self.predict == Predict::Exact {
            return jobs.duration[job.index()] * jobs.gpus(job.index());
        }
        let predicted = self.predicted.map_or(0.0, |predicted| predicted[job.index()]);
        if predicted > 0.0 {
            return predicted * jobs.gpus(job.index());
        }
        self.duration(jobs, job) * jobs.gpus(job.index())
    }

    /// Returns the duration that the jobs completed so far predict, s.
    pub(in crate::policy) fn duration(&self, jobs: &Jobs<'_>, job: Job) -> f64 {
        let (user, num_gpus) = (self.user_of(job), jobs.num_gpus[job.index()]);
        let known = self.by_size.get(&(user, num_gpus)).or_else(|| self.by_user.get(&user));
        let duration = known.copied().unwrap_or(self.all);
        if duration.count == 0 { 0.0 } else { duration.of() }
    }

    pub(in crate::policy) fn completed(&mut self, jobs: &Jobs<'_>, job: Job) {
        let (user, duration) = (self.user_of(job), jobs.duration[job.index()]);
        self.by_size.entry((user, jobs.num_gpus[job.index()])).or_default().add(duration);
        self.by_user.entry(user).or_default().add(duration);
        self.all.add(duration);
    }
}
