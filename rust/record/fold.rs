//! Adds up the stays of each job.
//!
//! Invariant: the sums run over a job's stays in order of time, in machine time. Times are converted afterwards. For
//! example, a job with stays of 50 and 60 s, the second with a pause of 30 s, held GPUs for 110 s, 30 of them paused.

use super::{StayRecord, SumsByJob, Why};
use crate::cluster::FewestServers;
use crate::ids::{GpuType, Job};
use crate::speed::Speed;
use crate::trace::Jobs;

/// Sums over the stays of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Time on GPUs. `paused` is the part without progress, at the start of stays and in checkpoints. Machine time,
    /// later s.
    pub held: f64,
    /// See `held`.
    pub paused: f64,
    /// `held` times GPUs.
    pub held_gpus: f64,
    /// `paused` times GPUs.
    pub paused_gpus: f64,
    /// Time as a guest times GPUs: others held these GPUs already.
    pub guest_gpus: f64,
    /// Progress lost at the ends of stays, s.
    pub lost_time: f64,
    /// Added run time from spanning more than the fewest servers, without contention, s.
    pub spread: f64,
    /// Added run time from holding other GPUs than requested, s; negative if they were more.
    pub resized: f64,
    /// Added run time from GPU types other than the recorded one, s; negative on faster ones.
    pub on_types: f64,
    /// Run time of the work left undone at its time limit, as if alone, s; zero or negative, since it was not spent.
    pub cut: f64,
    /// Time off its GPUs between submission and the last stay, s, without time at rungs.
    pub waiting: f64,
    /// The part of `waiting` in which it could have been placed, s.
    pub behind: f64,
    /// The parts of `waiting` with too few idle GPUs, and with enough that could not be used, s.
    pub waited: (f64, f64),
    /// Time at rungs before a stay, s.
    pub rested: f64,
    /// Stays by end reason: places of [`super::ENDED`].
    pub ended: [u32; super::ENDED.len()],
}

impl Sums {
    /// Returns the number of stays that ended in one of these ways, given by [`Ends::of`].
    #[must_use]
    pub fn count(&self, ends: Ends) -> u32 {
        self.ended.iter().zip(ends.0).map(|(count, counts)| count & counts).sum()
    }
}

/// A set of end reasons: all bits set at their places of [`super::ENDED`].
#[derive(Clone, Copy, Debug)]
pub struct Ends([u32; super::ENDED.len()]);

impl Ends {
    /// Returns the end reasons of these names.
    #[must_use]
    pub fn of(names: &[&str]) -> Self {
        Self(super::ENDED.map(|name| if names.contains(&name) { u32::MAX } else { 0 }))
    }
}

/// Computes the time of a unit of work on given GPUs, s.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale<'a, S> {
    pub(crate) jobs: &'a Jobs<'a>,
    pub(crate) few: &'a FewestServers,
    pub(crate) speed: &'a S,
    pub(crate) slot: Option<f64>,
}

impl<S: Speed> Scale<'_, S> {
    /// Returns the time of a unit without contention, on that many GPUs of a type and that many servers, s.
    fn unit(&self, job: Job, gpus: u32, gpu_type: GpuType, servers: u32) -> f64 {
        self.speed.unit(&self.speed.pace(self.jobs, job, gpus, gpu_type), servers, 1)
    }

    fn fewest(&self, gpus: u32) -> u32 {
        self.few.of(gpus).unwrap_or(1)
    }

    /// Returns the seconds of a unit of work where it counts slots.
    fn seconds(&self) -> f64 {
        if S::COUNTS_ITERATIONS { 1.0 } else { self.slot.unwrap_or(1.0) }
    }

    /// Returns the time of `work` of a job on the GPUs that it requests, of the type on which it was recorded, s.
    fn alone(&self, job: Job, work: f64) -> f64 {
        let asks = self.jobs.num_gpus[job.index()];
        work * self.unit(job, asks, GpuType::NONE, self.fewest(asks)) * self.seconds()
    }

    /// Returns the added time of `work` of a job on a type compared with the type on which it was recorded, s.
    fn on_type(&self, job: Job, gpu_type: GpuType, work: f64) -> f64 {
        let asks = self.jobs.num_gpus[job.index()];
        let servers = self.fewest(asks);
        let alone = |gpu_type| self.unit(job, asks, gpu_type, servers);
        work * (alone(gpu_type) - alone(GpuType::NONE)) * self.seconds()
    }

    fn add(&self, sums: &mut Sums, records: &StayRecord) {
        let (job, gpus) = (records.job, records.num_gpus);
        let asks = self.jobs.num_gpus[job.index()];
        let (held, paused) =
            (records.end - records.start, records.end.min(records.from) - records.start + records.saving);
        sums.held += held;
        sums.paused += paused;
        let units = if self.jobs.share_of(job.index()) == 0 { f64::from(gpus) } else { self.jobs.gpus(job.index()) };
        sums.held_gpus += units * held;
        sums.paused_gpus += units * paused;
        sums.guest_gpus += units * records.guest;
        sums.lost_time += records.lost_time;
        sums.waited.0 += records.waited.0;
        sums.waited.1 += records.waited.1;
        sums.ended[records.why.code() as usize] += 1;
        if records.num_servers > 1 {
            let alone = |servers, bandwidth| {
                let mut pace = self.speed.pace(self.jobs, job, gpus, records.gpu_type);
                self.speed.feel(&mut pace, bandwidth);
                self.speed.unit(&pace, servers, 1)
            };
            let own = alone(records.num_servers, records.bandwidth);
            sums.spread += records.kept * (own - alone(self.fewest(gpus), 0.0));
        }
        if gpus != asks {
            let alone = |gpus| self.unit(job, gpus, records.gpu_type, self.fewest(gpus));
            sums.resized += records.kept * (alone(gpus) - alone(asks)) * self.seconds();
        }
        if records.gpu_type != GpuType::NONE {
            sums.on_types += self.on_type(job, records.gpu_type, records.kept);
        }
    }
}

