"""What figures are worked out of: the jobs of a run that were done, or some of them, in row order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl

from ringbco.result.metrics import column, numbers, statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.result.by_type import OfType
    from ringbco.result.reliability import DownTime
    from ringbco.result.serving import OfService

Scope = Literal["run", "vc", "empty vc", "class", "jobs", "type", "service"]
SIZE_CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33-", 2**32 - 1))
"""Gang sizes by their upper end, GPUs."""
_BOUND: Final = 10.0  # s


class Table:
    """jobs.parquet as numpy columns, and those that follow from it; each is made once."""

    def __init__(self, jobs: pl.DataFrame) -> None:
        self.frame = jobs
        self._made: dict[str, NDArray[Any]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.frame.columns

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._made:
            self._made[name] = _MADE[name](self) if name in _MADE else column(self.frame, name)
        return self._made[name]


def gpus_of(jobs: pl.DataFrame) -> NDArray[Any]:
    """GPUs that each job asks for; less than 1 for a share of one."""
    gpus = column(jobs, "num_gpus")
    return gpus * jobs["gpu_share"].fill_null(1.0).to_numpy() if "gpu_share" in jobs.columns else gpus


def _gpu_seconds(table: Table, what: Literal["held", "lost"]) -> NDArray[np.float64]:
    """GPU-seconds of each job that it held, or lost to pauses: sums over its stays.

    A job that may not be resized has as many GPUs, or the same share of one, in all of them.
    """
    times: NDArray[np.float64]
    if f"{what}_gpu_time" in table:
        times = table[f"{what}_gpu_time"]
    elif f"{what}_time" in table:
        times = table["gpus"] * table[f"{what}_time"]
    else:
        times = table["gpus"] * table["run_time"] if what == "held" else np.zeros(table.frame.height)
    return times


def _bounded_slowdown(table: Table) -> NDArray[np.float64]:
    """max(1, jct / max(ideal_run_time, 10 s)): a slowdown in which short jobs do not drown the rest.

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", 1998.
    """
    bounded: NDArray[np.float64] = np.maximum(table["ideal_run_time"], _BOUND)
    np.divide(table["jct"], bounded, out=bounded)
    return np.maximum(1.0, bounded, out=bounded)


_MADE: Final[Mapping[str, Callable[[Table], NDArray[Any]]]] = {
    "gpus": lambda table: gpus_of(table.frame),
    "held": lambda table: _gpu_seconds(table, "held"),
    "paused": lambda table: _gpu_seconds(table, "lost"),
    "bounded_slowdown": _bounded_slowdown,
    # NaN of a job without a deadline.
    "late": lambda table: table["finish_time"] - table.frame["deadline"].fill_null(float("nan")).to_numpy(),
    # Each name's number, -1 without one.
    "user": lambda table: numbers(table.frame["user"]),
    "group": lambda table: numbers(table.frame["group"]),
}


@dataclass(frozen=True)
class Ended:
    """Jobs that a verb ended after they had run: submit, finish (when each held GPUs last), s.

    held: GPU-seconds.
    """

    submit: NDArray[np.float64]
    finish: NDArray[np.float64]
    held: NDArray[np.float64]


@dataclass(frozen=True)
class Place:
    """Where jobs ran: a cluster, or a virtual one. fates: of jobs that were not done, how many by key.

    held_while_submitting: GPU-seconds held up to the last submission, as the engine adds them up: the table
    does not say when a preempted job held its GPUs.
    """

    servers: int
    gpus: int
    held_while_submitting: float
    fates: Mapping[str, int]
    ended: Ended | None = None
    down: DownTime | None = None

    def up(self, first: float, length: float) -> float:
        """GPU-seconds of servers that were up, in so many seconds from `first` on."""
        lacking = 0.0 if self.down is None else self.down.gpu_seconds(first, first + length)
        return self.gpus * length - lacking


@dataclass(frozen=True)
class Run:
    """What is known of a whole run only.

    stays: of the jobs that were done, the columns of the engine's table, `gpus` with shares as parts; None
    where no stay ends early. causes: of each outage; None without outages. resizes: whether jobs may be
    resized. services: None without them; lent: GPU-seconds. searches: searches.parquet.
    """

    policy: str
    counts: Mapping[str, float]
    stays: Mapping[str, NDArray[Any]] | None = None
    causes: Sequence[str | None] | None = None
    resizes: bool = False
    services: Sequence[OfService] | None = None
    lent: float = 0.0
    searches: pl.DataFrame | None = None
    types: Sequence[OfType] = ()
    vcs: Sequence[Rows] | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Jobs that were done, and where they ran: of a run, a virtual cluster, a size class or any others."""

    scope: Scope
    table: Table
    among: slice | NDArray[np.intp] = field(default_factory=lambda: slice(None))
    name: str = ""
    at: Place | None = None
    whole: Run | None = None

    @property
    def place(self) -> Place:
        """Where they ran, of a run or a virtual cluster."""
        assert self.at is not None, "a run, or a virtual cluster"
        return self.at

    @property
    def run(self) -> Run:
        """What is known of the whole run."""
        assert self.whole is not None, "a run"
        return self.whole

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.table[name][self.among]

    def sum(self, name: str) -> float:
        """The sum of a column."""
        return float(self[name].sum())

    @cached_property
    def count(self) -> int:
        """How many jobs."""
        return int(self["num_gpus"].size)

    @cached_property
    def _spreads(self) -> dict[str, dict[str, float]]:
        return {}

    def statistic(self, statistic: str, name: str) -> float:
        """One of `STATISTICS` of a column."""
        if self.scope == "class":  # of which only the mean is told, added up one by one
            return float(np.cumsum(self[name])[-1] / self.count)
        if name not in self._spreads:
            self._spreads[name] = statistics(self[name])
        return self._spreads[name][statistic]

    @cached_property
    def first(self) -> float:
        """The first submission, also of jobs that were ended, s."""
        ended = self.place.ended
        return float(min(map(np.min, (self["submit_time"], *(() if ended is None else (ended.submit,))))))

    def last(self, name: Literal["submit", "finish"]) -> float:
        """The last submission, or when the last of them held GPUs last, s."""
        ended = self.place.ended
        more = () if ended is None else (getattr(ended, name),)
        return float(max(map(np.max, (self[f"{name}_time"], *more))))

    @cached_property
    def window(self) -> float:
        """Seconds from the first submission to the last."""
        return self.last("submit") - self.first

    @cached_property
    def span(self) -> float:
        """Seconds from the first submission to the last finish."""
        return self.last("finish") - self.first

    @property
    def up(self) -> float:
        """GPU-seconds of servers that were up, in this time."""
        return self.place.up(self.first, self.span)

    @property
    def held(self) -> float:
        """GPU-seconds that jobs held, those that were ended among them.

        Not a BLAS product, whose last bit depends on the number of threads it may use.
        """
        ended = self.place.ended
        return self.sum("held") + (0.0 if ended is None else float(pl.Series(ended.held).sum()))

    @cached_property
    def fairly(self) -> tuple[NDArray[np.float64], NDArray[np.int64] | None]:
        """Themis' rho of each job, and its user; to them the trials of a search are one job.

        rho at a job's finish is jct / ideal_run_time. That of a search is the time from its first submission
        to its last finish, over what it would have been had each of its trials run at best.
        """
        rho = self["slowdown"]
        user = self["user"] if "user" in self else None  # noqa: SIM401 - no mapping
        if "group" not in self:
            return rho, user
        of, submit = self["group"], self["submit_time"]
        alone, trials = np.flatnonzero(of < 0), np.flatnonzero(of >= 0)
        names, firsts, number = np.unique(of[trials], return_index=True, return_inverse=True)
        begin = np.full(names.size, np.inf)
        end, best = np.full((2, names.size), -np.inf)
        np.minimum.at(begin, number, submit[trials])
        np.maximum.at(end, number, self["finish_time"][trials])
        # Counted from the first submission: far from zero the sum of a time and of little work is that time.
        np.maximum.at(best, number, submit[trials] - begin[number] + self["ideal_run_time"][trials])
        at = np.concatenate([alone, trials[firsts]])
        order = np.argsort(at)
        rho = np.concatenate([rho[alone], (end - begin) / best])[order]
        return rho, None if user is None else user[at[order]]

    @cached_property
    def speeds(self) -> NDArray[np.float64]:
        """The share of its full speed that each named user's jobs got, on the average."""
        rho, user = self.fairly
        if user is None:
            return np.empty(0)
        # Far from zero float64 may tell no time between a job's submission and its end: it has no speed.
        counted = (user >= 0) & (rho > 0)
        if not counted.all():
            user, rho = user[counted], rho[counted]
        # Added up in row order: polars adds up a group in parts, one a thread.
        jobs = np.bincount(user)
        return np.asarray(np.bincount(user, 1.0 / rho)[jobs > 0] / jobs[jobs > 0])

    @cached_property
    def due(self) -> int:
        """Jobs with a deadline."""
        return int(np.count_nonzero(~np.isnan(self["late"])))

    @cached_property
    def missed(self) -> int:
        """Jobs that were late."""
        return int(np.count_nonzero(self["late"] > 0))

    @cached_property
    def classes(self) -> list[Rows]:
        """The jobs of each class of gang sizes, in row order; none of a class without jobs."""
        ends = np.array([end for _, end in SIZE_CLASSES])
        number = np.searchsorted(ends, self["num_gpus"]).astype(np.int8)
        counts = np.bincount(number, minlength=ends.size)
        rows = np.argsort(number, kind="stable")
        if not isinstance(self.among, slice):
            rows = self.among[rows]
        bounds = np.cumsum(counts).tolist()
        return [
            replace(self, scope="class", among=rows[end - count : end], name=name, at=None, whole=None)
            for (name, _), end, count in zip(SIZE_CLASSES, bounds, counts.tolist(), strict=True)
            if count
        ]

    @cached_property
    def lost_work(self) -> NDArray[np.float64]:
        """GPU-seconds of work that each failure took."""
        stays = self.run.stays
        if self.run.causes is None or stays is None:
            return np.empty(0)
        return np.asarray((stays["gpus"] * stays["lost_time"])[stays["failed"]])

    def lost_by_cause(self) -> Iterator[tuple[str | None, float]]:
        """Of each failure its outage's cause, and the GPU-seconds of work that it took."""
        stays, causes = self.run.stays, self.run.causes
        assert stays is not None, "with outages"
        assert causes is not None, "with outages"
        by = stays["by"][stays["failed"]].tolist()
        return zip((causes[outage] for outage in by), self.lost_work.tolist(), strict=True)
