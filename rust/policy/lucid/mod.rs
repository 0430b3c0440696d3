//! Lucid (Hu et al., "Lucid: A Non-intrusive, Scalable and Interpretable Scheduler for Deep Learning Training Jobs",
//! ASPLOS 2023): the least estimated GPU time first; each job takes a partner that runs alone, if one suits, else idle
//! GPUs. Nobody blocks anybody, and nobody is stopped (docs/lucid.md).
//!
//! A pass costs the demands that occur, the jobs that start, and the classes of jobs for which a new partner runs, each
//! times a logarithm; with quotas, evictions, or placements that may pass over what they could place, all waiting jobs.

mod partners;
mod queue;

use super::queue::Qssf;
use super::seldom::Seldom;
use crate::ids::{Job, Slot};
use crate::machine::{Chooses, ClusterState, EndReason, Policy, WaitReason};
use crate::options::{Facts, Feature, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;
use partners::{MOST_OF_SCORES, Partners, is_enough};
use queue::{Queue, Turn};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

policies! { |setting, speed|
    Lucid<'_> => Seldom::Lucid(Box::new(Lucid::new(setting))),
}

/// The waiting jobs, and the running ones that others may join.
#[derive(Clone, Debug)]
pub(super) struct Lucid<'a> {
    predictor: Qssf<'a>,
    /// Whether it is asked: not every job has an estimate of its own.
    predicts: bool,
    queue: Queue,
    partners: Partners,
    /// Stays that the latest job placed by eviction ended.
    evicted: Vec<(Slot, Job)>,
    /// Whether a job came or left since the last pass.
    changed: bool,
}

/// What is looked at in a pass: first the partners of a class, then places for a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Class(u32),
    Demand(u32),
    /// A job that was evicted in this pass.
    Evicted,
}

/// The turns to come in a pass.
type Turns = BinaryHeap<Reverse<(Turn, Source)>>;

impl<'a> Lucid<'a> {
    fn new(setting: &Setting<'a>) -> Self {
        Self {
            predictor: Qssf::new(setting),
            predicts: setting.jobs.pairing.is_none_or(|pairing| pairing.estimate.iter().any(|own| own.is_nan())),
            queue: Queue::new(&setting.jobs),
            partners: Partners::default(),
            evicted: Vec::new(),
            changed: false,
        }
    }

    /// Returns the value by which a job that arrives is ordered, GPU-seconds.
    fn value<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> f64 {
        let own = state.jobs.pairing.map_or(f64::NAN, |pairing| pairing.estimate[job.index()]);
        let seconds = if own.is_nan() { self.predictor.duration(&state.jobs, job) } else { own };
        seconds * f64::from(state.asks(job))
    }

    /// Returns the slot of the first running job that a waiting one may join.
    fn partner<S: Speed>(&self, state: &ClusterState<'_, S>, job: Job) -> Option<Slot> {
        let (own, facts) = (self.queue.suits(job)?, state.jobs.pairing?.facts);
        let mut after = None;
        loop {
            let jobs = state.jobs;
            let pools = jobs.tried(job).iter();
            let pools = pools.map(|&(of, _)| (state.cluster.pool_of(of) as u32, facts.room_of(of)));
            let (order, slot) = self.partners.first(own, pools, after)?;
            if state.may_not_sit(job, slot).is_none() {
                return Some(slot);
            }
            after = Some(order);
        }
    }

    /// Notes that a job has started, beside another or alone, in its turn.
    fn started<S: Speed>(
        &mut self,
        state: &ClusterState<'_, S>,
        slot: Slot,
        beside: Option<Slot>,
        turn: Turn,
    ) -> Vec<(Turn, u32)> {
        let stay = &state.stays[slot.index()];
        let own = self.queue.as_partner(stay.job);
        let pool = state.cluster.pool_of(stay.gpu_type);
        let has_share = state.jobs.share_of(stay.job.index()) > 0;
        let may_join = !has_share && state.jobs.pairing.is_some() && own.gpus <= state.cluster.pool(pool).largest;
        self.queue.remove(&state.jobs, stay.job);
        self.partners.begin(slot, stay.order, may_join.then_some(pool as u32), own, beside);
        if may_join && beside.is_none() { self.queue.open_for(own.gpus, own.value, Some(turn)) } else { Vec::new() }
    }

    /// Notes that a stay is over.
    fn ended(&mut self, slot: Slot) {
        if let Some(alone) = self.partners.end(slot)
            && let Some((gpus, value)) = self.partners.of(alone)
        {
            self.queue.open_for(gpus, value, None);
        }
    }

    /// Starts a job on idle GPUs, or on those of others that make room. Returns the slot of its stay.
    fn place<S: Speed>(&mut self, state: &mut ClusterState<'_, S>, turn: Turn, turns: &mut Turns) -> Option<Slot> {
        let job = turn.2;
        if state.place(job) {
            return Some(state.start(job));
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let placed = state.makes_room() && state.place_by_evicting(job, &mut evicted);
        if placed {
            for &(slot, job) in &evicted {
                self.ended(slot);
                let own = self.queue.insert(&state.jobs, job);
                if own > turn {
                    turns.push(Reverse((own, Source::Evicted)));
                }
            }
        }
        self.evicted = evicted;
        placed.then(|| state.start(job))
    }
}

impl Named for Lucid<'_> {
    const FACTS: Facts = Facts {
        name: "lucid",
        about: "least estimated GPU time, two jobs on the same GPUs",
        paper: "Hu et al., ASPLOS 2023",
        knows: Feature::ALL,
        is: &[Is::Pairs],
        options: &["preempt-cost"],
    };
}

