"""Job tables with their clusters. The small ones are made here alone, so that no other change moves them."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import polars as pl

from ringbco import Cluster, JobTable, Network, from_frame, generate

T = TypeVar("T")

# Powers of two keep the arithmetic exact, so that events coincide; slow links make contention bite.
DYADIC = Network(1024.0, 2.0, 2.0**30, 0.5, 0.0, 0.25)
SLOW = Network(64.0, 1.0, 256.0, 1.0, 0.015625, 3.0)
UGLY = Network(1.3e11, 7.7e8, 3.1e11, 0.83, 1.7e-3, 1.9)


class Draw:
    """Random choices from `random()` alone, whose numbers Python promises to keep."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed).random

    def of(self, values: Sequence[T]) -> T:
        return values[int(self._random() * len(values))]

    def real(self, low: float, high: float) -> float:
        return low + (high - low) * self._random()

    def whole(self, low: int, high: int) -> int:
        return low + int(self._random() * (high - low + 1))

    def shuffled(self, values: Sequence[T]) -> list[T]:
        keys = [self._random() for _ in values]
        return [values[k] for k in sorted(range(len(keys)), key=keys.__getitem__)]


@dataclass(frozen=True)
class Input:
    """A job table and its cluster.

    scale: how long its jobs take, seconds; intervals, costs and slots are chosen to match.
    slots: lengths of a slot in which every iteration fits. drop: whether some jobs are too large.
    """

    table: JobTable
    cluster: Cluster
    scale: float
    slots: tuple[float, ...]
    drop: bool = False


def _input(
    columns: dict[str, Any],
    cluster: Cluster,
    scale: float,
    slots: tuple[float, ...],
    *,
    drop: bool = False,
) -> Input:
    ids = [f"job-{row}" for row in range(len(columns["num_gpus"]))]
    table = from_frame(pl.DataFrame({"job_id": ids, **columns}, strict=False), source="golden")
    return Input(table, cluster, scale, slots, drop)


def _cluster(gpus: list[int], network: Network, vcs: list[str] | None = None) -> Cluster:
    return Cluster(np.array(gpus, dtype=np.uint32), server_vc=vcs and tuple(vcs), network=network)


def _arrivals(draw: Draw, rows: int, gaps: Sequence[float], start: float = 0.0) -> list[Any]:
    times: list[Any] = []
    for _ in range(rows):
        times.append(start)
        start += draw.of(gaps)
    return times


def _due(draw: Draw, submit: list[Any], duration: list[Any]) -> list[Any]:
    """Deadlines, tight and loose; some jobs have none."""
    slack = (None, 0.5, 1.0, 1.5, 2.0, 4.0, 16.0)
    result: list[Any] = []
    for time, length in zip(submit, duration, strict=True):
        factor = draw.of(slack)
        result.append(None if factor is None else float(time) + factor * float(length))
    return result


def ties() -> Input:
    """Whole numbers in crowds: submissions, finishes, deadlines and decisions at the same instants."""
    draw, rows = Draw("ties"), 40
    submit = _arrivals(draw, rows, (0.0, 0.0, 0.0, 1.0, 4.0, 8.0))
    iterations: list[Any] = [draw.of((8, 16, 16, 32, 64)) for _ in range(rows)]
    duration: list[Any] = [float(i) / 4 for i in iterations]
    columns = {
        "submit_time": submit,
        "num_gpus": [draw.of((1, 1, 2, 2, 4, 4, 6, 8)) for _ in range(rows)],
        "duration": duration,
        "iterations": iterations,
        "gradient_bytes": [draw.of((0.0, 0.125, 0.25)) for _ in range(rows)],
        "fp_time": [0.25] * rows,
        "user": [draw.of(("a", "b", None)) for _ in range(rows)],
        "deadline": _due(draw, submit, duration),
    }
    return _input(columns, _cluster([4, 4, 4], DYADIC), 8.0, (1.0, 4.0))


