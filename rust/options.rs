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
        /// By predicted GPU time, then fifo (QSSF, the Helios paper).
        Qssf => "qssf",
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

registry!(
    /// What QSSF's predictions rest on.
    Predict, "predict" {
        /// The durations of jobs completed before the submission.
        History => "history",
        /// The recorded duration.
        Exact => "exact",
    }
);

registry!(
    /// Policies that preempt (SPEC section 7, "Other schedulers").
    Preemption, "preemption" {
        /// Nobody is preempted: the order and the queue discipline decide.
        None => "none",
        /// Shortest remaining time first.
        Srtf => "srtf",
        /// Least attained service in queues (2D-LAS).
        Tiresias => "tiresias",
        /// Queues as Tiresias', by Gittins index inside.
        Gittins => "gittins",
        /// Largest finish-time-fairness rho first.
        Ftf => "ftf",
        /// Earliest deadline first.
        Edf => "edf",
        /// Round robin.
        TimeSlice => "time-slice",
    }
);

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
    /// Who may be preempted, and by what ranking.
    pub preemption: Preemption,
    /// What a job that is resumed pays, s without progress.
    pub preempt_cost: f64,
    /// Attained service, GPU-seconds, at which a job falls to the next queue; ascending (`tiresias`, `gittins`).
    pub thresholds: Vec<f64>,
    /// Time between passes, s (`tiresias`, `gittins`, `ftf`).
    pub interval: f64,
    /// Time between passes, s (`time-slice`).
    pub quantum: f64,
    /// What QSSF predicts from.
    pub predict: Predict,
    /// Whether `edf` refuses jobs that would miss their deadline even alone.
    pub admission: bool,
    /// A job that has waited this long, s, goes by fifo ahead of the others.
    pub aging: Option<f64>,
    /// By how much EASY's estimates are multiplied.
    pub estimate_factor: f64,
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
            preemption: Preemption::None,
            preempt_cost: 30.0,
            thresholds: vec![18_000.0],
            interval: 60.0,
            quantum: 60.0,
            predict: Predict::History,
            admission: false,
            aging: None,
            estimate_factor: 1.0,
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
        let (time, positive) = ("a finite time >= 0 s", "a finite time > 0 s");
        range("preempt-cost", self.preempt_cost, self.preempt_cost.is_finite() && self.preempt_cost >= 0.0, time)?;
        range("interval", self.interval, self.interval.is_finite() && self.interval > 0.0, positive)?;
        range("quantum", self.quantum, self.quantum.is_finite() && self.quantum > 0.0, positive)?;
        let factor = self.estimate_factor;
        range("estimate-factor", factor, factor.is_finite() && factor > 0.0, "a finite number > 0")?;
        if let Some(aging) = self.aging {
            range("aging", aging, aging.is_finite() && aging >= 0.0, time)?;
        }
        for pair in self.thresholds.windows(2) {
            range("thresholds", pair[1], pair[0] < pair[1], "GPU-seconds in ascending order")?;
        }
        for &threshold in &self.thresholds {
            let good = threshold.is_finite() && threshold > 0.0;
            range("thresholds", threshold, good, "a finite number of GPU-seconds > 0")?;
        }
        if self.admission && self.preemption != Preemption::Edf {
            let (value, expected) = ("true".to_owned(), "the policy edf".to_owned());
            return Err(Error::Option { name: "admission", value, expected });
        }
        if self.preemption == Preemption::TimeSlice {
            self.check_turns()?;
        }
        if let Some(step) = self.sample {
            range("sample", step, step.is_finite() && step > 0.0, "a finite time > 0 s")?;
        }
        Ok(())
    }

    /// A turn must leave time for progress after the resume cost, or jobs would take turns for ever.
    fn check_turns(&self) -> Result<()> {
        let enough = match self.clock {
            ClockKind::Continuous => self.preempt_cost < self.quantum,
            ClockKind::Slot => {
                (self.preempt_cost / self.slot).ceil() < f64::max(1.0, (self.quantum / self.slot).floor())
            }
        };
        if enough {
            return Ok(());
        }
        let value = format!("{} s against a preempt-cost of {} s", self.quantum, self.preempt_cost);
        let expected = match self.clock {
            ClockKind::Continuous => {
                "a quantum longer than the preempt-cost: no job would ever get anywhere".to_owned()
            }
            ClockKind::Slot => format!("a quantum of more whole slots of {} s than the preempt-cost takes", self.slot),
        };
        Err(Error::Option { name: "quantum", value, expected })
    }

    /// Whether the model is `rar`.
    #[must_use]
    pub fn rar(&self) -> bool {
        self.model == Model::Rar
    }
}
