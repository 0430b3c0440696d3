"""How fast the engine is on this machine, in units of the floor: the time it takes to sort the events.

The floor of N jobs is a stable argsort of 2N random float64 by numpy, measured right before each replay; each
figure is a ratio to it, taken pair by pair, and the median of the pairs is quoted. Each case runs in a
process of its own, so that its peak memory is its own too.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np

from ringbco.cluster.spec import Cluster
from ringbco.io.marks import document
from ringbco.io.process import scratch_folder
from ringbco.io.system import peak_memory, processor
from ringbco.result.outcome import Outcome
from ringbco.run.custom_policy import is_custom
from ringbco.study.bench_cases import Case, grown, jobs_of, offered_load
from ringbco.study.bench_custom_policy import Split, split

GENERATED: Final = "generated jobs"
"""What messages call a trace of ours: the file it lies in is gone when they are read."""

# All that a replay imports, wherever it does so.
_IMPORTS: Final = "import ringbco.cli.replay, ringbco.run.replay, pyarrow.parquet"
# The libraries without which no job table is read; a small replay is compared with them.
_LIBRARIES: Final = "import polars, pyarrow"
_ONE_JOB: Final = "job_id,submit_time,num_gpus,duration\na,0,1,10\n"
REPORTED: Final = 15_000
"""Jobs of the result that the cost of a report is measured on."""


@dataclass(frozen=True)
class Measurement:
    """What one case cost. Seconds, bytes.

    ratio is engine time over the floor, the median of the pairs; `*_all` are the values of every run. load is
    the offered load of the trace, busy the largest share of the GPUs that was busy at once. split: where the
    time of a custom policy goes, in one more run; engine time has all of it.
    """

    group: str
    label: str
    arrivals: str
    jobs: int
    servers: int
    load: float | None
    floor_seconds: float
    engine_seconds: float
    total_seconds: float
    ratio: float
    jobs_per_second: float
    events_per_second: float
    decisions_per_second: float
    longest_queue: int
    busy: float
    peak_bytes: int
    floor_seconds_all: tuple[float, ...]
    engine_seconds_all: tuple[float, ...]
    total_seconds_all: tuple[float, ...]
    ratio_all: tuple[float, ...]
    split: Split | None = None


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "polars": version("polars"),
        "ringbco": version("ringbco"),
    }


def run(
    cases: Sequence[Case],
    cluster: Cluster,
    *,
    repeat: int,
    seed: int,
    trace: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Measurement]:
    """Measures every case, one process each, one after the other; cases of equal work share a measurement.

    trace: path of a job table to replay in place of generated jobs.
    """
    known: dict[tuple[Any, ...], Measurement] = {}
    with scratch_folder("ringbco-bench-") as scratch:
        for done, case in enumerate(cases):
            if progress is not None:
                progress(done, len(cases))
            if case.work not in known:
                path = trace or _trace(case, cluster, seed, scratch)
                where = grown(cluster, case.servers)
                known[case.work] = _apart(_measure, case, path, where, trace is None, repeat)
            yield replace(known[case.work], group=case.group, label=case.label)


def _apart(function: Callable[..., Any], *arguments: object) -> Any:
    """What the function returns, run in a fresh process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def _trace(case: Case, cluster: Cluster, seed: int, scratch: Path) -> str:
    """The file of a case's generated jobs, made once."""
    path = scratch / f"{'-'.join(map(str, case.trace))}.parquet"
    if not path.exists():
        _apart(_generate, case, cluster, seed, str(path))
    return str(path)


def _generate(case: Case, cluster: Cluster, seed: int, path: str) -> None:
    from ringbco.trace.jobs import write_jobs

    write_jobs(jobs_of(case, cluster, seed), path)


def _measure(case: Case, path: str, cluster: Cluster, generated: bool, repeat: int) -> Measurement:
    from ringbco.run.replay import replay
    from ringbco.trace.jobs import read_jobs

    table = read_jobs(path)
    if generated:
        table = replace(table, source=GENERATED)
    events = np.random.default_rng(0).random(2 * table.num_jobs)
    floors, engines, totals = [], [], []
    for _ in range(repeat):
        floors.append(_sorting_time(events))
        began = time.perf_counter()
        outcome = replay(table, cluster, policy=case.policy, **case.options)
        engines.append(float(outcome.summary["engine_seconds"]))
        totals.append(time.perf_counter() - began)
    engine = statistics.median(engines)
    ratios = [e / f for e, f in zip(engines, floors, strict=True)]
    # Before the figures below, whose own arrays are no part of the replay.
    peak = peak_memory()
    return Measurement(
        group=case.group,
        label=case.label,
        arrivals=case.arrivals if generated else "own",
        jobs=table.num_jobs,
        servers=cluster.num_servers,
        load=offered_load(table, cluster),
        floor_seconds=statistics.median(floors),
        engine_seconds=engine,
        total_seconds=statistics.median(totals),
        ratio=statistics.median(ratios),
        jobs_per_second=table.num_jobs / engine,
        events_per_second=outcome.summary["events"] / engine,
        decisions_per_second=outcome.summary["decisions"] / engine,
        longest_queue=_longest_queue(outcome),
        busy=float(outcome.timeline["busy_gpus"].to_numpy().max()) / cluster.num_gpus,
        peak_bytes=peak,
        floor_seconds_all=tuple(floors),
        engine_seconds_all=tuple(engines),
        total_seconds_all=tuple(totals),
        ratio_all=tuple(ratios),
        split=split(table, cluster, case.policy, case.options) if is_custom(case.policy) else None,
    )


