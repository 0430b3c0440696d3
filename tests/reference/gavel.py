"""The reference model of gavel, straight from docs/gavel.md. Nothing here imports ringbco.

Shares are told: of many that are optima the page names none. Each is compared with the optimum; what follows
from them in rounds is worked out here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from reference.deciding import State
from reference.following import WrongError
from reference.levels import CLOSE, OUT, Choices, Program, by_table, check_best, levels, start_again

Rates = dict[int, list[float]]
"""By row, of each type."""


@dataclass
class Gavel:
    """The policy; `chosen` tells the shares."""

    chosen: Choices
    round: float
    renew: float = 1920.0
    newcomers: bool = False
    shares: str = "max-min"
    began: float = -math.inf
    ends: float = -math.inf
    renewed: float = -math.inf
    members: set[int] = field(default_factory=set)
    gpus: list[int] = field(default_factory=list)
    share: Rates = field(default_factory=dict)
    had: Rates = field(default_factory=dict)
    deficit: Rates = field(default_factory=dict)
    rounds: Rates = field(default_factory=dict)
    on: dict[int, int] = field(default_factory=dict)
    past: dict[int, float] = field(default_factory=dict)
    looks: dict[int, tuple[float, float, float]] = field(default_factory=dict)

    def __call__(self, state: State) -> None:
        self.count([row for row in self.on if row not in state.running], state.now)
        if state.running and state.now < self.ends:
            return
        rows = sorted([*state.running, *state.waiting])
        if not rows:
            return
        self.count(list(self.on), state.now)
        self.began, self.ends = state.now, state.now + self.round
        self.told = self.chosen(state.now) or []
        self.begin(state, rows)
        if state.running or self.members != set(rows):
            state.wake(self.ends)

    def count(self, rows: Sequence[int], now: float) -> None:
        """What they had on their types since the round began."""
        for row in rows:
            kind = self.on.pop(row)
            self.had[row][kind] += now - self.began

    def begin(self, state: State, rows: list[int]) -> None:
        world = state.world
        kinds = world.kinds()
        gpus = [sum(world.there(kind).values()) for kind in kinds]
        level, *_ = levels(state, rows, {row: state.jobs.num_gpus[row] for row in rows}, keeps=False)
        rates = {
            row: [world.rate(row, state.jobs.num_gpus[row], kind) * (level[row] != OUT) for kind in kinds]
            for row in rows
        }
        places = {row: world.places(row) for row in state.running}
        at = {row: kinds.index(world.type_at(parts[0][0])) for row, parts in places.items()}
        anew = False
        while True:
            self.share_out(state, rows, rates, gpus, anew=anew)
            kept = [(row, at[row]) for row in state.kept]
            chosen = kept + self.choose(state, rows, rates, gpus, level, kept)
            old = {row: places[row] for row, kind in chosen if at.get(row) == kind}
            self.place(state, chosen, kinds, level, old)
            if state.running or (not chosen and self.gpus == gpus):
                return
            for row, kind in chosen:
                rates[row][kind] = 0.0
            anew = True

    def share_out(self, state: State, rows: list[int], rates: Rates, gpus: list[int], *, anew: bool) -> None:
        for row in rows:
            for column, first in ((self.had, self.round / 2), (self.deficit, 0.0), (self.rounds, 0.0)):
                column.setdefault(row, [first] * len(gpus))
        changed = self.members != set(rows) or self.gpus != gpus
        known = [row for row in rows if row in self.share]
        if not anew and not (changed and (state.now - self.renewed >= self.renew or not known)):
            return
        for row in self.share:  # those who pause at a rung, too
            due = [share * (state.now - self.renewed) for share in self.share[row]]
            had = [time - self.round / 2 for time in self.had[row]]
            self.deficit[row] = [a + (b - c) for a, b, c in zip(self.deficit[row], due, had, strict=True)]
        self.had = {row: [self.round / 2] * len(gpus) for row in rows}
        size = {row: state.world.weight(row) for row in rows}
        if self.shares == "first-come":
            self.share = first_come(by_table(state, rows), rates, size, gpus)
        else:
            if not self.told:
                raise WrongError(f"shares are due at {state.now} s")
            self.share = self.told.pop(0)
            check = check_finish if self.shares == "finish-time" else check_shares
            check(self.share, rates, size, gpus, *self.figures(state, rates, size, gpus))
        self.members, self.gpus, self.renewed = set(rows), gpus, state.now

    def figures(
        self, state: State, rates: Rates, size: dict[int, float], gpus: list[int]
    ) -> tuple[dict[int, tuple[float, float, float]], ...]:
        """Under finish-time by row: t, rem and iso; and a look."""
        if self.shares != "finish-time":
            return ()
        result = {}
        for row in rates:
            work, equal = state.world.work_left(row), equal_rate(rates[row], gpus)
            part = min(1.0, math.ceil(sum(gpus) / len(rates)) / size[row])
            self.past.setdefault(row, 0.0)
            if equal <= 0.0:
                continue
            if row in self.looks:
                before, rate, share = self.looks[row]
                self.past[row] += max(0.0, before - work) / rate / share
            self.looks[row] = work, equal, part
            rest = work / equal
            result[row] = state.now - state.arrival_time[row], rest, self.past[row] + rest / part
        return (result,)

    def choose(
        self,
        state: State,
        rows: list[int],
        rates: Rates,
        gpus: list[int],
        level: dict[int, int],
        kept: list[tuple[int, int]],
    ) -> list[tuple[int, int]]:
        """(row, type) of those that are taken, besides those `kept`."""
        kinds, nothing = range(len(gpus)), [0.0] * len(gpus)
        share = {row: self.share.get(row, nothing) for row in rows}
        able = {row: [rate > 0 for rate in rates[row]] for row in rows}
        free = {row for row in rows if self.newcomers or row in self.share} - {row for row, _ in kept}
        if self.shares == "first-come":
            free -= {row for row in self.share if row in share and not any(share[row])}
            for row in rows:
                able[row] = [able[row][j] and (share[row][j] > 0 or not any(share[row])) for j in kinds]

        def priority(row: int, kind: int) -> float:
            if self.shares != "finish-time":
                return share[row][kind] / self.had[row][kind]
            if not share[row][kind]:
                return 0.0
            rounds = self.rounds[row][kind]
            return share[row][kind] / rounds if rounds else math.inf

        speed = [sum(rates[row][j] / max(rates[row]) for row in rows if able[row][j]) for j in kinds]
        taken = []
        for kind in sorted(kinds, key=lambda j: -speed[j]):
            left = gpus[kind] - sum(state.world.weight(row) for row, own in kept if own == kind)
            order = sorted(
                rows,
                key=lambda row: (
                    level[row],
                    -priority(row, kind),
                    -self.deficit[row][kind],
                    -share[row][kind],
                    row,
                ),
            )
            for row in order:
                if row in free and able[row][kind] and state.world.weight(row) <= left + 1e-9:
                    free.remove(row)
                    left -= state.world.weight(row)
                    taken.append((row, kind))
        return taken

    def place(
        self,
        state: State,
        chosen: list[tuple[int, int]],
        kinds: list[int],
        level: dict[int, int],
        old: dict[int, list],  # type: ignore[type-arg]
    ) -> None:
        """Starts them, the largest of a level first; if one then finds no room, by priority."""
        kept, size = set(state.kept), state.jobs.num_gpus
        largest = sorted(chosen, key=lambda one: (level[one[0]], -size[one[0]], one[0] not in old))
        for order in (largest, sorted(chosen, key=lambda one: level[one[0]])):
            state.stop([row for row in state.running if row not in kept])
            placed = {
                row: kind
                for row, kind in order
                if row in kept or start_again(state, row, old.get(row)) or state.start(row, type=kinds[kind])
            }
            self.on = {row: kind for row, kind in placed.items() if state.held(row)}
            if len(self.on) == len(order):
                break
        for row, kind in self.on.items():
            self.rounds[row][kind] += 1


def equal_rate(rates: list[float], gpus: list[int]) -> float:
    """E_i: the rate on an equal slice of the cluster."""
    return sum(rate * n for rate, n in zip(rates, gpus, strict=True)) / max(1, sum(gpus))


def first_come(order: list[int], rates: Rates, size: dict[int, float], gpus: list[int]) -> Rates:
    """All of its time on the fastest type with GPUs left, for one after the other."""
    left, share = [float(n) for n in gpus], {}
    for row in order:
        fits = [rate if n >= size[row] - 1e-9 else 0.0 for rate, n in zip(rates[row], left, strict=True)]
        best = fits.index(max(fits))
        share[row] = [float(j == best and fits[best] > 0) for j in range(len(gpus))]
        left[best] -= size[row] if fits[best] > 0 else 0.0
    return share


def of_shares(
    rates: Rates, size: dict[int, float], gpus: list[int], more: Sequence[float] = ()
) -> tuple[Program, dict[int, list[int]]]:
    """All shares that there can be, and where those of each row stand."""
    rows = [row for row in rates if any(rates[row])]
    cells = {row: [len(gpus) * at + j for j in range(len(gpus))] for at, row in enumerate(rows)}
    program = Program([*(float(rates[row][j] > 0) for row in rows for j in range(len(gpus))), *more])
    for row in rows:
        program.at_most(dict.fromkeys(cells[row], 1.0), 1.0)
    for j, n in enumerate(gpus):
        program.at_most({cells[row][j]: size[row] for row in rows}, float(n))
    return program, cells


def check_shares(share: Rates, rates: Rates, size: dict[int, float], gpus: list[int]) -> None:
    """Raises WrongError unless the least S is the greatest, and the sum of S then, too."""
    program, cells = of_shares(rates, size, gpus, [math.inf])
    if any(any(share[row]) for row in rates if row not in cells):
        raise WrongError("a share for a job that can run nowhere")
    if not cells:
        return
    worth = {row: [size[row] * rate / equal_rate(rates[row], gpus) for rate in rates[row]] for row in cells}
    sums = {row: sum(w * x for w, x in zip(worth[row], share[row], strict=True)) for row in cells}
    values = [x for row in cells for x in share[row]]
    program.check([*values, 0.0])
    for row in cells:
        program.at_most(
            {**dict(zip(cells[row], [-w for w in worth[row]], strict=True)), len(values): 1.0}, 0.0
        )
    least = program.best([0.0] * len(values) + [1.0])
    check_best(min(sums.values()), least)
    assert least is not None
    program.at_most({len(values): -1.0}, -least * (1.0 - 1e-9))
    check_best(sum(sums.values()), program.best([w for row in cells for w in worth[row]] + [0.0]))


def check_finish(
    share: Rates,
    rates: Rates,
    size: dict[int, float],
    gpus: list[int],
    figures: dict[int, tuple[float, float, float]],
) -> None:
    """Raises WrongError unless the greatest finish-time fairness is the least, and nothing is left over."""
    program, cells = of_shares(rates, size, gpus)
    if any(any(share[row]) for row in rates if row not in cells):
        raise WrongError("a share for a job that can run nowhere")
    if not cells:
        return
    worth = {row: [rate / equal_rate(rates[row], gpus) for rate in rates[row]] for row in cells}
    program.check([x for row in cells for x in share[row]])
    fairness = 0.0
    for row in cells:
        since, rest, alone = figures[row]
        x = sum(w * part for w, part in zip(worth[row], share[row], strict=True))
        if rest:
            fairness = max(fairness, (since + rest / x) / alone if x else math.inf)
    for row in cells:  # a little fairer for all cannot be
        since, rest, alone = figures[row]
        room = fairness * (1.0 - 10 * CLOSE) * alone - since
        need = rest / room if room > 0 else math.inf
        program.at_most(dict(zip(cells[row], [-w for w in worth[row]], strict=True)), -min(need, 1e9))
    if fairness and program.best([0.0] * len(program.most)) is not None:
        raise WrongError(f"a fairness of less than {fairness} can be")
    for j, n in enumerate(gpus):
        used = sum(size[row] * share[row][j] for row in cells)
        if used < n - CLOSE and any(rates[row][j] and sum(share[row]) < 1.0 - CLOSE for row in cells):
            raise WrongError(f"{n - used} GPUs are left over for some that could use them")
