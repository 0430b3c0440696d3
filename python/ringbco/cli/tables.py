"""Summaries as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ringbco.result.measures import TIME_TO_START, waits_again
from ringbco.result.metrics import STATISTICS
from ringbco.units import Kind, duration, figure, figures, gpu_time, same

_MEASURES: Final = {
    "wait": "waiting time",
    TIME_TO_START: "time to start",
    "jct": "completion time",
    "slowdown": "slowdown",
}


def summary_tables(summary: Mapping[str, Any]) -> RenderableType:
    """A replay's summary: times, single figures, one row a gang size, one row a virtual cluster."""
    spread = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    spread.add_column("")
    for statistic in STATISTICS:
        spread.add_column(statistic, justify="right")
    for measure, title in _told([summary]).items():
        spread.add_row(title, *(_statistic(summary, statistic, measure) for statistic in STATISTICS))
    parts: list[RenderableType] = [spread, _figures(summary)]
    if len(summary["size_classes"]) > 1:
        parts.append(_size_classes(summary["size_classes"]))
    if len(summary.get("gpu_types", ())) > 1:
        parts.append(_gpu_types(summary["gpu_types"]))
    if summary.get("vcs"):
        parts.append(_virtual_clusters(summary["vcs"]))
    return Group(*parts)


def comparison_table(summaries: Sequence[Mapping[str, Any]]) -> Table:
    """Several policies on the same jobs side by side; the best figure of a row is marked."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for summary in summaries:
        table.add_column(str(summary["policy"]).upper(), justify="right")
    rows: list[tuple[str, str, Kind]] = [
        (f"{statistic} {title}", f"{statistic}_{measure}", _kind(measure))
        for measure, title in _told(summaries).items()
        for statistic in ("mean", "median", "p99")
    ]
    for title, key, kind in rows:
        values = [summary[key] for summary in summaries]
        best = min(values)
        texts = figures(kind, values)
        marks = ("bold green" if same(value, best) else "" for value in values)
        table.add_row(title, *(Text(text, style=mark) for text, mark in zip(texts, marks, strict=True)))
    table.add_section()
    singles: tuple[tuple[str, str, Kind], ...] = (
        ("makespan", "makespan", "time"),
        ("utilisation to last submission", "utilisation_to_last_submission", "share"),
        ("utilisation, whole run", "utilisation", "share"),
        ("jobs over several servers", "jobs_spread", "count"),
        ("mean contention", "mean_contention", "number"),
    )
    for title, key, kind in singles:
        if key in summaries[0]:
            table.add_row(title, *figures(kind, [summary[key] for summary in summaries]))
    return table


def _told(summaries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The measures to show: the time to start only where somebody waited again."""
    again = any(map(waits_again, summaries))
    return {measure: title for measure, title in _MEASURES.items() if again or measure != TIME_TO_START}


def _stops(table: Table, summary: Mapping[str, Any]) -> None:
    """What stopping jobs costs."""
    if "preemptions" in summary:
        lost = gpu_time(summary["lost_gpu_seconds"], 1)
        if summary["preemptions"] or not summary["lost_gpu_seconds"]:
            table.add_row("preemptions", f"{summary['preemptions']:,}, costing {lost}")
        else:
            table.add_row("pauses", f"costing {lost}")
    if "resizes" in summary:
        jobs, lost = summary["jobs_resized"], gpu_time(summary["resize_lost_gpu_seconds"], 1)
        told = f"{summary['resizes']:,} of them, in {jobs:,} job{'s'[: jobs != 1]}, costing {lost}"
        table.add_row("resizes", told if jobs else "0")
    if "evictions" in summary:
        table.add_row("evictions", f"{summary['evictions']:,}")


def _searches(summary: Mapping[str, Any]) -> str:
    """How many searches, and what one takes on the average."""
    told = f"{summary['searches']:,}"
    if "mean_search_gpu_hours" in summary:
        told += f", {gpu_time(summary['mean_search_gpu_hours'] * 3600.0, 1)} each"
    if "mean_time_to_best" in summary:
        told += f", {duration(summary['mean_time_to_best'])} to the best trial"
    return told


