//! Runs the parts of a cluster side by side.
//!
//! Invariant: every part runs as if it were alone, with its own seed, so the order in which parts end does not
//! matter. For example, if two parts fail, the error of the lower row is reported, whichever came first.

use super::Extras;
use super::logs::Dealt;
use super::parts::Part;
use crate::error::{Error, Result};
use crate::machine::Watch;
use crate::options::Options;
use crate::outcome::ClusterOutcome;
use crate::policy;
use crate::rng::GOLDEN;
use crate::setting::Setting;
use crate::trace::{FairShares, FairUsers, Jobs};
use rayon::prelude::*;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Sums the progress of clusters that run side by side.
struct Shared<'a> {
    stop: &'a AtomicBool,
    finished: &'a AtomicUsize,
    reported: usize,
}

impl Watch for Shared<'_> {
    fn tick(&mut self, finished: usize) -> Result<()> {
        self.finished.fetch_add(finished - self.reported, Ordering::Relaxed);
        self.reported = finished;
        if self.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}

/// Returns the options of a part: its random draws are its own.
pub(crate) fn part_options(options: &Options, part: usize) -> Options {
    Options { seed: options.seed.wrapping_add((part as u64).wrapping_mul(GOLDEN)), ..options.clone() }
}

/// Does something with the setting of a part, which has no log.
pub(super) fn in_part<T>(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    (index, part): (usize, &Part),
    options: &Options,
    act: impl FnOnce(&Setting<'_>) -> T,
) -> T {
    let own = part_options(options, index);
    // Columns already in order need no copy.
    let gathered = (!part.whole).then(|| jobs.gather(&part.rows, options.model));
    let view = gathered.as_ref().map_or(*jobs, |g| g.view());
    let gather = gathered.is_some();
    let deadline = extras.deadline.map(|d| pick(d, &part.rows, gather));
    let user = extras.user.map(|u| pick(u, &part.rows, gather));
    let predicted = extras.predicted.map(|column| pick(column, &part.rows, gather));
    let estimated = extras.estimated.map(|column| pick(column, &part.rows, gather));
    let key = extras.key.map(|k| pick(k, &part.rows, gather));
    let recorded = extras.recorded.map(|recorded| recorded.of(&part.rows, &part.servers));
    let side = extras.side.of(&part.servers, &part.rows);
    let fair = extras.fair.map(|fair| pick(fair.owner, &part.rows, gather));
    let fair_users = extras.fair.and_then(|fair| fair.users).map(|users| pick(users.user, &part.rows, gather));
    act(&Setting {
        arrivals: part.arrivals.as_deref(),
        deadline: deadline.as_deref(),
        user: user.as_deref(),
        predicted: predicted.as_deref(),
        estimated: estimated.as_deref(),
        key: key.as_deref(),
        opens: jobs.opens(),
        side: side.view(),
        recorded: recorded.as_ref(),
        fair: extras.fair.zip(fair.as_deref()).map(|(fair, owner)| {
            let users = fair.users.zip(fair_users.as_deref());
            FairShares { owner, users: users.map(|(users, user)| FairUsers { user, ..users }), ..fair }
        }),
        server_types: part.server_types.as_deref().filter(|_| jobs.types.is_some()),
        tiers: &part.tiers,
        ..Setting::new(view, &part.rows, &part.server_gpus, &part.few, part.network.clone(), &own)
    })
}

pub(super) fn run_parts(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    logs: Option<&[Dealt]>,
    parts: &[Part],
    options: &Options,
    watch: &mut dyn Watch,
) -> Result<Vec<ClusterOutcome>> {
    let run = |index: usize, watch: &mut dyn Watch| {
        let dealt = logs.map(|logs| &logs[index]);
        let run = |setting: &Setting<'_>| {
            policy::run(&Setting { log: dealt.map(|dealt| &dealt.log), ..setting.clone() }, watch)
        };
        in_part(jobs, extras, (index, &parts[index]), options, run).map_err(|error| match dealt {
            Some(dealt) => dealt.tell(error),
            None => error,
        })
    };
    if parts.len() == 1 {
        return Ok(vec![run(0, watch)?]);
    }
    let (stop, finished, done) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicBool::new(false));
    let mut results: Vec<Result<ClusterOutcome>> = Vec::new();
    let mut interrupted = Ok(());
    rayon::in_place_scope(|scope| {
        scope.spawn(|_| {
            results = (0..parts.len())
                .into_par_iter()
                .map(|index| run(index, &mut Shared { stop: &stop, finished: &finished, reported: 0 }))
                .collect();
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            if interrupted.is_ok() {
                interrupted = watch.tick(finished.load(Ordering::Relaxed));
                stop.store(interrupted.is_err(), Ordering::Relaxed);
            }
            // On a thread of the pool itself there may be no other to do the work.
            if rayon::yield_now() != Some(rayon::Yield::Executed) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    });
    interrupted?;
    // Of several errors the one with the lowest row is reported, not the first one met.
    let worst = results.iter().filter_map(|r| r.as_ref().err()).min_by_key(|e| e.row());
    if let Some(error) = worst {
        return Err(error.clone());
    }
    results.into_iter().collect()
}

/// Returns the chosen rows of a column, copied only if they are not the whole column in order.
fn pick<'a, T: Copy>(column: &'a [T], rows: &[u32], gather: bool) -> Cow<'a, [T]> {
    if gather && !column.is_empty() {
        rows.iter().map(|&row| column[row as usize]).collect()
    } else {
        Cow::Borrowed(column)
    }
}
