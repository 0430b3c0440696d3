//! Carries out decisions that come from outside: the machine pauses where one is due, and the caller calls verbs.
//!
//! Invariant: a verb does all that it is asked, or changes nothing. A FIFO scheduler is `start` of all waiting jobs.

mod rank;
mod seats;

use super::job_states::JobStates;
use crate::decisions::Verb;
use crate::ids::{GpuType, Job, Server, Slot};
use crate::machine::{Chooses, Claimant, Clock, ClusterState, EndReason, Policy, WaitReason};
use crate::options::{Facts, Feature, Is, Named, Options, Placement};
use crate::placement::Placer;
use crate::setting::{Setting, When};
use crate::speed::Speed;
use rank::like;
use std::collections::{BTreeMap, BTreeSet};

/// Why a verb cannot be carried out: the job, the verb and the reason.
pub(crate) type Refusal = (Job, Verb, String);

/// The waiting jobs, and when the next decision is due.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    when: When,
    job_states: JobStates,
    /// Jobs that have arrived, and those of them that are not gone.
    arrived: usize,
    present: usize,
    jobs: usize,
    /// Whether a job came or left since the last decision.
    changed: bool,
    last_tick: f64,
    /// Instants at which a decision is wanted in any case, as bits (machine time).
    wakes: BTreeSet<u64>,
    /// Placements that a verb named.
    placers: BTreeMap<&'static str, Placer>,
    options: Options,
    /// Stays that the latest job placed by eviction ended.
    evicted: Vec<(Slot, Job)>,
    /// The latest end of a protection for which a decision was requested.
    unprotected_at: f64,
}

