"""Model `table`: each job's work and rates, worked out from the result folder and the job table alone.

Nothing here is shared with the run: rates are looked up again in the folder's speeds.parquet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.audits.types import distinct, recorded_type
from ringbco.checker.arrays import codes
from ringbco.errors import InputError
from ringbco.trace import profiles

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster
    from ringbco.trace.jobs import JobTable

_Sizes = tuple[NDArray[np.int64], NDArray[np.float64]]


@dataclass(frozen=True)
class Speeds:
    """entries: (model, type) -> servers -> GPUs and rates, ascending. Types by number, the cluster's first.

    model, reference: of each row of the job table; the type whose rate counts where nothing runs. workload:
    what the run takes each job's work and its time alone for.
    """

    entries: Mapping[tuple[str, int], Mapping[int, _Sizes]]
    model: pl.Series
    reference: NDArray[np.int64]
    workload: profiles.Profiled


def read_speeds(speeds: pl.DataFrame | None, table: JobTable, cluster: Cluster) -> Speeds:
    """What the folder's speeds.parquet means to the jobs. Raises InputError where it cannot be."""
    frame = table.frame
    if speeds is None or cluster.server_gpu_type is None:
        raise InputError(
            "run.toml: expected speeds.parquet and the GPU type of every server under model table"
        )
    if "model" not in frame.columns or frame["model"].null_count():
        raise InputError("expected a model of every job under model table", file=table.source, column="model")
    labels = [str(label).lower() for label in cluster.server_gpu_type]
    types = list(dict.fromkeys(labels))
    asked, of = distinct(frame, "gpu_type", "recorded_on")
    recorded = [recorded_type(listed, on, types, cluster).lower() for listed, on in asked]
    types += [name for name in dict.fromkeys(recorded) if name not in types]
    entries = _entries(speeds, types)
    model = frame["model"].cast(pl.String)
    models = codes(model)
    rows = np.arange(frame.height)
    gpus = frame["num_gpus"].to_numpy().astype(np.int64)
    recorded_on = np.array([types.index(name) for name in recorded], np.int64)[of]

    def rate(gpu_type: NDArray[np.int64], servers: NDArray[np.uint32]) -> NDArray[np.float64]:
        return _rates(entries, models, np.stack([rows, gpu_type, gpus, servers.astype(np.int64)]))

    few = profiles.fewest(table, cluster)
    derived = frame["duration"].to_numpy() * rate(
        recorded_on, profiles.fewest_recorded(table, cluster.recorded_on)
    )
    written = profiles.floats(frame, "iterations")
    iterations = np.where(np.isnan(written), np.maximum(1.0, np.rint(derived)), written)
    reference, alone = recorded_on.copy(), rate(recorded_on, few)
    for row in np.flatnonzero(alone == 0).tolist():
        allowed = [name.strip().lower() for name in (asked[of[row]][0] or "").split("|") if name.strip()]
        may = [number for number, name in enumerate(dict.fromkeys(labels)) if not allowed or name in allowed]
        for number in may:
            wanted = np.array([[row], [number], [gpus[row]], [few[row]]])
            found = float(_rates(entries, models, wanted)[0])
            if found > alone[row]:
                alone[row], reference[row] = found, number
    unknown = np.isnan(alone) | (alone == 0) | np.isnan(iterations)
    alone[unknown], iterations[unknown] = 1.0, 1.0
    single = rate(reference, np.ones_like(few))
    zeros = np.zeros(rows.size)
    workload = profiles.Profiled(
        iterations.astype(np.uint64), zeros, zeros, zeros, iterations / alone, iterations / single
    )
    return Speeds(entries, model, reference, workload)


def _entries(speeds: pl.DataFrame, types: list[str]) -> dict[tuple[str, int], dict[int, _Sizes]]:
    """The rows without a partner, of the types asked for."""
    mine = speeds.filter(pl.col("partner").is_null(), pl.col("gpu_type").str.to_lowercase().is_in(types))
    entries: dict[tuple[str, int], dict[int, _Sizes]] = {}
    for key, own in mine.sort("servers", "gpus").group_by(
        "model", "gpu_type", "servers", maintain_order=True
    ):
        model, name, servers = str(key[0]), str(key[1]).lower(), int(str(key[2]))
        there = entries.setdefault((model, types.index(name)), {})
        sizes, rates = own["gpus"].to_numpy().astype(np.int64), own["rate"].to_numpy()
        if servers in there:  # another spelling of the type
            sizes, rates = np.append(there[servers][0], sizes), np.append(there[servers][1], rates)
            order = np.argsort(sizes)
            sizes, rates = sizes[order], rates[order]
        there[servers] = (sizes, rates)
    return entries


def _rates(
    entries: Mapping[tuple[str, int], Mapping[int, _Sizes]],
    models: tuple[NDArray[np.int64], list[str]],
    asked: NDArray[np.int64],
) -> NDArray[np.float64]:
    """The rate of each column of (row, type, GPUs, servers)."""
    of, names = models
    key = of[asked[0]]
    for column in asked[1:]:
        key = key * (int(column.max(initial=0)) + 1) + column
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    wanted = zip(of[asked[0, first]].tolist(), *asked[1:, first].tolist(), strict=True)
    found = [_rate(entries.get((names[m], t), {}), gpus, servers) for m, t, gpus, servers in wanted]
    rates: NDArray[np.float64] = np.array(found, np.float64)[inverse]
    return rates


def _rate(measured: Mapping[int, _Sizes], gpus: int, servers: int) -> float:
    below, above = [n for n in measured if n <= servers], [n for n in measured if n > servers]
    for count in (*sorted(below, reverse=True), *sorted(above)):
        sizes, rates = measured[count]
        if sizes[0] <= gpus <= sizes[-1]:
            return float(np.interp(gpus, sizes, rates))
    return float("nan")
