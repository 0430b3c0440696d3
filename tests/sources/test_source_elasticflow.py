"""elasticflow: Microsoft's ITP clusters, whose servers nobody published."""

from __future__ import annotations

from pathlib import Path

import pytest

from raw import elasticflow
from raw.agreement import converted
from ringbco.errors import InputError, UsageError
from ringbco.sources import convert, recognise
from ringbco.sources.source import Options

HEADER = ",".join(elasticflow.COLUMNS)


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    converted("elasticflow", elasticflow.generate(seed), tmp_path)


def test_the_published_example_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "cluster06.csv"
    path.write_text(f"{HEADER}\n6b2d9ccc-6279-403c-e1a2-cfe7810d5c57,16566,3890,4\n")
    result = convert("elasticflow", [path], Options(strict=True))
    assert result.table.frame.rows() == [("6b2d9ccc-6279-403c-e1a2-cfe7810d5c57", 16_566.0, 4, 3_890.0)]
    assert result.epoch == "2021-03-04T00:00:00"
    assert "hour" in result.table.metadata["ringbco.epoch_note"]


def test_a_bad_cell_is_named_under_strict(tmp_path: Path) -> None:
    path = tmp_path / "cluster06.csv"
    path.write_text(f"{HEADER}\na,0,3890,1\nb,5,3890,1.5\n")
    with pytest.raises(InputError) as caught:
        convert("elasticflow", [path], Options(strict=True))
    assert str(caught.value) == (
        f"{path}: row 2 (line 3), column num_gpu: 1.5: expected a whole number of GPUs, 1 or more; "
        "without --strict: dropped, num_gpu missing or not a whole number of GPUs"
    )


def test_the_file_with_generated_columns_gives_the_same_jobs(tmp_path: Path) -> None:
    """The authors publish the same jobs with models and deadlines drawn at random: those are left aside."""
    path = tmp_path / "cluster06.csv"
    path.write_text(
        "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
        "6b2d9ccc,16566,40285,bert,21347,64,4,3890\n"
    )
    frame = convert("elasticflow", [path]).table.frame
    assert frame.rows(named=True) == [
        {"job_id": "6b2d9ccc", "submit_time": 16_566.0, "num_gpus": 4, "duration": 3_890.0}
    ]


def test_clusters_of_unpublished_size_are_refused(tmp_path: Path) -> None:
    [path] = elasticflow.generate().write(tmp_path)
    with pytest.raises(UsageError, match=r"does not say which servers .* sizes .* are not published"):
        convert("elasticflow", [path], Options(want_cluster=True))


def test_two_clusters_are_converted_one_by_one(tmp_path: Path) -> None:
    [path] = elasticflow.generate().write(tmp_path)
    with pytest.raises(UsageError, match="convert them one by one"):
        convert("elasticflow", [path, path])


def test_the_public_files_are_clean(shared_traces: Path) -> None:
    """Jobs and GPU-hours of the six files, counted apart from the converter."""
    rows = {"01": 1_595, "02": 5_778, "03": 3_011, "05": 3_629, "06": 2_396, "10": 260}
    for name, jobs in rows.items():
        path = shared_traces / "elasticflow" / f"cluster{name}.csv"
        assert recognise(path) == ("elasticflow", "an ElasticFlow list of jobs (clusterNN.csv)")
        result = convert("elasticflow", [path], Options(strict=True))
        assert result.table.num_jobs == jobs
        assert not result.account.dropped
        ends = result.table.frame["submit_time"] + result.table.frame["duration"]
        assert ends.max() <= 60 * 86_400.0
