//! Defines the forms of gangs: their pods, the tier that is to hold them, and their segments.
//!
//! Invariant: a pod, as a segment, has at least one GPU and divides the `num_gpus` of every job that has it. For
//! example, a job of 6 GPUs with 2 GPUs per pod has three pods, and finds a place on two servers with 5 and 3 idle
//! GPUs; in two segments of 3 GPUs, each in one rack, it finds one in two racks with 5 and 3.

use super::columns::columns;

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

columns! {
    /// The form of every job.
    Forms, OwnedForms;
    /// A place in `list`, one per job.
    of: all u32 = "form";
    =>
    /// The forms that occur.
    list: [Form] => Vec<Form>;
}
