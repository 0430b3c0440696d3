//! Declares the facts of a policy: its name, its source, the features that it supports, its properties, its options.
//!
//! Invariant: no other code knows a policy by its name. Checks, tables and pages read its facts. For example, a run
//! with outages checks whether its policy supports them, and is refused if not.

use super::{Discipline, Options, Order, Placement, Setting, Value, Variant, registry};
use crate::error::{Error, Result};

registry!(
    /// A feature of a run that its policy must support.
    Feature, "feature" {
        /// GPU types that differ.
        Types => "types",
        /// Shares of a GPU.
        Shares => "shares",
        /// Priorities that differ.
        Priorities => "priorities",
        /// Jobs of higher priority that evict others.
        Evict => "evict",
        /// Quotas of owners.
        Quota => "quota",
        /// Servers that fail.
        Outages => "outages",
        /// Services that take GPUs.
        Services => "services",
        /// Trials that pause at rungs.
        Search => "search",
    }
);

registry!(
    /// A property of a policy.
    Is, "is" {
        /// It walks a ranking of all jobs with a quota of all GPUs.
        Ranks => "ranks",
        /// It gives elastic jobs other GPUs than they ask for.
        Resizes => "resizes",
        /// It starts jobs beside others, on the same GPUs.
        Pairs => "pairs",
        /// It moves running jobs to make room for others.
        Moves => "moves",
        /// It protects a stay for twice the preempt cost, unless told otherwise.
        Protects => "protects",
        /// It refuses jobs, whatever the options.
        Refuses => "refuses",
        /// It reads how long a job will run.
        Clairvoyant => "clairvoyant",
        /// It goes by deadlines.
        ByDeadlines => "by deadlines",
        /// It decides at intervals, and not at every change.
        AtIntervals => "at intervals",
        /// It starts jobs as the log did, and stops none.
        AsRecorded => "as recorded",
    }
);

/// The facts of a policy that may stop jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: &'static str,
    /// What it decides by, in a few words.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// The features that it supports.
    pub knows: &'static [Feature],
    /// Its properties.
    pub is: &'static [Is],
    /// The options that it reads, by their names as typed.
    pub options: &'static [&'static str],
}

/// A type that is a policy with its own name.
pub(crate) trait Named {
    /// Its facts.
    const FACTS: Facts;
}

impl Facts {
    /// Returns whether it has that property.
    #[must_use]
    pub fn is(&self, what: Is) -> bool {
        self.is.contains(&what)
    }

    /// Refuses a feature that it does not support.
    pub(crate) fn check(&self, feature: Feature) -> Result<()> {
        if self.knows.contains(&feature) {
            return Ok(());
        }
        let (name, value) = ("policy", self.name.to_owned());
        Err(Error::Option { name, value, expected: format!("another policy: this one knows no {}", feature.name()) })
    }
}

impl Setting for &'static Facts {
    fn value(&self) -> Value {
        Value::Policy(self)
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Policy(facts) = value { Some(facts) } else { None }
    }
}

impl Order {
    /// The orders that read how long a job will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::Sjf];
}

impl Placement {
    /// The placements that sum how long jobs will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::LeastLoaded, Self::FaFfp, Self::Lbsgf, Self::SjfBco];

    /// Returns whether it chooses single GPUs, and so divides pods of several.
    #[must_use]
    pub fn places_gpu_by_gpu(self, variant: Variant) -> bool {
        let has_variants = matches!(self, Self::FaFfp | Self::Lbsgf | Self::SjfBco);
        self == Self::Random || has_variants && variant == Variant::Literal
    }
}

impl Discipline {
    /// The disciplines that read how long a job will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::Easy, Self::Conservative];
}

impl Options {
    /// Returns whether the policy is of that type.
    pub(crate) fn has<P: Named>(&self) -> bool {
        self.preemption.is_some_and(|facts| facts.name == P::FACTS.name)
    }

    /// Returns whether the policy preempts and has that property.
    #[must_use]
    pub fn is(&self, what: Is) -> bool {
        self.preemption.is_some_and(|facts| facts.is(what))
    }

    /// Returns whether the policy preempts and reads that option.
    pub(crate) fn reads(&self, option: &str) -> bool {
        self.preemption.is_some_and(|facts| facts.options.contains(&option))
    }
}
