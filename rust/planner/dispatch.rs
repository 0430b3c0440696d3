//! The planner's policy: jobs get GPUs in order under theta (Algorithm 1, lines 6 to 13), and start under a dispatch.
//!
//! All jobs are present at time 0, and are numbered in the order in which they get GPUs. The machine tracks servers,
//! the policy single GPUs. Invariant: `given` has the GPUs of the first `next` jobs, and every stay is on the servers
//! of its job's GPUs. For example, under `idle` the first job starts at once, and a job with too few candidates
//! starts at the first completion that leaves it enough.

use super::Dispatch;
use super::gpus::{Gpus, Limit};
use super::instance::Instance;
use super::place::{Gang, Placer};
use super::schedule::{End, Shared};
use crate::decisions::Verb;
use crate::ids::{Job, Server, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
use crate::speed::Speed;

/// Why the machine pauses.
#[derive(Clone, Copy, Debug)]
pub(super) enum Halt {
    /// All is ready for the first pass, and theta and the kappas can be set.
    Ready,
    /// So many of the kappas, the lowest, diverge from here on.
    Parted(usize),
    /// The schedule is given up.
    Over(End),
}

/// Places the jobs of a plan, for one theta and for all kappas that have made no difference so far.
#[derive(Clone, Debug)]
pub(super) struct Dispatcher<'a> {
    instance: &'a Instance<'a>,
    shared: &'a Shared<'a>,
    /// The kappas that this run carries, ascending.
    pub(super) kappas: Vec<u32>,
    pub(super) limit: Limit,
    pub(super) halt: Option<Halt>,
    placer: Placer,
    pub(super) gpus: Gpus<'a>,
    /// GPUs given to the jobs so far, job after job, ascending within a job.
    given: Vec<u32>,
    /// The first job that has no GPUs yet.
    next: usize,
    /// The latest job that was found to fit if all GPUs were idle.
    fits: usize,
    /// Gangs that had to wait.
    pub(super) refused: u64,
    /// No schedule that continues from here ends before this slot.
    lower: u64,
    /// Whether a pass is due, and whether jobs were completed since the latest.
    is_due: bool,
    has_completed: bool,
    /// Under `reserve`: which job is next on each GPU.
    lines: Lines,
    chosen: Vec<u32>,
    parts: Vec<(Server, u32)>,
}

impl<'a> Dispatcher<'a> {
    pub(super) fn new(instance: &'a Instance<'a>, shared: &'a Shared<'a>) -> Self {
        let options = instance.options;
        let reserve = options.dispatch == Dispatch::Reserve;
        Self {
            instance,
            shared,
            kappas: Vec::new(),
            limit: Limit::new(0.0),
            halt: Some(Halt::Ready),
            placer: Placer::new(options),
            gpus: Gpus::new(&instance.layout, reserve, Placer::orders(options)),
            given: Vec::new(),
            next: 0,
            fits: usize::MAX,
            refused: 0,
            lower: instance.rest[0],
            is_due: true,
            has_completed: false,
            lines: Lines::default(),
            chosen: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// Gives the next job GPUs. Returns whether it could: otherwise the job waits, or the machine must halt.
    fn give_next(&mut self) -> bool {
        let num_gpus = self.instance.jobs.num_gpus[self.next];
        let smaller = self.kappas.partition_point(|&kappa| kappa < num_gpus);
        if smaller > 0 && smaller < self.kappas.len() {
            self.halt = Some(Halt::Parted(smaller));
            return false;
        }
        let rule = self.placer.rule(smaller == 0);
        let gang = Gang { num_gpus, charge: self.instance.charge[self.next] };
        if self.placer.choose(rule, &mut self.gpus, gang, &mut self.limit, &mut self.chosen) {
            self.gpus.take(&self.chosen, gang.charge);
            self.given.extend_from_slice(&self.chosen);
            self.next += 1;
            return true;
        }
        self.refused += 1;
        if self.instance.options.dispatch == Dispatch::Reserve {
            self.halt = Some(Halt::Over(End::Infeasible));
        } else if self.fits != self.next {
            // U is constant until this job is placed: if all GPUs are not enough now, they never will be.
            self.fits = self.next;
            if !self.placer.could_ever(rule, &mut self.gpus, gang, &mut self.limit) {
                self.halt = Some(Halt::Over(End::Infeasible));
            }
        }
        false
    }

    /// Starts a job on its GPUs.
    fn start<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: usize) {
        let layout = &self.instance.layout;
        self.parts.clear();
        let mut end = 0;
        for &gpu in &self.given[self.instance.own(job)] {
            match self.parts.last_mut() {
                Some(part) if gpu < end => part.1 += 1,
                _ => {
                    let server = layout.server_of[gpu as usize];
                    end = layout.first[server as usize + 1];
                    self.parts.push((Server::new(server), 1));
                }
            }
        }
        if let Err(why) = state.place_at(Job::at(job), &self.parts) {
            state.fail(Job::at(job), Verb::Start, why, None);
            return;
        }
        state.start(Job::at(job));
        let slots = self.instance.slots(&state.speed, job, self.parts.len() as u32, 1);
        self.lower = self.lower.max(state.now as u64 + slots.unwrap_or(self.instance.least_slots[job]));
    }

    /// Gives up if a schedule that does not end before this slot is useless. Returns whether it does.
    fn gives_up(&mut self, slots: u64) -> bool {
        let useless = self.shared.is_useless(slots);
        if useless {
            self.halt = Some(Halt::Over(End::Worse));
        }
        useless
    }

    /// Dispatch `idle`: the next job starts on idle candidates, or waits for the next completion.
    fn start_in_order<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        while self.next < self.instance.rows.len() && self.give_next() {
            self.start(state, self.next - 1);
        }
    }

