//! The keys of a service: what a replica does, and how fast.
//!
//! Invariant: seconds of a step become whole picoseconds once, after division by the speed of the replica's GPU type,
//! so that sums of steps are exact. For example, a step of 10 ms at speed 2 is 5,000,000,000 ps.

use crate::error::{Error, Result};

/// How the replicas of a service answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Requests are answered in batches.
    Batch(Batch),
    /// Requests are answered token by token, in steps that all requests of a replica share.
    Tokens(Tokens),
}

/// Requests are answered in batches.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// Sizes of a batch and how long it takes, s; the last is the largest.
    pub seconds: Vec<(u32, f64)>,
    /// How long the first request waits for others, s.
    pub max_wait: f64,
}

/// Requests are answered token by token (iteration-level batching: Yu, Jeong, Kim, Kim and Chun, "Orca", OSDI 2022).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    /// Seconds of a step.
    pub step: f64,
    /// Seconds for each input token taken that is not cached.
    pub prefill: f64,
    /// Seconds for each request that gets a token.
    pub decode: f64,
    /// Seconds for each token that these requests hold.
    pub context: f64,
    /// Requests that run at once.
    pub max_running: u64,
    /// Input and output tokens of all requests that run at once.
    pub kv_tokens: u64,
    /// Tokens that a step takes or gives.
    pub max_step_tokens: Option<u64>,
}

/// The seconds of token keys, on a GPU type, ps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) step: u128,
    pub(super) prefill: u128,
    pub(super) decode: u128,
    pub(super) context: u128,
}

impl Kind {
    /// Checks what would let a replica wait forever.
    pub(super) fn check(&self) -> Result<()> {
        let refuse =
            |name, value: String, expected: &str| Err(Error::Option { name, value, expected: expected.into() });
        match self {
            Self::Batch(batch) => {
                let rises = batch.seconds.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1);
                if batch.seconds.is_empty() || batch.seconds[0].0 == 0 || !rises {
                    return refuse(
                        "seconds",
                        format!("{:?}", batch.seconds),
                        "sizes from 1 that rise, seconds that do not fall",
                    );
                }
            }
            Self::Tokens(tokens) => {
                let limits = [("max_running", Some(tokens.max_running)), ("max_step_tokens", tokens.max_step_tokens)];
                if let Some((name, _)) = limits.into_iter().find(|&(_, limit)| limit == Some(0)) {
                    return refuse(name, "0".into(), "at least 1");
                }
            }
        }
        Ok(())
    }
}

impl Batch {
    /// Returns the size of the largest batch.
    pub(super) fn largest(&self) -> usize {
        self.seconds.last().map_or(1, |&(size, _)| size as usize)
    }

    /// Returns how long a batch takes at speed 1, s.
    pub(super) fn time(&self, size: usize) -> f64 {
        let above = self.seconds.partition_point(|&(other, _)| (other as usize) < size);
        let (b, s_b) = self.seconds[above];
        if above == 0 || b as usize == size {
            return s_b;
        }
        let (a, s_a) = self.seconds[above - 1];
        s_a + (s_b - s_a) * (size as f64 - f64::from(a)) / f64::from(b - a)
    }
}

impl Tokens {
    pub(super) fn rates(&self, speed: f64) -> Rates {
        let whole = |seconds: f64| (seconds / speed * 1e12).round_ties_even() as u128;
        Rates {
            step: whole(self.step),
            prefill: whole(self.prefill),
            decode: whole(self.decode),
            context: whole(self.context),
        }
    }
}
