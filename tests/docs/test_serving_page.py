"""docs/serving.md: its serving file is one, its keys and defaults are the product's, its output is real."""

from __future__ import annotations

import re
import shlex
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Final

import pytest
from typer.testing import CliRunner

from ringbco.cli import app
from ringbco.trace.serving import (
    BatchKind,
    FileScale,
    FixedScale,
    ServiceKeys,
    ServingFile,
    TargetScale,
    TokenKind,
)

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
AZURE: Final = ROOT.parent / "shared" / "traces" / "azure-llm" / "AzureLLMInferenceTrace_conv.csv"
SHOWN: Final = dict(re.findall(r"^```\n\$ ringbco (.*)\n((?:.|\n)*?)^```", PAGE, flags=re.MULTILINE))


def command(verb: str, *also: str) -> tuple[str, str]:
    """The command line on the page that has these words, and what it prints there."""
    return next((line, text) for line, text in SHOWN.items() if {verb, *also} <= set(line.split()))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files of the page."""
    (text,) = re.findall(r'^```toml title="serving.toml"\n(.*?)^```', PAGE, re.DOTALL | re.MULTILINE)
    (tmp_path / "serving.toml").write_text(text)
    chat = text.split("[search]")[0]
    (tmp_path / "chat.toml").write_text(chat)
    (tmp_path / "typo.toml").write_text(chat.replace("step = 0", "stpe = 0", 1))
    (tmp_path / "search.csv").write_text("service,time,replicas\nsearch,0,2\n")
    (tmp_path / "requests.csv").write_text("arrival,input_tokens,output_tokens\n0,1,1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    return tmp_path


def test_the_serving_file_of_the_page(folder: Path) -> None:
    chat, search = ServingFile.read(folder / "serving.toml").services
    assert (chat.name, type(chat.kind), type(chat.scale)) == ("chat", TokenKind, TargetScale)
    assert (search.name, type(search.kind), type(search.scale)) == ("search", BatchKind, FileScale)


def test_the_page_lists_every_key_with_its_default() -> None:
    listed: dict[str, str] = {}
    for row in re.findall(r"^\| (?:`\"\w+\"`)? ?(?:\| )?([\w, ]+) \| ([\w.]*) ?\| ", PAGE, re.MULTILINE):
        listed |= dict.fromkeys(row[0].split(", "), row[1])
    for kind in (ServiceKeys, TokenKind, BatchKind, FixedScale, FileScale, TargetScale):
        for key in fields(kind):
            if key.name in ("name", "table"):
                continue
            default = "" if key.default is MISSING else "none" if key.default is None else f"{key.default:g}"
            assert listed.get(key.name) == default, key.name


def printed(line: str) -> list[str]:
    ran = CliRunner().invoke(app, shlex.split(line))
    text = ran.stdout if ran.exit_code == 0 else f"error: {ran.exception}"
    return filled(text)


def filled(text: str) -> list[str]:
    """The lines that are not blank."""
    return [row.rstrip() for row in text.split("\n") if row.strip()]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("verb", [("generate",), ("inspect", "typo.toml")])
def test_what_the_page_shows_is_what_is_printed(verb: tuple[str, ...]) -> None:
    line, text = command(*verb)
    assert printed(line) == filled(text)


def test_what_the_page_shows_of_azures_trace(folder: Path) -> None:
    """The page leaves rows out where it has three dots."""
    if not AZURE.exists():
        pytest.skip("Azure's trace is not here")
    line, text = command("inspect", AZURE.name)
    (folder / AZURE.name).symlink_to(AZURE)
    rows = printed(line)
    for part in text.split("...\n"):
        wanted = filled(part)
        assert any(rows[at : at + len(wanted)] == wanted for at in range(len(rows))), part
