//! The job table as columns.
//!
//! Invariant: after `validate` every column that the model reads has a value for each job, and every value is in its
//! range (docs/job-table.md). For example, model `fixed` does not read `iterations`, so that column may be empty.

use super::rates::{RateTable, Rates};
use super::trials::{OwnedTrials, Trials};
use super::types::{Kind, OwnedTypes, Types};
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job, WHOLE};
use crate::options::Model;
use std::sync::Arc;

/// Borrowed columns of a job table (docs/job-table.md), one value a job.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// Submission times, s; any order.
    pub submit: &'a [f64],
    /// Gang sizes G_j, GPUs.
    pub num_gpus: &'a [u32],
    /// Recorded run times, s (model `fixed`).
    pub duration: &'a [f64],
    /// Iterations F_j (model `rar`).
    pub iterations: &'a [u64],
    /// Gradient sizes m_j, bytes (model `rar`).
    pub gradient_bytes: &'a [f64],
    /// Compute time per iteration, Delta^f_j M_j + Delta^b_j, s (model `rar`).
    pub compute_time: &'a [f64],
    /// The least and the most GPUs that a job may hold; `None` where every job takes just `num_gpus`.
    pub range: Option<Range<'a>>,
    /// What more samples at once are worth to elastic jobs; `None` where each counts in full.
    pub noise: Option<Noise<'a>>,
    /// The GPU types that jobs may run on; `None` where all GPUs are alike to every job.
    pub types: Option<Types<'a>>,
    /// Measured speeds (model `table`).
    pub rates: Option<Rates<'a>>,
    /// Thousandths of one GPU that a job asks for, 0 for whole GPUs; `None` where no job asks for a share.
    pub shares: Option<&'a [u32]>,
    /// Priorities, higher first; `None` where all jobs have one.
    pub priority: Option<&'a [i32]>,
    /// Whether jobs may be evicted; `None` where all may.
    pub preemptible: Option<&'a [bool]>,
    /// Seconds of progress between two checkpoints, NaN where the option says it; `None` where it says it for all.
    pub checkpoint_interval: Option<&'a [f64]>,
    /// The searches that jobs are trials of; `None` for a run without searches.
    pub trials: Option<Trials<'a>>,
}

/// How many GPUs elastic jobs may hold: min <= `num_gpus` <= max.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The least, GPUs.
    pub min: &'a [u32],
    /// The most, GPUs.
    pub max: &'a [u32],
}

/// How noisy the gradients of jobs are (docs/model.md#statistical-efficiency).
#[derive(Clone, Copy, Debug)]
pub struct Noise<'a> {
    /// Gradient noise scales phi, samples; infinite: every sample counts in full.
    pub scale: &'a [f64],
    /// Samples of an iteration on each GPU, M.
    pub batch: &'a [u32],
}

/// What a job asks for: GPUs, and of what kind (see [`Jobs::demand`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand(u64);

impl Demand {
    /// GPUs asked for, or thousandths of one where the table has shares.
    #[inline]
    #[must_use]
    pub const fn units(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// A number with the order of demands.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A kind that tries the same GPU types in the same order; 0 where all GPUs are alike.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// What a job tries where all GPUs are alike.
const ALIKE: &[(GpuType, f64)] = &[(GpuType::NONE, 1.0)];

/// Largest iteration count whose float64 form is exact.
pub const MAX_ITERATIONS: u64 = 1 << 53;

impl Jobs<'_> {
    /// Number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.submit.len()
    }

