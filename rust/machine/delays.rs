//! Measures why jobs wait: for GPUs, for unfragmented GPUs, or for their turn.
//!
//! Invariant: `state` has the wait cause of each gang size since `since`, and `spent` how long each wait cause applied
//! before. Only time while the queue is not empty counts. Sums change only when a wait cause changes, so they do not
//! depend on when `look` is called. For example, with 2 idle GPUs on each of two servers of 4, a gang of 5 finds too
//! few. For `consolidate` a gang of 3 finds them fragmented.

use crate::cluster::Cluster;
use crate::placement::{Gang, Placer, Pools};
use crate::trace::{Demand, Form, Jobs};

/// Time that each gang size (of each kind, where GPUs differ) could not be placed, for want of idle GPUs or because
/// they were fragmented.
///
/// Kept only while the queue is not empty: O(demands) per instant at which GPUs changed hands.
#[derive(Clone, Debug)]
pub(crate) struct Delays {
    /// The demands of the trace, ascending.
    demands: Vec<Demand>,
    /// Time with too few idle GPUs for a demand, and with enough that the placement could not use, since the start.
    spent: Vec<(f64, f64)>,
    /// The wait cause of each demand since `since`.
    state: Vec<WaitCause>,
    since: f64,
    /// The wait causes at the latest look, when that was, and whether they differ from `state`.
    found: Vec<WaitCause>,
    looked: f64,
    changed: bool,
    now: f64,
    /// The gang sizes and forms of the trace, ascending.
    sizes: Vec<(u32, Form)>,
    pools: Vec<InPool>,
    /// Whether any job waited at the latest look.
    waiting: bool,
}

/// Why each gang size cannot be placed in a pool.
#[derive(Clone, Debug)]
struct InPool {
    wait_causes: Vec<WaitCause>,
    /// The pool's change count at the time.
    as_of: Option<u64>,
    /// How many of the first sizes can be placed up to the placement's reach, and none of them above it.
    within_reach: usize,
}

/// Why a demand cannot be placed, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum WaitCause {
    None,
    Fragmented,
    TooFew,
}

impl Delays {
    pub(crate) fn new(jobs: &Jobs<'_>, pools: &Pools, placer: &Placer) -> Self {
        let demands = jobs.demands();
        let size = |&demand: &Demand| (demand.units(), jobs.form_of(demand));
        let mut sizes: Vec<(u32, Form)> = demands.iter().map(size).collect();
        sizes.dedup();
        let in_pool = |pool: &Cluster| {
            let has_reach = |&&(num_gpus, form): &&(u32, Form)| placer.has_reach(pool, Gang { num_gpus, form });
            InPool {
                wait_causes: vec![WaitCause::None; sizes.len()],
                as_of: None,
                within_reach: if jobs.shares.is_some() { 0 } else { sizes.iter().take_while(has_reach).count() },
            }
        };
        Self {
            spent: vec![(0.0, 0.0); demands.len()],
            state: vec![WaitCause::None; demands.len()],
            since: 0.0,
            found: vec![WaitCause::None; demands.len()],
            looked: 0.0,
            changed: false,
            now: 0.0,
            pools: (0..pools.len()).map(|pool| in_pool(pools.pool(pool))).collect(),
            demands,
            sizes,
            waiting: false,
        }
    }

    /// Advances to an instant, s. The wait causes of the latest look hold until then.
    #[inline]
    pub(crate) fn pass_time(&mut self, now: f64) {
        self.now = now;
        if self.changed && now > self.looked {
            self.turn();
        }
    }

    /// Adds up the time of every wait cause up to the latest look.
    fn turn(&mut self) {
        let passed = self.looked - self.since;
        for ((spent, state), &found) in self.spent.iter_mut().zip(&mut self.state).zip(&self.found) {
            match std::mem::replace(state, found) {
                WaitCause::None => {}
                WaitCause::TooFew => spent.0 += passed,
                WaitCause::Fragmented => spent.1 += passed,
            }
        }
        self.since = self.looked;
        self.changed = false;
    }

    /// Updates the wait cause of each demand after a pass, if any job waits.
    pub(crate) fn look(&mut self, jobs: &Jobs<'_>, pools: &mut Pools, placer: &Placer, waiting: bool) {
        let waited = std::mem::replace(&mut self.waiting, waiting);
        if waiting {
            if !self.find(jobs, pools, placer) && waited {
                return;
            }
        } else if !waited {
            return;
        } else {
            self.found.fill(WaitCause::None);
            self.pools.iter_mut().for_each(|pool| pool.as_of = None);
        }
        self.looked = self.now;
        self.changed = self.found != self.state;
    }

