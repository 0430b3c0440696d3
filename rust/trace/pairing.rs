//! Defines what decides who may share GPUs, and how fast two jobs run there (docs/lucid.md).
//!
//! Invariant: the rows of two models on a type ascend by (GPUs, servers). For example, with a row of 4 GPUs on one
//! server and one of 0 GPUs, two jobs on 4 GPUs run at the rates of the first, and two on 8 GPUs at the fractions of the
//! second.

use super::columns::columns;
use crate::ids::GpuType;

columns! {
    /// What seats read of every job.
    Pairing, OwnedPairing;
    /// Memory on each of its GPUs, MiB; NaN where it is unknown.
    memory: all f64 = "pairing";
    /// Estimated run time, s; NaN where the predictor gives it.
    estimate: all f64 = "pairing";
    /// How much it suffers beside others, 0 to 2.
    score: all u32 = "pairing";
    /// The number of its model; of no row for a model without pairs.
    model: all u32 = "pairing";
    =>
    /// What was measured of pairs, and how much memory GPUs have.
    facts: PairFacts => PairFacts;
}

/// A measurement of two jobs on the same GPUs: the model, its partner's, GPU type, GPUs, servers, and the rates of the
/// two, in iterations per second; with 0 GPUs fractions of their rates alone.
pub type PairRow = (u32, u32, u32, u32, u32, f64, f64);

/// Where a rate of a pair comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Beside {
    /// Iterations per second.
    Rate(f64),
    /// A fraction of the rate alone.
    Fraction(f64),
}

/// A pair: (partner's model, type, GPUs, servers), and both rates.
type Measured = ((u32, u32, u32, u32), f64, f64);

/// Pairs, and the memory of GPU types.
#[derive(Clone, Debug, Default)]
pub struct PairFacts {
    /// MiB of a GPU of each type; NaN where it is unknown.
    room: Vec<f64>,
    /// By model, ascending.
    measured: Vec<Vec<Measured>>,
}

impl PairFacts {
    /// Returns the facts of those rows, each of another (model, partner, type, GPUs, servers).
    #[must_use]
    pub fn new(room: Vec<f64>, rows: &[PairRow]) -> Self {
        let models = rows.iter().map(|row| row.0 as usize + 1).max().unwrap_or(0);
        let mut measured = vec![Vec::new(); models];
        for &(model, partner, gpu_type, gpus, servers, rate, partner_rate) in rows {
            measured[model as usize].push(((partner, gpu_type, gpus, servers), rate, partner_rate));
        }
        measured.iter_mut().for_each(|rows| rows.sort_unstable_by_key(|row| row.0));
        Self { room, measured }
    }

    /// Returns the memory of a GPU of a type, MiB; NaN where it is unknown.
    pub(crate) fn room_of(&self, gpu_type: GpuType) -> f64 {
        self.room.get(number(gpu_type) as usize).copied().unwrap_or(f64::NAN)
    }

    /// Returns the rates of the row of two models on so many GPUs: of the most servers that are not more than the real
    /// ones, else of the fewest above.
    fn row(&self, models: (u32, u32), gpu_type: GpuType, (gpus, servers): (u32, u32)) -> Option<(f64, f64)> {
        let rows = self.measured.get(models.0 as usize)?;
        let size = (models.1, number(gpu_type), gpus);
        let above = rows.partition_point(|row| row.0 <= (size.0, size.1, size.2, servers));
        let is_mine = |row: &&((u32, u32, u32, u32), f64, f64)| (row.0.0, row.0.1, row.0.2) == size;
        let below = above.checked_sub(1).and_then(|at| rows.get(at)).filter(is_mine);
        let row = below.or_else(|| rows.get(above).filter(is_mine))?;
        Some((row.1, row.2))
    }

    /// Returns how fast a job of the first model runs beside one of the second, on such GPUs of so many servers.
    /// `later`: whether it started after the other. `counts_rates`: whether rows of iterations per second count.
    #[must_use]
    pub fn beside(
        &self,
        (own, other): (u32, u32),
        gpu_type: GpuType,
        (gpus, servers): (u32, u32),
        later: bool,
        counts_rates: bool,
    ) -> Option<Beside> {
        let found = |size| {
            let mine = self.row((own, other), gpu_type, size);
            if own == other {
                return mine.map(|row| if later { row.0 } else { row.1 });
            }
            mine.map(|row| row.0).or_else(|| self.row((other, own), gpu_type, size).map(|row| row.1))
        };
        let measured = if counts_rates { found((gpus, servers)) } else { None };
        measured.map(Beside::Rate).or_else(|| found((0, 0)).map(Beside::Fraction))
    }
}

/// Returns the number of a type in the rows; all GPUs are of the first where they are alike.
fn number(gpu_type: GpuType) -> u32 {
    if gpu_type == GpuType::NONE { 0 } else { gpu_type.number() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_its_own_and_of_its_gpus_comes_first() {
        let rows = [
            (0, 1, 0, 4, 1, 8.0, 7.0),
            (0, 1, 0, 4, 3, 6.0, 5.0),
            (1, 0, 0, 4, 2, 4.0, 3.0),
            (1, 0, 0, 0, 0, 0.75, 0.5),
            (1, 1, 0, 0, 0, 1.25, 0.25),
        ];
        let facts = PairFacts::new(vec![f64::NAN], &rows);
        let beside =
            |own, other, gpus, servers, later| facts.beside((own, other), GpuType::NONE, (gpus, servers), later, true);
        assert_eq!(
            [1, 2, 3].map(|servers| beside(0, 1, 4, servers, true)),
            [8.0, 8.0, 6.0].map(|r| Some(Beside::Rate(r)))
        );
        assert_eq!(beside(1, 0, 4, 1, true), Some(Beside::Rate(4.0)));
        assert_eq!(
            [beside(0, 1, 2, 1, true), beside(1, 0, 2, 1, false)],
            [0.5, 0.75].map(|f| Some(Beside::Fraction(f)))
        );
        assert_eq!(
            [true, false].map(|later| beside(1, 1, 1, 1, later)),
            [1.25, 0.25].map(|f| Some(Beside::Fraction(f)))
        );
        assert_eq!(beside(0, 0, 4, 1, true), None);
        assert_eq!(facts.beside((0, 1), GpuType::new(0), (4, 1), true, false), Some(Beside::Fraction(0.5)));
        assert_eq!(facts.beside((0, 1), GpuType::new(1), (4, 1), true, true), None);
    }
}
