//! What a policy says of itself: its name, where it comes from, what it knows, what it is, its options.
//!
//! Invariant: nobody else knows a policy by its name. Checks, tables and pages ask its facts. For example, a run with
//! outages asks whether its policy knows them, and is refused where it does not.

use super::{Discipline, Options, Order, Placement, Setting, Value, registry};
use crate::error::{Error, Result};

registry!(
    /// What a run may have, and what a policy must know of then.
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
    /// What a policy is.
    Is, "is" {
        /// It walks a ranking of all jobs with a quota of all GPUs.
        Ranks => "ranks",
        /// It gives elastic jobs other GPUs than they ask for.
        Resizes => "resizes",
        /// It moves running jobs to make room for others.
        Moves => "moves",
        /// It refuses jobs, whatever the options.
        Refuses => "refuses",
        /// It reads how long a job will run.
        Clairvoyant => "clairvoyant",
        /// It goes by deadlines.
        ByDeadlines => "by deadlines",
        /// It decides at intervals, and not at every change.
        AtIntervals => "at intervals",
    }
);

/// What a policy that may stop jobs says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: &'static str,
    /// By what it decides, in a few words.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// What it knows.
    pub knows: &'static [Feature],
    /// What it is.
    pub is: &'static [Is],
    /// The options that it reads, by their names as typed.
    pub options: &'static [&'static str],
}

/// A type that is a policy with a name of its own.
pub(crate) trait Named {
    /// What it says of itself.
    const FACTS: Facts;
}

impl Facts {
    /// Whether it is that.
    #[must_use]
    pub fn is(&self, what: Is) -> bool {
        self.is.contains(&what)
    }

    /// Refuses a feature that it does not know.
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
    /// Those that read how long a job will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::Sjf];
}

impl Placement {
    /// Those that add up how long jobs will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::LeastLoaded, Self::FaFfp, Self::Lbsgf, Self::SjfBco];
}

impl Discipline {
    /// Those that read how long a job will run.
    pub const CLAIRVOYANT: &'static [Self] = &[Self::Easy, Self::Conservative];
}

impl Options {
    /// Whether the policy is of that type.
    pub(crate) fn has<P: Named>(&self) -> bool {
        self.preemption.is_some_and(|facts| facts.name == P::FACTS.name)
    }

    /// Whether the policy is one that preempts, and is that.
    #[must_use]
    pub fn is(&self, what: Is) -> bool {
        self.preemption.is_some_and(|facts| facts.is(what))
    }

    /// Whether the policy is one that preempts, and reads that option.
    pub(super) fn reads(&self, option: &str) -> bool {
        self.preemption.is_some_and(|facts| facts.options.contains(&option))
    }
}
