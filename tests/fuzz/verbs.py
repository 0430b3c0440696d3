"""Whole verbs inside this process: inputs of random cases, odd names and numbers, what holds of each end."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import polars as pl
from hypothesis import reject
from hypothesis import strategies as st

from cases.case import FILES, TYPES, Case, _frame
from cases.run import meet
from fuzz import LONGEST, HangError
from fuzz.damage import TEXTS, damaged_bytes, damaged_table, damaged_text, parquet_bytes
from ringbco import cli
from ringbco.run.registry import REPLAY

Draw = Callable[[st.SearchStrategy[Any]], Any]

NAMES: Final = (
    *("\u2028", "a\u2028b", "\u2029", "\x85", "\x1b[31m", "\x07", "a\nb", "\r", "\t", "</script><b>", "&lt;"),
    *(
        "x" * 300,
        "'",
        '"',
        "\\",
        "`",
        "${x}",
        "{{x}}",
        "{0}",
        "%s",
        "a|b",
        "a,b",
        "a;b",
        " a ",
        "-",
        "--",
        ".",
    ),
    *(
        "\u202e",
        "\ufeff",
        "\u200d",
        "é",
        "e\u0301",
        "日本",
        "\U0001f600",
        "\U0010ffff",
        "nan",
        "null",
        "None",
    ),
    *(
        "0",
        "1e5",
        "true",
        "auto",
        "[/x]",
        "datum.x",
        "#",
        "__proto__",
        "constructor",
        "../a",
        "=1+1",
        "\ufffe",
    ),
)
"""What a user, a type, a service or a job may be called; nobody said that they may not."""
NUMBERS: Final = (
    *("0", "-0.0", "-1", "1", "2", "3", "0.5", "1e-320", "1e-310", "1e-100", "1e-9", "1e-3", "1e3", "86400"),
    *("1e9", "1e12", "9e15", "1e16", "1e100", "1e150", "1e300", "1.7e308", "inf", "-inf", "nan", "", " 1"),
    *("255", "256", "65536", "2147483647", "2147483648", "4294967295", "4294967296", "9007199254740993"),
    *("18446744073709551615", "18446744073709551616", "1" * 400, "x", "auto", "1h", "2.5d", "1e400s", "0,0"),
    *("1,2,3", "column:mine", "column:x", "shuffle:3", "asha:eta=2,rungs=1", "draw:mtbf=1d,mttr=2h"),
)
"""What an option may be given."""
NAMED: Final = ("policy", "vc", "service", "gpu_type", "user", "gpus")
"""Keys of a summary whose values are names."""
UNBOUNDED: Final = ("gavel", "sia", "allox")
"""Policies whose programs may take long where times differ by much."""
_HEAVY: Final = ("sample", "threads", "progress")
UNEXPLAINED: Final = "set RINGBCO_DEBUG=1 to see where"
"""The end of a message about an error ringbco did not expect; a parser's own "unexpected end" is none."""


@dataclass
class Ended:
    """How a verb ended. crash: the traceback of what it could not explain."""

    arguments: list[str]
    status: int
    out: str
    err: str
    crash: str


def ran(folder: Path, *arguments: object) -> Ended:
    """Runs `ringbco ARGUMENTS...` in the folder, inside this process; a crash and a hang fail the test."""
    words = [str(argument) for argument in arguments]
    out, err, crash = io.StringIO(), io.StringIO(), []
    explain = cli._explain

    def explained(error: BaseException) -> tuple[str, int]:
        message, status = explain(error)
        if UNEXPLAINED in message or isinstance(error, HangError):
            crash.append("".join(traceback.format_exception(error)))
        return message, status

    def hang(_number: int, _frame: object) -> None:
        raise HangError(f"no end after {LONGEST} s of processor time")

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPROF)}
    here, argv = Path.cwd(), sys.argv
    signal.signal(signal.SIGPROF, hang)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        os.chdir(folder)
        sys.argv, cli._explain = ["ringbco", *words], explained
        with of_libraries(err), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as end:
                status = end.code or 0
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir(here)
        sys.argv, cli._explain = argv, explain
        for number, handler in before.items():
            signal.signal(number, handler)
    text = Ended(words, int(status), out.getvalue(), err.getvalue(), "".join(crash))
    if "HangError" in text.crash and words[0] in ("replay", "compare"):
        reject()
    check(text)
    return text


