//! GPUs one at a time by AFS' rule for pairs (docs/elastic-policies.md, `afs`), without a step for each of them.
//!
//! c is the speed of a job as a multiple of what its next GPU would add. A later job beats an earlier one if its c is less by
//! more than 1. The GPU goes to the first job that nobody beats. Say the least c is x. Before the last job that has it, whoever
//! has a c above x + 1 is beaten. So those with a c of at most x + 1 get GPUs, the first one first, and then that last job gets
//! one. x + 1 is the level, and that last job makes it. No c falls, so the level only rises. A GPU is given at the first level
//! from its c on that a later job makes; and at c + 1 at the latest, which is the level that its own job makes.
//!
//! So what is given up to a level is found from the last job on. Of the levels made so far only the greatest matters. A GPU whose
//! c is not above that one is given at it, and makes none itself. Jobs that stand together are passed over where nothing changes.
//!
//! Invariant: c never falls from one GPU of a job to the next. For example, of two jobs at c = 1, 2, 3, ... the earlier one has
//! GPUs up to c = 2, then the later one its first, then the earlier one has another.

use super::Rule;
use super::base::{Numbers, Rest, View};
use super::curve::Curves;
use crate::ds::{packed, sort_again};
use crate::ids::Job;
use crate::speed::Speed;

/// One, in millionths.
pub(super) const ONE: u64 = 1_000_000;

/// A job that could use more than min_gpus.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    job: Job,
    /// Its place in the order of the base, packed.
    place: u128,
    /// min_gpus, and what it is to have as far as others know.
    least: u32,
    number: u32,
    /// What it gets beyond min_gpus.
    pub(super) more: u32,
    /// That of `Pairs` when it came.
    entry: u32,
    /// c of the last of these, or 0, and of the next one, or `u64::MAX`. A `next` of 0 says that neither is known.
    last: u64,
    next: u64,
}

impl Member {
    pub(super) fn new(job: Job) -> Self {
        Self { job, place: 0, least: 0, number: 0, more: 0, entry: 0, last: 0, next: 0 }
    }

    /// It is to have that.
    fn settle(&mut self, numbers: &mut Numbers, number: u32) {
        if self.number != number {
            self.number = number;
            numbers.set(self.job, number);
        }
    }
}

/// How many members a block has.
const BLOCK: usize = 16;

/// Members that stand together: what they get in all, the greatest `last` and the least `next`.
#[derive(Clone, Copy)]
struct Block {
    more: u64,
    last: u64,
    next: u64,
}

impl Block {
    fn new(members: &[Member]) -> Self {
        let none = Self { more: 0, last: 0, next: u64::MAX };
        members.iter().fold(none, |all, member| Self {
            more: all.more + u64::from(member.more),
            last: all.last.max(member.last),
            next: all.next.min(member.next),
        })
    }

    /// Whether all have what is at most c, and no more.
    fn is_at(&self, c: u64) -> bool {
        self.last <= c && c < self.next
    }
}

/// Members in order of the base, and c of each one's GPUs, the first beyond min_gpus first.
pub(super) struct Giving<'a, F> {
    members: &'a mut [Member],
    blocks: Vec<Block>,
    times: F,
}

impl<'a, 'c, F: Fn(Job) -> &'c [u64]> Giving<'a, F> {
    pub(super) fn new(members: &'a mut [Member], times: F) -> Self {
        let blocks = members.chunks(BLOCK).map(Block::new).collect();
        Self { members, blocks, times }
    }

    /// Gives a member all whose c is at most that.
    #[inline]
    fn give_up_to(&mut self, at: usize, c: u64) {
        let member = &mut self.members[at];
        if member.last <= c && c < member.next {
            return;
        }
        let times = (self.times)(member.job);
        let more = times.partition_point(|&own| own <= c);
        member.more = more as u32;
        member.last = if more > 0 { times[more - 1] } else { 0 };
        member.next = times.get(more).copied().unwrap_or(u64::MAX);
    }

