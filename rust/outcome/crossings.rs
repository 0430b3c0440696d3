//! Holds what jobs met of a network of tiers.
//!
//! Invariant: every column has a value for each job, or all are empty. For example, a job that never spanned has a
//! bandwidth of 0.

/// Columns by job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Crossings {
    /// Whether there are tiers, not only links of GPUs or intensities.
    pub tiers: bool,
    /// The largest number of contenders met at an uplink; 0 where none was crossed.
    pub most: Vec<f64>,
    /// Time that uplinks cost, s.
    pub uplinks: Vec<f64>,
    /// The bandwidth of its last stay that spanned, bytes/s, if it had been alone and without uplinks.
    pub own: Vec<f64>,
    /// Whether others, or an uplink, ever left it less.
    pub slowed: Vec<bool>,
}

impl Crossings {
    pub(crate) fn new(jobs: usize, tiers: bool) -> Self {
        Self { tiers, most: vec![0.0; jobs], uplinks: vec![0.0; jobs], own: vec![0.0; jobs], slowed: vec![false; jobs] }
    }

    /// Takes the values of the jobs of a part, which are these rows.
    pub(crate) fn take(&mut self, part: &Self, rows: &[u32]) {
        for (j, &row) in rows.iter().enumerate() {
            let row = row as usize;
            (self.most[row], self.uplinks[row]) = (part.most[j], part.uplinks[j]);
            (self.own[row], self.slowed[row]) = (part.own[j], part.slowed[j]);
        }
    }
}
