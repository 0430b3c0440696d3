//! repack: smallest remaining work first, making room where waiting would cost more (docs/repack-reference.md).
//!
//! A pass first starts jobs that have waited too long for their run time. Then it walks the waiting jobs, least GPUs
//! times run time left first. A job that consolidate cannot place asks for a plan: which jobs move or are evicted. It
//! is carried out if that costs less than waiting. Invariant: `on` has the jobs of every server. For example, on two
//! servers of 8 GPUs with 4 busy each, a short job of 8 GPUs moves one of the two jobs to the other's server.

mod class_queues;
mod draining;
mod evicting;
mod overdue;
mod predicted_run_times;
mod predictor;
mod priority_class;
mod ratios;
mod relocation;
mod run_times;
mod server_index;
mod strain;
mod victims;

use super::Visitor;
use crate::ids::{Job, MILLI_GPU, Server, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
use crate::options::{Facts, Feature, Is, Named, Predict};
use crate::setting::Setting;
use crate::speed::Speed;
use class_queues::{ClassQueues, Rank};
use overdue::{in_tier, is_bound};
use predicted_run_times::PredictedRunTimes;
use priority_class::PriorityClasses;
use relocation::{Relocation, Requester};
use run_times::KnownRunTimes;
use run_times::RunTimes;
use server_index::ServerIndex;
use std::collections::BTreeSet;
use victims::Candidates;

/// The facts that it declares.
pub(super) const FACTS: &[Facts] = &[Repack::<KnownRunTimes>::FACTS];

/// Hands the policy of the setting's options to a visitor; gives the visitor back if it is another.
pub(super) fn visit<'a, S: Speed, V: Visitor<'a, S>>(
    setting: &Setting<'a>,
    speed: &S,
    visitor: V,
) -> Result<V::Output, V> {
    match setting.options.predict {
        _ if !setting.options.has::<Repack<KnownRunTimes>>() => Err(visitor),
        Predict::Exact => Ok(visitor.visit(
            setting,
            speed.clone(),
            Repack::new(setting, |queues| KnownRunTimes::new(setting, queues)),
        )),
        Predict::History | Predict::Column => Ok(visitor.visit(
            setting,
            speed.clone(),
            Repack::new(setting, |queues| PredictedRunTimes::new(setting, queues)),
        )),
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub(super) struct Repack<F> {
    server_index: ServerIndex<F>,
    candidates: Candidates,
    classes_of_priority: PriorityClasses,
    /// Whether jobs may evict others by the machine's rule, and the stays that the latest one ended so.
    evicts: bool,
    /// Whether jobs whose size has failed still have a turn, and whether that can end: the size and priority class of
    /// a job alone decide what it may evict.
    is_thorough: bool,
    is_alike: bool,
    evicted: Vec<(Slot, Job)>,
    /// The walk through a priority class: for each demand for which no job can be evicted, a waiting job, and whether
    /// jobs have started or moved since that was found.
    barren: Vec<Job>,
    is_other: bool,
    changed: bool,
    /// The pass: sizes that no plan makes room for, and where; by pool, GPUs of jobs ahead in the ranking that wait
    /// for some there.
    failed: Vec<(u32, usize)>,
    ahead: Vec<u64>,
    /// Jobs that have joined the queue since the last pass.
    joined: Vec<Job>,
    /// The latest plan that did not pay, its requester, and the count of changes at that time.
    found: Option<(u64, Requester, Relocation)>,
}

/// A waiting job that cannot be placed.
#[derive(Clone, Copy)]
struct Waits {
    rank: Rank,
    num_gpus: u32,
    units: u32,
    pool: usize,
    /// Run time left, s, with the pause of a job that runs again.
    run: f64,
}

/// The result of a job's request for a plan.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Starts,
    Waits,
    /// Too briefly for any plan.
    WaitsBriefly,
}

/// Returns the lowest GPU of a server of which no job holds anything.
fn empty_gpu<S: Speed>(state: &ClusterState<'_, S>, server: Server) -> Vec<(Server, u32)> {
    let (pool, own) = state.cluster.place(server);
    let mut gpus = (0..state.cluster.pool(pool).sizes[own.index()]).map(|gpu| (server, gpu));
    gpus.find(|&(server, gpu)| state.cluster.room(server, gpu) == MILLI_GPU).into_iter().collect()
}

/// Returns whether no plan helps jobs of that size on any GPUs that one may have.
fn has_failed<S: Speed>(state: &ClusterState<'_, S>, job: Job, failed: &[(u32, usize)]) -> bool {
    let size = state.units(job);
    state.jobs.tried(job).iter().all(|&(of, _)| failed.contains(&(size, state.cluster.pool_of(of))))
}

impl<F: RunTimes> Repack<F> {
    pub(super) fn new(setting: &Setting<'_>, run_times: impl FnOnce(ClassQueues) -> F) -> Self {
        let classes_of_priority = PriorityClasses::new(setting);
        let binds = setting.jobs.first_in_tiers().is_some();
        Self {
            server_index: ServerIndex::new(setting, run_times(classes_of_priority.queues())),
            candidates: Candidates::default(),
            evicts: setting.has_standing(),
            is_thorough: setting.has_standing() || setting.server_types.is_some() || binds,
            is_alike: setting.side.quotas.is_none() && setting.server_types.is_none() && !binds,
            evicted: Vec::new(),
            barren: Vec::new(),
            is_other: false,
            classes_of_priority,
            changed: false,
            failed: Vec::new(),
            ahead: vec![0; setting.num_pools()],
            joined: Vec::new(),
            found: None,
        }
    }

    /// Records that the job waits from now on, between two passes.
    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.server_index.run_times.join(state, job);
        self.joined.push(job);
    }

    /// Records the same during a pass.
    fn rejoin<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.server_index.run_times.join(state, job);
        self.queue(state, job);
    }

    /// Determines when a waiting job is to be checked.
    fn queue<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let ServerIndex { run_times, strains, .. } = &mut self.server_index;
        run_times.queued(job);
        strains.join(state, job, run_times.reference_time_waiting(state, job));
    }

    /// Starts a waiting job where it was placed.
    fn start<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) {
        self.server_index.run_times.leave(job);
        self.server_index.strains.leave(state, job);
        let slot = state.start(job);
        self.server_index.settle(state, slot);
        self.is_other = true;
    }

    /// Returns the run time left of a waiting job, s, with the pause of one that runs again.
    fn run<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        let pause = if state.has_run(job) { state.pause_seconds() } else { 0.0 };
        self.server_index.run_times.remaining_waiting(job) + pause
    }

    /// Returns whether a plan costs less than waiting for GPUs that come free by themselves.
    fn pays<S: Speed>(&mut self, state: &ClusterState<'_, S>, relocation: &Relocation, waits: Waits) -> bool {
        let (evicted, moved) = (relocation.evicted.len() as f64, relocation.moved.len() as f64);
        let stops = state.pause_seconds() * (evicted + moved);
        let others = self.server_index.run_times.queues().len() > 1;
        let alone = if others { 0.0 } else { stops + waits.run * evicted };
        self.waits_for(state, waits, f64::max(2.0 * stops, alone))
    }

    /// Returns whether a job that waits for GPUs to come free by themselves waits at least so long: the longer of two
    /// times, neither of which needs to be computed. `ahead` may lack jobs that the walk left aside.
    fn waits_for<S: Speed>(&mut self, state: &ClusterState<'_, S>, waits: Waits, seconds: f64) -> bool {
        let (pool, ahead) = (waits.pool, &mut self.ahead[waits.pool]);
        if seconds <= 0.0 || self.server_index.free_no_sooner(state, pool, waits.num_gpus, seconds) {
            return true;
        }
        let idle = state.cluster.pool(pool).idle_units();
        let wanted = |ahead: u64| (ahead + u64::from(waits.units)).saturating_sub(idle);
        if self.server_index.released_no_sooner(state, pool, wanted(*ahead), seconds) {
            return true;
        }
        if self.is_thorough {
            return false; // no job was left aside
        }
        let before = *ahead;
        self.server_index.run_times.queues_mut().count_aside(
            waits.rank,
            self.server_index.strains.cluster_units(),
            ahead,
        );
        *ahead > before && self.server_index.released_no_sooner(state, pool, wanted(*ahead), seconds)
    }

    /// Stops the plan's victims, starts its job, which waits, and puts the jobs that move on their new servers.
    fn carry_out<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, relocation: &Relocation) {
        for &victim in relocation.evicted.iter().chain(relocation.moved.iter().map(|(job, _)| job)) {
            let slot = self.server_index.unsettle(state, victim);
            state.stop(slot);
        }
        self.server_index.run_times.leave(job);
        self.server_index.strains.leave(state, job);
        self.start_at(state, job, &relocation.parts);
        self.is_other = true;
        for &(job, server) in &relocation.moved {
            self.start_at(state, job, &[(server, state.asks(job))]);
        }
        for &victim in &relocation.evicted {
            self.rejoin(state, victim);
        }
    }

    /// Starts a job that does not wait on idle GPUs of those servers.
    fn start_at<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, parts: &[(Server, u32)]) {
        let placed = if state.jobs.share_of(job.index()) > 0 {
            state.place_on_gpus(job, &empty_gpu(state, parts[0].0))
        } else {
            state.place_at(job, parts)
        };
        if placed.is_ok() {
            let slot = state.start(job);
            self.server_index.settle(state, slot);
        }
    }
}

