//! What a run of one cluster, or virtual cluster, is given.
//!
//! Invariant: jobs are in order of submission, and every column has a value for each job. For example, `rows[0]` is
//! the caller's row of the job that is submitted first.

use crate::cluster::{FewestServers, Network};
use crate::decisions::DecisionLog;
use crate::options::Options;
use crate::trace::Jobs;

/// The servers, and their jobs in order of (submit_time, row).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting<'a> {
    pub(crate) jobs: Jobs<'a>,
    /// Each job's row in the caller's table, for errors.
    pub(crate) rows: &'a [u32],
    /// Deadlines, s, NaN where there is none.
    pub(crate) deadline: Option<&'a [f64]>,
    /// Users, numbered; `None` where nobody is named.
    pub(crate) user: Option<&'a [u32]>,
    pub(crate) server_gpus: &'a [u32],
    pub(crate) few: &'a FewestServers,
    pub(crate) network: Network,
    pub(crate) options: &'a Options,
    /// Decisions to carry out (`Preemption::Log`).
    pub(crate) log: Option<&'a DecisionLog>,
}
