"""`convert csv`: the forms in which tables of others have times, durations, numbers and missing cells."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Invoke
from ringbco.errors import InputError, UsageError
from ringbco.io.times import lengths, moments
from ringbco.sources import Conversion, convert
from ringbco.sources.source import Options
from ringbco.trace.plausibility import slurm_parts

OURS = "job_id,submit_time,num_gpus,duration"


def table(folder: Path, text: str, name: str = "mine.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def convert_csv(folder: Path, text: str, *, name: str = "mine.csv", **options: object) -> Conversion:
    return convert("csv", [table(folder, text, name)], Options(**options))  # type: ignore[arg-type]


# Time of day, seconds after 2021-03-04 10:00:00 (in UTC where it has an offset).
WALL = {
    "2021-03-04 10:00:00": 0.0,
    "2021-03-04T10:00:00": 0.0,
    "2021-03-04T10:00:00.123456": 0.123456,
    "2021-03-04 10:00:01.5": 1.5,
    "2021-03-04 10:00:00,250": 0.25,
    "2021-03-04T10:01": 60.0,
    "2021/03/04 10:00:00": 0.0,
    "2021/3/4 9:05": -3300.0,
    "2021-03-05": 50_400.0,
}
ZONED = {
    "2021-03-04T10:00:00Z": 0.0,
    "2021-03-04 10:00:00 UTC": 0.0,
    "2021-03-04 11:00:00+0100": 0.0,
    "2021-03-04 11:00:00.5+01:00": 0.5,
    "2021-03-04T10:30+01": -1800.0,
    "2021-03-04 10:00:00 +0000 UTC": 0.0,
    "2021-03-04T04:30:00-05:30": 0.0,
}
NO_TIME = ("x", "12", "2021-02-30", "2021-03-04 10:00 PM", "04.03.2021", "2021-03-04 25:00", "2021-13-01")
LENGTHS = {
    "1-06:00:00": 108_000.0,
    "125-00:00:00": 10_800_000.0,
    "1-00:00": 86_400.0,
    "1-06": 108_000.0,
    "00:30:00": 1800.0,
    "100:00:00": 360_000.0,
    "10:30": 630.0,
    "1:02:03.123456": 3723.123456,
    "0 days 01:02:03": 3723.0,
    "2 days": 172_800.0,
    "1 day, 2:03:04": 93_784.0,
    "-1 day, 23:59:59": -1.0,
    "3600": 3600.0,
    "3600.5": 3600.5,
    "1,234": 1234.0,
}
NO_LENGTH = ("x", "159-189-229-289", "1-25:00:00", "12,5", "1:2:3:4", "UNLIMITED", "00:00:99", "2021-03-04")


@pytest.mark.parametrize("forms", [WALL, ZONED])
def test_each_time_is_read_by_itself(forms: dict[str, float], tmp_path: Path) -> None:
    """All forms in one file, in either order: no row decides for another."""
    for order in (list(forms), list(reversed(forms))):
        rows = "".join(f'{i},"{text}",1,5\n' for i, text in enumerate(order))
        frame = convert_csv(tmp_path, f"{OURS}\n{rows}", strict=True).table.frame
        got = {order[int(i)]: t for i, t in frame.select("job_id", "submit_time").rows()}
        assert got == {text: pytest.approx(at + 36_000.0, abs=1e-9) for text, at in forms.items()}


@given(
    st.datetimes(datetime(1990, 1, 1), datetime(2040, 1, 1)),
    st.sampled_from((" ", "T")),
    st.sampled_from(("", "Z", "+0530", "-08:00", " UTC")),
)
def test_isoformat_is_read_to_the_microsecond(when: datetime, mark: str, zone: str) -> None:
    """Against Python's own reading of the same text, whether it has a fraction or not."""
    text = when.isoformat(sep=mark) + zone
    known = datetime.fromisoformat(text.replace(" UTC", "+00:00"))
    zero = datetime(1970, 1, 1, tzinfo=UTC)
    expected = (known if known.tzinfo else known.replace(tzinfo=UTC)) - zero
    micros, zoned = moments(pl.Series([text]))
    assert micros[0] == expected // timedelta(microseconds=1)
    assert zoned[0] == bool(zone)


@given(st.integers(0, 10**13))
def test_lengths_of_python_and_slurm_are_read(micros: int) -> None:
    span = timedelta(microseconds=micros)
    whole = micros // 1_000_000
    day, rest = divmod(whole, 86_400)
    slurm = f"{day}-{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    read = lengths(pl.Series([str(span), slurm]), "s", thousands=True)
    assert read.to_list() == [micros / 1e6, float(whole)]


