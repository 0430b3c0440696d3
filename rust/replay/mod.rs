//! Runs a whole replay: checks the input, runs the virtual clusters and merges their results.
//!
//! `checks` refuses what could never run. `parts` assigns jobs and servers to virtual clusters. `run` runs those side
//! by side. `assemble` merges their results, and `logs` does the same for decision logs. `probe` repeats a run as far
//! as needed to explain why a job waited.
//!
//! Invariant: the result does not depend on the number of threads. Jobs are rows of the caller's table on the way in
//! and out, and numbered by fifo in between. For example, if row 5 is submitted first, it is job 0 of the run.

mod assemble;
mod checks;
mod links;
mod logs;
mod parts;
mod probe;
mod run;
mod types;

use crate::cluster::{Network, Tier, validate_servers, validate_tiers};
use crate::decisions::{DecisionLog, Verb};
use crate::error::Result;
use crate::ids::GpuType;
use crate::machine::Watch;
use crate::options::Options;
use crate::outcome::Outcome;
use crate::trace::{FairShares, Jobs, OwnedTypes, Recorded, SideTables};
pub(crate) use assemble::assemble;
pub(crate) use checks::check_iteration;
use checks::{
    check_checkpoints, check_extras, check_outages, check_pods, check_policy, check_room, check_searches,
    check_services, check_shares, check_slots, check_tier_columns, keep,
};
use parts::order_by_fifo;
pub(crate) use parts::{Part, job_vcs, split};
pub use probe::{Told, Wait, probe};
pub(crate) use run::part_options;
use run::{in_part, run_parts};
use std::time::Instant;
use types::check_types;

/// Servers, and the virtual clusters that they belong to.
#[derive(Clone, Debug)]
pub struct ClusterSpec<'a> {
    /// O_s of every server.
    pub server_gpus: &'a [u32],
    /// The virtual cluster of every server, numbered from 0 without gaps; `None` for one cluster.
    pub server_vc: Option<&'a [u32]>,
    /// The GPU type of every server; `None` where all GPUs are alike.
    pub server_types: Option<&'a [GpuType]>,
    /// The price of each type, any currency per hour (`TypeOrder::Cheapest`).
    pub type_prices: Option<&'a [f64]>,
    /// Network constants.
    pub network: Network,
    /// The tiers above the servers, from below; they nest.
    pub tiers: &'a [Tier],
}

/// Columns that some policies read, one value per job.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// Absolute deadlines, s; NaN where a job has none (`edf`).
    pub deadline: Option<&'a [f64]>,
    /// Users, numbered (`qssf`).
    pub user: Option<&'a [u32]>,
    /// Predicted run times of whole jobs, s; NaN or <= 0 where a job has none (`Predict::Column`).
    pub predicted: Option<&'a [f64]>,
    /// Estimated run times of whole jobs, s; NaN or <= 0 where a job has none (`Estimate::Column`).
    pub estimated: Option<&'a [f64]>,
    /// One number per job, the least first (`Order::Column`).
    pub key: Option<&'a [f64]>,
    /// The owner of each job, and the owners' shares (`Order::Fairshare`).
    pub fair: Option<FairShares<'a>>,
    /// Decisions to carry out (policy `log`).
    pub log: Option<&'a DecisionLog>,
    /// When and where jobs started in a log (policy `recorded`).
    pub recorded: Option<&'a Recorded>,
    /// What is known beside the jobs.
    pub side: SideTables<'a>,
}

impl Extras<'_> {
    /// Returns whether jobs may be evicted.
    pub(crate) fn make_room(&self, options: &Options) -> bool {
        let in_log = |log: &DecisionLog| log.has(Verb::Evicted) || log.has(Verb::Replica);
        options.evict || self.side.quotas.is_some() || self.side.services.is_some() || self.log.is_some_and(in_log)
    }
}

/// Replays a trace on a cluster.
///
/// `vc` is each job's virtual cluster if the cluster has some, and is ignored if it has none.
///
/// # Errors
/// Any variant of [`Error`](crate::error::Error); the row is the lowest at fault.
pub fn replay(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    replay_with(jobs, &Extras::default(), vc, spec, options, watch)
}

/// Does the same as [`replay`], with the columns that some policies need.
///
/// # Errors
/// Any variant of [`Error`](crate::error::Error); the row is the lowest at fault.
pub fn replay_with(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    let began = Instant::now();
    let Ready { parts, kept, types } = prepare(jobs, extras, vc, spec, options)?;
    let jobs = &Jobs { types: types.as_ref().map(OwnedTypes::view), ..*jobs };
    let job_vc = vc.filter(|_| spec.server_vc.is_some());
    let logs = extras.log.map(|log| logs::deal_out(log, jobs, job_vc, &parts, spec)).transpose()?;
    let outcomes = run_parts(jobs, extras, logs.as_deref(), &parts, options, watch)?;
    let engine_seconds = began.elapsed().as_secs_f64();
    assemble(jobs, kept, &parts, outcomes, options, extras, engine_seconds)
}

/// A checked input, assigned to virtual clusters.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) parts: Vec<Part>,
    /// Whether each row is in a part.
    pub(crate) kept: Vec<bool>,
    /// The GPU types that jobs try, in order; `None` where all GPUs are alike.
    types: Option<OwnedTypes>,
}

impl Ready {
    /// Returns the jobs, with the GPU types that they try.
    pub(crate) fn typed<'a>(&'a self, jobs: &Jobs<'a>) -> Jobs<'a> {
        Jobs { types: self.types.as_ref().map(OwnedTypes::view), ..*jobs }
    }
}

/// Checks everything and assigns the jobs to their clusters.
pub(crate) fn prepare(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<Ready> {
    options.validate()?;
    check_extras(jobs, extras, options)?;
    spec.network.validate()?;
    validate_servers(spec.server_gpus)?;
    validate_tiers(spec.tiers, &spec.network, spec.server_gpus.len())?;
    jobs.validate(options.model)?;
    check_policy(jobs, extras, options)?;
    check_shares(jobs, extras, options)?;
    check_pods(jobs, extras, spec, options)?;
    check_tier_columns(jobs, extras, spec, options)?;
    check_slots(jobs, options)?;
    check_outages(extras, spec)?;
    check_services(jobs, extras, spec, options)?;
    check_searches(jobs, options)?;
    check_room(jobs, extras, options)?;
    check_checkpoints(jobs, options)?;
    check_types(jobs, spec, options)?;
    let mut parts = split(spec)?;
    let job_vc = job_vcs(jobs, vc, spec, parts.len())?;
    let (kept, types) = keep(jobs, job_vc, extras, &mut parts, spec, options)?;
    order_by_fifo(jobs, &mut parts, options.ties);
    Ok(Ready { parts, kept, types })
}
