"""`replay --again`: a result repeated from its run.toml, every table and figure."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from conftest import Invoke
from ringbco import from_frame, read_jobs, replay
from ringbco.errors import InputError
from ringbco.result.outcome import Outcome
from ringbco.result.tables import TABLES
from ringbco.run.again import compare_results, read_repeat, settings

TYPED = """\
[network]
inter_bandwidth = 1e9
[[servers]]
count = 2
gpus = 8
vc = "one"
gpu_type = "V100"
[[servers]]
gpus = 4
vc = "two"
gpu_type = "B200"
[gpu_types.B200]
speed = 9.5
"""


USUAL = {table.file for table in TABLES.values() if table.unsaid or not table.when} | {"summary.json"}


@pytest.fixture
def result(invoke: Invoke, small_jobs: Path) -> Path:
    done = invoke(
        *("replay", small_jobs.name, "--cluster", "2x8", "--policy", "sjf", "--queue", "easy"),
        *("--estimate-factor", "3", "--sample", "7", "--seed", "5", "-o", "r"),
    )
    assert (done.returncode, done.stderr) == (0, "")
    return Path("r")


@pytest.mark.parametrize(
    "options",
    [
        ("--policy", "fifo", "--placement", "random", "--seed", "3", "--ties", "shuffle:4"),
        ("--policy", "sjf-bco", "--kappa", "2", "--lambda", "2", "--variant", "literal"),
        ("--policy", "tiresias", "--thresholds", "100,900", "--interval", "20", "--preempt-cost", "7"),
        ("--policy", "time-slice", "--quantum", "45", "--clock", "slot", "--slot", "5"),
        ("--policy", "ff", "--recorded-cluster", "4x2", "--inter-bandwidth", "2e5"),
        ("--policy", "smallest", "--aging", "60", "--model", "fixed", "--no-allocations"),
        ("--policy", "srtf", "--decisions"),
        ("--policy", "qssf", "--predict", "exact", "--inter-bandwidth", "1e8", "--alpha", "2", "--xi1", "1"),
    ],
)
def test_every_kind_of_option_is_repeated(invoke: Invoke, small_jobs: Path, options: tuple[str, ...]) -> None:
    assert invoke("replay", small_jobs, "--cluster", "2x8", *options, "-o", "r", "-q").returncode == 0
    again = invoke("replay", "--again", "r", "-o", "again")
    assert again.returncode == 0, again.stderr
    assert bool(again.stderr) == ("2e5" in options)  # a network of that speed is warned of again
    files = set(USUAL)
    if {"tiresias", "time-slice", "srtf"} & set(options):
        files.add("stays.parquet")
    if "--decisions" in options:
        files.add("decisions.parquet")
    if "--no-allocations" in options:
        files.remove("allocations.parquet")
    assert [line.split(maxsplit=1) for line in again.stdout.splitlines()[1:]] == [
        [name, "the same"] for name in (*sorted(files - {"summary.json"}), "summary.json")
    ]
    for name in files - {"summary.json"}:
        assert Path("again", name).read_bytes() == Path("r", name).read_bytes()
    assert Outcome.read("again").run == Outcome.read("r").run


def test_virtual_clusters_and_types_come_back(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> None:
    frame = pl.read_csv(small_jobs).with_columns(
        vc=pl.Series(["one", "one", "two", "one", "two", "two", "one"])
    )
    frame.write_csv(tmp_path / "vcs.csv")
    (tmp_path / "c.toml").write_text(TYPED)
    for vc in ("split", "pool"):
        assert invoke("replay", "vcs.csv", "--cluster", "c.toml", "--vc", vc, "-o", vc).returncode == 0
        (tmp_path / "c.toml").rename(tmp_path / "away.toml")  # run.toml has all of it
        again = invoke("replay", "--again", vc)
        assert (again.returncode, again.stderr) == (0, "")
        (tmp_path / "away.toml").rename(tmp_path / "c.toml")


@pytest.mark.parametrize(
    "options", [(), ("--policy", "rand", "--seed", "2"), ("--kappa", "4", "--horizon", "5000", "--u", "2")]
)
def test_a_plan_is_repeated_too(invoke: Invoke, small_jobs: Path, options: tuple[str, ...]) -> None:
    assert invoke("plan", small_jobs, "--cluster", "2x8", *options, "-o", "p", "-q").returncode == 0
    again = invoke("replay", "--again", "p", "--json")
    assert (again.returncode, again.stderr) == (0, "")
    output = json.loads(again.stdout)
    assert (output["command"], output["same"], output["out"]) == ("plan", True, None)
    assert output["differences"] == dict.fromkeys(USUAL)


def test_without_a_folder_nothing_is_left(invoke: Invoke, result: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert invoke("replay", "--again", result, "-q").stdout == ""
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            "jobs.parquet",
            lambda frame: frame.with_columns(
                finish_time=pl.when(pl.int_range(pl.len()) == 2).then(0.5).otherwise("finish_time")
            ),
            "1 of 7 rows differ; row 3, column finish_time: was 0.5, is ",
        ),
        ("allocations.parquet", lambda frame: frame.head(3), "had 3 rows, and has "),
        ("timeline.parquet", lambda frame: frame.drop("queued_gpus"), "has other columns (queued_gpus)"),
        (
            "jobs.parquet",
            lambda frame: frame.with_columns(pl.col("num_gpus").cast(pl.Int64)),
            "column num_gpus was Int64, and is UInt32",
        ),
        (
            "jobs.parquet",
            lambda frame: frame.vstack(frame.tail(1)),
            "had 8 rows, and has 7",
        ),
    ],
)
def test_a_file_that_differs_is_named_and_how(invoke: Invoke, result: Path, name, change, said) -> None:  # type: ignore[no-untyped-def]
    change(pl.read_parquet(result / name)).write_parquet(result / name, compression="uncompressed")
    again = invoke("replay", "--again", result)
    assert again.returncode == 3
    assert again.stderr == f"error: r: came out otherwise: {name}\n"
    (line,) = (line for line in again.stdout.splitlines() if line.startswith(name))
    assert said in line
    assert again.stdout.count("the same") == 3


def test_equal_values_in_other_bytes_are_the_same(invoke: Invoke, result: Path) -> None:
    path = result / "jobs.parquet"
    pl.read_parquet(path).write_parquet(path, compression="uncompressed")
    assert invoke("replay", "--again", result).returncode == 0


@pytest.mark.parametrize("name", ["mean_jct", "jobs", "policy", "p99_wait"])
def test_a_figure_that_differs_is_named(invoke: Invoke, result: Path, name: str) -> None:
    summary = json.loads((result / "summary.json").read_text())
    was = summary[name]
    summary[name] = "fifo" if name == "policy" else was * 2
    (result / "summary.json").write_text(json.dumps(summary))
    again = invoke("replay", "--again", result)
    assert (again.returncode, again.stderr) == (3, "error: r: came out otherwise: summary.json\n")
    assert again.stdout.splitlines()[-1].startswith(f"summary.json         {name} was ")


def test_wall_time_is_no_figure(invoke: Invoke, result: Path) -> None:
    summary = json.loads((result / "summary.json").read_text())
    summary |= {"engine_seconds": 7.0, "total_seconds": 8.0, "jobs_per_second": 9.0}
    (result / "summary.json").write_text(json.dumps(summary))
    assert invoke("replay", "--again", result).returncode == 0


def test_damaged_and_missing_files(invoke: Invoke, result: Path) -> None:
    (result / "jobs.parquet").write_bytes(b"PAR1 no more")
    (result / "timeline.parquet").unlink()
    again = invoke("replay", "--again", result)
    assert again.returncode == 3
    assert "came out otherwise: jobs.parquet, timeline.parquet\n" in again.stderr
    assert "jobs.parquet         is a truncated or damaged Parquet file (" in again.stdout
    assert "timeline.parquet     is not in the result" in again.stdout
    assert compare_results(result, result)["allocations.parquet"] is None


def test_a_changed_setting_comes_out_otherwise_and_versions_are_told(invoke: Invoke, result: Path) -> None:
    record = (result / "run.toml").read_text()
    polars = Outcome.read(result).run["ringbco"]["polars"]
    changed = record.replace("sample = 7.0", "sample = 9.0")
    changed = changed.replace(f'polars = "{polars}"', 'polars = "0.1"')
    assert changed != record
    (result / "run.toml").write_text(changed)
    again = invoke("replay", "--again", result, "-o", "other")
    assert again.returncode == 3
    assert "came out otherwise: timeline.parquet; " in again.stderr
    assert f"; the result was made with polars 0.1 (here {polars})\n" in again.stderr
    assert Outcome.read("other").summary["jobs"] == 7


def test_the_trace_is_checked(invoke: Invoke, result: Path, small_jobs: Path, tmp_path: Path) -> None:
    text = small_jobs.read_text()
    (tmp_path / "copy.csv").write_text(text)
    small_jobs.write_text(text.replace("a,0,4,100", "a,0,4,101"))
    changed = invoke("replay", "--again", result, "-o", "again")
    assert (changed.returncode, changed.stdout) == (1, "")
    assert changed.stderr.startswith("error: small.csv: is not the job table of r: its SHA-256 begins with ")
    assert invoke("replay", "copy.csv", "--again", result).returncode == 0
    small_jobs.unlink()
    missing = invoke("replay", "--again", result)
    assert missing.returncode == 1
    assert missing.stderr == (
        "error: small.csv: the job table that r/run.toml names is not there;"
        " say where it is: ringbco replay JOBS --again r\n"
    )
    assert invoke("replay", "copy.csv", "--again", result).returncode == 0
    assert invoke("replay", "none.csv", "--again", result).stderr.startswith("error: none.csv: no such file")
    assert not (tmp_path / "again").exists()


def test_a_table_made_in_memory_has_to_be_given(small_jobs: Path, tmp_path: Path) -> None:
    replay(from_frame(read_jobs(small_jobs).frame), "2x8").write(tmp_path / "r")
    with pytest.raises(InputError, match=r"made in memory; .* ringbco replay JOBS --again"):
        read_repeat(tmp_path / "r")
    outcome = read_repeat(tmp_path / "r", small_jobs).run()
    outcome.write(tmp_path / "again")
    assert set(compare_results(tmp_path / "r", tmp_path / "again").values()) == {None}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('command = "replay"', 'command = "dream"', "options.command: dream: expected one of replay, plan"),
        ('command = "replay"', "command = true", "options.command: True: expected one of replay, plan"),
        ('command = "replay"', "command = [1]", "options.command: [1]: expected one of replay, plan"),
        ("kappa = 8", "kappa = -3", "option kappa: -3: expected an integer"),
        ("kappa = 8", "warp = 9", "options.warp: expected an option of replay that this version"),
        ("[trace]", "[tracer]", "trace: expected a table"),
        ("\nservers = ", "\nwaiters = ", "run.toml: cluster"),
    ],
)
def test_a_record_that_says_something_odd(
    invoke: Invoke, result: Path, old: str, new: str, said: str
) -> None:
    record = (result / "run.toml").read_text()
    assert old in record
    (result / "run.toml").write_text(record.replace(old, new))
    again = invoke("replay", "--again", result)
    assert (again.returncode, again.stdout) == (1, "")
    assert said in again.stderr
    assert again.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [True, [1], "dream"])
def test_a_run_of_another_command_cannot_be_asked(command: object) -> None:
    with pytest.raises(InputError, match=r"run.toml: options.command: .*: expected one of replay, plan"):
        settings({"options": {"command": command}}, Path("run.toml"), None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--again", "r", "--policy", "sjf"), "option policy: --again takes every setting from run.toml"),
        (("--again", "r", "--cluster", "2x8"), "option cluster: --again takes"),
        (("--again", "r", "-o", "r"), "option out: r: expected another folder"),
        (("--again", "r", "-o", "r/sub"), "option out: r/sub: expected a folder apart from the result"),
        (("--again", "r", "-o", "r/../r/a/b"), "option out: r/../r/a/b: expected a folder apart"),
        (("--cluster", "2x8", "-o", "x"), "replay: JOBS is missing"),
        (("small.csv", "-o", "x"), "replay: --cluster is missing"),
        (("small.csv", "--cluster", "2x8"), "replay: -o is missing"),
    ],
)
def test_wrong_usage(invoke: Invoke, result: Path, arguments: tuple[str, ...], said: str) -> None:
    assert result.is_dir()
    done = invoke("replay", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("x").exists()


def test_a_folder_that_is_no_result(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("replay", "--again", tmp_path)
    assert done.returncode == 1
    assert "expected a result folder" in done.stderr
