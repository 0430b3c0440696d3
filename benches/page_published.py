"""The table of docs/published.md: what other simulators and clusters gave, and what comes out here."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

import ringbco
from page_tables import Figures, TableInputs, table
from ringbco.cli.runs import named_runs
from ringbco.cluster.spec import Cluster, ServerGroup

COLUMNS: Final = {
    "theirs": "{theirs}",
    "here": "{here}",
    "difference": "{off:% +.1f}",
    "median job": "{job:% .1f}",
    "correlation": "{near:.3f}",
}


class Case(NamedTuple):
    """Jobs, what else a replay of them takes, and the completion times of others: job_id, real."""

    jobs: Any
    real: pl.DataFrame
    options: Mapping[str, Any] = {}


def philly(given: TableInputs) -> Iterator[Case]:
    """A virtual cluster through Lucid's simulator."""
    real = pl.read_csv(given.peers / "lucid" / "philly-103959_sjf.csv")
    yield Case(given.jobs("philly/103959"), real.select("job_id", real="jct"))


@cache
def converted(source: str, *files: Path, types: str = "", **options: Any) -> tuple[Any, Mapping[str, Any]]:
    """Jobs with their measured speeds. types: a server of 4 GPUs for each word."""
    made = ringbco.convert(source, *files, strict=True, **options)
    groups = [ServerGroup(1, 4, gpu_type=name) for name in types.split()]
    return made.table, {"tables": made.tables} | ({"cluster": Cluster.from_groups(groups)} if types else {})


def gavel(given: TableInputs, policy: str) -> Iterator[Case]:
    """60 jobs through Gavel's simulator."""
    folder = given.peers / "gavel"
    speeds = folder / "simulation_throughputs.json.gz"
    jobs, options = converted("gavel", folder / "single60.trace", throughputs=speeds, types="v100 p100 k80")
    real = pl.read_csv(folder / f"single60-{policy}_jct.csv")
    yield Case(jobs, real.select(pl.col("job").cast(pl.String).alias("job_id"), real="jct_s"), options)


def pollux(given: TableInputs, policy: str) -> Iterator[Case]:
    """Workloads 1 to 4 through Pollux' simulator."""
    folder = given.peers / "pollux"
    for name, jct in json.loads((folder / f"{policy}_jct.json").read_text()).items():
        jobs, options = converted(
            "pollux", folder / "workloads" / f"{name}.csv", profiles=folder / "profiles"
        )
        yield Case(
            jobs, pl.DataFrame({"job_id": list(jct), "real": [float(each) for each in jct.values()]}), options
        )


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
    jobs = trace.select(
        pl.col("job_id").cast(pl.String), pl.col("submit_time") / 1000, num_gpus="num_gpu", duration=work
    )
    return jobs, rate, cost


def muri(given: TableInputs, log: str, *, fitted: bool = True) -> Iterator[Case]:
    """Muri's testbed; fitted: at the rate of SRTF's log."""
    folder = given.peers / "physical"
    jobs, rate, _ = muri_jobs(folder)
    real = pl.read_csv(folder / f"muri_cluster_{log}.csv")
    jobs = jobs.with_columns(pl.col("duration") * (rate if fitted else 1.0))
    yield Case(jobs, real.select(pl.col("job_id").cast(pl.String), real="JCT"))


def shockwave(given: TableInputs, policy: str) -> Iterator[Case]:
    """Shockwave's cluster."""
    folder = given.peers / "physical"
    jobs, options = converted(
        "gavel",
        folder / "shockwave_120.trace",
        throughputs=folder / "shockwave_throughputs.json.gz",
        types="v100 " * 8,
    )
    logs = pl.read_csv(folder / "shockwave_jct.csv").filter(
        set="tacc_32gpus_comparison", policy=policy, kind="physical"
    )
    yield Case(jobs, logs.select(pl.col("job").cast(pl.String).alias("job_id"), real="jct"), options)


