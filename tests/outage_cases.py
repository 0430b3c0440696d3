"""Random outages and checkpoint intervals for a random case, and what the engine is told of them."""

import math
import random
from typing import Any

import numpy as np

from oracle_outages import Failures, Outage
from strategies import Case


def build_failures(rnd: random.Random, case: Case, instants: tuple[float, ...] = ()) -> Failures:
    """Up to eight outages a server: some overlap, touch, are inside one slot, have no end.

    instants: some go down or come back at these times, say at the completions without outages.
    """
    slot = case.options.slot
    first = min(job.submit for job in case.jobs)
    times = [job.submit for job in case.jobs] + [time for time in instants if math.isfinite(time)]
    span = 4.0 * slot + 1.5 * (max(times) - first)
    whole = rnd.random() < 0.6

    def time() -> float:
        if rnd.random() < 0.3:
            return rnd.choice(times)
        at = first + rnd.uniform(0.0, span)
        return float(math.floor(at)) if whole else at

    def length() -> float:
        size = slot * rnd.choice((0.125, 0.25, 1.0, 2.0, 5.0, rnd.uniform(0.01, 6.0)))
        return max(1.0, float(math.ceil(size))) if whole else size

    outages: list[Outage] = []
    mean = rnd.choice((0.5, 2.0, 4.0))
    for server in range(len(case.servers)):
        for _ in range(min(8, int(rnd.expovariate(1.0 / mean)))):
            down = time()
            own = [outage for outage in outages if outage[0] == server]
            if own and rnd.random() < 0.15:
                down = rnd.choice(own)[2]  # they touch
            if outages and rnd.random() < 0.15:
                down = rnd.choice(outages)[1]  # several servers at once
            later = [t for t in times if t > down]
            up = rnd.choice(later) if later and rnd.random() < 0.1 else down + length()
            if math.isinf(down) or down >= up:
                continue
            outages.append((server, down, up))
        if rnd.random() < 0.01:
            outages.append((server, time(), math.inf))
    rnd.shuffle(outages)

    def interval() -> float:
        some = (
            0.0,
            slot,
            2.0 * slot,
            5.0 * slot,
            slot / 4.0,
            1.5 * slot,
            rnd.uniform(0.1, 4.0) * slot,
            math.inf,
        )
        return rnd.choice((*some, slot / 1024.0))

    one = interval()
    if rnd.random() < 0.5:
        return Failures(tuple(outages), (one,) * len(case.jobs))
    return Failures(tuple(outages), tuple(rnd.choice((one, interval())) for _ in case.jobs))


def merged(outages: tuple[Outage, ...]) -> list[Outage]:
    """By server and time, those of one server that overlap or touch as one."""
    found: list[Outage] = []
    for server, down, up in sorted(outages):
        if found and found[-1][0] == server and down <= found[-1][2]:
            found[-1] = (server, found[-1][1], max(up, found[-1][2]))
        else:
            found.append((server, down, up))
    return found


def columns(facts: Failures) -> dict[str, Any]:
    """What the engine is told: the option is the first row's interval, other rows have their own."""
    server, down, up = zip(*merged(facts.outages), strict=True) if facts.outages else ((), (), ())
    common = facts.intervals[0]
    own = np.array([math.nan if every == common else every for every in facts.intervals])
    return {
        "outages": (np.array(server, np.uint32), np.array(down, np.float64), np.array(up, np.float64)),
        "checkpoint_interval": common,
        "checkpoint_intervals": None if np.isnan(own).all() else own,
    }
