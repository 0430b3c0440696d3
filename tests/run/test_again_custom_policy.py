"""`replay --again` runs nothing that a folder names: a custom policy is given again."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import Invoke
from ringbco import replay
from ringbco.errors import InputError
from ringbco.run.again import compare_results, read_repeat

MINE = """\
import pathlib
import ringbco

pathlib.Path("ran").write_text("ran")

class Mine(ringbco.Policy):
    def decide(self, state):
        state.start(state.waiting)
"""
FOLDER = "import pathlib\npathlib.Path('ran').write_text('ran')\n"


@pytest.fixture
def mine(invoke: Invoke, small_jobs: Path, tmp_path: Path) -> Path:
    """The result of a policy that says when its file is run."""
    (tmp_path / "mine.py").write_text(MINE)
    forget()
    given = ("replay", small_jobs.name, "--cluster", "2x8", "--policy", "mine.py:Mine", "-o", "r", "-q")
    done = invoke(*given)
    assert (done.returncode, done.stderr) == (0, "")
    (tmp_path / "ran").unlink()
    forget()
    return tmp_path / "r" / "run.toml"


def forget() -> None:
    """As in a process that has not run the file yet."""
    for name in [name for name in sys.modules if name.startswith("ringbco_own_")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    "named", ["mine.py:Mine", "r/evil.py:Mine", "this:x", "evil:Mine", "installed", "sfj"]
)
@pytest.mark.parametrize("told", [True, False])
def test_what_run_toml_names_is_not_run(
    invoke: Invoke, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, told: bool
) -> None:
    (tmp_path / "r" / "evil.py").write_text(MINE)
    (tmp_path / "evil.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    record = mine.read_text().replace("mine.py:Mine", named)
    mine.write_text(record if told else record.partition("[own_policy]")[0])
    done = invoke("replay", "--again", "r")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"error: r/run.toml: options.policy: {named}: expected a policy of ringbco: code is not run because a"
        " folder names it; if you know and trust it, give it again as --policy FILE.py:CLASS or MODULE:CLASS;"
        " it is loaded if its SHA-256 is the recorded one\n"
    )
    assert not (tmp_path / "ran").exists()
    assert "this" not in sys.modules


def test_no_other_command_runs_it(invoke: Invoke, mine: Path, tmp_path: Path) -> None:
    for command in (
        ("audit", "r"),
        ("report", "r", "-o", "x.html"),
        ("timeline", "r", "-o", "t.json"),
        ("compare", "small.csv", "--cluster", "2x8", "--policy", "fifo", "--result", "r", "-o", "c"),
    ):
        assert invoke(*command).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_a_policy_that_is_given_again_is_run(invoke: Invoke, mine: Path, tmp_path: Path) -> None:
    done = invoke("replay", "--again", "r", "--policy", "mine.py:Mine")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("the same") == 5
    assert (tmp_path / "ran").exists()
    (tmp_path / "mine.py").rename(tmp_path / "elsewhere.py")
    assert invoke("replay", "--again", "r", "--policy", "elsewhere.py:Mine").returncode == 0
    missing = invoke("replay", "--again", "r", "--policy", "mine.py:Mine")
    assert missing.stderr.startswith("error: mine.py: no such file; ")


def test_another_file_is_refused_before_it_is_run(
    invoke: Invoke, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("box", "box/inner"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "__init__.py").write_text(FOLDER)
    for file in ("mine.py", "changed.py", "box/inner/changed.py"):
        (tmp_path / file).write_text(MINE + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    was = re.search('sha256 = "(.{12}).*"\n', mine.read_text().partition("[own_policy]")[2])
    now = hashlib.sha256((MINE + "\n").encode()).hexdigest()[:12]
    assert was is not None
    for given in ("mine.py:Mine", "changed:Mine", "box.inner.changed:Mine"):
        done = invoke("replay", "--again", "r", "--policy", given)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            "error: r/run.toml: own_policy: mine.py:Mine: expected the policy's file as it was, SHA-256"
            f" {was[1]}; {given} is {now} now, and was not loaded; name the file, or the module, in which the"
            " class itself stands\n"
        )
    for given in ("nowhere:Mine", "box.nowhere:Mine", "sys:x", "sjf"):
        done = invoke("replay", "--again", "r", "--policy", given)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: option policy: '{given}': expected ")
    assert not (tmp_path / "ran").exists()
    (tmp_path / "box" / "inner" / "changed.py").write_text(MINE)
    assert invoke("replay", "--again", "r", "--policy", "box.inner.changed:Mine").returncode == 0
    assert (tmp_path / "ran").exists()


def test_a_module_is_run_from_the_bytes_that_were_compared(mine: Path, tmp_path: Path) -> None:
    """Python would run what lies compiled beside it, which may be of another text."""
    source = tmp_path / "beside.py"
    source.write_text(MINE.replace('"ran"', '"sly"'))  # as long as the honest text
    subprocess.run([sys.executable, "-m", "compileall", "-q", "beside.py"], cwd=tmp_path, check=True)
    times = source.stat()
    source.write_text(MINE)
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    done = subprocess.run(
        [sys.executable, "-m", "ringbco", "replay", "--again", "r", "--policy", "beside:Mine"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "ran").exists()
    assert not (tmp_path / "sly").exists()


def test_a_policy_beside_a_result_that_needs_none(invoke: Invoke, small_jobs: Path) -> None:
    assert invoke("replay", small_jobs, "--cluster", "2x8", "-o", "r", "-q").returncode == 0
    assert invoke("plan", small_jobs, "--cluster", "2x8", "-o", "p", "-q").returncode == 0
    for folder in ("r", "p"):
        done = invoke("replay", "--again", folder, "--policy", "mine.py:Mine")
        assert done.returncode == 2
        assert "option policy: --again takes every setting from run.toml: leave it out" in done.stderr


def test_from_python(mine: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="code is not run because a folder names it"):
        read_repeat("r")
    read_repeat("r", policy="mine.py:Mine").run().write("again")
    assert set(compare_results(Path("r"), Path("again")).values()) == {None}


def test_a_policy_that_was_made_in_memory(invoke: Invoke, small_jobs: Path) -> None:
    space: dict[str, type] = {}
    exec(MINE.replace("pathlib.Path", "str().join or "), {"__name__": "shell"}, space)
    replay(small_jobs, "2x8", policy=space["Mine"]()).write("r")
    done = invoke("replay", "--again", "r", "--policy", "mine.py:Mine")
    assert done.returncode == 1
    assert "own_policy: shell:Mine: expected a policy that stands in a file" in done.stderr


ENTRY = "[ringbco.policies]\nsly = sly:Sly\n"


@pytest.mark.parametrize("command", [("-m", "ringbco"), ("-c", "from ringbco.shell import main; main()")])
def test_what_lies_in_the_working_directory_is_not_installed(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    package = tmp_path / "sly-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: sly\nVersion: 1\n")
    (package / "entry_points.txt").write_text(ENTRY)
    (tmp_path / "sly.py").write_text(MINE.replace("Mine", "Sly"))
    if command[0] == "-m":  # with -c it is Python that imports from here
        (tmp_path / "polars.py").write_text(FOLDER)
    done = subprocess.run(
        [sys.executable, *command, "policies", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert '"sjf"' in done.stdout
    assert '"sly"' not in done.stdout
    assert not (tmp_path / "ran").exists()
