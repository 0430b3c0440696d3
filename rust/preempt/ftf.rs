//! Finish-time fairness (Themis: Mahajan et al., "Themis: Fair and efficient GPU cluster scheduling", NSDI 2020).
//! The job with the largest (time since submission + remaining run time) / ideal run time goes first. Clairvoyant.
//!
//! Themis calls this number rho. Elsewhere in this crate rho_j is the estimated run time. The number of every job moves
//! with time, so a pass ranks all jobs that run or wait.

use super::{Book, Policy, Running, Setting};

pub(super) struct Ftf {
    interval: f64,
    /// Run times alone on the fewest servers, s.
    ideal: Vec<f64>,
}

impl Ftf {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let ideal = (0..setting.jobs.len()).map(|j| Book::ideal(setting, j)).collect();
        Self { interval: setting.options.interval, ideal }
    }
}

impl Policy for Ftf {
    const RANKED_ANEW: bool = true;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn rank(&self, book: &Book<'_>, job: u32, running: Option<&Running>) -> (f64, f64) {
        let j = job as usize;
        let elapsed = book.seconds() - book.jobs.submit[j];
        let remaining = running.map_or_else(|| book.remaining(job), |r| book.remaining_of(r));
        (-((elapsed + remaining) / self.ideal[j]), 0.0)
    }
}
