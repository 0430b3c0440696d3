"""GPU types that differ: what each job may use and how fast it is there, worked out from the files alone.

A gang holds GPUs of one type, one that its job may use. Where types change nothing there is nothing to check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import polars as pl

    from ringbco.audits.contention import Episodes
    from ringbco.audits.facts import Facts
    from ringbco.audits.findings import Check
    from ringbco.cluster.spec import Cluster


@dataclass(frozen=True)
class Types:
    """server: the type of each. speedup[row, type]: beside the type recorded on; NaN where not allowed."""

    server: NDArray[np.int64]
    speedup: NDArray[np.float64]


def read_types(frame: pl.DataFrame, cluster: Cluster) -> Types | None:
    """What the job table and the cluster say; None where no server names a type, or all GPUs are alike."""
    if cluster.server_gpu_type is None:
        return None
    names = [str(label).lower() for label in cluster.server_gpu_type]
    types = list(dict.fromkeys(names))
    columns = [
        frame[name].to_list() if name in frame.columns else [None] * frame.height
        for name in ("gpu_type", "recorded_on", "model")
    ]
    known: dict[tuple[str | None, str | None, str | None], list[float]] = {}
    rows = [
        known[asked] if asked in known else known.setdefault(asked, _speedups(*asked, types, cluster))
        for asked in zip(columns[0], columns[1], columns[2], strict=True)
    ]
    speedup = np.array(rows, dtype=np.float64).reshape(frame.height, len(types))
    if len(types) == 1 and (speedup == 1.0).all():
        return None
    return Types(np.array([types.index(name) for name in names], dtype=np.int64), speedup)


def _speedups(
    asked: str | None, recorded: str | None, model: str | None, types: list[str], cluster: Cluster
) -> list[float]:
    """Of a job, by type: its speed there divided by its speed on the type on which it was recorded."""
    allowed = [name.strip().lower() for name in (asked or "").split("|") if name.strip()]
    there = [name for name in allowed if name in types]
    if not (recorded or "").strip():
        labels = cluster.recorded.server_gpu_type if cluster.recorded is not None else None
        recorded = labels[0] if labels is not None else (there or types)[0]

    def speed(name: str) -> float:
        fact = cluster.find_type(name)
        if fact is None:
            return np.nan
        return fact.models.get(model, fact.speed) if model is not None else fact.speed

    own = speed(str(recorded).strip())
    may = set(there) if allowed else set(types)
    return [speed(name) / own if name in may else np.nan for name in types]


def check_types(check: Check, facts: Facts, eps: Episodes) -> None:
    """A gang holds GPUs of one type, and one that its job may use."""
    from ringbco.audits.findings import blame

    if facts.types is None:
        check.not_run = "all GPUs are alike to every job"
        return
    check.looked_at = eps.job.size
    of = facts.types.server[np.minimum(eps.pair_server, facts.types.server.size - 1)]
    first = _first(facts, eps)
    mixed = np.zeros(eps.job.size, dtype=bool)
    mixed[eps.pair_episode[of != first[eps.pair_episode]]] = True
    at = np.flatnonzero(mixed)
    said = "holds GPUs of several types at once; expected those of one"
    blame(check, facts, at, said, job=eps.job, time=eps.start)
    names = facts.cluster.types
    banned = np.isnan(facts.types.speedup[facts.row[eps.job], first]) & ~mixed
    blame(
        check,
        facts,
        np.flatnonzero(banned),
        lambda i: f"holds GPUs of type {names[first[i]]}, which it may not use",
        job=eps.job,
        time=eps.start,
    )


def speedups(facts: Facts, eps: Episodes) -> NDArray[np.float64]:
    """How fast each episode computes beside the type recorded on; 1 where all GPUs are alike."""
    if facts.types is None:
        return np.ones(eps.job.size)
    return np.nan_to_num(facts.types.speedup[facts.row[eps.job], _first(facts, eps)], nan=1.0)


def _first(facts: Facts, eps: Episodes) -> NDArray[np.int64]:
    """The type of each episode's first server."""
    first = np.zeros(eps.job.size, dtype=np.int64)
    if facts.types is not None:
        server = np.minimum(eps.pair_server, facts.types.server.size - 1)
        first[eps.pair_episode[::-1]] = facts.types.server[server[::-1]]
    return first
