//! Splits a cluster into virtual clusters: each has its own servers and jobs, and is replayed by itself.
//!
//! Invariant: every server and every job that is kept is in one part. For example, a cluster without virtual clusters
//! has one part, and if its rows are in order of submission their columns are read in place.

use super::ClusterSpec;
use crate::cluster::{FewestServers, Network, Tier, network_of};
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job};
use crate::options::Ties;
use crate::placement::Shape;
use crate::rng::{GOLDEN, SplitMix64};
use crate::trace::{Form, Jobs};

/// One virtual cluster's servers and jobs.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) servers: Vec<u32>,
    pub(crate) server_gpus: Vec<u32>,
    pub(crate) few: FewestServers,
    /// The network of its servers, and the tiers above them.
    pub(crate) network: Network,
    pub(crate) tiers: Vec<Tier>,
    pub(crate) shape: Shape,
    pub(crate) total: u64,
    /// The GPU type of each of its servers, and the servers of each type; where GPUs differ.
    pub(crate) server_types: Option<Vec<GpuType>>,
    pub(crate) pools: Vec<Pool>,
    /// Rows in order of fifo: (priority down, submit_time, row), ties of submission as the options say.
    pub(crate) rows: Vec<u32>,
    /// Its jobs, numbered by fifo, in order of arrival; `None` where that is the order of their numbers.
    pub(crate) arrivals: Option<Vec<Job>>,
    /// Whether that is the whole table in its own order.
    pub(crate) whole: bool,
}

impl Part {
    /// Groups its servers, and those of each GPU type. `forms`: those that occur.
    pub(super) fn group(&mut self, forms: &[Form]) {
        self.shape.group(&self.tiers, &self.server_gpus, forms);
        for (number, pool) in self.pools.iter_mut().enumerate() {
            let types = self.server_types.iter().flatten().enumerate();
            let own: Vec<u32> = types.filter(|(_, of)| of.index() == number).map(|(server, _)| server as u32).collect();
            let tiers: Vec<Tier> = self.tiers.iter().map(|tier| tier.of(&own)).collect();
            let gpus: Vec<u32> = own.iter().map(|&server| self.server_gpus[server as usize]).collect();
            pool.shape.group(&tiers, &gpus, forms);
        }
    }

    /// Sorts rows that are in order of arrival by priority, stably.
    fn put_by_priority(&mut self, jobs: &Jobs<'_>) {
        let tier = |at: &u32| jobs.tier(self.rows[*at as usize] as usize);
        let mut by_priority: Vec<u32> = (0..self.rows.len() as u32).collect();
        by_priority.sort_by_key(tier);
        let mut arrivals = vec![Job::NONE; self.rows.len()];
        for (job, &at) in by_priority.iter().enumerate() {
            arrivals[at as usize] = Job::at(job);
        }
        self.rows = by_priority.iter().map(|&at| self.rows[at as usize]).collect();
        self.arrivals = Some(arrivals);
        self.whole = false;
    }
}

/// The servers of one GPU type.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) few: FewestServers,
    pub(crate) shape: Shape,
    pub(crate) total: u64,
}

impl Pool {
    fn new(server_gpus: &[u32]) -> Self {
        Self {
            few: FewestServers::new(server_gpus),
            shape: Shape::new(server_gpus),
            total: server_gpus.iter().map(|&g| u64::from(g)).sum(),
        }
    }
}

