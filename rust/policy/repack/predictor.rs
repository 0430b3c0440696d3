//! Predicts the run time left from completed jobs (docs/repack-reference.md): the Gittins index of a job as a time.
//!
//! The run times of completed jobs are counted in bins, for each size and for all jobs. A user's latest jobs of a
//! size count more. A job that has made progress of a seconds draws its run time S from those counts, given S > a.
//! Its run time left is the least, over d, of E[min(S - a, d)] / P(S - a <= d). Predictions take in the counts of
//! sizes from time to time, a user's jobs at once.
//!
//! Invariant: jobs of one group whose progress is in one bin have the same run time left until a job completes. So
//! one prediction is computed for all of them. For example, a thousand jobs of one GPU that never ran cost one.

use std::collections::{BTreeMap, VecDeque};

/// Bins of run times. Each is longer than the one before by `BIN_RATIO`; the first ends at `BIN_RATIO` seconds.
const BINS: usize = 260;
const BIN_RATIO: f64 = 1.08;

/// Pseudo-counts: of the distribution over all sizes where it is mixed with that of a size, and of that mixture where
/// it is mixed with a user's.
const SIZE_WEIGHT: f64 = 10.0;
const USER_WEIGHT: f64 = 3.0;

/// A user's completed job weighs this fraction of the next more recent one. At most `USER_MEMORY` count.
const USER_DECAY: f64 = 0.9;
const USER_MEMORY: usize = 40;

/// Predictions of a size are trusted once so many of its jobs are done.
const TRUSTED: u32 = 10;

/// The counts are refreshed once more than 1 / `REFRESH_DIVISOR` as many jobs have completed since as they hold.
const REFRESH_DIVISOR: usize = 64;

/// Jobs of a size, and of a user where users are named.
#[derive(Clone, Debug)]
struct Group {
    size: usize,
    /// Bins of the latest completed jobs, the latest first; empty where users are not named.
    latest: VecDeque<u32>,
    /// Predictions by bin of progress, bins ascending.
    predicted: Vec<(u32, f64)>,
}

/// The completed jobs of a size.
#[derive(Clone, Debug)]
struct Size {
    /// The number of jobs in each bin.
    count: Vec<u32>,
    /// Their sum.
    done: u32,
    /// Weights of the bins for a user without history; empty until asked for.
    weights: Vec<f64>,
}

/// What is known about run times.
#[derive(Clone, Debug)]
pub(super) struct Predictor {
    users: bool,
    /// Lower edges of the bins, s, and the run time that represents each bin.
    edges: Vec<f64>,
    middles: Vec<f64>,
    /// By number of GPUs; by that and the user.
    size_of: BTreeMap<u32, usize>,
    group_of: BTreeMap<(u32, u32), u32>,
    sizes: Vec<Size>,
    groups: Vec<Group>,
    /// Completed jobs of all sizes by bin, and their number.
    all_sizes: Vec<u32>,
    counted: usize,
    /// (size, bin) of completed jobs that predictions have not taken in.
    fresh: Vec<(usize, u32)>,
    /// The first bin of a completed job, and the one after the last: others have no weight.
    first: usize,
    end: usize,
    /// Buffers for a user's weights: those of its own jobs, by bin, which are 0 in between, and all of them.
    own: Vec<f64>,
    mixed: Vec<f64>,
}

