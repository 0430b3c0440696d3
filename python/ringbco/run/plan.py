"""Plans a job table offline: Algorithm 1 of the paper and its baselines (docs/paper.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any, Final, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import NICS
from ringbco.errors import InputError, UsageError
from ringbco.io.bridge import open_arrays
from ringbco.io.toml import copied
from ringbco.result import causes, metrics
from ringbco.result.figures import evaluate
from ringbco.result.outcome import Outcome, with_seconds
from ringbco.run.frames import (
    allocations_frame,
    describe_run,
    explain,
    jobs_columns,
    timeline_frame,
    with_arrivals,
    with_causes,
)
from ringbco.run.option import takes
from ringbco.run.options import (
    MOST_SAMPLES,
    MOST_THREADS,
    Policy,
    as_cluster,
    check_callback,
    checked,
    described,
    integer,
)
from ringbco.run.registry import PLAN, REPLAY
from ringbco.run.setup import vc_of_servers
from ringbco.run.summary import Source
from ringbco.trace.forms import refuse
from ringbco.trace.jobs import JobTable, TableLike, as_table
from ringbco.trace.plausibility import warn
from ringbco.trace.pods import pod_sizes
from ringbco.trace.shares import thousandths
from ringbco.trace.workload import resolve

if TYPE_CHECKING:
    from ringbco.run.option_types import PlanOptions
else:
    PlanOptions = dict  # only a stub has its fields

PLACEMENTS: Final = {
    "sjf-bco": "sjf-bco",
    "ff": "first-fit",
    "ls": "least-loaded",
    "rand": "random",
}
"""The placement that each planner uses, under its theta."""


_NONE: Final = {
    "outages": "a plan is made beforehand, and knows of no failure",
    "maintenance": "a plan is made of servers that stay up",
    "evict": "a plan starts each job once, and stops none",
    "victims": "a plan evicts no job",
    "evict_after": "a plan evicts no job",
    "evict_loses": "a plan evicts no job",
    "preempt_loses": "a plan stops no job",
    "keep_unpreemptible": "a plan stops no job",
    "quota": "a plan gives GPUs to jobs regardless of their owners",
    "services": "a plan gives every GPU to jobs",
    "search": "a plan knows no losses, by which trials end",
    "enforce_limits": "a plan lets every job run to its end",
    "sleep_after": "a plan's servers are awake",
    "wake_time": "a plan's servers are awake",
    "jobs_per_gpu": "a plan gives each GPU to one job at a time",
    "placement": "a plan's policy places jobs itself",
    "queue": "a plan has the option dispatch",
    "decisions": "the plan is what was decided, and its allocations say it",
}
"""Options of `replay` that a plan refuses by design, and why."""


@takes(PLAN)
def plan(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    policy: str = "sjf-bco",
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    clock: str = "slot",
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[PlanOptions],
) -> Outcome:
    """Plans `jobs` on `cluster`, all there at time 0 whatever their submit_time; returns the schedule.

    jobs, cluster, recorded_cluster: as for `replay`. Each virtual cluster is planned by itself, and how its
        plan was found stands in its entry of the summary's `vcs`.
    clock: "slot", the only one that a plan has.
    policy: "sjf-bco" (Algorithms 1 to 3), "ff" (first-fit), "ls" (least-loaded) or "rand".
    threads: None for all; the plan is the same on any number of them.
    progress: called now and then with (steps done, steps in all).

    Raises InputError for a job that the cluster cannot run and where no schedule ends before the horizon,
    UsageError for a bad option. Warns as `replay` does.
    """
    started = time.perf_counter()
    _refuse({"clock": clock, **options})
    values = checked({"policy": policy, **options}, PLAN, command="plan")
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    cluster = as_cluster(cluster, recorded_cluster)
    table = as_table(jobs)
    workload = resolve(table, cluster, values)
    if workload.kinds is not None:
        raise InputError(
            f"cluster {cluster.name}: has GPUs that differ, and a plan takes all GPUs for equal",
            hint="plan for servers without gpu_type, or for those of one type",
        )
    if cluster.tiers or cluster.nics != NICS[0]:
        has = "a network of tiers" if cluster.tiers else "a link for each GPU"
        raise InputError(
            f"cluster {cluster.name}: has {has}, and a plan knows the links of servers alone",
            hint="plan without [[network.tiers]] and nics, or replay the jobs: `ringbco replay`",
        )
    _refuse_pods(table)
    refuse(table, "a plan")
    warn(found := workload.warnings)
    profiled = workload.profiled
    _check_sample(values["sample"], float(profiled.ideal_run_time.max()))
    frame = table.frame.with_columns(pl.lit(0.0).alias("submit_time"))
    network = cluster.network
    open_arrays()
    try:
        planned = _core.plan(
            {**workload.columns, "submit": metrics.column(frame, "submit_time")},
            {
                "server_gpus": cluster.server_gpus,
                "server_vc": None if workload.vc is None else vc_of_servers(cluster),
                "network": astuple(network),
            },
            {option.name: values[name] for name, option in PLAN.items() if name != "allocations"},
            progress,
            threads=threads,
        )
    except _core.CoreError as error:
        raise _refusal(error, table) from None
    result = planned.schedule
    jobs_told = result.tables["jobs"]
    why = causes.parts(
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        profiled,
        network,
        jobs_told,
        model=values["model"],
    )
    done = jobs_columns(with_arrivals(frame, result), profiled.ideal_run_time, result)
    finished = with_causes(done.frame, why, jobs_told["kept"])
    summary = evaluate(Source(policy, frame, done, cluster, result, vc=workload.vc).rows)
    if workload.vc is None:
        summary |= _figures(planned.found[0], finished, profiled.estimate[jobs_told["kept"]])
    else:
        of = workload.vc[jobs_told["kept"]]
        estimate = profiled.estimate[jobs_told["kept"]]
        for number, (entry, how) in enumerate(zip(summary["vcs"], planned.found, strict=True)):
            own = of == number
            entry.update(_figures(how, finished.filter(own), estimate[own]))
    shared = {name: value for name, value in values.items() if name in REPLAY}
    in_effect = {name: option.default for name, option in REPLAY.items()} | shared | {"clock": "slot"}
    chosen = Policy(policy, values["order"], PLACEMENTS[policy], "strict")
    run = copied(describe_run(table, cluster, policy, described(chosen, in_effect), found))
    own = {option.name: values[name] for name, option in PLAN.items() if name not in REPLAY or option.word}
    words = {option.name: option.word for option in PLAN.values() if option.word}
    run["options"] |= {"command": "plan"} | {
        name: words.get(name) if value is None else value for name, value in own.items()
    }
    return Outcome(
        jobs=finished,
        allocations=allocations_frame(frame["job_id"], result, shares=thousandths(frame) is not None)
        if values["allocations"]
        else None,
        timeline=timeline_frame(result),
        summary=with_seconds(summary, time.perf_counter() - started),
        run=run,
    )


def _refuse(options: Mapping[str, Any]) -> None:
    """Raises UsageError for an option of `replay` that no plan has."""
    if options["clock"] != "slot":
        raise UsageError(f"option clock: {options['clock']!r}: expected slot: a plan starts jobs at slots")
    if options.get("model") == "table":
        raise UsageError("option model: 'table': expected rar or fixed: a plan takes all GPUs for equal")
    for name in options:
        if name in _NONE:
            raise UsageError(f"option {name}: expected none: {_NONE[name]}")


def approximation(finished: pl.DataFrame, estimate: NDArray[np.float64]) -> dict[str, float]:
    """Theorem 5's n_g, phi, u and l, measured on a schedule, and the ratio n_g phi u / l that they give.

    `finished` is the schedule's jobs table, `estimate` its jobs' rho, seconds. n_g is the largest gang, phi
    the largest rho over the least, and [l, u] the narrowest interval around 1 that holds run_time / rho.
    """
    ratio = metrics.column(finished, "run_time") / estimate
    gang = int(metrics.column(finished, "num_gpus").max())
    phi = float(estimate.max() / estimate.min())
    high, low = max(1.0, float(ratio.max())), min(1.0, float(ratio.min()))
    return {
        "approximation_bound": gang * phi * high / low,
        "bound_n_g": gang,
        "bound_phi": phi,
        "bound_u": high,
        "bound_l": low,
    }


def _figures(
    found: _core.PlanFound | None, finished: pl.DataFrame, estimate: NDArray[np.float64]
) -> dict[str, Any]:
    """What summary.json says of the plan of one cluster beside what it says of a replay."""
    if found is None:
        return {}
    return {
        "theta": found.theta,
        "kappa": found.kappa,
        "horizon": found.horizon,
        "w_max": found.w_max,
        "work_lower_bound": found.work_bound,
        **approximation(finished, estimate),
        "thetas_tried": found.thetas,
        "schedules_tried": found.schedules,
    }


def _check_sample(sample: float | None, least: float) -> None:
    """Refuses a timeline that no memory would hold: the schedule is as long as its longest job at least."""
    if sample is not None and least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the schedule lasts {least:,.0f} s or longer"
        )


def _refuse_pods(table: JobTable) -> None:
    """Raises InputError for the first job in pods of several GPUs."""
    sizes = pod_sizes(table.frame)
    if (sizes > 1).any():
        row = int(np.argmax(sizes > 1))
        raise InputError(
            "1, as a plan places GPU by GPU",
            file=table.source,
            row=row + 1,
            column="gpus_per_pod",
            value=int(sizes[row]),
            hint="leave the column out, or replay the jobs: `ringbco replay --policy sjf-bco`",
        )


def _refusal(error: _core.CoreError, table: JobTable) -> InputError | UsageError:
    if error.kind == "no-schedule":
        return InputError(error.message, file=table.source, hint="give that --horizon, or none")
    if error.kind == "no-jobs":
        return InputError("no job is left to plan: each one is larger than the cluster", file=table.source)
    return explain(error, table, "plan")
