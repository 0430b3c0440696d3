//! Chooses which candidates a gang gets under theta: Algorithms 2 and 3, and the baselines.
//!
//! Invariant: `choose` names GPUs for the whole gang, in ascending order, and takes none of them. A gang with too few
//! idle candidates waits, unless even the idle cluster would have too few: then theta is infeasible. For example, 3
//! candidates among all GPUs never hold a gang of 4, since U does not shrink.

use super::gpus::{Gpus, Limit, Orders};
use super::{PlanOptions, Planner};
use crate::options::Variant;
use crate::rng::SplitMix64;
use std::collections::BTreeSet;

/// The rule for a gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// First candidates by (server, GPU).
    FirstFit,
    /// Candidates with least U: LS, and FA-FFP as Algorithm 2 prints it.
    LeastLoaded,
    /// Uniform among the candidates.
    Random,
    /// FA-FFP as described by the paper's prose.
    Pack,
    /// LBSGF (Algorithm 3).
    LeastBusy,
}

/// The rules of a plan, and buffers.
#[derive(Clone, Debug)]
pub(super) struct Placer {
    planner: Planner,
    variant: Variant,
    lambda: f64,
    rng: SplitMix64,
    pool: Vec<(f64, u32)>,
    counts: Vec<u32>,
}

/// A gang that asks for GPUs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gang {
    pub(super) num_gpus: u32,
    /// rho_j / u, s.
    pub(super) charge: f64,
}

