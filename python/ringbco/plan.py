"""Plans a job table offline: Algorithm 1 of the paper and its baselines (docs/paper.md)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco import _core, causes, metrics, profiles
from ringbco.cluster import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.jobs import JobTable, TableLike, as_table

# A plan's folder is that of a replay, and so is made by the same parts.
from ringbco.options import (
    MODELS,
    MOST_KAPPA,
    MOST_SAMPLES,
    MOST_SEED,
    MOST_THREADS,
    OVERSIZE,
    VARIANTS,
    Policy,
    RunOptions,
    as_cluster,
    check_callback,
    check_name,
    factor,
    flag,
    integer,
    seconds,
)
from ringbco.outcome import Outcome
from ringbco.plausibility import doubts, warn
from ringbco.results import (
    allocations_frame,
    describe_run,
    explain,
    jobs_frame,
    summarise_run,
    timeline_frame,
)
from ringbco.scheduling import Scheduling

ORDERS: Final = ("smallest", "fifo")
DISPATCHES: Final = ("idle", "reserve")
PLACEMENTS: Final = {
    "sjf-bco": "sjf-bco",
    "ff": "first-fit",
    "ls": "least-loaded",
    "rand": "random",
}
"""The placement that each planner uses, under its theta."""
_MOST_SLOTS: Final = 2**52


def plan(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    policy: str = "sjf-bco",
    order: str = "smallest",
    dispatch: str = "idle",
    variant: str = "practical",
    model: str = "rar",
    kappa: int | Literal["auto"] | None = None,
    lambda_: float = 1.0,
    u: float = 1.0,
    horizon: int | Literal["auto"] | None = None,
    slot: float = 1.0,
    seed: int = 0,
    oversize: str = "error",
    sample: float | None = None,
    allocations: bool = True,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Plans `jobs` on `cluster`, all there at time 0 whatever their submit_time; returns the schedule.

    jobs, cluster, recorded_cluster, model, slot (seconds), oversize, sample (seconds), allocations: as for
        `replay`, but that the cluster may have no virtual clusters.
    policy: "sjf-bco" (Algorithms 1 to 3), "ff" (first-fit), "ls" (least-loaded) or "rand".
    order: "smallest" first, or "fifo", which is row order.
    dispatch: "idle" gives out idle GPUs only; "reserve" any, a job starting when all of its own are its.
    variant: of SJF-BCO, "practical" (the paper's prose) or "literal" (its listings).
    kappa: largest gang placed by FA-FFP, GPUs; None or "auto" tries 1 and every size of gang.
    lambda_, u: SJF-BCO's spread factor, and what estimates are divided by; both >= 1.
    horizon: T in slots; None or "auto" doubles from twice the work bound until a schedule exists.
    seed: of `rand`, and of the profiles that fill in what the job table lacks.
    threads: None for all; the plan is the same on any number of them.
    progress: called now and then with (steps done, steps in all).

    Raises InputError for a job that the cluster cannot run and where no schedule ends before the horizon,
    UsageError for a bad option. Warns as `replay` does.
    """
    started = time.perf_counter()
    options = _checked(
        policy=policy, order=order, dispatch=dispatch, variant=variant, model=model, kappa=kappa,
        lambda_=lambda_, u=u, horizon=horizon, slot=slot, seed=seed, oversize=oversize, sample=sample,
        threads=threads,
    )  # fmt: skip
    allocations = flag("allocations", allocations)
    check_callback(progress)
    kappa, slot, seed, sample = (options[name] for name in ("kappa", "slot", "seed", "sample"))
    lambda_, u, horizon = (options[name] for name in ("lambda_", "u", "horizon"))
    cluster = as_cluster(cluster, recorded_cluster)
    if cluster.server_vc is not None:
        raise InputError(
            f"cluster {cluster.name}: has virtual clusters, and a plan is for one cluster",
            hint="plan each virtual cluster by itself, or give the servers no vc",
        )
    table = as_table(jobs)
    warn(doubts(table, cluster))
    workload = profiles.resolve(table, cluster, model=model, seed=seed)
    _check_sample(sample, float(workload.ideal_run_time.max()))
    frame = table.frame.with_columns(pl.lit(0.0).alias("submit_time"))
    network = cluster.network
    try:
        planned = _core.plan(
            num_gpus=metrics.column(frame, "num_gpus"),
            duration=metrics.column(frame, "duration"),
            iterations=workload.iterations,
            gradient_bytes=workload.gradient_bytes,
            compute_time=workload.compute_time,
            server_gpus=cluster.server_gpus,
            network=(
                network.intra_bandwidth,
                network.inter_bandwidth,
                network.reduce_speed,
                network.xi1,
                network.xi2,
                network.alpha,
            ),
            progress=progress,
            **options,
        )
    except _core.CoreError as error:
        raise _refusal(error, table) from None
    result = planned.schedule
    why = causes.split(
        metrics.column(frame, "submit_time"),
        metrics.column(frame, "num_gpus"),
        workload,
        network,
        result,
        model=model,
    )
    finished = jobs_frame(frame, workload.ideal_run_time, why, result)
    summary = summarise_run(policy, finished, cluster, None, result) | _figures(planned, finished, workload)
    run = describe_run(
        table,
        cluster,
        Policy(policy, order, PLACEMENTS[policy], "strict"),
        RunOptions(
            model=model, clock="slot", slot=slot, kappa=0, lambda_=lambda_, variant=variant, seed=seed,
            ties="rows", oversize=oversize, sample=sample,
        ),
        Scheduling(),
        allocations=allocations,
    )  # fmt: skip
    run["options"] |= {
        "command": "plan",
        "dispatch": dispatch,
        "kappa": "auto" if kappa is None else kappa,
        "u": u,
        "horizon": "auto" if horizon is None else horizon,
    }
    return Outcome(
        jobs=finished,
        allocations=allocations_frame(frame, result) if allocations else None,
        timeline=timeline_frame(result),
        summary=metrics.with_seconds(summary, time.perf_counter() - started),
        run=run,
    )


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
    planned: _core.PlanResult, finished: pl.DataFrame, workload: profiles.Workload
) -> dict[str, Any]:
    """What summary.json says of a plan beside what it says of a replay."""
    return {
        "theta": planned.theta,
        "kappa": planned.kappa,
        "horizon": planned.horizon,
        "w_max": planned.w_max,
        "work_lower_bound": planned.work_bound,
        **approximation(finished, workload.estimate[planned.schedule.kept]),
        "thetas_tried": planned.thetas,
        "schedules_tried": planned.schedules,
        "schedules_known": planned.schedules_known,
    }


