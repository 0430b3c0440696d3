//! Tracks the jobs on the servers, how long they have left, and when servers come free by themselves.
//!
//! How long a job has left is computed on request, once a pass. In between there are bounds: the earliest end of each
//! job, for each server and number of GPUs the earliest time at which they are idle, and for each server the greatest
//! key on it. So a query examines only the servers and jobs for which the bounds do not suffice.
//!
//! Invariant: no bound is beyond the truth: no job ends before its earliest end, and no key is above the greatest.
//! For example, a job with 100 s left at 10 s ends at 110 s at the earliest, and contention only makes that later.

use super::relocation::Least;
use super::run_times::RunTimes;
use super::strain::{Strains, strain};
use crate::cluster::FewestServers;
use crate::ds::Minima;
use crate::ids::{Job, Server, Slot};
use crate::machine::{ClusterState, Stay};
use crate::options::Model;
use crate::setting::Setting;
use crate::speed::Speed;
use std::collections::BTreeMap;

/// Times are rounded: a bound distinguishes two that differ by more than this share.
const ROUNDING: f64 = 1e-9;

/// Which jobs are where.
#[derive(Clone, Debug)]
pub(super) struct ServerIndex<F> {
    pub(super) run_times: F,
    pub(super) strains: Strains,
    pools: Vec<Pool>,
    /// By job, where servers are of several GPU types: how many times as long it takes where it runs as where it was
    /// recorded.
    ratio: Vec<f64>,
    /// By job, there too: how long it stays, s, as of the pass that asked for `left`.
    stays: Vec<f64>,
    /// By job, where jobs may hold shares: the GPU, of its server, of which it holds one.
    gpu: Vec<Option<u32>>,
    /// Whether no bound outlasts a pass: rates may be above those that are foreseen.
    is_fresh: bool,
    /// By job: its slot, its run time left with what counts of the rest of its pause, s, and the pass that asked for
    /// that.
    pub(super) slot: Vec<Slot>,
    left: Vec<f64>,
    asked: Vec<u32>,
    pass: u32,
    /// How often a job came or left, or a pass began.
    pub(super) changes: u64,
    /// By job: where its run time falls, the time at which it ends at the earliest, s; else, its least run time left,
    /// s.
    earliest: Vec<f64>,
    /// By slot: the pool, and the servers there.
    places: Vec<(usize, Vec<Server>)>,
    /// Running jobs whose bounds are no longer valid; it may be all.
    changed: Vec<Job>,
    all_changed: bool,
    /// Buffer for bounds: (earliest end, GPUs) of the jobs on a server. It is empty in between.
    gone: Vec<(f64, u32)>,
}

/// Which jobs are where on the servers of a GPU type, numbered within the pool.
#[derive(Clone, Debug)]
struct Pool {
    /// By server: (job, GPUs that it holds there).
    on: Vec<Vec<(Job, u32)>>,
    /// By server: at least the greatest GPUs that count x run time left of its jobs.
    key: Vec<f64>,
    /// By server: a number that changes when its jobs do; whether its bounds must be recomputed.
    version: Vec<u32>,
    is_stale: Vec<bool>,
    stale: Vec<Server>,
    /// By a gang's GPUs and those of the largest job for which there is room elsewhere, by server.
    least: BTreeMap<(u32, u32), Vec<Least>>,
    /// By slot the earliest end; and for each number of GPUs of a job, by server, for that many idle ones.
    ends: Minima,
    free: Vec<(u32, Minima)>,
    few: FewestServers,
    /// What the pass has counted of the jobs that end soon.
    released: Vec<Released>,
}

/// How many units the jobs of the first slots release within some seconds.
#[derive(Clone, Copy, Debug)]
struct Released {
    seconds: f64,
    /// The first slot that is not counted.
    from: usize,
    units: u64,
}

impl Released {
    /// Returns whether a job of a slot that stays so long, s, is counted.
    fn has(&self, slot: Slot, stays: f64) -> bool {
        slot.index() < self.from && stays < self.seconds
    }
}