def venus(given: TableInputs) -> Iterator[Case]:
    """Two virtual clusters of Helios' Venus; of fleetsim's jobs only the mean is known."""
    groups = [ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")]
    jobs = given.jobs("helios/venus_2vc_2020-09")
    mean = pl.DataFrame({"job_id": [""], "real": [28_557.0]})  # fleetsim 0.8
    yield Case(jobs, mean, {"cluster": Cluster.from_groups(groups)})


def replayed(cases: Iterator[Case], run: str) -> Figures:
    """A run of each case, which the audit has looked at, beside what others had, job by job."""
    (options,) = named_runs([run]).values()
    own, real = [], []
    for number, case in enumerate(cases):
        outcome = ringbco.replay(case.jobs, **case.options, **options)
        assert ringbco.audit(outcome, case.jobs) == []
        own.append(outcome.jobs.select("job_id", "jct", case=number))
        real.append(case.real.with_columns(case=number))
    ours, theirs = pl.concat(own), pl.concat(real)
    here, there = float(ours["jct"].mean()), float(theirs["real"].mean())  # type: ignore[arg-type] # there are some
    figures = Figures(theirs=f"{there:,.1f}", here=f"{here:,.1f}", off=here / there - 1)
    if theirs.height > 1:
        both = ours.join(theirs, on=["case", "job_id"], how="full", validate="1:1")
        assert both.height == ours.height == theirs.height
        off = (both["jct"] / both["real"] - 1).abs()
        figures.update(Figures(job=off.median(), near=both.select(pl.corr("jct", "real")).item()))
    return figures


def packed(given: TableInputs, run: str) -> Figures:
    """The GPUs that a placement allocates, beside the published share."""
    openb = given.traces / "openb"
    files = [openb / f"openb_{name}.csv" for name in ("pod_list_default", "node_list_gpu_node")]
    made = ringbco.convert("openb", files, cluster=True)
    published = json.loads((given.peers / "fgd" / "allocation_default.json").read_text())
    there = published["openb_pod_list_default"][PLACEMENTS[run]]["130"] / 100
    packing = ringbco.pack(made.table, made.cluster, placement=run.rpartition(" ")[2], until=1.3, runs=10)
    here = packing.allocated_at_end
    return Figures(
        theirs=f"{there:.1%}".replace("%", " %"), here=f"{here:.1%}".replace("%", " %"), off=here / there - 1
    )


PLACEMENTS: Final = {
    "pack --until 130% --runs 10 --placement fgd": "06-FGD",
    "pack --until 130% --runs 10 --placement best-fit": "05-BestFit",
    "pack --until 130% --runs 10 --placement random": "01-Random",
}
_POLLUX: Final = "--cluster 16x4 --model table --start-cost 30"
_MURI: Final = "--cluster 8x8 --model fixed --preempt-cost 23.9 --start-cost 23.9"
_QUEUES: Final = "tiresias --thresholds 3250,7200 --interval 360"
RUNS: Final[Mapping[tuple[str, str], Callable[[TableInputs], Iterator[Case]]]] = {
    ("Lucid", "sjf --cluster 4x8 --model fixed"): philly,
    ("fleetsim", "fifo --model fixed --clock slot --slot 60"): venus,
    ("Gavel", "gavel --model table --preempt-cost 0 -P shares=first-come"): partial(
        gavel, policy="fifo_perf"
    ),
    ("Gavel", "gavel --model table --preempt-cost 0"): partial(gavel, policy="max_min_fairness_perf"),
    ("Gavel", "allox --model table --preempt-cost 0"): partial(gavel, policy="allox"),
    ("Pollux", f"tiresias --thresholds 57600 --placement emptiest {_POLLUX}"): partial(
        pollux, policy="tiresias"
    ),
    (
        "Pollux",
        f"optimus --interval 60 --resize-every 120 --placement emptiest {_POLLUX} --clock slot --slot 60",
    ): partial(pollux, policy="optimus"),
    ("Muri", f"srtf --interval 360 {_MURI}"): partial(muri, log="SRTF"),
    ("Muri", f"srtf {_MURI}"): partial(muri, log="SRTF"),
    ("Muri", f"{_QUEUES} --within list {_MURI}"): partial(muri, log="tiresias"),
    ("Muri", f"{_QUEUES} {_MURI}"): partial(muri, log="tiresias"),
    ("Muri", f"{_QUEUES} --within list --cluster 8x8 --model fixed --preempt-cost 0"): partial(
        muri, log="tiresias", fitted=False
    ),
    ("Shockwave", "gavel --model table"): partial(shockwave, policy="max_min_fairness"),
    ("Shockwave", "gavel --model table --round 120"): partial(shockwave, policy="max_min_fairness"),
    ("Shockwave", "allox --model table"): partial(shockwave, policy="allox"),
}
CASES: Final = (*RUNS, *(("FGD", run) for run in PLACEMENTS))


def row(given: TableInputs, source: str, run: str) -> Figures:
    """The figures of one row."""
    return packed(given, run) if run in PLACEMENTS else replayed(RUNS[source, run](given), run)


def published(given: TableInputs) -> Iterator[str]:
    """One row per number."""
    cases = given.some(CASES)
    yield from table(
        ["source", "run"], COLUMNS, (([of, f"`{run}`"], row(given, of, run)) for of, run in cases)
    )
