"""What is in a job table: pure figures, ready for JSON. Times in seconds, work in GPU-seconds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.cluster.spec import RECORDED, Cluster
from ringbco.errors import InputError
from ringbco.run.options import as_cluster
from ringbco.sources.account import Account
from ringbco.sources.remedies import remedy
from ringbco.study import published
from ringbco.study.demand import Clock, Periods, demand, load_by_day, ties
from ringbco.study.recorded_waits import by_group, utilisation
from ringbco.trace.gpu_type_choices import most_gpus, resolve
from ringbco.trace.jobs import (
    COLUMNS,
    METADATA_PREFIX,
    Dropped,
    JobTable,
    Screening,
    TableLike,
    as_table,
    gpus_of,
    near_name,
    screen_jobs,
    share_hint,
)
from ringbco.trace.other_names import CONVERTED
from ringbco.trace.plausibility import MILLI, slurm_parts, warn, warnings_of
from ringbco.trace.priorities import preemptible, priorities
from ringbco.trace.profiles import CATALOGUE
from ringbco.trace.recorded import recorded_waits
from ringbco.trace.records import apart
from ringbco.trace.shares import asked_gpus

QUANTILES: Final = {
    "min": 0.0,
    "p10": 0.1,
    "p25": 0.25,
    "median": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p99": 0.99,
    "max": 1.0,
}

LONG_RUN: Final = 1_209_600.0
"""Two weeks: the cap of the usual cleaning of the Helios traces."""

SHORT_RUN: Final = 60.0
"""Runs below a minute are mostly failed starts and trials; studies of training jobs often leave them out."""

FINAL_STATUSES: Final = (
    *("pass", "passed", "completed", "succeeded", "terminated"),
    *("killed", "cancelled", "canceled", "failed", "timeout", "node_fail"),
    *("out_of_memory", "preempted", "requeued", "boot_fail", "deadline", "launch_failed", "special_exit"),
    *("revoked", "resizing"),
)
"""Statuses of jobs that ended, in lower case."""


def inspect(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str] | None = None,
    *,
    shape: str | None = None,
) -> dict[str, Any]:
    """What is in a job table, as `ringbco inspect --json` prints it: counts, shapes, load, doubtful rows.

    jobs: a path, whose rows that break a rule are counted and left out, or a table or frame, which has none.
    cluster: also give the load on its GPUs and the jobs that it cannot hold.
    shape: a name of `ringbco.study.published.PUBLISHED_TRACES` to compare the figures with; None for the
        one that the table says it is of.
    Times in seconds, work in GPU-seconds.

    Raises InputError where the file is no job table or has no usable row, UsageError for an unknown shape.
    """
    if shape is not None:
        published.check_name(shape)
    machine = None if cluster is None else as_cluster(cluster)
    if not isinstance(jobs, str | os.PathLike):
        return inspect_jobs(as_table(jobs), machine, shape=shape)
    screening = screen_jobs(jobs)
    table = usable(screening, jobs)
    return inspect_jobs(table, machine, screening.dropped, screening.rows, shape)


def usable(screening: Screening, path: str | os.PathLike[str]) -> JobTable:
    """The table of the rows that break no rule; InputError, with the first that does, where there is none."""
    if screening.table is not None:
        return screening.table
    worst = screening.dropped[0]
    error = InputError(
        f"{worst.rule}, and no row is usable",
        file=path,
        row=worst.first_row,
        column=worst.column,
        value=worst.first_value,
        hint=share_hint(worst.column, worst.first_value),
    )
    raise remedy(path, error) or error


def inspect_jobs(
    table: JobTable,
    cluster: Cluster | None = None,
    dropped: Iterable[Dropped] = (),
    rows: NDArray[np.int64] | None = None,
    shape: str | None = None,
) -> dict[str, Any]:
    """Counts, shapes and load of a job table, beside what is published of its source.

    cluster: with it, the offered load on its GPUs (and on those of each of its virtual clusters), all told
    and by day, and the jobs it can never hold. dropped: rows that the reader had to leave out, as
    `screen_jobs` gives them; rows: the numbers that the others have in the file, from 1. shape: a name of
    `published.PUBLISHED_TRACES`; without it the footer's source decides. Raises UsageError for another
    name. Warns (RingbcoWarning) of each line in `warnings`.
    """
    frame, recorded = table.frame, RECORDED if cluster is None else cluster.recorded_on
    submit, duration = frame["submit_time"].to_numpy(), frame["duration"].to_numpy()
    num_gpus = frame["num_gpus"].to_numpy()
    work = asked_gpus(frame) * duration
    span = float(submit.max() - submit.min())
    lacks_vc = _without_vc(frame, cluster)
    metadata = _metadata(table)
    clock = Clock.parse(metadata.get("epoch"), frame["submit_time"])
    periods = Periods.of(submit, clock)
    account = Account.from_metadata(table.metadata)
    figures: dict[str, Any] = {
        "source": table.source,
        "jobs": table.num_jobs,
        "sorted": table.is_sorted,
        "first_submission": float(submit.min()),
        "last_submission": float(submit.max()),
        "span": span,
        "if_milliseconds": {"span": span * MILLI, "median_duration": float(np.median(duration)) * MILLI},
        "warnings": [
            *warnings_of(table, cluster),
            *apart(table, recorded),
            *slurm_parts(frame["job_id"]),
        ],
        "gpu_seconds": float(work.sum()),
        "mean_gpus_demanded": float(work.sum()) / span if span > 0 else None,
        "num_gpus": _spread(num_gpus.astype(np.float64)),
        "duration": _spread(duration),
        "interarrival": _spread(np.diff(np.sort(submit))) if submit.size > 1 else None,
        "same_second": _same_second(submit),
        "ties": _ties(frame, cluster),
        "sizes": _groups(frame, work, "num_gpus"),
        "vcs": _groups(frame, work, "vc"),
        "users": _groups(frame, work, "user"),
        "statuses": _groups(frame, work, "status"),
        "gpu_types": _asked_types(frame, work),
        "models": _models(frame),
        "priorities": _priorities(frame, work),
        "elastic": _elastic(frame),
        "columns": _columns(frame),
        "iterations": _iterations(frame, recorded),
        "recorded": _recorded(frame, cluster),
        "demand": demand(frame, clock, periods, None if cluster is None else cluster.num_gpus),
        "cluster": None if cluster is None else _on_cluster(frame, work, span, cluster, periods),
        "cleaning": {
            "dropped": [_broken(entry) for entry in dropped],
            "questionable": _questionable(table, work, cluster, lacks_vc, rows),
        },
        "account": None if account is None else account.to_dict(),
        "metadata": metadata,
    }
    warn(figures["warnings"])
    name, why = published.detect(figures, shape)
    figures["published"] = (
        published.no_comparison(why) if name is None else published.compare_figures(figures, name, why)
    )
    return figures


def _iterations(frame: pl.DataFrame, recorded: Cluster) -> dict[str, Any]:
    """Jobs whose iterations the table gives, and the recorded cluster that the others' follow from."""
    given = int(frame["iterations"].count()) if "iterations" in frame.columns else 0
    return {"given": given, "derived": frame.height - given, "recorded_on": recorded.description}


