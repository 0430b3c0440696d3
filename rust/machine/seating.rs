//! Lets jobs start beside others, on the same GPUs, and leave them (docs/lucid.md).
//!
//! Invariant: a guest's stay has the parts of its host. For example, a job that starts beside one on 4 GPUs of server 0
//! and 4 of server 1 has a stay of 8 GPUs on two servers, while the cluster has as many idle GPUs as before.
//!
//! No function here is on the way of runs without seats.

use super::cluster_state::ClusterState;
use super::seats::Seats;
use crate::decisions::{Row, Verb};
use crate::ids::{GpuType, Job, NO_SEAT, Slot};
use crate::options::Options;
use crate::speed::Speed;
use crate::trace::{Beside, Pairing};

impl<S: Speed> ClusterState<'_, S> {
    /// Returns the seats of a run where jobs may hold the same GPUs.
    pub(super) fn seats_of(options: &Options) -> Option<Box<Seats>> {
        (options.jobs_per_gpu() > 1).then(|| Box::new(Seats::new(options.jobs_per_gpu(), options.interference)))
    }

    /// Returns the others on the GPUs of a stay, in the order in which they started.
    pub(crate) fn beside(&self, slot: Slot) -> impl Iterator<Item = Slot> + '_ {
        let seat = self.stays[slot.index()].seat;
        let members = self.seats.as_ref().map_or(&[][..], |seats| seats.members(seat));
        members.iter().copied().filter(move |&other| other != slot)
    }

    /// Returns the stays of whole GPUs that have these for themselves, in no order; none in runs without seats.
    pub(crate) fn alone_on_seats(&self) -> impl Iterator<Item = Slot> + '_ {
        self.seats.iter().flat_map(|seats| seats.alone())
    }

    /// Returns the job that holds the GPUs of a stay in the cluster: its own, or that of its host.
    pub(crate) fn holder_of(&self, slot: Slot) -> Job {
        let stay = &self.stays[slot.index()];
        let host = self.seats.as_ref().and_then(|seats| seats.members(stay.seat).first());
        host.map_or(stay.job, |host| self.stays[host.index()].job)
    }

    /// Returns whether memory lets a job sit with those on the GPUs of a stay. `below`: whether GPUs must not be full.
    #[inline(never)]
    pub(crate) fn has_memory(&self, pairing: &Pairing<'_>, job: Job, slot: Slot, below: bool) -> bool {
        let memory = |slot: Slot| pairing.memory[self.stays[slot.index()].job.index()];
        let stay = &self.stays[slot.index()];
        let room = pairing.facts.room_of(stay.gpu_type);
        let sum = self.beside(slot).map(memory).sum::<f64>() + memory(slot) + pairing.memory[job.index()];
        // Where one of them is unknown there is no sum, and nothing to compare.
        !(sum > room || below && sum == room)
    }

    /// Returns why a waiting job cannot start beside the stay at a slot.
    #[inline(never)]
    pub(crate) fn may_not_sit(&self, job: Job, slot: Slot) -> Option<String> {
        let stay = &self.stays[slot.index()];
        let (Some(seats), Some(pairing)) = (&self.seats, &self.jobs.pairing) else {
            return Some("no two jobs hold the same GPUs in this run: give --jobs-per-gpu 2".to_owned());
        };
        let (asked, (least, most)) = (self.asks(job), self.jobs.range_of(job.index()));
        if self.jobs.share_of(job.index()) > 0 {
            return Some("it holds a share of a GPU".to_owned());
        }
        if stay.seat == NO_SEAT {
            return Some("the other holds a share of a GPU".to_owned());
        }
        if (least, most) != (asked, asked) {
            return Some("it may hold other numbers of GPUs, and so joins no other job".to_owned());
        }
        if stay.gpus() != asked {
            return Some(format!("it asks for {asked} GPUs, and the other holds {}", stay.gpus()));
        }
        if seats.members(stay.seat).len() >= seats.most {
            return Some(format!("there are {} jobs on those GPUs, as many as --jobs-per-gpu allows", seats.most));
        }
        if self.is_on_draining(slot) {
            return Some("the other holds GPUs of a server that drains".to_owned());
        }
        if let Err(why) = self.check_parts(job, &stay.parts) {
            return Some(why);
        }
        let fits = self.has_memory(pairing, job, slot, false);
        (!fits).then(|| "the memory of all of them is more than the GPUs have".to_owned())
    }

    /// Starts a waiting job beside the stay at a slot, which it may. Returns the slot of its stay.
    #[inline(never)]
    pub(crate) fn start_beside(&mut self, job: Job, slot: Slot) -> Slot {
        self.out.decisions += 1;
        let (seat, holder) = (self.stays[slot.index()].seat, self.holder_of(slot));
        let partner = self.stays[slot.index()].job;
        self.grant.parts.clone_from(&self.stays[slot.index()].parts);
        self.grant.gpu_type = self.stays[slot.index()].gpu_type;
        if self.record_log {
            let row = Row { beside: partner.number(), ..self.row(Verb::Start, job) };
            if self.jobs.shares.is_some() {
                let gpus = self.cluster.held(holder, self.grant.gpu_type).0;
                self.out.log.push_gpus(row, &gpus);
            } else {
                self.out.log.push_parts(row, &self.grant.parts);
            }
        }
        if self.has_rollback(job)
            && let Some(slot) = self.resume_beside(job, seat)
        {
            return slot;
        }
        if self.cluster.keeps_times() {
            let time = self.estimate(job);
            self.cluster.book(holder, &self.grant.parts, time);
        }
        if let Some(seats) = &mut self.seats {
            seats.joining = Some(seat);
        }
        self.turn_wait(job);
        self.begin(job)
    }

    /// Gives a stay that begins its seat: the one that it joins, or a new one.
    #[inline(never)]
    pub(super) fn sit(&mut self, slot: Slot) {
        let Some(seats) = &mut self.seats else { return };
        let joining = seats.joining.take();
        let job = self.stays[slot.index()].job;
        if self.jobs.share_of(job.index()) > 0 {
            (self.stays[slot.index()].seat, self.stays[slot.index()].hosts_from) = (NO_SEAT, self.now);
            return;
        }
        let seat = joining.unwrap_or_else(|| seats.new_number());
        self.stays[slot.index()].hosts_from = f64::INFINITY;
        self.sit_on(slot, seat);
    }

    /// Puts a stay on a seat, in its order among the others there.
    #[inline(never)]
    pub(super) fn sit_on(&mut self, slot: Slot, seat: u32) {
        let Some(seats) = &mut self.seats else { return };
        let order = self.stays[slot.index()].order;
        let members = seats.members(seat);
        let at = members.partition_point(|member| self.stays[member.index()].order < order);
        let host = members.first().copied();
        seats.insert(seat, at, slot);
        let stay = &mut self.stays[slot.index()];
        stay.seat = seat;
        if at > 0 {
            stay.hosts_from = f64::INFINITY;
            return;
        }
        if stay.hosts_from == f64::INFINITY {
            stay.hosts_from = self.now;
        }
        if let Some(host) = host {
            self.stays[host.index()].hosts_from = f64::INFINITY;
            self.cluster.rename(self.stays[host.index()].job, self.stays[slot.index()].job, &self.grant.parts);
        }
    }

    /// Makes the next member the host where the host leaves. Returns whether the GPUs of a stay that ends come free: it
    /// is the last on its seat.
    #[inline(never)]
    pub(super) fn hand_over(&mut self, slot: Slot) -> bool {
        let Some(seats) = &self.seats else { return true };
        match *seats.members(self.stays[slot.index()].seat) {
            [host, next, ..] => {
                if host == slot {
                    self.stays[next.index()].hosts_from = self.now;
                    let (old, new) = (&self.stays[host.index()], self.stays[next.index()].job);
                    self.cluster.rename(old.job, new, &old.parts);
                }
                false
            }
            _ => true,
        }
    }

    /// Takes a stay that ends off its seat.
    #[inline(never)]
    pub(super) fn stand_up(&mut self, slot: Slot) {
        if let Some(seats) = &mut self.seats {
            seats.remove(self.stays[slot.index()].seat, slot);
        }
    }

    /// Returns how fast a job runs beside another that holds, or would hold, such GPUs: the rate of the pair, or its
    /// fraction. `later`: whether it started after the other.
    pub(crate) fn measured_beside(
        &self,
        (job, other): (Job, Job),
        gpu_type: GpuType,
        size: (u32, u32),
        later: bool,
    ) -> Option<Beside> {
        let Pairing { model, facts, .. } = self.jobs.pairing.as_ref()?;
        let models = (model[job.index()], model[other.index()]);
        facts.beside(models, gpu_type, size, later, S::IS_MEASURED)
    }

    /// Returns the rates of two jobs on the same GPUs, as fractions of those alone, where the first starts later. `on`:
    /// type, GPUs and servers; else what the first asks for.
    #[inline(never)]
    pub(crate) fn fractions(&self, job: Job, other: Job, on: Option<(GpuType, u32, u32)>) -> [f64; 2] {
        let asked = self.asks(job);
        let first = self.jobs.tried(job).first().map_or(GpuType::NONE, |tried| tried.0);
        let (gpu_type, gpus, servers) = on.unwrap_or((first, asked, self.few.of(asked).unwrap_or(1)));
        let interference = self.seats.as_ref().map_or(0.0, |seats| seats.interference);
        let of =
            |own: Job, other: Job, later| match self.measured_beside((own, other), gpu_type, (gpus, servers), later) {
                Some(Beside::Rate(rate)) => rate / self.speed.rate(&self.jobs, own, gpus, gpu_type, servers),
                Some(Beside::Fraction(fraction)) => fraction,
                None => 1.0 / (1.0 + interference),
            };
        [of(job, other, true), of(other, job, false)]
    }

    /// Does all that `settle` does, in a run with seats.
    #[inline(never)]
    pub(super) fn settle_with_seats(&mut self) {
        let met = self.meet_seats();
        self.settle_links();
        for slot in met {
            let stay = &mut self.stays[slot.index()];
            if stay.set_pace(&self.speed, self.now, self.clock) {
                self.set_end(slot);
            }
        }
    }

    /// Updates the slow-down of the stays whose seats have other members, which `settle` then applies. Returns them.
    fn meet_seats(&mut self) -> Vec<Slot> {
        let mut met = Vec::new();
        let Some(seats) = &mut self.seats else { return met };
        seats.drain_changed(&mut met);
        for &slot in &met {
            let interference = self.seats.as_ref().map_or(0.0, |seats| seats.interference);
            let mut others = self.beside(slot);
            let (first, more) = (others.next(), others.count());
            let stay = &self.stays[slot.index()];
            let beside = first.filter(|_| more == 0).and_then(|other| {
                let other = &self.stays[other.index()];
                let size = (stay.gpus(), stay.parts.len() as u32);
                self.measured_beside((stay.job, other.job), stay.gpu_type, size, stay.order > other.order)
            });
            let number = if first.is_some() { more + 1 } else { 0 };
            let (rate, slowed) = match beside {
                Some(Beside::Rate(rate)) => (Some(rate), 1.0),
                Some(Beside::Fraction(fraction)) => (None, 1.0 / fraction),
                None => (None, 1.0 + interference * number as f64),
            };
            let stay = &mut self.stays[slot.index()];
            self.out.seated[stay.job.index()] |= first.is_some();
            self.speed.run_at(&mut stay.pace, rate);
            stay.slowed = slowed;
        }
        met
    }
}
