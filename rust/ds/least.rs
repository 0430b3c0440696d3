//! Finds the least of some numbers, four at a time: else each comparison waits for the one before.

/// Returns the least of some numbers, none of them NaN; infinity for none.
#[inline]
pub(crate) fn least_of(numbers: &[f64]) -> f64 {
    let (fours, rest) = numbers.as_chunks::<4>();
    let mut least = [f64::INFINITY; 4];
    let less = |a: f64, b: f64| if a < b { a } else { b };
    for &[a, b, c, d] in fours {
        least = [less(a, least[0]), less(b, least[1]), less(c, least[2]), less(d, least[3])];
    }
    rest.iter().fold(less(less(least[0], least[1]), less(least[2], least[3])), |least, &number| less(number, least))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_least_is_found(numbers in prop::collection::vec(0_u8..20, 0..30)) {
            let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
            prop_assert_eq!(least_of(&numbers), numbers.iter().copied().fold(f64::INFINITY, f64::min));
        }
    }
}
