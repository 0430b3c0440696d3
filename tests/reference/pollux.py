"""Pollux' simulator with Optimus, slow and obvious, from the description of it beside its data.

Steps of 60 s: every job runs, then Optimus gives out the GPUs of 16 servers of 4. It says of each of 160 jobs
when it ends, to the second, as the simulator's own results do (tests/policies/test_peers.py). So it stands
for them on workloads of which no results are published.
"""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.interpolate import LinearNDInterpolator  # type: ignore[import-untyped]

Numbers = dict[str, float]
SERVERS, GPUS = 16, 4
STEP, PAUSE = 60, 30


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Application:
    """What was profiled of an application, and how fast it trains."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.placed: dict[str, list[tuple[float, ...]]] = {}
        by_size: dict[tuple[int, ...], list[tuple[float, float]]] = {}
        for row in _rows(folder / "placements.csv"):
            placement, local = row["placement"], int(row["local_bsz"])
            times = float(row["step_time"]), float(row["sync_time"])
            self.placed.setdefault(placement, []).append((local, *times))
            size = len(placement), sum(map(int, placement)), local
            by_size.setdefault(size, []).append(times)
        sizes = [size for samples in self.placed.values() for size, *_ in samples]
        self.least, self.most = int(min(sizes)), 8 if self.name == "yolov3" else int(max(sizes))
        # Where several triangulations are possible the order of the points decides.
        points = [(size, np.mean(times, axis=0)) for size, times in sorted(by_size.items())]
        for row in _rows(folder / "scalability.csv"):
            at = tuple(int(row[name]) for name in ("num_nodes", "num_replicas", "local_bsz"))
            points.append((at, np.array([float(row["step_time"]), float(row["sync_time"])])))
        self._between = LinearNDInterpolator(
            np.array([at for at, _ in points], float), np.array([times for _, times in points])
        )
        self.epochs: dict[int, list[Numbers]] = {
            int(path.stem.split("-")[1]): [
                {name: float(value) for name, value in row.items()} for row in _rows(path)
            ]
            for path in folder.glob("validation-*.csv")
        }
        self.first_batch, self.last_batch = min(self.epochs), max(self.epochs)
        self.count = min(map(len, self.epochs.values()))
        self.times = cache(self._times)
        self.step_time = cache(self._step_time)

    def progress(self, epochs: int) -> float:
        """Steps at the first batch size after so many epochs."""
        return min(rows[epochs - 1]["progress"] for rows in self.epochs.values()) if epochs else 0.0

    def measured(self, batch: int, epoch: int, name: str) -> float:
        """A column of an epoch, linear between the batch sizes that were validated."""
        low = max(size for size in self.epochs if size <= batch)
        high = min(size for size in self.epochs if size >= batch)
        below, above = self.epochs[low][epoch][name], self.epochs[high][epoch][name]
        return below if low == high else ((batch - low) * above + (high - batch) * below) / (high - low)

    def split(self, gpus: int, batch: int, twice: bool) -> tuple[int, int]:
        """The batch on a GPU, and how many of them make a step; two or more on one GPU if `twice`."""
        local = math.ceil(batch / gpus)
        parts = math.ceil(local / self.most)
        if gpus == 1 and twice:
            parts = max(2, parts)
        return min(math.ceil(local / parts), self.last_batch // (gpus * parts)), parts

    def _times(self, placement: tuple[int, ...], local: int) -> tuple[float, float]:
        """step_time and sync_time of that many GPUs on each server."""
        turned = min(placement[turn:] + placement[:turn] for turn in range(len(placement)))
        samples = self.placed.get("".join(map(str, turned)))
        if samples is None:
            step, sync = self._between(min(len(placement), 16), sum(placement), local)
            assert step == step, f"{self.name}: {placement} was not profiled"
            return float(step), float(sync)
        sizes, steps, syncs = np.array(sorted(samples)).T
        assert sizes[0] <= local <= sizes[-1]
        return float(np.interp(local, sizes, steps)), float(np.interp(local, sizes, syncs))

    def _step_time(self, gpus: int, batch: int) -> float:
        """What Optimus expects of a step: on the fewest servers, in two parts or more on one GPU."""
        full, rest = divmod(gpus, GPUS)
        local, parts = self.split(gpus, batch, twice=True)
        step, sync = self.times((GPUS,) * full + ((rest,) if rest else ()), local)
        return step + (parts - 1) * (step - sync)


@dataclass(eq=False)
class Job:
    name: str
    submitted: int
    application: Application
    batch: int
    gpus: list[int] = field(default_factory=list)  # the server of each
    pause: float = 0.0
    epoch: int = 0
    progress: float = 0.0
    now: float = 0.0
    ended: float | None = None

    @property
    def most(self) -> int:
        return 1 if self.application.name == "ncf" else self.batch // self.application.least

    @property
    def left(self) -> float:
        """Steps in the epochs after this one, as Optimus counts them; 1 in the last."""
        last = self.application.count - 1
        if self.epoch >= last:
            return 1.0
        measured = self.application.measured
        return measured(self.batch, last, "iteration") - measured(self.batch, self.epoch, "iteration")

    def gain(self, gpus: int) -> float:
        """By how much its expected time falls with one GPU more."""
        if gpus + 1 > self.most:
            return 0.0
        expected = self.application.step_time
        return (expected(gpus, self.batch) - expected(gpus + 1, self.batch)) * self.left

    def run(self) -> None:
        """Goes on for a step of the simulator, epoch by epoch."""
        seconds = float(STEP)
        if self.gpus:
            waited = min(self.pause, seconds)
            self.pause -= waited
            self.now += waited
            seconds -= waited
        while self.gpus and seconds > 0 and self.ended is None:
            goodput = self._goodput()
            goal = self.application.progress(self.epoch + 1)
            if self.progress + goodput * seconds < goal:
                self.progress += goodput * seconds
                break
            took = round((goal - self.progress) / goodput)
            self.epoch, self.progress = self.epoch + 1, goal
            self.now += took
            seconds -= took
            if self.epoch == self.application.count:
                self.ended = self.now
        self.now += seconds

    def _goodput(self) -> float:
        """Steps at the first batch size a second."""
        app, servers = self.application, Counter(self.gpus)
        local, parts = app.split(len(self.gpus), self.batch, twice=self.batch > app.first_batch)
        batch = len(self.gpus) * local * parts
        step, sync = app.times(tuple(servers[server] for server in dict.fromkeys(self.gpus)), local)
        square, variance = (app.measured(batch, self.epoch, name) for name in ("grad_sqr", "grad_var"))
        gain = (variance + square) / (variance / (batch / app.first_batch) + square)
        return gain / (step + (parts - 1) * (step - sync))


def numbers(jobs: Sequence[Job]) -> dict[str, int]:
    """GPUs of each job: one each while there are any, then one at a time to the largest gain."""
    free = SERVERS * GPUS
    result, gains = {}, {}
    for job in jobs:
        result[job.name] = min(1, free)
        free -= result[job.name]
        gains[job.name] = job.gain(1) if result[job.name] and free else 0.0
    by_name = {job.name: job for job in jobs}
    while free > 0 and max(gains.values()) > 0:
        name = max(gains, key=lambda one: gains[one])
        result[name] += 1
        free -= 1
        gains[name] = by_name[name].gain(result[name])
    return result


def place(jobs: Sequence[Job], wanted: Mapping[str, int]) -> None:
    """Who has its number keeps its GPUs. The others go to the emptiest servers, the fewest GPUs first."""
    moved = [job for job in jobs if len(job.gpus) != wanted[job.name]]
    free = dict.fromkeys(range(SERVERS), GPUS)
    for job in jobs:
        if job in moved:
            job.gpus = []
        for server in job.gpus:
            free[server] -= 1
    for job in sorted(moved, key=lambda job: wanted[job.name]):
        while len(job.gpus) < wanted[job.name]:
            server = max(free, key=lambda one: free[one])
            taken = min(free[server], wanted[job.name] - len(job.gpus))
            job.gpus += [server] * taken
            free[server] -= taken
        job.pause = PAUSE


def optimus(workload: Path, profiles: Path) -> dict[str, float]:
    """The completion time of every job of a workload, s from its submission."""
    applications: dict[str, Application] = {}
    jobs = []
    for row in _rows(workload):
        name = row["application"]
        if name not in applications:
            applications[name] = Application(profiles / name)
        jobs.append(Job(row["name"], int(row["time"]), applications[name], int(row["batch_size"])))
    now = 0
    while any(job.ended is None for job in jobs):
        for job in jobs:
            job.run()
        now += STEP
        here: list[Any] = [job for job in jobs if job.submitted <= now and job.ended is None]
        if here:
            place(here, numbers(here))
    return {job.name: job.ended - job.submitted for job in jobs if job.ended is not None}
