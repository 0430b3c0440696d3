//! The table of options: of a replay and of a plan, each option once.
//!
//! A line is `field: type = default => entry`. The order is that of run.toml. `python -m ringbco.dev.generate`
//! generates from each line what the command line, the Python functions, sweeps and the documentation say about the
//! option.

use super::files;
use super::setting::options;
use super::{
    ClockKind, Discipline, Entry, Estimate, Facts, Model, Order, Oversize, Placement, Predict, Search, Sharing, Table,
    Ties, TypeOrder, Users, Value, Variant, Victims, Within,
};
use crate::planner::{Dispatch, Planner};

const POLICY: &str = "Policy (docs/policies.md)";
const PREEMPTION: &str = "Preemption and resizing (docs/policies.md)";
pub(super) const FAIRNESS: &str = "Fair share and aging (docs/operators.md)";
const BACKFILL: &str = "Backfill (docs/operators.md)";
pub(super) const LIMITS: &str = "Limits, priorities and quotas (docs/priorities.md)";
pub(super) const EXECUTION: &str = "Execution";
pub(super) const OUTAGES: &str = "Outages (docs/outages.md)";
const ENERGY: &str = "Energy (docs/energy.md)";
pub(super) const SERVICES: &str = "Services (docs/services.md)";
const OUTPUT: &str = "Output";

/// The number of seconds beyond which float64 no longer distinguishes one second from the next.
const MOST_SECONDS: f64 = 1e16;
/// Seconds, some thirty years: longer than any trace.
const LONGEST: f64 = 1e9;

/// What evicts: the options of which one must be given.
const EVICTING: Users = Users::Given(&["evict", "quota", "services"]);

const SJF_BCO: Users = Users::Placement(&[Placement::SjfBco]);

/// The policy of a replay that names none.
const REPLAY_DEFAULT: &str = "sjf-bco";
const REPLAY_POLICY: Entry = Entry::policy("policy")
    .panel(POLICY)
    .help("A preset of order + placement + queue, or log:FILE to follow another run's decisions.parquet. `ringbco policies` lists them.");
const REPLAY_MEASURE_FROM: Entry = Entry::moment("measure-from")
    .or("the first submission")
    .unit("share or s")
    .form("SHARE|TIME")
    .panel(OUTPUT)
    .help("Measure only jobs submitted from then on, and time from then on. A number from 0 to 1 is a share of the submission span. Any other number is a time of the results. 2024-05-01T06:30 is a date on the job table's epoch (docs/results.md#a-window).");
const REPLAY_MEASURE_TO: Entry = Entry::moment("measure-to")
    .or("the end of the run")
    .unit("share or s")
    .form("SHARE|TIME")
    .panel(OUTPUT)
    .help("Measure only jobs submitted before then, and time before then. Written as for --measure-from.");
// What a replay and a plan have in common.
const MODEL: Entry = Entry::name("model", &["rar", "fixed"])
    .panel(EXECUTION)
    .help("rar: ring-all-reduce with contention; fixed: each job runs its recorded duration.");
const SLOT: Entry =
    Entry::positive("slot", MOST_SECONDS, "a number of seconds > 0 and <= 1e+16").unit("s").panel(EXECUTION);
const KAPPA: Entry = Entry::integer("kappa", 0, u32::MAX as u64).unit("GPUs").panel(POLICY);
const LAMBDA: Entry = Entry::number("lambda", 1.0, f64::INFINITY, "a finite number >= 1")
    .panel(POLICY)
    .help("LBSGF considers the least busy servers that together have this many times the gang's GPUs; >= 1.");
const VARIANT: Entry = Entry::name("variant", Variant::NAMES)
    .panel(POLICY)
    .help("Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings).");
const SEED: Entry = Entry::integer("seed", 0, u64::MAX).panel(EXECUTION);
const OVERSIZE: Entry = Entry::name("oversize", Oversize::NAMES)
    .panel(EXECUTION)
    .help("Jobs larger than the cluster: error, or drop (leave out and count).");
