//! repack: smallest remaining work first, and room made where waiting would cost more (docs/repack.md).
//!
//! A pass first lets those run who have waited for too long for what they are. Then it walks the waiting jobs, least GPUs
//! times run time left first. A job that consolidate cannot place asks for a plan: who moves, who is evicted. The
//! plan is carried out where that costs less than waiting. Invariant: `on` names the jobs of every server. For example,
//! on two servers of 8 GPUs with 4 busy each, a short job of 8 GPUs moves one of the two jobs to the other's server.

mod bench;
mod foresight;
mod grades;
mod history;
mod line;
mod overdue;
mod plan;
mod predictor;
mod residents;
mod strain;

use super::Visitor;
use crate::ids::{Job, Server, Slot, WHOLE};
use crate::machine::{Came, Chooses, Floor, Left, Policy};
use crate::options::{Facts, Feature, Is, Named, Predict};
use crate::setting::Setting;
use crate::speed::Speed;
use bench::Bench;
use foresight::Exact;
use foresight::Foresight;
use grades::Grades;
use history::History;
use line::{Lines, Rank};
use plan::{Asker, Plan};
use residents::Residents;
use std::collections::BTreeSet;

/// What it says of itself.
pub(super) const FACTS: &[Facts] = &[Repack::<Exact>::FACTS];

/// Hands the policy of the setting's options to a visitor; gives the visitor back where it is another.
pub(super) fn visit<'a, S: Speed, V: Visitor<'a, S>>(
    setting: &Setting<'a>,
    speed: &S,
    visitor: V,
) -> Result<V::Output, V> {
    match setting.options.predict {
        _ if !setting.options.has::<Repack<Exact>>() => Err(visitor),
        Predict::Exact => {
            Ok(visitor.visit(setting, speed.clone(), Repack::new(setting, |lines| Exact::new(setting, lines))))
        }
        Predict::History => {
            Ok(visitor.visit(setting, speed.clone(), Repack::new(setting, |lines| History::new(setting, lines))))
        }
    }
}

/// The policy.
#[derive(Clone, Debug)]
pub(super) struct Repack<F> {
    residents: Residents<F>,
    bench: Bench,
    grades: Grades,
    /// Whether jobs may evict others by the machine's rule, and the stays that the latest one ended so.
    evicts: bool,
    /// Whether jobs whose size has failed have a turn all the same, and whether there is an end to that: what a job may
    /// evict hangs on its size and grade alone.
    is_thorough: bool,
    is_alike: bool,
    evicted: Vec<(Slot, Job)>,
    /// The walk through a grade: of each demand for which nobody can be evicted a waiting job, and whether jobs have
    /// started or moved since that was seen.
    barren: Vec<Job>,
    is_other: bool,
    changed: bool,
    /// The pass: sizes that no plan makes room for, and where; by pool, GPUs of jobs ahead in the ranking
    /// that wait for some there.
    failed: Vec<(u32, usize)>,
    ahead: Vec<u64>,
    /// The latest plan that did not pay, for whom, and as of which changes.
    found: Option<(u64, Asker, Plan)>,
}

/// A waiting job that cannot be placed.
#[derive(Clone, Copy)]
struct Waits {
    rank: Rank,
    num_gpus: u32,
    units: u32,
    pool: usize,
    /// Run time left, s, with the pause of a job that runs again.
    run: f64,
}

/// What came of it that a job asked for a plan.
#[derive(Clone, Copy, PartialEq)]
enum Asked {
    Starts,
    Waits,
    /// For too short for any plan.
    WaitsBriefly,
}

/// The lowest GPU of a server of which nobody holds anything.
fn empty_gpu<S: Speed>(floor: &Floor<'_, S>, server: Server) -> Vec<(Server, u32)> {
    let (pool, own) = floor.cluster.place(server);
    let mut gpus = (0..floor.cluster.pool(pool).sizes[own.index()]).map(|gpu| (server, gpu));
    gpus.find(|&(server, gpu)| floor.cluster.room(server, gpu) == WHOLE).into_iter().collect()
}

