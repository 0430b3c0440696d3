//! Climbs a concave function of prices of at least 0 by its slope: L-BFGS over the prices that may change, each step cut
//! off at 0. For example, it goes from 0 to where the slope ends, or stays where the slope leads below 0.
//!
//! Invariant: no step lowers the value.

use std::collections::VecDeque;

/// Pairs of steps that are remembered.
const MEMORY: usize = 20;

/// After so many steps it is seen whether they were worth it.
const LOOK: usize = 10;

/// How often a step that gains too little is shortened.
const SHORTER: usize = 30;

/// Returns the best value reached, and where. value: the value and its slope at some prices.
///
/// scales: by which changes of prices are divided, so that all count alike. steps: at most so many. enough: the ascent
/// ends when ten steps gain a smaller share of the value.
pub(super) fn climb(
    mut prices: Vec<f64>,
    scales: &[f64],
    steps: usize,
    enough: f64,
    mut value: impl FnMut(&[f64]) -> (f64, Vec<f64>),
) -> (f64, Vec<f64>) {
    let scaled = |mut slope: Vec<f64>| {
        slope.iter_mut().zip(scales).for_each(|(slope, scale)| *slope *= scale);
        slope
    };
    let (mut best, slope) = value(&prices);
    let (mut slope, mut before) = (scaled(slope), best);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::with_capacity(MEMORY);
    for step in 1..=steps {
        let mut way = open(&prices, &slope, &slope);
        if !memory.is_empty() {
            way = open(&prices, &slope, &bent(&way, &memory));
            if dot(&way, &slope) <= 0.0 {
                memory.clear();
                way = open(&prices, &slope, &slope);
            }
        }
        // The first step changes no price by more than 1.
        let steepest = way.iter().zip(scales).fold(0.0, |most, (way, scale)| f64::max(most, (way * scale).abs()));
        if steepest <= 0.0 {
            break;
        }
        let mut size = if memory.is_empty() { steepest.recip() } else { 1.0 };
        let mut taken = None;
        for _ in 0..SHORTER {
            let tried: Vec<f64> = prices
                .iter()
                .zip(way.iter().zip(scales))
                .map(|(price, (way, scale))| (price + size * way * scale).max(0.0))
                .collect();
            let moved: Vec<f64> =
                tried.iter().zip(&prices).zip(scales).map(|((new, old), scale)| (new - old) / scale).collect();
            let gain = dot(&moved, &slope);
            let (reached, steeper) = value(&tried);
            if gain > 0.0 && reached >= best + 1e-4 * gain {
                taken = Some((tried, moved, reached, scaled(steeper)));
                break;
            }
            size *= 0.4;
        }
        let Some((tried, moved, reached, steeper)) = taken else {
            if memory.is_empty() {
                break;
            }
            memory.clear();
            continue;
        };
        let change: Vec<f64> = slope.iter().zip(&steeper).map(|(old, new)| old - new).collect();
        if dot(&moved, &change) > 1e-12 * dot(&change, &change) {
            if memory.len() == MEMORY {
                memory.pop_front();
            }
            memory.push_back((moved, change));
        }
        (prices, best, slope) = (tried, reached, steeper);
        if step % LOOK == 0 {
            if best - before <= enough * best {
                break;
            }
            before = best;
        }
    }
    (best, prices)
}

/// Returns the way less what would lead below 0.
fn open(prices: &[f64], slope: &[f64], way: &[f64]) -> Vec<f64> {
    prices
        .iter()
        .zip(slope)
        .zip(way)
        .map(|((price, slope), way)| if *price > 0.0 || *slope > 0.0 { *way } else { 0.0 })
        .collect()
}

/// Returns the way that the last steps make of a slope (two loops).
fn bent(slope: &[f64], memory: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut way = slope.to_vec();
    let mut parts = Vec::with_capacity(memory.len());
    for (moved, change) in memory.iter().rev() {
        let part = dot(moved, &way) / dot(moved, change);
        way.iter_mut().zip(change).for_each(|(way, change)| *way -= part * change);
        parts.push(part);
    }
    if let Some((moved, change)) = memory.back() {
        let scale = dot(moved, change) / dot(change, change);
        way.iter_mut().for_each(|way| *way *= scale);
    }
    for ((moved, change), part) in memory.iter().zip(parts.iter().rev()) {
        let less = part - dot(change, &way) / dot(moved, change);
        way.iter_mut().zip(moved).for_each(|(way, moved)| *way += less * moved);
    }
    way
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_finds_the_top_and_stays_at_0_where_the_top_is_below() {
        // -(x - 3)^2 - 10 (y + 1)^2 - (x - z)^2 / 2
        let value = |at: &[f64]| {
            let (x, y, z) = (at[0], at[1], at[2]);
            let top = 100.0 - (x - 3.0).powi(2) - 10.0 * (y + 1.0).powi(2) - (x - z).powi(2) / 2.0;
            (top, vec![-2.0 * (x - 3.0) - (x - z), -20.0 * (y + 1.0), x - z])
        };
        let (best, at) = climb(vec![0.0, 2.0, 0.0], &[1.0, 0.5, 2.0], 200, 0.0, value);
        assert!((best - 90.0).abs() < 1e-9, "{best}");
        assert!(at[1] == 0.0 && (at[0] - 3.0).abs() < 1e-4 && (at[2] - 3.0).abs() < 1e-4, "{at:?}");
    }
}
