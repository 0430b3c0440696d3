"""What `inspect` says of a job table, and of one whose rows break rules."""

from __future__ import annotations

import dataclasses
import gzip
import json
import re
import tarfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import polars as pl
import pytest

from conftest import Invoke
from raw import philly
from ringbco.cluster.spec import Cluster
from ringbco.sources import SOURCES, get
from ringbco.study.inspection import inspect_jobs
from ringbco.trace.jobs import from_frame, provenance, read_jobs, screen_jobs, write_jobs

RunCli = Callable[..., "CompletedProcess[str]"]

JOBS = pl.DataFrame(
    {
        "job_id": list("abcdef"),
        "user": ["u", "u", "v", None, "v", "v"],
        "vc": ["x", "x", "y", "y", "y", "y"],
        "submit_time": [100.0, 0.0, 100.5, 200.0, 300.0, 300.0],
        "num_gpus": [1, 8, 2, 16, 4, 4],
        "duration": [10.0, 1000.0, 60.0, 2e6, 500.0, 500.0],
        "status": ["Pass", "RUNNING", "completed", "FAILED", "Killed", "Killed"],
        "model": ["VGG-16", None, "mine", None, None, "gpt-2"],
        "gradient_byte": [1, 2, 3, 4, 5, 6],
    }
)
WORK = 10 + 8_000 + 120 + 32e6 + 2_000 + 2_000

BROKEN = """\
job_id,submit_time,num_gpus,duration,status
a,0,1,100,Pass
b,5,0,x,Pass
a,6,1,100,Pass
c,9,2,2000000,Pass
d,-1,2,50,Pass
,-1,0,0,Pass
"""


def reasons(inspection: dict[str, Any]) -> dict[str, tuple[int, int]]:
    rows = inspection["cleaning"]["questionable"]
    return {row["reason"]: (row["jobs"], row["first_row"]) for row in rows}


def test_counts_times_and_work() -> None:
    seen = inspect_jobs(from_frame(JOBS))
    assert (seen["jobs"], seen["sorted"], seen["span"]) == (6, False, 300.0)
    assert seen["gpu_seconds"] == WORK
    assert seen["mean_gpus_demanded"] == WORK / 300
    duration = JOBS["duration"].to_numpy()
    assert seen["duration"]["mean"] == duration.mean()
    for name, at in (("min", 0), ("p10", 10), ("median", 50), ("p99", 99), ("max", 100)):
        assert seen["duration"][name] == np.percentile(duration, at)
    assert seen["interarrival"]["max"] == 100.0
    # 100.0 and 100.5 lie in one second, 300.0 twice.
    assert seen["same_second"] == {"jobs": 4, "share": 4 / 6}


def test_groups() -> None:
    seen = inspect_jobs(from_frame(JOBS))
    assert [row["num_gpus"] for row in seen["sizes"]] == [1, 2, 4, 8, 16]
    four = seen["sizes"][2]
    assert (four["jobs"], four["share"], four["gpu_seconds"]) == (2, 2 / 6, 4_000)
    assert four["work_share"] == 4_000 / WORK
    assert (four["median_duration"], four["mean_duration"]) == (500.0, 500.0)
    assert [(row["vc"], row["jobs"]) for row in seen["vcs"]] == [("y", 4), ("x", 2)]
    assert [(row["user"], row["jobs"]) for row in seen["users"]] == [("v", 3), ("u", 2), (None, 1)]
    assert seen["statuses"][0]["status"] == "Killed"
    assert seen["models"] == {"named": 3, "in_catalogue": 2, "unknown": ["mine"]}
    bare = inspect_jobs(from_frame(JOBS.select("job_id", "submit_time", "num_gpus", "duration")))
    assert bare["vcs"] is bare["users"] is bare["statuses"] is bare["models"] is None


def test_asked_types(invoke: Invoke, tmp_path: Path) -> None:
    asked = pl.Series(["T4", None, " ", "t4", "T4|A10", ""])
    frame = JOBS.drop("gradient_byte").with_columns(gpu_type=asked)
    seen = inspect_jobs(from_frame(frame))["gpu_types"]
    assert [(row["gpu_type"], row["jobs"], row["gpu_seconds"]) for row in seen] == [
        (None, 3, 10_120.0),
        ("T4", 2, 32_000_010.0),
        ("T4|A10", 1, 2_000.0),
    ]
    assert inspect_jobs(from_frame(JOBS))["gpu_types"] is None
    assert inspect_jobs(from_frame(JOBS.with_columns(gpu_type=pl.lit(""))))["gpu_types"] is None
    write_jobs(from_frame(frame), tmp_path / "jobs.parquet")
    output = invoke("inspect", "jobs.parquet").stdout
    assert re.search(r"GPU type asked +jobs +share +GPU-hours", output)
    assert re.search(r"T4 +2 +33\.3 % +8,889 ", output)
    assert re.search(r"\(any\) +3 +50\.0 % +3 ", output)


