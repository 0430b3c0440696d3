"""What a decision takes, beside what it is taken for before a run: a table of docs/reliability.md.

CPU time of the calling thread, so that a busy machine does not change it. Jobs of one GPU that all come at
once, so many running and so many waiting; the difference between a run with many decisions and one with few.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

import page_tables
import ringbco
from ringbco.run.passes import COSTS, Load

MARK: Final = "pass costs"
PLACES: Final = ((8, 8), (8, 500), (64, 64), (64, 1000), (512, 512))
"""Jobs that run, and that wait."""
DECISIONS: Final = {"gavel": 100, "sia": 100, "gittins": 20_000}
FIELDS: Final[dict[str, dict[str, Any]]] = {"gavel": {"renew": 1e9, "shares": "max-min"}, "sia": {}}
OTHERS: Final = 1000
LENGTH: Final = 1e6


def _jobs(running: int, waiting: int) -> pl.DataFrame:
    """Times differ, so that no two jobs end together."""
    count, random = running + waiting, np.random.default_rng(1)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(count)],
            "submit_time": [0.0] * count,
            "num_gpus": [1] * count,
            "min_gpus": [1] * count,
            "max_gpus": [2] * count,
            "duration": LENGTH * (1.0 + 0.2 * random.random(count)),
            "deadline": [LENGTH * 1000.0] * count,
        }
    )


def _seconds(policy: str, jobs: pl.DataFrame, running: int, period: float) -> float:
    """CPU time of a run, s."""
    given: dict[str, Any] = {"interval": period}
    if policy == "time-slice":
        given = {"quantum": period}
    elif policy in FIELDS:
        given = {"parameters": FIELDS[policy] | {"round": period}}
    before = time.thread_time()
    ringbco.replay(
        jobs, f"{running // 8}x8", policy=policy, model="fixed", preempt_cost=0.0, allocations=False, **given
    )
    return time.thread_time() - before


def each(policy: str, running: int, waiting: int) -> tuple[float, float]:
    """Seconds of a decision, as measured and by the estimate."""
    jobs, more = _jobs(running, waiting), DECISIONS.get(policy, OTHERS)
    busy = float(jobs["duration"].sum()) / running
    few = max(10, more // 20)
    measured = (
        _seconds(policy, jobs, running, busy / (few + more)) - _seconds(policy, jobs, running, busy / few)
    ) / more
    load = Load(jobs.height, running, busy, running, waiting)
    period = busy / more
    return measured, COSTS[policy](load, period, FIELDS.get(policy, {})) / more


def rows() -> Iterator[str]:
    """The table."""
    yield "| policy | " + " | ".join(f"{running} run, {waiting} wait" for running, waiting in PLACES) + " |"
    yield "| --- |" + " --- |" * len(PLACES)
    for policy in COSTS:
        if policy in {"allox", "elasticflow"}:
            continue  # decisions at arrivals and completions make up nearly all of the time
        found = [each(policy, *place) for place in PLACES]
        cells = (f"{1e6 * measured:,.2g} ({1e6 * taken:,.2g})" for measured, taken in found)
        yield f"| `{policy}` | " + " | ".join(cells) + " |"


def main() -> None:
    """Puts the table into the page; prints it where none is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, nargs="?")
    page = parser.parse_args().page
    made = list[str]()
    for line in rows():
        print(line, flush=True)
        made.append(line)
    if page is not None:
        text = page.read_text(encoding="utf-8")
        made_now = page_tables.marked(text) | {MARK: "\n".join(made)}
        page.write_text(page_tables.filled(text, made_now), encoding="utf-8")


if __name__ == "__main__":
    main()
