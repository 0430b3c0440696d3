//! Holds the result columns, and the timeline computed from them.
//!
//! `ClusterOutcome` is the result of one cluster's run, by job. `Outcome` is what the caller gets, by row. Invariant:
//! every column of `Outcome` about jobs has a value for each row. For example, a job that was dropped as oversize has a
//! `start` of NaN and 0 servers.

mod allocations;
mod crossings;
mod links;
mod searches;
mod servers;
mod serving;

use crate::decisions::DecisionLog;
use crate::error::{Error, Result};
use crate::record::{Ends, StayLog, Stays, SumsByJob};
pub use allocations::Allocations;
pub use crossings::Crossings;
pub use links::{Busiest, LinkRow, Links};
pub(crate) use links::{Carried, LinkLog, Spanned};
pub use searches::Climb;
pub(crate) use searches::Climbing;
pub use servers::{Asleep, Drained, Woken};
pub use serving::{Answered, Replica, ReplicaEnded, Serving};

/// The result of one cluster's run.
#[derive(Clone, Debug)]
pub(crate) struct ClusterOutcome {
    /// When each job arrived, s, where arrivals depend on ends; else empty.
    pub(crate) arrival: Vec<f64>,
    pub(crate) start: Vec<f64>,
    pub(crate) finish: Vec<f64>,
    pub(crate) num_servers: Vec<u32>,
    pub(crate) max_contention: Vec<u32>,
    /// What jobs met of a network of tiers; empty columns without one.
    pub(crate) crossings: Crossings,
    /// The stays that spanned, where there is one.
    pub(crate) links: LinkLog,
    /// Waiting time with too few idle GPUs, and with enough that could not be used, s.
    pub(crate) wait_causes: Vec<(f64, f64)>,
    pub(crate) allocations: Allocations,
    /// (time, sum of p_j over the spanning jobs from then on).
    pub(crate) contention: Vec<(f64, u64)>,
    pub(crate) contention_seconds: f64,
    pub(crate) events: u64,
    pub(crate) decisions: u64,
    /// Jobs whose recorded place was not allowed when they were tried there.
    pub(crate) displaced: u64,
    /// Whether a job that runs through may hold its GPUs without progress for a while.
    pub(crate) pauses: bool,
    /// The stays that are over, and their sums.
    pub(crate) stay_log: StayLog,
    /// Whether admission or a verb refused a job, and whether a verb ended it. Empty where neither is possible.
    pub(crate) refused: Vec<bool>,
    pub(crate) ended: Vec<bool>,
    /// Whether a job ever held the same GPUs as another. Empty where that is impossible.
    pub(crate) seated: Vec<bool>,
    /// The results of trials.
    pub(crate) climbing: Climbing,
    /// When servers were asleep, by server and time, s. Kept where they may sleep.
    pub(crate) asleep: Vec<Asleep>,
    /// What nobody holds of servers that drain, in order of time.
    pub(crate) drained: Vec<Drained>,
    /// The results of services.
    pub(crate) serving: Serving,
    /// The decisions, where they are recorded.
    pub(crate) log: DecisionLog,
}

impl ClusterOutcome {
    pub(crate) fn new(jobs: usize, record: bool) -> Self {
        Self {
            arrival: Vec::new(),
            start: vec![f64::NAN; jobs],
            finish: vec![f64::NAN; jobs],
            num_servers: vec![0; jobs],
            max_contention: vec![0; jobs],
            crossings: Crossings::default(),
            links: LinkLog::default(),
            wait_causes: vec![(0.0, 0.0); jobs],
            allocations: if record { Allocations::for_jobs(jobs) } else { Allocations::default() },
            contention: Vec::new(),
            contention_seconds: 0.0,
            events: 0,
            decisions: 0,
            displaced: 0,
            pauses: false,
            stay_log: StayLog::default(),
            refused: Vec::new(),
            ended: Vec::new(),
            seated: Vec::new(),
            climbing: Climbing::default(),
            asleep: Vec::new(),
            drained: Vec::new(),
            serving: Serving::default(),
            log: DecisionLog::default(),
        }
    }

