"""How sure a figure or a difference is: counted over runs and over parts of a trace (docs/certainty.md).

No distribution is assumed, no interval is symmetric, and none reaches below 0 or -100 %.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Final, Literal, NamedTuple, TypeVar

from ringbco.deprecation import warn
from ringbco.units import same

T = TypeVar("T", bound=Hashable)
FEWEST: Final = 6
"""Runs below which no verdict is given."""
PARTS: Final = 6
"""Parts of a trace that are looked at."""
Interval = tuple[float, float]
Kind = Literal["moved", "fresh tables"]
Verdict = Literal[
    "the same",
    "too few runs",
    "cannot be told apart",
    "apart on these jobs",
    "apart in all parts",
    "apart",
]
APART: Final[frozenset[Verdict]] = frozenset({"apart on these jobs", "apart in all parts", "apart"})


class Runs(NamedTuple):
    """What differs from run to run (docs/certainty.md#runs), and when the clock of the job table began.

    changed: keys of `sentences.CHANGES`. epoch: ISO 8601; None where the table does not say it.
    """

    kind: Kind = "moved"
    changed: tuple[str, ...] = ()
    epoch: str | None = None

    @property
    def began(self) -> datetime.datetime | None:
        """The epoch, where it is one."""
        try:
            return None if self.epoch is None else datetime.datetime.fromisoformat(self.epoch)
        except ValueError:
            return None


ONE_RUN: Final = Runs()


@cache
def depth(runs: int) -> int:
    """How many of the least and of the greatest of so many values an interval of 95 % leaves out, plus one.

    The greatest d with 2 P(Bin(runs, 1/2) <= d - 1) <= 0.05, in exact integers (order statistics: David and
    Nagaraja, "Order Statistics", 2003, section 7.1). 0 below six runs: there is none.
    """
    found, below = 0, 0
    while True:
        below += math.comb(runs, found)
        if 40 * below > 2**runs:
            return found
        found += 1


class Ratio(float):
    """One figure over another; infinite where only the other is 0, where `figure` is told instead."""

    figure: float = 0.0


def ratio(one: float, other: float) -> Ratio:
    """One figure over another: 1 where rounding alone tells them apart, inf where only the other is 0."""
    found = Ratio(1.0 if same(one, other) else one / other if other else math.copysign(math.inf, one))
    found.figure = float(one)
    return found


def _order(value: float) -> tuple[float, float]:
    """Ascending; infinite ratios by the figures that stand for them."""
    return value, value.figure if isinstance(value, Ratio) else 0.0


def interval(values: Sequence[float], kind: Kind) -> Interval | None:
    """From the `depth`-th least to the `depth`-th greatest value; None of too few.

    values: one a run, that of run 0 first. In moved runs the interval is widened to hold that one, which is
    no draw.
    """
    deep = depth(len(values))
    if not deep:
        return None
    ordered = sorted(values, key=_order)
    low, high = ordered[deep - 1], ordered[-deep]
    if kind == "moved":
        low, high = min(low, values[0], key=_order), max(high, values[0], key=_order)
    return low, high


class Figured(NamedTuple):
    """A figure over runs: of moved runs that of run 0, of fresh tables the median; None where there is none.

    runs: how many there are.
    """

    value: float | None
    interval: Interval | None
    runs: int


class Carried(NamedTuple):
    """The few days that carry at least half of a difference.

    days: of the job table's clock, from 0. share: of the difference. without: the ratio (of one result alone
    the mean) over the jobs of all other days; None where there are none.
    """

    days: tuple[int, ...]
    share: float
    without: float | None


class Held(NamedTuple):
    """A figure compared with another's, run by run: the ratio, its interval, parts of the trace, a verdict.

    verdict: None where none can be given. parts: the ratio in each of six parts of the trace, None of a part
    without jobs; None where no parts were looked at. carried: None where no few days carry the difference.
    """

    ratio: float
    interval: Interval | None
    runs: int
    verdict: Verdict | None
    parts: tuple[float | None, ...] | None = None
    carried: Carried | None = None

    @property
    def side(self) -> int:
        """-1 where all of the interval is below 1, +1 where it is above, else 0."""
        low, high = self.interval or (1.0, 1.0)
        return -1 if high < 1.0 else 1 if low > 1.0 else 0

    @property
    def part_ratios(self) -> list[float]:
        """The ratios of the parts that have jobs, ascending."""
        return sorted((part for part in self.parts or () if part is not None), key=_order)

    @property
    def parts_range(self) -> Interval | None:
        """The least and the greatest ratio of the parts; None where one has no jobs."""
        return (self.part_ratios[0], self.part_ratios[-1]) if len(self.part_ratios) == PARTS else None

    @property
    def parts_agreeing(self) -> int | None:
        """How many parts lie on the ratio's side of 1; None where no parts were looked at."""
        if self.parts is None:
            return None
        return sum((part - 1.0) * (self.ratio - 1.0) > 0.0 for part in self.part_ratios)

    @property
    def known(self) -> list[float]:
        """The old name of `part_ratios`."""
        warn("Held.known", "part_ratios")
        return self.part_ratios

    @property
    def ends(self) -> Interval | None:
        """The old name of `parts_range`."""
        warn("Held.ends", "parts_range")
        return self.parts_range

    @property
    def agreeing(self) -> int | None:
        """The old name of `parts_agreeing`."""
        warn("Held.agreeing", "parts_agreeing")
        return self.parts_agreeing


