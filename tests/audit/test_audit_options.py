"""Options in run.toml that the audit reads: odd ones, and those that a result does not have."""

from pathlib import Path

import pytest

import ringbco
from frames import busy_jobs
from ringbco.audits import check_folder
from ringbco.errors import InputError

JOBS = busy_jobs(20)


@pytest.mark.parametrize(
    ("name", "value"),
    [("aging", -1.0), ("aging", "soon"), ("aging", float("nan")), ("ties", "shuffle:x"), ("ties", 3)],
)
def test_odd_options_are_refused(name: str, value: object) -> None:
    outcome = ringbco.replay(JOBS, "2x8", policy="smallest", model="fixed")
    outcome.run["options"][name] = value
    with pytest.raises(InputError, match=f"run.toml: .*{name}"):
        ringbco.audit(outcome, JOBS)


def test_results_from_before_there_were_such_options(tmp_path: Path) -> None:
    outcome = ringbco.replay(JOBS, "2x8", policy="smallest", model="fixed")
    for name in ("aging", "ties", "predict"):
        outcome.run["options"].pop(name, None)
    outcome.write(tmp_path / "old")
    JOBS.write_parquet(tmp_path / "jobs.parquet")
    assert check_folder(tmp_path / "old", tmp_path / "jobs.parquet").ok
