//! Placements, which choose the idle GPUs for a gang. Each placement is a file. This file dispatches by name.
//!
//! Invariant: a placement takes GPUs for the whole gang, or changes nothing. `needs` names every index that a
//! placement reads. For example, `sjf-bco` is FA-FFP for gangs of up to kappa GPUs and LBSGF for larger ones, so it
//! needs the indexes of both.

mod binpack;
mod compact;
mod consolidate;
mod emptiest;
mod fa_ffp;
mod fgd;
mod first_fit;
mod lbsgf;
mod least_loaded;
mod packed;
mod pools;
mod random;
mod share;
mod worst_fit;

use crate::cluster::{Claim, Cluster, Grant, Groups, Needs, Tier, in_pods};
use crate::ids::Form;
use crate::ids::{GpuType, MILLI_GPU, Server};
use crate::options::{Is, Options, Placement, Variant};
use crate::rng::SplitMix64;
pub(crate) use pools::{Pools, Probes};
pub(crate) use share::WITH_SHARES;

/// A placement with its settings.
#[derive(Clone, Debug)]
pub(crate) struct Placer {
    placement: Placement,
    /// Whether `emptiest` tries one server first (policy `recorded`).
    tries_one: bool,
    variant: Variant,
    kappa: u32,
    lambda: f64,
    rng: SplitMix64,
    scratch: Scratch,
}

/// Buffers of placements. They are kept, so that no placement allocates in a steady state.
#[derive(Clone, Debug, Default)]
struct Scratch {
    /// (U, GPU) to choose from.
    pool: Vec<(f64, u32)>,
    /// Servers to choose from.
    servers: Vec<Server>,
    /// (server, GPUs) chosen.
    chosen: Vec<(Server, u32)>,
}

impl Scratch {
    /// Takes what was chosen.
    fn take(&self, cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
        for &(server, count) in &self.chosen {
            cluster.take(server, count, claim, grant);
        }
        true
    }
}

/// What is asked of a placement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gang {
    /// GPUs requested.
    pub(crate) num_gpus: u32,
    /// How it may lie.
    pub(crate) form: Form,
}

/// Idle GPUs as they would be at another time.
#[derive(Clone, Debug, Default)]
struct Probe {
    idle: Vec<u32>,
    total: u64,
    /// Servers by idle count.
    with_idle: Vec<u32>,
    groups: Option<Box<Groups>>,
}

impl Probe {
    fn copy(&mut self, cluster: &Cluster) {
        self.idle.clone_from(&cluster.idle);
        self.total = cluster.total_idle;
        self.groups = cluster.groups().filter(|groups| groups.binds).map(|groups| Box::new(groups.clone()));
        self.with_idle.clear();
        self.with_idle.resize(cluster.largest as usize + 1, 0);
        for &idle in &self.idle {
            self.with_idle[idle as usize] += 1;
        }
    }

    #[inline(always)]
    fn give(&mut self, server: Server, count: u32) {
        self.set(server, self.idle[server.index()] + count);
        self.total += u64::from(count);
    }

    #[inline(always)]
    fn take(&mut self, server: Server, count: u32) {
        self.set(server, self.idle[server.index()] - count);
        self.total -= u64::from(count);
    }

    #[inline(always)]
    fn set(&mut self, server: Server, idle: u32) {
        let was = std::mem::replace(&mut self.idle[server.index()], idle);
        self.with_idle[was as usize] -= 1;
        self.with_idle[idle as usize] += 1;
        if let Some(groups) = &mut self.groups {
            groups.set(server, was, idle);
        }
    }
}

