"""Random searches for a random case, and what the engine is told of them."""

import random
from typing import Any

import numpy as np

from oracle_searches import Search, curve
from ringbco.trace.searches import NO_SEARCH
from strategies import Case


def build_search(rnd: random.Random, case: Case) -> Search:
    """Most jobs are trials of one of up to three searches, each inside one virtual cluster."""
    eta, rungs = rnd.choice(((2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1), (4, 2), (5, 4)))
    alone, count = rnd.choice((0.0, 0.1, 0.4)), rnd.choice((1, 1, 2, 3))
    groups: list[int | None] = []
    for job in case.jobs:
        number = rnd.randrange(count) + 10 * (job.vc or 0)
        groups.append(None if rnd.random() < alone else number)
    if all(group is None for group in groups):
        groups[0] = 0
    seed = rnd.randrange(5)
    return Search(eta, rungs, tuple(groups), tuple(curve(seed, f"job {row}") for row in range(len(groups))))


def columns(search: Search) -> dict[str, Any]:
    """What the engine is told."""
    of = np.array([NO_SEARCH if group is None else group for group in search.groups], np.uint32)
    curves = [np.array(values) for values in zip(*search.curves, strict=True)]
    return {"search": f"asha:eta={search.eta},rungs={search.rungs}", "trials": (of, curves)}
