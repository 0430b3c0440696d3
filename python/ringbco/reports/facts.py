"""A report's tables: what was run, and the headline figures, as texts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from ringbco.errors import InputError
from ringbco.reports.cells import Cell
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.dates import zero_of
from ringbco.result.folder import cluster_of
from ringbco.result.metrics import column
from ringbco.result.outcome import Outcome
from ringbco.result.window import described
from ringbco.run.clairvoyance import foreknowledge
from ringbco.run.options import is_log
from ringbco.units import duration, plain, shared

_NETWORK: Final = {
    "intra_bandwidth": ("inside servers", 1e9, "GB/s"),
    "inter_bandwidth": ("between servers", 1e9 / 8, "Gb/s"),
    "reduce_speed": ("reduction", 1e9, "GB/s"),
    "xi1": ("xi1", 1.0, ""),
    "xi2": ("xi2", 1.0, "s"),
    "alpha": ("alpha", 1.0, ""),
}
_ABSENT: Final = "-"
_OF_THEIR_OWN: Final = ("policy", "order", "placement", "queue", "model", "clock")
# Tables of settings, and what those that are the same for all results are called together.
_TOGETHER: Final = {"network": "network", "options": "other options"}
_UNTOLD: Final = ("command",)


class Fact(NamedTuple):
    """One thing about every result, in the results' order."""

    title: str
    values: tuple[str, ...]

    @property
    def alike(self) -> bool:
        """Whether it is the same of all results."""
        return len(set(self.values)) == 1


class Line(NamedTuple):
    """One measure of every result, all in one unit; "" for none."""

    title: str
    cells: tuple[Cell, ...]
    unit: str = ""

    def headed(self, title: str) -> str:
        """A column's title with the unit of its cells."""
        return f"{title},\N{NO-BREAK SPACE}{self.unit}" if self.unit else title

    def alone(self) -> Cell:
        """The only cell, with its unit beside the figure."""
        (cell,) = self.cells
        return cell._replace(text=f"{cell.text} {self.unit}") if self.unit and cell.text != _ABSENT else cell


def facts(results: Mapping[str, Outcome]) -> list[Fact]:
    """Trace, cluster, policy and options of each run; without those that no run has.

    Of the network and the options, each that differs is a fact of its own, and the rest is one.
    """
    columns = [_of_one(outcome.run, outcome) for outcome in results.values()]
    titles = list(dict.fromkeys(title for column in columns for title in column))
    found: list[Fact] = []
    for title in titles:
        told = [column.get(title, _ABSENT) for column in columns]
        if title in _TOGETHER.values():
            found += _settings(title, [one if isinstance(one, dict) else {} for one in told])
        else:
            found.append(Fact(title, tuple(map(str, told))))
    return found


def _settings(title: str, tables: Sequence[Mapping[str, str]]) -> list[Fact]:
    """What differs among the results' tables of settings, then the rest as one fact."""
    names = dict.fromkeys(name for table in tables for name in table)
    values = {name: tuple(table.get(name, _ABSENT) for table in tables) for name in names}
    same = [f"{name} {told[0]}" for name, told in values.items() if len(set(told)) == 1]
    named = f"{title}: " if title == _TOGETHER["network"] else ""
    differing = [Fact(f"{named}{name}", told) for name, told in values.items() if len(set(told)) > 1]
    rest = title if not differing or not named else f"{title}: the rest"
    return differing + ([Fact(rest, (", ".join(same),) * len(tables))] if same else [])


def _of_one(run: Mapping[str, Any], outcome: Outcome) -> dict[str, str | dict[str, str]]:
    """A run's facts by title; those of `_TOGETHER` as tables of settings."""
    trace, cluster, options = (run.get(table, {}) for table in ("trace", "cluster", "options"))
    submit = column(outcome.jobs, "submit_time")
    name = str(trace.get("path", _ABSENT)).replace("\\", "/").rsplit("/", 1)[-1]
    digest = f", SHA-256 {trace['sha256'][:16]}…" if trace.get("sha256") else ""
    told: dict[str, str | dict[str, str]] = {
        "trace": f"{name}: {trace.get('rows', 0):,} rows{digest}",
        "submissions": f"over {duration(float(submit.max() - submit.min()))}",
        "jobs": _jobs(outcome),
        "cluster": cluster_text(cluster),
        "recorded on": _recorded(run),
        _TOGETHER["network"]: _network(cluster.get("network", {})),
    }
    given = {key: plain(value) for key, value in options.items() if key not in _UNTOLD and value is not None}
    told |= {key: given.pop(key) for key in _OF_THEIR_OWN if key in given}
    if options:
        read = foreknowledge(run)
        told["clairvoyant"] = f"yes: {', '.join(read)}" if read else "no"
        if is_log(str(options.get("policy"))):
            told["clairvoyant"] = "as the run that wrote the log"
    if own := run.get("own_policy"):
        fields = ", ".join(f"{name} = {plain(value)}" for name, value in own.get("parameters", {}).items())
        told["custom policy"] = "; ".join(filter(None, (own.get("about"), own.get("kind"), fields)))
    if given:
        told[_TOGETHER["options"]] = given
    if run.get("warnings"):
        told["warnings"] = "; ".join(run["warnings"])
    versions = run.get("ringbco", {})
    told["made by"] = f"ringbco {versions.get('version', _ABSENT)}, Python {versions.get('python', _ABSENT)}"
    return told


