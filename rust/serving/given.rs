//! What a run is given of requests: the services that answer them, and the columns.
//!
//! Invariant: a service without an autoscaler wants what the loads of the run say. For example, `scale = "fixed"` is one
//! load at 0 s.

use super::columns::Requests;
use super::keys::Kind;
use super::scale::Target;
use super::{Serving, check};
use crate::error::Result;

/// The keys of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceKeys {
    /// How its replicas answer.
    pub kind: Kind,
    /// Time from when a replica gets its GPUs until it serves, s.
    pub startup: f64,
    /// The longest time that a surplus replica takes to finish its requests, s.
    pub drain: f64,
    /// How many replicas it wants by the number of its requests; `None` where loads say it.
    pub target: Option<Target>,
}

/// The requests of a run, and how its services answer them.
#[derive(Clone, Debug, Default)]
pub struct Answering {
    /// The services, in order.
    pub services: Vec<ServiceKeys>,
    /// The speed of the GPU type of each server, divided by that of the first type.
    pub speeds: Vec<f64>,
    /// As in [`Requests`].
    pub service: Vec<u32>,
    /// As in [`Requests`].
    pub arrival: Vec<f64>,
    /// As in [`Requests`].
    pub input_tokens: Vec<u32>,
    /// As in [`Requests`].
    pub output_tokens: Vec<u32>,
    /// As in [`Requests`].
    pub cached_tokens: Vec<u32>,
}

impl Answering {
    /// Checks keys and requests.
    ///
    /// # Errors
    /// `Option` for a key, `Value` for a request.
    pub fn validate(&self) -> Result<()> {
        check(&self.kinds(), self.requests())
    }

    /// Returns the engine of checked requests, before the first of them.
    #[must_use]
    pub fn engine(&self) -> Serving<'_> {
        Serving::of(self.kinds(), self.requests())
    }

    fn kinds(&self) -> Vec<Kind> {
        self.services.iter().map(|service| service.kind.clone()).collect()
    }

    fn requests(&self) -> Requests<'_> {
        Requests {
            service: &self.service,
            arrival: &self.arrival,
            input_tokens: &self.input_tokens,
            output_tokens: &self.output_tokens,
            cached_tokens: &self.cached_tokens,
        }
    }
}
