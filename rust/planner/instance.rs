//! Computes once what all schedules of a plan have in common, whatever theta and kappa are.
//!
//! Jobs are numbered by their position in the order in which they get GPUs. Invariant: no schedule gives a job fewer
//! slots than `least_slots`. For example, a job of 100 iterations of which at most 8 fit in a slot has 13
//! `least_slots`.

use crate::cluster::{FewestServers, Network, validate_servers};
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job};
use crate::options::{ClockKind, Options, Order, Oversize, Placement};
use crate::planner::PlanOptions;
use crate::replay::check_iteration;
use crate::speed::{Ring, Speed, whole_slots};
use crate::trace::{Jobs, OwnedJobs};

/// Horizons and makespans stay below this many slots, so that float64 holds every one exactly.
pub(super) const MOST_SLOTS: u64 = 1 << 52;

/// Which GPUs belong to which server.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// O_s.
    pub(super) sizes: Vec<u32>,
    /// GPUs of server s are `first[s]..first[s + 1]`.
    pub(super) first: Vec<u32>,
    /// The server of every GPU.
    pub(super) server_of: Vec<u32>,
}

impl Layout {
    fn new(sizes: &[u32]) -> Self {
        let mut first = vec![0];
        let mut server_of = Vec::new();
        for (s, &size) in sizes.iter().enumerate() {
            server_of.extend(std::iter::repeat_n(s as u32, size as usize));
            first.push(server_of.len() as u32);
        }
        Self { sizes: sizes.to_vec(), first, server_of }
    }

    pub(super) fn gpus(&self, server: usize) -> std::ops::Range<usize> {
        self.first[server] as usize..self.first[server + 1] as usize
    }
}

/// Jobs in the order in which they get GPUs, and the cluster.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    pub(super) options: &'a PlanOptions,
    /// The machine's options.
    pub(super) run: Options,
    pub(super) network: Network,
    pub(super) layout: Layout,
    pub(super) few: FewestServers,
    /// The row of the job at each position of the order; jobs dropped as oversize are missing.
    pub(super) rows: Vec<u32>,
    /// The jobs, all submitted at time 0, by position, as are all following fields.
    pub(super) jobs: OwnedJobs,
    /// rho_j / u, s.
    pub(super) charge: Vec<f64>,
    /// Slots that the job takes at least, wherever it runs.
    pub(super) least_slots: Vec<u64>,
    /// Slots that the jobs from this position on take at least on the whole cluster; one entry more.
    pub(super) rest: Vec<u64>,
    /// GPUs of all earlier jobs together; one entry more.
    pub(super) offset: Vec<usize>,
    /// max(max rho_j, sum G_j rho_j / N), s.
    pub(super) work_bound: f64,
}

