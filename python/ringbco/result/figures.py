"""Every figure, once: a key of summary.json, a row of a comparison, a line of the terminal, of docs.

`evaluate` works them out of a run, a virtual cluster, a size class, a GPU type, a service or any jobs alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import numpy as np

from ringbco.deprecation import warn
from ringbco.result.answered import REQUEST_FIGURES
from ringbco.result.metrics import STATISTICS, jain_index, rank_correlation, statistics
from ringbco.result.reliability import UNKNOWN
from ringbco.result.rows import JobArrays, Rows
from ringbco.result.serving import attainment, services_of
from ringbco.units import Kind, brief, figure, same

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from ringbco.result.links import OfTier
    from ringbco.result.rows import OfType, Scope
    from ringbco.result.serving import OfService

_HOUR: Final = 3600.0
_NEAR_WAIT: Final = 60.0  # s
_RUN: Final[frozenset[Scope]] = frozenset({"run"})
_CLUSTER: Final[frozenset[Scope]] = frozenset({"run", "vc"})
_JOBS: Final[frozenset[Scope]] = frozenset({"run", "vc", "jobs"})
_EVERY: Final[frozenset[Scope]] = _JOBS | {"class"}
_VC: Final[frozenset[Scope]] = frozenset({"vc", "empty vc"})
_CLASS: Final[frozenset[Scope]] = frozenset({"class"})
_TYPE: Final[frozenset[Scope]] = frozenset({"type"})
_TIER: Final[frozenset[Scope]] = frozenset({"tier"})
_SERVICE: Final[frozenset[Scope]] = frozenset({"service"})


_ALWAYS_TOLD: Final = ("utilisation_to_last_submission", "mean_contention")
MAY_BE_NULL: Final = (
    *(*_ALWAYS_TOLD, "mean_jct_completed", "effective_training_time_ratio", "latest_job"),
    "as_recorded_correlation",
)
"""Figures that a summary has as null: every server was down, a window has no record of spanning jobs, all
jobs reached their limits, no job was late, or all waits are equal."""
AS_IN_LOG: Final = ("as_recorded", "as_recorded_correlation")
"""Figures of waits beside those of the log."""
LISTS: Final = frozenset({"size_classes", "lost_gpu_hours_by_cause", "gpu_types", "links", "vcs"})
"""Figures that are no single values; that of services is split into some (`flat`)."""
MEASURED_HERE: Final = ("engine_seconds",)
"""Figures of this machine, not of the policy: no two runs agree on them, so no Parquet file holds them."""
Unit = Kind | None
When = Callable[[Any], bool]
ShownIn = Literal["headline", "comparison", "summary"]


def _always(_: object) -> bool:
    return True


class Figure(NamedTuple):
    """A figure: its key, what people call it, its unit (None of a name or of a list).

    of: its value, given what has one of `scopes` and meets `when`: `Rows`, an `OfType` or an `OfService`.
    better: which end is good. shown_in: "headline" where there is room for few, "summary" in summary.json
    only. spread: of what it is a statistic, such as "jct".
    """

    key: str
    title: str
    unit: Unit
    of: Callable[[Any], Any]
    better: Literal["least", "most", "neither"] = "least"
    shown_in: ShownIn = "comparison"
    when: When = _always
    scopes: frozenset[Scope] = _RUN
    spread: str = ""

    @property
    def told(self) -> ShownIn:
        """The old name of `shown_in`."""
        warn("Figure.told", "shown_in")
        return self.shown_in

    @property
    def sometimes(self) -> bool:
        """Whether it is of some kinds of runs only. That all jobs come at once is no kind."""
        return self.when is not _always and self.key not in _ALWAYS_TOLD

    def show(self, value: Any, *, whole: bool = False) -> str:
        """The value as people read it; "-" where there is none. whole: numbers without decimals."""
        if value is None or isinstance(value, str):
            return "-" if value is None else value
        return figure("count" if whole and self.unit == "number" else self.unit or "number", value)

    def show_ends(self, ends: tuple[float, float] | None) -> str:
        """The least and the greatest value over runs as people read them; "" where there is one run."""
        if ends is None:
            return ""
        least, greatest = map(self.brief, ends)
        return "always" if least == greatest else f"{least} to {greatest}"

    def brief(self, value: float | None) -> str:
        """The value in three significant digits; "-" where there is none."""
        return "-" if value is None else brief(self.unit, value)


TIME_TO_START: Final = "time_to_start"
SPREADS: Final[tuple[tuple[str, str, str, Kind], ...]] = (
    ("jct", "completion time", "jct", "time"),
    ("wait", "waiting time", "waited", "time"),
    (TIME_TO_START, "time to start", "wait_time", "time"),
    ("slowdown", "slowdown", "slowdown", "number"),
    ("bounded_slowdown", "bounded slowdown", "bounded_slowdown", "number"),
)
"""Of each its key, its title, its column and its unit."""


def _spreads() -> Iterator[Figure]:
    for name, title, column, unit in SPREADS:
        for statistic in STATISTICS:
            of = partial(Rows.statistic, statistic=statistic, name=column)
            row = Figure(f"{statistic}_{name}", f"{statistic} {title}", unit, of, scopes=_JOBS, spread=name)
            first = statistic == "mean" and name in ("jct", "wait", "slowdown")
            where: ShownIn = "headline" if first else "comparison"
            yield row._replace(shown_in=where, scopes=_EVERY if statistic == "mean" else _JOBS)


def _of(scopes: frozenset[Scope], *rows: Figure, when: When = _always) -> Iterator[Figure]:
    """Rows of what has one of these scopes, where they apply."""
    return (row._replace(scopes=scopes, when=when) for row in rows)


def _fate(key: str, title: str, where: ShownIn) -> Figure:
    """Jobs that were not done."""
    row = Figure(key, title, "count", lambda r: r.place.fates[key], "neither", where, scopes=_RUN | _VC)
    return row._replace(when=lambda r: key in r.place.fates)


def _share(part: float, whole: float, of_nothing: float | None) -> float | None:
    return part / whole if whole > 0 else of_nothing


def _each(parts: Iterable[Rows | OfType | OfTier | OfService]) -> list[dict[str, Any]]:
    return [evaluate(part) for part in parts]


def _lost_work(rows: Rows) -> NDArray[np.float64]:
    """GPU-seconds of work that each failure took, and each eviction or preemption that loses work."""
    stays = rows.run.lossy or {"gpus": np.empty(0), "lost_time": np.empty(0)}
    return np.asarray(stays["gpus"] * stays["lost_time"])


def _mean_completed(rows: Rows) -> float | None:
    jct = _completed(rows, "jct")
    return float(jct.mean()) if jct.size else None


def _lost_hours(rows: Rows) -> dict[str, float]:
    hours: dict[str, float] = {}
    causes = (cause or UNKNOWN for cause in rows.run.causes)
    for cause, seconds in sorted(zip(causes, _lost_work(rows).tolist(), strict=True)):
        hours[cause] = hours.get(cause, 0.0) + seconds / _HOUR
    return hours


def _drained(rows: Rows) -> float:
    """Idle GPU-hours of servers that drained."""
    first, _, last = rows.run.span
    return float(rows.run.drained.gpu_seconds(first, last)) / _HOUR


def _goodput(rows: Rows) -> float:
    held, lost = rows.sum("held"), rows.sum("paused") + float(_lost_work(rows).sum())
    return 1.0 - lost / held if held > 0 else 1.0


def _completed(rows: Rows, name: str) -> NDArray[np.float64]:
    """A column of the jobs that did not reach their limits."""
    return rows[name][~rows["reached_limit"]] if "reached_limit" in rows else rows[name]


def _effective(rows: Rows) -> float | None:
    ideal, taken = (_completed(rows, name) for name in ("ideal_run_time", "run_time"))
    # One that took no time was not held up.
    share = np.divide(ideal, taken, out=np.ones_like(taken), where=taken > 0)
    return float(share.mean()) if share.size else None


def _of_types(key: str, title: str) -> Figure:
    """A figure of a GPU type; of the run the sum over its types, where each has it."""

    def each(rows: Rows | OfType) -> list[Any]:
        return [getattr(one, key) for one in (rows.run.types if isinstance(rows, Rows) else (rows,))]

    row = Figure(key, title, "number", lambda r: float(sum(each(r))), scopes=_RUN | _TYPE)
    return row._replace(when=lambda r: None not in each(r) and each(r) != [])


def _of_searches(key: str, title: str, unit: Kind, column: str) -> Figure:
    """The mean of a column of searches.parquet, of those that have one."""

    def known(rows: Rows) -> Any:
        searches = rows.run.searches
        return np.empty(0) if searches is None else searches[column].drop_nulls().to_numpy()

    return Figure(key, title, unit, lambda r: float(known(r).mean()), when=lambda r: known(r).size > 0)


def _gpu_hours(rows: Rows | OfService) -> float:
    return sum(one.gpu_seconds / _HOUR for one in services_of(rows))


def _of_requests(key: str, title: str, unit: Kind, better: Any, shown_in: ShownIn) -> Figure:
    """A figure of the requests of a service."""
    row = Figure(key, title, unit, lambda r: r.more[key], better, shown_in, scopes=_SERVICE)
    return row._replace(when=lambda r: key in r.more)


def _lateness(rows: Rows) -> NDArray[np.float64]:
    """By how much jobs started after their recorded starts, s; 0 where none did."""
    late = rows.run.lateness
    return late[late > 0] if late.any() else np.zeros(1)


def _as_recorded(rows: Rows) -> float:
    """The share of waits to the first start that are within 10 % or 60 s of those of the log."""
    waited, recorded = _both_waits(rows)
    near = np.abs(waited - recorded) <= np.maximum(recorded / 10.0, _NEAR_WAIT)
    return float(np.count_nonzero(near) / near.size)


def _both_waits(rows: Rows) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Waits to the first start, here and in the log, s, of the jobs with a recorded start."""
    recorded = rows.run.recorded_waits
    known = ~np.isnan(recorded)
    return rows["wait_time"][known], recorded[known]


