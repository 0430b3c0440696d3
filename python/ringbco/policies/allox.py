"""AlloX: the matching of jobs to GPUs that minimises the sum of completion times (docs/gavel.md).

Le et al., "AlloX: Compute Allocation in Hybrid Clusters", EuroSys 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.policies.levels import levels
from ringbco.policies.programs import InfeasibleError, Program, Types, need_solver
from ringbco.run.custom_policy import Policy

if TYPE_CHECKING:
    from ringbco.run.state import State

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]


class Slot(NamedTuple):
    """GPUs of one type that become free together.

    kind: the type. ready: when, s from now. gpus: how many.
    """

    kind: int
    ready: float
    gpus: int


def matching(times: Numbers, wanted: Counts, slots: list[Slot]) -> Counts:
    """(slot, position) of each job; the last job on a GPU has position 1, the one before it 2.

    times: run times, s, by job and type; infinite where the job may not use the type. wanted: GPUs by job.
    """
    jobs = len(times)
    kept = np.array(_earliest(slots, jobs))
    begin = _ready(wanted, slots)[:, kept]
    took = times[:, [slots[number].kind for number in kept]]
    room = np.array([slots[number].gpus for number in kept])
    most = math.ceil(jobs / room.sum()) + 1
    while True:
        most = min(most, jobs)
        try:
            found = _matched(begin, took, wanted, room, most)
        except InfeasibleError:  # many jobs may use few GPUs only
            if most == jobs:
                raise
            most *= 2
            continue
        # A last position that is full may be too early. Where none is, later ones could only cost more.
        last = np.bincount(found[found[:, 1] == most, 0], minlength=room.size)
        if most == jobs or (last < room).all():
            return np.column_stack((kept[found[:, 0]], found[:, 1]))
        most *= 2


def _earliest(slots: list[Slot], jobs: int) -> list[int]:
    """Of each type the slots that are free first, until every job could have a GPU: more are of no use."""
    kept = []
    gpus: dict[int, int] = {}
    for number, slot in sorted(enumerate(slots), key=lambda one: one[1].ready):
        if gpus.setdefault(slot.kind, 0) < jobs:
            kept.append(number)
            gpus[slot.kind] += slot.gpus
    return kept


def _matched(begin: Numbers, took: Numbers, wanted: Counts, room: Counts, most: int) -> Counts:
    """The matching with positions up to `most`.

    begin, took: when each job can start on each slot, and for how long it runs there, s. room: GPUs by slot.
    """
    jobs, step = len(begin), np.arange(most)
    one, slot = np.nonzero(np.isfinite(begin + took))
    cost = ((begin + took)[one, slot][:, None] + (wanted[one] * took[one, slot])[:, None] * step).ravel()
    job, place = np.repeat(one, most), (slot[:, None] * most + step).ravel()
    program = Program(-cost, np.ones(cost.size))
    for cells in _split(job, jobs):
        program.row(cells, 1.0, lower=1.0, upper=1.0)
    for cells, gpus in zip(_split(place, room.size * most), np.repeat(room, most), strict=True):
        program.row(cells, 1.0, upper=float(gpus))
    chosen = program.solve() > 0.5
    found = np.empty((jobs, 2), np.int64)
    found[job[chosen], 0], found[job[chosen], 1] = np.divmod(place[chosen], most)
    found[:, 1] += 1
    return found


def _split(numbers: Counts, count: int) -> list[Counts]:
    """Where each number below `count` stands."""
    order = np.argsort(numbers, kind="stable")
    return np.split(order, np.searchsorted(numbers[order], np.arange(1, count)))


def _ready(wanted: Counts, slots: list[Slot]) -> Numbers:
    """When each job can start on each slot: a gang waits until its type has enough idle GPUs."""
    ready = np.empty((wanted.size, len(slots)))
    for kind in {slot.kind for slot in slots}:
        those = sorted((slot.ready, number) for number, slot in enumerate(slots) if slot.kind == kind)
        free = np.cumsum([slots[number].gpus for _, number in those])
        times = np.array([time for time, _ in those] + [math.inf])
        enough = times[np.searchsorted(free, wanted)]
        for time, number in those:
            ready[:, number] = np.maximum(time, enough)
    return ready


def firsts(found: Counts, slots: list[Slot], work: Numbers) -> list[tuple[int, int]]:
    """(job, type) of the jobs that come first on GPUs that are idle now, the earliest position first.

    work: GPU-seconds by job; of the jobs at one position the least goes first.
    """
    starting = []
    for number, slot in enumerate(slots):
        if slot.ready > 0.0:
            continue
        jobs = np.flatnonzero(found[:, 0] == number)
        followers = 0  # jobs at the position before, behind which as many of this one stand
        for position in range(int(found[jobs, 1].max(initial=0)), 0, -1):
            here = jobs[found[jobs, 1] == position]
            here = here[np.argsort(work[here], kind="stable")]
            starting += [(-position, work[job], int(job), slot.kind) for job in here[: here.size - followers]]
            followers = here.size
    return [(job, kind) for _, _, job, kind in sorted(starting)]


@dataclass
class Allox(Policy):
    """The matching of jobs to GPUs that minimises the sum of completion times (Le et al., EuroSys 2020).

    alpha: the part of the waiting jobs, the oldest first, that is matched; at least as many as GPUs
    are idle.
    """

    clairvoyant: ClassVar[bool] = True
    preemptive: ClassVar[bool] = False
    resizes: ClassVar[bool] = False
    alpha: float = 1.0

    def __post_init__(self) -> None:
        need_solver("allox")
        if (
            isinstance(self.alpha, bool)
            or not isinstance(self.alpha, (int, float))
            or not 0 < self.alpha <= 1
        ):
            raise UsageError(f"option P: alpha: {self.alpha}: expected a number > 0 and <= 1")
        self._types: Types | None = None

    def decide(self, state: State) -> None:
        """Starts the jobs that the matching puts first on idle GPUs. Running jobs keep theirs."""
        rows = state.waiting
        full = not (state.idle if state.shares is None else state.free_shares).any()
        if not rows.size or (full and not state.evicts):
            return
        level = levels(state, rows, state.jobs.num_gpus[rows], keeps=True)
        for own in range(int(level.max()) + 1):
            self._match(state, rows[level == own])
            # Only those of them that wait yet, and cannot be placed at all, make room.
            for row in rows[level == own].tolist() if state.evicts else ():
                if not state.held[row]:
                    state.evict_for(row)

    def _match(self, state: State, rows: NDArray[np.uint32]) -> None:
        """Starts the first of the jobs of one level; with shares of GPUs again, while one of them starts."""
        while rows.size:
            types = self._types = (self._types or Types(state)).look(state)
            if not types.room.any():
                return
            started = self._start_first(state, types, rows)
            rows = rows[state.held[rows] == 0]
            if state.shares is None or not started:
                return

    def _start_first(self, state: State, types: Types, rows: NDArray[np.uint32]) -> int:
        """Starts the jobs that come first on GPUs that are idle; how many."""
        wanted, units = types.parts(state, rows), types.units(state, rows)
        rates = types.rates(state, rows)
        with np.errstate(divide="ignore"):
            times = np.where(rates > 0, state.remaining_iterations[rows][:, None] / rates, math.inf)
        if state.draining.size:  # whoever needs GPUs of such servers waits until these are back
            coming = types.idle.astype(np.int64)
            for slot in self._busy(state, types):
                coming[slot.kind] += slot.gpus
            times[wanted[:, None] > coming] = math.inf
        while True:
            able = np.flatnonzero(np.isfinite(times).any(axis=1))  # the others wait until servers are back
            able = able[: max(int(types.idle.sum()), int(self.alpha * able.size))]
            if not (np.isfinite(times[able]) & (units[able, None] <= types.room)).any():
                return 0
            first = self._first(state, types, times[able], wanted[able])
            started = 0
            for job, kind in first:
                started += state.start(rows[able[job]], type=types.names[kind], strict=False)
            if state.running.size:
                return started
            for job, kind in first:  # nobody is in the way, and yet there is no room for it now
                times[able[job], kind] = math.inf

    def _first(self, state: State, types: Types, times: Numbers, wanted: Counts) -> list[tuple[int, int]]:
        """(job, type) of the jobs to start. times: run times, s, by job and type. wanted: GPUs by job."""
        slots = [Slot(kind, 0.0, int(gpus)) for kind, gpus in enumerate(types.idle) if gpus]
        slots += self._busy(state, types)
        found = matching(times, wanted, slots)
        kinds = np.array([slot.kind for slot in slots])[found[:, 0]]
        return firsts(found, slots, times[np.arange(len(times)), kinds] * wanted)

    def _busy(self, state: State, types: Types) -> list[Slot]:
        """The GPUs of running jobs, free when these end."""
        rows = state.running
        if not rows.size:
            return []
        kinds = np.array([types.at(row) for row in rows.tolist()])
        rates = types.rates(state, rows)[np.arange(rows.size), kinds]
        left = np.maximum(state.remaining_iterations[rows] / rates, 1e-9)
        held = state.held[rows].astype(np.int64)
        if state.draining.size:  # what is given back there is nobody's
            draining = {*state.draining.tolist()}
            for at, row in enumerate(rows.tolist()):
                held[at] -= sum(gpus for server, gpus in state.allocation(row) if server in draining)
        return [
            Slot(int(kind), float(ready), int(gpus))
            for kind, ready, gpus in zip(kinds, left, held, strict=True)
            if gpus
        ]