@contextlib.contextmanager
def of_libraries(err: io.StringIO) -> Iterator[None]:
    """What compiled code writes to the process's own stderr, such as a panic, goes to `err`."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            err.write(file.read().decode("utf-8", "replace"))


def check(told: Ended) -> None:
    """What holds of every end: a known status, plain lines, and no word of a library."""
    shown = f"ringbco {told.arguments!r}: {told.status}\n{told.err}\n{told.crash}"
    assert not told.crash, shown
    assert UNEXPLAINED not in told.err, shown
    assert "Traceback" not in told.out + told.err, shown
    assert "Warning:" not in told.err, shown
    assert "panicked" not in told.err, shown
    assert told.status in (0, 1, 2, 3), shown
    assert all(line.isprintable() for line in (told.out + told.err).split("\n")), shown
    if told.status in (1, 2) and told.err.startswith("error:"):
        assert told.err.count("error:") >= 1, shown
    if told.status == 1:
        assert told.err.splitlines()[-1].startswith("error: "), shown


def entries(folder: Path) -> set[str]:
    """All names in a folder, hidden ones too."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_figures(result: Path) -> None:
    """No figure of a summary is inf or nan, which stand there as texts."""
    text = (result / "summary.json").read_text(encoding="utf-8")

    def walk(key: str, value: Any) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                walk(name, inner)
        elif isinstance(value, list):
            for inner in value:
                walk(key, inner)
        else:
            assert key in NAMED or value not in ("inf", "nan", "-inf"), f"{key} is {value}: {text}"

    walk("", json.loads(text))


@dataclass
class UserInputs:
    """What a user has: tables by option ("jobs" too), the cluster file, words of options."""

    tables: dict[str, pl.DataFrame]
    cluster: str
    words: list[str] = field(default_factory=list)
    policy: str = "fifo"


def user_inputs(seed: object) -> UserInputs | None:
    """A random case that is accepted, as files and words; None for one that no command line can say."""
    case: Case = meet(seed, check=False).seen.case
    tables = {name: _frame(rows, FILES[name]) for name, rows in case.files.items() if rows}
    words: list[str] = []
    for name, value in case.options.items():
        if name == "policy":
            continue
        if name == "parameters":
            words += [word for key, own in value.items() for word in ("-P", f"{key}={own}")]
            continue
        option = REPLAY[name]
        if isinstance(value, list) and name == "order":
            return None
        if value is True or value is False:
            words += (
                []
                if value is False and name != "allocations"
                else [f"--{option.typed}" if value else f"--no-{option.typed}"]
            )
        elif value is not None:
            text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            words.append(f"--{option.typed}={text}")
    policy = case.policy
    if isinstance(policy, type):
        policy = f"{sys.modules[policy.__module__].__file__}:{policy.__name__}"
    return UserInputs({"jobs": _frame(case.jobs, TYPES), **tables}, case.toml(), words, policy)


def renamed(given: UserInputs, name: str, odd: str) -> UserInputs:
    """The same with another name, wherever it stands."""
    tables = {
        file: frame.with_columns(pl.col(pl.String).replace(name, odd)) for file, frame in given.tables.items()
    }
    spelt = json.dumps(odd, ensure_ascii=True)
    cluster = given.cluster.replace(f'"{name}"', spelt).replace(f"[gpu_types.{name}]", f"[gpu_types.{spelt}]")
    cluster = cluster.replace(f"models.{name} ", f"models.{spelt} ")
    return UserInputs(tables, cluster, list(given.words), given.policy)


def names_of(given: UserInputs) -> list[str]:
    """All names that tables and cluster have."""
    result = {
        value
        for frame in given.tables.values()
        for column in frame.select(pl.col(pl.String)).get_columns()
        for value in column.drop_nulls().to_list()
    }
    return sorted(result)


