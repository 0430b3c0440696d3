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

#[cfg(test)]
mod tests {
    use super::{PERIOD, after, is_better};
    use crate::cluster::{FewestServers, Network};
    use crate::ids::Job;
    use crate::options::{Options, Placement};
    use crate::setting::Setting;
    use crate::trace::OwnedJobs;

    #[test]
    fn when_the_next_trial_is_due() {
        assert_eq!(after(100, 5.0), (160, 5.0 + PERIOD));
        assert_eq!(after(1000, 5.0), (1150, 5.0 + PERIOD));
    }

    #[test]
    fn evicting_is_better_where_one_job_holds_up_many() {
        let (rows, servers, options): (Vec<u32>, _, _) = (
            (0..20).collect(),
            [1],
            Options {
                preemption: crate::policies::named("repack"),
                placement: Placement::Consolidate,
                ..Options::default()
            },
        );
        let jobs = OwnedJobs {
            submit: rows.iter().map(|&row| 10.0 * f64::from(row)).collect(),
            num_gpus: vec![1; rows.len()],
            ..OwnedJobs::default()
        };
        let few = FewestServers::new(&servers);
        let setting = Setting::new(jobs.view(), &rows, &servers, &few, Network::default(), &options);
        let lasts = |row: u32| if row == 0 { 1e5 } else { 5.0 };
        let recent: Vec<(Job, f64)> = rows.iter().map(|&row| (Job::at(row as usize), lasts(row))).collect();
        assert!(is_better(&setting, &recent, false) && !is_better(&setting, &recent, true));
        // Nothing is to be gained.
        let alike: Vec<(Job, f64)> = recent.iter().map(|&(job, _)| (job, 5.0)).collect();
        assert!(!is_better(&setting, &alike, false) && !is_better(&setting, &alike, true));
    }
}