    /// Returns an empty outcome like `new`, for runs where stays may end before their jobs are done.
    pub(crate) fn of_stays(jobs: usize, record: bool) -> Self {
        Self { refused: vec![false; jobs], ended: vec![false; jobs], ..Self::new(jobs, record) }
    }

    pub(crate) fn note_contention(&mut self, time: f64, sum: u64) {
        match self.contention.last_mut() {
            Some(last) if last.0 == time => last.1 = sum,
            _ => self.contention.push((time, sum)),
        }
    }

    /// Converts clock time to seconds.
    pub(crate) fn convert_times(&mut self, seconds: impl Fn(f64) -> f64) {
        let allocations = &mut self.allocations;
        for times in [
            &mut self.start,
            &mut self.finish,
            &mut allocations.start,
            &mut allocations.end,
            &mut allocations.busy_from,
        ] {
            times.iter_mut().for_each(|t| *t = seconds(*t));
        }
        self.log.rows.iter_mut().for_each(|row| row.time = seconds(row.time));
        self.stay_log.convert_times(&seconds);
        self.climbing.convert_times(&seconds);
        self.serving.convert_times(&seconds);
        self.drained.iter_mut().for_each(|row| row.time = seconds(row.time));
        self.contention.iter_mut().for_each(|(t, _)| *t = seconds(*t));
    }
}

/// State of the cluster at sampled times, right-continuous: after everything that happens at that instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Time, s.
    pub time: Vec<f64>,
    /// Jobs on GPUs.
    pub running_jobs: Vec<u32>,
    /// Jobs waiting; under the slot clock a job waits from the first boundary not before its submission.
    pub queued_jobs: Vec<u32>,
    /// GPUs held; thousandths of one where the table has shares.
    pub busy_gpus: Vec<u64>,
    /// GPUs requested by waiting jobs; thousandths of one where the table has shares.
    pub queued_gpus: Vec<u64>,
    /// Jobs on two or more servers.
    pub spanning_jobs: Vec<u32>,
    /// Mean p_j over the spanning jobs, 0 if there is none.
    pub mean_contention: Vec<f64>,
}

/// The columns of a finished replay, in the caller's row order.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Whether the job ran to its end; `false` where it was dropped as oversize, refused or ended.
    pub kept: Vec<bool>,
    /// When each job arrived, s; `None` where that is its submission.
    pub arrival: Option<Vec<f64>>,
    /// First start, s; NaN if it never ran.
    pub start: Vec<f64>,
    /// Finish, s; if a verb ended it, when it last held GPUs. NaN if it never ran.
    pub finish: Vec<f64>,
    /// Servers used.
    pub num_servers: Vec<u32>,
    /// Largest p_j of the job.
    pub max_contention: Vec<u32>,
    /// What jobs met of a network of tiers; `None` without one.
    pub crossings: Option<Crossings>,
    /// What the uplinks of a network of tiers carried; `None` without one.
    pub links: Option<Links>,
    /// Time off its GPUs, s, with fewer idle GPUs than it requests.
    pub wait_gpus: Vec<f32>,
    /// Time off its GPUs, s, with enough idle GPUs that its placement could not use.
    pub wait_fragmented: Vec<f32>,
    /// The features of the run that end or resize stays.
    pub knows: Knows,
    /// The sums of the stays of each job; `None` if every job has a single stay without a pause.
    pub sums: Option<SumsByJob>,
    /// Every stay; `None` if no stay can end before its job is done.
    pub stays: Option<Stays>,
    /// Whether admission or a verb refused it; then `kept` is `false` too. Empty where that is impossible.
    pub refused: Vec<bool>,
    /// Whether a verb ended it; then `kept` is `false` too. Empty where that is impossible.
    pub ended: Vec<bool>,
    /// Whether it ever held the same GPUs as another job. Empty where that is impossible.
    pub seated: Vec<bool>,
    /// Added run time from GPU types other than the recorded one, s; negative on faster ones. Empty where all GPUs are
    /// alike.
    pub on_types: Vec<f64>,
    /// When servers were asleep, by virtual cluster, server and time; `None` where they never sleep.
    pub asleep: Option<Vec<Asleep>>,
    /// What nobody held of servers that drained, by virtual cluster and time; empty where none did.
    pub drained: Vec<Drained>,
    /// The results of services; `None` if the run has none.
    pub serving: Option<Serving>,
    /// Every rung that a trial reached, by virtual cluster, then in order of time; `None` where no search was judged.
    pub climbs: Option<Vec<Climb>>,
    /// In order of (row, start, server).
    pub allocations: Allocations,
    /// Sampled state.
    pub timeline: Timeline,
    /// Arrivals and completions.
    pub events: u64,
    /// Placement attempts.
    pub decisions: u64,
    /// Jobs whose recorded place was not allowed when they were tried there (policy `recorded`).
    pub displaced: u64,
    /// Sum over jobs of the integral of p_j over time, s.
    pub contention_seconds: f64,
    /// Time that spanning jobs ran, s, summed over them.
    pub spanning_seconds: f64,
    /// GPU-seconds held up to the last submission.
    pub held_while_submitting: HeldWhileSubmitting,
    /// The decisions, if the caller requested them.
    pub log: DecisionLog,
    /// Time in the engine, s: from input columns to result columns.
    pub engine_seconds: f64,
}