def _sorting_time(events: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    began = time.perf_counter()
    np.argsort(events, kind="stable")
    return time.perf_counter() - began


def _longest_queue(outcome: Outcome) -> int:
    """The most jobs that waited after the pass of a submission; the timeline's samples fall between bursts.

    Suspended jobs count where a sample saw them.
    """
    submitted = np.sort(outcome.jobs["submit_time"].to_numpy())
    started = np.sort(outcome.jobs["start_time"].drop_nulls().to_numpy())
    come = np.searchsorted(submitted, submitted, side="right")
    waiting = come - np.searchsorted(started, submitted, side="right")
    return max(int(waiting.max()), int(outcome.timeline["queued_jobs"].to_numpy().max()))


def whole_command(jobs: int, cluster: Cluster, *, repeat: int, seed: int) -> dict[str, Any]:
    """`ringbco replay` as a user runs it, Parquet in, folder out: wall seconds, and what they consist of.

    The start-up is the interpreter and the imports of a replay, timed without one, in turn with the others.
    """
    case = Case("command", "fifo", "fifo", jobs)
    named: dict[str, list[float]] = {name: [] for name in ("wall", "engine", "floor", "start_up")}
    with scratch_folder("ringbco-bench-") as scratch:
        path = _trace(case, cluster, seed, scratch)
        servers = scratch / "cluster.toml"
        servers.write_text(cluster.to_toml(), encoding="utf-8")
        command = ["replay", path, "--cluster", str(servers), "--policy", "fifo", "--model", "fixed"]
        command += ["--json", "-o", str(scratch / "result"), "--force"]
        events = np.random.default_rng(0).random(2 * jobs)
        for _ in range(repeat):
            named["floor"].append(_sorting_time(events))
            named["start_up"].append(_wall(["-c", _IMPORTS])[0])
            wall, summary = _wall(["-m", "ringbco", *command])
            named["wall"].append(wall)
            named["engine"].append(float(json.loads(summary)["engine_seconds"]))
    figures: dict[str, Any] = {f"{name}_seconds": statistics.median(s) for name, s in named.items()}
    return figures | {f"{name}_seconds_all": seconds for name, seconds in named.items()}


def small_costs(jobs: int, cluster: Cluster, *, repeat: int, seed: int) -> dict[str, Any]:
    """CPU seconds of what hardly depends on the engine, each the least of `repeat` runs, in turn.

    imports: `import polars, pyarrow`. one_job: a replay of one job. report: a page of `reported_jobs` jobs,
    REPORTED at most.
    """
    reported = min(jobs, REPORTED)
    case = Case("report", "fifo", "fifo", reported)
    with scratch_folder("ringbco-bench-") as folder:
        (folder / "one.csv").write_text(_ONE_JOB, encoding="utf-8")
        (folder / "cluster.toml").write_text(cluster.to_toml(), encoding="utf-8")
        path = _trace(case, cluster, seed, folder)
        ringbco = ["-m", "ringbco"]
        one = [*ringbco, "replay", str(folder / "one.csv"), "--cluster", "1x8", "-o", str(folder / "one")]
        page = [*ringbco, "report", str(folder / "result"), "-o", str(folder / "page.html")]
        where = ["--cluster", str(folder / "cluster.toml"), "-o", str(folder / "result"), "--policy", "fifo"]
        _cpu([*ringbco, "replay", path, *where])
        costs: dict[str, Any] = {"imports": [], "one_job": [], "report": []}
        for _ in range(repeat):
            costs["imports"].append(_cpu(["-c", _LIBRARIES]))
            costs["one_job"].append(_cpu([*one, "--force"]))
            costs["report"].append(_cpu([*page, "--force"]))
    return {"reported_jobs": reported} | {f"{name}_cpu_seconds": min(spent) for name, spent in costs.items()}


def _cpu(arguments: Sequence[str]) -> float:
    """CPU seconds, user and system, that Python takes with the arguments."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up(*, repeat: int) -> dict[str, float]:
    """Seconds that `import ringbco` and `ringbco --help` take beyond a bare interpreter, and that one."""

    def median(*arguments: str) -> float:
        return statistics.median(_wall(arguments)[0] for _ in range(repeat))

    bare = median("-c", "pass")
    return {
        "interpreter_seconds": bare,
        "import_seconds": median("-c", "import ringbco") - bare,
        "help_seconds": median("-m", "ringbco", "--help") - bare,
    }


def _wall(arguments: Sequence[str]) -> tuple[float, str]:
    """Seconds that Python takes with the arguments, and what it prints."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return time.perf_counter() - began, done.stdout


def as_json(measurements: Sequence[Measurement], **more: Any) -> dict[str, Any]:
    """Everything measured, as plain data."""
    return {"machine": machine(), **more, "cases": [asdict(m) for m in measurements]}


def is_json(path: Path) -> bool:
    """Whether a file holds what `as_json` gave."""
    told = document(path)
    where = told.get("machine")
    return "cases" in told and isinstance(where, dict) and "ringbco" in where
