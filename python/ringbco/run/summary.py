"""summary.json: the figures of a run out of what the engine gives back (docs/results.md#summaryjson)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ringbco.result import metrics
from ringbco.result.by_type import by_type
from ringbco.result.energy import totals
from ringbco.result.reliability import DownTime, failures, used
from ringbco.result.searches import figures as searching
from ringbco.result.stays import ENDED, resized
from ringbco.run.steps import asleep, ended, held_gpus, refused
from ringbco.trace.shares import WHOLE, asked_gpus, thousandths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.spec import Cluster
    from ringbco.result.serving import Serving
    from ringbco.trace.outages import Outages


def _ended_jobs(
    frame: pl.DataFrame, result: _core.RunResult, among: NDArray[np.bool_] | None = None
) -> pl.DataFrame | None:
    """Jobs that a verb ended after they had run, as `metrics.makespan` takes them, of those `among`.

    None where there is none.
    """
    own = result.tables["jobs"]
    those = ended(result) & ~np.isnan(own["finish"])
    if among is not None:
        those &= among
    if not those.any():
        return None
    held = own["held_gpus"] if "held_gpus" in own else asked_gpus(frame) * own["held"]
    submit, finish = metrics.column(frame, "submit_time"), own["finish"]
    columns = {"submit_time": submit, "finish_time": finish, "held": held}
    return pl.DataFrame({name: values[those] for name, values in columns.items()})


def _lost(
    frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult, outages: pl.DataFrame | None
) -> dict[str, Any]:
    """What outages and evictions took from the jobs that were done; nothing where the run knows neither.

    outages: those that the engine was given.
    """
    if outages is None and "evictions" not in result.tables["jobs"]:
        return {}
    told: dict[str, Any] = {}
    if outages is not None:
        stays = result.tables["stays"]
        mine = (stays["ended"] == ENDED.index("failed")) & result.tables["jobs"]["kept"][stays["job"]]
        shares, gpus = thousandths(frame), stays["num_gpus"].astype(np.float64)
        if shares is not None:
            gpus = np.where(shares[stays["job"]] > 0, shares[stays["job"]] / WHOLE, gpus)
        rows = {"gpus": gpus, "lost_time": stays["lost_time"], "by": stays["by"]}
        causes = outages["cause"].to_list()
        told = failures({name: values[mine] for name, values in rows.items()}, causes)
    held, paused = (float(metrics.gpu_time(finished, what).sum()) for what in ("held", "lost"))
    ideal, taken = metrics.column(finished, "ideal_run_time"), metrics.column(finished, "run_time")
    return told | used(held, paused, told.get("lost_work_gpu_seconds", 0.0), ideal, taken)


def _served(
    frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult, serving: Serving | None
) -> dict[str, Any]:
    """What services got; nothing where the run knows none."""
    return {} if serving is None else serving.figures(*run_time(frame, finished, result))


def _down_by_type(
    cluster: Cluster, first: float, last: float, down: DownTime | None
) -> NDArray[np.float64] | None:
    """GPU-seconds of servers of each type that were down from `first` to `last`, s."""
    if down is None or cluster.server_types is None:
        return None
    types = range(len(cluster.types))
    servers = [np.flatnonzero(cluster.server_types == number) for number in types]
    return np.array([down.among(own).gpu_seconds(first, last) for own in servers])


def _asleep_by_type(
    cluster: Cluster, first: float, last: float, result: _core.RunResult
) -> NDArray[np.float64] | None:
    """The same of servers that were asleep."""
    spells = asleep(result)
    if spells is None or cluster.server_types is None:
        return None
    return spells.held(cluster).gpu_seconds(cluster, first, last)


def run_time(frame: pl.DataFrame, finished: pl.DataFrame, result: _core.RunResult) -> tuple[float, float]:
    """When the run begins and ends, s: its makespan lies between."""
    there = [finished, _ended_jobs(frame, result)]
    submit = [metrics.column(rows, "submit_time").min() for rows in there if rows is not None]
    finish = [metrics.column(rows, "finish_time").max() for rows in there if rows is not None]
    return float(min(submit)), float(max(finish))


def summarise_run(
    policy: str,
    frame: pl.DataFrame,
    finished: pl.DataFrame,
    cluster: Cluster,
    *,
    vc: NDArray[np.uint32] | None,
    result: _core.RunResult,
    outages: Outages | None = None,
    seen: pl.DataFrame | None = None,
    serving: Serving | None = None,
    searches: pl.DataFrame | None = None,
    resizes: bool = False,
) -> dict[str, Any]:
    """summary.json without the times that reading and writing take. `vc`: as `profiles.vc_index` gives it.

    frame: the job table; finished: jobs.parquet. outages: where the run was given any, and as the clock saw
    them; serving: what became of its services, likewise. searches: searches.parquet, where there is one.
    """
    spanning, kept, allocated = (
        result.spanning_seconds,
        result.tables["jobs"]["kept"],
        result.tables["allocations"],
    )
    fates = {"jobs_dropped": ~(kept | refused(result) | ended(result))}
    for name, fate in (("jobs_refused", refused(result)), ("jobs_ended", ended(result))):
        if fate.any():
            fates[name] = fate
    cut_short = _ended_jobs(frame, result)
    down = None if seen is None else DownTime.of(seen, cluster.server_gpus)
    figures = metrics.summarise(finished, cluster.num_gpus, result.held_while_submitting, cut_short, down)
    if resizes and "held_gpus" in result.tables["jobs"]:
        figures = told_behind("lost_gpu_seconds", figures, resized(result.tables["stays"], kept))
    summary = {
        "policy": policy,
        "jobs": figures.pop("jobs"),
        **{name: int(np.count_nonzero(fate)) for name, fate in fates.items()},
        **figures,
        **_lost(frame, finished, result, None if outages is None else outages.merged),
        **_served(frame, finished, result, serving),
        **({} if searches is None else searching(searches)),
        "mean_contention": result.contention_seconds / spanning if spanning > 0 else 0.0,
        "events": result.events,
        "decisions": result.decisions,
        "engine_seconds": result.engine_seconds,
    }
    first, last = run_time(frame, finished, result)
    replicas = None if serving is None else serving.held(last)
    types = by_type(
        cluster,
        server=allocated["server"],
        num_gpus=held_gpus(result),
        start=allocated["start"],
        end=allocated["end"],
        span=summary["makespan"],
        down=_down_by_type(cluster, first, last, down),
        asleep=_asleep_by_type(cluster, first, last, result),
        served=None
        if replicas is None or cluster.server_types is None
        else replicas.gpu_seconds(cluster, first, last),
    )
    if types and allocated["server"].size:  # where allocations are written down
        summary |= {**totals(types), "gpu_types": types}
    if vc is not None:
        rows = []
        vc_kept = vc[kept]
        for number, name in enumerate(cluster.vc_names):
            servers = cluster.vc_servers(name)
            gpus = int(cluster.server_gpus[servers].sum())
            row = {"vc": name, "servers": len(servers), "gpus": gpus}
            jobs = finished.filter(pl.Series(vc_kept == number))
            row["jobs"] = jobs.height
            row |= {name: int(np.count_nonzero(fate & (vc == number))) for name, fate in fates.items()}
            held = float(result.tables["vcs"]["held_while_submitting"][number])
            mine = None if down is None else down.among(servers)
            cut_short = _ended_jobs(frame, result, vc == number)
            rows.append(row | metrics.summarise(jobs, gpus, held, cut_short, mine) if jobs.height else row)
        summary["vcs"] = rows
    return summary


def told_behind(key: str, figures: dict[str, Any], others: dict[str, Any]) -> dict[str, Any]:
    """The figures, with others behind one of them."""
    at = [*figures].index(key) + 1
    items = [*figures.items()]
    return dict((*items[:at], *others.items(), *items[at:]))