impl Outcome {
    /// Returns the stays of each row after which its job did not continue there: preempted, moved or resized.
    #[must_use]
    pub fn preemptions(&self) -> Vec<u32> {
        let ends = Ends::of(&["preempted", "moved", "resized"]);
        let count = |sums: &SumsByJob| sums.iter().map(|own| own.count(ends)).collect();
        self.sums.as_ref().map_or_else(|| vec![0; self.start.len()], count)
    }
}

/// GPU-seconds that jobs held up to the last submission of a job that ran: the tail after it is excluded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HeldWhileSubmitting {
    /// Of all jobs, up to the last of all submissions.
    pub all: f64,
    /// By virtual cluster, each up to its own last submission.
    pub by_cluster: Vec<f64>,
}

/// Features of a run that end or resize stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knows {
    /// Outages were given.
    pub outages: bool,
    /// Jobs may be evicted.
    pub room: bool,
    /// Jobs may hold the same GPUs.
    pub seats: bool,
    /// They lose work then, or by outages.
    pub losses: bool,
    /// Jobs may hold other numbers of GPUs than they request.
    pub elastic: bool,
    /// Jobs end at their time limits.
    pub limits: bool,
}

/// Returns sample times: `count` even steps over [from, to], both ends included, or every `step` from `from`.
///
/// # Errors
/// `Option` if that step makes more points than a timeline may have.
pub(crate) fn sample_times(from: f64, to: f64, step: Option<f64>) -> Result<Vec<f64>> {
    Ok(match step {
        Some(step) => {
            let count = ((to - from) / step).floor() as u64;
            if count >= MOST_SAMPLES {
                let value = format!("{step:?}");
                let expected = format!("a time of which the run lasts fewer than {MOST_SAMPLES}");
                return Err(Error::Option { name: "sample", value, expected });
            }
            (0..=count).map(|i| from + i as f64 * step).collect()
        }
        None => {
            let last = DEFAULT_SAMPLES - 1;
            let at = |i: u32| if i == last { to } else { from + (to - from) * f64::from(i) / f64::from(last) };
            (0..=last).map(at).collect()
        }
    })
}

/// Points of a timeline if no step is given.
const DEFAULT_SAMPLES: u32 = 2000;
/// The most points of a timeline: they take half a gigabyte.
const MOST_SAMPLES: u64 = 10_000_000;

/// Changes of `K` numbers, grouped by the first sample that includes them.
struct Changes<'a, const K: usize> {
    times: &'a [f64],
    /// Samples per second.
    pace: f64,
    by_sample: Vec<[i64; K]>,
}

impl<'a, const K: usize> Changes<'a, K> {
    fn at(times: &'a [f64]) -> Self {
        let last = times.len() - 1;
        Self { times, pace: last as f64 / (times[last] - times[0]), by_sample: vec![[0; K]; times.len() + 1] }
    }