def test_what_is_no_time_and_no_length() -> None:
    assert moments(pl.Series(NO_TIME))[0].null_count() == len(NO_TIME)
    assert lengths(pl.Series(list(LENGTHS)), "s", thousands=True).to_list() == list(LENGTHS.values())
    assert lengths(pl.Series(NO_LENGTH), "s", thousands=True).null_count() == len(NO_LENGTH)
    # Where a comma may be the decimal point, a comma and three digits could be either.
    assert lengths(pl.Series(["1,234"]), "s", thousands=False).to_list() == [None]


def test_submissions_keep_the_fraction(tmp_path: Path) -> None:
    rows = "a,2021-03-04T10:00:00.25,1,5\nb,2021-03-04T10:00:01,1,5\n"
    result = convert_csv(tmp_path, f"{OURS}\n{rows}")
    assert (result.epoch, result.table.frame["submit_time"].to_list()) == (
        "2021-03-04T00:00:00",
        [36_000.25, 36_001.0],
    )
    # 1,614,850,000 s and some microseconds are no float64: the midnight is taken off before.
    rows = "a,2021-03-04T10:00:00.000001,1,5\nb,2021-03-04T11:00:00.123457,1,5\n"
    assert convert_csv(tmp_path, f"{OURS}\n{rows}").table.frame["submit_time"].to_list() == [
        36_000.000001,
        39_600.123457,
    ]


def test_a_time_of_another_kind_is_named(tmp_path: Path) -> None:
    rows = "a,2021-03-04 10:00:00,1,5\nb,2021-03-04 10:00:00+01:00,1,5\nc,1614852000,1,5\nd,2021-03-04,1,5\n"
    account = convert_csv(tmp_path, f"{OURS}\n{rows}").account
    [entry] = [entry for entry in account.entries if entry.rows]
    assert (entry.reason, entry.rows) == (
        "submit_time is not a time without an offset, as most of submit_time are",
        2,
    )
    assert (entry.line, entry.value) == (3, "'2021-03-04 10:00:00+01:00'")


def test_words_for_no_value_and_excels_cells(tmp_path: Path) -> None:
    """A byte order mark, CRLF, `sep=`, quoted numbers with thousands, floats for counts, no value."""
    words = ("NaN", "None", "NULL", "null", "-", "", "<NA>", "N/A", "NaT", "Unknown")
    rows = "".join(f'{i},{i},"1,024.0"," 4.0 ",{word},60\r\n' for i, word in enumerate(words))
    text = f"\ufeffsep=,\r\njob_id,submit_time,duration,num_gpus,deadline,iterations\r\n{rows}"
    result = convert_csv(tmp_path, text, strict=True)
    assert result.account.entries == ()
    frame = result.table.frame
    assert frame["deadline"].null_count() == frame.height == len(words)
    assert set(frame["duration"]) == {1024.0}
    assert set(frame["num_gpus"]) == {4}


def test_limits_of_slurm(tmp_path: Path) -> None:
    limits = ("1-06:00:00", "UNLIMITED", "00:30:00", "3600", "Partition_Limit", "4294967295", "inf", "x", "0")
    rows = "".join(f"{i},0,2,60,{limit}\n" for i, limit in enumerate(limits))
    result = convert_csv(tmp_path, f"{OURS},time_limit\n{rows}")
    expected = [108_000.0, None, 1800.0, 3600.0, None, None, float("inf"), None, None]
    assert result.table.frame["time_limit"].to_list() == expected
    [entry] = result.account.entries
    assert (entry.kind, entry.rows, entry.line, entry.value) == ("changed", 2, 9, "x")


def test_optional_cells_never_drop_a_job(tmp_path: Path) -> None:
    rows = "0,5601,1,96,159-189-229-289\n1,7505,1,106,235\n2,9000,1,50,\n"
    result = convert_csv(tmp_path, f"{OURS},deadline\n{rows}")
    assert result.table.frame["deadline"].to_list() == [None, 235.0, None]
    assert result.account.to_dict()["first"] == {
        "deadline is not a time: left out": {"line": 2, "value": "159-189-229-289"}
    }


