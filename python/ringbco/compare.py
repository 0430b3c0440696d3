"""Several policies on the same jobs: replayed side by side, then held against the first of them."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Event, Lock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import polars as pl

from ringbco import profiles
from ringbco.cluster import Cluster
from ringbco.errors import UsageError
from ringbco.jobs import TableLike, as_table
from ringbco.metrics import STATISTICS
from ringbco.options import MOST_THREADS, RunOptions, as_cluster, check_callback, integer, refusal
from ringbco.outcome import Outcome, holds_only, whole_folder, write_table
from ringbco.replay import replay
from ringbco.scheduling import fit
from ringbco.units import Kind, figure

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


SPREADS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("jct", "completion time", "time"),
    ("wait", "waiting time", "time"),
    ("slowdown", "slowdown", "number"),
    ("bounded_slowdown", "bounded slowdown", "number"),
)
SINGLES: Final = (
    Measure("makespan", "makespan", "time"),
    # GPUs held: contention and resuming hold them longer, so more of it may be waste.
    Measure("utilisation", "utilisation", "share", best="neither"),
    Measure("mean_contention", "mean contention", "number"),
    Measure("jobs_spread", "jobs over several servers", "count"),
    Measure("worst_finish_time_fairness", "worst finish-time fairness", "number"),
    Measure("jain_index_users", "Jain's index over users", "index", best="most"),
    Measure("preemptions", "preemptions", "count"),
    Measure("lost_gpu_seconds", "GPU time lost to them", "time"),
    Measure("deadlines_met", "deadlines met", "share", best="most"),
    Measure("engine_seconds", "time in the engine", "time"),
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
    """Outcomes side by side, by label, the first being the one that the others are held against."""

    outcomes: dict[str, Outcome]

    @cached_property
    def rows(self) -> dict[Measure, list[Entry]]:
        """What each measure is under each outcome, in order; without measures that no summary has."""
        summaries = [outcome.summary for outcome in self.outcomes.values()]
        return {
            measure: _entries([summary.get(measure.key) for summary in summaries], best)
            for measure, best in self._judged()
            if any(measure.key in summary for summary in summaries)
        }

    def _judged(self) -> Iterator[tuple[Measure, str]]:
        """Each measure and which end of it is good; shares of unlike numbers of jobs have none."""
        refused = {outcome.summary.get("jobs_refused", 0) for outcome in self.outcomes.values()}
        for measure in MEASURES:
            unlike = measure.key == "deadlines_met" and len(refused) > 1
            yield measure, "neither" if unlike else measure.best

    @property
    def frame(self) -> pl.DataFrame:
        """One row a measure and outcome: measure, policy, value, ratio to the first, best of its measure.

        Times in seconds, utilisation as a share. `value` is null where an outcome has no such figure, `ratio`
        also where the first outcome's is 0; `best` is true for every outcome that has the best value, and for
        none when all have the same or no end of the measure is good (utilisation).
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
        return pl.DataFrame(rows, schema=schema, orient="row")

    @property
    def plot(self) -> Plots:
        """Charts of these outcomes, overlaid."""
        from ringbco.report.plots import Plots

        return Plots(self.outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: labels, each measure's values, ratios and best labels, folders, summaries."""
        labels = list(self.outcomes)
        return {
            "policies": labels,
            "measures": {
                measure.key: {
                    "values": {label: entry.value for label, entry in zip(labels, entries, strict=True)},
                    "ratios": {label: entry.ratio for label, entry in zip(labels, entries, strict=True)},
                    "best": [label for label, entry in zip(labels, entries, strict=True) if entry.best],
                }
                for measure, entries in self.rows.items()
            },
            "folders": dict(zip(labels, self._folders(), strict=True)),
            "summaries": {label: outcome.summary for label, outcome in self.outcomes.items()},
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
            name = re.sub(r"[^\w.=-]+", "-", label).strip(".-") or str(number)
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
    policies: Sequence[str],
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> Comparison:
    """Replays `jobs` on `cluster` under each of `policies`, several at a time.

    The table is read and its profile resolved once. threads: replays at a time, None for one a processor.
    progress: called now and then with (jobs finished, jobs in all) over all replays. options: those of
    `replay`, the same for every policy that uses them; the others do without.

    Raises UsageError for a policy that is unknown or named twice, and for a demand that none of them can
    meet; otherwise as `replay`, for the first policy in order that fails.
    """
    if isinstance(policies, str) or not isinstance(policies, Sequence):
        raise refusal("policies", policies, "a list of names")
    twice = [policy for policy in policies if list(policies).count(policy) > 1]
    if twice:
        raise UsageError(f"option policy: {twice[0]!r}: expected each policy once")
    if not policies:
        raise UsageError("option policy: expected at least one")
    if threads is not None:
        threads = integer("threads", threads, 1, MOST_THREADS)
    check_callback(progress)
    common = RunOptions.of(options)
    own = dict(zip(policies, fit(policies, options), strict=True))
    table = as_table(jobs)
    cluster = as_cluster(cluster)
    workload = profiles.resolve(table, cluster, model=common.model, seed=common.seed)
    watch = _Watch(len(policies) * table.num_jobs, progress)

    def run(policy: str) -> Outcome:
        tell = watch.part(policy)
        outcome = replay(table, cluster, policy=policy, workload=workload, progress=tell, **own[policy])
        tell(table.num_jobs, table.num_jobs)
        return outcome

    with ThreadPoolExecutor(min(threads or os.cpu_count() or 1, len(policies))) as pool:
        futures = [pool.submit(run, policy) for policy in policies]
        try:
            outcomes = [future.result() for future in futures]
        except BaseException:
            # The pool waits for what runs; so that it need not wait long, the rest gives up.
            watch.stop()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return Comparison(dict(zip(policies, outcomes, strict=True)))


def side_by_side(outcomes: Sequence[Outcome]) -> Comparison:
    """A comparison of outcomes at hand, labelled by policy and, where that is not enough, by what differs."""
    return Comparison(dict(zip(_labels(outcomes), outcomes, strict=True)))


def _entries(values: Sequence[float | None], best: str) -> list[Entry]:
    first, told = values[0], [value for value in values if value is not None]
    good = max(told) if best == "most" else min(told)
    differ = best != "neither" and any(not _same(value, told[0]) for value in told)
    return [
        Entry(
            None if value is None else float(value),
            value / first if first and value is not None else None,
            differ and value is not None and _same(value, good),
        )
        for value in values
    ]


def _same(one: float, other: float) -> bool:
    """Whether nothing but rounding tells the figures apart."""
    return math.isclose(one, other, rel_tol=1e-9)


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


class _Watch:
    """One progress over several replays, and a way to stop them all."""

    def __init__(self, total: int, progress: Callable[[int, int], None] | None) -> None:
        self._total = total
        self._progress = progress
        self._done: dict[str, int] = {}
        self._lock = Lock()
        self._stopped = Event()

    def stop(self) -> None:
        """Lets every replay end with an exception the next time it tells its progress."""
        self._stopped.set()

    def part(self, name: str) -> Callable[[int, int], None]:
        """The progress callback of one replay."""

        def tell(done: int, _total: int) -> None:
            if self._stopped.is_set():
                raise InterruptedError("another replay failed, or all were interrupted")
            with self._lock:
                self._done[name] = done
                if self._progress is not None:
                    self._progress(sum(self._done.values()), self._total)

        return tell
