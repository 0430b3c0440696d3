"""rungs.parquet and searches.parquet: the losses of trials, what became of searches (docs/searches.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import fsum
from typing import Any

from judge.given import Book, Given, Rung, Stay
from judge.splitmix import GOLDEN, MASK, mix
from judge.work import search
from physics.columns import Record, by_job
from physics.span import HOUR


def loss(seed: int, job_id: str, part: float) -> float:
    """The loss of a trial that has done a part of its work."""
    state = 0xCBF29CE484222325
    for byte in (job_id + ":loss").encode():
        state = (state ^ byte) * 0x100000001B3 & MASK
    own = mix(state + (seed + 1) * GOLDEN)
    u, v, w = ((mix(own + step * GOLDEN) >> 11) / 2.0**53 for step in (1, 2, 3))
    return u + 1.0 / ((0.25 + 0.75 * v) + (1.0 + 99.0 * w) * part)


class Searches:
    """The searches of a run. lost: whether a row of the job table is no trial, as nothing could hold it."""

    def __init__(self, given: Given, book: Book, lost: Callable[[int], bool]) -> None:
        self.given, self.jobs, self.book, self.lost = given, given.jobs, book, lost
        self.eta, self.rungs = search(given)
        self.seed = int(given.options.get("seed", 0))

    def loss(self, job: int, rung: int) -> float:
        """At a rung; at the end of the work after the last one."""
        return loss(self.seed, self.jobs.id[job], 1.0 / float(self.eta ** (self.rungs - rung)))

    def group(self, job: int) -> str | None:
        """The search of which a job is a trial."""
        return self.jobs.group[job] if self.jobs.group is not None else None

    def rungs_table(self) -> dict[str, list[Any]]:
        """rungs.parquet."""
        rungs = self.book.rungs
        return {
            "job_id": [self.jobs.id[rung.job] for rung in rungs],
            "group": [self.group(rung.job) for rung in rungs],
            "rung": [rung.rung for rung in rungs],
            "time": [rung.time for rung in rungs],
            "loss": [self.loss(rung.job, rung.rung) for rung in rungs],
            "went_on": [rung.went_on for rung in rungs],
        }

    def table(self) -> dict[str, list[Any]]:
        """searches.parquet."""
        trials: dict[str, list[int]] = {}
        for job in range(len(self.jobs.id)):
            name = self.group(job)
            if name is not None:
                own = trials.setdefault(name, [])
                if not self.lost(job):
                    own.append(job)
        stays = {own[0].job: own for own in by_job(self.book.stays)}
        last = {rung.job: rung for rung in self.book.rungs}
        rows = [self._row(name, own, stays, last) for name, own in trials.items() if own]
        return {name: [row[name] for row in rows] for name in COLUMNS}

    def _row(
        self, name: str, own: list[int], stays: dict[int, list[Stay]], last: dict[int, Rung]
    ) -> dict[str, Any]:
        first = min(self.jobs.submit[job] for job in own)
        there = [stays[job] for job in own if job in stays]
        done = {trial[0].job: trial[-1].end for trial in there if trial[-1].ended == "done"}
        reached = [(self.loss(job, self.rungs), job, end) for job, end in done.items()]
        reached += [
            (self.loss(job, rung.rung), job, rung.time)
            for job in own
            if job not in done and (rung := last.get(job))
        ]
        best = min(reached, default=(None, None, None))
        weight = self.jobs.weight
        held = fsum(
            (stay.end - stay.start) * stay.gpus * weight(stay.job) for trial in there for stay in trial
        )
        return {
            "group": name,
            "trials": len(own),
            "finished": len(done),
            "submit_time": first,
            "finish_time": max((trial[-1].end for trial in there), default=None),
            "gpu_hours": held / HOUR,
            "best_job_id": None if best[1] is None else self.jobs.id[best[1]],
            "best_loss": best[0],
            "time_to_best": None if best[2] is None else best[2] - first,
        }


COLUMNS = (
    *("group", "trials", "finished", "submit_time", "finish_time", "gpu_hours"),
    *("best_job_id", "best_loss", "time_to_best"),
)


def merged(given: Given, done: Sequence[Record]) -> tuple[list[int], list[float]]:
    """Row and rho of each job; of a search, whose trials are one job, its uppermost row."""
    group = given.jobs.group if given.searched else None
    if group is None:
        return [record.job for record in done], [record.rho for record in done]
    found: list[tuple[int, float]] = []
    trials: dict[str, list[Record]] = {}
    for record in done:
        name = group[record.job]
        if name is None:
            found.append((record.job, record.rho))
        else:
            trials.setdefault(name, []).append(record)
    for own in trials.values():
        first = min(record.submit for record in own)
        best = max(record.submit - first + record.ideal for record in own)
        found.append((own[0].job, (max(record.finish for record in own) - first) / best))
    found.sort()
    return [job for job, _ in found], [rho for _, rho in found]
