"""Results made without the engine: from the reference's schedules, or from any that a test makes up.

A `Story` is a schedule as plain lists. `tell` turns it into the outcome that a replay of it would leave, with
every derived column, the summary and the timeline worked out from it, slowly. A test that plants a fault
changes the story before it is told, so that the fault is the only thing wrong.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from reference import Job, Result, simulate
from reference.model import fewest_servers, iteration_time
from reference.tiers import contention
from ringbco.result.outcome import Outcome
from ringbco.result.schema import ALLOCATIONS_SCHEMA, JOBS_SCHEMA, TIMELINE_SCHEMA
from strategies import Case

POINTS = 2000


@dataclass
class Stay:
    """A job's GPUs on one server for a while."""

    row: int
    server: int
    gpus: int
    start: float
    end: float


@dataclass
class Story:
    """What happened, by row of the job table; `rows` are those that have a result."""

    case: Case
    rows: list[int]
    start: list[float]
    finish: list[float]
    max_contention: list[int]
    num_servers: list[int]
    dropped: list[int]
    stays: list[Stay] = field(default_factory=list)

    def of(self, row: int) -> list[Stay]:
        return [stay for stay in self.stays if stay.row == row]

    def shift(self, row: int, start: float = 0.0, finish: float = 0.0) -> None:
        """Moves a job's start and finish by so many seconds."""
        self.start[row] += start
        self.finish[row] += finish
        for stay in self.of(row):
            stay.start += start
            stay.end += finish


def story_of(case: Case) -> Story:
    """The reference model's schedule."""
    result: Result = simulate(case.jobs, case.servers, case.net, case.options, case.server_vc)
    rows = [row for row, kept in enumerate(result.kept) if kept]
    return Story(
        case=case,
        rows=rows,
        start=result.start,
        finish=result.finish,
        max_contention=result.max_contention,
        num_servers=[len(a) for a in result.allocations],
        dropped=[row for row, kept in enumerate(result.kept) if not kept],
        stays=[
            Stay(row, server, gpus, result.start[row], result.finish[row])
            for row in rows
            for server, gpus in sorted(result.allocations[row].items())
        ],
    )


def job_id(row: int) -> str:
    return f"job-{row}"


def frame_of(case: Case) -> pl.DataFrame:
    """The job table of a case, every column that the model needs given."""
    jobs = case.jobs
    frame = pl.DataFrame(
        {
            "job_id": [job_id(row) for row in range(len(jobs))],
            "submit_time": [job.submit for job in jobs],
            "num_gpus": [job.num_gpus for job in jobs],
            "duration": [job.duration for job in jobs],
            "iterations": [job.iterations for job in jobs],
            "gradient_bytes": [job.gradient_bytes for job in jobs],
            "fp_time": [job.compute_time for job in jobs],
        }
    )
    if any(job.pod > 1 for job in jobs):
        frame = frame.with_columns(gpus_per_pod=pl.Series([job.pod for job in jobs]))
    if case.server_vc is not None:
        frame = frame.with_columns(vc=pl.Series([f"vc{job.vc}" for job in jobs]))
    return frame


def write_case(case: Case, folder: Path) -> Path:
    """The job table of a case as a file."""
    path = folder / "jobs.csv"
    frame_of(case).write_csv(path)
    return path


def tell(story: Story, trace: Path) -> Outcome:
    """The outcome that a replay of the story on the job table in `trace` would leave."""
    case, rows = story.case, story.rows
    jobs = [case.jobs[row] for row in rows]
    start = [story.start[row] for row in rows]
    finish = [story.finish[row] for row in rows]
    ideal = [_ideal(case, job) for job in jobs]
    frame = pl.DataFrame(
        {
            "job_id": [job_id(row) for row in rows],
            "submit_time": [job.submit for job in jobs],
            "start_time": start,
            "finish_time": finish,
            "wait_time": [s - job.submit for s, job in zip(start, jobs, strict=True)],
            "run_time": [f - s for s, f in zip(start, finish, strict=True)],
            "jct": [f - job.submit for f, job in zip(finish, jobs, strict=True)],
            "waited": [s - job.submit for s, job in zip(start, jobs, strict=True)],
            "slowdown": [(f - job.submit) / i for f, job, i in zip(finish, jobs, ideal, strict=True)],
            "ideal_run_time": ideal,
            "num_gpus": [job.num_gpus for job in jobs],
            "num_servers": [story.num_servers[row] for row in rows],
            "max_contention": [story.max_contention[row] for row in rows],
            "preemptions": [0] * len(rows),
        },
        schema_overrides=JOBS_SCHEMA,
    )
    if case.server_vc is not None:
        frame = frame.with_columns(vc=pl.Series([f"vc{job.vc}" for job in jobs]))
    stays = [stay for stay in story.stays if stay.row in rows]
    allocations = pl.DataFrame(
        {
            "job_id": [job_id(stay.row) for stay in stays],
            "server": [stay.server for stay in stays],
            "num_gpus": [stay.gpus for stay in stays],
            "start_time": [stay.start for stay in stays],
            "end_time": [stay.end for stay in stays],
            "stay": [0] * len(stays),
        },
        schema_overrides=ALLOCATIONS_SCHEMA,
    )
    return Outcome(frame, allocations, _timeline(story), _summary(story, frame), _run(case, trace))


def _ideal(case: Case, job: Job) -> float:
    if case.options.model == "fixed":
        return job.duration
    sizes = [
        size
        for server, size in enumerate(case.servers)
        if case.server_vc is None or case.server_vc[server] == job.vc
    ]
    return job.iterations * iteration_time(job, fewest_servers(job.num_gpus, sizes), 1, case.net)