def cluster_text(cluster: Mapping[str, Any]) -> str:
    """A cluster's name and how large it is."""
    groups = cluster.get("servers", [])
    servers = sum(group["count"] for group in groups)
    gpus = sum(group["count"] * group["gpus"] for group in groups)
    vcs = len({group["vc"] for group in groups if group.get("vc")})
    text = f"{cluster.get('name', _ABSENT)}: {gpus:,} GPUs in {servers:,} servers"
    return text + (f", {vcs} virtual clusters" if vcs else "")


def _recorded(run: Mapping[str, Any]) -> str:
    """The cluster on which the trace was recorded: what the work of its jobs follows from."""
    if "recorded" not in run.get("cluster", {}):
        return _ABSENT  # results of earlier versions
    try:
        return cluster_of(run).recorded_on.description
    except InputError:  # a damaged record, which the audit tells
        return _ABSENT


def _jobs(outcome: Outcome) -> str:
    """How many ran, and how many did not, of which no figure and no chart knows."""
    fates = {
        "jobs_refused": "refused",
        "jobs_ended": "ended before completion",
        "jobs_dropped": "dropped as too large",
    }
    counts = {why: outcome.summary.get(key, 0) for key, why in fates.items()}
    window = described(outcome.summary, zero_of(outcome))
    measured = f", figures cover the {outcome.summary.get('jobs', 0):,} {window}" if window else ""
    return f"{outcome.jobs.height:,} ran{measured}" + "".join(
        f", {count:,} {why}" for why, count in counts.items() if count
    )


def _network(network: Mapping[str, float]) -> dict[str, str]:
    return {
        title: f"{network[key] / scale:g} {unit}".strip()
        for key, (title, scale, unit) in _NETWORK.items()
        if key in network
    }


def runs(comparison: Comparison) -> list[Fact]:
    """How many runs each result's figures are of, and their seeds; nothing where all were run once."""
    if comparison.runs == 1:
        return []
    return [Fact("runs", tuple(_runs(comparison, label) for label in comparison.outcomes))]


def _runs(comparison: Comparison, label: str) -> str:
    count = len(comparison.summaries_by_run.get(label, ())) or 1
    first = comparison.outcomes[label].run.get("options", {}).get("seed")
    if not isinstance(first, int):
        return f"{count:,}"
    return f"{count:,}, seed {first}" + (f" to {first + count - 1}" if count > 1 else "")


def _interval(ends: tuple[float, float] | None, written: Callable[[float], str]) -> tuple[str, ...]:
    """The line below a figure of several runs; "always" where all of them are alike."""
    if ends is None:
        return ()
    least, greatest = map(written, ends)
    return ("always" if least == greatest else f"{least} to {greatest}",)


def headline(results: Comparison | Mapping[str, Outcome]) -> list[list[Line]]:
    """The comparison's figures by group: completion, waiting, slowdown, then the single ones."""
    comparison = as_comparison(results)
    labels = list(comparison.outcomes)
    lines = []
    shown = comparison.display_rows
    for measure, entries in shown.items():
        ends = {label: comparison.figure(label, measure.key).interval for label in labels}
        # A table of one result has a column for all statistics of a kind.
        one = len(labels) == 1 and measure.spread
        told = [own for other, own in shown.items() if other == measure or (one and other.spread == one)]
        values = (entry.value for own in told for entry in own if entry.value is not None)
        unit, written = shared(measure.unit, values)
        cells = tuple(
            Cell(
                "-" if entry.value is None else written(entry.value),
                f"\N{MULTIPLICATION SIGN}{entry.ratio:.2f}"
                if entry.ratio is not None
                and math.isfinite(entry.ratio)
                and label != comparison.baseline_label
                else "",
                _interval(ends[label], written),
                best=entry.best,
            )
            for label, entry in zip(labels, entries, strict=True)
        )
        lines.append((measure.spread, Line(measure.title, cells, unit)))
    return [[line for _, line in group] for _, group in groupby(lines, key=lambda pair: pair[0])]
