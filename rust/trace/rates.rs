//! Holds measured speeds: iterations per second of a model on a number of GPUs of a type, on a number of servers.
//!
//! Invariant: the rows of a model and type ascend by (servers, GPUs), and each such pair has one row. For example, with
//! 10 iterations per second on 1 GPU and 30 on 3, a job on 2 GPUs of that type makes 20.

use super::columns::columns;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// A measurement of two jobs on one GPU: a model, a type, the model of its partner, its rate, the partner's rate.
pub type Pair = (u32, u32, u32, f64, f64);

columns! {
    /// The rates of all models and types.
    Rates, OwnedRates;
    /// The model of every job, by its place among the models of the table.
    model_of: all u32 = "model";
    =>
    /// The measurements.
    table: Arc<RateTable> => Arc<RateTable>;
}

/// The measurements of every model on every GPU type.
#[derive(Clone, Debug, Default)]
pub struct RateTable {
    /// GPU types of the table: those of the cluster first, in its order, then others.
    types: usize,
    /// By model, then by type: sizes by number of servers, ascending.
    measured: Vec<Vec<Sizes>>,
    /// Iterations per second by (model, type, model of the only other job on its GPU).
    beside: HashMap<(u32, u32, u32), f64>,
}

/// Measurements on one number of servers.
#[derive(Clone, Debug)]
struct Sizes {
    servers: u32,
    /// (GPUs, iterations per second), ascending.
    rates: Vec<(u32, f64)>,
}

impl Sizes {
    /// Returns the rate on that many GPUs; `None` beyond the measured sizes.
    fn at(&self, gpus: u32) -> Option<f64> {
        let after = self.rates.partition_point(|&(measured, _)| measured < gpus);
        let &(high, rate) = self.rates.get(after)?;
        if high == gpus {
            return Some(rate);
        }
        let (low, least) = *self.rates.get(after.checked_sub(1)?)?;
        Some(least + (rate - least) * (f64::from(gpus - low) / f64::from(high - low)))
    }
}

