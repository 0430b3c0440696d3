//! Takes GPUs that no job can have: those of servers that are down, the idle ones of servers that drain, those of
//! services' replicas, and those hidden from a placement.
//!
//! Invariant: their U does not change. For example, a server that goes down with 8 idle GPUs of 5 s each comes back
//! with 8 of 5 s.

use super::times::GpuTimes;
use super::{Claim, Cluster, Grant};
use crate::ids::Form;
use crate::ids::{Job, Server};

impl Cluster {
    /// Takes every GPU of a server that goes down. All are idle.
    pub(crate) fn close(&mut self, server: Server) {
        let size = self.sizes[server.index()];
        let claim = Claim { job: nobody_on(server), num_gpus: size, time: 0.0, share: 0, form: Form::default() };
        self.take(server, size, &claim, &mut Grant::default());
        self.mark();
        self.up -= u64::from(size);
    }

    /// Releases them.
    pub(crate) fn open(&mut self, server: Server) {
        let size = self.sizes[server.index()];
        self.up += u64::from(size);
        self.release(nobody_on(server), &[(server, size)]);
    }

    /// From now on what is idle on a server, or is released there, is taken for no job.
    pub(crate) fn drain(&mut self, server: Server) {
        if self.sealed.is_empty() {
            self.sealed = vec![None; self.sizes.len()];
        }
        self.sealed[server.index()] = Some(0);
        self.seal(server);
    }

    /// Releases it.
    pub(crate) fn undrain(&mut self, server: Server) {
        let Some(sealed) = self.sealed[server.index()].take() else { return };
        self.up += u64::from(sealed);
        if let Some(times) = &mut self.gpu_times {
            times.change_owners(server, nobody_on(server), Job::NONE);
        }
        let idle = match &mut self.shares {
            None => self.idle[server.index()] + sealed,
            Some(shares) => shares.unseal(server),
        };
        self.set_idle(server, idle);
    }

    /// Returns the GPUs of a server that drains, and is not down, that nobody holds; 0 of another.
    pub(crate) fn sealed(&self, server: Server) -> u32 {
        self.sealed.get(server.index()).copied().flatten().unwrap_or(0)
    }

    /// Takes what is idle on a server that drains; of another nothing.
    #[cold]
    pub(super) fn seal(&mut self, server: Server) {
        let Some(before) = self.sealed[server.index()] else { return };
        let mut sealed = before + self.idle[server.index()];
        if let Some(times) = &mut self.gpu_times {
            times.change_owners(server, Job::NONE, nobody_on(server));
        }
        if let Some(shares) = &mut self.shares {
            sealed = shares.seal(server);
        }
        self.sealed[server.index()] = Some(sealed);
        self.up = self.up + u64::from(before) - u64::from(sealed);
        self.set_idle(server, 0);
    }

    /// Takes the idle GPUs of a server, while a job is placed elsewhere. Returns the number of GPUs taken.
    pub(crate) fn cover(&mut self, server: Server) -> u32 {
        let idle = self.idle[server.index()];
        if idle > 0 {
            let claim = Claim { job: nobody_on(server), num_gpus: idle, time: 0.0, share: 0, form: Form::default() };
            self.take(server, idle, &claim, &mut Grant::default());
        }
        if let Some(shares) = &mut self.shares {
            shares.cover(server);
        }
        idle
    }

    /// Releases them.
    pub(crate) fn uncover(&mut self, server: Server, count: u32) {
        if let Some(shares) = &mut self.shares {
            shares.uncover(server);
        }
        if count > 0 {
            self.release(nobody_on(server), &[(server, count)]);
        }
    }

    /// Takes idle GPUs of a server, those with least U, for a replica of a service. Their U does not change.
    pub(crate) fn hold(&mut self, server: Server, count: u32, holder: Job) {
        let claim = Claim { job: holder, num_gpus: count, time: 0.0, share: 0, form: Form::default() };
        self.take(server, count, &claim, &mut Grant::default());
        self.mark();
        self.up -= u64::from(count);
    }

    /// Releases them.
    pub(crate) fn let_go(&mut self, server: Server, count: u32, holder: Job) {
        self.up += u64::from(count);
        self.release(holder, &[(server, count)]);
    }

    /// Hides an idle GPU, given by its number among all. Returns whether it was idle. Nothing else reads the cluster
    /// meanwhile.
    pub(crate) fn hide(&mut self, server: Server, gpu: usize) -> bool {
        self.change_owner(server, gpu, Job::NONE, HIDDEN)
    }

    /// Shows it again.
    pub(crate) fn show(&mut self, server: Server, gpu: usize) {
        self.change_owner(server, gpu, HIDDEN, Job::NONE);
    }

    fn change_owner(&mut self, server: Server, gpu: usize, from: Job, to: Job) -> bool {
        let Some(times) = self.gpu_times.as_mut().filter(|times| times.owners()[gpu] == from) else { return false };
        times.set_owner(server, gpu, to);
        let idle = self.idle[server.index()];
        self.set_idle(server, if to == HIDDEN { idle - 1 } else { idle + 1 });
        true
    }

    /// Returns a copy for [`Cluster::pose`]. Where U does not count, numbers of GPUs are enough for a placement.
    pub(crate) fn to_pose(&self) -> Self {
        let mut posed = self.clone();
        posed.gpu_times = posed.gpu_times.filter(GpuTimes::counts);
        posed.sealed.clear();
        posed
    }

    /// Makes `idle` GPUs of each server idle, those that are free, and hides all others. U is that of another cluster,
    /// of which this one is a copy.
    pub(crate) fn pose(&mut self, other: &Self, idle: &[u32], is_free: impl Fn(usize) -> bool) {
        for (server, &idle) in idle.iter().enumerate() {
            if idle != self.idle[server] {
                self.set_idle(Server::at(server), idle);
            }
        }
        if let (Some(times), Some(others)) = (&mut self.gpu_times, &other.gpu_times) {
            times.follow(others, |gpu| if is_free(gpu) { Job::NONE } else { HIDDEN });
        }
    }
}

/// The holder of a hidden GPU.
const HIDDEN: Job = Job::new(Job::NONE.number() - 1);

/// Returns the holder of the GPUs of a server that is down. Job numbers never get so high.
fn nobody_on(server: Server) -> Job {
    Job::new(HIDDEN.number() - 1 - server.number())
}