@st.composite
def odd(draw: Draw, given: UserInputs) -> tuple[dict[str, bytes], list[str]]:
    """The files of what is given, and words of a verb, now and then with odd names, cells, bytes, options."""
    kinds = draw(
        st.lists(
            st.sampled_from(
                ("name", "name", "cell", "cell", "bytes", "table", "option", "option", "cluster")
            ),
            min_size=1,
            max_size=3,
        )
    )
    if "name" in kinds:
        for name in draw(st.lists(st.sampled_from(names_of(given)), min_size=1, max_size=3, unique=True)):
            given = renamed(given, name, draw(st.sampled_from(NAMES)))
    files = {f"{name}.csv": frame.write_csv().encode() for name, frame in given.tables.items()}
    files["cluster.toml"] = given.cluster.encode()
    words = list(given.words)
    for kind in kinds:
        table = draw(st.sampled_from(sorted(given.tables)))
        file = f"{table}.csv"
        match kind:
            case "cell" if file in files:
                files[file] = _with_number(draw, files[file])
            case "bytes" if file in files:
                text = files[file].decode("utf-8", "replace")
                files[file] = (
                    draw(damaged_text(text)) if draw(st.booleans()) else draw(damaged_bytes(files[file]))
                )
            case "table" if file in files:
                made = draw(damaged_table(given.tables[table].to_arrow()))
                with contextlib.suppress(Exception):  # what Parquet cannot hold
                    files[f"{table}.parquet"] = parquet_bytes(made)
                    files.pop(file)
            case "option":
                words += odd_option(draw)
            case "cluster":
                lines = files["cluster.toml"].decode().split("\n")
                at = draw(st.integers(0, len(lines) - 1))
                if " = " in lines[at]:
                    value = draw(st.sampled_from((*NUMBERS, *(json.dumps(name) for name in NAMES))))
                    lines[at] = lines[at].split(" = ")[0] + " = " + value
                files["cluster.toml"] = "\n".join(lines).encode()
    return files, words


def _with_number(draw: Draw, data: bytes) -> bytes:
    """A CSV with another cell, or a column of others: of numbers, in the main, that are allowed."""
    lines = [line.split(",") for line in data.decode("utf-8", "replace").rstrip("\n").split("\n")]
    row, column = draw(st.integers(1, max(1, len(lines) - 1))), draw(st.integers(0, len(lines[0]) - 1))
    value = draw(st.sampled_from((*NUMBERS[:36], *TEXTS)))
    rows = range(1, len(lines)) if draw(st.integers(0, 3)) == 0 else [row]
    for at in rows:
        if at < len(lines) and column < len(lines[at]):
            lines[at][column] = value
    return ("\n".join(map(",".join, lines)) + "\n").encode("utf-8", "surrogatepass")


def odd_option(draw: Draw) -> list[str]:
    """An option of replay with a value that it may have, or not."""
    option = REPLAY[draw(st.sampled_from(sorted(name for name in REPLAY if name not in (*_HEAVY, "policy"))))]
    if option.kind == "flag":
        return [f"--{option.typed}"]
    values = st.sampled_from((*option.names, *NUMBERS)) if option.names else st.sampled_from(NUMBERS)
    return [f"--{option.typed}={draw(values)}"]


def put(folder: Path, files: Mapping[str, bytes]) -> Path:
    """A fresh folder of those files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def file_of(folder: Path, table: str) -> str:
    """The name of a table's file there."""
    return next(
        (path.name for path in folder.glob(f"{table}.*") if path.suffix in (".csv", ".parquet")),
        f"{table}.csv",
    )


def side_table_words(folder: Path) -> Iterator[str]:
    """The words for all tables beside the jobs."""
    for path in sorted(folder.iterdir()):
        if path.stem in FILES and path.suffix in (".csv", ".parquet"):
            yield f"--{REPLAY[path.stem.removesuffix('-2')].typed}={path.name}"
