//! The placements (docs/placements.md), by looking at every GPU.
//!
//! Invariant: a GPU knows the job on it, and nothing else is kept of who holds what. For example, the idle GPUs of a
//! server are counted by looking at each.

use super::Job;
use ringbco::options::{Options, Placement, Variant};
use std::cmp::Reverse;

/// A GPU: (server, index on the server).
pub(super) type Site = (usize, usize);

#[derive(Clone, Copy, Debug)]
struct Gpu {
    /// The row of the job on it.
    holder: Option<usize>,
    /// U_g, s.
    time: f64,
}

/// Servers of GPUs, and the numbers that the random placement draws.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    servers: Vec<Vec<Gpu>>,
    draws: Draws,
    /// The GPUs that each job of the cluster asks for (fgd).
    sizes: Vec<usize>,
}

impl Cluster {
    /// Idle servers of these sizes.
    pub(super) fn new(sizes: &[u32], draws: Draws, jobs: &[Job]) -> Self {
        let idle = Gpu { holder: None, time: 0.0 };
        let servers = sizes.iter().map(|&g| vec![idle; g as usize]).collect();
        Self { servers, draws, sizes: jobs.iter().map(|job| job.num_gpus as usize).collect() }
    }

    /// Puts the job on the GPUs that its placement names, and adds rho_j to their U. `None`, and no change, if the job
    /// must wait.
    pub(super) fn place(&mut self, job: &Job, options: &Options) -> Option<Vec<Site>> {
        let mut sites = self.choose(job.num_gpus as usize, options)?;
        sites.sort_unstable();
        self.give(job, &sites);
        Some(sites)
    }

    fn give(&mut self, job: &Job, sites: &[Site]) {
        for &(s, g) in sites {
            let gpu = &mut self.servers[s][g];
            gpu.holder = Some(job.row);
            gpu.time += job.estimate;
        }
    }

    /// As many GPUs of each server as these, which were taken just now: the lowest that were idle before.
    pub(super) fn lowest(&self, sites: &[Site]) -> Vec<Site> {
        let mut lowest = Vec::new();
        for s in 0..self.servers.len() {
            let taken: Vec<Site> = sites.iter().filter(|site| site.0 == s).copied().collect();
            let mut were_idle = [taken.clone(), self.idle_on(s)].concat();
            were_idle.sort_unstable();
            lowest.extend_from_slice(&were_idle[..taken.len()]);
        }
        lowest
    }

    /// Puts the job on those GPUs, which were chosen on a cluster that is seen otherwise, with the numbers drawn there.
    pub(super) fn take(&mut self, job: &Job, sites: &[Site], chosen_on: Self) {
        self.give(job, sites);
        self.draws = chosen_on.draws;
    }

    /// The same cluster where those GPUs are idle of which `is_idle` says so, given who holds them, and no others.
    pub(super) fn seen(&self, is_idle: impl Fn(Site, Option<usize>) -> bool) -> Self {
        let mut seen = self.clone();
        for (s, gpus) in seen.servers.iter_mut().enumerate() {
            for (g, gpu) in gpus.iter_mut().enumerate() {
                gpu.holder = if is_idle((s, g), gpu.holder) { None } else { Some(usize::MAX) };
            }
        }
        seen
    }

    /// Frees what the job holds.
    pub(super) fn free(&mut self, job: &Job) {
        for gpu in self.servers.iter_mut().flatten() {
            if gpu.holder == Some(job.row) {
                gpu.holder = None;
            }
        }
    }

    pub(super) fn num_idle(&self) -> usize {
        self.idle().len()
    }

    fn choose(&mut self, w: usize, options: &Options) -> Option<Vec<Site>> {
        match options.placement {
            Placement::FirstFit => first(self.idle(), w),
            Placement::Consolidate | Placement::BestFit => self.consolidate(w),
            Placement::WorstFit => self.on_a_server(w, |s| -(self.idle_on(s).len() as i64)),
            Placement::Emptiest => first(self.emptiest_first(), w),
            Placement::Fgd => self.on_a_server(w, |s| self.loss(s, w)),
            Placement::LeastLoaded => self.least_time(self.idle(), w),
            Placement::Random => self.random(w),
            Placement::FaFfp => self.fa_ffp(w, options.variant),
            Placement::Lbsgf => self.lbsgf(w, options),
            Placement::SjfBco if w <= options.kappa as usize => self.fa_ffp(w, options.variant),
            Placement::SjfBco => self.lbsgf(w, options),
        }
    }

    /// Idle GPUs of a server, by index.
    fn idle_on(&self, s: usize) -> Vec<Site> {
        let gpus = self.servers[s].iter().enumerate();
        gpus.filter(|(_, gpu)| gpu.holder.is_none()).map(|(g, _)| (s, g)).collect()
    }

    /// Idle GPUs by (server, GPU).
    fn idle(&self) -> Vec<Site> {
        (0..self.servers.len()).flat_map(|s| self.idle_on(s)).collect()
    }

    /// The `w` of these GPUs with least U; ties by (server, GPU).
    fn least_time(&self, mut sites: Vec<Site>, w: usize) -> Option<Vec<Site>> {
        let time = |site: &Site| self.servers[site.0][site.1].time;
        sites.sort_by(|a, b| time(a).total_cmp(&time(b)).then(a.cmp(b)));
        first(sites, w)
    }

