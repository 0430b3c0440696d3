//! Runs a cluster whose decisions come from outside: it runs to the next pause, takes decisions, and continues.
//!
//! `Prepared` checks the input once and assigns it to virtual clusters. A `Course` is the run of one of them. It owns
//! all that it reads, so it can be kept, cloned and dropped at will. Invariant: rows and servers are those of the
//! caller's table and cluster, in every call. For example, a clone made in mid-trace and left alone ends as the
//! course itself does.

/// Does the same with the machine, whatever its type.
macro_rules! each {
    ($paused:expr, $machine:ident => $value:expr) => {
        match $paused {
            Paused::Ring($machine) => $value,
            Paused::Fixed($machine) => $value,
            Paused::KeyedRing($machine) => $value,
            Paused::KeyedFixed($machine) => $value,
            Paused::Table($machine) => $value,
            Paused::KeyedTable($machine) => $value,
        }
    };
}

mod figures;
mod links;
mod verbs;

use crate::cluster::{FewestServers, Network, Tier};
use crate::error::Result;
use crate::ids::{GpuType, Job, Server, Slot};
use crate::machine::{Machine, Pause, Watch};
use crate::options::{Model, Options};
use crate::outcome::{Climbing, ClusterOutcome, Outcome};
use crate::policy::{KeyedQueue, Outside, Queued};
use crate::replay::{ClusterSpec, Extras, Ready, assemble, part_options, prepare};
use crate::setting::Setting;
pub use crate::setting::When;
use crate::speed::{FixedSpeed, RingSpeed, Speed, TableSpeed};
use crate::trace::{OwnedJobs, OwnedSideTables, Quota};
pub use figures::Figure;
use std::sync::Arc;
use std::time::Instant;
pub use verbs::{Refused, StartAt};
use yoke::{Yoke, Yokeable};

/// A checked table and cluster.
#[derive(Debug)]
pub struct Prepared {
    jobs: OwnedJobs,
    side: OwnedSideTables,
    ready: Ready,
    options: Options,
    began: Instant,
}

/// The input of one virtual cluster's run.
#[derive(Debug)]
struct Inputs {
    jobs: OwnedJobs,
    rows: Vec<u32>,
    arrivals: Option<Vec<Job>>,
    servers: Vec<u32>,
    server_gpus: Vec<u32>,
    server_types: Option<Vec<GpuType>>,
    few: FewestServers,
    network: Network,
    tiers: Vec<Tier>,
    opens: f64,
    side: OwnedSideTables,
    options: Options,
    when: When,
    /// The job of each row, and the number of each server in this cluster; `NONE` if it is in another cluster.
    job_of: Vec<Job>,
    server_of: Vec<Server>,
}

