"""Sources of other installed packages: the worked example, installed by pip, and packages that are amiss."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import ringbco
from conftest import Invoke
from ringbco.errors import RingbcoError

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/pbs_source"
PAGE = ROOT / "docs/sources/installed.md"


def wheel(folder: Path, project: Path) -> Path:
    """The wheel of a project whose modules are files beside its pyproject.toml, as its backend makes it."""
    told = tomllib.loads((project / "pyproject.toml").read_text())
    name, version = told["project"]["name"].replace("-", "_"), told["project"]["version"]
    info = f"{name}-{version}.dist-info"
    points = "".join(
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items())
        for group, each in told["project"]["entry-points"].items()
    )
    files = {f"{module}.py": (project / f"{module}.py").read_text()
             for module in told["tool"]["setuptools"]["py-modules"]}  # fmt: skip
    files |= {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": points,
    }
    made = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"]))
    return made


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages into which pip has installed the worked example."""
    folder = tmp_path_factory.mktemp("site")
    made = wheel(tmp_path_factory.mktemp("wheel"), EXAMPLE)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation",
         "--target", folder, made],
        check=True,
    )  # fmt: skip
    return folder


def blocks(page: Path) -> list[str]:
    return re.findall(r"```(?:console|text)\n(.*?)```", page.read_text(), re.DOTALL)


def test_the_worked_example(
    site: Path, invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "choose one of" in invoke("convert", "pbs", "x", "-o", "j.parquet").stderr
    monkeypatch.syspath_prepend(site)
    log, console = blocks(PAGE)
    (tmp_path / "20260504").write_text(log)
    command, _, shown = console.removeprefix("$ ").partition("\n")
    done = invoke(*command.split()[1:])
    assert done.returncode == 0, done.stderr
    assert done.stdout == shown
    table = ringbco.read_jobs("jobs.parquet")
    assert table.frame.to_dicts() == [
        {"job_id": "1207.head", "submit_time": 28_805.0, "num_gpus": 4, "duration": 7_200.0, "user": "ada",
         "vc": "gpu", "recorded_start": 28_900.0},
        {"job_id": "1206.head", "submit_time": 28_860.0, "num_gpus": 8, "duration": 600.0, "user": "bob",
         "vc": "gpu", "recorded_start": 36_100.0},
    ]  # fmt: skip
    assert table.metadata["ringbco.source"] == "pbs"
    assert table.metadata["ringbco.epoch"] == "2026-05-04T00:00:00Z"
    assert json.loads(table.metadata["ringbco.options"])["queue"] == "gpu"
    assert invoke("replay", "jobs.parquet", "--cluster", "1x8", "-o", "r").returncode == 0
    assert invoke("audit", "r").returncode == 0
    assert ringbco.convert("pbs", "20260504", parameters={"queue": "debug"}).table.num_jobs == 1
    strict = invoke("convert", "pbs", "20260504", "-o", "k.parquet", "--strict").stderr
    assert (
        strict
        == "error: 20260504: line 4: expected every row as it is (--strict); no GPUs (Resource_List.ngpus)\n"
    )


def offer(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str, name: str = "mine") -> None:
    """Installs a package `sly` whose function `read` is a source of that name."""
    site = folder / "packages"
    (site / "sly-1.dist-info").mkdir(parents=True)
    (site / "sly-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: sly\nVersion: 1\n")
    (site / "sly-1.dist-info/entry_points.txt").write_text(f"[ringbco.sources]\n{name} = sly:read\n")
    (site / "sly.py").write_text(code)
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "sly", raising=False)
    (folder / "log.csv").write_text("x\n")


TABLE = """
import polars as pl
def read(files, *, gpus: int = 1, share: float = 0.5, name: str = 'a', whole: bool = False):
    '''My site's log.'''
    columns = {'job_id': [name, 'b'], 'submit_time': [9.0, 3.0], 'num_gpus': [1, gpus]}
    return pl.DataFrame(columns | {'duration': [1.0, 2.0]})
"""


