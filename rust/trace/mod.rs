//! What is replayed: the job table as columns.

mod jobs;

pub use jobs::{Jobs, MAX_ITERATIONS, OwnedJobs};
