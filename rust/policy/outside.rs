//! Decisions that come from outside: the machine pauses where one is due, and somebody calls the verbs here.
//!
//! Invariant: a verb either does all that it is asked, or says why not and changes nothing. For example, a FIFO
//! scheduler is `start` of all waiting jobs, strictly, at every pause.

use super::quotas::Quotas;
use super::roster::Roster;
use crate::decisions::Verb;
use crate::ids::{GpuType, Job, Server, Slot};
use crate::machine::{Came, Clock, Floor, Left, Policy};
use crate::options::{Facts, Feature, Is, Named, Options, Placement};
use crate::placement::Placer;
use crate::setting::{Setting, When};
use crate::speed::Speed;
use std::collections::{BTreeMap, BTreeSet};

/// Why a verb cannot be carried out: the job, the verb and the reason.
pub(crate) type Refusal = (Job, Verb, String);

/// The jobs that wait, and when the next decision is due.
#[derive(Clone, Debug)]
pub(crate) struct Outside {
    when: When,
    roster: Roster,
    /// Jobs that have arrived, and those of them that are not gone.
    arrived: usize,
    present: usize,
    jobs: usize,
    /// Whether a job came or went since the last decision.
    changed: bool,
    last_tick: f64,
    /// Instants at which a decision is wanted whatever happens, as bits (machine time).
    wakes: BTreeSet<u64>,
    /// Placements that a verb asked for by name.
    placers: BTreeMap<&'static str, Placer>,
    options: Options,
}

impl Outside {
    pub(crate) fn new(setting: &Setting<'_>) -> Self {
        let jobs = setting.jobs.len();
        Self {
            when: setting.when,
            roster: Roster::new(jobs),
            arrived: 0,
            present: 0,
            jobs,
            changed: false,
            last_tick: f64::NEG_INFINITY,
            wakes: BTreeSet::new(),
            placers: BTreeMap::new(),
            options: setting.options.clone(),
        }
    }

    /// Why a job that does not wait cannot be started or refused.
    fn state_of<S: Speed>(&self, floor: &Floor<'_, S>, job: Job) -> &'static str {
        match () {
            () if self.roster.is_waiting(job) => "it waits",
            () if self.roster.slot_of(job).is_some() => "it holds GPUs already",
            () if floor.is_done(job) => "it is done",
            () if floor.is_ended(job) => "it was ended",
            () if floor.is_refused(job) => "it was refused",
            () if floor.has_run(job) => "it pauses at a rung",
            () => "it has not arrived yet",
        }
    }

    fn check_waiting<S: Speed>(&self, floor: &Floor<'_, S>, jobs: &[Job], verb: Verb) -> Result<(), Refusal> {
        match jobs.iter().find(|&&job| !self.roster.is_waiting(job)) {
            Some(&job) => Err((job, verb, self.state_of(floor, job).to_owned())),
            None => twice(jobs, verb),
        }
    }

    /// The slots of the stays of jobs that must run.
    fn slots_of<S: Speed>(&self, floor: &Floor<'_, S>, jobs: &[Job], verb: Verb) -> Result<Vec<Slot>, Refusal> {
        let why = |job| (job, verb, format!("it holds no GPUs: {}", self.state_of(floor, job)));
        let slots =
            jobs.iter().map(|&job| self.roster.slot_of(job).ok_or_else(|| why(job))).collect::<Result<_, _>>()?;
        twice(jobs, verb)?;
        Ok(slots)
    }

    // Verbs.

    /// Starts waiting jobs in the order given, where a placement finds GPUs for them: `gpus`, or as many as each asks
    /// for, of `gpu_type`, or of the first type that can place them. `strict`: the first that finds none ends the call; otherwise it is passed over. Returns how many started.
    pub(crate) fn start<S: Speed>(
        &mut self,
        floor: &mut Floor<'_, S>,
        jobs: &[Job],
        gpus: Option<u32>,
        gpu_type: Option<GpuType>,
        placement: Option<Placement>,
        strict: bool,
    ) -> Result<usize, Refusal> {
        self.check_waiting(floor, jobs, Verb::Start)?;
        if let Some(gpu_type) = gpu_type {
            let may = |&&job: &&Job| !floor.jobs.tried(job).iter().any(|tried| tried.0 == gpu_type);
            if let Some(&job) = jobs.iter().find(may) {
                return Err((job, Verb::Start, "it may not use GPUs of that type".to_owned()));
            }
        }
        for &job in jobs.iter().filter(|_| gpus.is_some()) {
            floor.check_size(job, u64::from(gpus.unwrap_or(0))).map_err(|why| (job, Verb::Start, why))?;
        }
        self.swap_placer(floor, placement);
        let monotone = floor.placer.is_monotone();
        let mut failed = BTreeSet::new();
        let mut started = 0;
        for &job in jobs {
            let size = gpus.unwrap_or(floor.asks(job));
            let demand = (size, floor.jobs.demand(job).kind());
            if failed.contains(&demand) {
                continue;
            }
            let placed = match gpu_type {
                None => floor.place_on(job, size),
                Some(gpu_type) => floor.place_on_type(job, size, gpu_type),
            };
            if placed {
                self.begin(floor, job);
                started += 1;
            } else if strict {
                break;
            } else if monotone {
                failed.insert(demand);
            }
        }
        self.swap_placer(floor, placement);
        Ok(started)
    }

    /// Puts the placement of that name in the place of the run's own; the second call puts things back.
    fn swap_placer<S: Speed>(&mut self, floor: &mut Floor<'_, S>, placement: Option<Placement>) {
        let Some(placement) = placement.filter(|&placement| placement != self.options.placement) else { return };
        let own = Options { placement, ..self.options.clone() };
        let other = self.placers.entry(placement.name()).or_insert_with(|| Placer::new(&own));
        floor.cluster.keep(other.needs());
        if other.needs().loss {
            floor.weigh();
        }
        std::mem::swap(&mut floor.placer, other);
    }

    fn begin<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) {
        self.roster.set_running(job, floor.start(job));
    }

