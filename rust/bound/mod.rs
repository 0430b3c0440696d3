//! Computes a lower bound on the sum of completion times, less submissions, of any schedule (docs/bound.md has the
//! proof).
//!
//! Jobs in order of submission are halved again and again. Each set of this tree has a bound of its own, and its two
//! halves together have another; the larger counts. For example, on one GPU a job of 10 s at 0 and one of 2 s at 1 can
//! at best end after 12 s and 2 s. The bound of both as one set is 14 s, that of each alone 10 s and 2 s.
//!
//! Invariant: the recursion, and so each sum, is the same on any number of threads.

mod ascent;
mod prices;

pub use prices::{Prices, prices};

use crate::error::{Error, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Two bounds that differ by less count as equal, and a set is not cut for the difference.
const SAME: f64 = 1e-12;

/// A set of fewer jobs is not distributed among threads.
const FEW: usize = 4096;

/// The reasoning behind a set's bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// Every job has its GPUs at once.
    RunTimes,
    /// All GPUs act as one machine, and the shortest remaining work goes first.
    Shortest,
    /// The mean busy times on that machine, plus half of each run time.
    Busy,
}

impl Term {
    /// All terms.
    pub const ALL: [Self; 3] = [Self::RunTimes, Self::Shortest, Self::Busy];
}

/// A bound, and how many sets and jobs are bounded by each term of [`Term::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bound {
    /// No schedule has a lower sum of completion times less submissions, s.
    pub sum: f64,
    /// Sets by term.
    pub sets: [u64; 3],
    /// Jobs by term.
    pub jobs: [u64; 3],
}

impl Bound {
    fn of(sum: f64, jobs: usize, term: Term) -> Self {
        let mut bound = Self { sum, ..Self::default() };
        bound.sets[term as usize] = 1;
        bound.jobs[term as usize] = jobs as u64;
        bound
    }

    fn with(self, other: &Self) -> Self {
        let add = |a: [u64; 3], b: [u64; 3]| std::array::from_fn(|term| a[term] + b[term]);
        Self { sum: self.sum + other.sum, sets: add(self.sets, other.sets), jobs: add(self.jobs, other.jobs) }
    }
}

/// A job as the bound sees it.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Submission, s.
    submit: f64,
    /// The shortest possible run time, s.
    shortest: f64,
    /// The least work, in seconds of all GPUs together.
    work: f64,
}

/// Computes the bound of jobs on `gpus` GPUs.
///
/// shortest: the shortest possible run times, s. work: the least GPU-seconds of each job.
///
/// # Errors
/// `ColumnLength` or `Value` for a column of another length, or a time that is not finite or not positive.
pub fn bound(submit: &[f64], shortest: &[f64], work: &[f64], gpus: u32) -> Result<Bound> {
    check(submit, &[("shortest", shortest), ("work", work)])?;
    positive_gpus(gpus)?;
    let mut jobs: Vec<Job> = (0..submit.len())
        .map(|row| Job { submit: submit[row], shortest: shortest[row], work: work[row] / f64::from(gpus) })
        .collect();
    jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    Ok(if jobs.is_empty() { Bound::default() } else { tree(&jobs).0 })
}