impl Placer {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            placement: options.placement,
            tries_one: options.is(Is::AsRecorded),
            variant: options.variant,
            kappa: options.kappa,
            lambda: options.lambda,
            rng: SplitMix64::new(options.seed),
            scratch: Scratch::default(),
        }
    }

    /// Returns the placement for a gang of this size.
    fn of(&self, num_gpus: u32) -> Placement {
        match self.placement {
            Placement::SjfBco if num_gpus <= self.kappa => Placement::FaFfp,
            Placement::SjfBco => Placement::Lbsgf,
            other => other,
        }
    }

    /// Returns which indexes the cluster must keep for this placement. An index that is not requested here does not
    /// exist.
    pub(crate) fn needs(&self) -> Needs {
        let literal = self.variant == Variant::Literal;
        let mut needs = Needs::default();
        let (fa_ffp, lbsgf) = match self.placement {
            Placement::FaFfp => (true, false),
            Placement::Lbsgf => (false, true),
            Placement::SjfBco => (true, true),
            _ => (false, false),
        };
        needs.by_idle = self.packs() || matches!(self.placement, Placement::Emptiest | Placement::Binpack);
        needs.first_room = self.placement == Placement::FirstFit;
        needs.loss = self.placement == Placement::Fgd;
        needs.groups = self.placement == Placement::Compact;
        needs.with_idle = self.placement == Placement::FirstFit;
        needs.by_rank = self.placement == Placement::Random;
        needs.least_time = self.placement == Placement::LeastLoaded || (fa_ffp && literal);
        needs.by_opened = fa_ffp && !literal;
        needs.mean_time = lbsgf;
        needs.gpu_times = needs.least_time || fa_ffp || lbsgf;
        needs
    }

    /// Takes GPUs for a gang, if the placement can. The grant then holds them, one entry per server. If it cannot,
    /// nothing changes.
    pub(crate) fn place(&mut self, cluster: &mut Cluster, claim: &Claim, grant: &mut Grant) -> bool {
        grant.parts.clear();
        if claim.share > 0 {
            return share::place(cluster, self.placement, claim, &mut self.rng, grant);
        }
        if cluster.total_idle < u64::from(claim.num_gpus) {
            return false;
        }
        if claim.form.pod > 1 && cluster.idle_in_pods(claim.form.pod) < u64::from(claim.num_gpus) {
            return false;
        }
        cluster.mark();
        self.scratch.chosen.clear();
        match (self.of(claim.num_gpus), self.variant) {
            (Placement::FirstFit, _) => first_fit::place(cluster, claim, grant),
            (Placement::Emptiest, _) if self.tries_one => packed::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Consolidate | Placement::BestFit, _) => {
                consolidate::place(cluster, claim, &mut self.scratch, grant)
            }
            (Placement::WorstFit, _) => worst_fit::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Emptiest, _) => emptiest::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Compact, _) => compact::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Binpack, _) => binpack::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Fgd, _) => fgd::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Random, _) => random::place(cluster, claim, &mut self.rng, &mut self.scratch, grant),
            (Placement::LeastLoaded, _) | (Placement::FaFfp, Variant::Literal) => {
                least_loaded::place(cluster, claim, grant)
            }
            (Placement::FaFfp, Variant::Practical) => fa_ffp::place(cluster, claim, &mut self.scratch, grant),
            (Placement::Lbsgf | Placement::SjfBco, variant) => {
                lbsgf::place(cluster, claim, variant, self.lambda, &mut self.scratch, grant)
            }
        }
    }

    /// Returns whether it finds a place where `consolidate` does: on one server, or on whole ones and one more.
    fn packs(&self) -> bool {
        matches!(self.placement, Placement::Consolidate | Placement::BestFit | Placement::WorstFit | Placement::Fgd)
    }

    /// Returns whether it keeps a gang of a form within its tier, or in segments.
    #[inline]
    pub(crate) fn binds(&self, form: Form) -> bool {
        self.placement == Placement::Compact && form.is_bound()
    }

    /// Returns the state that a refused trial must not change.
    pub(crate) fn rng(&self) -> SplitMix64 {
        self.rng.clone()
    }

    /// Restores that state.
    pub(crate) fn set_rng(&mut self, rng: SplitMix64) {
        self.rng = rng;
    }

    /// Returns whether a gang that cannot be placed now still cannot be placed after others have been.
    pub(crate) fn is_monotone(&self) -> bool {
        self.variant == Variant::Practical || !matches!(self.placement, Placement::Lbsgf | Placement::SjfBco)
    }

    /// Returns whether a gang could be placed on those idle GPUs of a type, with U as it is now.
    #[inline]
    pub(crate) fn fits(&self, pools: &mut Pools, probes: &Probes, gpu_type: GpuType, gang: Gang) -> bool {
        let probe = probes.of(gpu_type);
        probe.total >= u64::from(gang.num_gpus) && self.fits_among(pools.of_mut(gpu_type), probe, gang)
    }

    /// Returns whether a gang could be placed on idle GPUs that are enough for it.
    fn fits_among(&self, cluster: &mut Cluster, probe: &Probe, gang: Gang) -> bool {
        if self.packs() {
            return consolidate::fits(cluster, probe, gang);
        }
        if self.binds(gang.form) {
            return probe.groups.as_ref().is_some_and(|groups| groups.group_for(gang.num_gpus, gang.form).is_some());
        }
        match (self.of(gang.num_gpus), self.variant) {
            (Placement::Lbsgf, Variant::Literal) => lbsgf::fits(cluster, Some(&probe.idle), gang.num_gpus, self.lambda),
            _ => gang.form.pod == 1 || in_pods(&probe.with_idle, gang.form.pod) >= u64::from(gang.num_gpus),
        }
    }

    /// Returns whether a job of so many thousandths of a GPU could be placed now, where jobs may hold shares.
    pub(crate) fn can_place_units(&self, cluster: &mut Cluster, units: u32, form: Form) -> bool {
        match cluster.shares() {
            Some(shares) if units < MILLI_GPU => shares.has_room(units),
            _ => {
                let gang = Gang { num_gpus: units / MILLI_GPU, form };
                u64::from(gang.num_gpus) <= cluster.total_idle && self.can_place(cluster, gang)
            }
        }
    }

    /// Returns whether such a gang can be placed exactly if it is within [`Self::reach`], at any time.
    pub(crate) fn has_reach(&self, cluster: &Cluster, gang: Gang) -> bool {
        match (self.of(gang.num_gpus), self.variant) {
            _ if self.packs() => gang.num_gpus <= cluster.largest,
            (Placement::Lbsgf, Variant::Literal) => false,
            _ => gang.form.pod == 1 && !self.binds(gang.form),
        }
    }

    /// Returns the GPUs of the largest gang that it can place now, among those that [`Self::has_reach`] names: all idle
    /// ones, or those of one server.
    pub(crate) fn reach(&self, cluster: &Cluster) -> u64 {
        if !self.packs() {
            return cluster.total_idle;
        }
        cluster.by_idle().and_then(|index| index.most_below(cluster.largest + 1)).map_or(0, u64::from)
    }

    /// Whether a gang for which there are enough idle GPUs could be placed on them now.
    pub(crate) fn can_place(&self, cluster: &mut Cluster, gang: Gang) -> bool {
        if self.packs() {
            return consolidate::can_place(cluster, gang);
        }
        if self.binds(gang.form) {
            return cluster.groups().is_some_and(|groups| groups.group_for(gang.num_gpus, gang.form).is_some());
        }
        match (self.of(gang.num_gpus), self.variant) {
            (Placement::Lbsgf, Variant::Literal) => lbsgf::fits(cluster, None, gang.num_gpus, self.lambda),
            _ => gang.form.pod == 1 || cluster.idle_in_pods(gang.form.pod) >= u64::from(gang.num_gpus),
        }
    }

    /// Returns whether a gang for which the cluster holds enough pods could be placed on it when it is empty.
    pub(crate) fn fits_empty(&self, gang: Gang, shape: &Shape) -> bool {
        if self.binds(gang.form) {
            let groups = shape.groups.as_ref();
            return groups.is_some_and(|groups| groups.group_for(gang.num_gpus, gang.form).is_some());
        }
        !self.packs() || consolidate::fits_empty(gang, shape)
    }

    /// Returns whether it may spread a gang that one server would hold.
    pub(crate) fn spreads(&self) -> bool {
        !self.packs()
    }
}

