//! What became of servers: when they were asleep.

use crate::ids::{Job, Server};

/// A server that was asleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asleep {
    /// Which one.
    pub server: Server,
    /// Since when, s.
    pub from: f64,
    /// Until when, s; infinite where it was so at the end.
    pub until: f64,
    /// Who woke it.
    pub woken: Woken,
}

/// Who wakes a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Woken {
    /// It went down asleep, or slept until the end.
    #[default]
    ByNobody,
    /// The first job that took GPUs of it.
    ByJob(Job),
    /// A replica of a service, by its number.
    ByService(u32),
}