/// The record of a cluster's run: the input and the results of `fold`.
#[derive(Clone, Debug, Default)]
pub(crate) struct StayLog {
    /// Stays that are over, in order of their ends.
    pub(crate) records: Vec<StayRecord>,
    /// By job, the type of its only stay; empty where GPUs do not differ. Read for jobs without a row in `records`.
    pub(crate) types: Vec<GpuType>,
    /// By job, the sums of its stays. Empty before `fold`, and where stays are not kept.
    pub(crate) sums: SumsByJob,
    /// When a job last took the GPUs of another (machine time).
    pub(crate) evicted_at: f64,
    /// Who took GPUs of others and gave them up at that instant, and did not start again in it.
    pub(crate) given_up: Vec<(f64, Job)>,
    /// By job, the added run time from GPU types other than the recorded one, s. Empty before `fold`, and where GPUs do
    /// not differ.
    pub(crate) on_types: Vec<f64>,
}

impl StayLog {
    /// Returns the latest stay of a job. A row without GPUs only reports that the job lost at once what it was given.
    pub(crate) fn latest(&mut self, job: Job) -> Option<&mut StayRecord> {
        self.records
            .iter_mut()
            .rev()
            .find(|records| records.job == job && records.num_gpus > 0 && records.why != Why::Void)
    }

    /// Corrects the end reason of stays evicted at this instant for a job that at once gives the GPUs up.
    pub(crate) fn readdress(&mut self, evictor: Job, why: Why, now: f64) {
        if self.evicted_at != now {
            return;
        }
        let ended_now = self.records.iter_mut().rev().take_while(|records| records.end == now);
        ended_now.filter(|records| records.why == Why::EvictedBy(evictor)).for_each(|records| records.why = why);
    }

    /// Notes that a job gives up what it took at this instant: unless it starts again at once, nobody was evicted for it.
    pub(crate) fn note_given_up(&mut self, evictor: Job, now: f64) {
        if self.evicted_at == now {
            self.given_up.push((now, evictor));
        }
    }

    /// Notes that a job starts.
    pub(crate) fn note_start(&mut self, job: Job, now: f64) {
        if self.evicted_at == now {
            self.given_up.retain(|&given_up| given_up != (now, job));
        }
    }

    /// Says of the stays evicted for jobs that gave the GPUs up that they were preempted.
    fn readdress_given_up(&mut self) {
        for (at, evictor) in std::mem::take(&mut self.given_up) {
            let from = self.records.partition_point(|records| records.end < at);
            let ended_then = self.records[from..].iter_mut().take_while(|records| records.end == at);
            ended_then
                .filter(|records| records.why == Why::EvictedBy(evictor))
                .for_each(|records| records.why = Why::Preempted);
        }
    }

    /// Adds up the stays of every job. `start`, `finish`: by job, the times of its single stay if `records` has none.
    /// `left`: the work that each leaves undone, where stays are kept; otherwise every job has a single stay.
    pub(crate) fn fold<S: Speed>(&mut self, scale: &Scale<'_, S>, start: &[f64], finish: &[f64], left: Option<&[f64]>) {
        self.readdress_given_up();
        let once = |job: usize| match self.types.get(job) {
            Some(&gpu_type) if gpu_type != GpuType::NONE => {
                let job = Job::at(job);
                scale.on_type(job, gpu_type, scale.speed.work(scale.jobs, job, scale.slot))
            }
            _ => 0.0,
        };
        let Some(left) = left else {
            self.on_types = (0..self.types.len()).map(once).collect();
            return;
        };
        self.records.retain(StayRecord::counts);
        let mut all = SumsByJob::without_stays(start.len(), Sums::default());
        for records in &self.records {
            let sums = all.add_to(records.job.index());
            scale.add(sums, records);
            if records.why == Why::Limit {
                sums.cut = -scale.alone(records.job, left[records.job.index()]);
            }
        }
        self.on_types = vec![0.0; self.types.len()];
        for j in 0..start.len() {
            let through = !all.has_run(j) && !finish[j].is_nan();
            if let Some(on_types) = self.on_types.get_mut(j) {
                *on_types = if through { once(j) } else { all.of(j).on_types };
            }
            if through {
                all.run_through(j, finish[j] - start[j], scale.jobs.gpus(j));
            }
        }
        self.sums = all;
    }

    /// Converts clock time to seconds.
    pub(crate) fn convert_times(&mut self, seconds: impl Fn(f64) -> f64) {
        for records in &mut self.records {
            for time in
                [&mut records.start, &mut records.from, &mut records.end, &mut records.saving, &mut records.woke]
            {
                *time = seconds(*time);
            }
            records.guest = seconds(records.guest);
        }
        self.sums.convert_times(seconds);
    }
}
