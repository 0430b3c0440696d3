"""The job table: what is read, what is refused and in which words"""

from __future__ import annotations

import gzip
import io
import os
import pickle
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringbco.errors import InputError, RingbcoError, nearest
from ringbco.trace.jobs import COLUMNS, from_frame, near_name, read_jobs, write_jobs

HEADER = "job_id,submit_time,num_gpus,duration"
GOOD = {"job_id": ["a", "b"], "submit_time": [0.0, 5.0], "num_gpus": [1, 8], "duration": [10.0, 2.5]}


def write(folder: Path, text: str, name: str = "jobs.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        read_jobs(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(path))
    assert caught.value.exit_code == 1
    return caught.value


# -- reading ---


def test_csv_and_parquet_give_the_same_table(tmp_path: Path) -> None:
    csv = read_jobs(write(tmp_path, f"{HEADER}\na,0,1,10\nb,5,8,2.5\n"))
    parquet = tmp_path / "jobs.parquet"
    pl.DataFrame(GOOD).write_parquet(parquet)
    assert csv.frame.equals(read_jobs(parquet).frame)
    assert csv.frame.schema == {name: COLUMNS[name].dtype for name in GOOD}
    assert csv.num_jobs == 2


def test_numeric_columns_are_handed_over_without_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "jobs.parquet"
    pl.concat([pl.DataFrame(GOOD), pl.DataFrame(GOOD | {"job_id": ["c", "d"]})], rechunk=False).write_parquet(
        path
    )
    frame = read_jobs(path).frame
    for name, dtype in (("submit_time", "f8"), ("num_gpus", "u4"), ("duration", "f8")):
        assert frame[name].to_numpy(allow_copy=False).dtype == np.dtype(dtype)


def test_text_stays_as_written_in_csv(tmp_path: Path) -> None:
    table = read_jobs(
        write(
            tmp_path,
            "vc,job_id,submit_time,num_gpus,duration,user,model,extra\n"
            '6214e9,007,0,1,5,1e3,"a, ""b""",08\n11cb48,7,0, 2 ,5,,,\n',
        )
    )
    assert table.frame["job_id"].to_list() == ["007", "7"]
    assert table.frame["vc"].to_list() == ["6214e9", "11cb48"]
    assert table.frame["user"].to_list() == ["1e3", None]
    assert table.frame["model"].to_list() == ['a, "b"', None]
    assert table.frame["extra"].to_list() == ["08", None]
    assert table.frame["num_gpus"].to_list() == [1, 2]


def test_integral_floats_are_accepted_as_counts(tmp_path: Path) -> None:
    csv = read_jobs(write(tmp_path, f"{HEADER},iterations\na,0,8.0,5,1e3\nb,0,2,5,\n"))
    assert csv.frame["num_gpus"].to_list() == [8, 2]
    assert csv.frame["iterations"].to_list() == [1000, None]
    parquet = from_frame(pl.DataFrame(GOOD).with_columns(pl.col("num_gpus").cast(pl.Float64)))
    assert parquet.frame.schema["num_gpus"] == pl.UInt32


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt8, pl.Int32, pl.UInt64, pl.Float32])
def test_any_numeric_dtype_is_cast(dtype: type[pl.DataType]) -> None:
    columns = [pl.col(name).cast(dtype) for name in ("submit_time", "num_gpus", "duration")]
    table = from_frame(pl.DataFrame(GOOD).with_columns(columns, iterations=pl.Series([1, 2], dtype=dtype)))
    assert table.frame["num_gpus"].to_list() == [1, 8]
    assert table.frame["iterations"].to_list() == [1, 2]


def test_integer_and_categorical_ids_become_text() -> None:
    frame = pl.DataFrame(GOOD).with_columns(
        job_id=pl.Series([7, 9]), vc=pl.Series(["x", "y"], dtype=pl.Categorical)
    )
    table = from_frame(frame)
    assert table.frame["job_id"].to_list() == ["7", "9"]
    assert table.frame["vc"].to_list() == ["x", "y"]