/// Whether no plan helps jobs of that size on any GPUs that one may have.
fn has_failed<S: Speed>(floor: &Floor<'_, S>, job: Job, failed: &[(u32, usize)]) -> bool {
    let size = floor.units(job);
    floor.jobs.tried(job).iter().all(|&(of, _)| failed.contains(&(size, floor.cluster.pool_of(of))))
}

/// Whether one of those jobs asks for the same.
fn is_barren<S: Speed>(floor: &Floor<'_, S>, job: Job, barren: &[Job]) -> bool {
    barren.iter().any(|&other| floor.jobs.demand(other) == floor.jobs.demand(job))
}

impl<F: Foresight> Repack<F> {
    pub(super) fn new(setting: &Setting<'_>, foresight: impl FnOnce(Lines) -> F) -> Self {
        let grades = Grades::new(setting);
        Self {
            residents: Residents::new(setting, foresight(grades.lines())),
            bench: Bench::default(),
            evicts: setting.has_standing(),
            is_thorough: setting.has_standing() || setting.server_types.is_some(),
            is_alike: setting.side.quotas.is_none() && setting.server_types.is_none(),
            evicted: Vec::new(),
            barren: Vec::new(),
            is_other: false,
            grades,
            changed: false,
            failed: Vec::new(),
            ahead: vec![0; setting.num_pools()],
            found: None,
        }
    }

