"""What the runs of each point of a sweep tell: figures with intervals, verdicts against a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.errors import UsageError
from ringbco.result.certainty import APART, FEWEST, Figured, Held, Runs, columns_of, figured, held, starred
from ringbco.result.days import MEANS, Days, Split, carried, parts_of
from ringbco.result.figures import MEASURED_HERE, compared
from ringbco.result.sentences import Pair, of_few, of_runs, sentence
from ringbco.trace.jobs import near_name

if TYPE_CHECKING:
    from ringbco.result.figures import Figure
    from ringbco.sweeps.spec import Spec

_MEASURED: Final = (*MEASURED_HERE, "total_seconds", "jobs_per_second")
_FLOATS: Final = ("value", "ratio", "low", "high", "ratio_low", "ratio_high", "parts_low", "parts_high")
_ALIKE: Final = ("jobs", "jobs_refused", "measure_from", "measure_to")
"""Figures in which two runs are alike that are of the same jobs."""


class Point(NamedTuple):
    """One point of a sweep: its settings that the specification varies, its GPUs, its runs' figures.

    base: the point that differs in nothing but the policy, which is the baseline; None where there is none.
    days: what each day of the trace adds in run 0; None where that is not known. alike: what runs of the same
    jobs share.
    """

    settings: Mapping[str, Any]
    gpus: int
    figures: Mapping[str, list[float | None]]
    base: int | None
    days: Days | None
    alike: tuple[Any, ...]

    @property
    def name(self) -> str:
        """The settings as text."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.settings.items())