def _spanning_at(story: Story, time: float) -> list[set[int]]:
    """The servers of every job that spans some at a time."""
    held: dict[int, set[int]] = {}
    for stay in story.stays:
        if stay.row in story.rows and stay.start <= time < stay.end:
            held.setdefault(stay.row, set()).add(stay.server)
    return [servers for servers in held.values() if len(servers) > 1]


def _total_contention(story: Story, time: float) -> tuple[int, int]:
    """The sum of p_j over the spanning jobs at a time, and how many they are."""
    spanning = _spanning_at(story, time)
    return sum(contention(servers, spanning) for servers in spanning), len(spanning)


def _summary(story: Story, frame: pl.DataFrame) -> dict[str, object]:
    case = story.case
    instants = sorted({t for stay in story.stays for t in (stay.start, stay.end)})
    shared = alone = 0.0
    for t, following in pairwise(instants):
        p, spanning = _total_contention(story, t)
        shared += p * (following - t)
        alone += spanning * (following - t)
    summary = {
        "policy": "fifo",
        "jobs": frame.height,
        "jobs_dropped": len(story.dropped),
        **_figures(frame, sum(case.servers)),
        "mean_contention": shared / alone if alone else 0.0,
        "events": 2 * frame.height,
        "engine_seconds": 0.1,
        "total_seconds": 0.2,
        "jobs_per_second": frame.height / 0.2,
    }
    if case.server_vc is None:
        return summary
    summary["vcs"] = []
    for v in range(max(case.server_vc) + 1):
        mine = [row for row in story.rows if case.jobs[row].vc == v]
        jobs = frame.filter(pl.Series([row in mine for row in story.rows], dtype=pl.Boolean))
        servers = [size for server, size in enumerate(case.servers) if case.server_vc[server] == v]
        row = {"vc": f"vc{v}", "servers": len(servers), "gpus": sum(servers), "jobs": jobs.height}
        row["jobs_dropped"] = sum(case.jobs[row].vc == v for row in story.dropped)
        summary["vcs"].append({**row, **(_figures(jobs, sum(servers)) if jobs.height else {})})
    return summary


def _figures(frame: pl.DataFrame, gpus: int) -> dict[str, float]:
    makespan = frame["finish_time"].max() - frame["submit_time"].min()
    figures = {"makespan": makespan, "jobs_spread": int((frame["num_servers"] > 1).sum())}
    for name, column in (
        ("jct", "jct"),
        ("wait", "waited"),
        ("time_to_start", "wait_time"),
        ("slowdown", "slowdown"),
    ):
        figures[f"mean_{name}"] = frame[column].mean()
        for label, percent in (("median", 50), ("p90", 90), ("p99", 99)):
            figures[f"{label}_{name}"] = float(np.percentile(frame[column], percent))
    last = frame["submit_time"].max()
    window = last - frame["submit_time"].min()
    if window > 0:
        early = (frame["finish_time"].clip(upper_bound=last) - frame["start_time"]).clip(lower_bound=0)
        figures["utilisation_to_last_submission"] = (frame["num_gpus"] * early).sum() / (gpus * window)
    figures["utilisation"] = (frame["num_gpus"] * frame["run_time"]).sum() / (gpus * makespan)
    return figures


def _timeline(story: Story) -> pl.DataFrame:
    case, rows = story.case, story.rows
    slot = case.options.slot if case.options.clock == "slot" else None
    arrival = {row: _arrival(case.jobs[row].submit, slot) for row in rows}
    first, last = min(case.jobs[row].submit for row in rows), max(story.finish[row] for row in rows)
    instants = sorted(
        {
            *arrival.values(),
            *(t for row in rows for t in (story.start[row], story.finish[row])),
            *(t for stay in story.stays for t in (stay.start, stay.end)),
        }
    )
    states = [(0, 0, 0, 0, 0, 0.0)]
    for t in instants:
        running = [row for row in rows if story.start[row] <= t < story.finish[row]]
        queued = [row for row in rows if arrival[row] <= t < story.start[row]]
        stays = [s for s in story.stays if s.row in rows and s.start <= t < s.end]
        p, spanning = _total_contention(story, t)
        states.append(
            (
                len(running),
                len(queued),
                sum(s.gpus for s in stays),
                sum(case.jobs[row].num_gpus for row in queued),
                spanning,
                p / spanning if spanning else 0.0,
            )
        )
    times = np.linspace(first, last, POINTS)
    at = np.searchsorted(instants, times, side="right")
    columns = list(TIMELINE_SCHEMA)[1:]
    data = {name: [states[k][c] for k in at] for c, name in enumerate(columns)}
    return pl.DataFrame({"time": times, **data}, schema_overrides=TIMELINE_SCHEMA)


def _arrival(submit: float, slot: float | None) -> float:
    if slot is None:
        return submit
    n = 0
    while n * slot < submit:
        n += 1
    return n * slot


def _run(case: Case, trace: Path) -> dict[str, object]:
    options, net = case.options, case.net
    vcs: Sequence[int | None] = case.server_vc or [None] * len(case.servers)
    return {
        "ringbco": {"version": "0"},
        "trace": {
            "path": str(trace),
            "sha256": hashlib.sha256(trace.read_bytes()).hexdigest(),
            "rows": len(case.jobs),
        },
        "cluster": {
            "name": "test",
            "network": {
                "intra_bandwidth": net.intra,
                "inter_bandwidth": net.inter,
                "reduce_speed": net.reduce,
                "xi1": net.xi1,
                "xi2": net.xi2,
                "alpha": net.alpha,
            },
            "servers": [
                {"count": 1, "gpus": gpus, **({} if vc is None else {"vc": f"vc{vc}"})}
                for gpus, vc in zip(case.servers, vcs, strict=True)
            ],
        },
        "options": {
            "command": "replay",
            "policy": "fifo",
            **options.by_name(),
        },
    }