def test_cells_that_contradict_num_gpus_are_left_out(tmp_path: Path) -> None:
    """Each breaks no rule of its own column, and the job table would be refused for it."""
    header = f"{OURS},min_gpus,max_gpus,gpu_share"
    rows = "a,0,2,5,1,4,\nb,0,2,5,3,1,0.5\nc,0,1,5,,,0.5\nd,0,1,5,,2,0.5\n"
    result = convert_csv(tmp_path, f"{header}\n{rows}")
    assert result.table.frame.select("min_gpus", "max_gpus", "gpu_share").rows() == [
        (1, 4, None),
        (None, None, None),
        (None, None, 0.5),
        (None, 2, None),
    ]
    assert result.account.changed == {
        "min_gpus is above num_gpus: left out": 1,
        "max_gpus is below num_gpus: left out": 1,
        "gpu_share of a job of several GPUs: left out": 2,
    }


@pytest.mark.parametrize(
    ("unit", "written", "seconds"),
    [("ms", "470", 0.47), ("s", "470", 470.0), ("min", "1.5", 90.0), ("h", "0.25", 900.0)],
)
def test_units(unit: str, written: str, seconds: float, tmp_path: Path) -> None:
    header = "job_id,submit_time,num_gpus,duration,time_limit,deadline,fp_time"
    rows = f"a,{written},1,{written},{written},{written},0.5\nb,{written},1,00:01:00,1-00,,\n"
    result = convert_csv(tmp_path, f"{header}\n{rows}", unit=unit)
    frame = result.table.frame
    for column in ("submit_time", "duration", "time_limit", "deadline"):
        assert frame[column][0] == seconds
    # What carries its unit, and the seconds of an iteration, are no numbers of that unit.
    assert (frame["duration"][1], frame["time_limit"][1], frame["fp_time"][0]) == (60.0, 86_400.0, 0.5)
    assert json.loads(result.table.metadata["ringbco.options"])["unit"] == unit


def test_epochs_in_milliseconds_beside_their_span(tmp_path: Path) -> None:
    header = "job_id,submit_time,start_time,end_time,num_gpus"
    frame = convert_csv(
        tmp_path, f"{header}\na,1614852000123,1614852001123,1614852002623,1\n", unit="ms"
    ).table.frame
    assert frame.select("submit_time", "duration").row(0) == (1614852000.123, pytest.approx(1.5, abs=1e-6))


def test_ids_that_count_rows(tmp_path: Path) -> None:
    """From 0 in the file's order, whatever becomes of a row; blank lines are none."""
    text = "timestamp,duration,num_gpus,cluster\n2017-10-09 07:01:55,66.0,1,c1\n\nx,1,1,c9\n"
    text += "2017-10-09 06:13:03,2951.0,1,c2\n2017-10-09 06:13:03,10.0,2,c1\n"
    names = {"job_id": "#", "submit_time": "timestamp", "vc": "cluster"}
    frame = convert_csv(tmp_path, text, column_map=names).table.frame
    assert frame.select("job_id", "submit_time", "vc").rows() == [
        ("2", 22_383.0, "c2"),
        ("3", 22_383.0, "c1"),
        ("0", 25_315.0, "c1"),
    ]
    with pytest.raises(UsageError, match="has no column #"):
        convert_csv(tmp_path, text, column_map={"user": "#"})


def test_columns_of_a_file_without_a_header(tmp_path: Path) -> None:
    names = ("job_id", "submit_time", "num_gpus", "secs", "note")
    text = "a,0,1,60,x\nb,5,2,00:01:00,y\n"
    result = convert_csv(tmp_path, text, columns=names, column_map={"duration": "secs"}, strict=True)
    assert result.table.frame.rows() == [("a", 0.0, 1, 60.0, "x"), ("b", 5.0, 2, 60.0, "y")]
    assert json.loads(result.table.metadata["ringbco.options"])["columns"] == ",".join(names)
    account = convert_csv(tmp_path, "a,0,1,60,\nb,5,x,1,\n", columns=names[:3] + ("duration",)).account
    assert [(e.line, e.value) for e in account.entries] == [(2, "x")]
    with pytest.raises(UsageError, match=r"--columns: 2 names, but the first line of .* has 5 cells"):
        convert_csv(tmp_path, text, columns=("a", "b"))
    with pytest.raises(UsageError, match="two columns named a"):
        convert_csv(tmp_path, text, columns=("a", "a", "b", "c", "d"))
    with pytest.raises(UsageError, match="a name for every column"):
        convert_csv(tmp_path, text, columns=("a", "", "b", "c", "d"))
    with pytest.raises(InputError, match=r"has no header: .* --columns job_id,submit_time,num_gpus,duration"):
        convert_csv(tmp_path, text)


