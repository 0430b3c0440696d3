"""Traces of requests, turned into the replicas that a service wants."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import ringbco
from ringbco.cli import app
from ringbco.errors import InputError, UsageError

GIVEN: dict[str, Any] = {"gpus_per_replica": 2, "tokens_per_gpu": 50.0, "target": 0.5, "window": 10}
"""A replica does 50 tokens a second, 500 in a window."""


def trace(rows: list[tuple[float, int, int]]) -> pl.DataFrame:
    columns = ["arrival", "input_tokens", "output_tokens"]
    return pl.DataFrame(rows, schema=columns, orient="row", infer_schema_length=None)


def wanted(rows: list[tuple[float, int, int]], **options: Any) -> list[tuple[float, int]]:
    result = ringbco.services(trace(rows), **GIVEN | options).frame
    assert result["gpus_per_replica"].unique().to_list() in ([], [2])
    return result.select("time", "replicas").rows()


def test_by_hand() -> None:
    """[10, 20): 500 tokens are one replica. [20, 30): 501 are two. [30, 40): 1 token is one. Then 1,500."""
    rows = [(12.0, 300, 100), (19.9, 100, 0), (20.0, 501, 0), (39.0, 0, 1), (60.0, 0, 1500)]
    assert wanted(rows) == [(10.0, 1), (20.0, 2), (30.0, 1), (40.0, 0), (60.0, 3), (70.0, 0)]
    assert wanted(rows[::-1]) == wanted(rows), "rows may be in any order"


def test_a_row_only_where_the_number_changes() -> None:
    assert wanted([(5.0, 1, 0), (15.0, 500, 0), (25.0, 3, 0)]) == [(0.0, 1), (30.0, 0)]
    assert wanted([(5.0, 0, 0), (15.0, 1, 0), (25.0, 0, 0)]) == [(10.0, 1), (20.0, 0)]
    assert wanted([(5.0, 0, 0)]) == []


def test_options() -> None:
    rows = [(5.0, 1000, 0)]
    assert wanted(rows) == [(0.0, 2), (10.0, 0)]
    assert wanted(rows, target=1.0) == [(0.0, 1), (10.0, 0)]
    assert wanted(rows, tokens_per_gpu=10) == [(0.0, 10), (10.0, 0)]
    assert wanted(rows, window="1m") == [(0.0, 1), (60.0, 0)]
    assert wanted([(0.0, 42_000, 0)], target=0.7, tokens_per_gpu=500, window=60) == [(0.0, 1), (60.0, 0)]
    made = ringbco.services(trace(rows), **GIVEN | {"service": "chat"})
    assert made.frame["service"].to_list() == ["chat", "chat"]
    assert made.columns()[0].tolist() == [2]


@given(
    st.lists(
        st.tuples(st.integers(0, 99), st.integers(0, 900), st.integers(0, 900)), min_size=1, max_size=20
    ),
    st.sampled_from([1, 4, 7, 50]),
)
def test_window_by_window(rows: list[tuple[int, int, int]], window: int) -> None:
    """The number at every window, worked out from the rule."""
    made = wanted([(float(at), a, b) for at, a, b in rows], window=window)
    assert all(one[1] != other[1] for one, other in pairwise(made))
    for start in range(0, 100 + window, window):
        tokens = sum(a + b for at, a, b in rows if start <= at < start + window)
        now = [replicas for time, replicas in made if time <= start]
        assert (now[-1] if now else 0) == math.ceil(tokens / (window * 50))


AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:15:46.6805900,374,44
2023-11-16 18:15:50.9951690,396,109
2023-11-16 18:16:56.6805900,879,55
"""


