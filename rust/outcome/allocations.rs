//! Records which job held which GPUs from when to when: one row per stay and server, or per stay and GPU where jobs
//! may hold shares.
//!
//! Invariant: all columns are of one length, and the rows of one stay are neighbours. For example, a job of 6 GPUs
//! that ran on servers 0 and 1 has two rows with the same start and end.

use crate::ids::{Job, NO_SEAT, Server};
use std::collections::BTreeMap;

/// Rows of the allocations: one per stay of a job on a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocations {
    /// The job's row.
    pub job: Vec<u32>,
    /// The server's index.
    pub server: Vec<u32>,
    /// GPUs held there.
    pub num_gpus: Vec<u32>,
    /// From when, s.
    pub start: Vec<f64>,
    /// Until when, s.
    pub end: Vec<f64>,
    /// The GPU's index on the server; empty where no job of the table asks for a share.
    pub gpu: Vec<u32>,
    /// Thousandths of that GPU, 0 for all of it; empty where `gpu` is.
    pub share: Vec<u32>,
    /// The seat; empty where no two jobs hold the same GPUs. That of a share: the greatest number.
    pub seat: Vec<u32>,
    /// From when on the GPUs count as the job's: before that another job held them already, s. Empty where `seat` is.
    pub busy_from: Vec<f64>,
    /// Which stay of the job, from 0; empty if each has one.
    pub stay: Vec<u32>,
}

impl Allocations {
    /// Reserves room for that many jobs, an eighth of them on a second server.
    pub(crate) fn for_jobs(jobs: usize) -> Self {
        let rows = jobs + jobs / 8;
        Self {
            job: Vec::with_capacity(rows),
            server: Vec::with_capacity(rows),
            num_gpus: Vec::with_capacity(rows),
            start: Vec::with_capacity(rows),
            end: Vec::with_capacity(rows),
            ..Self::default()
        }
    }

    /// Adds the rows of a stay.
    pub(crate) fn push(&mut self, job: Job, parts: &[(Server, u32)], start: f64, end: f64) {
        for &(server, count) in parts {
            self.job.push(job.number());
            self.server.push(server.number());
            self.num_gpus.push(count);
            self.start.push(start);
            self.end.push(end);
        }
    }

    /// Adds the rows of a stay on GPUs that have an index.
    pub(crate) fn push_gpus(&mut self, job: Job, gpus: &[(Server, u32)], share: u32, start: f64, end: f64) {
        for &(server, gpu) in gpus {
            self.push(job, &[(server, 1)], start, end);
            self.gpu.push(gpu);
            self.share.push(share);
        }
    }

    /// Adds the seat of a stay to the rows of it that were added last.
    pub(crate) fn push_seat(&mut self, seat: u32, busy_from: f64) {
        self.seat.resize(self.job.len(), seat);
        self.busy_from.resize(self.job.len(), busy_from);
    }

    /// Drops the latest rows of a job, as many as `rows`.
    pub(crate) fn forget(&mut self, job: Job, rows: usize) {
        let Some(last) = self.job.iter().rposition(|&of| of == job.number()) else { return };
        let rows = last + 1 - rows..last + 1;
        self.job.drain(rows.clone());
        self.server.drain(rows.clone());
        self.num_gpus.drain(rows.clone());
        self.start.drain(rows.clone());
        self.end.drain(rows.clone());
        if !self.gpu.is_empty() {
            self.gpu.drain(rows.clone());
            self.share.drain(rows.clone());
        }
        if !self.seat.is_empty() {
            self.seat.drain(rows.clone());
            self.busy_from.drain(rows);
        }
    }

    /// Numbers the seats that have rows anew: from 0, in the order in which they came to be.
    fn number_seats(&mut self) {
        let mut began: BTreeMap<u32, f64> = BTreeMap::new();
        for (&seat, &start) in self.seat.iter().zip(&self.start).filter(|(seat, _)| **seat != NO_SEAT) {
            began.entry(seat).and_modify(|time| *time = time.min(start)).or_insert(start);
        }
        let mut order: Vec<(u64, u32)> = began.into_iter().map(|(seat, time)| (time.to_bits(), seat)).collect();
        order.sort_unstable();
        let number: BTreeMap<u32, u32> = (0..).zip(order).map(|(number, (_, seat))| (seat, number)).collect();
        self.seat.iter_mut().for_each(|seat| *seat = number.get(seat).copied().unwrap_or(NO_SEAT));
    }

