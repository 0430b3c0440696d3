"""Charts of a job table, for a page and as one picture: rows of the kit's shapes.

Everything is binned first, so that a million jobs draw as fast as a thousand and the page stays small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import altair as alt
import numpy as np
import polars as pl

from ringbco.reports import shapes
from ringbco.reports.series import Figure, gpus_of_class, legend, size_class, time_axis
from ringbco.reports.shapes import Aim, amount
from ringbco.study.published import FATES

_BINS: Final = 160
_MOST_INTERVALS: Final = 200
_MOST_SIZES: Final = 14
_MOST_STATUSES: Final = 7
_TOP: Final = 10
_ONE: Final = {"jobs": None}
"""What overlays in a chart of the whole table."""
_PARTS: Final = {"of jobs": "share", "of GPU time": "work_share"}
_WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_LEVELS: Final = {
    "none": "#f2f2f2",
    "below 20 %": "#d6e6f2",
    "20-50 %": "#9ecae9",
    "50-100 %": "#4a90c2",
    "1-2 x": "#f6b26b",
    "2-5 x": "#e2692c",
    "over 5 x": "#9c1c10",
}
_LEAST: Final = (0.0, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Above what load the levels after the first begin."""
# Of the statuses of a fate the most frequent first; the last colour is that of all others.
_FATES: Final[Mapping[str | None, Sequence[str]]] = {
    "passed": ("#1A7F4B", "#5ec962"),
    "killed": ("#F0A94B", "#f6b26b"),
    "failed": ("#D9541E", "#A3341C", "#6E1F12"),
    None: ("#8A8F98", "#B9BEC6", "#DADDE2"),
}
_WORTH_A_LINE: Final = 0.2  # below it, a line at all GPUs would flatten the rest
_NONE: Final = "(none)"


def figures(frame: pl.DataFrame, inspection: Mapping[str, Any]) -> list[Figure]:
    """All charts of a job table: `frame` its rows, `inspection` what `inspect_jobs` says of them."""
    demand, cluster = inspection["demand"], inspection["cluster"]
    cycles = _cycles(demand)
    if inspection["metadata"].get("converter") == "generate":  # its weekdays are meant, its dates made up
        demand = {**demand, "epoch": None, "origin": "synthetic jobs"}
    made = [_sizes(frame), _run_times(frame), _load(demand, cluster), _arrivals(demand), *cycles]
    if cluster and cluster["vcs"]:
        made.append(_vc_loads(demand, cluster["vcs"]))
    made += [
        _top(inspection[key], column, what)
        for key, column, what in (("vcs", "vc", "virtual clusters"), ("users", "user", "users"))
        if len(inspection[key] or []) > 1
    ]
    if inspection["statuses"]:
        made.append(_statuses(frame))
    if inspection["published"]["shape"]:
        made.append(_published(inspection["published"]))
    return made


def _figure(name: str, title: str, data: pl.DataFrame, note: str = "", height: int = 200) -> Figure:
    kept = data.drop("policy", "place", "one", strict=False)
    return Figure(name, title, note, None, height=height, data=kept)


def _shares(name: str, title: str, groups: Sequence[Mapping[str, Any]]) -> Figure:
    """One row per group: its shares of all jobs and of all GPU time. groups: name, share and work_share."""
    data = pl.DataFrame(
        [
            {"policy": of, "name": group["name"], "of": of, "share": group[key]}
            for group in groups
            for of, key in _PARTS.items()
        ]
    )
    return shapes.rows(
        _figure(name, title, data),
        dict.fromkeys(_PARTS),
        data,
        by="name",
        value="share",
        across="share",
        number=".2~%",
        told=("name", "share .2% of all", "policy"),
    )


