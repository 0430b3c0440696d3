//! Conservative backfilling (docs/operators-reference.md): makes reservations for the first waiting
//! jobs, anew at each pass, and starts those whose reservation is now.
//!
//! Invariant: whatever keeps GPUs from a job for some time is a [`Booking`], or a stay of a running job, which holds
//! its GPUs from now to its estimated end; [`Reservations::earliest`] alone decides which GPUs are free for how long.
//! For example, of 2 GPUs one is held until 10: a job of 2 GPUs is booked from 10 on, and a job of 1 GPU that is
//! estimated to run 10 s starts now.
//!
//! A reservation that can change nothing is not made: jobs that cannot be placed on what is idle now are put off
//! until a later job needs to know which reservations may block it. A reservation costs the GPUs, the running jobs
//! that end before it and the bookings before it; for jobs that ask for the same and are not shorter, the search
//! begins at the earlier one's reservation.

use super::{Queued, WaitingQueue};
use crate::ids::{Job, Server, Slot};
use crate::machine::{Claim, ClusterState};
use crate::placement::{Pools, Probes};
use crate::speed::Speed;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a pass knows about the future. GPUs are numbered by (pool, server, GPU).
#[derive(Clone, Debug)]
pub(super) struct Reservations {
    /// How many jobs a pass examines.
    most: u32,
    /// The pool and server of each GPU; the first GPU of each pool.
    place: Vec<(usize, Server)>,
    first: Vec<usize>,
    /// Whether the following fields are of this pass.
    is_made: bool,
    /// When running jobs leave each GPU free: from ever, from an estimated end (s) on, or never.
    free_from: Vec<f64>,
    /// (estimated end, s, GPU) of all GPUs held by jobs, in order of ends.
    leaving: Vec<(f64, u32)>,
    /// The idle GPUs now, and after each [`STEP`] GPUs that come free.
    bases: Vec<Probes>,
    bookings: Vec<Booking>,
    /// The bookings in order of their begins, and of their ends.
    by_from: Vec<u32>,
    by_to: Vec<u32>,
    /// The GPUs free for the interval examined last: how many, and by how many bookings each is kept.
    probe: Probes,
    kept: Vec<u16>,
    /// Jobs whose reservations are put off: (job, class, estimate in s).
    put_off: Vec<(Job, u32, f64)>,
    /// The reservations made, by class, as (estimate, begin), s.
    made: Vec<Vec<(f64, f64)>>,
    /// The shortest estimate, s, that could not start, by class; NaN if all could, or none was tried.
    refused: Vec<f64>,
    /// A copy of the cluster for placements in the future.
    posed: Option<Pools>,
}

/// How many GPUs come free between two of the counts that are kept.
const STEP: usize = 64;

/// GPUs that are booked from one instant to another, s.
#[derive(Clone, Debug)]
struct Booking {
    from: f64,
    to: f64,
    gpus: Vec<u32>,
}

impl Booking {
    /// Returns whether it blocks a job that begins at an instant and is estimated to run so long, s, unless it is
    /// over by then.
    fn begins(&self, instant: f64, estimate: f64) -> bool {
        self.from < instant + estimate || self.from <= instant
    }
}

impl Reservations {
    pub(super) fn new(reservations: u32) -> Self {
        Self {
            most: reservations,
            place: Vec::new(),
            first: Vec::new(),
            is_made: false,
            free_from: Vec::new(),
            leaving: Vec::new(),
            bases: Vec::new(),
            bookings: Vec::new(),
            by_from: Vec::new(),
            by_to: Vec::new(),
            probe: Probes::default(),
            kept: Vec::new(),
            put_off: Vec::new(),
            made: Vec::new(),
            refused: Vec::new(),
            posed: None,
        }
    }

    /// Discards the previous pass.
    fn begin(&mut self, classes: usize) {
        self.is_made = false;
        self.bookings.clear();
        self.by_from.clear();
        self.by_to.clear();
        self.put_off.clear();
        self.made.iter_mut().for_each(Vec::clear);
        self.made.resize_with(classes, Vec::new);
        self.refused.clear();
        self.refused.resize(classes, f64::NAN);
    }

