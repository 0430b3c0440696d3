"""`ringbco diff`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from conftest import Invoke
from frames import busy_jobs
from ringbco import Outcome, replay
from ringbco.trace.jobs import from_frame, write_jobs


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the results `fifo` and `srtf` of the same jobs, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    write_jobs(from_frame(busy_jobs()), tmp_path / "jobs.parquet")
    for policy in ("fifo", "srtf"):
        replay("jobs.parquet", "2x4", policy=policy).write(policy)
    return tmp_path


def test_what_is_printed_fits_eighty_columns(
    results: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    run = invoke("diff", "fifo", "srtf")
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[:2] == ["A: fifo, fifo on 2x4, 60 jobs", "B: srtf, srtf on 2x4, 60 jobs"]
    outcome = Outcome.read("fifo").diff(Outcome.read("srtf"))
    assert lines[2:4] == outcome.sentences()
    for first in ("mean completion time", "waiting for GPUs", "2-4", "u0", "the 20 jobs that gained most"):
        assert any(line.strip().startswith(first) for line in lines), first
    best = outcome.most_changed("faster")[0]["job_id"]
    after = lines[next(n for n, line in enumerate(lines) if "gained most" in line) :]
    assert next(line.split()[0] for line in after if line.startswith(" j") and "GPUs" not in line) == best
    seconds = invoke("diff", "fifo", "srtf", "--units", "seconds").stdout
    assert " min" not in seconds
    assert re.search(r"mean completion time +\d+\.\d s", seconds)


def test_the_same_folder_twice(results: Path, invoke: Invoke) -> None:
    run = invoke("diff", "fifo", "fifo", "-o", "page.html")
    assert run.returncode == 0
    assert run.stdout.splitlines()[2:] == [
        "the same: no completion time of 60 jobs differs",
        "written: page.html",
    ]
    assert "The same: no completion time of 60 jobs differs." in Path("page.html").read_text()


def test_json_has_everything(results: Path, invoke: Invoke) -> None:
    output = json.loads(invoke("diff", "fifo", "srtf", "--json", "--csv", "d.csv").stdout)
    outcome = Outcome.read("fifo").diff(Outcome.read("srtf"))
    expected = outcome.to_dict()
    for side, folder in (("a", "fifo"), ("b", "srtf")):
        assert output[side] == {"folder": folder, **expected[side]}
        expected.pop(side)
    assert {key: output[key] for key in expected} == expected
    assert output["csv"] == "d.csv"
    assert "page" not in output
    table = pl.read_csv("d.csv")
    assert table.columns[:4] == ["job_id", "user", "submit_time", "num_gpus"]
    assert table.equals(outcome.table.with_columns(pl.col("num_gpus").cast(pl.Int64)))


def test_files_are_replaced_by_force_alone(results: Path, invoke: Invoke) -> None:
    command = ("diff", "fifo", "srtf", "-q", "-o", "d.html", "--csv", "d.csv")
    assert (invoke(*command).stdout, invoke(*command, "--force").returncode) == ("", 0)
    assert "already exists" in invoke(*command).stderr
    Path("d.csv").write_text("my,own\n1,2\n")
    page = Path("d.html").read_bytes()
    run = invoke(*command, "--force")
    assert run.returncode == 1
    assert "is no table of differences of ringbco's, so --force does not replace it" in run.stderr
    assert (Path("d.csv").read_text(), Path("d.html").read_bytes()) == ("my,own\n1,2\n", page)


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["fifo", "gone"], 1, "gone: expected a result folder of `ringbco replay`"),
        (["jobs.parquet", "srtf"], 1, "this is a file"),
        (["fifo", "other"], 1, "no job of A is in B, by job_id"),
        (["fifo", "srtf", "-o", "page.txt"], 2, "expected a name that ends in .html"),
        (["fifo", "srtf", "--csv", "table.txt"], 2, "expected a name that ends in .csv"),
        (["fifo", "srtf", "--csv", "no/table.csv"], 1, "its folder does not exist"),
        (["fifo", "srtf", "-o", "fifo"], 2, "expected a name that ends in .html"),
        (["fifo", "srtf", "--units", "hours"], 2, "expected one of human, seconds"),
    ],
)
def test_what_is_refused(results: Path, invoke: Invoke, arguments: list[str], status: int, said: str) -> None:
    jobs = busy_jobs().with_columns(job_id="k" + pl.col("job_id"))
    replay(jobs, "2x4", policy="fifo").write("other")
    before = sorted(path.name for path in results.iterdir())
    run = invoke("diff", *arguments)
    assert (run.returncode, run.stdout) == (status, "")
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert said in run.stderr
    assert sorted(path.name for path in results.iterdir()) == before


def test_the_example_of_the_page(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the page prints is what its commands print, without the lines that `...` stands for."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    page = (Path(__file__).parents[2] / "docs" / "diff.md").read_text(encoding="utf-8")
    block = page.split("```\n")[1]
    printed = ""
    for command in re.findall(r"^\$ ringbco (.*)$", block, re.MULTILINE):
        run = invoke(*command.split())
        assert run.returncode == 0, run.stderr
        printed += run.stdout
    left = iter(line.rstrip() for line in printed.splitlines())
    entries = [line for line in block.splitlines() if line and line != " ..." and not line.startswith("$")]
    assert len(entries) > 30
    assert [line for line in entries if line not in left] == []
