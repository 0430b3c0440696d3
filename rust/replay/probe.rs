//! Repeats a run up to the given instants, and no further, to explain why a job waited.
//!
//! Invariant: the run is that of a replay up to the last of these instants, and nothing is kept of the others. For
//! example, for two waits the run stops four times: as each begins, and just before it ends.

use super::{ClusterSpec, Extras, Ready, in_part, prepare};
use crate::error::Result;
use crate::machine::{Machine, Pause, Policy, WaitExplanation, Watch, until};
use crate::options::Options;
use crate::policy::{Visitor, of_model};
use crate::setting::Setting;
use crate::speed::Speed;
use crate::trace::{Jobs, OwnedTypes};
use std::collections::BTreeMap;

/// A wait of a job: from when until when, s, and whether to report which jobs were at the head of the queue
/// meanwhile.
pub type Wait = (f64, f64, bool);

/// What is known about a wait: as it began, just before it was over, and for how long, s, which row was at the head
/// of the queue.
pub type Told = (WaitExplanation, WaitExplanation, Vec<(u32, f64)>);

/// Explains some waits of the job of a row, in their order; `None` if the job is in no run, because nothing could
/// ever hold it.
///
/// # Errors
/// As [`replay_with`](super::replay_with), for the job's virtual cluster.
pub fn probe(
    jobs: &Jobs<'_>,
    extras: &Extras<'_>,
    vc: Option<&[u32]>,
    spec: &ClusterSpec<'_>,
    options: &Options,
    (row, waits): (u32, &[Wait]),
    watch: &mut dyn Watch,
) -> Result<Option<Vec<Told>>> {
    let Ready { parts, types, .. } = prepare(jobs, extras, vc, spec, options)?;
    let jobs = &Jobs { types: types.as_ref().map(OwnedTypes::view), ..*jobs };
    let mut all = parts.iter().enumerate();
    let Some((part, at)) = all.find_map(|part| Some((part, part.1.rows.iter().position(|&own| own == row)?))) else {
        return Ok(None);
    };
    let probe = Probe { job: crate::ids::Job::at(at), servers: &part.1.servers, waits, watch };
    in_part(jobs, extras, part, options, |setting| of_model(setting, probe)).map(Some)
}

struct Probe<'w> {
    job: crate::ids::Job,
    servers: &'w [u32],
    waits: &'w [Wait],
    watch: &'w mut dyn Watch,
}

impl<'a, S: Speed> Visitor<'a, S> for Probe<'_> {
    type Output = Result<Vec<Told>>;

    fn visit<P: Policy<S> + 'a>(self, setting: &Setting<'a>, speed: S, policy: P) -> Self::Output {
        let mut machine = Machine::new(setting, speed, policy);
        let clock = machine.state.clock;
        let mut answers = Vec::with_capacity(self.waits.len());
        for &(since, start, heads) in self.waits {
            machine.run(until(clock, since, false), self.watch)?;
            let begun = machine.ask(self.job, self.servers, None);
            let mut seconds: BTreeMap<u32, f64> = BTreeMap::new();
            let (mut from, mut head) = (since, machine.head_beside(self.job));
            let mut pass = |head: Option<u32>, from: f64, to: f64| {
                if let Some(head) = head {
                    *seconds.entry(head).or_default() += to - from;
                }
            };
            machine.halts = heads;
            while machine.run(until(clock, start, true), self.watch)? == Pause::Halted {
                let next = machine.head_beside(self.job);
                if next != head {
                    pass(head, from, machine.state.seconds());
                    (from, head) = (machine.state.seconds(), next);
                }
            }
            pass(head.filter(|_| heads), from, start);
            machine.halts = false;
            answers.push((begun, machine.ask(self.job, self.servers, None), seconds.into_iter().collect()));
        }
        Ok(answers)
    }
}
