//! Declares the columns of the job table, each once: those of the file, and those that the engine reads.
//!
//! Python and the documentation describe a column of the file from its row in `TABLE`. The engine handles each of its
//! columns (borrow, own, gather, count, check) from its line in `job_columns`. For example, a column that may be absent
//! is a row of `TABLE` and a line such as `priority: maybe i32 = "priority"`.

use crate::error::{Error, Result};
use std::fmt::Debug;

/// Beyond it float64 cannot tell seconds apart; such times are probably in a shorter unit.
const MOST_SECONDS: u64 = 10_000_000_000_000_000;
/// Largest iteration count whose float64 form is exact.
pub const MAX_ITERATIONS: u64 = 1 << 53;

/// A column of the job table's file.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// The type of its values: text, bool, u32, u64, i32 or f64.
    pub dtype: &'static str,
    /// Whether every table has it, with a value in each row.
    pub required: bool,
    /// Completes "expected ...".
    pub rule: &'static str,
    /// How to mend a bad value. `{empty}` stands for how a value is left out.
    pub mend: &'static str,
    /// The unit of its values.
    pub unit: &'static str,
    /// Its description in docs/job-table.md.
    pub about: &'static str,
    /// The least value.
    pub low: f64,
    /// Whether `low` itself is too low.
    pub above: bool,
    /// The greatest value, if there is one.
    pub high: Option<u64>,
    /// Whether infinity is a value.
    pub endless: bool,
    /// The value that the engine reads if the table has none; `None` if that depends on more than the column.
    pub absent: Option<f64>,
}

impl Column {
    const fn new(name: &'static str, dtype: &'static str, rule: &'static str) -> Self {
        Self {
            name,
            dtype,
            required: false,
            rule,
            mend: "",
            unit: "",
            about: "",
            low: f64::NEG_INFINITY,
            above: false,
            high: None,
            endless: false,
            absent: None,
        }
    }

    const fn text(name: &'static str) -> Self {
        Self { mend: "store {name} as text, or leave it out", ..Self::new(name, "text", "text or nothing") }
    }

    const fn count(name: &'static str, rule: &'static str) -> Self {
        Self { low: 1.0, high: Some(u32::MAX as u64), ..Self::new(name, "u32", rule) }
    }

    const fn number(name: &'static str, rule: &'static str) -> Self {
        Self::new(name, "f64", rule)
    }

    const fn required(self) -> Self {
        Self { required: true, ..self }
    }

    const fn at_least(self, low: f64) -> Self {
        Self { low, ..self }
    }

    const fn above(self, low: f64) -> Self {
        Self { low, above: true, ..self }
    }

    const fn at_most(self, high: u64) -> Self {
        Self { high: Some(high), ..self }
    }

    const fn or_infinity(self) -> Self {
        Self { endless: true, ..self }
    }

    const fn or(self, absent: f64) -> Self {
        Self { absent: Some(absent), ..self }
    }

    const fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    const fn rule(self, rule: &'static str) -> Self {
        Self { rule, ..self }
    }

    const fn mend(self, mend: &'static str) -> Self {
        Self { mend, ..self }
    }

    const fn about(self, about: &'static str) -> Self {
        Self { about, ..self }
    }
}

const FILLED: &str = "mend it, or {empty} to have it filled from the model profile";
const RIGID: &str = "{empty} for a job that runs on num_gpus GPUs only";

