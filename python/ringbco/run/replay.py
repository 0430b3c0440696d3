"""Replays a job table on a cluster under a scheduling policy: arrays in, an Outcome out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import astuple
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.result import causes, metrics
from ringbco.result.outcome import Outcome, summarised_later
from ringbco.run import log
from ringbco.run.option import takes
from ringbco.run.options import (
    MOST_SAMPLES,
    as_cluster,
    check_callback,
    checked,
    described,
    is_log,
    refusal,
    resolve_policy,
)
from ringbco.run.options_generated import REPLAY, Options
from ringbco.run.scheduling import check_passes, check_policy, deadline, user
from ringbco.run.steps import (
    allocations_frame,
    decisions_frame,
    describe_run,
    explain,
    job_columns,
    jobs_frame,
    refused,
    summarise_run,
    timeline_frame,
)
from ringbco.trace import profiles
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.plausibility import doubts, warn


@takes(REPLAY)
def replay(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    policy: str = "sjf-bco",
    workload: profiles.Workload | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[Options],
) -> Outcome:
    """Replays `jobs` on `cluster` and returns what happened.

    jobs: a job table, a frame with its columns (polars, pyarrow, pandas or any other library with the Arrow
        PyCapsule interface), or the path of a Parquet or CSV file.
    cluster: a `Cluster`, or what `Cluster.parse` takes, such as "32x8".
    recorded_cluster: the cluster on which the trace was recorded, given as `cluster` is; None for what
        `cluster` says itself, else servers of 8 GPUs and the default network. The jobs' iterations follow
        from it where the table has none.
    policy: a preset; `order`, `placement` and `queue` override its parts. `ringbco policies` lists them all.
        "log:FILE" carries out the decisions of another run's decisions.parquet.
    workload: what `profiles.resolve` gave for this table, cluster, model and seed; None to resolve it here.
    progress: called now and then with (jobs finished, jobs in all).

    Raises InputError for a job that the cluster cannot run, UsageError for a bad option. Warns
    (RingbcoWarning) of values unlike any public trace or network, such as times in milliseconds.
    """
    started = time.perf_counter()
    chosen = resolve_policy(
        policy,
        order=options.get("order"),
        placement=options.get("placement"),
        queue=options.get("queue"),
    )
    values = checked(dict(options, policy=policy))
    check_policy(chosen, values)
    check_callback(progress)
    if not isinstance(workload, profiles.Workload | None):
        raise refusal("workload", workload, "what profiles.resolve gave, or None")
    cluster = as_cluster(cluster, recorded_cluster)
    table = as_table(jobs)
    warn(doubts(table, cluster))
    vc = profiles.vc_index(table, cluster)
    workload = workload or profiles.resolve(table, cluster, model=values["model"], seed=values["seed"])
    _check_sample(values["sample"], table, workload)
    check_passes(chosen, values, _work(table, cluster, workload, vc))
    network = cluster.network
    frame = table.frame
    try:
        result = _core.replay(
            {
                **job_columns(frame, workload),
                "vc": vc,
                "deadline": deadline(table, chosen),
                "user": user(table, chosen),
                "log": log.columns(policy, table, len(cluster.server_gpus)) if is_log(policy) else None,
            },
            {
                "server_gpus": cluster.server_gpus,
                "server_vc": None if vc is None else _server_vc(cluster),
                "network": astuple(network),
            },
            {"preemption": chosen.preemption, **described(chosen, values)},
            progress,
        )
    except _core.CoreError as error:
        raise explain(error, table) from None
    if not result.kept.any():
        by_admission = refused(result).any()
        fate = "admission refused each one" if by_admission else "each one is larger than the cluster"
        raise InputError(f"no job is left to replay: {fate}", file=table.source)
    ideal_run_time = workload.ideal_run_time
    why = causes.split(
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        workload,
        network,
        result,
        model=values["model"],
    )
    del workload  # six columns that nothing reads any more, freed before the results are put together
    finished = jobs_frame(frame, ideal_run_time, why, result)
    outcome = Outcome(
        jobs=finished,
        allocations=allocations_frame(frame, result) if values["allocations"] else None,
        timeline=timeline_frame(result),
        decisions=decisions_frame(frame, result) if values["decisions"] else None,
        run=describe_run(table, cluster, policy, described(chosen, values)),
    )
    seconds = time.perf_counter() - started

    def figures() -> dict[str, Any]:
        return metrics.with_seconds(summarise_run(chosen.name, finished, cluster, vc, result), seconds)

    return summarised_later(outcome, figures)


def _server_vc(cluster: Cluster) -> NDArray[np.uint32]:
    """Each server's virtual cluster as an index into `cluster.vc_names`."""
    number = {name: index for index, name in enumerate(cluster.vc_names)}
    return np.array([number[name] for name in cluster.server_vc or ()], dtype=np.uint32)


def _work(
    table: JobTable, cluster: Cluster, workload: profiles.Workload, vc: NDArray[np.uint32] | None
) -> Iterator[tuple[float, float]]:
    """Of each (virtual) cluster, the GPU-seconds that its jobs ask for, and its GPUs."""
    asked = metrics.column(table.frame, "num_gpus") * workload.ideal_run_time
    if vc is None:
        yield float(asked.sum()), cluster.num_gpus
    else:
        for name, work in zip(cluster.vc_names, np.bincount(vc, asked, len(cluster.vc_names)), strict=True):
            yield float(work), int(cluster.server_gpus[cluster.vc_servers(name)].sum())


def _check_sample(sample: float | None, table: JobTable, workload: profiles.Workload) -> None:
    """Refuses a timeline that no memory would hold: a run lasts at least as long as if nobody ever queued."""
    submit = metrics.column(table.frame, "submit_time")
    least = float((submit + workload.ideal_run_time).max() - submit.min())
    if sample is not None and least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the run lasts {least:,.0f} s or longer"
        )
