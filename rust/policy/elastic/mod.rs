//! Policies that resize jobs: numbers first, then places (docs/elastic-policies.md). A policy is a file.
//!
//! Invariant: after a pass every job that runs holds min_gpus to max_gpus of one type, and a job whose stay was younger than
//! `resize_every` before it holds what it held. For example, when a job of 8 GPUs is done, two others may have 4 more each.

mod afs;
mod base;
mod curve;
mod flow;
mod gain;
mod optimus;
mod owners;
mod pairs;
mod queue;
mod room;
mod sheet;
mod srtf;
mod turns;

use super::roster::Roster;
use crate::cluster::FewestServers;
use crate::ds::ordered;
use crate::ids::{GpuType, Job, Slot};
use crate::machine::{Came, Chooses, Floor, Left, Policy, Stay};
use crate::options::Feature;
use crate::setting::Setting;
use crate::speed::Speed;
use afs::Afs;
use base::{Base, Rest, View};
use curve::{Curve, Curves};
use flow::ElasticFlow;
use gain::give_by_gain;
use optimus::Optimus;
use owners::Turn;
use queue::Queue;
use sheet::{Line, Sheet};
use srtf::ElasticSrtf;

policies! { |setting, speed|
    Afs => Resizing::new(setting, Afs),
    Optimus => Resizing::new(setting, Optimus),
    ElasticSrtf => Resizing::new(setting, ElasticSrtf),
    ElasticFlow<'_> => Resizing::new(setting, ElasticFlow::new(setting)),
}

/// What those know that resize jobs.
const KNOWS: &[Feature] = Feature::ALL;

/// The options that those read that resize jobs.
const OPTIONS: &[&str] =
    &["preempt-cost", "move-cost", "resize-cost", "interval", "resize-every", "preempt-after", "max-preemptions"];

/// How many GPUs each job gets.
pub(super) trait Rule: Clone + Send {
    /// What keeps from one decision to the next who gets the GPUs that are left over once the base has its own.
    type Rest: Rest;

    /// Whether it may refuse jobs.
    const REFUSES: bool = false;

    /// Whether a job that arrives now may wait. If not, it is refused. `others`: all jobs that wait or run.
    fn admits<S: Speed>(&self, _job: &Line, _others: impl Iterator<Item = Line>, _rates: &Rates<'_, '_, S>) -> bool {
        true
    }

    /// The key of a job in the base, the least first, ties fifo. Higher priorities go before all that. `stay`: where it runs.
    fn key<S: Speed>(&self, floor: &Floor<'_, S>, job: Job, stay: Option<&Stay<S::Pace>>) -> f64;

    /// Gives out what comes before all else. The sheet has those who run, the queue those who wait.
    fn give_base<S: Speed>(&self, sheet: &mut Sheet, queue: &Queue, rates: &Rates<'_, '_, S>) {
        sheet.give_least_in_order(queue, rates);
    }

    /// Gives out the GPUs of a pool that are left over once the base has its own.
    fn give_rest<S: Speed>(&self, sheet: &mut Sheet, pool: usize, rates: &Rates<'_, '_, S>, curves: &mut Curves) {
        give_by_gain(sheet, pool, rates, curves);
    }

    /// Whether the GPU goes to whom it is worth most, ties fifo. If not, `first` says it.
    const BY_WORTH: bool = true;

    /// What a job's next GPU is worth. `left`: its work left.
    fn worth(&self, curve: &Curve, left: f64, gpus: u32) -> u64 {
        ordered(curve.gain(left, gpus))
    }

    /// Who gets the next GPU of these, which stand in the order of the base.
    fn first(&self, _able: &[Turn]) -> Option<usize> {
        None
    }
}

/// How fast jobs run on the fewest servers, alone.
pub(super) struct Rates<'f, 'a, S: Speed> {
    floor: &'f Floor<'a, S>,
    few: &'f [FewestServers],
}

impl<S: Speed> Rates<'_, '_, S> {
    /// Work a second on so many GPUs of a pool: iterations, or recorded seconds; 0 where the pool has fewer.
    fn of(&self, job: Job, pool: usize, gpus: u32) -> f64 {
        let Some(servers) = self.few[pool].of(gpus) else { return 0.0 };
        self.floor.speed.rate(&self.floor.jobs, job, gpus, type_of(self.floor, pool), servers)
    }

    /// A job that waits.
    fn waiting(&self, job: Job, key: f64) -> Line {
        Line::new(self.floor, job, key, self.floor.left_at_rest(job), None)
    }

    /// The pools that a job may use, in the order in which it tries them.
    fn tried(&self, job: Job) -> impl Iterator<Item = usize> + '_ {
        self.floor.jobs.tried(job).iter().map(|&(of, _)| self.floor.cluster.pool_of(of))
    }
}

/// The GPU type of a pool; `NONE` where all are alike.
fn type_of<S: Speed>(floor: &Floor<'_, S>, pool: usize) -> GpuType {
    if floor.cluster.is_parted() { GpuType::at(pool) } else { GpuType::NONE }
}

