//! Who decides: which jobs start and stop, and when a decision is due. A family of policies is a folder.
//!
//! A policy keeps all its state in itself, so that a machine can be cloned. It never moves the clock: it says when it
//! wants a pass, and the machine calls it then. For example, FIFO wants one at every instant at which a job came or
//! went and somebody waits.

mod elastic;
mod log;
pub(crate) mod outside;
pub(crate) mod queue;
mod quotas;
mod ranked;
mod repack;
mod roster;

use crate::error::Result;
use crate::machine::{Machine, Policy, Watch};
use crate::options::{Model, Order, Predict, Preemption};
use crate::outcome::ClusterOutcome;
use crate::setting::Setting;
use crate::speed::{FixedSpeed, RingSpeed, Speed, TableSpeed};
use elastic::{Afs, ElasticFlow, ElasticSrtf, Optimus, Resizing};
use log::Logged;
pub(crate) use outside::Outside;
pub(crate) use queue::{FixedLine, KeyedLine, Queued};
use ranked::{Edf, Ftf, Gittins, Ranked, Srtf, TimeSlice, Tiresias};
use repack::{Exact, History, Repack};

/// Does something with the policy of some options, whatever its type is.
pub(crate) trait Visitor<'a, S: Speed> {
    type Output;
    fn visit<P: Policy<S> + 'a>(self, setting: &Setting<'a>, speed: S, policy: P) -> Self::Output;
}

/// Hands the policy of the setting's options to a visitor. A new policy is a line here.
pub(crate) fn with_policy<'a, S: Speed, V: Visitor<'a, S>>(setting: &Setting<'a>, speed: S, visitor: V) -> V::Output {
    let options = setting.options;
    match options.preemption {
        Preemption::None if options.order == Order::Qssf => {
            let policy = Queued::<KeyedLine<false>>::new(setting, &speed);
            visitor.visit(setting, speed, policy)
        }
        Preemption::None => {
            let policy = Queued::<FixedLine>::new(setting, &speed);
            visitor.visit(setting, speed, policy)
        }
        Preemption::Srtf => visitor.visit(setting, speed, Ranked::new(setting, Srtf)),
        Preemption::Tiresias => visitor.visit(setting, speed, Ranked::new(setting, Tiresias::new(options))),
        Preemption::Gittins => visitor.visit(setting, speed, Ranked::new(setting, Gittins::new(options))),
        Preemption::Ftf => {
            let ftf = Ftf::new(setting, &speed);
            visitor.visit(setting, speed, Ranked::new(setting, ftf))
        }
        Preemption::Edf => visitor.visit(setting, speed, Ranked::new(setting, Edf::new(setting))),
        Preemption::Repack if options.predict == Predict::Exact => {
            visitor.visit(setting, speed, Repack::new(setting, Exact::new(setting)))
        }
        Preemption::Repack => visitor.visit(setting, speed, Repack::new(setting, History::new(setting))),
        Preemption::Afs => visitor.visit(setting, speed, Resizing::new(setting, Afs)),
        Preemption::Optimus => visitor.visit(setting, speed, Resizing::new(setting, Optimus)),
        Preemption::ElasticSrtf => visitor.visit(setting, speed, Resizing::new(setting, ElasticSrtf)),
        Preemption::ElasticFlow => visitor.visit(setting, speed, Resizing::new(setting, ElasticFlow::new(setting))),
        Preemption::Outside => visitor.visit(setting, speed, Outside::new(setting)),
        Preemption::Log => visitor.visit(setting, speed, Logged::new(setting)),
        Preemption::TimeSlice => visitor.visit(setting, speed, Ranked::new(setting, TimeSlice::new(setting))),
    }
}

/// Runs to the end.
struct ToTheEnd<'w>(&'w mut dyn Watch);

impl<'a, S: Speed> Visitor<'a, S> for ToTheEnd<'_> {
    type Output = Result<ClusterOutcome>;

    fn visit<P: Policy<S> + 'a>(self, setting: &Setting<'a>, speed: S, policy: P) -> Self::Output {
        let mut machine = Machine::new(setting, speed, policy);
        machine.run(f64::INFINITY, self.0)?;
        Ok(machine.into_outcome())
    }
}

/// Replays every job of a cluster.
///
/// # Errors
/// `Stuck` when nothing can change any more and a job is not done; what the watch says.
pub(crate) fn run(setting: &Setting<'_>, watch: &mut dyn Watch) -> Result<ClusterOutcome> {
    match setting.options.model {
        Model::Rar => with_policy(setting, RingSpeed { network: setting.network }, ToTheEnd(watch)),
        Model::Fixed => with_policy(setting, FixedSpeed, ToTheEnd(watch)),
        Model::Table => with_policy(setting, TableSpeed { table: setting.rate_table() }, ToTheEnd(watch)),
    }
}
