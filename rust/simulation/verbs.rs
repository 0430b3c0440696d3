//! The verbs of a course: start, stop, move, resize, refuse and end jobs; keys and rankings.
//!
//! Invariant: a verb that cannot be carried out changes nothing, and reports for which row and why. For example, a
//! start on GPUs that are not idle leaves the job waiting.

use super::{Course, Paused};
use crate::decisions::Verb;
use crate::ids::{GpuType, Job, Server};
use crate::machine::WaitExplanation;
use crate::options::Placement;
use std::sync::Arc;

/// Does something with a machine whose decisions come from outside; the others have no verbs.
macro_rules! outside {
    ($paused:expr, $machine:ident => $value:expr) => {
        match $paused {
            Paused::Ring($machine) => Some($value),
            Paused::Fixed($machine) => Some($value),
            Paused::Table($machine) => Some($value),
            Paused::KeyedRing(_) | Paused::KeyedFixed(_) | Paused::KeyedTable(_) => None,
        }
    };
}

/// A verb that cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The job's row.
    pub row: u32,
    /// The verb's name.
    pub verb: &'static str,
    /// Why it cannot be carried out.
    pub why: String,
}

/// A start of one of several: (row, place, GPU type, GPUs), the place as (server, GPUs).
pub type StartAt = (u32, Vec<(u32, u32)>, Option<u32>, Option<u32>);

impl Course {
    /// Returns the jobs of rows.
    fn jobs_of(&self, rows: &[u32], verb: Verb) -> std::result::Result<Vec<Job>, Refused> {
        let of = |&row: &u32| {
            let why = "it is not a job of this table, or of this virtual cluster, or it was left out";
            self.job(row).ok_or_else(|| Refused { row, verb: verb.name(), why: why.to_owned() })
        };
        rows.iter().map(of).collect()
    }

    /// Returns parts with this cluster's own server numbers.
    fn own(&self, row: u32, verb: Verb, parts: &[(u32, u32)]) -> std::result::Result<Vec<(Server, u32)>, Refused> {
        let of = |&(server, count): &(u32, u32)| {
            let own = self.inputs.server_of.get(server as usize).copied().filter(|&own| own != Server::NONE);
            let why = || format!("there is no server {server} in its cluster");
            own.map(|own| (own, count)).ok_or_else(|| Refused { row, verb: verb.name(), why: why() })
        };
        parts.iter().map(of).collect()
    }

    /// Does something with a machine whose decisions come from outside.
    fn act<T: Default + 'static>(
        &mut self,
        verb: Verb,
        act: impl FnOnce(&mut Paused<'_>) -> Option<std::result::Result<T, (Job, Verb, String)>> + 'static,
    ) -> std::result::Result<T, Refused> {
        let done = self.machine.with_mut_return(|paused| {
            outside!(paused, machine => machine.hold());
            act(paused)
        });
        let refused = |(job, verb, why): (Job, Verb, String)| Refused {
            row: self.inputs.rows.get(job.index()).copied().unwrap_or(job.number()),
            verb: verb.name(),
            why,
        };
        match done {
            Some(result) => result.map_err(refused),
            None => Err(refused((Job::at(0), verb, "this run has a queue of its own".to_owned()))),
        }
    }

    /// Starts waiting jobs, in the order given, by a placement, on `gpus` GPUs each or on what they ask for, of a GPU
    /// type or of the first that can place them. Returns how many.
    ///
    /// # Errors
    /// A job that does not wait, or may not hold so many GPUs; then nothing has changed.
    pub fn start(
        &mut self,
        rows: &[u32],
        gpus: Option<u32>,
        gpu_type: Option<u32>,
        placement: Option<Placement>,
        strict: bool,
    ) -> std::result::Result<usize, Refused> {
        let jobs = self.jobs_of(rows, Verb::Start)?;
        // Where all GPUs are alike to every job, any type will do.
        let gpu_type = gpu_type.filter(|_| self.inputs.server_types.is_some()).map(GpuType::new);
        self.act(Verb::Start, move |paused| {
            outside!(paused, machine => {
                machine.policy.start(&mut machine.state, &jobs, gpus, gpu_type, placement, strict)
            })
        })
    }

    /// Starts a waiting job on given GPUs: (server, GPUs).
    ///
    /// # Errors
    /// A job that does not wait, or GPUs that are not idle; then nothing has changed.
    pub fn start_on(&mut self, row: u32, parts: &[(u32, u32)]) -> std::result::Result<(), Refused> {
        let job = self.jobs_of(&[row], Verb::Start)?[0];
        let parts = self.own(row, Verb::Start, parts)?;
        self.act(
            Verb::Start,
            move |paused| outside!(paused, machine => machine.policy.start_on(&mut machine.state, job, &parts)),
        )
    }

