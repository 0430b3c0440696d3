"""The judge: genuine results are what it makes of their books, and it has nothing of what it judges."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import judge
import physics
import ringbco
from cases.judged import UNJUDGED, differences, judged
from cases.run import meet
from ringbco.trace.jobs import as_table

pytestmark = pytest.mark.filterwarnings("ignore::ringbco.errors.RingbcoWarning")

ROOM = Path(judge.__file__).parent


ONCE = (130, 1110, 1169, 1466, 1531, 1418, 2204, 24967, 31077, 33044, 43600, 63088)
"""Cases of which it once said otherwise: no length, literal lbsgf, rungs, who woke a server."""


@pytest.mark.parametrize("seed", ONCE)
def test_what_it_once_got_wrong(seed: int) -> None:
    """Of the first cases test_cases says the same: the audit finds all in which the judge differs."""
    met = meet(seed, check=False)
    assert met.seen.outcome is not None, met.seen.refusal or met.seen.faults
    found = list(differences(met.seen.outcome, as_table(met.seen.case.frame())))
    assert found == [], f"case {seed}, of {', '.join(met.features)}\n\n{met.seen.case.script()}"


@pytest.mark.parametrize("dispatch", ["idle", "reserve"])
@pytest.mark.parametrize("policy", ["sjf-bco", "ls", "rand"])
def test_plans_are_judged(policy: str, dispatch: str) -> None:
    jobs = ringbco.generate("paper", 25, 1)
    outcome = ringbco.plan(jobs, "4x8", policy=policy, dispatch=dispatch)
    assert list(differences(outcome, jobs)) == []


def test_it_imports_plain_python_alone() -> None:
    allowed = {*sys.stdlib_module_names, "judge", "ringbco.checker", "ringbco.errors"}
    for path in (*ROOM.glob("*.py"), *Path(physics.__file__).parent.glob("*.py")):
        if path.parent != ROOM:
            allowed.add("physics")
        for name in _imported(ast.parse(path.read_text(encoding="utf-8"))):
            first, _, rest = name.partition(".")
            assert {first, f"{first}.{rest.partition('.')[0]}"} & allowed, f"{path.name} imports {name}"


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module or ""


@pytest.fixture(scope="module")
def several() -> list[tuple[ringbco.Outcome, Any]]:
    """Results that together have most columns and figures. Far from zero times are only so fine."""
    cases = (meet(seed, check=False).seen for seed in range(40))
    return [
        (seen.outcome, seen.case.frame())
        for seen in cases
        if seen.outcome is not None and not seen.case.epoch
    ]


BOOK = {
    "jobs": (),
    "stays_written": (
        "job_id",
        "stay",
        "start_time",
        "end_time",
        "ended",
        "by_job",
        "by_service",
        "by_server",
    ),
    "timeline": (),
    "searches": (),
    "servers": ("by",),
}
"""The tables that follow from the book, with what of them is the book."""


@pytest.mark.parametrize("name", BOOK)
def test_no_value_of_a_column_may_be_another(name: str, several: list[tuple[ringbco.Outcome, Any]]) -> None:
    tried = set()
    for outcome, jobs in several:
        frame = getattr(outcome, name)
        for column in () if frame is None or not frame.height else frame.columns:
            if column in BOOK[name] or column in tried:
                continue
            changed = _changed(frame, column)
            if changed is None:
                continue
            found = list(differences(replace(outcome, **{name: changed}), as_table(jobs)))
            told = "stays" if name == "stays_written" else name
            if (column, told) in LENIENT and not found:
                continue
            tried.add(column)
            assert any(what == f"{told} {column}" for what, _ in found), f"{told} {column}"
    assert len(tried) >= {"jobs": 35, "stays_written": 12, "timeline": 8, "searches": 9, "servers": 3}[name]


LENIENT = {("work", "stays"), ("max_contention", "jobs")}
"""Columns that are not compared in every case."""


def _changed(frame: pl.DataFrame, column: str) -> pl.DataFrame | None:
    """The frame with another value in the first row of a column; None where there is none to change."""
    values, dtype = frame[column].to_list(), frame[column].dtype
    if values[0] is None:
        return None
    if dtype == pl.String:
        values[0] += "?"
    elif dtype == pl.Boolean:
        values[0] = not values[0]
    else:
        values[0] = values[0] + 1 if dtype.is_integer() else values[0] * 1.001 + 0.1
        if dtype == pl.Float32 or column.startswith("wait"):
            values[0] += 1e-4 * float(frame["jct" if "jct" in frame.columns else "end_time"][0])
    return frame.with_columns(pl.Series(column, values, dtype=dtype))


def test_no_figure_may_be_another(several: list[tuple[ringbco.Outcome, Any]]) -> None:
    tried = set()
    for outcome, jobs in several:
        table = as_table(jobs)
        for key, value in outcome.summary.items():
            if key in (*UNJUDGED, "jobs_refused", "jobs_ended", *tried) or not isinstance(value, int | float):
                continue
            tried.add(key)
            other = value + 1 if isinstance(value, int) else value * 1.001 + 0.1
            found = list(differences(replace(outcome, summary={**outcome.summary, key: other}), table))
            assert [what for what, _ in found] == [key]
    assert len(tried) > 45


@pytest.mark.parametrize("model", ["fixed", "rar"])
@pytest.mark.parametrize("clock", ["continuous", "slot"])
@pytest.mark.parametrize("later", [-3.0, 3.0])
def test_a_job_that_finishes_at_another_time(model: str, clock: str, later: float) -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_time": [0.0, 0.0], "num_gpus": [1, 1]})
    jobs = jobs.with_columns(duration=pl.Series([10.5, 20.0]))
    outcome = ringbco.replay(jobs, "1x2", policy="fifo", model=model, clock=clock, slot=1.0)
    _, found = judged(outcome, as_table(jobs))
    assert {job: abs(off) < 1e-9 for job, off in found.off.items()} == {0: True, 1: True}
    finish = outcome.jobs["finish_time"].to_list()
    moved = outcome.jobs.with_columns(finish_time=pl.Series([finish[0], finish[1] + later]))
    given, found = judged(replace(outcome, jobs=moved), as_table(jobs))
    whole, alone = (given.jobs.duration if model == "fixed" else given.jobs.iterations)[1], finish[1]
    assert found.off[1] == pytest.approx(later * whole / alone, rel=0.5)  # the last slot had room


@pytest.mark.parametrize("later", [-1, 0, 1])
def test_a_slot_more_or_less_is_told(later: int) -> None:
    # 21 s in slots of 0.7 s take 31: the quotient is a little more than 30.
    jobs = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [21.0]})
    outcome = ringbco.replay(jobs, "1x1", policy="fifo", model="fixed", clock="slot", slot=0.7)
    assert outcome.jobs["finish_time"].to_list() == [31 * 0.7]
    moved = outcome.jobs.with_columns(finish_time=pl.lit((31 + later) * 0.7))
    _, found = judged(replace(outcome, jobs=moved), as_table(jobs))
    assert (found.off[0] == 0.0) == (later == 0)
