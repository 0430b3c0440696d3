//! Who held which GPUs from when to when: a row a stay and server, or a stay and GPU where jobs may hold shares.
//!
//! Invariant: all columns are of one length, and the rows of one stay are neighbours. For example, a job of 6 GPUs that
//! ran on servers 0 and 1 has two rows, of one start and one end.

use crate::ids::{Job, Server};

/// Rows of the allocations: one per stretch of a job on a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Allocations {
    /// The job's row.
    pub job: Vec<u32>,
    /// The server's index.
    pub server: Vec<u32>,
    /// GPUs held there.
    pub num_gpus: Vec<u32>,
    /// From, s.
    pub start: Vec<f64>,
    /// To, s.
    pub end: Vec<f64>,
    /// The GPU's index on the server; empty where no job of the table asks for a share.
    pub gpu: Vec<u32>,
    /// Thousandths of that GPU, 0 for all of it; empty where `gpu` is.
    pub share: Vec<u32>,
}

impl Allocations {
    /// Room for that many jobs, an eighth of them on a second server.
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

    /// Forgets the latest rows of a job, as many as `rows`.
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
            self.share.drain(rows);
        }
    }

    /// The rows in order of (job, start, end, server). A job's rows come in order of start; a stay of no length, whose
    /// successor starts at the same time, is what else there is to sort.
    #[must_use]
    pub(crate) fn by_job(mut self, num_jobs: usize) -> Self {
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
        drop(next);
        let of = |&row: &u32| (self.start[row as usize], self.end[row as usize], self.server[row as usize]);
        let same_job = |a: &u32, b: &u32| self.job[*a as usize] == self.job[*b as usize];
        // Most tables are in order, and most jobs have one row.
        if order.windows(2).any(|rows| same_job(&rows[0], &rows[1]) && of(&rows[0]) > of(&rows[1])) {
            for stays in order.chunk_by_mut(same_job) {
                stays.sort_by(|a, b| {
                    let (a, b) = (of(a), of(b));
                    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2))
                });
            }
        }
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
        let ordered = rows.by_job(2);
        assert_eq!(ordered.job, [0, 1, 1]);
        assert_eq!(ordered.server, [1, 0, 3]);
        assert_eq!(ordered.end, [3.0, 2.0, 2.0]);
    }

    #[test]
    fn a_stay_of_no_length_comes_before_the_next_of_its_job() {
        let mut rows = Allocations::default();
        let on = |server, count| (Server::new(server), count);
        rows.push(Job::new(0), &[on(1, 4), on(2, 1)], 5.0, 5.0);
        rows.push(Job::new(0), &[on(0, 4), on(3, 1)], 5.0, 9.0);
        rows.push(Job::new(0), &[on(2, 5)], 9.0, 9.0);
        rows.push(Job::new(0), &[on(1, 5)], 9.0, 9.0);
        let ordered = rows.by_job(1);
        assert_eq!(ordered.server, [1, 2, 0, 3, 1, 2]);
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