    /// Records which jobs hold which GPUs now. `ends`: the estimated ends of the running jobs, in order, as (bits,
    /// job, slot).
    fn make<'a, S: Speed>(&mut self, state: &ClusterState<'_, S>, ends: impl Iterator<Item = &'a (u64, Job, Slot)>) {
        self.is_made = true;
        if self.place.is_empty() {
            for pool in 0..state.cluster.len() {
                self.first.push(self.place.len());
                for (server, &size) in state.cluster.pool(pool).sizes.iter().enumerate() {
                    self.place.extend((0..size).map(|_| (pool, Server::at(server))));
                }
            }
            self.kept.resize(self.place.len(), 0);
        }
        self.free_from.clear();
        for pool in 0..state.cluster.len() {
            let owners = state.cluster.pool(pool).gpu_times.iter().flat_map(|times| times.owners());
            self.free_from
                .extend(owners.map(|&owner| if owner == Job::NONE { f64::NEG_INFINITY } else { f64::INFINITY }));
        }
        self.bases.resize_with(1, Probes::default);
        self.bases[0].copy(&state.cluster);
        self.leaving.clear();
        for &(end, _, slot) in ends {
            let stay = &state.stays[slot.index()];
            self.hold(state, &state.coming_free(&stay.parts), stay.job, f64::from_bits(end));
        }
        // Maintenance is known ahead. Anything else that keeps GPUs from all jobs for some time must be booked here.
        for (down, up, server) in state.windows() {
            if down > state.seconds() {
                let gpus = self.gpus_of(state, server).map(|gpu| gpu as u32).collect();
                self.book(down, up, gpus);
            } else if state.is_down(server) && !state.is_draining(server) {
                self.come_back(state, server, up);
            }
        }
    }

    /// Returns the GPUs of a server.
    fn gpus_of<S: Speed>(&self, state: &ClusterState<'_, S>, server: Server) -> Range<usize> {
        let (pool, own) = state.cluster.place(server);
        let own = state.cluster.pool(pool).gpu_times.as_ref().map_or(0..0, |times| times.on(own));
        self.first[pool] + own.start..self.first[pool] + own.end
    }

    /// Records that a server that is down comes back at `up`, s.
    fn come_back<S: Speed>(&mut self, state: &ClusterState<'_, S>, server: Server, up: f64) {
        let at = self.leaving.partition_point(|other| other.0 <= up);
        let gpus = self.gpus_of(state, server);
        self.free_from[gpus.clone()].fill(up);
        self.leaving.splice(at..at, gpus.map(|gpu| (up, gpu as u32)));
    }

    /// Records that a job holds its GPUs to its estimated end, s, after all that are held as long.
    fn hold<S: Speed>(&mut self, state: &ClusterState<'_, S>, parts: &[(Server, u32)], job: Job, end: f64) {
        // A job that runs past its estimated end may end at any instant, but has not ended by now.
        let end = end.max(state.seconds().next_up());
        let is_last = self.leaving.last().is_none_or(|last| last.0 <= end);
        let mut at = if is_last { self.leaving.len() } else { self.leaving.partition_point(|other| other.0 <= end) };
        for &(server, _) in parts {
            let (pool, own) = state.cluster.place(server);
            let Some(times) = &state.cluster.pool(pool).gpu_times else { continue };
            let gpus = times.on(own);
            let first = self.first[pool] + gpus.start;
            for (gpu, _) in (first..).zip(&times.owners()[gpus]).filter(|&(_, &owner)| owner == job) {
                self.free_from[gpu] = end;
                self.leaving.insert(at, (end, gpu as u32));
                at += 1;
            }
        }
    }

    /// Records that a job started.
    fn started<S: Speed>(&mut self, state: &ClusterState<'_, S>, slot: Slot, end: f64) {
        if self.is_made {
            let stay = &state.stays[slot.index()];
            self.bases.truncate(1);
            self.bases[0].take(&state.cluster, &stay.parts);
            self.hold(state, &stay.parts, stay.job, end);
        }
    }

    /// Books GPUs.
    fn book(&mut self, from: f64, to: f64, gpus: Vec<u32>) {
        if to <= from {
            return; // no instant
        }
        let number = self.bookings.len() as u32;
        let bookings = &self.bookings;
        let at = self.by_from.partition_point(|&other| bookings[other as usize].from <= from);
        self.by_from.insert(at, number);
        let at = self.by_to.partition_point(|&other| bookings[other as usize].to <= to);
        self.by_to.insert(at, number);
        self.bookings.push(Booking { from, to, gpus });
    }

    /// Sets `probe` and `kept` to the GPUs that are free for so long from an instant on, s. Returns how many entries
    /// of `leaving`, `by_from` and `by_to` that takes into account.
    fn look_at(&mut self, instant: f64, estimate: f64) -> (usize, usize, usize) {
        let Self { place, free_from, leaving, bases, bookings, by_from, by_to, probe, kept, .. } = self;
        let left = leaving.partition_point(|other| other.0 <= instant);
        while bases.len() <= left / STEP {
            let mut next = Probes::default();
            next.set_to(&bases[bases.len() - 1]);
            let from = (bases.len() - 1) * STEP;
            leaving[from..from + STEP].iter().for_each(|&(_, gpu)| next.give_one(place[gpu as usize]));
            bases.push(next);
        }
        probe.set_to(&bases[left / STEP]);
        leaving[left / STEP * STEP..left].iter().for_each(|&(_, gpu)| probe.give_one(place[gpu as usize]));
        kept.fill(0);
        let begun = by_from.partition_point(|&number| bookings[number as usize].begins(instant, estimate));
        let over = by_to.partition_point(|&number| bookings[number as usize].to <= instant);
        let begun_ones = by_from[..begun].iter().map(|&number| &bookings[number as usize]);
        for booking in begun_ones.filter(|booking| booking.to > instant) {
            for &gpu in &booking.gpus {
                kept[gpu as usize] += 1;
                if kept[gpu as usize] == 1 && free_from[gpu as usize] <= instant {
                    probe.take_one(place[gpu as usize]);
                }
            }
        }
        (left, begun, over)
    }

    /// Returns the earliest instant, s, from `at_least` on at which a job can be placed on the GPUs that are free for
    /// its whole estimate: now, or an instant at which GPUs come free. `probe`, `kept` and `free_from` then give
    /// these GPUs.
    fn earliest<S: Speed>(
        &mut self,
        state: &mut ClusterState<'_, S>,
        job: Job,
        estimate: f64,
        at_least: f64,
    ) -> Option<f64> {
        let mut instant = at_least.max(state.seconds());
        let (mut left, mut begun, mut over) = self.look_at(instant, estimate);
        let Self { place, free_from, leaving, bookings, by_from, by_to, probe, kept, .. } = self;
        let of = |order: &[u32], at: usize| order.get(at).map(|&number| &bookings[number as usize]);
        while !state.fits(probe, job) {
            let next = leaving.get(left).map_or(f64::INFINITY, |other| other.0);
            instant = next.min(of(by_to, over).map_or(f64::INFINITY, |booking| booking.to));
            if instant == f64::INFINITY {
                return None;
            }
            while let Some(&(_, gpu)) = leaving.get(left).filter(|other| other.0 <= instant) {
                left += 1;
                if kept[gpu as usize] == 0 {
                    probe.give_one(place[gpu as usize]);
                }
            }
            while let Some(booking) = of(by_from, begun).filter(|booking| booking.begins(instant, estimate)) {
                begun += 1;
                for &gpu in &booking.gpus {
                    kept[gpu as usize] += 1;
                    if kept[gpu as usize] == 1 && free_from[gpu as usize] <= instant {
                        probe.take_one(place[gpu as usize]);
                    }
                }
            }
            while let Some(booking) = of(by_to, over).filter(|booking| booking.to <= instant) {
                over += 1;
                for &gpu in &booking.gpus {
                    kept[gpu as usize] -= 1;
                    if kept[gpu as usize] == 0 && free_from[gpu as usize] <= instant {
                        probe.give_one(place[gpu as usize]);
                    }
                }
            }
        }
        Some(instant)
    }

    /// Makes a job's reservation. Returns whether it keeps GPUs that are idle now.
    fn reserve<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, class: u32, estimate: f64) -> bool {
        let shorter = self.made[class as usize].iter().filter(|other| other.0 <= estimate);
        let at_least = if state.placer.is_monotone() {
            shorter.fold(f64::NEG_INFINITY, |most, other| most.max(other.1))
        } else {
            f64::NEG_INFINITY
        };
        let from = if at_least < f64::INFINITY { self.earliest(state, job, estimate, at_least) } else { None };
        self.made[class as usize].push((estimate, from.unwrap_or(f64::INFINITY)));
        let Some(from) = from else { return false };
        let mut posed = self.posed.take().unwrap_or_else(|| state.cluster.to_pose());
        let mut gpus = Vec::new();
        for pool in 0..posed.len() {
            let first = self.first[pool];
            let is_free = |gpu: usize| self.free_from[first + gpu] <= from && self.kept[first + gpu] == 0;
            posed.pool_mut(pool).pose(state.cluster.pool(pool), self.probe.idle_in(pool), is_free);
        }
        if state.place_in(&mut posed, job) {
            let pool = posed.pool_of(state.grant.gpu_type);
            let first = self.first[pool];
            if let Some(times) = &posed.pool(pool).gpu_times {
                gpus.extend(times.taken().map(|gpu| (first + gpu) as u32));
            } else {
                for &(server, count) in &state.grant.parts {
                    let free =
                        self.gpus_of(state, server).filter(|&gpu| self.free_from[gpu] <= from && self.kept[gpu] == 0);
                    gpus.extend(free.take(count as usize).map(|gpu| gpu as u32));
                }
            }
            posed.undo(job, &state.grant.parts);
        }
        self.posed = Some(posed);
        let keeps_idle = gpus.iter().any(|&gpu| self.free_from[gpu as usize] == f64::NEG_INFINITY);
        self.book(from, from + estimate, gpus);
        keeps_idle
    }

    /// Returns whether a job can be placed now on the GPUs that are free for its whole estimate, as far as is known.
    fn has_room<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, estimate: f64) -> bool {
        self.look_at(state.seconds(), estimate);
        state.fits(&self.probe, job)
    }

    /// Takes GPUs for a job to start on now, from those that are free for its whole estimate. Returns whether it can.
    fn place<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, estimate: f64) -> bool {
        let now = state.seconds();
        let mut hidden: Vec<u32> = Vec::new();
        for booking in self.bookings.iter().filter(|booking| booking.begins(now, estimate)) {
            for &gpu in &booking.gpus {
                let ((pool, server), own) = (self.place[gpu as usize], gpu as usize);
                if state.cluster.pool_mut(pool).hide(server, own - self.first[pool]) {
                    hidden.push(gpu);
                }
            }
        }
        let placed = state.place(job);
        for gpu in hidden {
            let (pool, server) = self.place[gpu as usize];
            state.cluster.pool_mut(pool).show(server, gpu as usize - self.first[pool]);
        }
        placed
    }

    /// Returns whether no reservation blocks a job that could be placed now, after making as many of the reservations
    /// before it as it takes to know.
    fn lets<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job, estimate: f64) -> bool {
        let mut put_off = std::mem::take(&mut self.put_off).into_iter();
        let mut asks = state.placer.is_monotone() && !self.bookings.is_empty();
        let lets = loop {
            // Later reservations take room away, and give none.
            if asks && !self.has_room(state, job, estimate) {
                break false;
            }
            let Some((other, class, length)) = put_off.next() else { break true };
            let keeps_idle = self.reserve(state, other, class, length);
            asks = state.placer.is_monotone() && keeps_idle;
        };
        self.put_off.extend(put_off);
        lets
    }
}

