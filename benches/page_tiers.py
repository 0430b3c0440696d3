"""Tables of docs/tiers.md: what oversubscription costs, and how many GPUs of racks segments can use."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any, Final

import numpy as np
import polars as pl

from page_tables import TableInputs, head, line
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.cluster.tiers import Tier
from ringbco.errors import UsageError
from ringbco.result.certainty import interval
from ringbco.run.replay import replay
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.synthetic import generate

SERVERS, GPUS, RACK = 128, 8, 8
"""1,024 GPUs in racks of 8 servers."""
NETWORK: Final = Network(intra_bandwidth=450e9, inter_bandwidth=50e9, xi1=1.0, alpha=0.0)
"""H100s with a port of 400 Gb/s each; jobs on a link share it fairly, all at once."""
PLACEMENTS: Final = ("consolidate", "compact", "random")
LOADS, SHARES, TIMES = (0.6, 0.8), (5, 15, 30), (2, 4, 8)
TABLES, JOBS, FIRST = 6, 10_000, 3_000
"""Fresh tables, the jobs of each, and the least seed."""


def racks(times: float | None) -> Cluster:
    """Racks whose uplinks carry what their servers send over `times`; None for no uplinks."""
    sends = RACK * GPUS * NETWORK.inter_bandwidth
    tiers = () if times is None else (Tier("rack", sends / times, RACK),)
    recorded = Cluster([GPUS], network=NETWORK, nics="gpu")
    return Cluster([GPUS] * SERVERS, network=NETWORK, tiers=tiers, nics="gpu", recorded=recorded)


def jobs(load: float, share: int, seed: int) -> JobTable:
    """Language models of which each spends `share` % of an iteration in its ring, alone on whole servers."""
    table = generate("llm", JOBS, seed, gpus=SERVERS * GPUS, load=load)
    compute = pl.col("fp_time") * pl.col("batch_size") + pl.col("bp_time")
    link = min(NETWORK.intra_bandwidth, GPUS * NETWORK.inter_bandwidth)
    ring = 2 * (pl.col("num_gpus") - 1) / pl.col("num_gpus") / link
    frame = table.frame.with_columns(gradient_bytes=share / (100 - share) * compute / ring)
    return from_frame(frame, table.source, table.metadata)


def means(table: JobTable, cluster: Cluster, placement: str, seed: int) -> tuple[float, float]:
    """Mean completion time, and the mean run time of gangs beyond a server, s."""
    outcome = replay(table, cluster, policy="fifo", queue="easy", placement=placement, seed=seed)
    wide = outcome.jobs.filter(pl.col("num_gpus") > GPUS)
    ran = (wide["finish_time"] - wide["start_time"]).mean()
    return float(outcome.summary["mean_jct"]), float(ran)  # type: ignore[arg-type]


def oversubscription(given: TableInputs) -> Iterator[str]:
    """A line a load, share of communication and placement: dearer by, in the median of six fresh tables."""
    names = [f"{times}:1, {what}" for times in TIMES for what in ("completion", "run")]
    yield from head("load", "communication", "placement", *names, words=3)
    for load in given.some(LOADS):
        for share in SHARES:
            tables = [jobs(load, share, FIRST + number) for number in range(given.draws(TABLES))]
            for placement in PLACEMENTS:
                plain = [means(table, racks(None), placement, at) for at, table in enumerate(tables)]
                cells: list[str] = []
                for times in TIMES:
                    found = [means(table, racks(times), placement, at) for at, table in enumerate(tables)]
                    for what in range(2):
                        ratios = [one[what] / other[what] for one, other in zip(found, plain, strict=True)]
                        cells.append(dearer(ratios))
                yield line(load, f"{share} %", placement, *cells)


def dearer(ratios: list[float]) -> str:
    """The median, and the interval of fresh tables, in percent above."""
    ends = interval(ratios, "fresh tables")
    told = "" if ends is None else f" ({' to '.join(map(percent_above, ends))})"
    return f"{percent_above(median(ratios))} %{told}"


def percent_above(ratio: float) -> str:
    """Without a sign where it is 0."""
    return f"{100 * (ratio - 1):.1f}".replace("-0.0", "0.0")


TRAYS, TRAY_GPUS, DOMAINS = 18, 4, 200
"""A rack is 18 trays of 4 GPUs, and there are so many."""
SEGMENTS, BROKEN = (1, 2, 4, 6, 8, 9, 12, 16, 18), (0.0, 0.01, 0.02, 0.05)


def capacity(given: TableInputs) -> Iterator[str]:
    """A line a share of broken trays: the part of all GPUs that jobs of one segment hold.

    Raises UsageError where it is not what each rack can hold.
    """
    sizes = ("1 tray" if size == 1 else f"{size} trays" for size in SEGMENTS)
    yield from head("broken trays", *sizes, words=1)
    cluster = Cluster([TRAY_GPUS] * TRAYS * DOMAINS, tiers=(Tier("rack", 1e12, TRAYS),))
    for share in given.some(BROKEN):
        broken = np.sort(
            np.random.default_rng(1).permutation(TRAYS * DOMAINS)[: round(share * TRAYS * DOMAINS)]
        )
        left = TRAYS - np.bincount(broken // TRAYS, minlength=DOMAINS)
        cells = []
        for size in SEGMENTS:
            held = held_gpus(cluster, broken, size)
            expected = int((left // size * size).sum()) * TRAY_GPUS
            if held != expected:
                raise UsageError(f"segments of {size}: {held} GPUs are held, and {expected} can be")
            cells.append(f"{100 * held / cluster.num_gpus:.1f} %")
        yield line(f"{100 * share:.0f} %", *cells)


def held_gpus(cluster: Cluster, broken: np.ndarray, size: int) -> int:
    """GPUs that jobs of one segment of `size` trays hold at once, so many that some wait."""
    count = cluster.num_servers // size + 1
    frame = pl.DataFrame(
        {
            "job_id": [f"s{number}" for number in range(count)],
            "submit_time": [1.0] * count,
            "num_gpus": pl.Series([size * TRAY_GPUS] * count, dtype=pl.UInt32),
            "duration": [100.0] * count,
            "segment": pl.Series([size * TRAY_GPUS] * count, dtype=pl.UInt32),
            "segment_tier": ["rack"] * count,
        }
    )
    options: dict[str, Any] = {"policy": "fifo", "placement": "compact", "model": "fixed"}
    if broken.size:
        options["outages"] = pl.DataFrame(
            {"server": broken, "down_at": [0.0] * broken.size, "up_at": [1e6] * broken.size}
        )
    jobs = replay(frame, cluster, **options).jobs
    return int(jobs.filter(pl.col("start_time") == 1.0)["num_gpus"].sum())
