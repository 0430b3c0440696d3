//! Trials: which search a job is of, and how its loss falls (docs/searches.md).

/// What searches read of the jobs, one value a job.
#[derive(Clone, Copy, Debug)]
pub struct Trials<'a> {
    /// The number of each job's search; `NO_SEARCH` for a job of none.
    pub search: &'a [u32],
    /// What the loss comes to in the end, what it begins with above that, inverted, and how fast it falls.
    pub curve: [&'a [f64]; 3],
}

/// The number of no search.
pub const NO_SEARCH: u32 = u32::MAX;

impl Trials<'_> {
    /// The loss of a row's job that has done a part of its work: a + 1 / (b + c part).
    #[must_use]
    pub fn loss(&self, row: usize, part: f64) -> f64 {
        let [end, start, fall] = self.curve;
        end[row] + 1.0 / (start[row] + fall[row] * part)
    }

    /// A copy of the chosen rows, in the order given.
    pub(super) fn gather(&self, rows: &[u32]) -> OwnedTrials {
        let take = |from: &[f64]| rows.iter().map(|&row| from[row as usize]).collect();
        OwnedTrials { search: rows.iter().map(|&row| self.search[row as usize]).collect(), curve: self.curve.map(take) }
    }
}

/// Columns that own their values.
#[derive(Clone, Debug, Default)]
pub struct OwnedTrials {
    /// See [`Trials::search`].
    pub search: Vec<u32>,
    /// See [`Trials::curve`].
    pub curve: [Vec<f64>; 3],
}

impl OwnedTrials {
    /// The columns, borrowed.
    #[must_use]
    pub fn view(&self) -> Trials<'_> {
        let [a, b, c] = &self.curve;
        Trials { search: &self.search, curve: [a, b, c] }
    }
}
