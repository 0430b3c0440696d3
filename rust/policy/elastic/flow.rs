//! ElasticFlow: first gives the shares that meet deadlines, and admits jobs with a deadline only if it can be met.
//! Clairvoyant. (Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
//! ASPLOS 2023.)
//!
//! Invariant: a job that was filled earlier takes GPUs first. For example, if a job takes 6 of 8 GPUs until 60 s, the
//! next one is filled over 2 GPUs until then and over 8 from then on. A decision, and an admission, costs the jobs
//! with a deadline, times the pieces of time, times the shares that are tried.

use super::allocation::Entry;
use super::base::Anew;
use super::queue::Queue;
use super::{Allocation, KNOWS, OPTIONS, Rates, Rule};
use crate::ids::Job;
use crate::machine::{Claimant, ClusterState, Stay};
use crate::options::{Facts, Is, Named};
use crate::setting::Setting;
use crate::speed::Speed;

#[derive(Clone, Debug)]
pub(in crate::policy) struct ElasticFlow<'a> {
    deadline: Option<&'a [f64]>,
}

impl<'a> ElasticFlow<'a> {
    pub(in crate::policy) fn new(setting: &Setting<'a>) -> Self {
        Self { deadline: setting.deadline }
    }
}

/// The unreserved GPUs of a pool, in units, as a function of time: (from when, s; how many), the last forever.
#[derive(Clone, Debug)]
struct Profile(Vec<(f64, i64)>);

/// What a job takes: from when, until when, s; GPUs in units.
type Piece = (f64, f64, u64);

impl Profile {
    fn new(now: f64, gpus: u64) -> Self {
        Self(vec![(now, gpus.cast_signed())])
    }

    /// Reserves GPUs. A piece that ends as soon as it begins takes them for a moment.
    fn take(&mut self, (from, to, gpus): Piece) {
        self.change((from, to), -gpus.cast_signed());
    }

    /// Takes GPUs away for ever.
    fn lessen(&mut self, gpus: u64) {
        self.0.iter_mut().for_each(|(_, free)| *free -= gpus.cast_signed());
    }

    /// Gives reserved GPUs back.
    fn give_back(&mut self, (from, to, gpus): Piece) {
        self.change((from, to), gpus.cast_signed());
    }

    fn change(&mut self, (from, to): (f64, f64), gpus: i64) {
        let to = f64::max(to, from.next_up());
        let (first, end) = (self.cut(from), self.cut(to));
        self.0[first..end].iter_mut().for_each(|(_, free)| *free += gpus);
    }

    /// Returns where the piece begins that begins at a time, not before the first one does; splits a piece there if
    /// needed.
    fn cut(&mut self, time: f64) -> usize {
        let at = self.0.partition_point(|piece| piece.0 < time);
        if time < f64::INFINITY && self.0.get(at).is_none_or(|piece| piece.0 != time) {
            let free = self.0[at - 1].1;
            self.0.insert(at, (time, free));
        }
        at
    }

    /// Returns the pieces that a job takes with the least share that is done by its deadline; `None` if no share is.
    fn fill<S: Speed>(&self, entry: &Entry, pool: usize, rates: &Rates<'_, '_, S>) -> Option<Vec<Piece>> {
        let most = self.0.iter().map(|piece| piece.1).max().unwrap_or(0);
        let most = entry.gpus_of(most).min(entry.max);
        (entry.min..=most).find_map(|share| self.pieces(entry, share, |gpus| rates.of(entry.job, pool, gpus)))
    }

    /// Returns the pieces that it takes with that share; `None` if it is late.
    fn pieces(&self, entry: &Entry, share: u32, rate: impl Fn(u32) -> f64) -> Option<Vec<Piece>> {
        let mut left = entry.left;
        let mut taken = Vec::new();
        for (at, &(from, free)) in self.0.iter().enumerate() {
            if from > entry.key {
                return None;
            }
            let gpus = entry.gpus_of(free).min(share);
            if gpus < entry.min {
                continue;
            }
            let to = self.0.get(at + 1).map_or(f64::INFINITY, |next| next.0);
            let rate = rate(gpus);
            let end = from + left / rate;
            if end <= to {
                taken.push((from, end, u64::from(gpus) * entry.unit));
                return (end <= entry.key).then_some(taken);
            }
            taken.push((from, to, u64::from(gpus) * entry.unit));
            left = f64::max(0.0, left - (to - from) * rate);
        }
        None
    }
}

/// Fills the jobs with a deadline, which are in order. `kept`: what is reserved for protected jobs, each of which may
/// take that and more. Returns for each, with its pieces, on which pool it is in time.
fn fill_all<S: Speed>(
    profiles: &mut [Profile],
    entries: &[Entry],
    kept: &[(Job, Piece)],
    rates: &Rates<'_, '_, S>,
) -> Vec<Option<(usize, Vec<Piece>)>> {
    let fill = |entry: &Entry| {
        let kept = kept.iter().find(|kept| kept.0 == entry.job).map(|kept| kept.1);
        kept.into_iter().for_each(|piece| profiles[entry.pool].give_back(piece));
        let on =
            |profiles: &[Profile], pool: usize| profiles[pool].fill(entry, pool, rates).map(|pieces| (pool, pieces));
        let found = if entry.held > 0 {
            on(profiles, entry.pool)
        } else {
            rates.tried(entry.job).find_map(|pool| on(profiles, pool))
        };
        match &found {
            Some((pool, pieces)) => pieces.iter().for_each(|&piece| profiles[*pool].take(piece)),
            None => kept.into_iter().for_each(|piece| profiles[entry.pool].take(piece)),
        }
        found
    };
    entries.iter().map(fill).collect()
}