def test_unsorted_rows_keep_their_order(tmp_path: Path) -> None:
    table = read_jobs(write(tmp_path, f"{HEADER}\nb,5,1,1\na,0,1,1\n"))
    assert table.frame["job_id"].to_list() == ["b", "a"]
    assert not table.is_sorted
    assert read_jobs(write(tmp_path, f"{HEADER}\nb,0,1,1\na,0,1,1\n")).is_sorted


def test_windows_line_ends_byte_order_mark_gzip_and_trailing_blank_lines(tmp_path: Path) -> None:
    plain = read_jobs(write(tmp_path, f"{HEADER}\na,0,1,10\n"))
    text = f"\ufeff{HEADER}\r\na,0,1,10\r\n\r\n"
    assert read_jobs(write(tmp_path, text)).frame.equals(plain.frame)
    packed = tmp_path / "jobs.csv.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert read_jobs(packed).frame.equals(plain.frame)


def test_extra_columns_of_any_dtype_are_untouched() -> None:
    extra = pl.Series("tags", [["x"], []], dtype=pl.List(pl.String))
    table = from_frame(pl.DataFrame(GOOD).with_columns(extra))
    assert table.frame["tags"].equals(extra)


def test_absent_optional_values_stay_null() -> None:
    frame = pl.DataFrame(GOOD).with_columns(
        gradient_bytes=pl.lit(None), fp_time=pl.Series([None, 0.5]), user=pl.lit(None)
    )
    table = from_frame(frame)
    assert table.frame["gradient_bytes"].to_list() == [None, None]
    assert table.frame.schema["gradient_bytes"] == pl.Float64
    assert table.frame.schema["user"] == pl.String
    assert table.frame["fp_time"].to_list() == [None, 0.5]


def test_the_public_traces_are_read(shared_traces: Path) -> None:
    rows = {path.stem: read_jobs(path).num_jobs for path in sorted(shared_traces.glob("philly/*.csv"))}
    assert len(rows) == 8
    assert sum(rows.values()) == 74_540
    assert read_jobs(shared_traces / "philly" / "6214e9.csv").frame["vc"].unique().to_list() == ["6214e9"]
    assert read_jobs(shared_traces / "helios" / "venus_2vc_2020-09.csv").num_jobs == 1_867


