"""Replays the public traces under every policy: the tables of docs/results-policies.md, `make policy-table`.

Eight virtual clusters of Philly and two of Helios (Venus, September 2020), at 100 and at 10 Gb/s between
servers, model `rar`, continuous clock, every option at its default. The page's chart is
drawn from its tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import page_tables
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.run.bound import bound
from ringbco.run.options import policies
from ringbco.run.registry import REPLAY
from ringbco.run.replay import replay
from ringbco.trace.jobs import read_jobs

# Philly's servers as the Helios authors replayed them (51b7ef is not among theirs: one server is nearly
# full); Helios' two virtual clusters with their own.
CLUSTERS: Final = {
    **{
        f"philly/{vc}": (ServerGroup(servers, 8),)
        for vc, servers in {
            "6214e9": 64, "6c71a0": 32, "0e4a51": 32, "2869ce": 16, "e13805": 16, "103959": 8, "ed69ec": 8,
            "51b7ef": 1,
        }.items()
    },
    "helios/venus_2vc_2020-09": (ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")),
}  # fmt: skip
SPEEDS: Final = {"100 Gb/s": 12.5e9, "10 Gb/s": 1.25e9}
COLUMNS: Final = {
    "mean JCT, s": ("mean_jct", "{:,.0f}"),
    "over the bound": ("over_the_bound", "{:,.3f}"),
    "p99 JCT, s": ("p99_jct", "{:,.0f}"),
    "mean wait, s": ("mean_wait", "{:,.0f}"),
    "bounded slowdown": ("mean_bounded_slowdown", "{:,.2f}"),
    "makespan, d": ("makespan", "{:,.2f}"),
    "mean slowdown": ("mean_slowdown", "{:,.2f}"),
    "worst slowdown": ("worst_finish_time_fairness", "{:,.0f}"),
    "contention": ("mean_contention", "{:.2f}"),
    "spread": ("jobs_spread", "{:,}"),
    "preemptions": ("preemptions", "{:,}"),
}
RESIZING: Final = REPLAY["resize_every"].policies  # which give rigid jobs nothing that srtf does not
PICTURE: Final = "images/policies.png"
EXACT: Final = "repack, exact"
MARK: Final = "policies"


@dataclass(frozen=True)
class Row:
    """One policy in one case, which is a trace and the speed of its links: a line of a table."""

    case: tuple[str, str]
    policy: str
    mean_jct: float
    spread: int
    preemptions: int


def rows(text: str) -> list[Row]:
    """Every line of every table of the page's."""
    return [
        Row(
            (trace, speed), of["policy"], page_tables.number(of["mean JCT, s"]),
            int(page_tables.number(of["spread"])), int(page_tables.number(of["preemptions"])),
        )
        for trace, speed, of in page_tables.rows(text)
    ]  # fmt: skip


def to_best(rows: Sequence[Row]) -> list[float]:
    """Each row's mean JCT over the least of its case."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        best[row.case] = min(row.mean_jct, best.get(row.case, row.mean_jct))
    return [row.mean_jct / best[row.case] for row in rows]


def typical(rows: Sequence[Row]) -> dict[str, float]:
    """Each policy's median over the cases of its mean JCT over the best of the case; the least first."""
    ratios: dict[str, list[float]] = {}
    for row, ratio in zip(rows, to_best(rows), strict=True):
        ratios.setdefault(row.policy, []).append(ratio)
    order = sorted(ratios, key=lambda name: (median(ratios[name]), sum(ratios[name]), name))
    return {name: median(ratios[name]) for name in order}


def runs() -> dict[str, tuple[str, dict[str, Any]]]:
    """What each row is called, its policy and its options."""
    found: dict[str, tuple[str, dict[str, Any]]] = {
        policy.name: (policy.name, {})
        for policy in policies()
        if policy.preemption != "edf" and policy.name not in RESIZING
    }
    return {**found, EXACT: ("repack", {"predict": "exact"})}


