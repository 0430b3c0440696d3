//! ElasticFlow: the shares that meet deadlines first, and admission of those jobs only whose deadline can be met. Clairvoyant.
//! (Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning", ASPLOS 2023.)
//!
//! Invariant: whoever was filled earlier takes GPUs first. For example, if a job takes 6 of 8 GPUs until 60 s, the next one is
//! filled over 2 GPUs until then and over 8 from then on. A decision, and an admission, costs the jobs with a deadline, times
//! the pieces of time, times the shares that are tried.

use super::base::Anew;
use super::queue::Queue;
use super::sheet::Line;
use super::{KNOWS, OPTIONS, Rates, Rule, Sheet};
use crate::ids::Job;
use crate::machine::{Claimant, Floor, Stay};
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

/// The GPUs of a pool, in units, that nobody has reserved, as a function of time: (from when, s; how many), the last for ever.
#[derive(Clone, Debug)]
struct Profile(Vec<(f64, u64)>);

/// What a job takes: from when, until when, s; GPUs in units.
type Piece = (f64, f64, u64);

impl Profile {
    fn new(now: f64, gpus: u64) -> Self {
        Self(vec![(now, gpus)])
    }

    /// Reserves GPUs. What is done as soon as it begins takes them for a moment.
    fn take(&mut self, (from, to, gpus): Piece) {
        let to = f64::max(to, from.next_up());
        let (first, end) = (self.cut(from), self.cut(to));
        for (_, free) in &mut self.0[first..end] {
            *free = free.saturating_sub(gpus);
        }
    }

    /// Where the piece begins that begins at a time, not before the first one does; makes one there.
    fn cut(&mut self, time: f64) -> usize {
        let at = self.0.partition_point(|piece| piece.0 < time);
        if time < f64::INFINITY && self.0.get(at).is_none_or(|piece| piece.0 != time) {
            let free = self.0[at - 1].1;
            self.0.insert(at, (time, free));
        }
        at
    }

    /// The pieces that a job takes with the least share that is done by its deadline; `None` where none is.
    fn fill<S: Speed>(&self, line: &Line, pool: usize, rates: &Rates<'_, '_, S>) -> Option<Vec<Piece>> {
        let most = self.0.iter().map(|piece| piece.1).max().unwrap_or(0);
        let most = u32::try_from(most / line.unit).unwrap_or(u32::MAX).min(line.max);
        (line.min..=most).find_map(|share| self.pieces(line, share, |gpus| rates.of(line.job, pool, gpus)))
    }

    /// The pieces that it takes with that share; `None` if it is late.
    fn pieces(&self, line: &Line, share: u32, rate: impl Fn(u32) -> f64) -> Option<Vec<Piece>> {
        let mut left = line.left;
        let mut taken = Vec::new();
        for (at, &(from, free)) in self.0.iter().enumerate() {
            if from > line.key {
                return None;
            }
            let gpus = u32::try_from(free / line.unit).unwrap_or(u32::MAX).min(share);
            if gpus < line.min {
                continue;
            }
            let to = self.0.get(at + 1).map_or(f64::INFINITY, |next| next.0);
            let rate = rate(gpus);
            let end = from + left / rate;
            if end <= to {
                taken.push((from, end, u64::from(gpus) * line.unit));
                return (end <= line.key).then_some(taken);
            }
            taken.push((from, to, u64::from(gpus) * line.unit));
            left = f64::max(0.0, left - (to - from) * rate);
        }
        None
    }
}

/// Fills the jobs with a deadline, which stand in order. Says of each, and with its pieces, on which pool it is in time.
fn fill_all<S: Speed>(
    profiles: &mut [Profile],
    lines: &[Line],
    rates: &Rates<'_, '_, S>,
) -> Vec<Option<(usize, Vec<Piece>)>> {
    let fill = |line: &Line| {
        let on =
            |profiles: &[Profile], pool: usize| profiles[pool].fill(line, pool, rates).map(|pieces| (pool, pieces));
        let found = if line.held > 0 {
            on(profiles, line.pool)
        } else {
            rates.tried(line.job).find_map(|pool| on(profiles, pool))
        };
        if let Some((pool, pieces)) = &found {
            pieces.iter().for_each(|&piece| profiles[*pool].take(piece));
        }
        found
    };
    lines.iter().map(fill).collect()
}

/// All GPUs that are up, as a profile by pool.
fn all_free<S: Speed>(rates: &Rates<'_, '_, S>) -> Vec<Profile> {
    let now = rates.floor.seconds();
    rates.floor.cluster.units().into_iter().map(|gpus| Profile::new(now, gpus)).collect()
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

    /// Whether it is in time, and nobody is late because of it.
    fn admits<S: Speed>(&self, job: &Line, others: impl Iterator<Item = Line>, rates: &Rates<'_, '_, S>) -> bool {
        if job.key == f64::INFINITY {
            return true;
        }
        let mut lines: Vec<Line> = others.filter(|line| line.key < f64::INFINITY).collect();
        lines.sort_unstable_by_key(Line::place);
        let before = fill_all(&mut all_free(rates), &lines, rates);
        let at = lines.partition_point(|line| line.place() < job.place());
        lines.insert(at, *job);
        let mut with = fill_all(&mut all_free(rates), &lines, rates);
        with.remove(at).is_some() && before.iter().zip(&with).all(|(before, with)| before.is_none() || with.is_some())
    }

    /// The deadline, s.
    fn key<S: Speed>(&self, _floor: &Floor<'_, S>, job: Job, _stay: Option<&Stay<S::Pace>>) -> f64 {
        let deadline = self.deadline.map_or(f64::NAN, |deadlines| deadlines[job.index()]);
        if deadline.is_nan() { f64::INFINITY } else { deadline }
    }

    fn give_base<S: Speed>(&self, sheet: &mut Sheet, queue: &Queue, rates: &Rates<'_, '_, S>) {
        sheet.add_waiting(queue, rates);
        let now = rates.floor.seconds();
        let mut profiles = all_free(rates);
        for line in &sheet.young {
            let until = now + line.left / rates.of(line.job, line.pool, line.held);
            profiles[line.pool].take((now, until, u64::from(line.held) * line.unit));
        }
        sheet.sort();
        let is_due = |line: &Line| line.key < f64::INFINITY && line.standing != Claimant::HeldBack;
        let due: Vec<usize> = (0..sheet.lines.len()).filter(|&at| is_due(&sheet.lines[at])).collect();
        let lines: Vec<Line> = due.iter().map(|&at| sheet.lines[at]).collect();
        for (at, found) in due.into_iter().zip(fill_all(&mut profiles, &lines, rates)) {
            let Some((pool, pieces)) = found else { continue };
            let line = &sheet.lines[at];
            let asked = pieces.first().filter(|piece| piece.0 == now).map_or(0, |piece| piece.2 / line.unit);
            let number = Some(asked.min(sheet.left_of(line.owner))).filter(|&number| number >= u64::from(line.min));
            let number = number.unwrap_or(0) as u32;
            sheet.free[pool] -= u64::from(number) * line.unit;
            sheet.spend(line.owner, number);
            let line = &mut sheet.lines[at];
            (line.pool, line.tied, line.number) = (pool, true, number);
        }
        sheet.give_least(rates);
    }
}
