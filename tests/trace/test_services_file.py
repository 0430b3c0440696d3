"""Files of services: what is read and what is refused."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from frames import refusal
from ringbco.errors import InputError, UsageError
from ringbco.trace.services import COLUMNS, Services
from ringbco.trace.side_table import ReadContext

HEAD = "service,time,replicas,gpus_per_replica"
Row = tuple[str, float, int, int]


def frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=list(COLUMNS), orient="row", infer_schema_length=None)


def test_a_file_and_a_frame_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    path.write_text(
        "gpus_per_replica,more,service,replicas,time\n4,x,chat,2,10.5\n8,,embed,0,0\n4,,chat,1,0\n"
    )
    result = Services.read(path, ReadContext(largest=8))
    assert result.frame.schema == {name: column.dtype for name, column in COLUMNS.items()}
    assert result.frame.rows() == [("chat", 10.5, 2, 4), ("embed", 0.0, 0, 8), ("chat", 0.0, 1, 4)]
    assert (result.source, result.sha256) == (str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    given = result.frame
    for table in (given, given.lazy(), given.to_arrow(), given.to_arrow().to_pandas(), result):
        assert Services.read(table, ReadContext(largest=8)).frame.equals(result.frame), type(table)
    assert Services.read(given, ReadContext(largest=8)).sha256 is None


def test_columns_for_the_engine() -> None:
    """Services are numbered by their first rows."""
    result = Services.read(
        frame([("b", 7.0, 3, 2), ("a", 0.0, 1, 8), ("b", 0.0, 0, 2)]), ReadContext(largest=8)
    )
    assert result.names == ["b", "a"]
    gpus, service, time, replicas = result.columns()
    assert (gpus.tolist(), service.tolist()) == ([2, 8], [0, 1, 0])
    assert (time.tolist(), replicas.tolist()) == ([7.0, 0.0, 0.0], [3, 1, 0])
    assert [column.dtype for column in (gpus, service, time, replicas)] == [
        np.uint32,
        np.uint32,
        np.float64,
        np.uint32,
    ]
    assert result.identity == {"path": "<services>", "sha256": None, "rows": 3, "services": 2}


def test_no_services(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text(f"{HEAD}\n")
    for item in (
        Services.read(path, ReadContext(largest=1)),
        Services.read(pl.DataFrame(schema=dict.fromkeys(COLUMNS, pl.String)), ReadContext(largest=1)),
    ):
        assert item.frame.height == len(item.names) == 0
        assert [column.size for column in item.columns()] == [0, 0, 0, 0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_there_and_back(tmp_path: Path, ending: str) -> None:
    result = Services.read(
        frame([("a, b", 1 / 3, 2**32 - 1, 1), ("7", 1e15 / 3, 0, 8)]), ReadContext(largest=8)
    )
    path = tmp_path / f"s.{ending}"
    result.write(path)
    assert Services.read(path, ReadContext(largest=8)).frame.equals(result.frame)
    with pytest.raises(InputError, match="already exists"):
        result.write(path)
    with pytest.raises(UsageError, match=r"expected a name ending in \.parquet or \.csv"):
        result.write(tmp_path / "s.txt")


SINCE = "; count seconds from the epoch of submit_time, or drop the row"
NONE = "; 0 where the service wants none from then on"
NAME = "the name of a service, a non-empty text; name it in every row"
ONCE = "one row of service x at a time, and an upper row has that time; drop one of them"
LARGEST = "; a replica runs on one server; the largest has 8 GPUs"
SAME = "; give replicas of another size another name"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (",1,2,4", f"column service: null: expected {NAME}"),
        ("a,-1,2,4", f"column time: -1: expected a finite number of seconds >= 0{SINCE}"),
        ("a,inf,2,4", f"column time: inf: expected a finite number of seconds >= 0{SINCE}"),
        ("a,,2,4", f"column time: null: expected a finite number of seconds >= 0{SINCE}"),
        ("a,noon,2,4", f"column time: noon: expected a finite number of seconds >= 0{SINCE}"),
        ("a,1,-2,4", f"column replicas: -2: expected an integer >= 0{NONE}"),
        ("a,1,1.5,4", f"column replicas: 1.5: expected an integer >= 0{NONE}"),
        ("a,1,,4", f"column replicas: null: expected an integer >= 0{NONE}"),
        ("a,1,2,0", f"column gpus_per_replica: 0: expected an integer >= 1{LARGEST}"),
        ("a,1,2,9", f"column gpus_per_replica: 9: expected an integer >= 1 and <= 8{LARGEST}"),
        ("a,1,2,", f"column gpus_per_replica: null: expected an integer >= 1{LARGEST}"),
        ("x,1,2,5", f"column gpus_per_replica: 5: expected 4, as in the first row of service x{SAME}"),
        ("x,0,2,4", f"column time: 0: expected {ONCE}"),
        ("x,-0.0,2,4", f"column time: 0: expected {ONCE}"),
    ],
)  # fmt: skip
def test_bad_values(tmp_path: Path, row: str, told: str) -> None:
    """The line names the lowest row at fault: the one after it has a fault too."""
    path = tmp_path / "s.csv"
    said = refusal(
        path, f"{HEAD}\nx,0,1,4\n{row}\n,-1,-1,0\n", lambda path: Services.read(path, ReadContext(largest=8))
    )
    assert said.replace(": -0:", ": 0:") == f"{path}: row 2 (line 3), {told}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (3, "services: expected a path, or a table of polars, pyarrow, pandas"),
        (
            pl.DataFrame({"service": ["a"]}),
            "<services>: has no column time, replicas, gpus_per_replica; services",
        ),
        (
            pl.DataFrame({"service": ["a"], "time": [math.nan], "replicas": [1], "gpus_per_replica": [1]}),
            f"<services>: row 1, column time: NaN: expected a finite number of seconds >= 0{SINCE}",
        ),
    ],
)
def test_what_is_no_table_of_services(given: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        Services.read(given, ReadContext(largest=8))
    assert str(caught.value).startswith(told)


def test_services_are_checked_against_each_cluster() -> None:
    result = Services.read(frame([("a", 1.0, 2, 8)]), ReadContext(largest=8))
    assert Services.read(result, ReadContext(largest=8)) is result
    with pytest.raises(InputError, match="the largest has 4 GPUs"):
        Services.read(result, ReadContext(largest=4))


# Who refuses them


def jobs(**more: Any) -> ringbco.JobTable:
    columns = {"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [1, 1], "duration": [5.0, 5.0]}
    return ringbco.from_frame(pl.DataFrame(columns | more))


@pytest.mark.parametrize(
    ("cluster", "options", "more", "told"),
    [
        ("preset:helios-venus", {}, {"vc": ["vc6YE", "vc6YE"]}, "virtual clusters"),
        ("2x8", {}, {"gpu_share": [0.5, None]}, "shares of a GPU"),
        (
            "2x8",
            {"services": 7},
            {},
            "option services: 7: expected a Parquet or CSV file, or a frame, of services",
        ),
    ],
)
def test_who_refuses_services(cluster: str, options: dict[str, Any], more: dict[str, Any], told: str) -> None:
    with pytest.raises((UsageError, InputError), match=told) as caught:
        ringbco.replay(jobs(**more), cluster, **{"services": frame([("s", 0.0, 1, 1)])} | options)
    assert "\n" not in str(caught.value)


def test_a_log_refuses_services_that_its_run_did_not_have(tmp_path: Path) -> None:
    ringbco.replay(jobs(), "2x8", policy="fifo", decisions=True).write(tmp_path / "r")
    log = f"log:{tmp_path / 'r' / 'decisions.parquet'}"
    with pytest.raises(
        UsageError, match=r"option services: another table: expected that of the run .* \(none\)"
    ):
        ringbco.replay(jobs(), "2x8", policy=log, services=frame([("s", 0.0, 1, 1)]))


def test_a_plan_knows_no_services() -> None:
    with pytest.raises(UsageError, match="option services: expected none: a plan gives every GPU to jobs"):
        ringbco.plan(jobs(), "2x8", services=frame([("s", 0.0, 1, 1)]))
