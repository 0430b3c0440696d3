"""The command line: statuses, one-line errors, what goes to which stream, interrupts."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pty
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from conftest import SMALL_JOBS, Invoke, RunCli
from ringbco import cli
from ringbco.cluster.network import Network
from ringbco.cluster.spec import Cluster
from ringbco.result.outcome import Outcome
from ringbco.run.replay import replay
from ringbco.trace.jobs import read_jobs, write_jobs


def replay_small(invoke: Invoke, *options: object) -> SimpleNamespace:
    Path("small.csv").write_text(SMALL_JOBS)
    return invoke("replay", "small.csv", "--cluster", "2x8", "-o", "r", *options)


def refused(run: SimpleNamespace, *left: str) -> str:
    """The one line of a refusal: status 1, nothing on stdout, nothing in the folder but `left`."""
    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert run.stderr.count("\n") == 1
    assert {path.name for path in Path.cwd().iterdir()} == set(left)
    return str(run.stderr)


def test_help_costs_no_heavy_import() -> None:
    code = (
        "import sys, ringbco.cli\n"
        "sys.argv = ['ringbco', '--help']\n"
        "try: ringbco.cli.main()\n"
        "except SystemExit as end: assert not end.code\n"
        "print(*sorted({'numpy', 'polars', 'pyarrow', 'altair', 'ringbco._core'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == ""
    for verb, summary in cli.COMMANDS.items():
        assert verb in run.stdout
        assert summary.split()[0] in run.stdout


@pytest.mark.parametrize("verb", cli.COMMANDS)
def test_every_verb_has_a_page_of_help(invoke: Invoke, verb: str) -> None:
    run = invoke(verb, "--help")
    assert run.returncode == 0
    assert f"ringbco {verb}" in run.stdout


@pytest.mark.parametrize("columns", [[], ["user"], ["vc"], ["user", "vc"]])
def test_inspect_does_without_the_optional_columns(invoke: Invoke, columns: list[str]) -> None:
    header, *rows = SMALL_JOBS.splitlines()
    lines = [",".join([header, *columns]), *(",".join([row, *(["x"] * len(columns))]) for row in rows)]
    Path("j.csv").write_text("\n".join(lines) + "\n")
    run = invoke("inspect", "j.csv", "--cluster", "2x8")
    assert (run.returncode, run.stderr) == (0, "")
    assert "7 jobs in j.csv" in run.stdout


def test_the_version_is_told(run_cli: RunCli) -> None:
    run = run_cli("--version")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith("ringbco 0.")
    assert re.search(
        r"^built .* engine by rustc 1\.\d+\.\d+ .* for \S+, (release|debug)$", run.stdout, re.MULTILINE
    )


def test_help_of_replay_tells_the_defaults_of_the_network(invoke: Invoke) -> None:
    page = " ".join(invoke("replay", "--help-all").stdout.replace("│", " ").split())
    for name, value in dataclasses.asdict(Network()).items():
        start = page.index("--" + name.replace("_", "-"))
        told = page[start:].split("Default ", 1)[1].split(":", 1)[0]
        assert float(told) == value, name


@pytest.mark.parametrize(
    "arguments",
    [
        ["repla"],
        ["replay"],
        ["replay", "small.csv", "-o", "r"],
        ["replay", "small.csv", "--cluster", "2x8"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--kappa", "many"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--kappa", "-1"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--lambda", "0.5"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--slot", "0"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--policy", "best"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--xi1", "0"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--alpha", "-0.1"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--inter-bandwidth", "-5"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--sample", "nan"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--measure-from", "nan"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--measure-to", "0"],
        ["replay", "small.csv", "--cluster", "2x8", "-o", "r", "--fast"],
    ],
)
def test_wrong_usage_ends_with_2_and_writes_nothing(
    invoke: Invoke, tmp_path: Path, arguments: list[str]
) -> None:
    (tmp_path / "small.csv").write_text(SMALL_JOBS)
    run = invoke(*arguments)
    assert run.returncode == 2
    assert run.stderr
    assert "Traceback" not in run.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"small.csv"}


HEADER = "job_id,submit_time,num_gpus,duration\n"
BAD_TABLES = {
    "not a trace": (b"\x00\x01\x02\xff" * 100, ""),
    "some other text": (b"Dear Sir\nplease find enclosed\n", "job table"),
    "empty": (b"", "empty"),
    "no rows": (HEADER.encode(), "no jobs"),
    "a column missing": (b"job_id,submit_time,num_gpus\na,0,1\n", "duration"),
    "a column misspelt": (
        b"job_id,submit_time,num_gpu,duration\na,0,1,5\n",
        "--map num_gpus=num_gpu -o jobs.parquet` makes a job table of it",
    ),
    "no GPU": ((HEADER + "a,0,1,5\nb,0,0,5\n").encode(), "row 2 (line 3), column num_gpus: 0"),
    "negative GPUs": ((HEADER + "a,0,-2,5\n").encode(), "row 1 (line 2), column num_gpus: -2"),
    "half a GPU": ((HEADER + "a,0,0.5,5\n").encode(), "column num_gpus: 0.5"),
    "null GPUs": ((HEADER + "a,0,,5\n").encode(), "column num_gpus: null"),
    "negative duration": ((HEADER + "a,0,1,-5\n").encode(), "column duration: -5"),
    "zero duration": ((HEADER + "a,0,1,0\n").encode(), "column duration: 0"),
    "NaN duration": ((HEADER + "a,0,1,NaN\n").encode(), "column duration: NaN"),
    "infinite duration": ((HEADER + "a,0,1,inf\n").encode(), "column duration: inf"),
    "negative time": ((HEADER + "a,-1,1,5\n").encode(), "column submit_time: -1"),
    "infinite time": ((HEADER + "a,inf,1,5\n").encode(), "column submit_time: inf"),
    "a word for a time": ((HEADER + "a,noon,1,5\n").encode(), "column submit_time: noon"),
    "an id twice": ((HEADER + "a,0,1,5\nb,1,1,5\na,2,1,5\n").encode(), "row 3 (line 4), column job_id: a"),
    "a job too large": ((HEADER + "a,0,17,5\n").encode(), "column num_gpus: 17"),
}


@pytest.mark.parametrize("case", BAD_TABLES)
def test_a_bad_table_is_refused_in_one_line(invoke: Invoke, case: str) -> None:
    data, told = BAD_TABLES[case]
    Path("jobs.csv").write_bytes(data)
    line = refused(invoke("replay", "jobs.csv", "--cluster", "2x8", "-o", "r"), "jobs.csv")
    assert line.startswith("error: jobs.csv: ")
    assert told in line


def test_a_truncated_parquet_file_is_refused(invoke: Invoke, small_jobs: Path) -> None:
    write_jobs(read_jobs(small_jobs), small_jobs.with_name("jobs.parquet"))
    small_jobs.unlink()
    whole = Path("jobs.parquet").read_bytes()
    for length in (4, len(whole) // 2, len(whole) - 1):
        Path("jobs.parquet").write_bytes(whole[:length])
        line = refused(invoke("replay", "jobs.parquet", "--cluster", "2x8", "-o", "r"), "jobs.parquet")
        assert "truncated or damaged" in line


@pytest.mark.parametrize("jobs", ["missing.csv", "folder"])
def test_a_table_that_is_no_file_is_refused(invoke: Invoke, jobs: str) -> None:
    Path("folder").mkdir()
    assert jobs in refused(invoke("replay", jobs, "--cluster", "2x8", "-o", "r"), "folder")


BAD_CLUSTERS = {
    "unknown key": ("[network]\nspeed = 1\n[[servers]]\ngpus = 8\n", "speed"),
    "no servers": ("[network]\nxi1 = 0.5\n", "servers"),
    "xi1 too large": ("[network]\nxi1 = 1.5\n[[servers]]\ngpus = 8\n", "xi1"),
    "xi1 zero": ("[network]\nxi1 = 0\n[[servers]]\ngpus = 8\n", "xi1"),
    "negative bandwidth": ("[network]\ninter_bandwidth = -1\n[[servers]]\ngpus = 8\n", "inter_bandwidth"),
    "no TOML": ("servers: 8\n", "c.toml"),
}


@pytest.mark.parametrize("case", BAD_CLUSTERS)
def test_a_bad_cluster_is_refused_in_one_line(invoke: Invoke, small_jobs: Path, case: str) -> None:
    text, told = BAD_CLUSTERS[case]
    Path("c.toml").write_text(text)
    line = refused(invoke("replay", small_jobs.name, "--cluster", "c.toml", "-o", "r"), "c.toml", "small.csv")
    assert line.startswith("error: c.toml: ")
    assert told in line


@pytest.mark.parametrize("cluster", ["missing.toml", "2y8", "0x8", "preset:nowhere"])
def test_a_cluster_that_does_not_exist_is_refused(invoke: Invoke, small_jobs: Path, cluster: str) -> None:
    line = refused(invoke("replay", small_jobs.name, "--cluster", cluster, "-o", "r"), "small.csv")
    assert cluster in line


def test_an_iteration_longer_than_the_slot_is_refused(invoke: Invoke, small_jobs: Path) -> None:
    run = invoke(
        "replay", small_jobs.name, "--cluster", "2x8", "--clock", "slot", "--slot", "0.001", "-o", "r"
    )
    assert "longer than the slot" in refused(run, "small.csv")


def test_an_existing_folder_is_refused_before_the_run(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    # The job table is missing, and that is not what is told: the folder is looked at first.
    line = refused(invoke("replay", "missing.csv", "--cluster", "2x8", "-o", "r"), "r")
    assert line == "error: r: already exists; pass --force to replace it, or give another name\n"


def test_force_replaces_a_result_and_nothing_else(invoke: Invoke, tmp_path: Path) -> None:
    assert replay_small(invoke).returncode == 0
    assert replay_small(invoke).returncode == 1
    assert replay_small(invoke, "--force", "--policy", "fifo").returncode == 0
    assert Outcome.read(tmp_path / "r").run["options"]["policy"] == "fifo"
    (tmp_path / "r" / "run.toml").unlink()
    assert "no result" in refused(replay_small(invoke, "--force"), "r", "small.csv")


def test_a_place_where_nothing_can_be_made_is_refused(invoke: Invoke, small_jobs: Path) -> None:
    # Not even root makes a folder there.
    line = refused(invoke("replay", small_jobs.name, "--cluster", "2x8", "-o", "/proc/r"), "small.csv")
    assert "/proc/r" in line


def test_a_disk_that_fills_is_told_in_one_line(invoke: Invoke, small_disk: Path) -> None:
    rows = 60_000
    rng = np.random.default_rng(0)
    pl.DataFrame(
        {
            "job_id": [str(row) for row in range(rows)],
            "submit_time": rng.uniform(0, 1e6, rows),
            "num_gpus": [1] * rows,
            "duration": rng.exponential(500.0, rows) + 1,
        }
    ).write_parquet("jobs.parquet")
    line = refused(
        invoke("replay", "jobs.parquet", "--cluster", "2x8", "-q", "-o", small_disk / "r"),
        "disk",
        "jobs.parquet",
    )
    assert "No space left on device" in line
    assert list(small_disk.iterdir()) == []


def test_a_bug_is_one_line_too(invoke: Invoke, small_jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object, **options: object) -> None:
        raise ZeroDivisionError("first line\nsecond line")

    monkeypatch.setattr("ringbco.trace.jobs.read_jobs", broken)
    line = refused(invoke("replay", small_jobs.name, "--cluster", "2x8", "-o", "r"), "small.csv")
    assert "unexpected ZeroDivisionError: first line second line; set RINGBCO_DEBUG=1" in line
    monkeypatch.setenv("RINGBCO_DEBUG", "1")
    monkeypatch.setattr(sys, "argv", ["ringbco", "replay", small_jobs.name, "--cluster", "2x8", "-o", "r"])
    with pytest.raises(ZeroDivisionError):
        cli.main()


def test_replay_ends_with_a_table_of_the_summary(invoke: Invoke, tmp_path: Path) -> None:
    run = replay_small(invoke, "--policy", "fifo", "--model", "fixed")
    assert (run.returncode, run.stderr) == (0, "")
    summary = Outcome.read(tmp_path / "r").summary
    assert "small.csv on 2x8, policy fifo, results in r" in run.stdout
    for figure in (
        f"{summary['mean_jct'] / 60:.1f} min",
        f"{100 * summary['utilisation']:.1f} %",
        "26.7 min",
    ):
        assert figure in run.stdout
    assert max(len(line) for line in run.stdout.splitlines()) <= 80


def test_the_table_tells_of_preemptions_and_deadlines(invoke: Invoke, tmp_path: Path) -> None:
    # The second is due sooner and so suspends the first; the third is too late even if it started at once.
    Path("due.csv").write_text(
        "job_id,user,submit_time,num_gpus,duration,deadline\n"
        "a,u,0,4,500,5000\nb,u,100,4,100,900\nc,v,100,1,100,150\n"
    )
    options = ("--policy", "edf", "--admission", "--model", "fixed", "--preempt-cost", "90")
    run = invoke("replay", "due.csv", "--cluster", "1x4", *options, "-o", "due")
    assert run.returncode == 0
    assert run.stderr.startswith("note: edf: 13 % of the GPU time that jobs held went by in pauses")
    shown = " ".join(run.stdout.split())
    summary = Outcome.read(tmp_path / "due").summary
    assert (summary["preemptions"], summary["lost_gpu_seconds"]) == (1, 360.0)
    for text in (
        "jobs 2 jobs refused 1",
        "preemptions 1 GPU time lost to them 6.0 min",
        "jobs with a deadline 2 deadlines missed 0 deadlines met 100.0 %",
        "worst slowdown 1.38",
        "Jain's index over users 1.000",
    ):
        assert text in shown, text
    assert "GPUs of a job" not in shown


def test_json_is_the_summary_alone(invoke: Invoke, tmp_path: Path) -> None:
    run = replay_small(invoke, "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == json.loads((tmp_path / "r" / "summary.json").read_text())


def test_quiet_says_nothing(invoke: Invoke) -> None:
    run = replay_small(invoke, "--quiet")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
    for arguments in (["inspect", "small.csv"], ["audit", "r"]):
        run = invoke(*arguments, "--quiet")
        assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_a_file_without_permission_is_wrong_input(
    invoke: Invoke, small_jobs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not wrong usage, as an option parser that looks first would have it."""
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK)
    assert invoke("inspect", small_jobs).returncode == 0