    /// Whether there is no job.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.submit.is_empty()
    }

    /// Whether the rows are in order of submission.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.submit.windows(2).all(|w| w[0] <= w[1])
    }

    /// When the first job is submitted, s; 0 without jobs.
    #[must_use]
    pub fn opens(&self) -> f64 {
        self.submit.iter().copied().reduce(f64::min).unwrap_or(0.0)
    }

    /// The least and the most GPUs that a row's job may hold.
    #[must_use]
    pub fn range_of(&self, row: usize) -> (u32, u32) {
        self.range.map_or((self.num_gpus[row], self.num_gpus[row]), |range| (range.min[row], range.max[row]))
    }

    /// How fast GPUs do a row's work beside all those that it asks for: (w / G) E(w), 1 on all of them.
    #[inline]
    #[must_use]
    pub fn relative_rate(&self, row: usize, gpus: u32) -> f64 {
        let (held, asked) = (f64::from(gpus), f64::from(self.num_gpus[row]));
        let share = held / asked;
        let Some(noise) = self.noise else { return share };
        let (scale, batch) = (noise.scale[row], f64::from(noise.batch[row]));
        if scale.is_infinite() {
            return share;
        }
        share * ((scale + asked * batch) / (scale + held * batch))
    }

    /// Thousandths of one GPU that a row's job asks for; 0 for whole GPUs.
    #[inline]
    #[must_use]
    pub fn share_of(&self, row: usize) -> u32 {
        self.shares.map_or(0, |shares| shares[row])
    }

    /// The priority of a row's job as a rank: the highest priority is the least tier. 0 where all jobs have one.
    #[inline]
    #[must_use]
    pub fn tier(&self, row: usize) -> u32 {
        self.priority.map_or(0, |priority| !(priority[row] as u32 ^ 1 << 31))
    }

    /// Whether a row's job may be evicted.
    #[inline]
    #[must_use]
    pub fn may_be_evicted(&self, row: usize) -> bool {
        self.preemptible.is_none_or(|preemptible| preemptible[row])
    }

    /// What a row's job asks for: GPUs, or thousandths of one where the table has shares.
    #[inline]
    #[must_use]
    pub fn units(&self, row: usize) -> u32 {
        let num_gpus = self.num_gpus[row];
        match self.shares {
            None => num_gpus,
            Some(shares) if shares[row] > 0 => shares[row],
            Some(_) => num_gpus.saturating_mul(WHOLE),
        }
    }

    /// Units of a GPU: 1, or its thousandths where the table has shares.
    #[must_use]
    pub fn units_a_gpu(&self) -> u64 {
        self.shares.map_or(1, |_| u64::from(WHOLE))
    }

    /// GPUs that a row's job asks for; less than 1 for a share.
    #[inline]
    #[must_use]
    pub fn gpus(&self, row: usize) -> f64 {
        match self.share_of(row) {
            0 => f64::from(self.num_gpus[row]),
            share => f64::from(share) / f64::from(WHOLE),
        }
    }

    /// What GPU types mean to a job; `None` where all GPUs are alike.
    #[inline]
    #[must_use]
    pub fn kind_of(&self, job: Job) -> Option<&Kind> {
        self.types.map(|types| &types.kinds[types.of[job.index()] as usize])
    }

    /// How fast GPUs of a type are for a job: (their speed, the speed recorded). (1, 1) for the type recorded.
    #[inline]
    #[must_use]
    pub fn speeds_on(&self, job: Job, gpu_type: GpuType) -> (f64, f64) {
        self.kind_of(job).and_then(|kind| kind.speed_on(gpu_type)).unwrap_or((1.0, 1.0))
    }

    /// The GPU types that a job may use, in the order in which they are tried, with their speeds; just `NONE` where all
    /// GPUs are alike.
    #[inline]
    #[must_use]
    pub fn tried(&self, job: Job) -> &[(GpuType, f64)] {
        self.kind_of(job).map_or(ALIKE, |kind| &kind.allowed)
    }

    /// What a job asks for, as a number: jobs of one number stand or fall together where nothing else is asked. Ascends
    /// with the gang's size.
    #[inline]
    #[must_use]
    pub fn demand(&self, job: Job) -> Demand {
        let order = self.kind_of(job).map_or(0, |kind| kind.order);
        Demand(u64::from(self.units(job.index())) << 32 | u64::from(order))
    }

    /// The GPU types that jobs of a demand try, in order; just `NONE` where all GPUs are alike.
    #[inline]
    #[must_use]
    pub fn tried_by(&self, demand: Demand) -> &[(GpuType, f64)] {
        self.types.map_or(ALIKE, |types| &types.kinds[demand.kind()].allowed)
    }

    /// The demands that occur, ascending.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        fn distinct<T: Copy + Ord>(mut values: Vec<T>) -> Vec<T> {
            values.sort_unstable();
            values.dedup();
            values
        }
        if self.types.is_none() {
            let units = (0..self.len()).map(|row| self.units(row)).collect();
            return distinct(units).into_iter().map(|units| Demand(u64::from(units) << 32)).collect();
        }
        distinct((0..self.len()).map(|job| self.demand(Job::at(job))).collect())
    }

    /// Checks lengths and every value that the chosen model reads.
    ///
    /// # Errors
    /// `ColumnLength` or `Value`, for the lowest offending row of the first offending column.
    pub fn validate(&self, model: Model) -> Result<()> {
        let (rar, iterations) = (model == Model::Rar, model != Model::Fixed);
        let n = self.len();
        let mut lengths = vec![("num_gpus", self.num_gpus.len()), ("duration", self.duration.len())];
        if iterations {
            lengths.push(("iterations", self.iterations.len()));
        }
        if rar {
            lengths.extend([("gradient_bytes", self.gradient_bytes.len()), ("compute_time", self.compute_time.len())]);
        }
        if let Some(range) = self.range {
            lengths.extend([("min_gpus", range.min.len()), ("max_gpus", range.max.len())]);
        }
        if let Some(noise) = self.noise {
            lengths.extend([("noise_scale", noise.scale.len()), ("batch_size", noise.batch.len())]);
        }
        if let Some(types) = self.types {
            lengths.push(("gpu_type", types.of.len()));
        }
        if let Some(rates) = self.rates {
            lengths.push(("model", rates.model_of.len()));
        }
        if let Some(shares) = self.shares {
            lengths.push(("gpu_share", shares.len()));
        }
        if let Some(priority) = self.priority {
            lengths.push(("priority", priority.len()));
        }
        if let Some(preemptible) = self.preemptible {
            lengths.push(("preemptible", preemptible.len()));
        }
        if let Some(intervals) = self.checkpoint_interval {
            lengths.push(("checkpoint_interval", intervals.len()));
        }
        if let Some(trials) = self.trials {
            lengths.push(("group", trials.search.len()));
            lengths.extend(trials.curve.map(|values| ("loss", values.len())));
        }
        for (column, length) in lengths {
            if length != n {
                return Err(Error::ColumnLength { column, length, expected: n });
            }
        }
        check("submit_time", self.submit, "a finite time >= 0", |v| v.is_finite() && *v >= 0.0)?;
        check("num_gpus", self.num_gpus, "an integer >= 1", |v| *v >= 1)?;
        check("duration", self.duration, "a finite time > 0", |v| v.is_finite() && *v > 0.0)?;
        if iterations {
            check("iterations", self.iterations, "an integer from 1 to 2^53", |v| (1..=MAX_ITERATIONS).contains(v))?;
        }
        if rar {
            check("gradient_bytes", self.gradient_bytes, "a finite size >= 0", |v| v.is_finite() && *v >= 0.0)?;
            check("compute_time", self.compute_time, "a finite time >= 0", |v| v.is_finite() && *v >= 0.0)?;
        }
        for row in 0..self.range.map_or(0, |_| n) {
            let (num_gpus, (min, max)) = (self.num_gpus[row], self.range_of(row));
            let fault =
                |column, value: u32, expected| Err(Error::Value { row, column, value: value.to_string(), expected });
            if !(1..=num_gpus).contains(&min) {
                return fault("min_gpus", min, "an integer from 1 to num_gpus");
            }
            if max < num_gpus {
                return fault("max_gpus", max, "an integer >= num_gpus");
            }
        }
        if let Some(noise) = self.noise {
            check("noise_scale", noise.scale, "a number of samples >= 0, or infinity", |v| *v >= 0.0)?;
            check("batch_size", noise.batch, "an integer >= 1", |v| *v >= 1)?;
        }
        let intervals = self.checkpoint_interval.unwrap_or_default();
        // NaN: the option's.
        check("checkpoint_interval", intervals, "a time >= 0, or infinity", |v| v.is_nan() || *v >= 0.0)?;
        check("gpu_share", self.shares.unwrap_or_default(), "fewer than 1,000 thousandths of a GPU", |v| *v < WHOLE)?;
        for row in 0..self.shares.map_or(0, |_| n) {
            if self.share_of(row) > 0 && (self.num_gpus[row], self.range_of(row)) != (1, (1, 1)) {
                let (value, expected) = (self.share_of(row).to_string(), "a share of one GPU, for a job of 1 GPU");
                return Err(Error::Value { row, column: "gpu_share", value, expected });
            }
        }
        Ok(())
    }

    /// A copy of the columns.
    #[must_use]
    pub fn to_owned(&self) -> OwnedJobs {
        OwnedJobs {
            submit: self.submit.to_vec(),
            num_gpus: self.num_gpus.to_vec(),
            duration: self.duration.to_vec(),
            iterations: self.iterations.to_vec(),
            gradient_bytes: self.gradient_bytes.to_vec(),
            compute_time: self.compute_time.to_vec(),
            range: self.range.map(|range| (range.min.to_vec(), range.max.to_vec())),
            noise: self.noise.map(|noise| (noise.scale.to_vec(), noise.batch.to_vec())),
            types: self.types.map(|types| OwnedTypes { of: types.of.to_vec(), kinds: types.kinds.to_vec() }),
            rates: self.rates.map(|rates| (rates.model_of.to_vec(), Arc::clone(rates.table))),
            shares: self.shares.map(<[u32]>::to_vec),
            priority: self.priority.map(<[i32]>::to_vec),
            preemptible: self.preemptible.map(<[bool]>::to_vec),
            checkpoint_interval: self.checkpoint_interval.map(<[f64]>::to_vec),
            trials: self
                .trials
                .map(|trials| OwnedTrials { search: trials.search.to_vec(), curve: trials.curve.map(<[f64]>::to_vec) }),
        }
    }

    /// A copy of the chosen rows, in the order given.
    pub(crate) fn gather(&self, rows: &[u32], model: Model) -> OwnedJobs {
        fn take<T: Copy>(from: &[T], rows: &[u32]) -> Vec<T> {
            rows.iter().map(|&r| from[r as usize]).collect()
        }
        let all: &[u32] = rows;
        let of = |reads: bool| if reads { rows } else { &[] };
        let (iterations, model_rows) = (of(model != Model::Fixed), of(model == Model::Rar));
        OwnedJobs {
            submit: take(self.submit, all),
            num_gpus: take(self.num_gpus, all),
            duration: take(self.duration, all),
            iterations: take(self.iterations, iterations),
            gradient_bytes: take(self.gradient_bytes, model_rows),
            compute_time: take(self.compute_time, model_rows),
            range: self.range.map(|range| (take(range.min, all), take(range.max, all))),
            noise: self.noise.map(|noise| (take(noise.scale, all), take(noise.batch, all))),
            types: self.types.map(|types| OwnedTypes { of: take(types.of, all), kinds: types.kinds.to_vec() }),
            rates: self.rates.map(|rates| (take(rates.model_of, all), Arc::clone(rates.table))),
            shares: self.shares.map(|shares| take(shares, all)),
            priority: self.priority.map(|priority| take(priority, all)),
            preemptible: self.preemptible.map(|preemptible| take(preemptible, all)),
            checkpoint_interval: self.checkpoint_interval.map(|intervals| take(intervals, all)),
            trials: self.trials.map(|trials| trials.gather(all)),
        }
    }
}