/// Returns the servers of each virtual cluster, so far without jobs.
pub(crate) fn split(spec: &ClusterSpec<'_>) -> Result<Vec<Part>> {
    let servers = spec.server_gpus.len();
    let count = match spec.server_vc {
        None => 1,
        Some(vcs) => {
            if vcs.len() != servers {
                return Err(Error::ColumnLength { column: "server_vc", length: vcs.len(), expected: servers });
            }
            vcs.iter().max().map_or(0, |&v| v as usize + 1)
        }
    };
    let mut members = vec![Vec::new(); count];
    for s in 0..servers {
        members[spec.server_vc.map_or(0, |v| v[s] as usize)].push(s as u32);
    }
    if members.iter().any(Vec::is_empty) {
        return Err(Error::Option {
            name: "cluster",
            value: "a virtual cluster without servers".to_owned(),
            expected: "virtual clusters numbered without gaps".to_owned(),
        });
    }
    Ok(members
        .into_iter()
        .map(|servers| {
            let server_gpus: Vec<u32> = servers.iter().map(|&s| spec.server_gpus[s as usize]).collect();
            let server_types: Option<Vec<GpuType>> =
                spec.server_types.map(|types| servers.iter().map(|&s| types[s as usize]).collect());
            let tiers: Vec<Tier> = spec.tiers.iter().map(|tier| tier.of(&servers)).collect();
            Part {
                network: network_of(&spec.network, &tiers, &server_gpus),
                tiers,
                pools: server_types.as_ref().map_or_else(Vec::new, |types| pools(&server_gpus, types)),
                server_types,
                few: FewestServers::new(&server_gpus),
                shape: Shape::new(&server_gpus),
                total: server_gpus.iter().map(|&g| u64::from(g)).sum(),
                servers,
                server_gpus,
                rows: Vec::new(),
                arrivals: None,
                whole: false,
            }
        })
        .collect())
}

/// Returns the servers of each GPU type.
fn pools(server_gpus: &[u32], types: &[GpuType]) -> Vec<Pool> {
    let count = types.iter().map(|of| of.index() + 1).max().unwrap_or(0);
    let mut sizes = vec![Vec::new(); count];
    types.iter().zip(server_gpus).for_each(|(of, &gpus)| sizes[of.index()].push(gpus));
    sizes.iter().map(|sizes| Pool::new(sizes)).collect()
}

/// Returns each job's virtual cluster, checked; `None` if all are in the one cluster.
pub(crate) fn job_vcs<'a>(
    jobs: &Jobs<'_>,
    vc: Option<&'a [u32]>,
    spec: &ClusterSpec<'_>,
    parts: usize,
) -> Result<Option<&'a [u32]>> {
    if spec.server_vc.is_none() {
        return Ok(None);
    }
    let Some(vc) = vc else {
        return Err(Error::ColumnLength { column: "vc", length: 0, expected: jobs.len() });
    };
    if vc.len() != jobs.len() {
        return Err(Error::ColumnLength { column: "vc", length: vc.len(), expected: jobs.len() });
    }
    match vc.iter().position(|&v| v as usize >= parts) {
        None => Ok(Some(vc)),
        Some(row) => Err(Error::Value {
            row,
            column: "vc",
            value: vc[row].to_string(),
            expected: "a virtual cluster of the cluster",
        }),
    }
}

pub(super) fn order_by_fifo(jobs: &Jobs<'_>, parts: &mut [Part], ties: Ties) {
    let sorted = jobs.is_sorted();
    for part in parts {
        let submit = |&row: &u32| jobs.submit[row as usize];
        if !sorted {
            // Stable: rows of one submission time keep their order.
            part.rows.sort_by(|a, b| submit(a).total_cmp(&submit(b)));
        }
        for tied in part.rows.chunk_by_mut(|a, b| submit(a) == submit(b)) {
            match ties {
                Ties::Rows => break,
                Ties::Reverse => tied.reverse(),
                // A row's draw depends only on the seed and the row, not on which rows share its time.
                Ties::Shuffle(seed) => {
                    tied.sort_by_key(|&row| SplitMix64::new(seed ^ u64::from(row).wrapping_mul(GOLDEN)).next_u64());
                }
            }
        }
        part.whole = sorted && ties == Ties::Rows && part.rows.len() == jobs.len();
        if jobs.priority.is_some() {
            part.put_by_priority(jobs);
        }
    }
}
