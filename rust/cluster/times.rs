//! Tracks the accumulated time U of every GPU (docs/model.md#accumulated-time), and the orders by it that placements
//! need.
//!
//! Invariant: U of a GPU grows when a job takes it and never shrinks, unless the grant is undone: then U is what it was
//! before, bit by bit. The least-loaded order is always up to date, the order by mean U only when it is read. For
//! example, a server whose GPUs have U of 0 s and 6 s has a mean of 3 s. A job of 4 s on the first makes the mean 5 s.

use super::pods::LeastPods;
use super::{Claim, Needs};
use crate::ds::Minima;
use crate::ids::{Job, Server};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// U_g, the job on each GPU, and the orders kept over them.
///
/// Taking or releasing GPUs of a server costs O(O_s) for the scan of its GPUs, plus log2(servers) where the
/// least-loaded order is kept. The order of servers by mean U is updated only when it is read, and only as far as it is
/// read.
#[derive(Clone, Debug)]
pub(crate) struct GpuTimes {
    /// GPUs of server s are `first[s]..first[s + 1]`.
    first: Vec<u32>,
    /// U_g, s.
    time: Vec<f64>,
    /// The job on each GPU.
    owner: Vec<Job>,
    least: Option<Minima>,
    mean: Option<MeanOrder>,
    /// Servers by the least sum of U of a pod there, for each pod size that was placed by it.
    pub(super) pods: Vec<LeastPods>,
    /// Whether the lowest GPUs of a server are taken, not those with least U.
    lowest: bool,
    /// (GPU, U before) for every GPU taken since the last mark.
    taken: Vec<(u32, f64)>,
    pub(super) scratch: Vec<(f64, u32)>,
}

