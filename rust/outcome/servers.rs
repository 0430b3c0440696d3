//! What became of servers: stays that ended as they failed, and when they were asleep.

use crate::ids::{Job, Server};

/// A stay that an outage ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Failure {
    /// Whose stay.
    pub job: Job,
    /// The server that went down.
    pub server: Server,
    /// When, s.
    pub time: f64,
    /// The progress lost, s.
    pub lost: f64,
    /// The GPUs held.
    pub num_gpus: u32,
}

/// A server that was asleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asleep {
    /// Which one.
    pub server: Server,
    /// Since when, s.
    pub from: f64,
    /// Until when, s; infinite where it was so at the end.
    pub until: f64,
}
