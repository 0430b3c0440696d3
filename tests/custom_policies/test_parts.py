"""A part of a simulation's table, cut from its arrays, is what the table of those rows alone makes."""

from __future__ import annotations

import os
import random
from itertools import count
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from cases.case import Case
from cases.draw import build, toss
from frames import cluster_of
from ringbco.errors import RingbcoError
from ringbco.run.simulation import Simulation
from ringbco.trace.jobs import from_frame

UNUSED = ("policy", "parameters", "order", "quota", "decisions")
"""What a simulation, or an environment, does not take."""
CASES = int(os.environ.get("RINGBCO_CASES", "150"))


def simulation(case: Case, frame: pl.DataFrame) -> Simulation:
    options = {name: value for name, value in case.given().items() if name not in UNUSED}
    return Simulation(from_frame(frame), cluster_of(case.toml()), **options)


def ended(held: Simulation) -> dict[str, pl.DataFrame]:
    """Jobs start in fifo order where they can; the tables of the result."""
    while held.advance():
        held.start(held.state.waiting, strict=False)
    outcome = held.outcome()
    names = ("jobs", "allocations", "timeline", "replicas", "rungs", "searches")
    return {name: table for name in names if (table := getattr(outcome, name)) is not None}


def alike(one: Any, other: Any) -> bool:
    """Whether the engine is told the same, whatever the numbers of kinds and searches."""
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[name], other[name]) for name in one)
    return one == other or (one != one and other != other)  # nothing is known of either


def drawn(seed: int) -> tuple[Case, Simulation, Simulation, slice] | None:
    """A case, a part of it, and the table of those rows alone; None where there is no such run."""
    features = tuple(name for name in toss(seed) if name not in ("own_policy", "quotas", "log"))
    case = build(seed, features)
    rng = random.Random(seed)
    frame = case.frame()
    first = rng.randrange(frame.height)
    rows = slice(first, rng.randint(first + 1, frame.height))
    try:
        whole, alone = simulation(case, frame), simulation(case, frame[rows])
    except RingbcoError:
        return None
    if len(whole._setup.cluster.vc_names) > 1 or whole._setup.outage_draw is not None:
        return None
    return case, whole._part(rows, "part"), alone, rows


def test_a_part_runs_as_its_rows_alone() -> None:
    seen: set[str] = set()
    seeds = (made for seed in count() if (made := drawn(seed)) is not None)
    for _, (case, part, alone, _) in zip(range(CASES), seeds, strict=False):
        mine, theirs = part._setup.jobs, alone._setup.jobs
        for name, column in theirs.items():
            if name not in ("types", "trials", "rates"):
                assert alike(mine.get(name), column), (case.script(), name)
            if column is not None:
                seen.add(name)
        for name in ("types", "trials", "rates"):
            assert (mine.get(name) is None) == (theirs.get(name) is None), (case.script(), name)
        try:
            expected = ended(alone)
        except RingbcoError as refused:
            with pytest.raises(type(refused)):
                ended(part)
            continue
        result = ended(part)
        assert result.keys() == expected.keys(), case.script()
        for name, table in expected.items():
            assert result[name].equals(table), (case.script(), name)
    assert {"range", "noise", "types", "shares", "priority", "preemptible", "trials", "time_limit"} <= seen


def test_a_part_without_trials_runs() -> None:
    frame = ringbco.generate("philly", 12, seed=1, gpus=16).frame
    trials = from_frame(frame.with_columns(group=pl.Series(["a"] * 6 + [None] * 6)))
    whole = Simulation(trials, "2x8", search="asha:eta=2,rungs=1")
    part = whole._part(slice(6, 10), "part")
    plain = ended(Simulation(from_frame(frame[6:10]), "2x8"))["jobs"]
    assert ended(part)["jobs"].select(plain.columns).equals(plain)
