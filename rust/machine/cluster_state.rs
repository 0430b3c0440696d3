//! Tracks which job holds which GPUs. `verbs` has the actions of a policy.
//!
//! Invariant: every live stay's GPUs are taken in `cluster`, and every known end is in `ends`. A policy reads what it
//! needs and calls `place`, `start`, `stop` and `refuse`. For example, to run a waiting job at once it calls
//! `state.place(job) && { state.start(job); true }`.

use super::clock::{Clock, Rest};
use super::delays::Delays;
use super::eviction_delay::EvictionDelay;
use super::fall_back::Losses;
use super::followers::Followers;
use super::limits::Limits;
use super::loads::Loads;
use super::maintenance::MaintenanceWindows;
use super::outages::Outages;
use super::preemptible::Preemptible;
use super::progress::Progress;
use super::protect::Protection;
use super::quota_usage::QuotaUsage;
use super::rollback::Rollback;
use super::saves;
use super::searches::Searches;
use super::seats::Seats;
use super::services::Services;
use super::sleep::{Pauses, Sleep, may_pause};
use super::stays::Stay;
use crate::cluster::{FewestServers, Grant, Needs, Tier};
use crate::decisions::Verb;
use crate::ds::{Deque, EventHeap};
use crate::ids::{GpuType, Job, MILLI_GPU, Slot};
use crate::options::{Discipline, Victims};
use crate::outcome::{Climbing, ClusterOutcome, Crossings, LinkLog};
use crate::placement::{Placer, Pools};
use crate::record::{StayLog, StayRecord, Why};
use crate::setting::Setting;
use crate::speed::{CoLocation, Fabric, LinkContention, Speed};
use crate::trace::Jobs;

