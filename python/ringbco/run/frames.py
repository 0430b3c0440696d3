"""What the engine gives back, in the job table's terms: frames, a summary, refusals."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

import ringbco
from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import ABSENT, InputError, UsageError, show_path
from ringbco.result import metrics
from ringbco.result.columns import Column, Columns
from ringbco.result.energy import Held, Sleep, has_watts, watts
from ringbco.result.reliability import DownTime
from ringbco.result.schema import (
    ALLOCATIONS_SCHEMA,
    CARRIED_SCHEMA,
    CHAINS_SCHEMA,
    ELASTIC_SCHEMA,
    EVICTION_SCHEMA,
    FAILURE_SCHEMA,
    GPUS_SCHEMA,
    JOBS_SCHEMA,
    LIMIT_SCHEMA,
    PAUSES_SCHEMA,
    POWER_SCHEMA,
    PREEMPTION_SCHEMA,
    PRIORITY_SCHEMA,
    SEATS_SCHEMA,
    SHARES_SCHEMA,
    TIERS_SCHEMA,
    TIMELINE_SCHEMA,
    TYPES_SCHEMA,
)
from ringbco.trace.jobs import JobTable, gpus_of
from ringbco.trace.priorities import priorities
from ringbco.trace.shares import MILLI_GPU, thousandths

# What the engine calls columns of jobs.parquet that have another name there.
_ENGINE: Final = {
    "held_time": "held",
    "lost_time": "lost",
    "paused_time": "rested",
    "run_cut": "cut",
    "run_contention_uplinks": "uplinks",
    "run_resized": "longer",
    "held_gpu_time": "held_gpus",
    "lost_gpu_time": "lost_gpus",
    "run_on_type": "on_types",
}
NO_SEAT: Final = 2**32 - 1
"""The engine's number for no seat: of a share."""
LONGER_SLOT: Final = "give a longer --slot, or use --clock continuous"
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
    "slot-too-short": ("an iteration that fits in a slot", LONGER_SLOT),
    "stuck": ("every job to finish", LONGER_SLOT),
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
    if error.message.startswith("still waits"):
        hint = "let the servers that it needs come back, or the policy start it"
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


def with_arrivals(frame: pl.DataFrame, result: _core.RunResult) -> pl.DataFrame:
    """A job table whose submit_time is the arrival; with a column after, `submitted` is what it was."""
    if "after" not in frame.columns:
        return frame
    submitted = frame["submit_time"]
    arrival = result.tables["jobs"].get("arrival")
    came = submitted if arrival is None else _shared(arrival).alias("submit_time")
    return frame.with_columns(came, submitted=submitted)


def jobs_columns(
    frame: pl.DataFrame, ideal_run_time: NDArray[np.float64], result: _core.RunResult
) -> Columns:
    """jobs.parquet without `causes.CAUSES_SCHEMA`: one row per job that ran. frame: `with_arrivals`."""
    own, submit = result.tables["jobs"], metrics.column(frame, "submit_time")
    jct, wait = own["finish"] - submit, own["start"] - submit
    columns: dict[str, Column] = {
        "job_id": frame["job_id"],
        "submit_time": frame["submit_time"],
        "start_time": own["start"],
        "finish_time": own["finish"],
        "wait_time": wait,
        "run_time": own["finish"] - own["start"],
        "jct": jct,
        "waited": own.get("waited", wait),
        "slowdown": jct / ideal_run_time,
        "ideal_run_time": ideal_run_time,
        "num_gpus": frame["num_gpus"],
        "num_servers": own["num_servers"],
        "max_contention": own["max_contention"],
        "preemptions": own["preemptions"] if "preemptions" in own else np.zeros(frame.height, np.uint32),
    }
    columns |= _columns(PREEMPTION_SCHEMA, own)
    columns |= _columns(FAILURE_SCHEMA, own)
    columns |= _columns(EVICTION_SCHEMA, own)
    columns |= _columns(LIMIT_SCHEMA, own)
    if "climbs" in result.tables:
        columns |= _columns(PAUSES_SCHEMA, own)
        columns["group"] = frame["group"]
    levels = priorities(frame)
    if levels is not None:
        columns |= dict(zip(PRIORITY_SCHEMA, [levels], strict=True))
    elastic = _columns(ELASTIC_SCHEMA, own)
    if elastic:
        columns |= elastic | {name: gpus_of(frame, name) for name in ("min_gpus", "max_gpus")}
    columns |= _columns(TYPES_SCHEMA, own) | _columns(TIERS_SCHEMA, own)
    shares = thousandths(frame)
    if shares is not None:
        columns |= dict(zip(SHARES_SCHEMA, [_share(shares)], strict=True))
    columns |= {name: frame[name] for name in CARRIED_SCHEMA if name in frame.columns}
    if "after" in frame.columns:
        columns |= {name: frame[name] for name in CHAINS_SCHEMA}
    return Columns(columns, own["kept"], _jobs_frame)


def _jobs_frame(columns: Mapping[str, Column]) -> pl.DataFrame:
    told = {
        name: values if isinstance(values, pl.Series) else _shared(values) for name, values in columns.items()
    }
    return _frame(told, JOBS_SCHEMA | ELASTIC_SCHEMA | TYPES_SCHEMA)


def with_causes(
    jobs: pl.DataFrame, why: Mapping[str, NDArray[np.float32]], kept: NDArray[np.bool_]
) -> pl.DataFrame:
    """jobs.parquet. jobs: of `jobs_columns`. why: the columns of `causes.parts`. kept: the jobs that ran."""
    columns, there, everybody = jobs.get_columns(), len(JOBS_SCHEMA), bool(kept.all())
    told = [_shared(values if everybody else values[kept]).alias(name) for name, values in why.items()]
    return pl.DataFrame([*columns[:there], *told, *columns[there:]])