impl<L: WaitingQueue> Queued<'_, L> {
    /// `conservative`: tries the first waiting jobs in queue order, once each.
    ///
    /// Returns false: only an event makes another pass worthwhile.
    pub(super) fn with_reservations<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) -> bool {
        if let Some(mut reservations) = self.reservations.take() {
            self.make_reservations(state, &mut reservations);
            self.reservations = Some(reservations);
        }
        if let Some(owners) = &mut self.owners {
            owners.rest();
        }
        false
    }

    /// Returns whether any candidate could be placed now.
    fn any_fits<S: Speed>(&self, state: &mut ClusterState<'_, S>) -> bool {
        self.scratch.spots().any(|spot| state.can_place(state.jobs.demand(self.queue.job_at(spot))))
    }

    fn make_reservations<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, reservations: &mut Reservations) {
        if state.cluster.idle_units() == 0 && !state.makes_room() {
            return;
        }
        self.begin(state);
        if !state.makes_room() && !self.any_fits(state) {
            return;
        }
        let monotone = state.placer.is_monotone();
        // Whether a job could neither start nor make room for itself.
        let mut blocked = false;
        reservations.begin(self.scratch.classes());
        let mut left = reservations.most;
        while left > 0
            && let Some((spot, class)) = self.scratch.next()
        {
            if state.cluster.idle_units() == 0 && (blocked || !state.makes_room()) {
                break;
            }
            let job = self.queue.job_at(spot);
            if state.is_held_back(job) {
                self.go_on_behind(state, class, spot);
                continue;
            }
            left -= 1;
            let estimate = self.estimates.reckoned(state, job);
            let is_known = monotone && estimate >= reservations.refused[class];
            let could = !is_known && state.can_place(state.jobs.demand(job));
            if could && blocked && !reservations.is_made {
                reservations.make(state, self.easy.iter().flat_map(|easy| &easy.by_end));
            }
            let lets = could && (!blocked || reservations.lets(state, job, estimate));
            self.keep_clear(state, job);
            let placed = lets && reservations.place(state, job, estimate);
            let evicts = !placed && !blocked && self.place_by_evicting(state, job);
            state.show();
            if placed || evicts {
                let slot = self.start(state, job);
                reservations.started(state, slot, self.easy.as_ref().map_or(f64::NAN, |easy| easy.end[slot.index()]));
                if evicts {
                    self.begin_behind(state, spot);
                } else {
                    self.go_on_behind(state, class, spot);
                }
                continue;
            }
            blocked = true;
            if !is_known {
                // If the idle GPUs are not enough, no estimate is short enough.
                reservations.refused[class] = if could { estimate } else { f64::NEG_INFINITY };
            }
            reservations.put_off.push((job, class as u32, estimate));
            self.go_on_behind(state, class, spot);
        }
    }

    /// Returns the reservation of a waiting job if a pass made them all now, and no job started.
    pub(super) fn reservation_of<S: Speed>(&self, state: &mut ClusterState<'_, S>, job: Job) -> Option<Claim> {
        let mut reservations = self.reservations.clone()?;
        let (rng, grant) = (state.placer.rng(), state.grant.clone());
        reservations.begin(self.queue.classes());
        reservations.make(state, self.easy.iter().flat_map(|easy| &easy.by_end));
        let may_start: Vec<Job> = self.queue.in_order().into_iter().filter(|&job| !state.is_held_back(job)).collect();
        let at = may_start.iter().position(|&other| other == job);
        let is_beyond = at.is_some_and(|at| at >= reservations.most as usize);
        for &other in &may_start[..at.filter(|_| !is_beyond).map_or(0, |at| at + 1)] {
            reservations.reserve(
                state,
                other,
                self.queue.class_of(other) as u32,
                self.estimates.reckoned(state, other),
            );
        }
        state.placer.set_rng(rng);
        state.grant = grant;
        if is_beyond {
            return Some(Claim::Beyond);
        }
        let (_, begin) = reservations.made.get(self.queue.class_of(job))?.last().copied().filter(|_| at.is_some())?;
        let booking =
            reservations.bookings.last().filter(|booking| begin > state.seconds() && booking.from == begin)?;
        let mut parts: BTreeMap<Server, u32> = BTreeMap::new();
        for &gpu in &booking.gpus {
            let (pool, own) = reservations.place[gpu as usize];
            *parts.entry(state.cluster.member(pool, own)).or_default() += 1;
        }
        Some(Claim::Own { begin, parts: parts.into_iter().collect() })
    }
}
