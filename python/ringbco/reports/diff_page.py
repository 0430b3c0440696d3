"""The page of `ringbco diff`: A against B job by job, by what they differ, who gained and lost most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import altair as alt
import numpy as np
import polars as pl

import ringbco
from ringbco.reports.cells import Cell, Table
from ringbco.reports.data_jobs import PARTS as DRAWN
from ringbco.reports.html import document
from ringbco.reports.series import Figure, legend, short, time_axis
from ringbco.reports.shapes import said, stack
from ringbco.reports.style import render_chart
from ringbco.reports.tones import COLOURS
from ringbco.result.diff import PARTS, WHOLE, Diff
from ringbco.result.rows import SIZE_CLASSES
from ringbco.units import duration, percent

_SIDES: Final = ("a", "b", "difference")
_MOST_POINTS: Final = 3_000
_FLOOR: Final = 1.0  # s: below it a logarithmic axis shows nothing but rounding
_MOST_USERS: Final = 50
_CLASSES: Final = {name: COLOURS[number] for number, (name, _) in enumerate(SIZE_CLASSES)}
_COLOURS: Final = {
    name: {"run_resized": "#7A5FB0", "run_on_type": "#4E9A3C", "run_cut": "#5B6470"}.get(name)
    or DRAWN[name][1]
    for name in PARTS
}


class DiffFigures(NamedTuple):
    """A table, and how to read it."""

    note: str
    table: Table


def diff_page(found: Diff, names: tuple[str, str]) -> str:
    """The page as text. names: what to call A and B."""
    drawn = [] if found.same else [_scatter(found), _bars(found)]
    return document(
        "diff",
        title=f"{names[0]} and {names[1]}",
        sentences=found.sentences(),
        headings=found.headings(names),
        means=_means(found),
        figures=[render_chart(figure) for figure in drawn],
        tables=[] if found.same else _tables(found),
        version=ringbco.__version__,
    )


def _points(found: Diff) -> pl.DataFrame:
    """Completion times by size class: a row per job or, of many jobs, one of those close together."""
    size = pl.lit(SIZE_CLASSES[-1][0])
    for name, most in SIZE_CLASSES[-2::-1]:
        size = pl.when(pl.col("num_gpus") <= most).then(pl.lit(name)).otherwise(size)
    jobs = found.jobs.select("job_id", "jct_a", "jct_b", size=size)
    times = pl.col("jct_a", "jct_b").clip(_FLOOR)
    step = 0.01
    while True:
        near = [
            (pl.col(name).clip(_FLOOR).log10() / step).round().alias(f"{name}_at")
            for name in ("jct_a", "jct_b")
        ]
        points = jobs.group_by("size", *near, maintain_order=True).agg(
            pl.col("job_id").first(), times.first(), jobs=pl.len()
        )
        if points.height <= _MOST_POINTS:
            return points
        step *= 1.5


def _scatter(found: Diff) -> Figure:
    """Each job at its completion time in A and in B, on logarithmic axes."""
    points = _points(found)
    ends = np.array(
        [
            points.select(pl.min_horizontal("jct_a", "jct_b").min()).item(),
            points.select(pl.max_horizontal("jct_a", "jct_b").max()).item(),
        ]
    )
    low, high = float(ends[0]) / 1.2, max(float(ends[1]), float(ends[0]) * 2) * 1.2
    scale = alt.Scale(type="log", domain=[low, high], nice=False)
    there = [name for name in _CLASSES if name in set(points["size"])]
    dots = (
        alt.Chart(
            said(
                short(points.drop("jct_a_at", "jct_b_at")),
                ("job_id", "jobs , jobs here", "jct_a time in A", "jct_b time in B"),
            )
        )
        .mark_circle(opacity=0.55)
        .encode(
            x=alt.X("jct_a:Q", title=f"{WHOLE} in A (log scale)", scale=scale, axis=time_axis(low, high)),
            y=alt.Y(
                "jct_b:Q",
                title=f"{WHOLE} in B (log scale)",
                scale=scale,
                axis=time_axis(low, high, minExtent=44),
            ),
            size=alt.Size("jobs:Q", legend=None).scale(type="sqrt", range=[18, 220]),
            color=alt.Color(
                "size:N",
                scale=alt.Scale(domain=there, range=[_CLASSES[name] for name in there]),
                legend=legend([f"{name} GPUs" for name in there], 6),
            ),
            description="said:N",
        )
    )
    line = (
        alt.Chart(pl.DataFrame({"jct_a": [low, high], "jct_b": [low, high]}))
        .mark_line(color="#8A8F98", strokeDash=[4, 4], strokeWidth=1)
        .encode(x="jct_a:Q", y="jct_b:Q")
    )
    note = (
        "One dot per job, coloured by job size; larger dots are several jobs. Jobs below the dashed line are"
        " faster in B. Times below 1 s are shown as 1 s."
    )
    data = points.select("job_id", "size", "jct_a", "jct_b", "jobs")
    return Figure(
        "scatter", f"{WHOLE.capitalize()} in A and B", note, alt.layer(line, dots), height=400, data=data
    )


def _bars(found: Diff) -> Figure:
    """The mean difference of each size class, cut into its parts."""
    rows = [
        (f"{group['gpus']}", PARTS[name], place, told["difference"], group["jobs"])
        for group in found.size_classes()
        for place, (name, told) in enumerate(group["parts"].items())
        if told["difference"]
    ]
    schema = {
        "size": pl.String,
        "part": pl.String,
        "place": pl.Int64,
        "seconds": pl.Float64,
        "jobs": pl.Int64,
    }
    figure = Figure(
        "parts",
        "Difference by part",
        "Mean difference by job size, split into parts. Below 0, B saves time.",
        chart=None,
    )
    data = pl.DataFrame(rows, schema=schema, orient="row")
    return stack(
        replace(figure, data=data),
        {},
        data,
        part="part",
        palette={PARTS[name]: colour for name, colour in _COLOURS.items()},
        told=("size - GPUs", "part", "seconds time"),
        by="size",
        value="seconds",
        across="B - A",
    )


def _cells(told: Mapping[str, float]) -> list[str]:
    return [duration(told[side]) for side in _SIDES]


def _means(found: Diff) -> DiffFigures:
    figures = found.figures(found.jobs)
    a, b, difference = _cells(figures["median_jct"])
    rows = [[f"median {WHOLE}", a, b, ""], ["median difference", "", "", difference]]
    rows.append([f"mean {WHOLE}", *_cells(figures["mean_jct"])])
    rows += [[f"of it {PARTS[name]}", *_cells(told)] for name, told in figures["parts"].items()]
    return DiffFigures("", _table("Means and medians", ["", "A", "B", "B - A"], rows))


def _tables(found: Diff) -> list[DiffFigures]:
    tables = [_groups("By number of GPUs", "GPUs", "gpus", found.size_classes(), "")]
    for title, key, owners in found.by_owner():
        if owners:
            more = len(owners) > _MOST_USERS
            few = f" {_MOST_USERS} of {len(owners):,} {key}s are shown." if more else ""
            note = f"Largest total gain or loss first.{few}"
            tables.append(_groups(f"By {title}", title, key, owners[:_MOST_USERS], note))
    for change, title in (("faster", "Largest gains"), ("slower", "Largest losses")):
        jobs = found.most_changed(change)
        if jobs:
            tables.append(_jobs(title, jobs))
    return tables


def _groups(title: str, lead: str, key: str, groups: Sequence[Mapping[str, Any]], note: str) -> DiffFigures:
    parts = _differing(groups)
    columns = [lead, "jobs", "mean A", "mean B", "B - A", "faster", "slower"]
    rows = [
        [
            str(group[key]),
            f"{group['jobs']:,}",
            *_cells(group["mean_jct"]),
            *(percent(group[f"{change}_share"], 1) for change in ("faster", "slower")),
            *(duration(group["parts"][name]["difference"]) for name in parts),
        ]
        for group in groups
    ]
    means = "The last columns are the mean difference of each part."
    columns += [PARTS[name] for name in parts]
    return DiffFigures(f"{note} {means}".strip(), _table(title, columns, rows))


def _differing(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The parts by which at least one of the rows differs."""
    return [name for name in rows[0]["parts"] if any(row["parts"][name]["difference"] for row in rows)]


def _jobs(title: str, jobs: Sequence[Mapping[str, Any]]) -> DiffFigures:
    """One row per job; of each part what it was in A and what it is in B."""
    about = {"job_id": "job", "user": "user", "num_gpus": "GPUs"}
    about = {name: told for name, told in about.items() if name in jobs[0]}
    parts = _differing(jobs)
    rows = [
        [
            *("" if job[name] is None else str(job[name]) for name in about),
            *_cells(job["jct"]),
            *(
                f"{duration(told['a'])} \N{RIGHTWARDS ARROW} {duration(told['b'])}"
                for told in (job["parts"][name] for name in parts)
            ),
        ]
        for job in jobs
    ]
    columns = [*about.values(), "A", "B", "B - A", *(PARTS[name] for name in parts)]
    return DiffFigures("Each part: in A, then in B.", _table(title, columns, rows))


def _table(title: str, columns: list[str], rows: Sequence[Sequence[str]]) -> Table:
    return Table(title, columns, [[*map(Cell, row)] for row in rows])