def _recorded(frame: pl.DataFrame, cluster: Cluster | None) -> dict[str, Any] | None:
    """Waits in the log, and how much of the cluster it held; None of a table without recorded starts."""
    waits = recorded_waits(frame)
    if waits is None:
        return None
    known = waits[~np.isnan(waits)]
    return {
        "jobs": known.size,
        "waits": _spread(known),
        "waits_by": by_group(frame, waits),
        **utilisation(frame, waits, None if cluster is None else cluster.num_gpus),
    }


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean and quantiles (linear interpolation) of a non-empty array."""
    quantiles = np.quantile(values, list(QUANTILES.values()))
    return {"mean": float(values.mean()), **dict(zip(QUANTILES, map(float, quantiles), strict=True))}


def _same_second(submit: NDArray[np.float64]) -> dict[str, float]:
    """Jobs that share the whole second of their submission with another job."""
    _, counts = np.unique(np.floor(submit), return_counts=True)
    jobs = int(counts[counts > 1].sum())
    return {"jobs": jobs, "share": jobs / submit.size}


def _ties(frame: pl.DataFrame, cluster: Cluster | None) -> dict[str, Any]:
    """Jobs that the order of ties could move; `in_one_vc`: those of them that also share a queue."""
    separate = cluster is not None and bool(cluster.vc_names) and "vc" in frame.columns
    return {**ties(frame), "in_one_vc": ties(frame, ("vc", "submit_time")) if separate else None}


def _groups(frame: pl.DataFrame, work: NDArray[np.float64], column: str) -> list[dict[str, Any]] | None:
    """Jobs, work and run times by a column's values, most jobs first (num_gpus ascending).

    None where the table has no such column, or no value in it.
    """
    if column not in frame.columns or frame[column].null_count() == frame.height:
        return None
    total = float(work.sum())
    groups = (
        frame.select(column, "duration", work=pl.Series(work))
        .group_by(column)
        .agg(
            jobs=pl.len(),
            gpu_seconds=pl.col("work").sum(),
            median_duration=pl.col("duration").median(),
            mean_duration=pl.col("duration").mean(),
        )
        .with_columns(share=pl.col("jobs") / frame.height, work_share=pl.col("gpu_seconds") / total)
    )
    if column == "num_gpus":
        return groups.sort(column).to_dicts()
    return groups.sort("jobs", column, descending=[True, False], nulls_last=True).to_dicts()


def _asked_types(frame: pl.DataFrame, work: NDArray[np.float64]) -> list[dict[str, Any]] | None:
    """As `_groups`, by the types that jobs ask for in gpu_type, null for any; None if no job asks."""
    if "gpu_type" not in frame.columns:
        return None
    # Names compare without case; a group is shown as its first job spells it.
    spelled = frame["gpu_type"].str.strip_chars().replace("", None)
    if spelled.null_count() == frame.height:
        return None
    key = spelled.str.to_lowercase()
    first = pl.DataFrame({"key": key, "gpu_type": spelled}).unique("key", keep="first")
    shown = pl.DataFrame({"key": key}).join(first, on="key", how="left", maintain_order="left")["gpu_type"]
    return _groups(frame.with_columns(shown), work, "gpu_type")


def _priorities(frame: pl.DataFrame, work: NDArray[np.float64]) -> list[dict[str, Any]] | None:
    """As `_groups`, the highest priority first, with the jobs that may be evicted; None if all are equal."""
    given = priorities(frame)
    if given is None:
        return None
    able = preemptible(frame)
    may = pl.Series("may", np.ones(frame.height, bool) if able is None else able)
    known = frame.with_columns(pl.Series("priority", given))
    counts = dict(known.select("priority", may).group_by("priority").agg(pl.col("may").sum()).iter_rows())
    groups = _groups(known, work, "priority") or []
    groups.sort(key=lambda group: -group["priority"])
    return [{**group, "preemptible": counts[group["priority"]]} for group in groups]


def _models(frame: pl.DataFrame) -> dict[str, Any] | None:
    """Jobs that name a model, and of those the ones whose model is in the catalogue."""
    if "model" not in frame.columns:
        return None
    known = [profile.name.lower() for profile in CATALOGUE]
    named = frame["model"].drop_nulls()
    in_catalogue = named.str.to_lowercase().is_in(known)
    unknown = named.filter(~in_catalogue).unique().sort()
    return {
        "named": named.len(),
        "in_catalogue": int(in_catalogue.sum()),
        "unknown": unknown.head(20).to_list(),
    }


def _elastic(frame: pl.DataFrame) -> dict[str, int]:
    """Jobs that a policy may give other GPUs than num_gpus: all told, fewer, more."""
    asked = frame["num_gpus"].to_numpy()
    fewer, more = gpus_of(frame, "min_gpus") < asked, gpus_of(frame, "max_gpus") > asked
    counts = {"jobs": fewer | more, "fewer": fewer, "more": more}
    return {name: int(np.count_nonzero(those)) for name, those in counts.items()}


def _columns(frame: pl.DataFrame) -> dict[str, Any]:
    """Values that each column of the schema lacks; extra columns and what they may be misspellings of."""
    extra = [name for name in frame.columns if name not in COLUMNS]
    absent = [name for name in COLUMNS if name not in frame.columns]
    if not {"fp_time", "bp_time"} & set(frame.columns):  # the durations say what iterations would
        absent = [name for name in absent if name != "iterations"]
    return {
        "present": {name: frame[name].null_count() for name in COLUMNS if name in frame.columns},
        "extra": {name: None if name in CONVERTED else near_name(name, absent) for name in extra},
    }


def _on_cluster(
    frame: pl.DataFrame, work: NDArray[np.float64], span: float, cluster: Cluster, periods: Periods
) -> dict[str, Any]:
    """Offered load: work / span / GPUs, on the cluster and on each of its virtual clusters.

    By day it is the GPU-days that the day's submissions bring / GPUs; `days` lists it for a virtual cluster,
    in the order of the whole table's days.
    """

    def offered(seconds: float, gpus: int) -> float | None:
        return seconds / span / gpus if span > 0 else None

    figures: dict[str, Any] = {
        "name": cluster.name,
        "servers": cluster.num_servers,
        "gpus": cluster.num_gpus,
        "load": offered(float(work.sum()), cluster.num_gpus),
        "load_by_day": load_by_day(periods.offered(work), cluster.num_gpus),
        "vcs": None,
    }
    if cluster.vc_names:
        vcs = frame["vc"].to_numpy() if "vc" in frame.columns else np.full(frame.height, None)
        rows = []
        for name in cluster.vc_names:
            gpus = int(cluster.server_gpus[cluster.vc_servers(name)].sum())
            own = vcs == name
            by_day = periods.offered(work, own)
            rows.append(
                {
                    "vc": name,
                    "gpus": gpus,
                    "jobs": int(np.count_nonzero(own)),
                    "load": offered(float(work[own].sum()), gpus),
                    "load_by_day": load_by_day(by_day, gpus),
                    "days": (by_day / gpus).tolist(),
                }
            )
        figures["vcs"] = rows
    return figures


def _vc_numbers(frame: pl.DataFrame, cluster: Cluster) -> NDArray[np.int64]:
    """Each job's virtual cluster as an index into the cluster's, -1 for none of them; 0 if it has none."""
    names = cluster.vc_names
    if not names or "vc" not in frame.columns:
        return np.full(frame.height, -1 if names else 0)
    numbers = list(range(len(names)))
    return frame["vc"].replace_strict(list(names), numbers, default=-1, return_dtype=pl.Int64).to_numpy()


def _most_gpus(table: JobTable, cluster: Cluster) -> NDArray[np.int64]:
    """GPUs that each job may hold at most; 0 for one of no virtual cluster of the cluster."""
    vc = _vc_numbers(table.frame, cluster)
    most = most_gpus(cluster, resolve(table, cluster), vc, table.num_jobs)
    return np.where(vc >= 0, most, 0)


def _without_vc(frame: pl.DataFrame, cluster: Cluster | None) -> NDArray[np.bool_]:
    if cluster is None:
        return np.zeros(frame.height, dtype=np.bool_)
    lacks: NDArray[np.bool_] = _vc_numbers(frame, cluster) < 0
    return lacks


def _questionable(
    table: JobTable,
    work: NDArray[np.float64],
    cluster: Cluster | None,
    lacks_vc: NDArray[np.bool_],
    rows: NDArray[np.int64] | None,
) -> list[dict[str, Any]]:
    """Rows that break no rule but are worth checking, by reason, where there are any."""
    frame = table.frame
    duration = frame["duration"].to_numpy()
    reasons = [
        ("runs longer than two weeks", "cleaners of the Helios traces cap it there", duration > LONG_RUN),
        ("runs less than a minute", "studies of training often leave such trials out", duration < SHORT_RUN),
    ]
    if "status" in frame.columns:
        unfinished = ~frame["status"].str.to_lowercase().is_in(FINAL_STATUSES).fill_null(True)
        reasons.append(
            (
                "its status is not a final one",
                "the end of the log may have cut off its run",
                unfinished.to_numpy(),
            )
        )
    if "user" in frame.columns:
        same = frame.select("user", "submit_time", "num_gpus", "duration").is_duplicated()
        same &= frame["user"].is_not_null()
        reasons.append(
            ("same user, second, size and run time as another", "the log may hold it twice", same.to_numpy())
        )
    if cluster is not None:
        most = _most_gpus(table, cluster)
        no_type, too_large = most == 0, frame["num_gpus"].to_numpy() > most
        refused = "the replay refuses it, or drops it with --oversize drop"
        reasons += [
            ("its vc is not in the cluster", "the replay refuses it", lacks_vc),
            ("no GPU of a type that it may use", refused, no_type & ~lacks_vc),
            ("larger than its cluster", refused, too_large & ~no_type & ~lacks_vc),
        ]
    total = float(work.sum())
    return [
        {
            "reason": reason,
            "why": why,
            "jobs": int(np.count_nonzero(met)),
            "share": float(np.count_nonzero(met) / frame.height),
            "work_share": float(work[met].sum()) / total,
            "first_row": int(np.argmax(met)) + 1 if rows is None else int(rows[np.argmax(met)]),
        }
        for reason, why, met in reasons
        if met.any()
    ]


def _broken(entry: Dropped) -> dict[str, Any]:
    value = entry.first_value
    return {
        "reason": f"{entry.column} is not {entry.rule}",
        "rows": entry.rows,
        "matching": entry.matching,
        "first_row": entry.first_row,
        "first_value": None if value is None else str(value),
        "first_beside": entry.first_beside or None,
    }


def _metadata(table: JobTable) -> dict[str, Any]:
    """The footer's keys without their prefix; values that are JSON are unfolded."""
    unfolded: dict[str, Any] = {}
    for key, value in table.metadata.items():
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = value
        unfolded[key.removeprefix(METADATA_PREFIX)] = parsed
    return unfolded
