"""Traces and workloads that are made once for all processes of a sweep."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from conftest import GRID
from ringbco.run.replay import replay
from ringbco.sweeps import run as sweep_module
from ringbco.sweeps.executors import ProcessExecutor
from ringbco.sweeps.mapped import Mapped, Maps
from ringbco.sweeps.objects import Trace
from ringbco.sweeps.run import _filled, execute, sweep
from ringbco.sweeps.spec import Spec, read_spec

TIMES = ["engine_seconds", "total_seconds", "jobs_per_second"]
ONE_SEED = GRID.replace("seed = [0, 1]", "seed = [0]")


def filled(spec: Path, text: str = ONE_SEED) -> tuple[Spec, Trace]:
    """The specification, and its trace as it travels."""
    spec.write_text(text)
    read = read_spec(spec)
    return read, _filled(read.runs[0].trace, read.runs)


def test_a_trace_comes_out_of_its_file_as_it_went_in(spec: Path) -> None:
    _, trace = filled(spec)
    with Maps() as maps:
        mapped = maps(trace)
        assert isinstance(mapped, Mapped)
        there = mapped.trace()
        assert mapped.trace() is there
    assert not os.path.exists(mapped.path)
    assert trace.table is not None
    assert there.table is not None
    # The columns are the file's, which stays for as long as they do.
    assert there.table.frame.equals(trace.table.frame)
    assert {column.n_chunks() for column in there.table.frame.get_columns()} == {1}
    ((key, ready),), (before,) = there.ready.items(), trace.ready.values()
    assert [key] == list(trace.ready)
    assert ready.table is there.table
    assert not ready.columns["iterations"].flags.writeable
    assert ready.profiled.ideal_run_time.tolist() == before.profiled.ideal_run_time.tolist()
    outcomes = [replay(one.table, one.cluster, workload=one) for one in (ready, before)]
    assert outcomes[0].jobs.equals(outcomes[1].jobs)


def test_runs_resolve_nothing_that_came_with_their_trace(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, trace = filled(spec)

    def resolve(*_: Any, **__: Any) -> Any:
        raise AssertionError("the workload was there")

    monkeypatch.setattr(sweep_module, "_workload", resolve)
    records = [execute(run, trace) for run in read.runs]
    assert len(records) == 3
    assert not any("error" in record for record in records)


@pytest.mark.parametrize(
    ("text", "ready"),
    [
        (GRID, 2),  # one a seed
        (GRID.replace("seed = [0, 1]", "seed = [0, 1, 2, 3, 4]"), 4),  # not so many that they fill a memory
        (ONE_SEED.replace("[grid]", "[grid]\nload = [0.5]"), 1),
        (GRID.replace('policy = ["fifo", "sjf", "sjf-bco"]', 'policy = ["fifo"]'), 0),  # nobody shares them
    ],
)
def test_few_workloads_travel(spec: Path, text: str, ready: int) -> None:
    assert len(filled(spec, text)[1].ready) == ready


def test_processes_read_no_trace(spec: Path, tmp_path: Path) -> None:
    spec.write_text(ONE_SEED)
    expected = sweep(spec, tmp_path / "threads").frame
    pool = ProcessExecutor(1)

    def scatter(trace: Trace) -> Mapped | Trace:
        (tmp_path / "small.csv").unlink()
        return maps(trace)

    with Maps() as maps, pool:
        result = sweep(spec, tmp_path / "out", executor=pool, scatter=scatter).frame
    assert result.drop(TIMES).equals(expected.drop(TIMES))


def test_a_trace_that_cannot_be_mapped_travels_itself(spec: Path) -> None:
    _, trace = filled(spec)
    with Maps() as maps:
        os.rmdir(maps._folder)
        assert maps(trace) is trace
        os.mkdir(maps._folder)


def test_runs_of_many_workloads_take_turns_by_workload(spec: Path) -> None:
    for seeds, together in (([0, 1], False), ([0, 1, 2, 3, 4], True)):
        spec.write_text(GRID.replace("seed = [0, 1]", f"seed = {seeds}"))
        runs = sweep_module._in_turn(read_spec(spec).runs)
        turns = [run.settings["seed"] for run in runs]
        assert turns == (sorted(3 * seeds) if together else 3 * seeds)
