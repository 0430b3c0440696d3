"""Charts of a job table: a sheet of them for a picture, one by one for a page.

Everything is binned first, so that a million jobs draw as fast as a thousand and the page stays small.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports.charts import COLOURS, framed, time_axis
from ringbco.reports.series import gpus_of_class, size_class
from ringbco.study.published import FATES

_WIDTH: Final = 960
_HALF: Final = 448
_BINS: Final = 160
_MOST_BARS: Final = 200
_MOST_SIZES: Final = 14
_TOP: Final = 10
# From few GPUs to many: dark to warm, each told from its neighbours in grey print.
_CLASS_COLOURS: Final = ("#440154", "#3b528b", "#21918c", "#5ec962", "#e69f00", "#d55e00")
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LOAD_LEVELS: Final = {
    0.0: "below 20%",
    0.2: "20-50%",
    0.5: "50-100%",
    1.0: "1-2 x",
    2.0: "2-5 x",
    5.0: "over 5 x",
}
_LOAD_COLOURS: Final = ("#f2f2f2", "#d6e6f2", "#9ecae9", "#4a90c2", "#f6b26b", "#e2692c", "#9c1c10")
# Passed, killed, failed; then whatever else a log may say.
_FATE_COLOURS: Final = {"passed": COLOURS[2], "killed": COLOURS[1], "failed": COLOURS[5]}
_SHADES: Final = (1.0, 0.6, 0.3)
_WORTH_A_LINE: Final = 0.2  # below it, a line at all GPUs would flatten the rest
_RATIOS: Final = (0.0001, 0.001, 0.01, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 100.0, 1_000.0, 10_000.0)
_NONE: Final = "(none)"


def sheet(
    frame: pl.DataFrame, inspection: Mapping[str, Any], *, title: str, subtitle: str | list[str]
) -> Any:
    """All charts of a job table: `frame` its rows, `inspection` what `inspect_jobs` says of them."""
    rows = [_side_by_side(*row) for row in panels(frame, inspection)]
    whole = alt.vconcat(*rows, spacing=34).resolve_scale(color="independent", x="independent")
    return framed(whole, title, subtitle).configure_legend(labelFontSize=12, title=None)


def panels(frame: pl.DataFrame, inspection: Mapping[str, Any]) -> list[list[Any]]:
    """The charts, those of one row beside each other."""
    demand, cluster = inspection["demand"], inspection["cluster"]
    rows = [
        [_sizes(frame), _run_times(frame)],
        [_arrivals(demand)],
        _cycles(demand),
        [_load(demand, cluster)],
    ]
    if cluster and cluster["vcs"]:
        rows.append([_vc_loads(demand, cluster["vcs"])])
    halves = [
        _top(inspection[key], column, f"Top {what}")
        for key, column, what in (("vcs", "vc", "virtual clusters"), ("users", "user", "users"))
        if len(inspection[key] or []) > 1
    ]
    if inspection["statuses"]:
        halves.append(_statuses(frame))
    if inspection["published"]["shape"]:
        halves.append(_published(inspection["published"]))
    return rows + [halves[at : at + 2] for at in range(0, len(halves), 2)]


def _side_by_side(*charts: Any) -> Any:
    if len(charts) == 1:
        return charts[0]
    return alt.hconcat(*charts, spacing=64).resolve_scale(color="independent")


def _sizes(frame: pl.DataFrame) -> Any:
    sizes = frame.group_by("num_gpus").agg(
        pl.len().alias("jobs"), (pl.col("duration") * pl.col("num_gpus")).sum().alias("work")
    )
    if sizes.height > _MOST_SIZES:
        classes = sizes.group_by(size_class().alias("class")).agg(pl.col("jobs", "work").sum()).sort("class")
        names = [gpus_of_class(number).removesuffix("s").removesuffix(" GPU") for number in classes["class"]]
    else:
        classes = sizes.sort("num_gpus")
        names = [f"{size:,}" for size in classes["num_gpus"]]
    data = _two_shares(pl.DataFrame({"name": names}).hstack(classes.select("jobs", "work")))
    return _panel(
        alt.Chart(data, title="Job sizes")
        .mark_bar()
        .encode(
            x=alt.X("name:N", sort=names, title="GPUs", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("of:N", sort=["of jobs", "of GPU time"]),
            y=alt.Y("share:Q", title="share", axis=alt.Axis(format="%")),
            color=_jobs_or_work(),
            tooltip=["name:N", "of:N", alt.Tooltip("share:Q", format=".2%")],
        ),
        _HALF,
        220,
    )


def _two_shares(counts: pl.DataFrame) -> pl.DataFrame:
    """`jobs` and `work` as shares of their sums, one below the other."""
    return pl.concat(
        counts.select(
            "name",
            of=pl.lit(label),
            share=pl.col(column) / pl.col(column).sum(),
        )
        for column, label in (("jobs", "of jobs"), ("work", "of GPU time"))
    )


def _jobs_or_work() -> alt.Color:
    return alt.Color(
        "of:N",
        scale=alt.Scale(domain=["of jobs", "of GPU time"], range=list(COLOURS[:2])),
        legend=alt.Legend(title=None, orient="top", direction="horizontal", offset=2),
    )


def _run_times(frame: pl.DataFrame) -> Any:
    """The share of a size class's jobs that ran at most so long."""
    largest = max(float(frame["duration"].to_numpy().max()), 10.0)
    step = np.log(largest) / _BINS
    bins = (pl.col("duration").clip(lower_bound=1.0).log() / step - 1e-9).ceil().cast(pl.Int64).alias("bin")
    counts = (
        frame.select(size_class().alias("class"), bins).group_by("class", "bin").agg(pl.len().alias("jobs"))
    )
    curves = []
    for number in sorted(counts["class"].unique()):
        own = counts.filter(pl.col("class") == number).sort("bin")
        curves.append(
            pl.DataFrame(
                {
                    "size": f"{gpus_of_class(number)}: {own['jobs'].sum():,} jobs",
                    # From 0 up, at the shortest run.
                    "value": np.exp(step * np.concatenate([own["bin"].head(1), own["bin"]])),
                    "share": np.concatenate([[0.0], own["jobs"].cum_sum() / own["jobs"].sum()]),
                }
            )
        )
    names = [curve["size"][0] for curve in curves]
    colours = [_CLASS_COLOURS[number] for number in sorted(counts["class"].unique())]
    return _panel(
        alt.Chart(pl.concat(curves), title="Run times by job size: jobs that ran at most so long")
        .mark_line(interpolate="step-after", strokeWidth=2)
        .encode(
            x=alt.X("value:Q", title="run time (log scale)", axis=time_axis(largest)).scale(
                type="log", domain=[1, largest]
            ),
            y=alt.Y("share:Q", title="share of jobs").scale(domain=[0, 1]).axis(format="%"),
            color=alt.Color(
                "size:N",
                sort=names,
                scale=alt.Scale(domain=names, range=colours),
                legend=alt.Legend(title=None, orient="right"),
            ),
        ),
        _HALF - 100,
        220,
    )


