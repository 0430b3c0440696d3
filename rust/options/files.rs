//! The options of a replay that are files, which the caller reads, and what belongs to them alone.
//!
//! The engine never sees these options. `commands` of `table` has their places among the others.

use super::table::{EXECUTION, FAIRNESS, LIMITS, OUTAGES as OUTAGE_PANEL, SERVICES as SERVICE_PANEL};
use super::{Entry, Order, Users};

pub(super) const TABLES: Entry = Entry::file("tables", "a Parquet or CSV file, or a frame, of measured speeds")
    .form("FILE")
    .panel(EXECUTION)
    .help("Model table: a file of measured speeds. Columns: model, gpu_type, gpus, servers, rate (docs/tables.md).");
pub(super) const OUTAGES: Entry = Entry::file("outages", "a Parquet or CSV file, or a frame, of outages")
    .form("FILE|draw:...")
    .panel(OUTAGE_PANEL)
    .help("When servers are down, or drain. A file has the columns server, down_at, up_at, cause, kind; server may be a range such as 0-3, or a name of the cluster file, and a column called as a tier may name a group in its place; kind is down, or drain: jobs there run on, and no other starts. draw:mtbf=42d,mttr=2h[,seed=N|run][,tier=NAME] draws failures until the last job ends, with the run's seed by default.");
pub(super) const MAINTENANCE: Entry = Entry::file("maintenance", "a Parquet or CSV file, or a frame, of maintenance")
    .form("FILE")
    .panel(OUTAGE_PANEL)
    .help("When servers will be down, announced ahead; same columns as --outages. Orders, srtf and srsf start no job that would, by its estimate, still run then. For other policies it is an outage (docs/operators.md#maintenance).");
pub(super) const QUOTA: Entry = Entry::files("quota", "Parquet or CSV files, or frames, of quotas")
    .form("FILE")
    .panel(LIMITS)
    .help("GPUs that each owner's jobs may hold together. Columns: the owner, as a column of JOBS such as user, account or array; gpus; borrow. Repeatable: a job must be within every file (docs/priorities.md#quotas).");
pub(super) const SERVICES: Entry = Entry::file("services", "a Parquet or CSV file, or a frame, of services")
    .form("FILE")
    .panel(SERVICE_PANEL)
    .help("Replicas each service needs over time. Columns: service, time, replicas, gpus_per_replica. With --requests, a TOML file: a table for each service says how its replicas answer (docs/serving.md).");
pub(super) const REQUESTS: Entry = Entry::file("requests", "a Parquet or CSV file, or a frame, of requests")
    .form("FILE")
    .panel(SERVICE_PANEL)
    .help("Requests that the services answer: latency, TTFT, TPOT, attainment of SLOs. Columns: service, arrival, input_tokens, output_tokens, cached_tokens; Azure's and BurstGPT's traces are read as they are. Needs --services FILE.toml (docs/serving.md).");
pub(super) const FAIR_SHARES: Entry = Entry::file("fair-shares", "a Parquet or CSV file, or a frame, of shares")
    .form("FILE")
    .of(Users::Order(&[Order::Fairshare]))
    .demand()
    .panel(FAIRNESS)
    .help("Order fairshare: each owner's share. Columns: the owner, as a column of JOBS such as user; share. With two, such as account and user, Slurm's Fair Tree: accounts share the cluster, users their account (docs/operators.md#fair-share). Default: equal shares for users, or for virtual clusters if the table has no users.");
