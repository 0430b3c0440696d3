"""However a custom policy ends: no success without a result, one line with its name, two interrupts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import ringbco
from conftest import Invoke, RunCli
from ringbco.errors import PolicyError

FORM = """\
import os, sys, ringbco
{before}
class Mine(ringbco.Policy{more}):
    {within}
    def decide(self, state):
        {decide}
        state.start(state.waiting)
"""
WRONG = {
    "exit": {"decide": "sys.exit(0)"},
    "base": {"decide": "raise BaseException('mine')"},
    "generator": {"decide": "raise GeneratorExit"},
    "exit at load": {"before": "sys.exit(0)"},
    "base at load": {"before": "raise GeneratorExit"},
    "error at load": {"before": "1 / 0"},
    "no such library": {"before": "import no_such_library"},
    "exit when made": {"within": "def __init__(self): sys.exit()"},
    "exit when copied": {"within": "def __deepcopy__(self, memo): sys.exit(0)"},
    "error when copied": {"within": "def __deepcopy__(self, memo): raise ValueError('mine')"},
    "interval": {"within": "interval = property(lambda self: sys.exit(0))"},
    "said badly": {
        "before": "class E(BaseException):\n    def __str__(self): raise ValueError",
        "decide": "raise E",
    },
    "metaclass": {
        "before": "class Meta(type(ringbco.Policy)):\n    def __call__(self): raise ValueError('mine')",
        "more": ", metaclass=Meta",
    },
    "metaclass at load": {
        "before": "class Meta(type(ringbco.Policy)):\n    def __init__(self, *rest): raise ValueError",
        "more": ", metaclass=Meta",
    },
    "metaclass that is asked": {
        "before": "class Meta(type(ringbco.Policy)):\n    def __getattribute__(self, name): sys.exit(0)",
        "more": ", metaclass=Meta",
    },
}


def text(**parts: str) -> str:
    return FORM.format(**{"before": "", "more": "", "within": "", "decide": "pass"} | parts)


@pytest.mark.parametrize("how", WRONG)
def test_a_policy_that_would_end_the_process(
    invoke: Invoke, run_cli: RunCli, small_jobs: Path, tmp_path: Path, how: str
) -> None:
    # Python asks such a class about every other object later on: it must not stay in this process.
    run = run_cli if how == "metaclass that is asked" else invoke
    (tmp_path / "mine.py").write_text(text(**WRONG[how]))
    given = (small_jobs.name, "--cluster", "2x8", "--policy", "mine.py:Mine")
    done = run("replay", *given, "-o", "r")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: policy mine.py:Mine: raised ")
    assert done.stderr.count("\n") == 1
    assert "mine.py, line " in done.stderr
    both = run("compare", *given, "--policy", "fifo", "-o", "c")
    assert (both.returncode, both.stdout, both.stderr.count("\n")) == (1, "", 1)
    assert "policy mine.py:Mine: raised " in both.stderr
    assert not (tmp_path / "r").exists()
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("where", [(), ("--processes", "1")])
@pytest.mark.parametrize("how", ["exit", "base", "os._exit"])
def test_in_a_sweep_it_is_a_lost_run(
    run_cli: RunCli, spec: Path, tmp_path: Path, where: tuple[str, ...], how: str
) -> None:
    if how == "os._exit" and not where:
        pytest.skip("a thread that ends the process ends it")
    (tmp_path / "mine.py").write_text(text(**WRONG.get(how, {"decide": "os._exit(0)"})))
    spec.write_text(
        '[base]\ntrace = "small.csv"\ncluster = "2x8"\n[grid]\npolicy = ["fifo", "mine.py:Mine"]\n'
    )
    done = run_cli("sweep", spec, "-o", "s", *where)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: 1 of 2 runs were lost (policy ")
    assert "mine.py:Mine: " in line


def test_from_python_an_exit_is_an_error_too() -> None:
    class Exits(ringbco.Policy):
        def decide(self, state: ringbco.State) -> None:
            raise SystemExit(0)

    frame = pl.DataFrame({"job_id": ["a"], "submit_time": [0.0], "num_gpus": [1], "duration": [1.0]})
    with pytest.raises(
        PolicyError, match=r"raised SystemExit: 0 \(.*test_custom_policy_ends\.py, line \d+\)"
    ):
        ringbco.replay(frame, "1x1", policy=Exits)


KEEPS = """\
while {more}:
            try:
                open("begun", "w").close()
                while True:  # an interrupt right before a long sleep would be seen after it
                    time.sleep(0.01)
            except BaseException:
                {more} = {after}
                open("kept", "w").close()
"""


@pytest.mark.parametrize(
    ("after", "at", "interrupts"),
    # A second one changes nothing: the first ends the process soon.
    [("False", "decide", 1), ("True", "decide", 1), ("True", "before", 1), ("True", "decide", 2)],
)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_a_policy_keeps_to_itself(
    small_jobs: Path, tmp_path: Path, after: str, at: str, interrupts: int, number: int
) -> None:
    code = KEEPS.format(more="more", after=after)
    loop = f"more = True\n        {code}" if at == "decide" else f"import time\nmore = True\n{_left(code)}"
    whole = text(**{at: loop}) if at == "before" else text(before="import time", decide=loop)
    (tmp_path / "mine.py").write_text(whole)
    with subprocess.Popen(
        [sys.executable, "-m", "ringbco", "replay", small_jobs.name, "--cluster", "2x8"]
        + ["--policy", "mine.py:Mine", "-o", "r"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        for file in ("begun", "kept")[:interrupts]:
            while not (tmp_path / file).exists() and process.poll() is None:
                os.sched_yield()
            process.send_signal(number)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (128 + number, "", "interrupted: nothing was written\n")
    assert not (tmp_path / "r").exists()


def _left(code: str) -> str:
    """The block eight columns further to the left."""
    return code.replace("\n        ", "\n")