    /// The job waits from now on.
    fn join<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.residents.foresight.join(floor, job);
        self.residents.strains.join(floor, job, self.residents.foresight.yardstick(floor, job));
    }

    /// A waiting job starts where it was placed.
    fn start<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) {
        self.residents.foresight.leave(job);
        self.residents.strains.leave(floor, job);
        let slot = floor.start(job);
        self.residents.settle(floor, slot);
        self.is_other = true;
    }

    /// Run time left of a waiting job, s, with the pause of one that runs again.
    fn run<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) -> f64 {
        let pause = if floor.has_run(job) { floor.pause_seconds() } else { 0.0 };
        self.residents.foresight.left_waiting(job) + pause
    }

    /// Starts a waiting job, but no guest, where others are evicted for it by the machine's rule, if that can be done.
    fn start_by_evicting<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) -> bool {
        let grade = self.residents.foresight.lines().grade_of(job);
        if !self.evicts || self.grades.is_of_guests(grade) || !floor.makes_room() {
            return false;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = floor.place_by_evicting(job, &mut evicted);
        evicted.iter().for_each(|&(_, victim)| _ = self.residents.unsettle(floor, victim));
        if placed {
            self.start(floor, job);
        }
        self.is_other |= !evicted.is_empty();
        evicted.iter().for_each(|&(_, victim)| self.join(floor, victim));
        self.evicted = evicted;
        placed
    }

    /// The same of a job whose demand is barren from then on if it cannot be done.
    fn tries_to_evict<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job) -> bool {
        let placed = self.start_by_evicting(floor, job);
        if !placed && !is_barren(floor, job, &self.barren) {
            self.barren.push(job);
        }
        placed
    }

    /// Drops who is barren no longer. Returns whether there is anybody.
    fn review_barren<S: Speed>(&mut self, floor: &mut Floor<'_, S>) -> bool {
        let before = self.barren.len();
        if std::mem::take(&mut self.is_other) && self.evicts && before > 0 && floor.makes_room() {
            self.barren.retain(|&job| !floor.can_evict_for(job));
        }
        self.barren.len() < before
    }

    /// Lets the urgent jobs of a grade run, whatever it costs. They spare whoever has more than half of their strain.
    fn relieve<S: Speed>(&mut self, floor: &mut Floor<'_, S>, grade: u32, limit: f64) {
        let (mut failed, jobs): (Vec<(u32, usize)>, _) = (Vec::new(), floor.jobs);
        let (cost, graded) = (floor.pause_seconds(), self.grades.differ());
        let quotas = floor.has_quotas(); // which change a job's grade, but not within a pass
        self.residents.strains.begin_walk(floor, limit);
        self.barren.clear();
        'urgent: while let Some((strain, job)) = {
            let comes_back = self.review_barren(floor);
            let Self { residents, barren, evicts, .. } = self;
            let lines = residents.foresight.lines();
            // Without quotas members of a class are of one grade, and fail together.
            let is_lost = |member: Job| {
                has_failed(floor, member, &failed) && (!*evicts || !quotas && is_barren(floor, member, barren))
            };
            let is_other = |member: Job| !quotas && lines.grade_of(member) != grade;
            if comes_back {
                residents.strains.call_back(|member| !is_other(member) && !is_lost(member));
            }
            residents.strains.next(floor, limit, |member| is_other(member) || is_lost(member))
        } {
            if self.residents.foresight.lines().grade_of(job) != grade {
                continue;
            }
            let (strain, work) = (strain / 2.0, f64::NEG_INFINITY);
            let (num_gpus, units) = (floor.asks(job), floor.units(job));
            if has_failed(floor, job, &failed) {
                self.tries_to_evict(floor, job);
                continue;
            }
            if floor.place(job) {
                self.start(floor, job);
                continue;
            }
            for &(gpu_type, _) in jobs.tried(job) {
                let pool = floor.cluster.pool_of(gpu_type);
                if failed.contains(&(units, pool)) {
                    continue;
                }
                let run = self.run(floor, job);
                let guests_from = self.grades.guests_before(grade);
                let asker = Asker { num_gpus, units, pool, grade, graded, guests_from, run, work, cost, strain };
                match Plan::find(floor, &mut self.residents, &asker, &mut self.bench) {
                    Some(plan) => {
                        self.carry_out(floor, job, &plan);
                        continue 'urgent;
                    }
                    None => failed.push((units, pool)),
                }
            }
            self.tries_to_evict(floor, job);
        }
    }

    /// Whether a plan costs less than to wait for GPUs that come free by themselves.
    fn pays<S: Speed>(&mut self, floor: &Floor<'_, S>, plan: &Plan, waits: Waits) -> bool {
        let (evicted, moved) = (plan.evicted.len() as f64, plan.moved.len() as f64);
        let stops = floor.pause_seconds() * (evicted + moved);
        let others = self.residents.foresight.lines().len() > 1;
        let alone = if others { 0.0 } else { stops + waits.run * evicted };
        self.waits_for(floor, waits, f64::max(2.0 * stops, alone))
    }

    /// Whether a job that waits for GPUs to come free by themselves waits at least so long: the longer of two times,
    /// of which neither needs to be worked out. `ahead` may lack jobs that the walk left aside.
    fn waits_for<S: Speed>(&mut self, floor: &Floor<'_, S>, waits: Waits, seconds: f64) -> bool {
        let (pool, ahead) = (waits.pool, &mut self.ahead[waits.pool]);
        if seconds <= 0.0 || self.residents.free_no_sooner(floor, pool, waits.num_gpus, seconds) {
            return true;
        }
        let idle = floor.cluster.pool(pool).idle_units();
        let wanted = |ahead: u64| (ahead + u64::from(waits.units)).saturating_sub(idle);
        if self.residents.released_no_sooner(floor, pool, wanted(*ahead), seconds) {
            return true;
        }
        if self.is_thorough {
            return false; // nobody was left aside
        }
        let before = *ahead;
        self.residents.foresight.lines_mut().count_aside(waits.rank, self.residents.strains.gpus(), ahead);
        *ahead > before && self.residents.released_no_sooner(floor, pool, wanted(*ahead), seconds)
    }

    /// Stops the plan's victims, starts its job, which waits, and puts the jobs that move in their new homes.
    fn carry_out<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job, plan: &Plan) {
        for &victim in plan.evicted.iter().chain(plan.moved.iter().map(|(job, _)| job)) {
            let slot = self.residents.unsettle(floor, victim);
            floor.stop(slot);
        }
        self.residents.foresight.leave(job);
        self.residents.strains.leave(floor, job);
        self.start_at(floor, job, &plan.parts);
        self.is_other = true;
        for &(job, server) in &plan.moved {
            self.start_at(floor, job, &[(server, floor.asks(job))]);
        }
        for &victim in &plan.evicted {
            self.join(floor, victim);
        }
    }

    /// Starts a job that does not wait on idle GPUs of those servers.
    fn start_at<S: Speed>(&mut self, floor: &mut Floor<'_, S>, job: Job, parts: &[(Server, u32)]) {
        let placed = if floor.jobs.share_of(job.index()) > 0 {
            floor.place_on_gpus(job, &empty_gpu(floor, parts[0].0))
        } else {
            floor.place_at(job, parts)
        };
        if placed.is_ok() {
            let slot = floor.start(job);
            self.residents.settle(floor, slot);
        }
    }
}

