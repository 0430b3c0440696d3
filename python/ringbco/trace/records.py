"""Whether iterations and the time of each add up to the run times that were recorded (docs/profiles.md)."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from ringbco.cluster.fabric import at_best
from ringbco.cluster.spec import RECORDED, Cluster
from ringbco.errors import InputError
from ringbco.trace.jobs import JobTable
from ringbco.trace.profiles import LEAST_SECONDS, Profiled, fewest_recorded, iteration_time, resolve

NEAR: Final = (0.9, 1.1)
"""Within these the median of F x tau / duration needs no word."""


def apart(table: JobTable, recorded: Cluster, profiled: Profiled | None = None) -> list[str]:
    """A line where jobs whose work the table gives run otherwise than recorded, on the recorded cluster.

    profiled: what models say of the jobs under `rar`; None to work it out, for the seed 0, if there is need.
    """
    frame = table.frame
    if "iterations" not in frame.columns or not frame["iterations"].count():
        return []
    if profiled is None:
        try:
            profiled = resolve(table, RECORDED.with_recorded(recorded), model="rar", seed=0)
        except InputError:  # a replay says which job is at fault
            return []
    ring = frame["num_gpus"].to_numpy(), profiled.gradient_bytes, profiled.compute_time
    few = fewest_recorded(table, recorded)
    tau = iteration_time(*ring, few, recorded.network, at_best(recorded, ring[0], few))
    # Of jobs that no replay by duration takes the quotient may have no end.
    ratio = profiled.iterations * tau / np.maximum(frame["duration"].to_numpy(), LEAST_SECONDS)
    given = frame["iterations"].is_not_null().to_numpy()
    measured = np.zeros(given.size, np.bool_)
    for name in {"fp_time", "bp_time"} & set(frame.columns):
        measured |= frame[name].is_not_null().to_numpy()
    short = given & ~measured & (profiled.compute_time == 0.0)
    said = f"{table.source}: column iterations:"
    return [
        *_line(
            ratio[given & measured],
            f"{said} iterations x (fp_time x batch_size + bp_time + communication) are",
            "leave out fp_time and bp_time and the recorded durations count",
        ),
        *_line(
            ratio[short],
            f"{said} the communication of so many iterations alone takes",
            "leave out iterations and the recorded durations count",
        ),
    ]


def _line(ratio: NDArray[np.float64], what: str, way: str) -> list[str]:
    if not ratio.size:
        return []
    low, median, high = np.quantile(ratio, (0.05, 0.5, 0.95))
    if NEAR[0] <= median <= NEAR[1]:
        return []
    jobs = f"{ratio.size:,} job{'s'[: ratio.size > 1]}"
    return [
        f"{what} {median:.3g} times the recorded duration (median of {jobs}; p5 {low:.3g}, p95 {high:.3g});"
        f" {way}, or replay with --model fixed"
    ]
