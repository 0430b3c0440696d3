"""Policies in rounds: what gavel keeps of trials that pause at a rung; rounds that get nobody anywhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from frames import cluster_of, typed_servers
from ringbco.errors import InputError

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

from ringbco.policies.finish_time import Alone

ONE = typed_servers((1, 1, "V100"))


@pytest.mark.parametrize(
    ("parameters", "back"),
    [
        # c had nothing by 200, and a 100 s: c runs. At 350 c had 150 s.
        ({"renew": 1e9}, 350.0),
        # a had its round, and c none. New shares are 0.4665 of the time for a (200 s since its submission,
        # 100 left, 100 + 100 alone) and 0.5335 for c (200, 1,000, 1,000). At 350 both had one, at 500 c two.
        ({"renew": 0.0, "shares": "finish-time"}, 500.0),
    ],
)
def test_a_trial_that_is_back_from_its_rung_has_had_what_it_had(
    parameters: dict[str, Any], back: float
) -> None:
    """a and b have a rung at 100 s. a pauses there until b comes to it at 200 s, with a greater loss."""
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0] * 3,
            "num_gpus": [1] * 3,
            "duration": [200.0, 200.0, 1000.0],
            "group": ["s", "s", None],
        }
    )
    given: dict[str, Any] = {"model": "fixed", "preempt_cost": 0.0, "search": "asha:eta=2,rungs=1", "seed": 2}
    outcome = ringbco.replay(jobs, "1x1", policy="gavel", parameters={"round": 150.0, **parameters}, **given)
    assert ringbco.audit(outcome, jobs) == []
    assert outcome.allocations is not None
    stays = outcome.allocations.select("job_id", "start_time", "end_time").rows()
    assert sorted(stays, key=lambda stay: stay[1]) == [
        ("a", 0.0, 100.0),
        ("b", 100.0, 200.0),
        ("c", 200.0, back),
        ("a", back, back + 100.0),
        ("c", back + 100.0, 1300.0),
    ]


def test_isolated_jobs_keep_the_progress_before_a_look_without_them() -> None:
    """At 4 a second a makes 40 of 100 before it pauses. It asks for two GPUs, and its share is one."""
    alone, gpus, wanted = Alone(), np.array([2]), np.array([2, 1])
    rates = np.array([[4.0], [1.0]])
    alone.look(rates, wanted, gpus, {0: 100.0, 1: 50.0}, np.zeros(2))
    alone.look(rates[1:], wanted[1:], gpus, {1: 40.0}, np.full(1, 10.0))
    result = alone.look(rates, wanted, gpus, {0: 60.0, 1: 30.0}, np.full(2, 20.0))
    assert result.left.tolist() == [15.0, 30.0]
    assert result.alone.tolist() == [10.0 / 0.5 + 15.0 / 0.5, 20.0 + 30.0]


def stalled(policy: str, *more: tuple[str, float, float], **options: Any) -> dict[str, float]:
    """When jobs are done of which a and b, beside each other on one GPU, have no iteration in a slot.

    more: (name, submission, GPUs) of others, of 10 iterations.
    """
    rows = [("a", 0.0, 0.1), ("b", 0.0, 0.6), *more]
    jobs = pl.DataFrame(rows, ["job_id", "submit_time", "gpu_share"], orient="row").with_columns(
        num_gpus=pl.lit(1),
        iterations=pl.lit(10),
        duration=pl.lit(10.0),
        model=pl.lit("m"),
        **options.pop("jobs", {}),
    )
    speeds = pl.DataFrame({"model": ["m"], "gpu_type": ["V100"], "gpus": [1], "servers": [1], "rate": [1.0]})
    given: dict[str, Any] = {"model": "table", "tables": speeds, "clock": "slot", "slot": 1.0}
    if policy in ("gavel", "sia"):
        given["parameters"] = {"round": 1.0}
    outcome = ringbco.replay(
        jobs, cluster_of(ONE), policy=policy, **{"interference": 0.5, "preempt_cost": 0.0, **given, **options}
    )
    assert ringbco.audit(outcome, jobs) == []
    return dict(outcome.jobs.select("job_id", "finish_time").rows())


LONG_GAVEL = pytest.param("gavel", marks=pytest.mark.long)


@pytest.mark.parametrize("cost", [0.0, 30.0])
@pytest.mark.parametrize("policy", [LONG_GAVEL, "sia", "allox"])
def test_jobs_that_stall_each_other_are_named_with_the_cause(policy: str, cost: float) -> None:
    """Rounds are shorter than the pause, and are not the cause: nobody changes GPUs."""
    message = (
        r"row 1: .* job 'a': makes no progress under contention after \d+ s \(no iteration fits in a slot\)"
    )
    with pytest.raises(InputError, match=message) as raised:
        stalled(policy, preempt_cost=cost)
    assert "round" not in str(raised.value)
    assert str(raised.value).endswith("give a longer --slot, or use --clock continuous")


@pytest.mark.parametrize("policy", ["fifo", "tiresias", LONG_GAVEL, "sia"])
def test_jobs_that_stall_each_other_end_at_their_limits(policy: str) -> None:
    limits = {"time_limit": pl.Series([12_000.0, None])}
    ends = stalled(policy, jobs=limits, enforce_limits=True)
    assert ends == {"a": 12_000.0, "b": 12_010.0}


@pytest.mark.parametrize("policy", ["fifo", LONG_GAVEL, "sia"])
def test_rounds_go_on_to_what_comes_from_outside(policy: str) -> None:
    """a and b stall each other until an outage is over. Then b has no server."""
    outage = pl.DataFrame({"server": [0], "down_at": [12_000.0], "up_at": [12_010.0]})
    with pytest.raises(InputError, match=r"row 1: .* job 'a': makes no progress .* after (12|22)\d\d\d s"):
        stalled(policy, outages=outage)


class Waits(ringbco.Policy):
    """Looks every second, and starts one job alone at 20,000 s."""

    def decide(self, state: Any) -> None:
        if state.now >= 20_000.0 and not state.running.size:
            state.start(state.waiting[:1])
        state.wake(state.now + 1.0)


def test_decisions_are_in_vain_only_where_nothing_comes() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 20_000.0], "num_gpus": [1, 1], "duration": [10.0, 10.0]}
    )
    outcome = ringbco.replay(jobs, "1x1", policy=Waits(), model="fixed")
    assert outcome.jobs["finish_time"].to_list() == [20_010.0, 20_020.0]
    with pytest.raises(InputError, match="job 'a': still waits at 10000 s, and nothing can change"):
        ringbco.replay(jobs.head(1), "1x1", policy=Waits(), model="fixed")


class Hurries(ringbco.Policy):
    """Looks at the next instant that there is."""

    def decide(self, state: Any) -> None:
        state.wake(np.nextafter(state.now, np.inf))


def test_no_instant_after_the_other_is_waited_for() -> None:
    jobs = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 20_000.0], "num_gpus": [1, 1], "duration": [10.0, 10.0]}
    )
    with pytest.raises(InputError, match="job 'a': still waits at"):
        ringbco.replay(jobs, "1x1", policy=Hurries(), model="fixed")
