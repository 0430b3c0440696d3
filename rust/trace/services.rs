//! Defines services: how many replicas each of them wants, and when (docs/services.md).
//!
//! Invariant: a service wants one number of replicas at a time. For example, with loads of 4 at 0 s and of 1 at 600 s a
//! service wants 4 replicas in [0, 600) and 1 from then on.

use crate::error::{Error, Result};
use std::collections::HashSet;

/// The number of replicas that a service wants from some time on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// The service.
    pub service: u32,
    /// Start, s.
    pub time: f64,
    /// Number of replicas.
    pub replicas: u32,
}

/// The services of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Services<'a> {
    /// GPUs of a replica of each service, in the order in which services place replicas.
    pub gpus: &'a [u32],
    /// In any order.
    pub loads: &'a [Load],
}

impl Services<'_> {
    /// Checks every value. `largest`: GPUs of the largest server.
    ///
    /// # Errors
    /// `Value`, for the lowest offending row.
    pub(crate) fn validate(&self, largest: u32) -> Result<()> {
        let fault = |row, column, value: String, expected| Err(Error::Value { row, column, value, expected });
        let mut seen = HashSet::new();
        for (row, load) in self.loads.iter().enumerate() {
            let Some(&gpus) = self.gpus.get(load.service as usize) else {
                return fault(row, "service", load.service.to_string(), "the number of a service");
            };
            if !(load.time.is_finite() && load.time >= 0.0) {
                return fault(row, "time", format!("{:?}", load.time), "a finite time >= 0");
            }
            if gpus == 0 || gpus > largest {
                return fault(row, "gpus_per_replica", gpus.to_string(), "1 GPU to those of the largest server");
            }
            // -0.0 is the same time as 0.0.
            if !seen.insert((load.service, (load.time + 0.0).to_bits())) {
                return fault(row, "time", format!("{:?}", load.time), "one load of a service at a time");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_loads_are_told() {
        let load = |service, time, replicas| Load { service, time, replicas };
        let refusal = |gpus: &[u32], loads: &[Load]| Services { gpus, loads }.validate(8).map_err(|e| e.to_string());
        assert_eq!(refusal(&[8, 1], &[load(0, 0.0, 1), load(1, 0.0, 0), load(0, 5.0, 2)]), Ok(()));
        let faults = [
            (refusal(&[8], &[load(1, 0.0, 1)]), "service"),
            (refusal(&[8], &[load(0, -1.0, 1)]), "time"),
            (refusal(&[8], &[load(0, f64::NAN, 1)]), "time"),
            (refusal(&[9], &[load(0, 0.0, 1)]), "gpus_per_replica"),
            (refusal(&[0], &[load(0, 0.0, 1)]), "gpus_per_replica"),
            (refusal(&[8], &[load(0, 0.0, 1), load(0, -0.0, 2)]), "one load"),
        ];
        for (refusal, part) in faults {
            assert!(refusal.is_err_and(|refusal| refusal.contains(part)), "{part}");
        }
    }
}
