//! Holds who crossed the uplinks of a network of tiers from when to when, and what the uplinks carried.
//!
//! Invariant: the parts of all stays of a log lie one after another, in order of its stays. For example, the first stay
//! on two servers has parts 0 and 1.

use crate::ids::{Job, Server};
use crate::speed::Ring;

/// A stay that spanned. Machine times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spanned {
    pub(crate) start: f64,
    /// When its progress began: after the pause.
    pub(crate) from: f64,
    pub(crate) end: f64,
    /// Seconds of progress between two checkpoints; infinity where they take no time.
    pub(crate) every: f64,
    /// Its ring, where bandwidth says how long an iteration takes.
    pub(crate) ring: Option<Ring>,
}

/// What an uplink carried, exact over time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Carried {
    pub(crate) bytes: f64,
    /// The most bytes/s.
    pub(crate) most: f64,
}

/// The stays that spanned, in order of their ends, and what uplinks carried.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkLog {
    /// Whether there are tiers.
    pub(crate) is_kept: bool,
    /// Whether a checkpoint may end within a slot.
    pub(crate) rests_to_the_second: bool,
    pub(crate) stays: Vec<(Job, Spanned)>,
    /// The first part of each stay.
    first: Vec<u32>,
    parts: Vec<(Server, u32)>,
    /// By uplink, in order of (tier from below, group); empty where bandwidth does not matter.
    pub(crate) carried: Vec<Carried>,
    /// GPU-seconds that the uplinks of each tier cost.
    pub(crate) lost: Vec<f64>,
}

impl LinkLog {
    pub(crate) fn new(tiers: usize, rests_to_the_second: bool) -> Self {
        Self { is_kept: tiers > 0, rests_to_the_second, lost: vec![0.0; tiers], ..Self::default() }
    }

    /// Adds a stay that is over.
    pub(crate) fn push(&mut self, job: Job, parts: &[(Server, u32)], stay: Spanned) {
        self.first.push(self.parts.len() as u32);
        self.parts.extend_from_slice(parts);
        self.stays.push((job, stay));
    }

    /// Removes the latest stay of a job, which goes on.
    pub(crate) fn forget(&mut self, job: Job) {
        let Some(at) = self.stays.iter().rposition(|stay| stay.0 == job) else { return };
        let (first, count) = (self.first[at] as usize, self.parts(at).len());
        self.parts.drain(first..first + count);
        self.stays.remove(at);
        self.first.remove(at);
        self.first[at..].iter_mut().for_each(|first| *first -= count as u32);
    }

    /// Returns the servers of a stay, and its GPUs on each.
    pub(crate) fn parts(&self, at: usize) -> &[(Server, u32)] {
        let end = self.first.get(at + 1).map_or(self.parts.len(), |&end| end as usize);
        &self.parts[self.first[at] as usize..end]
    }
}

/// What the uplinks of a run carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    /// In order of (time, virtual cluster, tier from below, group).
    pub rows: Vec<LinkRow>,
    /// One per tier, from below.
    pub tiers: Vec<Busiest>,
}

/// An uplink from a sample on, where it differs from the sample before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRow {
    /// The virtual cluster; 0 without them.
    pub vc: u32,
    /// The tier, from below.
    pub tier: u32,
    /// The group whose uplink it is.
    pub group: u32,
    /// The sample's time, s.
    pub time: f64,
    /// Jobs that cross it.
    pub jobs: u32,
    /// Their flows.
    pub flows: u64,
    /// Bytes/s that cross it.
    pub rate: f64,
}

/// The uplink of a tier with the greatest mean load, and what the tier cost.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Busiest {
    /// Its virtual cluster; 0 without them.
    pub vc: u32,
    /// The group whose uplink it is.
    pub group: u32,
    /// Bytes/s that crossed it on average, from the first start to the last finish, by its bandwidth.
    pub mean_share: f64,
    /// The most bytes/s that crossed it, by its bandwidth.
    pub largest_share: f64,
    /// GPU-hours that the uplinks of the tier cost.
    pub gpu_hours_lost: f64,
}
