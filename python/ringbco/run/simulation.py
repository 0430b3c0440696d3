"""A run that goes on step by step: to the next decision, or to a time, and may be forked anywhere.

`replay` with a custom policy is a loop over it.
"""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn, SupportsIndex, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ringbco import _core
from ringbco.cluster.spec import Cluster
from ringbco.errors import POLICY_NOTE, DecisionError, UsageError
from ringbco.io.bridge import open_arrays
from ringbco.io.process import received
from ringbco.result.outcome import Outcome
from ringbco.run.custom_policy import BARE, KeyPolicy, Policy, RankPolicy, Scheduler, guarded, resolve
from ringbco.run.options import check_callback, number, refusal
from ringbco.run.results import conclude
from ringbco.run.setup import Setup, prepare
from ringbco.run.state import Parts, State
from ringbco.trace.jobs import TableLike
from ringbco.trace.plausibility import warn
from ringbco.trace.workload import Rows, Workload

if TYPE_CHECKING:
    from ringbco.run.option_types import Options
else:
    Options = dict  # only a stub has its fields

_END, _TIME, _DECISION = 0, 1, 2
_LONGEST: Final = 1e9


class Simulation:
    """One cluster, or one virtual cluster, whose decisions come from its caller.

    jobs, cluster, recorded_cluster, workload, progress and the options are those of `replay`; the policy is
    the caller. vc: which virtual cluster, where the cluster has some.

    `advance` goes on to the next decision; then `state` tells how things stand, and its verbs, which are
    methods here too, say what to do. For example, FIFO is
    `while sim.advance(): sim.start(sim.state.waiting)`.
    """

    def __init__(
        self,
        jobs: TableLike,
        cluster: Cluster | str | os.PathLike[str],
        *,
        vc: str | None = None,
        recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
        workload: Workload | None = None,
        progress: Callable[[int, int], None] | None = None,
        **options: Unpack[Options],
    ) -> None:
        check_callback(progress)
        if "policy" in options:
            told = "none: who holds a Simulation decides; replay() runs a policy, and fork() goes on with one"
            raise refusal("policy", dict(options)["policy"], told)
        setup = prepare(
            jobs,
            cluster,
            recorded_cluster=recorded_cluster,
            policy=_Bare(),
            workload=workload,
            options=options,
        )
        if setup.outage_draw is not None:
            told = "a table, such as ringbco outages draws: how long a simulation lasts is not known"
            raise refusal("outages", setup.outage_draw.draw.source, told)
        warn(setup.warnings)
        self._begin(setup, prepared_of(setup), _number_of(setup, vc), None, progress)

    def _part(self, rows: Rows, source: str) -> Simulation:
        """The same run of some rows of its table alone, from its beginning; takes no polars."""
        other = object.__new__(Simulation)
        setup = self._setup.part(rows, source)
        other._begin(setup, prepared_of(setup), self._number, None, None)
        return other

    def _begin(
        self,
        setup: Setup,
        prepared: _core.Prepared,
        part: int,
        policy: Scheduler | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._setup = setup
        self._prepared = prepared
        self._number = part
        self._policy = policy
        self._progress = progress
        self._reached = _TIME
        ranks = isinstance(policy, RankPolicy)
        stops = not isinstance(policy, RankPolicy) or policy.preemptive or bool(setup.values["evict"])
        stops |= setup.values["evict_after"] > 0.0 and self._evicts()
        self._course = prepared.course(part, _interval(policy), ranks, stops)
        self.state = self._seen()
        """The cluster and its jobs now."""

    def _seen(self, view: type[State] = State) -> State:
        """What the caller who decides sees, an object of that class."""
        policy = self._policy
        kinds = (kind.__name__ for kind in (KeyPolicy, RankPolicy) if isinstance(policy, kind))
        return view(
            self._setup.workload,
            self._setup.chosen.placement,
            self._course,
            self.fork,
            clairvoyant=policy is None or policy.clairvoyant,
            evicts=self._evicts(),
            orders=next(kinds, None),
        )

    def _evicts(self) -> bool:
        """Whether jobs may be evicted for others."""
        return bool(self._setup.values["evict"]) or self._setup.jobs.get("quotas") is not None

    def advance(self, until: float = math.inf) -> bool:
        """Goes on to the next decision and returns True, or False when `until`, s, or the end is reached.

        With a policy (a fork that was given one), decisions are its own, and only `until` or the end stops.
        Raises InputError where nothing can change any more and a job is not done.
        """
        if math.isnan(until):
            raise UsageError("advance: NaN: expected a time, s")
        while True:
            self.state._moved_on()
            try:
                self._reached = self._course.run(until, self._progress)
            except _core.CoreError as error:
                raise self._setup.explain(error) from None
            if self._reached != _DECISION:
                return False
            if self._policy is None:
                return True
            self._decide(self._policy)

    def _decide(self, policy: Scheduler) -> None:
        """Has the policy decide."""
        if isinstance(policy, KeyPolicy):
            rows = self._course.unkeyed()
            self._course.give_keys(keys_of(self._ask(policy.key, rows), rows, self.state, "key"))
        elif isinstance(policy, RankPolicy):
            rows = self._ranked(policy)
            keys = keys_of(self._ask(policy.rank, rows), rows, self.state, "rank")
            self._course.rank(rows, keys, policy.preemptive)
        elif isinstance(policy, Policy):
            self._ask(policy.decide)

    def _ranked(self, policy: RankPolicy) -> NDArray[np.uint32]:
        """The rows that a policy is to rank."""
        rows = self._course.waiting()
        if policy.preemptive or self.state.evicts:
            rows = np.concatenate((rows, self._course.running()))
        return rows

    def _ask(self, method: Callable[..., Any], *rows: NDArray[np.uint32]) -> Any:
        """What a method of the policy returns. What it raises tells the simulated time."""
        try:
            told = method(self.state, *rows)
        except DecisionError:
            raise
        except Exception as error:
            error.add_note(f"{POLICY_NOTE}{self._setup.chosen.name} at simulated time {self._course.now:g} s")
            raise
        if received:  # and the policy has kept it to itself
            raise KeyboardInterrupt
        return told

    def fork(self, policy: Scheduler | type[Scheduler] | None = None) -> Simulation:
        """The run as it is now; what happens to one does not touch the other.

        policy: a `Policy`, or a class of one, who decides there from the next decision on; it is copied.
        None: the caller does.
        """
        if isinstance(policy, type):
            policy = resolve(policy).scheduler
        if policy is not None and not isinstance(policy, Policy):
            raise UsageError(
                f"fork: {policy!r}: expected an object of a class derived from ringbco.Policy, or None"
            )
        other = object.__new__(Simulation)
        other._setup, other._prepared, other._number = self._setup, self._prepared, self._number
        other._policy = copy.deepcopy(policy)
        other._progress, other._reached = None, self._reached
        other._course = self._course.fork()
        if policy is not None:
            other._course.set_interval(_interval(policy))
        other.state = other._seen()
        # The engine goes on from what it filled in so far, of which the fork has a copy.
        other.state._columns = {name: column.copy() for name, column in self.state._columns.items()}
        return other

    def outcome(self) -> Outcome:
        """What happened, as `replay` returns it. Raises UsageError before every job is done."""
        if self._reached != _END:
            left = self._course.jobs - self._course.gone
            raise UsageError(f"outcome: {left} jobs are not done: expected advance() to have reached the end")
        return conclude(self._setup, self._prepared.outcome([self._course]))

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        """Refuses `copy.copy`, `copy.deepcopy` and `pickle` alike."""
        raise UsageError("a Simulation cannot be copied or pickled: fork() gives one that goes on from here")

    # The verbs, as `state` has them.

    def start(self, rows: ArrayLike, servers: Parts | None = None, **how: Any) -> int:
        """As `State.start`."""
        return self.state.start(rows, servers, **how)

    def evict_for(self, row: int) -> bool:
        """As `State.evict_for`."""
        return self.state.evict_for(row)

    def stop(self, rows: ArrayLike) -> None:
        """As `State.stop`."""
        self.state.stop(rows)

    def move(self, moves: Mapping[int, Parts]) -> None:
        """As `State.move`."""
        self.state.move(moves)

    def resize(self, row: int, gpus: int) -> None:
        """As `State.resize`."""
        self.state.resize(row, gpus)

    def end(self, rows: ArrayLike) -> None:
        """As `State.end`."""
        self.state.end(rows)

    def refuse(self, rows: ArrayLike) -> None:
        """As `State.refuse`."""
        self.state.refuse(rows)

    def wake(self, at: float) -> None:
        """As `State.wake`."""
        self.state.wake(at)


class _Bare(Policy):
    """The policy of a simulation whose decisions its caller makes."""

    clairvoyant = True
    told_as = BARE

    def decide(self, state: State) -> None:
        """Nothing: `advance` hands the decision to the caller instead."""


def drive(
    setup: Setup, progress: Callable[[int, int], None] | None, make: Callable[[], Simulation] | None = None
) -> _core.RunResult:
    """Runs a custom policy to the end, in each virtual cluster by a copy of it.

    make: a simulation that has not begun, such as one that keeps the time.
    """
    if setup.custom is None:
        raise ValueError("drive: expected a custom policy")
    prepared = prepared_of(setup)
    courses = []
    done = 0
    for part in range(prepared.parts):
        with guarded(setup.custom.name, loading=True):
            # Every virtual cluster has a policy of its own; the caller's object is not touched.
            policy = copy.deepcopy(setup.custom.scheduler)
            simulation = object.__new__(Simulation) if make is None else make()
            simulation._begin(setup, prepared, part, policy, _after(done, setup, progress))
        with guarded(setup.custom.name):
            simulation.advance()
        courses.append(simulation._course)
        done += simulation._course.jobs
    return prepared.outcome(courses)


def _after(
    done: int, setup: Setup, progress: Callable[[int, int], None] | None
) -> Callable[[int, int], None] | None:
    """The caller's progress, told of the jobs of earlier virtual clusters too."""
    if progress is None:
        return None
    total = setup.table.num_jobs
    return lambda finished, _: progress(done + finished, total)


def prepared_of(setup: Setup) -> _core.Prepared:
    """What a run is given, checked by the engine. Raises as `replay` does."""
    open_arrays()
    try:
        return _core.Prepared(setup.jobs, setup.servers, setup.options)
    except _core.CoreError as error:
        raise setup.explain(error) from None


def _number_of(setup: Setup, vc: str | None) -> int:
    """The number of a virtual cluster."""
    names = list(setup.cluster.vc_names) if setup.workload.vc is not None else []
    if vc is None and not names:
        return 0
    if vc not in names:
        expected = f"one of {', '.join(names)}" if names else "None: the cluster has no virtual clusters"
        raise UsageError(f"option vc: {vc!r}: expected {expected}")
    return names.index(vc)


def _interval(policy: Scheduler | None) -> float | None:
    """Seconds between decisions, or None."""
    interval = getattr(policy, "interval", None)
    if interval is None or isinstance(policy, KeyPolicy):
        return None
    expected = "None, or a number of seconds > 0 and <= 1e+09"
    return number("interval", interval, expected, least=0.0, most=_LONGEST, above=True)


def keys_of(given: Any, rows: NDArray[np.uint32], state: State, method: str) -> NDArray[np.float64]:
    """What a policy gave for its rows, as float64. Raises DecisionError for another length and for NaN."""
    try:
        keys = np.ascontiguousarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise state._error(method, None, f"expected an array of numbers: {error}") from None
    if keys.shape != rows.shape:
        raise state._error(
            method, None, f"expected {rows.size} numbers, one a row, and got shape {keys.shape}"
        )
    wrong = np.isnan(keys)
    if wrong.any():
        raise state._error(method, int(rows[wrong][0]), "its key is NaN: expected a number")
    return keys
