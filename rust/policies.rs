//! The registry of policies: the parts that a `--policy` name stands for, and who uses which option.
//!
//! Whoever preempts says of itself what it is (`rust/policy`); the others are an order and a placement, in a table here.

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
    /// By what it decides, in a few words.
    pub about: &'static str,
    /// Where it comes from.
    pub paper: &'static str,
    /// Its queue order; without meaning where it preempts.
    pub order: Order,
    /// Its placement.
    pub placement: Placement,
    /// Its queue discipline; without meaning where it preempts.
    pub queue: Discipline,
    /// What it says of itself, if it preempts.
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
        let ranked = Self::new(facts.name, facts.about, Order::Fifo, Placement::Consolidate, facts.paper);
        Self { preemption: Some(facts), ..ranked }
    }

    /// What it knows; an order knows everything.
    #[must_use]
    pub fn knows(&self) -> &'static [Feature] {
        self.preemption.map_or(Feature::ALL, |facts| facts.knows)
    }

    /// What it says of itself, if it preempts.
    #[must_use]
    pub fn is(&self) -> &'static [Is] {
        self.preemption.map_or(&[], |facts| facts.is)
    }

    /// Its own options, those that the fewest other policies use first.
    #[must_use]
    pub fn options(&self) -> Vec<&'static Entry> {
        let mut own: Vec<_> = Options::TABLE.iter().filter(|entry| self.uses(entry)).collect();
        own.sort_by_cached_key(|entry| users_of(entry).count());
        own
    }

    /// Whether the policy, as it is, uses an option. No policy is by its clock.
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

/// Everybody who may preempt: the presets that do, then a log, and whoever decides from outside.
pub fn preemptive() -> impl Iterator<Item = &'static Facts> {
    policy::FAMILIES.into_iter().chain([policy::FACTS]).flatten()
}

/// Whoever preempts under that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Facts> {
    preemptive().find(|facts| facts.name == name)
}

/// The value of an option that is a policy's name, or `none`.
#[must_use]
pub fn value(name: &str) -> Value {
    match named(name) {
        Some(facts) => Value::Policy(facts),
        None if name == "none" => Value::Absent,
        None => Value::Text(name.to_owned()),
    }
}

/// The policies that use an option as they are.
pub fn users_of(entry: &Entry) -> impl Iterator<Item = &'static Preset> {
    PRESETS.iter().filter(move |policy| policy.uses(entry))
}

/// The names of some users, by the part by which they are known, as the options call it.
type Parts = Vec<(&'static str, Vec<&'static str>)>;

/// All who use an option, by parts; none for an option of all.
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

    /// Whoever lists an option lists one that is for policies to list, and each of those has somebody who does.
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