impl Placer {
    pub(super) fn new(options: &PlanOptions) -> Self {
        Self {
            planner: options.policy,
            variant: options.variant,
            lambda: options.lambda,
            rng: SplitMix64::new(options.seed),
            pool: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Returns the orders that some gang may need.
    pub(super) fn orders(options: &PlanOptions) -> Orders {
        let bco = options.policy == Planner::SjfBco;
        Orders { by_time: options.policy == Planner::Ls || (bco && options.variant == Variant::Literal), by_mean: bco }
    }

    /// Returns the rule for a gang; `packs`: whether its size is at most kappa.
    pub(super) fn rule(&self, packs: bool) -> Rule {
        match (self.planner, packs, self.variant) {
            (Planner::Ff, ..) => Rule::FirstFit,
            (Planner::Ls, ..) | (Planner::SjfBco, true, Variant::Literal) => Rule::LeastLoaded,
            (Planner::Rand, ..) => Rule::Random,
            (Planner::SjfBco, true, Variant::Practical) => Rule::Pack,
            (Planner::SjfBco, false, _) => Rule::LeastBusy,
        }
    }

    /// Chooses GPUs for a gang; they are in `chosen`, ascending. `false`, and nothing chosen, if it has to wait.
    pub(super) fn choose(
        &mut self,
        rule: Rule,
        gpus: &mut Gpus<'_>,
        gang: Gang,
        limit: &mut Limit,
        chosen: &mut Vec<u32>,
    ) -> bool {
        chosen.clear();
        if gpus.total_idle < u64::from(gang.num_gpus) {
            return false;
        }
        match rule {
            Rule::FirstFit => first_fit(gpus, gang, limit, chosen, &mut self.pool),
            Rule::LeastLoaded => least_loaded(gpus, gang, limit, chosen, &mut self.pool),
            Rule::Random => self.random(gpus, gang, limit, chosen),
            Rule::Pack => self.pack(gpus, gang, limit, chosen),
            Rule::LeastBusy => self.least_busy(gpus, gang, limit, chosen),
        }
    }

    /// Returns whether the rule could place the gang, with U as it is, if every GPU were idle.
    pub(super) fn could_ever(&self, rule: Rule, gpus: &mut Gpus<'_>, gang: Gang, limit: &mut Limit) -> bool {
        if gpus.all_admitted(gang.charge, limit) {
            return true; // the whole cluster holds the gang, and so does LBSGF's prefix of at least its size
        }
        let need = u64::from(gang.num_gpus);
        let mut candidates = 0;
        if rule == Rule::LeastBusy && self.variant == Variant::Literal {
            let enough = self.lambda * f64::from(gang.num_gpus);
            let mut offered = 0;
            for at in 0..gpus.layout.sizes.len() {
                let server = gpus.by_mean()[at].1 as usize;
                offered += u64::from(gpus.layout.sizes[server]);
                candidates += u64::from(gpus.ever(server, gang.charge, limit));
                if offered as f64 >= enough {
                    break;
                }
            }
            return candidates >= need;
        }
        for server in 0..gpus.layout.sizes.len() {
            candidates += u64::from(gpus.ever(server, gang.charge, limit));
            if candidates >= need {
                return true;
            }
        }
        false
    }

    /// Chooses the opened server with the fewest candidates that holds the gang, or else such an unopened server. If
    /// there is neither, spreads the gang over opened, then unopened servers, most candidates first. Inside a server,
    /// least U.
    fn pack(&mut self, gpus: &Gpus<'_>, gang: Gang, limit: &mut Limit, chosen: &mut Vec<u32>) -> bool {
        let need = gang.num_gpus;
        let mut tightest = [(u32::MAX, usize::MAX); 2];
        let mut total = 0u64;
        self.counts.clear();
        for server in 0..gpus.layout.sizes.len() {
            let count = gpus.candidates(server, gang.charge, limit);
            self.counts.push(count);
            total += u64::from(count);
            let best = &mut tightest[usize::from(!gpus.opened[server])];
            if count >= need && count < best.0 {
                *best = (count, server);
                if count == need && gpus.opened[server] {
                    break; // none is tighter, and the others of this count come later
                }
            }
        }
        if let Some(&(_, server)) = tightest.iter().find(|t| t.1 != usize::MAX) {
            self.take_least(gpus, server, need, gang.charge, limit, chosen);
            return true;
        }
        if total < u64::from(need) {
            return false;
        }
        let counts = std::mem::take(&mut self.counts);
        let mut servers: Vec<usize> = (0..counts.len()).filter(|&s| counts[s] > 0).collect();
        servers.sort_by_key(|&s| (!gpus.opened[s], std::cmp::Reverse(counts[s]), s));
        let mut left = need;
        for server in servers {
            let part = left.min(counts[server]);
            self.take_least(gpus, server, part, gang.charge, limit, chosen);
            left -= part;
            if left == 0 {
                break;
            }
        }
        self.counts = counts;
        chosen.sort_unstable();
        true
    }

    /// Ranks servers by mean U, least first (Alg. 3, line 2). Takes the shortest prefix that offers lambda G_j GPUs
    /// (line 3): `literal` counts all GPUs of a server, `practical` its candidates. If no prefix offers so many, the
    /// prefix is all servers. Chooses the G_j candidates in it with least U (line 4).
    fn least_busy(&mut self, gpus: &mut Gpus<'_>, gang: Gang, limit: &mut Limit, chosen: &mut Vec<u32>) -> bool {
        let enough = self.lambda * f64::from(gang.num_gpus);
        let literal = self.variant == Variant::Literal;
        let (mut offered, mut prefix) = (0u64, 0);
        self.pool.clear();
        gpus.by_mean();
        while prefix < gpus.layout.sizes.len() && (offered as f64) < enough {
            let server = gpus.by_mean()[prefix].1 as usize;
            let before = self.pool.len();
            gpus.list(server, gang.charge, limit, &mut self.pool);
            offered += if literal { u64::from(gpus.layout.sizes[server]) } else { (self.pool.len() - before) as u64 };
            prefix += 1;
        }
        if self.pool.len() < gang.num_gpus as usize {
            return false;
        }
        keep_least(&mut self.pool, gang.num_gpus, chosen);
        true
    }

    /// Runs Floyd's algorithm over the ranks of the candidates in (server, GPU) order.
    fn random(&mut self, gpus: &Gpus<'_>, gang: Gang, limit: &mut Limit, chosen: &mut Vec<u32>) -> bool {
        self.pool.clear();
        for server in 0..gpus.layout.sizes.len() {
            gpus.list(server, gang.charge, limit, &mut self.pool);
        }
        let candidates = self.pool.len() as u64;
        let Some(first) = candidates.checked_sub(u64::from(gang.num_gpus)) else { return false };
        let mut ranks = BTreeSet::new();
        for i in first..candidates {
            let drawn = self.rng.below(i + 1);
            if !ranks.insert(drawn) {
                ranks.insert(i);
            }
        }
        chosen.extend(ranks.into_iter().map(|rank| self.pool[rank as usize].1));
        true
    }

    fn take_least(
        &mut self,
        gpus: &Gpus<'_>,
        server: usize,
        count: u32,
        charge: f64,
        limit: &mut Limit,
        chosen: &mut Vec<u32>,
    ) {
        self.pool.clear();
        gpus.list(server, charge, limit, &mut self.pool);
        keep_least(&mut self.pool, count, chosen);
    }
}

/// Appends the `count` GPUs of the pool with least U, ties by GPU, in order of GPU.
fn keep_least(pool: &mut Vec<(f64, u32)>, count: u32, chosen: &mut Vec<u32>) {
    let count = count as usize;
    if count < pool.len() {
        pool.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        pool.truncate(count);
    }
    let from = chosen.len();
    chosen.extend(pool.iter().map(|&(_, gpu)| gpu));
    chosen[from..].sort_unstable();
}

fn first_fit(
    gpus: &Gpus<'_>,
    gang: Gang,
    limit: &mut Limit,
    chosen: &mut Vec<u32>,
    pool: &mut Vec<(f64, u32)>,
) -> bool {
    let need = gang.num_gpus as usize;
    for server in 0..gpus.layout.sizes.len() {
        if gpus.candidates(server, gang.charge, limit) == 0 {
            continue;
        }
        pool.clear();
        gpus.list(server, gang.charge, limit, pool);
        chosen.extend(pool.iter().take(need - chosen.len()).map(|&(_, gpu)| gpu));
        if chosen.len() == need {
            return true;
        }
    }
    chosen.clear();
    false
}

/// Returns the idle GPUs with least U; they are candidates if the last of them is.
fn least_loaded(
    gpus: &Gpus<'_>,
    gang: Gang,
    limit: &mut Limit,
    chosen: &mut Vec<u32>,
    pool: &mut Vec<(f64, u32)>,
) -> bool {
    pool.clear();
    gpus.least(gang.num_gpus as usize, pool);
    let admitted = pool.last().is_some_and(|&(time, _)| limit.admits(time, gang.charge));
    if admitted {
        chosen.extend(pool.iter().map(|&(_, gpu)| gpu));
        chosen.sort_unstable();
    }
    admitted
}
