"""Sweeps: what is run, what is kept, what a failure or an interrupt leaves."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import sys
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import ringbco
from conftest import GRID, Invoke
from ringbco.cluster.spec import Cluster
from ringbco.errors import InputError
from ringbco.run.replay import replay
from ringbco.run.seeds import Seeds
from ringbco.sweeps.executors import ProcessExecutor, WorkerDiedError
from ringbco.sweeps.run import execute, scaled, sweep
from ringbco.sweeps.spec import read_spec
from ringbco.trace.jobs import from_frame, read_jobs

TIMES = ["engine_seconds", "total_seconds", "jobs_per_second"]
sweep_module = sys.modules["ringbco.sweeps.run"]


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's bytes and the time of its last change."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


# The runs


def test_every_row_is_what_replay_gives(spec: Path, tmp_path: Path) -> None:
    result = sweep(spec, tmp_path / "out", threads=2)
    assert (result.frame.height, result.kept, result.failed) == (6, 0, 0)
    assert pl.read_parquet(result.path).equals(result.frame)
    for row in result.frame.iter_rows(named=True):
        summary = replay(tmp_path / "small.csv", "2x8", policy=row["policy"], seed=row["seed"]).summary
        for name, value in summary.items():
            if name not in TIMES and not isinstance(value, list):
                assert row[name] == value, name
    assert result.frame["policy"].to_list() == ["fifo"] * 2 + ["sjf"] * 2 + ["sjf-bco"] * 2
    assert result.frame.columns[-4:] == [*TIMES, "error"]
    assert dict(result.frame.schema) | {
        "load": pl.Float64(),
        "kappa": pl.Int64(),
        "lambda": pl.Float64(),
        "policy": pl.String(),
        "error": pl.String(),
    } == dict(result.frame.schema)


def test_a_repeated_sweep_does_nothing(spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = sweep(spec, tmp_path / "out")
    before = state(tmp_path / "out")
    assert len(before) == 8
    monkeypatch.setattr(sweep_module, "execute", None)
    again = sweep(spec, tmp_path / "out")
    assert again.frame.equals(first.frame)
    assert again.kept == 6
    assert state(tmp_path / "out") == before


def test_an_interrupted_sweep_goes_on(spec: Path, tmp_path: Path) -> None:
    whole = sweep(spec, tmp_path / "whole").frame

    def press(done: int, _total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(spec, tmp_path / "out", threads=1, progress=press)
    part = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert part.drop(TIMES).equals(whole.head(2).drop(TIMES))
    entries: list[tuple[int, int]] = []
    result = sweep(spec, tmp_path / "out", progress=lambda done, total: entries.append((done, total)))
    assert entries == [(3, 6), (4, 6), (5, 6), (6, 6)]
    assert result.kept == 2
    assert result.frame.drop(TIMES).equals(whole.drop(TIMES))


@pytest.mark.parametrize("workers", ["one", "threads", pytest.param("processes", marks=pytest.mark.long)])
def test_each_run_is_named_when_it_begins(spec: Path, tmp_path: Path, workers: str) -> None:
    """Of several that run, the last to begin. What was kept counts as begun before."""
    write(spec, GRID.replace("seed = [0, 1]", 'queue = ["skip"]'))
    began: list[tuple[int, int, str]] = []
    pool = ProcessExecutor(2) if workers == "processes" else None

    def run(seeds: Seeds) -> None:
        threads = 1 if workers == "one" else 2
        sweep(
            spec,
            tmp_path / "out",
            seeds=seeds,
            executor=pool,
            threads=None if pool else threads,
            on_run_start=lambda *told: began.append(told),
        )

    try:
        run(Seeds())
        run(Seeds(2))
        run(Seeds(2))
    finally:
        if pool is not None:
            pool.shutdown()
    names = [f"{policy}, queue skip" for policy in ("fifo", "sjf", "sjf-bco")]
    first = [(number, 3, name) for number, name in enumerate(names, 1)]
    then = [(number, 6, f"{name}, run 2 of 2") for number, name in enumerate(names, 4)]
    if workers == "one":
        assert began == [*first, *then]
    else:
        # Two begin at once, of which the second is told; the last is told until the other one ends, too.
        assert began == [*first[1:], first[-1], *then[1:], then[-1]]


def test_a_larger_grid_does_what_is_new(spec: Path, tmp_path: Path) -> None:
    sweep(spec, tmp_path / "out")
    write(spec, GRID.replace("seed = [0, 1]", "seed = [2, 1]"))
    result = sweep(spec, tmp_path / "out")
    assert (result.frame.height, result.kept) == (6, 3)
    assert result.frame["seed"].to_list() == [2, 1] * 3
    assert len(list((tmp_path / "out" / "runs").iterdir())) == 9


def test_runs_that_come_to_the_same_are_done_once(spec: Path, tmp_path: Path) -> None:
    write(spec, GRID + '\n[[runs]]\npolicy = "sjf"\nqueue = "strict"\n')
    entries: list[tuple[int, int]] = []
    frame = sweep(spec, tmp_path / "out", progress=lambda *done: entries.append(done)).frame
    assert entries[-1] == (6, 6)
    assert frame.height == 7
    assert frame.row(6) == frame.row(2)


@pytest.mark.parametrize("change", ["trace", "version", "damage"])
def test_what_is_kept_is_kept_for_the_same_trace_and_version(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    sweep(spec, tmp_path / "out")
    kept = 0
    if change == "trace":
        with (tmp_path / "small.csv").open("a") as file:
            file.write("h,2000,1,5\n")
    elif change == "version":
        monkeypatch.setattr(ringbco, "__version__", "0.0.0")
    else:
        sorted((tmp_path / "out" / "runs").iterdir())[0].write_text('{"summ')
        kept = 5
    result = sweep(spec, tmp_path / "out")
    assert (result.kept, result.failed) == (kept, 0)
    assert result.frame["jobs"].to_list() == [8 if change == "trace" else 7] * 6


def test_a_failure_is_a_row(spec: Path, tmp_path: Path) -> None:
    write(spec, GRID + '\n[[runs]]\ncluster = "1x4"\n[[runs]]\ncluster = "1x8"\n')
    result = sweep(spec, tmp_path / "out")
    errors = result.frame["error"].to_list()
    assert [error is None for error in errors] == [True] * 6 + [False, True]
    assert errors[6].startswith("small.csv: row 2 (line 3), column num_gpus: 6: expected a job")
    assert result.failed == 1
    row = result.frame.row(6, named=True)
    assert (row["cluster"], row["gpus"], row["mean_jct"]) == ("1x4", 4, None)
    # The same input would fail in the same way: it is not tried again.
    assert sweep(spec, tmp_path / "out").kept == 8


def test_a_sweep_of_failures_only(spec: Path, tmp_path: Path) -> None:
    write(spec, GRID.replace("2x8", "1x1"))
    result = sweep(spec, tmp_path / "out")
    assert result.failed == result.frame.height == 6


class Unlucky(Executor):
    """Loses its first call, as a cluster may; the others run at once."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.calls += 1
        future: Future[Any] = Future()
        if self.calls == 1:
            future.set_exception(ConnectionError("the node is gone"))
        else:
            future.set_result(fn(*args, **kwargs))
        return future


