//! What a policy decided: the verbs of a run as data.
//!
//! A log can be written down, replayed, and checked by the reference, whatever policy made it. Invariant: decisions are
//! in the order in which they took effect, and those with several parts have a row each, one after the other. For
//! example, a job that starts on 4 GPUs of each of two servers has two rows of the verb `start`.

use crate::error::{Error, Result};
use crate::ids::{Job, Server};

/// What a policy may do to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// It gets the GPUs of its rows, for the first time or again.
    Start,
    /// It gives its GPUs back, keeps its progress and waits again.
    Stop,
    /// It never runs.
    Refuse,
    /// It goes on at once on the GPUs of its rows instead of those that it holds.
    Move,
    /// It goes on at once on the GPUs of its rows, fewer or more than it holds.
    Resize,
    /// It is over before it is done.
    End,
}

impl Verb {
    /// Every verb, in the order of the documentation.
    pub const ALL: &'static [Self] = &[Self::Start, Self::Stop, Self::Refuse, Self::Move, Self::Resize, Self::End];

    /// Whether its rows say which GPUs.
    #[must_use]
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Start | Self::Move | Self::Resize)
    }

    /// The name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Refuse => "refuse",
            Self::Move => "move",
            Self::Resize => "resize",
            Self::End => "end",
        }
    }
}

/// The server of a decision that has none.
pub const NO_SERVER: u32 = Server::NONE.number();

/// Decisions as columns, a row a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionLog {
    /// When, s; ascending.
    pub time: Vec<f64>,
    /// What.
    pub verb: Vec<Verb>,
    /// The job's row.
    pub job: Vec<u32>,
    /// The server; [`NO_SERVER`] where the verb has none.
    pub server: Vec<u32>,
    /// GPUs there; 0 where the verb has none.
    pub num_gpus: Vec<u32>,
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// When, s.
    pub time: f64,
    /// What.
    pub verb: Verb,
    /// The job.
    pub job: Job,
    /// (server, GPUs); empty where the verb has none.
    pub parts: Vec<(Server, u32)>,
}

impl DecisionLog {
    /// A log of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { time: Vec::new(), verb: Vec::new(), job: Vec::new(), server: Vec::new(), num_gpus: Vec::new() }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.time.len()
    }

    /// Whether nothing was decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.time.is_empty()
    }

    /// Adds a decision.
    pub fn push(&mut self, time: f64, verb: Verb, job: Job, parts: &[(Server, u32)]) {
        let none = [(Server::NONE, 0)];
        for &(server, num_gpus) in if parts.is_empty() { &none[..] } else { parts } {
            self.time.push(time);
            self.verb.push(verb);
            self.job.push(job.number());
            self.server.push(server.number());
            self.num_gpus.push(num_gpus);
        }
    }

    /// Forgets the latest decision if it was that verb for that job at that time: the next one takes its place.
    pub(crate) fn forget(&mut self, time: f64, verb: Verb, job: Job) {
        while self.verb.last() == Some(&verb)
            && self.job.last() == Some(&job.number())
            && self.time.last() == Some(&time)
        {
            self.time.pop();
            self.verb.pop();
            self.job.pop();
            self.server.pop();
            self.num_gpus.pop();
        }
    }

    /// The decision whose rows begin at `row`, and where the next one's do.
    ///
    /// Rows of one start, move or resize are neighbours of the same time and job on servers that ascend.
    #[must_use]
    pub fn decision(&self, row: usize) -> Option<(Decision, usize)> {
        let (&time, &verb, &job) = (self.time.get(row)?, self.verb.get(row)?, self.job.get(row)?);
        let mut parts = Vec::new();
        let mut at = row;
        while at < self.len()
            && (self.verb[at], self.job[at], self.time[at].to_bits()) == (verb, job, time.to_bits())
            && (at == row || (verb.has_parts() && self.server[at] > self.server[at - 1]))
        {
            if verb.has_parts() {
                parts.push((Server::new(self.server[at]), self.num_gpus[at]));
            }
            at += 1;
        }
        Some((Decision { time, verb, job: Job::new(job), parts }, at))
    }

    /// Checks lengths and values against a table of `jobs` rows and a cluster of `servers`.
    ///
    /// # Errors
    /// `ColumnLength`, or `Decision` for the first row at fault.
    pub fn validate(&self, jobs: usize, servers: usize) -> Result<()> {
        let n = self.len();
        let lengths = [
            ("verb", self.verb.len()),
            ("job", self.job.len()),
            ("server", self.server.len()),
            ("num_gpus", self.num_gpus.len()),
        ];
        for (column, length) in lengths {
            if length != n {
                return Err(Error::ColumnLength { column, length, expected: n });
            }
        }
        for at in 0..n {
            let why = if self.job[at] as usize >= jobs {
                "the table has no such job".to_owned()
            } else if !(self.time[at].is_finite() && self.time[at] >= 0.0) {
                format!("time {:?} is no finite time >= 0", self.time[at])
            } else if at > 0 && self.time[at] < self.time[at - 1] {
                "it comes before the decision above it".to_owned()
            } else if self.verb[at].has_parts() && (self.server[at] as usize >= servers || self.num_gpus[at] == 0) {
                "a verb with GPUs names servers of the cluster, with one GPU or more on each".to_owned()
            } else {
                continue;
            };
            return Err(Error::Decision {
                row: self.job[at] as usize,
                verb: self.verb[at].name(),
                time: self.time[at],
                why,
                at: Some(at),
            });
        }
        Ok(())
    }
}
