//! Holds the job table as columns.
//!
//! Invariant: after `validate` every column that the model reads has a value for each job, and every value is in its
//! range (docs/job-table.md). For example, model `fixed` does not read `iterations`, so that column may be empty.

use super::chains::Chains;
use super::columns::{check, columns, job_columns};
use super::forms::{Form, Forms};
use super::pairing::Pairing;
use super::rates::Rates;
use super::trials::Trials;
use super::types::{Kind, Types};
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job, MILLI_GPU};
use crate::options::Model;

macro_rules! of_jobs {
    ($($column:tt)*) => {
        columns! {
            /// Borrowed columns of a job table (docs/job-table.md), one value per job.
            #[derive(Default)]
            Jobs, OwnedJobs;
            $($column)*
        }
    };
}
job_columns!(of_jobs);

columns! {
    /// How many GPUs elastic jobs may hold: min <= `num_gpus` <= max.
    Range, OwnedRange;
    /// The least, GPUs.
    min: all u32 = "min_gpus";
    /// The most, GPUs.
    max: all u32 = "max_gpus";
}

columns! {
    /// How noisy the gradients of jobs are (docs/model.md#statistical-efficiency).
    Noise, OwnedNoise;
    /// Gradient noise scales phi, samples; infinite: every sample counts in full.
    scale: all f64 = "noise_scale";
    /// Samples of an iteration on each GPU, M.
    batch: all u32 = "batch_size";
}

/// The demand of a job: GPUs, and of what kind (see [`Jobs::demand`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand(u64);

impl Demand {
    /// Returns the GPUs requested, or thousandths of one where the table has shares.
    #[inline]
    #[must_use]
    pub const fn units(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns a number with the order of demands.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Returns a number that jobs share which try the same GPU types in the same order and are of one form; 0 where
    /// all GPUs are alike and gangs may lie anywhere.
    #[inline]
    #[must_use]
    pub const fn kind(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// The types that a job tries where all GPUs are alike.
const ALIKE: &[(GpuType, f64)] = &[(GpuType::NONE, 1.0)];

impl Jobs<'_> {
    /// Returns the number of jobs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.submit.len()
    }

    /// Returns whether there are no jobs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.submit.is_empty()
    }

    /// Returns whether the rows are in order of submission.
    #[must_use]
    pub fn is_sorted(&self) -> bool {
        self.submit.windows(2).all(|w| w[0] <= w[1])
    }

    /// Returns when the first job that depends on no other is submitted, s; 0 without jobs.
    #[must_use]
    pub fn opens(&self) -> f64 {
        let depends = |row: usize| self.chains.is_some_and(|chains| chains.before(row).is_some());
        let submit = self.submit.iter().enumerate().filter(|&(row, _)| !depends(row)).map(|(_, &submit)| submit);
        submit.reduce(f64::min).unwrap_or(0.0)
    }

    /// Returns the least and the most GPUs that a row's job may hold.
    #[must_use]
    pub fn range_of(&self, row: usize) -> (u32, u32) {
        self.range.map_or((self.num_gpus[row], self.num_gpus[row]), |range| (range.min[row], range.max[row]))
    }

    /// Returns the rate of a row's job on `gpus` GPUs relative to all that it requests: (w / G) E(w), 1 on all of them.
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

    /// Returns the thousandths of one GPU that a row's job requests; 0 for whole GPUs.
    #[inline]
    #[must_use]
    pub fn share_of(&self, row: usize) -> u32 {
        self.shares.map_or(0, |shares| shares[row])
    }

    /// Returns how the gang of a row's job may lie.
    #[inline]
    #[must_use]
    pub fn form(&self, row: usize) -> Form {
        self.forms.map_or_else(Form::default, |forms| forms.list[forms.of[row] as usize])
    }

    /// Returns how a gang of a demand may lie.
    #[inline]
    #[must_use]
    pub fn form_of(&self, demand: Demand) -> Form {
        self.forms.map_or_else(Form::default, |forms| forms.list[demand.kind() / self.kinds()])
    }

