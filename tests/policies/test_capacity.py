"""gavel, allox and sia on servers that fail, or that replicas hold: what counts is what is there now."""

from __future__ import annotations

import random
from typing import Any, Final

import polars as pl
import pytest

import ringbco
from core_run import CASES
from frames import cluster_of, outages, rows_table, services, typed_servers
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome

pytest.importorskip("highspy", reason="needs the extra lp: pip install 'ringbco[lp]'")

POLICIES: Final = ("gavel", "allox", "sia")
TWO: Final = typed_servers((1, 1, "FAST"), (1, 1, "SLOW")) + (
    "[gpu_types.FAST]\nspeed = 10.0\n[gpu_types.SLOW]\nspeed = 1.0\n"
)
Job = tuple[str, float, int, float]
Times = dict[str, tuple[float, float]]


def replayed(jobs: pl.DataFrame, cluster: Cluster | str, policy: str, **options: Any) -> Outcome:
    """A run of which the audit has nothing to say."""
    outcome = ringbco.replay(jobs, cluster, policy=policy, **options)
    assert ringbco.audit(outcome, jobs) == []
    return outcome


def times(cluster: Cluster | str, policy: str, *rows: Job, **options: Any) -> Times:
    """When each job of (job_id, submit_time, num_gpus, duration) started and finished, without a pause."""
    jobs = rows_table("job_id submit_time num_gpus duration", rows)
    if isinstance(cluster, Cluster):
        jobs = jobs.with_columns(recorded_on=pl.lit("SLOW"))
    outcome = replayed(jobs, cluster, policy, **{"model": "fixed", "preempt_cost": 0.0} | options)
    result = outcome.jobs.select("job_id", "start_time", "finish_time").rows()
    return {job: (start, finish) for job, start, finish in result}


Z_AND_A: Final = (("z", 0.0, 1, 10.0), ("a", 100.0, 1, 1000.0))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "taken", [{"outages": outages((0, 50, 50000))}, {"services": services(("chat", 50, 1, 1))}]
)
def test_who_finds_the_fast_server_taken_runs_on_the_slow_one(policy: str, taken: dict[str, Any]) -> None:
    assert times(cluster_of(TWO), policy, *Z_AND_A, **taken) == {"z": (0.0, 1.0), "a": (100.0, 1100.0)}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_type_that_was_not_there_at_first_is_used_later(policy: str) -> None:
    result = times(cluster_of(TWO), policy, *Z_AND_A, outages=outages((0, 0, 50)))
    assert result == {"z": (0.0, 10.0), "a": (100.0, 200.0)}


@pytest.mark.parametrize(("policy", "starts"), [("gavel", 360.0), ("allox", 10.0), ("sia", 60.0)])
def test_a_server_that_is_back_counts(policy: str, starts: float) -> None:
    """From gavel's and sia's next round, and from allox' next decision."""
    two = (("a", 0.0, 1, 1000.0), ("b", 0.0, 1, 1000.0))
    expected = [(0.0, 1000.0), (starts, starts + 1000.0)]
    result = times("2x1", policy, *two, outages=outages((1, 0, 10)))
    assert sorted(result.values()) == expected
    taken = services(("chat", 0, 1, 1), ("chat", 10, 0, 1))
    assert sorted(times("2x1", policy, *two, services=taken).values()) == expected


@pytest.mark.parametrize("policy", POLICIES)
def test_without_a_server_a_decision_waits(policy: str) -> None:
    """At the first one and at a later one. The round is over when the server comes back."""
    first = times("1x2", policy, ("a", 5.0, 1, 20.0), outages=outages((0, 4, 10)))
    assert first == {"a": (10.0, 30.0)}
    jobs = (("a", 5.0, 1, 20.0), ("b", 40.0, 2, 20.0), ("c", 50.0, 1, 20.0))
    later = times("1x2", policy, *jobs, outages=outages((0, 30, 1e7)))
    assert later["a"] == (5.0, 25.0)
    assert min(later["b"], later["c"])[0] == 1e7


