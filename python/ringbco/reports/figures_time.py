"""A report's charts over time: utilisation, queue, contention, and contention on each server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl
from numpy.typing import NDArray

from ringbco.reports import charts
from ringbco.reports.series import MOST_BESIDE, WINDOW, Figure, chosen, short, strokes
from ringbco.reports.server_load import mean_spanning, server_gpus
from ringbco.result.outcome import Outcome

DAY: Final = 86_400.0
# Of a server without a spanning job, with one, which meets no contention, and with most of them.
_DARKNESS: Final = (0.06, 0.25, 1.0)
_CELLS: Final = 6_000  # of all heat maps of a page together
_COLUMNS: Final = 96
_MOST_ROWS: Final = 32
_FEWEST_ROWS: Final = 4
ZOOM: Final = "Drag to move, hold Ctrl and turn the wheel to zoom, double-click to return."


def over_time(results: Mapping[str, Outcome]) -> list[Figure]:
    """Utilisation, queue and contention, on the same axis of time."""
    shares = {
        label: replace(outcome, timeline=outcome.timeline.with_columns(share=_busy(outcome)))
        for label, outcome in results.items()
    }
    return [
        Figure(
            "utilisation",
            "Utilisation over time",
            "GPUs held by jobs, of all. The axis ends when the last job was submitted and no result had a"
            f" queue any more.{_stretches(results)}",
            lines(shares, "share", "GPUs held", number="%", ceiling=1.0),
            height=170,
            handling=ZOOM,
        ),
        Figure(
            "queue",
            "Queue over time",
            "GPUs that the waiting jobs ask for.",
            lines(results, "queued_gpus", "GPUs asked for", number=",.0f"),
            height=170,
        ),
        Figure(
            "contention",
            "Contention over time",
            "Mean over the jobs on several servers of the number of such jobs on the busiest of its servers,"
            " itself included; 0 while there is none.",
            lines(results, "mean_contention", "mean contention", number=",.2f"),
            height=170,
        ),
    ]


def _stretches(results: Mapping[str, Outcome]) -> str:
    """What the page says of charts over time that average over longer stretches than usual."""
    each = charts.stretches_each(len(results))
    return f" Means over {each} even stretches." if each < charts.stretches_each(1) else ""


def _busy(outcome: Outcome) -> pl.Expr:
    return pl.col("busy_gpus") / max(sum(server_gpus(outcome)), 1)


def lines(
    results: Mapping[str, Outcome],
    column: str,
    title: str,
    *,
    number: str,
    ceiling: float | None = None,
    among: Mapping[str, Outcome] | None = None,
) -> Any:
    """A line a result: means of a timeline column. among: all results of the page, where some have none."""
    base = charts.over_time(results, column, "", unit=title)
    results = results if among is None else among
    scale = alt.Scale(domainMin=0, nice=True) if ceiling is None else alt.Scale(domain=[0, ceiling])
    line = base.copy()
    line.title = alt.Undefined
    line.data = short(base.data.select("policy", "day", "value"))
    line = line.encode(
        y=alt.Y("value:Q", title=title, scale=scale).axis(tickCount=5, format=number, minExtent=44),
        **strokes(results),
    )
    tips = line.mark_point(opacity=0, size=60).encode(
        tooltip=[
            "policy",
            alt.Tooltip("day", format=",.2f"),
            alt.Tooltip("value", format=number if number != "%" else ".1%", title=title),
        ]
    )
    # The wheel alone must scroll the page.
    zoom = alt.selection_interval(
        name=WINDOW, bind="scales", encodings=["x"], zoom="wheel![event.ctrlKey]", clear="dblclick"
    )
    clipped = line.mark_line(clip=True, strokeWidth=1.5, strokeJoin="round", opacity=0.85).add_params(zoom)
    return chosen(alt.layer(clipped, tips), results)


def by_server(results: Mapping[str, Outcome]) -> Iterator[Figure]:
    """Spanning jobs on each server over time: a heat map each of the results that recorded allocations."""
    there = {label: outcome for label, outcome in results.items() if outcome.allocations is not None}
    if not there:
        return
    results = dict(islice(there.items(), MOST_BESIDE))
    others = "" if len(there) == len(results) else f" The first {len(results)} results of {len(there)} only."
    start_end = spans(results)
    rows = int(np.clip(_CELLS / _COLUMNS / len(results), _FEWEST_ROWS, _MOST_ROWS))
    grids = {}
    for label, outcome in results.items():
        assert outcome.allocations is not None
        servers = len(server_gpus(outcome))
        each = mean_spanning(outcome.allocations, servers, np.linspace(*start_end[label], _COLUMNS + 1))
        edges = _edges(servers, rows)
        grids[label] = (edges, np.add.reduceat(each, edges[:-1], axis=0) / np.diff(edges)[:, None])
    top = max(float(grid.max()) for _, grid in grids.values())
    for label, (edges, grid) in grids.items():
        title = f"Contention on each server{f': {label}' if len(results) > 1 else ''}"
        figure = Figure(f"servers-{list(results).index(label) + 1}", title, others, chart=None, of=label)
        yield _heat_map(figure, grid, edges, span=start_end[label], top=top)


def spans(results: Mapping[str, Outcome]) -> dict[str, tuple[float, float]]:
    """First and last instant of each result's heat map: as many seconds as the charts over time show."""
    seconds = max(charts.last_demand(outcome) - outcome.timeline["time"][0] for outcome in results.values())
    return {
        label: (outcome.timeline["time"][0], outcome.timeline["time"][0] + seconds)
        for label, outcome in results.items()
    }


