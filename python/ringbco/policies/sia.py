"""Sia: round by round, the GPU types and the numbers of GPUs that are worth most together (docs/sia.md).

Jayaram Subramanya et al., "Sia: Heterogeneity-aware, goodput-optimized ML-cluster scheduling", SOSP 2023.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ringbco.errors import UsageError
from ringbco.policies.levels import OUT, caps, levels, priorities, staying
from ringbco.policies.programs import Program, Types, bounded, distinct, need_solver, seconds
from ringbco.run.custom_policy import Policy

if TYPE_CHECKING:
    from ringbco.run.state import State

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Place = list[Any]
FEW: Final = 100
"""Up to so many that wait, each is looked at by itself."""
BITS: Final = 30
"""Gains are rounded to whole numbers of up to 2^BITS: sums are exact, and no tolerance of a solver counts."""


class Menu(NamedTuple):
    """Configurations, by type and then by size.

    kinds: the type of each. sizes: its GPUs, in thousandths where jobs may hold shares.
    """

    kinds: Counts
    sizes: Counts


class Offer(NamedTuple):
    """What jobs may have.

    rates: iterations a second by job and configuration, 0 where the job may not have it. now: the
    configuration that each job has, -1 for none. open_to: whether a job may have a configuration already,
    or only when it has grown. places: where those are that run, by row. level: who goes before whom.
    """

    menu: Menu
    rates: Numbers
    now: Counts
    open_to: NDArray[np.bool_]
    places: dict[int, Place]
    level: Counts
    like: Counts

    def waiting(self) -> Offer:
        """The offer where no job runs, and each has its own row."""
        now, own = np.full(self.like.size, -1), np.arange(self.like.size)
        return Offer(
            *(self.menu, self.rates[self.like], now, self.open_to[self.like]),
            *(self.places, self.level[self.like], own),
        )

    def settled(self) -> bool:
        """Whether the same would be found in every round until a job comes or goes.

        So it is if those that run can have nothing else, or if no job waits and they have the best there is.
        """
        ran = np.flatnonzero(self.now >= 0)
        rates = self.rates[ran]
        best = rates[np.arange(ran.size), self.now[ran]] >= rates.max(axis=1)
        return bool(((rates > 0).sum(axis=1) == 1).all() or (ran.size == len(self.now) and best.all()))


def worth(
    rates: Numbers, least: Counts, now: Counts, restart: Numbers, *, power: float, incentive: float
) -> Numbers:
    """The gain of each job by each configuration over none; minus infinity where it may not have it.

    rates: iterations a second by job and configuration, 0 where it may not have it. least: min_gpus by job.
    now: the configuration that each has, -1 for none. restart: the restart factor by job.
    """
    open_to = rates > 0
    slowest = np.where(open_to, rates, math.inf).min(axis=1, keepdims=True)
    with np.errstate(divide="ignore", over="ignore"):
        goodput = rates / slowest * least[:, None]
        factors = np.where(now < 0, 1.0, restart)[:, None] * np.ones(rates.shape)
        runs = np.flatnonzero(now >= 0)
        factors[runs, now[runs]] = 1.0
        gains = incentive + math.copysign(1.0, power) * (factors * goodput) ** power
    return np.where(open_to & (factors > 0.0), gains, -math.inf)


def assignment(gains: Numbers, now: Counts, menu: Menu, gpus: Counts, like: Counts | None = None) -> Counts:
    """The configuration of each job with the greatest sum of gains; -1 for none.

    gains: by job and configuration; those that are not above 0 are of no use. gpus: GPUs by type. Of jobs
    that gain alike the first gets the most. A tie goes to the configuration that a job has `now`. like: where
    `gains` and `now` tell of jobs that are alike once, the row of each job there.
    """
    like = np.arange(len(gains)) if like is None else like
    found = np.full(like.size, -1)
    useful = gains > 0.0
    if not useful.any():
        return found
    _, exponent = np.frexp(gains[useful].max())
    units = np.rint(np.ldexp(np.where(useful, gains, 0.0), BITS - exponent)).astype(np.int64)
    units = np.maximum(units, useful)  # a gain is a gain, however small beside the greatest
    runs = np.flatnonzero(now >= 0)
    units[runs, now[runs]] += useful[runs, now[runs]]
    for kind in range(gpus.size):  # more GPUs of a type are of no use unless they gain more than fewer do
        own = np.flatnonzero(menu.kinds == kind)
        fewer = np.maximum.accumulate(units[:, own], axis=1)[:, :-1]
        units[:, own[1:]] *= units[:, own[1:]] > fewer
    members = np.bincount(like, minlength=len(gains))
    best = np.where(units.any(axis=1), units.argmax(axis=1), -1)
    some = best >= 0
    asked = menu.sizes[best[some]] * members[some]
    if (np.bincount(menu.kinds[best[some]], asked, gpus.size) <= gpus).all():
        return best[like]
    # Jobs that gain alike by everything are a class: the program only counts them.
    first, of = distinct(units)
    alike = units[first]
    given = _solved(alike, np.bincount(of, members).astype(np.int64), menu, gpus)
    of = of[like]
    for number in np.flatnonzero(given.any(axis=1)):
        row = alike[number]
        chosen = np.repeat(np.arange(row.size), given[number])
        chosen = chosen[np.argsort(-row[chosen], kind="stable")]
        found[np.flatnonzero(of == number)[: chosen.size]] = chosen
    return found


def _solved(units: Counts, members: Counts, menu: Menu, gpus: Counts) -> Counts:
    """How many jobs of each class get each configuration.

    units: whole gains by class and configuration. members: jobs by class.
    """
    group, choice = np.nonzero(units)
    kinds, sizes = menu.kinds[choice], menu.sizes[choice]
    most = np.minimum(members[group], gpus[kinds] // sizes)
    program = Program(units[group, choice].astype(np.float64), most.astype(np.float64), whole=True)
    for number, count in enumerate(members):
        program.row(np.flatnonzero(group == number), 1.0, upper=float(count))
    for kind, count in enumerate(gpus):
        cells = np.flatnonzero(kinds == kind)
        program.row(cells, sizes[cells], upper=float(count))
    given = np.zeros(units.shape, np.int64)
    given[group, choice] = program.solve()
    return given


def sizes_of(together: Counts) -> list[int]:
    """GPUs of the configurations of a type: powers of two on one server, all of it, and whole servers.

    together: GPUs of the type's largest server, of its two largest, and so on.
    """
    largest = int(together[0])
    return sorted({1 << power for power in range(largest.bit_length())} | set(together.tolist()))


class Alike:
    """Which waiting jobs are alike, so that a round looks at one of them: the same is found for each.

    They have the same numbers of GPUs, priority and rates, and have held as many GPUs at most.
    """

    def __init__(self, state: State) -> None:
        self._of = np.full(len(state.jobs), -1)  # the class of each row, -1 where it is not known
        self._known: dict[tuple[Any, ...], int] = {}
        self._together = b""

    def first(self, state: State, types: Types, waiting: NDArray[np.uint32], most: Counts) -> Counts:
        """The number of the first that is like each of those waiting.

        most: GPUs that each row has held at most.
        """
        alone = np.arange(waiting.size)
        there = b"".join(sums.tobytes() for sums in types.together)
        if there != self._together:  # and so have the rates; if it goes on so, nothing is won
            self._together = there
            self._known.clear()
            self._of[:] = -1
            return alone
        if waiting.size <= FEW or state.has_quotas:  # levels and caps tell jobs with quotas apart
            return alone
        new = waiting[self._of[waiting] < 0]
        if new.size:
            self._learn(state, types, new, most)
        of = self._of[waiting]
        first: Counts = np.zeros(int(of.max()) + 1, np.int64)
        first[of[::-1]] = alone[::-1]  # the last to be written is the first
        found: Counts = first[of]
        return found

    def forget(self, rows: NDArray[np.uint32]) -> None:
        """Rows that have held GPUs since."""
        self._of[rows] = -1

    def _learn(self, state: State, types: Types, rows: NDArray[np.uint32], most: Counts) -> None:
        """Finds the classes of rows."""
        names = ("min_gpus", "num_gpus", "max_gpus")
        least, asked, upper = (state.jobs[name][rows].astype(np.int64) for name in names)
        units = [types.count(state, rows, gpus) for gpus in (least, asked, upper)]
        told = np.column_stack((least, *units, most[rows]))
        priority = priorities(state, rows)
        groups: dict[tuple[int, ...], list[int]] = {}
        for number, key in enumerate(map(tuple, told.tolist())):
            groups.setdefault(key, []).append(number)
        for key, numbers in groups.items():
            _, low, want, high, _ = key
            own = rows[numbers]
            columns = [priority[numbers]]
            for kind, gpus in enumerate(types.gpus.tolist()):
                usual = usual_sizes(types, kind)
                for size in sorted({low, want, *(size for size in usual if low <= size <= high)}):
                    if size <= gpus * types.whole:
                        whole = max(1, size // types.whole)
                        columns.append(types.rate(state, own, np.full(own.size, whole), kind))
            for row, rates in zip(own.tolist(), np.column_stack(columns), strict=True):
                self._of[row] = self._known.setdefault((*key, rates.tobytes()), len(self._known))


def usual_sizes(types: Types, kind: int) -> set[int]:
    """The configurations of a type, in units."""
    return {size * types.whole for size in sizes_of(types.together[kind])} if types.gpus[kind] else set()


@dataclass
class Sia(Policy):
    """The GPU types and sizes with the greatest sum of goodputs, in rounds (Subramanya et al., SOSP 2023).

    round: how long a round is, s. power: the fairness power p of a goodput. incentive: lambda, what a job
    that gets no GPUs costs. restart: what a restart is taken to cost, s.
    """

    round: float = 60.0
    power: float = -0.5
    incentive: float = 1.1
    restart: float = 30.0

    def __post_init__(self) -> None:
        need_solver("sia")
        seconds("round", self.round)
        bounded("power", self.power, "a number from -2 to 2 other than 0", least=-2.0, most=2.0)
        if self.power == 0.0:
            raise UsageError(f"option P: power: {self.power}: expected a number from -2 to 2 other than 0")
        if self.power < 0.0:
            above = "a number > 1 and <= 1000 where power < 0: else one GPU is worth none"
            bounded("incentive", self.incentive, above, least=math.nextafter(1.0, 2.0), most=1e3)
        bounded("incentive", self.incentive, "a number >= 0 and <= 1000", least=0.0, most=1e3)
        bounded("restart", self.restart, "a number of seconds >= 0 and <= 1e+09", least=0.0, most=1e9)
        self._types: Types | None = None
        self._ends = -math.inf
        # Who runs, who waits, and the idle GPUs, for which nothing else is found.
        self._settled: tuple[bytes, bytes, bytes] | None = None
        self._alike: Alike | None = None
        self._most: Counts = np.zeros(0, np.int64)  # GPUs that each row has held at most
        self._began: Counts = np.zeros(0, np.int64)  # how often each has begun on GPUs that it did not hold

    def decide(self, state: State) -> None:
        """Begins a round when the last one is over: at its end, or when no job runs any more."""
        running = state.running
        if running.size and state.now < self._ends:
            return
        waiting = state.waiting
        self._ends = state.now + self.round
        known = running.tobytes(), waiting.tobytes(), state.idle.tobytes()
        if (running.size or waiting.size) and known != self._settled:
            self._settled = known if self._share_out(state, running, waiting) else None
        if running.size or state.running.size:  # else whoever waits cannot run, and no round mends that
            state.wake(self._ends)

    def _share_out(self, state: State, running: NDArray[np.uint32], waiting: NDArray[np.uint32]) -> bool:
        """Gives jobs their GPUs. Returns whether nothing changed, nor will before a job comes or goes."""
        types = self._types = (self._types or Types(state)).look(state)
        if self._alike is None:
            self._alike = Alike(state)
            self._most, self._began = np.zeros((2, len(state.jobs)), np.int64)
        rows = np.concatenate((running, waiting))
        first = self._alike.first(state, types, waiting, self._most)
        is_first = first == np.arange(first.size)
        looked = np.concatenate((running, waiting[is_first]))
        like = np.arange(rows.size)
        like[running.size :] = running.size - 1 + np.cumsum(is_first)[first]
        offer = self._offer(state, looked, types, like)
        if not offer.menu.sizes.size:  # servers are down, and the others too small for all
            return False
        least = state.jobs.min_gpus[looked].astype(np.int64)
        factors = self._factors(looked, state.now - state.arrival_time[looked])
        rates = offer.rates * offer.open_to
        gains = worth(rates, least, offer.now, factors, power=self.power, incentive=self.incentive)
        stays = np.isin(looked, staying(state)) & (offer.now >= 0)
        while True:
            found = _by_level(gains, offer, types.gpus * types.whole, stays)
            if (found == offer.now[offer.like]).all() and not stays.any() and offer.settled():
                return True
            _carry_out(state, rows, found, offer, types)
            tried = np.flatnonzero(found >= 0)
            if state.running.size or not tried.size:
                break
            # Nobody is in the way, and yet there is no room for these now.
            gains, offer = gains[offer.like], offer.waiting()
            gains[tried, found[tried]] = -math.inf
            stays = np.zeros(rows.size, bool)
        ran = state.running
        self._most[ran] = np.maximum(self._most[ran], state.held[ran])
        self._alike.forget(ran)
        for row, place in types.places_now(state).items():
            if offer.places.get(row) != place:
                self._began[row] += 1
        return False

    def _offer(self, state: State, rows: NDArray[np.uint32], types: Types, like: Counts) -> Offer:
        """What jobs may have in this round. rows: all that run, and then some that wait."""
        least, asked, most = (
            state.jobs[name][rows].astype(np.int64) for name in ("min_gpus", "num_gpus", "max_gpus")
        )
        held = state.held[rows].astype(np.int64)
        level = levels(state, rows, least, keeps=False)
        most = caps(state, rows, least, most)
        least, asked, most, held = (types.count(state, rows, gpus) for gpus in (least, asked, most, held))
        places = types.places
        at = np.full(rows.size, -1)
        at[: len(places)] = types.kinds(rows[: len(places)])
        # A size that lies in nobody's range is nobody's, unless it is a number of its own.
        lows, highs = np.sort(least), np.sort(most)
        now = np.full(rows.size, -1)
        kinds: list[int] = []
        sizes: list[int] = []
        columns: list[Numbers] = []
        for kind, gpus in enumerate(types.gpus.tolist()):
            usual = usual_sizes(types, kind)
            sizes_there = np.array(sorted(usual), np.int64)
            reached = np.searchsorted(lows, sizes_there, "right") > np.searchsorted(highs, sizes_there)
            own = {*np.unique(np.concatenate((least, asked, held[at == kind]))).tolist()}
            for size in sorted(own.union(sizes_there[reached].tolist())):
                if size > gpus * types.whole:
                    break
                here = (at == kind) & (held == size)
                may = (least == size) | (((asked == size) | here) & (size <= most))
                if size in usual:
                    may |= (least <= size) & (size <= most)
                may &= level != OUT
                if (may | here).any():  # also what a job has and may not keep, so that it changes
                    now[here] = len(sizes)
                    rates = np.zeros(rows.size)
                    whole = max(1, size // types.whole)
                    rates[may] = types.rate(state, rows[may], np.full(int(may.sum()), whole), kind)
                    kinds.append(kind)
                    sizes.append(size)
                    columns.append(rates)
        menu = Menu(np.array(kinds, np.int64), np.array(sizes, np.int64))
        rates = np.column_stack([np.zeros((rows.size, 0)), *columns])
        never = np.iinfo(np.int64).max
        first = np.where(rates > 0, menu.sizes, never).min(axis=1, initial=never)
        twice = 2 * types.whole * self._most[rows]
        open_to = menu.sizes <= np.maximum(first, twice)[:, None]
        return Offer(menu, rates, now, open_to, places, level, like)

    def _factors(self, rows: NDArray[np.uint32], ages: Numbers) -> Numbers:
        """The restart factor of each job: the part of its age that is left after one restart more."""
        restarts = np.maximum(self._began[rows] - 1, 0)
        spent = ages + self.restart
        some = spent > 0.0
        return np.where(
            some, np.maximum(ages - restarts * self.restart, 0.0) / np.where(some, spent, 1.0), 1.0
        )


def _by_level(gains: Numbers, offer: Offer, gpus: Counts, kept: NDArray[np.bool_]) -> Counts:
    """The configuration of each job, -1 for none: of what one level leaves the next gets its best.

    gains, kept: by row of the offer; a job that is kept keeps what it has, before all others.
    """
    like = offer.like
    found, left = np.where(kept, offer.now, -1)[like], gpus.copy()
    np.subtract.at(left, offer.menu.kinds[offer.now[kept]], offer.menu.sizes[offer.now[kept]])
    for level in range(int(offer.level.max()) + 1):
        own = np.flatnonzero((offer.level == level) & ~kept)
        if not own.size:
            continue  # none of it may have GPUs
        number = np.full(kept.size, -1)
        number[own] = np.arange(own.size)
        jobs = np.flatnonzero(number[like] >= 0)
        found[jobs] = assignment(gains[own], offer.now[own], offer.menu, left, number[like[jobs]])
        given = found[jobs][found[jobs] >= 0]
        np.subtract.at(left, offer.menu.kinds[given], offer.menu.sizes[given])
    return found


def _carry_out(state: State, rows: NDArray[np.uint32], found: Counts, offer: Offer, types: Types) -> None:
    """Gives jobs the configurations that were found. Those that have theirs already stay where they are."""
    (kinds, sizes), like = offer.menu, offer.like
    now, level = offer.now[like], offer.level[like]
    kept = (found >= 0) & (found == now)
    stopped = rows[(now >= 0) & ~kept]
    if stopped.size:
        state.stop(stopped)

    def start(index: int, choice: int) -> tuple[int, list[Any], int, int]:
        """A job gets the GPUs that it had, if that is the choice and they are idle, else others."""
        row = int(rows[index])
        old = offer.places[row] if choice == now[index] else []
        return row, old, int(kinds[choice]), max(1, int(sizes[choice]) // types.whole)

    chosen = np.flatnonzero(found >= 0)
    largest = chosen[np.lexsort((-sizes[found[chosen]], level[chosen]))]
    starts = [start(index, found[index]) for index in largest[~kept[largest]].tolist()]
    if not starts or all(types.start_each(state, starts, strict=True)):
        return
    # There are enough GPUs, but they lie apart: all are placed anew, and whoever finds no room takes fewer.
    state.stop(state.running[~np.isin(state.running, staying(state))])
    largest = largest[state.held[rows[largest]] == 0]
    largest = largest[np.lexsort((~kept[largest], -sizes[found[largest]], level[largest]))]
    ran = types.start_each(state, [start(index, found[index]) for index in largest.tolist()])
    for index in largest[~np.array(ran, bool)].tolist():
        rates = offer.rates[like[index]]
        here = (kinds == kinds[found[index]]) & (sizes < sizes[found[index]]) & (rates > 0)
        any(all(types.start_each(state, [start(index, one)])) for one in np.flatnonzero(here)[::-1])