    /// The Helios simulator's rule.
    fn consolidate(&self, w: usize) -> Option<Vec<Site>> {
        let largest = self.servers.iter().map(Vec::len).max()?;
        let all = 0..self.servers.len();
        let idle = |s: &usize| self.idle_on(*s).len();
        if w <= largest {
            let best = all.filter(|s| idle(s) >= w).min_by_key(|s| (idle(s), *s))?;
            return first(self.idle_on(best), w);
        }
        let whole: Vec<usize> = all.clone().filter(|s| idle(s) == largest).take(w / largest).collect();
        if whole.len() < w / largest {
            return None;
        }
        let mut sites: Vec<Site> = whole.iter().flat_map(|&s| self.idle_on(s)).collect();
        let rest = w % largest;
        if rest > 0 {
            let most = all.filter(|s| !whole.contains(s)).min_by_key(|s| (Reverse(idle(s)), *s))?;
            sites.extend(first(self.idle_on(most), rest)?);
        }
        Some(sites)
    }

    /// On the server with the least number, the lower one on ties; larger gangs as under `consolidate`.
    fn on_a_server(&self, w: usize, number: impl Fn(usize) -> i64) -> Option<Vec<Site>> {
        if w > self.servers.iter().map(Vec::len).max()? {
            return self.consolidate(w);
        }
        let holds = (0..self.servers.len()).filter(|&s| self.idle_on(s).len() >= w);
        first(self.idle_on(holds.min_by_key(|&s| (number(s), s))?), w)
    }

    /// Idle GPUs, those of the server with most of them first; ties by server.
    fn emptiest_first(&self) -> Vec<Site> {
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        order.sort_by_key(|&s| (Reverse(self.idle_on(s).len()), s));
        order.into_iter().flat_map(|s| self.idle_on(s)).collect()
    }

    /// By how many GPUs fragmentation rises if w GPUs of a server are taken: a job for which there are too few idle GPUs
    /// loses them all.
    fn loss(&self, s: usize, w: usize) -> i64 {
        let idle = self.idle_on(s).len();
        let lost = |idle: usize| (idle * self.sizes.iter().filter(|&&size| size > idle).count()) as i64;
        lost(idle - w) - lost(idle)
    }

    /// Uniform without replacement (Floyd's algorithm over the ranks of the idle GPUs).
    fn random(&mut self, w: usize) -> Option<Vec<Site>> {
        let idle = self.idle();
        if idle.len() < w {
            return None;
        }
        let mut ranks: Vec<usize> = Vec::new();
        for i in idle.len() - w..idle.len() {
            let t = self.draws.below(i as u64 + 1) as usize;
            ranks.push(if ranks.contains(&t) { i } else { t });
        }
        Some(ranks.into_iter().map(|r| idle[r]).collect())
    }

    /// Algorithm 2, with theta infinite: every idle GPU is a candidate.
    fn fa_ffp(&self, w: usize, variant: Variant) -> Option<Vec<Site>> {
        if variant == Variant::Literal {
            return self.least_time(self.idle(), w);
        }
        let all = 0..self.servers.len();
        let idle = |s: &usize| self.idle_on(*s).len();
        let opened = |s: &usize| self.servers[*s].iter().any(|gpu| gpu.holder.is_some());
        for kind in [true, false] {
            let holds = all.clone().filter(|s| opened(s) == kind && idle(s) >= w);
            if let Some(best) = holds.min_by_key(|s| (idle(s), *s)) {
                return self.least_time(self.idle_on(best), w);
            }
        }
        let mut order: Vec<usize> = all.collect();
        order.sort_by_key(|s| (!opened(s), Reverse(idle(s)), *s));
        let mut sites = Vec::new();
        for s in order {
            let wanted = usize::min(w - sites.len(), idle(&s));
            sites.extend(self.least_time(self.idle_on(s), wanted)?);
        }
        (sites.len() == w).then_some(sites)
    }

    /// Algorithm 3, with theta infinite.
    fn lbsgf(&self, w: usize, options: &Options) -> Option<Vec<Site>> {
        let mean = |s: usize| {
            let gpus = &self.servers[s];
            gpus.iter().fold(0.0, |sum, gpu| sum + gpu.time) / gpus.len() as f64
        };
        let mut order: Vec<usize> = (0..self.servers.len()).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
        let (mut sites, mut counted) = (Vec::new(), 0);
        for s in order {
            let idle = self.idle_on(s);
            counted += match options.variant {
                Variant::Literal => self.servers[s].len(),
                Variant::Practical => idle.len(),
            };
            sites.extend(idle);
            if counted as f64 >= options.lambda * w as f64 {
                break;
            }
        }
        self.least_time(sites, w)
    }
}

/// The first `w` of the sites, if there are that many.
fn first(mut sites: Vec<Site>, w: usize) -> Option<Vec<Site>> {
    (sites.len() >= w).then(|| {
        sites.truncate(w);
        sites
    })
}

/// SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub(super) struct Draws {
    state: u64,
}

impl Draws {
    const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

    /// The draws of virtual cluster number `v`.
    pub(super) fn of_cluster(seed: u64, v: u64) -> Self {
        Self { state: seed.wrapping_add(v.wrapping_mul(Self::GAMMA)) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(Self::GAMMA);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_splitmix64() {
        // The first outputs for seed 1234567 of the reference implementation (prng.di.unimi.it/splitmix64.c).
        let mut draws = Draws::of_cluster(1_234_567, 0);
        let got: Vec<u64> = (0..3).map(|_| draws.next()).collect();
        assert_eq!(got, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
