//! Gives GPUs one at a time to the job whose remaining run time falls most.
//!
//! Each GPU of a job has its capped gain: the least gain of it and those before it. For example, a job whose GPUs
//! gain 10 s, 60 s and 5 s has the capped gains 10, 10 and 5: the second one cannot be given before the first. If
//! GPUs are given one at a time, the greatest gain first, they are those with the greatest capped gains. So a
//! decision need not begin with min_gpus for all. It begins with what jobs hold, and exchanges GPUs until none that
//! is given has a lesser capped gain than one that is not. It costs the jobs that take part, and the exchanges times
//! a logarithm.

use super::Rates;
use super::allocation::Allocation;
use super::curve::Curves;
use crate::ds::ordered;
use crate::ids::Job;
use crate::speed::Speed;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The GPU with which a job has `number`, or would have. The greatest is given first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    /// In order of its bits.
    capped: u64,
    job: Reverse<Job>,
    number: Reverse<u32>,
    entry: usize,
}

/// The next steps, up and down.
struct Steps<'a> {
    allocation: &'a mut Allocation,
    curves: &'a Curves,
    up: BinaryHeap<Step>,
    down: BinaryHeap<Reverse<Step>>,
}

impl Steps<'_> {
    /// Returns the step to a number.
    fn to(&self, entry: usize, number: u32) -> Option<Step> {
        let of = &self.allocation.entries[entry];
        let curve = self.curves.get(of.job, of.pool)?;
        let is_step = curve.least < number && number <= curve.cap;
        is_step.then(|| Step {
            capped: ordered(curve.capped_gain(of.left, number - 1)),
            job: Reverse(of.job),
            number: Reverse(number),
            entry,
        })
    }

    /// Returns the GPU to be given next. Outdated steps are dropped.
    fn next_up(&mut self) -> Option<Step> {
        while let Some(&step) = self.up.peek() {
            if step.number.0 == self.allocation.entries[step.entry].number + 1 {
                return Some(step);
            }
            self.up.pop();
        }
        None
    }

    /// Returns the GPU to be taken next.
    fn next_down(&mut self) -> Option<Step> {
        while let Some(&Reverse(step)) = self.down.peek() {
            if step.number.0 == self.allocation.entries[step.entry].number {
                return Some(step);
            }
            self.down.pop();
        }
        None
    }

    fn give(&mut self, step: Step) {
        self.up.pop();
        self.allocation.entries[step.entry].number = step.number.0;
        self.down.push(Reverse(step));
        let next = self.to(step.entry, step.number.0 + 1);
        self.up.extend(next);
    }

    fn take(&mut self, step: Step) {
        self.down.pop();
        self.allocation.entries[step.entry].number = step.number.0 - 1;
        self.up.push(step);
        let next = self.to(step.entry, step.number.0 - 1);
        self.down.extend(next.map(Reverse));
    }
}

/// Distributes what is left of a pool.
pub(super) fn give_by_gain<S: Speed>(
    allocation: &mut Allocation,
    pool: usize,
    rates: &Rates<'_, '_, S>,
    curves: &mut Curves,
) {
    let Some(entries) = allocation.contested(pool, rates, curves) else { return };
    let curves = &*curves;
    let wanted = allocation.free[pool];
    let mut given = 0;
    for &at in &entries {
        let entry = &mut allocation.entries[at];
        let least = entry.number;
        let cap = curves.get(entry.job, pool).map_or(least, |curve| curve.cap);
        entry.number = entry.held.clamp(least, cap);
        given += u64::from(entry.number - least);
    }
    let mut steps = Steps { allocation, curves, up: BinaryHeap::new(), down: BinaryHeap::new() };
    let step_up = |&at: &usize| steps.to(at, steps.allocation.entries[at].number + 1);
    let step_down = |&at: &usize| steps.to(at, steps.allocation.entries[at].number).map(Reverse);
    let (up, down) = (entries.iter().filter_map(step_up).collect(), entries.iter().filter_map(step_down).collect());
    (steps.up, steps.down) = (up, down);
    while given < wanted
        && let Some(step) = steps.next_up()
    {
        steps.give(step);
        given += 1;
    }
    while given > wanted
        && let Some(step) = steps.next_down()
    {
        steps.take(step);
        given -= 1;
    }
    while let (Some(up), Some(down)) = (steps.next_up(), steps.next_down())
        && up > down
    {
        steps.take(down);
        steps.give(up);
    }
    allocation.free[pool] -= given;
}
