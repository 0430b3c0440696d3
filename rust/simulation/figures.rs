//! Fills columns with numbers of every job that change as it runs; only the rows that changed are written.
//!
//! Invariant: a column that was filled before is right for every job that did not run then, does not run now and did
//! not run in between. For example, of 200,000 jobs with 30 on GPUs, a column costs some 30 rows.

use super::{Course, Paused};
use crate::ids::Job;
use crate::machine::{ClusterState, Stay};
use crate::speed::Speed;

/// A number of every job that changes as it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// GPUs held.
    Held,
    /// GPU-seconds held so far.
    Attained,
    /// Work left: iterations, or recorded seconds under `fixed`.
    Left,
    /// Run time left on one server without contention, s.
    Remaining,
    /// Run time of the whole job on one server without contention, s.
    Rho,
}

impl Figure {
    /// All figures, by number.
    pub const ALL: [Self; 5] = [Self::Held, Self::Attained, Self::Left, Self::Remaining, Self::Rho];
}

impl Course {
    /// Updates a column of a figure, one value per row of the table: rows that did not change are not touched.
    pub fn fill(&mut self, figure: Figure, column: &mut [f64]) {
        let (rows, known) = (&self.inputs.rows, &mut self.filled[figure as usize]);
        each!(self.machine.get(), machine => {
            let state = &machine.state;
            let records = state.records();
            let mut set = |job: Job, value: f64| column[rows[job.index()] as usize] = value;
            match known {
                None => (0..rows.len()).map(Job::at).for_each(|job| set(job, at_rest(state, figure, job))),
                Some((ran, seen)) => {
                    let since = records[*seen..].iter().map(|records| records.job);
                    ran.iter().copied().chain(since).for_each(|job| set(job, at_rest(state, figure, job)));
                }
            }
            let mut running = known.take().map(|(ran, _)| ran).unwrap_or_default();
            running.clear();
            for stay in state.stays.iter().filter(|stay| stay.is_live()) {
                set(stay.job, on_gpus(state, figure, stay));
                running.push(stay.job);
            }
            *known = Some((running, records.len()));
        });
    }
}

/// Returns a figure of a job that holds no GPUs.
fn at_rest<S: Speed>(state: &ClusterState<'_, S>, figure: Figure, job: Job) -> f64 {
    match figure {
        Figure::Held => 0.0,
        Figure::Rho => state.estimate(job),
        Figure::Attained => state.attained(job),
        Figure::Left | Figure::Remaining if state.is_done(job) && state.left(job) == 0.0 => 0.0,
        Figure::Left => state.left_at_rest(job),
        Figure::Remaining => state.remaining(job),
    }
}

/// Returns a figure of a running job.
fn on_gpus<S: Speed>(state: &ClusterState<'_, S>, figure: Figure, stay: &Stay<S::Pace>) -> f64 {
    match figure {
        Figure::Held => stay.parts.iter().map(|part| f64::from(part.1)).sum(),
        Figure::Rho => state.estimate(stay.job),
        Figure::Attained => state.attained_of(stay),
        Figure::Left => state.left_of(stay),
        Figure::Remaining => state.remaining_of(stay),
    }
}
