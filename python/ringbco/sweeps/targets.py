"""What meets a target: the smallest cluster or the greatest load, among points or by bisection."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.result.certainty import Kind, figured
from ringbco.result.figures import COMPARED, Figure
from ringbco.run.options import check_name
from ringbco.run.seeds import Seeds
from ringbco.sweeps.document import Document, plain_names, points, read_document
from ringbco.sweeps.over import Over
from ringbco.sweeps.run import SweepResult
from ringbco.sweeps.settings import options_of
from ringbco.sweeps.spec import Spec, spec_of
from ringbco.units import plain, seconds_of

_SERVERS: Final = re.compile(r"([1-9]\d{0,6})x([1-9]\d{0,4})")
_PERCENTILES: Final = {"p50": "median"}
_PARTS: Final = 100
_EXAMPLE: Final = "cluster=16x8..512x8 or load=0.5..1.2"


class Target(NamedTuple):
    """A measure, and the value that it must not be worse than."""

    measure: Figure
    value: float

    @property
    def shown(self) -> str:
        """As people read it."""
        side = "at least" if self.measure.better == "most" else "at most"
        return f"{self.measure.title} {side} {self.measure.show(self.value)}"

    @property
    def told(self) -> dict[str, Any]:
        """As sweep.json keeps it."""
        return {"measure": self.measure.key, "target": self.value}

    def met_by(self, value: float) -> bool:
        """Whether a value is good enough."""
        return value >= self.value if self.measure.better == "most" else value <= self.value

    def met_in(self, figure: Tried) -> int:
        """In how many runs the figure is good enough."""
        return sum(map(self.met_by, figure.values))

    def always_met_by(self, figure: Tried) -> bool:
        """Whether the figure is good enough in all runs."""
        return self.met_in(figure) == len(figure.values)


def target_of(measure: str | None, target: str | None) -> Target | None:
    """The target that two options ask for, None without one.

    Raises UsageError for one without a measure, an unknown measure or value.
    """
    if target is None:
        return None
    if measure is None:
        raise UsageError(
            "option target: expected together with --measure, such as --measure p90_wait --target 10min"
        )
    row = measure_of(measure)
    return Target(row, _value(row, target))


def measure_of(name: str) -> Figure:
    """A measure of which one end is good. p50_wait is median_wait. Raises UsageError for another."""
    statistic, _, of = name.partition("_")
    key = f"{_PERCENTILES.get(statistic, statistic)}_{of}" if of else name
    known = {row.key: row for row in COMPARED if row.better != "neither"}
    check_name("measure", key, list(known))
    return known[key]


def _value(measure: Figure, text: str) -> float:
    """A target in the measure's unit."""
    if measure.unit in ("time", "GPU time"):
        value = seconds_of("target", text)
    else:
        number, percent = text.removesuffix("%"), text.endswith("%")
        try:
            value = float(number) / (100.0 if percent else 1.0)
        except ValueError:
            value = math.nan
    if not math.isfinite(value):
        what = "a length of time such as 10min" if measure.unit == "time" else "a number"
        raise UsageError(f"option target: {text!r}: expected {what} for {measure.key}")
    return value


class Tried(NamedTuple):
    """A point of the setting that is sought: where it lies, how it is written, its figure (None: failed).

    value: of moved runs that of run 0, of fresh tables the median. values: that of each run.
    """

    place: float
    name: str
    value: float | None
    values: tuple[float, ...] = ()

    @classmethod
    def of(cls, place: float, name: str, values: Sequence[float | None], kind: Kind) -> Tried:
        """From the figure of each run."""
        known = tuple(float(value) for value in values if value is not None)
        complete = 0 < len(known) == len(values)
        return cls(place, name, figured(known, kind).value, known) if complete else cls(place, name, None)


