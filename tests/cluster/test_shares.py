"""Shares of a GPU: the column, what is refused, what a result says of them, interference by hand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import ringbco
from conftest import Invoke
from ringbco.errors import InputError, UsageError
from ringbco.reports.server_load import spanning_stays
from ringbco.trace.shares import thousandths
from sharing import FIXED, jobs

ROOT = Path(__file__).parents[2]
EXAMPLE = re.search(
    r"```\n(job_id,.*?)```", (ROOT / "docs" / "shares.md").read_text(encoding="utf-8"), re.DOTALL
)


def test_shares_are_thousandths() -> None:
    given = [0.5, 0.4996, 0.0001, 0.9996, 1.0, None, 0.0015, 0.0025]
    frame = jobs(*[(0.0, 1, 1.0, share) for share in given])
    result = thousandths(frame)
    assert result is not None
    assert result.tolist() == [500, 500, 1, 0, 0, 0, 2, 2]
    assert thousandths(frame.filter(pl.col("gpu_share") == 1.0)) is None
    assert thousandths(frame.drop("gpu_share")) is None


@pytest.mark.parametrize(
    ("rows", "more", "said"),
    [
        (
            [(0, 1, 1, 0.5), (0, 1, 1, 1.5)],
            {},
            "row 2, column gpu_share: 1.5: expected a share of one GPU > 0 and",
        ),
        ([(0, 1, 1, 0.0)], {}, "row 1, column gpu_share: 0: expected a share of one GPU > 0"),
        ([(0, 1, 1, -0.5)], {}, "row 1, column gpu_share: -0.5: expected a share of one GPU > 0"),
        ([(0, 1, 1, float("nan"))], {}, "row 1, column gpu_share: NaN: expected a share of one GPU > 0"),
        ([(0, 2, 1, 0.5)], {}, "row 1, column gpu_share: 0.5: expected a share only where num_gpus is 1"),
        (
            [(0, 1, 1, 0.5)],
            {"max_gpus": 4},
            "expected a share only where max_gpus is 1; this row has max_gpus 4",
        ),
    ],
)
def test_what_is_no_share(rows: list[Any], more: dict[str, int], said: str) -> None:
    frame = jobs(*rows).with_columns(**{name: pl.lit(value) for name, value in more.items()})
    with pytest.raises(InputError) as caught:
        ringbco.from_frame(frame)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"placement": "least-loaded"}, "option placement: least-loaded: expected one of first-fit,"),
        ({"policy": "sjf-bco", "placement": None}, "option placement: sjf-bco: expected one of"),
        ({"queue": "easy"}, "option queue: easy: expected strict or skip"),
    ],
)
def test_who_gives_no_shares(options: dict[str, Any], said: str) -> None:
    given = {name: value for name, value in {**FIXED, **options}.items() if value is not None}
    with pytest.raises(UsageError) as caught:
        ringbco.replay(jobs((0, 1, 1, 0.5)), "1x2", **given)
    assert said in str(caught.value)
    assert "without its gpu_share each takes a whole one" in str(caught.value)


def test_plans_give_no_shares() -> None:
    with pytest.raises(UsageError, match="a plan gives no shares"):
        ringbco.plan(jobs((0, 1, 1, 0.5)), "1x2", model="fixed")


def test_without_shares_nothing_changes() -> None:
    frame = jobs((0, 2, 10, None), (0, 1, 20, 1.0), (5, 1, 5, 0.9999), (6, 4, 5, None))
    shared, plain = (ringbco.replay(table, "2x4", **FIXED) for table in (frame, frame.drop("gpu_share")))
    for name in ("jobs", "allocations", "timeline"):
        assert_frame_equal(getattr(shared, name), getattr(plain, name))


def test_the_example_of_the_page(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert EXAMPLE is not None
    (tmp_path / "small.csv").write_text(EXAMPLE[1])
    page = (ROOT / "docs" / "shares.md").read_text(encoding="utf-8")
    command = re.search(r"`ringbco (replay small\.csv .*?)`", page, re.DOTALL)
    assert command is not None
    assert invoke(*command[1].split()).returncode == 0
    rows = pl.read_parquet(tmp_path / "small" / "allocations.parquet").rows()
    for row in rows:
        cells = ["" if cell is None else cell if isinstance(cell, str) else f"{cell:g}" for cell in row]
        assert f"\n{','.join(cells)}\n" in page
    assert len(rows) == 6


def test_a_result_counts_shares_as_parts() -> None:
    frame = jobs((0, 1, 100, 0.25), (0, 1, 100, 0.5), (0, 1, 50, None), (0, 2, 10, None))
    outcome = ringbco.replay(frame, "1x4", **FIXED)
    assert outcome.allocations is not None
    assert outcome.allocations["num_gpus"].to_list() == [1] * 5
    assert outcome.allocations["gpu"].to_list() == [0, 0, 1, 2, 3]
    assert outcome.allocations["share"].to_list() == [0.25, 0.5, None, None, None]
    assert outcome.jobs["gpu_share"].to_list() == [0.25, 0.5, None, None]
    assert outcome.summary["utilisation"] == (25 + 50 + 50 + 20) / 400
    # 0.75 + 1 + 2 GPUs at first, then 0.75: rounded to whole ones.
    assert outcome.timeline["busy_gpus"].to_list()[:2] == [4, 4]
    assert outcome.timeline["busy_gpus"][1500] == 1


def test_shares_beside_elastic_jobs_count_as_parts() -> None:
    # 10 s of one GPU and 10 s of a tenth of another, in 10 s on 6 GPUs.
    both = jobs((0.0, 1, 10.0, None), (0.0, 1, 10.0, 0.1))
    both = both.with_columns(max_gpus=pl.Series([2, None], dtype=pl.UInt32))
    result = ringbco.replay(both, "1x6", policy="tiresias", model="fixed")
    assert result.jobs["held_gpu_time"].to_list() == [10.0, 1.0]
    assert result.summary["utilisation"] == pytest.approx(11.0 / 60.0)
    assert ringbco.audit(result, both) == []


def test_waits_are_for_room() -> None:
    # c waits with 0.6 idle in two pieces, d wants more than that. From 10 s on 0.9 are idle in two.
    frame = jobs((0, 1, 10, 0.7), (0, 1, 20, 0.7), (0, 1, 5, 0.4), (0, 1, 5, 0.7))
    outcome = ringbco.replay(frame, "1x2", **FIXED, queue="skip")
    waits = outcome.jobs.select("wait_time", "wait_gpus", "wait_fragmented").rows()
    assert waits == [(0, 0, 0), (0, 0, 0), (10, 0, 10), (15, 10, 5)]


def test_interference_by_hand() -> None:
    frame = jobs((0, 1, 100, 0.5), (40, 1, 10, 0.25), (45, 1, 10, 0.25))
    alone = ringbco.replay(frame, "1x1", **FIXED)
    assert alone.jobs["finish_time"].to_list() == [100, 50, 55]
    outcome = ringbco.replay(frame, "1x1", **FIXED, interference=1.0)
    # b: 5 s at 1/2, then at 1/3 until done 7.5 units later: 22.5 s. c: 7.5 of its 10 by then, then at 1/2.
    # a: 40 + 2.5 + 7.5 at 67.5 s, then 2.5 units beside c (5 s), then 47.5 alone.
    assert outcome.jobs["finish_time"].to_list() == pytest.approx([120.0, 67.5, 72.5])
    assert outcome.jobs["run_contention"].to_list() == pytest.approx([20.0, 17.5, 17.5])
    assert outcome.jobs["run_spread"].to_list() == [0, 0, 0]


def test_whole_slots_of_shares() -> None:
    frame = jobs((0, 1, 1, 0.5), (0, 1, 1, 0.5)).with_columns(
        iterations=pl.lit(10), gradient_bytes=pl.lit(0.0), batch_size=pl.lit(1),
        fp_time=pl.lit(0.25), bp_time=pl.lit(0.0),
    )  # fmt: skip
    options = {"policy": "fifo", "clock": "slot", "slot": 1.0}
    ends = {
        x: ringbco.replay(frame, "1x1", **options, interference=x).jobs["finish_time"].to_list()
        for x in (0.0, 0.5)
    }
    # Four iterations of 0.2505 s do not fit in a second, three do; of 0.37575 s two.
    assert ends == {0.0: [4, 4], 0.5: [5, 5]}


def test_fgd_keeps_pairs_of_gpus_together() -> None:
    # The example of the page: after the gang of 3 a lone empty GPU is left, and a pair on the next server.
    frame = jobs((0, 3, 9, None), (0, 2, 9, None), (1, 1, 9, 0.3), (1, 1, 9, 0.3), (1, 2, 9, None))
    outcome = ringbco.replay(frame, "2x4", policy="fifo", placement="fgd", model="fixed")
    assert outcome.allocations is not None
    places = outcome.allocations.select("job_id", "server", "gpu").rows()
    assert [place for place in places if place[0] in "cd"] == [("c", 0, 3), ("d", 0, 3)]
    assert outcome.jobs["wait_time"].to_list() == [0] * 5


def test_the_bound_takes_a_share_for_its_part() -> None:
    # Four halves of 100 s pack into two GPUs: nobody waits.
    frame = jobs(*[(0, 1, 100, 0.5)] * 4)
    assert ringbco.bound(frame, "1x2", model="fixed").mean_jct == 100
    assert ringbco.replay(frame, "1x2", **FIXED).summary["mean_jct"] == 100
    assert ringbco.bound(frame.drop("gpu_share"), "1x2", model="fixed").mean_jct == 150


def test_types_give_shares_one_after_the_other() -> None:
    types = '[[servers]]\ngpus = 1\ngpu_type = "V100"\n[[servers]]\ngpus = 1\ngpu_type = "T4"\n'
    machine = ringbco.Cluster.from_document(tomllib.loads(types), "c.toml")
    frame = jobs((0, 1, 10, 0.6), (0, 1, 10, 0.6), (0, 1, 10, 0.4)).with_columns(
        gpu_type=pl.Series(["V100|T4", "V100|T4", "T4"]), recorded_on=pl.lit("V100")
    )
    outcome = ringbco.replay(frame, machine, **FIXED)
    assert outcome.allocations is not None
    assert outcome.allocations["server"].to_list() == [0, 1, 1]
    hours = {row["gpu_type"]: row["gpu_hours"] for row in outcome.summary["gpu_types"]}
    run = outcome.jobs["run_time"].to_numpy()
    assert hours["V100"] == pytest.approx(0.6 * run[0] / 3600)
    assert hours["T4"] == pytest.approx(np.dot([0.6, 0.4], run[1:]) / 3600)


def test_a_report_and_a_trace_show_shares(tmp_path: Path, invoke: Invoke) -> None:
    frame = jobs((0, 1, 100, 0.5), (0, 1, 100, 0.5), (0, 2, 10, None), (0, 4, 10, None))
    outcome = ringbco.replay(frame, "2x2", **FIXED)
    outcome.write(tmp_path / "r")
    assert outcome.allocations is not None
    # Only the gang of 4 is on two servers; each of them has one row.
    spanning = spanning_stays(outcome.allocations)
    assert spanning.select("job_id", "server").rows() == [("d", 0), ("d", 1)]
    assert invoke("report", str(tmp_path / "r"), "-o", str(tmp_path / "r.html")).returncode == 0
    assert invoke("timeline", str(tmp_path / "r"), "-o", str(tmp_path / "r.json")).returncode == 0
