//! Policies that resize jobs: numbers first, then places (docs/elastic-policies.md). One file per policy.
//!
//! Invariant: after a pass every running job holds min_gpus to max_gpus of one type, and a job whose stay was younger
//! than `resize_every` before it holds what it held. For example, when a job of 8 GPUs is done, two others may get 4
//! more each.

mod afs;
mod allocation;
mod base;
mod capped_gains;
mod curve;
mod eviction;
mod flow;
mod gain;
mod optimus;
mod owners;
mod pairs;
mod queue;
mod srtf;

use super::job_states::JobStates;
use crate::cluster::FewestServers;
use crate::ds::ordered;
use crate::ids::{GpuType, Job, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, Stay, WaitReason};
use crate::options::Feature;
use crate::setting::Setting;
use crate::speed::Speed;
use afs::Afs;
use allocation::{Allocation, Entry, put_largest_first, put_shrinking_first};
use base::{Base, Rest, View};
use curve::{Curve, Curves};
use flow::ElasticFlow;
use gain::give_by_gain;
use optimus::Optimus;
use owners::Turn;
use queue::Queue;
use srtf::ElasticSrtf;

policies! { |setting, speed|
    Afs => Resizing::new(setting, Afs),
    Optimus => Resizing::new(setting, Optimus),
    ElasticSrtf => Resizing::new(setting, ElasticSrtf),
    ElasticFlow<'_> => Resizing::new(setting, ElasticFlow::new(setting)),
}

/// The features that policies which resize jobs support.
const KNOWS: &[Feature] = Feature::ALL;

/// The options that policies which resize jobs read.
const OPTIONS: &[&str] = &[
    "preempt-cost",
    "move-cost",
    "resize-cost",
    "interval",
    "resize-every",
    "preempt-after",
    "max-preemptions",
    "keep-unpreemptible",
    "preempt-loses",
];

/// Decides how many GPUs each job gets.
pub(super) trait Rule: Clone + Send {
    /// Tracks from one decision to the next which jobs get the GPUs that are left over by the base.
    type Rest: Rest;

    /// Whether it may refuse jobs.
    const REFUSES: bool = false;

    /// Returns whether a job that arrives now may wait. If not, it is refused. `others`: all jobs that wait or run.
    fn admits<S: Speed>(&self, _job: &Entry, _others: impl Iterator<Item = Entry>, _rates: &Rates<'_, '_, S>) -> bool {
        true
    }

    /// Returns the key of a job in the base, the least first, ties fifo. Priorities take precedence over all that.
    /// `stay`: where it runs.
    fn key<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64;

    /// Distributes what comes before all else. The allocation has the running jobs, the queue the waiting ones.
    fn give_base<S: Speed>(&self, allocation: &mut Allocation, queue: &Queue, rates: &Rates<'_, '_, S>) {
        allocation.give_least_in_order(queue, rates);
    }

    /// Distributes the GPUs of a pool that are left over by the base.
    fn give_rest<S: Speed>(
        &self,
        allocation: &mut Allocation,
        pool: usize,
        rates: &Rates<'_, '_, S>,
        curves: &mut Curves,
    ) {
        give_by_gain(allocation, pool, rates, curves);
    }

    /// Whether a GPU goes to the job to which it is worth most, ties fifo. If not, `first` decides.
    const BY_WORTH: bool = true;

    /// Returns what a job's next GPU is worth. `left`: its work left.
    fn worth(&self, curve: &Curve, left: f64, gpus: u32) -> u64 {
        ordered(curve.gain(left, gpus))
    }

    /// Returns which of these jobs, in the order of the base, gets the next GPU.
    fn first(&self, _able: &[Turn]) -> Option<usize> {
        None
    }
}

/// How fast jobs run on the fewest servers, alone.
pub(super) struct Rates<'f, 'a, S: Speed> {
    state: &'f ClusterState<'a, S>,
    few: &'f [FewestServers],
}

impl<S: Speed> Rates<'_, '_, S> {
    /// Returns the work per second on so many GPUs of a pool: iterations, or recorded seconds; 0 if the pool has
    /// fewer.
    fn of(&self, job: Job, pool: usize, gpus: u32) -> f64 {
        let Some(servers) = self.few[pool].of(gpus) else { return 0.0 };
        self.state.speed.rate(&self.state.jobs, job, gpus, type_of(self.state, pool), servers)
    }

    /// Returns the entry of a waiting job.
    fn waiting(&self, job: Job, key: f64) -> Entry {
        Entry::new(self.state, job, key, self.state.left_at_rest(job), None)
    }

    /// Returns the pools that a job may use, in the order in which it tries them.
    fn tried(&self, job: Job) -> impl Iterator<Item = usize> + '_ {
        self.state.jobs.tried(job).iter().map(|&(of, _)| self.state.cluster.pool_of(of))
    }
}

