//! The pass of a policy that does not preempt: the queue disciplines over an order that changes with time.

use super::Engine;
use crate::options::Discipline;
use crate::preempt::Policy;
use crate::preempt::book::Running;

impl<P: Policy> Engine<'_, P> {
    /// Without preemption: the waiting jobs in order, under the queue discipline (SPEC section 6).
    pub(super) fn queue_pass(&mut self) {
        let discipline = self.setting.options.queue;
        let monotone = self.placer.is_monotone();
        let now = self.book.seconds();
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut chosen = std::mem::take(&mut self.selection.chosen);
        chosen.clear();
        let mut walk = waiting.walk();
        // EASY: what the blocked head asks for, and its shadow time.
        let mut reservation: Option<(u32, f64)> = None;
        let mut passed_over = false;
        while let Some(next) = walk.peek().filter(|_| self.cluster.total_idle > 0) {
            let rng = self.placer.rng();
            if !self.place(next.job) {
                if discipline == Discipline::Strict {
                    break;
                }
                if discipline == Discipline::Easy && reservation.is_none() {
                    reservation = Some((next.num_gpus, self.shadow_time(next.num_gpus)));
                }
                if monotone {
                    walk.leave_out(next);
                } else {
                    passed_over = true;
                    walk.pass();
                }
                continue;
            }
            walk.pass();
            if let Some((head, shadow)) = reservation
                && now + self.book.timing.backfill_estimate(&self.book.jobs, next.job as usize) > shadow
            {
                self.probe.take(&self.grant.parts);
                if !self.placer.fits(&mut self.cluster, &self.probe, head) {
                    self.probe.give(&self.grant.parts);
                    self.cluster.undo(next.job, &self.grant.parts);
                    self.placer.set_rng(rng);
                    passed_over = true;
                    continue;
                }
            }
            self.start(next.job);
            chosen.push(next.job);
            self.again |= passed_over;
        }
        for &job in &chosen {
            waiting.remove(job, self.book.jobs.num_gpus[job as usize]);
        }
        self.waiting = waiting;
        self.selection.chosen = chosen;
    }

    /// The earliest estimated completion at which a gang could be placed if nothing else started; the probe then holds
    /// the idle GPUs of that time.
    fn shadow_time(&mut self, num_gpus: u32) -> f64 {
        let Self { book, running, probe, placer, cluster, .. } = self;
        let estimated =
            |r: &Running| book.timing.seconds(r.start) + book.timing.backfill_estimate(&book.jobs, r.job as usize);
        let mut ends: Vec<(f64, usize)> = running
            .iter()
            .enumerate()
            .filter(|(_, r)| !r.parts.is_empty())
            .map(|(slot, r)| (estimated(r), slot))
            .collect();
        ends.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        probe.copy(cluster);
        for together in ends.chunk_by(|a, b| a.0 == b.0) {
            for &(_, slot) in together {
                probe.give(&running[slot].parts);
            }
            if placer.fits(cluster, probe, num_gpus) {
                return together[0].0;
            }
        }
        f64::INFINITY
    }
}
