//! Policies that preempt (SPEC section 7, "Other schedulers"). Each policy is a file. This file joins their names to
//! their code.
//!
//! A pass ranks the running and the waiting jobs. It walks the ranking with a quota of all GPUs. A policy gives the
//! keys by which jobs are ranked. Without preemption (`qssf`, and any order with aging) the keys order the queue.
//! `engine` is the event loop, `select` the walk, `book` what is known of each job.

mod book;
mod edf;
mod engine;
mod ftf;
mod gittins;
mod qssf;
mod select;
mod srtf;
mod time_slice;
mod tiresias;
mod waiting;

use crate::cluster::{FewestServers, Network};
use crate::engine::Watch;
use crate::error::Result;
use crate::job::Jobs;
use crate::options::{Options, Order, Preemption};
use crate::outcome::ClusterOutcome;
use book::{Book, Running};
use engine::Engine;

/// A ranking and the instants at which it is used. Keys: least first, ties by job, that is fifo.
trait Policy {
    /// Whether running jobs may be preempted. Otherwise the waiting jobs are a queue under the options' discipline.
    const PREEMPTIVE: bool = true;

    /// Whether the keys of waiting jobs move with time, so that every pass ranks all jobs anew by `rank`. Otherwise a
    /// waiting job's key stands, and a running job's key does not rise but where `rises_at` says.
    const RANKED_ANEW: bool = false;

    /// Seconds between passes; `None` for a pass at every arrival and completion.
    fn interval(&self) -> Option<f64> {
        None
    }

    /// Whether the ranking changes by itself, so that every tick with more demand than GPUs needs a pass.
    fn is_restless(&self) -> bool {
        Self::RANKED_ANEW
    }

    /// Called before each pass.
    fn before_pass(&mut self) {}

    /// The key of a job that joins the waiting ones now.
    fn waiting_key(&mut self, _book: &Book<'_>, _job: u32) -> f64 {
        0.0
    }

    /// The key of a running job now.
    fn running_key(&self, _book: &Book<'_>, _running: &Running) -> f64 {
        0.0
    }

    /// An instant, early rather than late, before which the key of a running job does not rise.
    fn rises_at(&self, _book: &Book<'_>, _running: &Running) -> f64 {
        f64::INFINITY
    }

    /// The key of any job now, by what it is when it runs (`RANKED_ANEW` only).
    fn rank(&self, _book: &Book<'_>, _job: u32, _running: Option<&Running>) -> (f64, f64) {
        (0.0, 0.0)
    }

    /// A job is done.
    fn completed(&mut self, _book: &Book<'_>, _job: u32) {}
}

/// One cluster, or virtual cluster, and its jobs in order of (submit_time, row).
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
}

/// Whether a run is this module's: it preempts, or its queue changes its order with time.
pub(crate) fn is_for(options: &Options) -> bool {
    options.preemption != Preemption::None || options.order == Order::Qssf || options.aging.is_some()
}

/// Replays every job under the policy of the options.
///
/// # Errors
/// As the non-preemptive engine's.
pub(crate) fn run(setting: &Setting<'_>, watch: &mut dyn Watch) -> Result<ClusterOutcome> {
    let options = setting.options;
    match options.preemption {
        Preemption::None => Engine::new(setting, qssf::Queued::new(setting)).run(watch),
        Preemption::Srtf => Engine::new(setting, srtf::Srtf).run(watch),
        Preemption::Tiresias => Engine::new(setting, tiresias::Tiresias::new(options)).run(watch),
        Preemption::Gittins => Engine::new(setting, gittins::Gittins::new(options)).run(watch),
        Preemption::Ftf => Engine::new(setting, ftf::Ftf::new(setting)).run(watch),
        Preemption::Edf => Engine::new(setting, edf::Edf::new(setting)).run(watch),
        Preemption::TimeSlice => Engine::new(setting, time_slice::TimeSlice::new(options)).run(watch),
    }
}
