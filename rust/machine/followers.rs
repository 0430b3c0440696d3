//! Lets jobs arrive after others are gone (docs/chains.md).
//!
//! Jobs without a predecessor arrive in the order of the job table, by a cursor. The others lie in a heap from the
//! instant at which their predecessor is gone. Invariant: `order` has the jobs that have arrived, by (arrival, place of
//! submission). For example, a job submitted at 5 s after one that ends at 100 s arrives at 100 s, and its place in
//! the queue is that of 5 s.

use super::ClusterState;
use super::clock::Clock;
use crate::ids::Job;
use crate::setting::Setting;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The arrivals of a table with chains.
#[derive(Clone, Debug)]
pub(super) struct Followers {
    /// The jobs that depend on no other, in order of arrival, and the first that has not arrived.
    roots: Vec<Job>,
    next_root: usize,
    /// Where the followers of each job begin in `followers`; then where the last ones end.
    first: Vec<u32>,
    followers: Vec<Job>,
    /// The place of each job in the order of submission.
    rank: Vec<u32>,
    /// When each job arrives, s; NaN while its predecessor is not gone.
    arrival: Vec<f64>,
    /// Those whose predecessors are gone: (arrival in machine time, arrival in s, rank), times as bits.
    coming: BinaryHeap<Reverse<(u64, u64, u32, Job)>>,
    /// The jobs that have arrived.
    order: Vec<Job>,
}

impl Followers {
    /// Returns the arrivals of the setting if any job depends on another. A job whose predecessor was left out depends
    /// on none.
    pub(super) fn new(setting: &Setting<'_>) -> Option<Box<Self>> {
        let chains = setting.jobs.chains?;
        let jobs = setting.jobs.len();
        let mut rank: Vec<u32> = (0..jobs as u32).collect();
        let in_order: Vec<Job> = setting.arrivals.map_or_else(|| (0..jobs).map(Job::at).collect(), <[Job]>::to_vec);
        in_order.iter().enumerate().for_each(|(at, job)| rank[job.index()] = at as u32);
        let rows = setting.rows.iter().max().map_or(0, |&row| row as usize + 1);
        let mut job_of = vec![Job::NONE; rows];
        setting.rows.iter().enumerate().for_each(|(job, &row)| job_of[row as usize] = Job::at(job));
        let before = |job: &Job| {
            let before = chains.before(job.index()).and_then(|row| job_of.get(row).copied());
            before.filter(|&before| before != Job::NONE)
        };
        let mut arrival = setting.jobs.submit.to_vec();
        let mut first = vec![0; jobs + 1];
        for job in &in_order {
            if let Some(before) = before(job) {
                first[before.index() + 1] += 1;
                arrival[job.index()] = f64::NAN;
            }
        }
        for job in 0..jobs {
            first[job + 1] += first[job];
        }
        let mut followers = vec![Job::NONE; first[jobs] as usize];
        let mut next = first.clone();
        for job in &in_order {
            if let Some(before) = before(job) {
                let at = &mut next[before.index()];
                followers[*at as usize] = *job;
                *at += 1;
            }
        }
        let roots = in_order.iter().copied().filter(|job| before(job).is_none()).collect();
        let (coming, order) = (BinaryHeap::new(), Vec::with_capacity(jobs));
        Some(Box::new(Self { roots, next_root: 0, first, followers, rank, arrival, coming, order }))
    }

    /// Returns when the next job arrives (machine time).
    pub(super) fn next_at(&self, clock: Clock) -> f64 {
        let root = self.roots.get(self.next_root).map(|job| clock.arrival(self.arrival[job.index()]));
        let follower = self.coming.peek().map_or(f64::INFINITY, |Reverse((at, ..))| f64::from_bits(*at));
        root.map_or(follower, |root| root.min(follower))
    }

    /// Adds the jobs that arrive at this instant to `due`, in order of arrival.
    pub(super) fn take_due(&mut self, now: f64, clock: Clock, due: &mut Vec<Job>) {
        while let Some(&job) = self.roots.get(self.next_root)
            && clock.arrival(self.arrival[job.index()]) <= now
        {
            due.push(job);
            self.next_root += 1;
        }
        let roots = due.len();
        while let Some(&Reverse((at, .., job))) = self.coming.peek()
            && f64::from_bits(at) <= now
        {
            self.coming.pop();
            due.push(job);
        }
        if due.len() > roots {
            due.sort_by(|a, b| {
                let (a, b) = (a.index(), b.index());
                self.arrival[a].total_cmp(&self.arrival[b]).then(self.rank[a].cmp(&self.rank[b]))
            });
        }
        self.order.extend_from_slice(due);
    }

    /// Returns the job at place `after` among those that have arrived.
    pub(super) fn arrived(&self, after: usize) -> Job {
        self.order[after]
    }

    /// Returns the number of jobs that arrived before an instant, s.
    pub(super) fn arrived_before(&self, time: f64) -> usize {
        self.order.partition_point(|job| self.arrival[job.index()] < time)
    }

    /// Returns when each job arrived, s.
    pub(super) fn into_arrivals(self) -> Vec<f64> {
        self.arrival
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns when a job that has arrived did so, s: its submission, unless it arrives after another.
    #[inline]
    pub(crate) fn arrived_at(&self, job: Job) -> f64 {
        let j = job.index();
        self.followers.as_ref().map_or(self.jobs.submit[j], |followers| followers.arrival[j])
    }

    /// Collects the jobs that are due, the last first.
    #[cold]
    #[inline(never)]
    pub(super) fn take_due(&mut self, due: &mut Vec<Job>) {
        if let Some(followers) = &mut self.followers {
            followers.take_due(self.now, self.clock, due);
        }
        due.reverse();
    }

    /// Counts a job that is done, at its limit, refused or ended, and lets its followers come.
    #[inline(always)]
    pub(super) fn count_gone(&mut self, job: Job) {
        self.gone += 1;
        if self.followers.is_some() {
            self.call_followers(job);
        }
    }

    #[cold]
    fn call_followers(&mut self, job: Job) {
        let (Some(own), Some(chains)) = (&mut self.followers, self.jobs.chains) else { return };
        let end = self.clock.seconds(self.now);
        for at in own.first[job.index()]..own.first[job.index() + 1] {
            let follower = own.followers[at as usize];
            let j = follower.index();
            let think_time = chains.think_time[j];
            let arrival = if think_time.is_nan() { f64::max(self.jobs.submit[j], end) } else { end + think_time };
            own.arrival[j] = arrival;
            let at = self.clock.arrival(arrival).max(self.now);
            own.coming.push(Reverse((at.to_bits(), arrival.to_bits(), own.rank[j], follower)));
        }
    }
}