impl Pool {
    fn new(setting: &Setting<'_>, sizes: &[u32]) -> Self {
        let (jobs, servers) = (setting.jobs.len(), sizes.len());
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let mut needs: Vec<u32> = setting.jobs.num_gpus.iter().map(|&gpus| gpus.min(largest)).collect();
        needs.sort_unstable();
        needs.dedup();
        let mut pool = Self {
            on: vec![Vec::new(); servers],
            key: vec![0.0; servers],
            version: vec![1; servers],
            is_stale: vec![false; servers],
            stale: Vec::new(),
            least: BTreeMap::new(),
            // No more jobs run than there are GPUs, except with shares.
            ends: Minima::new(match setting.jobs.shares {
                None => jobs.min(setting.server_gpus.iter().map(|&gpus| gpus as usize).sum()),
                Some(_) => jobs,
            }),
            free: needs.into_iter().map(|need| (need, Minima::new(servers))).collect(),
            few: FewestServers::new(sizes),
            released: Vec::new(),
        };
        (0..servers).for_each(|server| pool.spoil(Server::at(server)));
        pool
    }

    fn spoil(&mut self, server: Server) {
        if !std::mem::replace(&mut self.is_stale[server.index()], true) {
            self.stale.push(server);
        }
    }
}

/// Returns what counts of the rest of a pause, s: that of a start, or of a server that wakes, may be longer than that
/// of a move.
fn rest<S: Speed>(state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
    if stay.from <= state.now {
        return 0.0;
    }
    state.pause_left_of(stay).min(state.pause_seconds())
}

impl<F: RunTimes> ServerIndex<F> {
    pub(super) fn new(setting: &Setting<'_>, run_times: F) -> Self {
        let jobs = setting.jobs.len();
        let pools: Vec<Pool> = match setting.server_types {
            None => vec![Pool::new(setting, setting.server_gpus)],
            Some(types) => (0..setting.num_pools())
                .map(|of| {
                    let own = types.iter().zip(setting.server_gpus).filter(|(gpu_type, _)| gpu_type.index() == of);
                    Pool::new(setting, &own.map(|(_, &gpus)| gpus).collect::<Vec<u32>>())
                })
                .collect(),
        };
        let is_parted = setting.server_types.is_some();
        Self {
            run_times,
            strains: Strains::new(setting),
            pools,
            ratio: vec![1.0; if is_parted { jobs } else { 0 }],
            stays: vec![0.0; if is_parted { jobs } else { 0 }],
            gpu: vec![None; setting.jobs.shares.map_or(0, |_| jobs)],
            is_fresh: is_parted || setting.options.model == Model::Table,
            slot: vec![Slot::NONE; jobs],
            left: vec![0.0; jobs],
            asked: vec![0; jobs],
            pass: 0,
            changes: 0,
            earliest: vec![0.0; jobs],
            places: Vec::new(),
            changed: Vec::new(),
            all_changed: false,
            gone: Vec::new(),
        }
    }

    /// Returns a number that changes when the server's jobs do; not 0.
    pub(super) fn version(&self, pool: usize, server: Server) -> u32 {
        self.pools[pool].version[server.index()]
    }

    /// Returns at least the greatest GPUs that count x run time left of the server's jobs.
    pub(super) fn key(&mut self, pool: usize, server: Server) -> &mut f64 {
        &mut self.pools[pool].key[server.index()]
    }

    /// Takes what servers must lose at least so that a gang finds room; give it back.
    pub(super) fn take_least(&mut self, pool: usize, num_gpus: u32, movable: u32) -> Vec<Least> {
        let pool = &mut self.pools[pool];
        let servers = pool.on.len();
        let least = pool.least.entry((num_gpus, movable)).or_insert_with(|| vec![Least::default(); servers]);
        std::mem::take(least)
    }

    pub(super) fn give_least(&mut self, pool: usize, num_gpus: u32, movable: u32, least: Vec<Least>) {
        self.pools[pool].least.insert((num_gpus, movable), least);
    }

