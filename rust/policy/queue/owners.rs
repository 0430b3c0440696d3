//! Tracks which jobs may be tried next where owners have quotas (docs/priorities-reference.md#quotas).
//!
//! Classes that differ only in their owners are a group: their jobs are placed, or not, together. Invariant: after
//! `refresh` the classes of a group whose jobs may start are in one of two tournaments by their first job; those over
//! quota are apart from the others, since they evict no job. For example, of ten owners with a thousand waiting jobs
//! of 8 GPUs each, nine of which are held back, a pass examines one job.
//!
//! A pass costs the groups and the jobs that start, regardless of how many owners there are and jobs wait. A job that
//! evicts also costs the classes: those whose first job was passed over continue behind it.

use super::waiting_queue::WaitingQueue;
use crate::ds::{OrderedBits, Tournament};
use crate::ids::Job;
use crate::machine::{Claimant, ClusterState};
use crate::options::Discipline;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::Demand;
use std::ops::Range;

/// The classes of a queue by group. `T`: a spot in the queue.
#[derive(Clone, Debug)]
pub(super) struct Owners<T> {
    groups: Vec<Group<T>>,
    classes: Vec<Class>,
    /// The classes to whose jobs a quota applies, by the GPUs of a job.
    of_quota: Vec<Vec<usize>>,
    /// How many of these, from the first on, were within the quota at the last check. At first no owner holds GPUs.
    within: Vec<usize>,
    /// Classes whose jobs may start.
    open: OrderedBits,
    /// Classes whose first job, or standing, may differ from that in `groups`.
    stale: Vec<usize>,
    /// Classes whose head a pass has left behind.
    moved: Vec<usize>,
}

/// Classes that differ only in their owners; all of them under a strict queue.
#[derive(Clone, Debug)]
struct Group<T> {
    classes: Range<usize>,
    /// What its jobs ask for; jobs of a strict queue differ in it.
    demand: Demand,
    /// The first jobs, or those from which a pass continues.
    within: Tournament<T>,
    over: Tournament<T>,
    /// Whether jobs over quota are passed over for now because they could not be placed.
    over_is_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Class {
    group: usize,
    /// The owners of its jobs, one of each book of quotas.
    owner: u32,
    num_gpus: u32,
    standing: Claimant,
    is_stale: bool,
}

impl<T: Copy + Ord> Owners<T> {
    /// Creates the groups of the setting, if it has quotas.
    pub(super) fn new(setting: &Setting<'_>, queue: &impl WaitingQueue<Spot = T>) -> Option<Self> {
        let quotas = setting.side.quotas?;
        let mut of_class = vec![None; queue.classes()];
        for job in (0..setting.jobs.len()).map(Job::at) {
            of_class[queue.class_of(job)] = Some(setting.class_of(job));
        }
        let keys: Vec<(u32, Demand, u32)> = of_class.into_iter().flatten().collect();
        let mut owners = Self {
            groups: Vec::new(),
            classes: Vec::new(),
            of_quota: vec![Vec::new(); quotas.list.len()],
            within: vec![0; quotas.list.len()],
            open: OrderedBits::new(queue.classes()),
            stale: Vec::new(),
            moved: Vec::new(),
        };
        let is_strict = setting.options.queue == Discipline::Strict;
        // A queue may have separate classes for promoted jobs, in the same order.
        let all = keys.iter().cycle().take(if keys.is_empty() { 0 } else { queue.classes() });
        let mut before = None;
        for (number, &(tier, demand, owner)) in all.enumerate() {
            let like = (number / keys.len(), tier, demand);
            if owners.groups.is_empty() || !is_strict && before != Some(like) {
                owners.groups.push(Group::new(number, demand));
            }
            before = Some(like);
            let group = owners.groups.len() - 1;
            owners.groups[group].classes.end = number + 1;
            let class = Class { group, owner, num_gpus: demand.units(), standing: Claimant::HeldBack, is_stale: false };
            owners.classes.push(class);
            quotas.of(owner).for_each(|place| owners.of_quota[place].push(number));
        }
        let num_gpus = |&class: &usize| owners.classes[class].num_gpus;
        for ((own, within), quota) in owners.of_quota.iter_mut().zip(&mut owners.within).zip(quotas.list) {
            own.sort_by_key(num_gpus);
            *within = own.partition_point(|class| u64::from(num_gpus(class)) <= quota.gpus);
        }
        for group in &mut owners.groups {
            group.within = Tournament::new(group.classes.len());
            group.over = Tournament::new(group.classes.len());
        }
        Some(owners)
    }

    pub(super) fn groups(&self) -> usize {
        self.groups.len()
    }

    /// Records that a job of that class came or left.
    pub(super) fn stir(&mut self, class: usize) {
        if !std::mem::replace(&mut self.classes[class].is_stale, true) {
            self.stale.push(class);
        }
    }