    /// Gives all up to a level. Returns how many, the last level at which any was given, and the next one.
    fn reach(&mut self, level: u64) -> (u64, u64, u64) {
        let below = level.saturating_sub(ONE);
        let (mut given, mut made, mut least) = (0, 0, u64::MAX);
        for block in (0..self.blocks.len()).rev() {
            // Else its members have what they get, and none of them makes a greater level.
            if !self.blocks[block].is_at(u64::max(made, below)) || self.blocks[block].last > made {
                let from = block * BLOCK;
                let to = usize::min(from + BLOCK, self.members.len());
                for at in (from..to).rev() {
                    self.give_up_to(at, u64::max(made, below));
                    let last = self.members[at].last;
                    if last > made {
                        made = last + ONE;
                    }
                }
                self.blocks[block] = Block::new(&self.members[from..to]);
            }
            given += self.blocks[block].more;
            least = least.min(self.blocks[block].next);
        }
        (given, made, least.saturating_add(ONE))
    }

    /// Gives out so many GPUs, which are fewer than all could use. `guess`: a level; at the end the one up to which all was given.
    pub(super) fn give(&mut self, free: u64, guess: &mut u64) {
        // (level, how many it gives): the greatest at which there are enough, the least at which there are not.
        let (mut low, mut high) = (None, None);
        let (mut at, mut stride) = (*guess, 0);
        loop {
            let (given, made, next) = self.reach(at);
            if given <= free {
                low = Some(next - 1);
            } else {
                high = Some((made, given));
            }
            let tried = at;
            at = match (low, high) {
                (None, None) => return,
                (Some(low), None) => low + 1 + stride,
                (None, Some((high, _))) => u64::saturating_sub(high, 1 + stride),
                (Some(low), Some((high, given))) if low + 1 == high => {
                    if tried < high {
                        self.reach(high);
                    }
                    *guess = low;
                    return self.take_back(given - free, low);
                }
                (Some(low), Some((high, _))) => low + (high - low) / 2,
            };
            stride = 2 * stride.max(ONE / 32);
        }
    }

    /// Takes back so many of those that the next level after this one gave: the last job's first.
    fn take_back(&mut self, mut over: u64, level: u64) {
        let below = level.saturating_sub(ONE);
        let mut made = 0;
        for at in (0..self.members.len()).rev() {
            let before = self.members[at].more;
            self.give_up_to(at, u64::max(made, below));
            let member = &mut self.members[at];
            let taken = u64::from(before - member.more);
            if taken >= over {
                member.more += (taken - over) as u32;
                member.next = 0;
                return;
            }
            over -= taken;
            if member.last > made {
                made = member.last + ONE;
            }
        }
    }
}

/// Who takes part and could use more than min_gpus.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Pairs {
    /// How often each job came or left: odd while it is here.
    entry: Vec<u32>,
    /// The first `in_order` in the order of the base when they were last compared, then those that came since; with some who
    /// have left.
    members: Vec<Member>,
    in_order: usize,
    here: usize,
    /// So many of them, the first ones, have all that they can use.
    filled: usize,
    /// What all could use beyond min_gpus.
    useful: u64,
    /// The level of the last decision that reached one: the next one is near.
    guess: u64,
}

impl Pairs {
    /// Forgets those who have left.
    fn tidy(&mut self) {
        let (mut at, mut in_order) = (0, self.in_order);
        self.members.retain(|member| {
            let is_here = self.entry[member.job.index()] == member.entry;
            in_order -= usize::from(!is_here && at < self.in_order);
            at += 1;
            is_here
        });
        self.in_order = in_order;
    }
}

impl Rest for Pairs {
    fn new(jobs: usize) -> Self {
        Self { entry: vec![0; jobs], members: Vec::new(), in_order: 0, here: 0, filled: 0, useful: 0, guess: 0 }
    }