impl<S: Speed> Policy<S> for Lucid<'_> {
    // Stays of pairs are told one by one.
    const STOPS: bool = true;

    fn on_wait(&mut self, state: &mut ClusterState<'_, S>, job: Job, why: WaitReason) {
        if why == WaitReason::Arrived {
            self.queue.set_value(job, self.value(state, job));
        }
        self.queue.insert(&state.jobs, job);
        self.changed = true;
    }

    fn on_end(&mut self, state: &ClusterState<'_, S>, slot: Slot, job: Job, why: EndReason) {
        self.ended(slot);
        match why {
            EndReason::Done if self.predicts => self.predictor.completed(&state.jobs, job),
            EndReason::Lost => {
                self.queue.insert(&state.jobs, job);
            }
            EndReason::Done | EndReason::Limit | EndReason::Paused => {}
        }
        self.changed = true;
    }

    fn capacity_changed(&mut self) {
        self.queue.open_all();
        self.changed = true;
    }

    fn due(&mut self, state: &ClusterState<'_, S>) -> f64 {
        if self.queue.is_empty() {
            return f64::INFINITY;
        }
        let due = if self.changed { state.now } else { f64::INFINITY };
        if state.protects() || state.delays_evictions() { due.min(state.opens_at()) } else { due }
    }

    fn pass(&mut self, state: &mut ClusterState<'_, S>) {
        self.changed = false;
        state.see_openings();
        // Then one that finds nothing says that others find nothing either.
        let skips = state.placer.is_monotone() && !state.makes_room_at_all();
        let open = self.queue.take_open();
        let mut turns: Turns = self.queue.by_demand().map(|(turn, of)| Reverse((turn, Source::Demand(of)))).collect();
        if skips {
            turns.extend(open.into_iter().map(|(turn, class)| Reverse((turn, Source::Class(class)))));
        }
        let mut last = None;
        while let Some(Reverse((turn, source))) = turns.pop() {
            let job = turn.2;
            let same = (turn, if skips { source } else { Source::Evicted });
            let is_again = last.replace(same) == Some(same);
            let waits = !is_again && self.queue.is_waiting(turn) && !state.is_held_back(job);
            let looks = waits && !(skips && matches!(source, Source::Demand(_)));
            let partner = if looks { self.partner(state, job) } else { None };
            let places = waits && partner.is_none() && !(skips && matches!(source, Source::Class(_)));
            let slot = match partner {
                Some(partner) => Some(state.start_beside(job, partner)),
                None if places => self.place(state, turn, &mut turns),
                None => None,
            };
            if let Some(slot) = slot {
                let joined = self.started(state, slot, partner, turn);
                if skips {
                    turns.extend(joined.into_iter().map(|(turn, class)| Reverse((turn, Source::Class(class)))));
                }
            }
            // What has failed fails for all that come later, and are alike.
            let goes_on = !skips || !waits || slot.is_some();
            let next = match source {
                _ if !goes_on || is_again && skips => None,
                Source::Class(class) => self.queue.next_of_class(class, turn),
                Source::Demand(demand) => self.queue.next_of_demand(demand, turn),
                Source::Evicted => None,
            };
            turns.extend(next.map(|turn| Reverse((turn, source))));
        }
    }

    fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    fn waiting_jobs(&self) -> impl Iterator<Item = Job> + '_ {
        self.queue.jobs().into_iter()
    }

    fn chooses(&self, _state: &ClusterState<'_, S>) -> Chooses {
        Chooses::FromQueue(self.queue.jobs())
    }

    fn lacks(&self, state: &ClusterState<'_, S>, job: Job) -> Option<Vec<(&'static str, u32)>> {
        let (own, pairing) = (self.queue.suits(job)?, state.jobs.pairing?);
        let pools: Vec<usize> = state.jobs.tried(job).iter().map(|tried| state.cluster.pool_of(tried.0)).collect();
        let largest = pools.iter().map(|&pool| state.cluster.pool(pool).largest).max()?;
        if own.gpus > largest {
            return Some(vec![("largest", largest)]);
        }
        let lacks = ["alone", "gpus", "memory", "score", "value", "place", "nothing"];
        let mut counts = lacks.map(|name| (name, 0));
        for slot in state.alone_on_seats() {
            let stay = &state.stays[slot.index()];
            if !pools.contains(&state.cluster.pool_of(stay.gpu_type)) {
                continue;
            }
            let its = self.queue.as_partner(stay.job);
            let lack = match () {
                () if its.gpus != own.gpus => 1,
                () if !state.has_memory(&pairing, job, slot, true) => 2,
                () if its.score + own.score > MOST_OF_SCORES => 3,
                () if !is_enough(its.value, own.value) => 4,
                () if state.may_not_sit(job, slot).is_some() => 5,
                () => 6,
            };
            counts[0].1 += 1;
            counts[lack].1 += 1;
        }
        Some(counts.into_iter().filter(|&(name, number)| number > 0 || name == "alone").collect())
    }
}