def test_what_may_go_better_is_tried_again(spec: Path, tmp_path: Path) -> None:
    result = sweep(spec, tmp_path / "out", executor=Unlucky())
    assert result.frame["error"].to_list() == ["ConnectionError: the node is gone"] + [None] * 5
    assert (result.kept, result.failed) == (0, 1)
    again = sweep(spec, tmp_path / "out")
    assert (again.kept, again.failed) == (5, 0)


def test_a_trace_that_changed_under_the_sweep_and_a_worker_of_another_version(spec: Path) -> None:
    run = read_spec(spec).runs[0]
    other = execute(replace(run, version="0.0.0"), run.trace)
    assert other == {
        "error": f"the worker has ringbco {ringbco.__version__}, the sweep 0.0.0",
        "final": False,
    }
    moved = replace(run.trace, sha256="0" * 64)
    record = execute(run, moved)
    assert "is not the file that the sweep began with" in record["error"]
    assert record["final"] is False
    gone = execute(run, replace(moved, path="/nowhere/small.csv"))
    assert gone["error"].startswith("FileNotFoundError")


@pytest.mark.parametrize("scattered", [False, True])
def test_any_executor_will_do(spec: Path, tmp_path: Path, scattered: bool) -> None:
    traces = []

    def scatter(trace: Any) -> Any:
        traces.append(trace)
        return pickle.loads(pickle.dumps(trace))

    with ThreadPoolExecutor(2) as pool:
        result = sweep(spec, tmp_path / "out", executor=pool, scatter=scatter if scattered else None)
    assert (result.frame.height, result.failed) == (6, 0)
    assert len(traces) == scattered  # once, not once a run
    assert all(trace.table.num_jobs == 7 for trace in traces)


