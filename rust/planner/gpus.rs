//! Tracks the planner's GPUs: accumulated time U, which are idle, and which are candidates under theta.
//!
//! A GPU is a candidate if U_g + rho_j / u <= theta. Invariant: `SameFor` holds the thetas for which every comparison
//! so far would have had the same answer. For example, 3 s + 4 s <= 10 s has the same answer for every theta from 7 s
//! on.

use super::instance::Layout;
use std::collections::BTreeSet;

/// The thetas for which every comparison so far would have had the same answer: `from <= theta < to`, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct SameFor {
    pub(super) from: f64,
    pub(super) to: f64,
}

impl SameFor {
    pub(super) const ANY: Self = Self { from: f64::NEG_INFINITY, to: f64::INFINITY };

    pub(super) fn holds(&self, theta: f64) -> bool {
        self.from <= theta && theta < self.to
    }
}

/// theta, s, and what is known about nearby thetas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) theta: f64,
    pub(super) same: SameFor,
}

impl Limit {
    pub(super) fn new(theta: f64) -> Self {
        Self { theta, same: SameFor::ANY }
    }

    /// Returns whether a GPU is a candidate: U_g + rho_j / u <= theta.
    #[inline]
    pub(super) fn admits(&mut self, time: f64, charge: f64) -> bool {
        let value = time + charge;
        let good = value <= self.theta;
        if good {
            self.same.from = self.same.from.max(value);
        } else {
            self.same.to = self.same.to.min(value);
        }
        good
    }
}

/// Orders that a placement reads.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Orders {
    /// GPUs by U.
    pub(super) by_time: bool,
    /// Servers by mean U.
    pub(super) by_mean: bool,
}

/// U and occupation of every GPU. Under dispatch `reserve` no GPU is ever busy here.
#[derive(Clone, Debug)]
pub(super) struct Gpus<'a> {
    pub(super) layout: &'a Layout,
    /// Whether GPUs that were given out stay candidates.
    reserve: bool,
    /// U_g, s.
    pub(super) time: Vec<f64>,
    busy: Vec<bool>,
    /// Idle GPUs of each server.
    idle: Vec<u32>,
    pub(super) total_idle: u64,
    /// Whether each server is opened: some GPU occupied (`idle`), or once given a job (`reserve`).
    pub(super) opened: Vec<bool>,
    /// Least and largest U of each server's idle GPUs.
    span: Vec<(f64, f64)>,
    /// The largest U of all.
    pub(super) largest: f64,
    /// Idle GPUs by (U, GPU).
    by_time: Option<BTreeSet<(u64, u32)>>,
    by_mean: Option<MeanOrder>,
}

impl<'a> Gpus<'a> {
    pub(super) fn new(layout: &'a Layout, reserve: bool, orders: Orders) -> Self {
        let (gpus, servers) = (layout.server_of.len(), layout.sizes.len());
        Self {
            layout,
            reserve,
            time: vec![0.0; gpus],
            busy: vec![false; gpus],
            idle: layout.sizes.clone(),
            total_idle: gpus as u64,
            opened: vec![false; servers],
            span: vec![(0.0, 0.0); servers],
            largest: 0.0,
            by_time: orders.by_time.then(|| (0..gpus as u32).map(|g| (0, g)).collect()),
            by_mean: orders.by_mean.then(|| MeanOrder::new(servers)),
        }
    }

    /// Returns the number of candidates of a server.
    #[inline]
    pub(super) fn candidates(&self, server: usize, charge: f64, limit: &mut Limit) -> u32 {
        let idle = self.idle[server];
        let (least, most) = self.span[server];
        if idle == 0 {
            0
        } else if most + charge <= limit.theta {
            limit.admits(most, charge);
            idle
        } else if !limit.admits(least, charge) {
            0
        } else {
            let gpus = self.layout.gpus(server).filter(|&g| !self.busy[g]);
            gpus.filter(|&g| limit.admits(self.time[g], charge)).count() as u32
        }
    }

    /// Appends the candidates of a server to `to`, as (U, GPU), in order of GPU.
    pub(super) fn list(&self, server: usize, charge: f64, limit: &mut Limit, to: &mut Vec<(f64, u32)>) {
        for g in self.layout.gpus(server) {
            if !self.busy[g] && limit.admits(self.time[g], charge) {
                to.push((self.time[g], g as u32));
            }
        }
    }

    /// Returns the candidates of a server if all its GPUs were idle.
    pub(super) fn ever(&self, server: usize, charge: f64, limit: &mut Limit) -> u32 {
        self.layout.gpus(server).filter(|&g| limit.admits(self.time[g], charge)).count() as u32
    }

