"""Replays the public traces under every policy and writes docs/results-policies.md: `make policy-table`.

Eight virtual clusters of Philly and two of Helios (Venus, September 2020), at 100 and at 10 Gb/s between
servers, model `rar`, continuous clock, every option at its default. The findings at the top of the page are
worked out from the figures in its tables (policy_findings.py), and so is its chart.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import policy_findings
from policy_findings import POLICY, Row
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.run.bound import bound
from ringbco.run.options import policies
from ringbco.run.options_generated import REPLAY
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
INTRODUCTION: Final = """# Policies on public traces
Every policy that needs no deadlines, on eight virtual clusters of Microsoft's Philly and two of SenseTime's
Helios (Venus, September 2020). `make policy-table TRACES=FOLDER` makes this page: its findings, its chart
and its tables.

The settings: model `rar` (ring-all-reduce with contention), models drawn for the jobs by hash with one seed,
0, continuous clock, every option at its default, links between servers of 100 Gb/s and of 10 Gb/s. Other
seeds draw other models. What that moves most is the worst slowdown: [repack](repack.md#what-it-gains) has an
example.
[repack](repack.md) runs twice: as it is, and with `--predict exact`. The work of a job is
the same at both speeds: it follows from the trace and from 100 Gb/s, on which the jobs are taken to have
been [recorded](profiles.md). A *case* below is one trace at one speed. [The glossary](glossary.md) explains
the words.
"""
READING: Final = """
Each cell is a policy's mean JCT over the least mean JCT of that case: 1.00 is the best policy of the case.

## Why
- **Why does SJF-BCO fall behind `smallest`?** Both have the same queue order. Under `smallest` a gang waits
  until one server holds it. FA-FFP and LBSGF never wait while enough GPUs are idle in all, so they spread
  the gang over fragments. A spread gang pays for its links in every iteration, and for the links of all
  gangs on its busiest server. It holds its GPUs longer, so more gangs find only fragments. The queue feeds
  on itself. Waiting would have cost minutes.
- **Why does the paper not see this?** It plans a batch whose contention costs at most 15 % of a job's time.
  Here a gang of a large model pays many times its compute time at 10 Gb/s.
- **Where does SJF-BCO do well?** Against FF, LS and RAND, which spread without regard to contention. On a
  cluster with room enough it equals `smallest`.
- **Why does 10 Gb/s change Helios so much?** Gangs larger than a server must span servers under every
  policy. Their work is the same as at 100 Gb/s, and each iteration takes longer.
- **Why do interval policies do badly on an idle cluster?** They decide every 60 s. A job waits 30 s on the
  average before anything happens. Short jobs feel that.
- **Why does time-slice pay so much?** A turn takes 60 s, and each resumed job first holds its GPUs for 30 s
  without progress.
- **Why are the bounded slowdowns on Helios so large?** Gangs of up to 144 GPUs wait for whole servers, and
  running jobs are never moved. The interval policies start short jobs into every gap.

## Tables
| column | meaning |
| --- | --- |
| JCT | completion time: finish - submission |
| over the bound | mean JCT / [a lower bound](bound.md) on that of any schedule |
| slowdown | JCT / ideal run time. At the finish, Themis' finish-time fairness is the same number |
| bounded slowdown | the same with run times below 10 s counted as 10 s, and at least 1 |
| contention | the mean p_j while jobs span servers |
| spread | the jobs that ever ran on two or more servers |
"""


def runs() -> dict[str, tuple[str, dict[str, Any]]]:
    """What each row is called, its policy and its options."""
    found: dict[str, tuple[str, dict[str, Any]]] = {
        policy.name: (policy.name, {})
        for policy in policies()
        if policy.preemption != "edf" and policy.name not in RESIZING
    }
    return {**found, policy_findings.EXACT: ("repack", {"predict": "exact"})}


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
        yield f"| {POLICY} | {' | '.join(COLUMNS)} |"
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

    ratios = policy_findings.to_best(rows)
    data = pl.DataFrame(
        [
            {
                "policy": r.policy,
                "trace": r.trace.split("/")[1].split("_")[0],
                "speed": r.speed,
                "ratio": ratio,
            }
            for r, ratio in zip(rows, ratios, strict=True)
        ]
    ).with_columns(
        shown=pl.when(pl.col("ratio") < 9.995)
        .then(pl.col("ratio").round(2).map_elements("{:.2f}".format, return_dtype=pl.String))
        .otherwise(pl.col("ratio").map_elements("{:,.0f}".format, return_dtype=pl.String))
    )
    typical = policy_findings.typical(rows)
    base = alt.Chart(data).encode(
        x=alt.X("trace:N", sort=None, title=None, axis=alt.Axis(labelAngle=-35)),
        y=alt.Y("policy:N", sort=list(typical), title=None),
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


def page(written: Sequence[str]) -> str:
    """The whole page from its tables."""
    rows = policy_findings.rows("\n".join(written))
    parts = [
        INTRODUCTION,
        "## Findings",
        *policy_findings.findings(rows),
        f"\n![Mean JCT of every policy over the best of its case]({PICTURE})",
        READING.rstrip("\n"),
        *written,
    ]
    return "\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", type=Path, help="the folder with philly/ and helios/")
    parser.add_argument("page", type=Path, help="the page to write; its picture goes into images/ beside it")
    arguments = parser.parse_args()
    written = [line for name, groups in CLUSTERS.items() for line in tables(arguments.traces, name, groups)]
    text = page(written)
    (arguments.page.parent / PICTURE).write_bytes(picture(policy_findings.rows(text)))
    arguments.page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