    /// Starts a waiting job on the GPUs of given servers.
    pub(crate) fn start_on<S: Speed>(
        &mut self,
        floor: &mut Floor<'_, S>,
        job: Job,
        parts: &[(Server, u32)],
    ) -> Result<(), Refusal> {
        self.check_waiting(floor, &[job], Verb::Start)?;
        floor.place_at(job, parts).map_err(|why| (job, Verb::Start, why))?;
        self.begin(floor, job);
        Ok(())
    }

    /// Stops running jobs. They wait again and keep their progress.
    pub(crate) fn stop<S: Speed>(&mut self, floor: &mut Floor<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        for (&job, slot) in jobs.iter().zip(self.slots_of(floor, jobs, Verb::Stop)?) {
            floor.stop(slot);
            self.roster.set_waiting(job);
        }
        Ok(())
    }

    /// Moves running jobs to other GPUs. All give theirs back first, so two may exchange their servers.
    pub(crate) fn shift<S: Speed>(
        &mut self,
        floor: &mut Floor<'_, S>,
        moves: &[(Job, Vec<(Server, u32)>)],
    ) -> Result<(), Refusal> {
        let jobs: Vec<Job> = moves.iter().map(|&(job, _)| job).collect();
        let slots = self.slots_of(floor, &jobs, Verb::Move)?;
        // What is idle once all have given back their GPUs, where that matters.
        let mut idle: BTreeMap<Server, u64> = BTreeMap::new();
        for slot in &slots {
            for &(server, count) in &floor.stays[slot.index()].parts {
                let at = idle.entry(server).or_insert_with(|| u64::from(floor.cluster.idle(server)));
                *at += u64::from(count);
            }
        }
        for (job, parts) in moves {
            let fail = |why: String| (*job, Verb::Move, why);
            floor.check_parts(*job, parts).map_err(fail)?;
            for &(server, count) in parts {
                let at = idle.entry(server).or_insert_with(|| u64::from(floor.cluster.idle(server)));
                let left = at.checked_sub(u64::from(count));
                *at = left.ok_or_else(|| fail(floor.lacks(server, *at, count)))?;
            }
        }
        for (at, ((job, parts), slot)) in moves.iter().zip(slots).enumerate() {
            floor.note_shift(Verb::Move, *job, parts, at == 0);
            floor.lift(slot);
        }
        for (job, parts) in moves {
            floor.place_at(*job, parts).map_err(|why| (*job, Verb::Move, why))?;
            self.roster.set_running(*job, floor.land(*job));
        }
        Ok(())
    }

