"""Several policies on the same jobs: replayed side by side, then held against the first of them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Unpack

import polars as pl

from ringbco.cluster import Cluster
from ringbco.compare_runs import MOST_SEEDS, Watch, read_results, resolve_workloads, wanted_runs
from ringbco.jobs import TableLike, as_table
from ringbco.metrics import STATISTICS
from ringbco.options import MOST_THREADS, as_cluster, check_callback, checked, integer
from ringbco.options_generated import Options
from ringbco.outcome import Outcome, holds_only, whole_folder, write_table
from ringbco.plausibility import doubts, silently, warn
from ringbco.replay import replay
from ringbco.units import Kind, figure, figures, same

if TYPE_CHECKING:
    from ringbco.report.plots import Plots

FRAME: Final = "comparison.parquet"
DOCUMENT: Final = "comparison.json"
REPORT: Final = "report.html"


class Measure(NamedTuple):
    """A row of a comparison: the summary's key, what it is called, how it reads, and which end is good."""

    key: str
    title: str
    kind: Kind
    best: Literal["least", "most", "neither"] = "least"

    @property
    def group(self) -> str:
        """What it is a statistic of, such as "jct" or "bounded_slowdown"; "" for a single figure."""
        statistic, _, name = self.key.partition("_")
        return name if statistic in STATISTICS and name in _SPREAD else ""

    def show(self, value: float | None) -> str:
        """The value as people read it; "-" where there is none."""
        return "-" if value is None else figure(self.kind, value)

    def show_all(self, values: Sequence[float | None]) -> list[str]:
        """As `show`, side by side: values that differ do not print alike."""
        told = iter(figures(self.kind, [value for value in values if value is not None]))
        return ["-" if value is None else next(told) for value in values]


SPREADS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("jct", "completion time", "time"),
    ("wait", "waiting time", "time"),
    ("slowdown", "slowdown", "number"),
    ("bounded_slowdown", "bounded slowdown", "number"),
)
SINGLES: Final = (
    Measure("makespan", "makespan", "time"),
    # GPUs held: contention and resuming hold them longer, so more of it may be waste. After the last
    # submission only the longest jobs run out, which says little of a policy: so this one leads.
    Measure("utilisation_to_last_submission", "utilisation to last submission", "share", best="neither"),
    Measure("utilisation", "utilisation, whole run", "share", best="neither"),
    Measure("mean_contention", "mean contention", "number"),
    Measure("jobs_spread", "jobs over several servers", "count"),
    # At the finish Themis' finish-time fairness is the slowdown: its mean is that of the slowdown, above.
    Measure("worst_finish_time_fairness", "worst slowdown", "number"),
    Measure("jain_index_users", "Jain's index over users", "index", best="most"),
    Measure("preemptions", "preemptions", "count"),
    Measure("lost_gpu_seconds", "GPU time lost to them", "time"),
    Measure("deadlines_met", "deadlines met", "share", best="most"),
    # Replays that run side by side slow each other down: no merit of a policy.
    Measure("engine_seconds", "time in the engine", "time", best="neither"),
)
_SPREAD: Final = {name for name, _, _ in SPREADS}
MEASURES: Final = (
    *(
        Measure(f"{statistic}_{name}", f"{statistic} {title}", kind)
        for name, title, kind in SPREADS
        for statistic in STATISTICS
    ),
    *SINGLES,
)
MEASURED_HERE: Final = ("engine_seconds",)
"""Measures of this machine, not of the policy: no two runs agree on them, so no Parquet file holds them."""


class Entry(NamedTuple):
    """One measure under one policy; `value` is None where the policy has no such figure.

    `ratio` is to the first policy's figure, None where that one is 0 or missing.
    """

    value: float | None
    ratio: float | None
    best: bool


