//! Predicts run times from completed jobs and keeps the waiting jobs in that order, for the policy that is not told
//! run times.
//!
//! Invariant: waiting jobs are kept by class, that is by group and bin of progress, and all of a class have one key.
//! A running job's prediction is constant until its progress reaches the next bin, or until the history changes. For
//! example, a thousand jobs of one GPU that never ran are one class where users are not named.

use super::class_queues::{Class, ClassQueues};
use super::predictor::Predictor;
use super::ratios::Ratios;
use super::run_times::{RunTimes, key};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::Predict;
use crate::setting::Setting;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// A job's next bin is looked for this share of the time early, since times are rounded.
const SLACK: f64 = 1e-9;

/// The predictions.
#[derive(Clone, Debug)]
pub(in crate::policy) struct PredictedRunTimes<'a> {
    user: Option<&'a [u32]>,
    predictor: Predictor,
    /// The predictions of a column, where the run has one.
    ratios: Option<Box<Ratios<'a>>>,
    /// By job: its group, its whole run time, s, and what a unit of its work takes, s, on the fewest servers.
    group: Vec<u32>,
    whole_run_time: Vec<f64>,
    seconds_per_work: Vec<f64>,
    queues: ClassQueues,
    /// Units of a GPU: 1, or 1,000 where jobs may hold shares.
    units_per_gpu: f64,
    /// The class of a waiting job: its group, and the bin of its progress.
    class: Vec<Class>,
    /// Where users are named: running jobs by group, and groups whose user's latest jobs have changed.
    running: BTreeMap<u32, BTreeSet<Job>>,
    stale: Vec<u32>,
    /// (bits of a time, s, job, term): before that time the job's progress does not reach the next bin. Terms tell a
    /// job's present entry from older ones.
    edges: BinaryHeap<Reverse<(u64, Job, u32)>>,
    term: Vec<u32>,
}

impl<'a> PredictedRunTimes<'a> {
    pub(in crate::policy) fn new(setting: &Setting<'a>, queues: ClassQueues) -> Self {
        let (jobs, users) = (setting.jobs.len(), setting.user.is_some());
        let predicted = setting.predicted.filter(|_| setting.options.predict == Predict::Column);
        Self {
            user: setting.user,
            predictor: Predictor::new(users),
            ratios: predicted.map(|predicted| Box::new(Ratios::new(predicted, users))),
            group: vec![0; jobs],
            whole_run_time: vec![0.0; jobs],
            seconds_per_work: vec![0.0; jobs],
            queues,
            units_per_gpu: setting.jobs.units_per_gpu() as f64,
            class: vec![(0, 0); jobs],
            running: BTreeMap::new(),
            stale: Vec::new(),
            edges: BinaryHeap::new(),
            term: vec![0; jobs],
        }
    }

    /// Records when a running job may reach the next bin.
    fn expect_edge<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) {
        let progress = self.reference_time_running(state, stay);
        let by_ratio = self.ratios.as_ref().and_then(|ratios| ratios.next_edge(stay.job, progress));
        let more = by_ratio.unwrap_or_else(|| self.predictor.next_edge(progress)) - progress;
        let time = state.seconds() + state.pause_left_of(stay) + more;
        self.term[stay.job.index()] += 1;
        self.edges.push(Reverse((time.to_bits(), stay.job, self.term[stay.job.index()])));
    }

    /// Returns the run time left of a job with that progress, s.
    fn left_after(&mut self, job: Job, progress: f64) -> f64 {
        let group = self.group[job.index()];
        let by_ratio = self.ratios.as_mut().and_then(|ratios| ratios.left_of(job, group, progress));
        by_ratio.unwrap_or_else(|| self.predictor.left((group, self.predictor.bin(progress))))
    }

    /// Adds a waiting job by its own prediction.
    #[cold]
    fn join_by_ratio<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let (j, units) = (job.index(), state.units(job));
        let left = self.left_after(job, self.reference_time_waiting(state, job));
        let (class, own) = ((units, 0), self.key(units, left));
        self.queues.insert(class, units, 0, (own, job));
        if let Some(ratios) = &mut self.ratios {
            (ratios.class[j], ratios.own[j], ratios.left[j]) = (class, own, left);
            ratios.waiting.entry(self.group[j]).or_default().insert(job);
        }
    }

    /// Gives the waiting jobs of the groups whose predictions changed, or of all, new keys.
    #[cold]
    fn renew_by_ratio<S: Speed>(&mut self, state: &ClusterState<'_, S>, all: bool) {
        let Some(ratios) = &self.ratios else { return };
        let of = |group: &u32| ratios.waiting.get(group).into_iter().flatten().copied();
        let jobs: Vec<Job> = match all {
            true => ratios.waiting.values().flatten().copied().collect(),
            false => self.stale.iter().flat_map(of).collect(),
        };
        for job in jobs {
            self.leave(job);
            self.join(state, job);
        }
    }
}

