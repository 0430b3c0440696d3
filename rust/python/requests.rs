//! Reads the requests of services from Python, and returns their answers.

use super::results::Table;
use crate::outcome::Answered;
use crate::serving::{Answering, Batch, Kind, ServiceKeys, Target, Tokens};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;

/// A service: startup and drain, s; sizes of batches and their seconds, and `max_wait`; or the keys of tokens; and
/// those of its autoscaler.
type ServiceRow = (f64, f64, Option<BatchRow>, Option<TokensRow>, Option<TargetRow>);
type BatchRow = (Vec<(u32, f64)>, f64);
type TokensRow = (f64, f64, f64, f64, u64, u64, Option<u64>);
type TargetRow = (f64, u32, u32, f64, f64, f64);

/// The services that answer requests, the relative speed of each server, and the requests.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(super) struct RequestColumns<'py> {
    services: Vec<ServiceRow>,
    speeds: PyReadonlyArray1<'py, f64>,
    service: PyReadonlyArray1<'py, u32>,
    arrival: PyReadonlyArray1<'py, f64>,
    input_tokens: PyReadonlyArray1<'py, u32>,
    output_tokens: PyReadonlyArray1<'py, u32>,
    cached_tokens: PyReadonlyArray1<'py, u32>,
}

impl RequestColumns<'_> {
    pub(super) fn read(&self) -> PyResult<Answering> {
        let cached = self.cached_tokens.as_slice()?;
        // Where nothing is cached no column is needed.
        let any_cached = cached.iter().any(|&tokens| tokens > 0);
        Ok(Answering {
            services: self.services.iter().map(service).collect(),
            speeds: self.speeds.as_slice()?.to_vec(),
            service: self.service.as_slice()?.to_vec(),
            arrival: self.arrival.as_slice()?.to_vec(),
            input_tokens: self.input_tokens.as_slice()?.to_vec(),
            output_tokens: self.output_tokens.as_slice()?.to_vec(),
            cached_tokens: if any_cached { cached.to_vec() } else { Vec::new() },
        })
    }
}

fn service((startup, drain, batch, tokens, target): &ServiceRow) -> ServiceKeys {
    let kind = match (batch, *tokens) {
        (None, Some((step, prefill, decode, context, max_running, kv_tokens, max_step_tokens))) => {
            Kind::Tokens(Tokens { step, prefill, decode, context, max_running, kv_tokens, max_step_tokens })
        }
        (batch, _) => {
            let (seconds, max_wait) = batch.clone().unwrap_or_default();
            Kind::Batch(Batch { seconds, max_wait })
        }
    };
    let target = target.map(|(target, min, max, every, tolerance, down_after)| Target {
        target,
        min,
        max,
        every,
        tolerance,
        down_after,
    });
    ServiceKeys { kind, startup: *startup, drain: *drain, target }
}

/// Adds the answers to the tables of a run.
pub(super) fn answers(py: Python<'_>, tables: &Bound<'_, pyo3::types::PyDict>, answered: Answered) -> PyResult<()> {
    let Answered { answers, begun_anew, end, samples } = answered;
    let table = Table::new(py);
    table.column("replica", answers.replica)?;
    table.column("start", answers.start)?;
    table.column("first_token", answers.first_token)?;
    table.column("finish", answers.finish)?;
    tables.set_item("requests", table.0)?;
    let (table, rows) = (Table::new(py), &answers.cut_short);
    table.of("row", rows, |&(row, ..)| row)?;
    table.of("start", rows, |&(_, start, _)| start)?;
    table.of("end", rows, |&(.., end)| end)?;
    tables.set_item("cut_short", table.0)?;
    let table = Table::new(py);
    table.column("begun_anew", begun_anew)?;
    table.column("end", vec![end])?;
    table.column("time", samples)?;
    tables.set_item("serving", table.0)
}
