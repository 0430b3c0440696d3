//! Why jobs wait: for GPUs, for GPUs in one piece, or for their turn.
//!
//! Invariant: `state` says what is in the way of each gang size since the latest look, and `spent` for how long each
//! obstacle has been there. Only time in which somebody waits counts. For example, with 2 idle GPUs on each of two
//! servers of 4, a gang of 5 finds too few. For `consolidate` a gang of 3 finds them fragmented.

use crate::cluster::Cluster;
use crate::placement::Placer;

/// Time that each gang size could not be placed, for want of idle GPUs or because they lay apart.
///
/// Kept only while the queue is not empty: O(sizes) an instant.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// The sizes in the trace, ascending.
    sizes: Vec<u32>,
    /// Time with fewer idle GPUs than that, and with enough that the placement could not use, since the start.
    spent: Vec<(f64, f64)>,
    /// What held for each size since then.
    state: Vec<Obstacle>,
    since: f64,
    /// Whether somebody waited then.
    waiting: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Obstacle {
    None,
    TooFew,
    Fragmented,
}

impl Delays {
    pub(crate) fn new(num_gpus: &[u32]) -> Self {
        let mut sizes = num_gpus.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        let count = sizes.len();
        Self { sizes, spent: vec![(0.0, 0.0); count], state: vec![Obstacle::None; count], since: 0.0, waiting: false }
    }

    /// Adds up the time since the state was last looked at, s.
    pub(crate) fn pass_time(&mut self, now: f64) {
        let passed = now - self.since;
        self.since = now;
        if !self.waiting {
            return;
        }
        for (spent, state) in self.spent.iter_mut().zip(&self.state) {
            match state {
                Obstacle::None => {}
                Obstacle::TooFew => spent.0 += passed,
                Obstacle::Fragmented => spent.1 += passed,
            }
        }
    }

    /// Looks at what is in the way of each size after a pass, if anybody waits.
    pub(crate) fn look(&mut self, cluster: &mut Cluster, placer: &Placer, waiting: bool) {
        self.waiting = waiting;
        if !waiting {
            return;
        }
        for (state, &size) in self.state.iter_mut().zip(&self.sizes) {
            *state = if u64::from(size) > cluster.total_idle {
                Obstacle::TooFew
            } else if placer.can_place(cluster, size) {
                Obstacle::None
            } else {
                Obstacle::Fragmented
            };
        }
    }

    /// (Too few, fragmented): the time spent so for a size, s, since the start.
    pub(crate) fn spent(&self, num_gpus: u32) -> (f64, f64) {
        self.spent[self.sizes.partition_point(|&size| size < num_gpus)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Claim, Grant};
    use crate::ids::{Job, Server};
    use crate::options::{Options, Placement};

    #[test]
    fn obstacles_are_told_apart() {
        let options = Options { placement: Placement::Consolidate, ..Options::default() };
        let mut placer = Placer::new(&options);
        let mut cluster = Cluster::new(&[4, 4], placer.needs());
        let mut delays = Delays::new(&[1, 2, 3, 6, 8]);
        let mut grant = Grant::default();
        for job in 0..2 {
            // One on each server, which leaves one idle GPU on either.
            assert!(placer.place(&mut cluster, &Claim { job: Job::new(job), num_gpus: 3, time: 0.0 }, &mut grant));
        }
        delays.look(&mut cluster, &placer, true);
        delays.pass_time(5.0);
        assert_eq!([1, 2, 3].map(|size| delays.spent(size)), [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0)]);
        assert!(placer.place(&mut cluster, &Claim { job: Job::new(2), num_gpus: 1, time: 0.0 }, &mut grant));
        cluster.release(Job::new(0), &[(Server::new(0), 3)]);
        cluster.release(Job::new(2), &[(Server::new(0), 1)]);
        cluster.release(Job::new(1), &[(Server::new(1), 1)]);
        // Server 0 is empty, server 1 has two idle GPUs: 6 GPUs fit as 4 + 2, 3 fit, 8 do not.
        delays.look(&mut cluster, &placer, true);
        delays.pass_time(7.0);
        assert_eq!(delays.spent(8), (7.0, 0.0));
        assert_eq!(delays.spent(6), (5.0, 0.0));
        assert!(placer.place(&mut cluster, &Claim { job: Job::new(3), num_gpus: 1, time: 0.0 }, &mut grant));
        assert!(placer.place(&mut cluster, &Claim { job: Job::new(4), num_gpus: 2, time: 0.0 }, &mut grant));
        delays.look(&mut cluster, &placer, false);
        delays.pass_time(9.0);
        assert_eq!(delays.spent(8), (7.0, 0.0), "nobody waits");
    }
}