    /// Dispatch `reserve`: first chooses GPUs for every job, by U alone. Then a job starts when it heads the queue of
    /// every GPU that it was given.
    fn start_reserved<S: Speed>(&mut self, state: &mut ClusterState<'_, S>) {
        let jobs = self.instance.rows.len();
        while self.next < jobs {
            let job = self.next;
            if !self.give_next() {
                return;
            }
            let until = self.lines.book(&self.chosen, self.instance, job);
            self.lower = self.lower.max(until);
            if self.gives_up(self.lower) {
                return;
            }
            if self.next == jobs {
                self.lines.form(&self.given, self.instance);
            }
        }
        let mut ready = std::mem::take(&mut self.lines.ready);
        ready.sort_unstable();
        for job in ready.drain(..) {
            self.start(state, job as usize);
        }
        self.lines.ready = ready;
    }
}

impl<S: Speed> Policy<S> for Dispatcher<'_> {
    fn on_wait(&mut self, _state: &mut ClusterState<'_, S>, _job: Job, _why: WaitReason) {}

    /// A stay ends when its job is done: plans have no outages.
    fn on_end(&mut self, _state: &ClusterState<'_, S>, _slot: Slot, job: Job, _why: EndReason) {
        (self.is_due, self.has_completed) = (true, true);
        let own = self.instance.own(job.index());
        match self.instance.options.dispatch {
            Dispatch::Idle => self.gpus.release(&self.given[own]),
            Dispatch::Reserve => self.lines.leave(own),
        }
    }

    fn capacity_changed(&mut self) {}

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        if self.is_due { state.now } else { f64::INFINITY }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        if self.halt.is_some() {
            return;
        }
        // No job has started before the completions at this instant.
        if std::mem::take(&mut self.has_completed)
            && self.gives_up(self.lower.max(state.now as u64 + self.instance.rest[self.next]))
        {
            return;
        }
        match self.instance.options.dispatch {
            Dispatch::Idle => self.start_in_order(state),
            Dispatch::Reserve => self.start_reserved(state),
        }
        // If it halted, the pass continues later.
        self.is_due = self.halt.is_some();
    }

    fn is_halted(&self) -> bool {
        self.halt.is_some()
    }

    // For the machine no job waits: a plan's waits depend on turns and on theta (`super::waits`).

    fn is_waiting(&self) -> bool {
        false
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        std::iter::empty()
    }

    fn chooses(&self, _state: &ClusterState<'_, S>) -> Chooses {
        Chooses::ByRecord
    }
}

const NOBODY: u32 = u32::MAX;

/// The queue of each GPU, in order of the jobs.
#[derive(Clone, Debug, Default)]
struct Lines {
    /// Slots that each GPU is taken for at least.
    booked: Vec<u64>,
    /// Beside each entry of `given`: the next job on that GPU.
    after: Vec<u32>,
    /// For each of a job's GPUs, how many other jobs hold or will hold it before.
    pending: Vec<u32>,
    /// Jobs that head every queue that they are in.
    ready: Vec<u32>,
}

impl Lines {
    /// Puts a job at the end of the queues of its GPUs. Returns the slot before which it does not end: the work
    /// booked before it on every one of them comes first.
    fn book(&mut self, gpus: &[u32], instance: &Instance<'_>, job: usize) -> u64 {
        self.booked.resize(instance.layout.server_of.len(), 0);
        let before = gpus.iter().map(|&g| self.booked[g as usize]).max().unwrap_or(0);
        let until = before + instance.least_slots[job];
        gpus.iter().for_each(|&g| self.booked[g as usize] = until);
        until
    }

    /// Forms the queues as they are before the first start; all jobs have their GPUs.
    fn form(&mut self, given: &[u32], instance: &Instance<'_>) {
        let mut first = vec![NOBODY; instance.layout.server_of.len()];
        self.after = vec![NOBODY; given.len()];
        self.pending.clone_from(&instance.jobs.num_gpus);
        for job in (0..instance.rows.len()).rev() {
            for at in instance.own(job) {
                self.after[at] = std::mem::replace(&mut first[given[at] as usize], job as u32);
            }
        }
        first.into_iter().for_each(|job| self.head(job));
    }

    /// Records that a job is done: the next one heads each of its queues. `own`: where its GPUs are in `given`.
    fn leave(&mut self, own: std::ops::Range<usize>) {
        for at in own {
            self.head(self.after[at]);
        }
    }

    fn head(&mut self, job: u32) {
        if job != NOBODY {
            let pending = &mut self.pending[job as usize];
            *pending -= 1;
            if *pending == 0 {
                self.ready.push(job);
            }
        }
    }
}
