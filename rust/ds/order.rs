//! Sorts lists that are almost in order.

/// Sorts items of different keys. The first `sorted` are in order, except some that moved a little; the others are in
/// no order.
pub(crate) fn sort_again<T: Copy, K: Ord>(items: &mut [T], sorted: usize, key: impl Fn(&T) -> K) {
    let mut steps = 0;
    for at in 1..sorted {
        let own = key(&items[at]);
        if key(&items[at - 1]) < own {
            continue;
        }
        let to = items[..at].iter().rposition(|before| key(before) < own).map_or(0, |before| before + 1);
        items[to..=at].rotate_right(1);
        steps += at - to;
        if steps > 4 * items.len() {
            return items.sort_unstable_by_key(key);
        }
    }
    items[sorted..].sort_unstable_by_key(&key);
    let others = items[sorted..].to_vec();
    // The last one first, so that each item moves once.
    let mut end = sorted;
    for (ahead, &other) in others.iter().enumerate().rev() {
        let from = items[..end].partition_point(|item| key(item) < key(&other));
        items.copy_within(from..end, from + ahead + 1);
        items[from + ahead] = other;
        end = from;
    }
}

#[cfg(test)]
mod tests {
    use super::sort_again;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_came_first_it_is_sorted(
            numbers in prop::collection::btree_set(0..1000_u32, 0..60),
            sorted in 0..60_usize,
            moves in prop::collection::vec((0..60_usize, 0..60_usize), 0..6),
            is_shuffled: bool,
        ) {
            let mut items: Vec<u32> = numbers.iter().copied().collect();
            let sorted = sorted.min(items.len());
            // Every third number comes last.
            items.sort_by_key(|&number| (number % 3 == 0, number));
            for (one, other) in moves {
                if one < sorted && other < sorted {
                    items.swap(one, other);
                }
            }
            if is_shuffled {
                items.reverse();
            }
            sort_again(&mut items, sorted, |&number| number);
            prop_assert!(items.iter().eq(&numbers));
        }
    }
}
