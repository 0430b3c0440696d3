"""`ringbco inspect --html`: what is in a job table as one page, its charts drawn when it is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.reports.cells import Cell, Table
from ringbco.reports.html import document
from ringbco.reports.sheet import figures
from ringbco.reports.style import render_chart
from ringbco.units import number, percent, time

_MOST_ROWS: Final = 40
_GLANCE: Final = 4
_SPREAD: Final = ("mean", "min", "median", "p90", "p99", "max")


def inspect_page(
    frame: pl.DataFrame, inspection: Mapping[str, Any], *, title: str, said: Sequence[str]
) -> str:
    """The page as text. frame, inspection: as for `figures`. said: the sentences that it begins with."""
    drawn = [render_chart(figure) for figure in figures(frame, inspection)]
    return document(
        "inspect",
        title=title,
        answers=[*said, *_over(inspection)],
        glance=drawn[:_GLANCE],
        figures=drawn[_GLANCE:],
        tables=[_spreads(inspection), _sizes(inspection)],
        version=ringbco.__version__,
    )


def _over(inspection: Mapping[str, Any]) -> list[str]:
    """How full the fullest days are."""
    cluster = inspection["cluster"]
    if not cluster or not cluster["load_by_day"]:
        return []
    days = cluster["load_by_day"]
    most = f"the fullest day brings {percent(days['max'])} of what the cluster can do in a day"
    return [f"Load by day: {most}; the median day {percent(days['median'])}."]


def _spreads(inspection: Mapping[str, Any]) -> Table:
    rows = []
    for title, key in (("run time", "duration"), ("interarrival time", "interarrival")):
        if inspection[key]:
            rows.append([Cell(title), *(Cell(time(inspection[key][name])) for name in _SPREAD)])
    rows.append([Cell("GPUs"), *(Cell(number(inspection["num_gpus"][name])) for name in _SPREAD)])
    return Table("Run times, gaps and GPUs", ["", *_SPREAD], rows)


def _sizes(inspection: Mapping[str, Any]) -> Table:
    rows = [
        [
            Cell(f"{group['num_gpus']:,}"),
            Cell(f"{group['jobs']:,}"),
            *(Cell(percent(group[share])) for share in ("share", "work_share")),
            *(Cell(time(group[run])) for run in ("median_duration", "mean_duration")),
        ]
        for group in inspection["sizes"][:_MOST_ROWS]
    ]
    more = len(inspection["sizes"]) - len(rows)
    caption = "Jobs by GPUs" + (f"; {more:,} more sizes are larger" if more > 0 else "")
    columns = ["GPUs", "jobs", "share", "share of work", "median run", "mean run"]
    return Table(caption, columns, rows)
