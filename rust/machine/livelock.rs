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
use crate::record::{StayRecord, Why};
use crate::speed::Speed;

/// So many stays, and two for each job, may end in a row without work that is kept.
const MOST: usize = 1000;

/// Where the count begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Livelock {
    from: usize,
    /// With fewer rows in the record there is no need to look.
    look_at: usize,
}

/// Whether the policy ended a stay: for its own ends, or for another job.
fn is_of_policy(records: &StayRecord) -> bool {
    let by_policy =
        matches!(records.why, Why::Preempted | Why::Moved | Why::Resized | Why::EvictedBy(_) | Why::Dropped);
    by_policy && records.counts()
}

/// Whether work that was done in a stay is kept. While it pauses nothing is done, whatever rounding says.
fn keeps_work(records: &StayRecord) -> bool {
    records.why != Why::Void && records.kept > 0.0 && records.end > records.from
}

impl<'a, P: Policy<S>, S: Speed> Machine<'a, P, S> {
    /// Something came from outside, or a job is done: the count begins anew.
    #[inline(always)]
    pub(super) fn begin_count(&mut self) {
        self.livelock.from = self.state.out.stay_log.records.len();
        self.livelock.look_at = self.livelock.from + MOST + 2 * self.state.jobs.len();
    }

    /// Whether it is time to count. An instant is looked at once it is over, since what its verbs ended they may take up
    /// again.
    #[inline(always)]
    pub(super) fn is_time_to_count(&self, next: f64) -> bool {
        self.state.out.stay_log.records.len() >= self.livelock.look_at && next > self.state.now
    }

    /// Counts the latest stays that kept nothing. Kept is what is left of a stay's work once its job has fallen back to a
    /// checkpoint. No stay begins with less work saved than the ones before it left, so that whatever one keeps is more
    /// than its job ever had.
    ///
    /// # Errors
    /// `Futile` where there are as many as it takes.
    #[cold]
    pub(super) fn count_stays(&mut self) -> Result<()> {
        let records = &self.state.out.stay_log.records;
        if self.livelock.look_at == 0 {
            self.begin_count();
            return Ok(());
        }
        let latest = records[self.livelock.from..].iter().rposition(keeps_work);
        self.livelock.from += latest.map_or(0, |at| at + 1);
        let ended = records[self.livelock.from..].iter().filter(|records| is_of_policy(records));
        let (count, enough) = (ended.clone().count(), MOST + 2 * self.state.jobs.len());
        if count < enough || self.state.follows_log {
            self.livelock.look_at = records.len() + enough.saturating_sub(count).max(1);
            return Ok(());
        }
        let since = ended.map(|records| records.start).next().unwrap_or(self.state.now);
        let (since, time) = (self.state.clock.seconds(since), self.state.seconds());
        Err(Error::Livelock { stays: count, since, time })
    }
}
