//! Defines distinct number types for jobs, slots of stays, servers and GPU types.
//!
//! Each type is a `u32` and costs no more. Conversions are explicit. For example, a stay's `job` cannot be passed as a
//! `Slot`. Columns that leave the crate are plain `u32`.

/// A whole GPU, in thousandths.
pub const MILLI_GPU: u32 = 1000;

macro_rules! id {
    ($(#[$doc:meta])+ $name:ident) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The greatest number, which stands for none.
            pub const NONE: Self = Self(u32::MAX);

            /// Returns the one of that number.
            #[inline]
            #[must_use]
            pub const fn new(number: u32) -> Self {
                Self(number)
            }

            /// Returns the one at that place of a column.
            #[inline]
            #[must_use]
            pub const fn at(index: usize) -> Self {
                Self(index as u32)
            }

            /// Returns its number.
            #[inline]
            #[must_use]
            pub const fn number(self) -> u32 {
                self.0
            }

            /// Returns its place in a column.
            #[inline]
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id! {
    /// A job, by its place in the job columns of a run: of two jobs, the one with the lower number comes first.
    Job
}
id! {
    /// A slot of a stay. When the stay is over, the slot is reused: slot 0 may hold many jobs in turn.
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