def test_deadlines_from_the_submission(tmp_path: Path) -> None:
    text = f"{OURS},deadline\na,2021-03-04T10:00,1,60,90\nb,2021-03-04T10:01,1,60,1-00:00:00\n"
    text += "c,2021-03-04T10:02,1,60,2021-03-05\nd,2021-03-04T10:03,1,60,\n"
    result = convert_csv(tmp_path, text, deadline_from="submit")
    assert result.table.frame["deadline"].to_list() == [36_090.0, 122_460.0, None, None]
    assert [(e.kind, e.line, e.value) for e in result.account.entries] == [("changed", 4, "2021-03-05")]
    assert json.loads(result.table.metadata["ringbco.options"])["deadline_from"] == "submit"
    # Without the option they are dates, as submissions are.
    assert convert_csv(tmp_path, text).table.frame["deadline"].to_list() == [None, None, 86_400.0, None]
    with pytest.raises(UsageError, match="has no column deadline; name it with --map deadline=THEIRS"):
        convert_csv(tmp_path, f"{OURS}\na,0,1,1\n", deadline_from="submit")
    with pytest.raises(UsageError, match="--deadline-from start: expected submit"):
        convert_csv(tmp_path, text, deadline_from="start")
    with pytest.raises(UsageError, match="--unit d: choose one of ms, s, min, h"):
        convert_csv(tmp_path, text, unit="d")


def test_a_duration_that_contradicts_start_and_end_is_kept_and_counted(tmp_path: Path) -> None:
    header = f"{OURS},start_time,end_time"
    times = [("10:00:00", "10:10:00", 600), ("10:00:00", "10:10:01", 600), ("10:00:00", "11:10:00", 600)]
    times += [("10:10:00", "10:00:00", 600)]
    rows = [f"{i},2021-03-04 09:00,1,{d},2021-03-04 {s},2021-03-04 {e}" for i, (s, e, d) in enumerate(times)]
    rows.append("z,2021-03-04 09:00,1,600,,Unknown")
    result = convert_csv(tmp_path, "\n".join((header, *rows)))
    assert set(result.table.frame["duration"]) == {600.0}
    assert result.table.frame.columns[-2:] == ["start_time", "end_time"]
    [entry] = result.account.entries
    assert (entry.kind, entry.rows, entry.line, entry.value) == ("changed", 2, 4, "600")
    assert entry.reason == "duration is not end_time - start_time, by more than 1 s: duration kept"
    with pytest.raises(InputError, match=r"row 3 .*column duration: 600: expected end_time - start_time"):
        convert_csv(tmp_path, "\n".join((header, *rows)), strict=True)


def test_json_lines(tmp_path: Path) -> None:
    lines = [
        {
            "id": 1,
            "submit_time": "2021-03-04T10:00:00.5",
            "num_gpus": 2,
            "duration": "00:10:00",
            "res": {"cpu": 3},
        },
        {"id": "b", "submit_time": "2021-03-04T11:00", "num_gpus": 4.0, "duration": 5.5, "preemptible": True},
        {"id": 3, "submit_time": None, "num_gpus": 1, "duration": 1, "list": [1, "x"]},
    ]
    text = "\n".join(map(json.dumps, lines)) + "\n\n[1]\nno\n"
    for name in ("jobs.jsonl", "jobs.csv"):
        result = convert_csv(tmp_path, text, name=name, column_map={"job_id": "id"})
        assert result.table.frame.rows(named=True) == [
            {"job_id": "1", "submit_time": 36_000.5, "num_gpus": 2, "duration": 600.0, "preemptible": None}
            | {"res.cpu": "3", "list": None},
            {"job_id": "b", "submit_time": 39_600.0, "num_gpus": 4, "duration": 5.5, "preemptible": True}
            | {"res.cpu": None, "list": None},
        ]
        assert [(e.reason, e.rows, e.line, e.value) for e in result.account.entries if e.rows] == [
            ("not a JSON object", 2, 5, "[1]"),
            ("submit_time missing or unreadable", 1, 3, "null"),
        ]
    with pytest.raises(UsageError, match="holds JSON Lines, which name their columns"):
        convert_csv(tmp_path, text, columns=("a", "b"))
    with pytest.raises(
        InputError, match=r"is JSON, but not JSON Lines .* `jq -c '\.\[\]' .*mine.csv > jobs.jsonl`"
    ):
        convert_csv(tmp_path, json.dumps(lines))
    with pytest.raises(
        InputError,
        match=r"has no column job_id; say which one it is: `ringbco convert csv .* --map job_id=id ",
    ):
        convert_csv(tmp_path, text)
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b'{"a": 1}\n{"a": "\xff"}\n')
    with pytest.raises(InputError, match=r"line 2: .*expected UTF-8 text"):
        convert("csv", [path])


