//! Divides the servers of a cluster by GPU type: each type is its own cluster.
//!
//! Invariant: every server is in one pool, and the numbers that leave this file are those of the whole cluster.
//! Inside a pool servers are renumbered, in the same order. For example, if servers 0 and 2 have V100s and server 1
//! has T4s, then server 2 is the second server of the first pool. Where all GPUs are alike there is one pool, and its
//! servers keep their numbers.

use super::{Placer, Probe};
use crate::cluster::{Claim, Cluster, Grant, Needs, Tier, Want};
use crate::ids::Form;
use crate::ids::{GpuType, Job, Server};

/// One cluster, or one for each GPU type.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    pools: Vec<Cluster>,
    parted: Option<Parted>,
}

/// Where each server is.
#[derive(Clone, Debug)]
struct Parted {
    /// The pool of every server, and its number there.
    place: Vec<(GpuType, Server)>,
    /// The servers of every pool.
    members: Vec<Vec<Server>>,
}

impl Pools {
    /// Creates pools of idle servers. `types`: the GPU type of each; `None` where all are alike.
    pub(crate) fn new(server_gpus: &[u32], types: Option<&[GpuType]>, needs: Needs) -> Self {
        let Some(types) = types else {
            return Self { pools: vec![Cluster::new(server_gpus, needs)], parted: None };
        };
        let count = types.iter().map(|of| of.index() + 1).max().unwrap_or(0);
        let mut members = vec![Vec::new(); count];
        let mut sizes = vec![Vec::new(); count];
        let mut place = Vec::with_capacity(types.len());
        for (server, (&of, &gpus)) in types.iter().zip(server_gpus).enumerate() {
            place.push((of, Server::at(members[of.index()].len())));
            members[of.index()].push(Server::at(server));
            sizes[of.index()].push(gpus);
        }
        let pools = sizes.iter().map(|sizes| Cluster::new(sizes, needs)).collect();
        Self { pools, parted: Some(Parted { place, members }) }
    }

    /// Keeps groups of servers from now on. `tiers`: of all servers. `forms`: those that occur.
    pub(crate) fn group(&mut self, tiers: &[Tier], forms: &[Form]) {
        match &self.parted {
            None => self.pools[0].group(tiers, forms),
            Some(parted) => {
                for (pool, members) in self.pools.iter_mut().zip(&parted.members) {
                    let members: Vec<u32> = members.iter().map(|server| server.number()).collect();
                    pool.group(&tiers.iter().map(|tier| tier.of(&members)).collect::<Vec<_>>(), forms);
                }
            }
        }
    }

    /// Returns whether servers are of several GPU types, or of one that is not alike to all jobs.
    #[inline]
    pub(crate) fn is_parted(&self) -> bool {
        self.parted.is_some()
    }

