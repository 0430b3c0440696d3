"""The charts of a report: each is one row of data, shape, encodings and caption, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports import data_jobs, data_parts, data_time, shapes
from ringbco.reports.series import Figure, Part
from ringbco.reports.shapes import DAYS, DOTS, Results, amount
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome


@dataclass
class Chapter:
    """Charts that answer one question."""

    title: str
    figures: list[Figure] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """A chart, or one for each of several: name, title, note, height, half and handling as of `Figure`.

    data: what it shows of results, a part for each chart; none where there is nothing to show. shape: one of
    `shapes`, which is handed `encodings`, and those of the part. each: whether there may be several.
    """

    name: str
    title: str
    note: str
    data: Callable[[Results], Iterable[Part]]
    shape: Callable[..., Figure]
    encodings: Mapping[str, Any]
    each: bool = False
    height: int = 260
    half: bool = False
    handling: str = ""

    def figures(self, results: Results) -> Iterator[Figure]:
        """Its charts of these results."""
        for number, part in enumerate(self.data(results), start=1):
            about = f": {part.of}" if part.of is not None and len(results) > 1 else ""
            figure = Figure(
                f"{self.name}-{number}" if self.each else self.name,
                part.title or self.title + about,
                self.note + part.note,
                chart=None,
                of=part.of,
                height=self.height,
                half=self.half if part.half is None else part.half,
                handling=self.handling,
            )
            yield self.shape(figure, results, part.data, **{**self.encodings, **part.also})


def _over_time(
    name: str,
    title: str,
    note: str,
    data: Callable[[Results], Iterable[Part]],
    up: tuple[str, str, str],
    *,
    ceiling: float | None = None,
    handling: str = "",
) -> Row:
    """A line a result over time. up: title of the axis, its format, and that of the tooltips."""
    scale = alt.Scale(domainMin=0, nice=True) if ceiling is None else alt.Scale(domain=[0, ceiling])
    encodings = {
        "y": amount("value", up[0], format=up[1]).scale(scale),
        "told": ("policy", "day ,.2f", f"value {up[2]} {up[0]}"),
        "mark": {"clip": True, "strokeWidth": 1.5, "strokeJoin": "round", "opacity": 0.85},
        "near": 60,
        "zoom": True,
    }
    return Row(name, title, note, data, shapes.lines, encodings, height=170, handling=handling)


def _within(name: str, title: str, note: str, column: str) -> Row:
    """The share of jobs that have at most so much of a column."""
    told = ("policy", "share .1% share of jobs", "value ,.0f within, s", "hours ,.2f within, h")
    encodings = {"told": told, "near": 90, "mark": {"interpolate": "step-after", "strokeWidth": 2}}
    data = partial(data_jobs.within, column=column, title=title.lower())
    note = f"{note} Logarithmic; below a second counts as one."
    return Row(name, title, note, data, shapes.lines, encodings, half=True)


def _bars(
    name: str,
    title: str,
    note: str,
    data: Callable[[Results], Iterable[Part]],
    half: bool = True,
    **encodings: Any,
) -> Row:
    """Bars of classes."""
    return Row(name, title, note, data, shapes.bars, encodings, half=half)


_ZOOM: Final = "Drag to move, hold Ctrl and turn the wheel to zoom, double-click to return."
_TYPE: Final = ("policy", "gpu_type - GPU type", "gpus , GPUs", "utilisation .1%", "gpu_hours ,.0f GPU-hours")
_WAIT: Final = ("jobs ,", "minute .1% waited over a minute")
_SHARE: Final = ("policy", "group - share of a GPU, up to", "jobs ,", "hours ,.2f mean wait, h")
# fmt: off
CHAPTERS: Final[Mapping[str, tuple[Row, ...]]] = {
    "Jobs": (
        Row("time", "Where a job's time goes",
            "Mean completion time, from submission to finish, by what it was spent on. As if alone: on the"
            " fewest servers that can hold the job, without contention; an elastic job on the GPUs that it"
            " had.",
            data_jobs.time_split, shapes.stack, {
                "mark": {"type": "bar"}, "part": "part", "palette": dict(data_jobs.PARTS.values()),
                "columns": 3,
                "x": alt.X("hours:Q", title="hours, mean of all jobs").stack("zero")
                .axis(tickCount=alt.ExprRef("min(8, floor(width / 45))")),
                "told": ("policy", "part", "hours ,.3f")}),
        _within("jct", "Completion time",
                "Share of jobs that finished within a time of their submission.", "jct"),
        _within("wait", "Waiting time",
                "Share of jobs that waited for a time at most, all time off the GPUs counted.", "waited"),
        Row("sizes", "Completion time by job size", "", data_jobs.sizes, shapes.ranges,
            {"by": "size", "across": "GPUs of the job", "up": "completion time (log scale)", "times": True}),
        Row("groups", "Slowdown by group", " Completion time over ideal run time; most jobs first",
            data_jobs.groups, shapes.ranges,
            {"by": "group", "up": "slowdown (log scale)", "times": False, "angle": -30}, half=True),
    ),
    "Who waited": (
        _bars("waits", "Who waited", "Mean waiting time by job size, hours.", data_jobs.waits, half=False,
              by="size", value="hours", across="GPUs of the job", up="mean wait, hours", number=",.3~f",
              told=("policy", "size", *_WAIT, "hours ,.2f mean wait, h")),
        Row("waits", "Who waited, and why", "Mean waiting time by job size, cut into its causes.",
            data_jobs.waits_by_cause, shapes.stack, {
                "mark": {"type": "bar"}, "part": "cause", "palette": dict(data_jobs.CAUSES.values()),
                "columns": 2, "x": "GPUs of the job",
                "told": ("size", "cause", "hours ,.2f mean wait, h", *_WAIT)}, each=True, height=210),
    ),
    "The cluster over time": (
        _over_time("utilisation", "Utilisation over time",
                   "GPUs held by jobs, of all. The axis ends when the last job was submitted and no result"
                   " had a queue any more.",
                   data_time.busy, ("GPUs held", "%", ".1%"), ceiling=1.0, handling=_ZOOM),
        _over_time("queue", "Queue over time", "GPUs that the waiting jobs ask for.",
                   partial(data_time.over_time, column="queued_gpus"), ("GPUs asked for", ",.0f", ",.0f")),
        _over_time("contention", "Contention over time",
                   "Mean over the jobs on several servers of the number of such jobs on the busiest of its"
                   " servers, itself included; 0 while there is none.",
                   partial(data_time.over_time, column="mean_contention"),
                   ("mean contention", ",.2f", ",.2f")),
    ),
    "GPU types": (
        _bars("types-utilisation", "Utilisation by GPU type",
              "GPU time of each type that jobs held, of all its GPU time to the makespan.",
              partial(data_parts.types, told=_TYPE), by="gpu_type", value="utilisation", across="GPU type",
              up=None, number=".0%", ceiling=1),
        _bars("types-gpu-hours", "GPU-hours by GPU type", "GPU-hours of each type that jobs held.",
              partial(data_parts.types, told=_TYPE), by="gpu_type", value="gpu_hours", across="GPU type",
              up=None, number=",.0f"),
        _over_time("types-power", "Power over time",
                   "What all GPUs draw: those held at their type's busy watts, the others at its idle watts,"
                   " those of servers that are asleep or down nothing.",
                   partial(data_time.over_time, column="watts", of=lambda _: pl.col("watts") / 1_000.0),
                   ("kW", ",.3~g", ",.3~g"), handling=_ZOOM),
    ),
    "Shares of a GPU": (
        Row("shares-fill", "How full GPUs are",
            "GPUs by what jobs hold of them, means over even stretches of time. What is free of GPUs that are"
            " held in part is of no use to a job of whole GPUs.", data_time.fullness, shapes.stack, {
                "mark": {"type": "area", "interpolate": "step-after"}, "part": "state",
                "palette": data_time.FULLNESS, "columns": 4, "x": DAYS, "faint": "idle",
                "y": amount("gpus", "GPUs").stack("zero").scale(nice=False),
                "told": ("state - GPUs", "day ,.2f", "gpus ,.2f mean")}, each=True, height=190),
        _bars("shares-jobs", "Shares asked for", "Jobs by the part of a GPU that they ask for.",
              data_parts.shares, by="group", value="jobs", across="share of a GPU, up to", up="jobs",
              number=",.0f", told=_SHARE),
        _bars("shares-waits", "Waits by share", "Mean waiting time by that part.",
              data_parts.shares, by="group", value="hours", across="share of a GPU, up to",
              up="mean wait, hours", number=",.3~f", told=_SHARE),
    ),
    "Elastic jobs": (
        Row("elastic-lanes", "GPUs of a job over time",
            "The job resized most, from its submission to its end, and those resized most in that time. The"
            " higher, the more GPUs. Dashed lines are num_gpus, dotted ones min_gpus and max_gpus, where they"
            " are near what was held.",
            data_parts.elastic_lanes, shapes.stepped_lanes, {"lane": 46}, each=True),
        _bars("elastic-resized", "Resizes of a job", "Elastic jobs by how often they were resized.",
              data_parts.resized, by="group", value="share", across="times resized", up="share of jobs",
              number="%", limit=60,
              told=("policy", "group - times resized", "amount ,.0f jobs", "share .1%")),
        _bars("elastic-held", "GPUs held of those asked for",
              "GPU time of elastic jobs by the GPUs that they held, of num_gpus.",
              data_parts.held, by="group", value="share", across="GPUs held / num_gpus",
              up="share of GPU-hours", number="%", limit=60,
              told=("policy", "group - GPUs held / num_gpus", "amount ,.0f GPU-hours", "share .1%")),
    ),
    "Outages": (
        Row("outages-down", "GPUs down over time",
            "GPUs of the servers that were down, means over even stretches of time. Of results with the same"
            " outages the first is drawn.", data_time.down, shapes.areas,
            {"y": amount("gpus", "GPUs").stack(None), "told": ("policy", "day ,.2f", "gpus ,.2f mean")},
            height=170),
        _bars("outages-lost", "Work lost by cause",
              "GPU-hours of progress since the last checkpoints, by why the server failed.",
              data_parts.lost, by="cause", value="hours", across="cause", up="GPU-hours", number=",.1~f",
              told=("policy", "cause", "hours ,.2f lost GPU-hours", "failures")),
    ),
    "Evictions": (
        Row("evictions", "Evictions over time",
            "Stays that ended so that others could start, counted over even stretches of time.",
            data_time.evictions, shapes.lines, {
                "x": DAYS, "y": amount("evictions", "evictions a day"),
                "told": ("policy", "day ,.2f", "evictions ,.2f evictions a day", "stays ,.0f evictions")},
            height=170),
    ),
    "Searches": (
        Row("to-best", "Time to the best trial",
            "Share of searches whose best trial had its least loss within a time of their first submission.",
            data_parts.to_best, shapes.lines, {
                "x": alt.X("hours:Q", title="hours to the best trial"),
                "y": alt.Y("share:Q", title="share of searches").axis(format="%"),
                "told": ("policy", "hours ,.2f", "share .1%")}, half=True),
        Row("rungs", "Trials at each rung", "Trials of all searches that reached each rung.",
            data_parts.rungs, shapes.lines, {
                "x": alt.X("rung:O", title="rung").axis(labelAngle=0), "y": alt.Y("trials:Q", title="trials"),
                "mark": DOTS, "told": ("policy", "rung", "trials", "went_on - of them went on")}, half=True),
    ),
    "Services": (
        Row("services-replicas", "Replicas", "", data_time.replicas, shapes.areas, {
                "y": amount("replicas", "replicas", tickCount=4), "over": True,
                "told": ("policy", "day ,.2f", "replicas ,.2f mean")}, each=True, height=140),
        _bars("services-attainment", "Attainment", "Replica-seconds served, of those wanted.",
              data_parts.attainment, by="service", value="attainment", across="service",
              up="served, of wanted", number="%", ceiling=1,
              told=("policy", "service", "attainment .2%",
                    "mean_time_to_scale_up ,.1f mean time to scale up, s",
                    "worst_time_to_scale_up ,.1f worst, s", "gpu_hours ,.1f GPU-hours")),
    ),
    "Contention on servers": (
        Row("servers", "Contention on each server",
            "Jobs that span servers and hold GPUs on this one, mean over time; blank where none, pale up to 1"
            " (alone).", data_time.by_server, shapes.cells, {}, each=True),
    ),
}
# fmt: on


def chapters(results: Comparison | Mapping[str, Outcome]) -> list[Chapter]:
    """The charts of all results, overlaid where that can be read; chapters without a chart are left out.

    Whatever the number of jobs, they hold at most some thousand points: jobs are counted and averaged here.
    Of a run that was repeated they show the first seed, and say so.
    """
    comparison = as_comparison(results)
    made = [
        Chapter(
            title,
            [
                _of_first_seed(figure, comparison)
                for row in rows
                for figure in row.figures(comparison.outcomes)
            ],
        )
        for title, rows in CHAPTERS.items()
    ]
    return [chapter for chapter in made if chapter.figures]


def _of_first_seed(figure: Figure, comparison: Comparison) -> Figure:
    shown = comparison.outcomes if figure.of is None else [figure.of]
    seeds = max(len(comparison.repeated.get(label, ())) for label in shown)
    return replace(figure, note=f"{figure.note} The first of {seeds} seeds.") if seeds > 1 else figure