impl<'a> Instance<'a> {
    /// Creates an instance. `own`: the rows of the jobs to plan, ascending.
    pub(super) fn new<S: Speed>(
        jobs: &Jobs<'_>,
        own: &[u32],
        server_gpus: &[u32],
        network: Network,
        options: &'a PlanOptions,
        speed: &S,
    ) -> Result<Self> {
        options.validate()?;
        network.validate()?;
        validate_servers(server_gpus)?;
        let rar = options.rar();
        let layout = Layout::new(server_gpus);
        let total = layout.server_of.len() as u64;
        let few = FewestServers::new(server_gpus);
        let run = run_options(options);
        let mut rows = Vec::with_capacity(own.len());
        let (mut longest, mut area) = (0.0, 0.0);
        for row in own.iter().map(|&row| row as usize) {
            let num_gpus = jobs.num_gpus[row];
            if u64::from(num_gpus) > total {
                if options.oversize == Oversize::Error {
                    return Err(Error::Oversize { row, num_gpus, available: total });
                }
                continue;
            }
            if rar {
                check_iteration(&Ring::of(jobs, row), row, few.of(num_gpus), &network, &run)?;
            }
            let rho = speed.estimate(jobs, Job::at(row));
            longest = f64::max(longest, rho);
            area += f64::from(num_gpus) * rho;
            rows.push(row as u32);
        }
        let work_bound = f64::max(longest, area / total as f64);
        if options.order == Order::Smallest {
            rows.sort_by_key(|&r| jobs.num_gpus[r as usize]); // stable: equal sizes stay in row order
        }
        let charge = rows.iter().map(|&r| speed.estimate(jobs, Job::new(r)) / options.u).collect();
        let jobs = OwnedJobs { submit: vec![0.0; rows.len()], ..jobs.gather(&rows, options.model) };
        let mut instance = Self {
            options,
            run,
            network,
            layout,
            few,
            rows,
            jobs,
            charge,
            least_slots: Vec::new(),
            rest: Vec::new(),
            offset: vec![0],
            work_bound,
        };
        instance.bound(speed);
        if 2.0 * work_bound / options.slot >= MOST_SLOTS as f64 || instance.rest[0] >= MOST_SLOTS {
            return Err(Error::Option {
                name: "slot",
                value: options.slot.to_string(),
                expected: format!("a slot of which the jobs need fewer than {MOST_SLOTS}"),
            });
        }
        Ok(instance)
    }

    /// Computes lower bounds: tau grows with the servers used and with contention, so its least value is on one
    /// server, or, where links between servers are faster, on the fewest servers that a spanning gang can use.
    fn bound<S: Speed>(&mut self, speed: &S) {
        let servers = self.layout.sizes.len() as u32;
        let gpus = self.layout.server_of.len() as u128;
        self.least_slots = (0..self.rows.len())
            .map(|position| {
                let num_gpus = self.jobs.num_gpus[position];
                let fewest = self.few.of(num_gpus).unwrap_or(1);
                let apart =
                    (servers > 1 && num_gpus > 1).then(|| self.slots(speed, position, fewest.max(2), 1)).flatten();
                let together = if fewest == 1 { self.slots(speed, position, 1, 0) } else { None };
                apart.into_iter().chain(together).min().unwrap_or(1)
            })
            .collect();
        let (mut longest, mut area) = (0, 0u128);
        self.rest = vec![0; self.rows.len() + 1];
        for position in (0..self.rows.len()).rev() {
            longest = longest.max(self.least_slots[position]);
            area += u128::from(self.jobs.num_gpus[position]) * u128::from(self.least_slots[position]);
            let spread = u64::try_from(area.div_ceil(gpus)).unwrap_or(u64::MAX);
            self.rest[position] = longest.max(spread);
        }
        for &gang in &self.jobs.num_gpus {
            self.offset.push(self.offset[self.offset.len() - 1] + gang as usize);
        }
    }

    /// Returns where the GPUs of a job are among those of all jobs.
    pub(super) fn own(&self, position: usize) -> std::ops::Range<usize> {
        self.offset[position]..self.offset[position + 1]
    }

    /// Returns the slots that the job takes if neither changes; `None` if it never ends.
    pub(super) fn slots<S: Speed>(&self, speed: &S, position: usize, servers: u32, contention: u32) -> Option<u64> {
        let (jobs, slot) = (self.jobs.view(), self.options.slot);
        let job = Job::at(position);
        let pace = speed.pace(&jobs, job, jobs.num_gpus[position], GpuType::NONE);
        let per_slot = speed.per_slot(&pace, slot, speed.unit(&pace, servers, contention));
        let left = speed.work(&jobs, job, Some(slot));
        (per_slot > 0.0).then(|| whole_slots(left, per_slot, left, left) as u64)
    }
}

/// Returns the machine's options.
pub(super) fn run_options(options: &PlanOptions) -> Options {
    Options {
        clock: ClockKind::Slot,
        slot: options.slot,
        model: options.model,
        // The planner places jobs itself; first-fit has the least to maintain.
        placement: Placement::FirstFit,
        record_allocations: false,
        ..Options::default()
    }
}
