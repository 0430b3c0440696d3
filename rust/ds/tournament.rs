//! Finds the least of numbered values, some of which are absent.
//!
//! Invariant: every node of a complete binary tree names the place of the least value below it; an absent value is
//! greater than all others. For example, of the values 3, none, 1 the least is that of place 2.

/// Values by place. Setting one costs the logarithm of the number of places, and the least is always known.
#[derive(Clone, Debug)]
pub(crate) struct Tournament<T> {
    values: Vec<Option<T>>,
    /// The place of the least below each node; the root is node 1, and places are the last nodes.
    least: Vec<u32>,
}

impl<T: Copy + Ord> Tournament<T> {
    /// Returns a tournament in which all values are absent.
    pub(crate) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        let mut least: Vec<u32> = (0..2 * leaves).map(|node| node.saturating_sub(leaves) as u32).collect();
        for node in (1..leaves).rev() {
            least[node] = least[2 * node];
        }
        Self { values: vec![None; leaves], least }
    }

    pub(crate) fn set(&mut self, place: usize, value: Option<T>) {
        if self.values[place] == value {
            return;
        }
        self.values[place] = value;
        let mut node = (self.values.len() + place) / 2;
        while node > 0 {
            let (left, right) = (self.least[2 * node], self.least[2 * node + 1]);
            let least = if self.is_less(right, left) { right } else { left };
            if self.least[node] == least && least as usize != place {
                break;
            }
            self.least[node] = least;
            node /= 2;
        }
    }

    fn is_less(&self, one: u32, other: u32) -> bool {
        match (self.values[one as usize], self.values[other as usize]) {
            (Some(one), Some(other)) => one < other,
            (one, other) => one.is_some() && other.is_none(),
        }
    }

    /// Returns the least value and its place: the lowest on ties.
    pub(crate) fn least(&self) -> Option<(T, usize)> {
        let place = self.least[1] as usize;
        self.values[place].map(|value| (value, place))
    }
}

#[cfg(test)]
mod tests {
    use super::Tournament;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_is_that_of_a_scan(
            places in 1usize..40,
            steps in prop::collection::vec((any::<prop::sample::Index>(), prop::option::of(0u8..20)), 1..80),
        ) {
            let mut tournament = Tournament::new(places);
            let mut values = vec![None; places];
            for (index, value) in steps {
                let place = index.index(places);
                tournament.set(place, value);
                values[place] = value;
                let least = values.iter().enumerate().filter_map(|(place, value)| value.map(|value| (value, place))).min();
                prop_assert_eq!(tournament.least(), least);
            }
        }
    }
}
