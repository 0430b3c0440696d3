"""Sweeps of job tables, frames and clusters that are objects of Python's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.run.replay import replay
from ringbco.sweeps.executors import ProcessExecutor
from ringbco.sweeps.objects import content
from ringbco.sweeps.run import sweep
from ringbco.sweeps.spec import read_spec
from ringbco.trace.jobs import JobTable, from_frame, read_jobs

SLOW = Cluster.parse("2x8").with_network(inter_bandwidth=1e8)


def specification(trace: Any, cluster: Any = "2x8", **grid: list[Any]) -> dict[str, Any]:
    return {"base": {"trace": trace, "cluster": cluster}, "grid": {"policy": ["fifo", "rand"], **grid}}


def test_a_table_and_a_cluster_give_what_replay_gives(small_jobs: Path, tmp_path: Path) -> None:
    table = read_jobs(small_jobs)
    made = sweep(specification(table, SLOW, seed=[0, 1]), tmp_path / "out")
    assert (made.frame.height, made.failed, made.kept) == (4, 0, 0)
    for row in made.frame.iter_rows(named=True):
        alone = replay(table, SLOW, policy=row["policy"], seed=row["seed"]).summary
        assert row["mean_jct"] == alone["mean_jct"]
        assert (row["trace"], row["cluster"], row["inter_bandwidth"]) == (str(small_jobs), "2x8", 1e8)


def test_equal_content_is_not_run_again(small_jobs: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(small_jobs)
    first = sweep(specification(frame, SLOW), tmp_path / "out")
    assert (first.kept, first.done) == (0, 2)
    same = pl.concat([frame.head(3), frame.tail(4)], rechunk=False).to_arrow()  # other memory, other library
    equal = Cluster.parse("2x8").with_network(inter_bandwidth=1e8)
    again = sweep(specification(same, equal), tmp_path / "out")
    assert (again.kept, again.done) == (2, 0)
    assert again.frame.equals(first.frame)
    longer = frame.with_columns(duration=pl.col("duration") + (pl.col("job_id") == "g"))
    other = sweep(specification(longer, SLOW), tmp_path / "out")
    assert (other.kept, other.done) == (0, 2)
    wider = sweep(specification(frame, SLOW.with_network(alpha=0.5)), tmp_path / "out")
    assert (wider.kept, wider.done) == (0, 2)


def test_content_is_of_the_columns_that_are_known(small_jobs: Path) -> None:
    table = read_jobs(small_jobs)
    first = content(table)
    assert content(replace(table, source="another name", metadata={"ringbco.epoch": "x"})) == first
    frame = table.frame
    assert content(from_frame(frame.with_columns(remark=pl.lit("mine")))) == first
    assert content(from_frame(frame.select(reversed(frame.columns)))) == first
    changed: list[pl.DataFrame] = [
        frame.reverse(),
        frame.head(6),
        frame.with_columns(num_gpus=pl.col("num_gpus") + 1),
        frame.with_columns(user=pl.lit("ann")),
        frame.with_columns(user=pl.lit(None, pl.String)),
        frame.with_columns(user=pl.lit("")),
        frame.with_columns(deadline=pl.lit(0.0)),
        frame.with_columns(deadline=pl.lit(None, pl.Float64)),
        # The same letters, parted elsewhere.
        frame.with_columns(user=pl.Series(["ab", "c", *"ddddd"])),
        frame.with_columns(user=pl.Series(["a", "bc", *"ddddd"])),
    ]
    keys = {content(JobTable(one, "x", {})) for one in changed}
    assert len(keys | {first}) == len(changed) + 1


def test_names_tell_objects_apart(small_jobs: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(small_jobs)
    half = frame.with_columns(pl.col("duration") / 2)
    unnamed = replace(SLOW, name="")
    spec = {
        "base": {"policy": "fifo"},
        "grid": {"trace": [frame, half, small_jobs, frame.clone()], "cluster": ["2x8", SLOW, unnamed]},
    }
    made = sweep(spec, tmp_path / "out")
    traces = ["<frame>", "<frame> [2]", str(small_jobs), "<frame>"]
    clusters = ["2x8", "2x8 [2]", "2 servers"]
    assert made.frame.select("trace", "cluster").rows() == [(t, c) for t in traces for c in clusters]
    assert json.loads((tmp_path / "out/sweep.json").read_text())["spec"] == {
        "base": {"policy": "fifo"},
        "grid": {"trace": traces, "cluster": clusters},
    }
    # A path is known by its bytes, a frame by its content: the same jobs are run for each.
    assert made.done == 6
    assert made.frame["mean_jct"].n_unique() == 2  # half the run times, half the completion times


def test_objects_can_be_scaled_listed_and_planned(small_jobs: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(small_jobs)
    spec = {
        "command": "plan",
        "base": {"trace": frame, "cluster": "2x8", "slot": 30.0},
        "runs": [{"cluster": SLOW}, {"trace": frame.head(3), "recorded_cluster": SLOW}],
    }
    made = sweep(spec, tmp_path / "plans")
    assert made.failed == 0
    assert made.frame["jobs"].to_list() == [7, 3]
    loaded = sweep(specification(frame, load=[0.5, 2.0]), tmp_path / "loads")
    assert loaded.frame["mean_wait"].n_unique() > 1


@pytest.mark.parametrize("scattered", [False, True])
def test_objects_travel_to_processes(small_jobs: Path, tmp_path: Path, scattered: bool) -> None:
    spec = specification(pl.read_csv(small_jobs), SLOW)
    here = sweep(spec, tmp_path / "here")
    pool = ThreadPoolExecutor(2) if scattered else ProcessExecutor(1)
    with pool:
        there = sweep(
            spec, tmp_path / "there", executor=pool, scatter=(lambda trace: trace) if scattered else None
        )
    drop = ["engine_seconds", "total_seconds", "jobs_per_second"]
    assert there.frame.drop(drop).equals(here.frame.drop(drop))


def test_what_is_no_table_or_cluster_is_named(small_jobs: Path) -> None:
    with pytest.raises(InputError, match=r"base\.trace: 3: expected the path of a job table"):
        read_spec(specification(3))
    with pytest.raises(InputError, match=r"base\.cluster: 3: expected SxG such as 32x8"):
        read_spec(specification(small_jobs, 3))
    with pytest.raises(InputError, match="num_gpus"):
        read_spec(specification(pl.read_csv(small_jobs).drop("num_gpus")))
    with pytest.raises(InputError, match="a list of at least one value"):
        read_spec({"base": {"cluster": "2x8"}, "grid": {"trace": pl.read_csv(small_jobs)}})
