//! Turns the record into columns: one row per stay of every job, in order of (job, start).
//!
//! Invariant: every stay has a row, including that of a job that ran through once. For example, a job that was
//! preempted once has rows with `stay` 0 and 1, the first `preempted`, the second `resumed` and `done`.

use super::{StayRecord, Why};
use crate::ids::{GpuType, Job};

/// Stays as columns. Times in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stays {
    /// The job's row.
    pub job: Vec<u32>,
    /// Number of the stay within its job, from 0.
    pub stay: Vec<u32>,
    /// Start, s.
    pub start: Vec<f64>,
    /// End, s.
    pub end: Vec<f64>,
    /// GPUs held.
    pub num_gpus: Vec<u32>,
    /// Servers held.
    pub num_servers: Vec<u32>,
    /// GPU type; [`GpuType::NONE`]'s number where all are alike.
    pub gpu_type: Vec<u32>,
    /// Time without progress at its start, s.
    pub pause: Vec<f64>,
    /// Time spent on checkpoints, s.
    pub saving: Vec<f64>,
    /// From when on its GPUs count as its own: before that it is a guest on those of another job, s. Empty where no two
    /// jobs hold the same GPUs.
    pub busy_from: Vec<f64>,
    /// Work done in it, before any loss: iterations, or recorded seconds under `fixed`.
    pub work: Vec<f64>,
    /// The part of `work` lost at its end.
    pub lost: Vec<f64>,
    /// Time that the lost work took, s.
    pub lost_time: Vec<f64>,
    /// How it began: places of `BEGAN`.
    pub began: Vec<u8>,
    /// Why it ended: places of `ENDED`.
    pub ended: Vec<u8>,
    /// What ended it: a job's row, a service, or an outage's row; else the greatest number.
    pub by: Vec<u32>,
    /// What `by` is: places of `BY`.
    pub by_what: Vec<u8>,
    /// Wait before it in which it could have been placed, s.
    pub wait_behind: Vec<f64>,
    /// Wait before it with too few idle GPUs, s.
    pub wait_gpus: Vec<f64>,
    /// Wait before it with enough idle GPUs that could not be used, s.
    pub wait_fragmented: Vec<f64>,
    /// Rest at a rung before it, s.
    pub paused_at_rung: Vec<f64>,
}

/// What may end a stay besides its job and the policy.
pub const BY: [&str; 4] = ["nobody", "job", "service", "outage"];

/// The single stay of a job that ran through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Once {
    pub(crate) row: u32,
    pub(crate) start: f64,
    pub(crate) finish: f64,
    pub(crate) num_gpus: u32,
    pub(crate) num_servers: u32,
    pub(crate) gpu_type: GpuType,
    pub(crate) work: f64,
    pub(crate) waited: (f64, f64),
}

/// The wait before a stay, s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(super) waiting: f64,
    /// The part in which it could have been placed.
    pub(super) behind: f64,
    /// The rest at a rung before it.
    pub(super) rested: f64,
}

/// A stay with the other values of its row.
#[derive(Clone, Copy, Debug)]
struct Row {
    records: StayRecord,
    number: u32,
    began: u8,
    unit: f64,
    behind: f64,
    rested: f64,
}

/// Rows are turned into columns in blocks of this size: few are held twice, and columns grow in runs of values.
const BLOCK: usize = 1024;

/// A table under construction.
#[derive(Debug)]
pub(crate) struct Tabled {
    columns: Stays,
    rows: Vec<Row>,
    /// Whether jobs may hold the same GPUs.
    seats: bool,
    /// The stay of the last row, and its number.
    last: Option<(StayRecord, u32)>,
}

/// Returns the wait not explained by the others. A remainder from rounding alone counts as zero.
pub(super) fn behind(wait: f64, others: (f64, f64)) -> f64 {
    let rest = wait - others.0 - others.1;
    if rest.abs() <= 1e-6 * wait { 0.0 } else { rest }
}

impl Stays {
    fn with_capacity(rows: usize) -> Self {
        Self {
            job: Vec::with_capacity(rows),
            stay: Vec::with_capacity(rows),
            start: Vec::with_capacity(rows),
            end: Vec::with_capacity(rows),
            num_gpus: Vec::with_capacity(rows),
            num_servers: Vec::with_capacity(rows),
            gpu_type: Vec::with_capacity(rows),
            pause: Vec::with_capacity(rows),
            saving: Vec::with_capacity(rows),
            busy_from: Vec::new(),
            work: Vec::with_capacity(rows),
            lost: Vec::with_capacity(rows),
            lost_time: Vec::with_capacity(rows),
            began: Vec::with_capacity(rows),
            ended: Vec::with_capacity(rows),
            by: Vec::with_capacity(rows),
            by_what: Vec::with_capacity(rows),
            wait_behind: Vec::with_capacity(rows),
            wait_gpus: Vec::with_capacity(rows),
            wait_fragmented: Vec::with_capacity(rows),
            paused_at_rung: Vec::with_capacity(rows),
        }
    }
}