    /// Starts a waiting job on the GPUs of a running one, beside it.
    ///
    /// # Errors
    /// A job that does not wait, or may not share those GPUs; then nothing has changed.
    pub fn start_beside(&mut self, row: u32, other: u32) -> std::result::Result<(), Refused> {
        let job = self.jobs_of(&[row], Verb::Start)?[0];
        let other = self.jobs_of(&[other], Verb::Start)?[0];
        self.act(
            Verb::Start,
            move |paused| outside!(paused, machine => machine.policy.start_beside(&mut machine.state, job, other)),
        )
    }

    /// Returns the rows on the GPUs of a running one, in the order in which they started; none where no decision comes
    /// from outside.
    #[must_use]
    pub fn beside(&self, row: u32) -> Vec<u32> {
        let Some(job) = self.job(row) else { return Vec::new() };
        let found = outside!(self.machine.get(), machine => machine.policy.beside(&machine.state, job));
        self.rows(found.unwrap_or_default().into_iter())
    }

    /// Returns the rates of two rows on the same GPUs, as fractions of those alone, should the first start beside the
    /// other; `None` for rows of different virtual clusters.
    #[must_use]
    pub fn pair(&self, row: u32, other: u32) -> Option<[f64; 2]> {
        let (job, other) = (self.job(row)?, self.job(other)?);
        outside!(self.machine.get(), machine => machine.policy.pair(&machine.state, job, other))
    }

    /// Starts waiting jobs in turn: each on its place if that is idle, else where the placement puts it. Returns which of
    /// them ran then. `strict`: the first that finds no GPUs is the last that is tried.
    ///
    /// # Errors
    /// As `start` and `start_on`; those before it have started.
    pub fn start_each(&mut self, starts: &[StartAt], strict: bool) -> std::result::Result<Vec<bool>, Refused> {
        let mut ran = Vec::with_capacity(starts.len());
        for (row, place, gpu_type, gpus) in starts {
            let own = self.own(*row, Verb::Start, place)?;
            let is_idle = each!(self.machine.get(), machine => {
                own.iter().all(|&(server, count)| machine.state.cluster.idle(server) >= count)
            });
            let found = if is_idle && !own.is_empty() {
                self.start_on(*row, place).map(|()| true)?
            } else {
                self.start(&[*row], *gpus, *gpu_type, None, true)? == 1
            };
            ran.push(found);
            if strict && !found {
                break;
            }
        }
        Ok(ran)
    }

    /// Starts a waiting job on given GPUs, or on a share of one: (server, index of the GPU there). Where jobs may
    /// hold shares.
    ///
    /// # Errors
    /// A job that does not wait, or GPUs that have no room; then nothing has changed.
    pub fn start_on_gpus(&mut self, row: u32, gpus: &[(u32, u32)]) -> std::result::Result<(), Refused> {
        let job = self.jobs_of(&[row], Verb::Start)?[0];
        let gpus = self.own(row, Verb::Start, gpus)?;
        self.act(
            Verb::Start,
            move |paused| outside!(paused, machine => machine.policy.start_on_gpus(&mut machine.state, job, &gpus)),
        )
    }

    /// Starts a waiting job that cannot be placed by evicting others. Returns whether that was possible.
    ///
    /// # Errors
    /// A job that does not wait, or whose owner holds too much; then nothing has changed.
    pub fn evict_for(&mut self, row: u32) -> std::result::Result<bool, Refused> {
        let job = self.jobs_of(&[row], Verb::Start)?[0];
        self.act(
            Verb::Start,
            move |paused| outside!(paused, machine => machine.policy.evict_for(&mut machine.state, job)),
        )
    }

    /// Stops running jobs.
    ///
    /// # Errors
    /// A job that does not run; then nothing has changed.
    pub fn stop(&mut self, rows: &[u32]) -> std::result::Result<(), Refused> {
        let jobs = self.jobs_of(rows, Verb::Stop)?;
        self.act(Verb::Stop, move |paused| outside!(paused, machine => machine.policy.stop(&mut machine.state, &jobs)))
    }

    /// Moves running jobs to other GPUs; all give theirs back first.
    ///
    /// # Errors
    /// A job that does not run, or GPUs that are not idle then; then nothing has changed.
    pub fn shift(&mut self, moves: &[(u32, Vec<(u32, u32)>)]) -> std::result::Result<(), Refused> {
        let rows: Vec<u32> = moves.iter().map(|&(row, _)| row).collect();
        let jobs = self.jobs_of(&rows, Verb::Move)?;
        let mut own = Vec::with_capacity(moves.len());
        for (job, (row, parts)) in jobs.into_iter().zip(moves) {
            own.push((job, self.own(*row, Verb::Move, parts)?));
        }
        self.act(Verb::Move, move |paused| outside!(paused, machine => machine.policy.shift(&mut machine.state, &own)))
    }

