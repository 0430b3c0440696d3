"""Inputs that fuzzing found, or that nobody expects: each works, or is refused in one line."""

from __future__ import annotations

import io
import json
import zipfile
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from conftest import Invoke, RunCli
from raw import pai, swf
from ringbco import replay
from ringbco.audits import check_folder, check_outcome
from ringbco.audits.findings import Finding
from ringbco.cluster.presets import ServerGroup
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError, UsageError
from ringbco.result.outcome import Outcome
from ringbco.sources import convert
from ringbco.trace import profiles
from ringbco.trace.jobs import from_frame, read_jobs
from ringbco.trace.requests import read_requests

ODD = "o\udcff"  # how Python spells a name of the bytes o, 0xff
WIDE = pa.array([Decimal(row) for row in range(7)], pa.decimal256(60, 3))
NO_LENGTH = pa.array([[]] * 7, pa.list_(pa.int64(), 0))


def table_with(small_jobs: Path, name: str, column: pa.Array) -> Path:
    """The small job table as Parquet with another, or one more, column."""
    table = read_jobs(small_jobs).frame.to_arrow()
    made = table.drop_columns([name]) if name in table.column_names else table
    path = small_jobs.with_name("wide.parquet")
    pq.write_table(made.append_column(name, column), path)
    return path


@pytest.mark.parametrize("name", ["extra", "duration", "vc"])
@pytest.mark.parametrize("verb", ["inspect", "replay", "compare", "plan"])
def test_a_column_of_256_bits_is_refused_by_name(
    small_jobs: Path, invoke: Invoke, verb: str, name: str
) -> None:
    table_with(small_jobs, name, WIDE)
    options = ["--cluster", "2x8", "-o", "out"] if verb != "inspect" else []
    options += ["--policy", "fifo", "--policy", "sjf"] if verb == "compare" else []
    run = invoke(verb, "wide.parquet", *options)
    assert run.returncode == 1
    assert run.stderr.startswith(
        f"error: wide.parquet: column {name}: expected a type that can be read, not decimal256(60, 3); "
    )
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "column", [pa.array([[v] for v in WIDE.to_pylist()], pa.list_(WIDE.type)), NO_LENGTH]
)
def test_tables_of_other_libraries_too(column: pa.Array) -> None:
    with pytest.raises(InputError, match="<frame>: column x: expected a type that can be read, not "):
        from_frame(pa.table({"job_id": [str(i) for i in range(7)], "x": column}))


@pytest.mark.parametrize(
    "column", [WIDE, pa.nulls(7, pa.timestamp("us", tz="No/Where"))], ids=["wide", "zone"]
)
def test_a_result_with_such_a_column(small_jobs: Path, tmp_path: Path, column: pa.Array) -> None:
    replay(small_jobs, "2x8").write(tmp_path / "r")
    file = tmp_path / "r" / "jobs.parquet"
    pq.write_table(pq.read_table(file).append_column("x", column), file)
    with pytest.raises(InputError, match=r"jobs.parquet: column x: expected a type that can be read"):
        Outcome.read(tmp_path / "r")


def test_a_column_that_no_replay_reads_is_in_nobodys_way(small_jobs: Path, invoke: Invoke) -> None:
    table_with(small_jobs, "status", WIDE)
    assert invoke("replay", "wide.parquet", "--cluster", "2x8", "-o", "r").returncode == 0
    assert invoke("audit", "r").returncode == 0


def test_a_time_beyond_float64_is_told_without_a_warning() -> None:
    table = from_frame(
        pl.DataFrame(
            {
                "job_id": ["a"],
                "submit_time": [0.0],
                "num_gpus": [1],
                "duration": [1.0],
                "fp_time": [1e308],
                "batch_size": [32],
            }
        )
    )
    with pytest.raises(InputError, match="expected an iteration that ends"):
        profiles.resolve(table, Cluster.parse("1x1"), model="rar", seed=0)


@pytest.mark.parametrize("name", ["pai_job_table.csv", "pai_task_table.csv", "pai_instance_table.csv"])
def test_a_byte_that_is_not_utf8_is_named(tmp_path: Path, name: str) -> None:
    paths = pai.generate(good=6, each=0).write(tmp_path)
    lines = (tmp_path / name).read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b",", b",\xff", 1)
    (tmp_path / name).write_bytes(b"\n".join(lines))
    with pytest.raises(InputError, match=f"{name}: line 3: .*: expected UTF-8 text; save the file as UTF-8"):
        convert("pai", paths)


