"""EASY backfilling: who overtakes the blocked head must not stand in its way at its shadow time."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from typing import Final

import numpy as np

from ringbco.audits.choosing import Parts, Servers
from ringbco.audits.facts import Facts, Ints
from ringbco.audits.findings import Check, number
from ringbco.audits.types import PACKING

SLACK: Final = 1e-12
"""How much later than the shadow time an estimated finish may seem, relative: the rounding of estimates."""

Heads = dict[float, tuple[int, int]]
"""By instant: the first job that goes on waiting after it, and its place in the queue then."""


class _Running:
    """The running jobs of a cluster by their estimated ends, and what is idle."""

    def __init__(self, facts: Facts, sizes: dict[int, int]) -> None:
        self.pool: dict[int, int] = {server: int(facts.pool[server]) for server in sizes}
        among: dict[int, dict[int, int]] = {}
        for server, size in sizes.items():
            among.setdefault(self.pool[server], {})[server] = size
        self.servers = {own: Servers(servers) for own, servers in among.items()}
        self.together = facts.options["placement"] in PACKING
        self.tries = facts.tries
        self.ends: list[tuple[float, int]] = []
        self.parts: dict[int, Parts] = {}

    def start(self, job: int, end: float, parts: Parts) -> None:
        insort(self.ends, (end, job))
        self.parts[job] = parts
        self._change(parts, -1)

    def finish(self, job: int, end: float) -> None:
        del self.ends[bisect_left(self.ends, (end, job))]
        self._change(self.parts.pop(job), 1)

    def _change(self, parts: Parts, sign: int) -> None:
        self.servers[self.pool[parts[0][0]]].change(parts, sign)

    def _fits(self, job: int, wanted: int) -> bool:
        tried = (self.servers[own] for own in self.tries[job].tolist() if own >= 0)
        if self.together:
            return any(servers.consolidate(wanted) is not None for servers in tried)
        return any(servers.total >= wanted for servers in tried)

    def shadow(self, job: int, wanted: int) -> float:
        """The earliest estimated end at which a job's GPUs could be placed if nothing else started."""
        freed: list[Parts] = []
        found = np.inf
        for i, (end, gone) in enumerate(self.ends):
            freed.append(self.parts[gone])
            self._change(freed[-1], 1)
            more = i + 1 < len(self.ends) and self.ends[i + 1][0] == end
            if not more and self._fits(job, wanted):
                found = end
                break
        for parts in freed:
            self._change(parts, -1)
        return found

    def fits_then(self, job: int, wanted: int, shadow: float) -> bool:
        """Whether a job's GPUs could be placed once all are gone whose estimated end is no later."""
        gone = [self.parts[left] for _, left in self.ends[: bisect_left(self.ends, (shadow, np.inf))]]
        for parts in gone:
            self._change(parts, 1)
        fits = self._fits(job, wanted)
        for parts in gone:
            self._change(parts, -1)
        return fits


@dataclass(frozen=True)
class Started:
    """The jobs of one cluster: each one's place in the queue when it started, its servers; who was first."""

    jobs: Ints
    place: Ints
    parts: list[Parts]
    heads: Heads


def check_reservations(check: Check, facts: Facts, started: Started, sizes: dict[int, int]) -> None:
    """Who starts behind a waiting head ends, by the estimate, before its shadow time, or leaves it room.

    sizes: the GPUs of each of the cluster's servers.
    """
    jobs, parts = started.jobs, started.parts
    factor = float(facts.options.get("estimate_factor", 1.0))
    estimate = (factor * facts.workload.estimate[facts.row[jobs]]).tolist()
    start, finish = facts.start[jobs].tolist(), facts.finish[jobs].tolist()
    wanted = facts.num_gpus[jobs].tolist()
    running = _Running(facts, sizes)
    starting = np.lexsort((started.place, facts.start[jobs])).tolist()
    ending = np.argsort(facts.finish[jobs], kind="stable").tolist()
    places = started.place.tolist()
    # Where a job came and went within an instant, who was there in between is not known.
    unclear = {start[j] for j in range(len(start)) if finish[j] <= start[j]}
    gone = at = 0
    while at < len(starting):
        t = start[starting[at]]
        while gone < len(ending) and finish[ending[gone]] <= t:
            j = ending[gone]
            if finish[j] > start[j]:
                running.finish(j, start[j] + estimate[j])
            gone += 1
        head, head_place = started.heads.get(t, (-1, len(places) * 2))
        shadow: float | None = None
        while at < len(starting) and start[starting[at]] == t:
            j = starting[at]
            at += 1
            if finish[j] <= t:
                continue
            behind = places[j] > head_place and t not in unclear
            if behind and shadow is None:
                shadow = running.shadow(jobs[head], wanted[head])
            running.start(j, t + estimate[j], parts[j])
            if not behind or shadow is None:
                continue
            slack = SLACK * abs(shadow) if shadow < np.inf else 0.0
            if t + estimate[j] > shadow + slack and not running.fits_then(
                jobs[head], wanted[head], shadow + slack
            ):
                said = (
                    f"overtakes job {facts.id(jobs[head])}, which could start at {number(shadow)} s by the"
                    f" estimates; expected it to end by then or to leave room, not to last until"
                    f" {number(t + estimate[j])} s"
                )
                check.fail(said, facts.id(jobs[j]), t)
