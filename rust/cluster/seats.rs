//! Lets GPUs change their holder, and books a job that joins another there (docs/lucid.md).
//!
//! Invariant: what is idle stays the same. For example, when the first of two jobs on a GPU leaves, the GPU is held by
//! the second, with the same U.

use super::Cluster;
use crate::ids::{Job, Server};

impl Cluster {
    /// Gives the GPUs that a job holds to another; `server` is one of them.
    pub(crate) fn rename(&mut self, server: Server, from: Job, to: Job) {
        if let Some(times) = &mut self.gpu_times {
            times.change_owners(server, from, to);
        }
        if let Some(shares) = &mut self.shares {
            shares.rename(from, to);
        }
    }

    /// Adds time to U of the GPUs that a job holds on a server, s.
    pub(crate) fn book(&mut self, server: Server, holder: Job, time: f64) {
        self.changes += 1; // where a placement puts others
        if let Some(times) = &mut self.gpu_times {
            times.book(server, holder, time);
        }
    }
}