def _columns(schema: Mapping[str, pl.DataType], own: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The engine's columns of a schema, those that there are."""
    told = {}
    for name, kind in schema.items():
        given = own.get(_ENGINE.get(name, name))
        if given is not None:
            told[name] = given.astype(np.float32) if kind == pl.Float32 else given
    return told


def _share(shares: NDArray[np.uint32]) -> pl.Series:
    """Thousandths as a part of a GPU; null for a whole one."""
    part = pl.Series(shares / MILLI_GPU)
    return part.set(part == 0.0, None)


def refused(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether admission or a verb refused the job."""
    return _fate("refused", result)


def ended(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether a verb ended the job before it was done."""
    return _fate("ended", result)


def _fate(name: str, result: _core.RunResult) -> NDArray[np.bool_]:
    own = result.tables["jobs"]
    return own.get(name, np.zeros_like(own["kept"]))


def allocations_frame(job_id: pl.Series, result: _core.RunResult, *, shares: bool) -> pl.DataFrame:
    """allocations.parquet: one row per stay and server, or GPU where the table has `shares`.

    job_id: of the job table.
    """
    held = result.tables["allocations"]
    columns = {
        "job_id": job_id.gather(_shared(held["job"])),
        "server": _shared(held["server"]),
        "num_gpus": _shared(held["gpus"]),
        "start_time": _shared(held["start"]),
        "end_time": _shared(held["end"]),
        "stay": _shared(held["stay"])
        if held["stay"].size
        else pl.repeat(0, held["job"].size, dtype=pl.UInt32, eager=True),
    }
    if shares:
        parts = (_shared(held["gpu"]), _share(held["share"]))
        columns |= dict(zip(GPUS_SCHEMA, parts, strict=True))
    if "seat" in held:
        seat = _shared(held["seat"])
        columns |= dict(zip(SEATS_SCHEMA, [seat.set(seat == NO_SEAT, None)], strict=True))
    return _frame(columns, ALLOCATIONS_SCHEMA)


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
    """The array as a series that shares its memory; truth values do not, since Arrow packs them."""
    return pl.Series(values if values.dtype == np.bool_ else _Borrowed(values))


def _frame(columns: Mapping[str, pl.Series], schema: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The columns, those of the schema with its types. `pl.DataFrame` of a dict takes ten times as long."""
    told = (
        column if column.dtype == schema.get(name, column.dtype) else column.cast(schema[name])
        for name, column in columns.items()
    )
    return pl.DataFrame([column.alias(name) for name, column in zip(columns, told, strict=True)])


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

    def gpus(milli_gpus: NDArray[np.uint64]) -> pl.Series:
        return _shared((milli_gpus + MILLI_GPU // 2) // MILLI_GPU if shares else milli_gpus)

    told, allocated = result.tables["timeline"], result.tables["allocations"]
    columns = {
        name: gpus(told[name]) if name.endswith("_gpus") else _shared(told[name]) for name in TIMELINE_SCHEMA
    }
    # Without allocations nothing tells which types were held.
    if cluster is not None and has_watts(cluster) and allocated["server"].size:
        down = None if outages is None else DownTime.of(outages, cluster.server_gpus)
        drawn = watts(
            cluster,
            told["time"],
            held=[
                Held(allocated["server"], held_gpus(result), busy_from(result), allocated["end"]),
                *([] if replicas is None else [replicas]),
            ],
            down=down,
            asleep=asleep(result),
        )
        columns |= dict(zip(POWER_SCHEMA, [_shared(drawn)], strict=True))
    return _frame(columns, TIMELINE_SCHEMA | POWER_SCHEMA)


def asleep(result: _core.RunResult) -> Sleep | None:
    """When servers were asleep; None where they never are."""
    sleeps = result.tables.get("asleep")
    return None if sleeps is None else Sleep.of(sleeps["server"], sleeps["from"], sleeps["until"])


def held_gpus(result: _core.RunResult) -> NDArray[np.float64] | NDArray[np.uint32]:
    """GPUs of each row of the allocations; less than 1 of a share."""
    allocated = result.tables["allocations"]
    if allocated["share"].size == 0:
        return allocated["gpus"]
    return np.where(allocated["share"] > 0, allocated["share"] / MILLI_GPU, 1.0)


def busy_from(result: _core.RunResult) -> NDArray[np.float64]:
    """From when on the GPUs of each row of the allocations are not those of another job already, s."""
    allocated = result.tables["allocations"]
    return allocated.get("busy_from", allocated["start"])


def describe_run(
    table: JobTable, cluster: Cluster, policy: str, options: Mapping[str, Any], found: Sequence[str]
) -> dict[str, Any]:
    """Everything needed to repeat the run, as run.toml holds it; `options` are those of `options.described`.

    found: what the run warns of. What it says of the table and the cluster is theirs, not to be changed.
    """
    described = cluster.to_dict()
    return {
        **({"warnings": list(found)} if found else {}),
        "ringbco": {
            "version": ringbco.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "polars": pl.__version__,
            "pyarrow": pa.__version__,
        },
        "trace": table.identity,
        # The recorded cluster is always told: the jobs' work depends on it.
        "cluster": {
            "name": show_path(cluster.name),
            "servers": described.pop("servers"),  # first, as run.toml has them: lists before tables
            **described,
        },
        "options": {"command": "replay", "policy": policy, **options},
    }
