//! Accumulated time U of every GPU (SPEC section 6), and the orders that placements read off it.

use crate::cluster::Claim;
use std::collections::BTreeSet;

const NOBODY: u32 = u32::MAX;

/// U_g, the owner of each GPU, and the orders kept over them.
///
/// Taking or releasing GPUs of a server costs O(O_s) for the scan of its GPUs, plus log2(servers) where the
/// least-loaded order is kept. The order of servers by mean U is brought up to date when it is asked for, for the
/// servers whose U changed since.
#[derive(Clone, Debug)]
pub(crate) struct GpuTimes {
    /// GPUs of server s are `first[s]..first[s + 1]`.
    first: Vec<u32>,
    /// U_g, s.
    time: Vec<f64>,
    /// The job on each GPU.
    owner: Vec<u32>,
    least: Option<Tournament>,
    mean: Option<MeanOrder>,
    /// (GPU, U before) for every GPU taken since the last mark.
    taken: Vec<(u32, f64)>,
    scratch: Vec<(f64, u32)>,
}

impl GpuTimes {
    pub(crate) fn new(sizes: &[u32], least: bool, mean: bool) -> Self {
        let mut first = Vec::with_capacity(sizes.len() + 1);
        let mut total = 0;
        first.push(0);
        for &size in sizes {
            total += size;
            first.push(total);
        }
        Self {
            first,
            time: vec![0.0; total as usize],
            owner: vec![NOBODY; total as usize],
            least: least.then(|| Tournament::new(sizes.len())),
            mean: mean.then(|| MeanOrder::new(sizes.len())),
            taken: Vec::new(),
            scratch: Vec::new(),
        }
    }

    fn gpus(&self, server: u32) -> std::ops::Range<usize> {
        self.first[server as usize] as usize..self.first[server as usize + 1] as usize
    }

    /// The server of a GPU.
    fn server_of(&self, gpu: u32) -> u32 {
        self.first.partition_point(|&f| f <= gpu) as u32 - 1
    }

    pub(crate) fn mark(&mut self) {
        self.taken.clear();
    }

    pub(crate) fn undo(&mut self) {
        while let Some((gpu, before)) = self.taken.pop() {
            self.time[gpu as usize] = before;
            let server = self.server_of(gpu);
            self.touched(server);
        }
    }

    /// Takes the `count` idle GPUs of a server with least U, ties by GPU.
    pub(crate) fn take_least(&mut self, server: u32, count: u32, claim: &Claim) {
        let mut idle = std::mem::take(&mut self.scratch);
        idle.clear();
        idle.extend(self.gpus(server).filter(|&g| self.owner[g] == NOBODY).map(|g| (self.time[g], g as u32)));
        if (count as usize) < idle.len() {
            idle.sort_unstable_by(by_time);
            idle.truncate(count as usize);
        }
        for &(_, gpu) in &idle {
            self.grab(gpu as usize, claim);
        }
        self.scratch = idle;
        self.touched(server);
    }

    /// Takes the idle GPU with least U of all, ties by (server, GPU); gives its server.
    pub(crate) fn take_least_of_all(&mut self, claim: &Claim) -> Option<u32> {
        let server = self.least.as_ref()?.winner();
        let gpu = self
            .gpus(server)
            .filter(|&g| self.owner[g] == NOBODY)
            .reduce(|a, b| if self.time[b] < self.time[a] { b } else { a })?;
        self.grab(gpu, claim);
        self.touched(server);
        Some(server)
    }

    /// The idle GPUs of a server, as (U, GPU), appended to `to`.
    pub(crate) fn idle_gpus(&self, server: u32, to: &mut Vec<(f64, u32)>) {
        to.extend(self.gpus(server).filter(|&g| self.owner[g] == NOBODY).map(|g| (self.time[g], g as u32)));
    }

