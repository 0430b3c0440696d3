//! Places jobs on GPUs that a policy from outside or a log names.
//!
//! Invariant: either the GPUs are taken, and `start` or `attach` must follow, or nothing has changed and the reason is
//! returned. For example, placing a job of 4 GPUs on 3 returns that it asks for 4.

use super::cluster_state::ClusterState;
use crate::cluster::Tier;
use crate::ids::{Job, MILLI_GPU, Server};
use crate::options::{Placement, Variant};
use crate::placement::WITH_SHARES;
use crate::speed::Speed;
use std::collections::BTreeMap;

/// Returns the group of a server at a level, 0 for the server itself.
fn group_of(tiers: &[Tier], level: usize, server: Server) -> u32 {
    level.checked_sub(1).map_or(server.number(), |tier| tiers[tier].group[server.index()])
}

impl<S: Speed> ClusterState<'_, S> {
    /// Places a job on the GPUs of given servers. On success they are taken, and `start` must follow.
    ///
    /// Otherwise returns why it is impossible.
    pub(crate) fn place_at(&mut self, job: Job, parts: &[(Server, u32)]) -> Result<(), String> {
        self.check_parts(job, parts)?;
        for &(server, count) in parts {
            let idle = self.cluster.idle(server);
            if count > idle {
                return Err(self.lacks(server, u64::from(idle), count));
            }
        }
        self.out.decisions += 1;
        self.take(job, parts);
        Ok(())
    }

    /// Places a job like `place_at`, on given GPUs: (server, index of the GPU there), in order. Only where jobs may
    /// hold shares.
    pub(crate) fn place_on_gpus(&mut self, job: Job, gpus: &[(Server, u32)]) -> Result<(), String> {
        let share = self.jobs.share_of(job.index());
        let parts: Vec<(Server, u32)> = gpus.chunk_by(|a, b| a.0 == b.0).map(|on| (on[0].0, on.len() as u32)).collect();
        self.check_parts(job, &parts)?;
        for (at, &(server, gpu)) in gpus.iter().enumerate() {
            let idle = self.cluster.room(server, gpu);
            let asks = if share > 0 { share } else { MILLI_GPU };
            if idle < asks || gpus[..at].contains(&(server, gpu)) {
                return Err(format!(
                    "GPU {gpu} of server {} has {idle} idle thousandths for the {asks} that it is to give",
                    server.number()
                ));
            }
        }
        self.out.decisions += 1;
        let claim = self.claim(job, gpus.len() as u32);
        self.cluster.take_gpus(gpus, &claim, &mut self.grant);
        Ok(())
    }

    /// Checks that a placement is defined for the jobs of the table.
    pub(crate) fn check_placement(&self, placement: Placement, variant: Variant) -> Result<(), String> {
        if self.jobs.shares.is_some() && !WITH_SHARES.contains(&placement) {
            return Err(format!("jobs hold shares of GPUs, which {} does not place", placement.name()));
        }
        if self.jobs.has_pods() && placement.places_gpu_by_gpu(variant) {
            let name = if placement == Placement::Random { placement.name() } else { "--variant literal" };
            return Err(format!("jobs have pods of several GPUs, and {name} places GPU by GPU"));
        }
        if self.jobs.first_in_tiers().is_some() && placement != Placement::Compact {
            return Err(format!("jobs name tiers (within_tier, segment), which {} does not keep", placement.name()));
        }
        Ok(())
    }

    /// Checks that a job may hold that many GPUs.
    pub(crate) fn check_size(&self, job: Job, given: u64) -> Result<(), String> {
        let (min, max) = self.jobs.range_of(job.index());
        if (u64::from(min)..=u64::from(max)).contains(&given) {
            return Ok(());
        }
        Err(if min == max {
            format!("GPUs given: {given}, requested: {min}")
        } else {
            format!("GPUs given: {given}, allowed: {min} to {max}")
        })
    }

    /// Checks that parts are as many GPUs as a job may hold, in whole pods, on different servers of the cluster.
    pub(crate) fn check_parts(&self, job: Job, parts: &[(Server, u32)]) -> Result<(), String> {
        self.check_size(job, parts.iter().map(|&(_, count)| u64::from(count)).sum())?;
        for (at, &(server, count)) in parts.iter().enumerate() {
            if server.index() >= self.cluster.num_servers() {
                return Err(format!(
                    "there is no server {}: the last one is {}",
                    server.number(),
                    self.cluster.num_servers() - 1
                ));
            }
            if count == 0 || parts[..at].iter().any(|&(other, _)| other == server) {
                return Err(format!("server {} is named twice, or for 0 GPUs", server.number()));
            }
            let pod = self.pod_of(job);
            if count % pod != 0 {
                return Err(format!("pods of {pod} GPUs: {count} on server {}", server.number()));
            }
            if self.cluster.type_of(server) != self.cluster.type_of(parts[0].0) {
                let (one, other) = (parts[0].0.number(), server.number());
                return Err(format!("servers {one} and {other} have GPUs of different types"));
            }
        }
        if !self.follows_log && self.placer.binds(self.jobs.form(job.index())) {
            self.check_tiers(job, parts)?;
        }
        match (self.jobs.kind_of(job), parts.first()) {
            (Some(kind), Some(&(server, _))) if kind.speed_on(self.cluster.type_of(server)).is_none() => {
                Err(format!("it may not use GPUs of the type of server {}", server.number()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that parts lie in the job's tier, and its segments in theirs.
    pub(crate) fn check_tiers(&self, job: Job, parts: &[(Server, u32)]) -> Result<(), String> {
        let form = self.jobs.form(job.index());
        if let (Some(level), Some(&(first, _))) = (form.strict_level(), parts.first()) {
            let group = group_of(self.tiers, level, first);
            if let Some(other) = parts.iter().find(|part| group_of(self.tiers, level, part.0) != group) {
                let (one, other) = (first.number(), other.0.number());
                return Err(format!("within_tier: servers {one} and {other} lie in two groups of its tier"));
            }
        }
        let mut held = BTreeMap::new();
        for &(server, count) in parts.iter().filter(|_| form.segment > 0) {
            let (_, gpus) = held.entry(group_of(self.tiers, form.segment_level(), server)).or_insert((server, 0));
            *gpus += count;
        }
        match held.values().find(|(_, gpus)| gpus % form.segment != 0) {
            None => Ok(()),
            Some((server, gpus)) => {
                let (segment, server) = (form.segment, server.number());
                Err(format!("segments of {segment} GPUs: {gpus} in the group of server {server}"))
            }
        }
    }

    /// Returns the message that a server has too few idle GPUs.
    pub(crate) fn lacks(&self, server: Server, idle: u64, wanted: u32) -> String {
        format!("server {} has {idle} idle GPUs for the {wanted} that it is to give", server.number())
    }
}