impl RunTimes for PredictedRunTimes<'_> {
    const FALLS: bool = false;

    fn arrived<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let j = job.index();
        self.seconds_per_work[j] = state.seconds_per_work_at_best(job);
        self.whole_run_time[j] = state.left_at_best(job, self.seconds_per_work[j]);
        let (units, user) = (state.units(job), self.user.map_or(0, |user| user[j]));
        self.group[j] = self.predictor.group(units, user);
        if let Some(ratios) = &mut self.ratios {
            ratios.group(units, user);
        }
    }

    fn completed(&mut self, job: Job) {
        let group = self.group[job.index()];
        self.predictor.completed(group, self.whole_run_time[job.index()]);
        if let Some(ratios) = &mut self.ratios {
            ratios.completed(job, group, self.whole_run_time[job.index()]);
        }
        if self.user.is_some() {
            self.stale.push(group);
        }
    }

    fn started<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) {
        if self.user.is_some() {
            self.running.entry(self.group[stay.job.index()]).or_default().insert(stay.job);
        }
        self.expect_edge(state, stay);
    }

    fn stopped(&mut self, job: Job) {
        self.term[job.index()] += 1;
        if let Some(running) = self.running.get_mut(&self.group[job.index()]) {
            running.remove(&job);
        }
    }

    fn begin<S: Speed>(&mut self, state: &ClusterState<'_, S>, changed: &mut Vec<Job>) -> bool {
        let by_ratio = self.ratios.as_mut().is_some_and(|ratios| ratios.refresh());
        let (is_new, units_per_gpu) = (self.predictor.refresh() | by_ratio, self.units_per_gpu);
        if self.ratios.is_some() {
            self.stale.sort_unstable();
            self.stale.dedup();
            for group in &self.stale {
                changed.extend(self.running.get(group).into_iter().flatten());
            }
            self.renew_by_ratio(state, is_new);
        } else if is_new {
            self.queues.renew(.., |class, units| key(f64::from(units) / units_per_gpu, self.predictor.left(class)));
        } else {
            self.stale.sort_unstable();
            self.stale.dedup();
            for &group in &self.stale {
                changed.extend(self.running.get(&group).into_iter().flatten());
                let classes = (group, 0)..=(group, u32::MAX);
                self.queues
                    .renew(classes, |class, units| key(f64::from(units) / units_per_gpu, self.predictor.left(class)));
            }
        }
        self.stale.clear();
        let now = state.seconds();
        let now = now + SLACK * f64::max(1.0, now);
        while let Some(&Reverse((time, job, term))) = self.edges.peek()
            && f64::from_bits(time) <= now
        {
            self.edges.pop();
            if self.term[job.index()] == term {
                changed.push(job);
            }
        }
        is_new
    }

    fn reference_time_waiting<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        f64::max(0.0, self.whole_run_time[job.index()] - state.left_at_best(job, self.seconds_per_work[job.index()]))
    }

    fn reference_time_running<S: Speed>(&self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        f64::max(
            0.0,
            self.whole_run_time[stay.job.index()]
                - state.left_at_best_of(stay, self.seconds_per_work[stay.job.index()]),
        )
    }

    fn remaining_running<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.left_after(stay.job, self.reference_time_running(state, stay))
    }

    fn counted_gpus(&self, units: u32) -> f64 {
        f64::from(units) / self.units_per_gpu
    }

    fn remaining_waiting(&mut self, job: Job) -> f64 {
        if let Some(ratios) = &self.ratios {
            return ratios.left[job.index()];
        }
        self.predictor.left(self.class[job.index()])
    }

    fn join<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        if self.ratios.is_some() {
            return self.join_by_ratio(state, job);
        }
        let class = (self.group[job.index()], self.predictor.bin(self.reference_time_waiting(state, job)));
        self.class[job.index()] = class;
        let units = state.units(job);
        let left = self.predictor.left(class);
        let key = self.key(units, left);
        self.queues.insert(class, units, key, (0, job));
    }

    fn leave(&mut self, job: Job) {
        let j = job.index();
        if let Some(ratios) = &mut self.ratios {
            self.queues.remove(ratios.class[j], (ratios.own[j], job));
            if let Some(waiting) = ratios.waiting.get_mut(&self.group[j]) {
                waiting.remove(&job);
            }
            return;
        }
        self.queues.remove(self.class[j], (0, job));
    }

    fn queues(&self) -> &ClassQueues {
        &self.queues
    }

    fn queues_mut(&mut self) -> &mut ClassQueues {
        &mut self.queues
    }
}
