"""The lanes of a timeline as a picture: a row a GPU, a bar a job, coloured by contention.

A share is a bar as high as the part of the GPU that it is; where others lie between, in pieces.
"""

from __future__ import annotations

from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.errors import UsageError
from ringbco.reports.cluster_state import cluster_state
from ringbco.reports.lanes import EVICTED, LEVELS, REPLICA, RESIZED, assign_lanes, held_rows
from ringbco.reports.outage_bars import down_times
from ringbco.reports.server_load import server_gpus
from ringbco.reports.share_lanes import assign_shares
from ringbco.reports.window import Window
from ringbco.result.outcome import Outcome
from ringbco.trace.shares import WHOLE
from ringbco.units import duration

MOST_BARS: Final = 20_000
MOST_LANES: Final = 512
_COLOURS: Final = ("#9fc7a8", "#f0d264", "#efa245", "#d6562b", "#8c1d18")
_MET: Final = ("0", "1", "2", "3 to 4", "5 or more")
_DOWN: Final = "server down"
_LEGEND: Final = (
    f"indexof({[_DOWN, REPLICA, EVICTED, RESIZED]}, datum.label) >= 0 ? datum.label : datum.label + ' (' + {{"
    + ", ".join(f"'{level}': '{met}'" for level, met in zip(LEVELS, _MET, strict=True))
    + "}[datum.label] + ')'"
)
_STROKE: Final = 0.004  # of the window: some 3 of its 860 pixels
_PERIODS: Final = ((172_800.0, 86_400.0, "days"), (7_200.0, 3_600.0, "hours"), (120.0, 60.0, "minutes"))


def lanes_chart(outcome: Outcome, window: Window) -> Any:
    """The window of a result, with the queue and the mean contention above the lanes.

    Raises UsageError for more than can be told apart: over 20,000 bars or 512 GPUs.
    """
    sizes = server_gpus(outcome)
    tops = dict(zip(window.servers, _tops([sizes[server] for server in window.servers]), strict=True))
    lanes = sum(sizes[server] for server in window.servers)
    down = _down(outcome, window, tops, sizes)
    held = _bars(outcome, window, tops)
    bars = pl.concat((held.drop("evicted", "resized"), _marks(held, window), down), how="vertical_relaxed")
    if bars.height > MOST_BARS or lanes > MOST_LANES:
        raise UsageError(
            f"{bars.height:,} bars on {lanes:,} GPUs: expected at most {MOST_BARS:,} on {MOST_LANES:,};"
            " cut it by --from, --to or --servers"
        )
    unit, name = _unit(window.end - window.start)
    origin, since = _origin(outcome, window)
    ends = [(window.start - origin) / unit, (window.end - origin) / unit]
    time_scale = alt.Scale(domain=ends, nice=False)
    bars = bars.with_columns(start=(pl.col("start") - origin) / unit, end=(pl.col("end") - origin) / unit)
    names = pl.DataFrame(
        {
            "middle": [tops[server] + sizes[server] / 2 for server in window.servers],
            "name": [f"server {server}" for server in window.servers],
        }
    )
    scale = alt.Scale(domain=[0, lanes + len(tops) - 1], reverse=True, nice=False)
    shared = outcome.allocations is not None and "gpu" in outcome.allocations.columns
    row_height = max(4.0, min(22.0 if shared else 11.0, 560 / max(lanes, 1)))
    drawn = (
        alt.Chart(bars)
        # On the grey of a GPU that is free, white would hide the shortest jobs.
        .mark_rect(stroke="#666" if shared else "white", strokeWidth=0.3 if shared else 0.6)
        .encode(
            x=alt.X("start:Q", title=f"{name} since {since}", scale=time_scale).axis(grid=False),
            x2="end:Q",
            y=alt.Y("top:Q", scale=scale, axis=None),
            y2="bottom:Q",
            color=alt.Color("level:N", scale=_scale(outcome)).legend(
                title="largest contention p_j met by the job", orient="bottom", labelExpr=_LEGEND
            ),
        )
    )
    titles = (
        alt.Chart(names)
        .mark_text(align="right", baseline="middle", fontSize=11, color="#333")
        .encode(x=alt.value(-8), y=alt.Y("middle:Q", scale=scale, axis=None), text="name:N")
    )
    height = row_height * lanes + 2 * len(tops)
    state = cluster_state(outcome, window)
    above = [
        _counter(_steps(state[column], window, origin, unit), time_scale, title)
        for column, title in (("queued_jobs", "jobs waiting"), ("mean_contention", "mean contention"))
    ]
    layers = [drawn, titles]
    if shared:
        below, over = _rows(window, sizes, tops, scale)
        layers = [below, drawn, over, titles]
    lower = alt.layer(*layers).properties(width=860, height=height)
    return (
        alt.vconcat(*above, lower, spacing=8)
        .properties(padding=18, background="white")
        .configure(font="Liberation Sans, Helvetica, Arial, sans-serif")
        .configure_view(stroke="#ddd")
        .configure_axis(titleFontWeight="normal", labelFontSize=11)
        .configure_legend(titleFontWeight="normal", symbolStrokeWidth=0)
    )


def _rows(window: Window, sizes: list[int], tops: dict[int, int], scale: alt.Scale) -> tuple[Any, Any]:
    """The GPUs themselves, for bars that leave some of them free: what goes under the bars and over them."""
    tall = [tops[server] + gpu for server in window.servers for gpu in range(sizes[server])]
    rows = pl.DataFrame({"top": tall}, schema={"top": pl.Int64}).with_columns(bottom=pl.col("top") + 1)
    base = alt.Chart(rows).encode(y=alt.Y("top:Q", scale=scale, axis=None), y2="bottom:Q")
    return base.mark_rect(color="#f1f1f1"), base.mark_rect(filled=False, stroke="#666", strokeWidth=0.5)


