//! Merges the results of all parts into one, in the caller's row order.
//!
//! Invariant: every number of a job or a server that leaves this file is the caller's. For example, job 2 of a part
//! whose rows are 5, 7 and 9 is row 9. If the whole table is one part in its own order, its columns are moved and not
//! copied.

use super::links::links;
use super::parts::Part;
use super::{Extras, logs};
use crate::decisions::DecisionLog;
use crate::error::Result;
use crate::ids::{GpuType, Job, NO_SEAT, Server};
use crate::machine::Clock;
use crate::options::{Is, Model, Options};
use crate::outcome::{
    Allocations, Asleep, Climb, ClusterOutcome, Crossings, Drained, Knows, Outcome, Serving, Span, Woken, course,
    sample_times,
};
use crate::record::{Once, StayRecord, Sums, SumsByJob, Tabled, Why};
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
    let arrival = jobs.chains.map(|_| arrivals(jobs, parts, &outcomes));
    let jobs = &Jobs { submit: arrival.as_deref().unwrap_or(jobs.submit), ..*jobs };
    let (mut events, mut decisions, mut displaced, mut contention_seconds) = (0, 0, 0, 0.0);
    let mut contention = Vec::with_capacity(outcomes.len());
    // The columns of a table that is one part in its own order are moved here: nothing to fill.
    let filled = if matches!(parts, [part] if part.whole) { 0 } else { n };
    let (mut start, mut finish) = (vec![f64::NAN; filled], vec![f64::NAN; filled]);
    let (mut num_servers, mut max_contention) = (vec![0; filled], vec![0; filled]);
    let tells = extras.tell_stays(options);
    let mut stays = (tells || outcomes.iter().any(|own| own.pauses)).then(|| Stayed::new(n, jobs));
    let mut on_types = vec![0.0; jobs.types.map_or(0, |_| n)];
    let mut asleep = (options.sleep_after < f64::INFINITY).then(Vec::new);
    let mut drained = Vec::new();
    let crossing = outcomes.iter().map(|own| &own.crossings).find(|own| !own.most.is_empty());
    let mut crossings = crossing.map(|own| Crossings::new(n, own.tiers));
    let mut log = DecisionLog::default();
    let (mut wait_gpus, mut wait_fragmented) = (vec![0.0; n], vec![0.0; n]);
    let mut allocations = Allocations::default();
    let mut climbs = options.search.map(|_| Vec::new());
    let mut seated = vec![false; if options.jobs_per_gpu() > 1 { n } else { 0 }];
    let mut serving = None;
    let mut link_logs = Vec::with_capacity(outcomes.len());
    let mut cluster = vec![0; if parts.len() > 1 { n } else { 0 }];
    for (number, (part, mut outcome)) in parts.iter().zip(outcomes).enumerate() {
        events += outcome.events;
        decisions += outcome.decisions;
        displaced += outcome.displaced;
        contention_seconds += outcome.contention_seconds;
        logs::append(&mut log, &outcome.log, part);
        if let Some(asleep) = &mut asleep {
            let own = |spell: &Asleep| Asleep {
                server: Server::new(part.servers[spell.server.index()]),
                woken: match spell.woken {
                    Woken::ByJob(job) => Woken::ByJob(Job::new(part.rows[job.index()])),
                    other => other,
                },
                ..*spell
            };
            asleep.extend(outcome.asleep.iter().map(own));
        }
        let own = |row: &Drained| Drained { server: Server::new(part.servers[row.server.index()]), ..*row };
        drained.extend(outcome.drained.iter().map(own));
        for (&row, &longer) in part.rows.iter().zip(&outcome.stay_log.on_types) {
            on_types[row as usize] = longer;
        }
        if let Some(stays) = &mut stays {
            stays.take(&mut outcome, part, &mut kept);
        } else {
            for (&row, &(too_few, fragmented)) in part.rows.iter().zip(&outcome.wait_causes) {
                wait_gpus[row as usize] = too_few as f32;
                wait_fragmented[row as usize] = fragmented as f32;
            }
        }
        if let Some(crossings) = crossings.as_mut().filter(|_| !outcome.crossings.most.is_empty()) {
            crossings.take(&outcome.crossings, &part.rows);
        }
        for (&row, &own) in part.rows.iter().zip(&outcome.seated) {
            seated[row as usize] = own;
        }
        if let Some(climbs) = &mut climbs {
            let own = |climb: &Climb| Climb { job: Job::new(part.rows[climb.job.index()]), ..*climb };
            climbs.extend(outcome.climbing.climbs.iter().map(own));
        }
        if extras.side.services.is_some() {
            serving = Some(outcome.serving);
        }
        contention.push(outcome.contention);
        link_logs.push(outcome.links);
        drop((outcome.wait_causes, outcome.stay_log));
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
        // Seats of clusters after one another; their order in time follows.
        let last = allocations.seat.iter().filter(|&&seat| seat != NO_SEAT).max().map_or(0, |last| last + 1);
        allocations.seat.extend(own.seat.iter().map(|&seat| if seat == NO_SEAT { seat } else { last + seat }));
        allocations.busy_from.append(&mut own.busy_from);
        allocations.start.append(&mut own.start);
        allocations.end.append(&mut own.end);
        allocations.server.extend(own.server.iter().map(|&s| part.servers[s as usize]));
    }
    if parts.len() > 1 {
        logs::sort(&mut log);
    }
    let clock = Clock::new(options);
    let (mut records, mut refused, mut ended, mut sums, mut table) = (Vec::new(), Vec::new(), Vec::new(), None, None);
    if let Some(mut stayed) = stays {
        stayed.records = by_row(&stayed.records, n);
        for last in &stayed.records {
            let row = last.job.index();
            if !kept[row] {
                finish[row] = last.end; // ended before it was done
            }
        }
        let unit = if options.model == Model::Fixed { clock.slot.unwrap_or(1.0) } else { 1.0 };
        let once = |row: usize| Once {
            row: row as u32,
            start: start[row],
            finish: finish[row],
            num_gpus: jobs.num_gpus[row],
            num_servers: num_servers[row],
            gpu_type: GpuType::NONE,
            work: if options.model == Model::Fixed { jobs.duration[row] } else { jobs.iterations[row] as f64 },
            waited: (0.0, 0.0),
        };
        let seats = options.jobs_per_gpu() > 1;
        table = Some(stayed.tabled(jobs.submit, unit, seats, once)).filter(|_| tells);
        for row in 0..n {
            let (too_few, fragmented) = stayed.sums.waited(row);
            (wait_gpus[row], wait_fragmented[row]) = (too_few as f32, fragmented as f32);
        }
        (records, refused, ended, sums) = (stayed.records, stayed.refused, stayed.ended, Some(stayed.sums));
    }
    // What jobs ask for, in thousandths where the table has shares.
    let units = jobs.shares.map_or(Cow::Borrowed(jobs.num_gpus), |_| (0..n).map(|row| jobs.units(row)).collect());
    let cluster_of = |row: usize| cluster.get(row).copied().unwrap_or(0);
    let seen = |job: usize| clock.seconds(clock.arrival(jobs.submit[job]));
    // Stay by stay; between two of them a job waits, unless it pauses at a rung first.
    let in_stays = records.iter().enumerate().map(|(i, s)| {
        let row = s.job.index();
        let before = i.checked_sub(1).map(|i| &records[i]).filter(|before| before.job == s.job);
        Span {
            submit: jobs.submit[row],
            seen: before.map_or_else(|| seen(row), |before| if s.woke.is_nan() { before.end } else { s.woke }),
            start: s.start,
            finish: s.end,
            busy_from: s.start + s.guest,
            asks: units[row],
            num_gpus: if jobs.share_of(row) > 0 { units[row] } else { s.num_gpus * jobs.units_per_gpu() as u32 },
            spanning: s.num_servers > 1,
            cluster: cluster_of(row),
        }
    });
    let mut whole = kept.clone();
    records.iter().for_each(|records| whole[records.job.index()] = false);
    let spans = (0..n).filter(|&j| whole[j]).map(|j| Span {
        submit: jobs.submit[j],
        seen: seen(j),
        start: start[j],
        finish: finish[j],
        busy_from: start[j],
        asks: units[j],
        num_gpus: units[j],
        spanning: num_servers[j] > 1,
        cluster: cluster_of(j),
    });
    let spans = spans.chain(in_stays);
    // One row per server, or per GPU where jobs may hold shares.
    let rows = |records: &StayRecord| {
        let rows = if jobs.shares.is_none() { records.num_servers } else { records.num_gpus };
        (records.job, rows as usize)
    };
    let course = course(spans, parts.len(), jobs.units_per_gpu() as f64, &contention, options.sample)?;
    if let Some(answered) = serving.iter_mut().find_map(|serving: &mut Serving| serving.answered.as_mut())
        && let Some(&from) = course.timeline.time.first()
    {
        answered.samples = sample_times(from, answered.end, options.sample)?;
    }
    let links = links(jobs, parts, &link_logs, options, &course.timeline.time, course.ran);
    Ok(Outcome {
        held_while_submitting: course.held_while_submitting,
        timeline: course.timeline,
        allocations: allocations.by_job(n, records.iter().map(rows)),
        kept,
        start,
        finish,
        num_servers,
        max_contention,
        crossings,
        links,
        wait_gpus,
        wait_fragmented,
        knows: Knows {
            outages: extras.side.outages.is_some(),
            room: extras.make_room(options),
            seats: options.jobs_per_gpu() > 1,
            losses: extras.side.outages.is_some()
                || options.evict_loses && extras.make_room(options)
                || options.preempt_loses,
            elastic: jobs.range.is_some(),
            limits: options.enforce_limits,
        },
        sums,
        stays: table,
        refused,
        ended,
        seated,
        on_types,
        asleep,
        drained,
        serving,
        climbs,
        events,
        decisions,
        displaced,
        contention_seconds,
        spanning_seconds: course.spanning_seconds,
        log,
        engine_seconds,
        arrival,
    })
}

