"""Summaries as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ringbco.result.figures import SPREADS, TIME_TO_START, lines, rows_of, waits_again
from ringbco.result.metrics import STATISTICS
from ringbco.units import duration, figure

if TYPE_CHECKING:
    from ringbco.result.rows import Scope


def summary_tables(summary: Mapping[str, Any]) -> RenderableType:
    """A replay's summary: times, single figures, one row a gang size, a GPU type, a virtual cluster."""
    spread = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    spread.add_column("")
    for statistic in STATISTICS:
        spread.add_column(statistic, justify="right")
    again = waits_again(summary)
    for name, title, _, unit in SPREADS:
        if again or name != TIME_TO_START:
            values = [summary[f"{statistic}_{name}"] for statistic in STATISTICS]
            spread.add_row(title, *(figure(unit, value) for value in values))
    parts: list[RenderableType] = [spread, _figures(summary)]
    if len(summary["size_classes"]) > 1:
        parts.append(_parts("class", summary["size_classes"]))
    if len(summary.get("gpu_types", ())) > 1:
        parts.append(_parts("type", summary["gpu_types"]))
    if summary.get("vcs"):
        parts.append(_parts("vc", summary["vcs"]))
    return Group(*parts)


def _figures(summary: Mapping[str, Any]) -> Table:
    dropped = summary["jobs_dropped"]
    table = Table(box=None, show_header=False, pad_edge=False)
    left_out = f" ({dropped:,} larger than the cluster left out)" if dropped else ""
    table.add_row("jobs", f"{summary['jobs']:,}{left_out}")
    for title, value in lines(summary):
        table.add_row(Text(title), value)
    table.add_row(
        "took",
        f"{duration(summary['total_seconds'])} ({duration(summary['engine_seconds'])} in the engine),"
        f" {summary['jobs_per_second']:,.0f} jobs/s",
    )
    return table


def _parts(scope: Scope, parts: Sequence[Mapping[str, Any]]) -> Table:
    """One row per part of the run: the name it goes by, and its most telling figures."""
    first, *others = (row for row in rows_of(scope) if any(row.key in part for part in parts))
    most = scope == "type"
    told = {row.key for row in others if most or row.shown_in == "headline"} - {"servers"} | {"gpus", "jobs"}
    shown = [row for row in others if row.unit and row.key in told]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(first.title)
    for row in shown:
        # One word a line: the figures are narrower than their titles.
        table.add_column(row.title.replace(" ", "\n"), justify="right")
    for part in parts:
        table.add_row(Text(part[first.key]), *(row.show(part.get(row.key), whole=most) for row in shown))
    return table
