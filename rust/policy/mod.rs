//! Holds the policies, which decide which jobs start and stop, and when a decision is due. One folder per family.
//!
//! A policy keeps all its state in itself, so that a machine can be cloned. It never moves the clock: it reports when
//! it wants a pass, and the machine calls it then. For example, FIFO wants one at every instant at which a job
//! arrived or left while some job waits.

/// Registers policies in the order of the documentation: each line has the type of one, and how it is made.
macro_rules! policies {
    (|$setting:ident, $speed:ident| $($policy:ty => $make:expr),+ $(,)?) => {
        /// The facts that the policies declare.
        pub(super) const FACTS: &[crate::options::Facts] = &[$(<$policy as crate::options::Named>::FACTS),+];

        /// Hands the policy of the setting's options to a visitor; gives the visitor back if it is none of these.
        pub(super) fn visit<'a, S: crate::speed::Speed, V: crate::policy::Visitor<'a, S>>(
            $setting: &crate::setting::Setting<'a>,
            $speed: &S,
            visitor: V,
        ) -> std::result::Result<V::Output, V> {
            $(if $setting.options.has::<$policy>() {
                return Ok(visitor.visit($setting, $speed.clone(), $make));
            })+
            Err(visitor)
        }
    };
}

mod elastic;
mod job_states;
mod log;
mod lucid;
pub(crate) mod outside;
pub(crate) mod queue;
mod quotas;
mod ranked;
mod recorded;
mod repack;
mod seldom;

use crate::error::Result;
use crate::machine::{Machine, Policy, Watch};
use crate::options::{Facts, Model, Order};
use crate::outcome::ClusterOutcome;
use crate::setting::Setting;
use crate::speed::{FixedSpeed, RingSpeed, Speed, TableSpeed};
use log::Logged;
pub(crate) use outside::Outside;
pub(crate) use queue::{FairQueue, FixedQueue, KeyedQueue, OneLevel, Queued, TwoLevels};
use seldom::Seldom;

/// Does something with the policy of some options, whatever its type.
pub(crate) trait Visitor<'a, S: Speed> {
    type Output;
    fn visit<P: Policy<S> + 'a>(self, setting: &Setting<'a>, speed: S, policy: P) -> Self::Output;
}

/// The policies with a preset that describe themselves, by family, in the order of the documentation.
pub(crate) const FAMILIES: [&[Facts]; 5] =
    [ranked::FACTS, lucid::FACTS, repack::FACTS, elastic::FACTS, recorded::FACTS];

policies! { |setting, speed|
    Logged<'_> => Seldom::Log(Box::new(Logged::new(setting))),
    Outside => Outside::new(setting),
}

/// Hands the policy of the setting's options to a visitor.
pub(crate) fn with_policy<'a, S: Speed, V: Visitor<'a, S>>(setting: &Setting<'a>, speed: S, visitor: V) -> V::Output {
    let preemptive = visit(setting, &speed, visitor)
        .or_else(|visitor| ranked::visit_lists(setting, &speed, visitor))
        .or_else(|visitor| ranked::visit(setting, &speed, visitor))
        .or_else(|visitor| lucid::visit(setting, &speed, visitor))
        .or_else(|visitor| repack::visit(setting, &speed, visitor))
        .or_else(|visitor| elastic::visit(setting, &speed, visitor))
        .or_else(|visitor| recorded::visit(setting, &speed, visitor));
    match preemptive {
        Ok(output) => output,
        Err(visitor) if setting.options.order == Order::Qssf => {
            let policy = Queued::<KeyedQueue<false>>::new(setting, &speed);
            visitor.visit(setting, speed, policy)
        }
        Err(visitor) if setting.options.order == Order::Fairshare => {
            if setting.fair.is_some_and(|fair| fair.users.is_some()) {
                let policy = Queued::<FairQueue<TwoLevels>>::new(setting, &speed);
                return visitor.visit(setting, speed, policy);
            }
            let policy = Queued::<FairQueue<OneLevel>>::new(setting, &speed);
            visitor.visit(setting, speed, policy)
        }
        Err(visitor) => {
            let policy = Queued::<FixedQueue>::new(setting, &speed);
            visitor.visit(setting, speed, policy)
        }
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
/// `Stuck` when nothing can change any more and a job is not done; whatever error the watch returns.
pub(crate) fn run(setting: &Setting<'_>, watch: &mut dyn Watch) -> Result<ClusterOutcome> {
    of_model(setting, ToTheEnd(watch))
}

/// Hands the policy of the setting's options, and the speed of their model, to a visitor.
pub(crate) fn of_model<'a, T, V>(setting: &Setting<'a>, visitor: V) -> T
where
    V: Visitor<'a, RingSpeed, Output = T> + Visitor<'a, FixedSpeed, Output = T> + Visitor<'a, TableSpeed, Output = T>,
{
    match setting.options.model {
        Model::Rar => with_policy(setting, RingSpeed { network: setting.network.clone() }, visitor),
        Model::Fixed => with_policy(setting, FixedSpeed, visitor),
        Model::Table => with_policy(setting, TableSpeed { table: setting.rate_table() }, visitor),
    }
}
