//! What is replayed: the job table as columns. They are borrowed from the caller, and nobody changes them.

mod jobs;

pub use jobs::{Jobs, MAX_ITERATIONS, OwnedJobs, Range};