/// The state of a cluster and its jobs at one instant. Jobs are numbered in order of (priority down, submit_time, row).
#[derive(Clone, Debug)]
pub(crate) struct ClusterState<'a, S: Speed> {
    pub(crate) jobs: Jobs<'a>,
    /// The jobs in order of arrival; `None` where that is the order of their numbers.
    pub(super) arrivals: Option<&'a [Job]>,
    /// The arrivals, where some depend on the ends of other jobs.
    pub(super) followers: Option<Box<Followers>>,
    pub(crate) few: &'a FewestServers,
    pub(crate) speed: S,
    pub(crate) clock: Clock,
    /// Machine time.
    pub(crate) now: f64,
    pub(crate) cluster: Pools,
    pub(crate) placer: Placer,
    /// Stays by slot; a slot whose stay is not live is free.
    pub(crate) stays: Vec<Stay<S::Pace>>,
    pub(super) free: Vec<Slot>,
    /// The events of stays, by time.
    pub(super) ends: EventHeap,
    pub(super) link_contention: LinkContention,
    /// The links of a network of tiers, where there is one.
    pub(super) fabric: Option<Box<Fabric>>,
    /// What its uplinks carry, where bandwidth says how fast jobs run.
    pub(super) loads: Option<Box<Loads>>,
    /// Shares on one GPU, where they slow each other down.
    pub(super) co_location: Option<Box<CoLocation>>,
    /// Who sits on the same GPUs, where several jobs may.
    pub(super) seats: Option<Box<Seats>>,
    /// Number of stays that have begun.
    pub(super) begun: u32,
    /// Sum of p_j over the spanning jobs, and since when it has been so.
    pub(super) contention_sum: u64,
    pub(super) contention_since: f64,
    pub(super) dirty: Vec<Slot>,
    pub(super) progress: Option<Progress>,
    pub(super) outages: Option<Box<Outages>>,
    /// Maintenance windows that are known ahead.
    pub(super) windows: Option<Box<MaintenanceWindows>>,
    /// How long jobs may hold GPUs, where time limits apply.
    pub(super) limits: Option<Box<Limits>>,
    /// Progress of trials, where their searches are judged.
    pub(super) searches: Option<Box<Searches>>,
    /// Which servers are idle, where they may sleep.
    pub(super) sleep: Option<Box<Sleep>>,
    pub(super) pauses: Pauses,
    /// Seconds of progress between two checkpoints of a job without an interval of its own; NaN where checkpoints do
    /// not matter.
    pub(super) checkpoint_interval: f64,
    /// How long a checkpoint takes; `None` where it takes no time.
    pub(super) saving: Option<Rest>,
    /// Stays that reach a checkpoint before their end, by when they next save; only where checkpoints take time.
    pub(super) savers: Deque,
    /// GPUs held by each owner, where there are quotas.
    pub(super) quota_usage: Option<Box<QuotaUsage>>,
    /// Each job's row in the caller's table.
    pub(super) rows: &'a [u32],
    /// The tiers above the servers, from below.
    pub(super) tiers: &'a [Tier],
    /// Whether jobs of higher priority evict others.
    pub(super) evicts: bool,
    /// Which jobs are evicted first.
    pub(super) victims: Victims,
    pub(super) losses: Losses,
    /// When waiting jobs may make room for themselves, where not at once.
    pub(super) eviction_delay: Option<Box<EvictionDelay>>,
    /// The stays that may be evicted, where any may.
    pub(super) preemptible: Option<Box<Preemptible>>,
    /// The stays protected from eviction and from a policy's stop, where any are.
    pub(super) protection: Option<Box<Protection>>,
    pub(super) services: Option<Box<Services<'a>>>,
    pub(super) record: bool,
    pub(super) delays: Delays,
    /// The GPUs taken by the latest `place`.
    pub(crate) grant: Grant,
    /// Jobs that are done, refused or ended.
    pub(super) gone: usize,
    /// Whether to record decisions, and whether they are read from a log.
    pub(super) record_log: bool,
    pub(super) follows_log: bool,
    /// Number of passes of this instant that are over, and whether a job is arriving right now.
    pub(crate) pass: u32,
    pub(super) is_arriving: bool,
    /// Whether decisions come from outside and changes must be reported.
    pub(super) outside: bool,
    /// The state before they ended of stays that ended at this instant before their jobs were done.
    pub(super) rollback: Vec<Rollback<S::Pace>>,
    /// The latest end of a stay that did some work.
    pub(super) advanced_to: f64,
    /// Why the run cannot continue.
    pub(super) fault: Option<(Job, Verb, String, Option<usize>)>,
    pub(super) out: ClusterOutcome,
}