def test_every_option_reaches_the_run(invoke: Invoke, tmp_path: Path) -> None:
    options = {
        "order": "sjf",
        "placement": "lbsgf",
        "queue": "easy",
        "model": "rar",
        "sharing": "off",
        "clock": "slot",
        "slot": 2.5,
        "kappa": 3,
        "lambda": 1.25,
        "variant": "literal",
        "seed": 11,
        "ties": "shuffle:4",
        "oversize": "drop",
        "sample": 100.0,
        "measure_from": 0.0,
        "measure_to": 1e9,
        "preempt_cost": 5.0,
        "thresholds": [10.0, 20.5],
        "within": "list",
        "interval": 30.0,
        "quantum": 45.0,
        "predict": "exact",
        "aging": 50.0,
        "estimate_factor": 1.5,
        "estimate": "run-time",
        "reservations": 7,
        "half_life": 3600.0,
        "preempt_after": 60.0,
    }
    network = {
        "intra_bandwidth": 1e11,
        "inter_bandwidth": 1e10,
        "reduce_speed": 4e11,
        "xi1": 0.75,
        "xi2": 0.001,
        "alpha": 0.1,
    }
    typed = options | {"thresholds": "10,20.5"}
    given = [part for name, value in typed.items() for part in (f"--{name.replace('_', '-')}", value)]
    given += [part for name, value in network.items() for part in (f"--{name.replace('_', '-')}", value)]
    assert replay_small(invoke, "--policy", "rand", *given, "--no-allocations").returncode == 0
    run = Outcome.read(tmp_path / "r").run
    fixed = {
        "command": "replay",
        "policy": "rand",
        "admission": False,
        "start_cost": 0.0,
        "resize_every": 300.0,
        "checkpoint_interval": 1800.0,
        "checkpoint_cost": 0.0,
        "sleep_after": math.inf,
        "wake_time": 0.0,
        "evict": False,
        "victims": "least",
        "evict_after": 0.0,
        "evict_loses": False,
        "preempt_loses": False,
        "tail": 0.5,
        "enforce_limits": False,
        "keep_unpreemptible": False,
        "interference": 0.0,
        "type_order": "fastest",
        "allocations": False,
        "request_rows": False,
        "decisions": False,
    }
    assert run["options"] == fixed | options
    assert run["cluster"]["network"] == network
    assert not (tmp_path / "r" / "allocations.parquet").exists()
    library = replay(
        tmp_path / "small.csv",
        Cluster.parse("2x8").with_network(**network),
        policy="rand",
        lambda_=1.25,
        **{name: value for name, value in options.items() if name != "lambda"},
    )
    assert Outcome.read(tmp_path / "r").jobs.equals(library.jobs)


