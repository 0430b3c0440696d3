"""The reference model of sia, straight from docs/sia.md. Nothing here imports ringbco.

Assignments are told: of several that are optima the page names none. Each is compared with the optimum.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from reference.deciding import State
from reference.following import WrongError
from reference.levels import OUT, Choices, Program, check_best, in_order, levels, start_again

Config = tuple[int, int]
"""A type and a number of GPUs."""


def sizes_of(servers: Sequence[int]) -> set[int]:
    """Powers of two on one server, a whole server, and several whole ones."""
    whole = sorted(servers, reverse=True)
    powers = {2**k for k in range(whole[0].bit_length()) if 2**k <= whole[0]}
    return powers | {sum(whole[:n]) for n in range(1, len(whole) + 1)}


@dataclass
class Offer:
    """By row: the rate of each configuration, those that it has not outgrown, and what it has now."""

    rates: dict[int, dict[Config, float]]
    open_to: dict[int, set[Config]]
    now: dict[int, Config | None]
    level: dict[int, int]


@dataclass
class Sia:
    """The policy; `chosen` tells the assignments."""

    chosen: Choices
    round: float = 60.0
    power: float = -0.5
    incentive: float = 1.1
    restart: float = 30.0
    ends: float = -math.inf
    most: dict[int, int] = field(default_factory=dict)
    began: dict[int, int] = field(default_factory=dict)
    sight: object = None
    """Who ran and waited when a round was begun last, and the idle GPUs."""

    def __call__(self, state: State) -> None:
        if state.running and state.now < self.ends:
            return
        self.ends = state.now + self.round
        rows, ran = [*state.running, *state.waiting], bool(state.running)
        if rows:
            self.share_out(state, rows)
        if ran or state.running:
            state.wake(self.ends)

    def share_out(self, state: State, rows: list[int]) -> None:
        world = state.world
        told, before = self.chosen(state.now), self.sight
        self.sight = state.running, state.waiting, state.idle
        if told is None and self.sight == before and not state.running:
            return  # nobody found room
        offer = self.offer(state, rows)
        places = {row: world.places(row) for row in state.running}
        gains = {row: self.gains(state, row, offer) for row in rows}
        kept = [row for row in rows if row in state.kept and offer.now[row] is not None]
        while True:
            result = dict.fromkeys(rows) | {row: offer.now[row] for row in kept}
            for number in range(max(offer.level.values()) + 1):
                own = [row for row in rows if offer.level[row] == number and row not in kept]
                if not own:
                    continue
                # Where nothing was worked out nothing changes, and that must be the best.
                given = [offer.now[row] for row in own]
                if told is not None:
                    given = self.named(world.kinds(), told.pop(0) if told else [])
                if len(given) != len(own):
                    raise WrongError(f"an assignment is due at {state.now} s")
                check_assignment(
                    dict(zip(own, given, strict=True)),
                    gains,
                    self.free(state, result),
                    world.weight_of,
                )
                result |= dict(zip(own, given, strict=True))
            if told is None:
                return
            self.carry_out(state, rows, result, offer, places)
            tried = [row for row in rows if result[row] is not None]
            if state.running or not tried:
                break
            for row in tried:
                del gains[row][result[row]]  # type: ignore[arg-type]
            offer.now = dict.fromkeys(rows)
        for row in state.running:
            self.most[row] = max(self.most.get(row, 0), state.held(row))
            if places.get(row) != world.places(row):
                self.began[row] = self.began.get(row, 0) + 1

    def named(self, kinds: list[int], told: list[Config | None]) -> list[Config | None]:
        """What was told, where types are numbered as they come in the cluster."""
        return [config and (kinds[config[0]], config[1]) for config in told]

    def free(self, state: State, found: dict[int, Config | None]) -> dict[int, float]:
        """GPUs of each type that those so far have left."""
        left = {kind: float(sum(state.world.there(kind).values())) for kind in state.world.kinds()}
        for row, config in found.items():
            if config is not None:
                left[config[0]] -= state.world.weight_of(row, config[1])
        return left

    def offer(self, state: State, rows: list[int]) -> Offer:
        world, jobs = state.world, state.jobs
        needs = {row: jobs.min_gpus[row] for row in rows}
        level, left, bounds = levels(state, rows, needs, keeps=False)
        offer = Offer({row: {} for row in rows}, {row: set() for row in rows}, dict.fromkeys(rows), level)
        for row in in_order(state, rows):
            least, most = jobs.min_gpus[row], jobs.max_gpus[row]
            if row in bounds:
                owners = bounds[row]
                most = min(most, least + min(left[owner] for owner in owners))
                left.update({owner: left[owner] - (most - least) for owner in owners})
            held = state.held(row)
            at = world.type_at(state.gpus_of(row)[0][0]) if held else None
            for kind in world.kinds():
                servers = list(world.there(kind).values())
                usual = sizes_of(servers) if sum(servers) else set()
                sizes = {size for size in usual if least <= size <= most} | {least}
                own = {jobs.num_gpus[row], held if at == kind else 0}
                sizes |= {size for size in own if 0 < size <= most}
                for size in sorted(sizes):
                    rate = world.rate(row, size, kind) if offer.level[row] != OUT else 0.0
                    if rate > 0 and (not world.jobs[row].share or size == 1):
                        offer.rates[row][kind, size] = rate
                        if at == kind and held == size:
                            offer.now[row] = kind, size
            first = min((size for _, size in offer.rates[row]), default=0)
            grown = max(first, 2 * self.most.get(row, 0))
            offer.open_to[row] = {config for config in offer.rates[row] if config[1] <= grown}
        return offer

    def gains(self, state: State, row: int, offer: Offer) -> dict[Config, float]:
        """What each configuration is worth, of those that are worth anything."""
        age = state.now - state.arrival_time[row]
        restarts = max(self.began.get(row, 0) - 1, 0)
        spent = age + self.restart
        factor = max(0.0, age - restarts * self.restart) / spent if spent > 0 else 1.0
        rates = {config: offer.rates[row][config] for config in offer.open_to[row]}
        result = {}
        for config, rate in rates.items():
            goodput = rate / min(rates.values()) * state.jobs.min_gpus[row]
            if state.held(row) and config != offer.now[row]:
                goodput *= factor
            if goodput > 0:
                result[config] = self.incentive + math.copysign(1.0, self.power) * goodput**self.power
        return {config: gain for config, gain in result.items() if gain > 0}

    def carry_out(
        self,
        state: State,
        rows: list[int],
        found: dict[int, Config | None],
        offer: Offer,
        places: dict[int, list[Any]],
    ) -> None:
        kept = {row for row in rows if found[row] is not None and found[row] == offer.now[row]}
        chosen = {row: config for row, config in found.items() if config is not None}
        state.stop([row for row in state.running if row not in kept])
        order = sorted(
            chosen, key=lambda row: (offer.level[row], -state.world.weight_of(row, chosen[row][1]))
        )

        def start(row: int, config: Config) -> bool:
            old = places.get(row) if config == offer.now[row] else None
            if start_again(state, row, old):
                return True
            return state.start(row, gpus=config[1], type=config[0], strict=False) == 1

        if all([start(row, chosen[row])] == [True] for row in order if row not in kept):
            return
        state.stop([row for row in state.running if row not in state.kept])
        again = [row for row in order if not state.held(row)]
        again.sort(
            key=lambda row: (
                offer.level[row],
                -state.world.weight_of(row, chosen[row][1]),
                row not in kept,
            )
        )
        for row in [row for row in again if not start(row, chosen[row])]:
            kind, size = chosen[row]
            smaller = sorted((s for own, s in offer.rates[row] if own == kind and s < size), reverse=True)
            any(start(row, (kind, s)) for s in smaller)


def check_assignment(
    found: dict[int, Config | None],
    gains: dict[int, dict[Config, float]],
    free: dict[int, float],
    weight: Callable[[int, int], float],
) -> None:
    """Raises WrongError unless all fit, and the sum of gains is the greatest.

    free: GPUs by type. weight: GPUs that a row holds of so many.
    """
    cells = [(row, config) for row in found for config in gains[row]]
    taken = [(row, config) for row, config in found.items() if config is not None]
    if any(cell not in cells for cell in taken):
        raise WrongError(f"{taken}: what is worth nothing, or cannot be had")
    program = Program([1.0] * len(cells), whole=True)
    for row in found:
        program.at_most({at: 1.0 for at, cell in enumerate(cells) if cell[0] == row}, 1.0)
    for kind, gpus in free.items():
        own = {at: weight(row, config[1]) for at, (row, config) in enumerate(cells) if config[0] == kind}
        program.at_most(own, gpus)
    program.check([float(cell in taken) for cell in cells])
    check_best(
        sum(gains[row][config] for row, config in taken),
        program.best([gains[row][config] for row, config in cells]),
    )
