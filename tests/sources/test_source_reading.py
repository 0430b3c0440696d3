"""How the text of a trace is read: blanks, separators, line ends, quotation marks, places in the file."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from conftest import Invoke
from ringbco.errors import InputError
from ringbco.sources import SOURCES, Conversion, convert, recognise
from ringbco.sources.source import Options

HEADER = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
GOOD = "7,u1,vcvGl,8,4,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:02,2020-06-10 04:55:09,36847,1"
OTHER = GOOD.replace("7,u1", "8,u1")
JOB = ("7", 67_261.0, 8, 36_847.0, "u1", "vcvGl", "COMPLETED", 67_262.0, 104_109.0)
MARKS = (
    "expected quotation marks in pairs, around a whole cell; "
    'close or remove it; inside a quoted cell a mark is written ""'
)
BLANK = ["\n", "\r\n", "   \n", ",,,,,,,,,,,\n", " , ,\t\n", '"",""\n']


def read(folder: Path, text: str, *, source: str = "helios", strict: bool = False) -> Conversion:
    path = folder / "log.csv"
    path.write_bytes(text.encode())
    return convert(source, [path], Options(strict=strict))


def refusal(folder: Path, text: str, *, source: str = "helios", strict: bool = False) -> str:
    with pytest.raises(InputError) as caught:
        read(folder, text, source=source, strict=strict)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix(f"{folder / 'log.csv'}: ")


def test_a_row_without_any_required_cell_is_still_a_row(tmp_path: Path) -> None:
    account = read(tmp_path, f"{HEADER}\n{GOOD}\n,,,,4,1,,,,,,\n,,,,,,,,,,,x\n").account
    assert (account.rows_read, account.rows_kept) == (3, 1)
    account = read(tmp_path, f"{HEADER}\n{GOOD}\n,,,,,,,,,,,,x\n").account
    assert account.dropped == {"more cells than columns": 1}
    rows = "job_id,submit_time,num_gpus,duration,note\n,,,,hello\na,1,2,3,\n"
    assert read(tmp_path, rows, source="csv").account.dropped == {"no job_id": 1}


@pytest.mark.parametrize("blank", BLANK)
def test_lines_without_content_are_no_rows(blank: str, tmp_path: Path) -> None:
    result = read(tmp_path, f"{blank}{HEADER}\n{blank}{GOOD}\n{blank}{blank}{OTHER}\n{blank}", strict=True)
    assert (result.account.rows_read, result.account.rows_kept) == (2, 2)


@pytest.mark.parametrize("before", ["", *BLANK])
@pytest.mark.parametrize("between", ["", *BLANK])
def test_strict_gives_the_true_line_and_the_row_without_blank_lines(
    before: str, between: str, tmp_path: Path
) -> None:
    bad = OTHER.replace(",8,4", ",x,4")
    text = f"{before}{before}{HEADER}\n{between}{GOOD}\n{between}{between}{bad}\n"
    line = text[: text.index(bad)].count("\n") + 1
    message = refusal(tmp_path, text, strict=True)
    assert message.startswith(f"row 2 (line {line}), column gpu_num: x: expected a whole number of GPUs")


def test_a_cell_over_two_lines_shifts_the_lines_after_it(tmp_path: Path) -> None:
    two_lines = GOOD.replace("u1", quoted("u\n1"))
    text = f"{HEADER}\n{two_lines}\n{OTHER.replace(',8,4', ',x,4')}\n"
    assert refusal(tmp_path, text, strict=True).startswith("row 2 (line 4), column gpu_num: x: ")


def quoted(text: str) -> str:
    return f'"{text}"'


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace(",", " , "),
        GOOD.replace(",", ",\t"),
        GOOD.replace(",8,", "," + quoted(" 8 ") + ","),
    ],
)
def test_blanks_around_cells_do_not_count(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER}\n{text}\n", strict=True).table.frame.rows() == [JOB]


@pytest.mark.parametrize(
    "header", [HEADER.upper(), HEADER.replace(",", " , "), HEADER.title(), HEADER.replace("vc", '"VC"')]
)
def test_a_header_in_other_letters_is_the_same_header(header: str, tmp_path: Path) -> None:
    assert read(tmp_path, f"{header}\n{GOOD}\n", strict=True).table.frame.rows() == [JOB]


@pytest.mark.parametrize("header", [HEADER + "\n", ""])
@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_other_separators(mark: str, header: str, tmp_path: Path) -> None:
    text = f"{header}{GOOD}\n".replace(",", mark)
    assert read(tmp_path, text, strict=True).table.frame.rows() == [JOB]


def test_a_separator_after_the_last_cell(tmp_path: Path) -> None:
    assert read(tmp_path, f"{HEADER},\n{GOOD},\n", strict=True).table.frame.rows() == [JOB]


def test_any_csv_in_other_letters_and_with_an_index(tmp_path: Path) -> None:
    rows = ",Job_ID , SUBMIT_TIME,num_gpus,duration,Note\n0, a, 1 , 2 ,3,x\n"
    result = read(tmp_path, rows, source="csv", strict=True)
    assert result.table.frame.columns == ["job_id", "submit_time", "num_gpus", "duration", "Note"]
    assert result.table.frame.rows() == [("a", 1.0, 2, 3.0, "x")]


@pytest.mark.parametrize("source", [name for name in SOURCES if name != "philly"])
def test_old_macintosh_line_ends_are_named(source: str, tmp_path: Path) -> None:
    said = "has old Macintosh line ends (CR); save it with LF line ends"
    assert refusal(tmp_path, f"{HEADER}\r{GOOD}\r", source=source) == said


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ('"vcvGl', '"vcvGl,8,4'),  # never closed
        ('vc"vGl', 'vc"vGl,8,4'),
        ('vcvGl"', 'vcvGl",8,4'),
        ('"vc"vGl"', '"vc"vGl",8,4'),
        (' "vcvGl"', ' "vcvGl",8,4'),
    ],
)
@pytest.mark.parametrize(
    "after", [OTHER, OTHER.replace("vcvGl", '"vcvGl"'), OTHER.replace("vcvGl", '"vcvGl')]
)
def test_quotation_marks_that_do_not_match_are_named(
    cell: str, shown: str, after: str, tmp_path: Path
) -> None:
    text = f"\n{HEADER}\r\n{GOOD}\r\n{OTHER.replace('vcvGl', cell)}\r\n{after}\r\n"
    message = refusal(tmp_path, text)
    assert message.startswith(f"line 4, column vc: '{shown},1,COMPLETED,")
    assert message.endswith(MARKS)


def test_quotation_marks_that_match_are_read(tmp_path: Path) -> None:
    first, second = GOOD.replace("vcvGl", '"vc, ""a"" b"'), OTHER.replace("vcvGl", '""')
    frame = read(
        tmp_path, f"\ufeff{quoted('job_id')}{HEADER[6:]}\n{first}\n{second}", strict=True
    ).table.frame
    assert frame["vc"].to_list() == ['vc, "a" b', None]


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("404: Not Found", "404: Not Found"),
        ("404: Not Found\n", "404: Not Found"),
        ("503 Service Unavailable", "503 Service Unavailable"),
        ("Not Found\n", "Not Found"),
        ('{"message": "Not Found", "status": "404"}', '{"message": "Not Found"'),
    ],
)
@pytest.mark.parametrize("source", SOURCES)
def test_a_servers_answer_is_named(source: str, body: str, shown: str, tmp_path: Path) -> None:
    assert refusal(tmp_path, body, source=source) == (
        f"is a server's answer ({shown}), not a trace; check its address, then fetch it again"
    )


def test_what_a_file_is_can_be_asked(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(f"{HEADER}\n{GOOD}\n")
    assert recognise(path) == ("helios", "a Helios job log (cluster_log.csv)")
    path.write_text("job_id,submit_time,num_gpus,duration\na,1,1,1\n")
    assert recognise(path) is None
    assert recognise(tmp_path / "nothing") is None


def test_a_temporary_folder_that_is_full_is_named(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    rows = "".join(f"{row},{row},1,10,{'x' * 1000}\n" for row in range(3000))
    packed = gzip.compress(f"job_id,submit_time,num_gpus,duration,extra\n{rows}".encode())
    (tmp_path / "raw.csv.gz").write_bytes(packed)
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    run = invoke("convert", "csv", "raw.csv.gz", "-o", "jobs.parquet")
    assert run.returncode == 1
    assert run.stderr == (
        f"error: raw.csv.gz: does not fit into the temporary folder {small_disk} when unpacked;"
        " free some space there, or name another folder in TMPDIR\n"
    )
    assert not (tmp_path / "jobs.parquet").exists()
    assert list(small_disk.iterdir()) == []
