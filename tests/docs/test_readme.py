"""README: short, its links and pictures are there, its commands run and print what stands below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import sample_log
from conftest import Invoke
from test_custom_policy_docs import blocks, check_commands
from test_packages import has

ROOT: Final = Path(__file__).parents[2]
README: Final = ROOT / "README.md"
TEXT: Final = README.read_text(encoding="utf-8")
LINKS: Final = re.findall(r"\]\((?!https?:)([^)]+)\)", TEXT)
PICTURES: Final = re.findall(r'(?:src|srcset)="([^"]+)"', TEXT)


def test_it_is_short_and_has_the_two_commands_that_set_up() -> None:
    assert len(TEXT.splitlines()) <= 120
    assert re.findall(r"^make (\w+)", TEXT, re.MULTILINE) == ["demo", "test"]


def test_its_pictures_are_there_light_and_dark_and_small() -> None:
    assert PICTURES == ["docs/images/play-dark.png", "docs/images/play.png"]
    light, dark = ((ROOT / path).read_bytes() for path in PICTURES)
    assert light != dark
    assert max(len(light), len(dark)) < 300_000


@pytest.mark.parametrize("link", sorted({*LINKS}))
def test_its_links_lead_somewhere(link: str) -> None:
    path, _, anchor = link.partition("#")
    assert has(f"../{path}", anchor)


@pytest.mark.parametrize("asked", [False, pytest.param(True, marks=[pytest.mark.long, pytest.mark.pages])])
def test_its_commands_run_in_order_and_print_what_it_says(
    asked: bool, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal of 80 columns. asked: the questions of the table too, on what the commands have made."""
    monkeypatch.setenv("COLUMNS", "80")
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "log.csv").write_bytes(sample_log.LOG.read_bytes())
    consoles = [text for kind, _, text in blocks(README) if kind == "console"]
    policy, from_python = (text for kind, _, text in blocks(README) if kind == "python")
    (tmp_path / "mine.py").write_text(policy)
    for text in consoles:
        check_commands(text, invoke)
    questions = re.findall(r"^\| [^|]+\? \| `ringbco ([^`|]+)` \|", TEXT, re.MULTILINE)
    assert len(questions) == TEXT.count("? | `")
    for question in questions if asked else []:
        run = invoke(*shlex.split(question))
        assert run.returncode == 0, run.stderr
    if asked:
        (answer,) = re.findall(r"answer is: \*(.+)\*", TEXT)
        assert answer in pl.read_parquet("sure/comparison.parquet")["sentence"].to_list()
    exec(from_python, {"__name__": "readme"})
    assert invoke("audit", "results").returncode == 0
