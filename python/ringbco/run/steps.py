"""What the engine gives back, in the job table's terms: frames, a summary, refusals."""

from __future__ import annotations

import hashlib
import platform
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

import ringbco
from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import ABSENT, InputError, UsageError, show_path
from ringbco.result import causes, metrics
from ringbco.result.by_type import by_type
from ringbco.result.energy import Held, Sleep, has_watts, totals, watts
from ringbco.result.reliability import DownTime, Losses, used
from ringbco.result.schema import (
    ALLOCATIONS_SCHEMA,
    CARRIED_COLUMNS,
    DECISIONS_SCHEMA,
    ELASTIC_SCHEMA,
    EVICTION_SCHEMA,
    GPUS_SCHEMA,
    JOBS_SCHEMA,
    PAUSES_SCHEMA,
    POWER_SCHEMA,
    PREEMPTION_SCHEMA,
    PRIORITY_SCHEMA,
    SHARES_SCHEMA,
    TIMELINE_SCHEMA,
    TYPES_SCHEMA,
)
from ringbco.result.searches import figures as searching
from ringbco.result.serving import Serving
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, gpus_of
from ringbco.trace.noise import noise
from ringbco.trace.outages import checkpoint_interval
from ringbco.trace.plausibility import doubts
from ringbco.trace.shares import WHOLE, asked_gpus, thousandths
from ringbco.trace.standing import preemptible, priorities

_WISHES: Final = {
    "oversize": (
        "a job that its cluster can hold",
        "use a larger cluster, or --oversize drop to leave it out",
    ),
    "unplaceable": (
        "a job that can be placed",
        "use another --placement, or --oversize drop to leave it out",
    ),
    "over-quota": (
        "a job that its owner's quota lets start",
        "raise the quota or set borrow to true, or use --oversize drop to leave it out",
    ),
    "slot-too-short": ("an iteration that fits in a slot", "give a longer --slot, or use --clock continuous"),
    "stuck": ("every job to finish", "give a longer --slot, or use --clock continuous"),
    "starved": (
        "every job to finish",
        "mend or drop that pair's rows in the table of speeds, or use another --placement",
    ),
}
# A plan has no --placement of its own and knows the slot clock only.
_HINTS_OF_PLAN: Final = {
    "unplaceable": "use another --policy, or --oversize drop to leave it out",
    "slot-too-short": "give a longer --slot",
    "stuck": "give a longer --slot",
}


def explain(error: _core.CoreError, table: JobTable, command: str = "replay") -> InputError | UsageError:
    """The engine's refusal in the table's terms: its file, its row, the job's name; hints for the command."""
    if error.row is None:
        return UsageError(error.message)
    wish, hint = _WISHES.get(error.kind, ("a job that can be replayed", None))
    if command == "plan":
        hint = _HINTS_OF_PLAN.get(error.kind, hint)
    job = table.frame.row(error.row, named=True)
    if error.kind == "oversize" and job.get("gpu_type"):
        hint = f"it may run on {job['gpu_type']} only; {hint}"
    about_size = error.kind in ("oversize", "over-quota", "unplaceable")
    return InputError(
        f"{wish}, but job {job['job_id']!r}: {error.message}",
        file=table.source,
        row=error.row + 1,
        column="num_gpus" if about_size else None,
        value=job["num_gpus"] if about_size else ABSENT,
        hint=hint,
    )


def jobs_frame(
    frame: pl.DataFrame,
    ideal_run_time: NDArray[np.float64],
    why: dict[str, NDArray[np.float32]],
    result: _core.RunResult,
) -> pl.DataFrame:
    """jobs.parquet: one row a job that ran. `why`: the columns of `causes.split`."""
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
    if result.failures is not None and result.lost_work is not None:
        columns |= {"failures": _shared(result.failures), "lost_work": _shared(result.lost_work)}
    if result.evictions is not None:
        columns |= dict(zip(EVICTION_SCHEMA, [_shared(result.evictions)], strict=True))
    if result.pauses is not None and result.rested is not None:
        paused = (_shared(result.pauses), _shared(result.rested), frame["group"])
        columns |= dict(zip(PAUSES_SCHEMA, paused, strict=True))
    levels = priorities(frame)
    if levels is not None:
        columns |= dict(zip(PRIORITY_SCHEMA, [_shared(levels)], strict=True))
    if result.longer is not None and result.held_gpus is not None and result.lost_gpus is not None:
        elastic: tuple[NDArray[Any], ...] = (
            result.longer.astype(np.float32),
            result.held_gpus,
            result.lost_gpus,
            gpus_of(frame, "min_gpus"),
            gpus_of(frame, "max_gpus"),
        )
        columns |= dict(zip(ELASTIC_SCHEMA, map(_shared, elastic), strict=True))
    if result.on_types is not None:
        columns |= dict(zip(TYPES_SCHEMA, [_shared(result.on_types.astype(np.float32))], strict=True))
    shares = thousandths(frame)
    if shares is not None:
        columns |= dict(zip(SHARES_SCHEMA, [_share(shares)], strict=True))
    columns |= {name: frame[name] for name in CARRIED_COLUMNS if name in frame.columns}
    jobs = pl.DataFrame(
        columns, schema_overrides=JOBS_SCHEMA | causes.CAUSES_SCHEMA | ELASTIC_SCHEMA | TYPES_SCHEMA
    )
    return jobs if result.kept.all() else jobs.filter(pl.Series(result.kept))


