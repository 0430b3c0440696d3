"""How long lower bounds take: as many jobs as Philly's largest virtual cluster has, on half its servers."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.run.bound import bound
from ringbco.trace.synthetic import generate

JOBS = 51_258
LONGEST = 60.0
"""What a tight bound of them may take, s."""


@pytest.mark.parametrize("tight", [False, True])
def test_bound(benchmark: BenchmarkFixture, tight: bool) -> None:
    table = generate("philly", JOBS, 1)
    options = {"tight": tight, "oversize": "drop"}
    found = benchmark.pedantic(bound, (table, "32x8"), options, rounds=3 - 2 * tight)
    assert found.mean_delay >= 0.0
    if benchmark.stats is not None:
        assert benchmark.stats.stats.max <= LONGEST
