//! Records one row per finished stay, with its end reason (docs/results.md#staysparquet).
//!
//! The machine writes a row when a stay ends, in machine time. A job that ran through once, without a pause and on the
//! GPUs it requests, has no row: its row of the job columns describes its single stay. Invariant: the rows of a job are
//! in order of time. For example, a job that was preempted at 50 s and ran again from 80 s to its end at 130 s has two
//! rows, `Preempted` and `Done`.
//!
//! `fold` adds up the rows of each job, `by_job` keeps the sums. `table` turns the rows into columns, including the
//! jobs that ran through once.

mod by_job;
mod fold;
mod table;

use crate::ids::{GpuType, Job};
pub use by_job::SumsByJob;
pub use fold::{Ends, Sums};
pub(crate) use fold::{Scale, StayLog};
pub use table::{BY, Stays};
pub(crate) use table::{Once, Tabled};

/// Why a stay ended, and what ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its job was done.
    Done,
    /// A ranking, a policy's stop or a time slice preempted it.
    Preempted,
    /// The next stay begins at the same instant, on as many other GPUs.
    Moved,
    /// The next stay begins at the same instant, on fewer or more GPUs.
    Resized,
    /// A job of higher priority, or one within its quota, took the GPUs.
    EvictedBy(Job),
    /// A service took the GPUs.
    EvictedFor(u32),
    /// A server failed: the row of its outage.
    Failed(u32),
    /// Its trial waits at a rung, or ended there.
    Rung,
    /// Its job reached its time limit.
    Limit,
    /// A verb ended its job while it ran.
    Dropped,
    /// A verb ended it and another one of the same instant took that back: it continued.
    Void,
}

/// Names of the end reasons, by `Why::code`.
pub const ENDED: [&str; 9] = ["done", "preempted", "moved", "resized", "evicted", "failed", "rung", "limit", "dropped"];

/// How a stay began, by `Why::next`.
pub const BEGAN: [&str; 5] = ["first", "resumed", "restarted", "moved", "resized"];

impl Why {
    /// Returns its place in `ENDED`.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done | Self::Void => 0,
            Self::Preempted => 1,
            Self::Moved => 2,
            Self::Resized => 3,
            Self::EvictedBy(_) | Self::EvictedFor(_) => 4,
            Self::Failed(_) => 5,
            Self::Rung => 6,
            Self::Limit => 7,
            Self::Dropped => 8,
        }
    }

    /// Returns what ended it: a job's row, a service, an outage's row, or the greatest number; and which of these it
    /// is, as a place in `BY`.
    pub(crate) fn by(self) -> (u32, u8) {
        match self {
            Self::EvictedBy(job) => (job.number(), 1),
            Self::EvictedFor(service) => (service, 2),
            Self::Failed(outage) => (outage, 3),
            _ => (u32::MAX, 0),
        }
    }

    /// Returns how the job's next stay begins, as a place in `BEGAN`.
    pub(crate) fn next(self) -> u8 {
        match self {
            Self::Failed(_) => 2,
            Self::Moved => 3,
            Self::Resized => 4,
            _ => 1,
        }
    }
}

/// A stay that is over. Times in machine time, waits in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StayRecord {
    pub(crate) job: Job,
    pub(crate) num_gpus: u32,
    pub(crate) num_servers: u32,
    /// Its bandwidth, bytes/s, if it had been alone and without uplinks; 0 where equation 7 gives it.
    pub(crate) bandwidth: f64,
    pub(crate) gpu_type: GpuType,
    pub(crate) why: Why,
    pub(crate) start: f64,
    /// When progress began: after the pause.
    pub(crate) from: f64,
    pub(crate) end: f64,
    /// Time spent on checkpoints.
    pub(crate) saving: f64,
    /// Time as a guest on GPUs that another job held already, from its start on.
    pub(crate) guest: f64,
    /// Work done in it that was kept, and work that was lost at its end.
    pub(crate) kept: f64,
    pub(crate) lost: f64,
    /// Seconds that the lost work took.
    pub(crate) lost_time: f64,
    /// The wait before it: with too few idle GPUs, and with enough that could not be used.
    pub(crate) waited: (f64, f64),
    /// When that wait began, if the job rested at a rung before; else NaN.
    pub(crate) woke: f64,
}

impl StayRecord {
    /// Returns a stay of no length, which does not count.
    pub(crate) fn of_no_length(job: Job, why: Why, now: f64) -> Self {
        Self {
            job,
            num_gpus: 0,
            num_servers: 0,
            bandwidth: 0.0,
            gpu_type: GpuType::NONE,
            why,
            start: now,
            from: now,
            end: now,
            saving: 0.0,
            guest: 0.0,
            kept: 0.0,
            lost: 0.0,
            lost_time: 0.0,
            waited: (0.0, 0.0),
            woke: f64::NAN,
        }
    }

    /// Returns whether it ran through without a pause, on that many GPUs, and was nobody's guest.
    pub(crate) fn is_all_of_its_job(&self, num_gpus: u32) -> bool {
        let rests = self.from > self.start || self.saving > 0.0 || self.guest > 0.0;
        self.why == Why::Done && !rests && self.num_gpus == num_gpus
    }

    /// Returns whether it counts: it had a length, or ended with its job, at its limit or at a rung.
    pub(crate) fn counts(&self) -> bool {
        self.why != Why::Void && (self.end > self.start || matches!(self.why, Why::Done | Why::Limit | Why::Rung))
    }
}