    #[inline]
    fn note(&mut self, time: f64, by: [i64; K]) {
        // A guess from the even spacing, corrected by comparison.
        let guess = ((time - self.times[0]) * self.pace) as usize;
        let mut at = guess.min(self.times.len() - 1);
        while at > 0 && self.times[at - 1] >= time {
            at -= 1;
        }
        while at < self.times.len() && self.times[at] < time {
            at += 1;
        }
        add(&mut self.by_sample[at], &by);
    }

    /// Returns the sums of the changes so far, at each sample.
    fn sums(mut self) -> Vec<[i64; K]> {
        self.by_sample.pop();
        let mut sum = [0; K];
        for changes in &mut self.by_sample {
            add(&mut sum, changes);
            *changes = sum;
        }
        self.by_sample
    }
}

fn add<const K: usize>(sum: &mut [i64; K], by: &[i64; K]) {
    sum.iter_mut().zip(by).for_each(|(s, b)| *s += b);
}

/// One stay as the timeline sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) submit: f64,
    /// When the scheduler first sees it: the boundary after the submission under the slot clock.
    pub(crate) seen: f64,
    pub(crate) start: f64,
    pub(crate) finish: f64,
    /// From when on its GPUs are not those of another job already.
    pub(crate) busy_from: f64,
    /// GPUs requested while it waits, and GPUs held while it runs; thousandths of one where the table has shares.
    pub(crate) asks: u32,
    pub(crate) num_gpus: u32,
    pub(crate) spanning: bool,
    /// Which virtual cluster it ran on.
    pub(crate) cluster: u32,
}

/// The totals over time of the stays of all jobs that ran.
#[derive(Debug)]
pub(crate) struct Course {
    pub(crate) timeline: Timeline,
    pub(crate) held_while_submitting: HeldWhileSubmitting,
    pub(crate) spanning_seconds: f64,
    /// The first start and the last finish, s.
    pub(crate) ran: (f64, f64),
}