    /// Returns every pool, in order.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Cluster> {
        self.pools.iter_mut()
    }

    /// Returns the number of pools.
    pub(crate) fn len(&self) -> usize {
        self.pools.len()
    }

    /// Returns the pool of a GPU type; the only one where all are alike.
    #[inline]
    pub(crate) fn of_mut(&mut self, gpu_type: GpuType) -> &mut Cluster {
        let pool = self.pool_of(gpu_type);
        &mut self.pools[pool]
    }

    /// Returns a copy in which other GPUs may be idle: [`Cluster::pose`].
    pub(crate) fn to_pose(&self) -> Self {
        Self { pools: self.pools.iter().map(Cluster::to_pose).collect(), parted: self.parted.clone() }
    }

    /// Returns a pool by its index, mutably.
    pub(crate) fn pool_mut(&mut self, at: usize) -> &mut Cluster {
        &mut self.pools[at]
    }

    /// Returns a pool by its index; the only one is at 0.
    #[inline]
    pub(crate) fn pool(&self, at: usize) -> &Cluster {
        &self.pools[at]
    }

    /// Returns the server with a number within a pool.
    #[inline]
    pub(crate) fn member(&self, pool: usize, own: Server) -> Server {
        self.parted.as_ref().map_or(own, |parted| parted.members[pool][own.index()])
    }

    /// Returns the index of the pool of a GPU type.
    #[inline]
    pub(crate) fn pool_of(&self, gpu_type: GpuType) -> usize {
        if gpu_type == GpuType::NONE { 0 } else { gpu_type.index() }
    }

    /// Returns the GPUs of each pool that are up and that no replica of a service holds, or thousandths of one where
    /// jobs may hold shares.
    pub(crate) fn units(&self) -> Vec<u64> {
        self.pools.iter().map(|pool| pool.up * pool.units_per_gpu()).collect()
    }

    /// Returns the same over all pools.
    #[inline]
    pub(crate) fn up_units(&self) -> u64 {
        self.pools.iter().map(|pool| pool.up * pool.units_per_gpu()).sum()
    }

    /// Returns the same of the idle GPUs.
    pub(crate) fn idle_by_pool(&self) -> impl Iterator<Item = u64> + '_ {
        self.pools.iter().map(Cluster::idle_units)
    }

    /// Returns the number of servers.
    pub(crate) fn num_servers(&self) -> usize {
        self.parted.as_ref().map_or(self.pools[0].sizes.len(), |parted| parted.place.len())
    }

    /// Returns the pool of a server, and its number there.
    #[inline]
    pub(crate) fn place(&self, server: Server) -> (usize, Server) {
        self.parted.as_ref().map_or((0, server), |parted| {
            let (of, own) = parted.place[server.index()];
            (of.index(), own)
        })
    }

    /// Returns the GPU type of a server; `NONE` where all are alike.
    #[inline]
    pub(crate) fn type_of(&self, server: Server) -> GpuType {
        self.parted.as_ref().map_or(GpuType::NONE, |parted| parted.place[server.index()].0)
    }

    /// Returns the GPUs of a server.
    pub(crate) fn size(&self, server: Server) -> u32 {
        let (pool, own) = self.place(server);
        self.pools[pool].sizes[own.index()]
    }

    /// Returns the idle GPUs of a server.
    #[inline]
    pub(crate) fn idle(&self, server: Server) -> u32 {
        let (pool, own) = self.place(server);
        self.pools[pool].idle[own.index()]
    }

    /// Returns the idle GPUs of each server.
    pub(crate) fn idle_by_server(&self) -> Vec<u32> {
        (0..self.num_servers()).map(|server| self.idle(Server::at(server))).collect()
    }

    /// Returns the idle GPUs of all pools, in units as above.
    #[inline]
    pub(crate) fn idle_units(&self) -> u64 {
        match &self.parted {
            None => self.pools[0].idle_units(),
            Some(_) => self.idle_by_pool().sum(),
        }
    }

    /// Lets jobs hold shares of GPUs from now on, while all are empty.
    pub(crate) fn share(&mut self, needs: Needs) {
        self.pools.iter_mut().for_each(|pool| pool.share(needs));
    }

    /// Starts to track the fragmentation: the idle GPUs of each type that the demands of a job table cannot use.
    pub(crate) fn weigh(&mut self, demands: impl Fn(GpuType) -> Vec<Want>) {
        for (of, pool) in self.pools.iter_mut().enumerate() {
            pool.weigh(&demands(GpuType::at(of)));
        }
    }

    /// Returns whether that is tracked.
    pub(crate) fn is_weighed(&self) -> bool {
        self.pools[0].loss().is_some()
    }

    /// Returns the GPUs of a job, (server, index on it), and the thousandths that it holds of each; nothing where
    /// GPUs have no index.
    pub(crate) fn held(&self, job: Job, gpu_type: GpuType) -> (Vec<(Server, u32)>, u32) {
        let Some(shares) = self.pools[self.pool_of(gpu_type)].shares() else { return (Vec::new(), 0) };
        let (mut gpus, share) = shares.held(job);
        if let Some(parted) = &self.parted {
            gpus.iter_mut().for_each(|gpu| gpu.0 = parted.members[gpu_type.index()][gpu.0.index()]);
        }
        (gpus, share)
    }

    /// Returns U of every GPU, s, server by server; nothing where it is not kept.
    pub(crate) fn gpu_times(&self) -> Vec<f64> {
        let mut all = Vec::new();
        for server in (0..self.num_servers()).map(Server::at) {
            let (pool, own) = self.place(server);
            if let Some(times) = &self.pools[pool].gpu_times {
                all.extend_from_slice(times.of(own));
            }
        }
        all
    }

    /// Returns whether U is kept.
    #[inline]
    pub(crate) fn keeps_times(&self) -> bool {
        self.pools[0].gpu_times.is_some()
    }

    /// Keeps further indexes from now on.
    pub(crate) fn keep(&mut self, needs: Needs) {
        self.pools.iter_mut().for_each(|pool| pool.keep(needs));
    }

    /// Takes GPUs of a type by a placement, if it can. Where all are alike, any type will do.
    #[inline(always)]
    pub(crate) fn place_by(
        &mut self,
        placer: &mut Placer,
        gpu_type: GpuType,
        claim: &Claim,
        grant: &mut Grant,
    ) -> bool {
        match &self.parted {
            None => {
                grant.gpu_type = GpuType::NONE;
                placer.place(&mut self.pools[0], claim, grant)
            }
            Some(parted) => {
                let placed = placer.place(&mut self.pools[gpu_type.index()], claim, grant);
                if placed {
                    grant.gpu_type = gpu_type;
                    let members = &parted.members[gpu_type.index()];
                    grant.parts.iter_mut().for_each(|part| part.0 = members[part.0.index()]);
                }
                placed
            }
        }
    }

    /// Takes idle GPUs of given servers, all of one type.
    pub(crate) fn take(&mut self, parts: &[(Server, u32)], claim: &Claim, grant: &mut Grant) {
        grant.parts.clear();
        self.pools.iter_mut().for_each(Cluster::mark);
        for &(server, count) in parts {
            let (pool, own) = self.place(server);
            grant.gpu_type = self.type_of(server);
            self.pools[pool].take(own, count, claim, grant);
            if let Some(part) = grant.parts.last_mut() {
                part.0 = server;
            }
        }
    }

    /// Returns the thousandths of a GPU that no job holds, where jobs may hold shares.
    pub(crate) fn room(&self, server: Server, gpu: u32) -> u32 {
        let (pool, own) = self.place(server);
        self.pools[pool].shares().map_or(0, |shares| shares.room(own, gpu))
    }

    /// Takes given GPUs, or a share of one: (server, index of the GPU there), in order, all of one type.
    pub(crate) fn take_gpus(&mut self, gpus: &[(Server, u32)], claim: &Claim, grant: &mut Grant) {
        grant.parts.clear();
        self.pools.iter_mut().for_each(Cluster::mark);
        for here in gpus.chunk_by(|a, b| a.0 == b.0) {
            let server = here[0].0;
            let (pool, own) = self.place(server);
            grant.gpu_type = self.type_of(server);
            let gpus: Vec<u32> = here.iter().map(|gpu| gpu.1).collect();
            self.pools[pool].take_gpus(own, &gpus, claim);
            grant.parts.push((server, gpus.len() as u32));
        }
    }

    /// Returns a job's GPUs to the pool.
    #[inline(always)]
    pub(crate) fn release(&mut self, job: Job, parts: &[(Server, u32)]) {
        if self.parted.is_none() {
            return self.pools[0].release(job, parts);
        }
        for &(server, count) in parts {
            let (pool, own) = self.place(server);
            self.pools[pool].release(job, &[(own, count)]);
        }
    }

    /// Gives the GPUs that a job holds to another.
    pub(crate) fn rename(&mut self, from: Job, to: Job, parts: &[(Server, u32)]) {
        for &(server, _) in parts {
            let (pool, own) = self.place(server);
            self.pools[pool].rename(own, from, to);
        }
    }

    /// Adds time to U of the GPUs that a job holds, s.
    pub(crate) fn book(&mut self, holder: Job, parts: &[(Server, u32)], time: f64) {
        for &(server, _) in parts {
            let (pool, own) = self.place(server);
            self.pools[pool].book(own, holder, time);
        }
    }

    /// Takes every GPU of a server, all of which are idle, for no job.
    pub(crate) fn close(&mut self, server: Server) {
        let (pool, own) = self.place(server);
        self.pools[pool].close(own);
    }

    /// Gives them back.
    pub(crate) fn open(&mut self, server: Server) {
        let (pool, own) = self.place(server);
        self.pools[pool].open(own);
    }

    /// From now on takes what is idle on a server, or is released there, for no job.
    pub(crate) fn drain(&mut self, server: Server) {
        let (pool, own) = self.place(server);
        self.pools[pool].drain(own);
    }

    /// Returns the GPUs of a server that drains, and is not down, that nobody holds.
    pub(crate) fn sealed(&self, server: Server) -> u32 {
        let (pool, own) = self.place(server);
        self.pools[pool].sealed(own)
    }

    /// Gives it back.
    pub(crate) fn undrain(&mut self, server: Server) {
        let (pool, own) = self.place(server);
        self.pools[pool].undrain(own);
    }

    /// Takes the idle GPUs of a server for no job, while a job is placed. Returns the GPUs taken.
    pub(crate) fn cover(&mut self, server: Server) -> u32 {
        let (pool, own) = self.place(server);
        self.pools[pool].cover(own)
    }

    /// Gives them back.
    pub(crate) fn uncover(&mut self, server: Server, count: u32) {
        let (pool, own) = self.place(server);
        self.pools[pool].uncover(own, count);
    }

    /// Returns the server with the fewest idle GPUs that still holds so many, the lowest on ties; where servers are
    /// kept by idle count.
    pub(crate) fn tightest(&self, num_gpus: u32) -> Option<Server> {
        let found = self.pools.iter().enumerate().filter_map(|(number, pool)| {
            let own = pool.by_idle()?.tightest(num_gpus)?;
            let server = self.parted.as_ref().map_or(own, |parted| parted.members[number][own.index()]);
            Some((pool.idle[own.index()], server))
        });
        found.min().map(|(_, server)| server)
    }

    /// Takes idle GPUs of a server for a replica of a service.
    pub(crate) fn hold(&mut self, server: Server, count: u32, holder: Job) {
        let (pool, own) = self.place(server);
        self.pools[pool].hold(own, count, holder);
    }

    /// Gives them back.
    pub(crate) fn let_go(&mut self, server: Server, count: u32, holder: Job) {
        let (pool, own) = self.place(server);
        self.pools[pool].let_go(own, count, holder);
    }

    /// Gives back what the latest grant took, and the accumulated time with it.
    pub(crate) fn undo(&mut self, job: Job, parts: &[(Server, u32)]) {
        self.release(job, parts);
        if let Some(&(server, _)) = parts.first() {
            let (pool, _) = self.place(server);
            self.pools[pool].forget();
        }
    }
}

