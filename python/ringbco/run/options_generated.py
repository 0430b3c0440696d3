"""The options of `ringbco.replay`, for Python.

Made by `python -m ringbco.dev.generate` of rust/options/table.rs: change that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypedDict

from ringbco.run.option import Option


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
    1 is a share of the span of submissions, any other a time of the results
    (docs/results.md#a-window). Default: the first submission.
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
    """When servers are down: a file with the columns server, down_at, up_at and cause, or
    draw:mtbf=42d,mttr=2h[,seed=N|run], which lets servers fail at random until the last job is
    done, by default with the run's seed (docs/outages.md). Default: none.
    """
    maintenance: object | None
    """When servers will be down, as known ahead, with the columns server, down_at, up_at and cause: an
    order, srtf and srsf start no job that by its estimate would still run then; all others meet
    it as an outage (docs/operators.md#maintenance). Default: none.
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


REPLAY: Final[dict[str, Option]] = {
    "policy": Option(
        name="policy",
        kind="name",
        default="sjf-bco",
        help=(
            "A preset of order + placement + queue, or log:FILE, the decisions.parquet of "
            "another run. fifo: fifo + consolidate + strict; sjf: sjf + consolidate + strict; "
            "smallest: smallest + consolidate + strict; ff: fifo + first-fit + strict; ls: "
            "fifo + least-loaded + strict; rand: fifo + random + strict; sjf-bco: smallest + "
            "sjf-bco + strict; qssf: qssf + consolidate + strict; srtf: preemptive + "
            "consolidate; srsf: preemptive + consolidate; tiresias: preemptive + consolidate; "
            "gittins: preemptive + consolidate; ftf: preemptive + consolidate; edf: "
            "preemptive + consolidate; time-slice: preemptive + consolidate; repack: "
            "preemptive + consolidate; afs: preemptive + consolidate; optimus: preemptive + "
            "consolidate; elastic-srtf: preemptive + consolidate; elasticflow: preemptive + "
            "consolidate; gavel, allox, sia: by linear or integer programs (extra lp)."
        ),
        panel="Policy",
        names=(
            "fifo",
            "sjf",
            "smallest",
            "ff",
            "ls",
            "rand",
            "sjf-bco",
            "qssf",
            "srtf",
            "srsf",
            "tiresias",
            "gittins",
            "ftf",
            "edf",
            "time-slice",
            "repack",
            "afs",
            "optimus",
            "elastic-srtf",
            "elasticflow",
        ),
    ),
    "order": Option(
        name="order",
        kind="name",
        default=None,
        help=(
            "Which queued job comes first: fifo, sjf, smallest, qssf, fairshare, column:NAME. "
            "A column is one of the job table; the least comes first."
        ),
        panel="Policy",
        names=("fifo", "sjf", "smallest", "qssf", "fairshare", "column"),
        optional=True,
        absent="the policy's",
    ),
    "placement": Option(
        name="placement",
        kind="name",
        default=None,
        help=(
            "Which idle GPUs a job gets: first-fit, consolidate, best-fit, worst-fit, "
            "emptiest, fgd, least-loaded, random, fa-ffp, lbsgf, sjf-bco."
        ),
        panel="Policy",
        names=(
            "first-fit",
            "consolidate",
            "best-fit",
            "worst-fit",
            "emptiest",
            "fgd",
            "least-loaded",
            "random",
            "fa-ffp",
            "lbsgf",
            "sjf-bco",
        ),
        optional=True,
        absent="the policy's",
    ),
    "queue": Option(
        name="queue",
        kind="name",
        default=None,
        help="What happens behind a job that cannot start: strict, skip, easy, conservative.",
        panel="Policy",
        names=("strict", "skip", "easy", "conservative"),
        optional=True,
        absent="the policy's",
    ),
    "model": Option(
        name="model",
        kind="name",
        default="rar",
        help=(
            "rar: ring-all-reduce with contention; fixed: every job runs its recorded "
            "duration; table: speeds as measured (--tables)."
        ),
        panel="Execution",
        names=("rar", "fixed", "table"),
    ),
    "tables": Option(
        name="tables",
        kind="file",
        default=None,
        help=(
            "Model table: measured speeds, with the columns model, gpu_type, gpus, servers, "
            "rate (docs/tables.md)."
        ),
        panel="Execution",
        expected="a Parquet or CSV file, or a frame, of measured speeds",
        optional=True,
        absent="none",
        word="none",
        form="FILE",
    ),
    "sharing": Option(
        name="sharing",
        kind="name",
        default="count",
        help=(
            "Under --model rar: count, jobs that span a server slow each other down; off, "
            "nobody slows anybody, as if each had the links to itself."
        ),
        panel="Execution",
        names=("count", "off"),
    ),
    "clock": Option(
        name="clock",
        kind="name",
        default="continuous",
        help=("continuous, or slot: decisions at multiples of --slot and whole iterations per slot."),
        panel="Execution",
        names=("continuous", "slot"),
    ),
    "slot": Option(
        name="slot",
        kind="number",
        default=1.0,
        help="Length of a slot, seconds. With --clock slot only: refused without it.",
        panel="Execution",
        expected="a number of seconds > 0 and <= 1e+16",
        above=True,
        most=1e16,
        unit="s",
        users=(("clock", ("slot",)),),
    ),
    "kappa": Option(
        name="kappa",
        kind="integer",
        default=8,
        help="SJF-BCO: largest gang placed by FA-FFP, GPUs.",
        panel="Policy",
        expected="an integer from 0 to 4294967295",
        most=4294967295,
        unit="GPUs",
        users=(("placement", ("sjf-bco",)),),
        policies=("sjf-bco",),
    ),
    "lambda_": Option(
        name="lambda",
        kind="number",
        default=1.0,
        help=("LBSGF looks at the least busy servers with this many times the gang's GPUs; >= 1."),
        panel="Policy",
        expected="a finite number >= 1",
        least=1.0,
        users=(("placement", ("lbsgf", "sjf-bco")),),
        policies=("sjf-bco",),
    ),
    "variant": Option(
        name="variant",
        kind="name",
        default="practical",
        help=("Reading of FA-FFP and LBSGF: practical (the paper's prose) or literal (its listings)."),
        panel="Policy",
        names=("practical", "literal"),
        users=(("placement", ("fa-ffp", "lbsgf", "sjf-bco")),),
        policies=("sjf-bco",),
    ),
    "seed": Option(
        name="seed",
        kind="integer",
        default=0,
        help="Of the random placement, and of the models drawn for jobs that name none.",
        panel="Execution",
        expected="an integer from 0 to 18446744073709551615",
        most=18446744073709551615,
        users=(("placement", ("random",)),),
        policies=("rand",),
        exclusive=False,
    ),
    "ties": Option(
        name="ties",
        kind="ties",
        default="rows",
        help=("Who goes first of one submission time: rows (the lower row), reverse, or shuffle:SEED."),
        panel="Execution",
        expected="rows, reverse or shuffle:SEED (0 to 2^64 - 1)",
        names=("rows", "reverse"),
        form="rows|reverse|shuffle:SEED",
    ),
    "type_order": Option(
        name="type_order",
        kind="name",
        default="fastest",
        help=(
            "Which of the GPU types that a job may use it tries first: fastest (for this "
            "job), cheapest (price per unit of its work) or listed (as in gpu_type). Where "
            "servers name types."
        ),
        panel="Policy",
        names=("fastest", "cheapest", "listed"),
    ),
    "oversize": Option(
        name="oversize",
        kind="name",
        default="error",
        help="A job larger than its cluster is an error, or (drop) left out and counted.",
        panel="Execution",
        names=("error", "drop"),
    ),
    "sample": Option(
        name="sample",
        kind="number",
        default=None,
        help="Seconds between the timeline's points.",
        panel="Output",
        expected="a number of seconds > 0 and <= 1e+16",
        above=True,
        most=1e16,
        optional=True,
        absent="2,000 points over the run",
        unit="s",
    ),
    "measure_from": Option(
        name="measure_from",
        kind="moment",
        default=None,
        help=(
            "Figures are of the jobs submitted from then on, and of the time from then on: a "
            "number from 0 to 1 is a share of the span of submissions, any other a time of "
            "the results (docs/results.md#a-window)."
        ),
        panel="Output",
        expected="a share from 0 to 1, or a time >= 0 such as 2.5d, 6h, 30min, 90s, or seconds > 1",
        optional=True,
        absent="the first submission",
        unit="share or s",
        form="SHARE|TIME",
    ),
    "measure_to": Option(
        name="measure_to",
        kind="moment",
        default=None,
        help=(
            "Figures are of the jobs submitted before then, and of the time before then, "
            "written as for --measure-from."
        ),
        panel="Output",
        expected="a share from 0 to 1, or a time >= 0 such as 2.5d, 6h, 30min, 90s, or seconds > 1",
        optional=True,
        absent="the end of the run",
        unit="share or s",
        form="SHARE|TIME",
    ),
    "allocations": Option(
        name="allocations",
        kind="flag",
        default=True,
        help="Record which servers each job held (audit needs it).",
        panel="Output",
        expected="True or False",
    ),
    "decisions": Option(
        name="decisions",
        kind="flag",
        default=False,
        help=(
            "Write down every decision: who starts, stops or is refused, when and where (decisions.parquet)."
        ),
        panel="Output",
        expected="True or False",
    ),
    "interference": Option(
        name="interference",
        kind="number",
        default=0.0,
        help=(
            "Shares of a GPU: with n jobs on one, each runs at 1 / (1 + interference (n - 1)) "
            "of its rate, but for two measured side by side (model table)."
        ),
        panel="Execution",
        expected="a finite number >= 0",
    ),
    "preempt_cost": Option(
        name="preempt_cost",
        kind="number",
        default=30.0,
        help=("Policies that preempt: seconds that a resumed job holds its GPUs without progress."),
        panel="Other schedulers (docs/policies.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
        users=(
            (
                "preemption",
                (
                    "srtf",
                    "srsf",
                    "tiresias",
                    "gittins",
                    "ftf",
                    "edf",
                    "time-slice",
                    "repack",
                    "afs",
                    "optimus",
                    "elastic-srtf",
                    "elasticflow",
                    "log",
                    "outside",
                ),
            ),
        ),
        policies=(
            "srtf",
            "srsf",
            "tiresias",
            "gittins",
            "ftf",
            "edf",
            "time-slice",
            "repack",
            "afs",
            "optimus",
            "elastic-srtf",
            "elasticflow",
        ),
    ),
    "start_cost": Option(
        name="start_cost",
        kind="number",
        default=0.0,
        help=("Seconds that a job holds its GPUs without progress when it starts for the first time."),
        panel="Execution",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
    ),
    "move_cost": Option(
        name="move_cost",
        kind="number",
        default=None,
        help=("Policies that move jobs: seconds that a moved job holds its GPUs without progress."),
        panel="Other schedulers (docs/policies.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        optional=True,
        absent="preempt-cost",
        unit="s",
        users=(("preemption", ("afs", "optimus", "elastic-srtf", "elasticflow", "log", "outside")),),
        policies=("afs", "optimus", "elastic-srtf", "elasticflow"),
    ),
    "resize_cost": Option(
        name="resize_cost",
        kind="number",
        default=None,
        help=("Policies that resize jobs: seconds that a resized job holds its GPUs without progress."),
        panel="Other schedulers (docs/policies.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        optional=True,
        absent="preempt-cost",
        unit="s",
        users=(("preemption", ("afs", "optimus", "elastic-srtf", "elasticflow", "log", "outside")),),
        policies=("afs", "optimus", "elastic-srtf", "elasticflow"),
    ),
    "outages": Option(
        name="outages",
        kind="file",
        default=None,
        help=(
            "When servers are down: a file with the columns server, down_at, up_at and cause, "
            "or draw:mtbf=42d,mttr=2h[,seed=N|run], which lets servers fail at random until "
            "the last job is done, by default with the run's seed (docs/outages.md)."
        ),
        panel="Outages (docs/outages.md)",
        expected="a Parquet or CSV file, or a frame, of outages",
        optional=True,
        absent="none",
        word="none",
        form="FILE|draw:...",
    ),
    "maintenance": Option(
        name="maintenance",
        kind="file",
        default=None,
        help=(
            "When servers will be down, as known ahead, with the columns server, down_at, "
            "up_at and cause: an order, srtf and srsf start no job that by its estimate would "
            "still run then; all others meet it as an outage (docs/operators.md#maintenance)."
        ),
        panel="Outages (docs/outages.md)",
        expected="a Parquet or CSV file, or a frame, of maintenance",
        optional=True,
        absent="none",
        word="none",
        form="FILE",
    ),
    "checkpoint_interval": Option(
        name="checkpoint_interval",
        kind="number",
        default=1800.0,
        help=(
            "Outages: seconds of progress between two checkpoints of a job without a "
            "checkpoint_interval of its own; 0: nothing is lost, inf: all that a stay did."
        ),
        panel="Outages (docs/outages.md)",
        expected="a time >= 0 s, or inf",
        endless=True,
        unit="s",
    ),
    "checkpoint_cost": Option(
        name="checkpoint_cost",
        kind="number",
        default=0.0,
        help=(
            "Seconds without progress that a checkpoint takes: one after each checkpoint "
            "interval of a stay, none at its end."
        ),
        panel="Outages (docs/outages.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
    ),
    "services": Option(
        name="services",
        kind="file",
        default=None,
        help=(
            "How many replicas services want, with the columns service, time, replicas, "
            "gpus_per_replica (docs/services.md)."
        ),
        panel="Services (docs/services.md)",
        expected="a Parquet or CSV file, or a frame, of services",
        optional=True,
        absent="none",
        word="none",
        form="FILE",
    ),
    "sleep_after": Option(
        name="sleep_after",
        kind="number",
        default=float("inf"),
        help=(
            "A server sleeps, and draws nothing, once none of its GPUs was held for longer "
            "than so many seconds; inf: never."
        ),
        panel="Energy (docs/energy.md)",
        expected="a time >= 0 s, or inf",
        endless=True,
        unit="s",
    ),
    "wake_time": Option(
        name="wake_time",
        kind="number",
        default=0.0,
        help=("Seconds by which the pause of a job is longer that starts on a server that sleeps."),
        panel="Energy (docs/energy.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
    ),
    "evict": Option(
        name="evict",
        kind="flag",
        default=False,
        help=(
            "Jobs of higher priority evict preemptible ones of lower priority where they find "
            "no GPUs (docs/priorities.md)."
        ),
        panel="Execution",
        expected="True or False",
    ),
    "quota": Option(
        name="quota",
        kind="file",
        default=None,
        help=(
            "How many GPUs owners may hold, with the columns vc or user, gpus, borrow (docs/priorities.md)."
        ),
        panel="Execution",
        expected="a Parquet or CSV file, or a frame, of quotas",
        optional=True,
        absent="none",
        word="none",
        form="FILE",
    ),
    "enforce_limits": Option(
        name="enforce_limits",
        kind="flag",
        default=False,
        help=(
            "A job that has held its GPUs for its time_limit, seconds over all its stays, "
            "ends there, done or not (docs/operators.md)."
        ),
        panel="Execution",
        expected="True or False",
    ),
    "preempt_after": Option(
        name="preempt_after",
        kind="number",
        default=0.0,
        help=(
            "Policies that stop jobs, and --evict: seconds from the start of a stay, its "
            "pause included, for which a job is not stopped for others (docs/operators.md); "
            "0: not at all."
        ),
        panel="Execution",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
        users=(
            (
                "preemption",
                (
                    "srtf",
                    "srsf",
                    "tiresias",
                    "gittins",
                    "ftf",
                    "edf",
                    "time-slice",
                    "repack",
                    "afs",
                    "optimus",
                    "elastic-srtf",
                    "elasticflow",
                    "outside",
                ),
            ),
        ),
        policies=(
            "srtf",
            "srsf",
            "tiresias",
            "gittins",
            "ftf",
            "edf",
            "time-slice",
            "repack",
            "afs",
            "optimus",
            "elastic-srtf",
            "elasticflow",
        ),
    ),
    "max_preemptions": Option(
        name="max_preemptions",
        kind="integer",
        default=None,
        help=(
            "Policies that stop jobs, and --evict: so many stays of a job are ended for "
            "others at most (docs/operators.md)."
        ),
        panel="Execution",
        expected="an integer from 0 to 4294967295",
        most=4294967295,
        optional=True,
        absent="no limit",
        users=(
            (
                "preemption",
                (
                    "srtf",
                    "srsf",
                    "tiresias",
                    "gittins",
                    "ftf",
                    "edf",
                    "time-slice",
                    "repack",
                    "afs",
                    "optimus",
                    "elastic-srtf",
                    "elasticflow",
                    "outside",
                ),
            ),
        ),
        policies=(
            "srtf",
            "srsf",
            "tiresias",
            "gittins",
            "ftf",
            "edf",
            "time-slice",
            "repack",
            "afs",
            "optimus",
            "elastic-srtf",
            "elasticflow",
        ),
    ),
    "search": Option(
        name="search",
        kind="search",
        default=None,
        help=(
            "asha:eta=3,rungs=4: of the trials of a search (column group) that reach a rung, "
            "the best third goes on (docs/searches.md)."
        ),
        panel="Execution",
        expected="asha:eta=E,rungs=R with integers E >= 2, R >= 1 and E^R <= 2^20",
        optional=True,
        word="none",
        form="asha:eta=E,rungs=R",
    ),
    "thresholds": Option(
        name="thresholds",
        kind="numbers",
        default=(18000.0,),
        help=(
            "tiresias, gittins: service, GPU-seconds, at which a job falls to the next queue; "
            "several separated by commas."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="GPU-seconds > 0 in ascending order",
        above=True,
        unit="GPU-seconds",
        users=(("preemption", ("tiresias", "gittins")),),
        policies=("tiresias", "gittins"),
        form="S[,S...]",
    ),
    "within": Option(
        name="within",
        kind="name",
        default="fifo",
        help=(
            "tiresias, gittins: the order inside a queue: fifo, or list, in which jobs that "
            "run move ahead of those that do not, and newcomers and those from another queue "
            "join the end (docs/policies.md)."
        ),
        panel="Other schedulers (docs/policies.md)",
        names=("fifo", "list"),
        users=(("preemption", ("tiresias", "gittins")),),
        policies=("tiresias", "gittins"),
    ),
    "interval": Option(
        name="interval",
        kind="number",
        default=None,
        help=(
            "srtf, srsf, tiresias, gittins, ftf: seconds between decisions. Policies that "
            "resize jobs: seconds after which they decide though nothing happened."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="a number of seconds > 0 and <= 1e+09",
        above=True,
        most=1000000000.0,
        optional=True,
        absent="60; none for srtf, srsf and policies that resize jobs",
        unit="s",
        users=(
            (
                "preemption",
                (
                    "srtf",
                    "srsf",
                    "tiresias",
                    "gittins",
                    "ftf",
                    "afs",
                    "optimus",
                    "elastic-srtf",
                    "elasticflow",
                ),
            ),
        ),
        policies=(
            "srtf",
            "srsf",
            "tiresias",
            "gittins",
            "ftf",
            "afs",
            "optimus",
            "elastic-srtf",
            "elasticflow",
        ),
    ),
    "resize_every": Option(
        name="resize_every",
        kind="number",
        default=300.0,
        help=("Policies that resize jobs: seconds for which a job keeps the GPUs that it was given."),
        panel="Other schedulers (docs/policies.md)",
        expected="a time >= 0 and <= 1e+09 s",
        most=1000000000.0,
        unit="s",
        users=(("preemption", ("afs", "optimus", "elastic-srtf", "elasticflow")),),
        policies=("afs", "optimus", "elastic-srtf", "elasticflow"),
    ),
    "quantum": Option(
        name="quantum",
        kind="number",
        default=60.0,
        help="time-slice: seconds between decisions.",
        panel="Other schedulers (docs/policies.md)",
        expected="a number of seconds > 0 and <= 1e+09",
        above=True,
        most=1000000000.0,
        unit="s",
        users=(("preemption", ("time-slice",)),),
        policies=("time-slice",),
    ),
    "predict": Option(
        name="predict",
        kind="name",
        default="history",
        help=(
            "qssf, repack: predict from the history of completed jobs, or exact: know the recorded duration."
        ),
        panel="Other schedulers (docs/policies.md)",
        names=("history", "exact"),
        users=(("order", ("qssf",)), ("preemption", ("repack",))),
        policies=("qssf", "repack"),
    ),
    "admission": Option(
        name="admission",
        kind="flag",
        default=False,
        help=("edf: refuse a job that on arrival would miss its deadline even alone. Default: take all."),
        panel="Other schedulers (docs/policies.md)",
        expected="True or False",
        users=(("preemption", ("edf",)),),
        policies=("edf",),
        demand=True,
    ),
    "aging": Option(
        name="aging",
        kind="number",
        default=None,
        help=(
            "Orders sjf, smallest, qssf, fairshare: seconds of waiting after which a job goes "
            "by fifo ahead of the others."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="a finite time >= 0 s",
        optional=True,
        absent="never",
        unit="s",
        users=(("order", ("sjf", "smallest", "qssf", "fairshare", "column")),),
        policies=("sjf", "smallest", "sjf-bco", "qssf"),
        demand=True,
    ),
    "half_life": Option(
        name="half_life",
        kind="number",
        default=604800.0,
        help=(
            "Order fairshare: seconds after which a GPU-second that an owner used counts half; such as 7d."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="a time > 0 and <= 1e+16 s",
        above=True,
        most=1e16,
        unit="s",
        users=(("order", ("fairshare",)),),
    ),
    "fair_shares": Option(
        name="fair_shares",
        kind="file",
        default=None,
        help=(
            "Order fairshare: the share of each owner, with the columns vc or user, share "
            "(docs/operators.md#fair-share). Default: users, or else vcs, share alike."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="a Parquet or CSV file, or a frame, of shares",
        optional=True,
        absent="none",
        word="none",
        users=(("order", ("fairshare",)),),
        demand=True,
        form="FILE",
    ),
    "estimate_factor": Option(
        name="estimate_factor",
        kind="number",
        default=1.0,
        help=(
            "Queues easy, conservative, and --maintenance: estimates are run times multiplied by this, > 0."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="a number > 0",
        above=True,
        users=(("queue", ("easy", "conservative")),),
    ),
    "estimate": Option(
        name="estimate",
        kind="name",
        default="run-time",
        help=(
            "Queues easy, conservative, and --maintenance: estimates are run-time, times "
            "--estimate-factor, or limit: what is left of the job's time_limit, for ever "
            "where it has none (docs/operators.md)."
        ),
        panel="Other schedulers (docs/policies.md)",
        names=("run-time", "limit"),
        users=(("queue", ("easy", "conservative")),),
    ),
    "reservations": Option(
        name="reservations",
        kind="integer",
        default=100,
        help=(
            "Queue conservative: the first so many waiting jobs get a reservation at each "
            "pass; the others do not start in it."
        ),
        panel="Other schedulers (docs/policies.md)",
        expected="an integer from 1 to 4294967295",
        least=1,
        most=4294967295,
        unit="jobs",
        users=(("queue", ("conservative",)),),
    ),
}
