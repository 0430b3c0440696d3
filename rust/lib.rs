//! ringbco replays GPU-cluster job traces through deep-learning schedulers, above all SJF-BCO
//! (Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
//! Communication Contention", MobiHoc 2022). Equation and algorithm numbers in this crate are that paper's.
//!
//! `docs/glossary.md` explains the words: gang, pass, tick, stretch, theta, p, k, tau, rho, U.
//! `docs/adding-a-policy.md` adds a scheduler step by step.
//!
//! A tour, in the order in which data flows:
//!
//! - [`job`]: the job table as borrowed columns.
//! - [`options`]: what a run is asked to do, and the registries of orders, disciplines and placements.
//! - [`replay`](mod@replay): the way in. It checks the input, deals the jobs out to virtual clusters, and gathers.
//! - `engine`: the event loop of one cluster. `pass`: one scheduling pass. `timing`: clocks and progress.
//! - [`policies`]: the registry of policies. `preempt`: those that preempt, with an event loop of their own.
//! - [`planner`]: the offline planner, Algorithm 1.
//! - `queue`, `placement`, `cluster`, `gpu_time`, `contention`: the parts of the state.
//! - `delay`: why jobs wait.
//! - [`files`]: renames that refuse to replace, for outputs that appear whole.
//! - `index`, `heap`, `rng`: data structures.
//! - [`outcome`]: result columns.
//! - [`reference`](mod@reference): a slow and obvious replay. Tests hold the engine against it. It shares no
//!   deciding code with the engine.
//!
//! Only the module `python`, behind the feature of that name, knows Python.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod cluster;
mod contention;
mod delay;
mod engine;
pub mod error;
pub mod files;
mod gpu_time;
mod heap;
mod index;
pub mod job;
pub mod options;
pub mod outcome;
mod pass;
mod placement;
pub mod planner;
pub mod policies;
mod preempt;
mod queue;
pub mod reference;
pub mod replay;
mod rng;
mod timing;

pub use cluster::{FewestServers, Network};
pub use engine::{Unwatched, Watch};

#[cfg(feature = "python")]
mod python;