@pytest.mark.parametrize("zone", ["", "+00:00", "Z"])
def test_the_names_of_azure(tmp_path: Path, zone: str) -> None:
    """Dates count from the first request: windows begin with it."""
    path = tmp_path / "r.csv"
    lines = [line.replace(",", f"{zone},", 1) if ":" in line else line for line in AZURE.split("\n")]
    path.write_text("\n".join(lines))
    result = ringbco.services(path, **GIVEN).frame
    assert result.select("time", "replicas").rows() == [(0.0, 2), (10.0, 0), (70.0, 2), (80.0, 0)]
    times = ["2023-11-16 18:15:46", "2023-11-16 18:15:50", "2023-11-16 18:16:56"]
    read = pl.read_csv(path).with_columns(TIMESTAMP=pl.Series(times).str.to_datetime())
    read.write_parquet(tmp_path / "r.parquet")
    assert ringbco.services(tmp_path / "r.parquet", **GIVEN).frame.equals(result)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("-1,1,1", "row 2 (line 3), column arrival: -1: expected a finite number of seconds >= 0"),
        ("soon,1,1", "row 2 (line 3), column arrival: soon: expected a finite number of seconds >= 0"),
        ("1,-1,1", "row 2 (line 3), column input_tokens: -1: expected an integer >= 0; drop the request"),
        ("1,1,1.5", "row 2 (line 3), column output_tokens: 1.5: expected an integer >= 0; drop the request"),
        ("1,,1", "row 2 (line 3), column input_tokens: null: expected an integer >= 0; drop the request"),
        (
            "2023-11-16 18:15:50,1,1",
            "row 2 (line 3), column arrival: '2023-11-16 18:15:50': expected a finite",
        ),
    ],
)
def test_bad_requests(tmp_path: Path, row: str, told: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(f"arrival,input_tokens,output_tokens\n0,1,1\n{row}\n")
    with pytest.raises(InputError) as caught:
        ringbco.services(path, **GIVEN)
    assert str(caught.value).startswith(f"{path}: {told}")


def test_what_is_no_request_trace(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text(AZURE.replace("18:15:50", "18:61:50"))
    with pytest.raises(InputError, match=r"column TIMESTAMP: .* expected a date and a time such as"):
        ringbco.services(path, **GIVEN)
    path.write_text("arrival,input_tokens\n0,1\n")
    with pytest.raises(InputError, match="has no column output_tokens; requests have the columns"):
        ringbco.services(path, **GIVEN)
    path.write_text("arrival,input_tokens,output_tokens\n")
    with pytest.raises(InputError, match="holds no requests, only column names"):
        ringbco.services(path, **GIVEN)
    with pytest.raises(InputError, match="requests: expected a path or a frame, not int"):
        ringbco.services(3, **GIVEN)


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        ("gpus_per_replica", 0, "option gpus-per-replica: 0: expected"),
        ("tokens_per_gpu", 0.0, "option tokens-per-gpu: 0.0: expected a number of tokens a second > 0"),
        ("tokens_per_gpu", math.nan, "option tokens-per-gpu: nan: expected"),
        ("tokens_per_gpu", 1e-300, "option tokens-per-gpu: 1e-300: expected so many that at most"),
        ("target", 1.5, "option target: 1.5: expected a utilisation > 0 and <= 1"),
        ("target", 0.0, "option target: 0.0: expected a utilisation > 0 and <= 1"),
        ("window", "1x", "option window: '1x': expected a length of time"),
        ("window", 0, "option window: 0: expected a length of time > 0"),
        ("window", 1e-300, "option window: 1e-300: expected"),
        ("service", "", "option service: '': expected a name"),
        ("service", "a\nb", "option service: 'a\\\\nb': expected a name"),
    ],
)
def test_bad_options(option: str, value: Any, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        ringbco.services(trace([(5.0, 1000, 0)]), **GIVEN | {option: value})
    assert str(caught.value).startswith(told.replace("\\\\", "\\"))


def test_the_verb(tmp_path: Path) -> None:
    requests, out = tmp_path / "r.csv", tmp_path / "s.csv"
    requests.write_text(AZURE)
    given = [
        "services",
        str(requests),
        "--gpus-per-replica",
        "2",
        "--tokens-per-gpu",
        "50",
        "--target",
        "0.5",
    ]
    given += ["--window", "10s", "--service", "chat", "-o", str(out)]
    ran = CliRunner().invoke(app, [*given, "--json"])
    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)
    assert figures.pop("first_arrival") == 0.0
    assert figures.pop("last_arrival") == pytest.approx(70.0)
    assert figures == {
        "requests": 3,
        "input_tokens": 1649,
        "output_tokens": 208,
        "rows": 4,
        "mean_replicas": pytest.approx(40 / 80),
        "most_replicas": 2,
        "gpu_hours": pytest.approx(80 / 3600),
        "file": str(out),
    }
    assert out.read_text().splitlines()[1] == "chat,0.0,2,2"
    again = CliRunner().invoke(app, given)
    assert again.exit_code == 1
    assert "already exists" in str(again.exception)
    output = CliRunner().invoke(app, [*given, "--force"])
    assert output.stdout.splitlines()[0] == f"4 rows of service chat in {out}"
    assert "replicas on average" in output.stdout
    quiet = CliRunner().invoke(app, [*given, "--force", "-q"])
    assert (quiet.exit_code, quiet.stdout) == (0, "")
