"""What a custom policy sees, and the verbs by which it acts.

Invariant: an array that was read keeps its content until `decide` returns. The next read of `state` shows
what verbs did since. For example, `waiting = state.waiting; state.start(waiting)` leaves `waiting` as it was,
while `state.waiting` no longer has the jobs that started.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringbco import _core
from ringbco.errors import DecisionError, UsageError
from ringbco.run.job_columns import Arrivals, Columns, OldNames, frozen, hidden
from ringbco.run.registry import CLAIRVOYANT
from ringbco.run.state_links import Links
from ringbco.run.state_seats import Seats
from ringbco.run.verb_arguments import count_of, pairs_of, rows_of
from ringbco.trace.shares import MILLI_GPU

if TYPE_CHECKING:
    import ringbco
    from ringbco.trace.workload import Workload

    _Decider = ringbco.Policy | type[ringbco.Policy]

_Read = TypeVar("_Read")
_CHANGED: Final = ("waiting", "running", "started", "evicted", "over_quota", "idle", "free_shares", "U")
_FIGURES: Final = {"held": 0, "attained": 1, "remaining_iterations": 2, "remaining_time": 3, "rho": 4}
Parts = Iterable[tuple[int, int | Iterable[int]]]
"""(server, GPUs), or (server, [GPU, ...]) where jobs may hold shares."""


class Quota(NamedTuple):
    """The quota of a job's owner.

    owner: whose it is, as text. gpus: how many GPUs the owner's jobs may hold together. held: how many
    they hold now. borrow: whether they may hold more.
    """

    owner: str
    gpus: int
    held: int
    borrow: bool


class State(Arrivals, Links, Seats, OldNames):
    """The cluster and its jobs at one instant. Rows and servers count from 0, in the table and the cluster.

    now: the time, s. jobs: columns of the job table.
    waiting, running: rows, fifo. started: those that run, in the order of their starts.
    arrived, completed, evicted: rows, since the last decision. over_quota, protected: rows.
    idle, gpus: GPUs by server. up: whether each server is up. draining: the servers that drain.
    vc: its virtual cluster. type: its GPU type. tiers: the group of each server, by tier.
    held: GPUs by row. attained: GPU-seconds held so far by row. U: accumulated time by GPU, s.
    Clairvoyant classes also read duration, iterations, remaining_iterations, remaining_time and rho by row.
    """

    def __init__(
        self,
        workload: Workload,
        placement: str,
        course: _core.Course,
        fork: Callable[[Any], ringbco.Simulation],
        *,
        clairvoyant: bool,
        evicts: bool,
        orders: str | None,
    ) -> None:
        """evicts: whether jobs may be evicted for others. orders: what a policy is called that only orders
        jobs, and so has no verbs; None of the others."""
        self._workload, self._cluster = workload, workload.cluster
        self._placement, self._course, self._fork = placement, course, fork
        self._orders = orders
        self.evicts = evicts
        """Whether jobs may be evicted for others, by `--evict` or a quota."""
        self.has_quotas = workload.quotas is not None
        """Whether owners have quotas."""
        self.shares = workload.columns["shares"]
        """Thousandths of a GPU that each row asks for, 0 for whole GPUs; None where all do."""
        self._clairvoyant = clairvoyant
        self._columns: dict[str, NDArray[np.float64]] = {}
        self._cache: dict[str, NDArray[Any]] = {}
        self._handed: set[str] = set()
        self.jobs = Columns(workload, clairvoyant=clairvoyant)
        """The job table's columns."""

    def __getattr__(self, name: str) -> Any:
        if (known := getattr(State, name, None)) is not None:  # which says itself why it is not to be read
            return known.__get__(self, State)
        if not name.startswith("_") and name in self.jobs:
            raise AttributeError(f"the state has no {name!r}: it is a column of the jobs, state.jobs.{name}")
        raise AttributeError(f"the state has no {name!r}")

    def _moved_on(self) -> None:
        """What was read is out of date: time has passed."""
        self._cache.clear()
        self._handed.clear()

    def _once(self, name: str, values: Any) -> NDArray[Any]:
        """An array that is read from the engine once, until something changes."""
        if name not in self._cache:
            self._cache[name] = frozen(values())
        return self._cache[name]

    @property
    def now(self) -> float:
        """The time, s."""
        return self._course.now

    @property
    def waiting(self) -> NDArray[np.uint32]:
        """Rows of the jobs that wait, in the order of fifo: (priority down, submit_time, row)."""
        return self._once("waiting", self._course.waiting)

    @property
    def running(self) -> NDArray[np.uint32]:
        """Rows of the jobs that hold GPUs, in the order of fifo: (priority down, submit_time, row)."""
        return self._once("running", self._course.running)

    @property
    def arrived(self) -> NDArray[np.uint32]:
        """Rows of the jobs that arrived since the last decision."""
        return self._once("arrived", lambda: self._course.news()[0])

    @property
    def completed(self) -> NDArray[np.uint32]:
        """Rows of the jobs that were done since the last decision."""
        return self._once("completed", lambda: self._course.news()[1])

    @property
    def evicted(self) -> NDArray[np.uint32]:
        """Rows of the jobs that an outage, a service or another job took off their GPUs, since the last call.

        Those that made room for a row that this decision started are among them.
        """
        return self._once("evicted", lambda: self._course.news()[2])

    @property
    def over_quota(self) -> NDArray[np.uint32]:
        """Rows of the jobs on borrowed GPUs, in the order of fifo: their stays are over quota."""
        return self._once("over_quota", self._course.over_quota)

    @property
    def protected(self) -> NDArray[np.uint32]:
        """Rows of the running jobs that are never stopped for others, by fifo (docs/operators.md)."""
        return self._once("protected", self._course.protected)

    def quota(self, row: int) -> Quota | None:
        """The quota of the row's owner, and what the owner's jobs hold; None where it has none.

        Of several files of quotas that of the first which has one for the row.
        """
        return next(filter(None, self.quotas(row)), None)

    def quotas(self, row: int) -> list[Quota | None]:
        """By file of quotas that of the row's owner there; None where it has none."""
        (number,) = self._rows(row, "quotas")
        owners = self._workload.quotas
        found: list[Quota | None] = [None] * (0 if owners is None else len(owners.books))
        for book, gpus, held, borrow in self._course.quotas(int(number)):
            assert owners is not None
            owner = self._workload.table.frame[owners.books[book].column][int(number)]
            found[book] = Quota(str(owner), gpus, held, borrow)
        return found

    @property
    def idle(self) -> NDArray[np.uint32]:
        """Idle GPUs of each server; 0 for the servers of other virtual clusters."""
        return self._once("idle", self._course.idle)

    @property
    def free_shares(self) -> NDArray[np.float64]:
        """The part of each GPU that no job holds: server x GPU, from 0 to 1. Where the job table has shares.

        0 for a GPU that the server does not have, or that is of another virtual cluster.
        """
        self._check_shares("free_shares", "idle has the idle GPUs of each server")
        return self._once("free_shares", self._free_shares)

    def _free_shares(self) -> NDArray[np.float64]:
        told = self._course.room()
        rooms = np.zeros((len(told), int(self._cluster.server_gpus.max())))
        for server, own in enumerate(told):
            rooms[server, : len(own)] = own
        return rooms / MILLI_GPU

    def _check_shares(self, name: str, instead: str) -> None:
        if self.shares is None:
            raise AttributeError(f"{name} is of job tables with shares of a GPU: {instead}")

    @property
    def gpus(self) -> NDArray[np.uint32]:
        """GPUs of each server."""
        return frozen(self._cluster.server_gpus)

    @property
    def draining(self) -> NDArray[np.uint32]:
        """The servers that drain: what runs there goes on, and no other job gets their GPUs."""
        return self._once("draining", self._course.draining)

    @property
    def up(self) -> NDArray[np.bool_]:
        """Whether each server is up, and does not drain; those of other virtual clusters are taken to be."""
        return self._once("up", self._course.up)

    @property
    def vc(self) -> tuple[str, ...] | None:
        """The virtual cluster of each server; None where there are none."""
        return self._cluster.server_vc if self._workload.vc is not None else None

    @property
    def type(self) -> tuple[str, ...] | None:
        """The GPU type of each server; None where servers name none."""
        cluster = self._cluster
        if cluster.server_types is None:
            return None
        return tuple(cluster.types[number] for number in cluster.server_types)

    @property
    def U(self) -> NDArray[np.float64]:  # noqa: N802 - the paper's name
        """Accumulated time of each GPU of this (virtual) cluster, s (docs/model.md).

        Not known where the job table has shares.
        """
        if self.shares is not None:
            raise AttributeError("U is not known where jobs may hold shares of a GPU")
        return self._once("U", self._course.gpu_times)

    @property
    def held(self) -> NDArray[np.uint32]:
        """GPUs that each row holds."""
        return frozen(self._figure("held").astype(np.uint32))

    @property
    def attained(self) -> NDArray[np.float64]:
        """GPU-seconds that each row has held so far, pauses included."""
        return self._figure("attained")

    @property
    def remaining_iterations(self) -> NDArray[np.float64]:
        """Iterations left of each row; recorded seconds under the model `fixed`. Clairvoyant."""
        return self._known("remaining_iterations")

    @property
    def remaining_time(self) -> NDArray[np.float64]:
        """Run time left of each row on one server without contention, s. Clairvoyant."""
        return self._known("remaining_time")

    @property
    def rho(self) -> NDArray[np.float64]:
        """rho_j of each row, s: for clairvoyant classes, and under placements that book it."""
        booked = self._placement in CLAIRVOYANT["placement"]
        return self._figure("rho") if booked else self._known("rho")

    @property
    def duration(self) -> NDArray[np.float64]:
        """Recorded run times, s. Clairvoyant."""
        return self.jobs["duration"]

    @property
    def iterations(self) -> NDArray[np.uint64]:
        """Iterations F_j of each row. Clairvoyant."""
        return self.jobs["iterations"]

    def _known(self, name: str) -> NDArray[np.float64]:
        if not self._clairvoyant:
            raise AttributeError(hidden(name))
        return self._figure(name)

    def _figure(self, name: str) -> NDArray[np.float64]:
        """A column of the engine's, brought up to date where rows changed."""
        if name in self._cache:
            return self._cache[name]
        base = self._columns.get(name)
        if base is None:
            base = np.zeros(len(self.jobs))
        elif name in self._handed:  # a verb came between: what was read keeps its content
            base = base.copy()
        self._columns[name] = base
        self._course.fill(_FIGURES[name], base)
        self._handed.add(name)
        return self._once(name, lambda: base)

    def allocation(self, row: int) -> list[tuple[int, int]]:
        """(server, GPUs) of a running row; empty where it does not run."""
        (number,) = self._rows(row, "allocation")
        return self._course.parts(int(number))

    @property
    def allocations(self) -> dict[int, list[tuple[int, int]]]:
        """(server, GPUs) of all running rows, by row."""
        return dict(self._course.places())

    def rate(
        self, rows: ArrayLike, gpus: ArrayLike, type: str | None = None, servers: int = 1
    ) -> NDArray[np.float64]:
        """Iterations a second of each row on so many GPUs of so many servers, alone.

        Under the model `fixed`: recorded seconds a second. type: a GPU type of the cluster, by name; None for
        the one on which the job was recorded. The rate is 0 on a type that the job may not use.
        """
        if servers < 1:
            raise UsageError(f"rate: servers {servers}: expected a number >= 1")
        gpu_type = self._type("rate", type)
        numbers = self._rows(rows, "rate")
        wanted = np.ascontiguousarray(np.broadcast_to(np.asarray(gpus, np.uint32), numbers.shape))
        return self._course.rate(numbers, wanted, gpu_type, int(servers))

    def _type(self, verb: str, name: str | None) -> int | None:
        """The number of a GPU type; UsageError where the cluster has none of that name."""
        if name is None:
            return None
        types = self._cluster.types
        for number, known in enumerate(types):
            if known.casefold() == str(name).casefold():
                return number
        expected = f"one of {', '.join(types)}" if types else "None: the servers name no GPU types"
        raise UsageError(f"{verb}: type {name!r}: expected {expected}")

    # Verbs.

    def start(
        self,
        rows: ArrayLike,
        servers: Parts | None = None,
        *,
        beside: int | None = None,
        gpus: int | None = None,
        type: str | None = None,
        placement: str | None = None,
        strict: bool = True,
    ) -> int:
        """Starts waiting rows in the order given, and returns how many of them run then.

        A row that cannot be placed evicts others where the run says so (docs/priorities.md).
        servers: (server, GPUs) pairs for a single row, which evicts no job; where jobs may hold shares also
        (server, [GPU, ...]); None for where the run's placement puts each.
        beside: a running row on whose GPUs a single row starts (docs/lucid.md), without other arguments.
        gpus: how many each gets, from its min_gpus to its max_gpus; None for its num_gpus.
        type: the GPU type that all get; None for the first, of those that a row may use, that can place it.
        placement: another placement than the run's. strict: whether the first row that finds no GPUs ends the
        call; otherwise it is passed over. Raises DecisionError, and changes nothing, for a row that does not
        wait, for GPUs that are not idle, and for a row whose owner holds too much and may not borrow; one of
        which that is true because of others of the call is passed over.
        """
        numbers = self._rows(rows, "start")
        if beside is not None:
            return self._start_beside(numbers, beside, servers, gpus, type, placement)
        gpu_type = self._type("start", type)
        count = None if gpus is None else self._count(gpus, "start", numbers)
        if servers is not None:
            if numbers.size != 1:
                raise self._error("start", None, "servers are given for one row at a time")
            listed = [(server, own) for server, own in servers]
            if self.shares is not None and any(not isinstance(own, int | np.integer) for _, own in listed):
                return self._start_on_gpus(int(numbers[0]), listed, count)
            pairs = self._pairs(listed, "start", int(numbers[0]))
            if count is not None and sum(given for _, given in pairs) != count:
                raise self._error("start", int(numbers[0]), f"servers give other GPUs than {count}")
            self._do("start", lambda: self._course.start_on(int(numbers[0]), pairs))
            return 1
        if placement is not None:
            from ringbco.run.options import check_name
            from ringbco.run.registry import REPLAY

            check_name("placement", placement, REPLAY["placement"].names)
        strictly = bool(strict)
        return int(
            self._do("start", lambda: self._course.start(numbers, count, gpu_type, placement, strictly))
        )

    def _start_on_gpus(self, row: int, servers: list[tuple[int, Any]], count: int | None) -> int:
        """Starts a row on GPUs that are named one by one, or on a share of one."""
        try:
            gpus = [(int(server), int(gpu)) for server, own in servers for gpu in own]
        except (TypeError, ValueError):
            raise self._error("start", row, "GPUs are given as (server, [GPU, ...]) pairs") from None
        if any(not 0 <= number < 2**32 for pair in gpus for number in pair):
            raise self._error("start", row, "servers and GPUs are numbers >= 0")
        if count is not None and len(gpus) != count:
            raise self._error("start", row, f"servers give other GPUs than {count}")
        self._do("start", lambda: self._course.start_on_gpus(row, gpus))
        return 1

    def evict_for(self, row: int) -> bool:
        """Starts a waiting row that cannot be placed, by evicting others by the run's rule; whether it did.

        It does not where the row could be placed as things are. Raises DecisionError as `start` does, and if
        the run has no eviction.
        """
        (number,) = self._rows(row, "evict_for")
        if not self.evicts:
            raise self._error("evict_for", int(number), "this run has no --evict and no quota")
        return bool(self._do("evict_for", lambda: self._course.evict_for(int(number))))

    def stop(self, rows: ArrayLike) -> None:
        """Stops running rows. They wait again and keep their progress. Raises as `start` does."""
        numbers = self._rows(rows, "stop")
        self._do("stop", lambda: self._course.stop(numbers))

    def move(self, moves: Mapping[int, Parts]) -> None:
        """Moves running rows to other GPUs: {row: [(server, GPUs), ...]}. All give theirs back first.

        Raises DecisionError as `start` does.
        """
        given = [(int(row), self._pairs(parts, "move", int(row))) for row, parts in moves.items()]
        self._do("move", lambda: self._course.shift(given))

    def resize(self, row: int, gpus: int) -> None:
        """Gives a running row another number of GPUs, from its min_gpus to its max_gpus.

        The run's placement says which; the row's own count as idle. Raises DecisionError as `start` does, and
        where there is no room for so many; then nothing has changed.
        """
        (number,) = self._rows(row, "resize")
        count = self._count(gpus, "resize", np.array([number]))
        self._do("resize", lambda: self._course.resize(int(number), count))

    def end(self, rows: ArrayLike) -> None:
        """Ends rows that run, or have run, before they are done. They have no row in jobs.parquet.

        Raises DecisionError as `start` does.
        """
        numbers = self._rows(rows, "end")
        self._do("end", lambda: self._course.end(numbers))

    def refuse(self, rows: ArrayLike) -> None:
        """Refuses waiting rows that never ran, for good. Raises DecisionError as `start` does."""
        numbers = self._rows(rows, "refuse")
        self._do("refuse", lambda: self._course.refuse(numbers))

    def wake(self, at: float) -> None:
        """Asks for a decision at that time, s. Raises DecisionError for the past."""
        self._check_verbs("wake")
        if not (
            isinstance(at, (int, float, np.number)) and math.isfinite(at) and self._course.wake(float(at))
        ):
            raise self._error("wake", None, f"{at!r} is not a time after now, {self.now:g} s")

    def fork(self, policy: _Decider | None = None) -> ringbco.Simulation:
        """The run as it is now, to try something on. Clairvoyant classes only.

        policy: who decides there; it is copied. None: the caller who holds the fork.
        """
        if not self._clairvoyant:
            raise AttributeError("fork sees the future; a class that says clairvoyant = True may call it")
        return self._fork(policy)

    def _do(self, verb: str, act: Any) -> Any:
        """Carries a verb out; what was read before stays as it was."""
        self._check_verbs(verb)
        try:
            done = act()
        except _core.CoreError as error:
            if error.kind != "verb":
                raise
            raise self._error(error.verb, error.row, error.message) from None
        for name in (*_CHANGED, *_FIGURES):
            self._cache.pop(name, None)
        return done

    def _check_verbs(self, verb: str) -> None:
        """Raises DecisionError for a policy that only orders jobs: the engine starts them by its order."""
        if self._orders:
            why = f"a {self._orders} only orders jobs; derive from ringbco.Policy for verbs"
            raise self._error(verb, None, why)

    def _error(self, verb: str, row: int | None, why: str) -> DecisionError:
        job = None
        if row is not None and row < len(self.jobs):
            job = self._workload.table.frame["job_id"][int(row)]
        return DecisionError(verb, self._cluster.named(why), time=self.now, row=row, job=job)

    def _rows(self, rows: ArrayLike, verb: str) -> NDArray[np.uint32]:
        return self._read(verb, None, lambda: rows_of(rows, len(self.jobs)))

    def _pairs(self, parts: Parts, verb: str, row: int) -> list[tuple[int, int]]:
        return self._read(verb, row, lambda: pairs_of(parts))

    def _count(self, gpus: int, verb: str, rows: NDArray[np.uint32]) -> int:
        return self._read(verb, int(rows[0]) if rows.size else None, lambda: count_of(gpus))

    def _read(self, verb: str, row: int | None, read: Callable[[], _Read]) -> _Read:
        """What a verb is given. Raises DecisionError where `read` cannot take it."""
        try:
            return read()
        except ValueError as why:
            raise self._error(verb, row, str(why)) from None