_PREEMPTIONS: Final = Figure("preemptions", "preemptions", "count", lambda r: int(r["preemptions"].sum()))

# fmt: off
FIGURES: Final = (
    Figure("policy", "policy", None, lambda r: r.run.policy),
    *_of(_VC,
        Figure("vc", "virtual cluster", None, lambda r: r.name),
        Figure("servers", "servers", "count", lambda r: r.place.servers, "neither"),
        Figure("gpus", "GPUs", "count", lambda r: r.place.gpus, "neither")),
    *_of(_TYPE,
        Figure("gpu_type", "GPU type", None, lambda r: r.fact.name),
        Figure("servers", "servers", "count", lambda r: r.servers, "neither"),
        Figure("gpus", "GPUs", "count", lambda r: r.gpus, "neither"),
        Figure("gpu_hours", "GPU-hours", "number", lambda r: r.held, "neither")),
    *_of(_CLASS, Figure("gpus", "GPUs of a job", None, lambda r: r.name)),
    *_of(_EVERY | _VC, Figure("jobs", "jobs", "count", lambda r: r.count, "neither", "summary")),
    _fate("jobs_dropped", "jobs left out", "summary"),
    _fate("jobs_refused", "jobs refused", "headline"),
    _fate("jobs_ended", "jobs ended before they were done", "headline"),
    *_of(_RUN,
        Figure("measure_from", "measured from", "time", lambda r: r.run.window.since, "neither"),
        when=lambda r: r.run.window is not None and r.run.window.since > -math.inf),
    *_of(_RUN,
        Figure("measure_to", "measured to", "time", lambda r: r.run.window.until, "neither"),
        when=lambda r: r.run.window is not None and r.run.window.until < math.inf),
    *_of(_CLUSTER,
        Figure("jobs_over_limit", "jobs that reached their time limits", "count",
               lambda r: int(np.count_nonzero(r["reached_limit"])), "least", "headline"),
        Figure("mean_jct_completed", "mean completion time of the others", "time", _mean_completed),
        when=lambda r: "reached_limit" in r),
    *_of(_CLUSTER, Figure("makespan", "makespan", "time", lambda r: r.makespan, "least", "headline")),
    *_spreads(),
    # GPUs held: contention and resuming hold them longer, so more of it may be waste. After the last
    # submission only the longest jobs run out, which says little of a policy: so this one leads.
    *_of(_CLUSTER,
        Figure("utilisation_to_last_submission", "utilisation to last submission", "share",
               lambda r: _share(r.place.held, r.place.up(r.first, r.submitting), None), "neither",
               "headline"),
        # A window says itself where it ends.
        when=lambda r: r.submitting > 0 and r.place.measured is None),
    *_of(_CLUSTER | _TYPE,
        Figure("utilisation", "utilisation, whole run", "share", lambda r: _share(r.held, r.up, 0.0),
               "neither", "headline")),
    *_of(_JOBS,
        Figure("jobs_spread", "jobs over several servers", "count",
               lambda r: int(np.count_nonzero(r["num_servers"] >= 2)))),
    *_of(_CLASS, _PREEMPTIONS),
    # At the finish Themis' finish-time fairness is the slowdown: its mean is that of the slowdown, above.
    *_of(_EVERY,
        Figure("mean_finish_time_fairness", "mean finish-time fairness", "number",
               lambda r: float(r.fairly[0].mean()), shown_in="summary"),
        Figure("worst_finish_time_fairness", "worst slowdown", "number", lambda r: float(r.fairly[0].max()))),
    *_of(_JOBS, _PREEMPTIONS, when=lambda r: "lost_time" in r),
    *_of(_EVERY, Figure("lost_gpu_seconds", "GPU time lost to them", "GPU time", lambda r: r.sum("paused")),
        when=lambda r: "lost_time" in r),
    *_of(_RUN,
        Figure("resizes", "resizes, among the preemptions", "count",
               lambda r: int(r.run.resized["job"].size), "neither"),
        Figure("jobs_resized", "jobs resized", "count",
               lambda r: int(np.unique(r.run.resized["job"]).size), "neither"),
        Figure("resize_lost_gpu_seconds", "GPU time lost to resizes", "GPU time",
               lambda r: float((r.run.resized["gpus"] * r.run.resized["pause"]).sum())),
        when=lambda r: r.run.resized is not None),
    *_of(_RUN,
        Figure("late_jobs", "jobs later than recorded", "count",
               lambda r: int(np.count_nonzero(r.run.lateness)), "least", "headline"),
        Figure("mean_lateness", "mean lateness of these", "time", lambda r: _lateness(r).mean()),
        Figure("worst_lateness", "worst lateness", "time", lambda r: _lateness(r).max()),
        Figure("latest_job", "job with the worst lateness", None,
               lambda r: r.run.latest),
        Figure("displaced_jobs", "jobs off their recorded servers", "count",
               lambda r: r.run.result.displaced),
        when=lambda r: r.run.lateness is not None),
    *_of(_EVERY, Figure("evictions", "evictions", "count", lambda r: int(r["evictions"].sum())),
        when=lambda r: "evictions" in r),
    *_of(_EVERY,
        Figure("deadlines", "jobs with a deadline", "count", lambda r: r.due, "neither"),
        Figure("deadlines_missed", "deadlines missed", "count", lambda r: r.missed),
        when=lambda r: "deadline" in r),
    *_of(_EVERY,
        Figure("deadlines_met", "deadlines met", "share", lambda r: 1 - r.missed / r.due, "most", "headline"),
        when=lambda r: "deadline" in r and r.due > 0),
    *_of(_EVERY,
        Figure("jain_index_users", "Jain's index over users", "index", lambda r: jain_index(r.speeds),
               "most"),
        when=lambda r: r.speeds.size > 0),
    *_of(_CLUSTER, Figure("size_classes", "size classes", None, lambda r: _each(r.classes()))),
    *_of(_RUN,
        Figure("failures", "failures", "count", lambda r: int(np.count_nonzero(r.run.failed)), "least",
               "headline"),
        when=lambda r: r.run.outages is not None),
    *_of(_RUN,
        Figure("lost_work_gpu_seconds", "GPU time of lost work", "GPU time",
               lambda r: float(_lost_work(r).sum()), "least", "headline"),
        Figure("lost_gpu_hours_by_cause", "GPU-hours of lost work", None, _lost_hours),
        when=lambda r: r.run.lossy is not None),
    *_of(_RUN,
        Figure("drained_gpu_hours", "GPU-hours drained", "number", _drained, "neither"),
        when=lambda r: r.run.drained is not None),
    *_of(_RUN,
        Figure("goodput", "goodput", "share", _goodput, "most", "headline"),
        Figure("effective_training_time_ratio", "effective training time", "share", _effective, "most"),
        when=lambda r: r.run.lossy is not None or "evictions" in r),
    *_of(_SERVICE,
        Figure("service", "service", None, lambda r: r.name),
        Figure("gpus_per_replica", "GPUs a replica", "count", lambda r: r.gpus, "neither", "summary"),
        Figure("attainment", "attainment", "share", attainment, "most"),
        Figure("replica_seconds_wanted", "wanted", "time", lambda r: r.wanted, "neither", "summary"),
        Figure("replica_seconds_served", "served", "time", lambda r: r.served, "most", "summary"),
        Figure("mean_time_to_scale_up", "mean time to scale up", "time",
               lambda r: float(r.waits.mean()) if r.waits.size else None),
        Figure("worst_time_to_scale_up", "worst time to scale up", "time",
               lambda r: float(r.waits.max()) if r.waits.size else None),
        Figure("gpu_hours", "GPU-hours", "number", _gpu_hours, "neither")),
    *(_of_requests(*row) for row in REQUEST_FIGURES),
    *_of(_RUN, Figure("services", "services", None, lambda r: _each(r.run.services)),
        Figure("service_attainment", "attainment of services", "share", attainment, "most", "headline"),
        Figure("service_gpu_hours", "GPU-hours of services", "number", _gpu_hours, "neither"),
        Figure("gpu_hours_lent_to_training", "GPU-hours lent to training", "number",
               lambda r: r.run.lent / _HOUR, "neither"),
        when=lambda r: r.run.services is not None),
    *_of(_RUN,
        Figure("as_recorded", "waits as recorded", "share", _as_recorded, "most", "headline"),
        Figure("as_recorded_correlation", "rank correlation of waits", "index",
               lambda r: rank_correlation(*_both_waits(r)), "most", "headline"),
        Figure("as_recorded_jobs", "jobs with a recorded start", "count",
               lambda r: int(_both_waits(r)[0].size), "neither"),
        when=lambda r: r.run.recorded_waits is not None),
    *_of(_RUN,
        Figure("searches", "searches", "count", lambda r: r.run.searches.height, "neither"),
        when=lambda r: r.run.searches is not None),
    _of_searches("mean_search_gpu_hours", "GPU-hours a search", "number", "gpu_hours"),
    _of_searches("mean_time_to_best", "time to the best trial", "time", "time_to_best"),
    *_of(_RUN,
        Figure("chains", "chains", "count", lambda r: r.run.chains.size, "neither"),
        when=lambda r: r.run.chains is not None),
    *_of(_RUN,
        Figure("mean_chain_time", "mean time of a chain", "time", lambda r: statistics(r.run.chains)["mean"]),
        Figure("median_chain_time", "median time of a chain", "time",
               lambda r: statistics(r.run.chains)["median"]),
        Figure("p90_chain_time", "p90 time of a chain", "time", lambda r: statistics(r.run.chains)["p90"]),
        when=lambda r: r.run.chains is not None and r.run.chains.size > 0),
    Figure("mean_contention", "mean contention", "number",
           lambda r: r.run.contention, "least", "headline"),
    Figure("events", "events", "count", lambda r: r.run.result.events, "neither", "summary"),
    Figure("decisions", "decisions", "count", lambda r: r.run.result.decisions, "neither", "summary"),
    # Replays that run side by side slow each other down: no merit of a policy.
    Figure("engine_seconds", "time in the engine", "time", lambda r: r.run.result.engine_seconds, "neither"),
    *_of(_TYPE,
        Figure("asleep_gpu_hours", "asleep, GPU-hours", "number", lambda r: r.asleep, "neither"),
        when=lambda r: r.asleep is not None),
    _of_types("energy_kwh", "energy, kWh"),
    _of_types("cost", "cost"),
    *_of(_RUN, Figure("gpu_types", "GPU types", None, lambda r: _each(r.run.types)),
        when=lambda r: r.run.types != []),
    *_of(_TIER, Figure("tier", "tier", None, lambda r: r.name)),
    *_of(_TIER, Figure("vc", "virtual cluster", None, lambda r: r.vc), when=lambda r: r.vc is not None),
    *_of(_TIER,
        Figure("group", "busiest group", None, lambda r: r.group),
        Figure("mean_share", "mean load", "share", lambda r: r.mean_share, "neither"),
        Figure("largest_share", "largest load", "share", lambda r: r.largest_share, "neither"),
        Figure("gpu_hours_lost", "GPU-hours lost", "number", lambda r: r.gpu_hours_lost)),
    *_of(_RUN, Figure("links", "uplinks", None, lambda r: _each(r.run.tiers)), when=lambda r: r.run.tiers),
    *_of(_RUN, Figure("vcs", "virtual clusters", None, lambda r: _each(r.run.vcs)),
        when=lambda r: r.run.vcs is not None),
)
# fmt: on
OVER_BOUND: Final = Figure(
    "mean_jct_over_bound", "mean completion time / lower bound", "at most", lambda _: None
)
"""No key of a summary: a comparison works it out (docs/bound.md). That to the optimum is no greater."""
COMPARED: Final = (
    *(row for row in FIGURES if row.spread),
    OVER_BOUND,
    *(
        row
        for row in FIGURES
        if "run" in row.scopes and row.unit and row.shown_in != "summary" and not row.spread
    ),
)
"""Rows of a comparison: statistics of the jobs, then single figures as summary.json has them."""
HEADLINES: Final = tuple(
    sorted(
        (row for row in COMPARED if row.shown_in == "headline"),
        key=lambda row: (row.key != "mean_jct", not row.sometimes),
    )
)
"""Where there is room for few: the mean completion time, what only some runs have, what all have."""
_KNOWN: Final = {row.key for row in FIGURES} | {"total_seconds", "jobs_per_second"}


