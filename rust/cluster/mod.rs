//! Holds the servers and GPUs. GPUs change hands only here.
//!
//! Invariant: `idle[s]` counts the idle GPUs of server s, `total_idle` is their sum, and every index agrees with them.
//! An index exists only if the placement needs it. For example, taking 2 GPUs of a server with 3 idle ones moves the
//! server from 3 to 1 in every index.
//!
//! The checks of server sizes are here too.

mod groups;
mod idle;
mod loss;
mod network;
mod pods;
mod seats;
mod shares;
mod tiers;
mod times;
mod unavailable;

use crate::ds::{Fenwick, OrderedBits};
use crate::error::{Error, Result};
use crate::ids::Form;
use crate::ids::{GpuType, Job, MILLI_GPU, Server};
pub(crate) use groups::Groups;
use idle::counts;
pub(crate) use idle::{IdleIndex, in_pods};
pub(crate) use loss::{Loss, Want};
pub use network::Network;
use shares::Shares;
pub use tiers::Tier;
pub(crate) use tiers::{network_of, validate_tiers};
use times::GpuTimes;

/// Checks server sizes.
///
/// # Errors
/// `Option` if there is no server, one has no GPU, or the GPUs are too many to count.
pub(crate) fn validate_servers(server_gpus: &[u32]) -> Result<()> {
    let fail =
        |value: String, expected: &str| Err(Error::Option { name: "cluster", value, expected: expected.to_owned() });
    if server_gpus.is_empty() {
        return fail("no servers".to_owned(), "at least one server");
    }
    if let Some(s) = server_gpus.iter().position(|&g| g == 0) {
        return fail(format!("server {s} with 0 GPUs"), "at least one GPU a server");
    }
    let total: u64 = server_gpus.iter().map(|&g| u64::from(g)).sum();
    if total >= u64::from(u32::MAX) {
        return fail(format!("{total} GPUs"), "fewer than 2^32 - 1 GPUs");
    }
    Ok(())
}

/// Computes the fewest servers that hold a gang: the largest servers first.
#[derive(Clone, Debug)]
pub struct FewestServers {
    /// GPUs of the k + 1 largest servers together.
    cumulative: Vec<u64>,
}

impl FewestServers {
    /// Prepares for one cluster.
    #[must_use]
    pub fn new(server_gpus: &[u32]) -> Self {
        let mut sizes: Vec<u32> = server_gpus.to_vec();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut sum = 0;
        let cumulative = sizes
            .iter()
            .map(|&g| {
                sum += u64::from(g);
                sum
            })
            .collect();
        Self { cumulative }
    }

    /// Returns the fewest servers that hold `num_gpus`, or `None` if the cluster cannot.
    #[must_use]
    pub fn of(&self, num_gpus: u32) -> Option<u32> {
        // Most jobs fit on the largest server.
        if self.cumulative.first().is_some_and(|&largest| u64::from(num_gpus) <= largest) {
            return Some(1);
        }
        let k = self.cumulative.partition_point(|&sum| sum < u64::from(num_gpus));
        (k < self.cumulative.len()).then_some(k as u32 + 1)
    }
}

/// The indexes that a placement needs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Needs {
    /// Servers by idle count.
    pub(crate) by_idle: bool,
    /// Servers by idle count, opened and unopened apart.
    pub(crate) by_opened: bool,
    /// Servers with an idle GPU, by index.
    pub(crate) with_idle: bool,
    /// Idle GPUs by rank.
    pub(crate) by_rank: bool,
    /// Accumulated time of every GPU.
    pub(crate) gpu_times: bool,
    /// The job on each GPU, for placements that take the lowest GPUs of a server, whatever their accumulated times.
    pub(crate) lowest: bool,
    /// The idle GPU with least accumulated time.
    pub(crate) least_time: bool,
    /// Servers by mean accumulated time.
    pub(crate) mean_time: bool,
    /// The first GPU with room for a share, where there are shares.
    pub(crate) first_room: bool,
    /// Loss of idle GPUs to the demands of the job table.
    pub(crate) loss: bool,
    /// The number of servers by idle count, where jobs have pods of several GPUs.
    pub(crate) with_idle_count: bool,
    /// Groups of servers by idle GPUs, tier by tier.
    pub(crate) groups: bool,
}

/// GPUs granted to a gang: (server, GPUs) in the order of the grant, one entry per server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grant {
    pub(crate) parts: Vec<(Server, u32)>,
    /// Their type; `NONE` where all are alike.
    pub(crate) gpu_type: GpuType,
}

