//! Counts the spanning jobs that share each server's link (eq. 6).
//!
//! Invariant: `spanning[s]` holds the stays of all spanning jobs with GPUs on server s, and `changed` the servers whose
//! stays have yet to be updated. For example, two jobs that both span servers 0 and 1 have p_j = 2. When one of them
//! ends, both servers are marked as changed, and the other job is updated. `co_location` counts the shares on every GPU
//! in the same way, with GPUs in place of servers.

use crate::ids::Slot;

/// The spanning jobs on every server.
///
/// A gang that starts or ends costs O(sum over its servers of the spanning jobs there); gangs on one server cost
/// nothing. Members are the slots of stays.
#[derive(Clone, Debug)]
pub(crate) struct LinkContention {
    spanning: Vec<Vec<Slot>>,
    changed: Vec<usize>,
    is_changed: Vec<bool>,
    /// Number of drains so far, and the latest drain that returned each member.
    drains: u64,
    found: Vec<u64>,
}

impl LinkContention {
    pub(crate) fn new(servers: usize) -> Self {
        Self {
            spanning: vec![Vec::new(); servers],
            changed: Vec::new(),
            is_changed: vec![false; servers],
            drains: 0,
            found: Vec::new(),
        }
    }

    pub(crate) fn join(&mut self, member: Slot, servers: impl Iterator<Item = usize>) {
        if self.found.len() <= member.index() {
            self.found.resize(member.index() + 1, 0);
        }
        for server in servers {
            self.spanning[server].push(member);
            self.note(server);
        }
    }

    pub(crate) fn leave(&mut self, member: Slot, servers: impl Iterator<Item = usize>) {
        for server in servers {
            let members = &mut self.spanning[server];
            if let Some(at) = members.iter().position(|&m| m == member) {
                members.swap_remove(at);
            }
            self.note(server);
        }
    }

    /// Returns the spanning jobs on a server.
    pub(crate) fn members(&self, server: usize) -> &[Slot] {
        &self.spanning[server]
    }

    /// Returns p_j of a spanning job (eq. 6).
    pub(crate) fn of(&self, servers: impl Iterator<Item = usize>) -> u32 {
        servers.map(|server| self.spanning[server].len()).max().unwrap_or(0) as u32
    }

    /// Moves the spanning jobs on servers that changed since the last call to `members`, each once: a gang shares many
    /// servers with its neighbours, and each update costs its number of servers.
    pub(crate) fn drain_changed(&mut self, members: &mut Vec<Slot>) {
        self.drains += 1;
        for server in self.changed.drain(..) {
            self.is_changed[server] = false;
            for &member in &self.spanning[server] {
                if std::mem::replace(&mut self.found[member.index()], self.drains) != self.drains {
                    members.push(member);
                }
            }
        }
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.changed.is_empty()
    }

    fn note(&mut self, server: usize) {
        if !std::mem::replace(&mut self.is_changed[server], true) {
            self.changed.push(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contention_is_that_of_the_worst_server() {
        let on = |servers: [usize; 2]| servers.into_iter();
        let mut contention = LinkContention::new(4);
        contention.join(Slot::new(0), on([0, 1]));
        contention.join(Slot::new(1), on([1, 2]));
        contention.join(Slot::new(2), on([1, 3]));
        assert_eq!(contention.of(on([0, 1])), 3);
        contention.leave(Slot::new(1), on([1, 2]));
        assert_eq!(contention.of(on([0, 1])), 2);
        let mut members = Vec::new();
        contention.drain_changed(&mut members);
        members.sort_unstable();
        assert_eq!(members, [0, 2].map(Slot::new));
        assert!(contention.is_settled());
    }
}
