"""The bar of runs, on what says that it is a terminal."""

from __future__ import annotations

import io
import re
import sys

import pytest

from ringbco.cli.progress import bar_of_runs


def test_the_bar_of_runs_says_which_run_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with bar_of_runs("sweep.toml") as (progress, began):
        assert progress is not None
        assert began is not None
        began(7, 30, "tiresias, seed 2")
        progress(1_500, 6_000)
    assert isinstance(sys.stderr, Terminal)
    text = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", sys.stderr.getvalue())
    assert re.search(r"run 7 of 30, tiresias, seed 2 \S+ +25%", text), text
    assert "1500" not in text