def figures(summary: Mapping[str, Any]) -> Iterator[str]:
    for key, form in COLUMNS.values():
        value = summary.get(key, 0)
        yield form.format(value / 86_400 if key == "makespan" else value)


def tables(folder: Path, name: str, groups: Sequence[ServerGroup]) -> Iterator[str]:
    """One trace's part of the page: a heading, and a table for each speed."""
    sizes = " and ".join(f"{group.count}" for group in groups)
    yield f"\n### {name}: {sizes} server{'s' * (sizes != '1')} of 8 GPUs"
    path = folder / f"{name}.csv"
    jobs = read_jobs(path)
    for speed, bandwidth in SPEEDS.items():
        cluster = Cluster.from_groups(groups, name=path.stem).with_network(inter_bandwidth=bandwidth)
        yield f"\n{speed}:\n"
        yield f"| policy | {' | '.join(COLUMNS)} |"
        yield "| --- |" + " ---: |" * len(COLUMNS)
        least = bound(jobs, cluster, oversize="drop").mean_jct
        for name, (policy, more) in runs().items():
            summary = replay(jobs, cluster, policy=policy, oversize="drop", **more).summary
            summary["over_the_bound"] = summary["mean_jct"] / least
            yield f"| {name} | {' | '.join(figures(summary))} |"


def picture(rows: Sequence[Row]) -> bytes:
    """How far each policy's mean JCT is from the best of its case, as PNG."""
    import altair as alt
    import polars as pl

    from ringbco.reports.charts import png

    ratios = to_best(rows)
    data = pl.DataFrame(
        [
            {
                "policy": r.policy,
                "trace": r.case[0].split("/")[1].split("_")[0],
                "speed": r.case[1],
                "ratio": ratio,
            }
            for r, ratio in zip(rows, ratios, strict=True)
        ]
    ).with_columns(
        shown=pl.when(pl.col("ratio") < 9.995)
        .then(pl.col("ratio").round(2).map_elements("{:.2f}".format, return_dtype=pl.String))
        .otherwise(pl.col("ratio").map_elements("{:,.0f}".format, return_dtype=pl.String))
    )
    order = list(typical(rows))
    base = alt.Chart(data).encode(
        x=alt.X("trace:N", sort=None, title=None, axis=alt.Axis(labelAngle=-35)),
        y=alt.Y("policy:N", sort=order, title=None),
    )
    colour = alt.Color(
        "ratio:Q", title="times the best", legend=alt.Legend(orient="bottom", format=",.3~g")
    ).scale(type="log", scheme="oranges", domain=[1, 100], clamp=True)
    dark = alt.condition("datum.ratio > 20", alt.value("white"), alt.value("#222"))
    cells = base.mark_rect().encode(color=colour) + base.mark_text(fontSize=11).encode(
        text="shown:N", color=dark
    )
    chart = cells.properties(width=430, height=330).facet(
        column=alt.Column("speed:N", sort=list(SPEEDS), title=None, header=alt.Header(labelFontSize=14))
    )
    chart = chart.properties(title="Mean JCT over the best mean JCT of the case, by trace")
    return png(
        chart.configure(background="white", padding=12, font="Liberation Sans, Helvetica, sans-serif"),
        scale=1.6,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/ and helios/")
    parser.add_argument(
        "page", type=Path, help="the page to fill in; its picture goes into images/ beside it"
    )
    arguments = parser.parse_args()
    written = [line for name, groups in CLUSTERS.items() for line in tables(arguments.traces, name, groups)]
    text = "\n".join(written)
    (arguments.page.parent / PICTURE).write_bytes(picture(rows(text)))
    page = arguments.page.read_text(encoding="utf-8")
    arguments.page.write_text(page_tables.filled(page, {MARK: text}), encoding="utf-8")


if __name__ == "__main__":
    main()
