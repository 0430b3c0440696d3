"""Replays two published runs on real GPU clusters: the tables of docs/real-clusters.md, `make real-clusters`.

Muri's testbed (Zhao et al., SIGCOMM 2022), whose logs have each job under SRTF and Tiresias, and Shockwave's
(Zheng et al., NSDI 2023), whose logs have each job under max-min fairness and AlloX.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

import page_tables
import ringbco

PHYSICAL: Final = Path("../shared/peers/physical")
TESTBED: Final[Mapping[str, Any]] = {"cluster": "8x8", "model": "fixed", "allocations": True}
POLICIES: Final[Mapping[str, tuple[str | None, Mapping[str, Any]]]] = {
    "srtf --interval 360": ("SRTF", {"policy": "srtf", "interval": 360.0}),
    "srtf": ("SRTF", {"policy": "srtf"}),
    "tiresias --thresholds 3250,7200 --interval 360 --within list": (
        "tiresias",
        {"policy": "tiresias", "thresholds": [3250.0, 7200.0], "interval": 360.0, "within": "list"},
    ),
    "tiresias --thresholds 3250,7200 --interval 360": (
        "tiresias",
        {"policy": "tiresias", "thresholds": [3250.0, 7200.0], "interval": 360.0},
    ),
    "srsf --interval 360": (None, {"policy": "srsf", "interval": 360.0}),
    "gavel -P shares=finish-time -P renew=0": (
        None,
        {"policy": "gavel", "parameters": {"shares": "finish-time", "renew": 0.0}},
    ),
}
"""By its options: the log that Muri has of it, if there is one, and how it is replayed."""
ROUNDS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "gavel": ("max_min_fairness", {"policy": "gavel"}),
    "gavel --round 120": ("max_min_fairness", {"policy": "gavel", "parameters": {"round": 120.0}}),
    "gavel --round 120 -P renew=0": (
        "max_min_fairness",
        {"policy": "gavel", "parameters": {"round": 120.0, "renew": 0.0}},
    ),
    "allox": ("allox", {"policy": "allox"}),
}


def muri_jobs(folder: Path) -> tuple[pl.DataFrame, float, float]:
    """The testbed's jobs at their own rate, and of SRTF's log the rate and the seconds that a start takes.

    The work is iterations x iteration_time: the trace's durations are wrong for five jobs. The cost is the
    median of what short jobs held beyond their work, by their starts; the rate is the GPU time beyond all
    costs over that of the work.
    """
    trace = pl.read_csv(folder / "muri_cluster_trace.csv")
    log = pl.read_csv(folder / "muri_cluster_SRTF.csv").sort("job_id")
    work = trace["iterations"] * trace["iteration_time"] / 1000
    held, starts = log["real_executed_time"], log["job_counter"]
    cost = float(((held - work) / starts).filter(work < 1000).median())  # type: ignore[arg-type] # there are some
    gpus = trace["num_gpu"]
    rate = float((gpus * (held - cost * starts)).sum() / (gpus * work).sum())
    jobs = pl.DataFrame(
        {
            "job_id": trace["job_id"].cast(pl.String),
            "submit_time": trace["submit_time"] / 1000,
            "num_gpus": gpus,
            "duration": work,
        }
    )
    return jobs, rate, cost


def agreement(jobs: pl.DataFrame, real: pl.DataFrame) -> tuple[float, float, float, float]:
    """The log's mean JCT, s; the replay's over it, less 1; a job's median difference; the correlation."""
    own = jobs.select("job_id", own=pl.col("finish_time") - pl.col("submit_time"))
    both = own.join(real, on="job_id", validate="1:1")
    assert both.height == jobs.height
    mean = both["real"].mean()
    assert isinstance(mean, float)
    off = (both["own"] / both["real"] - 1).abs().median()
    near = both.select(pl.corr("own", "real")).item()
    return mean, both["own"].mean() / mean - 1, float(off), float(near)  # type: ignore[operator, arg-type]


def replayed(jobs: pl.DataFrame, **options: Any) -> pl.DataFrame:
    """The jobs of a run, which the audit has looked at."""
    cluster = options.pop("cluster")
    outcome = ringbco.replay(jobs, cluster, **options)
    assert ringbco.audit(outcome, jobs) == []
    return outcome.jobs