/// The machines that pause: decisions or keys from outside, under either model.
#[derive(Clone, Debug, Yokeable)]
enum Paused<'a> {
    Ring(Box<Machine<'a, Outside, RingSpeed>>),
    Fixed(Box<Machine<'a, Outside, FixedSpeed>>),
    KeyedRing(Box<Machine<'a, Queued<'a, KeyedQueue<true>>, RingSpeed>>),
    KeyedFixed(Box<Machine<'a, Queued<'a, KeyedQueue<true>>, FixedSpeed>>),
    Table(Box<Machine<'a, Outside, TableSpeed>>),
    KeyedTable(Box<Machine<'a, Queued<'a, KeyedQueue<true>>, TableSpeed>>),
}

/// Whether a run paused for a decision, reached the requested time, or is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    /// A decision is due.
    Decision,
    /// Everything up to the given time is over.
    Time,
    /// Every job is done.
    End,
}

impl Prepared {
    /// Checks a table and a cluster.
    ///
    /// # Errors
    /// As [`replay`](crate::replay::replay_with).
    pub fn new(
        jobs: OwnedJobs,
        side: OwnedSideTables,
        vc: Option<&[u32]>,
        spec: &ClusterSpec<'_>,
        options: Options,
    ) -> Result<Self> {
        let began = Instant::now();
        let ready = prepare(&jobs.view(), &Extras { side: side.view(), ..Extras::default() }, vc, spec, &options)?;
        Ok(Self { ready, options, began, jobs, side })
    }

    /// Returns the number of virtual clusters.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.ready.parts.len()
    }

    /// Returns the run of a virtual cluster, before its first event.
    #[must_use]
    pub fn course(&self, part: usize, when: When) -> Course {
        let own = &self.ready.parts[part];
        let mut job_of = vec![Job::NONE; self.jobs.submit.len()];
        for (job, &row) in own.rows.iter().enumerate() {
            job_of[row as usize] = Job::at(job);
        }
        let servers = self.ready.parts.iter().map(|part| part.servers.len()).sum();
        let mut server_of = vec![Server::NONE; servers];
        for (number, &server) in own.servers.iter().enumerate() {
            server_of[server as usize] = Server::at(number);
        }
        let inputs = Arc::new(Inputs {
            side: self.side.view().of(&own.servers, &own.rows),
            jobs: self.ready.typed(&self.jobs.view()).gather(&own.rows, self.options.model),
            rows: own.rows.clone(),
            arrivals: own.arrivals.clone(),
            servers: own.servers.clone(),
            server_gpus: own.server_gpus.clone(),
            server_types: own.server_types.clone(),
            few: own.few.clone(),
            network: own.network.clone(),
            tiers: own.tiers.clone(),
            opens: self.jobs.view().opens(),
            options: part_options(&self.options, part),
            when,
            job_of,
            server_of,
        });
        let machine = Yoke::attach_to_cart(Arc::clone(&inputs), |inputs| Paused::new(inputs));
        Course { part, inputs, machine, filled: Default::default() }
    }

    /// Returns the columns of a run whose courses are over. A virtual cluster without a course did not run.
    ///
    /// # Errors
    /// `Option` if the timeline would have too many points.
    pub fn outcome(&self, courses: Vec<Course>) -> Result<Outcome> {
        let extras = Extras { side: self.side.view(), ..Extras::default() };
        let sleeps = self.options.sleep_after < f64::INFINITY;
        let nobody = |part: usize| {
            let jobs = self.ready.parts[part].rows.len();
            let mut outcome = ClusterOutcome {
                climbing: Climbing::new(self.options.search.map_or(0, |_| jobs)),
                asleep: if sleeps { self.course(part, When::default()).into_outcome().asleep } else { Vec::new() },
                ..ClusterOutcome::of_stays(jobs, false)
            };
            outcome.refused.fill(true);
            outcome
        };
        let mut outcomes: Vec<ClusterOutcome> = (0..self.parts()).map(nobody).collect();
        for course in courses {
            let part = course.part;
            outcomes[part] = course.into_outcome();
        }
        let Ready { parts, kept, .. } = &self.ready;
        let seconds = self.began.elapsed().as_secs_f64();
        let jobs = self.ready.typed(&self.jobs.view());
        assemble(&jobs, kept.clone(), parts, outcomes, &self.options, &extras, seconds)
    }
}

impl<'a> Paused<'a> {
    fn new(inputs: &'a Inputs) -> Self {
        let Inputs { rows, server_gpus, few, network, tiers, options, when, .. } = inputs;
        let setting = Setting {
            when: *when,
            arrivals: inputs.arrivals.as_deref(),
            server_types: inputs.server_types.as_deref(),
            opens: inputs.opens,
            side: inputs.side.view(),
            tiers,
            ..Setting::new(inputs.jobs.view(), rows, server_gpus, few, network.clone(), options)
        };
        let ring = RingSpeed { network: setting.network.clone() };
        let table = TableSpeed { table: setting.rate_table() };
        match (inputs.options.preemption, inputs.options.model) {
            (None, Model::Rar) => {
                Self::KeyedRing(Box::new(Machine::new(&setting, ring.clone(), Queued::new(&setting, &ring))))
            }
            (None, Model::Fixed) => {
                Self::KeyedFixed(Box::new(Machine::new(&setting, FixedSpeed, Queued::new(&setting, &FixedSpeed))))
            }
            (None, Model::Table) => {
                let policy = Queued::new(&setting, &table);
                Self::KeyedTable(Box::new(Machine::new(&setting, table, policy)))
            }
            (_, Model::Table) => Self::Table(Box::new(Machine::new(&setting, table, Outside::new(&setting)))),
            (_, Model::Rar) => Self::Ring(Box::new(Machine::new(&setting, ring, Outside::new(&setting)))),
            (_, Model::Fixed) => Self::Fixed(Box::new(Machine::new(&setting, FixedSpeed, Outside::new(&setting)))),
        }
    }
}

