//! ringbco replays GPU-cluster job traces through deep-learning schedulers, above all SJF-BCO
//! (Yu, Ji, Rajan and Liu, "On Scheduling Ring-All-Reduce Learning Jobs in Multi-Tenant GPU Clusters with
//! Communication Contention", MobiHoc 2022). Equation and algorithm numbers in this crate are that paper's.
//!
//! `docs/glossary.md` explains the words: gang, pass, tick, stretch, theta, p, k, tau, rho, U.
//! `docs/adding-a-policy.md` adds a scheduler step by step.
//!
//! A tour, in the order in which data flows:
//!
//! - [`trace`]: what is replayed, as borrowed columns. [`options`]: what a run is asked to do.
//! - [`replay`](mod@replay): the way in. It checks the input, deals the jobs out to virtual clusters, and gathers.
//! - `machine`: the only event loop; its `state` has the verbs by which a policy starts and stops jobs.
//! - `policy`: who decides. [`policies`]: the names of policies. `placement`: which GPUs a gang gets.
//! - `speed`: how fast a job runs where it runs. `cluster`: servers and GPUs.
//! - [`decisions`]: what a policy decided, as data.
//! - [`simulation`]: a run whose decisions come from outside.
//! - [`planner`]: the offline planner, Algorithm 1. [`pack`](mod@pack): who finds room where nobody leaves.
//! - [`record`]: every stay and why it ended. [`outcome`]: result columns. [`bound`](mod@bound): what no schedule can fall below.
//! - [`dips`](mod@dips): where one more GPU gains less than the next ones.
//! - [`files`]: renames that refuse to replace, for outputs that appear whole.
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
mod setting;
pub mod simulation;
mod speed;
pub mod trace;

pub use cluster::{FewestServers, Network};
pub use machine::{Answer, Unwatched, Watch};

#[cfg(feature = "python")]
mod python;

// The tests of `rust/tests` name the crate as others do.
#[cfg(test)]
extern crate self as ringbco;

#[cfg(test)]
#[path = "tests/main.rs"]
mod tests;
