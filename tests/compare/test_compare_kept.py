"""A comparison that is interrupted: its finished runs are kept, and the next call goes on from there."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from conftest import Invoke
from ringbco.result.folder import is_result
from ringbco.result.outcome import Outcome
from ringbco.run.replay import carry_out

POLICIES = ("fifo", "sjf", "rand", "srtf")
ARGUMENTS = (
    *("compare", "small.csv", "--cluster", "2x8", "--seeds", "2", "--threads", "1"),
    *(part for policy in POLICIES for part in ("--policy", policy)),
)
KEPT = Path("cmp.unfinished")
# Dies while the file `die` is there.
DEADLY = """\
import os
import signal

import ringbco


class Deadly(ringbco.KeyPolicy):
    def key(self, state, rows):
        if os.path.exists("die"):
            os.kill(os.getpid(), signal.SIGKILL)
        return rows
"""


Stop = Callable[[int], list[tuple[str, int]]]


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Stop:
    """Lets comparisons be interrupted after so many runs, until it is called again.

    Gives which runs are carried out, in order: policy and seed.
    """

    def stop(number: int) -> list[tuple[str, int]]:
        done: list[tuple[str, int]] = []

        def watched(setup: Any, progress: Any) -> Outcome:
            if len(done) == number:
                raise KeyboardInterrupt
            done.append((setup.chosen.name, setup.values["seed"]))
            return carry_out(setup, progress)

        monkeypatch.setattr(import_module("ringbco.run.compare"), "carry_out", watched)
        return done

    return stop


def tables(folder: str) -> dict[str, bytes]:
    """The files of a comparison that are the same bytes each time."""
    root = Path(folder)
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.name.endswith((".parquet", ".toml"))
    }


@pytest.fixture
def whole(invoke: Invoke, small_jobs: Path) -> dict[str, bytes]:
    """What the comparison is if nobody interrupts it."""
    done = invoke(*ARGUMENTS, "-o", "whole")
    assert (done.returncode, done.stderr) == (0, "")
    assert not Path("whole.unfinished").exists()
    return tables("whole")


def test_more_seeds_go_on_from_one(whole: dict[str, bytes], invoke: Invoke, stopped: Stop) -> None:
    one = ["1" if word == "2" else word for word in ARGUMENTS]
    stopped(2)
    assert invoke(*one, "-o", "cmp").returncode == 130
    stopped(len(POLICIES) * 2)
    assert invoke(*ARGUMENTS, "-o", "cmp").returncode == 0
    assert tables("cmp") == whole


def test_an_interrupted_comparison_goes_on(whole: dict[str, bytes], invoke: Invoke, stopped: Stop) -> None:
    stopped(5)
    first = invoke(*ARGUMENTS, "-o", "cmp")
    assert first.returncode == 130
    where = KEPT.resolve()
    said = f"finished runs are kept in {where}; the same command goes on from there\n"
    assert first.stderr == f"interrupted: 5 {said}"
    assert not Path("cmp").exists()
    stopped(1)
    assert invoke(*ARGUMENTS, "-o", "cmp").stderr == f"interrupted: 6 {said}"
    again = stopped(99)
    done = invoke(*ARGUMENTS, "-o", "cmp")
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"note: 6 runs are of an interrupted comparison, from {where}\n"
    assert again == [("rand", 1), ("srtf", 1)]
    assert tables("cmp") == whole
    assert not KEPT.exists()
    documents = [json.loads(Path(name, "comparison.json").read_text()) for name in ("whole", "cmp")]
    for document in documents:
        del document["measures"]["engine_seconds"]
    for key in ("policies", "measures", "mean_jct_bounds", "mean_jct_bounds_by_run", "folders"):
        assert documents[0][key] == documents[1][key]


@pytest.mark.long
def test_a_killed_comparison_goes_on(whole: dict[str, bytes], small_jobs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(DEADLY)
    command = [sys.executable, "-m", "ringbco", *ARGUMENTS, "--policy", "mine.py:Deadly"]
    (tmp_path / "die").touch()
    killed = subprocess.run([*command, "-o", "cmp"], check=False, capture_output=True, cwd=tmp_path)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "cmp").exists()
    (tmp_path / "die").unlink()
    for out, note in (("cmp", "note: 4 runs are of an interrupted comparison"), ("other", "")):
        done = subprocess.run(
            [*command, "-o", out], check=False, capture_output=True, cwd=tmp_path, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(note)
        assert not (tmp_path / f"{out}.unfinished").exists()
    assert tables("cmp") == tables("other")
    # All but the table of the comparison, which has one policy more.
    assert {name for name, data in whole.items() if tables("cmp").get(name) != data} == {"comparison.parquet"}


def test_what_has_changed_is_run_again(small_jobs: Path, invoke: Invoke, stopped: Stop) -> None:
    stopped(3)
    assert invoke(*ARGUMENTS, "-o", "cmp").returncode == 130
    stopped(0)
    # An option that no policy here uses changes nothing. Of seed 1 the figures are kept, not the tables.
    output = invoke(*ARGUMENTS, "--kappa", "3", "-o", "cmp").stderr
    assert output.startswith("interrupted: 3 finished runs are kept in ")
    for change in (("--seed", "1"), ("--sample", "7"), ("--no-allocations",), ("--alpha", "0.5")):
        assert invoke(*ARGUMENTS, *change, "-o", "cmp").stderr == "interrupted: nothing was written\n"
    small_jobs.write_text(small_jobs.read_text() + "h,1000,1,5\n")
    assert invoke(*ARGUMENTS, "-o", "cmp").stderr == "interrupted: nothing was written\n"
    assert len(list(KEPT.glob("*/record.json"))) == 3


def test_a_damaged_record_is_named_and_made_again(
    whole: dict[str, bytes], invoke: Invoke, stopped: Stop
) -> None:
    stopped(6)
    assert invoke(*ARGUMENTS, "-o", "cmp").returncode == 130
    records = sorted(KEPT.glob("*/record.json"))
    with_tables = [path for path in records if (path.parent / "result").exists()]
    without = [path for path in records if path not in with_tables]
    assert (len(with_tables), len(without)) == (4, 2)
    edited = json.loads(without[0].read_text())
    edited["summary"]["mean_jct"] = 1.0
    without[0].write_text(json.dumps(edited))
    without[1].write_text('{"summary": null}')
    (with_tables[0].parent / "result" / "summary.json").write_text("{}")
    with_tables[1].unlink()
    ran = stopped(99)
    done = invoke(*ARGUMENTS, "-o", "cmp")
    assert done.returncode == 0
    assert sorted(line for line in done.stderr.splitlines() if "was damaged" in line) == sorted(
        f"note: {path.resolve()} was damaged; its run was made again" for path in [*with_tables[:2], *without]
    )
    assert len(ran) == 6
    assert tables("cmp") == whole
    assert not KEPT.exists()


def test_what_others_put_there_stays(small_jobs: Path, invoke: Invoke, stopped: Stop) -> None:
    stopped(2)
    assert invoke(*ARGUMENTS, "-o", "cmp").returncode == 130
    photos = [KEPT / "holiday.png", next(KEPT.glob("*/record.json")).with_name("photo.png")]
    for photo in photos:
        photo.write_bytes(b"mine")
    stopped(99)
    assert invoke(*ARGUMENTS, "-o", "cmp").returncode == 0
    assert [photo.read_bytes() for photo in photos] == [b"mine", b"mine"]
    assert not list(KEPT.rglob("record.json"))
    assert is_result(Path("cmp/fifo"))


@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_a_folder_of_somebody_elses_is_refused(small_jobs: Path, invoke: Invoke, what: str) -> None:
    Path("precious").mkdir()
    Path("precious/photo.png").write_bytes(b"mine")
    if what == "folder":
        Path("precious").rename(KEPT)
    elif what == "file":
        KEPT.write_text("mine")
    else:
        KEPT.symlink_to("precious")
    done = invoke(*ARGUMENTS, "-o", "cmp")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "cmp.unfinished: expected the runs of an interrupted comparison" in done.stderr
    assert not Path("cmp").exists()


def test_a_wrong_input_leaves_nothing_and_takes_nothing(
    small_jobs: Path, invoke: Invoke, stopped: Stop
) -> None:
    Path("mine.py").write_text(
        "import ringbco\n\nclass Bad(ringbco.KeyPolicy):\n    def key(self, state, rows):\n        return 1\n"
    )
    wrong = (*ARGUMENTS, "--policy", "mine.py:Bad", "-o", "new/cmp")
    done = invoke(*wrong)
    assert done.returncode == 1
    assert not Path("new").exists()
    stopped(2)
    assert invoke(*wrong).returncode == 130
    stopped(99)
    done = invoke(*wrong)
    assert done.returncode == 1
    assert "note: 2 finished runs are kept in " in done.stderr
    assert len(list(Path("new/cmp.unfinished").glob("*/record.json"))) == 2


def test_two_of_one_name_do_not_share(whole: dict[str, bytes], invoke: Invoke) -> None:
    KEPT.mkdir()
    other = os.open(KEPT, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    done = invoke(*ARGUMENTS, "-o", "cmp")
    os.close(other)
    assert (done.returncode, done.stderr) == (0, "")
    assert tables("cmp") == whole
    assert list(KEPT.iterdir()) == []


def test_a_disk_without_room_to_keep_is_no_reason_to_fail(small_jobs: Path, small_disk: Path) -> None:
    (small_disk / "fill").write_bytes(bytes(900_000))
    command = [sys.executable, "-m", "ringbco", *ARGUMENTS, "-o", str(small_disk / "cmp"), "-q"]
    done = subprocess.run(command, check=False, capture_output=True, encoding="utf-8", cwd=small_jobs.parent)
    assert done.returncode == 1  # the page alone is larger
    assert "No space left" in done.stderr
    assert "unexpected" not in done.stderr
    assert not (small_disk / "cmp").exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_two_labels_of_one_run(small_jobs: Path, invoke: Invoke, threads: int) -> None:
    arguments = ("compare", "small.csv", "--cluster", "2x8", "--policy", "fifo", "--run", "fifo --seed 0")
    done = invoke(*arguments, "--threads", threads, "-o", "cmp")
    assert (done.returncode, done.stderr) == (0, "")
    assert Outcome.read("cmp/fifo").jobs.equals(Outcome.read("cmp/fifo-seed-0").jobs)
    assert not KEPT.exists()
