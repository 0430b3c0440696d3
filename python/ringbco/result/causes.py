"""Why a job took as long as it did: its wait and its run split into parts. Seconds, float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from ringbco.trace import profiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ringbco import _core
    from ringbco.cluster.network import Network

# Columns of jobs.parquet. They are single precision: they explain, and nothing is computed from them.
CAUSES_SCHEMA: Final[dict[str, pl.DataType]] = {
    "wait_behind": pl.Float32(),
    "wait_gpus": pl.Float32(),
    "wait_fragmented": pl.Float32(),
    "run_spread": pl.Float32(),
    "run_contention": pl.Float32(),
}
# Rows worked out at once: temporaries for all of them would be the peak of a large run.
_BLOCK: Final = 1 << 16


def split(
    submit: NDArray[np.float64],
    num_gpus: NDArray[np.uint32],
    workload: profiles.Workload,
    network: Network,
    result: _core.RunResult,
    *,
    model: str,
    shares: NDArray[np.uint32] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """The columns of `CAUSES_SCHEMA`, one value a job of the table (NaN where it was dropped).

    A wait has three parts, which add up to it: to all the time between submission and finish in which the job
    held no GPUs, before its first start and after each preemption, but for its pauses at rungs.
    wait_gpus: fewer GPUs were idle than the job asks for. wait_fragmented: enough were idle, but the job's
    placement could not use them. wait_behind:
    the job could have been placed, but it was not its turn (the head of a strict queue, the reservation of
    EASY, the wait for a slot's boundary).

    A run has two parts beyond the ideal run time. run_spread: what more servers than the fewest cost
    without contention (eq. 8 with k = 1). run_contention: what sharing links cost on top (k > 1), and what
    other shares of its GPU cost a job. The slot
    clock's rounding counts as run_contention if k ever exceeded 1, else as run_spread. Where jobs are
    elastic a third part is run_resized: what the work took longer on another number of GPUs than the job
    asks for. Where GPUs differ another one is run_on_type: what it took longer on other types than it was
    recorded on, less than 0 on faster ones. Ideal run time and these parts always add up to the time on
    GPUs with progress that was kept. That is the run time or, where jobs are preempted, held_time -
    lost_time - lost_work. What more servers cost a preempted job, the engine adds up stay by stay.
    """
    wait_gpus, wait_fragmented = result.wait_gpus, result.wait_fragmented
    wait = result.start - submit
    if result.held is not None:
        wait = np.where(_interrupted(result), (result.finish - submit) - result.held, wait)
        if result.rested is not None:
            wait = wait - result.rested
    columns = {
        # These are sums of many stretches. If they explain a whole wait, what is left of it is rounding.
        "wait_behind": _rounded(wait - wait_gpus - wait_fragmented, wait),
        "wait_gpus": wait_gpus,
        "wait_fragmented": wait_fragmented,
    }
    spread, contention = np.full((2, submit.size), np.nan, np.float32)
    for first in range(0, submit.size, _BLOCK):
        rows = slice(first, first + _BLOCK)
        with np.errstate(over="ignore", invalid="ignore"):  # constants beyond all measure
            spread[rows], contention[rows] = _longer(
                num_gpus, workload, network, result, rows, fixed=model != "rar"
            )
            if shares is not None:
                # On one GPU: nothing but the others on it takes longer, but for the slot clock's rounding.
                own = shares[rows] > 0
                contention[rows] += np.where(own, spread[rows], 0.0)
                spread[rows] = np.where(own, 0.0, spread[rows])
    spread[~result.kept] = contention[~result.kept] = np.nan
    return columns | {"run_spread": spread, "run_contention": contention}


def _longer(
    num_gpus: NDArray[np.uint32],
    workload: profiles.Workload,
    network: Network,
    result: _core.RunResult,
    rows: slice,
    *,
    fixed: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """run_spread and run_contention of some rows; `fixed`: contention is counted but slows nobody down."""
    start, finish = result.start[rows], result.finish[rows]
    # Time on GPUs with progress; all of the run where nobody is preempted.
    running = finish - start
    if result.held is not None and result.lost is not None:
        running = result.held[rows] - result.lost[rows]
    if result.lost_work is not None:
        running = running - result.lost_work[rows]
    # What other GPUs than those asked for, or of other types than recorded, cost is told apart.
    for apart in (result.longer, result.on_types):
        if apart is not None:
            running = running - apart[rows]
    longer = running - workload.ideal_run_time[rows]
    # A run is a difference of instants, which late in a long trace are coarser than a short run's 1e-9.
    noise = np.maximum(1e-9 * running, 4 * np.spacing(finish))
    if fixed:
        return _without(noise, longer), np.zeros_like(longer)
    tau = profiles.iteration_time(
        num_gpus[rows],
        workload.gradient_bytes[rows],
        workload.compute_time[rows],
        result.num_servers[rows],
        network,
    )
    spread = workload.iterations[rows] * (tau - workload.tau0[rows])
    contended = network.xi1 * result.max_contention[rows] > 1
    if result.spread is not None:
        stay_by_stay = _interrupted(result)[rows]
        if result.longer is not None:
            stay_by_stay |= result.longer[rows] != 0
        spread = np.where(stay_by_stay, result.spread[rows], spread)
    spread = np.where(contended, spread, longer)
    return _without(noise, spread), _without(noise, longer - spread)


def _interrupted(result: _core.RunResult) -> NDArray[np.bool_]:
    """Whether a stay of a job ended before the job did."""
    stopped: NDArray[np.bool_] = result.preemptions > 0
    for counts in (result.failures, result.evictions, result.pauses):
        if counts is not None:
            stopped = stopped | (counts > 0)
    return stopped


def _without(noise: NDArray[np.float64], part: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(part) <= noise, 0.0, part)


def _rounded(rest: NDArray[Any], whole: NDArray[np.float64]) -> NDArray[np.float32]:
    small: NDArray[np.float32] = np.where(np.abs(rest) <= 1e-6 * whole, 0.0, rest).astype(np.float32)
    return small
