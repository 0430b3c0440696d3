"""A sweep's folder as its page reads it: its points, what seeds tell of each, what was aimed at."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from ringbco.cluster.network import NETWORK_RULES
from ringbco.errors import InputError
from ringbco.io.tables import read_table
from ringbco.reports.reading import runs_of
from ringbco.result.certainty import Runs, figured
from ringbco.result.figures import COMPARED, Figure
from ringbco.run.registry import PLAN, REPLAY
from ringbco.sweeps.document import RUN, varied
from ringbco.sweeps.targets import Target, TargetResult, Tried, grouped
from ringbco.units import plain, same

REPEATED: Final = "seed"
"""The setting that tells runs of one point apart: they are the same but for chance."""
CLUSTER: Final = "cluster"
_LOAD: Final = "load"
_DOCUMENT: Final = "sweep.json"
_TABLE: Final = "runs.parquet"
_SEEDS: Final = "seeds.parquet"
_FEWEST: Final = 2
_MEASURES: Final = {row.key: row for row in COMPARED}
_FIRST: Final = ("mean_jct", "p90_wait", "p99_wait", "makespan")
"""What is drawn of every sweep, as far as its runs have it, in this order."""
_DRAWN: Final = 4
_SCENARIO: Final = frozenset(
    ("trace", _LOAD, CLUSTER, "recorded_cluster", "vc", *NETWORK_RULES, "outages", "maintenance", "services")
)
"""Settings of the jobs and of the cluster: given, not chosen. Points that differ in them do not compete."""


class Axis(NamedTuple):
    """A setting with two values or more. places: where they stand on an axis of numbers; None of names.

    A cluster stands at its GPUs.
    """

    name: str
    values: tuple[Any, ...]
    places: tuple[float, ...] | None

    @property
    def title(self) -> str:
        """As the command line writes it."""
        return self.name.replace("_", "-")


class Spread(NamedTuple):
    """A figure of a point: its value, its interval where it has several runs, the value of each run.

    The value is that of run 0, or the median of fresh tables; of runs that differ in a seed that the
    specification varies their mean.
    """

    value: float
    interval: tuple[float, float] | None
    values: tuple[float, ...]


class Point(NamedTuple):
    """One combination of the settings that vary, its GPUs, and its figures by measure; none if it failed."""

    settings: Mapping[str, Any]
    gpus: float
    figures: Mapping[str, Spread]


class Scenario(NamedTuple):
    """The points that differ in nothing but what is chosen, the best first, and those of them that lead."""

    settings: Mapping[str, Any]
    ranked: Sequence[Point]
    leaders: Sequence[Point]


class Over(NamedTuple):
    """A sweep's seeds.parquet, how many runs each point has, and what differs between them."""

    frame: pl.DataFrame
    runs: int
    of: Runs


