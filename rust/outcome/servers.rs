//! Records when servers were asleep, and what nobody held of servers that drain.

use crate::ids::{Job, Server};

/// A server that was asleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asleep {
    /// Which one.
    pub server: Server,
    /// Since when, s.
    pub from: f64,
    /// Until when, s; infinite if it was asleep at the end.
    pub until: f64,
    /// What woke it.
    pub woken: Woken,
}

/// From when on nobody holds so many GPUs of a server that drains; 0 once the drain is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drained {
    /// The server.
    pub server: Server,
    /// From when on, s.
    pub time: f64,
    /// GPUs that nobody holds.
    pub gpus: u32,
}

/// What wakes a server.
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
