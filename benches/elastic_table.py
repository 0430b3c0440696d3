"""What elasticity is worth on public traces: the tables and the picture of docs/elastic.md.

`make elastic-table` replays two virtual clusters of Philly and a cluster of Microsoft ITP (ElasticFlow's
traces), whole and a window of each, at three loads, and writes what stands between the page's marks. Every
result is audited.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import page_tables

WHOLE: Final = "whole traces"
CALM: Final = "without noise scales"
WINDOW: Final = "windows"
DEADLINES: Final = "deadlines"
SET: Final = "traces"
LOADS: Final = (0.5, 0.9, 1.2)
RANGE: Final = "0.5:2"
ROUND: Final = 300.0
"""Seconds of a round of sia."""
PICTURE: Final = "images/elastic.png"
METRICS: Final = {
    "mean JCT, s": lambda s: s["mean_jct"],
    "p99 JCT, s": lambda s: s["p99_jct"],
    "lost GPU-hours": lambda s: s.get("lost_gpu_seconds", 0.0) / 3600,
}
EXACT: Final = "repack, exact"
ALL: Final = ("srtf", "repack", EXACT, "optimus", "elastic-srtf", "afs")
RESIZING: Final = ("optimus", "elastic-srtf", "afs")
DEADLINED: Final = {
    "edf": ("edf", {}),
    "edf, --admission": ("edf", {"admission": True}),
    "elasticflow": ("elasticflow", {}),
}


DUE_METRICS: Final = ("deadlines met", "refused", "late")


@dataclass(frozen=True)
class Trace:
    """file: below the folder of traces. servers: of 8 GPUs. window: jobs before it, and jobs in it."""

    file: str
    servers: int
    window: tuple[int, int]
    source: str


REPLAYED: Final = "as in the Helios authors' replay"
TRACES: Final = {
    "philly/103959": Trace("philly/103959.csv", 8, (600, 400), REPLAYED),
    "philly/2869ce": Trace("philly/2869ce.csv", 16, (400, 400), REPLAYED),
    "elasticflow/cluster06": Trace("elasticflow/cluster06.csv", 16, (800, 400), "our choice: not published"),
}
FEW: Final = {
    "elasticflow/cluster06, 195 jobs": Trace("elasticflow/cluster06.csv", 16, (800, 195), ""),
    "elasticflow/cluster03, 195 jobs": Trace("elasticflow/cluster03.csv", 16, (2100, 195), ""),
}
"""As many jobs with deadlines as the paper of elasticflow has, in a window each."""
DUE: Final = ("elasticflow/cluster06", *FEW)
"""Where jobs get deadlines."""


@dataclass(frozen=True)
class Cell:
    """One replay. trace: of TRACES or FEW. part: the whole trace, its window, or with deadlines."""

    folder: Path
    trace: str
    part: str
    policy: str
    load: float

    @property
    def source(self) -> Trace:
        """What is replayed."""
        return TRACES.get(self.trace) or FEW[self.trace]


def recorded(folder: Path, trace: Trace) -> Any:
    """The jobs of a trace in order of submission."""
    import polars as pl

    names = {"submission_time": "submit_time", "num_gpu": "num_gpus"}
    frame = pl.read_csv(folder / trace.file).rename(names, strict=False)
    return frame.sort("submit_time", maintain_order=True)


def described(folder: Path) -> str:
    """The table of the traces."""
    lines = [
        "| trace | jobs | GPUs of a job, median and most | work, GPU-hours | cluster | window |",
        "| --- | ---: | ---: | ---: | --- | --- |",
    ]
    for name, trace in TRACES.items():
        frame = recorded(folder, trace)
        gpus = frame["num_gpus"]
        before, jobs = trace.window
        part = frame.slice(before, jobs)
        span = (part["num_gpus"] * part["duration"]).sum() / (8 * trace.servers)
        lines.append(
            f"| {name} | {frame.height:,} | {gpus.median():.0f}, {gpus.max()} |"
            f" {(gpus * frame['duration']).sum() / 3600:,.0f} | {trace.servers} servers of 8 GPUs,"
            f" {trace.source} | {jobs} jobs after the first {before}; longest job"
            f" {part['duration'].max() / span:.2f} |"
        )
    return "\n".join(lines)


def table(cell: Cell) -> Any:
    """The job table of a replay, at its load: every job may hold from half to twice its GPUs."""
    import numpy as np
    import polars as pl

    from ringbco.sweeps.run import scaled
    from ringbco.trace.elastic import parse
    from ringbco.trace.jobs import as_table

    known = cell.source
    frame = recorded(cell.folder, known)
    if cell.part == WINDOW or cell.trace in FEW:
        frame = frame.slice(*known.window)
    if cell.part == DEADLINES:
        times = pl.Series(np.random.default_rng(0).uniform(0.5, 1.5, frame.height))
        frame = frame.with_columns(deadline=pl.col("submit_time") + times * pl.col("duration"))
    frame, _ = parse(RANGE, share=1.0).apply(frame)
    if cell.part == CALM:
        frame = frame.drop("noise_scale")
    return scaled(as_table(frame), cell.load, known.servers * 8)


def figures(cell: Cell) -> list[str]:
    """One replay's figures, as they stand in the tables. Raises RuntimeError where the audit objects."""
    from ringbco.audits import audit
    from ringbco.run.replay import replay

    jobs = table(cell)
    policy, options = DEADLINED.get(cell.policy, (cell.policy, {}))
    if cell.policy == EXACT:
        policy, options = "repack", {"predict": "exact"}
    parameters = {"round": ROUND} if policy == "sia" else None
    cluster = f"{cell.source.servers}x8"
    outcome = replay(jobs, cluster, policy=policy, parameters=parameters, **options)
    if found := audit(outcome, jobs):
        raise RuntimeError(f"{cell}: {found[0]}")
    summary = outcome.summary
    if cell.part == DEADLINES:
        late = summary["deadlines_missed"]
        met = (summary["deadlines"] - late) / jobs.frame.height
        return [f"{met:.1%}".replace("%", " %"), f"{jobs.frame.height - summary['deadlines']:,}", f"{late:,}"]
    return [f"{of(summary):,.0f}" for of in METRICS.values()]


