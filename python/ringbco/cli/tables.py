"""Summaries as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ringbco.metrics import STATISTICS
from ringbco.units import duration, figure

_MEASURES: Final = {"wait": "waiting time", "jct": "completion time", "slowdown": "slowdown"}


def summary_tables(summary: Mapping[str, Any]) -> RenderableType:
    """A replay's summary: distribution of times, then the single figures, then one row a virtual cluster."""
    spread = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    spread.add_column("")
    for statistic in STATISTICS:
        spread.add_column(statistic, justify="right")
    for measure, title in _MEASURES.items():
        spread.add_row(title, *(_statistic(summary, statistic, measure) for statistic in STATISTICS))
    parts: list[RenderableType] = [spread, _figures(summary)]
    if summary.get("vcs"):
        parts.append(_virtual_clusters(summary["vcs"]))
    return Group(*parts)


def comparison_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Several policies on the same jobs side by side; the best figure of a row is marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for summary in summaries:
        table.add_column(str(summary["policy"]).upper(), justify="right")
    rows = [
        (f"{statistic} {title}", f"{statistic}_{measure}", measure)
        for measure, title in _MEASURES.items()
        for statistic in ("mean", "median", "p99")
    ]
    for title, key, measure in rows:
        best = min(summary[key] for summary in summaries)
        texts = (_value(measure, summary[key]) for summary in summaries)
        marks = ("bold green" if summary[key] == best else "" for summary in summaries)
        table.add_row(title, *(Text(text, style=mark) for text, mark in zip(texts, marks, strict=True)))
    table.add_section()
    table.add_row("makespan", *(duration(summary["makespan"]) for summary in summaries))
    table.add_row("utilisation", *(f"{summary['utilisation']:.1%}" for summary in summaries))
    table.add_row("jobs over several servers", *(f"{summary['jobs_spread']:,}" for summary in summaries))
    table.add_row("mean contention", *(f"{summary['mean_contention']:.2f}" for summary in summaries))
    return table


def _figures(summary: Mapping[str, Any]) -> Table:
    jobs = f"{summary['jobs']:,}"
    if summary["jobs_dropped"]:
        jobs += f" ({summary['jobs_dropped']:,} larger than the cluster left out)"
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("jobs", jobs)
    table.add_row("makespan", duration(summary["makespan"]))
    table.add_row("utilisation", f"{summary['utilisation']:.1%}")
    table.add_row("jobs over several servers", f"{summary['jobs_spread']:,}")
    table.add_row("mean contention", f"{summary['mean_contention']:.2f} spanning jobs on the busiest server")
    table.add_row(
        "took",
        f"{duration(summary['total_seconds'])} ({duration(summary['engine_seconds'])} in the engine),"
        f" {summary['jobs_per_second']:,.0f} jobs/s",
    )
    return table


def _virtual_clusters(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("virtual cluster")
    for title in ("GPUs", "jobs", "mean wait", "mean completion", "utilisation"):
        table.add_column(title, justify="right")
    for row in rows:
        figures = [f"{row['gpus']:,}", f"{row['jobs']:,}"]
        if row["jobs"]:
            figures += [duration(row["mean_wait"]), duration(row["mean_jct"]), f"{row['utilisation']:.1%}"]
        table.add_row(Text(row["vc"]), *figures)
    return table


def _statistic(summary: Mapping[str, Any], statistic: str, measure: str) -> str:
    return _value(measure, summary[f"{statistic}_{measure}"])


def _value(measure: str, value: float) -> str:
    return figure("number" if measure == "slowdown" else "time", value)