impl Outside {
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        let jobs = setting.jobs.len();
        Self {
            when: setting.when,
            job_states: JobStates::new(jobs),
            arrived: 0,
            present: 0,
            jobs,
            changed: false,
            last_tick: f64::NEG_INFINITY,
            wakes: BTreeSet::new(),
            placers: BTreeMap::new(),
            options: setting.options.clone(),
            evicted: Vec::new(),
            unprotected_at: f64::NEG_INFINITY,
        }
    }

    /// Returns why a job that does not wait cannot be started or refused.
    fn state_of<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> &'static str {
        match () {
            () if self.job_states.is_waiting(job) => "it waits",
            () if self.job_states.slot_of(job).is_some() => "it holds GPUs already",
            () if state.is_cut(job) => "it reached its time limit",
            () if state.is_done(job) => "it is done",
            () if state.is_ended(job) => "it was ended",
            () if state.is_refused(job) => "it was refused",
            () if state.has_run(job) => "it pauses at a rung",
            () => "it has not arrived yet",
        }
    }

    fn check_waiting<S: Speed>(&self, state: &ClusterState<'_, S>, jobs: &[Job], verb: Verb) -> Result<(), Refusal> {
        match jobs.iter().find(|&&job| !self.job_states.is_waiting(job)) {
            Some(&job) => Err((job, verb, self.state_of(state, job).to_owned())),
            None => twice(jobs, verb),
        }
    }

    /// Returns the slots of the stays of jobs that must run.
    fn slots_of<S: Speed>(&self, state: &ClusterState<'_, S>, jobs: &[Job], verb: Verb) -> Result<Vec<Slot>, Refusal> {
        let why = |job| (job, verb, format!("it holds no GPUs: {}", self.state_of(state, job)));
        let slots =
            jobs.iter().map(|&job| self.job_states.slot_of(job).ok_or_else(|| why(job))).collect::<Result<_, _>>()?;
        twice(jobs, verb)?;
        Ok(slots)
    }

    // Verbs.

    /// Starts waiting jobs in the order given, if a placement finds GPUs for them or may evict others: `gpus`, or as
    /// many as each asks for, of `gpu_type`, or of the first type that can place them. Jobs beyond a quota because of
    /// others of the call are passed over. `strict`: the first without GPUs ends the call, instead of
    /// being passed over. Returns how many of the started jobs still run.
    pub(crate) fn start<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        jobs: &[Job],
        gpus: Option<u32>,
        gpu_type: Option<GpuType>,
        placement: Option<Placement>,
        strict: bool,
    ) -> Result<usize, Refusal> {
        self.check_waiting(state, jobs, Verb::Start)?;
        if let (Some(placement), Some(&job)) = (placement, jobs.first()) {
            state.check_placement(placement, self.options.variant).map_err(|why| (job, Verb::Start, why))?;
        }
        if let Some(gpu_type) = gpu_type {
            let may = |&&job: &&Job| !state.jobs.tried(job).iter().any(|tried| tried.0 == gpu_type);
            if let Some(&job) = jobs.iter().find(may) {
                return Err((job, Verb::Start, "it may not use GPUs of that type".to_owned()));
            }
        }
        for &job in jobs {
            if let Some(gpus) = gpus {
                state.check_size(job, u64::from(gpus)).map_err(|why| (job, Verb::Start, why))?;
            }
            let wanted = gpus.unwrap_or(state.asks(job));
            beyond_quota(state, &[(job, 0, wanted)], Verb::Start)?;
        }
        self.swap_placer(state, placement);
        let monotone = state.placer.is_monotone();
        let (mut failed, mut started) = (BTreeSet::new(), Vec::new());
        for &job in jobs {
            let size = gpus.unwrap_or(state.asks(job));
            let demand = like(state, job, size);
            if failed.contains(&demand) || demand.3.1 == Claimant::HeldBack {
                continue;
            }
            let placed = match gpu_type {
                None => state.place_on(job, size),
                Some(gpu_type) => state.place_on_type(job, size, gpu_type),
            };
            if !placed && self.place_by_evicting(state, job, size, gpu_type) {
                // The evicted jobs may leave more room than the job takes.
                failed.clear();
                self.look_again(state);
            } else if !placed {
                if strict {
                    break;
                }
                if monotone {
                    failed.insert(demand);
                }
                continue;
            }
            self.begin(state, job);
            started.push(job);
        }
        self.swap_placer(state, placement);
        // A job may have made room for another.
        Ok(started.into_iter().filter(|&job| self.job_states.slot_of(job).is_some()).count())
    }

    /// Starts a waiting job that cannot be placed by evicting others. Returns whether that was possible.
    pub(crate) fn evict_for<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> Result<bool, Refusal> {
        self.check_waiting(state, &[job], Verb::Start)?;
        let size = state.asks(job);
        beyond_quota(state, &[(job, 0, size)], Verb::Start)?;
        let rng = state.placer.rng();
        if state.place(job) {
            state.undo(job, rng);
            return Ok(false);
        }
        let placed = self.place_by_evicting(state, job, size, None);
        if placed {
            self.look_again(state);
            self.begin(state, job);
        }
        Ok(placed)
    }

    /// Places a job by evicting others, which wait again, if that is possible.
    fn place_by_evicting<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        num_gpus: u32,
        gpu_type: Option<GpuType>,
    ) -> bool {
        if !state.makes_room() {
            return false;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = state.place_on_by_evicting(job, num_gpus, gpu_type, &mut evicted);
        for &(_, other) in &evicted {
            self.job_states.set_waiting(other);
        }
        self.evicted = evicted;
        placed
    }

    /// Requests a decision at the next boundary, if there are any: a job that was passed over might be placed.
    fn look_again<S: Speed>(&mut self, state: &ClusterState<'_, S>) {
        let boundary = state.clock.next_boundary(state.now);
        if self.when.interval.is_none() && boundary < f64::INFINITY {
            self.wakes.insert(boundary.to_bits());
        }
    }

    /// Replaces the run's own placement by the one of that name; the second call swaps them back.
    fn swap_placer<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, placement: Option<Placement>) {
        let Some(placement) = placement.filter(|&placement| placement != self.options.placement) else { return };
        let own = Options { placement, ..self.options.clone() };
        let other = self.placers.entry(placement.name()).or_insert_with(|| Placer::new(&own));
        state.keep_indexes(other.needs());
        if other.needs().loss {
            state.weigh();
        }
        std::mem::swap(&mut state.placer, other);
    }

    fn begin<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) {
        self.job_states.set_running(job, state.start(job));
    }

    /// Starts a waiting job on the GPUs of given servers.
    pub(crate) fn start_on<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        parts: &[(Server, u32)],
    ) -> Result<(), Refusal> {
        self.check_waiting(state, &[job], Verb::Start)?;
        beyond_quota(state, &[(job, 0, parts.iter().map(|part| part.1).sum())], Verb::Start)?;
        if state.jobs.share_of(job.index()) > 0 {
            return Err((job, Verb::Start, "it takes a share of a GPU: name the GPU, as (server, [GPU])".to_owned()));
        }
        state.place_at(job, parts).map_err(|why| (job, Verb::Start, why))?;
        self.begin(state, job);
        Ok(())
    }

    /// Starts a waiting job on given GPUs: (server, index of the GPU there). Only where jobs may hold shares.
    pub(crate) fn start_on_gpus<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        gpus: &[(Server, u32)],
    ) -> Result<(), Refusal> {
        self.check_waiting(state, &[job], Verb::Start)?;
        beyond_quota(state, &[(job, 0, gpus.len() as u32)], Verb::Start)?;
        let mut gpus = gpus.to_vec();
        gpus.sort_unstable();
        state.place_on_gpus(job, &gpus).map_err(|why| (job, Verb::Start, why))?;
        self.begin(state, job);
        Ok(())
    }

    /// Stops running jobs. They wait again and keep their progress.
    pub(crate) fn stop<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        let slots = self.slots_of(state, jobs, Verb::Stop)?;
        let refusal = |(&job, &slot): (&Job, &Slot)| Some((job, Verb::Stop, state.may_not_stop(slot)?));
        jobs.iter().zip(&slots).find_map(refusal).map_or(Ok(()), Err)?;
        for (&job, slot) in jobs.iter().zip(slots) {
            state.stop(slot);
            self.job_states.set_waiting(job);
        }
        Ok(())
    }

    /// Moves running jobs to other GPUs. All give theirs back first, so two may exchange their servers.
    pub(crate) fn shift<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        moves: &[(Job, Vec<(Server, u32)>)],
    ) -> Result<(), Refusal> {
        let jobs: Vec<Job> = moves.iter().map(|&(job, _)| job).collect();
        let slots = self.slots_of(state, &jobs, Verb::Move)?;
        if let (Some(_), Some(&job)) = (state.jobs.shares, jobs.first()) {
            let why = "jobs may hold shares of GPUs: stop it and start it on other GPUs, which is a move where both are at once";
            return Err((job, Verb::Move, why.into()));
        }
        // What is idle once all have given back their GPUs, where that matters.
        let mut idle: BTreeMap<Server, u64> = BTreeMap::new();
        for slot in seats::come_free(state, &slots) {
            for &(server, count) in &state.stays[slot.index()].parts {
                let at = idle.entry(server).or_insert_with(|| u64::from(state.cluster.idle(server)));
                *at += if state.is_draining(server) { 0 } else { u64::from(count) };
            }
        }
        for (job, parts) in moves {
            let fail = |why: String| (*job, Verb::Move, why);
            state.check_parts(*job, parts).map_err(fail)?;
            for &(server, count) in parts {
                let at = idle.entry(server).or_insert_with(|| u64::from(state.cluster.idle(server)));
                let left = at.checked_sub(u64::from(count));
                *at = left.ok_or_else(|| fail(state.lacks(server, *at, count)))?;
            }
        }
        let changes: Vec<_> = (moves.iter().zip(&slots))
            .map(|((job, parts), slot)| (*job, state.stays[slot.index()].gpus(), parts.iter().map(|part| part.1).sum()))
            .collect();
        beyond_quota(state, &changes, Verb::Move)?;
        for (at, ((job, parts), slot)) in moves.iter().zip(slots).enumerate() {
            state.note_shift(Verb::Move, *job, parts, at == 0);
            state.detach(slot);
        }
        for (job, parts) in moves {
            state.place_at(*job, parts).map_err(|why| (*job, Verb::Move, why))?;
            self.job_states.set_running(*job, state.attach(*job));
        }
        Ok(())
    }

    /// Gives a running job another number of GPUs, where the run's placement puts them; its own count as idle.
    pub(crate) fn resize<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        gpus: u32,
    ) -> Result<(), Refusal> {
        let slot = self.slots_of(state, &[job], Verb::Resize)?[0];
        state.check_size(job, u64::from(gpus)).map_err(|why| (job, Verb::Resize, why))?;
        let own = state.stays[slot.index()].gpus();
        if own == gpus {
            return Ok(());
        }
        beyond_quota(state, &[(job, own, gpus)], Verb::Resize)?;
        let resized = state.resize(slot, gpus);
        self.job_states.set_running(job, resized.unwrap_or_else(|slot| slot));
        let why = || format!("{} places no {gpus} GPUs for it", self.options.placement.name());
        resized.map(|_| ()).map_err(|_| (job, Verb::Resize, why()))
    }

    /// Ends jobs that run, or have run, before they are done.
    pub(crate) fn end<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        twice(jobs, Verb::End)?;
        for &job in jobs {
            let why = match () {
                () if self.job_states.slot_of(job).is_some() => continue,
                () if !self.job_states.is_waiting(job) => self.state_of(state, job),
                () if state.has_run(job) => continue,
                () => "it has never run: refuse it",
            };
            return Err((job, Verb::End, why.to_owned()));
        }
        for &job in jobs {
            state.end(job, self.job_states.slot_of(job));
            self.job_states.set_gone(job);
            self.present -= 1;
        }
        Ok(())
    }

    /// Refuses waiting jobs that never ran, for good.
    pub(crate) fn refuse<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        self.check_waiting(state, jobs, Verb::Refuse)?;
        if let Some(&job) = jobs.iter().find(|&&job| state.has_run(job)) {
            return Err((job, Verb::Refuse, "it has run already".to_owned()));
        }
        for &job in jobs {
            state.refuse(job).map_err(|why| (job, Verb::Refuse, why))?;
            self.job_states.set_gone(job);
            self.present -= 1;
        }
        Ok(())
    }

    /// Makes decisions due at the multiples of so many seconds from now on, or at every change.
    pub(crate) fn set_interval(&mut self, interval: Option<f64>) {
        self.when.interval = interval;
    }

    /// Requests a decision at a time, s, in any case. Returns whether it is in the future.
    pub(crate) fn wake_at(&mut self, clock: Clock, now: f64, time: f64) -> bool {
        let at = clock.arrival(time);
        let ahead = time > clock.seconds(now) && at > now && at < f64::INFINITY;
        if ahead {
            self.wakes.insert(at.to_bits());
        }
        ahead
    }
}

