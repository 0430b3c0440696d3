//! Determines which GPU types a job tries, and in what order (docs/heterogeneous.md).
//!
//! Invariant: a type that a job tries could hold it if all of its GPUs were idle. Kinds that try the same types in
//! the same order share their `order`. For example, a gang of 16 that may use V100s and T4s tries only V100s where
//! the cluster has 8 T4s.

use super::ClusterSpec;
use super::checks::{too_many_pods, unplaceable};
use super::parts::Part;
use crate::cluster::Network;
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job};
use crate::options::{ClockKind, Is, Model, Options, TypeOrder};
use crate::placement::{Gang, Placer};
use crate::speed::Ring;
use crate::trace::{Jobs, Kind, OwnedTypes, Types};
use std::collections::{BTreeSet, HashMap};

/// Assigns jobs the types that they try. Jobs that try the same types at the same speeds are of one kind.
pub(super) struct Trials<'a> {
    jobs: &'a Jobs<'a>,
    types: Types<'a>,
    spec: &'a ClusterSpec<'a>,
    options: &'a Options,
    placer: &'a Placer,
    made: OwnedTypes,
    /// The kinds made from each kind of the table, one for each order.
    of_kind: Vec<Vec<u32>>,
    /// The first kind made that tries these types in this order.
    orders: HashMap<Vec<GpuType>, u32>,
    /// Buffer for ordering: (rank, type, speed).
    ranked: Vec<(f64, GpuType, f64)>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(
        jobs: &'a Jobs<'a>,
        types: Types<'a>,
        spec: &'a ClusterSpec<'a>,
        options: &'a Options,
        placer: &'a Placer,
    ) -> Self {
        Self {
            jobs,
            types,
            spec,
            options,
            placer,
            made: OwnedTypes { of: vec![0; jobs.len()], kinds: Vec::new() },
            of_kind: vec![Vec::new(); types.kinds.len()],
            orders: HashMap::new(),
            ranked: Vec::new(),
        }
    }

    pub(super) fn finish(self) -> OwnedTypes {
        self.made
    }

    /// Orders the types of a row's job. Returns `None` if it tries some; otherwise why it can run on none.
    ///
    /// `log`: the types on which a log places jobs, by (row, type). `placed`: whether the log determines where this
    /// one runs.
    pub(super) fn add(
        &mut self,
        row: usize,
        part: &Part,
        log: &BTreeSet<(u32, GpuType)>,
        placed: bool,
    ) -> Result<Option<Error>> {
        let kind = &self.types.kinds[self.types.of[row] as usize];
        let num_gpus = self.jobs.num_gpus[row];
        let gang = Gang { num_gpus, form: self.jobs.form(row) };
        let mut ranked = std::mem::take(&mut self.ranked);
        ranked.clear();
        let (mut available, mut most_in_pods, mut placeable, mut slow, mut no_rate) = (0, 0, false, None, false);
        let (measured, mut last) = (self.options.model == Model::Table, None);
        let placer = self.placer;
        let fits = |gpu_type: GpuType| {
            let empty = part.pools.get(gpu_type.index());
            empty.is_some_and(|pool| placer.fits_empty(gang, &pool.shape)) || log.contains(&(row as u32, gpu_type))
        };
        // A log may come from another placement, for which every type has room.
        let anywhere = placed && !kind.allowed.iter().any(|&(gpu_type, _)| fits(gpu_type));
        for &(gpu_type, speed) in &kind.allowed {
            let Some(pool) = part.pools.get(gpu_type.index()) else { continue };
            available = available.max(pool.total);
            let in_pods = pool.shape.in_pods(gang.form.pod);
            most_in_pods = most_in_pods.max(in_pods);
            if u64::from(num_gpus) > in_pods || !(anywhere || fits(gpu_type)) {
                placeable |= u64::from(num_gpus) > in_pods;
                continue;
            }
            let servers = pool.few.of(num_gpus).unwrap_or(1);
            // Types that are as fast have the same rate, except where each was measured.
            let rate = match last {
                Some((as_fast, on, rate)) if as_fast == speed && on == servers && !measured => rate,
                _ => self.rate(row, gpu_type, &part.network, (servers, pool.total), &mut slow)?,
            };
            last = Some((speed, servers, rate));
            let Some(rate) = rate else {
                no_rate = true;
                continue;
            };
            let rank = match self.options.type_order {
                TypeOrder::Listed => 0.0,
                TypeOrder::Fastest => -rate,
                TypeOrder::Cheapest => self.spec.type_prices.map_or(f64::NAN, |of| of[gpu_type.index()]) / rate,
            };
            ranked.push((rank, gpu_type, speed));
        }
        if self.options.type_order != TypeOrder::Listed {
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        if self.options.is(Is::AsRecorded) {
            ranked.sort_by_key(|choice| choice.1 != kind.recorded_on);
        }
        let unplaceable = || Some(unplaceable(row, gang, placer, self.options));
        let refusal = if !ranked.is_empty() {
            self.made.of[row] = self.intern(self.types.of[row] as usize, &ranked);
            None
        } else if let Some(tau) = slow {
            return Err(Error::SlotTooShort { row, tau, slot: self.options.slot });
        } else if no_rate {
            Some(Error::NoRate { row })
        } else if u64::from(num_gpus) > available || placeable && gang.form.pod == 1 {
            Some(Error::Oversize { row, num_gpus, available })
        } else if placeable {
            too_many_pods(row, gang, most_in_pods).or_else(unplaceable)
        } else {
            unplaceable()
        };
        self.ranked = ranked;
        Ok(refusal)
    }

    /// Returns the rate of a job on its GPUs, on the fewest servers of a type and alone. `None` if a slot yields
    /// nothing; then `slow` has the least time of an iteration, s. `on`: those servers, and all GPUs of the type.
    fn rate(
        &self,
        row: usize,
        gpu_type: GpuType,
        network: &Network,
        on: (u32, u64),
        slow: &mut Option<f64>,
    ) -> Result<Option<f64>> {
        let servers = on.0;
        let job = Job::at(row);
        match self.options.model {
            Model::Rar => {}
            Model::Fixed => {
                let (speed, recorded) = self.jobs.speeds_on(job, gpu_type);
                return Ok(Some(speed / recorded));
            }
            Model::Table => return self.measured(row, gpu_type, on, slow),
        }
        let ring = Ring::on(self.jobs, job, self.jobs.num_gpus[row], gpu_type);
        if network.server_overhead == 0.0 && ring.iteration_time(network, 1, 0) == 0.0 {
            return Err(Error::ZeroIterationTime { row });
        }
        let tau = ring.iteration_time(network, servers, 1);
        if self.options.clock == ClockKind::Slot && Ring::per_slot(self.options.slot, tau) == 0.0 {
            *slow = Some(slow.map_or(tau, |least| f64::min(least, tau)));
            return Ok(None);
        }
        Ok(Some(ring.rate(network, servers)))
    }

    /// Returns the measured rate; `None` if it is 0.
    fn measured(&self, row: usize, gpu_type: GpuType, on: (u32, u64), slow: &mut Option<f64>) -> Result<Option<f64>> {
        let (servers, total) = on;
        let (Some(rates), num_gpus) = (self.jobs.rates, self.jobs.num_gpus[row]) else { return Ok(None) };
        let model = rates.model_of[row];
        let (least, most) = self.jobs.range_of(row);
        let at = |gpus| rates.table.rate(model, gpu_type.number(), gpus, servers);
        let all = u32::try_from(total).unwrap_or(u32::MAX);
        if (least..=most.min(all)).any(|gpus| at(gpus).is_none()) {
            let expected = "a model of which the tables have the rate on every GPU type and number that it may use";
            return Err(Error::Value { row, column: "model", value: model.to_string(), expected });
        }
        let rate = at(num_gpus).unwrap_or(0.0);
        if rate == 0.0 {
            return Ok(None);
        }
        if self.options.clock == ClockKind::Slot && Ring::per_slot(self.options.slot, 1.0 / rate) == 0.0 {
            *slow = Some(slow.map_or(1.0 / rate, |least| f64::min(least, 1.0 / rate)));
            return Ok(None);
        }
        Ok(Some(rate))
    }

    /// Returns the kind made from a kind of the table that tries these types in this order.
    fn intern(&mut self, kind: usize, ranked: &[(f64, GpuType, f64)]) -> u32 {
        let same = |made: &u32| {
            let allowed = &self.made.kinds[*made as usize].allowed;
            allowed.len() == ranked.len() && allowed.iter().zip(ranked).all(|(a, b)| a.0 == b.1)
        };
        if let Some(&made) = self.of_kind[kind].iter().find(|made| same(made)) {
            return made;
        }
        let new = self.made.kinds.len() as u32;
        let order = *self.orders.entry(ranked.iter().map(|choice| choice.1).collect()).or_insert(new);
        let Kind { recorded_speed, recorded_on, .. } = self.types.kinds[kind];
        let allowed = ranked.iter().map(|choice| (choice.1, choice.2)).collect();
        self.made.kinds.push(Kind { recorded_speed, recorded_on, allowed, order });
        self.of_kind[kind].push(new);
        new
    }
}

