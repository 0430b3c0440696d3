//! What a run is asked to do, and the registries that give its parts their names.

use crate::error::{Error, Result};

/// A closed set of named choices: the registry of one kind of part.
macro_rules! registry {
    ($(#[$doc:meta])* $name:ident, $option:literal { $($(#[$vdoc:meta])* $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every choice, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// The choice of that name.
            ///
            /// # Errors
            /// `Option` when no choice has it.
            pub fn parse(text: &str) -> Result<Self> {
                Self::ALL.iter().copied().find(|c| c.name() == text).ok_or_else(|| Error::Option {
                    name: $option,
                    value: text.to_owned(),
                    expected: format!("one of {}", [$($text),+].join(", ")),
                })
            }
        }
    };
}

pub(crate) use registry;

registry!(
    /// Queue orders (SPEC section 6).
    Order, "order" {
        /// By (submit_time, row).
        Fifo => "fifo",
        /// By estimated run time, then fifo.
        Sjf => "sjf",
        /// By num_gpus, then fifo.
        Smallest => "smallest",
    }
);

registry!(
    /// Queue disciplines (SPEC section 6).
    Discipline, "queue" {
        /// Stop at the first job that cannot be placed.
        Strict => "strict",
        /// Try every queued job in order.
        Skip => "skip",
        /// EASY backfilling.
        Easy => "easy",
    }
);

registry!(
    /// Placements (SPEC sections 6 and 7).
    Placement, "placement" {
        /// The first idle GPUs by (server, GPU).
        FirstFit => "first-fit",
        /// The Helios simulator's rule: best fit, never spread below a server's size.
        Consolidate => "consolidate",
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
    /// Readings of Algorithms 2 and 3 (SPEC section 7).
    Variant, "variant" {
        /// What the paper's prose describes.
        Practical => "practical",
        /// The algorithms' lines as printed.
        Literal => "literal",
    }
);

registry!(
    /// Execution models (SPEC section 3).
    Model, "model" {
        /// Ring-all-reduce with contention.
        Rar => "rar",
        /// Every job runs exactly its recorded duration.
        Fixed => "fixed",
    }
);

registry!(
    /// Clocks (SPEC section 4).
    ClockKind, "clock" {
        /// Fluid progress.
        Continuous => "continuous",
        /// Decisions at multiples of the slot, whole iterations per slot.
        Slot => "slot",
    }
);

registry!(
    /// What to do with jobs that could never fit (SPEC section 5).
    Oversize, "oversize" {
        /// Refuse the run.
        Error => "error",
        /// Leave them out and count them.
        Drop => "drop",
    }
);

/// A preset: the parts that a `--policy` name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The policy's name.
    pub name: &'static str,
    /// Its queue order.
    pub order: Order,
    /// Its placement.
    pub placement: Placement,
    /// Its queue discipline.
    pub queue: Discipline,
}

const fn preset(name: &'static str, order: Order, placement: Placement) -> Preset {
    Preset { name, order, placement, queue: Discipline::Strict }
}

/// The registry of policies.
pub const PRESETS: &[Preset] = &[
    preset("fifo", Order::Fifo, Placement::Consolidate),
    preset("sjf", Order::Sjf, Placement::Consolidate),
    preset("smallest", Order::Smallest, Placement::Consolidate),
    preset("ff", Order::Fifo, Placement::FirstFit),
    preset("ls", Order::Fifo, Placement::LeastLoaded),
    preset("rand", Order::Fifo, Placement::Random),
    preset("sjf-bco", Order::Smallest, Placement::SjfBco),
];

/// Who goes first among jobs of one submission time.
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
    /// Reads `rows`, `reverse` or `shuffle:SEED`.
    ///
    /// # Errors
    /// `Option` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("shuffle:").map(str::parse)) {
            ("rows", _) => Ok(Self::Rows),
            ("reverse", _) => Ok(Self::Reverse),
            (_, Some(Ok(seed))) => Ok(Self::Shuffle(seed)),
            _ => Err(Error::Option {
                name: "ties",
                value: text.to_owned(),
                expected: "rows, reverse or shuffle:SEED with an integer from 0 to 2^64 - 1".to_owned(),
            }),
        }
    }
}

/// Everything a run is asked to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Queue order.
    pub order: Order,
    /// Placement.
    pub placement: Placement,
    /// Queue discipline.
    pub queue: Discipline,
    /// Execution model.
    pub model: Model,
    /// Clock.
    pub clock: ClockKind,
    /// Slot length, s (clock `slot`).
    pub slot: f64,
    /// Largest gang that SJF-BCO places by FA-FFP, GPUs.
    pub kappa: u32,
    /// LBSGF looks at servers with lambda times the gang's GPUs.
    pub lambda: f64,
    /// Reading of FA-FFP and LBSGF.
    pub variant: Variant,
    /// Seed of the random placement.
    pub seed: u64,
    /// Who goes first among jobs of one submission time.
    pub ties: Ties,
    /// What to do with jobs that could never fit.
    pub oversize: Oversize,
    /// Timeline step, s; `None` for 2,000 points over the run.
    pub sample: Option<f64>,
    /// Whether to record allocations.
    pub record_allocations: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            order: Order::Smallest,
            placement: Placement::SjfBco,
            queue: Discipline::Strict,
            model: Model::Rar,
            clock: ClockKind::Continuous,
            slot: 1.0,
            kappa: 8,
            lambda: 1.0,
            variant: Variant::Practical,
            seed: 0,
            ties: Ties::Rows,
            oversize: Oversize::Error,
            sample: None,
            record_allocations: true,
        }
    }
}

impl Options {
    /// Checks the numeric options.
    ///
    /// # Errors
    /// `Option`, naming the first one out of range.
    pub fn validate(&self) -> Result<()> {
        let range = |name, value: f64, good: bool, expected: &str| {
            if good {
                Ok(())
            } else {
                Err(Error::Option { name, value: value.to_string(), expected: expected.to_owned() })
            }
        };
        range("slot", self.slot, self.slot.is_finite() && self.slot > 0.0, "a finite time > 0 s")?;
        range("lambda", self.lambda, self.lambda.is_finite() && self.lambda >= 1.0, "a finite number >= 1")?;
        if let Some(step) = self.sample {
            range("sample", step, step.is_finite() && step > 0.0, "a finite time > 0 s")?;
        }
        Ok(())
    }

    /// Whether the model is `rar`.
    #[must_use]
    pub fn rar(&self) -> bool {
        self.model == Model::Rar
    }
}
