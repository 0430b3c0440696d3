//! Defines outages: when servers are down, or drain (docs/outages.md).
//!
//! Invariant: no two outages of one kind of a server overlap or touch. For example, [100, 200) and [150, 300) of
//! server 3 are one outage, [100, 300).

use crate::error::{Error, Result};
use crate::ids::Server;

/// An interval in which a server is down, or drains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outage {
    /// The server.
    pub server: Server,
    /// Start, s.
    pub down: f64,
    /// End, s; infinite if it never comes back.
    pub up: f64,
    /// Whether it drains: jobs there go on, and nobody else starts there.
    pub drains: bool,
    /// Its row in the caller's table.
    pub row: u32,
}

/// Checks every value of some outages.
///
/// # Errors
/// `Value`, for the lowest offending row.
pub(crate) fn check_outages(list: &[Outage], servers: usize) -> Result<()> {
    for (row, outage) in list.iter().enumerate() {
        let fault = |column, value: String, expected| Err(Error::Value { row, column, value, expected });
        if outage.server.index() >= servers {
            return fault("server", outage.server.number().to_string(), "the index of a server of the cluster");
        }
        if !(outage.down.is_finite() && outage.down >= 0.0) {
            return fault("down_at", format!("{:?}", outage.down), "a finite time >= 0");
        }
        if outage.up.is_nan() || outage.up <= outage.down {
            return fault("up_at", format!("{:?}", outage.up), "a time after down_at");
        }
    }
    Ok(())
}

/// Merges outages of one kind that overlap or touch into one, with the row of the first; in order of (kind, server,
/// down).
#[must_use]
pub(crate) fn merged(mut outages: Vec<Outage>) -> Vec<Outage> {
    outages.sort_by(|a, b| (a.drains, a.server).cmp(&(b.drains, b.server)).then(a.down.total_cmp(&b.down)));
    outages.dedup_by(|next, last| {
        let one = (next.drains, next.server) == (last.drains, last.server) && next.down <= last.up;
        if one {
            last.up = last.up.max(next.up);
        }
        one
    });
    outages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_that_overlap_or_touch_are_one() {
        let outage = |row, server, down, up| Outage { server: Server::new(server), down, up, drains: false, row };
        let drain = Outage { drains: true, ..outage(5, 0, 25.0, 40.0) };
        let given = vec![
            drain,
            outage(0, 1, 5.0, 7.0),
            outage(1, 0, 20.0, 30.0),
            outage(2, 0, 1.0, 9.0),
            outage(3, 0, 2.0, 3.0),
            outage(4, 0, 9.0, 12.0),
        ];
        let down = [outage(2, 0, 1.0, 12.0), outage(1, 0, 20.0, 30.0), outage(0, 1, 5.0, 7.0)];
        assert_eq!(merged(given), [&down[..], &[drain]].concat());
    }
}
