"""What the player shows of a result: who held which GPUs, who waited and why, as packed columns.

Times are whole ticks from the first instant that is shown: 2^32 - 1 of them to the last one, so that a month
is told to the millisecond in four bytes. An instant has the same tick in whichever column it stands.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.reports.cluster_state import gangs
from ringbco.reports.down_times import down_times
from ringbco.reports.player_order import ranks
from ringbco.reports.server_load import called, server_gpus, server_names
from ringbco.result.causes import WAITS
from ringbco.result.reliability import UNKNOWN
from ringbco.result.stays import BEGAN, ENDED
from ringbco.trace.shares import MILLI_GPU

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.reports.viewport import Viewport
    from ringbco.result.outcome import Outcome

_TICKS: Final = 2**32 - 1


@dataclass(frozen=True)
class Scene:
    """A result to play, the part of it that is shown, and the clock, s, that all results of a page share."""

    label: str
    outcome: Outcome
    shown: Viewport
    first: float
    last: float

    def ticks(self, times: pl.Series) -> NDArray[np.uint32]:
        """Instants, s, in ticks; those before and after the clock are at its ends."""
        share = (times.cast(pl.Float64).to_numpy() - self.first) / (self.last - self.first)
        ticks: NDArray[np.uint32] = np.rint(np.clip(share, 0.0, 1.0) * _TICKS).astype(np.uint32)
        return ticks


def scene_data(scene: Scene) -> dict[str, Any]:
    """One result as the page's script reads it: plain facts, and columns as `packed` gives them."""
    outcome, shown = scene.outcome, scene.shown
    stays, held = _stays(outcome, shown), _held(outcome, shown)
    jobs, held = _jobs(outcome, stays), _of_stays(held, stays)
    number = _of_jobs(stays, jobs)
    rank, told = ranks(outcome, stays)
    users, user = _numbered(jobs["user"])
    who, by = _numbered(stays["by"])
    gone = _gone(outcome, shown, scene.last)
    reasons, reason = _numbered(gone["cause"])
    return {
        "label": scene.label,
        "order": told,
        "waits": WAITS,
        "began": BEGAN,
        "ended": ENDED,
        "servers": _servers(outcome, shown),
        "names": _text([jobs["job_id"].to_list(), users, who, reasons]),
        "jobs": packed(
            submit=scene.ticks(jobs["submit"]),
            gpus=_whole(jobs["gpus"]),
            share=_whole(jobs["share"]),
            user=user,
            service=_whole(jobs["service"]),
        ),
        "stays": packed(
            job=number,
            since=scene.ticks(stays["since"]),
            start=scene.ticks(stays["start"]),
            end=scene.ticks(stays["end"]),
            gpus=_whole(stays["gpus"]),
            servers=_whole(stays["servers"]),
            rank=rank,
            **_seats(scene, stays),
            began=_codes(stays["began"], BEGAN),
            ended=_codes(stays["ended"], ENDED),
            by=by,
            **{name: stays[name].fill_null(0.0).to_numpy().astype(np.float32) for name in WAITS},
        ),
        "held": packed(
            stay=_whole(held["at"]),
            server=_places(held["server"], shown.servers),
            gpus=_whole(held["gpus"]),
            **({"gpu": _whole(held["gpu"])} if "gpu" in held.columns else {}),
        ),
        "gone": packed(
            server=_places(gone["server"], shown.servers),
            start=scene.ticks(gone["start"]),
            end=scene.ticks(gone["end"]),
            cause=reason,
        ),
    }


def packed(**columns: NDArray[Any]) -> dict[str, Any]:
    """Columns of one table: names and types, and their bytes, little-endian, deflated and in base64."""
    kinds = {np.dtype(np.uint8): 1, np.dtype(np.uint16): 2, np.dtype(np.uint32): 4, np.dtype(np.float32): -4}
    small = {name: _narrowed(values) for name, values in columns.items()}
    return {
        "rows": len(next(iter(columns.values()))),
        "columns": [[name, kinds[values.dtype]] for name, values in small.items()],
        # Each column begins at a multiple of 4 bytes, as an array of a script must.
        "bytes": _deflated(
            b"".join(
                values.astype(values.dtype.newbyteorder("<")).tobytes() + b"\0" * (-values.nbytes % 4)
                for values in small.values()
            )
        ),
    }