@dataclass(eq=False)
class Comparison:
    """Outcomes side by side, by label, the first being the one that the others are held against.

    repeated: the summaries under each seed, the first seed's included, by label; of what was run with one
    seed only, nothing. Figures are means over the seeds, and `outcomes` are those of the first seed.
    """

    outcomes: dict[str, Outcome]
    repeated: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    @cached_property
    def rows(self) -> dict[Measure, list[Entry]]:
        """What each measure is under each outcome, in order; without measures that no summary has."""
        summaries = [outcome.summary for outcome in self.outcomes.values()]
        return {
            measure: _entries(
                [self._mean(label, measure.key) for label in self.outcomes], measure.best, self._like
            )
            for measure in MEASURES
            if any(measure.key in summary for summary in summaries)
        }

    @cached_property
    def _like(self) -> list[bool]:
        """Whether each outcome is of the first one's jobs on the first one's cluster."""
        kinds = [_jobs_and_cluster(outcome) for outcome in self.outcomes.values()]
        return [kind == kinds[0] for kind in kinds]

    @property
    def unlike(self) -> list[str]:
        """The outcomes of other jobs than the first one's, or on another cluster: none can be the best."""
        return [label for label, like in zip(self.outcomes, self._like, strict=True) if not like]

    @property
    def seeds(self) -> int:
        """How many seeds each policy was replayed with."""
        return max((len(summaries) for summaries in self.repeated.values()), default=1)

    def spread(self, label: str, key: str) -> tuple[float, float] | None:
        """The least and the greatest value of a measure over the seeds; None without several seeds."""
        values = self._values(label, key)
        return (min(values), max(values)) if len(values) > 1 else None

    def _mean(self, label: str, key: str) -> float | None:
        if label not in self.repeated:
            return self.outcomes[label].summary.get(key)
        values = self._values(label, key)
        return math.fsum(values) / len(values) if values else None

    def _values(self, label: str, key: str) -> list[float]:
        """A measure under each seed of a label; none where a seed lacks it."""
        values = [summary.get(key) for summary in self.repeated.get(label, [])]
        return [] if None in values else [float(value) for value in values if value is not None]

    @property
    def frame(self) -> pl.DataFrame:
        """One row a measure and outcome: measure, policy, value, ratio to the first, best of its measure.

        Times in seconds, utilisation as a share. `value` is null where an outcome has no such figure, `ratio`
        also where the first outcome's is 0; `best` is true for every outcome that has the best value, and for
        none when all have the same or no end of the measure is good (utilisation, time in the engine). Only
        outcomes of the first one's jobs on the first one's cluster are judged. With several seeds `value` is
        their mean, and columns `least` and `greatest` follow, null for a result that was not repeated.
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
        spreads = [
            self.spread(label, measure.key) or (None, None)
            for measure in self.rows
            for label in self.outcomes
        ]
        ends = {name: [spread[end] for spread in spreads] for end, name in enumerate(("least", "greatest"))}
        return frame.with_columns(pl.Series(name, values, pl.Float64) for name, values in ends.items())

    @property
    def plot(self) -> Plots:
        """Charts of these outcomes, overlaid."""
        from ringbco.report.plots import Plots

        return Plots(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels, each measure's values, ratios and best labels, folders, summaries."""
        labels = list(self.outcomes)
        several = self.seeds > 1
        return {
            "policies": labels,
            **({"seeds": self.seeds} if several else {}),
            "measures": {
                measure.key: {
                    "values": {label: entry.value for label, entry in zip(labels, entries, strict=True)},
                    "ratios": {label: entry.ratio for label, entry in zip(labels, entries, strict=True)},
                    "best": [label for label, entry in zip(labels, entries, strict=True) if entry.best],
                    **(
                        {"spread": {label: self.spread(label, measure.key) for label in labels}}
                        if several
                        else {}
                    ),
                }
                for measure, entries in self.rows.items()
            },
            "folders": dict(zip(labels, self._folders(), strict=True)),
            "summaries": {label: outcome.summary for label, outcome in self.outcomes.items()},
            **({"summaries_by_seed": self.repeated} if several else {}),
        }

    def write(
        self, folder: str | os.PathLike[str], *, force: bool = False, report: str | None = None
    ) -> None:
        """Writes a result folder a policy, comparison.parquet and comparison.json, all of it or nothing.

        report: a page to put with them as report.html.

        Raises InputError where `folder` exists (without `force`, or when it is no comparison) and where the
        system refuses to write.
        """
        with whole_folder(folder, force=force, ours=is_comparison) as partial:
            summaries = {
                label: outcome.write(partial / name)
                for name, (label, outcome) in zip(self._folders(), self.outcomes.items(), strict=True)
            }
            steady = self.frame.filter(~pl.col("measure").is_in(MEASURED_HERE))
            write_table(steady, partial / FRAME)
            document = json.dumps({**self.to_dict(), "summaries": summaries}, indent=2)
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
        from ringbco.report.notebook import comparison_html

        return comparison_html(self)


def is_comparison(path: Path) -> bool:
    """Whether `Comparison.write` made `path`; InputError if it holds something else as well."""
    made = (path / DOCUMENT).is_file() and (path / FRAME).is_file()
    return made and holds_only(path, (DOCUMENT, FRAME, REPORT), results=True)


