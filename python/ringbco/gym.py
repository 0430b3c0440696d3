"""A replay as an environment for reinforcement learning, by the interface of gymnasium (docs/gym.md).

Needs the extra `gym`: `pip install 'ringbco[gym]'`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.spec import Cluster
from ringbco.deprecation import renamed_parameters
from ringbco.errors import ForkedError
from ringbco.io.forks import is_fork
from ringbco.run.options import as_cluster, flag, integer, refusal
from ringbco.run.simulation import Simulation
from ringbco.trace.jobs import JobTable, TableLike
from ringbco.trace.schema import MOST_SECONDS

if TYPE_CHECKING:
    from ringbco.run.option_types import Options
else:
    Options = dict  # only a stub has its fields

try:
    import gymnasium
except ModuleNotFoundError as error:
    if error.name != "gymnasium":
        raise
    raise ModuleNotFoundError(
        "ringbco.gym: the package gymnasium is not installed: pip install 'ringbco[gym]'", name="gymnasium"
    ) from None

IDLE_WAIT: Final = 60.0
"""Seconds that a wait takes where it would take for ever: no job runs and none is still to come."""
PATIENCE: Final = 1000
"""So many of those waits in a row truncate the episode."""

_MOST_KEPT: Final = 8
"""Traces that a process keeps for those that are forked from it."""

Observation = dict[str, NDArray[np.float64]]


class ReplayEnv(gymnasium.Env[Observation, np.int64]):
    """Which waiting job starts next: an episode is a replay of some consecutive jobs of a trace.

    jobs, cluster, vc, recorded_cluster and the options are those of `Simulation`. episode_jobs: how many jobs
    an episode has. visible_jobs: K, how many waiting jobs an observation shows. clairvoyant: whether it shows
    their run times too.

    Observations are float64, and 0 where no job waits:
    jobs, (K, 2) or (K, 3): seconds waited, GPUs asked for, and seconds of run time if clairvoyant; fifo.
    servers, (servers, 2): idle GPUs, GPUs in all.
    waiting, (1,): jobs that wait, shown or not.

    Actions: i < K starts the i-th job shown; K waits for the next arrival or completion. One that cannot be
    carried out waits. The reward is minus the jobs in the system times the seconds that pass. Instants at
    which no job waits are passed over. Over an episode the rewards sum to minus the total completion time.
    """

    @renamed_parameters(window="episode_jobs", shown="visible_jobs")
    def __init__(
        self,
        jobs: TableLike,
        cluster: Cluster | str | os.PathLike[str],
        *,
        episode_jobs: int = 200,
        visible_jobs: int = 16,
        clairvoyant: bool = False,
        vc: str | None = None,
        recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
        **options: Unpack[Options],
    ) -> None:
        if options.get("quota") is not None:
            raise refusal("quota", "given", "none: an episode's jobs need not be of every owner")
        self._refusal: ForkedError | None = None
        self._cluster, most_jobs = as_cluster(cluster, recorded_cluster), episode_jobs
        try:
            self._trace = _trace(jobs, self._cluster, vc, options)
            setup = self._trace._setup
            self._cluster, most_jobs = setup.cluster, setup.jobs["submit"].size
        except ForkedError as error:
            # gymnasium.vector tells what a reset raises in another process, and not what is raised here.
            self._refusal = error
        servers = self._cluster.server_gpus
        self._servers = np.arange(servers.size) if vc is None else self._cluster.vc_servers(vc)
        gpus = servers[self._servers].astype(np.float64)
        self._idle_and_gpus = np.column_stack((np.zeros_like(gpus), gpus))
        self._window = integer("episode_jobs", episode_jobs, 1, most_jobs)
        self._shown = integer("visible_jobs", visible_jobs, 1, self._window)
        self._clairvoyant = flag("clairvoyant", clairvoyant)
        self._no_rows = np.full(self._shown, -1, np.int64)
        self._going = False

        most = [float(MOST_SECONDS), gpus.sum(), float(MOST_SECONDS)][: 3 if clairvoyant else 2]
        box = gymnasium.spaces.Box
        space: Any = gymnasium.spaces.Dict(  # its own type says that it holds spaces
            {
                "jobs": box(0.0, np.tile(most, (self._shown, 1)), dtype=np.float64),
                "servers": box(0.0, np.column_stack((gpus, gpus)), dtype=np.float64),
                "waiting": box(0.0, float(self._window), (1,), dtype=np.float64),
            }
        )
        self.observation_space = space
        self.action_space = gymnasium.spaces.Discrete(self._shown + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode at its first arrival, in a window that is drawn at random.

        options: {"first": row} says where the window begins. Rows count the jobs that take part: not those of
        other virtual clusters, nor those that `oversize="drop"` leaves out.
        """
        super().reset(seed=seed)
        if self._refusal is not None:
            raise self._refusal
        setup = self._trace._setup
        last = setup.jobs["submit"].size - self._window
        first = int(self.np_random.integers(last + 1))
        if options and "first" in options:
            first = integer("first", options["first"], 0, last)
        source = f"{setup.workload.whole.source}, rows {first + 1} to {first + self._window}"
        self.simulation = self._trace._part(slice(first, first + self._window), source)
        """The run of this episode; its `outcome()` is there once the episode has terminated."""
        state, columns = self.simulation.state, self.simulation._setup.jobs
        self._by_slots = setup.values["clock"] == "slot"
        self._is_chained = columns["chains"] is not None
        self._arrival = columns["submit"]
        known: list[NDArray[Any]] = [self._arrival, columns["num_gpus"]]
        if self._clairvoyant:
            known.append(state.remaining_time)
        self._known = np.column_stack(known).astype(np.float64)
        self._begun: set[int] = set()
        self._first, self._now, self._spent = first, state.now, 0.0
        self._waiting, self._idle_waits = state.waiting, 0
        self._advance()
        return self._observation(), self._info()

    @property
    def jobs(self) -> JobTable:
        """The jobs of this episode."""
        return self.simulation._setup.table

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Starts a job, or waits. Raises gymnasium's ResetNeeded when the episode is over."""
        if not self._going:
            raise gymnasium.error.ResetNeeded("the episode is over: expected reset() before step()")
        waiting = self._waiting
        shown = 0 <= action < min(self._shown, waiting.size)
        if shown and self.simulation.start(waiting[action]):
            self._begun.add(int(waiting[action]))
            self._idle_waits = 0
            self._waiting = self.simulation._course.waiting()
        else:
            self._wait()
        while self._going and not self._waiting.size:
            self._advance()
        reward, self._spent = 0.0 - self._spent, 0.0
        truncated = self._going and self._idle_waits >= PATIENCE
        return self._observation(), reward, not self._going, truncated, self._info()

    def _wait(self) -> None:
        """Goes on to the next arrival or completion, or a while where there is none."""
        course = self.simulation._course
        to_come = course.arrived < course.jobs
        if to_come and self._is_chained:  # not those after jobs that wait
            to_come = bool((course.arrival_times() > self._now).any())
        if not to_come and not course.running().size:
            self._idle_waits += 1
            self.simulation.wake(self._now + IDLE_WAIT)
        self._advance()

    def _advance(self) -> None:
        """Goes on to the next decision, and books what the jobs spend in the system until then."""
        course = self.simulation._course  # its arrays are fresh: no views of them are made
        since, present = self._now, course.arrived - course.gone
        self._going = self.simulation.advance()
        self._now, self._waiting = course.now, course.waiting()
        self._spent += present * (self._now - since)
        if self._is_chained and course.news()[0].size:
            self._arrival = course.arrival_times()
            self._known[:, 0] = self._arrival
        if self._by_slots:  # they came within the slot, before anybody can act
            self._spent += float((self._now - self._arrival[course.news()[0]]).sum())

    def _observation(self) -> Observation:
        shown = self._waiting[: self._shown]
        jobs = np.zeros((self._shown, self._known.shape[1]))
        jobs[: shown.size] = self._known[shown]
        jobs[: shown.size, 0] = self._now - jobs[: shown.size, 0]
        if self._clairvoyant and not self._begun.isdisjoint(shown.tolist()):  # one that ran has less left
            jobs[: shown.size, 2] = self.simulation.state.remaining_time[shown]
        servers = self._idle_and_gpus.copy()
        servers[:, 0] = self.simulation._course.idle()[self._servers]
        return {"jobs": jobs, "servers": servers, "waiting": np.array([float(self._waiting.size)])}

    def _info(self) -> dict[str, Any]:
        """time: s. first: row at which the window begins. rows: of `jobs`, those that are shown, then -1."""
        rows = self._no_rows.copy()  # of one length, as gymnasium.vector needs
        shown = self._waiting[: self._shown]
        rows[: shown.size] = shown
        return {"time": self._now, "first": self._first, "rows": rows}


