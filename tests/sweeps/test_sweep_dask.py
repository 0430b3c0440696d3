"""Sweeps on Dask: a real scheduler and worker processes on loopback."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import IO

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from conftest import Invoke, RunCli
from ringbco.sweeps.executors import DaskExecutor, dask_executor
from ringbco.sweeps.run import execute, sweep
from ringbco.sweeps.spec import read_spec
from ringbco.trace.synthetic import generate

TIMES = ["engine_seconds", "total_seconds", "jobs_per_second"]
SPEC = """\
[base]
trace = "jobs.parquet"
cluster = "32x8"

[grid]
policy = ["fifo", "sjf", "sjf-bco"]
seed = [0, 1, 2, 3]
"""


class Dask:
    """A scheduler and workers, each a process of this test's own."""

    def __init__(self, stack: ExitStack, folder: Path, workers: int) -> None:
        self._stack = stack
        self._folder = folder
        self.scheduler = scheduler = self._start(
            "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"
        )
        self.address = self._said(scheduler, r"Scheduler at:\s+(tcp://\S+)")
        # Without a nanny: what is killed stays dead.
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(folder))
        self.workers = [self._start("worker", self.address, *options) for _ in range(workers)]
        self.worker_addresses = [
            self._said(worker, r"Start worker at:\s+(tcp://\S+)") for worker in self.workers
        ]
        for worker in self.workers:
            self._said(worker, r"(Registered to)")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._stack.callback(self._end, process)
        return process

    @staticmethod
    def _end(process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()

    @staticmethod
    def _said(process: subprocess.Popen[str], pattern: str) -> str:
        """Reads the process's log up to a line that matches, and returns what it names."""
        stream: IO[str] | None = process.stderr
        assert stream is not None
        read = []
        for line in stream:
            result = re.search(pattern, line)
            if result:
                return result[1]
            read.append(line)
        raise AssertionError("".join(read))


@pytest.fixture
def dask(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Dask]:
    with ExitStack() as stack:
        yield Dask(stack, tmp_path, getattr(request, "param", 2))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    generate("philly", 4_000, 1, gpus=256, load=1.2).frame.write_parquet(tmp_path / "jobs.parquet")
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


@pytest.mark.long
@pytest.mark.parametrize("dask", [3], indirect=True)
def test_all_rows_arrive_though_a_worker_is_killed(dask: Dask, spec: Path, tmp_path: Path) -> None:
    """Twice on one cluster, the job table on the disk and then scattered."""
    expected = sweep(spec, tmp_path / "threads").frame
    for killed, scatter in enumerate((False, True)):
        result = losing_a_worker(dask, spec, tmp_path / f"out-{killed}", killed, scatter)
        assert_frame_equal(result.drop(TIMES), expected.drop(TIMES), check_exact=True)


def losing_a_worker(dask: Dask, spec: Path, out: Path, killed: int, scatter: bool) -> pl.DataFrame:
    """The rows of a sweep of which one worker is killed when the first run is done."""
    seen: list[int] = []
    lost: list[str] = []

    def kill_one(done: int, _total: int) -> None:
        seen.append(done)
        if done == 1:
            lost.extend(client.processing()[dask.worker_addresses[killed]])
            os.kill(dask.workers[killed].pid, signal.SIGKILL)

    with dask_executor(dask.address, scatter=scatter) as (executor, travel):
        assert isinstance(executor, DaskExecutor)
        client = executor.client
        assert len(client.scheduler_info()["workers"]) == len(dask.workers) - killed
        result = sweep(spec, out, executor=executor, scatter=travel, progress=kill_one)
        assert lost  # runs that it had been given and took along
        assert dask.workers[killed].wait(timeout=60) == -signal.SIGKILL
        assert all(worker.poll() is None for worker in dask.workers[killed + 1 :])
    assert seen == list(range(1, 13))
    assert (result.frame.height, result.failed) == (12, 0)
    return result.frame


@pytest.mark.long
def test_a_scheduler_that_dies_is_told_in_one_line(
    dask: Dask, spec: Path, tmp_path: Path, run_cli: RunCli, invoke: Invoke
) -> None:
    watch = Thread(target=_kill_after_first, args=(tmp_path / "out" / "runs", dask.scheduler))
    watch.start()
    done = run_cli("sweep", spec, "-o", "out", "--dask", dask.address, "--quiet")
    watch.join()
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: \d+ of 12 runs were lost \(the executor gave the run up.*\); the others are kept in out.*\n",
        done.stderr,
    )
    frame = pl.read_parquet(tmp_path / "out" / "runs.parquet")
    assert frame["error"].is_not_null().sum() == 12 - len(list((tmp_path / "out" / "runs").iterdir()))
    again = invoke("sweep", spec, "-o", "out", "--quiet")
    assert (again.returncode, again.stderr) == (0, "")
    assert pl.read_parquet(tmp_path / "out" / "runs.parquet")["error"].null_count() == 12


