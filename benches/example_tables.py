"""The examples of priorities.md, services.md, outages.md, energy.md and operators.md in docs/: their figures.

    python benches/example_tables.py [TRACES] [PAGE...]

prints them; TRACES (default ../shared/traces) has philly/ and helios/, and PAGE is the name of a page. The
inputs are those that the pages show.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

import ringbco
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome
from ringbco.units import duration, seconds_of, time

LARGEST: Final = "philly/6214e9.csv"
"""On 32 servers of 8 GPUs, half of those that it had."""
SMALL: Final = "philly/e13805.csv"
HELIOS: Final = "helios/venus_2vc_2020-09.csv"
HOUR: Final = 3600.0


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def head(*names: str, words: int = 1) -> str:
    """The head of a table whose first columns hold words."""
    return f"{row(*names)}\n{row(*['---'] * words, *['---:'] * (len(names) - words))}"


def mean_wait(result: Outcome, chosen: Sequence[bool]) -> float:
    """Seconds, over the chosen rows of the job table, all of which were done."""
    return float(result.jobs.filter(pl.Series(chosen))["waited"].mean())  # type: ignore[arg-type]


def hours(seconds: float) -> str:
    """As `duration`, but in hours up to 200 of them, which are told apart better than days."""
    if seconds == 0:
        return "0"
    return f"{seconds / HOUR:.1f} h" if 2 * HOUR <= seconds < 200 * HOUR else duration(seconds)


def gpu_hours(result: Outcome, column: str) -> float:
    return float((result.jobs[column] * result.jobs["num_gpus"]).sum()) / HOUR


def priorities(traces: Path) -> Iterator[str]:
    jobs = ringbco.read_jobs(traces / LARGEST).frame

    def waits(policy: str, draw: int, **options: Any) -> tuple[Outcome, float, float]:
        """The result, and the mean waits of the urgent jobs and of the others."""
        urgent = [zlib.crc32(name.encode()) % 10 == draw for name in jobs["job_id"]]
        ranked = jobs.with_columns(priority=pl.Series(urgent).cast(pl.Int32))
        plain = options.pop("plain", False)
        result = ringbco.replay(jobs if plain else ranked, "32x8", policy=policy, **options)
        return result, mean_wait(result, urgent), mean_wait(result, [not one for one in urgent])

    urgent = sum(zlib.crc32(name.encode()) % 10 == 0 for name in jobs["job_id"])
    yield f"{jobs.height:,} jobs, {urgent:,} urgent"
    yield head("policy", "mean wait, urgent", "mean wait, others", "evictions")
    for policy in ("fifo", "sjf"):
        for name, options in (
            (f"`{policy}`, no priorities", {"plain": True}),
            (f"`{policy}`", {}),
            (f"`{policy} --evict`", {"evict": True}),
        ):
            result, mine, theirs = waits(policy, 0, **options)
            evictions = f"{result.summary['evictions']:,}" if "evict" in options else ""
            yield row(name, hours(mine), hours(theirs), evictions)
    yield f"pauses: {gpu_hours(result, 'lost_time'):,.0f} of {gpu_hours(result, 'held_time'):,.0f} GPU-hours"
    for draw in range(4):
        alone, evicting = waits("sjf", draw), waits("sjf", draw, evict=True)
        yield f"crc32 {draw}: sjf, others {hours(alone[2])}; sjf --evict, others {hours(evicting[2])}"
    yield from quotas(traces)


def quotas(traces: Path) -> Iterator[str]:
    jobs = ringbco.read_jobs(traces / HELIOS)
    apart = Cluster.from_groups([ServerGroup(20, 8, "vcvGl"), ServerGroup(2, 8, "vcvlY")])
    runs: dict[str, tuple[Any, Any]] = {
        "each on its own servers": (apart, None),
        "one pool": ("22x8", None),
    }
    for borrow in (True, False):
        quota = {"vc": ["vcvGl", "vcvlY"], "gpus": [160, 16], "borrow": [borrow] * 2}
        runs[f"one pool, quotas, borrow {str(borrow).lower()}"] = ("22x8", pl.DataFrame(quota))
    yield ", ".join(f"{count:,} jobs of {name}" for name, count in jobs.frame["vc"].value_counts().rows())
    yield head("", "mean wait, vcvGl", "mean wait, vcvlY", "evictions")
    for name, (cluster, quota) in runs.items():
        result = ringbco.replay(jobs, cluster, policy="fifo", quota=quota)
        of = jobs.frame["vc"]
        means = (duration(mean_wait(result, (of == vc).to_list())) for vc in ("vcvGl", "vcvlY"))
        yield row(name, *means, "" if quota is None else f"{result.summary['evictions']:,}")


def services(traces: Path) -> Iterator[str]:
    jobs = ringbco.read_jobs(traces / LARGEST).frame
    wanted = [round(8 - 6 * math.cos((hour - 4) / 12 * math.pi)) for hour in range(135 * 24)]
    loads = pl.DataFrame(
        {"time": [hour * HOUR for hour in range(135 * 24 + 1)], "replicas": [*wanted, 0]}
    ).with_columns(service=pl.lit("chat"), gpus_per_replica=pl.lit(4))
    kept = jobs.with_columns(preemptible=pl.lit(False))
    yield f"{jobs.height:,} jobs; {min(wanted)} to {max(wanted)} replicas"
    yield head("cluster", "mean JCT", "median JCT", "attainment", "evictions")
    found = {}
    for name, table, cluster, beside in (
        ("32 servers, jobs alone", jobs, "32x8", None),
        ("32 servers, jobs and the service", jobs, "32x8", loads),
        ("the same, no job preemptible", kept, "32x8", loads),
        ("25 servers for jobs, 7 for the service alone", jobs, "25x8", None),
    ):
        result = found[name] = ringbco.replay(table, cluster, policy="sjf-bco", services=beside)
        told = result.summary
        share = f"{100 * told['service_attainment']:.1f} %" if beside is not None else ""
        evictions = f"{told['evictions']:,}" if beside is not None else ""
        yield row(name, time(told["mean_jct"]), hours(told["median_jct"]), share, evictions)
    _, together, patient, _ = found.values()
    lent = together.summary["gpu_hours_lent_to_training"]
    paused = gpu_hours(together, "lost_time")
    yield f"lent to training: {lent:,.0f} GPU-hours; pauses: {paused:,.0f} GPU-hours"
    told = patient.summary["services"][0]
    scale_up = (duration(told[f"{which}_time_to_scale_up"]) for which in ("mean", "worst"))
    yield f"time to scale up where no job makes room: {' on average, at worst '.join(scale_up)}"


def outages(traces: Path) -> Iterator[str]:
    jobs = ringbco.read_jobs(traces / LARGEST)
    drawn = ringbco.outages("32x8", mtbf="42d", mttr="2h", days=135, seed=0, cause="hardware")
    yield f"{jobs.num_jobs:,} jobs, {drawn.frame.height} outages"
    yield head("checkpoints every", "failures", "work lost, GPU-hours", "goodput", "mean JCT")
    alone = ringbco.replay(jobs, "32x8", policy="sjf-bco")
    yield row("(no outages)", 0, 0, "100 %", duration(alone.summary["mean_jct"]))
    for name, interval in (
        *(("30 min", 1800.0), ("6 h", 6 * HOUR), ("24 h", 24 * HOUR)),
        ("never", math.inf),
    ):
        told = ringbco.replay(
            jobs, "32x8", policy="sjf-bco", outages=drawn, checkpoint_interval=interval
        ).summary
        lost = told["lost_work_gpu_seconds"] / HOUR
        share = f"{100 * told['goodput']:.1f} %"
        yield row(name, told["failures"], f"{lost:,.0f}", share, duration(told["mean_jct"]))


def energy(traces: Path) -> Iterator[str]:
    jobs = ringbco.read_jobs(traces / SMALL)
    cluster = Cluster.from_groups([ServerGroup(16, 8, gpu_type="P100")])
    yield head(
        *("placement", "sleeps after", "wakes in", "energy, kWh", "GPU-hours asleep"),
        *("jobs that wait for a server", "mean JCT"),
    )
    awake: dict[str, Any] = {}
    for placement, after, wake in (
        ("consolidate", "never", ""),
        *(("consolidate", after, "5 min") for after in ("1 h", "10 min", "1 min")),
        ("consolidate", "10 min", "30 min"),
        ("worst-fit", "never", ""),
        ("worst-fit", "10 min", "5 min"),
    ):
        given: dict[str, Any] = {}
        if wake:
            given = {"sleep_after": seconds_of("", after), "wake_time": seconds_of("", wake)}
        result = ringbco.replay(jobs, cluster, policy="fifo", placement=placement, **given)
        told = result.summary
        awake = awake or told
        asleep = told["gpu_types"][0].get("asleep_gpu_hours", 0.0)
        # fifo pauses nobody but for a server that wakes.
        waiting = int((result.jobs["lost_time"] > 0).sum()) if given else 0
        kwh = f"{told['energy_kwh']:,.0f}"
        mean = f"{told['mean_jct'] / 3_600:.2f} h"
        yield row(placement, after, wake, kwh, f"{asleep:,.0f}", waiting, mean)
        yield f"saved: {1 - told['energy_kwh'] / awake['energy_kwh']:.1%}"
    yield f"{jobs.num_jobs} jobs in {duration(awake['makespan'])}, utilisation {awake['utilisation']:.0%}"
    venus = ringbco.read_jobs(traces / HELIOS)
    own = [ServerGroup(20, 8, "vcvGl", "V100"), ServerGroup(2, 8, "vcvlY", "V100")]
    for after in ("never", "1 h", "1 min"):
        given = {} if after == "never" else {"sleep_after": seconds_of("", after), "wake_time": 300.0}
        told = ringbco.replay(venus, Cluster.from_groups(own), policy="sjf-bco", **given).summary
        kwh, busy = f"{told['energy_kwh']:,.0f}", f"{told['utilisation']:.0%}"
        yield f"Venus sleeps after {after}: {kwh} kWh, mean JCT {duration(told['mean_jct'])}, {busy} busy"


def operators(_: Path) -> Iterator[str]:
    jobs = ringbco.generate("philly", 5_000, 1, gpus=256, load=0.9).frame
    work = (pl.col("num_gpus") * pl.col("duration")).sum().alias("work")
    users = jobs.group_by("user").agg(work).sort("work", descending=True)
    most = users.head(4)
    yield f"{users.height} users, the four with most work: {', '.join(most['user'])},"
    yield f"{most['work'].sum() / users['work'].sum():.0%} of all GPU time"
    yield head("order", *(f"mean wait, {user}" for user in most["user"]), "mean wait, others")
    more = pl.DataFrame({"user": ["u023"], "share": [4.0]})
    day: dict[str, Any] = {"order": "fairshare", "half_life": "1d"}
    for name, options in (
        ("`fifo`", {}),
        ("`fairshare`", {"order": "fairshare"}),
        ("`fairshare --half-life 1d`", day),
        ("the same, share 4 for u023", {**day, "fair_shares": more}),
    ):
        result = ringbco.replay(jobs, "28x8", policy="fifo", model="fixed", **options)
        owner = jobs["user"]
        means = [mean_wait(result, (owner == user).to_list()) for user in most["user"]]
        means.append(mean_wait(result, (~owner.is_in(most["user"].to_list())).to_list()))
        yield row(name, *map(hours, means))


PAGES: Final = {page.__name__: page for page in (priorities, services, outages, energy, operators)}


def main(arguments: Sequence[str]) -> None:
    pages = [name for name in arguments if name in PAGES]
    others = [name for name in arguments if name not in PAGES]
    traces = Path(*others) if others else Path(__file__).parents[2] / "shared" / "traces"
    for name in pages or PAGES:
        print(f"\n{name}")
        for line in PAGES[name](traces):
            print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
