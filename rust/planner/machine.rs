//! Jobs on GPUs as time passes: the simulator of docs/model.md under the slot clock, without a queue.
//!
//! A dispatch decides which job starts. This module decides when a job ends. Invariant: `left` counts the iterations
//! left at `since`. For example, a ring with 30 iterations left and 7 a slot ends after 5 slots. If contention makes
//! that 4 a slot after 2 slots, 16 are left, and it ends 4 slots later.

use super::instance::{Instance, Work};
use crate::ds::EventHeap;
use crate::ids::{Job, Server, Slot};
use crate::outcome::ClusterOutcome;
use crate::speed::Crowd;

/// A job on GPUs.
#[derive(Clone, Debug, Default)]
struct Running {
    position: u32,
    /// Ascending.
    gpus: Vec<u32>,
    /// (server, GPUs), servers ascending.
    parts: Vec<(Server, u32)>,
    /// Iterations left at `since`.
    left: u64,
    per_slot: u64,
    since: u64,
    /// p_j.
    contention: u32,
    max_contention: u32,
    /// First of its rows in the allocations.
    first_row: usize,
}

/// What a recorded run keeps beside the times.
#[derive(Clone, Debug)]
struct Record {
    out: ClusterOutcome,
    contention_sum: u64,
    since: u64,
}

/// The clock, the running jobs and their contention.
#[derive(Clone, Debug)]
pub(super) struct Machine<'a> {
    instance: &'a Instance<'a>,
    /// The slot boundary that has been reached.
    pub(super) now: u64,
    heap: EventHeap,
    contention: Crowd,
    running: Vec<Running>,
    free: Vec<u32>,
    dirty: Vec<Slot>,
    /// No schedule that goes on from here ends before this slot.
    pub(super) lower: u64,
    record: Option<Box<Record>>,
}

impl<'a> Machine<'a> {
    pub(super) fn new(instance: &'a Instance<'a>, record: bool) -> Self {
        Self {
            instance,
            now: 0,
            heap: EventHeap::default(),
            contention: Crowd::new(instance.layout.sizes.len()),
            running: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            lower: instance.rest[0],
            record: record.then(|| {
                Box::new(Record { out: ClusterOutcome::new(instance.kept.len(), true), contention_sum: 0, since: 0 })
            }),
        }
    }

    /// The columns of a recorded run, by row, times in slots.
    pub(super) fn into_record(self) -> Option<ClusterOutcome> {
        self.record.map(|r| r.out)
    }

    pub(super) fn count_decision(&mut self) {
        if let Some(record) = &mut self.record {
            record.out.decisions += 1;
        }
    }

    /// Starts a job now on those GPUs, which are in ascending order.
    pub(super) fn start(&mut self, position: usize, gpus: &[u32]) {
        let slot = self.free.pop().unwrap_or(self.running.len() as u32);
        if slot as usize == self.running.len() {
            self.running.push(Running::default());
        }
        let running = &mut self.running[slot as usize];
        running.position = position as u32;
        running.gpus.clear();
        running.gpus.extend_from_slice(gpus);
        running.parts.clear();
        let mut end = 0;
        for &gpu in gpus {
            match running.parts.last_mut() {
                Some(part) if gpu < end => part.1 += 1,
                _ => {
                    let server = self.instance.layout.server_of[gpu as usize];
                    end = self.instance.layout.first[server as usize + 1];
                    running.parts.push((Server::new(server), 1));
                }
            }
        }
        (running.contention, running.max_contention, running.since) = (0, 0, self.now);
        let servers = running.parts.len() as u32;
        if let Some(record) = &mut self.record {
            let row = self.instance.rows[position] as usize;
            record.out.start[row] = self.now as f64;
            record.out.num_servers[row] = servers;
            running.first_row = record.out.allocations.open(Job::at(row), &running.parts, self.now as f64);
        }
        if servers > 1 {
            self.contention.join(Slot::new(slot), &running.parts);
            // Its rate is known when all that starts at this boundary has started.
            running.per_slot = 0;
        }
        let finish =
            self.now + self.instance.slots(position, servers, 1).unwrap_or(self.instance.least_slots[position]);
        self.lower = self.lower.max(finish);
        match &self.instance.work[position] {
            Work::Fixed { .. } => self.heap.set(slot, finish as f64, position as u32),
            Work::Rar { .. } if servers == 1 => self.heap.set(slot, finish as f64, position as u32),
            Work::Rar { iterations, .. } => running.left = *iterations,
        }
    }