/// Fills the jobs with a deadline of a standing, and gives them what they take now.
fn fill_allocation<S: Speed>(
    allocation: &mut Allocation,
    profiles: &mut [Profile],
    standing: Claimant,
    rates: &Rates<'_, '_, S>,
) {
    let now = rates.state.seconds();
    let of_it: Vec<usize> =
        (0..allocation.entries.len()).filter(|&at| allocation.entries[at].standing == standing).collect();
    let mut kept: Vec<(Job, Piece)> = Vec::new();
    for entry in of_it.iter().map(|&at| &allocation.entries[at]).filter(|entry| entry.is_protected) {
        let until = now + entry.left / rates.of(entry.job, entry.pool, entry.min);
        let piece = (now, until, u64::from(entry.min) * entry.unit);
        profiles[entry.pool].take(piece);
        kept.push((entry.job, piece));
    }
    let due: Vec<usize> = of_it.into_iter().filter(|&at| allocation.entries[at].key < f64::INFINITY).collect();
    let entries: Vec<Entry> = due.iter().map(|&at| allocation.entries[at]).collect();
    for (at, found) in due.into_iter().zip(fill_all(profiles, &entries, &kept, rates)) {
        let Some((pool, pieces)) = found else { continue };
        let entry = &allocation.entries[at];
        let asked = pieces.first().filter(|piece| piece.0 == now).map_or(0, |piece| piece.2 / entry.unit);
        // A protected job has min_gpus already.
        let more = asked.saturating_sub(u64::from(entry.number)).min(allocation.left_of(rates.state, entry.job)) as u32;
        let more = if entry.number + more >= entry.min { more } else { 0 };
        allocation.free[pool] -= u64::from(more) * entry.unit;
        let job = entry.job;
        allocation.spend(rates.state, job, more);
        let entry = &mut allocation.entries[at];
        (entry.pool, entry.tied, entry.number) = (pool, true, entry.number + more);
    }
}

/// Returns all GPUs that are up, as a profile by pool.
fn all_free<S: Speed>(rates: &Rates<'_, '_, S>) -> Vec<Profile> {
    let now = rates.state.seconds();
    rates.state.cluster.units().into_iter().map(|gpus| Profile::new(now, gpus)).collect()
}

impl Entry {
    /// Returns the GPUs of so many units, which may be negative.
    fn gpus_of(&self, units: i64) -> u32 {
        u32::try_from(units.max(0).cast_unsigned() / self.unit).unwrap_or(u32::MAX)
    }
}

impl Named for ElasticFlow<'_> {
    const FACTS: Facts = Facts {
        name: "elasticflow",
        about: "the least shares that meet deadlines; refuses jobs that would be late; resizes jobs by marginal gain",
        paper: "Gu et al., ASPLOS 2023",
        knows: KNOWS,
        is: &[Is::Resizes, Is::Clairvoyant, Is::Refuses, Is::ByDeadlines],
        options: OPTIONS,
    };
}

impl Rule for ElasticFlow<'_> {
    type Rest = Anew;

    const REFUSES: bool = true;

    /// Returns whether it is in time, and no other job is late because of it.
    fn admits<S: Speed>(&self, job: &Entry, others: impl Iterator<Item = Entry>, rates: &Rates<'_, '_, S>) -> bool {
        if job.key == f64::INFINITY {
            return true;
        }
        let mut entries: Vec<Entry> = others.filter(|entry| entry.key < f64::INFINITY).collect();
        entries.sort_unstable_by_key(Entry::place);
        let before = fill_all(&mut all_free(rates), &entries, &[], rates);
        let at = entries.partition_point(|entry| entry.place() < job.place());
        entries.insert(at, *job);
        let mut with = fill_all(&mut all_free(rates), &entries, &[], rates);
        with.remove(at).is_some() && before.iter().zip(&with).all(|(before, with)| before.is_none() || with.is_some())
    }

    /// Returns the deadline, s.
    fn key<S: Speed>(&self, _state: &ClusterState<'_, S>, job: Job, _stay: Option<&Stay<S::Pace>>) -> f64 {
        let deadline = self.deadline.map_or(f64::NAN, |deadlines| deadlines[job.index()]);
        if deadline.is_nan() { f64::INFINITY } else { deadline }
    }

    fn give_base<S: Speed>(&self, allocation: &mut Allocation, queue: &Queue, rates: &Rates<'_, '_, S>) {
        allocation.add_waiting(queue, rates);
        let now = rates.state.seconds();
        let mut profiles = all_free(rates);
        for entry in &allocation.young {
            let until = now + entry.left / rates.of(entry.job, entry.pool, entry.held);
            // What it gives back on a server that drains is nobody's.
            let stuck = rates.state.stuck_gpus(entry.job);
            profiles[entry.pool].take((now, until, u64::from(entry.held - stuck) * entry.unit));
            profiles[entry.pool].lessen(u64::from(stuck) * entry.unit);
        }
        allocation.sort();
        if rates.state.protects() {
            allocation.give_least_to_protected(rates);
        }
        for standing in [Claimant::Within, Claimant::Over] {
            fill_allocation(allocation, &mut profiles, standing, rates);
        }
        allocation.give_least(rates);
    }
}
