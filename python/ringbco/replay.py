"""Replays a job table on a cluster under a scheduling policy: arrays in, an Outcome out."""

from __future__ import annotations

import hashlib
import platform
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from ringbco import _core, causes, metrics, profiles
from ringbco import ties as ties_
from ringbco.cluster import Cluster
from ringbco.errors import ABSENT, InputError, UsageError
from ringbco.jobs import JobTable, TableLike, as_table
from ringbco.outcome import (
    ALLOCATIONS_SCHEMA,
    CARRIED_COLUMNS,
    JOBS_SCHEMA,
    PREEMPTION_SCHEMA,
    TIMELINE_SCHEMA,
    Outcome,
)
from ringbco.scheduling import Scheduling

MODELS: Final = ("rar", "fixed")
CLOCKS: Final = ("continuous", "slot")
VARIANTS: Final = ("practical", "literal")
OVERSIZE: Final = ("error", "drop")
_LARGEST: Final = {"kappa": 2**32 - 1, "seed": 2**64 - 1}
_MOST_SAMPLES: Final = 10_000_000
_WISHES: Final = {
    "oversize": (
        "a job that its cluster can hold",
        "use a larger cluster, or --oversize drop to leave it out",
    ),
    "unplaceable": (
        "a job that can be placed",
        "use another --placement, or --oversize drop to leave it out",
    ),
    "slot-too-short": ("an iteration that fits in a slot", "give a longer --slot, or use --clock continuous"),
    "stuck": ("every job to finish", "give a longer --slot, or use --clock continuous"),
}


@dataclass(frozen=True)
class Policy:
    """A preset's name and the parts it stands for, after overrides."""

    name: str
    order: str
    placement: str
    queue: str
    preemption: str = "none"


@dataclass(frozen=True)
class _Options:
    """The options of a run beside its policy, checked."""

    model: str
    clock: str
    slot: float
    kappa: int
    lambda_: float
    variant: str
    seed: int
    ties: str
    oversize: str
    sample: float | None

    def __post_init__(self) -> None:
        _check_name("model", self.model, MODELS)
        _check_name("clock", self.clock, CLOCKS)
        _check_name("variant", self.variant, VARIANTS)
        _check_name("oversize", self.oversize, OVERSIZE)
        ties_.check(self.ties)
        _check_number("slot", self.slot, 0 < self.slot < np.inf, "a finite number of seconds > 0")
        _check_number("lambda", self.lambda_, 1 <= self.lambda_ < np.inf, "a finite number >= 1")
        for name, largest in _LARGEST.items():
            value = getattr(self, name)
            _check_number(name, value, 0 <= value <= largest, f"an integer from 0 to {largest}")
        if self.sample is not None:
            _check_number("sample", self.sample, 0 < self.sample < np.inf, "a finite number of seconds > 0")