/// Whether a stay that began at that machine time is too young for its job to be resized.
fn is_young<S: Speed>(floor: &Floor<'_, S>, start: f64, resize_every: f64) -> bool {
    floor.seconds() - floor.clock.seconds(start) < resize_every
}

/// Gives a job that is protected the GPUs that it is to have, or as many fewer as it takes, where the placement puts them; else it
/// keeps its own. Returns the slot of its stay.
fn resize_in_place<S: Speed>(floor: &mut Floor<'_, S>, slot: Slot, line: &Line) -> Slot {
    let (job, parts) = (line.job, floor.stays[slot.index()].parts.clone());
    let gpu_type = type_of(floor, line.pool);
    floor.stop(slot);
    if !(line.min..=line.number).rev().any(|gpus| floor.place_on_type(job, gpus, gpu_type)) {
        // Nobody has taken them since.
        _ = floor.place_at(job, &parts);
    }
    floor.start(job)
}

/// The policy of a rule.
#[derive(Clone, Debug)]
pub(super) struct Resizing<R: Rule> {
    rule: R,
    roster: Roster,
    queue: Queue,
    resize_every: f64,
    interval: Option<f64>,
    /// Servers of each GPU type, the largest first.
    few: Vec<FewestServers>,
    curves: Curves,
    /// What decisions keep, where all GPUs are alike and the rule keeps anything.
    base: Option<Box<Base<R::Rest>>>,
    sheet: Sheet,
    /// Whether jobs make room for others, and the GPUs that each job held last.
    makes_room: bool,
    held: Vec<u32>,
    /// Jobs that have come since the last pass and may still be refused (`Rule::REFUSES` only).
    fresh: Vec<Job>,
    /// Whether a job came or went, or a server, since the last pass.
    changed: bool,
    last_pass: f64,
}