    /// Returns whether theta keeps no GPU of the cluster from a job.
    pub(super) fn all_admitted(&self, charge: f64, limit: &mut Limit) -> bool {
        self.largest + charge <= limit.theta && limit.admits(self.largest, charge)
    }

    /// Returns the `count` idle GPUs with least U, ties by GPU; fewer if there are not so many.
    pub(super) fn least(&self, count: usize, to: &mut Vec<(f64, u32)>) {
        let order = self.by_time.iter().flatten();
        to.extend(order.take(count).map(|&(bits, gpu)| (f64::from_bits(bits), gpu)));
    }

    /// Returns the servers by (mean U, index), least first.
    pub(super) fn by_mean(&mut self) -> &[(u64, u32)] {
        self.by_mean.as_mut().map_or(&[], |order| {
            order.refresh(self.layout, &self.time);
            order.servers.as_slice()
        })
    }

    /// Gives GPUs, in ascending order, to a job.
    pub(super) fn take(&mut self, gpus: &[u32], charge: f64) {
        for &gpu in gpus {
            let g = gpu as usize;
            if let Some(order) = &mut self.by_time {
                order.remove(&(self.time[g].to_bits(), gpu));
            }
            self.time[g] += charge;
            self.largest = self.largest.max(self.time[g]);
            if self.reserve {
                if let Some(order) = &mut self.by_time {
                    order.insert((self.time[g].to_bits(), gpu));
                }
            } else {
                self.busy[g] = true;
            }
        }
        self.each_server(gpus, |own, server, count| {
            if !own.reserve {
                own.idle[server] -= count;
                own.total_idle -= u64::from(count);
            }
            own.opened[server] = true;
            if let Some(order) = &mut own.by_mean {
                order.touch(server);
            }
        });
    }

    /// Takes GPUs, in ascending order, back from a job.
    pub(super) fn release(&mut self, gpus: &[u32]) {
        for &gpu in gpus {
            self.busy[gpu as usize] = false;
            if let Some(order) = &mut self.by_time {
                order.insert((self.time[gpu as usize].to_bits(), gpu));
            }
        }
        self.each_server(gpus, |own, server, count| {
            own.idle[server] += count;
            own.total_idle += u64::from(count);
            own.opened[server] = own.idle[server] < own.layout.sizes[server];
        });
    }

    /// Calls `change` for every server of those GPUs, with their number there, and updates its span.
    fn each_server(&mut self, gpus: &[u32], mut change: impl FnMut(&mut Self, usize, u32)) {
        let mut at = 0;
        while at < gpus.len() {
            let server = self.layout.server_of[gpus[at] as usize] as usize;
            let end = self.layout.first[server + 1];
            let count = gpus[at..].iter().take_while(|&&g| g < end).count();
            change(self, server, count as u32);
            let mut span = (f64::INFINITY, f64::NEG_INFINITY);
            for g in self.layout.gpus(server) {
                if !self.busy[g] {
                    span = (span.0.min(self.time[g]), span.1.max(self.time[g]));
                }
            }
            self.span[server] = span;
            at += count;
        }
    }
}

/// Servers in order of (mean U, index). U is never negative, so its bits sort as it does.
#[derive(Clone, Debug)]
struct MeanOrder {
    servers: Vec<(u64, u32)>,
    key: Vec<u64>,
    stale: Vec<u32>,
    is_stale: Vec<bool>,
}

impl MeanOrder {
    fn new(servers: usize) -> Self {
        Self {
            servers: (0..servers as u32).map(|s| (0, s)).collect(),
            key: vec![0; servers],
            stale: Vec::new(),
            is_stale: vec![false; servers],
        }
    }

    fn touch(&mut self, server: usize) {
        if !std::mem::replace(&mut self.is_stale[server], true) {
            self.stale.push(server as u32);
        }
    }

    fn refresh(&mut self, layout: &Layout, time: &[f64]) {
        while let Some(server) = self.stale.pop() {
            let s = server as usize;
            self.is_stale[s] = false;
            let own = &time[layout.gpus(s)];
            // Summed anew in index order, so that equal histories tie exactly.
            let mean = own.iter().fold(0.0, |sum, u| sum + u) / own.len() as f64;
            let key = mean.to_bits();
            let before = (self.key[s], server);
            if key != self.key[s] {
                // Means only grow: the server moves towards the end.
                let from = self.servers.partition_point(|&entry| entry < before);
                let to = self.servers.partition_point(|&entry| entry < (key, server));
                self.servers[from..to].rotate_left(1);
                self.servers[to - 1] = (key, server);
                self.key[s] = key;
            }
        }
    }
}