    /// Gives a running job another number of GPUs, where the run's placement puts them; its own count as idle.
    pub(crate) fn resize<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job, gpus: u32) -> Result<(), Refusal> {
        let slot = self.slots_of(floor, &[job], Verb::Resize)?[0];
        floor.check_size(job, u64::from(gpus)).map_err(|why| (job, Verb::Resize, why))?;
        if floor.stays[slot.index()].gpus() == gpus {
            return Ok(());
        }
        let resized = floor.resize(slot, gpus);
        self.roster.set_running(job, resized.unwrap_or_else(|slot| slot));
        let why = || format!("{} places no {gpus} GPUs for it", self.options.placement.name());
        resized.map(|_| ()).map_err(|_| (job, Verb::Resize, why()))
    }

    /// Ends jobs that run, or have run, before they are done.
    pub(crate) fn end<S: Speed>(&mut self, floor: &mut Floor<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        twice(jobs, Verb::End)?;
        for &job in jobs {
            let why = match () {
                () if self.roster.slot_of(job).is_some() => continue,
                () if !self.roster.is_waiting(job) => self.state_of(floor, job),
                () if floor.has_run(job) => continue,
                () => "it has never run: refuse it",
            };
            return Err((job, Verb::End, why.to_owned()));
        }
        for &job in jobs {
            floor.end(job, self.roster.slot_of(job));
            self.roster.set_gone(job);
            self.present -= 1;
        }
        Ok(())
    }

    /// Refuses waiting jobs that never ran, for good.
    pub(crate) fn refuse<S: Speed>(&mut self, floor: &mut Floor<'_, S>, jobs: &[Job]) -> Result<(), Refusal> {
        self.check_waiting(floor, jobs, Verb::Refuse)?;
        if let Some(&job) = jobs.iter().find(|&&job| floor.has_run(job)) {
            return Err((job, Verb::Refuse, "it has run already".to_owned()));
        }
        for &job in jobs {
            floor.refuse(job).map_err(|why| (job, Verb::Refuse, why))?;
            self.roster.set_gone(job);
            self.present -= 1;
        }
        Ok(())
    }

    /// From now on decisions are due at the multiples of so many seconds, or at every change.
    pub(crate) fn set_interval(&mut self, interval: Option<f64>) {
        self.when.interval = interval;
    }

    /// Asks for a decision at a time, s, whatever happens until then. Returns whether it lies ahead.
    pub(crate) fn wake_at(&mut self, clock: Clock, now: f64, time: f64) -> bool {
        let at = clock.arrival(time);
        let ahead = time > clock.seconds(now) && at > now && at < f64::INFINITY;
        if ahead {
            self.wakes.insert(at.to_bits());
        }
        ahead
    }

    /// Carries out a ranking: `keys` are those of `jobs`, least first, ties fifo; higher priorities before all that.
    ///
    /// Without preemption the waiting jobs start in that order as far as they can be placed. With it, the jobs that fit
    /// in a quota of all GPUs are selected, the running ones that are not are stopped, and the others start.
    pub(crate) fn rank<S: Speed>(&mut self, floor: &mut Floor<'_, S>, jobs: &[Job], keys: &[f64], preemptive: bool) {
        let mut order: Vec<(f64, Job)> = keys.iter().copied().zip(jobs.iter().copied()).collect();
        let tier = |job: Job| floor.jobs.tier(job.index());
        order.sort_unstable_by(|a, b| tier(a.1).cmp(&tier(b.1)).then(a.0.total_cmp(&b.0)).then(a.1.cmp(&b.1)));
        let mut chosen: Vec<Job> = Vec::with_capacity(order.len());
        if preemptive {
            let mut quotas = Quotas::new(floor);
            let mut evicted = Vec::new();
            for &(_, job) in &order {
                let slot = self.roster.slot_of(job);
                let fits = quotas.draw(floor, job, slot);
                match (slot, fits) {
                    (None, true) => chosen.push(job),
                    (Some(_), false) => evicted.push(job),
                    _ => {}
                }
            }
            evicted.sort_unstable();
            for job in evicted {
                if let Some(slot) = self.roster.slot_of(job) {
                    floor.stop(slot);
                    self.roster.set_waiting(job);
                }
            }
        } else {
            chosen.extend(order.iter().map(|&(_, job)| job));
        }
        let monotone = floor.placer.is_monotone();
        let mut failed = BTreeSet::new();
        for job in chosen {
            let demand = floor.jobs.demand(job);
            if failed.contains(&demand) {
                continue;
            }
            if floor.place(job) {
                self.begin(floor, job);
            } else if monotone {
                failed.insert(demand);
            }
        }
    }
}