def _checked(**options: Any) -> dict[str, Any]:
    """The options as the engine takes them, once each of them is known to be right. Raises UsageError."""
    for name, known in (
        ("policy", _core.planners()),
        ("order", ORDERS),
        ("dispatch", DISPATCHES),
        ("variant", VARIANTS),
        ("model", MODELS),
        ("oversize", OVERSIZE),
    ):
        check_name(name, options[name], known)
    options["slot"] = seconds("slot", options["slot"])
    for name in ("lambda_", "u"):
        options[name] = factor(name.strip("_"), options[name])
    options["seed"] = integer("seed", options["seed"], 0, MOST_SEED)
    # run.toml and the command line spell what is searched for so.
    for name, least, most in (("kappa", 0, MOST_KAPPA), ("horizon", 1, _MOST_SLOTS)):
        value = options[name]
        searched = value is None or (isinstance(value, str) and value == "auto")
        options[name] = None if searched else integer(name, value, least, most)
    if options["threads"] is not None:
        options["threads"] = integer("threads", options["threads"], 1, MOST_THREADS)
    if options["sample"] is not None:
        options["sample"] = seconds("sample", options["sample"])
    return options


def _check_sample(sample: float | None, least: float) -> None:
    """Refuses a timeline that no memory would hold: the schedule is as long as its longest job at least."""
    if sample is not None and least / sample > MOST_SAMPLES:
        raise UsageError(
            f"option sample: {sample}: expected a step that gives at most {MOST_SAMPLES:,} points;"
            f" the schedule lasts {least:,.0f} s or longer"
        )


def _refusal(error: _core.CoreError, table: JobTable) -> InputError | UsageError:
    if error.kind == "no-schedule":
        return InputError(error.message, file=table.source, hint="give that --horizon, or none")
    if error.kind == "no-jobs":
        return InputError("no job is left to plan: each one is larger than the cluster", file=table.source)
    return explain(error, table, "plan")