def _sizes(frame: pl.DataFrame) -> Figure:
    sizes = frame.group_by("num_gpus").agg(
        pl.len().alias("jobs"), (pl.col("duration") * pl.col("num_gpus")).sum().alias("work")
    )
    if sizes.height > _MOST_SIZES:
        sizes = sizes.group_by(size_class()).agg(pl.col("jobs", "work").sum()).sort("size")
        names = [gpus_of_class(number) for number in sizes["size"]]
    else:
        sizes = sizes.sort("num_gpus")
        names = [f"{size:,} GPU{'s' * (size > 1)}" for size in sizes["num_gpus"]]
    groups = sizes.select(
        pl.Series("name", names),
        share=pl.col("jobs") / pl.col("jobs").sum(),
        # Polars would multiply by the reciprocal, which of the least float64 is infinite.
        work_share=pl.Series(sizes["work"].to_numpy() / sizes["work"].sum()),
    )
    return _shares("sizes", "Job sizes", groups.to_dicts())


def _run_times(frame: pl.DataFrame) -> Figure:
    """The share of a size class's jobs that ran at most so long."""
    largest = max(float(frame["duration"].to_numpy().max()), 10.0)
    step = np.log(largest) / _BINS
    bins = (pl.col("duration").clip(lower_bound=1.0).log() / step - 1e-9).ceil().cast(pl.Int64).alias("bin")
    counts = frame.select(size_class(), bins).group_by("size", "bin").agg(pl.len().alias("jobs"))
    curves = []
    for number in sorted(counts["size"].unique()):
        own = counts.filter(pl.col("size") == number).sort("bin")
        curves.append(
            pl.DataFrame(
                {
                    "policy": f"{gpus_of_class(number)}: {own['jobs'].sum():,} jobs",
                    # From 0 up, at the shortest run.
                    "value": np.exp(step * np.concatenate([own["bin"].head(1), own["bin"]])),
                    "share": np.concatenate([[0.0], own["jobs"].cum_sum() / own["jobs"].sum()]),
                }
            )
        )
    data = pl.concat(curves)
    axis = time_axis(1.0, largest, grid=True)
    title = "Run times by job size"
    return shapes.lines(
        _figure("run-times", title, data.rename({"policy": "size"}), "Share of jobs with run time <= x."),
        dict.fromkeys(curve["policy"][0] for curve in curves),
        data,
        x=alt.X("value:Q", title="run time (log scale)", axis=axis).scale(type="log", domain=[1, largest]),
        y=alt.Y("share:Q", title=None).scale(domain=[0, 1]).axis(format="%", tickCount=5),
    )


