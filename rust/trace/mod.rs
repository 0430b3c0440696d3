//! What is replayed: the job table as columns. They are borrowed from the caller, and nobody changes them.

mod jobs;
mod outages;
mod rates;
mod services;
mod types;

pub use jobs::{Demand, Jobs, MAX_ITERATIONS, OwnedJobs, Range};
pub(crate) use outages::merged;
pub use outages::{Outage, Outages};
pub use rates::{Pair, RateTable, Rates};
pub use services::{Load, Services};
pub use types::{Kind, OwnedTypes, Types};
