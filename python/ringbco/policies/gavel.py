"""Gavel: shares of GPU types, max-min, of finish times or first come, given out in rounds (docs/gavel.md).

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.policies.finish_time import Alone, finish_time
from ringbco.policies.levels import OUT, fifo, levels
from ringbco.policies.programs import Program, Types, bounded, need_solver, seconds
from ringbco.run.own import Policy

if TYPE_CHECKING:
    from ringbco.run.state import State

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

SHARES: Final = ("max-min", "finish-time", "first-come")
MANY: Final = 1000
"""Of more jobs, those that are alike get the same shares: the program then grows with their kinds alone."""


def shares(rates: Numbers, wanted: Counts, gpus: Counts) -> Numbers:
    """The share of its time that each job is to run on each type, so that the least served gets the most.

    rates: iterations a second by job and type; wanted: GPUs by job; gpus: GPUs by type. A job that can run on
    no type gets no share, and the others theirs as if it were not there.
    """
    found, able = np.zeros(rates.shape), (rates > 0).any(axis=1)
    of, members = np.arange(able.sum()), np.ones(int(able.sum()), np.int64)
    first = of
    if of.size > MANY:
        alike = np.column_stack((rates, wanted))[able]
        _, first, of, members = np.unique(
            alike, axis=0, return_index=True, return_inverse=True, return_counts=True
        )
    if of.size:
        found[able] = _max_min(rates[able][first], wanted[able][first], gpus, members)[of.ravel()]
    return found


def _max_min(rates: Numbers, wanted: Counts, gpus: Counts, members: Counts) -> Numbers:
    """The shares of jobs each of which can run on some type; so many are like each."""
    jobs, types = rates.shape
    equal = rates @ gpus / gpus.sum()
    worth = rates * (wanted / equal)[:, None]
    cells = np.arange(jobs * types).reshape(jobs, types)
    floor = cells.size  # the column of the least sum of any job
    demand = wanted * members
    least = _program(worth, demand, gpus, floor, np.append(np.zeros(floor), 1.0)).solve()[floor]
    gains = np.append((worth * members[:, None]).ravel(), 0.0)
    program = _program(worth, demand, gpus, floor, gains)
    program.row([floor], 1.0, lower=least * (1.0 - 1e-9))
    return program.solve()[:floor].reshape(jobs, types)


def first_come(rates: Numbers, wanted: Counts, gpus: Counts, order: Counts) -> Numbers:
    """All of its time on one type for each job in turn: the fastest of those with enough GPUs left, or none.

    rates: iterations a second by job and type; wanted: GPUs by job; gpus: GPUs by type; order: the numbers of
    the jobs, who came first in front. Ties go to the cluster's first type.
    """
    found, left = np.zeros(rates.shape), gpus.astype(np.float64)
    for job in order.tolist():
        fits = np.where(left >= wanted[job] - 1e-9, rates[job], 0.0)  # thousandths of shares add up
        kind = int(fits.argmax())
        if fits[kind] > 0:
            found[job, kind] = 1.0
            left[kind] -= wanted[job]
    return found


def _program(worth: Numbers, demand: Counts, gpus: Counts, floor: int, gains: Numbers) -> Program:
    """Shares that fit on the cluster and give every job at least what the column `floor` has.

    demand: GPUs of each job, and of those like it.
    """
    jobs, types = worth.shape
    cells = np.arange(jobs * types).reshape(jobs, types)
    program = Program(gains, np.append((worth > 0).ravel().astype(float), math.inf))
    for job in range(jobs):
        program.row([*cells[job], floor], [*worth[job], -1.0], lower=0.0)
        program.row(cells[job], 1.0, upper=1.0)
    for kind in range(types):
        program.row(cells[:, kind], demand, upper=float(gpus[kind]))
    return program


@dataclass
class Gavel(Policy):
    """Max-min fair shares of effective throughput over GPU types, in rounds (Narayanan et al., OSDI 2020).

    round: how long a round is, s. renew: how long shares hold at least, s. newcomers: whether a job that has
    no share yet may have GPUs that would be idle. shares: max-min; finish-time: the greatest finish-time
    fairness is least, which takes run times; or first-come: all of its time for each job, in order of
    arrival, on the fastest type with enough GPUs left; who finds none waits.
    """

    clairvoyant_with: ClassVar[tuple[str, ...]] = ("with -P shares=finish-time",)
    resizes: ClassVar[bool] = False
    round: float = 360.0
    renew: float = 1920.0
    newcomers: bool = False
    shares: str = "max-min"

    def __post_init__(self) -> None:
        if self.shares not in SHARES:
            raise UsageError(f"option P: shares: {self.shares}: expected one of {', '.join(SHARES)}")
        if self.shares != "first-come":
            need_solver("gavel")
        seconds("round", self.round)
        bounded("renew", self.renew, "a number of seconds >= 0 and <= 1e+09", least=0.0, most=1e9)
        self.clairvoyant = self.shares == "finish-time"  # type: ignore[misc] # of this one
        self._alone = Alone() if self.shares == "finish-time" else None
        self._types: Types | None = None
        self._began = self._ends = self._renewed = -math.inf
        # Jobs, and GPUs by type, when shares were last worked out.
        self._members: frozenset[int] = frozenset()
        self._gpus: Counts = np.zeros(0, np.int64)
        self._fresh: Numbers = np.zeros(0)  # the time that a job has had at first, by type
        # A trial that pauses at a rung keeps these until it is back.
        self._shares: dict[int, Numbers] = {}
        self._had: dict[int, Numbers] = {}  # of those who had any since
        self._deficit: dict[int, Numbers] = {}
        self._at: dict[int, int] = {}  # the types of those who began to run in this round
        self._rounds: dict[int, Numbers] = {}  # had since the submission, by type

    def decide(self, state: State) -> None:
        """Begins a round when the last one is over: at its end, or when nobody runs any more."""
        self._forget(state.completed.tolist())
        self._count(state.evicted.tolist(), state.now)
        running = state.running
        if len(self._at) > running.size:  # some came to a rung
            self._count(self._at.keys() - set(running.tolist()), state.now)
        if running.size and state.now < self._ends:
            return
        rows = np.sort(np.concatenate((running, state.waiting)))
        if not rows.size:
            return
        self._count(list(self._at), state.now)
        self._began, self._ends = state.now, state.now + self.round
        self._begin(state, rows)
        # Where nobody runs, the next event comes first, unless shares are due.
        if state.running.size or self._members != frozenset(rows.tolist()):
            state.wake(self._ends)

    def _forget(self, rows: list[int]) -> None:
        """Drops what is kept of jobs that are done."""
        kept: tuple[dict[int, Any], ...] = (
            *(self._shares, self._had, self._deficit, self._at, self._rounds),
            *(() if self._alone is None else (self._alone.past, self._alone.seen)),
        )
        for row in rows:
            for of in kept:
                of.pop(row, None)

    def _count(self, rows: Iterable[int], now: float) -> None:
        """Adds the time since the round began to what these jobs had on their types."""
        for row in rows:
            kind = self._at.pop(row, None)
            if kind is not None:
                had = self._had.get(row, self._fresh).copy()
                had[kind] += now - self._began
                self._had[row] = had

    def _begin(self, state: State, rows: NDArray[np.uint32]) -> None:
        """Works shares out, if they are due, and gives out GPUs."""
        types = self._types = (self._types or Types(state)).look(state)
        wanted, units = types.parts(state, rows), types.units(state, rows)
        rates, level = types.rates(state, rows), levels(state, rows, state.jobs.num_gpus[rows], keeps=False)
        rates[level == OUT] = 0.0
        anew = False
        while True:
            self._share_out(state, rows, wanted, rates, types.gpus, anew=anew)
            kept = [(row, types.at(row)) for row in state.protected.tolist()]
            units_there = types.gpus * types.whole
            if self._all_stay(state, rows, rates):
                chosen = [(row, 0) for row in rows.tolist()]
            else:
                chosen = self._chosen(rows.tolist(), units, rates, units_there, level=level, kept=kept)
            self._place(state, chosen, types, dict(zip(rows.tolist(), level.tolist(), strict=True)))
            if state.running.size:
                return
            if not chosen and np.array_equal(self._gpus, types.gpus):
                return
            for row, kind in chosen:  # nobody is in the way, and yet there is no room for it now
                rates[np.searchsorted(rows, row), kind] = 0.0
            anew = True

    def _all_stay(self, state: State, rows: NDArray[np.uint32], rates: Numbers) -> bool:
        """Whether everybody runs and there is one type: whoever has a share keeps its place."""
        return (
            not state.waiting.size
            and rates.shape[1] == 1
            and bool((rates > 0).all())
            and self.shares != "first-come"
            and self._shares.keys() >= set(rows.tolist())
        )

    def _place(
        self, state: State, chosen: list[tuple[int, int]], types: Types, level: dict[int, int]
    ) -> None:
        """Starts (row, type) pairs, the largest of a level first; if one then finds no room, the foremost."""
        old = {
            row: types.places[row] for row, kind in chosen if row in types.places and types.at(row) == kind
        }
        running = state.running.tolist()
        books = state.shares is None and state.U.any()  # a start adds to it, on the same GPUs too
        if (
            len(old) == len(chosen) and old.keys() <= set(running) and not books
        ):  # all would find theirs again
            state.stop([row for row in running if row not in old])
            self._at = dict(chosen)
        else:
            self._place_anew(state, chosen, types, level, old)
        for row, kind in self._at.items():
            self._rounds.setdefault(row, np.zeros(len(types.names)))[kind] += 1.0

    def _place_anew(
        self,
        state: State,
        chosen: list[tuple[int, int]],
        types: Types,
        level: dict[int, int],
        old: dict[int, list[Any]],
    ) -> None:
        """Stops all and starts those chosen, on their old GPUs where these are idle."""
        size = state.jobs.num_gpus
        largest = sorted(chosen, key=lambda one: (level[one[0]], -int(size[one[0]]), one[0] not in old))
        chosen = sorted(chosen, key=lambda one: level[one[0]])
        protected = state.protected  # who runs on, and was chosen before all others
        kept = set(protected.tolist())
        for order in (largest, chosen):
            state.stop(state.running[~np.isin(state.running, protected)])
            types.start_each(state, [(row, old.get(row, []), kind) for row, kind in order if row not in kept])
            # One that started may have made room for another.
            held = state.held
            self._at = {row: kind for row, kind in order if held[row]}
            if len(self._at) == len(order):
                break

    def _share_out(
        self,
        state: State,
        every: NDArray[np.uint32],
        wanted: Counts,
        rates: Numbers,
        gpus: Counts,
        *,
        anew: bool,
    ) -> None:
        """Works the shares out anew, if jobs or GPUs changed and they have held long enough, or `anew`."""
        now, rows = state.now, every.tolist()
        self._fresh = np.full(len(gpus), self.round / 2)  # 0 would make an infinite priority
        members = frozenset(rows)
        known = members & self._shares.keys()
        changed = members != self._members or not np.array_equal(gpus, self._gpus)
        if anew or (changed and (now - self._renewed >= self.renew or not known)):
            for row, share in self._shares.items():
                due, had = share * (now - self._renewed), self._had.get(row, self._fresh) - self._fresh
                self._deficit[row] = self._deficit.get(row, 0.0) + due - had
            if self._alone is not None:
                left = dict(zip(rows, state.remaining_iterations[every].tolist(), strict=True))
                since = now - state.jobs.submit_time[every]
                found = finish_time(rates, wanted, gpus, self._alone.look(rates, wanted, gpus, left, since))
            elif self.shares == "max-min":
                found = shares(rates, wanted, gpus)
            else:
                found = first_come(rates, wanted, gpus, fifo(state, every))
            self._shares = dict(zip(rows, found, strict=True))
            self._had = {}
            self._members, self._gpus, self._renewed = members, gpus, now

    def _chosen(
        self,
        rows: list[int],
        wanted: Counts,
        rates: Numbers,
        gpus: Counts,
        *,
        level: Counts,
        kept: list[tuple[int, int]],
    ) -> list[tuple[int, int]]:
        """(row, type) of the jobs that run in this round, on each type those of the first level, and of them
        those with the highest priority, first.

        wanted, gpus: in units of the types. kept: those who run on whatever else is chosen.
        """
        nothing = np.zeros(len(gpus))
        share = np.array([self._shares.get(row, nothing) for row in rows])
        deficit = np.array([self._deficit.get(row, nothing) for row in rows])
        if self._alone is None:
            priority = share / np.array([self._had.get(row, self._fresh) for row in rows])
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                rounds = np.array([self._rounds.get(row, nothing) for row in rows])
                priority = np.where(share > 0, share / rounds, 0.0)
        free = np.array([self.newcomers or row in self._shares for row in rows])
        if self.shares == "first-come":  # who was not given a type waits, though GPUs fall idle
            free &= (share.sum(axis=1) > 0) | np.array([row not in self._shares for row in rows])
            rates = np.where((share > 0) | (share.sum(axis=1, keepdims=True) == 0), rates, 0.0)
        # The types on which the jobs run fastest give out their GPUs first.
        fastest = rates.max(axis=1, keepdims=True)
        speed = (rates / np.where(fastest > 0, fastest, 1.0)).sum(axis=0)
        chosen, least = list(kept), gpus.copy()
        for row, kind in kept:
            index = rows.index(row)
            free[index] = False
            least[kind] -= wanted[index]
        for kind in np.argsort(-speed, kind="stable").tolist():
            left = int(least[kind])
            for index in np.lexsort((-share[:, kind], -deficit[:, kind], -priority[:, kind], level)):
                if not left:
                    break
                if free[index] and rates[index, kind] > 0 and wanted[index] <= left:
                    free[index] = False
                    left -= int(wanted[index])
                    chosen.append((rows[index], kind))
        return chosen