def test_a_byte_that_is_not_utf8_in_swf(tmp_path: Path) -> None:
    (path,) = swf.generate(good=6, each=0).write(tmp_path)
    path.write_bytes(path.read_bytes() + b'; an odd " mark\n; \xff\n')
    line = path.read_bytes().count(b"\n")
    with pytest.raises(InputError, match=f"line {line}: .*: expected UTF-8 text"):
        convert("swf", [path])


def test_numbers_beyond_measure_in_swf(tmp_path: Path) -> None:
    (path,) = swf.generate(good=6, each=0).write(tmp_path)
    *comments, first, rest = path.read_text().rstrip().rsplit("\n", 2)
    cells = first.split()
    cells[11] = cells[14] = cells[15] = "1e308"  # user, queue, partition
    path.write_text("\n".join([*comments, " ".join(cells), rest]) + "\n")
    frame = convert("swf", [path]).table.frame
    assert frame.select("user", "queue", "partition").null_count().row(0) >= (1, 1, 1)


def test_a_header_file_with_a_doubled_name(tmp_path: Path) -> None:
    paths = pai.generate(good=6, each=0).write(tmp_path)
    header = tmp_path / "pai_instance_table.header"
    header.write_text(header.read_text().replace("task_name", "task_name,task_name"))
    with pytest.raises(InputError, match=r"pai_instance_table.header: has two columns named task_name"):
        convert("pai", paths)


def test_a_damaged_place_in_a_zip_archive(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("own.csv", "job,when,gpus,secs\na,0,1,2\n")
    path = tmp_path / "all.zip"
    whole = out.getvalue()
    path.write_bytes(whole[:4] + whole[8:])  # the first member now lies before the file's first byte
    with pytest.raises(InputError, match=r"all.zip: is a zip file that is damaged; fetch it again"):
        convert("csv", [path])


def test_a_cluster_beyond_measure_is_refused_at_once() -> None:
    with pytest.raises(InputError, match=r"expected a cluster of at most 16777216 GPUs"):
        Cluster.from_groups([ServerGroup(2**60, 8, None, None)])


@pytest.mark.parametrize("name", ["priority", "num_gpus"])
def test_a_number_of_single_precision_just_beyond_the_largest(name: str) -> None:
    columns = {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1.0], "duration": [1.0]}
    largest = 2.0**31 if name == "priority" else 2.0**32
    frame = pl.DataFrame(columns | {name: [largest]}, schema_overrides={name: pl.Float32})
    with pytest.raises(InputError, match=f"row 1, column {name}: {largest:.0f}: expected an integer"):
        from_frame(frame)


