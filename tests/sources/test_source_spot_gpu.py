"""spot-gpu: gangs of workers, fractions rounded up."""

from __future__ import annotations

from pathlib import Path

import pytest

import ringbco
from raw import spot_gpu
from raw.agreement import converted
from ringbco.errors import InputError
from ringbco.sources import convert
from ringbco.sources.source import Options
from ringbco.sources.spot_gpu import SOURCE


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    result = converted("spot-gpu", spot_gpu.generate(seed), tmp_path, want_cluster=True)
    assert result.cluster is not None
    assert result.cluster.server_gpus.tolist() == [4, 1, 1, 8]
    assert result.cluster.server_gpu_type == ("GPU-series-1", "A10", "A10", "A100-SXM4-80GB")


def test_the_published_examples_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    path.write_text(
        ",".join(spot_gpu.COLUMNS)
        + "\n239255,13,A10,20,1,1,0,2764799,HP\n437261,57,A100-SXM4-80GB,15,1,94,9589663,71718,Spot\n"
    )
    result = convert("spot-gpu", [path], Options(strict=True))
    assert result.table.frame.rows() == [
        ("239255", 0.0, 1, 2_764_799.0, "13", "A10", 1, False, "HP", 1.0, 1, 1.0),
        ("437261", 9_589_663.0, 94, 71_718.0, "57", "A100-SXM4-80GB", 0, True, "Spot", 1.0, 94, 94.0),
    ]
    path.write_text(",".join(spot_gpu.COLUMNS) + "\n1,13,A10,20,1,1.5,0,27,HP\n")
    with pytest.raises(InputError) as caught:
        convert("spot-gpu", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 1 (line 2), column worker_num: 1.5: expected a whole number of workers, 1 or more; "
        "without --strict: dropped, worker_num missing or not a whole number above 0"
    )


@pytest.mark.parametrize(
    ("per_worker", "workers", "gpus"),
    [("0.1", 30, 3), ("0.1", 3, 1), ("0.7", 10, 7), ("0.333333", 3, 1), ("0.25", 5, 2), ("0.0000001", 1, 1)],
)
def test_noise_of_fractions_adds_no_gpu(per_worker: str, workers: int, gpus: int, tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    path.write_text(",".join(spot_gpu.COLUMNS) + f"\n1,13,A10,20,{per_worker},{workers},0,27,HP\n")
    assert convert("spot-gpu", [path]).table.frame["num_gpus"].to_list() == [gpus]


def test_more_gpus_than_a_table_can_hold_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    rows = ["1,13,A10,20,8,1000000000,0,27,HP", "2,13,A10,20,1,1e30,0,27,HP", "3,13,A10,20,1,1,0,27,HP"]
    path.write_text("\n".join([",".join(spot_gpu.COLUMNS), *rows]))
    assert convert("spot-gpu", [path]).account.dropped == {"more than 4,294,967,295 GPUs": 2}


def test_high_priority_goes_before_spot_and_evicts_it(tmp_path: Path) -> None:
    """By the account and by a replay: a spot job holds all, and the high-priority one takes its place."""
    path = tmp_path / "job_info_df.csv"
    rows = [
        "s,1,A10,8,8,1,0,100,Spot",
        "h,1,A10,8,8,1,10,50,HP",
        "b,1,A10,8,8,1,20,7,",
        "n,1,A10,8,8,1,30,7,none",
    ]
    path.write_text("\n".join([",".join(spot_gpu.COLUMNS), *rows]))
    result = convert("spot-gpu", [path])
    assert result.account.noted == {spot_gpu.UNKNOWN: 2}
    frame = result.table.frame
    assert frame["priority"].to_list() == [0, 1, None, None]
    assert frame["preemptible"].to_list() == [True, False, None, None]
    done = ringbco.replay(result.table, "1x8", policy="fifo", model="fixed", evict=True, preempt_cost=0.0)
    assert done.jobs["finish_time"].to_list() == [150.0, 60.0, 157.0, 164.0]
    assert done.jobs["evictions"].to_list() == [1, 0, 0, 0]


def test_a_list_without_job_types(tmp_path: Path) -> None:
    path = tmp_path / "job_info_df.csv"
    path.write_text(",".join(spot_gpu.COLUMNS[:-1]) + "\n1,13,A10,20,1,1,0,27\n")
    frame = convert("spot-gpu", [path]).table.frame
    assert frame.select("priority", "preemptible").rows() == [(None, None)]


def test_the_source_names_the_data_set_as_upstream_does() -> None:
    assert SOURCE.url.endswith("/cluster-trace-v2026-spot-gpu")
    page = (Path(__file__).parents[2] / "docs" / "sources" / "spot-gpu.md").read_text(encoding="utf-8")
    assert SOURCE.url in page