    fn enter<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &Numbers, job: Job) {
        let Some(curve) = view.curves.get(job, 0).filter(|curve| curve.least < curve.cap) else { return };
        let entry = &mut self.entry[job.index()];
        *entry = entry.wrapping_add(1);
        self.members.push(Member { entry: *entry, least: curve.least, number: numbers.of(job), ..Member::new(job) });
        self.here += 1;
        self.useful += u64::from(curve.cap - curve.least);
    }

    fn leave(&mut self, curves: &Curves, _beyond: u32, job: Job) {
        let entry = &mut self.entry[job.index()];
        if *entry % 2 == 1 {
            *entry = entry.wrapping_add(1);
            self.here -= 1;
            self.useful -= curves.get(job, 0).map_or(0, |curve| u64::from(curve.cap - curve.least));
        }
    }

    fn give<S: Speed, R: Rule>(&mut self, view: &View<'_, '_, S, R>, numbers: &mut Numbers, free: u64) {
        if self.useful <= free {
            if self.members.len() > 2 * self.here + 64 {
                self.tidy();
                self.filled = 0;
            }
            for member in &mut self.members[self.filled..] {
                if self.entry[member.job.index()] == member.entry
                    && let Some(curve) = view.curves.get(member.job, 0)
                {
                    member.settle(numbers, curve.cap);
                }
            }
            self.filled = self.members.len();
            return;
        }
        if self.members.len() > self.here {
            self.tidy();
        }
        for member in &mut self.members {
            let (tier, key, job) = view.place(member.job);
            member.place = packed(tier, key, job.number());
        }
        sort_again(&mut self.members, self.in_order, |member| member.place);
        self.in_order = self.members.len();
        Giving::new(&mut self.members, |job| view.curves.c_plus_one(job, 0)).give(free, &mut self.guess);
        self.filled = 0;
        for member in &mut self.members {
            member.settle(numbers, member.least + member.more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BLOCK, Giving, Member, ONE};
    use crate::ids::Job;
    use proptest::prelude::*;

    /// Who gets the next GPU, as the rule says it.
    fn first(times: &[Vec<u64>], more: &[u32]) -> usize {
        let next = |job: usize| times[job].get(more[job] as usize).copied();
        let is_beaten = |job: usize, own: u64| (job + 1..times.len()).filter_map(next).any(|later| later + ONE < own);
        (0..times.len()).find(|&job| next(job).is_some_and(|own| !is_beaten(job, own))).unwrap()
    }

    proptest! {
        #[test]
        fn levels_give_what_the_rule_gives(
            // Halves and thirds make many ties.
            own in prop::collection::vec(
                prop::collection::vec((0..6 * 6_u64).prop_map(|sixths| sixths * ONE / 6 + 1), 0..8), 1..3 * BLOCK
            ),
            is_rising: bool,
            guess in 0..10 * ONE,
        ) {
            let mut own: Vec<Vec<u64>> = own;
            if is_rising {
                own.iter_mut().for_each(|own| own.sort_unstable());
            }
            let greatest = |own: &Vec<u64>| own.iter().scan(0, |c, &own| { *c = own.max(*c); Some(*c) }).collect();
            let times: Vec<Vec<u64>> = own.iter().map(greatest).collect();
            let useful: usize = times.iter().map(Vec::len).sum();
            let mut members: Vec<Member> = (0..times.len()).map(|job| Member::new(Job::at(job))).collect();
            let mut guess = guess;
            let mut more = vec![0; times.len()];
            for free in 0..useful {
                // From whatever the members had before.
                let mut giving = Giving::new(&mut members, |job: Job| &times[job.index()][..]);
                giving.give(free as u64, &mut guess);
                prop_assert!(members.iter().map(|member| member.more).eq(more.iter().copied()));
                let next = first(&own, &more);
                more[next] += 1;
            }
        }
    }
}
