//! Packs jobs where servers have CPU and memory too: each job is a pod, and one server has all that it asks for.
//!
//! Rows beyond the table ask for no GPU. For example, a server with 2 idle GPUs and no CPU left has no room for a job
//! of one GPU that asks for CPU. All servers of the GPU types that a job may use are alike to it, whatever their
//! speed.
//!
//! Cost: O(GPUs of the cluster) per job. Packing tries some thousand jobs, so an index would save nothing noticeable.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::{CpuMemory, Packed};
use crate::cluster::{Loss, Want};
use crate::ids::{GpuType, Job, MILLI_GPU};
use crate::options::{Options, Placement};
use crate::replay::ClusterSpec;
use crate::rng::SplitMix64;
use crate::trace::Jobs;

/// What is left of a server.
#[derive(Clone, Debug)]
struct Server {
    gpu_type: GpuType,
    /// CPU and memory.
    cpu_memory: [u64; 2],
    /// Thousandths of each GPU.
    rooms: Vec<u32>,
}

/// What a job asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    num_gpus: u32,
    /// Thousandths of each GPU.
    milli_gpus: u32,
    cpu_memory: [u64; 2],
}

impl Server {
    fn holds(&self, ask: &Ask) -> bool {
        ask.cpu_memory[0] <= self.cpu_memory[0]
            && ask.cpu_memory[1] <= self.cpu_memory[1]
            && self.rooms.iter().filter(|&&room| room >= ask.milli_gpus).count() >= ask.num_gpus as usize
    }

    /// Returns the GPUs with room for a job.
    fn able(&self, milli_gpus: u32) -> impl Iterator<Item = usize> + '_ {
        (0..self.rooms.len()).filter(move |&gpu| self.rooms[gpu] >= milli_gpus)
    }
}

/// Does the same as [`pack`](super::pack).
pub(super) fn pack(
    jobs: &Jobs<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    order: &[u32],
    cpu_memory: &CpuMemory<'_>,
) -> Packed {
    let types = spec.server_types.filter(|_| jobs.types.is_some());
    let mut pods = Pods::new(jobs, spec.server_gpus, types, options, cpu_memory);
    let ask = |row: usize| {
        let table = row < jobs.len();
        let share = if table { jobs.share_of(row) } else { 0 };
        Ask {
            num_gpus: if table { jobs.num_gpus[row] } else { 0 },
            milli_gpus: if share == 0 { MILLI_GPU } else { share },
            cpu_memory: cpu_memory.asked.map(|asked| asked[row]),
        }
    };
    // Any type will do for a row beyond the table.
    let allowed = |row: usize| if row < jobs.len() { jobs.tried(Job::at(row)) } else { &[(GpuType::NONE, 1.0)] };
    let holds = |row: usize| pods.with_room(allowed(row), &ask(row)).next().is_some();
    let too_large = (0..jobs.len()).filter(|&row| !holds(row)).map(|row| row as u32).collect();
    let placed = order.iter().map(|&row| pods.place(allowed(row as usize), &ask(row as usize))).collect();
    Packed { placed, too_large }
}

/// Idle GPUs that the demands of the table cannot use, by a server's type and the CPU that is left there: a demand
/// for more CPU cannot run there.
struct Losses {
    /// What jobs ask for, including CPU, and whether they may use each type.
    demands: Vec<(Want, u64, Vec<bool>)>,
    /// The CPU that some job asks for, ascending.
    levels: Vec<u64>,
    largest: u32,
    /// For each type, by the number of levels that are met. Computed on first use: few of them occur.
    tables: Vec<Vec<OnceCell<Loss>>>,
}

impl Losses {
    /// Counts the demands. count: of the types.
    fn new(jobs: &Jobs<'_>, cpu: &[u64], count: usize, largest: u32) -> Self {
        let mut counted: BTreeMap<_, (usize, u64)> = BTreeMap::new();
        for (row, &cpu) in cpu.iter().enumerate().take(jobs.len()) {
            let kind = jobs.types.map_or(0, |types| types.of[row]);
            let asked = (jobs.num_gpus[row], jobs.share_of(row), kind, cpu);
            counted.entry(asked).or_insert((row, 0)).1 += 1;
        }
        let mut levels: Vec<u64> = counted.keys().map(|&(_, _, _, cpu)| cpu).collect();
        levels.sort_unstable();
        levels.dedup();
        let demand = |((num_gpus, share, _, cpu), (row, jobs_of))| {
            let allowed = jobs.tried(Job::at(row));
            let want = Want { num_gpus, share, usable: true, jobs: jobs_of };
            (want, cpu, (0..count).map(|of| may_use(allowed, GpuType::at(of))).collect())
        };
        let tables = vec![vec![OnceCell::new(); levels.len() + 1]; count];
        Self { demands: counted.into_iter().map(demand).collect(), levels, largest, tables }
    }

    fn at(&self, of: usize, cpu: u64) -> &Loss {
        self.tables[of][self.levels.partition_point(|&level| level <= cpu)].get_or_init(|| {
            let seen = |(want, asked, allowed): &(Want, u64, Vec<bool>)| Want {
                usable: allowed[of] && *asked <= cpu,
                ..*want
            };
            Loss::new(&self.demands.iter().map(seen).collect::<Vec<_>>(), self.largest)
        })
    }
}

/// Returns whether a type is among those that a job may use.
fn may_use(allowed: &[(GpuType, f64)], gpu_type: GpuType) -> bool {
    allowed.iter().any(|&(of, _)| of == GpuType::NONE || of == gpu_type)
}

