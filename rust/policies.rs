//! The registry of policies: the parts that a `--policy` name stands for, its paper, and what it must know.

use crate::options::{Discipline, Entry, Options, Order, Placement, Preemption, Table as _};

/// A policy: the parts that its name stands for, and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The policy's name.
    pub name: &'static str,
    /// Its queue order; without meaning where it preempts.
    pub order: Order,
    /// Its placement.
    pub placement: Placement,
    /// Its queue discipline; without meaning where it preempts.
    pub queue: Discipline,
    /// How it preempts.
    pub preemption: Preemption,
    /// Where it comes from.
    pub paper: &'static str,
    /// Whether it reads how long a job will run.
    pub clairvoyant: bool,
}

impl Preset {
    const fn new(name: &'static str, order: Order, placement: Placement) -> Self {
        Self {
            name,
            order,
            placement,
            queue: Discipline::Strict,
            preemption: Preemption::None,
            paper: "",
            clairvoyant: false,
        }
    }

    const fn preemptive(name: &'static str, preemption: Preemption) -> Self {
        Self { preemption, ..Self::new(name, Order::Fifo, Placement::Consolidate) }
    }

    const fn by(self, paper: &'static str) -> Self {
        Self { paper, ..self }
    }

    const fn clairvoyant(self) -> Self {
        Self { clairvoyant: true, ..self }
    }

    /// Its own options, those that the fewest other policies use first.
    #[must_use]
    pub fn options(&self) -> Vec<&'static Entry> {
        let mut own: Vec<_> = Options::TABLE.iter().filter(|entry| entry.users.include(self)).collect();
        own.sort_by_key(|entry| entry.policies().count());
        own
    }
}

const SJF_BCO_PAPER: &str = "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)";

/// The registry of policies, in the order of the documentation.
pub const PRESETS: &[Preset] = &[
    Preset::new("fifo", Order::Fifo, Placement::Consolidate).by("first come, first served"),
    Preset::new("sjf", Order::Sjf, Placement::Consolidate).by("shortest job first").clairvoyant(),
    Preset::new("smallest", Order::Smallest, Placement::Consolidate).by("smallest job first"),
    Preset::new("ff", Order::Fifo, Placement::FirstFit).by(SJF_BCO_PAPER),
    Preset::new("ls", Order::Fifo, Placement::LeastLoaded).by(SJF_BCO_PAPER).clairvoyant(),
    Preset::new("rand", Order::Fifo, Placement::Random).by(SJF_BCO_PAPER),
    Preset::new("sjf-bco", Order::Smallest, Placement::SjfBco).by(SJF_BCO_PAPER).clairvoyant(),
    Preset::new("qssf", Order::Qssf, Placement::Consolidate).by("Hu et al., SC 2021 (Helios; arXiv 2109.01313)"),
    Preset::preemptive("srtf", Preemption::Srtf).by("Schrage, Operations Research 1968").clairvoyant(),
    Preset::preemptive("tiresias", Preemption::Tiresias).by("Gu et al., NSDI 2019"),
    Preset::preemptive("gittins", Preemption::Gittins).by("Gu et al., NSDI 2019; Gittins 1979"),
    Preset::preemptive("ftf", Preemption::Ftf).by("Mahajan et al., NSDI 2020 (Themis)").clairvoyant(),
    Preset::preemptive("edf", Preemption::Edf).by("Liu and Layland, JACM 1973"),
    Preset::preemptive("time-slice", Preemption::TimeSlice).by("Xiao et al., OSDI 2018 (Gandiva)"),
    Preset::preemptive("repack", Preemption::Repack).by("ringbco"),
    Preset::preemptive("afs", Preemption::Afs).by("Hwang et al., NSDI 2021").clairvoyant(),
    Preset::preemptive("optimus", Preemption::Optimus).by("Peng et al., EuroSys 2018").clairvoyant(),
    Preset::preemptive("elastic-srtf", Preemption::ElasticSrtf).by("ringbco").clairvoyant(),
    Preset::preemptive("elasticflow", Preemption::ElasticFlow).by("Gu et al., ASPLOS 2023").clairvoyant(),
];

/// The policy of a replay that names none.
pub const DEFAULT: &str = "sjf-bco";

/// The names of the policies.
pub const NAMES: [&str; PRESETS.len()] = {
    let mut names = [""; PRESETS.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = PRESETS[number].name;
        number += 1;
    }
    names
};
