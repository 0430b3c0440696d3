"""The charts of a report: each is one row of data, shape, encodings and caption, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports import data_jobs, data_parts, data_time, shapes
from ringbco.reports.series import AT_ONCE, GLANCE, Figure, Part, Ranked
from ringbco.reports.shapes import Results, amount
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome


@dataclass
class Chapter:
    """Charts that answer one question."""

    title: str
    figures: list[Figure] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its anchor."""
        return self.title.lower().replace(" ", "-")


@dataclass(frozen=True)
class Row:
    """A chart, or one for each of several: name, title, note and height as of `Figure`.

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
    height: int = 200

    def figures(self, results: Results) -> Iterator[Figure]:
        """Its charts of these results; those that are the same sentence are one."""
        parts = list(self.data(results))
        for number, part in enumerate(parts, start=1):
            alike = [one for one in parts if one.instead == part.instead] if part.instead else [part]
            if part is not alike[0]:
                continue
            of = ", ".join(one.of for one in alike if one.of is not None)
            about = f": {of}" if of and len(results) > 1 else ""
            figure = Figure(
                f"{self.name}-{number}" if self.each else self.name,
                (part.title or self.title) + ("" if part.title else about),
                "" if part.instead else self.note + part.note,
                chart=None,
                of=part.of if len(alike) == 1 else None,
                height=self.height,
                data=part.data,
                instead=part.instead,
            )
            yield (
                figure
                if part.instead
                else self.shape(figure, results, part.data, **{**self.encodings, **part.also})
            )


def _over_time(
    name: str,
    title: str,
    note: str,
    data: Callable[[Results], Iterable[Part]],
    up: tuple[str, str],
    *,
    domain: tuple[float, float] | None = None,
    least: float = 0.0,
) -> Row:
    """A line a result over time. up: title and format of the axis. domain: its ends; least: its lower one."""
    scale = alt.Scale(domainMin=least, nice=True) if domain is None else alt.Scale(domain=list(domain))
    if least:
        scale = alt.Scale(domainMin=least, zero=False, nice=True)
    encodings = {
        "y": amount("value", up[0], format=up[1]).scale(scale),
        "mark": {"strokeWidth": 1.4, "opacity": 0.85},
    }
    return Row(name, title, note, data, shapes.lines, encodings, height=150)


def _within(name: str, title: str, note: str, column: str) -> Row:
    """The share of jobs that have at most so much of a column."""
    y = alt.Y("share:Q", title="share of jobs").scale(domain=[0, 1]).axis(format="%", tickCount=5)
    encodings = {"y": y, "mark": {"interpolate": "step-after", "strokeWidth": 2}}
    data = partial(data_jobs.within, column=column, title=title.lower())
    return Row(name, title, note, data, shapes.lines, encodings)


def _rows(
    name: str, title: str, note: str, data: Callable[[Results], Iterable[Part]], **encodings: Any
) -> Row:
    """Dots of classes."""
    return Row(name, title, note, data, shapes.rows, encodings)


_WHO: Final[dict[str, Any]] = {
    "value": "lost",
    "across": "longer than alone, mean of the jobs",
    "times": True,
    "zero": "none",
}
_LOST: Final = "How much longer jobs took than alone, by waiting or being slowed."
# fmt: off
CHAPTERS: Final[Mapping[str, tuple[Row, ...]]] = {
    GLANCE: (
        Row("time", "Where the time goes",
            "Mean completion time. Grey: running as if alone. Colours: what could be saved.",
            data_jobs.time_split, shapes.stack, {
                "part": "part", "palette": dict(data_jobs.PARTS.values()), "by": "policy", "value": "seconds",
                "told": ("policy", "part", "seconds time"), "columns": 3}),
        _rows("who-sizes", "Who pays: by size", _LOST, data_jobs.lost_by_size, by="size",
              told=("policy", "size", "jobs , jobs", "lost time longer"), **_WHO),
        _rows("who-owners", "Who pays", "The same; those first who lost most in all.",
              data_jobs.lost_by_owner, by="group",
              told=("policy", "group", "lost time longer"), **_WHO),
    ),
    "Jobs": (
        _within("jct", "Completion time",
                "Share of jobs that finished within a time of their submission.", "jct"),
        _within("wait", "Waiting time",
                "Share of jobs that waited for a time at most, all time off the GPUs counted.", "waited"),
        _rows("sizes", "Completion time by size",
              "The dot is the median, the line reaches from the 10th to the 90th percentile.",
              data_jobs.sizes, by="size", value="median", ends=("low", "high"), times=True,
              across="completion time", told=("policy", "size", "median time")),
        _rows("groups", "Slowdown by group",
              "Completion time over ideal run time: median, 10th and 90th percentile; most jobs first",
              data_jobs.groups, by="group", value="median", ends=("low", "high"), across="slowdown",
              told=("policy", "group", "jobs , jobs", "median ,.3g")),
    ),
    "Who waited": (
        _rows("waits", "Who waited", "Mean waiting time by size.", data_jobs.waits, by="size", value="waited",
              times=True, across="mean wait", zero=AT_ONCE,
              told=("policy", "size", "waited time")),
        Row("causes", "Why they waited", "Mean waiting time by size, cut into its causes.",
            data_jobs.waits_by_cause, shapes.stack, {
                "part": "cause", "palette": dict(data_jobs.CAUSES.values()), "by": "size", "value": "wait",
                "told": ("cause", "wait time"), "across": "mean wait", "columns": 1}, each=True),
    ),
    "The cluster over time": (
        _over_time("utilisation", "Utilisation",
                   "GPUs held by jobs, of all. The axis ends when the last job was submitted and no result"
                   " had a queue any more.",
                   data_time.busy, ("GPUs held", "%"), domain=(0.0, 1.0)),
        _over_time("queue", "Queue", "GPUs that the waiting jobs ask for.", data_time.queue,
                   ("GPUs asked for", ",.0f")),
        _over_time("contention", "Contention",
                   "Mean over the jobs on several servers of the number of such jobs on the busiest of its"
                   " servers, itself included: 1 is a job that shares with none.",
                   data_time.contention, ("mean contention", ",.3~g"), least=1.0),
        _over_time("types-power", "Power over time",
                   "What all GPUs draw: those held at their type's busy watts, the others at its idle watts,"
                   " those of servers that are asleep or down nothing.",
                   partial(data_time.over_time, column="watts", of=lambda _: pl.col("watts") / 1_000.0),
                   ("kW", ",.3~g")),
    ),
    "GPU types": (
        _rows("types-utilisation", "Utilisation by GPU type",
              "GPU time of each type that jobs held, of all its GPU time to the makespan.",
              data_parts.types, by="gpu_type", value="utilisation", across=None, number=".0%", ceiling=1,
              told=("policy", "gpu_type", "gpus , GPUs", "utilisation .1%")),
        _rows("types-gpu-hours", "GPU-hours by GPU type", "GPU-hours of each type that jobs held.",
              data_parts.types, by="gpu_type", value="gpu_hours", across="GPU-hours",
              told=("policy", "gpu_type", "gpu_hours ,.0f GPU-hours")),
    ),
    "Shares of a GPU": (
        Row("shares-fill", "How full GPUs are",
            "GPUs by what jobs hold of them, means over even intervals. What is free of GPUs that are"
            " held in part is of no use to a job of whole GPUs.", data_time.fullness, shapes.stack, {
                "part": "state", "palette": data_time.FULLNESS, "columns": 4, "value": "gpus",
                "across": "GPUs", "told": ("state",)}, each=True, height=160),
        _rows("shares-jobs", "Shares asked for", "Jobs by the part of a GPU that they ask for.",
              data_parts.shares, by="group", value="jobs", across="jobs",
              told=("policy", "group", "jobs , jobs")),
        _rows("shares-waits", "Waits by share", "Mean waiting time by that part.",
              data_parts.shares, by="group", value="waited", across="mean wait", times=True, zero=AT_ONCE,
              told=("policy", "group", "waited time")),
    ),
    "Elastic jobs": (
        Row("elastic-lanes", "GPUs of a job over time",
            "The job resized most, from its submission to its end, and those resized most in that time. The"
            " higher, the more GPUs. Dashed lines are num_gpus, dotted ones min_gpus and max_gpus, where they"
            " are near what was held.",
            data_parts.elastic_lanes, shapes.stepped_lanes, {"lane": 46}, each=True),
        _rows("elastic-resized", "Resizes of a job", "Elastic jobs by how often they were resized.",
              data_parts.resized, by="group", value="share", across="share of jobs", number=".0%",
              told=("policy", "group - times resized", "amount ,.0f jobs", "share .1%")),
        _rows("elastic-held", "GPUs held of those asked for",
              "GPU time of elastic jobs by the GPUs that they held, of num_gpus.",
              data_parts.held, by="group", value="share", across="share of GPU-hours", number=".0%",
              told=("policy", "group - GPUs held / num_gpus", "amount ,.0f GPU-hours", "share .1%")),
    ),
    "Outages": (
        Row("outages-down", "GPUs down over time",
            "GPUs of the servers that were down, means over even intervals. Of results with the same"
            " outages the first is drawn.", data_time.down, shapes.areas,
            {"y": amount("gpus", "GPUs").stack(None)}, height=150),
        _rows("outages-lost", "Work lost by cause",
              "GPU-hours of progress since the last checkpoints, by why the server failed.",
              data_parts.lost, by="cause", value="hours", across="GPU-hours",
              told=("policy", "cause", "hours ,.3g GPU-hours")),
    ),
    "Evictions": (
        Row("evictions", "Evictions over time",
            "Stays that ended so that others could start, counted over even intervals.",
            data_time.evictions, shapes.lines, {"y": amount("evictions", "evictions a day")}, height=150),
    ),
    "Searches": (
        Row("to-best", "Time to the best trial",
            "Share of searches whose best trial had its least loss within a time of their first submission.",
            data_parts.to_best, shapes.lines, {
                "y": alt.Y("share:Q", title="share of searches").axis(format="%", tickCount=5)}),
        Row("rungs", "Trials at each rung", "Trials of all searches that reached each rung.",
            data_parts.rungs, shapes.lines, {
                "x": alt.X("rung:O", title="rung").axis(labelAngle=0), "y": alt.Y("trials:Q", title="trials"),
                "marked": True}),
    ),
    "Services": (
        Row("services-replicas", "Replicas", "", data_time.replicas, shapes.areas, {
                "y": amount("replicas", "replicas", tickCount=4), "wanted": True}, each=True, height=130),
        _rows("services-attainment", "Attainment", "Replica-seconds served, of those wanted.",
              data_parts.attainment, by="service", value="attainment", across="served, of wanted",
              number=".0%", ceiling=1, told=("policy", "service", "attainment .2%")),
    ),
    "Contention on servers": (
        Row("servers", "Contention on each server",
            "Jobs that span servers and hold GPUs on this one, mean over time; blank where none, palest at 1:"
            " alone.", data_time.by_server, shapes.cells, {}, each=True),
    ),
}
# fmt: on


def chapters(results: Comparison | Mapping[str, Outcome]) -> list[Chapter]:
    """The charts of all results, the best first; those with nothing to draw are left out.

    Whatever the number of jobs, they hold at most some thousand points: jobs are counted and averaged here.
    Of several runs they show the first, and say so; the mean completion times say what they are over runs.
    """
    comparison = as_comparison(results).best_first
    ranked = Ranked(comparison.outcomes, comparison.baseline_label)
    first = _rows(
        "mean", "Mean completion time", "Best first.", lambda _: data_jobs.means(comparison), by="policy",
        value="mean_jct", across=None, times=True, told=("policy", "mean_jct time"),
    )  # fmt: skip
    made = [
        Chapter(
            title,
            [_of_run_0(figure, comparison) for row in rows for figure in row.figures(ranked)],
        )
        for title, rows in CHAPTERS.items()
    ]
    made[0].figures[:0] = first.figures(ranked)
    return [chapter for chapter in made if charts_of([chapter]) or chapter.title == GLANCE]


def charts_of(chapters: Iterable[Chapter]) -> list[Figure]:
    """The figures that have something to draw."""
    return [figure for chapter in chapters for figure in chapter.figures if figure.chart is not None]


def _of_run_0(figure: Figure, comparison: Comparison) -> Figure:
    shown = comparison.outcomes if figure.of is None else [figure.of]
    repeated = [label for label in shown if comparison.summaries_by_run.get(label)]
    if not repeated:
        return figure
    return replace(figure, note=f"{figure.note} The first of {comparison.runs} runs.")
