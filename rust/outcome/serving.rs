//! Records what happened to services (docs/services.md).

use crate::ids::Server;
use crate::serving::Answers;
use crate::trace::Load;

/// A replica of a service on its GPUs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Replica {
    /// Which service.
    pub service: u32,
    /// Its number within the service, in order of their starts, from 0.
    pub number: u32,
    /// The server that it ran on.
    pub server: Server,
    /// Since when it was wanted, s.
    pub wanted: f64,
    /// From when, s.
    pub start: f64,
    /// From when it takes requests, s; NaN if it never did.
    pub serves_from: f64,
    /// From when it takes no more, since its service wants fewer, s; NaN if it never did.
    pub drains_from: f64,
    /// Until when, s; the end of the run if it was not over.
    pub end: f64,
    /// Why it ended.
    pub ended: ReplicaEnded,
    /// How long a step or a batch of requests ran on it, s.
    pub busy: f64,
}

/// Why a replica ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ReplicaEnded {
    /// The run was over.
    EndOfRun,
    /// Its service wanted fewer.
    Surplus,
    /// Its server failed.
    Failed,
}

impl ReplicaEnded {
    /// Their names, by number.
    pub const NAMES: [&str; 3] = ["end of run", "surplus", "failed"];
}

/// What happened to requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// Who answered what.
    pub answers: Answers,
    /// By service: how often a request that a replica had taken was given back.
    pub begun_anew: Vec<u64>,
    /// When the run ended, s.
    pub end: f64,
    /// Times at which services are sampled, s.
    pub samples: Vec<f64>,
}

/// What happened to services.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Serving {
    /// In order of their ends, then of their starts.
    pub replicas: Vec<Replica>,
    /// The loads as the run saw them: in order of time, with times of the run's instants. With requests: every change
    /// of what a service wants.
    pub loads: Vec<Load>,
    /// The requests, if there are any.
    pub answered: Option<Answered>,
    /// GPU-seconds that jobs held of the GPUs that services would hold at their largest.
    pub lent: f64,
}

impl Serving {
    /// Converts clock time into seconds.
    pub(super) fn convert_times(&mut self, seconds: &impl Fn(f64) -> f64) {
        for replica in &mut self.replicas {
            let Replica { wanted, start, serves_from, drains_from, end, .. } = replica;
            for time in [wanted, start, serves_from, drains_from, end] {
                *time = seconds(*time);
            }
        }
        self.loads.iter_mut().for_each(|load| load.time = seconds(load.time));
        self.lent = seconds(self.lent);
    }
}
