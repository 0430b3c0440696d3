//! Numbers that must not be taken for one another: jobs, slots of stays, servers, GPU types.
//!
//! Each type is a `u32` and costs no more. A number becomes one of them, or stops being one, only where a function
//! says so. For example, a stay's `job` cannot be given where a `Slot` is wanted. Columns that leave the crate are plain
//! `u32`.

/// A whole GPU, in thousandths.
pub const MILLI_GPU: u32 = 1000;

macro_rules! id {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The greatest number, which stands for nobody.
            pub const NONE: Self = Self(u32::MAX);

            /// The one of that number.
            #[inline]
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// The one at that place of a column.
            #[inline]
            #[must_use]
            pub const fn at(index: usize) -> Self {
                Self(index as u32)
            }

            /// Its number.
            #[inline]
            #[must_use]
            pub const fn number(self) -> u32 {
                self.0
            }

            /// Its place in a column.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A job, by its place in the job columns of a run: of two jobs, the one of the lower number came first.
    Job
}
id! {
    /// A slot that a stay takes up. When the stay is over, the slot is given to another: slot 0 may see many jobs.
    Slot
}
id! {
    /// A server, by its place in the list of a cluster's servers: `Server::at(0)` is the first.
    Server
}
id! {
    /// A GPU type, by its place in the cluster's list of types; `NONE` for the type on which a job was recorded.
    GpuType
}
