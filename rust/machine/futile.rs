//! Runs that cannot end: the policy ends stay after stay, and nothing comes of any of them (docs/policies.md).
//!
//! Invariant: the rows of the record before `from` are older than the latest event from outside, or than a stay that kept
//! work. For example, where two jobs take turns every 10 s and each stay begins with a pause of 30 s, no stay keeps any: the
//! 1,004th that ends is the last.
//!
//! Nothing is counted as stays end: the record is looked at once it has grown by as many rows as it takes.

use super::Machine;
use super::policy::Policy;
use crate::error::{Error, Result};
use crate::record::{Past, Why};
use crate::speed::Speed;

/// So many stays, and two for each job, may end in a row without work that is kept.
const MOST: usize = 1000;

/// Where the count begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Futile {
    from: usize,
    /// With fewer rows in the record there is no need to look.
    look_at: usize,
}

/// Whether the policy ended a stay: for its own ends, or for another job.
fn is_of_policy(past: &Past) -> bool {
    let by_policy = matches!(past.why, Why::Preempted | Why::Moved | Why::Resized | Why::EvictedBy(_) | Why::Dropped);
    by_policy && past.counts()
}

/// Whether work that was done in a stay is kept. While it pauses nothing is done, whatever rounding says.
fn keeps_work(past: &Past) -> bool {
    past.why != Why::Void && past.kept > 0.0 && past.end > past.from
}

impl<'a, P: Policy<S>, S: Speed> Machine<'a, P, S> {
    /// Something came from outside, or a job is done: the count begins anew.
    #[inline(always)]
    pub(super) fn begin_count(&mut self) {
        self.futile.from = self.floor.out.books.past.len();
        self.futile.look_at = self.futile.from + MOST + 2 * self.floor.jobs.len();
    }

    /// Whether it is time to count. An instant is looked at once it is over, since what its verbs ended they may take up
    /// again.
    #[inline(always)]
    pub(super) fn is_time_to_count(&self, next: f64) -> bool {
        self.floor.out.books.past.len() >= self.futile.look_at && next > self.floor.now
    }

    /// Counts the latest stays that kept nothing. Kept is what is left of a stay's work once its job has fallen back to a
    /// checkpoint. No stay begins with less work saved than the ones before it left, so that whatever one keeps is more
    /// than its job ever had.
    ///
    /// # Errors
    /// `Futile` where there are as many as it takes.
    #[cold]
    pub(super) fn count_stays(&mut self) -> Result<()> {
        let past = &self.floor.out.books.past;
        if self.futile.look_at == 0 {
            self.begin_count();
            return Ok(());
        }
        let latest = past[self.futile.from..].iter().rposition(keeps_work);
        self.futile.from += latest.map_or(0, |at| at + 1);
        let ended = past[self.futile.from..].iter().filter(|past| is_of_policy(past));
        let (count, enough) = (ended.clone().count(), MOST + 2 * self.floor.jobs.len());
        if count < enough || self.floor.follows_log {
            self.futile.look_at = past.len() + enough.saturating_sub(count).max(1);
            return Ok(());
        }
        let since = ended.map(|past| past.start).next().unwrap_or(self.floor.now);
        let (since, time) = (self.floor.clock.seconds(since), self.floor.seconds());
        Err(Error::Futile { stays: count, since, time })
    }
}