fn check<T: std::fmt::Debug>(
    column: &'static str,
    values: &[T],
    expected: &'static str,
    good: impl Fn(&T) -> bool,
) -> Result<()> {
    match values.iter().position(|v| !good(v)) {
        None => Ok(()),
        Some(row) => Err(Error::Value { row, column, value: format!("{:?}", values[row]), expected }),
    }
}

/// Columns that own their values.
#[derive(Clone, Debug, Default)]
pub struct OwnedJobs {
    /// See [`Jobs::submit`].
    pub submit: Vec<f64>,
    /// See [`Jobs::num_gpus`].
    pub num_gpus: Vec<u32>,
    /// See [`Jobs::duration`].
    pub duration: Vec<f64>,
    /// See [`Jobs::iterations`].
    pub iterations: Vec<u64>,
    /// See [`Jobs::gradient_bytes`].
    pub gradient_bytes: Vec<f64>,
    /// See [`Jobs::compute_time`].
    pub compute_time: Vec<f64>,
    /// See [`Jobs::range`]: (min, max).
    pub range: Option<(Vec<u32>, Vec<u32>)>,
    /// See [`Jobs::noise`]: (scale, batch).
    pub noise: Option<(Vec<f64>, Vec<u32>)>,
    /// See [`Jobs::types`].
    pub types: Option<OwnedTypes>,
    /// See [`Jobs::rates`]: the model of each job, and the table.
    pub rates: Option<(Vec<u32>, Arc<RateTable>)>,
    /// See [`Jobs::shares`].
    pub shares: Option<Vec<u32>>,
    /// See [`Jobs::priority`].
    pub priority: Option<Vec<i32>>,
    /// See [`Jobs::preemptible`].
    pub preemptible: Option<Vec<bool>>,
    /// See [`Jobs::checkpoint_interval`].
    pub checkpoint_interval: Option<Vec<f64>>,
    /// See [`Jobs::trials`].
    pub trials: Option<OwnedTrials>,
}

impl OwnedJobs {
    /// The columns, borrowed.
    #[must_use]
    pub fn view(&self) -> Jobs<'_> {
        Jobs {
            submit: &self.submit,
            num_gpus: &self.num_gpus,
            duration: &self.duration,
            iterations: &self.iterations,
            gradient_bytes: &self.gradient_bytes,
            compute_time: &self.compute_time,
            range: self.range.as_ref().map(|(min, max)| Range { min, max }),
            noise: self.noise.as_ref().map(|(scale, batch)| Noise { scale, batch }),
            types: self.types.as_ref().map(OwnedTypes::view),
            rates: self.rates.as_ref().map(|(model_of, table)| Rates { model_of, table }),
            shares: self.shares.as_deref(),
            priority: self.priority.as_deref(),
            preemptible: self.preemptible.as_deref(),
            checkpoint_interval: self.checkpoint_interval.as_deref(),
            trials: self.trials.as_ref().map(OwnedTrials::view),
        }
    }
}
