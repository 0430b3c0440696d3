//! Computes once how fast each job runs on each number of GPUs.
//!
//! Invariant: a curve has the rates from `least`, which is min_gpus or what a deadline demands, to `cap`, and each is
//! greater than the one before. For example, a job that is no faster on 9 GPUs than on 8 has a cap of 8, whatever its
//! rate on 10.

use super::Rates;
use crate::ids::Job;
use crate::speed::Speed;

/// Rates of a job on the GPUs of a pool.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Curve {
    /// The fewest GPUs of the curve.
    pub(super) least: u32,
    /// The number beyond which one more GPU is no gain.
    pub(super) cap: u32,
    /// Rates on `least`, `least` + 1, ..., `cap` GPUs.
    rate: Vec<f64>,
    /// By number of GPUs, but for the last: the greatest c of `afs` up to it, in millionths plus one, so that none is
    /// 0. A GPU is given only after those before it.
    c_plus_one: Vec<u64>,
    /// Whether each GPU saves less run time than the one before, by more than rounding, whatever the work left.
    time_gains_fall: bool,
}

/// Returns c(w) = r(w) / (r(w + 1) - r(w)) of `afs`, in millionths.
fn c_of(rate: f64, next: f64) -> u64 {
    (rate / (next - rate) * 1e6).round_ties_even() as u64
}

impl Curve {
    fn new(least: u32, max: u32, rate_on: impl Fn(u32) -> f64) -> Self {
        let mut rate = vec![rate_on(least)];
        let mut cap = least;
        while cap < max {
            let (now, next) = (rate[rate.len() - 1], rate_on(cap + 1));
            if next <= now * (1.0 + 1e-12) {
                break;
            }
            rate.push(next);
            cap += 1;
        }
        let gain = |pair: &[f64]| 1.0 / pair[0] - 1.0 / pair[1];
        let time_gains_fall =
            rate[0] > 0.0 && rate.windows(3).all(|three| gain(&three[..2]) - gain(&three[1..]) > 1e-12 / three[0]);
        let mut most = 1;
        let times = |pair: &[f64]| {
            most = u64::max(most, 1 + c_of(pair[0], pair[1]));
            most
        };
        Self { least, cap, c_plus_one: rate.windows(2).map(times).collect(), rate, time_gains_fall }
    }

    /// Returns the rate on so many GPUs, from `least` to `cap`.
    #[inline]
    pub(super) fn rate(&self, gpus: u32) -> f64 {
        self.rate[(gpus - self.least) as usize]
    }

    /// Returns c of `afs` on so many GPUs, in millionths.
    pub(super) fn c_on(&self, gpus: u32) -> u64 {
        c_of(self.rate(gpus), self.rate(gpus + 1))
    }

    /// Returns by how much the remaining run time falls from so many GPUs to one more, s.
    #[inline]
    pub(super) fn gain(&self, left: f64, gpus: u32) -> f64 {
        let rate = self.rate(gpus);
        if rate == 0.0 { f64::INFINITY } else { left / rate - left / self.rate(gpus + 1) }
    }

    /// Returns the least gain of the next GPU and of those before it: it can be given only after these.
    #[inline]
    pub(super) fn capped_gain(&self, left: f64, gpus: u32) -> f64 {
        let gain = self.gain(left, gpus);
        if self.time_gains_fall {
            return gain;
        }
        (self.least..gpus).map(|before| self.gain(left, before)).fold(gain, f64::min)
    }
}

/// The curves computed so far.
#[derive(Clone, Debug)]
pub(in crate::policy) struct Curves {
    pools: usize,
    curves: Vec<Option<Box<Curve>>>,
}

impl Curves {
    pub(super) fn new(jobs: usize, pools: usize) -> Self {
        Self { pools, curves: vec![None; jobs * pools] }
    }

    /// Returns the curve of a job on a pool from so many GPUs on; computes it if necessary.
    pub(super) fn get_or_compute<S: Speed>(
        &mut self,
        rates: &Rates<'_, '_, S>,
        job: Job,
        pool: usize,
        least: u32,
    ) -> &Curve {
        let cached = &mut self.curves[job.index() * self.pools + pool];
        if cached.as_ref().is_some_and(|curve| curve.least != least) {
            *cached = None;
        }
        cached.get_or_insert_with(|| {
            let (_, max) = rates.state.jobs.range_of(job.index());
            Box::new(Curve::new(least, max, |gpus| rates.of(job, pool, gpus)))
        })
    }

    /// Returns a curve that was computed.
    #[inline]
    pub(super) fn get(&self, job: Job, pool: usize) -> Option<&Curve> {
        self.curves[job.index() * self.pools + pool].as_deref()
    }

    /// Returns c of `afs` on `least`, `least` + 1, ... GPUs, as far as one more is a gain.
    #[inline]
    pub(super) fn c_plus_one(&self, job: Job, pool: usize) -> &[u64] {
        self.get(job, pool).map_or(&[], |curve| &curve.c_plus_one)
    }

    /// Drops the curves of a job that is done.
    pub(super) fn forget(&mut self, job: Job) {
        self.curves[job.index() * self.pools..][..self.pools].fill(None);
    }
}

#[cfg(test)]
mod tests {
    use super::Curve;

    #[test]
    fn a_curve_ends_where_one_more_gpu_is_no_gain() {
        let curve = Curve::new(1, 6, |gpus| [1.0, 1.9, 2.7, 2.7, 9.0, 9.0][gpus as usize - 1]);
        assert_eq!((curve.cap, curve.time_gains_fall), (3, true));
        assert_eq!(Curve::new(2, 2, f64::from).cap, 2);
    }

    #[test]
    fn the_capped_gain_of_a_gpu_is_at_most_that_of_those_before() {
        // 100 s on one GPU, 90 s on two, 30 s on three.
        let curve = Curve::new(1, 3, |gpus| [1.0, 100.0 / 90.0, 100.0 / 30.0][gpus as usize - 1]);
        assert!(!curve.time_gains_fall);
        assert!((curve.capped_gain(100.0, 2) - 10.0).abs() < 1e-9);
    }
}