/// Checks kinds and prices.
pub(super) fn check_types(jobs: &Jobs<'_>, spec: &ClusterSpec<'_>, options: &Options) -> Result<()> {
    let fail = |name, value: String, expected: &str| Err(Error::Option { name, value, expected: expected.to_owned() });
    let Some(types) = jobs.types else {
        if options.model == Model::Table {
            return fail("model", "table".to_owned(), "servers that name GPU types");
        }
        return Ok(());
    };
    if options.model == Model::Table && jobs.rates.is_none() {
        return fail("model", "table".to_owned(), "tables of measured speeds");
    }
    let Some(server_types) = spec.server_types else {
        return fail("cluster", "no GPU types".to_owned(), "the GPU type of every server");
    };
    if server_types.len() != spec.server_gpus.len() {
        let (length, expected) = (server_types.len(), spec.server_gpus.len());
        return Err(Error::ColumnLength { column: "server_types", length, expected });
    }
    if let Some(row) = types.of.iter().position(|&kind| kind as usize >= types.kinds.len()) {
        let (value, expected) = (types.of[row].to_string(), "the number of a kind");
        return Err(Error::Value { row, column: "gpu_type", value, expected });
    }
    let count = server_types.iter().map(|of| of.index() + 1).max().unwrap_or(0);
    let good = |speed: f64| speed.is_finite() && speed > 0.0;
    for kind in types.kinds {
        let allowed = kind.allowed.iter();
        if !good(kind.recorded_speed) || !allowed.clone().all(|&(of, speed)| of.index() < count && good(speed)) {
            return fail("cluster", format!("{kind:?}"), "GPU types of the cluster, of finite speeds > 0");
        }
    }
    let priced = |prices: &[f64]| prices.len() >= count && prices.iter().all(|price| price.is_finite());
    if options.type_order == TypeOrder::Cheapest && !spec.type_prices.is_some_and(priced) {
        return fail("type-order", "cheapest".to_owned(), "a price of every GPU type of the cluster");
    }
    Ok(())
}
