//! The ring-all-reduce model (equations 6 to 8). It is updated only on the servers that a starting or ending ring uses.

use crate::cluster::Network;

/// What one iteration of a job costs, before it is known where it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ring {
    /// x = m_j (w - 1) / w: bytes each GPU sends, and reduces, per half of the all-reduce.
    exchanged: f64,
    /// Delta^f_j M_j + Delta^b_j, s.
    compute: f64,
}

impl Ring {
    pub(crate) fn new(gradient_bytes: f64, num_gpus: u32, compute_time: f64) -> Self {
        let workers = f64::from(num_gpus);
        Self { exchanged: gradient_bytes * (workers - 1.0) / workers, compute: compute_time }
    }

    /// tau_j (eq. 8), s: iteration time on `num_servers` servers with `contention` = p_j spanning jobs (eq. 6).
    pub(crate) fn iteration_time(&self, network: &Network, num_servers: u32, contention: u32) -> f64 {
        let bandwidth = if num_servers > 1 {
            // k_j (eq. 7), kept from falling below 1, and f(alpha, k).
            let k = f64::max(1.0, network.contention_share * f64::from(contention));
            network.inter_bandwidth / (k + network.degradation * (k - 1.0))
        } else {
            network.intra_bandwidth
        };
        2.0 * self.exchanged / bandwidth
            + self.exchanged / network.reduce_speed
            + network.server_overhead * f64::from(num_servers)
            + self.compute
    }
}

/// How many spanning jobs run on every server, and which.
///
/// A gang that starts or ends costs O(sum over its servers of the spanning jobs there); gangs on one server cost
/// nothing. Members are running slots.
#[derive(Clone, Debug)]
pub(crate) struct Contention {
    spanning: Vec<Vec<u32>>,
    changed: Vec<u32>,
    is_changed: Vec<bool>,
}

impl Contention {
    pub(crate) fn new(servers: usize) -> Self {
        Self { spanning: vec![Vec::new(); servers], changed: Vec::new(), is_changed: vec![false; servers] }
    }

    pub(crate) fn join(&mut self, member: u32, parts: &[(u32, u32)]) {
        for &(server, _) in parts {
            self.spanning[server as usize].push(member);
            self.note(server);
        }
    }

    pub(crate) fn leave(&mut self, member: u32, parts: &[(u32, u32)]) {
        for &(server, _) in parts {
            let members = &mut self.spanning[server as usize];
            if let Some(at) = members.iter().position(|&m| m == member) {
                members.swap_remove(at);
            }
            self.note(server);
        }
    }

    /// p_j of a spanning job (eq. 6).
    pub(crate) fn of(&self, parts: &[(u32, u32)]) -> u32 {
        parts.iter().map(|&(s, _)| self.spanning[s as usize].len()).max().unwrap_or(0) as u32
    }

    /// Moves the spanning jobs on servers that changed since the last call to `members`, each perhaps more than once.
    pub(crate) fn drain_changed(&mut self, members: &mut Vec<u32>) {
        for server in self.changed.drain(..) {
            self.is_changed[server as usize] = false;
            members.extend_from_slice(&self.spanning[server as usize]);
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }

    fn note(&mut self, server: u32) {
        if !std::mem::replace(&mut self.is_changed[server as usize], true) {
            self.changed.push(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_time_follows_equation_8() {
        let network = Network {
            intra_bandwidth: 100.0,
            inter_bandwidth: 10.0,
            reduce_speed: 50.0,
            contention_share: 0.5,
            server_overhead: 0.25,
            degradation: 0.5,
        };
        // w = 4, m = 40 bytes: x = 30.
        let ring = Ring::new(40.0, 4, 1.0);
        // One server: 60/100 + 30/50 + 0.25 + 1.
        assert_eq!(ring.iteration_time(&network, 1, 0), 0.6 + 0.6 + 0.25 + 1.0);
        // Two servers, p = 2: k = 1, B = 10: 60/10 + 0.6 + 0.5 + 1.
        assert_eq!(ring.iteration_time(&network, 2, 2), 6.0 + 0.6 + 0.5 + 1.0);
        // p = 4: k = 2, f = 2.5, B = 4: 60/4 + 0.6 + 0.5 + 1.
        assert_eq!(ring.iteration_time(&network, 2, 4), 15.0 + 0.6 + 0.5 + 1.0);
    }

    #[test]
    fn contention_is_the_worst_server_of_the_ring() {
        let mut contention = Contention::new(4);
        contention.join(0, &[(0, 1), (1, 1)]);
        contention.join(1, &[(1, 2), (2, 2)]);
        contention.join(2, &[(1, 1), (3, 1)]);
        assert_eq!(contention.of(&[(0, 1), (1, 1)]), 3);
        contention.leave(1, &[(1, 2), (2, 2)]);
        assert_eq!(contention.of(&[(0, 1), (1, 1)]), 2);
        let mut members = Vec::new();
        contention.drain_changed(&mut members);
        members.sort_unstable();
        members.dedup();
        assert_eq!(members, [0, 2]);
        assert!(contention.is_settled());
    }
}
