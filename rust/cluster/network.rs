//! Holds the network's constants.
//!
//! Invariant: after `validate` every constant is in its range (docs/cluster.md). For example, the defaults are those of
//! servers with links of 100 Gb/s.

use crate::error::{Error, Result};
use std::sync::Arc;

/// Network and overhead constants of the contention model (docs/model.md#contention).
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// b_i, bytes/s.
    pub intra_bandwidth: f64,
    /// b_e, bytes/s.
    pub inter_bandwidth: f64,
    /// C, bytes/s.
    pub reduce_speed: f64,
    /// xi1, in (0, 1]: how much of the worst-case contention is felt.
    pub contention_share: f64,
    /// xi2, s per server used.
    pub server_overhead: f64,
    /// alpha, >= 0: bandwidth lost to contention itself.
    pub degradation: f64,
    /// Whether each GPU has a link of `inter_bandwidth` of its own, not each server.
    pub gpu_nics: bool,
    /// The GPUs of the largest domain of each tier that has domains, and the bandwidth inside, bytes/s; `None` where
    /// none has.
    pub domains: Option<Arc<[(u64, f64)]>>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            intra_bandwidth: 150e9,
            inter_bandwidth: 12.5e9,
            reduce_speed: 500e9,
            contention_share: 0.5,
            server_overhead: 5e-4,
            degradation: 0.3,
            gpu_nics: false,
            domains: None,
        }
    }
}

impl Network {
    /// Returns the bandwidth of a spanning job with contention p_j = `contention`, bytes/s.
    #[inline]
    pub(crate) fn left_to(&self, contention: u32) -> f64 {
        // k_j (eq. 7), at least 1, and f(alpha, k).
        let k = f64::max(1.0, self.contention_share * f64::from(contention));
        self.inter_bandwidth / (k + self.degradation * (k - 1.0))
    }

    /// Returns the same network without contention: k of equation 7 is 1 for every job.
    pub(crate) fn without_contention(self) -> Self {
        Self { contention_share: 0.0, ..self }
    }

    /// Returns whether equation 7 gives the bandwidth of a spanning job that nobody slows down.
    #[inline]
    pub(crate) fn is_flat(&self) -> bool {
        !self.gpu_nics && self.domains.is_none()
    }

    /// Returns the bandwidth of a spanning gang of `gpus` on that many servers at best, bytes/s: as even as can be,
    /// alone, without uplinks, in one domain if one holds it.
    #[cold]
    pub(crate) fn at_best(&self, gpus: u32, num_servers: u32) -> f64 {
        let nic = if self.gpu_nics {
            self.intra_bandwidth.min(self.inter_bandwidth * f64::from(gpus / num_servers))
        } else {
            self.inter_bandwidth
        };
        let domains = self.domains.iter().flat_map(|domains| domains.iter());
        let holding = domains.filter(|domain| u64::from(gpus) <= domain.0);
        holding.map(|domain| domain.1.min(self.intra_bandwidth)).fold(nic, f64::max)
    }

    /// Checks every constant.
    ///
    /// # Errors
    /// `Option`, naming the first one out of range.
    pub fn validate(&self) -> Result<()> {
        let check = |name, value: f64, good: bool, expected: &str| {
            if value.is_finite() && good {
                Ok(())
            } else {
                Err(Error::Option { name, value: value.to_string(), expected: expected.to_owned() })
            }
        };
        let speed = "a finite number of bytes/s > 0";
        check("intra_bandwidth", self.intra_bandwidth, self.intra_bandwidth > 0.0, speed)?;
        check("inter_bandwidth", self.inter_bandwidth, self.inter_bandwidth > 0.0, speed)?;
        check("reduce_speed", self.reduce_speed, self.reduce_speed > 0.0, speed)?;
        let share = self.contention_share;
        check("xi1", share, share > 0.0 && share <= 1.0, "a number in (0, 1]")?;
        check("xi2", self.server_overhead, self.server_overhead >= 0.0, "a finite time >= 0 s")?;
        check("alpha", self.degradation, self.degradation >= 0.0, "a finite number >= 0")
    }
}
