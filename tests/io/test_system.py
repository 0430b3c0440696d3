"""What stands in on macOS for what only Linux has, each forced here by the one switch of the tests."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import copytree, ignore_patterns
from typing import Any

import pytest

import ringbco
from conftest import Invoke, RunCli, only_linux
from ringbco.io import disk, memory, system
from ringbco.result.comparison import Comparison
from ringbco.run.replay import replay
from ringbco.study import bench
from ringbco.sweeps.executors import ProcessExecutor
from ringbco.sweeps.run import sweep

TABLES = ("jobs.parquet", "allocations.parquet", "timeline.parquet")


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)


@only_linux
def test_without_the_switch_linux_is_linux(tmp_path: Path) -> None:
    assert system.is_linux()
    (tmp_path / "a").write_text("a")
    disk.rename_new(tmp_path / "a", tmp_path / "b")
    assert system.c_function("prctl") is not None
    assert system.place("A") != system.place("a")


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("rename", [disk.rename_new, disk.exchange])
def test_no_rename_does_two_things_in_one_step(rename: Callable[[Path, Path], None], tmp_path: Path) -> None:
    """The engine says so by this system's own number, which is not Linux' on macOS."""
    for name in "ab":
        (tmp_path / name).write_text(name)
    with pytest.raises(OSError, match="unsupported") as raised:
        rename(tmp_path / "a", tmp_path / "b")
    assert raised.value.errno == errno.ENOTSUP
    assert [(tmp_path / name).read_text() for name in "ab"] == ["a", "b"]


def test_commands_give_the_same_bytes(
    run_cli: RunCli, small_jobs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New, refused because it is there, and replaced with what somebody else put into it kept."""
    run = ("replay", small_jobs.name, "--cluster", "2x8", "--quiet", "-o")
    assert run_cli(*run, "linux").returncode == 0
    monkeypatch.setenv("RINGBCO_SYSTEM", "darwin")
    assert run_cli(*run, "r").returncode == 0
    refused = run_cli(*run, "r")
    assert (refused.returncode, refused.stderr.count("\n")) == (1, 1)
    (tmp_path / "r" / "theirs").write_text("theirs")
    done = run_cli(*run, "r", "--force")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "r" / "theirs").read_text() == "theirs"
    for table in TABLES:
        assert (tmp_path / "r" / table).read_bytes() == (tmp_path / "linux" / table).read_bytes()
    assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_memory_is_told_in_kib_by_linux_and_in_bytes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    told = resource.getrusage(resource.RUSAGE_SELF)
    monkeypatch.setattr(resource, "getrusage", lambda _: told)
    for name, unit in (("linux", 1024), ("darwin", 1)):
        monkeypatch.setenv("RINGBCO_SYSTEM", name)
        assert system.peak_memory() == told.ru_maxrss * unit


@only_linux
def test_the_peak_is_what_linux_itself_says() -> None:
    said = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()
    assert said[1] == "kB"
    assert system.peak_memory() == pytest.approx(int(said[0]) * 1024, rel=0.1)


@pytest.mark.usefixtures("elsewhere")
def test_nothing_is_read_from_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    real = io.open

    def refuse(path: Any, *arguments: Any, **named: Any) -> Any:
        assert not str(path).startswith("/proc"), path
        return real(path, *arguments, **named)

    monkeypatch.setattr("builtins.open", refuse)
    assert bench.machine()["cpu"]


@pytest.mark.usefixtures("elsewhere")
def test_no_limit_of_addresses_is_told_where_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1_000_000, 1_000_000))
    assert memory.memory_limit() is None
    assert system.c_function("mallopt") is None
    assert system.c_function("prctl") is None


