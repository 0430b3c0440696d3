"""The note of elastic jobs for which one more GPU gains little and the next ones much."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from ringbco.errors import RingbcoWarning

SLOW = ringbco.Cluster.parse("2x4").with_network(inter_bandwidth=1.25e9)
GREEDY = ("afs", "optimus", "elastic-srtf", "elasticflow")
LM = {1: 109.17, 2: 185.72, 4: 126.72, 8: 698.77}
"""Iterations a second of Gavel's LM (batch size 5) on so many V100s."""


def jobs(*ranges: tuple[int, int, int], **columns: Any) -> pl.DataFrame:
    """Jobs that ask for so many GPUs: the least, num_gpus, the most."""
    least, asked, most = zip(*ranges, strict=True)
    frame = {
        "job_id": [f"j{row}" for row in range(len(ranges))],
        "submit_time": [0.0] * len(ranges),
        "num_gpus": asked,
        "duration": [1000.0] * len(ranges),
        "min_gpus": least,
        "max_gpus": most,
        "model": ["LM"] * len(ranges),
        "deadline": [1e9] * len(ranges),
        **columns,
    }
    return pl.DataFrame(frame)


def speeds(rates: dict[int, float], gpu_type: str = "v100") -> pl.DataFrame:
    rows = {"model": "LM", "gpu_type": gpu_type, "servers": 1}
    return pl.DataFrame({"gpus": [*rates], "rate": [float(rate) for rate in rates.values()]}).with_columns(
        **{name: pl.lit(value) for name, value in rows.items()}
    )


