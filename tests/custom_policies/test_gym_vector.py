"""Environments side by side, by gymnasium.vector: rewards are those of each finished episode."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
import polars as pl
import pytest
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

import ringbco
from ringbco.gym import ReplayEnv

SHOWN = 4


class JctRecorder(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells the summed JCT of an episode that has terminated."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        env = self.unwrapped
        assert isinstance(env, ReplayEnv)
        total = np.nan
        if terminated:  # an Outcome takes polars, which a process that was forked has not
            held = env.simulation
            finish = held._prepared.outcome([held._course]).tables["jobs"]["finish"]
            total = float((finish - held._setup.jobs["submit"]).sum())
        return seen, reward, terminated, truncated, info | {"total_jct": total}


def made(jobs: ringbco.JobTable, outages: pl.DataFrame) -> gymnasium.Env[Any, Any]:
    return JctRecorder(ReplayEnv(jobs, "2x8", episode_jobs=8, visible_jobs=SHOWN, outages=outages))


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
    _, info = envs.reset(seed=3)
    assert info["rows"].shape == (envs.num_envs, SHOWN)
    over = np.zeros(envs.num_envs, bool)
    for _ in range(steps):
        if mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
        _, rewards, terminated, truncated, info = envs.step(rng.integers(0, SHOWN + 1, envs.num_envs))
        over = terminated | truncated
        sums += rewards
        last = info["final_info"] if mode is AutoresetMode.SAME_STEP and over.any() else info
        for env in np.flatnonzero(terminated):
            assert -sums[env] == pytest.approx(last["total_jct"][env], rel=1e-9)
            finished += 1
        sums[over] = 0.0
    return finished


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_in_one_process(mode: AutoresetMode) -> None:
    envs = SyncVectorEnv(makers(3), autoreset_mode=mode)
    assert finish_episodes(envs, mode, 150) > 5


@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_environments_in_processes_of_their_own(start: str) -> None:
    mode = AutoresetMode.NEXT_STEP
    envs = AsyncVectorEnv(makers(2), context=start, autoreset_mode=mode)
    try:
        assert finish_episodes(envs, mode, 120) > 1
    finally:
        envs.close()


@pytest.mark.long
@pytest.mark.parametrize("start", ["spawn", "fork"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_environments_in_processes_of_their_own_for_long(mode: AutoresetMode, start: str) -> None:
    envs = AsyncVectorEnv(makers(3), context=start, autoreset_mode=mode)
    try:
        assert finish_episodes(envs, mode, 500) > 15
    finally:
        envs.close()


def test_gymnasium_makes_them_by_name() -> None:
    jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
    options = {"jobs": jobs, "cluster": "2x8", "episode_jobs": 8, "visible_jobs": SHOWN}
    envs = gymnasium.make_vec("ringbco/Replay-v0", num_envs=2, vectorization_mode="sync", **options)
    assert envs.reset(seed=0)[1]["rows"].shape == (2, SHOWN)


def test_gymnasium_makes_them_by_name_in_processes_that_it_forks() -> None:
    """Which is what it does by default on Linux, until Python 3.14."""
    jobs = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
    options = {"jobs": jobs, "cluster": "2x8", "episode_jobs": 8, "visible_jobs": SHOWN}
    kind: dict[str, Any] = {"vectorization_mode": "async", "vector_kwargs": {"context": "fork"}}
    envs = gymnasium.make_vec("ringbco/Replay-v0", num_envs=2, **kind, **options)
    alone = gymnasium.make_vec("ringbco/Replay-v0", num_envs=2, vectorization_mode="sync", **options)
    try:
        seen, expected = envs.reset(seed=5), alone.reset(seed=5)
        for step in range(60):
            np.testing.assert_equal(seen, expected)
            actions = np.array([step % (SHOWN + 1), step * step % (SHOWN + 1)])
            seen, expected = envs.step(actions), alone.step(actions)
    finally:
        envs.close()


def test_an_episode_calls_nothing_of_polars() -> None:
    env = ReplayEnv(
        ringbco.generate("philly", 60, seed=4, gpus=64),
        "2x8",
        episode_jobs=8,
        visible_jobs=SHOWN,
        clairvoyant=True,
    )
    called = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and f"{os.sep}polars{os.sep}" in frame.f_code.co_filename:
            called.add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        env.reset(seed=1)
        while not env.step(0)[2]:
            pass
        told = set(called)
        _ = env.jobs.frame.height  # which does
    finally:
        sys.setprofile(None)
    assert not told
    assert called


FORKED = """
import multiprocessing
import sys
import ringbco
from gymnasium.vector import AsyncVectorEnv
from ringbco.gym import ReplayEnv

table = ringbco.generate("philly", 60, seed=4, gpus=64, load=1.2)
ringbco.write_jobs(table, sys.argv[1])
given = {"path": lambda: sys.argv[1], "table": lambda: table, "frame": lambda: table.frame}
for name, jobs in (given | {"new": lambda: table.frame[:50]}).items():
    made = lambda: ReplayEnv(jobs(), "2x8", episode_jobs=8, visible_jobs=4)
    envs = AsyncVectorEnv([made] * 2, context="fork")
    try:
        print(name, envs.reset(seed=0)[1]["first"])
    except ringbco.errors.ForkedError as error:
        print(name, error)
"""


def test_processes_that_were_forked_know_what_their_parent_read(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKED, str(tmp_path / "jobs.parquet")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    *known, new = done.stdout.splitlines()
    env = ReplayEnv(tmp_path / "jobs.parquet", "2x8", episode_jobs=8, visible_jobs=4)
    first = [env.reset(seed=seed)[1]["first"] for seed in (0, 1)]
    assert known == [f"{name} [{first[0]} {first[1]}]" for name in ("path", "table", "frame")]
    assert new == (
        "new this process was forked from one in which polars had worked, and has none of"
        " polars' threads: start processes by spawn or forkserver, for example by"
        " multiprocessing.get_context('spawn')"
    )


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    for jobs in (60, 50):
        ringbco.write_jobs(ringbco.generate("philly", jobs, seed=4, gpus=64), path, force=True)
        with pytest.raises(ringbco.errors.UsageError, match=f"from 1 to {jobs}$"):
            ReplayEnv(path, "2x8", episode_jobs=61)