def test_columns() -> None:
    columns = inspect_jobs(from_frame(JOBS))["columns"]
    assert columns["present"]["model"] == 3
    assert columns["present"]["num_gpus"] == 0
    assert columns["extra"] == {"gradient_byte": "gradient_bytes"}


def test_load_on_a_cluster() -> None:
    seen = inspect_jobs(from_frame(JOBS), Cluster.parse("2x8"))
    assert seen["cluster"]["load"] == WORK / 300 / 16
    assert seen["cluster"]["vcs"] is None
    divided = Cluster(np.array([8, 4, 4], dtype=np.uint32), server_vc=("x", "z", "x"))
    vcs = inspect_jobs(from_frame(JOBS), divided)["cluster"]["vcs"]
    own = [{key: row[key] for key in ("vc", "gpus", "jobs", "load")} for row in vcs]
    assert own == [
        {"vc": "x", "gpus": 12, "jobs": 2, "load": 8_010 / 300 / 12},
        {"vc": "z", "gpus": 4, "jobs": 0, "load": 0.0},
    ]
    assert vcs[0]["days"] == [8_010 / 86_400 / 12]
    assert vcs[1]["load_by_day"]["max"] == 0.0


def test_questionable_rows_are_counted_by_reason() -> None:
    assert reasons(inspect_jobs(from_frame(JOBS))) == {
        "runs longer than two weeks": (1, 4),
        "runs less than a minute": (1, 1),
        "its status is not a final one": (1, 2),
        "same user, second, size and run time as another": (2, 5),
    }
    assert reasons(inspect_jobs(from_frame(JOBS[2:3]))) == {}


def test_jobs_that_the_cluster_cannot_hold() -> None:
    assert reasons(inspect_jobs(from_frame(JOBS), Cluster.parse("1x8")))["larger than its cluster"] == (1, 4)
    divided = Cluster(np.array([4, 8], dtype=np.uint32), server_vc=("x", "z"))
    seen = reasons(inspect_jobs(from_frame(JOBS), divided))
    assert seen["larger than its cluster"] == (1, 2)
    assert seen["its vc is not in the cluster"] == (4, 3)


def test_jobs_that_no_type_of_the_cluster_can_hold() -> None:
    table = from_frame(JOBS.with_columns(gpu_type=pl.Series(["T4", "A10", "V100", None, None, "A10|T4"])))
    mixed = Cluster(np.array([8, 4, 4]), server_gpu_type=("T4", "A10", "A10"))
    seen = reasons(inspect_jobs(table, mixed))
    assert seen["no GPU of a type that it may use"] == (1, 3)
    assert seen["larger than its cluster"] == (1, 4)  # 16 GPUs, but 8 of each type
    # The servers of its own virtual cluster count.
    divided = dataclasses.replace(mixed, server_vc=("x", "y", "x"))
    seen = reasons(inspect_jobs(table, divided))
    assert seen["no GPU of a type that it may use"] == (1, 3)
    assert seen["larger than its cluster"] == (2, 2)  # 8 A10 where x has 4; 16 of any where y has 4


def test_a_single_job_has_no_span() -> None:
    seen = inspect_jobs(from_frame(JOBS[:1]), Cluster.parse("1x8"))
    assert seen["span"] == 0
    assert seen["mean_gpus_demanded"] is seen["interarrival"] is seen["cluster"]["load"] is None


def test_rows_that_break_rules_are_parted_by_their_first_fault(tmp_path: Path) -> None:
    path = tmp_path / "broken.csv"
    path.write_text(BROKEN)
    table, dropped, rows = screen_jobs(path)
    assert table is not None
    assert table.frame["job_id"].to_list() == ["a", "c"]
    assert table.frame["num_gpus"].dtype == pl.UInt32
    assert rows is not None
    assert rows.tolist() == [1, 4]
    result = [
        (entry.column, entry.rows, entry.matching, entry.first_row, entry.first_value) for entry in dropped
    ]
    assert result == [
        ("job_id", 1, 1, 6, None),
        ("job_id", 1, 1, 3, "a"),
        ("submit_time", 1, 2, 5, "-1"),
        ("num_gpus", 1, 2, 2, "0"),
        ("duration", 0, 2, 2, "x"),
    ]
    # Row numbers stay those of the file: job c is in row 4.
    seen = inspect_jobs(table, None, dropped, rows)
    assert reasons(seen)["runs longer than two weeks"] == (1, 4)
    assert seen["cleaning"]["dropped"][1]["reason"] == "job_id is not unique"


