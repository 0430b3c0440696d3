"""The walk-through of docs/sources/slurm.md, from a log to what reproduces it, prints what stands there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from conftest import Invoke
from test_custom_policy_docs import blocks, check_commands

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "sources" / "slurm.md"


def test_its_commands_print_what_it_says(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shutil.copytree(ROOT / "traces", tmp_path / "traces")
    consoles = [text for kind, _, text in blocks(PAGE) if kind == "console"]
    assert len(consoles) == 3
    for text in consoles:
        check_commands(text, invoke)
    assert invoke("audit", "replayed/slurm").returncode == 0
