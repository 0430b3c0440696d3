"""Gavel: max-min fair shares of GPU types, given out in rounds (docs/gavel.md).

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ringbco.policies.programs import Program, Types, need_solver, seconds
from ringbco.run.own import Policy

if TYPE_CHECKING:
    from ringbco.run.state import State

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


def shares(rates: Numbers, wanted: Counts, gpus: Counts) -> Numbers:
    """The share of its time that each job is to run on each type, so that the least served gets the most.

    rates: iterations a second by job and type; wanted: GPUs by job; gpus: GPUs by type.
    """
    jobs, types = rates.shape
    equal = rates @ gpus / gpus.sum()
    worth = rates * (wanted / equal)[:, None]
    cells = np.arange(jobs * types).reshape(jobs, types)
    floor = cells.size  # the column of the least sum of any job
    least = _program(worth, wanted, gpus, floor, np.append(np.zeros(floor), 1.0)).solve()[floor]
    gains = np.append(worth.ravel(), 0.0)
    program = _program(worth, wanted, gpus, floor, gains)
    program.row([floor], 1.0, lower=least * (1.0 - 1e-9))
    return program.solve()[:floor].reshape(jobs, types)


def _program(worth: Numbers, wanted: Counts, gpus: Counts, floor: int, gains: Numbers) -> Program:
    """Shares that fit on the cluster and give every job at least what the column `floor` has."""
    jobs, types = worth.shape
    cells = np.arange(jobs * types).reshape(jobs, types)
    program = Program(gains, np.append((worth > 0).ravel().astype(float), math.inf))
    for job in range(jobs):
        program.row([*cells[job], floor], [*worth[job], -1.0], lower=0.0)
        program.row(cells[job], 1.0, upper=1.0)
    for kind in range(types):
        program.row(cells[:, kind], wanted, upper=float(gpus[kind]))
    return program


@dataclass
class Gavel(Policy):
    """Max-min fair shares of effective throughput over GPU types, in rounds (Narayanan et al., OSDI 2020).

    round: how long a round is, s. renew: how long shares hold at least, s. newcomers: whether a job that has
    no share yet may have GPUs that would be idle.
    """

    round: float = 360.0
    renew: float = 1920.0
    newcomers: bool = False

    def __post_init__(self) -> None:
        need_solver("gavel")
        seconds("round", self.round)
        seconds("renew", self.renew)
        self._types: Types | None = None
        self._began = self._ends = self._renewed = -math.inf
        self._members: frozenset[int] = frozenset()
        self._shares: dict[int, Numbers] = {}
        self._had: dict[int, Numbers] = {}
        self._deficit: dict[int, Numbers] = {}

    def decide(self, state: State) -> None:
        """Begins a round when the last one is over: at its end, or when nobody runs any more."""
        running = state.running
        if running.size and state.now < self._ends:
            return
        rows = np.sort(np.concatenate((running, state.waiting)))
        if not rows.size:
            return
        types = self._types = self._types or Types(state)
        places = {int(row): state.parts(row) for row in running}
        at = {row: int(types.of[parts[0][0]]) for row, parts in places.items()}
        for row in at.keys() & self._had.keys():
            had = self._had[row].copy()
            had[at[row]] += state.now - self._began
            self._had[row] = had
        wanted = state.jobs.num_gpus[rows].astype(np.int64)
        rates = types.rates(state, rows)
        self._share_out(state.now, rows.tolist(), wanted, rates, types.gpus)
        self._began, self._ends = state.now, state.now + self.round
        chosen = self._chosen(rows.tolist(), wanted, rates, types.gpus)
        size = dict(zip(rows.tolist(), wanted.tolist(), strict=True))
        largest = sorted(chosen, key=lambda one: (-size[one[0]], at.get(one[0]) != one[1]))
        for order in (largest, chosen):  # the largest first; if one then finds no room, the foremost first
            state.stop(state.running)
            placed = [
                self._start(state, row, types.names[kind], places[row] if at.get(row) == kind else [])
                for row, kind in order
            ]
            if all(placed):
                break
        state.wake(self._ends)

    def _share_out(self, now: float, rows: list[int], wanted: Counts, rates: Numbers, gpus: Counts) -> None:
        """Works the shares out anew, if the set of jobs changed and they have held long enough."""
        nothing = np.zeros(len(gpus))
        fresh = nothing + self.round / 2  # a job that had nothing yet would have an infinite priority
        had = {row: self._had.get(row, fresh) for row in rows}
        deficit = {row: self._deficit.get(row, nothing) for row in rows}
        members = frozenset(rows)
        known = members & self._shares.keys()
        if members != self._members and (now - self._renewed >= self.renew or not known):
            for row in known:
                due = self._shares[row] * (now - self._renewed)
                deficit[row] = deficit[row] + due - (had[row] - fresh)
            self._shares = dict(zip(rows, shares(rates, wanted, gpus), strict=True))
            had = dict.fromkeys(rows, fresh)
            self._members, self._renewed = members, now
        self._had, self._deficit = had, deficit

    def _chosen(self, rows: list[int], wanted: Counts, rates: Numbers, gpus: Counts) -> list[tuple[int, int]]:
        """(row, type) of the jobs that run in this round, those with the highest priority first."""
        nothing = np.zeros(len(gpus))
        share = np.array([self._shares.get(row, nothing) for row in rows])
        deficit = np.array([self._deficit[row] for row in rows])
        priority = share / np.array([self._had[row] for row in rows])
        free = np.array([self.newcomers or row in self._shares for row in rows])
        # The types on which the jobs run fastest give out their GPUs first.
        speed = (rates / rates.max(axis=1, keepdims=True)).sum(axis=0)
        chosen = []
        for kind in np.argsort(-speed, kind="stable").tolist():
            left = int(gpus[kind])
            for index in np.lexsort((-share[:, kind], -deficit[:, kind], -priority[:, kind])):
                if not left:
                    break
                if free[index] and rates[index, kind] > 0 and wanted[index] <= left:
                    free[index] = False
                    left -= int(wanted[index])
                    chosen.append((rows[index], kind))
        return chosen

    def _start(self, state: State, row: int, kind: str | None, old: list[tuple[int, int]]) -> bool:
        """Starts a job on its old GPUs, if they are idle, else where the run's placement puts it."""
        if old and all(state.idle[server] >= count for server, count in old):
            return state.start(row, old) == 1
        return state.start(row, type=kind) == 1
