//! Tiresias with the 2D-Gittins index (Gu et al., NSDI 2019; Gittins, "Bandit processes and dynamic allocation
//! indices", 1979). Queues by attained service are Tiresias'. Inside a queue the largest index goes first, ties fifo.
//! The policy knows only the run times of jobs that are done.
//!
//! Say a job has attained a GPU-seconds, and S is the GPU time of a completed job drawn at random. The index is the
//! largest, over quanta delta, of P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a]. It is 0 where no completed
//! job had more than a. Indexes are compared in single precision.
//!
//! An index falls as service grows and moves with every completion, so a pass ranks all jobs that run or wait. One
//! index costs a walk along a hull. With m samples the distribution is renewed at a pass once more than m / 1,024 jobs
//! are new.

use super::Ranking;
use super::tiresias::Tiresias;
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
        }
    }
}

impl Ranking for Gittins {
    const RANKED_ANEW: bool = true;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn before_pass(&mut self) {
        if self.fresh.len() > self.samples.value.len() / RENEW_SHARE {
            self.samples.add(&mut self.fresh);
        }
    }

    fn rank<S: Speed>(&self, floor: &Floor<'_, S>, job: u32, stay: Option<&Stay<S::Pace>>) -> (f64, f64) {
        let attained = stay.map_or_else(|| floor.attained(job), |stay| floor.attained_of(stay));
        // In single precision: indexes that differ by rounding alone tie.
        (self.queues.queue(attained) as f64, -f64::from(self.samples.index(attained) as f32))
    }

    fn completed<S: Speed>(&mut self, floor: &Floor<'_, S>, job: u32) {
        self.fresh.push(floor.attained(job));
    }
}

/// GPU times of completed jobs, ready for indexes.
///
/// With s_1 <= ... <= s_n and i samples <= a, the ratio for delta = s_j - a is (j - i) / (t_j - c), where
/// t_j = s_1 + ... + s_j + (n - j) s_j and c = s_1 + ... + s_i + (n - i) a. So the index is the steepest slope from
/// (c, i) to a point (t_j, j) with j > i: the tangent to their upper hull.
#[derive(Clone, Debug, Default)]
struct Samples {
    value: Vec<f64>,
    /// Sums of the first samples.
    sum: Vec<f64>,
    /// t_j of each sample.
    total_time: Vec<f64>,
    /// For each point, the next corner of the upper hull of the points from it on; itself at the last.
    corner: Vec<u32>,
}

impl Samples {
    fn add(&mut self, fresh: &mut Vec<f64>) {
        self.value.append(fresh);
        // Runs of sorted values are merged, not sorted again.
        self.value.sort_by(f64::total_cmp);
        let n = self.value.len();
        self.sum.clear();
        self.sum.push(0.0);
        self.total_time.clear();
        let mut sum = 0.0;
        for (k, &s) in self.value.iter().enumerate() {
            sum += s;
            self.sum.push(sum);
            self.total_time.push(sum + (n - 1 - k) as f64 * s);
        }
        self.corner.clear();
        self.corner.resize(n, 0);
        for k in (0..n).rev() {
            let mut next = if k + 1 < n { k + 1 } else { k };
            // A point on or below the line to the corner after it is not a corner of the hull.
            while self.corner[next] as usize != next && next != k {
                let after = self.corner[next] as usize;
                let point = |i: usize| (self.total_time[i], i as f64);
                let (a, b, c) = (point(k), point(next), point(after));
                if (b.1 - a.1) * (c.0 - a.0) > (c.1 - a.1) * (b.0 - a.0) {
                    break;
                }
                next = after;
            }
            self.corner[k] = next as u32;
        }
    }

    fn index(&self, attained: f64) -> f64 {
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
mod tests {
    use super::Samples;
    use proptest::prelude::*;

    /// Straight from the definition.
    fn by_definition(samples: &[f64], attained: f64) -> f64 {
        let beyond: Vec<f64> = samples.iter().filter(|&&s| s > attained).map(|s| s - attained).collect();
        let ratio = |delta: f64| {
            let done = beyond.iter().filter(|&&s| s <= delta).count() as f64;
            done / beyond.iter().map(|s| s.min(delta)).sum::<f64>()
        };
        beyond.iter().map(|&delta| ratio(delta)).fold(0.0, f64::max)
    }

    proptest! {
        #[test]
        fn the_index_is_the_best_quantum(
            batches in prop::collection::vec(prop::collection::vec(0.5f64..1000.0, 0..20), 1..4),
            attained in 0.0f64..1100.0,
        ) {
            let mut samples = Samples::default();
            for batch in &batches {
                samples.add(&mut batch.clone());
            }
            let all: Vec<f64> = batches.concat();
            let truth = by_definition(&all, attained);
            prop_assert!((samples.index(attained) - truth).abs() <= 1e-9 * truth);
        }
    }
}
