//! Records what happened in a run as data: the decisions of its policy and the actions of the machine.
//!
//! A log can be written, followed, and checked by the reference model, for any policy. Invariant: rows are in the order
//! in which they took effect, and a decision with several parts has one row for each, next to one another. For example,
//! a job that starts on 4 GPUs of each of two servers has two rows of the verb `start`.

use crate::error::{Error, Result};
use crate::ids::{Job, Server};

/// What may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A job gets the GPUs of its rows, for the first time or again.
    Start,
    /// It gives its GPUs back, keeps its progress and waits again.
    Stop,
    /// It never runs.
    Refuse,
    /// It continues at once on the GPUs of its rows instead of those that it holds.
    Move,
    /// It continues at once on the GPUs of its rows, fewer or more than it holds.
    Resize,
    /// It is over before it is done.
    End,
    /// It gives its GPUs back to another job, or to a service, keeps its progress and waits again.
    Evicted,
    /// It loses its GPUs to a server failure, and the progress since its last checkpoint.
    Failed,
    /// It is at a rung: it continues, pauses or is over.
    Rung,
    /// A replica of a service begins or ends.
    Replica,
    /// A server comes back.
    Up,
    /// A server goes down.
    Down,
    /// A server begins to drain.
    Drain,
}

impl Verb {
    /// Every verb, in the order of the documentation.
    pub const ALL: &'static [Self] = &[
        Self::Start,
        Self::Stop,
        Self::Refuse,
        Self::Move,
        Self::Resize,
        Self::End,
        Self::Evicted,
        Self::Failed,
        Self::Rung,
        Self::Replica,
        Self::Up,
        Self::Down,
        Self::Drain,
    ];

    /// Returns whether its rows give the GPUs that a job holds from then on.
    #[must_use]
    pub fn has_parts(self) -> bool {
        matches!(self, Self::Start | Self::Move | Self::Resize)
    }

    /// Returns whether it concerns a server, not a job.
    #[must_use]
    pub fn is_of_server(self) -> bool {
        matches!(self, Self::Replica | Self::Up | Self::Down | Self::Drain)
    }

    /// Returns the name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Refuse => "refuse",
            Self::Move => "move",
            Self::Resize => "resize",
            Self::End => "end",
            Self::Evicted => "evicted",
            Self::Failed => "failed",
            Self::Rung => "rung",
            Self::Replica => "replica",
            Self::Up => "up",
            Self::Down => "down",
            Self::Drain => "drain",
        }
    }
}

/// Why something happened, or its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// There is nothing to add.
    #[default]
    None,
    /// A replica ends because its service wants fewer.
    Surplus,
    /// A replica ends with its server.
    Failed,
    /// A trial continues from a rung.
    WentOn,
    /// A trial waits at a rung.
    Paused,
    /// A trial is over at a rung.
    Ended,
    /// A job is refused when it arrives, before replicas take GPUs and before the pass.
    OnArrival,
    /// A job is moved after those in the rows above, or resized once more, in the same pass.
    After,
    /// A replica begins to drain.
    Drains,
}

impl Cause {
    /// Every cause.
    pub const ALL: &'static [Self] = &[
        Self::None,
        Self::Surplus,
        Self::Failed,
        Self::WentOn,
        Self::Paused,
        Self::Ended,
        Self::OnArrival,
        Self::After,
        Self::Drains,
    ];

    /// Returns the name in tables; empty if there is nothing to add.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Surplus => "surplus",
            Self::Failed => "failed",
            Self::WentOn => "went on",
            Self::Paused => "paused",
            Self::Ended => "ended",
            Self::OnArrival => "on arrival",
            Self::After => "after the one above",
            Self::Drains => "drains",
        }
    }
}

/// Stands for no server, job, GPU or service in a row.
pub const NONE: u32 = u32::MAX;

/// A row of a log: one part of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Time, s.
    pub time: f64,
    /// What happened.
    pub verb: Verb,
    /// The job's row in the table.
    pub job: u32,
    /// The server.
    pub server: u32,
    /// GPUs there; 0 where the verb has none.
    pub num_gpus: u32,
    /// Which GPU of the server, where jobs may hold shares.
    pub gpu: u32,
    /// The job on whose GPUs a job starts, as a row of the table.
    pub beside: u32,
    /// What caused it: the row of the evicting job, or of the outage.
    pub by: u32,
    /// The service that evicts, or whose replica it is.
    pub service: u32,
    /// Which replica of its service, in order of their starts, from 0.
    pub replica: u32,
    /// Why, or its result.
    pub cause: Cause,
    /// The pass of a decision at an instant with several passes, from 0.
    pub pass: u32,
}

impl Row {
    /// Returns a row with only a time and a verb.
    #[must_use]
    pub fn of(time: f64, verb: Verb) -> Self {
        Self {
            time,
            verb,
            job: NONE,
            server: NONE,
            num_gpus: 0,
            gpu: NONE,
            beside: NONE,
            by: NONE,
            service: NONE,
            replica: NONE,
            cause: Cause::None,
            pass: 0,
        }
    }

