"""Errors whose remedy can be told: each names it in its one line, and a command that it names does work."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
import shlex
import tarfile
import zipfile
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import InputError
from ringbco.trace.jobs import read_jobs, read_metadata

HEADER = "job_id,submit_time,num_gpus,duration"
ROWS = "a,0,2,60\nb,30,1,90\n"
PLAIN = f"{HEADER}\n{ROWS}"
DATED = f"{HEADER}\na,2024-03-01 08:00:00,2,60\nb,2024-03-01T08:00:30,1,90\n"
OBJECTS = [
    {"job_id": "a", "submit_time": 0, "num_gpus": 2, "duration": 60},
    {"job_id": "b", "submit_time": 30, "num_gpus": 1, "duration": 90},
]
REPLAY = ("--cluster", "2x8", "--policy", "fifo", "-o", "r")


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def zipped(**files: str) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return sink.getvalue()


def tarred(mode: str, **files: str) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return sink.getvalue()


def refused(invoke: Invoke, *args: str, status: int = 1) -> str:
    """The one line of a command that fails and writes nothing."""
    before = sorted(Path().rglob("*"))
    done = invoke(*args)
    assert (done.returncode, done.stdout) == (status, "")
    assert sorted(Path().rglob("*")) == before
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("error: ").rstrip("\n")


def follow(invoke: Invoke, line: str) -> list[tuple[str, float, int, float]]:
    """The jobs of the table that the command in a line makes."""
    (command,) = re.findall(r"`(ringbco convert [^`]*)`", line)
    done = invoke(*shlex.split(command)[1:])
    assert done.returncode == 0, done.stderr
    return read_jobs("jobs.parquet").frame.select("job_id", "submit_time", "num_gpus", "duration").rows()


# Files that `convert csv` reads: what each is, and the options of the command.

MAPPED = "id;submitted;gpus;runtime\na;0;2;60\nb;30;1;90\n"
MAPS = "--map job_id=id --map submit_time=submitted --map num_gpus=gpus --map duration=runtime "
FILES: dict[str, tuple[bytes, str, str]] = {
    "jobs.csv.zst": (zstd(PLAIN.encode()), "compressed with zstd", ""),
    "mapped.csv.zst": (zstd(MAPPED.encode()), "compressed with zstd", MAPS),
    "jobs.csv.bz2": (bz2.compress(PLAIN.encode()), "compressed with bzip2", ""),
    "jobs.zip": (zipped(**{"jobs.csv": PLAIN}), "a zip archive", ""),
    "readme.zip": (zipped(**{"README": "mine\n", "jobs.csv": PLAIN}), "a zip archive", ""),
    "jobs.tar": (tarred("w", **{"jobs.csv": PLAIN}), "a tar archive", ""),
    "jobs.tgz": (tarred("w:gz", **{"jobs.csv": PLAIN}), "a tar archive", ""),
    "my jobs.jsonl": ("\n".join(map(json.dumps, OBJECTS)).encode(), "JSON Lines", ""),
    "jobs.jsonl.zst": (zstd("\n".join(map(json.dumps, OBJECTS)).encode()), "JSON Lines", ""),
}
VERBS = (
    ("replay", *REPLAY),
    ("inspect",),
    ("plan", "--cluster", "2x8", "-o", "r"),
    ("bound", "--cluster", "2x8"),
)


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_convert_reads_names_the_command(name: str, invoke: Invoke) -> None:
    data, form, maps = FILES[name]
    Path(name).write_bytes(data)
    quoted = shlex.quote(name)
    for verb, *options in VERBS:
        line = refused(invoke, verb, name, *options)
        assert line == (
            f"{name}: is {form}, not a job table yet; `ringbco convert csv {quoted} {maps}-o"
            " jobs.parquet` makes"
            " a job table of it"
        )
    assert follow(invoke, line) == [("a", 0.0, 2, 60.0), ("b", 30.0, 1, 90.0)]


@pytest.mark.parametrize("mark", ",;\t|")
def test_other_names_between_any_separators(mark: str, invoke: Invoke) -> None:
    Path("m.csv.gz").write_bytes(gzip.compress(MAPPED.replace(";", mark).encode()))
    line = refused(invoke, "inspect", "m.csv.gz")
    assert line == (
        "m.csv.gz: the columns job_id, submit_time, num_gpus, duration are missing; `ringbco convert csv"
        f" m.csv.gz {MAPS}-o jobs.parquet` makes a job table of it"
    )
    assert follow(invoke, line) == [("a", 0.0, 2, 60.0), ("b", 30.0, 1, 90.0)]


def test_a_comma_for_the_decimal_point(invoke: Invoke) -> None:
    """Between semicolons nobody knows what it is, so no command is named that would not read it."""
    Path("mine.csv").write_text(f"{HEADER}\na,0,1,1.234\n".replace(",", ";").replace(".", ","))
    assert refused(invoke, "replay", "mine.csv", *REPLAY) == (
        "mine.csv: row 1 (line 2), column duration: 1,234: expected a finite number of seconds > 0; write a"
        " decimal point, and no separator of thousands"
    )


def test_json_of_other_names(invoke: Invoke) -> None:
    """Several objects are JSON Lines whatever their keys; nothing is like one of ours."""
    Path("j.jsonl").write_text('{"x": 1, "y": 2}\n{"x": 2, "y": 3}\n')
    assert refused(invoke, "replay", "j.jsonl", *REPLAY) == (
        "j.jsonl: is JSON Lines, not a job table yet; `ringbco convert csv j.jsonl --map 'job_id=#' --map"
        " submit_time=THEIRS --map num_gpus=THEIRS --map duration=THEIRS -o jobs.parquet` makes a job"
        " table of"
        " it, with its own names for THEIRS; found 'x, y'"
    )


def test_a_list_in_json(invoke: Invoke) -> None:
    Path("list.json").write_text(json.dumps([{"id": "a", "submitted": 0, "gpus": 2, "runtime": 60}]))
    line = refused(invoke, "replay", "list.json", *REPLAY)
    assert line == (
        "list.json: is JSON, not a job table (Parquet or CSV); `jq -c '.[]' list.json > jobs.jsonl` makes"
        " JSON"
        " Lines of it, and `ringbco convert csv jobs.jsonl --map job_id=id --map submit_time=submitted --map"
        " num_gpus=gpus --map duration=runtime -o jobs.parquet` makes a job table of it"
    )
    Path("jobs.jsonl").write_text(json.dumps(json.loads(Path("list.json").read_text())[0]) + "\n")
    assert follow(invoke, line) == [("a", 0.0, 2, 60.0)]


# Cells that `convert csv` reads

INSTANT = "a finite number of seconds >= 0"
LENGTH = "a finite number of seconds > 0"


@pytest.mark.parametrize(
    ("row", "column", "shown", "expected", "what"),
    [
        ("a,2024-03-01 08:00:00,2,60", "submit_time", "'2024-03-01 08:00:00'", INSTANT, 0),
        ("a,2024-03-01T08:00:00Z,2,60", "submit_time", "2024-03-01T08:00:00Z", INSTANT, 0),
        ("a,2024/3/1,2,60", "submit_time", "2024/3/1", INSTANT, 0),
        ("a,0,2,01:00:00", "duration", "01:00:00", LENGTH, 0),
        ("a,0,2,1-02", "duration", "1-02", LENGTH, 0),
        ("a,0,2,2 days", "duration", "'2 days'", LENGTH, 0),
        ('a,0,2,"1,234"', "duration", "1,234", LENGTH, 1),
        ('a,0,"1,024",5', "num_gpus", "1,024", "an integer >= 1", 1),
    ],
)  # fmt: skip
def test_a_cell_that_convert_reads_names_the_command(
    row: str, column: str, shown: str, expected: str, what: int, invoke: Invoke
) -> None:
    Path("mine.csv").write_text(f"{HEADER}\n{row}\n")
    told = ("dates and hours, minutes and seconds", "such cells")[what]
    command = f"`ringbco convert csv mine.csv -o jobs.parquet` reads {told}"
    line = refused(invoke, "replay", "mine.csv", *REPLAY)
    assert line == f"mine.csv: row 1 (line 2), column {column}: {shown}: expected {expected}; {command}"
    assert refused(invoke, "inspect", "mine.csv").endswith(command)
    assert len(follow(invoke, line)) == 1


def test_the_dates_of_the_command_are_on_the_calendar(invoke: Invoke) -> None:
    Path("dates.csv").write_text(DATED)
    made = follow(invoke, refused(invoke, "replay", "dates.csv", *REPLAY))
    assert made == [("a", 28_800.0, 2, 60.0), ("b", 28_830.0, 1, 90.0)]
    assert read_metadata("jobs.parquet")["ringbco.epoch"] == "2024-03-01T00:00:00"


@pytest.mark.parametrize("cell", ["03/04/2024 8:00", "04.03.2024", "2024-03-01 08:00 PM", "2024-13-01"])
def test_a_date_that_nothing_reads_names_no_command(cell: str, invoke: Invoke) -> None:
    Path("mine.csv").write_text(f"{HEADER}\na,{cell},1,60\n")
    shown = f"'{cell}'" if " " in cell else cell
    assert refused(invoke, "replay", "mine.csv", *REPLAY) == (
        f"mine.csv: row 1 (line 2), column submit_time: {shown}: expected a finite number of seconds >="
        " 0; write"
        " a time as 2024-05-01 08:00:00 (`ringbco convert csv` reads no day or month before the year, and"
        " no AM"
        " or PM), or as seconds"
    )


def test_words_for_nothing_in_an_optional_column(invoke: Invoke) -> None:
    Path("mine.csv").write_text(f"{HEADER},time_limit\na,0,1,60,N/A\n")
    line = refused(invoke, "replay", "mine.csv", *REPLAY)
    assert line.endswith("; `ringbco convert csv mine.csv -o jobs.parquet` reads such cells")
    follow(invoke, line)
    assert read_jobs("jobs.parquet").frame["time_limit"].to_list() == [None]


def test_a_cell_that_nothing_reads_keeps_its_hint(invoke: Invoke) -> None:
    Path("mine.csv").write_text(f"{HEADER}\na,0,1,long\n")
    assert "convert" not in refused(invoke, "replay", "mine.csv", *REPLAY)
    Path("mine.csv").write_text(f"{HEADER}\na,0,1,-5\n")
    assert "convert" not in refused(invoke, "replay", "mine.csv", *REPLAY)


def test_dates_and_lengths_in_parquet(invoke: Invoke) -> None:
    """`convert csv` reads what polars writes of them."""
    at = [datetime(2024, 3, 1, 8), datetime(2024, 3, 1, 8, 0, 30)]
    rows = {"job_id": ["a", "b"], "submit_time": at, "num_gpus": [2, 1], "duration": [60.0, 90.0]}
    stored = pl.DataFrame(rows)
    stored.write_parquet("stored.parquet")
    line = refused(invoke, "replay", "stored.parquet", *REPLAY)
    assert line == (
        "stored.parquet: row 1, column submit_time: 2024-03-01 08:00:00: expected a finite number of seconds"
        " >= 0, stored as a number, not Datetime(time_unit='us', time_zone=None); write the table as"
        " jobs.csv:"
        " `ringbco convert csv jobs.csv -o jobs.parquet` reads dates"
    )
    stored.write_csv("jobs.csv")
    assert follow(invoke, line) == [("a", 28_800.0, 2, 60.0), ("b", 28_830.0, 1, 90.0)]
    texts = stored.with_columns(pl.col("submit_time").cast(pl.String))
    with pytest.raises(InputError, match=r"`ringbco convert csv jobs\.csv -o jobs\.parquet` reads dates$"):
        ringbco.from_frame(texts)
    lengths = stored.with_columns(submit_time=0.0, duration=pl.duration(seconds="duration"))
    mend = "`.dt.total_seconds()` of polars and pandas gives seconds"
    with pytest.raises(InputError, match=f"; {re.escape(mend)}$"):
        ringbco.from_frame(lengths)


# Files that nothing reads: workbooks, and what is packed in another way

BOOK = {"xl__workbook.xml": "<x/>", "[Content_Types].xml": "<x/>"}
SHEETS = {
    "book.xlsx": (zipped(**BOOK), "an Excel workbook"),
    "book.parquet": (zipped(**BOOK), "an Excel workbook"),
    "book.xls": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an Excel workbook"),
    "book.ods": (
        zipped(mimetype="application/vnd.oasis.opendocument.spreadsheet", **{"content.xml": "<x/>"}),
        "an OpenDocument workbook",
    ),
    "book.numbers": (zipped(**{"Index__Document.iwa": "x"}), "a Numbers workbook"),
}


@pytest.mark.parametrize("name", SHEETS)
def test_a_workbook_is_called_so(name: str, invoke: Invoke) -> None:
    data, what = SHEETS[name]
    Path(name).write_bytes(data)
    Path("ok.csv").write_text(PLAIN)
    said = f"{name}: is {what}: save the sheet as CSV"
    assert refused(invoke, "replay", name, *REPLAY) == said
    assert refused(invoke, "inspect", name) == said
    assert refused(invoke, "convert", "csv", name, "-o", "j.parquet") == said
    assert refused(invoke, "convert", "philly", name, "-o", "j.parquet") == said
    assert refused(invoke, "replay", "ok.csv", *REPLAY, "--outages", name) == said


@pytest.mark.parametrize(
    ("name", "data", "what", "command"),
    [
        ("jobs.csv.xz", lzma.compress(PLAIN.encode()), "compressed with xz", "unxz -k"),
        ("my jobs.7z", b"7z\xbc\xaf\x27\x1c" + bytes(40), "a 7z archive", "7z x"),
        ("jobs.rar", b"Rar!\x1a\x07\x00" + bytes(40), "a RAR archive", "unrar x"),
        ("jobs.csv.lz4", b"\x04\x22\x4d\x18" + bytes(40), "compressed with lz4", "unlz4"),
    ],
)
def test_what_is_packed_in_another_way(
    name: str, data: bytes, what: str, command: str, invoke: Invoke
) -> None:
    Path(name).write_bytes(data)
    said = f"{name}: is {what}; unpack it, `{command} {shlex.quote(name)}`, and give the file inside"
    assert refused(invoke, "replay", name, *REPLAY) == said
    assert refused(invoke, "convert", "csv", name, "-o", "j.parquet") == said


def test_packed_tables_that_convert_does_not_make(invoke: Invoke) -> None:
    Path("jobs.csv").write_text(PLAIN)
    Path("down.csv.zst").write_bytes(zstd(b"server,down_at,up_at\n0,1,2\n"))
    assert refused(invoke, "replay", "jobs.csv", *REPLAY, "--outages", "down.csv.zst") == (
        "down.csv.zst: is compressed with zstd; unpack it, `unzstd down.csv.zst`, and give the file inside"
    )
    made = io.BytesIO()
    pl.DataFrame({"job_id": ["a"]}).write_parquet(made)
    Path("jobs.parquet.gz").write_bytes(gzip.compress(made.getvalue()))
    assert refused(invoke, "replay", "jobs.parquet.gz", *REPLAY) == (
        "jobs.parquet.gz: is a Parquet file that gzip compressed; unpack it, `gunzip -k jobs.parquet.gz`"
    )
    Path("two.zip").write_bytes(zipped(**{"a.csv": PLAIN, "b.csv": PLAIN}))
    assert refused(invoke, "replay", "two.zip", *REPLAY) == (
        "two.zip: is a ZIP archive; unpack it and give the CSV or Parquet file inside"
    )


# pandas' index

INDEXED = {
    "bare.csv": f",{HEADER}\n0,a,0,2,60\n1,b,30,1,90\n",
    "twice.csv": f"Unnamed: 0,{HEADER}\n5,a,0,2,60\n9,b,30,1,90\n",
    "thrice.csv": f",Unnamed: 0,Unnamed: 0.1,{HEADER}\n0,0,0,a,0,2,60\n1,1,1,b,30,1,90\n",
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_of_pandas_is_ignored_with_a_note(name: str, invoke: Invoke) -> None:
    Path(name).write_text(INDEXED[name])
    first = {"bare.csv": 0, "twice.csv": 5, "thrice.csv": 0}[name]
    bare = "first column, which has no name,"
    called = {"bare.csv": [bare], "twice.csv": ["column Unnamed: 0"]}.get(
        name, [bare, "column Unnamed: 0", "column Unnamed: 0.1"]
    )
    notes = "".join(
        f"note: {name}: its {what} is taken for pandas' index and ignored: 2 whole numbers from {first} on;"
        " `df.to_csv(..., index=False)` writes none\n"
        for what in called
    )
    for verb in (
        ("replay", name, *REPLAY),
        ("inspect", name),
        ("bound", name, "--cluster", "2x8"),
        ("profile", name, "-o", "p.parquet"),
        ("convert", "csv", name, "-o", "j.parquet"),
    ):
        done = invoke(*verb)
        assert (done.returncode, done.stderr) == (0, notes), verb
    assert invoke("replay", name, *REPLAY, "--force", "-q").stderr == ""
    assert read_jobs("j.parquet").frame.columns == HEADER.split(",")
    assert read_jobs(name).frame.equals(read_jobs("j.parquet").frame)
    assert pl.read_parquet("r/jobs.parquet").columns[0] == "job_id"


def test_an_index_in_parquet_and_in_a_side_table(tmp_path: Path) -> None:
    table = pl.DataFrame({"__index_level_0__": [3], "job_id": ["a"], "submit_time": [0.0], "num_gpus": [1]})
    table.with_columns(duration=5.0).write_parquet(tmp_path / "j.parquet")
    (note,) = read_jobs(tmp_path / "j.parquet").notes
    assert (
        "its column __index_level_0__ is taken for pandas' index and ignored: 1 whole numbers from 3" in note
    )
    (tmp_path / "o.csv").write_text(",server,down_at,up_at\n0,1,5,9\n")
    outcome = ringbco.replay(tmp_path / "j.parquet", "2x1", outages=tmp_path / "o.csv")
    assert outcome.outages is not None
    assert outcome.outages["server"].to_list() == [1]


@pytest.mark.parametrize(
    "text", [f",{HEADER}\nx,a,0,1,5\n", f",{HEADER}\n0,a,0,1,5\n,b,0,1,5\n", "a,,b\n1,2,3\n", '""\n1\n']
)
def test_another_column_without_a_name_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "j.csv").write_text(text)
    with pytest.raises(
        InputError, match=r"line 1, column [12]: '': expected a name for every column; name it"
    ):
        read_jobs(tmp_path / "j.csv")


# Less than a GPU


@pytest.mark.parametrize("share", ["0.5", "0.25"])
def test_a_part_of_a_gpu_is_a_share(share: str, invoke: Invoke) -> None:
    Path("half.csv").write_text(f"{HEADER}\na,0,{share},60\nb,0,1,60\n")
    mend = f"a job on a share of one GPU has num_gpus 1, and {share} in a column gpu_share (docs/shares.md)"
    assert refused(invoke, "replay", "half.csv", *REPLAY) == (
        f"half.csv: row 1 (line 2), column num_gpus: {share}: expected an integer >= 1; {mend}"
    )
    done = invoke("convert", "csv", "half.csv", "-o", "j.csv", "--json")
    assert json.loads(done.stdout)["dropped"] == {
        "num_gpus is below 1: write 1, and the part in a column gpu_share": 1
    }
    assert refused(invoke, "convert", "csv", "half.csv", "-o", "k.csv", "--strict") == (
        f"half.csv: row 1 (line 2), column num_gpus: {share}: expected 1, and the part of the GPU in a column"
        " gpu_share; without --strict: dropped, num_gpus is below 1: write 1, and the part in a column"
        " gpu_share"
    )
    frame = pl.DataFrame(
        {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [float(share)], "duration": [1.0]}
    )
    with pytest.raises(InputError, match=re.escape(mend)):
        ringbco.from_frame(frame)
    Path("mended.csv").write_text(f"{HEADER},gpu_share\na,0,1,60,{share}\nb,0,1,60,\n")
    assert invoke("replay", "mended.csv", *REPLAY).returncode == 0
