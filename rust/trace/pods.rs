//! Defines pods: parts of a gang, each of which lies on one server.
//!
//! Invariant: a size is at least 1, and divides the `num_gpus` of every job that has it. For example, a job of 6 GPUs
//! with 2 GPUs per pod has three pods, and finds a place on two servers with 5 and 3 idle GPUs.

use super::columns::columns;

columns! {
    /// The pod size of every job.
    Pods, OwnedPods;
    /// A place in `sizes`, one per job.
    of: all u32 = "pod size";
    =>
    /// The pod sizes that occur, GPUs.
    sizes: [u32] => Vec<u32>;
}
