//! Checks the input before a run.
//!
//! Invariant: a job that is kept fits on its empty cluster, and each of its iterations takes time. For example, a job
//! of 9 GPUs on a cluster of 8 is an error, or is left out with `--oversize drop`.

use super::ClusterSpec;
use super::Extras;
use super::parts::Part;
use super::types::Trials;
use crate::cluster::Network;
use crate::error::{Error, Result};
use crate::ids::GpuType;
use crate::machine::MOST_SLOTS;
use crate::options::{ClockKind, Discipline, Estimate, Feature, Is, Options, Order, Oversize, Placement, Predict};
use crate::placement::{Gang, Placer, WITH_SHARES};
use crate::speed::Ring;
use crate::trace::{self, Form, Jobs, OwnedTypes};
use std::collections::{BTreeMap, BTreeSet};

/// Refuses times that slots cannot count.
pub(super) fn check_slots(jobs: &Jobs<'_>, options: &Options) -> Result<()> {
    if options.clock == ClockKind::Continuous {
        return Ok(());
    }
    let beyond = |times: &[f64]| times.iter().position(|&time| time / options.slot >= MOST_SLOTS);
    let fault = |row: usize, column, time: f64| {
        let expected = "a time of fewer than 2^53 slots";
        Err(Error::Value { row, column, value: format!("{time:?}"), expected })
    };
    let think_times = jobs.chains.map_or(&[][..], |chains| chains.think_time);
    if let Some(row) = beyond(think_times) {
        return fault(row, "think_time", think_times[row]);
    }
    match (beyond(jobs.submit), beyond(jobs.duration)) {
        (Some(row), _) => fault(row, "submit_time", jobs.submit[row]),
        (None, Some(row)) if !options.rar() => fault(row, "duration", jobs.duration[row]),
        _ => Ok(()),
    }
}

/// Refuses features that the policy does not support.
pub(super) fn check_policy(jobs: &Jobs<'_>, extras: &Extras<'_>, options: &Options) -> Result<()> {
    let asked = [
        (Feature::Search, options.search.is_some()),
        (Feature::Shares, jobs.shares.is_some()),
        (Feature::Outages, extras.side.outages.is_some()),
        (Feature::Services, extras.side.services.is_some()),
        (Feature::Priorities, jobs.priority.is_some()),
        (Feature::Evict, options.evict),
        (Feature::Quota, extras.side.quotas.is_some()),
        (Feature::Types, jobs.types.is_some()),
    ];
    let mut asked = asked.into_iter().filter_map(|(feature, is_asked)| is_asked.then_some(feature));
    options.preemption.map_or(Ok(()), |policy| asked.try_for_each(|feature| policy.check(feature)))
}

/// Refuses placements and queues that are not defined for shares of a GPU. Where a record places jobs, it is.
pub(super) fn check_shares(jobs: &Jobs<'_>, extras: &Extras<'_>, options: &Options) -> Result<()> {
    if jobs.shares.is_none() {
        return Ok(());
    }
    let fail = |name, value: &str, expected: &str| {
        let expected =
            format!("{expected}: the job table has shares of a GPU; without its gpu_share each takes a whole one");
        Err(Error::Option { name, value: value.to_owned(), expected })
    };
    let by_record = extras.log.is_some() || extras.recorded.is_some();
    if !by_record && !WITH_SHARES.contains(&options.placement) {
        let names: Vec<_> = WITH_SHARES.iter().map(|placement| placement.name()).collect();
        return fail("placement", options.placement.name(), &format!("one of {}", names.join(", ")));
    }
    if Discipline::CLAIRVOYANT.contains(&options.queue) && options.preemption.is_none() {
        return fail("queue", options.queue.name(), "strict or skip");
    }
    Ok(())
}

/// Refuses a search among jobs that are not trials.
pub(super) fn check_searches(jobs: &Jobs<'_>, options: &Options) -> Result<()> {
    if options.search.is_some() && jobs.trials.is_none() {
        return Err(Error::ColumnLength { column: "group", length: 0, expected: jobs.len() });
    }
    Ok(())
}

/// Refuses shares with eviction and quotas, and quotas that do not belong to these jobs.
pub(super) fn check_room(jobs: &Jobs<'_>, extras: &Extras<'_>, options: &Options) -> Result<()> {
    let (name, value) = match extras.side.quotas {
        _ if options.evict => ("evict", "true"),
        Some(_) => ("quota", "quotas"),
        None => return Ok(()),
    };
    if jobs.shares.is_some() {
        let expected = "job tables without shares of a GPU".to_owned();
        return Err(Error::Option { name, value: value.to_owned(), expected });
    }
    match extras.side.quotas.map(|quotas| quotas.owner.len()) {
        Some(length) if length != jobs.len() => {
            Err(Error::ColumnLength { column: "quota", length, expected: jobs.len() })
        }
        _ => Ok(()),
    }
}