class _Kept(NamedTuple):
    """A trace that was read, and what it was read of: objects are told apart by where they are."""

    trace: Simulation
    given: tuple[Any, ...]


_KEPT: Final[dict[tuple[Any, ...], _Kept]] = {}


def _trace(jobs: TableLike, cluster: Cluster, vc: str | None, options: Options) -> Simulation:
    """The jobs that take part, checked, with their work; episodes are parts of it.

    A process that was forked has no polars to read any. There it is what its parent read last of the same.
    """
    given = (jobs, cluster, vc, *options.values())
    identity = (*options, *map(_identity, given))
    if is_fork() and identity in _KEPT:
        return _KEPT[identity].trace
    whole = Simulation(jobs, cluster, vc=vc, **options)
    # Those of other virtual clusters, and those left out, take no part.
    rows = np.flatnonzero(whole.state.remaining_time > 0)
    trace = whole._part(rows, whole._setup.table.source)
    _ = trace._setup.table  # cut here, where there is polars
    _KEPT.pop(identity, None)
    _KEPT[identity] = _Kept(trace, given)
    if len(_KEPT) > _MOST_KEPT:
        del _KEPT[next(iter(_KEPT))]
    return trace


def _identity(given: Any) -> Any:
    """What an argument is known by: a file by its path, time and size, an object by where it is."""
    if given is None or isinstance(given, bool | int | float | Cluster):
        return type(given), given
    if not isinstance(given, str | os.PathLike):
        return type(given), id(given)
    path = os.path.abspath(given)
    try:
        file = os.stat(path)
    except (OSError, ValueError):
        return os.fspath(given)
    return path, file.st_mtime_ns, file.st_size


gymnasium.register("ringbco/Replay-v0", entry_point=f"{__name__}:ReplayEnv")
