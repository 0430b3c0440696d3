"""What report and timeline write over: their own earlier files and nothing else."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

import pytest
import vl_convert

from conftest import Invoke
from frames import busy_jobs
from ringbco import replay
from ringbco.io.marks import is_page, is_trace, signed
from ringbco.reports.outputs import check_page, check_trace

WRITES = [("report", "x.HTM"), ("timeline", "x.json"), ("timeline", "x.json.gz")]


@pytest.fixture
def result(tmp_path: Path) -> Path:
    replay(busy_jobs(8), "4x4", policy="fifo").write(tmp_path / "r")
    return tmp_path / "r"


def state(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(("verb", "name"), WRITES)
def test_force_replaces_an_earlier_one_and_an_empty_file(
    result: Path, invoke: Invoke, verb: str, name: str
) -> None:
    assert invoke(verb, result.name, "-o", name).returncode == 0
    first = Path(name).read_bytes()
    assert "already exists; pass --force" in invoke(verb, "r", "-o", name).stderr
    Path(name).write_bytes(first + b"later")
    assert invoke(verb, "r", "-o", name, "--force").returncode == 0
    assert Path(name).read_bytes() == first
    Path(name).write_bytes(b"")
    (check_page if verb == "report" else check_trace)(Path(name), force=True)


@pytest.mark.parametrize(
    "content",
    [
        b"job_id,submit_time,num_gpus,duration\na,0,1,5\n",
        b'{"traceEvents":[{"ph":"X","name":"mine"}]}',
        b'{"policy": "fifo"}',
        b"<!DOCTYPE html><title>a thesis</title>",
        gzip.compress(b'{"traceEvents":[]}', mtime=0),
        b"\x1f\x8bdamaged",
        b"\x89PNG\r\n\x1a\n",
        b"\x00",
    ],
)
@pytest.mark.parametrize(("verb", "name"), WRITES)
def test_force_replaces_nothing_else(
    result: Path, invoke: Invoke, verb: str, name: str, content: bytes
) -> None:
    Path(name).write_bytes(content)
    before = state(result.parent)
    run = invoke(verb, "r", "-o", name, "--force")
    assert run.returncode == 1
    assert run.stderr.startswith(f"error: {name}: already exists and is no ")
    assert run.stderr.count("\n") == 1
    assert state(result.parent) == before


@pytest.mark.parametrize("verb", ["report", "timeline"])
@pytest.mark.parametrize("force", [[], ["--force"]])
def test_other_endings_are_a_wrong_usage(result: Path, invoke: Invoke, verb: str, force: list[str]) -> None:
    Path("good.csv").write_text("job_id,submit_time,num_gpus,duration\na,0,1,5\n")
    before = state(result.parent)
    wanted = ".html or .htm" if verb == "report" else ".json.gz or .json"
    for name in ("good.csv", "r/jobs.parquet", "r/run.toml", "new", ".csv.html.txt"):
        run = invoke(verb, "r", "-o", name, *force)
        assert run.returncode == 2
        assert run.stderr == f"error: option out: {name}: expected a name that ends in {wanted}\n"
    assert state(result.parent) == before


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_file_of_a_result_is_never_replaced(result: Path, invoke: Invoke, force: list[str]) -> None:
    Path("link.json").symlink_to("r/summary.json")
    before = state(result.parent)
    for name in ("r/summary.json", "link.json"):
        run = invoke("timeline", "r", "-o", name, *force)
        assert run.returncode == 1
        assert f"{name}: is a file of a result and is never replaced" in run.stderr
        assert run.stderr.count("\n") == 1
    assert state(result.parent) == before


def test_a_signed_picture_is_still_one() -> None:
    """Every chunk's checksum holds, and the note is one of them."""
    chart = {"mark": "point", "data": {"values": [{"a": 1}]}, "encoding": {"x": {"field": "a"}}}
    picture = signed(vl_convert.vegalite_to_png(chart), "report")
    at, kinds = 8, []
    while at < len(picture):
        length = int.from_bytes(picture[at : at + 4])
        body, check = picture[at + 4 : at + 8 + length], picture[at + 8 + length : at + 12 + length]
        assert zlib.crc32(body) == int.from_bytes(check)
        kinds.append(body[:4])
        at += 12 + length
    assert kinds[:2] == [b"IHDR", b"tEXt"]
    assert kinds[-1] == b"IEND"


def test_a_long_title_hides_no_mark(result: Path, invoke: Invoke) -> None:
    title = "<meta " + "long " * 400
    assert invoke("report", "r", "-o", "x.html", "--title", title).returncode == 0
    check_page(Path("x.html"), force=True)


def test_a_page_of_a_comparison_is_a_page(small_jobs: Path, invoke: Invoke) -> None:
    assert (
        invoke(
            "compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "--policy", "sjf", "-o", "c"
        ).returncode
        == 0
    )
    page = Path("c/report.html").read_bytes()
    assert is_page(page[:512])
    assert not is_trace(page[:512])
