//! Packing where servers have CPU and memory too: each job is a pod, and one server has all that it asks for.
//!
//! Rows behind the table ask for no GPU. For example, a server with 2 idle GPUs and no CPU left has no room for a job of
//! one GPU that asks for CPU.
//!
//! Cost: O(GPUs of the cluster) a job. Packing asks some thousand times, so an index would save nothing that one notices.

use super::Beside;
use crate::cluster::Loss;
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job, WHOLE};
use crate::machine::wants;
use crate::options::{Options, Placement};
use crate::replay::ClusterSpec;
use crate::rng::SplitMix64;
use crate::trace::Jobs;

/// What is left of a server.
#[derive(Clone, Debug)]
struct Server {
    gpu_type: GpuType,
    /// CPU and memory.
    beside: [u64; 2],
    /// Thousandths of each GPU.
    rooms: Vec<u32>,
}

/// What a job asks for.
#[derive(Clone, Copy, Debug)]
struct Ask {
    num_gpus: u32,
    /// Thousandths of each of them.
    units: u32,
    beside: [u64; 2],
}

impl Server {
    fn holds(&self, ask: &Ask) -> bool {
        ask.beside[0] <= self.beside[0]
            && ask.beside[1] <= self.beside[1]
            && self.rooms.iter().filter(|&&room| room >= ask.units).count() >= ask.num_gpus as usize
    }

    /// The GPUs with room for a job.
    fn able(&self, units: u32) -> impl Iterator<Item = usize> + '_ {
        (0..self.rooms.len()).filter(move |&gpu| self.rooms[gpu] >= units)
    }
}

/// As [`pack`](super::pack).
pub(super) fn pack(
    jobs: &Jobs<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    order: &[u32],
    beside: &Beside<'_>,
) -> Result<Vec<bool>> {
    let types = spec.server_types.filter(|_| jobs.types.is_some());
    let mut pods = Pods::new(jobs, spec.server_gpus, types, options, beside);
    let ask = |row: usize| {
        let table = row < jobs.len();
        let share = if table { jobs.share_of(row) } else { 0 };
        Ask {
            num_gpus: if table { jobs.num_gpus[row] } else { 0 },
            units: if share == 0 { WHOLE } else { share },
            beside: beside.asked.map(|asked| asked[row]),
        }
    };
    // Any type will do for a row behind the table.
    let tried = |row: usize| if row < jobs.len() { jobs.tried(Job::at(row)) } else { &[(GpuType::NONE, 1.0)] };
    for row in 0..jobs.len() {
        let ask = ask(row);
        if !tried(row).iter().any(|&(of, _)| pods.with_room(of, &ask).next().is_some()) {
            let value = format!("{} with {} of CPU and {} of memory", ask.num_gpus, ask.beside[0], ask.beside[1]);
            let expected = "what one server of the cluster has: GPUs, cpu_milli and memory_mib";
            return Err(Error::Value { row, column: "num_gpus", value, expected });
        }
    }
    let mut asks = |&row: &u32| {
        let ask = ask(row as usize);
        tried(row as usize).iter().any(|&(of, _)| pods.place(of, &ask))
    };
    Ok(order.iter().map(&mut asks).collect())
}

/// The servers, and what chooses among them.
struct Pods {
    servers: Vec<Server>,
    placement: Placement,
    rng: SplitMix64,
    /// Of each GPU type (`fgd`).
    loss: Vec<Loss>,
    /// The most CPU and the most thousandths of GPUs that a server has.
    most: (u128, u128),
}