@pytest.mark.parametrize(("rate", "iterations"), [(1e-320, 1), (1e-300, 10**15)])
def test_a_rate_at_which_a_run_never_ends(rate: float, iterations: int) -> None:
    jobs = {"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0], "model": ["LM"]}
    table = pl.DataFrame(jobs | {"gpu_type": ["V100"], "iterations": [iterations]})
    rates = {"model": ["LM"], "gpu_type": ["V100"], "gpus": [1], "servers": [1], "rate": [rate]}
    cluster = Cluster.from_groups([ServerGroup(1, 1, gpu_type="V100")])
    with pytest.raises(InputError, match=r"expected a run of at most 1e\+16 s alone; job 'a'"):
        replay(table, cluster, model="table", tables=pl.DataFrame(rates))


def test_a_finding_is_one_line_of_plain_characters() -> None:
    assert str(Finding("jobs", "a\nb", job="\x1b[31mred")) == "jobs: job \\x1b[31mred: a b"


def test_a_job_that_ends_when_it_is_submitted_has_no_speed() -> None:
    jobs = pl.DataFrame(
        {
            "job_id": ["a", "b"],
            "submit_time": [0.0, 1e16],
            "num_gpus": [1, 1],
            "duration": [5.0, 0.1],
            "user": ["ann", "bob"],
        }
    )
    outcome = replay(jobs, "1x1", model="fixed")
    assert outcome.jobs["jct"].to_list() == [5.0, 0.0]
    assert outcome.summary["jain_index_users"] == 1.0
    report = [str(finding) for finding in check_outcome(outcome, from_frame(jobs)).findings]
    assert not any("jain" in finding for finding in report), report


def test_a_result_whose_options_are_no_table(small_jobs: Path, tmp_path: Path) -> None:
    replay(small_jobs, "2x8").write(tmp_path / "r")
    file = tmp_path / "r" / "run.toml"
    kept = file.read_text().partition("[options]")[0]
    file.write_text("options = true\n" + kept)
    with pytest.raises(InputError, match=r"run.toml: options: .*: expected a table \[options\]"):
        Outcome.read(tmp_path / "r")


@pytest.mark.parametrize(
    ("written", "says"),
    [("sample = ''", "sample: "), ("sample = [1]", "sample: "), (f"seed = 1{'0' * 400}", "seed: ")],
)
def test_audits_of_odd_options(small_jobs: Path, tmp_path: Path, written: str, says: str) -> None:
    replay(small_jobs, "2x8", sample=10.0).write(tmp_path / "r")
    file = tmp_path / "r" / "run.toml"
    name = written.split(" ", maxsplit=1)[0]
    lines = [written if line.startswith(f"{name} =") else line for line in file.read_text().split("\n")]
    file.write_text("\n".join(lines))
    with pytest.raises(InputError, match=f"run.toml: options.{says}"):
        check_folder(tmp_path / "r", small_jobs)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("makespan", 10**400, "makespan is 1000"),
        ("size_classes", None, "size_classes has a row None"),
        ("size_classes", ["1"], "size_classes has a row '1'"),
    ],
)
def test_audits_of_odd_figures(small_jobs: Path, tmp_path: Path, name: str, value: object, says: str) -> None:
    summary = replay(small_jobs, "2x8").write(tmp_path / "r")
    (tmp_path / "r" / "summary.json").write_text(json.dumps({**summary, name: value}))
    report = check_folder(tmp_path / "r", small_jobs)
    assert any(says in str(finding) for finding in report.findings)


def test_audits_of_columns_of_another_kind(small_jobs: Path, tmp_path: Path) -> None:
    replay(small_jobs, "2x8").write(tmp_path / "r")
    file = tmp_path / "r" / "jobs.parquet"
    frame = pl.read_parquet(file).with_columns(wait_gpus=pl.concat_list("wait_time", "jct"))
    frame.write_parquet(file)
    with pytest.raises(
        InputError, match=r"jobs.parquet: column wait_gpus: List\(Float64\): expected numbers"
    ):
        check_folder(tmp_path / "r", small_jobs)


def test_times_that_slots_cannot_count(small_jobs: Path) -> None:
    frame = read_jobs(small_jobs).frame.with_columns(submit_time=pl.lit(7_596_046_784_449_590.0))
    with pytest.raises(
        InputError, match=r"row 1: .*submit_time: .*: expected a time of fewer than 2\^53 slots"
    ):
        replay(frame, "2x8", clock="slot", slot=0.1, model="fixed")


def test_a_timeline_without_end(small_jobs: Path, invoke: Invoke) -> None:
    run = invoke("replay", small_jobs, "--cluster", "2x8", "--sample", "1e-9", "-o", "r")
    assert run.returncode == 2
    assert "sample: 1e-09: expected a step that gives at most 10,000,000 points" in run.stderr
    assert not Path("r").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "loop.csv"),
        ("replay", "loop.csv", "--cluster", "2x8", "-o", "r"),
        ("replay", "loop.parquet", "--cluster", "2x8", "-o", "r"),
        ("replay", "small.csv", "--cluster", "loop.toml", "-o", "r"),
        ("replay", "small.csv", "--cluster", "2x8", "-o", "loop"),
        ("replay", "small.csv", "--cluster", "2x8", "-o", "loop", "--force"),
        ("replay", "small.csv", "--cluster", "2x8", "-o", "loop/inside"),
        ("convert", "swf", "loop.csv", "-o", "r.parquet"),
        ("convert", "swf", "small.csv", "-o", "loop.parquet"),
        ("sweep", "loop.toml", "-o", "r"),
        ("audit", "loop"),
        ("report", "loop", "-o", "r.html"),
        ("timeline", "loop", "-o", "r.json"),
    ],
    ids=" ".join,
)
def test_links_that_go_round(small_jobs: Path, invoke: Invoke, arguments: tuple[str, ...]) -> None:
    for name in ("loop", "loop.csv", "loop.parquet", "loop.toml"):
        small_jobs.with_name(name).symlink_to(name)
    run = invoke(*arguments)
    assert run.returncode in (1, 2)
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert "loop" in run.stderr
    assert "unexpected" not in run.stderr


