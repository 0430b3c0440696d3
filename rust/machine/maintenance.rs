//! Keeps jobs off servers that will go down for maintenance before they end (docs/operators-reference.md).
//!
//! Invariant: between two calls of the policy no server is hidden. A server is hidden while a job is placed that, by
//! its estimate, would still run in one of its windows: for that job the server is as good as down. For example, if a
//! server goes down in 600 s, a job of 900 s does not see its idle GPUs, and one of 300 s does.
//!
//! A placement costs the number of servers whose next window begins before the job would end.

use super::cluster_state::ClusterState;
use crate::ids::{Job, Server, Slot};
use crate::placement::Probes;
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::merged;
use std::borrow::Cow;

/// When servers will be down.
#[derive(Clone, Debug)]
pub(crate) struct MaintenanceWindows {
    /// (down, up, server), s, in order.
    all: Vec<(f64, f64, Server)>,
    /// Windows before this one have begun.
    next: usize,
    /// Hidden servers, and the idle GPUs taken to hide them.
    hidden: Vec<(Server, u32)>,
    is_hidden: Vec<bool>,
}

impl MaintenanceWindows {
    /// Returns the windows of the setting, if it has any.
    pub(super) fn new(setting: &Setting<'_>) -> Option<Box<Self>> {
        let given = merged(setting.side.maintenance?.to_vec());
        let mut all: Vec<_> = given.iter().map(|outage| (outage.down, outage.up, outage.server)).collect();
        all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let is_hidden = vec![false; setting.server_gpus.len()];
        Some(Box::new(Self { all, next: 0, hidden: Vec::new(), is_hidden }))
    }

    /// Returns whether a server is hidden.
    pub(super) fn hides(&self, server: Server) -> bool {
        self.is_hidden[server.index()]
    }
}

/// The servers that a job starting at another time cannot use, and their idle GPUs then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Masked(Vec<(Server, u32)>);

impl Masked {
    /// Returns the parts on other servers.
    pub(crate) fn without<'p>(&self, parts: &'p [(Server, u32)]) -> Cow<'p, [(Server, u32)]> {
        if self.0.is_empty() {
            return Cow::Borrowed(parts);
        }
        parts.iter().filter(|part| !self.0.iter().any(|masked| masked.0 == part.0)).copied().collect()
    }
}

impl<S: Speed> ClusterState<'_, S> {
    /// Returns whether any maintenance is known.
    #[inline]
    pub(crate) fn knows_windows(&self) -> bool {
        self.windows.is_some()
    }

    /// Hides the servers that go down within `estimate` seconds, until `show`. Returns when the last of them does, s.
    pub(crate) fn hide(&mut self, estimate: f64) -> Option<f64> {
        let now = self.seconds();
        let windows = self.windows.as_mut()?;
        while windows.all.get(windows.next).is_some_and(|window| window.0 <= now) {
            windows.next += 1;
        }
        let mut latest = None;
        for &(down, _, server) in &windows.all[windows.next..] {
            if now + estimate <= down {
                break;
            }
            latest = Some(down);
            if !std::mem::replace(&mut windows.is_hidden[server.index()], true) {
                windows.hidden.push((server, self.cluster.cover(server)));
            }
        }
        latest
    }

    /// Returns the range of estimated ends, s, for which `hide` hides the same servers as for this estimate: after the
    /// first, and not after the second.
    pub(crate) fn hidden_alike(&self, estimate: f64) -> (f64, f64) {
        let now = self.seconds();
        let ahead = self.windows.as_ref().map_or(&[][..], |windows| &windows.all[windows.next..]);
        let hidden = ahead.partition_point(|window| window.0 < now + estimate);
        let down = |at: Option<usize>| at.and_then(|at| ahead.get(at)).map(|window| window.0);
        (down(hidden.checked_sub(1)).unwrap_or(f64::NEG_INFINITY), down(Some(hidden)).unwrap_or(f64::INFINITY))
    }

    /// Hides GPUs that were released on hidden servers in the meantime.
    pub(super) fn hide_again(&mut self) {
        if let Some(windows) = &mut self.windows {
            for (server, taken) in &mut windows.hidden {
                *taken += self.cluster.cover(*server);
            }
        }
    }

    /// Returns the windows that are not over: (down, up, server), s.
    pub(crate) fn windows(&self) -> impl Iterator<Item = (f64, f64, Server)> + '_ {
        let now = self.seconds();
        self.windows.iter().flat_map(|windows| &windows.all).filter(move |window| now < window.1).copied()
    }

    /// Shows the hidden servers again.
    #[inline]
    pub(crate) fn show(&mut self) {
        if self.windows.is_some() {
            self.show_all();
        }
    }

    #[cold]
    fn show_all(&mut self) {
        if let Some(windows) = &mut self.windows {
            for (server, taken) in windows.hidden.drain(..) {
                windows.is_hidden[server.index()] = false;
                self.cluster.uncover(server, taken);
            }
        }
    }

    /// Returns whether any server is hidden.
    #[inline]
    pub(super) fn hides(&self) -> bool {
        self.windows.as_ref().is_some_and(|windows| !windows.hidden.is_empty())
    }

    /// Returns the shadow time like [`ClusterState::shadow_time`], with maintenance: a job that takes `estimate`
    /// seconds may also begin when servers come back, but not on servers that go down before it would end. `masked`
    /// then has these servers at the shadow time.
    pub(crate) fn shadow_around(
        &mut self,
        probes: &mut Probes,
        masked: &mut Masked,
        ends: impl Iterator<Item = (u64, Slot)>,
        job: Job,
        estimate: f64,
    ) -> f64 {
        probes.copy(&self.cluster);
        masked.0.clear();
        let now = self.seconds();
        let mut events: Vec<(f64, Event)> = ends.map(|(end, slot)| (f64::from_bits(end), Event::End(slot))).collect();
        for (down, up, server) in self.windows().filter(|window| window.1 < f64::INFINITY) {
            if down > now {
                events.push((up, Event::Later));
            } else if self.is_down(server) && !self.is_draining(server) {
                events.push((up, Event::Back(server)));
            }
        }
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (at, &(time, event)) in events.iter().enumerate() {
            match event {
                Event::End(slot) => {
                    probes.give(&self.cluster, &self.coming_free(&self.stays[slot.index()].parts));
                }
                Event::Back(server) => probes.give(&self.cluster, &[(server, self.cluster.size(server))]),
                Event::Later => {}
            }
            if events.get(at + 1).is_some_and(|next| next.0 == time) {
                continue;
            }
            self.mask(probes, masked, f64::max(time, now), estimate);
            if self.fits(probes, job) {
                return time;
            }
            probes.give(&self.cluster, &masked.0);
            masked.0.clear();
        }
        f64::INFINITY
    }

    /// Takes out of the probes the servers that go down before a job starting at `time` would end.
    fn mask(&self, probes: &mut Probes, masked: &mut Masked, time: f64, estimate: f64) {
        let now = self.seconds();
        let cuts = |window: &(f64, f64, Server)| {
            window.0 > now && window.1 > time && (window.0 < time + estimate || window.0 <= time)
        };
        for (_, _, server) in self.windows().filter(cuts) {
            if !masked.0.iter().any(|other| other.0 == server) {
                let idle = probes.idle(&self.cluster, server);
                probes.take(&self.cluster, &[(server, idle)]);
                masked.0.push((server, idle));
            }
        }
    }
}

/// An event at which a blocked job may begin.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// The estimated end of a stay.
    End(Slot),
    /// The end of the maintenance of a server that is down now.
    Back(Server),
    /// The end of the maintenance of a server that will be down.
    Later,
}
