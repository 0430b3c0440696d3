//! Keeps prefix sums that change: a Fenwick tree.
//!
//! Invariant: entry i holds the sum of the last i & -i counts up to it. For example, with the counts 2, 0, 3 the rank 2
//! is found at place 2: two lie before it.

/// Counts by place, and their prefix sums.
#[derive(Clone, Debug)]
pub(crate) struct Fenwick {
    sums: Vec<i64>,
}

impl Fenwick {
    pub(crate) fn new(counts: &[u32]) -> Self {
        let mut tree = Self { sums: vec![0; counts.len() + 1] };
        for (place, &count) in counts.iter().enumerate() {
            tree.add(place, i64::from(count));
        }
        tree
    }

    pub(crate) fn add(&mut self, place: usize, by: i64) {
        let mut at = place + 1;
        while at < self.sums.len() {
            self.sums[at] += by;
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the first place whose prefix sum exceeds `rank`.
    pub(crate) fn find(&self, rank: u64) -> usize {
        let mut rest = rank as i64;
        let mut at = 0;
        let mut step = (self.sums.len() - 1).checked_ilog2().map_or(0, |k| 1 << k);
        while step > 0 {
            if at + step < self.sums.len() && self.sums[at + step] <= rest {
                at += step;
                rest -= self.sums[at];
            }
            step >>= 1;
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use super::Fenwick;

    #[test]
    fn ranks_follow_places() {
        let tree = Fenwick::new(&[2, 0, 3, 1]);
        let got: Vec<_> = (0..6).map(|r| tree.find(r)).collect();
        assert_eq!(got, [0, 0, 2, 2, 2, 3]);
    }
}