impl<R: Rule> Resizing<R> {
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
        let protects = options.preempt_after > 0.0 || options.max_preemptions.is_some();
        let is_plain = setting.server_types.is_none() && setting.side.quotas.is_none() && setting.jobs.shares.is_none();
        Self {
            rule,
            roster: Roster::new(setting.jobs.len()),
            queue: Queue::new(&setting.jobs),
            resize_every: options.resize_every,
            interval: options.interval,
            curves: Curves::new(setting.jobs.len(), few.len()),
            base: (R::Rest::KEEPS && is_plain && !protects).then(|| Box::new(Base::new(setting.jobs.len()))),
            few,
            sheet: Sheet::default(),
            makes_room: options.evict || setting.side.quotas.is_some(),
            held: vec![0; setting.jobs.len()],
            fresh: Vec::new(),
            changed: false,
            last_pass: f64::NEG_INFINITY,
        }
    }

    /// A job waits from now on.
    fn wait<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.roster.set_waiting(job);
        self.queue.insert(&floor.jobs, job, self.rule.key(floor, job, None));
        if let Some(base) = &mut self.base {
            base.join(&self.curves, job);
        }
    }

    /// A job that runs.
    fn line_of<S: Speed>(&self, floor: &Floor<'_, S>, stay: &Stay<S::Pace>) -> Line {
        let key = self.rule.key(floor, stay.job, Some(stay));
        let held = Some((floor.cluster.pool_of(stay.gpu_type), stay.gpus()));
        Line::new(floor, stay.job, key, floor.left_of(stay), held)
    }

    /// Lets those wait that have come since the last pass, one by one in order of fifo, or refuses them.
    fn admit<S: Speed>(&mut self, floor: &mut Floor<'_, S>) {
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.sort_unstable();
        for job in fresh.drain(..) {
            let rates = Rates { floor, few: &self.few };
            let line = |job| rates.waiting(job, self.rule.key(floor, job, None));
            let running = floor.stays.iter().filter(|stay| stay.is_live()).map(|stay| self.line_of(floor, stay));
            let others = running.chain(self.roster.waiting().map(line));
            if self.rule.admits(&line(job), others, &rates) || floor.refuse(job).is_err() {
                self.wait(floor, job);
            }
        }
        self.fresh = fresh;
    }

    /// Says how many GPUs those are to have whose number changes, from what earlier decisions kept. Returns false if nothing is kept.
    fn count_on<S: Speed>(&mut self, floor: &Floor<'_, S>) -> bool {
        let Self { base: Some(base), rule, roster, queue, curves, few, sheet, resize_every, .. } = self else {
            return false;
        };
        let view = View { floor, roster, curves, rule, resize_every: *resize_every };
        base.come_of_age(&view);
        let (free, entering) = base.give_least(&view, queue);
        for &job in &entering {
            curves.from(&Rates { floor, few }, job, 0, floor.jobs.range_of(job.index()).0);
        }
        let view = View { floor, roster, curves, rule, resize_every: *resize_every };
        base.give_rest(&view, &entering, free);
        base.changed(&view, &mut sheet.lines);
        true
    }

    /// Says how many GPUs each job is to have.
    fn count<S: Speed>(&mut self, floor: &Floor<'_, S>) {
        let mut sheet = std::mem::take(&mut self.sheet);
        sheet.clear(floor.cluster.units(), floor.most_by_owner());
        for (slot, stay) in floor.stays.iter().enumerate().filter(|(_, stay)| stay.is_live()) {
            let line = Line { is_protected: floor.is_protected(Slot::at(slot)), ..self.line_of(floor, stay) };
            if is_young(floor, stay.start, self.resize_every) { sheet.keep(line) } else { sheet.lines.push(line) }
        }
        let rates = Rates { floor, few: &self.few };
        if floor.has_quotas() {
            sheet.rank_by_owner(&self.queue, &rates);
        }
        self.rule.give_base(&mut sheet, &self.queue, &rates);
        // What is given beyond min_gpus is whole GPUs.
        sheet.free.iter_mut().for_each(|free| *free /= floor.jobs.units_a_gpu());
        for pool in 0..self.few.len() {
            if floor.has_quotas() {
                sheet.give_rest_by_owner(&self.rule, pool, &rates, &mut self.curves);
            } else {
                self.rule.give_rest(&mut sheet, pool, &rates, &mut self.curves);
            }
        }
        self.sheet = sheet;
    }

    /// Gives every job whose number changed its GPUs.
    fn place<S: Speed>(&mut self, floor: &mut Floor<'_, S>) {
        let changed = self.sheet.changed();
        for line in changed.iter().filter(|line| line.held > 0 && !line.stays()) {
            if let Some(slot) = self.roster.slot_of(line.job) {
                floor.stop(slot);
                self.roster.set_waiting(line.job);
                self.queue.insert(&floor.jobs, line.job, self.rule.key(floor, line.job, None));
            }
        }
        if floor.protects() {
            // Those who give GPUs up first, then the largest.
            changed.sort_by_key(|line| (line.number > line.held, std::cmp::Reverse(line.number)));
            for line in changed.iter().filter(|line| line.stays()) {
                let Some(slot) = self.roster.slot_of(line.job) else { continue };
                let slot = resize_in_place(floor, slot, line);
                self.held[line.job.index()] = floor.stays[slot.index()].gpus();
                self.roster.set_running(line.job, slot);
            }
        }
        changed.sort_by_key(|line| (std::cmp::Reverse(line.number), line.job));
        for line in changed.iter().take_while(|line| line.number > 0).filter(|line| !line.stays()) {
            let gpu_type = type_of(floor, line.pool);
            if (line.min..=line.number).rev().any(|gpus| floor.place_on_type(line.job, gpus, gpu_type)) {
                let slot = floor.start(line.job);
                self.held[line.job.index()] = floor.stays[slot.index()].gpus();
                self.roster.set_running(line.job, slot);
                self.queue.remove(&floor.jobs, line.job);
            }
        }
        let Some(base) = &mut self.base else { return };
        let (roster, curves, rule, resize_every) = (&self.roster, &self.curves, &self.rule, self.resize_every);
        let view = View { floor, roster, curves, rule, resize_every };
        for line in &self.sheet.lines {
            base.settle(&view, line.job);
        }
    }
}

impl<S: Speed, R: Rule> Policy<S> for Resizing<R> {
    const STOPS: bool = true;

    fn came(&mut self, floor: &mut Floor<'_, S>, job: Job, why: Came) {
        // One that paused was admitted when it arrived.
        if R::REFUSES && why == Came::Arrived {
            self.fresh.push(job);
        } else {
            self.wait(floor, job);
        }
        self.changed = true;
    }

    fn left(&mut self, floor: &Floor<'_, S>, _slot: Slot, job: Job, why: Left) {
        if why == Left::Lost {
            return self.wait(floor, job);
        }
        self.roster.set_gone(job);
        if let Some(base) = &mut self.base {
            base.leave(&self.curves, job);
        }
        self.curves.forget(job);
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        if self.changed {
            return floor.now;
        }
        let tick = match self.interval {
            Some(interval) if self.roster.has_waiting() || floor.is_busy() => {
                floor.clock.tick(interval, floor.now, self.last_pass)
            }
            _ => f64::INFINITY,
        };
        if self.roster.has_waiting() { tick.min(floor.protection_ends()) } else { tick }
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.last_pass = floor.now;
        self.changed = false;
        floor.see_protections();
        if R::REFUSES {
            self.admit(floor);
        }
        if !self.count_on(floor) {
            self.count(floor);
        }
        self.place(floor);
        self.make_room(floor);
    }

    fn is_waiting(&self) -> bool {
        self.roster.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.roster.waiting()
    }

    fn chooses(&self, _floor: &Floor<'_, S>) -> Chooses {
        Chooses::ByAllocation
    }
}
