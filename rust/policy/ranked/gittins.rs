//! Tiresias with the 2D-Gittins index (Gu et al., NSDI 2019; Gittins, "Bandit processes and dynamic allocation
//! indices", 1979). Queues by attained service are Tiresias'. Inside a queue the largest index goes first, ties fifo.
//! The policy knows only the run times of jobs that are done.
//!
//! Let a be the GPU-seconds that a job has attained, and S the GPU time of a completed job drawn at random. The index
//! is the largest, over quanta delta, of P(S - a <= delta | S > a) / E[min(S - a, delta) | S > a]. It is 0 where no
//! completed job had more than a. Indexes are compared in single precision.
//!
//! A waiting job's attained service is constant, while its index changes with completions. So waiting jobs are kept
//! by their service, and a pass computes one index for all jobs of one service, or none where a queue's waiting jobs
//! all have the same. Running jobs are needed from the end of the ranking, and only if not all waiting jobs fit in
//! the idle GPUs. They are kept by upper bounds of their keys (`lowest_ranked`). For example, a thousand waiting jobs
//! of one GPU that never ran cost a pass no index while running jobs of the next queue make room for them.
//!
//! One index costs a walk along a hull. With m samples the distribution is renewed at a pass once more than m / 1,024
//! jobs are new. That costs one step per sample to add them up, when an index is asked for, and one per sample above
//! the least service asked for to build the hull.

use super::tiresias::{Tiresias, attains_before};
use super::{KNOWS, Keys, Ranking};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::options::{Facts, Is, Named, Options};
use crate::speed::Speed;
use std::collections::HashMap;

#[derive(Clone, Debug)]
pub(in crate::policy) struct Gittins {
    queues: Tiresias,
    interval: f64,
    samples: Samples,
    /// GPU times not yet among the samples.
    fresh: Vec<f64>,
    /// Keys by attained service, since the samples were renewed.
    keys: HashMap<u64, f64>,
    /// `RENEW_SHARE`, less in tests.
    renew_share: usize,
}

/// A distribution of m samples is renewed before a pass once more than m / `RENEW_SHARE` new ones have come. So below
/// this many samples it is up to date at every pass.
const RENEW_SHARE: usize = 1024;

/// A close ceiling is valid until a job has attained 1 / `REACH_SHARE` more.
const REACH_SHARE: f64 = 16.0;

impl Gittins {
    pub(in crate::policy) fn new(options: &Options) -> Self {
        Self {
            queues: Tiresias::new(options),
            interval: options.interval(),
            samples: Samples::default(),
            fresh: Vec::new(),
            keys: HashMap::new(),
            renew_share: RENEW_SHARE,
        }
    }

    /// Returns the queues by attained service.
    pub(super) fn tiresias(&self) -> &Tiresias {
        &self.queues
    }
}

impl Named for Gittins {
    const FACTS: Facts = Facts {
        name: "gittins",
        about: "queue, then largest Gittins index",
        paper: "Gu et al., NSDI 2019; Gittins 1979",
        knows: KNOWS,
        is: &[Is::Ranks, Is::AtIntervals],
        options: &[
            "preempt-cost",
            "interval",
            "thresholds",
            "within",
            "preempt-after",
            "max-preemptions",
            "keep-unpreemptible",
            "preempt-loses",
        ],
    };
}

impl Ranking for Gittins {
    type Tie = ();

    const KEYS: Keys = Keys::ByNumber;

    fn interval(&self) -> Option<f64> {
        Some(self.interval)
    }

    fn before_pass<S: Speed>(&mut self, _state: &ClusterState<'_, S>) -> bool {
        let renews = self.fresh.len() > self.samples.len() / self.renew_share;
        if renews {
            self.samples.add(&mut self.fresh);
            self.keys.clear();
        }
        renews
    }

    fn waiting_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        state.attained(job)
    }

    fn key_of(&mut self, attained: f64) -> f64 {
        let Self { queues, samples, keys, .. } = self;
        *keys
            .entry(attained.to_bits())
            .or_insert_with(|| key(queues.queue(attained), descending(samples.index(attained))))
    }

    fn span_of(&self, attained: f64) -> (f64, f64) {
        let queue = self.queues.queue(attained);
        (key(queue, 0), key(queue + 1, 0))
    }

    fn running_key<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>) -> f64 {
        let attained = state.attained_of(stay);
        key(self.queues.queue(attained), descending(self.samples.index(attained)))
    }

    fn ceiling<S: Speed>(&mut self, state: &ClusterState<'_, S>, stay: &Stay<S::Pace>, closely: bool) -> (f64, f64) {
        let attained = state.attained_of(stay);
        let queue = self.queues.queue(attained);
        let mut end = self.queues.end_of(queue);
        let mut index = u32::MAX;
        if closely {
            let reach = attained / REACH_SHARE + f64::from(state.asks(stay.job)) * self.interval;
            end = end.min(attained + reach);
            index = descending(self.samples.least(attained, end));
        }
        (key(queue, index), attains_before(state, stay, end))
    }

    fn completed<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        self.fresh.push(state.attained(job));
    }
}

