"""Outputs that appear whole or not at all, whatever fails and wherever the process ends."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import Invoke, only_linux
from ringbco.errors import InputError
from ringbco.io import atomic, disk
from ringbco.io.manifest import OutputKind, foreign
from ringbco.io.marks import Mark
from ringbco.result.folder import RESULT, whole_folder

STEPS = (
    "create_file", "create_folder", "rename_new", "exchange", "replace", "link", "remove_file",
    "remove_folder", "remove_tree", "lock",
)  # fmt: skip
OLD, NEW, THEIRS = b"old" * 1000, b"new" * 5000, b"theirs"


ANYTHING = Mark("file", lambda _: True)
KIND = OutputKind("test", frozenset({"is"}), lambda folder: (folder / "is").is_file())
"""A folder with nothing of ours in it but `is`."""


def write_file(target: Path, force: bool) -> None:
    with atomic.replacing(target, ANYTHING, force=force) as file:
        file.write(NEW)


def write_folder(target: Path, force: bool) -> None:
    with whole_folder(target, force=force, kind=KIND) as partial, disk.create_file(partial / "is") as file:
        file.write(NEW)


def content(target: Path) -> bytes | None:
    if not target.exists():
        return None
    return target.read_bytes() if target.is_file() else (target / "is").read_bytes()


def check_kept(target: Path, old: bool) -> None:
    """What others had put into an old folder is in the folder that is there, whichever it is."""
    if old and target.is_dir():
        assert (target / "link").is_symlink()
        assert (target / "link" / "deep" / "one").read_bytes() == THEIRS


def prepare(folder: Path, write: Callable[[Path, bool], None], old: bool) -> Path:
    folder.mkdir()
    target = folder / "out"
    if old and write is write_file:
        target.write_bytes(OLD)
    elif old:
        (target / "photos" / "deep").mkdir(parents=True)
        (target / "photos" / "deep" / "one").write_bytes(THEIRS)
        (target / "link").symlink_to("photos")
        (target / "is").write_bytes(OLD)
    return target


def whole_names(folder: Path) -> list[str]:
    """What is in a folder, but for an earlier result moved aside, which nobody removes unasked."""
    return [name for name in os.listdir(folder) if not name.endswith(".old")]


class Steps:
    """Counts the steps on disk; `act` is called at one of them, before or after it is done.

    unsupported: the steps are those of systems that cannot rename without replacing, nor exchange.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, unsupported: bool) -> None:
        self.done: list[str] = []
        self.at = -1
        self.after = False
        self.act: Callable[[], None] = lambda: None
        monkeypatch.setenv("RINGBCO_SYSTEM", "darwin" if unsupported else "linux")
        for name in STEPS:
            monkeypatch.setattr(disk, name, self._wrapped(name, getattr(disk, name)))

    def _wrapped(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object) -> object:
            number = len(self.done)
            self.done.append(name)
            if number == self.at and not self.after:
                self.act()
            value = real(*arguments)
            if number == self.at and self.after:
                if isinstance(value, io.IOBase):
                    value.close()  # nobody gets to see it
                self.act()
            return value

        return step


CASES = [
    pytest.param(write, old, unsupported, id=f"{write.__name__}-{'old' if old else 'new'}-{unsupported}")
    for write in (write_file, write_folder)
    for old in (False, True)
    for unsupported in (False, True)
]


def count(monkeypatch: pytest.MonkeyPatch, folder: Path, case: tuple[object, ...]) -> int:
    write, old, unsupported = case
    with monkeypatch.context() as patched:
        steps = Steps(patched, bool(unsupported))
        target = prepare(folder, write, bool(old))  # type: ignore[arg-type]
        write(target, old)  # type: ignore[operator]
        assert content(target) == NEW
        assert os.listdir(folder) == ["out"]
    return len(steps.done)


@pytest.mark.parametrize(("write", "old", "unsupported"), CASES)
@pytest.mark.parametrize("after", [False, True])
def test_whichever_step_fails(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, bool], None],
    old: bool,
    unsupported: bool,
    after: bool,
) -> None:
    total = count(monkeypatch, tmp_path / "count", (write, old, unsupported))
    assert total >= 3
    for number in range(total):
        target = prepare(tmp_path / f"{number}", write, old)
        with monkeypatch.context() as patched:
            steps = Steps(patched, unsupported)
            steps.at, steps.after = number, after

            def fail() -> None:
                raise OSError(errno.EIO, "Input/output error")

            steps.act = fail
            said = ""
            try:
                write(target, old)
            except InputError as error:
                said = str(error)
        kept = content(target)
        assert kept in ((OLD if old else None), NEW)
        if kept is not None:
            check_kept(target, old)
        if said:
            assert said.startswith(str(target))
            assert "Input/output error" in said
        else:
            assert kept == NEW
        # A later run cleans up and works.
        atomic.recover(target)
        assert content(target) in ((OLD if old else None), NEW)
        check_kept(target, old)
        write(target, True)
        assert content(target) == NEW
        check_kept(target, old)
        assert whole_names(target.parent) == ["out"]