const SAMPLE: Entry = Entry::positive("sample", MOST_SECONDS, "a number of seconds > 0 and <= 1e+16")
    .or("2,000 points over the run")
    .unit("s")
    .panel(OUTPUT)
    .help("Seconds between points of the timeline.");
const ALLOCATIONS: Entry =
    Entry::flag("allocations").panel(OUTPUT).help("Record which servers each job held (`ringbco audit` needs it).");

options! {
    /// The options of a replay.
    Options {
        /// The policy, if it is one that may stop jobs; `None`: an order, under which jobs run to their end.
        preemption: Option<&'static Facts> = None => Entry::policy("preemption").word("none");
        /// Queue order.
        order: Order = Order::Smallest => Entry::name("order", Order::NAMES)
            .or("the policy's")
            .panel(POLICY)
            .help("Which queued job goes first: {names}:NAME. For column:NAME, the job with the lowest value in that column of the job table.");
        /// Placement.
        placement: Placement = Placement::SjfBco => Entry::name("placement", Placement::NAMES)
            .or("the policy's")
            .panel(POLICY)
            .help("Which idle GPUs a job gets: {names}.");
        /// Queue discipline.
        queue: Discipline = Discipline::Strict => Entry::name("queue", Discipline::NAMES)
            .or("the policy's")
            .panel(POLICY)
            .help("Which jobs may pass a job that cannot start: {names}.");
        /// Execution model.
        model: Model = Model::Rar => Entry::name("model", Model::NAMES)
            .panel(EXECUTION)
            .help("rar: ring-all-reduce with contention; fixed: each job runs its recorded duration; table: measured speeds (--tables).");
        /// How jobs share links.
        sharing: Sharing = Sharing::Count => Entry::name("sharing", Sharing::NAMES)
            .panel(EXECUTION)
            .help("Model rar: count: jobs that span servers slow each other down where they share links; off: each job has its links to itself.");
        /// Clock.
        clock: ClockKind = ClockKind::Continuous => Entry::name("clock", ClockKind::NAMES)
            .panel(EXECUTION)
            .help("continuous, or slot: decide at multiples of --slot, and run whole iterations per slot.");
        /// Slot length, s (clock `slot`).
        slot: f64 = 1.0 => SLOT
            .of(Users::Clock(&[ClockKind::Slot]))
            .help("Slot length, seconds. Only with --clock slot.");
        /// Largest gang that SJF-BCO places by FA-FFP, GPUs.
        kappa: u32 = 8 => KAPPA.of(SJF_BCO).help("SJF-BCO: largest gang placed by FA-FFP, GPUs.");
        /// How many times the gang's GPUs LBSGF wants in the servers that it tries.
        lambda: f64 = 1.0 => LAMBDA.of(Users::Placement(&[Placement::Lbsgf, Placement::SjfBco]));
        /// Reading of FA-FFP and LBSGF.
        variant: Variant = Variant::Practical =>
            VARIANT.of(Users::Placement(&[Placement::FaFfp, Placement::Lbsgf, Placement::SjfBco]));
        /// Seed of the random placement.
        seed: u64 = 0 => SEED
            .above_all_of(Users::Placement(&[Placement::Random]))
            .help("Seed of the random placement, and of the models drawn for jobs that name none.");
        /// Which job goes first among those of one submission time.
        ties: Ties = Ties::Rows => Entry::ties("ties", &["rows", "reverse"])
            .form("rows|reverse|shuffle:SEED")
            .panel(EXECUTION)
            .help("Which of the jobs submitted at the same time goes first: rows (the lower row), reverse, or shuffle:SEED.");
        /// Which of the GPU types that a job may use it tries first.
        type_order: TypeOrder = TypeOrder::Fastest => Entry::name("type-order", TypeOrder::NAMES)
            .panel(POLICY)
            .help(
                "Where servers name GPU types: the order in which a job tries those it may use. fastest (for this job), cheapest (price per unit of work) or listed (as in gpu_type).",
            );
        /// What to do with jobs that could never fit.
        oversize: Oversize = Oversize::Error => OVERSIZE;
        /// Timeline step, s; `None` for 2,000 points over the run.
        sample: Option<f64> = None => SAMPLE;
        /// Whether to record allocations.
        record_allocations: bool = true => ALLOCATIONS;
        /// Whether to record decisions.
        record_decisions: bool = false => Entry::flag("decisions")
            .panel(OUTPUT)
            .help("Record every decision in decisions.parquet: what starts, stops or is refused, when and where.");
        /// Whether the caller keeps the answer of each request.
        request_rows: bool = false => Entry::flag("request-rows")
            .of(Users::Given(&["requests"]))
            .panel(OUTPUT)
            .help("Write requests.parquet: replica, start, first token and finish of each request (docs/serving.md).");
        /// The most jobs on the same GPUs; `None` for the policy's.
        jobs_per_gpu: Option<u32> = None => Entry::integer("jobs-per-gpu", 1, 64)
            .or("1; lucid: 2")
            .panel(EXECUTION)
            .help("The most jobs of whole GPUs that may hold the same GPUs: policies of one's own and lucid start jobs beside others (docs/lucid.md). 1: none do.");
        /// How much each other share of its GPU slows a job down.
        interference: f64 = 0.0 => Entry::number("interference", 0.0, f64::INFINITY, "a finite number >= 0")
            .panel(EXECUTION)
            .help("GPU shares, and --jobs-per-gpu: each of n jobs on a GPU runs at 1 / (1 + interference (n - 1)) of its rate. Pairs measured side by side (--tables) keep their measured rate.");
        /// What a resumed job pays, s without progress.
        preempt_cost: f64 = 30.0 => Entry::number("preempt-cost", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("Preemptive policies: seconds for which a resumed job holds its GPUs without progress.");
        /// What a job pays at its first start, s without progress.
        start_cost: f64 = 0.0 => Entry::number("start-cost", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .unit("s")
            .panel(EXECUTION)
            .help("Seconds for which a job holds its GPUs without progress at its first start.");
        /// What a moved job pays, s without progress; `None` for as much as a resumed one.
        move_cost: Option<f64> = None => Entry::number("move-cost", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .or("preempt-cost")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("Policies that move jobs: seconds for which a moved job holds its GPUs without progress.");
        /// What a resized job pays, s without progress; `None` for as much as a resumed one.
        resize_cost: Option<f64> = None => Entry::number("resize-cost", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .or("preempt-cost")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("Policies that resize jobs: seconds for which a resized job holds its GPUs without progress.");
        /// Seconds of progress between two checkpoints.
        checkpoint_interval: f64 = 1800.0 => Entry::endless("checkpoint-interval", "a time >= 0 s, or inf")
            .unit("s")
            .panel(OUTAGES)
            .help("Seconds of progress between checkpoints, for jobs without a checkpoint_interval. 0: an outage loses nothing; inf: it loses all progress since the last start.");
        /// What a checkpoint takes, s without progress.
        checkpoint_cost: f64 = 0.0 => Entry::number("checkpoint-cost", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .unit("s")
            .panel(OUTAGES)
            .help("Seconds without progress per checkpoint. A stay pays one after each checkpoint interval, none at its end.");
        /// Seconds after which an idle server sleeps; infinity: never.
        sleep_after: f64 = f64::INFINITY => Entry::endless("sleep-after", "a time >= 0 s, or inf")
            .unit("s")
            .panel(ENERGY)
            .help("Seconds after which a server with no GPU held sleeps and draws no power; inf: never.");
        /// What a job that wakes a server pays, s without progress.
        wake_time: f64 = 0.0 => Entry::number("wake-time", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .unit("s")
            .panel(ENERGY)
            .help("Seconds added to the pause of a job that starts on a sleeping server.");
        /// Whether jobs of lower priority make room.
        evict: bool = false => Entry::flag("evict")
            .panel(LIMITS)
            .help("A job that finds no GPUs evicts preemptible jobs of lower priority (docs/priorities.md).");
        /// Which jobs make room first, among those of one priority.
        victims: Victims = Victims::Least => Entry::name("victims", Victims::NAMES)
            .of(EVICTING)
            .demand()
            .panel(LIMITS)
            .help("Which jobs are evicted first, among those of the lowest priority. least: those that lose least work (--evict-loses), then those with the fewest GPUs; youngest: those that started last.");
        /// How long a job is pending, s, before it makes room for itself.
        evict_after: f64 = 0.0 => Entry::number("evict-after", 0.0, f64::INFINITY, "a finite time >= 0 s")
            .unit("s")
            .of(EVICTING)
            .demand()
            .panel(LIMITS)
            .help("Seconds for which a job waits, since its arrival or its latest stay, before it evicts others. Services do not wait.");
        /// Whether an evicted job loses the work since its last checkpoint.
        evict_loses: bool = false => Entry::flag("evict-loses")
            .of(EVICTING)
            .demand()
            .panel(LIMITS)
            .help("An evicted job falls back to its last checkpoint, as after an outage. Default: it keeps all progress.");
        /// Whether jobs end at their time limits.
        enforce_limits: bool = false => Entry::flag("enforce-limits")
            .panel(LIMITS)
            .help("End a job once it has held GPUs for its time_limit, seconds over all stays, finished or not (docs/operators.md).");
        /// Age of a stay, s, from which on its job may be stopped for others; `None` for what the policy says.
        preempt_after: Option<f64> = None => Entry::number("preempt-after", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .or("0; for repack twice the preempt-cost, and with --preempt-loses until it has saved work").unit("s")
            .of(Users::Any(&[Users::Policies, Users::Given(&["evict"])]))
            .panel(PREEMPTION)
            .help("Preemptive policies and --evict: seconds for which a started job is safe from preemption, its pause included. 0: not at all (docs/operators.md).");
        /// After how many stays ended for others a job is no longer stopped; `None`: it always may be.
        max_preemptions: Option<u32> = None => Entry::integer("max-preemptions", 0, u32::MAX as u64)
            .or("no limit")
            .of(Users::Any(&[Users::Policies, Users::Given(&["evict"])]))
            .panel(PREEMPTION)
            .help("Preemptive policies and --evict: preemptions after which a job is no longer stopped for others (docs/operators.md).");
        /// Whether jobs with preemptible = false are never stopped for others.
        keep_unpreemptible: bool = false => Entry::flag("keep-unpreemptible")
            .of(Users::Any(&[Users::Policies, EVICTING]))
            .demand()
            .panel(PREEMPTION)
            .help("Preemptive policies: never stop a job with preemptible = false for others (docs/operators.md). Default: the column protects from evictions alone.");
        /// Whether a preempted job loses the work since its last checkpoint.
        preempt_loses: bool = false => Entry::flag("preempt-loses")
            .of(Users::Policies)
            .demand()
            .panel(PREEMPTION)
            .help("Preemptive policies: a preempted job falls back to its last checkpoint, as after an outage; a moved or resized one does not. Default: it keeps all progress.");
        /// How the trials of a search are judged; `None`: every trial runs to its end.
        search: Option<Search> = None => Entry::search("search")
            .word("none")
            .form("asha:eta=E,rungs=R")
            .panel(EXECUTION)
            .help("asha:eta=3,rungs=4: stop all but the best third of a search's trials at each rung. The column group names the search (docs/searches.md).");
        /// Attained service, GPU-seconds, at which a job falls to the next queue; ascending.
        thresholds: Vec<f64> = vec![18_000.0] =>
            Entry::ascending("thresholds", "GPU-seconds > 0 in ascending order")
            .unit("GPU-seconds")
            .of(Users::Policies)
            .form("S[,S...]")
            .panel(PREEMPTION)
            .help("tiresias, gittins: attained service, GPU-seconds, at which a job drops to the next queue. Several are separated by commas.");
        /// The order inside a queue by attained service.
        within: Within = Within::Fifo => Entry::name("within", Within::NAMES)
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("tiresias, gittins: the order within a queue. fifo, or list: running jobs move ahead of waiting ones; new arrivals join at the end (docs/policies.md).");
        /// Time between passes, s.
        interval: Option<f64> = None => Entry::positive("interval", LONGEST, "a number of seconds > 0 and <= 1e+09")
            .or("60; none for srtf, srsf and policies that resize jobs")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("srtf, srsf, tiresias, gittins, ftf: seconds between decisions. Policies that resize jobs: seconds after which they decide even without an event.");
        /// Age of a stay, s, below which a policy does not resize its job.
        resize_every: f64 = 300.0 => Entry::number("resize-every", 0.0, LONGEST, "a time >= 0 and <= 1e+09 s")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("Policies that resize jobs: seconds for which a job keeps the GPUs it was given.");
        /// Time between passes, s (`time-slice`).
        quantum: f64 = 60.0 => Entry::positive("quantum", LONGEST, "a number of seconds > 0 and <= 1e+09")
            .unit("s")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("time-slice: seconds between decisions.");
        /// What predictions of run times are based on.
        predict: Predict = Predict::History => Entry::name("predict", Predict::NAMES)
            .of(Users::Any(&[Users::Order(&[Order::Qssf, Order::Sjf]), Users::Policies]))
            .form("history|exact|column:NAME")
            .panel(PREEMPTION)
            .help("qssf, repack: predict run times from the history of completed jobs, or exact: read the recorded run times. column:NAME (sjf, too): the predictions in that column of the job table, s; a job without one (empty, or <= 0) is as without the option.");
        /// How much of the promise to waiting jobs holds where predictions fail, from 0 to 1.
        tail: f64 = 0.5 => Entry::number("tail", 0.0, 1.0, "a number >= 0 and <= 1")
            .of(Users::Policies)
            .panel(PREEMPTION)
            .help("repack with predicted run times: 1 makes a waiting job urgent by its progress alone, for the least worst slowdown; 0 by all that it is predicted to run, for the least mean (docs/repack.md#the-tail).");
        /// Whether `edf` refuses jobs that would miss their deadline even alone.
        admission: bool = false => Entry::flag("admission")
            .of(Users::Policies)
            .demand()
            .panel(PREEMPTION)
            .help("edf: refuse a job that would miss its deadline even if it ran alone. Default: accept all.");
        /// A job that has waited this long, s, goes by fifo ahead of the others.
        aging: Option<f64> = None => Entry::number("aging", 0.0, f64::INFINITY, "a finite time >= 0 s")
            .or("never")
            .unit("s")
            .of(Users::Order(&[Order::Sjf, Order::Smallest, Order::Qssf, Order::Fairshare, Order::Column]))
            .demand()
            .panel(FAIRNESS)
            .help("Orders sjf, smallest, qssf, fairshare, column: seconds of waiting after which a job goes ahead, by fifo.");
        /// Age, s, at which a GPU-second counts half in the usage of its owner.
        half_life: f64 = 604_800.0 => Entry::positive("half-life", MOST_SECONDS, "a time > 0 and <= 1e+16 s")
            .unit("s")
            .of(Users::Order(&[Order::Fairshare]))
            .panel(FAIRNESS)
            .help("Order fairshare: seconds after which a used GPU-second counts half; such as 7d.");
        /// The factor by which EASY's estimates are multiplied.
        estimate_factor: f64 = 1.0 => Entry::positive("estimate-factor", f64::INFINITY, "a number > 0")
            .of(Users::Queue(Discipline::CLAIRVOYANT))
            .panel(BACKFILL)
            .help("Queues easy, conservative, and --maintenance: factor by which estimates of run time are multiplied, > 0.");
        /// What the estimates of backfilling are based on.
        estimate: Estimate = Estimate::RunTime => Entry::name("estimate", Estimate::NAMES)
            .of(Users::Queue(Discipline::CLAIRVOYANT))
            .form("run-time|limit|column:NAME")
            .panel(BACKFILL)
            .help("Queues easy, conservative, and --maintenance: what estimates are. run-time: the run time, times --estimate-factor; limit: what is left of time_limit, for ever without one; column:NAME: that column of the job table, s, less progress, for ever without one (docs/operators.md).");
        /// The number of jobs for which conservative backfilling makes reservations at a pass.
        reservations: u32 = 100 => Entry::integer("reservations", 1, u32::MAX as u64)
            .unit("jobs")
            .of(Users::Queue(&[Discipline::Conservative]))
            .panel(BACKFILL)
            .help("Queue conservative: waiting jobs that get a reservation in each pass. Other jobs start only outside these reservations.");
    }
}

options! {
    /// The options of a plan.
    PlanOptions {
        /// Planner.
        policy: Planner = Planner::SjfBco => Entry::name("policy", Planner::NAMES)
            .panel(POLICY)
            .help("One of {names}: Algorithm 1, first-fit, least-loaded, random.");
        /// Order of the jobs: `smallest` or `fifo` (row order, as all are present at time 0).
        order: Order = Order::Smallest => Entry::name("order", &["smallest", "fifo"])
            .panel(POLICY)
            .help("Which job gets GPUs first: the smallest gang, or (fifo) the first row.");
        /// Dispatch.
        dispatch: Dispatch = Dispatch::Idle => Entry::name("dispatch", Dispatch::NAMES)
            .panel(POLICY)
            .help("idle: a job gets idle GPUs, or waits for the next completion. reserve: a job gets any GPUs, and starts when it heads the queue of each.");
        /// Reading of Algorithms 2 and 3.
        variant: Variant = Variant::Practical => VARIANT.of(Users::Planner(&[Planner::SjfBco]));
        /// Execution model.
        model: Model = Model::Rar => MODEL;
        /// Largest gang placed by FA-FFP, GPUs; `None` to try 1 and every size.
        kappa: Option<u32> = None => KAPPA
            .word("auto")
            .of(Users::Planner(&[Planner::SjfBco]))
            .form("auto|K")
            .help("SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every gang size.");
        /// How many times the gang's GPUs LBSGF wants in the servers that it tries.
        lambda: f64 = 1.0 => LAMBDA.of(Users::Planner(&[Planner::SjfBco]));
        /// The divisor of rho before it is added to U.
        u: f64 = 1.0 => Entry::number("u", 1.0, f64::INFINITY, "a finite number >= 1")
            .panel(POLICY)
            .help("Divisor of a job's estimate when it is booked; >= 1.");
        /// T, slots; `None` to double from twice the work bound until a schedule exists.
        horizon: Option<u64> = None => Entry::integer("horizon", 1, 1 << 52)
            .or("doubled from twice the work bound until a schedule exists")
            .word("auto")
            .unit("slots")
            .panel(POLICY)
            .help("T, slots: all jobs must end before it.");
        /// Slot length, s.
        slot: f64 = 1.0 => SLOT.help("Slot length, seconds.");
        /// Seed of `rand`.
        seed: u64 = 0 => SEED.help("Seed of the planner rand, and of the models drawn for jobs that name none.");
        /// What to do with jobs larger than the cluster.
        oversize: Oversize = Oversize::Error => OVERSIZE;
        /// Timeline step, s; `None` for 2,000 points.
        sample: Option<f64> = None => SAMPLE;
    }
}

/// Returns the options of `replay` and of `plan` that a user may give, each with its default.
#[must_use]
pub fn commands() -> [(&'static str, Vec<(Entry, Value)>); 2] {
    let text = |name: &str| Value::Text(name.to_owned());
    let mut replay = rows(&Options::default());
    replay.insert(0, (REPLAY_POLICY, text(REPLAY_DEFAULT)));
    let after_model = 1 + replay.iter().position(|(entry, _)| entry.name == "model").unwrap_or_default();
    replay.insert(after_model, (files::TABLES, Value::Absent));
    let before = replay.iter().position(|(entry, _)| entry.name == "checkpoint-interval").unwrap_or_default();
    replay.insert(before, (files::MAINTENANCE, Value::Absent));
    replay.insert(before, (files::OUTAGES, Value::Absent));
    let after_evict = 1 + replay.iter().position(|(entry, _)| entry.name == "evict").unwrap_or_default();
    replay.insert(after_evict, (files::QUOTA, Value::Absent));
    replay.insert(before + 4, (files::REQUESTS, Value::Absent));
    replay.insert(before + 4, (files::SERVICES, Value::Absent));
    let after_half_life = 1 + replay.iter().position(|(entry, _)| entry.name == "half-life").unwrap_or_default();
    replay.insert(after_half_life, (files::FAIR_SHARES, Value::Absent));
    let after_sample = 1 + replay.iter().position(|(entry, _)| entry.name == "sample").unwrap_or_default();
    replay.insert(after_sample, (REPLAY_MEASURE_TO, Value::Absent));
    replay.insert(after_sample, (REPLAY_MEASURE_FROM, Value::Absent));
    let mut plan = rows(&PlanOptions::default());
    plan.push((ALLOCATIONS, Value::Flag(true)));
    [("replay", replay), ("plan", plan)]
}

/// Returns the rows of the table that a user may give. What the policy decides unless it is given has no default.
fn rows<T: Table>(defaults: &T) -> Vec<(Entry, Value)> {
    let given = |(row, entry): (usize, &Entry)| {
        let default = if entry.absent.is_some() { Value::Absent } else { defaults.get(row) };
        (!entry.panel.is_empty()).then_some((*entry, default))
    };
    T::TABLE.iter().enumerate().filter_map(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Kind;

    fn every_default_is_in_its_range<T: Table>() {
        let mut options = T::default();
        options.check_each().unwrap();
        for (row, entry) in T::TABLE.iter().enumerate() {
            assert_eq!(T::row(entry.name), Some(row));
            assert_eq!(T::row(&entry.name.replace('-', "_")), Some(row));
            options.set(row, &options.get(row)).unwrap();
            assert!(entry.help.is_empty() == entry.panel.is_empty(), "{}", entry.name);
            if let Kind::Number(_) | Kind::Numbers(_) | Kind::Flag | Kind::Ties(_) = entry.kind {
                assert!(!entry.expected.is_empty(), "{}", entry.name);
            }
        }
    }

    #[test]
    fn the_tables_are_sound() {
        every_default_is_in_its_range::<Options>();
        every_default_is_in_its_range::<PlanOptions>();
    }

    /// A text says `>= 1` where the range begins with 1, and `<= 1e+09` where it ends there.
    #[test]
    fn what_was_expected_is_the_range() {
        for (_, rows) in commands() {
            for (entry, _) in rows {
                let Kind::Number(range) = entry.kind else { continue };
                let sign = if range.above { ">" } else { ">=" };
                assert!(entry.expected.contains(&format!("{sign} {}", range.least)), "{}", entry.name);
                let largest = entry.expected.split("<= ").nth(1).map(|text| text.trim_end_matches(" s"));
                let most = largest.map_or(f64::INFINITY, |text| text.parse().unwrap());
                assert_eq!(most, range.most, "{}", entry.name);
            }
        }
    }

    #[test]
    fn a_value_out_of_range_is_named() {
        let mut options = Options::default();
        let mut refused =
            |name: &str, value: Value| options.set(Options::row(name).unwrap(), &value).unwrap_err().to_string();
        let quantum = "option quantum: 0: expected a number of seconds > 0 and <= 1e+09";
        assert_eq!(refused("quantum", Value::Number(0.0)), quantum);
        let cost = "option preempt-cost: 1000000001: expected a time >= 0 and <= 1e+09 s";
        assert_eq!(refused("preempt_cost", Value::Number(1e9 + 1.0)), cost);
        let kappa = "option kappa: 4294967296: expected an integer from 0 to 4294967295";
        assert_eq!(refused("kappa", Value::Integer(1 << 32)), kappa);
        let model = "option model: ring: expected one of rar, fixed, table";
        assert_eq!(refused("model", Value::Text("ring".to_owned())), model);
        let steps = "option thresholds: 2,1: expected GPU-seconds > 0 in ascending order";
        assert_eq!(refused("thresholds", Value::Numbers(vec![2.0, 1.0])), steps);
        assert_eq!(refused("seed", Value::Absent).split(": ").nth(1), Some("none"));
        assert_eq!(options, Options::default(), "what is refused changes nothing");
    }
}
