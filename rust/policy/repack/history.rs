//! The policy that knows no run time: predictions, who waits in their order, and whether evicting is worth it.
//!
//! Invariant: waiting jobs are kept by class, that is by group and bin of progress. All of a class have one key. So a
//! walk merges classes, each in order of submission. For example, a thousand jobs of one GPU that never ran are one
//! class where nobody is named.

use super::foresight::Foresight;
use super::predictor::Predictor;
use super::trial;
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// (group, bin of progress) of jobs that are predicted alike.
type Class = (u32, u16);

/// What is predicted.
#[derive(Clone, Debug)]
pub(in crate::policy) struct History<'a> {
    setting: Setting<'a>,
    predictor: Predictor,
    /// By job: its group, its whole run time, s, and what a unit of its work takes, s, on the fewest servers.
    group: Vec<u32>,
    whole: Vec<f64>,
    unit: Vec<f64>,
    /// The bin of a waiting job's progress.
    bin: Vec<u16>,
    line: BTreeMap<Class, BTreeSet<Job>>,
    num_waiting: usize,
    /// (key's bits, job, class): the next job of each class in the walk; keys are not negative.
    heads: BinaryHeap<Reverse<(u64, Job, Class)>>,
    /// What the walk gave last.
    given: Option<(u64, Job)>,
    evicts: bool,
    /// How many have arrived and are done.
    arrived: usize,
    completed: usize,
    /// Completed jobs, and seconds, at which the next trial is due; never in a trial.
    trial_at: Option<(usize, f64)>,
}

impl<'a> History<'a> {
    pub(in crate::policy) fn new(setting: &Setting<'a>) -> Self {
        let jobs = setting.jobs.len();
        Self {
            setting: *setting,
            predictor: Predictor::new(setting.user.is_some()),
            group: vec![0; jobs],
            whole: vec![0.0; jobs],
            unit: vec![0.0; jobs],
            bin: vec![0; jobs],
            line: BTreeMap::new(),
            num_waiting: 0,
            heads: BinaryHeap::new(),
            given: None,
            evicts: true,
            arrived: 0,
            completed: 0,
            trial_at: Some((trial::LEAST, f64::NEG_INFINITY)),
        }
    }

    /// As `new`, in a trial.
    pub(super) fn in_trial(setting: &Setting<'a>, evicts: bool) -> Self {
        Self { evicts, trial_at: None, ..Self::new(setting) }
    }

    fn bin_of(&self, job: Job, left: f64) -> u16 {
        self.predictor.bin(f64::max(0.0, self.whole[job.index()] - left))
    }

    fn push_head(&mut self, class: Class, job: Job) {
        let key = f64::from(self.setting.jobs.num_gpus[job.index()]) * self.predictor.left(class.0, class.1);
        self.heads.push(Reverse((key.to_bits(), job, class)));
    }

    /// Learns by a trial whether evicting is worth it, if one is due.
    fn try_evicting<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        let now = floor.seconds();
        if !self.trial_at.is_some_and(|(jobs, time)| self.completed >= jobs && now >= time) {
            return;
        }
        self.trial_at = Some(trial::after(self.completed, now));
        let first = self.arrived.saturating_sub(trial::RECENT);
        let jobs = (first..self.arrived).map(Job::at);
        let mut left: Vec<f64> = jobs.clone().map(|job| floor.left_at_best(job, self.unit[job.index()])).collect();
        for stay in floor.stays.iter().filter(|stay| stay.is_live() && stay.job.index() >= first) {
            left[stay.job.index() - first] = floor.left_at_best_of(stay, self.unit[stay.job.index()]);
        }
        let seconds = jobs.clone().zip(left).map(|(job, left)| {
            let whole = self.whole[job.index()];
            if floor.is_done(job) { whole } else { 2.0 * f64::max(0.0, whole - left) }
        });
        let recent: Vec<(Job, f64)> = jobs.zip(seconds).filter(|&(_, seconds)| seconds > 0.0).collect();
        if trial::is_better(&self.setting, &recent, self.evicts) {
            self.evicts = !self.evicts;
        }
    }
}

impl Foresight for History<'_> {
    fn arrived<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        let j = job.index();
        self.unit[j] = floor.unit_at_best(job);
        self.whole[j] = floor.left_at_best(job, self.unit[j]);
        self.group[j] = self.predictor.group(floor.asks(job), self.setting.user.map_or(0, |user| user[j]));
        self.arrived = j + 1;
    }

    fn completed(&mut self, job: Job) {
        self.completed += 1;
        self.predictor.completed(self.group[job.index()], self.whole[job.index()]);
    }

    fn left_of<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        let left = floor.left_at_best_of(stay, self.unit[stay.job.index()]);
        self.predictor.left(self.group[stay.job.index()], self.bin_of(stay.job, left))
    }

    fn evicts(&self) -> bool {
        self.evicts
    }

    fn join<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        let bin = self.bin_of(job, floor.left_at_best(job, self.unit[job.index()]));
        self.bin[job.index()] = bin;
        let class = (self.group[job.index()], bin);
        self.line.entry(class).or_default().insert(job);
        self.num_waiting += 1;
        self.push_head(class, job);
    }

    fn leave(&mut self, job: Job) {
        let class = (self.group[job.index()], self.bin[job.index()]);
        if let Some(jobs) = self.line.get_mut(&class) {
            jobs.remove(&job);
            if jobs.is_empty() {
                self.line.remove(&class);
            }
        }
        self.num_waiting -= 1;
    }

    fn begin_walk<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        self.try_evicting(floor);
        self.predictor.renew();
        self.heads.clear();
        self.given = None;
        let firsts = self.line.iter().filter_map(|(&class, jobs)| Some((class, *jobs.first()?)));
        for (class, job) in firsts.collect::<Vec<_>>() {
            self.push_head(class, job);
        }
    }

    fn next(&mut self) -> Option<(Job, f64)> {
        loop {
            let Reverse((key, job, class)) = self.heads.pop()?;
            if self.given == Some((key, job)) {
                continue; // it joined during the walk, and its class came to it as well
            }
            self.given = Some((key, job));
            let after = Job::at(job.index() + 1);
            if let Some(&next) = self.line.get(&class).and_then(|jobs| jobs.range(after..).next()) {
                self.heads.push(Reverse((key, next, class)));
            }
            return Some((job, self.predictor.left(class.0, class.1)));
        }
    }

    fn waiting(&self) -> impl Iterator<Item = Job> + '_ {
        self.line.values().flatten().copied()
    }

    fn num_waiting(&self) -> usize {
        self.num_waiting
    }
}
