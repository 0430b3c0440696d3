"""Single decisions of the reference model, in the midst of runs too long for its loop.

A world is led along the record of a run (`following`). At some instants a copy of it decides once, by the
reference model's own rules, and that is compared with what the record has of that instant. Nothing here
imports ringbco.
"""

import copy
import dataclasses
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from reference.fair import Fair, Owner
from reference.leading import Record, follower, placed
from reference.mechanism import World
from reference.placement import clusters
from reference.result import PreemptResult

Placed = dict[int, tuple[bool, Counter[int]]]
"""By row that runs: whether since now, and its GPUs by server."""


@dataclass(frozen=True)
class Decision:
    """What one pass made of a state. refused: of those that came at that instant."""

    running: Placed
    refused: frozenset[int]


@dataclass(frozen=True)
class Compared:
    """An instant. before: who ran. modelled: by the reference model. recorded: by the run."""

    time: float
    waiting: int
    before: frozenset[int]
    modelled: Decision
    recorded: Decision

    @property
    def starts(self) -> int:
        """Jobs that begin a stay."""
        return sum(begins for begins, _ in self.recorded.running.values())

    @property
    def stops(self) -> int:
        """Jobs whose stay ends by that decision."""
        running = self.recorded.running
        return sum(row not in running or running[row][0] for row in self.before)

    @property
    def differences(self) -> list[str]:
        """In words, of each job of which the two say otherwise."""
        mine, theirs = self.modelled, self.recorded
        rows = sorted({*mine.running, *theirs.running})
        entries = [
            f"t = {self.time:.9g}, row {row}: {_say(own)}; the run: {_say(other)}"
            for row in rows
            if (own := mine.running.get(row)) != (other := theirs.running.get(row))
        ]
        if mine.refused != theirs.refused:
            entries.append(
                f"t = {self.time:.9g}: refuses {set(mine.refused)}; the run: {set(theirs.refused)}"
            )
        return entries


def _say(found: tuple[bool, Counter[int]] | None) -> str:
    if found is None:
        return "does not run"
    begins, gpus = found
    return f"{'begins' if begins else 'goes on'} on {dict(sorted(gpus.items()))}"


def deciding(base: type[World], record: Record) -> type[World]:
    """The model `base` with figures that do not change during a decision worked out once."""
    fair = record.queue.fair if record.queue is not None else None
    types: dict[int, list[int]] = {}
    """By row, the same in all decisions."""

    class Deciding(base):  # type: ignore[misc, valid-type]
        noted: dict[Any, Any]

        def once(self, key: object, find: Callable[[], Any]) -> Any:
            if key not in self.noted:
                self.noted[key] = find()
            return self.noted[key]

        if hasattr(base, "tried"):

            def tried(self, row: int) -> list[int]:
                if row not in types:
                    types[row] = super().tried(row)
                return types[row]

        if fair is not None:

            def ratio(self, owner: Owner, told: Fair) -> float:
                """All jobs of an owner have one."""
                find = lambda: super(Deciding, self).ratio(owner, told)  # noqa: E731
                return float(self.once(("usage", owner), find))

        def gittins(self, row: int) -> float:
            return float(self.once(("index", row), lambda: self.index(self.attained(row))))

        def index(self, attained: float) -> float:
            """`gittins`, of sums along the sorted GPU-times: all whole numbers, so that sums are exact."""
            times, sums = self.once("times", lambda: _sorted(self.gpu_times))
            first = int(np.searchsorted(times, attained, side="right"))
            beyond = times[first:]
            if not beyond.size:
                return 0.0
            assert attained == round(attained), attained
            upto = np.searchsorted(times, beyond, side="right")
            done = upto - first
            spent = sums[upto] - sums[first] - done * attained
            most = float((done / (spent + (beyond.size - done) * (beyond - attained))).max())
            return float(struct.unpack("f", struct.pack("f", most))[0])

    return Deciding


def _sorted(gpu_times: Sequence[float]) -> tuple[Any, Any]:
    times = np.sort(np.array(gpu_times, float))
    sums = np.concatenate(([0.0], np.cumsum(times)))
    assert (times == np.round(times)).all()
    assert sums[-1] < 2.0**53
    return times, sums


def copied(world: Any, kind: type[World]) -> Any:
    """A world of that kind in the state of another, which it does not touch."""
    other = copy.copy(world)
    other.__class__ = kind
    for name, value in vars(world).items():
        if isinstance(value, list | dict | set) and name not in ("jobs", "sizes", "coming"):
            setattr(other, name, copy.copy(value))
    other.running, other.noted = [copy.copy(run) for run in world.running], {}
    other.result = _copied(world.result, [run.row for run in world.running])
    if getattr(world, "rule", None) is not None:
        other.rule = copy.copy(world.rule)
        other.rule.view = _noting(type(world.rule.view))(other)
        other.rule.ahead = dict(world.rule.ahead)
        if world.rule.predictions is not None:
            other.rule.predictions = copy.copy(world.rule.predictions)
    return other


def _noting(view: type[Any]) -> type[Any]:
    """What `repack` sees, with who holds what worked out anew only when somebody else runs."""

    class Noting(view):  # type: ignore[misc]
        then: tuple[list[Any], Any] = ([], {})

        def parts(self) -> Any:
            running = self.world.running
            if [*map(id, running)] != [*map(id, self.then[0])]:
                self.then = list(running), super().parts()
            return self.then[1]

    return Noting


def _copied(result: PreemptResult, rows: Iterable[int]) -> PreemptResult:
    columns = {each.name: copy.copy(getattr(result, each.name)) for each in dataclasses.fields(result)}
    for row in rows:
        columns["allocations"][row] = list(columns["allocations"][row])
    return PreemptResult(**columns)


def decide(world: Any) -> Decision:
    """One pass over a state."""
    came = list(world.coming.get(world.now, ()))
    world.passed = world.now
    world.one_pass()
    return Decision(placed(world), frozenset(row for row in came if world.result.refused[row]))


@dataclass
class Run:
    """A run to be looked at. given: what `mechanism.simulate` is given."""

    given: tuple[Any, ...]
    record: Record
    result: PreemptResult = field(init=False)

    def worlds(self) -> list[Any]:
        """One for each virtual cluster, at its beginning, without the jobs that it cannot hold."""
        jobs, deadlines, servers, net, options, rules, server_vc, base = self.given
        self.result = PreemptResult.nothing_yet(len(jobs))
        kind = follower(base, self.record)
        return [
            kind(sizes, mine, deadlines, net, options, rules, seed, self.result)
            for sizes, mine, seed in clusters(jobs, servers, server_vc, options.seed)
        ]

    def compared(self, chosen: Sequence[set[float]]) -> Iterator[Compared]:
        """The decisions of those instants, by virtual cluster."""
        kind = deciding(self.given[-1], self.record)
        for world, times in zip(self.worlds(), chosen, strict=True):
            last = max(times, default=-math.inf)
            for time in sorted({*world.instants(), *times}):
                if time > last:
                    break
                world.happen(time)
                other = copied(world, kind) if time in times else None
                before, waiting = frozenset(run.row for run in world.running), len(world.waiting)
                world.decide()
                if other is not None:
                    refused = frozenset(world.coming.get(time, ())) & self.record.refused
                    yield Compared(time, waiting, before, decide(other), Decision(placed(world), refused))
