//! Tracks the pauses at the start of stays, and servers that sleep while idle and are woken by a stay (docs/energy.md).
//!
//! Invariant: `since` and `until` are the latest interval in which a server was idle, as it was before the present
//! instant; verbs that are undone within an instant do not change it. For example, a server that was released at 100 s
//! and sleeps after 60 s is asleep from 160 s on. A job that starts there at 500 s wakes it, and so do all others that
//! start there at 500 s.

use super::clock::{Clock, Rest};
use super::cluster_state::ClusterState;
use crate::ids::{Job, Server};
use crate::options::Options;
use crate::outcome::{Asleep, Woken};
use crate::record::Why;
use crate::setting::Setting;
use crate::speed::Speed;

/// Returns whether a job that runs through may hold its GPUs without progress for a while.
pub(super) fn may_pause(setting: &Setting<'_>) -> bool {
    let options = setting.options;
    options.start_cost > 0.0 || options.checkpoint_cost > 0.0 || options.wakes()
}

/// Pauses: how long a job holds its GPUs without progress at the start of a stay, s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// For a job that is resumed and has no cost of its own, and for one that starts for the first time.
    pub(super) resumed: f64,
    started: f64,
    /// For a job that moved, and for one that was resized; `None` where each pays as if resumed.
    moved: Option<f64>,
    resized: Option<f64>,
}

impl Pauses {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            resumed: options.preempt_cost,
            started: options.start_cost,
            moved: options.move_cost,
            resized: options.resize_cost,
        }
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether the stay that begins now is not the job's first.
    #[inline]
    pub(super) fn resumes(&self, job: Job) -> bool {
        self.out.start[job.index()] < self.now
    }

    /// Returns what a job pays when it is resumed, s without progress.
    #[inline]
    pub(super) fn preempt_cost_of(&self, job: Job) -> f64 {
        let own = self.jobs.preempt_cost.map_or(f64::NAN, |costs| costs[job.index()]);
        if own.is_nan() { self.pauses.resumed } else { own }
    }

    /// Returns how long the job's stay that begins now holds its GPUs without progress. why: the change from the stay
    /// that it follows at once. wakes: whether one of its servers was asleep.
    #[inline]
    pub(super) fn pause_of(&self, job: Job, why: Option<Why>, wakes: bool) -> Rest {
        let longer = self.sleep.as_ref().filter(|_| wakes).map_or(0.0, |sleep| sleep.wake_time);
        let seconds = if self.resumes(job) {
            let given = match why {
                None => None,
                Some(Why::Moved) => self.pauses.moved,
                Some(_) => self.pauses.resized,
            };
            given.unwrap_or_else(|| self.preempt_cost_of(job))
        } else {
            self.pauses.started
        };
        self.clock.pause(seconds + longer, S::USES_REST_OF_SLOT)
    }
}

/// The latest interval in which a server was idle; machine times.
#[derive(Clone, Copy, Debug)]
struct Idle {
    /// Stays that hold GPUs of it now.
    stays: u32,
    /// Infinite while it is down.
    since: f64,
    /// Infinite while it is idle.
    until: f64,
    /// What ended it.
    woken: Woken,
}

/// Which servers are idle, and since when.
#[derive(Clone, Debug)]
pub(super) struct Sleep {
    /// Idle time after which a server sleeps, s.
    after: f64,
    /// Added pause of a stay that wakes a server, s.
    wake_time: f64,
    /// When the first job of the table arrives: no server counts as idle before.
    opens: f64,
    servers: Vec<Idle>,
    spells: Vec<Asleep>,
}

impl Sleep {
    /// Returns a new tracker; `None` if no server ever sleeps.
    pub(super) fn new(setting: &Setting<'_>, clock: Clock) -> Option<Box<Self>> {
        let options = setting.options;
        if options.sleep_after == f64::INFINITY {
            return None;
        }
        let opens = clock.arrival(setting.opens);
        Some(Box::new(Self {
            after: options.sleep_after,
            wake_time: options.wake_time,
            opens,
            servers: vec![
                Idle { stays: 0, since: opens, until: f64::INFINITY, woken: Woken::ByNobody };
                setting.server_gpus.len()
            ],
            spells: Vec::new(),
        }))
    }

    /// Notes that a stay of a job or a replica on those servers begins or continues. Returns whether one of them was
    /// asleep before this instant.
    pub(super) fn take(&mut self, parts: &[(Server, u32)], by: Woken, now: f64, clock: Clock) -> bool {
        let mut wakes = false;
        for &(server, _) in parts {
            let idle = &mut self.servers[server.index()];
            if idle.stays == 0 {
                (idle.until, idle.woken) = (now, by);
            }
            idle.stays += 1;
            wakes |= self.wakes(&[(server, 0)], now, clock);
        }
        wakes
    }

    /// Returns whether one of those servers was asleep before this instant, although a stay that begins now holds GPUs
    /// there.
    pub(super) fn wakes(&self, parts: &[(Server, u32)], now: f64, clock: Clock) -> bool {
        parts.iter().any(|&(server, _)| {
            let idle = self.servers[server.index()];
            idle.until == now && clock.seconds(now) - clock.seconds(idle.since) > self.after
        })
    }

    /// Notes that a stay on those servers ends.
    pub(super) fn give_back(&mut self, parts: &[(Server, u32)], now: f64, clock: Clock) {
        for &(server, _) in parts {
            let idle = &mut self.servers[server.index()];
            idle.stays -= 1;
            if idle.stays > 0 {
                continue;
            }
            // A stay of no length ended: the server has been idle all along.
            if idle.until != now {
                self.close(server, clock);
                self.servers[server.index()].since = f64::max(now, self.opens);
            }
            let idle = &mut self.servers[server.index()];
            (idle.until, idle.woken) = (f64::INFINITY, Woken::ByNobody);
        }
    }