def start() -> Input:
    """All at time 0, gangs over servers of several sizes and slow links: the paper's setting, harsher."""
    draw, rows = Draw("start"), 30
    columns = {
        "submit_time": [0.0] * rows,
        "num_gpus": [draw.of((1, 2, 3, 3, 4, 5, 5, 7, 8)) for _ in range(rows)],
        "duration": [float(draw.whole(5, 40)) for _ in range(rows)],
        "iterations": [draw.whole(20, 120) for _ in range(rows)],
        "gradient_bytes": [draw.of((0.0, 0.0625, 0.125, 0.1875)) for _ in range(rows)],
        "fp_time": [draw.of((0.0625, 0.125, 0.25)) for _ in range(rows)],
    }
    return _input(columns, _cluster([3, 4, 6, 8], SLOW), 20.0, (4.0, 7.0))


def users() -> Input:
    """Users with habits, one without a name; models from the catalogue; default network."""
    draw, rows = Draw("users"), 60
    names = [draw.of(("ann", "ann", "bob", "cid", "dee", None)) for _ in range(rows)]
    habit = {"ann": 60.0, "bob": 600.0, "cid": 90.0, "dee": 3000.0, None: 200.0}
    columns = {
        "submit_time": _arrivals(draw, rows, (0.0, 5.0, 17.5, 60.0)),
        "num_gpus": [draw.of((1, 1, 1, 2, 4, 8)) for _ in range(rows)],
        "duration": [habit[name] * draw.real(0.5, 1.5) for name in names],
        "user": names,
    }
    return _input(columns, _cluster([4] * 4, Network()), 300.0, (1.0, 60.0))


def vcs() -> Input:
    """Three virtual clusters of unequal servers, with users and deadlines."""
    draw, rows = Draw("vcs"), 48
    own = [draw.of(("red", "blue", "green")) for _ in range(rows)]
    submit = _arrivals(draw, rows, (0.0, 0.0, 3.0, 10.0, 30.0))
    duration: list[Any] = [draw.of((30.0, 45.0, 60.0, 120.0, 121.5)) for _ in range(rows)]
    sizes = {"red": (1, 2, 4, 6, 8), "blue": (1, 1, 2, 3), "green": (1, 2, 5)}
    columns = {
        "submit_time": submit,
        "num_gpus": [draw.of(sizes[vc]) for vc in own],
        "duration": duration,
        "user": [draw.of(("u1", "u2", "u3", "u4")) for _ in range(rows)],
        "vc": own,
        "deadline": _due(draw, submit, duration),
    }
    cluster = _cluster([4, 2, 4, 2, 3, 2, 2], UGLY, ["red", "blue", "red", "blue", "green", "green", "red"])
    return _input(columns, cluster, 60.0, (5.0, 30.0))


def mixed() -> Input:
    """Ugly numbers, so that every rounding counts, on servers of 1 to 8 GPUs; rows not in time's order."""
    draw, rows = Draw("mixed"), 50
    submit = [draw.real(0.0, 500.0) for _ in range(rows)]
    submit[10:15] = [submit[10]] * 5
    duration: list[Any] = [draw.real(1.0, 90.0) * draw.of((1.0, 1.0, 5.0)) for _ in range(rows)]
    columns: dict[str, Any] = {
        "submit_time": list(submit),
        "num_gpus": [draw.of((1, 1, 2, 3, 4, 5, 7, 8, 11)) for _ in range(rows)],
        "duration": duration,
        "gradient_bytes": [draw.real(1e6, 4e8) for _ in range(rows)],
        "fp_time": [draw.real(0.01, 0.2) for _ in range(rows)],
        "bp_time": [draw.of((None, 0.3)) for _ in range(rows)],
        "deadline": _due(draw, list(submit), duration),
    }
    return _input(columns, _cluster([1, 2, 3, 5, 8, 8], UGLY), 60.0, (7.0, 12.5))