def _edges(servers: int, most: int) -> NDArray[np.int64]:
    """The first server of each of at most `most` rows of neighbouring servers, and the end of the last.

    Rows of the same number of servers where that takes at most half more than needed, else of two numbers
    that differ by one: a row of far fewer servers than the others is averaged less, and would stand out.
    """
    needed = max(1, -(-servers // most))
    even = (each for each in range(needed, needed + needed // 2 + 1) if servers % each == 0)
    each = next(even, needed)
    rows = max(1, servers // each)
    return np.arange(rows + 1, dtype=np.int64) * servers // rows


def _heat_map(
    figure: Figure,
    grid: NDArray[np.float64],
    edges: NDArray[np.int64],
    *,
    span: tuple[float, float],
    top: float,
) -> Figure:
    """The figure with its chart, of a grid of rows of servers by stretches of `span`, darkest at `top`."""
    servers, sizes = int(edges[-1]), sorted({int(size) for size in np.diff(edges)})
    row, place = np.nonzero(grid)
    step = (span[1] - span[0]) / _COLUMNS / DAY
    data = pl.DataFrame(
        {
            "row": edges[row],
            "end_row": edges[row + 1],
            "day": place * step,
            "end_day": (place + 1) * step,
            "jobs": grid[row, place],
        },
        schema_overrides={"row": pl.Int64, "end_row": pl.Int64},
    ).with_columns(
        servers=pl.format("{}\N{EN DASH}{}", "row", pl.col("end_row") - 1)
        if sizes != [1]
        else pl.col("row").cast(pl.String)
    )
    domain = [0.0, 1.0, top] if top > 1 else [0.0, 1.0]
    chart = (
        alt.Chart(short(data))
        .mark_rect(color="#D55E00")
        .encode(
            x=alt.X("day:Q", title="days since the first submission")
            .axis(grid=False)
            .scale(domain=[0, step * _COLUMNS], nice=False),
            x2="end_day:Q",
            y=alt.Y("row:Q", title="server")
            .axis(grid=False, minExtent=44, tickMinStep=1, format="d")
            .scale(domain=[0, servers], reverse=True, nice=False),
            y2="end_row:Q",
            opacity=alt.Opacity("jobs:Q", title="spanning jobs")
            .scale(domain=domain, range=list(_DARKNESS[: len(domain)]))
            .legend(orient="top", direction="horizontal", tickCount=4),
            tooltip=[
                alt.Tooltip("servers", title="server" if sizes == [1] else "servers"),
                alt.Tooltip("day", format=",.2f"),
                alt.Tooltip("jobs", format=",.2f", title="spanning jobs, mean"),
            ],
        )
    )
    among = (
        f" and over {' or '.join(f'{size:,}' for size in sizes)} neighbouring servers" if sizes != [1] else ""
    )
    return replace(
        figure,
        note=f"Jobs that span servers and hold GPUs on this one, mean over time{among}; blank where none,"
        " pale up to 1 (alone)." + figure.note,
        chart=chart,
        height=int(np.clip(servers * 4, 70, 190)),
    )