/// Idle GPUs as they would be at another time, pool by pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes(Vec<Probe>);

impl Probes {
    /// Copies the present idle GPUs.
    pub(crate) fn copy(&mut self, pools: &Pools) {
        self.0.resize_with(pools.len(), Probe::default);
        self.0.iter_mut().zip(&pools.pools).for_each(|(probe, pool)| probe.copy(pool));
    }

    /// Copies another probe.
    pub(crate) fn set_to(&mut self, others: &Self) {
        self.0.resize_with(others.0.len(), Probe::default);
        for (probe, other) in self.0.iter_mut().zip(&others.0) {
            probe.idle.clone_from(&other.idle);
            probe.with_idle.clone_from(&other.with_idle);
            probe.total = other.total;
            probe.groups.clone_from(&other.groups);
        }
    }

    /// Returns the idle GPUs of each server of a pool.
    pub(crate) fn idle_in(&self, pool: usize) -> &[u32] {
        &self.0[pool].idle
    }

    /// Adds one idle GPU on a server of a pool.
    #[inline]
    pub(crate) fn give_one(&mut self, (pool, own): (usize, Server)) {
        self.0[pool].give(own, 1);
    }

    /// Removes one.
    #[inline]
    pub(crate) fn take_one(&mut self, (pool, own): (usize, Server)) {
        self.0[pool].take(own, 1);
    }

