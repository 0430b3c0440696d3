//! What is replayed: the job table as columns. They are borrowed from the caller, and nobody changes them.

mod jobs;
mod outages;
mod quotas;
mod rates;
mod services;
mod trials;
mod types;

pub use jobs::{Demand, Jobs, MAX_ITERATIONS, Noise, OwnedJobs, Range};
pub use outages::Outage;
pub(crate) use outages::{check_outages, merged};
pub use quotas::{Quota, Quotas};
pub use rates::{Pair, RateTable, Rates};
pub use services::{Load, Services};
pub use trials::{NO_SEARCH, OwnedTrials, Trials};
pub use types::{Kind, OwnedTypes, Types};
