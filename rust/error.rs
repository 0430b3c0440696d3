//! Defines errors as values: every variant names the job, field or option at fault.
//!
//! For example, `Oversize` has the job's row, the GPUs that it requests, and the GPUs available.

use std::fmt;

/// What can go wrong between columns in and columns out.
///
/// Rows are positions in the caller's columns, counted from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// A column has another length than the table.
    ColumnLength {
        /// The column's name.
        column: &'static str,
        /// Its length.
        length: usize,
        /// The table's length.
        expected: usize,
    },
    /// A value that the job table's rules forbid.
    Value {
        /// The job's row.
        row: usize,
        /// The column's name.
        column: &'static str,
        /// The value as text.
        value: String,
        /// What was expected.
        expected: &'static str,
    },
    /// An option out of its range, or a name that no registry has.
    Option {
        /// The option's name.
        name: &'static str,
        /// The value as text.
        value: String,
        /// What was expected.
        expected: String,
    },
    /// A job that could never fit.
    Oversize {
        /// The job's row.
        row: usize,
        /// GPUs it requests.
        num_gpus: u32,
        /// GPUs that its cluster, or virtual cluster, has.
        available: u64,
    },
    /// A job of more pods than its servers hold, each of which lies on one server.
    TooManyPods {
        /// The job's row.
        row: usize,
        /// Its pods.
        pods: u32,
        /// GPUs of each.
        pod: u32,
        /// Pods that the servers of its cluster, or virtual cluster, hold.
        available: u64,
    },
    /// A job that its idle cluster could not hold in one group of its tier, or in its segments.
    BeyondTier {
        /// The job's row.
        row: usize,
        /// GPUs it requests.
        num_gpus: u32,
        /// GPUs of each segment; 0 without segments.
        segment: u32,
    },
    /// A job that requests more than its owner may ever hold.
    OverQuota {
        /// The job's row.
        row: usize,
        /// GPUs it requests.
        num_gpus: u32,
        /// GPUs that its owner may hold.
        gpus: u64,
    },
    /// A job that its placement could not place even on the empty cluster.
    Unplaceable {
        /// The job's row.
        row: usize,
        /// GPUs it requests.
        num_gpus: u32,
        /// The placement's name.
        placement: &'static str,
    },
    /// One uncontended iteration takes longer than the slot.
    SlotTooShort {
        /// The job's row.
        row: usize,
        /// Its uncontended iteration time, s.
        tau: f64,
        /// The slot length, s.
        slot: f64,
    },
    /// A job without a measured speed above 0 on any GPU type that it may use.
    NoRate {
        /// The job's row.
        row: usize,
    },
    /// An iteration that takes no time: nothing to compute and nothing to send.
    ZeroIterationTime {
        /// The job's row.
        row: usize,
    },
    /// Nothing can ever change, yet a job is not done.
    Stuck {
        /// The lowest such row.
        row: usize,
        /// Whether it was running (stalled) or queued.
        running: bool,
        /// Time, s.
        time: f64,
    },
    /// Nothing can ever change, and a request is not answered.
    Unanswered {
        /// The first service with such requests.
        service: usize,
        /// Time, s.
        time: f64,
    },
    /// Decisions from outside repeat without effect, and a running job has not reached the end of a pause.
    Paused {
        /// The lowest such row.
        row: usize,
        /// Time, s.
        time: f64,
    },
    /// Nothing can ever change, and a job makes no progress: its rate beside the other job on its GPU is 0.
    Starved {
        /// The lowest such row.
        row: usize,
        /// The other job's row.
        partner: usize,
        /// Time, s.
        time: f64,
    },
    /// The policy ends stay after stay, and none of them keeps any work.
    Livelock {
        /// Number of stays in a row.
        stays: usize,
        /// When the first of them began, and when the last one ended, s.
        since: f64,
        /// See `since`.
        time: f64,
    },
    /// A decision that cannot be carried out.
    Decision {
        /// The job's row.
        row: usize,
        /// The verb's name.
        verb: &'static str,
        /// Time, s.
        time: f64,
        /// Why it is impossible.
        why: String,
        /// The row of the log where it begins, if it comes from one.
        at: Option<usize>,
    },
    /// A plan of no jobs.
    NoJobs,
    /// No schedule ends before the given horizon.
    NoSchedule {
        /// The horizon, slots.
        horizon: u64,
        /// No schedule can end before this many slots.
        work_bound: u64,
        /// A sufficient horizon, slots.
        enough: u64,
    },
    /// A job that stalls in every plan, whatever the horizon.
    NeverEnds {
        /// The job's row.
        row: usize,
    },
    /// The caller asked to stop.
    Interrupted,
}

