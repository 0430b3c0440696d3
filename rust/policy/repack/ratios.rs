//! Predicts run times from a column of predictions, by what their ratios to the run times of completed jobs were
//! (docs/repack-reference.md#predictions-in-a-column).
//!
//! Ratios are counted in the bins of run times, as if each job was predicted to run for `UNIT` seconds. Invariant: the
//! column is used only while the bins of ratios spread less than those of the same jobs' run times. For example, a
//! column of shuffled predictions never is, since its ratios spread more.
//!
//! Jobs of one group differ in their predictions, so each waiting job has its own key.

use super::class_queues::Class;
use super::predictor::Predictor;
use crate::ids::Job;
use std::collections::{BTreeMap, BTreeSet};

/// The prediction to which all are scaled, s: the bins reach from a ten-thousandth of a prediction to 49,000 of them.
const UNIT: f64 = 10_000.0;

/// The column is not used before so many jobs with a prediction are done.
const FEWEST: u64 = 20;

/// The spread of numbers: how many they are, their sum, and that of their squares.
#[derive(Clone, Copy, Debug, Default)]
struct Spread {
    count: u64,
    sum: u64,
    squares: u64,
}

impl Spread {
    fn add(&mut self, number: u32) {
        let number = u64::from(number);
        self.count += 1;
        self.sum += number;
        self.squares += number * number;
    }

    /// Returns the variance times the square of the count.
    fn width(self) -> u128 {
        u128::from(self.count) * u128::from(self.squares) - u128::from(self.sum) * u128::from(self.sum)
    }
}

/// The predictions of a column, and what they were worth.
#[derive(Clone, Debug)]
pub(super) struct Ratios<'a> {
    predicted: &'a [f64],
    /// Predicts ratios, in `UNIT`s.
    predictor: Predictor,
    /// The spread of completed jobs' run times and ratios, and whether the column was worth using at the latest refresh.
    times: Spread,
    ratios: Spread,
    is_used: bool,
    /// Of a waiting job: its class, the bits of its key, and its run time left, s.
    pub(super) class: Vec<Class>,
    pub(super) own: Vec<u64>,
    pub(super) left: Vec<f64>,
    /// Waiting jobs by group.
    pub(super) waiting: BTreeMap<u32, BTreeSet<Job>>,
}

impl<'a> Ratios<'a> {
    /// predicted: by job, s; NaN or <= 0 for none. users: whether users are named.
    pub(super) fn new(predicted: &'a [f64], users: bool) -> Self {
        let jobs = predicted.len();
        Self {
            predicted,
            predictor: Predictor::new(users),
            times: Spread::default(),
            ratios: Spread::default(),
            is_used: false,
            class: vec![(0, 0); jobs],
            own: vec![0; jobs],
            left: vec![0.0; jobs],
            waiting: BTreeMap::new(),
        }
    }

    /// Records a user and a size. Groups have the numbers that the predictor of run times gives them.
    pub(super) fn group(&mut self, units: u32, user: u32) {
        self.predictor.group(units, user);
    }

    /// Records that a job of a group is done. It ran `seconds`.
    pub(super) fn completed(&mut self, job: Job, group: u32, seconds: f64) {
        let predicted = self.predicted[job.index()];
        if predicted > 0.0 {
            let scaled = seconds / predicted * UNIT;
            self.times.add(self.predictor.bin(seconds));
            self.ratios.add(self.predictor.bin(scaled));
            self.predictor.completed(group, scaled);
        }
    }

    /// Takes in new jobs, if there are enough. Returns whether there are.
    pub(super) fn refresh(&mut self) -> bool {
        let is_new = self.predictor.refresh();
        if is_new {
            self.is_used = self.times.count >= FEWEST && self.ratios.width() < self.times.width();
        }
        is_new
    }

    /// Returns the prediction of a job, s, if it has one and the column is used.
    fn used(&self, job: Job) -> Option<f64> {
        Some(self.predicted[job.index()]).filter(|&predicted| self.is_used && predicted > 0.0)
    }

    /// Returns the run time left, s, of a group's job with that progress, s, if its prediction is used.
    pub(super) fn left_of(&mut self, job: Job, group: u32, progress: f64) -> Option<f64> {
        let predicted = self.used(job)?;
        let bin = self.predictor.bin(progress / predicted * UNIT);
        Some(self.predictor.left((group, bin)) / UNIT * predicted)
    }

    /// Returns the progress at which that changes next, s.
    pub(super) fn next_edge(&self, job: Job, progress: f64) -> Option<f64> {
        let predicted = self.used(job)?;
        Some(self.predictor.next_edge(progress / predicted * UNIT) / UNIT * predicted)
    }
}

#[cfg(test)]
mod tests {
    use super::{FEWEST, Ratios};
    use crate::ids::Job;

    /// Jobs of 100, 200, 400 s and so on, predicted by a quarter of their run time, or by that of other jobs.
    #[test]
    fn a_column_is_used_if_it_tells_more_than_run_times_do() {
        let times: Vec<f64> = (0..40).map(|job| 100.0 * f64::from(1u32 << (job % 8))).collect();
        let good: Vec<f64> = times.iter().map(|time| time / 4.0).collect();
        let bad: Vec<f64> = (0..40).map(|job| times[(5 * job + 3) % 8]).collect();
        for (column, is_used) in [(good, true), (bad, false)] {
            let mut ratios = Ratios::new(&column, false);
            ratios.group(1, 0);
            for (job, &time) in times.iter().enumerate().take(FEWEST as usize) {
                assert!(!ratios.refresh() || !ratios.is_used);
                ratios.completed(Job::at(job), 0, time);
            }
            ratios.refresh();
            let left = ratios.left_of(Job::at(39), 0, 0.0);
            assert_eq!(left.is_some(), is_used);
            // A ratio of 4 is in the bin of 40,000 s.
            assert!(left.is_none_or(|left| (left / times[39] - 1.0).abs() < 0.08), "{left:?}");
        }
    }
}
