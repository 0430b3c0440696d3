//! Keeps an ordered set of small integers: a tree of 64-bit words.
//!
//! Invariant: a bit of an upper level is 1 if and only if the word below it is not 0. So a search goes up to a word
//! with a later bit, and down again to that bit. For example, with the members 3 and 200, `next(4)` is 200: the first
//! word has no member from 4 on, and the level above shows that the fourth word has one.

/// Ordered set over `0..capacity`. Insert, remove and "next at or after" cost one word per level, which is
/// log64(capacity): three levels up to 262,144 members.
#[derive(Clone, Debug)]
pub(crate) struct OrderedBits {
    /// `levels[0]` holds the members; a bit of `levels[i + 1]` is set if a word of `levels[i]` is not 0.
    levels: Vec<Vec<u64>>,
}

impl OrderedBits {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut levels = Vec::new();
        let mut words = capacity.div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    pub(crate) fn insert(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            let word = &mut level[at >> 6];
            let was = *word;
            *word = was | 1 << (at & 63);
            if was != 0 {
                return;
            }
            at >>= 6;
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, member: usize) {
        let mut at = member;
        for level in &mut self.levels {
            let word = &mut level[at >> 6];
            *word &= !(1 << (at & 63));
            if *word != 0 {
                return;
            }
            at >>= 6;
        }
    }

    /// Returns whether it is a member.
    #[inline]
    pub(crate) fn contains(&self, member: usize) -> bool {
        self.levels[0].get(member >> 6).is_some_and(|word| word & (1 << (member & 63)) != 0)
    }

    /// Returns whether there is no member.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.levels.last().is_none_or(|top| top[0] == 0)
    }

    /// Returns every member, ascending: a search for each word, not for each member.
    pub(crate) fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let (mut word, mut rest) = (0, 0u64);
        std::iter::from_fn(move || {
            if rest == 0 {
                word = self.next(word << 6)? >> 6;
                rest = self.levels[0][word];
                word += 1;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(((word - 1) << 6) + bit)
        })
    }

    /// Returns the least member at or after `from`.
    #[inline]
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let index = at >> 6;
            if index >= level.len() {
                return None;
            }
            let rest = level[index] & (u64::MAX << (at & 63));
            if rest != 0 {
                let mut found = (index << 6) + rest.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = (found << 6) + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            at = index + 1;
        }
        None
    }

    /// Returns the greatest member before `to`.
    #[inline]
    pub(crate) fn prev(&self, to: usize) -> Option<usize> {
        let mut at = to;
        for (height, level) in self.levels.iter().enumerate() {
            let (index, bits) = if at >> 6 < level.len() { (at >> 6, at & 63) } else { (level.len() - 1, 64) };
            let rest = if bits == 64 { level[index] } else { level[index] & ((1 << bits) - 1) };
            if rest != 0 {
                let mut found = (index << 6) + 63 - rest.leading_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = (found << 6) + 63 - below[found].leading_zeros() as usize;
                }
                return Some(found);
            }
            at = index;
        }
        None
    }

    /// Returns the members from `from` up to, not including, `to`, ascending.
    pub(crate) fn range(&self, from: usize, to: usize) -> impl Iterator<Item = usize> + '_ {
        let mut at = from;
        std::iter::from_fn(move || {
            let found = self.next(at).filter(|&m| m < to)?;
            at = found + 1;
            Some(found)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::OrderedBits;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_set(
            capacity in 1usize..10_000,
            steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200),
        ) {
            let mut bits = OrderedBits::new(capacity);
            let mut set = BTreeSet::new();
            for (add, index) in steps {
                let member = index.index(capacity);
                if add {
                    bits.insert(member);
                    set.insert(member);
                } else {
                    bits.remove(member);
                    set.remove(&member);
                }
                prop_assert_eq!(bits.contains(member), set.contains(&member));
                prop_assert_eq!(bits.is_empty(), set.is_empty());
                for from in [0, member, member + 1, capacity / 2, capacity, capacity + 64] {
                    prop_assert_eq!(bits.prev(from), set.range(..from).next_back().copied());
                    prop_assert_eq!(bits.next(from), set.range(from..).next().copied());
                }
            }
            prop_assert_eq!(bits.range(0, capacity).collect::<Vec<_>>(), bits.all().collect::<Vec<_>>());
            prop_assert_eq!(bits.all().collect::<Vec<_>>(), set.into_iter().collect::<Vec<_>>());
        }
    }
}