    /// Takes down a server on which no stay holds GPUs.
    pub(super) fn take_down(&mut self, server: Server, now: f64, clock: Clock) {
        self.servers[server.index()].until = now;
        self.close(server, clock);
        self.servers[server.index()].since = f64::INFINITY;
    }

    /// Brings a server back, awake.
    pub(super) fn bring_up(&mut self, server: Server, now: f64) {
        let idle = &mut self.servers[server.index()];
        (idle.since, idle.until) = (f64::max(now, self.opens), f64::INFINITY);
    }

    /// Keeps a server awake that begins to drain, as if a stay held GPUs of it.
    pub(super) fn keep_awake(&mut self, server: Server, now: f64, clock: Clock) {
        self.take(&[(server, 0)], Woken::ByNobody, now, clock);
    }

    /// Lets it sleep again.
    pub(super) fn let_sleep(&mut self, server: Server, now: f64, clock: Clock) {
        self.give_back(&[(server, 0)], now, clock);
    }

    /// Records the sleep of a server whose idle interval is over.
    fn close(&mut self, server: Server, clock: Clock) {
        let idle = self.servers[server.index()];
        let (since, until) = (clock.seconds(idle.since), clock.seconds(idle.until));
        if until - since > self.after {
            self.spells.push(Asleep { server, from: since + self.after, until, woken: idle.woken });
        }
    }

    /// Returns when servers were asleep, by server and time. A server that is idle at the end sleeps forever.
    pub(super) fn into_spells(mut self, clock: Clock) -> Vec<Asleep> {
        for server in (0..self.servers.len()).map(Server::at) {
            if self.servers[server.index()].since < f64::INFINITY {
                self.close(server, clock);
            }
        }
        self.spells.sort_unstable_by(|a, b| a.server.cmp(&b.server).then(a.from.total_cmp(&b.from)));
        self.spells
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{FewestServers, Network};
    use crate::ids::Job;
    use crate::trace::OwnedJobs;

    const CLOCK: Clock = Clock { slot: None };
    const JOB: Woken = Woken::ByJob(Job::new(0));

    /// Returns two servers that sleep after 60 s, from 10 s on.
    fn sleep() -> Sleep {
        let options = Options { sleep_after: 60.0, wake_time: 30.0, ..Options::default() };
        let table = OwnedJobs { submit: vec![10.0], num_gpus: vec![1], ..OwnedJobs::default() };
        let (server_gpus, few) = ([4, 4], FewestServers::new(&[4, 4]));
        let setting = Setting::new(table.view(), &[0], &server_gpus, &few, Network::default(), &options);
        *Sleep::new(&setting, CLOCK).unwrap()
    }

    fn spells(sleep: Sleep) -> Vec<(usize, f64, f64)> {
        sleep.into_spells(CLOCK).iter().map(|spell| (spell.server.index(), spell.from, spell.until)).collect()
    }

    const FIRST: [(Server, u32); 1] = [(Server::new(0), 1)];
    const BOTH: [(Server, u32); 2] = [(Server::new(0), 1), (Server::new(1), 4)];

    #[test]
    fn it_must_have_been_idle_for_longer() {
        let mut sleep = sleep();
        assert!(!sleep.take(&FIRST, JOB, 70.0, CLOCK), "60 s are not longer than 60 s");
        assert!(sleep.take(&BOTH, JOB, 70.5, CLOCK), "server 1");
        assert!(sleep.take(&[BOTH[1]], JOB, 70.5, CLOCK), "whoever starts at the same instant waits for it too");
        assert!(!sleep.take(&[BOTH[1]], JOB, 71.0, CLOCK), "and nobody later");
    }

    #[test]
    fn a_stay_of_no_length_wakes_nobody() {
        let mut sleep = sleep();
        assert!(sleep.take(&FIRST, JOB, 100.0, CLOCK));
        sleep.give_back(&FIRST, 100.0, CLOCK);
        assert!(sleep.take(&FIRST, JOB, 110.0, CLOCK));
        sleep.give_back(&FIRST, 200.0, CLOCK);
        assert!(!sleep.take(&FIRST, JOB, 200.0, CLOCK), "the same instant");
        sleep.give_back(&FIRST, 250.0, CLOCK);
        let ever = f64::INFINITY;
        assert_eq!(spells(sleep), [(0, 70.0, 110.0), (0, 310.0, ever), (1, 70.0, ever)]);
    }

    #[test]
    fn before_the_first_job_comes_nobody_is_idle() {
        let mut sleep = sleep();
        sleep.take(&FIRST, JOB, 0.0, CLOCK);
        sleep.give_back(&FIRST, 5.0, CLOCK);
        assert!(!sleep.take(&FIRST, JOB, 70.0, CLOCK), "idle for 60 s since 10 s");
    }

    #[test]
    fn a_server_that_is_down_is_not_asleep() {
        let mut sleep = sleep();
        sleep.take_down(Server::new(0), 80.0, CLOCK);
        sleep.bring_up(Server::new(0), 200.0);
        sleep.take_down(Server::new(1), 0.0, CLOCK);
        sleep.bring_up(Server::new(1), 5.0);
        assert!(!sleep.take(&FIRST, JOB, 260.0, CLOCK));
        assert!(sleep.take(&[BOTH[1]], JOB, 100.0, CLOCK), "idle since the first job came");
        assert_eq!(spells(sleep), [(0, 70.0, 80.0), (1, 70.0, 100.0)]);
    }
}
