//! Tiresias, discretised 2D-LAS (Gu et al., "Tiresias: A GPU cluster manager for distributed deep learning",
//! NSDI 2019). Jobs queue by attained service: GPUs times seconds on them. Inside a queue the order is fifo. The policy
//! knows no run time.
//!
//! A pass costs as much as SRTF's, and a step for every job that falls to the next queue.

use super::{Book, Policy, Running};
use crate::options::Options;

pub(super) struct Tiresias {
    thresholds: Vec<f64>,
    interval: f64,
}

impl Tiresias {
    pub(super) fn new(options: &Options) -> Self {
        Self { thresholds: options.thresholds.clone(), interval: options.interval }
    }

    /// The queue of a job with that service, GPU-seconds: how many thresholds it has reached.
    pub(super) fn queue(&self, attained: f64) -> usize {
        self.thresholds.partition_point(|&t| t <= attained)
    }
}

impl Policy for Tiresias {
    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn waiting_key(&mut self, book: &Book<'_>, job: u32) -> f64 {
        self.queue(book.attained(job)) as f64
    }

    fn running_key(&self, book: &Book<'_>, running: &Running) -> f64 {
        self.queue(book.attained_of(running)) as f64
    }

    fn rises_at(&self, book: &Book<'_>, running: &Running) -> f64 {
        let next = self.queue(book.attained_of(running));
        self.thresholds.get(next).map_or(f64::INFINITY, |&threshold| {
            let at = book.attains_at(running, threshold);
            at - 1e-9 * (at.abs() + 1.0)
        })
    }
}
