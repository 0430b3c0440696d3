//! Defines chains: which job arrives after another, and how long after its end (docs/chains.md).

use super::columns::columns;
use crate::error::{Error, Result};

columns! {
    /// The chains of the jobs, one value per job.
    Chains, OwnedChains;
    /// The caller's row of the job after which each arrives; `NO_ROW` for a job that depends on none.
    after: all u32 = "after";
    /// Seconds from its end to the arrival; NaN where none is known. Named otherwise than the column, which has no NaN.
    think_time: all f64 = "think times";
}

/// Stands for no predecessor.
pub const NO_ROW: u32 = u32::MAX;

impl Chains<'_> {
    /// Returns the row of a row's predecessor, if it has one.
    #[inline]
    #[must_use]
    pub fn before(&self, row: usize) -> Option<usize> {
        let before = self.after[row];
        (before != NO_ROW).then_some(before as usize)
    }

    /// Checks that every predecessor is a row, that think times are not negative, and that no rows form a circle.
    ///
    /// # Errors
    /// `Value`, for the lowest offending row.
    pub(super) fn validate(&self) -> Result<()> {
        let rows = self.after.len();
        let fault = |row, column, value: String, expected| Err(Error::Value { row, column, value, expected });
        // The row from which each was reached first: a row reached again from the same start closes a circle.
        let mut reached_from = vec![NO_ROW; rows];
        for row in 0..rows {
            let (before, think_time) = (self.after[row], self.think_time[row]);
            if before != NO_ROW && before as usize >= rows {
                return fault(row, "after", before.to_string(), "a row of the job table");
            }
            if !think_time.is_nan() && (before == NO_ROW || !(0.0..f64::INFINITY).contains(&think_time)) {
                return fault(
                    row,
                    "think_time",
                    format!("{think_time:?}"),
                    "a finite number of seconds >= 0, beside after",
                );
            }
        }
        for row in 0..rows {
            let mut next = Some(row);
            while let Some(at) = next.filter(|&at| reached_from[at] == NO_ROW) {
                reached_from[at] = row as u32;
                next = self.before(at);
            }
            if let Some(at) = next
                && reached_from[at] == row as u32
            {
                let mut lowest = at;
                let mut other = self.before(at);
                while let Some(next) = other.filter(|&next| next != at) {
                    lowest = lowest.min(next);
                    other = self.before(next);
                }
                return fault(lowest, "after", self.after[lowest].to_string(), "a job that is not after itself");
            }
        }
        Ok(())
    }
}
