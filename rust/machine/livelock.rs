//! Detects runs that cannot end because the policy ends stay after stay without progress (docs/policies.md).
//!
//! Invariant: the records before `from` are older than the latest event from outside, or than a stay that kept work.
//! For example, where two jobs take turns every 10 s and each stay begins with a pause of 30 s, no stay keeps any work:
//! the run fails when the 1,004th ends.
//!
//! Stays are not counted one by one: the record is checked once it has grown by enough rows.

use super::policy::Policy;
use super::{ClusterState, Machine};
use crate::error::{Error, Result};
use crate::record::{StayRecord, Why};
use crate::speed::Speed;

/// This many stays, plus two per job, may end in a row without keeping work.
const MOST: usize = 1000;

/// Where the count begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Livelock {
    from: usize,
    /// Number of records below which no check is needed.
    look_at: usize,
}

/// Returns whether the policy ended a stay, for itself or for another job.
fn is_of_policy(records: &StayRecord) -> bool {
    let by_policy =
        matches!(records.why, Why::Preempted | Why::Moved | Why::Resized | Why::EvictedBy(_) | Why::Dropped);
    by_policy && records.counts()
}

/// Returns whether work done in a stay is kept. No work is done during a pause, whatever rounding says.
fn keeps_work(records: &StayRecord) -> bool {
    records.why != Why::Void && records.kept > 0.0 && records.end > records.from
}

impl<'a, P: Policy<S>, S: Speed> Machine<'a, P, S> {
    /// Restarts the count: an event came from outside, or a job is done.
    #[inline(always)]
    pub(super) fn begin_count(&mut self) {
        self.livelock.from = self.state.out.stay_log.records.len();
        self.livelock.look_at = self.livelock.from + MOST + 2 * self.state.jobs.len();
    }

    /// Returns whether it is time to count. An instant is counted only once it is over, since its verbs may continue a
    /// stay that they ended.
    #[inline(always)]
    pub(super) fn is_time_to_count(&self, next: f64) -> bool {
        self.state.out.stay_log.records.len() >= self.livelock.look_at && next > self.state.now
    }
}

impl Livelock {
    /// Counts the latest stays that kept nothing. A stay keeps the work that remains done once its job has fallen back
    /// to a checkpoint. No stay begins with less saved work than earlier ones left, so any kept work is more than its
    /// job ever had.
    ///
    /// # Errors
    /// `Livelock` if there are too many.
    #[cold]
    #[inline(never)]
    pub(super) fn count_stays<S: Speed>(&mut self, state: &ClusterState<'_, S>) -> Result<()> {
        let (records, enough) = (&state.out.stay_log.records, MOST + 2 * state.jobs.len());
        if self.look_at == 0 {
            (self.from, self.look_at) = (records.len(), records.len() + enough);
            return Ok(());
        }
        let latest = records[self.from..].iter().rposition(keeps_work);
        self.from += latest.map_or(0, |at| at + 1);
        let ended = records[self.from..].iter().filter(|records| is_of_policy(records));
        let count = ended.clone().count();
        if count < enough || state.follows_log {
            self.look_at = records.len() + enough.saturating_sub(count).max(1);
            return Ok(());
        }
        let since = ended.map(|records| records.start).next().unwrap_or(state.now);
        Err(Error::Livelock { stays: count, since: state.clock.seconds(since), time: state.seconds() })
    }
}
