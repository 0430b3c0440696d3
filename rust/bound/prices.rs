//! Computes a lower bound by prices: a second of a GPU costs, and each job buys its cheapest seconds (docs/bound.md has
//! the proof).
//!
//! Any prices of at least 0 give a bound. An ascent looks for good ones: on few intervals first, then on twice as many,
//! split where prices change most. For example, two jobs of 1 GPU and 4 s are submitted to it at 0. Where all its
//! seconds are free, both pay for the first four: the bound is 8. Where those until 4 cost 1 each and those until 8 are
//! free, either half pays the same: the mean times of 2 and 6 and half of 4 s each give 12, which is reached.
//!
//! Invariant: sums are over chunks of a fixed size, so they are the same on any number of threads.

use super::ascent::climb;
use super::{check, positive_gpus};
use crate::error::Result;
use rayon::prelude::*;

/// At most so many intervals have prices.
const MOST: usize = 1000;

/// Intervals of the first round.
const FIRST: usize = 60;

/// Rounds at most; each has up to twice as many intervals as the one before.
const ROUNDS: usize = 9;

/// Jobs of which one thread sums up what they use.
const CHUNK: usize = 512;

/// What has a price: all GPUs, the one gang above a half of them, the two above a third.
const ROWS: usize = 3;

/// The share of the costs that the bound is lowered by: much more than what is lost to rounding.
const MARGIN: f64 = 1e-9;

/// A job as the prices see it.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Submission, s.
    submit: f64,
    /// The shortest possible run time, s.
    shortest: f64,
    /// The share of each row that it uses while it runs.
    uses: [f64; ROWS],
}

/// Prices, and the bound that they prove.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices {
    /// No schedule has a lower sum of completion times less submissions, s.
    pub sum: f64,
    /// When the intervals begin, and when the last one ends, s. Before and after, all is free.
    pub ends: Vec<f64>,
    /// The price, s, of a second of a GPU, of a gang above a half of the GPUs and of one above a third, by interval.
    pub prices: [Vec<f64>; ROWS],
}

/// Looks for prices of `gpus` GPUs.
///
/// shortest: the shortest possible run times, s. work: the least GPU-seconds of each job. least: the fewest GPUs that
/// it ever holds.
///
/// # Errors
/// As [`super::bound`].
pub fn prices(submit: &[f64], shortest: &[f64], work: &[f64], least: &[f64], gpus: u32) -> Result<Prices> {
    check(submit, &[("shortest", shortest), ("work", work), ("least", least)])?;
    positive_gpus(gpus)?;
    let all = f64::from(gpus);
    let over = |row: usize, parts: f64| least[row] * parts > all;
    let mut jobs: Vec<Job> = (0..submit.len())
        .map(|row| {
            let (half, third) = (f64::from(over(row, 2.0)), f64::from(over(row, 3.0)));
            Job {
                submit: submit[row],
                shortest: shortest[row],
                uses: [work[row] / shortest[row] / all, half, third / 2.0],
            }
        })
        .collect();
    jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    if jobs.is_empty() {
        return Ok(Prices::default());
    }
    let (sum, ends, found) = best(&jobs);
    let count = ends.len() - 1;
    let units = [all, 1.0, 2.0];
    let prices = std::array::from_fn(|row| {
        let of_row = found.chunks(count).nth(row).map_or_else(|| vec![0.0; count], <[f64]>::to_vec);
        of_row.into_iter().map(|price| price / units[row]).collect()
    });
    Ok(Prices { sum, ends, prices })
}

/// Returns the bound, the intervals and the prices of one row after the other.
fn best(jobs: &[Job]) -> (f64, Vec<f64>, Vec<f64>) {
    let rows = (0..ROWS).rev().find(|&row| jobs.iter().any(|job| job.uses[row] > 0.0)).map_or(1, |row| row + 1);
    let mut ends = marks(jobs, rows);
    let mut prices = vec![0.0; rows * (ends.len() - 1)];
    let mut levels: Vec<f64> = jobs.iter().map(|job| job.shortest).collect();
    for round in 1.. {
        let market = Market::new(jobs, ends, rows);
        let full = round == ROUNDS || market.count() >= MOST - 1;
        let (steps, enough) = if full { (600, 1e-6) } else { (200, 1e-5) };
        let (sum, better) = climb(prices, &market.scales(), steps, enough, |prices| market.value(prices, &mut levels));
        let split = if full { None } else { market.split(&better) };
        let Some(finer) = split else {
            let paid = better.iter().enumerate().map(|(at, price)| price * market.length(at % market.count()));
            // What jobs pay is what is told and what is taken off it again.
            let costs = sum + 2.0 * paid.sum::<f64>();
            return (sum - MARGIN * costs, market.ends, better);
        };
        (ends, prices) = finer;
    }
    unreachable!("a round is the last one")
}

