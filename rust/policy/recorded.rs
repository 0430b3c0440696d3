//! recorded: every job starts when it did in the log of its cluster, where it did if that is known and possible.
//!
//! A job whose recorded place is unknown, or not allowed at that instant, goes where the placement puts it: on the type
//! it was recorded on before any other. A job that cannot be held at its recorded start is late: it is tried again at
//! every instant, in order of (recorded start, row), and no job blocks another. Invariant: `ready` and `late` hold the
//! waiting jobs whose recorded start is not after the latest pass. For example, a job of 8 GPUs recorded at 60 s starts
//! at 90 s if another holds its GPUs until then.

use super::job_states::JobStates;
use crate::ids::{Job, MILLI_GPU, Server, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
use crate::options::{Facts, Feature, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{Demand, Recorded};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

policies! { |setting, speed|
    AsRecorded<'_> => AsRecorded::new(setting),
}

/// The policy.
#[derive(Clone, Debug)]
pub(super) struct AsRecorded<'a> {
    recorded: &'a Recorded,
    job_states: JobStates,
    /// The jobs by (recorded start, row), the place of each in that order, and the first whose start is still to come.
    order: Vec<Job>,
    rank: Vec<u32>,
    next: usize,
    /// Whether the recorded place of each job is known, and was allowed whenever the job was tried.
    is_placed: Vec<bool>,
    /// Ranks of jobs to try at their recorded places.
    ready: Vec<u32>,
    /// The demands of the table, ascending, and the ranks of the jobs of each that are tried anywhere.
    demands: Vec<Demand>,
    late: Vec<BTreeSet<u32>>,
    /// The number of jobs in `late`, and whether one may find room now that did not before.
    num_late: usize,
    changed: bool,
    /// Candidates of a pass: (rank, demand), or `PLACED` for a job of `ready`.
    candidates: BinaryHeap<Reverse<(u32, usize)>>,
}

/// Stands for the demand of a job that is tried at its recorded place.
const PLACED: usize = usize::MAX;

impl<'a> AsRecorded<'a> {
    fn new(setting: &Setting<'a>) -> Self {
        static NOTHING: Recorded = Recorded::NONE;
        let recorded = setting.recorded.unwrap_or(&NOTHING);
        let jobs = recorded.start.len();
        let mut order: Vec<Job> = (0..jobs).map(Job::at).collect();
        let key = |job: &Job| (recorded.start[job.index()], setting.rows[job.index()]);
        order.sort_unstable_by(|a, b| key(a).0.total_cmp(&key(b).0).then(key(a).1.cmp(&key(b).1)));
        let mut rank = vec![0; jobs];
        order.iter().enumerate().for_each(|(at, job)| rank[job.index()] = at as u32);
        let demands = setting.jobs.demands();
        Self {
            recorded,
            job_states: JobStates::new(setting.jobs.len()),
            order,
            rank,
            next: 0,
            is_placed: (0..jobs).map(|job| !recorded.place(job).is_empty()).collect(),
            ready: Vec::new(),
            late: vec![BTreeSet::new(); demands.len()],
            demands,
            num_late: 0,
            changed: false,
            candidates: BinaryHeap::new(),
        }
    }

    /// Returns when the next recorded start is seen (machine time).
    fn next_start<S: Speed>(&self, state: &ClusterState<'_, S>) -> f64 {
        let job = self.order.get(self.next);
        job.map_or(f64::INFINITY, |job| state.clock.arrival(self.recorded.start[job.index()]))
    }

    /// Lets the job be tried from now on.
    fn make_ready<S: Speed>(&mut self, state: &ClusterState<'_, S>, job: Job) {
        let rank = self.rank[job.index()];
        if self.is_placed[job.index()] {
            self.ready.push(rank);
        } else {
            let class = self.class_of(state, job);
            self.num_late += usize::from(self.late[class].insert(rank));
        }
        self.changed = true;
    }

    fn class_of<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> usize {
        self.demands.partition_point(|&demand| demand < state.jobs.demand(job))
    }

    /// Starts a job that was placed.
    fn start<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) {
        self.job_states.set_running(job, state.start(job));
    }

    /// Tries a job at its recorded place. If that is not allowed it counts as unknown from now on.
    fn start_in_place<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        let parts = self.recorded.place(job.index());
        let placed = match state.jobs.share_of(job.index()) {
            0 => state.place_at(job, parts).is_ok(),
            share => best_fit(state, parts[0].0, share).is_some_and(|gpu| state.place_on_gpus(job, &[gpu]).is_ok()),
        };
        if placed {
            self.start(state, job);
        } else {
            self.is_placed[job.index()] = false;
            state.count_displaced();
        }
        placed
    }

    /// Tries a job where the placement puts it.
    fn start_anywhere<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, job: Job) -> bool {
        let placed = state.place(job);
        if placed {
            self.start(state, job);
        }
        placed
    }

    /// Makes the first job of a demand that ranks from `rank` on a candidate.
    fn add(&mut self, class: usize, rank: u32) {
        if let Some(&rank) = self.late[class].range(rank..).next() {
            self.candidates.push(Reverse((rank, class)));
        }
    }
}