/// The columns of a job table's file, in its order.
#[rustfmt::skip]
pub const TABLE: &[Column] = &[
    Column::text("job_id").required().about("not empty, unique")
        .rule("a non-empty text, unique in the table").mend("give every job its own id"),
    Column::number("submit_time", "a finite number of seconds >= 0").required().at_least(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("count seconds (not milliseconds or less) from the trace's epoch, or drop the job")
        .about(">= 0 and at most 1e16 (beyond it float64 holds no single seconds), counted from the trace's epoch"),
    Column::count("num_gpus", "an integer >= 1").required().mend("give the number of GPUs the job asked for").about(">= 1"),
    Column::number("duration", "a finite number of seconds > 0").required().above(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("give the recorded run time in seconds, or drop the job").about("> 0 and at most 1e16: the recorded run time"),
    Column::text("user").about("who submitted"),
    Column::text("vc").about("virtual cluster; counts only where the cluster's servers name one ([cluster](cluster.md))"),
    Column::text("status").about("how the job ended, in the trace's own words"),
    Column::text("model").about("a name of the [model catalogue](profiles.md) picks that entry; others are carried along"),
    Column::text("gpu_type").about(
        "the [GPU types](heterogeneous.md) on which it may run, separated by `\\|`; empty: any. Counts only where the cluster's \
         servers name types"),
    Column::text("recorded_on").about(
        "the GPU type on which its run time and compute time were recorded; empty: `[recorded] gpu_type` of the cluster file, \
         else the first of gpu_type that the cluster has, else the cluster's first type"),
    Column::number("recorded_start", "a finite number of seconds >= 0").at_least(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("count from the same epoch as submit_time, or {empty} where the start is unknown")
        .about("from submit_time to 1e16, on its clock: when the job started in the log; read by `--policy recorded`"),
    Column::number("recorded_end", "a finite number of seconds >= 0").at_least(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("count from the same epoch as submit_time, or {empty} where the end is unknown")
        .about("from 0 to 1e16, on the same clock: when the job ended there; no run reads it"),
    Column::text("recorded_servers").about(
        "the servers that it held there and the GPUs of each, `0:4 3:4` or `gpu01:4 gpu04:4`, num_gpus in all; \
         empty: unknown. Read by `--policy recorded`"),
    Column::new("iterations", "u64", "an integer >= 1").at_least(1.0).at_most(MAX_ITERATIONS).mend(FILLED).about("F_j, 1 to 2^53"),
    Column::number("gradient_bytes", "a finite number of bytes >= 0").at_least(0.0).unit("bytes").mend(FILLED)
        .about("m_j, finite, >= 0: what each worker contributes to an all-reduce"),
    Column::count("batch_size", "an integer >= 1").mend(FILLED).about("M_j >= 1: samples per iteration on one GPU; empty: 1"),
    Column::number("fp_time", "a finite number of seconds >= 0").at_least(0.0).unit("s").mend(FILLED)
        .about("forward pass per sample, finite, >= 0"),
    Column::number("bp_time", "a finite number of seconds >= 0").at_least(0.0).unit("s").mend(FILLED)
        .about("backward pass per iteration, finite, >= 0"),
    Column::number("deadline", "a finite number of seconds").unit("s")
        .mend("count from the same epoch as submit_time, or {empty}").about("finite, on the clock of submit_time"),
    Column::count("min_gpus", "an integer from 1 to num_gpus").mend(RIGID).about(
        "from 1 to num_gpus; empty: num_gpus. The fewest GPUs that an elastic job may hold \
         ([who uses it](custom-policies.md#elastic-jobs))"),
    Column::count("max_gpus", "an integer >= num_gpus").mend(RIGID).about(">= num_gpus; empty: num_gpus. The most GPUs that it may hold"),
    Column::count("gpus_per_pod", "an integer >= 1 that divides num_gpus").mend("{empty} for a job whose GPUs may lie anywhere").about(
        ">= 1, divides num_gpus; empty: 1. The job is num_gpus / gpus_per_pod [pods](placements.md#pods), each on one server. Above \
         1: no gpu_share, no min_gpus or max_gpus other than num_gpus"),
    Column::text("within_tier").mend("name a tier of the cluster file, or server, or {empty}").about(
        "a tier, or `server`: the job waits until one group of [that tier](tiers.md#placement), or of a lower one, holds it; with \
         `?` at its end a wish of jobs with segments; empty: it may lie anywhere. Needs `--placement compact`"),
    Column::count("segment", "an integer >= 1 that divides num_gpus").mend("{empty} for a job without segments").about(
        ">= 1, divides num_gpus: GPUs of each [segment](tiers.md#placement), which lies in one group of segment_tier. Rigid jobs \
         only, beside segment_tier alone; needs `--placement compact`"),
    Column::text("segment_tier").mend("name a tier of the cluster file, or server, or {empty}")
        .about("the tier of segments, or `server`"),
    Column::number("intensity", "a number").at_least(0.0).at_most(1_000_000).or(1.0).mend("{empty} for 1")
        .about(
            "from 0 to 1e6: how much of a contender the job is to others on a [link](tiers.md#contention), rounded to \
             thousandths; empty: 1"),
    Column::number("noise_scale", "a number of samples >= 0, or inf").at_least(0.0).or_infinity().unit("samples")
        .mend("{empty} for a job of which every sample counts in full")
        .about(
            ">= 0 or inf: the [gradient noise scale](model.md#statistical-efficiency) phi, which says what more GPUs are worth \
             to an elastic job; empty: infinite, every sample counts in full"),
    Column::number("gpu_share", "a share of one GPU > 0").above(0.0).at_most(1)
        .mend("give the part of a GPU that the job asks for, or {empty} for whole GPUs")
        .about("in (0, 1], only where num_gpus is 1: the [share of one GPU](shares.md), in thousandths; empty: whole GPUs"),
    Column::number("gpu_memory_mib", "a finite number of MiB >= 0").at_least(0.0).unit("MiB")
        .mend("give the memory that the job takes on each of its GPUs, or {empty} where it is unknown")
        .about(
            ">= 0: the memory that the job takes on each of its GPUs. Jobs that [share their GPUs](lucid.md) must fit together; \
             empty: unknown, and then it is not asked"),
    Column::number("estimated_duration", "a finite number of seconds > 0").above(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("give the estimated run time in seconds, or {empty} for the predictor's")
        .about("> 0 and at most 1e16: the run time by which [`lucid`](lucid.md) orders jobs; empty: that of the predictor of `qssf`"),
    Column::new("colocation_score", "u32", "0, 1 or 2").at_least(0.0).at_most(2).mend("{empty} for what the measured pairs say")
        .about(
            "0, 1 or 2: how much the job suffers beside others, from little to much ([`lucid`](lucid.md)); empty: by the mean of its \
             measured pairs"),
    Column::number("checkpoint_interval", "a number of seconds >= 0, or inf").at_least(0.0).or_infinity().or(f64::NAN).unit("s")
        .mend("{empty} for that of --checkpoint-interval")
        .about(
            ">= 0 or inf: seconds of progress between [checkpoints](outages.md#what-an-outage-does); empty: that of \
             `--checkpoint-interval`"),
    Column::number("preempt_cost", "a number of seconds >= 0 and <= 1e9").at_least(0.0).at_most(1_000_000_000).or(f64::NAN).unit("s")
        .mend("{empty} for that of --preempt-cost")
        .about(
            ">= 0 and at most 1e9: seconds for which the job [pauses](policies.md#how-preemption-works) when it resumes, and when \
             it moves or is resized unless `--move-cost` or `--resize-cost` is given; empty: that of `--preempt-cost`"),
    Column::number("time_limit", "a number of seconds > 0, or inf").above(0.0).or_infinity().or(f64::INFINITY).unit("s")
        .mend("give the longest time that the job may hold its GPUs, or {empty} for none")
        .about(
            "> 0 or inf: the longest time that the job may hold GPUs, over all its stays; empty: none. Read by `--estimate limit` \
             and `--enforce-limits` ([time limits](operators.md#time-limits))"),
    Column::new("priority", "i32", "an integer from -2147483648 to 2147483647").at_least(i32::MIN as f64).at_most(i32::MAX as u64)
        .or(0.0).mend("{empty} for priority 0").about("[priority](priorities.md), higher goes first; empty: 0"),
    Column::new("preemptible", "bool", "true or false").or(1.0).mend("{empty} for true")
        .about("`true` or `false`: whether the job may be [evicted](priorities.md#eviction); empty: true"),
    Column::text("after").mend("name the job by its job_id, or {empty}").about(
        "the job_id of another row: the job [arrives after](chains.md) that one is gone; empty: at submit_time"),
    Column::number("think_time", "a finite number of seconds >= 0").at_least(0.0).at_most(MOST_SECONDS).unit("s")
        .mend("give the seconds from the end of the job named by after, or {empty}").about(
            ">= 0 and at most 1e16, only beside after: from the end of that job to the arrival, whatever submit_time says; \
             empty: the later of that end and submit_time"),
    Column::text("group").about(
        "the [search](searches.md) of which the job is a trial; empty: none. Counts only with `--search`"),
];

/// Columns that the engine reads in another form than the file has them.
const DERIVED: &[Column] = &[
    Column::number("compute_time", "a finite number of seconds >= 0").at_least(0.0),
    Column::new("gpu_share", "u32", "fewer than 1,000 thousandths of a GPU").at_most(crate::ids::MILLI_GPU as u64 - 1),
];

/// Passes the engine's columns to a macro: `all` columns have a value in every row, `maybe` columns may be absent, a
/// `group` is several columns that belong together. After each, its name in errors.
macro_rules! job_columns {
    ($made:ident) => {
        $made! {
            /// Submission times, s; any order.
            submit: all f64 = "submit_time";
            /// Gang sizes G_j, GPUs.
            num_gpus: all u32 = "num_gpus";
            /// Recorded run times, s (model `fixed`).
            duration: all f64 = "duration";
            /// Iterations F_j (models `rar` and `table`).
            iterations: all u64 = "iterations";
            /// Gradient sizes m_j, bytes (model `rar`).
            gradient_bytes: all f64 = "gradient_bytes";
            /// Compute time per iteration, Delta^f_j M_j + Delta^b_j, s (model `rar`).
            compute_time: all f64 = "compute_time";
            /// The least and the most GPUs that a job may hold; `None` where every job takes exactly `num_gpus`.
            range: group Range = "range";
            /// How gangs may lie: their pods, tiers and segments; `None` where GPUs may lie anywhere.
            forms: group Forms = "form";
            /// The value of more samples at once to elastic jobs; `None` where each counts in full.
            noise: group Noise = "noise";
            /// The GPU types that jobs may run on; `None` where all GPUs are alike to every job.
            types: group Types = "types";
            /// Measured speeds (model `table`).
            rates: group Rates = "rates";
            /// What decides who may share GPUs, and how fast two jobs are there; `None` where every job has its GPUs to
            /// itself.
            pairing: group Pairing = "pairing";
            /// How much of a contender each job is to others on a link; `None` where each is 1.
            intensity: maybe f64 = "intensity";
            /// Thousandths of one GPU that a job requests, 0 for whole GPUs; `None` where no job requests a share.
            shares: maybe u32 = "gpu_share";
            /// Priorities, higher first; `None` where all jobs have the same.
            priority: maybe i32 = "priority";
            /// Whether jobs may be evicted; `None` where all may.
            preemptible: maybe bool = "preemptible";
            /// Seconds for which jobs may hold GPUs, infinite for a job without a limit; `None` where no job has one.
            time_limit: maybe f64 = "time_limit";
            /// Seconds of progress between two checkpoints, NaN where the option gives it; `None` where the option
            /// gives it for all.
            checkpoint_interval: maybe f64 = "checkpoint_interval";
            /// What a resumed job pays, s without progress, NaN where the option gives it; `None` where the option gives
            /// it for all.
            preempt_cost: maybe f64 = "preempt_cost";
            /// The jobs after which others arrive; `None` where no job depends on another.
            chains: group Chains = "after";
            /// The searches that jobs are trials of; `None` for a run without searches.
            trials: group Trials = "trials";
        }
    };
}
pub(crate) use job_columns;

/// Columns that are borrowed, and their owned form.
pub trait Columns<'a>: Copy {
    /// The same values, owned.
    type Owned: Clone + Debug + Default;

    /// Returns a copy that owns its values.
    fn to_owned(self) -> Self::Owned;

    /// Returns the values of `owned`, borrowed.
    fn of(owned: &'a Self::Owned) -> Self;

    /// Copies the chosen rows, in the order given.
    fn gather(self, rows: &[u32]) -> Self::Owned;

    /// Passes every column with its name to `to`, and whether a row may have no value (NaN).
    fn show(
        self,
        name: &'static str,
        absent: bool,
        to: &mut dyn FnMut(&'static str, &dyn Values, bool) -> Result<()>,
    ) -> Result<()>;
}

/// The values of one column.
pub trait Values {
    /// Returns the number of values.
    fn count(&self) -> usize;

    /// Returns the first value that breaks the rule, and its row. `absent`: whether NaN stands for no value.
    fn first_fault(&self, rule: &Column, absent: bool) -> Option<(usize, String)>;
}

/// A value of a column.
pub trait Value: Copy + Debug {
    /// Returns whether it is within the column's bounds. `absent`: whether NaN stands for no value.
    fn is_within(self, rule: &Column, absent: bool) -> bool;
}

impl Value for f64 {
    fn is_within(self, rule: &Column, absent: bool) -> bool {
        let low = if rule.above { self > rule.low } else { self >= rule.low };
        let high = rule.high.map_or(self < Self::INFINITY, |high| self <= high as Self);
        (low && (high || (rule.endless && self == Self::INFINITY))) || (absent && self.is_nan())
    }
}

macro_rules! integers {
    ($($integer:ty)*) => {$(
        impl Value for $integer {
            fn is_within(self, rule: &Column, _absent: bool) -> bool {
                i128::from(self) >= rule.low as i128 && rule.high.is_none_or(|high| i128::from(self) <= i128::from(high))
            }
        }
    )*};
}
integers! { u32 u64 i32 bool }

impl<T: Value> Values for &[T] {
    fn count(&self) -> usize {
        self.len()
    }

    fn first_fault(&self, rule: &Column, absent: bool) -> Option<(usize, String)> {
        let row = self.iter().position(|value| !value.is_within(rule, absent))?;
        Some((row, format!("{:?}", self[row])))
    }
}

impl<'a, T: Value> Columns<'a> for &'a [T] {
    type Owned = Vec<T>;

    fn to_owned(self) -> Vec<T> {
        self.to_vec()
    }

    fn of(owned: &'a Vec<T>) -> Self {
        owned
    }

    fn gather(self, rows: &[u32]) -> Vec<T> {
        // A column that the model does not read is empty.
        if self.is_empty() { Vec::new() } else { rows.iter().map(|&row| self[row as usize]).collect() }
    }

    fn show(
        self,
        name: &'static str,
        absent: bool,
        to: &mut dyn FnMut(&'static str, &dyn Values, bool) -> Result<()>,
    ) -> Result<()> {
        to(name, &self, absent)
    }
}

impl<'a, C: Columns<'a>> Columns<'a> for Option<C> {
    type Owned = Option<C::Owned>;

    fn to_owned(self) -> Self::Owned {
        self.map(C::to_owned)
    }

    fn of(owned: &'a Self::Owned) -> Self {
        owned.as_ref().map(C::of)
    }

    fn gather(self, rows: &[u32]) -> Self::Owned {
        self.map(|columns| columns.gather(rows))
    }

    fn show(
        self,
        name: &'static str,
        _absent: bool,
        to: &mut dyn FnMut(&'static str, &dyn Values, bool) -> Result<()>,
    ) -> Result<()> {
        self.map_or(Ok(()), |columns| columns.show(name, true, to))
    }
}

/// Checks that every column has `rows` values, and that each value follows its rule. Skips the columns named in
/// `unread`.
///
/// # Errors
/// `ColumnLength` or `Value`, for the lowest offending row of the first offending column.
pub(super) fn check<'a>(columns: impl Columns<'a>, rows: usize, unread: &[&str]) -> Result<()> {
    columns.show("", false, &mut |column, values, _| {
        let length = values.count();
        let good = length == rows || unread.contains(&column);
        if good { Ok(()) } else { Err(Error::ColumnLength { column, length, expected: rows }) }
    })?;
    columns.show("", false, &mut |column, values, absent| {
        let named = |rule: &&Column| rule.name == column && !unread.contains(&column);
        let Some(rule) = DERIVED.iter().chain(TABLE).find(named) else { return Ok(()) };
        match values.first_fault(rule, absent) {
            None => Ok(()),
            Some((row, value)) => Err(Error::Value { row, column, value, expected: rule.rule }),
        }
    })
}

/// Makes a struct of borrowed columns and one that owns them. After `=>`: data that is not per row.
macro_rules! columns {
    (
        $(#[$doc:meta])* $name:ident, $owned:ident;
        $($(#[$about:meta])* $field:ident: $form:ident $kind:ident = $column:literal;)*
        $(=> $(#[$more:meta])* $other:ident: $shared:ty => $kept:ty;)?
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'a> {
            $($(#[$about])* pub $field: columns!(@view 'a $form $kind),)*
            $($(#[$more])* pub $other: &'a $shared,)?
        }

        /// The same columns, owned.
        #[derive(Clone, Debug, Default)]
        pub struct $owned {
            $($(#[$about])* pub $field: <columns!(@view 'static $form $kind) as $crate::trace::Columns<'static>>::Owned,)*
            $($(#[$more])* pub $other: $kept,)?
        }

        impl<'a> $crate::trace::Columns<'a> for $name<'a> {
            type Owned = $owned;

            fn to_owned(self) -> $owned {
                $owned {
                    $($field: $crate::trace::Columns::to_owned(self.$field),)*
                    $($other: ToOwned::to_owned(self.$other),)?
                }
            }

            fn of(owned: &'a $owned) -> Self {
                Self { $($field: $crate::trace::Columns::of(&owned.$field),)* $($other: &owned.$other,)? }
            }

            fn gather(self, rows: &[u32]) -> $owned {
                $owned {
                    $($field: $crate::trace::Columns::gather(self.$field, rows),)*
                    $($other: ToOwned::to_owned(self.$other),)?
                }
            }

            fn show(
                self,
                _name: &'static str,
                _absent: bool,
                to: &mut dyn FnMut(&'static str, &dyn $crate::trace::Values, bool) -> $crate::error::Result<()>,
            ) -> $crate::error::Result<()> {
                $($crate::trace::Columns::show(self.$field, $column, false, to)?;)*
                Ok(())
            }
        }

        impl $owned {
            /// Returns the columns, borrowed.
            #[must_use]
            pub fn view(&self) -> $name<'_> {
                $crate::trace::Columns::of(self)
            }
        }
    };
    (@view $a:lifetime all $kind:ty) => { &$a [$kind] };
    (@view $a:lifetime maybe $kind:ty) => { Option<&$a [$kind]> };
    (@view $a:lifetime group $kind:ident) => { Option<$kind<$a>> };
}
pub(crate) use columns;