/// Returns first intervals: between them each row has as much work, done as soon as the row can.
fn marks(jobs: &[Job], rows: usize) -> Vec<f64> {
    let mut ends = Vec::new();
    for row in 0..rows {
        let work = |job: &Job| job.shortest * job.uses[row];
        let each = jobs.iter().map(work).sum::<f64>() * rows as f64 / FIRST as f64;
        let (mut now, mut done, mut next) = (jobs[0].submit, 0.0, 0.0);
        for job in jobs {
            let work = work(job);
            now = f64::max(now, job.submit);
            while next < done + work {
                ends.push(now + (next - done));
                next += each;
            }
            now += work;
            done += work;
        }
        ends.push(now);
    }
    ends.sort_by(f64::total_cmp);
    let shortest = shortest_interval(ends[0], ends[ends.len() - 1]);
    ends.dedup_by(|later, earlier| *later - *earlier < shortest);
    if ends.len() == 1 {
        ends.push(ends[0] + shortest);
    }
    ends
}

/// Returns how short an interval may be, so that rounding its ends is nothing beside its length.
fn shortest_interval(first: f64, last: f64) -> f64 {
    f64::max(1e-9 * (last - first), 1e-9 * last.abs()).max(1e-9)
}

/// Jobs, and the intervals in which they buy.
struct Market<'a> {
    jobs: &'a [Job],
    ends: Vec<f64>,
    /// The interval of each job's submission.
    first: Vec<usize>,
    rows: usize,
}

impl<'a> Market<'a> {
    fn new(jobs: &'a [Job], ends: Vec<f64>, rows: usize) -> Self {
        let first = jobs.iter().map(|job| ends.partition_point(|&end| end <= job.submit).saturating_sub(1)).collect();
        Self { jobs, ends, first, rows }
    }

    fn count(&self) -> usize {
        self.ends.len() - 1
    }

    fn length(&self, interval: usize) -> f64 {
        self.ends[interval + 1] - self.ends[interval]
    }

    fn scales(&self) -> Vec<f64> {
        let count = self.count();
        (0..self.rows * count).map(|at| self.length(at % count).sqrt().recip()).collect()
    }

    /// Returns the bound at these prices, and how much of each row is used beyond what there is, s.
    fn value(&self, prices: &[f64], levels: &mut [f64]) -> (f64, Vec<f64>) {
        let chunks = self.jobs.par_chunks(CHUNK).zip(self.first.par_chunks(CHUNK)).zip(levels.par_chunks_mut(CHUNK));
        let parts: Vec<(f64, Vec<f64>)> = chunks
            .map(|((jobs, first), levels)| {
                let mut used = vec![0.0; prices.len()];
                let each = jobs.iter().zip(first).zip(levels);
                let sum = each.map(|((job, &first), level)| self.buy(job, first, prices, level, &mut used)).sum();
                (sum, used)
            })
            .collect();
        let count = self.count();
        let mut over: Vec<f64> = (0..prices.len()).map(|at| -self.length(at % count)).collect();
        let mut sum: f64 = prices.iter().zip(&over).map(|(price, less)| price * less).sum();
        for (part, used) in parts {
            sum += part;
            over.iter_mut().zip(used).for_each(|(over, used)| *over += used);
        }
        (sum, over)
    }

    /// When an interval begins for a job, s after its submission; what it costs there, s; how long it lasts.
    fn offer(&self, job: &Job, interval: usize, prices: &[f64]) -> (f64, f64, f64) {
        let price: f64 = (0..self.rows).map(|row| job.uses[row] * prices[row * self.count() + interval]).sum();
        let begin = (self.ends[interval] - job.submit).max(0.0);
        let length = (self.ends[interval + 1] - job.submit).max(0.0) - begin;
        (begin, begin + job.shortest * price, length)
    }