impl GpuTimes {
    pub(crate) fn new(sizes: &[u32], needs: &Needs) -> Self {
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
            owner: vec![Job::NONE; total as usize],
            least: needs.least_time.then(|| {
                let mut tree = Minima::new(sizes.len());
                (0..sizes.len()).for_each(|server| tree.set(server, 0.0));
                tree
            }),
            mean: needs.mean_time.then(|| MeanOrder::new(sizes.len())),
            pods: Vec::new(),
            lowest: needs.lowest,
            taken: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Returns the number of servers.
    pub(super) fn servers(&self) -> usize {
        self.first.len() - 1
    }

    fn gpus(&self, server: Server) -> std::ops::Range<usize> {
        self.first[server.index()] as usize..self.first[server.index() + 1] as usize
    }

    /// Returns the server of a GPU.
    fn server_of(&self, gpu: u32) -> Server {
        Server::at(self.first.partition_point(|&f| f <= gpu) - 1)
    }

    /// Keeps further orders from now on.
    pub(super) fn keep(&mut self, least: bool, mean: bool) {
        let servers = self.servers();
        if least && self.least.is_none() {
            self.least = Some(Minima::new(servers));
            (0..servers).map(Server::at).for_each(|server| self.update_least(server));
        }
        if mean && self.mean.is_none() {
            let mut order = MeanOrder::new(servers);
            order.stale.fill(true);
            self.mean = Some(order);
        }
    }

    /// Returns U of the GPUs of a server, s.
    pub(crate) fn of(&self, server: Server) -> &[f64] {
        &self.time[self.gpus(server)]
    }

    pub(crate) fn mark(&mut self) {
        self.taken.clear();
    }

    pub(crate) fn undo(&mut self) {
        while let Some((gpu, before)) = self.taken.pop() {
            self.time[gpu as usize] = before;
            let server = self.server_of(gpu);
            self.touched(server);
            if let Some(order) = &mut self.mean {
                order.lowered.push(server);
            }
        }
    }

    /// Takes the `count` idle GPUs of a server with least U, ties by GPU.
    pub(crate) fn take_least(&mut self, server: Server, count: u32, claim: &Claim) {
        let mut idle = std::mem::take(&mut self.scratch);
        idle.clear();
        idle.extend(self.gpus(server).filter(|&g| self.owner[g] == Job::NONE).map(|g| (self.time[g], g as u32)));
        if (count as usize) < idle.len() {
            if !self.lowest {
                idle.sort_unstable_by(by_time);
            }
            idle.truncate(count as usize);
        }
        for &(_, gpu) in &idle {
            self.grab(gpu as usize, claim);
        }
        self.scratch = idle;
        self.touched(server);
    }

    /// Takes the pod of idle GPUs of one server with the least sum of U, ties by (server, GPU). Returns its server.
    pub(crate) fn take_least_used_pod(&mut self, claim: &Claim) -> Option<Server> {
        if claim.form.pod > 1 {
            let server = self.least_pod(claim.form.pod)?;
            self.take_least(server, claim.form.pod, claim);
            return Some(server);
        }
        let server = Server::at(self.least.as_ref()?.least());
        let gpu = self
            .gpus(server)
            .filter(|&g| self.owner[g] == Job::NONE)
            .reduce(|a, b| if self.time[b] < self.time[a] { b } else { a })?;
        self.grab(gpu, claim);
        self.touched(server);
        Some(server)
    }

    /// Appends the idle GPUs of a server to `to`, as (U, GPU).
    pub(crate) fn idle_gpus(&self, server: Server, to: &mut Vec<(f64, u32)>) {
        to.extend(self.gpus(server).filter(|&g| self.owner[g] == Job::NONE).map(|g| (self.time[g], g as u32)));
    }

    /// Chooses from the GPUs in `pool` the `count` with least U, ties by GPU, as counts per server in server order.
    pub(crate) fn least_of(&self, pool: &mut Vec<(f64, u32)>, count: u32, parts: &mut Vec<(Server, u32)>) {
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
                    end = self.first[server.index() + 1];
                    parts.push((server, 1));
                }
            }
        }
    }

    /// Visits servers by (mean U, index), least first, until `go_on` returns false.
    pub(crate) fn by_mean(&mut self, go_on: impl FnMut(Server) -> bool) {
        if let Some(order) = &mut self.mean {
            order.visit(&self.first, &self.time, go_on);
        }
    }

    pub(crate) fn release(&mut self, server: Server, count: u32, job: Job) {
        let mut left = count;
        for gpu in self.gpus(server) {
            if self.owner[gpu] == job {
                self.owner[gpu] = Job::NONE;
                left -= 1;
                if left == 0 {
                    break;
                }
            }
        }
        self.update_least(server);
    }

    /// Returns the job on each GPU, by (server, GPU).
    pub(crate) fn owners(&self) -> &[Job] {
        &self.owner
    }

    /// Returns the numbers of a server's GPUs.
    pub(crate) fn on(&self, server: Server) -> std::ops::Range<usize> {
        self.gpus(server)
    }

    /// Returns the GPUs that were taken since the last mark.
    pub(crate) fn taken(&self) -> impl Iterator<Item = usize> + '_ {
        self.taken.iter().map(|&(gpu, _)| gpu as usize)
    }

    /// Gives the GPUs of one owner on a server another owner.
    pub(super) fn change_owners(&mut self, server: Server, from: Job, to: Job) {
        for gpu in self.gpus(server) {
            if self.owner[gpu] == from {
                self.owner[gpu] = to;
            }
        }
        self.update_least(server);
    }

    /// Adds time to U of the GPUs of an owner on a server, s.
    pub(super) fn book(&mut self, server: Server, owner: Job, time: f64) {
        for gpu in self.gpus(server) {
            if self.owner[gpu] == owner {
                self.time[gpu] += time;
            }
        }
        self.touched(server);
    }

    /// Gives a GPU another owner.
    pub(super) fn set_owner(&mut self, server: Server, gpu: usize, owner: Job) {
        self.owner[gpu] = owner;
        self.update_least(server);
    }

    /// Returns whether U decides which GPUs are taken.
    pub(super) fn counts(&self) -> bool {
        !self.lowest
    }

    /// Copies U from the run of which this is a copy, where it may have grown, with other owners.
    pub(super) fn follow(&mut self, other: &Self, owner: impl Fn(usize) -> Job) {
        self.time.clone_from(&other.time);
        self.owner.iter_mut().enumerate().for_each(|(gpu, own)| *own = owner(gpu));
        (0..self.servers()).map(Server::at).for_each(|server| self.touched(server));
    }

    #[inline]
    fn grab(&mut self, gpu: usize, claim: &Claim) {
        self.taken.push((gpu as u32, self.time[gpu]));
        self.owner[gpu] = claim.job;
        self.time[gpu] += claim.time;
    }

    fn touched(&mut self, server: Server) {
        if let Some(order) = &mut self.mean {
            order.touch(server);
        }
        self.update_least(server);
    }

    fn update_least(&mut self, server: Server) {
        if self.least.is_none() {
            return;
        }
        self.pods.iter_mut().for_each(|pods| pods.touch(server));
        let least = self
            .gpus(server)
            .filter(|&g| self.owner[g] == Job::NONE)
            .map(|g| self.time[g])
            .fold(f64::INFINITY, f64::min);
        if let Some(tree) = &mut self.least {
            tree.set(server.index(), least);
        }
    }
}