/// Returns the key of a job in a queue, by a number of `descending`. It is a whole number, exact in a float64 for
/// fewer than 2^21 queues.
fn key(queue: usize, number: u32) -> f64 {
    queue as f64 * 4_294_967_296.0 + f64::from(number)
}

/// Returns a number that falls as `index` rises. In single precision: indexes that differ only by rounding tie.
fn descending(index: f64) -> u32 {
    let bits = (-(index as f32)).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

/// GPU times of completed jobs, from which indexes are computed.
///
/// With s_1 <= ... <= s_n and i samples <= a, the ratio for delta = s_j - a is (j - i) / (t_j - c), where
/// t_j = s_1 + ... + s_j + (n - j) s_j and c = s_1 + ... + s_i + (n - i) a. So the index is the steepest slope from
/// (c, i) to a point (t_j, j) with j > i: the tangent to their upper hull.
#[derive(Clone, Debug, Default)]
struct Samples {
    /// Not yet among the others: values that come between two queries are added at once.
    added: Vec<f64>,
    /// Ascending, as are the other columns.
    value: Vec<f64>,
    /// Sums of the first samples.
    sum: Vec<f64>,
    /// For each point from `spanned` on, the next corner of the upper hull of the points from it on; the last point
    /// is its own.
    corner: Vec<u32>,
    spanned: usize,
    /// Corners of the hull of the points from `spanned` on, the nearest last.
    hull: Vec<(f64, f64)>,
}

impl Samples {
    fn len(&self) -> usize {
        self.value.len() + self.added.len()
    }

    fn add(&mut self, fresh: &mut Vec<f64>) {
        self.added.append(fresh);
    }

    /// Merges the added values into the others.
    fn build(&mut self) {
        let from = self.merge();
        self.sum_up(from);
        let n = self.value.len();
        self.corner.resize(n, 0);
        self.corner[n - 1] = n as u32 - 1;
        self.spanned = n - 1;
        self.hull.clear();
        self.hull.push(self.point(n - 1));
    }

    /// Returns (t_j, j - 1) of the sample at a place.
    #[inline]
    fn point(&self, at: usize) -> (f64, f64) {
        let after = self.value.len() - 1 - at;
        (self.sum[at + 1] + after as f64 * self.value[at], at as f64)
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

    /// Recomputes the sums from a place on.
    fn sum_up(&mut self, from: usize) {
        self.sum.resize(self.value.len() + 1, 0.0);
        let mut sum = self.sum[from];
        for (&s, to) in self.value[from..].iter().zip(&mut self.sum[from + 1..]) {
            sum += s;
            *to = sum;
        }
    }

    /// Extends the hull from its end down to a place.
    fn span(&mut self, down_to: usize) {
        let mut hull = std::mem::take(&mut self.hull);
        for at in (down_to..self.spanned).rev() {
            let here = self.point(at);
            // A point on or below the line to the corner after it is not a corner of the hull.
            while let [.., after, next] = hull[..] {
                if (next.1 - here.1) * (after.0 - here.0) > (after.1 - here.1) * (next.0 - here.0) {
                    break;
                }
                hull.pop();
            }
            self.corner[at] = hull[hull.len() - 1].1 as u32;
            hull.push(here);
        }
        self.hull = hull;
        self.spanned = self.spanned.min(down_to);
    }

    fn index(&mut self, attained: f64) -> f64 {
        self.tangent(attained).map_or(0.0, |(_, steepest)| steepest)
    }

    /// Returns the least index of all services from one on and below another, or a little less.
    ///
    /// As the service grows, the point (c, i) moves below the hull. So its tangent is at least as steep as the edge
    /// of the hull that spans the end.
    fn least(&mut self, from: f64, end: f64) -> f64 {
        let Some((mut at, mut slope)) = self.tangent(from) else { return 0.0 };
        while self.value[at] < end {
            let next = self.corner[at] as usize;
            if next == at {
                return 0.0;
            }
            slope = slope.min((next - at) as f64 / (self.point(next).0 - self.point(at).0));
            at = next;
        }
        // Rounding: far less than a millionth, except for times between points that are themselves rounding errors.
        let total = self.sum[self.value.len()];
        f64::min(slope * (1.0 - 1e-6), 1e12 / total)
    }

    /// Returns the steepest slope to a sample, and a sample that has it.
    fn tangent(&mut self, attained: f64) -> Option<(usize, f64)> {
        if !self.added.is_empty() {
            self.build();
        }
        let n = self.value.len();
        let passed = self.value.partition_point(|&s| s <= attained);
        if passed == n {
            return None;
        }
        self.span(passed);
        let spent = self.sum[passed] + (n - passed) as f64 * attained;
        let slope = |j: usize| (j + 1 - passed) as f64 / (self.point(j).0 - spent);
        let mut at = passed;
        let mut steepest = slope(at);
        loop {
            let next = self.corner[at] as usize;
            let to_next = slope(next);
            if next == at || to_next <= steepest {
                return Some((at, steepest));
            }
            (at, steepest) = (next, to_next);
        }
    }
}

#[cfg(test)]
mod tests;