    /// Buys a job's cheapest seconds. Returns what it pays: their mean time after its submission, their price and half
    /// of its run time.
    ///
    /// level: it buys what costs less. Any level gives a bound; the right one is found by Newton's method from where it
    /// was.
    fn buy(&self, job: &Job, first: usize, prices: &[f64], level: &mut f64, used: &mut [f64]) -> f64 {
        let (count, run) = (self.count(), job.shortest);
        let free = (self.ends[count] - job.submit).max(0.0);
        let (mut low, mut high) = (0.0, free + run);
        let mut at = level.clamp(low, high);
        for _ in 0..60 {
            // What it would buy, in how many intervals it would buy more, and the nearest costs above and below.
            let (mut bought, mut open, mut above, mut below) = (0.0, 0.0, free, 0.0);
            for interval in first..count {
                let (begin, cost, length) = self.offer(job, interval, prices);
                if begin > f64::max(at, above) {
                    break;
                }
                if cost > at {
                    above = f64::min(above, cost);
                } else if at - cost < length {
                    bought += at - cost;
                    open += 1.0;
                } else {
                    bought += length;
                    below = f64::max(below, cost + length);
                }
            }
            if at >= free {
                bought += at - free;
                open += 1.0;
            }
            let missing = run - bought;
            if missing.abs() <= 1e-12 * run {
                break;
            }
            let near = if missing > 0.0 {
                low = at;
                above
            } else {
                high = at;
                below
            };
            at = if open > 0.0 { at + missing / open } else { near };
            if at <= low || at >= high {
                at = f64::midpoint(low, high);
            }
            if high - low <= 1e-14 * high {
                break;
            }
        }
        *level = at;
        let mut saved = 0.0;
        let mut save = |cost: f64, length: f64| {
            let held = f64::min(at - cost, length);
            saved += held.max(0.0) * (at - cost - held / 2.0);
            held
        };
        for interval in first..count {
            let (begin, cost, length) = self.offer(job, interval, prices);
            if begin >= at {
                break;
            }
            let held = save(cost, length);
            if held > 0.0 {
                for row in 0..self.rows {
                    used[row * count + interval] += held * job.uses[row];
                }
            }
        }
        save(free, f64::INFINITY);
        at - saved / run + run / 2.0
    }

    /// Returns finer intervals with the same prices: those halved at which prices change most, and one more behind a
    /// last one that costs. None where there is nothing to halve.
    fn split(&self, prices: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let count = self.count();
        let price = |row: usize, interval: usize| if interval < count { prices[row * count + interval] } else { 0.0 };
        let change = |interval: usize| -> f64 {
            let of_row = |row| {
                let here = price(row, interval);
                let before = if interval > 0 { price(row, interval - 1) } else { here };
                (here - price(row, interval + 1)).abs() + (here - before).abs()
            };
            self.length(interval) * (0..self.rows).map(of_row).sum::<f64>()
        };
        let (begin, end) = (self.ends[0], self.ends[count]);
        let shortest = 2.0 * shortest_interval(begin, end);
        let mut changes: Vec<(f64, usize)> = (0..count)
            .filter(|&interval| self.length(interval) > shortest)
            .map(|interval| (change(interval), interval))
            .filter(|(change, _)| *change > 0.0)
            .collect();
        changes.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        changes.truncate((2 * count).min(MOST - 1) - count);
        if changes.is_empty() {
            return None;
        }
        let mut halved = vec![false; count];
        changes.iter().for_each(|&(_, interval)| halved[interval] = true);
        let parts = |interval: usize| if halved[interval] { 2 } else { 1 };
        let mut ends = vec![begin];
        for (pair, &halved) in self.ends.windows(2).zip(&halved) {
            if halved {
                ends.push(f64::midpoint(pair[0], pair[1]));
            }
            ends.push(pair[1]);
        }
        let more = (0..self.rows).any(|row| price(row, count - 1) > 0.0);
        if more {
            ends.push(end + (end - begin) / 10.0);
        }
        let finer = (0..self.rows)
            .flat_map(|row| {
                let of_row =
                    (0..count).flat_map(move |interval| std::iter::repeat_n(price(row, interval), parts(interval)));
                of_row.chain(more.then_some(0.0)).collect::<Vec<f64>>()
            })
            .collect();
        Some((ends, finer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_one_after_the_other() {
        let found = prices(&[0.0; 2], &[4.0; 2], &[4.0; 2], &[1.0; 2], 1).unwrap();
        assert!((11.9..=12.0).contains(&found.sum), "{found:?}");
    }

    #[test]
    fn gangs_above_a_half_go_one_by_one_and_those_above_a_third_by_twos() {
        let of = |size: f64, count: usize| {
            let same = |value: f64| vec![value; count];
            prices(&same(0.0), &same(2.0), &same(2.0 * size), &same(size), 12).unwrap().sum
        };
        // Three of 7 GPUs end at 2, 4 and 6; three of 5 GPUs at 2, 2 and 4, and as halves of a machine they may as well
        // end at 1 + 2 / 2, 1 + 6 / 2 and 1 + 4 / 2.
        assert!((11.9..=12.0).contains(&of(7.0, 3)), "{}", of(7.0, 3));
        assert!((7.4..=8.0).contains(&of(5.0, 3)), "{}", of(5.0, 3));
        // A gang of a third leaves room for two others.
        assert!((5.9..=6.0).contains(&of(4.0, 3)), "{}", of(4.0, 3));
    }

    #[test]
    fn nothing_waits_and_nothing_costs() {
        let found = prices(&[5.0, 0.0], &[3.0, 4.0], &[3.0, 4.0], &[1.0; 2], 2).unwrap();
        assert!((found.sum - 7.0).abs() < 1e-7);
        assert!(found.prices.iter().flatten().all(|&price| price == 0.0));
        assert_eq!(prices(&[], &[], &[], &[], 1), Ok(Prices::default()));
    }
}