def evaluate(rows: Rows | OfType | OfTier | OfService, without: Collection[str] = ()) -> dict[str, Any]:
    """The figures that apply, by key; those `without` are not worked out."""
    return {row.key: row.of(rows) for row in rows_of(rows.scope) if row.key not in without and row.when(rows)}


@cache
def rows_of(scope: Scope) -> tuple[Figure, ...]:
    """The figures of a run or of one of its parts."""
    return tuple(row for row in FIGURES if scope in row.scopes)


def of_jobs(jobs: pl.DataFrame) -> dict[str, Any]:
    """The figures that rows of jobs.parquet tell alone: those of a user, say."""
    return evaluate(Rows("jobs", JobArrays(jobs)))


def flat(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """A summary's figures by key, each of a service as "attainment.NAME"."""
    services = summary.get("services")
    told = dict(summary)
    for one in services if isinstance(services, list) else ():  # whatever a damaged summary has
        rows = one.items() if isinstance(one, dict) else ()
        told |= {f"{key}.{one.get('service')}": value for key, value in rows if not isinstance(value, str)}
    return told


def compared(summaries: Iterable[Mapping[str, Any]]) -> list[Figure]:
    """The rows of a comparison of these, as `flat` gives them.

    Rows are made for what no row is known of: the figures of a service, of a plan, and any number that
    somebody put there.
    """
    there = {key: value for summary in summaries for key, value in summary.items() if value is not None}
    made = [_made(key) for key, value in there.items() if key not in _KNOWN and _is_number(value)]
    known = COMPARED
    if {"measure_from", "measure_to"} & there.keys():
        window = {"utilisation": "utilisation in the window"}
        known = tuple(row._replace(title=window.get(row.key, row.title)) for row in COMPARED)
    return [*known, *(row for row in made if row.shown_in != "summary")]


def lines(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The single figures of a summary as people read them, each with its title."""
    told = flat(summary)
    rows = (row for row in compared([told]) if row.key in told and not row.spread)
    return [(row.title, row.show(told[row.key])) for row in rows if row.key not in MEASURED_HERE]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _made(key: str) -> Figure:
    name, _, service = key.partition(".")
    for row in rows_of("service"):
        if service and row.key == name:
            return row._replace(key=key, title=f"{row.title}, {service}")
    return Figure(key, key.replace("_", " "), "number", lambda _: None, "neither")


def waits_again(summary: Mapping[str, Any]) -> bool:
    """Whether jobs waited after their first start: else the time to start is the waiting time."""
    start, wait = (summary.get(f"mean_{name}") for name in (TIME_TO_START, "wait"))
    return start is not None and wait is not None and not same(start, wait)
