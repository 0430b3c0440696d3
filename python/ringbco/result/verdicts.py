"""Results of several runs compared with each other: what comparisons and sweeps tell of chance."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import polars as pl

from ringbco.result.certainty import APART, Figured, Held, Runs, held, starred
from ringbco.result.days import MEANS, Days, Split, carried, parts_of
from ringbco.result.figures import MEASURED_HERE
from ringbco.result.sentences import Pair, line, sentence

if TYPE_CHECKING:
    from ringbco.result.figures import Figure

T = TypeVar("T", bound=Hashable)
_ENDS: Final = ("low", "high", "ratio_low", "ratio_high", "parts_low", "parts_high")
SCHEMA: Final[Mapping[str, pl.DataType]] = {
    "measure": pl.String(),
    "policy": pl.String(),
    "value": pl.Float64(),
    "ratio": pl.Float64(),
    "best": pl.Boolean(),
    "runs": pl.UInt32(),
    **dict.fromkeys(_ENDS, pl.Float64()),
    "parts": pl.UInt8(),
    "verdict": pl.String(),
    "sentence": pl.String(),
}
"""The columns of comparison.parquet."""


class Side(NamedTuple):
    """One result over its runs.

    over: what differs between them. values: a figure in each run. days: what each day adds in run 0, where
    parts are looked at. alike: what is the same in results of the same jobs on the same cluster.
    """

    label: str
    over: Runs
    values: Callable[[str], Sequence[float | None]]
    days: Days | None
    alike: object


class Verdicts(Generic[T]):
    """Results that have several runs, by label, and which of them each is compared with, its base."""

    def __init__(
        self,
        sides: Mapping[T, Side],
        base: Callable[[T], T | None],
        shared: Callable[[T, T], tuple[Days, Days]] | None = None,
    ) -> None:
        """shared: the days of two results, of the jobs alone that count under both, where that is known."""
        self._sides = sides
        self._base = base
        self._shared = shared
        self._held: dict[tuple[T, str, T | None], Held | None] = {}

    def held(self, label: T, key: str, other: T | None = None) -> Held | None:
        """A measure compared with that of the base (or of another one), run by run.

        None where one of the two lacks it in a run. There is no verdict where they are unlike, and on figures
        of this machine.
        """
        place = label, key, self._base(label) if other is None else other
        if place not in self._held:
            self._held[place] = self._hold(*place)
        return self._held[place]

    def _hold(self, label: T, key: str, other: T | None) -> Held | None:
        if other is None or not {label, other} <= self._sides.keys():
            return None
        one, two = self._sides[label], self._sides[other]
        parts = parts_of(one.days, two.days, key, self._split(label)) if one.days and two.days else None
        found = held(one.values(key), two.values(key), one.over.kind, parts)
        if found is None:
            return None
        if one.alike != two.alike or key in MEASURED_HERE:
            return found._replace(verdict=None)
        if one.days and two.days and key in MEANS and found.verdict in APART and found.ratio != 1.0:
            days: tuple[Days, Days] | None = (one.days, two.days)
            if one.days.jobs != two.days.jobs:
                # Without the tables nobody knows which jobs count under both.
                days = self._shared(label, other) if self._shared else None
            return found._replace(carried=days and carried(*days, key))
        return found

    def _split(self, label: T) -> Split | None:
        """The parts of the trace, by the jobs that count under the base."""
        base = self._base(label)
        days = None if base is None or base not in self._sides else self._sides[base].days
        return days and Split.of(days)

    def by_part(self, label: T, key: str) -> list[float | None] | None:
        """A measure in each of the six parts of the trace; None where there are none."""
        if label not in self._sides or key not in MEANS:
            return None
        split, days = self._split(label), self._sides[label].days
        return split.means(days, key) if split and days else None

    def _told(self, label: T, measure: Figure) -> tuple[Pair, Held] | None:
        base, found = self._base(label), self.held(label, measure.key)
        if found is None or base is None or base == label:
            return None
        one, other = self._sides[label], self._sides[base]
        return Pair(one.label, other.label, measure, one.over), found

    def sentence(self, label: T, measure: Figure) -> str | None:
        """How a figure lies beside the base's; None without a verdict."""
        told = self._told(label, measure)
        return told and sentence(*told)

    def line(self, label: T, measure: Figure) -> tuple[str, ...]:
        """The same as cells of a table; none without a verdict, or of too few runs."""
        told = self._told(label, measure)
        return line(*told) if told else ()

    def best(self, measure: Figure, values: Mapping[T, float]) -> set[T]:
        """Which of some like results, with their figures, have the measure's star."""
        if measure.better == "neither":
            return set()
        most = measure.better == "most"
        return starred(values, lambda one, other: self.held(one, measure.key, other), most=most)

    def columns(self, label: T, measure: Figure, told: Figured) -> dict[str, Any]:
        """The columns of comparison.parquet that several runs add. told: the figure of the label."""
        found = self.held(label, measure.key)
        ends = (told.interval, found and found.interval, found and found.parts_range)
        return {
            "runs": told.runs,
            **dict(zip(_ENDS, chain.from_iterable(pair or (None, None) for pair in ends), strict=True)),
            "parts": found and found.parts_agreeing,
            "verdict": None if found is None or self._base(label) == label else found.verdict,
            "sentence": self.sentence(label, measure),
        }
