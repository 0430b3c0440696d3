//! One scheduling pass: the queue disciplines (SPEC section 6).

use crate::cluster::Grant;
use crate::engine::Engine;
use crate::options::Discipline;
use crate::placement::Probe;
use crate::queue::Queue;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What a pass keeps for the next, so that it allocates nothing.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// Size classes still in the running: (rank of the job looked at, class, its place, version).
    candidates: BinaryHeap<Reverse<(u32, u32, u32, u32)>>,
    /// Candidates of an older version of their class are void.
    version: Vec<u32>,
    /// Classes passed over that a change of state puts back in the running.
    set_aside: Vec<u32>,
    grant: Grant,
    probe: Probe,
}

/// The claim of a blocked head on the future (EASY).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation {
    /// The head.
    job: u32,
    /// GPUs it asks for.
    num_gpus: u32,
    /// Earliest estimated completion at which the head could be placed, s.
    pub(crate) shadow: f64,
}

impl Scratch {
    pub(crate) fn new(queue: &Queue) -> Self {
        Self {
            candidates: BinaryHeap::new(),
            version: vec![0; queue.classes()],
            set_aside: Vec::new(),
            grant: Grant::default(),
            probe: Probe::default(),
        }
    }

    fn add(&mut self, queue: &Queue, class: usize, place: Option<usize>) {
        if let Some(place) = place {
            let rank = queue.rank_of(queue.job_at(place));
            self.candidates.push(Reverse((rank, class as u32, place as u32, self.version[class])));
        }
    }

    /// The next candidate in queue order: (rank, class, place).
    fn next(&mut self) -> Option<(u32, usize, usize)> {
        while let Some(Reverse((rank, class, place, version))) = self.candidates.pop() {
            if self.version[class as usize] == version {
                return Some((rank, class as usize, place as usize));
            }
        }
        None
    }

    /// Puts the classes set aside back in the running, from the first job that ranks after `rank`.
    fn reopen(&mut self, queue: &Queue, rank: u32) {
        while let Some(class) = self.set_aside.pop() {
            let class = class as usize;
            self.version[class] = self.version[class].wrapping_add(1);
            let from = queue.place_after_rank(class, rank);
            self.add(queue, class, queue.next_in_class(class, from));
        }
    }
}

/// Starts what can start now. Whether a second pass in the state so reached could start more: under the slot clock
/// the next boundary is one, even if nothing happens there.
pub(crate) fn run(engine: &mut Engine<'_>, scratch: &mut Scratch) -> bool {
    let mut grant = std::mem::take(&mut scratch.grant);
    let again = match engine.discipline {
        Discipline::Strict => {
            strict(engine, &mut grant);
            false
        }
        Discipline::Skip | Discipline::Easy => past_the_head(engine, scratch, &mut grant),
    };
    scratch.grant = grant;
    again
}

fn strict(engine: &mut Engine<'_>, grant: &mut Grant) {
    while let Some(job) = engine.queue.head() {
        if !engine.place(job, grant) {
            break;
        }
        engine.start(job, grant);
    }
}

/// Looks at the waiting jobs in queue order, once each, but at a size that cannot be placed only once: the jobs of a
/// size stand or fall together, save for EASY's question whether they end before the shadow time. Whether a job that
/// was passed over might be taken in a second pass: one started after it, and that can change where it would go.
fn past_the_head(engine: &mut Engine<'_>, scratch: &mut Scratch, grant: &mut Grant) -> bool {
    let monotone = engine.placer.is_monotone();
    let easy = engine.discipline == Discipline::Easy;
    let now = engine.seconds();
    let mut reservation: Option<Reservation> = None;
    let mut head: Option<u32> = None;
    let (mut passed_over, mut again) = (false, false);
    scratch.candidates.clear();
    scratch.set_aside.clear();
    for class in 0..engine.queue.classes() {
        scratch.add(&engine.queue, class, engine.queue.next_in_class(class, 0));
    }
    while let Some((rank, class, place)) = scratch.next() {
        if engine.cluster.total_idle == 0 {
            break;
        }
        let job = engine.queue.job_at(place);
        if let (Some(blocked), None) = (head, reservation) {
            if u64::from(engine.jobs.num_gpus[job as usize]) > engine.cluster.total_idle {
                continue;
            }
            reservation = Some(reserve(engine, scratch, blocked));
        }
        let short = |estimate: f64| reservation.is_none_or(|r| now + estimate <= r.shadow);
        let in_time = !easy || short(engine.timing.backfill_estimate(&engine.jobs, job as usize));
        let rng = (!in_time).then(|| engine.placer.rng());
        if !engine.place(job, grant) {
            if easy && head.is_none() {
                head = Some(job);
            }
            if !monotone {
                scratch.set_aside.push(class as u32);
                passed_over = true;
            }
            continue;
        }
        if let (Some(held), Some(rng)) = (reservation, rng) {
            scratch.probe.take(&grant.parts);
            if !engine.placer.fits(&mut engine.cluster, &scratch.probe, held.num_gpus) {
                scratch.probe.give(&grant.parts);
                engine.cluster.undo(job, &grant.parts);
                engine.placer.set_rng(rng);
                passed_over = true;
                let next = if monotone {
                    // Its like get the same GPUs, so only those that end in time are worth a look.
                    scratch.set_aside.push(class as u32);
                    engine.queue.next_short(class, place + 1, short)
                } else {
                    engine.queue.next_in_class(class, place + 1)
                };
                scratch.add(&engine.queue, class, next);
                continue;
            }
        }
        if head.is_none() {
            // Started without regard to an older claim.
            engine.held = None;
        }
        engine.start(job, grant);
        again |= passed_over;
        scratch.add(&engine.queue, class, engine.queue.next_in_class(class, place + 1));
        scratch.reopen(&engine.queue, rank);
    }
    again
}

/// The claim of a blocked head; `scratch.probe` then holds the idle GPUs of its shadow time.
///
/// The claim of the pass before stands if the head is the same and nothing happened since but completions it counted
/// on and starts it allowed: neither moves the shadow time. Where feasibility hangs on U it is always made anew.
fn reserve(engine: &mut Engine<'_>, scratch: &mut Scratch, job: u32) -> Reservation {
    if let Some(held) = engine.held.filter(|h| h.job == job && engine.placer.is_monotone()) {
        return held;
    }
    let num_gpus = engine.jobs.num_gpus[job as usize];
    let made = Reservation { job, num_gpus, shadow: shadow_time(engine, scratch, num_gpus) };
    engine.held = Some(made);
    made
}

/// The earliest estimated completion at which a gang could be placed if nothing else started.
fn shadow_time(engine: &mut Engine<'_>, scratch: &mut Scratch, num_gpus: u32) -> f64 {
    let Engine { cluster, placer, running, by_end, .. } = engine;
    scratch.probe.copy(cluster);
    let mut ends = by_end.iter().flatten().peekable();
    while let Some(&(end, _, slot)) = ends.next() {
        scratch.probe.give(&running[slot as usize].parts);
        if ends.peek().is_none_or(|next| next.0 != end) && placer.fits(cluster, &scratch.probe, num_gpus) {
            return f64::from_bits(end);
        }
    }
    f64::INFINITY
}
