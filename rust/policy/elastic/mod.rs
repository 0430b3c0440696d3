//! Policies that resize jobs: numbers first, then places (docs/elastic-policies.md). A policy is a file.
//!
//! Invariant: after a pass every job that runs holds min_gpus to max_gpus of one type, and a job whose stay was younger than
//! `resize_every` before it holds what it held. For example, when a job of 8 GPUs is done, two others may have 4 more each.

mod afs;
mod gain;
mod optimus;
mod sheet;
mod srtf;

use super::Policy;
use super::roster::Roster;
use crate::cluster::FewestServers;
use crate::ids::{GpuType, Job, Slot};
use crate::machine::{Floor, Stay};
use crate::setting::Setting;
use crate::speed::Speed;
pub(super) use afs::Afs;
pub(super) use optimus::Optimus;
use sheet::{Line, Sheet};
pub(super) use srtf::ElasticSrtf;

/// How many GPUs each job gets.
pub(super) trait Rule: Clone + Send {
    /// The key of a job in the base, the least first, ties fifo. Higher priorities go before all that. `stay`: where it runs.
    fn key<S: Speed>(&self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64;

    /// Gives out the GPUs of a pool that are left over once everybody in the base has min_gpus.
    fn give_rest(&mut self, sheet: &mut Sheet, pool: usize, rates: impl Fn(&Line, u32) -> f64);
}

/// The policy of a rule.
#[derive(Clone, Debug)]
pub(super) struct Resizing<R> {
    rule: R,
    roster: Roster,
    resize_every: f64,
    interval: Option<f64>,
    /// Servers of each GPU type, the largest first.
    few: Vec<FewestServers>,
    sheet: Sheet,
    /// Whether a job came or went, or a server, since the last pass.
    changed: bool,
    last_pass: f64,
}

impl<R> Resizing<R> {
    pub(super) fn new(setting: &Setting<'_>, rule: R) -> Self {
        let options = setting.options;
        let few = match setting.server_types {
            None => vec![setting.few.clone()],
            Some(types) => (0..setting.num_pools())
                .map(|pool| {
                    let own = types.iter().zip(setting.server_gpus).filter(|(of, _)| of.index() == pool);
                    FewestServers::new(&own.map(|(_, &gpus)| gpus).collect::<Vec<_>>())
                })
                .collect(),
        };
        Self {
            rule,
            roster: Roster::new(setting.jobs.len()),
            resize_every: options.resize_every,
            interval: options.interval,
            few,
            sheet: Sheet::default(),
            changed: false,
            last_pass: f64::NEG_INFINITY,
        }
    }
}

impl<R: Rule> Resizing<R> {
    /// Whether a stay is too young for its job to be resized.
    fn is_young<S: Speed>(&self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> bool {
        floor.seconds() - floor.clock.seconds(stay.start) < self.resize_every
    }

    /// Says how many GPUs each job is to have.
    fn count<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        let mut sheet = std::mem::take(&mut self.sheet);
        sheet.clear(floor.cluster.units());
        for (slot, stay) in floor.stays.iter().enumerate().filter(|(_, stay)| stay.is_live()) {
            let pool = floor.cluster.pool_of(stay.gpu_type);
            if self.is_young(floor, stay) {
                sheet.keep(pool, stay.gpus());
                continue;
            }
            let key = self.rule.key(floor, stay.job, Some(stay));
            sheet.add(Line::new(floor, stay.job, key, floor.left_of(stay), Some((Slot::at(slot), pool, stay.gpus()))));
        }
        for job in self.roster.waiting() {
            let key = self.rule.key(floor, job, None);
            sheet.add(Line::new(floor, job, key, floor.left_at_rest(job), None));
        }
        sheet.give_least(|job| floor.jobs.tried(job).iter().map(|&(of, _)| floor.cluster.pool_of(of)));
        for pool in 0..self.few.len() {
            let gpu_type = if floor.cluster.is_parted() { GpuType::at(pool) } else { GpuType::NONE };
            let few = &self.few[pool];
            self.rule.give_rest(&mut sheet, pool, |line, gpus| {
                few.of(gpus).map_or(0.0, |servers| floor.speed.rate(&floor.jobs, line.job, gpus, gpu_type, servers))
            });
        }
        self.sheet = sheet;
    }

    /// Gives every job whose number changed its GPUs.
    fn place<S: Speed>(&mut self, floor: &mut Floor<'_, S>) {
        let changed = self.sheet.changed();
        for line in changed.iter().filter(|line| line.held > 0) {
            if let Some(slot) = self.roster.slot_of(line.job) {
                floor.stop(slot);
                self.roster.set_waiting(line.job);
            }
        }
        changed.sort_by_key(|line| std::cmp::Reverse(line.number));
        for line in changed.iter().take_while(|line| line.number > 0) {
            let gpu_type = if floor.cluster.is_parted() { GpuType::at(line.pool) } else { GpuType::NONE };
            if (line.min..=line.number).rev().any(|gpus| floor.place_on_type(line.job, gpus, gpu_type)) {
                let slot = floor.start(line.job);
                self.roster.set_running(line.job, slot);
            }
        }
    }
}

impl<S: Speed, R: Rule> Policy<S> for Resizing<R> {
    const STOPS: bool = true;
    const NETS: bool = true;

    fn arrived(&mut self, _floor: &mut Floor<'_, S>, job: Job) {
        self.roster.set_waiting(job);
        self.changed = true;
    }

    fn completed(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job) {
        self.roster.set_gone(job);
        self.changed = true;
    }

    fn failed(&mut self, _floor: &Floor<'_, S>, _slot: Slot, job: Job) {
        self.roster.set_waiting(job);
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        if self.changed {
            return floor.now;
        }
        match self.interval {
            Some(interval) if self.roster.has_waiting() || floor.is_busy() => {
                floor.clock.tick(interval, floor.now, self.last_pass)
            }
            _ => f64::INFINITY,
        }
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.last_pass = floor.now;
        self.changed = false;
        self.count(floor);
        self.place(floor);
    }

    fn is_waiting(&self) -> bool {
        self.roster.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.roster.waiting()
    }
}