impl Error {
    /// Returns a stable word for the kind of error.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::ColumnLength { .. } => "column-length",
            Self::Value { .. } => "value",
            Self::Option { .. } => "option",
            Self::Oversize { .. } | Self::TooManyPods { .. } | Self::BeyondTier { .. } => "oversize",
            Self::OverQuota { .. } => "over-quota",
            Self::Unplaceable { .. } => "unplaceable",
            Self::SlotTooShort { .. } => "slot-too-short",
            Self::NoRate { .. } => "no-rate",
            Self::ZeroIterationTime { .. } => "zero-iteration-time",
            Self::Stuck { .. } | Self::Paused { .. } => "stuck",
            Self::Starved { .. } => "starved",
            Self::Unanswered { .. } => "unanswered",
            Self::Livelock { .. } => "futile",
            Self::Decision { .. } => "decision",
            Self::NoJobs => "no-jobs",
            Self::NoSchedule { .. } => "no-schedule",
            Self::NeverEnds { .. } => "stuck",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns the row at fault, if there is one; the place of a service with requests without an answer.
    #[must_use]
    pub fn row(&self) -> Option<usize> {
        match self {
            Self::Unanswered { service, .. } => Some(*service),
            Self::Value { row, .. }
            | Self::Oversize { row, .. }
            | Self::TooManyPods { row, .. }
            | Self::BeyondTier { row, .. }
            | Self::OverQuota { row, .. }
            | Self::Unplaceable { row, .. }
            | Self::SlotTooShort { row, .. }
            | Self::NoRate { row }
            | Self::ZeroIterationTime { row }
            | Self::NeverEnds { row }
            | Self::Decision { row, .. }
            | Self::Starved { row, .. }
            | Self::Paused { row, .. }
            | Self::Stuck { row, .. } => Some(*row),
            _ => None,
        }
    }

    /// Returns the row of a decision log at fault, if there is one.
    #[must_use]
    pub fn log_row(&self) -> Option<usize> {
        if let Self::Decision { at, .. } = self { *at } else { None }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ColumnLength { column, length, expected } => {
                write!(f, "column {column} has {length} values; expected {expected}")
            }
            Self::Value { column, value, expected, .. } => {
                write!(f, "column {column}: {value}: expected {expected}")
            }
            Self::Option { name, value, expected } => {
                write!(f, "option {name}: {value}: expected {expected}")
            }
            Self::Oversize { num_gpus, available, .. } => {
                write!(f, "asks for {num_gpus} GPUs, but its cluster has {available}")
            }
            Self::TooManyPods { pods, pod, available, .. } => {
                let s = if *pods == 1 { "" } else { "s" };
                write!(f, "asks for {pods} pod{s} of {pod} GPUs, but the servers of its cluster hold {available}")
            }
            Self::BeyondTier { num_gpus, segment: 0, .. } => {
                write!(
                    f,
                    "asks for {num_gpus} GPUs in one group of its tier (within_tier), but no group of its cluster has as many"
                )
            }
            Self::BeyondTier { num_gpus, segment, .. } => {
                let parts = num_gpus / segment;
                let s = if parts == 1 { "" } else { "s" };
                write!(f, "asks for {parts} segment{s} of {segment} GPUs, which no region of its cluster could hold")
            }
            Self::OverQuota { num_gpus, gpus, .. } => {
                write!(f, "asks for {num_gpus} GPUs, but its owner's quota is {gpus} and borrows none")
            }
            Self::Unplaceable { num_gpus, placement, .. } => {
                write!(f, "asks for {num_gpus} GPUs, which {placement} cannot place even on the empty cluster")
            }
            Self::SlotTooShort { tau, slot, .. } => {
                write!(f, "one uncontended iteration takes {tau} s, longer than the slot of {slot} s")
            }
            Self::NoRate { .. } => write!(f, "has no measured speed above 0 on any GPU type that it may use"),
            Self::ZeroIterationTime { .. } => write!(f, "one iteration takes no time"),
            Self::Stuck { running: true, time, .. } => {
                write!(
                    f,
                    "makes no progress under contention after {time} s (no iteration fits in a slot) and nothing can change"
                )
            }
            Self::Stuck { running: false, time, .. } => {
                write!(f, "still waits at {time} s, and nothing can change")
            }
            Self::Unanswered { time, .. } => {
                write!(f, "requests have no answer at {time} s, and nothing can change")
            }
            Self::Paused { time, .. } => write!(f, "makes no progress after {time} s and nothing can change"),
            Self::Starved { partner, time, .. } => {
                let number = partner + 1;
                write!(
                    f,
                    "makes no progress after {time} s (its rate beside the job of row {number} on its GPU is 0) and nothing can change"
                )
            }
            Self::Livelock { stays, since, time } => {
                write!(
                    f,
                    "from {since} s to {time} s it ended {stays} stays in a row, and none of them did work that is kept"
                )
            }
            Self::Decision { verb, time, why, .. } => {
                write!(f, "cannot {verb} at {time} s: {why}")
            }
            Self::NoJobs => write!(f, "there is no job to plan"),
            Self::NoSchedule { horizon, work_bound, enough } => {
                write!(
                    f,
                    "no schedule ends before the horizon of {horizon} slots: the work alone takes {work_bound}; a horizon of {enough} would do"
                )
            }
            Self::NeverEnds { .. } => {
                write!(f, "makes no progress under contention (no iteration fits in a slot), whatever the horizon")
            }
            Self::Interrupted => write!(f, "interrupted"),
        }
    }
}

impl std::error::Error for Error {}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
