"""What a report shows of shares of a GPU: how full GPUs are, and jobs and their waits by share."""

import random
from collections import defaultdict
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import ringbco
from ringbco.reports.data_time import FULLNESS, fill
from ringbco.reports.figures import chapters
from ringbco.reports.series import MOST_BESIDE, Figure
from ringbco.result.outcome import Outcome
from sharing import FIXED, jobs, random_jobs


@pytest.fixture(scope="module")
def small() -> Outcome:
    """The example of docs/shares.md; its allocations are there."""
    frame = jobs((0, 1, 100, 0.6), (0, 1, 100, 0.5), (0, 2, 50, None), (10, 1, 100, 0.4), (10, 1, 40, 0.3))
    return ringbco.replay(frame, "1x4", interference=0.5, **FIXED)


@pytest.fixture(scope="module")
def random_outcome() -> Outcome:
    return ringbco.replay(random_jobs(random.Random(5), share=0.8), "3x4", policy="srtf", placement="fgd")


def figures(results: dict[str, Outcome]) -> dict[str, Figure]:
    chapter = next(chapter for chapter in chapters(results) if chapter.title == "Shares of a GPU")
    return {figure.name: figure for figure in chapter.figures}


def test_fill_by_hand(small: Outcome) -> None:
    """GPU 0: 0.6, full from 10 to 145 s, then 0.4; GPU 1: 0.5, 0.8 from 10 to 70 s; GPUs 2 and 3 to 50 s."""
    result = fill(small, np.array([0.0, 10.0, 50.0, 70.0, 120.0, 140.0, 160.0]))
    wanted = [
        [2.0, 3.0, 1.0, 1.0, 1.0, 0.25],
        [1.1, 0.8, 0.8, 0.5, 0.0, 0.4 / 2],
        [0.9, 0.2, 0.2, 0.5, 0.0, 0.6 / 2],
        [0.0, 0.0, 2.0, 2.0, 3.0, 3.25],
    ]
    assert result == pytest.approx(np.array(wanted), abs=1e-6)


def test_fill_is_what_the_allocations_hold(random_outcome: Outcome) -> None:
    """GPU by GPU and second by second, in intervals that begin and end anywhere."""
    assert random_outcome.allocations is not None
    rows = random_outcome.allocations.with_columns(pl.col("share").fill_null(1.0)).rows(named=True)
    last = max(row["end_time"] for row in rows)
    edges = np.linspace(-7.0, last * 1.1, 23)
    result = fill(random_outcome, edges)
    assert (result >= 0).all()
    assert result.sum(axis=0) == pytest.approx(np.full(22, 12.0), abs=1e-5)
    instants = sorted({*edges.tolist(), *(row[end] for row in rows for end in ("start_time", "end_time"))})
    wanted = np.zeros((3, 22))
    for begin, end in pairwise(instants):
        held: dict[tuple[int, int], float] = defaultdict(float)
        for row in rows:
            if row["start_time"] <= begin and row["end_time"] >= end:
                held[row["server"], row["gpu"]] += row["share"]
        interval = np.searchsorted(edges, begin, side="right") - 1
        if 0 <= interval < 22:
            part = (end - begin) / (edges[1] - edges[0])
            for share in held.values():
                full = share > 0.9999
                wanted[:, interval] += part * np.array([full, 0 if full else share, 0 if full else 1 - share])
    assert result[:3] == pytest.approx(wanted, abs=1e-4)
    assert (wanted.max(axis=1) > 0.1).all()


def test_charts_of_a_page(small: Outcome) -> None:
    result = figures({"a": small, "b": small})
    assert list(result) == ["shares-fill-1", "shares-fill-2", "shares-jobs", "shares-waits"]
    data = result["shares-fill-1"].data
    assert data.height == 97 * len(FULLNESS)
    assert data.group_by("day").agg(pl.col("gpus").sum())["gpus"].to_list() == pytest.approx([4.0] * 97)
    drawn = result["shares-jobs"].data.filter(pl.col("policy") == "b")
    assert dict(drawn.select("group", "jobs").iter_rows()) == {
        "0.3": 1,
        "0.4": 1,
        "0.5": 1,
        "0.6": 1,
        "whole": 1,
    }


def test_waits_are_means_of_a_class() -> None:
    """The second of two that ask for 0.31 and 0.4 waits 36 s for the first; 0.95 is less than a whole GPU."""
    frame = jobs((0, 1, 36, 0.95), (0, 1, 36, 0.31), (0, 1, 36, 0.4), (0, 1, 36, None))
    made = ringbco.replay(frame, "1x1", **FIXED)
    drawn = figures({"a": made})["shares-waits"].data
    # The whole GPU waits for the two, which wait for the first.
    waits = {"0.4": 36.0, "< 1": 0.0, "whole": 72.0}
    assert dict(drawn.select("group", "waited").iter_rows()) == pytest.approx(waits)
    assert drawn["group"].to_list() == ["0.4", "< 1", "whole"]
    assert drawn["jobs"].to_list() == [2, 1, 1]


def test_many_results_are_bounded(small: Outcome) -> None:
    many = {f"r{number}": small for number in range(MOST_BESIDE + 1)}
    result = figures(many)
    assert len(result) == MOST_BESIDE + 2
    assert (
        f"Only the first {MOST_BESIDE} of {MOST_BESIDE + 1} results are shown."
        in result["shares-fill-1"].note
    )


def test_without_shares_or_allocations() -> None:
    alike = ringbco.replay(ringbco.generate("philly", 30, 1, gpus=16, load=0.9), "2x8", policy="fifo")
    assert all(chapter.title != "Shares of a GPU" for chapter in chapters({"fifo": alike}))
    frame = jobs((0, 1, 10, 0.5), (0, 1, 10, 0.5))
    bare = ringbco.replay(frame, "1x1", allocations=False, **FIXED)
    assert list(figures({"bare": bare, "other": alike})) == ["shares-jobs", "shares-waits"]