@dataclass(frozen=True)
class TargetResult:
    """What meets a target, for one combination of the other settings.

    best: by the figure itself; sure: in all runs. None where nothing tried does.
    strange: pairs of neighbours, the second of which should not be worse than the first and is.
    """

    target: Target
    where: str
    name: str
    tried: tuple[Tried, ...]
    best: Tried | None
    sure: Tried | None
    strange: tuple[tuple[Tried, Tried], ...]

    def lines(self) -> list[str]:
        """The same in words."""
        prefix = f"{self.where}: " if self.where else ""
        if self.best is None:
            last = [one for one in self.tried if one.value is not None]
            near = f"; {self._told(last[-1])}" if last else ""
            told = [f"{prefix}no {self.name} tried meets {self.target.shown}{near}"]
        else:
            which = "greatest load" if self.name == "load" else f"smallest {self.name}"
            end = "; it is the first of those tried" if self.best == self.tried[0] else ""
            told = [f"{prefix}the {which} that meets {self.target.shown}: {self._told(self.best)}{end}"]
            runs = len(self.best.values)
            if self.sure is None:
                told.append(f"{prefix}none tried meets it in all {runs} runs")
            elif self.sure != self.best:
                told.append(f"{prefix}the {which} that meets it in all {runs} runs: {self._told(self.sure)}")
        for one, other in self.strange:
            pair = (self._told(part) for part in (one, other))
            told.append(f"{prefix}not monotone: {' against '.join(pair)}")
        return told

    def _told(self, one: Tried) -> str:
        if one.value is None:
            return f"{one.name} (failed)"
        show, runs = self.target.measure.brief, len(one.values)
        gpus = f" ({one.place:,.0f} GPUs)" if self.name == "cluster" else ""
        text = f"{one.name}{gpus}, {show(one.value)}"
        if runs == 1:
            return text
        met = self.target.met_in(one)
        how = f"in all {runs} runs" if met == runs else f"in {met} of {runs} runs"
        return f"{text} ({show(min(one.values))} to {show(max(one.values))}), {how}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "where": self.where,
            "measure": self.target.measure.key,
            "target": self.target.value,
            "best": self.best and self.best.name,
            "sure": self.sure and self.sure.name,
            "tried": [
                {
                    self.name: one.name,
                    "value": one.value,
                    "by_run": list(one.values),
                }
                for one in self.tried
            ],
            "told": self.lines(),
        }


def target_results(over: Over, target: Target, name: str) -> list[TargetResult]:
    """What meets the target along a setting, for each combination of the other settings."""
    tried = []
    for point in over.points:
        value, values = point.settings[name], point.figures.get(target.measure.key, [None])
        place = float(point.gpus if name == "cluster" else value)
        one = Tried.of(place, plain(value, "none"), values, over.variation.kind)
        tried.append((point.but(name), one))
    return grouped(tried, name, target)


def grouped(tried: Iterable[tuple[str, Tried]], name: str, target: Target) -> list[TargetResult]:
    """What meets the target along a setting; tried: with what the other settings of each are called."""
    groups: dict[str, list[Tried]] = {}
    for where, one in tried:
        groups.setdefault(where, []).append(one)
    return [settled(where, name, own, target) for where, own in groups.items()]


def settled(where: str, name: str, tried: Sequence[Tried], target: Target) -> TargetResult:
    """From the side on which the target is hard to meet to the other: the first that meets it."""
    # A greater load is harder, a larger cluster easier; of other settings the ends tell.
    ordered = sorted(tried, key=lambda one: one.place, reverse=_falls(name, tried, target))
    known = [one for one in ordered if one.value is not None]
    meets = [one.value is not None and target.met_by(one.value) for one in known]
    best = next((one for one, met in zip(known, meets, strict=True) if met), None)
    sure = next((one for one in known if target.always_met_by(one)), None)
    strange = tuple(
        pair for pair, (met, then) in zip(pairwise(known), pairwise(meets), strict=True) if met > then
    )
    return TargetResult(target, where, name, tuple(ordered), best, sure, strange)