pub(super) fn by_time(a: &(f64, u32), b: &(f64, u32)) -> std::cmp::Ordering {
    a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))
}

/// A server as an order knew it: the bits of its mean U, its index, and the number of the entry among the server's
/// entries. The number tells the last entry from outdated ones.
type Entry = (u64, Server, u32);

/// Servers in order of (mean U, index).
///
/// U only grows, except where a grant is undone, so an entry's mean is at most the real one: it is recomputed only when
/// the entry comes first. A server that never comes first costs nothing when its U changes.
#[derive(Clone, Debug)]
struct MeanOrder {
    /// Entries visited before, greatest first.
    front: Vec<Entry>,
    rest: BinaryHeap<Reverse<Entry>>,
    /// The mean in each server's last entry, and how many entries it had before.
    key: Vec<u64>,
    count: Vec<u32>,
    /// Whether U changed since the server's last entry.
    stale: Vec<bool>,
    /// Servers of which a grant was undone.
    lowered: Vec<Server>,
    visited: Vec<Entry>,
}

impl MeanOrder {
    fn new(servers: usize) -> Self {
        Self {
            front: (0..servers).rev().map(|s| (0, Server::at(s), 0)).collect(),
            rest: BinaryHeap::new(),
            key: vec![0; servers],
            count: vec![0; servers],
            stale: vec![false; servers],
            lowered: Vec::new(),
            visited: Vec::new(),
        }
    }

    fn touch(&mut self, server: Server) {
        self.stale[server.index()] = true;
    }

    fn visit(&mut self, first: &[u32], time: &[f64], mut go_on: impl FnMut(Server) -> bool) {
        while let Some(server) = self.lowered.pop() {
            if mean(server, first, time) < self.key[server.index()] {
                self.renew(server, first, time);
            }
        }
        loop {
            let next = self.next_of_front(first, time);
            let other = self.next_of_rest(first, time);
            let entry = match (next, other) {
                (Some(a), Some(b)) if b < a => self.rest.pop().map(|Reverse(entry)| entry),
                (Some(_), _) => self.front.pop(),
                (None, _) => self.rest.pop().map(|Reverse(entry)| entry),
            };
            let Some(entry) = entry else { break };
            self.visited.push(entry);
            if !go_on(entry.1) {
                break;
            }
        }
        while let Some(entry) = self.visited.pop() {
            self.front.push(entry);
        }
    }

    /// Returns the first entry of the front that is up to date.
    fn next_of_front(&mut self, first: &[u32], time: &[f64]) -> Option<Entry> {
        while let Some(&entry) = self.front.last() {
            if self.is_up_to_date(entry) {
                return Some(entry);
            }
            self.front.pop();
            self.replace(entry, first, time);
        }
        None
    }

    /// Returns the first entry of the rest that is up to date.
    fn next_of_rest(&mut self, first: &[u32], time: &[f64]) -> Option<Entry> {
        while let Some(&Reverse(entry)) = self.rest.peek() {
            if self.is_up_to_date(entry) {
                return Some(entry);
            }
            // Before a new entry is added, which may clear old ones from the heap, including this one.
            self.rest.pop();
            self.replace(entry, first, time);
        }
        None
    }

