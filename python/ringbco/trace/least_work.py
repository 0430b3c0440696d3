"""The least work of a job, whatever schedule runs it (docs/bound.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ringbco.cluster.fabric import at_best
from ringbco.trace.jobs import JobTable, gpus_of
from ringbco.trace.noise import efficiency
from ringbco.trace.profiles import Floats, Profiled, fewest_of, iteration_time, vc_index

if TYPE_CHECKING:
    from ringbco.cluster.spec import Cluster


def least_work(table: JobTable, cluster: Cluster, profiled: Profiled, *, model: str) -> Floats:
    """GPU-seconds that no run of each job falls below, wherever it runs and whatever GPUs it may hold.

    A ring of fewer members is no slower, its samples count for more, and beyond the fewest servers only the
    second can make one faster (docs/bound.md#run-times-and-work).
    """
    least = gpus_of(table.frame, "min_gpus")
    asked = table.frame["num_gpus"].to_numpy() / efficiency(table.frame, least)
    if model == "fixed":
        return asked * profiled.ideal_run_time
    vc = vc_index(table, cluster)
    few = fewest_of(least, vc, cluster)
    network, ring = cluster.network, (least, profiled.gradient_bytes, profiled.compute_time)
    best = at_best(cluster, least, few, vc)
    if best is not None:
        # With links of their own more GPUs have more of them, and never more than inside a server.
        most = gpus_of(table.frame, "max_gpus")
        best = np.where(least < most, network.intra_bandwidth, best)
        return asked * (profiled.iterations * iteration_time(*ring, few, network, best))
    one, two = (iteration_time(*ring, servers, network) for servers in (few, np.maximum(few, 2)))
    return asked * (profiled.iterations * np.minimum(one, two))
