"""Results side by side, compared with one of them; data, not how to draw it."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import polars as pl

import ringbco
from ringbco.deprecation import renamed, renamed_fields
from ringbco.errors import nearest
from ringbco.io import marks
from ringbco.io.json_text import json_text
from ringbco.io.manifest import MANIFEST, OutputKind
from ringbco.io.system import fold
from ringbco.io.tables import write_table
from ringbco.result.bound import of_results
from ringbco.result.certainty import ONE_RUN, Figured, Held, Runs, figured, ratio
from ringbco.result.days import days_of
from ringbco.result.figures import MEASURED_HERE, OVER_BOUND, TIME_TO_START, compared, flat, waits_again
from ringbco.result.folder import RESULT, place_again, whole_folder
from ringbco.result.sentences import of_one_run, of_recorded_waits, of_runs
from ringbco.result.verdicts import SCHEMA, Side, Verdicts
from ringbco.result.window import of_summary
from ringbco.units import plain

if TYPE_CHECKING:
    from ringbco.result.days import Days
    from ringbco.result.figures import Figure
    from ringbco.result.outcome import Outcome

FRAME: Final = "comparison.parquet"
DOCUMENT: Final = "comparison.json"
REPORT: Final = "report.html"
_LONGEST: Final = 100
"""Bytes of a folder's name: file systems take 255, and what is unfinished has a longer name."""
_ALWAYS: Final = ("measure", "policy", "value", "ratio", "best")
"""The columns that there are with one run, too."""


class Entry(NamedTuple):
    """One measure under one policy; `value` is None where the policy has no such figure.

    `ratio` is to the baseline's figure, None where one of the two is missing.
    """

    value: float | None
    ratio: float | None
    best: bool