def test_a_table_is_sorted_and_its_source_is_listed(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(tmp_path, monkeypatch, TABLE)
    done = invoke("convert", "mine", "log.csv", "-o", "j.csv", "-P", "gpus=2", "-P", "name=7", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows_read"] == 2
    assert (tmp_path / "j.csv").read_text().splitlines()[1:] == ["b,3.0,2,2.0", "7,9.0,1,1.0"]
    assert "My site's log." in invoke("convert", "mine", "--cite").stdout
    assert invoke("convert", "min", "log.csv", "-o", "k.csv").stderr.endswith(
        "swf, csv, mine; did you mean mine?\n"
    )
    listed = subprocess.run(
        [sys.executable, "-m", "ringbco", "convert", "--help"],
        env={"PYTHONPATH": str(tmp_path / "packages"), "COLUMNS": "120", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert re.search(r"swf, csv,\W+mine\.", listed.stdout)
    elastic = invoke("convert", "mine", "log.csv", "-o", "e.csv", "-P", "gpus=2", "--elastic", "0.5:2")
    assert elastic.returncode == 0


@pytest.mark.parametrize(
    ("code", "options", "said"),
    [
        (TABLE, ["-P", "gpus=0"], "log.csv (read by mine): row 2, column num_gpus: 0: expected "),
        (TABLE, ["-P", "gpus=x"], "option P: gpus: x: expected an integer"),
        (TABLE, ["-P", "whole=1"], "option P: whole: 1: expected True or False"),
        (TABLE, ["-P", "gpu=1"], "option P: gpu: expected one of gpus, share, name, whole; source mine"),
        (TABLE, ["-P", "gpus"], "option P: gpus: expected NAME=VALUE, each name once"),
        (TABLE, ["--mode", "last"], "--mode is not an option of mine"),
        (TABLE, ["--cluster-out", "c.toml"], "--cluster-out: mine does not say which servers it ran on"),
        (TABLE.replace("'duration'", "'length'"), [], "log.csv (read by mine): the column duration is"),
        (TABLE.replace("name, 'b'", "name, name"), [], "log.csv (read by mine): row 2, column job_id: a: "),
        ("import nothing_such", [], "source mine: raised ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)", [], "source mine: raised SystemExit: 3 ("),
        ("x = 1", [], "source mine: raised AttributeError: module 'sly' has no attribute 'read'"),
        ("read = 3", [], "source mine: package sly 1 (sly:read): expected a function of a list of files"),
        ("def read(files): return 3", [], "source mine: expected a table or a Trace from sly:read, not int"),
        ("def read(files):\n    return {}['gpus']", [], "source mine: raised KeyError: 'gpus' ("),
        ("def read(files, *, day): ...", [], "option P: expected a value of day; source mine"),
        ("def read(files): ...", ["-P", "a=1"], "option P: a: expected none: it has no options; source mine"),
    ],
)  # fmt: skip
def test_one_line_for_what_is_amiss(
    invoke: Invoke,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    options: list[str],
    said: str,
) -> None:
    offer(tmp_path, monkeypatch, code)
    done = invoke("convert", "mine", "log.csv", "-o", "j.parquet", *options)
    assert done.returncode in (1, 2)
    assert done.stderr.startswith(f"error: {said}"), done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "j.parquet").exists()


def test_the_place_is_that_in_the_source(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer(
        tmp_path,
        monkeypatch,
        "import polars as pl\ndef read(files):\n    return pl.DataFrame().select('a')\n",
    )
    said = invoke("convert", "mine", "log.csv", "-o", "j.parquet").stderr
    assert said.count("\n") == 1
    assert said.endswith("packages/sly.py, line 3)\n")


def test_a_name_that_is_taken(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(tmp_path, monkeypatch, TABLE, name="swf")
    done = invoke("convert", "swf", "log.csv", "-o", "j.parquet")
    assert (done.returncode, done.stderr) == (
        2,
        "error: source swf: package sly 1 (sly:read) offers a source by this name too, which is one of"
        " ringbco's: rename its entry point, or uninstall it\n",
    )
    assert "slurm" in invoke("convert", "sworf", "log.csv", "-o", "j.parquet").stderr  # others go on


def test_files_that_are_not_there(invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(tmp_path, monkeypatch, TABLE)
    done = invoke("convert", "mine", "none.csv", "-o", "j.parquet")
    assert (done.returncode, done.stderr) == (1, "error: none.csv: no such file; check the path\n")
    with pytest.raises(RingbcoError, match="-P is not an option of swf"):
        ringbco.convert("swf", "log.csv", parameters={"a": 1})