    /// Of the GPUs in `pool`, the `count` with least U, ties by GPU, as counts per server in server order.
    pub(crate) fn least_of(&self, pool: &mut Vec<(f64, u32)>, count: u32, parts: &mut Vec<(u32, u32)>) {
        let count = count as usize;
        if count < pool.len() {
            pool.select_nth_unstable_by(count, by_time);
            pool.truncate(count);
        }
        pool.sort_unstable_by_key(|&(_, gpu)| gpu);
        let mut end = 0;
        for &(_, gpu) in pool.iter() {
            match parts.last_mut() {
                Some(part) if gpu < end => part.1 += 1,
                _ => {
                    let server = self.server_of(gpu);
                    end = self.first[server as usize + 1];
                    parts.push((server, 1));
                }
            }
        }
    }

    /// Servers by (mean U, index), least first.
    pub(crate) fn by_mean(&mut self) -> impl Iterator<Item = u32> + '_ {
        if let Some(order) = &mut self.mean {
            order.refresh(&self.first, &self.time);
        }
        self.mean.iter().flat_map(|order| order.servers.iter().map(|&(_, server)| server))
    }

    pub(crate) fn release(&mut self, server: u32, count: u32, job: u32) {
        let mut left = count;
        for gpu in self.gpus(server) {
            if self.owner[gpu] == job {
                self.owner[gpu] = NOBODY;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        self.update_least(server);
    }

    #[inline]
    fn grab(&mut self, gpu: usize, claim: &Claim) {
        self.taken.push((gpu as u32, self.time[gpu]));
        self.owner[gpu] = claim.job;
        self.time[gpu] += claim.time;
    }

    fn touched(&mut self, server: u32) {
        if let Some(order) = &mut self.mean {
            order.touch(server);
        }
        self.update_least(server);
    }

    fn update_least(&mut self, server: u32) {
        if self.least.is_none() {
            return;
        }
        let least =
            self.gpus(server).filter(|&g| self.owner[g] == NOBODY).map(|g| self.time[g]).fold(f64::INFINITY, f64::min);
        if let Some(tree) = &mut self.least {
            tree.set(server, least);
        }
    }
}

fn by_time(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// The server with the least value, lowest index on ties: a complete binary tree of minima.
#[derive(Clone, Debug)]
struct Tournament {
    leaves: usize,
    minima: Vec<f64>,
}

impl Tournament {
    fn new(servers: usize) -> Self {
        let leaves = servers.next_power_of_two();
        let mut tree = Self { leaves, minima: vec![f64::INFINITY; 2 * leaves] };
        for s in 0..servers {
            tree.set(s as u32, 0.0);
        }
        tree
    }

    fn set(&mut self, server: u32, value: f64) {
        let mut at = self.leaves + server as usize;
        self.minima[at] = value;
        while at > 1 {
            at /= 2;
            let least = self.minima[2 * at].min(self.minima[2 * at + 1]);
            if self.minima[at] == least {
                break;
            }
            self.minima[at] = least;
        }
    }

    fn winner(&self) -> u32 {
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            if self.minima[at + 1] < self.minima[at] {
                at += 1;
            }
        }
        (at - self.leaves) as u32
    }
}

/// Servers in order of (mean U, index). U is never negative, so its bits sort as it does.
#[derive(Clone, Debug)]
struct MeanOrder {
    servers: BTreeSet<(u64, u32)>,
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

    fn touch(&mut self, server: u32) {
        if !std::mem::replace(&mut self.is_stale[server as usize], true) {
            self.stale.push(server);
        }
    }

    fn refresh(&mut self, first: &[u32], time: &[f64]) {
        while let Some(server) = self.stale.pop() {
            let s = server as usize;
            self.is_stale[s] = false;
            let own = &time[first[s] as usize..first[s + 1] as usize];
            // Summed afresh in index order, so that equal histories tie exactly.
            let mean = own.iter().fold(0.0, |sum, u| sum + u) / own.len() as f64;
            let key = mean.to_bits();
            if key != self.key[s] {
                self.servers.remove(&(self.key[s], server));
                self.servers.insert((key, server));
                self.key[s] = key;
            }
        }
    }
}