def _tops(sizes: list[int]) -> list[int]:
    """Where each server's first lane is, one row free between servers."""
    tops, at = [], 0
    for size in sizes:
        tops.append(at)
        at += size + 1
    return tops


def _bars(outcome: Outcome, window: Window, tops: dict[int, int]) -> pl.DataFrame:
    frame = held_rows(outcome, window.servers)
    if "gpu" in frame.columns:
        part: type[pl.DataType] = pl.Float64
        taken: list[tuple[int, int, float, float]] = [
            (held.row, held.server, held.gpu + first / WHOLE, width / WHOLE)
            for held in assign_shares(frame, outcome)
            for first, width in held.spans
        ]
    else:
        part, taken = pl.Int64, [*assign_lanes(frame, outcome)]
    lanes = pl.DataFrame(
        taken, schema={"row": pl.UInt32, "server": pl.Int64, "first": part, "width": part}, orient="row"
    )
    # A stay that goes on after the window has not been evicted in it, nor one resized that began before.
    inside = (pl.col("ended") == "evicted").fill_null(False) & (pl.col("end") <= window.end)
    began = pl.col("before").is_not_null() & (pl.col("start") >= window.start)
    rows = frame.with_columns(evicted=inside, resized=began).with_row_index("row")
    kept = window.cut(rows).select("row", "start", "end", "level", "evicted", "resized")
    return (
        lanes.join(kept, on="row", maintain_order="left")
        .with_columns(top=pl.col("server").replace_strict(tops, return_dtype=pl.Int64) + pl.col("first"))
        .select(
            "start",
            "end",
            "top",
            bottom=pl.col("top") + pl.col("width"),
            level=pl.col("level").replace_strict(dict(enumerate((*LEVELS, REPLICA))), return_dtype=pl.String),
            evicted="evicted",
            resized="resized",
        )
    )


def _marks(held: pl.DataFrame, window: Window) -> pl.DataFrame:
    """Strokes within bars: at the end of one that an eviction ended, at the start of one by a resize."""
    wide = _STROKE * (window.end - window.start)
    ends = held.filter("evicted").select(
        pl.max_horizontal("start", pl.col("end") - wide), "end", "top", "bottom", level=pl.lit(EVICTED)
    )
    begins = held.filter("resized").select(
        "start",
        pl.min_horizontal("end", pl.col("start") + wide / 2),
        "top",
        "bottom",
        level=pl.lit(RESIZED),
    )
    return pl.concat((ends, begins))


def _down(outcome: Outcome, window: Window, tops: dict[int, int], sizes: list[int]) -> pl.DataFrame:
    """A bar over all GPUs of a server for every outage."""
    first = pl.col("server").replace_strict(tops, return_dtype=pl.Int64)
    size = pl.col("server").replace_strict(dict(enumerate(sizes)), return_dtype=pl.Int64)
    return down_times(outcome, window).select(
        "start", "end", top=first, bottom=first + size, level=pl.lit(_DOWN)
    )


def _scale(outcome: Outcome) -> alt.Scale:
    levels, colours = list(LEVELS), list(_COLOURS)
    if outcome.replicas is not None:
        levels, colours = [*levels, REPLICA], [*colours, "#5b8fd0"]
    if "evictions" in outcome.jobs.columns:
        levels, colours = [*levels, EVICTED], [*colours, "#1d2b64"]
    if "resizes" in outcome.summary:
        levels, colours = [*levels, RESIZED], [*colours, "#6a3d9a"]
    if outcome.outages is not None:
        levels, colours = [*levels, _DOWN], [*colours, "#5f6368"]
    return alt.Scale(domain=levels, range=colours)


def _unit(seconds: float) -> tuple[float, str]:
    for least, unit, name in _PERIODS:
        if seconds >= least:
            return unit, name
    return 1.0, "seconds"


def _origin(outcome: Outcome, window: Window) -> tuple[float, str]:
    """The second from which the axis counts, and what it is: late windows would have long numbers."""
    first = float(outcome.timeline["time"][0])
    if window.start <= first:
        return first, "the first submission"
    after = duration(window.start - first)
    return window.start, f"{window.start:,.10g} s, which is {after} after the first submission"


def _steps(state: pl.DataFrame, window: Window, origin: float, unit: float) -> pl.DataFrame:
    """A counter's steps on the axis, the last of them up to the window's end."""
    drawn = state.with_columns(pl.col("value").cast(pl.Float64))
    # An area of two values at one time is as high as both.
    before = drawn.filter(pl.col("time") < window.end)
    drawn = pl.concat((before, drawn.tail(1).with_columns(time=pl.lit(window.end))))
    return drawn.with_columns(time=(pl.col("time") - origin) / unit)


def _counter(data: pl.DataFrame, scale: alt.Scale, title: str) -> Any:
    # A domain of its own: that of nothing but zeros would have its zero in the middle.
    tall = alt.Scale(domain=[0, max(1.0, *data["value"])])
    return (
        alt.Chart(data)
        .mark_area(interpolate="step-after", color="#8fa9c4", line={"color": "#4a6d92", "strokeWidth": 1})
        .encode(
            x=alt.X("time:Q", scale=scale).axis(None),
            y=alt.Y("value:Q", title=title, scale=tall).axis(
                tickCount=2, grid=False, titleAngle=0, titleAlign="right"
            ),
        )
        .properties(width=860, height=44)
    )