@pytest.mark.long
def test_a_worker_process_that_is_killed_costs_no_row(spec: Path, tmp_path: Path) -> None:
    write(spec, GRID.replace("seed = [0, 1]", "seed = [0, 1, 2, 3]"))
    pool = ProcessExecutor(2)
    killed: list[int] = []

    def kill_one(_done: int, _total: int) -> None:
        if not killed:
            killed.extend(child.pid for child in multiprocessing.active_children()[:1] if child.pid)
            os.kill(killed[0], signal.SIGKILL)

    try:
        result = sweep(spec, tmp_path / "out", executor=pool, progress=kill_one)
        assert killed[0] not in [child.pid for child in multiprocessing.active_children()]
    finally:
        pool.shutdown(cancel_futures=True)
    assert (result.frame.height, result.failed) == (12, 0)
    expected = sweep(spec, tmp_path / "threads").frame
    assert result.frame.drop(TIMES).equals(expected.drop(TIMES))


def test_a_call_that_kills_its_process_fails_alone() -> None:
    pool = ProcessExecutor(1)
    try:
        deadly, harmless = pool.submit(os._exit, 3), pool.submit(len, "abc")
        with pytest.raises(WorkerDiedError, match="died 2 times"):
            deadly.result()
        assert harmless.result() == 3
        with pytest.raises(ZeroDivisionError):
            pool.submit(divmod, 1, 0).result()
    finally:
        pool.shutdown()


