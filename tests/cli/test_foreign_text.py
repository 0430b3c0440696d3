"""Names, values and reasons of others are text: no markup, no link, no order to the terminal."""

from __future__ import annotations

import ast
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from conftest import SMALL_JOBS, Invoke
from ringbco import read_jobs
from ringbco.io.console import Console
from ringbco.sources.account import Account

PACKAGE = Path(__file__).parents[2] / "python" / "ringbco"
LINK = "\x1b]8;;http://x.example\x07here\x1b]8;;\x07"
NASTY = f"[/x][link=http://x.example]:smile:{LINK}\r\x9b2J"
SHOWN = r"[/x][link=http://x.example]:smile:\x1b]8;;http://x.example\x07here\x1b]8;;\x07 \x9b2J"
CLUSTER = """\
[network]
inter_bandwidth = 1.25e9
[[servers]]
count = 2
gpus = 8
gpu_type = {name}
vc = {name}
[gpu_types.{name}]
speed = 2.0
"""


def plain(text: str) -> bool:
    return all(map(str.isprintable, text.split("\n")))


@pytest.fixture
def nasty(invoke: Invoke, tmp_path: Path) -> Path:
    """A job table whose texts, and whose account, are what they should not be; and its cluster."""
    account = {"unit": NASTY, "rows_read": 8, "rows_kept": 7, "entries": [["dropped", NASTY, 1, 2]]}
    frame = read_jobs(_written(tmp_path / "small.csv", SMALL_JOBS)).frame
    frame = frame.with_columns(
        job_id=pl.concat_str(pl.lit(NASTY), "job_id"),
        **{name: pl.lit(NASTY) for name in ("user", "vc", "gpu_type", "recorded_on", "model", "status")},
    )
    path = tmp_path / "[" / "x]:smile:.parquet"
    path.parent.mkdir()
    frame.write_parquet(path, metadata={"ringbco.account": json.dumps(account), "ringbco.source": NASTY})
    name = json.dumps(NASTY).replace("\\r", "\\u000d").replace("\x9b", "\\u009b")
    _written(tmp_path / "c[/x].toml", CLUSTER.format(name=name))
    return path.relative_to(tmp_path)


def _written(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.long
def test_every_command_prints_text_as_text(invoke: Invoke, nasty: Path, tmp_path: Path) -> None:
    on = ("--cluster", "c[/x].toml")
    commands: list[tuple[object, ...]] = [
        ("inspect", nasty, *on, "--png", "[/x].png"),
        ("replay", nasty, *on, "-o", "[/r]"),
        ("replay", "--again", "[/r]"),
        ("bound", nasty, *on),
        ("compare", nasty, *on, "--policy", "fifo", "--policy", "sjf", "-o", "[/c]"),
        ("audit", "[/r]"),
        ("timeline", "[/r]", "-o", "[/x].json"),
        ("report", "[/r]", "-o", "[/x].html"),
        ("profile", nasty, "-o", "[/x]p.parquet"),
    ]
    entries = []
    for command in commands:
        done = invoke(*command)
        assert (done.returncode, plain(done.stdout + done.stderr)) == (0, True), (command, done)
        entries.append(done.stdout)
    assert r"[/x][link=http://x.example]:smile:\x1b]8;;" in entries[0].replace("\n", "")
    assert "[/x]:smile:.parquet" in entries[2]
    page = (tmp_path / "[" / "x].html").read_text().replace("\t", "").replace("\N{NO-BREAK SPACE}", " ")
    assert {char for char in page if not char.isprintable()} <= {"\n"}


def test_what_is_refused_is_text_too(invoke: Invoke, nasty: Path, tmp_path: Path) -> None:
    assert invoke("replay", nasty, "--cluster", "c[/x].toml", "-o", "r", "-q").returncode == 0
    record = tmp_path / "r" / "run.toml"
    text = record.read_text().replace('policy = "sjf-bco"', f"policy = {json.dumps(NASTY)}")
    record.write_text(text.replace("\x9b", "\\u009b"))
    for command in (
        ("replay", "--again", "r"),
        ("audit", "r"),
        ("replay", f"{NASTY}.csv", "--cluster", "2x8", "-o", "x"),
        ("inspect", "small.csv", "--shape", NASTY),
        ("replay", "small.csv", "--cluster", "2x8", "--policy", NASTY, "-o", "x"),
        ("replay", "small.csv", "--cluster", "2x8", "--kappa", NASTY, "-o", "x"),
        ("sweep", f"{NASTY}.toml", "-o", "x"),
    ):
        done = invoke(*command)
        assert done.returncode != 0
        assert plain(done.stdout + done.stderr), done


@pytest.mark.parametrize(
    "command",
    [
        ("replay", "small.csv", "--cluster", "c[/x].toml", "-o", "[/r]"),
        ("convert", "csv", "[/x].csv", "-o", "[/x].parquet"),
        ("sweep", "[/x].toml", "-o", "[/s]"),
    ],
)
def test_on_a_terminal(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "[").mkdir()
    for name in ("small.csv", "[/x].csv"):
        _written(tmp_path / name, SMALL_JOBS)
    _written(tmp_path / "c[/x].toml", "[[servers]]\ncount = 2\ngpus = 8\n")
    _written(tmp_path / "[/x].toml", '[base]\ntrace = "../small.csv"\ncluster = "../c[/x].toml"\n')
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [sys.executable, "-m", "ringbco", *command],
        cwd=tmp_path,
        env=environment,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        told = b""
        try:
            while part := os.read(ours, 4096):
                told += part
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0, told
    assert b"Error" not in told
    assert b"\x1b]8" not in told


def test_an_account_that_is_none(nasty: Path) -> None:
    whole = {"unit": "jobs", "rows_read": 2, "rows_kept": 1, "entries": [["dropped", "why", 1, 1]]}

    def read(**changed: object) -> Account | None:
        return Account.from_metadata({"ringbco.account": json.dumps(whole | changed)})

    assert read() is not None
    for entry in (["gone", "why", 1, 1], ["dropped", 5, 1, 1], ["dropped", "why", 1.0, 1], ["dropped"]):
        assert read(entries=[entry]) is None
    assert read(unit=None) is None
    assert read(rows_read=True, entries=[]) is None
    assert read(rows_read=2, rows_kept=3, entries=[["dropped", "why", -1, 1]]) is None
    assert Account.from_metadata({"ringbco.account": "[" * 100_000}) is None


def test_a_table_of_an_account_may_be_printed_by_anybody(nasty: Path) -> None:
    from rich.console import Console as Theirs

    account = Account.from_metadata(read_jobs(nasty).metadata)
    assert account is not None
    console = Theirs(width=200)
    with console.capture() as shown:
        console.print(account.to_table())
    assert "[/x][link=http://x.example]:smile:" in shown.get()


def test_a_console_shows_names_of_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.text import Text

    Console().print(NASTY, soft_wrap=True)
    assert capsys.readouterr().out == f"{SHOWN}\n"
    Console().print(Text(f"a {NASTY}"), soft_wrap=True)
    assert plain(capsys.readouterr().out)


def test_one_way_to_print() -> None:
    """Neither `print` nor the library's console is used beside what shows text as text."""
    result = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if where.startswith("dev/") or where in ("io/terminal.py", "io/console.py"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []  # walk has not come to it yet
        for node in ast.walk(tree):
            printed = isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "typer.echo")
            made = isinstance(node, ast.ImportFrom) and node.module == "rich.console"
            made = made and any(name.name == "Console" for name in node.names)
            if printed or made:
                result.append(f"{where}:{node.lineno}")
    assert result == []