/// Returns when each job arrived, s; a job that was not replayed, at its submission.
fn arrivals(jobs: &Jobs<'_>, parts: &[Part], outcomes: &[ClusterOutcome]) -> Vec<f64> {
    let mut arrival = jobs.submit.to_vec();
    for (part, outcome) in parts.iter().zip(outcomes) {
        for (&row, &own) in part.rows.iter().zip(&outcome.arrival) {
            arrival[row as usize] = own;
        }
    }
    arrival
}

/// Returns the stays by row, those of a row in chronological order.
fn by_row(records: &[StayRecord], rows: usize) -> Vec<StayRecord> {
    let mut next = vec![0; rows + 1];
    records.iter().for_each(|records| next[records.job.index() + 1] += 1);
    for row in 0..rows {
        next[row + 1] += next[row];
    }
    let mut order = vec![0; records.len()];
    for (at, records) in records.iter().enumerate() {
        let place: &mut usize = &mut next[records.job.index()];
        order[*place] = at;
        *place += 1;
    }
    order.iter().map(|&at| records[at]).collect()
}

/// The stays of all parts.
struct Stayed {
    /// By row, then in order of time.
    records: Vec<StayRecord>,
    sums: SumsByJob,
    refused: Vec<bool>,
    ended: Vec<bool>,
    /// By row, the type of the one stay of a job that ran through.
    types: Vec<GpuType>,
}

