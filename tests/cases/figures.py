"""Figures of a summary worked out again from its tables by the words of docs/results.md, in plain Python."""

import itertools
import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ringbco
from cases import window
from cases.case import Case
from cases.holding import Stay, down, stays_of

Row = dict[str, Any]
WINDOW = ("measure_from", "measure_to")
CLASSES = {"1": (1, 1), "2-4": (2, 4), "5-8": (5, 8), "9-16": (9, 16), "17-32": (17, 32), "33-": (33, 10**9)}


def check(case: Case, outcome: ringbco.Outcome) -> Iterator[tuple[str, str]]:
    """What a result says otherwise: (column or figure, how)."""
    jobs = outcome.jobs.to_dicts()
    stays = stays_of(outcome)
    measured = [row for row in jobs if window.counts(case, row["submit_time"])]
    last = max(row["finish_time"] for row in jobs)
    # Times are known to the last bits of the latest, and some are differences.
    coarse = 64.0 * math.ulp(last) * (1 + len(jobs))

    def differs(told: float | None, right: float | None, scale: float = 1.0) -> bool:
        if told is None or right is None:
            return told is not right
        near = coarse * scale + 1e-9 * max(abs(told), abs(right), 0.0 if scale else 1e-9)
        return (
            told != right and not abs(told - right) <= near and not (math.isnan(told) and math.isnan(right))
        )

    for row in jobs:
        for name, right in columns(row, stays[row["job_id"]]).items():
            if name in row and differs(
                row[name], right, max(1.0, 1.0 / row["ideal_run_time"]) if name == "slowdown" else 1.0
            ):
                yield name, f"{row['job_id']}: {row[name]!r}; expected {right!r}"
        waits = row["wait_behind"] + row["wait_gpus"] + row["wait_fragmented"]
        held = row.get("held_time", row["run_time"])
        right = row["jct"] - held - row.get("paused_time", 0.0)
        if differs(row["waited"], right):
            yield "waited", f"{row['job_id']}: {row['waited']!r}; expected {right!r}"
        if abs(waits - right) > 1e-5 * max(row["jct"], 1e-12) + 4 * coarse:
            yield "waits", f"{row['job_id']}: {waits!r}; expected {right!r}"
    summary = outcome.summary
    sure = _summary(case, measured, stays, last)
    length = sure.pop("length")
    for name, right in sure.items():
        # Sums of GPU-seconds; shares are of the run's length.
        scale = (
            float(case.room)
            if "seconds" in name
            else 1.0 / max(coarse, length, 1e-300)
            if "tion" in name
            else _of(jobs)
        )
        if name not in summary and right == 0:
            continue
        if differs(summary.get(name), right, scale):
            yield name, f"{summary.get(name)!r}; expected {right!r}"
    for entry in summary["size_classes"]:
        low, high = CLASSES[entry["gpus"]]
        own = [row for row in measured if low <= row["num_gpus"] <= high]
        wanted = {"jobs": len(own), **{f"mean_{name}": _mean(own, _of_job[name]) for name in _of_job}}
        wanted["preemptions"] = sum(row["preemptions"] for row in own)
        for name, right in wanted.items():
            if differs(entry[name], right, _of(jobs)):
                yield f"size_classes.{name}", f"{entry['gpus']}: {entry[name]!r}; expected {right!r}"
    yield from _timeline(outcome, stays)


def _of(jobs: Sequence[Row]) -> float:
    """How much a rounding of a time is in a slowdown."""
    return max(1.0, *(1.0 / row["ideal_run_time"] for row in jobs))


def columns(row: Row, stays: Sequence[Stay]) -> Row:
    """Those of jobs.parquet that follow from the others, and from the job's stays."""
    held = sum(stay.end - stay.start for stay in stays)
    return {
        "wait_time": row["start_time"] - row["submit_time"],
        "run_time": row["finish_time"] - row["start_time"],
        "jct": row["finish_time"] - row["submit_time"],
        "slowdown": (row["finish_time"] - row["submit_time"]) / row["ideal_run_time"],
        "start_time": stays[0].start,
        "finish_time": stays[-1].end,
        "num_servers": max(len(stay.parts) for stay in stays),
        "held_time": held,
        "held_gpu_time": sum((stay.end - stay.start) * stay.gpus for stay in stays),
    }


_of_job: dict[str, Callable[[Row], float]] = {
    "jct": lambda row: row["jct"],
    "wait": lambda row: row["waited"],
    "time_to_start": lambda row: row["wait_time"],
    "slowdown": lambda row: row["slowdown"],
    "bounded_slowdown": lambda row: max(1.0, row["jct"] / max(row["ideal_run_time"], 10.0)),
}


def _mean(rows: Sequence[Row], value: Callable[[Row], float]) -> float:
    return math.fsum(map(value, rows)) / len(rows)


