//! The results of all parts as one, in the caller's row order.
//!
//! Invariant: every number of a job or a server that leaves this file is the caller's. For example, job 2 of a part
//! whose rows are 5, 7 and 9 is row 9. If the whole table is one part in its own order, its columns are moved and not
//! copied.

use super::parts::Part;
use super::{Extras, logs};
use crate::decisions::DecisionLog;
use crate::error::Result;
use crate::ids::{Job, Server};
use crate::machine::Clock;
use crate::options::{Options, Preemption};
use crate::outcome::{
    Allocations, Asleep, ClusterOutcome, Elastic, Failure, Outcome, Preempted, Searched, Span, Stretch,
    held_while_submitting, timeline,
};
use crate::trace::Jobs;
use std::borrow::Cow;

pub(crate) fn assemble(
    jobs: &Jobs<'_>,
    mut kept: Vec<bool>,
    parts: &[Part],
    outcomes: Vec<ClusterOutcome>,
    options: &Options,
    extras: &Extras<'_>,
    engine_seconds: f64,
) -> Result<Outcome> {
    let n = jobs.len();
    let (mut events, mut decisions, mut contention_seconds) = (0, 0, 0.0);
    let mut contention = Vec::with_capacity(outcomes.len());
    let (mut start, mut finish) = (vec![f64::NAN; n], vec![f64::NAN; n]);
    let (mut num_servers, mut max_contention) = (vec![0; n], vec![0; n]);
    let mut preemptions = vec![0; n];
    let has_outages = extras.outages.is_some();
    let makes_room = extras.make_room(options);
    let keeps_stays = options.preemption != Preemption::None
        || options.pauses_at_start()
        || has_outages
        || makes_room
        || options.search.is_some();
    let mut preempted = keeps_stays.then(|| Preempted {
        held: vec![f64::NAN; n],
        lost: vec![0.0; n],
        spread: vec![0.0; n],
        elastic: vec![Elastic::default(); jobs.range.map_or(0, |_| n)],
        refused: vec![false; n],
        ended: vec![false; n],
        failures: vec![0; if has_outages { n } else { 0 }],
        lost_work: vec![0.0; if has_outages { n } else { 0 }],
        evictions: vec![0; if makes_room { n } else { 0 }],
        failed: Vec::new(),
    });
    let mut on_types = vec![0.0; jobs.types.map_or(0, |_| n)];
    let mut asleep = (options.sleep_after < f64::INFINITY).then(Vec::new);
    let mut stretches = Vec::new();
    let mut log = DecisionLog::default();
    let (mut wait_gpus, mut wait_fragmented) = (vec![0.0; n], vec![0.0; n]);
    let mut allocations = Allocations::default();
    let mut searched = options.search.map(|_| Searched::new(n));
    let mut serving = None;
    let mut cluster = vec![0; if parts.len() > 1 { n } else { 0 }];
    for (number, (part, outcome)) in parts.iter().zip(outcomes).enumerate() {
        events += outcome.events;
        decisions += outcome.decisions;
        contention_seconds += outcome.contention_seconds;
        contention.push(outcome.contention);
        stretches.extend(outcome.stretches.iter().map(|s| Stretch { job: Job::new(part.rows[s.job.index()]), ..*s }));
        logs::append(&mut log, &outcome.log, part);
        if let Some(asleep) = &mut asleep {
            let own = |spell: &Asleep| Asleep { server: Server::new(part.servers[spell.server.index()]), ..*spell };
            asleep.extend(outcome.asleep.iter().map(own));
        }
        if let Some(preempted) = &mut preempted {
            for (&row, &elastic) in part.rows.iter().zip(&outcome.elastic) {
                preempted.elastic[row as usize] = elastic;
            }
            for (&row, (&failures, &lost)) in part.rows.iter().zip(outcome.failures.iter().zip(&outcome.lost_work)) {
                (preempted.failures[row as usize], preempted.lost_work[row as usize]) = (failures, lost);
            }
            for (&row, &evictions) in part.rows.iter().zip(&outcome.evictions) {
                preempted.evictions[row as usize] = evictions;
            }
            preempted.failed.extend(outcome.failed.iter().map(|failure| Failure {
                job: Job::new(part.rows[failure.job.index()]),
                server: Server::new(part.servers[failure.server.index()]),
                ..*failure
            }));
            for (j, &row) in part.rows.iter().enumerate() {
                let row = row as usize;
                preemptions[row] = outcome.preemptions[j];
                (preempted.held[row], preempted.lost[row]) = (outcome.held[j], outcome.lost[j]);
                preempted.spread[row] = outcome.spread[j];
                (preempted.refused[row], preempted.ended[row]) = (outcome.refused[j], outcome.ended[j]);
                kept[row] = !(outcome.refused[j] || outcome.ended[j]);
            }
        }
        if let Some(searched) = &mut searched {
            searched.take(outcome.climbing, &part.rows);
        }
        if extras.services.is_some() {
            serving = Some(outcome.serving);
        }
        for (&row, &longer) in part.rows.iter().zip(&outcome.on_types) {
            on_types[row as usize] = longer;
        }
        for (&row, &(too_few, fragmented)) in part.rows.iter().zip(&outcome.obstacles) {
            wait_gpus[row as usize] = too_few as f32;
            wait_fragmented[row as usize] = fragmented as f32;
        }
        drop(outcome.obstacles);
        if parts.len() == 1 && part.whole {
            (start, finish) = (outcome.start, outcome.finish);
            (num_servers, max_contention) = (outcome.num_servers, outcome.max_contention);
            allocations = outcome.allocations;
            continue;
        }
        for (j, &row) in part.rows.iter().enumerate() {
            let row = row as usize;
            if parts.len() > 1 {
                cluster[row] = number as u32;
            }
            (start[row], finish[row]) = (outcome.start[j], outcome.finish[j]);
            (num_servers[row], max_contention[row]) = (outcome.num_servers[j], outcome.max_contention[j]);
        }
        let mut own = outcome.allocations;
        own.job.iter_mut().for_each(|j| *j = part.rows[*j as usize]);
        allocations.job.append(&mut own.job);
        allocations.num_gpus.append(&mut own.num_gpus);
        allocations.gpu.append(&mut own.gpu);
        allocations.share.append(&mut own.share);
        allocations.start.append(&mut own.start);
        allocations.end.append(&mut own.end);
        allocations.server.extend(own.server.iter().map(|&s| part.servers[s as usize]));
    }
    let clock = Clock::new(options);
    let cluster_of = |row: usize| cluster.get(row).copied().unwrap_or(0);
    // Stretch by stretch; between two of them a job waits.
    stretches.sort_by_key(|s| s.job);
    for stretch in &stretches {
        let row = stretch.job.index();
        if !kept[row] {
            finish[row] = stretch.end; // ended before it was done
        }
    }
    // What jobs ask for, in thousandths where the table has shares.
    let units = jobs.shares.map_or(Cow::Borrowed(jobs.num_gpus), |_| (0..n).map(|row| jobs.units(row)).collect());
    let seen = |job: usize| clock.seconds(clock.arrival(jobs.submit[job]));
    // After a stretch a job waits, unless it pauses at a rung first.
    if let Some(searched) = &mut searched {
        searched.sort();
    }
    let waits_from = |row: u32, end: f64| searched.as_ref().map_or(end, |searched| searched.waits_from(row, end));
    let in_stretches = stretches.iter().enumerate().map(|(i, s)| {
        let row = s.job.index();
        let before = i.checked_sub(1).map(|i| &stretches[i]).filter(|before| before.job == s.job);
        Span {
            submit: jobs.submit[row],
            seen: before.map_or_else(|| seen(row), |before| waits_from(row as u32, before.end)),
            start: s.start,
            finish: s.end,
            asks: units[row],
            num_gpus: if jobs.share_of(row) > 0 { units[row] } else { s.num_gpus * jobs.units_a_gpu() as u32 },
            spanning: s.spanning,
            cluster: cluster_of(row),
        }
    });
    let mut whole = kept.clone();
    stretches.iter().for_each(|stretch| whole[stretch.job.index()] = false);
    let spans = (0..n).filter(|&j| whole[j]).map(|j| Span {
        submit: jobs.submit[j],
        seen: seen(j),
        start: start[j],
        finish: finish[j],
        asks: units[j],
        num_gpus: units[j],
        spanning: num_servers[j] > 1,
        cluster: cluster_of(j),
    });
    let spans = spans.chain(in_stretches);
    let spanning_seconds = spans.clone().filter(|s| s.spanning).map(|s| s.finish - s.start).sum();
    Ok(Outcome {
        held_while_submitting: held_while_submitting(spans.clone(), parts.len(), jobs.units_a_gpu() as f64),
        timeline: timeline(spans, &contention, options.sample)?,
        allocations: allocations.by_job(n),
        kept,
        start,
        finish,
        num_servers,
        max_contention,
        wait_gpus,
        wait_fragmented,
        preemptions,
        preempted,
        on_types,
        asleep,
        serving,
        searched,
        events,
        decisions,
        contention_seconds,
        spanning_seconds,
        log: if parts.len() > 1 { logs::by_time(&log) } else { log },
        engine_seconds,
    })
}
