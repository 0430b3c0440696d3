"""The options of `ringbco.replay` and `ringbco.plan`, for type checkers: no module has this name.

Made by `python -m ringbco.dev.generate` of rust/options/table.rs: change that.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

class Options(TypedDict, total=False):
    """The options of `ringbco.replay`."""

    order: str | None
    """Which queued job goes first: fifo, sjf, smallest, qssf, fairshare, column:NAME. For column:NAME,
    the job with the lowest value in that column of the job table. Default: the policy's.
    """
    placement: str | None
    """Which idle GPUs a job gets: first-fit, consolidate, best-fit, worst-fit, binpack, compact,
    emptiest, fgd, least-loaded, random, fa-ffp, lbsgf, sjf-bco. Default: the policy's.
    """
    queue: str | None
    """Which jobs may pass a job that cannot start: strict, skip, easy, conservative. Default: the
    policy's.
    """
    model: str
    """rar: ring-all-reduce with contention; fixed: each job runs its recorded duration; table:
    measured speeds (--tables). Default: rar.
    """
    tables: object | None
    """Model table: a file of measured speeds. Columns: model, gpu_type, gpus, servers, rate
    (docs/tables.md). Default: none.
    """
    sharing: str
    """Model rar: count: jobs that span servers slow each other down where they share links; off: each
    job has its links to itself. Default: count.
    """
    clock: str
    """continuous, or slot: decide at multiples of --slot, and run whole iterations per slot. Default:
    continuous.
    """
    slot: float
    """Slot length, seconds. Only with --clock slot. Default: 1."""
    kappa: int
    """SJF-BCO: largest gang placed by FA-FFP, GPUs. Default: 8."""
    lambda_: float
    """LBSGF considers the least busy servers that together have this many times the gang's GPUs; >= 1.
    Default: 1.
    """
    variant: str
    """Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings). Default:
    practical.
    """
    seed: int
    """Seed of the random placement, and of the models drawn for jobs that name none. Default: 0."""
    ties: str
    """Which of the jobs submitted at the same time goes first: rows (the lower row), reverse, or
    shuffle:SEED. Default: rows.
    """
    type_order: str
    """Where servers name GPU types: the order in which a job tries those it may use. fastest (for this
    job), cheapest (price per unit of work) or listed (as in gpu_type). Default: fastest.
    """
    oversize: str
    """Jobs larger than the cluster: error, or drop (leave out and count). Default: error."""
    sample: float | None
    """Seconds between points of the timeline. Default: 2,000 points over the run."""
    measure_from: float | str | None
    """Measure only jobs submitted from then on, and time from then on. A number from 0 to 1 is a share
    of the submission span. Any other number is a time of the results. 2024-05-01T06:30 is a
    date on the job table's epoch (docs/results.md#a-window). Default: the first submission.
    """
    measure_to: float | str | None
    """Measure only jobs submitted before then, and time before then. Written as for --measure-from.
    Default: the end of the run.
    """
    allocations: bool
    """Record which servers each job held (`ringbco audit` needs it). Default: true."""
    decisions: bool
    """Record every decision in decisions.parquet: what starts, stops or is refused, when and where.
    Default: false.
    """
    request_rows: bool
    """Write requests.parquet: replica, start, first token and finish of each request
    (docs/serving.md). Default: false.
    """
    jobs_per_gpu: int | None
    """The most jobs of whole GPUs that may hold the same GPUs: policies of one's own and lucid start
    jobs beside others (docs/lucid.md). 1: none do. Default: 1; lucid: 2.
    """
    interference: float
    """GPU shares, and --jobs-per-gpu: each of n jobs on a GPU runs at 1 / (1 + interference (n - 1))
    of its rate. Pairs measured side by side (--tables) keep their measured rate. Default: 0.
    """
    preempt_cost: float
    """Preemptive policies: seconds for which a resumed job holds its GPUs without progress. Default:
    30.
    """
    start_cost: float
    """Seconds for which a job holds its GPUs without progress at its first start. Default: 0."""
    move_cost: float | None
    """Policies that move jobs: seconds for which a moved job holds its GPUs without progress. Default:
    preempt-cost.
    """
    resize_cost: float | None
    """Policies that resize jobs: seconds for which a resized job holds its GPUs without progress.
    Default: preempt-cost.
    """
    outages: object | None
    """When servers are down, or drain. A file has the columns server, down_at, up_at, cause, kind;
    server may be a range such as 0-3, or a name of the cluster file, and a column called as a
    tier may name a group in its place; kind is down, or drain: jobs there run on, and no other
    starts. draw:mtbf=42d,mttr=2h[,seed=N|run][,tier=NAME] draws failures until the last job
    ends, with the run's seed by default. Default: none.
    """
    maintenance: object | None
    """When servers will be down, announced ahead; same columns as --outages. Orders, srtf and srsf
    start no job that would, by its estimate, still run then. For other policies it is an outage
    (docs/operators.md#maintenance). Default: none.
    """
    checkpoint_interval: float
    """Seconds of progress between checkpoints, for jobs without a checkpoint_interval. 0: an outage
    loses nothing; inf: it loses all progress since the last start. Default: 1800.
    """
    checkpoint_cost: float
    """Seconds without progress per checkpoint. A stay pays one after each checkpoint interval, none at
    its end. Default: 0.
    """
    services: object | None
    """Replicas each service needs over time. Columns: service, time, replicas, gpus_per_replica. With
    --requests, a TOML file: a table for each service says how its replicas answer
    (docs/serving.md). Default: none.
    """
    requests: object | None
    """Requests that the services answer: latency, TTFT, TPOT, attainment of SLOs. Columns: service,
    arrival, input_tokens, output_tokens, cached_tokens; Azure's and BurstGPT's traces are read
    as they are. Needs --services FILE.toml (docs/serving.md). Default: none.
    """
    sleep_after: float
    """Seconds after which a server with no GPU held sleeps and draws no power; inf: never. Default:
    inf.
    """
    wake_time: float
    """Seconds added to the pause of a job that starts on a sleeping server. Default: 0."""
    evict: bool
    """A job that finds no GPUs evicts preemptible jobs of lower priority (docs/priorities.md).
    Default: false.
    """
    quota: object | None
    """GPUs that each owner's jobs may hold together. Columns: the owner, as a column of JOBS such as
    user, account or array; gpus; borrow. Repeatable: a job must be within every file
    (docs/priorities.md#quotas). Default: none.
    """
    victims: str
    """Which jobs are evicted first, among those of the lowest priority. least: those that lose least
    work (--evict-loses), then those with the fewest GPUs; youngest: those that started last.
    Default: least.
    """
    evict_after: float
    """Seconds for which a job waits, since its arrival or its latest stay, before it evicts others.
    Services do not wait. Default: 0.
    """
    evict_loses: bool
    """An evicted job falls back to its last checkpoint, as after an outage. Default: it keeps all
    progress.
    """
    enforce_limits: bool
    """End a job once it has held GPUs for its time_limit, seconds over all stays, finished or not
    (docs/operators.md). Default: false.
    """
    preempt_after: float | None
    """Preemptive policies and --evict: seconds for which a started job is safe from preemption, its
    pause included. 0: not at all (docs/operators.md). Default: 0; for repack twice the preempt-
    cost, and with --preempt-loses until it has saved work.
    """
    max_preemptions: int | None
    """Preemptive policies and --evict: preemptions after which a job is no longer stopped for others
    (docs/operators.md). Default: no limit.
    """
    keep_unpreemptible: bool
    """Preemptive policies: never stop a job with preemptible = false for others (docs/operators.md).
    Default: the column protects from evictions alone.
    """
    preempt_loses: bool
    """Preemptive policies: a preempted job falls back to its last checkpoint, as after an outage; a
    moved or resized one does not. Default: it keeps all progress.
    """
    search: str | Literal["none"] | None
    """asha:eta=3,rungs=4: stop all but the best third of a search's trials at each rung. The column
    group names the search (docs/searches.md). Default: none.
    """
    thresholds: Sequence[float]
    """tiresias, gittins: attained service, GPU-seconds, at which a job drops to the next queue.
    Several are separated by commas. Default: 18000.
    """
    within: str
    """tiresias, gittins: the order within a queue. fifo, or list: running jobs move ahead of waiting
    ones; new arrivals join at the end (docs/policies.md). Default: fifo.
    """
    interval: float | None
    """srtf, srsf, tiresias, gittins, ftf: seconds between decisions. Policies that resize jobs:
    seconds after which they decide even without an event. Default: 60; none for srtf, srsf and
    policies that resize jobs.
    """
    resize_every: float
    """Policies that resize jobs: seconds for which a job keeps the GPUs it was given. Default: 300."""
    quantum: float
    """time-slice: seconds between decisions. Default: 60."""
    predict: str
    """qssf, repack: predict run times from the history of completed jobs, or exact: read the recorded
    run times. column:NAME (sjf, too): the predictions in that column of the job table, s; a job
    without one (empty, or <= 0) is as without the option. Default: history.
    """
    tail: float
    """repack with predicted run times: 1 makes a waiting job urgent by its progress alone, for the
    least worst slowdown; 0 by all that it is predicted to run, for the least mean
    (docs/repack.md#the-tail). Default: 0.5.
    """
    admission: bool
    """edf: refuse a job that would miss its deadline even if it ran alone. Default: accept all."""
    aging: float | None
    """Orders sjf, smallest, qssf, fairshare, column: seconds of waiting after which a job goes ahead,
    by fifo. Default: never.
    """
    half_life: float
    """Order fairshare: seconds after which a used GPU-second counts half; such as 7d. Default: 604800."""
    fair_shares: object | None
    """Order fairshare: each owner's share. Columns: the owner, as a column of JOBS such as user;
    share. With two, such as account and user, Slurm's Fair Tree: accounts share the cluster,
    users their account (docs/operators.md#fair-share). Default: equal shares for users, or for
    virtual clusters if the table has no users.
    """
    estimate_factor: float
    """Queues easy, conservative, and --maintenance: factor by which estimates of run time are
    multiplied, > 0. Default: 1.
    """
    estimate: str
    """Queues easy, conservative, and --maintenance: what estimates are. run-time: the run time, times
    --estimate-factor; limit: what is left of time_limit, for ever without one; column:NAME:
    that column of the job table, s, less progress, for ever without one (docs/operators.md).
    Default: run-time.
    """
    reservations: int
    """Queue conservative: waiting jobs that get a reservation in each pass. Other jobs start only
    outside these reservations. Default: 100.
    """

class PlanOptions(TypedDict, total=False):
    """The options of `ringbco.plan`."""

    order: str
    """Which job gets GPUs first: the smallest gang, or (fifo) the first row. Default: smallest."""
    dispatch: str
    """idle: a job gets idle GPUs, or waits for the next completion. reserve: a job gets any GPUs, and
    starts when it heads the queue of each. Default: idle.
    """
    variant: str
    """Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings). Default:
    practical.
    """
    model: str
    """rar: ring-all-reduce with contention; fixed: each job runs its recorded duration. Default: rar."""
    kappa: int | Literal["auto"] | None
    """SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every gang size. Default: auto."""
    lambda_: float
    """LBSGF considers the least busy servers that together have this many times the gang's GPUs; >= 1.
    Default: 1.
    """
    u: float
    """Divisor of a job's estimate when it is booked; >= 1. Default: 1."""
    horizon: int | Literal["auto"] | None
    """T, slots: all jobs must end before it. Default: doubled from twice the work bound until a
    schedule exists.
    """
    slot: float
    """Slot length, seconds. Default: 1."""
    seed: int
    """Seed of the planner rand, and of the models drawn for jobs that name none. Default: 0."""
    oversize: str
    """Jobs larger than the cluster: error, or drop (leave out and count). Default: error."""
    sample: float | None
    """Seconds between points of the timeline. Default: 2,000 points over the run."""
    allocations: bool
    """Record which servers each job held (`ringbco audit` needs it). Default: true."""