/// The job that takes GPUs, and their cost in accumulated time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim {
    /// The job, by row.
    pub(crate) job: Job,
    /// GPUs it requests.
    pub(crate) num_gpus: u32,
    /// rho_j / u, s: the increase of U on each of its GPUs.
    pub(crate) time: f64,
    /// Thousandths of one GPU; 0 for whole GPUs.
    pub(crate) share: u32,
    /// How the gang may lie.
    pub(crate) form: Form,
}

impl Claim {
    /// Returns how many of so many GPUs of a server are whole pods.
    #[inline]
    pub(crate) fn whole_pods(&self, gpus: u32) -> u32 {
        gpus - gpus % self.form.pod
    }
}

/// The state of the servers.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// O_s.
    pub(crate) sizes: Vec<u32>,
    /// Idle GPUs of each server.
    pub(crate) idle: Vec<u32>,
    /// Total number of idle GPUs.
    pub(crate) total_idle: u64,
    /// Number of changes of what is idle, and of U.
    pub(crate) changes: u64,
    /// The largest O_s.
    pub(crate) largest: u32,
    /// GPUs of the servers that are up, without those held by replicas of services; of a server that drains those that
    /// jobs hold.
    pub(crate) up: u64,
    /// Of each server that drains the GPUs that nobody holds; empty before the first one does.
    sealed: Vec<Option<u32>>,
    by_idle: Option<IdleIndex>,
    opened: Option<IdleIndex>,
    unopened: Option<IdleIndex>,
    with_idle: Option<OrderedBits>,
    by_rank: Option<Fenwick>,
    /// The number of servers by idle count, where jobs have pods of several GPUs.
    by_count: Option<Vec<u32>>,
    /// Accumulated time of every GPU, where the placement reads it.
    pub(crate) gpu_times: Option<GpuTimes>,
    /// The room of every GPU, where jobs may hold shares. Then `idle` counts the empty GPUs.
    shares: Option<Box<Shares>>,
    loss: Option<Box<Loss>>,
    groups: Option<Box<Groups>>,
    /// Whether there are indexes that few placements keep: `by_rank`, `by_count` or `groups`.
    keeps_rare: bool,
}

impl Cluster {
    pub(crate) fn new(server_gpus: &[u32], needs: Needs) -> Self {
        let sizes = server_gpus.to_vec();
        let servers = sizes.len();
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let index = |wanted: bool| wanted.then(|| IdleIndex::new(servers, largest));
        let mut cluster = Self {
            idle: sizes.clone(),
            changes: 0,
            total_idle: sizes.iter().map(|&g| u64::from(g)).sum(),
            up: sizes.iter().map(|&g| u64::from(g)).sum(),
            sealed: Vec::new(),
            largest,
            by_idle: index(needs.by_idle),
            opened: index(needs.by_opened),
            unopened: index(needs.by_opened),
            with_idle: needs.with_idle.then(|| OrderedBits::new(servers)),
            by_rank: needs.by_rank.then(|| Fenwick::new(&sizes)),
            by_count: needs.with_idle_count.then(|| counts(&sizes, largest)),
            gpu_times: needs.gpu_times.then(|| GpuTimes::new(&sizes, &needs)),
            shares: None,
            loss: None,
            groups: None,
            keeps_rare: needs.by_rank || needs.with_idle_count,
            sizes,
        };
        for (s, &size) in cluster.sizes.iter().enumerate() {
            for index in [&mut cluster.by_idle, &mut cluster.unopened].into_iter().flatten() {
                index.insert(size, Server::at(s));
            }
            if let Some(bits) = &mut cluster.with_idle {
                bits.insert(s);
            }
        }
        cluster
    }

