//! What a stay of the slow mechanism has done, when its work is done, and when it writes checkpoints that take time.
//!
//! All of it is worked out anew whenever it is asked. For example, a stay that began to progress at 0 s and wrote checkpoints in
//! [100, 105) and [205, 210) has made 240 s of progress at 250 s.

use super::mechanism::{Mechanism, Phase, Stay};
use super::model;

impl Mechanism<'_> {
    /// When a stay ends if nothing changes.
    pub(super) fn end(&self, job: usize, stay: &Stay) -> f64 {
        let tau = stay.tau.unwrap_or(f64::NAN);
        if !self.slotted() {
            return stay.since + self.left[job] * tau;
        }
        if !self.options.rar() {
            return stay.since + self.slots_of(job, self.rate(job, &stay.parts));
        }
        match model::iterations_per_slot(self.options.slot, tau) {
            0 => f64::INFINITY,
            units => stay.since + (self.left[job] as u64).div_ceil(units) as f64,
        }
    }

    /// How fast those GPUs do a job's work beside all that it asks for.
    pub(super) fn rate(&self, job: usize, parts: &[(usize, u32)]) -> f64 {
        model::relative_rate(&self.jobs[job], parts.iter().map(|part| part.1).sum())
    }

    /// The first slot with which a job is done where each does that of `rate` slots. Rounding is forgiven, by a part of
    /// all its work, but not where there is none: whole numbers were done before, and are done now.
    fn slots_of(&self, job: usize, rate: f64) -> f64 {
        let (left, work) = (self.left[job], self.jobs[job].duration / self.options.slot);
        let exact = rate.fract() == 0.0 && work - (work - left).round() == left;
        let wanted = if exact { left } else { left - 1e-12 * work };
        let enough = |slots: f64| slots >= wanted / rate;
        let mut slots = (left / rate).floor() - 2.0;
        while !enough(slots) {
            slots += 1.0;
        }
        slots.max(0.0)
    }

    /// Brings the work left up to date: what was done since the last time at which that was asked.
    pub(super) fn progress(&mut self, job: usize, now: f64) {
        let Phase::Running(stay) = &self.phases[job] else { return };
        let (Some(tau), true) = (stay.tau, now > stay.since) else { return };
        let (passed, rate) = (now - stay.since, self.rate(job, &stay.parts));
        let done = match (self.slotted(), self.options.rar()) {
            (false, _) => passed / tau,
            (true, false) => passed * rate,
            (true, true) => {
                let units = model::iterations_per_slot(self.options.slot, tau);
                (0..passed as u64).fold(0u64, |done, _| done.saturating_add(units)) as f64
            }
        };
        if let Phase::Running(stay) = &mut self.phases[job] {
            stay.since = now;
        }
        self.left[job] = f64::max(0.0, self.left[job] - done);
    }

    /// Time of progress of a stay up to an instant at which it does not save.
    fn progressed(stay: &Stay, now: f64) -> f64 {
        now - stay.from - stay.saves.iter().map(|(begun, over)| over.min(now) - begun).sum::<f64>()
    }

    /// When a stay begins its next checkpoint, if it does not end before.
    pub(super) fn due(&self, job: usize, stay: &Stay) -> Option<f64> {
        if self.options.checkpoint_cost == 0.0 {
            return None;
        }
        let every = self.jobs[job].checkpoint_interval;
        let slot = if self.slotted() { self.options.slot } else { 1.0 };
        let count = stay.saves.len() as f64;
        let rounding = |time: f64| 1e-12 * (time - stay.from) + (64.0 + count) * (time.next_up() - time);
        let (begun, over) = stay.saves.last().copied().unwrap_or((stay.from, stay.from));
        let number = match stay.saves.last() {
            Some(_) if self.slotted() => (Self::progressed(stay, begun) * slot / every * (1.0 + 1e-12)).floor() + 1.0,
            _ => count + 1.0,
        };
        let saved: f64 = stay.saves.iter().map(|(begun, over)| over - begun).sum();
        let after = saved + number * every / slot;
        let due = stay.from + after;
        if due.is_infinite() {
            return None;
        }
        if self.slotted() {
            return Some(f64::max(stay.from + (after * (1.0 - 1e-12)).ceil(), over + 1.0));
        }
        let rounding = rounding(due);
        (self.end(job, stay) > due + rounding).then_some(due.max(over.next_up()))
    }

    /// Begins the checkpoints that are due now.
    pub(super) fn write_checkpoints(&mut self, now: f64) {
        let cost = self.options.checkpoint_cost;
        let cost = if self.slotted() { (cost / self.options.slot).ceil() } else { cost };
        for job in 0..self.jobs.len() {
            let Phase::Running(stay) = &self.phases[job] else { continue };
            if stay.tau.is_none() || self.due(job, stay).is_none_or(|due| due > now) {
                continue;
            }
            self.progress(job, now);
            if let Phase::Running(stay) = &mut self.phases[job] {
                stay.saves.push((now, now + cost));
                stay.since = now + cost;
            }
        }
    }
}
