//! Decision logs by part, and the parts' logs as one.
//!
//! Invariant: the decisions of a part keep their order. At one time, those of an earlier part come first. For example,
//! say a part has rows 5 and 7 and servers 3 and 4. A start of row 7 on server 3 is a start of job 1 on server 0
//! there.

use super::ClusterSpec;
use super::parts::Part;
use crate::decisions::{DecisionLog, NO_SERVER};
use crate::error::{Error, Result};
use crate::trace::Jobs;

/// A part's decisions, with the numbers that jobs and servers have there.
#[derive(Clone, Debug, Default)]
pub(super) struct Dealt {
    pub(super) log: DecisionLog,
    /// Each decision's row in the caller's log.
    rows: Vec<usize>,
}

impl Dealt {
    /// The part's error in the caller's rows.
    pub(super) fn tell(&self, mut error: Error) -> Error {
        if let Error::Decision { at: Some(at), .. } = &mut error {
            *at = self.rows[*at];
        }
        error
    }
}

/// A log's decisions by cluster.
pub(super) fn deal_out(
    log: &DecisionLog,
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    parts: &[Part],
    spec: &ClusterSpec<'_>,
) -> Result<Vec<Dealt>> {
    log.validate(jobs.len(), spec.server_gpus.len())?;
    let mut number = vec![NO_SERVER; jobs.len()];
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
    for at in 0..log.len() {
        let (row, verb) = (log.job[at] as usize, log.verb[at]);
        let home = vc.map_or(0, |vc| vc[row] as usize);
        let fail = |why: &str| {
            let (verb, time, why) = (verb.name(), log.time[at], why.to_owned());
            Error::Decision { row, verb, time, why, at: Some(at) }
        };
        if number[row] == NO_SERVER {
            return Err(fail("the job is left out of the run"));
        }
        let Dealt { log: own, rows } = &mut logs[home];
        let mut server = NO_SERVER;
        if log.server[at] != NO_SERVER {
            let (of, index) = place[log.server[at] as usize];
            if of != home {
                return Err(fail("the server is of another virtual cluster"));
            }
            server = index;
        }
        rows.push(at);
        own.time.push(log.time[at]);
        own.verb.push(verb);
        own.job.push(number[row]);
        own.server.push(server);
        own.num_gpus.push(log.num_gpus[at]);
    }
    Ok(logs)
}

/// Adds what was decided in a cluster, with the caller's numbers.
pub(super) fn append(log: &mut DecisionLog, own: &DecisionLog, part: &Part) {
    log.time.extend(&own.time);
    log.verb.extend(&own.verb);
    log.job.extend(own.job.iter().map(|&job| part.rows[job as usize]));
    let server = |&server: &u32| part.servers.get(server as usize).copied().unwrap_or(NO_SERVER);
    log.server.extend(own.server.iter().map(server));
    log.num_gpus.extend(&own.num_gpus);
}

/// The decisions of several clusters by time; at one time, cluster by cluster.
pub(super) fn by_time(log: &DecisionLog) -> DecisionLog {
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_by(|&a, &b| log.time[a].total_cmp(&log.time[b]));
    fn take<T: Copy>(column: &[T], order: &[usize]) -> Vec<T> {
        order.iter().map(|&row| column[row]).collect()
    }
    DecisionLog {
        time: take(&log.time, &order),
        verb: take(&log.verb, &order),
        job: take(&log.job, &order),
        server: take(&log.server, &order),
        num_gpus: take(&log.num_gpus, &order),
    }
}
