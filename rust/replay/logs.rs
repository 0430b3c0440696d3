//! Splits decision logs by part, and merges the parts' logs into one.
//!
//! Invariant: the decisions of a part keep their order. At one time, those of an earlier part come first. For
//! example, if a part has rows 5 and 7 and servers 3 and 4, a start of row 7 on server 3 is a start of job 1 on
//! server 0 there.

use super::ClusterSpec;
use super::parts::Part;
use crate::decisions::{DecisionLog, NONE, Row, Verb};
use crate::error::{Error, Result};
use crate::trace::Jobs;

/// A part's decisions, with the part's numbers of jobs and servers.
#[derive(Clone, Debug, Default)]
pub(super) struct Dealt {
    pub(super) log: DecisionLog,
    /// Each decision's row in the caller's log.
    rows: Vec<usize>,
}

impl Dealt {
    /// Translates the part's error to the caller's rows.
    pub(super) fn tell(&self, mut error: Error) -> Error {
        if let Error::Decision { at: Some(at), .. } = &mut error {
            *at = self.rows[*at];
        }
        error
    }
}

/// Splits a log's decisions by cluster.
pub(super) fn deal_out(
    log: &DecisionLog,
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    parts: &[Part],
    spec: &ClusterSpec<'_>,
) -> Result<Vec<Dealt>> {
    log.validate(jobs.len(), spec.server_gpus.len())?;
    let mut number = vec![NONE; jobs.len()];
    let mut place = vec![(0, 0); spec.server_gpus.len()];
    for (index, part) in parts.iter().enumerate() {
        for (own, &row) in (0..).zip(&part.rows) {
            number[row as usize] = own;
        }
        for (own, &server) in (0..).zip(&part.servers) {
            place[server as usize] = (index, own);
        }
    }
    let mut logs = vec![Dealt::default(); parts.len()];
    logs.iter_mut().for_each(|dealt| dealt.log.runs_through = log.runs_through);
    for (at, row) in log.rows.iter().enumerate() {
        let fail = |why: &str| {
            let (verb, time, why) = (row.verb.name(), row.time, why.to_owned());
            Error::Decision { row: row.job as usize, verb, time, why, at: Some(at) }
        };
        let mut own = *row;
        let home = if row.verb.is_of_server() {
            place[row.server as usize].0
        } else {
            own.job = number[row.job as usize];
            if own.job == NONE {
                return Err(fail("the job is left out of the run"));
            }
            vc.map_or(0, |vc| vc[row.job as usize] as usize)
        };
        if row.server != NONE {
            let there = place.get(row.server as usize).filter(|place| place.0 == home);
            own.server = there.ok_or_else(|| fail("the server is of another virtual cluster"))?.1;
        }
        if row.verb == Verb::Evicted && row.service == NONE {
            own.by = number[row.by as usize];
        }
        if row.beside != NONE {
            own.beside = number[row.beside as usize];
        }
        logs[home].rows.push(at);
        logs[home].log.rows.push(own);
    }
    Ok(logs)
}

/// Adds what happened in a cluster, with the caller's numbers.
pub(super) fn append(log: &mut DecisionLog, own: &DecisionLog, part: &Part) {
    let job = |job: u32| part.rows.get(job as usize).copied().unwrap_or(NONE);
    log.rows.extend(own.rows.iter().map(|row| Row {
        job: job(row.job),
        server: part.servers.get(row.server as usize).copied().unwrap_or(NONE),
        beside: job(row.beside),
        by: if row.verb == Verb::Evicted { job(row.by) } else { row.by },
        ..*row
    }));
}

/// Sorts what happened in several clusters by time; at one time, cluster by cluster.
pub(super) fn sort(log: &mut DecisionLog) {
    log.rows.sort_by(|a, b| a.time.total_cmp(&b.time));
}
