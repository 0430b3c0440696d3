//! Tells a decider from outside what a placement would get of the links between servers.
//!
//! Invariant: nothing changes. For example, a job asked about on two servers, each of which another job spans, gets what
//! is left of their links to two jobs (docs/tiers.md#contention).

use super::{Course, Paused, Refused};
use crate::ids::Server;
use crate::options::Sharing;

impl Course {
    /// Returns the bandwidth that a job would get on (server, GPUs) now, bytes/s, had it given back what it holds.
    ///
    /// # Errors
    /// A row or a server of another cluster.
    pub fn bandwidth(&self, row: u32, parts: &[(u32, u32)]) -> std::result::Result<f64, Refused> {
        let refused = |why: String| Refused { row, verb: "bandwidth", why };
        let job = self.job(row).ok_or_else(|| refused("it is of another virtual cluster".to_owned()))?;
        let mut own: Vec<(Server, u32)> = Vec::with_capacity(parts.len());
        for &(server, count) in parts {
            let known = self.inputs.server_of.get(server as usize).copied().filter(|&own| own != Server::NONE);
            let server = known.ok_or_else(|| refused(format!("there is no server {server} in its cluster")))?;
            own.push((server, count));
        }
        own.sort_unstable();
        own.dedup_by(|next, before| {
            let same = next.0 == before.0;
            before.1 += if same { next.1 } else { 0 };
            same
        });
        let mut network = self.inputs.network.clone();
        if self.inputs.options.sharing == Sharing::Off {
            network = network.without_contention();
        }
        Ok(each!(self.machine.get(), machine => machine.state.bandwidth_on(job, &own, &network)))
    }
}