impl<'a, S: Speed> ClusterState<'a, S> {
    /// Returns an idle cluster. `stops`: whether the policy may stop jobs. `outside`: whether decisions come from
    /// outside; then U is kept for every placement.
    pub(super) fn new(setting: &Setting<'a>, speed: S, stops: bool, outside: bool) -> Self {
        let options = setting.options;
        // A pause at the start and an outage cost time, which only the columns of the progress table record.
        let losses = Losses::new(options);
        let by_jobs = options.evict || setting.side.quotas.is_some();
        let makes_room = by_jobs || setting.side.services.is_some();
        let stays_end = setting.side.outages.is_some() || makes_room || losses.are_any();
        let protection = Protection::new(setting, stops);
        let pauses = may_pause(setting);
        let stops = stops || pauses || stays_end || options.search.is_some() || options.enforce_limits;
        let (jobs, clock) = (setting.jobs, Clock::new(options));
        let saving = saves::checkpoint_length(options, clock, S::USES_REST_OF_SLOT);
        let saves = stays_end || saving.is_some();
        let placer = Placer::new(options);
        let record = options.record_allocations;
        let mut needs = placer.needs();
        needs.gpu_times |= outside && jobs.shares.is_none();
        if options.queue == Discipline::Conservative && options.preemption.is_none() {
            // Reservations need individual GPUs, not only their number.
            (needs.lowest, needs.gpu_times) = (!placer.needs().gpu_times, true);
        }
        needs.by_idle |= setting.side.services.is_some();
        needs.with_idle_count = jobs.has_pods();
        let mut cluster = Pools::new(setting.server_gpus, setting.server_types, needs);
        if needs.groups {
            cluster.group(setting.tiers, &jobs.all_forms());
        }
        if jobs.shares.is_some() {
            cluster.share(needs);
        }
        let interferes = jobs.shares.is_some() && (options.interference > 0.0 || speed.knows_partners());
        let preemptible = makes_room.then(|| Box::new(Preemptible::new(&cluster, by_jobs)));
        let mut state = Self {
            delays: Delays::new(&jobs, &cluster, &placer),
            cluster,
            placer,
            arrivals: setting.arrivals,
            followers: Followers::new(setting),
            few: setting.few,
            now: 0.0,
            stays: Vec::new(),
            free: Vec::new(),
            ends: EventHeap::default(),
            link_contention: LinkContention::new(setting.server_gpus.len()),
            fabric: Fabric::new(
                &setting.network,
                setting.tiers,
                setting.server_gpus.len(),
                S::COUPLED,
                jobs.intensity.is_some(),
            ),
            loads: None,
            co_location: interferes.then(|| Box::new(CoLocation::new(setting.server_gpus, options.interference))),
            seats: Self::seats_of(options),
            begun: 0,
            contention_sum: 0,
            contention_since: 0.0,
            dirty: Vec::new(),
            progress: stops.then(|| Progress::new(&jobs, &speed, clock.slot)),
            outages: Outages::new(setting, clock),
            windows: MaintenanceWindows::new(setting),
            limits: Limits::new(setting, clock),
            searches: Searches::new(setting, &speed, clock),
            sleep: Sleep::new(setting, clock),
            pauses: Pauses::new(options),
            checkpoint_interval: if saves { options.checkpoint_interval } else { f64::NAN },
            saving,
            savers: Deque::default(),
            evicts: options.evict,
            victims: options.victims,
            losses,
            eviction_delay: EvictionDelay::new(setting, by_jobs),
            preemptible,
            protection,
            quota_usage: QuotaUsage::new(setting),
            rows: setting.rows,
            tiers: setting.tiers,
            services: Services::new(setting, clock),
            record,
            grant: Grant::default(),
            gone: 0,
            record_log: options.record_decisions,
            follows_log: setting.log.is_some(),
            pass: 0,
            is_arriving: false,
            outside,
            rollback: Vec::new(),
            advanced_to: 0.0,
            fault: None,
            out: ClusterOutcome {
                pauses,
                seated: if options.jobs_per_gpu() > 1 { vec![false; jobs.len()] } else { Vec::new() },
                stay_log: StayLog {
                    types: vec![GpuType::NONE; jobs.types.map_or(0, |_| jobs.len())],
                    ..StayLog::default()
                },
                climbing: Climbing::new(options.search.map_or(0, |_| jobs.len())),
                ..if stops {
                    ClusterOutcome::of_stays(jobs.len(), record)
                } else {
                    ClusterOutcome::new(jobs.len(), record)
                }
            },
            jobs,
            speed,
            clock,
        };
        if needs.loss {
            state.weigh();
        }
        if let Some(fabric) = &state.fabric {
            let has_tiers = !setting.tiers.is_empty();
            state.out.crossings = Crossings::new(jobs.len(), has_tiers);
            state.out.links = LinkLog::new(setting.tiers.len(), S::USES_REST_OF_SLOT);
            let loads = || Box::new(Loads::new(fabric, saving, clock));
            state.loads = (S::COUPLED && has_tiers).then(loads);
        }
        state
    }

    /// Keeps further indexes of the servers from now on.
    pub(crate) fn keep_indexes(&mut self, needs: Needs) {
        self.cluster.keep(needs);
        if needs.groups {
            self.cluster.group(self.tiers, &self.jobs.all_forms());
        }
    }

