//! Queues whose order is not known from the start: QSSF, and any order under `--aging`.
//!
//! QSSF (Hu et al., "Characterization and prediction of deep learning workloads in large-scale GPU datacenters", SC
//! 2021, the Helios paper): the least predicted GPU time first, ties fifo. The prediction is made at the submission,
//! from the jobs completed by then. It is a mean recorded duration times the job's GPUs. The mean is over the same
//! user's jobs of the same size; if there are none, over the user's; if there are none, over all. Before any
//! completion it is 0.
//!
//! The policy knows no run time. With `--predict exact` it knows the recorded duration itself. A pass costs the jobs
//! started and the sizes tried.

use super::{Book, Policy, Setting};
use crate::options::{Order, Predict};
use std::collections::BTreeMap;

/// How many values, and their sum.
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

pub(super) struct Queued<'a> {
    order: Order,
    predict: Predict,
    user: Option<&'a [u32]>,
    /// Durations of completed jobs: of a user and a size, of a user, of all.
    by_size: BTreeMap<(u32, u32), Mean>,
    by_user: BTreeMap<u32, Mean>,
    all: Mean,
}

impl<'a> Queued<'a> {
    pub(super) fn new(setting: &Setting<'a>) -> Self {
        Self {
            order: setting.options.order,
            predict: setting.options.predict,
            user: setting.user,
            by_size: BTreeMap::new(),
            by_user: BTreeMap::new(),
            all: Mean::default(),
        }
    }

    /// Jobs without a user are one user's.
    fn user_of(&self, job: u32) -> u32 {
        self.user.map_or(u32::MAX, |u| u[job as usize])
    }

    fn predicted(&self, job: u32, num_gpus: u32) -> f64 {
        let user = self.user_of(job);
        let known = self.by_size.get(&(user, num_gpus)).or_else(|| self.by_user.get(&user));
        let duration = known.copied().unwrap_or(self.all);
        if duration.count == 0 { 0.0 } else { duration.of() * f64::from(num_gpus) }
    }
}

impl Policy for Queued<'_> {
    const PREEMPTIVE: bool = false;

    fn waiting_key(&mut self, book: &Book<'_>, job: u32) -> f64 {
        let j = job as usize;
        let num_gpus = book.jobs.num_gpus[j];
        match (self.order, self.predict) {
            (Order::Fifo, _) => 0.0,
            (Order::Sjf, _) => book.timing.estimate(&book.jobs, j),
            (Order::Smallest, _) => f64::from(num_gpus),
            (Order::Qssf, Predict::Exact) => book.jobs.duration[j] * f64::from(num_gpus),
            (Order::Qssf, Predict::History) => self.predicted(job, num_gpus),
        }
    }

    fn completed(&mut self, book: &Book<'_>, job: u32) {
        if self.order != Order::Qssf {
            return;
        }
        let j = job as usize;
        let (user, duration) = (self.user_of(job), book.jobs.duration[j]);
        self.by_size.entry((user, book.jobs.num_gpus[j])).or_default().add(duration);
        self.by_user.entry(user).or_default().add(duration);
        self.all.add(duration);
    }
}
