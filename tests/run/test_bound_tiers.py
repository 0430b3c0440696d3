"""bound in a network of tiers: never above what a run reaches (docs/tiers.md)."""

from __future__ import annotations

import polars as pl
import pytest

import ringbco
from ringbco import Cluster, Network
from ringbco.cluster.groups import ServerGroup


class Most(ringbco.Policy):
    """All the GPUs that a job may hold."""

    def decide(self, state: ringbco.State) -> None:
        for row in state.waiting.tolist():
            state.start(row, gpus=int(state.jobs.max_gpus[row]))


@pytest.mark.parametrize(("least", "asked"), [(3, 3), (2, 3), (4, 4)])
def test_more_gpus_may_have_more_flows(least: int, asked: int) -> None:
    """On 2 servers of 2, with a link for each GPU: 3 GPUs have 1 flow, 4 have 2."""
    network = Network(inter_bandwidth=1e9, reduce_speed=1e300, xi2=0.0)
    cluster = Cluster.from_groups([ServerGroup(2, 2)], network, nics="gpu")
    ring = {"gradient_bytes": 1e9, "batch_size": 1, "fp_time": 0.5, "bp_time": 0.5, "iterations": 100}
    row = {"job_id": "j", "submit_time": 0.0, "num_gpus": asked, "duration": 200.0, "min_gpus": least}
    jobs = pl.DataFrame([{**row, "max_gpus": 4, **ring}])
    reached = ringbco.replay(jobs, cluster, policy=Most, placement="first-fit").summary["mean_jct"]
    bound = ringbco.bound(jobs, cluster)
    assert 0 < bound.mean_jct <= reached * (1 + 1e-12)