def test_first_come_shares_follow_the_servers() -> None:
    """a's type fails. If nobody else is there, it gets another one. With b there it waits for new shares."""
    options: dict[str, Any] = {"parameters": {"shares": "first-come"}, "checkpoint_interval": 0.0}
    a = ("a", 0.0, 1, 1000.0)
    down = outages((0, 50, 50000))
    assert times(cluster_of(TWO), "gavel", a, outages=down, **options) == {"a": (0.0, 550.0)}
    three = cluster_of(TWO + typed_servers((1, 1, "SLOW")))
    both = times(three, "gavel", a, ("b", 0.0, 1, 5000.0), outages=down, **options)
    assert both == {"a": (0.0, 2660.0), "b": (0.0, 5000.0)}  # renew is 1,920 s: a starts at 2,160


def test_time_before_an_outage_counts_as_had() -> None:
    """b and c share one GPU from 0 on; at 350 it fails under b, which had 350 s of it: c goes first."""
    jobs = (("b", 0.0, 1, 1000.0), ("c", 0.0, 1, 1000.0))
    result = times("1x1", "gavel", *jobs, outages=outages((0, 350, 351)))
    assert result["c"][0] == 351.0


def test_allox_lets_a_gang_wait_that_cannot_be_placed_now() -> None:
    jobs = (("a", 0.0, 4, 391.0), ("b", 0.0, 1, 393.0))
    wanted = services(("chat", 100, 7, 2), ("chat", 1000, 0, 2))
    result = times("2x8", "allox", *jobs, services=wanted)
    assert result["b"] == (0.0, 393.0)
    assert result["a"] == (0.0, 1291.0)


def test_allox_knows_where_a_job_runs_now() -> None:
    """a begins on SLOW, which fails under it, and goes on on FAST at 2,000. b waits for its end there."""
    jobs = (("z", 0.0, 1, 20000.0), ("a", 1.0, 1, 1000.0), ("b", 2050.0, 1, 1000.0))
    result = times(cluster_of(TWO), "allox", *jobs, outages=outages((1, 50, 2040)))
    assert result == {"z": (0.0, 2000.0), "a": (1.0, 2100.0), "b": (2100.0, 2200.0)}


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gang_without_room_stands_in_nobodys_way(policy: str) -> None:
    """Replicas leave one GPU idle on each server. Two gangs of 2 find no room there, b and c do."""
    gangs = (("a", 0.0, 2, 1.0), ("d", 0.0, 2, 1.0))
    taken = services(("chat", 0, 2, 2), ("chat", 5000, 0, 2))
    result = times("2x3", policy, *gangs, ("b", 0.0, 1, 90.0), ("c", 0.0, 1, 90.0), services=taken)
    assert result["b"][1] < 1000.0
    assert result["c"][1] < 1000.0
    assert result["a"][0] >= 5000.0


def test_sia_sees_that_a_job_lost_its_gpus() -> None:
    """Nothing could change any more when b's server fails: the same jobs are there, and as many idle GPUs."""
    cluster = cluster_of(TWO + typed_servers((1, 1, "SLOW")))
    rows = [("a", 0.0, 1, 5000.0, "SLOW"), ("b", 0.0, 1, 5000.0, None)]
    jobs = rows_table("job_id submit_time num_gpus duration gpu_type", rows)
    jobs = jobs.with_columns(recorded_on=pl.lit("SLOW"))
    outcome = replayed(
        jobs, cluster, "sia", model="fixed", outages=outages((0, 130, 50000)), checkpoint_interval=0.0
    )
    assert outcome.allocations is not None
    stays = outcome.allocations.filter(job_id="b")["start_time"].to_list()
    assert stays == [0.0, 180.0]


