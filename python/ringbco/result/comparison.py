"""Results side by side, held against one of them; data, not how to draw it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

from ringbco.io import marks
from ringbco.io.json_text import json_text
from ringbco.io.manifest import Kind
from ringbco.io.tables import write_table
from ringbco.result.bound import of_results
from ringbco.result.figures import MEASURED_HERE, OVER_BOUND, TIME_TO_START, compared, flat, waits_again
from ringbco.result.folder import RESULT, place_again, whole_folder
from ringbco.result.seeds import SAME_JOBS, Drawn, OverSeeds, Paired, over_seeds, paired
from ringbco.result.told import difference, differences, notes
from ringbco.result.views import view
from ringbco.result.window import of_summary
from ringbco.units import same

if TYPE_CHECKING:
    from ringbco.result.figures import Figure
    from ringbco.result.outcome import Outcome
    from ringbco.result.views import Plots

FRAME: Final = "comparison.parquet"
DOCUMENT: Final = "comparison.json"
REPORT: Final = "report.html"


class Entry(NamedTuple):
    """One measure under one policy; `value` is None where the policy has no such figure.

    `ratio` is to the baseline's figure, None where that one is 0 or missing.
    """

    value: float | None
    ratio: float | None
    best: bool


@dataclass(eq=False)
class Comparison:
    """Outcomes side by side, by label; the others are held against the `baseline`, or the first.

    repeated: the summaries under each seed, the first seed's included, by label; of what was run with one
    seed only, nothing. known_bounds: the lower bound under each seed, by label, where it is known already.
    drawn: by label what differs from seed to seed, where that is more than ties, models and placement.
    Figures are means over the seeds, and `outcomes` are those of the first seed. Of a recorded trace whose
    days are drawn the first summary, the outcome and the figures are its own.
    """

    outcomes: dict[str, Outcome]
    repeated: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    known_bounds: dict[str, list[float | None]] = field(default_factory=dict)
    drawn: dict[str, Drawn] = field(default_factory=dict)
    baseline: str | None = None

    @property
    def against(self) -> str:
        """The label that the others are held against."""
        return next(iter(self.outcomes)) if self.baseline is None else self.baseline

    @cached_property
    def best_first(self) -> Comparison:
        """The same, the least mean completion time first; those without one stay behind, in their order.

        The baseline is the one that it was.
        """

        def place(label: str) -> float:
            told = self.figure(label, "mean_jct")
            return math.inf if told is None else told.mean

        order = sorted(self.outcomes, key=place)
        # Bounds are worked out once, whatever the order.
        return replace(
            self,
            outcomes={label: self.outcomes[label] for label in order},
            known_bounds=self.bounds_by_seed,
            baseline=self.against,
        )

    @cached_property
    def rows(self) -> dict[Figure, list[Entry]]:
        """What each measure is under each outcome, in order; without measures that no summary has."""
        summaries = [flat(outcome.summary) for outcome in self.outcomes.values()]
        figures = {
            measure: [self.figure(label, measure.key) for label in self.outcomes]
            for measure in compared(summaries)
        }
        means = {
            measure: [None if one is None else one.mean for one in told] for measure, told in figures.items()
        }
        return {
            measure: self._entries(measure, told)
            for measure, told in means.items()
            if told != [None] * len(told) or any(measure.key in summary for summary in summaries)
        }

    @property
    def shown(self) -> dict[Figure, list[Entry]]:
        """The rows that people are shown: of the time to the first start only the mean.

        And that only where it is not the waiting time, as it is where nobody waits again.
        """
        again = any(waits_again(outcome.summary) for outcome in self.outcomes.values())
        return {
            measure: entries
            for measure, entries in self.rows.items()
            if measure.spread != TIME_TO_START or (again and measure.key == f"mean_{TIME_TO_START}")
        }

    def _entries(self, measure: Figure, values: Sequence[float | None]) -> list[Entry]:
        """The measure under each outcome. Of several seeds the best can be told from all others."""
        labels = list(self.outcomes)
        judged = [like and label in (self.repeated or labels) for label, like in self._like.items()]
        base = values[labels.index(self.against)]
        told = [value for value, among in zip(values, judged, strict=True) if among and value is not None]
        good = (max if measure.better == "most" else min)(told, default=math.nan)
        best = [
            among and value is not None and same(value, good)
            for value, among in zip(values, judged, strict=True)
        ]
        differ = measure.better != "neither" and any(not same(value, told[0]) for value in told)
        if differ and self.repeated:
            first, *_ = (label for label, among in zip(labels, best, strict=True) if among)
            others = [
                label for label, of, among in zip(labels, best, judged, strict=True) if among and not of
            ]
            differ = all(
                found is not None and found.verdict == "apart"
                for found in (self.paired(label, measure.key, first) for label in others)
            )
        return [
            Entry(
                None if value is None else float(value),
                value / base if base and value is not None else None,
                differ and among,
            )
            for value, among in zip(values, best, strict=True)
        ]

    @property
    def bounds(self) -> dict[str, float | None]:
        """What no schedule of each outcome's jobs on its cluster has a mean completion time below, s.

        By label, the mean over the seeds; None where a result alone does not say it
        (docs/bound.md#in-comparisons-and-reports).
        """
        told = {
            label: over_seeds(values, self.drawn.get(label, SAME_JOBS))
            for label, values in self.bounds_by_seed.items()
        }
        return {label: None if one is None else one.mean for label, one in told.items()}

    @cached_property
    def bounds_by_seed(self) -> dict[str, list[float | None]]:
        """The lower bound under each seed, by label: seeds may draw other models, and so other run times."""
        known: dict[str, list[float | None]]
        known = {label: [None] * len(summaries) for label, summaries in self.repeated.items()}
        known |= {label: list(bounds) for label, bounds in self.known_bounds.items() if bounds}
        found = of_results({label: one for label, one in self.outcomes.items() if label not in known})
        return {label: known[label] if label in known else [found[label]] for label in self.outcomes}

    @cached_property
    def _like(self) -> dict[str, bool]:
        """Whether each outcome is of the baseline's jobs on the baseline's cluster."""
        kinds = {label: _jobs_and_cluster(outcome) for label, outcome in self.outcomes.items()}
        return {label: kind == kinds[self.against] for label, kind in kinds.items()}

    @property
    def unlike(self) -> list[str]:
        """The outcomes of other jobs than the baseline's, or on another cluster: none can be the best."""
        return [label for label, like in self._like.items() if not like]

    @property
    def seeds(self) -> int:
        """How many seeds each policy was replayed with; of a recorded trace how many draws."""
        return max(
            (
                self.drawn.get(label, SAME_JOBS).seeds(len(summaries))
                for label, summaries in self.repeated.items()
            ),
            default=1,
        )

    def figure(self, label: str, key: str) -> OverSeeds | None:
        """A measure over the seeds of a label; None where one has no such figure.

        All that is printed, written or drawn of a comparison's figures is read here.
        """
        return over_seeds(self.values(label, key), self.drawn.get(label, SAME_JOBS))

    def paired(self, label: str, key: str, against: str | None = None) -> Paired | None:
        """How far a label's measure is from the baseline's (or another's), seed by seed.

        None where the two have not the same seeds, or one has no such figure.
        """
        other = self.against if against is None else against
        drawn = self.drawn.get(label, SAME_JOBS)
        if {label, other} - set(self.repeated) or drawn != self.drawn.get(other, SAME_JOBS):
            return None
        return paired(self.values(label, key), self.values(other, key), drawn)

    def values(self, label: str, key: str) -> list[float | None]:
        """A measure under each seed of a label: a single value of what was run once."""
        summaries = self.repeated.get(label) or [self.outcomes[label].summary]
        if key != OVER_BOUND.key:
            return [flat(summary).get(key) for summary in summaries]
        means = [summary.get("mean_jct") for summary in summaries]
        bounds = self.bounds_by_seed[label]
        return [
            mean / bound if bound and mean is not None else None
            for mean, bound in zip(means, bounds, strict=True)
        ]

    def spread(self, label: str, key: str) -> tuple[float, float] | None:
        """The least and the greatest value of a measure over the seeds; None without several seeds."""
        told = self.figure(label, key)
        return (told.least, told.greatest) if told is not None and told.seeds > 1 else None

    def beneath(self, label: str, measure: Figure) -> tuple[str, ...]:
        """What stands below a figure over seeds: its interval and its ends; "always" where all are alike."""
        ends = measure.show_ends(self.spread(label, measure.key))
        told = self.figure(label, measure.key)
        if not ends or ends == "always" or told is None or told.interval is None:
            return (ends,) if ends else ()
        low, high = measure.show_all(told.interval)
        return f"[{low}, {high}]", ends

    @property
    def frame(self) -> pl.DataFrame:
        """One row a measure and outcome: measure, policy, value, ratio to the first, best of its measure.

        Times in seconds, utilisation as a share. `value` is null where an outcome has no such figure, `ratio`
        also where the baseline's is 0; `best` is true for every outcome that has the best value, and for
        none when all have the same or no end of the measure is good (utilisation, time in the engine). Only
        outcomes of the baseline's jobs on its cluster are judged. With several seeds `value` is their mean,
        and columns follow: `least`, `greatest`, the ends, and `low`, `high`, the interval, null for a result
        that was not repeated; `seeds`, how many there are, null where there is no such figure; and, null
        where seeds do not pair, `difference` from the baseline over the baseline's, `difference_low`,
        `difference_high`, and `told`, the same in words.
        """
        rows = [
            (measure.key, label, *entry)
            for measure, entries in self.rows.items()
            for label, entry in zip(self.outcomes, entries, strict=True)
        ]
        schema = {
            "measure": pl.String(),
            "policy": pl.String(),
            "value": pl.Float64(),
            "ratio": pl.Float64(),
            "best": pl.Boolean(),
        }
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        if self.seeds == 1:
            return frame
        there = [(label, measure) for measure in self.rows for label in self.outcomes]
        places = [(label, measure.key) for label, measure in there]
        apart = [self.paired(*place) if place[0] != self.against else None for place in places]
        spreads = [self.spread(*place) or (None, None) for place in places]
        figures = [self.figure(*place) for place in places]
        return frame.with_columns(
            pl.Series("least", [least for least, _ in spreads], pl.Float64),
            pl.Series("greatest", [greatest for _, greatest in spreads], pl.Float64),
            *_pair("low", "high", [None if one is None else one.interval for one in figures]),
            pl.Series("seeds", [None if one is None else one.seeds for one in figures], pl.UInt32),
            pl.Series("difference", [one and one.share for one in apart], pl.Float64),
            *_pair("difference_low", "difference_high", [one and one.interval for one in apart]),
            pl.Series("told", [difference(self, label, measure) for label, measure in there], pl.String),
        )

    @property
    def plot(self) -> Plots:
        """Charts of these outcomes, overlaid."""
        plots: Plots = view("plots", self.outcomes)
        return plots

    def by(self, column: str) -> pl.DataFrame:
        """Figures by "user" or "vc" (docs/compare.md#by-user), of the outcomes; a row a policy and owner."""
        from ringbco.result.fairness import by

        return by(self.outcomes, column)

    def table(self, kind: str) -> str:
        """The measures as a table: "tex" (LaTeX), "md" (Markdown) or "csv"; UsageError for another kind."""
        made: str = view("sheet", self).text(kind)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels, each measure's values, ratios and best labels, bounds, folders, summaries."""
        labels = list(self.outcomes)
        several = self.seeds > 1
        return {
            "policies": labels,
            **({"baseline": self.baseline} if self.baseline is not None else {}),
            **({"seeds": self.seeds} if several else {}),
            "measures": {
                measure.key: {
                    "values": {label: entry.value for label, entry in zip(labels, entries, strict=True)},
                    "ratios": {label: entry.ratio for label, entry in zip(labels, entries, strict=True)},
                    "best": [label for label, entry in zip(labels, entries, strict=True) if entry.best],
                    **(self._seeded(measure) if several else {}),
                }
                for measure, entries in self.rows.items()
            },
            "mean_jct_bounds": self.bounds,
            "folders": dict(zip(labels, self._folders(), strict=True)),
            "summaries": {label: outcome.summary for label, outcome in self.outcomes.items()},
            **(
                {
                    "summaries_by_seed": self.repeated,
                    "mean_jct_bounds_by_seed": {label: self.bounds_by_seed[label] for label in self.repeated},
                    "drawn": {label: one._asdict() for label, one in self.drawn.items()},
                    "notes": notes(self),
                    "told": differences(self),
                }
                if several
                else {}
            ),
        }

    def _seeded(self, measure: Figure) -> dict[str, Any]:
        """What several seeds tell of a measure, by label."""
        figures = {label: self.figure(label, measure.key) for label in self.outcomes}
        pairs = {label: self.paired(label, measure.key) for label in self.outcomes if label != self.against}
        return {
            "spread": {label: self.spread(label, measure.key) for label in self.outcomes},
            "interval": {label: one and one.interval for label, one in figures.items()},
            "difference": {
                label: one
                and {
                    "share": one.share,
                    "interval": one.interval,
                    "verdict": one.verdict,
                    "told": difference(self, label, measure),
                }
                for label, one in pairs.items()
            },
        }

    def write(
        self,
        folder: str | os.PathLike[str],
        *,
        force: bool = False,
        report: str | None = None,
        written: Mapping[str, Path] | None = None,
    ) -> None:
        """Writes a result folder a policy, comparison.parquet and comparison.json, all of it or nothing.

        report: a page to put with them as report.html. written: by label, result folders that hold the
            outcomes already, whose files are taken.

        Raises InputError where `folder` exists (without `force`, or when it is no comparison) and where the
        system refuses to write.
        """
        with whole_folder(folder, force=force, kind=COMPARISON) as partial:
            there = written or {}
            summaries = {
                label: place_again(there[label], partial / name)
                if label in there
                else outcome.write(partial / name)
                for name, (label, outcome) in zip(self._folders(), self.outcomes.items(), strict=True)
            }
            steady = self.frame.filter(~pl.col("measure").is_in(MEASURED_HERE))
            write_table(steady, partial / FRAME)
            document = json_text({**self.to_dict(), "summaries": summaries})
            (partial / DOCUMENT).write_text(document + "\n", encoding="utf-8")
            if report is not None:
                (partial / REPORT).write_text(report, encoding="utf-8")

    def _folders(self) -> list[str]:
        """A folder's name for each label: a policy's own, anything else made harmless and unique."""
        names: list[str] = []
        for number, label in enumerate(self.outcomes, start=1):
            name = re.sub(r"[^\w.=-]+", "-", label)
            name = re.sub("--+", "-", name).strip(".-") or str(number)
            names.append(f"{name}-{number}" if name in names else name)
        return names

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(self.outcomes)}>"

    def _repr_html_(self) -> str:
        return str(view("comparison", self))