@renamed_fields(repeated="summaries_by_run", over="variation")
@dataclass(eq=False)
class Comparison:
    """Outcomes side by side, by label; the others are compared with the `baseline`, or the first.

    `comparison["sjf"]` is the outcome of that label; `len`, `in` and iteration are of the labels.

    outcomes: of run 0. summaries_by_run: the summaries of all runs, run 0's first, by label; of what was run
    once, nothing. known_bounds: lower bounds by run, by label, where they are known already. variation: what
    differs from run to run.
    """

    outcomes: dict[str, Outcome]
    summaries_by_run: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    known_bounds: dict[str, list[float | None]] = field(default_factory=dict)
    variation: Runs = ONE_RUN
    baseline: str | None = None

    repeated = renamed("repeated", "summaries_by_run")
    over = renamed("over", "variation")
    against = renamed("against", "baseline_label")
    shown = renamed("shown", "display_rows")
    unlike = renamed("unlike", "not_comparable")
    beneath = renamed("beneath", "interval_lines")
    held = renamed("held", "difference")

    def __getitem__(self, label: str) -> Outcome:
        """The outcome of that label. Raises KeyError, which names the labels that there are."""
        if label not in self.outcomes:
            near = nearest(label, self.outcomes) if isinstance(label, str) else None
            meant = f"; did you mean {near!r}?" if near else ""
            raise KeyError(f"no outcome {label!r}: expected one of {', '.join(self.outcomes)}{meant}")
        return self.outcomes[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self.outcomes)

    def __contains__(self, label: object) -> bool:
        return label in self.outcomes

    def __len__(self) -> int:
        return len(self.outcomes)

    @property
    def baseline_label(self) -> str:
        """The label that the others are compared with."""
        return next(iter(self.outcomes)) if self.baseline is None else self.baseline

    @cached_property
    def best_first(self) -> Comparison:
        """The same, the least mean completion time first; those without one stay behind, in their order.

        The baseline is the one that it was.
        """

        def place(label: str) -> float:
            value = self.figure(label, "mean_jct").value
            return math.inf if value is None else value

        order = sorted(self.outcomes, key=place)
        # Bounds are worked out once, whatever the order.
        return replace(
            self,
            outcomes={label: self.outcomes[label] for label in order},
            known_bounds=self.bounds_by_run,
            baseline=self.baseline_label,
        )

    @cached_property
    def rows(self) -> dict[Figure, list[Entry]]:
        """What each measure is under each outcome, in order; without measures that none has in run 0."""
        return {
            measure: self._entries(measure)
            for measure in compared([flat(outcome.summary) for outcome in self.outcomes.values()])
            if any(self.values(label, measure.key)[0] is not None for label in self.outcomes)
        }

    @property
    def display_rows(self) -> dict[Figure, list[Entry]]:
        """The rows of tables for people: of the time to the first start only the mean.

        And that only where it is not the waiting time, as it is where no job waits again.
        """
        again = any(waits_again(outcome.summary) for outcome in self.outcomes.values())
        return {
            measure: entries
            for measure, entries in self.rows.items()
            if measure.spread != TIME_TO_START or (again and measure.key == f"mean_{TIME_TO_START}")
        }

    def _entries(self, measure: Figure) -> list[Entry]:
        """The measure under each outcome; the best of those like the baseline are apart from all others."""
        values = {label: self.figure(label, measure.key).value for label in self.outcomes}
        like = {
            label: value
            for label, value in values.items()
            if value is not None and self._like[label] and label in self.summaries_by_run
        }
        best = self._judged.best(measure, like)
        return [
            Entry(value, self._ratio(label, measure.key), label in best) for label, value in values.items()
        ]

    def _ratio(self, label: str, key: str) -> float | None:
        """A figure over the baseline's: of fresh tables the median of the runs' ratios."""
        found = self.difference(label, key)
        if found is not None:
            return found.ratio
        values, others = self.values(label, key), self.values(self.baseline_label, key)
        if None in values or len(values) == len(others) > 1:  # a run lacks it
            return None
        one, other = values[0], others[0]
        return None if one is None or other is None else ratio(one, other)

    @property
    def bounds(self) -> dict[str, float | None]:
        """What no schedule of each outcome's jobs on its cluster has a mean completion time below, s.

        By label, of run 0, of fresh tables the median; None where a result alone does not say it
        (docs/bound.md#in-comparisons-and-reports).
        """
        return {
            label: figured(bounds, self.variation.kind).value for label, bounds in self.bounds_by_run.items()
        }

    @cached_property
    def bounds_by_run(self) -> dict[str, list[float | None]]:
        """Lower bounds by run, by label: of fresh tables in each run, else in run 0."""
        known = {label: list(bounds) for label, bounds in self.known_bounds.items() if bounds}
        found = of_results({label: one for label, one in self.outcomes.items() if label not in known})
        return {label: known[label] if label in known else [found[label]] for label in self.outcomes}

    @cached_property
    def _like(self) -> dict[str, bool]:
        """Whether each outcome is of the baseline's jobs on the baseline's cluster."""
        kinds = {label: _jobs_and_cluster(outcome) for label, outcome in self.outcomes.items()}
        return {label: kind == kinds[self.baseline_label] for label, kind in kinds.items()}

    @property
    def not_comparable(self) -> list[str]:
        """The outcomes of other jobs than the baseline's, or on another cluster: none can be the best."""
        return [label for label, like in self._like.items() if not like]

    @property
    def runs(self) -> int:
        """How many runs each policy has; existing results have one."""
        return max(map(len, self.summaries_by_run.values()), default=1)

    def figure(self, label: str, key: str) -> Figured:
        """A measure over the runs of a label.

        All that is printed, written or drawn of a comparison's figures is read here.
        """
        return figured(self.values(label, key), self.variation.kind)

    def difference(self, label: str, key: str, against: str | None = None) -> Held | None:
        """How a label's measure differs from the baseline's (or another's), run by run.

        None where the two have other numbers of runs, or a run has no such figure. There is no verdict where
        they are of other jobs or clusters, and on figures of this machine.
        """
        return self._judged.held(label, key, against)

    @cached_property
    def _judged(self) -> Verdicts[str]:
        sides = {
            label: Side(
                label,
                self.variation,
                partial(self.values, label),
                days_of(self.outcomes[label]) if self.variation.kind == "moved" else None,
                _jobs_and_cluster(self.outcomes[label]),
            )
            for label in self.summaries_by_run
        }
        return Verdicts(sides, lambda _: self.baseline_label, self._shared)

    def _shared(self, label: str, other: str) -> tuple[Days, Days]:
        one, two = self.outcomes[label], self.outcomes[other]
        return days_of(one, two), days_of(two, one)

    def sentence(self, label: str, measure: Figure) -> str | None:
        """How a label's figure lies beside the baseline's; None where there is no verdict."""
        return self._judged.sentence(label, measure)

    def lines(self, measure: Figure) -> dict[str, tuple[str, ...]]:
        """The same as cells of a table, by label; without labels that have no verdict."""
        return {label: cells for label in self.outcomes if (cells := self._judged.line(label, measure))}

    def sentences(self) -> list[str]:
        """What pages say below their tables: the mean completion time's sentences, of runs enough."""
        of = (measure for measure in self.rows if measure.key == "mean_jct")
        told = (self.sentence(label, measure) for measure in of for label in self.lines(measure))
        return [text for text in told if text is not None]

    def notes(self, verdicts: int = 0) -> list[str]:
        """What the runs are, and waits as recorded. verdicts: how many of them are shown."""
        told = list[str]()
        if self.summaries_by_run:
            once = [label for label in self.outcomes if label not in self.summaries_by_run]
            told = of_runs(self.runs, self.variation, verdicts) + ([of_one_run(once)] if once else [])
        if not self.follows_log:
            return told
        counts = [outcome.summary.get("as_recorded_jobs") for outcome in self.outcomes.values()]
        return told + of_recorded_waits([count for count in counts if count is not None])

    @property
    def follows_log(self) -> bool:
        """Whether one of the runs starts jobs as the log did: what others share with it is then asked."""
        return any("late_jobs" in outcome.summary for outcome in self.outcomes.values())

    def values(self, label: str, key: str) -> list[float | None]:
        """A measure in each run of a label: a single value of what was run once."""
        summaries = self.summaries_by_run.get(label) or [self[label].summary]
        if key != OVER_BOUND.key:
            return [flat(summary).get(key) for summary in summaries]
        means = [summary.get("mean_jct") for summary in summaries]
        bounds = [*self.bounds_by_run[label], *[None] * len(means)]
        return [
            mean / bound if bound and mean is not None else None
            for mean, bound in zip(means, bounds, strict=False)
        ]

    def interval_lines(self, label: str, measure: Figure) -> tuple[str, ...]:
        """The interval of a figure as text, for the line below it; "always" where all runs are alike."""
        ends = measure.show_ends(self.figure(label, measure.key).interval)
        return (ends,) if ends else ()

    @property
    def frame(self) -> pl.DataFrame:
        """One row a measure and outcome: measure, policy, value, ratio to the baseline, best of its measure.

        Times in seconds, utilisation as a share. `value` is null where an outcome has no such figure, `ratio`
        also where the baseline has none; a ratio to 0 is infinite. With several runs follow: `runs`, how many
        there are; `low`, `high`, the interval of the figure; `ratio_low`, `ratio_high`, that of the ratio;
        `parts_low`, `parts_high`, the least and the greatest ratio in six parts of the trace, and `parts`, in
        how many of them it lies on the ratio's side of 1; `verdict` and `sentence` (docs/certainty.md). They
        are null where there is nothing of the kind.
        """
        rows = [self._row(measure, label, entry) for measure, label, entry in self._cells()]
        schema = {name: SCHEMA[name] for name in (SCHEMA if self.runs > 1 else _ALWAYS)}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def _cells(self) -> Iterator[tuple[Figure, str, Entry]]:
        for measure, entries in self.rows.items():
            for label, entry in zip(self.outcomes, entries, strict=True):
                yield measure, label, entry

    def _row(self, measure: Figure, label: str, entry: Entry) -> dict[str, Any]:
        """A row of comparison.parquet."""
        row: dict[str, Any] = {"measure": measure.key, "policy": label, **entry._asdict()}
        if self.runs == 1:
            return row
        return row | self._judged.columns(label, measure, self.figure(label, measure.key))

    @property
    def plot(self) -> ringbco._Plots:
        """Charts of these outcomes, overlaid."""
        plots: ringbco._Plots = ringbco._above("plots", self.outcomes)
        return plots

    def by(self, column: str) -> pl.DataFrame:
        """Figures by a column of the job table (docs/compare.md#by-user), a row per policy and owner."""
        from ringbco.result.fairness import by

        return by(self.outcomes, column)

    def table(self, kind: str) -> str:
        """The measures as a table: "tex" (LaTeX), "md" (Markdown) or "csv"; UsageError for another kind."""
        made: str = ringbco._above("sheet", self).text(kind)
        return made

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels, rows by measure and policy, bounds, folders, summaries."""
        labels = list(self.outcomes)
        measures: dict[str, dict[str, Any]] = {}
        for measure, label, entry in self._cells():
            row = self._row(measure, label, entry)
            if self.runs > 1:
                row |= self._by_run(measure, label)
            of = measures.setdefault(measure.key, {})
            of[label] = {name: value for name, value in row.items() if name not in ("measure", "policy")}
        told: dict[str, Any] = {"policies": labels}
        if self.baseline is not None:
            told["baseline"] = self.baseline
        if self.runs > 1:
            told |= {"runs": self.runs, **self.variation._asdict(), "notes": self.notes()}
        told |= {
            "measures": measures,
            "mean_jct_bounds": self.bounds,
            "folders": dict(zip(labels, self._folders(), strict=True)),
            "summaries": {label: outcome.summary for label, outcome in self.outcomes.items()},
        }
        if self.runs > 1:
            told["summaries_by_run"] = self.summaries_by_run
            told["mean_jct_bounds_by_run"] = {
                label: self.bounds_by_run[label] for label in self.summaries_by_run
            }
        return told

    def _by_run(self, measure: Figure, label: str) -> dict[str, Any]:
        """What comparison.json has of a figure beside its row."""
        found = self.difference(label, measure.key)
        return {
            "by_run": self.values(label, measure.key),
            "by_part": self._judged.by_part(label, measure.key),
            "carried": found and found.carried and found.carried._asdict(),
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
        taken = {FRAME, DOCUMENT, REPORT, MANIFEST}
        names: list[str] = []
        for number, label in enumerate(self.outcomes, start=1):
            name = re.sub(r"[^\w.=-]+", "-", label)
            name = re.sub("--+", "-", name).strip(".-") or str(number)
            name = name.encode()[:_LONGEST].decode(errors="ignore")
            # Also where a file system does not tell A from a: somebody may copy the folder to one.
            while fold(name) in taken:
                name = f"{name}-{number}"
            taken.add(fold(name))
            names.append(name)
        return names

    def __repr__(self) -> str:
        return f"<Comparison: {', '.join(self.outcomes)}>"

    def _repr_html_(self) -> str:
        return str(ringbco._above("comparison", self))


def is_comparison(path: Path) -> bool:
    """Whether `Comparison.write` made the folder."""
    return (path / FRAME).is_file() and {"policies", "summaries"} <= set(marks.document(path / DOCUMENT))


COMPARISON: Final = OutputKind("comparison", frozenset({DOCUMENT, FRAME, REPORT}), is_comparison, RESULT)


def as_comparison(results: Comparison | Mapping[str, Outcome]) -> Comparison:
    """The comparison itself, or that of outcomes by label."""
    return results if isinstance(results, Comparison) else Comparison(dict(results))


def side_by_side(outcomes: Sequence[Outcome]) -> Comparison:
    """A comparison of outcomes, labelled by policy and, where that is not enough, by what differs."""
    return Comparison(dict(zip(_labels(outcomes), outcomes, strict=True)))


def _jobs_and_cluster(outcome: Outcome) -> tuple[Any, ...]:
    """What outcomes must share for one to be better: the jobs that ran and their work, servers, network."""
    run: Mapping[str, Any] = outcome.run
    trace, cluster = run.get("trace", {}), run.get("cluster", {})
    # Where the jobs came from no file, their number and what they were called is all that is known.
    source = trace.get("sha256") or trace.get("path")
    ran = outcome.summary.get("jobs"), outcome.summary.get("jobs_refused", 0), of_summary(outcome.summary)
    return source, trace.get("rows"), *ran, *map(cluster.get, ("servers", "network", "recorded"))


def _labels(outcomes: Sequence[Outcome]) -> list[str]:
    """Each outcome's policy and, where that is not enough, the settings by which it differs."""
    policies = [str(outcome.summary.get("policy", "?")) for outcome in outcomes]
    settings = [_settings(outcome) for outcome in outcomes]
    labels: list[str] = []
    for number, policy in enumerate(policies):
        same = [other for other, name in zip(settings, policies, strict=True) if name == policy]
        own = settings[number]
        differing = [name for name in own if any(other.get(name) != own[name] for other in same)]
        label = policy
        if differing:
            label += f" ({', '.join(f'{name} {plain(own[name])}' for name in differing)})"
        times = labels.count(label)
        labels.append(label if not times else f"{label} [{times + 1}]")
    return labels


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
