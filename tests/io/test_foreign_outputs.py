"""A file is replaced only where it carries our mark or, where it can carry none, reads as the verb's own."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
import vl_convert

import ringbco
from conftest import Invoke
from folders import one_line, state
from gavel_files import THROUGHPUTS, TRACE
from raw import helios
from ringbco.cli.convert import _cluster_mark
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.io import marks
from ringbco.study import bench
from ringbco.trace.jobs import from_frame, read_jobs, write_jobs
from test_foreign_files import PNG

REQUESTS = "arrival,input_tokens,output_tokens\n0,300,100\n100,200,100\n"
GENERATE = ("generate", "--preset", "philly", "--jobs", "20", "-q", "-o")
OUTAGES = ("outages", "--cluster", "4x8", "--mtbf", "1d", "--mttr", "1h", "--days", "30", "-q", "-o")
SERVICES = ("services", "requests.csv", "--gpus-per-replica", "1", "--tokens-per-gpu", "1", "-q", "-o")
PROFILE = ("profile", "small.csv", "-q", "-o")
CONVERT = ("convert", "csv", "small.csv", "-q", "-o")
HELIOS = ("convert", "helios", "in/cluster_log.csv", "in/cluster_gpu_number.csv", "-q", "-o", "h.parquet")
GAVEL = ("convert", "gavel", "small.trace", "--throughputs", "throughputs.json", "-q", "-o", "g.parquet")
OUTPUTS = {
    **{f"{command[0]} {ending}": (*command, f"x.{ending}")
       for command in (GENERATE, OUTAGES, SERVICES, PROFILE, CONVERT) for ending in ("parquet", "csv")},
    **{f"speeds {ending}": (*GAVEL, "--tables-out", f"x.{ending}") for ending in ("parquet", "csv")},
    "cluster": (*HELIOS, "--cluster-out", "x.toml"),
    "trace": ("timeline", "r", "-q", "-o", "x.json"),
    "page": ("report", "r", "-q", "-o", "x.html"),
    "diff": ("diff", "r", "r", "-q", "-o", "x.html"),
    "differences": ("diff", "r", "r", "-q", "--csv", "x.csv"),
    "sheet": ("inspect", "small.csv", "-q", "--html", "x.html"),
    "chart": ("inspect", "small.csv", "-q", "--png", "x.png"),
}  # fmt: skip
# Each is what somebody may have under any of these names.
FOREIGN = {
    "text": b"mine",
    "csv": b"job_id,grade\na,1\n",
    "windows": b"job_id,submit_time,num_gpus,duration\r\na,0,1,1\r\n",
    "toml": b"[[servers]]\ngpus = 8  # mine\n",
    "other toml": b"[tool]\nname = 1\n",
    "json": b'{"traceEvents":[], "machine": 1, "cases": []}',
    "page": b'<!DOCTYPE html><html lang="en"><title>mine</title>',
    "png": PNG,
    "parquet": b"PAR1 mine PAR1",
}


@pytest.fixture
def inputs(small_jobs: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, unvalidated: None) -> Path:
    """What the verbs read, in the folder where they run. Pictures are not drawn."""
    monkeypatch.setattr(vl_convert, "vegalite_to_png", lambda *_, **__: PNG.ljust(60, b"."))
    folder = small_jobs.parent
    (folder / "requests.csv").write_text(REQUESTS)
    (folder / "small.trace").write_text(TRACE)
    (folder / "throughputs.json").write_text(json.dumps(THROUGHPUTS))
    for path in helios.generate().write(folder / "in"):
        assert path.name in " ".join(HELIOS)
    assert invoke("replay", "small.csv", "--cluster", "2x8", "-q", "-o", "r").returncode == 0
    return folder


@pytest.mark.parametrize("name", OUTPUTS)
def test_ours_is_replaced_and_theirs_is_not(inputs: Path, invoke: Invoke, name: str) -> None:
    command = OUTPUTS[name]
    (path,) = (Path(word) for word in command if word.startswith("x."))
    assert invoke(*command).returncode == 0
    first = path.read_bytes()
    assert "already exists; pass --force" in one_line(invoke(*command))
    for content in (first, b""):  # the latter is such as mktemp makes
        path.write_bytes(content)
        run = invoke(*command, "--force")
        assert (run.returncode, run.stderr) == (0, "")
        assert path.read_bytes() == first
    (inputs / "precious.txt").write_text("mine")
    for label, content in FOREIGN.items():
        path.write_bytes(content)
        before = state(inputs)
        assert f"{path}: already exists and is no " in one_line(invoke(*command, "--force")), label
        assert state(inputs) == before, label
    path.unlink()
    path.symlink_to("precious.txt")
    before = state(inputs)
    assert "already exists; pass --force" in one_line(invoke(*command))
    assert f"{path}: already exists and is no " in one_line(invoke(*command, "--force"))
    assert state(inputs) == before


def test_a_parquet_file_is_known_by_its_signature(tmp_path: Path) -> None:
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    ours, theirs = tmp_path / "ours.parquet", tmp_path / "theirs.parquet"
    write_jobs(from_frame(frame), ours)
    assert marks.is_signed(ours)
    assert read_jobs(ours).metadata == {}
    ringbco.outages("4x8", mtbf=1e5, mttr=10, days=30).write(tmp_path / "outages.parquet")
    write_jobs(from_frame(frame), tmp_path / "outages.parquet", force=True)  # ours, of another kind
    frame.write_parquet(theirs)
    pq.write_table(pq.read_table(ours), tmp_path / "derived.parquet")  # carries the footer along
    for path in (theirs, tmp_path / "derived.parquet"):
        before = path.read_bytes()
        with pytest.raises(InputError, match="is no job table of ringbco's, so --force does not replace it"):
            write_jobs(from_frame(frame), path, force=True)
        assert path.read_bytes() == before


def test_a_csv_with_columns_of_somebody_is_theirs(tmp_path: Path) -> None:
    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    path = tmp_path / "jobs.csv"
    frame.with_columns(notes=pl.lit("mine")).write_csv(path)
    with pytest.raises(InputError, match="is no job table of ringbco's"):
        write_jobs(from_frame(frame), path, force=True)
    # What is written has the column as well.
    write_jobs(from_frame(frame.with_columns(notes=pl.lit("newer"))), path, force=True)
    write_jobs(from_frame(frame.with_columns(notes=pl.lit("newer"))), path, force=True)


def test_cluster_files_and_benchmarks_are_known_by_what_they_say(tmp_path: Path) -> None:
    mark = _cluster_mark()
    path = tmp_path / "x"
    for text, ours in (
        ("# Made by `ringbco convert`.\n" + Cluster.parse("2x8").to_toml(), True),
        (Cluster.parse("2x8").to_toml(), False),
        ("# mine\n[[servers]]\ngpus = 8\n", False),
        ("\udcff", False),
    ):
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        assert mark.knows(path) == ours, text
    path.write_text('{"machine": {"ringbco": "1"}, "cases": []}')
    assert bench.is_json(path)
    for text in ('{"machine": {}, "cases": []}', '{"machine": 3, "cases": []}', "[]", "{", "[" * 100_000):
        path.write_text(text)
        assert not bench.is_json(path)
