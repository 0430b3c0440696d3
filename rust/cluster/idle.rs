//! Finds servers by their number of idle GPUs.
//!
//! Invariant: the index has each server once, at its number of idle GPUs. For example, of servers with 5, 3 and 5 idle
//! GPUs the tightest for a gang of 4 is the first, and a pod of 2 GPUs has room two times on each of these two.

use crate::ds::OrderedBits;
use crate::ids::Server;

/// Servers in order of (idle GPUs, index): member `idle * servers + server`.
#[derive(Clone, Debug)]
pub(crate) struct IdleIndex {
    bits: OrderedBits,
    servers: usize,
}

impl IdleIndex {
    pub(super) fn new(servers: usize, largest: u32) -> Self {
        Self { bits: OrderedBits::new(servers * (largest as usize + 1)), servers }
    }

    pub(super) fn insert(&mut self, idle: u32, server: Server) {
        self.bits.insert(idle as usize * self.servers + server.index());
    }

    pub(super) fn remove(&mut self, idle: u32, server: Server) {
        self.bits.remove(idle as usize * self.servers + server.index());
    }

    /// Returns the server with the fewest idle GPUs that still holds `num_gpus`, lowest index on ties.
    #[inline]
    pub(crate) fn tightest(&self, num_gpus: u32) -> Option<Server> {
        self.bits.next(num_gpus as usize * self.servers).map(|m| Server::at(m % self.servers))
    }

    /// Returns the servers with exactly `idle` idle GPUs, by index.
    pub(crate) fn with(&self, idle: u32) -> impl Iterator<Item = Server> + '_ {
        let from = idle as usize * self.servers;
        self.bits.range(from, from + self.servers).map(move |m| Server::at(m - from))
    }

    /// Returns the servers with `low` to `high` idle GPUs, by index.
    pub(crate) fn between(&self, low: u32, high: u32) -> impl Iterator<Item = Server> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let mut first = self.from(low, next);
            for idle in low + 1..high + 1 {
                first = first.into_iter().chain(self.from(idle, next)).min();
            }
            next = first?.index() + 1;
            first
        })
    }

    /// Returns the first server with exactly `idle` idle GPUs, from an index on.
    #[inline]
    pub(crate) fn from(&self, idle: u32, index: usize) -> Option<Server> {
        let first = idle as usize * self.servers;
        let member = self.bits.next(first + index).filter(|&member| member < first + self.servers)?;
        Some(Server::at(member - first))
    }

    /// Returns the servers with at least `idle` idle GPUs and the idle GPUs of each, fewest first.
    pub(crate) fn tightest_first(&self, idle: u32) -> impl Iterator<Item = (Server, u32)> + '_ {
        let members = self.bits.range(idle as usize * self.servers, usize::MAX);
        members.map(|member| (Server::at(member % self.servers), (member / self.servers) as u32))
    }

    /// Returns the largest idle count below `bound` that some server has.
    pub(crate) fn most_below(&self, bound: u32) -> Option<u32> {
        self.bits.prev(bound as usize * self.servers).map(|m| (m / self.servers) as u32)
    }
}

/// Returns the number of servers by idle count.
pub(super) fn counts(idle: &[u32], largest: u32) -> Vec<u32> {
    let mut counts = vec![0; largest as usize + 1];
    idle.iter().for_each(|&idle| counts[idle as usize] += 1);
    counts
}

/// Returns the GPUs of all pods of a size on servers with so many idle GPUs. `counts`: the number of servers by idle
/// count.
pub(crate) fn in_pods(counts: &[u32], pod: u32) -> u64 {
    (0u32..).zip(counts).map(|(idle, &servers)| u64::from(idle - idle % pod) * u64::from(servers)).sum()
}