impl<F> Named for Repack<F> {
    const FACTS: Facts = Facts {
        name: "repack",
        about: "least num_gpus x remaining run time; moves and evicts to make room",
        paper: "ringbco",
        knows: Feature::ALL,
        is: &[Is::Moves, Is::Protects],
        options: &[
            "preempt-cost",
            "predict",
            "tail",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl<S: Speed, F: RunTimes> Policy<S> for Repack<F> {
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        match why {
            WaitReason::Arrived => {
                self.server_index.run_times.arrived(state, job);
                self.server_index.strains.arrived(state.units(job));
            }
            WaitReason::Again => self.server_index.strains.resume(state, job),
        }
        self.join(state, job);
        self.changed = true;
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, _slot: Slot, job: Job, why: EndReason) {
        self.server_index.unsettle(state, job);
        match why {
            EndReason::Done => {
                self.server_index.run_times.completed(job);
                self.server_index.strains.completed(state.units(job));
            }
            EndReason::Limit => self.server_index.strains.completed(state.units(job)),
            EndReason::Lost => self.join(state, job),
            EndReason::Paused => self.server_index.strains.pause(state, job),
        }
        self.changed = true;
    }

    fn climbed(&mut self, state: &ClusterState<'_, S>, slot: Slot) {
        self.server_index.set_back(state.stays[slot.index()].job);
    }

    fn capacity_changed(&mut self) {
        self.server_index.spoil_all();
        self.changed = true;
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        match self.server_index.run_times.queues().len() {
            0 => f64::INFINITY,
            _ if self.changed => state.now,
            _ => self.server_index.strains.next_pass(state.clock).min(state.opens_at()),
        }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        self.changed = false;
        state.see_openings();
        self.server_index.begin(state);
        for job in std::mem::take(&mut self.joined) {
            self.queue(state, job);
        }
        if state.has_quotas() {
            self.reclassify(state);
        }
        let limit = self.server_index.strains.begin(state);
        self.failed.clear();
        self.ahead.fill(0);
        for priority_class in 0..self.classes_of_priority.walked() {
            self.relieve(state, priority_class, limit);
            self.walk(state, priority_class, limit);
        }
    }

    fn is_waiting(&self) -> bool {
        self.server_index.run_times.queues().len() > 0
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.server_index.run_times.queues().jobs()
    }

    /// In each priority class the urgent jobs come first.
    fn chooses(&self, state: &ClusterState<'_, S>) -> Chooses {
        let (mut run_times, mut strains) = (self.server_index.run_times.clone(), self.server_index.strains.clone());
        run_times.begin(state, &mut Vec::new());
        for &job in &self.joined {
            run_times.queued(job);
            strains.join(state, job, run_times.reference_time_waiting(state, job));
        }
        let limit = strains.begin(state);
        strains.begin_walk(state, limit);
        let mut queue: Vec<Job> =
            std::iter::from_fn(|| strains.next(state, limit, |_| false)).map(|next| next.1).collect();
        let urgent: BTreeSet<Job> = queue.iter().copied().collect();
        queue.extend(run_times.queues().in_order().into_iter().filter(|job| !urgent.contains(job)));
        queue.sort_by_key(|&job| run_times.queues().priority_class_of(job));
        Chooses::FromQueue(queue)
    }
}

impl<F: RunTimes> Repack<F> {
    /// Walks the waiting jobs of a priority class.
    fn walk<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, priority_class: u32, limit: f64) {
        let (jobs, enough) = (state.jobs, self.server_index.strains.cluster_units());
        self.server_index.run_times.queues_mut().begin_walk(priority_class);
        self.barren.clear();
        while let Some(rank) = {
            if self.review_barren(state) {
                self.server_index.run_times.queues_mut().call_back(priority_class);
            }
            let Self { server_index, failed, barren, .. } = self;
            // Jobs that may evict have a turn, or count as ahead where that is not enough; so do jobs that may have
            // GPUs of another type.
            let is_over = |units| {
                !self.is_thorough
                    || self.is_alike && self.ahead[0] >= enough && barren.iter().any(|&job| state.units(job) == units)
            };
            let aside = |units| failed.contains(&(units, 0)) && is_over(units);
            server_index.run_times.queues_mut().next(priority_class, aside)
        } {
            let job = rank.1;
            let is_lost = self.is_thorough && has_failed(state, job, &self.failed);
            if !is_lost && state.place(job) {
                self.start(state, job);
                continue;
            }
            let asked = if is_lost { Asked::Waits } else { self.start_by_plan(state, (priority_class, rank), limit) };
            if asked == Asked::Starts || self.tries_to_evict(state, job) {
                continue;
            }
            for &(gpu_type, _) in jobs.tried(job) {
                self.ahead[state.cluster.pool_of(gpu_type)] += u64::from(state.units(job));
            }
            if asked == Asked::WaitsBriefly && !self.is_thorough && state.placer.is_monotone() {
                self.pass_over_alike(state, priority_class, u64::from(state.units(job)));
            }
        }
    }

    /// After a job that finds no room, and whose wait is too short for any plan: passes over the next jobs that ask
    /// for as much and whose waits are too short too. Each would ask for a place in vain.
    fn pass_over_alike<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, priority_class: u32, units: u64) {
        let alike = self.server_index.run_times.queues_mut().alike(priority_class) as u64;
        if alike == 0 {
            return;
        }
        let (ahead, idle) = (&mut self.ahead[0], state.cluster.pool(0).idle_units());
        let enough = (*ahead + alike * units).saturating_sub(idle);
        let released = self.server_index.released(state, 0, enough, 2.0 * state.pause_seconds());
        let passed = alike.min((released + idle).saturating_sub(*ahead) / units);
        if passed > 0 {
            *ahead += passed * units;
            state.place_none(passed);
            self.server_index.run_times.queues_mut().pass_over(priority_class, passed as usize);
        }
    }

