"""Files of outages: what is read, what is refused, and how outages that overlap become one."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ringbco
from conftest import Invoke
from frames import busy_jobs, refusal
from ringbco import replay
from ringbco.errors import InputError, UsageError
from ringbco.trace.outages import COLUMNS, Outages
from ringbco.trace.side_table import ReadContext

HEAD = "server,down_at,up_at"
Row = tuple[int, float, float | None, str | None]


def frame(rows: list[Row]) -> pl.DataFrame:
    schema = {"server": pl.Int64, "down_at": pl.Float64, "up_at": pl.Float64, "cause": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def merged(rows: list[Row]) -> list[Row]:
    """One outage after the other, from the rule."""
    made: list[Row] = []
    order = sorted(range(len(rows)), key=lambda row: (rows[row][:2], row))
    for server, down, up, cause in (rows[row] for row in order):
        ends = math.inf if up is None else up
        if made and made[-1][0] == server:
            _, began, until, why = made[-1]
            last = math.inf if until is None else until
            if down <= last:
                end = max(last, ends)
                made[-1] = (server, began, None if end == math.inf else end, why)
                continue
        made.append((server, down, up, cause))
    return made


# Reading


def test_a_file_and_a_frame_give_the_same(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text("cause,up_at,server,more,down_at\ngpu,20.5,1,x,10\n,,0,,5\n")
    result = Outages.read(path, ReadContext(servers=2))
    assert result.frame.schema == {name: column.dtype for name, column in COLUMNS.items()}
    assert result.frame.drop("kind").rows() == [(1, 10.0, 20.5, "gpu"), (0, 5.0, None, None)]
    assert (result.source, result.sha256) == (str(path), hashlib.sha256(path.read_bytes()).hexdigest())
    given = frame([(1, 10, 20.5, "gpu"), (0, 5, None, None)])
    for table in (given, given.lazy(), given.to_arrow(), given.to_arrow().to_pandas(), result):
        again = Outages.read(table, ReadContext(servers=2))
        assert again.frame.equals(result.frame), type(table)
    assert Outages.read(given, ReadContext(servers=2)).sha256 is None


def test_columns_for_the_engine() -> None:
    result = Outages.read(
        frame([(3, 7, None, None), (0, 2, 5, None), (0, 4, 6, None)]), ReadContext(servers=4)
    )
    server, down, up, _ = result.columns()
    assert (server.tolist(), down.tolist(), up.tolist()) == ([0, 3], [2.0, 7.0], [6.0, math.inf])
    assert [column.dtype for column in (server, down, up)] == [np.uint32, np.float64, np.float64]
    assert all(column.flags.c_contiguous for column in (server, down, up))
    assert result.identity == {"path": "<outages>", "sha256": None, "rows": 3, "overlapping": 1}


def test_no_outages(tmp_path: Path) -> None:
    path = tmp_path / "none.csv"
    path.write_text(f"{HEAD}\n")
    # Without rows a column has whatever type its library gives to nothing.
    texts = pl.DataFrame(schema=dict.fromkeys(HEAD.split(","), pl.String))
    for item in (
        Outages.read(path, ReadContext(servers=1)),
        Outages.read(frame([]), ReadContext(servers=1)),
        Outages.read(texts, ReadContext(servers=1)),
    ):
        assert item.frame.height == item.merged.height == item.num_overlapping == 0
        assert [column.size for column in item.columns()] == [0, 0, 0, 0]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("cause", ["net, work", None])
def test_there_and_back(tmp_path: Path, ending: str, cause: str | None) -> None:
    result = Outages.read(frame([(0, 0.1, 1e15 / 3, cause), (1, 1 / 3, None, None)]), ReadContext(servers=2))
    path = tmp_path / f"o.{ending}"
    result.write(path)
    assert Outages.read(path, ReadContext(servers=2)).frame.equals(result.frame)
    kept = pl.read_csv(path) if ending == "csv" else pl.read_parquet(path)
    assert kept.columns == [*HEAD.split(","), *([] if cause is None else ["cause"])]
    with pytest.raises(InputError, match="already exists"):
        result.write(path)
    result.write(path, force=True)
    assert Outages.read(path, ReadContext(servers=2)).frame.equals(result.frame)


def test_save_refuses_other_endings(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a name ending in \.parquet or \.csv"):
        Outages.read(frame([]), ReadContext(servers=1)).write(tmp_path / "o.txt")
    assert not list(tmp_path.iterdir())


# Refusing

LAST = "; the cluster's last server is 3"
NEVER = "; leave it empty where the server never comes back"
DATED = (
    "seconds: the job table does not say on which date its clock begins; count seconds from the zero of"
    " submit_time, or convert the trace to a table with an epoch"
)
SINCE = "; count seconds from the epoch of submit_time, or drop the row"


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("4,1,2", f"column server: 4: expected the index of a server, an integer >= 0 and <= 3{LAST}"),
        ("-1,1,2", f"column server: -1: expected the index of a server, an integer >= 0{LAST}"),
        ("1.5,1,2", f"column server: 1.5: expected the index of a server, an integer >= 0{LAST}"),
        ("one,1,2", f"column server: one: expected the index of a server, an integer >= 0{LAST}"),
        (",1,2", f"column server: null: expected the index of a server, an integer >= 0{LAST}"),
        ("1,,2", f"column down_at: null: expected a finite number of seconds >= 0{SINCE}"),
        ("1,-1,2", f"column down_at: -1: expected a finite number of seconds >= 0{SINCE}"),
        ("1,nan,2", f"column down_at: nan: expected a finite number of seconds >= 0{SINCE}"),
        ("1,2020-01-01,2", f"column down_at: 2020-01-01: expected {DATED}"),
        ("1,5,5", f"column up_at: 5: expected a number of seconds > down_at, which is 5{NEVER}"),
        ("1,5.5,-2", f"column up_at: -2: expected a number of seconds > down_at, which is 5.5{NEVER}"),
        ("1,5,inf", f"column up_at: inf: expected a finite number of seconds{NEVER}"),
        ("1,5,never", f"column up_at: never: expected a finite number of seconds{NEVER}"),
        ("1,5,1e17", f"column up_at: 1e17: expected a finite number of seconds and <= {10**16}{NEVER}"),
    ],
)
def test_bad_values(tmp_path: Path, row: str, told: str) -> None:
    """The line names the lowest row at fault: the one after it has a fault too."""
    path = tmp_path / "o.csv"
    said = refusal(
        path, f"{HEAD}\n0,1,2\n{row}\n9,9,9\n", lambda path: Outages.read(path, ReadContext(servers=4))
    )
    assert said == f"{path}: row 2 (line 3), {told}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (3, "outages: expected a path, or a table of polars, pyarrow, pandas"),
        (None, "outages: expected a path, or a table of polars, pyarrow, pandas"),
        (pl.DataFrame({"server": [1]}), "<outages>: has no column down_at, up_at; outages have the columns"),
        (
            pl.DataFrame({"server": ["1"], "down_at": [1], "up_at": [2]}),
            "<outages>: row 1, column server: 1: expected the index of a server, an integer >= 0, stored as a"
            " number, not String; cast the column to integers",
        ),
        (
            pl.DataFrame({"server": [1], "down_at": [1], "up_at": [math.nan]}),
            f"<outages>: row 1, column up_at: NaN: expected a finite number of seconds{NEVER}",
        ),
        (
            pl.DataFrame({"server": [1], "down_at": [1], "up_at": [2], "cause": [1.5]}),
            "<outages>: column cause: expected text, not Float64",
        ),
        (pa.table({"server": [1, 5], "down_at": [1, 1], "up_at": [2, 2]}), "<outages>: row 2, column server"),
    ],
)
def test_what_is_no_table_of_outages(given: Any, told: str) -> None:
    with pytest.raises(InputError) as caught:
        Outages.read(given, ReadContext(servers=4))
    assert str(caught.value).startswith(told)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        Outages.read(tmp_path / "none.csv", ReadContext(servers=4))
    (tmp_path / "o.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="truncated or damaged Parquet"):
        Outages.read(tmp_path / "o.parquet", ReadContext(servers=4))


def test_outages_are_checked_against_each_cluster() -> None:
    result = Outages.read(frame([(3, 1, 2, None)]), ReadContext(servers=4))
    assert Outages.read(result, ReadContext(servers=4)) is result
    with pytest.raises(InputError, match="the cluster's last server is 2"):
        Outages.read(result, ReadContext(servers=3))


# Merging


def test_merging_by_hand() -> None:
    """Touching is merging; a cause is that of the first, here an empty one; equal beginnings: lower row."""
    result = Outages.read(
        frame(
            [
                (0, 10, 20, "b"),
                (0, 5, 10, None),
                (0, 20.5, 30, "apart"),
                (1, 6, 7, "inside"),
                (1, 5, None, "first"),
                (1, 1e6, 2e6, "last"),
                (2, 3, 4, "lower row"),
                (2, 3, 9, "upper row"),
            ]
        ),
        ReadContext(servers=3),
    )
    assert result.merged.drop("kind").rows() == [
        (0, 5.0, 20.0, None),
        (0, 20.5, 30.0, "apart"),
        (1, 5.0, None, "first"),
        (2, 3.0, 9.0, "lower row"),
    ]
    assert result.num_overlapping == 4


@st.composite
def rows(draw: st.DrawFn) -> list[Row]:
    """Few servers and few instants, so that outages overlap, touch and begin together."""
    made = []
    for number in range(draw(st.integers(0, 12))):
        down = draw(st.integers(0, 12))
        up = draw(st.one_of(st.none(), st.integers(down + 1, down + 5)))
        cause = draw(st.sampled_from((None, f"c{number}")))
        made.append((draw(st.integers(0, 2)), float(down), None if up is None else float(up), cause))
    return made


@given(rows())
def test_merging_is_the_naive_merge(given: list[Row]) -> None:
    result = Outages.read(frame(given), ReadContext(servers=3))
    assert result.merged.drop("kind").rows() == merged(given)
    assert result.merged.schema == result.frame.schema
    assert Outages(result.merged, "merged").merged.equals(result.merged)


# In a result


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("server", pl.lit(99, pl.UInt32), "column server: 99: expected the index of a server, "),
        ("server", pl.lit(None, pl.UInt32), "column server: null: expected the index of a server, "),
        ("down_at", pl.lit(math.nan), "column down_at: NaN: expected a finite number of seconds >= 0"),
        ("up_at", pl.col("down_at") - 1, "column up_at: 19: expected a number of seconds > down_at"),
    ],
)
def test_damaged_outages_of_a_result_are_named(
    invoke: Invoke, small_jobs: Path, column: str, value: pl.Expr, said: str
) -> None:
    Path("o.csv").write_text(f"{HEAD}\n0,20,60\n")
    given = (small_jobs.name, "--cluster", "2x8", "--policy", "fifo")
    assert invoke("replay", *given, "--outages", "o.csv", "-o", "r", "-q").returncode == 0
    path = Path("r", "outages.parquet")
    pl.read_parquet(path).with_columns(value.alias(column)).write_parquet(path)
    for command in (
        ("audit", "r"),
        ("report", "r", "-o", "x.html"),
        ("timeline", "r", "-o", "t.json"),
        ("compare", *given, "--result", "r", "-o", "c"),
        ("replay", "--again", "r"),
    ):
        done = invoke(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: r/outages.parquet: row 1, {said}")
        assert done.stderr.count("\n") == 1


# Ranges of servers


def test_ranges_of_servers_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text(f'{HEAD}\n"0-2, 5",1,2\n7,3,4\n 1 - 1 ,5,6\n"3,0-1,1",7,8\n')
    found = Outages.read(path, ReadContext(servers=8))
    assert found.frame["server"].to_list() == [0, 1, 2, 5, 7, 1, 0, 1, 3]
    assert found.frame["down_at"].to_list() == [1, 1, 1, 1, 3, 5, 7, 7, 7]
    assert found.identity["rows"] == 9
    texts = pl.DataFrame(
        {"server": ["0-2,5", "7", "1", "0,1,3"], "down_at": [1, 3, 5, 7], "up_at": [2, 4, 6, 8]}
    )
    assert Outages.read(texts, ReadContext(servers=8)).frame.equals(found.frame)
    assert Outages.read(path).frame.equals(found.frame)


@given(st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=8), st.data())
def test_ranges_against_sets(sets: list[set[int]], data: st.DataObject) -> None:
    """Whatever way a set of servers is written, its rows are those of its members in order."""
    cells = []
    for servers in sets:
        parts, rest = [], sorted(servers)
        while rest:
            run = next((n for n in range(1, len(rest)) if rest[n] != rest[0] + n), len(rest))
            length = data.draw(st.integers(1, run))
            parts.append(f"{rest[0]}-{rest[length - 1]}" if length > 1 else str(rest[0]))
            rest = rest[length:]
        cells.append(",".join(data.draw(st.permutations(parts))))
    number = [*map(float, range(len(cells)))]
    table = pl.DataFrame({"server": cells, "down_at": number, "up_at": [at + 0.5 for at in number]})
    if not any(mark in cell for cell in cells for mark in ",-"):
        return  # texts without ranges are no numbers, as ever
    rows = [(server, at) for at, servers in zip(number, sets, strict=True) for server in sorted(servers)]
    found = Outages.read(table, ReadContext(servers=31)).frame
    assert found.select("server", "down_at").rows() == rows


RANGES = "an integer >= 0{bound}, or indexes and ranges of servers such as 0-3,7, the lower index first"


@pytest.mark.parametrize(
    ("cell", "bound"),
    [("0-4", " and <= 3"), ("9,0", " and <= 3"), ("3-1", ""), ("1-", ""), ("0-1,", ""), ("0-1,x", "")]
    + [("0-999999999", " and <= 3"), ("1-2-3", ""), ("1,-2", "")],
)
def test_what_is_no_range_of_servers(cell: str, bound: str, tmp_path: Path) -> None:
    """The row is that of the file, whatever rows came of those before."""
    path = tmp_path / "o.csv"
    said = refusal(
        path,
        f'{HEAD}\n"0-3",1,2\n"{cell}",3,4\n"0-3",9,9\n',
        lambda path: Outages.read(path, ReadContext(servers=4)),
    )
    expected = RANGES.format(bound=bound)
    assert (
        said
        == f"{path}: row 2 (line 3), column server: {cell}: expected the index of a server, {expected}{LAST}"
    )


def test_too_many_rows_of_ranges(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    path.write_text(f'{HEAD}\n"0-3",1,2\n"0-999999999",3,4\n')
    with pytest.raises(InputError) as caught:
        Outages.read(path)
    assert str(caught.value) == (
        f"{path}: row 2 (line 3), column server: 0-999999999: expected at most 10,000,000 rows in all, one a"
        " server; split the file, or name fewer servers"
    )


def test_another_column_at_fault_in_a_row_of_a_range(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    said = refusal(
        path, f'{HEAD}\n"0-3",1,2\n"0-3",5,5\n', lambda path: Outages.read(path, ReadContext(servers=4))
    )
    told = f"column up_at: 5: expected a number of seconds > down_at, which is 5{NEVER}"
    assert said == f"{path}: row 2 (line 3), {told}"


@pytest.mark.parametrize("option", ["outages", "maintenance"])
def test_a_run_with_ranges_is_that_with_a_row_a_server(option: str, tmp_path: Path) -> None:
    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    short.write_text(f'{HEAD}\n"0-1,3",50,90\n2,10,20\n')
    long.write_text(f"{HEAD}\n0,50,90\n1,50,90\n3,50,90\n2,10,20\n")
    made = [
        replay(busy_jobs(), "4x4", policy="fifo", **{option: path})  # type: ignore[arg-type]
        for path in (short, long)
    ]
    assert made[0].jobs.equals(made[1].jobs)
    assert made[0].stays.equals(made[1].stays)
    assert ringbco.audit(made[0], busy_jobs()) == []


def test_drains_merge_with_drains_alone() -> None:
    """Rows of one kind that overlap or touch are one; those of the other kind stay beside them."""
    rows = [(0, 5.0, 9.0, "drain"), (0, 9.0, 12.0, "drain"), (0, 8.0, 10.0, None), (0, 10.0, 11.0, "down")]
    given = pl.DataFrame(rows, schema=["server", "down_at", "up_at", "kind"], orient="row")
    merged = Outages.read(given).merged
    assert merged.select("server", "down_at", "up_at", "kind").rows() == [
        (0, 8.0, 11.0, None),
        (0, 5.0, 12.0, "drain"),
    ]
