"""How far long work is: a bar on what says that it is a terminal, lines elsewhere."""

from __future__ import annotations

import io
import re
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import Invoke
from ringbco.cli import progress as module
from ringbco.cli.progress import Lines, Progress, progress_bar, progress_of_runs

NOON = datetime(2026, 11, 29, 12)


class Clock:
    """A clock that goes on when it is told."""

    def __init__(self) -> None:
        self.passed = 0.0

    def __call__(self) -> float:
        return 1_000.0 + self.passed

    def now(self) -> datetime:
        return NOON + timedelta(seconds=self.passed)

    def lines(self, unit: str | None = None) -> Lines:
        return Lines("it", unit, clock=self, now=self.now)


def test_the_bar_of_runs_says_which_run_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(module, "EVERY", 0.001)
    with progress_of_runs("sweep.toml") as progress:
        progress.began(7, 30, "tiresias, seed 2")
        progress.show(1_500, 6_000)
        progress.ended(6, 30)
        time.sleep(0.05)
    assert isinstance(sys.stderr, Terminal)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", sys.stderr.getvalue())
    assert re.search(r"run 7 of 30, tiresias, seed 2 \S+ +25 %", text), text
    assert "1500" not in text
    assert "runs done" not in text


def test_a_line_says_runs_done_rate_and_expected_end() -> None:
    clock = Clock()
    lines = clock.lines()
    clock.passed = 30.0
    assert lines.line() == "it: at work for 30.0 s"
    lines.began(2, 36, "fifo")
    assert lines.line() == "it: 0 of 36 runs done in 30.0 s"
    # In compare the jobs of the runs under way count, too.
    lines.show(600, 36_000)
    assert lines.line() == (
        "it: 0 of 36 runs done, 1.2 runs/min, expected end 2026-11-29 12:30:00 (in 29.5 min)"
    )
    clock.passed = 90.0
    lines.show(9_000, 36_000)
    lines.ended(8, 36)
    assert lines.line() == (
        "it: 8 of 36 runs done, 6 runs/min, expected end 2026-11-29 12:06:00 (in 4.5 min)"
    )


def test_runs_from_before_count_as_done_and_not_for_the_rate() -> None:
    clock = Clock()
    lines = clock.lines()
    lines.show(30, 36)
    lines.ended(30, 36, 30)
    clock.passed = 60.0
    assert lines.line() == "it: 30 of 36 runs done in 60.0 s"
    lines.show(32, 36)
    lines.ended(32, 36, 30)
    assert lines.line() == (
        "it: 32 of 36 runs done, 2 runs/min, expected end 2026-11-29 12:03:00 (in 2.0 min)"
    )


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        (
            "jobs",
            "it: 250,000 of 1,000,000 jobs done, 25,000 jobs/s, expected end 2026-11-29 12:00:40 (in 30.0 s)",
        ),
        ("%", "it: 25 % done, expected end 2026-11-29 12:00:40 (in 30.0 s)"),
    ],
)
def test_other_work_is_counted_in_its_unit(unit: str, said: str) -> None:
    clock = Clock()
    lines = clock.lines(unit)
    clock.passed = 10.0
    lines.show(250_000, 1_000_000)
    assert lines.line() == said


@given(
    total=st.integers(1, 10_000),
    before=st.integers(0, 9_999),
    a_run=st.floats(0.01, 10_000.0),
    done=st.integers(1, 10_000),
)
def test_of_even_work_the_expected_end_is_the_end(total: int, before: int, a_run: float, done: int) -> None:
    before %= total
    done = before + 1 + done % (total - before)
    clock = Clock()
    lines = clock.lines()
    clock.passed = (done - before) * a_run
    lines.show(done, total)
    lines.ended(done, total, before)
    told = re.search(r"expected end (.{19})", lines.line())
    assert told is not None
    end = NOON + timedelta(seconds=(total - before) * a_run)
    assert abs((datetime.fromisoformat(told[1]) - end).total_seconds()) <= 1.001
    assert f"{done:,} of {total:,} runs done, " in lines.line()


@pytest.mark.parametrize("verb", ["compare", "sweep"])
def test_off_a_terminal_lines_come_on_their_own(
    invoke: Invoke, small_jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setattr(module, "EVERY", 0.001)
    (tmp_path / "s.toml").write_text('[base]\ntrace = "small.csv"\ncluster = "2x8"\n[grid]\nseed = [1, 2]\n')
    given = {
        "compare": ("compare", small_jobs, "--cluster", "2x8", "--policy", "fifo", "--policy", "sjf"),
        "sweep": ("sweep", "s.toml"),
    }[verb]
    done = invoke(*given, "-o", "a", "--json")
    assert done.returncode == 0
    assert done.stdout.startswith("{")
    lines = done.stderr.splitlines()
    of = "12" if verb == "compare" else "2"
    name = "small.csv on 2x8" if verb == "compare" else "s.toml"
    assert lines
    assert all(line.startswith(f"{name}: ") for line in lines)
    assert any(f" of {of} runs done" in line for line in lines)
    assert invoke(*given, "-o", "b", "--quiet").stderr == ""
    # A run of a few seconds says nothing.
    monkeypatch.setattr(module, "EVERY", 30.0)
    assert invoke(*given, "-o", "c").stderr == ""


def test_a_line_comes_while_the_work_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(module, "EVERY", 0.01)
    with progress_bar("fifo on 2x8") as show:
        assert show is not None
        show(3, 7)
        deadline = time.monotonic() + 30.0
        while "3 of 7 jobs done" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    said = stream.getvalue()
    assert said.startswith("fifo on 2x8: ")
    time.sleep(0.05)
    assert stream.getvalue() == said


def test_nobody_who_listens_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    monkeypatch.setattr(module, "EVERY", 0.001)
    with progress_of_runs("it") as progress:
        time.sleep(0.05)
        progress.show(1, 2)


def test_quiet_work_shows_nothing() -> None:
    with progress_bar("it", quiet=True) as show, progress_of_runs("it", quiet=True) as runs:
        assert show is None
        assert type(runs) is Progress