def percentile(values: Sequence[float], part: float) -> float:
    """With linear interpolation between neighbours."""
    ordered = sorted(values)
    rank = part * (len(ordered) - 1)
    low = min(int(rank), len(ordered) - 1)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def _summary(case: Case, jobs: list[Row], stays: dict[str, list[Stay]], last: float) -> Row:
    """jobs: those of the window. length: of the time that is measured, which is no figure."""
    every = {job["job_id"]: job["submit_time"] for job in case.jobs if job["job_id"] in stays}
    run = min(every.values()), max([last, *(own[-1].end for own in stays.values())])
    ran = {name: time for name, time in every.items() if window.counts(case, time)}
    ends = max(own[-1].end for name, own in stays.items() if name in ran)
    submits = list(ran.values())
    wanted: Row = {"jobs": len(jobs), "makespan": ends - min(submits)}
    given = window.of(case) or (-math.inf, math.inf)
    wanted |= {name: at for name, at in zip(WINDOW, given, strict=True) if math.isfinite(at)}
    first, last = window.within(case, run)
    wanted["length"] = last - first
    for name, value in _of_job.items():
        values = [value(row) for row in jobs]
        wanted |= {f"mean_{name}": _mean(jobs, value), f"median_{name}": percentile(values, 0.5)}
        wanted |= {f"p90_{name}": percentile(values, 0.9), f"p99_{name}": percentile(values, 0.99)}
    if "search" not in case.options:
        wanted["mean_finish_time_fairness"] = wanted["mean_slowdown"]
        wanted["worst_finish_time_fairness"] = max(row["slowdown"] for row in jobs)
        if "user" in jobs[0]:
            wanted["jain_index_users"] = jain(jobs)
    wanted["jobs_spread"] = sum(row["num_servers"] >= 2 for row in jobs)
    for name in ("evictions", "failures"):
        wanted[name] = sum(row.get(name, 0) for row in jobs)
    if "reached_limit" in jobs[0]:
        others = [row["jct"] for row in jobs if not row["reached_limit"]]
        wanted["jobs_over_limit"] = len(jobs) - len(others)
        wanted["mean_jct_completed"] = math.fsum(others) / len(others) if others else None
    if "held_time" in jobs[0]:
        wanted["preemptions"] = sum(row["preemptions"] for row in jobs)
        wanted["lost_gpu_seconds"] = math.fsum(
            row.get("lost_gpu_time", row["lost_time"] * (row.get("gpu_share") or row["num_gpus"]))
            for row in jobs
        )
    if "deadline" in jobs[0]:
        due = [row for row in jobs if row["deadline"] is not None]
        missed = sum(row["finish_time"] > row["deadline"] for row in due)
        wanted |= {"deadlines": len(due), "deadlines_missed": missed}
        if due:
            wanted["deadlines_met"] = 1.0 - missed / len(due)
    wanted["mean_contention"] = contention(stays, first, last)
    held = [(stay.start, stay.end, stay.gpus) for own in stays.values() for stay in own]
    wanted["utilisation"] = _used(case, held, first, last) or 0.0
    if window.of(case) is not None:
        wanted["utilisation_to_last_submission"] = None
    elif max(submits) > min(submits):
        wanted["utilisation_to_last_submission"] = _used(case, held, min(submits), max(submits))
    return wanted


def jain(jobs: Sequence[Row]) -> float | None:
    speeds: dict[str, list[float]] = {}
    for row in jobs:
        if row["user"] is not None and row["jct"] > 0:
            speeds.setdefault(row["user"], []).append(row["ideal_run_time"] / row["jct"])
    means = [statistics.fmean(own) for own in speeds.values()]
    return sum(means) ** 2 / (len(means) * sum(mean * mean for mean in means)) if means else None


def _used(case: Case, held: Sequence[tuple[float, float, float]], first: float, last: float) -> float | None:
    """Of the GPU-seconds of the servers that were up, the share that jobs held; None where none was up."""
    lacking = sum(
        max(0.0, min(up, last) - max(at, first)) * case.servers[server]["gpus"]
        for server, spans in down(case).items()
        for at, up in spans
    )
    up = case.room * (last - first) - lacking
    used = math.fsum(max(0.0, min(end, last) - max(start, first)) * gpus for start, end, gpus in held)
    return used / up if up > 0 else None


def contention(stays: dict[str, list[Stay]], first: float, last: float) -> float:
    """p_j averaged over all the time that spanning jobs ran between two instants."""
    spanning = [stay for own in stays.values() for stay in own if len(stay.parts) > 1]
    times = sorted({min(max(time, first), last) for stay in spanning for time in (stay.start, stay.end)})
    total = whole = 0.0
    for a, b in itertools.pairwise(times):
        there = [stay for stay in spanning if stay.start <= a and stay.end >= b]
        for stay in there:
            p = max(sum(server in other.parts for other in there) for server in stay.parts)
            total, whole = total + p * (b - a), whole + (b - a)
    return total / whole if whole > 0 else 0.0


def _timeline(outcome: ringbco.Outcome, stays: dict[str, list[Stay]]) -> Iterator[tuple[str, str]]:
    """Every 37th sample shows who holds GPUs then."""
    every = [stay for own in stays.values() for stay in own]
    for sample in outcome.timeline.gather_every(37).iter_rows(named=True):
        there = [stay for stay in every if stay.start <= sample["time"] < stay.end]
        right = {"running_jobs": len(there), "spanning_jobs": sum(len(stay.parts) > 1 for stay in there)}
        if "gpu_share" not in outcome.jobs.columns:
            right["busy_gpus"] = sum(stay.gpus for stay in there)
        for name, wanted in right.items():
            if abs(sample[name] - wanted) > 1e-6:
                yield f"timeline.{name}", f"at {sample['time']!r}: {sample[name]}; expected {wanted}"
                return