def _kill_after_first(runs: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        if runs.is_dir() and any(runs.iterdir()):
            process.kill()
        Event().wait(0.001)


OWN = """\
import numpy as np
import ringbco

class Largest(ringbco.KeyPolicy):
    def key(self, state, rows):
        return -state.jobs.num_gpus[rows].astype(np.float64)
"""


@pytest.mark.long
def test_a_policy_travels_as_its_files_text(dask: Dask, tmp_path: Path) -> None:
    """The file is gone before a worker could read it, and none of them leaves one."""
    generate("philly", 500, 1, gpus=32, load=1.2).frame.write_parquet(tmp_path / "jobs.parquet")
    (tmp_path / "here").mkdir()
    file = tmp_path / "here" / "mine.py"
    file.write_text(OWN)
    (tmp_path / "spec.toml").write_text(
        SPEC.replace('"sjf", "sjf-bco"', '"here/mine.py:Largest"').replace("32x8", "1x8")
    )
    read = read_spec(tmp_path / "spec.toml")
    keys = {run.key for run in read.runs}
    before = sweep(read, tmp_path / "threads").frame
    file.unlink()
    with dask_executor(dask.address, scatter=False) as (executor, _):
        result = sweep(read, tmp_path / "out", executor=executor)
    assert (result.frame.height, result.failed) == (8, 0)
    assert_frame_equal(result.frame.drop(TIMES), before.drop(TIMES), check_exact=True)
    assert before["mean_jct"].n_unique() > 4  # not all of them fifo
    assert not list(tmp_path.rglob("*mine*"))
    # Its hash is in the key: another text is another run.
    file.write_text(OWN.replace("-state", "state"))
    assert len(keys & {run.key for run in read_spec(tmp_path / "spec.toml").runs}) == 4


def test_a_policy_that_is_another_on_the_worker_is_not_run(tmp_path: Path, spec: Path) -> None:
    """As where it is imported, and the worker has another version of its module; or has none."""
    (tmp_path / "mine.py").write_text(OWN)
    run = next(iter(read_spec({"base": {"trace": str(tmp_path / "jobs.parquet"), "cluster": "32x8",
                                        "policy": f"{tmp_path}/mine.py:Largest"}}).runs))  # fmt: skip
    assert run.custom is not None
    assert "summary" in execute(run, run.trace)
    for lacking, said in (
        ({"sha256": "0" * 64}, "the worker has another file of policy"),
        ({"name": "no.such.module:Largest", "text": None}, "the worker has no such policy: .*no.such"),
        ({"text": b"import no_such_package"}, "the worker has no such policy: .*no_such_package"),
    ):
        record = execute(replace(run, custom=replace(run.custom, **lacking)), run.trace)
        assert re.match(said, record["error"])
        assert record["final"] is False


@pytest.mark.long
def test_workers_of_this_machine(invoke: Invoke, spec: Path) -> None:
    done = invoke("sweep", spec, "-o", "out", "--dask", "local:2", "--scatter", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert pl.read_parquet("out/runs.parquet")["error"].null_count() == 12


@pytest.mark.parametrize(
    ("address", "status", "said"),
    [
        ("tcp://127.0.0.1:1", 1, "no scheduler answers"),
        ("tcp://127.0.0.1", 1, "missing port"),
        ("old.json", 1, "no scheduler answers"),
        ("bad.json", 2, "is no scheduler file"),
        ("none.json", 2, "No such file"),
    ],
)
def test_nobody_answers(
    invoke: Invoke, spec: Path, monkeypatch: pytest.MonkeyPatch, address: str, status: int, said: str
) -> None:
    monkeypatch.setattr(sys.modules["ringbco.sweeps.executors"], "_PATIENCE", "200ms")
    Path("old.json").write_text('{"address": "tcp://127.0.0.1:1"}')
    Path("bad.json").write_text("{}")
    done = invoke("sweep", spec, "-o", "out", "--dask", address)
    assert done.returncode == status
    assert f"option dask: {address}: " in done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not Path("out").exists()