    /// Marks every spot of the queue as stale.
    pub(super) fn renew(&mut self) {
        let mut at = 0;
        while let Some(class) = self.open.next(at) {
            self.stir(class);
            at = class + 1;
        }
    }

    /// Updates what changed.
    pub(super) fn refresh<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, queue: &impl WaitingQueue<Spot = T>) {
        while let Some(place) = state.next_stirred() {
            // If a job is beyond the quota, so is a larger one: only the classes between then and now change their
            // standing in it.
            let own = std::mem::take(&mut self.of_quota[place as usize]);
            let then = self.within[place as usize];
            let is_within = |&class: &usize| state.is_within(place, self.classes[class].num_gpus);
            let fewer = own[..then].iter().rev().take_while(|class| !is_within(class)).count();
            let more = if fewer > 0 { 0 } else { own[then..].iter().take_while(|class| is_within(class)).count() };
            // A class without jobs is examined when one comes. Accounts have many such classes, of users and arrays.
            let waits = |&&class: &&usize| queue.first(class).is_some();
            own[then - fewer..then + more].iter().filter(waits).for_each(|&class| self.stir(class));
            self.within[place as usize] = then - fewer + more;
            self.of_quota[place as usize] = own;
        }
        while let Some(number) = self.stale.pop() {
            let class = &mut self.classes[number];
            class.is_stale = false;
            class.standing = state.standing(class.owner, class.num_gpus);
            let standing = class.standing;
            let first = if standing == Claimant::HeldBack { None } else { queue.first(number) };
            let group = &mut self.groups[class.group];
            let place = number - group.classes.start;
            group.within.set(place, first.filter(|_| standing == Claimant::Within));
            group.over.set(place, first.filter(|_| standing == Claimant::Over));
            if first.is_some() {
                self.open.insert(number);
            } else {
                self.open.remove(number);
            }
        }
    }

    /// Returns the first job of a group that may start.
    pub(super) fn first(&mut self, group: usize) -> Option<T> {
        let group = &mut self.groups[group];
        group.over_is_out = false;
        let (within, over) = (group.within.least(), group.over.least());
        within.into_iter().chain(over).min().map(|(spot, _)| spot)
    }

    /// Lets jobs over quota be tried again.
    pub(super) fn reopen(&mut self, group: usize) {
        self.groups[group].over_is_out = false;
    }

    /// Returns whether no job of a group could be placed now, with or without evictions. Jobs over quota evict none.
    pub(super) fn is_hopeless<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, group: usize) -> bool {
        let Group { demand, over_is_out, .. } = &mut self.groups[group];
        *over_is_out = !state.can_place(*demand);
        *over_is_out && !state.may_evict(*demand)
    }

    /// Passes over a group's jobs that are over quota, after the job of a class could not be placed. Returns false if
    /// that job was within its quota: then the others cannot be placed either.
    pub(super) fn passes_over(&mut self, class: usize) -> bool {
        let Class { group, standing, .. } = self.classes[class];
        self.groups[group].over_is_out = true;
        standing == Claimant::Over
    }

    /// Returns the first job of a group that ranks behind a spot and may start.
    pub(super) fn next_behind(&mut self, queue: &impl WaitingQueue<Spot = T>, group: usize, spot: T) -> Option<T> {
        let Group { classes, within, over, over_is_out, .. } = &mut self.groups[group];
        let mut next: Option<T> = None;
        for side in [Some(within), Some(over).filter(|_| !*over_is_out)].into_iter().flatten() {
            while let Some((first, place)) = side.least() {
                if first > spot {
                    next = Some(next.map_or(first, |other| other.min(first)));
                    break;
                }
                let class = classes.start + place;
                side.set(place, queue.next_behind(class, spot));
                self.moved.push(class);
            }
        }
        next
    }

    /// Returns the same among the jobs whose estimate passes `short` (EASY only).
    pub(super) fn next_short(
        &self,
        queue: &impl WaitingQueue<Spot = T>,
        group: usize,
        spot: T,
        short: impl Fn(f64) -> bool,
    ) -> Option<T> {
        let Range { start, end } = self.groups[group].classes;
        let mut next: Option<T> = None;
        let mut at = start;
        while let Some(class) = self.open.next(at).filter(|&class| class < end)
            && let Some(found) = queue.short_class(class..end, &short)
        {
            at = found;
            if self.open.contains(found) {
                let first = queue.next_short(found, spot, &short);
                next = next.into_iter().chain(first).min();
                at += 1;
            }
        }
        next
    }

    /// Ends a pass: the next one begins at the head of every class.
    pub(super) fn rest(&mut self) {
        while let Some(class) = self.moved.pop() {
            self.stir(class);
        }
    }
}

impl<T: Copy + Ord> Group<T> {
    /// Creates a group without classes.
    fn new(first: usize, demand: Demand) -> Self {
        let (within, over) = (Tournament::new(1), Tournament::new(1));
        Self { classes: first..first, demand, within, over, over_is_out: false }
    }
}