def replay(
    jobs: TableLike,
    cluster: Cluster | str,
    *,
    policy: str = "sjf-bco",
    order: str | None = None,
    placement: str | None = None,
    queue: str | None = None,
    model: str = "rar",
    clock: str = "continuous",
    slot: float = 1.0,
    kappa: int = 8,
    lambda_: float = 1.0,
    variant: str = "practical",
    seed: int = 0,
    ties: str = "rows",
    oversize: str = "error",
    sample: float | None = None,
    allocations: bool = True,
    preempt_cost: float = 30.0,
    thresholds: Sequence[float] = (18_000.0,),
    interval: float = 60.0,
    quantum: float = 60.0,
    predict: str = "history",
    admission: bool = False,
    aging: float | None = None,
    estimate_factor: float = 1.0,
    workload: profiles.Workload | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Replays `jobs` on `cluster` and returns what happened.

    jobs: a job table, a frame with its columns (polars, pyarrow, pandas or any other library with the Arrow
        PyCapsule interface), or the path of a Parquet or CSV file.
    cluster: a `Cluster`, or text for `Cluster.parse` such as "32x8".
    policy: a preset; `order`, `placement` and `queue` override its parts. `policies()` lists them all.
    model: "rar" (ring-all-reduce with contention) or "fixed" (every job runs its recorded duration).
    clock: "continuous", or "slot" with decisions at multiples of `slot` seconds.
    kappa, lambda_, variant: SJF-BCO's largest gang for FA-FFP (GPUs), its spread factor >= 1, its reading.
    seed: of the random placement and of the profiles that fill in what the job table lacks.
    ties: who goes first among jobs of one submission time: "rows", "reverse" or "shuffle:SEED".
    oversize: "error" refuses a job that could never fit, "drop" leaves it out and counts it.
    sample: seconds between the points of the timeline; None for 2,000 points over the run.
    allocations: whether to record which servers each job held.
    preempt_cost: seconds that a resumed job holds its GPUs without progress (policies that preempt).
    thresholds: GPU-seconds of service at which a job falls to the next queue ("tiresias", "gittins").
    interval, quantum: seconds between decisions ("tiresias", "gittins", "ftf"; "time-slice").
    predict: what "qssf" predicts from: "history" or "exact", the recorded duration.
    admission: whether "edf" refuses a job that would miss its deadline even alone.
    aging: seconds of waiting after which a job goes by fifo ahead of the others; None for never.
    estimate_factor: by how much the estimates of queue "easy" are multiplied.
    workload: what `profiles.resolve` gave for this table, cluster, model and seed; None to resolve it here.
    progress: called now and then with (jobs finished, jobs in all).

    Raises InputError for a job that the cluster cannot run, UsageError for a bad option.
    """
    started = time.perf_counter()
    chosen = resolve_policy(policy, order=order, placement=placement, queue=queue)
    options = _Options(model, clock, slot, kappa, lambda_, variant, seed, ties, oversize, sample)
    scheduling = Scheduling(
        preempt_cost, thresholds, interval, quantum, predict, admission, aging, estimate_factor
    )
    scheduling.check_policy(chosen.name, chosen.order, chosen.preemption)
    cluster = Cluster.parse(cluster) if isinstance(cluster, str) else cluster
    table = as_table(jobs)
    vc = profiles.vc_index(table, cluster)
    workload = workload or profiles.resolve(table, cluster, model=model, seed=seed)
    _check_sample(sample, table, workload)
    network = cluster.network
    frame = table.frame
    try:
        result = _core.replay(
            submit=metrics.column(frame, "submit_time"),
            num_gpus=metrics.column(frame, "num_gpus"),
            duration=metrics.column(frame, "duration"),
            iterations=workload.iterations,
            gradient_bytes=workload.gradient_bytes,
            compute_time=workload.compute_time,
            vc=vc,
            server_gpus=cluster.server_gpus,
            server_vc=None if vc is None else _server_vc(cluster),
            network=(
                network.intra_bandwidth,
                network.inter_bandwidth,
                network.reduce_speed,
                network.xi1,
                network.xi2,
                network.alpha,
            ),
            order=chosen.order,
            placement=chosen.placement,
            queue=chosen.queue,
            model=model,
            clock=clock,
            slot=slot,
            kappa=kappa,
            lambda_=lambda_,
            variant=variant,
            seed=seed,
            ties=ties,
            oversize=oversize,
            sample=sample,
            record_allocations=allocations,
            progress=progress,
            preemption=chosen.preemption,
            **scheduling.as_options(),
            **scheduling.columns(table, chosen.order, chosen.preemption),
        )
    except _core.CoreError as error:
        raise _explain(error, table) from None
    if not result.kept.any():
        refused = _refused(result).any()
        fate = "admission refused each one" if refused else "each one is larger than the cluster"
        raise InputError(f"no job is left to replay: {fate}", file=table.source)
    ideal_run_time = workload.ideal_run_time
    why = causes.split(
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        workload,
        network,
        result,
        model=model,
    )
    del workload  # six columns that nothing reads any more, freed before the results are put together
    finished = _jobs(frame, ideal_run_time, why, result)
    # Before the allocations: what it needs for a moment is free again when they take their place.
    summary = _summary(chosen.name, finished, cluster, vc, result)
    outcome = Outcome(
        jobs=finished,
        allocations=_allocations(frame, result) if allocations else None,
        timeline=_timeline(result),
        run=_run(table, cluster, chosen, options, scheduling),
    )
    outcome.summary = metrics.with_seconds(summary, time.perf_counter() - started)
    return outcome


def policies() -> list[Policy]:
    """Every preset, with the order, the placement and the queue discipline that it stands for."""
    return [Policy(*preset) for preset in _core.presets()]


def resolve_policy(
    policy: str, *, order: str | None = None, placement: str | None = None, queue: str | None = None
) -> Policy:
    """The preset of that name with parts replaced; UsageError if a name is in no registry."""
    presets = {preset.name: preset for preset in policies()}
    _check_name("policy", policy, tuple(presets))
    preset = presets[policy]
    for option, value, known in (
        ("order", order, _core.orders()),
        ("placement", placement, _core.placements()),
        ("queue", queue, _core.queues()),
    ):
        if value is not None:
            _check_name(option, value, known)
    for option, value, own in (("order", order, preset.order), ("queue", queue, preset.queue)):
        if preset.preemption != "none" and value not in (None, own):
            raise UsageError(f"option {option}: {policy} ranks all jobs itself; leave the option out")
    parts = (order or preset.order, placement or preset.placement, queue or preset.queue)
    return Policy(preset.name, *parts, preset.preemption)


def _check_name(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"option {option}: {value!r}: expected one of {', '.join(known)}{hint}")


def _check_number(option: str, value: float, good: bool, expected: str) -> None:
    if not good:
        raise UsageError(f"option {option}: {value}: expected {expected}")


def _server_vc(cluster: Cluster) -> NDArray[np.uint32]:
    """Each server's virtual cluster as an index into `cluster.vc_names`."""
    number = {name: index for index, name in enumerate(cluster.vc_names)}
    return np.array([number[name] for name in cluster.server_vc or ()], dtype=np.uint32)


def _explain(error: _core.CoreError, table: JobTable) -> InputError | UsageError:
    """The engine's refusal in the table's terms: its file, its row, the job's name."""
    if error.row is None:
        return UsageError(error.message)
    wish, hint = _WISHES.get(error.kind, ("a job that can be replayed", None))
    job = table.frame.row(error.row, named=True)
    about_size = error.kind in ("oversize", "unplaceable")
    return InputError(
        f"{wish}, but job {job['job_id']!r}: {error.message}",
        file=table.source,
        row=error.row + 1,
        column="num_gpus" if about_size else None,
        value=job["num_gpus"] if about_size else ABSENT,
        hint=hint,
    )


def _check_sample(sample: float | None, table: JobTable, workload: profiles.Workload) -> None:
    """Refuses a timeline that no memory would hold: a run lasts at least as long as if nobody ever queued."""
    submit = metrics.column(table.frame, "submit_time")
    least = float((submit + workload.ideal_run_time).max() - submit.min())
    if sample is not None and least / sample > _MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {_MOST_SAMPLES:,} points;"
            f" the run lasts {least:,.0f} s or longer"
        )


