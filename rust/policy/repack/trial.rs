//! Whether evicting is worth it on this trace: the latest arrivals are replayed with and without it.
//!
//! A trial knows no more than the run did: it begins with an empty cluster and no completed job. For example, where
//! jobs of one size may run for seconds or for days, evicting whoever ran long gains much, and the trial shows it.

use super::Repack;
use super::history::History;
use crate::ids::Job;
use crate::machine::{Machine, Unwatched};
use crate::options::{Model, Options};
use crate::setting::Setting;
use crate::speed::FixedSpeed;
use crate::trace::Jobs;

/// Completed jobs before the first trial, and least between two.
pub(super) const LEAST: usize = 60;

/// Arrivals that a trial replays.
pub(super) const RECENT: usize = 400;

/// Seconds between two trials at least.
const PERIOD: f64 = 21_600.0;

/// The other way must have a mean JCT of at most so much of this way's.
const BETTER: f64 = 0.92;

/// Completed jobs, and seconds, at which the trial after one is due. 15 % more must be done.
pub(super) fn after(completed: usize, now: f64) -> (usize, f64) {
    (completed + usize::max(LEAST, completed * 15 / 100), now + PERIOD)
}

/// Whether the other way to deal with evictions is clearly better. recent: jobs in order of submission, and how long
/// each is taken to run, s.
pub(super) fn is_better(setting: &Setting<'_>, recent: &[(Job, f64)], evicts: bool) -> bool {
    mean_jct(setting, recent, !evicts) <= BETTER * mean_jct(setting, recent, evicts)
}

/// Mean JCT, s, of the recent jobs.
fn mean_jct(setting: &Setting<'_>, recent: &[(Job, f64)], evicts: bool) -> f64 {
    let whole = |column: &[u32]| -> Vec<u32> { recent.iter().map(|(job, _)| column[job.index()]).collect() };
    let num_gpus = whole(setting.jobs.num_gpus);
    let user = setting.user.map(whole);
    let submit: Vec<f64> = recent.iter().map(|(job, _)| setting.jobs.submit[job.index()]).collect();
    let duration: Vec<f64> = recent.iter().map(|&(_, seconds)| seconds).collect();
    let rows: Vec<u32> = (0..recent.len() as u32).collect();
    let jobs = Jobs { submit: &submit, num_gpus: &num_gpus, duration: &duration, ..Jobs::default() };
    let options = setting.options.clone();
    let options = Options { model: Model::Fixed, record_allocations: false, record_decisions: false, ..options };
    // Nothing is decided by who sleeps.
    let options = Options { sleep_after: f64::INFINITY, ..options };
    let user = user.as_deref();
    let trial = Setting { jobs, rows: &rows, deadline: None, user, key: None, options: &options, ..*setting };
    let policy = Repack::new(&trial, History::in_trial(&trial, evicts));
    let mut machine = Machine::new(&trial, FixedSpeed, policy);
    if machine.run(f64::INFINITY, &mut Unwatched).is_err() {
        return f64::INFINITY;
    }
    let finish = machine.into_outcome().finish;
    finish.iter().zip(&submit).map(|(finish, submit)| finish - submit).sum::<f64>() / submit.len() as f64
}
