"""Gavel: shares of GPU types, max-min, of finish times or first come, given out in rounds (docs/gavel.md).

Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.policies.finish_time import Alone, finish_time
from ringbco.policies.levels import OUT, fifo, levels, staying
from ringbco.policies.programs import Program, Types, bounded, distinct, need_solver, seconds
from ringbco.run.custom_policy import Policy

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
        first, of = distinct(alike)
        members = np.bincount(of)
    if of.size:
        found[able] = _max_min(rates[able][first], wanted[able][first], gpus, members)[of]
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
    # Two rows for each job: its sum is at least that of the column `floor`, and its time at most all of it.
    program.rows(
        np.column_stack((cells, np.full(jobs, floor), cells)),
        np.column_stack((worth, np.full(jobs, -1.0), np.ones((jobs, types)))),
        sizes=np.tile((types + 1, types), jobs),
        lower=[0.0, -math.inf] * jobs,
        upper=[math.inf, 1.0] * jobs,
    )
    for kind in range(types):
        program.row(cells[:, kind], demand, upper=float(gpus[kind]))
    return program


def _among(rows: NDArray[np.uint32], others: Any, state: State) -> NDArray[np.bool_]:
    """Whether each row is one of the others."""
    there = np.zeros(len(state.jobs), bool)
    there[others] = True
    return there[rows]


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
        # Jobs in ascending order, and GPUs by type, when shares were last worked out.
        self._members: NDArray[np.uint32] = np.zeros(0, np.uint32)
        self._gpus: Counts = np.zeros(0, np.int64)

    def _open(self, state: State) -> None:
        """Before the first round. A trial that pauses at a rung keeps these, by row, until it is back."""
        self._types = Types(state)
        rows, types = len(state.jobs), len(self._types.names)
        self._fresh = np.full(types, self.round / 2)  # had at first, for 0 would make it come first
        self._shares: Numbers = np.zeros((rows, types))
        self._has = np.zeros(rows, bool)  # whether a job has a share, even if it is 0
        self._had: Numbers = np.zeros((rows, types)) + self._fresh
        self._deficit: Numbers = np.zeros((rows, types))
        self._rounds: Numbers = np.zeros((rows, types))  # had since the submission
        self._at = np.full(rows, -1)  # the types of those who began to run in this round
        self._on: NDArray[np.uint32] = np.zeros(0, np.uint32)  # all of these, and others

    def decide(self, state: State) -> None:
        """Begins a round when the last one is over: at its end, or when no job runs any more."""
        running = state.running
        if self._types is None:
            if not running.size and not state.waiting.size:
                return
            self._open(state)
        self._forget(state.completed)
        self._count(state.evicted, state.now)
        on = self._on[self._at[self._on] >= 0]
        if on.size > running.size:  # some came to a rung
            self._count(on[~_among(on, running, state)], state.now)
        if running.size and state.now < self._ends:
            return
        rows = np.sort(np.concatenate((running, state.waiting)))
        if not rows.size:
            return
        self._count(self._on, state.now)
        self._began, self._ends = state.now, state.now + self.round
        self._begin(state, rows)
        # Where nobody runs, the next event comes first, unless shares are due.
        if state.running.size or not np.array_equal(self._members, rows):
            state.wake(self._ends)

    def _forget(self, rows: NDArray[np.uint32]) -> None:
        """Drops what is kept of jobs that are done."""
        for array in (self._shares, self._deficit, self._rounds):
            array[rows] = 0.0
        self._had[rows], self._has[rows], self._at[rows] = self._fresh, False, -1
        if self._alone is not None:
            for row in rows.tolist():
                self._alone.past.pop(row, None)
                self._alone.seen.pop(row, None)

    def _count(self, rows: NDArray[np.uint32], now: float) -> None:
        """Adds the time since the round began to what these jobs had on their types."""
        rows = rows[self._at[rows] >= 0]
        self._had[rows, self._at[rows]] += now - self._began
        self._at[rows] = -1

    def _begin(self, state: State, rows: NDArray[np.uint32]) -> None:
        """Works shares out, if they are due, and gives out GPUs."""
        assert self._types is not None
        types = self._types.look(state)
        wanted, units = types.parts(state, rows), types.units(state, rows)
        rates, level = types.rates(state, rows), levels(state, rows, state.jobs.num_gpus[rows], keeps=False)
        rates[level == OUT] = 0.0
        anew = False
        while True:
            self._share_out(state, rows, wanted, rates, types.gpus, anew=anew)
            if self._all_stay(state, rows, rates):
                chosen = np.arange(rows.size), np.zeros(rows.size, np.int64)
            else:
                stay = staying(state)
                held = np.searchsorted(rows, stay), types.kinds(stay)
                chosen = self._chosen(rows, units, rates, types.gpus * types.whole, level=level, kept=held)
            numbers, kinds = chosen
            self._place(state, rows[numbers], kinds, types, level[numbers])
            if state.running.size:
                return
            if not numbers.size and np.array_equal(self._gpus, types.gpus):
                return
            rates[numbers, kinds] = 0.0  # nobody is in the way, and yet there is no room for these now
            anew = True

    def _all_stay(self, state: State, rows: NDArray[np.uint32], rates: Numbers) -> bool:
        """Whether all jobs run and there is one type: each job that has a share keeps its place."""
        return (
            not state.waiting.size
            and rates.shape[1] == 1
            and bool((rates > 0).all())
            and self.shares != "first-come"
            and bool(self._has[rows].all())
        )

    def _place(
        self, state: State, rows: NDArray[np.uint32], kinds: Counts, types: Types, level: Counts
    ) -> None:
        """Starts jobs, the largest of a level first; if one then finds no room, the foremost."""
        stays = _among(rows, list(types.places), state)
        stays[stays] = types.kinds(rows[stays]) == kinds[stays]
        books = state.shares is None and state.U.any()  # a start adds to it, on the same GPUs too
        if stays.all() and not books and _among(rows, state.running, state).all():  # all would find theirs
            state.stop(state.running[~_among(state.running, rows, state)])
            self._on = rows
            self._at[rows] = kinds
        else:
            self._place_anew(state, rows, kinds, level, stays)
        on = self._on[self._at[self._on] >= 0]
        self._rounds[on, self._at[on]] += 1.0

    def _place_anew(
        self,
        state: State,
        rows: NDArray[np.uint32],
        kinds: Counts,
        level: Counts,
        stays: NDArray[np.bool_],
    ) -> None:
        """Stops all and starts those chosen, who stays on its type on its old GPUs where these are idle."""
        types = self._types
        assert types is not None
        protected = staying(state)  # who runs on, and was chosen before all others
        starts = [
            (row, types.places[row] if stay else [], kind, None)
            for row, kind, stay in zip(rows.tolist(), kinds.tolist(), stays.tolist(), strict=True)
        ]
        anew = ~_among(rows, protected, state)
        size = state.jobs.num_gpus[rows].astype(np.int64)
        for order in (np.lexsort((~stays, -size, level)), np.argsort(level, kind="stable")):
            state.stop(state.running[~_among(state.running, protected, state)])
            types.start_each(state, [starts[number] for number in order[anew[order]].tolist()])
            # One that started may have made room for another.
            ran = state.held[rows] > 0
            if ran.all():
                break
        self._on = rows
        self._at[rows] = np.where(ran, kinds, -1)

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
        now = state.now
        changed = not np.array_equal(every, self._members) or not np.array_equal(gpus, self._gpus)
        if anew or (changed and (now - self._renewed >= self.renew or not self._has[every].any())):
            old = np.flatnonzero(self._has)
            due, had = self._shares[old] * (now - self._renewed), self._had[old] - self._fresh
            self._deficit[old] = self._deficit[old] + due - had
            if self._alone is not None:
                left = dict(zip(every.tolist(), state.remaining_iterations[every].tolist(), strict=True))
                since = now - state.arrival_time[every]
                found = finish_time(rates, wanted, gpus, self._alone.look(rates, wanted, gpus, left, since))
            elif self.shares == "max-min":
                found = shares(rates, wanted, gpus)
            else:
                found = first_come(rates, wanted, gpus, fifo(state, every))
            self._shares[old], self._has[old] = 0.0, False
            self._shares[every], self._has[every] = found, True
            self._had[:] = self._fresh
            self._members, self._gpus, self._renewed = every, gpus, now

    def _chosen(
        self,
        rows: NDArray[np.uint32],
        wanted: Counts,
        rates: Numbers,
        gpus: Counts,
        *,
        level: Counts,
        kept: tuple[Counts, Counts],
    ) -> tuple[Counts, Counts]:
        """The numbers in `rows` and the types of the jobs that run in this round, on each type those of the
        first level, and of them those with the highest priority, first.

        wanted, gpus: in units of the types. kept: those who run on whatever else is chosen.
        """
        share, deficit = self._shares[rows], self._deficit[rows]
        if self._alone is None:
            priority = share / self._had[rows]
        else:
            with np.errstate(divide="ignore", invalid="ignore"):
                priority = np.where(share > 0, share / self._rounds[rows], 0.0)
        free = self._has[rows] | self.newcomers
        if self.shares == "first-come":  # who was not given a type waits, though GPUs fall idle
            free &= (share.sum(axis=1) > 0) | ~self._has[rows]
            rates = np.where((share > 0) | (share.sum(axis=1, keepdims=True) == 0), rates, 0.0)
        # The types on which the jobs run fastest give out their GPUs first.
        fastest = rates.max(axis=1, keepdims=True)
        speed = (rates / np.where(fastest > 0, fastest, 1.0)).sum(axis=0)
        numbers, kinds = (part.tolist() for part in kept)
        free[numbers] = False
        least = gpus.copy()
        np.subtract.at(least, kinds, wanted[numbers])
        for kind in np.argsort(-speed, kind="stable").tolist():
            left = int(least[kind])
            may = np.flatnonzero(free & (rates[:, kind] > 0) & (wanted <= left))
            foremost = (-share[may, kind], -deficit[may, kind], -priority[may, kind], level[may])
            may = may[np.lexsort(foremost)]
            smallest = int(wanted[may].min(initial=left))
            for number, units in zip(may.tolist(), wanted[may].tolist(), strict=True):
                if left < smallest:
                    break
                if units <= left:
                    free[number] = False
                    left -= units
                    numbers.append(number)
                    kinds.append(kind)
        return np.array(numbers, np.int64), np.array(kinds, np.int64)
