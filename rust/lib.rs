//! ringbco replays GPU-cluster job traces through deep-learning schedulers, above all SJF-BCO
//! (Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
//! Communication Contention", MobiHoc 2022). Equation and algorithm numbers in this crate are that paper's.
//!
//! `docs/glossary.md` explains the words: gang, pass, tick, stay, theta, p, k, tau, rho, U. `docs/adding-a-policy.md`
//! adds a scheduler step by step.
//!
//! A tour, in the order in which data flows:
//!
//! - [`trace`]: what is replayed, as borrowed columns. [`options`]: the settings of a run.
//! - [`replay`](mod@replay): the entry point. It checks the input, distributes the jobs to virtual clusters, and
//!   collects the results.
//! - `machine`: the only event loop. Its `state` has the verbs by which a policy starts and stops jobs.
//! - `policy`: the policies. [`policies`]: their names. `placement`: which GPUs a gang gets.
//! - `speed`: how fast a job runs on its GPUs. `cluster`: servers and GPUs.
//! - [`decisions`]: what a policy decided, as data.
//! - [`simulation`]: a run whose decisions come from outside.
//! - [`serving`]: services that answer requests, beside the machine.
//! - [`planner`]: the offline planner, Algorithm 1. [`pack`](mod@pack): which jobs fit if none ever leaves.
//! - [`record`]: every stay and why it ended. [`outcome`]: result columns. [`bound`](mod@bound): a lower bound for any
//!   schedule.
//! - [`concavity`]: where one more GPU gains less than later ones.
//! - [`files`]: atomic renames, for outputs that appear whole.
//! - [`ids`]: numbers of jobs, slots and servers. `ds`, `rng`: data structures, random numbers.
//!
//! Only the module `python`, behind the feature of that name, knows Python.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod bound;
mod cluster;
pub mod concavity;
pub mod decisions;
mod ds;
pub mod error;
pub mod files;
pub mod ids;
mod machine;
pub mod options;
pub mod outcome;
pub mod pack;
mod placement;
pub mod planner;
pub mod policies;
mod policy;
pub mod record;
pub mod replay;
mod rng;
pub mod serving;
mod setting;
pub mod simulation;
mod speed;
pub mod trace;

pub use cluster::{FewestServers, Network, Tier};
pub use machine::{Unwatched, WaitExplanation, Watch};

#[cfg(feature = "python")]
mod python;

// The tests in `rust/tests` use the crate by its public name.
#[cfg(test)]
extern crate self as ringbco;

#[cfg(test)]
#[path = "tests/main.rs"]
mod tests;
