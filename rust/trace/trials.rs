//! Trials: which search a job is of, and how its loss falls (docs/searches.md).

use super::columns::columns;

columns! {
    /// What searches read of the jobs, one value a job.
    Trials, OwnedTrials;
    /// The number of each job's search; `NO_SEARCH` for a job of none.
    search: all u32 = "group";
    /// What the loss comes to in the end.
    end: all f64 = "loss";
    /// What it begins with above that, inverted.
    start: all f64 = "loss";
    /// How fast it falls.
    fall: all f64 = "loss";
}

/// The number of no search.
pub const NO_SEARCH: u32 = u32::MAX;

impl Trials<'_> {
    /// The loss of a row's job that has done a part of its work: a + 1 / (b + c part).
    #[must_use]
    pub fn loss(&self, row: usize, part: f64) -> f64 {
        self.end[row] + 1.0 / (self.start[row] + self.fall[row] * part)
    }
}