# -- refused: the file ---


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty file"),
        (b"\n\n \n", "empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 3\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html></html>", "HTML"),
        (b'[{"jobid": 1}]', "JSON"),
        (b"\x7fELF\x02\x01\x00\x00\x01", "binary data"),
        (b"PK\x03\x04rest", "ZIP"),
        ("a,b\n".encode("utf-16"), "UTF-16"),
        (b"\x1f\x8bnot gzip at all", "damaged gzip"),
        (HEADER.encode() + b"\n", "no jobs"),
        (b"0,1,2,3\na,0,1,5\n", "not a job table"),
        (HEADER.encode() + b"\ra,0,1,5\r", "Macintosh"),
        (b"job_id,submit_time,num_gpus,num_gpus\na,0,1,5\n", "two columns named num_gpus"),
        (b"job_id,submit_time,num_gpus,duration,\na,0,1,5,6\n", "a name for every column"),
        (HEADER.encode() + b"\na,0,1,5\n\xff,0,1,5\n", "line 3"),
        (HEADER.encode() + b'\n"a,0,1,5\n', "quotation mark to be closed"),
        (HEADER.encode() + b'\nx"a,0,1,5\nx"b,0,1,5\n', "quotation marks"),
    ],
)
def test_what_is_no_trace_is_refused_by_its_nature(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    assert words in str(refusal(path))


def test_missing_files_folders_and_devices(tmp_path: Path) -> None:
    assert "no such file" in str(refusal(tmp_path / "none.csv"))
    assert "folder" in str(refusal(tmp_path))
    assert "not a regular file" in str(refusal(Path(os.devnull)))


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert "cannot be read: Permission denied" in str(refusal(write(tmp_path, f"{HEADER}\na,0,1,5\n")))


@pytest.mark.parametrize(
    ("record", "words"),
    [("b,0,1", "found 3 cells"), ("b,0,1,5,6", "found 5 cells"), ("", "found a blank line")],
)
def test_ragged_rows(tmp_path: Path, record: str, words: str) -> None:
    error = refusal(write(tmp_path, f"{HEADER}\na,0,1,5\n{record}\nc,0,1,5\n"))
    assert (error.row, error.line) == (2, 3)
    assert words in str(error)


def test_misspelt_and_missing_columns(tmp_path: Path) -> None:
    misspelt = refusal(write(tmp_path, "job_id,submit_time,num_gpu,duration\na,0,1,5\n"))
    assert "num_gpus is missing; `ringbco convert csv " in str(misspelt)
    assert " --map num_gpus=num_gpu -o jobs.parquet` makes a job table of it" in str(misspelt)
    capital = refusal(write(tmp_path, "job_id,submit_time,num_gpus,Duration\na,0,1,5\n"))
    assert "duration is missing; `ringbco convert csv " in str(capital)
    assert "duration is missing" in str(refusal(write(tmp_path, "job_id,submit_time,num_gpus,x\na,0,1,5\n")))


def test_a_damaged_parquet_file(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame(GOOD).write_parquet(buffer)
    whole = buffer.getvalue()
    path = tmp_path / "jobs.parquet"
    for damaged in (whole[:-20], whole[: len(whole) // 2], whole[:8], whole[:-4] + b"RAP1", b"PAR1"):
        path.write_bytes(damaged)
        assert "truncated or damaged Parquet" in str(refusal(path))
    path.write_bytes(f"{HEADER}\na,0,1,5\n".encode())
    assert "not a Parquet file" in str(refusal(path))


@pytest.mark.long
def test_the_first_damaged_column_decides(tmp_path: Path) -> None:
    """Columns are read side by side; the error is that of the lowest, whichever is met first."""
    rows = 200_000
    rng = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "job_id": [f"job-{row}" for row in range(rows)],
            "submit_time": rng.random(rows),
            "num_gpus": np.ones(rows, np.uint32),
            "duration": 1.0 + rng.random(rows),
        }
    )
    path = tmp_path / "jobs.parquet"
    frame.write_parquet(path, compression="zstd", use_pyarrow=False, row_group_size=rows)
    whole = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(0)

    def said(*columns: int) -> set[str]:
        damaged = bytearray(whole)
        for number in columns:
            header = group.column(number).data_page_offset
            damaged[header : header + 16] = {1: b"\xff", 3: b"\0"}[number] * 16
        path.write_bytes(damaged)
        return {str(refusal(path)) for _ in range(5)}

    for first in (1, 3):
        assert len(said(first)) == 1
        assert "truncated or damaged Parquet" in said(first).pop()
    assert said(1, 3) == said(1) != said(3)
    path.write_bytes(whole)
    assert read_jobs(path).frame.equals(frame)


def test_ids_whose_hashes_meet_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Series, "hash", lambda series: pl.repeat(7, series.len(), eager=True))
    assert read_jobs(write(tmp_path, f"{HEADER}\na,0,1,5\nb,0,1,5\n")).num_jobs == 2
    assert "row 1 has it too" in str(refusal(write(tmp_path, f"{HEADER}\na,0,1,5\na,0,1,5\n")))


def test_random_damage_to_parquet_never_escapes_as_another_error(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    pl.DataFrame(GOOD).write_parquet(buffer)
    whole = buffer.getvalue()
    rng = np.random.default_rng(5)
    path = tmp_path / "jobs.parquet"
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for place in rng.integers(4, len(whole) - 4, 2):
            damaged[place] = rng.integers(256)
        path.write_bytes(damaged)
        try:
            read_jobs(path)
        except RingbcoError as error:
            refused += "\n" not in str(error)
    assert refused > 100


# -- refused: a value ---

BAD_VALUES = [
    ("submit_time", ["-1", "-0.5", "nan", "NaN", "inf", "-inf", "1e400", "noon", "", "1,5", "1.6e18"]),
    ("num_gpus", ["0", "-3", "0.5", "2.5", "nan", "inf", "4294967296", "1e300", "two", "", "0x10"]),
    ("duration", ["0", "-7", "0.0", "nan", "inf", "1e400", "long", "", "1_000", "1e308"]),
    ("iterations", ["0", "-1", "1.5", "9007199254740993", "1e17", "nan", "many"]),
    ("gradient_bytes", ["-1", "nan", "inf", "100MB"]),
    ("batch_size", ["0", "-2", "0.5", "4294967296", "nan"]),
    ("fp_time", ["-1e-9", "nan", "inf", "fast"]),
    ("bp_time", ["-1", "nan", "-inf"]),
    ("deadline", ["nan", "inf", "tomorrow"]),
]


@pytest.mark.parametrize(
    ("column", "value"), [(column, value) for column, values in BAD_VALUES for value in values]
)
def test_a_bad_value_in_csv_is_named(tmp_path: Path, column: str, value: str) -> None:
    names = list(dict.fromkeys([*HEADER.split(","), column]))
    good = {
        "job_id": "a",
        "submit_time": "0",
        "num_gpus": "1",
        "duration": "5",
        "iterations": "1",
        "batch_size": "1",
    }
    rows = [{name: good.get(name, "1") for name in names} for _ in range(3)]
    for number, row in enumerate(rows):
        row["job_id"] = f"j{number}"
    rows[1][column] = f'"{value}"'
    text = "\n".join([",".join(names), *(",".join(row.values()) for row in rows)])
    error = refusal(write(tmp_path, text + "\n"))
    assert (error.row, error.line, error.column) == (2, 3, column)
    assert error.value in (value, None if value == "" else value)
    assert error.expected.startswith(COLUMNS[column].rule)
    assert error.hint
    assert f"row 2 (line 3), column {column}: {value}" in str(error) or value == ""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("submit_time", -1.0),
        ("submit_time", float("nan")),
        ("submit_time", None),
        ("num_gpus", 0),
        ("num_gpus", -1),
        ("num_gpus", None),
        ("num_gpus", 1.5),
        ("num_gpus", 2**32),
        ("duration", 0),
        ("duration", float("inf")),
        ("duration", None),
        ("iterations", 2**53 + 1),
        ("gradient_bytes", float("nan")),
        ("job_id", ""),
        ("job_id", None),
    ],
)
def test_a_bad_value_in_parquet_is_named(tmp_path: Path, column: str, value: object) -> None:
    path = tmp_path / "jobs.parquet"
    good = GOOD.get(column, [1, 2])
    pl.DataFrame(GOOD | {column: [good[0], value]}, strict=False).write_parquet(path)
    error = refusal(path)
    assert (error.row, error.line, error.column) == (2, None, column)
    assert "row 2, column" in str(error)