class Over:
    """The points of a sweep over their runs; with one run a point's figures are those of that run."""

    def __init__(
        self,
        spec: Spec,
        frame: pl.DataFrame,
        baseline: str | None = None,
        days: Sequence[Mapping[str, Any] | None] = (),
    ) -> None:
        """frame: of runs.parquet, all runs. baseline: a policy, None for the first.

        days: by point what `Days.to_dict` gave of its run 0.
        """
        self._frame = frame
        self._settings: Final = _SETTINGS.union(*(run.settings for run in spec.runs))
        self.runs: Final = spec.seeds.seeds
        self.of: Final = Runs(spec.seeds.kind, spec.changed)
        self._held: dict[tuple[int, int, str], Held | None] = {}
        rows = frame.to_dicts()
        varied = [name for name in spec.varied if name != "seed"]
        firsts = range(0, len(rows), self.runs)
        settings = [{name: rows[at][name] for name in varied} for at in firsts]
        policies = list(dict.fromkeys(one.get("policy") for one in settings))
        against = baseline or (policies[0] if len(policies) > 1 else None)
        bases = {_others(one): number for number, one in enumerate(settings) if one.get("policy") == against}
        self.points: Final = [
            Point(
                one,
                rows[first]["gpus"],
                {
                    row.key: [rows[at][row.key] for at in range(first, first + self.runs)]
                    for row in self.measures
                },
                bases.get(_others(one)),
                None if not days or (known := days[number]) is None else Days.of(known),
                tuple(rows[first].get(name) for name in _ALIKE),
            )
            for number, (one, first) in enumerate(zip(settings, firsts, strict=True))
        ]

    @cached_property
    def measures(self) -> list[Figure]:
        """The measures that some run has."""
        numeric = [name for name, dtype in self._frame.schema.items() if dtype.is_numeric()]
        known = {name: self._frame[name].drop_nulls().first() for name in numeric}
        rows = compared([{name: value for name, value in known.items() if value is not None}])
        return [row for row in rows if row.key in known and row.unit and row.key not in self._settings]

    def figure(self, number: int, key: str) -> Figured:
        """A point's measure over its runs; without a value where a run has no such figure, or failed."""
        return figured(self.points[number].figures.get(key, [None]), self.of.kind)

    def held(self, number: int, key: str, against: int | None = None) -> Held | None:
        """A point's measure held against that of its base (or of another point), run by run."""
        other = self.points[number].base if against is None else against
        if other is None or self.runs == 1:
            return None
        place = number, other, key
        if place not in self._held:
            self._held[place] = self._hold(number, other, key)
        return self._held[place]

    def _hold(self, number: int, other: int, key: str) -> Held | None:
        one, two = self.points[number], self.points[other]
        split, parts = self._split(number), None
        if one.days is not None and two.days is not None and key in MEANS:
            parts = parts_of(one.days, two.days, key, split)
        found = held(one.figures.get(key, ()), two.figures.get(key, ()), self.of.kind, parts)
        if found is None:
            return None
        if one.alike != two.alike:
            return found._replace(verdict=None)
        if found.verdict not in APART or found.ratio == 1.0 or one.days is None or two.days is None:
            return found
        # Which days carry it can be told of the same jobs: of others no record says what counts under both.
        if key not in MEANS or one.days.jobs != two.days.jobs:
            return found
        return found._replace(carried=carried(one.days, two.days, key))

    def _split(self, number: int) -> Split | None:
        """The parts of the trace, by the jobs that count under the point's base."""
        base = self.points[number].base
        days = None if base is None else self.points[base].days
        return None if days is None else Split.of(days)

    def _pair(self, number: int, measure: Figure) -> Pair:
        point = self.points[number]
        assert point.base is not None
        base = self.points[point.base]
        both = zip(point.figures[measure.key], base.figures[measure.key], strict=True)
        zero = max((one or 0.0 for one, other in both if not other), default=0.0)
        of_parts, split = 0.0, self._split(number)
        if split is not None and measure.key in MEANS and point.days is not None and base.days is not None:
            means = zip(*(split.means(one, measure.key) for one in (point.days, base.days)), strict=True)
            of_parts = max((one or 0.0 for one, other in means if other == 0.0), default=0.0)
        label, against = (str(one.settings["policy"]) for one in (point, base))
        own = self.figure(number, measure.key).value or 0.0
        return Pair(label, against, measure, self.of.kind, (own, zero, of_parts))

    def sentence(self, number: int, measure: Figure) -> str | None:
        """How a point's figure lies beside that of its base; None without a verdict."""
        point, found = self.points[number], self.held(number, measure.key)
        if found is None or point.base in (None, number):
            return None
        text = sentence(self._pair(number, measure), found)
        others = {name: value for name, value in point.settings.items() if name != "policy"}
        where = point._replace(settings=others).name
        return f"{where}: {text}" if where and text is not None else text

    def sentences(self, key: str = "mean_jct") -> Iterator[str]:
        """The sentences of a measure."""
        for measure in self.measures:
            if measure.key == key:
                told = (self.sentence(number, measure) for number in range(len(self.points)))
                yield from (text for text in told if text is not None)

    def notes(self, verdicts: int = 0) -> list[str]:
        """What the runs are. verdicts: how many of them are shown."""
        return [*of_few(self.runs, verdicts), of_runs(self.runs, self.of.kind, self.of.changed)]

    def _best(self, measure: Figure) -> set[int]:
        """The points that have the measure's star, each among those that differ in nothing but the policy."""
        if self.runs < FEWEST or measure.better == "neither":
            return set()
        groups: dict[str, dict[int, float]] = {}
        for number, point in enumerate(self.points):
            value = self.figure(number, measure.key).value
            base = point.base if point.base is not None else number
            if value is not None and point.alike == self.points[base].alike:
                groups.setdefault(_others(point.settings), {})[number] = value
        best: set[int] = set()
        for values in groups.values():
            best |= starred(
                values,
                lambda number, other: self.held(number, measure.key, other),
                most=measure.better == "most",
            )
        return best

    @property
    def frame(self) -> pl.DataFrame:
        """One row a point and measure: its settings, and the columns of comparison.parquet."""
        rows = []
        for measure in self.measures:
            if measure.key in _MEASURED:
                continue
            best = self._best(measure)
            rows += [(number, measure, number in best) for number in range(len(self.points))]
        rows.sort(key=lambda row: row[0])
        told = dict.fromkeys(_FLOATS, pl.Float64()) | _OTHERS
        return pl.DataFrame(
            [self._row(*row) for row in rows], infer_schema_length=None, schema_overrides=told
        )

    def _row(self, number: int, measure: Figure, best: bool) -> dict[str, Any]:
        point = self.points[number]
        figure, found = self.figure(number, measure.key), self.held(number, measure.key)
        return {
            **point.settings,
            "measure": measure.key,
            "value": figure.value,
            "ratio": None if found is None else found.ratio,
            "best": best,
            **columns_of(figure, found, own=point.base == number),
            "sentence": self.sentence(number, measure),
        }


_OTHERS: Final[dict[str, pl.DataType]] = {
    "best": pl.Boolean(),
    "runs": pl.UInt32(),
    "parts": pl.UInt8(),
    "verdict": pl.String(),
    "sentence": pl.String(),
}
# Columns of runs.parquet that are settings, not figures.
_SETTINGS: Final = frozenset({"seed", "draw", "load", "servers", "gpus"})


def check_baseline(spec: Spec, baseline: str | None) -> None:
    """Raises UsageError unless the baseline is a policy of the sweep."""
    policies = list(dict.fromkeys(str(run.settings.get("policy")) for run in spec.runs))
    if baseline is not None and baseline not in policies:
        near = near_name(baseline, policies)
        hint = f"; did you mean {near}?" if near else ""
        raise UsageError(f"option baseline: {baseline!r}: expected one of {', '.join(policies)}{hint}")


def called(settings: Mapping[str, Any]) -> str:
    """Settings as people call them: a policy by its name alone."""
    return ", ".join(
        _short(value) if name == "policy" else f"{name} {_short(value)}" for name, value in settings.items()
    )


def _others(settings: Mapping[str, Any]) -> str:
    return repr({name: value for name, value in settings.items() if name != "policy"})


def _short(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
