"""Any CSV: mapped columns, every rule of the job table. Forms of times and cells: test_source_forms.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from ringbco.errors import InputError, RingbcoError, UsageError, show_value
from ringbco.sources import convert
from ringbco.sources.source import Options
from ringbco.trace.jobs import COLUMNS

OURS = "job_id,submit_time,num_gpus,duration"


def table(folder: Path, text: str) -> Path:
    path = folder / "mine.csv"
    path.write_text(text)
    return path


def refusal(path: Path, strict: bool = False, **column_map: str) -> RingbcoError:
    with pytest.raises(RingbcoError) as caught:
        convert("csv", [path], Options(strict=strict, column_map=column_map))
    assert "\n" not in str(caught.value)
    return caught.value


def test_mapped_columns_and_the_others_carried_along(tmp_path: Path) -> None:
    path = table(tmp_path, "id;when;gpus;secs;note;vc\n007;5;2;1.5;x;6214e9\n8;0;1;3;;b\n")
    names = {"job_id": "id", "submit_time": "when", "num_gpus": "gpus", "duration": "secs"}
    result = convert("csv", [path], Options(strict=True, column_map=names))
    assert result.table.frame.columns == ["job_id", "submit_time", "num_gpus", "duration", "vc", "note"]
    assert result.table.frame.rows() == [("8", 0.0, 1, 3.0, "b", None), ("007", 5.0, 2, 1.5, "6214e9", "x")]
    assert "job_id=id, submit_time=when" in result.table.metadata["ringbco.options"]


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_separators(mark: str, tmp_path: Path) -> None:
    path = table(tmp_path, f"{OURS}\na,1,2,3\n".replace(",", mark))
    assert convert("csv", [path]).table.frame.rows() == [("a", 1.0, 2, 3.0)]


@pytest.mark.parametrize(
    ("first", "second", "epoch", "at"),
    [
        ("2020-09-01 10:00:00", "2020-09-01 11:00:00", "2020-09-01T00:00:00", 36_000.0),
        ("2020-09-01T10:00:00", "2020-09-01T11:00:00", "2020-09-01T00:00:00", 36_000.0),
        ("2020-09-01 00:00", "2020-09-01 01:00", "2020-09-01T00:00:00", 0.0),
        ("2020-09-01 23:59:59.5", "2020-09-02 00:59:59.5", "2020-09-01T00:00:00", 86_399.5),
        ("1969-12-31 10:00:00", "1969-12-31 11:00:00", "1969-12-31T00:00:00", 36_000.0),
        ("0001-01-01T10:00", "0001-01-01T11:00", "0001-01-01T00:00:00", 36_000.0),
        # The midnight is that of the clock: with an offset, of UTC.
        ("2020-09-01 10:00:00+08:00", "2020-09-01 03:00:00+00:00", "2020-09-01T00:00:00Z", 7_200.0),
        ("2020-09-01 01:00:00+08:00", "2020-08-31 18:00:00+00:00", "2020-08-31T00:00:00Z", 61_200.0),
        ("2020-09-01T10:00:00Z", "2020-09-01T11:00:00Z", "2020-09-01T00:00:00Z", 36_000.0),
    ],
)
def test_dates_count_from_the_midnight_before_the_first_submission(
    first: str, second: str, epoch: str, at: float, tmp_path: Path
) -> None:
    """A row that is dropped begins no day."""
    rows = f"a,{second},1,5,\nb,{first},1,5,{second}\n"
    path = table(tmp_path, f"{OURS},deadline\n{rows}")
    result = convert("csv", [path], Options(strict=True))
    assert result.epoch == epoch
    assert result.table.frame["submit_time"].to_list() == [at, at + 3600.0]
    assert result.table.frame["deadline"].to_list() == [at + 3600.0, None]
    clock = "in UTC" if epoch.endswith("Z") else "on the file's own wall clock"
    note = result.table.metadata["ringbco.epoch_note"]
    assert note == f"midnight before the first kept submission, {clock}"
    dropped = first.replace(first[:10], "0001-01-01").replace("+08:00", "Z")
    path = table(tmp_path, f"{OURS},deadline\n{rows}z,{dropped},0,5,\n")
    assert convert("csv", [path]).epoch == epoch


def test_numeric_times_stay_as_they_are(tmp_path: Path) -> None:
    result = convert("csv", [table(tmp_path, f"{OURS}\na,1614852000,1,5\nb,1614852000.5,1,5\n")])
    assert result.table.frame["submit_time"].to_list() == [1_614_852_000.0, 1_614_852_000.5]
    assert result.table.epoch == "1970-01-01T00:00:00+00:00"  # Unix seconds


def test_a_time_before_the_first_year_is_none(tmp_path: Path) -> None:
    """In UTC it lies before 1 January of the year 1, which no date of ours does."""
    rows = "a,0001-01-01T00:30:00+01:00,1,60\nb,2024-01-01T00:30:00+01:00,1,60\n"
    result = convert("csv", [table(tmp_path, f"{OURS}\n{rows}")])
    assert (result.epoch, result.account.dropped) == (
        "2023-12-31T00:00:00Z",
        {"submit_time missing or unreadable": 1},
    )


def test_start_and_end_stand_in_for_a_duration(tmp_path: Path) -> None:
    path = table(
        tmp_path, "job_id,submit_time,num_gpus,begin,end\na,1,1,5,9.5\nb,1,1,5,5\nc,1,1,5,4\nd,9,1,5,8\n"
    )
    result = convert("csv", [path], Options(column_map={"start_time": "begin", "end_time": "end"}))
    assert result.table.frame.rows() == [("a", 1.0, 1, 4.5, 5.0, 9.5)]
    assert result.account.dropped == {
        "starts before it is submitted (start_time < submit_time)": 1,
        "ends before it starts (end_time < start_time)": 1,
        "ran for no time (end_time = start_time)": 1,
    }
    # A duration of its own comes first, and its neighbours are only carried along.
    path = table(tmp_path, f"{OURS},start_time,end_time\na,1,1,7,x,y\n")
    assert convert("csv", [path], Options(strict=True)).table.frame.row(0) == ("a", 1.0, 1, 7.0, "x", "y")


BAD = {
    "job_id": ("", "job_id"),
    "submit_time": ("-1", "x", "nan", "inf", ""),
    "num_gpus": ("0", "-1", "1.5", "", "x", "4294967296", "nan"),
    "duration": ("0", "-1", "", "nan", "inf", "x"),
    "iterations": ("0", "1.5", "-1", "x"),
    "gradient_bytes": ("-1", "x", "inf"),
    "batch_size": ("0", "x"),
    "fp_time": ("-1", "inf"),
    "bp_time": ("-0.1", "x"),
    "deadline": ("x", "inf", "159-189-229-289"),
    "time_limit": ("0", "-5", "x", "1-25:00:00"),
    "min_gpus": ("0", "3", "x"),
    "max_gpus": ("1", "1.5"),
    "gpu_share": ("0", "1.5", "x", "0.5"),
    "priority": ("1.5", "-2147483649", "2147483648", "x"),
    "preemptible": ("1", "yes", "2"),
}
GOOD = {"preemptible": "TRUE", "priority": "-3", "max_gpus": "2", "gpu_share": ""}


@pytest.mark.parametrize(("column", "cell"), [(c, v) for c, cells in BAD.items() for v in cells])
def test_a_row_that_breaks_a_rule_is_dropped_or_stops_a_strict_run(
    column: str, cell: str, tmp_path: Path
) -> None:
    good = {"job_id": "a", "submit_time": "3", "num_gpus": "2", "duration": "9.5", column: "1"} | {
        name: cell for name, cell in GOOD.items() if name == column
    }
    if (column, cell) == ("job_id", "job_id"):
        good["job_id"], cell = "1", "1"  # a second time
    bad = {**good, "job_id": "b", column: cell}
    path = table(tmp_path, "\n".join(",".join(row) for row in (good, good.values(), bad.values())))
    account = convert("csv", [path]).account
    optional = not COLUMNS[column].required
    assert (account.rows_read, account.rows_kept) == (2, 1 + optional)
    [told] = [entry for entry in account.entries if entry.rows]
    assert (told.kind, told.rows, told.line) == ("changed" if optional else "dropped", 1, 3)
    assert told.value == (show_value(cell) if cell else "null")
    error = refusal(path, strict=True)
    assert isinstance(error, InputError)
    assert (error.row, error.line, error.column, error.value) == (2, 3, column, cell or None)


def test_priorities_and_shares_are_read(tmp_path: Path) -> None:
    rows = "a,1,1,1,-3, False ,0.25\nb,1,1,1,7,true,1\n"
    path = table(tmp_path, f"{OURS},priority,may,gpu_share\n{rows}")
    frame = convert("csv", [path], Options(strict=True, column_map={"preemptible": "may"})).table.frame
    assert frame.select("priority", "preemptible", "gpu_share").rows() == [(-3, False, 0.25), (7, True, 1.0)]
    path.write_text(f"{OURS},priority,may,gpu_share\n{rows}c,1,1,1,0,true,0\nd,1,1,1,0,true,1.5\n")
    converted = convert("csv", [path])
    assert converted.account.changed == {"gpu_share is not a share of one GPU > 0: left out": 2}
    assert converted.table.frame["gpu_share"].to_list() == [0.25, 1.0, None, None]


def test_an_empty_optional_cell_is_no_defect(tmp_path: Path) -> None:
    optional = [name for name, column in COLUMNS.items() if not column.required]
    path = table(tmp_path, f"{OURS},{','.join(optional)}\na,1,1,1{',' * len(optional)}\n")
    frame = convert("csv", [path], Options(strict=True)).table.frame
    # Without a job that comes after another neither column is written.
    there = [name for name in optional if name in frame.columns]
    assert {*optional} - {*there} == {"after", "think_time"}
    assert frame.select(there).row(0) == (None,) * len(there)


def test_checkpoints_that_never_come_are_kept(tmp_path: Path) -> None:
    rows = "a,1,1,1,inf\nb,1,1,1,60\nc,1,1,1,\nd,1,1,1,-inf\ne,1,1,1,nan\n"
    path = table(tmp_path, f"{OURS},checkpoint_interval\n{rows}")
    converted = convert("csv", [path])
    assert converted.table.frame["checkpoint_interval"].to_list() == [float("inf"), 60.0, None, None, None]
    assert sum(converted.account.changed.values()) == 1


def test_wrong_maps_are_refused(tmp_path: Path) -> None:
    path = table(tmp_path, "number,submit_time,num_gpus,duration\na,1,1,1\n")
    error = refusal(path)
    assert isinstance(error, InputError)
    assert str(error) == (
        f"{path}: has no column job_id; say which one it is: `ringbco convert csv {path}"
        " --map 'job_id=#' -o jobs.parquet` (its columns are number, submit_time, num_gpus, duration;"
        " # numbers the rows)"
    )
    error = refusal(table(tmp_path, "id,submitted,gpus,runtime\na,1,1,1\n"))
    assert str(error) == (
        f"{path}: has no columns job_id, submit_time, num_gpus, duration; say which they are: "
        f"`ringbco convert csv {path} --map job_id=id --map submit_time=submitted --map num_gpus=gpus"
        " --map duration=runtime -o jobs.parquet`"
    )
    error = refusal(path, job_id="idd")
    assert isinstance(error, UsageError)
    assert str(error) == f"--map job_id=idd: {path} has no column idd; did you mean id?"
    assert "--map jobid=id: jobid is no column of the job table; did you mean job_id?" in str(
        refusal(path, jobid="id")
    )
    path = table(tmp_path, f"{OURS},time\na,1,1,1,5\n")
    assert "has a column submit_time beside the one mapped to it" in str(refusal(path, submit_time="time"))
    path = table(tmp_path, "a,b,a\n1,2,3\n")
    assert "has two columns named a" in str(refusal(path))


def test_no_cluster_from_a_csv(tmp_path: Path) -> None:
    path = table(tmp_path, f"{OURS}\na,1,1,1\n")
    with pytest.raises(UsageError, match="csv does not say which servers it ran on"):
        convert("csv", [path], Options(want_cluster=True))


def test_columns_of_true_and_false(tmp_path: Path) -> None:
    """In any case; an empty cell is null; anything else is a defect."""
    path = table(tmp_path, f"{OURS},preemptible\na,1,1,1,True\nb,2,1,1,false\nc,3,1,1,\n")
    frame = convert("csv", [path], Options(strict=True)).table.frame
    assert frame["preemptible"].to_list() == [True, False, None]
    path = table(tmp_path, f"{OURS},preemptible\na,1,1,1,maybe\nb,2,1,1,false\n")
    with pytest.raises(InputError, match="column preemptible"):
        convert("csv", [path], Options(strict=True))
