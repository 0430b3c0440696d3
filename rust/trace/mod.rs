//! What is replayed: the job table as columns. They are borrowed from the caller, and nobody changes them.

mod jobs;
mod rates;
mod types;

pub use jobs::{Demand, Jobs, MAX_ITERATIONS, OwnedJobs, Range};
pub use rates::{Pair, RateTable, Rates};
pub use types::{Kind, OwnedTypes, Types};