@dataclass(frozen=True)
class SweepRuns:
    """A sweep's runs.parquet, its specification, what its seeds tell, and what it aimed at.

    varied: the settings that the specification varies. aim: the measure that comes first, None for none;
    target: what it must not be worse than; target_axis: the setting along which that was sought.
    """

    frame: pl.DataFrame
    varied: tuple[str, ...]
    spec: Mapping[str, Any]
    over: Over | None = None
    aim: Figure | None = None
    target: Target | None = None
    target_axis: str | None = None

    @cached_property
    def axes(self) -> list[Axis]:
        """The settings that differ in the runs, in order; numbers ascend, names are as they came."""
        found = []
        for name in self.varied:
            if name == REPEATED or name not in self.frame.columns or self.frame.schema[name].is_nested():
                continue
            values = self.frame[name].unique(maintain_order=True)
            if values.len() >= _FEWEST:
                found.append(_axis(name, values, self.frame))
        return found

    @cached_property
    def points(self) -> list[Point]:
        """All points, in the order of the specification."""
        names = [axis.name for axis in self.axes]
        gpus: dict[Any, float] = {}
        for row in self.frame.select({CLUSTER, "gpus"} & set(self.frame.columns)).iter_rows(named=True):
            gpus.setdefault(row.get(CLUSTER), row.get("gpus") or math.nan)
        alone = next(iter(gpus.values()), math.nan)
        points = []
        for settings, figures in self._figures(names).items():
            named = dict(zip(names, settings, strict=True))
            points.append(Point(named, gpus.get(named.get(CLUSTER), alone), figures))
        return points

    def _figures(self, names: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Spread]]:
        """By settings the figures of runs.parquet; runs that differ by their seed alone are one point."""
        schema = self.frame.schema
        keys = [key for key in _MEASURES if key in schema and schema[key].is_numeric()]
        runs: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for row in self.frame.iter_rows(named=True):
            mine = runs.setdefault(tuple(row[name] for name in names), [])
            if row["error"] is None or self.over is not None:  # of several runs all must have the figure
                mine.append(row)
        return {
            settings: {
                key: figure
                for key in keys
                if (figure := self._figure([row[key] for row in mine])) is not None
            }
            for settings, mine in runs.items()
        }

    def _figure(self, values: Sequence[float | None]) -> Spread | None:
        known = [float(value) for value in values if value is not None]
        if self.over is None:
            finite = [value for value in known if math.isfinite(value)]
            return Spread(math.fsum(finite) / len(finite), None, tuple(finite)) if finite else None
        told = figured(values, self.over.of.kind)
        complete = len(known) == len(values) and all(map(math.isfinite, known))
        if told.value is None or not complete:
            return None
        return Spread(told.value, told.interval, tuple(known))

    @property
    def over_seeds(self) -> bool:
        """Whether figures are means over seeds: of points whose runs differ in the setting `seed`."""
        figures = (figure for point in self.points for figure in point.figures.values())
        return self.over is None and any(len(figure.values) > 1 for figure in figures)

    @cached_property
    def measures(self) -> list[Figure]:
        """The measures to draw: the one aimed at, then those that people ask for first."""
        there = {key for point in self.points for key in point.figures}
        wanted = (*((self.aim.key,) if self.aim else ()), *_FIRST, *_MEASURES)
        chosen = [key for key in dict.fromkeys(wanted) if key in there][:_DRAWN]
        return [_MEASURES[key] for key in chosen if key in _FIRST or self.aim or chosen.index(key) == 0]

    @cached_property
    def ranked(self) -> list[Point]:
        """The points that have the first measure, its good end first."""
        first = self.measures[0]
        sign = -1.0 if first.better == "most" else 1.0
        known = [point for point in self.points if first.key in point.figures]
        return sorted(known, key=lambda point: sign * point.figures[first.key].value)

    @cached_property
    def given(self) -> list[Axis]:
        """The axes by which scenarios differ."""
        return [axis for axis in self.axes if axis.name in _SCENARIO]

    @cached_property
    def chosen(self) -> list[Axis]:
        """The other axes: policies and their options."""
        return [axis for axis in self.axes if axis.name not in _SCENARIO]

    @cached_property
    def scenarios(self) -> list[Scenario]:
        """The ranked points by scenario, in the order of the scenarios' values."""
        groups: dict[tuple[int, ...], list[Point]] = {}
        for point in self.ranked:
            place = tuple(axis.values.index(point.settings[axis.name]) for axis in self.given)
            groups.setdefault(place, []).append(point)
        key = self.measures[0].key if self.measures else ""
        found = []
        for place in sorted(groups):
            points = groups[place]
            best, last = (points[end].figures[key].value for end in (0, -1))
            tied = [point for point in points if same(point.figures[key].value, best)]
            settings = {axis.name: points[0].settings[axis.name] for axis in self.given}
            found.append(Scenario(settings, points, [] if same(best, last) else tied))
        return found

    @cached_property
    def target_results(self) -> list[TargetResult]:
        """What meets the target, for each combination of the other settings."""
        axis = next((axis for axis in self.axes if axis.name == self.target_axis), None)
        if self.target is None or axis is None or axis.places is None:
            return []
        place, key, tried = dict(zip(axis.values, axis.places, strict=True)), self.target.measure.key, []
        for point in self.points:
            others = {name: value for name, value in point.settings.items() if name != axis.name}
            value, figure = point.settings[axis.name], point.figures.get(key)
            one = Tried(
                place[value],
                row_texts(axis.name, value),
                figure and figure.value,
                figure.values if figure else (),
            )
            tried.append((named(others, short=False), one))
        return grouped(tried, axis.name, self.target)