def _narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Whole numbers in as few bytes as hold them all."""
    if values.dtype != np.uint32 or not values.size:
        return values
    return values.astype(np.min_scalar_type(int(values.max())))


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _text(lists: Sequence[Sequence[str]]) -> str:
    """Lists of names, deflated and in base64: as plain text they would be half of a page."""
    return _deflated(json.dumps(lists, ensure_ascii=False, separators=(",", ":")).encode())


def _whole(values: pl.Series) -> NDArray[np.uint32]:
    return values.cast(pl.UInt32).to_numpy()


def _numbered(values: pl.Series) -> tuple[list[str], NDArray[np.uint32]]:
    """The names, and of each row the place of its own, from 1; 0 where it has none."""
    names = values.drop_nulls().unique().sort()
    place = pl.int_range(1, names.len() + 1, dtype=pl.UInt32, eager=True)
    return names.to_list(), values.replace_strict(names, place, default=0, return_dtype=pl.UInt32).to_numpy()


def _codes(words: pl.Series, known: Sequence[str]) -> NDArray[np.uint8]:
    return words.replace_strict(known, range(len(known)), return_dtype=pl.UInt8).to_numpy()


def _places(servers: pl.Series, shown: Sequence[int]) -> NDArray[np.uint32]:
    """The place of each server among those that are shown."""
    return np.searchsorted(np.asarray(shown, np.uint32), servers.to_numpy()).astype(np.uint32)


def _stays(outcome: Outcome, shown: Viewport) -> pl.DataFrame:
    """Those that wait or hold GPUs in the window; replicas of services last, each with a stay of its own.

    A job that is ended before it is done is among them. row counts them; of: which of the outcome's each is.
    """
    told = outcome.stays.select(
        "began",
        "ended",
        *(pl.col(name).cast(pl.Float64) for name in WAITS),
        by=pl.coalesce(
            "by_job",
            pl.lit("service ") + pl.col("by_service"),
            pl.lit("server ") + called(pl.col("by_server"), outcome).cast(pl.String),
        ),
    )
    own = pl.concat((gangs(outcome), told), how="horizontal")
    whole = pl.col("unit") == (MILLI_GPU if _shared(outcome) else 1)
    frames = [
        own.select(
            *("job_id", "stay", "began", "ended", "by", *WAITS),
            since="waits",
            start="start_time",
            end="end_time",
            gpus=pl.col("num_gpus").cast(pl.Int64),
            servers=pl.col("num_servers").cast(pl.Int64),
            seat="seat",
            taken="taken",
            # Of a share the GPU it is a part of counts as one.
            asks=(pl.col("asks") / pl.col("unit")).cast(pl.Int64),
            share=pl.when(whole).then(0).otherwise("unit"),
            service=pl.lit(0),
        )
        .with_row_index("of")
        # A report leaves out who was ended: of such a job nothing is in allocations.
        .filter(pl.col("asks").is_not_null())
    ]
    if outcome.replicas is not None:
        frames.append(_replicas(outcome.replicas))
    every = pl.concat(frames, how="diagonal")
    return every.filter(pl.col("since") < shown.end, pl.col("end") > shown.start).with_row_index("row")


def _seats(scene: Scene, stays: pl.DataFrame) -> dict[str, NDArray[np.uint32]]:
    """Where jobs may hold the same GPUs: seats, from 1, and from when on a stay's GPUs are no other's."""
    if not stays["seat"].count():
        return {}
    return {
        "seat": _whole((stays["seat"].cast(pl.Int64) + 1).fill_null(0)),
        "taken": scene.ticks(stays["taken"].fill_null(stays["start"])),
    }


def _shared(outcome: Outcome) -> bool:
    """Whether jobs hold shares of a GPU."""
    return outcome.allocations is not None and "share" in outcome.allocations.columns


def _replicas(replicas: pl.DataFrame) -> pl.DataFrame:
    """A stay a replica, under the name of its service: it never waits, and is gone when it ends."""
    return replicas.group_by("service", "replica", maintain_order=True).agg(
        since=pl.col("start_time").first(),
        start=pl.col("start_time").first(),
        end=pl.col("end_time").first(),
        gpus=pl.col("num_gpus").sum().cast(pl.Int64),
        servers=pl.len().cast(pl.Int64),
    ).select(
        *("since", "start", "end", "gpus", "servers"),
        job_id="service",
        stay="replica",
        began=pl.lit("first"),
        ended=pl.lit("done"),
        asks="gpus",
        share=pl.lit(0, pl.Int64),
        service=pl.lit(1),
        **dict.fromkeys(WAITS, pl.lit(0.0)),
    )  # fmt: skip


def _held(outcome: Outcome, shown: Viewport) -> pl.DataFrame:
    """Rows of allocations and replicas in the window: job_id, stay, service, server, gpus; gpu of shares."""
    assert outcome.allocations is not None
    tables = [(outcome.allocations, "job_id", "stay", 0)]
    if outcome.replicas is not None:
        tables.append((outcome.replicas, "service", "replica", 1))
    frames = [
        table.filter(
            pl.col("server").is_in(list(shown.servers)),
            pl.col("start_time") < shown.end,
            pl.col("end_time") > shown.start,
        ).select(
            "server",
            *({"gpu"} & set(table.columns)),
            job_id=job,
            stay=stay,
            service=pl.lit(service),
            gpus="num_gpus",
        )
        for table, job, stay, service in tables
    ]
    held = pl.concat(frames, how="diagonal")
    # No job shares a GPU with a replica, which takes whole ones and says how many.
    return held.with_columns(pl.col("gpu").fill_null(0)) if "gpu" in held.columns else held


_STAY: Final = ["job_id", "stay", "service"]


def _of_stays(held: pl.DataFrame, stays: pl.DataFrame) -> pl.DataFrame:
    """The rows with `at`, the number of their stay."""
    return held.join(stays.select(*_STAY, at="row"), on=_STAY, how="inner", maintain_order="left")


def _jobs(outcome: Outcome, stays: pl.DataFrame) -> pl.DataFrame:
    """One row a job of the stays: job_id, service, submit, gpus, share (thousandths, 0 if whole), user."""
    jobs = stays.group_by("job_id", "service", maintain_order=True).agg(
        first=pl.col("since").min(), gpus=pl.col("asks").first(), share=pl.col("share").first()
    )
    known = outcome.jobs.select(
        "job_id",
        "submit_time",
        user=pl.col("user") if "user" in outcome.jobs.columns else pl.lit(None, pl.String),
        service=pl.lit(0),
    )
    jobs = jobs.join(known, on=["job_id", "service"], how="left", maintain_order="left")
    return jobs.with_columns(submit=pl.coalesce("submit_time", "first"))


def _of_jobs(stays: pl.DataFrame, jobs: pl.DataFrame) -> NDArray[np.uint32]:
    """The number of each stay's job."""
    keys = ["job_id", "service"]
    numbers = jobs.select(keys).with_row_index("number")
    found = stays.select(keys).join(numbers, on=keys, how="left", maintain_order="left")
    return _whole(found["number"])