def _jobs(
    frame: pl.DataFrame,
    ideal_run_time: NDArray[np.float64],
    why: dict[str, NDArray[np.float32]],
    result: _core.RunResult,
) -> pl.DataFrame:
    submit = metrics.column(frame, "submit_time")
    jct = result.finish - submit
    columns: dict[str, Any] = {
        "job_id": frame["job_id"],
        "submit_time": frame["submit_time"],
        "start_time": _shared(result.start),
        "finish_time": _shared(result.finish),
        "wait_time": _shared(result.start - submit),
        "run_time": _shared(result.finish - result.start),
        "jct": _shared(jct),
        "slowdown": _shared(jct / ideal_run_time),
        "ideal_run_time": _shared(ideal_run_time),
        "num_gpus": frame["num_gpus"],
        "num_servers": _shared(result.num_servers),
        "max_contention": _shared(result.max_contention),
        "preemptions": _shared(result.preemptions),
    }
    columns |= {name: _shared(values) for name, values in why.items()}
    if result.held is not None and result.lost is not None:
        columns |= dict(zip(PREEMPTION_SCHEMA, map(_shared, (result.held, result.lost)), strict=True))
    columns |= {name: frame[name] for name in CARRIED_COLUMNS if name in frame.columns}
    jobs = pl.DataFrame(columns, schema_overrides=JOBS_SCHEMA | causes.CAUSES_SCHEMA)
    return jobs if result.kept.all() else jobs.filter(pl.Series(result.kept))


