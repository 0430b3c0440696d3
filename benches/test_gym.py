"""How many steps a second an agent gets of the environment, and what a reset costs; `make bench`."""

from __future__ import annotations

import time
from itertools import count

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from ringbco.gym import ReplayEnv
from ringbco.trace.synthetic import generate

STEPS = 10_000
LEAST = 10_000
"""Steps a second on one core, resets included."""


@pytest.fixture(scope="module")
def env() -> ReplayEnv:
    """Episodes of 200 jobs on 64 GPUs."""
    return ReplayEnv(generate("philly", 20_000, 4, gpus=64, load=1.2), "8x8", clairvoyant=True)


def shortest(jobs: np.ndarray) -> int:
    return int(np.where(jobs[:, 1] > 0, jobs[:, 2], np.inf).argmin())


@pytest.mark.parametrize("agent", ["random", "sjf"])
def test_steps(env: ReplayEnv, agent: str, benchmark: BenchmarkFixture) -> None:
    """The agent's own time included. CPU time: others on the machine do not count."""
    spent = []
    drawn = np.random.default_rng(0).integers(env.action_space.n, size=STEPS)

    def run() -> None:
        began = time.thread_time()
        seen, _ = env.reset(seed=0)
        for step in range(STEPS):
            action = drawn[step] if agent == "random" else shortest(seen["jobs"])
            seen, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                seen, _ = env.reset()
        spent.append(time.thread_time() - began)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    each_second = STEPS / min(spent)
    benchmark.extra_info["steps_a_second"] = each_second
    print(f"{agent}: {each_second:,.0f} steps a second")
    assert each_second >= LEAST


@pytest.mark.parametrize("window", [200, 5000])
def test_reset(window: int, benchmark: BenchmarkFixture) -> None:
    env = ReplayEnv(generate("philly", 20_000, 4, gpus=64, load=1.2), "8x8", episode_jobs=window)
    seeds = count()
    benchmark(lambda: env.reset(seed=next(seeds)))