/// Returns the GPU type of a pool; `NONE` where all are alike.
fn type_of<S: Speed>(state: &ClusterState<'_, S>, pool: usize) -> GpuType {
    if state.cluster.is_parted() { GpuType::at(pool) } else { GpuType::NONE }
}

/// Returns whether a stay that began at that machine time is too young for its job to be resized.
fn is_young<S: Speed>(state: &ClusterState<'_, S>, start: f64, resize_every: f64) -> bool {
    state.seconds() - state.clock.seconds(start) < resize_every
}

/// Gives a protected job the GPUs that it is to have, or as many fewer as necessary, where the placement puts them;
/// otherwise it keeps its own. Returns the slot of its stay.
fn resize_in_place<S: Speed>(state: &mut ClusterState<'_, S>, slot: Slot, entry: &Entry) -> Slot {
    let (job, parts) = (entry.job, state.stays[slot.index()].parts.clone());
    let gpu_type = type_of(state, entry.pool);
    state.stop(slot);
    if !(entry.min..=entry.number).rev().any(|gpus| state.place_on_type(job, gpus, gpu_type)) {
        // Nobody has taken them since.
        _ = state.place_at(job, &parts);
    }
    state.start(job)
}

/// The policy of a rule.
#[derive(Clone, Debug)]
pub(super) struct Resizing<R: Rule> {
    rule: R,
    job_states: JobStates,
    queue: Queue,
    resize_every: f64,
    interval: Option<f64>,
    /// Servers of each GPU type, the largest first.
    few: Vec<FewestServers>,
    curves: Curves,
    /// What decisions keep, where all GPUs are alike and the rule keeps anything.
    base: Option<Box<Base<R::Rest>>>,
    allocation: Allocation,
    /// Whether jobs make room for others, and the GPUs that each job held last.
    makes_room: bool,
    held: Vec<u32>,
    /// Jobs that have arrived since the last pass and may still be refused (`Rule::REFUSES` only).
    fresh: Vec<Job>,
    /// Whether a job or a server came or left since the last pass.
    changed: bool,
    last_pass: f64,
}

impl<R: Rule> Resizing<R> {
    pub(super) fn new(setting: &Setting<'_>, rule: R) -> Self {
        let options = setting.options;
        let few = match setting.server_types {
            None => vec![setting.few.clone()],
            Some(types) => (0..setting.num_pools())
                .map(|pool| {
                    let own = types.iter().zip(setting.server_gpus).filter(|(of, _)| of.index() == pool);
                    FewestServers::new(&own.map(|(_, &gpus)| gpus).collect::<Vec<_>>())
                })
                .collect(),
        };
        let drains = setting.side.outages.is_some_and(|outages| outages.iter().any(|outage| outage.drains));
        let is_plain =
            setting.server_types.is_none() && setting.side.quotas.is_none() && setting.jobs.shares.is_none() && !drains;
        Self {
            rule,
            job_states: JobStates::new(setting.jobs.len()),
            queue: Queue::new(&setting.jobs),
            resize_every: options.resize_every,
            interval: options.interval,
            curves: Curves::new(setting.jobs.len(), few.len()),
            base: (R::Rest::KEEPS && is_plain && !setting.protects()).then(|| Box::new(Base::new(setting.jobs.len()))),
            few,
            allocation: Allocation::default(),
            makes_room: options.evict || setting.side.quotas.is_some(),
            held: vec![0; setting.jobs.len()],
            fresh: Vec::new(),
            changed: false,
            last_pass: f64::NEG_INFINITY,
        }
    }

