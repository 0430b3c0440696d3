//! Defines GPU types: which of them a job may run on, and how fast each is for it.
//!
//! Jobs of one kind request the same types, were recorded on the same one, and have the same speed on each. Invariant:
//! a kind names a type once. For example, a job recorded on a V100 (speed 1) that may also use an A100 (speed 2.5) has
//! a recorded speed of 1 and the choices (V100, 1) and (A100, 2.5).

use super::columns::columns;
use crate::ids::GpuType;

columns! {
    /// The kind of every job.
    Types, OwnedTypes;
    /// A place in `kinds`, one per job.
    of: all u32 = "gpu_type";
    =>
    /// The kinds.
    kinds: [Kind] => Vec<Kind>;
}

/// How GPU types differ for a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kind {
    /// The speed of the type on which the job was recorded.
    pub recorded_speed: f64,
    /// That type itself; a number beyond those of the cluster if the cluster has none of it.
    pub recorded_on: GpuType,
    /// The types that it may run on, with their speeds: as the job lists them, or in the order in which they are tried.
    pub allowed: Vec<(GpuType, f64)>,
    /// The first of the kinds that try the same types in the same order.
    pub order: u32,
}

impl Kind {
    /// Returns how fast a type is for the job: (its speed, the recorded speed).
    #[must_use]
    pub fn speed_on(&self, gpu_type: GpuType) -> Option<(f64, f64)> {
        self.allowed.iter().find(|choice| choice.0 == gpu_type).map(|choice| (choice.1, self.recorded_speed))
    }
}
