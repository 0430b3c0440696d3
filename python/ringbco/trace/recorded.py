"""When and where jobs started in the log of a cluster: what `--policy recorded` reads of a job table."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.hostlist import nearest_server
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable

RecordedColumns: TypeAlias = tuple[NDArray[np.float64], list[NDArray[np.uint32]]]

AS_RECORDED: Final = "as recorded"
"""The property of a policy that starts jobs as their log did."""
RAN: Final = ("recorded_start", "recorded_end")
"""When a job ran in its log, s on the clock of submit_time."""
START: Final = RAN[0]
SERVERS: Final = "recorded_servers"
_PART: Final = r"^(.+):([1-9][0-9]{0,8})$"
_INDEX: Final = r"^[0-9]{1,9}$"
PLACE: Final = r"^ *[^ ]+:[1-9]\d{0,8}( +[^ ]+:[1-9]\d{0,8})* *$"
"""The servers of a job and the GPUs of each, such as 0:4 3:4 or gpu01:4."""


def recorded_waits(frame: pl.DataFrame) -> NDArray[np.float64] | None:
    """How long each job waited in the log, s, NaN where its start is unknown; None where all are."""
    if START not in frame.columns or frame[START].null_count() == frame.height:
        return None
    start = frame[START].cast(pl.Float64).fill_null(float("nan"))
    return (start - frame["submit_time"]).to_numpy()


def without(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame without recorded times and places, which other submissions would not have had."""
    return frame.drop(*RAN, SERVERS, strict=False)


def columns(table: JobTable, cluster: Cluster) -> RecordedColumns:
    """Recorded starts, and rows, servers and GPUs of the recorded places, as the engine takes them.

    Raises InputError for the lowest row without a start, with one before its submission, or with servers that
    are none of the cluster's or hold other than num_gpus GPUs.
    """
    return _starts(table), _places(table, cluster)


def _starts(table: JobTable) -> NDArray[np.float64]:
    frame = table.frame
    if START not in frame.columns:
        raise InputError(
            "a column with the times at which the jobs started, s; there is none",
            file=table.source,
            column=START,
            hint="convert the log again, or use another --policy than recorded",
        )
    start, submit = frame[START], frame["submit_time"]
    early = (start.is_null() | (start < submit)).fill_null(value=True)
    if early.any():
        row = int(early.arg_max() or 0)
        raise InputError(
            f"a time not before submit_time {submit[row]:.15g}",
            file=table.source,
            row=row + 1,
            column=START,
            value=start[row],
            hint="drop the job, or use another --policy than recorded",
        )
    return start.to_numpy()


def _places(table: JobTable, cluster: Cluster) -> list[NDArray[np.uint32]]:
    frame = table.frame
    if SERVERS not in frame.columns:
        return [np.empty(0, np.uint32)] * 3
    text = frame[SERVERS].str.strip_chars().replace("", None)
    parts = (
        pl.DataFrame({"row": pl.int_range(frame.height, dtype=pl.UInt32, eager=True), "part": text})
        .drop_nulls()
        .with_columns(pl.col("part").str.split(" "))
        .explode("part")
        .filter(pl.col("part") != "")
    )
    place, gpus = (pl.col("part").str.extract(_PART, group) for group in (1, 2))
    server = pl.when(place.str.contains(_INDEX)).then(place).cast(pl.UInt32)
    numbers = cluster.server_numbers
    if numbers:
        server = pl.coalesce(place.replace_strict(numbers, default=None, return_dtype=pl.UInt32), server)
    parts = parts.select("row", "part", place=place, server=server, gpus=gpus.cast(pl.UInt32))
    strange = parts["server"].is_null() | parts["gpus"].is_null()
    if strange.any():
        at = int(strange.arg_max() or 0)
        near = nearest_server(parts["place"][at] or parts["part"][at], numbers)
        _refuse(table, int(parts["row"][at]), "servers and their GPUs, such as 0:4 3:4", near)
    beyond = parts["server"] >= cluster.num_servers
    if beyond.any():
        _refuse(table, int(parts["row"].filter(beyond)[0]), f"servers from 0 to {cluster.num_servers - 1}")
    twice = parts.select("row", "server").is_duplicated()
    if twice.any():
        _refuse(table, int(parts["row"].filter(twice)[0]), "each server once")
    held = parts.group_by("row", maintain_order=True).agg(pl.col("gpus").cast(pl.UInt64).sum())
    asked = frame["num_gpus"].gather(held["row"])
    other = held["gpus"] != asked
    if other.any():
        at = int(other.arg_max() or 0)
        _refuse(table, int(held["row"][at]), f"num_gpus GPUs in all, which is {asked[at]}")
    return [parts[name].to_numpy() for name in ("row", "server", "gpus")]


def _refuse(table: JobTable, row: int, expected: str, hint: str | None = None) -> None:
    raise InputError(
        expected,
        file=table.source,
        row=row + 1,
        column=SERVERS,
        value=table.frame[SERVERS][row],
        hint=hint or "mend it, or leave it empty where the place is unknown",
    )