    /// Records that a job waits from now on.
    fn wait<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.job_states.set_waiting(job);
        self.queue.insert(&state.jobs, job, self.rule.key(state, job, None));
        if let Some(base) = &mut self.base {
            base.join(&self.curves, job);
        }
    }

    /// Returns the entry of a running job.
    fn line_of<S: Speed>(&self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> Entry {
        let key = self.rule.key(state, stay.job, Some(stay));
        let held = Some((state.cluster.pool_of(stay.gpu_type), stay.gpus()));
        Entry::new(state, stay.job, key, state.left_of(stay), held)
    }

    /// Admits or refuses the jobs that have arrived since the last pass, one by one in order of fifo.
    fn admit<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        for job in fresh.drain(..) {
            let rates = Rates { state, few: &self.few };
            let entry = |job| rates.waiting(job, self.rule.key(state, job, None));
            let running = state.stays.iter().filter(|stay| stay.is_live()).map(|stay| self.line_of(state, stay));
            let others = running.chain(self.job_states.waiting().map(entry));
            if self.rule.admits(&entry(job), others, &rates) || state.refuse(job).is_err() {
                self.wait(state, job);
            }
        }
        self.fresh = fresh;
    }

    /// Determines how many GPUs the jobs whose number changes are to have, from what earlier decisions kept. Returns
    /// false if nothing is kept.
    fn count_on<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> bool {
        let Self { base: Some(base), rule, job_states, queue, curves, few, allocation, resize_every, .. } = self else {
            return false;
        };
        let view = View { state, job_states, curves, rule, resize_every: *resize_every };
        base.come_of_age(&view);
        let (free, entering) = base.give_least(&view, queue);
        for &job in &entering {
            curves.get_or_compute(&Rates { state, few }, job, 0, state.jobs.range_of(job.index()).0);
        }
        let view = View { state, job_states, curves, rule, resize_every: *resize_every };
        base.give_rest(&view, &entering, free);
        base.changed(&view, &mut allocation.entries);
        true
    }

    /// Determines how many GPUs each job is to have.
    fn count<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        let mut allocation = std::mem::take(&mut self.allocation);
        allocation.clear(state.cluster.units(), state.most_by_quota());
        for (slot, stay) in state.stays.iter().enumerate().filter(|(_, stay)| stay.is_live()) {
            let slot = Slot::at(slot);
            let entry = Entry { is_protected: state.is_kept(slot), ..self.line_of(state, stay) };
            if state.is_on_draining(slot) || is_young(state, stay.start, self.resize_every) {
                allocation.keep(entry, state)
            } else {
                allocation.entries.push(entry)
            }
        }
        let rates = Rates { state, few: &self.few };
        if state.has_quotas() {
            allocation.rank_by_owner(&self.queue, &rates);
        }
        self.rule.give_base(&mut allocation, &self.queue, &rates);
        // What is given beyond min_gpus is whole GPUs.
        allocation.free.iter_mut().for_each(|free| *free /= state.jobs.units_per_gpu());
        for pool in 0..self.few.len() {
            if state.has_quotas() {
                allocation.give_rest_by_owner(&self.rule, pool, &rates, &mut self.curves);
            } else {
                self.rule.give_rest(&mut allocation, pool, &rates, &mut self.curves);
            }
        }
        self.allocation = allocation;
    }

    /// Gives every job whose number changed its GPUs.
    fn place<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        let changed = self.allocation.changed();
        for entry in changed.iter().filter(|entry| entry.held > 0 && !entry.stays()) {
            if let Some(slot) = self.job_states.slot_of(entry.job) {
                state.stop(slot);
                self.job_states.set_waiting(entry.job);
                self.queue.insert(&state.jobs, entry.job, self.rule.key(state, entry.job, None));
            }
        }
        if state.protects() {
            put_shrinking_first(changed);
            for entry in changed.iter().filter(|entry| entry.stays()) {
                let Some(slot) = self.job_states.slot_of(entry.job) else { continue };
                let slot = resize_in_place(state, slot, entry);
                self.held[entry.job.index()] = state.stays[slot.index()].gpus();
                self.job_states.set_running(entry.job, slot);
            }
        }
        put_largest_first(changed);
        for entry in changed.iter().take_while(|entry| entry.number > 0).filter(|entry| !entry.stays()) {
            let gpu_type = type_of(state, entry.pool);
            if (entry.min..=entry.number).rev().any(|gpus| state.place_on_type(entry.job, gpus, gpu_type)) {
                let slot = state.start(entry.job);
                self.held[entry.job.index()] = state.stays[slot.index()].gpus();
                self.job_states.set_running(entry.job, slot);
                self.queue.remove(&state.jobs, entry.job);
            }
        }
        let Some(base) = &mut self.base else { return };
        let (job_states, curves, rule, resize_every) = (&self.job_states, &self.curves, &self.rule, self.resize_every);
        let view = View { state, job_states, curves, rule, resize_every };
        for entry in &self.allocation.entries {
            base.settle(&view, entry.job);
        }
    }
}

impl<S: Speed, R: Rule> Policy<S> for Resizing<R> {
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        // A job that paused was admitted when it arrived.
        if R::REFUSES && why == WaitReason::Arrived {
            self.fresh.push(job);
        } else {
            self.wait(state, job);
        }
        self.changed = true;
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, _slot: Slot, job: Job, why: EndReason) {
        if why == EndReason::Lost {
            return self.wait(state, job);
        }
        self.job_states.set_gone(job);
        if let Some(base) = &mut self.base {
            base.leave(&self.curves, job);
        }
        self.curves.forget(job);
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        if self.changed {
            return state.now;
        }
        let tick = match self.interval {
            Some(interval) if self.job_states.has_waiting() || state.is_busy() => {
                state.clock.tick(interval, state.now, self.last_pass)
            }
            _ => f64::INFINITY,
        };
        if self.job_states.has_waiting() { tick.min(state.opens_at()) } else { tick }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        self.last_pass = state.now;
        self.changed = false;
        state.see_openings();
        if R::REFUSES {
            self.admit(state);
        }
        if !self.count_on(state) {
            self.count(state);
        }
        self.place(state);
        self.make_room(state);
    }

    fn is_waiting(&self) -> bool {
        self.job_states.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.job_states.waiting()
    }

    fn chooses(&self, _state: &ClusterState<'_, S>) -> Chooses {
        Chooses::ByAllocation
    }
}
