//! Builds a small replay by hand.

use ringbco::error::Result;
use ringbco::options::Options;
use ringbco::outcome::Outcome;
use ringbco::replay::ClusterSpec;
use ringbco::trace::{Jobs, OwnedJobs};
use ringbco::{Network, Unwatched};

/// The input of a replay.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) jobs: OwnedJobs,
    pub(crate) vc: Option<Vec<u32>>,
    pub(crate) server_gpus: Vec<u32>,
    pub(crate) server_vc: Option<Vec<u32>>,
    pub(crate) network: Network,
    pub(crate) options: Options,
}

impl Case {
    pub(crate) fn table(&self) -> Jobs<'_> {
        self.jobs.view()
    }

    pub(crate) fn spec(&self) -> ClusterSpec<'_> {
        let server_vc = self.server_vc.as_deref();
        ClusterSpec {
            server_gpus: &self.server_gpus,
            server_vc,
            server_types: None,
            type_prices: None,
            network: self.network.clone(),
            tiers: &[],
        }
    }

    pub(crate) fn engine(&self) -> Result<Outcome> {
        ringbco::replay::replay(&self.table(), self.vc.as_deref(), &self.spec(), &self.options, &mut Unwatched)
    }

    /// Adds a job of the model `fixed`.
    pub(crate) fn job(mut self, submit: f64, num_gpus: u32, duration: f64) -> Self {
        self.jobs.submit.push(submit);
        self.jobs.num_gpus.push(num_gpus);
        self.jobs.duration.push(duration);
        self.jobs.iterations.push(1);
        self.jobs.gradient_bytes.push(0.0);
        self.jobs.compute_time.push(duration);
        self
    }

    /// Gives the last job the columns that the model `rar` reads.
    pub(crate) fn ring(mut self, iterations: u64, gradient_bytes: f64, compute_time: f64) -> Self {
        let jobs = &mut self.jobs;
        *jobs.iterations.last_mut().unwrap() = iterations;
        *jobs.gradient_bytes.last_mut().unwrap() = gradient_bytes;
        *jobs.compute_time.last_mut().unwrap() = compute_time;
        self
    }
}
