//! Defines distinct number types for jobs, slots of stays, servers and GPU types.
//!
//! Each type is a `u32` and costs no more. Conversions are explicit. For example, a stay's `job` cannot be passed as a
//! `Slot`. Columns that leave the crate are plain `u32`.

/// A whole GPU, in thousandths.
pub const MILLI_GPU: u32 = 1000;

/// Stands for no seat.
pub(crate) const NO_SEAT: u32 = u32::MAX;

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

/// How a gang may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Form {
    /// GPUs of each pod, which lies on one server.
    pub pod: u32,
    /// GPUs of each segment, which lies in one group of `segment_tier`; 0 without segments.
    pub segment: u32,
    /// 0, or the tier of which one group is to hold the gang: 1 for a server, 2 for the first tier above them.
    pub within: u8,
    /// Whether one group of that tier must hold it.
    pub strict: bool,
    /// The tier of segments, as `within`.
    pub segment_tier: u8,
}

impl Default for Form {
    fn default() -> Self {
        Self { pod: 1, segment: 0, within: 0, strict: false, segment_tier: 0 }
    }
}

impl Form {
    /// Returns the form of a gang in pods, without tiers.
    #[must_use]
    pub fn of_pods(pod: u32) -> Self {
        Self { pod, ..Self::default() }
    }

    /// Returns whether it needs more than idle GPUs for its pods.
    #[must_use]
    pub const fn is_bound(&self) -> bool {
        self.within > 0 && self.strict || self.segment > 0
    }

    /// Returns whether it names a tier, if only as a wish.
    #[must_use]
    pub const fn names_tier(&self) -> bool {
        self.within > 0 || self.segment > 0
    }

    /// Returns the level of the tier that is to hold the gang, 0 for a server.
    #[must_use]
    pub const fn level(&self) -> Option<usize> {
        match self.within {
            0 => None,
            within => Some(within as usize - 1),
        }
    }

    /// Returns the level of the tier that must hold the gang.
    #[must_use]
    pub const fn strict_level(&self) -> Option<usize> {
        if self.strict { self.level() } else { None }
    }

    /// Returns the level of the tier of segments.
    #[must_use]
    pub const fn segment_level(&self) -> usize {
        (self.segment_tier as usize).saturating_sub(1)
    }
}