/// Refuses a list that names a job twice.
fn twice(jobs: &[Job], verb: Verb) -> Result<(), Refusal> {
    if jobs.windows(2).all(|pair| pair[0] < pair[1]) {
        return Ok(());
    }
    let mut sorted = jobs.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err((pair[0], verb, "it is named twice".to_owned())),
        None => Ok(()),
    }
}

impl Named for Outside {
    const FACTS: Facts = Facts {
        name: "outside",
        about: "decisions come from outside",
        paper: "",
        knows: &[Feature::Types, Feature::Priorities, Feature::Outages, Feature::Services, Feature::Search],
        is: &[Is::Resizes],
        options: &["preempt-cost", "move-cost", "resize-cost"],
    };
}

impl<S: Speed> Policy<S> for Outside {
    const STOPS: bool = true;
    const OUTSIDE: bool = true;

    fn came(&mut self, _floor: &mut Floor<'_, S>, job: Job, why: Came) {
        self.arrived += usize::from(why == Came::Arrived);
        self.present += 1;
        self.roster.set_waiting(job);
        self.changed = true;
    }

    fn left(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job, why: Left) {
        if why == Left::Lost {
            return self.roster.set_waiting(job);
        }
        self.roster.set_gone(job);
        self.present -= 1;
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn asks(&mut self, floor: &Floor<'_, S>) -> bool {
        if self.arrived == 0 || (self.present == 0 && self.arrived == self.jobs) {
            return false;
        }
        let woken = self.wakes.first().is_some_and(|&bits| f64::from_bits(bits) <= floor.now);
        while self.wakes.first().is_some_and(|&bits| f64::from_bits(bits) <= floor.now) {
            self.wakes.pop_first();
        }
        let wanted = !self.when.waiting_only || self.roster.has_waiting();
        let due = match self.when.interval {
            None => self.changed && wanted,
            Some(interval) => wanted && floor.clock.tick(interval, floor.now, self.last_tick) == floor.now,
        };
        if due || woken {
            self.changed = false;
        }
        if due {
            self.last_tick = floor.now;
        }
        due || woken
    }

    fn wake(&mut self, floor: &Floor<'_, S>, arrived: usize) -> f64 {
        let wake = self.wakes.first().map_or(f64::INFINITY, |&bits| f64::from_bits(bits));
        let wanted = if self.when.waiting_only { self.roster.has_waiting() } else { self.present > 0 };
        let nothing_left = self.present == 0 && arrived == self.jobs;
        match self.when.interval {
            _ if nothing_left => f64::INFINITY,
            Some(interval) if wanted => wake.min(floor.clock.tick(interval, floor.now, self.last_tick)),
            _ => wake,
        }
    }

    fn due(&mut self, _floor: &Floor<'_, S>) -> f64 {
        f64::INFINITY
    }

    fn pass(&mut self, _floor: &mut Floor<'_, S>) {}

    fn is_waiting(&self) -> bool {
        self.roster.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.roster.waiting()
    }
}