    /// Returns a job of a priority class as it asks for GPUs of a pool: with its run time, work and strain.
    fn requester<S: Speed>(
        &self,
        state: &ClusterState<'_, S>,
        job: Job,
        pool: usize,
        priority_class: u32,
        (run, work, strain): (f64, f64, f64),
    ) -> Requester {
        Requester {
            num_gpus: state.asks(job),
            units: state.units(job),
            pool,
            priority_class,
            has_classes: self.classes_of_priority.differ(),
            over_quota_from: self.classes_of_priority.over_quota_before(priority_class),
            run,
            work,
            cost: state.pause_seconds(),
            strain,
        }
    }

    /// Starts a waiting job that cannot be placed by a plan that pays, if there is one.
    fn start_by_plan<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        (priority_class, rank): (u32, Rank),
        limit: f64,
    ) -> Asked {
        let mut asked = Asked::Waits;
        let (job, jobs, cost) = (rank.1, state.jobs, state.pause_seconds());
        let (num_gpus, units) = (state.asks(job), state.units(job));
        for &(gpu_type, _) in jobs.tried(job) {
            let pool = state.cluster.pool_of(gpu_type);
            if self.is_thorough && self.failed.contains(&(units, pool)) {
                continue;
            }
            let run = self.run(state, job);
            let waits = Waits { rank, num_gpus, units, pool, run };
            if !self.waits_for(state, waits, 2.0 * cost) {
                asked = Asked::WaitsBriefly;
                continue;
            }
            let work = self.server_index.run_times.counted_gpus(units) * run;
            let strain = limit / 2.0;
            let requester = self.requester(state, job, pool, priority_class, (run, work, strain));
            let found = match self.found.take() {
                Some((changes, other, relocation)) if changes == self.server_index.changes && other == requester => {
                    Some(relocation)
                }
                _ => Relocation::find(state, &mut self.server_index, &requester, &mut self.candidates),
            };
            match found.filter(|relocation| in_tier(state, job, relocation)) {
                None if is_bound(state, job) => {}
                None => self.failed.push((units, pool)),
                Some(relocation) if self.pays(state, &relocation, waits) => {
                    self.carry_out(state, job, &relocation);
                    return Asked::Starts;
                }
                Some(relocation) => self.found = Some((self.server_index.changes, requester, relocation)),
            }
        }
        asked
    }
}