/// Returns the GPU of a server with the least room that holds a share, the lowest on ties.
fn best_fit<S: Speed>(state: &ClusterState<'_, S>, server: Server, share: u32) -> Option<(Server, u32)> {
    if server.index() >= state.cluster.num_servers() {
        return None;
    }
    let room = |gpu: u32| state.cluster.room(server, gpu);
    let gpus = (0..state.cluster.size(server)).filter(|&gpu| (share..=MILLI_GPU).contains(&room(gpu)));
    gpus.min_by_key(|&gpu| room(gpu)).map(|gpu| (server, gpu))
}

impl Named for AsRecorded<'_> {
    const FACTS: Facts = Facts {
        name: "recorded",
        about: "recorded start, then row",
        paper: "the trace's own log",
        knows: &[
            Feature::Types,
            Feature::Shares,
            Feature::Priorities,
            Feature::Outages,
            Feature::Services,
            Feature::Search,
        ],
        is: &[Is::AsRecorded],
        options: &[],
    };
}

impl<S: Speed> Policy<S> for AsRecorded<'_> {
    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, _why: WaitReason) {
        self.job_states.set_waiting(job);
        if (self.rank[job.index()] as usize) < self.next {
            self.make_ready(state, job);
        }
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, _slot: Slot, job: Job, why: EndReason) {
        if why == EndReason::Lost {
            self.job_states.set_waiting(job);
            self.make_ready(state, job);
        } else {
            self.job_states.set_gone(job);
        }
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.changed = true;
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        let is_due = self.changed && (self.num_late > 0 || !self.ready.is_empty());
        if is_due { state.now } else { self.next_start(state).max(state.now) }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        while self.next_start(state) <= state.now {
            let job = self.order[self.next];
            self.next += 1;
            if self.job_states.is_waiting(job) {
                self.make_ready(state, job);
            }
        }
        self.changed = false;
        for class in 0..self.late.len() {
            self.add(class, 0);
        }
        self.candidates.extend(self.ready.drain(..).map(|rank| Reverse((rank, PLACED))));
        // The demands that cannot be placed any more: a pass takes GPUs and gives none back.
        let mut failed = vec![false; self.demands.len()];
        while let Some(Reverse((rank, class))) = self.candidates.pop() {
            let job = self.order[rank as usize];
            if class == PLACED {
                if !self.start_in_place(state, job) {
                    let class = self.class_of(state, job);
                    let started = !failed[class] && self.start_anywhere(state, job);
                    if !started {
                        failed[class] = true;
                        self.num_late += usize::from(self.late[class].insert(rank));
                    }
                }
            } else if !failed[class] {
                if self.start_anywhere(state, job) {
                    self.late[class].remove(&rank);
                    self.num_late -= 1;
                    self.add(class, rank);
                } else {
                    failed[class] = true;
                }
            }
        }
    }

    fn is_waiting(&self) -> bool {
        self.job_states.has_waiting()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.job_states.waiting()
    }

    fn chooses(&self, _state: &ClusterState<'_, S>) -> Chooses {
        Chooses::ByRecord
    }
}