def test_the_contracts_example(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\na,0,1,5\nb,0,1,5\nc,0,0,5\n")
    assert str(refusal(path)) == (
        f"{path}: row 3 (line 4), column num_gpus: 0: expected an integer >= 1; "
        "give the number of GPUs the job asked for"
    )


def test_the_lowest_row_is_reported_and_then_the_first_column(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, f"{HEADER}\na,0,1,5\na,-1,0,x\nb,nan,0,5\n"))
    assert (error.row, error.column) == (2, "job_id")
    error = refusal(write(tmp_path, f"{HEADER}\na,0,1,5\nb,0,0,x\na,0,1,5\n"))
    assert (error.row, error.column) == (2, "num_gpus")


def test_a_repeated_job_id_names_both_rows(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, f"{HEADER}\na,0,1,5\nb,0,1,5\nb,0,1,5\na,0,1,5\n"))
    assert (error.row, error.value) == (3, "b")
    assert "row 2 has it too" in str(error)


def test_an_empty_job_id(tmp_path: Path) -> None:
    for cell in ("", '""'):
        error = refusal(write(tmp_path, f"{HEADER}\na,0,1,5\n{cell},0,1,5\n{cell},0,1,5\n"))
        assert (error.row, error.column) == (2, "job_id")
        assert "non-empty" in str(error)


def test_lines_are_counted_through_cells_that_hold_line_ends(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, f'{HEADER}\n"a\nb",0,1,5\nc,0,0,5\n'))
    assert (error.row, error.line) == (2, 4)


