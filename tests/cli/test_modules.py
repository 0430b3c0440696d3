"""What each verb imports, which is most of what a small input costs: nothing that it does not use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from conftest import SMALL_JOBS
from ringbco import cli

# What takes more than some milliseconds, or pulls in much else.
HEAVY: Final = (
    "altair",
    "distributed",
    "gymnasium",
    "importlib.metadata",
    "jinja2",
    "jsonschema",
    "multiprocessing",
    "narwhals",
    "numpy",
    "numpy.ma",
    "pandas",
    "polars",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pydantic",
    "rich",
    "scipy",
    "sklearn",
    "typer",
    "vl_convert",
)
# The help of a verb is drawn by rich; polars itself looks into importlib.metadata.
TABLES: Final = {"typer", "numpy", "polars", "importlib.metadata"}
RESULTS: Final = TABLES | {"pyarrow"}
READS: Final = RESULTS | {"pyarrow.parquet"}
# altair imports jinja2 for its own pages, so that a picture alone loads it too.
CHARTS: Final = {"altair", "jinja2", "jsonschema", "narwhals"}
SWEEP: Final = '[base]\ntrace = "small.csv"\ncluster = "2x8"\n[grid]\npolicy = ["fifo", "sjf"]\n'

SLOW: Final = ("bench", "demo")
# A command line, and all that it may import; `SLOW` lists the verbs that are tested by their help alone.
# A comparison draws its page, so it loads what a report does.
ALLOWED: Final[dict[str, set[str]]] = {
    "--version": {"typer", "importlib.metadata"},
    "replay --help": {"typer"},  # the options are the engine's, which needs no numpy to tell them
    **{line: {"typer", "rich"} for line in ("--help", *(f"{verb} --help" for verb in SLOW))},
    "policies": {"typer", "numpy", "rich", "importlib.metadata"},
    "policies --json": {"typer", "numpy", "importlib.metadata"},
    "convert csv raw.csv --map job_id=id -o c.csv": TABLES | {"rich", "numpy.ma"},
    "generate --preset philly --jobs 50 --gpus 64 -o g.parquet": TABLES | {"rich", "numpy.ma"},
    "generate --preset requests --requests 50 -o q.parquet": TABLES | {"rich", "numpy.ma"},
    "outages --cluster 2x8 --mtbf 5d --mttr 2h --days 90 -o outages.parquet": TABLES | {"rich", "numpy.ma"},
    "outages --cluster 2x8 --mtbf 5d --mttr 2h --days 90 -o outages.csv --json": TABLES | {"numpy.ma"},
    "services requests.csv --gpus-per-replica 2 --tokens-per-gpu 500 -o services.csv": TABLES
    | {"rich", "numpy.ma"},
    "cluster 2x8": {"typer", "numpy", "rich", "importlib.metadata"},
    "cluster 2x8 --json": {"typer", "numpy", "importlib.metadata"},
    "inspect small.csv": TABLES | {"rich", "numpy.ma"},
    "inspect requests.csv": TABLES | {"rich", "numpy.ma"},
    "profile small.csv -o p.csv": TABLES | {"rich", "numpy.ma"},
    "replay small.csv --cluster 2x8 -o r": RESULTS | {"rich"},
    "replay small.csv --cluster 2x8 -o r-json --json": RESULTS,
    "replay small.csv --cluster 2x8 -o done --force -q": RESULTS,
    "replay jobs.parquet --cluster 2x8 -o r-parquet -q": READS,
    "plan small.csv --cluster 2x8 -o p": RESULTS | {"rich"},
    "plan small.csv --cluster 2x8 -o done --force -q": RESULTS,
    "bound small.csv --cluster 2x8": RESULTS | {"rich"},
    "bound small.csv --cluster 2x8 --json": RESULTS,
    "pack small.csv --cluster 2x8": RESULTS | {"rich"},
    "pack small.csv --cluster 2x8 --json": RESULTS,
    "compare small.csv --cluster 2x8 --policy fifo --policy sjf -o c": RESULTS
    | CHARTS
    | {"rich", "vl_convert", "numpy.ma"},
    "diff done done": READS | {"rich", "numpy.ma", "pyarrow.compute"},
    "diff done sjf --json": READS | {"numpy.ma", "pyarrow.compute"},
    "diff done sjf -q -o diff.html --csv diff.csv": READS
    | CHARTS
    | {"vl_convert", "numpy.ma", "pyarrow.compute"},
    "why done a": READS | {"rich", "numpy.ma", "pyarrow.compute"},
    "why done a --json": READS | {"numpy.ma", "pyarrow.compute"},
    "sweep sweep.toml -o s": READS | {"rich", "multiprocessing"},
    "audit done": READS | {"rich", "numpy.ma", "pyarrow.compute"},
    "report done -o page.html": READS | CHARTS | {"vl_convert", "numpy.ma", "pyarrow.compute"},
    "play done -o play.html": READS | {"jinja2", "numpy.ma", "pyarrow.compute"},
    "timeline done -o trace.json": READS | {"numpy.ma", "pyarrow.compute"},
}

# Runs command lines one after the other, and writes after each which heavy modules have been loaded by then.
CODE: Final = f"""
import json
import sys
import ringbco.cli
loaded = []
for line in sys.argv[1:]:
    sys.argv = ["ringbco", *line.split()]
    try:
        ringbco.cli.main()
    except SystemExit as end:
        assert not end.code, (line, end.code)
    loaded.append([name for name in {HEAVY!r} if name in sys.modules])
