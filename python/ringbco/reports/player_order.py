"""In which order the player lists who waits: that of the queue, where it stands as long as a job waits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ringbco.result.why_asked import order_of
from ringbco.result.why_record import QUEUES, Record, job_table
from ringbco.trace import ties
from ringbco.trace.workload import resolve

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from ringbco.result.outcome import Outcome

    Floats = NDArray[np.float64]

_RANKED: Final = {
    "srtf": "by remaining run time, shortest first",
    "srsf": "by remaining run time x num_gpus, least first",
    "edf": "by deadline, earliest first",
    "tiresias": "by attained service, least first",
}
"""Rankings whose keys the record tells, of jobs that wait."""


def ranks(outcome: Outcome, stays: pl.DataFrame) -> tuple[NDArray[np.uint32], str]:
    """The place of every stay's job while it waits, and in words by what it is.

    stays: as player_data makes them, with `of`: which of the outcome's stays each is; null of a replica,
    which never waits.
    """
    since, own = stays["since"].to_numpy(), stays["of"].is_not_null().to_numpy()
    place, told = since, "longest wait first"
    if own.any():
        record = Record(outcome, job_table(outcome, None))
        keys = _keys(record)
        if keys is not None:
            place, told = np.zeros(since.size), _RANKED.get(record.policy, f"in {order_of(record)}")
            place[own] = _places(record, keys)[stays["of"].drop_nulls().to_numpy()]
    rank = np.empty(since.size, np.uint32)
    rank[np.argsort(place, kind="stable")] = np.arange(since.size, dtype=np.uint32)
    return rank, told


def _places(record: Record, keys: Floats) -> NDArray[np.int64]:
    """The place of the wait before each stay: by priority, key, submission, ties."""
    asked, rows = record.asked, record.row
    every = np.arange(asked.height, dtype=np.int64)
    tied = ties.key(every, str(record.options.get("ties", "rows")))
    priority = np.zeros(asked.height, np.int64)
    if "priority" in asked.columns:
        priority = asked["priority"].fill_null(0).cast(int).to_numpy()
    found = np.empty(rows.size, np.int64)
    order = np.lexsort((rows, tied[rows], record.submit[rows], keys, -priority[rows]))
    found[order] = np.arange(rows.size)
    return found


def _keys(record: Record) -> Floats | None:
    """By what the job of each stay is ordered as it waits, the least first; None where unknown."""
    options, policy = record.options, record.policy
    moves = options.get("within") == "list" or options.get("aging") is not None
    drawn = not record.whole and options.get("ties", "rows") not in ("rows", "reverse")
    shares = policy in ("tiresias", "srsf") and record.shared
    if record.planned or moves or drawn or shares or record.ended.len():
        return None
    if policy in _RANKED:
        return _ranking(record)
    return _queue(record) if policy in QUEUES else None


def _ranking(record: Record) -> Floats | None:
    asked, rows, policy = record.asked, record.row, record.policy
    if policy == "edf":
        due = asked["deadline"].fill_null(float("inf")) if "deadline" in asked.columns else None
        return np.zeros(rows.size) if due is None else due.to_numpy()[rows]
    if policy == "tiresias":
        spent = _before(record, (record.end - record.start) * record.held)
        return np.searchsorted(np.sort(record.options["thresholds"]), spent, side="right").astype(np.float64)
    left = _left(record, kept=True)
    return left if left is None or policy == "srtf" else left * asked["num_gpus"].to_numpy()[rows]


def _queue(record: Record) -> Floats | None:
    """What stands from the start: the order of a queue by a column, say."""
    asked, order = record.asked, str(record.options.get("order", "fifo"))
    gpus, column = asked["num_gpus"].cast(float).to_numpy(), order.removeprefix("column:")
    found = None
    if str(record.options.get("predict")).startswith("column:") and order in ("sjf", "qssf"):
        return None  # of a job without a prediction nothing is kept
    if order in ("fifo", "smallest"):
        found = gpus if order == "smallest" else np.zeros(asked.height)
    elif order == "qssf" and record.options.get("predict") == "exact" and "duration" in asked.columns:
        shares = asked["gpu_share"].fill_null(1.0).to_numpy() if "gpu_share" in asked.columns else 1.0
        found = np.asarray(asked["duration"].to_numpy() * gpus * shares)
    elif order.startswith("column:") and column in asked.columns:
        found = asked[column].cast(float).to_numpy()
    return _left(record, kept=False) if order == "sjf" else None if found is None else found[record.row]


def _left(record: Record, *, kept: bool) -> Floats | None:
    """Run time on one server without contention, s; kept: less what the stays before have done."""
    fixed, table = record.options.get("model") == "fixed", record.found.table
    if table is not None:
        model = str(record.options.get("model"))
        tables = record.outcome.speeds if model == "table" else None
        told = {"model": model, "seed": int(record.options.get("seed", 0)), "tables": tables}
        profiled = resolve(table, record.cluster, told).profiled
        whole, work = profiled.estimate[record.row], profiled.iterations[record.row]
    elif fixed:
        whole = work = record.asked["ideal_run_time"].to_numpy()[record.row]
    else:
        return None
    if not kept:
        return np.asarray(whole)
    done = _before(record, (record.stays["work"].fill_null(0.0) - record.stays["lost"]).to_numpy())
    return np.asarray(np.maximum(0.0, whole - done) if fixed else whole * (1.0 - done / work))


def _before(record: Record, added: Floats) -> Floats:
    """What the stays of a job before each have added."""
    sums = np.cumsum(added) - added
    return np.asarray(sums - sums[record.first[record.row]])
