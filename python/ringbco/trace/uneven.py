"""Elastic jobs for which one more GPU gains little and the next ones gain much: speeds that are not concave.

Policies that give GPUs out one at a time do not see beyond the next one; what counts as a dip is in
docs/elastic-policies.md#where-gains-dip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringbco import _core
from ringbco.errors import show_value
from ringbco.io.bridge import open_arrays
from ringbco.trace.jobs import gpu_range

if TYPE_CHECKING:
    from ringbco.trace.workload import Workload


def uneven(workload: Workload, servers: _core._Cluster, options: dict[str, Any]) -> list[str]:
    """A line where the gain of one more GPU falls and rises again for some job, within its range of GPUs.

    servers, options: what the engine is given. A table that it refuses has no line: the run says why.
    """
    frame = workload.table.frame
    numbers = gpu_range(frame)
    if numbers is None:
        return []
    open_arrays()
    try:
        rows, types, falls, rises = _core.dips(workload.columns, servers, options)
    except _core.CoreError:
        return []
    if not rows.size:
        return []
    row, elastic = int(rows[0]), int((numbers[0] < numbers[1]).sum())
    job = f"job {show_value(frame['job_id'][row])}"
    if "model" in frame.columns and frame["model"][row] is not None:
        job += f" of model {show_value(frame['model'][row])}"
    if int(types[0]) < len(workload.cluster.types):  # a cluster of one type may not name it
        job += f" on {workload.cluster.types[types[0]]}"
    gain = f"the gain of one more falls at {falls[0]:,} and rises again at {rises[0]:,}"
    return [
        f"{workload.table.source}: speeds of {rows.size:,} of {elastic:,} elastic jobs are not concave in"
        f" GPUs ({gain} for {job}); the policy looks one GPU ahead, and may leave such jobs with too few"
        " (docs/elastic-policies.md)"
    ]
