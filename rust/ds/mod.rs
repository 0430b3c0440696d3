//! Provides data structures that do not depend on clusters and jobs.
//!
//! Members, places, slots and rows are plain numbers here. Callers convert their own types.

mod bits;
mod deque;
mod fenwick;
mod heap;
mod least;
mod minima;
mod order;
mod tournament;

pub(crate) use bits::OrderedBits;
pub(crate) use deque::Deque;
pub(crate) use fenwick::Fenwick;
pub(crate) use heap::EventHeap;
pub(crate) use least::least_of;
pub(crate) use minima::Minima;
pub(crate) use order::sort_again;
pub(crate) use tournament::Tournament;

/// Returns one number with the order of (tier, key, number).
#[inline]
pub(crate) const fn packed(tier: u32, key: u64, number: u32) -> u128 {
    (tier as u128) << 96 | (key as u128) << 32 | number as u128
}

/// Returns the three again.
#[inline]
pub(crate) const fn unpacked(packed: u128) -> (u32, u64, u32) {
    ((packed >> 96) as u32, (packed >> 32) as u64, packed as u32)
}

/// Returns a number with the order of `key`, which is not NaN.
pub(crate) fn ordered(key: f64) -> u64 {
    let bits = (key + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// Returns the number that [`ordered`] turned into these bits.
pub(crate) fn unordered(bits: u64) -> f64 {
    f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits })
}