/// Sums the stays of jobs on `clusters` virtual clusters over time. GPUs are counted in units, `units` per GPU.
/// `contention`: per cluster, (time, sum of p_j from then on).
pub(crate) fn course(
    spans: impl Iterator<Item = Span> + Clone,
    clusters: usize,
    units: f64,
    contention: &[Vec<(f64, u64)>],
    step: Option<f64>,
) -> Result<Course> {
    // Spans are recomputed on each pass, which costs more than using them: so there are only two passes.
    let mut last = vec![f64::NEG_INFINITY; clusters];
    let (mut from, mut to, mut spanning_seconds) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
    let mut first_start = f64::INFINITY;
    spans.clone().for_each(|span| {
        let own = &mut last[span.cluster as usize];
        *own = own.max(span.submit);
        (from, to) = (from.min(span.submit), to.max(span.finish));
        if span.start < first_start {
            first_start = span.start;
        }
        if span.spanning {
            spanning_seconds += span.finish - span.start;
        }
    });
    let mut held = HeldWhileSubmitting { all: 0.0, by_cluster: vec![0.0; clusters] };
    let ran = (first_start, to);
    if from > to {
        return Ok(Course { timeline: Timeline::default(), held_while_submitting: held, spanning_seconds, ran });
    }
    let last_of_all = last.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let times = sample_times(from, to, step)?;
    let (mut submitted, mut started, mut finished) = (Changes::at(&times), Changes::at(&times), Changes::at(&times));
    spans.for_each(|span| {
        let until = |end: f64| f64::from(span.num_gpus) * (span.finish.min(end) - span.busy_from).max(0.0);
        held.all += until(last_of_all);
        held.by_cluster[span.cluster as usize] += until(last[span.cluster as usize]);
        let (asks, num_gpus, spanning) = (i64::from(span.asks), i64::from(span.num_gpus), i64::from(span.spanning));
        submitted.note(span.seen, [1, asks]);
        if span.busy_from == span.start {
            started.note(span.start, [1, num_gpus, spanning, asks]);
        } else {
            started.note(span.start, [1, 0, spanning, asks]);
            started.note(span.busy_from, [0, num_gpus, 0, 0]);
        }
        finished.note(span.finish, [1, num_gpus, spanning]);
    });
    held.all /= units;
    held.by_cluster.iter_mut().for_each(|own| *own /= units);
    let mut crowds = Changes::at(&times);
    for log in contention {
        let mut before = 0;
        for &(time, sum) in log {
            crowds.note(time, [sum as i64 - before]);
            before = sum as i64;
        }
    }
    let (submitted, started, finished, crowds) = (submitted.sums(), started.sums(), finished.sums(), crowds.sums());
    fn minus<const A: usize, const B: usize>(a: &[[i64; A]], b: &[[i64; B]], of: (usize, usize)) -> Vec<u64> {
        a.iter().zip(b).map(|(x, y)| (x[of.0] - y[of.1]) as u64).collect()
    }
    let narrow = |v: Vec<u64>| -> Vec<u32> { v.into_iter().map(|x| x as u32).collect() };
    let spanning_jobs = narrow(minus(&started, &finished, (2, 2)));
    let mean = |(&jobs, &[sum]): (&u32, &[i64; 1])| if jobs == 0 { 0.0 } else { sum as f64 / f64::from(jobs) };
    let timeline = Timeline {
        running_jobs: narrow(minus(&started, &finished, (0, 0))),
        queued_jobs: narrow(minus(&submitted, &started, (0, 0))),
        busy_gpus: minus(&started, &finished, (1, 1)),
        queued_gpus: minus(&submitted, &started, (1, 3)),
        mean_contention: spanning_jobs.iter().zip(&crowds).map(mean).collect(),
        spanning_jobs,
        time: times,
    };
    Ok(Course { timeline, held_while_submitting: held, spanning_seconds, ran })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeline_is_right_continuous() {
        let span = |submit, start, finish, num_gpus, spanning| Span {
            submit,
            seen: submit,
            start,
            finish,
            busy_from: start,
            asks: num_gpus,
            num_gpus,
            spanning,
            cluster: 0,
        };
        let spans = [span(0.0, 0.0, 4.0, 2, true), span(1.0, 4.0, 6.0, 1, false)];
        let course = course(spans.iter().copied(), 1, 1.0, &[vec![(0.0, 1), (4.0, 0)]], Some(1.0)).unwrap();
        let drawn = course.timeline;
        assert_eq!(course.spanning_seconds, 4.0);
        assert_eq!(drawn.time, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(drawn.running_jobs, [1, 1, 1, 1, 1, 1, 0]);
        assert_eq!(drawn.queued_jobs, [0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(drawn.busy_gpus, [2, 2, 2, 2, 1, 1, 0]);
        assert_eq!(drawn.queued_gpus, [0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(drawn.spanning_jobs, [1, 1, 1, 1, 0, 0, 0]);
        assert_eq!(drawn.mean_contention, [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn what_is_held_is_cut_at_the_last_submission() {
        let span = |submit, start, finish, num_gpus, cluster| Span {
            submit,
            seen: submit,
            start,
            finish,
            busy_from: start,
            asks: num_gpus,
            num_gpus,
            spanning: false,
            cluster,
        };
        // Cluster 0 takes its last job at 6 s, cluster 1 at 10 s; the first job runs in two stays.
        let spans = [
            span(0.0, 0.0, 4.0, 2, 0),
            span(0.0, 5.0, 8.0, 2, 0),
            span(6.0, 8.0, 9.0, 1, 0),
            span(1.0, 2.0, 30.0, 4, 1),
            span(10.0, 30.0, 31.0, 1, 1),
        ];
        let held = course(spans.iter().copied(), 2, 1.0, &[], None).unwrap().held_while_submitting;
        assert_eq!(held.by_cluster, [2.0 * (4.0 + 1.0), 4.0 * 8.0]);
        assert_eq!(held.all, 2.0 * (4.0 + 3.0) + 1.0 + 4.0 * 8.0);
    }

    #[test]
    fn default_samples_include_both_ends() {
        let times = sample_times(3.0, 10.0, None).unwrap();
        assert_eq!((times.len(), times[0], times[1999]), (2000, 3.0, 10.0));
    }
}