@pytest.mark.long
def test_names_that_are_not_utf8(small_jobs: Path, invoke: Invoke) -> None:
    small_jobs.with_name(f"{ODD}.csv").write_bytes(small_jobs.read_bytes())
    small_jobs.with_name(f"{ODD}.toml").write_text("[[servers]]\ncount = 2\ngpus = 8\n")
    small_jobs.with_name(f"{ODD} sweep.toml").write_text('[base]\ntrace = "small.csv"\ncluster = "2x8"\n')
    for arguments in (
        ("profile", f"{ODD}.csv", "-o", f"{ODD}.parquet"),
        ("replay", f"{ODD}.parquet", "--cluster", f"{ODD}.toml", "-o", f"{ODD}"),
        ("audit", f"{ODD}", "--jobs", f"{ODD}.parquet"),
        ("timeline", f"{ODD}", "-o", f"{ODD}.json"),
        (
            "compare",
            f"{ODD}.csv",
            "--cluster",
            "2x8",
            "--policy",
            "fifo",
            "--policy",
            "sjf",
            "-o",
            f"{ODD} c",
        ),
        ("report", f"{ODD}", f"{ODD} c", "-o", f"{ODD}.html"),
        ("plan", f"{ODD}.csv", "--cluster", "2x8", "-o", f"{ODD} plan"),
        ("sweep", f"{ODD} sweep.toml", "-o", f"{ODD} sweep"),
        ("replay", "small.csv", "--cluster", "2x8", "-o", f"{ODD}", "--force"),
    ):
        run = invoke(*arguments, "--quiet")
        assert run.returncode == 0, (arguments, run.stderr)
        assert small_jobs.with_name(arguments[-1]).exists() or arguments[-1] == "--force"
    same = Outcome.read(small_jobs.with_name(ODD))
    assert same.jobs.equals(replay(small_jobs, "2x8", policy="sjf-bco").jobs)


@pytest.mark.long
def test_such_a_name_is_printed_wherever_text_goes(
    small_jobs: Path, run_cli: RunCli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, encoding in enumerate(("utf-8:strict", "ascii:strict")):
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
        run = run_cli("replay", small_jobs, "--cluster", "2x8", "-o", f"{ODD}{number}")
        assert (run.returncode, run.stderr) == (0, "")
        assert f"o\\udcff{number}" in run.stdout


def test_raw_traces_of_such_names(tmp_path: Path) -> None:
    (path,) = swf.generate(good=6, each=0).write(tmp_path)
    odd = path.rename(tmp_path / f"{ODD}.swf")
    assert convert("swf", [odd]).table.num_jobs > 0
    csv = tmp_path / f"{ODD}.csv"
    csv.write_text("job_id,submit_time,num_gpus,duration,x\na,0,1,2,\n")
    assert convert("csv", [csv]).table.num_jobs == 1


def test_a_number_beyond_all_measure_is_no_threshold(small_jobs: Path) -> None:
    with pytest.raises(UsageError, match=r"option thresholds: 1000+: expected"):
        replay(small_jobs, "2x8", policy="tiresias", thresholds=[10**400])


def test_a_damaged_bz2_whose_reader_loses_its_way(tmp_path: Path) -> None:
    path = tmp_path / "cluster_job_log.bz2"
    path.write_bytes(b"BZh1\x17rE8P\x90\x00\x00\x00\x00" * 3)
    with pytest.raises(InputError, match="is a bz2 file that is damaged"):
        convert("philly", [path])


def test_a_column_without_a_name_or_rows_is_no_index(tmp_path: Path) -> None:
    path = tmp_path / "requests.csv"
    path.write_text(",G\n")
    with pytest.raises(InputError, match="line 1, column 1: '': expected a name for every column"):
        read_requests(path)
