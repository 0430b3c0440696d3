"""Environments side by side, by gymnasium.vector: rewards are those of each finished episode."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

import ringbco
from ringbco.gym import ReplayEnv

SHOWN = 4


class Told(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells the summed JCT of an episode that has terminated."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, told = self.env.step(action)
        env = self.unwrapped
        assert isinstance(env, ReplayEnv)
        total = env.simulation.outcome().jobs["jct"].sum() if terminated else np.nan
        return seen, reward, terminated, truncated, told | {"total_jct": total}


def made(jobs: ringbco.JobTable, outages: pl.DataFrame) -> gymnasium.Env[Any, Any]:
    return Told(ReplayEnv(jobs, "2x8", window=8, shown=SHOWN, outages=outages))


def makers(number: int) -> list[Any]:
    jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
    last = float(jobs.frame["submit_time"].to_numpy().max())
    down = np.linspace(0.0, 2 * last, 20)
    outages = pl.DataFrame({"server": [0, 1] * 10, "down_at": down, "up_at": down + 300.0})
    return [partial(made, jobs, outages)] * number


def finish_episodes(envs: VectorEnv[Any, Any, Any], mode: AutoresetMode, steps: int) -> int:
    """Random steps. Returns how many episodes have terminated, the rewards of each being what they must."""
    rng = np.random.default_rng(1)
    sums, finished = np.zeros(envs.num_envs), 0
    _, told = envs.reset(seed=3)
    assert told["rows"].shape == (envs.num_envs, SHOWN)
    over = np.zeros(envs.num_envs, bool)
    for _ in range(steps):
        if mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
        _, rewards, terminated, truncated, told = envs.step(rng.integers(0, SHOWN + 1, envs.num_envs))
        over = terminated | truncated
        sums += rewards
        last = told["final_info"] if mode is AutoresetMode.SAME_STEP and over.any() else told
        for env in np.flatnonzero(terminated):
            assert -sums[env] == pytest.approx(last["total_jct"][env], rel=1e-9)
            finished += 1
        sums[over] = 0.0
    return finished


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_in_one_process(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv(makers(3), autoreset_mode=mode)
    assert finish_episodes(envs, mode, 150) > 5


def test_environments_in_processes_of_their_own() -> None:
    mode = AutoresetMode.NEXT_STEP
    envs = AsyncVectorEnv(makers(2), context="spawn", autoreset_mode=mode)
    try:
        assert finish_episodes(envs, mode, 120) > 1
    finally:
        envs.close()


@pytest.mark.long
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_in_processes_of_their_own_for_long(mode: AutoresetMode) -> None:
    envs = AsyncVectorEnv(makers(3), context="spawn", autoreset_mode=mode)
    try:
        assert finish_episodes(envs, mode, 500) > 15
    finally:
        envs.close()


def test_gymnasium_makes_them_by_name() -> None:
    jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
    options = {"jobs": jobs, "cluster": "2x8", "window": 8, "shown": SHOWN}
    envs = gymnasium.make_vec("ringbco/Replay-v0", num_envs=2, vectorization_mode="sync", **options)
    assert envs.reset(seed=0)[1]["rows"].shape == (2, SHOWN)


FORKED = """
import multiprocessing
import ringbco
from gymnasium.vector import AsyncVectorEnv
from ringbco.gym import ReplayEnv

jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
envs = AsyncVectorEnv([lambda: ReplayEnv(jobs, "2x8", window=8, shown=4)] * 2, context="fork")
try:
    envs.reset(seed=0)
except ringbco.errors.ForkedError as error:
    print(error)
"""


def test_processes_that_were_forked_are_refused_in_one_line() -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == (
        "this process was forked from one in which polars had worked, and has none of polars' threads:"
        " start processes by spawn or forkserver, for example by multiprocessing.get_context('spawn')\n"
    )
