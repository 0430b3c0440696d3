//! repack: smallest remaining work first, and room made where waiting would cost more (docs/repack.md).
//!
//! A pass walks the waiting jobs, least GPUs times run time left first. A job that consolidate cannot place asks for a
//! plan: who moves, who is evicted. The plan is carried out where that costs less than waiting. Invariant: `on` names
//! the jobs of every server. For example, on two servers of 8 GPUs with 4 busy each, a short job of 8 GPUs moves one of
//! the two jobs to the other's server.

mod foresight;
mod history;
mod plan;
mod predictor;
mod trial;

use super::Policy;
use crate::ids::{Job, Server, Slot};
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;
pub(super) use foresight::Exact;
use foresight::Foresight;
pub(super) use history::History;
use plan::{Asker, Bench, Plan, Residents};

/// The policy.
#[derive(Clone, Debug)]
pub(super) struct Repack<F> {
    foresight: F,
    /// GPUs that they ask for, to leave a pass early.
    sizes: Vec<u32>,
    slot: Vec<Slot>,
    /// The jobs on each server, and the servers of each slot.
    on: Vec<Vec<Job>>,
    places: Vec<Vec<Server>>,
    /// Run time left of every job that runs, s, with the rest of its pause, at the latest pass that looked.
    left: Vec<f64>,
    bench: Bench,
    changed: bool,
}

/// A waiting job in its place of the ranking.
#[derive(Clone, Copy)]
struct Waits {
    job: Job,
    num_gpus: u32,
    /// Run time left, s, with the pause of a job that runs again.
    run: f64,
}

impl<F: Foresight> Repack<F> {
    pub(super) fn new(setting: &Setting<'_>, foresight: F) -> Self {
        let jobs = setting.jobs.len();
        let mut sizes = setting.jobs.num_gpus.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        Self {
            foresight,
            sizes,
            slot: vec![Slot::NONE; jobs],
            on: vec![Vec::new(); setting.server_gpus.len()],
            places: Vec::new(),
            left: vec![0.0; jobs],
            bench: Bench::default(),
            changed: false,
        }
    }

    /// A job holds GPUs now.
    fn settle<S: Speed>(&mut self, floor: &Floor<'_, S>, slot: Slot) {
        let stay: &Stay<S::Pace> = &floor.stays[slot.index()];
        self.slot[stay.job.index()] = slot;
        self.left[stay.job.index()] = self.foresight.left_of(floor, stay) + floor.pause_left_of(stay);
        if self.places.len() <= slot.index() {
            self.places.resize(slot.index() + 1, Vec::new());
        }
        for &(server, _) in &stay.parts {
            self.on[server.index()].push(stay.job);
            self.places[slot.index()].push(server);
        }
    }

    /// A job leaves its GPUs.
    fn unsettle(&mut self, job: Job) -> Slot {
        let slot = std::mem::replace(&mut self.slot[job.index()], Slot::NONE);
        for server in self.places[slot.index()].drain(..) {
            self.on[server.index()].retain(|&other| other != job);
        }
        slot
    }

    /// Whether a plan costs less than to wait for GPUs that come free by themselves. `ahead`: GPUs that jobs ahead in the
    /// ranking still wait for. `queue`: how many wait.
    fn pays<S: Speed>(&self, floor: &Floor<'_, S>, plan: &Plan, waits: Waits, ahead: u64, queue: usize) -> bool {
        let (evicted, moved) = (plan.evicted.len() as f64, plan.moved.len() as f64);
        let stops = floor.pause_seconds() * (evicted + moved);
        let alone = if queue > 1 { 0.0 } else { stops + waits.run * evicted };
        self.waits_for(floor, waits.num_gpus, ahead, f64::max(2.0 * stops, alone))
    }

