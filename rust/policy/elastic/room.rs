//! Making room for those whom a decision leaves waiting, with `--evict` or quotas (docs/elastic-policies.md#places).
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
use crate::policy::roster::Roster;
use crate::speed::Speed;
use std::collections::BTreeSet;

/// Who has a turn.
enum Turns<'a> {
    /// Those who wait, whether the first of them has its turn now, and those evicted on the way, who are of lower priority than
    /// whoever evicted them.
    Queue(Walk<'a>, bool, BTreeSet<Rank>),
    /// All jobs, of which those wait that have a turn.
    Ranked(std::slice::Iter<'a, Rank>),
}

impl Turns<'_> {
    fn next(&mut self) -> Option<Rank> {
        match self {
            Turns::Ranked(all) => all.next().copied(),
            Turns::Queue(waiting, is_on, evicted) => {
                if std::mem::take(is_on) {
                    waiting.pass();
                }
                let next = waiting.place().map(|place| (Claimant::Within, place));
                if evicted.first().is_some_and(|&first| next.is_none_or(|next| first < next)) {
                    return evicted.pop_first();
                }
                *is_on = true;
                next
            }
        }
    }

    /// Leaves out those like the one whose turn it is.
    fn leave_out(&mut self) {
        if let Turns::Queue(waiting, is_on, _) = self
            && std::mem::take(is_on)
        {
            waiting.leave_out();
        }
    }
}

/// Tries to place a job on so many GPUs, or on as many fewer as it takes.
fn place_down<S: Speed>(floor: &mut Floor<'_, S>, job: Job, most: u32) -> bool {
    let (least, _) = floor.jobs.range_of(job.index());
    let may = |floor: &Floor<'_, S>, gpus| floor.claimant(job, gpus) != Claimant::HeldBack;
    (least..=most).rev().any(|gpus| may(floor, gpus) && floor.place_on(job, gpus))
}

impl<R: Rule> Resizing<R> {
    /// Lets those who wait make room for themselves. Costs those who wait, and a look at the servers for each class of them.
    pub(super) fn make_room<S: Speed>(&mut self, floor: &mut Floor<'_, S>) {
        if !self.makes_room {
            return;
        }
        let Self { rule, roster, queue, held, sheet, .. } = self;
        let has_quotas = floor.has_quotas();
        let monotone = floor.placer.is_monotone();
        let mut turns = if has_quotas {
            Turns::Ranked(sheet.ranked.iter())
        } else {
            Turns::Queue(queue.walk(), false, BTreeSet::new())
        };
        // Whose GPUs are others than was decided; who was evicted; what was tried in vain, and what since the last eviction.
        let (mut changed, mut evicted) = (Vec::new(), Vec::<Rank>::new());
        let (mut in_vain, mut unplaced) = (Vec::<(u32, usize, u32)>::new(), Vec::<(u32, usize)>::new());
        let mut victims: Vec<(Slot, Job)> = Vec::new();
        let begin = |floor: &mut Floor<'_, S>, roster: &mut Roster, held: &mut [u32], job: Job| {
            let slot = floor.start(job);
            held[job.index()] = floor.stays[slot.index()].gpus();
            roster.set_running(job, slot);
        };
        while let Some((standing, (tier, _, job))) = turns.next() {
            if !roster.is_waiting(job) {
                continue;
            }
            let (least, _) = floor.jobs.range_of(job.index());
            let class = (least, floor.jobs.demand(job).kind());
            let was_evicted = evicted.iter().any(|rank| rank.1.2 == job);
            let most = if was_evicted { held[job.index()] } else { least };
            let is_hopeless = monotone && unplaced.contains(&class);
            if is_hopeless || !place_down(floor, job, most) {
                if !is_hopeless && floor.claimant(job, least) != Claimant::HeldBack {
                    unplaced.push(class);
                }
                // Whoever comes later finds no more, and nobody whom this one did not find.
                let was_in_vain =
                    |&(gpus, kind, before): &(u32, usize, u32)| monotone && (gpus, kind) == class && before <= tier;
                if standing != Claimant::Within
                    || floor.claimant(job, least) != Claimant::Within
                    || in_vain.iter().any(was_in_vain)
                {
                    continue;
                }
                if !floor.place_on_by_evicting(job, least, None, &mut victims) {
                    in_vain.push((class.0, class.1, tier));
                    if monotone {
                        turns.leave_out();
                    }
                    continue;
                }
                unplaced.clear();
                for &(_, victim) in &victims {
                    roster.set_waiting(victim);
                    changed.push(victim);
                    match &mut turns {
                        Turns::Ranked(_) => evicted.extend(sheet.ranked.iter().find(|rank| rank.1.2 == victim)),
                        Turns::Queue(_, _, coming) => {
                            let key = ordered(rule.key(floor, victim, None));
                            let rank = (Claimant::Within, (floor.jobs.tier(victim.index()), key, victim));
                            coming.insert(rank);
                            evicted.push(rank);
                        }
                    }
                }
            }
            begin(floor, roster, held, job);
            changed.push(job);
        }
        // Later evictions may have left GPUs for those evicted earlier, or for those whose turn was over.
        evicted.sort_unstable();
        evicted.dedup();
        for (_, (_, _, job)) in evicted {
            if roster.is_waiting(job) && place_down(floor, job, held[job.index()]) {
                begin(floor, roster, held, job);
            }
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