def _gone(outcome: Outcome, shown: Viewport, last: float) -> pl.DataFrame:
    """When servers of the window are down, drain or sleep: server, start, end, s, and cause.

    The cause of a drain is "draining", or begins with "draining: ".
    """
    told = (
        pl.when(pl.col("cause") == UNKNOWN).then(pl.lit("draining")).otherwise("draining: " + pl.col("cause"))
    )
    cause = pl.when("drains").then(told).otherwise("cause").alias("cause")
    down = down_times(outcome, shown).select("server", "start", "end", cause)
    if outcome.servers is None:
        return down
    changes = outcome.servers.filter(
        pl.col("what").is_in(["slept", "woke"]), pl.col("server").is_in(list(shown.servers))
    )
    changes = changes.sort("server", "time", maintain_order=True)
    until = pl.col("time").shift(-1).over("server").fill_null(last)
    asleep = changes.select(
        "server", "what", start="time", end=until, cause=pl.lit("asleep")
    ).filter(pl.col("what") == "slept", pl.col("end") > shown.start, pl.col("start") < shown.end)  # fmt: skip
    return pl.concat((down, asleep.drop("what")))


def _servers(outcome: Outcome, shown: Viewport) -> dict[str, Any]:
    """Of the servers that are shown: name, else index, and GPUs; type, or null where servers name none."""
    groups = outcome.run.get("cluster", {}).get("servers", [])
    sizes = server_gpus(outcome)
    names = server_names(outcome)
    told: dict[str, Any] = {
        "name": [names[server] or server for server in shown.servers],
        "gpus": [sizes[server] for server in shown.servers],
    }
    named = [group.get("gpu_type") for group in groups for _ in range(group["count"])]
    told["gpu_type"] = [named[server] for server in shown.servers] if any(named) else None
    return told
