"""Verbs on GPU types that differ, against the oracle: one policy drives both, and draws the same numbers.

It starts (on any type, on a given one, on given servers, on fewer or more GPUs), stops, moves, exchanges,
resizes and ends at random, and often asks for what cannot be. Both must refuse the same. Some jobs gain
little by more samples at once: they have noise scales.
"""

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from core_run import FEW
from frames import cluster_of
from oracle import Options
from oracle_own import Impossible, RefusedError, Rules, StuckError, World, simulate
from ringbco.errors import DecisionError, InputError
from strategies import CLOCKS, MODELS
from types_cases import TypedCase, build_typed

PLACEMENTS = ("first-fit", "consolidate", "random", "fa-ffp")
"""Those that ask for idle GPUs alone."""
SCALES = (math.inf, 0.0, 1.0, 0.3, 2_500.0, 7.7e6)
"""Noise scales, samples."""
DECISIONS = 60
"""After so many decisions a policy plays no more, so that every run ends."""


@dataclass
class Player:
    """Plays on a `state`, the package's or the oracle's, and notes what came of it."""

    typed: TypedCase
    rules: Rules
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
        draw, rules = self.draw, self.rules
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
            self.do("exchange", state.move, {one: state.parts(other), other: state.parts(one)})
        for row in draw.sample([int(row) for row in state.waiting], len(state.waiting)):
            what, gpus = draw.random(), draw.randint(rules.least[row], rules.most[row])
            if what < 0.15:
                self.do("start", state.start, [row], strict=False)
            elif what < 0.35:
                self.do("start", state.start, [row], type=draw.choice(rules.names), strict=False)
            elif what < 0.5:
                self.do("start", state.start, [row], gpus=gpus, strict=False)
            elif what < 0.6:
                name = draw.choice(rules.names)
                self.do("start", state.start, [row], gpus=gpus, type=name, strict=False)
            elif what < 0.8:
                self.do("start", state.start, [row], self.parts(state, gpus))
        if draw.random() < 0.3:
            state.wake(state.now + draw.randint(1, 8) * self.typed.case.options.slot)

    def parts(self, state: Any, gpus: int) -> list[tuple[int, int]]:
        """Servers for so many GPUs: mostly of one type, and mostly with room."""
        of, draw = self.typed.types.of, self.draw
        servers = list(range(len(of)))
        if draw.random() < 0.9:
            chosen = draw.choice(of)
            servers = [server for server in servers if of[server] == chosen]
        draw.shuffle(servers)
        room = list(state.idle) if draw.random() < 0.9 else self.typed.case.servers
        parts = []
        for server in servers:
            count = min(gpus, int(room[server]))
            if count:
                parts.append((server, count))
            gpus -= count
        return parts


def ranges(rnd: random.Random, typed: TypedCase) -> Rules:
    asked = [job.num_gpus for job in typed.case.jobs]
    slot = typed.case.options.slot
    cost = [slot * rnd.choice((0.0, 0.5, 1.0, 2.0, rnd.uniform(0.0, 3.0))) for _ in range(4)]
    return Rules(
        tuple(rnd.randint(1, gpus) for gpus in asked),
        tuple(gpus + rnd.randint(0, 4) for gpus in asked),
        typed.names,
        rnd.choice((0.0, cost[0])),
        *cost[1:],
        tuple((rnd.choice(SCALES), rnd.choice((1, 64, rnd.randint(1, 3000)))) for _ in asked),
    )


def own(player: Player) -> type[ringbco.Policy]:
    """The policy that asks the player."""

    class Own(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            player(state)

    return Own


def replayed(typed: TypedCase, rules: Rules, player: Player) -> ringbco.Outcome:
    options = typed.case.options
    given: dict[str, Any] = {"slot": options.slot} if options.clock == "slot" else {}
    given |= {"placement": options.placement, "model": options.model, "clock": options.clock}
    given |= {"seed": options.seed, "oversize": "drop", "type_order": typed.types.order}
    given |= {"start_cost": rules.start, "preempt_cost": rules.preempt}
    given |= {"move_cost": rules.move, "resize_cost": rules.resize}
    return ringbco.replay(elastic(typed, rules), cluster_of(typed.toml), policy=own(player), **given)


def elastic(typed: TypedCase, rules: Rules) -> pl.DataFrame:
    scales = [None if math.isinf(scale) and row % 2 else scale for row, (scale, _) in enumerate(rules.noise)]
    return typed.frame.with_columns(
        min_gpus=pl.Series(rules.least, dtype=pl.UInt32),
        max_gpus=pl.Series(rules.most, dtype=pl.UInt32),
        noise_scale=pl.Series(scales, dtype=pl.Float64),
        # Computing takes as long with any batch.
        batch_size=pl.Series([batch for _, batch in rules.noise], dtype=pl.UInt32),
        fp_time=pl.lit(0.0),
        bp_time=pl.col("fp_time"),
    )


def same(outcome: ringbco.Outcome, truth: World, said: object) -> None:
    rows = sorted(truth.finished)
    assert outcome.jobs["job_id"].to_list() == [f"j{row}" for row in rows], said
    assert outcome.jobs["preemptions"].to_list() == [truth.preemptions[row] for row in rows], said
    assert outcome.allocations is not None
    held = outcome.allocations.with_columns(pl.col("job_id").str.slice(1).cast(pl.Float64))
    columns = ("job_id", "start_time", "server", "num_gpus", "end_time")
    pairs = [
        (outcome.jobs["start_time"], [truth.started[row] for row in rows]),
        (outcome.jobs["finish_time"], [truth.finished[row] for row in rows]),
        (held.select(columns), sorted(truth.allocations, key=lambda stay: stay[:3])),
    ]
    for mine, theirs in pairs:
        left, right = mine.to_numpy().astype(float), np.array(theirs, dtype=float)
        assert left.shape == right.shape, said
        assert np.array_equal(left, right), said  # bit for bit, under both clocks


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("clock", CLOCKS)
def test_verbs(placement: str, model: str, clock: str) -> None:
    finished, noted = 0, set()
    numbers = range(FEW * 2 // 3)
    for number in numbers:
        rnd = random.Random(f"types verbs {placement} {model} {clock} {number}")
        typed = build_typed(rnd, Options("fifo", "strict", placement, model, clock))
        rules, seed = ranges(rnd, typed), rnd.random()
        mine = Player(typed, rules, random.Random(seed), DecisionError)
        theirs = Player(typed, rules, random.Random(seed), Impossible)
        try:
            truth = simulate(typed.case, typed.types, rules, theirs)
        except (RefusedError, StuckError):
            with pytest.raises(InputError):
                replayed(typed, rules, mine)
            continue
        if not truth.finished:
            continue
        outcome = replayed(typed, rules, mine)
        said = (typed.toml, elastic(typed, rules).to_dicts(), rules, mine.log)
        for own_line, true_line in zip(mine.log, theirs.log, strict=False):
            assert own_line == true_line, said
        assert len(mine.log) == len(theirs.log), said
        same(outcome, truth, said)
        assert ringbco.audit(outcome, elastic(typed, rules)) == [], said
        finished += 1
        noted |= {(line[0], line[-1] == "refused") for line in mine.log}
    assert finished > 0.4 * len(numbers)
    # Each verb was carried out, and each that can be refused was refused.
    done = {(verb, False) for verb in ("asked", "start", "stop", "move", "exchange", "resize", "end")}
    assert noted >= done | {(verb, True) for verb in ("start", "move", "exchange", "resize")}