@contextmanager
def child() -> Iterator[bool]:
    """Forks: True in the child, which dies at the end of the block, False in the parent, which waits."""
    number = os.fork()
    if number == 0:
        try:
            yield True
        finally:
            os._exit(0)
    yield False
    os.waitpid(number, 0)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a fork of a process with threads
@pytest.mark.parametrize(("write", "old", "unsupported"), CASES)
@pytest.mark.parametrize("after", [False, True])
def test_at_whichever_step_the_process_is_killed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, bool], None],
    old: bool,
    unsupported: bool,
    after: bool,
) -> None:
    total = count(monkeypatch, tmp_path / "count", (write, old, unsupported))
    monkeypatch.setenv("RINGBCO_SYSTEM", "darwin" if unsupported else "linux")  # also of who cleans up
    for number in range(total):
        target = prepare(tmp_path / f"{number}", write, old)
        with child() as inside:
            if inside:
                steps = Steps(monkeypatch, unsupported)
                steps.at, steps.after = number, after
                steps.act = lambda: os.kill(os.getpid(), signal.SIGKILL)
                write(target, old)
        atomic.check_output(target, ANYTHING, force=True) if write is write_file else atomic.recover(target)
        assert content(target) in ((OLD if old else None), NEW)
        check_kept(target, old)
        write(target, True)
        assert content(target) == NEW
        check_kept(target, old)
        assert whole_names(target.parent) == ["out"]


def test_a_file_made_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    file = atomic.replacing(target, ANYTHING)
    file.__enter__().write(NEW)
    target.write_bytes(OLD)
    with pytest.raises(InputError, match="already exists"):
        file.__exit__(None, None, None)
    assert target.read_bytes() == OLD
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("unsupported", [False, True])
@pytest.mark.parametrize("empty", [False, True])
def test_a_folder_made_meanwhile_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsupported: bool, empty: bool
) -> None:
    target = tmp_path / "out"
    Steps(monkeypatch, unsupported)
    making = whole_folder(target, force=False, kind=KIND)
    making.__enter__()
    target.mkdir()
    if not empty:
        (target / "theirs").write_bytes(OLD)
    with pytest.raises(InputError, match="already exists"):
        making.__exit__(None, None, None)
    assert sorted(os.listdir(target)) == ([] if empty else ["theirs"])
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.parametrize("unsupported", [False, True])
def test_force_does_not_lose_what_appears_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsupported: bool
) -> None:
    target = prepare(tmp_path / "a", write_folder, True)
    Steps(monkeypatch, unsupported)
    with whole_folder(target, force=True, kind=KIND) as partial:
        (target / "theirs").write_bytes(OLD)
        (partial / "is").write_bytes(NEW)
    assert (target / "theirs").read_bytes() == OLD
    assert content(target) == NEW
    making = whole_folder(target, force=True, kind=KIND)
    (making.__enter__() / "is").write_bytes(NEW)
    (target / "is").write_bytes(OLD)
    with pytest.raises(InputError, match="holds is, which ringbco did not write"):
        making.__exit__(None, None, None)
    assert content(target) == OLD
    assert os.listdir(target.parent) == ["out"]


@pytest.mark.parametrize("name", ["theirs", "kept"])
def test_what_appears_between_the_last_look_and_the_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    target = prepare(tmp_path / "a", write_folder, True)
    (target / "kept").write_bytes(OLD)
    real = disk.exchange

    def late(one: Path, other: Path) -> None:
        (target / "new").write_bytes(NEW)
        (target / "new").rename(target / name)
        monkeypatch.setattr(disk, "exchange", real)
        real(one, other)

    monkeypatch.setattr(disk, "exchange", late)
    with pytest.raises(InputError, match=f"out: holds {name}, which .* cannot be kept: it changed meanwhile"):
        write_folder(target, True)
    assert (target / name).read_bytes() == NEW
    assert (target / "is").read_bytes() == OLD
    assert os.listdir(target.parent) == ["out"]


@only_linux  # elsewhere a file that comes in that instant is lost: docs/reliability.md#macos
def test_a_file_of_others_that_takes_the_name_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "out"
    target.write_bytes(OLD)
    mark = Mark("file", lambda path: path.read_bytes() == OLD)
    real = disk.exchange

    def late(one: Path, other: Path) -> None:
        target.write_bytes(b"theirs")
        monkeypatch.setattr(disk, "exchange", real)
        real(one, other)

    monkeypatch.setattr(disk, "exchange", late)
    with (
        pytest.raises(InputError, match="out: already exists and is no file"),
        atomic.replacing(target, mark, force=True) as file,
    ):
        file.write(NEW)
    assert target.read_bytes() == b"theirs"
    assert os.listdir(tmp_path) == ["out"]


