//! Tracks shares: GPUs that several jobs may hold at once, each some thousandths of one.
//!
//! Invariant: `room[g]` is what no job holds of GPU g, and `by_room` has (room, GPU) of every GPU. A job that holds
//! whole GPUs has all of each. For example, a GPU with shares of 300 and 500 thousandths has room for 200 more.
//!
//! GPUs are numbered by (server, index on the server).

use super::Claim;
use crate::ds::{Minima, OrderedBits};
use crate::ids::{Job, MILLI_GPU, Server};
use std::collections::BTreeMap;

/// The room of every GPU, and what each job holds.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    /// The first GPU of each server, and the end.
    first: Vec<u32>,
    /// The server of each GPU.
    server: Vec<Server>,
    /// Thousandths of each GPU that no job holds.
    room: Vec<u16>,
    /// Their sum.
    total: u64,
    /// Member `room * GPUs + GPU`.
    by_room: OrderedBits,
    /// Rooms, negated, by GPU (first-fit only).
    first_fit: Option<Minima>,
    /// The GPUs of each job, ascending, and the thousandths that it holds of each.
    held: BTreeMap<Job, (Vec<u32>, u32)>,
    /// (GPU, room) of GPUs that are covered although they are partly held.
    covered: Vec<(u32, u32)>,
    /// Thousandths of each GPU that are sealed; empty before any is.
    sealed: Vec<u16>,
}

impl Shares {
    /// Returns empty GPUs. `first_fit`: whether the placement needs the first GPU with room.
    pub(super) fn new(sizes: &[u32], first_fit: bool) -> Self {
        let mut first = vec![0];
        let mut server = Vec::new();
        for (s, &size) in sizes.iter().enumerate() {
            server.extend((0..size).map(|_| Server::at(s)));
            first.push(server.len() as u32);
        }
        let gpus = server.len();
        let mut shares = Self {
            first,
            server,
            room: vec![MILLI_GPU as u16; gpus],
            total: gpus as u64 * u64::from(MILLI_GPU),
            by_room: OrderedBits::new(gpus * (MILLI_GPU as usize + 1)),
            first_fit: first_fit.then(|| Minima::new(gpus)),
            held: BTreeMap::new(),
            covered: Vec::new(),
            sealed: Vec::new(),
        };
        for gpu in 0..gpus {
            shares.by_room.insert(MILLI_GPU as usize * gpus + gpu);
            if let Some(rooms) = &mut shares.first_fit {
                rooms.set(gpu, -f64::from(MILLI_GPU));
            }
        }
        shares
    }

