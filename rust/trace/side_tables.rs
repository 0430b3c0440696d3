//! Holds the side tables of a run in the engine's form. Passing them to a part of the run, or keeping them, happens
//! here.
//!
//! Invariant: `None` means that the run has no such table. For example, [`SideTables::of`] gives a virtual cluster the
//! outages of its own servers, and each of its jobs the quota that it had in the whole table.

use super::{Load, Outage, OwnedQuotas, Quotas, Services};
use crate::ids::Server;
use crate::serving::Answering;
use std::sync::Arc;

/// The side tables of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct SideTables<'a> {
    /// When servers are down.
    pub outages: Option<&'a [Outage]>,
    /// Those outages that are known ahead, such as maintenance.
    pub maintenance: Option<&'a [Outage]>,
    /// The quotas of owners.
    pub quotas: Option<Quotas<'a>>,
    /// The services and their loads.
    pub services: Option<Services<'a>>,
    /// The requests that the services answer.
    pub requests: Option<&'a Arc<Answering>>,
}

/// The same tables, owned.
#[derive(Clone, Debug, Default)]
pub struct OwnedSideTables {
    /// As in [`SideTables`].
    pub outages: Option<Vec<Outage>>,
    /// As in [`SideTables`].
    pub maintenance: Option<Vec<Outage>>,
    /// As in [`SideTables`].
    pub quotas: Option<OwnedQuotas>,
    /// GPUs of a replica of each service, and the loads.
    pub services: Option<(Vec<u32>, Vec<Load>)>,
    /// As in [`SideTables`].
    pub requests: Option<Arc<Answering>>,
}

impl OwnedSideTables {
    /// Returns the tables, borrowed.
    pub fn view(&self) -> SideTables<'_> {
        SideTables {
            outages: self.outages.as_deref(),
            maintenance: self.maintenance.as_deref(),
            quotas: self.quotas.as_ref().map(OwnedQuotas::view),
            services: self.services.as_ref().map(|(gpus, loads)| Services { gpus, loads }),
            requests: self.requests.as_ref(),
        }
    }
}

impl SideTables<'_> {
    /// Returns the tables of a run on these servers, in ascending order, and of the jobs in these rows, renumbered.
    pub(crate) fn of(&self, servers: &[u32], rows: &[u32]) -> OwnedSideTables {
        let outages = |outages: &[Outage]| {
            let own = |outage: &Outage| {
                let server = servers.binary_search(&outage.server.number()).ok()?;
                Some(Outage { server: Server::at(server), ..*outage })
            };
            outages.iter().filter_map(own).collect()
        };
        let quotas = |quotas: Quotas<'_>| {
            let owner: Vec<u32> = rows.iter().map(|&row| quotas.owner[row as usize]).collect();
            Quotas { owner: &owner, ..quotas }.to_owned()
        };
        OwnedSideTables {
            outages: self.outages.map(outages),
            maintenance: self.maintenance.map(outages),
            quotas: self.quotas.map(quotas),
            services: self.services.map(|services| (services.gpus.to_vec(), services.loads.to_vec())),
            requests: self.requests.cloned(),
        }
    }
}