def _axis(name: str, values: pl.Series, frame: pl.DataFrame) -> Axis:
    if name == CLUSTER and "gpus" in frame.columns:
        gpus = dict(frame.select(CLUSTER, "gpus").drop_nulls().iter_rows())
        if len(set(gpus.values())) == values.len():
            clusters = sorted(gpus, key=lambda cluster: gpus[cluster])
            return Axis(name, tuple(clusters), tuple(float(gpus[cluster]) for cluster in clusters))
    ordered = values.dtype.is_numeric() and values.null_count() == 0
    # An endless value, such as checkpoint-interval inf, has no place on an axis of numbers.
    if ordered and bool(values.is_finite().all()):
        numbers = values.sort().to_list()
        return Axis(name, tuple(numbers), tuple(map(float, numbers)))
    return Axis(name, tuple(values.sort() if ordered else values), None)


def row_texts(name: str, value: Any) -> str:
    """The value of a setting as text; of one that a run does not have, what that means."""
    if value is not None:
        return plain(value)
    if name == _LOAD:
        return "as recorded"
    option = REPLAY.get(name) or PLAN.get(name)
    return (option and (option.absent or option.word)) or "none"


def named(settings: Mapping[str, Any], *, short: bool = True) -> str:
    """Settings as text. short: a policy, a run and a cluster by their names alone."""
    return ", ".join(
        row_texts(name, value)
        if short and name in ("policy", RUN, CLUSTER)
        else f"{name.replace('_', '-')} {row_texts(name, value)}"
        for name, value in settings.items()
    )


def is_sweep_folder(folder: Path) -> bool:
    """Whether `folder` is what `ringbco sweep` leaves."""
    return (folder / _DOCUMENT).is_file()


def read_sweep(folder: Path) -> SweepRuns:
    """The runs of a sweep's folder; InputError where a file is missing or damaged, or no run did well."""
    path = folder / _DOCUMENT
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        spec = document["spec"]
        named, runs = varied(spec), spec.get("runs", [])
        tables = [{RUN: None}, spec.get("grid", {}), *([] if isinstance(runs, Mapping) else runs)]
        keys = (str(name).replace("-", "_") for table in tables for name in table)
        names = dict.fromkeys(key for key in keys if key in named)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"expected the specification of a sweep ({error})", file=path) from None
    frame = read_table(folder / _TABLE, {"command": pl.String(), "error": pl.String()})
    if frame["error"].null_count() == 0:
        raise InputError("expected a run that did not fail; there is none", file=folder / _TABLE)
    there = document.get("seeds") is not None and (folder / _SEEDS).is_file()
    over = _read_over(folder, document) if there else None
    read = SweepRuns(frame, tuple(names), spec, over, *_aimed(document.get("aim"), path))
    for axis in read.axes if over is not None else ():
        if over is not None and over.frame.schema.get(axis.name) != frame.schema[axis.name]:
            raise InputError(f"expected a column {axis.name} as runs.parquet has it", file=folder / _SEEDS)
    return read


def _aimed(aim: object, path: Path) -> tuple[Figure | None, Target | None, str | None]:
    """What sweep.json says that was aimed at; InputError where it is damaged."""
    if aim is None:
        return None, None, None
    measure = _MEASURES.get(str(aim.get("measure"))) if isinstance(aim, dict) else None
    if not isinstance(aim, dict) or measure is None or measure.better == "neither":
        raise InputError("expected a measure of which one end is good", file=path, key="aim")
    value = aim.get("target")
    if value is None:
        return measure, None, None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise InputError("expected a number", file=path, key="aim.target")
    return measure, Target(measure, float(value)), str(aim.get("setting"))


def _read_over(folder: Path, document: Mapping[str, Any]) -> Over:
    """What several runs tell; InputError where it is damaged."""
    path, runs = folder / _DOCUMENT, document.get("seeds")
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < _FEWEST:
        raise InputError("a number of runs of 2 or more", file=path, key="seeds", value=runs)
    frame = read_table(folder / _SEEDS, dict.fromkeys(("measure", "verdict", "sentence"), pl.String()))
    return Over(frame, runs, runs_of(path, document))