def notes(table: pl.DataFrame, cluster: Any, policy: str = "afs", **options: Any) -> list[str]:
    """What is said of gains in a run."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always", RingbcoWarning)
        run = ringbco.replay(table, cluster, policy=policy, **options).run
    text = [str(one.message) for one in given if "not concave" in str(one.message)]
    assert [line for line in run.get("doubts", text) if "not concave" in line] == text
    return text


def dips(rates: list[float], rounding: float = 0.0) -> bool:
    """Whether of speeds on least, least + 1, ... GPUs the gain falls, or there is none, and rises later."""
    gains = [after - before for before, after in pairwise(rates)]
    slack = [rounding * max(rates)] * len(gains)
    falls = [place for place, gain in enumerate(gains) if place and gain < gains[place - 1] - slack[place]]
    if gains and gains[0] <= 0:
        falls.append(0)
    rises = [place for place, gain in enumerate(gains) if place and gain > gains[place - 1] + slack[place]]
    return bool(falls and rises and min(falls) < max(rises))


@pytest.mark.parametrize("policy", GREEDY)
def test_gavels_language_model_stops_at_two_of_eight(policy: str) -> None:
    table = jobs((1, 1, 8))
    (messages,) = notes(table, "1x8", policy, model="table", tables=speeds(LM))
    assert messages == (
        "<frame>: speeds of 1 of 1 elastic jobs are not concave in GPUs (the gain of one more falls at 2 and"
        " rises again at 4 for job j0 of model LM on v100); the policy looks one GPU ahead, and may leave"
        " such jobs with too few (docs/elastic-policies.md)"
    )
    # What it says is so: the job runs on 2 of 8 idle GPUs.
    done = ringbco.replay(table, "1x8", policy=policy, model="table", tables=speeds(LM))
    assert done.summary["mean_jct"] == pytest.approx(1000.0 * LM[1] / LM[2], rel=1e-3)


def test_jobs_are_counted_and_the_first_is_named() -> None:
    table = jobs((2, 2, 2), (1, 1, 2), (2, 2, 8), (1, 2, 8))
    (messages,) = notes(table, "1x8", model="table", tables=speeds(LM))
    assert "speeds of 2 of 3 elastic jobs" in messages
    # On 2 GPUs one more is no gain at all.
    assert "falls at 2 and rises again at 4 for job j2 of model LM on v100" in messages


def test_gpus_that_there_are_not_do_not_count() -> None:
    assert notes(jobs((1, 1, 8)), "1x4", model="table", tables=speeds(LM)) == []
    assert notes(jobs((1, 1, 8)), "1x5", model="table", tables=speeds(LM))


@pytest.mark.parametrize("policy", ["fifo", "srtf", "sjf-bco"])
def test_policies_that_resize_nobody_say_nothing(policy: str) -> None:
    assert notes(jobs((1, 1, 8)), "1x8", policy, model="table", tables=speeds(LM)) == []


def test_sia_weighs_its_configurations_at_once() -> None:
    pytest.importorskip("highspy")
    assert notes(jobs((1, 1, 8)), "1x8", "sia", model="table", tables=speeds(LM)) == []


def test_rings_dip_where_they_begin_to_span() -> None:
    slow = {"gradient_bytes": [1e9], "fp_time": [0.0], "bp_time": [0.2], "iterations": [5000]}
    table = jobs((2, 4, 8), **slow)
    (messages,) = notes(table, SLOW)
    assert "falls at 4 and rises again at 5 for job j0" in messages
    assert notes(table.with_columns(max_gpus=pl.lit(4)), SLOW) == []
    assert notes(table, "2x4", model="fixed") == []


def test_a_comparison_says_it_once(invoke: Invoke, tmp_path: Path) -> None:
    jobs((1, 1, 8)).write_csv(tmp_path / "jobs.csv")
    speeds(LM).write_csv(tmp_path / "speeds.csv")
    policies = [word for policy in (*GREEDY, "fifo") for word in ("--policy", policy)]
    given = ("--cluster", "1x8", "--model", "table", "--tables", "speeds.csv", "-o", "c")
    output = invoke("compare", "jobs.csv", *policies, *given).stderr
    assert output.count("not concave") == 1


RATES = st.lists(st.integers(1, 12), min_size=2, max_size=9)


@given(rates=RATES, data=st.data())
def test_the_note_is_given_exactly_where_gains_fall_and_rise_again(
    rates: list[int], data: st.DataObject
) -> None:
    total, ranges = data.draw(st.integers(1, len(rates)), label="GPUs"), []
    for _ in range(data.draw(st.integers(1, 4), label="jobs")):
        numbers = st.integers(1, total), st.integers(1, total), st.integers(1, len(rates))
        least, asked, most = sorted(data.draw(st.tuples(*numbers)))
        ranges.append((least, min(asked, total), most))
    within = [[float(rate) for rate in rates[least - 1 : min(most, total)]] for least, _, most in ranges]
    expected = sum(map(dips, within))
    elastic = sum(least < most for least, _, most in ranges)
    policy = data.draw(st.sampled_from(GREEDY))
    table = speeds({gpus: float(rate) for gpus, rate in enumerate(rates, 1)})
    messages = notes(jobs(*ranges), f"1x{total}", policy, model="table", tables=table)
    assert len(messages) == (expected > 0)
    assert all(f"speeds of {expected} of {elastic} elastic jobs" in line for line in messages)


@given(
    gradient=st.sampled_from([0.0, 1e7, 1e9]),
    compute=st.sampled_from([0.01, 0.5]),
    noise=st.sampled_from([None, 4.0, 1e3]),
    cluster=st.sampled_from(["1x8", "2x2", "3x4"]),
    asked=st.integers(1, 4),
    bandwidth=st.sampled_from([1e9, 12.5e9]),
)
def test_rings_are_noted_by_the_speeds_that_policies_see(
    gradient: float, compute: float, noise: float | None, cluster: str, asked: int, bandwidth: float
) -> None:
    servers, size = map(int, cluster.split("x"))
    given = {"gradient_bytes": [gradient], "fp_time": [0.0], "bp_time": [compute], "iterations": [1000]}
    table = jobs((1, asked, 3 * asked), **given, **({} if noise is None else {"noise_scale": [noise]}))
    there = ringbco.Cluster.parse(cluster).with_network(inter_bandwidth=bandwidth)
    seen = ringbco.Simulation(table, there).state
    numbers = np.arange(1, min(3 * asked, servers * size) + 1)
    rates = [float(seen.rate([0], gpus, servers=-(-int(gpus) // size))[0]) for gpus in numbers]
    assert bool(notes(table, there)) == dips(rates, rounding=1e-9)
