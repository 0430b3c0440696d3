//! Describes a stay: an interval in which a job holds the same GPUs.
//!
//! Invariant: `left` is the work left at `since`, and from then on a unit of work takes `unit` seconds until the pace
//! changes. For example, a stay that begins at 10 s with a pause of 30 s and 5 units of 2 s each ends at 10 + 30 + 5 *
//! 2 = 50 s.

use super::clock::Clock;
use super::saves::Saves;
use crate::ids::{GpuType, Job, Server};
use crate::speed::{Speed, whole_slots};

/// A job on GPUs. Times are machine times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stay<P> {
    /// The job that holds the GPUs.
    pub(crate) job: Job,
    /// (server, GPUs), servers ascending; empty where the stay is not live.
    pub(crate) parts: Vec<(Server, u32)>,
    /// The type of its GPUs; `NONE` where all are alike.
    pub(crate) gpu_type: GpuType,
    /// When it began.
    pub(crate) start: f64,
    /// When progress begins: after the pause.
    pub(crate) from: f64,
    /// Work left at `since`.
    pub(super) left: f64,
    /// All work of the job (kept under the slot clock).
    pub(super) work: f64,
    pub(super) since: f64,
    /// The share of the slot ending at `since` that a pause takes, and the work done in the rest of that slot, which
    /// `left` excludes.
    pub(super) part: f64,
    pub(super) head: f64,
    /// Its number among the stays of the run, in the order in which they began.
    pub(crate) order: u32,
    /// Its seat, and from when on it hosts it (infinite while it is a guest), where jobs may hold the same GPUs.
    pub(crate) seat: u32,
    pub(super) hosts_from: f64,
    /// Time of a unit of work now, s, and units per slot.
    pub(super) unit: f64,
    pub(super) per_slot: f64,
    /// Time of a unit on one server without contention, s (kept where a policy may stop jobs).
    pub(crate) alone: f64,
    pub(super) pace: P,
    /// Slowdown factor of a unit by the other shares on its GPU.
    pub(super) slowed: f64,
    /// p_j, and the largest one of this stay.
    pub(super) contention: u32,
    pub(super) largest_contention: u32,
    /// Seconds of progress between two checkpoints, NaN where work is never lost; and the work left at the latest
    /// checkpoint before `since`.
    pub(super) every: f64,
    pub(super) saved: f64,
    /// Its checkpoints, where they take time.
    pub(super) saves: Saves,
    /// Whether it began at this instant and has no end yet.
    pub(super) fresh: bool,
}

impl<P> Stay<P> {
    /// Returns whether a job is here.
    #[inline]
    pub(crate) fn is_live(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Returns the places of its servers.
    #[inline]
    pub(super) fn servers(&self) -> impl Iterator<Item = usize> + '_ {
        self.parts.iter().map(|part| part.0.index())
    }

    /// Returns the work left now.
    #[inline]
    pub(crate) fn left_at(&self, now: f64, clock: Clock) -> f64 {
        if now <= self.since {
            return if now < self.since { self.left + self.head } else { self.left };
        }
        let passed = now - self.since;
        let done = match clock.slot {
            None => passed / self.unit,
            Some(_) => self.per_slot * passed,
        };
        f64::max(0.0, self.left - done)
    }

    /// Returns when `mark` work is left at its present pace: 0 for its end. Infinity where a slot yields nothing.
    #[inline]
    pub(super) fn end(&self, clock: Clock, mark: f64) -> f64 {
        let left = if mark > 0.0 { f64::max(0.0, self.left - mark) } else { self.left };
        match clock.slot {
            // Beside a partner a unit may take forever.
            None if left == 0.0 => self.since,
            None => self.since + left * self.unit,
            Some(_) if self.per_slot == 0.0 => f64::INFINITY,
            Some(_) => self.since + whole_slots(left, self.per_slot, self.left, self.work),
        }
    }

    /// Applies the present contention. Returns whether the pace changed.
    #[inline]
    pub(super) fn set_pace<S: Speed<Pace = P>>(&mut self, speed: &S, now: f64, clock: Clock) -> bool {
        let unit = speed.unit(&self.pace, self.parts.len() as u32, self.contention) * self.slowed;
        self.set_unit(unit, speed, now, clock)
    }

    /// Applies the present time of a unit of work, s. Returns whether it changed.
    #[inline]
    pub(super) fn set_unit<S: Speed<Pace = P>>(&mut self, unit: f64, speed: &S, now: f64, clock: Clock) -> bool {
        if unit == self.unit {
            return false;
        }
        let pauses = now < self.since;
        self.save(now, clock);
        self.left = self.left_at(now, clock);
        self.since = f64::max(self.since, now);
        self.unit = unit;
        if let Some(slot) = clock.slot {
            self.per_slot = speed.per_slot(&self.pace, slot, unit);
            if !S::COUNTS_ITERATIONS {
                self.per_slot /= self.slowed;
            }
            if pauses {
                self.use_rest_of_slot(speed, clock);
            }
        }
        true
    }

    /// Computes the yield of the slot that ends at `since`, of which a pause takes a part.
    pub(super) fn use_rest_of_slot<S: Speed<Pace = P>>(&mut self, speed: &S, clock: Clock) {
        if let Some(slot) = clock.slot
            && S::USES_REST_OF_SLOT
            && self.part > 0.0
        {
            self.head = speed.per_slot(&self.pace, slot * (1.0 - self.part), self.unit).min(self.left);
            self.left -= self.head;
        }
    }

    /// Returns the time in which it was a guest up to now, from its beginning on (machine time).
    #[inline]
    pub(super) fn guest_time(&self, now: f64) -> f64 {
        self.hosts_from.min(now) - self.start
    }

    /// Returns the GPUs held.
    #[inline]
    pub(crate) fn gpus(&self) -> u32 {
        self.parts.iter().map(|part| part.1).sum()
    }
}