def _figures(summary: Mapping[str, Any]) -> Table:
    jobs = f"{summary['jobs']:,}"
    if summary["jobs_dropped"]:
        jobs += f" ({summary['jobs_dropped']:,} larger than the cluster left out)"
    if summary.get("jobs_refused"):
        jobs += f" ({summary['jobs_refused']:,} refused)"
    if summary.get("jobs_ended"):
        jobs += f" ({summary['jobs_ended']:,} ended before they were done)"
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("jobs", jobs)
    table.add_row("makespan", duration(summary["makespan"]))
    table.add_row("utilisation", _utilisation(summary))
    table.add_row("jobs over several servers", f"{summary['jobs_spread']:,}")
    table.add_row("mean contention", f"{summary['mean_contention']:.2f} spanning jobs on the busiest server")
    if "energy_kwh" in summary:
        table.add_row("energy", f"{figure('number', summary['energy_kwh'])} kWh")
    if "cost" in summary:
        table.add_row("cost", figure("number", summary["cost"]))
    _stops(table, summary)
    if "failures" in summary:
        lost = gpu_time(summary["lost_work_gpu_seconds"], 1)
        table.add_row("failures", f"{summary['failures']:,}, costing {lost} of work")
        table.add_row("goodput", f"{summary['goodput']:.1%} of the GPU time held")
        ratio = summary["effective_training_time_ratio"]
        table.add_row("effective training time", f"{ratio:.1%} of the time from start to finish")
    if "searches" in summary:
        table.add_row("searches", _searches(summary))
    if "services" in summary:
        table.add_row(
            "services",
            f"{summary['service_attainment']:.1%} of the replicas wanted,"
            f" {gpu_time(summary['service_gpu_hours'] * 3600.0, 1)}",
        )
        lent = gpu_time(summary["gpu_hours_lent_to_training"] * 3600.0, 1)
        table.add_row("lent to training", lent)
    if "deadlines_met" in summary:
        among = " of the jobs not refused" if summary.get("jobs_refused") else ""
        table.add_row("deadlines met", f"{summary['deadlines_met']:.1%} of {summary['deadlines']:,}{among}")
    # The mean of finish-time fairness, which at the finish is the slowdown, is in the table above.
    table.add_row("worst slowdown", f"{summary['worst_finish_time_fairness']:,.2f}")
    if "jain_index_users" in summary:
        table.add_row("Jain's index over users", f"{summary['jain_index_users']:.3f}")
    table.add_row(
        "took",
        f"{duration(summary['total_seconds'])} ({duration(summary['engine_seconds'])} in the engine),"
        f" {summary['jobs_per_second']:,.0f} jobs/s",
    )
    return table


def _utilisation(summary: Mapping[str, Any]) -> str:
    """Up to the last submission where there is a time of submissions: what follows is only the tail."""
    whole = f"{summary['utilisation']:.1%}"
    led = summary.get("utilisation_to_last_submission")
    return whole if led is None else f"{led:.1%} to the last submission, {whole} of the whole run"


def _size_classes(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("GPUs of a job")
    for title in ("jobs", "mean wait", "mean completion", "mean slowdown"):
        table.add_column(title, justify="right")
    for row in rows:
        times = (duration(row["mean_wait"]), duration(row["mean_jct"]))
        table.add_row(row["gpus"], f"{row['jobs']:,}", *times, f"{row['mean_slowdown']:,.2f}")
    return table


def _gpu_types(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("GPU type")
    asleep = {"asleep_gpu_hours": "asleep, GPU hours"} if "asleep_gpu_hours" in rows[0] else {}
    titles = {**asleep, "energy_kwh": "energy, kWh", "cost": "cost"}
    for title in ("GPUs", "GPU hours", "utilisation", *titles.values()):
        table.add_column(title, justify="right")
    for row in rows:
        told = (row.get(name) for name in titles)
        table.add_row(
            Text(row["gpu_type"]),
            *(f"{row['gpus']:,}", f"{row['gpu_hours']:,.0f}", f"{row['utilisation']:.1%}"),
            *("-" if value is None else f"{value:,.0f}" for value in told),
        )
    return table


def _virtual_clusters(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("virtual cluster")
    for title in ("GPUs", "jobs", "mean wait", "mean completion", "utilisation to\nlast submission"):
        table.add_column(title, justify="right")
    for row in rows:
        figures = [f"{row['gpus']:,}", f"{row['jobs']:,}"]
        if row["jobs"]:
            led = row.get("utilisation_to_last_submission", row["utilisation"])
            share = "-" if led is None else f"{led:.1%}"
            figures += [duration(row["mean_wait"]), duration(row["mean_jct"]), share]
        table.add_row(Text(row["vc"]), *figures)
    return table


def _statistic(summary: Mapping[str, Any], statistic: str, measure: str) -> str:
    return _value(measure, summary[f"{statistic}_{measure}"])


def _value(measure: str, value: float) -> str:
    return figure(_kind(measure), value)


def _kind(measure: str) -> Kind:
    return "number" if measure == "slowdown" else "time"
