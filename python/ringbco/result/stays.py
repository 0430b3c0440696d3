"""Every stay of every job: how it began, why it ended, what was done in it (docs/results.md#staysparquet)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco import _core
from ringbco.result.causes import WAITS
from ringbco.result.schema import STAY_SAVING_SCHEMA, STAY_TYPE_SCHEMA, STAYS_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from ringbco.cluster.spec import Cluster

BEGAN, ENDED, BY, REPLICA_ENDED = _core.words()
_ZEROS: Final = ("pause", "lost", "lost_time", "paused_at_rung")


def stays_frame(
    job_id: pl.Series,
    cluster: Cluster,
    services: Sequence[str],
    outages: pl.DataFrame | None,
    table: Mapping[str, NDArray[Any]],
    *,
    saves: bool,
) -> pl.DataFrame:
    """stays.parquet of the engine's table of that name.

    job_id: of the job table. services: their names. outages: those that the engine was given. saves: whether
    checkpoints take time.
    """
    by = who(table)
    server = pl.Series([], dtype=pl.UInt32) if outages is None else outages["server"]
    columns: dict[str, Any] = {
        "job_id": job_id.gather(pl.Series(table["job"])),
        "began": _named(BEGAN, table["began"]),
        "ended": _named(ENDED, table["ended"]),
        "by_job": named(job_id, table["by"], by["job"]),
        "by_service": named(pl.Series(list(services), dtype=pl.String), table["by"], by["service"]),
        "by_server": named(server, table["by"], by["outage"]),
    }
    schema = STAYS_SCHEMA | (STAY_SAVING_SCHEMA if saves else {})
    if cluster.server_types is not None:
        schema |= STAY_TYPE_SCHEMA
        types = pl.Series(list(cluster.types), dtype=pl.String)
        # The engine is not told of a type where there is one and it changes nothing.
        numbers = table["gpu_type"] if types.len() > 1 else np.zeros_like(table["gpu_type"])
        columns["gpu_type"] = types.gather(pl.Series(numbers))
    columns |= {name: table[name] for name in schema if name not in columns}
    return pl.DataFrame({name: columns[name] for name in _order(schema)}, schema_overrides=dict(schema))


def stays_of_jobs(
    jobs: pl.DataFrame,
    work: NDArray[np.float64] | NDArray[np.uint64] | None = None,
    types: pl.Series | None = None,
) -> pl.DataFrame:
    """The same of a run in which no stay ended before its job was done: each job's row is its one stay.

    work: of each job, in its units; null where it is not known. types: the GPU type of each, where servers
    name one.
    """
    columns = {
        "job_id": jobs["job_id"],
        "stay": pl.repeat(0, jobs.height, dtype=pl.UInt32, eager=True),
        "start_time": jobs["start_time"],
        "end_time": jobs["finish_time"],
        "num_gpus": jobs["num_gpus"],
        "num_servers": jobs["num_servers"],
        "work": _nulls(jobs.height, pl.Float64()) if work is None else pl.Series(work).cast(pl.Float64),
        "began": pl.repeat("first", jobs.height, eager=True),
        "ended": pl.repeat("done", jobs.height, eager=True),
    }
    columns |= {name: pl.repeat(0.0, jobs.height, eager=True) for name in _ZEROS}
    if "lost_time" in jobs.columns:  # a pause at the start
        columns["pause"] = jobs["lost_time"]
    for name in WAITS:  # a result may be without the causes
        known = name in jobs.columns
        columns[name] = jobs[name].cast(pl.Float64) if known else _nulls(jobs.height, pl.Float64())
    for name in ("by_job", "by_service", "by_server"):
        columns[name] = _nulls(jobs.height, STAYS_SCHEMA[name])
    schema = STAYS_SCHEMA
    if types is not None:
        columns["gpu_type"], schema = types, STAYS_SCHEMA | STAY_TYPE_SCHEMA
    return pl.DataFrame({name: columns[name] for name in _order(schema)}, schema_overrides=dict(schema))


def types_of_jobs(jobs: pl.DataFrame, allocations: pl.DataFrame | None, cluster: Cluster) -> pl.Series | None:
    """The GPU type that each job held; null where nothing was recorded. None where servers name no type."""
    if cluster.server_types is None:
        return None
    if allocations is None:
        return pl.repeat(None, jobs.height, dtype=pl.String, eager=True)
    names = pl.Series(list(cluster.types), dtype=pl.String).gather(pl.Series(cluster.server_types))
    held = allocations.unique("job_id", keep="first", maintain_order=True)
    held = held.select("job_id", gpu_type=names.gather(held["server"]))
    return jobs.select("job_id").join(held, on="job_id", how="left", maintain_order="left")["gpu_type"]


def stays_of_done(stays: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """The stays of the jobs of jobs.parquet, with `before`.

    before: the GPUs that the job held until it was resized, where that is how the stay began; else null.
    """
    stays = stays.join(jobs.select("job_id"), on="job_id", how="semi", maintain_order="left")
    held = pl.col("num_gpus").shift().over("job_id")
    return stays.with_columns(before=pl.when(pl.col("began") == "resized").then(held))


def _order(schema: dict[str, pl.DataType]) -> list[str]:
    """The columns in the order of the file: each of some runs only behind its neighbour."""
    behind = {"gpu_type": "num_servers", "saving": "pause"}
    names = [name for name in schema if name not in behind]
    for name, neighbour in behind.items():
        if name in schema:
            names.insert(names.index(neighbour) + 1, name)
    return names


def _nulls(count: int, dtype: pl.DataType) -> pl.Series:
    return pl.repeat(None, count, dtype=dtype, eager=True)


def _named(words: list[str], numbers: NDArray[np.uint8]) -> pl.Series:
    return pl.Series(words, dtype=pl.String).gather(pl.Series(numbers))


def who(table: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.bool_]]:
    """By word of `BY`, whether that is what `by` is: one value per row of an engine's table."""
    return {name: table["by_what"] == number for number, name in enumerate(BY)}


def named(names: pl.Series, numbers: NDArray[np.uint32], those: NDArray[np.bool_]) -> pl.Series:
    """The names of those numbers; null for the others."""
    if not those.any():
        return pl.repeat(None, those.size, dtype=names.dtype, eager=True)
    return names.gather(pl.Series(np.where(those, numbers, 0)).set(pl.Series(~those), None))
