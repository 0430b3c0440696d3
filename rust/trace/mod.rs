//! Defines what is replayed: the job table as columns, borrowed from the caller and never changed.

mod chains;
mod columns;
mod fair;
mod forms;
mod jobs;
mod outages;
mod pairing;
mod quotas;
mod rates;
mod recorded;
mod services;
mod side_tables;
mod trials;
mod types;

pub use chains::{Chains, NO_ROW, OwnedChains};
#[cfg(feature = "python")]
pub(crate) use columns::job_columns;
pub use columns::{Column, Columns, MAX_ITERATIONS, TABLE, Value, Values};
pub use fair::{FairShares, FairUsers};
pub use forms::{Form, Forms, OwnedForms};
pub use jobs::{Demand, Jobs, Noise, OwnedJobs, OwnedNoise, OwnedRange, Range};
pub use outages::Outage;
pub(crate) use outages::{check_outages, merged};
pub use pairing::{Beside, OwnedPairing, PairFacts, PairRow, Pairing};
pub use quotas::{OwnedQuotas, Quota, Quotas};
pub use rates::{OwnedRates, Pair, RateTable, Rates};
pub use recorded::Recorded;
pub use services::{Load, Services};
pub use side_tables::{OwnedSideTables, SideTables};
pub use trials::{NO_SEARCH, OwnedTrials, Trials};
pub use types::{Kind, OwnedTypes, Types};
