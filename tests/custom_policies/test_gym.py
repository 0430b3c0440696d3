"""ringbco.gym: agents through the environment get what a replay gives, and gymnasium finds no fault."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.utils.env_checker import check_env
from polars.testing import assert_frame_equal

import ringbco
from custom_policies import same
from ringbco.cluster.spec import Cluster, ServerGroup
from ringbco.gym import IDLE_WAIT, PATIENCE, ReplayEnv

CLUSTER = "2x8"
WINDOW = 100
Agent = Callable[[dict[str, np.ndarray]], int]


@pytest.fixture(scope="module")
def table() -> ringbco.JobTable:
    """Jobs that queue: four times as many GPUs are asked for as there are."""
    return ringbco.generate("philly", 600, seed=4, gpus=64, load=1.2)


def sjf(seen: dict[str, np.ndarray]) -> int:
    """The shortest of those shown, the first of them at a tie."""
    _, gpus, remaining = seen["jobs"].T
    return int(np.where(gpus > 0, remaining, np.inf).argmin())


def at_random(actions: int, seed: int = 0) -> Agent:
    rng = np.random.default_rng(seed)
    return lambda seen: int(rng.integers(actions))


def run(env: ReplayEnv, agent: Agent, **reset: Any) -> tuple[float, int, bool]:
    """One episode. Returns the sum of its rewards, its steps, and whether it terminated."""
    seen, _ = env.reset(**reset)
    total, steps = 0.0, 0
    while True:
        assert env.observation_space.contains(seen)
        seen, reward, terminated, truncated, _ = env.step(agent(seen))
        total += reward
        steps += 1
        if terminated or truncated:
            assert terminated != truncated
            return total, steps, terminated


@pytest.mark.parametrize("options", [{}, {"clairvoyant": True}, {"episode_jobs": 40, "visible_jobs": 3}])
def test_gymnasium_finds_no_fault(options: dict[str, Any], table: ringbco.JobTable) -> None:
    """Nor does it warn."""
    made = gymnasium.make("ringbco/Replay-v0", jobs=table, cluster=CLUSTER, **options)
    check_env(made.unwrapped)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"placement": "first-fit"},
        {"placement": "sjf-bco"},
        {"model": "fixed"},
        {"clock": "slot", "slot": 300.0},
    ],
)
def test_a_shortest_first_agent_is_the_preset(options: dict[str, Any], table: ringbco.JobTable) -> None:
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW, visible_jobs=WINDOW, clairvoyant=True, **options)
    total, _, terminated = run(env, sjf, seed=1)
    assert terminated
    mine = env.simulation.outcome()
    preset = ringbco.replay(env.jobs, CLUSTER, policy="sjf", **{"placement": "consolidate"} | options)
    assert_frame_equal(mine.jobs.select(preset.jobs.columns), preset.jobs)
    assert mine.allocations is not None
    assert_frame_equal(mine.allocations, preset.allocations)
    assert (mine.jobs["wait_time"] > 0).sum() > WINDOW / 4
    assert -total == pytest.approx(mine.jobs["jct"].sum(), rel=1e-12)


@pytest.mark.parametrize("ties", ["rows", "reverse", "shuffle:3"])
def test_equal_jobs_start_in_fifo_order(ties: str) -> None:
    """Ties of the key are many here."""
    rng = np.random.default_rng(5)
    jobs = ringbco.from_frame(
        pl.DataFrame(
            {
                "job_id": [str(row) for row in range(WINDOW)],
                "submit_time": rng.integers(0, 50, WINDOW).astype(float),
                "num_gpus": rng.choice([1, 2, 8, 12], WINDOW),
                "duration": rng.choice([10.0, 20.0], WINDOW),
            }
        )
    )
    env = ReplayEnv(
        jobs, CLUSTER, episode_jobs=WINDOW, visible_jobs=WINDOW, clairvoyant=True, model="fixed", ties=ties
    )
    run(env, sjf)
    options = {"placement": "consolidate", "model": "fixed", "ties": ties}
    preset = ringbco.replay(env.jobs, CLUSTER, policy="sjf", **options)
    assert_frame_equal(env.simulation.outcome().jobs.select(preset.jobs.columns), preset.jobs)


def test_a_shortest_first_agent_is_the_preset_on_a_public_trace(shared_traces: Path) -> None:
    trace = ringbco.read_jobs(shared_traces / "philly" / "2869ce.csv")
    env = ReplayEnv(trace, "8x8", episode_jobs=trace.num_jobs, visible_jobs=trace.num_jobs, clairvoyant=True)
    total, *_ = run(env, sjf)
    same(env.simulation.outcome(), ringbco.replay(trace, "8x8", policy="sjf"))
    preset = env.simulation.outcome()
    assert -total == pytest.approx(preset.jobs["jct"].sum(), rel=1e-12)


@pytest.mark.parametrize("clock", [{}, {"clock": "slot", "slot": 300.0}])
@pytest.mark.parametrize("seed", range(3))
def test_a_random_agent_ends_and_its_result_passes_the_audit(
    seed: int, clock: dict[str, Any], table: ringbco.JobTable
) -> None:
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW, visible_jobs=8, **clock)
    total, steps, terminated = run(env, at_random(9, seed), seed=seed)
    assert terminated
    assert steps > WINDOW
    outcome = env.simulation.outcome()
    assert not ringbco.audit(outcome, env.jobs)
    assert outcome.jobs.height == WINDOW
    assert -total == pytest.approx(outcome.jobs["jct"].sum(), rel=1e-12)


def interrupted(table: ringbco.JobTable) -> dict[str, pl.DataFrame]:
    """Outages and replicas that end many stays."""
    last = float(table.frame["submit_time"].to_numpy().max())
    down, times = np.linspace(0.0, 2 * last, 60), np.linspace(0.0, last, 40)
    load = {
        "service": ["chat"] * 40,
        "time": times,
        "replicas": [0, 3, 1, 4] * 10,
        "gpus_per_replica": [2] * 40,
    }
    return {
        "outages": pl.DataFrame({"server": [0, 1] * 30, "down_at": down, "up_at": down + 900.0}),
        "services": pl.DataFrame(load),
    }


def test_a_stay_that_an_outage_ended_is_no_new_job() -> None:
    job = {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [100.0]}
    outages = pl.DataFrame({"server": [0], "down_at": [50.0], "up_at": [70.0]})
    options: dict[str, Any] = {"model": "fixed", "preempt_cost": 0.0, "checkpoint_interval": 1.0}
    jobs = ringbco.from_frame(pl.DataFrame(job))
    env = ReplayEnv(jobs, "1x1", episode_jobs=1, visible_jobs=1, clairvoyant=True, outages=outages, **options)
    env.reset()
    seen, reward, *_ = env.step(0)
    assert (seen["jobs"].tolist(), reward) == ([[50, 1, 50]], -50.0)  # half of it is done
    assert env.step(0)[1] == -20.0
    assert env.step(0)[1:3] == (-50.0, True)


def test_jobs_of_higher_priority_evict_others() -> None:
    rows = {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [1, 1], "duration": [10.0, 10.0]}
    jobs = ringbco.from_frame(pl.DataFrame(rows | {"priority": [0, 1]}))
    env = ReplayEnv(jobs, "1x1", episode_jobs=2, visible_jobs=1, model="fixed", preempt_cost=0.0, evict=True)
    env.reset()
    assert env.step(0)[1] == -5.0  # a runs until b comes
    assert env.step(0)[1] == 0.0  # b takes its GPU at once, and a is shown
    assert env.step(1)[1] == -20.0
    assert env.step(0)[1:3] == (-5.0, True)


@pytest.mark.parametrize("options", [{}, {"clock": "slot", "slot": 300.0}])
def test_rewards_count_from_the_arrival_of_a_job_after_another(
    options: dict[str, Any], table: ringbco.JobTable
) -> None:
    after = [None if row % 3 == 0 else table.frame["job_id"][row - 1] for row in range(table.frame.height)]
    think = [None if name is None or row % 2 else 60.0 * row for row, name in enumerate(after)]
    frame = table.frame.with_columns(
        after=pl.Series(after, dtype=pl.String), think_time=pl.Series(think, dtype=pl.Float64)
    )
    env = ReplayEnv(
        ringbco.from_frame(frame),
        CLUSTER,
        episode_jobs=WINDOW,
        visible_jobs=WINDOW,
        clairvoyant=True,
        **options,
    )
    total, _, terminated = run(env, sjf, options={"first": 0})
    assert terminated
    mine = env.simulation.outcome()
    preset = ringbco.replay(env.jobs, CLUSTER, policy="sjf", placement="consolidate", **options)
    assert_frame_equal(mine.jobs.select(preset.jobs.columns), preset.jobs)
    assert (mine.jobs["submit_time"] > mine.jobs["submitted"]).any()
    assert -total == pytest.approx(mine.jobs["jct"].sum(), rel=1e-12)


def test_a_wait_lasts_to_the_next_arrival_but_not_for_a_job_after_one_that_waits() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b", "c"],
            "submit_time": [0.0, 0.0, 400.0],
            "num_gpus": [8, 8, 8],
            "duration": [100.0, 100.0, 100.0],
            "after": [None, "a", None],
        }
    )
    env = ReplayEnv(ringbco.from_frame(jobs), "1x8", episode_jobs=3, visible_jobs=3, model="fixed")
    env.reset()
    wait = 3
    times = [env.step(action)[4]["time"] for action in (wait, wait, 0, 0)]
    assert times == [400.0, 400.0 + IDLE_WAIT, 400.0 + IDLE_WAIT, 500.0 + IDLE_WAIT]


def test_quotas_are_refused() -> None:
    quota = pl.DataFrame({"user": ["u"], "gpus": [1], "borrow": [True]})
    with pytest.raises(ringbco.errors.UsageError, match="option quota: 'given': expected none: an"):
        ReplayEnv(pl.DataFrame(), "1x1", quota=quota)


@pytest.mark.parametrize("clock", [{}, {"clock": "slot", "slot": 300.0}])
@pytest.mark.parametrize("what", [["outages"], ["services"], ["outages", "services"]])
def test_rewards_where_stays_are_cut_short(
    what: list[str], clock: dict[str, Any], table: ringbco.JobTable
) -> None:
    options = {name: interrupted(table)[name] for name in what}
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW, visible_jobs=8, clairvoyant=True, **options, **clock)
    total, _, terminated = run(env, sjf, seed=1)
    assert terminated
    outcome = env.simulation.outcome()
    ended = outcome.summary["failures"] if what == ["outages"] else outcome.summary["evictions"]
    assert ended > 0
    assert -total == pytest.approx(outcome.jobs["jct"].sum(), rel=1e-12)


def test_rows_are_as_many_as_are_shown(table: ringbco.JobTable) -> None:
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW, visible_jobs=8)
    seen, info = env.reset(seed=1)
    waiting = int(seen["waiting"][0])
    assert waiting < 8
    assert info["rows"].dtype == np.int64
    assert info["rows"].tolist() == [*range(waiting), *[-1] * (8 - waiting)]


def test_trials_that_rest_are_in_the_system_and_only_they_may_be_left(table: ringbco.JobTable) -> None:
    """A wait ends also where the others are at a rung, and a trial counts until it ends."""
    groups = pl.Series([None if row % 3 else f"search {row // 20}" for row in range(600)])
    trials = ringbco.from_frame(table.frame.with_columns(group=groups))
    env = ReplayEnv(trials, CLUSTER, episode_jobs=WINDOW, visible_jobs=8, search="asha:eta=2,rungs=2")
    for seed in range(3):
        total, _, terminated = run(env, at_random(9, seed), seed=seed)
        assert terminated
        outcome = env.simulation.outcome()
        assert outcome.summary["jobs_ended"] > 0
        assert -total > outcome.jobs["jct"].sum()


def test_a_seed_gives_its_windows(table: ringbco.JobTable) -> None:
    env, other = (ReplayEnv(table, CLUSTER, episode_jobs=WINDOW) for _ in range(2))
    firsts = []
    for turn in range(5):
        seed = 7 if turn == 0 else None
        (seen, info), (theirs, told_there) = env.reset(seed=seed), other.reset(seed=seed)
        np.testing.assert_equal((seen, info), (theirs, told_there))
        firsts.append(info["first"])
        assert_frame_equal(env.jobs.frame, table.frame.slice(info["first"], WINDOW))
    assert len(set(firsts)) == 5
    assert env.reset(seed=7)[1]["first"] == firsts[0]
    assert env.reset(options={"first": 500})[1]["first"] == 500


def test_an_observation_tells_what_the_page_says() -> None:
    jobs = ringbco.from_frame(
        pl.DataFrame(
            {
                "job_id": ["a", "b", "c", "d"],
                "submit_time": [5.0, 5.0, 5.0, 9.0],
                "num_gpus": [4, 3, 8, 1],
                "duration": [100.0, 50.0, 20.0, 30.0],
            }
        )
    )
    env = ReplayEnv(
        jobs, "1x4", episode_jobs=2, visible_jobs=2, oversize="drop", model="fixed", clairvoyant=True
    )
    seen, info = env.reset(options={"first": 0})
    assert seen["jobs"].tolist() == [[0, 4, 100], [0, 3, 50]]
    assert seen["servers"].tolist() == [[4, 4]]
    assert (seen["waiting"].tolist(), info["time"], info["rows"].tolist()) == ([2], 5.0, [0, 1])
    assert env.step(0)[1:4] == (0.0, False, False)  # no time passes
    seen, reward, *_ = env.step(0)  # b finds too few GPUs, and waits until a is done
    assert (seen["jobs"].tolist(), reward) == ([[100, 3, 50], [0, 0, 0]], -200.0)
    seen, reward, terminated, truncated, info = env.step(0)
    assert (reward, terminated, truncated, info["time"]) == (-50.0, True, False, 155.0)
    assert seen["servers"].tolist() == [[4, 4]]
    with pytest.raises(gymnasium.error.ResetNeeded, match="the episode is over"):
        env.step(0)

    blind = ReplayEnv(jobs, "1x4", episode_jobs=2, visible_jobs=2, oversize="drop", model="fixed")
    seen, info = blind.reset(options={"first": 1})  # c is left out
    assert seen["jobs"].tolist() == [[0, 3], [0, 0]]
    seen, reward, *_ = blind.step(2)
    assert (seen["jobs"].tolist(), reward) == ([[4, 3], [0, 1]], -4.0)


@pytest.mark.parametrize("action", [16, 99, -1])
def test_endless_waiting_truncates(action: int, table: ringbco.JobTable) -> None:
    """Where nobody is left to come, a wait takes a while, and so many of them in a row are enough."""
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW)
    total, steps, terminated = run(env, lambda seen: action, seed=2)
    assert not terminated
    came = env.jobs.frame["submit_time"].to_numpy()
    assert steps == PATIENCE + np.unique(came).size - 1
    assert env.simulation.state.now == came.max() + PATIENCE * IDLE_WAIT
    assert -total == pytest.approx((env.simulation.state.now - came).sum(), rel=1e-12)


def test_a_start_gives_new_patience(table: ringbco.JobTable) -> None:
    env = ReplayEnv(table, CLUSTER, episode_jobs=WINDOW)
    seen, _ = env.reset(seed=2)
    while seen["waiting"][0] < WINDOW:
        seen, *_ = env.step(16)
    for _ in range(3):  # the job that starts ends, and the waits begin anew
        assert not any(env.step(16)[3] for _ in range(PATIENCE - 1))
        left = env.step(0)[0]["waiting"][0]
        while env.simulation.state.running.size:
            assert env.step(99)[0]["waiting"][0] == left


def test_a_virtual_cluster_alone() -> None:
    cluster = Cluster.from_groups([ServerGroup(2, 8, vc="x"), ServerGroup(1, 4, vc="y")])
    frame = ringbco.generate("philly", 200, seed=1, gpus=30).frame.with_columns(
        vc=pl.Series(["x", "y", "y", "x"] * 50)
    )
    env = ReplayEnv(
        ringbco.from_frame(frame), cluster, vc="y", episode_jobs=100, visible_jobs=100, clairvoyant=True
    )
    assert env.observation_space["servers"].high.tolist() == [[4, 4]]  # type: ignore[index]
    assert run(env, sjf)[2]
    preset = ringbco.replay(frame, cluster, policy="sjf", placement="consolidate")
    mine = env.simulation.outcome().jobs.select(preset.jobs.columns)
    assert_frame_equal(mine, preset.jobs.filter(pl.col("vc") == "y"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"episode_jobs": 601}, "option episode_jobs: 601: expected an integer from 1 to 600"),
        ({"episode_jobs": 4, "visible_jobs": 5}, "option visible_jobs: 5: expected an integer from 1 to 4"),
        ({"clairvoyant": 1}, "option clairvoyant: 1: expected True or False"),
        ({"vc": "z"}, "option vc: 'z': expected None: the cluster has no virtual clusters"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, Any], said: str, table: ringbco.JobTable) -> None:
    with pytest.raises(ringbco.errors.UsageError) as raised:
        ReplayEnv(table, CLUSTER, **options)
    assert str(raised.value) == said


def test_the_trace_warns_once() -> None:
    """Times that look like milliseconds: a window of them does not say so again."""
    frame = ringbco.generate("philly", 200, seed=1, gpus=64).frame
    slow = ringbco.from_frame(frame.with_columns(pl.col("submit_time", "duration") * 1000))
    with pytest.warns(ringbco.errors.RingbcoWarning):
        env = ReplayEnv(slow, CLUSTER, episode_jobs=150)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.reset(seed=0)


def test_gymnasium_is_needed_by_this_module_alone() -> None:
    code = (
        "import sys; sys.modules['gymnasium'] = None\n"
        "import ringbco; ringbco.Simulation\n"
        "try:\n    import ringbco.gym\nexcept ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "ringbco.gym: the package gymnasium is not installed: pip install 'ringbco[gym]'\n"
    )
