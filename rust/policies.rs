//! The registry of policies: the parts that a `--policy` name stands for, its paper, and what it must know.

use crate::options::{Discipline, Order, Placement, Preemption};

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
    /// Its own options on the command line.
    pub options: &'static [&'static str],
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
            options: &[],
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

    const fn options(self, options: &'static [&'static str]) -> Self {
        Self { options, ..self }
    }
}

const SJF_BCO_PAPER: &str = "Yu, Ji, Rajan, Liu, MobiHoc 2022 (arXiv 2207.07817)";

/// The registry of policies, in the order of the documentation.
pub const PRESETS: &[Preset] = &[
    Preset::new("fifo", Order::Fifo, Placement::Consolidate).by("first come, first served"),
    Preset::new("sjf", Order::Sjf, Placement::Consolidate).by("shortest job first").clairvoyant().options(&["--aging"]),
    Preset::new("smallest", Order::Smallest, Placement::Consolidate).by("smallest job first").options(&["--aging"]),
    Preset::new("ff", Order::Fifo, Placement::FirstFit).by(SJF_BCO_PAPER),
    Preset::new("ls", Order::Fifo, Placement::LeastLoaded).by(SJF_BCO_PAPER).clairvoyant(),
    Preset::new("rand", Order::Fifo, Placement::Random).by(SJF_BCO_PAPER).options(&["--seed"]),
    Preset::new("sjf-bco", Order::Smallest, Placement::SjfBco).by(SJF_BCO_PAPER).clairvoyant().options(&[
        "--kappa",
        "--lambda",
        "--variant",
        "--aging",
    ]),
    Preset::new("qssf", Order::Qssf, Placement::Consolidate)
        .by("Hu et al., SC 2021 (Helios; arXiv 2109.01313)")
        .options(&["--predict", "--aging"]),
    Preset::preemptive("srtf", Preemption::Srtf)
        .by("Schrage, Operations Research 1968")
        .clairvoyant()
        .options(&["--preempt-cost"]),
    Preset::preemptive("tiresias", Preemption::Tiresias).by("Gu et al., NSDI 2019").options(&[
        "--thresholds",
        "--interval",
        "--preempt-cost",
    ]),
    Preset::preemptive("gittins", Preemption::Gittins).by("Gu et al., NSDI 2019; Gittins 1979").options(&[
        "--thresholds",
        "--interval",
        "--preempt-cost",
    ]),
    Preset::preemptive("ftf", Preemption::Ftf)
        .by("Mahajan et al., NSDI 2020 (Themis)")
        .clairvoyant()
        .options(&["--interval", "--preempt-cost"]),
    Preset::preemptive("edf", Preemption::Edf)
        .by("Liu and Layland, JACM 1973")
        .options(&["--admission", "--preempt-cost"]),
    Preset::preemptive("time-slice", Preemption::TimeSlice)
        .by("Xiao et al., OSDI 2018 (Gandiva)")
        .options(&["--quantum", "--preempt-cost"]),
];
