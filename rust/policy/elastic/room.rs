//! Making room for those whom a decision leaves waiting, with `--evict` or quotas (docs/elastic-policies.md#making-room).
//!
//! Invariant: each of them has one turn, in the order of the base. For example, on 4 GPUs that a young job holds a job of 2 GPUs
//! and of higher priority evicts it; its own turn comes after that, and it goes on with the 2 GPUs that are left.

use super::base::View;
use super::queue::Walk;
use super::sheet::Rank;
use super::{Resizing, Rule};
use crate::ds::ordered;
use crate::ids::{Job, Slot};
use crate::machine::{Claimant, Floor};
use crate::speed::Speed;
use std::collections::BTreeSet;

/// Who has a turn.
enum Turns<'a> {
    /// Those who wait, and those evicted on the way, who are of lower priority than whoever evicted them.
    Queue(Walk<'a>, BTreeSet<Rank>),
    /// All jobs, of which those wait that have a turn.
    Ranked(std::slice::Iter<'a, Rank>),
}

impl Turns<'_> {
    fn next(&mut self) -> Option<Rank> {
        match self {
            Turns::Ranked(all) => all.next().copied(),
            Turns::Queue(waiting, evicted) => {
                let next = waiting.place().map(|place| (Claimant::Within, place));
                if evicted.first().is_some_and(|&first| next.is_none_or(|next| first < next)) {
                    return evicted.pop_first();
                }
                waiting.pass();
                next
            }
        }
    }
}

impl<R: Rule> Resizing<R> {
    /// Lets those who wait make room for themselves. Costs those who wait, and a look at the servers for each class of them.
    pub(super) fn make_room<S: Speed>(&mut self, floor: &mut Floor<'_, S>) {
        if !floor.makes_room() {
            return;
        }
        let Self { rule, roster, queue, held, sheet, .. } = self;
        let has_quotas = floor.has_quotas();
        let monotone = floor.placer.is_monotone();
        let mut turns = if has_quotas {
            Turns::Ranked(sheet.ranked.iter())
        } else {
            Turns::Queue(queue.walk(), BTreeSet::new())
        };
        // Whose GPUs are others than was decided; who was evicted; what was tried in vain.
        let (mut changed, mut evicted) = (Vec::new(), Vec::<Job>::new());
        let mut in_vain: Vec<(u32, usize, u32)> = Vec::new();
        let mut victims: Vec<(Slot, Job)> = Vec::new();
        while let Some((standing, (tier, _, job))) = turns.next() {
            if !roster.is_waiting(job) {
                continue;
            }
            let (least, _) = floor.jobs.range_of(job.index());
            let again = evicted.contains(&job)
                && (least..=held[job.index()])
                    .rev()
                    .any(|gpus| floor.claimant(job, gpus) != Claimant::HeldBack && floor.place_on(job, gpus));
            if !again {
                // Whoever comes later finds no more, and nobody whom this one did not find.
                let kind = floor.jobs.demand(job).kind();
                let in_vain_before = |&(gpus, of, before): &(u32, usize, u32)| {
                    monotone && (gpus, of) == (least, kind) && before <= tier
                };
                if standing != Claimant::Within
                    || floor.claimant(job, least) != Claimant::Within
                    || in_vain.iter().any(in_vain_before)
                {
                    continue;
                }
                if !floor.place_on_by_evicting(job, least, None, &mut victims) {
                    in_vain.push((least, kind, tier));
                    continue;
                }
                for &(_, victim) in &victims {
                    roster.set_waiting(victim);
                    if let Turns::Queue(_, coming) = &mut turns {
                        let key = ordered(rule.key(floor, victim, None));
                        coming.insert((Claimant::Within, (floor.jobs.tier(victim.index()), key, victim)));
                    }
                    evicted.push(victim);
                    changed.push(victim);
                }
            }
            let slot = floor.start(job);
            held[job.index()] = floor.stays[slot.index()].gpus();
            roster.set_running(job, slot);
            changed.push(job);
        }
        for job in changed {
            self.settle_anew(floor, job);
        }
    }

    /// A job has other GPUs than was decided, or none.
    fn settle_anew<S: Speed>(&mut self, floor: &Floor<'_, S>, job: Job) {
        self.queue.remove(&floor.jobs, job);
        if self.roster.is_waiting(job) {
            self.queue.insert(&floor.jobs, job, self.rule.key(floor, job, None));
        }
        let Some(base) = &mut self.base else { return };
        let (roster, curves, rule, resize_every) = (&self.roster, &self.curves, &self.rule, self.resize_every);
        base.join(curves, job);
        if !roster.is_waiting(job) {
            base.settle(&View { floor, roster, curves, rule, resize_every }, job);
        }
    }
}