def compare(
    jobs: TableLike,
    cluster: Cluster | str | os.PathLike[str],
    policies: Sequence[str] = (),
    *,
    recorded_cluster: Cluster | str | os.PathLike[str] | None = None,
    runs: Mapping[str, Mapping[str, Any]] | None = None,
    results: Sequence[Outcome | str | os.PathLike[str]] = (),
    seeds: int = 1,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Unpack[Options],
) -> Comparison:
    """Replays `jobs` on `cluster` under each of `policies` and `runs`, several at a time.

    The table is read once, and its profile resolved once a seed.
    runs: settings beside the policies, by label, such as {"sjf-bco, kappa 4": {"policy": "sjf-bco",
        "kappa": 4}}: options of `replay` by its parameters' names, which go before `options`, and `cluster`.
    results: outcomes at hand, or the paths of result folders, which are not run again. A path is its label;
        an outcome has its policy's name for one.
    seeds: how often each replay is repeated, with seed, seed + 1 and so on. Figures are then means over the
        seeds; `outcomes` are those of the first seed.
    recorded_cluster: as for `replay`, of every run. threads: replays at a time, None for one a processor.
    progress: called now and then with (jobs finished, jobs in all) over all replays.
    options: those of `replay`, the same for every policy that uses them; the others do without.

    The policies come first, then the runs, then the results; the first is what the others are held against.

    Raises UsageError for a policy that is unknown or named twice, for a label given twice, and for a demand
    that none of them can meet; InputError for a folder that is no result; otherwise as `replay`, for the
    first run in order that fails. Warns as `replay` does, once.
    """
    wanted = wanted_runs(policies, {} if runs is None else runs, options)
    seeds = integer("seeds", seeds, 1, MOST_SEEDS)
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    labels = [run.label for run in wanted]
    finished = read_results(results, labels)
    checked(options)
    table = as_table(jobs)
    cluster = as_cluster(cluster, recorded_cluster)
    repeats = [run.repeat(number, cluster) for run in wanted for number in range(seeds)]
    workloads = resolve_workloads(table, repeats)
    clusters = dict.fromkeys(one.cluster for one in repeats)
    of_clusters = (doubt for here in clusters for doubt in doubts(None, here))
    warn(dict.fromkeys([*of_clusters, *doubts(table, None)]))
    watch = Watch(len(repeats) * table.num_jobs, progress)

    def run(number: int) -> Outcome | dict[str, Any]:
        tell = watch.part(number)
        one = repeats[number]
        with silently():
            outcome = replay(
                table,
                one.cluster,
                policy=one.policy,
                workload=workloads[one.workload],
                progress=tell,
                **one.options,
            )
        tell(table.num_jobs, table.num_jobs)
        # Of the other seeds only the figures are kept: the tables would fill the memory. They are worked out
        # here, beside other runs.
        figures = outcome.summary
        return outcome if number % seeds == 0 else figures

    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(repeats))) as pool:
        futures = [pool.submit(run, number) for number in range(len(repeats))]
        try:
            ended = [future.result() for future in futures]
        except BaseException:
            # The pool waits for what runs; so that it need not wait long, the rest gives up.
            watch.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    outcomes: dict[str, Outcome] = {}
    repeated: dict[str, list[dict[str, Any]]] = {}
    for number, label in enumerate(labels):
        first, *others = ended[number * seeds : (number + 1) * seeds]
        assert isinstance(first, Outcome)
        outcomes[label] = first
        if others:
            repeated[label] = [first.summary, *(other for other in others if isinstance(other, dict))]
    return Comparison(outcomes | finished, repeated)


def side_by_side(outcomes: Sequence[Outcome]) -> Comparison:
    """A comparison of outcomes at hand, labelled by policy and, where that is not enough, by what differs."""
    return Comparison(dict(zip(_labels(outcomes), outcomes, strict=True)))


def _entries(values: Sequence[float | None], best: str, judged: Sequence[bool]) -> list[Entry]:
    first = values[0]
    told = [value for value, among in zip(values, judged, strict=True) if among and value is not None]
    good = (max if best == "most" else min)(told, default=math.nan)
    differ = best != "neither" and any(not same(value, told[0]) for value in told)
    return [
        Entry(
            None if value is None else float(value),
            value / first if first and value is not None else None,
            differ and among and value is not None and same(value, good),
        )
        for value, among in zip(values, judged, strict=True)
    ]


def _jobs_and_cluster(outcome: Outcome) -> tuple[Any, ...]:
    """What outcomes must share for one to be better: the jobs that ran and their work, servers, network."""
    run: Mapping[str, Any] = outcome.run
    trace, cluster = run.get("trace", {}), run.get("cluster", {})
    # Where the jobs came from no file, their number and what they were called is all that is known.
    source = trace.get("sha256") or trace.get("path")
    ran = outcome.summary.get("jobs"), outcome.summary.get("jobs_refused", 0)
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