@pytest.mark.usefixtures("elsewhere")
def test_processes_are_started_anew_and_never_forked(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> int:
        raise AssertionError("forked")

    monkeypatch.setattr(os, "fork", refuse)
    pool = ProcessExecutor(1)
    try:
        assert sweep(spec, tmp_path / "out", executor=pool).frame.height == 6
    finally:
        pool.shutdown()
    assert bench._apart(os.getpid) != os.getpid()


@pytest.mark.usefixtures("elsewhere", "small_jobs")
def test_names_that_differ_in_case_alone_are_one_place(invoke: Invoke, tmp_path: Path) -> None:
    for folder in ("r", "R"):
        assert invoke("replay", "small.csv", "--cluster", "2x8", "-o", folder, "-q").returncode == 0
    for verb in ("report", "play"):
        refused = invoke(verb, "r", "R", "-o", "x.html")
        assert (refused.returncode, refused.stderr.lower()) == (2, "error: r: given twice\n")
    own = invoke("replay", "--again", "r", "-o", "R", "--force")
    assert (own.returncode, own.stderr) == (
        2,
        "error: option out: R: expected another folder than the result to be repeated\n",
    )
    inside = invoke("replay", "--again", "r", "-o", "R/sub")
    assert "expected a folder apart from the result" in inside.stderr
    back = invoke("convert", "csv", "small.csv", "-o", "SMALL.csv", "--force")
    assert (back.returncode, back.stderr) == (
        2,
        "error: SMALL.csv is one of the inputs: write somewhere else\n",
    )
    assert not (tmp_path / "SMALL.csv").exists()


@pytest.mark.parametrize(
    "labels",
    [
        ("Mine", "mine", "MINE"),
        ("a-3", "a", "a!"),
        ("\u00e9", "e\u0301"),  # one letter, written in two ways
        ("Report.html", "ringbco.json"),
    ],
)
def test_a_comparison_has_a_folder_for_each_run_on_every_file_system(
    labels: tuple[str, ...], small_jobs: Path, tmp_path: Path
) -> None:
    outcome = replay(small_jobs, "2x8", policy="fifo")
    Comparison(dict.fromkeys(labels, outcome)).write(tmp_path / "c", report="<!DOCTYPE html>")
    folders = json.loads((tmp_path / "c" / "comparison.json").read_text(encoding="utf-8"))["folders"]
    assert list(folders) == list(labels)
    assert all((tmp_path / "c" / name / "jobs.parquet").is_file() for name in folders.values())
    names = [system.fold(name) for name in os.listdir(tmp_path / "c")]
    assert len(set(names)) == len(names) == len(labels) + 4


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("sys.platform = 'win32'", "ringbco does not run on Windows: install it in WSL"),
        ("sys.version_info = (3, 10, 1)", "ringbco needs Python 3.11 or newer, and this is 3.10: install"),
    ],
)
@pytest.mark.parametrize("way", ["import ringbco", "runpy.run_module('ringbco', run_name='__main__')"])
def test_a_system_or_python_that_will_not_do_is_one_line(there: str, said: str, way: str) -> None:
    done = python(f"import runpy, sys; {there}; {way}")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"error: {said}")


def test_who_asks_first_is_told_by_an_import_error() -> None:
    code = (
        "import sys\nsys.platform = 'win32'\ntry:\n    import ringbco\nexcept ImportError as e:\n    print(e)"
    )
    done = python(f"{code}\n1 / 0")
    assert done.stdout.startswith("ringbco does not run on Windows")
    assert done.stderr.startswith("Traceback")  # of what else goes wrong


@pytest.mark.parametrize(
    ("left", "why"), [(None, "is missing in"), (b"\x7fELF", "does not load"), (b"", "does not load")]
)
def test_a_package_that_lost_its_library_is_one_line(
    left: bytes | None, why: str, small_jobs: Path, tmp_path: Path
) -> None:
    """From Python it is an ImportError, too; what needs no engine still works."""
    package = tmp_path / "lost" / "ringbco"
    copytree(Path(ringbco.__file__).parent, package, ignore=ignore_patterns("_core*.so", "__pycache__"))
    if left is not None:
        (package / "_core.abi3.so").write_bytes(left)
    code = f"import sys; sys.path.insert(0, {str(package.parent)!r}); "
    for arguments in (
        ["--version"],
        ["replay", str(small_jobs), "--cluster", "2x8", "-o", str(tmp_path / "r")],
    ):
        done = python(f"{code}sys.argv[1:] = {arguments!r}; from ringbco.shell import main; main()")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
        assert done.stderr.startswith(f"error: the engine's library, _core.abi3.so, {why}")
        assert str(package) in done.stderr
        assert "pip install --force-reinstall" in done.stderr
    assert python(f"{code}sys.argv[1:] = ['--help']; from ringbco.shell import main; main()").returncode == 0
    caught = python(
        f"{code}import pickle, ringbco\ntry:\n    ringbco.replay\n"
        "except ImportError as e:\n    print(pickle.loads(pickle.dumps(e)))"
    )
    assert caught.stdout.startswith("the engine's library")
    assert not (tmp_path / "r").exists()
