"""What figures are worked out of: the jobs of a run that were done, or some of them, in row order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, NamedTuple

import numpy as np
import polars as pl

from ringbco.result.metrics import column, statistics
from ringbco.trace.users import ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco.cluster.gpu_types import GpuType
    from ringbco.result.columns import Columns
    from ringbco.result.reliability import DownTime

Scope = Literal["run", "vc", "empty vc", "class", "jobs", "type", "tier", "service"]
SIZE_CLASSES: Final = (("1", 1), ("2-4", 4), ("5-8", 8), ("9-16", 16), ("17-32", 32), ("33-", 2**32 - 1))
"""Gang sizes by their upper end, GPUs."""
_BOUND: Final = 10.0  # s


class JobArrays:
    """jobs.parquet as numpy columns, and those that follow from it; each is made once.

    users: gives each job's user by number, -1 without one, where that is known already.
    """

    def __init__(
        self, jobs: pl.DataFrame | Columns, users: Callable[[], NDArray[np.int32]] | None = None
    ) -> None:
        self.frame, self._users = jobs, users
        self._names = frozenset(jobs.columns)
        self._made: dict[str, NDArray[Any]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._made:
            self._made[name] = _MADE[name](self) if name in _MADE else self._column(name)
        return self._made[name]

    def _column(self, name: str) -> NDArray[Any]:
        jobs = self.frame
        return column(jobs, name) if isinstance(jobs, pl.DataFrame) else jobs.array(name)

    def users(self) -> NDArray[np.int32]:
        """Each job's user by number, -1 without one."""
        return ranks(self.frame["user"]) if self._users is None else self._users()


def gpus_of(jobs: pl.DataFrame | Columns) -> NDArray[Any]:
    """GPUs that each job asks for; less than 1 for a share of one."""
    gpus = column(jobs, "num_gpus")
    return gpus * jobs["gpu_share"].fill_null(1.0).to_numpy() if "gpu_share" in jobs.columns else gpus


def _gpu_seconds(table: JobArrays, what: Literal["held", "lost"]) -> NDArray[np.float64]:
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


def _bounded_slowdown(table: JobArrays) -> NDArray[np.float64]:
    """max(1, jct / max(ideal_run_time, 10 s)): a slowdown in which short jobs do not drown the rest.

    Feitelson and Rudolph, "Metrics and benchmarking for parallel job scheduling", 1998.
    """
    bounded: NDArray[np.float64] = np.maximum(table["ideal_run_time"], _BOUND)
    np.divide(table["jct"], bounded, out=bounded)
    return np.maximum(1.0, bounded, out=bounded)


_MADE: Final[Mapping[str, Callable[[JobArrays], NDArray[Any]]]] = {
    "gpus": lambda table: gpus_of(table.frame),
    "held": lambda table: _gpu_seconds(table, "held"),
    "paused": lambda table: _gpu_seconds(table, "lost"),
    "bounded_slowdown": _bounded_slowdown,
    # NaN of a job without a deadline.
    "late": lambda table: table["finish_time"] - table.frame["deadline"].fill_null(float("nan")).to_numpy(),
    # Each name's number, -1 without one.
    "user": JobArrays.users,
    "group": lambda table: ranks(table.frame["group"]),
}


class Measured(NamedTuple):
    """The part of a window that is in the run, from when until when, s; GPU-seconds that jobs held in it."""

    first: float
    last: float
    held: float


_NOBODY: Final = dict.fromkeys(("submit_time", "finish_time", "held"), np.empty(0))


class Place(NamedTuple):
    """Where jobs ran: a cluster, or a virtual one.

    held: GPU-seconds held up to the last submission, as the engine adds them up: the table does not say when
    a preempted job held its GPUs. fates: of the jobs that were not done, how many by key. ended: jobs that a
    verb ended after they had run: submit_time, finish_time (when each held GPUs last), GPU-seconds held.
    shared: GPU-seconds in which jobs that were done were guests on GPUs that others held already.
    measured: where a window is; else figures of time are of the whole of the jobs' run.
    """

    servers: int
    gpus: int
    held: float = 0.0
    fates: Mapping[str, int] = {}
    ended: Mapping[str, NDArray[np.float64]] = _NOBODY
    down: DownTime | None = None
    measured: Measured | None = None
    shared: float = 0.0

    def up(self, first: float, length: float, last: float | None = None) -> float:
        """GPU-seconds of servers that were up, in so many seconds from `first` on, which is to `last`."""
        last, every = first + length if last is None else last, self.gpus * length
        up = every - (0.0 if self.down is None else self.down.gpu_seconds(first, last))
        return up if up > 1e-12 * every else 0.0  # no more than rounding


_NOWHERE: Final = Place(0, 0)


def _blocks(count: int, block: int = 1 << 16) -> Iterator[slice]:
    """So many rows, a block at a time."""
    return (slice(first, first + block) for first in range(0, count, block))