    /// Adds these GPUs to the idle ones.
    pub(crate) fn give(&mut self, pools: &Pools, parts: &[(Server, u32)]) {
        for &(server, count) in parts {
            let (pool, own) = pools.place(server);
            self.0[pool].give(own, count);
        }
    }

    /// Removes these idle GPUs.
    pub(crate) fn take(&mut self, pools: &Pools, parts: &[(Server, u32)]) {
        for &(server, count) in parts {
            let (pool, own) = pools.place(server);
            self.0[pool].take(own, count);
        }
    }

    /// Returns the idle GPUs of a server.
    pub(crate) fn idle(&self, pools: &Pools, server: Server) -> u32 {
        let (pool, own) = pools.place(server);
        self.0[pool].idle[own.index()]
    }

    /// Returns the number of idle GPUs.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().map(|probe| probe.total).sum()
    }

    /// Returns the most idle GPUs on one server of a GPU type.
    pub(crate) fn most_of(&self, gpu_type: GpuType) -> u32 {
        self.of(gpu_type).with_idle.iter().rposition(|&servers| servers > 0).map_or(0, |most| most as u32)
    }

    /// Returns the idle GPUs of a GPU type.
    pub(super) fn of(&self, gpu_type: GpuType) -> &Probe {
        &self.0[if gpu_type == GpuType::NONE { 0 } else { gpu_type.index() }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{Options, Placement};

    #[test]
    fn a_gang_is_placed_on_one_type() {
        let options = Options { placement: Placement::FirstFit, ..Options::default() };
        let mut placer = Placer::new(&options);
        let types = [0, 1, 0].map(GpuType::new);
        let mut pools = Pools::new(&[2, 4, 2], Some(&types), placer.needs());
        let mut grant = Grant::default();
        let claim = Claim { job: Job::new(0), num_gpus: 3, time: 0.0, share: 0, form: Form::default() };
        assert!(pools.place_by(&mut placer, types[0], &claim, &mut grant));
        assert_eq!(grant.parts, [(Server::new(0), 2), (Server::new(2), 1)]);
        assert_eq!(pools.idle_by_server(), [0, 4, 1]);
        assert!(!pools.place_by(&mut placer, types[0], &Claim { job: Job::new(1), ..claim }, &mut grant));
        assert!(pools.place_by(&mut placer, types[1], &Claim { job: Job::new(1), ..claim }, &mut grant));
        assert_eq!((grant.gpu_type, &grant.parts[..]), (types[1], &[(Server::new(1), 3)][..]));
        assert_eq!(pools.idle_units(), 2);
        pools.release(Job::new(0), &[(Server::new(0), 2), (Server::new(2), 1)]);
        assert_eq!(pools.idle_by_server(), [2, 1, 2]);
    }
}
