"""`ringbco inspect --html`: what is in a job table as one page, its charts drawn when it is made."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

import ringbco
from ringbco.reports.cells import Cell, Table
from ringbco.reports.digits import number, percent, time
from ringbco.reports.html import document
from ringbco.reports.series import Figure
from ringbco.reports.series import legend as legend_of
from ringbco.reports.sheet import panels
from ringbco.reports.style import shown

_MOST_ROWS: Final = 40
_GLANCE: Final = 4
_SPREAD: Final = ("mean", "min", "median", "p90", "p99", "max")
_COLUMNS: Final = 3  # of a legend above a chart


class _Drawn(NamedTuple):
    """A chart that is a description already."""

    spec: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return self.spec


def inspect_page(
    frame: pl.DataFrame, inspection: Mapping[str, Any], *, title: str, said: Sequence[str]
) -> str:
    """The page as text. frame, inspection: as for `panels`. said: the sentences that it begins with."""
    charts = [_figure(chart) for row in panels(frame, inspection) for chart in row]
    drawn = [shown(figure) for figure in charts]
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


def _figure(chart: Any) -> Figure:
    """A panel of the sheet as a figure of a page: its title and its size are the page's."""
    spec: dict[str, Any] = chart.to_dict()
    inner = spec["layer"][0] if "title" not in spec and "layer" in spec else spec
    title = inner.pop("title", None) or next(one.pop("title") for one in spec["layer"] if "title" in one)
    height = spec.pop("height", 220)
    for name in ("width", "config", "$schema"):
        spec.pop(name, None)
    _legends_above(spec)
    data: list[Any] = max(spec.get("datasets", {}).values(), key=len, default=[])
    return Figure(
        re.sub(r"[^a-z0-9]+", "-", title.partition(":")[0].partition(" (")[0].lower())[:40].strip("-"),
        title,
        "",
        _Drawn(spec),
        height=height,
        data=pl.DataFrame(data, infer_schema_length=None) if data else None,
    )


def _legends_above(spec: Any) -> None:
    """Puts every legend above its chart, where a narrow page has room for it."""
    for value in spec.values() if isinstance(spec, dict) else spec:
        if isinstance(value, dict | list):
            _legends_above(value)
    legend = spec.get("legend") if isinstance(spec, dict) else None
    if legend:
        spec["legend"] = legend_of(spec["scale"]["domain"], _COLUMNS).to_dict()


def _spreads(inspection: Mapping[str, Any]) -> Table:
    rows = []
    for title, key in (("run time", "duration"), ("next job after", "interarrival")):
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
