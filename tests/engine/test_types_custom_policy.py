"""Verbs on GPU types that differ, against the reference model: one policy drives both with the same numbers.

It starts (on any type, on a given one, on given servers, on fewer or more GPUs), stops, moves, exchanges,
resizes and ends at random, and often asks for what cannot be. Both must refuse the same. Some jobs gain
little by more samples at once: they have noise scales. Servers fail, services and jobs of higher priority
take GPUs, owners have quotas, trials climb rungs, and some jobs are protected.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

import ringbco
from cases import decided
from cases.case import Case
from cases.compare import differences
from cases.draw import build
from cases.modelled import Model
from core_run import FEW
from reference.deciding import ImpossibleError
from reference.model import RefusedError, StuckError
from reference.sized import Ranges
from ringbco.errors import DecisionError, InputError
from strategies import CLOCKS, MODELS

PLACEMENTS = ("first-fit", "consolidate", "random", "fa-ffp")
"""Those that ask for idle GPUs alone."""
SCALES = (math.inf, 0.0, 1.0, 0.3, 2_500.0, 7.7e6)
"""Noise scales, samples."""
MEETING = {
    "outages": 0.3,
    "priorities": 0.4,
    "preemptible": 0.3,
    "evict": 0.3,
    "quotas": 0.3,
    "services": 0.2,
    "searches": 0.2,
    "time_limit": 0.2,
    "sleep": 0.2,
    "protection": 0.3,
}
"""Features of cases, and how likely they are here."""
DECISIONS = 60
"""After so many decisions a policy plays no more, so that every run ends."""


@dataclass
class Player:
    """Plays on a `state`, the package's or the reference model's, and notes what came of it."""

    case: Case
    of: tuple[int, ...]
    """The type of each server."""
    ranges: Ranges
    names: list[str]
    draw: random.Random
    cannot: type[Exception]
    log: list[tuple[Any, ...]] = field(default_factory=list)
    asked: int = 0

    def __call__(self, state: Any) -> None:
        self.asked += 1
        self.log.append(("asked", *map(int, state.waiting), "runs", *map(int, state.running)))
        if self.asked <= DECISIONS:
            self.play(state)
        waiting = [int(row) for row in state.waiting]
        if waiting and (self.asked > DECISIONS or not len(state.running) or self.draw.random() < 0.5):
            self.do("start", state.start, waiting, strict=False)

    def do(self, name: str, verb: Any, *args: Any, **more: Any) -> None:
        try:
            came = verb(*args, **more)
        except self.cannot:
            came = "refused"
        self.log.append((name, args, more, came))

    def play(self, state: Any) -> None:
        draw, rules = self.draw, self.ranges
        for row in [int(row) for row in state.running]:
            what = draw.random()
            if what < 0.08:
                self.do("stop", state.stop, [row])
            elif what < 0.25:
                gpus = draw.randint(rules.least[row], rules.most[row] + 1)
                self.do("resize", state.resize, row, gpus)
            elif what < 0.4:
                parts = self.parts(state, draw.randint(rules.least[row], rules.most[row]))
                self.do("move", state.move, {row: parts})
            elif what < 0.42:
                self.do("end", state.end, [row])
        running = [int(row) for row in state.running]
        if len(running) > 1 and draw.random() < 0.3:
            one, other = draw.sample(running, 2)
            self.do("exchange", state.move, {one: state.allocation(other), other: state.allocation(one)})
        for row in draw.sample([int(row) for row in state.waiting], len(state.waiting)):
            what, gpus = draw.random(), draw.randint(rules.least[row], rules.most[row])
            if what < 0.15:
                self.do("start", state.start, [row], strict=False)
            elif what < 0.35:
                self.do("start", state.start, [row], type=draw.choice(self.names), strict=False)
            elif what < 0.5:
                self.do("start", state.start, [row], gpus=gpus, strict=False)
            elif what < 0.6:
                name = draw.choice(self.names)
                self.do("start", state.start, [row], gpus=gpus, type=name, strict=False)
            elif what < 0.8:
                self.do("start", state.start, [row], self.parts(state, gpus))
        if draw.random() < 0.3:
            state.wake(state.now + draw.randint(1, 8) * step(self.case))

    def parts(self, state: Any, gpus: int) -> list[tuple[int, int]]:
        """Servers for so many GPUs: mostly of one type, and mostly with room."""
        of, draw = self.of, self.draw
        servers = list(range(len(of)))
        if draw.random() < 0.9:
            chosen = draw.choice(of)
            servers = [server for server in servers if of[server] == chosen]
        draw.shuffle(servers)
        room = list(state.idle) if draw.random() < 0.9 else [each["gpus"] for each in self.case.servers]
        parts = []
        for server in servers:
            count = min(gpus, int(room[server]))
            if count:
                parts.append((server, count))
            gpus -= count
        return parts


def drawn(name: str, placement: str, model: str, clock: str) -> Case:
    """A case on GPU types, and nobody is asked to run on them by a policy of the package."""
    rnd = random.Random(name)
    likely = {"gpu_type": 0.7, "recorded_on": 0.7, "models": 0.7, "shuffled": 0.2, **MEETING}
    features = ["types", *(feature for feature, chance in likely.items() if rnd.random() < chance)]
    features += ["ring"] * (model == "rar") + (["slot"] if clock == "slot" else ["saving", "late"])
    case = build(name, tuple(features))
    case.options["placement"] = placement
    return case


def step(case: Case) -> float:
    """A slot, or as much as a short job takes."""
    return float(case.options.get("slot", case.unit))


def ranges(rnd: random.Random, case: Case) -> None:
    """Ranges of the jobs, and what pauses cost."""
    for row, job in enumerate(case.jobs):
        scale = rnd.choice(SCALES)
        job |= {"min_gpus": rnd.randint(1, job["num_gpus"]), "max_gpus": job["num_gpus"] + rnd.randint(0, 4)}
        job["noise_scale"] = None if math.isinf(scale) and row % 2 else scale
        # Computing takes as long with any batch.
        job |= {"fp_time": 0.0, "bp_time": job.get("fp_time", 0.0)}
        job["batch_size"] = rnd.choice((1, 64, rnd.randint(1, 3000)))
    costs = [step(case) * rnd.choice((0.0, 0.5, 1.0, 2.0, rnd.uniform(0.0, 3.0))) for _ in range(4)]
    costs[0] *= rnd.random() < 0.5
    names = ("start_cost", "preempt_cost", "move_cost", "resize_cost")
    case.options |= dict(zip(names, costs, strict=True))


def own(player: Player) -> type[ringbco.Policy]:
    """The policy that asks the player."""

    class Own(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            player(state)

    return Own


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clock", CLOCKS)
def test_verbs(model: str, clock: str) -> None:
    finished, noted = 0, set()
    for number in range(FEW // 2):
        name = f"types verbs {model} {clock} {number}"
        case = drawn(name, PLACEMENTS[number % len(PLACEMENTS)], model, clock)
        rnd = random.Random(f"{name} play")
        ranges(rnd, case)
        seed, asked = rnd.random(), Model(case)
        assert asked.types is not None
        names = list(dict.fromkeys(server["gpu_type"] for server in case.servers))
        mine, theirs = (
            Player(case, asked.types.of, decided.ranges_of(asked), names, random.Random(seed), cannot)
            for cannot in (DecisionError, ImpossibleError)
        )
        try:
            expected = Model(case, decides=lambda _, theirs=theirs: theirs).simulate()  # type: ignore[misc]
        except (RefusedError, StuckError):
            with pytest.raises(InputError):
                case.replay(policy=own(mine))
            continue
        if all(math.isnan(end) for end in expected.result.finish):
            continue
        outcome = case.replay(policy=own(mine))
        said = (case.script(), mine.log)
        for own_line, true_line in zip(mine.log, theirs.log, strict=False):
            assert own_line == true_line, said
        assert len(mine.log) == len(theirs.log), said
        assert list(differences(case, outcome, expected)) == [], said
        assert ringbco.audit(outcome, case.frame()) == [], said
        finished += 1
        noted |= {(line[0], line[-1] == "refused") for line in mine.log}
    assert finished > 0.4 * (FEW // 2)
    # Each verb was carried out, and each that can be refused was refused.
    done = {(verb, False) for verb in ("asked", "start", "stop", "move", "exchange", "resize", "end")}
    assert noted >= done | {(verb, True) for verb in ("start", "move", "exchange", "resize")}