impl RateTable {
    /// Returns a table of rows (model, type, GPUs, servers, rate), in any order.
    ///
    /// # Errors
    /// `Value` for a row out of range, or a second one of the same model, type, GPUs and servers.
    pub fn new(models: usize, types: usize, rows: &[(u32, u32, u32, u32, f64)]) -> Result<Self> {
        let mut measured: Vec<Vec<Sizes>> = vec![Vec::new(); models * types];
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|&row| (rows[row].3, rows[row].2));
        for row in order {
            let (model, gpu_type, gpus, servers, rate) = rows[row];
            let fault = |column, value: String, expected| Err(Error::Value { row, column, value, expected });
            if model as usize >= models || gpu_type as usize >= types {
                return fault("model", model.to_string(), "the number of a model and of a type");
            }
            if gpus == 0 || servers == 0 || servers > gpus {
                return fault("servers", servers.to_string(), "a number from 1 to gpus");
            }
            if !(rate.is_finite() && rate >= 0.0) {
                return fault("rate", format!("{rate:?}"), "a finite number >= 0");
            }
            let sizes = &mut measured[model as usize * types + gpu_type as usize];
            if sizes.last().is_none_or(|last| last.servers != servers) {
                sizes.push(Sizes { servers, rates: Vec::new() });
            }
            if let Some(last) = sizes.last_mut() {
                if last.rates.last().is_some_and(|&(before, _)| before == gpus) {
                    return fault("gpus", gpus.to_string(), "a size that no other row has");
                }
                last.rates.push((gpus, rate));
            }
        }
        Ok(Self { types, measured, beside: HashMap::new() })
    }

    /// Adds measurements of two jobs on one GPU, in any order. A model's own row counts more than its rate in a
    /// partner's row.
    ///
    /// # Errors
    /// `Value` for a row out of range, or a second one of the same model, type and partner.
    pub fn with_partners(mut self, rows: &[Pair]) -> Result<Self> {
        let models = self.measured.len().checked_div(self.types).unwrap_or(0);
        for (row, &(model, gpu_type, partner, rate, partner_rate)) in rows.iter().enumerate() {
            let fault = |column, value: String, expected| Err(Error::Value { row, column, value, expected });
            if model.max(partner) as usize >= models || gpu_type as usize >= self.types {
                return fault("partner", partner.to_string(), "the numbers of two models and of a type");
            }
            for (column, rate) in [("rate", rate), ("partner_rate", partner_rate)] {
                if !(rate.is_finite() && rate >= 0.0) {
                    return fault(column, format!("{rate:?}"), "a finite number >= 0");
                }
            }
            if self.beside.insert((model, gpu_type, partner), rate).is_some() {
                return fault("partner", partner.to_string(), "a pair that no other row has");
            }
        }
        for &(model, gpu_type, partner, _, partner_rate) in rows {
            self.beside.entry((partner, gpu_type, model)).or_insert(partner_rate);
        }
        Ok(self)
    }

    /// Returns the number of types.
    #[must_use]
    pub fn types(&self) -> usize {
        self.types
    }

    /// Returns the iterations per second; `None` if no measurement gives them.
    ///
    /// Reads the largest measured number of servers that is not above the real one and whose sizes enclose `gpus`, else
    /// the least above.
    #[must_use]
    pub fn rate(&self, model: u32, gpu_type: u32, gpus: u32, servers: u32) -> Option<f64> {
        let sizes = self.measured.get(model as usize * self.types + gpu_type as usize)?;
        let above = sizes.partition_point(|sizes| sizes.servers <= servers);
        let below = sizes[..above].iter().rev().find_map(|sizes| sizes.at(gpus));
        below.or_else(|| sizes[above..].iter().find_map(|sizes| sizes.at(gpus)))
    }

    /// Returns the iterations per second on a GPU that one other job also holds; `None` if that was not measured.
    #[must_use]
    pub fn rate_beside(&self, model: u32, gpu_type: u32, partner: u32) -> Option<f64> {
        self.beside.get(&(model, gpu_type, partner)).copied()
    }

    /// Returns whether any two jobs on one GPU were measured.
    #[must_use]
    pub fn has_partners(&self) -> bool {
        !self.beside.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_measured_sizes_rates_are_linear() {
        let rows = [(0, 0, 1, 1, 10.0), (0, 0, 4, 1, 40.0), (0, 0, 4, 2, 32.0), (0, 0, 8, 2, 48.0), (0, 1, 2, 2, 1.0)];
        let table = RateTable::new(1, 2, &rows).unwrap();
        let rate = |gpus, servers| table.rate(0, 0, gpus, servers);
        assert_eq!([rate(1, 1), rate(2, 1), rate(3, 1), rate(4, 1)], [10.0, 20.0, 30.0, 40.0].map(Some));
        // On one server the sizes end at 4, so two servers count. On two, they start at 4.
        assert_eq!([rate(6, 1), rate(6, 2), rate(6, 3), rate(3, 2)], [40.0, 40.0, 40.0, 30.0].map(Some));
        assert_eq!([rate(4, 2), rate(4, 5), rate(9, 2)], [Some(32.0), Some(32.0), None]);
        assert_eq!((table.rate(0, 1, 2, 1), table.rate(0, 1, 1, 1)), (Some(1.0), None));
    }

    #[test]
    fn rows_out_of_range_are_refused() {
        let refused = |row| RateTable::new(1, 1, &[(0, 0, 2, 1, 5.0), row]).is_err();
        assert!(refused((0, 0, 2, 1, 6.0)) && refused((1, 0, 1, 1, 6.0)) && refused((0, 0, 1, 2, 6.0)));
        assert!(refused((0, 0, 3, 1, -1.0)) && refused((0, 0, 3, 1, f64::NAN)) && !refused((0, 0, 3, 1, 0.0)));
    }

    fn alone() -> RateTable {
        let rows = [0, 1].map(|model| (model, 1, 1, 1, 9.0));
        RateTable::new(2, 2, &rows).unwrap()
    }

    #[test]
    fn a_row_of_ones_own_counts_more_than_that_of_the_partner() {
        // Model 1 has no row beside model 0 on type 1. Beside itself, its rate as a partner does not count.
        let rows = [(0, 1, 1, 5.0, 4.0), (1, 1, 1, 3.0, 2.0), (0, 0, 1, 7.0, 6.0), (1, 0, 0, 0.0, 8.0)];
        let table = alone().with_partners(&rows).unwrap();
        let beside = |model, partner| [0, 1].map(|gpu_type| table.rate_beside(model, gpu_type, partner));
        assert_eq!((beside(0, 1), beside(1, 0)), ([Some(7.0), Some(5.0)], [Some(0.0), Some(4.0)]));
        assert_eq!((beside(1, 1), beside(0, 0)), ([None, Some(3.0)], [None, None]));
        assert_eq!(table.rate(0, 1, 1, 1), Some(9.0));
        assert!(table.has_partners() && !alone().has_partners());
    }

    #[test]
    fn pairs_out_of_range_are_refused() {
        let refused = |row| alone().with_partners(&[(0, 0, 1, 5.0, 5.0), row]).is_err();
        assert!(refused((0, 0, 1, 6.0, 5.0)) && refused((2, 0, 1, 6.0, 5.0)) && refused((0, 0, 2, 6.0, 5.0)));
        assert!(refused((0, 2, 1, 6.0, 5.0)) && refused((1, 0, 0, -1.0, 5.0)) && refused((1, 0, 0, 1.0, f64::NAN)));
        assert!(!refused((1, 0, 0, 0.0, 0.0)));
    }
}
