//! Finds jobs whose speed is not concave: one more GPU gains less than the one before, but a later one gains more
//! again.
//!
//! Policies that allocate GPUs one at a time consider only the next one (docs/elastic-policies.md#where-gains-dip). For
//! example, a job that does 58 iterations per second on 2 GPUs, 75 on 4 and 231 on 8 may be left with 2.

use crate::cluster::network_of;
use crate::error::{Error, Result};
use crate::ids::{GpuType, Job};
use crate::options::Model;
use crate::replay::{ClusterSpec, job_vcs, split};
use crate::speed::{RingSpeed, Speed, TableSpeed};
use crate::trace::Jobs;
use std::collections::HashMap;
use std::sync::Arc;

/// Differences of gains that may be rounding, relative to the larger speed.
const ROUNDING: f64 = 1e-9;

/// A job whose gain falls and rises again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dip {
    /// The job's row.
    pub row: u32,
    /// The first type that it may use with such a gain; `NONE` where all GPUs are alike.
    pub gpu_type: GpuType,
    /// On this many GPUs one more gains less than the one before, or nothing.
    pub falls: u32,
    /// On this many, the first after `falls`, one more gains more than the one before.
    pub rises: u32,
}

/// Returns where the gain of one more GPU falls for the last time before it rises, and where it rises, from `least` to
/// `most`.
///
/// No gain at all on `least` GPUs counts as a fall: a policy would not give the next one.
fn dip(least: u32, most: u32, rate: impl Fn(u32) -> f64) -> Option<(u32, u32)> {
    let (mut now, mut before, mut fell) = (rate(least), None, None);
    for gpus in least..most {
        let next = rate(gpus + 1);
        let (gain, rounding) = (next - now, ROUNDING * f64::max(now, next));
        match before {
            None if next <= now * (1.0 + 1e-12) => fell = Some(gpus),
            Some(before) if gain < before - rounding => fell = Some(gpus),
            Some(before) if gain > before + rounding => {
                if let Some(fell) = fell {
                    return Some((fell, gpus));
                }
            }
            _ => {}
        }
        (now, before) = (next, Some(gain));
    }
    None
}

/// The inputs of a job's speeds; jobs with the same key have the same speeds.
type Key = (usize, Option<u32>, (u32, u32, u32), [u64; 4]);

/// Returns the elastic jobs whose gain falls and rises again within the GPUs that they may hold and that exist of a
/// type, by row.
///
/// Speeds are those by which GPUs are allocated: alone, on the fewest servers of the type. Under `fixed` there are no
/// such jobs: the speed on w GPUs, w E(w), is concave.
///
/// # Errors
/// `ColumnLength` and `Value` if columns do not fit together.
pub fn dips(jobs: &Jobs<'_>, vc: Option<&[u32]>, spec: &ClusterSpec<'_>, model: Model) -> Result<Vec<Dip>> {
    jobs.validate(model)?;
    let ring = RingSpeed { network: network_of(&spec.network, spec.tiers, spec.server_gpus) };
    match (model, jobs.rates) {
        (Model::Fixed, _) => Ok(Vec::new()),
        (Model::Rar, _) => found(jobs, vc, spec, &ring, |row| {
            let bits = |column: &[f64]| column[row].to_bits();
            let (scale, batch) = jobs.noise.map_or((0, 0), |noise| (bits(noise.scale), noise.batch[row]));
            [bits(jobs.gradient_bytes), bits(jobs.compute_time), scale, batch.into()]
        }),
        (Model::Table, Some(rates)) => {
            let speed = TableSpeed { table: Arc::clone(rates.table) };
            found(jobs, vc, spec, &speed, |row| [rates.model_of[row].into(), 0, 0, 0])
        }
        (Model::Table, None) => Err(Error::ColumnLength { column: "rates", length: 0, expected: jobs.len() }),
    }
}

fn found<S: Speed>(
    jobs: &Jobs<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    speed: &S,
    speeds: impl Fn(usize) -> [u64; 4],
) -> Result<Vec<Dip>> {
    let parts = split(spec)?;
    let vc = job_vcs(jobs, vc, spec, parts.len())?;
    let mut known: HashMap<Key, Option<(GpuType, u32, u32)>> = HashMap::new();
    let of = |row: usize| {
        let (least, most) = jobs.range_of(row);
        if least == most {
            return None;
        }
        let (job, num_gpus, at) = (Job::at(row), jobs.num_gpus[row], vc.map_or(0, |vc| vc[row] as usize));
        let key = (at, jobs.types.map(|types| types.of[row]), (num_gpus, least, most), speeds(row));
        let dip = *known.entry(key).or_insert_with(|| {
            jobs.tried(job).iter().find_map(|&(gpu_type, _)| {
                let part = &parts[at];
                let (few, total) = match part.pools.get(gpu_type.index()) {
                    Some(pool) if gpu_type != GpuType::NONE => (&pool.few, pool.total),
                    None if gpu_type != GpuType::NONE => return None,
                    _ => (&part.few, part.total),
                };
                if u64::from(num_gpus) > total {
                    return None;
                }
                let most = u64::from(most).min(total) as u32;
                let rate = |gpus| few.of(gpus).map_or(0.0, |on| speed.rate(jobs, job, gpus, gpu_type, on));
                dip(least, most, rate).map(|(falls, rises)| (gpu_type, falls, rises))
            })
        });
        dip.map(|(gpu_type, falls, rises)| Dip { row: row as u32, gpu_type, falls, rises })
    };
    Ok((0..jobs.len()).filter_map(of).collect())
}

#[cfg(test)]
mod tests {
    use super::dip;

    fn of(rates: &[f64]) -> Option<(u32, u32)> {
        dip(1, rates.len() as u32, |gpus| rates[gpus as usize - 1])
    }

    #[test]
    fn a_dip_is_where_the_gain_falls_and_rises_again() {
        assert_eq!(of(&[1.0, 1.9, 2.7, 3.4]), None);
        assert_eq!(of(&[28.0, 58.0, 66.5, 75.0, 114.0]), Some((2, 4)));
        // It falls and stays low, or only rises: no policy stops before a GPU that gains.
        assert_eq!(of(&[1.0, 1.9, 1.9, 1.9]), None);
        assert_eq!(of(&[1.0, 1.9, 2.9, 4.0]), None);
        // No gain at the start is a fall, and so is the last fall before the rise.
        assert_eq!(of(&[2.0, 1.0, 4.0]), Some((1, 2)));
        assert_eq!(of(&[1.0, 5.0, 8.0, 9.0, 12.0]), Some((3, 4)));
    }

    #[test]
    fn rounding_is_no_dip() {
        let rates: Vec<f64> = (1..50).map(|gpus| f64::from(gpus) / 7.0).collect();
        assert_eq!(of(&rates), None);
        assert_eq!(dip(3, 3, f64::from), None);
    }
}
