"""Where the time of a custom policy goes: the machine, what the policy sees, or its own code.

A clock is always in one of three phases, and every second counts for one of them. For example, a verb that
`decide` calls counts for the machine, what `state.waiting` takes for the view, the rest of `decide` for the
policy.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ringbco.cluster.spec import Cluster
from ringbco.run.custom_policy import Scheduler
from ringbco.run.setup import prepare
from ringbco.run.simulation import Simulation, drive
from ringbco.run.state import State
from ringbco.trace.jobs import JobTable

# What the engine does; its other methods tell how things stand.
_WORK: Final = frozenset(
    ("run", "start", "start_on", "stop", "shift", "refuse", "wake", "rank", "give_keys", "set_interval")
)


@dataclass(frozen=True)
class Split:
    """Seconds of one run and the calls of the policy. Keeping the time adds some microseconds a decision.

    machine: events, placements, verbs. view: state arrays, checks of what the policy gave. policy: its code,
    with all that it does to forks.
    """

    machine: float
    view: float
    policy: float
    decisions: int

    @property
    def seconds(self) -> float:
        """All three."""
        return self.machine + self.view + self.policy


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.spent = {"machine": 0.0, "view": 0.0, "policy": 0.0}
        self.decisions = 0
        self._phase = "view"
        self._since = time.perf_counter()

    def timed(self, phase: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose time counts for the phase."""
        spent, now = self.spent, time.perf_counter

        def call(*arguments: Any, **named: Any) -> Any:
            before, began = self._phase, now()
            spent[before] += began - self._since
            self._phase, self._since = phase, began
            try:
                return function(*arguments, **named)
            finally:
                ended = now()
                spent[phase] += ended - self._since
                self._phase, self._since = before, ended

        return call


class _Course:
    """The engine's run, whose work counts for the machine. What it answers counts for who asks: the view."""

    def __init__(self, course: Any, clock: _Clock) -> None:
        self._course, self._clock = course, clock

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._course, name)
        if name in _WORK:
            found = self._clock.timed("machine", found)
        if callable(found):
            setattr(self, name, found)
        return found


def _timed_state(clock: _Clock) -> type[State]:
    """A `State` whose every property and method counts for the view."""
    members: dict[str, Any] = {}
    for name, member in vars(State).items():
        if isinstance(member, property) and member.fget is not None:
            members[name] = property(clock.timed("view", member.fget))
        elif callable(member) and not name.startswith("_"):
            members[name] = clock.timed("view", member)
    return type("State", (State,), members)


class _Clocked(Simulation):
    """A simulation that keeps the time."""

    def __init__(self, clock: _Clock) -> None:
        self._clock = clock

    def advance(self, until: float = float("inf")) -> bool:
        course: Any = self._course
        timed: Any = _Course(course, self._clock)
        self._course = timed
        self.state = self._seen(_timed_state(self._clock))
        try:
            return super().advance(until)
        finally:
            self._course = course

    def _ask(self, method: Callable[..., Any], *rows: Any) -> Any:
        self._clock.decisions += 1
        return self._clock.timed("policy", super()._ask)(method, *rows)


def split(
    table: JobTable, cluster: Cluster, policy: str | Scheduler | type[Scheduler], options: Mapping[str, Any]
) -> Split:
    """Replays the jobs once, as `replay` does, and tells where the time went."""
    setup = prepare(table, cluster, recorded_cluster=None, policy=policy, workload=None, options=options)
    clock = _Clock()
    drive(setup, None, lambda: _Clocked(clock))
    return Split(**clock.spent, decisions=clock.decisions)
