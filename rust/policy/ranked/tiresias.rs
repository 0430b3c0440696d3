//! Tiresias, discretised 2D-LAS (Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning", NSDI
//! 2019). Jobs queue by attained service: GPUs times seconds on them. Inside a queue the order is fifo. The policy
//! does not know run times.
//!
//! A pass costs as much as SRTF's, plus one step for every job that falls to the next queue.

use super::{KNOWS, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named, Options};
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Tiresias {
    thresholds: Vec<f64>,
    interval: f64,
}

impl Tiresias {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self { thresholds: options.thresholds.clone(), interval: options.interval() }
    }

    /// Returns the queue of a job with that service, GPU-seconds: how many thresholds it has reached.
    pub(super) fn queue(&self, attained: f64) -> usize {
        self.thresholds.partition_point(|&t| t <= attained)
    }

    /// Returns the service at which a job leaves a queue.
    pub(super) fn end_of(&self, queue: usize) -> f64 {
        self.thresholds.get(queue).copied().unwrap_or(f64::INFINITY)
    }
}

/// Returns an instant before a stay's job has that service, by no more than rounding requires (machine time).
pub(super) fn attains_before<S: Speed>(state: &ClusterState<'_, S>, stay: &Stay<S::Pace>, service: f64) -> f64 {
    let at = state.attains_at(stay, service);
    at - 1e-9 * (at.abs() + 1.0)
}

impl Named for Tiresias {
    const FACTS: Facts = Facts {
        name: "tiresias",
        about: "queue by attained service, then fifo",
        paper: "Gu et al., NSDI 2019",
        knows: KNOWS,
        is: &[Is::Ranks, Is::AtIntervals],
        options: &[
            "preempt-cost",
            "interval",
            "thresholds",
            "within",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl Ranking for Tiresias {
    type Tie = ();

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn waiting_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        self.queue(state.attained(job)) as f64
    }

    fn running_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.queue(state.attained_of(stay)) as f64
    }

    fn rises_at<S: Speed>(&self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        attains_before(state, stay, self.end_of(self.queue(state.attained_of(stay))))
    }
}