impl Pods {
    fn new(jobs: &Jobs<'_>, sizes: &[u32], types: Option<&[GpuType]>, options: &Options, beside: &Beside<'_>) -> Self {
        let server = |(server, &gpus): (usize, &u32)| Server {
            gpu_type: types.map_or(GpuType::NONE, |types| types[server]),
            beside: beside.has.map(|has| has[server]),
            rooms: vec![WHOLE; gpus as usize],
        };
        let largest = sizes.iter().copied().max().unwrap_or(0);
        let count = types.map_or(1, |types| types.iter().map(|of| of.index() + 1).max().unwrap_or(0));
        let of = |of| if types.is_some() { GpuType::at(of) } else { GpuType::NONE };
        let weighed = if options.placement == Placement::Fgd { count } else { 0 };
        Self {
            servers: sizes.iter().enumerate().map(server).collect(),
            placement: options.placement,
            rng: SplitMix64::new(options.seed),
            loss: (0..weighed).map(|number| Loss::new(&wants(jobs, of(number)), largest)).collect(),
            most: (
                u128::from(beside.has[0].iter().copied().max().unwrap_or(0).max(1)),
                u128::from(largest) * u128::from(WHOLE),
            ),
        }
    }

    /// The servers of a type, or of any, with room for a job.
    fn with_room<'a>(&'a self, of: GpuType, ask: &'a Ask) -> impl Iterator<Item = usize> + 'a {
        let fits = move |server: &Server| (of == GpuType::NONE || of == server.gpu_type) && server.holds(ask);
        self.servers.iter().enumerate().filter(move |(_, server)| fits(server)).map(|(number, _)| number)
    }

    /// What is left of a server: CPU and GPUs, each as a part of the most that a server has.
    fn left(&self, server: usize) -> u128 {
        let Server { beside, rooms, .. } = &self.servers[server];
        let gpus: u32 = rooms.iter().sum();
        u128::from(gpus) * self.most.0 + u128::from(beside[0]) * self.most.1
    }

    /// By how much fragmentation rises at least if a job takes GPUs of a server, and of a share the GPU.
    fn least_rise(&self, number: usize, ask: &Ask) -> (i64, usize) {
        let server = &self.servers[number];
        let loss = &self.loss[if server.gpu_type == GpuType::NONE { 0 } else { server.gpu_type.index() }];
        let empty = server.able(WHOLE).count() as u32;
        if ask.units == WHOLE {
            return (loss.of_gpus(empty, ask.num_gpus), 0);
        }
        let rise = |gpu| match server.rooms[gpu] {
            WHOLE => loss.of_opening(empty, ask.units),
            room => loss.of_share(room, ask.units),
        };
        server.able(ask.units).map(|gpu| (rise(gpu), gpu)).min().unwrap_or_default()
    }

    /// Takes what a job asks for of one server, if one has it. Ties go to the lower server, then the lower GPU.
    fn place(&mut self, of: GpuType, ask: &Ask) -> bool {
        let fitting: Vec<usize> = self.with_room(of, ask).collect();
        let mut fits = fitting.iter().copied();
        let chosen = match self.placement {
            Placement::FirstFit => fits.next(),
            Placement::WorstFit => fits.min_by_key(|&server| std::cmp::Reverse(self.left(server))),
            Placement::Fgd if ask.num_gpus > 0 => fits.min_by_key(|&server| self.least_rise(server, ask).0),
            Placement::Random if fitting.is_empty() => None,
            Placement::Random => fits.nth(self.rng.below(fitting.len() as u64) as usize),
            _ => fits.min_by_key(|&server| self.left(server)),
        };
        let Some(number) = chosen else { return false };
        let mut gpus: Vec<usize> = self.servers[number].able(ask.units).collect();
        let rooms = &self.servers[number].rooms;
        match self.placement {
            Placement::FirstFit => {}
            Placement::WorstFit => gpus.sort_by_key(|&gpu| std::cmp::Reverse(rooms[gpu])),
            Placement::Fgd if ask.units < WHOLE => gpus = vec![self.least_rise(number, ask).1],
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
            server.rooms[gpu] -= ask.units;
        }
        server.beside[0] -= ask.beside[0];
        server.beside[1] -= ask.beside[1];
        true
    }
}
