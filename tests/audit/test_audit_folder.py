"""The audit of a result folder, and its command."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import Invoke
from results import story_of, tell, write_case
from ringbco.audits import RULES, check_folder
from ringbco.errors import InputError
from test_audit import CASE, wrong_wait


@pytest.fixture
def result(tmp_path: Path) -> Path:
    """A possible result as a folder, its job table beside it."""
    folder = tmp_path / "result"
    tell(story_of(CASE), write_case(CASE, tmp_path)).write(folder)
    return folder


def test_a_folder(result: Path) -> None:
    assert check_folder(result).ok


def test_the_job_table_may_have_moved(result: Path, tmp_path: Path) -> None:
    moved = (tmp_path / "jobs.csv").rename(tmp_path / "moved.csv")
    with pytest.raises(InputError, match="give it with --jobs"):
        check_folder(result)
    assert check_folder(result, moved).ok


@pytest.mark.parametrize(
    ("broken", "match"),
    [
        (lambda folder: (folder / "jobs.parquet").unlink(), "jobs.parquet"),
        (lambda folder: (folder / "timeline.parquet").unlink(), "timeline.parquet"),
        (lambda folder: (folder / "run.toml").unlink(), "a result folder"),
        (lambda folder: (folder / "summary.json").unlink(), "a result folder"),
        (lambda folder: (folder / "summary.json").write_text("[]"), "summary.json"),
        (lambda folder: (folder / "summary.json").write_text("{"), "summary.json"),
        (lambda folder: truncate(folder / "jobs.parquet"), "jobs.parquet"),
        (lambda folder: truncate(folder / "allocations.parquet"), "allocations.parquet"),
        (lambda folder: edit(folder, 'clock = "continuous"', "clock = 3"), "options.clock"),
        (lambda folder: edit(folder, "slot = 1.0", "slot = 0.0"), "options.slot"),
        (lambda folder: edit(folder, "[options]", "[choices]"), "options"),
        (lambda folder: edit(folder, "gpus = 4", "gpus = 'four'"), "cluster"),
        (lambda folder: edit(folder, "\nservers = ", "\nmachines = "), "cluster"),
        (lambda folder: edit(folder, "xi1 = 1.0", "xi1 = 7.0"), "xi1"),
    ],
)
def test_what_is_no_result_is_refused(result: Path, broken: Callable[[Path], object], match: str) -> None:
    broken(result)
    with pytest.raises(InputError, match=match) as caught:
        check_folder(result)
    assert "\n" not in str(caught.value)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def edit(folder: Path, old: str, new: str) -> None:
    text = (folder / "run.toml").read_text()
    assert old in text
    (folder / "run.toml").write_text(text.replace(old, new))


def test_the_command_on_a_good_result(result: Path, invoke: Invoke) -> None:
    done = invoke("audit", result, "--no-repeat")
    assert (done.returncode, done.stderr) == (0, "")
    assert "17 of 17 checks passed" in done.stdout
    assert all(code in done.stdout for code in RULES)
    assert done.stdout.splitlines()[-1] == "physics only: what the policy decided was not checked"
    done = invoke("audit", result, "--json", "--no-repeat")
    assert json.loads(done.stdout)["ok"] is True


def test_the_command_on_a_bad_result(tmp_path: Path, invoke: Invoke) -> None:
    trace = write_case(CASE, tmp_path)
    outcome = tell(story_of(CASE), trace)
    wrong_wait(outcome)
    outcome.write(tmp_path / "bad")
    done = invoke("audit", "bad", "--no-repeat")
    assert done.returncode == 3
    assert "arithmetic: job job-5: wait_time is 0; expected" in done.stdout
    assert done.stderr.splitlines() == ["error: bad: failed its audit: arithmetic"]
    done = invoke("audit", "bad", "--json", "--no-repeat")
    assert done.returncode == 3
    assert json.loads(done.stdout)["findings"][0]["job"] == "job-5"


def test_the_command_on_no_result(tmp_path: Path, result: Path, invoke: Invoke) -> None:
    truncate(result / "jobs.parquet")
    for folder in (tmp_path, tmp_path / "nowhere", tmp_path / "jobs.csv", result):
        done = invoke("audit", folder)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert invoke("audit").returncode == 2


def test_the_audit_asks_the_engine_for_no_more_than_its_tables(result: Path) -> None:
    script = (
        "import sys; from ringbco import _core\n"
        "tables = {'options', 'policies', 'clairvoyant', 'columns', 'words'}\n"
        "for name in set(_core.__all__) - tables: delattr(_core, name)\n"
        "from ringbco.audits import check_folder; assert check_folder(sys.argv[1]).ok\n"
        "assert 'ringbco.run.replay' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(result)], check=True, timeout=60)