    /// Sorts the rows by (job, stay, server). Those of a job come in order of its stays. `stays`: the jobs of stays
    /// and how many rows each has, in order of (job, start); none for a job of one stay.
    #[must_use]
    pub(crate) fn by_job(mut self, num_jobs: usize, stays: impl Iterator<Item = (Job, usize)>) -> Self {
        if self.job.is_empty() {
            return self; // not recorded
        }
        let mut next = vec![0u32; num_jobs + 1];
        for &j in &self.job {
            next[j as usize + 1] += 1;
        }
        for j in 0..num_jobs {
            next[j + 1] += next[j];
        }
        let mut order = vec![0u32; self.job.len()];
        for (row, &j) in self.job.iter().enumerate() {
            let at = &mut next[j as usize];
            order[*at as usize] = row as u32;
            *at += 1;
        }
        // `next` now has where the rows of each job end.
        let mut stay = Vec::new();
        let mut before = (Job::NONE, 0, 0);
        for (job, rows) in stays {
            let j = job.index();
            let first = if j == 0 { 0 } else { next[j - 1] as usize };
            let (number, at) = if before.0 == job { (before.1 + 1, before.2) } else { (0, first) };
            before = (job, number, at + rows);
            if number > 0 {
                stay.resize(order.len(), 0);
                stay.iter_mut().skip(at).take(rows).for_each(|own| *own = number);
            }
        }
        drop(next);
        let number = |at: usize| stay.get(at).copied().unwrap_or(0);
        let mut first = 0;
        while first < order.len() {
            let (job, own) = (self.job[order[first] as usize], number(first));
            let mut end = first + 1;
            while end < order.len() && self.job[order[end] as usize] == job && number(end) == own {
                end += 1;
            }
            order[first..end].sort_by_key(|&row| self.server[row as usize]);
            first = end;
        }
        self.stay = stay;
        // One column at a time, so that only one is held twice.
        fn sort<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
            *column = order.iter().map(|&i| column[i as usize]).collect();
        }
        sort(&mut self.job, &order);
        sort(&mut self.server, &order);
        sort(&mut self.num_gpus, &order);
        sort(&mut self.start, &order);
        sort(&mut self.end, &order);
        if !self.gpu.is_empty() {
            sort(&mut self.gpu, &order);
            sort(&mut self.share, &order);
        }
        if !self.seat.is_empty() {
            sort(&mut self.seat, &order);
            sort(&mut self.busy_from, &order);
            self.number_seats();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_are_ordered_by_job() {
        let mut rows = Allocations::default();
        let on = |server, count| (Server::new(server), count);
        rows.push(Job::new(1), &[on(0, 2), on(3, 1)], 0.0, 2.0);
        rows.push(Job::new(0), &[on(1, 1)], 0.5, 3.0);
        let ordered = rows.by_job(2, std::iter::empty());
        assert_eq!(ordered.job, [0, 1, 1]);
        assert!(ordered.stay.is_empty());
        assert_eq!(ordered.server, [1, 0, 3]);
        assert_eq!(ordered.end, [3.0, 2.0, 2.0]);
    }

    #[test]
    fn a_stay_of_no_length_comes_before_the_next_of_its_job() {
        let mut rows = Allocations::default();
        let job = Job::new(0);
        let on = |server, count| (Server::new(server), count);
        rows.push(Job::new(0), &[on(1, 4), on(2, 1)], 5.0, 5.0);
        rows.push(Job::new(0), &[on(0, 4), on(3, 1)], 5.0, 9.0);
        rows.push(Job::new(0), &[on(2, 5)], 9.0, 9.0);
        rows.push(Job::new(0), &[on(1, 5)], 9.0, 9.0);
        let ordered = rows.by_job(1, [(job, 2), (job, 2), (job, 1), (job, 1)].into_iter());
        assert_eq!(ordered.server, [1, 2, 0, 3, 2, 1]);
        assert_eq!(ordered.stay, [0, 0, 1, 1, 2, 3]);
        assert_eq!(ordered.end, [5.0, 5.0, 9.0, 9.0, 9.0, 9.0]);
    }

    #[test]
    fn the_latest_rows_of_a_job_are_forgotten() {
        let mut rows = Allocations::default();
        let on = |server, count| (Server::new(server), count);
        rows.push(Job::new(0), &[on(1, 1)], 0.0, 5.0);
        rows.push(Job::new(0), &[on(0, 4), on(3, 1)], 5.0, 9.0);
        rows.push(Job::new(2), &[on(2, 5)], 2.0, 9.0);
        rows.forget(Job::new(0), 2);
        assert_eq!((rows.job, rows.server), (vec![0, 2], vec![1, 2]));
        assert_eq!((rows.start, rows.end), (vec![0.0, 2.0], vec![5.0, 9.0]));
    }
}