    /// New contention and finishing times of the jobs whose servers changed.
    pub(super) fn settle(&mut self) {
        if self.contention.is_settled() {
            return;
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        dirty.clear();
        self.contention.drain_changed(&mut dirty);
        for &slot in &dirty {
            let running = &mut self.running[slot.index()];
            let contention = self.contention.of(&running.parts);
            if contention == running.contention {
                continue;
            }
            if let Some(record) = &mut self.record {
                record.pass_time(self.now, self.instance.options.slot);
                record.contention_sum += u64::from(contention);
                record.contention_sum -= u64::from(running.contention);
            }
            running.contention = contention;
            running.max_contention = running.max_contention.max(contention);
            let Work::Rar { ring, .. } = &self.instance.work[running.position as usize] else { continue };
            let per_slot = self.instance.per_slot(ring, running.parts.len() as u32, contention);
            if per_slot == running.per_slot && running.since < self.now {
                continue;
            }
            running.left -= (running.per_slot * (self.now - running.since)).min(running.left);
            (running.since, running.per_slot) = (self.now, per_slot);
            let finish = match per_slot {
                0 => f64::INFINITY,
                n => (self.now + running.left.div_ceil(n)) as f64,
            };
            self.heap.set(slot.number(), finish, running.position);
        }
        self.dirty = dirty;
        if let Some(record) = &mut self.record {
            record.pass_time(self.now, self.instance.options.slot);
            record.out.note_contention(self.now as f64, record.contention_sum);
        }
    }

    /// Moves on to the next completion; `false` when none will ever come.
    pub(super) fn advance(&mut self) -> bool {
        match self.heap.peek() {
            Some((time, _)) if time.is_finite() => {
                self.now = time as u64;
                true
            }
            _ => false,
        }
    }

    /// Whether no job runs.
    pub(super) fn is_idle(&self) -> bool {
        self.heap.peek().is_none()
    }

    /// The running job at the lowest row, if there is one.
    pub(super) fn lowest_running(&self) -> Option<u32> {
        let live = self.running.iter().filter(|r| !r.gpus.is_empty());
        live.map(|r| self.instance.rows[r.position as usize]).min()
    }

    /// Ends one of the jobs that are done by now: its position in the order; its GPUs are in `gpus`.
    pub(super) fn complete(&mut self, gpus: &mut Vec<u32>) -> Option<usize> {
        let (time, slot) = self.heap.peek()?;
        if time > self.now as f64 {
            return None;
        }
        self.heap.remove(slot);
        let running = &mut self.running[slot as usize];
        let position = running.position as usize;
        if running.parts.len() > 1 {
            self.contention.leave(Slot::new(slot), &running.parts);
        }
        if let Some(record) = &mut self.record {
            record.pass_time(self.now, self.instance.options.slot);
            record.contention_sum -= u64::from(running.contention);
            let row = self.instance.rows[position] as usize;
            record.out.finish[row] = self.now as f64;
            record.out.max_contention[row] = running.max_contention;
            record.out.allocations.close(running.first_row, running.parts.len(), self.now as f64);
        }
        std::mem::swap(gpus, &mut running.gpus);
        running.gpus.clear();
        self.free.push(slot);
        Some(position)
    }
}

impl Record {
    /// Adds up the contention of the time that ends now, in which it was constant.
    fn pass_time(&mut self, now: u64, slot: f64) {
        if now > self.since {
            self.out.contention_seconds += self.contention_sum as f64 * ((now - self.since) as f64 * slot);
            self.since = now;
        }
    }
}
