//! What became of the trials of searches (docs/searches.md).

use crate::ids::Job;

/// A trial that reached a rung.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Climb {
    /// Which trial.
    pub job: Job,
    /// Which rung, from 0.
    pub rung: u32,
    /// When, s.
    pub time: f64,
    /// Its loss there.
    pub loss: f64,
    /// When it went on, s; NaN where it never did.
    pub went_on: f64,
}

/// What one cluster's run leaves behind of its trials. Times of the machine until they are converted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Climbing {
    /// Pauses at rungs, by job; empty where no search was judged.
    pub(crate) pauses: Vec<u32>,
    /// Each job's latest rest, as its place in `rests`.
    latest: Vec<u32>,
    /// (job, since when, until when); infinite where it never went on.
    rests: Vec<(Job, f64, f64)>,
    /// Every rung that a trial reached, in order of time.
    pub(crate) climbs: Vec<Climb>,
}

impl Climbing {
    pub(crate) fn new(jobs: usize) -> Self {
        Self { pauses: vec![0; jobs], latest: vec![0; jobs], ..Self::default() }
    }

    /// A job pauses at a rung.
    pub(crate) fn rest(&mut self, job: Job, now: f64) {
        self.pauses[job.index()] += 1;
        self.latest[job.index()] = self.rests.len() as u32;
        self.rests.push((job, now, f64::INFINITY));
    }

    /// A job that paused at a rung waits from now on.
    pub(crate) fn wake(&mut self, job: Job, now: f64) {
        self.rests[self.latest[job.index()] as usize].2 = now;
    }

    /// Takes pauses of a job back that were none. `pauses`: how many there were before. Returns whether there was one.
    pub(crate) fn take_back(&mut self, job: Job, pauses: u32) -> bool {
        let noted = std::mem::replace(&mut self.pauses[job.index()], pauses);
        if noted > pauses {
            self.rests[self.latest[job.index()] as usize].2 = f64::INFINITY;
        }
        noted > pauses
    }

    pub(super) fn convert_times(&mut self, seconds: impl Fn(f64) -> f64) {
        for climb in &mut self.climbs {
            (climb.time, climb.went_on) = (seconds(climb.time), seconds(climb.went_on));
        }
        for rest in &mut self.rests {
            (rest.1, rest.2) = (seconds(rest.1), seconds(rest.2));
        }
    }
}

/// What became of trials.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Searched {
    /// Pauses at rungs, by row.
    pub pauses: Vec<u32>,
    /// The time that they took before the job went on, s, by row.
    pub rested: Vec<f64>,
    /// Every rung that a trial reached, by virtual cluster, then in order of time.
    pub climbs: Vec<Climb>,
    /// Rests that came to an end: (row, since when, as bits), until when.
    rests: Vec<((u32, u64), f64)>,
}

impl Searched {
    pub(crate) fn new(rows: usize) -> Self {
        Self { pauses: vec![0; rows], rested: vec![0.0; rows], ..Self::default() }
    }

    /// Adds what a cluster's run left behind, whose jobs are those rows.
    pub(crate) fn take(&mut self, own: Climbing, rows: &[u32]) {
        for (&row, &pauses) in rows.iter().zip(&own.pauses) {
            self.pauses[row as usize] = pauses;
        }
        for (job, since, until) in own.rests.into_iter().filter(|rest| rest.2 < f64::INFINITY) {
            let row = rows[job.index()];
            self.rested[row as usize] += until - since;
            self.rests.push(((row, since.to_bits()), until));
        }
        self.climbs.extend(own.climbs.iter().map(|climb| Climb { job: Job::new(rows[climb.job.index()]), ..*climb }));
    }

    /// Makes `waits_from` ready.
    pub(crate) fn sort(&mut self) {
        self.rests.sort_unstable_by_key(|rest| rest.0);
    }

    /// When a row's job began to wait whose stretch ended at that time, s: after its pause at a rung, if it had one.
    pub(crate) fn waits_from(&self, row: u32, end: f64) -> f64 {
        let found = self.rests.binary_search_by_key(&(row, end.to_bits()), |rest| rest.0);
        found.map_or(end, |at| self.rests[at].1)
    }
}