def test_a_cluster_survives_a_message_at_an_odd_address() -> None:
    """Dask hands over arrays as slices of what it received, wherever they lie."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(Cluster.parse("2x8"), protocol=5, buffer_callback=buffers.append)
    odd = []
    for buffer in buffers:
        raw = buffer.raw()
        odd.append(memoryview(bytearray(b"?") + raw)[1:])
    cluster = pickle.loads(data, buffers=odd)
    assert cluster == Cluster.parse("2x8")
    assert cluster.name == "2x8"
    assert cluster.server_gpus.flags.aligned
    assert not cluster.server_gpus.flags.writeable


# The offered load


def test_load_is_met_by_moving_submissions(small_jobs: Path) -> None:
    table = read_jobs(small_jobs)
    deadlines = pl.Series("deadline", [None, *(100.0 + row for row in range(6))])
    table = from_frame(table.frame.with_columns(deadlines, submit_time=pl.col("submit_time") + 50))
    moved = scaled(table, 0.75, 16).frame
    submit = moved["submit_time"].to_numpy()
    work = (moved["num_gpus"] * moved["duration"]).sum()
    assert work / np.ptp(submit) / 16 == pytest.approx(0.75, rel=1e-12)
    assert submit[0] == 50
    before = table.frame["submit_time"].to_numpy()
    np.testing.assert_allclose((submit - 50) / np.ptp(submit), (before - 50) / np.ptp(before), rtol=1e-12)
    slack = (moved["deadline"] - moved["submit_time"]).drop_nulls()
    expected = (table.frame["deadline"] - table.frame["submit_time"]).drop_nulls()
    np.testing.assert_allclose(slack, expected, rtol=1e-9)
    assert moved["deadline"].null_count() == 1
    assert moved.drop("submit_time", "deadline").equals(table.frame.drop("submit_time", "deadline"))


def test_load_in_a_sweep(spec: Path, tmp_path: Path) -> None:
    text = GRID.replace("seed = [0, 1]", "load = [0.2, 2.0]").replace('"2x8"', '"2x8"\nmodel = "fixed"')
    frame = sweep(write(spec, text), tmp_path / "out").frame
    light, heavy = (frame.filter(pl.col("load") == load)["mean_wait"] for load in (0.2, 2.0))
    assert (heavy > light).all()
    for row in frame.iter_rows(named=True):
        table = scaled(read_jobs(tmp_path / "small.csv"), row["load"], 16)
        assert (
            row["mean_jct"] == replay(table, "2x8", policy=row["policy"], model="fixed").summary["mean_jct"]
        )


def test_virtual_clusters_split_and_pooled(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "vcs.toml").write_text("".join(f'[[servers]]\ngpus = 8\nvc = "{name}"\n' for name in "ab"))
    table = pl.read_csv(tmp_path / "small.csv").with_columns(vc=pl.Series(list("aabbabb")))
    table.write_csv(tmp_path / "small.csv")
    write(spec, GRID.replace("2x8", "vcs.toml").replace("seed = [0, 1]", 'vc = ["split", "pool"]'))
    frame = sweep(spec, tmp_path / "out").frame
    cluster = Cluster.parse(tmp_path / "vcs.toml")
    for row in frame.iter_rows(named=True):
        used = cluster.pooled() if row["vc"] == "pool" else cluster
        assert row["mean_jct"] == replay(table, used, policy=row["policy"]).summary["mean_jct"]
    assert frame["mean_jct"].n_unique() > 3


def test_load_needs_time_to_pass(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "small.csv").write_text("job_id,submit_time,num_gpus,duration\na,5,1,5\nb,5,1,5\n")
    write(spec, GRID.replace("seed = [0, 1]", "load = [0.5]"))
    errors = sweep(spec, tmp_path / "out").frame["error"]
    assert errors.unique().to_list() == [
        "small.csv: jobs submitted at more than one time, since the sweep asks for a load"
    ]


# The folder and the command


def test_a_folder_that_is_no_sweeps_is_left_alone(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(InputError, match="is no sweep's folder"):
        sweep(spec, tmp_path / "mine")
    with pytest.raises(InputError, match="is no sweep's folder"):
        sweep(spec, tmp_path / "small.csv")
    with pytest.raises(InputError, match="is not a folder"):
        sweep(spec, tmp_path / "small.csv" / "out")
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["diary.txt"]
    (tmp_path / "empty").mkdir()
    assert sweep(spec, tmp_path / "empty").frame.height == 6


def test_the_command(invoke: Invoke, spec: Path) -> None:
    write(spec, GRID + '\n[[runs]]\ncluster = "1x4"\n')
    done = invoke("sweep", spec, "-o", "out", "--threads", "2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "7 runs: 7 done now, 0 kept from before, 1 failed" in done.stdout
    assert "failed: small.csv: row 2 (line 3), column num_gpus: 6" in done.stdout
    assert done.stdout.splitlines()[-1] == str(Path("out", "runs.parquet"))
    again = invoke("sweep", spec, "-o", "out", "--json")
    assert json.loads(again.stdout) == {"runs": 7, "kept": 7, "failed": 1, "table": "out/runs.parquet"}
    quiet = invoke("sweep", spec, "-o", "out", "--quiet", "--processes", "1")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (("--threads", "2", "--processes", "2"), 2, "expected one of them at most"),
        (("--scatter",), 2, "together with --dask"),
        (("--dask", "local:0"), 2, "local:N with N >= 1"),
        (("--dask", "gopher://host"), 2, "expected tcp://HOST:PORT"),
    ],
)
def test_wrong_usage(
    invoke: Invoke, spec: Path, tmp_path: Path, options: tuple[str, ...], status: int, said: str
) -> None:
    done = invoke("sweep", spec, "-o", "out", *options)
    assert done.returncode == status
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_dask_that_is_not_installed(invoke: Invoke, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    done = invoke("sweep", spec, "-o", "out", "--dask", "local:1")
    assert done.returncode == 2
    assert "pip install 'ringbco[dask]'" in done.stderr


def test_an_interrupt_says_what_is_kept(invoke: Invoke, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add = sweep_module.Store.add

    def press(self: Any, key: str, record: Any) -> None:
        if len(self.records) == 2:
            raise KeyboardInterrupt
        add(self, key, record)

    monkeypatch.setattr(sweep_module.Store, "add", press)
    done = invoke("sweep", spec, "-o", "out", "--threads", "1")
    assert done.returncode == 130
    assert done.stderr == "interrupted: 2 runs are kept in out; the same command goes on from there\n"
    assert pl.read_parquet("out/runs.parquet").height == 2


@pytest.mark.parametrize("width", [120, 80, 40])
def test_the_table_shows_a_figure_at_any_width(
    invoke: Invoke, spec: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    more = "kappa = [4, 8]\nvariant = ['practical', 'literal']\ninter_bandwidth = [1.25e9, 1.25e10]\n"
    write(spec, GRID.replace("seed = [0, 1]\n", more) + '\n[[runs]]\ncluster = "1x4"\n')
    monkeypatch.setenv("COLUMNS", str(width))
    lines = invoke("sweep", spec, "-o", "out").stdout.splitlines()
    table = lines[: next(number for number, line in enumerate(lines) if line.startswith("failed: "))]
    assert max(map(len, table)) <= width
    assert any("jct" in line for line in table[:5])
    assert not any("…" in line for line in table)
    assert sum(line.rstrip().endswith("failed") or " failed " in line for line in table) == 1
    assert sum(f"{line} ".count(" min ") + f"{line} ".count(" s ") > 0 for line in table) == 24


def test_a_policy_that_ends_jobs_is_shown_as_written_and_beside_its_mean(
    invoke: Invoke, spec: Path, tmp_path: Path
) -> None:
    write(
        tmp_path / "mine.py",
        "import ringbco\n\n\nclass Impatient(ringbco.Policy):\n    def decide(self, state):\n"
        "        state.start(state.waiting, strict=False)\n"
        "        if state.now >= 10:\n            state.end(state.running[:1])\n",
    )
    write(spec, GRID.replace('"fifo", "sjf", "sjf-bco"', '"mine.py:Impatient", "fifo"'))
    done = invoke("sweep", spec, "-o", "out")
    assert "0 failed" in done.stdout, done.stdout
    assert str(tmp_path) not in done.stdout
    (titles, own) = (
        next(line.split() for line in done.stdout.splitlines() if word in line) for word in ("mean", "mine")
    )
    assert titles[:3] == ["mean", "jobs", "mean"]
    frame = pl.read_parquet("out/runs.parquet")
    assert frame["policy"].to_list() == ["mine.py:Impatient"] * 2 + ["fifo"] * 2
    assert not [name for name in frame.columns if name.startswith("chosen")]
    ended = frame["jobs_ended"].to_list()
    assert ended[0] == ended[1] > 0
    assert ended[2:] == [None, None]
    assert own[4] == str(ended[0])  # after the policy, the seed and two words of the mean
