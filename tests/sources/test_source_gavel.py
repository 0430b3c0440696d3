"""gavel: a trace of steps, and measured throughputs as tables of speeds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import ringbco
from conftest import SHARED, Invoke, present
from gavel_files import LINE, LM, THROUGHPUTS, TRACE
from raw import gavel
from raw.agreement import converted as agreed
from ringbco.errors import InputError, UsageError
from ringbco.sources import recognise


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("throughputs.json").write_text(json.dumps(THROUGHPUTS))
    Path("small.trace").write_text(TRACE)
    return Path("small.trace")


def converted(trace: Path, throughputs: str = "throughputs.json", **options: Any) -> Any:
    return ringbco.convert("gavel", trace, throughputs=throughputs, **options)


@pytest.mark.parametrize("seed", range(4))
def test_every_planted_defect_is_accounted_for(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "throughputs.json"
    path.write_text(json.dumps(gavel.THROUGHPUTS))
    agreed("gavel", gavel.generate(seed), tmp_path, throughputs=path)


def test_by_hand(trace: Path) -> None:
    result = converted(trace, strict=True)
    columns = ("job_id", "submit_time", "num_gpus", "duration", "model", "recorded_on", "iterations")
    assert result.table.frame.select(columns).rows() == [
        ("1", 0.0, 1, 200.0, "A3C", "k80", 100),
        ("0", 7.0, 2, 200.0, "LM (batch size 5)", "v100", 3000),
        ("2", 9.5, 1, 1.0, "LM (batch size 5)", "v100", 10),
    ]
    assert result.table.frame["priority_weight"].to_list() == [2.5, 1.0, 1.0]
    assert result.table.frame["slo"].to_list() == [1.2, None, None]
    assert result.tables.frame.sort("gpu_type", "model", "gpus", "servers", "partner").rows() == [
        ("A3C", "k80", 1, 1, 0.5, None, None),
        ("LM (batch size 5)", "k80", 1, 1, 2.0, None, None),
        # On several servers 0: nobody measured it.
        ("LM (batch size 5)", "k80", 2, 1, 3.0, None, None),
        ("A3C", "v100", 1, 1, 0.0, None, None),
        ("A3C", "v100", 1, 1, 0.0, "LM (batch size 5)", 0.0),
        ("LM (batch size 5)", "v100", 1, 1, 10.0, None, None),
        ("LM (batch size 5)", "v100", 1, 1, 4.0, "A3C", 2.0),
        ("LM (batch size 5)", "v100", 2, 1, 15.0, None, None),
        ("LM (batch size 5)", "v100", 2, 2, 12.0, None, None),
    ]


def test_both_tables_are_what_a_replay_wants(invoke: Invoke, trace: Path) -> None:
    done = invoke(
        "convert", "gavel", trace, "--throughputs", "throughputs.json", "-o", "j.csv", "--tables-out", "t.csv"
    )
    assert done.returncode == 0, done.stderr
    assert "9 speeds of 2 models in t.csv" in done.stdout
    Path("c.toml").write_text(
        '[[servers]]\ngpus = 2\ngpu_type = "v100"\n[[servers]]\ngpus = 1\ngpu_type = "k80"\n'
    )
    done = invoke(
        *("replay", "j.csv", "--cluster", "c.toml", "--policy", "fifo", "--queue", "skip"),
        *("--model", "table", "--tables", "t.csv", "-o", "r"),
    )
    assert done.returncode == 0, done.stderr
    # 1: on the k80 alone, its rate on a v100 being 0. 0: 3,000 steps at 15. 2: waits for the k80 or a v100.
    assert ringbco.Outcome.read("r").jobs["finish_time"].to_list() == [200.0, 207.0, 205.0]
    assert invoke("audit", "r").returncode == 0


def test_gzip_and_parquet(invoke: Invoke, trace: Path) -> None:
    Path("t.json.gz").write_bytes(gzip.compress(Path("throughputs.json").read_bytes()))
    done = invoke(
        *("convert", "gavel", trace, "--throughputs", "t.json.gz", "-o", "j.parquet"),
        *("--tables-out", "t.parquet", "--json"),
    )
    assert json.loads(done.stdout)["tables"] == "t.parquet"
    assert pl.read_parquet("t.parquet").equals(converted(trace).tables.frame)


def test_a_job_type_without_a_throughput_is_left_out(trace: Path) -> None:
    trace.write_text(TRACE + LINE.format("GPT", 1, 1, 1, -1, 0) + LINE.format("A3C", 1, 4, 1, -1, 0))
    dropped = converted(trace).account.dropped
    assert dropped == {"job type with so many GPUs not in the throughputs": 2}
    with pytest.raises(InputError, match=r"row 4 \(line 4\), column job_type: GPT: expected a job type with"):
        converted(trace, strict=True)


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        ("\t3000\t2", "\t0\t2", "column total_steps: 0: expected a whole number of steps, 1 or more"),
        ("\t3000\t2", "\t3000\t0", "column scale_factor: 0: expected one GPU or more"),
        ("\t7\n", "\t-7\n", "column arrival_time: -7: expected 0 s or later"),
        ("\t7\n", "\tsoon\n", "column arrival_time: soon: expected"),
    ],
)
def test_bad_lines(trace: Path, was: str, now: str, told: str) -> None:
    trace.write_text(LINE.format("A3C", 9, 1, 1, -1, 0) + TRACE.replace(was, now))
    with pytest.raises(InputError, match=told) as raised:
        converted(trace, strict=True)
    assert "row 2 (line 2)" in str(raised.value)
    assert converted(trace).table.num_jobs == 3


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ("nonsense", "cannot be read as JSON"),
        ("[]", r"the file: .*: expected an object {type"),
        ("{}", "holds no throughput"),
        ({"v100": 3}, "v100: 3: expected an object"),
        ({"v100": {"LM": {"null": 1}}}, "v100: LM: expected a job type and its GPUs"),
        ({"v100": {"('LM', 0)": {"null": 1}}}, "expected a job type and its GPUs"),
        ({"v100": {"('LM', 1)": {"null": -1}}}, "v100.*null: -1: expected a finite number of steps/s >= 0"),
        ({"v100": {"('LM', 1)": {"null": "fast"}}}, "fast: expected a finite number"),
        ({"v100": {"('LM', 1)": {"('A', 1)": 3}}}, "expected two rates"),
        ({"v100": {"('LM', 1)": {"('A', 2)": [1, 2]}}}, "expected two rates, of jobs on equally many GPUs"),
    ],
)
def test_bad_throughputs(trace: Path, document: Any, told: str) -> None:
    Path("bad.json").write_text(document if isinstance(document, str) else json.dumps(document))
    with pytest.raises(InputError, match=told) as raised:
        converted(trace, "bad.json")
    assert "\n" not in str(raised.value)


def test_what_does_not_go_together(invoke: Invoke, trace: Path) -> None:
    with pytest.raises(UsageError, match="convert gavel: give --throughputs FILE"):
        ringbco.convert("gavel", trace)
    with pytest.raises(InputError, match="cannot be read as JSON"):
        converted(trace, "missing.json")
    with pytest.raises(UsageError, match="--throughputs is not an option of swf"):
        ringbco.convert("swf", trace, throughputs="throughputs.json")
    with pytest.raises(UsageError, match="--cluster-out: gavel does not say which servers"):
        converted(trace, cluster=True)
    done = invoke("convert", "swf", trace, "-o", "j.parquet", "--tables-out", "t.parquet")
    assert (done.returncode, "swf has no measured speeds" in done.stderr) == (2, True)
    given = ("convert", "gavel", trace, "--throughputs", "throughputs.json", "-o", "j.csv", "--tables-out")
    done = invoke(*given, "j.csv")
    assert (done.returncode, "--out and --tables-out are both j.csv" in done.stderr) == (2, True)
    assert invoke(*given, "t.json").returncode == 2


def test_a_trace_is_recognised(trace: Path) -> None:
    assert recognise(trace) == ("gavel", "a Gavel trace (lines of ten cells, separated by tabs)")


OLDER = "A3C\tcd %s/rl && python3 main.py\t--max-steps\t0\t{}\t{}\t{}\n"
NINE = "A3C\tpython3 main.py\t--max-steps\t0\t100\t1\t2\t-1.000000\t9.5\n"
SHOCKWAVE = "LM (batch size 5)\tpython3 main.py\tlm\t--steps\t1\t{}\t1\t{}\t1\t-1.000000\t{}\t{}\n"


def test_older_traces(trace: Path) -> None:
    """Seven cells: the arrival comes before the scale factor, which may be 0; no weights."""
    trace.write_text(OLDER.format(100, "44477.000000", 1) + OLDER.format(100, "6.000000", 0))
    assert recognise(trace) == ("gavel", "an older Gavel trace (seven cells)")
    result = converted(trace)
    assert result.table.frame.rows() == [("0", 44_477.0, 1, 200.0, "A3C", "k80", 100)]
    assert result.account.dropped == {"scale_factor is 0": 1}
    trace.write_text(NINE)
    assert recognise(trace) == ("gavel", "an older Gavel trace (nine cells)")
    assert converted(trace).table.frame.rows() == [("0", 9.5, 1, 200.0, "A3C", "k80", 100, 2.0, None)]


def test_a_trace_of_shockwave(trace: Path) -> None:
    """Its own run time says on which type a job was recorded: 10 steps/s on a v100, 2 on a k80."""
    lines = (
        ("1000", "static", 100, 0), ("1004", "gns", 502, 5), ("1000", "accordion", 100, 6),
        ("1000", "gns", 77, 7),
    )  # fmt: skip
    trace.write_text("".join(SHOCKWAVE.format(*cells) for cells in lines))
    assert recognise(trace) == ("gavel", "a Shockwave trace (twelve cells)")
    result = converted(trace, strict=True)
    columns = ("job_id", "submit_time", "duration", "recorded_on", "mode")
    assert result.table.frame.select(columns).rows() == [
        ("0", 0.0, 100.0, "v100", "static"),
        ("1", 5.0, 502.0, "k80", "gns"),
        ("2", 6.0, 100.0, "v100", "accordion"),
        ("3", 7.0, 100.0, "v100", "gns"),
    ]
    assert result.notes == (
        "3 of 4 jobs change their batch size as they run (mode accordion or gns), which is not kept: they run"
        " at that of their job type throughout; first: line 2, gns",
        "in 1 of 4 jobs the trace's own run time is steps / throughput on no GPU type, so they run as long as"
        " on the fastest: is throughputs.json the file of this trace? First: line 4, 77 s in the trace, 100 s"
        " here",
    )


@pytest.mark.parametrize(
    "text",
    [
        OLDER.format(100, 1, "6.5"),  # the arrival last, as no version has it
        NINE.replace("\t-1.000000", ""),
        NINE.rstrip() + "\t1\t2\n",
        SHOCKWAVE.format(1, "fast", 1, 1),
    ],
    ids=["other order", "eight", "eleven", "no mode"],
)
def test_a_form_that_no_version_has_is_not_guessed(trace: Path, text: str) -> None:
    trace.write_text(text)
    with pytest.raises(
        InputError,
        match=r"is not a file of gavel: expected a Gavel trace \(lines of ten cells|: expected a row of an? "
        r"(older Gavel|Shockwave) trace",
    ):
        converted(trace)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x00" + b"\xff" * 30, "cannot be read as JSON"),
        (b"[" * 100_000, "cannot be read as JSON"),
        (json.dumps({"v100": {LM.format(1): {"null": 10**400}}}).encode(), "a finite number of steps/s >= 0"),
        (json.dumps({"v100": {LM.format(10**10): {"null": 1.0}}}).encode(), "a job type and its GPUs"),
        (json.dumps({"v100": {LM.format("1" + "0" * 5_000): {"null": 1.0}}}).encode(), "a job type and its"),
    ],
    ids=["no gzip", "deep", "large rate", "many GPUs", "more digits than an integer may have"],
)
def test_odd_throughputs_are_refused(trace: Path, data: bytes, says: str) -> None:
    Path("odd.json").write_bytes(data)
    with pytest.raises(InputError, match=says):
        converted(trace, "odd.json")


def test_the_published_trace_of_shockwave() -> None:
    """Every job ran on a v100 of its authors' cluster, for the run time that the trace has."""
    folder = present(SHARED / "peers" / "physical")
    path = folder / "shockwave_120.trace"
    result = ringbco.convert("gavel", path, throughputs=folder / "shockwave_throughputs.json.gz", strict=True)
    frame = result.table.frame
    assert (frame.height, set(frame["recorded_on"])) == (120, {"v100"})
    text = {str(row): line.split("\t")[10] for row, line in enumerate(path.read_text().splitlines())}
    assert all(
        abs(float(text[job]) - took) <= 1.0 for job, took in frame.select("job_id", "duration").iter_rows()
    )
    [note] = result.notes
    assert note.startswith("116 of 120 jobs change their batch size")