def test_unsorted_rows_are_told_and_kept_in_the_files_order(invoke: Invoke, tmp_path: Path) -> None:
    header, *rows = SMALL_JOBS.splitlines()
    (tmp_path / "mixed.csv").write_text("\n".join([header, *reversed(rows)]) + "\n")
    run = invoke("replay", "mixed.csv", "--cluster", "2x8", "-o", "r")
    assert run.returncode == 0
    assert run.stderr.startswith("note: mixed.csv: rows are not in order of submit_time")
    assert run.stderr.count("\n") == 1
    assert Outcome.read(tmp_path / "r").jobs["job_id"].to_list() == list("gfedcba")


def test_a_setting_that_the_policy_ignores_is_told(invoke: Invoke, small_jobs: Path) -> None:
    common = ("--cluster", "2x8", "--kappa", "3", "--interval", "30", "-o")
    run = invoke("replay", small_jobs, *common, "r", "--policy", "fifo")
    assert (run.returncode, run.stderr) == (
        0,
        "note: option kappa: not used by fifo\nnote: option interval: not used by fifo\n",
    )
    run = invoke("compare", small_jobs, *common, "c", "--policy", "fifo", "--policy", "sjf-bco")
    assert (run.returncode, run.stderr) == (0, "note: option interval: not used by fifo or sjf-bco\n")
    run = invoke("replay", small_jobs, *common, "q", "--policy", "fifo", "--quiet")
    assert (run.returncode, run.stderr) == (0, "")


