//! A stay that ended before its job was done, by a verb, an eviction or a rung, as it was before: so that what happens at
//! one instant can be netted (docs/model.md).
//!
//! Invariant: putting it back leaves the books as if the stay had never ended. For example, a policy that stops every
//! job and starts each again on the same GPUs at the same instant has done nothing: no pause, no preemption.

use super::ledger::Ledger;
use super::stays::Stay;
use crate::ids::Server;
use crate::outcome::{ClusterOutcome, Elastic};

#[derive(Clone, Debug)]
pub(super) struct Undone<P> {
    pub(super) stay: Stay<P>,
    /// (server, index of the GPU there), where jobs may hold shares.
    pub(super) gpus: Vec<(Server, u32)>,
    /// Whether a verb ended it, and whether it was over quota.
    pub(super) by_verb: bool,
    pub(super) was_over: bool,
    left: f64,
    served: f64,
    held: f64,
    lost: f64,
    spread: f64,
    on_types: Option<f64>,
    elastic: Option<Elastic>,
    obstacles: (f64, f64),
    preemptions: u32,
    evictions: Option<u32>,
    rests: Option<u32>,
    num_servers: u32,
    max_contention: u32,
}

impl<P: Clone> Undone<P> {
    /// What the end of this stay will change.
    pub(super) fn of(stay: &Stay<P>, ledger: Option<&Ledger>, out: &ClusterOutcome) -> Self {
        let j = stay.job.index();
        Self {
            gpus: Vec::new(),
            by_verb: false,
            was_over: false,
            left: ledger.map_or(0.0, |ledger| ledger.left[j]),
            served: ledger.map_or(0.0, |ledger| ledger.served[j]),
            held: out.held[j],
            lost: out.lost[j],
            spread: out.spread[j],
            on_types: out.on_types.get(j).copied(),
            elastic: out.elastic.get(j).copied(),
            obstacles: out.obstacles[j],
            preemptions: out.preemptions[j],
            evictions: out.evictions.get(j).copied(),
            rests: out.climbing.pauses.get(j).copied(),
            num_servers: out.num_servers[j],
            max_contention: out.max_contention[j],
            stay: stay.clone(),
        }
    }

    /// Makes that undone; the GPUs and the stay itself are the floor's to take back. Returns whether the job paused at a
    /// rung.
    pub(super) fn put_back(&self, ledger: Option<&mut Ledger>, out: &mut ClusterOutcome) -> bool {
        let (job, j) = (self.stay.job, self.stay.job.index());
        if let Some(ledger) = ledger {
            (ledger.left[j], ledger.served[j]) = (self.left, self.served);
        }
        (out.held[j], out.lost[j]) = (self.held, self.lost);
        out.spread[j] = self.spread;
        if let (Some(now), Some(before)) = (out.on_types.get_mut(j), self.on_types) {
            *now = before;
        }
        if let (Some(now), Some(before)) = (out.elastic.get_mut(j), self.elastic) {
            *now = before;
        }
        if let (Some(now), Some(before)) = (out.evictions.get_mut(j), self.evictions) {
            *now = before;
        }
        (out.obstacles[j], out.preemptions[j]) = (self.obstacles, self.preemptions);
        (out.num_servers[j], out.max_contention[j]) = (self.num_servers, self.max_contention);
        if let Some(last) = out.stretches.iter().rposition(|stretch| stretch.job == job) {
            out.stretches.remove(last);
        }
        if !out.allocations.job.is_empty() {
            let rows = if self.gpus.is_empty() { self.stay.parts.len() } else { self.gpus.len() };
            out.allocations.forget(job, rows);
        }
        self.rests.is_some_and(|rests| out.climbing.take_back(job, rests))
    }
}
