//! Implements the verbs, by which a policy changes which job holds which GPUs.
//!
//! A job is placed, which takes GPUs, and then started, which begins a stay on them. Invariant: after `place` or
//! `place_at` comes `start`, `attach` or `undo`, and nothing else. Verbs are netted: only the holders before and after
//! an instant count (docs/model.md). For example, a job that is stopped and started again on the same GPUs at one
//! instant continues its stay.

use super::clock::Rest;
use super::cluster_state::ClusterState;
use super::rollback::Rollback;
use super::saves::Saves;
use super::stays::Stay;
use crate::cluster::Claim;
use crate::decisions::{Cause, Row, Verb};
use crate::ids::{GpuType, Job, Server, Slot};
use crate::outcome::Woken;
use crate::record::{StayRecord, Why};
use crate::rng::SplitMix64;
use crate::speed::Speed;

/// (server, GPUs), or (server, index of a GPU there).
type Parts = Vec<(Server, u32)>;

impl<S: Speed> ClusterState<'_, S> {
    /// Tries to place a job. On success its GPUs are taken, and `start` or `undo` must follow.
    #[inline(always)]
    pub(crate) fn place(&mut self, job: Job) -> bool {
        self.place_on(job, self.asks(job))
    }

    /// Places a job like `place`, on a number of GPUs that it may hold: of the first type in its list that can place
    /// them.
    #[inline(always)]
    pub(crate) fn place_on(&mut self, job: Job, num_gpus: u32) -> bool {
        if self.jobs.types.is_none() {
            return self.place_on_type(job, num_gpus, GpuType::NONE);
        }
        let jobs = self.jobs;
        jobs.tried(job).iter().any(|&(gpu_type, _)| self.place_on_type(job, num_gpus, gpu_type))
    }

    /// Places a job on that many GPUs of one type.
    #[inline(always)]
    pub(crate) fn place_on_type(&mut self, job: Job, num_gpus: u32, gpu_type: GpuType) -> bool {
        self.out.decisions += 1;
        let claim = self.claim(job, num_gpus);
        self.cluster.place_by(&mut self.placer, gpu_type, &claim, &mut self.grant)
    }

    /// Counts that many placement attempts that are known to fail.
    pub(crate) fn place_none(&mut self, jobs: u64) {
        self.out.decisions += jobs;
    }

    /// Counts a job whose recorded place is not allowed.
    pub(crate) fn count_displaced(&mut self) {
        self.out.displaced += 1;
    }

    #[inline(always)]
    pub(super) fn claim(&self, job: Job, num_gpus: u32) -> Claim {
        let time = if self.cluster.keeps_times() { self.estimate(job) } else { 0.0 };
        Claim { job, num_gpus, time, share: self.jobs.share_of(job.index()), form: self.jobs.form(job.index()) }
    }

    /// Releases what the latest `place` took, and takes back the random draws made since `rng`.
    pub(crate) fn undo(&mut self, job: Job, rng: SplitMix64) {
        self.cluster.undo(job, &self.grant.parts);
        self.placer.set_rng(rng);
    }

    /// Returns a log row for a decision of this instant's pass.
    pub(super) fn row(&self, verb: Verb, job: Job) -> Row {
        Row { job: job.number(), pass: self.pass, ..Row::of(self.now, verb) }
    }

    /// Writes a row to the log, where one is kept.
    #[inline]
    pub(super) fn note(&mut self, row: Row) {
        if self.record_log {
            self.out.log.rows.push(row);
        }
    }

    /// Starts or resumes the job that was placed last. Returns the slot of its stay.
    pub(crate) fn start(&mut self, job: Job) -> Slot {
        self.grant.parts.sort_unstable();
        if self.record_log {
            let row = self.row(Verb::Start, job);
            if self.jobs.shares.is_some() {
                let gpus = self.cluster.held(job, self.grant.gpu_type).0;
                self.out.log.push_gpus(row, &gpus);
            } else {
                self.out.log.push_parts(row, &self.grant.parts);
            }
        }
        if self.has_rollback(job)
            && let Some(slot) = self.resume_in_place(job)
        {
            return slot;
        }
        self.turn_wait(job);
        self.begin(job)
    }

    /// Begins the stay of the job that was placed last. Returns its slot.
    #[inline(always)]
    pub(super) fn begin(&mut self, job: Job) -> Slot {
        let j = job.index();
        let num_gpus: u32 = self.grant.parts.iter().map(|part| part.1).sum();
        // A job that gave up other GPUs at this instant has moved, whichever verbs were used.
        let before = if self.has_rollback(job) {
            self.rollback.iter().find(|rollback| rollback.stay.job == job && rollback.by_verb)
        } else {
            None
        };
        let wakes = match &mut self.sleep {
            None => false,
            Some(sleep) if self.seats.as_ref().is_some_and(|seats| seats.joining.is_some()) => {
                sleep.wakes(&self.grant.parts, self.now, self.clock)
            }
            Some(sleep) => sleep.take(&self.grant.parts, Woken::ByJob(job), self.now, self.clock),
        };
        let why = before.map(|rollback| if rollback.stay.gpus() == num_gpus { Why::Moved } else { Why::Resized });
        if let Some(why) = why {
            self.tell(job, why);
        }
        let (rest, left, resumed) = match &self.progress {
            None => (Rest::NONE, self.speed.work(&self.jobs, job, self.clock.slot), false),
            Some(progress) => (self.pause_of(job, why, wakes), progress.left[j], self.resumes(job)),
        };
        let every = if self.checkpoint_interval.is_nan() { f64::NAN } else { self.interval_of(job) };
        let alone = if self.progress.is_some() { self.alone(job) } else { f64::NAN };
        let slot = self.free.pop().unwrap_or(Slot::at(self.stays.len()));
        if slot.index() == self.stays.len() {
            self.stays.push(Stay::default());
        }
        let stay = &mut self.stays[slot.index()];
        stay.job = job;
        stay.parts.clone_from(&self.grant.parts);
        stay.start = self.now;
        stay.order = self.begun;
        self.begun += 1;
        (stay.contention, stay.largest_contention) = (0, 0);
        (stay.left, stay.saved) = (left, left);
        if self.clock.slot.is_some() {
            stay.work = self.speed.work(&self.jobs, job, self.clock.slot);
        }
        stay.every = every;
        stay.from = self.now + rest.length();
        stay.since = stay.from;
        if S::USES_REST_OF_SLOT {
            (stay.part, stay.head) = (rest.part, 0.0);
            if rest.part > 0.0 {
                stay.since = self.now + rest.whole + 1.0;
            }
        }
        if self.saving.is_some() {
            stay.saves = Saves::from(stay.from, every, left, self.clock);
        }
        stay.gpu_type = self.grant.gpu_type;
        stay.pace = self.speed.pace(&self.jobs, job, num_gpus, stay.gpu_type);
        stay.alone = alone;
        stay.unit = f64::NAN;
        stay.slowed = 1.0;
        if let Some(co_location) = &mut self.co_location
            && self.jobs.share_of(j) > 0
        {
            for (server, gpu) in self.cluster.held(job, stay.gpu_type).0 {
                co_location.join(slot, server, gpu);
            }
            self.meet(slot);
        }
        if self.seats.is_some() {
            self.sit(slot);
        }
        let stay = &mut self.stays[slot.index()];
        // The pace of a spanning job is known only once its link contention is.
        stay.fresh = stay.parts.len() > 1;
        if stay.fresh {
            self.link_contention.join(slot, stay.servers());
            self.cross(slot);
        } else {
            stay.set_pace(&self.speed, self.now, self.clock);
            self.set_end(slot);
        }
        if !resumed {
            self.out.start[j] = self.now;
        }
        self.pend_no_longer(job);
        self.out.stay_log.note_start(job, self.now);
        if self.protection.is_some() {
            self.protect(slot);
        }
        if self.preemptible.is_some() {
            self.hold(slot, job, num_gpus);
            self.on_start(slot);
        }
        slot
    }

    /// Stops a stay: its job releases its GPUs and keeps its progress, unless
    /// preemptions lose work. Returns the job.
    pub(crate) fn stop(&mut self, slot: Slot) -> Job {
        let job = self.stays[slot.index()].job;
        self.note(self.row(Verb::Stop, job));
        self.interrupt(slot);
        self.out.stay_log.note_given_up(job, self.now);
        self.turn_wait(job);
        job
    }

    /// Logs a move or a resize, which `detach` and `attach` do not. `first`: whether it is the first of those that are
    /// carried out together.
    pub(crate) fn note_shift(&mut self, verb: Verb, job: Job, parts: &[(Server, u32)], first: bool) {
        if self.record_log {
            let row = self.row(verb, job);
            let same = |above: &&Row| (above.verb, above.time, above.pass) == (verb, row.time, row.pass);
            let follows = self.out.log.rows.last().filter(same);
            let is_apart = |above: &Row| verb == Verb::Move || above.job == row.job;
            let cause = if first && follows.is_some_and(is_apart) { Cause::After } else { Cause::None };
            let mut parts = parts.to_vec();
            parts.sort_unstable();
            self.out.log.push_parts(Row { cause, ..row }, &parts);
        }
    }

    /// Takes a running job off its GPUs; `attach` follows at this instant.
    pub(crate) fn detach(&mut self, slot: Slot) {
        self.interrupt(slot);
    }

    /// Puts a detached job on the GPUs placed last. Returns the slot of its stay.
    pub(crate) fn attach(&mut self, job: Job) -> Slot {
        self.grant.parts.sort_unstable();
        self.resume_in_place(job).unwrap_or_else(|| self.begin(job))
    }

    /// Resizes a running job to `num_gpus` GPUs, which the run's placement chooses. Its present GPUs count as idle.
    ///
    /// Returns the slot of its stay, or `Err` with the slot where too few GPUs are available: the job then continues
    /// unchanged.
    pub(crate) fn resize(&mut self, slot: Slot, num_gpus: u32) -> Result<Slot, Slot> {
        let job = self.stays[slot.index()].job;
        let (parts, gpus) = self.held_by(slot);
        let rng = self.placer.rng();
        // Where others sit with it its own GPUs stay taken.
        if (self.is_on_draining(slot) || self.beside(slot).next().is_some()) && !self.can_leave(slot, num_gpus) {
            return Err(slot);
        }
        self.interrupt(slot);
        let placed = self.place_on(job, num_gpus);
        if !placed {
            self.placer.set_rng(rng);
            self.take_back(job, &parts, &gpus);
        }
        // Needed also where it gets its old servers again: which of their GPUs it gets depends on U.
        let parts = self.grant.parts.clone();
        self.note_shift(Verb::Resize, job, &parts, true);
        let slot = self.attach(job);
        if placed { Ok(slot) } else { Err(slot) }
    }

    /// Resizes a running job to the GPUs of given servers. Its present GPUs count as idle. Returns the slot of its
    /// stay, or why the resize is impossible.
    pub(crate) fn resize_to(&mut self, slot: Slot, parts: &[(Server, u32)]) -> Result<Slot, String> {
        let stay = &self.stays[slot.index()];
        let job = stay.job;
        self.check_parts(job, parts)?;
        let is_alone = self.beside(slot).next().is_none();
        for &(server, count) in parts {
            let here = |part: &&(Server, u32)| is_alone && part.0 == server && !self.is_draining(server);
            let own = stay.parts.iter().find(here).map_or(0, |part| part.1);
            let idle = self.cluster.idle(server) + own;
            if count > idle {
                return Err(self.lacks(server, u64::from(idle), count));
            }
        }
        let (own, gpus) = self.held_by(slot);
        self.out.decisions += 1;
        self.note_shift(Verb::Resize, job, parts, true);
        self.interrupt(slot);
        if own == parts && is_alone {
            self.take_back(job, parts, &gpus);
        } else {
            self.take(job, parts);
        }
        Ok(self.attach(job))
    }

    /// Returns whether a job on a server that drains could be placed on so many GPUs of other servers if it gave its
    /// own back.
    fn can_leave(&mut self, slot: Slot, num_gpus: u32) -> bool {
        let stay = &self.stays[slot.index()];
        let (job, jobs, rng) = (stay.job, self.jobs, self.placer.rng());
        let (claim, mut pools) = (self.claim(job, num_gpus), self.cluster.clone());
        if self.beside(slot).next().is_none() {
            pools.release(job, &stay.parts);
        }
        let Self { placer, grant, .. } = self;
        let fits = jobs.tried(job).iter().any(|&(gpu_type, _)| pools.place_by(placer, gpu_type, &claim, grant));
        self.placer.set_rng(rng);
        fits
    }

    /// Returns what a stay holds: its parts and, where jobs may hold shares, its GPUs.
    fn held_by(&self, slot: Slot) -> (Parts, Parts) {
        let stay = &self.stays[slot.index()];
        let shares = self.jobs.shares.is_some();
        let gpus = if shares { self.cluster.held(self.holder_of(slot), stay.gpu_type).0 } else { Vec::new() };
        (stay.parts.clone(), gpus)
    }

    /// Takes for a job what it has just released.
    fn take_back(&mut self, job: Job, parts: &[(Server, u32)], gpus: &[(Server, u32)]) {
        if gpus.is_empty() {
            return self.take(job, parts);
        }
        let claim = self.claim(job, gpus.len() as u32);
        self.cluster.take_gpus(gpus, &claim, &mut self.grant);
    }

    /// Takes the idle GPUs of given servers for a job.
    pub(super) fn take(&mut self, job: Job, parts: &[(Server, u32)]) {
        let claim = self.claim(job, parts.iter().map(|part| part.1).sum());
        self.cluster.take(parts, &claim, &mut self.grant);
    }

    /// Ends a job for good before it is done. `slot`: the slot of its stay, if it runs.
    pub(crate) fn end(&mut self, job: Job, slot: Option<Slot>) {
        self.note(self.row(Verb::End, job));
        self.give_up(job, slot, Why::Dropped);
    }

    /// Ends a job like `end`, without logging it. A stay of no length counts if it ends at a rung.
    pub(super) fn give_up(&mut self, job: Job, slot: Option<Slot>, why: Why) {
        let j = job.index();
        self.out.ended[j] = true;
        self.count_gone(job);
        self.lose_trial(job);
        match slot {
            // The trial is just at the rung: work of the last slot beyond it does not count.
            Some(slot) if why == Why::Rung => self.vacate(slot, why, Some(self.left_at_rung(job))),
            Some(slot) if self.stays[slot.index()].start < self.now => self.vacate(slot, why, None),
            Some(slot) => self.never_began(slot),
            None => {}
        }
        self.pend_no_longer(job);
        self.out.stay_log.readdress(job, Why::Preempted, self.now);
        if self.was_stopped(job) {
            // It held GPUs up to this instant and holds none after it: that is an end, not a stop and an end.
            self.tell(job, why);
        }
        self.out.wait_causes[j] = (0.0, 0.0);
    }

    /// Ends a stay before its job is done. A stay of no length is removed.
    fn interrupt(&mut self, slot: Slot) {
        let stay = &self.stays[slot.index()];
        let job = stay.job;
        if stay.start == self.now {
            self.never_began(slot);
            if self.was_stopped(job) {
                self.tell(job, Why::Preempted);
            }
            return;
        }
        self.keep(slot, true);
        self.end_early(slot, Why::Preempted);
    }

    /// Removes a stay that began at this instant, as if it had never begun.
    pub(super) fn never_began(&mut self, slot: Slot) {
        let start = &mut self.out.start[self.stays[slot.index()].job.index()];
        if *start == self.now {
            *start = f64::NAN;
        }
        let job = self.stays[slot.index()].job;
        self.leave(slot);
        self.pend(job, false);
    }

    /// Reports to outside deciders that a job lost GPUs that it was given at this instant.
    pub(super) fn note_given_up(&mut self, job: Job, why: Why) {
        if self.outside {
            self.out.stay_log.records.push(StayRecord::of_no_length(job, why, self.now));
        }
    }

    /// Saves the state of a stay that ends early: by a verb, for another job, or at a rung.
    pub(super) fn keep(&mut self, slot: Slot, by_verb: bool) {
        let was_over = self.is_over_quota(slot);
        let was_protected = self.protects() && self.is_protected(slot);
        let stay = &self.stays[slot.index()];
        let mut rollback = Rollback::of(stay, self.progress.as_ref(), self.limits.as_deref());
        (rollback.by_verb, rollback.was_over, rollback.was_protected) = (by_verb, was_over, was_protected);
        if self.jobs.shares.is_some() {
            rollback.gpus = self.cluster.held(self.holder_of(slot), stay.gpu_type).0;
        }
        if let Some(progress) = &mut self.progress {
            progress.ended[stay.job.index()] = self.now;
        }
        self.rollback.push(rollback);
    }

    /// Refuses a job for good. Returns an error if it has run already.
    pub(crate) fn refuse(&mut self, job: Job) -> Result<(), String> {
        if !self.out.start[job.index()].is_nan() {
            return Err("it has run already".to_owned());
        }
        let cause = if self.is_arriving { Cause::OnArrival } else { Cause::None };
        self.note(Row { cause, ..self.row(Verb::Refuse, job) });
        self.out.refused[job.index()] = true;
        self.pend_no_longer(job);
        self.out.wait_causes[job.index()] = (0.0, 0.0);
        self.count_gone(job);
        self.lose_trial(job);
        Ok(())
    }

    /// Ends the run with an error: a decision cannot be carried out. `at`: its row of the log, if it comes from one.
    pub(crate) fn fail(&mut self, job: Job, verb: Verb, why: String, at: Option<usize>) {
        self.fault = Some((job, verb, why, at));
    }
}