    // The actions of the machine.

    /// Notes that a job's wait begins or ends.
    ///
    /// Let m be the time spent on wait causes in earlier waits. A wait from a to b turns m into a - m, then into
    /// b - (a - m) = m + (b - a).
    #[inline(always)]
    pub(super) fn turn_wait(&mut self, job: Job) {
        let (too_few, fragmented) = self.delays.spent(self.jobs.demand(job));
        let met = &mut self.out.wait_causes[job.index()];
        *met = (too_few - met.0, fragmented - met.1);
    }

    /// Ends the stay of a job that is done. Returns the job.
    #[inline(always)]
    pub(super) fn complete(&mut self, slot: Slot) -> Job {
        let job = self.stays[slot.index()].job;
        self.vacate(slot, Why::Done, Some(0.0));
        self.out.finish[job.index()] = self.now;
        self.count_gone(job);
        job
    }

    /// Records a stay and ends it. `left`: the work left then, where it differs from what the pace gives.
    #[inline(always)]
    pub(super) fn vacate(&mut self, slot: Slot, why: Why, left: Option<f64>) {
        let share = self.share_of(&self.stays[slot.index()]);
        let stay = &mut self.stays[slot.index()];
        let (job, j) = (stay.job, stay.job.index());
        let num_servers = stay.parts.len() as u32;
        if let Some(protection) = &mut self.protection {
            protection.count(job, None, why);
        }
        let mut kept = f64::NAN;
        let saving = self.saving.map_or(0.0, |cost| stay.saves.taken(self.now, cost));
        if let Some(progress) = &mut self.progress {
            let left = left.unwrap_or_else(|| stay.left_at(self.now, self.clock));
            kept = std::mem::replace(&mut progress.left[j], left) - left;
            if kept > 0.0 {
                self.advanced_to = self.now;
            }
            progress.served[j] += share * (self.now - stay.start);
        }
        if let Some(limits) = &mut self.limits {
            limits.held[j] += self.now - stay.start;
        }
        if self.outside || self.progress.is_some() {
            let num_gpus = stay.gpus();
            // A job with a single stay, without a pause and on the GPUs it requests, needs no row. Where times are
            // coarse, a stay may have ended at the instant of its start, for example at a rung.
            let again = self.progress.as_ref().is_some_and(|progress| progress.ended[j] == self.now);
            let pauses = stay.from > stay.start || saving > 0.0;
            let once = why == Why::Done && self.out.start[j] == stay.start && !pauses && !again;
            if self.outside || self.seats.is_some() || !once || num_gpus != self.jobs.num_gpus[j] {
                let waited = self.out.wait_causes[j];
                if self.progress.is_some() {
                    self.out.wait_causes[j] = (0.0, 0.0); // later waits belong to the next stay
                }
                self.out.stay_log.records.push(StayRecord {
                    job,
                    num_gpus,
                    num_servers,
                    bandwidth: self.fabric.as_ref().filter(|_| num_servers > 1).map_or(0.0, |fabric| fabric.own(slot)),
                    gpu_type: stay.gpu_type,
                    why,
                    start: stay.start,
                    from: stay.from,
                    end: self.now,
                    saving,
                    guest: if self.seats.is_some() { stay.guest_time(self.now) } else { 0.0 },
                    kept,
                    lost: 0.0,
                    lost_time: 0.0,
                    waited,
                    woke: self.out.climbing.take_woke(job),
                });
            }
        }
        if let Some(gpu_type) = self.out.stay_log.types.get_mut(j) {
            *gpu_type = stay.gpu_type;
        }
        if self.record {
            if self.jobs.shares.is_none() {
                self.out.allocations.push(job, &stay.parts, stay.start, self.now);
            } else {
                let gpu_type = stay.gpu_type;
                let (gpus, share) = self.cluster.held(self.holder_of(slot), gpu_type);
                let start = self.stays[slot.index()].start;
                self.out.allocations.push_gpus(job, &gpus, share % MILLI_GPU, start, self.now);
            }
            if self.seats.is_some() {
                let stay = &self.stays[slot.index()];
                self.out.allocations.push_seat(stay.seat, stay.hosts_from.min(self.now));
            }
        }
        let servers = &mut self.out.num_servers[j];
        *servers = (*servers).max(num_servers);
        if num_servers > 1 {
            let most = &mut self.out.max_contention[j];
            *most = (*most).max(self.stays[slot.index()].largest_contention);
            self.tell_crossing(slot);
        }
        if self.eviction_delay.is_some() {
            self.pend_from_now(job, why);
        }
        self.leave(slot);
    }