    /// Returns the key by which the parts of one decision ascend.
    fn place(&self) -> (u32, u32) {
        (self.server, self.gpu)
    }
}

/// A log: rows in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionLog {
    /// One row per part; times ascend.
    pub rows: Vec<Row>,
    /// Whether no stay could end before its job was done in the recorded run.
    pub runs_through: bool,
}

/// One decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its first row.
    pub row: Row,
    /// The job.
    pub job: Job,
    /// (server, GPUs), servers ascending; empty where the verb has none.
    pub parts: Vec<(Server, u32)>,
    /// (server, index of the GPU there), where the log names GPUs.
    pub gpus: Vec<(Server, u32)>,
}

impl DecisionLog {
    /// Returns an empty log.
    #[must_use]
    pub const fn new() -> Self {
        Self { rows: Vec::new(), runs_through: false }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether nothing happened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns whether it has a row of a verb.
    #[must_use]
    pub fn has(&self, verb: Verb) -> bool {
        self.rows.iter().any(|row| row.verb == verb)
    }

    /// Adds a decision about a job: (server, GPUs).
    pub fn push(&mut self, time: f64, verb: Verb, job: Job, parts: &[(Server, u32)]) {
        let row = Row { job: job.number(), ..Row::of(time, verb) };
        self.push_parts(row, parts);
    }

    /// Adds a row for each of (server, GPUs), or the row itself where there is none.
    pub(crate) fn push_parts(&mut self, row: Row, parts: &[(Server, u32)]) {
        if parts.is_empty() {
            self.rows.push(row);
        }
        let of = |&(server, num_gpus): &(Server, u32)| Row { server: server.number(), num_gpus, ..row };
        self.rows.extend(parts.iter().map(of));
    }

    /// Adds a row for each GPU: (server, index of it there).
    pub(crate) fn push_gpus(&mut self, row: Row, gpus: &[(Server, u32)]) {
        let of = |&(server, gpu): &(Server, u32)| Row { server: server.number(), gpu, num_gpus: 1, ..row };
        self.rows.extend(gpus.iter().map(of));
    }

    /// Returns the decision whose rows begin at `at`, and where the next one's begin.
    ///
    /// Rows of one start, move or resize are adjacent, of the same time and job, on ascending servers or GPUs.
    #[must_use]
    pub fn decision(&self, at: usize) -> Option<(Decision, usize)> {
        let row = *self.rows.get(at)?;
        let mut decision = Decision { row, job: Job::new(row.job), parts: Vec::new(), gpus: Vec::new() };
        if !row.verb.has_parts() {
            return Some((decision, at + 1));
        }
        let same = |other: &Row| (other.verb, other.job, other.time.to_bits(), other.pass, other.cause);
        let mut next = at;
        while let Some(part) = self.rows.get(next)
            && same(part) == same(&row)
            && (next == at || part.place() > self.rows[next - 1].place())
        {
            let server = Server::new(part.server);
            match decision.parts.last_mut() {
                Some(last) if last.0 == server => last.1 += part.num_gpus,
                _ => decision.parts.push((server, part.num_gpus)),
            }
            if part.gpu != NONE {
                decision.gpus.push((server, part.gpu));
            }
            next += 1;
        }
        Some((decision, next))
    }

    /// Checks values against a table of `jobs` rows and a cluster of `servers`.
    ///
    /// # Errors
    /// `Decision` for the first offending row.
    pub fn validate(&self, jobs: usize, servers: usize) -> Result<()> {
        let mut before = 0.0;
        for (at, row) in self.rows.iter().enumerate() {
            let has_server = (row.server as usize) < servers;
            let why = if !row.verb.is_of_server() && row.job as usize >= jobs {
                "the table has no such job".to_owned()
            } else if !(row.time.is_finite() && row.time >= 0.0) {
                format!("time {:?} is no finite time >= 0", row.time)
            } else if row.time < before {
                "it comes before the decision above it".to_owned()
            } else if row.verb.has_parts() && !(has_server && row.num_gpus > 0) {
                "a verb with GPUs names servers of the cluster, with one GPU or more on each".to_owned()
            } else if row.verb.is_of_server() && !has_server {
                "it names a server of the cluster".to_owned()
            } else if row.verb == Verb::Replica && (row.service == NONE || row.replica == NONE) {
                "a replica has its service and its number there".to_owned()
            } else if row.verb == Verb::Evicted && row.service == NONE && row.by as usize >= jobs {
                "an eviction names the job, or the service, that gets the GPUs".to_owned()
            } else if row.beside != NONE && row.beside as usize >= jobs {
                "it starts beside a job that the table does not have".to_owned()
            } else {
                before = row.time;
                continue;
            };
            let (verb, time) = (row.verb.name(), row.time);
            return Err(Error::Decision { row: row.job as usize, verb, time, why, at: Some(at) });
        }
        Ok(())
    }
}
