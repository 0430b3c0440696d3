"""The engine's results against an oracle's, on one random case.

Slot clock: equal bit for bit. Continuous clock: the same places, and times equal but for a rounding.
"""

from typing import Any

import numpy as np

from agreement import answer, refused_alike, same, stays_of
from core_run import run_core
from oracle import simulate
from oracle.model import RowError
from strategies import Case
from test_preempt_equality import PreemptCase, replay


def same_queue(case: Case, world: Any, columns: dict[str, Any], said: object) -> bool:
    """Compares a run without preemption; whether the case ran to its end. `said` tells a failure's case.

    world: the oracle's, as `simulate` takes it. columns: what the engine is told of the same.
    """
    truth = answer(lambda: simulate(case.jobs, case.servers, case.net, case.options, case.server_vc, world))
    if isinstance(truth, RowError):
        told = refused_alike(lambda: run_core(case, **columns), truth, said)
        # Of several virtual clusters the oracle names the lowest row of the first.
        assert case.server_vc is not None or told.row == truth.row, said
        return False
    run = run_core(case, **columns)
    assert list(run.kept) == truth.kept, said
    assert list(run.max_contention) == truth.max_contention, said
    allocations: list[dict[int, int]] = [{} for _ in case.jobs]
    for row, server, gpus in zip(run.alloc_job, run.alloc_server, run.alloc_gpus, strict=True):
        allocations[row][int(server)] = int(gpus)
    assert allocations == truth.allocations, said
    for mine, theirs in ((run.start, truth.start), (run.finish, truth.finish)):
        same(mine, theirs, said, exact=case.options.clock == "slot", atol=0.0)
    return True


def same_ranking(problem: PreemptCase, world: Any, columns: dict[str, Any], said: object) -> bool:
    """The same of a run under a ranking that preempts."""
    case = problem.case
    truth = answer(lambda: problem.truth(world))
    if isinstance(truth, RowError):
        refused_alike(lambda: replay(problem, **columns), truth, said)
        return False
    run = replay(problem, **columns)
    assert run.held is not None
    assert list(run.kept) == truth.kept, said
    assert list(run.preemptions) == truth.preemptions, said
    rows = zip(run.alloc_job, run.alloc_start, run.alloc_server, run.alloc_gpus, run.alloc_end, strict=True)
    mine = np.array([tuple(map(float, row)) for row in rows]).reshape(-1, 5)
    pairs = [
        (run.start, truth.start),
        (run.finish, truth.finish),
        (mine, stays_of(truth.allocations)),
        (np.where(run.kept, run.wait_gpus, 0.0), np.where(run.kept, truth.wait_gpus, 0.0)),
    ]
    for own, true in pairs[:3] if case.options.clock == "slot" else []:
        assert np.array_equal(own, np.array(true), equal_nan=True), said
    for own, true in pairs:
        assert own.shape == np.shape(true), said
        assert np.allclose(own, true, rtol=1e-6, atol=1e-6, equal_nan=True), said
    return True