@pytest.mark.long
def test_two_runs_at_once_to_one_place(tmp_path: Path) -> None:
    """Of many, one wins, whole; every other one says so."""
    code = """
import sys
from pathlib import Path
from ringbco.errors import InputError
from ringbco.result.folder import whole_folder
sys.stdin.readline()
try:
    with whole_folder(Path("out"), force=False) as partial:
        (partial / "a").write_text(sys.argv[1])
        (partial / "b").write_text(sys.argv[1])
except InputError as error:
    sys.exit(1 if "already exists" in str(error) else 2)
"""
    runs = [
        subprocess.Popen([sys.executable, "-c", code, str(number)], cwd=tmp_path, stdin=subprocess.PIPE)
        for number in range(6)
    ]
    for run in runs:
        assert run.stdin is not None
        run.stdin.write(b"\n")
        run.stdin.close()
    codes = [run.wait(60) for run in runs]
    assert sorted(codes) == [0, 1, 1, 1, 1, 1]
    winner = str(codes.index(0))
    assert [(tmp_path / "out" / name).read_text() for name in "ab"] == [winner, winner]
    assert os.listdir(tmp_path) == ["out"]


def test_a_run_that_goes_on_is_not_taken_for_a_leftover(tmp_path: Path) -> None:
    target = tmp_path / "out"
    with whole_folder(target, force=False, kind=KIND) as partial:
        (partial / "is").write_bytes(NEW)
        write_file(tmp_path / "other", False)
        atomic.recover(target)
        assert (partial / "is").read_bytes() == NEW
    assert content(target) == NEW
    with atomic.replacing(tmp_path / "file", ANYTHING) as file:
        file.write(NEW)
        atomic.recover(tmp_path / "file")
    assert content(tmp_path / "file") == NEW


def test_only_names_of_ours_are_cleaned(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    theirs = [
        ".out.partial",
        ".out.0123.partial",
        f".out.{token}.part",
        f".other.{token}.partial",
        f"out.{token}.partial",
    ]
    for name in theirs:
        (tmp_path / name).write_bytes(OLD)
    (tmp_path / f".out.{token}.partial").mkdir()
    (tmp_path / f".out.{token}.partial" / "jobs.parquet").write_bytes(NEW)
    atomic.recover(tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == sorted(theirs)


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_an_earlier_result_moved_aside_by_a_killed_run_comes_back(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RINGBCO_SYSTEM", system)
    aside = tmp_path / ".out.0123456789abcdef.old"
    aside.mkdir()
    (aside / "is").write_bytes(OLD)
    atomic.recover(tmp_path / "out")
    assert content(tmp_path / "out") == OLD
    # Where there is something new by now, both stay.
    (tmp_path / "out").rename(aside)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "is").write_bytes(NEW)
    atomic.recover(tmp_path / "out")
    assert content(tmp_path / "out") == NEW
    assert content(aside) == OLD


def test_two_containers_with_the_same_process_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getpid", lambda: 7)
    with (
        atomic.replacing(tmp_path / "out", ANYTHING, force=True) as one,
        atomic.replacing(tmp_path / "out", ANYTHING, force=True) as two,
    ):
        one.write(OLD)
        two.write(NEW)
    assert content(tmp_path / "out") == OLD  # the last to end
    assert os.listdir(tmp_path) == ["out"]


def test_a_name_as_long_as_the_file_system_allows(tmp_path: Path) -> None:
    name = "x" * 247 + ".parquet"
    write_file(tmp_path / name, False)
    assert os.listdir(tmp_path) == [name]
    folder = "\u00e9" * 127
    write_folder(tmp_path / folder, False)
    assert sorted(os.listdir(tmp_path)) == [name, folder]


def test_a_working_directory_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "here").rmdir()
    for write in (write_file, write_folder):
        with pytest.raises(
            InputError, match="out: cannot be written: the working directory no longer exists"
        ):
            write(Path("out"), False)


def test_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for force in (False, True):
        with pytest.raises(InputError, match="regular file"):
            write_file(tmp_path / "a", force)
        with pytest.raises(InputError, match="already exists"):
            whole_folder(tmp_path / "a", force=force).__enter__()


def test_a_link_to_a_file_keeps_being_one(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(OLD)
    (tmp_path / "link").symlink_to("real")
    write_file(tmp_path / "link", True)
    assert (tmp_path / "link").is_symlink()
    assert content(tmp_path / "real") == NEW


def test_replays_to_one_place(small_jobs: Path, invoke: Invoke) -> None:
    leftover = Path(".r.0123456789abcdef.partial")
    leftover.mkdir()
    (leftover / "jobs.parquet").write_bytes(b"half")
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r", "-q").returncode == 0
    assert not leftover.exists()
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r", "-q").returncode == 1
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r", "-q", "--force").returncode == 0
    assert foreign(Path("r"), RESULT, Path("r")) == []