def _falls(name: str, tried: Sequence[Tried], target: Target) -> bool:
    """Whether greater values of the setting make the target harder to meet."""
    if name in ("cluster", "load"):
        return name == "load"
    ends = sorted((one for one in tried if one.value is not None), key=lambda one: one.place)
    if not ends:
        return False
    first, last = (one.value or 0.0 for one in (ends[0], ends[-1]))
    return last < first if target.measure.better == "most" else last > first


def sought(spec: Spec) -> str:
    """The setting along which a grid's target is sought. Raises UsageError where there is none."""
    for name in ("cluster", "load"):
        if name in spec.varied:
            return name
    raise UsageError(
        "option target: expected a specification that varies cluster or load, or --bisect " + _EXAMPLE
    )


class Range(NamedTuple):
    """Where to look: places from `low` to `high`, `step` apart or nearer, and how each is written."""

    name: str
    low: float
    high: float
    step: float
    write: Callable[[float], Any]


def range_of(text: str, command: str) -> Range:
    """What --bisect says. Raises UsageError for what is no range of an ordered setting."""
    name, _, ends = text.partition("=")
    name = name.strip().replace("-", "_")
    low, dots, high = (part.strip() for part in ends.partition(".."))
    if not dots:
        raise UsageError(f"option bisect: {text!r}: expected SETTING=LOW..HIGH, such as {_EXAMPLE}")
    if name == "cluster":
        return _clusters(text, low, high)
    options = options_of(command)
    kind: type = float if name == "load" else options[name].kind if name in options else str
    if kind not in (int, float) or name == "seed":
        raise UsageError(
            f"option bisect: {name!r}: expected cluster, load or another setting that is a number,"
            f" such as {_EXAMPLE}"
        )
    try:
        first, last = kind(low), kind(high)
    except ValueError:
        first, last = 1, 0
    if not (first < last and math.isfinite(last)):
        raise UsageError(f"option bisect: {text!r}: expected two numbers, the lower one first: {_EXAMPLE}")
    return Range(name, first, last, 1.0 if kind is int else (last - first) / _PARTS, kind)


def _clusters(text: str, low: str, high: str) -> Range:
    ends = [_SERVERS.fullmatch(part) for part in (low, high)]
    if None in ends or len({one[2] for one in ends if one}) > 1:
        raise UsageError(
            f"option bisect: {text!r}: expected clusters of servers with as many GPUs, such as"
            " cluster=16x8..512x8"
        )
    first, last = (int(one[1]) for one in ends if one)
    if first >= last:
        raise UsageError(f"option bisect: {text!r}: expected the smaller cluster first")
    gpus = ends[0][2] if ends[0] else ""
    Cluster.parse(f"{last}x{gpus}")
    return Range("cluster", first, last, 1.0, lambda servers: f"{servers:.0f}x{gpus}")


Sweep = Callable[[Spec], SweepResult]
Done = tuple[Spec, SweepResult, list[TargetResult]]
"""The last specification that was swept, its result, and what meets the target."""


class Asked(NamedTuple):
    """A sweep that is asked for.

    measure: the one that comes first, None for the mean completion time. run: does it, given what does the
    sweep of one specification.
    """

    measure: Figure | None
    target: Target | None
    run: Callable[[Sweep], Done]


def asked(
    spec: str | os.PathLike[str] | Mapping[str, Any] | Document,
    seeds: Seeds,
    measure: str | None,
    target: str | None,
    bisect: str | None,
) -> Asked:
    """What a command asks for, checked. Raises InputError for a bad specification, UsageError otherwise."""
    aim = target_of(measure, target)
    document = spec if isinstance(spec, Document) else read_document(spec)
    if bisect is not None:
        if aim is None:
            raise UsageError("option bisect: expected together with --measure and --target")
        command = str(document.told.get("command", "replay"))
        return Asked(aim.measure, aim, partial(_search, document, seeds, aim, range_of(bisect, command)))
    first = None if measure is None else measure_of(measure)
    wanted = spec_of(*document, seeds)
    if aim is not None:
        return Asked(first, aim, partial(_grid, wanted, aim, sought(wanted)))
    of = replace(wanted, aim=first and {"measure": first.key})
    return Asked(first, None, lambda run: (of, run(of), []))