print()
print(json.dumps(loaded))
"""


def chains() -> list[list[str]]:
    """The command lines such that in each list one may import all that those before it may.

    One process can run such a list: whatever a line may not import, no line before it has.
    """
    made: list[list[str]] = []
    for line in sorted(ALLOWED, key=lambda line: len(ALLOWED[line])):
        chain = next((chain for chain in made if ALLOWED[chain[-1]] <= ALLOWED[line]), None)
        if chain is None:
            made.append([line])
        else:
            chain.append(line)
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a job table as CSV and as Parquet, a sweep, and a result."""
    from ringbco.run.replay import replay
    from ringbco.trace.jobs import read_jobs, write_jobs

    folder = tmp_path_factory.mktemp("modules")
    (folder / "small.csv").write_text(SMALL_JOBS)
    (folder / "raw.csv").write_text(SMALL_JOBS.replace("job_id", "id"))
    (folder / "requests.csv").write_text("arrival,input_tokens,output_tokens\n0,900,100\n")
    (folder / "sweep.toml").write_text(SWEEP)
    write_jobs(read_jobs(folder / "small.csv"), folder / "jobs.parquet")
    for policy, name in (("fifo", "done"), ("sjf", "sjf")):
        replay(folder / "small.csv", "2x8", policy=policy).write(folder / name)
    return folder


def imported(folder: Path, *lines: str) -> list[set[str]]:
    """The heavy modules that a process has loaded after each of these command lines."""
    command = [sys.executable, "-c", CODE, *lines]
    done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [set(names) for names in json.loads(done.stdout.splitlines()[-1])]


def test_each_verb_is_listed() -> None:
    assert {line.split()[0] for line in ALLOWED if not line.startswith("-")} == set(cli.COMMANDS)


@pytest.mark.long
@pytest.mark.parametrize("lines", chains(), ids=lambda lines: lines[-1])
def test_a_verb_imports_only_what_it_uses(folder: Path, lines: list[str]) -> None:
    for line, names in zip(lines, imported(folder, *lines), strict=True):
        assert names <= ALLOWED[line], line


@pytest.mark.long
def test_a_module_more_is_seen(folder: Path) -> None:
    """Lest all of the above pass because nothing is ever found."""
    (names,) = imported(folder, "replay small.csv --cluster 2x8 -o seen -q")
    assert {"typer", "numpy", "polars", "pyarrow"} <= names