    /// Releases the GPUs of a stay.
    #[inline(always)]
    pub(super) fn leave(&mut self, slot: Slot) {
        self.forget_end(slot);
        let stay = &self.stays[slot.index()];
        let (job, contention) = (stay.job, stay.contention);
        if self.seats.is_none() || self.hand_over(slot) {
            let stay = &self.stays[slot.index()];
            self.cluster.release(job, &stay.parts);
            if self.is_on_draining(slot) {
                self.note_given_back(slot);
            }
            let stay = &self.stays[slot.index()];
            if let Some(sleep) = &mut self.sleep {
                sleep.give_back(&stay.parts, self.now, self.clock);
            }
        }
        if self.preemptible.is_some() {
            let num_gpus = self.stays[slot.index()].gpus();
            self.on_end(slot);
            self.let_go(job, num_gpus);
        }
        if let Some(protection) = &mut self.protection {
            protection.forget(slot);
        }
        let stay = &self.stays[slot.index()];
        if stay.parts.len() > 1 {
            self.link_contention.leave(slot, stay.servers());
            self.uncross(slot);
            self.account_contention();
            self.contention_sum -= u64::from(contention);
        }
        if let Some(co_location) = &mut self.co_location {
            co_location.leave(slot);
        }
        if self.seats.is_some() {
            self.stand_up(slot);
        }
        self.stays[slot.index()].parts.clear();
        self.free.push(slot);
    }

    /// Updates contention, pace and end of the stays whose servers changed. No other function changes an end.
    pub(super) fn settle(&mut self) {
        self.settle_shares();
        if self.seats.is_some() {
            return self.settle_with_seats();
        }
        self.settle_links();
    }

    /// Does the same for the spanning stays alone. Its usual return costs less than a call.
    #[inline(always)]
    pub(super) fn settle_links(&mut self) {
        if self.link_contention.is_settled() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        self.link_contention.drain_changed(&mut dirty);
        self.account_contention();
        for &slot in &dirty {
            let stay = &mut self.stays[slot.index()];
            let contention = self.link_contention.of(stay.servers());
            if contention == stay.contention {
                continue;
            }
            let before = std::mem::replace(&mut stay.contention, contention);
            stay.largest_contention = stay.largest_contention.max(contention);
            let fresh = std::mem::take(&mut stay.fresh);
            // What it gets of a network of tiers follows.
            let is_felt = !S::COUPLED || self.fabric.is_none();
            if is_felt && (S::COUPLED || fresh) && stay.set_pace(&self.speed, self.now, self.clock) {
                self.set_end(slot);
            }
            self.contention_sum = self.contention_sum + u64::from(contention) - u64::from(before);
        }
        self.dirty = dirty;
        self.out.note_contention(self.now, self.contention_sum);
        self.settle_crossings();
    }

    /// Accumulates the contention of the interval that ends now, in which it was constant.
    pub(super) fn account_contention(&mut self) {
        let passed = self.clock.seconds(self.now) - self.clock.seconds(self.contention_since);
        if passed > 0.0 {
            self.out.contention_seconds += self.contention_sum as f64 * passed;
            self.contention_since = self.now;
        }
    }
}
