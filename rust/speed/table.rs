//! Implements model `table`: measured speeds.
//!
//! Work counts iterations. Only measurements count: jobs do not slow each other down, except two shares on one GPU. For
//! example, a job of 1,000 iterations on GPUs where it makes 4 per second runs 250 s.

use super::Speed;
use super::ring::Ring;
use crate::ids::{GpuType, Job};
use crate::trace::{Jobs, RateTable, Rates};
use std::sync::Arc;

/// Work counts iterations. The table gives the time of a unit.
#[derive(Clone, Debug)]
pub(crate) struct TableSpeed {
    pub(crate) table: Arc<RateTable>,
}

/// The key of a stay in the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entry {
    model: u32,
    gpu_type: u32,
    gpus: u32,
    /// The rate beside the others on its GPUs, if that was measured; else NaN.
    beside: f64,
}

impl Speed for TableSpeed {
    const COUPLED: bool = false;
    const COUNTS_ITERATIONS: bool = true;
    const USES_REST_OF_SLOT: bool = true;
    const IS_MEASURED: bool = true;
    type Pace = Entry;

    #[inline]
    fn work(&self, jobs: &Jobs<'_>, job: Job, _slot: Option<f64>) -> f64 {
        jobs.iterations[job.index()] as f64
    }

    fn pace(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType) -> Entry {
        let model = jobs.rates.map_or(0, |rates: Rates<'_>| rates.model_of[job.index()]);
        let recorded = || jobs.kind_of(job).map_or(GpuType::new(0), |kind| kind.recorded_on);
        let of = if gpu_type == GpuType::NONE { recorded() } else { gpu_type };
        Entry { model, gpu_type: of.number(), gpus, beside: f64::NAN }
    }

    fn rate(&self, jobs: &Jobs<'_>, job: Job, gpus: u32, gpu_type: GpuType, servers: u32) -> f64 {
        let entry = self.pace(jobs, job, gpus, gpu_type);
        self.table.rate(entry.model, entry.gpu_type, entry.gpus, servers).unwrap_or(0.0)
    }

    #[inline]
    fn unit(&self, entry: &Entry, servers: u32, _contention: u32) -> f64 {
        let &Entry { model, gpu_type, gpus, beside } = entry;
        if !beside.is_nan() {
            return 1.0 / beside;
        }
        1.0 / self.table.rate(model, gpu_type, gpus, servers).unwrap_or(0.0)
    }

    fn knows_partners(&self) -> bool {
        self.table.has_partners()
    }

    fn meet(&self, entry: &mut Entry, other: Option<&Entry>) -> bool {
        let measured = other.and_then(|other| self.table.rate_beside(entry.model, entry.gpu_type, other.model));
        self.run_at(entry, measured);
        measured.is_some()
    }

    fn run_at(&self, entry: &mut Entry, rate: Option<f64>) {
        entry.beside = rate.unwrap_or(f64::NAN);
    }

    #[inline]
    fn per_slot(&self, _entry: &Entry, slot: f64, unit: f64) -> f64 {
        Ring::per_slot(slot, unit)
    }

    #[inline]
    fn run_time(&self, jobs: &Jobs<'_>, job: Job, servers: u32, contention: u32) -> f64 {
        let entry = self.pace(jobs, job, jobs.num_gpus[job.index()], GpuType::NONE);
        jobs.iterations[job.index()] as f64 * self.unit(&entry, servers, contention)
    }

    #[inline]
    fn remaining(&self, _jobs: &Jobs<'_>, _job: Job, left: f64, alone: f64, _slot: Option<f64>) -> f64 {
        left * alone
    }
}
