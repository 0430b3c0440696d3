"""Why a job took as long as it did: its wait and its run split into parts. Seconds, float32."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ringbco.trace import profiles

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from ringbco.cluster.network import Network

WAITS: Final = {
    "wait_behind": "waiting its turn",
    "wait_gpus": "waiting for GPUs",
    "wait_fragmented": "waiting, fragmented",
}
"""Columns of jobs.parquet that add up to a wait, and what each cause is called everywhere."""
# Rows worked out at once, in the cache: temporaries for all of them would be the peak of a large run.
_BLOCK: Final = 1 << 16


def parts(
    submit: NDArray[np.float64],
    num_gpus: NDArray[np.uint32],
    profiled: profiles.Profiled,
    network: Network,
    jobs: Mapping[str, NDArray[Any]],
    *,
    model: str,
    sharing: str = "count",
    shares: NDArray[np.uint32] | None = None,
) -> dict[str, NDArray[np.float32]]:
    """The columns of `CAUSES_SCHEMA`, one value a job of the table (NaN where it was dropped).

    jobs: the engine's table of that name.

    A wait has three parts, which add up to it: to all the time between submission and finish in which the job
    held no GPUs, before its first start and after each stay, but for its pauses at rungs.
    wait_gpus: fewer GPUs were idle than the job asks for. wait_fragmented: enough were idle, but the job's
    placement could not use them. wait_behind:
    the job could have been placed, but it was not its turn (the head of a strict queue, the reservation of
    EASY, the wait for a slot's boundary). Where stays end early each is the sum over the job's stays.

    A run has two parts beyond the ideal run time. run_spread: what more servers than the fewest cost
    without contention (eq. 8 with k = 1). run_contention: what sharing links cost on top (k > 1), and what
    other shares of its GPU cost a job. The slot
    clock's rounding counts as run_contention if k ever exceeded 1, else as run_spread. Where jobs are
    elastic a third part is run_resized: what the work took longer on another number of GPUs than the job
    asks for. Where GPUs differ another one is run_on_type: what it took longer on other types than it was
    recorded on, less than 0 on faster ones. Where limits end jobs one is run_cut, 0 or less: what the work
    left undone would have taken at best. Ideal run time and these parts always add up to the time on
    GPUs with progress that was kept. That is the run time or, where stays end early, held_time -
    lost_time - lost_work. What more servers cost a job of several stays is the sum over these.
    """
    wait_gpus, wait_fragmented = jobs["wait_gpus"], jobs["wait_fragmented"]
    if "wait_behind" in jobs:
        wait_behind = jobs["wait_behind"].astype(np.float32)
        wait_behind[~jobs["kept"]] = np.nan
    else:
        wait_behind = np.empty(submit.size, np.float32)
        for rows in _blocks(submit.size):
            wait = jobs["start"][rows] - submit[rows]
            # These are sums of many stays. If they explain a whole wait, what is left of it is rounding.
            wait_behind[rows] = _rounded(wait - wait_gpus[rows] - wait_fragmented[rows], wait)
    columns = {"wait_behind": wait_behind, "wait_gpus": wait_gpus, "wait_fragmented": wait_fragmented}
    spread, contention = np.full((2, submit.size), np.nan, np.float32)
    for rows in _blocks(submit.size):
        with np.errstate(over="ignore", invalid="ignore"):  # constants beyond all measure
            spread[rows], contention[rows] = _run(
                num_gpus, profiled, network, jobs, rows, fixed=model != "rar", shared=sharing == "count"
            )
            if shares is not None:
                # On one GPU: nothing but the others on it takes longer, but for the slot clock's rounding.
                own = shares[rows] > 0
                contention[rows] += np.where(own, spread[rows], 0.0)
                spread[rows] = np.where(own, 0.0, spread[rows])
    spread[~jobs["kept"]] = contention[~jobs["kept"]] = np.nan
    return columns | {"run_spread": spread, "run_contention": contention}


def _blocks(size: int) -> Iterator[slice]:
    return (slice(first, first + _BLOCK) for first in range(0, size, _BLOCK))


def _run(
    num_gpus: NDArray[np.uint32],
    profiled: profiles.Profiled,
    network: Network,
    jobs: Mapping[str, NDArray[Any]],
    rows: slice,
    *,
    fixed: bool,
    shared: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """run_spread and run_contention of some rows; `fixed`: contention is counted but slows no job down.

    shared: whether those that share links slow each other down.
    """
    finish = jobs["finish"][rows]
    # Time on GPUs with progress; all of the run where no stay ends early.
    running = jobs["held"][rows] - jobs["lost"][rows] if "held" in jobs else finish - jobs["start"][rows]
    # What was lost, what other GPUs and types than asked for and recorded on cost, and what was not done.
    for apart in ("lost_work", "longer", "on_types", "cut"):
        if apart in jobs:
            running = running - jobs[apart][rows]
    longer = running - profiled.ideal_run_time[rows]
    # A run is a difference of instants, which late in a long trace are coarser than a short run's 1e-9.
    noise = np.maximum(1e-9 * running, 4 * np.spacing(finish))
    if fixed:
        if "seated" not in jobs:
            return _without(noise, longer), np.zeros_like(longer)
        # Who held the same GPUs as another took longer for it.
        spread = np.where(jobs["seated"][rows], jobs["spread"][rows], longer)
        return _without(noise, spread), _without(noise, longer - spread)
    # In a network of tiers, the link of the job itself.
    own = jobs.get("own_bandwidth")
    across = None if own is None else np.where(own[rows] > 0, own[rows], network.inter_bandwidth)
    tau = profiles.iteration_time(
        num_gpus[rows],
        profiled.gradient_bytes[rows],
        profiled.compute_time[rows],
        jobs["num_servers"][rows],
        network,
        across,
    )
    spread = profiled.iterations[rows] * (tau - profiled.tau0[rows])
    contended = shared & (network.xi1 * jobs["max_contention"][rows] > 1)
    if "slowed" in jobs:
        contended = jobs["slowed"][rows]
    if "seated" in jobs:
        contended = contended | jobs["seated"][rows]
    if "spread" in jobs:
        by_stays = jobs["stays"][rows] > 1
        if "longer" in jobs:
            by_stays |= jobs["longer"][rows] != 0
        if "reached_limit" in jobs:
            by_stays |= jobs["reached_limit"][rows]
        spread = np.where(by_stays, jobs["spread"][rows], spread)
    spread = np.where(contended, spread, longer)
    return _without(noise, spread), _without(noise, longer - spread)


def _without(noise: NDArray[np.float64], part: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.where(np.abs(part) <= noise, 0.0, part)


def _rounded(rest: NDArray[Any], whole: NDArray[np.float64]) -> NDArray[np.float32]:
    small: NDArray[np.float32] = np.where(np.abs(rest) <= 1e-6 * whole, 0.0, rest).astype(np.float32)
    return small
