"""The charts of a report: each is one row of data, shape, encodings and caption, in the order of the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import altair as alt
import polars as pl

from ringbco.reports import data_jobs, data_links, data_parts, data_requests, data_seats, data_time, shapes
from ringbco.reports.series import AT_ONCE, GLANCE, Figure, Part
from ringbco.reports.shapes import Results, amount
from ringbco.reports.shapes_requests import against_replicas
from ringbco.reports.tones import Ranked, ranked
from ringbco.result.comparison import Comparison, as_comparison
from ringbco.result.outcome import Outcome
from ringbco.result.owners import with_owners


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
    """One line per result over time. up: title and format of the axis. domain: its ends; least: the lower."""
    scale = alt.Scale(domainMin=least, nice=True) if domain is None else alt.Scale(domain=list(domain))
    if least:
        scale = alt.Scale(domainMin=least, zero=False, nice=True)
    encodings = {
        "y": amount("value", up[0], format=up[1], **_WHOLE if up[1] == ",.0f" else {}).scale(scale),
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


_WHOLE: Final[dict[str, Any]] = {"tickMinStep": 1}
"""Of axes of things that are counted."""
_WHO: Final[dict[str, Any]] = {
    "value": "lost",
    "across": "mean delay (waiting + slowdown)",
    "times": True,
    "zero": "none",
}
_LOST: Final = "Mean delay against running alone: waiting and slowdown. Faster jobs count as 0."
_BY_OWNER: Final = ("who-owners", "groups")
"""Charts of owners."""
# fmt: off
CHAPTERS: Final[Mapping[str, tuple[Row, ...]]] = {
    GLANCE: (
        Row("time", "Where the time goes",
            "Mean completion time by part. Grey: alone on the GPUs held. Colours: delay.",
            data_jobs.time_split, shapes.stack, {
                "part": "part", "palette": dict(data_jobs.PARTS.values()), "by": "policy", "value": "seconds",
                "told": ("policy", "part", "seconds time"), "columns": 3}),
        _rows("who-sizes", "Delay by job size", _LOST, data_jobs.lost_by_size, by="size",
              told=("policy", "size", "jobs , jobs", "lost time delay"), **_WHO),
        _rows("who-owners", "Delay", "Mean delay, largest total delay first.",
              data_jobs.lost_by_owner, by="group",
              told=("policy", "group", "lost time delay"), **_WHO),
    ),
    "Jobs": (
        _within("jct", "Completion time",
                "Share of jobs with completion time <= x.", "jct"),
        _within("wait", "Waiting time",
                "Share of jobs with waiting time <= x. Waiting is all time without GPUs.", "waited"),
        _rows("sizes", "Completion time by size",
              "Dot: median. Line: 10th to 90th percentile.",
              data_jobs.sizes, by="size", value="median", ends=("low", "high"), times=True,
              across="completion time", told=("policy", "size", "median time")),
        _rows("groups", "Slowdown by group",
              "Completion time / run time alone. Dot: median. Line: 10th to 90th percentile. Most jobs first",
              data_jobs.groups, by="group", value="median", ends=("low", "high"), across="slowdown",
              told=("policy", "group", "jobs , jobs", "median ,.3g")),
    ),
    "Waiting": (
        _rows("waits", "Waiting time by size", "Mean waiting time.", data_jobs.waits, by="size",
              value="waited", times=True, across="mean wait", zero=AT_ONCE,
              told=("policy", "size", "waited time")),
        Row("causes", "Waiting time by cause", "Mean waiting time by job size, split by cause.",
            data_jobs.waits_by_cause, shapes.stack, {
                "part": "cause", "palette": dict(data_jobs.CAUSES.values()), "by": "size", "value": "wait",
                "told": ("cause", "wait time"), "across": "mean wait", "columns": 1}, each=True),
    ),
    "The cluster over time": (
        _over_time("utilisation", "Utilisation",
                   "Share of GPUs held by jobs. The axis ends when all jobs are submitted and all queues are"
                   " empty.",
                   data_time.busy, ("GPUs held", "%"), domain=(0.0, 1.0)),
        _over_time("queue", "Queue", "GPUs requested by waiting jobs.", data_time.queue,
                   ("GPUs requested", ",.0f")),
        _over_time("contention", "Contention",
                   "Jobs that span servers: how many of them share the busiest server of each, on average."
                   " 1 is no sharing.",
                   data_time.contention, ("mean contention", ",.3~g"), least=1.0),
        _over_time("types-power", "Power over time",
                   "Power of all GPUs: busy watts of the type where held, idle watts where idle, none where"
                   " the server is asleep or down.",
                   partial(data_time.over_time, column="watts", of=lambda _: pl.col("watts") / 1_000.0),
                   ("kW", ",.3~g")),
    ),
    "GPU types": (
        _rows("types-utilisation", "Utilisation by GPU type",
              "Share of the GPU time of each type that jobs held, up to the makespan.",
              data_parts.types, by="gpu_type", value="utilisation", across=None, number=".0%", ceiling=1,
              told=("policy", "gpu_type", "gpus , GPUs", "utilisation .1%")),
        _rows("types-gpu-hours", "GPU-hours by GPU type", "GPU-hours that jobs held, by type.",
              data_parts.types, by="gpu_type", value="gpu_hours", across="GPU-hours",
              told=("policy", "gpu_type", "gpu_hours ,.0f GPU-hours")),
    ),
    "Shares of a GPU": (
        Row("shares-fill", "How full GPUs are",
            "GPUs by the part that jobs hold, averaged over equal intervals. Jobs that request whole GPUs"
            " cannot use the free part of a partly held GPU.", data_time.fullness, shapes.stack, {
                "part": "state", "palette": data_time.FULLNESS, "columns": 4, "value": "gpus",
                "across": "GPUs", "told": ("state",)}, each=True, height=160),
        _rows("shares-jobs", "Requested shares", "Jobs by the share of a GPU that they request.",
              data_parts.shares, by="group", value="jobs", across="jobs",
              told=("policy", "group", "jobs , jobs")),
        _rows("shares-waits", "Waiting time by share", "Mean waiting time by requested share.",
              data_parts.shares, by="group", value="waited", across="mean wait", times=True, zero=AT_ONCE,
              told=("policy", "group", "waited time")),
    ),
    "Jobs on the same GPUs": (
        Row("seats-fill", "GPUs with one job and with several",
            "GPUs by the jobs on them, averaged over equal intervals.", data_seats.fill, shapes.stack, {
                "part": "state", "palette": data_seats.FILL, "value": "gpus", "across": "GPUs",
                "told": ("state",)}, each=True, height=160),
        Row("seats-slowdown", "Slow-down beside others",
            "Share of jobs with slow-down <= x: the time with others on the same GPUs / that alone there for"
            " the same work. Below 1 is faster. Without jobs that shared links or lost work.",
            data_seats.slowdowns, shapes.lines, {
                "y": alt.Y("share:Q", title="share of jobs").scale(domain=[0, 1]).axis(format="%")}),
        _rows("seats-hours", "What sharing GPUs cost and gave",
              "GPU-hours with several jobs, by which these jobs ran longer, and of the work that they did"
              " there beyond that of one job.",
              data_seats.hours, by="what", value="hours", across="GPU-hours", number=",~f",
              told=("policy", "what", "hours ,.3g GPU-hours")),
    ),
    "Elastic jobs": (
        Row("elastic-lanes", "GPUs of a job over time",
            "The job with most resizes, from submission to end, and the jobs with most resizes in that time."
            " Bar height is GPUs. Dashed: num_gpus. Dotted: min_gpus and max_gpus, where near the GPUs held.",
            data_parts.elastic_lanes, shapes.stepped_lanes, {"lane": 46}, each=True),
        _rows("elastic-resized", "Resizes per job", "Elastic jobs by number of resizes.",
              data_parts.resized, by="group", value="share", across="share of jobs", number=".0%",
              told=("policy", "group - times resized", "amount ,.0f jobs", "share .1%")),
        _rows("elastic-held", "GPUs held / GPUs requested",
              "GPU time of elastic jobs by GPUs held / num_gpus.",
              data_parts.held, by="group", value="share", across="share of GPU-hours", number=".0%",
              told=("policy", "group - GPUs held / num_gpus", "amount ,.0f GPU-hours", "share .1%")),
    ),
    "Outages": (
        Row("outages-down", "GPUs down over time",
            "GPUs of servers that are down, averaged over equal intervals. One line per set of"
            " outages.", data_time.down, shapes.areas,
            {"y": amount("gpus", "GPUs", **_WHOLE).stack(None)}, height=150),
        _rows("outages-lost", "Work lost by cause",
              "GPU-hours of progress since the last checkpoint, by cause of failure.",
              data_parts.lost, by="cause", value="hours", across="GPU-hours",
              told=("policy", "cause", "hours ,.3g GPU-hours")),
    ),
    "Evictions": (
        Row("evictions", "Evictions over time",
            "Evictions per day, counted over equal intervals.",
            data_time.evictions, shapes.lines, {"y": amount("evictions", "evictions per day")}, height=150),
    ),
    "Searches": (
        Row("to-best", "Time to the best trial",
            "Share of searches whose best trial reaches its lowest loss within x of the first submission.",
            data_parts.to_best, shapes.lines, {
                "y": alt.Y("share:Q", title="share of searches").axis(format="%", tickCount=5)}),
        Row("rungs", "Trials at each rung", "Trials of all searches that reached each rung.",
            data_parts.rungs, shapes.lines, {
                "x": alt.X("rung:O", title="rung").axis(labelAngle=0), "marked": True,
                "y": alt.Y("trials:Q", title="trials").axis(**_WHOLE)}),
    ),
    "Services": (
        Row("services-replicas", "Replicas", "", data_time.replicas, shapes.areas, {
                "y": amount("replicas", "replicas", tickCount=4, **_WHOLE), "wanted": True},
            each=True, height=130),
        _rows("services-attainment", "Attainment", "Replica-seconds served / replica-seconds requested.",
              data_parts.attainment, by="service", value="attainment", across="served / requested",
              number=".0%", ceiling=1, told=("policy", "service", "attainment .2%")),
    ),
    "Requests": (
        Row("requests-latency", "Latency over time",
            "Left: p50 and p99 of requests answered, of each interval its median p50 and largest p99. Right:"
            " replicas. The axis ends with the last answer.",
            data_requests.latency_over_time, against_replicas, {}, each=True, height=170),
        Row("requests-latencies", "Latency",
            "Share of requests with latency <= x: from arrival to last token.",
            data_requests.latencies, shapes.lines, {
                "y": alt.Y("share:Q", title="share of requests").scale(domain=[0, 1]).axis(format="%")},
            each=True),
        Row("requests-first-tokens", "Time to the first token",
            "Share of requests with time to the first token (TTFT) <= x.",
            data_requests.first_tokens, shapes.lines, {
                "y": alt.Y("share:Q", title="share of requests").scale(domain=[0, 1]).axis(format="%")},
            each=True),
        _over_time("requests-lent", "GPUs lent to training",
                   "GPUs that jobs hold of those that services would hold with all their replicas.",
                   data_requests.lent, ("GPUs", ",.0f")),
    ),
    "Contention on servers": (
        Row("servers", "Spanning jobs per server",
            "Jobs on the server that also hold GPUs on others, averaged over time. The strongest colour is"
            " most; blank is none.", data_time.by_server, shapes.cells, {}, each=True),
        Row("links", "Load of the busiest uplinks",
            "Bytes/s over bandwidth, averaged over time; the greatest mean first. Above 100 %, xi1 below 1"
            " lets jobs overlap that in truth take turns.", data_links.busiest, shapes.loads, {}, each=True),
    ),
}
# fmt: on


def chapters(results: Comparison | Mapping[str, Outcome], by: Sequence[str] = ()) -> list[Chapter]:
    """The charts of all results, the best first; those with nothing to draw are left out.

    by: columns of the job table; the charts of owners are of these.

    Whatever the number of jobs, they hold at most some thousand points: jobs are counted and averaged here.
    Of several runs they show the first, and say so; the mean completion times say what they are over runs.
    """
    comparison = as_comparison(results).best_first
    best_first = ranked(comparison)
    if by:
        owned = {label: with_owners(outcome, by) for label, outcome in best_first.items()}
        best_first = Ranked(owned, best_first.baseline)
    first = _rows(
        "mean", "Mean completion time", "Lowest first.", lambda _: data_jobs.means(comparison), by="policy",
        value="mean_jct", across=None, times=True, told=("policy", "mean_jct time"),
    )  # fmt: skip
    made = [
        Chapter(
            title,
            [
                _of_run_0(figure, comparison)
                for row in rows
                for figure in _of_owners(row, by).figures(best_first)
            ],
        )
        for title, rows in CHAPTERS.items()
    ]
    made[0].figures[:0] = first.figures(best_first)
    return [chapter for chapter in made if charts_of([chapter]) or chapter.title == GLANCE]


def _of_owners(row: Row, by: Sequence[str]) -> Row:
    """The chart; one of owners for each of the columns, if there are any."""
    if not by or row.name not in _BY_OWNER:
        return row
    data: Callable[..., Iterable[Part]] = row.data
    return replace(row, data=partial(data, by=by), each=True)


def charts_of(chapters: Iterable[Chapter]) -> list[Figure]:
    """The figures that have something to draw."""
    return [figure for chapter in chapters for figure in chapter.figures if figure.chart is not None]


def _of_run_0(figure: Figure, comparison: Comparison) -> Figure:
    shown = comparison.outcomes if figure.of is None else [figure.of]
    repeated = [label for label in shown if comparison.summaries_by_run.get(label)]
    if not repeated:
        return figure
    return replace(figure, note=f"{figure.note} Run 0 of {comparison.runs}.")