@dataclass(frozen=True, eq=False)
class Rows:
    """Jobs that were done: of a run, a virtual cluster, a size class or any others.

    among: which of the table's rows, None for all. place: of a run and of a virtual cluster. run: what is
    known of a whole run only, a `Source` of run/summary.py. part: of a size class, what it is a class of, and
    its place in `SIZE_CLASSES`.
    """

    scope: Scope
    table: JobArrays
    among: NDArray[np.intp] | None = None
    name: str = ""
    place: Place = _NOWHERE
    run: Any = None
    part: tuple[Rows, int] | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.table

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.table[name] if self.among is None else self.table[name][self.among]

    def sum(self, name: str) -> float:
        """The sum of a column."""
        return float(self[name].sum())

    @property
    def count(self) -> int:
        """How many jobs."""
        return self.table.frame.height if self.among is None else self.among.size

    @cached_property
    def _spreads(self) -> dict[str, dict[str, float]]:
        return {}

    def statistic(self, statistic: str, name: str) -> float:
        """One of `STATISTICS` of a column."""
        if self.part is not None:  # of which only the mean is told, added up one by one
            whole, place = self.part
            return float(whole._class_sums(name)[place]) / self.count
        name = self._same(name)
        if name not in self._spreads:
            self._spreads[name] = statistics(self[name])
        return self._spreads[name][statistic]

    def _same(self, name: str) -> str:
        """A column that is equal to this one: both waits are, where no job waits after its first start."""
        return "waited" if name == "wait_time" and self._waits_once else name

    @cached_property
    def _waits_once(self) -> bool:
        return np.array_equal(self["wait_time"], self["waited"])

    @cached_property
    def _classes(self) -> NDArray[np.uint8]:
        """The place in `SIZE_CLASSES` of each job."""
        most = SIZE_CLASSES[-2][1] + 1  # that many, and all beyond
        place = np.searchsorted([end for _, end in SIZE_CLASSES], np.arange(most + 1)).astype(np.uint8)
        classes: NDArray[np.uint8] = place[np.minimum(self["num_gpus"], most)]
        return classes

    @cached_property
    def _sums(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def _class_sums(self, name: str) -> NDArray[np.float64]:
        """The sum of a column over each class, row after row."""
        name = self._same(name)
        if name not in self._sums:
            sums = np.bincount(self._classes, weights=self[name], minlength=len(SIZE_CLASSES))
            self._sums[name] = sums.astype(np.float64, copy=False)
        return self._sums[name]

    @cached_property
    def first(self) -> float:
        """The first submission, s."""
        return min(float(of["submit_time"].min(initial=np.inf)) for of in (self, self.place.ended))

    def last(self, name: str) -> float:
        """The greatest value of a column, s."""
        return max(float(of[name].max(initial=-np.inf)) for of in (self, self.place.ended))

    @cached_property
    def submitting(self) -> float:
        """Seconds from the first submission to the last."""
        return self.last("submit_time") - self.first

    @cached_property
    def makespan(self) -> float:
        """Seconds from the first submission to the last finish."""
        return self.last("finish_time") - self.first

    @property
    def up(self) -> float:
        """GPU-seconds of servers that were up, in this time or in the window."""
        of = self.place.measured
        if of is not None:
            return self.place.up(of.first, of.last - of.first, of.last)
        return self.place.up(self.first, self.makespan)

    @property
    def held(self) -> float:
        """GPU-seconds that jobs held, those that were ended among them; in the window those of all jobs.

        GPUs that several jobs hold at once count once.

        Not a BLAS product, whose last bit depends on the number of threads it may use.
        """
        if self.place.measured is not None:
            return self.place.measured.held
        ended = self.place.ended["held"]
        # A series of an array imports numpy.ma, which no small replay should pay for.
        return self.sum("held") - self.place.shared + (float(pl.Series(ended).sum()) if ended.size else 0.0)

    @cached_property
    def fairly(self) -> tuple[NDArray[np.float64], NDArray[np.int32] | None]:
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
        names = int(user.max(initial=-1)) + 1
        speeds, jobs = np.zeros(names), np.zeros(names, np.int64)
        # Added up in row order: polars adds up a group in parts, one a thread.
        for rows in _blocks(user.size):
            # Far from zero float64 may tell no time between a job's submission and its end: it has no speed.
            counted = (user[rows] >= 0) & (rho[rows] > 0)
            own = user[rows][counted]
            np.add.at(speeds, own, 1.0 / rho[rows][counted])
            np.add.at(jobs, own, 1)
        return speeds[jobs > 0] / jobs[jobs > 0]

    @cached_property
    def due(self) -> int:
        """Jobs with a deadline."""
        return int(np.count_nonzero(~np.isnan(self["late"])))

    @cached_property
    def missed(self) -> int:
        """Jobs that were late."""
        return int(np.count_nonzero(self["late"] > 0))

    def classes(self) -> Iterator[Rows]:
        """The jobs of each class of gang sizes, in row order; none of a class without jobs."""
        for place, (name, _) in enumerate(SIZE_CLASSES):
            own = np.flatnonzero(self._classes == place)
            if own.size:
                among = own if self.among is None else self.among[own]
                yield replace(self, scope="class", among=among, name=name, part=(self, place))


@dataclass(frozen=True)
class OfType:
    """What servers of one GPU type had and gave over the makespan, or in the window; GPU-hours.

    held: by jobs. up: of servers that were up. asleep: None where servers never sleep. served: held by
    replicas. drained: idle, of servers that drained; they are on.
    """

    fact: GpuType
    servers: int
    gpus: int
    held: float
    up: float
    asleep: float | None
    served: float
    drained: float = 0.0
    scope: ClassVar[Scope] = "type"

    @property
    def energy_kwh(self) -> float | None:
        """Held GPUs at busy_watts and the others at idle_watts, but for sleep; None without watts."""
        if self.fact.busy_watts is None or self.fact.idle_watts is None:
            return None
        on = self.up + self.drained - (self.asleep or 0.0)
        busy, idle = self.held + self.served, on - self.held - self.served
        return (self.fact.busy_watts * busy + self.fact.idle_watts * idle) / 1000.0

    @property
    def cost(self) -> float | None:
        """Of the GPU-hours that jobs held; None without a price."""
        return None if self.fact.price_per_hour is None else self.fact.price_per_hour * self.held