    /// Keeps further indexes from now on. U is not among them: it must be kept from the start.
    pub(crate) fn keep(&mut self, needs: Needs) {
        let servers = self.sizes.len();
        let largest = self.largest;
        let Self { idle, sizes, .. } = self;
        let index = |member: &dyn Fn(u32, u32) -> bool| {
            let mut index = IdleIndex::new(servers, largest);
            for (server, (&idle, &size)) in idle.iter().zip(sizes.iter()).enumerate() {
                if member(idle, size) {
                    index.insert(idle, Server::at(server));
                }
            }
            index
        };
        if needs.by_idle && self.by_idle.is_none() {
            self.by_idle = Some(index(&|_, _| true));
        }
        if needs.by_opened && self.opened.is_none() {
            self.opened = Some(index(&|idle, size| idle < size));
            self.unopened = Some(index(&|idle, size| idle == size));
        }
        if needs.with_idle && self.with_idle.is_none() {
            let mut bits = OrderedBits::new(servers);
            idle.iter().enumerate().filter(|(_, idle)| **idle > 0).for_each(|(server, _)| bits.insert(server));
            self.with_idle = Some(bits);
        }
        if needs.by_rank && self.by_rank.is_none() {
            self.by_rank = Some(Fenwick::new(idle));
            self.keeps_rare = true;
        }
        if let Some(times) = &mut self.gpu_times {
            times.keep(needs.least_time, needs.mean_time);
        }
    }

    /// Lets jobs hold shares of GPUs from now on, while all are empty.
    pub(crate) fn share(&mut self, needs: Needs) {
        self.shares = Some(Box::new(Shares::new(&self.sizes, needs.first_room)));
    }

    /// Tracks which idle GPUs are lost to the demands of the job table: see [`Loss::new`].
    pub(crate) fn weigh(&mut self, demands: &[Want]) {
        self.loss = Some(Box::new(Loss::new(demands, self.largest)));
    }

    /// Keeps groups of servers from now on. `tiers`: of these servers. `forms`: those that occur.
    pub(crate) fn group(&mut self, tiers: &[Tier], forms: &[Form]) {
        if self.groups.is_none() {
            self.groups = Some(Box::new(Groups::new(tiers, &self.sizes, &self.idle, forms)));
            self.keeps_rare = true;
        }
    }

    /// Returns the groups of servers, where the placement needs them.
    #[inline]
    pub(crate) fn groups(&self) -> Option<&Groups> {
        self.groups.as_deref()
    }

