//! Tiresias with the 2D-Gittins index (Gu et al., NSDI 2019; Gittins, "Bandit processes and dynamic allocation
//! indices", 1979). Queues by attained service are Tiresias'. Inside a queue the largest index goes first, ties fifo.
//! The policy knows only the run times of jobs that are done.
//!
//! Say a job has attained a GPU-seconds, and S is the GPU time of a completed job drawn at random. The index is the
//! largest, over quanta delta, of P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a]. It is 0 where no completed
//! job had more than a. Indexes are compared in single precision.
//!
//! A waiting job's attained service stands, while its index moves with completions. So waiting jobs are kept by their
//! service, and a pass takes one index for all of one size and service. Running jobs are ranked anew at a pass only if
//! not all that wait fit in the idle GPUs. For example, a thousand waiting jobs of one GPU that never ran cost a pass
//! one index. One index costs a walk along a hull. With m samples the distribution is renewed at a pass once more than
//! m / 1,024 jobs are new; the hull, a step for every sample, is built when an index is asked for.

use super::tiresias::Tiresias;
use super::{Keys, Ranking};
use crate::ids::Job;
use crate::machine::{Floor, Stay};
use crate::options::Options;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Gittins {
    queues: Tiresias,
    interval: f64,
    samples: Samples,
    /// GPU times not yet among the samples.
    fresh: Vec<f64>,
    /// `RENEW_SHARE`, less in tests.
    renew_share: usize,
}

/// A distribution of m samples is renewed before a pass once more than m / `RENEW_SHARE` new ones have come. So below
/// this many samples it is up to date at every pass.
const RENEW_SHARE: usize = 1024;

impl Gittins {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self {
            queues: Tiresias::new(options),
            interval: options.interval,
            samples: Samples::default(),
            fresh: Vec::new(),
            renew_share: RENEW_SHARE,
        }
    }
}

impl Ranking for Gittins {
    const KEYS: Keys = Keys::ByNumber;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn before_pass(&mut self) {
        if self.fresh.len() > self.samples.len() / self.renew_share {
            self.samples.add(&mut self.fresh);
        }
    }

    fn waiting_key<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        floor.attained(job)
    }

    fn key_of(&mut self, attained: f64) -> f64 {
        // In single precision: indexes that differ by rounding alone tie. A key is a whole number, exact in a float64
        // for fewer than 2^21 queues.
        let index = self.samples.index(attained) as f32;
        self.queues.queue(attained) as f64 * KEYS_OF_A_QUEUE + f64::from(descending(index))
    }

    fn running_key<S: Speed>(&mut self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        self.key_of(floor.attained_of(stay))
    }

    fn completed<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.fresh.push(floor.attained(job));
    }
}

/// More than any number that `descending` gives.
const KEYS_OF_A_QUEUE: f64 = 4_294_967_296.0;

/// A number that falls as `index` rises.
fn descending(index: f32) -> u32 {
    let bits = (-index).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// GPU times of completed jobs, ready for indexes.
///
/// With s_1 <= ... <= s_n and i samples <= a, the ratio for delta = s_j - a is (j - i) / (t_j - c), where
/// t_j = s_1 + ... + s_j + (n - j) s_j and c = s_1 + ... + s_i + (n - i) a. So the index is the steepest slope from
/// (c, i) to a point (t_j, j) with j > i: the tangent to their upper hull.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Not yet among the others: what comes between two questions is added at once.
    added: Vec<f64>,
    /// Ascending, as are those of the other columns.
    value: Vec<f64>,
    /// Sums of the first samples.
    sum: Vec<f64>,
    /// t_j of each sample.
    total_time: Vec<f64>,
    /// For each point, the next corner of the upper hull of the points from it on; itself at the last.
    corner: Vec<u32>,
    /// What `span` has seen: corners of the hull behind the next two, the nearest last.
    beyond: Vec<(f64, f64)>,
}

impl Samples {
    fn len(&self) -> usize {
        self.value.len() + self.added.len()
    }

    fn add(&mut self, fresh: &mut Vec<f64>) {
        self.added.append(fresh);
    }

    /// Puts the added values among the others.
    fn build(&mut self) {
        let from = self.merge();
        self.sum_up(from);
        self.span();
    }

    /// Merges the added values. Returns the first place that changed.
    fn merge(&mut self) -> usize {
        self.added.sort_unstable_by(f64::total_cmp);
        let mut end = self.value.len();
        self.value.resize(end + self.added.len(), 0.0);
        while let Some(value) = self.added.pop() {
            let at = self.value[..end].partition_point(|s| s.total_cmp(&value).is_le());
            let shift = self.added.len() + 1;
            self.value.copy_within(at..end, at + shift);
            self.value[at + shift - 1] = value;
            end = at;
        }
        end
    }

    /// Sums from a place on, and total times.
    fn sum_up(&mut self, from: usize) {
        let n = self.value.len();
        self.sum.resize(n + 1, 0.0);
        let mut sum = self.sum[from];
        for (&s, to) in self.value[from..].iter().zip(&mut self.sum[from + 1..]) {
            sum += s;
            *to = sum;
        }
        self.total_time.clear();
        let sums = self.value.iter().zip(&self.sum[1..]).enumerate();
        self.total_time.extend(sums.map(|(k, (&s, &sum))| sum + (n - 1 - k) as f64 * s));
    }

    /// The hull, from its end.
    fn span(&mut self) {
        self.corner.resize(self.value.len(), 0);
        let mut points = self.total_time.iter().enumerate().map(|(k, &t)| (t, k as f64)).rev();
        let Some(mut next) = points.next() else { return };
        self.corner[next.1 as usize] = next.1 as u32;
        let mut after: Option<(f64, f64)> = None;
        self.beyond.clear();
        for here in points {
            // A point on or below the line to the corner after it is not a corner of the hull.
            while let Some(point) = after {
                let (next_steep, after_steep) =
                    ((next.1 - here.1) * (point.0 - here.0), (point.1 - here.1) * (next.0 - here.0));
                if next_steep > after_steep {
                    break;
                }
                (next, after) = (point, self.beyond.pop());
            }
            self.corner[here.1 as usize] = next.1 as u32;
            self.beyond.extend(after);
            (next, after) = (here, Some(next));
        }
    }

    fn index(&mut self, attained: f64) -> f64 {
        if !self.added.is_empty() {
            self.build();
        }
        let n = self.value.len();
        let passed = self.value.partition_point(|&s| s <= attained);
        if passed == n {
            return 0.0;
        }
        let spent = self.sum[passed] + (n - passed) as f64 * attained;
        let slope = |j: usize| (j + 1 - passed) as f64 / (self.total_time[j] - spent);
        let mut at = passed;
        let mut steepest = slope(at);
        loop {
            let next = self.corner[at] as usize;
            let to_next = slope(next);
            if next == at || to_next <= steepest {
                return steepest;
            }
            (at, steepest) = (next, to_next);
        }
    }
}

#[cfg(test)]
mod tests;