    /// Gives a running job another number of GPUs, where the run's placement puts them; its own count as idle.
    ///
    /// # Errors
    /// A job that does not run, or may not hold so many, or finds no room; then nothing has changed.
    pub fn resize(&mut self, row: u32, gpus: u32) -> std::result::Result<(), Refused> {
        let job = self.jobs_of(&[row], Verb::Resize)?[0];
        self.act(
            Verb::Resize,
            move |paused| outside!(paused, machine => machine.policy.resize(&mut machine.state, job, gpus)),
        )
    }

    /// Ends jobs that run, or have run, before they are done.
    ///
    /// # Errors
    /// A job that has never run, or is over; then nothing has changed.
    pub fn end(&mut self, rows: &[u32]) -> std::result::Result<(), Refused> {
        let jobs = self.jobs_of(rows, Verb::End)?;
        self.act(Verb::End, move |paused| outside!(paused, machine => machine.policy.end(&mut machine.state, &jobs)))
    }

    /// Refuses waiting jobs that never ran.
    ///
    /// # Errors
    /// A job that does not wait, or has run; then nothing has changed.
    pub fn refuse(&mut self, rows: &[u32]) -> std::result::Result<(), Refused> {
        let jobs = self.jobs_of(rows, Verb::Refuse)?;
        self.act(
            Verb::Refuse,
            move |paused| outside!(paused, machine => machine.policy.refuse(&mut machine.state, &jobs)),
        )
    }

    /// Makes decisions due at the multiples of so many seconds from now on, or at every change.
    pub fn set_interval(&mut self, interval: Option<f64>) {
        self.machine.with_mut(move |paused| {
            outside!(paused, machine => machine.policy.set_interval(interval));
        });
    }

    /// Requests a decision at a time, s. Returns whether it is in the future.
    pub fn wake(&mut self, time: f64) -> bool {
        self.machine.with_mut_return(move |paused| {
            outside!(paused, machine => {
                machine.hold();
                let (clock, now) = (machine.state.clock, machine.state.now);
                machine.policy.wake_at(clock, now, time)
            })
            .unwrap_or(false)
        })
    }

    /// Carries out a ranking of jobs: the least key first, ties fifo.
    ///
    /// # Errors
    /// A row that neither waits nor runs.
    pub fn rank(&mut self, rows: &[u32], keys: &[f64], preemptive: bool) -> std::result::Result<(), Refused> {
        let jobs = self.jobs_of(rows, Verb::Start)?;
        let keys = keys.to_vec();
        self.act(Verb::Start, move |paused| {
            outside!(paused, machine => {
                machine.policy.rank(&mut machine.state, &jobs, &keys, preemptive);
                Ok(())
            })
        })
    }

    /// Returns the state of a row's waiting job. keys: those by which its policy now ranks rows, if it does, and
    /// whether it stops jobs by that.
    pub fn ask(&mut self, row: u32, keys: Option<(&[u32], &[f64], bool)>) -> Option<WaitExplanation> {
        let job = self.job(row)?;
        let ranked = keys.map(|(rows, keys, preemptive)| {
            let jobs: Vec<Job> = rows.iter().filter_map(|&row| self.job(row)).collect();
            (jobs, keys.to_vec(), preemptive)
        });
        let inputs = Arc::clone(&self.inputs);
        self.machine.with_mut_return(move |paused| {
            let line = outside!(paused, machine => {
                let line = |(jobs, keys, stops): (Vec<Job>, Vec<f64>, bool)| {
                    machine.policy.line(&machine.state, &jobs, &keys, stops)
                };
                ranked.map(line)
            });
            each!(paused, machine => Some(machine.ask(job, &inputs.servers, line.flatten())))
        })
    }

    /// Returns the rows of the jobs that have arrived and whose key is not yet known.
    #[must_use]
    pub fn unkeyed(&self) -> Vec<u32> {
        match self.machine.get() {
            Paused::KeyedRing(machine) => self.rows(machine.policy.unkeyed().iter().copied()),
            Paused::KeyedFixed(machine) => self.rows(machine.policy.unkeyed().iter().copied()),
            Paused::KeyedTable(machine) => self.rows(machine.policy.unkeyed().iter().copied()),
            _ => Vec::new(),
        }
    }

    /// Gives those jobs their keys.
    pub fn give_keys(&mut self, keys: &[f64]) {
        let keys = keys.to_vec();
        self.machine.with_mut(move |paused| match paused {
            Paused::KeyedRing(machine) => machine.policy.give_keys(&machine.state, &keys),
            Paused::KeyedFixed(machine) => machine.policy.give_keys(&machine.state, &keys),
            Paused::KeyedTable(machine) => machine.policy.give_keys(&machine.state, &keys),
            _ => {}
        });
    }
}
