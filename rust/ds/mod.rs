//! Data structures that know nothing of clusters and jobs.
//!
//! Members, places, slots and rows are plain numbers here. Whoever uses a structure turns its own types into them.

mod bits;
mod fenwick;
mod heap;
mod minima;

pub(crate) use bits::OrderedBits;
pub(crate) use fenwick::Fenwick;
pub(crate) use heap::EventHeap;
pub(crate) use minima::Minima;

/// A number with the order of `key`, which is not NaN.
pub(crate) fn ordered(key: f64) -> u64 {
    let bits = (key + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}
