"""Who may share GPUs, and how fast two jobs are there: what the engine reads of it (docs/lucid.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.spec import Cluster
    from ringbco.trace.jobs import JobTable
    from ringbco.trace.rate_table import RateTable

COLUMNS: Final = ("gpu_memory_mib", "estimated_duration", "colocation_score")
_MIB_OF_GB: Final = 1024.0
_LITTLE, _SOME, _MUCH = range(3)
"""Scores."""
_BOUNDS: Final = ((0.95, _LITTLE), (0.85, _SOME))
"""The least mean speed beside others of each score, rounded to 3 decimals; below: `_MUCH`."""


def pairing(table: JobTable, cluster: Cluster, rates: RateTable | None) -> _core._Pairing:
    """The columns of `COLUMNS`, the models, pairs and memory of a run in which jobs may share GPUs.

    rates: the measured speeds; None where there are none. Raises InputError where pairs of several GPU types
    were measured, and servers name none.
    """
    frame = table.frame
    pairs = None if rates is None else rates.of_pairs
    names: pl.Series | list[str] = []
    if pairs is not None:
        names = pl.concat([pairs["model"], pairs["partner"]]).unique(maintain_order=True)
    number = {name: index for index, name in enumerate(names)}
    model = np.full(frame.height, len(number), np.uint32)
    if number and "model" in frame.columns:
        found = frame["model"].replace_strict([*number], [*number.values()], default=len(number))
        model = found.fill_null(len(number)).cast(pl.UInt32).to_numpy()
    scores = np.array([*(_scores(rates, number) if rates is not None else ()), _MUCH], np.uint32)
    score = scores[model]
    if "colocation_score" in frame.columns:
        given = frame["colocation_score"]
        score = given.zip_with(given.is_not_null(), pl.Series(score)).to_numpy()
    return {
        "memory": _floats(frame, "gpu_memory_mib"),
        "estimate": _floats(frame, "estimated_duration"),
        "score": score,
        "model": model,
        "facts": (_room(cluster), [] if rates is None else _rows(rates, cluster, number)),
    }


def _floats(frame: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """A column; NaN where it says nothing."""
    if name not in frame.columns:
        return np.full(frame.height, np.nan)
    return frame[name].fill_null(float("nan")).to_numpy()


def _room(cluster: Cluster) -> list[float]:
    """MiB of a GPU of each type; NaN where it is not known."""
    if cluster.server_types is None:
        return [float("nan")]
    known = (fact.memory_gb for fact in cluster.type_facts)
    return [float("nan") if gb is None else gb * _MIB_OF_GB for gb in known]


def _rows(rates: RateTable, cluster: Cluster, number: dict[str, int]) -> list[tuple[Any, ...]]:
    """The rows of pairs with models and types by number: models, type, GPUs, servers, both rates."""
    types = {name.casefold(): index for index, name in enumerate(cluster.types)}
    if cluster.server_types is None:
        if len(rates.types) > 1:
            raise InputError(
                f"a cluster whose servers name their GPU types: the table has {', '.join(rates.types)}",
                file=rates.source,
                column="gpu_type",
                hint='write gpu_type = "..." to each [[servers]] of the cluster file',
            )
        types = {name.casefold(): 0 for name in rates.types}
    found = []
    for row in rates.of_pairs.iter_rows(named=True):
        of = types.get(row["gpu_type"].casefold())
        if of is not None:
            models = number[row["model"]], number[row["partner"]]
            rate = row["rate"], row["partner_rate"]
            found.append((*models, of, row["gpus"], row["servers"], *rate))
    return found


def _scores(rates: RateTable, number: dict[str, int]) -> list[int]:
    """How much each model suffers beside others, by the mean of its measured pairs."""
    alone = {
        (row["model"], row["gpu_type"].casefold(), row["gpus"], row["servers"]): row["rate"]
        for row in rates.alone.iter_rows(named=True)
    }
    speeds: list[list[float]] = [[] for _ in number]
    for row in rates.of_pairs.iter_rows(named=True):
        for model, rate in (("model", "rate"), ("partner", "partner_rate")):
            whole = 1.0
            if row["gpus"] > 0:
                key = (row[model], row["gpu_type"].casefold(), row["gpus"], row["servers"])
                whole = alone.get(key, 0.0)
            if whole > 0:
                speeds[number[row[model]]].append(row[rate] / whole)
    return [_score(own) for own in speeds]


def _score(speeds: list[float]) -> int:
    if not speeds:
        return _MUCH
    mean = round(sum(speeds) / len(speeds), 3)
    return next((score for least, score in _BOUNDS if mean >= least), _MUCH)