impl Predictor {
    /// Creates a predictor without jobs. `users`: whether users are named.
    pub(super) fn new(users: bool) -> Self {
        let mut edges = vec![0.0];
        let mut edge = 1.0;
        for _ in 0..BINS {
            edge *= BIN_RATIO;
            edges.push(edge);
        }
        let middles = edges.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0).collect();
        edges.pop();
        Self {
            users,
            edges,
            middles,
            size_of: BTreeMap::new(),
            group_of: BTreeMap::new(),
            sizes: Vec::new(),
            groups: Vec::new(),
            all_sizes: vec![0; BINS],
            counted: 0,
            fresh: Vec::new(),
            first: BINS,
            end: 0,
            own: vec![0.0; BINS],
            mixed: Vec::new(),
        }
    }

    /// Returns the group of a user's jobs of a size.
    pub(super) fn group(&mut self, units: u32, user: u32) -> u32 {
        let (sizes, groups) = (self.sizes.len(), self.groups.len() as u32);
        let size = *self.size_of.entry(units).or_insert(sizes);
        if size == sizes {
            self.sizes.push(Size { count: vec![0; BINS], done: 0, weights: Vec::new() });
        }
        let group = *self.group_of.entry((units, user)).or_insert(groups);
        if group == groups {
            self.groups.push(Group { size, latest: VecDeque::new(), predicted: Vec::new() });
        }
        group
    }

    /// Returns the bin of a time, s.
    pub(super) fn bin(&self, seconds: f64) -> u32 {
        (self.edges.partition_point(|&edge| edge <= seconds).max(1) - 1) as u32
    }

    /// Records that a job of a group is done. It ran `seconds`.
    pub(super) fn completed(&mut self, group: u32, seconds: f64) {
        let bin = self.bin(seconds);
        let group = &mut self.groups[group as usize];
        self.fresh.push((group.size, bin));
        self.first = self.first.min(bin as usize);
        self.end = self.end.max(bin as usize + 1);
        if self.users {
            group.latest.push_front(bin);
            group.latest.truncate(USER_MEMORY);
            group.predicted.clear();
        }
    }

    /// Takes in new jobs, if there are enough. Returns whether there are.
    pub(super) fn refresh(&mut self) -> bool {
        if self.fresh.len() <= self.counted / REFRESH_DIVISOR {
            return false;
        }
        self.counted += self.fresh.len();
        for (size, bin) in self.fresh.drain(..) {
            self.all_sizes[bin as usize] += 1;
            self.sizes[size].count[bin as usize] += 1;
            self.sizes[size].done += 1;
        }
        self.sizes.iter_mut().for_each(|size| size.weights.clear());
        self.groups.iter_mut().for_each(|group| group.predicted.clear());
        true
    }

    /// Returns where the bin of a time ends, s.
    pub(super) fn next_edge(&self, seconds: f64) -> f64 {
        self.edges.get(self.bin(seconds) as usize + 1).copied().unwrap_or(f64::INFINITY)
    }

    /// Returns whether enough jobs of a group's size are done to trust a prediction.
    pub(super) fn is_trusted(&self, group: u32) -> bool {
        let size = self.groups[group as usize].size;
        self.sizes[size].done >= TRUSTED
    }

    /// Returns the run time left, s, of a group's job whose progress is in a bin.
    pub(super) fn left(&mut self, (group, bin): (u32, u32)) -> f64 {
        let Self { sizes, groups, all_sizes, counted, own, mixed, .. } = self;
        let group = &mut groups[group as usize];
        let place = match group.predicted.binary_search_by_key(&bin, |predicted| predicted.0) {
            Ok(place) => return group.predicted[place].1,
            Err(place) => place,
        };
        let size = &mut sizes[group.size];
        if size.weights.is_empty() {
            size.weights = weights(&size.count, all_sizes, *counted);
        }
        let from = bin as usize;
        let bins = from.max(self.first).min(self.end)..self.end;
        let mut weights = &size.weights[bins.clone()];
        if !group.latest.is_empty() {
            let (mut weight, mut sum) = (1.0, 0.0);
            for &bin in &group.latest {
                own[bin as usize] += weight;
                sum += weight;
                weight *= USER_DECAY;
            }
            let mix = |(weight, own): (&f64, &f64)| (own + USER_WEIGHT * weight) / (sum + USER_WEIGHT);
            mixed.clear();
            mixed.extend(weights.iter().zip(&own[bins.clone()]).map(mix));
            group.latest.iter().for_each(|&bin| own[bin as usize] = 0.0);
            weights = mixed;
        }
        let left = gittins_time(weights, &self.middles[bins], self.edges[from]);
        group.predicted.insert(place, (bin, left));
        left
    }
}

/// Returns the weights of the bins for jobs of a size, from the counts of that size and of all.
fn weights(count: &[u32], all: &[u32], counted: usize) -> Vec<f64> {
    let (own, any) = (f64::from(count.iter().sum::<u32>()), f64::max(1.0, counted as f64));
    let weight =
        |(&count, &all): (&u32, &u32)| (f64::from(count) + SIZE_WEIGHT * f64::from(all) / any) / (own + SIZE_WEIGHT);
    count.iter().zip(all).map(weight).collect()
}

/// Returns the Gittins index as a time, s, of a job with that progress, s: from the weights of longer run times. A
/// job that has run longer than all that are done is taken to be half done.
fn gittins_time(weights: &[f64], values: &[f64], progress: f64) -> f64 {
    let total: f64 = weights.iter().sum();
    let (mut within, mut spent, mut least) = (0.0, 0.0, f64::INFINITY);
    for (&weight, &value) in weights.iter().zip(values).filter(|(weight, _)| **weight > 0.0) {
        let left = value - progress;
        within += weight;
        spent += weight * left;
        least = f64::min(least, (spent + (total - within) * left) / within);
    }
    if least == f64::INFINITY { progress } else { least }
}

#[cfg(test)]
mod tests {
    use super::Predictor;

    #[test]
    fn a_bin_ends_where_the_next_one_begins() {
        let predictor = Predictor::new(false);
        for seconds in [0.0, 0.5, 100.0, 1e6] {
            let edge = predictor.next_edge(seconds);
            assert_eq!(predictor.bin(edge), predictor.bin(seconds) + 1);
            assert_eq!(predictor.bin(edge.next_down()), predictor.bin(seconds));
        }
        // The last one has no end.
        assert_eq!(predictor.next_edge(1e9), f64::INFINITY);
    }

    #[test]
    fn predictions_take_over_what_is_done_once_a_part_of_it_is_new() {
        let mut predictor = Predictor::new(false);
        let group = predictor.group(1, 0);
        let mut after = |more: usize| {
            (0..more).for_each(|_| predictor.completed(group, 100.0));
            predictor.refresh()
        };
        assert!(after(128));
        // Two are one in 64, and no more.
        assert!(!after(2) && after(1));
    }
}
