//! Defines the forms of gangs: their pods, the tier that is to hold them, and their segments.
//!
//! Invariant: a pod, as a segment, has at least one GPU and divides the `num_gpus` of every job that has it. For
//! example, a job of 6 GPUs with 2 GPUs per pod has three pods, and finds a place on two servers with 5 and 3 idle
//! GPUs; in two segments of 3 GPUs, each in one rack, it finds one in two racks with 5 and 3.

use super::columns::columns;
pub use crate::ids::Form;

columns! {
    /// The form of every job.
    Forms, OwnedForms;
    /// A place in `list`, one per job.
    of: all u32 = "form";
    =>
    /// The forms that occur.
    list: [Form] => Vec<Form>;
}