def test_virtual_clusters_have_a_table_of_their_own(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[[servers]]\ngpus = 8\nvc = "a"\n[[servers]]\ngpus = 8\nvc = "[b]"\n')
    (tmp_path / "j.csv").write_text("job_id,submit_time,num_gpus,duration,vc\nx,0,1,60,a\ny,0,2,60,[b]\n")
    run = invoke("replay", "j.csv", "--cluster", "c.toml", "-o", "r")
    assert (run.returncode, run.stderr) == (0, "")
    assert "virtual cluster" in run.stdout
    assert "[b]" in run.stdout


@pytest.fixture(scope="module")
def many_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that takes some seconds to replay with the placement ls."""
    rows = 1_000_000
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("many") / "many.parquet"
    pl.DataFrame(
        {
            "job_id": pl.Series(range(rows)).cast(pl.String),
            "submit_time": np.sort(rng.uniform(0, rows * 10.0, rows)),
            "num_gpus": rng.integers(1, 17, rows),
            "duration": rng.exponential(500.0, rows) + 1,
        }
    ).write_parquet(path)
    return path


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_run_and_leaves_nothing(
    tmp_path: Path, many_jobs: Path, sent: signal.Signals
) -> None:
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-m", "ringbco", "replay", many_jobs, "--cluster", "64x8"]
    # A handled signal is at its default in the child, even where a shell in the background ignores SIGINT.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [*map(str, command), "--policy", "ls", "-o", "r"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.DEVNULL,
        stderr=stderr,
    )
    signal.signal(signal.SIGINT, before)
    os.close(stderr)
    try:
        # The bar on the terminal counts jobs: the engine is at work.
        seen = b""
        while b"/1000000" not in seen:
            seen += os.read(terminal, 4096)
        process.send_signal(sent)
        assert process.wait(timeout=20) == 128 + sent
        while chunk := _read(terminal):
            seen += chunk
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
    assert b"ls on 64x8" in seen
    assert b"interrupted: nothing was written" in seen
    assert b"Traceback" not in seen
    assert list(tmp_path.iterdir()) == []


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux ends a closed terminal so
        return b""