def muri(folder: Path) -> Iterator[str]:
    """The table of Muri's testbed."""
    jobs, rate, cost = muri_jobs(folder)
    yield f"Rate {rate:.4f} and start cost {cost:.1f} s, from SRTF's log alone:"
    yield ""
    yield "| policy | mean JCT, s | on the cluster, s | difference | median job | correlation |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    cost = round(cost, 1)
    fitted = jobs.with_columns(pl.col("duration") * rate)
    for label, (log, options) in POLICIES.items():
        yield _muri_row(folder, label, log, fitted, {**options, "preempt_cost": cost, "start_cost": cost})
    yield ""
    yield "Nothing fitted, rate 1 and no costs:"
    yield ""
    yield "| policy | mean JCT, s | on the cluster, s | difference | median job | correlation |"
    yield "| --- | ---: | ---: | ---: | ---: | ---: |"
    for label, (log, options) in POLICIES.items():
        if log is not None:
            yield _muri_row(folder, label, log, jobs, {**options, "preempt_cost": 0.0})


def _muri_row(folder: Path, label: str, log: str | None, jobs: pl.DataFrame, options: Any) -> str:
    found = replayed(jobs, **TESTBED, **options)
    mean = (found["finish_time"] - found["submit_time"]).mean()
    if log is None:
        return f"| `{label}` | {mean:,.0f} | no log | | | |"
    real = pl.read_csv(folder / f"muri_cluster_{log}.csv").select(
        pl.col("job_id").cast(pl.String), real=pl.col("JCT")
    )
    there, off, job, near = agreement(found, real)
    return f"| `{label}` | {mean:,.0f} | {there:,.0f} | {100 * off:+.1f} % | {100 * job:.1f} % | {near:.3f} |"


def shockwave(folder: Path) -> Iterator[str]:
    """The table of Shockwave's cluster."""
    with tempfile.TemporaryDirectory() as work:
        # Gavel's ten cells of each line: without the mode of batch adaptation and the run time.
        cells = [line.split("\t") for line in (folder / "shockwave_120.trace").read_text().splitlines()]
        trace = Path(work) / "gavel.trace"
        trace.write_text("".join("\t".join((*row[:7], *row[8:10], row[11])) + "\n" for row in cells))
        made = ringbco.convert(
            "gavel", trace, throughputs=folder / "shockwave_throughputs.json.gz", strict=True
        )
        cluster = Path(work) / "cluster.toml"
        cluster.write_text('[[servers]]\ncount = 8\ngpus = 4\ngpu_type = "v100"\n')
        logs = pl.read_csv(folder / "shockwave_jct.csv").filter(pl.col("set") == "tacc_32gpus_comparison")
        yield "| policy | mean JCT, s | on the cluster, s | difference | median job | their simulator |"
        yield "| --- | ---: | ---: | ---: | ---: | ---: |"
        for label, (policy, options) in ROUNDS.items():
            run = {**options, "model": "table", "tables": made.tables}
            found = replayed(made.table.frame, cluster=cluster, **run)
            own = logs.filter(pl.col("policy") == policy).with_columns(job_id=pl.col("job").cast(pl.String))
            theirs = own.pivot("kind", index="job_id", values="jct")
            there, off, job, _ = agreement(found, theirs.select("job_id", real="physical"))
            their = theirs["simulation"].mean() / there - 1  # type: ignore[operator]
            mean = there * (1 + off)
            yield (
                f"| `{label}` | {mean:,.0f} | {there:,.0f} | {100 * off:+.1f} % | {100 * job:.1f} % |"
                f" {100 * their:+.1f} % |"
            )


def main() -> None:
    """Writes the tables between their marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=PHYSICAL)
    parser.add_argument("page", type=Path, nargs="?", default=Path("docs/real-clusters.md"))
    given = parser.parse_args()
    made = {
        "muri": "\n".join(muri(given.folder)) + "\n",
        "shockwave": "\n".join(shockwave(given.folder)) + "\n",
    }
    given.page.write_text(page_tables.filled(given.page.read_text(encoding="utf-8"), made), encoding="utf-8")


if __name__ == "__main__":
    main()
