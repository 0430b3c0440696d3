//! What running jobs hold of servers that drain: it comes free for nobody.
//!
//! For example, of a job with 8 GPUs, 4 of them on a server that drains, 4 come free when it ends.

use super::run_times::RunTimes;
use super::server_index::ServerIndex;
use crate::ids::Job;
use crate::machine::ClusterState;
use crate::speed::Speed;

impl<F: RunTimes> ServerIndex<F> {
    /// Returns whether a running job holds GPUs of a server that drains.
    pub(super) fn is_on_draining<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> bool {
        state.drains() && state.is_on_draining(self.slot[job.index()])
    }

    /// Returns the units that a job holds of servers that drain, which come free for nobody.
    pub(super) fn units_draining<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> u64 {
        if !self.is_on_draining(state, job) {
            return 0;
        }
        let here = self.parts(state, job).iter().filter(|part| state.is_draining(part.0));
        let gpus: u32 = here.map(|part| part.1).sum();
        u64::from(gpus) * u64::from(state.units(job)) / u64::from(state.asks(job))
    }
}
