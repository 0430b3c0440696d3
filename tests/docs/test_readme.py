"""README: short, its links and pictures are there, its commands run and print what stands below them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Final

import polars as pl
import pytest

import ringbco
import sample_log
from conftest import SHARED, Invoke, present
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
    for name in ("log.csv", "slurm.psv", "slurm-nodes.txt"):
        (tmp_path / "traces" / name).write_bytes((sample_log.LOG.parent / name).read_bytes())
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
        (answer,) = re.findall(r"report says: \*(.+?)\*", TEXT)
        assert answer in pl.read_parquet("sure/comparison.parquet")["sentence"].to_list()
    exec(from_python, {"__name__": "readme"})
    assert invoke("audit", "results").returncode == 0


def test_its_waits_are_those_of_the_trace() -> None:
    """Of the jobs of the picture: the bound has no wait, and completion times are nearly all run time."""
    plain = re.sub(r"[`\[]", "", TEXT)
    trace = present(SHARED / "traces" / "philly" / "6214e9.csv")
    bound = ringbco.bound(trace, "64x8").mean_jct
    assert bound == pytest.approx(pl.read_csv(trace)["duration"].mean(), abs=0.5)
    for policy in ("fifo", "sjf-bco", "gittins", "repack"):
        summary = ringbco.replay(trace, "64x8", policy=policy).summary
        wait = summary["mean_wait"] / 60
        assert any(f"{wait:.{places}f} min under {policy}" in plain for places in (0, 1))
    assert f"under `repack` it is {100 * bound / summary['mean_jct']:.0f} % run time" in TEXT