def test_elastic_jobs_are_counted_and_a_bad_range_is_told_beside_num_gpus(
    invoke: Invoke, tmp_path: Path
) -> None:
    rows = "a,4,1,8\nb,6,7,\nc,2,,1\nd,8,,\ne,2,1,\nf,2,2,2\ng,2,x,0\nh,2,,4\n"
    header = "job_id,num_gpus,min_gpus,max_gpus,submit_time,duration\n"
    (tmp_path / "jobs.csv").write_text(header + rows.replace("\n", ",0,9\n"))
    seen = json.loads(invoke("inspect", "jobs.csv", "--json").stdout)
    assert (seen["jobs"], seen["elastic"]) == (5, {"jobs": 3, "fewer": 2, "more": 2})
    result = [(row["reason"], row["first_row"], row["first_beside"]) for row in seen["cleaning"]["dropped"]]
    assert result == [
        ("min_gpus is not an integer from 1 to num_gpus", 7, None),
        ("max_gpus is not an integer >= num_gpus", 7, None),
        ("min_gpus is not <= num_gpus", 2, "num_gpus 6"),
        ("max_gpus is not >= num_gpus", 3, "num_gpus 2"),
    ]
    shown = invoke("inspect", "jobs.csv").stdout
    assert "3 jobs: 2 may hold fewer GPUs than num_gpus, 2 more" in shown
    assert "7 there beside num_gpus 6: replay refuses the table" in shown
    # The lowest row is the one that is told, though a later one is no number at all.
    refused = invoke("replay", "jobs.csv", "--cluster", "1x8", "-o", "r").stderr
    assert "row 2 (line 3), column min_gpus: 7: expected an integer from 1 to num_gpus, which is 6" in refused


def test_a_sound_table_is_screened_whole(tmp_path: Path) -> None:
    write_jobs(from_frame(JOBS), tmp_path / "jobs.parquet")
    table, dropped, rows = screen_jobs(tmp_path / "jobs.parquet")
    assert table is not None
    assert table.frame.equals(read_jobs(tmp_path / "jobs.parquet").frame)
    assert (dropped, rows) == ((), None)


def test_the_footer_is_unfolded() -> None:
    metadata = provenance("philly", converter="convert", rows_read=9, dropped={"num_gpus = 0": 3})
    seen = inspect_jobs(from_frame(JOBS, metadata=metadata))["metadata"]
    assert seen["source"] == "philly"
    assert seen["rows_read"] == 9
    assert seen["rows_dropped"] == {"num_gpus = 0": 3}


# -- the command ---


def test_the_command_prints_tables_or_json(invoke: Invoke, tmp_path: Path) -> None:
    metadata = provenance("philly", converter="convert", rows_read=9, dropped={"num_gpus = 0": 3})
    write_jobs(from_frame(JOBS, metadata=metadata), tmp_path / "jobs.parquet")
    shown = invoke("inspect", "jobs.parquet", "--cluster", "2x8")
    assert (shown.returncode, shown.stderr) == (0, "")
    for words in (
        "6 jobs in jobs.parquet",
        "16 GPUs of 2x8",
        "did you mean gradient_bytes",
        "num_gpus = 0: 3",
    ):
        assert words in shown.stdout
    as_json = invoke("inspect", "jobs.parquet", "--cluster", "2x8", "--json")
    expected = inspect_jobs(read_jobs(tmp_path / "jobs.parquet"), Cluster.parse("2x8")) | {
        "source": "jobs.parquet"
    }
    assert json.loads(as_json.stdout) == expected


def test_the_command_on_broken_rows(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "broken.csv").write_text(BROKEN)
    shown = invoke("inspect", "broken.csv")
    assert shown.returncode == 0
    assert "2 jobs in broken.csv" in shown.stdout
    assert "job_id is not unique" in shown.stdout
    (tmp_path / "hopeless.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,0,5\n")
    refused = invoke("inspect", "hopeless.csv")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr == (
        "error: hopeless.csv: row 1 (line 2), column num_gpus: 0: "
        "expected an integer >= 1, and no row is usable\n"
    )