    /// Returns the share of each GPU that each job holds; `None` where no job holds a share.
    #[inline]
    pub(crate) fn shares(&self) -> Option<&Shares> {
        self.shares.as_deref()
    }

    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.loss.as_deref()
    }

    /// Returns the units of a GPU: 1, or its thousandths where jobs may hold shares.
    pub(crate) fn units_per_gpu(&self) -> u64 {
        self.shares.as_ref().map_or(1, |_| u64::from(MILLI_GPU))
    }

    /// Returns what is idle: GPUs, or thousandths of one where jobs may hold shares.
    #[inline]
    pub(crate) fn idle_units(&self) -> u64 {
        self.shares.as_ref().map_or(self.total_idle, |shares| shares.total())
    }

    pub(crate) fn by_idle(&self) -> Option<&IdleIndex> {
        self.by_idle.as_ref()
    }

    pub(crate) fn opened(&self) -> Option<&IdleIndex> {
        self.opened.as_ref()
    }

    pub(crate) fn unopened(&self) -> Option<&IdleIndex> {
        self.unopened.as_ref()
    }

    /// Returns the GPUs of all pods of a size that idle GPUs hold now.
    pub(crate) fn idle_in_pods(&self, pod: u32) -> u64 {
        if pod == 1 { self.total_idle } else { self.by_count.as_ref().map_or(0, |counts| in_pods(counts, pod)) }
    }

    /// Returns the servers with an idle GPU, where the placement needs them.
    pub(crate) fn with_idle(&self) -> Option<&OrderedBits> {
        self.with_idle.as_ref()
    }

    /// Returns the server of the idle GPU of that rank in (server, GPU) order.
    pub(crate) fn server_of_rank(&self, rank: u64) -> Option<Server> {
        self.by_rank.as_ref().map(|tree| Server::at(tree.find(rank)))
    }

    /// Takes `count` idle GPUs of a server: those with least U, or the lowest where U is not kept.
    pub(crate) fn take(&mut self, server: Server, count: u32, claim: &Claim, grant: &mut Grant) {
        if let Some(times) = &mut self.gpu_times {
            times.take_least(server, count, claim);
        }
        if let Some(shares) = &mut self.shares {
            shares.take_empty(server, count, claim.job);
        }
        self.set_idle(server, self.idle[server.index()] - count);
        grant.parts.push((server, count));
    }

    /// Takes a share of a GPU that has room for it.
    pub(crate) fn take_share(&mut self, gpu: usize, claim: &Claim, grant: &mut Grant) {
        let Some(shares) = &mut self.shares else { return };
        self.changes += 1;
        let server = shares.server_of(gpu);
        if shares.take(gpu, claim.job, claim.share) {
            self.set_idle(server, self.idle[server.index()] - 1);
        }
        grant.parts.push((server, 1));
    }

    /// Takes those GPUs of a server for a job, whole or its share of each; only where jobs may hold shares.
    pub(crate) fn take_gpus(&mut self, server: Server, gpus: &[u32], claim: &Claim) {
        let Some(shares) = &mut self.shares else { return };
        self.changes += 1;
        let emptied = shares.take_named(server, gpus, claim);
        self.set_idle(server, self.idle[server.index()] - emptied);
    }

    /// Takes the pod of idle GPUs with least U of all.
    pub(crate) fn take_least_used_pod(&mut self, claim: &Claim, grant: &mut Grant) {
        let Some(server) = self.gpu_times.as_mut().and_then(|times| times.take_least_used_pod(claim)) else { return };
        self.set_idle(server, self.idle[server.index()] - claim.form.pod);
        match grant.parts.iter_mut().rev().find(|p| p.0 == server) {
            Some(part) => part.1 += claim.form.pod,
            None => grant.parts.push((server, claim.form.pod)),
        }
    }

    /// Releases a job's GPUs.
    #[inline(always)]
    pub(crate) fn release(&mut self, job: Job, parts: &[(Server, u32)]) {
        if let Some(shares) = &mut self.shares {
            self.changes += 1;
            for server in shares.release(job) {
                self.set_idle(server, self.idle[server.index()] + 1);
            }
        } else {
            for &(server, count) in parts {
                if let Some(times) = &mut self.gpu_times {
                    times.release(server, count, job);
                }
                self.set_idle(server, self.idle[server.index()] + count);
            }
        }
        if !self.sealed.is_empty() {
            parts.iter().for_each(|part| self.seal(part.0));
        }
    }

    /// Takes back the accumulated time of the latest grant.
    pub(crate) fn forget(&mut self) {
        if let Some(times) = &mut self.gpu_times {
            times.undo();
        }
    }

    /// Forgets how to undo the grants before this point.
    pub(crate) fn mark(&mut self) {
        if let Some(times) = &mut self.gpu_times {
            times.mark();
        }
    }

    #[inline]
    fn set_idle(&mut self, server: Server, idle: u32) {
        let s = server.index();
        self.changes += 1;
        let was = std::mem::replace(&mut self.idle[s], idle);
        let size = self.sizes[s];
        self.total_idle = self.total_idle + u64::from(idle) - u64::from(was);
        if let Some(index) = &mut self.by_idle {
            index.remove(was, server);
            index.insert(idle, server);
        }
        if let (Some(opened), Some(unopened)) = (&mut self.opened, &mut self.unopened) {
            (if was == size { &mut *unopened } else { &mut *opened }).remove(was, server);
            (if idle == size { unopened } else { opened }).insert(idle, server);
        }
        if let Some(bits) = &mut self.with_idle {
            if idle == 0 {
                bits.remove(s);
            } else if was == 0 {
                bits.insert(s);
            }
        }
        if self.keeps_rare {
            self.set_rare(server, was, idle);
        }
    }

    /// Updates the indexes that few placements keep.
    #[inline(never)]
    fn set_rare(&mut self, server: Server, was: u32, idle: u32) {
        if let Some(tree) = &mut self.by_rank {
            tree.add(server.index(), i64::from(idle) - i64::from(was));
        }
        if let Some(groups) = &mut self.groups {
            groups.set(server, was, idle);
        }
        if let Some(counts) = &mut self.by_count {
            counts[was as usize] -= 1;
            counts[idle as usize] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewest_servers_takes_the_largest_first() {
        let few = FewestServers::new(&[2, 8, 4]);
        let got: Vec<_> = [1, 8, 9, 12, 13, 14, 15].map(|w| few.of(w)).to_vec();
        assert_eq!(got, [Some(1), Some(1), Some(2), Some(2), Some(3), Some(3), None]);
    }

    #[test]
    fn network_constants_are_checked() {
        assert!(Network::default().validate().is_ok());
        for bad in [
            Network { contention_share: 0.0, ..Network::default() },
            Network { contention_share: 1.5, ..Network::default() },
            Network { inter_bandwidth: -1.0, ..Network::default() },
            Network { degradation: f64::NAN, ..Network::default() },
        ] {
            assert!(bad.validate().is_err());
        }
    }
}