def is_comparison(path: Path) -> bool:
    """Whether `Comparison.write` made the folder."""
    return (path / FRAME).is_file() and {"policies", "summaries"} <= set(marks.document(path / DOCUMENT))


COMPARISON: Final = Kind("comparison", frozenset({DOCUMENT, FRAME, REPORT}), is_comparison, RESULT)


def as_comparison(results: Comparison | Mapping[str, Outcome]) -> Comparison:
    """The comparison itself, or that of outcomes by label."""
    return results if isinstance(results, Comparison) else Comparison(dict(results))


def side_by_side(outcomes: Sequence[Outcome]) -> Comparison:
    """A comparison of outcomes at hand, labelled by policy and, where that is not enough, by what differs."""
    return Comparison(dict(zip(_labels(outcomes), outcomes, strict=True)))


def _pair(low: str, high: str, ends: Sequence[tuple[float, float] | None]) -> list[pl.Series]:
    """Two columns of the ends of intervals; null where there is none."""
    return [
        pl.Series(name, [None if one is None else one[place] for one in ends], pl.Float64)
        for place, name in enumerate((low, high))
    ]


def _jobs_and_cluster(outcome: Outcome) -> tuple[Any, ...]:
    """What outcomes must share for one to be better: the jobs that ran and their work, servers, network."""
    run: Mapping[str, Any] = outcome.run
    trace, cluster = run.get("trace", {}), run.get("cluster", {})
    # Where the jobs came from no file, their number and what they were called is all that is known.
    source = trace.get("sha256") or trace.get("path")
    ran = outcome.summary.get("jobs"), outcome.summary.get("jobs_refused", 0), of_summary(outcome.summary)
    return source, trace.get("rows"), *ran, *map(cluster.get, ("servers", "network", "recorded"))


def _labels(outcomes: Sequence[Outcome]) -> list[str]:
    policies = [str(outcome.summary.get("policy", "?")) for outcome in outcomes]
    settings = [_settings(outcome) for outcome in outcomes]
    labels: list[str] = []
    for number, policy in enumerate(policies):
        same = [other for other, name in zip(settings, policies, strict=True) if name == policy]
        own = settings[number]
        differing = [name for name in own if any(other.get(name) != own[name] for other in same)]
        label = policy
        if differing:
            label += f" ({', '.join(f'{name} {_short(own[name])}' for name in differing)})"
        times = labels.count(label)
        labels.append(label if not times else f"{label} [{times + 1}]")
    return labels


def _short(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _settings(outcome: Outcome) -> dict[str, Any]:
    """What may tell two runs of one policy apart, by the names that users know."""
    run: Mapping[str, Any] = outcome.run
    cluster = run.get("cluster", {})
    return {
        **{name: value for name, value in run.get("options", {}).items() if name != "policy"},
        **cluster.get("network", {}),
        "cluster": cluster.get("name"),
        "trace": run.get("trace", {}).get("path"),
    }
