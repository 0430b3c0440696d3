"""The table of docs/repack.md that tells what predictions in a column are worth, and known run times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from page_tables import TableInputs, head, line
from page_traces import CLUSTERS, ORACLE, VENUS, VENUS_SERVERS, WORST, Case, peak, run
from page_wide import ends
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import JobTable, from_frame
from ringbco.trace.predictions import predicted

DRAWS: Final = 2
SIGMAS: Final = (1.0, 2.0)
"""Standard deviations of the logarithm of a prediction's error."""
NAME: Final = "told"
"""The column of predictions."""


def cases() -> Iterator[Case]:
    """Philly's clusters at half of their servers, where there are several, and Venus."""
    yield from (
        Case(trace, f"{groups[0].count // 2}")
        for trace, groups in CLUSTERS.items()
        if trace != VENUS and groups[0].count > 1
    )
    yield from (Case(VENUS, servers) for servers in VENUS_SERVERS)


def by_column(case: Case, jobs: JobTable, column: np.ndarray) -> Outcome:
    """repack with these predictions."""
    table = from_frame(jobs.frame.with_columns(**{NAME: column}))
    return run(case, table, 0, policy="repack", predict=f"column:{NAME}")


def predictions(given: TableInputs) -> Iterator[str]:
    """Each case: the mean JCT with predictions over that with those of history, and with known run times."""
    draws = range(given.draws(DRAWS))
    yield f"Predictions are drawn {len(draws)} times.\n"
    names = (*(f"sigma {sigma:g} / history" for sigma in SIGMAS), "sigma 1 in another order / history")
    names += ("exact / history", "exact / srtf", "exact, worst slowdown", "promised")
    yield from head("trace, servers", "history, mean JCT, s", *names)
    for case in given.some(cases(), slice(1, 2)):
        jobs = case.jobs(given)
        durations = jobs.frame["duration"].to_numpy()
        columns = {sigma: [predicted(durations, sigma, draw) for draw in draws] for sigma in SIGMAS}
        orders = [np.random.default_rng(draw).permutation(durations.size) for draw in draws]
        other = [column[order] for column, order in zip(columns[1.0], orders, strict=True)]
        history = run(case, jobs, 0, policy="repack").summary["mean_jct"]
        told = [[by_column(case, jobs, each) for each in each_of] for each_of in (*columns.values(), other)]
        exact = run(case, jobs, 0, **ORACLE)
        mean = exact.summary["mean_jct"]
        yield line(
            f"{case.trace}, {case.servers}",
            f"{history:,.0f}",
            *(ends([each.summary["mean_jct"] / history for each in own], "{:.3f}") for own in told),
            f"{mean / history:.3f}",
            f"{mean / run(case, jobs, 0, policy='srtf').summary['mean_jct']:.4f}",
            f"{exact.summary[WORST]:.1f}",
            f"{max(50.0, 7.0 * peak(exact, case.cluster)):.0f}",
        )