/// The servers, and what chooses among them.
struct Pods {
    servers: Vec<Server>,
    placement: Placement,
    rng: SplitMix64,
    losses: Losses,
    /// The most CPU and the most thousandths of GPUs that a server has.
    most: (u128, u128),
}

impl Pods {
    fn new(
        jobs: &Jobs<'_>,
        sizes: &[u32],
        types: Option<&[GpuType]>,
        options: &Options,
        cpu_memory: &CpuMemory<'_>,
    ) -> Self {
        let server = |(server, &gpus): (usize, &u32)| Server {
            gpu_type: types.map_or(GpuType::NONE, |types| types[server]),
            cpu_memory: cpu_memory.has.map(|has| has[server]),
            rooms: vec![MILLI_GPU; gpus as usize],
        };
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let count = types.map_or(1, |types| types.iter().map(|of| of.index() + 1).max().unwrap_or(0));
        Self {
            servers: sizes.iter().enumerate().map(server).collect(),
            placement: options.placement,
            rng: SplitMix64::new(options.seed),
            losses: Losses::new(jobs, cpu_memory.asked[0], count, largest),
            most: (
                u128::from(cpu_memory.has[0].iter().copied().max().unwrap_or(0).max(1)),
                u128::from(largest) * u128::from(MILLI_GPU),
            ),
        }
    }

    /// Returns the servers with room for a job, of all types that it may use.
    fn with_room<'a>(&'a self, allowed: &'a [(GpuType, f64)], ask: &'a Ask) -> impl Iterator<Item = usize> + 'a {
        let fits = move |server: &Server| may_use(allowed, server.gpu_type) && server.holds(ask);
        self.servers.iter().enumerate().filter(move |(_, server)| fits(server)).map(|(number, _)| number)
    }

    /// Returns what is left of a server: CPU and GPUs, each as a part of the most that a server has.
    fn left(&self, server: usize) -> u128 {
        let Server { cpu_memory, rooms, .. } = &self.servers[server];
        let gpus: u32 = rooms.iter().sum();
        u128::from(gpus) * self.most.0 + u128::from(cpu_memory[0]) * self.most.1
    }

    /// Returns the least rise of fragmentation if a job takes what it asks for on a server, and for a share the GPU.
    fn least_rise(&self, number: usize, ask: &Ask) -> (i64, usize) {
        let Server { gpu_type, cpu_memory, rooms } = &self.servers[number];
        let of = if *gpu_type == GpuType::NONE { 0 } else { gpu_type.index() };
        let (before, loss) = (self.losses.at(of, cpu_memory[0]), self.losses.at(of, cpu_memory[0] - ask.cpu_memory[0]));
        let lacking_cpu = if std::ptr::eq(before, loss) { 0 } else { loss.of(rooms) - before.of(rooms) };
        let empty = self.servers[number].able(MILLI_GPU).count() as u32;
        if ask.milli_gpus == MILLI_GPU {
            return (lacking_cpu + loss.of_gpus(empty, ask.num_gpus), 0);
        }
        let rise = |gpu| match rooms[gpu] {
            MILLI_GPU => loss.of_opening(empty, ask.milli_gpus),
            room => loss.of_share(room, ask.milli_gpus),
        };
        let (least, gpu) =
            self.servers[number].able(ask.milli_gpus).map(|gpu| (rise(gpu), gpu)).min().unwrap_or_default();
        (lacking_cpu + least, gpu)
    }

    /// Takes what a job asks for of one server, if one has it. Ties go to the lower server, then the lower GPU.
    fn place(&mut self, allowed: &[(GpuType, f64)], ask: &Ask) -> bool {
        let fitting: Vec<usize> = self.with_room(allowed, ask).collect();
        let mut fits = fitting.iter().copied();
        let chosen = match self.placement {
            Placement::FirstFit => fits.next(),
            Placement::WorstFit => fits.min_by_key(|&server| std::cmp::Reverse(self.left(server))),
            Placement::Fgd => fits.min_by_key(|&server| self.least_rise(server, ask).0),
            Placement::Random if fitting.is_empty() => None,
            Placement::Random => fits.nth(self.rng.below(fitting.len() as u64) as usize),
            _ => fits.min_by_key(|&server| self.left(server)),
        };
        let Some(number) = chosen else { return false };
        let mut gpus: Vec<usize> = self.servers[number].able(ask.milli_gpus).collect();
        let rooms = &self.servers[number].rooms;
        match self.placement {
            Placement::FirstFit => {}
            Placement::WorstFit => gpus.sort_by_key(|&gpu| std::cmp::Reverse(rooms[gpu])),
            Placement::Fgd if ask.milli_gpus < MILLI_GPU => gpus = vec![self.least_rise(number, ask).1],
            Placement::Random => {
                for place in 0..ask.num_gpus as usize {
                    let other = place + self.rng.below((gpus.len() - place) as u64) as usize;
                    gpus.swap(place, other);
                }
            }
            _ => gpus.sort_by_key(|&gpu| rooms[gpu]),
        }
        let server = &mut self.servers[number];
        for &gpu in &gpus[..ask.num_gpus as usize] {
            server.rooms[gpu] -= ask.milli_gpus;
        }
        server.cpu_memory[0] -= ask.cpu_memory[0];
        server.cpu_memory[1] -= ask.cpu_memory[1];
        true
    }
}