    /// Returns the forms that occur.
    #[must_use]
    pub fn all_forms(&self) -> Vec<Form> {
        self.forms.map_or_else(|| vec![Form::default()], |forms| forms.list.to_vec())
    }

    /// Returns whether some jobs have pods of several GPUs.
    #[must_use]
    pub fn has_pods(&self) -> bool {
        self.forms.is_some_and(|forms| forms.list.iter().any(|form| form.pod > 1))
    }

    /// Returns the first row whose gang is to lie in a tier.
    #[must_use]
    pub fn first_in_tiers(&self) -> Option<usize> {
        let forms = self.forms?;
        forms.of.iter().position(|&of| forms.list[of as usize].names_tier())
    }

    /// Returns the number of kinds of GPU types.
    fn kinds(&self) -> usize {
        self.types.map_or(1, |types| types.kinds.len().max(1))
    }

    /// Returns the priority of a row's job as a rank: the highest priority is the least tier. 0 where all jobs have the
    /// same.
    #[inline]
    #[must_use]
    pub fn tier(&self, row: usize) -> u32 {
        self.priority.map_or(0, |priority| !(priority[row] as u32 ^ 1 << 31))
    }

    /// Returns whether a row's job may be evicted.
    #[inline]
    #[must_use]
    pub fn may_be_evicted(&self, row: usize) -> bool {
        self.preemptible.is_none_or(|preemptible| preemptible[row])
    }

    /// Returns the units that a row's job requests: GPUs, or thousandths of one where the table has shares.
    #[inline]
    #[must_use]
    pub fn units(&self, row: usize) -> u32 {
        let num_gpus = self.num_gpus[row];
        match self.shares {
            None => num_gpus,
            Some(shares) if shares[row] > 0 => shares[row],
            Some(_) => num_gpus.saturating_mul(MILLI_GPU),
        }
    }

    /// Returns the units of a GPU: 1, or its thousandths where the table has shares.
    #[must_use]
    pub fn units_per_gpu(&self) -> u64 {
        self.shares.map_or(1, |_| u64::from(MILLI_GPU))
    }

    /// Returns the GPUs that a row's job requests; less than 1 for a share.
    #[inline]
    #[must_use]
    pub fn gpus(&self, row: usize) -> f64 {
        match self.share_of(row) {
            0 => f64::from(self.num_gpus[row]),
            share => f64::from(share) / f64::from(MILLI_GPU),
        }
    }

    /// Returns the kind of a job, by which GPU types differ for it; `None` where all GPUs are alike.
    #[inline]
    #[must_use]
    pub fn kind_of(&self, job: Job) -> Option<&Kind> {
        self.types.map(|types| &types.kinds[types.of[job.index()] as usize])
    }

    /// Returns how fast GPUs of a type are for a job: (their speed, the speed recorded). (1, 1) for the recorded type.
    #[inline]
    #[must_use]
    pub fn speeds_on(&self, job: Job, gpu_type: GpuType) -> (f64, f64) {
        self.kind_of(job).and_then(|kind| kind.speed_on(gpu_type)).unwrap_or((1.0, 1.0))
    }

    /// Returns the GPU types that a job may use, in the order in which they are tried, with their speeds; only `NONE`
    /// where all GPUs are alike.
    #[inline]
    #[must_use]
    pub fn tried(&self, job: Job) -> &[(GpuType, f64)] {
        self.kind_of(job).map_or(ALIKE, |kind| &kind.allowed)
    }

    /// Returns the demand of a job. If only demand matters, either all jobs of one demand can be placed or none can.
    /// Ascends with the gang size.
    #[inline(always)]
    #[must_use]
    pub fn demand(&self, job: Job) -> Demand {
        let order = self.kind_of(job).map_or(0, |kind| kind.order);
        let kind = self.forms.map_or(order, |forms| forms.of[job.index()] * self.kinds() as u32 + order);
        Demand(u64::from(self.units(job.index())) << 32 | u64::from(kind))
    }