def oversize() -> Input:
    """Some jobs larger than the cluster, or than its placement can use: they are dropped."""
    draw, rows = Draw("oversize"), 30
    submit = _arrivals(draw, rows, (0.0, 2.0, 2.0, 16.0))
    duration: list[Any] = [draw.of((2.0, 8.0, 20.0, 31.0)) for _ in range(rows)]
    columns = {
        "submit_time": submit,
        "num_gpus": [draw.of((1, 2, 3, 4, 6, 7, 9, 14)) for _ in range(rows)],
        "duration": duration,
        "iterations": [draw.whole(10, 60) for _ in range(rows)],
        "gradient_bytes": [draw.of((0.0, 0.25, 0.5)) for _ in range(rows)],
        "fp_time": [draw.of((0.125, 0.5)) for _ in range(rows)],
        "user": [draw.of(("x", "y")) for _ in range(rows)],
        "deadline": _due(draw, submit, duration),
    }
    return _input(columns, _cluster([4, 2, 2, 1], DYADIC), 16.0, (2.0, 3.0), drop=True)


def far() -> Input:
    """Late times, where a second has few bits left, and rows shuffled within the same instants."""
    draw, rows = Draw("far"), 25
    times = [0.0, 0.0, 0.1, 0.1, 0.3, 7.0, 7.0, 7.25, 11.0]
    submit: list[Any] = [1.5e9 + draw.of(times) for _ in range(rows)]
    duration: list[Any] = [draw.of((0.1, 0.3, 1.0, 2.5, 10.0 / 3.0)) for _ in range(rows)]
    columns = {
        "submit_time": submit,
        "num_gpus": [draw.of((1, 2, 2, 3, 4)) for _ in range(rows)],
        "duration": duration,
        "gradient_bytes": [draw.of((1e6, 3e7)) for _ in range(rows)],
        "fp_time": [draw.of((0.01, 0.03, 0.1)) for _ in range(rows)],
        "user": [draw.of(("x", "y", "z")) for _ in range(rows)],
        "deadline": _due(draw, submit, duration),
    }
    return _input(columns, _cluster([2, 2, 2], Network()), 1.5, (0.25, 1.0))


def long() -> Input:
    """Hours of work in a public trace's manner: thresholds, intervals and quanta at their defaults act."""
    draw, rows = Draw("long"), 40
    submit = _arrivals(draw, rows, (0.0, 60.0, 600.0, 1800.0))
    duration: list[Any] = [float(int(10 ** draw.real(1.5, 4.5))) for _ in range(rows)]
    columns = {
        "submit_time": submit,
        "num_gpus": [draw.of((1, 1, 1, 1, 2, 4, 8, 16)) for _ in range(rows)],
        "duration": duration,
        "user": [draw.of(("ann", "bob", "cid")) for _ in range(rows)],
        "deadline": _due(draw, submit, duration),
    }
    return _input(columns, _cluster([8, 8], Network()), 1800.0, (1.0, 60.0))


def lone() -> Input:
    """One GPU: jobs of one GPU, one after another."""
    draw, rows = Draw("lone"), 20
    submit = _arrivals(draw, rows, (0.0, 0.0, 1.0, 6.0))
    duration: list[Any] = [float(draw.whole(1, 9)) for _ in range(rows)]
    columns = {
        "submit_time": submit,
        "num_gpus": [1] * rows,
        "duration": duration,
        "user": [draw.of(("x", "y")) for _ in range(rows)],
        "deadline": _due(draw, submit, duration),
    }
    return _input(columns, _cluster([1], Network()), 4.0, (1.0, 2.0))


def _synthetic(preset: str, jobs: int, cluster: str, gpus: int, patience: float) -> Input:
    """A synthetic trace, and deadlines of `patience` times the duration."""
    frame = generate(preset, jobs, seed=5, gpus=gpus).frame
    due = pl.col("submit_time") + pl.col("duration") * patience
    table = from_frame(frame.with_columns(deadline=due), source="golden")
    return Input(table, Cluster.parse(cluster), 3600.0, (5.0,), drop=True)


def philly() -> Input:
    """Many virtual clusters."""
    return _synthetic("philly", 20_000, "preset:philly", 2490, 3.0)


def helios() -> Input:
    """One cluster, long queues."""
    return _synthetic("helios", 20_000, "64x8", 512, 3.0)


def paper() -> Input:
    """All jobs at time 0."""
    return _synthetic("paper", 10_000, "32x8", 256, 300.0)


SMALL = (ties, start, users, vcs, mixed, oversize, far, long, lone)
LARGE = (philly, helios, paper)
INPUTS = {make.__name__: make for make in SMALL + LARGE}
