//! Keeps the sums of all jobs. A job that ran through once has few sums and takes little memory.
//!
//! Invariant: either `own` has the sums of a job, or the job ran through once, and every sum not in `held` and `waits`
//! is zero. For example, of three jobs of which the second was preempted, `own` has the sums of the second, after those
//! of a job without stays.

use super::Why;
use super::fold::Sums;
use super::table::{Wait, behind};

/// The sums over the stays of each job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SumsByJob {
    /// The place of each job in `own`.
    places: Vec<u32>,
    own: Vec<Sums>,
    /// For jobs that ran through once, the time on GPUs, and the same times GPUs.
    held: Vec<(f64, f64)>,
    /// Their waits, once known.
    waits: Vec<Once>,
}

/// The wait of a job that ran through once, and its wait causes, s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Once {
    waiting: f64,
    waited: (f64, f64),
}

/// Stands for a job that ran through once.
const THROUGH: u32 = u32::MAX;

impl SumsByJob {
    /// Returns the sums of jobs without stays: all at place 0, with these sums.
    pub(crate) fn without_stays(jobs: usize, sums: Sums) -> Self {
        Self { places: vec![0; jobs], own: vec![sums], held: vec![(0.0, 0.0); jobs], waits: Vec::new() }
    }

    /// Returns the sums of a job, to add a stay to.
    pub(crate) fn add_to(&mut self, job: usize) -> &mut Sums {
        if self.places[job] == 0 {
            self.places[job] = self.own.len() as u32;
            self.own.push(Sums::default());
        }
        &mut self.own[self.places[job] as usize]
    }

    /// Returns whether the job has a stay.
    pub(crate) fn has_run(&self, job: usize) -> bool {
        self.places[job] != 0
    }

    /// Notes that a job ran through once and held GPUs for so long; machine time.
    pub(crate) fn run_through(&mut self, job: usize, held: f64, gpus: f64) {
        self.places[job] = THROUGH;
        self.held[job] = (held, gpus * held);
    }

    /// Converts clock time to seconds.
    pub(crate) fn convert_times(&mut self, seconds: impl Fn(f64) -> f64) {
        for sums in &mut self.own {
            for time in
                [&mut sums.held, &mut sums.paused, &mut sums.held_gpus, &mut sums.paused_gpus, &mut sums.guest_gpus]
            {
                *time = seconds(*time);
            }
        }
        for (held, held_gpus) in &mut self.held {
            (*held, *held_gpus) = (seconds(*held), seconds(*held_gpus));
        }
    }

    /// Takes over the sums of a part, whose jobs are these rows. `waited`: the wait causes of the single stay of a job
    /// that ran through, s.
    pub(crate) fn take(&mut self, part: Self, rows: &[u32], waited: &[(f64, f64)]) {
        let before = self.own.len() as u32;
        self.own.extend(part.own);
        self.waits.resize(self.len(), Once::default());
        // A part that did not run has none.
        for (j, (&row, &place)) in rows.iter().zip(&part.places).enumerate() {
            self.places[row as usize] = if place == THROUGH { THROUGH } else { before + place };
            self.held[row as usize] = part.held[j];
            self.waits[row as usize].waited = waited[j];
        }
    }

    /// Adds a wait before a stay.
    pub(crate) fn add_wait(&mut self, job: usize, wait: Wait) {
        if self.places[job] == THROUGH {
            self.waits[job].waiting = wait.waiting;
            return;
        }
        let sums = self.add_to(job);
        sums.waiting += wait.waiting;
        sums.behind += wait.behind;
        sums.rested += wait.rested;
    }

    /// Returns the wait causes of a job, s: too few idle GPUs, and enough that could not be used.
    pub(crate) fn waited(&self, job: usize) -> (f64, f64) {
        let place = self.places[job];
        if place == THROUGH { self.waits[job].waited } else { self.own[place as usize].waited }
    }

    /// Returns the number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the sums of a job.
    #[must_use]
    pub fn of(&self, job: usize) -> Sums {
        let place = self.places[job];
        if place != THROUGH {
            return self.own[place as usize];
        }
        let (held, held_gpus) = self.held[job];
        let Once { waiting, waited } = self.waits.get(job).copied().unwrap_or_default();
        let mut sums = Sums { held, held_gpus, waiting, behind: behind(waiting, waited), waited, ..Sums::default() };
        sums.ended[Why::Done.code() as usize] = 1;
        sums
    }

    /// Returns the sums of all jobs.
    pub fn iter(&self) -> impl Iterator<Item = Sums> + '_ {
        (0..self.len()).map(|job| self.of(job))
    }
}