    /// Returns (job, GPUs that it holds there) on a server. The GPUs are as many as it asks for if it is on no other
    /// server.
    pub(super) fn on(&self, pool: usize, server: Server) -> &[(Job, u32)] {
        &self.pools[pool].on[server.index()]
    }

    /// Returns (server, GPUs) of a running job.
    pub(super) fn parts<'f, S: Speed>(&self, state: &'f ClusterState<'_, S>, job: Job) -> &'f [(Server, u32)] {
        &state.stays[self.slot[job.index()].index()].parts
    }

    /// Returns whether a running job is protected from being stopped or moved for others.
    pub(super) fn is_protected<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> bool {
        state.protects() && state.is_protected(self.slot[job.index()])
    }

    /// Returns the GPU of its server of which a running job holds a share.
    pub(super) fn gpu_of(&self, job: Job) -> Option<u32> {
        self.gpu.get(job.index()).copied().flatten()
    }

    /// Records that a job holds GPUs now.
    pub(super) fn settle<S: Speed>(&mut self, state: &ClusterState<'_, S>, slot: Slot) {
        let stay = &state.stays[slot.index()];
        self.changes += 1;
        self.slot[stay.job.index()] = slot;
        if self.places.len() <= slot.index() {
            self.places.resize(slot.index() + 1, (0, Vec::new()));
        }
        let at = state.cluster.pool_of(stay.gpu_type);
        let (pool, place) = (&mut self.pools[at], &mut self.places[slot.index()]);
        place.0 = at;
        for &(server, gpus) in &stay.parts {
            let (_, server) = state.cluster.place(server);
            pool.on[server.index()].push((stay.job, gpus));
            pool.version[server.index()] += 1;
            place.1.push(server);
        }
        if let Some(ratio) = self.ratio.get_mut(stay.job.index()) {
            *ratio = state.ratio_on(stay.job, stay.gpu_type, &pool.few);
        }
        if state.jobs.share_of(stay.job.index()) > 0 {
            let held = state.cluster.held(stay.job, stay.gpu_type).0;
            self.gpu[stay.job.index()] = held.first().map(|gpu| gpu.1);
        }
        self.run_times.started(state, stay);
        self.asked[stay.job.index()] = 0;
        self.renew(state, stay.job);
        let stays = self.stays(state, stay.job);
        for counted in self.pools[at].released.iter_mut().filter(|counted| counted.has(slot, stays)) {
            counted.units += u64::from(state.units(stay.job));
        }
    }

    /// Records that a job leaves its GPUs.
    pub(super) fn unsettle<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> Slot {
        let slot = std::mem::replace(&mut self.slot[job.index()], Slot::NONE);
        self.changes += 1;
        let stays = self.stays.get(job.index()).unwrap_or(&self.left[job.index()]);
        let is_known = self.asked[job.index()] == self.pass; // else it is counted nowhere
        let place = &mut self.places[slot.index()];
        let pool = &mut self.pools[place.0];
        for server in place.1.drain(..) {
            pool.on[server.index()].retain(|&(other, _)| other != job);
            pool.version[server.index()] += 1;
            pool.spoil(server);
        }
        pool.ends.set(slot.index(), f64::INFINITY);
        for counted in pool.released.iter_mut().filter(|counted| is_known && counted.has(slot, *stays)) {
            // Of a job on a server that drains less was counted; it leaves between two passes only.
            counted.units = counted.units.saturating_sub(u64::from(state.units(job)));
        }
        self.run_times.stopped(job);
        slot
    }

    /// Records that servers have other GPUs than before, or may have.
    pub(super) fn spoil_all(&mut self) {
        for pool in &mut self.pools {
            for server in 0..pool.on.len() {
                pool.version[server] += 1;
                pool.spoil(Server::at(server));
            }
        }
    }

    /// Records that a running job's work left has changed by other than elapsed time.
    pub(super) fn set_back(&mut self, job: Job) {
        self.changed.push(job);
    }