def test_every_public_trace_can_be_inspected(shared_traces: Path) -> None:
    for path in sorted([*shared_traces.glob("philly/*.csv"), *shared_traces.glob("helios/*.csv")]):
        seen = inspect_jobs(read_jobs(path), Cluster.parse("64x8"))
        assert sum(row["jobs"] for row in seen["sizes"]) == seen["jobs"]
        assert json.loads(json.dumps(seen)) == seen


@pytest.mark.parametrize("arguments", [("none.csv",), ("--cluster", "0x8", "none.csv")])
def test_bad_input_is_one_line(invoke: Invoke, arguments: tuple[str, ...]) -> None:
    refused = invoke("inspect", *arguments)
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "csv"])
def test_a_raw_trace_is_told_its_converter(invoke: Invoke, source: str, tmp_path: Path) -> None:
    module = import_module(f"raw.{source.replace('-', '_')}")
    raw = module.generate("seren") if source == "acme" else module.generate()
    for path in raw.write(tmp_path / "in"):
        if path.suffix == ".header":
            continue
        packed = path.with_name("packed.gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        for given in (path, packed):
            done = invoke("inspect", given)
            assert done.returncode == 1
            assert done.stderr.count("\n") == 1
            assert f"error: {given}: is " in done.stderr
            shape = get(source).role(path.read_text())
            assert shape is not None
            if shape.role in get(source).needs:
                assert ", not a job table yet; convert it first: " in done.stderr
            else:
                assert ", which holds no jobs; give it beside " in done.stderr
            assert f"`{get(source).command(str(given), shape)}`" in done.stderr


@pytest.mark.parametrize("empty", ["user", "vc", "status", "model"])
def test_a_column_without_a_value_names_nobody(invoke: Invoke, empty: str, tmp_path: Path) -> None:
    """No group of its own, no count; jobs without a user beside those of others are no user either."""
    frame = pl.DataFrame(
        {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [1, 2], "duration": [60.0, 70.0]}
    )
    path = tmp_path / "e.parquet"
    frame.with_columns(pl.lit(None, pl.String).alias(empty)).write_parquet(path)
    figures = json.loads(invoke("inspect", path, "--json").stdout)
    assert [figures[name] for name in ("users", "vcs", "statuses")] == [None, None, None]
    output = invoke("inspect", path).stdout
    assert not re.search(r"^owners ", output, re.MULTILINE)
    assert "(none)" not in output
    if empty in ("user", "vc"):
        frame.with_columns(pl.Series(empty, ["u", None])).write_parquet(path)
        what = {"user": "1 user", "vc": "1 virtual cluster"}[empty]
        assert re.search(rf"^owners +{what} *$", invoke("inspect", path).stdout, re.MULTILINE)


def test_an_archive_of_a_raw_trace_is_told_its_converter(invoke: Invoke, tmp_path: Path) -> None:
    [path] = philly.generate().write(tmp_path / "in")
    with tarfile.open(tmp_path / "trace-data.tar.gz", "w:gz") as archive:
        (tmp_path / "README").write_text("hello")
        archive.add(tmp_path / "README", "README")
        archive.add(path, "trace-data/cluster_job_log")
    done = invoke("inspect", "trace-data.tar.gz")
    assert "is a Philly job log (cluster_job_log), not a job table yet; convert it first: " in done.stderr


def test_jobs_by_priority(invoke: Invoke, tmp_path: Path) -> None:
    """Empty is priority 0; the highest comes first; no table where all are equal."""
    ranked = JOBS.with_columns(
        priority=pl.Series([2, None, -1, 0, 2, 2], dtype=pl.Int32),
        preemptible=pl.Series([True, None, False, True, False, False]),
    )
    table = inspect_jobs(from_frame(ranked))["priorities"]
    assert [(row["priority"], row["jobs"], row["preemptible"], row["gpu_seconds"]) for row in table] == [
        (2, 3, 1, 10.0 + 2_000 + 2_000),
        (0, 2, 2, 8_000 + 32e6),
        (-1, 1, 0, 120.0),
    ]
    assert inspect_jobs(from_frame(JOBS))["priorities"] is None
    assert inspect_jobs(from_frame(ranked.with_columns(priority=pl.lit(3))))["priorities"] is None
    ranked.write_parquet(tmp_path / "j.parquet")
    shown = invoke("inspect", "j.parquet").stdout
    assert re.search(r"priority +jobs +share +may be evicted +GPU-hours", shown)
    assert re.search(r"-1 +1 +16\.7 % +0 +0 ", shown)
