"""docs/gym.md: each block runs, and prints what the page says."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import ringbco
from ringbco.gym import IDLE_WAIT, PATIENCE, ReplayEnv
from test_custom_policy_docs import run_page

PAGE = Path(__file__).parents[2] / "docs" / "gym.md"


def test_every_block_of_the_page_does_what_it_says() -> None:
    run_page(PAGE)


@pytest.mark.parametrize("clairvoyant", [False, True])
def test_the_tables_and_the_limits_are_right(clairvoyant: bool) -> None:
    page = PAGE.read_text(encoding="utf-8")
    jobs = ringbco.generate("philly", 300, seed=1, gpus=64)
    env = ReplayEnv(jobs, "3x8", clairvoyant=clairvoyant)
    seen, _ = env.reset(seed=0)
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", page, re.MULTILINE))
    sizes = {"K": 16, "servers": 3}
    for name, values in seen.items():
        shapes = [
            tuple(sizes.get(size) or int(size) for size in re.findall(r"\w+", shape))
            for shape in re.findall(r"\((.*?)\)", told.pop(name))
        ]
        assert values.shape == shapes[-1 if clairvoyant else 0]
        assert values.dtype == np.float64
    assert not told
    assert env.jobs.num_jobs == 200
    assert f"a wait takes {IDLE_WAIT:.0f} s. After {PATIENCE:,} consecutive waits" in " ".join(page.split())
