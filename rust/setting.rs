//! Holds the input of a run of one cluster, or virtual cluster.
//!
//! Invariant: jobs are in fifo order, and every column has a value for each job. For example, where all priorities are
//! the same, `rows[0]` is the caller's row of the job that is submitted first.

use crate::cluster::{FewestServers, Network, Tier};
use crate::decisions::DecisionLog;
use crate::ids::{GpuType, Job};
use crate::options::{Discipline, Options, Sharing};
use crate::trace::{Demand, FairShares, Jobs, RateTable, Recorded, SideTables};
use std::sync::Arc;

/// When decisions from outside are due.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct When {
    /// At the multiples of this many seconds; `None` at every arrival and completion.
    pub interval: Option<f64>,
    /// Whether only while a job waits.
    pub waiting_only: bool,
    /// Whether jobs may be stopped: then the end of a protection is also due while a job waits.
    pub stops: bool,
}

/// The servers, and their jobs in order of (priority down, submit_time, row).
#[derive(Clone, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) jobs: Jobs<'a>,
    /// Each job's row in the caller's table, for errors.
    pub(crate) rows: &'a [u32],
    /// The jobs in order of arrival; `None` where that is the order of their numbers.
    pub(crate) arrivals: Option<&'a [Job]>,
    /// Deadlines, s, NaN for none.
    pub(crate) deadline: Option<&'a [f64]>,
    /// Users, numbered; `None` if none are named.
    pub(crate) user: Option<&'a [u32]>,
    /// Predicted run times of whole jobs, s (`Predict::Column`), and estimates of backfilling (`Estimate::Column`). NaN
    /// or <= 0 where a job has none.
    pub(crate) predicted: Option<&'a [f64]>,
    pub(crate) estimated: Option<&'a [f64]>,
    /// Keys, least first (`Order::Column`); `None` where they come from outside.
    pub(crate) key: Option<&'a [f64]>,
    /// The owner of each job, and the owners' shares (`Order::Fairshare`).
    pub(crate) fair: Option<FairShares<'a>>,
    pub(crate) server_gpus: &'a [u32],
    /// The GPU type of each server; `None` where all GPUs are alike to every job.
    pub(crate) server_types: Option<&'a [GpuType]>,
    pub(crate) few: &'a FewestServers,
    pub(crate) network: Network,
    /// The tiers above the servers, from below.
    pub(crate) tiers: &'a [Tier],
    pub(crate) options: &'a Options,
    /// When the first job of the whole table is submitted, s.
    pub(crate) opens: f64,
    /// The side tables.
    pub(crate) side: SideTables<'a>,
    /// When decisions from outside are due (policy `outside`).
    pub(crate) when: When,
    /// Decisions to carry out (policy `log`).
    pub(crate) log: Option<&'a DecisionLog>,
    /// When and where the jobs started in a log (policy `recorded`).
    pub(crate) recorded: Option<&'a Recorded>,
}

impl<'a> Setting<'a> {
    /// Returns the measured speeds; empty if the model does not read them.
    pub(crate) fn rate_table(&self) -> Arc<RateTable> {
        self.jobs.rates.map(|rates| Arc::clone(rates.table)).unwrap_or_default()
    }

    /// Returns the number of clusters that placements and quotas see: one for each GPU type, or one.
    pub(crate) fn num_pools(&self) -> usize {
        self.server_types.map_or(1, |types| types.iter().map(|of| of.index() + 1).max().unwrap_or(1))
    }

    /// Returns the prediction of a job in the column that the run was given, s, if it has one.
    pub(crate) fn prediction(&self, job: Job) -> Option<f64> {
        self.predicted.map(|predicted| predicted[job.index()]).filter(|&seconds| seconds > 0.0)
    }

    /// Returns whether estimated run times are read: by EASY, and where maintenance is known ahead.
    pub(crate) fn reads_estimates(&self) -> bool {
        self.options.queue == Discipline::Easy || self.side.maintenance.is_some()
    }

    /// Returns whether more than its demand decides whether a job can be placed.
    pub(crate) fn has_standing(&self) -> bool {
        self.options.evict || self.side.quotas.is_some()
    }

    /// Returns whether jobs may be protected from being stopped for others.
    pub(crate) fn protects(&self) -> bool {
        let Options { max_preemptions, keep_unpreemptible, .. } = *self.options;
        let after = self.options.preempt_after();
        let costs = || self.jobs.preempt_cost.is_some_and(|costs| costs.iter().any(|&cost| cost > 0.0));
        after.map_or_else(|| self.options.preempt_loses || self.options.preempt_cost > 0.0 || costs(), |s| s > 0.0)
            || max_preemptions.is_some()
            || keep_unpreemptible && self.jobs.preemptible.is_some()
    }

    /// Returns what decides it: a job's tier, demand and owner, as far as they matter.
    pub(crate) fn class_of(&self, job: Job) -> (u32, Demand, u32) {
        let owner = self.side.quotas.map_or(0, |quotas| quotas.owner[job.index()]);
        (self.jobs.tier(job.index()), self.jobs.demand(job), owner)
    }

    /// Returns a setting without deadlines, users, keys and log, with decisions from outside at every change.
    pub(crate) fn new(
        jobs: Jobs<'a>,
        rows: &'a [u32],
        server_gpus: &'a [u32],
        few: &'a FewestServers,
        network: Network,
        options: &'a Options,
    ) -> Self {
        Self {
            jobs,
            rows,
            arrivals: None,
            deadline: None,
            user: None,
            predicted: None,
            estimated: None,
            key: None,
            fair: None,
            server_gpus,
            server_types: None,
            opens: jobs.submit.first().copied().unwrap_or(0.0),
            side: SideTables::default(),
            few,
            network: if options.sharing == Sharing::Off { network.without_contention() } else { network },
            tiers: &[],
            options,
            when: When::default(),
            log: None,
            recorded: None,
        }
    }
}