    /// Begins a pass.
    pub(super) fn begin<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        self.pass += 1;
        self.changes += 1;
        self.pools.iter_mut().for_each(|pool| pool.released.clear());
        self.all_changed |= self.run_times.begin(state, &mut self.changed) || self.is_fresh;
    }

    /// Returns the run time left of a running job now, s, with what counts of the rest of its pause.
    pub(super) fn left<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        let j = job.index();
        if self.asked[j] != self.pass {
            self.asked[j] = self.pass;
            let stay = &state.stays[self.slot[j].index()];
            let (left, rest) = (self.run_times.remaining_running(state, stay), rest(state, stay));
            self.left[j] = left + rest;
            if let (Some(stays), Some(ratio)) = (self.stays.get_mut(j), self.ratio.get(j)) {
                *stays = left * ratio + rest;
            }
        }
        self.left[j]
    }

    /// Returns how long a running job stays if no job slows it, s: its run time left on the GPUs that it holds.
    fn stays<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        let left = self.left(state, job);
        self.stays.get(job.index()).copied().unwrap_or(left)
    }

    /// Returns the strain of a running job now.
    pub(super) fn strain<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        let reference_time = self.run_times.reference_time_running(state, &state.stays[self.slot[job.index()].index()]);
        strain(state.seconds() - self.strains.origin(state, job), reference_time)
    }

    /// Recomputes the bounds of a job, and those of its servers.
    fn renew<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let left = self.stays(state, job);
        let slot = self.slot[job.index()];
        let earliest = if F::FALLS { state.seconds() + left } else { left - rest(state, &state.stays[slot.index()]) };
        self.earliest[job.index()] = earliest;
        let (pool, servers) = &self.places[slot.index()];
        let pool = &mut self.pools[*pool];
        pool.ends.set(slot.index(), earliest);
        servers.iter().for_each(|&server| pool.spoil(server));
    }

    /// Recomputes bounds that are no longer valid.
    pub(super) fn refresh<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        let mut changed = std::mem::take(&mut self.changed);
        if std::mem::take(&mut self.all_changed) {
            changed.clear();
            changed.extend(state.stays.iter().filter(|stay| stay.is_live()).map(|stay| stay.job));
        }
        for job in changed.drain(..) {
            if let Some(stay) = state.stays.get(self.slot[job.index()].index()) {
                self.run_times.started(state, stay);
                self.renew(state, job);
            }
        }
        self.changed = changed;
        for at in 0..self.pools.len() {
            while let Some(server) = self.pools[at].stale.pop() {
                self.bound(state, at, server);
            }
        }
    }

    /// Recomputes the bounds of a server.
    fn bound<S: Speed>(&mut self, state: &ClusterState<'_, S>, at: usize, server: Server) {
        let (s, cluster) = (server.index(), state.cluster.pool(at));
        let mut ends = std::mem::take(&mut self.gone);
        // A GPU that shares hold is idle once the last of them is done.
        let (mut last, mut greatest) = (BTreeMap::new(), 0.0);
        let drains = state.is_draining(state.cluster.member(at, server));
        for &(job, gpus) in self.pools[at].on[s].iter().filter(|_| !drains) {
            let own = self.earliest[job.index()];
            greatest = f64::max(greatest, self.run_times.counted_gpus(state.units(job)) * self.left[job.index()]);
            match self.gpu_of(job) {
                None => ends.push((own, gpus)),
                Some(gpu) => {
                    let end = last.entry(gpu).or_insert(f64::NEG_INFINITY);
                    *end = f64::max(*end, own);
                }
            }
        }
        ends.extend(last.into_values().map(|end| (end, 1)));
        ends.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let pool = &mut self.pools[at];
        let (mut idle, mut gone) = (cluster.idle[s], 0);
        for (need, free) in pool.free.iter_mut().filter(|(need, _)| *need <= cluster.sizes[s]) {
            while idle < *need && gone < ends.len() {
                idle += ends[gone].1;
                gone += 1;
            }
            let since = gone.checked_sub(1).map_or(f64::NEG_INFINITY, |last| ends[last].0);
            free.set(s, since);
        }
        pool.key[s] = greatest;
        pool.is_stale[s] = false;
        ends.clear();
        self.gone = ends;
    }

    /// Returns a bound: jobs and servers with an earlier time may be done within so many seconds; others are not.
    fn horizon<S: Speed>(state: &ClusterState<'_, S>, seconds: f64) -> f64 {
        let time = if F::FALLS { state.seconds() + seconds } else { seconds };
        time + ROUNDING * f64::max(1.0, time)
    }

    /// Returns whether completions alone take at least so many seconds to free a gang's GPUs: on one server, or so
    /// many empty servers.
    pub(super) fn free_no_sooner<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        pool: usize,
        num_gpus: u32,
        seconds: f64,
    ) -> bool {
        self.refresh(state);
        let (largest, servers) = (state.cluster.pool(pool).largest, state.cluster.pool(pool).sizes.len());
        let (need, wanted) = (num_gpus.min(largest), num_gpus.div_ceil(largest));
        let Ok(at) = self.pools[pool].free.binary_search_by_key(&need, |free| free.0) else { return false };
        let horizon = Self::horizon(state, seconds);
        let (mut found, mut from) = (0, 0);
        while let Some(s) = self.pools[pool].free[at].1.next(from, servers, |time| time <= horizon) {
            from = s + 1;
            if self.frees(state, (pool, Server::at(s)), need, seconds) {
                found += 1;
                if found >= wanted {
                    return false;
                }
            }
        }
        true
    }

    /// Returns whether completions within so many seconds leave a server so many idle GPUs.
    fn frees<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        (pool, server): (usize, Server),
        need: u32,
        seconds: f64,
    ) -> bool {
        let mut idle = state.cluster.pool(pool).idle[server.index()];
        let mut opened: BTreeMap<u32, bool> = BTreeMap::new();
        let drains = state.is_draining(state.cluster.member(pool, server));
        for at in 0..self.on(pool, server).len() {
            if idle >= need || drains {
                break;
            }
            let (job, gpus) = self.on(pool, server)[at];
            let ends = self.stays(state, job) < seconds;
            if let Some(gpu) = self.gpu_of(job) {
                *opened.entry(gpu).or_insert(true) &= ends;
            } else if ends {
                idle += gpus;
            }
            if F::FALLS && !ends {
                self.renew(state, job);
            }
        }
        idle + opened.values().filter(|&&empties| empties).count() as u32 >= need
    }

    /// Returns whether it takes at least so many seconds until the jobs that complete have released so many GPUs.
    pub(super) fn released_no_sooner<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        pool: usize,
        gpus: u64,
        seconds: f64,
    ) -> bool {
        self.released(state, pool, gpus, seconds) < gpus
    }

    /// Returns how many units the jobs release that complete within so many seconds: all, or at least `enough`.
    pub(super) fn released<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        pool: usize,
        enough: u64,
        seconds: f64,
    ) -> u64 {
        let horizon = Self::horizon(state, seconds);
        let known = &mut self.pools[pool].released;
        let at = known.iter().position(|counted| counted.seconds == seconds).unwrap_or_else(|| {
            known.push(Released { seconds, from: 0, units: 0 });
            known.len() - 1
        });
        let mut counted = known[at];
        while counted.units < enough
            && let Some(slot) = self.pools[pool].ends.next(counted.from, state.stays.len(), |time| time <= horizon)
        {
            counted.from = slot + 1;
            let job = state.stays[slot].job;
            if self.stays(state, job) < seconds {
                counted.units += u64::from(state.units(job)) - self.units_draining(state, job);
            } else if F::FALLS {
                self.renew(state, job);
            }
        }
        if counted.units < enough {
            counted.from = state.stays.len();
        }
        self.pools[pool].released[at] = counted;
        counted.units
    }
}
