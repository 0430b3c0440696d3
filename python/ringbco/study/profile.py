"""A job table with nothing left to a profile: what `profiles` would fill in, written down."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib.metadata import version
from typing import Final

import numpy as np
import polars as pl

from ringbco.cluster.spec import RECORDED, Cluster
from ringbco.io.json_text import json_text
from ringbco.run.options import MOST_SEED, as_cluster, integer
from ringbco.trace.jobs import COLUMNS, METADATA_PREFIX, JobTable, TableLike, as_table
from ringbco.trace.profiles import CATALOGUE, entries, resolve

FILLED: Final = ("model", "iterations", "gradient_bytes", "batch_size", "fp_time", "bp_time")
"""The columns that a profile fills in."""
KEY: Final = f"{METADATA_PREFIX}profile"
"""The footer key that says how the columns were filled in."""


def profile(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str] | None = None,
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> JobTable:
    """The same jobs with iterations, gradient_bytes, batch_size, fp_time and bp_time for every one.

    jobs: as for `replay`. A value that the table gives stays as it is. The others are those that a replay
    with this recorded cluster and this seed uses, so a replay of the filled table gives what a replay of
    `jobs` gives. A job has one compute time for an iteration, of the catalogue's entry or from its iterations
    and its duration: it becomes bp_time, and fp_time is 0. `model` names the entry where one was used and the
    table named none. The metadata key `ringbco.profile` says how the values came about.

    cluster: a cluster whose file may say, in [recorded], where the trace was recorded; None for one that does
        not. recorded_cluster: as for `replay`.

    Raises InputError where `profiles.resolve` does, UsageError for a bad option.
    """
    seed = integer("seed", seed, 0, MOST_SEED)
    recorded = as_cluster(cluster or RECORDED, recorded_cluster).recorded_on
    table = as_table(jobs)
    frame = table.frame
    # Where it is replayed does not matter to what is filled in.
    workload = resolve(table, RECORDED.with_recorded(recorded), model="rar", seed=seed)
    given = {name: frame[name] if name in frame.columns else pl.Series([None]) for name in FILLED}
    silent = {
        name: np.ones(frame.height, np.bool_) if name not in frame.columns else column.is_null().to_numpy()
        for name, column in given.items()
    }
    no_compute = silent["fp_time"] & silent["bp_time"]
    used = (no_compute & silent["iterations"]) | silent["gradient_bytes"]
    chosen = entries(frame, seed).tolist()
    names = [CATALOGUE[entry].name if by else None for entry, by in zip(chosen, used, strict=True)]
    values = {
        "model": pl.Series(names, dtype=pl.String),
        "iterations": pl.Series(workload.iterations),
        "gradient_bytes": pl.Series(workload.gradient_bytes),
        "batch_size": pl.Series(np.ones(frame.height, np.uint32)),
        "fp_time": pl.Series(np.zeros(frame.height)),
        "bp_time": pl.Series(np.where(no_compute, workload.compute_time, 0.0)),
    }
    columns = []
    for name, filler in values.items():
        whole = filler.cast(COLUMNS[name].dtype)
        if name in frame.columns:
            whole = frame.select(pl.col(name).fill_null(whole)).to_series()
        columns.append(whole.alias(name))
    told = {
        "seed": seed,
        "recorded_cluster": recorded.to_toml(),
        "version": version("ringbco"),
        "filled": {
            name: int((silent[name] & values[name].is_not_null().to_numpy()).sum()) for name in FILLED
        },
    }
    return replace(
        table,
        frame=frame.with_columns(columns),
        metadata={**table.metadata, KEY: json_text(told, indent=None)},
    )
