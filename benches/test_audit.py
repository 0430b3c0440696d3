"""How long the audit takes, beside the replay of the same jobs."""

from typing import Any

import pytest

import ringbco
from ringbco.audits import check_outcome
from ringbco.trace.jobs import JobTable

JOBS = 100_000


@pytest.fixture(scope="module")
def jobs() -> JobTable:
    return ringbco.generate("philly", JOBS, 1, gpus=2048, load=0.9)


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
@pytest.mark.parametrize("what", ["replay", "audit"])
def test_an_audit(benchmark: Any, jobs: JobTable, policy: str, what: str) -> None:
    outcome = ringbco.replay(jobs, "256x8", policy=policy)
    outcome.summary  # noqa: B018 - worked out when it is first asked for
    if what == "replay":
        benchmark.pedantic(ringbco.replay, (jobs, "256x8"), {"policy": policy}, rounds=3)
    else:
        report = benchmark.pedantic(check_outcome, (outcome, jobs), rounds=3)
        assert report.findings == []
