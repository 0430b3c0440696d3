//! The waiting jobs that are due, and a walk through them by strain, the greatest first.
//!
//! Jobs that stand or fall together are a class. A walk leaves a class aside once it has failed. So it costs those that
//! it gives, however many are due.
//!
//! Invariant: a node of a class's tree holds the earliest origin and the least yardstick below it. So no strain below it
//! is greater than that of these two, whatever the time. For example, of jobs submitted at one instant the shortest is
//! found by going down.

use super::strain::strain;
use crate::ids::Job;
use crate::setting::Setting;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// (from when on the time of a job counts, s; its yardstick, s).
type Node = (f64, f64);

/// Where no job is due.
const NOBODY: Node = (f64::INFINITY, f64::INFINITY);

/// (bits of a strain, whether it is but a bound of those below a node, the job, class, node): the greatest has a turn.
type Ahead = (u64, bool, Reverse<Job>, usize, usize);

#[derive(Clone, Debug, Default)]
struct Class {
    /// Ascending, due or not.
    members: Vec<Job>,
    /// Nodes i and their children 2 i and 2 i + 1, from 1 on; members come last. Empty until somebody is due.
    nodes: Vec<Node>,
}

/// Who is due.
#[derive(Clone, Debug)]
pub(super) struct Overdue {
    /// By job: its class, and its place there.
    places: Vec<(u32, u32)>,
    classes: Vec<Class>,
    ahead: BinaryHeap<Ahead>,
}

impl Overdue {
    pub(super) fn new(setting: &Setting<'_>) -> Self {
        let class_of = |job: usize| (setting.jobs.tier(job), setting.jobs.demand(Job::at(job)));
        let mut all: Vec<_> = (0..setting.jobs.len()).map(class_of).collect();
        all.sort_unstable();
        all.dedup();
        let mut classes = vec![Class::default(); all.len()];
        let place = |job: usize| {
            let class = all.partition_point(|class| *class < class_of(job));
            classes[class].members.push(Job::at(job));
            (class as u32, classes[class].members.len() as u32 - 1)
        };
        Self { places: (0..setting.jobs.len()).map(place).collect(), classes, ahead: BinaryHeap::new() }
    }

    /// The job is due from now on. Not during a walk.
    pub(super) fn enter(&mut self, job: Job, origin: f64, yardstick: f64) {
        self.set(job, (origin, yardstick));
    }

    /// The job waits no longer.
    pub(super) fn leave(&mut self, job: Job) {
        self.set(job, NOBODY);
    }

    fn set(&mut self, job: Job, node: Node) {
        let (class, place) = self.places[job.index()];
        let Class { members, nodes } = &mut self.classes[class as usize];
        nodes.resize(2 * members.len(), NOBODY);
        let mut at = members.len() + place as usize;
        nodes[at] = node;
        while at > 1 {
            at /= 2;
            let (left, right) = (nodes[2 * at], nodes[2 * at + 1]);
            let least = (f64::min(left.0, right.0), f64::min(left.1, right.1));
            if std::mem::replace(&mut nodes[at], least) == least {
                break;
            }
        }
    }

    /// A walk begins through those of at least that strain.
    pub(super) fn begin_walk(&mut self, now: f64, limit: f64) {
        self.ahead.clear();
        (0..self.classes.len()).for_each(|class| self.see(class, 1, now, limit));
    }

    fn see(&mut self, class: usize, at: usize, now: f64, limit: f64) {
        let Class { members, nodes } = &self.classes[class];
        let Some(&(origin, yardstick)) = nodes.get(at).filter(|node| node.0 < f64::INFINITY) else { return };
        let strain = strain(now - origin, yardstick);
        if strain >= limit {
            let is_bound = at < members.len();
            let job = if is_bound { members[0] } else { members[at - members.len()] };
            self.ahead.push((strain.to_bits(), is_bound, Reverse(job), class, at));
        }
    }

    /// The next job of the walk and its strain, ties fifo, but for classes of which a member is to be left `aside`.
    pub(super) fn next(&mut self, now: f64, limit: f64, aside: impl Fn(Job) -> bool) -> Option<(f64, Job)> {
        while let Some((strain, is_bound, Reverse(job), class, at)) = self.ahead.pop() {
            if aside(job) {
                continue;
            }
            if !is_bound {
                return Some((f64::from_bits(strain), job));
            }
            self.see(class, 2 * at, now, limit);
            self.see(class, 2 * at + 1, now, limit);
        }
        None
    }
}
