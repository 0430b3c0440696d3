//! The columns of requests and of their answers.
//!
//! Invariant: a request without an answer has no finish (NaN). Writing to answers without rows does nothing. For
//! example, of two requests of which the first is answered at 5 s, `finish` is 5 and NaN.

use super::keys::Kind;
use crate::error::{Error, Result};
use std::sync::Arc;

/// The columns of requests, in any order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Requests<'a> {
    /// The service, by its place.
    pub service: &'a [u32],
    /// When it arrives, s.
    pub arrival: &'a [f64],
    /// Input tokens; empty without services of tokens.
    pub input_tokens: &'a [u32],
    /// Output tokens; empty without services of tokens.
    pub output_tokens: &'a [u32],
    /// Input tokens found in a cache; empty if there are none.
    pub cached_tokens: &'a [u32],
}

/// Stands for no replica.
pub const NO_REPLICA: u32 = u32::MAX;

/// Who answered what, one row per request. Of a request without an answer times are NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// The number of the replica among those of its service.
    pub replica: Vec<u32>,
    /// When the replica took it, s.
    pub start: Vec<f64>,
    /// When it had its first output token, s; NaN of a batch.
    pub first_token: Vec<f64>,
    /// When it was answered, s.
    pub finish: Vec<f64>,
    /// Attempts that a replica's end cut short: (row, start, end of the replica).
    pub cut_short: Vec<(u32, f64, f64)>,
}

/// The requests of a service in the order of (arrival, row). Positions in that order stand for requests.
#[derive(Clone, Debug)]
pub(super) struct Arrivals<'a> {
    requests: Requests<'a>,
    rows: Arc<[u32]>,
}

impl<'a> Requests<'a> {
    pub(super) fn check(&self, kinds: &[Kind]) -> Result<()> {
        let rows = self.arrival.len();
        let has_tokens = kinds.iter().any(|kind| matches!(kind, Kind::Tokens(_)));
        let columns = [
            ("service", self.service.len(), false),
            ("input_tokens", self.input_tokens.len(), !has_tokens),
            ("output_tokens", self.output_tokens.len(), !has_tokens),
            ("cached_tokens", self.cached_tokens.len(), true),
        ];
        for (column, length, may_be_empty) in columns {
            if length != rows && !(may_be_empty && length == 0) {
                return Err(Error::ColumnLength { column, length, expected: rows });
            }
        }
        for row in 0..rows {
            let refuse = |column, value: String, expected| Err(Error::Value { row, column, value, expected });
            let (service, arrival) = (self.service[row], self.arrival[row]);
            if !(0.0..=4_294_967_296.0).contains(&arrival) {
                return refuse("arrival", arrival.to_string(), "0 to 2^32 s");
            }
            let Some(kind) = kinds.get(service as usize) else {
                return refuse("service", service.to_string(), "a service");
            };
            let Kind::Tokens(keys) = kind else { continue };
            let (input, output, cached) = (self.input_tokens[row], self.output_tokens[row], self.cached(row));
            if output == 0 {
                return refuse("output_tokens", output.to_string(), "at least 1");
            }
            if cached > input {
                return refuse("cached_tokens", cached.to_string(), "at most input_tokens");
            }
            if self.total(row) > keys.kv_tokens {
                return refuse("input_tokens", input.to_string(), "with output_tokens at most kv_tokens");
            }
        }
        Ok(())
    }

    fn cached(&self, row: usize) -> u32 {
        self.cached_tokens.get(row).copied().unwrap_or(0)
    }

    fn total(&self, row: usize) -> u64 {
        u64::from(self.input_tokens[row]) + u64::from(self.output_tokens[row])
    }

    /// Returns the requests of each of so many services.
    pub(super) fn arrivals(self, services: usize) -> Vec<Arrivals<'a>> {
        let mut lengths = vec![0; services];
        for &service in self.service {
            lengths[service as usize] += 1;
        }
        let mut arrivals: Vec<Vec<u32>> = lengths.into_iter().map(Vec::with_capacity).collect();
        for (row, &service) in self.service.iter().enumerate() {
            arrivals[service as usize].push(row as u32);
        }
        let arrival = |row: &u32| self.arrival[*row as usize];
        for rows in &mut arrivals {
            if !rows.is_sorted_by_key(arrival) {
                rows.sort_by(|one, other| arrival(one).total_cmp(&arrival(other)));
            }
        }
        arrivals.into_iter().map(|rows| Arrivals { requests: self, rows: rows.into() }).collect()
    }
}

impl Arrivals<'_> {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    #[inline]
    pub(super) fn row(&self, request: u32) -> usize {
        self.rows[request as usize] as usize
    }

    #[inline]
    pub(super) fn arrival(&self, request: u32) -> f64 {
        self.requests.arrival[self.row(request)]
    }

    /// Returns the input tokens, cached ones included.
    #[inline]
    pub(super) fn input(&self, request: u32) -> u64 {
        u64::from(self.requests.input_tokens[self.row(request)])
    }

    /// Returns the input tokens that are not cached.
    #[inline]
    pub(super) fn prompt(&self, request: u32) -> u64 {
        let row = self.row(request);
        u64::from(self.requests.input_tokens[row] - self.requests.cached(row))
    }

    /// Returns input and output tokens.
    #[inline]
    pub(super) fn total(&self, request: u32) -> u64 {
        self.requests.total(self.row(request))
    }
}

impl Answers {
    pub(super) fn new(rows: usize) -> Self {
        Self {
            replica: vec![NO_REPLICA; rows],
            start: vec![f64::NAN; rows],
            first_token: vec![f64::NAN; rows],
            finish: vec![f64::NAN; rows],
            cut_short: Vec::new(),
        }
    }

    /// Notes that a request that a replica had taken was given back.
    pub(super) fn give_back(&mut self, row: usize, now: f64) {
        if let Some(start) = self.start.get_mut(row) {
            self.cut_short.push((row as u32, *start, now));
            *start = f64::NAN;
            self.first_token[row] = f64::NAN;
            self.replica[row] = NO_REPLICA;
        }
    }
}
