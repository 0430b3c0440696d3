//! Defines the settings of a run, and the registries that name their choices.
//!
//! `table` declares each option once, `entry` describes an option, `setting` gets and sets its value.

mod entry;
mod facts;
mod files;
mod search;
mod setting;
mod table;
mod together;

use crate::error::{Error, Result};

pub use entry::{Entry, Kind, Range, Users};
pub(crate) use facts::Named;
pub use facts::{Facts, Feature, Is};
pub use search::Search;
pub(crate) use setting::Setting;
pub use setting::{Table, Value};
pub use table::{Options, PlanOptions, commands};

/// A closed set of named choices: the registry of one kind of setting.
macro_rules! registry {
    ($(#[$doc:meta])* $name:ident, $option:literal { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every choice, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The names of all choices.
            pub const NAMES: &'static [&'static str] = &[$($text),+];

            /// Returns the name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the choice of that name.
            ///
            /// # Errors
            /// `Option` if no choice has it.
            pub fn parse(text: &str) -> Result<Self> {
                Self::ALL.iter().copied().find(|c| c.name() == text).ok_or_else(|| Error::Option {
                    name: $option,
                    value: text.to_owned(),
                    expected: format!("one of {}", Self::NAMES.join(", ")),
                })
            }
        }

        impl $crate::options::Setting for $name {
            fn value(&self) -> $crate::options::Value {
                $crate::options::Value::Text(self.name().to_owned())
            }

            fn of(value: &$crate::options::Value) -> Option<Self> {
                if let $crate::options::Value::Text(name) = value { Self::parse(name).ok() } else { None }
            }
        }
    };
}

pub(crate) use registry;

registry!(
    /// Queue orders (docs/placements.md#orders).
    Order, "order" {
        /// By (submit_time, row).
        Fifo => "fifo",
        /// By estimated run time, then fifo.
        Sjf => "sjf",
        /// By num_gpus, then fifo.
        Smallest => "smallest",
        /// By predicted GPU time, then fifo (QSSF, the Helios paper).
        Qssf => "qssf",
        /// By recent use of their owner, then fifo.
        Fairshare => "fairshare",
        /// By a number from a column, least first.
        Column => "column",
    }
);

registry!(
    /// Queue disciplines (docs/model.md#queue-disciplines).
    Discipline, "queue" {
        /// Stop at the first job that cannot be placed.
        Strict => "strict",
        /// Try every queued job in order.
        Skip => "skip",
        /// EASY backfilling.
        Easy => "easy",
        /// Conservative backfilling.
        Conservative => "conservative",
    }
);

registry!(
    /// Placements (docs/placements.md).
    Placement, "placement" {
        /// The first idle GPUs by (server, GPU).
        FirstFit => "first-fit",
        /// The Helios simulator's rule: best fit, never spread below a server's size.
        Consolidate => "consolidate",
        /// The server, or the GPU, with the least room that is enough.
        BestFit => "best-fit",
        /// The server, or the GPU, with the most room.
        WorstFit => "worst-fit",
        /// The servers with the fewest idle GPUs, as many as needed.
        Binpack => "binpack",
        /// The lowest tier that holds it, there the group with the fewest idle GPUs, and so down to a server.
        Compact => "compact",
        /// The servers with the most idle GPUs, as many as needed.
        Emptiest => "emptiest",
        /// Where fragmentation rises least.
        Fgd => "fgd",
        /// The idle GPUs with least accumulated time.
        LeastLoaded => "least-loaded",
        /// Uniform without replacement from the idle GPUs.
        Random => "random",
        /// Fragment-aware first-fit packing (Algorithm 2).
        FaFfp => "fa-ffp",
        /// Least-busy server-GPU first (Algorithm 3).
        Lbsgf => "lbsgf",
        /// FA-FFP up to kappa GPUs, LBSGF above.
        SjfBco => "sjf-bco",
    }
);

registry!(
    /// Readings of Algorithms 2 and 3 (docs/paper.md#the-planner).
    Variant, "variant" {
        /// What the paper's prose describes.
        Practical => "practical",
        /// The algorithms' lines as printed.
        Literal => "literal",
    }
);

registry!(
    /// Which jobs are evicted first (docs/priorities-reference.md#eviction).
    Victims, "victims" {
        /// Those that lose least work, then those with the fewest GPUs.
        Least => "least",
        /// Those that started last.
        Youngest => "youngest",
    }
);

registry!(
    /// The order inside a queue by attained service (docs/policies.md#how-preemption-works).
    Within, "within" {
        /// By (submit_time, row).
        Fifo => "fifo",
        /// A stable list: running jobs before others.
        List => "list",
    }
);

registry!(
    /// Execution models (docs/model.md#contention).
    Model, "model" {
        /// Ring-all-reduce with contention.
        Rar => "rar",
        /// Every job runs exactly its recorded duration.
        Fixed => "fixed",
        /// Measured speeds.
        Table => "table",
    }
);

registry!(
    /// Clocks (docs/model.md#clocks).
    ClockKind, "clock" {
        /// Fluid progress.
        Continuous => "continuous",
        /// Decisions at multiples of the slot, whole iterations per slot.
        Slot => "slot",
    }
);

registry!(
    /// What to do with jobs that could never fit (docs/model.md#one-instant).
    Oversize, "oversize" {
        /// Refuse the run.
        Error => "error",
        /// Leave them out and count them.
        Drop => "drop",
    }
);

registry!(
    /// How jobs share the links that their rings cross (docs/model.md#contention).
    Sharing, "sharing" {
        /// Jobs that span a server slow each other down (equations 6 and 7).
        Count => "count",
        /// No job slows another down.
        Off => "off",
    }
);

registry!(
    /// Which of its GPU types a job tries first (docs/heterogeneous.md).
    TypeOrder, "type-order" {
        /// The type on which it runs fastest.
        Fastest => "fastest",
        /// The type on which its work costs least.
        Cheapest => "cheapest",
        /// As the job lists them.
        Listed => "listed",
    }
);

registry!(
    /// The basis of run time predictions.
    Predict, "predict" {
        /// The durations of jobs completed before the submission.
        History => "history",
        /// The recorded duration.
        Exact => "exact",
        /// A column of the job table.
        Column => "column",
    }
);

registry!(
    /// The basis of EASY's estimates (docs/operators.md#time-limits).
    Estimate, "estimate" {
        /// The run time.
        RunTime => "run-time",
        /// The time limit, where a job has one.
        Limit => "limit",
        /// A column of the job table.
        Column => "column",
    }
);

/// Which job goes first among jobs of one submission time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ties {
    /// The lower row.
    Rows,
    /// The higher row.
    Reverse,
    /// In an order drawn from this seed.
    Shuffle(u64),
}

impl Ties {
    pub(crate) const EXPECTED: &'static str = "rows, reverse or shuffle:SEED (0 to 2^64 - 1)";

    /// Parses `rows`, `reverse` or `shuffle:SEED`.
    ///
    /// # Errors
    /// `Option` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("shuffle:").map(str::parse)) {
            ("rows", _) => Ok(Self::Rows),
            ("reverse", _) => Ok(Self::Reverse),
            (_, Some(Ok(seed))) => Ok(Self::Shuffle(seed)),
            _ => Err(Error::Option { name: "ties", value: text.to_owned(), expected: Self::EXPECTED.to_owned() }),
        }
    }
}