/// Refuses checkpoints that take time and of which there would be infinitely many.
pub(super) fn check_checkpoints(jobs: &Jobs<'_>, options: &Options) -> Result<()> {
    if options.checkpoint_cost == 0.0 {
        return Ok(());
    }
    if let Some(row) = jobs.checkpoint_interval.and_then(|own| own.iter().position(|&interval| interval == 0.0)) {
        let expected = "a number of seconds > 0, since checkpoints take time (--checkpoint-cost); inf: none is made";
        return Err(Error::Value { row, column: "checkpoint_interval", value: "0".to_owned(), expected });
    }
    let asked = jobs.checkpoint_interval.is_none_or(|own| own.iter().any(|interval| interval.is_nan()));
    if asked && options.checkpoint_interval == 0.0 {
        let expected = "a time > 0 s, since checkpoints take time (--checkpoint-cost); inf: none is made".to_owned();
        return Err(Error::Option { name: "checkpoint-interval", value: "0".to_owned(), expected });
    }
    Ok(())
}

/// Refuses impossible outages.
pub(super) fn check_outages(extras: &Extras<'_>, spec: &ClusterSpec<'_>) -> Result<()> {
    [extras.side.outages, extras.side.maintenance]
        .into_iter()
        .flatten()
        .try_for_each(|outages| trace::check_outages(outages, spec.server_gpus.len()))
}

