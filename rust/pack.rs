//! Packs jobs one after the other: a job that does not fit is turned away, and none ever leaves.
//!
//! This experiment compares placements of shares (Weng et al., "Beware of Fragmentation", ATC 2023). For example, on
//! two GPUs shares of 600, 600 and 500 thousandths leave no room for the third.

mod pods;

use crate::cluster::{Claim, Grant, Needs};
use crate::error::{Error, Result};
use crate::ids::Job;
use crate::machine::wants;
use crate::options::{Options, Oversize};
use crate::placement::{Placer, Pools, WITH_SHARES};
use crate::replay::{ClusterSpec, Extras, prepare};
use crate::trace::Jobs;

/// CPU in thousandths of a core, and memory in MiB. Packing uses them, the replay does not.
#[derive(Clone, Copy, Debug)]
pub struct CpuMemory<'a> {
    /// The request of each row. Rows beyond the job table request no GPU.
    pub asked: [&'a [u64]; 2],
    /// The capacity of each server.
    pub has: [&'a [u64]; 2],
}

/// The result of packing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    /// Whether each request was placed, in order.
    pub placed: Vec<bool>,
    /// Rows that no server of the empty cluster holds, only with `cpu_memory`. They count as requests that do not fit.
    pub too_large: Vec<u32>,
}

/// Packs rows in the order given. A row may appear more than once.
///
/// # Errors
/// As [`replay`](crate::replay::replay), except for a job that is too large with `cpu_memory`; `Option` for a placement
/// without shares.
pub fn pack(
    jobs: &Jobs<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    order: &[u32],
    cpu_memory: Option<&CpuMemory<'_>>,
) -> Result<Packed> {
    if !WITH_SHARES.contains(&options.placement) {
        let names: Vec<_> = WITH_SHARES.iter().map(|placement| placement.name()).collect();
        let (value, expected) = (options.placement.name().to_owned(), format!("one of {}", names.join(", ")));
        return Err(Error::Option { name: "placement", value, expected });
    }
    let rows = cpu_memory.map_or(jobs.len(), |cpu_memory| cpu_memory.asked[0].len().max(jobs.len()));
    if let Some(&row) = order.iter().find(|&&row| row as usize >= rows) {
        let (value, expected) = (row.to_string(), "rows of the table".to_owned());
        return Err(Error::Option { name: "order", value, expected });
    }
    let oversize = if cpu_memory.is_some() { Oversize::Drop } else { options.oversize };
    let ready = prepare(jobs, &Extras::default(), None, spec, &Options { oversize, ..options.clone() })?;
    if let Some(cpu_memory) = cpu_memory {
        let servers = spec.server_gpus.len();
        let lengths =
            cpu_memory.asked.map(|asked| (asked, rows)).into_iter().chain(cpu_memory.has.map(|has| (has, servers)));
        for (column, expected) in lengths {
            if column.len() != expected {
                return Err(Error::ColumnLength { column: "cpu_milli, memory_mib", length: column.len(), expected });
            }
        }
        return Ok(pods::pack(jobs, spec, options, order, cpu_memory));
    }
    let jobs = ready.typed(jobs);
    let mut placer = Placer::new(options);
    let needs = Needs { with_idle_count: jobs.has_pods(), ..placer.needs() };
    let mut pools = Pools::new(spec.server_gpus, spec.server_types.filter(|_| jobs.types.is_some()), needs);
    if jobs.shares.is_some() {
        pools.share(needs);
    }
    if needs.loss {
        pools.weigh(|gpu_type| wants(&jobs, gpu_type));
    }
    let mut grant = Grant::default();
    let mut asks = |(turn, &row): (usize, &u32)| {
        let (num_gpus, share) = (jobs.num_gpus[row as usize], jobs.share_of(row as usize));
        let claim = Claim { job: Job::at(turn), num_gpus, time: 0.0, share, form: jobs.form(row as usize) };
        jobs.tried(Job::new(row)).iter().any(|&(of, _)| pools.place_by(&mut placer, of, &claim, &mut grant))
    };
    Ok(Packed { placed: order.iter().enumerate().map(&mut asks).collect(), too_large: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Network;
    use crate::options::{Model, Order, Placement};
    use crate::trace::OwnedJobs;

    #[test]
    fn who_finds_no_room_is_turned_away() {
        let shares = vec![600, 400, 0];
        let table = OwnedJobs {
            submit: vec![0.0; 3],
            num_gpus: vec![1; 3],
            duration: vec![1.0; 3],
            shares: Some(shares),
            ..OwnedJobs::default()
        };
        let spec = ClusterSpec {
            server_gpus: &[2],
            server_vc: None,
            server_types: None,
            type_prices: None,
            network: Network::default(),
            tiers: &[],
        };
        let packed = |placement, order: &[u32]| {
            let options = Options { placement, order: Order::Fifo, model: Model::Fixed, ..Options::default() };
            pack(&table.view(), &spec, &options, order, None).map(|packed| packed.placed)
        };
        assert_eq!(packed(Placement::BestFit, &[0, 1, 2, 1]), Ok(vec![true, true, true, false]));
        assert_eq!(packed(Placement::WorstFit, &[0, 1, 2, 1]), Ok(vec![true, true, false, true]));
        assert!(packed(Placement::SjfBco, &[0]).is_err());
        assert!(packed(Placement::Fgd, &[3]).is_err());
    }

    #[test]
    fn a_server_without_cpu_has_no_room() {
        let table =
            OwnedJobs { submit: vec![0.0; 2], num_gpus: vec![1; 2], duration: vec![1.0; 2], ..Default::default() };
        let spec = ClusterSpec {
            server_gpus: &[2, 2],
            server_vc: None,
            server_types: None,
            type_prices: None,
            network: Network::default(),
            tiers: &[],
        };
        let packed = |cpu: &[u64], order: &[u32]| {
            let cpu_memory = CpuMemory { asked: [cpu, &[0; 3]], has: [&[4, 8], &[1, 1]] };
            let options = Options {
                placement: Placement::BestFit,
                order: Order::Fifo,
                model: Model::Fixed,
                ..Options::default()
            };
            pack(&table.view(), &spec, &options, order, Some(&cpu_memory))
        };
        // The third row requests no GPU. It takes the CPU of the first server, and later of the second.
        let placed = vec![true, true, true, false, false];
        assert_eq!(packed(&[3, 4, 4], &[2, 0, 2, 1, 0]), Ok(Packed { placed, too_large: vec![] }));
        let too_large = Packed { placed: vec![false, true], too_large: vec![1] };
        assert_eq!(packed(&[3, 9, 4], &[1, 0]), Ok(too_large));
        assert!(matches!(packed(&[3, 9], &[0]), Err(Error::ColumnLength { .. })));
    }
}