/// Checks submissions, and columns of as many positive numbers.
fn check(submit: &[f64], columns: &[(&'static str, &[f64])]) -> Result<()> {
    check_each("submit_time", submit, "a finite time >= 0", |value| value.is_finite() && value >= 0.0)?;
    for &(column, values) in columns {
        if values.len() != submit.len() {
            return Err(Error::ColumnLength { column, length: values.len(), expected: submit.len() });
        }
        check_each(column, values, "a finite number > 0", |value| value.is_finite() && value > 0.0)?;
    }
    Ok(())
}

fn check_each(column: &'static str, values: &[f64], expected: &'static str, good: impl Fn(f64) -> bool) -> Result<()> {
    match values.iter().position(|&value| !good(value)) {
        None => Ok(()),
        Some(row) => Err(Error::Value { row, column, value: format!("{:?}", values[row]), expected }),
    }
}

fn positive_gpus(gpus: u32) -> Result<()> {
    let expected = "at least one GPU".to_owned();
    if gpus == 0 { Err(Error::Option { name: "cluster", value: "0 GPUs".to_owned(), expected }) } else { Ok(()) }
}

/// Returns the bound of a set, and the earliest completions of its jobs without waiting, in order.
fn tree(jobs: &[Job]) -> (Bound, Vec<f64>) {
    if let [job] = jobs {
        return (Bound::of(job.shortest, 1, Term::RunTimes), vec![job.submit + job.shortest]);
    }
    let (early, late) = jobs.split_at(jobs.len() / 2);
    let halves =
        || if jobs.len() < FEW { (tree(early), tree(late)) } else { rayon::join(|| tree(early), || tree(late)) };
    let ((first, ends), (second, later)) = halves();
    let alone = merged(&ends, &later);
    let apart = first.with(&second);
    let together = whole(jobs, &alone);
    (if together.sum >= apart.sum * (1.0 - SAME) { together } else { apart }, alone)
}

/// Returns the largest bound of a set that is not cut. alone: the earliest completions, in order.
fn whole(jobs: &[Job], alone: &[f64]) -> Bound {
    let run_times: f64 = jobs.iter().map(|job| job.shortest).sum();
    // The k-th completion of any schedule is no earlier than the k-th one of either list.
    let in_order: f64 =
        shortest_first(jobs).iter().zip(alone).zip(jobs).map(|((a, b), job)| f64::max(*a, *b) - job.submit).sum();
    let busy = busy(jobs);
    let least = run_times * (1.0 + SAME);
    if busy > in_order && busy > least {
        Bound::of(busy, jobs.len(), Term::Busy)
    } else if in_order > least {
        Bound::of(in_order, jobs.len(), Term::Shortest)
    } else {
        Bound::of(run_times, jobs.len(), Term::RunTimes)
    }
}

/// Returns the completions, in order, if the least remaining work always goes first.
fn shortest_first(jobs: &[Job]) -> Vec<f64> {
    let mut done = Vec::with_capacity(jobs.len());
    // Remaining work. The bits of positive numbers sort as the numbers do.
    let mut left: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut now = 0.0;
    for job in jobs {
        while let Some(Reverse(bits)) = left.pop() {
            let work = f64::from_bits(bits);
            if now + work > job.submit {
                left.push(Reverse((work - (job.submit - now)).max(0.0).to_bits()));
                break;
            }
            now += work;
            done.push(now);
        }
        now = job.submit;
        left.push(Reverse(job.work.to_bits()));
    }
    while let Some(Reverse(bits)) = left.pop() {
        now += f64::from_bits(bits);
        done.push(now);
    }
    done
}

/// Returns the sum of mean busy times and half the run times, less submissions, if the least whole work always goes
/// first.
fn busy(jobs: &[Job]) -> f64 {
    let mut sum = 0.0;
    let mut left: Vec<f64> = jobs.iter().map(|job| job.work).collect();
    let mut queue: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut now = 0.0;
    // Works on the jobs of least work until a time.
    let mut until = |now: &mut f64, end: f64, queue: &mut BinaryHeap<Reverse<(u64, usize)>>| {
        while let Some(&Reverse((_, number))) = queue.peek() {
            let (job, done) = (&jobs[number], *now + left[number] <= end);
            let time = if done { left[number] } else { end - *now };
            sum += time / job.work * (*now + time / 2.0 - job.submit);
            left[number] -= time;
            *now += time;
            if !done {
                return;
            }
            queue.pop();
        }
    };
    for (number, job) in jobs.iter().enumerate() {
        until(&mut now, job.submit, &mut queue);
        now = job.submit;
        queue.push(Reverse((job.work.to_bits(), number)));
    }
    until(&mut now, f64::INFINITY, &mut queue);
    sum + jobs.iter().map(|job| job.shortest / 2.0).sum::<f64>()
}

fn merged(one: &[f64], other: &[f64]) -> Vec<f64> {
    let mut all = Vec::with_capacity(one.len() + other.len());
    let (mut a, mut b) = (0, 0);
    while a < one.len() && b < other.len() {
        if one[a] <= other[b] {
            all.push(one[a]);
            a += 1;
        } else {
            all.push(other[b]);
            b += 1;
        }
    }
    all.extend_from_slice(&one[a..]);
    all.extend_from_slice(&other[b..]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_by_hand() {
        // One GPU: 10 s at 0, 2 s at 1. The short one goes first and the long one ends at 12.
        let found = bound(&[0.0, 1.0], &[10.0, 2.0], &[10.0, 2.0], 1).unwrap();
        assert_eq!(found, Bound { sum: 14.0, sets: [0, 1, 0], jobs: [0, 2, 0] });
    }

    #[test]
    fn each_term_wins_somewhere() {
        let won = |submit: &[f64], shortest: &[f64], work: &[f64], gpus| {
            let found = bound(submit, shortest, work, gpus).unwrap();
            (found.sum, found.jobs)
        };
        // No job waits.
        assert_eq!(won(&[0.0, 5.0], &[3.0, 4.0], &[3.0, 4.0], 2), (7.0, [2, 0, 0]));
        // Two jobs of the whole cluster at once.
        assert_eq!(won(&[0.0, 0.0], &[4.0, 4.0], &[8.0, 8.0], 2), (12.0, [0, 2, 0]));
        // Six jobs of 1 GPU and 2 s on 2 GPUs end at 2, 2, 4, 4, 6 and 6. As one machine: at 1, 2 and so on, 22 in
        // order with none before 2. Mean busy times are 0.5, 1.5 and so on, 18 in all, plus 1 s for each.
        assert_eq!(won(&[0.0; 6], &[2.0; 6], &[2.0; 6], 2), (24.0, [0, 0, 6]));
    }

    #[test]
    fn faults_name_the_column() {
        assert!(matches!(bound(&[0.0], &[], &[1.0], 1), Err(Error::ColumnLength { column: "shortest", .. })));
        assert!(matches!(bound(&[0.0], &[1.0], &[0.0], 1), Err(Error::Value { column: "work", row: 0, .. })));
        assert!(matches!(bound(&[f64::NAN], &[1.0], &[1.0], 1), Err(Error::Value { column: "submit_time", .. })));
        assert!(matches!(bound(&[0.0], &[1.0], &[1.0], 0), Err(Error::Option { name: "cluster", .. })));
        assert_eq!(bound(&[], &[], &[], 1), Ok(Bound::default()));
    }
}