def _refused(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether admission refused the job."""
    return np.zeros_like(result.kept) if result.refused is None else result.refused


def _allocations(frame: pl.DataFrame, result: _core.RunResult) -> pl.DataFrame:
    columns = {
        "job_id": frame["job_id"].gather(_shared(result.alloc_job)),
        "server": _shared(result.alloc_server),
        "num_gpus": _shared(result.alloc_gpus),
        "start_time": _shared(result.alloc_start),
        "end_time": _shared(result.alloc_end),
    }
    return pl.DataFrame(columns, schema_overrides=ALLOCATIONS_SCHEMA)


def _shared(values: NDArray[Any]) -> pl.Series:
    """The array as a series that shares its memory, by way of Arrow; polars itself would copy it."""
    return pl.Series(pa.array(values))


def _timeline(result: _core.RunResult) -> pl.DataFrame:
    columns = {
        "time": result.timeline_time,
        "running_jobs": result.running,
        "queued_jobs": result.queued,
        "busy_gpus": result.busy_gpus,
        "queued_gpus": result.queued_gpus,
        "spanning_jobs": result.spanning,
        "mean_contention": result.mean_contention,
    }
    return pl.DataFrame(columns, schema_overrides=TIMELINE_SCHEMA)


def _summary(
    policy: str,
    finished: pl.DataFrame,
    cluster: Cluster,
    vc: NDArray[np.uint32] | None,
    result: _core.RunResult,
) -> dict[str, Any]:
    spanning = result.spanning_seconds
    refused = _refused(result)
    dropped = ~(result.kept | refused)
    figures = metrics.summarise(finished, cluster.num_gpus)
    summary = {
        "policy": policy,
        "jobs": figures.pop("jobs"),
        "jobs_dropped": int(np.count_nonzero(dropped)),
        **({"jobs_refused": int(np.count_nonzero(refused))} if refused.any() else {}),
        **figures,
        "mean_contention": result.contention_seconds / spanning if spanning > 0 else 0.0,
        "events": result.events,
        "decisions": result.decisions,
        "engine_seconds": result.engine_seconds,
    }
    if vc is not None:
        rows = []
        vc_kept = vc[result.kept]
        for number, name in enumerate(cluster.vc_names):
            servers = cluster.vc_servers(name)
            gpus = int(cluster.server_gpus[servers].sum())
            row = {"vc": name, "servers": len(servers), "gpus": gpus}
            jobs = finished.filter(pl.Series(vc_kept == number))
            row["jobs"] = jobs.height
            row["jobs_dropped"] = int(np.count_nonzero(dropped & (vc == number)))
            rows.append(row | metrics.summarise(jobs, gpus) if jobs.height else row)
        summary["vcs"] = rows
    return summary


def _run(
    table: JobTable, cluster: Cluster, policy: Policy, options: _Options, scheduling: Scheduling
) -> dict[str, Any]:
    """Everything needed to repeat the run, as run.toml holds it."""
    path = Path(table.source)
    digest = None
    if path.is_file():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {
        "ringbco": {
            "version": version("ringbco"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            "polars": pl.__version__,
            "pyarrow": version("pyarrow"),
        },
        "trace": {"path": table.source, "sha256": digest, "rows": table.num_jobs},
        "cluster": {"name": cluster.name, **tomllib.loads(cluster.to_toml())},
        "options": {
            "command": "replay",
            "policy": policy.name,
            "order": policy.order,
            "placement": policy.placement,
            "queue": policy.queue,
            "model": options.model,
            "clock": options.clock,
            "slot": float(options.slot),
            "kappa": options.kappa,
            "lambda": float(options.lambda_),
            "variant": options.variant,
            "seed": options.seed,
            "ties": options.ties,
            "oversize": options.oversize,
            "sample": options.sample,
            **scheduling.as_options(),
        },
    }
