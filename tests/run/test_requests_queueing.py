"""Services without batches are queues whose mean wait is known: M/D/c, after Erlang and Crommelin."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import poisson

import ringbco

SECONDS = 0.5
"""Each request takes so long."""
MANY = 500_000


def mean_wait(rate: float, servers: int) -> float:
    """That of M/D/c, s.

    Whoever is served now has left in a service time, and nobody who comes by then has. So the number n of
    requests that are there is next max(n - c, 0) and what a Poisson process brings; its distribution stays
    the same (Crommelin, "Delay probability formulae when the holding times are constant", 1932).
    """
    most = 600
    comes = poisson.pmf(np.arange(most), rate * SECONDS)
    there = np.zeros(most)
    there[0] = 1.0
    for _ in range(3_000):
        left = np.concatenate([[there[: servers + 1].sum()], there[servers + 1 :]])
        there = np.convolve(left, comes)[:most]
    waiting = np.maximum(np.arange(most) - servers, 0)
    return float((there * waiting).sum() / rate)


def test_one_server_is_pollaczek_and_khinchine() -> None:
    load = 0.8
    expected = load * SECONDS / (2 * (1 - load))
    assert mean_wait(load / SECONDS, 1) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("servers", [1, 2, 5])
@pytest.mark.parametrize("load", [0.5, 0.7])
def test_mean_waits_are_those_of_the_queue(servers: int, load: float) -> None:
    rate = load * servers / SECONDS
    gaps = np.random.default_rng(servers).exponential(1 / rate, MANY)
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    service = {"kind": "batch", "gpus": 1, "seconds": [[1, SECONDS]], "scale": "fixed", "replicas": servers}
    outcome = ringbco.replay(
        jobs,
        "8x1",
        policy="fifo",
        model="fixed",
        requests=pl.DataFrame({"arrival": np.cumsum(gaps)}),
        services={"queue": service},
    )
    (told,) = outcome.summary["services"]
    assert told["requests"] == MANY
    assert told["mean_latency"] - SECONDS == pytest.approx(mean_wait(rate, servers), rel=0.03)