/// Refuses impossible services, and clusters and jobs that do not support any.
pub(super) fn check_services(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<()> {
    let Some(services) = extras.side.services else { return Ok(()) };
    let fail = |expected: &str| {
        let (name, value) = ("services", "given".to_owned());
        Err(Error::Option { name, value, expected: expected.to_owned() })
    };
    if jobs.shares.is_some() {
        return fail("none: the job table has shares of a GPU; without its gpu_share each takes a whole one");
    }
    if spec.server_vc.is_some() {
        return fail("none: the cluster has virtual clusters, and services are of none of them");
    }
    services.validate(spec.server_gpus.iter().copied().max().unwrap_or(0))?;
    let Some(requests) = extras.side.requests else { return Ok(()) };
    if options.clock == ClockKind::Slot {
        let expected = "none under --clock slot: requests are answered between two slots".to_owned();
        return Err(Error::Option { name: "requests", value: "given".to_owned(), expected });
    }
    let lengths = [
        ("services", requests.services.len(), services.gpus.len()),
        ("speeds", requests.speeds.len(), spec.server_gpus.len()),
    ];
    if let Some(&(column, length, expected)) = lengths.iter().find(|(_, length, expected)| length != expected) {
        return Err(Error::ColumnLength { column, length, expected });
    }
    requests.validate()
}

pub(super) fn check_extras(jobs: &Jobs<'_>, extras: &Extras<'_>, options: &Options) -> Result<()> {
    let lengths = [
        ("deadline", extras.deadline.map(<[f64]>::len)),
        ("user", extras.user.map(<[u32]>::len)),
        ("order", extras.key.map(<[f64]>::len)),
        ("predict", extras.predicted.map(<[f64]>::len)),
        ("estimate", extras.estimated.map(<[f64]>::len)),
        ("fair-shares", extras.fair.map(|fair| fair.owner.len())),
        ("fair-shares", extras.fair.and_then(|fair| fair.users).map(|users| users.user.len())),
    ];
    for (column, length) in lengths {
        if let Some(length) = length
            && length != jobs.len()
        {
            return Err(Error::ColumnLength { column, length, expected: jobs.len() });
        }
    }
    if let Some(keys) = extras.key
        && let Some(row) = keys.iter().position(|key| key.is_nan())
    {
        let (value, expected) = ("NaN".to_owned(), "a number: the least goes first");
        return Err(Error::Value { row, column: "order", value, expected });
    }
    let levels = extras.fair.iter().flat_map(|fair| {
        let users = fair.users.map(|users| (users.user, users.share));
        std::iter::once((fair.owner, fair.share)).chain(users)
    });
    for (owner, share) in levels {
        if let Some(row) = owner.iter().position(|&owner| owner as usize >= share.len()) {
            let (value, expected) = (owner[row].to_string(), "the number of an owner who has a share");
            return Err(Error::Value { row, column: "fair-shares", value, expected });
        }
    }
    if options.order == Order::Fairshare && options.preemption.is_none() && extras.fair.is_none() {
        return Err(Error::ColumnLength { column: "fair-shares", length: 0, expected: jobs.len() });
    }
    let named = [
        ("predict", options.predict == Predict::Column, extras.predicted),
        ("estimate", options.estimate == Estimate::Column, extras.estimated),
    ];
    if let Some((column, ..)) = named.iter().find(|(_, is_read, given)| *is_read && given.is_none()) {
        return Err(Error::ColumnLength { column, length: 0, expected: jobs.len() });
    }
    match extras.recorded {
        Some(recorded) => recorded.validate(jobs.submit, jobs.num_gpus)?,
        None if options.is(Is::AsRecorded) => {
            return Err(Error::ColumnLength { column: "recorded_start", length: 0, expected: jobs.len() });
        }
        None => {}
    }
    if options.is(Is::ByDeadlines) && extras.deadline.is_none() {
        return Err(Error::ColumnLength { column: "deadline", length: 0, expected: jobs.len() });
    }
    Ok(())
}

/// Assigns the rows to their clusters, and determines which GPU types each tries; refuses, or leaves out, what could
/// never run.
///
/// A log places jobs itself. A job that it does not name, and that could never be placed, was left out by the run
/// that wrote it.
pub(super) fn keep(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    extras: &Extras<'_>,
    parts: &mut [Part],
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<(Vec<bool>, Option<OwnedTypes>)> {
    let placer = Placer::new(options);
    let forms = jobs.all_forms();
    let binds = forms.iter().any(|&form| placer.binds(form));
    if binds {
        parts.iter_mut().for_each(|part| part.group(&forms));
    }
    let in_pods = jobs.has_pods();
    let mut kept = vec![true; jobs.len()];
    // Whether a log determines where the job runs.
    let mut placed = vec![extras.log.is_some() && options.oversize == Oversize::Error; jobs.len()];
    for row in extras.log.iter().flat_map(|log| &log.rows) {
        if let Some(placed) = placed.get_mut(row.job as usize) {
            *placed = true;
        }
    }
    let on_types = log_types(extras, spec);
    let mut trials = jobs.types.map(|types| Trials::new(jobs, types, spec, options, &placer));
    let by_ring = options.rar() && trials.is_none();
    for row in 0..jobs.len() {
        let part = &mut parts[vc.map_or(0, |v| v[row] as usize)];
        let num_gpus = jobs.num_gpus[row];
        let gang = || Gang { num_gpus, form: jobs.form(row) };
        let refusal = if let Some(gpus) = quota_below(extras, row, num_gpus) {
            Some(Error::OverQuota { row, num_gpus, gpus })
        } else if let Some(trials) = &mut trials {
            trials.add(row, part, &on_types, placed[row])?
        } else if u64::from(num_gpus) > part.total {
            Some(Error::Oversize { row, num_gpus, available: part.total })
        } else if in_pods && let Some(error) = too_many_pods(row, gang(), part.shape.in_pods(gang().form.pod)) {
            Some(error)
        } else if (binds || num_gpus > part.shape.largest()) && !placed[row] && !placer.fits_empty(gang(), &part.shape)
        {
            Some(unplaceable(row, gang(), &placer, options))
        } else {
            None
        };
        match refusal {
            Some(error) if options.oversize == Oversize::Error => return Err(error),
            Some(_) => kept[row] = false,
            None => {
                if by_ring {
                    check_iteration(&Ring::of(jobs, row), row, part.few.of(num_gpus), &part.network, options)?;
                }
                part.rows.push(row as u32);
            }
        }
    }
    Ok((kept, trials.map(Trials::finish)))
}

/// Returns the error of a gang that the empty cluster cannot hold though it has as many pods.
pub(super) fn unplaceable(row: usize, gang: Gang, placer: &Placer, options: &Options) -> Error {
    let Gang { num_gpus, form } = gang;
    if placer.binds(form) {
        return Error::BeyondTier { row, num_gpus, segment: form.segment };
    }
    Error::Unplaceable { row, num_gpus, placement: options.placement.name() }
}

/// Returns the error of a gang whose servers hold too few pods. `in_pods`: the GPUs of the pods that they hold.
pub(super) fn too_many_pods(row: usize, gang: Gang, in_pods: u64) -> Option<Error> {
    let (num_gpus, pod) = (gang.num_gpus, gang.form.pod);
    let error = || Error::TooManyPods { row, pods: num_gpus / pod, pod, available: in_pods / u64::from(pod) };
    (u64::from(num_gpus) > in_pods).then(error)
}

/// Refuses placements other than `compact` where jobs name tiers. Where a record places jobs, it is.
pub(super) fn check_tier_columns(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<()> {
    let levels = spec.tiers.len() + 1;
    let is_known = |form: &&Form| usize::from(form.within.max(form.segment_tier)) <= levels;
    let forms = jobs.forms.map_or(&[][..], |forms| forms.list);
    if let Some(form) = forms.iter().find(|form| !is_known(form)) {
        let value = form.within.max(form.segment_tier).to_string();
        return Err(Error::Option { name: "tiers", value, expected: format!("at most {levels}, with the servers") });
    }
    let Some(row) = jobs.first_in_tiers() else { return Ok(()) };
    if extras.log.is_some() || extras.recorded.is_some() || options.placement == Placement::Compact {
        return Ok(());
    }
    let column = if jobs.form(row).segment > 0 { "segment" } else { "within_tier" };
    let expected = format!("compact (--placement compact), as the job table has {column}; or a table without it");
    Err(Error::Option { name: "placement", value: options.placement.name().to_owned(), expected })
}

/// Refuses placements that place GPU by GPU, and `repack` where pods would keep it from moving jobs.
pub(super) fn check_pods(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    spec: &ClusterSpec<'_>,
    options: &Options,
) -> Result<()> {
    if !jobs.has_pods() {
        return Ok(());
    }
    let fail = |name, value: &str, expected: &str| {
        let expected = format!("{expected}: the job table has pods of several GPUs; without gpus_per_pod it has none");
        Err(Error::Option { name, value: value.to_owned(), expected })
    };
    if extras.log.is_none() && options.placement.places_gpu_by_gpu(options.variant) {
        let (name, value) = match options.placement {
            Placement::Random => ("placement", "random"),
            _ => ("variant", options.variant.name()),
        };
        return fail(name, value, &format!("another, as {value} places GPU by GPU"));
    }
    if !options.is(Is::Moves) {
        return Ok(());
    }
    if Placer::new(options).spreads() {
        return fail(
            "placement",
            options.placement.name(),
            "one of consolidate, best-fit, worst-fit, fgd, as repack moves jobs within one server",
        );
    }
    let mut largest: BTreeMap<(u32, GpuType), u32> = BTreeMap::new();
    for (server, &gpus) in spec.server_gpus.iter().enumerate() {
        let of = |types: &[GpuType]| types.get(server).copied();
        let own = (spec.server_vc.map_or(0, |vc| vc[server]), spec.server_types.and_then(of).unwrap_or(GpuType::NONE));
        let most = largest.entry(own).or_default();
        *most = gpus.max(*most);
    }
    let divides = |row: usize| largest.values().all(|most| most % jobs.form(row).pod == 0);
    match (0..jobs.len()).find(|&row| !divides(row)) {
        None => Ok(()),
        Some(row) => {
            let expected = "a divisor of the GPUs of the largest server (of every GPU type) under repack, or nothing";
            Err(Error::Value { row, column: "gpus_per_pod", value: jobs.form(row).pod.to_string(), expected })
        }
    }
}

/// Returns the GPU types on which a log places jobs, by (row, type).
fn log_types(extras: &Extras<'_>, spec: &ClusterSpec<'_>) -> BTreeSet<(u32, GpuType)> {
    let (Some(log), Some(types)) = (extras.log, spec.server_types) else { return BTreeSet::new() };
    let placed = log.rows.iter().filter(|row| row.verb.has_parts());
    placed.filter_map(|row| Some((row.job, *types.get(row.server as usize)?))).collect()
}

/// Returns the least quota that a row's job could never be within, where nothing may be borrowed.
fn quota_below(extras: &Extras<'_>, row: usize, num_gpus: u32) -> Option<u64> {
    let quotas = extras.side.quotas?;
    let own = quotas.of(quotas.owner[row]).map(|place| quotas.list[place]);
    let firm = own.filter(|quota| !quota.borrow && u64::from(num_gpus) > quota.gpus);
    firm.map(|quota| quota.gpus).min()
}

/// Refuses a job whose iteration takes no time, or more than a slot even uncontended.
pub(crate) fn check_iteration(
    ring: &Ring,
    row: usize,
    servers: Option<u32>,
    network: &Network,
    options: &Options,
) -> Result<()> {
    if network.server_overhead == 0.0 && ring.iteration_time(network, 1, 0) == 0.0 {
        return Err(Error::ZeroIterationTime { row });
    }
    if options.clock == ClockKind::Slot {
        let tau = ring.iteration_time(network, servers.unwrap_or(1), 1);
        if Ring::per_slot(options.slot, tau) == 0.0 {
            return Err(Error::SlotTooShort { row, tau, slot: options.slot });
        }
    }
    Ok(())
}