impl Once {
    fn as_past(&self) -> StayRecord {
        StayRecord {
            job: Job::new(self.row),
            num_gpus: self.num_gpus,
            num_servers: self.num_servers,
            bandwidth: 0.0,
            gpu_type: self.gpu_type,
            why: Why::Done,
            start: self.start,
            from: self.start,
            end: self.finish,
            saving: 0.0,
            guest: 0.0,
            kept: self.work,
            lost: 0.0,
            lost_time: 0.0,
            waited: self.waited,
            woke: f64::NAN,
        }
    }
}

impl Tabled {
    /// Returns an empty table with room for that many rows.
    /// `seats`: whether jobs may hold the same GPUs.
    pub(crate) fn for_stays(rows: usize, seats: bool) -> Self {
        Self { columns: Stays::with_capacity(rows), rows: Vec::with_capacity(BLOCK), seats, last: None }
    }

    /// Adds the stay of a job that ran through once. `submit`: when it was submitted, s. Returns the wait before it.
    pub(crate) fn push_once(&mut self, once: &Once, submit: f64) -> Wait {
        self.push(&once.as_past(), submit, 1.0)
    }

    /// Adds a stay. The stays of a job follow one another in order of time. `unit`: table units per unit of
    /// work. Returns the wait before it.
    pub(crate) fn push(&mut self, records: &StayRecord, submit: f64, unit: f64) -> Wait {
        let before = self.last.filter(|(before, _)| before.job == records.job);
        let left = before.map_or(submit, |(before, _)| before.end);
        let since = if records.woke.is_nan() { left } else { records.woke };
        let (waiting, rested) = (records.start - since, since - left);
        let behind = behind(waiting, records.waited);
        let number = before.map_or(0, |(_, number)| number + 1);
        let began = before.map_or(0, |(before, _)| before.why.next());
        self.last = Some((*records, number));
        self.rows.push(Row { records: *records, number, began, unit, behind, rested });
        if self.rows.len() == BLOCK {
            self.settle();
        }
        Wait { waiting, behind, rested }
    }

    /// Appends the pending rows to the columns.
    fn settle(&mut self) {
        let (rows, columns) = (&self.rows, &mut self.columns);
        add(&mut columns.job, rows, |row| row.records.job.number());
        add(&mut columns.stay, rows, |row| row.number);
        add(&mut columns.start, rows, |row| row.records.start);
        add(&mut columns.end, rows, |row| row.records.end);
        add(&mut columns.num_gpus, rows, |row| row.records.num_gpus);
        add(&mut columns.num_servers, rows, |row| row.records.num_servers);
        add(&mut columns.gpu_type, rows, |row| row.records.gpu_type.number());
        add(&mut columns.pause, rows, |row| row.records.from.min(row.records.end) - row.records.start);
        add(&mut columns.saving, rows, |row| row.records.saving);
        if self.seats {
            add(&mut columns.busy_from, rows, |row| row.records.start + row.records.guest);
        }
        add(&mut columns.work, rows, |row| (row.records.kept + row.records.lost) * row.unit);
        add(&mut columns.lost, rows, |row| row.records.lost * row.unit);
        add(&mut columns.lost_time, rows, |row| row.records.lost_time);
        add(&mut columns.began, rows, |row| row.began);
        add(&mut columns.ended, rows, |row| row.records.why.code());
        add(&mut columns.by, rows, |row| row.records.why.by().0);
        add(&mut columns.by_what, rows, |row| row.records.why.by().1);
        add(&mut columns.wait_behind, rows, |row| row.behind);
        add(&mut columns.wait_gpus, rows, |row| row.records.waited.0);
        add(&mut columns.wait_fragmented, rows, |row| row.records.waited.1);
        add(&mut columns.paused_at_rung, rows, |row| row.rested);
        self.rows.clear();
    }

    /// Returns the columns of all rows.
    pub(crate) fn done(mut self) -> Stays {
        self.settle();
        self.columns
    }
}

/// Appends one value of each row to a column.
fn add<T>(column: &mut Vec<T>, rows: &[Row], of: impl Fn(&Row) -> T) {
    column.extend(rows.iter().map(of));
}