/// The run of one virtual cluster, up to its present instant.
pub struct Course {
    part: usize,
    inputs: Arc<Inputs>,
    machine: Yoke<Paused<'static>, Arc<Inputs>>,
    /// By figure: whether its column was ever filled, the jobs that ran then, and how many stays had ended.
    filled: [Option<(Vec<Job>, usize)>; 5],
}

impl Clone for Course {
    fn clone(&self) -> Self {
        let (inputs, filled) = (Arc::clone(&self.inputs), self.filled.clone());
        let mut copy = Self { part: self.part, inputs, machine: self.machine.clone(), filled };
        if let Some(answers) = each!(self.machine.get(), machine => machine.state.answers_so_far()) {
            copy.machine.with_mut_return(move |paused| each!(paused, machine => machine.state.keep_answers(answers)));
        }
        copy
    }
}

impl Course {
    /// Runs until a decision is due, or until every instant up to a time, s, is over.
    ///
    /// Returns the watch.
    pub fn run<W: Watch + 'static>(&mut self, until: f64, mut watch: W) -> (Result<Reached>, W) {
        self.machine.with_mut_return(move |paused| {
            let pause = each!(paused, machine => {
                let until = machine.state.clock.slot.map_or(until, |slot| (until / slot).floor());
                machine.run(until, &mut watch)
            });
            let reached = pause.map(|pause| match pause {
                Pause::Asks => Reached::Decision,
                Pause::Until | Pause::Halted => Reached::Time,
                Pause::Done => Reached::End,
            });
            (reached, watch)
        })
    }

    fn into_outcome(mut self) -> ClusterOutcome {
        self.machine.with_mut_return(|paused| {
            each!(paused, machine => {
                let (mut copy, answers) = (machine.clone(), machine.state.answers_so_far());
                answers.into_iter().for_each(|answers| copy.state.keep_answers(answers));
                copy.into_outcome()
            })
        })
    }

    // Queries.

    /// Returns the time, s.
    #[must_use]
    pub fn now(&self) -> f64 {
        each!(self.machine.get(), machine => machine.state.seconds())
    }

    /// Returns the number of jobs of this cluster that have arrived.
    #[must_use]
    pub fn arrived(&self) -> usize {
        each!(self.machine.get(), machine => machine.arrived)
    }

    /// Returns the number of jobs of this cluster that are done, refused or ended.
    #[must_use]
    pub fn gone(&self) -> usize {
        each!(self.machine.get(), machine => machine.state.gone())
    }

    /// Returns the number of jobs of this cluster.
    #[must_use]
    pub fn jobs(&self) -> usize {
        self.inputs.rows.len()
    }

    fn rows(&self, jobs: impl Iterator<Item = Job>) -> Vec<u32> {
        jobs.map(|job| self.inputs.rows[job.index()]).collect()
    }

    /// Returns the rows of the waiting jobs, fifo.
    #[must_use]
    pub fn waiting(&self) -> Vec<u32> {
        each!(self.machine.get(), machine => {
            let mut jobs: Vec<Job> = machine.waiting().collect();
            if !jobs.is_sorted() {
                jobs.sort_unstable();
            }
            self.rows(jobs.into_iter())
        })
    }

    /// Returns the rows of the running jobs, fifo.
    #[must_use]
    pub fn running(&self) -> Vec<u32> {
        each!(self.machine.get(), machine => {
            let live = machine.state.stays.iter().filter(|stay| stay.is_live());
            let mut jobs: Vec<Job> = live.map(|stay| stay.job).collect();
            jobs.sort_unstable();
            self.rows(jobs.into_iter())
        })
    }

    /// Returns the rows of the running jobs in the order in which their stays began.
    #[must_use]
    pub fn started(&self) -> Vec<u32> {
        each!(self.machine.get(), machine => {
            let live = machine.state.stays.iter().filter(|stay| stay.is_live());
            let mut stays: Vec<(u32, Job)> = live.map(|stay| (stay.order, stay.job)).collect();
            stays.sort_unstable();
            self.rows(stays.into_iter().map(|(_, job)| job))
        })
    }

    /// Returns when each row arrives, s: NaN while that depends on the end of another job.
    #[must_use]
    pub fn arrival_times(&self) -> Vec<f64> {
        let mut all = vec![f64::NAN; self.inputs.job_of.len()];
        each!(self.machine.get(), machine => {
            for (job, &row) in self.inputs.rows.iter().enumerate() {
                all[row as usize] = machine.state.arrived_at(Job::at(job));
            }
        });
        all
    }

    /// Returns the rows of the jobs that have arrived, completed, or lost their server since the last decision.
    #[must_use]
    pub fn news(&self) -> [Vec<u32>; 3] {
        each!(self.machine.get(), machine => {
            machine.news().map(|jobs| self.rows(jobs.into_iter()))
        })
    }

    /// Returns whether each server is up; those of other virtual clusters are assumed to be.
    #[must_use]
    pub fn up(&self) -> Vec<bool> {
        let mut all = vec![true; self.inputs.server_of.len()];
        each!(self.machine.get(), machine => {
            for (own, &server) in self.inputs.servers.iter().enumerate() {
                let own = Server::at(own);
                all[server as usize] = !machine.state.is_down(own) && !machine.state.is_draining(own);
            }
        });
        all
    }

    /// Returns the servers that drain and are not down, in order.
    #[must_use]
    pub fn draining(&self) -> Vec<u32> {
        let own = self.inputs.servers.iter().enumerate();
        each!(self.machine.get(), machine => {
            let drains = |server| machine.state.is_draining(server) && !machine.state.is_down(server);
            own.filter(|&(own, _)| drains(Server::at(own))).map(|(_, &server)| server).collect()
        })
    }

    /// Returns the idle GPUs by server; 0 for the servers of other virtual clusters.
    #[must_use]
    pub fn idle(&self) -> Vec<u32> {
        let mut all = vec![0; self.inputs.server_of.len()];
        let idle = each!(self.machine.get(), machine => machine.state.cluster.idle_by_server());
        for (&server, idle) in self.inputs.servers.iter().zip(idle) {
            all[server as usize] = idle;
        }
        all
    }

    /// Returns the idle thousandths of every GPU of the whole cluster, server by server; 0 in other virtual clusters.
    /// Where jobs may hold shares.
    #[must_use]
    pub fn room(&self) -> Vec<Vec<u32>> {
        let mut all = vec![Vec::new(); self.inputs.server_of.len()];
        each!(self.machine.get(), machine => {
            for (own, (&server, &gpus)) in self.inputs.servers.iter().zip(&self.inputs.server_gpus).enumerate() {
                let room = |gpu| machine.state.cluster.room(Server::at(own), gpu);
                all[server as usize] = (0..gpus).map(room).collect();
            }
        });
        all
    }

    /// Returns the GPUs of a running job: (server, index of the GPU there). Where jobs may hold shares.
    #[must_use]
    pub fn gpus_of(&self, row: u32) -> Vec<(u32, u32)> {
        let Some(job) = self.job(row) else { return Vec::new() };
        let gpus = each!(self.machine.get(), machine => {
            let slot = machine.state.stays.iter().position(|stay| stay.is_live() && stay.job == job).map(Slot::at);
            slot.map_or_else(Vec::new, |slot| {
                let gpu_type = machine.state.stays[slot.index()].gpu_type;
                machine.state.cluster.held(machine.state.holder_of(slot), gpu_type).0
            })
        });
        gpus.into_iter().map(|(server, gpu)| (self.inputs.servers[server.index()], gpu)).collect()
    }

    /// Returns the quotas of a job's owners: the book, GPUs, those that the owner's jobs hold now, and whether it may
    /// borrow.
    #[must_use]
    pub fn quotas(&self, row: u32) -> Vec<(usize, u64, u64, bool)> {
        let Some(job) = self.job(row) else { return Vec::new() };
        let told = |(book, quota, held): (usize, Quota, u64)| (book, quota.gpus, held, quota.borrow);
        each!(self.machine.get(), machine => machine.state.quotas_by_book(job).map(told).collect())
    }

    /// Returns the rows of the running jobs whose stays are over quota, fifo.
    #[must_use]
    pub fn over_quota(&self) -> Vec<u32> {
        each!(self.machine.get(), machine => self.running_that(machine, |slot| machine.state.is_over_quota(slot)))
    }

    /// Returns the rows of the running jobs that are protected from being stopped, fifo.
    #[must_use]
    pub fn protected(&self) -> Vec<u32> {
        each!(self.machine.get(), machine => self.running_that(machine, |slot| machine.state.may_not_stop(slot).is_some()))
    }

    /// Returns the rows of the running jobs whose slots satisfy a condition, fifo.
    fn running_that<P, S: Speed>(&self, machine: &Machine<'_, P, S>, is: impl Fn(Slot) -> bool) -> Vec<u32> {
        let live = machine.state.stays.iter().enumerate().filter(|(_, stay)| stay.is_live());
        let those = live.filter(|&(slot, _)| is(Slot::at(slot)));
        let mut jobs: Vec<Job> = those.map(|(_, stay)| stay.job).collect();
        jobs.sort_unstable();
        self.rows(jobs.into_iter())
    }

    /// Returns U of every GPU of this cluster, s, server by server.
    #[must_use]
    pub fn gpu_times(&self) -> Vec<f64> {
        each!(self.machine.get(), machine => {
            machine.state.cluster.gpu_times()
        })
    }

    /// Returns where a job runs: (server, GPUs).
    #[must_use]
    pub fn parts(&self, row: u32) -> Vec<(u32, u32)> {
        let Some(job) = self.job(row) else { return Vec::new() };
        let out = |parts: &[(Server, u32)]| {
            parts.iter().map(|&(server, count)| (self.inputs.servers[server.index()], count)).collect()
        };
        each!(self.machine.get(), machine => {
            let stay = machine.state.stays.iter().find(|stay| stay.is_live() && stay.job == job);
            stay.map_or_else(Vec::new, |stay| out(&stay.parts))
        })
    }

    /// Returns (row, parts) of all running jobs.
    #[must_use]
    pub fn places(&self) -> Vec<(u32, Vec<(u32, u32)>)> {
        let server_of = |&(server, count): &(Server, u32)| (self.inputs.servers[server.index()], count);
        each!(self.machine.get(), machine => {
            let live = machine.state.stays.iter().filter(|stay| stay.is_live());
            live.map(|stay| (self.inputs.rows[stay.job.index()], stay.parts.iter().map(server_of).collect())).collect()
        })
    }

    fn job(&self, row: u32) -> Option<Job> {
        self.inputs.job_of.get(row as usize).copied().filter(|&job| job != Job::NONE)
    }

    /// Returns the iterations (recorded seconds under `fixed`) per second of a job on so many GPUs of so many
    /// servers, alone. `None`: GPUs of the type on which it was recorded. 0 on a type that it may not use.
    #[must_use]
    pub fn rate(&self, row: u32, gpus: u32, gpu_type: Option<u32>, servers: u32) -> f64 {
        let Some(job) = self.job(row) else { return f64::NAN };
        let jobs = self.inputs.jobs.view();
        let gpu_type = gpu_type.map_or(GpuType::NONE, GpuType::new);
        if gpu_type != GpuType::NONE && jobs.kind_of(job).is_some_and(|kind| kind.speed_on(gpu_type).is_none()) {
            return 0.0;
        }
        match self.inputs.options.model {
            Model::Fixed => FixedSpeed.rate(&jobs, job, gpus, gpu_type, servers),
            Model::Table => {
                let rate =
                    |table: &Arc<_>| TableSpeed { table: Arc::clone(table) }.rate(&jobs, job, gpus, gpu_type, servers);
                jobs.rates.map_or(f64::NAN, |rates| rate(rates.table))
            }
            Model::Rar => RingSpeed { network: self.inputs.network.clone() }.rate(&jobs, job, gpus, gpu_type, servers),
        }
    }
}