def figured(values: Sequence[float | None], kind: Kind) -> Figured:
    """What is told of a figure with these values, one a run."""
    known = [float(value) for value in values if value is not None]
    if len(known) < len(values):
        first = values[0] if kind == "moved" else None
        return Figured(None if first is None else float(first), None, len(values))
    return Figured(_centre(known, kind), interval(known, kind), len(known))


def held(
    values: Sequence[float | None],
    others: Sequence[float | None],
    kind: Kind,
    parts: tuple[float | None, ...] | None = None,
) -> Held | None:
    """The values against the others, run by run; None where a figure is missing or the numbers differ.

    parts: the ratio in each part of the trace, where there are parts.
    """
    if len(values) != len(others):
        return None
    ratios = [
        ratio(one, other)
        for one, other in zip(values, others, strict=True)
        if one is not None and other is not None
    ]
    if len(ratios) < len(values):
        return None
    ends = interval(ratios, kind)
    centre = _centre(ratios, kind)
    if math.isinf(centre):
        centre = ratio(_centre([one.figure for one in ratios], kind), 0.0)
    found = Held(centre, ends, len(ratios), None, parts)
    return found._replace(verdict=_verdict(found, ratios, kind))


def _centre(values: Sequence[float], kind: Kind) -> float:
    """Of moved runs the value of run 0, of fresh tables the median."""
    return values[0] if kind == "moved" else median(values)


def _verdict(found: Held, ratios: Sequence[float], kind: Kind) -> Verdict:
    if all(one == 1.0 for one in (*ratios, *found.part_ratios)):
        return "the same"
    if found.runs < FEWEST:
        return "too few runs"
    if not found.side:
        return "cannot be told apart"
    if kind == "fresh tables":
        return "apart"
    return "apart in all parts" if found.parts_agreeing == PARTS else "apart on these jobs"


def starred(values: Mapping[T, float], hold: Callable[[T, T], Held | None], *, most: bool) -> set[T]:
    """Whose value is the best and apart from every other one, with those that are the same as it.

    hold: one compared with another. most: whether the greatest is best. None where all are the same.
    """
    if not values:
        return set()
    first = (max if most else min)(values, key=lambda one: values[one])
    best, sign = {first}, -1 if most else 1
    for other in values:
        if other != first:
            found = hold(other, first)
            if found is not None and found.verdict == "the same":
                best.add(other)
            elif found is None or found.verdict not in APART or found.side != sign:
                return set()
    return set() if len(best) == len(values) else best
