"""What the runs of each point of a sweep tell: figures with intervals, verdicts against a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.result.certainty import Figured, Runs, figured
from ringbco.result.days import Days
from ringbco.result.figures import MEASURED_HERE, compared
from ringbco.result.sentences import of_runs
from ringbco.result.verdicts import SCHEMA, Side, Verdicts
from ringbco.sweeps.document import RUN
from ringbco.units import plain

if TYPE_CHECKING:
    from ringbco.result.figures import Figure
    from ringbco.sweeps.spec import Spec

_MEASURED: Final = (*MEASURED_HERE, "total_seconds", "jobs_per_second")
_ALIKE: Final = ("jobs", "jobs_refused", "measure_from", "measure_to")
"""Figures in which two runs are alike that are of the same jobs."""


class PointRuns(NamedTuple):
    """One point of a sweep: its settings that the specification varies, its GPUs, its runs' figures.

    base: the point that differs in nothing but what is compared (runs by name, or policies), which is the
    baseline; None where there is none.
    alike: what runs of the same jobs share.
    """

    settings: Mapping[str, Any]
    gpus: int
    figures: Mapping[str, list[float | None]]
    base: int | None
    alike: tuple[Any, ...]

    def but(self, setting: str) -> str:
        """The settings as text, without one of them."""
        others = ((name, value) for name, value in self.settings.items() if name != setting)
        return ", ".join(f"{name} {plain(value, 'none')}" for name, value in others)


class Over:
    """The points of a sweep over their runs; with one run a point's figures are those of that run."""

    def __init__(
        self,
        spec: Spec,
        frame: pl.DataFrame,
        baseline: str | None = None,
        days: Sequence[Mapping[str, Any] | None] = (),
    ) -> None:
        """frame: of runs.parquet, all runs. baseline: a policy or the name of a run, None for the first.

        days: by point what the record of its run 0 has of them.
        """
        self._frame = frame
        self._settings: Final = _SETTINGS.union(*(run.settings for run in spec.runs))
        self.runs: Final = spec.seeds.seeds
        self.variation: Final = Runs(spec.seeds.kind, spec.changed)
        rows = frame.to_dicts()
        varied = [name for name in spec.varied if name != "seed"]
        firsts = range(0, len(rows), self.runs)
        settings = [{name: rows[at][name] for name in varied} for at in firsts]
        self._compared: Final = spec.compared
        names = list(dict.fromkeys(one.get(spec.compared) for one in settings))
        against = baseline or (names[0] if len(names) > 1 else None)
        bases = {
            self._others(one): number
            for number, one in enumerate(settings)
            if one.get(spec.compared) == against
        }
        self.points: Final = [
            PointRuns(
                one,
                rows[first]["gpus"],
                {
                    row.key: [rows[at][row.key] for at in range(first, first + self.runs)]
                    for row in self.measures
                },
                bases.get(self._others(one)),
                tuple(rows[first].get(name) for name in _ALIKE),
            )
            for one, first in zip(settings, firsts, strict=True)
        ]
        sides = {
            number: Side(
                str(point.settings.get(spec.compared)),
                self.variation._replace(epoch=None if known is None else known.get("epoch")),
                point.figures.__getitem__,
                None if known is None else Days.of(known),
                point.alike,
            )
            for number, (point, known) in enumerate(zip(self.points, days or repeat(None), strict=False))
        }
        self._judged = Verdicts(sides if self.runs > 1 else {}, lambda number: self.points[number].base)

    def _others(self, settings: Mapping[str, Any]) -> str:
        """What points share that are held against each other."""
        return repr({name: value for name, value in settings.items() if name != self._compared})

    @cached_property
    def measures(self) -> list[Figure]:
        """The measures that some run has."""
        numeric = [name for name, dtype in self._frame.schema.items() if dtype.is_numeric()]
        known = {name: self._frame[name].drop_nulls().first() for name in numeric}
        rows = compared([{name: value for name, value in known.items() if value is not None}])
        return [row for row in rows if row.key in known and row.unit and row.key not in self._settings]

    def figure(self, number: int, key: str) -> Figured:
        """A point's measure over its runs; without a value where a run has no such figure, or failed."""
        return figured(self.points[number].figures.get(key, [None]), self.variation.kind)

    def sentence(self, number: int, measure: Figure) -> str | None:
        """How a point's figure lies beside that of its base; None without a verdict."""
        text, where = self._judged.sentence(number, measure), self.points[number].but(self._compared)
        return f"{where}: {text}" if where and text is not None else text

    def sentences(self, key: str = "mean_jct") -> Iterator[str]:
        """The sentences of a measure, of runs enough."""
        for measure in self.measures:
            if measure.key == key:
                those = (number for number in range(len(self.points)) if self._judged.line(number, measure))
                yield from (text for number in those if (text := self.sentence(number, measure)) is not None)

    def notes(self, verdicts: int = 0) -> list[str]:
        """What the runs are. verdicts: how many of them are shown."""
        return of_runs(self.runs, self.variation, verdicts)

    def _best(self, measure: Figure) -> set[int]:
        """The points that have the measure's star, each among those that differ in nothing but the policy."""
        groups: dict[str, dict[int, float]] = {}
        for number, point in enumerate(self.points):
            value = self.figure(number, measure.key).value
            base = point.base if point.base is not None else number
            if value is not None and point.alike == self.points[base].alike:
                groups.setdefault(self._others(point.settings), {})[number] = value
        return set().union(*(self._judged.best(measure, values) for values in groups.values()))

    @property
    def frame(self) -> pl.DataFrame:
        """One row a point and measure: its settings, and the columns of comparison.parquet."""
        best = {row: self._best(row) for row in self.measures if row.key not in _MEASURED}
        rows = [
            self._row(number, measure, number in those)
            for number in range(len(self.points))
            for measure, those in best.items()
        ]
        told = {name: dtype for name, dtype in SCHEMA.items() if rows and name in rows[0]}
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=told)

    def _row(self, number: int, measure: Figure, best: bool) -> dict[str, Any]:
        found, told = self._judged.held(number, measure.key), self.figure(number, measure.key)
        return {
            **self.points[number].settings,
            "measure": measure.key,
            "value": told.value,
            "ratio": found and found.ratio,
            "best": best,
            **self._judged.columns(number, measure, told),
            "sentence": self.sentence(number, measure),
        }


# Columns of runs.parquet that are settings, not figures.
_SETTINGS: Final = frozenset({"seed", "draw", "load", "servers", "gpus"})


def called(settings: Mapping[str, Any]) -> str:
    """Settings as people call them: a policy and a run by their names alone."""
    texts = ((name, plain(value, "none")) for name, value in settings.items())
    return ", ".join(text if name in ("policy", RUN) else f"{name} {text}" for name, text in texts)