def _days(demand: Mapping[str, Any], **values: Sequence[float]) -> pl.DataFrame:
    """Means of daily values over at most `_MOST_INTERVALS` intervals; `from` and `to` are days or dates."""
    days = demand["days"]
    interval = -(-len(days) // _MOST_INTERVALS)
    length = demand["days_a_row"] * interval
    data = (
        pl.DataFrame({"at": [row["start"] for row in days], **values})
        .with_row_index("row")
        .group_by(pl.col("row") // interval, maintain_order=True)
        .agg(pl.col("at").first(), pl.col(*values).mean())
    )
    first = data["at"][0]
    begin: pl.Series = (data["at"] - first) / 86_400.0
    end = begin + length
    if (epoch := _epoch(demand)) is not None:
        zero = epoch + timedelta(seconds=first)
        begin, end = (pl.Series([zero + timedelta(days=day) for day in days]) for days in (begin, end))
    return data.select(pl.Series("from", begin), pl.Series("to", end), *values)


def _epoch(demand: Mapping[str, Any]) -> datetime | None:
    """The date of time 0; None where a day of the table has no date, as beyond year 9999."""
    try:
        epoch = datetime.fromisoformat(demand["epoch"] or "")
        longest = timedelta(days=demand["days_a_row"] * len(demand["days"]))
        epoch + timedelta(seconds=demand["days"][-1]["start"]) + longest
    except (ValueError, OverflowError):
        return None
    return epoch


def _steps(data: pl.DataFrame) -> pl.DataFrame:
    """Intervals as steps, the last of which has a width, too."""
    return pl.concat([data, data.tail(1).with_columns(pl.col("to").alias("from"))])


def _day_axis(demand: Mapping[str, Any]) -> alt.X:
    """The x axis of all charts by day."""
    if _epoch(demand) is None:
        title = f"day ({demand.get('origin', 'origin unknown')})"
        return alt.X("from:Q", title=title).scale(nice=False).axis(grid=False, tickCount=6)
    axis = alt.Axis(grid=False, format="%-d %b %Y", labelOverlap=True, tickCount=5)
    return alt.X("from:T", title=None, axis=axis).scale(nice=False)


def _in_intervals(demand: Mapping[str, Any]) -> str:
    days = demand["days_a_row"] * -(-len(demand["days"]) // _MOST_INTERVALS)
    return "" if days == 1 else f"Averaged over intervals of {days} days."


def _arrivals(demand: Mapping[str, Any]) -> Figure:
    data = _days(demand, jobs=[row["jobs"] / demand["days_a_row"] for row in demand["days"]])
    figure = _figure("arrivals", "Jobs submitted per day", data, _in_intervals(demand), 150)
    steps = _steps(data).with_columns(policy=pl.lit("jobs"))
    return shapes.areas(figure, _ONE, steps, x=_day_axis(demand), y=amount("jobs", "jobs"))


def _cycles(demand: Mapping[str, Any]) -> list[Figure]:
    total, known = sum(demand["hours"]), demand["epoch"] is not None
    hours = pl.DataFrame({"hour": range(24), "share": [count / total for count in demand["hours"]]})
    note = "" if known else "The table has no epoch: hours and days count from submit_time 0."
    steps = pl.concat([hours, hours.tail(1).with_columns(hour=pl.lit(24, pl.Int64))])
    names = list(_WEEKDAYS if known else (f"day {day}" for day in range(1, 8)))
    days = pl.DataFrame({"day": names, "share": [count / total for count in demand["weekdays"]]})
    title = "Submissions by day of the week" if known else "Submissions by day of week (origin unknown)"
    return [
        shapes.areas(
            _figure("hours", "Submissions by hour of the day", hours, note, 150),
            _ONE,
            steps.with_columns(policy=pl.lit("jobs")),
            x=alt.X("hour:Q", title="hour").scale(nice=False).axis(grid=False, values=list(range(0, 25, 3))),
            y=amount("share", "share of jobs", format=".2~%"),
        ),
        shapes.rows(
            _figure("weekdays", title, days, note),
            _ONE,
            days.with_columns(policy=pl.lit("jobs")),
            by="day",
            value="share",
            across="share of jobs",
            number=".2~%",
            told=("day", "share .1%"),
        ),
    ]


def _load(demand: Mapping[str, Any], cluster: Mapping[str, Any] | None) -> Figure:
    """An area: what each day's submissions bring; a line: what would run if no job waited."""
    gpus = cluster["gpus"] if cluster else 1
    brought, running = ([row[key] / gpus for row in demand["days"]] for key in ("gpu_days", "gpus_wanted"))
    data = _days(demand, offered=brought, running=running)
    note = "Grey: GPU time submitted that day. Line: GPUs in use if no job waited."
    aim, title = None, "GPU-days requested per day"
    if cluster:
        title = f"Load of {cluster['name']} by day"
        if max(*data["offered"], *data["running"]) > _WORTH_A_LINE:
            note += f" Dashed: all {gpus:,} GPUs."
            aim = Aim(1.0)
    steps = _steps(data).with_columns(policy=pl.lit("jobs"))
    both = pl.concat(
        steps.select("from", "policy", value=column, wanted=pl.lit(column == "offered"))
        for column in ("offered", "running")
    )
    y = amount("value", f"share of {gpus:,} GPUs" if cluster else "GPU-days", format="%" if cluster else "~s")
    figure = _figure("load", title, data, f"{note} {_in_intervals(demand)}".strip())
    return shapes.areas(figure, _ONE, both, x=_day_axis(demand), y=y, wanted=True, aim=aim)


def _vc_loads(demand: Mapping[str, Any], vcs: Sequence[Mapping[str, Any]]) -> Figure:
    names, levels = [f"{row['vc']} ({row['gpus']:,} GPUs)" for row in vcs], list(_LEVELS)
    data = pl.concat(
        _days(demand, load=row["days"]).with_columns(vc=pl.lit(name))
        for row, name in zip(vcs, names, strict=True)
    )
    at = np.searchsorted(_LEAST, data["load"].to_numpy())
    data = data.with_columns(level=pl.Series([levels[level] for level in at], dtype=pl.String))
    scale = alt.Scale(domain=levels, range=list(_LEVELS.values()))
    note = f"Submitted GPU time / available GPU time, per day. {_in_intervals(demand)}".strip()
    return shapes.blocks(
        _figure("vc-loads", "Load of the virtual clusters", data, note),
        data.drop("load"),
        shade=alt.Color("level:N", scale=scale, legend=legend(levels, 7)),
        height=max(60, 17 * len(vcs)),
        x=_day_axis(demand),
        x2="to",
        y=shapes.names_axis(names, "vc"),
    )


def _top(groups: Sequence[Mapping[str, Any]], column: str, what: str) -> Figure:
    """Those with most GPU time, and all others as one."""
    ranked = sorted(groups, key=lambda row: -row["gpu_seconds"])
    top = ranked if len(ranked) == _TOP + 1 else ranked[:_TOP]
    rows = [{"name": _NONE if row[column] is None else str(row[column]), **row} for row in top]
    if rest := ranked[len(top) :]:
        sums = {key: sum(row[key] for row in rest) for key in _PARTS.values()}
        rows.append({"name": f"{len(rest):,} others", **sums})
    return _shares(f"top-{what.replace(' ', '-')}", f"Top {what} by GPU time", rows)


def _statuses(frame: pl.DataFrame) -> Figure:
    """What became of the jobs of each size."""
    counts = (
        frame.select(size_class(), pl.col("status").fill_null(_NONE))
        .group_by("size", "status")
        .agg(pl.len().alias("jobs"))
    )
    ranked = (
        counts.group_by("status").agg(pl.col("jobs").sum()).sort("jobs", "status", descending=[True, False])
    )
    kept = ranked["status"].head(_MOST_STATUSES).to_list()
    order = sorted(kept, key=lambda status: [*_FATES].index(_fate(status)))
    if ranked.height > len(kept):
        order.append("other")
    names = {number: gpus_of_class(number) for number in sorted(counts["size"].unique())}
    sized = counts.with_columns(name=pl.col("size").replace_strict(names, return_dtype=pl.String))
    data = (
        pl.concat([counts.with_columns(name=pl.lit("all jobs")), sized])
        .with_columns(status=pl.when(pl.col("status").is_in(kept)).then("status").otherwise(pl.lit("other")))
        .group_by("name", "status")
        .agg(pl.col("jobs").sum())
        .with_columns(
            share=100 * pl.col("jobs") / pl.col("jobs").sum().over("name"),
            row=pl.col("name").replace_strict(dict(zip(names.values(), names, strict=True)), default=-1),
            place=pl.col("status").replace_strict({name: at for at, name in enumerate(order)}),
        )
        .sort("row", "place")
        .drop("row")
    )
    return shapes.stack(
        _figure("statuses", "Final status by job size", data),
        {},
        data,
        by="name",
        part="status",
        palette=_palette(order),
        told=("name", "status", "jobs , jobs,", "share .2f %"),
        value="share",
        across="share of jobs, %",
        columns=4,
        times=False,
    )


def _fate(status: str) -> str | None:
    return next((fate for fate, words in FATES.items() if status.lower() in words), None)


def _palette(statuses: Sequence[str]) -> dict[str, str]:
    """A colour a status, by its fate."""
    left = {fate: list(colours) for fate, colours in _FATES.items()}
    of = ((status, left[_fate(status)]) for status in statuses)
    return {status: own.pop(0) if len(own) > 1 else own[0] for status, own in of}


def _published(published: Mapping[str, Any]) -> Figure:
    """Each figure of the file over the published one; 1 is agreement."""
    rows = [row for row in published["figures"] if row["ratio"]]
    data = pl.DataFrame(
        {
            "policy": ["near" if row["near"] else "far" for row in rows],
            "figure": [row["figure"] for row in rows],
            "ratio": [row["ratio"] for row in rows],
            "one": [1.0] * len(rows),
        }
    )
    title = f"Figures of the file / published figures of {published['shape']}"
    return shapes.rows(
        _figure("published", title, data, "Grey: agreement."),
        dict.fromkeys(("near", "far")),
        data,
        by="figure",
        value="ratio",
        across="ratio",
        told=("figure", "ratio .3f", "policy"),
        least="one",
    )
