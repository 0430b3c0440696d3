//! Keeps the waiting jobs of `lucid` in order, and those that are alike apart, so that a pass looks at few of them.
//!
//! Invariant: jobs of one class suit the same partners, but for their values. So if the first of a class finds none, none
//! does, until another job runs alone or a job of less value comes. For example, of 1,000 waiting jobs of 4 GPUs and one
//! score a pass looks at one.

use super::partners::{Suits, is_enough};
use crate::ds::{ordered, unordered};
use crate::ids::Job;
use crate::trace::Jobs;
use std::collections::{BTreeMap, BTreeSet};

/// The place of a waiting job: its tier, its value in order of its bits, its row.
pub(super) type Turn = (u32, u64, Job);

/// What jobs of a class have in common.
#[derive(Clone, Copy, Debug)]
struct Class {
    demand: u32,
    gpus: u32,
    score: u32,
    memory: f64,
    /// Whether its jobs may join others.
    joins: bool,
}

/// The waiting jobs.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    classes: Vec<Class>,
    class_of: Vec<u32>,
    value: Vec<f64>,
    by_class: Vec<BTreeSet<Turn>>,
    by_demand: Vec<BTreeSet<Turn>>,
    /// GPUs and number of the classes that may join others and have jobs.
    joining: BTreeSet<(u32, u32)>,
    /// Whether the first of a class may find a partner, and the classes of which that is so.
    is_open: Vec<bool>,
    open: Vec<u32>,
    len: usize,
}

impl Queue {
    pub(super) fn new(jobs: &Jobs<'_>) -> Self {
        let mut demands = BTreeMap::new();
        let mut numbers = BTreeMap::new();
        let (mut classes, mut class_of) = (Vec::new(), Vec::new());
        for row in 0..jobs.len() {
            let demand = jobs.demand(Job::at(row));
            let next = demands.len() as u32;
            let number = *demands.entry(demand).or_insert(next);
            let gpus = jobs.num_gpus[row];
            let joins = jobs.pairing.is_some() && jobs.share_of(row) == 0 && jobs.range_of(row) == (gpus, gpus);
            let (score, memory) = jobs.pairing.map_or((0, f64::NAN), |own| (own.score[row], own.memory[row]));
            let class = *numbers.entry((jobs.tier(row), demand, score, memory.to_bits(), joins)).or_insert_with(|| {
                let class = classes.len() as u32;
                classes.push(Class { demand: number, gpus, score, memory, joins });
                class
            });
            class_of.push(class);
        }
        Self {
            by_class: vec![BTreeSet::new(); classes.len()],
            by_demand: vec![BTreeSet::new(); demands.len()],
            is_open: vec![false; classes.len()],
            open: Vec::new(),
            value: vec![f64::NAN; jobs.len()],
            classes,
            class_of,
            joining: BTreeSet::new(),
            len: 0,
        }
    }

    /// Sets the value of a job when it arrives.
    pub(super) fn set_value(&mut self, job: Job, value: f64) {
        self.value[job.index()] = value;
    }

    fn turn(&self, jobs: &Jobs<'_>, job: Job) -> Turn {
        (jobs.tier(job.index()), ordered(self.value[job.index()]), job)
    }

    pub(super) fn insert(&mut self, jobs: &Jobs<'_>, job: Job) -> Turn {
        let (turn, class) = (self.turn(jobs, job), self.class_of[job.index()]);
        let Class { gpus, joins, .. } = self.classes[class as usize];
        let own = &mut self.by_class[class as usize];
        if own.is_empty() && joins {
            self.joining.insert((gpus, class));
        }
        own.insert(turn);
        if own.first() == Some(&turn) {
            self.open_class(class);
        }
        self.by_demand[self.classes[class as usize].demand as usize].insert(turn);
        self.len += 1;
        turn
    }

    pub(super) fn remove(&mut self, jobs: &Jobs<'_>, job: Job) {
        let (turn, class) = (self.turn(jobs, job), self.class_of[job.index()] as usize);
        self.by_class[class].remove(&turn);
        if self.by_class[class].is_empty() {
            self.joining.remove(&(self.classes[class].gpus, class as u32));
        }
        self.by_demand[self.classes[class].demand as usize].remove(&turn);
        self.len -= 1;
    }

    /// Returns whether a job waits.
    pub(super) fn is_waiting(&self, turn: Turn) -> bool {
        self.by_class[self.class_of[turn.2.index()] as usize].contains(&turn)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the waiting jobs, in order.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let mut turns: Vec<Turn> = self.by_demand.iter().flatten().copied().collect();
        turns.sort_unstable();
        turns.into_iter().map(|turn| turn.2).collect()
    }

    /// Returns what a job asks of a partner; `None` for one that joins nobody.
    pub(super) fn suits(&self, job: Job) -> Option<Suits> {
        let class = self.classes[self.class_of[job.index()] as usize];
        class.joins.then(|| self.as_partner(job))
    }

    /// Returns what a job is to those who look for a partner.
    pub(super) fn as_partner(&self, job: Job) -> Suits {
        let Class { gpus, score, memory, .. } = self.classes[self.class_of[job.index()] as usize];
        Suits { gpus, score, memory, value: self.value[job.index()] }
    }

    fn open_class(&mut self, class: u32) {
        if self.classes[class as usize].joins && !std::mem::replace(&mut self.is_open[class as usize], true) {
            self.open.push(class);
        }
    }

    /// Opens all classes.
    pub(super) fn open_all(&mut self) {
        (0..self.classes.len() as u32).for_each(|class| self.open_class(class));
    }

    /// Opens the classes of which a job may join one of so many GPUs and such a value, which is alone now. Returns the
    /// first turn of each after `after`, if that may join it.
    pub(super) fn open_for(&mut self, gpus: u32, value: f64, after: Option<Turn>) -> Vec<(Turn, u32)> {
        let mut turns = Vec::new();
        let classes: Vec<u32> = self.joining.range((gpus, 0)..=(gpus, u32::MAX)).map(|&(_, class)| class).collect();
        for class in classes {
            let own = &self.by_class[class as usize];
            let suits = |turn: &&Turn| is_enough(value, unordered(turn.1));
            if own.first().filter(suits).is_none() {
                continue;
            }
            if let Some(after) = after {
                let next = own.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded)).next();
                turns.extend(next.filter(suits).map(|&turn| (turn, class)));
            }
            self.open_class(class);
        }
        turns
    }

    /// Closes the open classes, and returns them with their first turns.
    pub(super) fn take_open(&mut self) -> Vec<(Turn, u32)> {
        let mut turns = Vec::with_capacity(self.open.len());
        for class in std::mem::take(&mut self.open) {
            self.is_open[class as usize] = false;
            turns.extend(self.by_class[class as usize].first().map(|&turn| (turn, class)));
        }
        turns
    }

    /// Returns the first turn of every demand.
    pub(super) fn by_demand(&self) -> impl Iterator<Item = (Turn, u32)> + '_ {
        (0..).zip(&self.by_demand).filter_map(|(demand, turns)| turns.first().map(|&turn| (turn, demand)))
    }

    /// Returns the next turn of a class after one.
    pub(super) fn next_of_class(&self, class: u32, after: Turn) -> Option<Turn> {
        next(&self.by_class[class as usize], after)
    }

    /// Returns the next turn of a demand after one.
    pub(super) fn next_of_demand(&self, demand: u32, after: Turn) -> Option<Turn> {
        next(&self.by_demand[demand as usize], after)
    }
}

fn next(turns: &BTreeSet<Turn>, after: Turn) -> Option<Turn> {
    turns.range((std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded)).next().copied()
}