@pytest.mark.parametrize(
    "verb", [("inspect",), ("replay", "--cluster", "2x8", "--policy", "fifo", "-o", "d")]
)
def test_dates_in_a_job_table_name_the_command(invoke: Invoke, verb: tuple[str, ...], tmp_path: Path) -> None:
    table(tmp_path, f"{OURS}\na,2021-03-04T10:00,1,5\n")
    done = invoke(verb[0], "mine.csv", *verb[1:])
    assert done.returncode == 1
    assert "`ringbco convert csv mine.csv -o jobs.parquet` reads dates" in done.stderr


def test_steps_of_slurm(invoke: Invoke, tmp_path: Path) -> None:
    header = "job_id|submit_time|start_time|end_time|num_gpus|user"
    start, ids = "2026-05-04T08:00:00", ("1", "1.batch", "1.extern", "1.0", "2_[3-9]")
    rows = "".join(f"{i}|{start}|{start}|2026-05-04T09:00:00|4|\n" for i in ids)
    steps = "3 of 5 job_ids are steps of Slurm jobs, such as 1.batch: "
    rest = "1 of 5 job_ids is the rest of a Slurm job array, such as 2_[3-9], "
    [first, second] = convert_csv(tmp_path, f"{header}\n{rows}").notes
    assert first.startswith(steps)
    assert "`ringbco convert slurm` reads the log" in first
    assert second.startswith(rest)
    table(tmp_path, f"{OURS}\n" + "".join(f"{i},0,4,60\n" for i in ids))
    done = invoke("inspect", "mine.csv", "--json")
    assert json.loads(done.stdout)["warnings"] == [first, second]
    assert f"warning: {steps}" in done.stderr
    # Ids that were numbers once are no steps, nor is what only looks like an array's task.
    assert slurm_parts(pl.Series(["1.0", "2.0", "3", "4_1", "a.batch", "5_[x"])) == []
    assert len(slurm_parts(pl.Series(["7_1.batch", "8+1.0", "8+1", "9_[1-5%2]"]))) == 2


def test_every_reason_shows_its_first_line_and_value(invoke: Invoke, tmp_path: Path) -> None:
    rows = 'a,0,1,5\nb,0,"x\ny",5\n\nb,0,0,5\nc,0,1,\nd,0,1,5,9\n a ,3,1,5\ne,1e17,1,5\n'
    table(tmp_path, f"{OURS}\n{rows}")
    output = json.loads(invoke("convert", "csv", "mine.csv", "-o", "a.parquet", "--json").stdout)
    assert {reason: (at["line"], at["value"]) for reason, at in output["first"].items()} == {
        "more cells than columns": (8, "d,0,1,5,9"),
        "no GPUs asked for (num_gpus = 0: a CPU job)": (6, "0"),
        "num_gpus missing or not a whole number of GPUs": (3, "'x\\ny'"),
        "submit_time is beyond 1e16 s": (10, "1e17"),
        "duration missing or unreadable": (7, "null"),
        "job_id occurred before": (9, "' a '"),
    }
    done = invoke("convert", "csv", "mine.csv", "-o", "b.parquet")
    assert "first in line 6: 0" in done.stdout
    assert "first in line 6: 0" in invoke("inspect", "b.parquet").stdout
    table(tmp_path, f"{OURS}\na,0,1,soon\n")
    done = invoke("convert", "csv", "mine.csv", "-o", "c.parquet")
    assert (
        "none of its 1 rows can be kept; dropped: 1 duration missing or unreadable (line 2: soon)"
        in done.stderr
    )


def test_wall_clocks_of_the_given_case(tmp_path: Path) -> None:
    """To the minute, with durations in days, hours, minutes and seconds; time 0 is the midnight before."""
    rows = "a,2018-12-31T08:27,2,1-02:03:04\nb,2018-12-31T09:27,2,00:10:00\n"
    result = convert_csv(tmp_path, f"{OURS}\n{rows}", strict=True)
    frame = result.table.frame
    assert (result.epoch, frame["submit_time"].to_list()) == ("2018-12-31T00:00:00", [30_420.0, 34_020.0])
    assert frame["duration"].to_list() == [93_784.0, 600.0]