    /// Finds the wait cause of each demand. Returns false if no pool changed.
    fn find(&mut self, jobs: &Jobs<'_>, pools: &mut Pools, placer: &Placer) -> bool {
        let mut changed = false;
        for (pool, InPool { wait_causes, as_of, within_reach }) in pools.iter_mut().zip(&mut self.pools) {
            if as_of.replace(pool.changes) == Some(pool.changes) {
                continue;
            }
            changed = true;
            let enough = self.sizes.partition_point(|&(units, _)| u64::from(units) <= pool.idle_units());
            let shared = pool.shares().is_some();
            let within_reach = enough.min(*within_reach);
            let reach = placer.reach(pool);
            for (wait_cause, size) in wait_causes[..within_reach].iter_mut().zip(&self.sizes) {
                *wait_cause = if u64::from(size.0) <= reach { WaitCause::None } else { WaitCause::Fragmented };
            }
            let beyond = wait_causes[within_reach..enough].iter_mut().zip(&self.sizes[within_reach..]);
            for (wait_cause, &(units, form)) in beyond {
                let fits = if shared {
                    placer.can_place_units(pool, units, form)
                } else {
                    placer.can_place(pool, Gang { num_gpus: units, form })
                };
                *wait_cause = if fits { WaitCause::None } else { WaitCause::Fragmented };
            }
            wait_causes[enough..].fill(WaitCause::TooFew);
        }
        if !changed {
            return false;
        }
        if jobs.types.is_none() {
            self.found.copy_from_slice(&self.pools[0].wait_causes);
            return true;
        }
        let mut at = 0;
        for (found, demand) in self.found.iter_mut().zip(&self.demands) {
            while self.sizes[at] != (demand.units(), jobs.form_of(*demand)) {
                at += 1;
            }
            // The least of its types: fragmented on one says more than too few on another.
            let met = jobs.tried_by(*demand).iter().map(|&(gpu_type, _)| self.pools[gpu_type.index()].wait_causes[at]);
            *found = met.min().unwrap_or(WaitCause::TooFew);
        }
        true
    }

    /// Returns the wait cause of a demand since the latest look at which a job waited.
    pub(super) fn wait_cause(&self, demand: Demand) -> WaitCause {
        self.found[self.demands.partition_point(|&other| other < demand)]
    }

    /// Returns (too few, fragmented): the time of each for a demand, s, since the start.
    #[inline(always)]
    pub(crate) fn spent(&self, demand: Demand) -> (f64, f64) {
        let at = self.demands.partition_point(|&other| other < demand);
        let (spent, passed) = (self.spent[at], self.now - self.since);
        match self.state[at] {
            WaitCause::None => spent,
            WaitCause::TooFew => (spent.0 + passed, spent.1),
            WaitCause::Fragmented => (spent.0, spent.1 + passed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Claim, Grant};
    use crate::ids::{GpuType, Job, Server};
    use crate::options::{Options, Placement};
    use crate::trace::OwnedJobs;

    #[test]
    fn wait_causes_differ() {
        let options = Options { placement: Placement::Consolidate, ..Options::default() };
        let mut placer = Placer::new(&options);
        let mut pools = Pools::new(&[4, 4], None, placer.needs());
        let table = OwnedJobs { submit: vec![0.0; 5], num_gpus: vec![1, 2, 3, 6, 8], ..OwnedJobs::default() };
        let jobs = table.view();
        let mut delays = Delays::new(&jobs, &pools, &placer);
        let spent = |delays: &Delays, size: u32| {
            delays.spent(jobs.demand(Job::at(table.num_gpus.iter().position(|&s| s == size).unwrap())))
        };
        let mut grant = Grant::default();
        for job in 0..2 {
            // One on each server, which leaves one idle GPU on either.
            assert!(pools.place_by(
                &mut placer,
                GpuType::NONE,
                &Claim { job: Job::new(job), num_gpus: 3, time: 0.0, share: 0, form: Form::default() },
                &mut grant
            ));
        }
        delays.look(&jobs, &mut pools, &placer, true);
        delays.pass_time(5.0);
        assert_eq!([1, 2, 3].map(|size| spent(&delays, size)), [(0.0, 0.0), (0.0, 5.0), (5.0, 0.0)]);
        assert!(pools.place_by(
            &mut placer,
            GpuType::NONE,
            &Claim { job: Job::new(2), num_gpus: 1, time: 0.0, share: 0, form: Form::default() },
            &mut grant
        ));
        pools.release(Job::new(0), &[(Server::new(0), 3)]);
        pools.release(Job::new(2), &[(Server::new(0), 1)]);
        pools.release(Job::new(1), &[(Server::new(1), 1)]);
        // Server 0 is empty, server 1 has two idle GPUs: 6 GPUs fit as 4 + 2, 3 fit, 8 do not.
        delays.look(&jobs, &mut pools, &placer, true);
        delays.pass_time(7.0);
        assert_eq!(spent(&delays, 8), (7.0, 0.0));
        assert_eq!(spent(&delays, 6), (5.0, 0.0));
        assert!(pools.place_by(
            &mut placer,
            GpuType::NONE,
            &Claim { job: Job::new(3), num_gpus: 1, time: 0.0, share: 0, form: Form::default() },
            &mut grant
        ));
        assert!(pools.place_by(
            &mut placer,
            GpuType::NONE,
            &Claim { job: Job::new(4), num_gpus: 2, time: 0.0, share: 0, form: Form::default() },
            &mut grant
        ));
        delays.look(&jobs, &mut pools, &placer, false);
        delays.pass_time(9.0);
        assert_eq!(spent(&delays, 8), (7.0, 0.0), "nobody waits");
    }
}