    /// Returns the GPU types that jobs of a demand try, in order; only `NONE` where all GPUs are alike.
    #[inline]
    #[must_use]
    pub fn tried_by(&self, demand: Demand) -> &[(GpuType, f64)] {
        self.types.map_or(ALIKE, |types| {
            let kind = if self.forms.is_some() { demand.kind() % types.kinds.len() } else { demand.kind() };
            &types.kinds[kind].allowed
        })
    }

    /// Returns the demands that occur, ascending.
    #[must_use]
    pub fn demands(&self) -> Vec<Demand> {
        fn distinct<T: Copy + Ord>(mut values: Vec<T>) -> Vec<T> {
            values.sort_unstable();
            values.dedup();
            values
        }
        if self.types.is_none() && self.forms.is_none() {
            let units = (0..self.len()).map(|row| self.units(row)).collect();
            return distinct(units).into_iter().map(|units| Demand(u64::from(units) << 32)).collect();
        }
        distinct((0..self.len()).map(|job| self.demand(Job::at(job))).collect())
    }

    /// Returns the columns, with those that the model does not read empty; and the names of these.
    fn read_by(&self, model: Model) -> (Self, &'static [&'static str]) {
        match model {
            Model::Rar => (*self, &[]),
            Model::Table => {
                (Self { gradient_bytes: &[], compute_time: &[], ..*self }, &["gradient_bytes", "compute_time"])
            }
            Model::Fixed => (
                Self { iterations: &[], gradient_bytes: &[], compute_time: &[], ..*self },
                &["iterations", "gradient_bytes", "compute_time"],
            ),
        }
    }

    /// Checks lengths and every value that the chosen model reads.
    ///
    /// # Errors
    /// `ColumnLength` or `Value`, for the lowest offending row of the first offending column.
    pub fn validate(&self, model: Model) -> Result<()> {
        let (read, unread) = self.read_by(model);
        check(read, self.len(), unread)?;
        if let Some(chains) = &self.chains {
            chains.validate()?;
        }
        for row in 0..self.range.map_or(0, |_| self.len()) {
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
        for row in 0..self.shares.map_or(0, |_| self.len()) {
            if self.share_of(row) > 0 && (self.num_gpus[row], self.range_of(row)) != (1, (1, 1)) {
                let (value, expected) = (self.share_of(row).to_string(), "a share of one GPU, for a job of 1 GPU");
                return Err(Error::Value { row, column: "gpu_share", value, expected });
            }
        }
        for row in 0..self.forms.map_or(0, |_| self.len()) {
            let form = self.forms.and_then(|forms| forms.list.get(forms.of[row] as usize).copied());
            let Form { pod: size, segment, .. } = form.unwrap_or(Form { pod: 0, ..Form::default() });
            let is_rigid = self.range_of(row) == (self.num_gpus[row], self.num_gpus[row]);
            let divides = self.num_gpus[row].is_multiple_of(segment) && segment.is_multiple_of(size);
            if segment > 0 && !(is_rigid && self.share_of(row) == 0 && divides) {
                let expected = "whole pods that divide num_gpus, of a job that always holds num_gpus whole GPUs";
                return Err(Error::Value { row, column: "segment", value: segment.to_string(), expected });
            }
            let expected = match self.num_gpus[row].checked_rem(size) {
                Some(0) if size > 1 && self.share_of(row) > 0 => "1, for a job with a gpu_share",
                Some(0) if size > 1 && !is_rigid => "1, for a job that may hold other numbers of GPUs",
                Some(0) => continue,
                _ => "an integer >= 1 that divides num_gpus",
            };
            return Err(Error::Value { row, column: "gpus_per_pod", value: size.to_string(), expected });
        }
        Ok(())
    }

    /// Copies the chosen rows, in the order given.
    pub(crate) fn gather(&self, rows: &[u32], model: Model) -> OwnedJobs {
        super::Columns::gather(self.read_by(model).0, rows)
    }
}