impl<F> Named for Repack<F> {
    const FACTS: Facts = Facts {
        name: "repack",
        about: "least num_gpus x remaining run time; moves and evicts to make room",
        paper: "ringbco",
        knows: Feature::ALL,
        is: &[Is::Moves],
        options: &["preempt-cost", "predict", "preempt-after", "max-preemptions"],
    };
}

impl<S: Speed, F: Foresight> Policy<S> for Repack<F> {
    const STOPS: bool = true;

    fn came(&mut self, floor: &mut Floor<'_, S>, job: Job, why: Came) {
        match why {
            Came::Arrived => {
                self.residents.foresight.arrived(floor, job);
                self.residents.strains.arrived(floor.units(job));
            }
            Came::Again => self.residents.strains.resume(floor, job),
        }
        self.join(floor, job);
        self.changed = true;
    }

    fn left(&mut self, floor: &Floor<'_, S>, _slot: Slot, job: Job, why: Left) {
        self.residents.unsettle(floor, job);
        match why {
            Left::Done => {
                self.residents.foresight.completed(job);
                self.residents.strains.completed(floor.units(job));
            }
            Left::Limit => self.residents.strains.completed(floor.units(job)),
            Left::Lost => self.join(floor, job),
            Left::Paused => self.residents.strains.pause(floor, job),
        }
        self.changed = true;
    }

    fn climbed(&mut self, floor: &Floor<'_, S>, slot: Slot) {
        self.residents.set_back(floor.stays[slot.index()].job);
    }

    fn capacity_changed(&mut self) {
        self.residents.spoil_all();
        self.changed = true;
    }

    fn due(&mut self, floor: &Floor<'_, S>) -> f64 {
        match self.residents.foresight.lines().len() {
            0 => f64::INFINITY,
            _ if self.changed => floor.now,
            _ => self.residents.strains.next_pass(floor.clock).min(floor.protection_ends()),
        }
    }

    fn pass(&mut self, floor: &mut Floor<'_, S>) {
        self.changed = false;
        floor.see_protections();
        self.residents.begin(floor);
        if floor.has_quotas() {
            self.grade_anew(floor);
        }
        let limit = self.residents.strains.begin(floor);
        self.failed.clear();
        self.ahead.fill(0);
        for grade in 0..self.grades.walked() {
            self.relieve(floor, grade, limit);
            self.walk(floor, grade, limit);
        }
    }

    fn is_waiting(&self) -> bool {
        self.residents.foresight.lines().len() > 0
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.residents.foresight.lines().jobs()
    }

    /// In each grade those that are urgent first.
    fn chooses(&self, floor: &Floor<'_, S>) -> Chooses {
        let (mut foresight, mut strains) = (self.residents.foresight.clone(), self.residents.strains.clone());
        foresight.begin(floor, &mut Vec::new());
        let limit = strains.begin(floor);
        strains.begin_walk(floor, limit);
        let mut line: Vec<Job> =
            std::iter::from_fn(|| strains.next(floor, limit, |_| false)).map(|next| next.1).collect();
        let urgent: BTreeSet<Job> = line.iter().copied().collect();
        line.extend(foresight.lines().in_order().into_iter().filter(|job| !urgent.contains(job)));
        line.sort_by_key(|&job| foresight.lines().grade_of(job));
        Chooses::FromLine(line)
    }
}