    /// Whether a job that waits for GPUs to come free by themselves waits at least so long: the longer of two times,
    /// of which neither needs to be worked out.
    fn waits_for<S: Speed>(&self, floor: &Floor<'_, S>, num_gpus: u32, ahead: u64, seconds: f64) -> bool {
        let residents = self.residents();
        let wanted = (ahead + u64::from(num_gpus)).saturating_sub(floor.cluster.total_idle);
        seconds <= 0.0
            || residents.free_no_sooner(floor, num_gpus, seconds)
            || residents.released_no_sooner(floor, wanted, seconds)
    }

    /// Brings the times left of all that run up to date, once a pass.
    fn look<S: Speed>(&mut self, floor: &Floor<'_, S>, looked: &mut bool) {
        if !std::mem::replace(looked, true) {
            for stay in floor.stays.iter().filter(|stay| stay.is_live()) {
                self.left[stay.job.index()] = self.foresight.left_of(floor, stay) + floor.pause_left_of(stay);
            }
        }
    }

    fn residents(&self) -> Residents<'_> {
        Residents { on: &self.on, slot: &self.slot, left: &self.left }
    }

    /// Stops the plan's victims, starts its job and puts the jobs that move in their new homes.
    fn carry_out<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job, plan: &Plan) {
        for &victim in plan.evicted.iter().chain(plan.moved.iter().map(|(job, _)| job)) {
            let slot = self.unsettle(victim);
            floor.stop(slot);
        }
        let homes = plan.moved.iter().map(|&(job, server)| (job, vec![(server, floor.asks(job))]));
        let starts: Vec<(Job, Vec<(Server, u32)>)> = std::iter::once((job, plan.parts.clone())).chain(homes).collect();
        for (job, parts) in starts {
            if floor.place_at(job, &parts).is_ok() {
                let slot = floor.start(job);
                self.settle(floor, slot);
            }
        }
        for &victim in &plan.evicted {
            self.foresight.join(floor, victim);
        }
    }
}

impl<S: Speed, F: Foresight> Policy<S> for Repack<F> {
    const STOPS: bool = true;
    const NETS: bool = true;

    fn arrived(&mut self, floor: &mut Floor<'_, S>, job: Job) {
        self.foresight.arrived(floor, job);
        self.foresight.join(floor, job);
        self.changed = true;
    }

    fn completed(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job) {
        self.unsettle(job);
        self.foresight.completed(job);
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        if self.changed && self.foresight.num_waiting() > 0 { floor.now } else { f64::INFINITY }
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.changed = false;
        let mut looked = false;
        let cost = floor.pause_seconds();
        let mut failed: Vec<u32> = Vec::new();
        let mut ahead = 0;
        self.foresight.begin_walk(floor);
        while let Some((job, left)) = self.foresight.next() {
            if failed.len() == self.sizes.len() {
                break;
            }
            let num_gpus = floor.asks(job);
            if failed.contains(&num_gpus) {
                ahead += u64::from(num_gpus);
                continue;
            }
            if floor.place(job) {
                self.foresight.leave(job);
                let slot = floor.start(job);
                self.settle(floor, slot);
                continue;
            }
            let pause = if floor.has_run(job) { cost } else { 0.0 };
            let waits = Waits { job, num_gpus, run: left + pause };
            self.look(floor, &mut looked);
            if !self.waits_for(floor, num_gpus, ahead, 2.0 * cost) {
                ahead += u64::from(num_gpus);
                continue;
            }
            let asker = Asker { num_gpus, run: waits.run, cost, evicts: self.foresight.evicts() };
            let mut bench = std::mem::take(&mut self.bench);
            let plan = Plan::find(floor, &self.residents(), &asker, &mut bench);
            self.bench = bench;
            match plan {
                None => {
                    failed.push(num_gpus);
                    ahead += u64::from(num_gpus);
                }
                Some(plan) if self.pays(floor, &plan, waits, ahead, self.foresight.num_waiting()) => {
                    self.foresight.leave(job);
                    self.carry_out(floor, waits.job, &plan);
                }
                Some(_) => ahead += u64::from(num_gpus),
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.foresight.num_waiting() > 0
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.foresight.waiting()
    }
}