/// Returns why jobs may not hold those GPUs, if an owner would be beyond its quota and may not borrow.
fn beyond_quota<S: Speed>(state: &ClusterState<'_, S>, changes: &[(Job, u32, u32)], verb: Verb) -> Result<(), Refusal> {
    state.beyond_quota(changes).map_or(Ok(()), |(job, why)| Err((job, verb, why)))
}

/// Refuses a list that names a job twice.
fn twice(jobs: &[Job], verb: Verb) -> Result<(), Refusal> {
    if jobs.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    match jobs.iter().find(|&&job| !seen.insert(job)) {
        Some(&job) => Err((job, verb, "it is named twice".to_owned())),
        None => Ok(()),
    }
}

impl Named for Outside {
    const FACTS: Facts = Facts {
        name: "outside",
        about: "decisions come from outside",
        paper: "",
        knows: Feature::ALL,
        is: &[Is::Resizes],
        options: &[
            "preempt-cost",
            "move-cost",
            "resize-cost",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl<S: Speed> Policy<S> for Outside {
    const STOPS: bool = true;
    const OUTSIDE: bool = true;

    fn on_wait(&mut self, _state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        self.arrived += usize::from(why == WaitReason::Arrived);
        self.present += 1;
        self.job_states.set_waiting(job);
        self.changed = true;
    }

    fn on_end(&mut self, _state: &ClusterState<'_, S>, _slot: Slot, job: Job, why: EndReason) {
        if why == EndReason::Lost {
            return self.job_states.set_waiting(job);
        }
        self.job_states.set_gone(job);
        self.present -= 1;
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn asks(&mut self, state: &ClusterState<'_, S>) -> bool {
        if self.arrived == 0 || (self.present == 0 && self.arrived == self.jobs) {
            return false;
        }
        let woken = self.wakes.first().is_some_and(|&bits| f64::from_bits(bits) <= state.now);
        while self.wakes.first().is_some_and(|&bits| f64::from_bits(bits) <= state.now) {
            self.wakes.pop_first();
        }
        let wanted = !self.when.waiting_only || self.job_states.has_waiting();
        let due = match self.when.interval {
            None => self.changed && wanted,
            Some(interval) => wanted && state.clock.tick(interval, state.now, self.last_tick) == state.now,
        };
        let is_open = self.when.stops
            && self.job_states.has_waiting()
            && self.unprotected_at < state.now
            && state.opens_at() == state.now;
        if is_open {
            self.unprotected_at = state.now;
        }
        if due || woken || is_open {
            self.changed = false;
        }
        if due {
            self.last_tick = state.now;
        }
        due || woken || is_open
    }

    fn wake(&mut self, state: &ClusterState<'_, S>, arrived: usize) -> f64 {
        let wake = self.wakes.first().map_or(f64::INFINITY, |&bits| f64::from_bits(bits));
        let wanted = if self.when.waiting_only { self.job_states.has_waiting() } else { self.present > 0 };
        let nothing_left = self.present == 0 && arrived == self.jobs;
        let opens = self.when.stops && self.job_states.has_waiting();
        let wake = if opens { wake.min(state.opens_next_at()) } else { wake };
        match self.when.interval {
            _ if nothing_left => f64::INFINITY,
            Some(interval) if wanted => wake.min(state.clock.tick(interval, state.now, self.last_tick)),
            _ => wake,
        }
    }

    fn due(&mut self, _state: &ClusterState<'_, S>) -> f64 {
        f64::INFINITY
    }

    fn pass(&mut self, _state: &mut ClusterState<'_, S>) {}

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