/// The shape of an empty cluster.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Server sizes: (GPUs, how many servers), largest first.
    sizes: Vec<(u32, u32)>,
    /// Where gangs are bound to tiers.
    groups: Option<Groups>,
}

impl Shape {
    pub(crate) fn new(server_gpus: &[u32]) -> Self {
        let mut sizes = server_gpus.to_vec();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut shape: Vec<(u32, u32)> = Vec::new();
        for size in sizes {
            match shape.last_mut() {
                Some(last) if last.0 == size => last.1 += 1,
                _ => shape.push((size, 1)),
            }
        }
        Self { sizes: shape, groups: None }
    }

    /// Returns the GPUs of the largest server, where any gang so large finds place unless a tier binds it.
    #[inline]
    pub(crate) fn largest(&self) -> u32 {
        self.sizes.first().map_or(0, |size| size.0)
    }

    /// Groups its servers. `tiers`: of these servers. `forms`: those that occur.
    pub(crate) fn group(&mut self, tiers: &[Tier], server_gpus: &[u32], forms: &[Form]) {
        self.groups = Some(Groups::new(tiers, server_gpus, server_gpus, forms));
    }

    /// Returns the GPUs of all pods of a size that the servers hold.
    pub(crate) fn in_pods(&self, pod: u32) -> u64 {
        self.sizes.iter().map(|&(size, servers)| u64::from(size - size % pod) * u64::from(servers)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Job;

    #[test]
    fn the_reach_says_what_can_be_placed() {
        let placements = [
            Placement::FirstFit,
            Placement::Consolidate,
            Placement::BestFit,
            Placement::WorstFit,
            Placement::Emptiest,
            Placement::Compact,
            Placement::Binpack,
            Placement::Fgd,
            Placement::SjfBco,
        ];
        let variants = [Variant::Practical, Variant::Literal];
        let mut known = 0;
        for (placement, variant) in placements.into_iter().flat_map(|placement| variants.map(|v| (placement, v))) {
            let mut placer = Placer::new(&Options { placement, variant, kappa: 2, ..Options::default() });
            let mut pools = Pools::new(&[2, 4, 3, 4], None, placer.needs());
            let mut grant = Grant::default();
            for job in 0..8 {
                let pool = pools.of_mut(GpuType::NONE);
                for num_gpus in 1..=u32::try_from(pool.total_idle).unwrap() {
                    for form in [1, 2].map(Form::of_pods).into_iter().filter(|form| num_gpus % form.pod == 0) {
                        let gang = Gang { num_gpus, form };
                        if placer.has_reach(pool, gang) {
                            known += 1;
                            let within = u64::from(num_gpus) <= placer.reach(pool);
                            assert_eq!(placer.can_place(pool, gang), within, "{placement:?} {gang:?}");
                        }
                    }
                }
                let (job, num_gpus) = (Job::new(job), 1 + job % 2);
                let claim = Claim { job, num_gpus, time: 1.0, share: 0, form: Form::default() };
                pools.place_by(&mut placer, GpuType::NONE, &claim, &mut grant);
            }
        }
        assert!(known > 400, "{known}");
    }
}