def _days(demand: Mapping[str, Any], values: Mapping[str, Sequence[float]]) -> pl.DataFrame:
    """Means of daily values over at most `_MOST_BARS` stretches; `from` and `to` are days or dates."""
    days = demand["days"]
    stretch = -(-len(days) // _MOST_BARS)
    length = demand["days_a_row"] * stretch
    data = (
        pl.DataFrame({"at": [row["start"] for row in days], **values})
        .with_row_index("row")
        .group_by(pl.col("row") // stretch, maintain_order=True)
        .agg(pl.col("at").first(), pl.col(*values).mean())
    )
    first = data["at"][0]
    numbers = ((data["at"] - first) / 86_400.0).to_list()
    epoch = _epoch(demand)
    if epoch is None:
        return data.select(**{"from": pl.Series(numbers)}, to=pl.Series(numbers) + length).hstack(
            data.select(*values)
        )
    begin = pl.Series([epoch + timedelta(seconds=first) + timedelta(days=number) for number in numbers])
    return data.select(**{"from": begin}, to=begin + timedelta(days=length)).hstack(data.select(*values))


def _epoch(demand: Mapping[str, Any]) -> datetime | None:
    """The date of time 0; None where a day of the table has no date, as beyond year 9999."""
    try:
        epoch = datetime.fromisoformat(demand["epoch"] or "")
        longest = timedelta(days=demand["days_a_row"] * len(demand["days"]))
        epoch + timedelta(seconds=demand["days"][-1]["start"]) + longest
    except (ValueError, OverflowError):
        return None
    return epoch


def _day_axis(demand: Mapping[str, Any]) -> dict[str, Any]:
    """The x axis of all charts by day."""
    if _epoch(demand) is None:
        axis = alt.X("from:Q", title="day").scale(nice=False).axis(grid=False)
    else:
        axis = (
            alt.X("from:T", title=None)
            .scale(nice=False)
            .axis(grid=False, format="%-d %b %Y", labelOverlap=True, tickCount=10)
        )
    return {"x": axis, "x2": "to"}


def _in_stretches(demand: Mapping[str, Any]) -> str:
    bar = demand["days_a_row"] * -(-len(demand["days"]) // _MOST_BARS)
    return "" if bar == 1 else f", in stretches of {bar} days"


def _arrivals(demand: Mapping[str, Any]) -> Any:
    jobs = [row["jobs"] / demand["days_a_row"] for row in demand["days"]]
    return _panel(
        alt.Chart(_days(demand, {"jobs": jobs}), title=f"Jobs submitted a day{_in_stretches(demand)}")
        .mark_bar(color=COLOURS[0], stroke="white", strokeWidth=0.5)
        .encode(
            **_day_axis(demand),
            y=alt.Y("jobs:Q", title="jobs", axis=alt.Axis(tickCount=4)),
            y2=alt.datum(0),
            tooltip=["from", alt.Tooltip("jobs:Q", format=",.0f")],
        ),
        _WIDTH,
        130,
    )


def _cycles(demand: Mapping[str, Any]) -> list[Any]:
    total = sum(demand["hours"])
    known = demand["epoch"] is not None
    hours = pl.DataFrame({"hour": range(24), "share": [count / total for count in demand["hours"]]})
    names = list(_WEEKDAYS if known else map(str, range(1, 8)))
    weekdays = pl.DataFrame({"day": names, "share": [count / total for count in demand["weekdays"]]})
    since = "" if known else " (from submit_time 0; the table has no epoch)"
    share = alt.Y("share:Q", title="share of jobs", axis=alt.Axis(format=".2~%", tickCount=4))
    left = (
        alt.Chart(hours, title=f"Submissions by hour of the day{since}")
        .mark_bar(color=COLOURS[0])
        .encode(x=alt.X("hour:O", title="hour", axis=alt.Axis(labelAngle=0)), y=share)
    )
    title = "by day of the week" if known else "by day, each seventh together"
    right = (
        alt.Chart(weekdays, title=f"Submissions {title}")
        .mark_bar(color=COLOURS[0])
        .encode(
            x=alt.X("day:N", sort=names, title=None if known else "day", axis=alt.Axis(labelAngle=0)), y=share
        )
    )
    return [_panel(left, 560, 130), _panel(right, _WIDTH - 560 - 100, 130)]


def _load(demand: Mapping[str, Any], cluster: Mapping[str, Any] | None) -> Any:
    """Bars: what each day's submissions bring; line: what would run if no job waited."""
    gpus = cluster["gpus"] if cluster else 1
    series = {
        name: [row[key] / gpus for row in demand["days"]]
        for name, key in (("offered", "gpu_days"), ("wanted", "gpus_wanted"))
    }
    labels = ["work of the jobs submitted that day", "running, if no job ever waited"]
    data = _days(demand, series)
    end = data.tail(1).with_columns(pl.col("to").alias("from"))  # the last step has a width too
    unit = f"share of {gpus:,} GPUs" if cluster else "GPU-days"
    y = alt.Axis(format="%" if cluster else "~s", tickCount=5)
    colour = alt.Scale(domain=labels, range=["#9ecae9", COLOURS[5]])
    legend = alt.Legend(title=None, orient="top", direction="horizontal", labelLimit=400)
    bars = (
        alt.Chart(data.with_columns(what=pl.lit(labels[0])))
        .mark_bar(stroke="white", strokeWidth=0.5)
        .encode(
            **_day_axis(demand),
            y=alt.Y("offered:Q", title=unit, axis=y),
            y2=alt.datum(0),
            color=alt.Color("what:N", scale=colour, legend=legend),
            tooltip=["from", "offered", "wanted"],
        )
    )
    line = (
        alt.Chart(pl.concat([data, end]).with_columns(what=pl.lit(labels[1])))
        .mark_line(strokeWidth=1.8, interpolate="step-after")
        .encode(x=_day_axis(demand)["x"], y="wanted:Q", color=alt.Color("what:N", scale=colour))
    )
    layers = [bars, line]
    title = f"GPU-days asked for a day{_in_stretches(demand)}"
    if cluster:
        title = f"Load of {cluster['name']} by day{_in_stretches(demand)}"
    if cluster and max(*data["offered"], *data["wanted"]) > _WORTH_A_LINE:
        full = pl.DataFrame({"full": [1.0]})
        layers.append(
            alt.Chart(full)
            .mark_rule(color="#222222", strokeDash=[5, 4])
            .encode(y=alt.Y("full:Q", title=unit))
        )
    return _panel(alt.layer(*layers, title=title), _WIDTH, 200)


def _vc_loads(demand: Mapping[str, Any], vcs: Sequence[Mapping[str, Any]]) -> Any:
    names = [f"{row['vc']} ({row['gpus']:,} GPUs)" for row in vcs]
    levels = ["none", *_LOAD_LEVELS.values()]
    data = pl.concat(
        _levelled(_days(demand, {"load": row["days"]}), levels).with_columns(vc=pl.lit(name))
        for row, name in zip(vcs, names, strict=True)
    )
    return _panel(
        alt.Chart(
            data,
            title=f"Load of the virtual clusters: work submitted a day / their GPUs{_in_stretches(demand)}",
        )
        .mark_rect()
        .encode(
            **_day_axis(demand),
            y=alt.Y(
                "vc:N", sort=names, title=None, axis=alt.Axis(labelLimit=150), scale=alt.Scale(domain=names)
            ),
            color=alt.Color(
                "level:N",
                scale=alt.Scale(domain=levels, range=list(_LOAD_COLOURS)),
                legend=alt.Legend(title=None, orient="top", direction="horizontal", offset=2),
            ),
            tooltip=["vc", "from", alt.Tooltip("load:Q", format=".1%")],
        ),
        _WIDTH - 60,
        max(60, 17 * len(vcs)),
    )


def _levelled(loads: pl.DataFrame, levels: Sequence[str]) -> pl.DataFrame:
    at = np.searchsorted(list(_LOAD_LEVELS), loads["load"].to_numpy())
    return loads.with_columns(level=pl.Series([levels[level] for level in at], dtype=pl.String))


def _top(groups: Sequence[Mapping[str, Any]], column: str, title: str) -> Any:
    """Bars for the groups with most GPU time."""
    ranked = sorted(groups, key=lambda row: -row["gpu_seconds"])
    rows = [(_NONE if row[column] is None else str(row[column]), row) for row in ranked[:_TOP]]
    rest = ranked[_TOP:]
    if len(rest) == 1:
        rows.append((str(rest[0][column]), rest[0]))
    elif rest:
        others = {key: sum(row[key] for row in rest) for key in ("share", "work_share")}
        rows.append((f"{len(rest):,} others", others))
    names = [name for name, _ in rows]
    data = pl.DataFrame(
        [
            {"name": name, "of": of, "share": row[key]}
            for name, row in rows
            for of, key in (("of jobs", "share"), ("of GPU time", "work_share"))
        ]
    )
    return _panel(
        alt.Chart(data, title=f"{title} by GPU time")
        .mark_bar()
        .encode(
            y=alt.Y("name:N", sort=names, title=None, axis=alt.Axis(labelLimit=110)),
            yOffset=alt.YOffset("of:N", sort=["of jobs", "of GPU time"]),
            x=alt.X("share:Q", title="share", axis=alt.Axis(format="%", tickCount=5)),
            color=_jobs_or_work(),
            tooltip=["name:N", "of:N", alt.Tooltip("share:Q", format=".2%")],
        ),
        _HALF - 30,
        max(60, 22 * len(names)),
    )


def _statuses(frame: pl.DataFrame) -> Any:
    """What became of the jobs of each size."""
    named = pl.col("status").fill_null(_NONE)
    counts = (
        frame.select(size_class().alias("class"), named)
        .group_by("class", "status")
        .agg(pl.len().alias("jobs"))
    )
    ranked = (
        counts.group_by("status").agg(pl.col("jobs").sum()).sort("jobs", "status", descending=[True, False])
    )
    kept = ranked["status"].head(len(COLOURS) - 1).to_list()
    counts = counts.with_columns(
        pl.when(pl.col("status").is_in(kept)).then("status").otherwise(pl.lit("other")).alias("status")
    )
    names = {number: gpus_of_class(number) for number in sorted(counts["class"].unique())}
    every = counts.with_columns(name=pl.lit("all jobs"))
    sized = counts.with_columns(name=pl.col("class").replace_strict(names, return_dtype=pl.String))
    data = (
        pl.concat([every, sized])
        .group_by("name", "status")
        .agg(pl.col("jobs").sum())
        .with_columns(share=pl.col("jobs") / pl.col("jobs").sum().over("name"))
        .sort("name", "status")
    )
    left_out = ranked.height > len(kept)
    order = _by_fate([*kept, "other"] if left_out else kept)
    return _panel(
        alt.Chart(data, title="Final status by job size")
        .mark_bar()
        .encode(
            y=alt.Y("name:N", sort=["all jobs", *names.values()], title=None),
            x=alt.X("sum(share):Q", title="share of jobs", axis=alt.Axis(format="%")).scale(domain=[0, 1]),
            color=alt.Color(
                "status:N",
                sort=order,
                scale=alt.Scale(domain=order, range=_status_colours(order)),
                legend=alt.Legend(title=None, orient="right", labelLimit=100),
            ),
            order=alt.Order("rank:Q"),
            tooltip=["name:N", "status:N", "jobs:Q", alt.Tooltip("share:Q", format=".2%")],
        )
        .transform_calculate(rank=f"indexof({json.dumps(order)}, datum.status)"),
        _HALF - 150,
        24 * (len(names) + 1),
    )


def _fate(status: str) -> str | None:
    return next((fate for fate, words in FATES.items() if status.lower() in words), None)


def _by_fate(statuses: Sequence[str]) -> list[str]:
    """Passed ones first, then killed, failed and unknown ones; the order within is kept."""
    ranks = [*FATES, None]
    return sorted(statuses, key=lambda status: ranks.index(_fate(status)))


def _status_colours(statuses: Sequence[str]) -> list[str]:
    """A colour a fate, paler for the second status of it; greys for the rest."""
    seen: dict[str | None, int] = {}
    colours = []
    for status in statuses:
        fate = _fate(status)
        nth = seen[fate] = seen.get(fate, -1) + 1
        base = "#666666" if fate is None else _FATE_COLOURS[fate]
        colours.append(_paler(base, _SHADES[min(nth, len(_SHADES) - 1)]))
    return colours


def _paler(colour: str, strength: float) -> str:
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(255 - (255 - part) * strength):02x}" for part in parts)


def _published(published: Mapping[str, Any]) -> Any:
    """Each figure of the file over the published one; 1 is agreement."""
    rows = [row for row in published["figures"] if row["ratio"]]
    data = pl.DataFrame(
        {
            "figure": [row["figure"] for row in rows],
            "ratio": [row["ratio"] for row in rows],
            "near": ["near" if row["near"] else "far" for row in rows],
        }
    )
    order = data["figure"].to_list()
    reach = 1.3 * max(2.0, *(max(ratio, 1 / ratio) for ratio in data["ratio"]))
    colour = alt.Scale(domain=["near", "far"], range=[COLOURS[2], COLOURS[5]])
    base = alt.Chart(data, title=f"The file's figures / those published of {published['shape']}")
    y = alt.Y("figure:N", sort=order, title=None, axis=alt.Axis(labelLimit=170, grid=True))
    points = base.mark_circle(size=90, opacity=1).encode(
        y=y,
        x=alt.X(
            "ratio:Q",
            title="ratio (log scale)",
            scale=alt.Scale(type="log", domain=[1 / reach, reach], nice=False),
            axis=alt.Axis(format="~g", values=[ratio for ratio in _RATIOS if 1 / reach <= ratio <= reach]),
        ),
        color=alt.Color("near:N", scale=colour, legend=alt.Legend(title=None, orient="right")),
        tooltip=["figure:N", alt.Tooltip("ratio:Q", format=".3f")],
    )
    one = alt.Chart(pl.DataFrame({"one": [1.0]})).mark_rule(color="#222222").encode(x="one:Q")
    return _panel(alt.layer(one, points), _HALF - 110, max(60, 20 * len(rows)))


def _panel(chart: Any, width: int, height: int) -> Any:
    return chart.properties(width=width, height=height)
