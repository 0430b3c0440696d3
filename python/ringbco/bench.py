"""How fast the engine is on this machine, in units of the floor: the time it takes to sort the events.

The floor of N jobs is a stable argsort of 2N random float64 by numpy, measured right before each replay; each
figure is a ratio to it, taken pair by pair, and the median of the pairs is quoted. Each case runs in a
process of its own, so that its peak memory is its own too.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

GPUS_PER_SERVER: Final = 8
SERVERS: Final = 256
LOAD: Final = 0.9
BURST: Final = 10_000


@dataclass(frozen=True)
class Case:
    """One row of the benchmark: what is replayed, on what, and how."""

    group: str
    label: str
    policy: str
    jobs: int = 0
    servers: int = SERVERS
    load: float = LOAD
    bursts: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """What one case cost. Seconds, bytes; `ratio` is engine time over the floor, the median of the pairs."""

    group: str
    label: str
    jobs: int
    servers: int
    load: float
    floor_seconds: float
    engine_seconds: float
    total_seconds: float
    ratio: float
    jobs_per_second: float
    events_per_second: float
    decisions_per_second: float
    longest_queue: int
    peak_bytes: int


#: The policies whose speed is named, with their options.
POLICIES: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "fifo, fixed": ("fifo", {"model": "fixed"}),
    "sjf": ("sjf", {}),
    "sjf-bco practical": ("sjf-bco", {}),
    "sjf-bco literal": ("sjf-bco", {"variant": "literal"}),
}
#: Preemptive ones, measured at one size.
PREEMPTIVE: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "srtf": ("srtf", {"model": "fixed"}),
    "tiresias": ("tiresias", {"model": "fixed"}),
}
DISCIPLINES: Final = ("strict", "skip", "easy")


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(
                (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), model
            )
    except OSError:
        pass
    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "polars": version("polars"),
        "ringbco": version("ringbco"),
    }


def policy_cases(names: Sequence[str], jobs: int) -> list[Case]:
    """The named policies; of none, the ones of `POLICIES`."""
    if not names:
        named = {**POLICIES, **PREEMPTIVE}
        return [Case("policy", label, policy, jobs, options=o) for label, (policy, o) in named.items()]
    return [Case("policy", name, name, jobs) for name in names]


def scaling_cases(jobs: int) -> list[Case]:
    """Cost per job as jobs, servers, and the queue grow, and as arrivals come in bursts."""
    cases = []
    for label, (policy, options) in POLICIES.items():
        for count in (jobs // 100, jobs // 10, jobs):
            cases.append(Case("jobs", label, policy, max(count, 1), options=options))
        for servers in (SERVERS, 16 * SERVERS, 100_000):
            cases.append(Case("servers", label, policy, jobs, servers=servers, options=options))
    for queue in DISCIPLINES:
        for load in (0.9, 1.2, 1.5):
            cases.append(Case("queue", f"sjf, {queue}", "sjf", jobs, load=load, options={"queue": queue}))
            cases.append(Case("queue", f"fifo, {queue}", "fifo", jobs, load=load, options={"queue": queue}))
    for bursts in (False, True):
        label = f"in bursts of {BURST:,}" if bursts else "spread"
        cases.append(Case("bursts", label, "sjf-bco", jobs, bursts=bursts))
    return cases


def run(
    cases: Sequence[Case],
    *,
    repeat: int,
    seed: int,
    trace: tuple[str, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Measurement]:
    """Measures every case, one process each, one after the other.

    trace: (path of a job table, cluster) to replay in place of generated jobs.
    """
    with tempfile.TemporaryDirectory(prefix="ringbco-bench-") as scratch:
        for done, case in enumerate(cases):
            if progress is not None:
                progress(done, len(cases))
            path, cluster = trace or _trace(case, seed, Path(scratch))
            with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
                yield pool.submit(_measure, case, path, cluster, repeat).result()


def _trace(case: Case, seed: int, scratch: Path) -> tuple[str, str]:
    """The generated trace of a case, made once."""
    name = f"{case.jobs}-{case.servers}-{case.load}-{case.bursts}.parquet"
    path = scratch / name
    if not path.exists():
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            pool.submit(_generate, case, seed, str(path)).result()
    return str(path), f"{case.servers}x{GPUS_PER_SERVER}"


def _generate(case: Case, seed: int, path: str) -> None:
    import polars as pl

    from ringbco.jobs import from_frame, write_jobs
    from ringbco.synthetic import generate

    table = generate("philly", case.jobs, seed, gpus=case.servers * GPUS_PER_SERVER, load=case.load)
    if case.bursts:
        first = pl.col("submit_time").gather(pl.int_range(pl.len()) // BURST * BURST)
        table = from_frame(table.frame.with_columns(first))
    write_jobs(table, path)


def _measure(case: Case, path: str, cluster: str, repeat: int) -> Measurement:
    from ringbco.cluster import Cluster
    from ringbco.jobs import read_jobs
    from ringbco.replay import replay

    table = read_jobs(path)
    where = Cluster.parse(cluster)
    events = np.random.default_rng(0).random(2 * table.num_jobs)
    floors, engines, totals = [], [], []
    for _ in range(repeat):
        began = time.perf_counter()
        np.argsort(events, kind="stable")
        floors.append(time.perf_counter() - began)
        began = time.perf_counter()
        outcome = replay(table, where, policy=case.policy, **case.options)
        totals.append(time.perf_counter() - began)
        engines.append(outcome.summary["engine_seconds"])
    engine = statistics.median(engines)
    summary, timeline = outcome.summary, outcome.timeline
    return Measurement(
        group=case.group,
        label=case.label,
        jobs=table.num_jobs,
        servers=where.num_servers,
        load=case.load,
        floor_seconds=statistics.median(floors),
        engine_seconds=engine,
        total_seconds=statistics.median(totals),
        ratio=statistics.median(e / f for e, f in zip(engines, floors, strict=True)),
        jobs_per_second=table.num_jobs / engine,
        events_per_second=summary["events"] / engine,
        decisions_per_second=summary["decisions"] / engine,
        longest_queue=int(timeline["queued_jobs"].to_numpy().max()),
        peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def whole_command(jobs: int, *, repeat: int, seed: int) -> dict[str, float]:
    """`ringbco replay` as a user runs it, Parquet in, folder out: wall seconds beside engine and floor."""
    case = Case("command", "fifo", "fifo", jobs)
    with tempfile.TemporaryDirectory(prefix="ringbco-bench-") as scratch:
        path, cluster = _trace(case, seed, Path(scratch))
        out = Path(scratch) / "result"
        command = ["replay", path, "--cluster", cluster, "--policy", "fifo", "--model", "fixed", "--json"]
        walls, engines, floors = [], [], []
        events = np.random.default_rng(0).random(2 * jobs)
        for _ in range(repeat):
            began = time.perf_counter()
            np.argsort(events, kind="stable")
            floors.append(time.perf_counter() - began)
            wall, text = _timed([*command, "-o", str(out), "--force"])
            walls.append(wall)
            engines.append(_engine_seconds(text))
    return {
        "wall_seconds": statistics.median(walls),
        "engine_seconds": statistics.median(engines),
        "floor_seconds": statistics.median(floors),
    }


def start_up(*, repeat: int) -> dict[str, float]:
    """Seconds that `import ringbco` and `ringbco --help` take beyond a bare interpreter."""

    def median(arguments: Sequence[str]) -> float:
        return statistics.median(_wall([sys.executable, *arguments]) for _ in range(repeat))

    bare = median(["-c", "pass"])
    return {
        "import_seconds": median(["-c", "import ringbco"]) - bare,
        "help_seconds": median(["-m", "ringbco", "--help"]) - bare,
    }


def _timed(arguments: Sequence[str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "ringbco", *arguments], check=True, capture_output=True, text=True
    )
    return time.perf_counter() - began, done.stdout


def _wall(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def _engine_seconds(summary: str) -> float:
    import json

    return float(json.loads(summary)["engine_seconds"])


def as_json(measurements: Sequence[Measurement], **more: Any) -> dict[str, Any]:
    """Everything measured, as plain data."""
    return {"machine": machine(), **more, "cases": [asdict(m) for m in measurements]}