def cells(folder: Path) -> Iterator[Cell]:
    """Every replay; the slow ones first."""
    parts = {WINDOW: ("sia", *ALL), WHOLE: ALL, CALM: RESIZING}
    for part, policies in parts.items():
        for policy in policies:
            for load in reversed(LOADS):
                yield from (Cell(folder, trace, part, policy, load) for trace in TRACES)
    for policy in DEADLINED:
        yield from (Cell(folder, trace, DEADLINES, policy, load) for trace in DUE for load in LOADS)


def replays(folder: Path, processes: int) -> dict[tuple[str, str, str, float], list[str]]:
    """The figures of every replay, by trace, part, policy and load."""
    todo = list(cells(folder))
    # Not forked: polars has worked here by now.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        found = list(pool.map(figures, todo))
    return {(c.trace, c.part, c.policy, c.load): row for c, row in zip(todo, found, strict=True)}


def tables(found: Mapping[tuple[str, str, str, float], Sequence[str]]) -> dict[str, str]:
    """The text of each mark that holds tables."""

    def ruled(names: Iterable[str]) -> list[str]:
        heads = [f"{name}, {100 * load:.0f} %" for name in names for load in LOADS]
        return [f"| policy | {' | '.join(heads)} |", "| --- |" + " ---: |" * len(heads)]

    def row(trace: str, part: str, policy: str) -> str:
        by_load = [found[trace, part, policy, load] for load in LOADS]
        return (
            f"| {policy} | {' | '.join(one[number] for number in range(len(METRICS)) for one in by_load)} |"
        )

    def sections(
        part: str, policies: Iterable[str], traces: Iterable[str] = TRACES, names: Iterable[str] = METRICS
    ) -> str:
        lines = []
        for trace in traces:
            lines += [f"**{trace}**\n", *ruled(names), *(row(trace, part, policy) for policy in policies), ""]
        return "\n".join(lines).rstrip("\n")

    return {
        WHOLE: sections(WHOLE, ALL),
        CALM: sections(CALM, RESIZING),
        WINDOW: sections(WINDOW, (*ALL, "sia")),
        DEADLINES: sections(DEADLINES, DEADLINED, DUE, DUE_METRICS),
    }


def told(page: str) -> dict[tuple[str, str, str, str, int], float]:
    """Every figure of the tables, by part, trace, policy, metric and load in per cent."""
    found = {}
    for part in (WHOLE, CALM, WINDOW, DEADLINES):
        for trace, _, cells in page_tables.rows(page_tables.marked(page)[part]):
            for head, cell in cells.items():
                if of := re.fullmatch(r"(.+), (\d+) %", head):
                    found[part, trace, cells["policy"], of[1], int(of[2])] = page_tables.number(cell)
    return found


def picture(page: str) -> bytes:
    """Mean JCT over srtf's by load, a panel a trace, as PNG."""
    import altair as alt
    import polars as pl

    from ringbco.reports.charts import png

    found = {of: value for of, value in told(page).items() if (of[0], of[3]) == (WINDOW, "mean JCT, s")}
    data = pl.DataFrame(
        [
            (policy, trace, load, value / found[part, trace, "srtf", metric, load])
            for (part, trace, policy, metric, load), value in found.items()
        ],
        schema=["policy", "trace", "load", "ratio"],
        orient="row",
    )
    order = data["policy"].unique(maintain_order=True).to_list()
    lines = (
        alt.Chart(data)
        .mark_line(point=True)
        .encode(
            x=alt.X("load:Q", title="offered load, %").scale(domain=[45, 125]).axis(values=[50, 90, 120]),
            y=alt.Y("ratio:Q", title="mean JCT / srtf's").scale(type="log", nice=False),
            color=alt.Color("policy:N", sort=order, legend=alt.Legend(title=None, orient="bottom")),
        )
        .properties(width=230, height=240)
    )
    chart = lines.facet(column=alt.Column("trace:N", sort=list(TRACES), title=None))
    return png(
        chart.configure(background="white", padding=12, font="Liberation Sans, Helvetica, sans-serif"),
        scale=1.6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/ and elasticflow/")
    parser.add_argument(
        "page", type=Path, help="the page to fill in; its picture goes into images/ beside it"
    )
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    page = arguments.page.read_text(encoding="utf-8")
    made = tables(replays(arguments.traces, arguments.processes))
    page = page_tables.filled(page, made | {SET: described(arguments.traces)})
    (arguments.page.parent / PICTURE).write_bytes(picture(page))
    arguments.page.write_text(re.sub(r"[ \t]+\n", "\n", page), encoding="utf-8")


if __name__ == "__main__":
    main()
