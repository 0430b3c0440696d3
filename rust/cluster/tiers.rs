//! Describes the network above the servers: tiers of groups, each of which shares an uplink (docs/tiers.md).
//!
//! Invariant: tiers nest, from the servers up. For example, with racks of 2 servers in pods of 4, servers 0 and 1 are in
//! rack 0 and pod 0, servers 2 and 3 in rack 1 and pod 0.

use super::Network;
use crate::error::{Error, Result};

/// A tier of groups of servers.
#[derive(Clone, Debug, PartialEq)]
pub struct Tier {
    /// The group of each server.
    pub group: Vec<u32>,
    /// The bandwidth of a group's uplink, each way, bytes/s.
    pub bandwidth: f64,
    /// xi1 of the uplinks, in (0, 1].
    pub contention_share: f64,
    /// alpha of the uplinks, >= 0.
    pub degradation: f64,
    /// The bandwidth of a gang within one group, bytes/s; `None` where the links of its servers count.
    pub inside: Option<f64>,
}

impl Tier {
    /// Returns the tier of some of the servers.
    pub(crate) fn of(&self, servers: &[u32]) -> Self {
        Self { group: servers.iter().map(|&server| self.group[server as usize]).collect(), ..*self }
    }

    /// Returns the number of groups, counting those without servers.
    pub(crate) fn groups(&self) -> usize {
        self.group.iter().max().map_or(0, |&most| most as usize + 1)
    }

    /// Returns the GPUs of its largest group.
    fn largest(&self, server_gpus: &[u32]) -> u64 {
        let mut gpus = vec![0_u64; self.groups()];
        self.group.iter().zip(server_gpus).for_each(|(&group, &own)| gpus[group as usize] += u64::from(own));
        gpus.into_iter().max().unwrap_or(0)
    }
}

/// Checks the tiers of a cluster.
///
/// # Errors
/// `ColumnLength` or `Option`, naming what is out of range; `Option` where tiers do not nest.
pub(crate) fn validate_tiers(tiers: &[Tier], network: &Network, servers: usize) -> Result<()> {
    for tier in tiers {
        if tier.group.len() != servers {
            return Err(Error::ColumnLength { column: "tiers", length: tier.group.len(), expected: servers });
        }
        let own = Network {
            inter_bandwidth: tier.bandwidth,
            contention_share: tier.contention_share,
            degradation: tier.degradation,
            ..network.clone()
        };
        own.validate()?;
        Network { inter_bandwidth: tier.inside.unwrap_or(1.0), ..own }.validate()?;
    }
    for pair in tiers.windows(2) {
        let mut above = vec![None; pair[0].groups()];
        for (&lower, &upper) in pair[0].group.iter().zip(&pair[1].group) {
            if *above[lower as usize].get_or_insert(upper) != upper {
                let value = format!("group {lower} in two groups of the next tier");
                return Err(Error::Option { name: "tiers", value, expected: "groups that nest".to_owned() });
            }
        }
    }
    Ok(())
}

/// Returns the network of some servers: what a gang gets at best also depends on how large their domains are.
pub(crate) fn network_of(network: &Network, tiers: &[Tier], server_gpus: &[u32]) -> Network {
    let domain = |tier: &Tier| tier.inside.map(|inside| (tier.largest(server_gpus), inside));
    let domains: Vec<(u64, f64)> = tiers.iter().filter_map(domain).collect();
    Network { domains: (!domains.is_empty()).then(|| domains.into()), ..network.clone() }
}
