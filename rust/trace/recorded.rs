//! Holds when jobs started in the log of a cluster, and on which servers.
//!
//! Invariant: the GPUs of a known place are as many as its job requests. For example, a job of 8 GPUs that ran on half
//! of servers 0 and 3 has the place (0, 4), (3, 4).

use crate::error::{Error, Result};
use crate::ids::Server;

/// The recorded start and place of every job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// When each job started, s.
    pub start: Vec<f64>,
    /// Where the parts of each job begin; then where the last ones end.
    first: Vec<u32>,
    /// (server, GPUs); none for a job whose place is unknown.
    parts: Vec<(Server, u32)>,
}

impl Recorded {
    /// No jobs.
    pub(crate) const NONE: Self = Self { start: Vec::new(), first: Vec::new(), parts: Vec::new() };

    /// Returns the starts, s, and the places: (row, server, GPUs), in order of rows.
    ///
    /// # Errors
    /// `Value` for a row without such a job, or before the one above it.
    pub fn new(start: Vec<f64>, places: impl IntoIterator<Item = (u32, u32, u32)>) -> Result<Self> {
        let (mut first, mut parts) = (Vec::with_capacity(start.len() + 1), Vec::new());
        first.push(0);
        for (row, server, gpus) in places {
            let row = row as usize;
            if row >= start.len() || row + 1 < first.len() {
                let (value, expected) = (row.to_string(), "rows of the job table, in order");
                return Err(Error::Value { row, column: "recorded_servers", value, expected });
            }
            first.resize(row + 1, parts.len() as u32);
            parts.push((Server::new(server), gpus));
        }
        first.resize(start.len() + 1, parts.len() as u32);
        Ok(Self { start, first, parts })
    }

    /// Returns the recorded place of a row's job; empty if it is unknown.
    #[inline]
    #[must_use]
    pub fn place(&self, row: usize) -> &[(Server, u32)] {
        &self.parts[self.first[row] as usize..self.first[row + 1] as usize]
    }

    /// Returns the chosen rows, with servers as places in `servers`. Beyond them: a server that is none of these.
    pub(crate) fn of(&self, rows: &[u32], servers: &[u32]) -> Self {
        let own = |server: Server| servers.binary_search(&server.number()).map_or(Server::NONE, Server::at);
        let mut chosen = Self { start: Vec::with_capacity(rows.len()), first: vec![0], parts: Vec::new() };
        for row in rows.iter().map(|&row| row as usize) {
            chosen.start.push(self.start[row]);
            chosen.parts.extend(self.place(row).iter().map(|&(server, gpus)| (own(server), gpus)));
            chosen.first.push(chosen.parts.len() as u32);
        }
        chosen
    }

    /// Checks that every job has a start, not before its submission, and a place of `num_gpus` GPUs or none.
    ///
    /// # Errors
    /// `ColumnLength` or `Value`, for the lowest offending row of a column.
    pub(crate) fn validate(&self, submit: &[f64], num_gpus: &[u32]) -> Result<()> {
        let (column, length) = ("recorded_start", self.start.len());
        if length != submit.len() {
            return Err(Error::ColumnLength { column, length, expected: submit.len() });
        }
        if let Some(row) = (0..length).find(|&row| !(submit[row] <= self.start[row] && self.start[row].is_finite())) {
            let (value, expected) = (format!("{:?}", self.start[row]), "a time not before submit_time");
            return Err(Error::Value { row, column, value, expected });
        }
        let held = |row: usize| self.place(row).iter().map(|&(_, gpus)| u64::from(gpus)).sum::<u64>();
        let is_other = |asked: &(usize, &u32)| !self.place(asked.0).is_empty() && held(asked.0) != u64::from(*asked.1);
        if let Some((row, _)) = num_gpus.iter().enumerate().take(length).find(is_other) {
            let (value, expected) = (held(row).to_string(), "num_gpus GPUs");
            return Err(Error::Value { row, column: "recorded_servers", value, expected });
        }
        Ok(())
    }
}
