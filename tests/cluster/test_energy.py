"""Servers that sleep, by hand: who is asleep, who wakes whom, what that draws; refusals, report, audit."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import Invoke
from frames import cluster_of, outages, services, table
from ringbco.audits import check_outcome
from ringbco.cluster.spec import Cluster
from ringbco.errors import UsageError
from ringbco.reports.figures import chapters
from ringbco.reports.html import page
from ringbco.result.outcome import Outcome
from ringbco.trace.jobs import as_table

CLUSTER = """
[gpu_types.big]
speed = 1.0
idle_watts = 50
busy_watts = 400
price_per_hour = 2.0
[gpu_types.small]
speed = 1.0
idle_watts = 10
busy_watts = 100
price_per_hour = 0.5
[[servers]]
count = 2
gpus = 4
gpu_type = "big"
[[servers]]
count = 1
gpus = 2
gpu_type = "small"
"""


@pytest.fixture
def cluster() -> Cluster:
    return cluster_of(CLUSTER)


def replay(jobs: pl.DataFrame, cluster: Any, **options: Any) -> Outcome:
    given = {"policy": "fifo", "model": "fixed", "sleep_after": 60.0, "wake_time": 30.0} | options
    return ringbco.replay(jobs, cluster, **given)


def times(result: Outcome) -> list[tuple[float, float]]:
    return result.jobs.select("start_time", "finish_time").rows()


def faults(result: Outcome, jobs: pl.DataFrame) -> list[str]:
    return [str(finding) for finding in check_outcome(result, as_table(jobs)).findings]


def test_a_job_waits_for_the_server_that_it_wakes() -> None:
    jobs = table(submit_time=[10.0, 170.0, 331.0])
    result = replay(jobs, "1x1")
    # Idle since 110 s: 60 s later it is not yet asleep. Idle since 270 s: 61 s later it is.
    assert times(result) == [(10.0, 110.0), (170.0, 270.0), (331.0, 461.0)]
    assert result.jobs["lost_time"].to_list() == [0.0, 0.0, 30.0]
    assert result.jobs["held_time"].to_list() == [100.0, 100.0, 130.0]
    assert faults(result, jobs) == []


def test_all_who_start_at_one_instant_wait_and_nobody_later() -> None:
    jobs = table(submit_time=[0.0, 500.0, 500.0, 510.0], num_gpus=[4, 1, 1, 1])
    result = replay(jobs, "1x4")
    assert times(result)[1:] == [(500.0, 630.0), (500.0, 630.0), (510.0, 610.0)]


def test_a_gang_that_wakes_several_servers_waits_once() -> None:
    jobs = table(submit_time=[0.0, 500.0], num_gpus=[2, 4])
    assert times(replay(jobs, "2x2", start_cost=5.0))[1] == (500.0, 635.0)


def test_in_slots_the_whole_pause_is_rounded_up() -> None:
    jobs = table(submit_time=[0.0, 601.0], duration=[60.0, 60.0])
    slots = {"clock": "slot", "slot": 60.0, "start_cost": 40.0}
    # 40 and 30 s are two slots, not three. The first job starts before any server sleeps: one slot.
    assert times(replay(jobs, "1x1", **slots)) == [(0.0, 120.0), (660.0, 840.0)]
    # At the boundary of 660 s it was idle for exactly 540 s since that of 120 s.
    assert times(replay(jobs, "1x1", **slots | {"sleep_after": 540.0}))[1] == (660.0, 780.0)


def test_what_is_drawn(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 400.0], num_gpus=[4, 2], gpu_type=["big", "big"])
    result = replay(jobs, cluster, sample=10.0)
    assert times(result) == [(0.0, 100.0), (400.0, 530.0)]
    big, small = result.summary["gpu_types"]
    # Server 0 sleeps from 160 s, when it had been idle for 60 s, to 400 s; server 1 from 60 s to the end.
    assert big["asleep_gpu_hours"] == pytest.approx(4 * (240 + 470) / 3600)
    assert small["asleep_gpu_hours"] == pytest.approx(2 * 470 / 3600)
    busy, idle = 4 * 100 + 2 * 130, 4 * (60 + 60) + 2 * 130
    assert big["energy_kwh"] == pytest.approx((busy * 400 + idle * 50) / 3.6e6)
    assert small["energy_kwh"] == pytest.approx(2 * 60 * 10 / 3.6e6)
    assert result.summary["energy_kwh"] == big["energy_kwh"] + small["energy_kwh"]
    assert result.summary["cost"] == pytest.approx(2.0 * busy / 3600)
    drawn = dict(result.timeline.select("time", "watts").rows())
    assert [drawn[t] for t in (0.0, 50.0, 60.0, 100.0, 160.0, 390.0, 400.0, 520.0)] == [
        *(4 * 400 + 4 * 50 + 2 * 10, 4 * 400 + 4 * 50 + 2 * 10, 4 * 400, 4 * 50, 0.0, 0.0),
        *(2 * 400 + 2 * 50, 2 * 400 + 2 * 50),
    ]  # fmt: skip
    assert faults(result, jobs) == []


def test_a_replica_that_begins_after_the_last_job_draws_nothing(cluster: Cluster) -> None:
    # The second job, which cannot be done in time, is refused at 50 s: the engine goes on until then.
    jobs = table(
        submit_time=[0.0, 50.0], num_gpus=[1, 1], duration=[10.0, 10.0], deadline=[None, 51.0],
        gpu_type=["small", "small"],
    )  # fmt: skip
    want = services(("chat", 20.0, 1, 4))
    result = replay(jobs, cluster, policy="edf", admission=True, services=want, sample=10.0)
    assert result.timeline.select("time", "watts").rows()[-1] == (10.0, 8 * 50 + 2 * 10)
    assert faults(result, jobs) == []


def test_the_samples_add_up_to_the_energy(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 30.0, 700.0], num_gpus=[4, 2, 8], gpu_type=["big", "small", "big"])
    down = outages((1, 20.0, 90.0), (0, 200.0, 300.0))
    result = replay(jobs, cluster, sample=1.0, outages=down, sleep_after=40.0)
    watts = result.timeline["watts"].to_numpy()
    assert watts[:-1].sum() / 3.6e6 == pytest.approx(result.summary["energy_kwh"])


def test_never_is_as_before(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 400.0], gpu_type=["big", "small"])
    never = replay(jobs, cluster, sleep_after=float("inf"), wake_time=50.0)
    usual = ringbco.replay(jobs, cluster, policy="fifo", model="fixed")
    assert never.jobs.equals(usual.jobs)
    assert never.timeline.equals(usual.timeline)
    assert "asleep_gpu_hours" not in usual.summary["gpu_types"][0]
    assert "lost_time" not in usual.jobs.columns


def test_a_server_that_is_down_is_not_asleep(cluster: Cluster) -> None:
    jobs = table(
        submit_time=[0.0, 330.0, 1000.0], duration=[10.0] * 3, gpu_type=["big"] * 3, num_gpus=[8] * 3
    )
    result = replay(jobs, cluster, outages=outages((0, 100.0, 300.0), (1, 100.0, 300.0)))
    # Asleep from 70 s to 100 s, then down. Back at 300 s, awake; at 330 s not yet asleep again.
    assert times(result) == [(0.0, 10.0), (330.0, 340.0), (1000.0, 1040.0)]
    assert result.summary["gpu_types"][0]["asleep_gpu_hours"] == pytest.approx(8 * (30 + 600) / 3600)
    assert faults(result, jobs) == []


def test_in_slots_a_server_is_down_when_the_clock_sees_it(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 600.0], duration=[60.0] * 2, gpu_type=["big"] * 2, num_gpus=[8] * 2)
    down = outages((0, 250.0, 270.0), (1, 250.0, 270.0))
    result = replay(jobs, cluster, clock="slot", slot=60.0, outages=down, wake_time=0.0)
    # Idle from 60 s: asleep from 120 s to 300 s, the boundary at which the servers go down and come back.
    # Idle from then on: asleep from 360 s to 600 s.
    assert result.summary["gpu_types"][0]["asleep_gpu_hours"] == pytest.approx(8 * (180 + 240) / 3600)
    assert faults(result, jobs) == []


@pytest.mark.parametrize(("up_at", "down"), [(99.0, 0.0), (101.0, 100.0)])
def test_in_slots_power_and_utilisation_are_those_of_boundaries(up_at: float, down: float) -> None:
    servers = '[[servers]]\ncount = 1\ngpus = 1\ngpu_type = "V100"\n'
    cluster = cluster_of(servers)
    jobs = table(submit_time=[0.0, 400.0])
    result = replay(
        jobs,
        cluster,
        clock="slot",
        slot=100.0,
        outages=outages((0, 1.0, up_at)),
        sleep_after=float("inf"),
        sample=10.0,
    )
    # The first job is done at 100 s, when the server goes down. It is idle until 400 s but for an outage.
    assert times(result) == [(0.0, 100.0), (400.0, 500.0)]
    assert result.summary["utilisation"] == pytest.approx(200.0 / (500.0 - down))
    fact = cluster.type_facts[0]
    allowed = {fact.busy_watts, fact.idle_watts, 0.0} if down else {fact.busy_watts, fact.idle_watts}
    assert set(result.timeline["watts"][:-1]) == allowed
    watts = result.timeline["watts"].to_numpy()
    assert 10.0 * watts[:-1].sum() / 3.6e6 == pytest.approx(result.summary["energy_kwh"])
    assert faults(result, jobs) == []


def test_shares_keep_a_server_awake() -> None:
    jobs = table(submit_time=[0.0, 300.0], duration=[1000.0, 50.0], gpu_share=[0.25, 0.5])
    result = replay(jobs, "1x2")
    assert times(result)[1] == (300.0, 350.0)
    assert faults(result, jobs) == []


class Sleepwalker(ringbco.Policy):
    """At 500 s it starts a job, stops it, and starts another one there; at 600 s nothing has changed."""

    clairvoyant = True

    def decide(self, state: Any) -> None:
        if state.now == 0:
            state.start([0], servers=[(0, 2)])
        elif state.now == 500:
            state.start([1], servers=[(0, 2)])
            state.stop([1])
            state.wake(600.0)
        elif state.now == 600:
            state.start([1], servers=[(0, 2)])
            state.stop([1])
            state.start([2], servers=[(0, 2)])
            state.stop([2])
            state.start([2], servers=[(0, 2)])
        elif state.now > 600:
            state.start(state.waiting[:1], servers=[(0, 2)])


def test_a_stay_of_no_length_wakes_nobody(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 500.0, 500.0], num_gpus=[2] * 3, gpu_type=["big"] * 3)
    result = replay(jobs, cluster, policy=Sleepwalker(), decisions=True, model="fixed")
    # Who starts at 600 s wakes it, although one was there at 500 s and another one earlier at 600 s.
    assert times(result) == [(0.0, 100.0), (730.0, 830.0), (600.0, 730.0)]
    assert result.summary["gpu_types"][0]["asleep_gpu_hours"] == pytest.approx(4 * (440 + 770) / 3600)
    assert faults(result, jobs) == []


def busy(rows: int = 80, seed: int = 3) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "job_id": [f"j{row}" for row in range(rows)],
            "submit_time": np.sort(rng.integers(0, 12_000, rows)).astype(float),
            "num_gpus": rng.integers(1, 7, rows).astype(np.uint32),
            "duration": rng.integers(20, 900, rows).astype(float),
        }
    )


@pytest.mark.parametrize("policy", ["sjf-bco", "srtf", "gavel"])
def test_a_log_of_decisions_gives_the_same(policy: str, cluster: Cluster, tmp_path: Path) -> None:
    jobs = busy()
    result = replay(jobs, cluster, policy=policy, decisions=True, model="rar")
    result.write(tmp_path / "r")
    logged = replay(jobs, cluster, policy=f"log:{tmp_path / 'r' / 'decisions.parquet'}", model="rar")
    assert logged.jobs["finish_time"].equals(result.jobs["finish_time"])
    assert logged.summary["gpu_types"] == result.summary["gpu_types"]
    assert float(result.jobs["lost_time"].sum()) > 0


def test_a_fork_knows_who_is_idle(cluster: Cluster) -> None:
    jobs = busy()
    whole = _driven(ringbco.Simulation(jobs, cluster, sleep_after=60.0, wake_time=30.0))
    run = ringbco.Simulation(jobs, cluster, sleep_after=60.0, wake_time=30.0)
    while run.advance(until=6_000.0):
        run.start(run.state.waiting, strict=False)
    fork = run.fork()
    first, second = _driven(run), _driven(fork)
    for result in (first, second):
        assert result.jobs.equals(whole.jobs)
        assert result.summary["energy_kwh"] == whole.summary["energy_kwh"]
    assert faults(whole, jobs) == []


def _driven(run: ringbco.Simulation) -> Outcome:
    while run.advance():
        run.start(run.state.waiting, strict=False)
    return run.outcome()


def test_virtual_clusters_sleep_until_the_last_job_of_all() -> None:
    servers = '[[servers]]\ncount = 1\ngpus = 2\ngpu_type = "V100"\nvc = "{}"\n'
    cluster = cluster_of(servers.format("a") + servers.format("b") + servers.format("c"))
    jobs = table(submit_time=[0.0, 1000.0], vc=["a", "b"])
    result = replay(jobs, cluster, outages=outages((0, 500.0, 600.0)))
    assert times(result) == [(0.0, 100.0), (1000.0, 1130.0)]
    # a: from 160 s to 500 s and from 660 s on; b: from 60 s to 1000 s; c, without a job, from 60 s on.
    hours = 2 * (340 + 470 + 940 + 1070) / 3600
    assert result.summary["gpu_types"][0]["asleep_gpu_hours"] == pytest.approx(hours)
    assert faults(result, jobs) == []


def test_decisions_do_not_look_at_sleep() -> None:
    """With no time to wake, every policy decides as if nobody slept."""
    jobs = busy(120)
    for policy in ("sjf-bco", "srtf", "ftf", "time-slice", "repack"):
        options = {"policy": policy, "model": "fixed", "quantum": 90.0}
        asleep = replay(jobs, "3x4", **options, wake_time=0.0)
        awake = replay(jobs, "3x4", **options, sleep_after=float("inf"))
        assert asleep.jobs.select("start_time", "finish_time").equals(
            awake.jobs.select("start_time", "finish_time")
        )


def test_a_quantum_leaves_time_to_wake() -> None:
    said = "option quantum: 60 s against a preempt-cost of 30 s and a wake-time of 30 s: expected a quantum"
    with pytest.raises(UsageError, match=said):
        replay(busy(), "3x4", policy="time-slice", quantum=60.0)
    replay(busy(), "3x4", policy="time-slice", quantum=61.0)
    replay(busy(), "3x4", policy="time-slice", quantum=60.0, sleep_after=float("inf"))


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("sleep-after", "-1", "a time >= 0 s, or inf"),
        ("sleep-after", "nan", "a time >= 0 s, or inf"),
        ("wake-time", "-0.5", "a time >= 0 and <= 1e+09 s"),
        ("wake-time", "inf", "a time >= 0 and <= 1e+09 s"),
        ("wake-time", "nan", "a time >= 0 and <= 1e+09 s"),
    ],
)
def test_bad_values_are_told(invoke: Invoke, option: str, value: str, expected: str) -> None:
    table(duration=[1.0]).write_csv("jobs.csv")
    ran = invoke("replay", "jobs.csv", "--cluster", "1x1", f"--{option}", value, "-o", "r")
    assert ran.returncode == 2
    figure = value if value == "nan" else f"{float(value)}"
    assert f"option {option}: {figure}: expected {expected}" in ran.stderr
    assert not Path("r").exists()


def test_on_the_command_line(invoke: Invoke) -> None:
    Path("types.toml").write_text(CLUSTER, encoding="utf-8")
    busy().write_csv("jobs.csv")
    sleep = ("--sleep-after", "60", "--wake-time", "30")
    ran = invoke("replay", "jobs.csv", "--cluster", "types.toml", "--policy", "fifo", *sleep, "-o", "r")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"energy, kWh +[\d.]+", ran.stdout)
    assert "asleep," in ran.stdout
    assert invoke("audit", "r").returncode == 0
    again = invoke("replay", "--again", "r")
    assert again.returncode == 0
    assert "timeline.parquet     the same" in again.stdout
    result = Outcome.read("r")
    assert result.run["options"]["sleep_after"] == 60.0
    # Without allocations nothing tells which types were held.
    bare = ("--no-allocations", "-o", "bare")
    assert (
        invoke("replay", "jobs.csv", "--cluster", "types.toml", "--policy", "fifo", *sleep, *bare).returncode
        == 0
    )
    lacking = Outcome.read("bare")
    assert lacking.jobs.equals(result.jobs)
    assert not {"gpu_types", "energy_kwh", "cost"} & set(lacking.summary)
    assert "watts" not in lacking.timeline.columns
    assert invoke("audit", "bare").returncode == 0


def altered(result: Outcome, **keys: Any) -> Outcome:
    summary: Mapping[str, Any] = json.loads(json.dumps(result.summary))
    return Outcome(
        jobs=result.jobs,
        allocations=result.allocations,
        timeline=result.timeline,
        summary={**summary, **keys},
        run=result.run,
        stays_written=result.stays_written,
    )


def test_the_audit_finds_what_is_wrong(cluster: Cluster) -> None:
    jobs = busy()
    result = replay(jobs, cluster)
    assert faults(result, jobs) == []
    assert any("energy_kwh is" in said for said in faults(altered(result, energy_kwh=1.0), jobs))
    types = json.loads(json.dumps(result.summary["gpu_types"]))
    types[0]["asleep_gpu_hours"] += 1e-3
    assert any("asleep_gpu_hours is" in said for said in faults(altered(result, gpu_types=types), jobs))
    damaged = altered(result)
    damaged.timeline = result.timeline.with_columns(watts=pl.col("watts") + 1e-3)
    assert any("watts is" in said for said in faults(damaged, jobs))
    damaged = altered(result)
    damaged.run = {**result.run, "options": {**result.run["options"], "wake_time": 31.0}}
    actual = faults(damaged, jobs)
    assert any("finishes" in said for said in actual)
    assert any("lost_time" in said for said in actual)


def test_results_of_earlier_versions_are_audited(cluster: Cluster) -> None:
    jobs = busy()
    result = replay(jobs, cluster, sleep_after=float("inf"))
    old = altered(result)
    old.summary = {key: value for key, value in old.summary.items() if key not in ("energy_kwh", "cost")}
    options = {k: v for k, v in result.run["options"].items() if k not in ("sleep_after", "wake_time")}
    old.run, old.timeline = {**result.run, "options": options}, result.timeline.drop("watts")
    assert faults(old, jobs) == []


def test_a_report_has_power_over_time_and_hours_asleep(cluster: Cluster) -> None:
    jobs = busy()
    results = {"asleep": replay(jobs, cluster), "plain": ringbco.replay(jobs, "3x4", policy="fifo")}
    chapter = next(chapter for chapter in chapters(results) if chapter.title == "The cluster over time")
    assert [figure.name for figure in chapter.figures][-1] == "types-power"
    text = page(results, chapters(results), title="t")
    assert ">asleep, GPU-hours</th>" in text
    row = results["asleep"].summary["gpu_types"][0]
    assert f">{row['asleep_gpu_hours']:,.0f}</td>" in text


def test_no_server_is_idle_before_the_first_submission() -> None:
    jobs = table(submit_time=[100.0], duration=[10.0])
    replica = services(("chat", 0.0, 1, 1), ("chat", 50.0, 0, 1))
    result = replay(jobs, "1x1", services=replica, sleep_after=20.0, wake_time=7.0)
    # The replica ends at 50 s, but the server is idle since 100 s at the earliest.
    assert times(result) == [(100.0, 110.0)]
    assert faults(result, jobs) == []


def test_replicas_of_services_keep_servers_awake(cluster: Cluster) -> None:
    jobs = table(submit_time=[0.0, 300.0, 900.0], num_gpus=[4, 4, 4], gpu_type=["big"] * 3)
    wanted = services(("s", 200.0, 0, 4), ("s", 400.0, 1, 4), ("s", 600.0, 0, 4))
    result = replay(jobs, cluster, services=wanted, sample=1.0, preempt_cost=0.0)
    # Server 0 runs jobs until 100 s, and from 300 s on, when one wakes it, until 430 s. From 400 s to 600 s
    # server 1 has a replica, which wakes it; it sleeps from 660 s on again, server 0 from 490 s to 900 s.
    assert times(result) == [(0.0, 100.0), (300.0, 430.0), (900.0, 1030.0)]
    asleep = 4 * ((300 - 160) + (900 - 490) + (400 - 60) + (1030 - 660))
    big = result.summary["gpu_types"][0]
    assert big["asleep_gpu_hours"] == pytest.approx(asleep / 3600)
    busy = 4 * (100 + 130 + 130 + 200)
    assert big["energy_kwh"] == pytest.approx((busy * 400 + (8 * 1030 - busy - asleep) * 50) / 3.6e6)
    watts = result.timeline["watts"].to_numpy()
    assert watts[:-1].sum() / 3.6e6 == pytest.approx(result.summary["energy_kwh"])
    assert faults(result, jobs) == []


def test_a_job_that_makes_room_wakes_nobody(cluster: Cluster) -> None:
    jobs = table(
        submit_time=[0.0, 50.0],
        num_gpus=[8, 8],
        duration=[200.0, 10.0],
        priority=[0, 1],
        gpu_type=["big"] * 2,
    )
    result = replay(jobs, cluster, evict=True, preempt_cost=7.0, sleep_after=0.0)
    assert times(result) == [(0.0, 217.0), (50.0, 60.0)]
    assert faults(result, jobs) == []
