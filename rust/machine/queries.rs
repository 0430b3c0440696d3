//! Answers what a policy may ask about the cluster state: demands, progress, and remaining run times.
//!
//! Invariant: no function here changes which job holds which GPUs. For example, the remaining run time of a job never
//! rises as time passes.

use super::cluster_state::ClusterState;
use super::seats::Leaving;
use super::stays::Stay;
use crate::cluster::FewestServers;
use crate::ids::{GpuType, Job, Slot};
use crate::placement::{Gang, Pools, Probes};
use crate::record::StayRecord;
use crate::speed::Speed;
use crate::trace::Demand;

impl<S: Speed> ClusterState<'_, S> {
    /// Returns this instant in seconds.
    #[inline]
    pub(crate) fn seconds(&self) -> f64 {
        self.clock.seconds(self.now)
    }

    /// Returns the job at place `after` in order of arrival; one that has arrived, where arrivals depend on ends.
    #[inline]
    pub(crate) fn arrival(&self, after: usize) -> Job {
        if let Some(followers) = &self.followers {
            return followers.arrived(after);
        }
        self.arrivals.map_or(Job::at(after), |arrivals| arrivals[after])
    }

    /// Returns a lower bound on the number of jobs that arrive before this one.
    pub(crate) fn arrives_after(&self, job: Job) -> usize {
        if let Some(followers) = &self.followers {
            return followers.arrived_before(self.arrived_at(job));
        }
        let submit = |job: Job| self.jobs.submit[job.index()];
        let before = |other: &Job| submit(*other) < submit(job);
        self.arrivals.map_or(job.index(), |arrivals| arrivals.partition_point(before))
    }

    /// Returns the seconds of progress between two checkpoints of a job.
    pub(super) fn interval_of(&self, job: Job) -> f64 {
        let own = self.jobs.checkpoint_interval.map_or(f64::NAN, |intervals| intervals[job.index()]);
        if own.is_nan() { self.checkpoint_interval } else { own }
    }

    /// Returns the GPUs that a job requests.
    #[inline]
    pub(crate) fn asks(&self, job: Job) -> u32 {
        self.jobs.num_gpus[job.index()]
    }

    /// Returns the GPUs of each pod of a job.
    #[inline]
    pub(crate) fn pod_of(&self, job: Job) -> u32 {
        self.jobs.form(job.index()).pod
    }

    /// Returns what a job asks of a placement if it is to get that many GPUs.
    #[inline]
    pub(super) fn gang(&self, job: Job, num_gpus: u32) -> Gang {
        Gang { num_gpus, form: self.jobs.form(job.index()) }
    }

    /// Returns the units that a job requests: GPUs, or thousandths of one where the table has shares.
    #[inline]
    pub(crate) fn units(&self, job: Job) -> u32 {
        self.jobs.units(job.index())
    }

    /// Returns rho_j, s.
    #[inline]
    pub(crate) fn estimate(&self, job: Job) -> f64 {
        self.speed.estimate(&self.jobs, job)
    }

    /// Returns the run time on the fewest servers without contention, s.
    pub(crate) fn ideal(&self, job: Job) -> f64 {
        let servers = self.few.of(self.asks(job)).unwrap_or(1);
        self.speed.run_time(&self.jobs, job, servers, 1)
    }

    #[inline(always)]
    pub(super) fn progress(&self, job: Job) -> (f64, f64) {
        let j = job.index();
        match &self.progress {
            Some(progress) => (progress.left[j], progress.served[j]),
            None if self.is_done(job) => (0.0, self.out.finish[j] - self.out.start[j]),
            None => (self.speed.work(&self.jobs, job, self.clock.slot), 0.0),
        }
    }

    /// Returns the work left of a job that does not run.
    pub(crate) fn left(&self, job: Job) -> f64 {
        self.progress(job).0
    }

    /// Returns the work left of a job that does not run, in iterations, or in recorded seconds under models that do not
    /// count iterations.
    pub(crate) fn left_at_rest(&self, job: Job) -> f64 {
        if S::COUNTS_ITERATIONS { self.left(job) } else { self.remaining(job) }
    }

    /// Returns the work left of a stay's job now, in the unit of `left_at_rest`.
    pub(crate) fn left_of(&self, stay: &Stay<S::Pace>) -> f64 {
        if S::COUNTS_ITERATIONS { stay.left_at(self.now, self.clock) } else { self.remaining_of(stay) }
    }

    /// Returns the most work per second that a stay can do, in iterations or recorded seconds, as `left_of`.
    pub(crate) fn fastest_of(&self, stay: &Stay<S::Pace>) -> f64 {
        1.0 / self.speed.unit(&stay.pace, stay.parts.len() as u32, 1)
    }

    /// Returns whether any job holds GPUs.
    pub(crate) fn is_busy(&self) -> bool {
        self.free.len() < self.stays.len()
    }

    /// Returns the number of jobs that are done, refused or ended.
    pub(crate) fn gone(&self) -> usize {
        self.gone
    }

    /// Returns whether nothing is left to do.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.gone == self.jobs.len() && !(self.services.is_some() && self.has_requests())
    }

    /// Returns when the next outage begins or ends, or a service wants or gives up replicas. `run` decides whether that
    /// matters.
    #[inline(never)]
    pub(super) fn next_change(&self) -> f64 {
        let service = self.services.as_ref().map_or(f64::INFINITY, |services| services.next_at());
        service.min(self.next_outage())
    }

    pub(super) fn next_outage(&self) -> f64 {
        self.outages.as_ref().map_or(f64::INFINITY, |outages| outages.next_at())
    }

    /// Returns the pace of a job on the GPUs that it requests, of the type on which it was recorded.
    #[inline(always)]
    fn recorded_pace(&self, job: Job) -> S::Pace {
        self.speed.pace(&self.jobs, job, self.asks(job), GpuType::NONE)
    }

    /// Returns the time of a unit of a job's work on the GPUs that it requests, on one server without contention, s.
    pub(super) fn alone(&self, job: Job) -> f64 {
        self.speed.unit(&self.recorded_pace(job), 1, 0)
    }

    /// Returns the remaining run time of a job that does not run, on one server without contention, s.
    pub(crate) fn remaining(&self, job: Job) -> f64 {
        self.speed.remaining(&self.jobs, job, self.progress(job).0, self.alone(job), self.clock.slot)
    }

    /// Returns the remaining run time of a stay's job now, s; it never rises as time passes.
    pub(crate) fn remaining_of(&self, stay: &Stay<S::Pace>) -> f64 {
        let left = stay.left_at(self.now, self.clock);
        self.speed.remaining(&self.jobs, stay.job, left, stay.alone, self.clock.slot)
    }

    /// Returns the time of a unit of a job's work on the fewest servers without contention, s.
    pub(crate) fn seconds_per_work_at_best(&self, job: Job) -> f64 {
        self.speed.unit(&self.recorded_pace(job), self.few.of(self.asks(job)).unwrap_or(1), 1)
    }

    /// Returns how many times as long a job takes on GPUs of a type as on the type on which it was recorded, each on
    /// the fewest servers without contention. `few`: the fewest servers of that type.
    pub(crate) fn ratio_on(&self, job: Job, gpu_type: GpuType, few: &FewestServers) -> f64 {
        let num_gpus = self.asks(job);
        let pace = self.speed.pace(&self.jobs, job, num_gpus, gpu_type);
        let (unit, recorded) =
            (self.speed.unit(&pace, few.of(num_gpus).unwrap_or(1), 1), self.seconds_per_work_at_best(job));
        if recorded.is_finite() { unit / recorded } else { 1.0 }
    }

    /// Returns the remaining run time of a job that does not run, s, where a unit of its work takes `unit`.
    pub(crate) fn left_at_best(&self, job: Job, unit: f64) -> f64 {
        self.speed.remaining(&self.jobs, job, self.progress(job).0, unit, self.clock.slot)
    }

    /// Returns the same for a stay's job now, without the rest of its pause.
    pub(crate) fn left_at_best_of(&self, stay: &Stay<S::Pace>, unit: f64) -> f64 {
        let left = stay.left_at(self.now, self.clock);
        self.speed.remaining(&self.jobs, stay.job, left, unit, self.clock.slot)
    }

    /// Returns the seconds that a stay's job still pauses.
    pub(crate) fn pause_left_of(&self, stay: &Stay<S::Pace>) -> f64 {
        self.clock.seconds(f64::max(0.0, stay.from - self.now))
    }

    /// Returns the seconds that a resumed job holds its GPUs without progress.
    pub(crate) fn pause_seconds(&self) -> f64 {
        self.clock.seconds(self.clock.pause(self.pauses.resumed, S::USES_REST_OF_SLOT).length())
    }

    /// Returns the attained service of a job that does not run, GPU-seconds.
    pub(crate) fn attained(&self, job: Job) -> f64 {
        self.jobs.gpus(job.index()) * self.clock.seconds(self.progress(job).1)
    }

    /// Returns the attained service of a stay's job now, GPU-seconds. Holding GPUs counts as service, with or without
    /// progress.
    pub(crate) fn attained_of(&self, stay: &Stay<S::Pace>) -> f64 {
        let held = self.progress(stay.job).1 + self.share_of(stay) * (self.now - stay.start);
        self.jobs.gpus(stay.job.index()) * self.clock.seconds(held)
    }

    /// Returns the GPUs that a stay holds, as a share of those that its job requests.
    pub(super) fn share_of(&self, stay: &Stay<S::Pace>) -> f64 {
        if self.jobs.range.is_none() {
            return 1.0;
        }
        f64::from(stay.gpus()) / f64::from(self.asks(stay.job))
    }

    /// Returns when the attained service of a stay's job reaches `service` GPU-seconds, up to rounding (machine time).
    pub(crate) fn attains_at(&self, stay: &Stay<S::Pace>, service: f64) -> f64 {
        let held = service / self.jobs.gpus(stay.job.index()) / self.clock.slot.unwrap_or(1.0);
        stay.start + (held - self.progress(stay.job).1)
    }

    /// Returns the stays that are over, in order of their ends, including those that were taken back.
    pub(crate) fn records(&self) -> &[StayRecord] {
        &self.out.stay_log.records
    }

    /// Returns whether any job has made progress after that instant, or runs towards its time limit.
    pub(super) fn has_progressed(&self, since: f64) -> bool {
        let runs = |stay: &Stay<S::Pace>| stay.is_live() && stay.from < self.now && !self.stalls(stay);
        self.advanced_to > since || (self.now > since && self.stays.iter().any(runs))
    }

    /// Returns whether a job is done.
    pub(crate) fn is_done(&self, job: Job) -> bool {
        !self.out.finish[job.index()].is_nan()
    }

    /// Returns whether an outage, an eviction or a rung ever ended a stay of a job.
    #[inline]
    pub(crate) fn was_interrupted(&self, job: Job) -> bool {
        self.progress.is_some() && self.out.start[job.index()] < self.now
    }

    /// Returns whether a verb ended a job before it was done.
    pub(crate) fn is_ended(&self, job: Job) -> bool {
        self.out.ended.get(job.index()).is_some_and(|&ended| ended)
    }

    /// Returns whether a job was refused.
    pub(crate) fn is_refused(&self, job: Job) -> bool {
        self.out.refused.get(job.index()).is_some_and(|&refused| refused)
    }

    /// Returns whether a job has run, or runs.
    pub(crate) fn has_run(&self, job: Job) -> bool {
        !self.out.start[job.index()].is_nan()
    }

    /// Returns whether a job could be placed on those idle GPUs, on any type that it may use, with the present U.
    pub(crate) fn fits(&mut self, probes: &Probes, job: Job) -> bool {
        let gang = self.gang(job, self.asks(job));
        let jobs = self.jobs;
        jobs.tried(job).iter().any(|&(gpu_type, _)| self.placer.fits(&mut self.cluster, probes, gpu_type, gang))
    }

    /// Places a job on the idle GPUs of `pools`, with their U. The grant then holds them, and no random number is used
    /// up.
    pub(crate) fn place_in(&mut self, pools: &mut Pools, job: Job) -> bool {
        let (jobs, rng) = (self.jobs, self.placer.rng());
        let claim = self.claim(job, self.asks(job));
        let Self { placer, grant, .. } = self;
        let placed = jobs.tried(job).iter().any(|&(gpu_type, _)| pools.place_by(placer, gpu_type, &claim, grant));
        self.placer.set_rng(rng);
        placed
    }

    /// Returns whether a job of a demand could be placed now. Jobs hold whole GPUs.
    pub(crate) fn can_place(&mut self, demand: Demand) -> bool {
        let (jobs, num_gpus) = (self.jobs, demand.units());
        let gang = Gang { num_gpus, form: jobs.form_of(demand) };
        jobs.tried_by(demand).iter().any(|&(gpu_type, _)| {
            let pool = self.cluster.of_mut(gpu_type);
            u64::from(num_gpus) <= pool.total_idle && self.placer.can_place(pool, gang)
        })
    }

    /// Returns the earliest of the given ends, in order, at which a job could be placed if no other job started. The
    /// probes then hold the idle GPUs of that time. `ends`: (estimated end's bits, slot).
    pub(crate) fn shadow_time(
        &mut self,
        probes: &mut Probes,
        ends: impl Iterator<Item = (u64, Slot)>,
        job: Job,
    ) -> f64 {
        probes.copy(&self.cluster);
        let (mut ends, mut leaving) = (ends.peekable(), Leaving::default());
        while let Some((end, slot)) = ends.next() {
            let stay = &self.stays[slot.index()];
            if leaving.leave(self.seats.as_deref(), stay.seat) {
                probes.give(&self.cluster, &self.coming_free(&stay.parts));
            }
            if ends.peek().is_none_or(|next| next.0 != end) && self.fits(probes, job) {
                return f64::from_bits(end);
            }
        }
        f64::INFINITY
    }
}