    /// Returns the thousandths that no job holds, in total.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn server_of(&self, gpu: usize) -> Server {
        self.server[gpu]
    }

    fn gpus(&self) -> usize {
        self.room.len()
    }

    /// Returns the GPUs of a job, as (server, index on it), and the thousandths that it holds of each.
    pub(crate) fn held(&self, job: Job) -> (Vec<(Server, u32)>, u32) {
        self.held.get(&job).map_or((Vec::new(), 0), |(gpus, share)| (self.named(gpus), *share))
    }

    fn named(&self, gpus: &[u32]) -> Vec<(Server, u32)> {
        let name = |&gpu: &u32| {
            let server = self.server[gpu as usize];
            (server, gpu - self.first[server.index()])
        };
        gpus.iter().map(name).collect()
    }

    // Where a share fits. Each function takes the lowest GPU on ties.

    /// Returns whether some GPU has room for a share.
    pub(crate) fn has_room(&self, share: u32) -> bool {
        self.by_room.next(share as usize * self.gpus()).is_some()
    }

    /// Returns the first GPU with room for a share.
    pub(crate) fn first(&self, share: u32) -> Option<usize> {
        let enough = |room: f64| room <= -f64::from(share);
        self.first_fit.as_ref()?.next(0, self.gpus(), enough)
    }

    /// Returns the GPU with the least room that is enough.
    pub(crate) fn tightest(&self, share: u32) -> Option<usize> {
        self.by_room.next(share as usize * self.gpus()).map(|member| member % self.gpus())
    }

    /// Returns the GPU with the most room, if that is enough.
    pub(crate) fn roomiest(&self, share: u32) -> Option<usize> {
        let last = self.by_room.prev((MILLI_GPU as usize + 1) * self.gpus())?;
        let most = last / self.gpus();
        if most < share as usize { None } else { self.lowest(most) }
    }

    /// Returns how many GPUs have room for a share.
    pub(crate) fn count(&self, share: u32) -> u64 {
        self.room.iter().filter(|&&room| u32::from(room) >= share).count() as u64
    }

    /// Returns the GPU of that rank among those with room for a share.
    pub(crate) fn of_rank(&self, share: u32, rank: u64) -> Option<usize> {
        let fits = |gpu: &usize| u32::from(self.room[*gpu]) >= share;
        (0..self.gpus()).filter(fits).nth(rank as usize)
    }

    /// Returns (room, the lowest GPU that has it), for every room from that of a share up to less than a whole GPU.
    pub(crate) fn opened(&self, share: u32) -> impl Iterator<Item = (u32, usize)> + '_ {
        let mut from = share as usize * self.gpus();
        std::iter::from_fn(move || {
            let member = self.by_room.next(from).filter(|&member| member < MILLI_GPU as usize * self.gpus())?;
            let room = member / self.gpus();
            from = (room + 1) * self.gpus();
            Some((room as u32, member % self.gpus()))
        })
    }

    fn lowest(&self, room: usize) -> Option<usize> {
        self.by_room.next(room * self.gpus()).map(|member| member % self.gpus())
    }

    /// Returns the lowest empty GPU of a server that has one.
    pub(crate) fn empty_on(&self, server: Server) -> Option<usize> {
        self.by_room
            .next(MILLI_GPU as usize * self.gpus() + self.first[server.index()] as usize)
            .map(|member| member - MILLI_GPU as usize * self.gpus())
    }

    // How GPUs change hands. The caller keeps the counts of empty GPUs.

    /// Takes the lowest empty GPUs of a server.
    pub(super) fn take_empty(&mut self, server: Server, count: u32, job: Job) {
        for _ in 0..count {
            if let Some(gpu) = self.empty_on(server) {
                self.give_to(gpu, job, MILLI_GPU);
            }
        }
    }

    /// Returns the thousandths of a GPU that no job holds; 0 if the server has no such GPU.
    pub(crate) fn room(&self, server: Server, gpu: u32) -> u32 {
        let gpus = self.first[server.index()] as usize..self.first[server.index() + 1] as usize;
        self.room[gpus].get(gpu as usize).map_or(0, |&room| u32::from(room))
    }

    /// Takes GPUs of a server, or shares of them. Returns how many of them were empty.
    pub(super) fn take_named(&mut self, server: Server, gpus: &[u32], claim: &Claim) -> u32 {
        let share = if claim.share > 0 { claim.share } else { MILLI_GPU };
        let first = self.first[server.index()];
        gpus.iter().map(|&gpu| u32::from(self.take((first + gpu) as usize, claim.job, share))).sum()
    }

    /// Takes a share of a GPU. Returns whether it was empty.
    pub(super) fn take(&mut self, gpu: usize, job: Job, share: u32) -> bool {
        let was_empty = u32::from(self.room[gpu]) == MILLI_GPU;
        self.give_to(gpu, job, share);
        was_empty
    }

    fn give_to(&mut self, gpu: usize, job: Job, share: u32) {
        self.set(gpu, u32::from(self.room[gpu]) - share);
        let held = self.held.entry(job).or_insert_with(|| (Vec::new(), share));
        // Ascending, in any order of the servers.
        let at = held.0.partition_point(|&other| (other as usize) < gpu);
        held.0.insert(at, gpu as u32);
    }

    /// Releases what a job holds. Returns the servers of its GPUs that are empty now, one entry per GPU.
    pub(super) fn release(&mut self, job: Job) -> Vec<Server> {
        let Some((gpus, share)) = self.held.remove(&job) else { return Vec::new() };
        let mut emptied = Vec::new();
        for gpu in gpus {
            let gpu = gpu as usize;
            self.set(gpu, u32::from(self.room[gpu]) + share);
            if u32::from(self.room[gpu]) == MILLI_GPU {
                emptied.push(self.server[gpu]);
            }
        }
        emptied
    }

    /// Gives what a job holds to another.
    pub(super) fn rename(&mut self, from: Job, to: Job) {
        if let Some(held) = self.held.remove(&from) {
            self.held.insert(to, held);
        }
    }

    /// Hides the rest of a server's partly held GPUs.
    pub(super) fn cover(&mut self, server: Server) {
        for gpu in self.first[server.index()]..self.first[server.index() + 1] {
            let room = u32::from(self.room[gpu as usize]);
            if room > 0 {
                self.covered.push((gpu, room));
                self.set(gpu as usize, 0);
            }
        }
    }

    /// Shows them again.
    pub(super) fn uncover(&mut self, server: Server) {
        let gpus = self.first[server.index()]..self.first[server.index() + 1];
        for (gpu, room) in std::mem::take(&mut self.covered) {
            if gpus.contains(&gpu) {
                self.set(gpu as usize, u32::from(self.room[gpu as usize]) + room);
            } else {
                self.covered.push((gpu, room));
            }
        }
    }

    /// Takes what no job holds of a server's GPUs. Returns how many of them no job holds at all.
    pub(super) fn seal(&mut self, server: Server) -> u32 {
        self.sealed.resize(self.gpus(), 0);
        let mut empty = 0;
        for gpu in self.first[server.index()] as usize..self.first[server.index() + 1] as usize {
            self.sealed[gpu] += self.room[gpu];
            self.set(gpu, 0);
            empty += u32::from(u32::from(self.sealed[gpu]) == MILLI_GPU);
        }
        empty
    }

    /// Gives it back. Returns how many GPUs are empty.
    pub(super) fn unseal(&mut self, server: Server) -> u32 {
        let mut empty = 0;
        for gpu in self.first[server.index()] as usize..self.first[server.index() + 1] as usize {
            let room = u32::from(self.room[gpu]) + u32::from(std::mem::take(&mut self.sealed[gpu]));
            self.set(gpu, room);
            empty += u32::from(room == MILLI_GPU);
        }
        empty
    }

    fn set(&mut self, gpu: usize, room: u32) {
        let was = u32::from(std::mem::replace(&mut self.room[gpu], room as u16));
        let gpus = self.gpus();
        self.by_room.remove(was as usize * gpus + gpu);
        self.by_room.insert(room as usize * gpus + gpu);
        self.total = self.total + u64::from(room) - u64::from(was);
        if let Some(rooms) = &mut self.first_fit {
            rooms.set(gpu, -f64::from(room));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_finds_its_gpu() {
        let mut shares = Shares::new(&[2, 2], true);
        let job = |number| Job::new(number);
        assert!(shares.take(1, job(0), 600));
        assert!(!shares.take(1, job(1), 100));
        assert!(shares.take(2, job(2), 500));
        // Rooms: 1000, 300, 500, 1000.
        assert_eq!([300, 400, 600].map(|share| shares.tightest(share)), [Some(1), Some(2), Some(0)]);
        assert_eq!([300, 400].map(|share| shares.first(share)), [Some(0), Some(0)]);
        assert_eq!((shares.roomiest(100), shares.roomiest(1000)), (Some(0), Some(0)));
        assert_eq!(shares.opened(200).collect::<Vec<_>>(), [(300, 1), (500, 2)]);
        assert_eq!((shares.count(400), shares.of_rank(400, 1)), (3, Some(2)));
        assert_eq!(shares.total(), 2800);
        shares.take_empty(Server::new(1), 1, job(3));
        assert_eq!(shares.held(job(3)), (vec![(Server::new(1), 1)], MILLI_GPU));
        assert!(shares.release(job(0)).is_empty());
        assert_eq!(shares.release(job(1)), [Server::new(0)]);
        assert_eq!(shares.empty_on(Server::new(0)), Some(0));
        assert!(!shares.has_room(1001));
    }
}