impl Stayed {
    fn new(n: usize, jobs: &Jobs<'_>) -> Self {
        Self {
            records: Vec::new(),
            // Nothing is known about rows that are in no part.
            sums: SumsByJob::without_stays(n, Sums { held: f64::NAN, ..Sums::default() }),
            refused: vec![false; n],
            ended: vec![false; n],
            types: vec![GpuType::NONE; jobs.types.map_or(0, |_| n)],
        }
    }

    /// Adds the stays of a part. `kept` loses the jobs that were refused or ended there.
    fn take(&mut self, outcome: &mut ClusterOutcome, part: &Part, kept: &mut [bool]) {
        let row = |job: Job| part.rows[job.index()];
        let by = |why: Why| match why {
            Why::EvictedBy(job) => Why::EvictedBy(Job::new(row(job))),
            why => why,
        };
        let own =
            |records: &StayRecord| StayRecord { job: Job::new(row(records.job)), why: by(records.why), ..*records };
        self.records.extend(outcome.stay_log.records.iter().map(own));
        self.sums.take(std::mem::take(&mut outcome.stay_log.sums), &part.rows, &outcome.wait_causes);
        for (j, &row) in part.rows.iter().enumerate() {
            let row = row as usize;
            if let Some(&gpu_type) = outcome.stay_log.types.get(j) {
                self.types[row] = gpu_type;
            }
            (self.refused[row], self.ended[row]) = (outcome.refused[j], outcome.ended[j]);
            kept[row] = !(outcome.refused[j] || outcome.ended[j]);
        }
    }

    /// Tables every stay as a row, and adds every wait to the sums. `unit`: of work, in units of the table. `once`:
    /// the stay of a row that ran through, without its type and its wait.
    fn tabled(&mut self, submit: &[f64], unit: f64, seats: bool, once: impl Fn(usize) -> Once) -> crate::record::Stays {
        let mut table = Tabled::for_stays(self.records.len() + self.sums.len(), seats);
        let mut at = 0;
        for (row, &submit) in submit.iter().enumerate() {
            let count = self.records[at..].iter().take_while(|records| records.job.index() == row).count();
            let own = &self.records[at..at + count];
            at += count;
            let once = once(row);
            match own {
                [] if once.finish.is_nan() => {}
                [] => {
                    let gpu_type = self.types.get(row).copied().unwrap_or(GpuType::NONE);
                    let once = Once { gpu_type, waited: self.sums.waited(row), ..once };
                    self.sums.add_wait(row, table.push_once(&once, submit));
                }
                // Where decisions come from outside every stay is in the record, also of a job that ran through once.
                [records] if records.is_all_of_its_job(once.num_gpus) => {
                    let StayRecord { gpu_type, waited, .. } = *records;
                    self.sums.add_wait(row, table.push_once(&Once { gpu_type, waited, ..once }, submit));
                }
                several => {
                    several.iter().for_each(|records| self.sums.add_wait(row, table.push(records, submit, unit)));
                }
            }
        }
        table.done()
    }
}

impl Extras<'_> {
    /// Returns whether stays are reported: one may end before its job is done, or makes checkpoints that take time.
    pub(crate) fn tell_stays(&self, options: &Options) -> bool {
        let runs_through = self.log.is_some_and(|log| log.runs_through) && options.jobs_per_gpu() == 1;
        (options.preemption.is_some() && !runs_through && !options.is(Is::AsRecorded))
            || self.side.outages.is_some()
            || self.make_room(options)
            || options.search.is_some()
            || options.enforce_limits
            || options.checkpoint_cost > 0.0
    }
}