def drawn(seed: int) -> tuple[pl.DataFrame, Cluster, str, dict[str, Any]]:
    """Jobs, a small cluster, a policy and options. Times lie on a coarse grid, so that many coincide."""
    draw = random.Random(seed)
    vcs, typed, serves = draw.random() < 0.25, draw.random() < 0.6, draw.random() < 0.5
    grid = draw.choice([1.0, 10.0, 50.0])

    def time(most: float) -> float:
        return grid * draw.randint(0, int(most / grid))

    text, sizes = "", []
    for group in range(draw.randint(2, 4)):
        count, gpus = draw.randint(1, 3), draw.choice([1, 2, 3, 4, 8])
        sizes += [gpus] * count
        kind = f'gpu_type = "{draw.choice(["V100", "T4", "A100"])}"\n' if typed else ""
        vc = f'vc = "{"xy"[group % 2]}"\n' if vcs else ""
        text += f"[[servers]]\ncount = {count}\ngpus = {gpus}\n{kind}{vc}"
    cluster = cluster_of(text)
    rows = [
        (f"j{row}", time(1500), draw.choice([1, 1, 1, 2, 3, 4, 8]) if row else 1, max(grid, time(1500)))
        for row in range(draw.randint(2, 14))
    ]
    jobs = rows_table("job_id submit_time num_gpus duration", rows)
    if vcs:
        jobs = jobs.with_columns(vc=pl.Series([draw.choice("xy") for _ in rows]))
    if typed and draw.random() < 0.5:
        asked = [None, *(draw.choice([None, *cluster.types]) for _ in rows[1:])]
        jobs = jobs.with_columns(gpu_type=pl.Series(asked, dtype=pl.String))
    if draw.random() < 0.3:
        jobs = jobs.with_columns(preemptible=pl.Series([draw.random() < 0.7 for _ in rows]))
    options: dict[str, Any] = {
        "model": draw.choice(["fixed", "rar"]),
        "clock": draw.choice(["continuous", "slot"]),
        "placement": draw.choice(["consolidate", "first-fit", "random", "sjf-bco", "worst-fit", "binpack"]),
        "oversize": "drop",
        "preempt_cost": draw.choice([0.0, 10.0, 30.0]),
        "checkpoint_interval": draw.choice([0.0, 50.0, 1800.0]),
    }
    if options["clock"] == "slot":
        options["slot"] = draw.choice([10.0, 60.0])
    if not serves or draw.random() < 0.5:
        count = draw.randint(1, 12)
        downs = [(draw.randrange(len(sizes)), time(2000), grid + time(3000)) for _ in range(count)]
        if draw.random() < 0.3:  # nothing is there
            downs += [(server, 0.0, max(grid, time(800))) for server in range(len(sizes))]
        options["outages"] = outages(*((server, at, at + length) for server, at, length in downs))
    if serves and not vcs:
        each = draw.randint(1, min(4, max(sizes)))
        instants = sorted({time(4000) for _ in range(draw.randint(1, 6))})
        loads = [("chat", at, draw.randint(0, 4), each) for at in instants]
        options["services"] = services(*loads, ("chat", 6000.0, 0, each))
    policy = POLICIES[seed % len(POLICIES)]
    if policy == "gavel":
        options["parameters"] = {
            "round": draw.choice([100.0, 120.0, 360.0]),
            "renew": draw.choice([100.0, 600.0, 1920.0]),
            "newcomers": draw.random() < 0.5,
            "shares": draw.choice(["max-min", "first-come"]),
        }
    elif policy == "allox" and draw.random() < 0.3:
        options["parameters"] = {"alpha": 0.5}
    return jobs, cluster, policy, options


@pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")
@pytest.mark.parametrize("block", range(4))
def test_no_random_run_fails(block: int) -> None:
    """Servers come and go, jobs coincide with them: every run ends, and no check of the audit fails."""
    for seed in range(block, CASES // 12, 4):
        jobs, cluster, policy, options = drawn(seed)
        try:
            replayed(jobs, cluster, policy, **options)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
