"""What several seeds tell of each point of a sweep: figures with intervals, differences from a policy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.errors import UsageError
from ringbco.result.figures import MEASURED_HERE, compared
from ringbco.result.seeds import Drawn, OverSeeds, Paired, over_seeds, paired
from ringbco.result.told import how, notes_of, sentence
from ringbco.trace.jobs import near_name

if TYPE_CHECKING:
    from ringbco.result.figures import Figure
    from ringbco.sweeps.spec import Spec

_MEASURED: Final = (*MEASURED_HERE, "total_seconds", "jobs_per_second")


class Point(NamedTuple):
    """One point of a sweep: its settings that the specification varies, its GPUs, its runs' figures.

    base: the point that differs in nothing but the policy, which is the baseline; None where there is none.
    """

    settings: Mapping[str, Any]
    gpus: int
    drawn: Drawn
    figures: Mapping[str, list[float | None]]
    base: int | None

    def figure(self, key: str) -> OverSeeds | None:
        """A measure over the seeds; None where a run has no such figure, or failed."""
        return over_seeds(self.figures.get(key, ()), self.drawn)

    @property
    def name(self) -> str:
        """The settings as text."""
        return ", ".join(f"{name} {_short(value)}" for name, value in self.settings.items())


class Over:
    """The points of a sweep over its seeds; with one seed a point's figures are those of its run."""

    def __init__(self, spec: Spec, frame: pl.DataFrame, baseline: str | None = None) -> None:
        """frame: of runs.parquet, all runs. baseline: a policy, None for the first."""
        self._frame = frame
        self.seeds: Final = spec.seeds.seeds
        times = spec.seeds.runs
        rows = frame.to_dicts()
        varied = [name for name in spec.varied if name != "seed"]
        settings = [{name: rows[at][name] for name in varied} for at in range(0, len(rows), times)]
        policies = list(dict.fromkeys(one.get("policy") for one in settings))
        against = baseline or (policies[0] if len(policies) > 1 else None)
        bases = {_others(one): number for number, one in enumerate(settings) if one.get("policy") == against}
        drawn = spec.drawn or (Drawn(),) * len(settings)
        self.points: Final = [
            Point(
                one,
                rows[number * times]["gpus"],
                drawn[number],
                {
                    row.key: [rows[at][row.key] for at in range(number * times, (number + 1) * times)]
                    for row in self.measures
                },
                bases.get(_others(one)) if one.get("policy") != against else None,
            )
            for number, one in enumerate(settings)
        ]

    @cached_property
    def measures(self) -> list[Figure]:
        """The measures that some run has."""
        numeric = [name for name, dtype in self._frame.schema.items() if dtype.is_numeric()]
        known = {name: self._frame[name].drop_nulls().first() for name in numeric}
        rows = compared([{name: value for name, value in known.items() if value is not None}])
        return [row for row in rows if row.key in known and row.unit and row.key not in _SETTINGS]

    def paired(self, number: int, key: str) -> Paired | None:
        """How far a point's measure is from that of its base, seed by seed."""
        point = self.points[number]
        if point.base is None or self.seeds == 1:
            return None
        base = self.points[point.base]
        return paired(point.figures.get(key, ()), base.figures.get(key, ()), point.drawn)

    def told(self, number: int, measure: Figure) -> str | None:
        """The same in words; None where seeds tell nothing of that."""
        found, point = self.paired(number, measure.key), self.points[number]
        if found is None or point.base is None:
            return None
        others = {name: value for name, value in point.settings.items() if name != "policy"}
        where = point._replace(settings=others).name
        label, against = (str(one.settings["policy"]) for one in (point, self.points[point.base]))
        runs = point.drawn.seeds(len(point.figures[measure.key]))
        text = sentence(label, against, measure, found, how(point.drawn, runs))
        return f"{where}: {text}" if where else text

    def differences(self) -> Iterator[str]:
        """The sentences of the main figures."""
        for measure in self.measures:
            if measure.told == "headline" and measure.spread:
                told = (self.told(number, measure) for number in range(len(self.points)))
                yield from (text for text in told if text is not None)

    @property
    def notes(self) -> list[str]:
        """What the seeds are, and how far they can be trusted."""
        kinds = dict.fromkeys(point.drawn for point in self.points)
        return list(dict.fromkeys(text for kind in kinds for text in notes_of(kind, self.seeds)))

    @property
    def frame(self) -> pl.DataFrame:
        """One row a point and measure: settings, value, low, high, least, greatest, seeds, differences."""
        rows = []
        for number, point in enumerate(self.points):
            for measure in self.measures:
                if measure.key in _MEASURED:
                    continue
                figure, pair = point.figure(measure.key), self.paired(number, measure.key)
                interval = (figure and figure.interval) or (None, None)
                apart = (pair and pair.interval) or (None, None)
                rows.append(
                    {
                        **point.settings,
                        "measure": measure.key,
                        "value": figure and figure.mean,
                        "low": interval[0],
                        "high": interval[1],
                        "least": figure and figure.least,
                        "greatest": figure and figure.greatest,
                        "seeds": figure and figure.seeds,
                        "difference": pair and pair.share,
                        "difference_low": apart[0],
                        "difference_high": apart[1],
                        "told": self.told(number, measure),
                    }
                )
        told = dict.fromkeys(_FLOATS, pl.Float64()) | {"seeds": pl.UInt32(), "told": pl.String()}
        return pl.DataFrame(rows, infer_schema_length=None, schema_overrides=told)


_FLOATS: Final = (
    *("value", "low", "high", "least", "greatest"),
    *("difference", "difference_low", "difference_high"),
)
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
