"""The options of `ringbco.replay` and `ringbco.plan`, for type checkers: no module has this name.

Made by `python -m ringbco.dev.generate` of rust/options/table.rs: change that.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

class Options(TypedDict, total=False):
    """The options of `ringbco.replay`."""

    order: str | None
    """Which queued job comes first: fifo, sjf, smallest, qssf, fairshare, column:NAME. A column is one
    of the job table; the least comes first. Default: the policy's.
    """
    placement: str | None
    """Which idle GPUs a job gets: first-fit, consolidate, best-fit, worst-fit, emptiest, fgd, least-
    loaded, random, fa-ffp, lbsgf, sjf-bco. Default: the policy's.
    """
    queue: str | None
    """What happens behind a job that cannot start: strict, skip, easy, conservative. Default: the
    policy's.
    """
    model: str
    """rar: ring-all-reduce with contention; fixed: every job runs its recorded duration; table: speeds
    as measured (--tables). Default: rar.
    """
    tables: object | None
    """Model table: measured speeds, with the columns model, gpu_type, gpus, servers, rate
    (docs/tables.md). Default: none.
    """
    sharing: str
    """Under --model rar: count, jobs that span a server slow each other down; off, nobody slows
    anybody, as if each had the links to itself. Default: count.
    """
    clock: str
    """continuous, or slot: decisions at multiples of --slot and whole iterations per slot. Default:
    continuous.
    """
    slot: float
    """Length of a slot, seconds. With --clock slot only: refused without it. Default: 1."""
    kappa: int
    """SJF-BCO: largest gang placed by FA-FFP, GPUs. Default: 8."""
    lambda_: float
    """LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1. Default: 1."""
    variant: str
    """Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings). Default:
    practical.
    """
    seed: int
    """Of the random placement, and of the models drawn for jobs that name none. Default: 0."""
    ties: str
    """Who goes first of one submission time: rows (the lower row), reverse, or shuffle:SEED. Default:
    rows.
    """
    type_order: str
    """Which of the GPU types that a job may use it tries first: fastest (for this job), cheapest
    (price per unit of its work) or listed (as in gpu_type). Where servers name types. Default:
    fastest.
    """
    oversize: str
    """A job larger than its cluster is an error, or (drop) left out and counted. Default: error."""
    sample: float | None
    """Seconds between the timeline's points. Default: 2,000 points over the run."""
    measure_from: float | str | None
    """Figures are of the jobs submitted from then on, and of the time from then on: a number from 0 to
    1 is a share of the span of submissions, any other a time of the results, and
    2024-05-01T06:30 one on the epoch of the job table (docs/results.md#a-window). Default: the
    first submission.
    """
    measure_to: float | str | None
    """Figures are of the jobs submitted before then, and of the time before then, written as for
    --measure-from. Default: the end of the run.
    """
    allocations: bool
    """Record which servers each job held (audit needs it). Default: true."""
    decisions: bool
    """Write down every decision: who starts, stops or is refused, when and where (decisions.parquet).
    Default: false.
    """
    interference: float
    """Shares of a GPU: with n jobs on one, each runs at 1 / (1 + interference (n - 1)) of its rate,
    but for two measured side by side (model table). Default: 0.
    """
    preempt_cost: float
    """Policies that preempt: seconds that a resumed job holds its GPUs without progress. Default: 30."""
    start_cost: float
    """Seconds that a job holds its GPUs without progress when it starts for the first time. Default:
    0.
    """
    move_cost: float | None
    """Policies that move jobs: seconds that a moved job holds its GPUs without progress. Default:
    preempt-cost.
    """
    resize_cost: float | None
    """Policies that resize jobs: seconds that a resized job holds its GPUs without progress. Default:
    preempt-cost.
    """
    outages: object | None
    """When servers are down: a file with the columns server, down_at, up_at and cause, where a server
    may be a range such as 0-3, or draw:mtbf=42d,mttr=2h[,seed=N|run], which lets servers fail
    at random until the last job is done, by default with the run's seed (docs/outages.md).
    Default: none.
    """
    maintenance: object | None
    """When servers will be down, as known ahead, with the columns of --outages: an order, srtf and
    srsf start no job that by its estimate would still run then; all others meet it as an outage
    (docs/operators.md#maintenance). Default: none.
    """
    checkpoint_interval: float
    """Outages: seconds of progress between two checkpoints of a job without a checkpoint_interval of
    its own; 0: nothing is lost, inf: all that a stay did. Default: 1800.
    """
    checkpoint_cost: float
    """Seconds without progress that a checkpoint takes: one after each checkpoint interval of a stay,
    none at its end. Default: 0.
    """
    services: object | None
    """How many replicas services want, with the columns service, time, replicas, gpus_per_replica
    (docs/services.md). Default: none.
    """
    sleep_after: float
    """A server sleeps, and draws nothing, once none of its GPUs was held for longer than so many
    seconds; inf: never. Default: inf.
    """
    wake_time: float
    """Seconds by which the pause of a job is longer that starts on a server that sleeps. Default: 0."""
    evict: bool
    """Jobs of higher priority evict preemptible ones of lower priority where they find no GPUs
    (docs/priorities.md). Default: false.
    """
    quota: object | None
    """How many GPUs owners may hold, with the columns vc or user, gpus, borrow (docs/priorities.md).
    Default: none.
    """
    enforce_limits: bool
    """A job that has held its GPUs for its time_limit, seconds over all its stays, ends there, done or
    not (docs/operators.md). Default: false.
    """
    preempt_after: float
    """Policies that stop jobs, and --evict: seconds from the start of a stay, its pause included, for
    which a job is not stopped for others (docs/operators.md); 0: not at all. Default: 0.
    """
    max_preemptions: int | None
    """Policies that stop jobs, and --evict: so many stays of a job are ended for others at most
    (docs/operators.md). Default: no limit.
    """
    search: str | Literal["none"] | None
    """asha:eta=3,rungs=4: of the trials of a search (column group) that reach a rung, the best third
    goes on (docs/searches.md). Default: none.
    """
    thresholds: Sequence[float]
    """tiresias, gittins: service, GPU-seconds, at which a job falls to the next queue; several
    separated by commas. Default: 18000.
    """
    within: str
    """tiresias, gittins: the order inside a queue: fifo, or list, in which jobs that run move ahead of
    those that do not, and newcomers and those from another queue join the end
    (docs/policies.md). Default: fifo.
    """
    interval: float | None
    """srtf, srsf, tiresias, gittins, ftf: seconds between decisions. Policies that resize jobs:
    seconds after which they decide though nothing happened. Default: 60; none for srtf, srsf
    and policies that resize jobs.
    """
    resize_every: float
    """Policies that resize jobs: seconds for which a job keeps the GPUs that it was given. Default:
    300.
    """
    quantum: float
    """time-slice: seconds between decisions. Default: 60."""
    predict: str
    """qssf, repack: predict from the history of completed jobs, or exact: know the recorded duration.
    Default: history.
    """
    admission: bool
    """edf: refuse a job that on arrival would miss its deadline even alone. Default: take all."""
    aging: float | None
    """Orders sjf, smallest, qssf, fairshare: seconds of waiting after which a job goes by fifo ahead
    of the others. Default: never.
    """
    half_life: float
    """Order fairshare: seconds after which a GPU-second that an owner used counts half; such as 7d.
    Default: 604800.
    """
    fair_shares: object | None
    """Order fairshare: the share of each owner, with the columns vc or user, share
    (docs/operators.md#fair-share). Default: users, or else vcs, share alike.
    """
    estimate_factor: float
    """Queues easy, conservative, and --maintenance: estimates are run times multiplied by this, > 0.
    Default: 1.
    """
    estimate: str
    """Queues easy, conservative, and --maintenance: estimates are run-time, times --estimate-factor,
    or limit: what is left of the job's time_limit, for ever where it has none
    (docs/operators.md). Default: run-time.
    """
    reservations: int
    """Queue conservative: the first so many waiting jobs get a reservation at each pass; the others do
    not start in it. Default: 100.
    """

