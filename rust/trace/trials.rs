//! Defines trials: the search of each job, and how its loss falls (docs/searches.md).

use super::columns::columns;

columns! {
    /// The search columns of the jobs, one value per job.
    Trials, OwnedTrials;
    /// The number of each job's search; `NO_SEARCH` for a job without one.
    search: all u32 = "group";
    /// The final loss, a.
    end: all f64 = "loss";
    /// The inverse of the initial loss above that, b.
    start: all f64 = "loss";
    /// How fast the loss falls, c.
    fall: all f64 = "loss";
}

/// Stands for no search.
pub const NO_SEARCH: u32 = u32::MAX;

impl Trials<'_> {
    /// Returns the loss of a row's job after a `part` of its work: a + 1 / (b + c part).
    #[must_use]
    pub fn loss(&self, row: usize, part: f64) -> f64 {
        self.end[row] + 1.0 / (self.start[row] + self.fall[row] * part)
    }
}
