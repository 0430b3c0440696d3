"""Runs under model `table` against their oracles, on random small replays on one to three GPU types.

Slot clock: equal bit for bit. Continuous clock: the same places, times within 1e-9 of their size.
"""

import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pytest

from core_run import FEW
from oracle_shares import Pair
from oracle_tables import MeasuredJob, Row, TableTypes, table_preempt_world
from oracle_types import queue_world
from ringbco import _core
from strategies import COMBINATIONS, PLACEMENTS, Case, build_case
from test_preempt_equality import COMBINATIONS as PREEMPT_COMBINATIONS
from test_preempt_equality import POLICIES, build
from test_types_equality import types_of
from twins import same_queue, same_ranking

MODELS = 3


@dataclass(frozen=True)
class Measured:
    """A case whose jobs have measured speeds; `columns` is what the engine is told of them."""

    case: Case
    types: TableTypes
    columns: dict[str, Any]


def measured(rnd: random.Random, case: Case) -> Measured:
    """The case under model `table`: what was measured of each model on each type, one of them elsewhere."""
    drawn = types_of(rnd, case)
    count = max(drawn.of) + 2  # one type that no server has, on which jobs may have been recorded
    rows = tuple(
        row
        for model in range(MODELS)
        for gpu_type in range(count)
        for row in _rows(rnd, case, model, gpu_type, count - 1)
    )
    jobs, kinds = [], []
    for job, choices in zip(case.jobs, drawn.choices, strict=True):
        model = rnd.randrange(MODELS)
        may = [t for t in range(count) if any(row[:2] == (model, t) and row[4] > 0 for row in rows)]
        recorded = rnd.choice([*choices.listed, count - 1])
        if recorded not in may or rnd.random() < 0.2:
            recorded = count - 1
        given = asdict(job) | {"rows": rows, "measured_as": model, "on": recorded}
        jobs.append(MeasuredJob(**given))
        kinds.append((1.0, recorded, tuple((t, 1.0) for t in choices.listed)))
    distinct = list(dict.fromkeys(kinds))
    speeds = speed_table(rows, count)
    told = {
        "types": {
            "of": np.array([distinct.index(kind) for kind in kinds], np.uint32),
            "kinds": [(speed, on, list(allowed)) for speed, on, allowed in distinct],
        },
        "speeds": {"model_of": np.array([job.measured_as for job in jobs], np.uint32), "table": speeds},
        "server_types": list(drawn.of),
        "type_prices": list(drawn.price),
        "type_order": drawn.order,
    }
    options = replace(case.options, oversize="drop", model="table")
    fields = {name: getattr(drawn, name) for name in ("of", "choices", "price", "order")}
    return Measured(replace(case, jobs=tuple(jobs), options=options), TableTypes(**fields), told)


def speed_table(rows: Sequence[Row], types: int, pairs: Sequence[Pair] = ()) -> "_core.SpeedTable":
    """The rows as the engine takes them."""
    told = [np.array([row[i] for row in rows], np.uint32) for i in range(4)]
    beside = [np.array([pair[i] for pair in pairs], np.uint32 if i < 3 else np.float64) for i in range(5)]
    return _core.SpeedTable((MODELS, types), tuple(told), np.array([row[4] for row in rows]), tuple(beside))


def _rows(rnd: random.Random, case: Case, model: int, gpu_type: int, last: int) -> list[Row]:
    """Rates on one to three numbers of servers, so that every job has one. The `last` type's are above 0."""
    most = max(job.num_gpus for job in case.jobs)
    scale = rnd.choice((1.0, 3.0, rnd.uniform(1.5, 60.0))) / case.options.slot
    never = gpu_type < last and rnd.random() < 0.05
    levels = sorted(rnd.sample(range(1, 6), rnd.randint(1, 3)))
    whole = rnd.choice(levels)
    rows = []
    for servers in levels:
        top = max(most, servers)
        sizes = set(rnd.sample(range(servers, top + 1), rnd.randint(1, min(4, top + 1 - servers))))
        if servers == whole:
            sizes |= {servers, top}
        rows += [
            (
                model,
                gpu_type,
                size,
                servers,
                0.0 if never else scale * rnd.choice((1.0, 2.0, rnd.uniform(0.5, 9.0))),
            )
            for size in sizes
        ]
    # Jobs smaller than the least of these sizes: one server always has them.
    if 1 not in {row[3] for row in rows} or whole != 1:
        have = {row[2] for row in rows if row[3] == 1}
        rows += [(model, gpu_type, size, 1, 0.0 if never else scale) for size in {1, most} - have]
    rnd.shuffle(rows)
    return rows


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_queues(placement: str) -> None:
    bases = [base for base in COMBINATIONS if base.placement == placement and base.model == "rar"]
    finished = 0
    for number in range(FEW):
        rnd = random.Random(f"tables {placement} {number}")
        drawn = measured(rnd, build_case(rnd, bases[number % len(bases)], vcs=rnd.random() < 0.1))
        finished += same_queue(drawn.case, queue_world(drawn.types), drawn.columns, drawn)
    assert finished > 0.8 * FEW


@pytest.mark.parametrize("policy", POLICIES)
def test_rankings(policy: str) -> None:
    bases = [base for base in PREEMPT_COMBINATIONS if base.model == "rar"]
    finished = 0
    for number in range(FEW):
        rnd = random.Random(f"tables {policy} {number}")
        problem = build(rnd, policy, bases[number % len(bases)])
        while problem.case.jobs[0].submit > 2.0**50:
            problem = build(rnd, policy, bases[number % len(bases)])
        drawn = measured(rnd, problem.case)
        problem = replace(problem, case=drawn.case)
        world = table_preempt_world(drawn.types)
        finished += same_ranking(problem, world, drawn.columns, (problem, drawn.columns))
    assert finished > 0.8 * FEW