def _share(shares: NDArray[np.uint32]) -> pl.Series:
    """Thousandths as a part of a GPU; null for a whole one."""
    part = pl.Series(shares / WHOLE)
    return part.set(part == 0.0, None)


def refused(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether admission or a verb refused the job."""
    return np.zeros_like(result.kept) if result.refused is None else result.refused


def ended(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether a verb ended the job before it was done."""
    return np.zeros_like(result.kept) if result.ended is None else result.ended


def allocations_frame(frame: pl.DataFrame, result: _core.RunResult) -> pl.DataFrame:
    """allocations.parquet: one row a stretch of a job on a server, or on a GPU where the table has shares."""
    columns = {
        "job_id": frame["job_id"].gather(_shared(result.alloc_job)),
        "server": _shared(result.alloc_server),
        "num_gpus": _shared(result.alloc_gpus),
        "start_time": _shared(result.alloc_start),
        "end_time": _shared(result.alloc_end),
    }
    if thousandths(frame) is not None:
        parts = (_shared(result.alloc_gpu), _share(result.alloc_share))
        columns |= dict(zip(GPUS_SCHEMA, parts, strict=True))
    return pl.DataFrame(columns, schema_overrides=ALLOCATIONS_SCHEMA)


def job_columns(frame: pl.DataFrame, workload: profiles.Workload) -> _core._Jobs:
    """What the engine reads of every job, for a replay or a plan."""
    return {
        "submit": metrics.column(frame, "submit_time"),
        "num_gpus": metrics.column(frame, "num_gpus"),
        "duration": metrics.column(frame, "duration"),
        "iterations": workload.iterations,
        "gradient_bytes": workload.gradient_bytes,
        "compute_time": workload.compute_time,
        "range": _range(frame),
        "noise": noise(frame),
        "shares": thousandths(frame),
        "checkpoint_interval": checkpoint_interval(frame),
        "priority": priorities(frame),
        "preemptible": preemptible(frame),
    }


def _range(frame: pl.DataFrame) -> tuple[NDArray[np.uint32], NDArray[np.uint32]] | None:
    """The least and the most GPUs of every job; None where every job is rigid."""
    if not {"min_gpus", "max_gpus"} & set(frame.columns):
        return None
    least, most = gpus_of(frame, "min_gpus"), gpus_of(frame, "max_gpus")
    return (least, most) if (least != most).any() else None


def decisions_frame(frame: pl.DataFrame, result: _core.RunResult) -> pl.DataFrame:
    """decisions.parquet: one row a decision, or a server of a start; null where a verb has no server."""
    has_server = pl.Series(result.log_gpus) > 0
    verbs = pl.Series(_core.verbs(), dtype=pl.String)
    columns = {
        "time": _shared(result.log_time),
        "verb": verbs.gather(_shared(result.log_verb)),
        "job_id": frame["job_id"].gather(_shared(result.log_job)),
        "server": _shared(result.log_server),
        "num_gpus": _shared(result.log_gpus),
    }
    told = pl.DataFrame(columns, schema_overrides=DECISIONS_SCHEMA)
    absent = pl.when(has_server)
    return told.with_columns(absent.then("server").alias("server"), absent.then("num_gpus").alias("num_gpus"))


class _Borrowed:
    """An array as Arrow's interface sees it: its own memory, not a copy.

    `pl.Series` of a numpy array copies it. Of a pyarrow array it imports pyarrow.compute, and making that of
    a numpy array imports pandas where it is installed: more work than a small replay.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        values = np.ascontiguousarray(values)
        buffers = [None, pa.py_buffer(values)]
        self._array = pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), values.size, buffers)

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        exported: tuple[object, object] = self._array.__arrow_c_array__(requested_schema)
        return exported


def _shared(values: NDArray[Any]) -> pl.Series:
    """The array as a series that shares its memory."""
    return pl.Series(_Borrowed(values))


def timeline_frame(
    result: _core.RunResult,
    cluster: Cluster | None = None,
    *,
    shares: bool = False,
    outages: pl.DataFrame | None = None,
    replicas: Held | None = None,
) -> pl.DataFrame:
    """timeline.parquet: the cluster's state at sampled instants. shares: GPUs are counted in thousandths.

    cluster: None for no power. outages: as the clock sees them, where the run was given any. replicas: of
    services.
    """

    def gpus(units: NDArray[np.uint64]) -> pl.Series:
        return _shared((units + WHOLE // 2) // WHOLE if shares else units)

    columns = {
        "time": _shared(result.timeline_time),
        "running_jobs": _shared(result.running),
        "queued_jobs": _shared(result.queued),
        "busy_gpus": gpus(result.busy_gpus),
        "queued_gpus": gpus(result.queued_gpus),
        "spanning_jobs": _shared(result.spanning),
        "mean_contention": _shared(result.mean_contention),
    }
    # Without allocations nothing tells which types were held.
    if cluster is not None and has_watts(cluster) and result.alloc_server.size:
        down = None if outages is None else DownTime.of(outages, cluster.server_gpus)
        drawn = watts(
            cluster,
            result.timeline_time,
            held=[
                Held(result.alloc_server, held_gpus(result), result.alloc_start, result.alloc_end),
                *([] if replicas is None else [replicas]),
            ],
            down=down,
            asleep=None if result.asleep is None else Sleep.of(result.asleep),
        )
        columns |= dict(zip(POWER_SCHEMA, [_shared(drawn)], strict=True))
    return pl.DataFrame(columns, schema_overrides=TIMELINE_SCHEMA | POWER_SCHEMA)


def _cut_short(
    frame: pl.DataFrame, result: _core.RunResult, among: NDArray[np.bool_]
) -> metrics.CutShort | None:
    """What the jobs that a verb ended held, of those `among`; None where it ended none of them."""
    those = ended(result) & among & ~np.isnan(result.finish)
    if not those.any() or result.held is None:
        return None
    held = result.held_gpus
    if held is None:
        held = asked_gpus(frame) * result.held
    submit = metrics.column(frame, "submit_time")[those]
    submitted = float(submit.min()), float(submit.max())
    return metrics.CutShort(float(held[those].sum()), submitted, float(result.finish[those].max()))


def _losses(
    frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult, down: DownTime | None
) -> dict[str, Any]:
    """What outages and evictions took from the jobs that were done; nothing where the run knows neither."""
    if down is None and result.evictions is None:
        return {}
    ideal, taken = metrics.column(finished, "ideal_run_time"), metrics.column(finished, "run_time")
    paused = metrics.fairness(finished)["lost_gpu_seconds"]
    held_by_jobs = metrics.gpu_seconds(finished)
    if down is None or result.failed is None:
        return dict(used(held_by_jobs, paused, 0.0, ideal, taken))
    job, server, gpus, time, lost = result.failed
    mine = result.kept[job]
    shares = thousandths(frame)
    held = gpus.astype(np.float64)
    if shares is not None:
        held = np.where(shares[job] > 0, shares[job] / WHOLE, held)
    cause = down.causes(server[mine].astype(np.int64), time[mine])
    losses = Losses(held[mine], lost[mine], cause)
    return losses.figures(held_by_jobs, paused, ideal, taken)


def _served(
    frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult, serving: Serving | None
) -> dict[str, Any]:
    """What services got; nothing where the run knows none."""
    return {} if serving is None else serving.figures(*run_time(frame, finished, result))


def _down_by_type(
    cluster: Cluster, first: float, last: float, down: DownTime | None
) -> NDArray[np.float64] | None:
    """GPU-seconds of servers of each type that were down from `first` to `last`, s."""
    if down is None or cluster.server_types is None:
        return None
    types = range(len(cluster.types))
    servers = [np.flatnonzero(cluster.server_types == number) for number in types]
    return np.array([down.among(own).gpu_seconds(first, last) for own in servers])


def _asleep_by_type(
    cluster: Cluster, first: float, last: float, result: _core.RunResult
) -> NDArray[np.float64] | None:
    """The same of servers that were asleep."""
    if result.asleep is None or cluster.server_types is None:
        return None
    return Sleep.of(result.asleep).held(cluster).gpu_seconds(cluster, first, last)


def held_gpus(result: _core.RunResult) -> NDArray[np.float64] | NDArray[np.uint32]:
    """GPUs of each row of the allocations; less than 1 of a share."""
    if result.alloc_share.size == 0:
        return result.alloc_gpus
    return np.where(result.alloc_share > 0, result.alloc_share / WHOLE, 1.0)


def run_time(frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult) -> tuple[float, float]:
    """When the run begins and ends, s: its makespan lies between."""
    cut_short = _cut_short(frame, result, np.ones_like(result.kept))
    first = float(metrics.column(finished, "submit_time").min())
    last = float(metrics.column(finished, "finish_time").max())
    if cut_short is not None:
        first, last = min(first, cut_short.submitted[0]), max(last, cut_short.until)
    return first, last


def summarise_run(
    policy: str,
    frame: pl.DataFrame,
    finished: pl.DataFrame,
    cluster: Cluster,
    *,
    vc: NDArray[np.uint32] | None,
    result: _core.RunResult,
    outages: pl.DataFrame | None = None,
    serving: Serving | None = None,
    searches: pl.DataFrame | None = None,
) -> dict[str, Any]:
    """summary.json without the times that reading and writing take. `vc`: as `profiles.vc_index` gives it.

    frame: the job table; finished: jobs.parquet. outages: as the clock sees them, where the run was given
    any; serving: what became of its services, likewise. searches: searches.parquet, where there is one.
    """
    spanning = result.spanning_seconds
    fates = {"jobs_dropped": ~(result.kept | refused(result) | ended(result))}
    for name, fate in (("jobs_refused", refused(result)), ("jobs_ended", ended(result))):
        if fate.any():
            fates[name] = fate
    cut_short = _cut_short(frame, result, np.ones_like(result.kept))
    down = None if outages is None else DownTime.of(outages, cluster.server_gpus)
    figures = metrics.summarise(finished, cluster.num_gpus, result.held_while_submitting, cut_short, down)
    summary = {
        "policy": policy,
        "jobs": figures.pop("jobs"),
        **{name: int(np.count_nonzero(fate)) for name, fate in fates.items()},
        **figures,
        **_losses(frame, finished, result, down),
        **_served(frame, finished, result, serving),
        **({} if searches is None else searching(searches)),
        "mean_contention": result.contention_seconds / spanning if spanning > 0 else 0.0,
        "events": result.events,
        "decisions": result.decisions,
        "engine_seconds": result.engine_seconds,
    }
    first, last = run_time(frame, finished, result)
    replicas = None if serving is None else serving.held(last)
    types = by_type(
        cluster,
        server=result.alloc_server,
        num_gpus=held_gpus(result),
        start=result.alloc_start,
        end=result.alloc_end,
        span=summary["makespan"],
        down=_down_by_type(cluster, first, last, down),
        asleep=_asleep_by_type(cluster, first, last, result),
        served=None
        if replicas is None or cluster.server_types is None
        else replicas.gpu_seconds(cluster, first, last),
    )
    if types and result.alloc_server.size:  # where allocations are written down
        summary |= {**totals(types), "gpu_types": types}
    if vc is not None:
        rows = []
        vc_kept = vc[result.kept]
        for number, name in enumerate(cluster.vc_names):
            servers = cluster.vc_servers(name)
            gpus = int(cluster.server_gpus[servers].sum())
            row = {"vc": name, "servers": len(servers), "gpus": gpus}
            jobs = finished.filter(pl.Series(vc_kept == number))
            row["jobs"] = jobs.height
            row |= {name: int(np.count_nonzero(fate & (vc == number))) for name, fate in fates.items()}
            held = float(result.held_while_submitting_by_vc[number])
            cut_short = _cut_short(frame, result, vc == number)
            mine = None if down is None else down.among(servers)
            rows.append(row | metrics.summarise(jobs, gpus, held, cut_short, mine) if jobs.height else row)
        summary["vcs"] = rows
    return summary


def describe_run(
    table: JobTable,
    cluster: Cluster,
    policy: str,
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Everything needed to repeat the run, as run.toml holds it; `options` are those of `options.described`.

    `warnings`, if there are any, are those that the run gave.
    """
    path = Path(table.source)
    digest = None
    if path.is_file():
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    found = doubts(table, cluster)
    described = tomllib.loads(cluster.with_recorded(cluster.recorded_on).to_toml())
    return {
        **({"warnings": found} if found else {}),
        "ringbco": {
            "version": ringbco.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "polars": pl.__version__,
            "pyarrow": pa.__version__,
        },
        "trace": {"path": show_path(table.source), "sha256": digest, "rows": table.num_jobs},
        # The recorded cluster is always told: the jobs' work hangs on it.
        "cluster": {
            "name": show_path(cluster.name),
            "servers": described.pop("servers"),  # first, as run.toml has them: lists before tables
            **described,
        },
        "options": {"command": "replay", "policy": policy, **options},
    }
