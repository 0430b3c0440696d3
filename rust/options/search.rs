//! Reads how the trials of a search are judged: `asha:eta=3,rungs=4` (docs/searches.md).

use super::{Setting, Value};
use crate::error::{Error, Result};

/// Asynchronous successive halving (ASHA): one in `eta` of the trials that reach a rung continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// One in how many continues.
    pub eta: u32,
    /// Number of rungs below the end of a trial's work.
    pub rungs: u32,
}

impl Search {
    pub(crate) const EXPECTED: &'static str = "asha:eta=E,rungs=R with integers E >= 2, R >= 1 and E^R <= 2^20";

    /// The largest power of eta: beyond it a first rung has hardly any work.
    const MOST: u32 = 1 << 20;

    /// Reads `asha:eta=3,rungs=4`.
    ///
    /// # Errors
    /// `Option` for anything else.
    pub fn parse(text: &str) -> Result<Self> {
        let read = || {
            let (eta, rungs) = text.strip_prefix("asha:eta=")?.split_once(",rungs=")?;
            let count = |digits: &str| digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()));
            let (eta, rungs): (u32, u32) = (count(eta)?, count(rungs)?);
            let whole = eta.checked_pow(rungs)?;
            (eta >= 2 && rungs >= 1 && whole <= Self::MOST).then_some(Self { eta, rungs })
        };
        let fault = || Error::Option { name: "search", value: text.to_owned(), expected: Self::EXPECTED.to_owned() };
        read().ok_or_else(fault)
    }

    /// Returns by how much the work of a whole trial is divided at a rung: eta^(rungs - rung).
    #[must_use]
    pub fn divisor(self, rung: u32) -> f64 {
        f64::from(self.eta.pow(self.rungs - rung))
    }
}

impl Setting for Search {
    fn value(&self) -> Value {
        Value::Text(format!("asha:eta={},rungs={}", self.eta, self.rungs))
    }

    fn of(value: &Value) -> Option<Self> {
        if let Value::Text(text) = value { Self::parse(text).ok() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_read_as_it_is_written() {
        let search = Search::parse("asha:eta=3,rungs=4").unwrap();
        assert_eq!(search, Search { eta: 3, rungs: 4 });
        assert_eq!(search.value(), Value::Text("asha:eta=3,rungs=4".to_owned()));
        assert_eq!([0, 1, 4].map(|rung| search.divisor(rung)), [81.0, 27.0, 1.0]);
    }

    #[test]
    fn what_is_no_search_is_refused() {
        let wrong = [
            "",
            "asha",
            "hyperband:eta=3,rungs=4",
            "asha:eta=1,rungs=4",
            "asha:eta=3,rungs=0",
            "asha:eta=2.5,rungs=2",
            "asha:eta=+3,rungs=2",
            "asha:rungs=4,eta=3",
            "asha:eta=2,rungs=21",
            "asha:eta=2,rungs=99",
        ];
        for text in wrong {
            let refusal = Search::parse(text).unwrap_err().to_string();
            assert!(refusal.starts_with(&format!("option search: {text}: expected asha:eta=E")), "{refusal}");
        }
    }
}