def _grid(wanted: Spec, target: Target, name: str, run: Sweep) -> Done:
    """What meets the target among the points of a specification, along a setting."""
    wanted = replace(wanted, aim=target.told | {"setting": name})
    result = run(wanted)
    return wanted, result, [] if result.lost else target_results(Over(wanted, result.frame), target, name)


def _search(document: Document, seeds: Seeds, target: Target, where: Range, run: Sweep) -> Done:
    """Looks for what meets the target between the ends of a range, for each point of a specification.

    run: is called with ever more points, and keeps finished runs. The ends go first. Between two neighbours
    of which one meets the target and one does not the middle is next, until they are a step apart; then the
    same for those that meet it in all runs.

    Raises InputError for a bad specification, UsageError for one that varies the setting itself.
    """
    those = _points(document, where)
    places = [{where.low, where.high} for _ in those]
    done = 0
    while True:
        made = _with(document, those, places, where, seeds)
        made = replace(made, aim=target.told | {"setting": where.name})
        result = run(made)
        # What an earlier round of this search did was not there before.
        result = replace(result, done=result.done + done, kept=max(result.kept - done, 0))
        done = result.done
        over = Over(made, result.frame)
        tried = _tried(over, places, where, target)
        more = [_next(own, where, target) for own in tried]
        if all(place is None for place in more):
            return made, result, target_results(over, target, where.name)
        for own, place in zip(places, more, strict=True):
            own.update(() if place is None else (place,))


def _points(document: Document, where: Range) -> list[dict[str, Any]]:
    """The points of a specification, each as a table of [[runs]]."""
    spec = spec_of(*_placed(document, where, where.low))
    runs = document.told.get("runs", {})
    own = runs.values() if isinstance(runs, Mapping) else runs
    if where.name in set(spec.varied).union(*map(plain_names, own)):
        raise UsageError(
            f"option bisect: the specification varies {where.name} itself; leave one of the two out"
        )
    return list(points(document.told))


def _placed(document: Document, where: Range, place: float) -> Document:
    """The document with one value of the setting in its base."""
    base = document.told.get("base", {})
    if isinstance(base, Mapping):  # else it is refused as it stands
        base = {key: value for key, value in base.items() if key.replace("-", "_") != where.name}
        base[where.name] = where.write(place)
    return document._replace(told={**document.told, "base": base})


def _with(
    document: Document,
    points: Sequence[Mapping[str, Any]],
    places: Sequence[set[float]],
    where: Range,
    seeds: Seeds,
) -> Spec:
    """The specification of each point at each of its places."""
    told = dict(_placed(document, where, where.low).told)
    told.pop("grid", None)
    told["runs"] = [
        {**point, where.name: where.write(place)}
        for point, own in zip(points, places, strict=True)
        for place in sorted(own)
    ]
    return spec_of(told, document.file, document.folder, seeds)


def _tried(
    over: Over, places: Sequence[set[float]], where: Range, target: Target
) -> list[dict[float, Tried]]:
    """For each point of the specification the figures known, by place, ascending."""
    points = iter(over.points)
    told = []
    for own in places:
        figures = {
            place: Tried.of(
                place, "", next(points).figures.get(target.measure.key, [None]), over.variation.kind
            )
            for place in sorted(own)
        }
        told.append({place: figure for place, figure in figures.items() if figure.value is not None})
    return told


def _next(tried: Mapping[float, Tried], where: Range, target: Target) -> float | None:
    """The next place to try; None where nothing is left to find."""
    for meets in (lambda one: target.met_by(one.value), target.always_met_by):
        for (low, one), (high, other) in pairwise(tried.items()):
            if meets(one) != meets(other) and high - low > where.step * (1 + 1e-9):
                middle = (low + high) / 2.0
                return float(math.floor(middle)) if where.step == 1.0 else middle
    return None