impl<F: Foresight> Repack<F> {
    /// Walks the waiting jobs of a grade.
    fn walk<S: Speed>(&mut self, floor: &mut Floor<'_, S>, grade: u32, limit: f64) {
        let (jobs, enough) = (floor.jobs, self.residents.strains.gpus());
        self.residents.foresight.lines_mut().begin_walk(grade);
        self.barren.clear();
        while let Some(rank) = {
            if self.review_barren(floor) {
                self.residents.foresight.lines_mut().call_back(grade);
            }
            let Self { residents, failed, barren, .. } = self;
            // Whoever may evict has a turn, or counts as ahead where these are not enough; so has who may have GPUs of
            // another type.
            let is_over = |units| {
                !self.is_thorough
                    || self.is_alike && self.ahead[0] >= enough && barren.iter().any(|&job| floor.units(job) == units)
            };
            let aside = |units| failed.contains(&(units, 0)) && is_over(units);
            residents.foresight.lines_mut().next(grade, aside)
        } {
            let job = rank.1;
            let is_lost = self.is_thorough && has_failed(floor, job, &self.failed);
            if !is_lost && floor.place(job) {
                self.start(floor, job);
                continue;
            }
            let asked = if is_lost { Asked::Waits } else { self.start_by_plan(floor, (grade, rank), limit) };
            if asked == Asked::Starts || self.tries_to_evict(floor, job) {
                continue;
            }
            for &(gpu_type, _) in jobs.tried(job) {
                self.ahead[floor.cluster.pool_of(gpu_type)] += u64::from(floor.units(job));
            }
            if asked == Asked::WaitsBriefly && !self.is_thorough && floor.placer.is_monotone() {
                self.pass_over_alike(floor, grade, u64::from(floor.units(job)));
            }
        }
    }

    /// After a job that finds no room, and whose wait is too short for any plan: passes over those that come next and ask
    /// for as much, whose waits are too short too. Each would ask for a place in vain.
    fn pass_over_alike<S: Speed>(&mut self, floor: &mut Floor<'_, S>, grade: u32, units: u64) {
        let alike = self.residents.foresight.lines_mut().alike(grade) as u64;
        if alike == 0 {
            return;
        }
        let (ahead, idle) = (&mut self.ahead[0], floor.cluster.pool(0).idle_units());
        let enough = (*ahead + alike * units).saturating_sub(idle);
        let released = self.residents.released(floor, 0, enough, 2.0 * floor.pause_seconds());
        let passed = alike.min((released + idle).saturating_sub(*ahead) / units);
        if passed > 0 {
            *ahead += passed * units;
            floor.place_none(passed);
            self.residents.foresight.lines_mut().pass_over(grade, passed as usize);
        }
    }

    /// Starts a waiting job that cannot be placed by a plan that pays, if there is one.
    fn start_by_plan<S: Speed>(&mut self, floor: &mut Floor<'_, S>, (grade, rank): (u32, Rank), limit: f64) -> Asked {
        let mut asked = Asked::Waits;
        let (job, jobs, cost, graded) = (rank.1, floor.jobs, floor.pause_seconds(), self.grades.differ());
        let (num_gpus, units) = (floor.asks(job), floor.units(job));
        for &(gpu_type, _) in jobs.tried(job) {
            let pool = floor.cluster.pool_of(gpu_type);
            if self.is_thorough && self.failed.contains(&(units, pool)) {
                continue;
            }
            let run = self.run(floor, job);
            let waits = Waits { rank, num_gpus, units, pool, run };
            if !self.waits_for(floor, waits, 2.0 * cost) {
                asked = Asked::WaitsBriefly;
                continue;
            }
            let work = self.residents.foresight.weight(units) * run;
            let strain = limit / 2.0;
            let guests_from = self.grades.guests_before(grade);
            let asker = Asker { num_gpus, units, pool, grade, graded, guests_from, run, work, cost, strain };
            let found = match self.found.take() {
                Some((changes, other, plan)) if changes == self.residents.changes && other == asker => Some(plan),
                _ => Plan::find(floor, &mut self.residents, &asker, &mut self.bench),
            };
            match found {
                None => self.failed.push((units, pool)),
                Some(plan) if self.pays(floor, &plan, waits) => {
                    self.carry_out(floor, job, &plan);
                    return Asked::Starts;
                }
                Some(plan) => self.found = Some((self.residents.changes, asker, plan)),
            }
        }
        asked
    }
}
