//! The side tables of a run as the engine has them: who hands one on to a part of the run, or keeps it, does so here.
//!
//! Invariant: `None` is a run that knows no such table. For example, [`SideTables::of`] gives a virtual cluster the
//! outages of its own servers, and each of its jobs the quota that it had in the whole table.

use super::{Load, Outage, Quota, Quotas, Services};
use crate::ids::Server;

/// What a run knows beside its jobs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideTables<'a> {
    /// When servers are down.
    pub outages: Option<&'a [Outage]>,
    /// Those of them that are known ahead, as maintenance is.
    pub maintenance: Option<&'a [Outage]>,
    /// What owners may hold.
    pub quotas: Option<Quotas<'a>>,
    /// What services want.
    pub services: Option<Services<'a>>,
}

/// The same, kept.
#[derive(Clone, Debug, Default)]
pub struct OwnedSideTables {
    /// As [`SideTables`] has them.
    pub outages: Option<Vec<Outage>>,
    /// As [`SideTables`] has it.
    pub maintenance: Option<Vec<Outage>>,
    /// The place of each job's owner, and a quota an owner.
    pub quotas: Option<(Vec<u32>, Vec<Quota>)>,
    /// GPUs of a replica of each service, and the loads.
    pub services: Option<(Vec<u32>, Vec<Load>)>,
}

impl OwnedSideTables {
    /// To be read.
    pub fn view(&self) -> SideTables<'_> {
        SideTables {
            outages: self.outages.as_deref(),
            maintenance: self.maintenance.as_deref(),
            quotas: self.quotas.as_ref().map(|(owner, list)| Quotas { owner, list }),
            services: self.services.as_ref().map(|(gpus, loads)| Services { gpus, loads }),
        }
    }
}

impl SideTables<'_> {
    /// What a run of these servers, in ascending order, and of the jobs in these rows knows, as it numbers them.
    pub(crate) fn of(&self, servers: &[u32], rows: &[u32]) -> OwnedSideTables {
        let outages = |outages: &[Outage]| {
            let own = |outage: &Outage| {
                let server = servers.binary_search(&outage.server.number()).ok()?;
                Some(Outage { server: Server::at(server), ..*outage })
            };
            outages.iter().filter_map(own).collect()
        };
        let quotas = |quotas: Quotas<'_>| {
            let owner = rows.iter().map(|&row| quotas.owner[row as usize]).collect();
            (owner, quotas.list.to_vec())
        };
        OwnedSideTables {
            outages: self.outages.map(outages),
            maintenance: self.maintenance.map(outages),
            quotas: self.quotas.map(quotas),
            services: self.services.map(|services| (services.gpus.to_vec(), services.loads.to_vec())),
        }
    }
}