    /// Returns whether an entry is its server's last, and U has not changed since.
    fn is_up_to_date(&self, (_, server, count): Entry) -> bool {
        count == self.count[server.index()] && !self.stale[server.index()]
    }

    /// Replaces a discarded entry by a new one, unless its server has a later one.
    fn replace(&mut self, (_, server, count): Entry, first: &[u32], time: &[f64]) {
        if count == self.count[server.index()] {
            self.renew(server, first, time);
        }
    }

    fn renew(&mut self, server: Server, first: &[u32], time: &[f64]) {
        let s = server.index();
        self.stale[s] = false;
        self.key[s] = mean(server, first, time);
        self.count[s] = self.count[s].wrapping_add(1);
        if self.rest.len() > 2 * self.count.len() {
            let count = &self.count;
            self.rest.retain(|&Reverse((_, other, c))| c == count[other.index()]);
        }
        self.rest.push(Reverse((self.key[s], server, self.count[s])));
    }
}

/// Returns the bits of a server's mean U. It is never negative, so the bits sort as it does.
fn mean(server: Server, first: &[u32], time: &[f64]) -> u64 {
    let own = &time[first[server.index()] as usize..first[server.index() + 1] as usize];
    // Summed afresh in index order, so that equal histories tie exactly.
    (own.iter().fold(0.0, |sum, u| sum + u) / own.len() as f64).to_bits()
}

#[cfg(test)]
mod tests {
    use super::{Claim, GpuTimes, Job, Needs, Server};
    use crate::ids::Form;
    use proptest::prelude::*;

    /// Returns servers by (mean U, index), the slow way.
    fn sorted(times: &GpuTimes, servers: usize) -> Vec<Server> {
        let mean = |s: Server| {
            let own = &times.time[times.gpus(s)];
            own.iter().fold(0.0, |sum, u| sum + u) / own.len() as f64
        };
        let mut order: Vec<Server> = (0..servers).map(Server::at).collect();
        order.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)).then(a.cmp(&b)));
        order
    }

    /// Mostly short visits: long ones sort all servers, so that outdated entries never gather.
    fn lengths() -> impl Strategy<Value = usize> {
        prop_oneof![6 => 1usize..3, 1 => 0usize..14]
    }

    proptest! {
        /// Grants kept, grants undone with or without a visit in between, and visits of every length.
        #[test]
        fn the_order_by_mean_is_that_of_a_sort(
            sizes in prop::collection::vec(1u32..4, 1..12),
            steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>(), 1u8..50, lengths()), 1..400),
        ) {
            let servers = sizes.len();
            let mut times = GpuTimes::new(&sizes, &Needs { mean_time: true, ..Needs::default() });
            let look = |times: &mut GpuTimes, length: usize| {
                let expected = sorted(times, servers);
                let mut seen = Vec::new();
                times.by_mean(|server| {
                    seen.push(server);
                    seen.len() < length
                });
                prop_assert_eq!(&seen[..], &expected[..seen.len()]);
                prop_assert!(seen.len() >= length.min(expected.len()));
                Ok(())
            };
            for (job, (kind, server, time, length)) in steps.into_iter().enumerate() {
                let server = Server::at(server.index(sizes.len()));
                // An undone grant was large: its entry stays behind for long.
                let claim = Claim { share: 0, form: Form::default(), job: Job::at(job), num_gpus: 1, time: f64::from(time) * if kind & 2 == 2 { 1000.0 } else { 1.0 } };
                times.mark();
                times.take_least(server, 1, &claim);
                if kind & 1 == 1 {
                    look(&mut times, length)?;
                }
                if kind & 2 == 2 {
                    times.release(server, 1, Job::at(job));
                    times.undo();
                } else if job % 3 == 0 {
                    times.release(server, 1, Job::at(job));
                }
                // Not always, so that outdated entries gather between two visits.
                if length % 4 != 0 {
                    look(&mut times, length)?;
                }
            }
            look(&mut times, sizes.len() + 1)?;
        }
    }
}
