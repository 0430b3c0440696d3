//! Chooses pods of several GPUs by their accumulated time U.
//!
//! Invariant: the sum of a pod adds U of its GPUs in index order, so that equal histories tie exactly. For example, of
//! servers with idle GPUs of 1 s and 8 s, and of 4 s and 4 s, a pod of 2 GPUs goes to the second.

use super::Claim;
use super::times::{GpuTimes, by_time};
use crate::ds::Minima;
use crate::ids::Server;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns the sum of U of a pod's GPUs in index order; sorts them so.
fn sum_of_pod(gpus: &mut [(f64, u32)]) -> f64 {
    gpus.sort_unstable_by_key(|&(_, gpu)| gpu);
    gpus.iter().fold(0.0, |sum, (time, _)| sum + time)
}

/// Servers by the sum of U of a pod of their idle GPUs with least U.
#[derive(Clone, Debug)]
pub(super) struct LeastPods {
    /// GPUs of a pod.
    size: u32,
    /// The sum on every server; infinite where too few GPUs are idle.
    sums: Minima,
    /// Servers whose GPUs changed since their sums were set.
    stale: Vec<Server>,
    is_stale: Vec<bool>,
}

impl LeastPods {
    fn new(size: u32, servers: usize) -> Self {
        let stale = (0..servers).map(Server::at).collect();
        Self { size, sums: Minima::new(servers), stale, is_stale: vec![true; servers] }
    }

    /// Notes that U, or who holds a server's GPUs, changed.
    pub(super) fn touch(&mut self, server: Server) {
        if !std::mem::replace(&mut self.is_stale[server.index()], true) {
            self.stale.push(server);
        }
    }
}

impl GpuTimes {
    /// Returns the server of the pod of idle GPUs with the least sum of U; `None` if no server holds a pod.
    pub(super) fn least_pod(&mut self, size: u32) -> Option<Server> {
        let mut orders = std::mem::take(&mut self.pods);
        let at = orders.iter().position(|order| order.size == size).unwrap_or_else(|| {
            orders.push(LeastPods::new(size, self.servers()));
            orders.len() - 1
        });
        let order = &mut orders[at];
        let mut idle = std::mem::take(&mut self.scratch);
        while let Some(server) = order.stale.pop() {
            order.is_stale[server.index()] = false;
            idle.clear();
            self.idle_gpus(server, &mut idle);
            idle.sort_unstable_by(by_time);
            order.sums.set(server.index(), idle.get_mut(..size as usize).map_or(f64::INFINITY, sum_of_pod));
        }
        self.scratch = idle;
        let server = order.sums.least();
        let is_there = order.sums.get(server) < f64::INFINITY;
        self.pods = orders;
        is_there.then(|| Server::at(server))
    }

    /// Chooses from the idle GPUs of servers, pod by pod, the pod with the least sum of U, ties by server, as counts per
    /// server. `pool`: a buffer.
    pub(crate) fn least_pods_of(
        &self,
        servers: &[Server],
        claim: &Claim,
        pool: &mut Vec<(f64, u32)>,
        parts: &mut Vec<(Server, u32)>,
    ) {
        // Every pod of a server, those with less U first; the sum of each by its place in that order.
        let mut pods: BinaryHeap<Reverse<(u64, Server, usize)>> = BinaryHeap::new();
        let mut sums: Vec<u64> = Vec::new();
        for &server in servers {
            pool.clear();
            self.idle_gpus(server, pool);
            pool.sort_unstable_by(by_time);
            let first = sums.len();
            sums.extend(pool.chunks_exact_mut(claim.form.pod as usize).map(|pod| sum_of_pod(pod).to_bits()));
            pods.extend(sums.get(first).map(|&sum| Reverse((sum, server, first))));
            sums.push(u64::MAX);
        }
        for _ in 0..claim.num_gpus / claim.form.pod {
            let Some(Reverse((_, server, at))) = pods.pop() else { return };
            pods.extend(sums.get(at + 1).filter(|&&sum| sum < u64::MAX).map(|&sum| Reverse((sum, server, at + 1))));
            match parts.iter_mut().find(|part| part.0 == server) {
                Some(part) => part.1 += claim.form.pod,
                None => parts.push((server, claim.form.pod)),
            }
        }
    }
}