class PlanOptions(TypedDict, total=False):
    """The options of `ringbco.plan`."""

    order: str
    """Which job gets GPUs first: the smallest gang, or (fifo) the first row. Default: smallest."""
    dispatch: str
    """idle: a job gets idle GPUs, or waits for the next completion. reserve: any GPUs, and it starts
    when it heads the queue of each of them. Default: idle.
    """
    variant: str
    """Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings). Default:
    practical.
    """
    model: str
    """rar: ring-all-reduce with contention; fixed: every job runs its recorded duration. Default: rar."""
    kappa: int | Literal["auto"] | None
    """SJF-BCO: largest gang placed by FA-FFP, GPUs; auto tries 1 and every size. Default: auto."""
    lambda_: float
    """LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1. Default: 1."""
    u: float
    """What a job's estimate is divided by when it is booked; >= 1. Default: 1."""
    horizon: int | Literal["auto"] | None
    """T, slots: every job must end before it. Default: doubled from twice the work bound until a
    schedule exists.
    """
    slot: float
    """Length of a slot, seconds. Default: 1."""
    seed: int
    """Of the planner rand, and of the models drawn for jobs that name none. Default: 0."""
    oversize: str
    """A job larger than its cluster is an error, or (drop) left out and counted. Default: error."""
    sample: float | None
    """Seconds between the timeline's points. Default: 2,000 points over the run."""
    allocations: bool
    """Record which servers each job held (audit needs it). Default: true."""
