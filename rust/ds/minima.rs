//! Finds minima over numbered places: a complete binary tree.
//!
//! Invariant: every inner node holds the least value below it; a place without a value holds infinity. So going down
//! finds the place of the least value, and going right and down finds the first place with a small enough value. For
//! example, with the values 3, 1, 2 the first place whose value is below 3 is place 1.

/// Values by place. Setting one and either search cost the logarithm of the number of places.
#[derive(Clone, Debug)]
pub(crate) struct Minima {
    leaves: usize,
    minima: Vec<f64>,
}

impl Minima {
    /// Returns a tree in which every place is empty.
    pub(crate) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { leaves, minima: vec![f64::INFINITY; 2 * leaves] }
    }

    /// Returns the number of places.
    pub(crate) fn places(&self) -> usize {
        self.leaves
    }

    pub(crate) fn set(&mut self, place: usize, value: f64) {
        let mut at = self.leaves + place;
        self.minima[at] = value;
        while at > 1 {
            at /= 2;
            // No value is NaN, so a plain comparison is enough, and equal values have equal bits.
            let (left, right) = (self.minima[2 * at], self.minima[2 * at + 1]);
            let least = if right < left { right } else { left };
            if self.minima[at].to_bits() == least.to_bits() {
                break;
            }
            self.minima[at] = least;
        }
    }

    pub(crate) fn get(&self, place: usize) -> f64 {
        self.minima[self.leaves + place]
    }

    /// Returns the place of the least value, the lowest on ties.
    pub(crate) fn least(&self) -> usize {
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            if self.minima[at + 1] < self.minima[at] {
                at += 1;
            }
        }
        at - self.leaves
    }

    /// Returns the first place in `from..to` whose value passes `small`, a test that every smaller value passes too.
    pub(crate) fn next(&self, from: usize, to: usize, small: impl Fn(f64) -> bool) -> Option<usize> {
        if from >= to {
            return None;
        }
        let good = |at: usize| self.minima[at] < f64::INFINITY && small(self.minima[at]);
        let mut at = self.leaves + from;
        // To the right, subtree by subtree, until one holds such a value; then down to its first.
        while !good(at) {
            while at & 1 == 1 {
                at >>= 1;
            }
            if at == 0 {
                return None;
            }
            at += 1;
        }
        while at < self.leaves {
            at *= 2;
            if !good(at) {
                at += 1;
            }
        }
        Some(at - self.leaves).filter(|&place| place < to)
    }
}

#[cfg(test)]
mod tests {
    use super::Minima;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_searches_agree_with_a_scan(
            values in prop::collection::vec(prop::option::of(0u32..20), 1..70),
            from in 0usize..70, to in 0usize..70, bound in 0u32..22,
        ) {
            let mut tree = Minima::new(values.len());
            for (p, v) in values.iter().enumerate() {
                tree.set(p, v.map_or(f64::INFINITY, f64::from));
            }
            let to = to.min(values.len());
            let from = from.min(values.len() - 1);
            let want = (from..to).find(|&p| values[p].is_some_and(|v| v < bound));
            prop_assert_eq!(tree.next(from, to, |e| e < f64::from(bound)), want);
            if let Some((_, place)) = values.iter().enumerate().filter_map(|(p, v)| v.map(|v| (v, p))).min() {
                prop_assert_eq!(tree.least(), place);
            }
        }
    }
}