def test_a_column_of_the_wrong_kind_in_parquet() -> None:
    frame = pl.DataFrame(GOOD)
    with pytest.raises(InputError, match=r"row 1, column num_gpus: one: expected an integer"):
        from_frame(frame.with_columns(num_gpus=pl.Series(["one", "two"])))
    with pytest.raises(InputError, match=r"column submit_time: .*stored as a number, not Datetime"):
        from_frame(frame.with_columns(submit_time=pl.lit("2020-09-01").str.to_datetime()))
    with pytest.raises(InputError, match=r"column vc: expected text, not Float64"):
        from_frame(frame.with_columns(vc=pl.Series([6.214e12, 1.0])))
    with pytest.raises(InputError, match=r"column job_id: expected text, not Float64"):
        from_frame(frame.with_columns(job_id=pl.Series([1.0, 2.0])))


@pytest.mark.parametrize("column", ["min_gpus", "iterations", "fp_time", "deadline"])
def test_a_hint_leaves_a_value_out_in_the_tables_own_way(tmp_path: Path, column: str) -> None:
    text = f"job_id,submit_time,num_gpus,duration,{column}\na,0,1,2,inf\n"
    assert "leave it empty" in str(refusal(write(tmp_path, text)))
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [2]})
    with pytest.raises(InputError, match="make it null"):
        from_frame(frame.with_columns(pl.lit(float("inf")).alias(column)))
    with pytest.raises(InputError, match=r"stored as a number, not String; cast the column to (integers|fl)"):
        from_frame(frame.with_columns(pl.lit("1").alias(column)))
    # Nothing, quoted nothing and blanks are all absent where a number should be.
    for cell in ("", '""', "  "):
        table = read_jobs(write(tmp_path, text.replace("inf", cell)))
        assert table.frame[column].to_list() == [None]


def test_a_frame_is_validated_and_written(tmp_path: Path) -> None:
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0], "num_gpus": [1], "duration": [2]})
    write_jobs(frame, tmp_path / "jobs.parquet")
    assert read_jobs(tmp_path / "jobs.parquet").frame.equals(from_frame(frame).frame)
    with pytest.raises(InputError, match="row 1, column num_gpus: 0"):
        write_jobs(frame.with_columns(num_gpus=0), tmp_path / "bad.parquet")
    with pytest.raises(InputError, match=r"expected a path, a JobTable, or a table of polars.* not int"):
        write_jobs(7, tmp_path / "bad.parquet")  # type: ignore[arg-type]
    assert not (tmp_path / "bad.parquet").exists()


def test_errors_survive_pickling(tmp_path: Path) -> None:
    error = refusal(write(tmp_path, f"{HEADER}\na,0,0,5\n"))
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.row, copy.column, copy.value) == (str(error), 1, "num_gpus", "0")


def test_near_name() -> None:
    assert near_name("durations", COLUMNS) == "duration"
    assert near_name("zzz", COLUMNS) is None
    assert near_name("gpus", COLUMNS) == "num_gpus"  # another name
    assert near_name("interval", COLUMNS) is None
    assert near_name("model_name", COLUMNS) is None
    assert near_name("VC ", COLUMNS) == "vc"


@given(st.text("abAB", max_size=6), st.lists(st.text("abc", max_size=6), max_size=5))
def test_a_hint_is_at_most_two_slips_away(name: str, known: list[str]) -> None:
    def slips(one: str, other: str) -> int:
        if not one or not other:
            return len(one) + len(other)
        least = min(
            slips(one[1:], other) + 1,
            slips(one, other[1:]) + 1,
            slips(one[1:], other[1:]) + (one[0] != other[0]),
        )
        if one[:2] == other[1::-1] and len(one) > 1 and len(other) > 1:
            least = min(least, slips(one[2:], other[2:]) + 1)
        return least

    far = {other: slips(name.lower(), other) for other in known}
    close = [other for other in known if far[other] <= 2 and far[other] < max(len(name), len(other))]
    assert nearest(name, known) == min(close, key=lambda other: far[other], default=None)


# -- its page ---


def test_the_page_lists_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs" / "job-table.md").read_text(encoding="utf-8")
    lines = page[: page.index("## What reading does")].splitlines()
    rows = {row.split("|")[1].strip(): row.split("|")[2:4] for row in lines if row.startswith("| ")}
    for name, column in COLUMNS.items():
        kind, required = (cell.strip() for cell in rows[name])
        assert kind.split(",")[0] == column.dtype.__name__.lower()
        assert required == ("yes" if column.required else "")
