//! Registers the policies: the parts that each `--policy` name stands for, and which policies use which option.
//!
//! Preemptive policies describe themselves (`rust/policy`). The others are an order and a placement, in a table here.

use crate::options::{
    ClockKind, Discipline, Entry, Facts, Feature, Is, Options, Order, Placement, Table as _, Users, Value,
};
use crate::policy;
use std::sync::LazyLock;

/// A policy: the parts that its name stands for, and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The policy's name.
    pub name: &'static str,
    /// The basis of its decisions, in a few words.
    pub about: &'static str,
    /// Its source.
    pub paper: &'static str,
    /// Its queue order; unused if it preempts.
    pub order: Order,
    /// Its placement.
    pub placement: Placement,
    /// Its queue discipline; unused if it preempts.
    pub queue: Discipline,
    /// Its description of itself, if it preempts.
    pub preemption: Option<&'static Facts>,
}

impl Preset {
    const fn new(
        name: &'static str,
        about: &'static str,
        order: Order,
        placement: Placement,
        paper: &'static str,
    ) -> Self {
        Self { name, about, paper, order, placement, queue: Discipline::Strict, preemption: None }
    }

    pub(crate) fn preemptive(facts: &'static Facts) -> Self {
        let placement = if facts.is(Is::AsRecorded) { Placement::Emptiest } else { Placement::Consolidate };
        let ranked = Self::new(facts.name, facts.about, Order::Fifo, placement, facts.paper);
        Self { preemption: Some(facts), ..ranked }
    }

    /// Returns what it knows; an order knows everything.
    #[must_use]
    pub fn knows(&self) -> &'static [Feature] {
        self.preemption.map_or(Feature::ALL, |facts| facts.knows)
    }

    /// Returns its properties, if it preempts.
    #[must_use]
    pub fn is(&self) -> &'static [Is] {
        self.preemption.map_or(&[], |facts| facts.is)
    }

    /// Returns its own options, those used by the fewest other policies first.
    #[must_use]
    pub fn options(&self) -> Vec<&'static Entry> {
        let mut own: Vec<_> = Options::TABLE.iter().filter(|entry| self.uses(entry)).collect();
        own.sort_by_cached_key(|entry| users_of(entry).count());
        own
    }

    /// Returns whether the policy uses an option by default. No policy depends on its clock.
    fn uses(&self, entry: &Entry) -> bool {
        self.is_among(entry.users, entry.name)
    }

    fn is_among(&self, users: Users, option: &str) -> bool {
        match (users, self.preemption) {
            (Users::Any(users), _) => users.iter().any(|&users| self.is_among(users, option)),
            (Users::Placement(placements), _) => placements.contains(&self.placement),
            (Users::Policies, Some(facts)) => facts.options.contains(&option),
            (Users::Order(orders), None) => orders.contains(&self.order),
            (Users::Queue(queues), None) => queues.contains(&self.queue),
            _ => false,
        }
    }
}

const SJF_BCO_PAPER: &str = "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)";
const QSSF_PAPER: &str = "Hu et al., SC 2021 (Helios; arXiv 2109.01313)";

/// The policies that let jobs run to their end.
const QUEUES: &[Preset] = &[
    Preset::new("fifo", "submit_time, then row", Order::Fifo, Placement::Consolidate, "first come, first served"),
    Preset::new("sjf", "estimated run time", Order::Sjf, Placement::Consolidate, "shortest job first"),
    Preset::new("smallest", "num_gpus", Order::Smallest, Placement::Consolidate, "smallest job first"),
    Preset::new("ff", "fifo", Order::Fifo, Placement::FirstFit, SJF_BCO_PAPER),
    Preset::new("ls", "fifo", Order::Fifo, Placement::LeastLoaded, SJF_BCO_PAPER),
    Preset::new("rand", "fifo", Order::Fifo, Placement::Random, SJF_BCO_PAPER),
    Preset::new("sjf-bco", "num_gpus", Order::Smallest, Placement::SjfBco, SJF_BCO_PAPER),
    Preset::new("qssf", "predicted GPU time", Order::Qssf, Placement::Consolidate, QSSF_PAPER),
];

/// The registry of policies, in the order of the documentation.
pub static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let preemptive = policy::FAMILIES.into_iter().flatten().map(Preset::preemptive);
    QUEUES.iter().copied().chain(preemptive).collect()
});

/// Returns all that may preempt: the preemptive presets, then a log, then outside decisions.
pub fn preemptive() -> impl Iterator<Item = &'static Facts> {
    policy::FAMILIES.into_iter().chain([policy::FACTS]).flatten()
}

/// Returns the preemptive policy of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Facts> {
    preemptive().find(|facts| facts.name == name)
}

/// Returns the value of an option that is a policy's name, or `none`.
#[must_use]
pub fn value(name: &str) -> Value {
    match named(name) {
        Some(facts) => Value::Policy(facts),
        None if name == "none" => Value::Absent,
        None => Value::Text(name.to_owned()),
    }
}

/// Returns the policies that use an option by default.
pub fn users_of(entry: &Entry) -> impl Iterator<Item = &'static Preset> {
    PRESETS.iter().filter(move |policy| policy.uses(entry))
}

/// Names of users, by the part that uses an option, as the options call it.
type Parts = Vec<(&'static str, Vec<&'static str>)>;

/// Returns all users of an option, by parts; empty for an option of all.
#[must_use]
pub fn parts_of(entry: &Entry) -> Parts {
    fn of<T: Copy>(part: &'static str, values: &[T], name: fn(T) -> &'static str) -> Parts {
        vec![(part, values.iter().map(|&value| name(value)).collect())]
    }
    fn parts(entry: &Entry, users: Users) -> Parts {
        match users {
            Users::All => Vec::new(),
            Users::Order(values) => of("order", values, Order::name),
            Users::Placement(values) => of("placement", values, Placement::name),
            Users::Queue(values) => of("queue", values, Discipline::name),
            Users::Clock(values) => of("clock", values, ClockKind::name),
            Users::Planner(values) => of("policy", values, |planner| planner.name()),
            Users::Given(names) => vec![("given", names.to_vec())],
            Users::Any(users) => users.iter().flat_map(|&users| parts(entry, users)).collect(),
            Users::Policies => {
                let reads = preemptive().filter(|facts| facts.options.contains(&entry.name));
                vec![("preemption", reads.map(|facts| facts.name).collect())]
            }
        }
    }
    parts(entry, entry.users)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every option that a policy lists must allow policies as users, and each such option must have a policy that
    /// lists it.
    #[test]
    fn options_of_policies_have_a_row_and_a_reader() {
        let listed = |users: Users| match users {
            Users::Any(users) => users.contains(&Users::Policies),
            users => users == Users::Policies,
        };
        let own: Vec<_> = Options::TABLE.iter().filter(|entry| listed(entry.users)).map(|entry| entry.name).collect();
        for facts in preemptive() {
            assert!(facts.options.iter().all(|name| own.contains(name)), "{}", facts.name);
        }
        for name in own {
            assert!(preemptive().any(|facts| facts.options.contains(&name)), "{name}");
        }
    }

    #[test]
    fn a_name_is_one_policy() {
        let mut names: Vec<_> = PRESETS.iter().map(|policy| policy.name).collect();
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        assert!(PRESETS.iter().all(|policy| policy.preemption == named(policy.name)));
        assert_eq!(named("none"), None);
    }
}
